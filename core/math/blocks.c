#include "blocks.h"

#include "joined.h"

#include "scalar.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* The kernels keep an integer of one byte shifted up by 24 bits (kernels.h); the factor undoes
 * that. */
#define INTEGER_FACTOR 0x1p-24f

/* Keeps a function of several readers from being inlined, which only enlarges the binary. */
#ifdef __GNUC__
#define NOINLINE __attribute__((noinline)) static
#else
#define NOINLINE static
#endif

/* Declares a reader of groups of `lanes` rows; blocks[lane] is the first block of a row. */
#define READER(name)                                                                               \
    static void name(ss_groups *g, const unsigned char *const blocks[], size_t lanes)

static void point_to_rows(ss_groups *g, const unsigned char *const blocks[], size_t offset,
                          size_t stride) {
    for (size_t lane = 0; lane < SS_PANEL; lane++)
        g->q[lane] = (const int8_t *)blocks[lane] + offset;
    g->stride = stride;
}

READER(read_i8) {
    (void)lanes;
    point_to_rows(g, blocks, 0, SS_GROUP);
}

/* Writes `factor` times the half floats at byte `at` of each of n blocks of each row to
 * out[n][lane], and 0 in lanes without a row. */
NOINLINE void read_half_floats(float *out, const unsigned char *const blocks[], size_t lanes,
                               size_t at, size_t bytes, float factor, size_t n) {
    unsigned char halves[SS_GROUPS][SS_PANEL][2] = {0};
    for (size_t i = 0; i < n; i++)
        for (size_t lane = 0; lane < lanes; lane++)
            memcpy(halves[i][lane], blocks[lane] + i * bytes + at, 2);
    ss_unpack_halves(out, halves[0][0], n * SS_PANEL);
    ss_scale(out, factor, n * SS_PANEL);
}

NOINLINE void read_factors(ss_groups *g, const unsigned char *const blocks[], size_t lanes,
                           ss_dtype type, float factor, bool has_summands) {
    size_t bytes = ss_dtype_block_bytes(type);
    g->has_summands = has_summands;
    read_half_floats(g->d[0][0], blocks, lanes, 0, bytes, factor, g->n);
    if (has_summands) read_half_floats(g->m[0][0], blocks, lanes, 2, bytes, 1.0f, g->n);
}

/* Q8_0: | d: half | 32 x int8 |    d q */
READER(read_q8_0) {
    read_factors(g, blocks, lanes, SS_Q8_0, INTEGER_FACTOR, false);
    point_to_rows(g, blocks, 2, 34);
}

/* Reads 32 numbers from 16 bytes, numbers 0..15 from the low halves and 16..31 from the high ones,
 * and subtracts `offset` from each. */
static void read_nibbles(int8_t *restrict q, const unsigned char *restrict bytes, int offset) {
    for (size_t i = 0; i < 16; i++) {
        q[i] = (int8_t)((bytes[i] & 15) - offset);
        q[i + 16] = (int8_t)((bytes[i] >> 4) - offset);
    }
}

NOINLINE void read_all_nibbles(ss_groups *g, const unsigned char *const blocks[], size_t lanes,
                               ss_dtype type, size_t at, int offset) {
    size_t bytes = ss_dtype_block_bytes(type);
    for (size_t lane = 0; lane < lanes; lane++)
        for (size_t i = 0; i < g->n; i++)
            read_nibbles(g->unpacked[lane] + i * SS_GROUP, blocks[lane] + i * bytes + at, offset);
}

/* Q4_0: | d: half | 16 bytes of nibbles |    d (q - 8) */
READER(read_q4_0) {
    read_factors(g, blocks, lanes, SS_Q4_0, INTEGER_FACTOR, false);
    read_all_nibbles(g, blocks, lanes, SS_Q4_0, 2, 8);
}

/* Q4_1: | d: half | m: half | 16 bytes of nibbles |    d q + m */
READER(read_q4_1) {
    read_factors(g, blocks, lanes, SS_Q4_1, INTEGER_FACTOR, true);
    read_all_nibbles(g, blocks, lanes, SS_Q4_1, 4, 0);
}

