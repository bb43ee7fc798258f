/*
 * Families: every config key is computed or refused by name, never ignored; and properties of the
 * features of families: windows, experts, steps.
 */
#include "model/families/family.h"
#include "model/rotary.h"
#include "tables.h"
#include "traces.h"

#include <math.h>

/* ---- configs ------------------------------------------------------------------------------ */

static ss_status read_object(ss_arch *arch, const cJSON *config, ss_error *err) {
    char *text = cJSON_PrintUnformatted(config); /* of its exact size, for the sanitizers */
    ss_status status = ss_arch_read(arch, (ss_bytes){(unsigned char *)text, strlen(text)}, err);
    cJSON_free(text);
    return status;
}

/* Reads the config that row[0] names, with the keys of row[1] added or put in place of its own. */
static ss_status read_row(ss_arch *arch, const cJSON *row, ss_error *err) {
    const cJSON *bases = cJSON_GetObjectItem(tables, "bases"), *change;
    cJSON *config = cJSON_Duplicate(cJSON_GetObjectItem(bases, text_in(row, 0)), true);
    if (!config) {
        printf("no config is called %s\n", text_in(row, 0));
        exit(2);
    }
    cJSON_ArrayForEach(change, cJSON_GetArrayItem(row, 1)) {
        cJSON_DeleteItemFromObjectCaseSensitive(config, change->string);
        cJSON_AddItemToObject(config, change->string, cJSON_Duplicate(change, true));
    }
    ss_status status = read_object(arch, config, err);
    cJSON_Delete(config);
    return status;
}

static void check_values(void) {
    CASE("unsupported and malformed config values are refused, and others are read");
    cJSON *row;
    cJSON_ArrayForEach(row, cJSON_GetObjectItem(tables, "values")) {
        ss_arch arch;
        ss_error err = {0};
        ss_status status = read_row(&arch, row, &err);
        check_refusal(row, 2, status, &err);
        if (status == SS_UNSUPPORTED) CHECK(strstr(err.text, "and open the recording") != NULL);
    }
}

static void check_ranges(void) {
    CASE("a number out of range is refused with its limits");
    const cJSON *row;
    cJSON_ArrayForEach(row, cJSON_GetObjectItem(tables, "ranges")) {
        double low = cJSON_GetArrayItem(row, 3)->valuedouble,
               high = cJSON_GetArrayItem(row, 4)->valuedouble;
        double values[] = {low, high, low - 1, high + 1, low + 0.5};
        for (int v = 0; v < 5; v++) {
            cJSON *changed_row = cJSON_Duplicate(row, true);
            cJSON *changes = cJSON_GetArrayItem(changed_row, 1);
            cJSON_DeleteItemFromObject(changes, text_in(row, 2));
            cJSON_AddNumberToObject(changes, text_in(row, 2), values[v]);
            char refusal[256];
            snprintf(refusal, sizeof refusal,
                     "config.json: expected a whole number from %.10g to %.10g, found %.10g", low,
                     high, values[v]);
            ss_arch arch;
            ss_error err = {0};
            read_row(&arch, changed_row, &err);
            bool is_refused = !strcmp(err.where, text_in(row, 2)) && !strcmp(err.text, refusal);
            check_text(changed_row, is_refused ? "refused" : "read", v > 1 ? "refused" : "read");
            cJSON_Delete(changed_row);
        }
    }
}

static void check_keys_refused_by_all(void) {
    CASE("in any family, keys that change the arithmetic are refused by name unless they are off");
    static const struct {
        const char *key, *enabled, *disabled;
    } keys[] = {
        {"attn_logit_softcapping", "50.0", "null"},
        {"final_logit_softcapping", "30.0", "null"},
        {"attention_chunk_size", "8192", "null"},
        {"use_mrope", "true", "false"},
        {"use_bidirectional_attention", "true", "null"},
        {"scale_attn_by_inverse_layer_idx", "true", "false"},
        {"add_cross_attention", "true", "false"},
        {"_remove_final_layer_norm", "true", "false"},
        {"per_layer_config", "{\"0\":{\"head_dim\":2}}", "null"},
        {"no_rope_layers", "[1, 0]", "[]"},
        {"rope_interleaved", "true", "false"},
        {"logits_scaling", "8.0", "1.0"},
        {"quantization_config", "{\"quant_method\":\"mxfp4\"}", "null"},
    };
    const cJSON *name;
    cJSON_ArrayForEach(name, cJSON_GetObjectItem(tables, "refusing")) {
        /* Gemma 2 computes the first two of `keys`, the soft caps. */
        size_t k = strcmp(name->valuestring, "gemma2") ? 0 : 2;
        for (; k < sizeof keys / sizeof *keys; k++)
            for (int is_on = 0; is_on < 2; is_on++) {
                char text[256];
                snprintf(text, sizeof text, "[\"%s\",{\"%s\":%s},\"%s\",\"%s\"]", name->valuestring,
                         keys[k].key, is_on ? keys[k].enabled : keys[k].disabled,
                         is_on ? "unsupported" : "ok", is_on ? keys[k].key : "");
                cJSON *row = cJSON_Parse(text);
                ss_arch arch;
                ss_error err = {0};
                check_text(row, ss_status_name(read_row(&arch, row, &err)), text_in(row, 2));
                check_text(row, err.where, text_in(row, 3));
                if (is_on) CHECK(strstr(err.text, "and open the recording") != NULL);
                cJSON_Delete(row);
            }
    }
}

