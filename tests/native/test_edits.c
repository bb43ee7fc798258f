/*
 * Edits: properties of every row of the table, on tiny models of four families; then oracles of
 * each edit. test_golden checks the numbers against the goldens of tests/golden/edit-*.
 */
#include "edits.h"
#include "run/pass.h"
#include "goldens.h"
#include "tables.h"
#include "traces.h"

#include <math.h>

#define LLAMA "tests/golden/hf-llama-gqa"
#define GPT2 "tests/golden/hf-gpt2-plain"
#define GPT_NEO "tests/golden/hf-gpt_neo"
#define GPT_NEOX "tests/golden/hf-gpt_neox"
#define T_MAX 13

/* DEEPSEEK has values that are narrower than its keys, GREEDY has wider ones. All their heads
 * share the rotated part of keys. */
#define DEEPSEEK "tests/golden/hf-deepseek_v2"
#define GREEDY "tests/golden/hf-deepseek_v2-greedy"
/* A model in which some layers have more key/value heads than others. */
#define MIMO "tests/golden/hf-mimo_v2_flash-types"
static const char *const folders[] = {LLAMA, GPT2, GPT_NEO, GPT_NEOX, DEEPSEEK, GREEDY, MIMO};
#define FOLDERS ((int)(sizeof folders / sizeof *folders))
static const int32_t prompt[T_MAX] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9};

/* An edit without effect and an edit with an effect for each row of the table. */
static const struct {
    const char *idle_edit, *effective_edit;
} pairs[] = {
    {"operation(operation=softmax)", "operation(operation=sigmoid,layer=1)"},
    {"mask(first=0,recent=13,layer=0)", "mask(first=1,recent=2)"},
    {"hide_key(key=5,query=4)", "hide_key(key=0,layer=1)"},
    {"self_only(token=0)", "self_only(token=6)"},
    {"scale_value(key=3,factor=1)", "scale_value(key=0,layer=0,group=1)"},
    {NULL, "silence(layer=0,head=1)"}, /* silencing a head always has an effect */
    {"park(layer=0,head=0,key=12)", "park(layer=1,head=0)"},
    {"clamp_channel(channel=2,layer=0,token=12,to=value)", "clamp_channel(channel=3,to=mean)"},
    {"project(key=12,from=heads)", "project(direction=random)"},
    {"swap_positions(a=4,b=4)", "swap_positions(a=0,b=5)"},
    {"evict(policy=window,budget=13)", "evict(policy=h2o,budget=5)"},
    {"quantize(what=keys,bits=4,first=13)", "quantize(what=values,bits=3,by=channel)"},
    {"scale_weight(matrix=o,layer=0,row=1,column=2,factor=1)",
     "scale_weight(matrix=o,layer=0,row=1,column=2,factor=40)"},
};
#define PAIRS ((int)(sizeof pairs / sizeof *pairs))

static opened_run run_edit(const opened_model *model, const char *text) {
    ss_edit edit = read_edit(text);
    return run_tokens(&model->model, prompt, T_MAX, &edit, 1);
}

static void check_listed_rows(void) {
    CASE("the list of this test has every row of the table, in order");
    int n;
    const ss_edit_kind *rows = ss_edits(&n);
    CHECK_INT(PAIRS, n);
    if (PAIRS != n) return;
    for (int i = 0; i < n; i++) {
        CHECK_INT(read_edit(pairs[i].effective_edit).kind, i);
        if (pairs[i].idle_edit) CHECK_INT(read_edit(pairs[i].idle_edit).kind, i);
        CHECK(rows[i].meaning && rows[i].source && rows[i].apply && rows[i].hook_points);
    }
}

/* Returns true for edits that change at most the last token. */
static bool changes_last_token(const char *text) {
    return strstr(text, "=12") != NULL;
}

static void check_edits_without_effect(void) {
    CASE("an edit without effect gives the bits of an unedited run; an edit with an effect does "
         "not");
    for (int f = 0; f < FOLDERS; f++) {
        scoped_model model = open_model(folders[f]);
        scoped_run baseline = run_tokens(&model.model, prompt, T_MAX, NULL, 0);
        for (int i = 0; i < PAIRS; i++) {
            scoped_run edited_run = run_edit(&model, pairs[i].effective_edit);
            CHECK(!have_same_rows(&baseline.run.trace, &edited_run.run.trace, SS_FIELD_HIDDEN,
                                  T_MAX));
            CHECK(edited_run.run.trace.edited);
            /* In models with window sinks, two edits that have no effect elsewhere have one:
             * softmax in every layer, and a mask that is wider than the model's window. */
            if (!pairs[i].idle_edit || (i < 2 && model.model.arch.window_sinks)) continue;
            scoped_run unedited_run = run_edit(&model, pairs[i].idle_edit);
            check_same(&baseline.run.trace, &unedited_run.run.trace,
                       changes_last_token(pairs[i].idle_edit) ? T_MAX - 1 : T_MAX);
        }
    }
}

