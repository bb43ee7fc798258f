/* The binary's string and sort functions against the C library's. */
#include "check.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

size_t ss_strlen(const char *text);
void *ss_memchr(const void *bytes, int wanted, size_t n);
char *ss_strchr(const char *text, int wanted);
void ss_qsort(void *items, size_t n, size_t bytes, int (*order)(const void *, const void *));

typedef struct item {
    uint32_t key;
    char rest[7]; /* makes the size no power of two */
} item;

static int compare_keys(const void *a, const void *b) {
    uint32_t x = ((const item *)a)->key, y = ((const item *)b)->key;
    return x < y ? -1 : x > y;
}

static void check_sort(size_t n, uint32_t keys) {
    item actual[300], expected[300];
    memset(actual, 0, sizeof actual);
    uint32_t state = (uint32_t)n * 7919 + keys;
    for (size_t i = 0; i < n; i++) {
        state = state * 1664525 + 1013904223;
        actual[i].key = (state >> 8) % keys;
        /* Equal items are identical, since their order is unspecified. */
        actual[i].rest[6] = (char)actual[i].key;
    }
    memcpy(expected, actual, sizeof actual);
    ss_qsort(actual, n, sizeof *actual, compare_keys);
    qsort(expected, n, sizeof *expected, compare_keys);
    CHECK(!memcmp(actual, expected, n * sizeof *actual));
}

int main(void) {
    CASE("strlen, strchr and memchr give the results of the C library");
    static const char *const texts[] = {"", "a", "ab", "abcabc", " \n\r\t", "\xff\x80"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const char *text = texts[i];
        size_t n = strlen(text);
        CHECK_INT(ss_strlen(text), n);
        for (int c = -1; c < 256; c++) {
            CHECK(ss_strchr(text, c) == strchr(text, c));
            for (size_t n_max = 0; n_max <= n; n_max++)
                CHECK(ss_memchr(text, c, n_max) == memchr(text, c, n_max));
        }
    }
    CASE("qsort sorts lists of any length, with equal items");
    static const uint32_t keys[] = {1, 2, 5, 1u << 20};
    for (size_t n = 0; n < 300; n++)
        for (size_t i = 0; i < 4; i++) check_sort(n, keys[i]);
    return check_done();
}