static void check_another_family(void) {
    CASE("the error for an unknown family begins with its name and says how to record it");
    static const char config[] =
        "{\"model_type\":\"a_model_type_of_more_than_forty_characters_in_all\"}";
    ss_arch arch;
    ss_error err;
    CHECK_INT(
        (int)ss_arch_read(&arch, (ss_bytes){(const unsigned char *)config, strlen(config)}, &err),
        SS_UNSUPPORTED);
    CHECK(strstr(err.text, "cannot run a_model_type_of_more_than_forty_characte; record "));
}

/* Checks row[2] of each row of a table against what `write` makes of the row's architecture. */
static void check_archs(const char *table, void (*write)(char text[64], const ss_arch *arch)) {
    const cJSON *row;
    cJSON_ArrayForEach(row, cJSON_GetObjectItem(tables, table)) {
        char text[64] = "";
        ss_arch arch;
        ss_error err;
        must(read_row(&arch, row, &err), &err, table);
        write(text, &arch);
        check_text(row, text, text_in(row, 2));
    }
}

/* Writes "512." for a window of 512 in the first layer and none in the second. */
static void write_windows(char text[64], const ss_arch *arch) {
    size_t n = 0;
    for (int l = 0; l < arch->L; l++) {
        int window = ss_arch_window(arch, l);
        n += (size_t)(window ? snprintf(text + n, 64 - n, "%d", window)
                             : snprintf(text + n, 64 - n, "."));
    }
}

/* Writes "r." if the first layer rotates queries and keys and the second does not. */
static void write_rotations(char text[64], const ss_arch *arch) {
    for (int l = 0; l < arch->L; l++) text[l] = ss_arch_rotates(arch, l) ? 'r' : '.';
}

static void write_top_k(char text[64], const ss_arch *arch) {
    snprintf(text, 64, "%d", arch->top_k);
}

static void check_layers(void) {
    CASE("each family gives the right layers a window, of the right width");
    check_archs("windows", write_windows);
    CASE("in families that mix windowed and full attention, the layers with full attention do not "
         "rotate");
    check_archs("rotations", write_rotations);
    CASE("gpt_oss: without a key for their number, a token uses four experts, or all if there are "
         "fewer");
    check_archs("experts", write_top_k);
}

/* ---- models ------------------------------------------------------------------------------- */

#define T_MAX 20
static const int32_t prompt[T_MAX] = {3, 14, 15, 9, 26, 5, 35, 8, 9,  7,
                                      9, 32, 38, 4, 6,  2, 6,  4, 33, 8};

/* Folders of tests/golden: the decoders of configs.json, then its encoders. */
#define FOLDERS_MAX 128
static const char *folders[FOLDERS_MAX];
static size_t folders_n, decoders_n;

static void list_folders(const char *kind) {
    const cJSON *folder;
    cJSON_ArrayForEach(folder, cJSON_GetObjectItem(tables, kind)) {
        if (folders_n == FOLDERS_MAX) exit(2);
        folders[folders_n++] = folder->valuestring;
    }
}

static const char *path_of(const char *folder) {
    static char path[128];
    snprintf(path, sizeof path, "tests/golden/%s", folder);
    return path;
}

typedef struct opened_folder {
    opened_model model;
    opened_run run;
} opened_folder;

static opened_folder *open_folder(const char *folder) {
    opened_folder *opened =
        malloc(sizeof *opened); /* allocated, since the run keeps the model's address */
    if (!opened) exit(2);
    opened->model = open_model(path_of(folder));
    opened->run = run_tokens(&opened->model.model, prompt, T_MAX, NULL, 0);
    return opened;
}

static void close_folder(opened_folder **opened) {
    close_run(&(*opened)->run);
    close_model(&(*opened)->model);
    free(*opened);
}

#define scoped_folder __attribute__((cleanup(close_folder))) opened_folder

static void check_kept_panels(void) {
    CASE("weights kept as panels give the same bits in every family");
    for (size_t f = 0; f < folders_n; f++) {
        scoped_folder *opened = open_folder(folders[f]);
        const ss_trace *reference = &opened->run.run.trace;
        ss_model *model = &opened->model.model;
        ss_arena measure = ss_arena_measure();
        ss_model_keep_panels(model, &measure);
        bool has_head = model->head.w.data != NULL;
        CHECK(!model->head.w.panels && !model->layers[0].q.w.panels);
        ss_arena arena = arena_of(measure.used);
        ss_model_keep_panels(model, &arena);
        CHECK(model->layers[0].q.w.panels && arena.used == arena.bytes);
        CHECK_INT(model->head.w.panels != NULL, has_head);
        check_steps(reference, prompt, T_MAX, T_MAX);
        if (f < decoders_n) check_steps(reference, prompt, T_MAX, 1);
        free(arena.block);
    }
}

static void check_interleaved_weights(void) {
    CASE("weights interleaved in place give the same bits in every family");
    int tied_n = 0;
    for (size_t f = 0; f < folders_n; f++) {
        scoped_folder *opened = open_folder(folders[f]);
        const ss_trace *reference = &opened->run.run.trace;
        ss_model *model = &opened->model.model;
        scoped float *work = malloc(ss_model_interleave_work(model) * sizeof *work);
        if (!work) abort();
        ss_model_interleave(model, work);
        CHECK(model->layers[0].o.w.interleaved);
        tied_n += model->embedding.w.interleaved;
        check_steps(reference, prompt, T_MAX, T_MAX);
        if (f < decoders_n) check_steps(reference, prompt, T_MAX, 1);
    }
    CHECK(tied_n > 0);
}

