#include "load.h"

#include "../math/kernels.h"
#include "../math/unpack.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef struct ss_name {
    char text[96];
} ss_name;

static ss_name full_name(const ss_loader *loader, const char *name) {
    ss_name result;
    const char *number =
        strchr(name, '%'); /* strstr would make the binary larger, and names have no other '%' */
    int prefix_n = number ? (int)(number - name) : (int)strlen(name);
    if (number)
        snprintf(result.text, sizeof result.text, "%s%.*s%d%s", loader->prefix, prefix_n, name,
                 loader->layer, number + 2);
    else
        snprintf(result.text, sizeof result.text, "%s%s", loader->prefix, name);
    return result;
}

bool ss_load_is_format(const ss_loader *loader, ss_format format) {
    return loader->container->format == format;
}

bool ss_load_has_tensor(const ss_loader *loader, const char *name) {
    ss_name tensor_name = full_name(loader, name);
    if (loader->lister) return loader->lister->has(loader->lister->context, tensor_name.text);
    return ss_container_find(loader->container, tensor_name.text) != NULL;
}

bool ss_load_has_sinks(const ss_loader *loader, const ss_arch *arch, const char *name) {
    return !strcmp(arch->attention.operation, "sink_logit") &&
           (!(arch->attention.parameters_n || arch->window_sinks) ||
            ss_load_has_tensor(loader, name));
}

static const ss_tensor *find_tensor(ss_loader *loader, const char *name,
                                    const ss_tensor *expected) {
    if (loader->status != SS_OK) return NULL;
    ss_name tensor_name = full_name(loader, name);
    if (loader->lister) {
        loader->lister->tensor(loader->lister->context, tensor_name.text, expected);
        return expected; /* without data: a listing reads none */
    }
    const ss_entry *entry = ss_container_find(loader->container, tensor_name.text);
    if (!entry) {
        loader->status = ss_fail(loader->err, SS_BAD_TENSOR, tensor_name.text,
                                 "expected a tensor of shape [%s], but the file has none",
                                 ss_tensor_shape(expected).text);
        return NULL;
    }
    if (loader->is_read) loader->is_read[entry - loader->container->entries] = 1;
    const ss_tensor *tensor = &entry->tensor;
    if (!entry->readable || !ss_dtype_is_weight(tensor->type))
        loader->status = ss_fail(loader->err, SS_BAD_TENSOR, tensor_name.text,
                                 "expected numbers of a type that weights have, found another");
    else if (!ss_tensor_shapes_equal(tensor, expected))
        loader->status =
            ss_fail(loader->err, SS_BAD_TENSOR, tensor_name.text, "expected shape [%s], found [%s]",
                    ss_tensor_shape(expected).text, ss_tensor_shape(tensor).text);
    return loader->status == SS_OK ? tensor : NULL;
}

static void check_finite(ss_loader *loader, const char *name, const ss_tensor *tensor, size_t first,
                         size_t n) {
    const unsigned char *bytes = tensor->data;
    size_t index =
        ss_first_not_finite(bytes + ss_dtype_bytes(tensor->type, first), tensor->type, n);
    if (index != SIZE_MAX && loader->status == SS_OK)
        loader->status = ss_fail(loader->err, SS_BAD_TENSOR, full_name(loader, name).text,
                                 tensor->type == SS_MXFP4
                                     ? "expected exponents of 3 to 252, but the block of number "
                                       "%lu has another"
                                     : "expected finite numbers, but number %lu is NaN or infinite",
                                 (unsigned long)(first + index));
}

/* Takes floats from the arena; NULL while measuring, or with an error if it is full. */
static float *take_floats(ss_loader *loader, size_t count) {
    float *numbers = ss_arena_take(loader->arena, count, sizeof *numbers);
    if (loader->arena->full && loader->status == SS_OK)
        loader->status = ss_fail(loader->err, SS_NO_MEMORY, "model", "no room for %lu numbers",
                                 (unsigned long)count);
    return numbers;
}

