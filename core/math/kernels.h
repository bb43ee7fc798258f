/*
 * Kernels: functions from arrays to arrays, which know nothing about models.
 *
 * This header specifies every kernel once: shapes, and the exact order of its additions. Each has
 * two implementations, kernels_ref.c (textbook loops, the truth) and kernels_simd.c
 * (wasm_simd128.h), with the suffixes _ref and _simd; both give the same bits, natively and in
 * wasm. The plain name is bound at compile time: ss_matmul is ss_matmul_simd where __wasm_simd128__
 * is defined, else ss_matmul_ref. Arrays need no alignment; outputs never overlap inputs unless the
 * comment says "in place". Kernels cannot fail: shapes are checked once, when a model opens and a
 * run starts.
 *
 * Order of a reduction over x[0..n): eight lanes, lane j adds x[j], x[j+8], x[j+16], ... in that
 * order from +0 (a ragged tail fills the first lanes only); then the tree
 * ((s0+s4)+(s2+s6)) + ((s1+s5)+(s3+s7)).
 */
#ifndef SS_MATH_KERNELS_H
#define SS_MATH_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Columns in one packed panel: two vectors of four floats. */
#define SS_PANEL 8

/* Rows per register tile; times_panel in kernels_simd.c says why. */
#define SS_TILE 5

/* out[t][n] = bias[n] + a[t][0]*w[0][n] + a[t][1]*w[1][n] + ...   for t < T, n < N
 * Products are added one at a time, k ascending, starting from bias[n] (+0 where bias is NULL).
 * tiles: a in the layout of ss_tile. out: [T] rows of N floats, out_stride apart.
 * panels: [ceil(N/8)][Kin][8], column n of w is lane n%8 of panel n/8; unused lanes are zero. */
#define SS_MATMUL_ARGS                                                                             \
    float *out, size_t out_stride, const float *tiles, const float *panels, const float *bias,     \
        size_t T, size_t N, size_t Kin

/* Copies T rows of Kin floats, stride floats apart, into the order in which ss_matmul reads them: a
 * tile interleaves its rows, [Kin][SS_TILE]; the last tile has fewer, [Kin][T % SS_TILE]. */
#define SS_TILE_ARGS float *tiles, const float *rows, size_t stride, size_t T, size_t Kin

/* sums[lane] += a[0]*rows[lane][0] + a[1]*rows[lane][1] + ... for eight rows of Kin weights: one
 * row of ss_matmul's product, added in the same order, without panels. The weights are floats as a
 * file stores them, little-endian and unaligned, here and in ss_times_columns and ss_interleave. */
#define SS_TIMES_ROWS_ARGS                                                                         \
    float sums[SS_PANEL], const float *a, const void *const rows[SS_PANEL], size_t Kin

/* out[n] += a[0]*w[0][n] + a[1]*w[1][n] + ... for n < N: the sum of ss_times_rows for weights
 * stored by input. w has Kin rows of N outputs, stride bytes apart. */
#define SS_TIMES_COLUMNS_ARGS                                                                      \
    float *out, const float *a, const void *w, size_t stride, size_t N, size_t Kin

/*
 * Groups: 32 quantized weights each, n consecutive ones in each of eight rows, read in place from
 * the file. Weight k of row `lane` is, with group i = k/32, the float
 *
 *     (q * 2^24) * d[j][i][lane]  +  m[j][i][lane] in types with a summand
 *
 * j is 0, or k%32/16 in types whose half groups have factors and summands of their own. The kernels
 * convert q to a float from the top byte of four, where it is 2^24 times too large; d makes up for
 * that.
 */
#define SS_GROUP 32
#define SS_GROUPS 8
typedef struct ss_groups {
    size_t n;                  /* at most SS_GROUPS */
    const int8_t *q[SS_PANEL]; /* integers of each row, in its file or in `unpacked` below; a copy
                                  of this struct would point into the original */
    size_t stride;             /* bytes from one group to the next */
    bool has_summands, has_half_groups;
    const unsigned char
        *prefetch; /* address of the next weights: 4 n addresses from there, `prefetch_stride` bytes
                   apart, are prefetched, because rows are too short for the hardware to predict */
    size_t prefetch_stride;
    float d[2][SS_GROUPS][SS_PANEL], m[2][SS_GROUPS][SS_PANEL];
    int8_t unpacked[SS_PANEL][SS_GROUPS * SS_GROUP];
} ss_groups;

static inline float ss_group_weight(const ss_groups *g, size_t k, size_t lane) {
    size_t i = k / SS_GROUP, j = k % SS_GROUP / 16;
    int q = g->q[lane][i * g->stride + k % SS_GROUP] * 0x1000000;
    bool half = g->has_half_groups && j;
    float weight = (float)q * g->d[half][i][lane];
    return g->has_summands ? weight + g->m[half][i][lane] : weight;
}

