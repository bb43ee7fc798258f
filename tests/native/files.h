/* Files and models for tests and tools; a failure ends the program. */
#ifndef SS_TEST_FILES_H
#define SS_TEST_FILES_H

#include "sinkscope.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A variable whose declaration begins with one of these words is released where its block ends, the
 * last one first. */
#define scoped __attribute__((cleanup(free_block)))
#define scoped_bytes __attribute__((cleanup(free_bytes))) ss_bytes
#define scoped_file __attribute__((cleanup(close_file))) opened_file
#define scoped_model __attribute__((cleanup(close_model))) opened_model
#define scoped_run __attribute__((cleanup(close_run))) opened_run

static inline void free_block(void *variable) {
    void *block;
    memcpy(&block, variable, sizeof block); /* the variable may be a pointer to any type */
    free(block);
}

static inline void free_bytes(ss_bytes *bytes) {
    free((void *)(size_t)bytes->data);
}

/* Reads a file into a block of its exact size, so that a sanitizer detects reads beyond it. */
static inline ss_bytes read_file(const char *folder, const char *name) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "rb");
    if (!file) {
        printf("cannot open %s\n", path);
        exit(2);
    }
    fseek(file, 0, SEEK_END);
    size_t n = (size_t)ftell(file);
    rewind(file);
    unsigned char *data = malloc(n ? n : 1);
    if (!data || fread(data, 1, n, file) != n) exit(2);
    fclose(file);
    return (ss_bytes){data, n};
}

/* Returns an arena filled with NaN, which appears in results if memory is read before it is
   written. */
static inline ss_arena arena_of(size_t bytes) {
    size_t block_bytes = (bytes / SS_ARENA_ALIGN + 1) * SS_ARENA_ALIGN;
    void *block = aligned_alloc(SS_ARENA_ALIGN, block_bytes);
    if (!block) exit(2);
    memset(block, 0xff, block_bytes);
    return ss_arena_on(block, bytes);
}

typedef struct opened_file {
    ss_bytes bytes;
    ss_arena arena;
    ss_container container;
} opened_file;

static inline ss_status open_bytes(opened_file *file, ss_error *err) {
    file->arena = arena_of(ss_container_size(&file->bytes, 1));
    return ss_container_open(&file->container, &file->bytes, 1, &file->arena, err);
}

static inline void close_file(opened_file *file) {
    free(file->arena.block);
    free((void *)(size_t)file->bytes.data);
}

static inline void must(ss_status status, const ss_error *err, const char *what) {
    if (status != SS_OK) {
        printf("%s: %s: %s: %s\n", what, ss_status_name(status), err->where, err->text);
        exit(2);
    }
}

static inline opened_file open_file(const char *folder, const char *name) {
    opened_file file = {.bytes = read_file(folder, name)};
    ss_error err;
    must(open_bytes(&file, &err), &err, folder);
    return file;
}

typedef struct opened_model {
    opened_file weights;
    ss_arena arena;
    ss_model model;
} opened_model;

static inline bool has_file(const char *folder, const char *name) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "rb");
    if (file) fclose(file);
    return file != NULL;
}

static inline const char *weights_name(const char *folder) {
    if (has_file(folder, "model.gguf")) return "model.gguf";
    if (has_file(folder, "pytorch_model.bin")) return "pytorch_model.bin";
    if (has_file(folder, "ckpt.pt")) return "ckpt.pt";
    return "model.safetensors";
}

/* Reads the architecture from folder/config.json, or from the file of GGUF or nanoGPT. */
static inline ss_arch arch_of(const char *folder, const opened_file *weights) {
    ss_error err;
    ss_arch arch;
    if (weights->container.format == SS_GGUF) {
        must(ss_arch_read_gguf(&arch, weights->bytes, &err), &err, folder);
        return arch;
    }
    if (!has_file(folder, "config.json")) {
        ss_arena arena = arena_of(ss_container_size(&weights->bytes, 1));
        must(ss_arch_read_nanogpt(&arch, weights->bytes, &arena, &err), &err, folder);
        free(arena.block);
        return arch;
    }
    ss_bytes config = read_file(folder, "config.json");
    must(ss_arch_read(&arch, config, &err), &err, folder);
    free((void *)(size_t)config.data);
    return arch;
}

