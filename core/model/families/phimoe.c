/* phimoe: mixtral with LayerNorm, a bias of the LM head where the config says so, and a router of
 * its own. */
#include "family.h"

#include <math.h>
#include <string.h>

/* Reads rotary positions: plain, or longrope with a factor of rotated vectors of its own. */
static void read_rotary(ss_arch *arch, ss_json *json) {
    ss_json rope = ss_rope_object(json);
    const char *type = ss_json_text(&rope, "rope_type", ss_json_text(&rope, "type", "default"));
    if (strcmp(type, "default") && strcmp(type, "longrope"))
        ss_json_refuse(json, "rope_type", "\"default\" and \"longrope\"", type);
    ss_read_llama_rotary(arch, json);
    if (arch->rotary.scaling != SS_ROPE_LONG) return;
    arch->rotary.attention_factor =
        (float)ss_json_number(&rope, "short_mscale", (double)NAN, 1e-6, 1e6);
    ss_json_number(&rope, "long_mscale", (double)NAN, 1e-6, 1e6);
}

void ss_phimoe_read(ss_arch *arch, ss_json *json) {
    ss_llama_defaults defaults = {
        .G = 8, .context = 131072, .theta = 1e6, .norm_eps = 1e-5, .skips_rotary = true};
    ss_read_llama_like(arch, json, &defaults);
    read_rotary(arch, json);
    arch->norm = SS_NORM_LAYER;
    ss_read_attention_bias(arch, json, "attention_bias", false);
    arch->head_bias = ss_json_bool(json, "lm_head_bias", false);
    arch->window = ss_read_window(json, 0);
    ss_window_all_layers(arch);
    arch->E = ss_json_int(json, "num_local_experts", 16, 2, SS_EXPERTS_MAX);
    arch->top_k = ss_json_int(json, "num_experts_per_tok", 2, 2, 2);
    arch->router = SS_ROUTER_SPARSEMIXER;
    arch->router_jitter = (float)ss_json_number(json, "router_jitter_noise", 0.01, 0.0, 1e6);
}
