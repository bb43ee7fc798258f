/*
 * Fixed point: exact products with quantized weights, in integer arithmetic.
 *
 * Weights are w d + m: w a signed byte or a nibble, d and m shared by a group of 32. Activations
 * are brought to the same form: each group of a row, x, becomes integers X and a unit,
 *
 *     unit = 2^max(e - 28, -126)  where the group's largest magnitude is in [2^e, 2^(e+1))
 *     X[k] = x[k] / unit, rounded to even                       |X| < 2^29
 *
 * The error of a number is at most 2^-29 of the group's largest (whose own float error is up to
 * 2^-24), or 2^-127. The product starts from the bias and adds groups in ascending order,
 *
 *     sum += V * (d * unit) + m * s          bytes have no m: sum += V * (d * unit)
 *     V = (w[0] X[0] + w[1] X[1] + ...) / 2^c, rounded, halves up
 *     s = (X[0] + X[1] + ...) * unit
 *
 * where c is 8 for nibbles and 11 for bytes. Both integer sums are exact, below 2^41 and 2^34; V
 * rounds the former once, the conversion to float rounds each once, and each operation written here
 * rounds once (the 2^c by which V is too small is stored in the row's unit and, for bytes, in d). A
 * group with a NaN or an infinity has X = 0 and unit NaN, and so the sum is NaN. Integer sums do
 * not depend on the order, so a row gives the same bits alone as among others, and fixed.c the same
 * as fixed_simd.c.
 */
#ifndef SS_MATH_FIXED_H
#define SS_MATH_FIXED_H

#include "kernels.h"
#include "scalar.h"

/* Rows per tile: 5 x 2 vectors of sums and the panel's two fit V8's fifteen registers. */
#define SS_FIXED_ROWS 5

/* A group of a row. X[k] = high[k] 2^15 + low[k]; high and low are at most 2^14 in size. */
typedef struct ss_fixed {
    int16_t low[SS_GROUP], high[SS_GROUP];
    float unit, sum; /* unit times 2^8, and s */
} ss_fixed;

/* One group of each of five rows, with pairs of inputs adjacent. */
typedef struct ss_fixed_tile {
    int16_t low[SS_GROUP / 2][SS_FIXED_ROWS][2], high[SS_GROUP / 2][SS_FIXED_ROWS][2];
    float unit[SS_FIXED_ROWS], sum[SS_FIXED_ROWS];
} ss_fixed_tile;

/* How the numbers of a group follow from its integers q. */
typedef enum ss_fixed_kind {
    SS_BYTES,           /* d q; d is a half */
    SS_NIBBLES_MINUS_8, /* d (q - 8), q a nibble */
    SS_NIBBLES_PLUS_M,  /* d q + m; d and m are halves; the m of all lanes follow the d of all lanes
                         */
    SS_NIBBLES_SCALED,  /* d q + m; d and m are products of halves and scales */
} ss_fixed_kind;

/* Groups of eight outputs, with their integers interleaved. Bytes are [k/2][lane][k%2]. Of nibbles,
 * four inputs of all lanes take 16 bytes, [lane%4][k%2][k/2%2], with lanes 0..3 in the low halves
 * and 4..7 in the high ones: 16-bit words shifted right by 0, 4, 8 and 12 are pairs of inputs of
 * four lanes. */
typedef struct ss_fixed_groups {
    size_t n;
    ss_fixed_kind kind;
    const unsigned char *halves, *integers; /* d and m, and integers, of group 0 */
    size_t stride;                          /* bytes from one group to the next */
    float d[SS_GROUPS][SS_PANEL],
        m[SS_GROUPS][SS_PANEL]; /* for SS_NIBBLES_SCALED, where n is at most SS_GROUPS */
} ss_fixed_groups;

/* Factor 2^3 in the d of bytes, because their V is divided by 2^11, not by 2^8. */
#define SS_BYTE_FACTOR 8.0f

/* Factors of integers, so that every kernel divides its sum by 2^15. */
#define SS_NIBBLE_SCALE 128
#define SS_BYTE_SCALE 16

