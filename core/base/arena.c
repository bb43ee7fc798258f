#include "arena.h"

#include "bytes.h"
#include "status.h"

#include <stdint.h>

#if SS_ARENA_GAP
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(at, n) ((void)(at), (void)(n))
#define ASAN_UNPOISON_MEMORY_REGION(at, n) ((void)(at), (void)(n))
#endif

ss_arena ss_arena_on(void *block, size_t bytes) {
    SS_ASSERT(block && (uintptr_t)block % SS_ARENA_ALIGN == 0);
    return (ss_arena){.block = block, .bytes = bytes};
}

ss_arena ss_arena_measure(void) {
    return (ss_arena){.bytes = SIZE_MAX};
}

void *ss_arena_take(ss_arena *arena, size_t count, size_t size) {
    size_t needed;
    if (!ss_mul_size(&needed, count, size) || needed > SIZE_MAX - SS_ARENA_OVERHEAD)
        arena->full = true;
    if (arena->full) return NULL;
    size_t bytes = (needed + SS_ARENA_ALIGN - 1) / SS_ARENA_ALIGN * SS_ARENA_ALIGN + SS_ARENA_GAP;
    if (bytes > arena->bytes - arena->used) {
        arena->full = true;
        return NULL;
    }
    unsigned char *piece = arena->block ? arena->block + arena->used : NULL;
    if (piece) {
        ASAN_UNPOISON_MEMORY_REGION(piece, needed);
        ASAN_POISON_MEMORY_REGION(piece + needed, bytes - needed);
    }
    arena->used += bytes;
    return piece;
}
