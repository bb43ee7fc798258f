/*
 * Families: one file each, translating a config.json and its tensor names into the description and
 * the weights. A new family is one row in family.c and one file, or a few lines in the file of its
 * nearest relative.
 */
#ifndef SS_MODEL_FAMILY_H
#define SS_MODEL_FAMILY_H

#include "../arch.h"
#include "../files/json.h"
#include "../load.h"

typedef struct ss_family {
    const char *name; /* model_type in config.json */
    bool variants;    /* its config may have every key of variant.h */
    /* Fills all of arch but its family; errors stay in json. */
    void (*read)(ss_arch *arch, ss_json *json);
    /* Asks the loader for every tensor; errors stay in the loader. */
    void (*load)(ss_model *model, ss_loader *loader);
    /* Keys that it reads and all others refuse: "attn_logit_softcapping ..."; NULL: none. */
    const char *reads;
} ss_family;

/* The row of that name, or NULL. */
const ss_family *ss_family_find(const char *name);

/* "llama, gpt2, ...": all names, for an error. */
void ss_family_names(char *text, size_t bytes);

/* Refuses, by name, keys of any family that change the arithmetic to what no family computes;
 * reads lists those that this family computes, or is NULL. */
void ss_family_refuse(ss_json *json, const char *reads);

void ss_bert_load(ss_model *model, ss_loader *loader);
void ss_bert_read(ss_arch *arch, ss_json *json);
void ss_bloom_read(ss_arch *arch, ss_json *json);
void ss_ernie_read(ss_arch *arch, ss_json *json);
void ss_falcon_load(ss_model *model, ss_loader *loader);
void ss_falcon_read(ss_arch *arch, ss_json *json);
void ss_gemma_load(ss_model *model, ss_loader *loader);
void ss_gemma2_read(ss_arch *arch, ss_json *json);
void ss_gemma3_read(ss_arch *arch, ss_json *json);
void ss_gemma3_whole_load(ss_model *model, ss_loader *loader);
void ss_gemma3_whole_read(ss_arch *arch, ss_json *json);
void ss_gpt2_load(ss_model *model, ss_loader *loader);
void ss_gpt2_read(ss_arch *arch, ss_json *json);
void ss_gpt_neo_load(ss_model *model, ss_loader *loader);
void ss_gpt_neo_read(ss_arch *arch, ss_json *json);
void ss_gpt_neox_load(ss_model *model, ss_loader *loader);
void ss_gpt_neox_read(ss_arch *arch, ss_json *json);
void ss_gpt_oss_load(ss_model *model, ss_loader *loader);
void ss_gpt_oss_read(ss_arch *arch, ss_json *json);
void ss_granite_read(ss_arch *arch, ss_json *json);
void ss_helium_read(ss_arch *arch, ss_json *json);
void ss_hunyuan_read(ss_arch *arch, ss_json *json);
void ss_hunyuan_moe_load(ss_model *model, ss_loader *loader);
void ss_hunyuan_moe_read(ss_arch *arch, ss_json *json);
void ss_llama_load(ss_model *model, ss_loader *loader);
void ss_llama_read(ss_arch *arch, ss_json *json);
void ss_mistral_read(ss_arch *arch, ss_json *json);
void ss_mixtral_load(ss_model *model, ss_loader *loader);
void ss_mixtral_read(ss_arch *arch, ss_json *json);
void ss_olmo_read(ss_arch *arch, ss_json *json);
void ss_olmo2_read(ss_arch *arch, ss_json *json);
void ss_olmo3_read(ss_arch *arch, ss_json *json);
void ss_opt_load(ss_model *model, ss_loader *loader);
void ss_opt_read(ss_arch *arch, ss_json *json);
void ss_phi3_load(ss_model *model, ss_loader *loader);
void ss_phi3_read(ss_arch *arch, ss_json *json);
void ss_qwen2_read(ss_arch *arch, ss_json *json);
void ss_qwen_moe_load(ss_model *model, ss_loader *loader);
void ss_qwen2_moe_read(ss_arch *arch, ss_json *json);
void ss_qwen3_read(ss_arch *arch, ss_json *json);
void ss_qwen3_moe_read(ss_arch *arch, ss_json *json);
void ss_seed_oss_read(ss_arch *arch, ss_json *json);
void ss_smollm3_read(ss_arch *arch, ss_json *json);
void ss_stablelm_read(ss_arch *arch, ss_json *json);
void ss_starcoder2_load(ss_model *model, ss_loader *loader);
void ss_starcoder2_read(ss_arch *arch, ss_json *json);

