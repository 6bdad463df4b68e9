// Attention of at most 16 rows over a cache, cut along the cache: `split.py`'s parts with warpgroup products.
//
// A block has 64 pairs (row, head) and goes through splits of the cache, one behind the other. Half of its threads
// ask for keys and values, the other half multiplies. A split's bits depend on nothing but its rows of the cache
// and the query's row: which block has it, and what else that block does, is a matter of time alone.
#include "early.cuh"
#include "parts.cuh"
#include "warpgroup.cuh"

constexpr int PLACES = 3;       // for keys or values of a step, on their way or there
constexpr int HALF_BLOCK = 128; // threads

// A piece is four blocks of 64 rows, each of 128 bytes of a head: a row's 16 bytes are permuted by the row's number
// modulo 8, so that neither copies of whole rows nor products along or across them meet on a bank.
constexpr int WIDE = 128, GROUP = 8 * WIDE, BLOCK = KEYS * WIDE; // bytes of a row, of eight, of a block's 64
constexpr int BYTES = D * sizeof(Half) / WIDE * BLOCK; // bytes of a step's keys or values

// Where 16 bytes of a row are.
__device__ inline int place(int row, int chunk) { return chunk / 8 * BLOCK + row * WIDE + (chunk ^ row) % 8 * 16; }

// What a block does, one behind the other: every gridDim-th split of a key head and a tile of queries, tiles side by
// side so that both find keys and values in the second-level cache. Where the rows of a round are cut in two ways, the
// later rows' splits follow those of the others.
struct Walk {
    const Round& round;
    int tiles, border, early, late, unit; // border: the first row cut in the second way
    int kv, tile, split, start, stop, low, high; // of the unit: rows of the cache; rows of the round that it serves

    __device__ Walk(const Round& round) : round(round), unit(blockIdx.x) {
        tiles = max(1, (round.w + ROWS - 1) / ROWS);
        early = step_of(round.first);
        late = step_of(round.first + round.w - 1);
        border = early == late ? round.w : 1;
        while (border < round.w && step_of(round.first + border) == early) ++border;
    }

    __device__ bool next() {
        const int all = tiles * KV * round.splits(early), later = unit >= all;
        const int step = later ? late : early, own = unit - later * all;
        low = later ? border : 0;
        high = later ? round.w : border;
        tile = own % tiles;
        kv = own / tiles % KV;
        split = own / tiles / KV;
        start = split * step;
        stop = min(start + step, round.held);
        unit += gridDim.x;
        return start < round.held && low < high;
    }
};

struct Shared {
    alignas(1024) unsigned char q[BYTES];
    alignas(1024) unsigned char places[PLACES][BYTES];
    unsigned long long full[PLACES], empty[PLACES];
};

// Keys and values, step by step, into places that are free.
__device__ inline void fetch(Shared& s, const Half* keys, const Half* values, long long head_stride,
                             const Round& round) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    int piece = 0;
    bool turn = false;
    Walk walk(round);
    const auto ask = [&](const Half* from, int row) {
        if (piece >= PLACES) wait_at(s.empty[piece % PLACES], (piece / PLACES - 1) & 1);
        const unsigned to = address(s.places[piece % PLACES]);
#pragma unroll
        for (int i = 0; i < KEYS * D / 8 / HALF_BLOCK; ++i) {
            const int own = i * 4 + warp;
            copy_piece(to + place(own, lane), from + (long long)min(row + own, round.held - 1) * D + lane * 8,
                       row + own < round.held);
        }
        arrive_when_there(s.full[piece % PLACES]);
        ++piece;
    };
    while (walk.next()) {
        const long long head = walk.kv * head_stride;
        for (int row = walk.start; row < walk.stop; row += KEYS) {
            if (!turn && row + KEYS > round.first) { wait_for_last(); turn = true; } // the round's own rows
            ask(keys + head, row);
            ask(values + head, row);
        }
    }
}

