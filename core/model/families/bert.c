/* bert: an encoder. LayerNorm after each half of a block, learned positions, every query sees every
 * key. All tokens have type 0, as in transformers without token_type_ids, since no config names the
 * id of [SEP], which would separate the types. */
#include "family.h"

#include <stdio.h>
#include <string.h>

void ss_bert_read(ss_arch *arch, ss_json *json) {
    static const ss_gpt_keys keys = {.F = "intermediate_size",
                                     .requires_F = true,
                                     .default_context = 512,
                                     .activation_key = "hidden_act",
                                     .activation = "gelu"};
    ss_read_gpt_like(arch, json, &keys);
    ss_read_layer_norm(arch, json, "layer_norm_eps", 1e-12);
    arch->token_types = ss_json_int(json, "type_vocab_size", 2, 1, SS_VOCABULARY_MAX);
    arch->positions = SS_POSITIONS_LEARNED;
    arch->prefix = SS_EVERY_KEY;
    arch->embedding_norm = true;
    arch->post_norm = true;
    arch->attention_bias = arch->output_bias = arch->ffn_bias = true;
    const char *kind = ss_json_text(json, "position_embedding_type", "absolute");
    if (strcmp(kind, "absolute"))
        ss_json_refuse(json, "position_embedding_type", "\"absolute\"", kind);
    ss_json_require_bool(json, "is_decoder", false);
}

/* Loads a norm. In files from before the end of 2019 its parts are called gamma and beta. */
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

void ss_load_bert_layer(ss_layer *layer, ss_loader *loader, const ss_arch *arch) {
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
    model->headless = !ss_load_has_tensor(loader, "cls.predictions.transform.dense.weight");
    if (!model->headless) {
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
void ss_load_bert_ends(ss_model *model, ss_loader *loader) {
    const ss_arch *arch = &model->arch;
    size_t D = (size_t)arch->D;
    static const char *const prefixes[] = {"", "bert.", NULL};
    loader->prefixes = prefixes;
    ss_load_find_prefix(loader, "embeddings.word_embeddings.weight");
    ss_load_linear(loader, &model->embedding, "embeddings.word_embeddings", false, D,
                   (size_t)arch->V);
    model->positions =
        ss_load_numbers(loader, "embeddings.position_embeddings.weight", (size_t)arch->context, D);
    model->token_type = ss_load_numbers(loader, "embeddings.token_type_embeddings.weight",
                                        (size_t)arch->token_types, D);
    load_norm(loader, &model->embedding_norm, "embeddings.LayerNorm", D);
    load_head(model, loader);
}
