#include "family.h"

#include "../../math/scalar.h"

#include <stdio.h>
#include <string.h>

#define CAPS "attn_logit_softcapping final_logit_softcapping"
#define FACTORS "embedding_multiplier residual_multiplier attention_multiplier logits_scaling"

static const ss_family families[] = {
    {"llama", true, ss_llama_read, ss_load_llama_ends, ss_load_llama_layer, NULL},
    {"gpt2", false, ss_gpt2_read, ss_load_gpt2_ends, ss_load_gpt2_layer, NULL},
    {"nanogpt", false, ss_nanogpt_read, ss_load_gpt2_ends, ss_load_gpt2_layer, NULL},
    {"gpt_bigcode", false, ss_gpt_bigcode_read, ss_load_gpt2_ends, ss_load_gpt2_layer, NULL},
    {"gpt_neox", false, ss_gpt_neox_read, ss_load_gpt_neox_ends, ss_load_gpt_neox_layer, NULL},
    {"gpt_neo", false, ss_gpt_neo_read, ss_load_gpt2_ends, ss_load_gpt_neo_layer, NULL},
    {"gptj", false, ss_gptj_read, ss_load_gpt2_ends, ss_load_gptj_layer, NULL},
    {"codegen", false, ss_codegen_read, ss_load_gpt2_ends, ss_load_gptj_layer, NULL},
    {"opt", false, ss_opt_read, ss_load_opt_ends, ss_load_opt_layer, NULL},
    {"mistral", true, ss_mistral_read, ss_load_llama_ends, ss_load_llama_layer, NULL},
    {"mixtral", true, ss_mixtral_read, ss_load_llama_ends, ss_load_mixtral_layer, NULL},
    {"qwen2", false, ss_qwen2_read, ss_load_llama_ends, ss_load_llama_layer, NULL},
    {"qwen2_moe", false, ss_qwen2_moe_read, ss_load_llama_ends, ss_load_llama_layer, NULL},
    {"qwen3", false, ss_qwen3_read, ss_load_llama_ends, ss_load_llama_layer, NULL},
    {"qwen3_moe", false, ss_qwen3_moe_read, ss_load_llama_ends, ss_load_llama_layer, NULL},
    {"qwen3_next", false, ss_qwen3_next_read, ss_load_llama_ends, ss_load_qwen3_next_layer, NULL},
    {"qwen3_5_text", false, ss_qwen3_5_read, ss_load_llama_ends, ss_load_qwen3_next_layer, NULL},
    {"qwen3_5", false, ss_qwen3_5_multimodal_read, ss_load_qwen3_5_ends, ss_load_qwen3_next_layer,
     NULL},
    {"lfm2", false, ss_lfm2_read, ss_load_lfm2_ends, ss_load_lfm2_layer, NULL},
    {"falcon_h1", false, ss_falcon_h1_read, ss_load_falcon_h1_ends, ss_load_falcon_h1_layer,
     "embedding_multiplier"},
    {"smollm3", false, ss_smollm3_read, ss_load_llama_ends, ss_load_llama_layer, "no_rope_layers"},
    {"phi", false, ss_phi_read, ss_load_phi_ends, ss_load_phi_layer, NULL},
    {"phi3", false, ss_phi3_read, ss_load_llama_ends, ss_load_phi3_layer, NULL},
    {"granite", false, ss_granite_read, ss_load_llama_ends, ss_load_llama_layer, FACTORS},
    {"stablelm", false, ss_stablelm_read, ss_load_llama_ends, ss_load_llama_layer, NULL},
    {"starcoder2", false, ss_starcoder2_read, ss_load_llama_ends, ss_load_starcoder2_layer, NULL},
    {"seed_oss", false, ss_seed_oss_read, ss_load_llama_ends, ss_load_llama_layer, NULL},
    {"ernie4_5", false, ss_ernie_read, ss_load_llama_ends, ss_load_llama_layer, NULL},
    {"helium", false, ss_helium_read, ss_load_llama_ends, ss_load_llama_layer, NULL},
    {"olmo", false, ss_olmo_read, ss_load_llama_ends, ss_load_llama_layer, "clip_qkv"},
    {"olmo2", false, ss_olmo2_read, ss_load_llama_ends, ss_load_llama_layer, NULL},
    {"olmo3", false, ss_olmo3_read, ss_load_llama_ends, ss_load_llama_layer, NULL},
    {"olmoe", false, ss_olmoe_read, ss_load_llama_ends, ss_load_llama_layer, "clip_qkv"},
    {"granitemoe", false, ss_granitemoe_read, ss_load_llama_ends, ss_load_granitemoe_layer,
     FACTORS},
    {"exaone4", false, ss_exaone4_read, ss_load_llama_ends, ss_load_llama_layer, NULL},
    {"cohere", false, ss_cohere_read, ss_load_llama_ends, ss_load_llama_layer, NULL},
    {"cohere2", false, ss_cohere2_read, ss_load_llama_ends, ss_load_llama_layer, NULL},
    {"glm", false, ss_glm_read, ss_load_llama_ends, ss_load_glm_layer, NULL},
    {"glm4", false, ss_glm4_read, ss_load_llama_ends, ss_load_glm_layer, NULL},
    {"nemotron", false, ss_nemotron_read, ss_load_llama_ends, ss_load_llama_layer, NULL},
    {"hunyuan_v1_dense", false, ss_hunyuan_read, ss_load_llama_ends, ss_load_llama_layer, NULL},
    {"hunyuan_v1_moe", false, ss_hunyuan_moe_read, ss_load_llama_ends, ss_load_hunyuan_moe_layer,
     NULL},
    {"gemma", false, ss_gemma_read, ss_load_llama_ends, ss_load_llama_layer, NULL},
    {"gemma2", false, ss_gemma2_read, ss_load_llama_ends, ss_load_llama_layer, CAPS},
    {"gemma3_text", false, ss_gemma3_read, ss_load_llama_ends, ss_load_llama_layer, NULL},
    {"gemma3", false, ss_gemma3_multimodal_read, ss_load_gemma3_ends, ss_load_llama_layer, NULL},
    {"gemma4_text", false, ss_gemma4_read, ss_load_llama_ends, ss_load_gemma4_layer,
     "final_logit_softcapping use_bidirectional_attention per_layer_config"},
    {"falcon", false, ss_falcon_read, ss_load_falcon_ends, ss_load_falcon_layer, NULL},
    {"bloom", false, ss_bloom_read, ss_load_falcon_ends, ss_load_falcon_layer, NULL},
    {"mpt", false, ss_mpt_read, ss_load_mpt_ends, ss_load_mpt_layer, NULL},
    {"gpt_oss", false, ss_gpt_oss_read, ss_load_llama_ends, ss_load_gpt_oss_layer, NULL},
    {"bert", false, ss_bert_read, ss_load_bert_ends, ss_load_bert_layer, NULL},
    {"deepseek_v2", false, ss_deepseek_v2_read, ss_load_llama_ends, ss_load_deepseek_layer, NULL},
    {"deepseek_v3", false, ss_deepseek_v3_read, ss_load_llama_ends, ss_load_deepseek_layer, NULL},
    {"dots1", false, ss_dots1_read, ss_load_llama_ends, ss_load_dots1_layer, NULL},
    {"granite_swa", false, ss_granite_swa_read, ss_load_llama_ends, ss_load_llama_layer, FACTORS},
    {"mimo_v2_flash", false, ss_mimo_read, ss_load_llama_ends, ss_load_dots1_layer, NULL},
    {"apertus", false, ss_apertus_read, ss_load_llama_ends, ss_load_apertus_layer, NULL},
    {"phimoe", false, ss_phimoe_read, ss_load_llama_ends, ss_load_mixtral_layer, NULL},
};

