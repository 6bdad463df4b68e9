// The experts of a block for at most sixteen tokens. Macros: K, the hidden size; I and S, the widths of an
// expert and of the shared one (multiples of 512); DEEP and MANY, steps of weights that `up` and `down` have under
// way together; and those of choice.cuh.
//
// Launched early, they read ahead of their turn: `up` length and squares, `down` length and the residual. The
// kernel just before must not write them. `left`, [1 + PLACES], is theirs: see Listed.
#include "choice.cuh"
#include "early.cuh"
#include "held.cuh"

// `up`: a tile is eight columns of gate beside the same eight of up. Tiles of the shared expert come
// first: it is known before the routing is.
constexpr int SHARED_TILES = S / 8, TILES = I / 8;

extern "C" __global__ void __launch_bounds__(THREADS, DEEP > 2 ? 1 : 2)
up(const Half* x, const float* squares, float eps, const Half* gate_up, const Half* shared_gate_up,
   const int* length, const float* logits, unsigned* left, Half* h, Half* shared_h) {
    extern __shared__ __align__(16) Half rows_of_x[]; // [WARPS][ROOM]
    __shared__ Meeting meeting;
    __shared__ Scales<K> scales;
    __shared__ Choice choice;
    const Lane at;
    Step step[DEEP];
    const auto begin = [&](int tile) { // of a tile's columns of gate
        const bool shared = tile < SHARED_TILES;
        const int of = shared ? tile : tile - SHARED_TILES;
        const Half* from = shared ? shared_gate_up
                                  : gate_up + (long long)choice.distinct[of / TILES] * 2 * I * K;
        return from + 8 * (shared ? of : of % TILES) * K;
    };
    const auto load = [&](Step& free, int tile, int place) {
        const int width = tile < SHARED_TILES ? S : I;
        const Half* from = begin(tile) + at.row * K + at.warp * SHARE + place * DEPTH + at.quarter;
        const Half* columns[GROUPS] = {from, from + width * K};
        free.load(columns);
    };
    const int rows = *length;
    const int grid = gridDim.x, block = blockIdx.x;
    const bool ahead = block < SHARED_TILES;
    const Rows inputs(x, rows_of_x, rows, at);
    Scales<K>::Share share;
    share.load(squares);
    if (ahead)
#pragma unroll
        for (int i = 0; i < min(DEEP, STEPS); ++i) load(step[i], block, i);
    if (block == 0) Listed::forget(left);
    choice.clear();
    wait_for_last();
    let_next_start();
    choice.make(logits, rows, at, meeting, [&] { inputs.ask(at); }); // before, it would delay router and choice
    // Half tiles are shared out evenly, those of the shared expert among them: [first, last) are of experts.
    const int halves = 2 * (SHARED_TILES + choice.count * TILES);
    const auto before = [&](int block) {
        const int shared = SHARED_TILES / grid * block + min(block, SHARED_TILES % grid);
        return max((int)((long long)halves * block / grid) - 2 * shared, 0);
    };
    const int first = before(block), last = before(block + 1);
    const int shared_tiles = (SHARED_TILES - block + grid - 1) / grid;
    const auto tile_of = [&](int turn) {
        return turn < shared_tiles ? block + turn * grid : SHARED_TILES + first / 2 + turn - shared_tiles;
    };
    const auto is_mine = [&](int tile, int column) { // of the eight
        const int half = 2 * (tile - SHARED_TILES) + column / 4;
        return tile < SHARED_TILES || (half >= first && half < last);
    };
    const int total = (shared_tiles + (last > first ? (last + 1) / 2 - first / 2 : 0)) * STEPS;
    const auto load_step = [&](Step& free, int s) {
        if (s >= total) return;
        const int tile = tile_of(s / STEPS);
        if (is_mine(tile, at.row)) load(free, tile, s % STEPS);
    };
#pragma unroll
    for (int i = 0; i < DEEP; ++i)
        if (!ahead || i >= STEPS) load_step(step[i], i);
    if (block == 0) choice.leave(left);
    scales.gather(share);
    inputs.take();

    Sums sums;
    sums.clear();
    float scale = 1;
    int turn = 0;
    // The next weights are under way before anybody waits for the others' sums.
    const auto consume = [&](Step& ready, int s) {
        ready.multiply(sums, inputs.at_step(s % STEPS, at), inputs.high);
        load_step(ready, s + DEEP);
        if (s % STEPS < STEPS - 1) return;
        float gate = meeting.sum(sums, turn, at);
        sums.clear();
        const int row = threadIdx.x / COLS, column = threadIdx.x % COLS;
        if (turn == 0) scale = scales.of(row, eps);
        const int tile = tile_of(turn++);
        gate *= scale;
        const float value = __shfl_down_sync(0xffffffffu, gate, 8);
        if (column < 8 && is_mine(tile, column)) {
            const bool shared = tile < SHARED_TILES;
            const int of = shared ? tile : tile - SHARED_TILES;
            const int place = of / TILES, at_column = 8 * (shared ? of : of % TILES) + column;
            float share = 0; // a row beyond the length means nothing and may be NaN
            if (row < rows) share = shared ? choice.opening[row] : choice.share(row, choice.distinct[place]);
            const float y = __fdividef(gate, 1.0f + __expf(-gate)) * value * share;
            Half* to = shared ? shared_h + row * S : h + (place * ROWS + row) * I;
            to[at_column] = share == 0.0f ? 0 : narrowed(y);
        }
    };
#pragma unroll 1
    for (int s = 0; s < total; s += DEEP)
#pragma unroll
        for (int i = 0; i < DEEP; ++i) {
            if (s + i >= total) break;
            consume(step[i], s + i);
        }
}

