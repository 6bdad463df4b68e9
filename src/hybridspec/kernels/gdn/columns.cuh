// Verification of a layer from raw columns: q, k, v and the gates are made here, and outputs leave
// gated. DK is 32, 64 or 128; RAW_FP32: raw columns are fp32, else bf16. The law: model/gdn.py.
#pragma once
#include "tokens.cuh"

#if RAW_FP32
typedef float Raw;
typedef float4 Raw4;
__device__ inline float widened(Raw x) { return x; }
__device__ inline float4 widened(Raw4 x) { return x; }
__device__ inline Raw4 narrowed(float4 x) { return x; }
#else
typedef unsigned short Raw;
typedef uint2 Raw4;
__device__ inline float widened(Raw x) { return __uint_as_float((unsigned)x << 16); }
__device__ inline float4 widened(Raw4 x) {
    return make_float4(__uint_as_float(x.x << 16), __uint_as_float(x.x & 0xffff0000u),
                       __uint_as_float(x.y << 16), __uint_as_float(x.y & 0xffff0000u));
}
__device__ inline unsigned narrowed(float low, float high) {
    unsigned both;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    return both;
}
__device__ inline Raw4 narrowed(float4 x) {
    return make_uint2(narrowed(x.x, x.y), narrowed(x.z, x.w));
}
#endif

constexpr int TAPS = 4;
constexpr int CHANNELS = 2 * KH * DK + VH * DV;
constexpr int RUN = MOST * QUADS / THREADS; // tokens a thread convolves
constexpr float L2_EPS = 1e-6f;

__device__ inline float silu(float x) { return __fdividef(x, 1.0f + __expf(-x)); }

__device__ inline float4 silu(float4 x) {
    return make_float4(silu(x.x), silu(x.y), silu(x.z), silu(x.w));
}

// Four channels of COUNT tokens in a row, and their convolution: raw columns begin with three of
// history, so token t reads rows t to t + 3.
template <int COUNT> struct Window {
    Raw4 x[COUNT + TAPS - 1];
    float4 tap[TAPS];

    __device__ void load_taps(const float* taps, int channel) {
#pragma unroll
        for (int i = 0; i < TAPS; ++i)
            tap[i] = *reinterpret_cast<const float4*>(taps + i * CHANNELS + channel);
    }

    __device__ void load(const Raw* raw, int row, int token, int channel) {
#pragma unroll
        for (int i = 0; i < COUNT + TAPS - 1; ++i)
            x[i] = *reinterpret_cast<const Raw4*>(raw + (long long)(token + i) * row + channel);
    }

    // Convolved, through SiLU, and rounded as the model rounds it.
    __device__ float4 at(int token) const {
        float4 y = make_float4(0, 0, 0, 0);
#pragma unroll
        for (int i = 0; i < TAPS; ++i) {
            const float4 column = widened(x[token + i]);
            y.x = __fmaf_rn(tap[i].x, column.x, y.x);
            y.y = __fmaf_rn(tap[i].y, column.y, y.y);
            y.z = __fmaf_rn(tap[i].z, column.z, y.z);
            y.w = __fmaf_rn(tap[i].w, column.w, y.w);
        }
        return widened(narrowed(silu(y)));
    }
};

// log(1 + e^x), without loss where e^x is small; x itself where that is all there is.
__device__ inline float softplus(float x) {
    const float e = expf(x), whole = 1.0f + e;
    const float y = whole == 1.0f ? e : logf(whole) * e / (whole - 1.0f);
    return x > 20.0f ? x : y;
}

// A layer's columns and small weights, and where its outputs go.
struct Columns {
    const Raw* raw;
    int row; // values from one token to the next
    const float *taps, *decay_rate, *bias, *norm;
    Raw* gated;
    float* squares;
};

