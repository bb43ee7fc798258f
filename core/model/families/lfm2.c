/* lfm2: llama with norms of queries and keys, and a short convolution between two products in place
 * of attention in most layers. Its tensors have names of their own. */
#include "family.h"

/* Reads the width of the feed-forward: a multiple of block_multiple_of, unless the config turns the
 * adjustment off. */
static void read_ffn(ss_arch *arch, ss_json *json) {
    int F = ss_json_int(json, "block_ff_dim", arch->F, 1, SS_FFN_MAX);
    int multiple = ss_json_int(json, "block_multiple_of", 256, 1, SS_FFN_MAX);
    double factor = ss_json_number(json, "block_ffn_dim_multiplier", 1.0, 1e-3, 1e3);
    bool is_adjusted = ss_json_bool(json, "block_auto_adjust_ff_dim", true);
    arch->F = is_adjusted ? 2 * F / 3 : F;
    if (!is_adjusted || ss_json_is_null(json, "block_ffn_dim_multiplier")) return;
    double width = (double)(int)(factor * (double)arch->F);
    double rounded_width = (double)multiple * (double)(int)((width + multiple - 1) / multiple);
    if (rounded_width < 1.0 || rounded_width > SS_FFN_MAX)
        ss_json_refuse(json, "block_ffn_dim_multiplier", "a width of 1 to 1048576", "another");
    else
        arch->F = (int)rounded_width;
}

static void read_attention_indices(ss_arch *arch, ss_json *json) {
    const cJSON *list = ss_json_item(json, "full_attn_idxs"), *item;
    ss_attend_everywhere(arch);
    if (!list) return;
    if (!cJSON_IsArray(list)) ss_json_fail(json, "full_attn_idxs", "a list of layers");
    arch->L = 0;
    for (int l = 0; l < arch->blocks; l++) {
        bool attends = false;
        cJSON_ArrayForEach(item, list) attends |= cJSON_IsNumber(item) && item->valueint == l;
        if (attends) arch->layers[arch->L++] = (short)l;
    }
}

void ss_lfm2_read(ss_arch *arch, ss_json *json) {
    ss_llama_defaults defaults = {.G = 8, .context = 128000, .theta = 1e6, .tied = true};
    ss_read_llama_like(arch, json, &defaults);
    arch->norm_eps = (float)ss_json_number(json, "norm_eps", 1e-5, 0.0, 1.0);
    arch->tied = ss_json_bool(json, "tie_embedding", arch->tied);
    arch->qk_norm = SS_QK_NORM_HEAD;
    arch->activation = SS_ACTIVATION_SILU;
    read_ffn(arch, json);
    read_attention_indices(arch, json);
    ss_read_attention_layers(arch, json, "conv");
    ss_mixer_sizes *sizes = &arch->mixer;
    *sizes = (ss_mixer_sizes){.kind = SS_MIXER_CONVOLUTION, .keys = 1, .values = 1};
    ss_mixer_reset_factors(sizes);
    sizes->key_width = sizes->value_width = arch->D;
    sizes->kernel = ss_json_int(json, "conv_L_cache", 3, 1, SS_KERNEL_MAX);
    sizes->bias = sizes->taps_bias = sizes->out_bias = ss_json_bool(json, "conv_bias", false);
    ss_check_mixer(arch, json, "hidden_size");
}

/* Loads the convolution; in_proj has k, then q, then v. */
static void load_convolution(ss_mixer *mixer, ss_loader *loader, const ss_arch *arch) {
    size_t D = (size_t)arch->D;
    ss_linear *linears[] = {&mixer->k, &mixer->q, &mixer->v};
    for (size_t i = 0; i < 3; i++) {
        ss_place place = {.in = D, .out = D, .total = 3 * D, .first = i * D};
        ss_load_linear_at(loader, linears[i], "layers.%d.conv.in_proj", arch->mixer.bias, &place);
    }
    mixer->taps[2] =
        ss_load_taps(loader, "layers.%d.conv.conv.weight", D, (size_t)arch->mixer.kernel);
    if (arch->mixer.bias)
        mixer->biases[2] = ss_load_numbers(loader, "layers.%d.conv.conv.bias", 0, D);
    ss_load_linear(loader, &mixer->out, "layers.%d.conv.out_proj", arch->mixer.bias, D, D);
}

static void load_attention(ss_layer *layer, ss_loader *loader, const ss_arch *arch) {
    size_t D = (size_t)arch->D, K = (size_t)arch->K;
    size_t HK = (size_t)arch->H * K, GK = (size_t)arch->G * K;
    ss_load_linear(loader, &layer->q, "layers.%d.self_attn.q_proj", false, D, HK);
    ss_load_linear(loader, &layer->k, "layers.%d.self_attn.k_proj", false, D, GK);
    ss_load_linear(loader, &layer->v, "layers.%d.self_attn.v_proj", false, D, GK);
    ss_load_linear(loader, &layer->o, "layers.%d.self_attn.out_proj", false, HK, D);
    ss_load_norm(loader, &layer->q_norm, "layers.%d.self_attn.q_layernorm", false, K);
    ss_load_norm(loader, &layer->k_norm, "layers.%d.self_attn.k_layernorm", false, K);
}

void ss_load_lfm2_layer(ss_layer *layer, ss_loader *loader, const ss_arch *arch) {
    size_t D = (size_t)arch->D, F = (size_t)arch->F;
    ss_load_norm(loader, &layer->attention_norm, "layers.%d.operator_norm", false, D);
    if (ss_attention_of(arch, loader->layer) < 0)
        load_convolution(&layer->mixer, loader, arch);
    else
        load_attention(layer, loader, arch);
    ss_load_norm(loader, &layer->ffn_norm, "layers.%d.ffn_norm", false, D);
    ss_load_linear(loader, &layer->ffn.gate, "layers.%d.feed_forward.w1", false, D, F);
    ss_load_linear(loader, &layer->ffn.up, "layers.%d.feed_forward.w3", false, D, F);
    ss_load_linear(loader, &layer->ffn.down, "layers.%d.feed_forward.w2", false, F, D);
}

void ss_load_lfm2_ends(ss_model *model, ss_loader *loader) {
    ss_load_llama_like_ends(model, loader, "embedding_norm");
}
