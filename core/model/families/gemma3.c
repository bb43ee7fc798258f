/*
 * gemma3_text: llama whose norms multiply by 1 + w and follow both blocks, too; queries and
 * keys are normed; token vectors are scaled by sqrt(D); most layers have a window and rotate by a
 * theta of their own.
 */
#include "family.h"

#include <math.h>

/* rope_parameters of both kinds of layers, or the flat keys of files before transformers 5. */
static void read_rotaries(ss_arch *arch, ss_json *json) {
    arch->window_rotary.base = 10000.0;
    if (ss_read_two_rotaries(arch, json)) return;
    ss_read_llama_rotary(arch, json);
    arch->window_rotary.base = ss_json_number(json, "rope_local_base_freq", 10000.0, 1.0, 1e12);
}

void ss_gemma3_read(ss_arch *arch, ss_json *json) {
    ss_read_llama_like(arch, json,
                       &(ss_llama_defaults){.G = 4,
                                            .K = 256,
                                            .context = 131072,
                                            .theta = 1e6,
                                            .tied = true,
                                            .activation_key = "hidden_activation",
                                            .activation = "gelu_pytorch_tanh"});
    read_rotaries(arch, json);
    arch->attention_bias = ss_json_bool(json, "attention_bias", false);
    arch->output_bias = arch->attention_bias;
    arch->qk_norm = SS_QK_NORM_HEAD;
    arch->branch_norms = true;
    arch->embedding_scale = sqrtf((float)arch->D);
    double scalar = ss_json_number(json, "query_pre_attn_scalar", 256.0, 1e-6, 1e9);
    arch->score_scale = (float)(1.0 / sqrt(scalar));
    arch->window = ss_read_window(json, 4096);
    int pattern = ss_json_int(json, "sliding_window_pattern", 6, 1, SS_LAYERS_MAX);
    for (int l = 0; l < arch->L; l++) arch->windowed[l] = arch->window && (l + 1) % pattern;
    ss_read_layer_types(arch, json);
}

/* The file keeps w of 1 + w; GGUF keeps the sum. */
static void add_one(const ss_loader *loader, const ss_norm *norm, int n) {
    float *gain = (float *)(size_t)norm->gain;
    for (int i = 0; gain && !ss_load_is(loader, SS_GGUF) && i < n; i++) gain[i] += 1.0f;
}

static void load_layer(ss_layer *layer, ss_loader *loader, const ss_arch *arch) {
    ss_load_llama_attention(layer, loader, arch);
    add_one(loader, &layer->attention_norm, arch->D);
    add_one(loader, &layer->attention_out_norm, arch->D);
    add_one(loader, &layer->ffn_norm, arch->D);
    add_one(loader, &layer->ffn_out_norm, arch->D);
    add_one(loader, &layer->q_norm, arch->K);
    add_one(loader, &layer->k_norm, arch->K);
    ss_load_llama_ffn(&layer->ffn, loader, "layers.%d.mlp", arch, (size_t)arch->F);
}

void ss_gemma3_load(ss_model *model, ss_loader *loader) {
    ss_load_llama_ends(model, loader);
    add_one(loader, &model->norm, model->arch.D);
    ss_load_layers(loader, model, load_layer);
}
