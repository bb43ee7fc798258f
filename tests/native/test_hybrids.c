/*
 * Hybrids: models whose layers have mixers in place of attention, or in addition to it. test_golden
 * compares their maps, hidden states and logits with transformers, also after updates, and
 * test_maps measuring runs; these tests check the states after abandoned extensions, in runs that
 * begin from another and in streams, and that layers keep their indices.
 */
#include "check.h"
#include "files.h"
#include "run/maps.h"
#include "run/pass.h"
#include "traces.h"

#define T_MAX 33

static const char *const folders[] = {
    "tests/golden/hf-qwen3_next",       "tests/golden/hf-qwen3_5",
    "tests/golden/hf-qwen3_next-types", "tests/golden/hf-lfm2",
    "tests/golden/hf-lfm2-indices",     "tests/golden/hf-falcon_h1",
    "tests/golden/hf-falcon_h1-biases",
};
#define FOLDERS (sizeof folders / sizeof *folders)

/* The model of LFM2, with attention in layers 1 and 3 of four. */
#define LFM2 folders[3]

static int32_t prompt[T_MAX];

static void write_prompt(void) {
    uint32_t state = 5;
    for (int t = 0; t < T_MAX; t++) prompt[t] = (int32_t)((next_random(&state) >> 8) % 61);
}

static void check_numbers_of_layers(void) {
    CASE("the description and the fields keep the indices of the layers with attention");
    scoped_model model = open_model(LFM2);
    const ss_arch *arch = &model.model.arch;
    CHECK_INT(arch->L, 2);
    CHECK_INT(arch->blocks, 4);
    CHECK_INT(ss_states(arch), 5);
    const int expected[] = {-1, 0, -1, 1};
    for (int l = 0; l < 4; l++) CHECK_INT(ss_attention_of(arch, l), expected[l]);
    const int layers_below[] = {0, 0, 1, 1, 2};
    for (int l = 0; l <= 4; l++) CHECK_INT(ss_attention_layers_below(arch, l), layers_below[l]);
    char text[4096];
    ss_error err;
    must(ss_describe_model(text, sizeof text, &model.model, &err), &err, "describe");
    CHECK(strstr(text, "\"L\":2") && strstr(text, "\"blocks\":4,\"layers\":[1,3]"));
}

static void check_abandoned_updates(const char *folder) {
    CASE("the next update does not read the states of an abandoned extension");
    scoped_model model = open_model(folder);
    ss_run_desc desc = {&model.model, T_MAX, SS_FIELDS_ALL, NULL, 0, NULL, 0, NULL, 0};
    ss_error err;
    for (int pieces = 1; pieces <= model.model.arch.blocks; pieces++) {
        scoped_run run = start_run(&desc, prompt, 9);
        must(ss_run_begin(&run.run, prompt + 9, 11, &err), &err, "begin");
        for (int i = 0; i < pieces; i++) ss_run_step(&run.run);
        ss_status status = ss_run_update(&run.run, prompt, 20, &err);
        check_updated(&run, status, &desc, prompt, 20);
    }
}

static void check_start_from_another(const char *folder) {
    CASE("a run that begins after any layer of another, or after its last token before an edit, "
         "gives the bits of a run from the tokens, and can be extended");
    scoped_model model = open_model(folder);
    const ss_arch *arch = &model.model.arch;
    scoped_run base = run_tokens(&model.model, prompt, 20, NULL, 0);
    for (int a = 0; a <= arch->L; a++) {
        char text[48] = "hide_key(key=9)";
        if (a < arch->L) snprintf(text, sizeof text, "silence(layer=%d,head=1)", arch->layers[a]);
        ss_edit edit = read_edit(text);
        ss_run_desc baseline = {&model.model, T_MAX, SS_FIELDS_ALL, &edit, 1, NULL, 0, NULL, 0};
        ss_run_desc desc = baseline;
        desc.from = &base.run.trace;
        desc.layer = SS_BY_EDITS;
        scoped_run run = open_run(&desc), new_run = start_run(&baseline, prompt, 20);
        if (a < arch->L) CHECK_INT(run.run.pass->first_layer, arch->layers[a]);
        extend_run(&run, prompt, 20);
        check_runs(&new_run.run.trace, &run.run.trace, 20);
        extend_run(&run, prompt + 20, 3);
        extend_run(&new_run, prompt + 20, 3);
        check_runs(&new_run.run.trace, &run.run.trace, 23);
        check_updates(&run, &baseline, prompt, 23, 4);
    }
}

static void check_streams(const char *folder) {
    CASE("a streaming run with mixers gives the losses of a run that keeps all keys");
    scoped_model model = open_model(folder);
    ss_edit edit = read_edit("evict(policy=first,first=2,budget=6)");
    ss_run_desc desc = {&model.model, T_MAX, SS_BIT(SS_FIELD_LOSS), &edit, 1, NULL, 0, NULL, 0};
    scoped_run full_run = open_run(&desc);
    desc.fields |= SS_STREAMS;
    scoped_run streaming_run = open_run(&desc);
    extend_run(&full_run, prompt, T_MAX);
    for (int t = 0; t < T_MAX; t++) extend_run(&streaming_run, prompt + t, 1);
    CHECK_BITS(ss_floats(&full_run.run.trace, SS_FIELD_LOSS) + 1,
               ss_floats(&streaming_run.run.trace, SS_FIELD_LOSS) + 1, (T_MAX - 1) * sizeof(float));
}

