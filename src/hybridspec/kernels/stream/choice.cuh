// The experts of up to sixteen tokens, from the router's logits: every block chooses for itself, which
// takes less than another kernel would. Macros: E experts, TOP of them a token, PLACES distinct ones at
// most.
#pragma once
#include "tile.cuh"

static_assert(TOP <= 32 && TOP <= E && E <= 1024, "a lane a chosen expert, a bit a key of a lane");

struct Candidate {
    unsigned key;
    int expert;
};

typedef Candidate Candidates[2][32]; // of a warp's two rows

// The distinct experts as the kernel before leaves them, [1 + PLACES]: their number, then each with its rows. It
// does so early: every word says itself when it is there, so the next kernel need not wait for all of this one.
struct Listed {
    static constexpr unsigned THERE = 1u << 31;
    static constexpr int MOST_TRIES = 1 << 26; // a minute
    int count;
    unsigned words[PLACES];

    __device__ static unsigned word(int expert, unsigned rows) { return rows << 10 | expert; }

    __device__ int expert(int place) const { return words[place] & 1023; }

    // A bit a row that chose it.
    __device__ unsigned rows(int place) const { return words[place] >> 10 & 0xffff; }

    // All threads of a block, before the kernel that leaves them lets the next one start.
    __device__ static void forget(unsigned* left) {
        for (int i = threadIdx.x; i <= PLACES; i += THREADS) left[i] = 0;
        __threadfence();
    }

    // All threads of a block.
    __device__ void take(const unsigned* left) {
        for (int i = threadIdx.x; i <= PLACES; i += THREADS) {
            unsigned word = 0;
            for (int tries = 0; !(word & THERE); ++tries) {
                asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(word) : "l"(left + i) : "memory");
                if (tries == MOST_TRIES) __trap(); // nothing was left: an error, not a wait without end
            }
            if (i == 0) count = word & ~THERE;
            else words[i - 1] = word;
        }
        __syncthreads();
    }

    // How many have a lower id. All threads of a block.
    __device__ int below(int id) const {
        int sum = 0;
        for (int i = 0; i < PLACES; i += THREADS) {
            const int place = i + threadIdx.x;
            sum += __syncthreads_count(place < count && expert(place) < id);
        }
        return sum;
    }
};

struct Choice {
    int ids[ROWS][TOP];
    float shares[ROWS][TOP], opening[ROWS];
    unsigned used[(E + 31) / 32], rows_of[E]; // a bit an expert; a bit a row that chose it
    int distinct[PLACES], count; // ascending

    // All threads of a block, some time before make().
    __device__ void clear() {
        if (threadIdx.x < (E + 31) / 32) used[threadIdx.x] = 0;
        for (int e = threadIdx.x; e < E; e += THREADS) rows_of[e] = 0;
        __syncthreads();
    }

    // logits [rows][E + 1], the last of a row being the shared expert's gate. All threads of a block; each
    // does `meanwhile` once its logits are there. space: what the block does not need yet.
    template <class Work>
    __device__ void make(const float* logits, int rows, const Lane& at, Meeting& space, const Work& meanwhile) {
        Candidates& mine = reinterpret_cast<Candidates*>(space.part)[at.warp];
        if (rows > WARPS) choose<2>(logits, rows, at, mine, meanwhile);
        else choose<1>(logits, rows, at, mine, meanwhile);
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
        int sum = 0;
#pragma unroll
        for (int i = 0; i < (E + 31) / 32; ++i) {
            const int bits = min(max(expert - 32 * i, 0), 32); // of this word
            sum += __popc(used[i] & (bits == 32 ? 0xffffffffu : (1u << bits) - 1));
        }
        return sum;
    }

    // A row's weight of an expert; 0 where it was not chosen.
    __device__ float share(int row, int expert) const {
        float sum = 0;
#pragma unroll
        for (int i = 0; i < TOP; ++i) sum += ids[row][i] == expert ? shares[row][i] : 0.0f;
        return sum;
    }