const ss_family *ss_family_find(const char *name) {
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (!strcmp(name, families[i].name)) return &families[i];
    return NULL;
}

const char *ss_family_name(size_t i) {
    return i < sizeof families / sizeof *families ? families[i].name : NULL;
}

/* Keys of features, which null, false and an empty list turn off, and keys of factors, which 1
 * turns off as well. */
static const char feature_keys[] =
    "attention_chunk_size\0use_mrope\0use_bidirectional_attention\0"
    "scale_attn_by_inverse_layer_idx\0add_cross_attention\0is_encoder_decoder\0"
    "_remove_final_layer_norm\0no_rope_layers\0clip_qkv\0attn_temperature_tuning\0"
    "per_layer_config\0attention_multiplier\0rope_interleaved\0text_encoder\0attn_logit_"
    "softcapping\0final_logit_"
    "softcapping\0";
static const char factor_keys[] = "embedding_multiplier\0residual_multiplier\0logits_scaling\0";

static bool is_off(const cJSON *item) {
    return !item || cJSON_IsNull(item) || cJSON_IsFalse(item) ||
           (cJSON_IsArray(item) && cJSON_GetArraySize(item) == 0);
}

static bool is_one(const cJSON *item) {
    return cJSON_IsNumber(item) && item->valuedouble >= 1.0 && item->valuedouble <= 1.0;
}

