// `exact` verification and commit: a state row lies in the registers of four threads, so that a sum
// over it takes two exchanges and no barrier. Sizes are macros: KH, VH, DK (a multiple of 16), DV (a
// multiple of 4), and RAW_FP32 (raw columns are fp32, else bf16). The law: naive.recurrent and
// naive.retrace; of `fused`, model/gdn.py. Products and sums are fused where spelt, only there.
//
// All 16 tokens are fetched whatever the length, into registers first, so that no load waits for the
// length or for another load; what lies beyond the length is fetched and means nothing.
//
// Pointers are not __restrict__: a compiler could then move their loads ahead of `wait_for_last`.

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
    __device__ void walk(State& s, int w, const Place& at) {
        const float* v = reinterpret_cast<const float*>(values) + at.mine;
        float* to_z = reinterpret_cast<float*>(z) + at.mine;
        float* to_o = reinterpret_cast<float*>(o) + at.mine;
        for (int t = 0; t < w; ++t) {
            const float4* key = keys + t * QUADS;
            s.decay(alpha[t]);
            const float read = s.read(key, at.lane), seen = s.read(queries + t * QUADS, at.lane);
            const float z_t = beta[t] * (v[t * ROWS] - read);
            s.write(z_t, key, at.lane);
            if (at.lane == 0) {
                to_z[t * ROWS] = z_t;
                to_o[t * ROWS] = __fmaf_rn(z_t, overlap[t], seen);
            }
        }
    }
};

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT)
verify(const float* q, const float* k, const float* v, const float* beta, const float* alpha,
       const float* state, float* o, float* z, const int* length) {
    __shared__ Tokens x;
    const Place at;
    State s; // read early: the commit that wrote it is never the kernel just before
    s.load(reinterpret_cast<const float4*>(state + at.state()), at.lane);
    wait_for_last();
    let_next_start();
    const int w = *length, t = threadIdx.x % MOST;
    Carried key, query;
    key.load(k, at.key_head);
    query.load(q, at.key_head);
    const float4 value = *reinterpret_cast<const float4*>(v + at.value());
    const float decay = alpha[t * VH + at.head], rate = beta[t * VH + at.head];
    key.store(x.keys);
    query.store(x.queries);
    x.values[threadIdx.x] = value;
    if (threadIdx.x < MOST) x.alpha[t] = decay, x.beta[t] = rate;
    __syncthreads();
    x.overlaps(at);
    __syncthreads();
    x.walk(s, w, at);
    __syncthreads();
    if (at.token >= w || !at.there) return;
    *reinterpret_cast<float4*>(z + at.value()) = x.z[threadIdx.x];
    *reinterpret_cast<float4*>(o + at.value()) = x.o[threadIdx.x];
}

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT)
commit(float* state, const float* z, const float* k, const float* alpha, const int* length,
       int state_layer, int z_layer, int k_layer, int alpha_layer) {
    __shared__ float4 keys[MOST * QUADS], written[MOST * ROW_QUADS];
    __shared__ float decays[MOST];
    const long long layer = blockIdx.z;
    const Place at;
    float4* rows = reinterpret_cast<float4*>(state + layer * state_layer + at.state());
    State s; // read early: the kernel just before is not one that writes it
    s.load(rows, at.lane);
    wait_for_last();
    let_next_start();
    const int m = *length, t = threadIdx.x % MOST;
    Carried key;
    key.load(k + layer * k_layer, at.key_head);
    const float4 value = *reinterpret_cast<const float4*>(z + layer * z_layer + at.value());
    const float decay = alpha[layer * alpha_layer + t * VH + at.head];
    key.store(keys);
    written[threadIdx.x] = value;
    if (threadIdx.x < MOST) decays[t] = decay;
    __syncthreads();
    const float* column = reinterpret_cast<const float*>(written) + at.mine;
    for (int i = 0; i < m; ++i) {
        s.decay(decays[i]);
        s.write(column[i * ROWS], keys + i * QUADS, at.lane);
    }
    if (at.within) s.store(rows, at.lane);
}

// From here on: `fused`, which makes q, k, v and the gates itself. DK is 16, 32, 64 or 128.

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
constexpr int RUN = MOST * QUADS > THREADS ? MOST * QUADS / THREADS : 1; // tokens a thread convolves
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

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT)
fused(const Raw* raw, const float* taps, const float* decay_rate, const float* bias,
      const float* norm, const float* state, Raw* gated, float* squares, float* z, float* k,
      float* alpha, const int* length, int row) {
    __shared__ Tokens x;
    const Place at;
    // Work on keys: this thread's four channels of RUN tokens. Where there are more threads than
    // work, the last run is done several times.
    const int begin = min((int)threadIdx.x / QUADS * RUN, MOST - RUN), quad = threadIdx.x % QUADS;
    const int q_channel = at.key_head * DK + 4 * quad, k_channel = KH * DK + q_channel;
    const int v_channel = 2 * KH * DK + at.head * DV + at.first;
    Window<RUN> q_window, k_window;
    Window<1> v_window;
    State s; // read early, like all weights: the commit that wrote it is never just before
    s.load(reinterpret_cast<const float4*>(state + at.state()), at.lane);
    q_window.load_taps(taps, q_channel);
    k_window.load_taps(taps, k_channel);
    v_window.load_taps(taps, v_channel);
    const float4 factor = *reinterpret_cast<const float4*>(norm + at.first);
    const float falling = decay_rate[at.head], shift = bias[at.head];
    wait_for_last();
    let_next_start();
    const int w = *length, t = threadIdx.x % MOST;
    q_window.load(raw, row, begin, q_channel);
    k_window.load(raw, row, begin, k_channel);
    v_window.load(raw, row, at.token, v_channel);
    const Raw* token = raw + (long long)(at.token + TAPS - 1) * row + CHANNELS;
    const Raw4 gate = *reinterpret_cast<const Raw4*>(token + at.head * DV + at.first);
    const Raw* gates = raw + (long long)(t + TAPS - 1) * row + CHANNELS + VH * DV + at.head;
    const Raw b = gates[0], a = gates[VH];

    const bool first_of_key = blockIdx.x == 0 && at.head % (VH / KH) == 0;
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
        if (first_of_key && begin + i < w)
            *reinterpret_cast<float4*>(k + ((begin + i) * KH + at.key_head) * DK + 4 * quad) = key;
    }
    x.values[threadIdx.x] = v_window.at(0);
    if (threadIdx.x < MOST) {
        const float decay = expf(falling * softplus(widened(a) + shift));
        x.alpha[t] = decay;
        x.beta[t] = 1.0f / (1.0f + expf(-widened(b)));
        if (blockIdx.x == 0 && t < w) alpha[t * VH + at.head] = decay;
    }
    __syncthreads();
    x.walk(s, w, at);
    __syncthreads();
    const float4 o = x.o[threadIdx.x], opened = silu(widened(gate));
    const float square = sum_of_lanes<ROW_QUADS>(at.there && at.token < w ? dot(o, o, 0) : 0.0f);
    if (at.token >= w) return;
    if (at.quad == 0) squares[(at.token * VH + at.head) * BLOCKS + blockIdx.x] = square;
    if (!at.there) return;
    *reinterpret_cast<float4*>(z + at.value()) = x.z[threadIdx.x];
    const float4 left = make_float4(o.x * factor.x * opened.x, o.y * factor.y * opened.y,
                                    o.z * factor.z * opened.z, o.w * factor.w * opened.w);
    *reinterpret_cast<Raw4*>(gated + at.value()) = narrowed(left);
}
