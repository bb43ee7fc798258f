/*
 * Maps on demand have the bits of stored ones for every operation, mask, window, bias key, position
 * scheme, edit and family of the goldens. So have the metrics that a pass accumulates without a
 * map, and the metrics of a measuring run, which computes the whole text layer by layer and keeps
 * no maps, queries, keys or values.
 */
#include "check.h"
#include "edit_lists.h"
#include "run/pass.h"
#include "run/statistics.h"

#define LLAMA "tests/golden/hf-llama-gqa"
#define GPT2 "tests/golden/hf-gpt2-plain"
#define T_MAX 13
/* A budget smaller than any map, so that no map is stored. */
#define NO_MAPS 1

static const int32_t prompt[T_MAX] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9};

/* Models with each kind of mask, position, key, gate and cap; edits test every operation. */
static const char *const folders[] = {LLAMA,
                                      GPT2,
                                      "tests/golden/hf-gpt_neox",
                                      "tests/golden/hf-gpt_neo",
                                      "tests/golden/hf-bloom",
                                      "tests/golden/hf-falcon-groups",
                                      "tests/golden/hf-opt",
                                      "tests/golden/hf-qwen2-window",
                                      "tests/golden/hf-qwen3",
                                      "tests/golden/hf-gemma2",
                                      "tests/golden/hf-gemma3",
                                      "tests/golden/hf-gpt_oss",
                                      "tests/golden/hf-olmo2",
                                      "tests/golden/hf-hunyuan",
                                      "tests/golden/hf-mixtral",
                                      "tests/golden/hf-bert",
                                      "tests/golden/hf-deepseek_v2",
                                      "tests/golden/hf-deepseek_v2-greedy",
                                      "tests/golden/hf-mimo_v2_flash-types",
                                      "tests/golden/hf-gemma4",
                                      "tests/golden/hf-qwen3_next",
                                      "tests/golden/hf-lfm2",
                                      "tests/golden/hf-falcon_h1",
                                      "tests/golden/var-alibi",
                                      "tests/golden/var-relative",
                                      "tests/golden/var-sinusoid",
                                      "tests/golden/var-none",
                                      "tests/golden/var-bias-key",
                                      "tests/golden/var-bias-key-value",
                                      "tests/golden/var-bias-key-window",
                                      "tests/golden/var-bidirectional-bias-key",
                                      "tests/golden/var-prefix",
                                      "tests/golden/var-prefix-bias-key",
                                      "tests/golden/var-mlp_kernel",
                                      "tests/golden/var-elu1_kernel_norm",
                                      "tests/golden/var-gate-head",
                                      "tests/golden/var-sandwich",
                                      "tests/golden/ref-sink_logit",
                                      "tests/golden/ref-sigmoid"};
#define FOLDERS (int)(sizeof folders / sizeof *folders)

static int min_int(int a, int b) {
    return a < b ? a : b;
}

static bool have_same_maps(ss_run *stored_run, ss_run *computed_run, ss_field_id field, int t,
                           int n) {
    const ss_arch *arch = &stored_run->trace.model->arch;
    float a[T_MAX * T_MAX], b[T_MAX * T_MAX];
    bool are_same = true;
    for (int head = 0; head < arch->L * arch->H; head++) {
        int l = head / arch->H, h = head % arch->H;
        ss_error err;
        must(ss_run_attention(stored_run, field, l, h, t, n, a, &err), &err, "stored");
        must(ss_run_attention(computed_run, field, l, h, t, n, b, &err), &err, "computed");
        are_same &= !memcmp(a, b, (size_t)(n * stored_run->trace.T) * sizeof *a);
    }
    return are_same;
}

static void check_maps(ss_run *stored_run, ss_run *computed_run) {
    int T = stored_run->trace.T;
    CHECK(stored_run->trace.computed_fields == 0 &&
          computed_run->trace.computed_fields == SS_FIELDS_MAPS);
    CHECK(have_same_maps(stored_run, computed_run, SS_FIELD_ATT, 0, T));
    CHECK(have_same_maps(stored_run, computed_run, SS_FIELD_ATT, T - 1, 1));
    CHECK(have_same_maps(stored_run, computed_run, SS_FIELD_ATT, T / 3, T / 2));
    CHECK(have_same_maps(stored_run, computed_run, SS_FIELD_SCORES, 0, T));
}

