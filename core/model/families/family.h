/*
 * Families: a family's file translates its config.json into an ss_arch and loads its tensors into
 * an ss_model. A new family is one row in family.c and one file, or a few lines in the file of its
 * nearest relative.
 */
#ifndef SS_MODEL_FAMILY_H
#define SS_MODEL_FAMILY_H

#include "../arch.h"
#include "../files/json.h"
#include "../load.h"

typedef struct ss_family {
    const char *name; /* model_type in config.json */
    bool variants;    /* the config may have every key of variant.h */
    /* Fills all of arch but its family; errors stay in json. */
    void (*read)(ss_arch *arch, ss_json *json);
    /* Asks the loader for every tensor; errors stay in the loader. */
    void (*load)(ss_model *model, ss_loader *loader);
    /* Keys that this family reads and others refuse, separated by spaces; NULL: none. */
    const char *extra_keys;
} ss_family;

/* Returns the family with that name, or NULL. */
const ss_family *ss_family_find(const char *name);

/* Writes the names of all families, "llama, gpt2, ...", for an error. */
void ss_family_names(char *text, size_t bytes);

/* Refuses keys that would change what the model computes, unless its family reads them.
 * `extra_keys` lists keys that the family reads; NULL: none. */
void ss_family_refuse(ss_json *json, const char *extra_keys);

void ss_apertus_load(ss_model *model, ss_loader *loader);
void ss_apertus_read(ss_arch *arch, ss_json *json);
void ss_bert_load(ss_model *model, ss_loader *loader);
void ss_bert_read(ss_arch *arch, ss_json *json);
void ss_bloom_read(ss_arch *arch, ss_json *json);
void ss_codegen_read(ss_arch *arch, ss_json *json);
void ss_cohere_read(ss_arch *arch, ss_json *json);
void ss_cohere2_read(ss_arch *arch, ss_json *json);
void ss_deepseek_load(ss_model *model, ss_loader *loader);
void ss_deepseek_v2_read(ss_arch *arch, ss_json *json);
void ss_deepseek_v3_read(ss_arch *arch, ss_json *json);
void ss_dots1_load(ss_model *model, ss_loader *loader);
void ss_dots1_read(ss_arch *arch, ss_json *json);
void ss_ernie_read(ss_arch *arch, ss_json *json);
void ss_exaone4_read(ss_arch *arch, ss_json *json);
void ss_falcon_h1_load(ss_model *model, ss_loader *loader);
void ss_falcon_h1_read(ss_arch *arch, ss_json *json);
void ss_falcon_load(ss_model *model, ss_loader *loader);
void ss_falcon_read(ss_arch *arch, ss_json *json);
void ss_gemma2_read(ss_arch *arch, ss_json *json);
void ss_gemma3_read(ss_arch *arch, ss_json *json);
void ss_gemma3_multimodal_load(ss_model *model, ss_loader *loader);
void ss_gemma3_multimodal_read(ss_arch *arch, ss_json *json);
void ss_gemma4_load(ss_model *model, ss_loader *loader);
void ss_gemma4_read(ss_arch *arch, ss_json *json);
void ss_glm_load(ss_model *model, ss_loader *loader);
void ss_glm_read(ss_arch *arch, ss_json *json);
void ss_glm4_read(ss_arch *arch, ss_json *json);
void ss_gpt2_load(ss_model *model, ss_loader *loader);
void ss_gpt2_read(ss_arch *arch, ss_json *json);
void ss_gpt_bigcode_read(ss_arch *arch, ss_json *json);
void ss_gpt_neo_load(ss_model *model, ss_loader *loader);
void ss_gpt_neo_read(ss_arch *arch, ss_json *json);
void ss_gpt_neox_load(ss_model *model, ss_loader *loader);
void ss_gpt_neox_read(ss_arch *arch, ss_json *json);
void ss_gpt_oss_load(ss_model *model, ss_loader *loader);
void ss_gpt_oss_read(ss_arch *arch, ss_json *json);
void ss_gptj_load(ss_model *model, ss_loader *loader);
void ss_gptj_read(ss_arch *arch, ss_json *json);
void ss_granite_read(ss_arch *arch, ss_json *json);
void ss_granite_swa_load(ss_model *model, ss_loader *loader);
void ss_granite_swa_read(ss_arch *arch, ss_json *json);
void ss_granitemoe_load(ss_model *model, ss_loader *loader);
void ss_granitemoe_read(ss_arch *arch, ss_json *json);
void ss_helium_read(ss_arch *arch, ss_json *json);
void ss_hunyuan_read(ss_arch *arch, ss_json *json);
void ss_hunyuan_moe_load(ss_model *model, ss_loader *loader);
void ss_hunyuan_moe_read(ss_arch *arch, ss_json *json);
void ss_lfm2_load(ss_model *model, ss_loader *loader);
void ss_lfm2_read(ss_arch *arch, ss_json *json);
void ss_llama_load(ss_model *model, ss_loader *loader);
void ss_llama_read(ss_arch *arch, ss_json *json);
void ss_mimo_load(ss_model *model, ss_loader *loader);
void ss_mimo_read(ss_arch *arch, ss_json *json);
void ss_mistral_read(ss_arch *arch, ss_json *json);
void ss_mixtral_load(ss_model *model, ss_loader *loader);
void ss_mixtral_read(ss_arch *arch, ss_json *json);
void ss_mpt_load(ss_model *model, ss_loader *loader);
void ss_mpt_read(ss_arch *arch, ss_json *json);
void ss_nemotron_read(ss_arch *arch, ss_json *json);
void ss_olmo_read(ss_arch *arch, ss_json *json);
void ss_olmo2_read(ss_arch *arch, ss_json *json);
void ss_olmo3_read(ss_arch *arch, ss_json *json);
void ss_olmoe_read(ss_arch *arch, ss_json *json);
void ss_opt_load(ss_model *model, ss_loader *loader);
void ss_opt_read(ss_arch *arch, ss_json *json);
void ss_phi_load(ss_model *model, ss_loader *loader);
void ss_phi_read(ss_arch *arch, ss_json *json);
void ss_phi3_load(ss_model *model, ss_loader *loader);
void ss_phi3_read(ss_arch *arch, ss_json *json);
void ss_phimoe_load(ss_model *model, ss_loader *loader);
void ss_phimoe_read(ss_arch *arch, ss_json *json);
void ss_qwen2_read(ss_arch *arch, ss_json *json);
void ss_qwen_moe_load(ss_model *model, ss_loader *loader);
void ss_qwen2_moe_read(ss_arch *arch, ss_json *json);
void ss_qwen3_read(ss_arch *arch, ss_json *json);
void ss_qwen3_moe_read(ss_arch *arch, ss_json *json);
void ss_qwen3_5_load(ss_model *model, ss_loader *loader);
void ss_qwen3_5_read(ss_arch *arch, ss_json *json);
void ss_qwen3_5_multimodal_load(ss_model *model, ss_loader *loader);
void ss_qwen3_5_multimodal_read(ss_arch *arch, ss_json *json);
void ss_qwen3_next_load(ss_model *model, ss_loader *loader);
void ss_qwen3_next_read(ss_arch *arch, ss_json *json);
void ss_seed_oss_read(ss_arch *arch, ss_json *json);
void ss_smollm3_read(ss_arch *arch, ss_json *json);
void ss_stablelm_read(ss_arch *arch, ss_json *json);
void ss_starcoder2_load(ss_model *model, ss_loader *loader);
void ss_starcoder2_read(ss_arch *arch, ss_json *json);

