/*
 * Prints one hash of output bits per kernel, over many sizes and strides. Every build of the core
 * must print the same lines; tests/wasm/kernels.test.mjs compares native and wasm.
 *
 * All builds have the same inputs, since these are made of integers and powers of two. NaN is
 * excluded, since its payload depends on the machine.
 */
#include "math/fixed.h"
#include "math/kernels.h"
#include "math/scalar.h"

#ifndef __EMSCRIPTEN__
#include <stdio.h>
#endif

enum { SIZE_MAX_TESTED = 67, ROOM = 4096 };

typedef struct kernel_set {
    void (*matmul)(SS_MATMUL_ARGS);
    void (*tile)(SS_TILE_ARGS);
    void (*times_rows)(SS_TIMES_ROWS_ARGS);
    void (*times_columns)(SS_TIMES_COLUMNS_ARGS);
    void (*times_groups)(SS_TIMES_GROUPS_ARGS);
    void (*spread_groups)(SS_SPREAD_GROUPS_ARGS);
    void (*interleave)(SS_INTERLEAVE_ARGS);
    void (*spread_pairs)(SS_SPREAD_PAIRS_ARGS);
    float (*exp)(SS_EXP_ARGS);
    float (*sigmoid)(SS_SIGMOID_ARGS);
    void (*copy)(SS_COPY_ARGS);
    void (*clear)(SS_CLEAR_ARGS);
    void (*scale)(SS_SCALE_ARGS);
    void (*add)(SS_ADD_ARGS);
    float (*max)(SS_MAX_ARGS);
    size_t (*peak)(SS_PEAK_ARGS);
    size_t (*count)(SS_COUNT_ARGS);
    float (*sum)(SS_SUM_ARGS);
    void (*add_shares)(SS_ADD_SHARES_ARGS);
    double (*entropy)(SS_ENTROPY_ARGS);
    float (*dot)(SS_DOT_ARGS);
    void (*rmsnorm)(SS_RMSNORM_ARGS);
    void (*layernorm)(SS_LAYERNORM_ARGS);
    void (*silu_mul)(SS_SILU_MUL_ARGS);
    void (*gelu)(SS_GELU_ARGS);
    void (*gelu_erf)(SS_GELU_ERF_ARGS);
    void (*relu)(SS_RELU_ARGS);
    void (*multiply)(SS_MULTIPLY_ARGS);
    void (*rotate)(SS_ROTATE_ARGS);
    void (*fixed_row)(SS_FIXED_ROW_ARGS);
    void (*times_fixed)(SS_TIMES_FIXED_ARGS);
    void (*spread_fixed)(SS_SPREAD_FIXED_ARGS);
    void (*tile_times_fixed)(SS_TILE_TIMES_FIXED_ARGS);
} kernel_set;

/* Set 0 has the functions that the core calls, set 1 the reference. */
static const kernel_set sets[] = {
    {ss_matmul,        ss_tile,         ss_times_rows,
     ss_times_columns, ss_times_groups, ss_spread_groups,
     ss_interleave,    ss_spread_pairs, ss_exp,
     ss_sigmoid,       ss_copy,         ss_clear,
     ss_scale,         ss_add,          ss_max,
     ss_peak,          ss_count,        ss_sum,
     ss_add_shares,    ss_entropy,      ss_dot,
     ss_rmsnorm,       ss_layernorm,    ss_silu_mul,
     ss_gelu,          ss_gelu_erf,     ss_relu,
     ss_multiply,      ss_rotate,       ss_fixed_row,
     ss_times_fixed,   ss_spread_fixed, ss_tile_times_fixed},
    {ss_matmul_ref,        ss_tile_ref,         ss_times_rows_ref,
     ss_times_columns_ref, ss_times_groups_ref, ss_spread_groups_ref,
     ss_interleave_ref,    ss_spread_pairs_ref, ss_exp_ref,
     ss_sigmoid_ref,       ss_copy_ref,         ss_clear_ref,
     ss_scale_ref,         ss_add_ref,          ss_max_ref,
     ss_peak_ref,          ss_count_ref,        ss_sum_ref,
     ss_add_shares_ref,    ss_entropy_ref,      ss_dot_ref,
     ss_rmsnorm_ref,       ss_layernorm_ref,    ss_silu_mul_ref,
     ss_gelu_ref,          ss_gelu_erf_ref,     ss_relu_ref,
     ss_multiply_ref,      ss_rotate_ref,       ss_fixed_row_ref,
     ss_times_fixed_ref,   ss_spread_fixed_ref, ss_tile_times_fixed_ref},
};

