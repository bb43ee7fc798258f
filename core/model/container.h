/*
 * Container: the file that holds tensors. Bytes -> a table of named, checked views.
 *
 * safetensors: u64 little-endian header length N; N bytes of JSON
 * {"name": {"dtype", "shape", "data_offsets": [begin, end]}, "__metadata__": {..}}; then the data.
 * Offsets count from the end of the header. Nothing is copied but the names: the views point into
 * the caller's bytes, which must outlive the container.
 */
#ifndef SS_MODEL_CONTAINER_H
#define SS_MODEL_CONTAINER_H

#include "../base/arena.h"
#include "../base/bytes.h"
#include "../base/status.h"
#include "../base/tensor.h"

typedef struct ss_entry {
    const char *name;
    ss_tensor tensor;
    size_t begin, end; /* bytes, from the end of the header */
    bool readable;     /* false: a dtype or rank that no weight has (masks, buffers) */
} ss_entry;

typedef struct ss_container {
    const ss_entry *entries; /* [n], sorted by name */
    size_t n;
} ss_container;

/* Bytes of arena that ss_container_open takes at most for this file, before it is parsed. */
size_t ss_container_size(ss_bytes file);

/*
 * Reads the header and proves every entry: offsets in range, no two overlapping, no name twice,
 * shape times element size equal to the range. SS_BAD_FILE with the tensor's name or the byte;
 * SS_NO_MEMORY if the arena is too small.
 */
ss_status ss_container_open(ss_container *container, ss_bytes file, ss_arena *arena, ss_error *err);

/* The entry of that name, or NULL. */
const ss_entry *ss_container_find(const ss_container *container, const char *name);

#endif
