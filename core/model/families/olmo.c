/*
 * olmo2: llama whose blocks read the residual stream without a norm, and norm their outputs before
 * the sum; the queries of all heads are normed as one vector, and so are the keys. olmo3: the same
 * with a window in three of four layers. olmoe: the same queries and keys, in llama with experts.
 */
#include "family.h"

static void read_like_olmo2(ss_arch *arch, ss_json *json, double theta) {
    ss_read_llama_like(arch, json, &(ss_llama_defaults){.theta = theta, .norm_eps = 1e-5});
    arch->attention_bias = ss_json_bool(json, "attention_bias", false);
    arch->output_bias = arch->attention_bias;
    arch->qk_norm = SS_QK_NORM_ALL_HEADS;
    arch->branch_norms = true;
    arch->branch_only = true;
}

void ss_olmo2_read(ss_arch *arch, ss_json *json) {
    read_like_olmo2(arch, json, 10000.0);
    ss_read_llama_rotary(arch, json);
}

/* Reads rope keys. Flat keys set the base of all layers, but scale only the layers that see all
 * keys. */
static void read_rotaries(ss_arch *arch, ss_json *json) {
    arch->window_rotary.base = arch->rotary.base;
    if (ss_read_two_rotaries(arch, json)) return;
    ss_read_llama_rotary(arch, json);
    arch->window_rotary.base = arch->rotary.base;
}

void ss_olmo3_read(ss_arch *arch, ss_json *json) {
    read_like_olmo2(arch, json, 500000.0);
    read_rotaries(arch, json);
    arch->window = ss_read_window(json, 4096);
    ss_read_window_pattern(arch, json, 4);
}

/* Reads olmoe, whose norms precede attention and feed-forward, as llama's do. */
void ss_olmoe_read(ss_arch *arch, ss_json *json) {
    ss_read_llama_like(arch, json, &(ss_llama_defaults){.context = 4096, .norm_eps = 1e-5});
    ss_read_llama_rotary(arch, json);
    arch->attention_bias = ss_json_bool(json, "attention_bias", false);
    arch->output_bias = arch->attention_bias;
    arch->qk_norm = SS_QK_NORM_ALL_HEADS;
    int local = ss_json_int(json, "num_local_experts", 64, 1, SS_EXPERTS_MAX);
    arch->E = ss_json_int(json, "num_experts", local, 1, SS_EXPERTS_MAX);
    arch->top_k = ss_json_int(json, "num_experts_per_tok", arch->E < 8 ? arch->E : 8, 1, arch->E);
    arch->router_shares = !ss_json_bool(json, "norm_topk_prob", false);
}
