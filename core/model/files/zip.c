#include "zip.h"

#include <stdlib.h>
#include <string.h>

#define LOCAL_SIGNATURE 0x04034b50u
#define LOCAL_BYTES 30
#define RECORD_SIGNATURE 0x02014b50u
#define RECORD_BYTES 46
#define END_SIGNATURE 0x06054b50u
#define END_BYTES 22
#define END64_SIGNATURE 0x06064b50u
#define END64_BYTES 56
#define LOCATOR_SIGNATURE 0x07064b50u
#define LOCATOR_BYTES 20

#define COMMENT_BYTES_MAX 65535
#define ENCRYPTED 1u
#define STORED 0u
#define ZIP64_EXTRA 1u

/* A field with this value refers to a zip64 field, which has the actual number. */
#define IN_ZIP64_16 0xffffu
#define IN_ZIP64_32 0xffffffffu

/* Reads a number whose range was checked before. */
static uint64_t uint_at(ss_bytes file, size_t at, size_t width) {
    uint64_t value = 0;
    bool is_inside = ss_read_uint(&value, file, at, width);
    SS_ASSERT(is_inside);
    (void)is_inside;
    return value;
}

static bool begins_with(ss_bytes file, uint64_t at, size_t bytes, uint32_t signature) {
    return bytes <= file.n && at <= file.n - bytes && uint_at(file, (size_t)at, 4) == signature;
}

/* Finds the end record, which only a comment of its stated length may follow. */
static bool find_end(size_t *at, ss_bytes file) {
    for (size_t comment = 0; comment <= COMMENT_BYTES_MAX; comment++) {
        if (file.n < END_BYTES + comment) return false;
        *at = file.n - END_BYTES - comment;
        if (begins_with(file, *at, END_BYTES, END_SIGNATURE) &&
            uint_at(file, *at + 20, 2) == comment)
            return true;
    }
    return false;
}

static ss_status read_end64(ss_zip *zip, uint64_t *start, uint64_t *bytes, size_t end,
                            ss_error *err) {
    ss_bytes file = zip->file;
    size_t locator = end - LOCATOR_BYTES;
    uint64_t at = UINT64_MAX;
    if (end >= LOCATOR_BYTES && begins_with(file, locator, LOCATOR_BYTES, LOCATOR_SIGNATURE))
        at = uint_at(file, locator + 8, 8);
    if (!begins_with(file, at, END64_BYTES, END64_SIGNATURE))
        return ss_fail(err, SS_BAD_FILE, ss_where_byte(end).text,
                       "expected a zip64 end record before this one, found none");
    zip->n = uint_at(file, (size_t)at + 32, 8);
    *bytes = uint_at(file, (size_t)at + 40, 8);
    *start = uint_at(file, (size_t)at + 48, 8);
    return SS_OK;
}

ss_status ss_zip_begin(ss_zip *zip, ss_bytes file, ss_error *err) {
    *zip = (ss_zip){.file = file};
    size_t end;
    if (!find_end(&end, file))
        return ss_fail(err, SS_BAD_FILE, ss_where_byte(file.n).text,
                       "expected a whole zip file, found no end of one");
    zip->n = uint_at(file, end + 10, 2);
    uint64_t bytes = uint_at(file, end + 12, 4), start = uint_at(file, end + 16, 4);
    if (zip->n == IN_ZIP64_16 || bytes == IN_ZIP64_32 || start == IN_ZIP64_32) {
        ss_status status = read_end64(zip, &start, &bytes, end, err);
        if (status != SS_OK) return status;
    }
    if (start > end || bytes > end - start)
        return ss_fail(err, SS_BAD_FILE, ss_where_byte(end).text,
                       "expected a directory before byte %lu, found %.0f bytes at %.0f",
                       (unsigned long)end, (double)bytes, (double)start);
    if (zip->n > bytes / RECORD_BYTES)
        return ss_fail(err, SS_BAD_FILE, ss_where_byte(end).text,
                       "expected at most %.0f records in the directory, found %.0f",
                       (double)(bytes / RECORD_BYTES), (double)zip->n);
    zip->offset = zip->start = (size_t)start;
    zip->end = (size_t)(start + bytes);
    return SS_OK;
}

typedef struct directory_record {
    ss_bytes name, extra;
    uint64_t flags, method, compressed_bytes, bytes, header_at;
} directory_record;

static bool read_zip64(uint64_t *value, ss_bytes field, size_t *at) {
    if (*value != IN_ZIP64_32) return true;
    bool is_inside = ss_read_uint(value, field, *at, 8);
    *at += 8;
    return is_inside;
}

/* Reads the sizes and the offset that do not fit 32 bits from the zip64 field. */
static bool read_extra(directory_record *record) {
    ss_bytes extra = record->extra;
    size_t at = 0;
    while (extra.n >= 4 && at <= extra.n - 4) {
        uint64_t id = uint_at(extra, at, 2), n = uint_at(extra, at + 2, 2);
        at += 4;
        if (n > extra.n - at) return false;
        ss_bytes field = {extra.data + at, (size_t)n};
        size_t field_at = 0;
        if (id == ZIP64_EXTRA)
            return read_zip64(&record->bytes, field, &field_at) &&
                   read_zip64(&record->compressed_bytes, field, &field_at) &&
                   read_zip64(&record->header_at, field, &field_at);
        at += (size_t)n;
    }
    return record->bytes != IN_ZIP64_32 && record->compressed_bytes != IN_ZIP64_32 &&
           record->header_at != IN_ZIP64_32;
}

