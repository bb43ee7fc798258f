/*
 * core/math: every kernel against its contract, and elementwise functions against libm. The native
 * build has the reference alone; tests/wasm/kernels.test.mjs runs the same checks on the SIMD
 * kernels.
 */
#include "math/kernels.h"
#include "math/pack.h"
#include "math/scalar.h"
#include "math/fixed.h"

#include "check.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static uint32_t random_state = 1;

/* Returns a uniform number in [-size, size). */
static float random_float(float size) {
    random_state = random_state * 1664525u + 1013904223u;
    return (float)((int32_t)(random_state >> 8) - 0x800000) / 8388608.0f * size;
}

/* Returns n random numbers in a block of exact size, so that the sanitizer detects reads beyond it.
 */
static float *numbers(size_t n, float size) {
    float *x = malloc(n * sizeof *x + 1);
    if (!x) abort();
    for (size_t i = 0; i < n; i++) x[i] = random_float(size);
    return x;
}

/* ---- matmul ---- */

enum { GUARD = 16, LARGEST = 2048 };
static const float canary = -12345.678f;

typedef struct guarded {
    float memory[LARGEST + 2 * GUARD], *out;
    size_t n;
} guarded;

static void add_guards(guarded *g, size_t n) {
    if (n > LARGEST) abort();
    for (size_t i = 0; i < LARGEST + 2 * GUARD; i++) g->memory[i] = canary;
    g->out = g->memory + GUARD;
    g->n = n;
}

static bool is_untouched(const float *x, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (memcmp(x + i, &canary, sizeof canary) != 0) return false;
    return true;
}

static bool guards_are_untouched(const guarded *g) {
    return is_untouched(g->memory, GUARD) && is_untouched(g->out + g->n, GUARD);
}

typedef struct shape {
    size_t T, N, Kin, a_stride, out_stride;
} shape;

/* Checks element (t, n) in double and, bit for bit, in the order of the contract. */
static bool element_is_right(shape s, const float *out, const float *a, const float *w,
                             const float *bias, size_t t, size_t n) {
    float ordered = bias ? bias[n] : 0.0f;
    double exact = (double)ordered, size = fabs(exact);
    for (size_t k = 0; k < s.Kin; k++) {
        double product = (double)a[t * s.a_stride + k] * (double)w[k * s.N + n];
        exact += product;
        size += fabs(product);
        ordered += a[t * s.a_stride + k] * w[k * s.N + n];
    }
    float actual = out[t * s.out_stride + n];
    return is_within(fabs((double)actual - exact), 1e-6 * size) &&
           ss_bits_of_float(actual) == ss_bits_of_float(ordered);
}

static bool matmul_is_right(shape s, bool with_bias) {
    float *a = numbers(s.T ? (s.T - 1) * s.a_stride + s.Kin : 0, 2.0f);
    float *w = numbers(s.N * s.Kin, 2.0f), *bias = with_bias ? numbers(s.N, 2.0f) : NULL;
    float *panels = numbers(ss_panels_floats(s.N, s.Kin), 1.0f);
    guarded g;
    add_guards(&g, s.T ? (s.T - 1) * s.out_stride + s.N : 0);
    ss_pack_columns(panels, w, s.N, s.N, s.Kin);
    float *tiles = numbers(s.T * s.Kin, 1.0f);
    ss_tile(tiles, a, s.a_stride, s.T, s.Kin);
    ss_matmul(g.out, s.out_stride, tiles, panels, bias, s.T, s.N, s.Kin);
    bool is_right = true;
    for (size_t t = 0; t < s.T; t++) {
        for (size_t n = 0; n < s.N; n++) is_right &= element_is_right(s, g.out, a, w, bias, t, n);
        if (t + 1 < s.T)
            is_right &= is_untouched(g.out + t * s.out_stride + s.N, s.out_stride - s.N);
    }
    is_right &= guards_are_untouched(&g);
    free(a), free(w), free(bias), free(panels), free(tiles);
    return is_right;
}

static void check_matmul(void) {
    static const size_t depths[] = {0, 1, 7, 64};
    CASE("matmul adds in the order of its contract, and writes only its outputs");
    for (size_t N = 0; N < 20; N++)
        for (size_t T = 0; T < 12; T++)
            for (size_t i = 0; i < 8; i++) {
                shape s = {T, N, depths[i / 2], depths[i / 2] + 3, N + 5};
                if (check_failed(matmul_is_right(s, i % 2), __FILE__, __LINE__, "matmul"))
                    printf("    N %d, T %d, Kin %d\n", (int)N, (int)T, (int)s.Kin);
            }
    CASE("matmul of one long row and of tiled rows adds in the order of its contract");
    CHECK(matmul_is_right((shape){1, 77, 64, 64, 77}, true));
    CHECK(matmul_is_right((shape){1, 77, 64, 64, 77}, false));
    CHECK(matmul_is_right((shape){13, 40, 129, 129, 40}, true));
}

