/*
 * The kernels in 128-bit wasm SIMD: the same operations in the same order as kernels_ref.c, four
 * lanes at a time. Vectors run across outputs, never along a sum; the eight lanes of a reduction
 * are two vectors. Tails use the scalar functions; no kernel reads beyond an array.
 *
 * These kernels prefer instructions that are one machine instruction on x86 and Arm: pmax to max,
 * the magic number to trunc_sat.
 */
#include "kernels.h"

#ifdef __wasm_simd128__

#include "scalar.h"
#include "simd.h"

#include <stdbool.h>

INLINE v128_t add_product(v128_t sum, v128_t x, v128_t w) {
    return wasm_f32x4_add(sum, wasm_f32x4_mul(x, w));
}

/* Multiplies a tile of MR rows with one panel. V8 hands out fifteen vector registers on x86-64: the
 * sums of 5 x 8 outputs take ten, the panel's row two, a number of a row and a product two more.
 * Two steps of k at a time, or one more row, would spill. */
INLINE void times_panel(int MR, float *out, size_t out_stride, const float *tile,
                        const float *panel, const float bias[SS_PANEL], size_t Kin) {
    v128_t low[SS_TILE], high[SS_TILE];
    UNROLL
    for (int r = 0; r < MR; r++) {
        low[r] = wasm_v128_load(bias);
        high[r] = wasm_v128_load(bias + 4);
    }
    for (; Kin > 0; Kin--, panel += SS_PANEL, tile += MR) {
        v128_t b0 = wasm_v128_load(panel), b1 = wasm_v128_load(panel + 4);
        UNROLL
        for (int r = 0; r < MR; r++) {
            v128_t x = wasm_v128_load32_splat(tile + r);
            low[r] = add_product(low[r], x, b0);
            high[r] = add_product(high[r], x, b1);
        }
    }
    UNROLL
    for (int r = 0; r < MR; r++) {
        wasm_v128_store(out + (size_t)r * out_stride, low[r]);
        wasm_v128_store(out + (size_t)r * out_stride + 4, high[r]);
    }
}

static void tiles_times_panel(float *out, size_t out_stride, const float *tiles, const float *panel,
                              const float bias[SS_PANEL], size_t T, size_t Kin) {
    for (; T >= SS_TILE; T -= SS_TILE, out += SS_TILE * out_stride, tiles += SS_TILE * Kin)
        times_panel(SS_TILE, out, out_stride, tiles, panel, bias, Kin);
    if (T == 4) times_panel(4, out, out_stride, tiles, panel, bias, Kin);
    if (T == 3) times_panel(3, out, out_stride, tiles, panel, bias, Kin);
    if (T == 2) times_panel(2, out, out_stride, tiles, panel, bias, Kin);
    if (T == 1) times_panel(1, out, out_stride, tiles, panel, bias, Kin);
}

/* Multiplies one row with four panels: eight sums in flight hide the latency of an addition. */
static void row_times_panels(float *out, const float *a, const float *panels, const float *bias,
                             size_t Kin) {
    static const float zero[4 * SS_PANEL];
    v128_t sums[8];
    UNROLL
    for (int i = 0; i < 8; i++) sums[i] = wasm_v128_load((bias ? bias : zero) + 4 * i);
    for (size_t k = 0; k < Kin; k++) {
        v128_t x = wasm_v128_load32_splat(a + k);
        UNROLL
        for (int i = 0; i < 8; i++) {
            const float *b = panels + (size_t)(i / 2) * SS_PANEL * Kin + k * SS_PANEL + 4 * (i % 2);
            sums[i] = add_product(sums[i], x, wasm_v128_load(b));
        }
    }
    UNROLL
    for (int i = 0; i < 8; i++) wasm_v128_store(out + 4 * i, sums[i]);
}

static void tiles_times_last_panel(float *out, size_t out_stride, const float *tiles,
                                   const float *panel, const float bias[SS_PANEL], size_t T,
                                   size_t Kin, size_t width) {
    float block[SS_TILE * SS_PANEL];
    for (size_t t = 0; t < T; t += SS_TILE) {
        size_t rows = T - t < SS_TILE ? T - t : SS_TILE;
        tiles_times_panel(block, SS_PANEL, tiles + t * Kin, panel, bias, rows, Kin);
        for (size_t r = 0; r < rows; r++)
            memcpy(out + (t + r) * out_stride, block + r * SS_PANEL, width * sizeof *block);
    }
}

