#include "unpack.h"

#include "../base/bytes.h"
#include "blocks.h"
#include "kernels.h"
#include "scalar.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "files are little-endian, and numbers are read from them as they are"
#endif

/* Reads 16 bits by memcpy, since compilers merge several such reads into one vector load. */
static uint16_t read_u16(const unsigned char *bytes) {
    uint16_t number;
    memcpy(&number, bytes, sizeof number);
    return number;
}

static void unpack_f32(float *out, const unsigned char *source, size_t n) {
    if (n) memcpy(out, source, n * sizeof *out);
}

static void unpack_bf16(float *restrict out, const unsigned char *restrict source, size_t n) {
    for (size_t i = 0; i < n; i++) out[i] = ss_float_of_bf16(read_u16(source + 2 * i));
}

static void unpack_f64(float *out, const unsigned char *source, size_t n) {
    for (size_t i = 0; i < n; i++) {
        double number;
        memcpy(&number, source + sizeof number * i, sizeof number);
        out[i] = (float)number;
    }
}

static void unpack_u8(float *out, const unsigned char *source, size_t n) {
    for (size_t i = 0; i < n; i++) out[i] = (float)source[i];
}

static void unpack_i8(float *out, const unsigned char *source, size_t n) {
    for (size_t i = 0; i < n; i++) out[i] = (float)(int8_t)source[i];
}

static void unpack_blocks(float *out, const unsigned char *source, ss_dtype type, size_t n) {
    ss_groups g;
    for (size_t first = 0; first * SS_GROUP < n; first += SS_GROUPS) {
        ss_read_groups(&g, type, &source, 1, first, ss_min_size(n / SS_GROUP - first, SS_GROUPS));
        for (size_t k = 0; k < g.n * SS_GROUP; k++) *out++ = ss_group_weight(&g, k, 0);
    }
}

void ss_unpack(float *out, const unsigned char *source, ss_dtype type, size_t n) {
    static void (*const unpackers[SS_DTYPE_N])(float *, const unsigned char *, size_t) = {
        [SS_F32] = unpack_f32, [SS_F16] = ss_unpack_halves, [SS_BF16] = unpack_bf16,
        [SS_F64] = unpack_f64, [SS_U8] = unpack_u8,         [SS_I8] = unpack_i8};
    if (unpackers[type])
        unpackers[type](out, source, n);
    else
        unpack_blocks(out, source, type, n);
}

static uint64_t read_u64(const unsigned char *bytes) {
    uint64_t number;
    memcpy(&number, bytes, sizeof number);
    return number;
}

/* Returns the index of the first number whose exponent is all ones. `bytes` is the size of a
 * number, `high` the mask of its exponent in the top 16 bits. Adding 1 to an all-ones exponent
 * carries into the sign bit and no further, so one test covers a word of two or four numbers, and
 * the loop has no early exit, so that compilers vectorize it. If a test fails, the second loop
 * searches number by number. */
#ifdef __GNUC__
__attribute__((noinline)) /* the call takes less time than reading the memory */
#endif
static size_t
first_with_all_ones(const unsigned char *source, size_t bytes, unsigned high, size_t n) {
    uint64_t places = bytes == 2 ? 0x1000100010001 : 0x1000000010000, carries = 0;
    size_t words = n * bytes / sizeof places, i = 0;
    for (; i < words; i++)
        carries |=
            (read_u64(source + sizeof places * i) & high * places) + (0x8000 - high) * places;
    for (i = carries & 0x8000800080008000 ? 0 : words * sizeof places / bytes; i < n; i++)
        if ((read_u16(source + (i + 1) * bytes - 2) & high) == high) return i;
    return SIZE_MAX;
}

/* Returns the index of the first number of the first block with a value that is not finite among
 * its `halves` F16 values, which begin at byte `at` of the block; SIZE_MAX if there is none. */
static size_t first_block_not_finite(const unsigned char *source, ss_dtype type, size_t at,
                                     size_t halves, size_t n) {
    size_t block = ss_dtype_block(type), bytes = ss_dtype_block_bytes(type);
    for (size_t i = 0; i < n / block; i++)
        if (first_with_all_ones(source + i * bytes + at, 2, 0x7c00, halves) != SIZE_MAX)
            return i * block;
    return SIZE_MAX;
}

/* Returns the index of the first MXFP4 block whose numbers floats do not hold, or whose factor the
 * kernels' floats do not (kernels.h): exponents 3 to 252 are read, and blocks of zeros. */
static size_t first_bad_exponent(const unsigned char *source, size_t n) {
    size_t block = ss_dtype_block(SS_MXFP4), bytes = ss_dtype_block_bytes(SS_MXFP4);
    for (size_t i = 0; i < n / block; i++) {
        const unsigned char *e = source + i * bytes;
        bool is_zero = true;
        for (size_t k = 1; k < bytes; k++) is_zero &= !(e[k] & 0x77);
        if (*e > 252 || (*e < 3 && !is_zero)) return i * block;
    }
    return SIZE_MAX;
}

/* Returns the index of the first double that as F32 is not finite; it may be only too large. */
static size_t first_too_large(const unsigned char *source, size_t n) {
    float number;
    for (size_t i = 0; i < n; i++) {
        unpack_f64(&number, source + sizeof(double) * i, 1);
        if (!isfinite(number)) return i;
    }
    return SIZE_MAX;
}

size_t ss_first_not_finite(const unsigned char *source, ss_dtype type, size_t n) {
    if (type == SS_I8) return SIZE_MAX;
    if (type == SS_F64) return first_too_large(source, n);
    if (ss_dtype_block(type) == 1)
        return first_with_all_ones(source, ss_dtype_bytes(type, 1),
                                   type == SS_F16 ? 0x7c00 : 0x7f80, n);
    if (type == SS_MXFP4) return first_bad_exponent(source, n);
    bool has_one_scale = type == SS_Q8_0 || type == SS_Q4_0 || type == SS_Q5_0 || type == SS_Q6_K ||
                         type == SS_Q3_K || type == SS_IQ4_NL || type == SS_IQ4_XS;
    size_t at = type == SS_Q6_K ? 208 : type == SS_Q3_K ? 108 : type == SS_Q2_K ? 80 : 0;
    return first_block_not_finite(source, type, at, has_one_scale ? 1 : 2, n);
}
