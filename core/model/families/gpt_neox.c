/*
 * gpt_neox (Pythia): LayerNorm, rotary positions in a part of each head, attention and feed-forward
 * in parallel, and one matrix for q, k and v, head by head.
 */
#include "family.h"

#include <math.h>

static void read_sizes(ss_arch *arch, ss_json *json) {
    ss_read_heads(arch, json, "num_hidden_layers", "num_attention_heads", "hidden_size");
    arch->F = ss_json_int(json, "intermediate_size", SS_JSON_REQUIRED, 1, SS_FFN_MAX);
    arch->V = ss_json_int(json, "vocab_size", SS_JSON_REQUIRED, 1, SS_VOCABULARY_MAX);
    arch->context = ss_json_int(json, "max_position_embeddings", 2048, 1, SS_CONTEXT_MAX);
    ss_check_width(arch, json, "num_attention_heads", "hidden_size");
}

static void read_positions(ss_arch *arch, ss_json *json) {
    arch->positions = SS_POSITIONS_ROTARY;
    arch->rotary.base = ss_json_number(json, "rotary_emb_base", 10000.0, 1.0, 1e12);
    arch->rotary.part = ss_json_number(json, "rotary_pct", 0.25, 0.0, 1.0);
    ss_read_partial_rotary(arch, json);
}

void ss_gpt_neox_read(ss_arch *arch, ss_json *json) {
    read_sizes(arch, json);
    read_positions(arch, json);
    arch->norm = SS_NORM_LAYER;
    arch->norm_eps = (float)ss_json_number(json, "layer_norm_eps", 1e-5, 0.0, 1.0);
    arch->parallel = ss_json_bool(json, "use_parallel_residual", true);
    arch->ffn = SS_FFN_PLAIN;
    arch->activation = ss_read_activation(json, "hidden_act", "gelu");
    ss_check_plain(arch, json, "hidden_act");
    arch->score_scale = (float)(1.0 / sqrt((double)arch->K));
    arch->attention_bias = ss_json_bool(json, "attention_bias", true);
    arch->output_bias = arch->attention_bias;
    arch->ffn_bias = true;
    arch->tied = ss_json_bool(json, "tie_word_embeddings", false);
}

static void load_layer(ss_layer *layer, ss_loader *loader, const ss_arch *arch) {
    size_t D = (size_t)arch->D, F = (size_t)arch->F;
    ss_load_norm(loader, &layer->attention_norm, "layers.%d.input_layernorm", true, D);
    ss_load_qkv(loader, layer, arch, "layers.%d.attention.query_key_value", SS_OUT_IN, true);
    ss_load_linear(loader, &layer->o, "layers.%d.attention.dense", arch->output_bias, D, D);
    ss_load_norm(loader, &layer->ffn_norm, "layers.%d.post_attention_layernorm", true, D);
    ss_load_linear(loader, &layer->ffn.up, "layers.%d.mlp.dense_h_to_4h", true, D, F);
    ss_load_linear(loader, &layer->ffn.down, "layers.%d.mlp.dense_4h_to_h", true, F, D);
}

void ss_gpt_neox_load(ss_model *model, ss_loader *loader) {
    size_t D = (size_t)model->arch.D, V = (size_t)model->arch.V;
    loader->prefix = "gpt_neox.";
    ss_load_linear(loader, &model->embedding, "embed_in", false, D, V);
    ss_load_head(loader, model, "embed_out");
    ss_load_norm(loader, &model->norm, "final_layer_norm", true, D);
    ss_load_layers(loader, model, load_layer);
}
