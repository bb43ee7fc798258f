/* qwen2: llama with biases on q, k and v; qwen3: without these biases, but with norms of queries
 * and keys; qwen2_moe: qwen2 with many small experts and one shared expert; qwen3_moe: qwen3 with
 * experts. */
#include "family.h"

/* As in transformers, sliding_window counts only if use_sliding_window is true. */
static void read_window(ss_arch *arch, ss_json *json) {
    bool is_used = ss_json_bool(json, "use_sliding_window", false);
    if (is_used && !ss_json_is_null(json, "sliding_window") &&
        ss_json_int(json, "sliding_window", 4096, 0, SS_CONTEXT_MAX) == 0)
        ss_json_refuse(json, "use_sliding_window", "a sliding_window of a key or more", "0");
    if (is_used)
        arch->window = ss_read_window(json, 4096);
    else
        ss_json_number(json, "sliding_window", 0.0, 0.0, SS_CONTEXT_MAX);
}

static void apply_window(ss_arch *arch, ss_json *json) {
    read_window(arch, json);
    ss_read_late_windows(arch, json, 28);
}

void ss_qwen2_read(ss_arch *arch, ss_json *json) {
    ss_read_llama_like(arch, json, &(ss_llama_defaults){.G = 32, .context = 32768});
    arch->attention_bias = true;
    apply_window(arch, json);
}

void ss_qwen3_read(ss_arch *arch, ss_json *json) {
    ss_read_llama_like(arch, json, &(ss_llama_defaults){.G = 32, .K = 128, .context = 32768});
    ss_read_attention_bias(arch, json, "attention_bias", false);
    arch->qk_norm = SS_QK_NORM_HEAD;
    apply_window(arch, json);
}

/* Reads which layers have one feed-forward for all tokens: those of a list, and all but every
 * `decoder_sparse_step`-th. Returns true if there are any. */
static bool read_dense_layers(ss_arch *arch, ss_json *json) {
    const cJSON *list = ss_json_item(json, "mlp_only_layers"), *item;
    int step = ss_json_int(json, "decoder_sparse_step", 1, 1, SS_LAYERS_MAX);
    int layers = arch->blocks ? arch->blocks : arch->L;
    bool has_dense = false;
    if (list && !cJSON_IsArray(list)) ss_json_fail(json, "mlp_only_layers", "a list of layers");
    for (int l = 0; l < layers; l++) {
        arch->dense[l] = (l + 1) % step != 0;
        cJSON_ArrayForEach(item, list) arch->dense[l] |=
            cJSON_IsNumber(item) && item->valueint == l;
        has_dense |= arch->dense[l];
    }
    return has_dense;
}

void ss_read_qwen_experts(ss_arch *arch, ss_json *json, int default_F, int default_E,
                          int default_top_k) {
    int F = arch->F;
    arch->F = ss_json_int(json, "moe_intermediate_size", default_F, 1, SS_FFN_MAX);
    ss_read_experts(arch, json, "num_experts", default_E, default_top_k);
    ss_refuse_alias(json, "num_local_experts", "num_experts", arch->E);
    arch->router_shares = !ss_json_bool(json, "norm_topk_prob", false);
    if (read_dense_layers(arch, json)) arch->dense_F = F;
}

void ss_qwen2_moe_read(ss_arch *arch, ss_json *json) {
    ss_read_llama_like(arch, json, &(ss_llama_defaults){.G = 16, .context = 32768});
    arch->attention_bias = ss_json_bool(json, "qkv_bias", true);
    read_window(arch, json);
    int limit = ss_json_int(json, "max_window_layers", 28, 0, SS_CONTEXT_MAX);
    for (int l = 0; l < arch->L; l++) arch->windowed[l] = arch->window && l % 2 == 0 && l < limit;
    ss_read_layer_types(arch, json);
    arch->shared_F = ss_json_int(json, "shared_expert_intermediate_size", 5632, 1, SS_FFN_MAX);
    ss_read_qwen_experts(arch, json, 1408, 60, 4);
}

void ss_qwen3_moe_read(ss_arch *arch, ss_json *json) {
    ss_read_llama_like(arch, json, &(ss_llama_defaults){.G = 4, .context = 32768});
    ss_read_attention_bias(arch, json, "attention_bias", false);
    arch->qk_norm = SS_QK_NORM_HEAD;
    read_window(arch, json);
    ss_window_all_layers(arch);
    int local = ss_json_int(json, "num_local_experts", 128, 1, SS_EXPERTS_MAX);
    ss_read_qwen_experts(arch, json, 768, local, 8);
}
