// The state of Gated DeltaNet in registers, and the walk over tokens that all kernels of this folder
// share. A thread holds its share of EACH neighbouring rows of the state, so that what it reads of a
// key serves them all; 4 * EACH threads hold a row, so that a sum over it takes a few exchanges and no
// barrier. Macros: KH, VH, DK (a multiple of 16 * EACH), DV (a multiple of 4), EACH (1, 2 or 4).
// Products and sums are fused where spelt, only there.
//
// All 16 tokens are fetched whatever the length, into registers first, so that no load waits for the
// length or for another load; what lies beyond the length is fetched and means nothing.
//
// Pointers are not __restrict__: a compiler could then move their loads ahead of `wait_for_last`.
#pragma once
#include "early.cuh"

constexpr int LANES = 4 * EACH;     // threads of a row: registers are the same for every EACH
constexpr int ROWS = 32;            // rows of a block
constexpr int THREADS = LANES * ROWS / EACH;
constexpr int RESIDENT = 2;         // blocks of a multiprocessor, at least: registers are plenty
constexpr int MOST = 16;            // tokens of a verification
constexpr int QUADS = DK / 4;       // float4s of a key
constexpr int MINE = QUADS / LANES; // of them, this thread's: every LANES-th, to coalesce
constexpr int ROW_QUADS = ROWS / 4; // float4s of a block's values of one token: MOST * 8 = THREADS
constexpr int BLOCKS = (DV + ROWS - 1) / ROWS;
static_assert(QUADS % LANES == 0, "a row must divide among its threads by 16 bytes");
static_assert(DV % 4 == 0, "a thread's rows are all within a head or all beyond it");

template <int WIDTH> __device__ inline float sum_of_lanes(float x) {
#pragma unroll
    for (int i = 1; i < WIDTH; i *= 2) x += __shfl_xor_sync(0xffffffffu, x, i);
    return x;
}

// x y^T of four, on top of a sum.
__device__ inline float dot(float4 x, float4 y, float sum) {
    sum = __fmaf_rn(x.x, y.x, sum);
    sum = __fmaf_rn(x.y, y.y, sum);
    sum = __fmaf_rn(x.z, y.z, sum);
    return __fmaf_rn(x.w, y.w, sum);
}

__device__ inline float4 times(float4 x, float a) {
    return make_float4(x.x * a, x.y * a, x.z * a, x.w * a);
}

// Of EACH numbers, that of row lane % EACH.
__device__ inline float own(const float (&x)[EACH], int lane) {
    float y = x[0];
#pragma unroll
    for (int e = 1; e < EACH; ++e) y = lane % EACH == e ? x[e] : y;
    return y;
}

// The same of their sums over lanes: a lane gives away the rows of which it does not take care.
__device__ inline float own_sum(float (&x)[EACH], int lane) {
#pragma unroll
    for (int i = 1; i < EACH; i *= 2) {
#pragma unroll
        for (int e = 0; e < EACH / 2 / i; ++e) {
            const float even = x[2 * e], odd = x[2 * e + 1];
            x[e] = (lane & i ? odd : even) + __shfl_xor_sync(0xffffffffu, lane & i ? even : odd, i);
        }
    }
    float sum = x[0];
#pragma unroll
    for (int i = EACH; i < LANES; i *= 2) sum += __shfl_xor_sync(0xffffffffu, sum, i);
    return sum;
}

// This thread's share of a key or of a row of the state.
struct Share {
    float4 part[MINE];

    __device__ void load(const float4* row, int lane) {
#pragma unroll
        for (int j = 0; j < MINE; ++j) part[j] = row[j * LANES + lane];
    }

    __device__ void store(float4* row, int lane) const {
#pragma unroll
        for (int j = 0; j < MINE; ++j) row[j * LANES + lane] = part[j];
    }

