#include "parameters.h"

#include "../math/kernels.h"
#include "../math/unpack.h"
#include "../run/operation.h"
#include "random.h"

#include <stdio.h>
#include <string.h>

/* What is listed so far: the tensors, and the header of the file. Without entries they are only
 * counted, and a tensor that the model reads twice counts twice. */
typedef struct draft {
    ss_entry *entries; /* in the order of the file */
    size_t n;
    char *names, *text; /* NULL without entries */
    size_t names_n, text_n, text_capacity;
    size_t floats, panels, model_bytes;
    const ss_operation *operation;
} draft;

static bool ends_with(const char *name, const char *end) {
    size_t n = strlen(name), m = strlen(end);
    return n >= m && !strcmp(name + n - m, end);
}

/* Returns whether the file has an optional tensor: sink logits and kernels if the operation reads
 * them, any other tensor always, so that GPT-2's names get the prefix "transformer.". */
static bool has_tensor(void *context, const char *name) {
    const draft *listed = context;
    if (ends_with(name, ".sinks")) return listed->operation->parameters[0].per_head;
    if (ends_with(name, ".kernel_in.weight")) return listed->operation->feature == SS_FEATURE_MLP;
    return true;
}

static void append_text(draft *listed, const char *piece) {
    size_t n = strlen(piece);
    if (listed->text && listed->text_n + n <= listed->text_capacity)
        memcpy(listed->text + listed->text_n, piece, n);
    listed->text_n += n;
}

/* Writes ,"name":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}. */
static void append_entry(draft *listed, const ss_entry *entry) {
    char piece[256];
    const ss_tensor *tensor = &entry->tensor;
    snprintf(piece, sizeof piece, "%s\"%s\":{\"dtype\":\"F32\",\"shape\":[",
             listed->floats ? "," : "", entry->name);
    append_text(listed, piece);
    for (int i = 0; i < tensor->rank; i++) {
        snprintf(piece, sizeof piece, "%s%lu", i ? "," : "", (unsigned long)tensor->dims[i]);
        append_text(listed, piece);
    }
    snprintf(piece, sizeof piece, "],\"data_offsets\":[%lu,%lu]}", (unsigned long)entry->begin,
             (unsigned long)entry->end);
    append_text(listed, piece);
}

/* Copies a name behind those before it; returns the name itself while only counting. */
static const char *keep_name(draft *listed, const char *name) {
    size_t n = strlen(name) + 1;
    char *kept = listed->names ? listed->names + listed->names_n : NULL;
    listed->names_n += n;
    return kept ? memcpy(kept, name, n) : name;
}

static void put_tensor(void *context, const char *name, const ss_tensor *shape) {
    draft *listed = context;
    for (size_t i = 0; listed->entries && i < listed->n; i++)
        if (!strcmp(listed->entries[i].name, name)) return;
    size_t count = ss_tensor_count(shape), begin = listed->floats * sizeof(float);
    ss_entry entry = {.name = keep_name(listed, name),
                      .tensor = *shape,
                      .begin = begin,
                      .end = begin + count * sizeof(float),
                      .readable = true};
    append_entry(listed, &entry);
    if (listed->entries) listed->entries[listed->n] = entry;
    listed->n++;
    listed->floats += count;
    /* A matrix is packed as [in][out] or [out][in] and in at most three parts. After each part come
     * the rest of its last panel and the arena's gap. */
    size_t a = shape->dims[0], b = shape->rank > 1 ? shape->dims[1] : 0;
    if (b) listed->panels += count + 3 * (SS_PANEL * ss_max_size(a, b) + SS_ARENA_OVERHEAD / 4);
}

#define METADATA "\"__metadata__\":{\"format\":\"pt\"}"

static ss_status list_tensors(draft *listed, const ss_arch *arch, ss_error *err) {
    int index = ss_operation_find(arch->attention.operation);
    if (index < 0)
        return ss_fail(err, SS_UNSUPPORTED, "sinkscope.attention.operation",
                       "expected an operation of this build's table, found %s",
                       arch->attention.operation);
    listed->operation = &ss_operations(NULL)[index];
    ss_lister lister = {listed, put_tensor, has_tensor};
    append_text(listed, "{");
    ss_status status = ss_model_list(&listed->model_bytes, arch, &lister, err);
    append_text(listed, "," METADATA "}");
    return status;
}

/* Returns the length to which the header is padded, so that the numbers after it are aligned like a
 * piece of an arena. */
static size_t padded_length(size_t header_bytes) {
    return (8 + header_bytes + SS_ARENA_ALIGN - 1) / SS_ARENA_ALIGN * SS_ARENA_ALIGN - 8;
}