/* Checks a field in layers of different sizes: rows of key/value heads that a layer does not have
 * are NaN, and numbers beyond the layer's own width are 0. */
static void check_field_sizes(const ss_trace *trace, ss_field_id field, int a, int width) {
    const ss_arch *arch = &trace->model->arch;
    for (int g = 0; g < arch->G; g++)
        for (int t = 0; t < T_MAX; t++) {
            const float *row = ss_row(trace, field, a * arch->G + g, t);
            for (size_t i = 0; i < trace->widths[field]; i++)
                if (g >= ss_arch_sizes(arch, a).G)
                    CHECK(isnan(row[i]));
                else
                    CHECK((row[i] == 0.0f) == ((int)i >= width));
        }
}

/* Checks the fields of a run whose memory was zero before; the arenas of other tests are filled
 * with NaN. */
static void check_sizes_in_zeroed_memory(const ss_model *model) {
    ss_run_desc desc = {model, T_MAX, SS_FIELDS_ALL, NULL, 0, NULL, 0, NULL, 0};
    ss_error err;
    ss_run run;
    size_t bytes;
    must(ss_run_size(&bytes, &desc, &err), &err, "size");
    ss_arena arena = arena_of(bytes);
    memset(arena.block, 0, bytes);
    must(ss_run_init(&run, &desc, &arena, &err), &err, "init");
    must(ss_run_extend(&run, prompt, T_MAX, &err), &err, "extend");
    for (int a = 0; a < model->arch.L; a++) {
        check_field_sizes(&run.trace, SS_FIELD_K, a, ss_arch_sizes(&model->arch, a).K);
        check_field_sizes(&run.trace, SS_FIELD_V, a, ss_arch_sizes(&model->arch, a).U);
    }
    free(arena.block);
}

static void check_sizes_of_layers(void) {
    CASE("layers may have fewer or narrower key/value heads: absent heads are NaN, absent "
         "dimensions 0");
    static const char *const uneven_folders[] = {"hf-mimo_v2_flash", "hf-mimo_v2_flash-types",
                                                 "hf-gemma4", "hf-gemma4-narrow"};
    static const char *const metrics[] = {"key_norm", "value_norm", "key_ratio", "value_ratio"};
    int absent_n = 0;
    for (size_t f = 0; f < sizeof uneven_folders / sizeof *uneven_folders; f++) {
        scoped_folder *opened = open_folder(uneven_folders[f]);
        const ss_trace *trace = &opened->run.run.trace;
        const ss_arch *arch = &trace->model->arch;
        check_sizes_in_zeroed_memory(trace->model);
        for (size_t m = 0; m < sizeof metrics / sizeof *metrics; m++) {
            size_t count;
            scoped float *numbers = measure(trace, metrics[m], 0.3f, 0, 0, 0, &count);
            size_t row_numbers = count / (size_t)(arch->L * arch->G);
            for (size_t i = 0; i < count; i++) {
                int row = (int)(i / row_numbers), a = row / arch->G;
                bool is_absent = row % arch->G >= ss_arch_sizes(arch, a).G;
                CHECK_INT(isnan(numbers[i]), is_absent);
                absent_n += is_absent;
            }
        }
    }
    CHECK(absent_n > 100);
}

static void check_routers(void) {
    CASE("equal router weights select the first experts");
    scoped_model equal_model = open_model(path_of("hf-mixtral"));
    for (int l = 0; l < equal_model.model.arch.L; l++) {
        const ss_matrix *router = &equal_model.model.layers[l].router.w;
        memset((void *)(size_t)router->data, 0,
               router->out * ss_dtype_bytes(router->type, router->in));
    }
    scoped_run equal_run = run_tokens(&equal_model.model, prompt, T_MAX, NULL, 0);
    const float halves[5] = {0.5f, 0.5f};
    for (int t = 0; t < T_MAX; t++)
        CHECK_BITS(ss_row(&equal_run.run.trace, SS_FIELD_ROUTER, 0, t), halves, sizeof halves);
    CASE("reading the router of a model without experts is refused with that reason");
    scoped_folder *dense_folder = open_folder("hf-qwen3");
    ss_tensor view;
    ss_error err;
    CHECK_INT(
        (int)ss_trace_view(&view, &dense_folder->run.run.trace, SS_FIELD_ROUTER, -1, -1, &err),
        SS_BAD_REQUEST);
    CHECK(strstr(err.text, "experts") != NULL && !strcmp(err.where, "router"));
}

