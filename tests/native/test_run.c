/*
 * Runs: properties of every model, tested on tiny ones. Numbers in names are the oracles of section
 * 6 of the specification. The tiny models are those of tests/golden; where an oracle needs special
 * weights, the weights of the opened file are overwritten.
 */
#include "check.h"
#include "files.h"
#include "run/sample.h"
#include "traces.h"

#include <math.h>

#define LLAMA "tests/golden/hf-llama-gqa"
#define GPT2 "tests/golden/hf-gpt2-plain"
#define T_MAX 13

static const int32_t prompt[T_MAX] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9};

/* Sets all weights of a matrix; the tiny models are F32, so the model reads them from the bytes of
 * the file. */
static void fill_matrix(const ss_linear *linear, float value) {
    const ss_matrix *w = &linear->w;
    CHECK_INT((int)w->type, SS_F32);
    for (size_t n = 0; n < w->out; n++)
        for (size_t k = 0; k < w->in; k++) {
            size_t o = ss_matrix_place(w, n), i = w->in_out ? k * w->total + o : o * w->in + k;
            memcpy((unsigned char *)(size_t)w->data + 4 * i, &value, sizeof value);
        }
}

static size_t heads_of(const ss_trace *trace) {
    return (size_t)trace->model->arch.L * (size_t)trace->model->arch.H;
}

static void check_recorded_fields(void) {
    CASE("recording fewer fields does not change the recorded ones");
    scoped_model model = open_model(LLAMA);
    scoped_run full_run = run_tokens(&model.model, prompt, T_MAX, NULL, 0);
    ss_error err;
    for (int field = 0; field < SS_FIELD_N; field++) {
        if (!(ss_fields_of(&model.model.arch) & SS_BIT(field))) continue;
        ss_run_desc desc = {&model.model, T_MAX, SS_BIT(field), NULL, 0, NULL, 0, NULL, 0};
        scoped_run field_run = open_run(&desc);
        CHECK_INT(field_run.arena.used == field_run.arena.bytes, 1);
        extend_run(&field_run, prompt, T_MAX);
        ss_tensor a, b;
        must(ss_trace_view(&a, &full_run.run.trace, field, -1, -1, &err), &err, "view");
        must(ss_trace_view(&b, &field_run.run.trace, field, -1, -1, &err), &err, "view");
        CHECK_BITS(a.data, b.data, ss_tensor_count(&a) * 4);
        int absent_field = field == SS_FIELD_ATT ? SS_FIELD_HIDDEN : SS_FIELD_ATT;
        CHECK_INT((int)ss_trace_view(&a, &field_run.run.trace, absent_field, -1, -1, &err),
                  SS_BAD_REQUEST);
    }
}

static void check_uniform_attention(void) {
    CASE("1. zero queries give uniform maps, alpha_k in closed form, and no sink");
    scoped_model model = open_model(LLAMA);
    for (int l = 0; l < model.model.arch.L; l++) fill_matrix(&model.model.layers[l].q, 0);
    scoped_run run = run_tokens(&model.model, prompt, T_MAX, NULL, 0);
    const ss_trace *trace = &run.run.trace;
    scoped float *alpha = measure(trace, "alpha", 0.3f, 0, 0, 0, NULL);
    scoped float *uniform = measure(trace, "alpha_uniform", 0.3f, 0, 0, 0, NULL);
    for (size_t i = 0; i < heads_of(trace) * T_MAX; i++)
        CHECK_NEAR(alpha[i], uniform[i % T_MAX], 1e-6);
}

static void check_sums_of_alpha(void) {
    CASE("2. where rows sum to 1, sum (T-k+1) alpha_k = T, alpha_1 >= 1/T, and later keys have "
         "weight 0");
    scoped_model model = open_model(GPT2);
    const char *operations[] = {"softmax", "sigmoid_norm"};
    for (int o = 0; o < 2; o++) {
        ss_edit edit = swap_to(operations[o], NAN);
        scoped_run run = run_tokens(&model.model, prompt, T_MAX, &edit, 1);
        const ss_trace *trace = &run.run.trace;
        scoped float *alpha = measure(trace, "alpha", 0.3f, 0, 0, 0, NULL);
        for (size_t i = 0; i < heads_of(trace); i++) {
            double sum = 0;
            for (int k = 0; k < T_MAX; k++)
                sum += (T_MAX - k) * (double)alpha[i * T_MAX + (size_t)k];
            CHECK_NEAR(sum, T_MAX, 1e-5);
            CHECK(alpha[i * T_MAX] >= 1.0f / T_MAX - 1e-6f);
        }
        for (int t = 0; t < T_MAX; t++)
            for (int j = t + 1; j < T_MAX; j++) CHECK(att_row(trace, 1, 1, t)[j] == 0.0f);
    }
}