static bool has_text(const cJSON *object, const char *key, const char *text) {
    const char *value = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, key));
    return value && !strcmp(value, text);
}

/* Returns true for I8 with one scale per row, as compressed-tensors stores it (load.h). */
static bool is_int8_by_rows(const cJSON *quantization) {
    const cJSON *group, *groups = cJSON_GetObjectItemCaseSensitive(quantization, "config_groups");
    bool is_supported = cJSON_IsObject(groups) &&
                        has_text(quantization, "format", "int-quantized") &&
                        has_text(quantization, "quant_method", "compressed-tensors");
    cJSON_ArrayForEach(group, groups) {
        const cJSON *weights = cJSON_GetObjectItemCaseSensitive(group, "weights");
        const cJSON *bits = cJSON_GetObjectItemCaseSensitive(weights, "num_bits");
        is_supported = is_supported && cJSON_IsNumber(bits) && bits->valueint == 8 &&
                       has_text(weights, "type", "int") &&
                       has_text(weights, "strategy", "channel") &&
                       cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(weights, "symmetric")) &&
                       is_off(cJSON_GetObjectItemCaseSensitive(group, "input_activations"));
    }
    return is_supported;
}

static void refuse_features(ss_json *json, const char *keys, const char *extra_keys) {
    for (const char *key = keys; *key; key += strlen(key) + 1) {
        const cJSON *item = ss_json_item(json, key);
        bool is_read = extra_keys && strstr(extra_keys, key);
        if (!is_read && !is_off(item) && !(keys == factor_keys && is_one(item)))
            ss_json_refuse(json, key, "a model without it", "otherwise");
    }
}

/* Keys whose value transformers does not allow to be null. head_dim and num_key_value_heads are
 * among them in families where their default is a number. */
