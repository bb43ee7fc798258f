/* gpt_neox (Pythia): LayerNorm, rotary positions in a part of each head, attention and feed-forward
 * in parallel, and one matrix for q, k and v, head by head. */
#include "family.h"

void ss_gpt_neox_read(ss_arch *arch, ss_json *json) {
    static const ss_gpt_keys keys = {.F = "intermediate_size",
                                     .requires_F = true,
                                     .activation_key = "hidden_act",
                                     .activation = "gelu",
                                     .norm_eps = "layer_norm_eps",
                                     .untied = true};
    ss_read_gpt_like(arch, json, &keys);
    ss_refuse_alias(json, "head_dim", "hidden_size / num_attention_heads", arch->K);
    arch->positions = SS_POSITIONS_ROTARY;
    arch->rotary.base = ss_json_number(json, "rotary_emb_base", 10000.0, 1.0, 1e12);
    arch->rotary.part = ss_json_number(json, "rotary_pct", 0.25, 0.0, 1.0);
    /* As in transformers, the keys rope_theta and partial_rotary_factor of other families count
     * only inside the object. */
    ss_json rope = ss_rope_object(json);
    arch->rotary.attention_factor = 1.0f;
    ss_read_rope(&arch->rotary, &rope, arch->context);
    ss_set_rotary_width(arch);
    arch->parallel = ss_json_bool(json, "use_parallel_residual", true);
    ss_read_attention_bias(arch, json, "attention_bias", true);
    arch->ffn_bias = true;
}

void ss_load_gpt_neox_layer(ss_layer *layer, ss_loader *loader, const ss_arch *arch) {
    size_t D = (size_t)arch->D, F = (size_t)arch->F;
    ss_load_norm(loader, &layer->attention_norm, "layers.%d.input_layernorm", true, D);
    ss_load_qkv(loader, layer, arch, "layers.%d.attention.query_key_value", SS_OUT_IN, true);
    ss_load_linear(loader, &layer->o, "layers.%d.attention.dense", arch->output_bias, D, D);
    ss_load_norm(loader, &layer->ffn_norm, "layers.%d.post_attention_layernorm", true, D);
    ss_load_linear(loader, &layer->ffn.up, "layers.%d.mlp.dense_h_to_4h", true, D, F);
    ss_load_linear(loader, &layer->ffn.down, "layers.%d.mlp.dense_4h_to_h", true, F, D);
}

void ss_load_gpt_neox_ends(ss_model *model, ss_loader *loader) {
    static const char *const prefixes[] = {"gpt_neox.", NULL};
    loader->prefixes = prefixes;
    ss_load_embeddings(loader, model, "embed_in", "embed_out");
    ss_load_norm(loader, &model->norm, "final_layer_norm", true, (size_t)model->arch.D);
}
