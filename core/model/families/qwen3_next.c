/* qwen3_next: qwen2_moe with norms that multiply by 1 + w, a gate on the outputs of its heads, and
 * Gated DeltaNet in place of attention in most layers. qwen3_5_text: the same with one feed-forward
 * for all tokens, and other names; qwen3_5: qwen3_5_text inside a multimodal model, whose other
 * tensors we do not read. */
#include "family.h"

#include <math.h>

static void read_layers(ss_arch *arch, ss_json *json) {
    int interval = ss_json_int(json, "full_attention_interval", 4, 1, SS_LAYERS_MAX);
    arch->blocks = arch->L;
    arch->L = 0;
    for (int l = interval - 1; l < arch->blocks; l += interval) arch->layers[arch->L++] = (short)l;
    ss_read_attention_layers(arch, json, "linear_attention");
}

static void read_delta_net(ss_arch *arch, ss_json *json) {
    ss_mixer_sizes *sizes = &arch->mixer;
    *sizes = (ss_mixer_sizes){.kind = SS_MIXER_DELTA, .step_high = INFINITY};
    ss_mixer_reset_factors(sizes);
    sizes->kernel = ss_json_int(json, "linear_conv_kernel_dim", 4, 1, SS_KERNEL_MAX);
    sizes->keys = ss_json_int(json, "linear_num_key_heads", 16, 1, SS_HEADS_MAX);
    sizes->values = sizes->norms = ss_json_int(json, "linear_num_value_heads", 32, 1, SS_HEADS_MAX);
    sizes->key_width = ss_json_int(json, "linear_key_head_dim", 128, 1, SS_WIDTH_MAX);
    sizes->value_width = ss_json_int(json, "linear_value_head_dim", 128, 1, SS_WIDTH_MAX);
    ss_check_mixer(arch, json, "linear_num_value_heads");
}

static void read_qwen3_next(ss_arch *arch, ss_json *json, ss_llama_defaults defaults) {
    defaults.K = 256;
    defaults.context = 32768;
    defaults.part = 0.25;
    ss_read_llama_like(arch, json, &defaults);
    if (arch->activation != SS_ACTIVATION_SILU)
        ss_json_refuse(json, "hidden_act", "\"silu\"", "another one");
    ss_read_attention_bias(arch, json, "attention_bias", false);
    arch->qk_norm = SS_QK_NORM_HEAD;
    arch->gain_plus_one = true;
    arch->gate = SS_GATE_OUTPUT_ELEMENT;
    read_layers(arch, json);
    read_delta_net(arch, json);
}

void ss_qwen3_next_read(ss_arch *arch, ss_json *json) {
    read_qwen3_next(arch, json, (ss_llama_defaults){.G = 2});
    arch->shared_F = ss_json_int(json, "shared_expert_intermediate_size", 512, 1, SS_FFN_MAX);
    ss_read_qwen_experts(arch, json, 512, 512, 10);
    arch->router_shares = !ss_json_bool(json, "norm_topk_prob", true);
}

void ss_qwen3_5_read(ss_arch *arch, ss_json *json) {
    read_qwen3_next(arch, json, (ss_llama_defaults){.G = 4, .has_sections = true});
}

void ss_qwen3_5_multimodal_read(ss_arch *arch, ss_json *json) {
    ss_llama_defaults defaults = {
        .L = 32, .H = 16, .G = 4, .D = 4096, .F = 12288, .V = 248320, .has_sections = true};
    ss_json text = ss_text_config(json);
    read_qwen3_next(arch, &text, defaults);
    arch->tied = ss_json_bool(json, "tie_word_embeddings", arch->tied);
}

/* Loads one part of a projection. If by_head, the projection holds one key head after another, each
 * with all parts; else one part after another, each with all heads. */