    // For the next kernel: see Listed.
    __device__ void leave(unsigned* left) const {
        for (int i = threadIdx.x; i <= PLACES; i += THREADS) {
            unsigned word = count;
            if (i > 0) word = i > count ? 0 : Listed::word(distinct[i - 1], rows_of[distinct[i - 1]]);
            asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(left + i), "r"(word | Listed::THERE) : "memory");
        }
    }

  private:
    static constexpr int MINE = (E + 31) / 32;
    static constexpr unsigned ALL = 0xffffffffu;

    // A warp has every eighth row, N of them at once: likeliest first, ties to the lowest expert. Experts at
    // least as likely as the TOP-th of the lanes' best are few as a rule, and their order is soon counted.
    template <int N, class Work>
    __device__ void choose(const float* logits, int rows, const Lane& at, Candidates& candidates,
                           const Work& meanwhile) {
        unsigned keys[N][MINE]; // ordered as the logits are; 0 is below all
        float gate[N];
#pragma unroll
        for (int n = 0; n < N; ++n) {
            const float* from = logits + max(min(at.warp + n * WARPS, rows - 1), 0) * (E + 1);
#pragma unroll
            for (int j = 0; j < MINE; ++j) keys[n][j] = __float_as_uint(from[min(32 * j + at.lane, E - 1)]);
            gate[n] = from[E];
        }
        unsigned best[N];
#pragma unroll
        for (int n = 0; n < N; ++n) {
            best[n] = 0;
#pragma unroll
            for (int j = 0; j < MINE; ++j) {
                const unsigned bits = __float_as_uint(__uint_as_float(keys[n][j]) + 0.0f); // -0 becomes 0
                const unsigned key = bits ^ ((int)bits < 0 ? ALL : 0x80000000u);
                keys[n][j] = 32 * j + at.lane < E ? max(key, 1u) : 0;
                best[n] = max(best[n], keys[n][j]);
            }
        }
        // Always; but a compiler cannot know it before the logits are there.
        if (__shfl_sync(ALL, best[N - 1], 0) > 0) meanwhile();
        int count[N];
#pragma unroll
        for (int n = 0; n < N; ++n) {
            int rank = 0; // of this lane's best among the lanes'
#pragma unroll
            for (int i = 0; i < 32; ++i) {
                const unsigned other = __shfl_sync(ALL, best[n], i);
                rank += other > best[n] || (other == best[n] && i < at.lane);
            }
            const int last = __ffs(__ballot_sync(ALL, rank == min(TOP, 32) - 1)) - 1;
            const unsigned least = max(__shfl_sync(ALL, best[n], last), 1u);
            count[n] = 0;
            Candidate* to = candidates[n];
#pragma unroll
            for (int j = 0; j < MINE; ++j) { // in ascending order of experts
                const unsigned likely = __ballot_sync(ALL, keys[n][j] >= least);
                const int place = count[n] + __popc(likely & ((1u << at.lane) - 1));
                if (keys[n][j] >= least && place < 32) to[place] = {keys[n][j], 32 * j + at.lane};
                count[n] += __popc(likely);
            }
        }
        __syncwarp();
#pragma unroll
        for (int n = 0; n < N; ++n) {
            const int row = at.warp + n * WARPS;
            if (count[n] > 32) one_by_one(keys[n], candidates[n], at.lane);
            __syncwarp();
            const int few = count[n] > 32 ? TOP : count[n];
            const Candidate mine = candidates[n][min(at.lane, few - 1)];
            int rank = 0;
#pragma unroll 4
            for (int i = 0; i < few; ++i) {
                const unsigned other = candidates[n][i].key;
                rank += other > mine.key || (other == mine.key && i < at.lane);
            }
            const bool chosen = at.lane < few && rank < TOP;
            const float x = __uint_as_float(mine.key ^ ((int)mine.key < 0 ? 0x80000000u : ALL));
            const float top = __shfl_sync(ALL, x, __ffs(__ballot_sync(ALL, chosen && rank == 0)) - 1);
            const float part = chosen ? expf(x - top) : 0.0f;
            float total = part;
#pragma unroll
            for (int i = 1; i < 32; i *= 2) total += __shfl_xor_sync(ALL, total, i);
            if (row >= rows) continue;
            if (chosen) {
                ids[row][rank] = mine.expert;
                shares[row][rank] = part / total;
                atomicOr(&used[mine.expert / 32], 1u << mine.expert % 32);
                atomicOr(&rows_of[mine.expert], 1u << row);
            }
            if (at.lane == 0) opening[row] = 1.0f / (1.0f + expf(-gate[n]));
        }
    }

    // The same where there are too many candidates: the TOP ones, in ascending order of experts.
    __device__ void one_by_one(unsigned (&keys)[MINE], Candidate* to, int lane) const {
        unsigned taken = 0; // a bit a key of this lane
        for (int i = 0; i < TOP; ++i) {
            unsigned best = 0;
#pragma unroll
            for (int j = 0; j < MINE; ++j) best = max(best, taken >> j & 1 ? 0 : keys[j]);
            best = __reduce_max_sync(ALL, best);
            unsigned first = E;
#pragma unroll
            for (int j = MINE - 1; j >= 0; --j)
                if (!(taken >> j & 1) && keys[j] == best) first = 32 * j + lane;
            first = __reduce_min_sync(ALL, first);
            if (first % 32 == lane) taken |= 1u << first / 32;
        }
        int count = 0;
#pragma unroll
        for (int j = 0; j < MINE; ++j) {
            const unsigned likely = __ballot_sync(ALL, taken >> j & 1);
            if (taken >> j & 1) to[count + __popc(likely & ((1u << lane) - 1))] = {keys[j], 32 * j + lane};
            count += __popc(likely);
        }
    }
};