static void check_encoders(void) {
    CASE(
        "an encoder predicts no next token; without a head its logits are NaN, and one is sampled");
    for (size_t f = decoders_n; f < folders_n; f++) {
        scoped_folder *opened = open_folder(folders[f]);
        const ss_trace *trace = &opened->run.run.trace;
        const ss_arch *arch = &trace->model->arch;
        bool has_head = trace->model->head.w.data != NULL;
        CHECK_INT(has_head, strcmp(folders[f], "hf-bert-bare") != 0);
        CHECK(!strcmp(ss_mask_name(arch), "bidirectional"));
        for (int t = 0; t < T_MAX; t++) {
            CHECK(isnan(ss_floats(trace, SS_FIELD_LOSS)[t]));
            CHECK(isnan(ss_floats(trace, SS_FIELD_RANK)[t]));
            CHECK_INT(isnan(ss_row(trace, SS_FIELD_LOGITS, 0, t)[t]), !has_head);
        }
        int token = ss_run_sample(&opened->run.run, 0.8f, 5, 1u << 31);
        CHECK(token >= 0 && token < arch->V);
        scoped float *loss = measure(trace, "loss_mean", 0.3f, 0, 0, 0, NULL);
        scoped float *accuracy = measure(trace, "accuracy", 0.3f, 0, 0, 0, NULL);
        scoped float *uniform = measure(trace, "alpha_uniform", 0.3f, 0, 0, 0, NULL);
        CHECK(isnan(*loss) && isnan(*accuracy));
        CHECK_NEAR(uniform[0], 1.0 / T_MAX, 1e-7);
    }
}

/* ---- every config key changes the numbers ------------------------------------------------- */

static ss_bytes replace_text(ss_bytes bytes, const char *old_text, const char *new_text) {
    size_t n = strlen(old_text), m = strlen(new_text), offset = 0;
    while (offset + n <= bytes.n && memcmp(bytes.data + offset, old_text, n)) offset++;
    if (offset + n > bytes.n) {
        printf("%s is not in the file\n", old_text);
        exit(2);
    }
    unsigned char *copy = malloc(bytes.n - n + m);
    if (!copy) exit(2);
    memcpy(copy, bytes.data, offset);
    memcpy(copy + offset, new_text, m);
    memcpy(copy + offset + m, bytes.data + offset + n, bytes.n - offset - n);
    return (ss_bytes){copy, bytes.n - n + m};
}

/* Computes the logits [V] of the prompt's last token under a config, with V at most 64; returns
 * false if the file has biases that the config excludes. */
static bool logits_of(float *out, const char *folder, ss_bytes config) {
    ss_arch arch;
    ss_error err;
    must(ss_arch_read(&arch, config, &err), &err, folder);
    opened_model model = {.weights = open_file(folder, weights_name(folder))};
    ss_status status = try_model(&model, &arch, &err);
    if (status == SS_UNSUPPORTED) {
        CHECK(strstr(err.where, "bias") && strstr(err.text, "of this config reads"));
        close_model(&model);
        return false;
    }
    must(status, &err, folder);
    scoped_run run = run_tokens(&model.model, prompt, T_MAX, NULL, 0);
    memcpy(out, ss_floats(&run.run.trace, SS_FIELD_NEXT), (size_t)arch.V * sizeof *out);
    close_model(&model);
    return true;
}

/* Checks that YaRN scales from max_position_embeddings if the config has no original context. */
static void check_yarn_context(const cJSON *original, const char *family) {
    cJSON *config = cJSON_Duplicate(original, true), *rope = cJSON_CreateObject();
    cJSON_AddStringToObject(rope, "rope_type", "yarn");
    cJSON_AddNumberToObject(rope, "factor", 2.0);
    cJSON_AddItemToObject(config, "rope_scaling", rope);
    cJSON_DeleteItemFromObject(config, "max_position_embeddings");
    cJSON_AddNumberToObject(config, "max_position_embeddings", 512);
    ss_arch a, b;
    ss_error err;
    CHECK_INT((int)read_object(&a, config, &err), SS_OK);
    cJSON_AddNumberToObject(rope, "original_max_position_embeddings", 512);
    CHECK_INT((int)read_object(&b, config, &err), SS_OK);
    if (check_failed(!memcmp(&a, &b, sizeof a), __FILE__, __LINE__, "the context of transformers"))
        printf("    %s\n", family);
    cJSON_Delete(config);
}

static void check_yarn_bounds(void) {
    CASE(
        "YaRN's ramp ends at the first and last pair, and is rounded to pairs, as in transformers");
    scoped_bytes text = read_file("tests/golden", "yarn.json");
    cJSON *root = cJSON_ParseWithLength((const char *)text.data, text.n);
    const cJSON *golden;
    cJSON_ArrayForEach(golden, cJSON_GetObjectItem(root, "cases")) {
        ss_rotary rotary = {
            .base = cJSON_GetObjectItem(golden, "rope_theta")->valuedouble,
            .part = 1.0,
            .scaling = SS_ROPE_YARN,
            .factor = cJSON_GetObjectItem(root, "factor")->valuedouble,
            .original_context =
                cJSON_GetObjectItem(golden, "original_max_position_embeddings")->valuedouble,
            .low = cJSON_GetObjectItem(golden, "beta_slow")->valuedouble,
            .high = cJSON_GetObjectItem(golden, "beta_fast")->valuedouble,
            .truncate = !cJSON_GetObjectItem(golden, "truncate"),
            .attention_factor = 1.0f};
        float frequencies[8];
        ss_rotary_frequencies(frequencies, &rotary, 16);
        const cJSON *expected = cJSON_GetObjectItem(golden, "frequencies");
        CHECK_INT(cJSON_GetArraySize(expected), 8);
        for (int j = 0; j < 8; j++) {
            double value = cJSON_GetArrayItem(expected, j)->valuedouble;
            CHECK_NEAR((double)frequencies[j] / value, 1.0, 1e-5);
        }
    }
    cJSON_Delete(root);
}