static void check_tile(void) {
    CASE("tile interleaves five rows at a time, and the remaining rows");
    float *rows = numbers(12 * 26, 2.0f);
    for (size_t T = 0; T < 12; T++)
        for (size_t Kin = 0; Kin < 24; Kin++) {
            guarded g;
            add_guards(&g, T * Kin);
            ss_tile(g.out, rows, 26, T, Kin);
            bool is_right = guards_are_untouched(&g);
            for (size_t t = 0; t < T; t++)
                for (size_t k = 0; k < Kin; k++) {
                    size_t first = t / SS_TILE * SS_TILE;
                    size_t width = T - first < SS_TILE ? T - first : SS_TILE;
                    is_right &= g.out[first * Kin + k * width + t % SS_TILE] == rows[t * 26 + k];
                }
            CHECK(is_right);
        }
    free(rows);
}

static bool are_equal(float a, float b) {
    return ss_bits_of_float(a) == ss_bits_of_float(b);
}

/* Adds a[k] * w[k * step] to sum in the order of k. */
static float add_in_turn(float sum, const float *a, const float *w, size_t step, size_t n) {
    for (size_t k = 0; k < n; k++) sum += a[k] * w[k * step];
    return sum;
}

/* Copies n floats to an odd address in a block of exact size. */
static unsigned char *copy_unaligned(const float *x, size_t n) {
    unsigned char *block = malloc(1 + n * sizeof *x);
    if (!block) abort();
    memcpy(block + 1, x, n * sizeof *x);
    return block;
}

static void check_times_rows(void) {
    CASE("times_rows adds the products of a row with eight rows of a file in the order of matmul");
    for (size_t n = 0; n < 23; n++) {
        float *w = numbers(SS_PANEL * n, 2.0f), *a = numbers(n, 2.0f);
        unsigned char *block = copy_unaligned(w, SS_PANEL * n);
        const void *rows[SS_PANEL];
        guarded g;
        add_guards(&g, SS_PANEL);
        for (size_t lane = 0; lane < SS_PANEL; lane++) {
            rows[lane] = block + 1 + lane * n * sizeof *w;
            g.out[lane] = (float)lane;
        }
        ss_times_rows(g.out, a, rows, n);
        bool is_right = guards_are_untouched(&g);
        for (size_t lane = 0; lane < SS_PANEL; lane++)
            is_right &= are_equal(g.out[lane], add_in_turn((float)lane, a, w + lane * n, 1, n));
        CHECK(is_right);
        free(w), free(a), free(block);
    }
}

static void check_times_columns(void) {
    CASE("times_columns adds in the order of matmul for weights stored by input");
    for (size_t N = 0; N < 23; N++)
        for (size_t Kin = 0; Kin < 23; Kin++) {
            size_t stride = N + 3;
            float *w = numbers(Kin * stride, 2.0f), *a = numbers(Kin, 2.0f);
            unsigned char *block = copy_unaligned(w, Kin * stride);
            guarded g;
            add_guards(&g, N);
            for (size_t n = 0; n < N; n++) g.out[n] = (float)n;
            ss_times_columns(g.out, a, block + 1, stride * sizeof *w, N, Kin);
            bool is_right = guards_are_untouched(&g);
            for (size_t n = 0; n < N; n++)
                is_right &= are_equal(g.out[n], add_in_turn((float)n, a, w + n, stride, Kin));
            CHECK(is_right);
            free(w), free(a), free(block);
        }
}

static void check_groups(void) {
    CASE("groups unpack to q d or q d + m, in a panel and in a product");
    for (int i = 0; i < 60; i++) {
        float a[SS_GROUPS * SS_GROUP];
        ss_groups groups = {.n = (size_t)(i % SS_GROUPS) + 1,
                            .has_summands = i % 2,
                            .has_half_groups = i % 4 < 2,
                            .prefetch = (const unsigned char *)a,
                            .prefetch_stride = 1};
        size_t K = groups.n * SS_GROUP;
        groups.stride = i % 5 || groups.n > 7 ? SS_GROUP : 34; /* the strides of I8 and of Q8_0 */
        for (size_t k = 0; k < K; k++) a[k] = random_float(2.0f);
        for (size_t lane = 0; lane < SS_PANEL; lane++) {
            groups.q[lane] = groups.unpacked[lane];
            for (size_t k = 0; k < SS_GROUPS * SS_GROUP; k++)
                groups.unpacked[lane][k] = (int8_t)(k == lane ? -128.0f : random_float(128.0f));
            for (size_t g = 0; g < groups.n; g++) {
                groups.d[0][g][lane] = random_float(0x1p-28f);
                groups.d[1][g][lane] = random_float(0x1p-28f);
                groups.m[0][g][lane] = random_float(1.0f);
                groups.m[1][g][lane] = random_float(1.0f);
            }
        }
        guarded panel, sums;
        add_guards(&panel, K * SS_PANEL);
        add_guards(&sums, SS_PANEL);
        for (size_t lane = 0; lane < SS_PANEL; lane++) sums.out[lane] = (float)lane;
        ss_spread_groups(panel.out, &groups);
        ss_times_groups(sums.out, a, &groups);
        bool is_right = guards_are_untouched(&panel) && guards_are_untouched(&sums);
        for (size_t lane = 0; lane < SS_PANEL; lane++) {
            for (size_t k = 0; k < K; k++) {
                size_t g = k / SS_GROUP, half = groups.has_half_groups && k % SS_GROUP >= 16;
                float q = groups.unpacked[lane][g * groups.stride + k % SS_GROUP];
                float weight = q * (groups.d[half][g][lane] * 0x1p24f);
                if (groups.has_summands) weight += groups.m[half][g][lane];
                is_right &= are_equal(panel.out[k * SS_PANEL + lane], weight);
            }
            float sum = add_in_turn((float)lane, a, panel.out + lane, SS_PANEL, K);
            is_right &= are_equal(sums.out[lane], sum);
        }
        CHECK(is_right);
    }
}

