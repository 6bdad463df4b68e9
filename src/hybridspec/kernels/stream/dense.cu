// A product of at most sixteen rows, with the norms around it. Macros: K (a multiple of 1024); NORM: 0
// none, 1 of the whole row, applied to the sums, 2 of every 128 values, applied to their sums; END: 1
// adds the residual and leaves the result for the next norm; WIDE: fp32 results; PAIRED: w is gate above up
// [2 n, K], and the result silu(gate) * up [ROWS, n]: a tile is eight columns of both; PARTS: of a head's sum
// of squares; DEEP: steps of weights under way together.
#include "early.cuh"
#include "ring.cuh"

constexpr int WIDTH = PAIRED ? COLS / 2 : COLS; // columns of the result in a tile
// Blocks a multiprocessor that registers are kept for: two, one of them of the kernel ahead, where they then do
// not spill.
#if __CUDA_ARCH__ >= 900
constexpr int RESIDENT = STEPS == 3 ? 1 : 2;
#else
constexpr int RESIDENT = STEPS == 3 || NORM == 2 ? 1 : 2;
#endif

// Launched early, it reads `length` and the residual ahead of its turn: the kernel just before must not
// write them.
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT)
dense(const Half* x, const Half* w, const int* length, const float* squares, float eps, void* y, int y_row,
      const Half* residual, int residual_row, const float* factor, Half* scaled, float* next_squares, int n) {
    extern __shared__ uint4 under_way[];
    __shared__ Meeting meeting;
    __shared__ Scales<K> scales;
    __shared__ float head_scales[NORM == 2 ? WARPS : 1][NORM == 2 ? STEPS : 1][ROWS];
    const Lane at;
    const int tiles = (n + WIDTH - 1) / WIDTH;
    const Span span(tiles);
    if (span.count == 0) return; // before any barrier, and for all of the block
    const int mine = span.count, total = mine * STEPS;
    const Weights weights(under_way, at);
    const auto ask_step = [&](int s) {
        if (s < total) {
            const int first = span.tile(s / STEPS) * WIDTH + at.row;
            const Half* from = w + at.warp * SHARE + s % STEPS * DEPTH + at.quarter;
            const Half* columns[GROUPS];
#pragma unroll
            for (int g = 0; g < GROUPS; ++g)
                columns[g] =
                    from + (long long)(PAIRED ? g * n + min(first, n - 1) : min(first + 8 * g, n - 1)) * K;
            ask(weights, s % DEEP, columns);
        }
        weights.asked();
    };
    for (int i = 0; i < DEEP; ++i) ask_step(i); // weights need not wait for the kernel ahead
    const Ending end = {residual, (Half*)y, residual_row, y_row, factor, scaled, next_squares, n};
    Ending::Known known = {0, 0};
    if (END) known = end.load(span.tile(0) * COLS);
    const int rows = *length;
    wait_for_last();
    let_next_start();
    Scales<K>::Share share;
    if (NORM == 1) share.load(squares);
    Inputs inputs(x, rows, at);
    inputs.load();
    if (NORM == 1) scales.gather(share);
    if (NORM == 2) {
#pragma unroll
        for (int i = at.lane; i < STEPS * ROWS; i += 32) {
            const int row = i % ROWS, head = at.warp * STEPS + i / ROWS;
            float sum = 0;
#pragma unroll
            for (int b = 0; b < PARTS; ++b)
                if (row < rows) sum += squares[(row * (K / DEPTH) + head) * PARTS + b];
            head_scales[at.warp][i / ROWS][row] = rsqrtf(sum / DEPTH + eps);
        }
    }
    __syncwarp();

    Sums sums;
    sums.clear();
    float scale = 1;
    const int row = threadIdx.x / COLS, column_of_tile = threadIdx.x % COLS;
#pragma unroll 1
    for (int turn = 0; turn < mine; ++turn) {
#pragma unroll
        for (int place = 0; place < STEPS; ++place) {
            const int s = turn * STEPS + place;
            weights.take();
            if (NORM == 2) {
                Sums part;
                part.clear();
                inputs.multiply(part, weights, s % DEEP, place);
                sums.add(part, head_scales[at.warp][place][at.row], head_scales[at.warp][place][at.row + 8]);
            } else {
                inputs.multiply(sums, weights, s % DEEP, place);
            }
            ask_step(s + DEEP); // under way before anybody waits for the others' sums
        }
        float sum = meeting.sum(sums, turn, at);
        sums.clear();
        const int tile = span.tile(turn), column = tile * WIDTH + column_of_tile;
        bool stored = row < rows && column < n;
        if (NORM == 1) {
            if (turn == 0) scale = scales.of(row, eps);
            sum *= scale;
        }
        if (PAIRED) {
            const float up = __shfl_down_sync(0xffffffffu, sum, 8);
            sum = __fdividef(sum, 1.0f + __expf(-sum)) * up;
            stored = stored && column_of_tile < WIDTH;
        }
        if (END) {
            end.store(sum, tile * COLS, rows, known);
            if (turn + 1 < mine) known = end.load(span.tile(turn + 1) * COLS);
        } else if (stored) {
            if (WIDE) ((float*)y)[row * y_row + column] = sum;
            else ((Half*)y)[row * y_row + column] = narrowed(sum);
        }
    }
}