/* Takes the file and what describes its tensors; `counted` becomes the draft to list them into. */
static unsigned char *take_pieces(draft *counted, ss_parameters *parameters, ss_arena *arena) {
    size_t header = 8 + padded_length(counted->text_n);
    unsigned char *file = ss_arena_take(arena, header + counted->floats * sizeof(float), 1);
    ss_entry *entries = ss_arena_take(arena, counted->n, sizeof *entries);
    char *names = ss_arena_take(arena, counted->names_n, 1);
    parameters->roles = ss_arena_take(arena, counted->n, sizeof(const ss_role *));
    if (arena->block && !arena->full)
        *counted = (draft){.entries = entries,
                           .names = names,
                           .text = (char *)file + 8,
                           .text_capacity = header - 8};
    return file;
}

ss_status ss_parameters_size(size_t *bytes, size_t *numbers, size_t *panels, const ss_arch *arch,
                             ss_error *err) {
    draft counted = {0};
    ss_status status = list_tensors(&counted, arch, err);
    if (status != SS_OK) return status;
    ss_arena arena = ss_arena_measure();
    take_pieces(&counted, &(ss_parameters){0}, &arena);
    ss_arena_take(&arena, counted.n, 1); /* a byte for each tensor, which the listing has not */
    ss_arena_take(&arena, counted.model_bytes, 1);
    if (arena.full)
        return ss_fail(err, SS_NO_MEMORY, "parameters", "%lu numbers do not fit this machine",
                       (unsigned long)counted.floats);
    *bytes = arena.used + SS_ARENA_OVERHEAD; /* so that a second one may follow it */
    *numbers = counted.floats;
    *panels = counted.panels;
    return SS_OK;
}

/* What the first values and the decay of a tensor follow from. */
typedef enum kind {
    VECTOR, /* zeros */
    GAIN,   /* ones */
    MATRIX,
    MATRIX_IN_OUT, /* [in][out], like GPT-2's Conv1D */
    TOKEN_EMBEDDING,
    POSITION_EMBEDDING
} kind;

struct ss_role {
    size_t offset; /* of the pointer to the tensor, in ss_model or ss_layer */
    kind kind;
    bool is_added; /* a variant has it where the base model has none */
};

static const ss_role model_roles[] = {
    {offsetof(ss_model, embedding.w.data), TOKEN_EMBEDDING, false},
    {offsetof(ss_model, positions), POSITION_EMBEDDING, false},
    {offsetof(ss_model, norm.gain), GAIN, false}};

/* Matrices that may lie as [in][out]; all others are [out][in]. */
static const size_t linears[] = {offsetof(ss_layer, q), offsetof(ss_layer, o),
                                 offsetof(ss_layer, ffn.up), offsetof(ss_layer, ffn.down)};

static const ss_role layer_roles[] = {{offsetof(ss_layer, attention_norm.gain), GAIN, false},
                                      {offsetof(ss_layer, ffn_norm.gain), GAIN, false},
                                      {offsetof(ss_layer, sinks), VECTOR, true},
                                      {offsetof(ss_layer, bias_keys), MATRIX, true},
                                      {offsetof(ss_layer, bias_values), MATRIX, true},
                                      {offsetof(ss_layer, value_biases), MATRIX, true},
                                      {offsetof(ss_layer, gate.w.data), MATRIX, true},
                                      {offsetof(ss_layer, kernel_in.w.data), MATRIX, true},
                                      {offsetof(ss_layer, kernel_out.w.data), MATRIX, true}};

static const ss_role other_roles[] = {
    {0, VECTOR, false}, {0, MATRIX, false}, {0, MATRIX_IN_OUT, false}};

static void set_role(ss_parameters *parameters, const void *numbers, const ss_role *role) {
    const ss_container *container = &parameters->container;
    for (size_t i = 0; numbers && i < container->n; i++) {
        const ss_tensor *tensor = &container->entries[i].tensor;
        /* Positions of OPT begin inside their tensor. */
        size_t at = (size_t)((uintptr_t)numbers - (uintptr_t)tensor->data);
        if (at < ss_tensor_count(tensor) * sizeof(float)) parameters->roles[i] = role;
    }
}

static void set_roles(ss_parameters *parameters, const void *owner, const ss_role *roles,
                      size_t n) {
    for (size_t i = 0; i < n; i++) {
        const void *numbers;
        memcpy(&numbers, (const char *)owner + roles[i].offset, sizeof numbers);
        set_role(parameters, numbers, &roles[i]);
    }
}

