/*
 * How fast ss_matmul is, on shapes of the zoo's twins and of GPT-2. tests/bench/matmul.mjs compiles
 * this to base wasm and to SIMD wasm and times both in one page; built natively, it times itself.
 */
#include "math/kernels.h"
#include "math/scalar.h"

#ifndef __EMSCRIPTEN__
#include <stdio.h>
#include <time.h>
#endif

typedef struct bench_shape {
    uint32_t T, N, Kin;
} bench_shape;

static const bench_shape shapes[] = {
    /* a twin: projections, feed-forward, head, scores of one head, one token */
    {64, 128, 128},
    {128, 128, 128},
    {128, 344, 128},
    {128, 128, 344},
    {128, 1024, 128},
    {20, 100, 32},
    {1, 344, 128},
    /* GPT-2: queries to values, mixing, feed-forward, one token */
    {64, 2304, 768},
    {64, 768, 768},
    {64, 3072, 768},
    {64, 768, 3072},
    {256, 2304, 768},
    {256, 768, 768},
    {256, 3072, 768},
    {256, 768, 3072},
    {1, 3072, 768},
};
enum { SHAPES = sizeof shapes / sizeof *shapes, ROWS_MAX = 256, WIDTH_MAX = 3072 };

static float panels[WIDTH_MAX * 768], in[ROWS_MAX * WIDTH_MAX], out[ROWS_MAX * WIDTH_MAX];

uint32_t bench_shapes(void);
uint32_t bench_size(uint32_t shape, uint32_t letter);
void bench_fill(void);
void bench_textbook(uint32_t shape, uint32_t times);
void bench_matmul(uint32_t shape, uint32_t times);
uint32_t bench_hash(uint32_t shape);

uint32_t bench_shapes(void) {
    return SHAPES;
}

/* T, N or Kin, for letter 0, 1 or 2. */
uint32_t bench_size(uint32_t shape, uint32_t letter) {
    const bench_shape *s = shapes + shape;
    return letter == 0 ? s->T : letter == 1 ? s->N : s->Kin;
}

static void fill(float *x, size_t n) {
    uint32_t seed = 1;
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = (float)((int32_t)(seed >> 8) - 0x800000) * (1.0f / 8388608.0f);
    }
}

/* Speed does not depend on values; subnormals, which it might depend on, do not occur. */
void bench_fill(void) {
    fill(panels, sizeof panels / sizeof *panels);
    fill(in, sizeof in / sizeof *in);
}

void bench_textbook(uint32_t shape, uint32_t times) {
    bench_shape s = shapes[shape];
    for (uint32_t i = 0; i < times; i++)
        ss_matmul_ref(out, s.N, in, s.Kin, panels, NULL, s.T, s.N, s.Kin);
}

/* What the core calls: textbook or SIMD, by build. */
void bench_matmul(uint32_t shape, uint32_t times) {
    bench_shape s = shapes[shape];
    for (uint32_t i = 0; i < times; i++)
        ss_matmul(out, s.N, in, s.Kin, panels, NULL, s.T, s.N, s.Kin);
}

/* Of the last outputs: builds that are compared must have done the same work. */
uint32_t bench_hash(uint32_t shape) {
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < (size_t)shapes[shape].T * shapes[shape].N; i++)
        hash = (hash ^ ss_bits_of_float(out[i])) * 16777619u;
    return hash;
}

#ifndef __EMSCRIPTEN__
static double seconds(void) {
    struct timespec now;
    timespec_get(&now, TIME_UTC);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* The best of several runs, each of about a fifth of a GFLOP. */
static double gflops(uint32_t shape) {
    bench_shape s = shapes[shape];
    double flop = 2.0 * s.T * s.N * s.Kin, best = 0.0;
    uint32_t times = 1u + (uint32_t)(2e8 / flop);
    for (int i = 0; i < 5; i++) {
        double start = seconds();
        bench_matmul(shape, times);
        double rate = 1e-9 * flop * times / (seconds() - start);
        if (rate > best) best = rate;
    }
    return best;
}

int main(void) {
    bench_fill();
    printf("    T     N   Kin   GFLOP/s, native textbook\n");
    for (uint32_t i = 0; i < SHAPES; i++)
        printf("%5u %5u %5u %9.1f\n", (unsigned)shapes[i].T, (unsigned)shapes[i].N,
               (unsigned)shapes[i].Kin, gflops(i));
    return 0;
}
#endif