static void check_metrics(const ss_trace *stored_run, const ss_trace *computed_run,
                          const ss_trace *base) {
    int n;
    const ss_metric *rows = ss_metrics(&n);
    for (int shortened = 0; shortened < 2; shortened++)
        for (int i = 0; i < n; i++) {
            ss_metric_args args = {0.3f, shortened ? (stored_run->T + 1) / 2 : stored_run->T, 0, 0,
                                   base};
            size_t count, dims[SS_RANK_MAX];
            ss_error err;
            if (ss_metric_shape(dims, stored_run, i, &args, &err) < 0) continue;
            scoped float *a = measure_args(stored_run, rows[i].name, args, &count);
            scoped float *b = measure_args(computed_run, rows[i].name, args, &count);
            if (check_failed(!memcmp(a, b, count * sizeof *a), __FILE__, __LINE__, "the same bits"))
                printf("    %s of %d tokens\n", rows[i].name, args.T);
        }
}

/* Compares every metric of all tokens of a measuring run; metrics that need more than the run's
 * sums are refused, and so are fewer tokens, except for norms. */
static void check_sums(const ss_trace *stored_run, const ss_trace *sums, const ss_trace *base) {
    int n;
    uint32_t vectors = SS_BIT(SS_FIELD_Q) | SS_BIT(SS_FIELD_K) | SS_BIT(SS_FIELD_V);
    uint32_t summed_fields = SS_FIELDS_MAPS | SS_BIT(SS_FIELD_HIDDEN) | vectors;
    const ss_metric *rows = ss_metrics(&n);
    CHECK(sums->summed_fields == summed_fields);
    CHECK(!ss_floats(sums, SS_FIELD_Q) && !ss_floats(sums, SS_FIELD_HIDDEN));
    for (int i = 0; i < n; i++) {
        ss_metric_args args = {0.3f, stored_run->T, 0, 0, base};
        size_t count, dims[SS_RANK_MAX];
        ss_error err;
        if (ss_metric_shape(dims, stored_run, i, &args, &err) < 0) continue;
        bool reads_sums = rows[i].fields & summed_fields,
             is_refused = reads_sums && !rows[i].statistics;
        CHECK((ss_metric_shape(dims, sums, i, &args, &err) < 0) == is_refused);
        if (is_refused) continue;
        float *a = measure_args(stored_run, rows[i].name, args, &count);
        float *b = measure_args(sums, rows[i].name, args, &count);
        if (check_failed(!memcmp(a, b, count * sizeof *a), __FILE__, __LINE__, "the same bits"))
            printf("    %s of a run that measures\n", rows[i].name);
        free(a);
        free(b);
        bool has_norms = rows[i].statistics == SS_STATISTIC_NORMS;
        if (--args.T == 0 || !reads_sums) continue;
        CHECK((ss_metric_shape(dims, sums, i, &args, &err) < 0) == !has_norms);
        if (!has_norms) continue;
        a = measure_args(stored_run, rows[i].name, args, &count);
        b = measure_args(sums, rows[i].name, args, &count);
        CHECK(!memcmp(a, b, count * sizeof *a));
        free(a);
        free(b);
    }
}

static opened_run run_with(const ss_run_desc *desc, size_t map_bytes, int T, int piece) {
    ss_run_desc with_budget = *desc;
    with_budget.map_bytes = map_bytes;
    opened_run run = open_run(&with_budget);
    for (int t = 0; t < T; t += piece) extend_run(&run, prompt + t, min_int(piece, T - t));
    return run;
}

/* Starts a measuring run in chunks of `chunk` tokens, unless an edit needs all tokens together. */
static opened_run run_sums(const ss_run_desc *desc, int T, int chunk) {
    ss_run_desc measuring_desc = *desc;
    ss_error err;
    measuring_desc.fields |= SS_MEASURES | SS_SPECTRA;
    opened_run run = open_run(&measuring_desc);
    ss_pass *pass = run.run.pass;
    if (chunk >= pass->joint_tokens && !desc->model->arch.prefix)
        pass->chunk = min_int(pass->chunk, chunk);
    must(ss_run_begin(&run.run, prompt, T, &err), &err, "begin");
    int chunks = (T + pass->chunk - 1) / pass->chunk,
        pieces_left = chunks * (desc->model->arch.blocks + 1);
    while (pieces_left > 0) CHECK_INT(ss_run_step(&run.run), --pieces_left);
    CHECK(run.run.trace.T == T && ss_run_step(&run.run) == 0);
    return run;
}