/* Reads numbers of five bits: the low four bits are nibbles at byte `at`, the fifth bit of number i
 * is bit i of the four bytes before them. */
NOINLINE void read_five_bits(ss_groups *g, const unsigned char *const blocks[], size_t lanes,
                             ss_dtype type, size_t at, int offset) {
    size_t bytes = ss_dtype_block_bytes(type);
    read_all_nibbles(g, blocks, lanes, type, at + 4, offset);
    for (size_t lane = 0; lane < lanes; lane++)
        for (size_t i = 0; i < g->n; i++) {
            const unsigned char *fifths = blocks[lane] + i * bytes + at;
            int8_t *q = g->unpacked[lane] + i * SS_GROUP;
            for (size_t k = 0; k < SS_GROUP; k++)
                q[k] = (int8_t)(q[k] + (fifths[k / 8] >> k % 8 & 1) * 16);
        }
}

/* Q5_0: | d: half | fifth bits: 4 bytes | 16 bytes of nibbles |    d (q - 16) */
READER(read_q5_0) {
    read_factors(g, blocks, lanes, SS_Q5_0, INTEGER_FACTOR, false);
    read_five_bits(g, blocks, lanes, SS_Q5_0, 2, 16);
}

/* Q5_1: | d: half | m: half | fifth bits: 4 bytes | 16 bytes of nibbles |    d q + m */
READER(read_q5_1) {
    read_factors(g, blocks, lanes, SS_Q5_1, INTEGER_FACTOR, true);
    read_five_bits(g, blocks, lanes, SS_Q5_1, 4, 0);
}

/* Reads the factors and summands of Q4_K or Q5_K, and the numbers from the low or the high halves
 * of the bytes from `at` on. The fifth bit of number k of group i is bit i of byte fifths + k of
 * the block; with fifths 0 there are no fifth bits. */
NOINLINE void read_block_nibbles(ss_groups *g, const unsigned char *const blocks[], size_t lanes,
                                 size_t at, size_t fifths) {
    float d[SS_PANEL], m[SS_PANEL];
    const unsigned char *scales[SS_PANEL] = {0};
    read_half_floats(d, blocks, lanes, 0, 0, INTEGER_FACTOR, 1);
    read_half_floats(m, blocks, lanes, 2, 0, 1.0f, 1);
    for (size_t lane = 0; lane < lanes; lane++) scales[lane] = blocks[lane] + 4;
    ss_scale_groups(g->d[0], g->m[0], d, m, scales, lanes, g->n);
    g->has_summands = true;
    for (size_t lane = 0; lane < lanes; lane++)
        for (size_t i = 0; i < g->n; i++) {
            const unsigned char *bytes = blocks[lane] + at + i / 2 * 32;
            int8_t *q = g->unpacked[lane] + i * SS_GROUP;
            for (size_t k = 0; k < SS_GROUP; k++) {
                int fifth = fifths ? blocks[lane][fifths + k] >> i & 1 : 0;
                q[k] = (int8_t)((bytes[k] >> i % 2 * 4 & 15) | fifth << 4);
            }
        }
}

/* Q4_K: | d: half | m: half | 12 bytes of scales | 128 bytes |    d s_i q - m m_i for eight groups.
 */
READER(read_q4_k) {
    read_block_nibbles(g, blocks, lanes, 16, 0);
}

/* Q5_K: | d: half | m: half | 12 bytes of scales | 32 bytes of fifth bits | 128 bytes |    as Q4_K
 */
READER(read_q5_k) {
    read_block_nibbles(g, blocks, lanes, 48, 16);
}

/* Q6_K: | 128 bytes: low four bits | 64 bytes: high two bits | 16 x int8 scales | d: half |
 * d s_i (q - 32) for sixteen groups of 16. A block has two halves of 128 numbers, each of four
 * quarters of 32: quarters 0 and 1 are the low nibbles of 64 bytes, 2 and 3 the high ones. */
