/* Translates the metadata of a GGUF file to the keys of config.json, which the families read. */
#include "source.h"

#include "../families/family.h"

#include "../../math/scalar.h"
#include "../../math/unpack.h"

#include <math.h>
#include <string.h>

static void put_number(ss_gguf_source *source, const char *key, double value) {
    if (!cJSON_AddNumberToObject(source->config, key, value))
        ss_gguf_refuse(source, SS_NO_MEMORY, key, "room for it");
}

static void put_bool(ss_gguf_source *source, const char *key, bool value) {
    if (!cJSON_AddBoolToObject(source->config, key, value))
        ss_gguf_refuse(source, SS_NO_MEMORY, key, "room for it");
}

/* As a default, this number makes a key required. */
#define REQUIRED ((double)NAN)

/* Copies the number at a key of GGUF to a key of config.json. */
static void copy_number(ss_gguf_source *source, const char *gguf, const char *config,
                        double default_value) {
    put_number(source, config, ss_gguf_number(source, gguf, default_value));
}

/* Copies a required number of GGUF to several keys, since families call it by different names. */
static void copy_number_to_all(ss_gguf_source *source, const char *gguf,
                               const char *const *config_keys) {
    for (; *config_keys; config_keys++) copy_number(source, gguf, *config_keys, REQUIRED);
}

#define KEYS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* Writes the sizes of all models. */
static void put_sizes(ss_gguf_source *source) {
    copy_number_to_all(source, "block_count", KEYS("num_hidden_layers", "n_layer", "n_layers"));
    copy_number_to_all(source, "embedding_length", KEYS("hidden_size", "n_embd", "d_model"));
    copy_number_to_all(source, "context_length",
                       KEYS("max_position_embeddings", "n_positions", "seq_length", "max_seq_len"));
    copy_number_to_all(source, "attention.head_count",
                       KEYS("num_attention_heads", "n_head", "n_heads"));
    copy_number(source, "rope.freq_base", "rope_theta", 10000.0);
}

static void put_feed_forward(ss_gguf_source *source) {
    copy_number_to_all(source, "feed_forward_length",
                       KEYS("intermediate_size", "n_inner", "ffn_hidden_size"));
}

static void put_layer_norm(ss_gguf_source *source) {
    copy_number_to_all(source, "attention.layer_norm_epsilon",
                       KEYS("layer_norm_eps", "layer_norm_epsilon", "norm_epsilon", "norm_eps"));
}

static void require_value(ss_gguf_source *source, const char *key, double value) {
    const cJSON *item = ss_gguf_find(source, key);
    double actual = cJSON_IsBool(item) ? cJSON_IsTrue(item) : ss_gguf_number(source, key, value);
    if (!(fabs(actual - value) <= 1e-6 * fabs(value)) && source->status == SS_OK)
        source->status =
            ss_fail(source->err, SS_UNSUPPORTED, ss_gguf_full_key(source, key).text,
                    SS_GGUF_METADATA ": this build computes %g, the file says %g", value, actual);
}

/* Keys that refuse_unknown_keys accepts in every architecture: functions below read them, or they
 * repeat facts of the tensors, or they only name the origin of the file. */
static const char general_keys[] =
    "block_count\0embedding_length\0feed_forward_length\0context_length\0attention.head_count\0"
    "attention.head_count_kv\0attention.key_length\0attention.value_length\0"
    "attention.layer_norm_rms_epsilon\0attention.layer_norm_epsilon\0attention.causal\0"
    "rope.freq_base\0rope.dimension_count\0rope.scaling.type\0rope.scaling.factor\0"
    "rope.scaling.original_context_length\0rope.scaling.attn_factor\0"
    "rope.scaling.yarn_attn_factor\0rope.scaling.yarn_beta_fast\0rope.scaling.yarn_beta_slow\0"
    "rope.scale_linear\0rope.scaling.finetuned\0expert_count\0expert_used_count\0"
    "use_parallel_residual\0vocab_size\0tensor_data_layout\0";

