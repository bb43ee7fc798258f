/* The binaries' memory functions: blocks do not overlap, free neighbors merge, and no JSON text
 * makes a search long. */
#include "check.h"

#include <cJSON.h>
#include <stdint.h>
#include <stdlib.h>

#define ROOM ((size_t)1 << 29)
static unsigned char *memory;
static uint64_t memory_bytes; /* bytes requested so far; a request for more memory is refused */
static long visited_blocks;   /* blocks that searches have visited */

static bool grow(uint64_t pages) {
    if (memory_bytes + pages * 65536 > ROOM) return false;
    memory_bytes += pages * 65536;
    return true;
}

#define HEAP_BEGIN ((uintptr_t)memory)
#define HEAP_MAX UINTPTR_MAX
#define HEAP_BYTES ((uint64_t)(uintptr_t)memory + memory_bytes)
#define HEAP_GROWS(pages) grow(pages)
#define HEAP_VISIT() (visited_blocks++)
#define malloc heap_malloc
#define free heap_free
#define realloc heap_realloc
#define calloc heap_calloc
#define aligned_alloc heap_aligned_alloc
void *heap_malloc(size_t bytes);
void heap_free(void *pointer);
void *heap_realloc(void *pointer, size_t bytes);
void *heap_calloc(size_t n, size_t bytes);
void *heap_aligned_alloc(size_t alignment, size_t bytes);
#include "../../wasm/abi/heap.c"

static uint32_t state = 9;

static uint32_t draw_below(uint32_t limit) {
    state = state * 1664525u + 1013904223u;
    return (uint32_t)(((uint64_t)(state >> 8) * limit) >> 24);
}

/* Checks that blocks tile the heap, that no two free blocks are neighbors, and that the bins hold
 * all free blocks. */
static bool is_sound(void) {
    long free_blocks = 0, listed_blocks = 0;
    bool is_consistent = true;
    for (const block *b = last_block; b; b = b->before) {
        free_blocks += !b->used;
        is_consistent &= !b->before || (b->before->after == b && (b->used || b->before->used));
        is_consistent &= span_of(b) % ALIGN == 0 && span_of(b) > 0;
    }
    for (int bin = 0; bin < BINS; bin++) {
        is_consistent &= (bins[bin] != NULL) == (filled_bins >> bin & 1);
        for (const block *b = bins[bin]; b; b = b->next, listed_blocks++)
            is_consistent &=
                !b->used && bin_of(span_of(b)) == bin && (!b->next || b->next->previous == b);
    }
    return is_consistent && free_blocks == listed_blocks;
}

static void check_blocks(void) {
    CASE("blocks of any size do not overlap, keep their bytes, and merge when they are freed");
    enum { N = 300 };
    unsigned char *blocks[N] = {0};
    size_t sizes[N] = {0};
    for (int i = 0; i < 20000; i++) {
        int slot = (int)draw_below(N);
        if (blocks[slot]) {
            bool is_kept = true;
            for (size_t j = 0; j < sizes[slot]; j += 1 + sizes[slot] / 7)
                is_kept &= blocks[slot][j] == slot % 251;
            CHECK(is_kept);
            if (draw_below(3) == 0) {
                size_t bytes = sizes[slot] + draw_below(5000);
                blocks[slot] = realloc(blocks[slot], bytes);
                CHECK(blocks[slot][0] == slot % 251 || sizes[slot] == 0);
                memset(blocks[slot], slot % 251, bytes);
                sizes[slot] = bytes;
                continue;
            }
            free(blocks[slot]);
            blocks[slot] = NULL;
        } else {
            sizes[slot] = draw_below(2) ? draw_below(300) : draw_below(200000);
            blocks[slot] = malloc(sizes[slot]);
            CHECK((uintptr_t)blocks[slot] % ALIGN == 0);
            memset(blocks[slot], slot % 251, sizes[slot]);
        }
        if (i % 100 == 0) CHECK(is_sound());
    }
    for (int i = 0; i < N; i++) free(blocks[i]);
    CHECK(is_sound());
    CHECK(last_block && !last_block->before && !last_block->used);
    CASE("a request that is too large returns NULL and leaves the heap unchanged");
    uintptr_t end_before = heap_end;
    CHECK(!malloc(ROOM));
    CHECK(!malloc(UINT32_MAX));
    CHECK(!calloc(UINT32_MAX / 2, 2));
    CHECK(heap_end == end_before && is_sound());
    CASE("a freed block serves the next request of its size or less");
    void *large_block = malloc(1000000);
    void *separator = malloc(1);
    free(large_block);
    CHECK(malloc(1000000) == large_block);
    free(large_block);
    CHECK(malloc(600000) == large_block);
    free(large_block);
    free(separator);
    unsigned char *zeros = calloc(1000, 3);
    bool are_zero = true;
    for (int i = 0; i < 3000; i++) are_zero &= zeros[i] == 0;
    CHECK(are_zero);
    free(zeros);
}