/* Returns true if stored numbers are the weights, without scales of blocks or rows. */
static bool is_plain(ss_dtype type) {
    return ss_dtype_block(type) == 1 && type != SS_I8;
}

/* Checks that rows consist of whole blocks, and that I8 is the type of a matrix. */
static bool check_rows(ss_loader *loader, const char *name, const ss_tensor *tensor) {
    size_t last = tensor->rank ? tensor->dims[tensor->rank - 1] : 1,
           block = ss_dtype_block(tensor->type);
    if (tensor->type == SS_I8 && tensor->rank != 2)
        loader->status = ss_fail(loader->err, SS_BAD_TENSOR, full_name(loader, name).text,
                                 "expected I8 in a matrix only");
    if (last % block)
        loader->status =
            ss_fail(loader->err, SS_BAD_TENSOR, full_name(loader, name).text,
                    "expected rows of whole %s blocks of %lu, found rows of %lu",
                    ss_dtype_name(tensor->type), (unsigned long)block, (unsigned long)last);
    return loader->status == SS_OK;
}

/* Returns the scales [rows] of an I8 tensor; NULL for others, while measuring, or on error. */
static const float *load_scales(ss_loader *loader, const char *name, const ss_tensor *tensor) {
    if (tensor->type != SS_I8) return NULL;
    size_t rows = tensor->dims[0];
    ss_name scale;
    snprintf(scale.text, sizeof scale.text, "%s_scale", name);
    const ss_tensor *scale_tensor =
        find_tensor(loader, scale.text, &(ss_tensor){.rank = 2, .dims = {rows, 1}});
    if (!scale_tensor) return NULL;
    bool is_valid = scale_tensor->type == SS_F32;
    float *scales = is_valid ? take_floats(loader, rows) : NULL;
    if (scales) ss_unpack(scales, scale_tensor->data, SS_F32, rows);
    for (size_t r = 0; scales && r < rows; r++) is_valid &= isfinite(scales[r] * 128.0f) != 0;
    if (!is_valid)
        loader->status = ss_fail(loader->err, SS_BAD_TENSOR, full_name(loader, scale.text).text,
                                 "expected scales in F32 that are finite 128 times over");
    return scales;
}

/* Returns the tensor's numbers from `first` on, in the file's bytes; NULL for a listed tensor,
 * which has no data, and, with an error, for numbers that are not aligned floats. */
static float *numbers_in_place(ss_loader *loader, const char *name, const ss_tensor *tensor,
                               size_t first) {
    uintptr_t address = (uintptr_t)tensor->data;
    if (tensor->type == SS_F32 && address % sizeof(float) == 0)
        return address ? (float *)address + first : NULL;
    loader->status = ss_fail(loader->err, SS_UNSUPPORTED, full_name(loader, name).text,
                             "expected F32 numbers that can be changed in place, found %s",
                             ss_dtype_name(tensor->type));
    return NULL;
}

/* Returns the numbers of a tensor of that shape as floats; in type I8, each of the `rows` rows of n
 * numbers is multiplied by its scale. */
static float *load_as_floats(ss_loader *loader, const char *name, const ss_tensor *shape,
                             size_t rows, size_t n) {
    const ss_tensor *tensor = find_tensor(loader, name, shape);
    if (!tensor || !check_rows(loader, name, tensor)) return NULL;
    size_t count = ss_tensor_count(tensor);
    loader->parameters += count;
    if (loader->container->live) return numbers_in_place(loader, name, tensor, 0);
    const float *scales = load_scales(loader, name, tensor);
    float *numbers = take_floats(loader, count);
    if (!numbers) return NULL;
    check_finite(loader, name, tensor, 0, count);
    ss_unpack(numbers, tensor->data, tensor->type, count);
    for (size_t r = 0; scales && r < rows; r++) ss_scale(numbers + r * n, scales[r], n);
    return numbers;
}

