/* cohere (Command R, Aya): llama whose attention and feed-forward read one LayerNorm without bias;
 * rotary pairs of neighboring dimensions, scaled logits. cohere2: cohere with a window in three of
 * four layers; the other layers do not rotate. */
#include "family.h"

static void read_like_cohere(ss_arch *arch, ss_json *json, double theta) {
    ss_llama_defaults defaults = {.context = 8192, .theta = theta, .tied = true};
    ss_read_llama_like(arch, json, &defaults);
    ss_read_layer_norm(arch, json, "layer_norm_eps", 1e-5);
    arch->no_norm_bias = true;
    arch->parallel = true;
    ss_read_attention_bias(arch, json, "attention_bias", false);
    if (ss_json_is_null(json, "logit_scale"))
        ss_json_fail(json, "logit_scale", "a number, found null");
    arch->logit_scale = (float)ss_json_number(json, "logit_scale", 0.0625, 1e-6, 1e6);
}

/* Refuses Command R+, which norms queries and keys with a gain of its own for each head. */
void ss_cohere_read(ss_arch *arch, ss_json *json) {
    read_like_cohere(arch, json, 500000.0);
    ss_refuse_qk_norm(json, "use_qk_norm");
}

void ss_cohere2_read(ss_arch *arch, ss_json *json) {
    read_like_cohere(arch, json, 10000.0);
    if (ss_json_is_null(json, "head_dim")) ss_json_fail(json, "head_dim", "a number, found null");
    arch->window = ss_read_window(json, 4096);
    if (!arch->window) ss_json_refuse(json, "sliding_window", "a number", "null");
    ss_read_window_pattern(arch, json,
                           ss_json_int(json, "sliding_window_pattern", 4, 1, SS_LAYERS_MAX));
    for (int l = 0; l < arch->L; l++) arch->unrotated[l] = !arch->windowed[l];
}