/* Reads the activation that `key` names; `default_value` if the key is absent. */
ss_activation ss_read_activation(ss_json *json, const char *key, const char *default_value);

/* Returns the object that describes rotary positions: as in transformers, rope_scaling unless it is
 * empty, else rope_parameters; NULL if the config has neither. */
const cJSON *ss_rope_object(ss_json *json);

/*
 * Reads rope_theta and rope_parameters (rope_scaling before transformers 5) into `rotary`, whose
 * base and part hold the defaults. Refuses unknown types and keys. `context` is the model's context
 * length, the default of the original length that the scaling stretches.
 */
void ss_read_rotary(ss_rotary *rotary, ss_json *json, int context);

/* Reads the keys of ss_read_rotary from `object`, which may be rope_parameters of one kind of
 * layers. */
void ss_read_rope(ss_rotary *rotary, const cJSON *object, ss_json *json, int context);

/* Calls ss_read_rotary for a family that rotates the first arch->rotary.part of each head, rounded
 * down to whole dimensions. */
void ss_read_partial_rotary(ss_arch *arch, ss_json *json);

void ss_read_llama_rotary(ss_arch *arch, ss_json *json);

/*
 * Reads rope_parameters with one object for the layers that see all keys and one for those with a
 * window; arch->rotary and arch->window_rotary hold the defaults. Returns false if there is neither
 * object: the keys are then flat, and the caller reads them.
 */
bool ss_read_two_rotaries(ss_arch *arch, ss_json *json);

/* Reads sliding_window in tokens: null means no window, which is 0; an absent key means
 * `default_value`.
 */
int ss_read_window(ss_json *json, int default_value);

/* Gives arch->window, if it is not 0, to all layers. */
void ss_window_all_layers(ss_arch *arch);