#define GEMMA "gemma2\0gemma3_text\0"
#define MOE "qwen3_moe\0hunyuan_v1_moe\0olmoe\0granitemoe\0gpt_oss\0"
#define GRANITE "granite\0granitemoe\0"
#define COHERE "cohere\0cohere2\0"
#define MAY_HAVE_WINDOW "phi3\0cohere2\0gpt_oss\0"
#define MAY_CLIP "mpt\0olmo\0"

/* Keys that only some families accept. */
static const struct {
    const char *types, *keys;
} extra_keys[] = {
    {GEMMA, "attention.sliding_window\0attention.sliding_window_pattern\0rope.freq_base_swa\0"
            "final_logit_softcapping\0attn_logit_softcapping\0"},
    {MOE, "expert_feed_forward_length\0expert_shared_count\0expert_shared_feed_forward_length\0"},
    {GRANITE, "embedding_scale\0residual_scale\0attention.scale\0logit_scale\0"},
    {COHERE, "logit_scale\0"},
    {"lfm2\0", "shortconv.l_cache\0"},
    {MAY_HAVE_WINDOW, "attention.sliding_window\0"},
    {MAY_CLIP, "attention.clamp_kqv\0"},
    {"mpt\0", "attention.max_alibi_bias\0"},
};

static bool has_type(const ss_gguf_source *source, const char *type) {
    return !strcmp(ss_gguf_model_type(source->family), type);
}

static bool has_type_among(const ss_gguf_source *source, const char *types) {
    return ss_is_listed(ss_gguf_model_type(source->family), types);
}

/* Refuses unknown keys of the architecture, since any may change what the model computes. */
static void refuse_unknown_keys(ss_gguf_source *source) {
    size_t n = strlen(source->architecture);
    const cJSON *item;
    cJSON_ArrayForEach(item, source->pairs) {
        if (strncmp(item->string, source->architecture, n) != 0 || item->string[n] != '.') continue;
        const char *key = item->string + n + 1;
        bool is_known = ss_is_listed(key, general_keys);
        for (size_t i = 0; i < sizeof extra_keys / sizeof *extra_keys; i++)
            is_known |= has_type_among(source, extra_keys[i].types) &&
                        ss_is_listed(key, extra_keys[i].keys);
        if (!is_known) ss_gguf_refuse(source, SS_UNSUPPORTED, item->string, "a model without it");
    }
}

/* Refuses a file of a split model, which lacks the tensors of the other files. */
static void refuse_split(ss_gguf_source *source) {
    const cJSON *parts = cJSON_GetObjectItemCaseSensitive(source->pairs, "split.count");
    if (cJSON_IsNumber(parts) && parts->valuedouble > 1.0)
        ss_gguf_refuse(source, SS_UNSUPPORTED, "split.count",
                       "one whole file, found a part of several; llama-gguf-split --merge makes "
                       "one that can be read or recorded");
}

static void check_general(ss_gguf_source *source) {
    refuse_split(source);
    const cJSON *type = cJSON_GetObjectItemCaseSensitive(source->pairs, "general.type");
    if (type && !(cJSON_IsString(type) && !strcmp(type->valuestring, "model")))
        ss_gguf_refuse(source, SS_UNSUPPORTED, "general.type", "a model");
    require_value(source, "attention.causal", 1.0);
    if (!has_type_among(source, MOE)) {
        require_value(source, "expert_count", 0.0);
        require_value(source, "expert_used_count", 0.0);
    }
    refuse_unknown_keys(source);
}

/* The parameters of Llama 3's scaling in all published models. */
#define LLAMA3_LOW 1.0
#define LLAMA3_HIGH 4.0
#define LLAMA3_CONTEXT 8192.0
#define TWO_PI 6.283185307179586

/* Returns the divisor that the converter of Llama 3 stores for the frequency of pair j. */
static double llama3_divisor(double theta, size_t pairs, size_t j, double factor) {
    double frequency = 1.0 / ss_pow(theta, (double)j / (double)pairs);
    double original_share =
        (LLAMA3_CONTEXT * frequency / TWO_PI - LLAMA3_LOW) / (LLAMA3_HIGH - LLAMA3_LOW);
    original_share = fmin(fmax(original_share, 0.0), 1.0);
    return 1.0 / ((1.0 - original_share) / factor + original_share);
}

