/*
 * Eight bits: approximate products in integer arithmetic, several times as fast as products of
 * floats.
 *
 * Weights are integers from -127 to 127 with a scale per output; rows are integers from 0 to 127
 * with a scale and a zero point per row, computed for every product (dynamic quantization):
 *
 *     w[k][n] = scale[n] * q[k][n]        a[t][k] = scale[t] * (u[t][k] - zero[t])
 *     out[t][n] = (scale[t] * scale[n]) * sum of (u[t][k] - zero[t]) q[k][n]  +  bias[n]
 *
 * Rows have seven bits, not eight: they are the second operand of wasm's relaxed dot product, whose
 * result is the same on all machines only from 0 to 127. Integer sums are exact in any order, and
 * the other operations are specified below operation by operation, so that int8.c, SIMD and relaxed
 * SIMD give the same bits, and a row the same alone as among others. Zero is exact in weights and
 * in rows.
 */
#ifndef SS_MATH_INT8_H
#define SS_MATH_INT8_H

#include "kernels.h"

/* Inputs whose bytes are adjacent: one relaxed dot product multiplies four bytes per lane. */
#define SS_QUAD 4

/* Widest input for which a sum of products of 127 and 128 fits 32 bits. The products of wider
 * matrices stay exact, in floats. */
#define SS_INT8_MAX_IN 130000

/* The weights of a matrix. Lanes of the last panel beyond the outputs are zero, and so are the
 * inputs that pad the last quad. */
typedef struct ss_int8 {
    int8_t *panels; /* [P][Q][8][4], P = ceil(out/8), Q = ceil(in/4) */
    float *scales;  /* [P * 8] */
    int32_t *sums;  /* [P * 8] sums of q over the inputs */
} ss_int8;

typedef struct ss_rows8 {
    uint8_t *numbers; /* [T][Q * 4] */
    float *scales;    /* [T] */
    int32_t *zeros;   /* [T] */
    int16_t *tiles;   /* [T][Q * 4] numbers in the order in which ss_times8 reads them, filled by
                         ss_tile8 */
} ss_rows8;

#define SS_TILE8_ARGS const ss_rows8 *rows, size_t T, size_t Kin

/* Multiplies T rows by the matrix w, which has N outputs. out has T rows of N floats, out_stride
 * apart; bias is [N], or NULL for +0. */
#define SS_TIMES8_ARGS                                                                             \
    float *out, size_t out_stride, const ss_rows8 *rows, const ss_int8 *w, const float *bias,      \
        size_t T, size_t N, size_t Kin

void ss_tile8_ref(SS_TILE8_ARGS);
void ss_times8_ref(SS_TIMES8_ARGS);
#ifdef __wasm_simd128__
void ss_tile8_simd(SS_TILE8_ARGS);
void ss_times8_simd(SS_TIMES8_ARGS);
extern const char ss_int8_kernels[]; /* "simd" or "relaxed": the build's kernel */
#endif
#define ss_tile8 SS_BIND(ss_tile8)
#define ss_times8 SS_BIND(ss_times8)

static inline size_t ss_quads(size_t Kin) {
    return (Kin + SS_QUAD - 1) / SS_QUAD;
}

/* Converts an integer sum to a float: the last step of a product. */
static inline float ss_int8_number(int32_t sum, int32_t zero, int32_t sum_of_weights,
                                   float row_scale, float scale, float bias) {
    return (float)(sum - zero * sum_of_weights) * (row_scale * scale) + bias;
}

/*
 * Converts one panel of floats [Kin][8] to panel[Q][8][4]: q = w / scale, rounded to even. `scales`
 * [8] are those of weights that already are integers; with NULL a lane's scale is its largest
 * magnitude over 127. A scale below 2^-100 makes all q 0.
 */
void ss_int8_panel(int8_t *panel, float scale[SS_PANEL], int32_t sums[SS_PANEL],
                   const float *floats, const float *scales, size_t Kin);

/*
 * Converts T rows of Kin floats: with low and high the smallest and largest of a row and 0, scale =
 * (high - low) / 127, zero = -low / scale, u = x / scale + zero, each rounded to even. A scale
 * below 2^-100 makes all u 0; a row with a NaN or an infinity has scale NaN.
 */
void ss_int8_rows(const ss_rows8 *rows, const float *x, size_t T, size_t Kin);

#endif