    // Its part of a row times x, by four sums side by side.
    __device__ float read(const Share& x) const {
        float4 sum = make_float4(0, 0, 0, 0);
#pragma unroll
        for (int j = 0; j < MINE; ++j) {
            const float4 s = part[j], y = x.part[j];
            sum.x = __fmaf_rn(s.x, y.x, sum.x);
            sum.y = __fmaf_rn(s.y, y.y, sum.y);
            sum.z = __fmaf_rn(s.z, y.z, sum.z);
            sum.w = __fmaf_rn(s.w, y.w, sum.w);
        }
        return (sum.x + sum.y) + (sum.z + sum.w);
    }
};

struct State {
    Share row[EACH];

    __device__ void load(const float4* rows, int lane) {
#pragma unroll
        for (int e = 0; e < EACH; ++e) row[e].load(rows + e * QUADS, lane);
    }

    __device__ void store(float4* rows, int lane) const {
#pragma unroll
        for (int e = 0; e < EACH; ++e) row[e].store(rows + e * QUADS, lane);
    }

    // alpha S, the first half of an update.
    __device__ void decay(float alpha) {
#pragma unroll
        for (int e = 0; e < EACH; ++e) {
#pragma unroll
            for (int j = 0; j < MINE; ++j) row[e].part[j] = times(row[e].part[j], alpha);
        }
    }

    // S + z k^T, the other half. There is no other spelling of the two.
    __device__ void write(const float (&z)[EACH], const Share& k) {
#pragma unroll
        for (int e = 0; e < EACH; ++e) {
#pragma unroll
            for (int j = 0; j < MINE; ++j) {
                float4& s = row[e].part[j];
                const float4 y = k.part[j];
                s.x = __fmaf_rn(z[e], y.x, s.x);
                s.y = __fmaf_rn(z[e], y.y, s.y);
                s.z = __fmaf_rn(z[e], y.z, s.z);
                s.w = __fmaf_rn(z[e], y.w, s.w);
            }
        }
    }
};

// Where a thread stands: its head, the first of its rows of the state, and, in work on whole tokens,
// the token and the four rows of which it takes care.
struct Place {
    int head, key_head, lane, mine, row, token, quad, first;
    bool within, there;

    __device__ Place() {
        head = blockIdx.y, key_head = head / (VH / KH);
        lane = threadIdx.x % LANES, mine = threadIdx.x / LANES * EACH;
        row = blockIdx.x * ROWS + mine;
        token = threadIdx.x / ROW_QUADS, quad = threadIdx.x % ROW_QUADS;
        first = blockIdx.x * ROWS + 4 * quad;
        within = row < DV, there = first < DV;
        if (!within) row = 0; // rows that are not there work along, unseen
        if (!there) first = 0;
    }

    __device__ long long state() const { return ((long long)head * DV + row) * DK; }
    __device__ bool first_of_key() const { return blockIdx.x == 0 && head % (VH / KH) == 0; }
    __device__ int value() const { return (token * VH + head) * DV + first; }
};

// One head's keys on their way from [MOST, KH, DK] to shared memory.
struct Carried {
    static constexpr int SHARE = MOST * QUADS / THREADS;
    float4 part[SHARE];

    __device__ void load(const float* from, int key_head) {
#pragma unroll
        for (int j = 0; j < SHARE; ++j) {
            const int i = j * THREADS + threadIdx.x;
            const float* token = from + ((i / QUADS) * KH + key_head) * DK;
            part[j] = reinterpret_cast<const float4*>(token)[i % QUADS];
        }
    }

    __device__ void store(float4* to) const {
#pragma unroll
        for (int j = 0; j < SHARE; ++j) to[j * THREADS + threadIdx.x] = part[j];
    }
};
static_assert(MOST * QUADS % THREADS == 0, "threads divide the keys evenly");

// What a block keeps of its tokens. `walk` fetches one token ahead, and nothing comes of the last.
struct Tokens {
    float4 keys[(MOST + 1) * QUADS], queries[(MOST + 1) * QUADS];
    float4 values[MOST * ROW_QUADS], z[MOST * ROW_QUADS], o[MOST * ROW_QUADS];
    float alpha[MOST], beta[MOST], overlap[MOST];

