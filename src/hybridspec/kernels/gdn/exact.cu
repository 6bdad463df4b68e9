// `exact` verification and commit: a state row lies in the registers of four threads, so that a sum
// over it takes two exchanges and no barrier. Sizes are macros: KH, VH, DK (a multiple of 16), DV.
// The law: naive.recurrent and naive.retrace. Products and sums are fused where spelt, only there.

constexpr int LANES = 4;            // threads of a row
constexpr int ROWS = 32;            // rows of a block
constexpr int THREADS = LANES * ROWS;
constexpr int MOST = 16;            // tokens of a verification
constexpr int QUADS = DK / 4;       // float4s of a row
constexpr int MINE = QUADS / LANES; // of them, this thread's: every fourth, so that reads coalesce

// Programmatic dependent launch: wait for the kernel before, then let the next one start. In this
// order whoever runs ahead of its own wait knows that all kernels but the last are done.
__device__ inline void let_next_start() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;");
#endif
}

__device__ inline void wait_for_last() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

__device__ inline float sum_of_lanes(float x) {
    x += __shfl_xor_sync(0xffffffffu, x, 1);
    return x + __shfl_xor_sync(0xffffffffu, x, 2);
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
        for (int j = 0; j < MINE; ++j) {
            float4& s = part[j];
            s = make_float4(s.x * a, s.y * a, s.z * a, s.w * a);
        }
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
        return sum_of_lanes((sum.x + sum.y) + (sum.z + sum.w));
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

// Rows of one head of [tokens, heads, size] into shared memory, float4 by float4.
__device__ inline void gather(float4* to, const float* from, int tokens, int heads, int head,
                              int quads, int first, int size) {
    for (int i = threadIdx.x; i < tokens * quads; i += THREADS) {
        const int t = i / quads, c = i % quads;
        to[i] = reinterpret_cast<const float4*>(from + ((long long)t * heads + head) * size + first)[c];
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
verify(const float* q, const float* k, const float* v, const float* beta, const float* alpha,
       const float* state, float* o, float* z, const int* length) {
    __shared__ float4 keys[MOST * QUADS], queries[MOST * QUADS];
    __shared__ float values[MOST * ROWS], gates[2 * MOST], overlap[MOST];
    const int head = blockIdx.y, key_head = head / (VH / KH), lane = threadIdx.x % LANES;
    const int mine = threadIdx.x / LANES, row = blockIdx.x * ROWS + mine;
    const bool within = row < DV;
    State s;  // read early: the commit that wrote it is never the kernel just before
    s.load(reinterpret_cast<const float4*>(state + ((long long)head * DV + (within ? row : 0)) * DK), lane);
    wait_for_last();
    let_next_start();
    const int w = *length;
    gather(keys, k, w, KH, key_head, QUADS, 0, DK);
    gather(queries, q, w, KH, key_head, QUADS, 0, DK);
    for (int i = threadIdx.x; i < w * ROWS; i += THREADS) {
        const int t = i / ROWS, r = blockIdx.x * ROWS + i % ROWS;
        values[i] = r < DV ? v[(t * VH + head) * DV + r] : 0.0f;
    }
    if (threadIdx.x < w) {
        gates[threadIdx.x] = alpha[threadIdx.x * VH + head];
        gates[MOST + threadIdx.x] = beta[threadIdx.x * VH + head];
    }
    __syncthreads();
    for (int t = threadIdx.x / LANES; t < w; t += ROWS) {  // k . q of every token, four threads each
        float4 sum = make_float4(0, 0, 0, 0);
        for (int j = lane; j < QUADS; j += LANES) {
            const float4 x = keys[t * QUADS + j], y = queries[t * QUADS + j];
            sum.x = __fmaf_rn(x.x, y.x, sum.x);
            sum.y = __fmaf_rn(x.y, y.y, sum.y);
            sum.z = __fmaf_rn(x.z, y.z, sum.z);
            sum.w = __fmaf_rn(x.w, y.w, sum.w);
        }
        const unsigned group = 0xfu << (threadIdx.x & 28);
        float all = (sum.x + sum.y) + (sum.z + sum.w);
        all += __shfl_xor_sync(group, all, 1);
        all += __shfl_xor_sync(group, all, 2);
        if (lane == 0) overlap[t] = all;
    }
    __syncthreads();
    for (int t = 0; t < w; ++t) {
        const float4* key = keys + t * QUADS;
        s.decay(gates[t]);
        const float read = s.read(key, lane), seen = s.read(queries + t * QUADS, lane);
        const float z_t = gates[MOST + t] * (values[t * ROWS + mine] - read);
        s.write(z_t, key, lane);
        if (lane == 0 && within) {  // S q = (alpha S) q + z (k . q): no second pass over the state
            z[(t * VH + head) * DV + row] = z_t;
            o[(t * VH + head) * DV + row] = __fmaf_rn(z_t, overlap[t], seen);
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
commit(float* state, const float* z, const float* k, const float* alpha, const int* length,
       int state_layer, int z_layer, int k_layer, int alpha_layer) {
    __shared__ float4 keys[MOST * QUADS];
    __shared__ float written[MOST * ROWS], decays[MOST];
    const long long layer = blockIdx.z;
    const int head = blockIdx.y, key_head = head / (VH / KH), lane = threadIdx.x % LANES;
    const int mine = threadIdx.x / LANES, row = blockIdx.x * ROWS + mine;
    wait_for_last();
    let_next_start();
    const bool within = row < DV;
    float4* at = reinterpret_cast<float4*>(
        state + layer * state_layer + ((long long)head * DV + (within ? row : 0)) * DK);
    State s;
    s.load(at, lane);
    const int m = *length;
    gather(keys, k + layer * k_layer, m, KH, key_head, QUADS, 0, DK);
    for (int i = threadIdx.x; i < m * ROWS; i += THREADS) {
        const int t = i / ROWS, r = blockIdx.x * ROWS + i % ROWS;
        written[i] = r < DV ? z[layer * z_layer + (t * VH + head) * DV + r] : 0.0f;
    }
    if (threadIdx.x < m) decays[threadIdx.x] = alpha[layer * alpha_layer + threadIdx.x * VH + head];
    __syncthreads();
    for (int t = 0; t < m; ++t) {
        s.decay(decays[t]);
        s.write(written[t * ROWS + mine], keys + t * QUADS, lane);
    }
    if (within) s.store(at, lane);
}
