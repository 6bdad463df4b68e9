// The experts of up to sixteen tokens, from the router's logits: every block chooses for itself, which
// takes less than another kernel would. Macros: E experts, TOP of them a token, PLACES distinct ones at
// most.
#pragma once
#include "tile.cuh"

struct Choice {
    int ids[ROWS][TOP];
    float shares[ROWS][TOP], opening[ROWS];
    unsigned used[(E + 31) / 32];
    int distinct[PLACES], count; // ascending

    // logits [rows][E + 1], the last of a row being the shared expert's gate. All threads of a block.
    __device__ void make(const float* logits, int rows, const Lane& at) {
        if (threadIdx.x < (E + 31) / 32) used[threadIdx.x] = 0;
        __syncthreads();
        for (int row = at.warp; row < rows; row += WARPS) choose(logits + row * (E + 1), row, at.lane);
        __syncthreads();
        for (int e = threadIdx.x; e < E; e += THREADS) {
            const int place = below(e), chosen = used[e / 32] >> e % 32 & 1;
            if (chosen) distinct[place] = e;
            if (e == E - 1) count = place + chosen;
        }
        __syncthreads();
    }

    // How many distinct experts have a lower id, which E must exceed.
    __device__ int below(int expert) const {
        int sum = __popc(used[expert / 32] & ((1u << expert % 32) - 1));
        for (int i = 0; i < expert / 32; ++i) sum += __popc(used[i]);
        return sum;
    }

    // A row's weight of an expert; 0 where it was not chosen.
    __device__ float share(int row, int expert) const {
        float sum = 0;
#pragma unroll
        for (int i = 0; i < TOP; ++i) sum += ids[row][i] == expert ? shares[row][i] : 0.0f;
        return sum;
    }

    // The rows that chose an expert, a bit each.
    __device__ unsigned rows_of(int expert, int rows) const {
        unsigned bits = 0;
        for (int row = 0; row < rows; ++row)
#pragma unroll
            for (int i = 0; i < TOP; ++i) bits |= ids[row][i] == expert ? 1u << row : 0u;
        return bits;
    }

  private:
    // One warp: likeliest first, ties to the lowest expert.
    __device__ void choose(const float* logits, int row, int lane) {
        constexpr int MINE = (E + 31) / 32;
        constexpr unsigned ALL = 0xffffffffu;
        unsigned keys[MINE]; // ordered as the logits are; 0 is below all
#pragma unroll
        for (int j = 0; j < MINE; ++j) {
            const int e = 32 * j + lane;
            const unsigned bits = __float_as_uint(logits[min(e, E - 1)] + 0.0f); // -0 becomes 0
            keys[j] = e < E ? bits ^ ((int)bits < 0 ? ALL : 0x80000000u) : 0;
        }
        const float gate = logits[E];
        float top = 0, total = 0, mine = 0;
        for (int i = 0; i < TOP; ++i) {
            unsigned best = 0;
#pragma unroll
            for (int j = 0; j < MINE; ++j) best = max(best, keys[j]);
            best = __reduce_max_sync(ALL, best);
            unsigned first = E;
#pragma unroll
            for (int j = MINE - 1; j >= 0; --j)
                if (keys[j] == best) first = 32 * j + lane;
            first = __reduce_min_sync(ALL, first);
#pragma unroll
            for (int j = 0; j < MINE; ++j)
                if (first == 32 * j + lane) keys[j] = 0;
            const float x = __uint_as_float(best ^ ((int)best < 0 ? 0x80000000u : ALL));
            if (i == 0) top = x;
            const float part = expf(x - top);
            total += part;
            if (lane == i) mine = part;
            if (lane == 0) {
                ids[row][i] = first;
                atomicOr(&used[first / 32], 1u << first % 32);
            }
        }
        if (lane < TOP) shares[row][lane] = mine / total;
        if (lane == 0) opening[row] = 1.0f / (1.0f + expf(-gate));
    }
};