/* Returns the byte that holds nibble k of a lane, among four inputs of all lanes; lanes 4..7 are in
 * its high half. */
static inline size_t ss_nibble_offset(size_t k, size_t lane) {
    return k / 4 * 16 + lane % 4 * 4 + k % 2 * 2 + k / 2 % 2;
}

static inline int ss_fixed_integer(const ss_fixed_groups *g, size_t i, size_t k, size_t lane) {
    const unsigned char *at = g->integers + i * g->stride;
    if (g->kind != SS_BYTES) return at[ss_nibble_offset(k, lane)] >> (lane < 4 ? 0 : 4) & 15;
    return (int8_t)at[k / 2 * 16 + lane * 2 + k % 2];
}

/* A group of eight outputs for many rows: integers times their scale, two inputs adjacent. */
typedef struct ss_fixed_panel {
    int16_t integers[SS_GROUP / 2][SS_PANEL][2];
    float d[SS_PANEL], m[SS_PANEL];
    bool has_summands;
} ss_fixed_panel;

void ss_fixed_factors(float d[SS_PANEL], float m[SS_PANEL], const ss_fixed_groups *g, size_t i);

/* The divisor of a group's numbers, from the bits of its largest magnitude. */
typedef struct ss_unit {
    uint32_t mask; /* AND mask for the bits of the group's numbers: 0 if one is not finite */
    float factor, unit;
} ss_unit;
static inline ss_unit ss_unit_of(uint32_t bits) {
    uint32_t exponent = bits >> 23;
    if (exponent == 255) return (ss_unit){0, 1.0f, NAN};
    if (exponent < 29) exponent = 29;
    return (ss_unit){0xffffffffu, ss_float_of_bits((282 - exponent) << 23),
                     ss_float_of_bits((exponent - 28) << 23)};
}

static inline void ss_finish_fixed(ss_fixed *x, float unit, int32_t low_sum, int32_t high_sum) {
    x->unit = unit * 256.0f;
    x->sum = ((float)high_sum * 0x1p15f + (float)low_sum) * unit;
}

/* Interleaves n groups of each of five rows, [5][n], into tile[n]. */
void ss_tile_fixed(ss_fixed_tile *tile, const ss_fixed *rows, size_t n);

/* Converts x[32 n] to row[n]. */
#define SS_FIXED_ROW_ARGS ss_fixed *row, const float *x, size_t n

/* sums[lane] += products of one row, row[groups->n], with the groups. */
#define SS_TIMES_FIXED_ARGS float sums[SS_PANEL], const ss_fixed *row, const ss_fixed_groups *groups

/* Spreads groups into panel[groups->n]. */
#define SS_SPREAD_FIXED_ARGS ss_fixed_panel *panel, const ss_fixed_groups *groups

/* sums[t][lane] += products of row t of the tile with n groups, for SS_FIXED_ROWS rows. */
#define SS_TILE_TIMES_FIXED_ARGS                                                                   \
    float sums[SS_FIXED_ROWS * SS_PANEL], const ss_fixed_tile *tile, const ss_fixed_panel *panel,  \
        size_t n

#define SS_FIXED_KERNELS(suffix)                                                                   \
    void ss_fixed_row##suffix(SS_FIXED_ROW_ARGS);                                                  \
    void ss_times_fixed##suffix(SS_TIMES_FIXED_ARGS);                                              \
    void ss_spread_fixed##suffix(SS_SPREAD_FIXED_ARGS);                                            \
    void ss_tile_times_fixed##suffix(SS_TILE_TIMES_FIXED_ARGS);

SS_FIXED_KERNELS(_ref)
#ifdef __wasm_simd128__
SS_FIXED_KERNELS(_simd)
#endif

#define ss_fixed_row SS_BIND(ss_fixed_row)
#define ss_times_fixed SS_BIND(ss_times_fixed)
#define ss_spread_fixed SS_BIND(ss_spread_fixed)
#define ss_tile_times_fixed SS_BIND(ss_tile_times_fixed)

#endif
