#include "load.h"

#include "../math/pack.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef struct ss_name {
    char text[96];
} ss_name;

/* prefix + name, with the layer's number for "%d". */
static ss_name full_name(const ss_loader *loader, const char *name) {
    ss_name full;
    const char *number = strstr(name, "%d");
    int before = number ? (int)(number - name) : (int)strlen(name);
    if (number)
        snprintf(full.text, sizeof full.text, "%s%.*s%d%s", loader->prefix, before, name,
                 loader->layer, number + 2);
    else
        snprintf(full.text, sizeof full.text, "%s%s", loader->prefix, name);
    return full;
}

bool ss_load_has(const ss_loader *loader, const char *name) {
    return ss_container_find(loader->container, full_name(loader, name).text) != NULL;
}

static void shape_text(char *text, size_t bytes, const ss_tensor *tensor) {
    size_t used = 0;
    text[0] = 0;
    for (int i = 0; i < tensor->rank && used < bytes; i++)
        used += (size_t)snprintf(text + used, bytes - used, "%s%lu", i ? ", " : "",
                                 (unsigned long)tensor->dims[i]);
}

/* The tensor of that name if it has dtype and shape as expected; else NULL and the error. */
static const ss_tensor *find(ss_loader *loader, const char *name, const ss_tensor *expected) {
    if (loader->status != SS_OK) return NULL;
    ss_name full = full_name(loader, name);
    const ss_entry *entry = ss_container_find(loader->container, full.text);
    char want[64], have[96];
    shape_text(want, sizeof want, expected);
    if (!entry) {
        loader->status = ss_fail(loader->err, SS_BAD_TENSOR, full.text,
                                 "expected a tensor of shape [%s], but the file has none", want);
        return NULL;
    }
    const ss_tensor *tensor = &entry->tensor;
    shape_text(have, sizeof have, tensor);
    bool same = tensor->rank == expected->rank &&
                !memcmp(tensor->dims, expected->dims, sizeof(size_t) * (size_t)tensor->rank);
    if (!entry->readable || tensor->type == SS_I32)
        loader->status = ss_fail(loader->err, SS_BAD_TENSOR, full.text,
                                 "expected F32, F16 or BF16 numbers, found another dtype");
    else if (!same)
        loader->status = ss_fail(loader->err, SS_BAD_TENSOR, full.text,
                                 "expected shape [%s], found [%s]", want, have);
    return loader->status == SS_OK ? tensor : NULL;
}

/* first is where the packed part begins in the tensor, so that the index names the file's number.
 */
static void check_finite(ss_loader *loader, const char *name, size_t bad, size_t first) {
    if (bad != SIZE_MAX && loader->status == SS_OK)
        loader->status = ss_fail(loader->err, SS_BAD_TENSOR, full_name(loader, name).text,
                                 "expected finite numbers, but number %lu is NaN or infinite",
                                 (unsigned long)(bad + first));
}

/* Takes count floats; NULL while measuring or, with an error, when the arena is full. */
static float *take(ss_loader *loader, size_t count) {
    float *numbers = ss_arena_take(loader->arena, count, sizeof *numbers);
    if (loader->arena->full && loader->status == SS_OK)
        loader->status = ss_fail(loader->err, SS_NO_MEMORY, "model", "no room for %lu numbers",
                                 (unsigned long)count);
    return numbers;
}

static const float *load_part(ss_loader *loader, const char *name, const ss_tensor *expected,
                              size_t first, size_t n) {
    const ss_tensor *tensor = find(loader, name, expected);
    if (!tensor) return NULL;
    loader->parameters += n;
    float *numbers = take(loader, n);
    const unsigned char *bytes = tensor->data;
    if (numbers)
        check_finite(loader, name,
                     ss_unpack_floats(numbers, bytes + first * ss_dtype_bytes(tensor->type),
                                      tensor->type, n),
                     first);
    return numbers;
}

const float *ss_load_numbers(ss_loader *loader, const char *name, size_t rows, size_t n) {
    ss_tensor shape = {.rank = 1, .dims = {n}};
    if (rows) shape = (ss_tensor){.rank = 2, .dims = {rows, n}};
    return load_part(loader, name, &shape, 0, rows ? rows * n : n);
}

void ss_load_columns(ss_loader *loader, ss_linear *linear, ss_layout layout, const char *name,
                     const char *bias, size_t in, size_t total, size_t first, size_t out) {
    bool out_in = layout == SS_OUT_IN;
    ss_tensor shape = {.rank = 2, .dims = {out_in ? total : in, out_in ? in : total}};
    const ss_tensor *tensor = find(loader, name, &shape);
    if (!tensor) return;
    loader->parameters += in * out;
    float *panels = take(loader, ss_panels_floats(out, in));
    size_t start = first * (out_in ? in : 1);
    const unsigned char *bytes = tensor->data;
    if (panels)
        check_finite(loader, name,
                     ss_pack(panels, bytes + start * ss_dtype_bytes(tensor->type), tensor->type,
                             out, in, out_in ? in : 1, out_in ? 1 : total),
                     start);
    *linear = (ss_linear){.panels = panels, .in = in, .out = out};
    if (bias)
        linear->bias =
            load_part(loader, bias, &(ss_tensor){.rank = 1, .dims = {total}}, first, out);
}

void ss_load_linear(ss_loader *loader, ss_linear *linear, ss_layout layout, const char *name,
                    const char *bias, size_t in, size_t out) {
    ss_load_columns(loader, linear, layout, name, bias, in, out, 0, out);
}

ss_layer *ss_load_layers(ss_loader *loader, int L) {
    ss_layer *layers = ss_arena_take(loader->arena, (size_t)L, sizeof *layers);
    if (layers)
        memset(layers, 0, (size_t)L * sizeof *layers);
    else if (loader->arena->full && loader->status == SS_OK)
        loader->status = ss_fail(loader->err, SS_NO_MEMORY, "model", "no room for %d layers", L);
    return layers;
}

ss_layer *ss_load_layer(ss_loader *loader, ss_layer *layers, ss_layer *spare, int l) {
    loader->layer = l;
    return layers ? &layers[l] : spare;
}