/* ---- fixed point: against the definition in doubles, which represent the sums exactly ---- */

enum { WHOLE = 5 };

/* Fills groups with numbers of all sizes, including numbers below a unit, zeros, and, in the last
 * group, NaN and infinity. */
static void fill_numbers(float *x, size_t n, int kind) {
    static const float sizes[] = {1.0f, 3e38f, 1e-30f, 2e-38f, 3e-41f, 0.0f, 1e20f};
    for (size_t k = 0; k < n; k++) {
        x[k] = random_float(1.0f) * sizes[(k / SS_GROUP + (size_t)kind) % 7];
        if (k % 11 == 3) x[k] *= 1e-7f;
    }
    if (kind > 9) x[(size_t)kind * 5 % n] = kind % 2 ? NAN : -INFINITY;
}

/* A group of a row, converted in doubles without error. */
typedef struct exact_group {
    double X[SS_GROUP], unit, sum;
} exact_group;

static exact_group convert_exactly(const float *x) {
    exact_group g = {.unit = ldexp(1.0, -126)};
    float largest = 0.0f;
    bool is_finite = true;
    for (size_t k = 0; k < SS_GROUP; k++) {
        is_finite &= isfinite(x[k]) != 0;
        largest = fmaxf(largest, fabsf(x[k]));
    }
    if (is_finite && largest >= 0x1p-98f) g.unit = ldexp(1.0, ilogb((double)largest) - 28);
    for (size_t k = 0; k < SS_GROUP; k++) {
        g.X[k] = is_finite ? nearbyint((double)x[k] / g.unit) : 0.0;
        g.sum += g.X[k];
    }
    if (!is_finite) g.unit = (double)NAN;
    return g;
}

static void check_whole_row(void) {
    CASE("fixed_row splits a group's numbers, in units of the largest and rounded to even, into "
         "two parts");
    for (int kind = 0; kind < 14; kind++) {
        float x[WHOLE * SS_GROUP];
        ss_fixed *row = malloc(WHOLE * sizeof *row);
        if (!row) abort();
        fill_numbers(x, WHOLE * SS_GROUP, kind);
        ss_fixed_row(row, x, WHOLE);
        bool is_right = true;
        for (size_t i = 0; i < WHOLE; i++) {
            exact_group g = convert_exactly(x + i * SS_GROUP);
            for (size_t k = 0; k < SS_GROUP; k++) {
                is_right &= row[i].high[k] * 32768.0 + row[i].low[k] == g.X[k];
                is_right &= abs(row[i].low[k]) <= 16384 && abs(row[i].high[k]) <= 16384;
            }
            float sum = (float)g.sum * (float)g.unit;
            is_right &= isnan(g.unit) ? isnan(row[i].unit) && isnan(row[i].sum)
                                      : are_equal(row[i].unit, (float)g.unit * 256.0f) &&
                                            are_equal(row[i].sum, sum);
        }
        CHECK(is_right);
        free(row);
    }
}

typedef struct whole_groups {
    ss_fixed_groups groups;
    int w[SS_GROUPS][SS_GROUP][SS_PANEL];
    float d[SS_GROUPS][SS_PANEL], m[SS_GROUPS][SS_PANEL];
    unsigned char bytes[SS_GROUPS * 310];
} whole_groups;

/* Writes a random half, up to 2^-3 or subnormal, and returns its value. */
static float write_half(unsigned char *bytes) {
    uint32_t bits = ss_bits_of_float(random_float(1.0f)) >> 7 & 0xafffu;
    bytes[0] = (unsigned char)bits, bytes[1] = (unsigned char)(bits >> 8);
    return ss_float_of_f16((uint16_t)bits);
}

