/* gpt_neo (TinyStories): GPT-2 with transposed matrices, unscaled scores, and a window in every
 * other layer. */
#include "family.h"

/* Reads `words`, one for each layer from l on; returns the index after the last of these layers. */
static int read_words(ss_arch *arch, ss_json *json, int l, const cJSON *words) {
    const cJSON *item;
    cJSON_ArrayForEach(item, words) {
        bool is_local = ss_read_layer_word(json, "attention_types", item, "global", "local");
        if (l < arch->L) arch->windowed[l] = is_local;
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

/* Reads which layers are local: from attention_layers, a word for each layer, or else from
 * attention_types; without them, odd layers are local. */
static void read_attention_types(ss_arch *arch, ss_json *json) {
    const cJSON *groups = cJSON_GetObjectItemCaseSensitive(json->object, "attention_types");
    const cJSON *words = cJSON_GetObjectItemCaseSensitive(json->object, "attention_layers");
    int l = arch->L, groups_n = arch->L;
    for (int i = 0; i < arch->L; i++) arch->windowed[i] = i % 2;
    if (cJSON_IsArray(groups)) groups_n = l = read_groups(arch, json, groups);
    if (cJSON_IsArray(words)) l = read_words(arch, json, 0, words);
    if (groups_n != arch->L) l = groups_n;
    if (l != arch->L)
        ss_json_refuse(json, "attention_types", "one word for each layer",
                       "another number of them");
}

void ss_gpt_neo_read(ss_arch *arch, ss_json *json) {
    static const ss_gpt_keys keys = {.L = "num_layers",
                                     .H = "num_heads",
                                     .F = "intermediate_size",
                                     .activation = "gelu_new",
                                     .norm_eps = "layer_norm_epsilon"};
    ss_read_gpt_like(arch, json, &keys);
    arch->positions = SS_POSITIONS_LEARNED;
    arch->window = ss_json_int(json, "window_size", 256, 1, SS_CONTEXT_MAX);
    read_attention_types(arch, json);
    if (ss_json_item(json, "layer_types"))
        ss_json_refuse(json, "layer_types", "attention_layers", "another list");
    arch->score_scale = 1.0f;
    arch->output_bias = arch->ffn_bias = true;
}

void ss_load_gpt_neo_layer(ss_layer *layer, ss_loader *loader, const ss_arch *arch) {
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
