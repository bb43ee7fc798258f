/* mistral: llama whose queries see a window of recent keys; mixtral: the same with experts. */
#include "family.h"

#include <stdio.h>

/* Gives all layers the window. Refuses layer_types, which this family does not have. */
static void apply_window(ss_arch *arch, ss_json *json, int default_value) {
    arch->window = ss_read_window(json, default_value);
    ss_window_all_layers(arch);
    const cJSON *types = cJSON_GetObjectItemCaseSensitive(json->object, "layer_types");
    if (types && !cJSON_IsNull(types))
        ss_json_refuse(json, "layer_types", "one window for all layers", "which have it");
}

void ss_mistral_read(ss_arch *arch, ss_json *json) {
    ss_read_llama_like(arch, json, &(ss_llama_defaults){.G = 8, .context = 131072});
    ss_read_llama_rotary(arch, json);
    apply_window(arch, json, 4096);
}

void ss_mixtral_read(ss_arch *arch, ss_json *json) {
    ss_llama_defaults defaults = {.G = 8, .context = 131072, .theta = 1e6, .norm_eps = 1e-5};
    ss_read_llama_like(arch, json, &defaults);
    ss_read_llama_rotary(arch, json);
    apply_window(arch, json, 0);
    arch->E = ss_json_int(json, "num_local_experts", 8, 1, SS_EXPERTS_MAX);
    arch->top_k = ss_json_int(json, "num_experts_per_tok", 2, 1, arch->E);
}

/* Loads an expert, whose w1, w2 and w3 are llama's gate, down and up. */
static void load_expert(ss_ffn *expert, ss_loader *loader, const ss_arch *arch, int e) {
    size_t D = (size_t)arch->D, F = (size_t)arch->F;
    ss_linear *linears[] = {&expert->gate, &expert->down, &expert->up};
    for (int i = arch->ffn == SS_FFN_GATED ? 0 : 1; i < 3; i++) {
        char name[64];
        snprintf(name, sizeof name, "layers.%%d.block_sparse_moe.experts.%d.w%d", e, i + 1);
        ss_load_linear(loader, linears[i], name, false, i == 1 ? F : D, i == 1 ? D : F);
    }
}

static void load_layer(ss_layer *layer, ss_loader *loader, const ss_arch *arch) {
    ss_load_llama_attention(layer, loader, arch);
    ss_load_linear(loader, &layer->router, "layers.%d.block_sparse_moe.gate", false,
                   (size_t)arch->D, (size_t)arch->E);
    layer->experts = ss_load_experts(loader, arch, load_expert);
}

void ss_mixtral_load(ss_model *model, ss_loader *loader) {
    ss_load_llama_ends(model, loader);
    ss_load_layers(loader, model, load_layer);
}