template <class Keeps>
__device__ inline void from_columns(const Keeps& keeps, const Columns& c, const float* state, float* z,
                                    float* k, float* alpha, const int* length) {
    __shared__ Tokens x;
    const Place at;
    // Work on keys: this thread's four channels of RUN tokens.
    const int begin = threadIdx.x / QUADS * RUN, quad = threadIdx.x % QUADS;
    const int q_channel = at.key_head * DK + 4 * quad, k_channel = KH * DK + q_channel;
    const int v_channel = 2 * KH * DK + at.head * DV + at.first;
    Window<RUN> q_window, k_window;
    Window<1> v_window;
    // Read early, like all weights and the length: whoever wrote them is never the kernel just before.
    const int w = *length, t = threadIdx.x % MOST;
    State s;
    s.load(reinterpret_cast<const float4*>(state + at.state()), at.lane);
    q_window.load_taps(c.taps, q_channel);
    k_window.load_taps(c.taps, k_channel);
    v_window.load_taps(c.taps, v_channel);
    const float4 factor = *reinterpret_cast<const float4*>(c.norm + at.first);
    const float falling = c.decay_rate[at.head], shift = c.bias[at.head];
    const int kept = keeps.before(s, at);
    wait_for_last();
    let_next_start();
    q_window.load(c.raw, c.row, begin, q_channel);
    k_window.load(c.raw, c.row, begin, k_channel);
    v_window.load(c.raw, c.row, at.token, v_channel);
    const Raw* token = c.raw + (long long)(at.token + TAPS - 1) * c.row + CHANNELS;
    const Raw4 gate = *reinterpret_cast<const Raw4*>(token + at.head * DV + at.first);
    const Raw* gates = c.raw + (long long)(t + TAPS - 1) * c.row + CHANNELS + VH * DV + at.head;
    const Raw b = gates[0], a = gates[VH];

#pragma unroll
    for (int i = 0; i < RUN; ++i) {
        float4 key = k_window.at(i), query = q_window.at(i);
        key = times(key, rsqrtf(sum_of_lanes<QUADS>(dot(key, key, 0)) + L2_EPS));
        const float inverse = rsqrtf(sum_of_lanes<QUADS>(dot(query, query, 0)) + L2_EPS);
        query = times(query, inverse * (1.0f / sqrtf((float)DK)));
        const float overlap = sum_of_lanes<QUADS>(dot(key, query, 0));
        x.keys[(begin + i) * QUADS + quad] = key;
        x.queries[(begin + i) * QUADS + quad] = query;
        if (quad == 0) x.overlap[begin + i] = overlap;
        if (Keeps::FACTORS && at.first_of_key() && begin + i < w) {
            float* to = k + ((kept + begin + i) * KH + at.key_head) * DK + 4 * quad;
            *reinterpret_cast<float4*>(to) = key;
        }
    }
    x.values[threadIdx.x] = v_window.at(0);
    if (threadIdx.x < MOST) {
        const float decay = expf(falling * softplus(widened(a) + shift));
        x.alpha[t] = decay;
        x.beta[t] = 1.0f / (1.0f + expf(-widened(b)));
        if (Keeps::FACTORS && blockIdx.x == 0 && t < w) alpha[(kept + t) * VH + at.head] = decay;
    }
    __syncthreads();
    x.walk(s, w, at, keeps);
    __syncthreads();
    const float4 o = x.o[threadIdx.x], opened = silu(widened(gate));
    const float square = sum_of_lanes<ROW_QUADS>(at.there && at.token < w ? dot(o, o, 0) : 0.0f);
    if (at.token >= w) return;
    if (at.quad == 0) c.squares[(at.token * VH + at.head) * BLOCKS + blockIdx.x] = square;
    if (!at.there) return;
    if (Keeps::FACTORS)
        *reinterpret_cast<float4*>(z + kept * VH * DV + at.value()) = x.z[threadIdx.x];
    const float4 left = make_float4(o.x * factor.x * opened.x, o.y * factor.y * opened.y,
                                    o.z * factor.z * opened.z, o.w * factor.w * opened.w);
    *reinterpret_cast<Raw4*>(c.gated + at.value()) = narrowed(left);
}
