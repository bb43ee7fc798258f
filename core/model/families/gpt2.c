/* gpt2: LayerNorm with biases, learned positions, Conv1D matrices [in][out], fused q|k|v.
 * gpt_bigcode (SantaCoder, StarCoder): gpt2 with matrices [out][in], and one key/value head for all
 * query heads. */
#include "family.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *key_or_default(const char *key, const char *default_key) {
    return key ? key : default_key;
}

void ss_read_gpt_like(ss_arch *arch, ss_json *json, const ss_gpt_keys *keys) {
    const char *H = key_or_default(keys->H, "num_attention_heads");
    const char *D = key_or_default(keys->D, "hidden_size");
    const char *context = key_or_default(keys->context, "max_position_embeddings");
    const char *activation_key = key_or_default(keys->activation_key, "activation_function");
    arch->L = ss_json_int(json, key_or_default(keys->L, "num_hidden_layers"), SS_JSON_REQUIRED, 1,
                          SS_LAYERS_MAX);
    arch->H = ss_json_int(json, H, SS_JSON_REQUIRED, 1, SS_HEADS_MAX);
    arch->D = ss_json_int(json, D, SS_JSON_REQUIRED, 1, SS_WIDTH_MAX);
    arch->G = arch->H;
    arch->K = arch->D >= arch->H ? arch->D / arch->H : 1;
    int F = keys->requires_F ? SS_JSON_REQUIRED : 4 * arch->D;
    arch->F = ss_json_int(json, keys->F, F, 1, SS_FFN_MAX);
    arch->V = ss_json_int(json, "vocab_size", SS_JSON_REQUIRED, 1, SS_VOCABULARY_MAX);
    int default_context = keys->default_context ? keys->default_context : 2048;
    arch->context = ss_json_int(json, context, default_context, 1, SS_CONTEXT_MAX);
    if (keys->L) ss_refuse_alias(json, "num_hidden_layers", keys->L, arch->L);
    if (keys->H) ss_refuse_alias(json, "num_attention_heads", keys->H, arch->H);
    if (keys->D) ss_refuse_alias(json, "hidden_size", keys->D, arch->D);
    if (keys->context)
        ss_refuse_alias(json, "max_position_embeddings", keys->context, arch->context);
    arch->ffn = SS_FFN_PLAIN;
    if (keys->activation) {
        arch->activation = ss_read_activation(json, activation_key, keys->activation);
        ss_refuse_gated_activation(arch, json, activation_key);
    }
    ss_read_layer_norm(arch, json, keys->norm_eps, 1e-5);
    arch->score_scale = (float)(1.0 / sqrt((double)arch->K));
    arch->tied = ss_json_bool(json, "tie_word_embeddings", !keys->untied);
    char expected[64];
    snprintf(expected, sizeof expected, "a divisor of %s", D);
    if (arch->D % arch->H) ss_json_refuse(json, H, expected, "another number");
}

void ss_gpt2_read(ss_arch *arch, ss_json *json) {
    ss_gpt_keys keys = {.L = "n_layer",
                        .H = "n_head",
                        .D = "n_embd",
                        .F = "n_inner",
                        .context = "n_positions",
                        .default_context = ss_json_int(json, "n_ctx", 1024, 1, SS_CONTEXT_MAX),
                        .activation = "gelu_new",
                        .norm_eps = "layer_norm_epsilon"};
    ss_read_gpt_like(arch, json, &keys);
    arch->positions = SS_POSITIONS_LEARNED;
    if (!ss_json_bool(json, "scale_attn_weights", true)) arch->score_scale = 1.0f;
    arch->attention_bias = arch->output_bias = arch->ffn_bias = true;
}

/* Reads gpt_bigcode. As in transformers, n_ctx is not read. */
void ss_gpt_bigcode_read(ss_arch *arch, ss_json *json) {
    ss_gpt2_read(arch, json);
    arch->context = ss_json_int(json, "n_positions", 1024, 1, SS_CONTEXT_MAX);
    if (ss_json_bool(json, "multi_query", true)) arch->G = 1;
}

/* Reads nanoGPT's model_args (files/torch_file.h). Its code has the exact GELU. */
void ss_nanogpt_read(ss_arch *arch, ss_json *json) {
    static const ss_gpt_keys keys = {.L = "n_layer",
                                     .H = "n_head",
                                     .D = "n_embd",
                                     .context = "block_size",
                                     .default_context = 1024};
    ss_read_gpt_like(arch, json, &keys);
    arch->positions = SS_POSITIONS_LEARNED;
    arch->activation = SS_ACTIVATION_GELU;
    bool has_bias = ss_json_bool(json, "bias", true);
    arch->attention_bias = arch->output_bias = arch->ffn_bias = has_bias;
    arch->no_norm_bias = !has_bias;
}

/* Loads a layer. The Conv1D matrices are transposed in GGUF files; gpt_bigcode and nanoGPT have
 * torch.nn.Linear in their place. */
void ss_load_gpt2_layer(ss_layer *layer, ss_loader *loader, const ss_arch *arch) {
    size_t D = (size_t)arch->D, F = (size_t)arch->F;
    bool is_bigcode = !strcmp(arch->family, "gpt_bigcode"), has_norm_bias = !arch->no_norm_bias;
    bool is_out_in =
        is_bigcode || !strcmp(arch->family, "nanogpt") || ss_load_is_format(loader, SS_GGUF);
    ss_layout layout = is_out_in ? SS_OUT_IN : SS_IN_OUT;
    ss_place square = {.layout = layout, .in = D, .out = D};
    ss_place up = {.layout = layout, .in = D, .out = F},
             down = {.layout = layout, .in = F, .out = D};
    ss_load_norm(loader, &layer->attention_norm, "h.%d.ln_1", has_norm_bias, D);
    ss_load_qkv(loader, layer, arch, "h.%d.attn.c_attn", layout, is_bigcode);
    ss_load_linear_at(loader, &layer->o, "h.%d.attn.c_proj", arch->output_bias, &square);
    if (ss_load_has_sinks(loader, arch, "h.%d.attn.sinks"))
        layer->sinks = ss_load_numbers(loader, "h.%d.attn.sinks", 0, (size_t)arch->H);
    ss_load_norm(loader, &layer->ffn_norm, "h.%d.ln_2", has_norm_bias, D);
    ss_load_linear_at(loader, &layer->ffn.up, "h.%d.mlp.c_fc", arch->ffn_bias, &up);
    ss_load_linear_at(loader, &layer->ffn.down, "h.%d.mlp.c_proj", arch->ffn_bias, &down);
}

/* Loads embedding, head and final norm. Published files have no prefix; save_pretrained writes one
 * for the model with its head. */
void ss_load_gpt2_ends(ss_model *model, ss_loader *loader) {
    static const char *const prefixes[] = {"transformer.", "", NULL};
    const ss_arch *arch = &model->arch;
    size_t D = (size_t)arch->D;
    loader->prefixes = prefixes;
    ss_load_embeddings(loader, model, "wte", "lm_head");
    if (arch->positions == SS_POSITIONS_LEARNED)
        model->positions = ss_load_numbers(loader, "wpe.weight", (size_t)arch->context, D);
    ss_load_norm(loader, &model->norm, "ln_f", !arch->no_norm_bias, D);
}