static void check_defaults(void) {
    CASE("a missing key has the default of transformers");
    scoped_bytes text = read_file("tests/golden", "defaults.json");
    cJSON *root = cJSON_ParseWithLength((const char *)text.data, text.n);
    const cJSON *families = cJSON_GetObjectItem(root, "families"), *family, *key;
    int families_n = 0;
    while (ss_family_name((size_t)families_n)) families_n++;
    /* The reference lacks gemma3 and qwen3_5, whose text_config is the config of gemma3_text and
     * qwen3_5_text, and nanogpt. */
    CHECK_INT(cJSON_GetArraySize(families), families_n - 3);
    cJSON_ArrayForEach(family, families) {
        const cJSON *original = cJSON_GetObjectItem(family, "given");
        ss_arch given_arch, extended_arch;
        ss_error err;
        must(read_object(&given_arch, original, &err), &err, family->string);
        const cJSON *defaults = cJSON_GetObjectItem(family, "defaults");
        bool has_yarn = !strncmp(family->string, "qwen", 4) || !strcmp(family->string, "llama") ||
                        !strcmp(family->string, "mistral") || !strcmp(family->string, "gpt_neox");
        if (has_yarn) check_yarn_context(original, family->string);
        cJSON_ArrayForEach(key, defaults) {
            cJSON *extended_config = cJSON_Duplicate(original, true);
            cJSON_AddItemToObject(extended_config, key->string, cJSON_Duplicate(key, true));
            ss_status status = read_object(&extended_arch, extended_config, &err);
            bool is_same =
                status == SS_OK && !memcmp(&extended_arch, &given_arch, sizeof extended_arch);
            if (check_failed(is_same, __FILE__, __LINE__, "the default of transformers"))
                printf("    %s.%s: %s\n", family->string, key->string,
                       status == SS_OK ? "another architecture" : err.text);
            cJSON_Delete(extended_config);
        }
    }
    cJSON_Delete(root);
}

static void check_every_key_counts(void) {
    CASE("every config key that is read changes the logits or the expected tensors");
    const cJSON *row;
    cJSON_ArrayForEach(row, cJSON_GetObjectItem(tables, "counts")) {
        char texts[2][128]; /* "key": value, or the value alone if the row has no key */
        for (int i = 0; i < 2; i++)
            snprintf(texts[i], sizeof texts[i], *text_in(row, 1) ? "\"%s\": %s" : "%s%s",
                     text_in(row, 1), text_in(row, 2 + i));
        const char *folder = path_of(text_in(row, 0));
        scoped_bytes config = read_file(folder, "config.json");
        scoped_bytes changed_config = replace_text(config, texts[0], texts[1]);
        float logits[64], changed_logits[64], largest_change = 0.0f;
        CHECK(logits_of(logits, folder, config));
        bool runs = logits_of(changed_logits, folder, changed_config);
        CHECK(runs == (strstr(texts[1], "bias\": false") == NULL));
        for (int v = 0; v < 61 && runs; v++)
            largest_change = fmaxf(largest_change, fabsf(logits[v] - changed_logits[v]));
        if (!runs) largest_change = INFINITY;
        /* The change must exceed the tolerance of the goldens, so that a golden would also fail
         * without the key. */
        if (!(largest_change > 3e-4f))
            printf("  %s %s: %g\n", folder, texts[1], (double)largest_change);
        CHECK(largest_change > 3e-4f);
    }
}

/* ---- broken weights ----------------------------------------------------------------------- */

/* Opens a model with other entries in its file, which it frees. */
static ss_status open_entries(const opened_model *opened, ss_entry *entries, size_t n,
                              ss_error *err) {
    ss_container container = opened->weights.container;
    container.entries = entries;
    container.n = n;
    size_t bytes;
    ss_model model;
    ss_status status = ss_model_size(&bytes, &opened->model.arch, &container, err);
    ss_arena arena = arena_of(status == SS_OK ? bytes : 1);
    if (status == SS_OK)
        status = ss_model_open(&model, &opened->model.arch, &container, &arena, err);
    free(arena.block);
    free(entries);
    return status;
}

static ss_status open_without(const opened_model *opened, size_t omitted, ss_error *err) {
    size_t n = opened->weights.container.n;
    ss_entry *entries = malloc(n * sizeof *entries);
    if (!entries) exit(2);
    memcpy(entries, opened->weights.container.entries, n * sizeof *entries);
    memmove(entries + omitted, entries + omitted + 1, (n - 1 - omitted) * sizeof *entries);
    return open_entries(opened, entries, n - 1, err);
}

static bool is_vision_tensor(const char *name) {
    return !strncmp(name, "vision_tower.", 13) || !strncmp(name, "multi_modal_projector.", 22);
}