// `down`: a block owns sixteen columns of the result and walks the shared expert and all distinct ones
// in ascending order, each warp its eighth of an expert's width, two chunks a step.

constexpr int PART = 2 * CHUNK; // of a width, a warp's in one step
constexpr int SHARED_STEPS = S / (WARPS * PART), EXPERT_STEPS = I / (WARPS * PART);

struct DownStep {
    uint4 part[GROUPS][2];
};

struct DownInputs {
    Pair part[2];
};

extern "C" __global__ void __launch_bounds__(THREADS, MANY > 4 ? 1 : 2)
down(const Half* h, const Half* shared_h, const Half* w, const Half* shared_w, const int* length,
     const unsigned* left, const Half* residual, int residual_row, Half* y, int y_row, const float* factor,
     Half* scaled, float* squares) {
    __shared__ Meeting meeting;
    __shared__ Listed listed;
    const Lane at;
    const int rows = *length;
    listed.take(left);
    const int count = listed.count, total = SHARED_STEPS + count * EXPERT_STEPS;

    // Blocks begin with different experts, and go round, so as not to ask for the same rows of h at once.
    // Where a column begins depends on ids alone: a token's sums depend on no other token.
    int tile = blockIdx.x, begin = 0;
    const auto place_of = [&](int turn) {
        const int place = begin + turn;
        return place < count ? place : place - count;
    };
    const auto load = [&](DownStep& free, int s) {
        if (s >= total) return;
        const bool shared = s < SHARED_STEPS;
        const int of = s - SHARED_STEPS, width = shared ? S : I;
        const int part = shared ? s : of % EXPERT_STEPS;
        const Half* from = shared ? shared_w : w + (long long)listed.expert(place_of(of / EXPERT_STEPS)) * K * I;
        from += (long long)(tile * COLS + at.row) * width + (part * WARPS + at.warp) * PART + at.quarter;
#pragma unroll
        for (int g = 0; g < GROUPS; ++g)
#pragma unroll
            for (int c = 0; c < 2; ++c) free.part[g][c] = read_once(from + 8 * g * width + c * CHUNK);
    };
    const auto load_inputs = [&](DownInputs& free, int s) {
        if (s >= total) return;
        const bool shared = s < SHARED_STEPS;
        const int of = s - SHARED_STEPS, width = shared ? S : I;
        const int place = shared ? 0 : place_of(of / EXPERT_STEPS);
        const int part = shared ? s : of % EXPERT_STEPS;
        const unsigned bits = shared ? (1u << rows) - 1 : listed.rows(place);
        const Half* from = shared ? shared_h : h + place * ROWS * I;
        from += at.row * width + (part * WARPS + at.warp) * PART + at.quarter;
        const uint4 none = make_uint4(0, 0, 0, 0);
#pragma unroll
        for (int c = 0; c < 2; ++c) {
            const Half* low = from + c * CHUNK;
            free.part[c].low = bits >> at.row & 1 ? __ldcg(reinterpret_cast<const uint4*>(low)) : none;
            free.part[c].high =
                bits >> (at.row + 8) & 1 ? __ldcg(reinterpret_cast<const uint4*>(low + 8 * width)) : none;
        }
    };
    const Ending end = {residual, y, residual_row, y_row, factor, scaled, squares, K};
    DownStep step[MANY];
    for (int turn = 0; tile < K / COLS; tile += gridDim.x, ++turn) {
        begin = listed.below(tile * E / (K / COLS));
#pragma unroll
        for (int i = 0; i < MANY; ++i) load(step[i], i);
        const Ending::Known known = end.load(tile * COLS);
        if (turn == 0) {
            wait_for_last();
            let_next_start();
        }
        DownInputs inputs[MANY];
#pragma unroll
        for (int i = 0; i < MANY; ++i) load_inputs(inputs[i], i);
        Sums sums;
        sums.clear();
#pragma unroll 1
        for (int s = 0; s < total; s += MANY) {
#pragma unroll
            for (int i = 0; i < MANY; ++i) {
                if (s + i >= total) break;
#pragma unroll
                for (int c = 0; c < 2; ++c)
#pragma unroll
                    for (int g = 0; g < GROUPS; ++g)
                        sums.add(g, inputs[i].part[c], step[i].part[g][c]);
                load(step[i], s + i + MANY);
                load_inputs(inputs[i], s + i + MANY);
            }
        }
        const float sum = meeting.sum(sums, turn, at);
        end.store(sum, tile * COLS, rows, known);
    }
}