static void fill_factors(whole_groups *g, size_t i, size_t lane) {
    unsigned char *halves = g->bytes + 1 + i * g->groups.stride + 2 * lane;
    float d = write_half(halves);
    switch (g->groups.kind) {
    case SS_BYTES: g->d[i][lane] = 8.0f * d; break;
    case SS_NIBBLES_MINUS_8: g->d[i][lane] = d, g->m[i][lane] = -8.0f * d; break;
    case SS_NIBBLES_PLUS_M: g->d[i][lane] = d, g->m[i][lane] = write_half(halves + 16); break;
    default:
        g->groups.d[i][lane] = g->d[i][lane] = random_float(0.01f);
        g->groups.m[i][lane] = g->m[i][lane] = random_float(0.1f);
    }
}

/* Fills groups in the layout of fixed.h: bytes [k/2][lane][k%2]; nibbles [k/4][lane%4][k%2][k/2%2],
 * with lanes 4 to 7 in the high halves. */
static void fill_groups(whole_groups *g, size_t n, ss_fixed_kind kind, size_t gap, bool extreme) {
    bool nibbles = kind != SS_BYTES;
    size_t size = (nibbles ? 16 : 32) * SS_PANEL;
    memset(g, 0, sizeof *g);
    g->groups = (ss_fixed_groups){.n = n, .kind = kind, .halves = g->bytes + 1};
    g->groups.integers = g->bytes + 33, g->groups.stride = size + 32 + gap;
    for (size_t i = 0; i < n; i++) {
        unsigned char *integers = g->bytes + 33 + i * g->groups.stride;
        for (size_t lane = 0; lane < SS_PANEL; lane++) fill_factors(g, i, lane);
        for (size_t k = 0; k < SS_GROUP; k++)
            for (size_t lane = 0; lane < SS_PANEL; lane++) {
                int w = nibbles ? (int)fabsf(random_float(15.9f)) : (int)random_float(127.9f);
                if (extreme) w = nibbles ? 15 : -128;
                g->w[i][k][lane] = w;
                if (nibbles)
                    integers[k / 4 * 16 + lane % 4 * 4 + k % 2 * 2 + k / 2 % 2] |=
                        (unsigned char)(lane < 4 ? w : w * 16);
                else
                    integers[k / 2 * 16 + lane * 2 + k % 2] = (unsigned char)w;
            }
    }
}

/* Adds one term to the sum, in the order of operations of the contract. */
static float add_exactly(float sum, const exact_group *x, const whole_groups *g, size_t i,
                         size_t lane) {
    bool nibbles = g->groups.kind != SS_BYTES;
    double divisor = nibbles ? 256.0 : 2048.0, V = divisor / 2.0;
    for (size_t k = 0; k < SS_GROUP; k++) V += x->X[k] * g->w[i][k][lane];
    float d = g->d[i][lane] * ((float)x->unit * 256.0f);
    float summand = g->m[i][lane] * ((float)x->sum * (float)x->unit);
    float term = (float)floor(V / divisor) * d;
    return sum + (nibbles ? term + summand : term);
}

static bool have_same_bits(float a, float b) {
    return are_equal(a, b) || (isnan(a) && isnan(b));
}

static void check_fixed(void) {
    CASE("products in fixed point are exact sums of groups, for one row and for five");
    static whole_groups all_groups;
    whole_groups *g = &all_groups;
    for (int i = 0; i < 224; i++) {
        static float x[SS_FIXED_ROWS][SS_GROUPS * SS_GROUP];
        bool extreme = i % 7 == 2;
        size_t n = (size_t)(i / 4 % SS_GROUPS) + 1;
        fill_groups(g, n, (ss_fixed_kind)(i % 4), i % 3 ? 0 : 16, extreme);
        ss_fixed rows[SS_FIXED_ROWS][SS_GROUPS];
        ss_fixed_tile *tile = malloc(n * sizeof *tile);
        ss_fixed_panel *panel = malloc(n * sizeof *panel);
        if (!tile || !panel) abort();
        ss_fixed *first_row = &rows[0][0];
        for (size_t t = 0; t < SS_FIXED_ROWS; t++) {
            fill_numbers(x[t], n * SS_GROUP, (int)t + i % 9);
            for (size_t k = 0; extreme && k < SS_GROUPS * SS_GROUP; k++)
                x[t][k] = t % 2 ? 0x1.fffffep3f : -0x1.fffffep3f;
            ss_fixed_row(first_row + t * n, x[t], n);
        }
        ss_tile_fixed(tile, first_row, n);
        ss_spread_fixed(panel, &g->groups);
        guarded one, five;
        add_guards(&five, SS_FIXED_ROWS * SS_PANEL);
        for (size_t j = 0; j < SS_FIXED_ROWS * SS_PANEL; j++) five.out[j] = (float)j;
        ss_tile_times_fixed(five.out, tile, panel, n);
        bool is_right = guards_are_untouched(&five);
        for (size_t t = 0; t < SS_FIXED_ROWS; t++) {
            add_guards(&one, SS_PANEL);
            for (size_t lane = 0; lane < SS_PANEL; lane++)
                one.out[lane] = (float)(t * SS_PANEL + lane);
            ss_times_fixed(one.out, first_row + t * n, &g->groups);
            is_right &= guards_are_untouched(&one);
            for (size_t lane = 0; lane < SS_PANEL; lane++) {
                float sum = (float)(t * SS_PANEL + lane);
                for (size_t j = 0; j < n; j++) {
                    exact_group exact = convert_exactly(x[t] + j * SS_GROUP);
                    sum = add_exactly(sum, &exact, g, j, lane);
                }
                is_right &= have_same_bits(one.out[lane], sum);
                is_right &= have_same_bits(five.out[t * SS_PANEL + lane], sum);
            }
        }
        CHECK(is_right);
        free(tile), free(panel);
    }
}