/* Adds to sums as ss_times_rows does, for weights in groups of bytes. */
#define SS_TIMES_GROUPS_ARGS float sums[SS_PANEL], const float *a, const ss_groups *groups

/* panel[k][lane] = weight k of row `lane`, for groups of bytes. */
#define SS_SPREAD_GROUPS_ARGS float *panel, const ss_groups *groups

/* panel[k][lane] = rows[lane][k] for k < n, from eight rows of n floats; NULL is a row of zeros. */
#define SS_INTERLEAVE_ARGS float *panel, const void *const rows[SS_PANEL], size_t n

/* panel[k][lane] from n 16-bit numbers per lane: halves if `are_halves` is true, else bfloat16.
 * Interleaved rows keep two adjacent numbers per lane: pairs is [n/2][8][2], little-endian and
 * unaligned, and n is even. The conversion is exact. */
#define SS_SPREAD_PAIRS_ARGS float *panel, const unsigned char *pairs, bool are_halves, size_t n

/* out[i] = the IEEE half at halves + 2i, little-endian and unaligned; exact. */
#define SS_UNPACK_HALVES_ARGS float *out, const unsigned char *halves, size_t n

/* out[i] = exp(x[i] - shift), in place allowed; returns the sum of out in the reduction order. */
#define SS_EXP_ARGS float *out, const float *x, float shift, size_t n

/* out[i] = 1 / (1 + exp(-(x[i] + shift))), in place allowed; returns the sum of out. */
#define SS_SIGMOID_ARGS float *out, const float *x, float shift, size_t n

/* SS_COPY_ARGS: out[i] = x[i]. SS_CLEAR_ARGS: x[i] = 0. Kernels replace memcpy and memset, which
 * browsers call outside of wasm; such a call takes longer than a short row. */
#define SS_COPY_ARGS float *out, const float *x, size_t n
#define SS_CLEAR_ARGS float *x, size_t n

/* x[i] *= factor. */
#define SS_SCALE_ARGS float *x, float factor, size_t n

/* y[i] += x[i]. */
#define SS_ADD_ARGS float *y, const float *x, size_t n

/* Returns the largest x[i]; n >= 1, no NaN. (The order does not change a maximum.) */
#define SS_MAX_ARGS const float *x, size_t n

/* Returns the index of the largest |x[i]|, the smallest of equal ones; n >= 1, no NaN. */
#define SS_PEAK_ARGS const float *x, size_t n

/* Returns how many x[i] are larger than limit or, with `with_equal`, equal to it. */
#define SS_COUNT_ARGS const float *x, float limit, bool with_equal, size_t n

/* Returns the sum of x[i], in the reduction order. */
#define SS_SUM_ARGS const float *x, size_t n

/* sums[i] += factor * x[i], in doubles; with `absolute`, factor * |x[i]| is added. */
#define SS_ADD_SHARES_ARGS double *sums, const float *x, double factor, bool absolute, size_t n

/* Returns -sum of p[i] ln p[i] over p[i] = |x[i]| * factor. ss_logf(0) is finite, so the term of p
 * = 0 is 0. Four lanes of doubles, lane j adds the terms of p[j], p[j+4], ...; then (s0+s2) +
 * (s1+s3). */
#define SS_ENTROPY_ARGS const float *x, float factor, size_t n

/* Returns the sum of a[i]*b[i], in the reduction order. */
#define SS_DOT_ARGS const float *a, const float *b, size_t n

/* RMSNorm: out[i] = (x[i] * r) * w[i], r = 1 / sqrt(dot(x,x)/n + eps), in place allowed.
 * (Zhang & Sennrich 2019) */
#define SS_RMSNORM_ARGS float *out, const float *x, const float *w, float eps, size_t n

/* LayerNorm: m = sum(x)/n; c = x - m; r = 1 / sqrt(dot(c,c)/n + eps);
 * out[i] = ((c[i] * r) * w[i]) + b[i]; b may be NULL; in place allowed. (Ba et al. 2016, biased
 * variance) */
#define SS_LAYERNORM_ARGS                                                                          \
    float *out, const float *x, const float *w, const float *b, float eps, size_t n

/* x[i] = x[i] * sigmoid(x[i]) * up[i], multiplied left to right; sigmoid as in ss_sigmoid. */
#define SS_SILU_MUL_ARGS float *x, const float *up, size_t n

/* GELU, tanh form ("gelu_new"): 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), in place. */
#define SS_GELU_ARGS float *x, size_t n

/* GELU, exact ("gelu"): x Phi(x) = x (1 + erf(x / sqrt 2)) / 2, in place, by ss_gelu_erff. */
#define SS_GELU_ERF_ARGS float *x, size_t n

/* x[i] = max(x[i], 0), in place. */
#define SS_RELU_ARGS float *x, size_t n

/* x[i] *= y[i]. */
#define SS_MULTIPLY_ARGS float *x, const float *y, size_t n

