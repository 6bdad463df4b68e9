// A round, how it is cut along the cache, and the parts of its softmax. Macros: KV (key heads); SHARED (heads of a row
// that share one, 8 or 16); MOST (splits that a row's cache is cut into; there is room for one more).
#pragma once

typedef unsigned short Half; // bf16

constexpr int D = 256, TILE = 64, KEYS = 64; // values of a head; pairs (row, head) of a tile; rows of the cache a step
constexpr int ROWS = TILE / SHARED, TILES = 16 / ROWS, SLOTS = MOST + 1;
#define NOTHING __int_as_float(0xff800000) // -inf

__device__ inline float power_of_two(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
// Two values in bf16.
__device__ inline unsigned packed(float low, float high) {
    unsigned two;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(two) : "f"(high), "f"(low));
    return two;
}
// A maximum to subtract: -inf, where nothing was seen, would give inf - inf.
__device__ inline float finite(float top) { return top == NOTHING ? 0 : top; }

// Eight pairs' parts stand together, and of these 16 columns: [8, 16] floats, a thread's four (two columns, and the
// two that are eight further on) behind each other. So a warp leaves and reads 512 bytes at once.
constexpr int EIGHT = 8 * D; // floats of eight pairs' part
__device__ inline float4* part_of(float* parts, int eight, int slot) {
    return reinterpret_cast<float4*>(parts + ((long long)eight * SLOTS + slot) * EIGHT) + threadIdx.x % 32;
}

// Rows of the cache in one split, for a query at this position: the fewest, of 64, 128, 192, 256, 384, 512, 768 and so
// on, of which MOST reach it. A row's splits follow from its own position and from nothing else.
__device__ inline int step_of(int position) {
    const int need = position / (KEYS * MOST) + 1, low = 1 << (31 - __clz(need));
    return KEYS * (need == low ? low : 2 * need <= 3 * low ? low + low / 2 : 2 * low);
}

struct Round {
    int first, w, held; // its first position, its rows, rows of the cache with them

    __device__ Round(const int* position, const int* length) : first(*position), w(*length), held(first + w) {}

    __device__ int splits(int step) const { return (held + step - 1) / step; }
};