static void check_pairs(void) {
    CASE("pairs of 16-bit numbers, at any address, have the bits of the reference");
    for (size_t n = 0; n < 24; n += 2) {
        size_t count = n * SS_PANEL;
        float *source = numbers(count / 2, 2.0f), *expected = numbers(count, 1.0f);
        unsigned char *block = copy_unaligned(source, count / 2);
        for (int are_halves = 0; are_halves < 2; are_halves++) {
            guarded g;
            /* No number is NaN, whose bits a machine may change. */
            for (size_t i = 1; i <= 2 * count; i++) block[i] &= 0xbf;
            add_guards(&g, count);
            ss_spread_pairs(g.out, block + 1, are_halves, n);
            ss_spread_pairs_ref(expected, block + 1, are_halves, n);
            CHECK(guards_are_untouched(&g) && memcmp(g.out, expected, count * sizeof *g.out) == 0);
            add_guards(&g, n);
            ss_unpack_halves(g.out, block + 1, n);
            ss_unpack_halves_ref(expected, block + 1, n);
            CHECK(guards_are_untouched(&g) && memcmp(g.out, expected, n * sizeof *g.out) == 0);
        }
        free(source), free(expected), free(block);
    }
}

static void check_interleave(void) {
    CASE("interleave writes eight rows side by side, and zeros for absent rows");
    float *rows = numbers(8 * 23, 2.0f);
    for (size_t n = 0; n < 23; n++)
        for (unsigned present_rows = 0; present_rows < 256; present_rows += 51) {
            const void *lanes[SS_PANEL];
            for (size_t lane = 0; lane < SS_PANEL; lane++)
                lanes[lane] = present_rows >> lane & 1u ? rows + lane * 23 : NULL;
            guarded g;
            add_guards(&g, n * SS_PANEL);
            ss_interleave(g.out, lanes, n);
            bool is_right = guards_are_untouched(&g);
            for (size_t i = 0; i < n * SS_PANEL; i++) {
                const float *row = lanes[i % SS_PANEL];
                is_right &= g.out[i] == (row ? row[i / SS_PANEL] : 0.0f);
            }
            CHECK(is_right);
        }
    free(rows);
}

/* ---- reductions ---- */

/* Returns the sum in the order of a reduction, eight lanes and a tree, written lane by lane. */
static float sum_in_order(const float *terms, size_t n) {
    float s[8];
    for (size_t lane = 0; lane < 8; lane++) {
        s[lane] = 0.0f;
        for (size_t i = lane; i < n; i += 8) s[lane] += terms[i];
    }
    float even_sum = (s[0] + s[4]) + (s[2] + s[6]), odd_sum = (s[1] + s[5]) + (s[3] + s[7]);
    return even_sum + odd_sum;
}

static bool sum_is_ordered(const float *x, const float *y, size_t n) {
    (void)y;
    return are_equal(ss_sum(x, n), sum_in_order(x, n));
}

static bool dot_is_ordered(const float *x, const float *y, size_t n) {
    float *terms = numbers(n, 1.0f);
    for (size_t i = 0; i < n; i++) terms[i] = x[i] * y[i];
    bool is_right = are_equal(ss_dot(x, y, n), sum_in_order(terms, n));
    free(terms);
    return is_right;
}

/* Tests exp or sigmoid: the shift, the outputs and their sum, then the same call in place. */
static bool map_is_ordered(float (*map)(SS_EXP_ARGS), float (*scalar)(float, float), const float *x,
                           float shift, size_t n) {
    float *terms = numbers(n, 1.0f);
    for (size_t i = 0; i < n; i++) terms[i] = scalar(x[i], shift);
    guarded g;
    add_guards(&g, n);
    bool is_right = are_equal(map(g.out, x, shift, n), sum_in_order(terms, n));
    is_right &= memcmp(g.out, terms, n * sizeof *terms) == 0;
    memcpy(g.out, x, n * sizeof *x);
    is_right &= are_equal(map(g.out, g.out, shift, n), sum_in_order(terms, n));
    is_right &= memcmp(g.out, terms, n * sizeof *terms) == 0;
    free(terms);
    return is_right && guards_are_untouched(&g);
}

static float exp_scalar(float x, float shift) {
    return ss_expf(x - shift);
}
static float sigmoid_scalar(float x, float shift) {
    return ss_sigmoidf(x + shift);
}