READER(read_q6_k) {
    float d[SS_PANEL];
    read_half_floats(d, blocks, lanes, 208, 0, INTEGER_FACTOR, 1);
    g->has_half_groups = true;
    for (size_t lane = 0; lane < lanes; lane++)
        for (size_t i = 0; i < g->n; i++) {
            size_t half = i / 4, quarter = i % 4;
            const unsigned char *bytes = blocks[lane] + half * 64 + quarter % 2 * 32;
            const unsigned char *high = blocks[lane] + 128 + half * 32;
            int8_t *q = g->unpacked[lane] + i * SS_GROUP;
            for (size_t j = 0; j < 2; j++)
                g->d[j][i][lane] = d[lane] * (float)(int8_t)blocks[lane][192 + i * 2 + j];
            for (size_t k = 0; k < SS_GROUP; k++) {
                int low = bytes[k] >> quarter / 2 * 4 & 15, top = high[k] >> 2 * quarter & 3;
                q[k] = (int8_t)((low | top << 4) - 32);
            }
        }
}

/* Reads two low bits of every number: quarter j of each half of 128 numbers lies in bits 2 j and
 * 2 j + 1 of the 32 bytes of the half, which begin at byte `at` of the block. */
static void read_low_bits(ss_groups *g, const unsigned char *const blocks[], size_t lanes,
                          size_t at) {
    for (size_t lane = 0; lane < lanes; lane++)
        for (size_t i = 0; i < g->n; i++) {
            const unsigned char *bytes = blocks[lane] + at + i / 4 * 32;
            int8_t *q = g->unpacked[lane] + i * SS_GROUP;
            for (size_t k = 0; k < SS_GROUP; k++) q[k] = (int8_t)(bytes[k] >> i % 4 * 2 & 3);
        }
}

/* Q2_K: | 16 bytes: scales, s_i below m_i | 64 bytes: two bits | d: half | m: half |
 * d s_i q - m m_i for sixteen groups of 16. */
READER(read_q2_k) {
    float d[SS_PANEL], m[SS_PANEL];
    read_half_floats(d, blocks, lanes, 80, 0, INTEGER_FACTOR, 1);
    read_half_floats(m, blocks, lanes, 82, 0, 1.0f, 1);
    g->has_summands = g->has_half_groups = true;
    for (size_t lane = 0; lane < lanes; lane++)
        for (size_t i = 0; i < 2 * g->n; i++) {
            g->d[i % 2][i / 2][lane] = d[lane] * (float)(blocks[lane][i] & 15);
            g->m[i % 2][i / 2][lane] = -(m[lane] * (float)(blocks[lane][i] >> 4));
        }
    read_low_bits(g, blocks, lanes, 16);
}

/* Q3_K: | 32 bytes: third bits | 64 bytes: low two bits | 12 bytes of scales | d: half |
 * d (s_i - 32) (q - 4) for sixteen groups of 16. The third bit of number k of group i of 32 is bit
 * i of byte k. A scale has its low four bits in a nibble of the first eight bytes and its high two
 * bits in the last four bytes. */
READER(read_q3_k) {
    float d[SS_PANEL];
    read_half_floats(d, blocks, lanes, 108, 0, INTEGER_FACTOR, 1);
    g->has_half_groups = true;
    read_low_bits(g, blocks, lanes, 32);
    for (size_t lane = 0; lane < lanes; lane++) {
        const unsigned char *scales = blocks[lane] + 96;
        for (size_t i = 0; i < 2 * g->n; i++) {
            int low = scales[i % 8] >> i / 8 * 4 & 15, high = scales[8 + i % 4] >> i / 4 * 2 & 3;
            g->d[i % 2][i / 2][lane] = d[lane] * (float)((low | high << 4) - 32);
        }
        for (size_t k = 0; k < g->n * SS_GROUP; k++) {
            int third = blocks[lane][k % SS_GROUP] >> k / SS_GROUP & 1;
            g->unpacked[lane][k] = (int8_t)(g->unpacked[lane][k] + (third ? 0 : -4));
        }
    }
}