/* Copies the maps and masses of layer 0, whose scores no edit changes, from a run under one edit.
 */
static void copy_layer_0(float *att, float *mass, const ss_model *model, const ss_edit *edit) {
    scoped_run run = run_tokens(model, prompt, T_MAX, edit, 1);
    const ss_trace *trace = &run.run.trace;
    size_t n = (size_t)model->arch.H * T_MAX;
    memcpy(att, ss_floats(trace, SS_FIELD_ATT), n * T_MAX * sizeof *att);
    scoped float *row_mass = measure(trace, "row_mass", 0.3f, 0, 0, 0, NULL);
    memcpy(mass, row_mass, n * sizeof *mass);
}

static void check_sink_logits(void) {
    CASE("4. a sink logit of -30 gives softmax, 0 gives softmax1, and s scales softmax by "
         "sigmoid(LSE - s)");
    scoped_model model = open_model(LLAMA);
    enum { ROWS = 4 * T_MAX };
    static float softmax_maps[ROWS * T_MAX], softmax1_maps[ROWS * T_MAX], zero_maps[ROWS * T_MAX],
        maps_2[ROWS * T_MAX];
    static float low_maps[ROWS * T_MAX], mass[ROWS], mass_2[ROWS], unused_mass[ROWS];
    ss_edit edits[] = {swap_to("softmax", NAN), swap_to("softmax1", NAN), swap_to("sink_logit", 0),
                       swap_to("sink_logit", 2), swap_to("sink_logit", -30)};
    copy_layer_0(softmax_maps, unused_mass, &model.model, &edits[0]);
    copy_layer_0(softmax1_maps, mass, &model.model, &edits[1]);
    copy_layer_0(zero_maps, unused_mass, &model.model, &edits[2]);
    copy_layer_0(maps_2, mass_2, &model.model, &edits[3]);
    copy_layer_0(low_maps, unused_mass, &model.model, &edits[4]);
    CHECK_BITS(zero_maps, softmax1_maps, sizeof softmax1_maps);
    for (int i = 0; i < ROWS; i++) {
        /* Mass = sigmoid(LSE), so LSE = ln(mass / (1 - mass)), from which the mass of s = 2
         * follows. */
        double lse = log((double)mass[i] / (1 - (double)mass[i]));
        CHECK_NEAR(mass_2[i], 1 / (1 + exp(2 - lse)), 1e-5);
        for (int j = 0; j < T_MAX; j++) {
            CHECK_NEAR(softmax1_maps[i * T_MAX + j], mass[i] * softmax_maps[i * T_MAX + j], 1e-6);
            CHECK_NEAR(maps_2[i * T_MAX + j], mass_2[i] * softmax_maps[i * T_MAX + j], 1e-6);
            CHECK_NEAR(low_maps[i * T_MAX + j], softmax_maps[i * T_MAX + j], 1e-6);
        }
    }

    CASE("4. -infinity as sink logit gives the bits of softmax");
    int n;
    const ss_operation *table = ss_operations(&n);
    float a[] = {0.3f, -2, 5, 1}, b[] = {0.3f, -2, 5, 1}, parameters[] = {-INFINITY, 0};
    table[ss_operation_find("softmax")].normalize_row(a, 4, parameters);
    table[ss_operation_find("sink_logit")].normalize_row(b, 4, parameters);
    CHECK_BITS(a, b, sizeof a);
}