static bool exp_is_ordered(const float *x, const float *y, size_t n) {
    return map_is_ordered(ss_exp, exp_scalar, x, n ? y[0] : 0.0f, n);
}

static bool sigmoid_is_ordered(const float *x, const float *y, size_t n) {
    return map_is_ordered(ss_sigmoid, sigmoid_scalar, x, n ? y[0] : 0.0f, n);
}

static bool entropy_is_ordered(const float *x, const float *y, size_t n) {
    float factor = n ? fabsf(y[0]) : 1.0f, *row = numbers(n, 1.0f);
    double exact = 0.0, size = 0.0, lanes[4] = {0};
    for (size_t i = 0; i < n; i++) {
        row[i] = i % 5 == 3 ? 0.0f : x[i];
        float p = fabsf(row[i]) * factor;
        double truth = p > 0.0f ? (double)p * log((double)p) : 0.0;
        lanes[i % 4] += p > 0.0f ? (double)(p * ss_logf(p)) : 0.0;
        exact -= truth;
        size += fabs(truth);
    }
    double actual = ss_entropy(row, factor, n);
    free(row);
    return actual == 0.0 - ((lanes[0] + lanes[2]) + (lanes[1] + lanes[3])) &&
           is_within(fabs(actual - exact), 3e-7 * size);
}

static bool shares_are_exact(const float *x, const float *y, size_t n) {
    double *sums = malloc((n + 1) * sizeof *sums);
    bool is_right = sums != NULL;
    for (int absolute = 0; is_right && absolute < 2; absolute++) {
        for (size_t i = 0; i <= n; i++) sums[i] = i < n ? (double)y[i] : 7.0;
        ss_add_shares(sums, x, 0.3, absolute, n);
        for (size_t i = 0; i < n; i++) {
            double share = 0.3 * (absolute ? fabs((double)x[i]) : (double)x[i]);
            is_right &= sums[i] == (double)y[i] + share;
        }
        is_right &= sums[n] == 7.0;
    }
    free(sums);
    return is_right;
}

static bool max_is_max(const float *x, const float *y, size_t n) {
    (void)y;
    if (n == 0) return true;
    float largest = ss_max(x, n);
    bool is_found = false;
    for (size_t i = 0; i < n; i++) {
        is_found |= x[i] == largest;
        if (x[i] > largest) return false;
    }
    return is_found;
}

static bool peak_is_first(const float *x, const float *y, size_t n) {
    (void)y;
    float *rounded_numbers = malloc((n + 1) * sizeof *rounded_numbers);
    bool is_right = rounded_numbers != NULL;
    for (size_t i = 0; is_right && i < n; i++) rounded_numbers[i] = floorf(x[i] / 4.0f);
    for (int round = 0; is_right && n > 0 && round < 2; round++, x = rounded_numbers) {
        size_t peak = ss_peak(x, n);
        is_right = peak < n;
        for (size_t i = 0; is_right && i < n; i++)
            is_right = fabsf(x[i]) < fabsf(x[peak]) || (i >= peak && fabsf(x[i]) == fabsf(x[peak]));
    }
    free(rounded_numbers);
    return is_right;
}

static bool count_counts(const float *x, const float *y, size_t n) {
    bool is_right = ss_count(x, -1e9f, false, n) == n && ss_count(x, 1e9f, true, n) == 0;
    for (size_t j = 0; is_right && j < n; j += 7) {
        size_t larger = 0, equals = 0;
        for (size_t i = 0; i < n; i++) larger += x[i] > x[j], equals += x[i] == x[j];
        is_right =
            ss_count(x, x[j], false, n) == larger && ss_count(x, x[j], true, n) == larger + equals;
    }
    return is_right && ss_count(y, 0.5f, false, 0) == 0;
}

/* ---- elementwise functions ---- */

/* Returns a copy of x, for the reference of a function that works in place. */
static float *copy_of(const float *x, size_t n) {
    float *copy = numbers(n, 1.0f);
    memcpy(copy, x, n * sizeof *x);
    return copy;
}

/* Checks that the outputs have the bits of the reference's, which are freed. */
static bool have_bits_of(const float *out, float *reference, size_t n) {
    bool are_same = memcmp(out, reference, n * sizeof *out) == 0;
    free(reference);
    return are_same;
}

static bool scale_is_exact(const float *x, const float *y, size_t n) {
    guarded g;
    add_guards(&g, n);
    bool is_right = true;
    memcpy(g.out, x, n * sizeof *x);
    ss_scale(g.out, n ? y[0] : 1.0f, n);
    for (size_t i = 0; i < n; i++) is_right &= are_equal(g.out[i], x[i] * y[0]);
    return is_right && guards_are_untouched(&g);
}

static bool copy_is_exact(const float *x, const float *y, size_t n) {
    guarded g;
    add_guards(&g, n);
    (void)y;
    bool is_right = true;
    ss_copy(g.out, x, n);
    for (size_t i = 0; i < n; i++) is_right &= are_equal(g.out[i], x[i]);
    ss_clear(g.out, n);
    for (size_t i = 0; i < n; i++) is_right &= are_equal(g.out[i], 0.0f);
    return is_right && guards_are_untouched(&g);
}

