// Weights on their way to shared memory, x in registers. Macro: DEEP, steps of weights under way together.
#pragma once
#include "walk.cuh"

constexpr int KEPT = STEPS <= 3 ? STEPS : 2; // steps of x in registers
static_assert(STEPS <= 3 || STEPS % 2 == 0, "two places of x take turns");

// Weights under way: N pieces of 16 bytes a lane and step, SLOTS steps of them. A lane takes back what it asked
// for itself, so nobody waits for anybody. Shared memory it is because loads into registers need a line of
// first-level cache each until they are there, which is what blocks do not share.
template <int SLOTS, int N> struct Ring {
    uint4* mine; // of slot 0

    __device__ Ring(uint4* shared, const Lane& at) : mine(shared + at.warp * N * 32 + at.lane) {}

    __device__ uint4* piece(int slot, int i) const { return mine + (slot * WARPS * N + i) * 32; }

    __device__ void ask(int slot, int i, const Half* from) const {
        const unsigned to = (unsigned)__cvta_generic_to_shared(piece(slot, i));
        asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
    }

    // All pieces of a step are asked for.
    __device__ static void asked() { asm volatile("cp.async.commit_group;" ::: "memory"); }

    // The oldest of SLOTS steps is there.
    __device__ static void take() { asm volatile("cp.async.wait_group %0;" ::"n"(SLOTS - 1) : "memory"); }
};

typedef Ring<DEEP, GROUPS * STEP> Weights;

// This lane's 16 bytes of every chunk of a step, from the place of each group's column.
__device__ inline void ask(const Weights& weights, int slot, const Half* const (&columns)[GROUPS]) {
#pragma unroll
    for (int g = 0; g < GROUPS; ++g)
#pragma unroll
        for (int c = 0; c < STEP; ++c) weights.ask(slot, g * STEP + c, columns[g] + c * CHUNK);
}

// This lane's part of x, KEPT steps of it. Rows beyond the length are 0.
struct Inputs {
    const Half* from; // of the lower row, where there is one
    int rows, row;
    Pair part[KEPT][STEP];

    __device__ Inputs(const Half* x, int rows, const Lane& at)
        : from(x + at.row * K + at.warp * SHARE + at.quarter), rows(rows), row(at.row) {}

    __device__ void load(int step) {
#pragma unroll
        for (int c = 0; c < STEP; ++c) {
            const Half* low = from + step * DEPTH + c * CHUNK;
            const uint4 none = make_uint4(0, 0, 0, 0);
            Pair& to = part[step % KEPT][c];
            to.low = row < rows ? __ldcg(reinterpret_cast<const uint4*>(low)) : none;
            to.high = row + 8 < rows ? __ldcg(reinterpret_cast<const uint4*>(low + 8 * K)) : none;
        }
    }

    __device__ void load() {
#pragma unroll
        for (int step = 0; step < KEPT; ++step) load(step);
    }

    // Sums of a step, whose weights are there. What is not kept is loaded again, two steps ahead.
    __device__ void multiply(Sums& sums, const Weights& weights, int slot, int step) {
#pragma unroll
        for (int c = 0; c < STEP; ++c)
#pragma unroll
            for (int g = 0; g < GROUPS; ++g)
                sums.add(g, part[step % KEPT][c], *weights.piece(slot, g * STEP + c));
        if (KEPT < STEPS) load((step + KEPT) % STEPS);
    }
};
