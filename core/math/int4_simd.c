/* int4.h in 128-bit wasm SIMD: one instruction multiplies eight numbers of 16 bits and adds pairs.
 */
#include "int4.h"

#ifdef __wasm_simd128__

#include "simd.h"

#include <string.h>

/* ---- a row's numbers ---- */

typedef struct split {
    v128_t kept, by, magic, down, up, ones;
} split;

/* Eight of them: low and high parts, and their sums. */
INLINE void split8(ss_fixed *row, size_t k, const float *x, const split *s, v128_t sums[2]) {
    v128_t parts[2][2];
    UNROLL
    for (int i = 0; i < 2; i++) {
        v128_t y = wasm_f32x4_mul(wasm_v128_and(wasm_v128_load(x + k + 4 * i), s->kept), s->by);
        v128_t high = wasm_f32x4_add(wasm_f32x4_mul(y, s->down), s->magic);
        v128_t less = wasm_f32x4_mul(wasm_f32x4_sub(high, s->magic), s->up);
        parts[0][i] = wasm_f32x4_add(wasm_f32x4_sub(y, less), s->magic);
        parts[1][i] = high;
    }
    UNROLL
    for (int i = 0; i < 2; i++) {
        v128_t eight = wasm_i16x8_shuffle(parts[i][0], parts[i][1], 0, 2, 4, 6, 8, 10, 12, 14);
        wasm_v128_store(i ? row->high + k : row->low + k, eight);
        sums[i] = wasm_i32x4_add(sums[i], wasm_i32x4_dot_i16x8(eight, s->ones));
    }
}

INLINE int32_t add_up(v128_t four) {
    four = wasm_i32x4_add(four, wasm_i32x4_shuffle(four, four, 2, 3, 0, 1));
    four = wasm_i32x4_add(four, wasm_i32x4_shuffle(four, four, 1, 0, 3, 2));
    return wasm_i32x4_extract_lane(four, 0);
}

SHARED void ss_fixed_row_simd(SS_FIXED_ROW_ARGS) {
    static const float magic = SS_FIXED_MAGIC, down = 0x1p-15f, up = 0x1p15f;
    static const uint32_t ones = 0x10001, sizes = 0x7fffffff;
    split s = {.magic = keep(&magic), .down = keep(&down), .up = keep(&up), .ones = keep(&ones)};
    for (v128_t size = keep(&sizes); n > 0; n--, row++, x += SS_GROUP) {
        v128_t top = wasm_i32x4_splat(0);
        for (size_t k = 0; k < SS_GROUP; k += 4)
            top = wasm_i32x4_max(top, wasm_v128_and(wasm_v128_load(x + k), size));
        top = wasm_i32x4_max(top, wasm_i32x4_shuffle(top, top, 2, 3, 0, 1));
        top = wasm_i32x4_max(top, wasm_i32x4_shuffle(top, top, 1, 0, 3, 2));
        ss_unit unit = ss_unit_of((uint32_t)wasm_i32x4_extract_lane(top, 0));
        v128_t sums[2] = {wasm_i32x4_splat(0), wasm_i32x4_splat(0)};
        s.kept = wasm_i32x4_splat((int)unit.kept);
        s.by = wasm_f32x4_splat(unit.by);
        for (size_t k = 0; k < SS_GROUP; k += 8) split8(row, k, x, &s, sums);
        ss_finish_fixed(row, unit.unit, add_up(sums[0]), add_up(sums[1]));
    }
}

/* ---- one row times eight ---- */

/* low[r], high[r] += the parts of 16 numbers times nibbles of row r: the high or the low halves of
 * 16 bytes. */
INLINE void add_sixteen(v128_t low[4], v128_t high[4], bool highs, const int8_t *const rows[4],
                        size_t at, const ss_fixed *x, size_t k) {
    static const uint32_t nibbles = 0xf000f;
    v128_t nibble = highs ? wasm_i32x4_splat(0) : keep(&nibbles);
    UNROLL
    for (size_t j = 0; j < 16; j += 8) {
        v128_t a = wasm_v128_load(x->low + k + j), b = wasm_v128_load(x->high + k + j);
        UNROLL
        for (size_t r = 0; r < 4; r++) {
            v128_t w = wasm_u16x8_load8x8(rows[r] + at + j);
            __asm__(""
                    : "+r"(w)); /* else LLVM takes nibbles first, and makes them wide after that */
            w = highs ? wasm_u16x8_shr(w, 4) : wasm_v128_and(w, nibble);
            low[r] = wasm_i32x4_add(low[r], wasm_i32x4_dot_i16x8(w, a));
            high[r] = wasm_i32x4_add(high[r], wasm_i32x4_dot_i16x8(w, b));
        }
    }
}