void ss_matmul_simd(SS_MATMUL_ARGS) {
    size_t n = 0;
    for (; T == 1 && n + 4 * SS_PANEL <= N; n += 4 * SS_PANEL)
        row_times_panels(out + n, tiles, panels + n * Kin, bias ? bias + n : NULL, Kin);
    for (; n < N; n += SS_PANEL) {
        size_t width = N - n < SS_PANEL ? N - n : SS_PANEL;
        float start[SS_PANEL] = {0};
        if (bias) ss_copy_simd(start, bias + n, width);
        if (width == SS_PANEL)
            tiles_times_panel(out + n, out_stride, tiles, panels + n * Kin, start, T, Kin);
        else
            tiles_times_last_panel(out + n, out_stride, tiles, panels + n * Kin, start, T, Kin,
                                   width);
    }
}

/* Returns the address of number k of a row; rows of files are not aligned. */
INLINE const void *address_of(const void *row, size_t k) {
    return (const unsigned char *)row + k * sizeof(float);
}

INLINE float read_float(const void *row, size_t k) {
    float x;
    memcpy(&x, address_of(row, k), sizeof x);
    return x;
}

/* Transposes 4 x 4 words: 16 bytes of each of four rows, from byte `at`, become four columns. */
INLINE void transpose4(v128_t columns[4], const void *const rows[4], size_t at) {
    const unsigned char *const *r = (const unsigned char *const *)rows;
    v128_t a = wasm_v128_load(r[0] + at), b = wasm_v128_load(r[1] + at);
    v128_t c = wasm_v128_load(r[2] + at), d = wasm_v128_load(r[3] + at);
    v128_t ab = wasm_i32x4_shuffle(a, b, 0, 4, 1, 5), AB = wasm_i32x4_shuffle(a, b, 2, 6, 3, 7);
    v128_t cd = wasm_i32x4_shuffle(c, d, 0, 4, 1, 5), CD = wasm_i32x4_shuffle(c, d, 2, 6, 3, 7);
    columns[0] = wasm_i64x2_shuffle(ab, cd, 0, 2);
    columns[1] = wasm_i64x2_shuffle(ab, cd, 1, 3);
    columns[2] = wasm_i64x2_shuffle(AB, CD, 0, 2);
    columns[3] = wasm_i64x2_shuffle(AB, CD, 1, 3);
}

void ss_times_rows_simd(SS_TIMES_ROWS_ARGS) {
    v128_t low = wasm_v128_load(sums), high = wasm_v128_load(sums + 4);
    size_t k = 0;
    for (; k + 4 <= Kin; k += 4) {
        v128_t l[4], h[4];
        transpose4(l, rows, k * sizeof *a);
        transpose4(h, rows + 4, k * sizeof *a);
        UNROLL
        for (size_t i = 0; i < 4; i++) {
            v128_t x = wasm_v128_load32_splat(a + k + i);
            low = add_product(low, x, l[i]);
            high = add_product(high, x, h[i]);
        }
    }
    wasm_v128_store(sums, low);
    wasm_v128_store(sums + 4, high);
    for (; k < Kin; k++)
        for (size_t lane = 0; lane < SS_PANEL; lane++)
            sums[lane] += a[k] * read_float(rows[lane], k);
}

/* Adds rows w[0..R) times a[0..R): one load and one store of each sum serve R rows. */
INLINE void add_rows(int R, float *out, const float *a, const unsigned char *w, size_t stride,
                     size_t N) {
    v128_t x[SS_PANEL];
    UNROLL
    for (int r = 0; r < R; r++) x[r] = wasm_v128_load32_splat(a + r);
    size_t n = 0;
    for (; n + 4 <= N; n += 4) {
        v128_t sum = wasm_v128_load(out + n);
        UNROLL
        for (int r = 0; r < R; r++) {
            v128_t b = wasm_v128_load(address_of(w + (size_t)r * stride, n));
            sum = add_product(sum, x[r], b);
        }
        wasm_v128_store(out + n, sum);
    }
    for (; n < N; n++)
        for (int r = 0; r < R; r++) out[n] += a[r] * read_float(w + (size_t)r * stride, n);
}

void ss_times_columns_simd(SS_TIMES_COLUMNS_ARGS) {
    const unsigned char *rows = w;
    for (; Kin >= SS_PANEL; Kin -= SS_PANEL, a += SS_PANEL, rows += SS_PANEL * stride)
        add_rows(SS_PANEL, out, a, rows, stride, N);
    for (; Kin > 0; Kin--, a++, rows += stride) add_rows(1, out, a, rows, stride, N);
}

/* Where unpacked weights of groups go: into `panel` or, if it is NULL, into a product with a. */
typedef struct group_output {
    v128_t sums[2];
    const float *a;
    float *panel;
    const unsigned char *prefetch;
    v128_t top; /* mask of the top byte of each lane */
} group_output;

INLINE v128_t move_byte_to_top(v128_t bytes, uint32_t i, v128_t top) {
    if (i == 0) return wasm_i32x4_shl(bytes, 24);
    return wasm_v128_and(i < 3 ? wasm_i32x4_shl(bytes, 24 - 8 * i) : bytes, top);
}

