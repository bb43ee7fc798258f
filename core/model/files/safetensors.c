/* safetensors: u64 little-endian header length N; N bytes of JSON
 * {"name": {"dtype", "shape", "data_offsets": [begin, end]}, "__metadata__": {..}}; then the data.
 * Offsets count from the end of the header. */
#include "container.h"

#include "json.h"

#include <string.h>

/* Upper bound of the length of a header: that of the safetensors library. */
#define HEADER_BYTES_MAX 100000000

#define METADATA "__metadata__"

/* Bytes of an entry, at least those of "":{"dtype":"U8","shape":[],"data_offsets":[0,0]}. */
#define ENTRY_BYTES_MIN 48

static size_t measure(ss_bytes file) {
    uint64_t header;
    if (!ss_read_u64(&header, file, 0) || header > file.n || header > HEADER_BYTES_MAX)
        return SS_ARENA_OVERHEAD;
    /* The length of all names is below the length of the header. */
    size_t entries = (size_t)header / ENTRY_BYTES_MIN + 1;
    return entries * sizeof(ss_entry) + (size_t)header + entries + 2 * SS_ARENA_OVERHEAD;
}

static const struct {
    const char *name;
    int bytes;
    int type; /* ss_dtype or -1 */
} dtypes[] = {
    {"F32", 4, SS_F32}, {"F16", 2, SS_F16}, {"BF16", 2, SS_BF16}, {"I32", 4, SS_I32},
    {"F64", 8, SS_F64}, {"I64", 8, -1},     {"U64", 8, -1},       {"U32", 4, -1},
    {"I16", 2, -1},     {"U16", 2, -1},     {"I8", 1, SS_I8},     {"U8", 1, SS_U8},
    {"BOOL", 1, -1},    {"F8_E4M3", 1, -1}, {"F8_E5M2", 1, -1},
};

static size_t read_dtype(ss_entry *entry, const cJSON *item) {
    for (size_t i = 0; cJSON_IsString(item) && i < sizeof dtypes / sizeof *dtypes; i++)
        if (!strcmp(item->valuestring, dtypes[i].name)) {
            entry->readable = dtypes[i].type >= 0;
            entry->tensor.type = (ss_dtype)(entry->readable ? dtypes[i].type : 0);
            return (size_t)dtypes[i].bytes;
        }
    return 0;
}

/* Reads an integer that is exact in a double and fits a size_t. */
static bool read_size(size_t *out, const cJSON *item) {
    const double limit = SIZE_MAX > 9007199254740992u ? 9007199254740992.0 : (double)SIZE_MAX;
    double value = cJSON_IsNumber(item) ? item->valuedouble : -1;
    if (!(value >= 0 && value <= limit) || value != (double)(size_t)value) return false;
    *out = (size_t)value;
    return true;
}

static bool read_shape(ss_entry *entry, const cJSON *shape, size_t *bytes) {
    if (!cJSON_IsArray(shape)) return false;
    ss_tensor *tensor = &entry->tensor;
    const cJSON *item;
    cJSON_ArrayForEach(item, shape) {
        size_t dim;
        if (!read_size(&dim, item) || !ss_mul_size(bytes, *bytes, dim)) return false;
        if (tensor->rank < SS_RANK_MAX)
            tensor->dims[tensor->rank++] = dim;
        else
            entry->readable = false;
    }
    ss_tensor_set_strides(tensor);
    return true;
}

static ss_status read_entry(ss_entry *entry, const cJSON *item, ss_bytes data, ss_error *err) {
    const char *name = entry->name;
    size_t bytes = read_dtype(entry, cJSON_GetObjectItemCaseSensitive(item, "dtype"));
    if (!bytes)
        return ss_fail(err, SS_BAD_FILE, name, "expected a dtype of the safetensors format");
    if (!read_shape(entry, cJSON_GetObjectItemCaseSensitive(item, "shape"), &bytes))
        return ss_fail(err, SS_BAD_FILE, name,
                       "expected a shape of whole numbers whose product fits this machine");
    const cJSON *offsets = cJSON_GetObjectItemCaseSensitive(item, "data_offsets");
    if (!cJSON_IsArray(offsets) || cJSON_GetArraySize(offsets) != 2 ||
        !read_size(&entry->begin, cJSON_GetArrayItem(offsets, 0)) ||
        !read_size(&entry->end, cJSON_GetArrayItem(offsets, 1)))
        return ss_fail(err, SS_BAD_FILE, name, "expected data_offsets of two whole numbers");
    if (entry->begin > entry->end || entry->end > data.n)
        return ss_fail(err, SS_BAD_FILE, name,
                       "expected data inside the %lu bytes after the header, found %lu to %lu",
                       (unsigned long)data.n, (unsigned long)entry->begin,
                       (unsigned long)entry->end);
    if (entry->end - entry->begin != bytes)
        return ss_fail(err, SS_BAD_FILE, name,
                       "expected %lu bytes for its shape and dtype, found %lu",
                       (unsigned long)bytes, (unsigned long)(entry->end - entry->begin));
    entry->tensor.data = data.data + entry->begin;
    return SS_OK;
}

