/* The kernels of fixed.h in 128-bit wasm SIMD: one instruction multiplies eight 16-bit numbers
 * and adds pairs. */
#include "fixed.h"

#ifdef __wasm_simd128__

#include "simd.h"

typedef struct split_constants {
    v128_t mask, factor, magic, down, up, ones;
} split_constants;

INLINE void split8(ss_fixed *row, size_t k, const float *x, const split_constants *s,
                   v128_t sums[2]) {
    v128_t parts[2][2];
    UNROLL
    for (int i = 0; i < 2; i++) {
        v128_t y = wasm_f32x4_mul(wasm_v128_and(wasm_v128_load(x + k + 4 * i), s->mask), s->factor);
        v128_t high = wasm_f32x4_add(wasm_f32x4_mul(y, s->down), s->magic);
        v128_t high_part = wasm_f32x4_mul(wasm_f32x4_sub(high, s->magic), s->up);
        parts[0][i] = wasm_f32x4_add(wasm_f32x4_sub(y, high_part), s->magic);
        parts[1][i] = high;
    }
    UNROLL
    for (int i = 0; i < 2; i++) {
        v128_t eight = wasm_i16x8_shuffle(parts[i][0], parts[i][1], 0, 2, 4, 6, 8, 10, 12, 14);
        wasm_v128_store(i ? row->high + k : row->low + k, eight);
        sums[i] = wasm_i32x4_add(sums[i], wasm_i32x4_dot_i16x8(eight, s->ones));
    }
}

INLINE int32_t sum_lanes(v128_t four) {
    four = wasm_i32x4_add(four, wasm_i32x4_shuffle(four, four, 2, 3, 0, 1));
    four = wasm_i32x4_add(four, wasm_i32x4_shuffle(four, four, 1, 0, 3, 2));
    return wasm_i32x4_extract_lane(four, 0);
}

NOINLINE void ss_fixed_row_simd(SS_FIXED_ROW_ARGS) {
    static const float magic = SS_ROUNDING, down = 0x1p-15f, up = 0x1p15f;
    static const uint32_t ones = 0x10001, magnitude_mask = 0x7fffffff;
    split_constants s = {.magic = load_constant(&magic),
                         .down = load_constant(&down),
                         .up = load_constant(&up),
                         .ones = load_constant(&ones)};
    for (v128_t magnitude = load_constant(&magnitude_mask); n > 0; n--, row++, x += SS_GROUP) {
        v128_t top = wasm_i32x4_splat(0);
        for (size_t k = 0; k < SS_GROUP; k += 4)
            top = wasm_i32x4_max(top, wasm_v128_and(wasm_v128_load(x + k), magnitude));
        top = wasm_i32x4_max(top, wasm_i32x4_shuffle(top, top, 2, 3, 0, 1));
        top = wasm_i32x4_max(top, wasm_i32x4_shuffle(top, top, 1, 0, 3, 2));
        ss_unit unit = ss_unit_of((uint32_t)wasm_i32x4_extract_lane(top, 0));
        v128_t sums[2] = {wasm_i32x4_splat(0), wasm_i32x4_splat(0)};
        s.mask = wasm_i32x4_splat((int)unit.mask);
        s.factor = wasm_f32x4_splat(unit.factor);
        for (size_t k = 0; k < SS_GROUP; k += 8) split8(row, k, x, &s, sums);
        ss_finish_fixed(row, unit.unit, sum_lanes(sums[0]), sum_lanes(sums[1]));
    }
}

/* Eight lanes of 32 bits, 0..3 and 4..7. Each holds one number or two inputs of 16 bits. */
typedef struct lanes8 {
    v128_t low, high;
} lanes8;

INLINE lanes8 read_nibble_pair(v128_t bytes, bool second, v128_t mask) {
    if (second)
        return (lanes8){wasm_v128_and(wasm_u16x8_shr(bytes, 8), mask), wasm_u16x8_shr(bytes, 12)};
    return (lanes8){wasm_v128_and(bytes, mask), wasm_v128_and(wasm_u16x8_shr(bytes, 4), mask)};
}

INLINE lanes8 read_byte_pair(const unsigned char *at) {
    return (lanes8){wasm_i16x8_load8x8(at), wasm_i16x8_load8x8(at + 8)};
}

/* Adds the products of w with two inputs to sums. x points to the low parts of the inputs; their
 * high parts follow SS_GROUP numbers later. sums holds the low parts of lanes 0..3 and 4..7, then
 * the high parts. */
_Static_assert(offsetof(ss_fixed, high) == SS_GROUP * sizeof(int16_t), "high follows low");
INLINE void add_input_pair(v128_t sums[4], lanes8 w, const int16_t *x) {
    v128_t low = wasm_v128_load32_splat(x), high = wasm_v128_load32_splat(x + SS_GROUP);
    sums[0] = wasm_i32x4_add(sums[0], wasm_i32x4_dot_i16x8(w.low, low));
    sums[1] = wasm_i32x4_add(sums[1], wasm_i32x4_dot_i16x8(w.high, low));
    sums[2] = wasm_i32x4_add(sums[2], wasm_i32x4_dot_i16x8(w.low, high));
    sums[3] = wasm_i32x4_add(sums[3], wasm_i32x4_dot_i16x8(w.high, high));
}

