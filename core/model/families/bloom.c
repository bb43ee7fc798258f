/* bloom: LayerNorms, one of them on the token vectors; ALiBi positions; biases everywhere. falcon:
 * rotary positions; attention and feed-forward in parallel after one norm, or two; few key/value
 * heads. Both fuse q, k and v in one matrix, group by group. */
#include "family.h"

static void read_like_bloom(ss_arch *arch, ss_json *json, ss_gpt_keys keys) {
    keys.D = cJSON_HasObjectItem(json->object, "n_embed") ? "n_embed" : "hidden_size";
    keys.norm_eps = "layer_norm_epsilon";
    ss_read_gpt_like(arch, json, &keys);
}

void ss_bloom_read(ss_arch *arch, ss_json *json) {
    bool has_older_key = cJSON_HasObjectItem(json->object, "num_attention_heads");
    ss_gpt_keys keys = {
        .L = "n_layer", .H = has_older_key ? NULL : "n_head", .context = "seq_length"};
    read_like_bloom(arch, json, keys);
    arch->positions = SS_POSITIONS_ALIBI;
    arch->embedding_norm = true;
    arch->activation = SS_ACTIVATION_GELU_TANH;
    arch->attention_bias = arch->output_bias = arch->ffn_bias = true;
    ss_json_require_bool(json, "apply_residual_connection_post_layernorm", false);
}

/* Reads the number of key/value heads; only the new architecture uses num_kv_heads. */
static void read_kv_heads(ss_arch *arch, ss_json *json) {
    bool is_new = ss_json_bool(json, "new_decoder_architecture", false);
    if (is_new)
        arch->G = ss_json_int(json, "num_kv_heads", arch->H, 1, arch->H);
    else if (ss_json_bool(json, "multi_query", true))
        arch->G = 1;
    arch->parallel = ss_json_bool(json, "parallel_attn", true);
    if (ss_json_int(json, "num_ln_in_parallel_attn", 1, 1, 2) == 2 && !is_new)
        ss_json_refuse(json, "num_ln_in_parallel_attn", "1 without new_decoder_architecture", "2");
    if (is_new && !arch->parallel)
        ss_json_refuse(json, "parallel_attn", "true with new_decoder_architecture", "false");
}

void ss_falcon_read(ss_arch *arch, ss_json *json) {
    ss_gpt_keys keys = {
        .F = "ffn_hidden_size", .activation_key = "activation", .activation = "gelu"};
    read_like_bloom(arch, json, keys);
    read_kv_heads(arch, json);
    arch->positions = SS_POSITIONS_ROTARY;
    arch->rotary_width = arch->K;
    arch->rotary = (ss_rotary){.base = 10000.0, .part = 1.0};
    ss_read_llama_rotary(arch, json);
    ss_read_attention_bias(arch, json, "bias", false);
    arch->ffn_bias = arch->attention_bias;
    if (ss_json_bool(json, "alibi", false))
        ss_json_refuse(json, "alibi", "rotary positions",
                       "true (falcon-rw rounds its biases to BF16)");
}

static void load_norms(ss_layer *layer, ss_loader *loader, const ss_arch *arch) {
    size_t D = (size_t)arch->D;
    bool has_two_norms = ss_load_has_tensor(loader, "h.%d.ln_attn.weight");
    ss_load_norm(loader, &layer->attention_norm,
                 has_two_norms ? "h.%d.ln_attn" : "h.%d.input_layernorm", true, D);
    if (arch->parallel && !has_two_norms)
        layer->ffn_norm = layer->attention_norm;
    else if (has_two_norms)
        ss_load_norm(loader, &layer->ffn_norm,
                     ss_load_is_format(loader, SS_GGUF) ? "h.%d.input_layernorm" : "h.%d.ln_mlp",
                     true, D);
    else
        ss_load_norm(loader, &layer->ffn_norm, "h.%d.post_attention_layernorm", true, D);
}

void ss_load_falcon_layer(ss_layer *layer, ss_loader *loader, const ss_arch *arch) {
    size_t D = (size_t)arch->D, F = (size_t)arch->F;
    load_norms(layer, loader, arch);
    ss_load_qkv(loader, layer, arch, "h.%d.self_attention.query_key_value", SS_OUT_IN, true);
    ss_load_linear(loader, &layer->o, "h.%d.self_attention.dense", arch->output_bias, D, D);
    ss_load_linear(loader, &layer->ffn.up, "h.%d.mlp.dense_h_to_4h", arch->ffn_bias, D, F);
    ss_load_linear(loader, &layer->ffn.down, "h.%d.mlp.dense_4h_to_h", arch->ffn_bias, F, D);
}

/* Loads falcon or bloom; published bloom files have names without prefix. */
void ss_load_falcon_ends(ss_model *model, ss_loader *loader) {
    static const char *const prefixes[] = {"", "transformer.", NULL};
    size_t D = (size_t)model->arch.D;
    loader->prefixes = prefixes;
    ss_load_embeddings(loader, model, "word_embeddings", "lm_head");
    if (model->arch.embedding_norm)
        ss_load_norm(loader, &model->embedding_norm, "word_embeddings_layernorm", true, D);
    ss_load_norm(loader, &model->norm, "ln_f", true, D);
}
