/* Writes zip files for tests, like torch.save, and with wrong records. */
#ifndef SS_TEST_ZIPS_H
#define SS_TEST_ZIPS_H

#include "files.h"

typedef struct writer {
    unsigned char bytes[65536];
    size_t n;
} writer;

static inline void put(writer *w, const void *bytes, size_t n) {
    if (w->n + n > sizeof w->bytes) exit(2);
    memcpy(w->bytes + w->n, bytes, n);
    w->n += n;
}

static inline void put_uint(writer *w, uint64_t value, int width) {
    for (int i = 0; i < width; i++) {
        unsigned char byte = (unsigned char)value;
        put(w, &byte, 1);
        value >>= 8;
    }
}

/* A record of a zip file, with parts that a test may falsify. */
typedef struct zip_part {
    const char *name;
    const void *data;
    size_t n;
    unsigned method, flags;
    size_t claimed_size; /* size that the directory states; 0: the true n */
    size_t
        in_zip64; /* number of sizes and offsets in the zip64 field, 0 to 3; 0: there is no field */
} zip_part;

static inline void put_local(writer *w, const zip_part *record) {
    put(w, "PK\3\4\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 26);
    put_uint(w, strlen(record->name), 2);
    put_uint(w, 3, 2); /* torch pads with an extra field */
    put(w, record->name, strlen(record->name));
    put(w, "pad", 3);
    put(w, record->data, record->n);
}

static inline void put_directory(writer *w, const zip_part *record, size_t local) {
    size_t bytes = record->claimed_size ? record->claimed_size : record->n;
    const uint64_t in_zip64[] = {bytes, bytes, local};
    put(w, "PK\1\2\0\0\0\0", 8);
    put_uint(w, record->flags, 2);
    put_uint(w, record->method, 2);
    put_uint(w, 0, 8);
    put_uint(w, record->in_zip64 ? 0xffffffff : bytes, 4);
    put_uint(w, record->in_zip64 ? 0xffffffff : bytes, 4);
    put_uint(w, strlen(record->name), 2);
    put_uint(w, record->in_zip64 ? 8 * record->in_zip64 + 8 : 0, 2);
    put_uint(w, 0, 10);
    put_uint(w, record->in_zip64 ? 0xffffffff : local, 4);
    put(w, record->name, strlen(record->name));
    if (!record->in_zip64) return;
    put_uint(w, 0x9999, 4); /* an empty extra field of another kind */
    put_uint(w, 1, 2);
    put_uint(w, 8 * record->in_zip64, 2);
    for (size_t i = 0; i < record->in_zip64; i++) put_uint(w, in_zip64[i], 8);
}

/* Writes the end records; with zip64, every number in the old record has the escape value. */
static inline void put_end(writer *w, uint64_t n, uint64_t start, bool zip64) {
    uint64_t bytes = w->n - start, end_offset = w->n;
    if (zip64) {
        put(w, "PK\6\6\54\0\0\0\0\0\0\0\55\0\55\0\0\0\0\0\0\0\0\0", 24);
        put_uint(w, n, 8);
        put_uint(w, n, 8);
        put_uint(w, bytes, 8);
        put_uint(w, start, 8);
        put(w, "PK\6\7\0\0\0\0", 8);
        put_uint(w, end_offset, 8);
        put_uint(w, 1, 4);
    }
    put(w, "PK\5\6\0\0\0\0", 8);
    put_uint(w, zip64 ? 0xffff : n, 2);
    put_uint(w, zip64 ? 0xffff : n, 2);
    put_uint(w, zip64 ? 0xffffffff : bytes, 4);
    put_uint(w, zip64 ? 0xffffffff : start, 4);
    put_uint(w, 7, 2);
    put(w, "comment", 7);
}

static inline ss_bytes copy_of(const void *data, size_t n) {
    unsigned char *copy = malloc(n ? n : 1);
    if (!copy) exit(2);
    memcpy(copy, data, n);
    return (ss_bytes){copy, n};
}

static inline ss_bytes zip_of(const zip_part *records, int n, bool zip64) {
    static writer w;
    size_t locals[8];
    w.n = 0;
    for (int i = 0; i < n; i++) {
        locals[i] = w.n;
        put_local(&w, &records[i]);
    }
    size_t start = w.n;
    for (int i = 0; i < n; i++) put_directory(&w, &records[i], locals[i]);
    put_end(&w, (uint64_t)n, start, zip64);
    return copy_of(w.bytes, w.n);
}

/* `key` is an opcode that pushes the key. */
#define STORAGE_AT(key, numbers)                                                                   \
    "(X\7\0\0\0storagectorch\nFloatStorage\n" key "X\3\0\0\0cpuK" numbers "tQ"
#define STORAGE(key, numbers) STORAGE_AT("X\1\0\0\0" key, numbers)
#define REBUILD "ctorch._utils\n_rebuild_tensor_v2\n"
#define HOOKS "ccollections\nOrderedDict\n)R"
#define TENSOR(key, numbers, offset, shape, strides)                                               \
    REBUILD "(" STORAGE(key, numbers) "K" offset shape strides "\x89" HOOKS "tR"
#define ONE "K\1\x85"
#define TWO "K\2\x85"
#define GOOD TENSOR("0", "\4", "\0", TWO, ONE)
#define KEY(letter) "X\1\0\0\0" letter
#define ONES_8 "K\1K\1K\1K\1K\1K\1K\1K\1"
#define ONES_64 ONES_8 ONES_8 ONES_8 ONES_8 ONES_8 ONES_8 ONES_8 ONES_8
/* 2^62 as a number of eight bytes. */
#define HUGE_NUMBER "\x8a\10\0\0\0\0\0\0\0\x40"

/* The bytes of a string constant, including NULs but not the last one. */
#define PICKLE(text) (text), sizeof(text) - 1
#define TABLE(items) PICKLE("\x80\2}" items ".")

static const float storage[4] = {1, 2, 3, 4};

#endif
