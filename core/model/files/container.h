/*
 * Container: bytes of model files -> a table of named, checked tensors.
 *
 * A model has one file or several (shards). safetensors.c, torch_file.c and ../gguf/entries.c each
 * read a format. Names are those of Hugging Face in every format, without the prefixes of
 * torch.compile and DistributedDataParallel. Only names are copied: tensors point into the caller's
 * bytes, which must outlive the container and every model opened on it.
 */
#ifndef SS_MODEL_CONTAINER_H
#define SS_MODEL_CONTAINER_H

#include "../../base/arena.h"
#include "../../base/bytes.h"
#include "../../base/status.h"
#include "../../base/tensor.h"

/* File formats. GGUF stores some tensors in another order, which the families undo. */
typedef enum ss_format { SS_SAFETENSORS, SS_GGUF, SS_TORCH_FILE, SS_FORMAT_N } ss_format;

typedef struct ss_entry {
    const char *name;
    ss_tensor tensor;
    size_t begin, end; /* byte range in the data of the file */
    bool readable;     /* false for a dtype or rank that no weight has (masks, buffers) */
} ss_entry;

typedef struct ss_container {
    const ss_entry *entries; /* [n], sorted by name */
    size_t n;
    ss_format format;
    bool live; /* the caller changes the weights after opening, so vectors are used in place, not
                  copied */
} ss_container;

/* Determines the format by the first bytes; a file that is neither GGUF, zip nor a pickle of
 * torch.save counts as safetensors. */
ss_format ss_container_format(ss_bytes file);

/* Returns an upper bound of the bytes that ss_container_open takes, without parsing. */
size_t ss_container_size(const ss_bytes *files, int n);

/* Reads the headers of n >= 1 files of one format and checks every entry: its range is inside the
 * file, overlaps no other (tensors of a torch file may share numbers) and has the size of its
 * shape, and its name is unique. Returns SS_BAD_FILE with the tensor's name or the byte;
 * SS_NO_MEMORY if the arena is too small. */
ss_status ss_container_open(ss_container *container, const ss_bytes *files, int n, ss_arena *arena,
                            ss_error *err);

typedef struct ss_entries {
    ss_entry *entries;
    size_t n;
} ss_entries;

/* Makes a container of safetensors' entries, which it sorts by name. Returns SS_BAD_FILE with a
 * name that two of them have. */
ss_status ss_container_make(ss_container *container, ss_entries table, ss_error *err);

/* Returns the entry of that name, or NULL. */
const ss_entry *ss_container_find(const ss_container *container, const char *name);

/* The reader of a format: `size` returns an upper bound of the bytes of entries and names, `read`
 * makes the entries of one file. `read` detects overlaps with ss_check_overlaps, if the format
 * forbids them; names are compared after all files are read. */
typedef struct ss_format_reader {
    const char *name;
    size_t (*size)(ss_bytes file);
    ss_status (*read)(ss_entries *out, ss_bytes file, ss_arena *arena, ss_error *err);
} ss_format_reader;

extern const ss_format_reader ss_safetensors_reader, ss_gguf_reader, ss_torch_file_reader;

/* Sorts the entries by offset and refuses entries that overlap; the error names one of them. */
ss_status ss_check_overlaps(ss_entries entries, ss_error *err);

#endif
