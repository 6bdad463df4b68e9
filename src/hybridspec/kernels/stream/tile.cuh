// A tile of sixteen rows by sixteen columns whose weights go straight from memory into registers.
//
// Eight warps share K. A lane takes 16 bytes of a column's weights at a time: 8 of the 32 values of a
// chunk that four lanes share. A matrix instruction may see K in any order as long as both operands
// use the same one, so those 16 bytes are its operands as they are, and the matching 16 bytes of x
// are too. So weights need no shared memory, no barrier, and can be on their way before the kernel
// ahead has ended.
#pragma once

typedef unsigned short Half; // bf16

constexpr int WARPS = 8, THREADS = 32 * WARPS;
constexpr int ROWS = 16, COLS = 16, GROUPS = COLS / 8; // a matrix instruction has eight columns
constexpr int CHUNK = 32;                              // of K

__device__ inline float widened(Half x) { return __uint_as_float((unsigned)x << 16); }

__device__ inline Half narrowed(float x) {
    Half y;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y) : "f"(x));
    return y;
}

__device__ inline uint4 read_once(const Half* from) { // weights: past the first-level cache
    uint4 x;
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
                 : "l"(from));
    return x;
}

// Where a thread stands in its warp: its row (and the one eight below) and its quarter of a chunk.
struct Lane {
    int warp, lane, row, quarter;
    __device__ Lane()
        : warp(threadIdx.x / 32), lane(threadIdx.x % 32), row(lane / 4), quarter(8 * (lane % 4)) {}
};

// x in two rows: 8 values each.
struct Pair {
    uint4 low, high;
};

struct Sums {
    float of[GROUPS][4];

    __device__ void clear() {
#pragma unroll
        for (int g = 0; g < GROUPS; ++g)
#pragma unroll
            for (int i = 0; i < 4; ++i) of[g][i] = 0;
    }

    // One chunk of K for one group of columns.
    __device__ void add(int g, const Pair& x, uint4 w) {
        multiply(of[g], x.low.x, x.high.x, x.low.y, x.high.y, w.x, w.y);
        multiply(of[g], x.low.z, x.high.z, x.low.w, x.high.w, w.z, w.w);
    }

    // Other sums, each row's times its own scale.
    __device__ void add(const Sums& part, float low, float high) {
#pragma unroll
        for (int g = 0; g < GROUPS; ++g) {
            of[g][0] = __fmaf_rn(part.of[g][0], low, of[g][0]);
            of[g][1] = __fmaf_rn(part.of[g][1], low, of[g][1]);
            of[g][2] = __fmaf_rn(part.of[g][2], high, of[g][2]);
            of[g][3] = __fmaf_rn(part.of[g][3], high, of[g][3]);
        }
    }

    // To [ROWS][COLS] of this warp.
    __device__ void store(float* to, const Lane& at) const {
#pragma unroll
        for (int g = 0; g < GROUPS; ++g) {
            float* corner = to + at.row * COLS + 8 * g + at.quarter / 4;
            *reinterpret_cast<float2*>(corner) = make_float2(of[g][0], of[g][1]);
            *reinterpret_cast<float2*>(corner + 8 * COLS) = make_float2(of[g][2], of[g][3]);
        }
    }

  private:
    __device__ static void multiply(float (&y)[4], unsigned a, unsigned b, unsigned c, unsigned d,
                                    unsigned e, unsigned f) {
        asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
            "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
            : "+f"(y[0]), "+f"(y[1]), "+f"(y[2]), "+f"(y[3])
            : "r"(a), "r"(b), "r"(c), "r"(d), "r"(e), "r"(f));
    }
};

// Sums of all warps meet: two sets in turns, so that one barrier a tile is enough.
struct Meeting {
    float part[2][WARPS][ROWS * COLS];

    // The sum of this thread's place, row threadIdx.x / COLS and column threadIdx.x % COLS.
    __device__ float sum(const Sums& mine, int turn, const Lane& at) {
        float(&parts)[WARPS][ROWS * COLS] = part[turn & 1];
        mine.store(parts[at.warp], at);
        __syncthreads();
        float y = 0;
#pragma unroll
        for (int i = 0; i < WARPS; ++i) y += parts[i][threadIdx.x];
        return y;
    }
};

// Over the sixteen threads of a row.
__device__ inline float sum_of_row(float x) {
#pragma unroll
    for (int i = 1; i < COLS; i *= 2) x += __shfl_xor_sync(0xffffffffu, x, i);
    return x;
}

// Sums of squares [groups][ROWS] of a stream, whose norm's scale each row needs.
template <int N> struct Scales {
    static constexpr int APART = THREADS / ROWS, MINE = N / COLS / APART;
    float part[APART][ROWS];

    // This thread's share, under way.
    struct Share {
        float of[MINE];

        __device__ void load(const float* squares) {
#pragma unroll
            for (int i = 0; i < MINE; ++i) of[i] = squares[i * THREADS + threadIdx.x];
        }
    };

    // Before a barrier.
    __device__ void gather(const Share& share) {
        float sum = 0;
#pragma unroll
        for (int i = 0; i < MINE; ++i) sum += share.of[i];
        part[threadIdx.x / ROWS][threadIdx.x % ROWS] = sum;
    }

    // After it.
    __device__ float of(int row, float eps) const {
        float sum = 0;
#pragma unroll
        for (int i = 0; i < APART; ++i) sum += part[i][row];
        return rsqrtf(sum / N + eps);
    }
};

// Where a tile of the residual stream goes, and the next norm's share of it.
struct Ending {
    const Half* residual;
    Half* y;
    int residual_row, y_row;
    const float* factor;
    Half* scaled;
    float* squares;
    int n;

    // What a thread adds and multiplies by: column threadIdx.x % COLS of the tile from `first` on.
    struct Known {
        float residual, factor;
    };

    __device__ Known load(int first) const {
        const int row = threadIdx.x / COLS, column = min(first + (int)threadIdx.x % COLS, n - 1);
        return {widened(residual[row * residual_row + column]), factor[column]};
    }

    // All threads of the block take part.
    __device__ void store(float sum, int first, int rows, const Known& known) const {
        const int row = threadIdx.x / COLS, column = first + threadIdx.x % COLS;
        const bool there = row < rows && column < n;
        const Half stored = narrowed(sum + known.residual);
        const float value = column < n ? widened(stored) : 0.0f;
        const float square = sum_of_row(value * value);
        if (!there) return;
        y[row * y_row + column] = stored;
        scaled[row * n + column] = narrowed(value * known.factor);
        if (threadIdx.x % COLS == 0) squares[first / COLS * ROWS + row] = square;
    }
};
