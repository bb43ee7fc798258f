/* phi (phi-1, phi-1.5, phi-2): LayerNorm; attention and a feed-forward without gate, which both
 * read the output of one norm; rotary positions in a part of each head; biases everywhere, also of
 * the LM head. */
#include "family.h"

void ss_phi_read(ss_arch *arch, ss_json *json) {
    ss_read_llama_like(arch, json, &(ss_llama_defaults){.part = 0.5, .activation = "gelu_new"});
    ss_read_layer_norm(arch, json, "layer_norm_eps", 1e-5);
    arch->parallel = true;
    arch->ffn = SS_FFN_PLAIN;
    ss_refuse_gated_activation(arch, json, "hidden_act");
    arch->attention_bias = arch->output_bias = arch->ffn_bias = true;
    arch->head_bias = true;
    if (ss_json_bool(json, "qk_layernorm", false)) arch->qk_norm = SS_QK_NORM_HEAD;
}

/* Older GGUF files keep the matrix of Microsoft's own code, which fuses q, k and v. */
void ss_load_phi_layer(ss_layer *layer, ss_loader *loader, const ss_arch *arch) {
    size_t D = (size_t)arch->D, F = (size_t)arch->F, K = (size_t)arch->K;
    size_t HK = (size_t)arch->H * K, GK = (size_t)arch->G * K;
    ss_load_norm(loader, &layer->attention_norm, "layers.%d.input_layernorm", true, D);
    if (ss_load_has_tensor(loader, "layers.%d.self_attn.qkv_proj.weight")) {
        ss_load_qkv(loader, layer, arch, "layers.%d.self_attn.qkv_proj", SS_OUT_IN, false);
    } else {
        ss_load_linear(loader, &layer->q, "layers.%d.self_attn.q_proj", true, D, HK);
        ss_load_linear(loader, &layer->k, "layers.%d.self_attn.k_proj", true, D, GK);
        ss_load_linear(loader, &layer->v, "layers.%d.self_attn.v_proj", true, D, GK);
    }
    ss_load_linear(loader, &layer->o, "layers.%d.self_attn.dense", true, HK, D);
    if (arch->qk_norm) {
        ss_load_norm(loader, &layer->q_norm, "layers.%d.self_attn.q_layernorm", true, K);
        ss_load_norm(loader, &layer->k_norm, "layers.%d.self_attn.k_layernorm", true, K);
    }
    layer->ffn_norm = layer->attention_norm;
    ss_load_linear(loader, &layer->ffn.up, "layers.%d.mlp.fc1", true, D, F);
    ss_load_linear(loader, &layer->ffn.down, "layers.%d.mlp.fc2", true, F, D);
}

void ss_load_phi_ends(ss_model *model, ss_loader *loader) {
    ss_load_llama_like_ends(model, loader, "final_layernorm");
}
