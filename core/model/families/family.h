/* Families: a family's file translates its config.json into an ss_arch and loads its tensors into
 * an ss_model. A new family is one row in family.c and one file, or a few lines in the file of its
 * nearest relative. */
#ifndef SS_MODEL_FAMILY_H
#define SS_MODEL_FAMILY_H

#include "../arch.h"
#include "../files/json.h"
#include "../load.h"

/* Reads a config into all of arch but its family; errors stay in json. */
typedef void ss_read_config(ss_arch *arch, ss_json *json);

/* Loads the tensors before and after the layers: embedding, positions, final norm, head. Sets the
 * prefix of all later names; errors stay in the loader. */
typedef void ss_load_ends(ss_model *model, ss_loader *loader);

typedef struct ss_family {
    const char *name; /* model_type in config.json */
    bool variants;    /* the config may have every key of variant.h */
    ss_read_config *read;
    ss_load_ends *load_ends;
    ss_load_layer *load_layer;
    /* Keys that this family reads and others refuse, separated by spaces; NULL: none. */
    const char *extra_keys;
} ss_family;

const ss_family *ss_family_find(const char *name);

const char *ss_family_name(size_t i);

/* Refuses keys that would change what the model computes, unless its family reads them.
 * `extra_keys` lists keys that the family reads; NULL: none. */
void ss_family_refuse(ss_json *json, const char *extra_keys);

/* Refuses a null that transformers would refuse. */
void ss_refuse_nulls(ss_json *json);

ss_read_config ss_apertus_read, ss_bert_read, ss_bloom_read, ss_codegen_read, ss_cohere_read,
    ss_cohere2_read, ss_deepseek_v2_read, ss_deepseek_v3_read, ss_dots1_read, ss_ernie_read,
    ss_exaone4_read, ss_falcon_h1_read, ss_falcon_read, ss_gemma_read, ss_gemma2_read,
    ss_gemma3_read, ss_gemma3_multimodal_read, ss_gemma4_read, ss_glm_read, ss_glm4_read,
    ss_gpt2_read, ss_gpt_bigcode_read, ss_gpt_neo_read, ss_gpt_neox_read, ss_gpt_oss_read,
    ss_gptj_read, ss_granite_read, ss_granite_swa_read, ss_granitemoe_read, ss_helium_read,
    ss_hunyuan_read, ss_hunyuan_moe_read, ss_lfm2_read, ss_llama_read, ss_mimo_read,
    ss_mistral_read, ss_mixtral_read, ss_mpt_read, ss_nanogpt_read, ss_nemotron_read, ss_olmo_read,
    ss_olmo2_read, ss_olmo3_read, ss_olmoe_read, ss_opt_read, ss_phi_read, ss_phi3_read,
    ss_phimoe_read, ss_qwen2_read, ss_qwen2_moe_read, ss_qwen3_read, ss_qwen3_moe_read,
    ss_qwen3_5_read, ss_qwen3_5_multimodal_read, ss_qwen3_next_read, ss_seed_oss_read,
    ss_smollm3_read, ss_stablelm_read, ss_starcoder2_read;

ss_load_ends ss_load_bert_ends, ss_load_falcon_ends, ss_load_falcon_h1_ends, ss_load_gemma3_ends,
    ss_load_gpt2_ends, ss_load_gpt_neox_ends, ss_load_lfm2_ends, ss_load_llama_ends,
    ss_load_mpt_ends, ss_load_opt_ends, ss_load_phi_ends, ss_load_qwen3_5_ends;

ss_load_layer ss_load_apertus_layer, ss_load_bert_layer, ss_load_deepseek_layer,
    ss_load_dots1_layer, ss_load_falcon_h1_layer, ss_load_falcon_layer, ss_load_gemma4_layer,
    ss_load_glm_layer, ss_load_gpt2_layer, ss_load_gpt_neo_layer, ss_load_gpt_neox_layer,
    ss_load_gpt_oss_layer, ss_load_gptj_layer, ss_load_granitemoe_layer, ss_load_hunyuan_moe_layer,
    ss_load_lfm2_layer, ss_load_llama_layer, ss_load_mixtral_layer, ss_load_mpt_layer,
    ss_load_opt_layer, ss_load_phi3_layer, ss_load_phi_layer, ss_load_qwen3_next_layer,
    ss_load_starcoder2_layer;

/* Reads the activation that `key` names; `default_value` if the key is absent. */
ss_activation ss_read_activation(ss_json *json, const char *key, const char *default_value);

