// The state of Gated DeltaNet in registers, and the walk over tokens that all kernels of this folder
// share: a state row lies in the registers of four threads, so that a sum over it takes two exchanges
// and no barrier. Sizes are macros: KH, VH, DK (a multiple of 16), DV (a multiple of 4). Products and
// sums are fused where spelt, only there.
//
// All 16 tokens are fetched whatever the length, into registers first, so that no load waits for the
// length or for another load; what lies beyond the length is fetched and means nothing.
//
// Pointers are not __restrict__: a compiler could then move their loads ahead of `wait_for_last`.
#pragma once

constexpr int LANES = 4;            // threads of a row
constexpr int ROWS = 32;            // rows of a block
constexpr int THREADS = LANES * ROWS;
constexpr int RESIDENT = 2;         // blocks of a multiprocessor, at least: registers are plenty
constexpr int MOST = 16;            // tokens of a verification
constexpr int QUADS = DK / 4;       // float4s of a key
constexpr int MINE = QUADS / LANES; // of a state row, this thread's: every fourth, to coalesce
constexpr int ROW_QUADS = ROWS / 4; // float4s of a block's values of one token: MOST * 8 = THREADS
constexpr int BLOCKS = (DV + ROWS - 1) / ROWS;

// Programmatic dependent launch: wait for the kernel before, then let the next one start. In this
// order whoever runs ahead of its own wait knows that all kernels but the last are done.
__device__ inline void let_next_start() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

__device__ inline void wait_for_last() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

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

struct State {
    float4 part[MINE];

    __device__ void load(const float4* row, int lane) {
#pragma unroll
        for (int j = 0; j < MINE; ++j) part[j] = row[j * LANES + lane];
    }

    __device__ void store(float4* row, int lane) const {
#pragma unroll
        for (int j = 0; j < MINE; ++j) row[j * LANES + lane] = part[j];
    }

    __device__ void decay(float a) {
#pragma unroll
        for (int j = 0; j < MINE; ++j) part[j] = times(part[j], a);
    }

    // S x, by four sums side by side.
    __device__ float read(const float4* x, int lane) const {
        float4 sum = make_float4(0, 0, 0, 0);
#pragma unroll
        for (int j = 0; j < MINE; ++j) {
            const float4 s = part[j], y = x[j * LANES + lane];
            sum.x = __fmaf_rn(s.x, y.x, sum.x);
            sum.y = __fmaf_rn(s.y, y.y, sum.y);
            sum.z = __fmaf_rn(s.z, y.z, sum.z);
            sum.w = __fmaf_rn(s.w, y.w, sum.w);
        }
        return sum_of_lanes<LANES>((sum.x + sum.y) + (sum.z + sum.w));
    }

    // S + z k^T, the one spelling of it.
    __device__ void write(float z, const float4* k, int lane) {
#pragma unroll
        for (int j = 0; j < MINE; ++j) {
            float4& s = part[j];
            const float4 y = k[j * LANES + lane];
            s.x = __fmaf_rn(z, y.x, s.x);
            s.y = __fmaf_rn(z, y.y, s.y);
            s.z = __fmaf_rn(z, y.z, s.z);
            s.w = __fmaf_rn(z, y.w, s.w);
        }
    }
};

// Where a thread stands: its head, its row of the state, and, in work on whole tokens, the token and
// the four rows of which it takes care.
struct Place {
    int head, key_head, lane, mine, row, token, quad, first;
    bool within, there;

    __device__ Place() {
        head = blockIdx.y, key_head = head / (VH / KH);
        lane = threadIdx.x % LANES, mine = threadIdx.x / LANES;
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
    static constexpr int SHARE = (MOST * QUADS + THREADS - 1) / THREADS;
    float4 part[SHARE];

    __device__ void load(const float* from, int key_head) {
#pragma unroll
        for (int j = 0; j < SHARE; ++j) {
            const int i = min(j * THREADS + (int)threadIdx.x, MOST * QUADS - 1);
            const float* token = from + ((i / QUADS) * KH + key_head) * DK;
            part[j] = reinterpret_cast<const float4*>(token)[i % QUADS];
        }
    }

    __device__ void store(float4* to) const {
#pragma unroll
        for (int j = 0; j < SHARE; ++j) to[min(j * THREADS + (int)threadIdx.x, MOST * QUADS - 1)] = part[j];
    }
};

// What a block keeps of its tokens.
struct Tokens {
    float4 keys[MOST * QUADS], queries[MOST * QUADS];
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

    // Token by token: z and o of this block's rows. S q = (alpha S) q + z (k . q): no second pass.
    template <class Keeps> __device__ void walk(State& s, int w, const Place& at, const Keeps& keeps) {
        const float* v = reinterpret_cast<const float*>(values) + at.mine;
        float* to_z = reinterpret_cast<float*>(z) + at.mine;
        float* to_o = reinterpret_cast<float*>(o) + at.mine;
        for (int t = 0; t < w; ++t) {
            const float4* key = keys + t * QUADS;
            s.decay(alpha[t]);
            const float read = s.read(key, at.lane), seen = s.read(queries + t * QUADS, at.lane);
            const float z_t = beta[t] * (v[t * ROWS] - read);
            s.write(z_t, key, at.lane);
            keeps.after(s, t, at);
            if (at.lane == 0) {
                to_z[t * ROWS] = z_t;
                to_o[t * ROWS] = __fmaf_rn(z_t, overlap[t], seen);
            }
        }
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
            s.decay(alpha[i]);
            s.write(column[i * ROWS], keys + i * QUADS, at.lane);
        }
    }
};
