/*
 * mpt: LayerNorm, ALiBi positions, one matrix for q, k and v, which may be clipped, and no biases.
 */
#include "family.h"

#include <math.h>
#include <string.h>

/* Refuses keys that transformers ignores but that change what MosaicML's code computes. */
static void refuse_other_keys(ss_json *json, ss_json *attention) {
    static const struct {
        const char *key;
        bool value;
    } flags[] = {{"alibi", true}, {"prefix_lm", false}, {"qk_ln", false}, {"rope", false}};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (ss_json_bool(attention, flags[i].key, flags[i].value) != flags[i].value)
            ss_json_refuse(attention, flags[i].key, flags[i].value ? "true" : "false",
                           flags[i].value ? "false" : "true");
    if (ss_json_int(attention, "alibi_bias_max", 8, 1, 64) != 8)
        ss_json_refuse(attention, "alibi_bias_max", "8", "another number");
    const char *type = ss_json_text(attention, "attn_type", "multihead_attention");
    if (strcmp(type, "multihead_attention"))
        ss_json_refuse(attention, "attn_type", "\"multihead_attention\"", type);
    json->status = attention->status;
    if (ss_json_int(json, "expansion_ratio", 4, 1, SS_FFN_MAX) != 4)
        ss_json_refuse(json, "expansion_ratio", "4", "another number");
    if (!ss_json_bool(json, "no_bias", true)) ss_json_refuse(json, "no_bias", "true", "false");
    const cJSON *scale = cJSON_GetObjectItemCaseSensitive(json->object, "logit_scale");
    if (scale && !cJSON_IsNull(scale))
        ss_json_refuse(json, "logit_scale", "logits as they are", "a scale");
    const char *norm = ss_json_text(json, "norm_type", "low_precision_layernorm");
    if (strcmp(norm, "low_precision_layernorm") && strcmp(norm, "layernorm"))
        ss_json_refuse(json, "norm_type", "\"layernorm\"", norm);
}

void ss_mpt_read(ss_arch *arch, ss_json *json) {
    ss_read_heads(arch, json, "n_layers", "n_heads", "d_model");
    arch->F = 4 * arch->D;
    arch->V = ss_json_int(json, "vocab_size", SS_JSON_REQUIRED, 1, SS_VOCABULARY_MAX);
    arch->context = ss_json_int(json, "max_seq_len", 2048, 1, SS_CONTEXT_MAX);
    arch->positions = SS_POSITIONS_ALIBI;
    arch->norm = SS_NORM_LAYER;
    arch->norm_eps = (float)ss_json_number(json, "layer_norm_epsilon", 1e-5, 0.0, 1.0);
    arch->ffn = SS_FFN_PLAIN;
    arch->activation = SS_ACTIVATION_GELU;
    arch->tied = ss_json_bool(json, "tie_word_embeddings", true);
    ss_check_width(arch, json, "n_heads", "d_model");
    ss_json attention = {ss_json_object(json, "attn_config"), json->file, json->status, json->err};
    double scale = 1.0 / sqrt((double)arch->K);
    arch->score_scale = (float)ss_json_number(&attention, "softmax_scale", scale, 1e-6, 1e6);
    arch->qkv_clip = (float)ss_json_number(&attention, "clip_qkv", 0.0, 1e-6, 1e6);
    refuse_other_keys(json, &attention);
}

static void load_layer(ss_layer *layer, ss_loader *loader, const ss_arch *arch) {
    size_t D = (size_t)arch->D, F = (size_t)arch->F;
    ss_load_norm(loader, &layer->attention_norm, "blocks.%d.norm_1", false, D);
    ss_load_qkv(loader, layer, arch, "blocks.%d.attn.Wqkv", SS_OUT_IN, false);
    ss_load_linear(loader, &layer->o, "blocks.%d.attn.out_proj", false, D, D);
    ss_load_norm(loader, &layer->ffn_norm, "blocks.%d.norm_2", false, D);
    ss_load_linear(loader, &layer->ffn.up, "blocks.%d.ffn.up_proj", false, D, F);
    ss_load_linear(loader, &layer->ffn.down, "blocks.%d.ffn.down_proj", false, F, D);
}

void ss_mpt_load(ss_model *model, ss_loader *loader) {
    size_t D = (size_t)model->arch.D;
    loader->prefix = "transformer.";
    if (!ss_load_has_tensor(loader, "wte.weight")) loader->prefix = "";
    ss_load_linear(loader, &model->embedding, "wte", false, D, (size_t)model->arch.V);
    ss_load_head(loader, model, "lm_head");
    ss_load_norm(loader, &model->norm, "norm_f", false, D);
    ss_load_layers(loader, model, load_layer);
}
