#include "blocks.h"

#include "scalar.h"

#include <stdint.h>

static float read_half(const unsigned char *bytes) {
    return ss_float_of_f16((uint16_t)(bytes[0] | bytes[1] << 8));
}

SS_BLOCKS(i8) {
    for (size_t i = 0; i < n; i++) out[i] = (float)(int8_t)source[i];
}

/* | d: half | 32 x int8 |    d q */
SS_BLOCKS(q8_0) {
    for (; n > 0; n -= 32, out += 32, source += 34) {
        float d = read_half(source);
        for (size_t i = 0; i < 32; i++) out[i] = (float)(int8_t)source[2 + i] * d;
    }
}

/* | d: half | 16 bytes: low halves are numbers 0..15, high halves 16..31 |    d (q - 8) */
SS_BLOCKS(q4_0) {
    for (; n > 0; n -= 32, out += 32, source += 18) {
        float d = read_half(source);
        for (size_t i = 0; i < 16; i++) {
            out[i] = (float)((source[2 + i] & 15) - 8) * d;
            out[i + 16] = (float)((source[2 + i] >> 4) - 8) * d;
        }
    }
}

/* | d: half | m: half | 16 bytes as in Q4_0 |    d q + m */
SS_BLOCKS(q4_1) {
    for (; n > 0; n -= 32, out += 32, source += 20) {
        float d = read_half(source), m = read_half(source + 2);
        for (size_t i = 0; i < 16; i++) {
            out[i] = (float)(source[4 + i] & 15) * d + m;
            out[i + 16] = (float)(source[4 + i] >> 4) * d + m;
        }
    }
}

/* Number i of 32 numbers of five bits: four in the byte, the fifth is bit i of high. */
static int five_bits(const unsigned char *bytes, const unsigned char *high, size_t i) {
    int four = i < 16 ? bytes[i] & 15 : bytes[i - 16] >> 4;
    return four | (high[i / 8] >> (i % 8) & 1) << 4;
}

/* | d: half | fifth bits: 4 bytes | 16 bytes as in Q4_0 |    d (q - 16) */
SS_BLOCKS(q5_0) {
    for (; n > 0; n -= 32, out += 32, source += 22) {
        float d = read_half(source);
        for (size_t i = 0; i < 32; i++)
            out[i] = (float)(five_bits(source + 6, source + 2, i) - 16) * d;
    }
}

/* | d: half | m: half | fifth bits: 4 bytes | 16 bytes as in Q4_0 |    d q + m */
SS_BLOCKS(q5_1) {
    for (; n > 0; n -= 32, out += 32, source += 24) {
        float d = read_half(source), m = read_half(source + 2);
        for (size_t i = 0; i < 32; i++)
            out[i] = (float)five_bits(source + 8, source + 4, i) * d + m;
    }
}

/*
 * Eight scales and eight minima of six bits in twelve bytes: the first four of each have a byte's
 * low six bits; the others four bits of a byte and the two that the first four left over.
 */
static void six_bits(const unsigned char *packed, size_t i, float *scale, float *least) {
    const unsigned char *s = packed;
    *scale = (float)(i < 4 ? s[i] & 63 : (s[i + 4] & 15) | (s[i - 4] >> 6) << 4);
    *least = (float)(i < 4 ? s[i + 4] & 63 : s[i + 4] >> 4 | (s[i] >> 6) << 4);
}

/* | d: half | m: half | 12 bytes of scales | 128 bytes |    d s_i q - m m_i for eight groups of 32;
 * each 32 bytes hold a group in their low and the next group in their high halves. */
SS_BLOCKS(q4_k) {
    for (; n > 0; n -= 256, source += 144)
        for (size_t group = 0; group < 8; group++, out += 32) {
            float scale, least;
            six_bits(source + 4, group, &scale, &least);
            float d = read_half(source) * scale, m = read_half(source + 2) * least;
            const unsigned char *bytes = source + 16 + group / 2 * 32;
            int shift = group % 2 ? 4 : 0;
            for (size_t i = 0; i < 32; i++) out[i] = d * (float)(bytes[i] >> shift & 15) - m;
        }
}

/* | d: half | m: half | 12 bytes of scales | 32 bytes of fifth bits | 128 bytes |    as Q4_K; the
 * fifth bit of number i of a group is bit `group` of byte i. */
SS_BLOCKS(q5_k) {
    for (; n > 0; n -= 256, source += 176)
        for (size_t group = 0; group < 8; group++, out += 32) {
            float scale, least;
            six_bits(source + 4, group, &scale, &least);
            float d = read_half(source) * scale, m = read_half(source + 2) * least;
            const unsigned char *high = source + 16, *bytes = source + 48 + group / 2 * 32;
            int shift = group % 2 ? 4 : 0;
            for (size_t i = 0; i < 32; i++) {
                int q = (bytes[i] >> shift & 15) | (high[i] >> group & 1) << 4;
                out[i] = d * (float)q - m;
            }
        }
}

/* | 128 bytes: low four bits | 64 bytes: high two bits | 16 x int8 scales | d: half |
 * d s_i (q - 32) for sixteen groups of 16. Numbers go in halves of 128 and quarters of 32 of them:
 * quarters 0, 1 have the low halves of 64 bytes, 2, 3 the high ones. */
SS_BLOCKS(q6_k) {
    for (; n > 0; n -= 256, source += 210) {
        float d = read_half(source + 208);
        for (size_t quarter = 0; quarter < 8; quarter++, out += 32) {
            size_t half = quarter / 4, place = quarter % 4;
            const unsigned char *bytes = source + half * 64 + place % 2 * 32;
            const unsigned char *high = source + 128 + half * 32;
            const unsigned char *scales = source + 192 + quarter * 2;
            int shift = place / 2 ? 4 : 0, high_shift = 2 * (int)place;
            float d0 = d * (float)(int8_t)scales[0], d1 = d * (float)(int8_t)scales[1];
            for (size_t i = 0; i < 32; i++) {
                int q = (bytes[i] >> shift & 15) | (high[i] >> high_shift & 3) << 4;
                out[i] = (i < 16 ? d0 : d1) * (float)(q - 32);
            }
        }
    }
}