/* Opens weights.bytes under an architecture; close_model frees the memory, even after an error. */
static inline ss_status try_model(opened_model *opened, const ss_arch *arch, ss_error *err) {
    size_t bytes;
    opened_file *weights = &opened->weights;
    ss_status status = weights->arena.block ? SS_OK : open_bytes(weights, err);
    if (status == SS_OK) status = ss_model_size(&bytes, arch, &weights->container, err);
    if (status != SS_OK) return status;
    opened->arena = arena_of(bytes);
    status = ss_model_open(&opened->model, arch, &weights->container, &opened->arena, err);
    if (status == SS_OK && opened->arena.used != bytes) exit(2); /* the measured size is exact */
    return status;
}

/* Tries to open weights, which the caller owns, under a config. */
static inline ss_status try_open(ss_bytes config, ss_bytes weights, ss_error *err) {
    ss_arch arch;
    opened_model opened = {.weights.bytes = weights};
    ss_status status = ss_arch_read(&arch, config, err);
    if (status == SS_OK) status = try_model(&opened, &arch, err);
    free(opened.weights.arena.block);
    free(opened.arena.block);
    return status;
}

static inline opened_model open_model(const char *folder) {
    ss_error err;
    opened_model opened = {.weights = open_file(folder, weights_name(folder))};
    ss_arch arch = arch_of(folder, &opened.weights);
    must(try_model(&opened, &arch, &err), &err, folder);
    return opened;
}

static inline void close_model(opened_model *opened) {
    close_file(&opened->weights);
    free(opened->arena.block);
}

typedef struct opened_run {
    ss_arena arena;
    ss_run run;
} opened_run;

static inline opened_run open_run(const ss_run_desc *desc) {
    ss_error err;
    size_t bytes;
    must(ss_run_size(&bytes, desc, &err), &err, "run size");
    opened_run opened = {.arena = arena_of(bytes)};
    must(ss_run_init(&opened.run, desc, &opened.arena, &err), &err, "run init");
    return opened;
}

static inline ss_status try_run(const ss_run_desc *desc, ss_error *err) {
    size_t bytes;
    ss_run run;
    ss_status status = ss_run_size(&bytes, desc, err);
    if (status != SS_OK) return status;
    ss_arena arena = arena_of(bytes);
    status = ss_run_init(&run, desc, &arena, err);
    free(arena.block);
    return status;
}

static inline void close_run(opened_run *opened) {
    free(opened->arena.block);
}

static inline void extend_run(opened_run *opened, const int32_t *tokens, int n) {
    ss_error err;
    must(ss_run_extend(&opened->run, tokens, n, &err), &err, "extend");
}

static inline void change_text(opened_run *opened, const int32_t *tokens, int n) {
    ss_error err;
    must(ss_run_update(&opened->run, tokens, n, &err), &err, "update");
}

/* Opens a run and reads tokens[n]. */
static inline opened_run start_run(const ss_run_desc *desc, const int32_t *tokens, int n) {
    opened_run opened = open_run(desc);
    extend_run(&opened, tokens, n);
    return opened;
}

/* Runs tokens[n], recording all fields, with capacity n. */
static inline opened_run run_tokens(const ss_model *model, const int32_t *tokens, int n,
                                    const ss_edit *edits, int edits_n) {
    ss_run_desc desc = {model, n, SS_FIELDS_ALL, edits, edits_n, NULL, 0, NULL, 0};
    return start_run(&desc, tokens, n);
}

static inline int metric_index(const char *name) {
    int n;
    const ss_metric *rows = ss_metrics(&n);
    for (int i = 0; i < n; i++)
        if (!strcmp(rows[i].name, name)) return i;
    printf("no metric %s\n", name);
    exit(2);
}

/* Measures a metric with the given arguments; the caller frees the numbers. */
static inline float *measure_args(const ss_trace *trace, const char *name, ss_metric_args args,
                                  size_t *count) {
    size_t dims[SS_RANK_MAX], total = 1;
    ss_error err;
    int index = metric_index(name), rank = ss_metric_shape(dims, trace, index, &args, &err);
    must(rank < 0 ? err.code : SS_OK, &err, name);
    for (int i = 0; i < rank; i++) total *= dims[i];
    float *out = malloc((total ? total : 1) * sizeof *out);
    if (!out) exit(2);
    ss_metric_measure(trace, index, &args, out);
    if (count) *count = total;
    return out;
}

/* Measures a metric of all tokens (T = 0) or the first T. */
static inline float *measure(const ss_trace *trace, const char *name, float eps, int T, int layer,
                             int head, size_t *count) {
    return measure_args(trace, name, (ss_metric_args){eps, T ? T : trace->T, layer, head, NULL},
                        count);
}

#endif
