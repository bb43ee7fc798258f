/*
 * Puts a pickle into a zip file, as torch.save does, for the fuzzers of PyTorch's files. An input
 * that begins like a pickle is not inside a zip file: otherwise a mutation that changes the number
 * of bytes would move the directory, the zip reader would refuse the file, and the pickle would
 * never be read.
 */
#ifndef SS_FUZZ_TORCH_ZIP_H
#define SS_FUZZ_TORCH_ZIP_H

#include "target.h"

#include <stdio.h>

#define PROTOCOL 0x80

/* The zip file has storages "0" to "11", each with the size of the largest matrix in seeds/. */
#define STORAGES_N 12
#define STORAGE_BYTES 128
#define RECORDS_N (STORAGES_N + 1)

/* Largest number of bytes of a record besides its data: the header and the directory entry, each
 * with the name. */
#define RECORD_BYTES (30 + 46 + 2 * 16)
#define END_BYTES 22

typedef struct zip_writer {
    uint8_t *bytes;
    size_t n;
} zip_writer;

static inline void put(zip_writer *w, const void *bytes, size_t n) {
    memcpy(w->bytes + w->n, bytes, n);
    w->n += n;
}

static inline void put_uint(zip_writer *w, uint64_t value, int width) {
    for (int i = 0; i < width; i++, value >>= 8) w->bytes[w->n++] = (uint8_t)value;
}

static inline void put_directory(zip_writer *w, const char *name, size_t n, size_t local) {
    put(w, "PK\1\2\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 20);
    put_uint(w, n, 4);
    put_uint(w, n, 4);
    put_uint(w, strlen(name), 2);
    put_uint(w, 0, 12);
    put_uint(w, local, 4);
    put(w, name, strlen(name));
}

static inline void put_record(zip_writer *w, const char *name, const void *data, size_t n) {
    put(w, "PK\3\4\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 26);
    put_uint(w, strlen(name), 4);
    put(w, name, strlen(name));
    put(w, data, n);
}

/* Returns the input as a file of torch.save, which the caller frees. The buffer ends with the
 * file's last byte, so that the sanitizer reports any read beyond it. */
static inline ss_bytes torch_zip(const uint8_t *pickle, size_t size) {
    static const uint8_t storage[STORAGE_BYTES];
    if (!size || pickle[0] != PROTOCOL) {
        uint8_t *copy = malloc(size ? size : 1);
        if (!copy) abort();
        return (ss_bytes){memcpy(copy, pickle, size), size};
    }
    zip_writer w = {
        malloc(size + STORAGES_N * STORAGE_BYTES + RECORDS_N * RECORD_BYTES + END_BYTES), 0};
    if (!w.bytes) abort();
    char names[RECORDS_N][16] = {"m/data.pkl"};
    size_t locals[RECORDS_N] = {0}, sizes[RECORDS_N] = {size};
    put_record(&w, names[0], pickle, size);
    for (int i = 1; i < RECORDS_N; i++) {
        snprintf(names[i], sizeof names[i], "m/data/%d", i - 1);
        locals[i] = w.n;
        sizes[i] = sizeof storage;
        put_record(&w, names[i], storage, sizeof storage);
    }
    size_t start = w.n;
    for (int i = 0; i < RECORDS_N; i++) put_directory(&w, names[i], sizes[i], locals[i]);
    size_t bytes = w.n - start;
    put(&w, "PK\5\6\0\0\0\0", 8);
    put_uint(&w, RECORDS_N, 2);
    put_uint(&w, RECORDS_N, 2);
    put_uint(&w, bytes, 4);
    put_uint(&w, start, 4);
    put_uint(&w, 0, 2);
    uint8_t *file = realloc(w.bytes, w.n);
    if (!file) abort();
    return (ss_bytes){file, w.n};
}

#endif