static void check_edits_with_nothing_to_do(void) {
    CASE("an edit with nothing to evict or quantize gives the bits of an unedited run");
    static const char *const evictions[] = {
        "window", "first,first=2", "h2o",
        "tova",   "lru",           "key_norm",
        "vatp",   "random",        "snapkv,prompt=13,queries=2"};
    enum { EVICTIONS = sizeof evictions / sizeof *evictions };
    static const char *const kinds[] = {"queries", "keys", "values", "hidden"};
    for (int f = 0; f < FOLDERS; f++) {
        scoped_model model = open_model(folders[f]);
        scoped_run baseline = run_tokens(&model.model, prompt, T_MAX, NULL, 0);
        bool is_rotary = model.model.arch.positions == SS_POSITIONS_ROTARY;
        for (int i = 0; i < 16 + EVICTIONS * (1 + is_rotary); i++) {
            char text[96];
            if (i < 16)
                snprintf(text, sizeof text, "quantize(what=%s,bits=2,by=%s,first=13)", kinds[i % 4],
                         (const char *[]){"tensor", "token", "channel", "group"}[i / 4]);
            else
                snprintf(text, sizeof text, "evict(policy=%s,budget=13%s)",
                         evictions[(i - 16) % EVICTIONS],
                         i < 16 + EVICTIONS ? "" : ",positions=cache");
            scoped_run unedited_run = run_edit(&model, text);
            check_same(&baseline.run.trace, &unedited_run.run.trace, T_MAX);
        }
        ss_edit edits[] = {read_edit("silence(layer=1,head=1)"), read_edit("silence(layer=1)")};
        scoped_run layer_run = run_edit(&model, "silence(layer=1)");
        scoped_run two_edit_run = run_tokens(&model.model, prompt, T_MAX, edits, 2);
        check_same(&layer_run.run.trace, &two_edit_run.run.trace, T_MAX);
    }
}

/* ---- evictions ------------------------------------------------------------------------------ */

static const char *const policies[] = {
    "window", "first,first=2", "h2o",
    "tova",   "lru",           "key_norm",
    "vatp",   "random",        "snapkv,prompt=8,queries=2,pool=3",
};

static void check_budgets(void) {
    CASE("a query sees at most `budget` keys, always its own; evicted keys never return");
    scoped_model model = open_model(LLAMA);
    size_t policies_n = sizeof policies / sizeof *policies;
    for (size_t p = 0; p <= policies_n; p++) {
        /* The last one keeps more first keys than the half of the budget that h2o keeps as recent.
         */
        const char *policy = p < policies_n ? policies[p] : "h2o,first=4";
        char text[96];
        snprintf(text, sizeof text, "evict(policy=%s,budget=5)", policy);
        scoped_run run = run_edit(&model, text);
        const ss_trace *trace = &run.run.trace;
        bool is_snapkv = strstr(policy, "snapkv") != NULL;
        scoped float *is_kept = measure(trace, "keeps_first", SS_EPS_STANDARD, 0, 0, 0, NULL);
        for (int head = 0; head < 8; head++) {
            const float *evicted = ss_row(trace, SS_FIELD_EVICTED, head, 0);
            CHECK_NEAR(is_kept[head], isnan(evicted[0]), 0);
            for (int t = 0; t < T_MAX; t++) {
                const float *row = att_row(trace, head / 4, head % 4, t);
                int visible_n = 0;
                for (int j = 0; j <= t; j++) {
                    bool is_evicted = evicted[j] <= (float)t;
                    CHECK(is_evicted == (row[j] == 0.0f));
                    visible_n += !is_evicted;
                }
                CHECK(row[t] > 0.0f);
                int budget = !is_snapkv ? 5 : t < 8 ? T_MAX : 5 + t - 7;
                CHECK_INT(visible_n, t + 1 < budget ? t + 1 : budget);
                CHECK_NEAR(*ss_row(trace, SS_FIELD_SEEN, head, t), visible_n, 0);
            }
        }
    }
}

static void check_window_is_a_mask(void) {
    CASE("6. evicting the oldest keys gives the bits of the Lambda-shaped mask");
    scoped_model model = open_model(GPT2);
    const char *equal_edits[][2] = {
        {"evict(policy=window,budget=4)", "mask(first=0,recent=4)"},
        {"evict(policy=first,first=2,budget=6)", "mask(first=2,recent=4)"},
    };
    for (int i = 0; i < 2; i++) {
        scoped_run eviction_run = run_edit(&model, equal_edits[i][0]),
                   mask_run = run_edit(&model, equal_edits[i][1]);
        for (int field = 0; field < SS_FIELD_N; field++)
            if (field != SS_FIELD_EVICTED && field != SS_FIELD_NEXT &&
                (eviction_run.run.trace.fields & mask_run.run.trace.fields & SS_BIT(field)))
                CHECK(have_same_rows(&eviction_run.run.trace, &mask_run.run.trace, field, T_MAX));
    }
}

static void check_cache_positions(const char *folder) {
    CASE("7. with positions in the cache, a query equals the last row of a run over the cached "
         "tokens");
    scoped_model model = open_model(folder);
    model.model.arch.L = model.model.arch.blocks =
        1; /* in layer 0 keys and values do not depend on the mask */
    scoped_run run = run_edit(&model, "evict(policy=first,first=2,budget=6,positions=cache)");
    for (int t = 6; t < T_MAX; t++) {
        int32_t kept_tokens[6] = {prompt[0], prompt[1]};
        for (int i = 2; i < 6; i++) kept_tokens[i] = prompt[t - 5 + i];
        scoped_run kept_run = run_tokens(&model.model, kept_tokens, 6, NULL, 0);
        for (int h = 0; h < model.model.arch.H; h++) {
            const float *row = att_row(&run.run.trace, 0, h, t);
            const float *expected = att_row(&kept_run.run.trace, 0, h, 5);
            for (int i = 0; i < 6; i++) CHECK_NEAR(row[i < 2 ? i : t - 5 + i], expected[i], 1e-5);
        }
    }
}