/* Writes Llama 3's scaling, which has no key in GGUF: its converter stores a divisor for each pair.
 * The divisors of the published parameters are recognized, others are refused. */
static void put_divisors(ss_gguf_source *source, double width) {
    double theta = ss_gguf_number(source, "rope.freq_base", 10000.0);
    size_t n = source->factors_n;
    float divisor = 1.0f;
    if (n) ss_unpack(&divisor, source->factors + 4 * (n - 1), SS_F32, 1);
    double factor = (double)divisor;
    bool matches = 2.0 * (double)n == width && theta >= 1.0 && factor >= 1.0 && factor <= 1e6;
    for (size_t j = 0; matches && j < n; j++) {
        ss_unpack(&divisor, source->factors + 4 * j, SS_F32, 1);
        double expected = llama3_divisor(theta, n, j, factor);
        matches = fabs((double)divisor - expected) <= 1e-4 * expected;
    }
    if (!matches)
        ss_gguf_refuse(
            source, SS_UNSUPPORTED, "rope_freqs.weight",
            "the divisors of Llama 3, with bounds of 1 and 4 and a first context of 8192");
    if (!matches || factor == 1.0) return;
    cJSON *scaling = cJSON_AddObjectToObject(source->config, "rope_scaling");
    cJSON_AddStringToObject(scaling, "rope_type", "llama3");
    cJSON_AddNumberToObject(scaling, "factor", factor);
    cJSON_AddNumberToObject(scaling, "low_freq_factor", LLAMA3_LOW);
    cJSON_AddNumberToObject(scaling, "high_freq_factor", LLAMA3_HIGH);
    cJSON_AddNumberToObject(scaling, "original_max_position_embeddings", LLAMA3_CONTEXT);
}

static void put_yarn(ss_gguf_source *source, cJSON *scaling) {
    double context = ss_gguf_number(source, "context_length", REQUIRED);
    cJSON_AddNumberToObject(
        scaling, "original_max_position_embeddings",
        ss_gguf_number(source, "rope.scaling.original_context_length", context));
    cJSON_AddNumberToObject(scaling, "beta_fast",
                            ss_gguf_number(source, "rope.scaling.yarn_beta_fast", 32.0));
    cJSON_AddNumberToObject(scaling, "beta_slow",
                            ss_gguf_number(source, "rope.scaling.yarn_beta_slow", 1.0));
    /* No key says that the bounds of gpt-oss are not whole numbers of pairs, as in all its models.
     */
    cJSON_AddBoolToObject(scaling, "truncate", !has_type(source, "gpt_oss"));
}

static void put_scaling(ss_gguf_source *source, double width) {
    /* llama.cpp multiplies rotated queries and keys by both, with every type of scaling. */
    require_value(source, "rope.scaling.attn_factor", 1.0);
    require_value(source, "rope.scaling.yarn_attn_factor", 1.0);
    double factor = ss_gguf_number(source, "rope.scaling.factor",
                                   ss_gguf_number(source, "rope.scale_linear", 1.0));
    const char *type = ss_gguf_word(source, "rope.scaling.type", "linear");
    bool is_linear = !strcmp(type, "linear"), is_yarn = !strcmp(type, "yarn");
    /* Early converters wrote a factor of 0 for no scaling. */
    bool is_unscaled = !strcmp(type, "none") || (is_linear && (factor <= 0.0 || factor == 1.0));
    if (!is_unscaled && source->factors)
        ss_gguf_refuse(source, SS_UNSUPPORTED, "rope_freqs.weight",
                       "no second scaling beside rope.scaling");
    if (!is_unscaled && !is_linear && !is_yarn)
        ss_gguf_refuse(source, SS_UNSUPPORTED, ss_gguf_full_key(source, "rope.scaling.type").text,
                       "none, linear or yarn");
    if (source->factors) put_divisors(source, width);
    if (is_unscaled || source->factors) return;
    cJSON *scaling = cJSON_AddObjectToObject(source->config, "rope_scaling");
    cJSON_AddStringToObject(scaling, "rope_type", type);
    cJSON_AddNumberToObject(scaling, "factor", factor);
    if (is_yarn) put_yarn(source, scaling);
}