float *ss_load_numbers(ss_loader *loader, const char *name, size_t rows, size_t n) {
    ss_tensor shape = {.rank = 1, .dims = {n}};
    if (rows) shape = (ss_tensor){.rank = 2, .dims = {rows, n}};
    if (n == 0) shape = (ss_tensor){.rank = 0};
    return load_as_floats(loader, name, &shape, rows, n);
}

float *ss_load_taps(ss_loader *loader, const char *name, size_t channels, size_t kernel) {
    ss_tensor shape = {.rank = 3, .dims = {channels, 1, kernel}};
    if (ss_load_is_format(loader, SS_GGUF))
        shape = (ss_tensor){.rank = 2, .dims = {channels, kernel}};
    return load_as_floats(loader, name, &shape, 0, kernel);
}

float *ss_load_ones(ss_loader *loader, size_t n) {
    float *ones = take_floats(loader, n);
    for (size_t i = 0; ones && i < n; i++) ones[i] = 1.0f;
    return ones;
}

static const float *load_bias(ss_loader *loader, const ss_matrix *w, const ss_place *place,
                              const char *name) {
    ss_tensor shape = {.rank = 1, .dims = {w->total}};
    if (place->slices) shape = (ss_tensor){.rank = 2, .dims = {place->slices, w->total}};
    const ss_tensor *tensor = find_tensor(loader, name, &shape);
    if (!tensor || !check_rows(loader, name, tensor)) return NULL;
    if (!is_plain(tensor->type)) {
        loader->status = ss_fail(loader->err, SS_BAD_TENSOR, full_name(loader, name).text,
                                 "expected a bias of F32, F16 or BF16 numbers, found %s",
                                 ss_dtype_name(tensor->type));
        return NULL;
    }
    loader->parameters += w->out;
    if (loader->container->live) return numbers_in_place(loader, name, tensor, w->first);
    float *numbers = take_floats(loader, w->out);
    const unsigned char *bytes = tensor->data;
    for (size_t n = 0; numbers && n < w->out; n++) {
        size_t i = place->slice * w->total + ss_matrix_place(w, n);
        check_finite(loader, name, tensor, i, 1);
        ss_unpack(numbers + n, bytes + ss_dtype_bytes(tensor->type, i), tensor->type, 1);
    }
    return numbers;
}

static ss_matrix matrix_at(const ss_tensor *tensor, const ss_place *place, size_t total) {
    size_t slice = place->slice * total * place->in;
    const unsigned char *data = tensor->data;
    return (ss_matrix){
        /* Listed tensors (ss_model_list) have no data. */
        .data = data ? data + ss_dtype_bytes(tensor->type, slice) : NULL,
        .type = tensor->type,
        .in = place->in,
        .out = place->out,
        .total = total,
        .first = place->first,
        .group = place->group ? place->group : place->out,
        .step = place->group ? place->step : place->out,
        .pair = place->pair,
        .unpaired = place->unpaired,
        .pairs_last = place->pairs_last,
        .halves = place->halves,
        .in_out = place->layout == SS_IN_OUT,
    };
}

