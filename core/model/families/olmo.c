/*
 * olmo2: llama whose blocks read the residual stream without a norm, and norm their outputs before
 * the sum; the queries of all heads are normed as one vector, and so are the keys. olmo3: the same
 * with a window in three of four layers. olmoe: the same queries and keys, in llama with experts.
 */
#include "family.h"

static void read_like_olmo2(ss_arch *arch, ss_json *json, double theta) {
    ss_llama_defaults defaults = {.theta = theta, .norm_eps = 1e-5, .skips_rotary = true};
    ss_read_llama_like(arch, json, &defaults);
    ss_read_attention_bias(arch, json, "attention_bias", false);
    arch->qk_norm = SS_QK_NORM_ALL_HEADS;
    arch->branch_norms = true;
    arch->branch_only = true;
}

void ss_olmo2_read(ss_arch *arch, ss_json *json) {
    read_like_olmo2(arch, json, 10000.0);
    ss_read_llama_rotary(arch, json);
}

void ss_olmo3_read(ss_arch *arch, ss_json *json) {
    read_like_olmo2(arch, json, 500000.0);
    ss_read_two_rotaries(arch, json, NULL);
    arch->window = ss_read_window(json, 4096);
    ss_read_window_pattern(arch, json, 4);
}

/* Reads olmoe, whose norms precede attention and feed-forward, as llama's do. */
void ss_olmoe_read(ss_arch *arch, ss_json *json) {
    ss_read_llama_like(arch, json, &(ss_llama_defaults){.context = 4096, .norm_eps = 1e-5});
    ss_read_attention_bias(arch, json, "attention_bias", false);
    arch->qk_norm = SS_QK_NORM_ALL_HEADS;
    int local = ss_json_int(json, "num_local_experts", 64, 1, SS_EXPERTS_MAX);
    ss_read_experts(arch, json, "num_experts", local, 8);
    ss_refuse_alias(json, "num_local_experts", "num_experts", arch->E);
    arch->router_shares = !ss_json_bool(json, "norm_topk_prob", false);
    arch->qkv_clip = (float)ss_json_number(json, "clip_qkv", 0.0, 1e-6, 1e6);
}
