/* 8-bit products: conversion of rows, products against their definition, whole models, and what
 * is refused. */
#include "check.h"
#include "edits.h"
#include "files.h"
#include "math/int8.h"

#include <math.h>

enum { IN = 75, OUT = 21, ROWS = 7, QUADS = (IN + 3) / 4, LANES_N = 24 };

static float random_float(uint32_t *seed) {
    *seed = *seed * 1664525u + 1013904223u;
    return (float)(int32_t)*seed * 0x1p-31f;
}

static void check_row(const float *x, size_t n) {
    uint8_t numbers[QUADS * 4];
    float scale;
    int32_t zero;
    const ss_rows8 rows = {.numbers = numbers, .scales = &scale, .zeros = &zero};
    memset(numbers, 0xee, sizeof numbers);
    ss_int8_rows(&rows, x, 1, n);
    CHECK(zero >= 0 && zero <= 127);
    for (size_t k = 0; k < n; k++) {
        float restored = scale * (float)(numbers[k] - zero);
        CHECK(numbers[k] <= 127);
        /* At the ends of the range, the rounding of the zero point adds to that of the number. */
        CHECK_NEAR(restored, x[k], (double)scale * 1.0001 + 1e-30);
        if (x[k] == 0.0f) CHECK(restored == 0.0f);
    }
    for (size_t k = n; k < (n + 3) / 4 * 4; k++) CHECK(numbers[k] == 0);
}

static void check_rows(void) {
    float x[IN];
    uint32_t seed = 5;
    CASE("a converted row is within one step of every number, and zero is exact");
    for (int shift = 0; shift < 40; shift++) {
        for (size_t k = 0; k < IN; k++)
            x[k] = k % 9 == 4 ? 0.0f : random_float(&seed) * 4.0f + 0.2f * (float)(shift - 20);
        check_row(x, IN - (size_t)shift % 5);
    }
    CASE("rows of zeros, with one number, and of tiny numbers are converted within one step");
    memset(x, 0, sizeof x);
    check_row(x, IN);
    x[3] = -2.5f;
    check_row(x, IN);
    for (size_t k = 0; k < IN; k++) x[k] = 1e-38f;
    check_row(x, IN);
    CASE("a NaN or an infinity makes the whole converted row NaN");
    static const float not_finite[] = {INFINITY, -INFINITY, NAN};
    for (size_t i = 0; i < 3; i++) {
        uint8_t numbers[QUADS * 4];
        float scale = 1.0f;
        int32_t zero = -1;
        x[IN - 1 - 8 * i] = not_finite[i];
        ss_int8_rows(&(ss_rows8){.numbers = numbers, .scales = &scale, .zeros = &zero}, x, 1, IN);
        CHECK(isnan(scale));
        CHECK(zero == 0);
        x[IN - 1 - 8 * i] = 0.0f;
    }
}

typedef struct held_matrix {
    int8_t panels[LANES_N * QUADS * 4];
    float scales[LANES_N];
    int32_t sums[LANES_N];
    ss_int8 int8;
} held_matrix;

static int8_t weight_of(const held_matrix *h, size_t n, size_t k) {
    return h->panels[(n / 8 * QUADS + k / 4) * 32 + n % 8 * 4 + k % 4];
}

static void hold_matrix(held_matrix *h, ss_matrix *w) {
    float *work = malloc(ss_matrix_work(ROWS, IN, 1) * sizeof *work);
    if (!work) abort();
    h->int8 = (ss_int8){h->panels, h->scales, h->sums};
    ss_matrix_quantize(&h->int8, w, work);
    w->int8 = &h->int8;
    free(work);
}

static void check_product(const ss_matrix *w, const held_matrix *h, const float *bias) {
    static float a[ROWS * IN], out[ROWS * OUT];
    uint8_t numbers[ROWS * QUADS * 4];
    float scales[ROWS], *work = malloc(ss_matrix_work(ROWS, IN, 1) * sizeof *work);
    int32_t zeros[ROWS];
    const ss_rows8 rows = {.numbers = numbers, .scales = scales, .zeros = zeros};
    uint32_t seed = 11;
    if (!work) abort();
    for (size_t i = 0; i < ROWS * IN; i++) a[i] = random_float(&seed) * (float)(1 + i / IN);
    ss_int8_rows(&rows, a, ROWS, IN);
    for (size_t T = 1; T <= ROWS; T++) {
        ss_matrix_times(out, a, w, bias, T, work, NULL);
        for (size_t t = 0; t < T; t++)
            for (size_t n = 0; n < w->out; n++) {
                double sum = 0;
                for (size_t k = 0; k < IN; k++)
                    sum += (numbers[t * QUADS * 4 + k] - zeros[t]) * (double)weight_of(h, n, k);
                sum *= (double)scales[t] * (double)h->scales[n];
                CHECK_NEAR(out[t * w->out + n], sum + (bias ? (double)bias[n] : 0.0), 1e-5);
            }
    }
    free(work);
}

