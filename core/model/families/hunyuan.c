/* hunyuan_v1_dense: llama whose queries and keys are normed after rotation; hunyuan_v1_moe: the
 * same with routed experts and one shared expert. */
#include "family.h"

#include "../../math/scalar.h"

#include <string.h>

/* Reads rotary scaling of type "dynamic" with an alpha, and returns true if the config has this
 * scaling. This type only increases the base, whatever the length of the text, and ignores all
 * other keys. */
static bool read_alpha(ss_arch *arch, ss_json *json) {
    ss_json rope = ss_rope_object(json);
    const char *type = ss_json_text(&rope, "rope_type", ss_json_text(&rope, "type", "default"));
    double alpha = ss_json_number(&rope, "alpha", 0.0, 0.0, 1e9), K = (double)arch->K;
    bool is_dynamic = !strcmp(type, "dynamic") && alpha > 0.0;
    if (alpha > 0.0 && !is_dynamic)
        ss_json_refuse(&rope, "rope_type", "\"dynamic\" beside alpha", type);
    if (is_dynamic) {
        double theta = ss_json_number(json, "rope_theta", 10000.0, 1.0, 1e12);
        ss_refuse_nulls(&rope);
        ss_json_number(&rope, "factor", (double)NAN, 1e-3, 1e6);
        theta = ss_json_number(&rope, "rope_theta", theta, 1.0, 1e12);
        arch->rotary.base = theta * ss_pow(alpha, K / (K - 2.0));
        arch->rotary.attention_factor = 1.0f;
        if (arch->K <= 2 || arch->rotary.base < 1.0 || arch->rotary.base > 1e15)
            ss_json_refuse(&rope, "alpha", "a base between 1 and 1e15", "another one");
    }
    return is_dynamic;
}

void ss_hunyuan_read(ss_arch *arch, ss_json *json) {
    ss_llama_defaults defaults = {.norm_eps = 1e-5, .skips_rotary = true};
    ss_read_llama_like(arch, json, &defaults);
    if (!read_alpha(arch, json)) {
        ss_require_head_dim(json);
        ss_read_llama_rotary(arch, json);
    }
    ss_read_attention_bias(arch, json, "attention_bias", false);
    arch->qk_norm = SS_QK_NORM_HEAD_ROTATED;
}

/* Reads a number, or a list that repeats one number for each layer. */
static int read_uniform_number(ss_json *json, const char *key, int default_value, int high) {
    const cJSON *list = ss_json_item(json, key), *item;
    if (!cJSON_IsArray(list)) return ss_json_int(json, key, default_value, 1, high);
    const cJSON *first = cJSON_GetArrayItem(list, 0);
    bool is_uniform = cJSON_IsNumber(first) && first->valueint >= 1 && first->valueint <= high;
    cJSON_ArrayForEach(item, list) is_uniform =
        is_uniform && cJSON_IsNumber(item) && item->valueint == first->valueint;
    if (!is_uniform) ss_json_refuse(json, key, "one number for all layers", "a list of several");
    return is_uniform ? first->valueint : default_value;
}

void ss_hunyuan_moe_read(ss_arch *arch, ss_json *json) {
    ss_require_head_dim(json);
    ss_hunyuan_read(arch, json);
    arch->E = read_uniform_number(json, "num_experts", 1, SS_EXPERTS_MAX);
    arch->top_k = read_uniform_number(json, "moe_topk", 1, arch->E);
    ss_refuse_alias(json, "num_local_experts", "num_experts", arch->E);
    ss_refuse_alias(json, "num_experts_per_tok", "moe_topk", arch->top_k);
    arch->shared_F = arch->F;
}

void ss_load_hunyuan_moe_layer(ss_layer *layer, ss_loader *loader, const ss_arch *arch) {
    ss_load_llama_attention(layer, loader, arch);
    ss_load_experts(layer, loader, arch, "layers.%d.mlp.gate.wg", false, ss_load_llama_expert);
    ss_load_llama_ffn(&layer->ffn, loader, "layers.%d.mlp.shared_mlp", arch,
                      (size_t)arch->shared_F);
}
