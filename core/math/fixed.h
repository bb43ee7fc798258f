/*
 * Fixed point: exact products with quantized weights, in integer arithmetic.
 *
 * Weights are w d + m: w a signed byte or a nibble, d and m those of a group of 32. A row of a
 * product is brought to the same form: of each group of its numbers x, integers X and a unit,
 *
 *     unit = 2^max(e - 28, -126)  where the group's largest magnitude is in [2^e, 2^(e+1))
 *     X[k] = x[k] / unit, rounded to even                       |X| < 2^29
 *
 * so that no number is off by more than 2^-29 of the group's largest (as a float, that is off by up
 * to 2^-24 itself), or than 2^-127. The product is, onto the bias, group by group in ascending
 * order,
 *
 *     sum += V * (d * unit) + m * s      of bytes, which have no m, sum += V * (d * unit)
 *     V = (w[0] X[0] + w[1] X[1] + ...) / 2^c, rounded, halves up      s = (X[0] + X[1] + ...) *
 * unit
 *
 * where c is 8 of nibbles and 11 of bytes. Both sums of integers are exact, below 2^41 and 2^34;
 * the former is rounded once to V, both once to a float, and each operation written here once (V's
 * 2^c is in what it is multiplied with). Of a group with a NaN or an infinity X is 0 and unit NaN,
 * and so is the sum. As integers add up to the same in any order, one row has the bits of many, and
 * the textbook those of SIMD.
 */
#ifndef SS_MATH_FIXED_H
#define SS_MATH_FIXED_H

#include "kernels.h"
#include "scalar.h"

/* Rows that are multiplied at a time. */
#define SS_FIVE 5

/* A group of a row. X[k] = high[k] 2^15 + low[k], each at most 2^14 in size. */
typedef struct ss_fixed {
    int16_t low[SS_GROUP], high[SS_GROUP];
    float unit, sum; /* 2^8 unit, and s */
} ss_fixed;

/* A group of five rows: pairs of numbers side by side. */
typedef struct ss_fixed_tile {
    int16_t low[SS_GROUP / 2][SS_FIVE][2], high[SS_GROUP / 2][SS_FIVE][2];
    float unit[SS_FIVE], sum[SS_FIVE];
} ss_fixed_tile;

/*
 * Groups of eight outputs, whose integers lie side by side. Of bytes they are [k/2][lane][k%2]. Of
 * nibbles four inputs of all lanes are 16 bytes, [lane%4][k%2][k/2%2], with lanes 0..3 in the low
 * halves and 4..7 in the high ones: as words of 16 bits, moved down by 0, 4, 8 and 12, they are
 * pairs of inputs of four lanes.
 */
typedef enum ss_fixed_kind {
    SS_BYTES,      /* d q; d is a half */
    SS_LESS_EIGHT, /* d (q - 8), q a nibble */
    SS_ADDING,     /* d q + m; m is a half, too, behind the d of all lanes */
    SS_SCALED,     /* d q + m; d and m are products of halves and scales */
} ss_fixed_kind;
typedef struct ss_fixed_groups {
    size_t n;
    ss_fixed_kind kind;
    const unsigned char *halves, *integers; /* group 0's */
    size_t stride;                          /* bytes from those of a group to the next */
    float d[SS_GROUPS][SS_PANEL], m[SS_GROUPS][SS_PANEL]; /* of scaled ones, of which n is at most
                                                             SS_GROUPS */
} ss_fixed_groups;

/* The d of bytes is 2^3 times what it is, so that it goes with their V. */
#define SS_BYTE_FACTOR 8.0f

/* What integers are multiplied with, so that 2^15 is left of their sum to divide by. */
#define SS_NIBBLE_SCALE 128
#define SS_BYTE_SCALE 16

/* The byte of four inputs of all lanes that holds nibble k of a lane; those of lanes 4..7 are its
 * high half. */
static inline size_t ss_nibble_place(size_t k, size_t lane) {
    return k / 4 * 16 + lane % 4 * 4 + k % 2 * 2 + k / 2 % 2;
}

/* Integer k of group i. */
static inline int ss_fixed_integer(const ss_fixed_groups *g, size_t i, size_t k, size_t lane) {
    const unsigned char *at = g->integers + i * g->stride;
    if (g->kind != SS_BYTES) return at[ss_nibble_place(k, lane)] >> (lane < 4 ? 0 : 4) & 15;
    return (int8_t)at[k / 2 * 16 + lane * 2 + k % 2];
}

/* A group of eight outputs for many rows: integers times their scale, two inputs side by side. */
typedef struct ss_fixed_panel {
    int16_t integers[SS_GROUP / 2][SS_PANEL][2];
    float d[SS_PANEL], m[SS_PANEL];
    bool adds; /* m */
} ss_fixed_panel;

/* d and m of group i. */
void ss_fixed_factors(float d[SS_PANEL], float m[SS_PANEL], const ss_fixed_groups *g, size_t i);

/* What a group's numbers are divided by; bits is its largest number's, without its sign. */
typedef struct ss_unit {
    uint32_t kept; /* of the bits of its numbers: none where some are not finite */
    float by, unit;
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

/* Added to a float below 2^22, its sum's lowest bits are the float rounded to even. */
#define SS_FIXED_MAGIC 12582912.0f

/* tile[n] <- n groups of each of five rows, [5][n]. */
void ss_tile_fixed(ss_fixed_tile *tile, const ss_fixed *rows, size_t n);

/* row[n] <- x[32 n]. */
#define SS_FIXED_ROW_ARGS ss_fixed *row, const float *x, size_t n

/* sums[lane] += one row's products with groups; row[groups->n]. */
#define SS_TIMES_FIXED_ARGS float sums[SS_PANEL], const ss_fixed *row, const ss_fixed_groups *groups

/* panel[groups->n] <- groups. */
#define SS_SPREAD_FIXED_ARGS ss_fixed_panel *panel, const ss_fixed_groups *groups

/* sums[t][lane] += five rows' products with n groups. */
#define SS_TILE_TIMES_FIXED_ARGS                                                                   \
    float sums[SS_FIVE * SS_PANEL], const ss_fixed_tile *tile, const ss_fixed_panel *panel, size_t n

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
