// A product of at most sixteen rows, with the norms around it. Macros: K (a multiple of 1024); NORM: 0
// none, 1 of the whole row, applied to the sums, 2 of every 128 values, applied to their sums; END: 1
// adds the residual and leaves the result for the next norm; WIDE: fp32 results; PAIRED: w is gate above up
// [2 n, K], and the result silu(gate) * up [ROWS, n]: a tile is eight columns of both.
#include "early.cuh"
#include "walk.cuh"

constexpr int WIDTH = PAIRED ? COLS / 2 : COLS; // columns of the result in a tile

// Launched early, it reads `length` and the residual ahead of its turn: the kernel just before must not
// write them.
extern "C" __global__ void __launch_bounds__(THREADS, 2)
dense(const Half* x, const Half* w, const int* length, const float* squares, int blocks, float eps,
      void* y, int y_row, const Half* residual, int residual_row, const float* factor, Half* scaled,
      float* next_squares, int n) {
    extern __shared__ __align__(16) Half rows_of_x[]; // [WARPS][ROWS][ROW]
    __shared__ Meeting meeting;
    __shared__ Scales<K> scales;
    __shared__ float head_scales[NORM == 2 ? WARPS : 1][NORM == 2 ? STEPS : 1][ROWS];
    const Lane at;
    const int tiles = (n + WIDTH - 1) / WIDTH;
    if (blockIdx.x >= tiles) return; // before any barrier, and for all of the block
    const Span span(tiles);
    const int mine = span.count, total = mine * STEPS;
    Step step[2];
    const auto load = [&](Step& free, int s) {
        if (s >= total) return;
        const int first = span.tile(s / STEPS) * WIDTH + at.row;
        const Half* from = w + at.warp * SHARE + s % STEPS * DEPTH + at.quarter;
        const Half* columns[GROUPS];
#pragma unroll
        for (int g = 0; g < GROUPS; ++g)
            columns[g] = from + (long long)(PAIRED ? g * n + min(first, n - 1) : min(first + 8 * g, n - 1)) * K;
        free.load(columns);
    };
    load(step[0], 0); // weights need not wait for the kernel ahead
    load(step[1], 1);
    const Ending end = {residual, (Half*)y, residual_row, y_row, factor, scaled, next_squares, n};
    Ending::Known known = {0, 0};
    if (END) known = end.load(span.tile(0) * COLS);
    const int rows = *length;
    wait_for_last();
    let_next_start();
    Scales<K>::Share share;
    if (NORM == 1) share.load(squares);
    Half* my_x = rows_of_x + at.warp * ROWS * ROW;
    fetch(my_x, x, rows, at);
    if (NORM == 1) scales.gather(share);
    if (NORM == 2)
        for (int i = at.lane; i < STEPS * ROWS; i += 32) {
            const int row = i % ROWS, head = at.warp * STEPS + i / ROWS;
            float sum = 0;
            if (row < rows)
                for (int b = 0; b < blocks; ++b) sum += squares[(row * (K / DEPTH) + head) * blocks + b];
            head_scales[at.warp][i / ROWS][row] = rsqrtf(sum / DEPTH + eps);
        }
    __syncwarp();

    Sums sums;
    sums.clear();
    float scale = 1;
    int turn = 0;
    // The next weights are under way before anybody waits for the others' sums.
    const auto consume = [&](Step& ready, int s) {
        const int place = s % STEPS;
        if (NORM == 2) {
            Sums part;
            part.clear();
            ready.multiply(part, my_x, place, at);
            sums.add(part, head_scales[at.warp][place][at.row], head_scales[at.warp][place][at.row + 8]);
        } else {
            ready.multiply(sums, my_x, place, at);
        }
        load(ready, s + 2);
        if (place < STEPS - 1) return;
        float sum = meeting.sum(sums, turn, at);
        sums.clear();
        const bool first = turn == 0;
        const int tile = span.tile(turn++);
        const int row = threadIdx.x / COLS, column = tile * WIDTH + threadIdx.x % COLS;
        bool stored = row < rows && column < n;
        if (NORM == 1) {
            if (first) scale = scales.of(row, eps);
            sum *= scale;
        }
        if (PAIRED) {
            const float up = __shfl_down_sync(0xffffffffu, sum, 8);
            sum = __fdividef(sum, 1.0f + __expf(-sum)) * up;
            stored = stored && threadIdx.x % COLS < WIDTH;
        }
        if (END) {
            end.store(sum, tile * COLS, rows, known);
            if (turn < mine) known = end.load(span.tile(turn) * COLS);
        } else if (stored) {
            if (WIDE) ((float*)y)[row * y_row + column] = sum;
            else ((Half*)y)[row * y_row + column] = narrowed(sum);
        }
    };
#pragma unroll 1
    for (int s = 0; s < total; s += 2) {
        consume(step[0], s);
        if (s + 1 >= total) break;
        consume(step[1], s + 1);
    }
}
