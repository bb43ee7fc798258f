/* Bytes: a range somebody else owns, and sizes that are checked before they are trusted. */
#ifndef SS_BASE_BYTES_H
#define SS_BASE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ss_bytes {
    const unsigned char *data;
    size_t n;
} ss_bytes;

/* *out = a * b; false, with *out untouched, if it does not fit. */
static inline bool ss_mul_size(size_t *out, size_t a, size_t b) {
    if (b && a > SIZE_MAX / b) return false;
    *out = a * b;
    return true;
}

/* *out = a + b; false, with *out untouched, if it does not fit. */
static inline bool ss_add_size(size_t *out, size_t a, size_t b) {
    if (a > SIZE_MAX - b) return false;
    *out = a + b;
    return true;
}

/* Reads a little-endian u64 at offset; false if the range is too short. */
static inline bool ss_read_u64(uint64_t *out, ss_bytes bytes, size_t offset) {
    if (bytes.n < 8 || offset > bytes.n - 8) return false;
    uint64_t value = 0;
    for (int i = 7; i >= 0; i--) value = value << 8 | bytes.data[offset + (size_t)i];
    *out = value;
    return true;
}

#endif