INLINE void read_eight_bytes(v128_t columns[2], const int8_t *const rows[4], size_t at) {
    v128_t a = wasm_v128_load64_zero(rows[0] + at), b = wasm_v128_load64_zero(rows[1] + at);
    v128_t c = wasm_v128_load64_zero(rows[2] + at), d = wasm_v128_load64_zero(rows[3] + at);
    v128_t ab = wasm_i32x4_shuffle(a, b, 0, 4, 1, 5), cd = wasm_i32x4_shuffle(c, d, 0, 4, 1, 5);
    columns[0] = wasm_i64x2_shuffle(ab, cd, 0, 2);
    columns[1] = wasm_i64x2_shuffle(ab, cd, 1, 3);
}

INLINE v128_t weights4(v128_t q, v128_t d, const float *m) {
    v128_t four = wasm_f32x4_mul(wasm_f32x4_convert_i32x4(q), d);
    return m ? wasm_f32x4_add(four, wasm_v128_load(m)) : four;
}

INLINE void emit_eight(group_output *u, const v128_t columns[4], size_t k, const float *d,
                       const float *m) {
    const float *a = u->a + k;
    v128_t low = wasm_v128_load(d), high = wasm_v128_load(d + 4);
    UNROLL
    for (uint32_t i = 0; i < 8; i++) {
        v128_t l = weights4(move_byte_to_top(columns[i / 4], i % 4, u->top), low, m);
        v128_t h =
            weights4(move_byte_to_top(columns[2 + i / 4], i % 4, u->top), high, m ? m + 4 : NULL);
        if (u->panel) {
            wasm_v128_store(u->panel + (k + i) * SS_PANEL, l);
            wasm_v128_store(u->panel + (k + i) * SS_PANEL + 4, h);
        } else {
            v128_t x = wasm_v128_load32_splat(a + i);
            u->sums[0] = add_product(u->sums[0], x, l);
            u->sums[1] = add_product(u->sums[1], x, h);
        }
    }
}

INLINE void emit_groups(group_output *u, const ss_groups *g, bool has_summands) {
    static const uint32_t top = 0xff000000;
    u->top = load_constant(&top);
    u->prefetch = g->prefetch;
    for (size_t i = 0; i < 2 * g->n; i++) {
        size_t at = i / 2 * g->stride + i % 2 * 16;
        for (size_t j = 0; j < 16; j += 8, u->prefetch += g->prefetch_stride) {
            v128_t columns[4];
            (void)*(const volatile unsigned char *)u->prefetch;
            read_eight_bytes(columns, g->q, at + j);
            read_eight_bytes(columns + 2, g->q + 4, at + j);
            size_t half = g->has_half_groups && i % 2;
            emit_eight(u, columns, i * 16 + j, g->d[half][i / 2],
                       has_summands ? g->m[half][i / 2] : NULL);
        }
    }
}

NOINLINE void ss_times_groups_simd(SS_TIMES_GROUPS_ARGS) {
    group_output u = {.sums = {wasm_v128_load(sums), wasm_v128_load(sums + 4)}, .a = a};
    if (groups->has_summands)
        emit_groups(&u, groups, true);
    else
        emit_groups(&u, groups, false);
    wasm_v128_store(sums, u.sums[0]);
    wasm_v128_store(sums + 4, u.sums[1]);
}

NOINLINE void ss_spread_groups_simd(SS_SPREAD_GROUPS_ARGS) {
    group_output u = {.panel = panel};
    emit_groups(&u, groups, groups->has_summands);
}

void ss_interleave_simd(SS_INTERLEAVE_ARGS) {
    bool has_all_rows = true;
    for (size_t lane = 0; lane < SS_PANEL; lane++) has_all_rows &= rows[lane] != NULL;
    size_t k = 0;
    for (; has_all_rows && k + 4 <= n; k += 4) {
        v128_t low[4], high[4];
        transpose4(low, rows, k * sizeof *panel);
        transpose4(high, rows + 4, k * sizeof *panel);
        UNROLL
        for (size_t i = 0; i < 4; i++) {
            wasm_v128_store(panel + (k + i) * SS_PANEL, low[i]);
            wasm_v128_store(panel + (k + i) * SS_PANEL + 4, high[i]);
        }
    }
    for (; k < n; k++)
        for (size_t lane = 0; lane < SS_PANEL; lane++)
            panel[k * SS_PANEL + lane] = rows[lane] ? read_float(rows[lane], k) : 0.0f;
}

