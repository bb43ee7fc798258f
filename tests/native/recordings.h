/* Writes recordings for tests and fuzzers: safetensors files with conditions and tensors. */
#ifndef SS_TEST_RECORDINGS_H
#define SS_TEST_RECORDINGS_H

#include "sinkscope.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct recording_writer {
    char *header;
    unsigned char *data;
    size_t header_n, data_n;
} recording_writer;

static inline void *append_bytes(void *block, size_t *n, const void *bytes_to_add, size_t bytes) {
    unsigned char *moved = realloc(block, *n + bytes + 1);
    if (!moved) abort();
    if (bytes) memcpy(moved + *n, bytes_to_add, bytes);
    *n += bytes;
    moved[*n] = 0;
    return moved;
}

static inline void add_header(recording_writer *w, const char *text) {
    w->header = append_bytes(w->header, &w->header_n, text, strlen(text));
}

/* Begins with the metadata; a version or conditions of NULL are left out. */
static inline recording_writer begin_recording(const char *version, const char *conditions) {
    recording_writer w = {0};
    add_header(&w, "{\"__metadata__\":{\"format\":\"pt\"");
    if (version) {
        add_header(&w, ",\"sinkscope.recording\":\"");
        add_header(&w, version);
        add_header(&w, "\"");
    }
    if (conditions) add_header(&w, ",\"sinkscope\":\"");
    for (const char *c = conditions; c && *c; c++) {
        if (*c == '"' || *c == '\\') add_header(&w, "\\");
        add_header(&w, (const char[]){*c, 0});
    }
    add_header(&w, conditions ? "\"}" : "}");
    return w;
}

/* Adds a tensor with `bytes` bytes of data, whose header claims the given shape, such as "[2,3]".
 */
static inline void add_claimed(recording_writer *w, const char *name, const char *dtype,
                               const char *shape, const void *data, size_t bytes) {
    char offsets[64];
    add_header(w, ",\"");
    add_header(w, name);
    add_header(w, "\":{\"dtype\":\"");
    add_header(w, dtype);
    add_header(w, "\",\"shape\":");
    add_header(w, shape);
    snprintf(offsets, sizeof offsets, ",\"data_offsets\":[%lu,%lu]}", (unsigned long)w->data_n,
             (unsigned long)(w->data_n + bytes));
    add_header(w, offsets);
    w->data = append_bytes(w->data, &w->data_n, data, bytes);
}

static inline void add_tensor(recording_writer *w, const char *name, const ss_tensor *tensor) {
    char shape[96] = "[";
    for (int i = 0; i < tensor->rank; i++)
        snprintf(shape + strlen(shape), sizeof shape - strlen(shape), i ? ",%lu" : "%lu",
                 (unsigned long)tensor->dims[i]);
    strcat(shape, "]");
    add_claimed(w, name, ss_dtype_name(tensor->type), shape, tensor->data,
                ss_dtype_bytes(tensor->type, ss_tensor_count(tensor)));
}

/* Returns the file in a block of its exact size; `shift` misaligns the data. */
static inline ss_bytes end_recording(recording_writer *w, size_t shift) {
    add_header(w, "}");
    while ((8 + w->header_n) % 8 != shift) add_header(w, " ");
    size_t n = 8 + w->header_n + w->data_n;
    unsigned char *file = malloc(n);
    if (!file) abort();
    for (int i = 0; i < 8; i++) file[i] = (unsigned char)((uint64_t)w->header_n >> 8 * i);
    memcpy(file + 8, w->header, w->header_n);
    if (w->data_n) memcpy(file + 8 + w->header_n, w->data, w->data_n);
    free(w->header);
    free(w->data);
    *w = (recording_writer){0};
    return (ss_bytes){file, n};
}

#endif