void ss_load_matrix(ss_loader *loader, ss_linear *linear, const ss_place *place, const char *name,
                    const char *bias) {
    bool is_out_in = place->layout == SS_OUT_IN;
    size_t total = place->total ? place->total : place->out, in = place->in;
    ss_tensor shape = {.rank = 2, .dims = {is_out_in ? total : in, is_out_in ? in : total}};
    if (place->slices)
        shape = (ss_tensor){
            .rank = 3, .dims = {place->slices, is_out_in ? total : in, is_out_in ? in : total}};
    const ss_tensor *tensor = find_tensor(loader, name, &shape);
    if (!tensor || !check_rows(loader, name, tensor)) return;
    if (!is_out_in && !is_plain(tensor->type)) {
        loader->status =
            ss_fail(loader->err, SS_UNSUPPORTED, full_name(loader, name).text,
                    "expected a matrix of %s to lie as [out][in]", ss_dtype_name(tensor->type));
        return;
    }
    loader->parameters += in * place->out;
    if (loader->widest < in) loader->widest = in;
    *linear = (ss_linear){.w = matrix_at(tensor, place, total)};
    if (loader->container->live) numbers_in_place(loader, name, tensor, 0);
    linear->w.scales = load_scales(loader, name, tensor);
    /* A tensor that several matrices share is checked once, with the matrix that has its first
     * output. */
    if (loader->arena->block && place->first == 0 && place->slice == 0)
        check_finite(loader, name, tensor, 0, ss_tensor_count(tensor));
    if (loader->container->live && (linear->w.group != linear->w.out || linear->w.pair))
        loader->status = ss_fail(loader->err, SS_UNSUPPORTED, full_name(loader, name).text,
                                 "expected outputs side by side that can be changed in place");
    if (bias) linear->bias = load_bias(loader, &linear->w, place, bias);
}

float *ss_load_head_vectors(ss_loader *loader, const char *name, ss_owner owner, size_t heads,
                            size_t n) {
    if (owner == SS_OWNER_NONE) return NULL;
    return ss_load_numbers(loader, name, owner == SS_OWNER_HEAD ? heads : 1, n);
}

static ss_name suffixed_name(const char *name, const char *suffix) {
    ss_name result;
    snprintf(result.text, sizeof result.text, "%s.%s", name, suffix);
    return result;
}

void ss_load_linear_at(ss_loader *loader, ss_linear *linear, const char *name, bool has_bias,
                       const ss_place *place) {
    ss_name weight = suffixed_name(name, "weight"), bias = suffixed_name(name, "bias");
    ss_load_matrix(loader, linear, place, weight.text, has_bias ? bias.text : NULL);
}

void ss_load_qkv(ss_loader *loader, ss_layer *layer, const ss_arch *arch, const char *name,
                 ss_layout layout, bool by_group) {
    size_t K = (size_t)arch->K, G = (size_t)arch->G, queries = (size_t)arch->H / G * K;
    size_t step = queries + 2 * K;
    bool is_grouped = by_group && !ss_load_is_format(loader, SS_GGUF);
    ss_linear *linears[] = {&layer->q, &layer->k, &layer->v};
    for (size_t i = 0; i < 3; i++) {
        size_t group = i ? K : queries, first = i ? queries + (i - 1) * K : 0;
        ss_place place = {.layout = layout,
                          .in = (size_t)arch->D,
                          .out = G * group,
                          .total = G * step,
                          .first = is_grouped ? first : G * first,
                          .group = is_grouped ? group : 0,
                          .step = is_grouped ? step : 0};
        ss_load_linear_at(loader, linears[i], name, arch->attention_bias, &place);
    }
}

void ss_load_linear(ss_loader *loader, ss_linear *linear, const char *name, bool has_bias,
                    size_t in, size_t out) {
    ss_load_linear_at(loader, linear, name, has_bias, &(ss_place){.in = in, .out = out});
}

void ss_load_norm(ss_loader *loader, ss_norm *norm, const char *name, bool has_bias, size_t n) {
    norm->gain = ss_load_numbers(loader, suffixed_name(name, "weight").text, 0, n);
    if (has_bias) norm->bias = ss_load_numbers(loader, suffixed_name(name, "bias").text, 0, n);
}

/* Number of weights that are unpacked at a time: a multiple of the block of every type, so that
 * blocks stay whole. */
#define WEIGHTS_AT_ONCE 256

static void unpack_row(float *out, const ss_matrix *w, size_t row, size_t first, size_t n) {
    const unsigned char *data = w->data;
    ss_unpack(out, data + ss_dtype_bytes(w->type, row * w->in + first), w->type, n);
    if (w->scales) ss_scale(out, w->scales[row], n);
}

/* If the config ties the head to the embedding and the file nevertheless has a head, checks that
 * the two are equal. */