static void compare(const ss_model *model, const ss_edit *edits, int n, int T, int piece) {
    ss_run_desc desc = {model, T_MAX, SS_FIELDS_ALL, edits, n, NULL, 0, NULL, 0};
    scoped_run stored_run = run_with(&desc, 0, T, piece),
               computed_run = run_with(&desc, NO_MAPS, T, piece);
    CHECK(computed_run.run.trace.statistics.queries[0] == T);
    CHECK(computed_run.arena.used == computed_run.arena.bytes);
    /* This comparison reads the statistics of the pass; after they are cleared, metrics come from
     * recomputed rows. */
    check_metrics(&stored_run.run.trace, &computed_run.run.trace, &stored_run.run.trace);
    ss_statistics_clear(&computed_run.run.trace);
    check_metrics(&stored_run.run.trace, &computed_run.run.trace, &stored_run.run.trace);
    check_maps(&stored_run.run, &computed_run.run);
    scoped_run sums = run_sums(&desc, T, min_int(piece, 5));
    CHECK(sums.arena.used == sums.arena.bytes);
    check_sums(&stored_run.run.trace, &sums.run.trace, &stored_run.run.trace);
}

static bool needs_all_tokens(const ss_arch *arch) {
    return arch->prefix > 0;
}

static void check_families(void) {
    CASE("in every family, maps on demand and their metrics have the bits of stored maps");
    for (int i = 0; i < FOLDERS; i++) {
        long failed_before = check_state.failed;
        scoped_model model = open_model(folders[i]);
        compare(&model.model, NULL, 0, T_MAX, T_MAX);
        if (!needs_all_tokens(&model.model.arch)) {
            compare(&model.model, NULL, 0, T_MAX - 1, 5);
            compare(&model.model, NULL, 0, 9, 1);
        }
        if (check_state.failed > failed_before) printf("    %s\n", folders[i]);
    }
}

static void check_operations(const char *folder) {
    CASE("under every operation, maps on demand and their metrics have the bits of stored maps");
    scoped_model model = open_model(folder);
    int n;
    const ss_operation *rows = ss_operations(&n);
    for (int i = 0; i < n; i++) {
        if (!ss_operation_fits(&rows[i], &model.model)) continue;
        long failed_before = check_state.failed;
        ss_edit edit = swap_to(rows[i].name, NAN);
        compare(&model.model, &edit, 1, T_MAX, T_MAX);
        if (check_state.failed > failed_before) printf("    %s\n", rows[i].name);
    }
}

static void check_edits(const char *folder) {
    CASE("under every edit and policy, alone or before another edit, maps on demand have the bits "
         "of stored maps");
    scoped_model model = open_model(folder);
    pins choices = choice_pins();
    int tested_n = 0;
    for (int i = 0; i < 6 * choices.n; i++) {
        uint32_t state = (uint32_t)i * 2654435761u + 5;
        const pin *edit_pins[] = {&choices.pins[i % choices.n],
                                  &choices.pins[(i * 7 + i / choices.n) % choices.n]};
        ss_edit list[2];
        char texts[2][256];
        ss_error err;
        int n = 1 + i % 2;
        ss_run_desc desc = {&model.model, T_MAX, SS_FIELDS_ALL, list, n, NULL, 0, NULL, 0};
        long failed_before = check_state.failed;
        if (!draw_edit(&list[0], texts[0], &model.model, T_MAX, edit_pins[0], &state) ||
            (n > 1 && !draw_edit(&list[1], texts[1], &model.model, T_MAX, edit_pins[1], &state)) ||
            try_run(&desc, &err) != SS_OK)
            continue;
        compare(&model.model, list, n, T_MAX, T_MAX);
        tested_n++;
        if (check_state.failed > failed_before)
            printf("    %s %s\n", texts[0], n > 1 ? texts[1] : "");
    }
    CHECK(tested_n > 4 * choices.n);
}

