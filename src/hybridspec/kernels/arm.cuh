// Conditional nodes of a CUDA graph: the last kernel before a SWITCH sets which body runs, the last
// one of a WHILE's body whether there is another round. The function is the driver's: no library
// defines it, and it is found when a module is loaded. Only kernels inside the graph whose node it
// is may set a handle.
#pragma once

extern "C" __device__ __cudart_builtin__ void CUDARTAPI
cudaGraphSetConditional(cudaGraphConditionalHandle, unsigned int);

// A SWITCH whose value has no body runs none: the last one runs instead, and the host is told.
__device__ inline void arm_switch(
    cudaGraphConditionalHandle node, int index, int bodies, int* damaged
) {
    const bool within = 0 <= index && index < bodies;
    if (!within) *damaged = 1;
    cudaGraphSetConditional(node, within ? index : bodies - 1);
}

__device__ inline void arm_loop(cudaGraphConditionalHandle node, int going) {
    cudaGraphSetConditional(node, going != 0);
}
