/* The metadata of a GGUF file before translation: its pairs by key, and facts that follow from its
 * tensors. Like ss_json, a source keeps the first error. */
#ifndef SS_MODEL_GGUF_SOURCE_H
#define SS_MODEL_GGUF_SOURCE_H

#include "gguf.h"

#include <cJSON.h>

#define SS_GGUF_METADATA "GGUF metadata"

/* Upper bound of the bytes of keys, and of texts that are a choice between words. */
#define SS_GGUF_TEXT_BYTES 128

typedef struct ss_gguf_source {
    const ss_gguf_family *family;
    char architecture[SS_GGUF_TEXT_BYTES];
    cJSON *pairs; /* numbers, texts and booleans by key; arrays of texts, and arrays of more than
                     SS_LAYERS_MAX numbers, are stored empty */
    cJSON *config;
    bool has_output; /* the LM head has its own tensor */
    bool attention_bias, ffn_bias;
    double V;                     /* rows of the embedding */
    const unsigned char *factors; /* rope_freqs.weight: [factors_n] F32, or NULL */
    size_t factors_n;
    ss_status status;
    ss_error *err;
} ss_gguf_source;

/* Reads all pairs and the names of tensors; the caller frees source->pairs with cJSON_Delete, also
 * after an error. Returns SS_BAD_FILE for a duplicate key; SS_UNSUPPORTED for an architecture
 * without a family. */
ss_status ss_gguf_source_read(ss_gguf_source *source, ss_bytes file, ss_error *err);

/* A full key with the architecture's prefix, such as "llama.block_count". */
typedef struct ss_gguf_key {
    char text[2 * SS_GGUF_TEXT_BYTES];
} ss_gguf_key;

ss_gguf_key ss_gguf_full_key(const ss_gguf_source *source, const char *key);

const cJSON *ss_gguf_find(const ss_gguf_source *source, const char *key);

/* Records an error, "GGUF metadata: expected ...", unless an earlier one is recorded. */
void ss_gguf_refuse(ss_gguf_source *source, ss_status code, const char *key, const char *expected);

/* Reads a number, or the default where the key is absent; a default of NaN means required. */
double ss_gguf_number(ss_gguf_source *source, const char *key, double default_value);

const char *ss_gguf_word(ss_gguf_source *source, const char *key, const char *default_value);

#endif