/* Returns V (fixed.h): (low sums + 2^15 * high sums) / 2^bits, rounded; half is 2^(bits - 1). */
INLINE lanes8 round_sums8(const v128_t sums[4], uint32_t bits, v128_t half) {
    v128_t sums32[2];
    UNROLL
    for (int i = 0; i < 2; i++) {
        v128_t low = wasm_i32x4_shr(wasm_i32x4_add(sums[i], half), bits);
        sums32[i] = wasm_i32x4_add(wasm_i32x4_shl(sums[2 + i], 15 - bits), low);
    }
    return (lanes8){wasm_f32x4_convert_i32x4(sums32[0]), wasm_f32x4_convert_i32x4(sums32[1])};
}

/* Returns eight finite halves times `factor` / 2^112: shifted left by 13, the bits of a half are a
 * float that is 2^112 times too small. */
INLINE lanes8 read_halves8(const unsigned char *at, v128_t factor) {
    v128_t mask = wasm_i32x4_splat((int)0x8fffe000u), floats[2];
    UNROLL
    for (int i = 0; i < 2; i++) {
        v128_t four = wasm_i32x4_shl(wasm_i32x4_load16x4(at + 8 * i), 13);
        floats[i] = wasm_f32x4_mul(wasm_v128_and(four, mask), factor);
    }
    return (lanes8){floats[0], floats[1]};
}

INLINE lanes8 scale8(lanes8 a, v128_t factor) {
    return (lanes8){wasm_f32x4_mul(a.low, factor), wasm_f32x4_mul(a.high, factor)};
}

INLINE lanes8 add8(lanes8 a, lanes8 b) {
    return (lanes8){wasm_f32x4_add(a.low, b.low), wasm_f32x4_add(a.high, b.high)};
}

INLINE lanes8 scale_by_unit(lanes8 V, lanes8 d, const ss_fixed *row) {
    d = scale8(d, wasm_v128_load32_splat(&row->unit));
    return (lanes8){wasm_f32x4_mul(V.low, d.low), wasm_f32x4_mul(V.high, d.high)};
}

INLINE lanes8 load8(const float *x) {
    return (lanes8){wasm_v128_load(x), wasm_v128_load(x + 4)};
}

static const float half_factor = 0x1p112f, byte_factor = SS_BYTE_FACTOR * 0x1p112f;

INLINE void read_factors(lanes8 *d, lanes8 *m, const ss_fixed_groups *g, size_t i,
                         const unsigned char *halves, v128_t factor) {
    if (g->kind == SS_NIBBLES_SCALED) {
        *d = load8(g->d[i]);
        *m = load8(g->m[i]);
        return;
    }
    *d = read_halves8(halves, factor);
    *m = g->kind == SS_NIBBLES_PLUS_M ? read_halves8(halves + 2 * SS_PANEL, factor)
                                      : scale8(*d, wasm_f32x4_splat(-8.0f));
}

INLINE lanes8 multiply_nibbles(lanes8 sum, const ss_fixed *row, const ss_fixed_groups *g) {
    static const uint32_t nibble = 0xf000f, half = 1 << 7;
    v128_t mask = load_constant(&nibble), rounding = load_constant(&half),
           factor = load_constant(&half_factor);
    size_t offset = 0;
    for (size_t i = 0; i < g->n; i++, row++, offset += g->stride) {
        v128_t sums[4] = {0};
        const unsigned char *at = g->integers + offset;
        const int16_t *x = row->low;
        for (size_t fours = SS_GROUP / 4; fours > 0; fours--, at += 16, x += 4) {
            v128_t four = wasm_v128_load(at);
            add_input_pair(sums, read_nibble_pair(four, false, mask), x);
            add_input_pair(sums, read_nibble_pair(four, true, mask), x + 2);
        }
        lanes8 d, m;
        read_factors(&d, &m, g, i, g->halves + offset, factor);
        m = scale8(m, wasm_v128_load32_splat(&row->sum));
        sum = add8(sum, add8(scale_by_unit(round_sums8(sums, 8, rounding), d, row), m));
    }
    return sum;
}

INLINE lanes8 multiply_bytes(lanes8 sum, const ss_fixed *row, const ss_fixed_groups *g) {
    static const uint32_t half = 1 << 10;
    v128_t rounding = load_constant(&half), factor = load_constant(&byte_factor);
    size_t offset = 0;
    for (size_t i = 0; i < g->n; i++, row++, offset += g->stride) {
        v128_t sums[4] = {0};
        const unsigned char *at = g->integers + offset;
        const int16_t *x = row->low;
        for (size_t twos = SS_GROUP / 2; twos > 0; twos--, at += 16, x += 2)
            add_input_pair(sums, read_byte_pair(at), x);
        sum = add8(sum, scale_by_unit(round_sums8(sums, 11, rounding),
                                      read_halves8(g->halves + offset, factor), row));
    }
    return sum;
}

