/*
 * Arena: pieces of one block that the caller owns. The core never calls malloc.
 *
 * An arena without a block measures: ss_arena_take gives NULL but counts, so that the function
 * which lays a thing out also measures it, and the two can never disagree.
 */
#ifndef SS_BASE_ARENA_H
#define SS_BASE_ARENA_H

#include <stdbool.h>
#include <stddef.h>

/* Every piece starts on a multiple of this many bytes. */
#define SS_ARENA_ALIGN 64

/* The address sanitizer knows a block as one piece. In its builds a gap after each piece, which
 * no code may touch, shows it the pieces. */
#ifndef SS_ARENA_GAP
#define SS_ARENA_GAP 0
#endif

/* The most that a piece takes beside its own bytes. */
#define SS_ARENA_MORE (SS_ARENA_ALIGN + SS_ARENA_GAP)

typedef struct ss_arena {
    unsigned char *block; /* NULL while measuring */
    size_t bytes;         /* size of the block */
    size_t used;          /* so far, padding included */
    bool full;            /* a take did not fit; stays set */
} ss_arena;

/* block must be aligned to SS_ARENA_ALIGN. */
ss_arena ss_arena_on(void *block, size_t bytes);

/* An arena that only counts; ends full if the count overflows size_t. */
ss_arena ss_arena_measure(void);

/* count pieces of size bytes each, not cleared; NULL when measuring or full. */
void *ss_arena_take(ss_arena *arena, size_t count, size_t size);

#endif
