/*
 * gpt2: LayerNorm with biases, learned positions, Conv1D matrices [in][out], fused q|k|v.
 * gpt_bigcode (SantaCoder, StarCoder): gpt2 with matrices [out][in], and one key/value head for all
 * query heads.
 */
#include "family.h"

#include <math.h>
#include <string.h>

void ss_gpt2_read(ss_arch *arch, ss_json *json) {
    ss_read_heads(arch, json, "n_layer", "n_head", "n_embd");
    arch->F = ss_json_int(json, "n_inner", 4 * arch->D, 1, SS_FFN_MAX);
    arch->V = ss_json_int(json, "vocab_size", SS_JSON_REQUIRED, 1, SS_VOCABULARY_MAX);
    int context = ss_json_int(json, "n_ctx", 1024, 1, SS_CONTEXT_MAX);
    arch->context = ss_json_int(json, "n_positions", context, 1, SS_CONTEXT_MAX);
    arch->positions = SS_POSITIONS_LEARNED;
    arch->norm = SS_NORM_LAYER;
    arch->norm_eps = (float)ss_json_number(json, "layer_norm_epsilon", 1e-5, 0.0, 1.0);
    arch->ffn = SS_FFN_PLAIN;
    arch->activation = ss_read_activation(json, "activation_function", "gelu_new");
    bool scaled = ss_json_bool(json, "scale_attn_weights", true);
    arch->score_scale = scaled ? (float)(1.0 / sqrt((double)arch->K)) : 1.0f;
    arch->attention_bias = true;
    arch->output_bias = true;
    arch->ffn_bias = true;
    arch->tied = ss_json_bool(json, "tie_word_embeddings", true);
    ss_check_plain(arch, json, "activation_function");
    ss_check_width(arch, json, "n_head", "n_embd");
}

/* Reads gpt_bigcode. As in transformers, n_ctx is not read. */
void ss_gpt_bigcode_read(ss_arch *arch, ss_json *json) {
    ss_gpt2_read(arch, json);
    arch->context = ss_json_int(json, "n_positions", 1024, 1, SS_CONTEXT_MAX);
    if (ss_json_bool(json, "multi_query", true)) arch->G = 1;
}

/* Loads a layer. In GGUF files the Conv1D matrices are transposed. */
static void load_layer(ss_layer *layer, ss_loader *loader, const ss_arch *arch) {
    size_t D = (size_t)arch->D, F = (size_t)arch->F;
    bool bigcode = !strcmp(arch->family, "gpt_bigcode");
    ss_layout layout = bigcode || ss_load_is_format(loader, SS_GGUF) ? SS_OUT_IN : SS_IN_OUT;
    ss_place square = {.layout = layout, .in = D, .out = D};
    ss_place up = {.layout = layout, .in = D, .out = F},
             down = {.layout = layout, .in = F, .out = D};
    ss_load_norm(loader, &layer->attention_norm, "h.%d.ln_1", true, D);
    ss_load_qkv(loader, layer, arch, "h.%d.attn.c_attn", layout, bigcode);
    ss_load_linear_at(loader, &layer->o, "h.%d.attn.c_proj", true, &square);
    if (ss_load_has_tensor(loader, "h.%d.attn.sinks"))
        layer->sinks = ss_load_numbers(loader, "h.%d.attn.sinks", 0, (size_t)arch->H);
    ss_load_norm(loader, &layer->ffn_norm, "h.%d.ln_2", true, D);
    ss_load_linear_at(loader, &layer->ffn.up, "h.%d.mlp.c_fc", true, &up);
    ss_load_linear_at(loader, &layer->ffn.down, "h.%d.mlp.c_proj", true, &down);
}

/* Loads embedding, head and final norm. Published files have no prefix; save_pretrained writes one
 * for the model with its head. */
void ss_load_gpt2_ends(ss_model *model, ss_loader *loader) {
    const ss_arch *arch = &model->arch;
    size_t D = (size_t)arch->D, V = (size_t)arch->V;
    loader->prefix = "transformer.";
    if (!ss_load_has_tensor(loader, "wte.weight")) loader->prefix = "";
    ss_load_linear(loader, &model->embedding, "wte", false, D, V);
    ss_load_head(loader, model, "lm_head");
    if (arch->positions == SS_POSITIONS_LEARNED)
        model->positions = ss_load_numbers(loader, "wpe.weight", (size_t)arch->context, D);
    ss_load_norm(loader, &model->norm, "ln_f", true, D);
}

void ss_gpt2_load(ss_model *model, ss_loader *loader) {
    ss_load_gpt2_ends(model, loader);
    ss_load_layers(loader, model, load_layer);
}
