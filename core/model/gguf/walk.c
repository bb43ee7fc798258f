/* Walks a GGUF file pair by pair and tensor by tensor, and checks every length. */
#include "gguf.h"

#include <string.h>

#define ALIGNMENT_DEFAULT 32
#define ALIGNMENT_MAX 65536

/* Bytes of the shortest pair and tensor, which limit how many a file can have. */
#define PAIR_BYTES_MIN 13
#define TENSOR_BYTES_MIN 24

/* Bytes of a value of each type; 0 for texts and arrays. */
static const size_t widths[SS_GGUF_TYPE_N] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

static size_t remaining_bytes(const ss_gguf *gguf) {
    return gguf->file.n - gguf->offset;
}

static ss_status take_number(ss_gguf *gguf, uint64_t *out, size_t width, ss_error *err) {
    if (!ss_read_uint(out, gguf->file, gguf->offset, width))
        return ss_fail(err, SS_BAD_FILE, ss_where_byte(gguf->offset).text,
                       "expected %lu more bytes, found the end after %lu", (unsigned long)width,
                       (unsigned long)remaining_bytes(gguf));
    gguf->offset += width;
    return SS_OK;
}

static ss_status take_text(ss_gguf *gguf, ss_bytes *text, ss_error *err) {
    size_t start = gguf->offset;
    uint64_t n = 0;
    ss_status status = take_number(gguf, &n, 8, err);
    if (status != SS_OK) return status;
    if (n > remaining_bytes(gguf))
        return ss_fail(err, SS_BAD_FILE, ss_where_byte(start).text,
                       "expected a text of at most %lu bytes, the file says %.0f",
                       (unsigned long)remaining_bytes(gguf), (double)n);
    *text = (ss_bytes){gguf->file.data + gguf->offset, (size_t)n};
    gguf->offset += (size_t)n;
    return SS_OK;
}

static ss_status check_version(uint64_t version, ss_error *err) {
    if (version == 2 || version == 3) return SS_OK;
    if (version && version % 65536 == 0)
        return ss_fail(err, SS_UNSUPPORTED, "byte 4",
                       "expected little-endian numbers, found a big-endian file");
    return ss_fail(err, SS_UNSUPPORTED, "byte 4", "expected GGUF version 2 or 3, found %lu",
                   (unsigned long)version);
}

ss_status ss_gguf_begin(ss_gguf *gguf, ss_bytes file, ss_error *err) {
    *gguf = (ss_gguf){.file = file, .alignment = ALIGNMENT_DEFAULT};
    uint64_t version = 0;
    if (file.n < 4 || memcmp(file.data, "GGUF", 4) != 0)
        return ss_fail(err, SS_BAD_FILE, "byte 0", "expected the letters GGUF");
    gguf->offset = 4;
    ss_status status = take_number(gguf, &version, 4, err);
    if (status == SS_OK) status = check_version(version, err);
    if (status == SS_OK) status = take_number(gguf, &gguf->tensors_n, 8, err);
    if (status == SS_OK) status = take_number(gguf, &gguf->pairs_n, 8, err);
    if (status != SS_OK) return status;
    if (gguf->tensors_n > remaining_bytes(gguf) / TENSOR_BYTES_MIN)
        return ss_fail(err, SS_BAD_FILE, "byte 8", "expected at most %lu tensors, found %.0f",
                       (unsigned long)(remaining_bytes(gguf) / TENSOR_BYTES_MIN),
                       (double)gguf->tensors_n);
    if (gguf->pairs_n > remaining_bytes(gguf) / PAIR_BYTES_MIN)
        return ss_fail(err, SS_BAD_FILE, "byte 16", "expected at most %lu keys, found %.0f",
                       (unsigned long)(remaining_bytes(gguf) / PAIR_BYTES_MIN),
                       (double)gguf->pairs_n);
    return SS_OK;
}

static ss_status take_elements(ss_gguf *gguf, ss_gguf_pair *pair, ss_error *err) {
    size_t width = pair->type == SS_GGUF_TEXT ? 8 : widths[pair->type], start = gguf->offset;
    if (pair->count > remaining_bytes(gguf) / width)
        return ss_fail(err, SS_BAD_FILE, ss_where_name(pair->key).text,
                       "expected at most %lu elements before the file's end, found %.0f",
                       (unsigned long)(remaining_bytes(gguf) / width), (double)pair->count);
    if (pair->type != SS_GGUF_TEXT) gguf->offset += (size_t)pair->count * width;
    for (uint64_t i = 0; pair->type == SS_GGUF_TEXT && i < pair->count; i++) {
        ss_bytes text;
        ss_status status = take_text(gguf, &text, err);
        if (status != SS_OK) return status;
    }
    pair->value = (ss_bytes){gguf->file.data + start, gguf->offset - start};
    return SS_OK;
}

