/* glm: llama with rotary pairs of neighboring dimensions in a part of each head, biases of q, k
 * and v, and one matrix for gate and up. glm4: glm with more norms, after both blocks, which have
 * names of their own. */
#include "family.h"

void ss_glm_read(ss_arch *arch, ss_json *json) {
    ss_llama_defaults defaults = {
        .G = 2, .K = 128, .context = 131072, .part = 0.5, .norm_eps = 1.5625e-7};
    ss_read_llama_like(arch, json, &defaults);
    arch->attention_bias = ss_json_bool(json, "attention_bias", true);
}

void ss_glm4_read(ss_arch *arch, ss_json *json) {
    ss_glm_read(arch, json);
    arch->branch_norms = true;
}

void ss_load_glm_layer(ss_layer *layer, ss_loader *loader, const ss_arch *arch) {
    size_t D = (size_t)arch->D;
    ss_load_norm(loader, &layer->attention_norm, "layers.%d.input_layernorm", false, D);
    ss_load_llama_heads(layer, loader, arch);
    ss_load_norm(loader, &layer->ffn_norm, "layers.%d.post_attention_layernorm", false, D);
    ss_load_gate_up(&layer->ffn, loader, arch);
    if (!arch->branch_norms) return;
    ss_load_norm(loader, &layer->attention_out_norm, "layers.%d.post_self_attn_layernorm", false,
                 D);
    ss_load_norm(loader, &layer->ffn_out_norm, "layers.%d.post_mlp_layernorm", false, D);
}