static bool add_is_exact(const float *x, const float *y, size_t n) {
    guarded g;
    add_guards(&g, n);
    bool is_right = true;
    memcpy(g.out, x, n * sizeof *x);
    ss_add(g.out, y, n);
    for (size_t i = 0; i < n; i++) is_right &= are_equal(g.out[i], x[i] + y[i]);
    return is_right && guards_are_untouched(&g);
}

static bool silu_is_right(const float *x, const float *y, size_t n) {
    guarded g;
    add_guards(&g, n);
    bool is_right = true;
    memcpy(g.out, x, n * sizeof *x);
    ss_silu_mul(g.out, y, n);
    float *reference = copy_of(x, n);
    ss_silu_mul_ref(reference, y, n);
    is_right &= have_bits_of(g.out, reference, n);
    for (size_t i = 0; i < n; i++) {
        double truth = (double)x[i] * (1.0 / (1.0 + exp(-(double)x[i]))) * (double)y[i];
        is_right &= is_within(fabs((double)g.out[i] - truth), 1e-6 * fabs(truth) + 1e-30);
    }
    return is_right && guards_are_untouched(&g);
}

static bool gelu_is_right(const float *x, const float *y, size_t n) {
    guarded g;
    add_guards(&g, n);
    bool is_right = true;
    (void)y;
    memcpy(g.out, x, n * sizeof *x);
    ss_gelu(g.out, n);
    float *reference = copy_of(x, n);
    ss_gelu_ref(reference, n);
    is_right &= have_bits_of(g.out, reference, n);
    for (size_t i = 0; i < n; i++) {
        double v = (double)x[i], u = sqrt(2.0 / acos(-1.0)) * (v + 0.044715 * v * v * v);
        double exact = 0.5 * v * (1.0 + tanh(u));
        is_right &= is_within(fabs((double)g.out[i] - exact), 1e-6 * fmax(1.0, fabs(v)));
    }
    return is_right && guards_are_untouched(&g);
}

static bool gelu_erf_is_right(const float *x, const float *y, size_t n) {
    guarded g;
    add_guards(&g, n);
    bool is_right = true;
    (void)y;
    memcpy(g.out, x, n * sizeof *x);
    ss_gelu_erf(g.out, n);
    float *reference = copy_of(x, n);
    ss_gelu_erf_ref(reference, n);
    is_right &= have_bits_of(g.out, reference, n);
    for (size_t i = 0; i < n; i++) {
        double v = (double)x[i], exact = 0.5 * v * (1.0 + erf(v * sqrt(0.5)));
        is_right &= is_within(fabs((double)g.out[i] - exact), 1.5e-7 * fmax(1.0, fabs(v)));
    }
    return is_right && guards_are_untouched(&g);
}

static bool relu_is_right(const float *x, const float *y, size_t n) {
    guarded g;
    add_guards(&g, n);
    bool is_right = true;
    memcpy(g.out, x, n * sizeof *x);
    ss_relu(g.out, n);
    for (size_t i = 0; i < n; i++) is_right &= are_equal(g.out[i], x[i] > 0 ? x[i] : 0.0f);
    memcpy(g.out, x, n * sizeof *x);
    ss_multiply(g.out, y, n);
    for (size_t i = 0; i < n; i++) is_right &= are_equal(g.out[i], x[i] * y[i]);
    return is_right && guards_are_untouched(&g);
}

static bool rotate_is_right(const float *x, const float *y, size_t n) {
    guarded g;
    size_t pairs = n / 2;
    bool is_right = true;
    for (int in_place = 0; in_place < 2; in_place++) {
        add_guards(&g, 2 * pairs);
        if (in_place) memcpy(g.out, x, 2 * pairs * sizeof *x);
        ss_rotate(g.out, in_place ? g.out : x, y, y + pairs, pairs);
        for (size_t j = 0; j < pairs; j++) {
            float p = x[j], q = x[j + pairs], c = y[j], s = y[j + pairs];
            is_right &=
                are_equal(g.out[j], p * c - q * s) && are_equal(g.out[j + pairs], q * c + p * s);
        }
        is_right &= guards_are_untouched(&g);
    }
    return is_right;
}

/* ---- norms ---- */

static bool rmsnorm_is_right(const float *x, const float *w, size_t n) {
    if (n == 0) return true;
    guarded g;
    add_guards(&g, n);
    bool is_right = true;
    double squares = 0.0;
    for (size_t i = 0; i < n; i++) squares += (double)x[i] * (double)x[i];
    ss_rmsnorm(g.out, x, w, 1e-5f, n);
    float r = 1.0f / sqrtf(ss_dot(x, x, n) / (float)n + 1e-5f);
    for (size_t i = 0; i < n; i++) {
        double truth = (double)x[i] / sqrt(squares / (double)n + 1e-5) * (double)w[i];
        is_right &= is_within(fabs((double)g.out[i] - truth), 1e-6 * fabs(truth));
        is_right &= are_equal(g.out[i], (x[i] * r) * w[i]);
    }
    memcpy(g.out, x, n * sizeof *x);
    ss_rmsnorm(g.out, g.out, w, 1e-5f, n);
    for (size_t i = 0; i < n; i++) is_right &= are_equal(g.out[i], (x[i] * r) * w[i]);
    return is_right && guards_are_untouched(&g);
}

