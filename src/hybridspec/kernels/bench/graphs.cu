// Kernels of one thread that make conditions and, where they are given a node, arm it themselves.
#include "arm.cuh"
#include "early.cuh"

extern "C" __global__ void choose(
    cudaGraphConditionalHandle node, int* index, int chosen, int bodies, int* damaged
) {
    wait_for_last();
    *index = chosen;
    if (node) arm_switch(node, chosen, bodies, damaged);
}

extern "C" __global__ void count(cudaGraphConditionalHandle node, int* left, int* going) {
    wait_for_last();
    const int more = --*left > 0;
    *going = more;
    if (node) arm_loop(node, more);
}
