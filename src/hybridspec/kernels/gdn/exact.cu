// `exact` verification and commit. The law: naive.recurrent and naive.retrace; of `fused`,
// model/gdn.py.
#include "columns.cuh"

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT)
verify(const float* q, const float* k, const float* v, const float* beta, const float* alpha,
       const float* state, float* o, float* z, const int* length) {
    from_tokens(Factors(), q, k, v, beta, alpha, state, o, z, nullptr, nullptr, length);
}

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT)
fused(const Raw* raw, const float* taps, const float* decay_rate, const float* bias,
      const float* norm, const float* state, Raw* gated, float* squares, float* z, float* k,
      float* alpha, const int* length, int row) {
    const Columns columns = {raw, row, taps, decay_rate, bias, norm, gated, squares};
    from_columns(Factors(), columns, state, z, k, alpha, length);
}

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT)
commit(float* state, const float* z, const float* k, const float* alpha, const int* length,
       int state_layer, int z_layer, int k_layer, int alpha_layer) {
    __shared__ Past<MOST> past;
    const long long layer = blockIdx.z;
    const Place at;
    float4* rows = reinterpret_cast<float4*>(state + layer * state_layer + at.state());
    const int m = *length; // read early, like the state: the kernel just before writes neither
    State s;
    s.load(rows, at.lane);
    wait_for_last();
    let_next_start();
    past.load(z + layer * z_layer, k + layer * k_layer, alpha + layer * alpha_layer, at);
    __syncthreads();
    past.replay(s, m, at);
    if (at.within) s.store(rows, at.lane);
}
