#include "blocks.h"

#include "scalar.h"

#include <stdint.h>

/* Eight bytes at a time, each in its place: no sum below runs over into the next. */
#define EACH(byte) (0x0101010101010101u * (uint64_t)(byte))

static uint64_t read8(const unsigned char *bytes) {
    uint64_t eight;
    memcpy(&eight, bytes, sizeof eight);
    return eight;
}

static void write8(int8_t *q, uint64_t eight) {
    memcpy(q, &eight, sizeof eight);
}

/* Each byte less `by`; they are below 128, and signed afterwards. */
static uint64_t less(uint64_t eight, unsigned by) {
    return (eight + EACH(128 - by)) ^ EACH(128);
}

/* The halves at byte `at` of each row's block. */
static void read_halves(float out[SS_PANEL], const unsigned char *const blocks[], size_t lanes,
                        size_t at) {
    uint64_t halves[2] = {
        0}; /* put together in registers: pieces in memory are slow to read as one */
    for (size_t lane = 0; lane < lanes; lane++) {
        const unsigned char *half = blocks[lane] + at;
        halves[lane / 4] |= (uint64_t)(half[0] | half[1] << 8) << lane % 4 * 16;
    }
    ss_halves(out, (const unsigned char *)halves, SS_PANEL);
}

/* blocks[lane]: the lane's block, in which the group is number `part`. */
#define READER(name)                                                                               \
    static void name(ss_groups *g, const unsigned char *const blocks[], size_t lanes, size_t part)

READER(read_i8) {
    (void)part;
    for (size_t lane = 0; lane < lanes; lane++) g->q[lane] = (const int8_t *)blocks[lane];
}

/* One factor for the whole group. */
static void one_factor(ss_groups *g, const unsigned char *const blocks[], size_t lanes) {
    read_halves(g->d[0], blocks, lanes, 0);
    memcpy(g->d[1], g->d[0], sizeof g->d[1]);
}

/* | d: half | 32 x int8 |    d q */
READER(read_q8_0) {
    (void)part;
    one_factor(g, blocks, lanes);
    for (size_t lane = 0; lane < lanes; lane++) g->q[lane] = (const int8_t *)blocks[lane] + 2;
}

/* 16 bytes: low halves are numbers 0..15, high halves 16..31; each less `by`. */
static void read_nibbles(int8_t *q, const unsigned char *bytes, unsigned by) {
    for (size_t i = 0; i < 16; i += 8) {
        uint64_t eight = read8(bytes + i);
        write8(q + i, less(eight & EACH(15), by));
        write8(q + i + 16, less(eight >> 4 & EACH(15), by));
    }
}

/* | d: half | 16 bytes of nibbles |    d (q - 8) */
READER(read_q4_0) {
    (void)part;
    one_factor(g, blocks, lanes);
    for (size_t lane = 0; lane < lanes; lane++)
        read_nibbles(g->unpacked[lane], blocks[lane] + 2, 8);
}

/* | d: half | m: half | 16 bytes of nibbles |    d q + m */
READER(read_q4_1) {
    (void)part;
    one_factor(g, blocks, lanes);
    read_halves(g->m, blocks, lanes, 2);
    for (size_t lane = 0; lane < lanes; lane++)
        read_nibbles(g->unpacked[lane], blocks[lane] + 4, 0);
}

/* Byte i is 16 where bit i of `bits` is 1, else 0: a byte that is not 0 carries into its top. */
static uint64_t fifth_bits(unsigned char bits) {
    uint64_t own = EACH(bits) & 0x8040201008040201u;
    return (own + EACH(127)) >> 3 & EACH(16);
}

/* Numbers of five bits: four as nibbles, the fifth is bit i of `high`; each less `by`. */
static void read_fives(int8_t *q, const unsigned char *bytes, const unsigned char *high,
                       unsigned by) {
    for (size_t i = 0; i < 16; i += 8) {
        uint64_t eight = read8(bytes + i);
        write8(q + i, less((eight & EACH(15)) | fifth_bits(high[i / 8]), by));
        write8(q + i + 16, less((eight >> 4 & EACH(15)) | fifth_bits(high[2 + i / 8]), by));
    }
}

/* | d: half | fifth bits: 4 bytes | 16 bytes of nibbles |    d (q - 16) */
READER(read_q5_0) {
    (void)part;
    one_factor(g, blocks, lanes);
    for (size_t lane = 0; lane < lanes; lane++)
        read_fives(g->unpacked[lane], blocks[lane] + 6, blocks[lane] + 2, 16);
}

/* | d: half | m: half | fifth bits: 4 bytes | 16 bytes of nibbles |    d q + m */
READER(read_q5_1) {
    (void)part;
    one_factor(g, blocks, lanes);
    read_halves(g->m, blocks, lanes, 2);
    for (size_t lane = 0; lane < lanes; lane++)
        read_fives(g->unpacked[lane], blocks[lane] + 8, blocks[lane] + 4, 0);
}

