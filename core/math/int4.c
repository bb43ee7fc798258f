#include "int4.h"

#include <string.h>

void ss_fixed_row_ref(SS_FIXED_ROW_ARGS) {
    for (; n > 0; n--, row++, x += SS_GROUP) {
        uint32_t largest = 0;
        for (size_t k = 0; k < SS_GROUP; k++) {
            /* Without signs, bits are in the order of numbers, and those of no number above. */
            uint32_t size = ss_bits_of_float(x[k]) & 0x7fffffffu;
            largest = size > largest ? size : largest;
        }
        ss_unit unit = ss_unit_of(largest);
        int32_t low_sum = 0, high_sum = 0;
        for (size_t k = 0; k < SS_GROUP; k++) {
            float y = ss_float_of_bits(ss_bits_of_float(x[k]) & unit.kept) * unit.by;
            float high = y * 0x1p-15f + SS_FIXED_MAGIC - SS_FIXED_MAGIC;
            float low = y - high * 0x1p15f + SS_FIXED_MAGIC - SS_FIXED_MAGIC;
            high_sum += row->high[k] = (int16_t)high;
            low_sum += row->low[k] = (int16_t)low;
        }
        ss_finish_fixed(row, unit.unit, low_sum, high_sum);
    }
}

void ss_tile_fixed(ss_fixed_tile *tile, const ss_fixed *rows, size_t n) {
    for (size_t i = 0; i < n; i++, tile++)
        for (size_t t = 0; t < SS_FIVE; t++) {
            const ss_fixed *row = rows + t * n + i;
            for (size_t k = 0; k < SS_GROUP / 2; k++) {
                memcpy(tile->low[k][t], row->low + 2 * k, sizeof tile->low[k][t]);
                memcpy(tile->high[k][t], row->high + 2 * k, sizeof tile->high[k][t]);
            }
            tile->unit[t] = row->unit;
            tile->sum[t] = row->sum;
        }
}

/* V, of sums of low and of high parts. */
static float rounded(int32_t low, int32_t high) {
    int64_t sum = (int64_t)high * 32768 + low + 128, rest = sum % 256;
    return (float)((sum - (rest < 0 ? rest + 256 : rest)) / 256);
}

void ss_times_nibbles_ref(SS_TIMES_NIBBLES_ARGS) {
    for (size_t i = 0; i < groups->n; i++, row++)
        for (size_t lane = 0; lane < SS_PANEL; lane++) {
            int32_t low = 0, high = 0;
            for (size_t k = 0; k < SS_GROUP; k++) {
                int w = ss_group_nibble(groups, i * SS_GROUP + k, lane);
                low += w * row->low[k];
                high += w * row->high[k];
            }
            sums[lane] += rounded(low, high) * (groups->d[0][i][lane] * row->unit) +
                          groups->m[i][lane] * row->sum;
        }
}

void ss_spread_nibbles_ref(SS_SPREAD_NIBBLES_ARGS) {
    for (size_t i = 0; i < groups->n; i++, spread++) {
        for (size_t k = 0; k < SS_GROUP; k++)
            for (size_t lane = 0; lane < SS_PANEL; lane++)
                spread->numbers[k / 2][lane][k % 2] =
                    (int16_t)(128 * ss_group_nibble(groups, i * SS_GROUP + k, lane));
        memcpy(spread->d, groups->d[0][i], sizeof spread->d);
        memcpy(spread->m, groups->m[i], sizeof spread->m);
    }
}

void ss_tile_times_nibbles_ref(SS_TILE_TIMES_NIBBLES_ARGS) {
    for (; n > 0; n--, tile++, spread++)
        for (size_t t = 0; t < SS_FIVE; t++)
            for (size_t lane = 0; lane < SS_PANEL; lane++) {
                int32_t low = 0, high = 0;
                for (size_t k = 0; k < SS_GROUP; k++) {
                    int w = spread->numbers[k / 2][lane][k % 2] / 128;
                    low += w * tile->low[k / 2][t][k % 2];
                    high += w * tile->high[k / 2][t][k % 2];
                }
                sums[t * SS_PANEL + lane] +=
                    rounded(low, high) * (spread->d[lane] * tile->unit[t]) +
                    spread->m[lane] * tile->sum[t];
            }
}