/* Returns n bytes of JSON: the opening, one repeated item, and the closing. */
static char *make_text(const char *opening, const char *item, const char *closing, size_t n) {
    size_t item_bytes = strlen(item), text_n = strlen(opening);
    char *text = malloc(n + item_bytes + 64);
    memcpy(text, opening, text_n);
    for (int i = 0; text_n < n; i++) {
        int item_n = snprintf(text + text_n, item_bytes + 24, item, i);
        text_n += (size_t)item_n;
    }
    snprintf(text + text_n - 1, 64, "%s", closing);
    return text;
}

/* A text of 450 characters. Six of these texts need a block that is larger than most holes of its
 * bin. */
#define FIFTY "12345678901234567890123456789012345678901234567890"
#define LONG FIFTY FIFTY FIFTY FIFTY FIFTY FIFTY FIFTY FIFTY FIFTY

static void check_json(void) {
    CASE("parsing a megabyte of JSON of any shape searches few blocks per allocation");
    static const char *const shapes[][3] = {
        {"[", "\"" LONG LONG LONG LONG LONG LONG "\",", "]"},
        {"[", "0,", "]"},
        {"[", "0.12345678901234567,", "]"},
        {"[", "\"abc\",", "]"},
        {"[", "\"\",", "]"},
        {"[", "[],", "]"},
        {"[", "{\"a\":[1,\"b\"]},", "]"},
        {"{", "\"k%d\":0,", "}"},
        {"{", "\"a long key that takes two units and more of the heap: %d\":[\"x\"],", "}"},
        {"[",
         "\"a text of about a hundred bytes, as many prompts have, and then something more: it "
         "goes on and on\",",
         "]"},
    };
    cJSON_Hooks hooks = {heap_malloc, heap_free};
    cJSON_InitHooks(&hooks);
    /* Holes of many sizes between permanent blocks, as files and models leave them. */
    enum { HOLES = 20000 };
    static void *holes[HOLES], *separators[HOLES];
    for (int i = 0; i < HOLES; i++) {
        holes[i] = malloc((size_t)(i % 4 ? i * 37 % 300 : 2100 + i % 900));
        separators[i] = malloc(1);
    }
    for (int i = 0; i < HOLES; i++) free(holes[i]);
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        char *text = make_text(shapes[s][0], shapes[s][1], shapes[s][2], 1000000);
        visited_blocks = 0;
        cJSON *root = cJSON_Parse(text);
        CHECK(root != NULL);
        cJSON *second_root = cJSON_Parse(text);
        cJSON_Delete(root);
        root = cJSON_Parse(text);
        long items = cJSON_GetArraySize(root);
        long visits_max = s == 0 ? 3 * (VISITS_MAX + 1) * items : items;
        CHECK(items > 300);
        if (check_failed(visited_blocks <= visits_max, __FILE__, __LINE__,
                         "few blocks are passed over"))
            printf("    %ld for %ld items of %.20s\n", visited_blocks, items, shapes[s][1]);
        cJSON_Delete(root);
        cJSON_Delete(second_root);
        free(text);
        CHECK(is_sound());
    }
    for (int i = 0; i < HOLES; i++) free(separators[i]);
    CHECK(last_block && !last_block->before && !last_block->used);
}

int main(void) {
#undef malloc
#undef free
    unsigned char *allocation = malloc(ROOM + ALIGN);
    if (!allocation) return 2;
    memory = allocation;
    check_blocks();
    check_json();
    free(allocation);
    return check_done();
}