static double read_head_width(ss_gguf_source *source) {
    double H = ss_gguf_number(source, "attention.head_count", REQUIRED);
    double D = ss_gguf_number(source, "embedding_length", REQUIRED);
    double K = H >= 1.0 ? floor(D / H) : 1.0;
    K = ss_gguf_number(source, "attention.key_length", K);
    require_value(source, "attention.value_length", K);
    return K;
}

static void put_gemma(ss_gguf_source *source, double K) {
    bool is_gemma3 = has_type(source, "gemma3_text");
    double L = ss_gguf_number(source, "block_count", REQUIRED);
    double H = ss_gguf_number(source, "attention.head_count", REQUIRED);
    copy_number(source, "attention.sliding_window", "sliding_window", REQUIRED);
    if (is_gemma3) {
        copy_number(source, "attention.sliding_window_pattern", "sliding_window_pattern", 6.0);
        copy_number(source, "rope.freq_base_swa", "rope_local_base_freq", 10000.0);
        require_value(source, "final_logit_softcapping", 0.0);
        require_value(source, "attn_logit_softcapping", 0.0);
    } else {
        copy_number(source, "attn_logit_softcapping", "attn_logit_softcapping", 50.0);
        copy_number(source, "final_logit_softcapping", "final_logit_softcapping", 30.0);
        require_value(source, "attention.sliding_window_pattern", 2.0);
    }
    /* gemma2 with 46 layers and gemma3 with 62, the largest model of each, scale scores by D / H
     * and not by K. */
    double D = ss_gguf_number(source, "embedding_length", REQUIRED);
    put_number(source, "query_pre_attn_scalar",
               L == (is_gemma3 ? 62.0 : 46.0) && H >= 1.0 ? floor(D / H) : K);
}

/* Writes settings of experts that llama.cpp derives from the architecture. In Qwen, the weights of
 * experts sum to 1, and the width of experts is not F; only Hunyuan has a shared expert, of width
 * F. */
static void put_experts(ss_gguf_source *source) {
    bool is_qwen = has_type(source, "qwen3_moe"), is_hunyuan = has_type(source, "hunyuan_v1_moe");
    double F = ss_gguf_number(source, "feed_forward_length", REQUIRED);
    copy_number(source, "expert_count", "num_experts", REQUIRED);
    copy_number(source, "expert_count", "num_local_experts", REQUIRED);
    copy_number(source, "expert_used_count", "num_experts_per_tok", REQUIRED);
    copy_number(source, "expert_used_count", "moe_topk", REQUIRED);
    put_bool(source, "norm_topk_prob", is_qwen);
    put_number(source, "moe_intermediate_size",
               ss_gguf_number(source, "expert_feed_forward_length", is_qwen ? REQUIRED : F));
    if (!is_qwen) require_value(source, "expert_feed_forward_length", F);
    require_value(source, "expert_shared_feed_forward_length", is_hunyuan ? F : 0.0);
    require_value(source, "expert_shared_count", is_hunyuan ? 1.0 : 0.0);
}

/* Copies the eps of the norms under the key that the family reads. OLMo's eps is fixed: its config
 * has no key for it. */
static void put_norm(ss_gguf_source *source) {
    bool is_olmo = has_type(source, "olmo");
    if (is_olmo) require_value(source, "attention.layer_norm_epsilon", 1e-5);
    if (has_type_among(source, "phi\0stablelm\0starcoder2\0cohere\0cohere2\0nemotron\0"))
        put_layer_norm(source);
    else if (!is_olmo)
        copy_number(source, "attention.layer_norm_rms_epsilon", "rms_norm_eps", REQUIRED);
}

/* Returns how many dimensions of a head of width K are rotated. Writes their share of K, slightly
 * increased, so that K times the share rounds down to this number. */
static double put_rotary_part(ss_gguf_source *source, double K, const char *key) {
    double width = ss_gguf_number(source, "rope.dimension_count", K);
    put_number(source, key, K >= 1.0 ? fmin((width + 1.0 / 1024.0) / K, 1.0) : 1.0);
    return width;
}

