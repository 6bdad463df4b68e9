// Products of a warpgroup (compute capability 9.0 alone), barriers that count threads, asynchronous copies.
#pragma once

__device__ inline unsigned address(const void* shared) { return (unsigned)__cvta_generic_to_shared(shared); }

__device__ inline void start_barrier(unsigned long long& b, int count) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(address(&b)), "r"(count) : "memory");
}
__device__ inline void fence_barriers() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ inline void arrive_at(unsigned long long& b) {
    asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(address(&b)) : "memory");
}
// Until the phase of this parity is over.
__device__ inline void wait_at(unsigned long long& b, int parity) {
    asm volatile("{\n.reg .pred done;\nagain:\n"
                 "mbarrier.try_wait.parity.shared.b64 done, [%0], %1;\n"
                 "@!done bra again;\n}" ::"r"(address(&b)), "r"(parity) : "memory");
}
// What threads have stored in shared memory is there for products.
__device__ inline void fence_views() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
template <int WHICH, int THREADS> __device__ inline void meet() {
    asm volatile("bar.sync %0, %1;" ::"n"(WHICH), "n"(THREADS) : "memory");
}

// 16 bytes on their way to shared memory, or zeros.
__device__ inline void copy_piece(unsigned to, const void* from, bool real) {
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(real ? 16 : 0)
                 : "memory");
}
// When all that this thread has asked for is there.
__device__ inline void arrive_when_there(unsigned long long& b) {
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(address(&b)) : "memory");
}

// Over the four threads that share a row.
__device__ inline float greatest(float x) {
    x = fmaxf(x, __shfl_xor_sync(~0u, x, 1));
    return fmaxf(x, __shfl_xor_sync(~0u, x, 2));
}

// A matrix in shared memory, rows of 128 bytes permuted by 16: its address; bytes to the next 128 bytes of a row,
// where a product reads across rows; bytes to the next eight rows.
__device__ inline unsigned long long matrix(unsigned at, int wide, int rows) {
    return (unsigned long long)(at >> 4) | (unsigned long long)(wide >> 4) << 16 |
           (unsigned long long)(rows >> 4) << 32 | 1ull << 62;
}

__device__ inline void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void close_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
// Results are not touched before this point, whatever order a compiler would like better.
template <int N> __device__ inline void hold(float (&results)[N]) {
#pragma unroll
    for (int i = 0; i < N; ++i) asm volatile("" : "+f"(results[i])::"memory");
}
// All but the LATER last groups are there.
template <int LATER> __device__ inline void products_there() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LATER) : "memory");
}

// d = a b (+ d): a [64, 16] and b [16, 64] in shared memory, both with the reduction in their rows.
__device__ inline void product(float (&d)[32], unsigned long long a, unsigned long long b, int more) {
    asm volatile(
        "{\n.reg .pred more;\nsetp.ne.b32 more, %34, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
        "%32, %33, more, 1, 1, 0, 0;\n}"
        :
          "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
          "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
          "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
          "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
        : "l"(a), "l"(b), "r"(more));
}

// d += a b: a [64, 16] in registers, b [16, 128] in shared memory with the reduction across its rows.
__device__ inline void product(float (&d)[64], const unsigned* a, unsigned long long b) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
        "{%64, %65, %66, %67}, %68, 1, 1, 1, 1;"
        :
          "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
          "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
          "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
          "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]),
          "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]),
          "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]),
          "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]),
          "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
