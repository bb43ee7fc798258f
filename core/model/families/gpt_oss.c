/* gpt_oss: llama with a sink logit per head, a window in every second layer, biases everywhere, and
 * experts with a clamped SwiGLU. The experts' weights are three-dimensional, with gate and up
 * interleaved; in GGUF these are two tensors, with outputs before inputs. */
#include "../rotary.h"
#include "family.h"

#include <stdio.h>

static void read_experts(ss_arch *arch, ss_json *json) {
    arch->activation = SS_ACTIVATION_CLAMPED_SWIGLU;
    arch->gate_limit = (float)ss_json_number(json, "swiglu_limit", 7.0, 0.0, 1e9);
    arch->gate_slope = (float)ss_json_number(json, "swiglu_alpha", 1.702, 0.0, 1e9);
    arch->E = ss_json_int(json, "num_local_experts", 128, 1, SS_EXPERTS_MAX);
    ss_refuse_alias(json, "num_experts", "num_local_experts", arch->E);
    int default_top_k = arch->E < 4 ? arch->E : 4;
    int top_k = ss_json_int(json, "experts_per_token", default_top_k, 1, arch->E);
    arch->top_k = ss_json_int(json, "num_experts_per_tok", top_k, 1, arch->E);
}

void ss_gpt_oss_read(ss_arch *arch, ss_json *json) {
    ss_llama_defaults defaults = {
        .G = 8, .K = 64, .context = 131072, .theta = 150000.0, .norm_eps = 1e-5};
    ss_read_llama_like(arch, json, &defaults);
    if (arch->activation != SS_ACTIVATION_SILU)
        ss_json_refuse(json, "hidden_act", "\"silu\"", ss_json_text(json, "hidden_act", ""));
    if (!ss_rope_object(json).object) {
        arch->rotary.scaling = SS_ROPE_YARN;
        arch->rotary.factor = arch->rotary.high = 32.0;
        arch->rotary.low = 1.0;
        arch->rotary.original_context = 4096.0;
        arch->rotary.attention_factor = (float)ss_yarn_attention_factor(&arch->rotary, 1.0);
    }
    snprintf(arch->attention.operation, sizeof arch->attention.operation, "sink_logit");
    ss_read_attention_bias(arch, json, "attention_bias", true);
    arch->window = ss_read_window(json, 128);
    ss_read_window_pattern(arch, json, 2);
    read_experts(arch, json);
}

#define EXPERTS "layers.%d.mlp.experts."

static void load_gguf_expert(ss_ffn *expert, ss_loader *loader, const ss_arch *arch, int e) {
    size_t D = (size_t)arch->D, F = (size_t)arch->F;
    ss_place place = {.in = D, .out = F, .slices = (size_t)arch->E, .slice = (size_t)e};
    ss_load_linear_at(loader, &expert->gate, EXPERTS "gate_proj", true, &place);
    ss_load_linear_at(loader, &expert->up, EXPERTS "up_proj", true, &place);
    place.in = F;
    place.out = D;
    ss_load_linear_at(loader, &expert->down, EXPERTS "down_proj", true, &place);
}

static void load_expert(ss_ffn *expert, ss_loader *loader, const ss_arch *arch, int e) {
    size_t D = (size_t)arch->D, F = (size_t)arch->F;
    ss_place place = {.layout = SS_IN_OUT,
                      .in = D,
                      .out = F,
                      .total = 2 * F,
                      .group = 1,
                      .step = 2,
                      .slices = (size_t)arch->E,
                      .slice = (size_t)e};
    ss_load_matrix(loader, &expert->gate, &place, EXPERTS "gate_up_proj",
                   EXPERTS "gate_up_proj_bias");
    place.first = 1;
    ss_load_matrix(loader, &expert->up, &place, EXPERTS "gate_up_proj",
                   EXPERTS "gate_up_proj_bias");
    place = (ss_place){
        .layout = SS_IN_OUT, .in = F, .out = D, .slices = (size_t)arch->E, .slice = (size_t)e};
    ss_load_matrix(loader, &expert->down, &place, EXPERTS "down_proj", EXPERTS "down_proj_bias");
}

void ss_load_gpt_oss_layer(ss_layer *layer, ss_loader *loader, const ss_arch *arch) {
    ss_load_llama_attention(layer, loader, arch);
    ss_load_experts(layer, loader, arch, "layers.%d.mlp.router", true,
                    ss_load_is_format(loader, SS_GGUF) ? load_gguf_expert : load_expert);
}