static ss_status take_type(ss_gguf *gguf, const ss_gguf_pair *pair, uint64_t *type, ss_error *err) {
    ss_status status = take_number(gguf, type, 4, err);
    if (status != SS_OK) return status;
    if (*type >= SS_GGUF_TYPE_N)
        return ss_fail(err, SS_BAD_FILE, ss_where_name(pair->key).text,
                       "expected a type of 0 to %d, found %lu", SS_GGUF_TYPE_N - 1,
                       (unsigned long)*type);
    if (pair->is_array && *type == SS_GGUF_ARRAY)
        return ss_fail(err, SS_BAD_FILE, ss_where_name(pair->key).text,
                       "expected an array of texts or numbers, found an array of arrays");
    return SS_OK;
}

/* Reads general.alignment, the only key about the layout of the file. */
static ss_status read_alignment(ss_gguf *gguf, const ss_gguf_pair *pair, ss_error *err) {
    uint64_t value = 0;
    bool is_number = pair->type == SS_GGUF_U32 && !pair->is_array;
    if (is_number) ss_read_uint(&value, pair->value, 0, 4);
    if (!is_number || value == 0 || value > ALIGNMENT_MAX || (value & (value - 1)))
        return ss_fail(err, SS_BAD_FILE, "general.alignment",
                       "expected a power of two up to %d, found something else", ALIGNMENT_MAX);
    gguf->alignment = (size_t)value;
    return SS_OK;
}

ss_status ss_gguf_next_pair(ss_gguf *gguf, ss_gguf_pair *pair, ss_error *err) {
    uint64_t type = 0;
    *pair = (ss_gguf_pair){.count = 1};
    ss_status status = take_text(gguf, &pair->key, err);
    if (status == SS_OK) status = take_type(gguf, pair, &type, err);
    if (status == SS_OK && type == SS_GGUF_ARRAY) {
        pair->is_array = true;
        status = take_type(gguf, pair, &type, err);
        if (status == SS_OK) status = take_number(gguf, &pair->count, 8, err);
    }
    if (status != SS_OK) return status;
    pair->type = (ss_gguf_type)type;
    status = take_elements(gguf, pair, err);
    if (status == SS_OK && ss_bytes_equal(pair->key, "general.alignment"))
        status = read_alignment(gguf, pair, err);
    return status;
}

static ss_status take_dims(ss_gguf *gguf, ss_gguf_tensor *tensor, ss_error *err) {
    uint64_t rank = 0, dim = 0;
    ss_status status = take_number(gguf, &rank, 4, err);
    if (status != SS_OK) return status;
    if (rank > SS_RANK_MAX)
        return ss_fail(err, SS_BAD_FILE, ss_where_name(tensor->name).text,
                       "expected at most %d dimensions, found %lu", SS_RANK_MAX,
                       (unsigned long)rank);
    tensor->rank = (int)rank;
    size_t count = 1;
    for (int i = 0; i < tensor->rank; i++) {
        status = take_number(gguf, &dim, 8, err);
        if (status != SS_OK) return status;
        if (dim > SIZE_MAX || !ss_mul_size(&count, count, (size_t)dim))
            return ss_fail(err, SS_BAD_FILE, ss_where_name(tensor->name).text,
                           "expected dimensions whose product fits this machine");
        tensor->dims[i] = (size_t)dim;
    }
    return SS_OK;
}

ss_status ss_gguf_next_tensor(ss_gguf *gguf, ss_gguf_tensor *tensor, ss_error *err) {
    *tensor = (ss_gguf_tensor){0};
    size_t start = gguf->offset;
    uint64_t type = 0;
    ss_status status = take_text(gguf, &tensor->name, err);
    if (status != SS_OK) return status;
    if (tensor->name.n == 0 || tensor->name.n > SS_GGUF_NAME_BYTES / 2 ||
        memchr(tensor->name.data, 0, tensor->name.n))
        return ss_fail(err, SS_BAD_FILE, ss_where_byte(start).text,
                       "expected a tensor's name of 1 to %d bytes that are not NUL",
                       SS_GGUF_NAME_BYTES / 2);
    status = take_dims(gguf, tensor, err);
    if (status == SS_OK) status = take_number(gguf, &type, 4, err);
    if (status == SS_OK) status = take_number(gguf, &tensor->offset, 8, err);
    tensor->type = (uint32_t)type;
    return status;
}

ss_bytes ss_gguf_data(const ss_gguf *gguf) {
    size_t padding = (gguf->alignment - gguf->offset % gguf->alignment) % gguf->alignment;
    if (padding > remaining_bytes(gguf)) padding = remaining_bytes(gguf);
    size_t start = gguf->offset + padding;
    return (ss_bytes){gguf->file.data + start, gguf->file.n - start};
}
