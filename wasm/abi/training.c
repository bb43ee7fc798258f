/* Functions of the lab, which only the binaries with a trainer export. */
#include "bindings.h"

#include <stdlib.h>

typedef struct wasm_train {
    void *block;
    unsigned char *state; /* the last state that was read, or NULL */
    float numbers[32];
    ss_arch arch;
    ss_recipe recipe;
    ss_train train;
} wasm_train;

/* Frees a training run, but not the text. */
void ss_wasm_train_end(wasm_train *train) {
    if (train) free(train->block);
    if (train) free(train->state);
    free(train);
}

static ss_status begin_training(wasm_train *train, ss_train_desc *desc, const wasm_file *begin) {
    size_t bytes;
    ss_status status = ss_train_size(&bytes, desc, &wasm_error);
    if (status != SS_OK) return status;
    ss_arena arena = wasm_reserve_arena(&train->block, bytes);
    if (!train->block) return SS_NO_MEMORY;
    if (!begin) return ss_train_init(&train->train, desc, &arena, &wasm_error);
    ss_bytes file = {(const unsigned char *)(uintptr_t)begin->address, begin->bytes};
    void *block;
    ss_arena entries = wasm_reserve_arena(&block, ss_container_size(&file, 1));
    if (!block) return SS_NO_MEMORY;
    ss_container container;
    desc->begin = &container;
    status = ss_container_open(&container, &file, 1, &entries, &wasm_error);
    if (status == SS_OK) status = ss_train_init(&train->train, desc, &arena, &wasm_error);
    free(block);
    return status;
}

/* Begins a training run and returns its handle, or NULL. config and recipe are JSON;
 * tokens[tokens_n], or NULL, are the tokens of the task text and must stay valid; begin, or NULL,
 * is a file of initial weights, which may be freed afterwards. */
wasm_train *ss_wasm_train(const uint8_t *config, uint32_t config_bytes, const uint8_t *recipe,
                          uint32_t recipe_bytes, const int32_t *tokens, uint32_t tokens_n,
                          const wasm_file *begin) {
    wasm_train *train = wasm_new(sizeof *train);
    if (!train) return NULL;
    ss_train_desc desc = {&train->arch, &train->recipe, tokens, tokens_n, NULL};
    ss_status status = ss_arch_read(&train->arch, (ss_bytes){config, config_bytes}, &wasm_error);
    if (status == SS_OK)
        status = ss_recipe_read(&train->recipe, (ss_bytes){recipe, recipe_bytes}, &wasm_error);
    if (status == SS_OK) status = begin_training(train, &desc, begin);
    if (status == SS_OK) return train;
    ss_wasm_train_end(train);
    return NULL;
}

/* Computes a part of a step's batch (only the forward pass if with_gradients is 0) and makes a view
 * of the part's sums. Until the next part, the caller may overwrite this memory with the sums of
 * another worker. Returns a status. */
int ss_wasm_train_part(wasm_train *train, int part, int with_gradients, wasm_view *view) {
    ss_status status = ss_train_part(&train->train, part, with_gradients != 0, &wasm_error);
    if (status != SS_OK) return (int)status;
    return wasm_view_bytes(view, train->train.part, train->train.part_bytes);
}

/* Adds the sums of the last part to those of earlier parts (first 1: begins new totals) and makes a
 * view of the total. Returns a status. */
int ss_wasm_train_add(wasm_train *train, int first, wasm_view *view) {
    ss_train_add(&train->train, first != 0);
    return wasm_view_bytes(view, train->train.totals, train->train.part_bytes);
}

/* Finishes a step, or only measures it (update 0). Views its log entry; returns a status. */
int ss_wasm_train_finish(wasm_train *train, int update, wasm_view *view) {
    ss_log_entry entry;
    ss_status status = ss_train_finish(&train->train, update != 0, &entry, &wasm_error);
    if (status != SS_OK) return (int)status;
    int n;
    const ss_log_column *columns = ss_log_columns(&n);
    for (int i = 0; i < n; i++) train->numbers[i] = (float)*ss_log_number(&entry, &columns[i]);
    size_t dims[SS_RANK_MAX] = {(size_t)n};
    ss_tensor tensor = wasm_dense(dims, 1);
    tensor.data = train->numbers;
    return wasm_view_tensor(view, &tensor);
}

/* Makes a view of the weights as the bytes of a safetensors file. */
int ss_wasm_train_weights(const wasm_train *train, wasm_view *view) {
    ss_bytes file = train->train.weights.file;
    return wasm_view_bytes(view, file.data, file.n);
}

/* Makes a view of the state, from which a training run can continue with the same bits; the view is
 * valid until the next call. Returns a status. */
int ss_wasm_train_state(wasm_train *train, wasm_view *view) {
    size_t bytes = ss_train_state_bytes(&train->train);
    free(train->state);
    train->state = malloc(bytes);
    if (!train->state)
        return (int)ss_fail(&wasm_error, SS_NO_MEMORY, "memory", "no room for a state of %lu bytes",
                            (unsigned long)bytes);
    ss_train_state(&train->train, train->state);
    return wasm_view_bytes(view, train->state, bytes);
}

/* Resumes from a state that ss_wasm_train_state gave, and returns a status. */
int ss_wasm_train_resume(wasm_train *train, const uint8_t *state, uint32_t bytes) {
    return (int)ss_train_resume(&train->train, (ss_bytes){state, bytes}, &wasm_error);
}

/* Makes a view of tokens that no step trains on. Returns a status. */
int ss_wasm_train_sample(wasm_train *train, uint32_t number, wasm_view *view) {
    size_t dims[SS_RANK_MAX] = {(size_t)train->train.T};
    ss_tensor tensor = wasm_dense(dims, 1);
    tensor.type = SS_I32;
    tensor.data = ss_train_sample(&train->train, number);
    return wasm_view_tensor(view, &tensor);
}