static void check_repeated_token(void) {
    CASE("5. a repeated token with rotary positions has the same hidden state everywhere, and no "
         "key is a sink");
    scoped_model model = open_model(LLAMA);
    int32_t tokens[T_MAX];
    for (int t = 0; t < T_MAX; t++) tokens[t] = 7;
    opened_run run = run_tokens(&model.model, tokens, T_MAX, NULL, 0);
    const ss_trace *trace = &run.run.trace;
    size_t D = (size_t)model.model.arch.D;
    for (int l = 0; l <= model.model.arch.L; l++)
        for (size_t t = 1; t < T_MAX; t++)
            for (size_t d = 0; d < D; d++) {
                const float *h = ss_floats(trace, SS_FIELD_HIDDEN) + (size_t)l * T_MAX * D;
                CHECK_NEAR(h[t * D + d], h[d], 2e-5 * (1 + fabs((double)h[d])));
            }

    CASE("7. rotary positions do not change norms, and q_t . k_j depends only on t - j");
    scoped float *dot = measure(trace, "qk_dot", 0.3f, 0, 0, 2, NULL);
    for (int t = 1; t < T_MAX; t++)
        for (int j = 1; j <= t; j++)
            CHECK_NEAR(dot[t * T_MAX + j], dot[(t - 1) * T_MAX + j - 1], 2e-4);
    scoped float *norm = measure(trace, "key_norm", 0.3f, 0, 0, 0, NULL);
    for (int t = 1; t < T_MAX; t++) CHECK_NEAR(norm[t], norm[0], 1e-5 * (double)norm[0]);

    CASE("5. weights obey the bound of proposition 4, A_ti <= e^(2 xi) / (e^(2 xi) + t - 1)");
    double xi = 0;
    for (int i = 0; i < T_MAX * T_MAX; i++)
        if (!isnan(dot[i]))
            xi = fmax(xi, fabs((double)dot[i] * (double)model.model.arch.score_scale));
    for (int t = 0; t < T_MAX; t++)
        for (int j = 0; j <= t; j++)
            CHECK((double)att_row(trace, 0, 2, t)[j] <= exp(2 * xi) / (exp(2 * xi) + t) + 1e-6);
    close_run(&run);

    CASE("5. without positions every row of a repeated token is uniform");
    size_t pairs = (size_t)model.model.arch.rotary_width / 2;
    for (size_t j = 0; j < pairs; j++) writable(model.model.rotary)[j] = 0;
    run = run_tokens(&model.model, tokens, T_MAX, NULL, 0);
    for (int t = 0; t < T_MAX; t++)
        for (int j = 0; j <= t; j++)
            CHECK_NEAR(att_row(&run.run.trace, 1, 3, t)[j], 1.0 / (t + 1), 1e-6);
    close_run(&run);
}

static void check_evicted_cache(void) {
    CASE("6. a Lambda mask in one pass equals a run token by token with the middle of the cache "
         "destroyed");
    scoped_model model = open_model(LLAMA);
    ss_edit edit = mask_to(2, 4);
    scoped_run reference = run_tokens(&model.model, prompt, T_MAX, &edit, 1);
    ss_run_desc desc = {&model.model, T_MAX, SS_FIELDS_ALL, &edit, 1, NULL, 0, NULL, 0};
    scoped_run steps = open_run(&desc);
    ss_trace *trace = &steps.run.trace;
    size_t K = (size_t)model.model.arch.K, groups = (size_t)model.model.arch.G;
    for (int t = 0; t < T_MAX; t++) {
        /* Key t-4 leaves the window of four, unless it is one of the first two. */
        for (size_t g = 0; t - 4 >= 2 && g < groups * (size_t)model.model.arch.L; g++)
            for (size_t i = 0; i < K; i++) {
                size_t place = (g * T_MAX + (size_t)(t - 4)) * K + i;
                writable(ss_floats(trace, SS_FIELD_K))[place] = 1e9f;
                writable(ss_floats(trace, SS_FIELD_V))[place] = -1e9f;
            }
        extend_run(&steps, prompt + t, 1);
    }
    size_t D = (size_t)model.model.arch.D, V = (size_t)model.model.arch.V;
    CHECK_BITS(ss_floats(&reference.run.trace, SS_FIELD_HIDDEN), ss_floats(trace, SS_FIELD_HIDDEN),
               ((size_t)model.model.arch.L + 1) * T_MAX * D * sizeof(float));
    CHECK_BITS(ss_floats(&reference.run.trace, SS_FIELD_LOGITS), ss_floats(trace, SS_FIELD_LOGITS),
               T_MAX * V * sizeof(float));
    CHECK(att_row(trace, 0, 0, 12)[1] > 0 && att_row(trace, 0, 0, 12)[2] == 0 &&
          att_row(trace, 0, 0, 12)[8] == 0 && att_row(trace, 0, 0, 12)[9] > 0);
    CHECK(trace->edited);

    CASE("a mask as wide as the text changes nothing");
    ss_edit wide_mask = mask_to(0, T_MAX);
    scoped_run baseline = run_tokens(&model.model, prompt, T_MAX, NULL, 0);
    scoped_run masked_run = run_tokens(&model.model, prompt, T_MAX, &wide_mask, 1);
    check_same(&baseline.run.trace, &masked_run.run.trace, T_MAX);
}