static void load_part(ss_loader *loader, ss_linear *linear, const char *name, const ss_arch *arch,
                      size_t total, size_t first, size_t width, bool by_head) {
    size_t heads = (size_t)arch->mixer.keys;
    ss_place place = {.in = (size_t)arch->D, .out = heads * width, .total = heads * total};
    place.first = by_head ? first : heads * first;
    place.group = by_head ? width : 0;
    place.step = by_head ? total : 0;
    ss_load_linear_at(loader, linear, name, false, &place);
}

static void load_projections(ss_mixer *mixer, ss_loader *loader, const ss_arch *arch) {
    const ss_mixer_sizes *sizes = &arch->mixer;
    size_t N = (size_t)sizes->key_width, values_per_key = (size_t)(sizes->values / sizes->keys);
    size_t P = values_per_key * (size_t)sizes->value_width, D = (size_t)arch->D,
           H = (size_t)sizes->values;
    bool by_head = arch->E > 0; /* qwen3_next stores the parts head by head */
    size_t total = 2 * N + (by_head ? 2 : 1) * P;
    const char *qkv =
        by_head ? "layers.%d.linear_attn.in_proj_qkvz" : "layers.%d.linear_attn.in_proj_qkv";
    load_part(loader, &mixer->q, qkv, arch, total, 0, N, by_head);
    load_part(loader, &mixer->k, qkv, arch, total, N, N, by_head);
    load_part(loader, &mixer->v, qkv, arch, total, 2 * N, P, by_head);
    if (by_head) {
        const char *ba = "layers.%d.linear_attn.in_proj_ba";
        load_part(loader, &mixer->z, qkv, arch, total, 2 * N + P, P, true);
        load_part(loader, &mixer->beta, ba, arch, 2 * values_per_key, 0, values_per_key, true);
        load_part(loader, &mixer->step, ba, arch, 2 * values_per_key, values_per_key,
                  values_per_key, true);
    } else {
        const char *z = "layers.%d.linear_attn.in_proj_z";
        ss_load_linear(loader, &mixer->z, z, false, D, H * (size_t)sizes->value_width);
        ss_load_linear(loader, &mixer->beta, "layers.%d.linear_attn.in_proj_b", false, D, H);
        ss_load_linear(loader, &mixer->step, "layers.%d.linear_attn.in_proj_a", false, D, H);
    }
}

static void load_delta_net(ss_mixer *mixer, ss_loader *loader, const ss_arch *arch) {
    const ss_mixer_sizes *sizes = &arch->mixer;
    size_t keys = (size_t)sizes->keys * (size_t)sizes->key_width, H = (size_t)sizes->values;
    size_t P = (size_t)sizes->value_width, kernel = (size_t)sizes->kernel;
    load_projections(mixer, loader, arch);
    const float *taps =
        ss_load_taps(loader, "layers.%d.linear_attn.conv1d.weight", 2 * keys + H * P, kernel);
    for (size_t part = 0; part < 3; part++)
        mixer->taps[part] = taps ? taps + part * keys * kernel : NULL;
    mixer->decay = ss_load_decay(loader, "layers.%d.linear_attn.A_log", H);
    mixer->offset = ss_load_numbers(loader, "layers.%d.linear_attn.dt_bias", 0, H);
    mixer->norm = ss_load_numbers(loader, "layers.%d.linear_attn.norm.weight", 0, P);
    ss_load_linear(loader, &mixer->out, "layers.%d.linear_attn.out_proj", false, H * P,
                   (size_t)arch->D);
}

void ss_load_qwen3_next_layer(ss_layer *layer, ss_loader *loader, const ss_arch *arch) {
    if (ss_attention_of(arch, loader->layer) < 0) load_delta_net(&layer->mixer, loader, arch);
    ss_load_llama_layer(layer, loader, arch);
}

void ss_load_qwen3_5_ends(ss_model *model, ss_loader *loader) {
    static const char *const prefixes[] = {"model.language_model.", "language_model.", NULL};
    loader->prefixes = prefixes;
    ss_load_llama_ends(model, loader);
}
