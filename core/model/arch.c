#include "arch.h"

#include "families/family.h"
#include "families/variant.h"

#include <stdio.h>

const char *ss_positions_name(ss_positions positions) {
    return ss_positions_words[positions];
}

const char *ss_norm_name(ss_norm_kind norm) {
    return ss_norm_words[norm];
}

const char *ss_ffn_name(ss_ffn_kind ffn) {
    return ss_ffn_words[ffn];
}

const char *ss_activation_name(ss_activation activation) {
    return (const char *[]){
        "silu", "gelu_tanh", "gelu", "relu", "relu2", "clamped_swiglu", "xielu"}[activation];
}

const char *ss_rope_scaling_name(ss_rope_scaling scaling) {
    return (const char *[]){"none", "linear", "llama3", "proportional", "yarn"}[scaling];
}

const char *ss_owner_name(ss_owner owner) {
    return ss_owner_words[owner];
}

const char *ss_gate_name(ss_gate gate) {
    return ss_gate_words[gate];
}

const char *ss_qk_norm_name(ss_qk_norm norm) {
    return (const char *[]){NULL, "head", "head_rotated", "all_heads"}[norm];
}

const char *ss_mask_name(const ss_arch *arch) {
    if (arch->prefix) return arch->prefix == SS_EVERY_KEY ? "bidirectional" : "prefix";
    for (int l = 0; l < arch->L; l++)
        if (!arch->windowed[l]) return "causal";
    return "window";
}

/* Refuses a head width that rotary positions cannot rotate, and a number of heads that the
 * key/value heads do not divide. */
static void check_heads(const ss_arch *arch, ss_json *json) {
    if (arch->H % arch->G)
        ss_json_refuse(json, "num_key_value_heads", "a divisor of num_attention_heads",
                       "another number");
    if (arch->positions == SS_POSITIONS_ROTARY && arch->rotary_width % 2)
        ss_json_refuse(json, "head_dim", "an even number of rotary dimensions", "an odd one");
}

/* Reads is_causal, with which transformers makes the queries of a decoder see all keys. */
static void read_causality(ss_arch *arch, ss_json *json) {
    if (ss_json_bool(json, "is_causal", true)) return;
    if (arch->window || arch->mixer.kind)
        ss_json_refuse(json, "is_causal", "true where layers have a window or a state", "false");
    arch->prefix = SS_EVERY_KEY;
}

ss_status ss_arch_read_object(ss_arch *arch, const cJSON *config, const char *file, ss_error *err) {
    ss_status status = SS_OK;
    ss_json json = {config, file, &status, err};
    const char *type = ss_json_text(&json, "model_type", "");
    const ss_family *family = ss_family_find(type);
    ss_arch new_arch = {0};
    if (family) {
        snprintf(new_arch.family, sizeof new_arch.family, "%s", family->name);
        snprintf(new_arch.attention.operation, sizeof new_arch.attention.operation, "softmax");
        new_arch.embedding_scale = new_arch.branch_scale = new_arch.logit_scale =
            new_arch.router_scale = 1.0f;
        new_arch.attention_in_scale = new_arch.attention_out_scale = new_arch.key_scale = 1.0f;
        new_arch.value_scale = 1.0f;
        new_arch.ffn_gate_scale = new_arch.ffn_out_scale = 1.0f;
        new_arch.router_groups = new_arch.router_top_groups = new_arch.router_best = 1;
        new_arch.mask_token = -1;
        ss_family_refuse(&json, family->extra_keys);
        family->read(&new_arch, &json);
        read_causality(&new_arch, &json);
        if (!new_arch.embedding_width) new_arch.embedding_width = new_arch.D;
        if (!new_arch.U) new_arch.U = new_arch.K;
        if (!new_arch.blocks) ss_attend_everywhere(&new_arch);
        ss_read_variant(&new_arch, &json, family->variants);
        if (status == SS_OK) check_heads(&new_arch, &json);
    } else if (cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(config, "is_encoder_decoder"))) {
        /* The Python package refuses encoder-decoder models, too. */
        ss_json_refuse(&json, "is_encoder_decoder",
                       "a model of one stack of layers: save the encoder alone (of t5, as "
                       "transformers' T5EncoderModel), record that with the Python package, and "
                       "open the recording",
                       "an encoder and a decoder");
    } else {
        char names[640];
        ss_family_names(names, sizeof names);
        if (status == SS_OK)
            status = ss_fail(err, SS_UNSUPPORTED, "model_type",
                             "%s: this build computes %s, the file says %.40s; record such a "
                             "model with the Python package and open the recording",
                             file, names, *type ? type : "nothing");
    }
    if (status == SS_OK) *arch = new_arch;
    return status;
}

ss_status ss_arch_read(ss_arch *arch, ss_bytes config, ss_error *err) {
    cJSON *root;
    ss_status status = ss_json_parse(&root, config, "config.json", SS_BAD_CONFIG, err);
    if (status != SS_OK) return status;
    status = ss_arch_read_object(arch, root, "config.json", err);
    cJSON_Delete(root);
    return status;
}
