/*
 * What a GGUF file says of its model, before it is translated: its pairs by key, and what is
 * only in its tensors. Like ss_json, a source keeps the first error of those who ask it.
 */
#ifndef SS_MODEL_GGUF_SOURCE_H
#define SS_MODEL_GGUF_SOURCE_H

#include "gguf.h"

#include <cJSON.h>

/* What errors call the pairs. */
#define SS_GGUF_METADATA "GGUF metadata"

/* Keys, and texts that are a choice between words, are shorter. */
#define SS_GGUF_TEXT_BYTES 128

typedef struct ss_gguf_source {
    const ss_gguf_family *family;
    char architecture[SS_GGUF_TEXT_BYTES];
    cJSON *pairs;    /* numbers, texts and truths by key; an array is an empty array */
    cJSON *config;   /* what is made of them */
    bool has_output; /* the head is a tensor of its own */
    bool attention_bias, ffn_bias;
    double V;                     /* rows of the embedding */
    const unsigned char *factors; /* rope_freqs.weight: [factors_n] F32, or NULL */
    size_t factors_n;
    ss_status status; /* the first error */
    ss_error *err;
} ss_gguf_source;

/*
 * Reads all pairs and the tensors' names; the caller frees source->pairs with cJSON_Delete, after a
 * failure, too. SS_BAD_FILE for a key that occurs twice; SS_UNSUPPORTED for an architecture
 * that has no family.
 */
ss_status ss_gguf_source_read(ss_gguf_source *source, ss_bytes file, ss_error *err);

/* The whole key, "llama.block_count". */
typedef struct ss_gguf_key {
    char text[2 * SS_GGUF_TEXT_BYTES];
} ss_gguf_key;

ss_gguf_key ss_gguf_full(const ss_gguf_source *source, const char *key);

/* The architecture's value at key, or NULL. */
const cJSON *ss_gguf_find(const ss_gguf_source *source, const char *key);

/* Records an error, unless there is one already: "GGUF metadata: expected ...". */
void ss_gguf_refuse(ss_gguf_source *source, ss_status code, const char *key, const char *expected);

/* A number, or the standard where the key is absent; NaN as standard: the key is required. */
double ss_gguf_number(ss_gguf_source *source, const char *key, double standard);

/* A text, or the standard where the key is absent. */
const char *ss_gguf_word(ss_gguf_source *source, const char *key, const char *standard);

#endif
