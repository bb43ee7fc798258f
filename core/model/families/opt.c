/*
 * opt: LayerNorm, learned positions that begin at row 2 of their table, ReLU. opt-350m norms the
 * residual stream after each half of a block, and its token vectors are narrower than the stream.
 */
#include "family.h"

/* Unused rows at the start of the position table: fairseq reserved them for padding. */
#define FIRST_POSITION 2

void ss_opt_read(ss_arch *arch, ss_json *json) {
    static const ss_gpt_keys keys = {.F = "ffn_dim", .requires_F = true, .activation = "relu"};
    ss_read_gpt_like(arch, json, &keys);
    arch->embedding_width = ss_json_int(json, "word_embed_proj_dim", arch->D, 1, SS_WIDTH_MAX);
    if (arch->embedding_width > arch->D)
        ss_json_refuse(json, "word_embed_proj_dim", "at most hidden_size", "more");
    arch->post_norm = !ss_json_bool(json, "do_layer_norm_before", true);
    arch->positions = SS_POSITIONS_LEARNED;
    ss_read_attention_bias(arch, json, "enable_bias", true);
    arch->ffn_bias = arch->attention_bias;
    ss_json_require_bool(json, "layer_norm_elementwise_affine", true);
}

void ss_load_opt_layer(ss_layer *layer, ss_loader *loader, const ss_arch *arch) {
    size_t D = (size_t)arch->D, F = (size_t)arch->F;
    bool bias = arch->ffn_bias;
    ss_load_norm(loader, &layer->attention_norm, "layers.%d.self_attn_layer_norm", true, D);
    ss_load_linear(loader, &layer->q, "layers.%d.self_attn.q_proj", bias, D, D);
    ss_load_linear(loader, &layer->k, "layers.%d.self_attn.k_proj", bias, D, D);
    ss_load_linear(loader, &layer->v, "layers.%d.self_attn.v_proj", bias, D, D);
    ss_load_linear(loader, &layer->o, "layers.%d.self_attn.out_proj", bias, D, D);
    ss_load_norm(loader, &layer->ffn_norm, "layers.%d.final_layer_norm", true, D);
    ss_load_linear(loader, &layer->ffn.up, "layers.%d.fc1", bias, D, F);
    ss_load_linear(loader, &layer->ffn.down, "layers.%d.fc2", bias, F, D);
}

/* Loads the tensors before and after the layers. Files with an LM head have the prefix
 * model.decoder., others decoder. */
void ss_load_opt_ends(ss_model *model, ss_loader *loader) {
    const ss_arch *arch = &model->arch;
    static const char *const prefixes[] = {"decoder.", "model.decoder.", NULL};
    size_t D = (size_t)arch->D, width = (size_t)arch->embedding_width;
    loader->prefixes = prefixes;
    ss_load_embeddings(loader, model, "embed_tokens", "lm_head");
    if (width != D) {
        ss_load_linear(loader, &model->embedding_in, "project_in", false, width, D);
        ss_load_linear(loader, &model->head_in, "project_out", false, D, width);
    }
    const float *table = ss_load_numbers(loader, "embed_positions.weight",
                                         (size_t)arch->context + FIRST_POSITION, D);
    if (table) model->positions = table + FIRST_POSITION * D;
    if (!arch->post_norm) ss_load_norm(loader, &model->norm, "final_layer_norm", true, D);
}