static ss_status count_entries(size_t *n, size_t *names_bytes, ss_json_members members,
                               ss_error *err) {
    ss_bytes key, value;
    *n = *names_bytes = 0;
    for (;;) {
        ss_status status = ss_json_next(&members, &key, &value, err);
        if (status != SS_OK || !key.data) return status;
        ++*n;
        *names_bytes += key.n;
    }
}

static ss_status read_name(const char **name, char **names, const ss_json_members *members,
                           ss_bytes key, ss_error *err) {
    cJSON *item;
    ss_status status = ss_json_parse_value(&item, members, key, err);
    if (status != SS_OK) return status;
    size_t length = strlen(item->valuestring) + 1;
    *name = memcpy(*names, item->valuestring, length);
    *names += length;
    cJSON_Delete(item);
    return SS_OK;
}

static ss_status fill_entries(ss_entries *out, char *names, ss_json_members members, ss_bytes data,
                              ss_error *err) {
    for (int metadata = 0;;) {
        ss_bytes key, value;
        ss_status status = ss_json_next(&members, &key, &value, err);
        if (status != SS_OK || !key.data) return status;
        ss_entry *entry = &out->entries[out->n];
        *entry = (ss_entry){0};
        cJSON *item;
        status = read_name(&entry->name, &names, &members, key, err);
        if (status == SS_OK) status = ss_json_parse_value(&item, &members, value, err);
        if (status != SS_OK) return status;
        if (strcmp(entry->name, METADATA)) {
            status = read_entry(entry, item, data, err);
            out->n++;
        } else if (metadata++) {
            status = ss_fail(err, SS_BAD_FILE, METADATA, "expected each key once");
        }
        cJSON_Delete(item);
        if (status != SS_OK) return status;
    }
}

static ss_status read_entries(ss_entries *out, ss_bytes header, ss_bytes data, ss_arena *arena,
                              ss_error *err) {
    size_t n, names_bytes;
    ss_json_members members = ss_json_members_of(header, "safetensors header", SS_BAD_FILE);
    ss_status status = count_entries(&n, &names_bytes, members, err);
    if (status != SS_OK) return status;
    *out = (ss_entries){ss_arena_take(arena, n, sizeof *out->entries), 0};
    char *names = ss_arena_take(arena, names_bytes, 1);
    if (arena->full)
        return ss_fail(err, SS_NO_MEMORY, "safetensors header", "no room for %lu tensors",
                       (unsigned long)n);
    status = fill_entries(out, names, members, data, err);
    return status == SS_OK ? ss_check_overlaps(*out, err) : status;
}

static ss_status read_file(ss_entries *out, ss_bytes file, ss_arena *arena, ss_error *err) {
    uint64_t header_bytes;
    if (!ss_read_u64(&header_bytes, file, 0))
        return ss_fail(err, SS_BAD_FILE, "byte 0",
                       "expected a safetensors file of at least 8 bytes, found %lu",
                       (unsigned long)file.n);
    if (header_bytes > HEADER_BYTES_MAX || header_bytes > file.n - 8)
        return ss_fail(err, SS_BAD_FILE, "byte 0",
                       "expected a header of at most %lu bytes, the file says %.0f",
                       (unsigned long)(file.n - 8), (double)header_bytes);
    ss_bytes text = {file.data + 8, (size_t)header_bytes};
    ss_bytes data = {text.data + text.n, file.n - 8 - text.n};
    return read_entries(out, text, data, arena, err);
}

const ss_format_reader ss_safetensors_reader = {"safetensors", measure, read_file};
