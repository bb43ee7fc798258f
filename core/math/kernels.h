/*
 * Kernels: arrays in, arrays out. This room knows no model.
 *
 * Every kernel is here once as a contract: shapes, and the exact order in which it adds. It has
 * two bodies, kernels_ref.c (textbook loops, the truth) and kernels_simd.c (wasm_simd128.h), with
 * the suffixes _ref and _simd; both give the same bits, natively and in wasm. The plain name is
 * bound at compile time: ss_matmul is ss_matmul_simd where __wasm_simd128__ is defined, else
 * ss_matmul_ref. Arrays need no alignment; outputs never overlap inputs unless it says "in place".
 * Kernels cannot fail: shapes are proved once, when a model opens and a run starts.
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

/* Columns in one packed panel. */
#define SS_PANEL 8

/*
 * Compiled for relaxed SIMD, sum + x w of a product of matrices may be rounded once, not twice
 * (fused): within the tolerance that wasm/README.md states, and one row still has the bits that
 * many have. All else here is as exact as everywhere.
 */

/* Rows that a register tile multiplies at a time. */
#ifdef __wasm_relaxed_simd__
#define SS_TILE 6
#else
#define SS_TILE 5
#endif

/*
 * out[t][n] = bias[n] + a[t][0]*w[0][n] + a[t][1]*w[1][n] + ...   for t < T, n < N
 * Products are added one at a time, k ascending, starting from bias[n] (+0 where bias is NULL).
 * tiles: a as ss_tile gives it. out: [T] rows of N floats, out_stride apart.
 * panels: [ceil(N/8)][Kin][8], column n of w is lane n%8 of panel n/8; unused lanes are zero.
 */
#define SS_MATMUL_ARGS                                                                             \
    float *out, size_t out_stride, const float *tiles, const float *panels, const float *bias,     \
        size_t T, size_t N, size_t Kin

/*
 * T rows of Kin floats, stride floats apart, in the order in which ss_matmul reads them: a tile's
 * rows side by side, [Kin][SS_TILE], then the next; the last rows, fewer, [Kin][T % SS_TILE].
 */
#define SS_TILE_ARGS float *tiles, const float *rows, size_t stride, size_t T, size_t Kin

/*
 * sums[lane] += a[0]*rows[lane][0] + a[1]*rows[lane][1] + ... for eight rows of Kin weights: one
 * row of ss_matmul's product, its products added in the same order, without panels. The weights are
 * floats as a file has them, little-endian and unaligned, here and in the next two.
 */
#define SS_TIMES_ROWS_ARGS                                                                         \
    float sums[SS_PANEL], const float *a, const void *const rows[SS_PANEL], size_t Kin

/*
 * out[n] += a[0]*w[0][n] + a[1]*w[1][n] + ... for n < N, the same of weights whose outputs lie side
 * by side: w is Kin rows of N, stride bytes apart.
 */
#define SS_TIMES_COLUMNS_ARGS                                                                      \
    float *out, const float *a, const void *w, size_t stride, size_t N, size_t Kin

/*
 * Groups: 32 quantized weights each, n of them side by side in each of eight rows, read where the
 * file has them. Weight k of row `lane` is, with group i = k/32, the float
 *
 *     (q * 2^24) * d[j][i][lane]  +  m[i][lane] in types that add something
 *
 * j is 0, or k%32/16 where the halves of a group have factors of their own. An integer q is
 * made a float in its place, in the top byte of four; d makes up for that.
 */
#define SS_GROUP 32
#define SS_GROUPS 8
typedef struct ss_groups {
    size_t n;                  /* at most SS_GROUPS */
    const int8_t *q[SS_PANEL]; /* each row's, in its file or below: never to be copied */
    size_t stride;             /* bytes from those of a group to those of the next */
    bool adds, halved;
    const unsigned char *ahead; /* what is read after these: 4 n bytes, `apart` from each other, are
                                   touched meanwhile. Rows are too short for caches to guess it. */
    size_t apart;
    float d[2][SS_GROUPS][SS_PANEL], m[SS_GROUPS][SS_PANEL];
    int8_t unpacked[SS_PANEL][SS_GROUPS * SS_GROUP];
} ss_groups;

static inline float ss_group_weight(const ss_groups *g, size_t k, size_t lane) {
    size_t i = k / SS_GROUP, j = k % SS_GROUP / 16;
    int q = g->q[lane][i * g->stride + k % SS_GROUP] * 0x1000000;
    float weight = (float)q * g->d[g->halved && j][i][lane];
    return g->adds ? weight + g->m[i][lane] : weight;
}