INLINE void tile_inputs4(float *tile, const float *rows, size_t stride) {
    const void *first_rows[4] = {rows, rows + stride, rows + 2 * stride, rows + 3 * stride};
    v128_t columns[4], other_rows[SS_TILE - 4];
    UNROLL
    for (size_t r = 4; r < SS_TILE; r++) other_rows[r - 4] = wasm_v128_load(rows + r * stride);
    transpose4(columns, first_rows, 0);
    UNROLL
    for (int k = 0; k < 4; k++) wasm_v128_store(tile + k * SS_TILE, columns[k]);
    UNROLL
    for (size_t r = 4; r < SS_TILE; r++) {
        wasm_v128_store32_lane(tile + r, other_rows[r - 4], 0);
        wasm_v128_store32_lane(tile + SS_TILE + r, other_rows[r - 4], 1);
        wasm_v128_store32_lane(tile + 2 * SS_TILE + r, other_rows[r - 4], 2);
        wasm_v128_store32_lane(tile + 3 * SS_TILE + r, other_rows[r - 4], 3);
    }
}

void ss_tile_simd(SS_TILE_ARGS) {
    for (; T >= SS_TILE; T -= SS_TILE, rows += SS_TILE * stride) {
        size_t k = 0;
        for (; k + 4 <= Kin; k += 4, tiles += 4 * SS_TILE) tile_inputs4(tiles, rows + k, stride);
        for (; k < Kin; k++)
            for (size_t t = 0; t < SS_TILE; t++) *tiles++ = rows[t * stride + k];
    }
    for (size_t k = 0; k < Kin; k++)
        for (size_t t = 0; t < T; t++) *tiles++ = rows[t * stride + k];
}

/* Computes ss_float_of_f16 in four lanes. The bits of a half, shifted left by 13, are a float that
 * is 2^112 times too small; the product with 2^112 is exact, also for subnormals. */
INLINE v128_t halves4(v128_t half, const v128_t constants[5]) {
#if __clang_major__ < 19
    /* Without this barrier, versions of clang before 19 compute parts in 16 bits and the rest lane
     * by lane. Later versions need no barrier and reject a vector operand here. */
    __asm__("" : "+r"(half));
#endif
    v128_t bits = wasm_i32x4_shl(wasm_v128_and(half, constants[0]), 13);
    v128_t sign = wasm_i32x4_shl(wasm_v128_and(half, constants[1]), 16);
    v128_t magnitude = wasm_f32x4_mul(bits, constants[2]);
    v128_t not_finite = wasm_v128_or(bits, constants[3]);
    v128_t is_not_finite = wasm_i32x4_gt(bits, constants[4]);
    return wasm_v128_or(sign, wasm_v128_bitselect(not_finite, magnitude, is_not_finite));
}

static const uint32_t half_constants[] = {0x7fff, 0x8000, 0x77800000 /* 2^112 */, 0x7f800000,
                                          (0x7c00 << 13) - 1};

void ss_unpack_halves_simd(SS_UNPACK_HALVES_ARGS) {
    v128_t constants[5];
    UNROLL
    for (int i = 0; i < 5; i++) constants[i] = load_constant(half_constants + i);
    size_t i = 0;
    for (; i + 4 <= n; i += 4)
        wasm_v128_store(out + i, halves4(wasm_u32x4_load16x4(halves + 2 * i), constants));
    ss_unpack_halves_ref(out + i, halves + 2 * i, n - i);
}

void ss_spread_pairs_simd(SS_SPREAD_PAIRS_ARGS) {
    v128_t constants[5], low = wasm_i32x4_splat(0xffff), high = wasm_i32x4_splat((int)0xffff0000);
    UNROLL
    for (int i = 0; i < 5; i++) constants[i] = load_constant(half_constants + i);
    for (; n > 0; n -= 2, pairs += 4 * SS_PANEL, panel += 2 * SS_PANEL) {
        UNROLL
        for (size_t i = 0; i < SS_PANEL; i += 4) {
            v128_t two = wasm_v128_load(pairs + 4 * i), first, second;
            if (are_halves) {
                first = halves4(wasm_v128_and(two, low), constants);
                second = halves4(wasm_u32x4_shr(two, 16), constants);
            } else {
                first = wasm_i32x4_shl(two, 16);
                second = wasm_v128_and(two, high);
            }
            wasm_v128_store(panel + i, first);
            wasm_v128_store(panel + SS_PANEL + i, second);
        }
    }
}

/* The constants of ss_expf. exp4 reads them from memory, like load_constant() (simd.h): V8 would
 * build a known constant vector by several instructions at every use. The barrier in exp4 hides the
 * values from the compiler. */
static const float exp_constants[] = {SS_LOG2_E,   SS_ROUNDING, SS_LN2_HIGH, SS_LN2_LOW, SS_EXP_LOW,
                                      SS_EXP_HIGH, SS_EXP_C7,   SS_EXP_C6,   SS_EXP_C5,  SS_EXP_C4,
                                      SS_EXP_C3,   0.5f,        1.0f,        INFINITY};

