/* mistral: llama whose queries see a window of recent keys; mixtral: the same with experts. */
#include "family.h"

#include <stdio.h>

/* Gives all layers the window. Refuses layer_types, which this family does not have. */
static void apply_window(ss_arch *arch, ss_json *json, int default_value) {
    arch->window = ss_read_window(json, default_value);
    ss_window_all_layers(arch);
    if (ss_json_item(json, "layer_types"))
        ss_json_refuse(json, "layer_types", "one window for all layers", "which have it");
}

void ss_mistral_read(ss_arch *arch, ss_json *json) {
    ss_read_llama_like(arch, json, &(ss_llama_defaults){.G = 8, .context = 131072});
    apply_window(arch, json, 4096);
}

void ss_mixtral_read(ss_arch *arch, ss_json *json) {
    ss_llama_defaults defaults = {.G = 8, .context = 131072, .theta = 1e6, .norm_eps = 1e-5};
    ss_read_llama_like(arch, json, &defaults);
    ss_require_head_dim(json);
    apply_window(arch, json, 0);
    ss_read_experts(arch, json, "num_local_experts", 8, 2);
    ss_refuse_alias(json, "num_experts", "num_local_experts", arch->E);
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

void ss_load_mixtral_layer(ss_layer *layer, ss_loader *loader, const ss_arch *arch) {
    ss_load_llama_attention(layer, loader, arch);
    ss_load_experts(layer, loader, arch, "layers.%d.block_sparse_moe.gate", false, load_expert);
}
