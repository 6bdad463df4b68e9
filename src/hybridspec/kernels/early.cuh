// Programmatic dependent launch: wait for the kernel before, then let the next one start. In this
// order whoever runs ahead of its own wait knows that all kernels but the last are done.
#pragma once

__device__ inline void let_next_start() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

__device__ inline void wait_for_last() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