static void check_updated_maps(const char *folder, const char *edit_text) {
    CASE("in an updated run, with or without an edit, maps on demand have the bits of stored maps");
    scoped_model model = open_model(folder);
    ss_edit edit = read_edit(edit_text);
    for (int n = 0; n < 2; n++) {
        ss_run_desc desc = {&model.model, T_MAX, SS_FIELDS_ALL, &edit, n, NULL, 0, NULL, 0};
        scoped_run stored_run = run_with(&desc, 0, 8, 8),
                   computed_run = run_with(&desc, NO_MAPS, 8, 8);
        scoped_run sums = run_sums(&desc, 8, 3);
        uint32_t state = 11;
        for (int i = 0; i < 12; i++) {
            int32_t text[T_MAX];
            int T = 1 + draw_below(&state, T_MAX);
            for (int t = 0; t < T; t++)
                text[t] = t < T / 2 ? prompt[t] : prompt[draw_below(&state, T_MAX)];
            change_text(&stored_run, text, T);
            change_text(&computed_run, text, T);
            change_text(&sums, text, T);
            check_maps(&stored_run.run, &computed_run.run);
            check_metrics(&stored_run.run.trace, &computed_run.run.trace, &stored_run.run.trace);
            check_sums(&stored_run.run.trace, &sums.run.trace, &stored_run.run.trace);
        }
    }
}

static void check_reading(const char *folder, const char *edit_text) {
    CASE("reading the maps of a run does not change later tokens");
    scoped_model model = open_model(folder);
    ss_edit edit = read_edit(edit_text);
    ss_run_desc desc = {&model.model, T_MAX, SS_FIELDS_ALL, &edit, 1, NULL, 0, NULL, 0};
    scoped_run stored_run = run_with(&desc, 0, 1, 1), computed_run = run_with(&desc, NO_MAPS, 1, 1);
    for (int t = 1; t < T_MAX; t++) {
        extend_run(&stored_run, prompt + t, 1);
        extend_run(&computed_run, prompt + t, 1);
        check_maps(&stored_run.run, &computed_run.run);
    }
    CHECK(have_same_rows(&stored_run.run.trace, &computed_run.run.trace, SS_FIELD_HIDDEN, T_MAX));
    CHECK(have_same_rows(&stored_run.run.trace, &computed_run.run.trace, SS_FIELD_EVICTED, T_MAX));
}

static void check_start_from_another(const char *folder, const char *edit_text) {
    CASE(
        "a run that begins from another gives the same bits, whichever of the two stores its maps");
    scoped_model model = open_model(folder);
    ss_edit edit = read_edit(edit_text);
    ss_run_desc baseline_desc = {&model.model, T_MAX, SS_FIELDS_ALL, NULL, 0, NULL, 0, NULL, 0};
    ss_run_desc desc = {&model.model, T_MAX, SS_FIELDS_ALL, &edit, 1, NULL, 0, NULL, 0};
    scoped_run expected = run_with(&desc, 0, T_MAX, T_MAX);
    for (int i = 0; i < 4; i++) {
        scoped_run base = run_with(&baseline_desc, i & 1 ? NO_MAPS : 0, T_MAX, T_MAX);
        ss_run_desc with_budget = desc;
        with_budget.from = &base.run.trace;
        with_budget.layer = SS_BY_EDITS;
        scoped_run run = run_with(&with_budget, i & 2 ? NO_MAPS : 0, T_MAX, T_MAX);
        CHECK(have_same_maps(&expected.run, &run.run, SS_FIELD_ATT, 0, T_MAX));
        check_metrics(&expected.run.trace, &run.run.trace, &base.run.trace);
    }
}