static void check_tied(ss_loader *loader, const ss_matrix *head, const ss_matrix *embedding,
                       const char *name) {
    float a[WEIGHTS_AT_ONCE], b[WEIGHTS_AT_ONCE];
    size_t bytes = ss_dtype_bytes(head->type, head->out * head->in);
    if (head->type == embedding->type && !head->scales &&
        !memcmp(head->data, embedding->data, bytes))
        return;
    for (size_t row = 0; row < head->out && loader->status == SS_OK; row++)
        for (size_t first = 0; first < head->in && loader->status == SS_OK;
             first += WEIGHTS_AT_ONCE) {
            size_t n = ss_min_size(head->in - first, WEIGHTS_AT_ONCE), i = 0;
            unpack_row(a, head, row, first, n);
            unpack_row(b, embedding, row, first, n);
            while (i < n && a[i] == b[i]) i++;
            if (i < n)
                loader->status = ss_fail(
                    loader->err, SS_BAD_TENSOR, suffixed_name(name, "weight").text,
                    "expected the numbers of the token embedding, for tie_word_embeddings is true, "
                    "found others in row %lu, column %lu: remove this tensor, or set it to false",
                    (unsigned long)row, (unsigned long)(first + i));
        }
}

static bool has_prefix(const ss_container *container, const char *prefix) {
    size_t n = strlen(prefix);
    for (size_t i = 0; n && i < container->n; i++)
        if (!strncmp(container->entries[i].name, prefix, n)) return true;
    return false;
}

void ss_load_find_prefix(ss_loader *loader, const char *name) {
    const char *const *prefixes = loader->prefixes;
    for (loader->prefix = *prefixes; *prefixes && !loader->lister; prefixes++) {
        loader->prefix = *prefixes;
        if (ss_load_has_tensor(loader, name)) return;
    }
    if (loader->lister) return;
    loader->prefix = "";
    if (ss_load_has_tensor(loader, name)) return;
    for (prefixes = loader->prefixes; *prefixes; prefixes++)
        if (has_prefix(loader->container, *prefixes)) break;
    loader->prefix = *prefixes ? *prefixes : *loader->prefixes;
}

void ss_load_embeddings(ss_loader *loader, ss_model *model, const char *embedding,
                        const char *head) {
    ss_name weight = suffixed_name(embedding, "weight"), other = suffixed_name(head, "weight");
    ss_load_find_prefix(loader, weight.text);
    const char *prefix = loader->prefix, *name = embedding;
    if (model->arch.tied && !loader->lister && !ss_load_has_tensor(loader, weight.text) &&
        ss_container_find(loader->container, other.text)) {
        name = head;
        if (!has_prefix(loader->container, prefix)) prefix = "";
        loader->prefix = "";
    }
    ss_load_linear(loader, &model->embedding, name, false, (size_t)model->arch.embedding_width,
                   (size_t)model->arch.V);
    loader->prefix = prefix;
    ss_load_head(loader, model, head);
}

void ss_load_head(ss_loader *loader, ss_model *model, const char *name) {
    const char *prefix = loader->prefix;
    size_t parameters = loader->parameters, V = (size_t)model->arch.V;
    ss_name weight = suffixed_name(name, "weight"), bias = suffixed_name(name, "bias");
    ss_linear head = {0};
    bool is_tied = model->arch.tied, is_file = !loader->lister;
    /* The head of a multimodal file may have the prefix of its language model. */
    loader->prefix = "language_model.";
    if (!is_file || !ss_load_has_tensor(loader, weight.text)) loader->prefix = "";
    /* A listing has one tensor for embedding and tied head, and always an untied head. A file may
     * have a tied head twice, and lack an untied one or the bias. */
    bool is_stored = is_file ? ss_load_has_tensor(loader, weight.text) : !is_tied;
    bool has_bias =
        model->arch.head_bias && (is_stored || !is_file || ss_load_has_tensor(loader, bias.text));
    if (is_stored)
        ss_load_linear(loader, &head, name, false, (size_t)model->arch.embedding_width, V);
    if (is_tied && is_stored && loader->arena->block && loader->status == SS_OK)
        check_tied(loader, &head.w, &model->embedding.w, name);
    if (is_tied) {
        head = model->embedding;
        loader->parameters = parameters;
    }
    if (has_bias) head.bias = ss_load_numbers(loader, bias.text, 0, V);
    model->headless = !(is_tied || is_stored) || has_bias != model->arch.head_bias;
    model->head = model->headless ? (ss_linear){0} : head;
    loader->prefix = prefix;
}

