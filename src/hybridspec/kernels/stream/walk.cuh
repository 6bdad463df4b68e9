// A walk over K: each of eight warps takes an eighth of it, in steps of 128. Macro: K, a multiple of 1024.
#pragma once
#include "tile.cuh"

constexpr int SHARE = K / WARPS;    // of K, a warp's
constexpr int STEP = 4;             // chunks of a step
constexpr int DEPTH = STEP * CHUNK; // of K, in one step
constexpr int STEPS = SHARE / DEPTH; // of a tile

// The tiles of this block among so many: neighbours.
struct Span {
    int first, count;

    __device__ explicit Span(int tiles) {
        first = (long long)blockIdx.x * tiles / gridDim.x;
        count = (int)((long long)(blockIdx.x + 1) * tiles / gridDim.x) - first;
    }

    __device__ int tile(int turn) const { return first + turn; }
};