static void check_budget(void) {
    CASE("maps are stored up to the budget, 64 MB by default; beyond it, memory grows with T");
    scoped_model model = open_model(LLAMA);
    const ss_arch *arch = &model.model.arch;
    size_t map_bytes = (size_t)(arch->L * arch->H * T_MAX * T_MAX) * sizeof(float);
    for (int i = 0; i < 2; i++) {
        ss_run_desc desc = {.model = &model.model,
                            .capacity = T_MAX,
                            .fields = SS_BIT(SS_FIELD_ATT),
                            .map_bytes = map_bytes - (size_t)i};
        scoped_run run = open_run(&desc);
        CHECK(run.run.trace.computed_fields == (i ? SS_BIT(SS_FIELD_ATT) : 0));
        CHECK(((run.run.trace.fields & SS_BIT(SS_FIELD_Q)) != 0) == (i == 1));
    }
    int context = arch->context;
    model.model.arch.context = 1 << 16;
    size_t bytes[4];
    ss_error err;
    for (int i = 0; i < 4; i++) {
        ss_run_desc desc = {
            .model = &model.model, .capacity = 2048 << i, .fields = SS_BIT(SS_FIELD_ATT)};
        must(ss_run_size(&bytes[i], &desc, &err), &err, "size");
    }
    ss_run_desc maps_desc = {.model = &model.model,
                             .capacity = 2048,
                             .fields = SS_BIT(SS_FIELD_ATT) | SS_BIT(SS_FIELD_Q),
                             .map_bytes = NO_MAPS},
                measuring_desc = maps_desc;
    size_t measuring_bytes, maps_bytes;
    measuring_desc.fields |= SS_MEASURES;
    must(ss_run_size(&measuring_bytes, &measuring_desc, &err), &err, "size");
    must(ss_run_size(&maps_bytes, &maps_desc, &err), &err, "size");
    /* An arena in a build with the address sanitizer keeps a gap after each buffer. */
    size_t layers = (size_t)arch->L, G = (size_t)arch->G, K = (size_t)arch->K;
    size_t rows = layers * (size_t)arch->H * K + 2 * (layers - 1) * G * K;
    /* A measuring run needs the stream and the angles of the whole text, and norms of keys and
     * values. */
    size_t chunk = 2048 - SS_CHUNK, pairs = (size_t)arch->rotary_width / 2;
    size_t extra_numbers = chunk * ((size_t)arch->D + 2 * pairs) + 2048 * 2 * layers * G;
    size_t saved_bytes = (2048 * rows - extra_numbers) * sizeof(float);
    CHECK(maps_bytes - measuring_bytes + 256 >= saved_bytes &&
          maps_bytes - measuring_bytes < saved_bytes + 256);
    for (int i = 2; i < 4; i++)
        CHECK_NEAR((double)(bytes[i] - bytes[i - 1]) / (double)(bytes[i - 1] - bytes[i - 2]), 2,
                   0.02);
    model.model.arch.context = context;
}

static void check_pooled_maps(const char *folder) {
    CASE("a pooled map has the mean and the largest visible cell of each block");
    scoped_model model = open_model(folder);
    scoped_run run = run_tokens(&model.model, prompt, T_MAX, NULL, 0);
    for (int b = 1; b <= T_MAX; b += 3) {
        int P = ss_blocks_of(&run.run.trace, b);
        float map[T_MAX * T_MAX], out[2 * T_MAX * T_MAX];
        ss_error err;
        int l = model.model.arch.L - 1;
        const ss_mask *mask = &run.run.trace.choices[l * model.model.arch.H].mask;
        must(ss_run_attention(&run.run, SS_FIELD_ATT, l, 0, 0, T_MAX, map, &err), &err, "rows");
        must(ss_run_pooled(&run.run, SS_FIELD_ATT, l, 0, b, out, &err), &err, "pooled");
        for (int cell = 0; cell < P * P; cell++) {
            double sum = 0, largest = -HUGE_VAL;
            int n = 0;
            for (int t = cell / P * b; t < min_int(T_MAX, (cell / P + 1) * b); t++)
                for (int j = cell % P * b; j < min_int(T_MAX, (cell % P + 1) * b); j++) {
                    int end = ss_mask_end(mask, t, T_MAX);
                    if (j >= end || (j >= mask->first && j < end - mask->recent)) continue;
                    sum += (double)map[t * T_MAX + j];
                    largest = fmax(largest, (double)map[t * T_MAX + j]);
                    n++;
                }
            CHECK_NEAR(out[cell], n ? sum / n : 0, 1e-6);
            CHECK_NEAR(out[P * P + cell], n ? largest : 0, 0);
        }
    }
}