/* Takes n zeroed pieces of a model; NULL while measuring, or with an error if it is full. */
static void *take_zeroed(ss_loader *loader, const char *label, int n, size_t size) {
    void *pieces = ss_arena_take(loader->arena, (size_t)n, size);
    if (pieces)
        memset(pieces, 0, (size_t)n * size);
    else if (loader->arena->full && loader->status == SS_OK)
        loader->status = ss_fail(loader->err, SS_NO_MEMORY, "model", "no room for %d %s", n, label);
    return pieces;
}

void ss_load_layers(ss_loader *loader, ss_model *model, ss_load_layer *load) {
    int blocks = model->arch.blocks;
    model->layers = take_zeroed(loader, "layers", blocks, sizeof *model->layers);
    for (int l = 0; l < blocks && loader->status == SS_OK; l++) {
        ss_layer scratch = {0};
        loader->layer = l;
        load(model->layers ? &model->layers[l] : &scratch, loader, &model->arch);
    }
}

void ss_load_experts(ss_layer *layer, ss_loader *loader, const ss_arch *arch, const char *router,
                     bool has_bias, ss_load_expert *load) {
    ss_load_linear(loader, &layer->router, router, has_bias, (size_t)arch->D, (size_t)arch->E);
    ss_ffn *experts = take_zeroed(loader, "experts", arch->E, sizeof *experts);
    for (int e = 0; e < arch->E && loader->status == SS_OK; e++) {
        ss_ffn scratch = {0};
        load(experts ? &experts[e] : &scratch, loader, arch, e);
    }
    layer->experts = experts;
}

/* A tensor is ignored if its name has one of these parts at its beginning or after a dot. First
 * come buffers that the core computes itself (rope_freqs of a GGUF file has become part of the
 * config), then weights for tasks other than predicting the next token or masked ones. */
static const char ignored_names[] =
    "rotary_emb.inv_freq\0attn.bias\0attention.bias\0attn.masked_bias\0"
    "attn.causal_mask\0"
    "attention.masked_bias\0position_ids\0rope_freqs.\0"
    "pooler.\0seq_relationship.\0classifier.\0qa_outputs.\0score.\0"
    "vision_tower.\0multi_modal_projector.\0visual.\0mtp.\0";

static bool is_ignored(const char *name) {
    for (const char *dot = NULL;; name = dot + 1) {
        for (const char *part = ignored_names; *part; part += strlen(part) + 1)
            if (!strncmp(name, part, strlen(part))) return true;
        dot = strchr(name, '.');
        if (!dot) return false;
    }
}

void ss_load_begin(ss_loader *loader) {
    size_t n = loader->lister ? 0 : loader->container->n;
    loader->is_read = ss_arena_take(loader->arena, n, 1);
    if (loader->is_read) memset(loader->is_read, 0, n);
}

void ss_refuse_unread_tensors(ss_loader *loader, const ss_arch *arch) {
    const ss_container *container = loader->container;
    for (size_t i = 0; loader->is_read && i < container->n && loader->status == SS_OK; i++) {
        const char *name = container->entries[i].name;
        if (!loader->is_read[i] && !is_ignored(name))
            loader->status =
                ss_fail(loader->err, SS_UNSUPPORTED, name,
                        "expected a tensor that a %s of this config reads", arch->family);
    }
}
