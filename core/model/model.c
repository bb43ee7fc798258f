#include "model.h"

#include "../math/scalar.h"
#include "family.h"

/* Rounded to float as the models were trained with: base^(-2j/width). */
static const float *take_rotary(ss_loader *loader, const ss_arch *arch) {
    size_t pairs = (size_t)arch->rotary_width / 2;
    float *turns = ss_arena_take(loader->arena, pairs, sizeof *turns);
    for (size_t j = 0; turns && j < pairs; j++) {
        double exponent = (double)(2 * j) / (double)arch->rotary_width;
        turns[j] = 1.0f / (float)ss_pow(arch->rotary_base, exponent);
    }
    return turns;
}

static ss_status lay_out(ss_model *model, const ss_arch *arch, const ss_container *container,
                         ss_arena *arena, ss_error *err) {
    ss_loader loader = {.container = container, .arena = arena, .prefix = "", .err = err};
    *model = (ss_model){.arch = *arch};
    ss_family_find(arch->family)->load(model, &loader);
    if (arch->positions == SS_POSITIONS_ROTARY) model->rotary = take_rotary(&loader, arch);
    model->parameters = loader.parameters;
    model->widest = loader.widest;
    if (loader.status == SS_OK && arena->full)
        return ss_fail(err, SS_NO_MEMORY, "model", "the model needs more than %lu bytes",
                       (unsigned long)arena->bytes);
    return loader.status;
}

ss_status ss_model_size(size_t *bytes, const ss_arch *arch, const ss_container *container,
                        ss_error *err) {
    ss_arena arena = ss_arena_measure();
    ss_model model;
    ss_status status = lay_out(&model, arch, container, &arena, err);
    if (status == SS_OK) *bytes = arena.used;
    return status;
}

ss_status ss_model_open(ss_model *model, const ss_arch *arch, const ss_container *container,
                        ss_arena *arena, ss_error *err) {
    ss_model opened;
    ss_status status = lay_out(&opened, arch, container, arena, err);
    if (status == SS_OK) *model = opened;
    return status;
}
