// Verification of a layer from q, k, v, beta and alpha. What a verifier keeps of it is its own
// (`Keeps`): `before` has the state as it is read, and gives the row at which factors are written;
// `after` has it after every token. FACTORS: z, k and alpha are written.
#pragma once
#include "state.cuh"

// `exact`: nothing but the factors.
struct Factors {
    static constexpr bool FACTORS = true;
    __device__ int before(State&, const Place&) const { return 0; }
    __device__ void after(const State&, int, const Place&) const {}
};

// kept_k and kept_alpha take copies of k and alpha, unless k and alpha are what is kept (null).
template <class Keeps>
__device__ inline void from_tokens(const Keeps& keeps, const float* q, const float* k, const float* v,
                                   const float* beta, const float* alpha, const float* state, float* o,
                                   float* z, float* kept_k, float* kept_alpha, const int* length) {
    __shared__ Tokens x;
    const Place at;
    // Read early, like the length: whoever wrote them is never the kernel just before.
    const int w = *length, t = threadIdx.x % MOST;
    State s;
    s.load(reinterpret_cast<const float4*>(state + at.state()), at.lane);
    const int begin = keeps.before(s, at);
    wait_for_last();
    let_next_start();
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
    x.walk(s, w, at, keeps);
    __syncthreads();
    if (kept_alpha && blockIdx.x == 0 && threadIdx.x < min(w, MOST))
        kept_alpha[(begin + t) * VH + at.head] = decay;
    if (at.token >= w) return;
    if (kept_k && at.first_of_key()) {
        float4* to = reinterpret_cast<float4*>(kept_k + ((begin + at.token) * KH + at.key_head) * DK);
        for (int j = at.quad; j < QUADS; j += ROW_QUADS) to[j] = x.keys[at.token * QUADS + j];
    }
    if (!at.there) return;
    if (Keeps::FACTORS)
        *reinterpret_cast<float4*>(z + begin * VH * DV + at.value()) = x.z[threadIdx.x];
    *reinterpret_cast<float4*>(o + at.value()) = x.o[threadIdx.x];
}