static void check_refusals(void) {
    CASE("impossible reads are refused with a place");
    scoped_model model = open_model(LLAMA);
    scoped_run run = run_tokens(&model.model, prompt, T_MAX, NULL, 0);
    const ss_arch *arch = &model.model.arch;
    ss_run_desc desc = {&model.model, T_MAX, SS_BIT(SS_FIELD_ATT), NULL, 0, NULL, 0, NULL, NO_MAPS};
    scoped_run computed_run = run_with(&desc, NO_MAPS, T_MAX, T_MAX);
    float out[2 * T_MAX * T_MAX];
    ss_error err;
    ss_tensor view;
    const struct {
        ss_field_id field;
        int l, h, t, n;
    } bad_reads[] = {{SS_FIELD_HIDDEN, 0, 0, 0, 1},      {SS_FIELD_ATT, -1, 0, 0, 1},
                     {SS_FIELD_ATT, arch->L, 0, 0, 1},   {SS_FIELD_ATT, 0, arch->H, 0, 1},
                     {SS_FIELD_ATT, 0, 0, -1, 1},        {SS_FIELD_ATT, 0, 0, T_MAX, 1},
                     {SS_FIELD_ATT, 0, 0, 0, T_MAX + 1}, {SS_FIELD_ATT, 0, 0, 1, INT_MAX}};
    for (size_t i = 0; i < sizeof bad_reads / sizeof *bad_reads; i++)
        CHECK_INT((int)ss_run_attention(&run.run, bad_reads[i].field, bad_reads[i].l,
                                        bad_reads[i].h, bad_reads[i].t, bad_reads[i].n, out, &err),
                  SS_BAD_REQUEST);
    CHECK_INT((int)ss_run_attention(&computed_run.run, SS_FIELD_SCORES, 0, 0, 0, 1, out, &err),
              SS_BAD_REQUEST);
    CHECK_TEXT(err.where, "scores");
    CHECK_INT((int)ss_trace_view(&view, &computed_run.run.trace, SS_FIELD_ATT, 0, 0, &err),
              SS_BAD_REQUEST);
    desc.fields = SS_BIT(SS_FIELD_ATT) | SS_BIT(SS_FIELD_Q) | SS_MEASURES;
    opened_run sums = run_with(&desc, 0, T_MAX, T_MAX);
    CHECK_INT((int)ss_run_attention(&sums.run, SS_FIELD_ATT, 0, 0, 0, 1, out, &err),
              SS_BAD_REQUEST);
    CHECK_INT((int)ss_run_pooled(&sums.run, SS_FIELD_ATT, 0, 0, 4, out, &err), SS_BAD_REQUEST);
    for (int i = 0; i < 2; i++)
        CHECK_INT(
            (int)ss_trace_view(&view, &sums.run.trace, i ? SS_FIELD_Q : SS_FIELD_ATT, 0, 0, &err),
            SS_BAD_REQUEST);
    CHECK_TEXT(err.where, "q");
    desc = (ss_run_desc){.model = &model.model,
                         .capacity = T_MAX,
                         .fields = SS_BIT(SS_FIELD_Q),
                         .from = &sums.run.trace,
                         .layer = 1};
    CHECK_INT((int)try_run(&desc, &err), SS_BAD_REQUEST);
    desc.from = &run.run.trace;
    desc.fields |= SS_MEASURES;
    CHECK_INT((int)try_run(&desc, &err), SS_UNSUPPORTED);
    /* A measuring run cannot be extended, since the keys of earlier tokens are lost. */
    change_text(&sums, prompt, 5);
    CHECK_INT((int)ss_run_extend(&sums.run, prompt, 1, &err), SS_UNSUPPORTED);
    CHECK(strstr(err.text, "expected all tokens at once"));
    for (int i = 0; i < 2; i++)
        CHECK_INT(
            (int)ss_trace_view(&view, &sums.run.trace, i ? SS_FIELD_K : SS_FIELD_V, 0, 0, &err),
            SS_BAD_REQUEST);
    close_run(&sums);
    /* Spectra are computed only on request. A comparison needs the hidden states of both runs. */
    desc = (ss_run_desc){
        .model = &model.model, .capacity = T_MAX, .fields = SS_BIT(SS_FIELD_HIDDEN) | SS_MEASURES};
    sums = run_with(&desc, 0, T_MAX, T_MAX);
    scoped_run baseline = run_tokens(&model.model, prompt, T_MAX, NULL, 0);
    ss_metric_args all_args = {0.3f, T_MAX, 0, 0, &sums.run.trace};
    size_t shape[SS_RANK_MAX];
    CHECK(ss_metric_shape(shape, &sums.run.trace, metric_index("hidden_ratio"), &all_args, &err) >
          0);
    CHECK(ss_metric_shape(shape, &sums.run.trace, metric_index("matrix_entropy"), &all_args, &err) <
          0);
    CHECK(strstr(err.text, "needs spectra"));
    CHECK(ss_metric_shape(shape, &baseline.run.trace, metric_index("hidden_change"), &all_args,
                          &err) < 0);
    CHECK_INT((int)ss_trace_view(&view, &sums.run.trace, SS_FIELD_HIDDEN, 0, -1, &err),
              SS_BAD_REQUEST);
    close_run(&sums);
    /* After an abandoned extension, a measuring run has the sums of some layers only. */
    desc = (ss_run_desc){.model = &model.model,
                         .capacity = T_MAX,
                         .fields = SS_BIT(SS_FIELD_ATT) | SS_BIT(SS_FIELD_SEEN) |
                                   SS_BIT(SS_FIELD_NEXT) | SS_MEASURES};
    sums = run_with(&desc, 0, 4, 4);
    int alpha = 0;
    size_t dims[SS_RANK_MAX];
    ss_metric_args args = {0.3f, 4, 0, 0, NULL};
    CHECK(ss_metric_shape(dims, &sums.run.trace, alpha, &args, &err) > 0);
    must(ss_run_begin_update(&sums.run, prompt + 1, 4, &err), &err, "begin");
    ss_run_step(&sums.run);
    CHECK(ss_metric_shape(dims, &sums.run.trace, alpha, &args, &err) < 0);
    close_run(&sums);
    for (int b = 0; b < 2; b++)
        CHECK_INT((int)ss_run_pooled(&run.run, SS_FIELD_ATT, 0, 0, b * (T_MAX + 1), out, &err),
                  SS_BAD_REQUEST);
}

