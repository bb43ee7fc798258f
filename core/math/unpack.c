#include "unpack.h"

#include "scalar.h"

#include <stdint.h>
#include <string.h>

static uint16_t read_u16(const unsigned char *bytes) {
    return (uint16_t)(bytes[0] | bytes[1] << 8);
}

static uint32_t read_u32(const unsigned char *bytes) {
    return (uint32_t)read_u16(bytes) | (uint32_t)read_u16(bytes + 2) << 16;
}

static void unpack_f32(float *out, const unsigned char *source, size_t n) {
    for (size_t i = 0; i < n; i++) out[i] = ss_float_of_bits(read_u32(source + 4 * i));
}

static void unpack_f16(float *out, const unsigned char *source, size_t n) {
    for (size_t i = 0; i < n; i++) out[i] = ss_float_of_f16(read_u16(source + 2 * i));
}

static void unpack_bf16(float *out, const unsigned char *source, size_t n) {
    for (size_t i = 0; i < n; i++) out[i] = ss_float_of_bf16(read_u16(source + 2 * i));
}

typedef void unpack_row(float *out, const unsigned char *source, size_t n);

static unpack_row *const rows[SS_DTYPE_N] = {
    [SS_F32] = unpack_f32,
    [SS_F16] = unpack_f16,
    [SS_BF16] = unpack_bf16,
};

void ss_unpack(float *out, const unsigned char *source, ss_dtype type, size_t n) {
    rows[type](out, source, n);
}

/* Numbers whose exponent is all ones; bytes are those of one number, high the exponent's mask. */
static size_t first_with(const unsigned char *source, size_t bytes, unsigned high, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const unsigned char *top = source + (i + 1) * bytes - 2;
        if ((read_u16(top) & high) == high) return i;
    }
    return SIZE_MAX;
}

size_t ss_first_not_finite(const unsigned char *source, ss_dtype type, size_t n) {
    switch (type) {
    case SS_F32: return first_with(source, 4, 0x7f80, n);
    case SS_F16: return first_with(source, 2, 0x7c00, n);
    case SS_BF16: return first_with(source, 2, 0x7f80, n);
    default: return SIZE_MAX;
    }
}