static void check_matrix(bool in_out) {
    static float numbers[IN * (OUT + 3)], bias[OUT], row[IN];
    static held_matrix h;
    uint32_t seed = 3;
    for (size_t i = 0; i < IN * (OUT + 3); i++) numbers[i] = random_float(&seed) * 0.3f;
    for (size_t n = 0; n < OUT; n++) bias[n] = (float)n - 4.0f;
    ss_matrix w = {.data = (const unsigned char *)numbers,
                   .type = SS_F32,
                   .in = IN,
                   .out = OUT,
                   .total = OUT + 3,
                   .first = 2,
                   .group = OUT,
                   .step = OUT,
                   .in_out = in_out};
    CASE(in_out ? "weights by input" : "weights by output");
    hold_matrix(&h, &w);
    for (size_t n = 0; n < OUT; n++) {
        float top = 0.0f;
        int32_t sum = 0;
        ss_matrix_unpack_output(row, &w, n);
        for (size_t k = 0; k < IN; k++) top = fmaxf(top, fabsf(row[k]));
        CHECK_NEAR(h.scales[n], top / 127.0f, 1e-9);
        for (size_t k = 0; k < IN; k++) {
            CHECK_NEAR(h.scales[n] * (float)weight_of(&h, n, k), row[k],
                       (double)h.scales[n] * 0.50001);
            sum += weight_of(&h, n, k);
        }
        CHECK(sum == h.sums[n]);
    }
    for (size_t n = OUT; n < LANES_N; n++)
        for (size_t k = 0; k < QUADS * 4; k++) CHECK(weight_of(&h, n, k) == 0);
    check_product(&w, &h, NULL);
    check_product(&w, &h, bias);
}

static void check_whole_numbers(void) {
    static int8_t numbers[IN * OUT];
    static float scales[OUT];
    static held_matrix h;
    CASE("products in eight bits use the integers and scales of an I8 matrix unchanged");
    for (size_t i = 0; i < IN * OUT; i++) numbers[i] = (int8_t)((int)(i * 37 % 256) - 128);
    for (size_t n = 0; n < OUT; n++) scales[n] = 0.0123f / (float)(n + 1);
    ss_matrix w = {.data = (const unsigned char *)numbers,
                   .type = SS_I8,
                   .scales = scales,
                   .in = IN,
                   .out = OUT,
                   .total = OUT,
                   .group = OUT,
                   .step = OUT};
    hold_matrix(&h, &w);
    for (size_t n = 0; n < OUT; n++) {
        CHECK(h.scales[n] == scales[n]);
        for (size_t k = 0; k < IN; k++) CHECK(weight_of(&h, n, k) == numbers[n * IN + k]);
    }
    check_product(&w, &h, NULL);
}

static void check_refused(const ss_model *model, const char *text) {
    ss_edit edit = read_edit(text);
    const ss_run_desc desc = {.model = model, .capacity = 8, .edits = &edit, .edits_n = 1};
    ss_error err;
    CASE(text);
    CHECK(try_run(&desc, &err) == SS_UNSUPPORTED);
    CHECK(strstr(err.text, "exact arithmetic") != NULL);
}

static void check_model(const char *folder) {
    opened_model model = open_model(folder);
    int32_t tokens[16];
    ss_error err;
    CASE(folder);
    for (int t = 0; t < 16; t++) tokens[t] = (t * 31 + 7) % model.model.arch.V;
    opened_run exact_run = run_tokens(&model.model, tokens, 16, NULL, 0);
    void *panels = keep_int8(&model.model);
    opened_run reference = run_tokens(&model.model, tokens, 16, NULL, 0);
    opened_run stepped_run = open_run(
        &(ss_run_desc){.model = &model.model, .capacity = 16, .fields = SS_BIT(SS_FIELD_LOGITS)});
    size_t V = (size_t)model.model.arch.V;
    const float *exact_logits = ss_floats(&exact_run.run.trace, SS_FIELD_LOGITS);
    const float *int8_logits = ss_floats(&reference.run.trace, SS_FIELD_LOGITS);
    float worst = 0.0f, largest = 0.0f;
    for (size_t i = 0; i < 16 * V; i++) {
        worst = fmaxf(worst, fabsf(exact_logits[i] - int8_logits[i]));
        largest = fmaxf(largest, fabsf(exact_logits[i]));
    }
    printf("  logits off by %.3f of at most %.3f\n", (double)worst, (double)largest);
    CHECK(worst > 0.0f && worst < 0.1f * largest);
    must(ss_run_extend(&stepped_run.run, tokens, 5, &err), &err, "run");
    for (int t = 5; t < 16; t++)
        must(ss_run_extend(&stepped_run.run, tokens + t, 1, &err), &err, "run");
    CHECK_BITS(ss_floats(&stepped_run.run.trace, SS_FIELD_LOGITS), int8_logits,
               16 * V * sizeof *int8_logits);
    check_refused(&model.model, "quantize:what=weights,bits=4,by=tensor");
    check_refused(&model.model, "scale_weight:matrix=down,layer=0,row=1,column=2,factor=9");
    close_run(&exact_run), close_run(&reference), close_run(&stepped_run);
    free(panels);
    close_model(&model);
}

/* Checks that routers stay in floats, since rounding could select another expert. */
static void check_exact_routers(void) {
    opened_model model = open_model("tests/golden/hf-qwen2_moe");
    void *panels = keep_int8(&model.model);
    CASE("routers and the gates of shared experts stay exact");
    CHECK(model.model.head.w.int8 != NULL);
    CHECK(model.model.embedding.w.int8 == NULL);
    for (int l = 0; l < model.model.arch.L; l++) {
        const ss_layer *layer = &model.model.layers[l];
        CHECK(layer->q.w.int8 != NULL && layer->o.w.int8 != NULL);
        for (int e = 0; layer->experts && e < model.model.arch.E; e++)
            CHECK(layer->experts[e].down.w.int8 != NULL);
        CHECK(layer->router.w.int8 == NULL && layer->shared_gate.w.int8 == NULL);
    }
    CHECK(model.model.layers[0].router.w.data != NULL);
    free(panels);
    close_model(&model);
}

int main(void) {
    check_rows();
    check_matrix(false);
    check_matrix(true);
    check_whole_numbers();
    check_exact_routers();
    check_model("models/zoo/softmax");
    check_model("tests/golden/hf-gpt2-plain");
    return check_done();
}
