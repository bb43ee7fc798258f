/*
 * gpt_neo (TinyStories): GPT-2 with transposed matrices, unscaled scores, and a window in every
 * other layer.
 */
#include "family.h"

#include <string.h>

/* Reads `words`, one for each layer from l on; returns the index after the last of these layers. */
static int read_words(ss_arch *arch, ss_json *json, int l, const cJSON *words) {
    const cJSON *item;
    cJSON_ArrayForEach(item, words) {
        const char *word = cJSON_IsString(item) ? item->valuestring : "something else";
        if (strcmp(word, "local") && strcmp(word, "global"))
            ss_json_refuse(json, "attention_types", "\"global\" and \"local\"", word);
        if (l < arch->L) arch->windowed[l] = !strcmp(word, "local");
        l++;
    }
    return l;
}

/* Reads [[[words], repeats], ...]; returns the number of layers that the list describes. */
static int read_groups(ss_arch *arch, ss_json *json, const cJSON *groups) {
    const cJSON *group;
    int l = 0;
    cJSON_ArrayForEach(group, groups) {
        const cJSON *words = cJSON_GetArrayItem(group, 0), *repeats = cJSON_GetArrayItem(group, 1);
        int n = cJSON_IsNumber(repeats) && repeats->valueint <= arch->L ? repeats->valueint : 0;
        for (int i = 0; i < n && l <= arch->L; i++) l = read_words(arch, json, l, words);
    }
    return l;
}

/* Reads which layers are local: from attention_types, or from attention_layers, a word for each
 * layer; without them, odd layers are local. */
static void read_types(ss_arch *arch, ss_json *json) {
    const cJSON *groups = cJSON_GetObjectItemCaseSensitive(json->object, "attention_types");
    const cJSON *words = cJSON_GetObjectItemCaseSensitive(json->object, "attention_layers");
    int l = arch->L;
    if (cJSON_IsArray(groups))
        l = read_groups(arch, json, groups);
    else if (cJSON_IsArray(words))
        l = read_words(arch, json, 0, words);
    else
        for (int i = 0; i < arch->L; i++) arch->windowed[i] = i % 2;
    if (l != arch->L)
        ss_json_refuse(json, "attention_types", "one word for each layer",
                       "another number of them");
}

void ss_gpt_neo_read(ss_arch *arch, ss_json *json) {
    ss_read_heads(arch, json, "num_layers", "num_heads", "hidden_size");
    arch->F = ss_json_int(json, "intermediate_size", 4 * arch->D, 1, SS_FFN_MAX);
    arch->V = ss_json_int(json, "vocab_size", SS_JSON_REQUIRED, 1, SS_VOCABULARY_MAX);
    arch->context = ss_json_int(json, "max_position_embeddings", 2048, 1, SS_CONTEXT_MAX);
    arch->positions = SS_POSITIONS_LEARNED;
    arch->window = ss_json_int(json, "window_size", 256, 1, SS_CONTEXT_MAX);
    read_types(arch, json);
    arch->norm = SS_NORM_LAYER;
    arch->norm_eps = (float)ss_json_number(json, "layer_norm_epsilon", 1e-5, 0.0, 1.0);
    arch->ffn = SS_FFN_PLAIN;
    arch->activation = ss_read_activation(json, "activation_function", "gelu_new");
    ss_check_plain(arch, json, "activation_function");
    arch->score_scale = 1.0f;
    arch->output_bias = true;
    arch->ffn_bias = true;
    arch->tied = ss_json_bool(json, "tie_word_embeddings", true);
    ss_check_width(arch, json, "num_heads", "hidden_size");
}

static void load_layer(ss_layer *layer, ss_loader *loader, const ss_arch *arch) {
    size_t D = (size_t)arch->D, F = (size_t)arch->F;
    ss_load_norm(loader, &layer->attention_norm, "h.%d.ln_1", true, D);
    ss_load_linear(loader, &layer->q, "h.%d.attn.attention.q_proj", false, D, D);
    ss_load_linear(loader, &layer->k, "h.%d.attn.attention.k_proj", false, D, D);
    ss_load_linear(loader, &layer->v, "h.%d.attn.attention.v_proj", false, D, D);
    ss_load_linear(loader, &layer->o, "h.%d.attn.attention.out_proj", true, D, D);
    ss_load_norm(loader, &layer->ffn_norm, "h.%d.ln_2", true, D);
    ss_load_linear(loader, &layer->ffn.up, "h.%d.mlp.c_fc", true, D, F);
    ss_load_linear(loader, &layer->ffn.down, "h.%d.mlp.c_proj", true, F, D);
}

void ss_gpt_neo_load(ss_model *model, ss_loader *loader) {
    ss_load_gpt2_ends(model, loader);
    ss_load_layers(loader, model, load_layer);
}
