/*
 * mpt: LayerNorm, ALiBi positions, one matrix for q, k and v, which may be clipped, and no biases.
 */
#include "family.h"

#include <math.h>
#include <string.h>

/* Refuses keys that transformers ignores but that change what MosaicML's code computes. */
static void refuse_other_keys(ss_json *json, ss_json *attention) {
    ss_json_require_bool(attention, "alibi", true);
    ss_json_require_bool(attention, "prefix_lm", false);
    ss_json_require_bool(attention, "qk_ln", false);
    ss_json_require_bool(attention, "rope", false);
    if (ss_json_int(attention, "alibi_bias_max", 8, 1, 64) != 8)
        ss_json_refuse(attention, "alibi_bias_max", "8", "another number");
    const char *type = ss_json_text(attention, "attn_type", "multihead_attention");
    if (strcmp(type, "multihead_attention"))
        ss_json_refuse(attention, "attn_type", "\"multihead_attention\"", type);
    if (ss_json_int(json, "expansion_ratio", 4, 1, SS_FFN_MAX) != 4)
        ss_json_refuse(json, "expansion_ratio", "4", "another number");
    ss_json_require_bool(json, "no_bias", true);
    if (ss_json_item(json, "logit_scale"))
        ss_json_refuse(json, "logit_scale", "logits as they are", "a scale");
    const char *norm = ss_json_text(json, "norm_type", "low_precision_layernorm");
    if (strcmp(norm, "low_precision_layernorm") && strcmp(norm, "layernorm"))
        ss_json_refuse(json, "norm_type", "\"layernorm\"", norm);
}

void ss_mpt_read(ss_arch *arch, ss_json *json) {
    static const ss_gpt_keys keys = {.L = "n_layers",
                                     .H = "n_heads",
                                     .D = "d_model",
                                     .context = "max_seq_len",
                                     .norm_eps = "layer_norm_epsilon"};
    ss_read_gpt_like(arch, json, &keys);
    arch->positions = SS_POSITIONS_ALIBI;
    arch->activation = SS_ACTIVATION_GELU;
    ss_json attention = ss_json_object(json, "attn_config");
    ss_refuse_nulls(&attention);
    double scale = 1.0 / sqrt((double)arch->K);
    arch->score_scale = (float)ss_json_number(&attention, "softmax_scale", scale, 1e-6, 1e6);
    arch->qkv_clip = (float)ss_json_number(&attention, "clip_qkv", 0.0, 1e-6, 1e6);
    refuse_other_keys(json, &attention);
}

void ss_load_mpt_layer(ss_layer *layer, ss_loader *loader, const ss_arch *arch) {
    size_t D = (size_t)arch->D, F = (size_t)arch->F;
    ss_load_norm(loader, &layer->attention_norm, "blocks.%d.norm_1", false, D);
    ss_load_qkv(loader, layer, arch, "blocks.%d.attn.Wqkv", SS_OUT_IN, false);
    ss_load_linear(loader, &layer->o, "blocks.%d.attn.out_proj", false, D, D);
    ss_load_norm(loader, &layer->ffn_norm, "blocks.%d.norm_2", false, D);
    ss_load_linear(loader, &layer->ffn.up, "blocks.%d.ffn.up_proj", false, D, F);
    ss_load_linear(loader, &layer->ffn.down, "blocks.%d.ffn.down_proj", false, F, D);
}

void ss_load_mpt_ends(ss_model *model, ss_loader *loader) {
    static const char *const prefixes[] = {"", "transformer.", NULL};
    loader->prefixes = prefixes;
    ss_load_embeddings(loader, model, "wte", "lm_head");
    ss_load_norm(loader, &model->norm, "norm_f", false, (size_t)model->arch.D);
}