static void check_edits_by_number(void) {
    CASE("an edit names a layer by its index among all layers; an edit of a head in a layer "
         "without attention is refused");
    scoped_model model = open_model(LFM2);
    const struct {
        const char *text,
            *place; /* place: expected place of the error; NULL if the edit is possible */
    } edits[] = {
        {"silence(layer=0,head=1)", "edits[0].layer"},
        {"hide_key(key=0,layer=2)", "edits[0].layer"},
        {"operation(operation=sigmoid,layer=0)", "edits[0].layer"},
        {"evict(policy=window,budget=4,layer=2)", "edits[0].layer"},
        {"project(layer=0)", "edits[0].layer"},
        {"quantize(what=keys,bits=4,layer=0)", "edits[0].quantize"},
        {"scale_weight(matrix=q,layer=0,row=0,column=0)", "edits[0].scale_weight"},
        {"silence(layer=4,head=1)", "edits[0].layer"},
        {"silence(layer=3,head=1)", NULL},
        {"quantize(what=hidden,bits=4,layer=0)", NULL},
        {"quantize(what=weights,bits=4,by=tensor,layer=0)", NULL},
        {"scale_weight(matrix=up,layer=0,row=0,column=0)", NULL},
        {"clamp_channel(channel=1,layer=4)", NULL},
    };
    for (size_t i = 0; i < sizeof edits / sizeof *edits; i++) {
        ss_edit edit = read_edit(edits[i].text);
        ss_run_desc desc = {&model.model, T_MAX, SS_FIELDS_ALL, &edit, 1, NULL, 0, NULL, 0};
        size_t bytes;
        ss_error err = {.where = ""};
        ss_run run;
        ss_status status = ss_run_size(&bytes, &desc, &err);
        ss_arena arena = {0};
        if (status == SS_OK) {
            arena = ss_arena_on(malloc(bytes), bytes);
            status = ss_run_init(&run, &desc, &arena, &err);
        }
        if (check_failed((status == SS_OK) == !edits[i].place, __FILE__, __LINE__,
                         "refused or not"))
            printf("    %s: %s\n", edits[i].text, err.text);
        if (edits[i].place) CHECK_TEXT(err.where, edits[i].place);
        free(arena.block);
    }

    CASE("an edit of layer 3 changes the maps of that layer, not those of the first layer with "
         "attention");
    const char *const changes[] = {"hide_key(key=0,layer=3)",
                                   "self_only(token=9,layer=3)",
                                   "operation(operation=sigmoid,layer=3)",
                                   "mask(first=1,recent=3,layer=3)",
                                   "park(key=1,layer=3)",
                                   "evict(policy=first,first=1,budget=4,layer=3)"};
    size_t map_numbers = T_MAX * T_MAX * (size_t)model.model.arch.H;
    scoped_run baseline_run = run_tokens(&model.model, prompt, T_MAX, NULL, 0);
    const float *maps = ss_floats(&baseline_run.run.trace, SS_FIELD_ATT);
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        ss_edit change = read_edit(changes[i]);
        scoped_run run = run_tokens(&model.model, prompt, T_MAX, &change, 1);
        const float *changed_maps = ss_floats(&run.run.trace, SS_FIELD_ATT);
        CHECK_BITS(maps, changed_maps, map_numbers * sizeof *maps);
        CHECK(memcmp(maps + map_numbers, changed_maps + map_numbers, map_numbers * sizeof *maps) !=
              0);
    }

    CASE("an edit of layer 3 changes no hidden state before the layer");
    ss_edit edit = read_edit("silence(layer=3)");
    scoped_run baseline = run_tokens(&model.model, prompt, T_MAX, NULL, 0);
    scoped_run silent_run = run_tokens(&model.model, prompt, T_MAX, &edit, 1);
    size_t state_numbers = T_MAX * (size_t)model.model.arch.D;
    const float *baseline_states = ss_floats(&baseline.run.trace, SS_FIELD_HIDDEN);
    const float *edited_states = ss_floats(&silent_run.run.trace, SS_FIELD_HIDDEN);
    CHECK_BITS(baseline_states, edited_states, 4 * state_numbers * sizeof *baseline_states);
    CHECK(memcmp(baseline_states + 4 * state_numbers, edited_states + 4 * state_numbers,
                 state_numbers * sizeof *baseline_states) != 0);
}

int main(void) {
    write_prompt();
    check_numbers_of_layers();
    for (size_t i = 0; i < FOLDERS; i++) {
        printf("  %s\n", folders[i]);
        check_abandoned_updates(folders[i]);
        check_start_from_another(folders[i]);
        check_streams(folders[i]);
    }
    check_edits_by_number();
    return check_done();
}
