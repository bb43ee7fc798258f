/* Recordings for JavaScript: a handle owns the block of the file, tensors are read by name, and a
 * kept prompt is read like a run. */
#include "bindings.h"

#include "../../core/math/unpack.h"

#include <stdlib.h>

typedef struct wasm_recording {
    void *block;
    ss_bytes file;
    float *numbers;
    ss_recording recording;
} wasm_recording;

static void free_recording(wasm_recording *recording) {
    if (recording) free(recording->block);
    if (recording) free(recording->numbers);
    free(recording);
}

/* Closes a recording; the caller must have closed its prompts. */
void ss_wasm_recording_close(wasm_recording *recording) {
    if (recording) free((void *)(uintptr_t)recording->file.data);
    free_recording(recording);
}

wasm_recording *ss_wasm_recording_open(const uint8_t *file, uint32_t bytes) {
    wasm_recording *handle = wasm_new(sizeof *handle);
    if (!handle) return NULL;
    handle->file = (ss_bytes){file, bytes};
    ss_arena arena = wasm_reserve_arena(&handle->block, ss_recording_size(handle->file));
    if (handle->block &&
        ss_recording_open(&handle->recording, handle->file, &arena, &wasm_error) == SS_OK)
        return handle;
    free_recording(handle);
    return NULL;
}

/* Makes a view of the tensor of that name (UTF-8, NUL-ended) as floats or ids; first or second -1
 * keeps that dimension. The numbers of the view live until the recording's next tensor. Returns a
 * status. */
int ss_wasm_recording_tensor(wasm_recording *recording, const char *name, int first, int second,
                             wasm_view *view) {
    ss_tensor tensor;
    ss_status status =
        ss_recording_tensor(&tensor, &recording->recording, name, first, second, &wasm_error);
    if (status != SS_OK) return (int)status;
    size_t n = ss_tensor_count(&tensor), bytes;
    float *numbers = NULL;
    if (ss_mul_size(&bytes, n ? n : 1, sizeof *numbers))
        numbers = realloc(recording->numbers, bytes);
    if (!numbers)
        return (int)ss_fail(&wasm_error, SS_NO_MEMORY, name, "expected room for %lu numbers",
                            (unsigned long)n);
    recording->numbers = numbers;
    if (tensor.type == SS_I32)
        memcpy(numbers, tensor.data, n * sizeof *numbers);
    else
        ss_unpack(numbers, tensor.data, tensor.type, n);
    tensor.data = numbers;
    return wasm_view_tensor(view, &tensor);
}

/* Returns a kept prompt as a run for ss_wasm_field, ss_wasm_metric and ss_wasm_close_run; NULL with
 * the error. The recording must stay open. */
wasm_run *ss_wasm_recording_prompt(const wasm_recording *recording, int prompt) {
    size_t bytes;
    if (ss_recording_trace_size(&bytes, &recording->recording, prompt, &wasm_error) != SS_OK)
        return NULL;
    wasm_run *run = wasm_new(sizeof *run);
    if (!run) return NULL;
    ss_arena arena = wasm_reserve_arena(&run->block, bytes);
    if (run->block && ss_recording_trace(&run->run.trace, &recording->recording, prompt, &arena,
                                         &wasm_error) == SS_OK)
        return run;
    ss_wasm_close_run(run);
    return NULL;
}
