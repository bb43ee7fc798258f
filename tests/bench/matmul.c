/*
 * Measures the speed of ss_matmul, tiling included, at the shapes of the zoo's models and of GPT-2,
 * and the speed of a softmax row.
 *
 * Natively main() prints a line per shape. For wasm, tests/bench/matmul.mjs calls bench_run and
 * holds the clock; it runs the base and the SIMD binary in turn, on one page.
 */
#include "math/kernels.h"
#include "math/scalar.h"

#include <stdlib.h>

typedef struct bench {
    const char *name;
    uint32_t T, N, Kin; /* T = 0: softmax of rows of N */
} bench;

static const bench benches[] = {
    {"zoo q, k, v, o", 64, 128, 128},  {"zoo q, k, v, o", 128, 128, 128},
    {"zoo gate, up", 64, 344, 128},    {"zoo gate, up", 128, 344, 128},
    {"zoo down", 64, 128, 344},        {"zoo down", 128, 128, 344},
    {"zoo head", 64, 1024, 128},       {"zoo head", 128, 1024, 128},
    {"gpt2 qkv", 64, 2304, 768},       {"gpt2 qkv", 256, 2304, 768},
    {"gpt2 projection", 64, 768, 768}, {"gpt2 projection", 256, 768, 768},
    {"gpt2 mlp in", 64, 3072, 768},    {"gpt2 mlp in", 256, 3072, 768},
    {"gpt2 mlp out", 64, 768, 3072},   {"gpt2 mlp out", 256, 768, 3072},
    {"softmax row", 0, 1024, 0},
};

enum { MAX_T = 256, MAX_WIDTH = 3072, MAX_WEIGHTS = 768 * 3072 };
static float panels[MAX_WEIGHTS], input[MAX_T * MAX_WIDTH];
static float tiles[MAX_T * MAX_WIDTH], output[MAX_T * MAX_WIDTH];
static float bias[MAX_WIDTH];

uint32_t bench_count(void);
const char *bench_name(uint32_t i);
uint32_t bench_rows(uint32_t i);
uint32_t bench_columns(uint32_t i);
uint32_t bench_depth(uint32_t i);
void bench_fill(void);
float bench_run(uint32_t i, uint32_t times);
uint32_t bench_read(const uint32_t *at, size_t bytes);

uint32_t bench_count(void) {
    return sizeof benches / sizeof *benches;
}
const char *bench_name(uint32_t i) {
    return benches[i].name;
}
uint32_t bench_rows(uint32_t i) {
    return benches[i].T;
}
uint32_t bench_columns(uint32_t i) {
    return benches[i].N;
}
uint32_t bench_depth(uint32_t i) {
    return benches[i].Kin;
}

static void fill(float *x, size_t n) {
    uint32_t seed = 1;
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = (float)((int32_t)(seed >> 8) - 0x800000) / 8388608.0f;
    }
}

void bench_fill(void) {
    fill(panels, MAX_WEIGHTS);
    fill(input, MAX_T * MAX_WIDTH);
    fill(bias, MAX_WIDTH);
}

static void softmax(size_t n) {
    float sum = ss_exp(output, input, ss_max(input, n), n);
    ss_scale(output, 1.0f / sum, n);
}

static void multiply(const bench *b) {
    ss_tile(tiles, input, b->Kin, b->T, b->Kin);
    ss_matmul(output, b->N, tiles, panels, bias, b->T, b->N, b->Kin);
}

/* Runs bench i `times` times. Returns one of the results, so that the compiler cannot omit the
 * work. */
float bench_run(uint32_t i, uint32_t times) {
    const bench *b = &benches[i];
    for (uint32_t r = 0; r < times; r++) {
        if (b->T == 0)
            softmax(b->N);
        else
            multiply(b);
    }
    return output[b->N - 1];
}

/* Reads `bytes` bytes and nothing else: a product with one row cannot be quicker than that. */
uint32_t bench_read(const uint32_t *at, size_t bytes) {
    uint32_t sum = 0;
    for (size_t i = 0; i < bytes / sizeof *at; i++) sum += at[i];
    return sum;
}

#ifndef __EMSCRIPTEN__
#include <stdio.h>
#include <time.h>

static double seconds(uint32_t i, uint32_t times) {
    clock_t start = clock();
    volatile float kept = bench_run(i, times);
    (void)kept;
    return (double)(clock() - start) / CLOCKS_PER_SEC;
}

int main(void) {
    bench_fill();
    for (uint32_t i = 0; i < bench_count(); i++) {
        uint32_t times = 1;
        while (seconds(i, times) < 0.02) times *= 2;
        double best = seconds(i, times);
        for (int r = 0; r < 4; r++) {
            double next = seconds(i, times);
            if (next < best) best = next;
        }
        const bench *b = &benches[i];
        double work = b->T ? 2.0 * b->T * b->N * b->Kin : (double)b->N;
        printf("%-16s %3u x %4u x %4u  %8.2f %s\n", b->name, (unsigned)b->T, (unsigned)b->N,
               (unsigned)b->Kin, work * times / best * 1e-9, b->T ? "GFLOP/s" : "numbers/ns");
    }
    return 0;
}
#endif