static void check_missing_tensors(void) {
    CASE(
        "a missing tensor of any family is named in the file's format, except those for images and "
        "whole heads");
    int heads_n = 0, renamed_n = 0, transforms_n = 0;
    for (size_t f = 0; f < folders_n; f++) {
        scoped_model opened = open_model(path_of(folders[f]));
        for (size_t i = 0; i < opened.weights.container.n; i++) {
            const char *name = opened.weights.container.entries[i].name;
            ss_error err = {0};
            ss_status status = open_without(&opened, i, &err);
            if (is_vision_tensor(name)) {
                CHECK_INT((int)status, SS_OK);
            } else if (status == SS_BAD_TENSOR) {
                renamed_n += strcmp(err.where, name) != 0;
            } else {
                heads_n += status == SS_OK;
                transforms_n += status != SS_OK;
                CHECK(!strncmp(name, "lm_head.", 8) || !strncmp(name, "embed_out.", 10) ||
                      !strncmp(name, "cls.", 4));
            }
        }
    }
    CHECK_INT(heads_n, 50);
    CHECK_INT(transforms_n, 3); /* BERT without it has a bias that no tensor reads */
    CHECK_INT(renamed_n, 9);    /* of a tensor with two names, the newer one is named */
}

static ss_status open_with_tensor(const opened_model *opened, const char *name, ss_error *err) {
    const ss_container *container = &opened->weights.container;
    ss_entry *entries = malloc((container->n + 1) * sizeof *entries);
    if (!entries) exit(2);
    size_t place = 0;
    while (place < container->n && strcmp(container->entries[place].name, name) < 0) place++;
    memcpy(entries, container->entries, place * sizeof *entries);
    memcpy(entries + place + 1, container->entries + place,
           (container->n - place) * sizeof *entries);
    entries[place] = container->entries[0];
    entries[place].name = name;
    return open_entries(opened, entries, container->n + 1, err);
}

static void check_unread_tensors(void) {
    CASE("in every format a tensor that no family reads is refused by name, except buffers and "
         "weights for other tasks");
    static const char *const formats[] = {"torch-gpt2-plain", "torch-llama-tied",
                                          "gguf-llama-gqa-f32", "gguf-qwen2-bf16",
                                          "gguf-falcon-bf16"};
    static const char *const unread_names[] = {"lm_head.bias",
                                               "model.layers.0.self_attn.q_proj.lora_A",
                                               "model.layers.77.mlp.up_proj.weight",
                                               "attn.bia",
                                               "xattn.bias",
                                               "blk.0.nextn.eh_proj.weight",
                                               "score"};
    static const char *const ignored_names[] = {"model.layers.0.self_attn.rotary_emb.inv_freq",
                                                "h.1.attn.bias",
                                                "h.1.attn.masked_bias",
                                                "h.1.attn.causal_mask",
                                                "gpt_neox.layers.0.attention.bias",
                                                "bert.embeddings.position_ids",
                                                "rope_freqs.weight",
                                                "bert.pooler.dense.weight",
                                                "pooler.dense.bias",
                                                "cls.seq_relationship.weight",
                                                "classifier.weight",
                                                "score.weight",
                                                "qa_outputs.bias",
                                                "vision_tower.a",
                                                "model.vision_tower.a",
                                                "multi_modal_projector.a",
                                                "model.multi_modal_projector.a"};
    for (size_t f = 0; f < folders_n + sizeof formats / sizeof *formats; f++) {
        ss_error err;
        scoped_model opened =
            open_model(path_of(f < folders_n ? folders[f] : formats[f - folders_n]));
        for (size_t i = 0; i < sizeof unread_names / sizeof *unread_names; i++) {
            CHECK_INT((int)open_with_tensor(&opened, unread_names[i], &err), SS_UNSUPPORTED);
            CHECK_TEXT(err.where, unread_names[i]);
            CHECK(strstr(err.text, "of this config reads") &&
                  strstr(err.text, opened.model.arch.family));
        }
        for (size_t i = 0; i < sizeof ignored_names / sizeof *ignored_names; i++)
            CHECK_INT((int)open_with_tensor(&opened, ignored_names[i], &err), SS_OK);
    }
    CASE("sink logits are refused where the operation of the config reads none");
    static const char *const sinks[] = {"h.0.attn.sinks", "model.layers.0.self_attn.sinks"};
    for (size_t i = 0; i < 2; i++) {
        ss_error err;
        scoped_model opened = open_model(path_of(formats[i]));
        CHECK_INT((int)open_with_tensor(&opened, sinks[i], &err), SS_UNSUPPORTED);
        CHECK_TEXT(err.where, sinks[i]);
    }
}

static void check_not_finite(void) {
    CASE("a NaN in any tensor of any family is refused; tensors for images are not read");
    int skipped_n = 0;
    for (size_t f = 0; f < folders_n; f++) {
        scoped_model opened = open_model(path_of(folders[f]));
        const ss_container *container = &opened.weights.container;
        ss_arch arch = opened.model.arch;
        for (size_t i = 0; i < container->n; i++) {
            const ss_entry *entry = &container->entries[i];
            size_t size = ss_dtype_block_bytes(entry->tensor.type);
            size_t last = ss_tensor_count(&entry->tensor) - 1;
            unsigned char *number = (unsigned char *)(size_t)entry->tensor.data + last * size;
            unsigned char saved_number[4];
            memcpy(saved_number, number, size);
            memset(number, 0xff, size);
            opened.arena.used = 0;
            ss_error err;
            bool is_read = !is_vision_tensor(entry->name);
            CHECK_INT((int)ss_model_open(&opened.model, &arch, container, &opened.arena, &err),
                      is_read ? SS_BAD_TENSOR : SS_OK);
            CHECK(!is_read || !strcmp(err.where, entry->name));
            char text[64];
            snprintf(text, sizeof text, "number %lu is NaN", (unsigned long)last);
            if (is_read) CHECK(strstr(err.text, text));
            skipped_n += !is_read;
            memcpy(number, saved_number, size);
        }
    }
    CHECK_INT(skipped_n, 34); /* tensors for images in hf-gemma3-whole */
}