static uint32_t seed;
static uint64_t hash;
static float in_a[ROOM], in_b[ROOM], in_c[ROOM], out[ROOM], tiles[ROOM];

/* Returns a number that is mostly below 4 in size, sometimes 0, and sometimes up to 256, which
 * is beyond the range of exp. */
static float next_float(void) {
    seed = seed * 1664525u + 1013904223u;
    float x = (float)((int32_t)(seed >> 8) - 0x800000) * (1.0f / 2097152.0f);
    uint32_t kind = (seed >> 3) & 31u;
    return kind == 0 ? x * 64.0f : kind == 1 ? x * 0.0f : x;
}

static void refill(void) {
    for (size_t i = 0; i < ROOM; i++) {
        in_a[i] = next_float();
        in_b[i] = next_float();
        in_c[i] = next_float();
        out[i] = next_float();
    }
}

static void fold(const float *x, size_t n) {
    for (size_t i = 0; i < n; i++) hash = (hash ^ ss_bits_of_float(x[i])) * 0x100000001b3u;
}

/* Hashes a kernel's output and a few numbers after it, which the kernel must not change. */
static void fold_result(const float *x, size_t n, float scalar) {
    fold(x, n + 8);
    fold(&scalar, 1);
}

/* Hashes products whose arrays are shifted by `start` numbers, so that all alignments below 16
 * bytes occur. */
static void fold_matmul(const kernel_set *set, size_t n, size_t start) {
    const float *bias = start & 1 ? in_c + start : NULL;
    size_t Kin = (n * 5 + start) % 47, a_stride = Kin + start, out_stride = n + 3 * start;
    for (size_t T = 0; T < 12; T++) {
        set->tile(tiles, in_a + start, a_stride, T, Kin);
        set->matmul(out + start, out_stride, tiles, in_b + start, bias, T, n, Kin);
        fold(out, 12 * out_stride + start + 8);
    }
}

static void fold_tile(const kernel_set *set, size_t n, size_t start) {
    set->tile(out, in_a + start, n + start, start + 7, n);
    fold(out, (start + 7) * n);
}

/* Hashes products with rows of a file, which may begin at any byte. */
static void fold_times_rows(const kernel_set *set, size_t n, size_t start) {
    const void *rows[SS_PANEL];
    memcpy((char *)tiles + start, in_b, SS_PANEL * n * sizeof *in_b);
    for (size_t lane = 0; lane < SS_PANEL; lane++)
        rows[lane] = (const char *)tiles + start + lane * n * sizeof *in_b;
    set->times_rows(out + start, in_a + start, rows, n);
    fold(out, start + 16);
}

static void fold_times_columns(const kernel_set *set, size_t n, size_t start) {
    size_t Kin = 7 + start * 2;
    memcpy((char *)tiles + start, in_b, (Kin * n + start * Kin) * sizeof *in_b);
    set->times_columns(out + start, in_a, (char *)tiles + start, (n + start) * sizeof *in_b, n,
                       Kin);
    fold(out, n + start + 8);
}

static void fold_groups(const kernel_set *set, size_t n, size_t start, bool spread) {
    ss_groups g = {.n = n % 3 + 1,
                   .stride = n % 2 ? SS_GROUP : 34,
                   .has_summands = n % 4 < 2,
                   .has_half_groups = n % 8 < 4,
                   .prefetch = (const unsigned char *)in_a,
                   .prefetch_stride = 1};
    for (size_t i = 0; i < SS_PANEL * SS_GROUPS * SS_GROUP; i++)
        g.unpacked[i / (SS_GROUPS * SS_GROUP)][i % (SS_GROUPS * SS_GROUP)] =
            (int8_t)(ss_bits_of_float(in_b[i]) >> 12);
    for (size_t lane = 0; lane < SS_PANEL; lane++) g.q[lane] = g.unpacked[lane];
    memcpy(g.d, in_a + start, sizeof g.d);
    memcpy(g.m, in_a + start + 16, sizeof g.m);
    if (spread)
        set->spread_groups(out + start, &g);
    else
        set->times_groups(out + start, in_c + start, &g);
    fold(out, g.n * SS_PANEL * SS_GROUP + start + 8);
}

static void fold_times_groups(const kernel_set *set, size_t n, size_t start) {
    fold_groups(set, n, start, false);
}

static void fold_spread_groups(const kernel_set *set, size_t n, size_t start) {
    fold_groups(set, n, start, true);
}

