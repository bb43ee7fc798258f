#include "model.h"

#include "../math/pack.h"
#include "families/family.h"
#include "rotary.h"

static const float *take_frequencies(ss_loader *loader, const ss_rotary *rotary, size_t pairs) {
    float *frequencies = ss_arena_take(loader->arena, pairs, sizeof *frequencies);
    if (frequencies) ss_rotary_frequencies(frequencies, rotary, 2 * (int)pairs);
    return frequencies;
}

static ss_status lay_out(ss_model *model, const ss_arch *arch, const ss_container *container,
                         const ss_lister *lister, ss_arena *arena, ss_error *err) {
    static const char *const prefixes[] = {"model.", NULL};
    ss_loader loader = {.container = container,
                        .lister = lister,
                        .arena = arena,
                        .prefixes = prefixes,
                        .prefix = "",
                        .err = err};
    *model = (ss_model){.arch = *arch};
    ss_load_begin(&loader);
    const ss_family *family = ss_family_find(arch->family);
    family->load_ends(model, &loader);
    ss_load_layers(&loader, model, family->load_layer);
    if (arch->rotary_width)
        model->rotary = take_frequencies(&loader, &arch->rotary, ss_arch_pairs(arch, false));
    if (arch->has_window_rotary)
        model->window_rotary =
            take_frequencies(&loader, &arch->window_rotary, ss_arch_pairs(arch, true));
    model->parameters = loader.parameters;
    model->widest = loader.widest;
    ss_refuse_unread_tensors(&loader, arch);
    if (loader.status == SS_OK && arena->full)
        return ss_fail(err, SS_NO_MEMORY, "model", "the model needs more than %lu bytes",
                       (unsigned long)arena->bytes);
    return loader.status;
}

static ss_status measure(size_t *bytes, const ss_arch *arch, const ss_container *container,
                         const ss_lister *lister, ss_error *err) {
    ss_arena arena = ss_arena_measure();
    ss_model model;
    ss_status status = lay_out(&model, arch, container, lister, &arena, err);
    if (status == SS_OK) *bytes = arena.used;
    return status;
}

ss_status ss_model_size(size_t *bytes, const ss_arch *arch, const ss_container *container,
                        ss_error *err) {
    return measure(bytes, arch, container, NULL, err);
}

ss_status ss_model_open(ss_model *model, const ss_arch *arch, const ss_container *container,
                        ss_arena *arena, ss_error *err) {
    ss_model result;
    ss_status status = lay_out(&result, arch, container, NULL, arena, err);
    if (status == SS_OK) *model = result;
    return status;
}

ss_status ss_model_list(size_t *bytes, const ss_arch *arch, const ss_lister *lister,
                        ss_error *err) {
    ss_container empty_container = {.format = SS_SAFETENSORS, .live = true};
    return measure(bytes, arch, &empty_container, lister, err);
}

typedef void visitor(ss_linear *linear, ss_arena *arena, float *work);

static void visit_ffn(ss_ffn *ffn, visitor *visit, ss_arena *arena, float *work) {
    visit(&ffn->gate, arena, work);
    visit(&ffn->up, arena, work);
    visit(&ffn->down, arena, work);
}

static void visit_large_matrices(ss_model *model, visitor *visit, ss_arena *arena, float *work) {
    visit(&model->head, arena, work);
    visit(&model->head_in, arena, work);
    for (int l = 0; l < model->arch.blocks; l++) {
        ss_layer *layer = &model->layers[l];
        ss_mixer *mixer = &layer->mixer;
        ss_linear *linears[] = {&layer->q,        &layer->k,         &layer->v,        &layer->o,
                                &layer->q_latent, &layer->kv_latent, &layer->k_shared, &layer->gate,
                                &mixer->q,        &mixer->k,         &mixer->v,        &mixer->z,
                                &mixer->out};
        for (size_t i = 0; i < sizeof linears / sizeof *linears; i++)
            visit(linears[i], arena, work);
        visit_ffn(&layer->ffn, visit, arena, work);
        for (int e = 0; layer->experts && e < model->arch.E; e++)
            visit_ffn(&layer->experts[e], visit, arena, work);
    }
}

static void take_panels(ss_linear *linear, ss_arena *arena, float *work) {
    ss_matrix *w = &linear->w;
    (void)work;
    if (!w->data || ss_matrix_is_fixed(w)) return; /* products in fixed point read no panels */
    float *panels = ss_arena_take(arena, ss_panels_floats(w->out, w->in), sizeof *panels);
    if (panels) ss_matrix_unpack(panels, w);
    w->panels = panels;
}

void ss_model_keep_panels(ss_model *model, ss_arena *arena) {
    visit_large_matrices(model, take_panels, arena, NULL);
    for (int l = 0; l < model->arch.blocks; l++) {
        ss_layer *layer = &model->layers[l];
        ss_linear *small_linears[] = {&layer->kernel_in,   &layer->kernel_out, &layer->router,
                                      &layer->shared_gate, &layer->mixer.beta, &layer->mixer.step};
        for (size_t i = 0; i < sizeof small_linears / sizeof *small_linears; i++)
            take_panels(small_linears[i], arena, NULL);
    }
}

static void interleave(ss_linear *linear, ss_arena *arena, float *work) {
    (void)arena;
    ss_matrix_interleave(&linear->w, work);
}

static void measure_work(ss_linear *linear, ss_arena *arena, float *work) {
    size_t floats = ss_matrix_interleave_work(&linear->w);
    (void)work;
    if (arena->used < floats) arena->used = floats;
}

size_t ss_model_interleave_work(ss_model *model) {
    ss_arena arena = ss_arena_measure();
    visit_large_matrices(model, measure_work, &arena, NULL);
    return arena.used;
}

void ss_model_interleave(ss_model *model, float *work) {
    visit_large_matrices(model, interleave, NULL, work);
    /* A tied head shares the bytes of the embedding. */
    if (model->embedding.w.data == model->head.w.data)
        model->embedding.w.interleaved = model->head.w.interleaved;
}
