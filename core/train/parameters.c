#include "parameters.h"

#include "../math/kernels.h"
#include "../math/unpack.h"
#include "../run/operation.h"
#include "random.h"

#include <stdio.h>
#include <string.h>

/* A header and its length so far; if text is NULL, the header is only measured. */
typedef struct header {
    char *text;
    size_t capacity, used;
    size_t floats, panels, model_bytes;
    const ss_operation *operation;
} header;

static bool ends_with(const char *name, const char *end) {
    size_t n = strlen(name), m = strlen(end);
    return n >= m && !strcmp(name + n - m, end);
}

/* Returns whether the file has an optional tensor: sink logits and kernels if the operation reads
 * them, any other tensor always, so that GPT-2's names get the prefix "transformer.". */
static bool has_tensor(void *context, const char *name) {
    const header *draft = context;
    if (ends_with(name, ".sinks")) return draft->operation->parameters[0].per_head;
    if (ends_with(name, ".kernel_in.weight")) return draft->operation->feature == SS_FEATURE_MLP;
    return true;
}

static void append_text(header *draft, const char *piece) {
    size_t n = strlen(piece);
    if (draft->text && draft->used + n <= draft->capacity)
        memcpy(draft->text + draft->used, piece, n);
    draft->used += n;
}

/* Writes ,"name":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]} unless the header has that
 * name. */
static void put_tensor(void *context, const char *name, const ss_tensor *shape) {
    header *draft = context;
    char piece[256], quoted_name[128];
    size_t count = ss_tensor_count(shape);
    snprintf(quoted_name, sizeof quoted_name, "\"%s\":", name);
    if (draft->text) {
        draft->text[draft->used] = 0;
        if (strstr(draft->text, quoted_name)) return;
    }
    snprintf(piece, sizeof piece, "%s%s{\"dtype\":\"F32\",\"shape\":[", draft->floats ? "," : "",
             quoted_name);
    append_text(draft, piece);
    for (int i = 0; i < shape->rank; i++) {
        snprintf(piece, sizeof piece, "%s%lu", i ? "," : "", (unsigned long)shape->dims[i]);
        append_text(draft, piece);
    }
    snprintf(piece, sizeof piece, "],\"data_offsets\":[%lu,%lu]}", (unsigned long)draft->floats * 4,
             (unsigned long)(draft->floats + count) * 4);
    append_text(draft, piece);
    draft->floats += count;
    /* A matrix is packed as [in][out] or [out][in] and in at most three parts. After each part come
     * the rest of its last panel and the arena's gap. */
    size_t a = shape->dims[0], b = shape->rank > 1 ? shape->dims[1] : 0;
    if (b) draft->panels += count + 3 * (SS_PANEL * ss_max_size(a, b) + SS_ARENA_OVERHEAD / 4);
}

#define METADATA "\"__metadata__\":{\"format\":\"pt\"}"

static ss_status write_header(header *draft, const ss_arch *arch, ss_error *err) {
    int index = ss_operation_find(arch->attention.operation);
    if (index < 0)
        return ss_fail(err, SS_UNSUPPORTED, "sinkscope.attention.operation",
                       "expected an operation of this build's table, found %s",
                       arch->attention.operation);
    draft->operation = &ss_operations(NULL)[index];
    ss_lister lister = {draft, put_tensor, has_tensor};
    append_text(draft, "{");
    ss_status status = ss_model_list(&draft->model_bytes, arch, &lister, err);
    append_text(draft, "," METADATA "}");
    return status;
}

/* Returns the length to which the header is padded, so that the numbers after it are aligned like a
 * piece of an arena. */
static size_t padded_length(size_t header_bytes) {
    return (8 + header_bytes + SS_ARENA_ALIGN - 1) / SS_ARENA_ALIGN * SS_ARENA_ALIGN - 8;
}

static void write_length(unsigned char *file, size_t n) {
    for (int i = 0; i < 8; i++) file[i] = (unsigned char)((uint64_t)n >> 8 * i);
}