static void check_other_prefix(void) {
    CASE("the tensors of Gemma 3's text model are found under both of their prefixes");
    const char *folder = path_of("hf-gemma3-whole");
    static const char old_prefix[] = "\"language_model.model.",
                      new_prefix[] = "\"model.language_model.";
    size_t n = sizeof old_prefix - 1;
    scoped_folder *baseline = open_folder("hf-gemma3-whole");
    scoped_model model = {.weights.bytes = read_file(folder, "model.safetensors")};
    unsigned char *bytes = (unsigned char *)(size_t)model.weights.bytes.data;
    for (size_t i = 0; i + n <= model.weights.bytes.n; i++)
        if (!memcmp(bytes + i, old_prefix, n)) memcpy(bytes + i, new_prefix, n);
    ss_error err;
    must(try_model(&model, &baseline->model.model.arch, &err), &err, folder);
    scoped_run run = run_tokens(&model.model, prompt, T_MAX, NULL, 0);
    check_same(&baseline->run.run.trace, &run.run.trace, T_MAX);
}

static int compare_entries(const void *a, const void *b) {
    return strcmp(((const ss_entry *)a)->name, ((const ss_entry *)b)->name);
}

/* Opens a model on entries that the caller renamed, and compares its run with the original one. A
 * run without a head has no logits. */
static void check_renamed(const opened_folder *original, ss_entry *entries, size_t n,
                          bool has_head) {
    const opened_model *opened = &original->model;
    const ss_trace *expected = &original->run.run.trace;
    ss_container container = opened->weights.container;
    container.entries = entries;
    container.n = n;
    qsort(entries, n, sizeof *entries, compare_entries);
    opened_model model = {0};
    size_t bytes;
    ss_error err;
    must(ss_model_size(&bytes, &opened->model.arch, &container, &err), &err,
         opened->model.arch.family);
    model.arena = arena_of(bytes);
    must(ss_model_open(&model.model, &opened->model.arch, &container, &model.arena, &err), &err,
         opened->model.arch.family);
    CHECK(model.model.headless == !has_head);
    char text[8192];
    must(ss_describe_model(text, sizeof text, &model.model, &err), &err, "description");
    CHECK((strstr(text, "\"head\":true") != NULL) == has_head);
    scoped_run run = run_tokens(&model.model, prompt, T_MAX, NULL, 0);
    ss_trace actual = run.run.trace, *trace = &run.run.trace;
    const uint32_t of_head =
        SS_BIT(SS_FIELD_LOGITS) | SS_BIT(SS_FIELD_LOSS) | SS_BIT(SS_FIELD_RANK);
    if (!has_head) actual.fields &= ~of_head;
    check_same(&actual, expected, T_MAX);
    size_t V = (size_t)opened->model.arch.V;
    CHECK(isnan(ss_floats(trace, SS_FIELD_LOGITS)[V]) == !has_head);
    CHECK(isnan(ss_floats(trace, SS_FIELD_LOSS)[1]) == !has_head);
    scoped float *accuracy = measure(trace, "accuracy", 0.3f, 0, 0, 0, NULL);
    CHECK(isnan(*accuracy) == !has_head);
    free(model.arena.block);
}

/* Returns the length of the first component of the embedding's name, which the files of a base
 * model lack; 0 if the names are those of a base model. */
static size_t base_prefix(const char *name) {
    static const char *const prefixes[] = {"model.", "transformer.", "gpt_neox.", "bert."};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (!strncmp(name, prefixes[i], strlen(prefixes[i]))) return strlen(prefixes[i]);
    return 0;
}

static void check_base_models(void) {
    CASE("files of base models, without prefix and head, and tied files that store the head alone "
         "give the bits of the whole file");
    int base_n = 0, tied_n = 0, both_n = 0;
    for (size_t f = 0; f < folders_n; f++) {
        scoped_folder *opened = open_folder(folders[f]);
        const ss_container *container = &opened->model.weights.container;
        const ss_model *model = &opened->model.model;
        const ss_entry *embedding = container->entries;
        while (embedding->tensor.data != model->embedding.w.data) embedding++;
        size_t cut = base_prefix(embedding->name), n = 0;
        bool is_bert = !strcmp(model->arch.family, "bert");
        scoped ss_entry *entries = calloc(container->n, sizeof *entries);
        if (!entries) exit(2);
        for (size_t i = 0; cut && i < container->n; i++) {
            entries[n] = container->entries[i];
            if (strncmp(entries[n].name, embedding->name, cut)) continue;
            entries[n++].name += cut;
        }
        bool has_head = model->arch.tied && !model->arch.head_bias && !is_bert;
        if (cut) check_renamed(opened, entries, n, has_head);
        base_n += cut > 0;
        bool has_prefix = strchr(embedding->name, '.') != strrchr(embedding->name, '.');
        if (model->arch.tied && !is_bert && has_prefix) {
            memcpy(entries, container->entries, container->n * sizeof *entries);
            entries[embedding - container->entries].name =
                strcmp(model->arch.family, "gpt_neox") ? "lm_head.weight" : "embed_out.weight";
            check_renamed(opened, entries, container->n, true);
            tied_n++;
            for (size_t i = 0; i < container->n; i++)
                if (!strncmp(entries[i].name, embedding->name, cut)) entries[i].name += cut;
            if (cut) check_renamed(opened, entries, container->n, true);
            both_n += cut > 0;
        }
    }
    CHECK(base_n > 60 && tied_n > 15 && both_n > 15);
    printf("  %d base models, %d heads without embedding, %d of them without prefix\n", base_n,
           tied_n, both_n);
}

