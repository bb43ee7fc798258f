/*
 * Four bits: exact products with quantised weights, in integer arithmetic.
 *
 * Weights are w d + m: w a nibble, d and m those of a group of 32 (kernels.h). A row of a product
 * is brought to the same form: of each group of its numbers x, integers X and a unit,
 *
 *     unit = 2^max(e - 28, -126)  where the group's largest magnitude is in [2^e, 2^(e+1))
 *     X[k] = x[k] / unit, rounded to even                       |X| < 2^29
 *
 * so that no number is off by more than 2^-29 of the group's largest (as a float, that is off by up
 * to 2^-24 itself), or than 2^-127. The product is, onto the bias, group by group in ascending
 * order,
 *
 *     sum += V * (d * unit) + m * s
 *     V = (w[0] X[0] + w[1] X[1] + ...) / 2^8, rounded, halves up      s = (X[0] + X[1] + ...) *
 * unit
 *
 * Both sums of integers are exact, below 2^38 and 2^34; the former is rounded once to V, both
 * once to a float, and each operation written here once (V's 2^8 is in the unit that it is
 * multiplied with). Of a group with a NaN or an infinity X is 0 and unit NaN, and so is the sum. As
 * integers add up to the same in any order, one row has the bits of many, and the textbook
 * those of SIMD.
 */
#ifndef SS_MATH_INT4_H
#define SS_MATH_INT4_H

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

/* A group of eight rows of weights, for many rows: 128 w, two inputs side by side. */
typedef struct ss_nibbles {
    int16_t numbers[SS_GROUP / 2][SS_PANEL][2];
    float d[SS_PANEL], m[SS_PANEL];
} ss_nibbles;

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

/* sums[lane] += one row's products with groups of nibbles; row[groups->n]. */
#define SS_TIMES_NIBBLES_ARGS float sums[SS_PANEL], const ss_fixed *row, const ss_groups *groups

/* spread[groups->n] <- groups of nibbles. */
#define SS_SPREAD_NIBBLES_ARGS ss_nibbles *spread, const ss_groups *groups

/* sums[t][lane] += five rows' products with n groups. */
#define SS_TILE_TIMES_NIBBLES_ARGS                                                                 \
    float sums[SS_FIVE * SS_PANEL], const ss_fixed_tile *tile, const ss_nibbles *spread, size_t n

#define SS_INT4_KERNELS(suffix)                                                                    \
    void ss_fixed_row##suffix(SS_FIXED_ROW_ARGS);                                                  \
    void ss_times_nibbles##suffix(SS_TIMES_NIBBLES_ARGS);                                          \
    void ss_spread_nibbles##suffix(SS_SPREAD_NIBBLES_ARGS);                                        \
    void ss_tile_times_nibbles##suffix(SS_TILE_TIMES_NIBBLES_ARGS);

SS_INT4_KERNELS(_ref)
#ifdef __wasm_simd128__
SS_INT4_KERNELS(_simd)
#endif

#define ss_fixed_row SS_BIND(ss_fixed_row)
#define ss_times_nibbles SS_BIND(ss_times_nibbles)
#define ss_spread_nibbles SS_BIND(ss_spread_nibbles)
#define ss_tile_times_nibbles SS_BIND(ss_tile_times_nibbles)

#endif