/* Returns the object that describes rotary positions: as in transformers, rope_scaling unless it is
 * empty, else rope_parameters; its `object` is NULL if the config has neither. */
ss_json ss_rope_object(ss_json *json);

/* Reads rope_theta and rope_parameters (rope_scaling before transformers 5) into `rotary`, whose
 * base and part hold the defaults. Refuses unknown types and keys. `context` is the model's context
 * length, the default of the original length that the scaling stretches. */
void ss_read_rotary(ss_rotary *rotary, ss_json *json, int context);

/* Reads the keys of ss_read_rotary from the object `rope`, such as rope_parameters or its part for
 * one kind of layers. */
void ss_read_rope(ss_rotary *rotary, ss_json *rope, int context);

/* Calls ss_read_rotary for a family that rotates the first arch->rotary.part of each head, rounded
 * down to whole dimensions. */
void ss_read_partial_rotary(ss_arch *arch, ss_json *json);

void ss_set_rotary_width(ss_arch *arch);

void ss_read_llama_rotary(ss_arch *arch, ss_json *json);

/* Refuses scalings that transformers cannot compute in this family without head_dim. */
void ss_require_head_dim(ss_json *json);

/* Requires that rope_parameters, if the config has it, holds an object with rope_theta for each
 * kind of layers, and that there is no rope_scaling. */
void ss_require_rope_kinds(ss_json *json);

/* Reads rope_parameters with one object for the layers that see all keys and one for those with a
 * window. Without them rope_theta and rope_scaling describe the layers that see all keys, and the
 * base of the others is at `window_key`, or is the default base if window_key is NULL. */
void ss_read_two_rotaries(ss_arch *arch, ss_json *json, const char *window_key);

/* Reads sliding_window: null means 0, no window; an absent key means `default_value`. */
int ss_read_window(ss_json *json, int default_value);

void ss_window_all_layers(ss_arch *arch);

/* Reads a list of words, one for each layer, and marks the layers with the word `marked`; all
 * others must have the word `unmarked`. Returns false, and marks nothing, if the key is absent. */
bool ss_read_layer_words(bool *marks, int layers, ss_json *json, const char *key,
                         const char *unmarked, const char *marked);

/* Returns true if item is the word `marked`; refuses all others but `unmarked`. */
bool ss_read_layer_word(ss_json *json, const char *key, const cJSON *item, const char *unmarked,
                        const char *marked);

/* Reads from layer_types which layers have a window; if it is absent, arch->windowed stays. */
void ss_read_layer_types(ss_arch *arch, ss_json *json);

/* Reads layer_types of a model with layers without attention: "full_attention" means attention,
 * `word` means none. If the key is absent, arch->layers stays. */
void ss_read_attention_layers(ss_arch *arch, ss_json *json, const char *word);

void ss_mixer_reset_factors(ss_mixer_sizes *sizes);

#define SS_KERNEL_MAX 64

/* Refuses a model without a layer with attention, a number of value heads that is not a multiple of
 * the key heads, and a state that is too large; errors about heads and state name `key`. */
void ss_check_mixer(const ss_arch *arch, ss_json *json, const char *key);

/* Gives arch->window, if it is not 0, to all layers except every `pattern`-th, unless layer_types
 * lists the layers. */
void ss_read_window_pattern(ss_arch *arch, ss_json *json, int pattern);

/* Gives arch->window to the layers from max_window_layers on, unless layer_types lists the layers;
 * `default_value` replaces an absent max_window_layers. */
void ss_read_late_windows(ss_arch *arch, ss_json *json, int default_value);

/* The default values of keys in configs of llama's relatives; 0 means llama's default. */
typedef struct ss_llama_defaults {
    int L, H, D, F, V; /* 0: the config must have the key */
    int G, K, context;
    double theta, norm_eps;
    double part;       /* rotated share of a head, which the config can change; 0: always 1 */
    bool has_sections; /* as in ss_rotary */
    bool skips_rotary; /* the family reads rotary positions itself */
    bool tied;
    const char *activation_key, *activation;
} ss_llama_defaults;

/* Reads sizes, rotary positions, RMSNorm and a gated feed-forward, without biases. */
void ss_read_llama_like(ss_arch *arch, ss_json *json, const ss_llama_defaults *defaults);

void ss_read_granite_factors(ss_arch *arch, ss_json *json);

/* Reads attention_bias, for q, k, v and o, and mlp_bias, for the feed-forward. */
void ss_read_llama_biases(ss_arch *arch, ss_json *json);