static void fold_fixed(const kernel_set *set, size_t n, size_t start) {
    static ss_fixed rows[SS_FIXED_ROWS * 4];
    static ss_fixed_tile tile[4];
    static ss_fixed_panel panel[4];
    static ss_fixed_groups g;
    size_t groups = n % 4 + 1;
    g.n = groups;
    static unsigned char halves[sizeof in_b];
    for (size_t i = 0; i < sizeof halves; i++) halves[i] = ((const unsigned char *)in_b)[i] & 0xbf;
    g.kind = (ss_fixed_kind)(start % 4);
    g.stride = (g.kind ? 128u : 256u) + (n % 3 ? 0 : 16);
    g.halves = halves + start + n % 7;
    g.integers = (const unsigned char *)in_b + start + n % 5;
    memcpy(g.d, in_c + start, sizeof g.d);
    memcpy(g.m, in_c + start + 64, sizeof g.m);
    in_a[n] *= 1e-40f, in_a[2 * n + 7] = start == 3 ? 3e38f : 1e-44f;
    for (size_t k = 0; start == 4 && k < SS_GROUP; k++) in_a[k] *= 1e-37f;
    for (size_t t = 0; t < SS_FIXED_ROWS; t++)
        set->fixed_row(rows + t * groups, in_a + 5 * t, groups);
    set->times_fixed(out, rows, &g);
    fold(out, SS_PANEL + 8);
    ss_tile_fixed(tile, rows, groups);
    set->spread_fixed(panel, &g);
    set->tile_times_fixed(out + start, tile, panel, groups);
    fold(out, SS_FIXED_ROWS * SS_PANEL + start + 8);
}

static void fold_interleave(const kernel_set *set, size_t n, size_t start) {
    const void *rows[SS_PANEL] = {0};
    for (size_t lane = 0; lane < SS_PANEL - start % 2; lane++) rows[lane] = in_a + start + lane * n;
    set->interleave(out, rows, n);
    fold(out, SS_PANEL * n);
}

static void fold_spread_pairs(const kernel_set *set, size_t n, size_t start) {
    const unsigned char *pairs = (const unsigned char *)in_a + start;
    size_t even_n = n / 2 * 2;
    set->spread_pairs(out, pairs, true, even_n);
    set->spread_pairs(out + even_n * SS_PANEL, pairs, false, even_n);
    fold(out, 2 * even_n * SS_PANEL);
}

static void fold_exp(const kernel_set *set, size_t n, size_t start) {
    float sum = set->exp(out + start, in_a + 2 * start, in_b[0], n);
    fold_result(out, n + start, sum);
    sum = set->exp(out + start, out + start, in_b[1], n);
    fold_result(out, n + start, sum);
}

static void fold_sigmoid(const kernel_set *set, size_t n, size_t start) {
    float sum = set->sigmoid(out + start, in_a + 2 * start, in_b[0], n);
    fold_result(out, n + start, sum);
    sum = set->sigmoid(out + start, out + start, in_b[1], n);
    fold_result(out, n + start, sum);
}

static void fold_copy(const kernel_set *set, size_t n, size_t start) {
    set->copy(out + start, in_b + 2 * start, n);
    fold_result(out, n + start, 0.0f);
}

static void fold_clear(const kernel_set *set, size_t n, size_t start) {
    set->clear(out + start, n);
    fold_result(out, n + start + 8, 0.0f);
}

static void fold_scale(const kernel_set *set, size_t n, size_t start) {
    set->scale(out + start, in_b[0], n);
    fold_result(out, n + start, 0.0f);
}

static void fold_add(const kernel_set *set, size_t n, size_t start) {
    set->add(out + start, in_a + 2 * start, n);
    fold_result(out, n + start, 0.0f);
}

/* Hashes maxima. The contract leaves the sign of a zero maximum open, so 0 is added, which makes it
 * positive. */
static void fold_max(const kernel_set *set, size_t n, size_t start) {
    float largest = n > 0 ? set->max(in_a + start, n) + 0.0f : 0.0f;
    fold(&largest, 1);
}

static void fold_peak(const kernel_set *set, size_t n, size_t start) {
    if (n > 0) hash = (hash ^ set->peak(in_a + start, n)) * 0x100000001b3u;
}

static void fold_count(const kernel_set *set, size_t n, size_t start) {
    for (size_t i = 0; i < n; i += 3)
        hash = (hash ^ set->count(in_a + start, in_a[start + i], start % 2, n)) * 0x100000001b3u;
}

static void fold_sum(const kernel_set *set, size_t n, size_t start) {
    float sum = set->sum(in_a + start, n);
    fold(&sum, 1);
}

static void fold_add_shares(const kernel_set *set, size_t n, size_t start) {
    double sums[SIZE_MAX_TESTED];
    for (size_t i = 0; i < n; i++) sums[i] = (double)in_b[i];
    set->add_shares(sums, in_a + start, (double)in_c[0] / 3.0, start % 2, n);
    for (size_t i = 0; i < n; i++) hash = (hash ^ ss_bits_of_double(sums[i])) * 0x100000001b3u;
}

