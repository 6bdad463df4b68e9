// A conditional node's own kernels, one thread each: they read what earlier kernels have left.
#include "arm.cuh"

extern "C" __global__ void switch_node(
    cudaGraphConditionalHandle node, const int* index, int bodies, int* damaged
) {
    arm_switch(node, *index, bodies, damaged);
}

extern "C" __global__ void loop_node(cudaGraphConditionalHandle node, const int* going) {
    arm_loop(node, *going);
}
