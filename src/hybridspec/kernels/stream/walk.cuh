// A walk over K, the same for `dense` and `up`: each warp takes an eighth of it, in steps of 128. Macro: K,
// a multiple of 1024.
#pragma once
#include "tile.cuh"

constexpr int SHARE = K / WARPS;           // of K, a warp's
constexpr int STEP = 4;                    // chunks under way together
constexpr int DEPTH = STEP * CHUNK;        // of K, in one step
constexpr int STEPS = SHARE / DEPTH;       // of a tile
constexpr int ROW = SHARE + 32;            // of x in shared memory: rows half the banks apart

// The tiles of this block among so many: neighbours.
struct Span {
    int first, count;

    __device__ explicit Span(int tiles) {
        first = (long long)blockIdx.x * tiles / gridDim.x;
        count = (int)((long long)(blockIdx.x + 1) * tiles / gridDim.x) - first;
    }

    __device__ int tile(int turn) const { return first + turn; }
};

// The weights of a step, on their way or there.
struct Step {
    uint4 part[GROUPS][STEP];

    // This lane's 16 bytes of every chunk, from the place of each group's column.
    __device__ void load(const Half* const (&columns)[GROUPS]) {
#pragma unroll
        for (int g = 0; g < GROUPS; ++g)
#pragma unroll
            for (int c = 0; c < STEP; ++c) part[g][c] = read_once(columns[g] + c * CHUNK);
    }

    // x: this warp's rows in shared memory.
    __device__ void multiply(Sums& sums, const Half* x, int step, const Lane& at) const {
        const Half* from = x + at.row * ROW + step * DEPTH + at.quarter;
#pragma unroll
        for (int c = 0; c < STEP; ++c) {
            const Half* low = from + c * CHUNK;
            const Pair rows = {*reinterpret_cast<const uint4*>(low),
                               *reinterpret_cast<const uint4*>(low + 8 * ROW)};
#pragma unroll
            for (int g = 0; g < GROUPS; ++g) sums.add(g, rows, part[g][c]);
        }
    }
};

// This warp's share of x to shared memory. Rows beyond the length stay as they are: nobody looks at
// their sums.
__device__ inline void fetch(Half* to, const Half* x, int rows, const Lane& at) {
    constexpr int QUADS = SHARE / 8, BATCH = 8;
    const Half* from = x + at.warp * SHARE;
#pragma unroll 1
    for (int quad = at.lane; quad < QUADS; quad += 32)
#pragma unroll 1
        for (int begin = 0; begin < rows; begin += BATCH) {
            uint4 part[BATCH];
#pragma unroll
            for (int r = 0; r < BATCH; ++r)
                if (begin + r < rows)
                    part[r] = *reinterpret_cast<const uint4*>(from + (begin + r) * K + 8 * quad);
#pragma unroll
            for (int r = 0; r < BATCH; ++r)
                if (begin + r < rows)
                    *reinterpret_cast<uint4*>(to + (begin + r) * ROW + 8 * quad) = part[r];
        }
}
