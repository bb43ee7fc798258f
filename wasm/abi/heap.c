/*
 * The C library's memory functions. Emscripten's small allocator adds sizes to addresses without a
 * check, so that a request for 2 GB beside as much in use can return a block that is in use; its
 * large one gives no block of 2 GB. This allocator is made for a few large blocks (files, models,
 * runs) and the many nodes of a JSON text.
 *
 * Blocks, each after its header, tile the heap and have pointers to their neighbors, so that free
 * merges adjacent free blocks. Free blocks are listed in bins by size: a bin of small blocks has
 * one size, a bin of large ones the sizes between two powers of two. A request takes any block of a
 * larger bin, or visits a few of its own bin, so that its time does not grow with the number of
 * blocks. Only the main thread allocates.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Alignment of headers and blocks, which an arena requires. */
#define ALIGN 64
#define PAGE 65536

/* The memory of the heap, and a hook for each block that a search visits; a test defines its own.
 */
#ifndef HEAP_BEGIN
extern unsigned char __heap_base; /* end of the static data */
#define HEAP_BEGIN ((uintptr_t)&__heap_base)
#define HEAP_MAX UINT32_MAX
#define HEAP_BYTES ((uint64_t)__builtin_wasm_memory_size(0) * PAGE)
#define HEAP_GROWS(pages) (__builtin_wasm_memory_grow(0, pages) != SIZE_MAX)
#define HEAP_VISIT() ((void)0)
#endif

typedef struct block {
    struct block *before, *after;  /* neighbors by address; NULL at the ends */
    struct block *previous, *next; /* neighbors in the bin of a free block; NULL at the ends */
    bool used;
} block;

_Static_assert(sizeof(block) <= ALIGN, "a header fits in front of its block");

/* The first SMALL_BINS bins hold blocks of one size each, 0 .. 7 times ALIGN bytes. The others, up
 * to BINS, begin at 2^3, 2^4 .. 2^26 times ALIGN. */
#define SMALL_BINS 8
#define BINS 32

/* The most blocks of its bin that a request visits, since a heap has few large ones. */
#define VISITS_MAX 32

static block *last_block;
static block *bins[BINS];
static uint32_t filled_bins; /* bit b: bin b has a block */
static uintptr_t heap_end;

/* Returns the bytes of a block, including its header. */
static size_t span_of(const block *b) {
    return (b->after ? (uintptr_t)b->after : heap_end) - (uintptr_t)b;
}

static int bin_of(uint64_t span) {
    uint32_t units = (uint32_t)(span / ALIGN);
    return units < SMALL_BINS ? (int)units : SMALL_BINS + 28 - __builtin_clz(units);
}

static void insert_block(block *b) {
    int bin = bin_of(span_of(b));
    b->used = false;
    b->previous = NULL;
    b->next = bins[bin];
    if (b->next) b->next->previous = b;
    bins[bin] = b;
    filled_bins |= 1u << bin;
}

static void remove_block(block *b) {
    int bin = bin_of(span_of(b));
    *(b->previous ? &b->previous->next : &bins[bin]) = b->next;
    if (b->next) b->next->previous = b->previous;
    if (!bins[bin]) filled_bins &= ~(1u << bin);
    b->used = true;
}

/* Moves the end of the heap; returns false, without effect, if the memory cannot grow. */
static bool extend_heap(uint64_t bytes) {
    if (!heap_end) heap_end = (HEAP_BEGIN + ALIGN - 1) / ALIGN * ALIGN;
    uint64_t end = heap_end + bytes, size = HEAP_BYTES;
    if (end > HEAP_MAX) return false;
    if (end > size && !HEAP_GROWS((size_t)((end - size + PAGE - 1) / PAGE))) return false;
    heap_end = (uintptr_t)end;
    return true;
}

static block *find_block(uint64_t span) {
    int bin = bin_of(span);
    block *b = bins[bin];
    for (int visits = 0; b && span_of(b) < span; visits++) {
        HEAP_VISIT();
        b = visits < VISITS_MAX ? b->next : NULL;
    }
    uint32_t larger = filled_bins >> bin >> 1;
    if (!b && larger) b = bins[bin + 1 + __builtin_ctz(larger)];
    if (b) remove_block(b);
    return b;
}

static block *append_block(uint64_t span) {
    block *b = last_block;
    if (b && !b->used) {
        uint64_t extra_span = span - span_of(b);
        remove_block(b);
        if (extend_heap(extra_span)) return b;
        insert_block(b);
        return NULL;
    }
    if (!extend_heap(span)) return NULL;
    b = (block *)(heap_end - (uintptr_t)span);
    *b = (block){.before = last_block, .used = true};
    if (last_block) last_block->after = b;
    return last_block = b;
}

static void split_block(block *b, size_t span) {
    if (span_of(b) == span) return;
    block *rest = (block *)((uintptr_t)b + span);
    *rest = (block){.before = b, .after = b->after};
    *(b->after ? &b->after->before : &last_block) = rest;
    b->after = rest;
    insert_block(rest);
}

static void join_next(block *b) {
    b->after = b->after->after;
    *(b->after ? &b->after->before : &last_block) = b;
}

void *malloc(size_t bytes) {
    uint64_t span = ((uint64_t)bytes + ALIGN - 1) / ALIGN * ALIGN + ALIGN;
    block *b = find_block(span);
    if (!b) b = append_block(span);
    if (!b) return NULL;
    split_block(b, (size_t)span);
    return (char *)b + ALIGN;
}

void free(void *pointer) {
    if (!pointer) return;
    block *b = (block *)((uintptr_t)pointer - ALIGN);
    if (b->after && !b->after->used) {
        remove_block(b->after);
        join_next(b);
    }
    if (b->before && !b->before->used) {
        b = b->before;
        remove_block(b);
        join_next(b);
    }
    insert_block(b);
}

void *realloc(void *pointer, size_t bytes) {
    if (!pointer) return malloc(bytes);
    size_t room = span_of((block *)((uintptr_t)pointer - ALIGN)) - ALIGN;
    if (bytes <= room) return pointer;
    void *copy = malloc(bytes);
    if (copy) __builtin_memcpy(copy, pointer, room);
    if (copy) free(pointer);
    return copy;
}

void *calloc(size_t n, size_t bytes) {
    uint64_t total = (uint64_t)n * bytes;
    void *pointer = total <= SIZE_MAX ? malloc((size_t)total) : NULL;
    return pointer ? __builtin_memset(pointer, 0, (size_t)total) : NULL;
}

/* Calls malloc, whose blocks have the alignment ALIGN. No caller needs a larger one. */
void *aligned_alloc(size_t alignment, size_t bytes) {
    return alignment <= ALIGN ? malloc(bytes) : NULL;
}
