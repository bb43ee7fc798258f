#include "arch.h"

#include "families/family.h"
#include "families/variant.h"

#include <stdio.h>
#include <string.h>

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
    return (const char *[]){
        "none", "linear", "llama3", "proportional", "yarn", "longrope"}[scaling];
}

const char *ss_owner_name(ss_owner owner) {
    return ss_owner_words[owner];
}

const char *ss_gate_name(ss_gate gate) {
    return ss_gate_words[gate];
}

const char *ss_qk_norm_name(ss_qk_norm norm) {
    return (const char *[]){NULL, "head", "head_rotated", "all_heads", "own_head"}[norm];
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
        ss_json_refuse(json, "head_dim",
                       "an even number of rotary dimensions (head_dim times partial_rotary_factor "
                       "of rope_parameters or rope_scaling)",
                       "an odd one");
}

/* Checks dynamic, and the factors of longrope. These hold for texts up to the length of the first
 * training, so that is the model's context. */
static void check_long_rotary(ss_arch *arch, ss_json *json) {
    if (arch->rotary.is_dynamic && ss_arch_pairs(arch, false) == 1)
        ss_json_refuse(json, "rope_type", "dynamic with more than one rotary pair", "one");
    if (arch->rotary.scaling != SS_ROPE_LONG) return;
    if ((size_t)arch->rotary.pairs_n != ss_arch_pairs(arch, false))
        ss_json_refuse(json, "short_factor", "one factor for each rotary pair",
                       "another number of them");
    if (arch->rotary.original_context < arch->context)
        arch->context = (int)arch->rotary.original_context;
}

/* Refuses layer_types of a model whose layers are all alike, unless it says that. */
static void check_layer_types(const ss_arch *arch, ss_json *json) {
    bool marks[SS_LAYERS_MAX];
    ss_json text = ss_json_object(json, "text_config");
    if (text.object) json = &text;
    const cJSON *mlp_types = ss_json_item(json, "mlp_layer_types");
    if (mlp_types && cJSON_GetArraySize(mlp_types) != arch->blocks)
        ss_json_refuse(json, "mlp_layer_types", "one word for each layer",
                       "another number of them");
    bool is_mixed = arch->mixer.kind && !arch->mixer.in_every_layer;
    for (int l = 0; l < arch->L; l++) is_mixed |= arch->windowed[l];
    if (!is_mixed)
        ss_read_layer_words(marks, arch->blocks, json, "layer_types", "full_attention",
                            "full_attention");
}

/* Reads is_causal, with which transformers makes the queries of a decoder see all keys. */
static void read_causality(ss_arch *arch, ss_json *json) {
    if (ss_json_bool(json, "is_causal", true)) return;
    if (arch->window || arch->mixer.kind || arch->positions == SS_POSITIONS_ALIBI)
        ss_json_refuse(json, "is_causal",
                       "true where layers have a window or a state, and with ALiBi", "false");
    arch->prefix = SS_EVERY_KEY;
}

ss_status ss_advise_recording(ss_status status, ss_error *err) {
    if (status != SS_UNSUPPORTED || !err || strstr(err->text, "record")) return status;
    size_t n = strlen(err->text);
    snprintf(err->text + n, sizeof err->text - n,
             "; record such a model with the Python package and open the recording");
    return status;
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
        check_layer_types(&new_arch, &json);
        ss_read_variant(&new_arch, &json, family->variants);
        check_long_rotary(&new_arch, &json);
        if (status == SS_OK) check_heads(&new_arch, &json);
    } else if (cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(config, "is_encoder_decoder"))) {
        /* The Python package refuses encoder-decoder models, too. */
        ss_json_refuse(&json, "is_encoder_decoder",
                       "one stack of layers: save the encoder alone (of t5, as T5EncoderModel), "
                       "record it with the Python package and open the recording",
                       "an encoder and a decoder");
    } else {
        if (status == SS_OK)
            status = ss_fail(err, SS_UNSUPPORTED, "model_type",
                             "%s: this build cannot run %.40s; record it with the Python package "
                             "and open the recording (`describe` lists the families that run)",
                             file, *type ? type : "a model without a type");
    }
    if (status == SS_OK) *arch = new_arch;
    return ss_advise_recording(status, err);
}

ss_status ss_arch_read(ss_arch *arch, ss_bytes config, ss_error *err) {
    cJSON *root;
    ss_status status = ss_json_parse(&root, config, "config.json", SS_BAD_CONFIG, err);
    if (status != SS_OK) return status;
    status = ss_arch_read_object(arch, root, "config.json", err);
    cJSON_Delete(root);
    return status;
}