static void check_accumulated_readers(void) {
    CASE("every metric of one run's maps, norms or queries reads the accumulated statistics");
    int n;
    const ss_metric *rows = ss_metrics(&n);
    for (int i = 0; i < n; i++)
        CHECK((((rows[i].fields & SS_FIELDS_MAPS) && !(rows[i].args & SS_ARG_BASE)) ||
               !strcmp(rows[i].name, "cos_gap") || !strcmp(rows[i].name, "matrix_entropy") ||
               !strcmp(rows[i].topic, "norm")) == (rows[i].statistics != 0));
}

int main(void) {
    check_accumulated_readers();
    check_families();
    check_operations(LLAMA);
    check_operations("tests/golden/var-mlp_kernel");
    check_edits(LLAMA);
    check_edits(GPT2);
    check_edits("tests/golden/var-bias-key");
    check_updated_maps(LLAMA, "evict(policy=h2o,budget=6)");
    check_updated_maps(GPT2, "evict(policy=tova,budget=5)");
    check_updated_maps(LLAMA, "hide_key(key=2)");
    check_reading(LLAMA, "evict(policy=h2o,budget=4)");
    check_reading(GPT2, "evict(policy=vatp,budget=5,recent=1)");
    check_reading(LLAMA, "evict(policy=tova,budget=4,positions=cache)");
    check_start_from_another(LLAMA, "evict(policy=h2o,budget=6)");
    check_start_from_another(LLAMA, "evict(policy=window,budget=6,positions=cache)");
    check_start_from_another(LLAMA, "hide_key(key=5,layer=1)");
    check_start_from_another(GPT2, "park(key=4,layer=1,head=0)");
    check_budget();
    check_pooled_maps(LLAMA);
    check_pooled_maps("tests/golden/hf-qwen2-window");
    check_pooled_maps("tests/golden/var-bidirectional-bias-key");
    check_refusals();
    return check_done();
}