/* Gives each tensor the role that the model, which points to it, has for it. */
static void find_roles(ss_parameters *parameters) {
    const ss_model *model = &parameters->model;
    for (size_t i = 0; i < parameters->container.n; i++)
        parameters->roles[i] = &other_roles[parameters->container.entries[i].tensor.rank > 1];
    set_roles(parameters, model, model_roles, sizeof model_roles / sizeof *model_roles);
    for (int l = 0; l < model->arch.blocks; l++) {
        const ss_layer *layer = &model->layers[l];
        set_roles(parameters, layer, layer_roles, sizeof layer_roles / sizeof *layer_roles);
        for (size_t i = 0; i < sizeof linears / sizeof *linears; i++) {
            ss_linear linear;
            memcpy(&linear, (const char *)layer + linears[i], sizeof linear);
            if (linear.w.in_out) set_role(parameters, linear.w.data, &other_roles[2]);
        }
    }
}

ss_status ss_parameters_make(ss_parameters *parameters, const ss_arch *arch, ss_arena *arena,
                             ss_error *err) {
    draft listed = {0};
    ss_status status = list_tensors(&listed, arch, err);
    if (status != SS_OK) return status;
    ss_parameters result = {0};
    unsigned char *file = take_pieces(&listed, &result, arena);
    if (arena->full)
        return ss_fail(err, SS_NO_MEMORY, "parameters", "no room for %lu numbers",
                       (unsigned long)listed.floats);
    list_tensors(&listed, arch, err); /* the first call had the same answer */
    size_t header = listed.text_capacity;
    for (int i = 0; i < 8; i++) file[i] = (unsigned char)((uint64_t)header >> 8 * i);
    memset(file + 8 + listed.text_n, ' ', header - listed.text_n);
    unsigned char *numbers = file + 8 + header;
    memset(numbers, 0, listed.floats * sizeof(float));
    for (size_t i = 0; i < listed.n; i++)
        listed.entries[i].tensor.data = numbers + listed.entries[i].begin;
    result.file = (ss_bytes){file, 8 + header + listed.floats * sizeof(float)};
    result.numbers = (float *)(void *)numbers;
    result.n = listed.floats;
    result.panels = listed.panels;
    status = ss_container_make(&result.container, (ss_entries){listed.entries, listed.n}, err);
    result.container.live = true;
    if (status == SS_OK) status = ss_model_open(&result.model, arch, &result.container, arena, err);
    if (status != SS_OK) return status;
    find_roles(&result);
    *parameters = result;
    return SS_OK;
}

static float *numbers_of(const ss_entry *entry) {
    return (float *)(uintptr_t)entry->tensor.data;
}

/* Returns the scales of an I8 matrix's rows, "NAME_scale", F32 [rows][1]; NULL without. */
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
        if (!source_entry && parameters->roles[i]->is_added) continue;
        if (!source_entry || source_entry->tensor.rank != expected->rank ||
            memcmp(source_entry->tensor.dims, expected->dims, sizeof expected->dims) ||
            !unpack(numbers_of(entry), source, source_entry))
            return ss_fail(err, SS_BAD_TENSOR, entry->name,
                           "expected %lu floats, or I8 with scales of its rows, to begin with",
                           (unsigned long)ss_tensor_count(expected));
    }
    return SS_OK;
}

/* Returns the deviation of a tensor's first values; 0 for a vector, whose values are all alike. */
static double deviation_of(const ss_parameters *parameters, size_t i, const ss_recipe *recipe) {
    const size_t *dims = parameters->container.entries[i].tensor.dims;
    kind what = parameters->roles[i]->kind;
    if (what == VECTOR || what == GAIN) return 0.0;
    if (what == TOKEN_EMBEDDING) return recipe->embedding_deviation;
    if (what == POSITION_EMBEDDING) return recipe->position_deviation;
    if (recipe->deviation > 0.0) return recipe->deviation;
    return 1.0 / sqrt(3.0 * (double)dims[what == MATRIX_IN_OUT ? 0 : 1]);
}

void ss_parameters_draw(ss_parameters *parameters, const ss_recipe *recipe) {
    for (size_t i = 0; i < parameters->container.n; i++) {
        const ss_entry *entry = &parameters->container.entries[i];
        size_t n = ss_tensor_count(&entry->tensor);
        float *numbers = numbers_of(entry);
        double deviation = deviation_of(parameters, i, recipe);
        float value = parameters->roles[i]->kind == GAIN ? 1.0f : 0.0f;
        ss_random random = ss_random_stream((uint64_t)recipe->seed, entry->name, 0);
        for (size_t j = 0; j < n; j++)
            numbers[j] =
                entry->tensor.rank < 2 ? value : (float)(deviation * ss_random_normal(&random));
    }
}

double ss_parameters_decay(const ss_parameters *parameters, size_t i, const ss_recipe *recipe) {
    switch (parameters->roles[i]->kind) {
    case VECTOR:
    case GAIN: return 0.0;
    case TOKEN_EMBEDDING:
    case POSITION_EMBEDDING: return recipe->embedding_decay;
    default: return recipe->weight_decay;
    }
}
