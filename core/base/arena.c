#include "arena.h"

#include "bytes.h"
#include "status.h"

#include <stdint.h>

ss_arena ss_arena_on(void *block, size_t bytes) {
    SS_ASSERT(block && (uintptr_t)block % SS_ARENA_ALIGN == 0);
    return (ss_arena){.block = block, .bytes = bytes};
}

ss_arena ss_arena_measure(void) {
    return (ss_arena){.bytes = SIZE_MAX};
}

void *ss_arena_take(ss_arena *arena, size_t count, size_t size) {
    size_t bytes;
    if (!ss_mul_size(&bytes, count, size) || bytes > SIZE_MAX - SS_ARENA_ALIGN) arena->full = true;
    if (arena->full) return NULL;
    bytes = (bytes + SS_ARENA_ALIGN - 1) / SS_ARENA_ALIGN * SS_ARENA_ALIGN;
    if (bytes > arena->bytes - arena->used) {
        arena->full = true;
        return NULL;
    }
    unsigned char *piece = arena->block ? arena->block + arena->used : NULL;
    arena->used += bytes;
    return piece;
}
