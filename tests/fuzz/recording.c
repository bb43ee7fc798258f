/*
 * Fuzzes recordings: opens one, makes the traces of its kept prompts, and computes every metric
 * that these allow. An input that begins with '{' is a header without its length, as for
 * safetensors; one that begins with '[' is a list of conditions, which the fuzzer combines with the
 * seed's tensors.
 */
#include "../native/recordings.h"
#include "target.h"

#define NUMBERS_MAX 65536

static void measure_all(const ss_trace *trace) {
    int n;
    ss_metrics(&n);
    ss_metric_args args = {0.3f, trace->T, 0, 0, NULL};
    for (int i = 0; i < n; i++) {
        size_t dims[SS_RANK_MAX], count = 1;
        ss_error err;
        int rank = ss_metric_shape(dims, trace, i, &args, &err);
        if (rank < 0) {
            check(err.code, &err);
            continue;
        }
        bool fits = true;
        for (int d = 0; d < rank; d++) fits &= ss_mul_size(&count, count, dims[d]);
        if (!fits || count > NUMBERS_MAX) continue;
        float *out = malloc(count * sizeof *out + 1);
        if (!out) abort();
        ss_metric_measure(trace, i, &args, out);
        free(out);
    }
}

static void try_prompt(const ss_recording *recording, int prompt) {
    ss_error err;
    size_t bytes;
    ss_status status = ss_recording_trace_size(&bytes, recording, prompt, &err);
    check(status, &err);
    if (status != SS_OK || bytes > 1 << 26) return;
    ss_arena arena = fuzz_arena(bytes);
    ss_trace trace;
    if (ss_recording_trace(&trace, recording, prompt, &arena, &err) != SS_OK) abort();
    if (arena.used != bytes) abort();
    ss_tensor view;
    for (int field = 0; field < SS_FIELD_N; field++)
        check(ss_trace_view(&view, &trace, field, -1, -1, &err), &err);
    measure_all(&trace);
    free(arena.block);
}

static void try_recording(ss_bytes file) {
    size_t bytes = ss_recording_size(file);
    if (bytes > 2 * ARENA_BYTES(file.n)) abort();
    ss_arena arena = fuzz_arena(bytes);
    ss_recording recording;
    ss_error err;
    ss_status status = ss_recording_open(&recording, file, &arena, &err);
    check(status, &err);
    for (int i = 0; status == SS_OK && i < recording.kept_n && i < 4; i++)
        try_prompt(&recording, i);
    free(arena.block);
}

static void fuzz_with_conditions(const uint8_t *data, size_t size) {
    static const float numbers[8] = {1, 0, 0.5f, 0.5f, 1, 0, 0.25f, 0.75f};
    char *text = calloc(1, size + 1);
    if (!text) abort();
    memcpy(text, data, size);
    recording_writer w = begin_recording("1", text);
    add_claimed(&w, "0.att", "F32", "[1,2,2,2]", numbers, sizeof numbers);
    add_claimed(&w, "0.v", "F32", "[1,1,2,1]", numbers, 2 * sizeof *numbers);
    add_claimed(&w, "mean.alpha", "F32", "[1,2,2]", numbers, 4 * sizeof *numbers);
    ss_bytes file = end_recording(&w, 0);
    try_recording(file);
    free((void *)(uintptr_t)file.data);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size && data[0] == '[') {
        fuzz_with_conditions(data + 1, size - 1);
    } else if (size && data[0] == '{') {
        recording_writer w = {0};
        char *text = calloc(1, size + 1);
        if (!text) abort();
        memcpy(text, data, size);
        add_header(&w, text);
        static const unsigned char zeros[1024];
        w.data = append_bytes(w.data, &w.data_n, zeros, sizeof zeros);
        if (w.header_n && w.header[w.header_n - 1] == '}') w.header[--w.header_n] = 0;
        ss_bytes file = end_recording(&w, 0);
        try_recording(file);
        free((void *)(uintptr_t)file.data);
        free(text);
    } else {
        try_recording((ss_bytes){data, size});
    }
    return 0;
}