INLINE v128_t exp4(v128_t x) {
    const float *c = exp_constants;
    __asm__("" : "+r"(c));
    v128_t magic = wasm_v128_load32_splat(c + 1);
    v128_t shifted = wasm_f32x4_add(wasm_f32x4_mul(x, wasm_v128_load32_splat(c)), magic);
    v128_t n = wasm_f32x4_sub(shifted, magic);
    v128_t r = wasm_f32x4_sub(x, wasm_f32x4_mul(n, wasm_v128_load32_splat(c + 2)));
    r = wasm_f32x4_sub(r, wasm_f32x4_mul(n, wasm_v128_load32_splat(c + 3)));
    v128_t p = wasm_v128_load32_splat(c + 6);
    UNROLL
    for (int i = 7; i < 12; i++)
        p = wasm_f32x4_add(wasm_f32x4_mul(p, r), wasm_v128_load32_splat(c + i));
    p = wasm_f32x4_add(wasm_f32x4_mul(p, wasm_f32x4_mul(r, r)), r);
    p = wasm_f32x4_add(p, wasm_v128_load32_splat(c + 12));
    v128_t power = wasm_i32x4_shl(wasm_i32x4_add(shifted, wasm_i32x4_splat(127)), 23);
    v128_t y = wasm_f32x4_mul(p, power);
    v128_t low = wasm_f32x4_lt(x, wasm_v128_load32_splat(c + 4));
    v128_t high = wasm_f32x4_gt(x, wasm_v128_load32_splat(c + 5));
    y = wasm_v128_bitselect(wasm_v128_load32_splat(c + 13), y, high);
    return wasm_v128_andnot(y, low);
}

NOINLINE static float sigmoid1(float x) {
    return ss_sigmoidf(x);
}

INLINE v128_t sigmoid4(v128_t x) {
    v128_t one = load_constant(exp_constants + 12);
    return wasm_f32x4_div(one, wasm_f32x4_add(one, exp4(wasm_f32x4_neg(x))));
}

typedef struct lanes {
    v128_t low, high;
} lanes;

INLINE lanes zero_lanes(void) {
    return (lanes){wasm_f32x4_splat(0.0f), wasm_f32x4_splat(0.0f)};
}

/* Adds tail[n], n < 8, to the first lanes, and then all lanes by the tree of kernels.h. */
NOINLINE static float add_lanes(v128_t low, v128_t high, const float *tail, size_t n) {
    if (n > 0) {
        float sums[8];
        wasm_v128_store(sums, low);
        wasm_v128_store(sums + 4, high);
        for (size_t i = 0; i < n; i++) sums[i] += tail[i];
        low = wasm_v128_load(sums);
        high = wasm_v128_load(sums + 4);
    }
    v128_t four = wasm_f32x4_add(low, high);
    v128_t two = wasm_f32x4_add(four, wasm_i64x2_shuffle(four, four, 1, 1));
    return wasm_f32x4_extract_lane(two, 0) + wasm_f32x4_extract_lane(two, 1);
}

float ss_exp_simd(SS_EXP_ARGS) {
    lanes s = zero_lanes();
    v128_t shifts = wasm_f32x4_splat(shift);
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        v128_t low = exp4(wasm_f32x4_sub(wasm_v128_load(x + i), shifts));
        v128_t high = exp4(wasm_f32x4_sub(wasm_v128_load(x + i + 4), shifts));
        wasm_v128_store(out + i, low);
        wasm_v128_store(out + i + 4, high);
        s = (lanes){wasm_f32x4_add(s.low, low), wasm_f32x4_add(s.high, high)};
    }
    for (size_t j = i; j < n; j++) out[j] = ss_expf(x[j] - shift);
    return add_lanes(s.low, s.high, out + i, n - i);
}

float ss_sigmoid_simd(SS_SIGMOID_ARGS) {
    lanes s = zero_lanes();
    v128_t shifts = wasm_f32x4_splat(shift);
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        v128_t low = sigmoid4(wasm_f32x4_add(wasm_v128_load(x + i), shifts));
        v128_t high = sigmoid4(wasm_f32x4_add(wasm_v128_load(x + i + 4), shifts));
        wasm_v128_store(out + i, low);
        wasm_v128_store(out + i + 4, high);
        s = (lanes){wasm_f32x4_add(s.low, low), wasm_f32x4_add(s.high, high)};
    }
    for (size_t j = i; j < n; j++) out[j] = sigmoid1(x[j] + shift);
    return add_lanes(s.low, s.high, out + i, n - i);
}

void ss_copy_simd(SS_COPY_ARGS) {
    size_t i = 0;
    for (; i + 4 <= n; i += 4) wasm_v128_store(out + i, wasm_v128_load(x + i));
    for (; i < n; i++) out[i] = x[i];
}