/* Loads the embedding, the head, and the final norm, which the file calls `norm`. */
void ss_load_llama_like_ends(ss_model *model, ss_loader *loader, const char *norm);

/* Loads q, k, v, o, and the other tensors of attention that arch asks for. */
void ss_load_llama_heads(ss_layer *layer, ss_loader *loader, const ss_arch *arch);

/* Loads a norm like the model's other norms: with or without bias, a gain of w or 1 + w. */
void ss_load_llama_norm(ss_loader *loader, ss_norm *norm, const char *name, const ss_arch *arch,
                        size_t n);

/* Loads q, k, v and o with the norms of the layer; of a layer without attention only the norms. */
void ss_load_llama_attention(ss_layer *layer, ss_loader *loader, const ss_arch *arch);

/* Loads gate, up and down, of width F, named "<name>.gate_proj" and so on. */
void ss_load_llama_ffn(ss_ffn *ffn, ss_loader *loader, const char *name, const ss_arch *arch,
                       size_t F);

/* Loads gate, up and down of expert e, "mlp.experts.<e>"; GGUF keeps all experts in one tensor. */
void ss_load_llama_expert(ss_ffn *expert, ss_loader *loader, const ss_arch *arch, int e);

/* Loads -exp(A) for the numbers A [heads] under that name. */
const float *ss_load_decay(ss_loader *loader, const char *name, size_t heads);

/* Reads F, E and top_k of qwen's experts, and which layers have none. */
void ss_read_qwen_experts(ss_arch *arch, ss_json *json, int default_F, int default_E,
                          int default_top_k);

/* Loads a gated feed-forward whose gate and up are one matrix, "layers.%d.mlp.gate_up_proj". */
void ss_load_gate_up(ss_ffn *ffn, ss_loader *loader, const ss_arch *arch);

/* Refuses an activation that needs a gate, for feed-forwards without one. */
void ss_refuse_gated_activation(const ss_arch *arch, ss_json *json, const char *key);

/* Keys and defaults of GPT-2's relatives. Comments give what NULL or 0 means. */
typedef struct ss_gpt_keys {
    const char *L, *H, *D;      /* "num_hidden_layers", "num_attention_heads", "hidden_size" */
    const char *F;              /* no key: F is 4 D */
    bool requires_F;            /* the default is 4 D */
    const char *context;        /* "max_position_embeddings" */
    int default_context;        /* 2048 */
    const char *norm_eps;       /* no key: eps is 1e-5, which is also the default */
    const char *activation_key; /* "activation_function" */
    const char *activation;     /* no key: the family sets arch->activation */
    bool untied;                /* the default of tie_word_embeddings is true */
} ss_gpt_keys;

/* Reads sizes, LayerNorm and an ungated feed-forward; query heads have keys, D/H wide. */
void ss_read_gpt_like(ss_arch *arch, ss_json *json, const ss_gpt_keys *keys);

/* Sets LayerNorm with the eps at `key`. */
void ss_read_layer_norm(ss_arch *arch, ss_json *json, const char *key, double default_eps);

void ss_read_attention_bias(ss_arch *arch, ss_json *json, const char *key, bool default_value);

/* Reads E at `key`, and top_k at num_experts_per_tok, whose default is at most E. */
void ss_read_experts(ss_arch *arch, ss_json *json, const char *key, int default_E,
                     int default_top_k);

void ss_refuse_null(ss_json *json, const char *key);

/* Refuses a value at `alias`, another name of `key`, unless it is the value that was read at `key`:
 * transformers would use it instead. */
void ss_refuse_alias(ss_json *json, const char *alias, const char *key, int value);

/* Refuses norms of queries and keys, where `key` asks for them. */
void ss_refuse_qk_norm(ss_json *json, const char *key);

/* Returns a reader of text_config, the text model inside a multimodal config. */
ss_json ss_text_config(ss_json *json);

/* Upper bounds of sizes in a config: far above any published model, far below overflow. */
#define SS_HEADS_MAX 1024
#define SS_WIDTH_MAX 65536
#define SS_FFN_MAX 1048576
#define SS_VOCABULARY_MAX 4194304
#define SS_CONTEXT_MAX 16777216

/* Adds to a refusal how the model can be recorded instead; returns the status. */
ss_status ss_advise_recording(ss_status status, ss_error *err);

/* Reads a parsed config, as ss_arch_read does; errors name the file `file`. */
ss_status ss_arch_read_object(ss_arch *arch, const cJSON *config, const char *file, ss_error *err);

#endif