static const char typed_keys[] =
    "original_max_position_embeddings\0"
    "_remove_final_layer_norm\0activation\0activation_function\0add_cross_attention\0"
    "alibi\0alibi_bias_max\0apply_residual_connection_post_layernorm\0attention_bias\0"
    "attention_in_multiplier\0attention_k_eq_v\0attention_layers\0attention_multiplier\0"
    "attention_out_bias\0attention_out_multiplier\0attention_probs_dropout_prob\0"
    "attention_softmax_in_fp32\0attn_impl\0attn_type\0attn_uses_sequence_id\0"
    "block_auto_adjust_ff_dim\0block_multiple_of\0conv_L_cache\0conv_bias\0d_model\0"
    "decoder_sparse_step\0do_layer_norm_before\0embedding_fraction\0embedding_multiplier\0"
    "enable_bias\0enable_moe_block\0expansion_ratio\0ffn_dim\0hidden_act\0"
    "hidden_activation\0hidden_dropout_prob\0image_token_id\0image_token_index\0input_jitter_"
    "noise\0"
    "mm_tokens_per_image\0use_double_wide_mlp\0topk_method\0video_token_"
    "id\0vision_end_token_id\0"
    "vision_start_token_id\0vocab_size_per_layer_input\0"
    "hidden_size\0hidden_size_per_layer_input\0"
    "init_device\0init_std\0is_decoder\0key_multiplier\0kv_lora_rank\0"
    "layer_norm_elementwise_affine\0layer_norm_eps\0layer_norm_epsilon\0learned_pos_emb\0"
    "linear_conv_kernel_dim\0linear_key_head_dim\0linear_num_key_heads\0"
    "linear_num_value_heads\0linear_value_head_dim\0lm_head_bias\0lm_head_multiplier\0"
    "logits_scaling\0mamba_chunk_size\0mamba_conv_bias\0mamba_d_conv\0mamba_d_head\0"
    "mamba_norm_before_gate\0max_position_embeddings\0max_seq_len\0max_window_layers\0"
    "mlp_bias\0moe_topk\0multi_query\0n_ctx\0n_embd\0n_head\0n_heads\0n_layer\0n_layers\0"
    "n_positions\0n_routed_experts\0n_shared_experts\0no_bias\0no_rope_layer_interval\0"
    "norm_eps\0norm_epsilon\0norm_topk_prob\0norm_type\0num_attention_heads\0"
    "num_experts_per_tok\0num_heads\0num_hidden_layers\0num_kv_shared_layers\0num_layers\0"
    "num_local_experts\0parallel_attn\0prefix_lm\0qk_layernorm\0qk_ln\0qk_nope_head_dim\0"
    "qk_rope_head_dim\0qkv_bias\0query_pre_attn_scalar\0residual_multiplier\0rms_norm_eps\0"
    "rope_theta\0rope_type\0rotary_dim\0router_jitter_noise\0"
    "scale_attention_softmax_in_fp32\0scale_attn_by_inverse_layer_idx\0scale_attn_weights\0"
    "shared_expert_intermediate_size\0ssm_in_multiplier\0ssm_out_multiplier\0swiglu_alpha\0"
    "swiglu_limit\0tie_word_embeddings\0time_step_limit\0truncate\0type\0type_vocab_size\0"
    "use_bias\0use_parallel_residual\0use_qkv_bias\0use_sliding_window\0v_head_dim\0"
    "vocab_size\0window_size\0";

void ss_refuse_nulls(ss_json *json) {
    const cJSON *item;
    cJSON_ArrayForEach(item, json->object) if (cJSON_IsNull(item) &&
                                               ss_is_listed(item->string, typed_keys))
        ss_json_fail(json, item->string, "a value, found null");
}

/* Returns true for names of numbers, which transformers does not allow to be true or false. */
static bool is_name_of_number(const char *name) {
    static const char *const ends[] = {"_size", "_experts", "_per_tok"};
    bool is_number = !strncmp(name, "num_", 4);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        size_t n = strlen(name), end = strlen(ends[i]);
        is_number |= n > end && !strcmp(name + n - end, ends[i]);
    }
    return is_number;
}

static void refuse_types(ss_json *json) {
    const cJSON *item, *code = ss_json_item(json, "auto_map");
    if (code && !cJSON_IsObject(code)) ss_json_fail(json, "auto_map", "an object");
    cJSON_ArrayForEach(item,
                       json->object) if (cJSON_IsBool(item) && is_name_of_number(item->string))
        ss_json_fail(json, item->string, "a number, found true or false");
}

void ss_refuse_null(ss_json *json, const char *key) {
    if (ss_json_is_null(json, key)) ss_json_fail(json, key, "a number, found null");
}

void ss_refuse_alias(ss_json *json, const char *alias, const char *key, int value) {
    const cJSON *item = ss_json_item(json, alias);
    bool is_same = cJSON_IsNumber(item) && item->valuedouble >= value && item->valuedouble <= value;
    char expected[64];
    snprintf(expected, sizeof expected, "the same number as %s", key);
    if (item && !is_same) ss_json_refuse(json, alias, expected, "another number");
}

