/* Relatives of llama, each with a few differences: other biases (seed_oss), rotary pairs of
 * neighboring dimensions (ernie4_5, helium), layers without rotation (smollm3), factors for
 * embeddings, scores, branches and logits (granite), LayerNorm without gain (olmo), LayerNorm and
 * partial rotation (stablelm), fused matrices (phi3), a feed-forward without gate (starcoder2). */
#include "family.h"

#include <math.h>

void ss_seed_oss_read(ss_arch *arch, ss_json *json) {
    ss_read_llama_like(arch, json, &(ss_llama_defaults){.G = 8, .K = 128, .context = 524288});
    arch->attention_bias = ss_json_bool(json, "attention_bias", true);
    arch->output_bias = ss_json_bool(json, "attention_out_bias", false);
    arch->ffn_bias = ss_json_bool(json, "mlp_bias", false);
}

/* Reads ernie4_5. llama.c pairs neighboring dimensions when it loads q and k. */
void ss_ernie_read(ss_arch *arch, ss_json *json) {
    ss_llama_defaults defaults = {
        .G = 2, .K = 128, .context = 131072, .theta = 500000.0, .norm_eps = 1e-5, .tied = true};
    ss_read_llama_like(arch, json, &defaults);
    ss_read_attention_bias(arch, json, "use_bias", false);
    arch->ffn_bias = arch->attention_bias;
}

void ss_helium_read(ss_arch *arch, ss_json *json) {
    ss_llama_defaults defaults = {
        .G = 20, .K = 128, .context = 4096, .theta = 100000.0, .norm_eps = 1e-8};
    ss_read_llama_like(arch, json, &defaults);
    arch->attention_bias = ss_json_bool(json, "attention_bias", false);
    arch->ffn_bias = ss_json_bool(json, "mlp_bias", false);
    if (arch->H * arch->K != arch->D)
        ss_json_refuse(json, "head_dim", "hidden_size / num_attention_heads", "another number");
}

/* Reads the layers that do not rotate. The list has 1 for each layer that rotates and 0 for one
 * that does not; without a list, every interval-th layer does not rotate. */
static void read_unrotated_layers(ss_arch *arch, ss_json *json) {
    int interval = ss_json_int(json, "no_rope_layer_interval", 4, 1, SS_LAYERS_MAX);
    for (int l = 0; l < arch->L; l++) arch->unrotated[l] = (l + 1) % interval == 0;
    const cJSON *list = ss_json_item(json, "no_rope_layers"), *item;
    if (!list) return;
    int l = 0;
    cJSON_ArrayForEach(item, list) {
        if (!cJSON_IsNumber(item) || (item->valueint != 0 && item->valueint != 1)) l = arch->L;
        if (l < arch->L) arch->unrotated[l] = item->valueint == 0;
        l++;
    }
    if (l != arch->L)
        ss_json_refuse(json, "no_rope_layers", "0 or 1 for each layer", "something else");
}

/* Reads smollm3, whose window, if it is used, belongs to the layers without rotation. */
void ss_smollm3_read(ss_arch *arch, ss_json *json) {
    ss_llama_defaults defaults = {.G = 4, .context = 32768, .theta = 2000000.0, .tied = true};
    ss_read_llama_like(arch, json, &defaults);
    ss_read_llama_biases(arch, json);
    read_unrotated_layers(arch, json);
    if (ss_json_bool(json, "use_sliding_window", false)) arch->window = ss_read_window(json, 0);
    for (int l = 0; l < arch->L; l++) arch->windowed[l] = arch->window && arch->unrotated[l];
    ss_read_layer_types(arch, json);
}

void ss_granite_read(ss_arch *arch, ss_json *json) {
    ss_llama_read(arch, json);
    ss_read_granite_factors(arch, json);
}

void ss_read_granite_factors(ss_arch *arch, ss_json *json) {
    arch->embedding_scale = (float)ss_json_number(json, "embedding_multiplier", 1.0, 1e-6, 1e6);
    arch->score_scale = (float)ss_json_number(json, "attention_multiplier", 1.0, 1e-6, 1e6);
    arch->branch_scale = (float)ss_json_number(json, "residual_multiplier", 1.0, 1e-6, 1e6);
    arch->logit_scale = (float)(1.0 / ss_json_number(json, "logits_scaling", 1.0, 1e-6, 1e6));
}

