/*
 * ss_times8 in wasm SIMD: with relaxed SIMD one instruction multiplies and adds four times four
 * bytes; without it, bytes are widened to 16 bits, and one instruction multiplies and adds pairs.
 */
#include "int8.h"

#ifdef __wasm_simd128__

#include "simd.h"

#include <string.h>

/*
 * TILE is the number of rows per tile, and `number` the type of a row's integers in it. V8 hands
 * out fifteen vector registers on x86-64; relaxed SIMD fills them with 6 x 2 sums, the panel's two
 * vectors and a quad of a row.
 */
#ifdef __wasm_relaxed_simd__
#define TILE 6
typedef uint8_t number;
const char ss_int8_kernels[] = "relaxed";
#else
#define TILE 4
typedef int16_t number;
const char ss_int8_kernels[] = "simd";
#endif
#define PANELS_MAX 4

#ifndef __wasm_relaxed_simd__
/* Adds a quad of each of MR rows times a quad of four lanes to sums. Weights 0 and 2 of each lane
 * come first, then 1 and 3; ss_tile8_simd puts the numbers of a row in that order. */
INLINE void add_half(int MR, v128_t *sums, const number *a, v128_t q) {
    v128_t even = wasm_i16x8_shr(wasm_i16x8_shl(q, 8), 8), odd = wasm_i16x8_shr(q, 8);
    UNROLL
    for (int r = 0; r < MR; r++) {
        v128_t x = wasm_v128_load32_splat(a + r * SS_QUAD);
        sums[r] = wasm_i32x4_add(sums[r], wasm_i32x4_dot_i16x8(even, x));
        x = wasm_v128_load32_splat(a + r * SS_QUAD + 2);
        sums[r] = wasm_i32x4_add(sums[r], wasm_i32x4_dot_i16x8(odd, x));
    }
}
#endif

INLINE void add_quad(int MR, v128_t *low, v128_t *high, const number *a, const int8_t *q) {
    v128_t q0 = wasm_v128_load(q), q1 = wasm_v128_load(q + 16);
#ifdef __wasm_relaxed_simd__
    UNROLL
    for (int r = 0; r < MR; r++) {
        v128_t x = wasm_v128_load32_splat(a + r * SS_QUAD);
        low[r] = wasm_i32x4_relaxed_dot_i8x16_i7x16_add(q0, x, low[r]);
        high[r] = wasm_i32x4_relaxed_dot_i8x16_i7x16_add(q1, x, high[r]);
    }
#else
    add_half(MR, low, a, q0);
    /* Without this barrier LLVM would keep all rows in registers across both halves, and spill. */
    __asm__("" : "+r"(a));
    add_half(MR, high, a, q1);
#endif
}

typedef struct panel_place {
    const ss_rows8 *rows;
    const ss_int8 *w;
    const float *bias;
    size_t t, n, width; /* width: outputs in the panel */
} panel_place;

INLINE v128_t scale_sums4(v128_t sums, const panel_place *place, size_t t, size_t first_lane) {
    size_t n = place->n + first_lane;
    v128_t zero = wasm_i32x4_splat(place->rows->zeros[t]);
    v128_t scale = wasm_f32x4_splat(place->rows->scales[t]);
    sums = wasm_i32x4_sub(sums, wasm_i32x4_mul(zero, wasm_v128_load(place->w->sums + n)));
    scale = wasm_f32x4_mul(scale, wasm_v128_load(place->w->scales + n));
    return wasm_f32x4_mul(wasm_f32x4_convert_i32x4(sums), scale);
}

static void write_row(float *out, v128_t low, v128_t high, const panel_place *place, size_t t) {
    float bias[SS_PANEL] = {0}, partial[SS_PANEL];
    if (place->bias) memcpy(bias, place->bias + place->n, place->width * sizeof *bias);
    float *target = place->width == SS_PANEL ? out : partial;
    wasm_v128_store(target, wasm_f32x4_add(scale_sums4(low, place, t, 0), wasm_v128_load(bias)));
    wasm_v128_store(target + 4,
                    wasm_f32x4_add(scale_sums4(high, place, t, 4), wasm_v128_load(bias + 4)));
    if (target == partial) memcpy(out, partial, place->width * sizeof *partial);
}

