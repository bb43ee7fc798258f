/*
 * Arena: pieces of one block that the caller owns. The core never calls malloc.
 *
 * An arena without a block only measures: ss_arena_take returns NULL and adds up the sizes. One
 * function thus both computes the size and lays out the memory, and the two cannot disagree.
 */
#ifndef SS_BASE_ARENA_H
#define SS_BASE_ARENA_H

#include "bytes.h"

/* Every piece starts on a multiple of this many bytes. */
#define SS_ARENA_ALIGN 64

/* The address sanitizer knows only the block. A build with the sanitizer leaves a poisoned gap
 * after each piece, so that reads past the end of a piece are detected. */
#ifndef SS_ARENA_GAP
#define SS_ARENA_GAP 0
#endif

/* Upper bound of what a piece takes for alignment and gap, in addition to its own bytes. */
#define SS_ARENA_OVERHEAD (SS_ARENA_ALIGN + SS_ARENA_GAP)

typedef struct ss_arena {
    unsigned char *block; /* NULL while measuring */
    size_t bytes;
    size_t used; /* bytes used so far, including padding */
    bool full;   /* ss_arena_take found no room; stays set */
} ss_arena;

/* Returns an arena on a block, which must be aligned to SS_ARENA_ALIGN. */
ss_arena ss_arena_on(void *block, size_t bytes);

/* Returns an arena that only counts; it becomes full if the count overflows size_t. */
ss_arena ss_arena_measure(void);

/* Takes count items of size bytes each, uninitialized; returns NULL when measuring or full. */
void *ss_arena_take(ss_arena *arena, size_t count, size_t size);

/* Takes [rows][width] items of size bytes each, as ss_arena_take does. */
static inline void *ss_arena_rows(ss_arena *arena, size_t rows, size_t width, size_t size) {
    size_t count;
    return ss_arena_take(arena, ss_mul_size(&count, rows, width) ? count : SIZE_MAX, size);
}

static inline float *ss_arena_floats(ss_arena *arena, size_t rows, size_t width) {
    return ss_arena_rows(arena, rows, width, sizeof(float));
}

#endif
