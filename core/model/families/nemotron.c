/* nemotron (Minitron): llama with LayerNorms whose gain is 1 + w, a feed-forward without gate and
 * with the square of relu, and rotary positions in a part of each head. */
#include "family.h"

void ss_nemotron_read(ss_arch *arch, ss_json *json) {
    ss_llama_defaults defaults = {.context = 4096, .part = 0.5, .activation = "relu2"};
    ss_read_llama_like(arch, json, &defaults);
    ss_read_llama_biases(arch, json);
    arch->norm = SS_NORM_LAYER;
    arch->gain_plus_one = true;
    arch->norm_eps = (float)ss_json_number(json, "norm_eps", 1e-5, 0.0, 1.0);
    arch->ffn = SS_FFN_PLAIN;
    ss_refuse_gated_activation(arch, json, "hidden_act");
}