static void check_texts_beyond_the_context(void) {
    CASE("with positions in the cache, a rotary model reads past its context with the bits of a "
         "longer context");
    const char *text = "evict(policy=first,first=1,budget=6,positions=cache)";
    scoped_model model = open_model(LLAMA);
    scoped_run edited_run = run_edit(&model, text);
    model.model.arch.context = 6;
    scoped_run longer_run = run_edit(&model, text);
    check_same(&edited_run.run.trace, &longer_run.run.trace, T_MAX);
    const char *positional_edits[] = {
        "evict(policy=first,first=1,budget=7,positions=cache)",
        "evict(policy=first,first=1,budget=6)",
        "evict(policy=first,first=1,budget=6,positions=cache,layer=0)",
        "evict(policy=snapkv,prompt=6,queries=2,budget=6,positions=cache)"};
    for (size_t i = 0; i < sizeof positional_edits / sizeof *positional_edits; i++) {
        ss_edit edit = read_edit(positional_edits[i]);
        ss_run_desc desc = {&model.model, T_MAX, SS_FIELDS_ALL, &edit, 1, NULL, 0, NULL, 0};
        ss_error err;
        CHECK_INT((int)try_run(&desc, &err), SS_TOO_LONG);
    }
}

/* ---- streaming ------------------------------------------------------------------------------- */

#define LONG 120

static opened_run stream(const ss_model *model, const int32_t *tokens, int T, int piece,
                         const ss_edit *edits, int n, bool is_streaming) {
    uint32_t fields = SS_BIT(SS_FIELD_LOSS) | (is_streaming ? SS_STREAMS : 0);
    ss_run_desc desc = {model, T, fields, edits, n, NULL, 0, NULL, 0};
    opened_run run = open_run(&desc);
    CHECK_INT(run.arena.used == run.arena.bytes, 1);
    for (int t = 0; t < T; t += piece) extend_run(&run, tokens + t, T - t < piece ? T - t : piece);
    return run;
}

static void check_stream(const ss_model *model, int T, const char *policy, const char *other_edit) {
    char text[128];
    int32_t tokens[LONG];
    for (int t = 0; t < T; t++)
        tokens[t] = (t * t + t / 7) % (model->arch.V < 40 ? model->arch.V : 40);
    snprintf(text, sizeof text, "evict(policy=%s)", policy);
    ss_edit edits[] = {read_edit(text), read_edit(other_edit)};
    scoped_run reference = stream(model, tokens, T, T, edits, 2, false);
    int group_heads = 1; /* query heads of one key/value head, each of which may keep other keys */
    for (int a = 0; a < model->arch.L; a++)
        group_heads = (int)fmaxf((float)group_heads,
                                 (float)(model->arch.H / ss_arch_sizes(&model->arch, a).G));
    /* In a run over all T tokens, pieces of SS_LOGIT_ROWS tokens fill the cache to its last slot.
     */
    const int pieces[] = {1, 7, 49, T};
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        int piece = pieces[i];
        scoped_run streaming_run = stream(model, tokens, T, piece, edits, 2, true);
        CHECK(streaming_run.run.trace.slots <= group_heads * 6 + SS_LOGIT_ROWS ||
              streaming_run.run.trace.slots == T);
        if (check_failed(
                have_same_rows(&reference.run.trace, &streaming_run.run.trace, SS_FIELD_LOSS, T),
                __FILE__, __LINE__, "the same losses"))
            printf("    %s, %d at a time\n", policy, piece);
        CHECK_BITS(ss_floats(&reference.run.trace, SS_FIELD_NEXT),
                   ss_floats(&streaming_run.run.trace, SS_FIELD_NEXT),
                   (size_t)model->arch.V * sizeof(float));
    }
}

static void check_streams(void) {
    CASE("a streaming run gives the same losses, also beyond the context and under other edits");
    static const char *const other_edits[] = {
        "quantize(what=keys,bits=4)", "hide_key(key=2)",        "self_only(token=9)",
        "park(layer=1,head=1,key=3)", "mask(first=2,recent=4)", "scale_value(key=1)"};
    for (int f = 0; f < FOLDERS; f++) {
        scoped_model model = open_model(folders[f]);
        for (size_t p = 0; p + 1 < sizeof policies / sizeof *policies; p++) {
            char text[96];
            snprintf(text, sizeof text, "%s,budget=6", policies[p]);
            check_stream(&model.model, model.model.arch.context, text, other_edits[p % 6]);
            if (f == 1 || f == 2) continue; /* these models have learned positions */
            snprintf(text, sizeof text, "%s,budget=6,positions=cache", policies[p]);
            check_stream(&model.model, LONG, text, other_edits[(p + 1) % 6]);
        }
    }
    /* A slot is no position: distances are between the tokens that the slots hold. */
    scoped_model alibi = open_model("tests/golden/var-alibi");
    for (size_t p = 0; p + 1 < sizeof policies / sizeof *policies; p++) {
        char text[96];
        snprintf(text, sizeof text, "%s,budget=6", policies[p]);
        check_stream(&alibi.model, alibi.model.arch.context, text, other_edits[p % 6]);
    }
}

static void check_stream_memory(void) {
    CASE("the memory of a streaming run grows with the budget, and by 12 bytes with each token");
    scoped_model model = open_model(LLAMA);
    size_t bytes[3];
    ss_error err;
    for (int i = 0; i < 3; i++) {
        ss_edit edit = read_edit(i < 2 ? "evict(policy=window,budget=6,positions=cache)"
                                       : "evict(policy=window,budget=32,positions=cache)");
        uint32_t fields = SS_BIT(SS_FIELD_LOSS) | SS_STREAMS;
        ss_run_desc desc = {
            &model.model, i == 1 ? 12288 : 8192, fields, &edit, 1, NULL, 0, NULL, 0};
        must(ss_run_size(&bytes[i], &desc, &err), &err, "size");
    }
    const ss_arch *arch = &model.model.arch;
    CHECK_INT(bytes[1] - bytes[0], 4096 * 12);
    CHECK(bytes[2] - bytes[0] >= (size_t)(8 * 26 * arch->L * arch->G * arch->K));
    CHECK(bytes[2] < 1 << 20);
}

