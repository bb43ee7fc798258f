/*
 * nemotron (Minitron): llama with LayerNorms whose gain is 1 + w, a feed-forward without gate and
 * with the square of relu, and rotary positions in a part of each head.
 */
#include "family.h"

void ss_nemotron_read(ss_arch *arch, ss_json *json) {
    ss_read_llama_like(arch, json, &(ss_llama_defaults){.context = 4096, .activation = "relu2"});
    arch->rotary.part = 0.5;
    ss_read_partial_rotary(arch, json);
    ss_read_llama_biases(arch, json);
    arch->norm = SS_NORM_LAYER;
    arch->norm_eps = (float)ss_json_number(json, "norm_eps", 1e-5, 0.0, 1.0);
    arch->ffn = SS_FFN_PLAIN;
    ss_check_plain(arch, json, "hidden_act");
}

static void load_layer(ss_layer *layer, ss_loader *loader, const ss_arch *arch) {
    ss_load_llama_attention(layer, loader, arch);
    ss_add_one(loader, &layer->attention_norm, arch->D);
    ss_add_one(loader, &layer->ffn_norm, arch->D);
    ss_load_llama_ffn(&layer->ffn, loader, "layers.%d.mlp", arch, (size_t)arch->F);
}

void ss_nemotron_load(ss_model *model, ss_loader *loader) {
    ss_load_llama_ends(model, loader);
    ss_add_one(loader, &model->norm, model->arch.D);
    ss_load_layers(loader, model, load_layer);
}