/* Lane r is the sum of the lanes of sums[r]. */
INLINE v128_t sums4(const v128_t sums[4]) {
    v128_t ab = wasm_i32x4_add(wasm_i32x4_shuffle(sums[0], sums[1], 0, 4, 1, 5),
                               wasm_i32x4_shuffle(sums[0], sums[1], 2, 6, 3, 7));
    v128_t cd = wasm_i32x4_add(wasm_i32x4_shuffle(sums[2], sums[3], 0, 4, 1, 5),
                               wasm_i32x4_shuffle(sums[2], sums[3], 2, 6, 3, 7));
    return wasm_i32x4_add(wasm_i64x2_shuffle(ab, cd, 0, 2), wasm_i64x2_shuffle(ab, cd, 1, 3));
}

/* V of four rows from lane `from` on, and group i. */
INLINE v128_t rounded4(const ss_groups *g, const ss_fixed *x, size_t i, size_t from) {
    static const int32_t half = 1 << 7;
    v128_t low[4], high[4];
    UNROLL
    for (int r = 0; r < 4; r++) low[r] = high[r] = wasm_i32x4_splat(0);
    for (size_t j = 0; j < 2; j++) {
        ss_sixteen s = ss_find_sixteen(g, i, j);
        if (s.high)
            add_sixteen(low, high, true, g->q + from, s.at, x, 16 * j);
        else
            add_sixteen(low, high, false, g->q + from, s.at, x, 16 * j);
    }
    v128_t l = wasm_i32x4_shr(wasm_i32x4_add(sums4(low), keep(&half)), 8);
    return wasm_f32x4_convert_i32x4(wasm_i32x4_add(wasm_i32x4_shl(sums4(high), 7), l));
}

SHARED void ss_times_nibbles_simd(SS_TIMES_NIBBLES_ARGS) {
    const unsigned char *ahead = groups->ahead;
    for (size_t from = 0; from < SS_PANEL; from += 4) {
        v128_t sum = wasm_v128_load(sums + from);
        const ss_fixed *x = row;
        __asm__("" : "+r"(from)); /* else there are two of what follows */
        for (size_t i = 0; i < groups->n; i++, x++) {
            UNROLL
            for (int touched = 0; touched < 2; touched++, ahead += groups->apart)
                (void)*(const volatile unsigned char *)ahead;
            v128_t V = rounded4(groups, x, i, from);
            v128_t unit = wasm_v128_load32_splat(&x->unit), s = wasm_v128_load32_splat(&x->sum);
            v128_t d = wasm_v128_load(groups->d[0][i] + from),
                   m = wasm_v128_load(groups->m[i] + from);
            V = wasm_f32x4_mul(V, wasm_f32x4_mul(d, unit));
            sum = wasm_f32x4_add(sum, wasm_f32x4_add(V, wasm_f32x4_mul(m, s)));
        }
        wasm_v128_store(sums + from, sum);
    }
}

/* ---- many rows ---- */

/* Sixteen nibbles of each of four rows, pairs side by side and times 128, to their places. */
INLINE void spread_sixteen(int16_t *to, const int8_t *const rows[4], size_t at, bool high) {
    v128_t r[4], pairs[4];
    UNROLL
    for (int i = 0; i < 4; i++) {
        v128_t bytes = wasm_v128_load(rows[i] + at);
        bytes = high ? wasm_u16x8_shr(bytes, 1) : wasm_i16x8_shl(bytes, 3);
        r[i] = wasm_v128_and(bytes, wasm_i8x16_splat(0x78));
    }
    v128_t ab = wasm_i16x8_shuffle(r[0], r[1], 0, 8, 1, 9, 2, 10, 3, 11);
    v128_t AB = wasm_i16x8_shuffle(r[0], r[1], 4, 12, 5, 13, 6, 14, 7, 15);
    v128_t cd = wasm_i16x8_shuffle(r[2], r[3], 0, 8, 1, 9, 2, 10, 3, 11);
    v128_t CD = wasm_i16x8_shuffle(r[2], r[3], 4, 12, 5, 13, 6, 14, 7, 15);
    pairs[0] = wasm_i32x4_shuffle(ab, cd, 0, 4, 1, 5);
    pairs[1] = wasm_i32x4_shuffle(ab, cd, 2, 6, 3, 7);
    pairs[2] = wasm_i32x4_shuffle(AB, CD, 0, 4, 1, 5);
    pairs[3] = wasm_i32x4_shuffle(AB, CD, 2, 6, 3, 7);
    UNROLL
    for (int i = 0; i < 4; i++, to += 4 * SS_PANEL) {
        v128_t first = wasm_u16x8_extend_low_u8x16(pairs[i]);
        v128_t second = wasm_u16x8_extend_high_u8x16(pairs[i]);
        wasm_v128_store(to, wasm_i16x8_shl(first, 4));
        wasm_v128_store(to + 2 * SS_PANEL, wasm_i16x8_shl(second, 4));
    }
}

