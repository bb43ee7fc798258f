#include "container.h"

#include <stdlib.h>
#include <string.h>

static const ss_format_reader *const readers[SS_FORMAT_N] = {
    [SS_SAFETENSORS] = &ss_safetensors_reader,
    [SS_GGUF] = &ss_gguf_reader,
    [SS_TORCH_FILE] = &ss_torch_file_reader,
};

ss_format ss_container_format(ss_bytes file) {
    if (file.n >= 4 && !memcmp(file.data, "GGUF", 4)) return SS_GGUF;
    if (file.n >= 4 && !memcmp(file.data, "PK\003\004", 4)) return SS_TORCH_FILE;
    /* Files of torch.save before version 1.6 begin with this pickled number, which is far too large
     * for the length of a safetensors header. */
    if (file.n >= 8 && !memcmp(file.data, "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46", 8))
        return SS_TORCH_FILE;
    return SS_SAFETENSORS;
}

static size_t entries_size(ss_bytes file) {
    return readers[ss_container_format(file)]->size(file);
}

static size_t max_entries(ss_bytes file) {
    return entries_size(file) / sizeof(ss_entry) + 1;
}

/* Adds up the entries of each shard and, if there are several shards, the table of all of them. */
size_t ss_container_size(const ss_bytes *files, int n) {
    size_t bytes = SS_ARENA_OVERHEAD;
    for (int i = 0; i < n; i++) {
        size_t table_bytes = n > 1 ? max_entries(files[i]) * sizeof(ss_entry) : 0;
        if (!ss_add_size(&bytes, bytes, entries_size(files[i])) ||
            !ss_add_size(&bytes, bytes, table_bytes))
            return SIZE_MAX;
    }
    return bytes;
}

static int compare_ranges(const void *a, const void *b) {
    const ss_entry *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return x->end < y->end ? -1 : x->end > y->end;
}

static int compare_names(const void *a, const void *b) {
    return strcmp(((const ss_entry *)a)->name, ((const ss_entry *)b)->name);
}

ss_status ss_check_overlaps(ss_entries table, ss_error *err) {
    ss_entry *entries = table.entries;
    qsort(entries, table.n, sizeof *entries, compare_ranges);
    for (size_t i = 1; i < table.n; i++)
        if (entries[i].begin < entries[i - 1].end)
            return ss_fail(err, SS_BAD_FILE, entries[i].name,
                           "expected its own bytes, but it begins at %lu inside %.80s",
                           (unsigned long)entries[i].begin, entries[i - 1].name);
    return SS_OK;
}

ss_status ss_container_make(ss_container *container, ss_entries table, ss_error *err) {
    qsort(table.entries, table.n, sizeof *table.entries, compare_names);
    for (size_t i = 1; i < table.n; i++)
        if (!strcmp(table.entries[i].name, table.entries[i - 1].name))
            return ss_fail(err, SS_BAD_FILE, table.entries[i].name, "expected each name once");
    *container = (ss_container){.entries = table.entries, .n = table.n};
    return SS_OK;
}

/* Removes the prefixes that torch.compile and DistributedDataParallel add to every name. */
static void drop_prefixes(ss_entries table) {
    static const char *const prefixes[] = {"_orig_mod.", "module."};
    for (size_t i = 0; i < table.n; i++)
        for (size_t w = 0; w < sizeof prefixes / sizeof *prefixes; w++) {
            size_t length = strlen(prefixes[w]);
            if (strncmp(table.entries[i].name, prefixes[w], length)) continue;
            table.entries[i].name += length;
            w = (size_t)-1; /* a name may have both prefixes */
        }
}

static ss_status read_file(ss_entries *out, ss_bytes file, ss_format format, ss_arena *arena,
                           ss_error *err) {
    if (ss_container_format(file) != format)
        return ss_fail(err, SS_BAD_FILE, "byte 0", "expected shards of one format, found %s and %s",
                       readers[format]->name, readers[ss_container_format(file)]->name);
    return readers[format]->read(out, file, arena, err);
}

static void append_entries(ss_entries *table, ss_entries more) {
    if (more.n) memcpy(table->entries + table->n, more.entries, more.n * sizeof *more.entries);
    table->n += more.n;
}

static ss_status read_shards(ss_entries *out, const ss_bytes *files, int n, ss_format format,
                             ss_arena *arena, ss_error *err) {
    size_t capacity = 0;
    for (int i = 0; i < n; i++) capacity += max_entries(files[i]);
    *out = (ss_entries){ss_arena_take(arena, capacity, sizeof(ss_entry)), 0};
    if (arena->full) return ss_fail(err, SS_NO_MEMORY, "shards", "no room for their tensors");
    for (int i = 0; i < n; i++) {
        ss_entries table;
        ss_status status = read_file(&table, files[i], format, arena, err);
        if (status != SS_OK) return status;
        append_entries(out, table);
    }
    return SS_OK;
}

ss_status ss_container_open(ss_container *container, const ss_bytes *files, int n, ss_arena *arena,
                            ss_error *err) {
    ss_format format = ss_container_format(files[0]);
    ss_entries table;
    ss_status status = n == 1 ? read_file(&table, files[0], format, arena, err)
                              : read_shards(&table, files, n, format, arena, err);
    if (status == SS_OK) drop_prefixes(table);
    if (status == SS_OK) status = ss_container_make(container, table, err);
    if (status == SS_OK) container->format = format;
    return status;
}

const ss_entry *ss_container_find(const ss_container *container, const char *name) {
    ss_entry key = {.name = name};
    return container->n ? bsearch(&key, container->entries, container->n, sizeof key, compare_names)
                        : NULL;
}
