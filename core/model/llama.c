/* llama: RMSNorm, rotary positions, gated feed-forward; SmolLM, TinyLlama and our own zoo. */
#include "family.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Files before and after transformers 5 keep theta in different places. */
static double read_theta(ss_json *json) {
    double theta = ss_json_number(json, "rope_theta", 10000.0, 1.0, 1e12);
    const char *keys[] = {"rope_scaling", "rope_parameters"};
    for (int i = 0; i < 2; i++) {
        const cJSON *object = ss_json_object(json, keys[i]);
        if (!object) continue;
        ss_json inner = {object, json->file, json->status, json->err};
        const char *old = ss_json_text(&inner, "type", "default");
        const char *type = ss_json_text(&inner, "rope_type", old);
        if (strcmp(type, "default")) ss_json_refuse(&inner, "rope_type", "\"default\"", type);
        theta = ss_json_number(&inner, "rope_theta", theta, 1.0, 1e12);
        json->status = inner.status;
    }
    return theta;
}

static void refuse_others(ss_arch *arch, ss_json *json) {
    const char *activation = ss_json_text(json, "hidden_act", "silu");
    if (strcmp(activation, "silu")) ss_json_refuse(json, "hidden_act", "\"silu\"", activation);
    if (ss_json_number(json, "partial_rotary_factor", 1.0, 0.0, 1.0) < 1.0)
        ss_json_refuse(json, "partial_rotary_factor", "1", "less than 1");
    if (arch->H % arch->G)
        ss_json_refuse(json, "num_key_value_heads", "a divisor of num_attention_heads",
                       "another number");
    if (arch->K % 2) ss_json_refuse(json, "head_dim", "an even head width", "an odd one");
}

void ss_llama_read(ss_arch *arch, ss_json *json) {
    arch->L = ss_json_int(json, "num_hidden_layers", SS_JSON_REQUIRED, 1, SS_LAYERS_MAX);
    arch->H = ss_json_int(json, "num_attention_heads", SS_JSON_REQUIRED, 1, SS_HEADS_MAX);
    arch->G = ss_json_int(json, "num_key_value_heads", arch->H, 1, arch->H);
    arch->D = ss_json_int(json, "hidden_size", SS_JSON_REQUIRED, 1, SS_WIDTH_MAX);
    int K = arch->D >= arch->H ? arch->D / arch->H : 1;
    arch->K = ss_json_int(json, "head_dim", K, 1, SS_WIDTH_MAX);
    arch->F = ss_json_int(json, "intermediate_size", SS_JSON_REQUIRED, 1, SS_FFN_MAX);
    arch->V = ss_json_int(json, "vocab_size", SS_JSON_REQUIRED, 1, SS_VOCABULARY_MAX);
    arch->context = ss_json_int(json, "max_position_embeddings", 2048, 1, SS_CONTEXT_MAX);
    arch->positions = SS_POSITIONS_ROTARY;
    arch->rotary_width = arch->K;
    arch->rotary_base = read_theta(json);
    arch->norm = SS_NORM_RMS;
    arch->norm_eps = (float)ss_json_number(json, "rms_norm_eps", 1e-6, 0.0, 1.0);
    arch->ffn = SS_FFN_GATED;
    arch->activation = SS_ACTIVATION_SILU;
    arch->score_scale = (float)(1.0 / sqrt((double)arch->K));
    arch->attention_bias = ss_json_bool(json, "attention_bias", false);
    arch->ffn_bias = ss_json_bool(json, "mlp_bias", false);
    arch->tied = ss_json_bool(json, "tie_word_embeddings", false);
    refuse_others(arch, json);
}

/* The name of a projection's weight, and of its bias where the architecture has one. */
static void load(ss_loader *loader, ss_linear *linear, const char *name, bool has_bias, size_t in,
                 size_t out) {
    char weight[64], bias[64];
    snprintf(weight, sizeof weight, "model.layers.%%d.%s.weight", name);
    snprintf(bias, sizeof bias, "model.layers.%%d.%s.bias", name);
    ss_load_linear(loader, linear, SS_OUT_IN, weight, has_bias ? bias : NULL, in, out);
}

static void load_layer(ss_layer *layer, ss_loader *loader, const ss_arch *arch) {
    size_t D = (size_t)arch->D, F = (size_t)arch->F, K = (size_t)arch->K;
    size_t HK = (size_t)arch->H * K, GK = (size_t)arch->G * K;
    layer->attention_norm.gain =
        ss_load_numbers(loader, "model.layers.%d.input_layernorm.weight", 0, D);
    load(loader, &layer->q, "self_attn.q_proj", arch->attention_bias, D, HK);
    load(loader, &layer->k, "self_attn.k_proj", arch->attention_bias, D, GK);
    load(loader, &layer->v, "self_attn.v_proj", arch->attention_bias, D, GK);
    load(loader, &layer->o, "self_attn.o_proj", arch->attention_bias, HK, D);
    if (ss_load_has(loader, "model.layers.%d.self_attn.sinks"))
        layer->sinks =
            ss_load_numbers(loader, "model.layers.%d.self_attn.sinks", 0, (size_t)arch->H);
    layer->ffn_norm.gain =
        ss_load_numbers(loader, "model.layers.%d.post_attention_layernorm.weight", 0, D);
    load(loader, &layer->gate, "mlp.gate_proj", arch->ffn_bias, D, F);
    load(loader, &layer->up, "mlp.up_proj", arch->ffn_bias, D, F);
    load(loader, &layer->down, "mlp.down_proj", arch->ffn_bias, F, D);
}

void ss_llama_load(ss_model *model, ss_loader *loader) {
    const ss_arch *arch = &model->arch;
    size_t D = (size_t)arch->D, V = (size_t)arch->V;
    ss_load_linear(loader, &model->embedding, SS_OUT_IN, "model.embed_tokens.weight", NULL, D, V);
    model->head = model->embedding;
    if (!arch->tied) ss_load_linear(loader, &model->head, SS_OUT_IN, "lm_head.weight", NULL, D, V);
    model->norm.gain = ss_load_numbers(loader, "model.norm.weight", 0, D);
    model->layers = ss_load_layers(loader, arch->L);
    for (int l = 0; l < arch->L && loader->status == SS_OK; l++) {
        ss_layer spare = {0};
        load_layer(ss_load_layer(loader, model->layers, &spare, l), loader, arch);
    }
}