SHARED void ss_spread_nibbles_simd(SS_SPREAD_NIBBLES_ARGS) {
    const unsigned char *ahead = groups->ahead;
    for (size_t i = 0; i < groups->n; i++, spread++) {
        for (size_t j = 0; j < 2; j++) {
            ss_sixteen s = ss_find_sixteen(groups, i, j);
            for (size_t from = 0; from < SS_PANEL; from += 4, ahead += groups->apart) {
                (void)*(const volatile unsigned char *)ahead;
                spread_sixteen(spread->numbers[8 * j][from], groups->q + from, s.at, s.high);
            }
        }
        ss_copy_simd(spread->d, groups->d[0][i], SS_PANEL);
        ss_copy_simd(spread->m, groups->m[i], SS_PANEL);
    }
}

/* sums[2 t], [2 t + 1] += the numbers of five rows times those of a panel. */
INLINE void add_pairs(v128_t sums[2 * SS_FIVE], const int16_t (*x)[SS_FIVE][2],
                      const int16_t (*w)[SS_PANEL][2]) {
    for (size_t pairs = SS_GROUP / 2; pairs > 0; pairs--, x++, w++) {
        v128_t w0 = wasm_v128_load(w[0][0]), w1 = wasm_v128_load(w[0][4]);
        UNROLL
        for (int t = 0; t < SS_FIVE; t++) {
            v128_t pair = wasm_v128_load32_splat(x[0][t]);
            sums[2 * t] = wasm_i32x4_add(sums[2 * t], wasm_i32x4_dot_i16x8(pair, w0));
            sums[2 * t + 1] = wasm_i32x4_add(sums[2 * t + 1], wasm_i32x4_dot_i16x8(pair, w1));
        }
    }
}

/* The low parts first: of their sum the high ones start, so that ten registers hold all sums. */
SHARED void ss_tile_times_nibbles_simd(SS_TILE_TIMES_NIBBLES_ARGS) {
    static const int32_t half = 1 << 14;
    for (; n > 0; n--, tile++, spread++) {
        v128_t all[2 * SS_FIVE], start = keep(&half);
        UNROLL
        for (int i = 0; i < 2 * SS_FIVE; i++) all[i] = start;
        add_pairs(all, tile->low, spread->numbers);
        UNROLL
        for (int i = 0; i < 2 * SS_FIVE; i++) all[i] = wasm_i32x4_shr(all[i], 15);
        add_pairs(all, tile->high, spread->numbers);
        v128_t d0 = wasm_v128_load(spread->d), d1 = wasm_v128_load(spread->d + 4);
        UNROLL
        for (int t = 0; t < SS_FIVE; t++) {
            v128_t unit = wasm_v128_load32_splat(tile->unit + t), *two = all + 2 * t;
            two[0] = wasm_f32x4_mul(wasm_f32x4_convert_i32x4(two[0]), wasm_f32x4_mul(d0, unit));
            two[1] = wasm_f32x4_mul(wasm_f32x4_convert_i32x4(two[1]), wasm_f32x4_mul(d1, unit));
        }
        v128_t m0 = wasm_v128_load(spread->m), m1 = wasm_v128_load(spread->m + 4);
        UNROLL
        for (int t = 0; t < SS_FIVE; t++) {
            v128_t s = wasm_v128_load32_splat(tile->sum + t), *two = all + 2 * t;
            two[0] = wasm_f32x4_add(two[0], wasm_f32x4_mul(m0, s));
            two[1] = wasm_f32x4_add(two[1], wasm_f32x4_mul(m1, s));
        }
        UNROLL
        for (int i = 0; i < 2 * SS_FIVE; i++)
            wasm_v128_store(sums + 4 * i, wasm_f32x4_add(wasm_v128_load(sums + 4 * i), all[i]));
    }
}

#endif
