/*
 * Container: the files that hold tensors. Bytes -> a table of named, checked views.
 *
 * A model's weights are one file or several (shards). Each is read by its format's file:
 * safetensors.c and torch_file.c beside this one, ../gguf/entries.c. Names are those of Hugging
 * Face, whatever the format calls its tensors, without the prefixes of torch.compile and
 * DistributedDataParallel. Nothing is copied but names: the views point into
 * the caller's bytes, which must outlive the container and every model opened on it.
 */
#ifndef SS_MODEL_CONTAINER_H
#define SS_MODEL_CONTAINER_H

#include "../../base/arena.h"
#include "../../base/bytes.h"
#include "../../base/status.h"
#include "../../base/tensor.h"

/* Formats write the same tensor in different orders; families ask for this where it matters. */
typedef enum ss_format { SS_SAFETENSORS, SS_GGUF, SS_TORCH_FILE, SS_FORMAT_N } ss_format;

typedef struct ss_entry {
    const char *name;
    ss_tensor tensor;
    size_t begin, end; /* bytes of the file's data */
    bool readable;     /* false: a dtype or rank that no weight has (masks, buffers) */
} ss_entry;

typedef struct ss_container {
    const ss_entry *entries; /* [n], sorted by name */
    size_t n;
    ss_format format;
    bool live; /* the caller changes the numbers: vectors, too, stay where they lie */
} ss_container;

/* The first bytes decide; a file that is neither GGUF nor a zip file is read as safetensors. */
ss_format ss_container_format(ss_bytes file);

/* Bytes of arena that ss_container_open takes at most for these files, before they are parsed. */
size_t ss_container_size(const ss_bytes *files, int n);

/*
 * Reads the headers of n >= 1 files of one format and proves every entry: offsets in range, no two
 * overlapping, no name twice, shape times element size equal to the range. SS_BAD_FILE with the
 * tensor's name or the byte; SS_NO_MEMORY if the arena is too small.
 */
ss_status ss_container_open(ss_container *container, const ss_bytes *files, int n, ss_arena *arena,
                            ss_error *err);

/* The entry of that name, or NULL. */
const ss_entry *ss_container_find(const ss_container *container, const char *name);

/*
 * What a format's reader gives: size is how many bytes its entries and names take at most, entries
 * appends what one file holds, sorted as the file has it. Overlaps inside the file are its to find,
 * with ss_entries_apart; names are compared when all files are read.
 */
typedef struct ss_entries {
    ss_entry *entries;
    size_t n;
} ss_entries;

typedef struct ss_format_reader {
    const char *name;
    size_t (*size)(ss_bytes file);
    ss_status (*read)(ss_entries *out, ss_bytes file, ss_arena *arena, ss_error *err);
} ss_format_reader;

extern const ss_format_reader ss_safetensors_reader, ss_gguf_reader, ss_torch_file_reader;

/* Sorts by place and refuses, with the name, entries that share bytes. */
ss_status ss_entries_apart(ss_entries entries, ss_error *err);

#endif