static void fold_entropy(const kernel_set *set, size_t n, size_t start) {
    double sum = set->entropy(in_a + start, fabsf(in_b[0]) * 0.01f, n);
    hash = (hash ^ ss_bits_of_double(sum)) * 0x100000001b3u;
}

static void fold_dot(const kernel_set *set, size_t n, size_t start) {
    float sum = set->dot(in_a + start, in_b + 2 * start, n);
    fold(&sum, 1);
}

static void fold_rmsnorm(const kernel_set *set, size_t n, size_t start) {
    if (n > 0) set->rmsnorm(out + start, in_a + 2 * start, in_b + 3 * start, 1e-5f, n);
    fold_result(out, n + start, 0.0f);
}

static void fold_layernorm(const kernel_set *set, size_t n, size_t start) {
    const float *bias = start & 1 ? in_c + start : NULL;
    if (n > 0) set->layernorm(out + start, in_a + 2 * start, in_b + 3 * start, bias, 1e-5f, n);
    fold_result(out, n + start, 0.0f);
}

static void fold_silu_mul(const kernel_set *set, size_t n, size_t start) {
    set->silu_mul(out + start, in_a + 2 * start, n);
    fold_result(out, n + start, 0.0f);
}

static void fold_gelu(const kernel_set *set, size_t n, size_t start) {
    set->gelu(out + start, n);
    fold_result(out, n + start, 0.0f);
}

static void fold_gelu_erf(const kernel_set *set, size_t n, size_t start) {
    set->gelu_erf(out + start, n);
    fold_result(out, n + start, 0.0f);
}

static void fold_relu(const kernel_set *set, size_t n, size_t start) {
    set->relu(out + start, n);
    fold_result(out, n + start, 0.0f);
}

static void fold_multiply(const kernel_set *set, size_t n, size_t start) {
    set->multiply(out + start, in_b + start, n);
    fold_result(out, n + start, 0.0f);
}

static void fold_rotate(const kernel_set *set, size_t n, size_t start) {
    set->rotate(out + start, in_a + start, in_b + start, in_c, n);
    fold_result(out, 2 * n + start, 0.0f);
}

static const struct {
    const char *name;
    void (*fold)(const kernel_set *set, size_t n, size_t start);
} kernels[] = {
    {"matmul", fold_matmul},
    {"tile", fold_tile},
    {"times_rows", fold_times_rows},
    {"times_columns", fold_times_columns},
    {"times_groups", fold_times_groups},
    {"spread_groups", fold_spread_groups},
    {"fixed", fold_fixed},
    {"interleave", fold_interleave},
    {"spread_pairs", fold_spread_pairs},
    {"exp", fold_exp},
    {"sigmoid", fold_sigmoid},
    {"copy", fold_copy},
    {"clear", fold_clear},
    {"scale", fold_scale},
    {"add", fold_add},
    {"max", fold_max},
    {"peak", fold_peak},
    {"count", fold_count},
    {"sum", fold_sum},
    {"add_shares", fold_add_shares},
    {"entropy", fold_entropy},
    {"dot", fold_dot},
    {"rmsnorm", fold_rmsnorm},
    {"layernorm", fold_layernorm},
    {"silu_mul", fold_silu_mul},
    {"gelu", fold_gelu},
    {"gelu_erf", fold_gelu_erf},
    {"relu", fold_relu},
    {"multiply", fold_multiply},
    {"rotate", fold_rotate},
};

uint32_t ss_bits_count(void);
uint32_t ss_bits(uint32_t kernel, uint32_t half);

uint32_t ss_bits_count(void) {
    return sizeof kernels / sizeof *kernels;
}

/* Returns the low (0) or high (1) half of a kernel's hash, or the low (2) or high (3) half of the
 * reference's hash. */
uint32_t ss_bits(uint32_t kernel, uint32_t half) {
    seed = 1;
    hash = 0xcbf29ce484222325u;
    for (size_t n = 0; n <= SIZE_MAX_TESTED; n++)
        for (size_t start = 0; start < 5; start++) {
            refill();
            kernels[kernel].fold(&sets[half / 2], n, start);
        }
    return (uint32_t)(half % 2 ? hash >> 32 : hash);
}

#ifndef __EMSCRIPTEN__
int main(void) {
    for (uint32_t i = 0; i < ss_bits_count(); i++)
        printf("%s %08x%08x\n", kernels[i].name, (unsigned)ss_bits(i, 1), (unsigned)ss_bits(i, 0));
    return 0;
}
#endif
