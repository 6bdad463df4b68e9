// Parts that `split.cu` has left become the result: a block adds 16 columns of eight pairs.
//
// A warp adds every eighth part, then the warps' sums are added, all in one order; a part of which a pair has seen
// nothing adds exactly 0.
#include "early.cuh"
#include "parts.cuh"

constexpr int WARPS = 8, BATCH = 9; // BATCH: parts a warp asks for together

// Rows of a call come one behind the other, so that those below the length are the first to be served.
struct Pair { // of this thread, and its columns
    int eight, t, head, column;

    __device__ Pair() {
        const int lane = threadIdx.x % 32, kv = blockIdx.y % KV, own = blockIdx.y / KV * 8 + lane / 4;
        eight = kv * (TILES * TILE / 8) + blockIdx.y / KV;
        t = own / SHARED;
        head = kv * SHARED + own % SHARED;
        column = blockIdx.x * 16 + lane % 4 * 2;
    }
};

__device__ inline float value(unsigned two, int which) { return __int_as_float(which ? two & 0xffff0000 : two << 16); }

// Maxima and totals of a pair's parts, on their way together: a warp has a pair, a lane some of its parts.
struct Stats {
    float tops[(SLOTS + 31) / 32], totals[(SLOTS + 31) / 32];

    __device__ Stats(const float* its, int count) {
        const int lane = threadIdx.x % 32;
#pragma unroll
        for (int i = 0; i * 32 < SLOTS; ++i) {
            const int slot = i * 32 + lane;
            tops[i] = slot < count ? __ldcg(its + slot) : NOTHING;
            totals[i] = slot < count ? __ldcg(its + SLOTS + slot) : 0;
        }
    }

    // Weights of the parts, for all columns, and the pair's total.
    __device__ void weigh(float (&shares)[SLOTS][8], float (&all)[8], int count) const {
        const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
        float top = NOTHING, total = 0;
#pragma unroll
        for (int i = 0; i * 32 < SLOTS; ++i) top = fmaxf(top, tops[i]);
#pragma unroll
        for (int n = 16; n; n /= 2) top = fmaxf(top, __shfl_xor_sync(~0u, top, n));
#pragma unroll
        for (int i = 0; i * 32 < SLOTS; ++i) {
            const float share = power_of_two(tops[i] - finite(top));
            if (i * 32 + lane < count) shares[i * 32 + lane][warp] = share;
            total = __fmaf_rn(share, totals[i], total);
        }
#pragma unroll
        for (int n = 16; n; n /= 2) total += __shfl_xor_sync(~0u, total, n);
        if (lane == 0) all[warp] = total;
    }
};

// Launched early, it reads position, length and the gate ahead of its turn.
extern "C" __global__ void __launch_bounds__(32 * WARPS, 4)
combine(float* parts, const float* stats, const Half* gate, int gate_row, const int* position, const int* length,
        Half* out) {
    __shared__ float shares[SLOTS][8], totals[8];
    __shared__ float4 sums[WARPS][32];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const Round round(position, length);
    const Pair pair;
    const int count = round.splits(step_of(round.first + pair.t));
    unsigned* to = reinterpret_cast<unsigned*>(out + (pair.t * (KV * SHARED) + pair.head) * D + pair.column);
    const bool real = pair.t < round.w;
    if (!__syncthreads_or(real)) { // no part is read, and nobody else writes here
        if (warp == 0) to[0] = to[4] = 0;
        return;
    }
    unsigned gates[2] = {0, 0};
    const Half* its = gate + (long long)pair.t * gate_row + (2 * pair.head + 1) * D + pair.column;
    if (warp == 0 && real)
        for (int i = 0; i < 2; ++i) gates[i] = *reinterpret_cast<const unsigned*>(its + 8 * i);
    wait_for_last();
    let_next_start();

    float4 sum = make_float4(0, 0, 0, 0), next[BATCH];
    const float4* from = part_of(parts, pair.eight, 0) + blockIdx.x * 32;
    const auto ask = [&](int first) {
#pragma unroll
        for (int i = 0; i < BATCH; ++i) {
            const int slot = first + WARPS * i + warp;
            if (slot < count) next[i] = __ldcg(from + (long long)slot * (EIGHT / 4));
        }
    };
    const Stats its_own(stats + (pair.eight * 8 + warp) * 2 * SLOTS, count);
    ask(0);
    its_own.weigh(shares, totals, count);
    __syncthreads();
    for (int first = 0; first < count; first += WARPS * BATCH) {
        if (first) ask(first);
#pragma unroll
        for (int i = 0; i < BATCH; ++i) {
            const int slot = first + WARPS * i + warp;
            if (slot >= count) break;
            const float share = shares[slot][lane / 4];
            sum.x = __fmaf_rn(share, next[i].x, sum.x);
            sum.y = __fmaf_rn(share, next[i].y, sum.y);
            sum.z = __fmaf_rn(share, next[i].z, sum.z);
            sum.w = __fmaf_rn(share, next[i].w, sum.w);
        }
    }
    sums[warp][lane] = sum;
    __syncthreads();
    if (warp) return;
    for (int i = 1; i < WARPS; ++i) {
        const float4 more = sums[i][lane];
        sum = make_float4(sum.x + more.x, sum.y + more.y, sum.z + more.z, sum.w + more.w);
    }
    const float total = totals[lane / 4], all[4] = {sum.x, sum.y, sum.z, sum.w};
    float o[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) o[i] = real ? all[i] / total / (1 + expf(-value(gates[i / 2], i % 2))) : 0;
    to[0] = packed(o[0], o[1]);
    to[4] = packed(o[2], o[3]);
}
