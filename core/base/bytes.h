/* Bytes: a range that the caller owns, and arithmetic on sizes that detects overflow. */
#ifndef SS_BASE_BYTES_H
#define SS_BASE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct ss_bytes {
    const unsigned char *data;
    size_t n;
} ss_bytes;

static inline bool ss_bytes_equal(ss_bytes bytes, const char *word) {
    return bytes.n == strlen(word) && (!bytes.n || !memcmp(bytes.data, word, bytes.n));
}

/* Returns true if the word is one of a list, in which each word ends with a NUL. */
static inline bool ss_is_listed(const char *word, const char *list) {
    while (*list && strcmp(word, list)) list += strlen(list) + 1;
    return *list != 0;
}

static inline size_t ss_min_size(size_t a, size_t b) {
    return a < b ? a : b;
}

static inline size_t ss_max_size(size_t a, size_t b) {
    return a > b ? a : b;
}

/* Computes *out = a * b; returns false, with *out untouched, on overflow. */
static inline bool ss_mul_size(size_t *out, size_t a, size_t b) {
    if (b && a > SIZE_MAX / b) return false;
    *out = a * b;
    return true;
}

/* Computes *out = a + b; returns false, with *out untouched, on overflow. */
static inline bool ss_add_size(size_t *out, size_t a, size_t b) {
    if (a > SIZE_MAX - b) return false;
    *out = a + b;
    return true;
}

/* Reads a little-endian number of 1 to 8 bytes at offset; returns false beyond the end. */
static inline bool ss_read_uint(uint64_t *out, ss_bytes bytes, size_t offset, size_t width) {
    if (bytes.n < width || offset > bytes.n - width) return false;
    uint64_t value = 0;
    for (size_t i = width; i-- > 0;) value = value << 8 | bytes.data[offset + i];
    *out = value;
    return true;
}

static inline bool ss_read_u64(uint64_t *out, ss_bytes bytes, size_t offset) {
    return ss_read_uint(out, bytes, offset, 8);
}

#endif