// Queries of a tile, as keys stand; those of rows beyond the length are 0.
__device__ inline void load_queries(Shared& s, const Half* q, int kv, int tile, int w) {
    for (int i = threadIdx.x % HALF_BLOCK; i < TILE * (D / 8); i += HALF_BLOCK) {
        const int pair = i / (D / 8), chunk = i % (D / 8), t = tile * ROWS + pair / SHARED;
        const bool real = t < w;
        const uint4* from = reinterpret_cast<const uint4*>(
            q + ((long long)t * (KV * SHARED) + kv * SHARED + pair % SHARED) * D) + chunk;
        *reinterpret_cast<uint4*>(s.q + place(pair, chunk)) = real ? __ldcg(from) : make_uint4(0, 0, 0, 0);
    }
    fence_views();
    meet<1, HALF_BLOCK>();
}

// Sums, maxima and totals of this thread's two pairs: of every eight columns two.
struct Part {
    float sums[2][64], top[2], total[2];

    __device__ void clear() {
#pragma unroll
        for (int h = 0; h < 2; ++h)
#pragma unroll
            for (int i = 0; i < 64; ++i) sums[h][i] = 0;
        top[0] = top[1] = NOTHING;
        total[0] = total[1] = 0;
    }

    // Scores of a step become weights. keep: what sums so far are to be multiplied by.
    __device__ void weigh(float (&scores)[32], float (&keep)[2], float scale, int row, const int (&last)[2],
                          bool masked) {
        const int column = threadIdx.x % 4 * 2;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            float high = NOTHING;
#pragma unroll
            for (int i = 2 * half; i < 32; i += i % 2 ? 3 : 1) {
                if (masked && row + i / 4 * 8 + column + i % 2 > last[half]) scores[i] = NOTHING;
                high = fmaxf(high, scores[i]);
            }
            const float higher = fmaxf(top[half], greatest(high) * scale);
            const float base = finite(higher);
            keep[half] = power_of_two(top[half] - base);
            float sum = 0;
#pragma unroll
            for (int i = 2 * half; i < 32; i += i % 2 ? 3 : 1) {
                scores[i] = power_of_two(__fmaf_rn(scores[i], scale, -base));
                sum += scores[i];
            }
            total[half] = __fmaf_rn(total[half], keep[half], sum);
            top[half] = higher;
        }
    }

    __device__ void shrink(const float (&keep)[2]) {
#pragma unroll
        for (int half = 0; half < 2; ++half)
            if (keep[half] != 1)
#pragma unroll
                for (int n = 0; n < 2; ++n)
#pragma unroll
                    for (int i = 2 * half; i < 64; i += i % 2 ? 3 : 1) sums[n][i] *= keep[half];
    }

    // Into the workspace, for `combine.cu`.
    __device__ void leave(float* parts, float* stats, const Walk& at) const {
        const int lane = threadIdx.x % 32, pair = threadIdx.x / 32 % 4 * 16 + lane / 4;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int own = pair + 8 * half;
            float all = total[half];
            all += __shfl_xor_sync(~0u, all, 1);
            all += __shfl_xor_sync(~0u, all, 2);
            const int t = at.tile * ROWS + own / SHARED, one = at.kv * TILES + at.tile;
            if (t < at.low || t >= at.high) continue;
            float4* to = part_of(parts, one * (TILE / 8) + own / 8, at.split);
#pragma unroll
            for (int n = 0; n < 2; ++n)
#pragma unroll
                for (int i = 2 * half; i < 64; i += 8)
                    __stcg(to + (n * 8 + i / 8) * 32,
                           make_float4(sums[n][i], sums[n][i + 1], sums[n][i + 4], sums[n][i + 5]));
            if (lane % 4 == 0) {
                float* its = stats + (one * TILE + own) * 2 * SLOTS + at.split;
                its[0] = top[half];
                its[SLOTS] = all;
            }
        }
    }
};

__device__ inline void pack(unsigned (&weights)[16], const float (&scores)[32]) {
#pragma unroll
    for (int i = 0; i < 16; ++i) weights[i] = packed(scores[2 * i], scores[2 * i + 1]);
}