/* Replaces every number by the entry of a table of 16. */
static void look_up(ss_groups *g, size_t lanes, const int8_t *table) {
    for (size_t lane = 0; lane < lanes; lane++)
        for (size_t k = 0; k < g->n * SS_GROUP; k++)
            g->unpacked[lane][k] = table[g->unpacked[lane][k]];
}

/* The numbers of IQ4_NL and IQ4_XS lie closer together near 0 (nl: not linear). */
static const int8_t nonlinear_numbers[] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                           1,    13,   25,  38,  53,  69,  89,  113};

/* IQ4_NL: | d: half | 16 bytes of nibbles |    d q, q from the table */
READER(read_iq4_nl) {
    read_factors(g, blocks, lanes, SS_IQ4_NL, INTEGER_FACTOR, false);
    read_all_nibbles(g, blocks, lanes, SS_IQ4_NL, 2, 0);
    look_up(g, lanes, nonlinear_numbers);
}

/* IQ4_XS: | d: half | 2 bytes: high two bits of scales | 4 bytes: low four bits | 128 bytes of
 * nibbles |    d (s_i - 32) q for eight groups, q from the table */
READER(read_iq4_xs) {
    float d[SS_PANEL];
    read_half_floats(d, blocks, lanes, 0, 0, INTEGER_FACTOR, 1);
    for (size_t lane = 0; lane < lanes; lane++)
        for (size_t i = 0; i < g->n; i++) {
            const unsigned char *block = blocks[lane];
            int low = block[4 + i / 2] >> i % 2 * 4 & 15, high = block[2 + i / 4] >> i % 4 * 2 & 3;
            g->d[0][i][lane] = d[lane] * (float)((low | high << 4) - 32);
            read_nibbles(g->unpacked[lane] + i * SS_GROUP, block + 8 + i * 16, 0);
        }
    look_up(g, lanes, nonlinear_numbers);
}

/* MXFP4: | e: byte | 16 bytes of nibbles |    2^(e - 128) q: a nibble is a float of four bits, and
 * the table has its double. Blocks whose e is below 3 have zeros only (unpack.h). */
READER(read_mxfp4) {
    static const int8_t numbers[] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
    for (size_t lane = 0; lane < lanes; lane++)
        for (size_t i = 0; i < g->n; i++) {
            uint32_t e = blocks[lane][i * 17];
            g->d[0][i][lane] = ss_float_of_bits((e > 1 ? e - 1 : 1) << 23) * INTEGER_FACTOR;
        }
    read_all_nibbles(g, blocks, lanes, SS_MXFP4, 1, 0);
    look_up(g, lanes, numbers);
}

void ss_read_groups(ss_groups *groups, ss_dtype type, const unsigned char *const rows[],
                    size_t lanes, size_t first, size_t n) {
    static void (*const readers[SS_DTYPE_N])(ss_groups *, const unsigned char *const[], size_t) = {
        [SS_I8] = read_i8,         [SS_Q8_0] = read_q8_0,   [SS_Q4_0] = read_q4_0,
        [SS_Q4_1] = read_q4_1,     [SS_Q5_0] = read_q5_0,   [SS_Q5_1] = read_q5_1,
        [SS_Q4_K] = read_q4_k,     [SS_Q5_K] = read_q5_k,   [SS_Q6_K] = read_q6_k,
        [SS_Q2_K] = read_q2_k,     [SS_Q3_K] = read_q3_k,   [SS_IQ4_NL] = read_iq4_nl,
        [SS_IQ4_XS] = read_iq4_xs, [SS_MXFP4] = read_mxfp4,
    };
    const unsigned char *blocks[SS_PANEL];
    size_t offset = ss_dtype_bytes(type, first * SS_GROUP);
    for (size_t lane = 0; lane < SS_PANEL; lane++) {
        /* A lane without a row reads the numbers of the first row; its factors are 0. */
        blocks[lane] = rows[lane < lanes ? lane : 0] + offset;
        groups->q[lane] = groups->unpacked[lane];
    }
    groups->stride = SS_GROUP;
    groups->has_summands = groups->has_half_groups = false;
    groups->n = n;
    readers[type](groups, blocks, lanes);
}