void ss_clear_simd(SS_CLEAR_ARGS) {
    static const float zero = 0.0f;
    v128_t zeros =
        load_constant(&zero); /* without the barrier in load_constant() the compiler calls memset */
    size_t i = 0;
    for (; i + 4 <= n; i += 4) wasm_v128_store(x + i, zeros);
    for (; i < n; i++) wasm_v128_store32_lane(x + i, zeros, 0);
}

void ss_scale_simd(SS_SCALE_ARGS) {
    size_t i = 0;
    for (v128_t factors = wasm_f32x4_splat(factor); i + 4 <= n; i += 4)
        wasm_v128_store(x + i, wasm_f32x4_mul(wasm_v128_load(x + i), factors));
    for (; i < n; i++) x[i] *= factor;
}

void ss_add_simd(SS_ADD_ARGS) {
    size_t i = 0;
    for (; i + 4 <= n; i += 4)
        wasm_v128_store(y + i, wasm_f32x4_add(wasm_v128_load(y + i), wasm_v128_load(x + i)));
    for (; i < n; i++) y[i] += x[i];
}

float ss_max_simd(SS_MAX_ARGS) {
    v128_t maxima = wasm_f32x4_splat(x[0]);
    size_t i = 0;
    for (; i + 4 <= n; i += 4) maxima = wasm_f32x4_pmax(maxima, wasm_v128_load(x + i));
    float four[4], largest = x[0];
    wasm_v128_store(four, maxima);
    UNROLL
    for (int j = 0; j < 4; j++) largest = largest < four[j] ? four[j] : largest;
    for (; i < n; i++) largest = largest < x[i] ? x[i] : largest;
    return largest;
}

size_t ss_peak_simd(SS_PEAK_ARGS) {
    v128_t maxima = wasm_f32x4_splat(0.0f);
    size_t i = 0;
    for (; i + 4 <= n; i += 4)
        maxima = wasm_f32x4_pmax(maxima, wasm_f32x4_abs(wasm_v128_load(x + i)));
    float four[4], largest = 0.0f;
    wasm_v128_store(four, maxima);
    UNROLL
    for (int j = 0; j < 4; j++) largest = largest < four[j] ? four[j] : largest;
    for (; i < n; i++) largest = largest < fabsf(x[i]) ? fabsf(x[i]) : largest;
    if (largest == 0.0f) return 0;
    v128_t target = wasm_f32x4_splat(largest);
    for (i = 0; i + 4 <= n; i += 4)
        if (wasm_v128_any_true(wasm_f32x4_eq(wasm_f32x4_abs(wasm_v128_load(x + i)), target))) break;
    while (fabsf(x[i]) != largest) i++;
    return i;
}

size_t ss_count_simd(SS_COUNT_ARGS) {
    v128_t counts = wasm_i32x4_splat(0), limits = wasm_f32x4_splat(limit);
    v128_t equals = wasm_i32x4_splat(with_equal ? -1 : 0);
    size_t i = 0;
    for (; i + 4 <= n; i += 4) {
        v128_t four = wasm_v128_load(x + i);
        v128_t equal = wasm_v128_and(wasm_f32x4_eq(four, limits), equals);
        counts = wasm_i32x4_sub(counts, wasm_v128_or(wasm_f32x4_gt(four, limits), equal));
    }
    uint32_t four[4];
    wasm_v128_store(four, counts);
    size_t count = four[0] + four[1] + four[2] + four[3];
    for (; i < n; i++) count += x[i] > limit || (with_equal && x[i] == limit);
    return count;
}

NOINLINE float ss_sum_simd(SS_SUM_ARGS) {
    lanes s = zero_lanes();
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        s = (lanes){wasm_f32x4_add(s.low, wasm_v128_load(x + i)),
                    wasm_f32x4_add(s.high, wasm_v128_load(x + i + 4))};
    return add_lanes(s.low, s.high, x + i, n - i);
}

void ss_add_shares_simd(SS_ADD_SHARES_ARGS) {
    v128_t factors = wasm_f64x2_splat(factor), sign = wasm_f32x4_splat(absolute ? -0.0f : 0.0f);
    size_t i = 0;
    for (; i + 4 <= n; i += 4) {
        v128_t four = wasm_v128_andnot(wasm_v128_load(x + i), sign);
        v128_t low = wasm_f64x2_promote_low_f32x4(four);
        v128_t high = wasm_f64x2_promote_low_f32x4(wasm_i64x2_shuffle(four, four, 1, 1));
        low = wasm_f64x2_add(wasm_v128_load(sums + i), wasm_f64x2_mul(factors, low));
        high = wasm_f64x2_add(wasm_v128_load(sums + i + 2), wasm_f64x2_mul(factors, high));
        wasm_v128_store(sums + i, low);
        wasm_v128_store(sums + i + 2, high);
    }
    ss_add_shares_ref(sums + i, x + i, factor, absolute, n - i);
}