/* Reads from layer_types which layers have a window; if it is absent, arch->windowed stays. */
void ss_read_layer_types(ss_arch *arch, ss_json *json);

/* Reads layer_types of a model with layers without attention: "full_attention" means attention,
 * `word` means none. If the key is absent, arch->layers stays. */
void ss_read_mixed_layers(ss_arch *arch, ss_json *json, const char *word);

void ss_mixer_reset_factors(ss_mixer_sizes *sizes);

#define SS_KERNEL_MAX 64

/* Refuses a mixer whose state is too large, whose numbers of heads do not divide each other, or
 * that leaves no layer with attention; `key` is named in errors about heads. */
void ss_check_mixer(const ss_arch *arch, ss_json *json, const char *key);

/* Gives arch->window, if it is not 0, to all layers except every `pattern`-th, unless layer_types
 * lists the layers. */
void ss_read_window_pattern(ss_arch *arch, ss_json *json, int pattern);

/* Gives arch->window to the layers from max_window_layers on, unless layer_types lists the layers;
 * `default_value` replaces an absent max_window_layers. */
void ss_read_late_windows(ss_arch *arch, ss_json *json, int default_value);

/* Refuses a head width that rotary positions cannot rotate, and a number of heads that the
 * key/value heads do not divide. */
void ss_check_heads(const ss_arch *arch, ss_json *json);

/* The default values of keys in configs of llama's relatives; 0 means llama's default. */
typedef struct ss_llama_defaults {
    int L, H, D, F, V; /* 0: the config must have the key */
    int G, K, context;
    double theta, norm_eps;
    bool tied;
    const char *activation_key, *activation;
} ss_llama_defaults;

/* Reads sizes, rotary positions, RMSNorm and a gated feed-forward, without biases. */
void ss_read_llama_like(ss_arch *arch, ss_json *json, const ss_llama_defaults *defaults);

void ss_read_granite_factors(ss_arch *arch, ss_json *json);

/* Reads attention_bias, for q, k, v and o, and mlp_bias, for the feed-forward. */
void ss_read_llama_biases(ss_arch *arch, ss_json *json);

/* Loads the embedding, the head, and the final norm, which the file calls `norm`; none has a bias.
 * Names begin with "model.". */
void ss_load_ends(ss_model *model, ss_loader *loader, const char *norm);

/* Loads embedding, head and final norm. Later names get the prefix "model.", unless a prefix is
 * set. */
void ss_load_llama_ends(ss_model *model, ss_loader *loader);

/* Loads embedding, head and final norm under GPT-2's names. Later names get the prefix
 * "transformer." if the file has it. */
void ss_load_gpt2_ends(ss_model *model, ss_loader *loader);

/* Loads q, k, v, o, and the other tensors of attention that arch asks for. */
void ss_load_llama_heads(ss_layer *layer, ss_loader *loader, const ss_arch *arch);

/* Loads a norm of n numbers like the model's other norms: with or without bias, with a gain of w or
 * 1 + w. */
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

void ss_load_qwen_experts(ss_layer *layer, ss_loader *loader, const ss_arch *arch);

/* Refuses layers without experts, which would need a feed-forward of another width. */
void ss_refuse_dense_layers(ss_json *json);

/* Loads a gated feed-forward whose gate and up are one matrix, "layers.%d.mlp.gate_up_proj". */
void ss_load_gate_up(ss_ffn *ffn, ss_loader *loader, const ss_arch *arch);

/* Loads the sink logits of a layer, which must have them; llama treats them as optional, since its
 * other operations have none. */
void ss_load_sinks(ss_layer *layer, ss_loader *loader, const ss_arch *arch);

/* Refuses an activation that needs a gate, for feed-forwards without one. */
void ss_check_plain(const ss_arch *arch, ss_json *json, const char *key);

/* Reads L, H and D by the family's keys; every query head has keys of its own, D/H wide. */
void ss_read_heads(ss_arch *arch, ss_json *json, const char *layers, const char *heads,
                   const char *width);

/* Refuses a number of heads that does not divide the width; the keys are those of ss_read_heads. */
void ss_check_width(const ss_arch *arch, ss_json *json, const char *heads, const char *width);

/* Upper bounds of sizes in a config: far above any published model, far below overflow. */
#define SS_HEADS_MAX 1024
#define SS_WIDTH_MAX 65536
#define SS_FFN_MAX 1048576
#define SS_VOCABULARY_MAX 4194304
#define SS_CONTEXT_MAX 16777216

/* Reads a parsed config, as ss_arch_read does; errors name the file `file`. */
ss_status ss_arch_read_object(ss_arch *arch, const cJSON *config, const char *file, ss_error *err);

#endif