/* Multiplies MR rows with several panels: with few rows, the additional sums hide the latency. */
INLINE void times_panels(int MR, int panels, float *out, size_t out_stride, const number *tile,
                         const panel_place *place, size_t quads) {
    v128_t low[TILE * PANELS_MAX], high[TILE * PANELS_MAX];
    size_t bytes = quads * SS_PANEL * SS_QUAD;
    const int8_t *q = place->w->panels + place->n / SS_PANEL * bytes;
    UNROLL
    for (int i = 0; i < MR * panels; i++) low[i] = high[i] = wasm_i32x4_splat(0);
    for (size_t k = 0; k < quads; k++, q += SS_PANEL * SS_QUAD, tile += MR * SS_QUAD) {
        UNROLL
        for (int p = 0; p < panels; p++)
            add_quad(MR, low + p * MR, high + p * MR, tile, q + (size_t)p * bytes);
    }
    UNROLL
    for (int p = 0; p < panels; p++) {
        panel_place panel = *place;
        panel.n += (size_t)p * SS_PANEL;
        UNROLL
        for (int r = 0; r < MR; r++)
            write_row(out + (size_t)r * out_stride + p * SS_PANEL, low[p * MR + r],
                      high[p * MR + r], &panel, place->t + (size_t)r);
    }
}

void ss_tile8_simd(SS_TILE8_ARGS) {
    size_t quads = ss_quads(Kin);
    number *tiles = (number *)rows->tiles;
    for (size_t t = 0; t < T; t += TILE) {
        size_t n = T - t < TILE ? T - t : TILE;
        for (size_t k = 0; k < quads; k++)
            for (size_t r = 0; r < n; r++, tiles += SS_QUAD) {
                const uint8_t *u = rows->numbers + ((t + r) * quads + k) * SS_QUAD;
#ifdef __wasm_relaxed_simd__
                memcpy(tiles, u, SS_QUAD);
#else
                tiles[0] = u[0], tiles[1] = u[2], tiles[2] = u[1], tiles[3] = u[3];
#endif
            }
    }
}

static void tiles_times_panel(float *out, size_t out_stride, const number *tiles, panel_place place,
                              size_t T, size_t quads) {
    size_t bytes = TILE * quads * SS_QUAD;
    for (; place.t + TILE <= T; place.t += TILE, out += TILE * out_stride, tiles += bytes)
        times_panels(TILE, 1, out, out_stride, tiles, &place, quads);
    switch (T - place.t) {
#ifdef __wasm_relaxed_simd__
    case 5: times_panels(5, 1, out, out_stride, tiles, &place, quads); break;
    case 4: times_panels(4, 1, out, out_stride, tiles, &place, quads); break;
#endif
    case 3: times_panels(3, 1, out, out_stride, tiles, &place, quads); break;
    case 2: times_panels(2, 1, out, out_stride, tiles, &place, quads); break;
    case 1: times_panels(1, 1, out, out_stride, tiles, &place, quads); break;
    default: break;
    }
}

void ss_times8_simd(SS_TIMES8_ARGS) {
    size_t quads = ss_quads(Kin), n = 0;
    const number *tiles = (const number *)rows->tiles;
    for (; T == 1 && n + PANELS_MAX * SS_PANEL <= N; n += PANELS_MAX * SS_PANEL) {
        panel_place place = {rows, w, bias, 0, n, SS_PANEL};
        times_panels(1, PANELS_MAX, out + n, out_stride, tiles, &place, quads);
    }
    for (; n < N; n += SS_PANEL) {
        panel_place place = {rows, w, bias, 0, n, N - n < SS_PANEL ? N - n : SS_PANEL};
        tiles_times_panel(out + n, out_stride, tiles, place, T, quads);
    }
}

#endif
