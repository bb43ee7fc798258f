/* gemma: llama with norms that multiply by 1 + w, and token vectors scaled by sqrt(D). gemma2: the
 * same with norms also after both blocks, a window in every second layer, soft caps on scores and
 * logits. gemma3_text: the same without caps; queries and keys are normed; most layers have a
 * window and rotate by a theta of their own. gemma3: gemma3_text inside a multimodal model, whose
 * vision tensors we do not read. */
#include "family.h"

#include <math.h>

/* Reads the keys that gemma2 and gemma3 share, without rotary positions. Every `pattern`-th layer
 * sees all keys. */
static void read_gemma(ss_arch *arch, ss_json *json, ss_llama_defaults defaults, int pattern) {
    defaults.G = 4;
    defaults.K = 256;
    defaults.tied = true;
    defaults.skips_rotary = true;
    defaults.activation_key = "hidden_activation";
    defaults.activation = "gelu_pytorch_tanh";
    ss_read_llama_like(arch, json, &defaults);
    ss_read_attention_bias(arch, json, "attention_bias", false);
    arch->branch_norms = true;
    arch->gain_plus_one = true;
    arch->embedding_scale = sqrtf((float)arch->D);
    double scalar = ss_json_number(json, "query_pre_attn_scalar", 256.0, 1e-6, 1e9);
    arch->score_scale = (float)(1.0 / sqrt(scalar));
    arch->window = ss_read_window(json, 4096);
    ss_read_window_pattern(arch, json, pattern);
}

/* Reads gemma. Its files say "gelu" and mean the approximation with tanh. */
void ss_gemma_read(ss_arch *arch, ss_json *json) {
    ss_llama_defaults defaults = {
        .G = 16, .K = 256, .context = 8192, .tied = true, .activation = "gelu_pytorch_tanh"};
    ss_read_llama_like(arch, json, &defaults);
    if (arch->activation == SS_ACTIVATION_GELU) arch->activation = SS_ACTIVATION_GELU_TANH;
    ss_read_attention_bias(arch, json, "attention_bias", false);
    arch->gain_plus_one = true;
    arch->embedding_scale = sqrtf((float)arch->D);
}

static float read_cap(ss_json *json, const char *key, double default_value) {
    if (ss_json_is_null(json, key)) return 0.0f;
    return (float)ss_json_number(json, key, default_value, 1e-3, 1e6);
}

void ss_gemma2_read(ss_arch *arch, ss_json *json) {
    read_gemma(arch, json, (ss_llama_defaults){.context = 8192, .theta = 10000.0}, 2);
    ss_read_llama_rotary(arch, json);
    arch->score_cap = read_cap(json, "attn_logit_softcapping", 50.0);
    arch->logit_cap = read_cap(json, "final_logit_softcapping", 30.0);
}

static void read_gemma3(ss_arch *arch, ss_json *json, ss_llama_defaults defaults) {
    defaults.context = 131072;
    defaults.theta = 1e6;
    read_gemma(arch, json, defaults,
               ss_json_int(json, "sliding_window_pattern", 6, 1, SS_LAYERS_MAX));
    ss_read_two_rotaries(arch, json, "rope_local_base_freq");
    arch->qk_norm = SS_QK_NORM_HEAD;
}

void ss_gemma3_read(ss_arch *arch, ss_json *json) {
    read_gemma3(arch, json, (ss_llama_defaults){0});
}

/* Reads gemma3 inside a multimodal config. Published files omit from text_config each key that has
 * the default of the class, which is the 4B model. */
void ss_gemma3_multimodal_read(ss_arch *arch, ss_json *json) {
    ss_llama_defaults defaults = {.L = 26, .H = 8, .D = 2304, .F = 9216, .V = 262208};
    ss_json text = ss_text_config(json);
    read_gemma3(arch, &text, defaults);
    arch->tied = ss_json_bool(json, "tie_word_embeddings", true);
}

/* Loads the ends of gemma3 in a multimodal file: published files use the first prefix, files saved
 * from a model in memory the second, and files of the base model the last. */
void ss_load_gemma3_ends(ss_model *model, ss_loader *loader) {
    static const char *const prefixes[] = {"language_model.model.", "model.language_model.",
                                           "language_model.", NULL};
    loader->prefixes = prefixes;
    ss_load_llama_ends(model, loader);
}
