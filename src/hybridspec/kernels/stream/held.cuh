// Weights on their way to registers, x in shared memory.
#pragma once
#include "walk.cuh"

constexpr int ROW = SHARE + 32;    // of x in shared memory: rows half the banks apart
constexpr int ROOM = ROWS * ROW;   // of a warp

// Sixteen bytes to shared memory, past registers and the first-level cache.
__device__ inline void copy_async(void* to, const void* from) {
    const unsigned at = (unsigned)__cvta_generic_to_shared(to);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at), "l"(from) : "memory");
}

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

    // from: this lane's place in the lower rows; high: how far the upper ones are from there.
    __device__ void multiply(Sums& sums, const Half* from, int high) const {
#pragma unroll
        for (int c = 0; c < STEP; ++c) {
            const Half* low = from + c * CHUNK;
            const Pair rows = {*reinterpret_cast<const uint4*>(low),
                               *reinterpret_cast<const uint4*>(low + high)};
#pragma unroll
            for (int g = 0; g < GROUPS; ++g) sums.add(g, rows, part[g][c]);
        }
    }
};

// This warp's share of x in shared memory. Rows beyond the length hold anything: nobody looks at their sums.
// With eight rows or less the upper ones are the lower again.
struct Rows {
    const Half* from;
    Half* place;
    int rows, high;

    __device__ Rows(const Half* x, Half* shared, int rows, const Lane& at)
        : from(x + at.warp * SHARE), place(shared + at.warp * ROOM), rows(rows), high(rows > 8 ? 8 * ROW : 0) {}

    // All are on their way.
    __device__ void ask(const Lane& at) const {
        for (int quad = at.lane; quad < SHARE / 8; quad += 32)
#pragma unroll 4
            for (int r = 0; r < rows; ++r) copy_async(place + r * ROW + 8 * quad, from + r * K + 8 * quad);
    }

    // They are there, for all of the warp.
    __device__ void take() const {
        asm volatile("cp.async.wait_all;" ::: "memory");
        __syncwarp();
    }

    // Where a step lies for this lane.
    __device__ const Half* at_step(int step, const Lane& at) const {
        return place + at.row * ROW + step * DEPTH + at.quarter;
    }
};