/* ---- what several families read ----------------------------------------------------------- */

/* The activation that key names; standard where it is absent. */
ss_activation ss_read_activation(ss_json *json, const char *key, const char *standard);

/* The object that says how positions are scaled: as in transformers, rope_scaling where it says
 * anything, else rope_parameters. NULL where there is neither. */
const cJSON *ss_rope_object(ss_json *json);

/*
 * rope_theta with rope_parameters, or rope_scaling as files before transformers 5 call it, into
 * rotary, which holds base and part as defaults. Refuses types and keys that it does not know. The
 * context is the model's: the default of the original one, which is stretched.
 */
void ss_read_rotary(ss_rotary *rotary, ss_json *json, int context);

/* The same from the object itself. */
void ss_read_rope(ss_rotary *rotary, const cJSON *object, ss_json *json, int context);

/* ss_read_rotary of llama and its like, which rotate whole heads. */
void ss_read_llama_rotary(ss_arch *arch, ss_json *json);

/*
 * rope_parameters with an object for the layers that see all keys and one for those with a window,
 * whose defaults arch->rotary and arch->window_rotary hold. False where it has neither: the keys
 * are flat, and the caller reads them.
 */
bool ss_read_two_rotaries(ss_arch *arch, ss_json *json);

/* sliding_window in tokens; null means none, which is 0, and absent means standard. */
int ss_read_window(ss_json *json, int standard);

/* layer_types, where it is present, says which layers have the window; else none changes. */
void ss_read_layer_types(ss_arch *arch, ss_json *json);

/* Refuses a head width that rotary positions cannot rotate, and heads that no group can share. */
void ss_check_heads(const ss_arch *arch, ss_json *json);

/* What llama's relatives have instead of llama's own where their config is silent; 0: llama's. */
typedef struct ss_llama_defaults {
    int L, H, D, F, V; /* 0: the config must say it */
    int G, K, context;
    double theta, norm_eps;
    bool tied;
    const char *activation_key, *activation;
} ss_llama_defaults;

/* Sizes, rotary positions, RMSNorm, gated feed-forward and no biases. */
void ss_read_llama_like(ss_arch *arch, ss_json *json, const ss_llama_defaults *defaults);

/* ---- what several families load ----------------------------------------------------------- */

/* Embedding, head, last norm; from here on names begin with "model.", unless a prefix is set. */
void ss_load_llama_ends(ss_model *model, ss_loader *loader);
void ss_load_gpt2_ends(ss_model *model, ss_loader *loader);

/* Norms, q, k, v, o, and what the description adds to them. */
void ss_load_llama_attention(ss_layer *layer, ss_loader *loader, const ss_arch *arch);

/* gate, up and down: "<name>.gate_proj" and so on, F wide. */
void ss_load_llama_ffn(ss_ffn *ffn, ss_loader *loader, const char *name, const ss_arch *arch,
                       size_t F);

/* The same of expert e, "mlp.experts.<e>"; in GGUF of all experts as one tensor. */
void ss_load_llama_expert(ss_ffn *expert, ss_loader *loader, const ss_arch *arch, int e);

/* Refuses what a feed-forward without gate is not computed with. */
void ss_check_plain(const ss_arch *arch, ss_json *json, const char *key);

/* Reads L, H and D by the family's keys; every query head has keys of its own, D/H wide. */
void ss_read_heads(ss_arch *arch, ss_json *json, const char *layers, const char *heads,
                   const char *width);

/* Refuses, by the keys of ss_read_heads, heads among which the width cannot be divided. */
void ss_check_width(const ss_arch *arch, ss_json *json, const char *heads, const char *width);

/* Bounds for sizes in a config: far above any published model, far below overflow. */
#define SS_HEADS_MAX 1024
#define SS_WIDTH_MAX 65536
#define SS_FFN_MAX 1048576
#define SS_VOCABULARY_MAX 4194304
#define SS_CONTEXT_MAX 16777216

/* ss_arch_read for a config that is parsed; file is what errors call it. */
ss_status ss_arch_read_object(ss_arch *arch, const cJSON *config, const char *file, ss_error *err);

#endif