NOINLINE void ss_times_fixed_simd(SS_TIMES_FIXED_ARGS) {
    lanes8 sum = load8(sums);
    sum = groups->kind == SS_BYTES ? multiply_bytes(sum, row, groups)
                                   : multiply_nibbles(sum, row, groups);
    wasm_v128_store(sums, sum.low);
    wasm_v128_store(sums + 4, sum.high);
}

INLINE void spread_pair(int16_t *out, lanes8 w, uint32_t bits) {
    wasm_v128_store(out, wasm_i16x8_shl(w.low, bits));
    wasm_v128_store(out + SS_PANEL, wasm_i16x8_shl(w.high, bits));
}

NOINLINE void ss_spread_fixed_simd(SS_SPREAD_FIXED_ARGS) {
    const unsigned char *integers = groups->integers;
    v128_t mask = wasm_i16x8_splat(15);
    for (size_t i = 0; i < groups->n; i++, panel++, integers += groups->stride) {
        int16_t *to = panel->integers[0][0];
        const unsigned char *at = integers;
        for (size_t k = 0; k < SS_GROUP; k += 4, to += 4 * SS_PANEL) {
            if (groups->kind == SS_BYTES) {
                spread_pair(to, read_byte_pair(at), 4);
                spread_pair(to + 2 * SS_PANEL, read_byte_pair(at + 16), 4);
                at += 32;
            } else {
                v128_t four = wasm_v128_load(at);
                spread_pair(to, read_nibble_pair(four, false, mask), 7);
                spread_pair(to + 2 * SS_PANEL, read_nibble_pair(four, true, mask), 7);
                at += 16;
            }
        }
        ss_fixed_factors(panel->d, panel->m, groups, i);
        panel->has_summands = groups->kind != SS_BYTES;
    }
}

INLINE void add_pairs(v128_t sums[2 * SS_FIXED_ROWS], const int16_t (*x)[SS_FIXED_ROWS][2],
                      const int16_t (*w)[SS_PANEL][2]) {
    for (size_t pairs = SS_GROUP / 2; pairs > 0; pairs--, x++, w++) {
        v128_t w0 = wasm_v128_load(w[0][0]), w1 = wasm_v128_load(w[0][4]);
        UNROLL
        for (int t = 0; t < SS_FIXED_ROWS; t++) {
            v128_t pair = wasm_v128_load32_splat(x[0][t]);
            sums[2 * t] = wasm_i32x4_add(sums[2 * t], wasm_i32x4_dot_i16x8(pair, w0));
            sums[2 * t + 1] = wasm_i32x4_add(sums[2 * t + 1], wasm_i32x4_dot_i16x8(pair, w1));
        }
    }
}

/* Adds the low parts first and starts the high ones from the shifted sum of the low ones, so that
 * ten registers hold all sums. */
NOINLINE void ss_tile_times_fixed_simd(SS_TILE_TIMES_FIXED_ARGS) {
    static const int32_t half = 1 << 14;
    for (; n > 0; n--, tile++, panel++) {
        v128_t sums32[2 * SS_FIXED_ROWS], start = load_constant(&half);
        UNROLL
        for (int i = 0; i < 2 * SS_FIXED_ROWS; i++) sums32[i] = start;
        add_pairs(sums32, tile->low, panel->integers);
        UNROLL
        for (int i = 0; i < 2 * SS_FIXED_ROWS; i++) sums32[i] = wasm_i32x4_shr(sums32[i], 15);
        add_pairs(sums32, tile->high, panel->integers);
        v128_t d0 = wasm_v128_load(panel->d), d1 = wasm_v128_load(panel->d + 4);
        UNROLL
        for (int t = 0; t < SS_FIXED_ROWS; t++) {
            v128_t unit = wasm_v128_load32_splat(tile->unit + t), *sum = sums32 + 2 * t;
            sum[0] = wasm_f32x4_mul(wasm_f32x4_convert_i32x4(sum[0]), wasm_f32x4_mul(d0, unit));
            sum[1] = wasm_f32x4_mul(wasm_f32x4_convert_i32x4(sum[1]), wasm_f32x4_mul(d1, unit));
        }
        v128_t m0 = wasm_v128_load(panel->m), m1 = wasm_v128_load(panel->m + 4);
        UNROLL
        for (int t = 0; panel->has_summands && t < SS_FIXED_ROWS; t++) {
            v128_t s = wasm_v128_load32_splat(tile->sum + t), *sum = sums32 + 2 * t;
            sum[0] = wasm_f32x4_add(sum[0], wasm_f32x4_mul(m0, s));
            sum[1] = wasm_f32x4_add(sum[1], wasm_f32x4_mul(m1, s));
        }
        UNROLL
        for (int i = 0; i < 2 * SS_FIXED_ROWS; i++)
            wasm_v128_store(sums + 4 * i, wasm_f32x4_add(wasm_v128_load(sums + 4 * i), sums32[i]));
    }
}

#endif