void ss_family_refuse(ss_json *json, const char *extra_keys) {
    ss_refuse_nulls(json);
    refuse_types(json);
    refuse_features(json, feature_keys, extra_keys);
    refuse_features(json, factor_keys, extra_keys);
    ss_json quantization = ss_json_object(json, "quantization_config");
    if (!quantization.object || is_int8_by_rows(quantization.object)) return;
    const char *method = ss_json_text(&quantization, "quant_method", "another way");
    ss_json_refuse(json, "quantization_config",
                   "weights as F32, F16 or BF16, or as I8 with a scale for each row", method);
}

ss_json ss_text_config(ss_json *json) {
    ss_json text = ss_json_object(json, "text_config");
    if (!text.object) ss_json_refuse(json, "text_config", "a text model inside", "nothing");
    ss_family_refuse(&text, NULL);
    ss_json_require_bool(&text, "is_causal", true);
    return text;
}

ss_activation ss_read_activation(ss_json *json, const char *key, const char *default_value) {
    static const struct {
        const char *name;
        ss_activation activation;
    } table[] = {
        {"silu", SS_ACTIVATION_SILU},
        {"swish", SS_ACTIVATION_SILU},
        {"gelu", SS_ACTIVATION_GELU},
        {"gelu_python", SS_ACTIVATION_GELU},
        {"gelu_new", SS_ACTIVATION_GELU_TANH},
        {"gelu_fast", SS_ACTIVATION_GELU_TANH},
        {"gelu_pytorch_tanh", SS_ACTIVATION_GELU_TANH},
        {"relu", SS_ACTIVATION_RELU},
        {"relu2", SS_ACTIVATION_RELU2},
    };
    const char *name = ss_json_text(json, key, default_value);
    /* Only apertus reads the curves of xIELU. */
    if (!strcmp(name, default_value) && !strcmp(name, "xielu")) return SS_ACTIVATION_XIELU;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (!strcmp(name, table[i].name)) return table[i].activation;
    ss_json_refuse(json, key, "\"silu\", \"gelu\", \"gelu_new\", \"relu\" and \"relu2\"", name);
    return SS_ACTIVATION_SILU;
}

void ss_refuse_gated_activation(const ss_arch *arch, ss_json *json, const char *key) {
    if (arch->activation == SS_ACTIVATION_SILU)
        ss_json_refuse(json, key, "\"gelu\", \"gelu_new\", \"relu\" and \"relu2\" without a gate",
                       "silu");
}

int ss_read_window(ss_json *json, int default_value) {
    if (ss_json_is_null(json, "sliding_window")) return 0;
    return ss_json_int(json, "sliding_window", default_value, 1, SS_CONTEXT_MAX);
}

void ss_window_all_layers(ss_arch *arch) {
    for (int l = 0; l < arch->L; l++) arch->windowed[l] = arch->window > 0;
}

bool ss_read_layer_word(ss_json *json, const char *key, const cJSON *item, const char *unmarked,
                        const char *marked) {
    const char *word = cJSON_IsString(item) ? item->valuestring : "something else";
    char expected[64];
    snprintf(expected, sizeof expected, "\"%s\" and \"%s\"", unmarked, marked);
    bool is_marked = !strcmp(word, marked);
    if (!is_marked && strcmp(word, unmarked)) ss_json_refuse(json, key, expected, word);
    return is_marked;
}

bool ss_read_layer_words(bool *marks, int layers, ss_json *json, const char *key,
                         const char *unmarked, const char *marked) {
    const cJSON *list = ss_json_item(json, key), *item;
    int l = 0;
    cJSON_ArrayForEach(item, list) {
        bool is_marked = ss_read_layer_word(json, key, item, unmarked, marked);
        if (l < layers) marks[l] = is_marked;
        l++;
    }
    if (list && l != layers)
        ss_json_refuse(json, key, "one word for each layer", "another number of them");
    return list != NULL;
}

