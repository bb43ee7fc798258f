/* gpt2: LayerNorm with biases, learned positions, Conv1D matrices [in][out], fused q|k|v. */
#include "family.h"

#include <math.h>
#include <string.h>

static void refuse_others(ss_arch *arch, ss_json *json) {
    const char *activation = ss_json_text(json, "activation_function", "gelu_new");
    if (strcmp(activation, "gelu_new") && strcmp(activation, "gelu_pytorch_tanh"))
        ss_json_refuse(json, "activation_function", "\"gelu_new\"", activation);
    const char *keys[] = {"scale_attn_by_inverse_layer_idx", "reorder_and_upcast_attn",
                          "add_cross_attention"};
    for (int i = 0; i < 3; i++)
        if (ss_json_bool(json, keys[i], false)) ss_json_refuse(json, keys[i], "false", "true");
    if (arch->D % arch->H) ss_json_refuse(json, "n_head", "a divisor of n_embd", "another number");
}

void ss_gpt2_read(ss_arch *arch, ss_json *json) {
    arch->L = ss_json_int(json, "n_layer", SS_JSON_REQUIRED, 1, SS_LAYERS_MAX);
    arch->H = ss_json_int(json, "n_head", SS_JSON_REQUIRED, 1, SS_HEADS_MAX);
    arch->G = arch->H;
    arch->D = ss_json_int(json, "n_embd", SS_JSON_REQUIRED, 1, SS_WIDTH_MAX);
    arch->K = arch->D >= arch->H ? arch->D / arch->H : 1;
    arch->F = ss_json_int(json, "n_inner", 4 * arch->D, 1, SS_FFN_MAX);
    arch->V = ss_json_int(json, "vocab_size", SS_JSON_REQUIRED, 1, SS_VOCABULARY_MAX);
    int context = ss_json_int(json, "n_ctx", 1024, 1, SS_CONTEXT_MAX);
    arch->context = ss_json_int(json, "n_positions", context, 1, SS_CONTEXT_MAX);
    arch->positions = SS_POSITIONS_LEARNED;
    arch->norm = SS_NORM_LAYER;
    arch->norm_eps = (float)ss_json_number(json, "layer_norm_epsilon", 1e-5, 0.0, 1.0);
    arch->ffn = SS_FFN_PLAIN;
    arch->activation = SS_ACTIVATION_GELU_TANH;
    bool scaled = ss_json_bool(json, "scale_attn_weights", true);
    arch->score_scale = scaled ? (float)(1.0 / sqrt((double)arch->K)) : 1.0f;
    arch->attention_bias = true;
    arch->ffn_bias = true;
    arch->tied = ss_json_bool(json, "tie_word_embeddings", true);
    refuse_others(arch, json);
}

static void load_layer(ss_layer *layer, ss_loader *loader, const ss_arch *arch) {
    size_t D = (size_t)arch->D, F = (size_t)arch->F;
    layer->attention_norm.gain = ss_load_numbers(loader, "h.%d.ln_1.weight", 0, D);
    layer->attention_norm.bias = ss_load_numbers(loader, "h.%d.ln_1.bias", 0, D);
    ss_linear *qkv[] = {&layer->q, &layer->k, &layer->v};
    for (size_t i = 0; i < 3; i++) {
        ss_place place = {.layout = SS_IN_OUT, .in = D, .out = D, .total = 3 * D, .first = i * D};
        ss_load_matrix(loader, qkv[i], &place, "h.%d.attn.c_attn.weight", "h.%d.attn.c_attn.bias");
    }
    ss_load_linear(loader, &layer->o, SS_IN_OUT, "h.%d.attn.c_proj.weight", "h.%d.attn.c_proj.bias",
                   D, D);
    if (ss_load_has(loader, "h.%d.attn.sinks"))
        layer->sinks = ss_load_numbers(loader, "h.%d.attn.sinks", 0, (size_t)arch->H);
    layer->ffn_norm.gain = ss_load_numbers(loader, "h.%d.ln_2.weight", 0, D);
    layer->ffn_norm.bias = ss_load_numbers(loader, "h.%d.ln_2.bias", 0, D);
    ss_load_linear(loader, &layer->up, SS_IN_OUT, "h.%d.mlp.c_fc.weight", "h.%d.mlp.c_fc.bias", D,
                   F);
    ss_load_linear(loader, &layer->down, SS_IN_OUT, "h.%d.mlp.c_proj.weight",
                   "h.%d.mlp.c_proj.bias", F, D);
}

/* Published files have no prefix; what save_pretrained writes of the whole model has one. */
static void find_prefix(ss_loader *loader) {
    loader->prefix = "transformer.";
    if (!ss_load_has(loader, "wte.weight")) loader->prefix = "";
}

static void load_head(ss_model *model, ss_loader *loader, size_t D, size_t V) {
    const char *prefix = loader->prefix;
    loader->prefix = "";
    ss_load_linear(loader, &model->head, SS_OUT_IN, "lm_head.weight", NULL, D, V);
    loader->prefix = prefix;
}

void ss_gpt2_load(ss_model *model, ss_loader *loader) {
    const ss_arch *arch = &model->arch;
    size_t D = (size_t)arch->D, V = (size_t)arch->V;
    find_prefix(loader);
    ss_load_linear(loader, &model->embedding, SS_OUT_IN, "wte.weight", NULL, D, V);
    model->head = model->embedding;
    if (!arch->tied) load_head(model, loader, D, V);
    model->positions = ss_load_numbers(loader, "wpe.weight", (size_t)arch->context, D);
    model->norm.gain = ss_load_numbers(loader, "ln_f.weight", 0, D);
    model->norm.bias = ss_load_numbers(loader, "ln_f.bias", 0, D);
    model->layers = ss_load_layers(loader, arch->L);
    for (int l = 0; l < arch->L && loader->status == SS_OK; l++) {
        ss_layer spare = {0};
        load_layer(ss_load_layer(loader, model->layers, &spare, l), loader, arch);
    }
}
