/* Reads tensors of tests/golden/<case>/golden.safetensors. */
#ifndef SS_TEST_GOLDENS_H
#define SS_TEST_GOLDENS_H

#include "files.h"

static inline const ss_tensor *golden(const opened_file *file, const char *name) {
    const ss_entry *entry = ss_container_find(&file->container, name);
    return entry ? &entry->tensor : NULL;
}

static inline float number_at(const ss_tensor *tensor, size_t i) {
    float value;
    memcpy(&value, (const char *)tensor->data + 4 * i, sizeof value);
    return value;
}

/* Returns the ids of the tensor "tokens", which the caller frees. */
static inline int32_t *golden_tokens(const opened_file *file, int *T) {
    const ss_tensor *tensor = golden(file, "tokens");
    *T = (int)ss_tensor_count(tensor);
    int32_t *tokens = malloc((size_t)*T * sizeof *tokens);
    if (!tokens) exit(2);
    memcpy(tokens, tensor->data, (size_t)*T * sizeof *tokens);
    return tokens;
}

#endif