void ss_read_layer_types(ss_arch *arch, ss_json *json) {
    if (!ss_read_layer_words(arch->windowed, arch->L, json, "layer_types", "full_attention",
                             "sliding_attention"))
        return;
    for (int l = 0; l < arch->L; l++)
        if (arch->windowed[l] && !arch->window)
            ss_json_refuse(json, "sliding_window",
                           "a number, in use, where layer_types says sliding (use_sliding_window)",
                           "none");
}

void ss_read_attention_layers(ss_arch *arch, ss_json *json, const char *word) {
    bool is_mixer[SS_LAYERS_MAX] = {false};
    if (!ss_read_layer_words(is_mixer, arch->blocks, json, "layer_types", "full_attention", word))
        return;
    arch->L = 0;
    for (int l = 0; l < arch->blocks; l++)
        if (!is_mixer[l]) arch->layers[arch->L++] = (short)l;
}

void ss_mixer_reset_factors(ss_mixer_sizes *sizes) {
    sizes->in_scale = sizes->z_scale = sizes->step_scale = sizes->out_scale = 1.0f;
    for (int part = 0; part < 3; part++) sizes->scales[part] = 1.0f;
}

const float *ss_load_decay(ss_loader *loader, const char *name, size_t heads) {
    float *decay = ss_load_numbers(loader, name, 0, heads);
    for (size_t h = 0; decay && h < heads; h++) decay[h] = (float)-ss_exp_double((double)decay[h]);
    return decay;
}

/* Upper bound of the numbers in a layer's state: far above any published model. */
#define STATE_MAX (1 << 26)

void ss_check_mixer(const ss_arch *arch, ss_json *json, const char *key) {
    const ss_mixer_sizes *sizes = &arch->mixer;
    if (arch->L < 1) ss_json_refuse(json, "layer_types", "a layer with attention or more", "none");
    if (sizes->values % sizes->keys)
        ss_json_refuse(json, key, "a multiple of the heads of keys", "another number");
    int columns = 2 * sizes->keys * sizes->key_width + sizes->values * sizes->value_width;
    double matrices = (double)sizes->values * sizes->key_width * sizes->value_width;
    if ((sizes->kind != SS_MIXER_CONVOLUTION && matrices > STATE_MAX) ||
        (double)columns * sizes->kernel > STATE_MAX)
        ss_json_refuse(json, key, "a state of 2^26 numbers at most", "more");
}

void ss_read_window_pattern(ss_arch *arch, ss_json *json, int pattern) {
    for (int l = 0; l < arch->L; l++) arch->windowed[l] = arch->window && (l + 1) % pattern;
    ss_read_layer_types(arch, json);
}

void ss_read_late_windows(ss_arch *arch, ss_json *json, int default_value) {
    int first_layer = ss_json_int(json, "max_window_layers", default_value, 0, SS_CONTEXT_MAX);
    for (int l = 0; l < arch->L; l++) arch->windowed[l] = arch->window && l >= first_layer;
    ss_read_layer_types(arch, json);
}

void ss_read_layer_norm(ss_arch *arch, ss_json *json, const char *key, double default_eps) {
    arch->norm = SS_NORM_LAYER;
    arch->norm_eps = (float)ss_json_number(json, key, default_eps, 0.0, 1.0);
}

void ss_read_attention_bias(ss_arch *arch, ss_json *json, const char *key, bool default_value) {
    arch->attention_bias = arch->output_bias = ss_json_bool(json, key, default_value);
}

void ss_refuse_qk_norm(ss_json *json, const char *key) {
    if (ss_json_bool(json, key, false))
        ss_json_refuse(json, key, "queries and keys without norms", "true");
}

void ss_read_experts(ss_arch *arch, ss_json *json, const char *key, int default_E,
                     int default_top_k) {
    arch->E = ss_json_int(json, key, default_E, 1, SS_EXPERTS_MAX);
    arch->top_k = ss_json_int(json, "num_experts_per_tok", default_top_k, 1, arch->E);
    if (arch->top_k > arch->E)
        ss_json_refuse(json, "num_experts_per_tok", "at most the number of experts", "nothing");
}