static ss_status read_record(directory_record *record, ss_zip *zip, ss_error *err) {
    ss_bytes file = {zip->file.data, zip->end};
    size_t at = zip->offset;
    if (!begins_with(file, at, RECORD_BYTES, RECORD_SIGNATURE))
        return ss_fail(err, SS_BAD_FILE, ss_where_byte(at).text,
                       "expected a record of the directory");
    size_t name_n = (size_t)uint_at(file, at + 28, 2), extra_n = (size_t)uint_at(file, at + 30, 2);
    size_t comment_n = (size_t)uint_at(file, at + 32, 2);
    *record = (directory_record){.flags = uint_at(file, at + 8, 2),
                                 .method = uint_at(file, at + 10, 2),
                                 .compressed_bytes = uint_at(file, at + 20, 4),
                                 .bytes = uint_at(file, at + 24, 4),
                                 .header_at = uint_at(file, at + 42, 4)};
    at += RECORD_BYTES;
    if (name_n + extra_n + comment_n > zip->end - at)
        return ss_fail(err, SS_BAD_FILE, ss_where_byte(zip->offset).text,
                       "expected a record inside the directory, found a longer one");
    record->name = (ss_bytes){file.data + at, name_n};
    record->extra = (ss_bytes){file.data + at + name_n, extra_n};
    zip->offset = at + name_n + extra_n + comment_n;
    if (!read_extra(record))
        return ss_fail(err, SS_BAD_FILE, ss_where_name(record->name).text,
                       "expected its zip64 sizes in the directory, found none");
    return SS_OK;
}

static ss_status find_data(ss_bytes *data, const ss_zip *zip, const directory_record *record,
                           ss_error *err) {
    ss_bytes file = {zip->file.data, zip->start};
    ss_where where = ss_where_name(record->name);
    const char *name = where.text;
    if (!begins_with(file, record->header_at, LOCAL_BYTES, LOCAL_SIGNATURE))
        return ss_fail(err, SS_BAD_FILE, name, "expected its header at byte %.0f, found none",
                       (double)record->header_at);
    size_t at = (size_t)record->header_at, name_n = (size_t)uint_at(file, at + 26, 2);
    size_t extra_n = (size_t)uint_at(file, at + 28, 2), bytes_left = zip->start - at - LOCAL_BYTES;
    if (name_n + extra_n > bytes_left || record->bytes > bytes_left - name_n - extra_n)
        return ss_fail(err, SS_BAD_FILE, name,
                       "expected %.0f bytes before the directory, found fewer",
                       (double)record->bytes);
    at += LOCAL_BYTES;
    if (name_n != record->name.n || memcmp(file.data + at, record->name.data, name_n) != 0)
        return ss_fail(err, SS_BAD_FILE, name, "expected the same name in its header");
    *data = (ss_bytes){file.data + at + name_n + extra_n, (size_t)record->bytes};
    return SS_OK;
}

ss_status ss_zip_next(ss_zip *zip, ss_zip_record *out, ss_error *err) {
    directory_record record = {0};
    ss_status status = read_record(&record, zip, err);
    if (status != SS_OK) return status;
    if (record.flags & ENCRYPTED || record.method != STORED ||
        record.compressed_bytes != record.bytes)
        return ss_fail(err, SS_UNSUPPORTED, ss_where_name(record.name).text,
                       "expected contents that are stored, found them %s",
                       record.flags & ENCRYPTED ? "encrypted" : "compressed");
    out->name = record.name;
    return find_data(&out->data, zip, &record, err);
}

static int compare_ranges(const void *a, const void *b) {
    const ss_zip_record *x = a, *y = b;
    if (x->data.data != y->data.data) return x->data.data < y->data.data ? -1 : 1;
    return x->data.n < y->data.n ? -1 : x->data.n > y->data.n;
}

static int compare_bytes(ss_bytes a, ss_bytes b) {
    size_t n = ss_min_size(a.n, b.n);
    int order = n ? memcmp(a.data, b.data, n) : 0;
    return order ? order : a.n < b.n ? -1 : a.n > b.n;
}

static int compare_names(const void *a, const void *b) {
    return compare_bytes(((const ss_zip_record *)a)->name, ((const ss_zip_record *)b)->name);
}

ss_status ss_zip_read(ss_zip_record *records, ss_zip *zip, ss_error *err) {
    size_t n = (size_t)zip->n;
    for (size_t i = 0; i < n; i++) {
        ss_status status = ss_zip_next(zip, &records[i], err);
        if (status != SS_OK) return status;
    }
    if (n) qsort(records, n, sizeof *records, compare_ranges);
    for (size_t i = 1; i < n; i++)
        if (records[i].data.data < records[i - 1].data.data + records[i - 1].data.n)
            return ss_fail(err, SS_BAD_FILE, ss_where_name(records[i].name).text,
                           "expected its own bytes, but it begins inside %.80s",
                           ss_where_name(records[i - 1].name).text);
    if (n) qsort(records, n, sizeof *records, compare_names);
    for (size_t i = 1; i < n; i++)
        if (compare_bytes(records[i].name, records[i - 1].name) == 0)
            return ss_fail(err, SS_BAD_FILE, ss_where_name(records[i].name).text,
                           "expected each record once");
    return SS_OK;
}

const ss_zip_record *ss_zip_find(const ss_zip_record *records, size_t n, ss_bytes name) {
    ss_zip_record key = {.name = name};
    return n ? bsearch(&key, records, n, sizeof key, compare_names) : NULL;
}
