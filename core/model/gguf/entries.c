/* Reads the tensors of a GGUF file as entries of a container: translates names and checks types and
 * ranges. */
#include "gguf.h"

#include <string.h>

static const struct {
    const char *name;
    int type; /* ss_dtype, or -1 if it is not supported */
} types[] = {
    [0] = {"F32", SS_F32},        [1] = {"F16", SS_F16},      [2] = {"Q4_0", SS_Q4_0},
    [3] = {"Q4_1", SS_Q4_1},      [6] = {"Q5_0", SS_Q5_0},    [7] = {"Q5_1", SS_Q5_1},
    [8] = {"Q8_0", SS_Q8_0},      [9] = {"Q8_1", -1},         [10] = {"Q2_K", SS_Q2_K},
    [11] = {"Q3_K", SS_Q3_K},     [12] = {"Q4_K", SS_Q4_K},   [13] = {"Q5_K", SS_Q5_K},
    [14] = {"Q6_K", SS_Q6_K},     [15] = {"Q8_K", -1},        [16] = {"IQ2_XXS", -1},
    [17] = {"IQ2_XS", -1},        [18] = {"IQ3_XXS", -1},     [19] = {"IQ1_S", -1},
    [20] = {"IQ4_NL", SS_IQ4_NL}, [21] = {"IQ3_S", -1},       [22] = {"IQ2_S", -1},
    [23] = {"IQ4_XS", SS_IQ4_XS}, [24] = {"I8", -1},          [25] = {"I16", -1},
    [26] = {"I32", SS_I32},       [27] = {"I64", -1},         [28] = {"F64", -1},
    [29] = {"IQ1_M", -1},         [30] = {"BF16", SS_BF16},   [34] = {"TQ1_0", -1},
    [35] = {"TQ2_0", -1},         [39] = {"MXFP4", SS_MXFP4}, [40] = {"NVFP4", -1},
};

typedef struct gguf_header {
    ss_gguf gguf; /* positioned at the first tensor */
    const ss_gguf_family *family;
} gguf_header;

static ss_bytes text_of(const ss_gguf_pair *pair) {
    if (pair->is_array || pair->type != SS_GGUF_TEXT) return (ss_bytes){pair->value.data, 0};
    return (ss_bytes){pair->value.data + 8, pair->value.n - 8};
}

static ss_status read_header(gguf_header *header, ss_bytes file, ss_error *err) {
    ss_bytes architecture = {NULL, 0};
    ss_status status = ss_gguf_begin(&header->gguf, file, err);
    for (uint64_t i = 0; status == SS_OK && i < header->gguf.pairs_n; i++) {
        ss_gguf_pair pair;
        uint64_t parts = 0;
        status = ss_gguf_next_pair(&header->gguf, &pair, err);
        if (status != SS_OK) return status;
        if (ss_bytes_equal(pair.key, "general.architecture")) architecture = text_of(&pair);
        if (ss_bytes_equal(pair.key, "split.count") && pair.type == SS_GGUF_U16)
            ss_read_uint(&parts, pair.value, 0, 2);
        if (parts > 1)
            return ss_fail(err, SS_UNSUPPORTED, "split.count",
                           "expected one whole GGUF file, found one of %lu parts",
                           (unsigned long)parts);
    }
    return status == SS_OK ? ss_gguf_find_family(&header->family, architecture, err) : status;
}

