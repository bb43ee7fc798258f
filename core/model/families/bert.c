/*
 * bert: an encoder. LayerNorm after each half of a block, learned positions, every query sees every
 * key. All tokens have type 0, as in transformers without token_type_ids, since no config names the
 * id of [SEP], which would separate the types.
 */
#include "family.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static void refuse_other_keys(ss_arch *arch, ss_json *json) {
    const char *kind = ss_json_text(json, "position_embedding_type", "absolute");
    if (strcmp(kind, "absolute"))
        ss_json_refuse(json, "position_embedding_type", "\"absolute\"", kind);
    if (ss_json_bool(json, "is_decoder", false))
        ss_json_refuse(json, "is_decoder", "false", "true");
    ss_check_plain(arch, json, "hidden_act");
    ss_check_width(arch, json, "num_attention_heads", "hidden_size");
}

void ss_bert_read(ss_arch *arch, ss_json *json) {
    ss_read_heads(arch, json, "num_hidden_layers", "num_attention_heads", "hidden_size");
    arch->F = ss_json_int(json, "intermediate_size", SS_JSON_REQUIRED, 1, SS_FFN_MAX);
    arch->V = ss_json_int(json, "vocab_size", SS_JSON_REQUIRED, 1, SS_VOCABULARY_MAX);
    arch->context = ss_json_int(json, "max_position_embeddings", 512, 1, SS_CONTEXT_MAX);
    arch->token_types = ss_json_int(json, "type_vocab_size", 2, 1, SS_VOCABULARY_MAX);
    arch->positions = SS_POSITIONS_LEARNED;
    arch->prefix = SS_EVERY_KEY;
    arch->embedding_norm = true;
    arch->norm = SS_NORM_LAYER;
    arch->norm_eps = (float)ss_json_number(json, "layer_norm_eps", 1e-12, 0.0, 1.0);
    arch->post_norm = true;
    arch->ffn = SS_FFN_PLAIN;
    arch->activation = ss_read_activation(json, "hidden_act", "gelu");
    arch->score_scale = (float)(1.0 / sqrt((double)arch->K));
    arch->attention_bias = arch->output_bias = arch->ffn_bias = true;
    arch->tied = ss_json_bool(json, "tie_word_embeddings", true);
    refuse_other_keys(arch, json);
}

/* Loads a norm. In files from before the end of 2019, the gain is called gamma and the bias beta.
 */
static void load_norm(ss_loader *loader, ss_norm *norm, const char *name, size_t D) {
    char gamma[64], beta[64];
    snprintf(gamma, sizeof gamma, "%s.gamma", name);
    snprintf(beta, sizeof beta, "%s.beta", name);
    if (!ss_load_has_tensor(loader, gamma)) {
        ss_load_norm(loader, norm, name, true, D);
        return;
    }
    norm->gain = ss_load_numbers(loader, gamma, 0, D);
    norm->bias = ss_load_numbers(loader, beta, 0, D);
}

static void load_layer(ss_layer *layer, ss_loader *loader, const ss_arch *arch) {
    size_t D = (size_t)arch->D, F = (size_t)arch->F;
    ss_load_linear(loader, &layer->q, "encoder.layer.%d.attention.self.query", true, D, D);
    ss_load_linear(loader, &layer->k, "encoder.layer.%d.attention.self.key", true, D, D);
    ss_load_linear(loader, &layer->v, "encoder.layer.%d.attention.self.value", true, D, D);
    ss_load_linear(loader, &layer->o, "encoder.layer.%d.attention.output.dense", true, D, D);
    load_norm(loader, &layer->attention_norm, "encoder.layer.%d.attention.output.LayerNorm", D);
    ss_load_linear(loader, &layer->ffn.up, "encoder.layer.%d.intermediate.dense", true, D, F);
    ss_load_linear(loader, &layer->ffn.down, "encoder.layer.%d.output.dense", true, F, D);
    load_norm(loader, &layer->ffn_norm, "encoder.layer.%d.output.LayerNorm", D);
}

/*
 * Loads the head that predicts masked tokens: a dense layer, the activation and a norm, then the
 * product with the embedding and a bias for each token. A model that was saved without this head
 * has no logits.
 *
 * The bias has two names. transformers 5 uses cls.predictions.decoder.bias, or cls.predictions.bias
 * if the file has no other; files of transformers 4 have only the latter.
 */
static void load_head(ss_model *model, ss_loader *loader) {
    size_t D = (size_t)model->arch.D, V = (size_t)model->arch.V;
    const char *prefix = loader->prefix, *decoder_bias = "cls.predictions.decoder.bias";
    const char *head_bias = "cls.predictions.bias";
    loader->prefix = "";
    if (ss_load_has_tensor(loader, "cls.predictions.transform.dense.weight")) {
        ss_load_linear(loader, &model->head_in, "cls.predictions.transform.dense", true, D, D);
        load_norm(loader, &model->head_norm, "cls.predictions.transform.LayerNorm", D);
        ss_load_head(loader, model, "cls.predictions.decoder");
        bool has_decoder_bias = ss_load_has_tensor(loader, decoder_bias);
        /* If the file has both biases, head_bias is loaded only to check its shape. */
        if (!has_decoder_bias || ss_load_has_tensor(loader, head_bias))
            model->head.bias = ss_load_numbers(loader, head_bias, 0, V);
        if (has_decoder_bias) model->head.bias = ss_load_numbers(loader, decoder_bias, 0, V);
    }
    loader->prefix = prefix;
}

/* Loads a model with or without its head; the file of a base model has names without the prefix. */
void ss_bert_load(ss_model *model, ss_loader *loader) {
    const ss_arch *arch = &model->arch;
    size_t D = (size_t)arch->D;
    loader->prefix = "bert.";
    if (!ss_load_has_tensor(loader, "embeddings.word_embeddings.weight")) loader->prefix = "";
    ss_load_linear(loader, &model->embedding, "embeddings.word_embeddings", false, D,
                   (size_t)arch->V);
    model->positions =
        ss_load_numbers(loader, "embeddings.position_embeddings.weight", (size_t)arch->context, D);
    model->token_type = ss_load_numbers(loader, "embeddings.token_type_embeddings.weight",
                                        (size_t)arch->token_types, D);
    load_norm(loader, &model->embedding_norm, "embeddings.LayerNorm", D);
    load_head(model, loader);
    ss_load_layers(loader, model, load_layer);
}
