// The verifiers `per-token` and `replay`, which `exact` is measured against; they differ from it in what
// they keep, and in that alone. The law: naive.recurrent with states, runtime/state.py.
#include "columns.cuh"

constexpr int RING = 32; // rows of factors

// `per-token`: the state after every token, states [16, VH, DV, DK].
struct States {
    static constexpr bool FACTORS = false;
    float* states;

    __device__ int before(State&, const Place&) const { return 0; }

    __device__ void after(const State& s, int t, const Place& at) const {
        float* to = states + (long long)t * (VH * DV * DK) + at.state();
        if (at.within) s.store(reinterpret_cast<float4*>(to), at.lane);
    }
};

// `replay`: the state lies `pending` <= 16 tokens back, whose factors are the first rows of a ring. They
// are read and replayed early, like the state; new factors go behind them.
struct Ring {
    static constexpr bool FACTORS = true;
    const float *z, *k, *alpha;
    const int* pending;

    __device__ int before(State& s, const Place& at) const {
        __shared__ Past<MOST> past;
        const int n = *pending;
        past.load(z, k, alpha, at);
        __syncthreads();
        past.replay(s, n, at);
        return n;
    }

    __device__ void after(const State&, int, const Place&) const {}
};

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT)
per_token(const float* q, const float* k, const float* v, const float* beta, const float* alpha,
          const float* state, float* o, float* states, const int* length) {
    from_tokens(States{states}, q, k, v, beta, alpha, state, o, nullptr, nullptr, nullptr, length);
}

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT)
per_token_fused(const Raw* raw, const float* taps, const float* decay_rate, const float* bias,
                const float* norm, const float* state, Raw* gated, float* squares, float* states,
                const int* length, int row) {
    const Columns columns = {raw, row, taps, decay_rate, bias, norm, gated, squares};
    from_columns(States{states}, columns, state, nullptr, nullptr, nullptr, length);
}

constexpr int COPIED = 8; // float4s a thread copies, all under way at once

extern "C" __global__ void __launch_bounds__(THREADS)
per_token_commit(float* state, const float* states, const int* length, int state_layer,
                 int states_layer) {
    constexpr int SIZE = VH * DV * (DK / 4);
    wait_for_last();
    let_next_start();
    const int m = *length, first = blockIdx.x * (THREADS * COPIED) + threadIdx.x;
    if (m == 0) return;
    const long long layer = blockIdx.y;
    const float4* from = reinterpret_cast<const float4*>(states + layer * states_layer);
    float4* to = reinterpret_cast<float4*>(state + layer * state_layer);
    from += (long long)(m - 1) * SIZE;
    float4 part[COPIED];
#pragma unroll
    for (int i = 0; i < COPIED; ++i) part[i] = from[min(first + i * THREADS, SIZE - 1)];
#pragma unroll
    for (int i = 0; i < COPIED; ++i)
        if (first + i * THREADS < SIZE) to[first + i * THREADS] = part[i];
}

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT)
replay(const float* q, const float* k, const float* v, const float* beta, const float* alpha,
       const float* state, float* o, float* ring_z, float* ring_k, float* ring_alpha,
       const int* pending, const int* length) {
    const Ring ring = {ring_z, ring_k, ring_alpha, pending};
    from_tokens(ring, q, k, v, beta, alpha, state, o, ring_z, ring_k, ring_alpha, length);
}

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT)
replay_fused(const Raw* raw, const float* taps, const float* decay_rate, const float* bias,
             const float* norm, const float* state, Raw* gated, float* squares, float* ring_z,
             float* ring_k, float* ring_alpha, const int* pending, const int* length, int row) {
    const Columns columns = {raw, row, taps, decay_rate, bias, norm, gated, squares};
    const Ring ring = {ring_z, ring_k, ring_alpha, pending};
    from_columns(ring, columns, state, ring_z, ring_k, ring_alpha, length);
}

// Keep m more tokens pending; where fewer than 16 rows would be free, fold them all into the states.
// The block that arrives last moves `pending`, which all have read by then.
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT)
replay_commit(float* state, const float* z, const float* k, const float* alpha, int* pending,
              int* arrived, const int* length, int state_layer, int z_layer, int k_layer,
              int alpha_layer, int layers) {
    __shared__ Past<RING> past;
    const Place at;
    wait_for_last();
    let_next_start();
    const int n = *pending + *length;
    const bool folds = RING - n < MOST;
    for (long long layer = blockIdx.z; folds && layer < layers; layer += gridDim.z) {
        float4* rows = reinterpret_cast<float4*>(state + layer * state_layer + at.state());
        State s;
        s.load(rows, at.lane);
        past.load(z + layer * z_layer, k + layer * k_layer, alpha + layer * alpha_layer, at);
        __syncthreads();
        past.replay(s, n, at);
        if (at.within) s.store(rows, at.lane);
        __syncthreads(); // the next layer's factors take this one's place
    }
    __syncthreads();
    if (threadIdx.x != 0) return;
    __threadfence();
    if (atomicAdd(arrived, 1) != (int)(gridDim.x * gridDim.y * gridDim.z) - 1) return;
    *arrived = 0;
    *pending = folds ? 0 : n;
}
