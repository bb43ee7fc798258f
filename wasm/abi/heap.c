/*
 * The C library's memory functions. Emscripten's small allocator adds an address and a size in 32
 * bits, so a request for nearly 4 GB gets a pointer and no memory; its large one costs 3 KB to
 * download. This one serves a few large blocks (files, models, runs) and the nodes of a JSON text.
 *
 * Blocks tile the heap, each behind its header, and know their neighbours, so that free joins what
 * lies side by side. A search begins where the last one ended and takes the first block that is
 * large enough. Only the thread that calls into the binary allocates.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Of headers and of what malloc returns, because an arena needs it. */
#define ALIGN 64
#define PAGE 65536

extern unsigned char __heap_base; /* where the linker ends */

typedef struct block {
    struct block *before, *after; /* by address; NULL at the ends */
    bool used;
} block;

_Static_assert(sizeof(block) <= ALIGN, "a header fits in front of its block");

static block *last;   /* which ends where the heap ends */
static block *next;   /* where the next search begins */
static uintptr_t end; /* of the heap */

/* Bytes of a block, its header included. */
static size_t span_of(const block *b) {
    return (b->after ? (uintptr_t)b->after : end) - (uintptr_t)b;
}

/* Moves the end of the heap; false, and nothing has moved, where memory cannot grow so far. */
static bool extend(uint64_t bytes) {
    if (!end) end = ((uintptr_t)&__heap_base + ALIGN - 1) / ALIGN * ALIGN;
    uint64_t wanted = end + bytes, size = (uint64_t)__builtin_wasm_memory_size(0) * PAGE;
    if (wanted > UINT32_MAX) return false;
    if (wanted > size &&
        __builtin_wasm_memory_grow(0, (size_t)((wanted - size + PAGE - 1) / PAGE)) == SIZE_MAX)
        return false;
    end = (uintptr_t)wanted;
    return true;
}

/* The first free block of so many bytes; the search begins where the last one ended. Or NULL. */
static block *find(uint64_t span) {
    if (!next) return NULL;
    block *b = next;
    do {
        if (!b->used && span_of(b) >= span) return b;
        b = b->before ? b->before : last;
    } while (b != next);
    return NULL;
}

/* A free block of so many bytes at the end of the heap, or NULL. */
static block *append(uint64_t span) {
    if (last && !last->used) return extend(span - span_of(last)) ? last : NULL;
    if (!extend(span)) return NULL;
    block *b = (block *)(end - (uintptr_t)span);
    *b = (block){.before = last};
    if (last) last->after = b;
    return last = b;
}

/* A block of so many bytes, and what it has beyond them as a free block behind it. */
static void split(block *b, size_t span) {
    if (span_of(b) == span) return;
    block *rest = (block *)((uintptr_t)b + span);
    *rest = (block){.before = b, .after = b->after};
    *(b->after ? &b->after->before : &last) = rest;
    b->after = rest;
}

/* Joins a free block with the one behind it. */
static void join(block *b) {
    if (next == b->after) next = b;
    b->after = b->after->after;
    *(b->after ? &b->after->before : &last) = b;
}

void *malloc(size_t bytes) {
    uint64_t span = ((uint64_t)bytes + ALIGN - 1) / ALIGN * ALIGN + ALIGN;
    block *b = find(span);
    if (!b) b = append(span);
    if (!b) return NULL;
    split(b, (size_t)span);
    b->used = true;
    next = b;
    return (char *)b + ALIGN;
}

void free(void *pointer) {
    if (!pointer) return;
    block *b = (block *)((uintptr_t)pointer - ALIGN);
    b->used = false;
    if (b->after && !b->after->used) join(b);
    if (b->before && !b->before->used) join(b->before);
}

void *realloc(void *pointer, size_t bytes) {
    if (!pointer) return malloc(bytes);
    size_t room = span_of((block *)((uintptr_t)pointer - ALIGN)) - ALIGN;
    if (bytes <= room) return pointer;
    void *moved = malloc(bytes);
    if (moved) __builtin_memcpy(moved, pointer, room);
    if (moved) free(pointer);
    return moved;
}

void *calloc(size_t n, size_t bytes) {
    uint64_t all = (uint64_t)n * bytes;
    void *pointer = all <= SIZE_MAX ? malloc((size_t)all) : NULL;
    return pointer ? __builtin_memset(pointer, 0, (size_t)all) : NULL;
}

/* No caller needs more than ALIGN. */
void *aligned_alloc(size_t alignment, size_t bytes) {
    return alignment <= ALIGN ? malloc(bytes) : NULL;
}
