#include "unpack.h"

#include "blocks.h"
#include "kernels.h"
#include "scalar.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "files are little-endian, and numbers are read from them as they stand"
#endif

/* A compiler makes one vector load of several of these, which it does not of bytes put together. */
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

typedef void unpack_row(float *out, const unsigned char *source, size_t n);

static unpack_row *const unpackers[SS_DTYPE_N] = {
    [SS_F32] = unpack_f32,      [SS_F16] = ss_halves,       [SS_BF16] = unpack_bf16,
    [SS_I8] = ss_unpack_i8,     [SS_Q8_0] = ss_unpack_q8_0, [SS_Q4_0] = ss_unpack_q4_0,
    [SS_Q4_1] = ss_unpack_q4_1, [SS_Q5_0] = ss_unpack_q5_0, [SS_Q5_1] = ss_unpack_q5_1,
    [SS_Q4_K] = ss_unpack_q4_k, [SS_Q5_K] = ss_unpack_q5_k, [SS_Q6_K] = ss_unpack_q6_k,
};

void ss_unpack(float *out, const unsigned char *source, ss_dtype type, size_t n) {
    unpackers[type](out, source, n);
}

/* Numbers whose exponent is all ones; bytes are those of one number, high the exponent's mask. */
#ifdef __GNUC__
__attribute__((noinline)) /* the memory is slower than the call */
#endif
static size_t
first_with(const unsigned char *source, size_t bytes, unsigned high, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const unsigned char *top = source + (i + 1) * bytes - 2;
        if ((read_u16(top) & high) == high) return i;
    }
    return SIZE_MAX;
}

/* Blocks, one or two of whose numbers are halves at that byte. */
static size_t first_block_with(const unsigned char *source, ss_dtype type, size_t at, size_t halves,
                               size_t n) {
    size_t block = ss_dtype_block(type), bytes = ss_dtype_block_bytes(type);
    for (size_t i = 0; i < n / block; i++)
        if (first_with(source + i * bytes + at, 2, 0x7c00, halves) != SIZE_MAX) return i * block;
    return SIZE_MAX;
}

size_t ss_first_not_finite(const unsigned char *source, ss_dtype type, size_t n) {
    if (type == SS_I8) return SIZE_MAX;
    if (ss_dtype_block(type) == 1)
        return first_with(source, ss_dtype_bytes(type, 1), type == SS_F16 ? 0x7c00 : 0x7f80, n);
    bool one = type == SS_Q8_0 || type == SS_Q4_0 || type == SS_Q5_0 || type == SS_Q6_K;
    return first_block_with(source, type, type == SS_Q6_K ? 208 : 0, one ? 1 : 2, n);
}