static void check_refused_streams(void) {
    CASE("a streaming run refuses by name what it cannot record");
    scoped_model model = open_model(LLAMA);
    scoped_run baseline = run_tokens(&model.model, prompt, T_MAX, NULL, 0);
    uint32_t fields = SS_BIT(SS_FIELD_LOSS) | SS_STREAMS;
    const struct {
        const char *edits[2], *where, *text;
        uint32_t fields;
        const ss_trace *source;
    } cases[] = {
        {{"evict(policy=h2o,budget=4)"}, "att", "streams", fields | SS_BIT(SS_FIELD_ATT), NULL},
        {{"evict(policy=h2o,budget=4)"}, "k", "streams", fields | SS_BIT(SS_FIELD_K), NULL},
        {{"silence(layer=0)"}, "streams", "eviction in every head", fields, NULL},
        {{"evict(policy=h2o,budget=4,head=1)"}, "streams", "eviction in every head", fields, NULL},
        {{"evict(policy=snapkv,budget=4,prompt=8,queries=2)"},
         "streams",
         "query by query",
         fields,
         0},
        {{"evict(policy=h2o,budget=4)", "clamp_channel(channel=1,to=mean)"},
         "streams",
         "looks at many",
         fields,
         NULL},
        {{"evict(policy=h2o,budget=4)"},
         "streams",
         "begins from its tokens",
         fields,
         &baseline.run.trace},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ss_edit edits[] = {read_edit(cases[i].edits[0]),
                           read_edit(cases[i].edits[1] ? cases[i].edits[1] : "silence(layer=1)")};
        ss_run_desc desc = {&model.model, T_MAX, cases[i].fields, edits, 2, cases[i].source, 0,
                            NULL,         0};
        ss_error err = {0};
        CHECK(try_run(&desc, &err) != SS_OK);
        CHECK(!strcmp(err.where, cases[i].where) && strstr(err.text, cases[i].text));
    }
    ss_edit edit = read_edit("evict(policy=h2o,budget=4)");
    ss_run_desc desc = {&model.model, T_MAX, fields, &edit, 1, NULL, 0, NULL, 0};
    scoped_run run = open_run(&desc);
    ss_tensor view;
    ss_error err;
    CHECK_INT((int)ss_trace_view(&view, &run.run.trace, SS_FIELD_K, -1, -1, &err), SS_BAD_REQUEST);
}

/* ---- beginning from another run -------------------------------------------------------------- */

static opened_run run_from(const ss_trace *source, int layer, uint32_t fields, const ss_edit *edits,
                           int n) {
    ss_run_desc desc = {source->model, T_MAX + 3, fields, edits, n, source, layer, NULL, 0};
    opened_run run = start_run(&desc, prompt, T_MAX);
    return run;
}

static void check_resumed_runs(void) {
    CASE("a run that begins after a layer of another run gives the same bits");
    for (int f = 0; f < FOLDERS; f++) {
        scoped_model model = open_model(folders[f]);
        for (int i = 0; i < PAIRS; i++) {
            ss_edit edit = read_edit(pairs[i].effective_edit);
            scoped_run reference = run_tokens(&model.model, prompt, T_MAX, &edit, 1);
            for (int layer = 0; layer <= model.model.arch.L; layer++) {
                scoped_run resumed_run =
                    run_from(&reference.run.trace, layer, SS_FIELDS_ALL, &edit, 1);
                check_same(&reference.run.trace, &resumed_run.run.trace, T_MAX);
            }
        }
    }
}

