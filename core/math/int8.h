/*
 * Eight bits: a product in integer arithmetic, approximate and several times as fast.
 *
 * Weights are integers of -127 to 127, a scale for each output; rows are integers of 0 to
 * 127, a scale and a zero point for each row, which every product computes (dynamic quantization):
 *
 *     w[k][n] = scale[n] * q[k][n]        a[t][k] = scale[t] * (u[t][k] - zero[t])
 *     out[t][n] = (scale[t] * scale[n]) * sum of (u[t][k] - zero[t]) q[k][n]  +  bias[n]
 *
 * Seven bits of a row, not eight: its numbers are the second operand of wasm's relaxed dot product,
 * whose result is the same on all machines only from 0 to 127. Sums of integers are exact in any
 * order, and the rest is written down below number by number, so that the textbook, SIMD and
 * relaxed SIMD give the same bits, and one row the same as many. Zero is exact in both.
 */
#ifndef SS_MATH_INT8_H
#define SS_MATH_INT8_H

#include "kernels.h"

/* Inputs whose bytes lie side by side. */
#define SS_QUAD 4

/* The longest sum of products of 127 and 128 that 32 bits hold: wider matrices stay exact. */
#define SS_INT8_MAX_IN 130000

/* The weights of a matrix; lanes of the last panel that are no output are zero, and so are inputs
 * that fill up the last quad. */
typedef struct ss_int8 {
    int8_t *panels; /* [P][Q][8][4], P = ceil(out/8), Q = ceil(in/4) */
    float *scales;  /* [P * 8] */
    int32_t *sums;  /* [P * 8] of all q of an output */
} ss_int8;

/* T rows of a product, as ss_int8_rows makes them. */
typedef struct ss_rows8 {
    uint8_t *numbers; /* [T][Q * 4] */
    float *scales;    /* [T] */
    int32_t *zeros;   /* [T] */
    int16_t *tiles;   /* [T][Q * 4] as a body of ss_times8 reads them, or untouched */
} ss_rows8;

/* Fills tiles. */
#define SS_TILE8_ARGS const ss_rows8 *rows, size_t T, size_t Kin

/* out: [T] rows of N floats, out_stride apart; bias [N] or NULL, which is +0. */
#define SS_TIMES8_ARGS                                                                             \
    float *out, size_t out_stride, const ss_rows8 *rows, const ss_int8 *w, const float *bias,      \
        size_t T, size_t N, size_t Kin

void ss_tile8_ref(SS_TILE8_ARGS);
void ss_times8_ref(SS_TIMES8_ARGS);
#ifdef __wasm_simd128__
void ss_tile8_simd(SS_TILE8_ARGS);
void ss_times8_simd(SS_TIMES8_ARGS);
extern const char ss_int8_kernels[]; /* "simd" or "relaxed" */
#endif
#define ss_tile8 SS_BIND(ss_tile8)
#define ss_times8 SS_BIND(ss_times8)

static inline size_t ss_quads(size_t Kin) {
    return (Kin + SS_QUAD - 1) / SS_QUAD;
}

/* The last step of a product: an integer sum becomes a number. */
static inline float ss_int8_number(int32_t sum, int32_t zero, int32_t sum_of_weights,
                                   float row_scale, float scale, float bias) {
    return (float)(sum - zero * sum_of_weights) * (row_scale * scale) + bias;
}

/*
 * One panel of floats [Kin][8] becomes panel[Q][8][4]: q = w / scale, rounded to even. A lane's
 * scale is that of its weights where they are integers already (scales [8]), else (NULL) its
 * largest magnitude over 127. Of a scale below 2^-100 all q are 0.
 */
void ss_int8_panel(int8_t *panel, float scale[SS_PANEL], int32_t sums[SS_PANEL],
                   const float *floats, const float *scales, size_t Kin);

/*
 * Rows of Kin floats, side by side: low and high are the smallest and the largest of a row and 0,
 * scale = (high - low) / 127, zero = -low / scale, u = x / scale + zero, each rounded to even. Of a
 * scale below 2^-100 all u are 0; of a row with a NaN or an infinity scale is NaN.
 */
void ss_int8_rows(const ss_rows8 *rows, const float *x, size_t T, size_t Kin);

#endif