static const uint32_t log_bits[] = {SS_SQRT_HALF_BITS, SS_EXPONENT_BITS};
static const float log_constants[] = {SS_LOG_C7, SS_LOG_C5, SS_LOG_C3, 1.0f, SS_LOG_LN2};

/* Returns p ln p in four lanes, the term of ss_entropy. */
INLINE v128_t entropy_terms4(v128_t p, const v128_t bits[2], const v128_t c[5]) {
    v128_t e = wasm_v128_and(wasm_i32x4_sub(p, bits[0]), bits[1]);
    v128_t m = wasm_i32x4_sub(p, e);
    v128_t f = wasm_f32x4_div(wasm_f32x4_sub(m, c[3]), wasm_f32x4_add(m, c[3]));
    v128_t square = wasm_f32x4_mul(f, f), sum = c[0];
    UNROLL
    for (int i = 1; i < 4; i++) sum = wasm_f32x4_add(wasm_f32x4_mul(sum, square), c[i]);
    e = wasm_f32x4_mul(wasm_f32x4_convert_i32x4(e), c[4]);
    v128_t log = wasm_f32x4_add(e, wasm_f32x4_mul(wasm_f32x4_add(f, f), sum));
    return wasm_f32x4_mul(p, log);
}

INLINE v128_t load_tail(const float *x, size_t n) {
    v128_t two = n == 1 ? wasm_v128_load32_zero(x) : wasm_v128_load64_zero(x);
    return n == 3 ? wasm_v128_load32_lane(x + 2, two, 2) : two;
}

double ss_entropy_simd(SS_ENTROPY_ARGS) {
    v128_t factors = wasm_f32x4_splat(factor), low = wasm_f64x2_splat(0.0), high = low;
    v128_t bits[2] = {load_constant(log_bits), load_constant(log_bits + 1)}, c[5];
    UNROLL
    for (int i = 0; i < 5; i++) c[i] = load_constant(log_constants + i);
    for (size_t i = 0; i < n; i += 4, x += 4) {
        v128_t p = n - i < 4 ? load_tail(x, n - i) : wasm_v128_load(x);
        p = entropy_terms4(wasm_f32x4_mul(wasm_f32x4_abs(p), factors), bits, c);
        low = wasm_f64x2_add(low, wasm_f64x2_promote_low_f32x4(p));
        p = wasm_i64x2_shuffle(p, p, 1, 1);
        high = wasm_f64x2_add(high, wasm_f64x2_promote_low_f32x4(p));
    }
    low = wasm_f64x2_add(low, high);
    return 0.0 - (wasm_f64x2_extract_lane(low, 0) + wasm_f64x2_extract_lane(low, 1));
}

NOINLINE float ss_dot_simd(SS_DOT_ARGS) {
    lanes s = zero_lanes();
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        v128_t low = wasm_f32x4_mul(wasm_v128_load(a + i), wasm_v128_load(b + i));
        v128_t high = wasm_f32x4_mul(wasm_v128_load(a + i + 4), wasm_v128_load(b + i + 4));
        s = (lanes){wasm_f32x4_add(s.low, low), wasm_f32x4_add(s.high, high)};
    }
    float tail[8];
    for (size_t j = i; j < n; j++) tail[j - i] = a[j] * b[j];
    return add_lanes(s.low, s.high, tail, n - i);
}

void ss_rmsnorm_simd(SS_RMSNORM_ARGS) {
    float r = 1.0f / sqrtf(ss_dot_simd(x, x, n) / (float)n + eps);
    size_t i = 0;
    for (v128_t factors = wasm_f32x4_splat(r); i + 4 <= n; i += 4)
        wasm_v128_store(out + i, wasm_f32x4_mul(wasm_f32x4_mul(wasm_v128_load(x + i), factors),
                                                wasm_v128_load(w + i)));
    for (; i < n; i++) out[i] = (x[i] * r) * w[i];
}

void ss_layernorm_simd(SS_LAYERNORM_ARGS) {
    float mean = ss_sum_simd(x, n) / (float)n;
    for (size_t i = 0; i < n; i++) out[i] = x[i] - mean;
    float r = 1.0f / sqrtf(ss_dot_simd(out, out, n) / (float)n + eps);
    size_t i = 0;
    for (v128_t factors = wasm_f32x4_splat(r); b && i + 4 <= n; i += 4) {
        v128_t y =
            wasm_f32x4_mul(wasm_f32x4_mul(wasm_v128_load(out + i), factors), wasm_v128_load(w + i));
        wasm_v128_store(out + i, wasm_f32x4_add(y, wasm_v128_load(b + i)));
    }
    for (; i < n; i++) out[i] = b ? (out[i] * r) * w[i] + b[i] : (out[i] * r) * w[i];
}

