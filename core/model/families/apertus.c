/* apertus: llama with norms of the queries and keys of each head, other names of the norms before
 * each block, and a feed-forward without gate whose activation, xIELU, has a learned curve in each
 * layer. */
#include "../../math/scalar.h"
#include "family.h"

void ss_apertus_read(ss_arch *arch, ss_json *json) {
    ss_llama_defaults defaults = {
        .context = 65536, .theta = 12e6, .norm_eps = 1e-5, .activation = "xielu"};
    ss_read_llama_like(arch, json, &defaults);
    /* As in transformers, the default object has a base, which that beside it does not change. */
    if (!ss_rope_object(json).object) {
        arch->rotary.base = 12e6;
        arch->rotary.scaling = SS_ROPE_LLAMA3;
        arch->rotary.factor = 8.0;
        arch->rotary.original_context = 8192.0;
        arch->rotary.low = 1.0;
        arch->rotary.high = 4.0;
    }
    ss_read_attention_bias(arch, json, "attention_bias", false);
    arch->qk_norm = SS_QK_NORM_HEAD;
    arch->ffn = SS_FFN_PLAIN;
    ss_refuse_gated_activation(arch, json, "hidden_act");
}

static float softplus(float x) {
    return (float)ss_log(1.0 + ss_exp_double((double)x));
}

#define CURVE "layers.%d.mlp.act_fn."

static void load_curve(ss_ffn *ffn, ss_loader *loader) {
    const float *positive = ss_load_numbers(loader, CURVE "alpha_p", 0, 1);
    const float *negative = ss_load_numbers(loader, CURVE "alpha_n", 0, 1);
    const float *beta = ss_load_numbers(loader, CURVE "beta", 0, 0);
    const float *eps = ss_load_numbers(loader, CURVE "eps", 0, 0);
    float *curve = ss_load_ones(loader, 4);
    if (!positive || !negative || !beta || !eps || !curve) return;
    curve[0] = softplus(*positive);
    curve[1] = *beta + softplus(*negative);
    curve[2] = *beta;
    curve[3] = *eps;
    ffn->curve = curve;
}

void ss_load_apertus_layer(ss_layer *layer, ss_loader *loader, const ss_arch *arch) {
    size_t D = (size_t)arch->D;
    ss_load_norm(loader, &layer->attention_norm, "layers.%d.attention_layernorm", false, D);
    ss_load_llama_heads(layer, loader, arch);
    ss_load_norm(loader, &layer->ffn_norm, "layers.%d.feedforward_layernorm", false, D);
    ss_load_llama_ffn(&layer->ffn, loader, "layers.%d.mlp", arch, (size_t)arch->F);
    if (arch->activation == SS_ACTIVATION_XIELU) load_curve(&layer->ffn, loader);
}