ss_status ss_parameters_size(size_t *bytes, size_t *numbers, size_t *panels, const ss_arch *arch,
                             ss_error *err) {
    header draft = {0};
    ss_status status = write_header(&draft, arch, err);
    if (status != SS_OK) return status;
    unsigned char length[8];
    size_t capacity = padded_length(draft.used);
    write_length(length, capacity);
    ss_arena arena = ss_arena_measure();
    ss_arena_take(&arena, 8 + capacity, 1);
    ss_arena_take(&arena, draft.floats, sizeof(float));
    ss_arena_take(&arena, ss_container_size(&(ss_bytes){length, SIZE_MAX}, 1), 1);
    ss_arena_take(&arena, draft.model_bytes, 1);
    if (arena.full)
        return ss_fail(err, SS_NO_MEMORY, "parameters", "%lu numbers do not fit this machine",
                       (unsigned long)draft.floats);
    *bytes = arena.used;
    *numbers = draft.floats;
    *panels = draft.panels;
    return SS_OK;
}

ss_status ss_parameters_make(ss_parameters *parameters, const ss_arch *arch, ss_arena *arena,
                             ss_error *err) {
    header draft = {0};
    ss_status status = write_header(&draft, arch, err);
    if (status != SS_OK) return status;
    size_t capacity = padded_length(draft.used), numbers_n = draft.floats;
    unsigned char *file = ss_arena_take(arena, 8 + capacity + numbers_n * sizeof(float), 1);
    if (!file)
        return ss_fail(err, SS_NO_MEMORY, "parameters", "no room for %lu numbers",
                       (unsigned long)numbers_n);
    draft = (header){.text = (char *)file + 8, .capacity = capacity};
    status = write_header(&draft, arch, err);
    write_length(file, capacity);
    memset(file + 8 + draft.used, ' ', capacity - draft.used);
    memset(file + 8 + capacity, 0, draft.floats * sizeof(float));
    ss_parameters result = {
        .file = {file, 8 + capacity + draft.floats * sizeof(float)},
        .numbers = (float *)(void *)(file + 8 + capacity),
        .n = draft.floats,
        .panels = draft.panels,
    };
    if (status == SS_OK) status = ss_container_open(&result.container, &result.file, 1, arena, err);
    result.container.live = true;
    if (status == SS_OK) status = ss_model_open(&result.model, arch, &result.container, arena, err);
    if (status == SS_OK) *parameters = result;
    return status;
}

static float *numbers_of(const ss_entry *entry) {
    return (float *)(uintptr_t)entry->tensor.data;
}

static bool is_addition(const char *name) {
    static const char *const names[] = {".sinks",
                                        ".bias_key",
                                        ".bias_key_value",
                                        ".value_bias",
                                        ".gate_proj.weight",
                                        ".kernel_in.weight",
                                        ".kernel_out.weight"};
    if (!strstr(name, ".self_attn.")) return ends_with(name, ".attn.sinks");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (ends_with(name, names[i])) return true;
    return false;
}

/* Returns the scales of an I8 matrix's rows, "NAME_scale", F32 [rows][1]; NULL where the file has
 * none. */
static const ss_tensor *scales_of(const ss_container *source, const ss_entry *matrix) {
    char name[160];
    snprintf(name, sizeof name, "%s_scale", matrix->name);
    const ss_entry *scales = ss_container_find(source, name);
    bool is_valid = scales && scales->readable && scales->tensor.type == SS_F32 &&
                    ss_tensor_count(&scales->tensor) == matrix->tensor.dims[0];
    return is_valid ? &scales->tensor : NULL;
}

/* Converts a tensor to floats; returns false for a type that weights do not have or that stores
 * blocks, and for I8 without scales. */
static bool unpack(float *numbers, const ss_container *source, const ss_entry *entry) {
    const ss_tensor *tensor = &entry->tensor;
    if (!entry->readable || !ss_dtype_is_weight(tensor->type) || ss_dtype_block(tensor->type) != 1)
        return false;
    ss_unpack(numbers, tensor->data, tensor->type, ss_tensor_count(tensor));
    if (tensor->type != SS_I8) return true;
    const ss_tensor *scales = tensor->rank == 2 ? scales_of(source, entry) : NULL;
    for (size_t r = 0; scales && r < tensor->dims[0]; r++) {
        float scale;
        ss_unpack(&scale, (const unsigned char *)scales->data + r * sizeof scale, SS_F32, 1);
        ss_scale(numbers + r * tensor->dims[1], scale, tensor->dims[1]);
    }
    return scales != NULL;
}