void ss_silu_mul_simd(SS_SILU_MUL_ARGS) {
    size_t i = 0;
    for (; i + 4 <= n; i += 4) {
        v128_t y = wasm_v128_load(x + i);
        y = wasm_f32x4_mul(wasm_f32x4_mul(y, sigmoid4(y)), wasm_v128_load(up + i));
        wasm_v128_store(x + i, y);
    }
    for (; i < n; i++) x[i] = x[i] * sigmoid1(x[i]) * up[i];
}

void ss_gelu_simd(SS_GELU_ARGS) {
    static const float numbers[] = {0.044715f, 1.59576912f};
    v128_t cubic = load_constant(numbers), slope = load_constant(numbers + 1);
    size_t i = 0;
    for (; i + 4 <= n; i += 4) {
        v128_t y = wasm_v128_load(x + i);
        v128_t cube = wasm_f32x4_mul(wasm_f32x4_mul(y, y), y);
        v128_t u = wasm_f32x4_add(y, wasm_f32x4_mul(cubic, cube));
        wasm_v128_store(x + i, wasm_f32x4_mul(y, sigmoid4(wasm_f32x4_mul(slope, u))));
    }
    for (; i < n; i++) {
        float cube = x[i] * x[i] * x[i];
        x[i] = x[i] * sigmoid1(1.59576912f * (x[i] + 0.044715f * cube));
    }
}

INLINE v128_t gelu_erf4(v128_t x, const v128_t c[9]) {
    v128_t zero = wasm_f32x4_splat(0.0f), one = load_constant(exp_constants + 12);
    v128_t u = wasm_v128_bitselect(wasm_f32x4_neg(x), x, wasm_f32x4_lt(x, zero));
    v128_t denominator = wasm_f32x4_add(one, wasm_f32x4_mul(c[7], u));
    v128_t t = wasm_f32x4_div(one, denominator), p = c[0];
    UNROLL
    for (int i = 1; i < 7; i++) p = wasm_f32x4_add(wasm_f32x4_mul(p, t), c[i]);
    v128_t half = wasm_f32x4_mul(wasm_f32x4_mul(u, u), c[8]);
    v128_t tail = wasm_f32x4_mul(wasm_f32x4_mul(p, t), exp4(half));
    v128_t positive = wasm_v128_and(x, wasm_f32x4_gt(x, zero));
    return wasm_f32x4_sub(positive, wasm_f32x4_mul(u, tail));
}

void ss_gelu_erf_simd(SS_GELU_ERF_ARGS) {
    static const float numbers[] = {SS_GELU_C7, SS_GELU_C6, SS_GELU_C5, SS_GELU_C4, SS_GELU_C3,
                                    SS_GELU_C2, SS_GELU_C1, SS_GELU_P,  -0.5f};
    v128_t c[9];
    UNROLL
    for (int i = 0; i < 9; i++) c[i] = load_constant(numbers + i);
    size_t i = 0;
    for (; i + 4 <= n; i += 4) wasm_v128_store(x + i, gelu_erf4(wasm_v128_load(x + i), c));
    for (; i < n; i++) x[i] = ss_gelu_erff(x[i]);
}

void ss_relu_simd(SS_RELU_ARGS) {
    size_t i = 0;
    for (; i + 4 <= n; i += 4) {
        v128_t y = wasm_v128_load(x + i);
        wasm_v128_store(x + i, wasm_v128_and(y, wasm_f32x4_gt(y, wasm_f32x4_splat(0.0f))));
    }
    for (; i < n; i++) x[i] = x[i] > 0.0f ? x[i] : 0.0f;
}

void ss_multiply_simd(SS_MULTIPLY_ARGS) {
    size_t i = 0;
    for (; i + 4 <= n; i += 4)
        wasm_v128_store(x + i, wasm_f32x4_mul(wasm_v128_load(x + i), wasm_v128_load(y + i)));
    for (; i < n; i++) x[i] *= y[i];
}

void ss_rotate_simd(SS_ROTATE_ARGS) {
    size_t j = 0;
    for (; j + 4 <= pairs; j += 4) {
        v128_t a = wasm_v128_load(x + j), b = wasm_v128_load(x + j + pairs);
        v128_t c = wasm_v128_load(cosine + j), s = wasm_v128_load(sine + j);
        wasm_v128_store(out + j, wasm_f32x4_sub(wasm_f32x4_mul(a, c), wasm_f32x4_mul(b, s)));
        wasm_v128_store(out + j + pairs,
                        wasm_f32x4_add(wasm_f32x4_mul(b, c), wasm_f32x4_mul(a, s)));
    }
    for (; j < pairs; j++) {
        float a = x[j], b = x[j + pairs];
        out[j] = a * cosine[j] - b * sine[j];
        out[j + pairs] = b * cosine[j] + a * sine[j];
    }
}

#endif