/* Compares a LayerNorm with one in doubles; the tolerance covers the rounded mean. */
static bool layernorm_is_near(const float *out, const float *x, const float *w, const float *b,
                              size_t n) {
    double mean = 0.0, variance = 0.0;
    for (size_t i = 0; i < n; i++) mean += (double)x[i] / (double)n;
    for (size_t i = 0; i < n; i++) variance += pow((double)x[i] - mean, 2.0) / (double)n;
    for (size_t i = 0; i < n; i++) {
        double unit = ((double)x[i] - mean) / sqrt(variance + 1e-5);
        double truth = unit * (double)w[i] + (b ? (double)b[i] : 0.0);
        if (!is_within(fabs((double)out[i] - truth), 3e-5)) return false;
    }
    return true;
}

static bool layernorm_is_right(const float *x, const float *w, size_t n) {
    if (n == 0) return true;
    guarded plain_out, biased_out;
    add_guards(&plain_out, n);
    add_guards(&biased_out, n);
    float *b = numbers(n, 2.0f);
    ss_layernorm(plain_out.out, x, w, NULL, 1e-5f, n);
    ss_layernorm(biased_out.out, x, w, b, 1e-5f, n);
    bool is_right = layernorm_is_near(plain_out.out, x, w, NULL, n);
    is_right &= layernorm_is_near(biased_out.out, x, w, b, n);
    float *reference = copy_of(x, n);
    ss_layernorm_ref(reference, x, w, b, 1e-5f, n);
    is_right &= have_bits_of(biased_out.out, reference, n);
    for (size_t i = 0; i < n; i++)
        is_right &= are_equal(biased_out.out[i], plain_out.out[i] + b[i]);
    free(b);
    return is_right && guards_are_untouched(&plain_out) && guards_are_untouched(&biased_out);
}

static const struct vector_case {
    const char *sentence;
    bool (*holds)(const float *x, const float *y, size_t n);
    float size;
} vector_cases[] = {
    {"sum adds in the documented order", sum_is_ordered, 10.0f},
    {"dot adds in the documented order", dot_is_ordered, 10.0f},
    {"exp is ss_expf, and its sum is in order", exp_is_ordered, 10.0f},
    {"exp is ss_expf at its limits, too", exp_is_ordered, 120.0f},
    {"sigmoid is ss_sigmoidf, and its sum is in order", sigmoid_is_ordered, 10.0f},
    {"sigmoid is ss_sigmoidf at its limits, too", sigmoid_is_ordered, 120.0f},
    {"entropy uses ss_logf and adds in the documented order", entropy_is_ordered, 1.0f},
    {"add_shares adds in doubles", shares_are_exact, 10.0f},
    {"max is the largest number of the row", max_is_max, 10.0f},
    {"peak is the first index of the largest magnitude", peak_is_first, 10.0f},
    {"count counts numbers above a bound, and equal ones on request", count_counts, 10.0f},
    {"copy and clear write every number and no others", copy_is_exact, 10.0f},
    {"scale multiplies every number exactly", scale_is_exact, 10.0f},
    {"add adds every pair exactly", add_is_exact, 10.0f},
    {"rmsnorm is near the result in doubles", rmsnorm_is_right, 10.0f},
    {"layernorm, with or without a bias, is near the result in doubles", layernorm_is_right, 10.0f},
    {"silu_mul is near the result in doubles", silu_is_right, 10.0f},
    {"gelu is the tanh form", gelu_is_right, 10.0f},
    {"gelu_erf is the exact form", gelu_erf_is_right, 10.0f},
    {"relu and multiply are exact", relu_is_right, 10.0f},
    {"rotate rotates pairs exactly", rotate_is_right, 10.0f},
};

static void check_vectors(const struct vector_case *c) {
    CASE(c->sentence);
    for (size_t n = 0; n < 110; n++) {
        size_t length = n < 100 ? n : 1000 + n;
        float *x = numbers(length, c->size), *y = numbers(length, c->size);
        if (check_failed(c->holds(x, y, length), __FILE__, __LINE__, c->sentence))
            printf("    n %d\n", (int)length);
        free(x), free(y);
    }
}

int main(void) {
    check_matmul();
    check_tile();
    check_times_rows();
    check_times_columns();
    check_groups();
    check_whole_row();
    check_fixed();
    check_pairs();
    check_interleave();
    for (size_t i = 0; i < sizeof vector_cases / sizeof *vector_cases; i++)
        check_vectors(vector_cases + i);
    return check_done();
}