/* As ss_times_rows, for the weights of groups of bytes. */
#define SS_TIMES_GROUPS_ARGS float sums[SS_PANEL], const float *a, const ss_groups *groups

/* panel[k][lane] = weight k of row `lane`, of bytes. */
#define SS_SPREAD_GROUPS_ARGS float *panel, const ss_groups *groups

/* panel[k][lane] = rows[lane][k] for k < n: eight rows of n floats side by side; NULL is zeros. */
#define SS_INTERLEAVE_ARGS float *panel, const void *const rows[SS_PANEL], size_t n

/* panel[k][lane] of n numbers of 16 bits a lane, halves or else brain floats, of which a file's
 * interleaved rows hold two of a lane side by side: pairs is [n/2][8][2], little-endian and
 * unaligned; n is even; exact. */
#define SS_SPREAD_PAIRS_ARGS float *panel, const unsigned char *pairs, bool halves, size_t n

/* out[i] = the IEEE half at halves + 2i, little-endian and unaligned; exact. */
#define SS_HALVES_ARGS float *out, const unsigned char *halves, size_t n

/* out[i] = exp(x[i] - shift), in place allowed; returns the sum of out in the reduction order. */
#define SS_EXP_ARGS float *out, const float *x, float shift, size_t n

/* out[i] = 1 / (1 + exp(-(x[i] + shift))), in place allowed; returns the sum of out. */
#define SS_SIGMOID_ARGS float *out, const float *x, float shift, size_t n

/* out[i] = x[i], and x[i] = 0: for rows, which are so short that a call of memcpy, which a browser
 * makes outside of wasm, takes longer. */
#define SS_COPY_ARGS float *out, const float *x, size_t n
#define SS_CLEAR_ARGS float *x, size_t n

/* x[i] *= factor. */
#define SS_SCALE_ARGS float *x, float factor, size_t n

/* y[i] += x[i]. */
#define SS_ADD_ARGS float *y, const float *x, size_t n

/* Largest x[i]; n >= 1, no NaN. (The order does not change a maximum.) */
#define SS_MAX_ARGS const float *x, size_t n

/* Index of the largest |x[i]|, the first of equals; n >= 1, no NaN. */
#define SS_PEAK_ARGS const float *x, size_t n

/* How many x[i] are larger than limit, or at least as large. */
#define SS_COUNT_ARGS const float *x, float limit, bool as_large, size_t n

/* Sum of x[i], in the reduction order. */
#define SS_SUM_ARGS const float *x, size_t n

/* sums[i] += factor * x[i], or of its absolute value, in doubles. */
#define SS_ADD_SHARES_ARGS double *sums, const float *x, double factor, bool absolute, size_t n

/*
 * -sum of p[i] ln p[i] over p[i] = |x[i]| * factor; ss_logf, of 0 too.
 * Four lanes of doubles, lane j adds those of p[j], p[j+4], ...; then (s0+s2) + (s1+s3).
 */
#define SS_ENTROPY_ARGS const float *x, float factor, size_t n

/* Sum of a[i]*b[i], in the reduction order. */
#define SS_DOT_ARGS const float *a, const float *b, size_t n

/*
 * RMSNorm: out[i] = (x[i] * r) * w[i], r = 1 / sqrt(dot(x,x)/n + eps), in place allowed.
 * (Zhang & Sennrich 2019)
 */
#define SS_RMSNORM_ARGS float *out, const float *x, const float *w, float eps, size_t n

/*
 * LayerNorm: m = sum(x)/n; c = x - m; r = 1 / sqrt(dot(c,c)/n + eps);
 * out[i] = ((c[i] * r) * w[i]) + b[i]; b may be NULL; in place allowed. (Ba et al. 2016, biased
 * variance)
 */
#define SS_LAYERNORM_ARGS                                                                          \
    float *out, const float *x, const float *w, const float *b, float eps, size_t n

/* x[i] = x[i] * sigmoid(x[i]) * up[i], multiplied left to right; sigmoid as in ss_sigmoid. */
#define SS_SILU_MUL_ARGS float *x, const float *up, size_t n

/* GELU, tanh form ("gelu_new"): 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), in place. */
#define SS_GELU_ARGS float *x, size_t n

/* GELU, exact ("gelu"): x Phi(x) = x (1 + erf(x / sqrt 2)) / 2, in place; ss_gelu_erff. */
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
    void ss_halves##suffix(SS_HALVES_ARGS);                                                        \
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
#define ss_halves SS_BIND(ss_halves)
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