void ss_olmo_read(ss_arch *arch, ss_json *json) {
    ss_read_llama_like(arch, json, &(ss_llama_defaults){0});
    arch->norm = SS_NORM_LAYER;
    arch->norm_eps = 1e-5f;
    arch->bare_norm = true;
    arch->qkv_clip = (float)ss_json_number(json, "clip_qkv", 0.0, 1e-6, 1e6);
    ss_read_attention_bias(arch, json, "attention_bias", false);
}

void ss_stablelm_read(ss_arch *arch, ss_json *json) {
    ss_llama_defaults defaults = {.G = 32, .context = 4096, .skips_rotary = true};
    ss_read_llama_like(arch, json, &defaults);
    arch->K = arch->D >= arch->H ? arch->D / arch->H : 1;
    ss_refuse_alias(json, "head_dim", "hidden_size / num_attention_heads", arch->K);
    arch->score_scale = (float)(1.0 / sqrt((double)arch->K));
    if (arch->D % arch->H)
        ss_json_refuse(json, "num_attention_heads", "a divisor of hidden_size", "another number");
    arch->rotary.part = 0.25;
    ss_read_partial_rotary(arch, json);
    ss_read_layer_norm(arch, json, "layer_norm_eps", 1e-5);
    arch->attention_bias = ss_json_bool(json, "use_qkv_bias", false);
    arch->parallel = ss_json_bool(json, "use_parallel_residual", false);
    if (ss_json_bool(json, "qk_layernorm", false)) arch->qk_norm = SS_QK_NORM_OWN_HEAD;
}

void ss_phi3_read(ss_arch *arch, ss_json *json) {
    ss_llama_defaults defaults = {.context = 4096, .norm_eps = 1e-5, .skips_rotary = true};
    ss_read_llama_like(arch, json, &defaults);
    arch->rotary.only_long = true;
    arch->rotary.original_context = 4096;
    ss_read_partial_rotary(arch, json);
    arch->window = ss_read_window(json, 0);
    ss_window_all_layers(arch);
}

void ss_load_gate_up(ss_ffn *ffn, ss_loader *loader, const ss_arch *arch) {
    size_t D = (size_t)arch->D, F = (size_t)arch->F;
    ss_place place = {.in = D, .out = F, .total = 2 * F};
    ss_load_linear_at(loader, &ffn->gate, "layers.%d.mlp.gate_up_proj", false, &place);
    place.first = F;
    ss_load_linear_at(loader, &ffn->up, "layers.%d.mlp.gate_up_proj", false, &place);
    ss_load_linear(loader, &ffn->down, "layers.%d.mlp.down_proj", false, F, D);
}

void ss_load_phi3_layer(ss_layer *layer, ss_loader *loader, const ss_arch *arch) {
    size_t D = (size_t)arch->D, HK = (size_t)arch->H * (size_t)arch->K;
    ss_load_norm(loader, &layer->attention_norm, "layers.%d.input_layernorm", false, D);
    ss_load_qkv(loader, layer, arch, "layers.%d.self_attn.qkv_proj", SS_OUT_IN, false);
    ss_load_linear(loader, &layer->o, "layers.%d.self_attn.o_proj", false, HK, D);
    ss_load_norm(loader, &layer->ffn_norm, "layers.%d.post_attention_layernorm", false, D);
    ss_load_gate_up(&layer->ffn, loader, arch);
}

void ss_starcoder2_read(ss_arch *arch, ss_json *json) {
    ss_llama_defaults defaults = {
        .G = 2, .context = 4096, .tied = true, .activation = "gelu_pytorch_tanh"};
    ss_read_llama_like(arch, json, &defaults);
    ss_read_layer_norm(arch, json, "norm_epsilon", 1e-5);
    arch->ffn = SS_FFN_PLAIN;
    ss_refuse_gated_activation(arch, json, "hidden_act");
    ss_read_attention_bias(arch, json, "use_bias", true);
    arch->ffn_bias = arch->attention_bias;
    arch->window = ss_read_window(json, 0);
    ss_window_all_layers(arch);
}

void ss_load_starcoder2_layer(ss_layer *layer, ss_loader *loader, const ss_arch *arch) {
    size_t D = (size_t)arch->D, F = (size_t)arch->F;
    ss_load_llama_attention(layer, loader, arch);
    ss_load_linear(loader, &layer->ffn.up, "layers.%d.mlp.c_fc", arch->ffn_bias, D, F);
    ss_load_linear(loader, &layer->ffn.down, "layers.%d.mlp.c_proj", arch->ffn_bias, F, D);
}
