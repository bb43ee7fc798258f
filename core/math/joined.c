#include "joined.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

void ss_scale_groups(float d[][SS_PANEL], float m[][SS_PANEL], const float block_d[],
                     const float block_m[], const unsigned char *const scales[], size_t lanes,
                     size_t n) {
    for (size_t lane = 0; lane < lanes; lane++)
        for (size_t i = 0; i < n; i++) {
            const unsigned char *s = scales[lane] + i;
            int scale = i < 4 ? s[0] & 63 : (s[4] & 15) | (s[-4] >> 6) << 4;
            int minimum = i < 4 ? s[4] & 63 : s[4] >> 4 | (s[0] >> 6) << 4;
            d[i][lane] = block_d[lane] * (float)scale;
            m[i][lane] = -(block_m[lane] * (float)minimum);
        }
}

/* Returns how many pairs of scale bytes a block starts with for each of its groups: one for d and,
 * in Q4_1, one for m. */
static size_t factor_pairs_of(ss_dtype type) {
    return type == SS_Q4_1 ? 2 : 1;
}

static uint32_t read_u32(const unsigned char *bytes) {
    uint32_t word;
    memcpy(&word, bytes, sizeof word);
    return word;
}

/* Joins the integers of group i of eight blocks. In one-group blocks the low halves of 16 bytes
 * are inputs 0..15, the high halves 16..31; in Q4_K the low halves of 32 bytes are one group and
 * the high halves the next. */
static void join_nibbles(unsigned char *out, const unsigned char *const integers[], ss_dtype type,
                         size_t i) {
    bool is_k = type == SS_Q4_K;
    for (size_t lane = 0; lane < SS_PANEL / 2; lane++)
        for (size_t k = 0; k < SS_GROUP; k += 4) {
            size_t at = is_k ? i / 2 * 32 + k : k % 16;
            int shift = (is_k ? i % 2 : k / 16) ? 4 : 0;
            uint32_t low = read_u32(integers[lane] + at) >> shift & 0x0f0f0f0f;
            uint32_t high = read_u32(integers[lane + 4] + at) >> shift & 0x0f0f0f0f;
            uint32_t word = low | high << 4;
            uint32_t swapped = (word ^ word >> 8) & 0xff00; /* swaps the two bytes in the middle */
            word ^= swapped | swapped << 8;
            memcpy(out + k * 4 + lane * 4, &word, sizeof word);
        }
}

static void join_bytes(unsigned char *out, const unsigned char *const integers[]) {
    for (size_t lane = 0; lane < SS_PANEL; lane++)
        for (size_t k = 0; k < SS_GROUP; k += 2)
            memcpy(out + k * SS_PANEL + 2 * lane, integers[lane] + k, 2);
}

void ss_join_blocks(unsigned char *out, const void *const rows[], size_t lanes, ss_dtype type,
                    size_t n) {
    static const unsigned char empty_block[144];
    size_t bytes = ss_dtype_block_bytes(type), groups = ss_dtype_block(type) / SS_GROUP;
    size_t pairs = factor_pairs_of(type), stride = SS_PANEL * bytes / groups;
    for (size_t i = 0; i < n * groups; i++, out += stride) {
        const unsigned char *integers[SS_PANEL];
        for (size_t lane = 0; lane < SS_PANEL; lane++) {
            const unsigned char *row = rows[lane < lanes ? lane : 0];
            const unsigned char *block = lane < lanes ? row + i / groups * bytes : empty_block;
            for (size_t j = 0; j < pairs; j++)
                memcpy(out + 2 * (j * SS_PANEL + lane), block + 2 * (i % groups * pairs + j), 2);
            integers[lane] = block + 2 * pairs * groups;
        }
        if (type == SS_Q8_0)
            join_bytes(out + 2 * pairs * SS_PANEL, integers);
        else
            join_nibbles(out + 2 * pairs * SS_PANEL, integers, type, i % groups);
    }
}

/* Reads eight groups of Q4_K. The block's d, m and twelve bytes of scales were distributed over
 * the starts of its groups, two bytes each. */
static void read_scaled_factors(float d[][SS_PANEL], float m[][SS_PANEL],
                                const unsigned char *groups, size_t stride) {
    float block_d[SS_PANEL], block_m[SS_PANEL];
    unsigned char scales[SS_PANEL][12];
    const unsigned char *scale_rows[SS_PANEL];
    ss_unpack_halves(block_d, groups, SS_PANEL);
    ss_unpack_halves(block_m, groups + stride, SS_PANEL);
    for (size_t lane = 0; lane < SS_PANEL; lane++) {
        scale_rows[lane] = scales[lane];
        for (size_t j = 0; j < 6; j++)
            memcpy(scales[lane] + 2 * j, groups + (2 + j) * stride + 2 * lane, 2);
    }
    ss_scale_groups(d, m, block_d, block_m, scale_rows, SS_PANEL, SS_GROUPS);
}

void ss_read_fixed_groups(ss_fixed_groups *groups, ss_dtype type, const unsigned char *joined,
                          size_t n) {
    static const ss_fixed_kind kinds[SS_DTYPE_N] = {
        [SS_Q8_0] = SS_BYTES,
        [SS_Q4_0] = SS_NIBBLES_MINUS_8,
        [SS_Q4_1] = SS_NIBBLES_PLUS_M,
        [SS_Q4_K] = SS_NIBBLES_SCALED,
    };
    size_t factor_bytes = 2 * SS_PANEL * factor_pairs_of(type);
    groups->n = n;
    groups->kind = kinds[type];
    groups->halves = joined;
    groups->integers = joined + factor_bytes;
    groups->stride = factor_bytes + (type == SS_Q8_0 ? 256 : 128);
    if (type == SS_Q4_K) read_scaled_factors(groups->d, groups->m, joined, groups->stride);
}