static void check_repeated_measurement(void) {
    CASE("a run that is truncated and extended by other tokens is measured again");
    static const int32_t other_tokens[T_MAX] = {8, 2, 7, 1, 8, 2, 8, 1, 8, 2, 8, 4, 5};
    scoped_model model = open_model(LLAMA);
    scoped_run reused_run = run_tokens(&model.model, prompt, T_MAX, NULL, 0);
    scoped_run new_run = run_tokens(&model.model, other_tokens, T_MAX, NULL, 0);
    size_t n;
    free(measure(&reused_run.run.trace, "alpha", 0.3f, 0, 0, 0, NULL));
    reused_run.run.trace.T = 0;
    extend_run(&reused_run, other_tokens, T_MAX);
    scoped float *a = measure(&reused_run.run.trace, "alpha", 0.3f, 0, 0, 0, &n);
    scoped float *b = measure(&new_run.run.trace, "alpha", 0.3f, 0, 0, 0, NULL);
    CHECK_BITS(a, b, n * sizeof *a);
}

static void check_biases(void) {
    CASE("9. a value bias does not change the layer's maps");
    scoped_model model = open_model(GPT2);
    const ss_linear *v = &model.model.layers[0].v;
    check_value_bias(&model.model, v->bias, v->w.out, prompt, T_MAX);

    CASE("9. a constant on all scores of a row changes softmax1 and sigmoid, but not softmax");
    const char *names[] = {"softmax", "softmax1", "sigmoid"};
    int n;
    const ss_operation *table = ss_operations(&n);
    for (int o = 0; o < 3; o++) {
        float a[] = {0.5f, -1, 2}, b[] = {2.5f, 1, 4}, parameters[] = {0, 0};
        table[ss_operation_find(names[o])].normalize_row(a, 3, parameters);
        table[ss_operation_find(names[o])].normalize_row(b, 3, parameters);
        double gap = fabs((double)a[2] - (double)b[2]);
        CHECK(o == 0 ? is_within(gap, 1e-7) : gap > 1e-2);
    }
}

static void check_bad_requests(void) {
    CASE("impossible requests give a code and leave the run unchanged");
    scoped_model model = open_model(LLAMA);
    ss_error err;
    size_t bytes;
    int context = model.model.arch.context, V = model.model.arch.V;
    ss_run_desc desc = {&model.model, context + 1, 0, NULL, 0, NULL, 0, NULL, 0};
    CHECK_INT((int)ss_run_size(&bytes, &desc, &err), SS_TOO_LONG);
    desc.capacity = 0;
    CHECK_INT((int)ss_run_size(&bytes, &desc, &err), SS_TOO_LONG);
    desc = (ss_run_desc){&model.model, 4, SS_FIELDS_ALL, NULL, 0, NULL, 0, NULL, 0};
    must(ss_run_size(&bytes, &desc, &err), &err, "size");
    ss_run run_without_memory;
    ss_arena small_arena = arena_of(bytes - 1);
    CHECK_INT((int)ss_run_init(&run_without_memory, &desc, &small_arena, &err), SS_NO_MEMORY);
    free(small_arena.block);

    scoped_run run = open_run(&desc);
    CHECK_INT(ss_run_sample(&run.run, 1, 0, 0), -1); /* without a token there are no logits */
    const int32_t outside[] = {1, 2, V}, negative[] = {-1};
    CHECK_INT((int)ss_run_extend(&run.run, outside, 3, &err), SS_BAD_TOKEN);
    CHECK(strcmp(err.where, "token 2") == 0);
    char text[64];
    snprintf(text, sizeof text, "0 to %d, found %d", V - 1, V);
    CHECK(strstr(err.text, text));
    CHECK_INT((int)ss_run_extend(&run.run, negative, 1, &err), SS_BAD_TOKEN);
    CHECK_INT((int)ss_run_extend(&run.run, prompt, 5, &err), SS_TOO_LONG);
    CHECK_INT(run.run.trace.T, 0);
    extend_run(&run, prompt, 4);
    CHECK_INT((int)ss_run_extend(&run.run, prompt, 1, &err), SS_TOO_LONG);
    ss_tensor view;
    CHECK_INT((int)ss_trace_view(&view, &run.run.trace, SS_FIELD_ATT, 2, 0, &err), SS_BAD_REQUEST);
    CHECK_INT((int)ss_trace_view(&view, &run.run.trace, 77, 0, 0, &err), SS_BAD_REQUEST);
    snprintf(text, sizeof text, "0 to %d, found 77", SS_FIELD_N - 1);
    CHECK(strstr(err.text, text));
}

