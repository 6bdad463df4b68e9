// A walk over K, the same for `dense` and `up`: each warp takes an eighth of it, in steps of 128. Macros: K,
// a multiple of 1024; HELD, how many steps of x a warp keeps in shared memory at once.
#pragma once
#include "tile.cuh"

constexpr int SHARE = K / WARPS;           // of K, a warp's
constexpr int STEP = 4;                    // chunks under way together
constexpr int DEPTH = STEP * CHUNK;        // of K, in one step
constexpr int STEPS = SHARE / DEPTH;       // of a tile
constexpr int ROW = HELD * DEPTH + 32;     // of x in shared memory: rows half the banks apart

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

    // x: this warp's rows in shared memory; step: among those that it holds.
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

// Sixteen bytes to shared memory, past registers and the first-level cache.
__device__ inline void copy_async(Half* to, const Half* from) {
    const unsigned place = (unsigned)__cvta_generic_to_shared(to);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(place), "l"(from) : "memory");
}

// HELD steps of this warp's share of x, from `step` on, to shared memory. Rows beyond the length stay as
// they are: nobody looks at their sums.
__device__ inline void fetch(Half* to, const Half* x, int step, int rows, const Lane& at) {
    const int quads = min(HELD, STEPS - step) * (DEPTH / 8);
    const Half* from = x + at.warp * SHARE + step * DEPTH;
    __syncwarp(); // the steps before are done with
#pragma unroll 1
    for (int quad = at.lane; quad < quads; quad += 32)
#pragma unroll 4
        for (int row = 0; row < rows; ++row)
            copy_async(to + row * ROW + 8 * quad, from + row * K + 8 * quad);
    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncwarp();
}
