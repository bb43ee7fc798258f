/* Functions that compare the traces of runs and make edits, for tests. */
#ifndef SS_TEST_TRACES_H
#define SS_TEST_TRACES_H

#include "check.h"
#include "edits.h"

#include <math.h>

static inline float *writable(const float *numbers) {
    return (float *)(size_t)numbers;
}

static inline const float *att_row(const ss_trace *trace, int l, int h, int t) {
    size_t C = (size_t)trace->capacity, H = (size_t)trace->model->arch.H;
    return ss_floats(trace, SS_FIELD_ATT) + (((size_t)l * H + (size_t)h) * C + (size_t)t) * C;
}

static inline ss_edit swap_to(const char *operation, float parameter) {
    ss_edit edit = default_edit("operation");
    set_value(&edit, "operation", operation);
    edit.values[3] = parameter; /* the first parameter of the operation */
    return edit;
}

static inline ss_edit mask_to(int first, int recent) {
    char text[64];
    snprintf(text, sizeof text, "mask(first=%d,recent=%d)", first, recent);
    return read_edit(text);
}

/* Compares rows t < T of a field of two runs of any capacity, or a whole field without tokens. */
static inline bool have_same_rows(const ss_trace *a, const ss_trace *b, int field, int T) {
    ss_tensor x, y;
    ss_error err;
    must(ss_trace_view(&x, a, field, -1, -1, &err), &err, "view");
    must(ss_trace_view(&y, b, field, -1, -1, &err), &err, "view");
    const char *const *shape = ss_fields()[field].shape;
    int time = 0;
    while (shape[time] && *shape[time] != 'T') time++;
    size_t outer = 1, inner = 1;
    if (!shape[time]) return !memcmp(x.data, y.data, ss_tensor_count(&x) * sizeof(float));
    for (int i = 0; i < time; i++) outer *= x.dims[i];
    if (shape[time + 1]) inner = *shape[time + 1] == 'T' ? (size_t)T : x.dims[time + 1];
    size_t step_x = time ? x.strides[time - 1] : 0, step_y = time ? y.strides[time - 1] : 0;
    bool are_same = true;
    for (size_t o = 0; o < outer; o++)
        for (size_t t = 0; t < (size_t)T; t++)
            are_same &= !memcmp((const float *)x.data + o * step_x + t * x.strides[time],
                                (const float *)y.data + o * step_y + t * y.strides[time],
                                inner * sizeof(float));
    return are_same;
}

/* Compares rows t < T of every field that the first run recorded. */
static inline void check_same(const ss_trace *a, const ss_trace *b, int T) {
    for (int field = 0; field < SS_FIELD_N; field++) {
        if (field == SS_FIELD_NEXT) continue; /* belongs to the last token, which may differ */
        if (!(a->fields & SS_BIT(field))) continue;
        if (check_failed(have_same_rows(a, b, field, T), __FILE__, __LINE__, "the same bits"))
            printf("    field %s\n", ss_fields()[field].name);
    }
}

/* Compares two runs of the same T tokens, including the logits after the last one. */
static inline void check_runs(const ss_trace *a, const ss_trace *b, int T) {
    check_same(a, b, T);
    if (a->fields & SS_BIT(SS_FIELD_NEXT))
        CHECK_BITS(ss_floats(a, SS_FIELD_NEXT), ss_floats(b, SS_FIELD_NEXT),
                   (size_t)a->model->arch.V * sizeof(float));
}

/* Runs the tokens again, `piece` at a time, and checks that the bits are the same. */
static inline void check_steps(const ss_trace *reference, const int32_t *tokens, int T, int piece) {
    ss_run_desc desc = {reference->model, T, SS_FIELDS_ALL, NULL, 0, NULL, 0, NULL, 0};
    scoped_run steps = open_run(&desc);
    for (int t = 0; t < T; t += piece) {
        int n = T - t < piece ? T - t : piece;
        extend_run(&steps, tokens + t, n);
    }
    check_runs(reference, &steps.run.trace, T);
}

static inline uint32_t next_random(uint32_t *state) {
    return *state = *state * 1664525u + 1013904223u;
}

/* Checks that an updated run equals a new run of these tokens, or that both are refused. */
static inline void check_updated(const opened_run *run, ss_status status, const ss_run_desc *desc,
                                 const int32_t *tokens, int T) {
    ss_error err;
    scoped_run new_run = open_run(desc);
    CHECK_INT((int)status, (int)ss_run_extend(&new_run.run, tokens, T, &err));
    if (status == SS_OK) {
        CHECK_INT(run->run.trace.T, T);
        check_runs(&new_run.run.trace, &run->run.trace, T);
    }
}

/* Updates a run while a text is typed, shortened and changed anywhere. */
static inline void check_updates(opened_run *run, const ss_run_desc *desc, const int32_t *tokens,
                                 int T, int times) {
    ss_error err;
    ss_run_desc new_desc = *desc;
    new_desc.from = NULL;
    uint32_t state = 7;
    int32_t text[128];
    CHECK(T <= 128);
    for (int i = 0; i < T; i++) text[i] = tokens[i];
    for (int i = 0; i < times; i++) {
        int n = 1 + (int)(next_random(&state) >> 8) % T;
        int place = (int)(next_random(&state) >> 8) % n;
        if (i % 3 == 2 && n <= run->run.trace.T)
            for (int t = 0; t < n; t++) text[t] = ss_tokens(&run->run.trace)[t];
        else
            text[place] = tokens[(next_random(&state) >> 8) % (uint32_t)T];
        ss_status status = ss_run_update(&run->run, text, n, &err);
        check_updated(run, status, &new_desc, text, n);
    }
}

/* Checks oracle 9: a bias on the values of layer 0 changes the layer's output but not its maps. */
static inline void check_value_bias(const ss_model *model, const float *biases, size_t n,
                                    const int32_t *tokens, int T) {
    scoped_run baseline = run_tokens(model, tokens, T, NULL, 0);
    for (size_t i = 0; i < n; i++) writable(biases)[i] += 3;
    scoped_run biased_run = run_tokens(model, tokens, T, NULL, 0);
    size_t maps = (size_t)(model->arch.H * T * T);
    CHECK_BITS(ss_floats(&baseline.run.trace, SS_FIELD_ATT),
               ss_floats(&biased_run.run.trace, SS_FIELD_ATT), maps * sizeof(float));
    CHECK(memcmp(ss_floats(&baseline.run.trace, SS_FIELD_ATT_OUT),
                 ss_floats(&biased_run.run.trace, SS_FIELD_ATT_OUT), sizeof(float)) != 0);
}

#endif