static void check_reuse_by_edits(void) {
    CASE("a run that begins from another starts at the first layer and token that an edit of any "
         "kind touches");
    static const struct {
        const char *edit;
        int layer, tokens;
    } expected[] = {
        {"operation(operation=sigmoid,layer=1)", 1, 0},
        {"mask(first=1,recent=2)", 0, 0},
        {"hide_key(key=5,layer=1)", 1, 5},
        {"hide_key(key=5,query=9)", 0, 9},
        {"self_only(token=6)", 0, 6},
        {"scale_value(key=3,layer=1,factor=2)", 1, 3},
        {"silence(layer=1,head=1)", 1, 0},
        {"park(layer=1,head=0,key=4)", 1, 4},
        {"clamp_channel(channel=3,layer=2,token=7)", 1, 7},
        {"clamp_channel(channel=3,layer=1,to=mean,token=7)", 0, 0},
        {"clamp_channel(channel=3,layer=0)", 0, 0},
        {"project(layer=1,key=4)", 0, 4},
        {"project(layer=1,key=4,from=heads)", 0, 4},
        {"swap_positions(a=8,b=5)", 0, 5},
        {"evict(policy=window,budget=5)", 0, 5},
        {"evict(policy=first,first=2,budget=5)", 0, 5},
        {"evict(policy=h2o,budget=5)", 0, 5},
        {"evict(policy=tova,budget=5)", 0, 5},
        {"evict(policy=lru,budget=5)", 0, 5},
        {"evict(policy=key_norm,budget=5)", 0, 5},
        {"evict(policy=vatp,budget=5)", 0, 5},
        {"evict(policy=random,budget=5)", 0, 5},
        {"evict(policy=snapkv,prompt=8,queries=2,pool=3,budget=5)", 0, 8},
        {"evict(policy=h2o,budget=5,layer=1)", 1, 5},
        {"quantize(what=values,bits=3,layer=1)", 0, 0},
        {"scale_weight(matrix=up,layer=1,row=1,column=2,factor=4)", 1, 0},
    };
    uint32_t common_fields = SS_FIELDS_ALL & ~(SS_BIT(SS_FIELD_EVICTED) | SS_BIT(SS_FIELD_ROUNDED) |
                                               SS_BIT(SS_FIELD_WEIGHT_ROUNDED));
    scoped_model model = open_model(LLAMA);
    for (int has_fewer_fields = 0; has_fewer_fields < 2; has_fewer_fields++) {
        ss_run_desc base_desc = {
            &model.model, T_MAX, has_fewer_fields ? common_fields : SS_FIELDS_ALL, NULL, 0, NULL, 0,
            NULL,         0};
        scoped_run baseline = start_run(&base_desc, prompt, T_MAX);
        for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
            ss_edit edit = read_edit(expected[i].edit);
            scoped_run reference = run_tokens(&model.model, prompt, T_MAX, &edit, 1);
            ss_run_desc desc = {&model.model,        T_MAX + 3,   SS_FIELDS_ALL, &edit, 1,
                                &baseline.run.trace, SS_BY_EDITS, NULL,          0};
            scoped_run resumed_run = open_run(&desc);
            CHECK_INT(resumed_run.run.pass->first_layer, expected[i].layer);
            CHECK_INT(resumed_run.run.pass->copied_tokens, expected[i].tokens);
            extend_run(&resumed_run, prompt, T_MAX);
            check_same(&reference.run.trace, &resumed_run.run.trace, T_MAX);
            check_updates(&resumed_run, &desc, prompt, T_MAX, 9);
        }
    }
}

/* ---- updates --------------------------------------------------------------------------------- */

static void check_tokens_kept_by_updates(void) {
    CASE("an update keeps the tokens before the first change, as far as the edits allow");
    static const struct {
        const char *edit;
        int changed_token, kept_n; /* index of the token that changes; 13: a token is appended */
    } expected[] = {
        {"silence(layer=1)", 13, 13},
        {"silence(layer=1)", 12, 12},
        {"silence(layer=1)", 5, 5},
        {"silence(layer=1)", 0, 0},
        {"evict(policy=h2o,budget=5)", 12, 5},
        {"evict(policy=h2o,budget=5)", 13, 5},
        {"evict(policy=tova,budget=5)", 4, 4},
        {"evict(policy=snapkv,budget=5,prompt=8,queries=2)", 12, 8},
        {"clamp_channel(channel=3,to=mean,prompt=6)", 12, 12},
        {"clamp_channel(channel=3,to=mean,prompt=6)", 5, 0},
        {"quantize(what=hidden,bits=4,by=tensor,prompt=6,first=1)", 12, 12},
        {"quantize(what=keys,bits=3,by=channel,prompt=6,symmetric=no)", 12, 12},
        {"quantize(what=queries,bits=3,by=channel,prompt=6)", 12, 12},
        {"clamp_channel(channel=3,to=mean)", 12, 0},
        {"project(key=3)", 12, 12},
        {"project(key=3)", 3, 3},
        {"quantize(what=keys,bits=4)", 12, 12},
        {"quantize(what=keys,bits=4)", 13, 13},
        {"quantize(what=keys,bits=4,by=channel)", 12, 0},
    };
    scoped_model model = open_model(LLAMA);
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        ss_edit edit = read_edit(expected[i].edit);
        ss_run_desc desc = {&model.model, T_MAX + 1, SS_FIELDS_ALL, &edit, 1, NULL, 0, NULL, 0};
        scoped_run run = open_run(&desc);
        ss_error err;
        int32_t text[T_MAX + 1] = {0};
        memcpy(text, prompt, sizeof prompt);
        extend_run(&run, text, T_MAX);
        text[expected[i].changed_token] = 7;
        must(ss_run_begin_update(&run.run, text, T_MAX + 1, &err), &err, "update");
        CHECK_INT(run.run.trace.T, expected[i].kept_n);
        while (ss_run_step(&run.run) > 0) continue;
        check_updated(&run, SS_OK, &desc, text, T_MAX + 1);
        /* An update to the same text recomputes only the logits after the last token. */
        must(ss_run_begin_update(&run.run, text, T_MAX + 1, &err), &err, "again");
        if (expected[i].kept_n > 5) CHECK(run.run.trace.T >= expected[i].kept_n);
    }
}

static void check_updates_of_streams(void) {
    CASE("a streaming run restarts with every text and equals a new one");
    scoped_model model = open_model(LLAMA);
    ss_edit edit = read_edit("evict(policy=h2o,budget=4)");
    ss_run_desc desc = {&model.model, T_MAX, SS_STREAMS | SS_BIT(SS_FIELD_LOSS), &edit, 1, NULL, 0,
                        NULL,         0};
    scoped_run run = open_run(&desc);
    check_updates(&run, &desc, prompt, T_MAX, 12);
}

/* Starts to extend a run, two tokens a piece, and abandons it after `steps` pieces; the next update
 * must equal a new run. */
static void check_update_after_abandonment(const ss_run_desc *desc, int steps) {
    scoped_run run = open_run(desc);
    ss_error err;
    extend_run(&run, prompt, 6);
    run.run.pass->chunk = 2;
    must(ss_run_begin(&run.run, prompt + 6, 5, &err), &err, "begin");
    for (int i = 0; i < steps; i++) ss_run_step(&run.run);
    check_updated(&run, ss_run_update(&run.run, prompt, T_MAX, &err), desc, prompt, T_MAX);
    check_updates(&run, desc, prompt, T_MAX, 4);
}