ss_status ss_parameters_copy(ss_parameters *parameters, const ss_container *source, ss_error *err) {
    for (size_t i = 0; i < parameters->container.n; i++) {
        const ss_entry *entry = &parameters->container.entries[i];
        const ss_entry *source_entry = ss_container_find(source, entry->name);
        const ss_tensor *expected = &entry->tensor;
        if (!source_entry && is_addition(entry->name)) continue;
        if (!source_entry || source_entry->tensor.rank != expected->rank ||
            memcmp(source_entry->tensor.dims, expected->dims, sizeof expected->dims) ||
            !unpack(numbers_of(entry), source, source_entry))
            return ss_fail(err, SS_BAD_TENSOR, entry->name,
                           "expected its %lu numbers as floats, or as I8 with the scales of its "
                           "rows, in the file to begin with",
                           (unsigned long)ss_tensor_count(expected));
    }
    return SS_OK;
}

/* What initial values and weight decay depend on, by parts of names. */
typedef enum tensor_kind {
    VECTOR_OF_ONES, /* gains of norms */
    VECTOR_OF_ZEROS,
    TOKEN_EMBEDDING,
    POSITION_EMBEDDING,
    MATRIX_IN_OUT, /* [in][out], like GPT-2's Conv1D */
    MATRIX
} tensor_kind;

static tensor_kind kind_of(const ss_entry *entry) {
    static const struct {
        const char *part;
        tensor_kind kind;
    } kinds[] = {{"embed_tokens", TOKEN_EMBEDDING},
                 {"wte.", TOKEN_EMBEDDING},
                 {"embed_positions", POSITION_EMBEDDING},
                 {"wpe.", POSITION_EMBEDDING},
                 {"c_attn", MATRIX_IN_OUT},
                 {"c_proj", MATRIX_IN_OUT},
                 {"c_fc", MATRIX_IN_OUT}};
    if (entry->tensor.rank < 2)
        return ends_with(entry->name, "bias") || ends_with(entry->name, "sinks") ? VECTOR_OF_ZEROS
                                                                                 : VECTOR_OF_ONES;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strstr(entry->name, kinds[i].part)) return kinds[i].kind;
    return MATRIX;
}

static double deviation_of(const ss_entry *entry, const ss_recipe *recipe) {
    tensor_kind kind = kind_of(entry);
    if (kind == TOKEN_EMBEDDING) return recipe->embedding_deviation;
    if (kind == POSITION_EMBEDDING) return recipe->position_deviation;
    if (recipe->deviation > 0.0) return recipe->deviation;
    size_t inputs = entry->tensor.dims[kind == MATRIX_IN_OUT ? 0 : 1];
    return 1.0 / sqrt(3.0 * (double)inputs);
}

void ss_parameters_draw(ss_parameters *parameters, const ss_recipe *recipe) {
    for (size_t i = 0; i < parameters->container.n; i++) {
        const ss_entry *entry = &parameters->container.entries[i];
        size_t n = ss_tensor_count(&entry->tensor);
        float *numbers = numbers_of(entry);
        ss_random random = ss_random_stream((uint64_t)recipe->seed, entry->name, 0);
        if (entry->tensor.rank < 2) {
            float value = kind_of(entry) == VECTOR_OF_ONES ? 1.0f : 0.0f;
            for (size_t j = 0; j < n; j++) numbers[j] = value;
            continue;
        }
        double deviation = deviation_of(entry, recipe);
        for (size_t j = 0; j < n; j++) numbers[j] = (float)(deviation * ss_random_normal(&random));
    }
}

double ss_parameters_decay(const ss_entry *entry, const ss_recipe *recipe) {
    switch (kind_of(entry)) {
    case VECTOR_OF_ONES:
    case VECTOR_OF_ZEROS: return 0.0;
    case TOKEN_EMBEDDING:
    case POSITION_EMBEDDING: return recipe->embedding_decay;
    default: return recipe->weight_decay;
    }
}