    // k . q of every token, eight threads each.
    __device__ void overlaps(const Place& at) {
        float sum = 0;
        for (int j = at.quad; j < QUADS; j += ROW_QUADS)
            sum = dot(keys[at.token * QUADS + j], queries[at.token * QUADS + j], sum);
        sum = sum_of_lanes<ROW_QUADS>(sum);
        if (at.quad == 0) overlap[at.token] = sum;
    }

    // Token by token: z and o of this block's rows. Each step fetches what the next one begins with.
    template <class Keeps> __device__ void walk(State& s, int w, const Place& at, const Keeps& keeps) {
        Share query, even, odd;
        even.load(keys, at.lane);
        query.load(queries, at.lane);
        for (int t = 0; t < w; t += 2) {
            step(s, t, even, odd, query, at, keeps);
            if (t + 1 < w) step(s, t + 1, odd, even, query, at, keeps);
        }
    }

    // S' = alpha S gives z = beta (v - S' k) and S q = S' q + z (k . q). Both products read S, and
    // alpha multiplies the sums: the decay of S fills the time that their exchanges take.
    template <class Keeps>
    __device__ void step(State& s, int t, const Share& key, Share& next, Share& query,
                         const Place& at, const Keeps& keeps) {
        const float a = alpha[t], rate = beta[t];
        float z_t[EACH], seen[EACH];
        next.load(keys + (t + 1) * QUADS, at.lane);
#pragma unroll
        for (int e = 0; e < EACH; ++e) z_t[e] = sum_of_lanes<LANES>(s.row[e].read(key));
#pragma unroll
        for (int e = 0; e < EACH; ++e) seen[e] = s.row[e].read(query);
        query.load(queries + (t + 1) * QUADS, at.lane);
        s.decay(a);
#pragma unroll
        for (int e = 0; e < EACH; ++e)
            z_t[e] = rate * __fmaf_rn(-a, z_t[e], part_of(values, t, at.mine + e));
        s.write(z_t, key);
        keeps.after(s, t, at);
        const float z_own = own(z_t, at.lane), seen_own = a * own_sum(seen, at.lane);
        if (at.lane < EACH) {
            part_of(z, t, at.mine + at.lane) = z_own;
            part_of(o, t, at.mine + at.lane) = __fmaf_rn(z_own, overlap[t], seen_own);
        }
    }

    // One row's number of token t.
    __device__ static float& part_of(float4* x, int t, int row) {
        return reinterpret_cast<float*>(x)[t * ROWS + row];
    }
};

// Factors of up to COUNT tokens, which turn a state into the one after any first n of them: the very
// operations that `walk` did on it.
template <int COUNT> struct Past {
    float4 keys[COUNT * QUADS], z[COUNT * ROW_QUADS];
    float alpha[COUNT];

    __device__ void load(const float* from_z, const float* from_k, const float* from_alpha,
                         const Place& at) {
        constexpr int TURNS = COUNT / MOST;
        Carried key[TURNS];
        float4 value[TURNS];
#pragma unroll
        for (int i = 0; i < TURNS; ++i) {
            key[i].load(from_k + i * MOST * KH * DK, at.key_head);
            value[i] = *reinterpret_cast<const float4*>(from_z + i * MOST * VH * DV + at.value());
        }
        const int t = threadIdx.x % COUNT;
        const float decay = from_alpha[t * VH + at.head];
#pragma unroll
        for (int i = 0; i < TURNS; ++i) {
            key[i].store(keys + i * MOST * QUADS);
            z[i * THREADS + threadIdx.x] = value[i];
        }
        if (threadIdx.x < COUNT) alpha[t] = decay;
    }

    __device__ void replay(State& s, int n, const Place& at) const {
        const float* column = reinterpret_cast<const float*>(z) + at.mine;
        for (int i = 0; i < n; ++i) {
            Share key;
            float z_i[EACH];
            key.load(keys + i * QUADS, at.lane);
#pragma unroll
            for (int e = 0; e < EACH; ++e) z_i[e] = column[i * ROWS + e];
            s.decay(alpha[i]);
            s.write(z_i, key);
        }
    }
};