static void put_parallel(ss_gguf_source *source, bool default_value) {
    const cJSON *parallel = ss_gguf_find(source, "use_parallel_residual");
    if (parallel && !cJSON_IsBool(parallel))
        ss_gguf_refuse(source, SS_BAD_CONFIG,
                       ss_gguf_full_key(source, "use_parallel_residual").text, "true or false");
    put_bool(source, "use_parallel_residual", parallel ? cJSON_IsTrue(parallel) : default_value);
}

static void put_clip(ss_gguf_source *source, cJSON *config) {
    if (has_type_among(source, MAY_CLIP) && ss_gguf_find(source, "attention.clamp_kqv"))
        cJSON_AddNumberToObject(config, "clip_qkv",
                                ss_gguf_number(source, "attention.clamp_kqv", 0.0));
}

/* Writes layer_types and num_key_value_heads from the list of key/value heads, which has 0 for
 * layers without attention and the same number for all others. */
static void put_mixed_layers(ss_gguf_source *source) {
    const char *key = "attention.head_count_kv";
    cJSON *types = cJSON_AddArrayToObject(source->config, "layer_types");
    const cJSON *list = ss_gguf_find(source, key), *item;
    double G = 0.0;
    bool is_valid = true;
    cJSON_ArrayForEach(item, list) {
        double heads = item->valuedouble;
        is_valid &= heads >= 0.0 && (heads <= 0.0 || G <= 0.0 || fabs(heads - G) < 0.5);
        if (heads > 0.0) G = heads;
        cJSON_AddItemToArray(types, cJSON_CreateString(heads > 0.0 ? "full_attention" : "conv"));
    }
    if (!cJSON_IsArray(list) || !is_valid)
        ss_gguf_refuse(source, SS_UNSUPPORTED, ss_gguf_full_key(source, key).text,
                       "a list of 0 and of one other number");
    put_number(source, "num_key_value_heads", G);
}

/* Writes the keys of lfm2. The feed-forward width is not adjusted, since GGUF has the final one. */
static void put_lfm2(ss_gguf_source *source) {
    copy_number(source, "attention.layer_norm_rms_epsilon", "norm_eps", REQUIRED);
    copy_number(source, "shortconv.l_cache", "conv_L_cache", REQUIRED);
    put_bool(source, "block_auto_adjust_ff_dim", false);
    put_mixed_layers(source);
}

static void put_llama(ss_gguf_source *source) {
    double K = read_head_width(source),
           H = ss_gguf_number(source, "attention.head_count", REQUIRED);
    put_feed_forward(source);
    put_norm(source);
    if (has_type(source, "lfm2"))
        put_lfm2(source);
    else
        copy_number(source, "attention.head_count_kv", "num_key_value_heads", H);
    put_number(source, "head_dim", K);
    if (has_type_among(source, "phi\0phi3\0stablelm\0glm4\0nemotron\0"))
        put_rotary_part(source, K, "partial_rotary_factor");
    else
        require_value(source, "rope.dimension_count", K);
    /* Phi-4 is a phi3 without a window, for which the converter writes 0. */
    double no_window = has_type(source, "phi3") ? 0.0 : -1.0;
    if (has_type_among(source, MAY_HAVE_WINDOW) &&
        ss_gguf_number(source, "attention.sliding_window", no_window) != no_window)
        copy_number(source, "attention.sliding_window", "sliding_window", REQUIRED);
    if (has_type_among(source, GRANITE)) {
        copy_number(source, "embedding_scale", "embedding_multiplier", REQUIRED);
        copy_number(source, "residual_scale", "residual_multiplier", REQUIRED);
        copy_number(source, "attention.scale", "attention_multiplier", REQUIRED);
        copy_number(source, "logit_scale", "logits_scaling", REQUIRED);
    }
    if (has_type_among(source, COHERE)) copy_number(source, "logit_scale", "logit_scale", REQUIRED);
    if (has_type(source, "stablelm")) put_parallel(source, false);
    /* Families differ in the name of this flag, so it is written under all names. */
    put_bool(source, "use_bias", source->attention_bias);
    put_bool(source, "use_qkv_bias", source->attention_bias);
    put_bool(source, "attention_bias", source->attention_bias);
    put_bool(source, "mlp_bias", source->ffn_bias);
    put_clip(source, source->config);
    put_scaling(source, K);
    if (has_type_among(source, GEMMA)) put_gemma(source, K);
    if (has_type_among(source, MOE)) put_experts(source);
}

