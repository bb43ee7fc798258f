/* gptj: LayerNorm; attention without biases and a feed-forward, which both read the output of
 * one norm; rotary pairs are neighbors, in the first rotary_dim dimensions of a head; the LM head
 * has a bias. codegen: the same with one matrix for q, v and k (in this order) of each fourth of
 * the heads, since it was trained on four cores. */
#include "family.h"

#include <math.h>
#include <string.h>

void ss_gptj_read(ss_arch *arch, ss_json *json) {
    ss_gpt2_read(arch, json);
    arch->context = ss_json_int(json, "n_positions", 2048, 1, SS_CONTEXT_MAX);
    arch->positions = SS_POSITIONS_ROTARY;
    arch->rotary = (ss_rotary){.base = 10000.0, .part = 1.0, .attention_factor = 1.0f};
    arch->rotary_width = ss_json_int(json, "rotary_dim", 64, 2, SS_WIDTH_MAX);
    if (arch->rotary_width > arch->K)
        ss_json_refuse(json, "rotary_dim", "at most the width of a head", "more");
    arch->score_scale = (float)(1.0 / sqrt((double)arch->K));
    arch->attention_bias = arch->output_bias = false;
    arch->head_bias = true;
    arch->parallel = true;
    arch->tied = ss_json_bool(json, "tie_word_embeddings", false);
}

/* Number of blocks of heads in a fused matrix, which hold q, v and k one after another. */
#define CORES 4

void ss_codegen_read(ss_arch *arch, ss_json *json) {
    ss_gptj_read(arch, json);
    if (arch->H % CORES) ss_json_refuse(json, "n_head", "a multiple of 4", "another number");
}

static void load_qkv(ss_layer *layer, ss_loader *loader, const ss_arch *arch) {
    const struct {
        ss_linear *linear;
        const char *name;
        bool rotates;
    } parts[] = {{&layer->q, "h.%d.attn.q_proj", true},
                 {&layer->v, "h.%d.attn.v_proj", false},
                 {&layer->k, "h.%d.attn.k_proj", true}};
    size_t D = (size_t)arch->D, K = (size_t)arch->K, part = D / CORES;
    bool is_fused = !strcmp(arch->family, "codegen");
    for (size_t i = 0; i < 3; i++) {
        ss_place place = {.in = D,
                          .out = D,
                          .total = is_fused ? 3 * D : D,
                          .first = is_fused ? i * part : 0,
                          .group = is_fused ? part : 0,
                          .step = 3 * part,
                          .pair = parts[i].rotates ? K : 0,
                          .unpaired = K - (size_t)arch->rotary_width};
        const char *name = is_fused ? "h.%d.attn.qkv_proj" : parts[i].name;
        ss_load_linear_at(loader, parts[i].linear, name, false, &place);
    }
}

void ss_load_gptj_layer(ss_layer *layer, ss_loader *loader, const ss_arch *arch) {
    size_t D = (size_t)arch->D, F = (size_t)arch->F;
    ss_load_norm(loader, &layer->attention_norm, "h.%d.ln_1", true, D);
    load_qkv(layer, loader, arch);
    ss_load_linear(loader, &layer->o, "h.%d.attn.out_proj", false, D, D);
    layer->ffn_norm = layer->attention_norm;
    ss_load_linear(loader, &layer->ffn.up, "h.%d.mlp.fc_in", true, D, F);
    ss_load_linear(loader, &layer->ffn.down, "h.%d.mlp.fc_out", true, F, D);
}