/*
 * Eight scales and eight minima of six bits in twelve bytes: the first four of each have a byte's
 * low six bits; the others four bits of a byte and the two that the first four left over. They
 * multiply d and m, of which m is subtracted.
 */
static void scale_groups(ss_groups *g, const unsigned char *const blocks[], size_t lanes,
                         size_t part) {
    read_halves(g->d[0], blocks, lanes, 0);
    read_halves(g->m, blocks, lanes, 2);
    for (size_t lane = 0; lane < lanes; lane++) {
        const unsigned char *s = blocks[lane] + 4 + part;
        int scale = part < 4 ? s[0] & 63 : (s[4] & 15) | (s[-4] >> 6) << 4;
        int least = part < 4 ? s[4] & 63 : s[4] >> 4 | (s[0] >> 6) << 4;
        g->d[0][lane] = g->d[1][lane] = g->d[0][lane] * (float)scale;
        g->m[lane] = -(g->m[lane] * (float)least);
    }
}

/* | d: half | m: half | 12 bytes of scales | 128 bytes |    d s_i q - m m_i for eight groups of 32;
 * each 32 bytes hold a group in their low and the next group in their high halves. */
READER(read_q4_k) {
    scale_groups(g, blocks, lanes, part);
    for (size_t lane = 0; lane < lanes; lane++)
        for (size_t i = 0; i < SS_GROUP; i += 8) {
            uint64_t eight = read8(blocks[lane] + 16 + part / 2 * 32 + i);
            write8(g->unpacked[lane] + i, eight >> part % 2 * 4 & EACH(15));
        }
}

/* | d: half | m: half | 12 bytes of scales | 32 bytes of fifth bits | 128 bytes |    as Q4_K; the
 * fifth bit of number i of a group is bit `group` of byte i. */
READER(read_q5_k) {
    scale_groups(g, blocks, lanes, part);
    for (size_t lane = 0; lane < lanes; lane++)
        for (size_t i = 0; i < SS_GROUP; i += 8) {
            uint64_t eight = read8(blocks[lane] + 48 + part / 2 * 32 + i);
            uint64_t fifth = read8(blocks[lane] + 16 + i) >> part & EACH(1);
            write8(g->unpacked[lane] + i, (eight >> part % 2 * 4 & EACH(15)) | fifth << 4);
        }
}

/* | 128 bytes: low four bits | 64 bytes: high two bits | 16 x int8 scales | d: half |
 * d s_i (q - 32) for sixteen groups of 16. Numbers go in halves of 128 and quarters of 32 of them:
 * quarters 0, 1 have the low halves of 64 bytes, 2, 3 the high ones. */
READER(read_q6_k) {
    size_t half = part / 4, place = part % 4;
    float d[SS_PANEL];
    read_halves(d, blocks, lanes, 208);
    for (size_t lane = 0; lane < lanes; lane++) {
        const unsigned char *bytes = blocks[lane] + half * 64 + place % 2 * 32;
        const unsigned char *high = blocks[lane] + 128 + half * 32;
        for (size_t j = 0; j < 2; j++)
            g->d[j][lane] = d[lane] * (float)(int8_t)blocks[lane][192 + part * 2 + j];
        for (size_t i = 0; i < SS_GROUP; i += 8) {
            uint64_t low = read8(bytes + i) >> place / 2 * 4 & EACH(15);
            uint64_t top = read8(high + i) >> 2 * place & EACH(3);
            write8(g->unpacked[lane] + i, less(low | top << 4, 32));
        }
    }
}

void ss_read_groups(ss_groups *groups, ss_dtype type, const unsigned char *const rows[],
                    size_t lanes, size_t group) {
    static void (*const readers[SS_DTYPE_N])(ss_groups *, const unsigned char *const[], size_t,
                                             size_t) = {
        [SS_I8] = read_i8,     [SS_Q8_0] = read_q8_0, [SS_Q4_0] = read_q4_0,
        [SS_Q4_1] = read_q4_1, [SS_Q5_0] = read_q5_0, [SS_Q5_1] = read_q5_1,
        [SS_Q4_K] = read_q4_k, [SS_Q5_K] = read_q5_k, [SS_Q6_K] = read_q6_k,
    };
    const unsigned char *blocks[SS_PANEL];
    size_t parts = ss_dtype_block(type) > SS_GROUP ? 8 : 1; /* groups of a block */
    size_t bytes = type == SS_I8 ? SS_GROUP : ss_dtype_block_bytes(type);
    for (size_t lane = 0; lane < lanes; lane++) blocks[lane] = rows[lane] + group / parts * bytes;
    readers[type](groups, blocks, lanes, group % parts);
}
