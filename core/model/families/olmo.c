/*
 * olmo2: llama whose blocks read the residual stream without a norm, and norm their outputs before
 * the sum; the queries of all heads are normed as one vector, and so are the keys. olmo3: the same
 * with a window in three of four layers.
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

/* Flat keys set the base of all layers, but scale only the layers that see all keys. */
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
    for (int l = 0; l < arch->L; l++) arch->windowed[l] = arch->window && (l + 1) % 4;
    ss_read_layer_types(arch, json);
}