static void check_abandoned_extensions(void) {
    CASE("a run whose extension was abandoned after any piece can be updated");
    scoped_model model = open_model(LLAMA);
    ss_edit edit = read_edit("evict(policy=h2o,budget=4)");
    /* Without hidden states a run keeps only the logits after its last token. */
    static const uint32_t fields[] = {SS_FIELDS_ALL, SS_BIT(SS_FIELD_LOSS) | SS_BIT(SS_FIELD_RANK)};
    for (int edits_n = 0; edits_n < 2; edits_n++)
        for (int i = 0; i < 16; i++) {
            ss_run_desc desc = {&model.model, T_MAX, fields[i % 2], &edit, edits_n,
                                NULL,         0,     NULL,          0};
            check_update_after_abandonment(&desc, i / 2);
        }

    CASE("a refused update leaves the run unchanged");
    ss_run_desc desc = {&model.model, T_MAX, SS_FIELDS_ALL, NULL, 0, NULL, 0, NULL, 0};
    scoped_run run = open_run(&desc);
    ss_error err;
    int32_t text[T_MAX + 1];
    memcpy(text, prompt, sizeof prompt);
    extend_run(&run, prompt, T_MAX);
    text[T_MAX] = 1;
    CHECK_INT((int)ss_run_update(&run.run, text, T_MAX + 1, &err), SS_TOO_LONG);
    CHECK_INT((int)ss_run_update(&run.run, text, -1, &err), SS_TOO_LONG);
    text[4] = model.model.arch.V;
    CHECK_INT((int)ss_run_update(&run.run, text, 9, &err), SS_BAD_TOKEN);
    CHECK(!strcmp(err.where, "token 4"));
    check_updated(&run, SS_OK, &desc, prompt, T_MAX);

    CASE("a run that copied layers despite their edits cannot be updated");
    scoped_run resumed_run = run_from(&run.run.trace, 1, SS_FIELDS_ALL, &edit, 1);
    CHECK_INT((int)ss_run_update(&resumed_run.run, prompt, 5, &err), SS_UNSUPPORTED);
    CHECK_INT((int)ss_run_extend(&resumed_run.run, prompt, 1, &err), SS_UNSUPPORTED);
    CHECK_INT(resumed_run.run.trace.T, T_MAX);
    must(ss_run_update(&run.run, prompt, 0, &err), &err, "nothing");
    CHECK_INT(run.run.trace.T, 0);
    extend_run(&run, prompt, 4);
    check_updated(&run, SS_OK, &desc, prompt, 4);
}

/* Extends a run that began from the first n tokens of another run to the whole text. */
static void check_longer_run(const ss_trace *base, int n, const ss_trace *reference,
                             const ss_edit *edit) {
    ss_run_desc desc = {base->model, T_MAX, SS_FIELDS_ALL, edit, 1, base, SS_BY_EDITS, NULL, 0};
    scoped_run run = start_run(&desc, prompt, n);
    extend_run(&run, prompt + n, T_MAX - n);
    check_runs(reference, &run.run.trace, T_MAX);
}

static void check_start_between_capacities(void) {
    CASE("a run can begin from a run with less capacity, or from one that was truncated");
    static const char *const texts[] = {"silence(layer=1,head=1)", "hide_key(key=5)",
                                        "park(layer=1,key=4)", "evict(policy=h2o,budget=4)"};
    for (int f = 0; f < FOLDERS; f++) {
        scoped_model model = open_model(folders[f]);
        for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
            ss_edit edit = read_edit(texts[i]);
            scoped_run reference = run_edit(&model, texts[i]);
            scoped_run short_run = run_tokens(&model.model, prompt, 7, NULL, 0);
            int32_t other_tokens[T_MAX];
            for (int t = 0; t < T_MAX; t++)
                other_tokens[t] = t < 5 ? prompt[t] : prompt[T_MAX - 1 - t];
            scoped_run long_run = run_tokens(&model.model, other_tokens, T_MAX, NULL, 0);
            change_text(&long_run, prompt, 7);
            check_longer_run(&short_run.run.trace, 7, &reference.run.trace, &edit);
            check_longer_run(&long_run.run.trace, 7, &reference.run.trace, &edit);
        }
    }
}

static void check_start_from_lengths(void) {
    CASE("a run can begin from a run of 1 token up to its own capacity; fewer or more tokens are "
         "refused");
    scoped_model model = open_model(LLAMA), other_model = open_model(LLAMA);
    for (int n = 0; n <= T_MAX; n++) {
        ss_run_desc baseline_desc = {&model.model, T_MAX, SS_FIELDS_ALL, NULL, 0, NULL, 0, NULL, 0};
        scoped_run first_run = open_run(&baseline_desc);
        ss_error err;
        if (n) extend_run(&first_run, prompt, n);
        for (int capacity = T_MAX - 1; capacity <= T_MAX; capacity++) {
            ss_run_desc desc = {&model.model,         capacity,    SS_FIELDS_ALL, NULL, 0,
                                &first_run.run.trace, SS_BY_EDITS, NULL,          0};
            bool is_possible = n >= 1 && n <= capacity;
            CHECK_INT((int)try_run(&desc, &err), is_possible ? SS_OK : SS_BAD_REQUEST);
            if (!is_possible) CHECK(!strcmp(err.where, "from"));
            if (!is_possible || capacity < T_MAX) continue;
            scoped_run resumed_run = start_run(&desc, prompt, n);
            check_same(&first_run.run.trace, &resumed_run.run.trace, n);
            desc.model = &other_model.model;
            CHECK_INT((int)try_run(&desc, &err), SS_BAD_REQUEST);
        }
    }
}

