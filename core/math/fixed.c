#include "fixed.h"

#include <string.h>

void ss_fixed_row_ref(SS_FIXED_ROW_ARGS) {
    for (; n > 0; n--, row++, x += SS_GROUP) {
        uint32_t largest = 0;
        for (size_t k = 0; k < SS_GROUP; k++) {
            /* Without the sign, the bits of floats have the order of their magnitudes; infinity and
             * NaN are larger than all numbers. */
            uint32_t magnitude = ss_bits_of_float(x[k]) & 0x7fffffffu;
            largest = magnitude > largest ? magnitude : largest;
        }
        ss_unit unit = ss_unit_of(largest);
        int32_t low_sum = 0, high_sum = 0;
        for (size_t k = 0; k < SS_GROUP; k++) {
            float y = ss_float_of_bits(ss_bits_of_float(x[k]) & unit.mask) * unit.factor;
            float high = y * 0x1p-15f + SS_ROUNDING - SS_ROUNDING;
            float low = y - high * 0x1p15f + SS_ROUNDING - SS_ROUNDING;
            high_sum += row->high[k] = (int16_t)high;
            low_sum += row->low[k] = (int16_t)low;
        }
        ss_finish_fixed(row, unit.unit, low_sum, high_sum);
    }
}

void ss_tile_fixed(ss_fixed_tile *tile, const ss_fixed *rows, size_t n) {
    for (size_t i = 0; i < n; i++, tile++)
        for (size_t t = 0; t < SS_FIXED_ROWS; t++) {
            const ss_fixed *row = rows + t * n + i;
            for (size_t k = 0; k < SS_GROUP / 2; k++) {
                memcpy(tile->low[k][t], row->low + 2 * k, sizeof tile->low[k][t]);
                memcpy(tile->high[k][t], row->high + 2 * k, sizeof tile->high[k][t]);
            }
            tile->unit[t] = row->unit;
            tile->sum[t] = row->sum;
        }
}

static float round_sum(int32_t low, int32_t high) {
    int64_t sum = (int64_t)high * 32768 + low + 16384, remainder = sum % 32768;
    return (float)((sum - (remainder < 0 ? remainder + 32768 : remainder)) / 32768);
}

void ss_fixed_factors(float d[SS_PANEL], float m[SS_PANEL], const ss_fixed_groups *g, size_t i) {
    const unsigned char *halves = g->halves + i * g->stride;
    if (g->kind == SS_NIBBLES_SCALED) {
        memcpy(d, g->d[i], sizeof g->d[i]);
        memcpy(m, g->m[i], sizeof g->m[i]);
        return;
    }
    ss_unpack_halves(d, halves, SS_PANEL);
    if (g->kind == SS_BYTES) ss_scale(d, SS_BYTE_FACTOR, SS_PANEL);
    if (g->kind == SS_NIBBLES_PLUS_M) ss_unpack_halves(m, halves + 2 * SS_PANEL, SS_PANEL);
    for (size_t lane = 0; g->kind < SS_NIBBLES_PLUS_M && lane < SS_PANEL; lane++)
        m[lane] = g->kind == SS_BYTES ? 0.0f : -8.0f * d[lane];
}

static int scaled_integer(const ss_fixed_groups *g, size_t i, size_t k, size_t lane) {
    int scale = g->kind == SS_BYTES ? SS_BYTE_SCALE : SS_NIBBLE_SCALE;
    return scale * ss_fixed_integer(g, i, k, lane);
}

void ss_times_fixed_ref(SS_TIMES_FIXED_ARGS) {
    for (size_t i = 0; i < groups->n; i++, row++) {
        float d[SS_PANEL], m[SS_PANEL];
        ss_fixed_factors(d, m, groups, i);
        for (size_t lane = 0; lane < SS_PANEL; lane++) {
            int32_t low = 0, high = 0;
            for (size_t k = 0; k < SS_GROUP; k++) {
                int w = scaled_integer(groups, i, k, lane);
                low += w * row->low[k];
                high += w * row->high[k];
            }
            float term = round_sum(low, high) * (d[lane] * row->unit);
            if (groups->kind != SS_BYTES) term += m[lane] * row->sum;
            sums[lane] += term;
        }
    }
}

void ss_spread_fixed_ref(SS_SPREAD_FIXED_ARGS) {
    for (size_t i = 0; i < groups->n; i++, panel++) {
        for (size_t k = 0; k < SS_GROUP; k++)
            for (size_t lane = 0; lane < SS_PANEL; lane++)
                panel->integers[k / 2][lane][k % 2] = (int16_t)scaled_integer(groups, i, k, lane);
        ss_fixed_factors(panel->d, panel->m, groups, i);
        panel->has_summands = groups->kind != SS_BYTES;
    }
}

void ss_tile_times_fixed_ref(SS_TILE_TIMES_FIXED_ARGS) {
    for (; n > 0; n--, tile++, panel++)
        for (size_t t = 0; t < SS_FIXED_ROWS; t++)
            for (size_t lane = 0; lane < SS_PANEL; lane++) {
                int32_t low = 0, high = 0;
                for (size_t k = 0; k < SS_GROUP; k++) {
                    int w = panel->integers[k / 2][lane][k % 2];
                    low += w * tile->low[k / 2][t][k % 2];
                    high += w * tile->high[k / 2][t][k % 2];
                }
                float term = round_sum(low, high) * (panel->d[lane] * tile->unit[t]);
                if (panel->has_summands) term += panel->m[lane] * tile->sum[t];
                sums[t * SS_PANEL + lane] += term;
            }
}