static ss_status read_shape(ss_entry *entry, const ss_gguf_tensor *tensor, ss_error *err) {
    size_t types_n = sizeof types / sizeof *types;
    const char *name = tensor->type < types_n ? types[tensor->type].name : NULL;
    if (!name || types[tensor->type].type < 0)
        return ss_fail(
            err, SS_UNSUPPORTED, entry->name,
            "expected F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q2_K to Q6_K, IQ4_NL, "
            "IQ4_XS or MXFP4 numbers, found %s (type %lu)",
            name ? name : "others", (unsigned long)tensor->type);
    ss_tensor *view = &entry->tensor;
    *view = (ss_tensor){.type = (ss_dtype)types[tensor->type].type, .rank = tensor->rank};
    size_t block = ss_dtype_block(view->type);
    if ((tensor->rank ? tensor->dims[0] : 1) % block)
        return ss_fail(err, SS_BAD_FILE, entry->name,
                       "expected rows of whole %s blocks of %lu, found rows of %lu", name,
                       (unsigned long)block, (unsigned long)(tensor->rank ? tensor->dims[0] : 1));
    for (int i = 0; i < tensor->rank; i++) view->dims[tensor->rank - 1 - i] = tensor->dims[i];
    ss_tensor_set_strides(view);
    entry->readable = true;
    return SS_OK;
}

static ss_status set_range(ss_entry *entry, ss_bytes data, size_t alignment, ss_error *err) {
    size_t blocks = ss_tensor_count(&entry->tensor) / ss_dtype_block(entry->tensor.type), bytes;
    if (!ss_mul_size(&bytes, blocks, ss_dtype_block_bytes(entry->tensor.type)) || bytes > data.n ||
        entry->begin > data.n - bytes)
        return ss_fail(err, SS_BAD_FILE, entry->name,
                       "expected its numbers inside the %lu bytes of data, found them at %lu",
                       (unsigned long)data.n, (unsigned long)entry->begin);
    if (entry->begin % alignment)
        return ss_fail(err, SS_BAD_FILE, entry->name,
                       "expected data at a multiple of %lu, found it at %lu",
                       (unsigned long)alignment, (unsigned long)entry->begin);
    entry->end = entry->begin + bytes;
    entry->tensor.data = data.data + entry->begin;
    return SS_OK;
}

static ss_status read_tensor(ss_entry *entry, gguf_header *header, ss_arena *arena, ss_error *err) {
    char text[SS_GGUF_NAME_BYTES];
    ss_gguf_tensor tensor;
    ss_status status = ss_gguf_next_tensor(&header->gguf, &tensor, err);
    if (status != SS_OK) return status;
    ss_gguf_translate(text, header->family, tensor.name);
    size_t n = strlen(text) + 1;
    char *name = ss_arena_take(arena, n, 1);
    if (arena->full) return ss_fail(err, SS_NO_MEMORY, "GGUF tensors", "no room for their names");
    if (name) memcpy(name, text, n);
    if (!entry) return SS_OK;
    *entry = (ss_entry){.name = name};
    entry->begin = tensor.offset < SIZE_MAX ? (size_t)tensor.offset : SIZE_MAX;
    return read_shape(entry, &tensor, err);
}

static ss_status read_entries(ss_entries *out, ss_bytes file, ss_arena *arena, ss_error *err) {
    gguf_header header;
    ss_status status = read_header(&header, file, err);
    if (status != SS_OK) return status;
    size_t n = (size_t)header.gguf.tensors_n;
    ss_entry *entries = ss_arena_take(arena, n, sizeof *entries);
    if (arena->full)
        return ss_fail(err, SS_NO_MEMORY, "GGUF tensors", "no room for %lu", (unsigned long)n);
    for (size_t i = 0; i < n; i++) {
        status = read_tensor(entries ? &entries[i] : NULL, &header, arena, err);
        if (status != SS_OK) return status;
    }
    ss_bytes data = ss_gguf_data(&header.gguf);
    for (size_t i = 0; entries && i < n; i++) {
        status = set_range(&entries[i], data, header.gguf.alignment, err);
        if (status != SS_OK) return status;
    }
    *out = (ss_entries){entries, n};
    return entries ? ss_check_overlaps(*out, err) : SS_OK;
}

/* Returns the bytes of entries and names: 0 for an unreadable file, which fails when opened. */
static size_t measure(ss_bytes file) {
    ss_arena arena = ss_arena_measure();
    ss_entries entries;
    return read_entries(&entries, file, &arena, NULL) == SS_OK ? arena.used : 0;
}

const ss_format_reader ss_gguf_reader = {"GGUF", measure, read_entries};