static void check_sampling(void) {
    CASE("greedy takes the largest logit; the same bits draw the same token; top-k keeps k");
    scoped_model model = open_model(GPT2);
    scoped_run run = run_tokens(&model.model, prompt, 5, NULL, 0);
    const float *next = ss_floats(&run.run.trace, SS_FIELD_NEXT);
    int V = model.model.arch.V, best_token = 0, drawn_n = 0;
    for (int v = 0; v < V; v++) best_token = next[v] > next[best_token] ? v : best_token;
    CHECK_INT(ss_run_sample(&run.run, 0, 0, 123), best_token);
    CHECK_INT(ss_run_sample(&run.run, 1, 1, 0xffffffffu), best_token);
    int counts[1024] = {0};
    for (uint32_t i = 0; i < 4000; i++) counts[ss_run_sample(&run.run, 1.5f, 3, i * 1073741u)]++;
    for (int v = 0; v < V; v++) drawn_n += counts[v] > 0;
    CHECK_INT(drawn_n, 3);

    CASE("greedy takes the first of equal logits");
    float *logits = writable(next);
    float saved_logit = logits[3];
    logits[3] = logits[best_token];
    CHECK_INT(ss_run_sample(&run.run, 0, 0, 0), best_token < 3 ? best_token : 3);
    logits[3] = best_token == 3 ? logits[best_token] : saved_logit;

    CASE("drawn tokens follow softmax(logits / temperature)");
    static const float temperatures[] = {0.5f, 1.0f, 2.5f};
    for (int i = 0; i < 3; i++) {
        double temperature = (double)temperatures[i], sum = 0;
        int counts_of_tokens[1024] = {0};
        for (int v = 0; v < V; v++)
            sum += exp(((double)next[v] - (double)next[best_token]) / temperature);
        for (uint32_t n = 0; n < 20000; n++)
            counts_of_tokens[ss_run_sample(&run.run, temperatures[i], 0, n * 214748u)]++;
        for (int v = 0; v < V; v++)
            CHECK_NEAR(counts_of_tokens[v] / 20000.0,
                       exp(((double)next[v] - (double)next[best_token]) / temperature) / sum,
                       0.002);
    }
}

/* Returns which of the five tokens are ever drawn with top_k, as a bit set. */
static int draw_token_set(const float *logits, int top_k) {
    float work[5];
    int token_set = 0;
    for (uint32_t i = 0; i < 1000; i++)
        token_set |= 1 << ss_sample(logits, 5, 1, top_k, i * 4294967u, work);
    return token_set;
}

static void check_ties(void) {
    CASE("among equal logits at the cutoff of top_k, only the first ones are drawn");
    static const float logits[] = {1, 2, 3, 2, 2};
    static const int token_sets[] = {
        31, 4,  6, 14,
        30, 31, 31}; /* sets of tokens as bits, indexed by top_k; with 0
                        and numbers above V all tokens can be drawn */
    for (int top_k = 0; top_k <= 6; top_k++)
        CHECK_INT(draw_token_set(logits, top_k), token_sets[top_k]);

    CASE("exactly the top_k largest logits, in any order, have a probability");
    enum { V = 60 };
    float logits_with_ties[V], work[V];
    for (int v = 0; v < V; v++)
        logits_with_ties[v] = (float)(v * 37 % V / 2); /* each value occurs twice */
    for (int top_k = 1; top_k <= V; top_k++) {
        ss_sample(logits_with_ties, V, 1000, top_k, 0, work);
        for (int v = 0; v < V; v++) {
            int larger_n = 0; /* number of tokens with a larger logit */
            for (int u = 0; u < V; u++)
                larger_n += logits_with_ties[u] > logits_with_ties[v] ||
                            (logits_with_ties[u] == logits_with_ties[v] && u < v);
            CHECK_INT(work[v] > 0, larger_n < top_k);
        }
    }
    static const float equal_logits[] = {7, 7, 7, 7, 7};
    for (int top_k = 1; top_k <= 5; top_k++)
        CHECK_INT(draw_token_set(equal_logits, top_k), (1 << top_k) - 1);
}

int main(void) {
    check_ties();
    check_recorded_fields();
    check_uniform_attention();
    check_sums_of_alpha();
    check_sink_logits();
    check_repeated_token();
    check_evicted_cache();
    check_repeated_measurement();
    check_biases();
    check_bad_requests();
    check_sampling();
    return check_done();
}