/* Rotates the pairs (x[j], x[j+pairs]), in RoFormer's rotate-half form: out[j] = x[j] cosine[j] -
 * x[j+pairs] sine[j], out[j+pairs] = x[j+pairs] cosine[j] + x[j] sine[j]; out may be x. */
#define SS_ROTATE_ARGS                                                                             \
    float *out, const float *x, const float *cosine, const float *sine, size_t pairs

#define SS_KERNELS(suffix)                                                                         \
    void ss_matmul##suffix(SS_MATMUL_ARGS);                                                        \
    void ss_tile##suffix(SS_TILE_ARGS);                                                            \
    void ss_times_rows##suffix(SS_TIMES_ROWS_ARGS);                                                \
    void ss_times_columns##suffix(SS_TIMES_COLUMNS_ARGS);                                          \
    void ss_times_groups##suffix(SS_TIMES_GROUPS_ARGS);                                            \
    void ss_spread_groups##suffix(SS_SPREAD_GROUPS_ARGS);                                          \
    void ss_interleave##suffix(SS_INTERLEAVE_ARGS);                                                \
    void ss_spread_pairs##suffix(SS_SPREAD_PAIRS_ARGS);                                            \
    void ss_unpack_halves##suffix(SS_UNPACK_HALVES_ARGS);                                          \
    float ss_exp##suffix(SS_EXP_ARGS);                                                             \
    float ss_sigmoid##suffix(SS_SIGMOID_ARGS);                                                     \
    void ss_copy##suffix(SS_COPY_ARGS);                                                            \
    void ss_clear##suffix(SS_CLEAR_ARGS);                                                          \
    void ss_scale##suffix(SS_SCALE_ARGS);                                                          \
    void ss_add##suffix(SS_ADD_ARGS);                                                              \
    float ss_max##suffix(SS_MAX_ARGS);                                                             \
    size_t ss_peak##suffix(SS_PEAK_ARGS);                                                          \
    size_t ss_count##suffix(SS_COUNT_ARGS);                                                        \
    float ss_sum##suffix(SS_SUM_ARGS);                                                             \
    void ss_add_shares##suffix(SS_ADD_SHARES_ARGS);                                                \
    double ss_entropy##suffix(SS_ENTROPY_ARGS);                                                    \
    float ss_dot##suffix(SS_DOT_ARGS);                                                             \
    void ss_rmsnorm##suffix(SS_RMSNORM_ARGS);                                                      \
    void ss_layernorm##suffix(SS_LAYERNORM_ARGS);                                                  \
    void ss_silu_mul##suffix(SS_SILU_MUL_ARGS);                                                    \
    void ss_gelu##suffix(SS_GELU_ARGS);                                                            \
    void ss_gelu_erf##suffix(SS_GELU_ERF_ARGS);                                                    \
    void ss_relu##suffix(SS_RELU_ARGS);                                                            \
    void ss_multiply##suffix(SS_MULTIPLY_ARGS);                                                    \
    void ss_rotate##suffix(SS_ROTATE_ARGS);

SS_KERNELS(_ref)

#ifdef __wasm_simd128__
SS_KERNELS(_simd)
#define SS_BIND(name) name##_simd
#else
#define SS_BIND(name) name##_ref
#endif

#define ss_matmul SS_BIND(ss_matmul)
#define ss_tile SS_BIND(ss_tile)
#define ss_times_rows SS_BIND(ss_times_rows)
#define ss_times_columns SS_BIND(ss_times_columns)
#define ss_times_groups SS_BIND(ss_times_groups)
#define ss_spread_groups SS_BIND(ss_spread_groups)
#define ss_interleave SS_BIND(ss_interleave)
#define ss_spread_pairs SS_BIND(ss_spread_pairs)
#define ss_unpack_halves SS_BIND(ss_unpack_halves)
#define ss_exp SS_BIND(ss_exp)
#define ss_sigmoid SS_BIND(ss_sigmoid)
#define ss_copy SS_BIND(ss_copy)
#define ss_clear SS_BIND(ss_clear)
#define ss_scale SS_BIND(ss_scale)
#define ss_add SS_BIND(ss_add)
#define ss_max SS_BIND(ss_max)
#define ss_peak SS_BIND(ss_peak)
#define ss_count SS_BIND(ss_count)
#define ss_sum SS_BIND(ss_sum)
#define ss_add_shares SS_BIND(ss_add_shares)
#define ss_entropy SS_BIND(ss_entropy)
#define ss_dot SS_BIND(ss_dot)
#define ss_rmsnorm SS_BIND(ss_rmsnorm)
#define ss_layernorm SS_BIND(ss_layernorm)
#define ss_silu_mul SS_BIND(ss_silu_mul)
#define ss_gelu SS_BIND(ss_gelu)
#define ss_gelu_erf SS_BIND(ss_gelu_erf)
#define ss_relu SS_BIND(ss_relu)
#define ss_multiply SS_BIND(ss_multiply)
#define ss_rotate SS_BIND(ss_rotate)

#endif
