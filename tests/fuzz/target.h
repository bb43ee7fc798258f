/*
 * Functions that the fuzzers of model files share: open a file, open a model on the file, run two
 * tokens.
 *
 * A reader may refuse anything, with a code, a place and a sentence. It may not crash, read a byte
 * beyond the file, leak memory, hang, or ask for memory that the file's size does not justify.
 */
#ifndef SS_FUZZ_TARGET_H
#define SS_FUZZ_TARGET_H

#include "sinkscope.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Returns the config of the model in seeds/. `more` has additional keys, each with a comma before
 * it. */
#define TINY_CONFIG(more)                                                                          \
    "{\"model_type\":\"llama\",\"num_hidden_layers\":1,\"num_attention_heads\":2,"                 \
    "\"num_key_value_heads\":1,\"hidden_size\":4,\"intermediate_size\":6,\"vocab_size\":8,"        \
    "\"max_position_embeddings\":16,\"tie_word_embeddings\":true" more "}"

/* Bytes of arena that opening a container may take, in proportion to the size of its file. */
#define ARENA_BYTES(file_bytes) (65536 + 512 * (file_bytes))

#define SEED_BYTES_MAX 262144

static inline ss_bytes read_path(const char *path) {
    FILE *file = fopen(path, "rb");
    uint8_t *data = malloc(SEED_BYTES_MAX);
    if (!file || !data) abort();
    size_t n = fread(data, 1, SEED_BYTES_MAX, file);
    fclose(file);
    return (ss_bytes){data, n};
}

static inline ss_bytes read_seed(const char *folder, const char *name, const char *extension) {
    char path[96];
    snprintf(path, sizeof path, "tests/fuzz/seeds/%s/%s%s", folder, name, extension);
    return read_path(path);
}

static inline void check(ss_status status, const ss_error *err) {
    if (status != SS_OK && (status != err->code || !err->where[0] || strlen(err->text) < 10))
        abort();
}

static inline ss_arena fuzz_arena(size_t bytes) {
    size_t block_bytes = (bytes / SS_ARENA_ALIGN + 1) * SS_ARENA_ALIGN;
    void *block = aligned_alloc(SS_ARENA_ALIGN, block_bytes);
    if (!block) abort();
    return ss_arena_on(block, bytes);
}

static inline void fuzz_run(const ss_model *model) {
    ss_run_desc desc = {.model = model, .capacity = 2, .fields = SS_FIELDS_ALL};
    ss_error err;
    size_t bytes;
    ss_status status = ss_run_size(&bytes, &desc, &err);
    check(status, &err);
    /* Skips large runs: only sizes that no tensor confirms, like the context, can ask for one. */
    if (status != SS_OK || bytes > 1 << 26) return;
    ss_arena arena = fuzz_arena(bytes);
    ss_run run;
    status = ss_run_init(&run, &desc, &arena, &err);
    check(status, &err);
    if (status == SS_OK) check(ss_run_extend(&run, (int32_t[]){0, 1}, 2, &err), &err);
    free(arena.block);
}

/* Removes the tensor that an error names from the container, if the model was refused because its
 * config does not use the tensor: the seeds have the tensors of every variant. */
static inline bool remove_unread_tensor(ss_container *container, const ss_error *err) {
    ss_entry *entries = (ss_entry *)container->entries; /* in the arena of fuzz_file */
    for (size_t i = 0; err->code == SS_UNSUPPORTED && i < container->n; i++) {
        if (strcmp(entries[i].name, err->where)) continue;
        container->n--;
        memmove(entries + i, entries + i + 1, (container->n - i) * sizeof *entries);
        return true;
    }
    return false;
}

/* Opens a model in a new arena, which the caller frees. The arena's block is NULL on failure. */
static inline ss_arena fuzz_open(ss_model *model, const ss_arch *arch, ss_container *container) {
    ss_error err;
    do {
        size_t bytes;
        ss_status status = ss_model_size(&bytes, arch, container, &err);
        check(status, &err);
        if (status != SS_OK || bytes > 1 << 26) break;
        ss_arena arena = fuzz_arena(bytes);
        status = ss_model_open(model, arch, container, &arena, &err);
        check(status, &err);
        if (status == SS_OK && arena.used != bytes) abort();
        if (status == SS_OK) return arena;
        free(arena.block);
    } while (remove_unread_tensor(container, &err));
    return (ss_arena){0};
}

static inline void fuzz_model(const ss_arch *arch, ss_container *container) {
    ss_model model;
    ss_arena arena = fuzz_open(&model, arch, container);
    if (!arena.block) return;
    ss_choice choice;
    ss_error err;
    ss_status status = ss_operation_own(&choice, &model, &err);
    check(status, &err);
    if (status == SS_OK) fuzz_run(&model);
    free(arena.block);
}

/* Opens the file, and, unless arch is NULL, a model of this architecture on it. */
static inline void fuzz_file(ss_bytes file, const ss_arch *arch) {
    size_t bytes = ss_container_size(&file, 1);
    if (bytes > ARENA_BYTES(file.n)) abort();
    ss_arena arena = fuzz_arena(bytes);
    ss_container container;
    ss_error err;
    ss_status status = ss_container_open(&container, &file, 1, &arena, &err);
    check(status, &err);
    if (status == SS_OK && arch) fuzz_model(arch, &container);
    free(arena.block);
}

static inline ss_arch fuzz_arch(const char *config) {
    ss_arch arch;
    if (ss_arch_read(&arch, (ss_bytes){(const uint8_t *)config, strlen(config)}, NULL) != SS_OK)
        abort();
    return arch;
}

#endif