// Begin the scores of 64 pairs and the keys of a step.
__device__ inline void score(float (&scores)[32], unsigned q, unsigned keys) {
#pragma unroll
    for (int k = 0; k < D / 16; ++k) {
        const int at = k / 4 * BLOCK + k % 4 * 32; // of 16 columns
        product(scores, matrix(q + at, 16, GROUP), matrix(keys + at, 16, GROUP), k > 0);
    }
    close_products();
}

// Begin to add the weighted values of a step.
__device__ inline void add(float (&sums)[2][64], const unsigned (&weights)[16], unsigned values) {
#pragma unroll
    for (int k = 0; k < KEYS / 16; ++k)
#pragma unroll
        for (int n = 0; n < 2; ++n)
            product(sums[n], weights + 4 * k, matrix(values + 2 * n * BLOCK + 2 * k * GROUP, BLOCK, GROUP));
    close_products();
}

__device__ inline void multiply(Shared& s, const Half* q, float* parts, float* stats, float scale,
                                const Round& round) {
    const int pair = threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4;
    int piece = 0, loaded = -1;
    Walk walk(round);
    Part part;
    const auto take = [&](int i) {
        wait_at(s.full[i % PLACES], i / PLACES & 1);
        fence_views();
        return address(s.places[i % PLACES]);
    };
    const auto give_back = [&](int i) { arrive_at(s.empty[i % PLACES]); };
    while (walk.next()) {
        if (walk.tile * KV + walk.kv != loaded) {
            meet<1, HALF_BLOCK>();
            load_queries(s, q, walk.kv, walk.tile, round.w);
            loaded = walk.tile * KV + walk.kv;
        }
        const int at = round.first + walk.tile * ROWS;
        const int last[2] = {at + pair / SHARED, at + (pair + 8) / SHARED};
        const bool busy = pair / 16 * 16 / SHARED < round.w - walk.tile * ROWS; // this warp has a pair
        float scores[32], keep[2];
        unsigned weights[16];
        part.clear();
        unsigned keys = take(piece);
        begin_products();
        score(scores, address(s.q), keys);
        products_there<0>();
        hold(scores);
        give_back(piece++);
        if (busy) part.weigh(scores, keep, scale, walk.start, last, walk.start + KEYS > round.first);
        pack(weights, scores);
        for (int row = walk.start + KEYS; row < walk.stop; row += KEYS) { // scores beside the values before them
            const unsigned values = take(piece);
            keys = take(piece + 1);
            begin_products();
            score(scores, address(s.q), keys);
            add(part.sums, weights, values);
            products_there<1>();
            hold(scores);
            give_back(piece + 1);
            if (busy) part.weigh(scores, keep, scale, row, last, row + KEYS > round.first);
            products_there<0>();
            hold(part.sums[0]);
            hold(part.sums[1]);
            give_back(piece);
            piece += 2;
            if (busy) part.shrink(keep);
            pack(weights, scores);
        }
        const unsigned values = take(piece);
        begin_products();
        add(part.sums, weights, values);
        products_there<0>();
        hold(part.sums[0]);
        hold(part.sums[1]);
        give_back(piece++);
        part.leave(parts, stats, walk);
    }
}

// Launched early, it reads position and length and rows of the cache before this round's ahead of its turn.
extern "C" __global__ void __launch_bounds__(2 * HALF_BLOCK, 1)
attend(const Half* q, const Half* keys, const Half* values, const int* position, const int* length, float* parts,
       float* stats, float scale, long long head_stride) {
    extern __shared__ unsigned char memory[];
    const unsigned skipped = -address(memory) & 1023;
    Shared& s = *reinterpret_cast<Shared*>(memory + skipped);
    const Round round(position, length);
    if (threadIdx.x == 0) {
        for (int i = 0; i < PLACES; ++i) {
            start_barrier(s.full[i], HALF_BLOCK);
            start_barrier(s.empty[i], HALF_BLOCK);
        }
        fence_barriers();
    }
    __syncthreads();
    if (threadIdx.x >= HALF_BLOCK) {
        fetch(s, keys, values, head_stride, round);
    } else {
        wait_for_last();
        let_next_start();
        multiply(s, q, parts, stats, scale, round);
    }
}