/* Writes the keys of falcon and bloom. Falcon's attention and feed-forward stay parallel, as they
 * are by default: llama.cpp does not convert the Falcon models with ALiBi, where they are not. */
static void put_falcon(ss_gguf_source *source) {
    put_feed_forward(source);
    put_layer_norm(source);
    copy_number(source, "attention.head_count_kv", "num_kv_heads", 1.0);
    put_bool(source, "new_decoder_architecture", true);
    put_bool(source, "bias", source->attention_bias);
    if (has_type(source, "bloom"))
        require_value(source, "feed_forward_length",
                      4.0 * ss_gguf_number(source, "embedding_length", REQUIRED));
}

static void put_gptneox(ss_gguf_source *source) {
    double K = read_head_width(source);
    put_feed_forward(source);
    put_layer_norm(source);
    double width = put_rotary_part(source, K, "rotary_pct");
    copy_number(source, "rope.freq_base", "rotary_emb_base", 10000.0);
    put_parallel(source, true);
    put_bool(source, "attention_bias", source->attention_bias);
    put_scaling(source, width);
}

static void put_mpt(ss_gguf_source *source) {
    put_layer_norm(source);
    require_value(source, "attention.head_count_kv",
                  ss_gguf_number(source, "attention.head_count", REQUIRED));
    require_value(source, "feed_forward_length",
                  4.0 * ss_gguf_number(source, "embedding_length", REQUIRED));
    require_value(source, "attention.max_alibi_bias", 8.0);
    put_clip(source, cJSON_AddObjectToObject(source->config, "attn_config"));
}

/* Writes all keys of the config. If cJSON runs out of memory, an object inside it is NULL, and the
 * keys of the object count as missing. */
static void put_config(ss_gguf_source *source) {
    const char *type = ss_gguf_model_type(source->family);
    check_general(source);
    if (!cJSON_AddStringToObject(source->config, "model_type", type))
        ss_gguf_refuse(source, SS_NO_MEMORY, "model_type", "room for it");
    put_number(source, "vocab_size", source->V);
    put_bool(source, "tie_word_embeddings", !source->has_output);
    put_sizes(source);
    if (!strcmp(type, "gpt_bigcode")) require_value(source, "attention.head_count_kv", 1.0);
    if (!strcmp(type, "gpt2") || !strcmp(type, "gpt_bigcode")) {
        put_feed_forward(source);
        put_layer_norm(source);
    } else if (!strcmp(type, "mpt"))
        put_mpt(source);
    else if (!strcmp(type, "gpt_neox"))
        put_gptneox(source);
    else if (!strcmp(type, "falcon") || !strcmp(type, "bloom"))
        put_falcon(source);
    else
        put_llama(source);
}

/* Translates the pairs to a config.json, which the caller frees with cJSON_Delete. */
static ss_status read_config(cJSON **config, ss_bytes file, ss_error *err) {
    ss_gguf_source source;
    ss_status status = ss_gguf_source_read(&source, file, err);
    if (status == SS_OK) {
        source.config = cJSON_CreateObject();
        put_config(&source);
        status = ss_advise_recording(source.status, err);
    }
    cJSON_Delete(source.pairs);
    if (status == SS_OK)
        *config = source.config;
    else
        cJSON_Delete(source.config);
    return status;
}

ss_status ss_arch_read_gguf(ss_arch *arch, ss_bytes file, ss_error *err) {
    cJSON *config;
    ss_status status = read_config(&config, file, err);
    if (status != SS_OK) return status;
    status = ss_arch_read_object(arch, config, SS_GGUF_METADATA, err);
    cJSON_Delete(config);
    return status;
}