static void check_rejected_bases(void) {
    CASE("an unsuitable base run is refused with the reason, and a run accepts only the tokens of "
         "its base");
    scoped_model model = open_model(LLAMA), other_model = open_model(LLAMA);
    scoped_run baseline = run_tokens(&model.model, prompt, T_MAX, NULL, 0);
    ss_run_desc loss_desc = {&model.model, T_MAX, SS_BIT(SS_FIELD_LOSS), NULL, 0, NULL, 0, NULL, 0};
    scoped_run loss_run = start_run(&loss_desc, prompt, T_MAX);
    ss_error err;
    const ss_trace *source = &baseline.run.trace;
    const struct {
        ss_run_desc desc;
        const char *where, *text;
    } cases[] = {
        {{&other_model.model, T_MAX, 0, NULL, 0, source, 1, NULL, 0}, "from", "same model"},
        {{&model.model, T_MAX - 1, 0, NULL, 0, source, 1, NULL, 0}, "from", "1 to 12 tokens"},
        {{&model.model, T_MAX, 0, NULL, 0, source, 3, NULL, 0}, "layer", "0 to 2"},
        {{&model.model, T_MAX, 0, NULL, 0, source, -2, NULL, 0}, "layer", "0 to 2"},
        {{&model.model, T_MAX, 0, NULL, 0, &loss_run.run.trace, 1, NULL, 0},
         "from",
         "recorded hidden"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        CHECK_INT((int)try_run(&cases[i].desc, &err), SS_BAD_REQUEST);
        CHECK(!strcmp(err.where, cases[i].where) && strstr(err.text, cases[i].text));
    }
    ss_run_desc desc = {&model.model, T_MAX + 3, 0, NULL, 0, source, 1, NULL, 0};
    scoped_run run = open_run(&desc);
    int32_t other_tokens[T_MAX] = {0};
    CHECK_INT((int)ss_run_extend(&run.run, prompt, 4, &err), SS_UNSUPPORTED);
    CHECK_INT((int)ss_run_extend(&run.run, other_tokens, T_MAX, &err), SS_BAD_REQUEST);
    CHECK_INT((int)ss_run_extend(&run.run, prompt, T_MAX, &err), SS_OK);
    CHECK_INT((int)ss_run_extend(&run.run, prompt, 1, &err), SS_UNSUPPORTED);
}

/* ---- refusals -------------------------------------------------------------------------------- */

static void check_refusals(void) {
    CASE(
        "impossible edits are refused with a place and a sentence, and those beside them accepted");
    cJSON *row;
    cJSON_ArrayForEach(row, cJSON_GetObjectItem(tables, "edits")) {
        char folder[64];
        snprintf(folder, sizeof folder, "tests/golden/%s", text_in(row, 0));
        opened_model model = open_model(folder);
        ss_edit edit = read_edit(text_in(row, 1));
        ss_run_desc desc = {&model.model, T_MAX, SS_FIELDS_ALL, &edit, 1, NULL, 0, NULL, 0};
        ss_error err = {0};
        ss_status status = try_run(&desc, &err);
        check_refusal(row, 2, status, &err);
        close_model(&model);
    }
    opened_model model = open_model(LLAMA);
    ss_error err;
    ss_edit unknown_edits[] = {{.kind = 99}, {.kind = -1}};
    for (int i = 0; i < 2; i++) {
        ss_run_desc desc = {&model.model, T_MAX, SS_FIELDS_ALL, &unknown_edits[i], 1, NULL, 0,
                            NULL,         0};
        CHECK_INT((int)try_run(&desc, &err), SS_BAD_REQUEST);
        char text[64];
        int rows;
        ss_edits(&rows);
        snprintf(text, sizeof text, "0 to %d, found %d", rows - 1, unknown_edits[i].kind);
        CHECK(strstr(err.text, text));
    }
    ss_edit evictions[] = {read_edit("evict(policy=window,budget=4,layer=1)"),
                           read_edit("evict(policy=h2o,budget=4,head=0)")};
    ss_run_desc desc = {&model.model, T_MAX, SS_FIELDS_ALL, evictions, 2, NULL, 0, NULL, 0};
    CHECK_INT((int)try_run(&desc, &err), SS_BAD_REQUEST);
    CHECK(!strcmp(err.where, "edits[1].evict"));
    const char *scaling = "scale_weight(matrix=o,layer=0,row=1,column=2,factor=40)";
    const char *rounding = "quantize(what=weights,bits=4,by=channel)";
    for (int i = 0; i < 2; i++) {
        ss_edit edits[] = {read_edit(i ? scaling : rounding), read_edit(i ? rounding : scaling)};
        desc.edits = edits;
        CHECK_INT((int)try_run(&desc, &err), SS_BAD_REQUEST);
        CHECK(strstr(err.text, "found both") != NULL);
        edits[i ? 1 : 0] = read_edit("quantize(what=keys,bits=4)");
        CHECK_INT((int)try_run(&desc, &err), SS_OK);
    }
    close_model(&model);
}

static void check_heads_of_a_group(void) {
    CASE("heads of one group may compute different feature maps");
    scoped_model model = open_model(LLAMA);
    scoped_run mixed_run = run_edit(&model, "operation(operation=elu1_kernel,layer=0,head=1)");
    scoped_run kernel_run = run_edit(&model, "operation(operation=elu1_kernel)");
    scoped_run baseline = run_edit(&model, "operation(operation=softmax)");
    for (int h = 0; h < model.model.arch.H; h++) {
        const opened_run *equal_run = h == 1 ? &kernel_run : &baseline;
        CHECK_BITS(att_row(&mixed_run.run.trace, 0, h, 0), att_row(&equal_run->run.trace, 0, h, 0),
                   T_MAX * T_MAX * sizeof(float));
    }
}

static const float *scores_of(const opened_run *run, int head, int t) {
    return ss_row(&run->run.trace, SS_FIELD_SCORES, head, t);
}

/* Tests that a score depends on its query, its key and their positions, but not on other visible
 * keys. */
static void check_positions_under_masks(const char *folder) {
    CASE("swapped positions change the distances under a mask, an eviction and a hidden key");
    static const char *const other_edits[] = {"mask(first=1,recent=3)", "hide_key(key=2)",
                                              "evict(policy=window,budget=5)",
                                              "evict(policy=first,first=1,budget=4)"};
    scoped_model model = open_model(folder);
    const ss_edit swap = read_edit("swap_positions(a=0,b=5)");
    scoped_run baseline = run_tokens(&model.model, prompt, T_MAX, NULL, 0);
    scoped_run swapped_run = run_tokens(&model.model, prompt, T_MAX, &swap, 1);
    for (size_t i = 0; i < sizeof other_edits / sizeof *other_edits; i++) {
        ss_edit edits[] = {swap, read_edit(other_edits[i])};
        scoped_run run = run_tokens(&model.model, prompt, T_MAX, edits, 2);
        for (int head = 0; head < model.model.arch.H; head++)
            for (int t = 0; t < T_MAX; t++)
                for (int j = 0; j <= t; j++)
                    if (att_row(&run.run.trace, 0, head, t)[j] != 0.0f)
                        CHECK_BITS(scores_of(&run, head, t) + j,
                                   scores_of(&swapped_run, head, t) + j, sizeof(float));
    }
    CHECK(memcmp(scores_of(&baseline, 0, 5), scores_of(&swapped_run, 0, 5), 6 * sizeof(float)) !=
          0);
}

static void check_keeps_first(void) {
    CASE("keeps_first is 1 up to the query that evicts the first key");
    scoped_model model = open_model(LLAMA);
    scoped_run run = run_edit(&model, "evict(policy=window,budget=5)");
    for (int T = 1; T <= T_MAX; T++) {
        scoped float *is_kept =
            measure(&run.run.trace, "keeps_first", SS_EPS_STANDARD, T, 0, 0, NULL);
        for (int head = 0; head < 8; head++) CHECK_INT(is_kept[head], T <= 5);
    }
}

/* Returns number d of the attention output of layer a for token t, computed from the recorded head
 * outputs minus their components along the first value of each head. */
static double output_without_tag(const ss_trace *trace, int a, int t, size_t d) {
    const ss_arch *arch = &trace->model->arch;
    size_t U = (size_t)ss_arch_sizes(arch, a).U;
    float row[512];
    double sum = 0.0;
    ss_matrix_unpack_output(row, &trace->model->layers[arch->layers[a]].o.w, d);
    for (int h = 0; h < arch->H; h++) {
        int head = a * arch->H + h;
        const float *v = ss_row(trace, SS_FIELD_V, ss_arch_group_row(arch, head), 0);
        const float *out = ss_row(trace, SS_FIELD_HEAD_OUT, head, t);
        double projection = 0.0, square = 0.0;
        for (size_t i = 0; i < U; i++) {
            projection += (double)out[i] * (double)v[i];
            square += (double)v[i] * (double)v[i];
        }
        for (size_t i = 0; i < U; i++)
            sum += (double)row[(size_t)h * U + i] *
                   ((double)out[i] - projection / square * (double)v[i]);
    }
    return sum;
}

static void check_tags_of_any_width(void) {
    CASE("project removes the direction of the first value, for any width of values");
    static const char *const wide_models[] = {LLAMA, DEEPSEEK, MIMO};
    for (size_t f = 0; f < sizeof wide_models / sizeof *wide_models; f++) {
        scoped_model model = open_model(wide_models[f]);
        scoped_run run = run_edit(&model, "project(key=0,from=heads)");
        const ss_arch *arch = &model.model.arch;
        for (int a = 0; a < arch->L; a++)
            for (int t = 1; t < T_MAX; t++)
                for (size_t d = 0; d < (size_t)arch->D; d++)
                    CHECK_NEAR(ss_row(&run.run.trace, SS_FIELD_ATT_OUT, a, t)[d],
                               output_without_tag(&run.run.trace, a, t, d), 2e-5);
    }
}

int main(void) {
    open_tables("edits.json");
    check_listed_rows();
    check_edits_without_effect();
    check_edits_with_nothing_to_do();
    check_heads_of_a_group();
    check_positions_under_masks("tests/golden/var-alibi");
    check_positions_under_masks("tests/golden/var-relative");
    check_keeps_first();
    check_tags_of_any_width();
    check_budgets();
    check_window_is_a_mask();
    check_cache_positions(LLAMA);
    check_cache_positions(DEEPSEEK);
    check_cache_positions("tests/golden/var-bias-key");
    check_texts_beyond_the_context();
    check_streams();
    check_stream_memory();
    check_refused_streams();
    check_resumed_runs();
    check_reuse_by_edits();
    check_tokens_kept_by_updates();
    check_updates_of_streams();
    check_abandoned_extensions();
    check_start_between_capacities();
    check_start_from_lengths();
    check_rejected_bases();
    check_refusals();
    close_tables("edits.json");
    return check_done();
}
