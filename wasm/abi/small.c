/*
 * C library functions, written for size: the core calls them on names, white space and lists of
 * tensors. tests/native/test_small.c compares them with the C library's.
 */
#include <stdlib.h>
#include <string.h>

size_t strlen(const char *text) {
    const char *end = text;
    while (*end) end++;
    return (size_t)(end - text);
}

void *memchr(const void *bytes, int byte, size_t n) {
    const unsigned char *at = bytes;
    for (; n > 0; n--, at++)
        if (*at == (unsigned char)byte) return (void *)(size_t)at;
    return NULL;
}

char *strchr(const char *text, int byte) {
    return memchr(text, byte, strlen(text) + 1);
}

static void swap(char *a, char *b, size_t bytes) {
    for (; bytes > 0; bytes--, a++, b++) {
        char saved = *a;
        *a = *b;
        *b = saved;
    }
}

/* Heapsort. Items [root, end) are a heap, and the items from `end` on are sorted. */
void qsort(void *items, size_t n, size_t bytes, int (*compare)(const void *, const void *)) {
    char *first = items;
    for (size_t root = n / 2, end = n; end > 1;) {
        if (root > 0)
            root--;
        else
            swap(first, first + --end * bytes, bytes);
        for (size_t node = root, child; (child = 2 * node + 1) < end; node = child) {
            if (child + 1 < end && compare(first + child * bytes, first + (child + 1) * bytes) < 0)
                child++;
            if (compare(first + node * bytes, first + child * bytes) >= 0) break;
            swap(first + node * bytes, first + child * bytes, bytes);
        }
    }
}