static void check_flipped_bits(void) {
    CASE("flipped bits in the config and the header of every family give a status, never a crash");
    uint32_t state = 77;
    int refused_n = 0, flips_n = check_trials(100);
    for (size_t f = 0; f < folders_n; f++) {
        scoped_bytes config = read_file(path_of(folders[f]), "config.json");
        scoped_bytes weights = read_file(path_of(folders[f]), "model.safetensors");
        size_t header_bytes = 8 + ((size_t)weights.data[0] | (size_t)weights.data[1] << 8);
        for (int i = 0; i < flips_n; i++) {
            state = state * 1664525u + 1013904223u;
            ss_bytes file = i % 2 ? config : weights;
            size_t offset = (state >> 3) % (i % 2 ? config.n : header_bytes);
            unsigned char *byte = (unsigned char *)(size_t)(file.data + offset), saved_byte = *byte;
            *byte = (unsigned char)(saved_byte ^ 1u << (state >> 29));
            ss_error err = {0};
            ss_status status = try_open(config, weights, &err);
            if (status != SS_OK) CHECK(err.where[0] && err.text[0] && err.code == status);
            refused_n += status != SS_OK;
            *byte = saved_byte;
        }
    }
    printf("  %d of %d were refused\n", refused_n, flips_n * (int)folders_n);
    CHECK(refused_n > flips_n / 2 * (int)folders_n);
}

static void check_parts_add_up(void) {
    CASE("the parts of q.k_1 add up to its mean over queries, except with post norm, clipped or "
         "centered keys or latent attention");
    for (size_t f = 0; f < folders_n; f++) {
        scoped_folder *opened = open_folder(folders[f]);
        const ss_trace *trace = &opened->run.run.trace;
        const ss_arch *arch = &trace->model->arch;
        size_t count = (size_t)(2 * arch->L + 2), H = (size_t)arch->H;
        bool is_centered = arch->qk_norm && arch->norm == SS_NORM_LAYER;
        bool is_linear = !arch->post_norm && arch->qkv_clip <= 0.0f && !arch->kv_latent &&
                         !is_centered && !trace->model->layers[0].scale;
        scoped float *parts = measure(trace, "logit_parts", 0.3f, 0, 0, 0, NULL);
        scoped float *heads = measure(trace, "logit_parts_heads", 0.3f, 0, 0, 0, NULL);
        for (int head = 0; head < arch->L * arch->H; head++) {
            int l = head / arch->H, h = head % arch->H;
            scoped float *dot = measure(trace, "qk_dot", 0.3f, 0, l, h, NULL);
            double sum = 0, size = 0, logit = 0;
            for (int t = 0; t < T_MAX; t++)
                logit += (double)(dot[t * T_MAX] * arch->score_scale) / T_MAX;
            for (size_t c = 0; c < count; c++) {
                double part = (double)parts[(size_t)head * count + c];
                bool is_defined = is_linear && (c <= 2 * (size_t)l || c + 1 == count);
                CHECK_INT(isnan(part), !is_defined);
                sum += is_defined ? part : 0;
                size += is_defined ? fabs(part) : 0;
            }
            if (is_linear && check_failed(is_within(fabs(sum - logit), 1e-5 * size), __FILE__,
                                          __LINE__, "adds up"))
                printf("    %s layer %d head %d: %g of %g\n", folders[f], l, h, sum, logit);
            /* The part of a layer's attention equals the sum over the layer's heads, plus the part
             * of the output's bias. */
            for (int below = 0; below < arch->L; below++) {
                const float *head_parts =
                    heads + ((size_t)head * (size_t)arch->L + (size_t)below) * H;
                double attention_part = (double)parts[(size_t)head * count + 2 * (size_t)below + 1];
                double heads_sum = 0;
                for (size_t i = 0; i < H; i++) heads_sum += (double)head_parts[i];
                bool is_defined = is_linear && !arch->branch_norms && below < l;
                CHECK_INT(isnan(heads_sum), !is_defined);
                if (is_defined && !trace->model->layers[below].o.bias)
                    CHECK(is_within(fabs(heads_sum - attention_part), 1e-5 * size));
            }
        }
    }
}

int main(void) {
    open_tables("configs.json");
    list_folders("decoders");
    decoders_n = folders_n;
    list_folders("encoders");
    check_values();
    check_layers();
    check_keys_refused_by_all();
    check_another_family();
    check_ranges();
    check_kept_panels();
    check_interleaved_weights();
    check_sizes_of_layers();
    check_routers();
    check_encoders();
    check_yarn_bounds();
    check_defaults();
    check_every_key_counts();
    check_missing_tensors();
    check_unread_tensors();
    check_not_finite();
    check_other_prefix();
    check_base_models();
    check_flipped_bits();
    check_parts_add_up();
    close_tables("configs.json");
    return check_done();
}
