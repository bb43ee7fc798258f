/*
 * Runs: which fields they record, what their caches keep, which requests they refuse, and how they
 * sample, on tiny models of tests/golden. test_golden compares their numbers.
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
    snprintf(text, sizeof text, "expected an id from 0 to %d, found %d", V - 1, V);
    CHECK_TEXT(err.text, text);
    CHECK_INT((int)ss_run_extend(&run.run, negative, 1, &err), SS_BAD_TOKEN);
    CHECK_INT((int)ss_run_extend(&run.run, prompt, 5, &err), SS_TOO_LONG);
    CHECK_INT(run.run.trace.T, 0);
    extend_run(&run, prompt, 4);
    CHECK_INT((int)ss_run_extend(&run.run, prompt, 1, &err), SS_TOO_LONG);
    ss_tensor view;
    CHECK_INT((int)ss_trace_view(&view, &run.run.trace, SS_FIELD_ATT, 2, 0, &err), SS_BAD_REQUEST);
    CHECK_INT((int)ss_trace_view(&view, &run.run.trace, 77, 0, 0, &err), SS_BAD_REQUEST);
    snprintf(text, sizeof text, "expected a field from 0 to %d, found 77", SS_FIELD_N - 1);
    CHECK_TEXT(err.text, text);
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

static void check_infinite_sink_logit(void) {
    CASE("4. -infinity as sink logit gives the bits of softmax");
    int n;
    const ss_operation *table = ss_operations(&n);
    float a[] = {0.3f, -2, 5, 1}, b[] = {0.3f, -2, 5, 1}, parameters[] = {-INFINITY, 0};
    table[ss_operation_find("softmax")].normalize_row(a, 4, parameters);
    table[ss_operation_find("sink_logit")].normalize_row(b, 4, parameters);
    CHECK_BITS(a, b, sizeof a);
}

int main(void) {
    check_infinite_sink_logit();
    check_ties();
    check_recorded_fields();
    check_evicted_cache();
    check_repeated_measurement();
    check_bad_requests();
    check_sampling();
    return check_done();
}
