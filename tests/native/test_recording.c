/*
 * Recordings: a file with the reference's maps and vectors gives the reference's metrics without a
 * model; missing fields are named; a broken file is refused, and the error says where it is broken.
 */
#include "goldens.h"
#include "math/unpack.h"
#include "recordings.h"
#include "tables.h"

#include <dirent.h>
#include <math.h>

#define GOLDEN "tests/golden"
#define METRIC "metric."

typedef struct opened_recording {
    ss_bytes bytes;
    ss_arena arena;
    ss_recording recording;
} opened_recording;

static ss_status try_open_recording(opened_recording *opened, ss_error *err) {
    opened->arena = arena_of(ss_recording_size(opened->bytes));
    return ss_recording_open(&opened->recording, opened->bytes, &opened->arena, err);
}

static void open_recording(opened_recording *opened, ss_bytes bytes) {
    *opened = (opened_recording){.bytes = bytes};
    ss_error err;
    must(try_open_recording(opened, &err), &err, "recording");
}

static void close_recording(opened_recording *opened) {
    free(opened->arena.block);
    free((void *)(uintptr_t)opened->bytes.data);
}

#define scoped_recording __attribute__((cleanup(close_recording))) opened_recording

typedef struct opened_trace {
    opened_recording file;
    ss_arena arena;
    ss_trace trace;
} opened_trace;

static void open_trace(opened_trace *opened, ss_bytes bytes) {
    size_t size;
    ss_error err;
    open_recording(&opened->file, bytes);
    const ss_recording *recording = &opened->file.recording;
    must(ss_recording_trace_size(&size, recording, 0, &err), &err, "size");
    opened->arena = arena_of(size);
    must(ss_recording_trace(&opened->trace, recording, 0, &opened->arena, &err), &err, "trace");
    CHECK_INT(opened->arena.used, size);
}

static void close_trace(opened_trace *opened) {
    free(opened->arena.block);
    close_recording(&opened->file);
}

#define scoped_trace __attribute__((cleanup(close_trace))) opened_trace

/* Writes ["a","a",..] of T strings. */
static void write_strings(char *out, int T) {
    strcpy(out, "[");
    for (int t = 0; t < T; t++) strcat(out, t ? ",\"a\"" : "\"a\"");
    strcat(out, "]");
}

static void write_conditions(char *out, size_t bytes, const ss_arch *arch, int T) {
    char windows[256] = "[", strings[512], mask[64];
    for (int l = 0; l < arch->L; l++)
        snprintf(windows + strlen(windows), sizeof windows - strlen(windows), l ? ",%d" : "%d",
                 ss_arch_window(arch, l));
    write_strings(strings, T);
    const char *kind = ss_mask_name(arch);
    snprintf(mask, sizeof mask, strcmp(kind, "prefix") ? "\"%s\"" : "\"%s\",\"prefix\":%d", kind,
             arch->prefix);
    snprintf(out, bytes,
             "{\"model\":{\"id\":\"m\",\"family\":\"%s\",\"L\":%d,\"H\":%d,\"G\":%d,\"K\":%d,"
             "\"D\":%d,\"V\":%d,\"F\":%d,\"E\":%d,\"operation\":\"%s\",\"mask\":{\"kind\":%s},"
             "\"windows\":%s]},\"tokens\":[%s],\"prompts\":{\"count\":2,\"kept\":1,\"T\":%d},"
             "\"eps\":[0.1,0.3],\"class\":\"MEASURED\"}",
             arch->family, arch->L, arch->H, arch->G, arch->K, arch->D, arch->V, arch->F, arch->E,
             arch->attention.operation, mask, windows, strings, T);
}

/* Returns the largest difference between a metric and the golden, relative to the golden's largest
 * number or 1, whichever is larger. */
static double gap_of(const ss_trace *trace, const ss_metric *row, const ss_tensor *expected) {
    int layers = row->args & SS_ARG_LAYER ? trace->model->arch.L : 1;
    int heads = row->args & SS_ARG_HEAD ? trace->model->arch.H : 1;
    double worst = 0.0, largest = 1.0;
    size_t first = 0, count;
    for (int l = 0; l < layers; l++)
        for (int h = 0; h < heads; h++, first += count) {
            scoped float *actual = measure(trace, row->name, SS_EPS_STANDARD, 0, l, h, &count);
            for (size_t i = 0; i < count; i++) {
                double number = (double)number_at(expected, first + i);
                double gap =
                    isnan(number) && isnan(actual[i]) ? 0.0 : fabs(number - (double)actual[i]);
                worst = gap > worst || isnan(gap) ? gap : worst;
                largest = fabs(number) > largest ? fabs(number) : largest;
            }
        }
    CHECK_INT(first, ss_tensor_count(expected));
    return worst / largest;
}

/* Compares all metrics whose fields the trace has with the golden; returns the number of these
 * metrics. */
static int compare_metrics(const ss_trace *trace, const opened_file *file, const char *folder) {
    int n, compared_n = 0;
    const ss_metric *rows = ss_metrics(&n);
    for (int i = 0; i < n; i++) {
        char name[64];
        snprintf(name, sizeof name, METRIC "%s", rows[i].name);
        const ss_tensor *expected = golden(file, name);
        ss_metric_args args = {SS_EPS_STANDARD, trace->T, 0, 0, NULL};
        size_t dims[SS_RANK_MAX];
        if (!expected || ss_metric_shape(dims, trace, i, &args, NULL) < 0) continue;
        CHECK(!rows[i].weights); /* a recording has no weights */
        double gap = gap_of(trace, &rows[i], expected);
        if (!(gap <= 1e-5)) printf("  %s: %s is off by %g\n", folder, rows[i].name, gap);
        CHECK(is_within(gap, 1e-5));
        compared_n++;
    }
    return compared_n;
}

/* Writes a recording of a golden's fields, or of the reduced tensors that replace them. */
static ss_bytes record_golden(const opened_file *file, const ss_arch *arch, bool reduced,
                              size_t shift) {
    char conditions[4096];
    write_conditions(conditions, sizeof conditions, arch, (int)golden(file, "tokens")->dims[0]);
    recording_writer w = begin_recording("1", conditions);
    static const char *const kept_fields[] = {
        METRIC "alpha",    METRIC "alpha_raw",  METRIC "row_mass", METRIC "hidden_norm",
        METRIC "key_norm", METRIC "value_norm", "tokens",          "att_bias"};
    for (size_t i = 0; i < file->container.n; i++) {
        const ss_entry *entry = &file->container.entries[i];
        bool is_metric = !strncmp(entry->name, METRIC, strlen(METRIC)), is_wanted = !is_metric;
        for (size_t k = 0; reduced && k < sizeof kept_fields / sizeof *kept_fields; k++)
            if (k == 0 || !is_wanted) is_wanted = !strcmp(entry->name, kept_fields[k]);
        if (reduced && !strcmp(entry->name, "loss")) is_wanted = true;
        char name[96];
        snprintf(name, sizeof name, "0.%s", entry->name + (is_metric ? strlen(METRIC) : 0));
        if (is_wanted) add_tensor(&w, name, &entry->tensor);
    }
    return end_recording(&w, shift);
}

static bool is_case(const struct dirent *entry) {
    char path[300];
    snprintf(path, sizeof path, GOLDEN "/%s", entry->d_name);
    return !strncmp(entry->d_name, "var-", 4) && has_file(path, "config.json");
}

static int count_compared_goldens(bool reduced, size_t shift) {
    DIR *folder = opendir(GOLDEN);
    int compared_n = 0;
    for (struct dirent *entry; (entry = readdir(folder));) {
        if (!is_case(entry)) continue;
        char path[300];
        snprintf(path, sizeof path, GOLDEN "/%s", entry->d_name);
        scoped_file file = open_file(path, "golden.safetensors");
        ss_arch arch = arch_of(path, &file);
        scoped_trace opened;
        open_trace(&opened, record_golden(&file, &arch, reduced, shift));
        compared_n += compare_metrics(&opened.trace, &file, entry->d_name);
    }
    closedir(folder);
    return compared_n;
}

static void check_reference(void) {
    CASE("the reference's maps and vectors give the reference's metrics without a model");
    int metrics_n = count_compared_goldens(false, 0);
    printf("  %d metrics compared\n", metrics_n);
    CHECK(metrics_n > 600);
    CASE("unaligned numbers of a recording give the reference's metrics");
    CHECK_INT(count_compared_goldens(false, 3), metrics_n);
    CASE("alpha, row sums and norms alone give every metric that needs only these");
    int reduced_n = count_compared_goldens(true, 0);
    printf("  %d metrics compared\n", reduced_n);
    CHECK(reduced_n > 300 && reduced_n < metrics_n);
}

#define MODEL                                                                                      \
    "\"model\":{\"id\":\"m\",\"family\":\"f\",\"L\":1,\"H\":2,\"G\":1,\"K\":1,\"D\":1,\"V\":9,"    \
    "\"operation\":\"%s\"}"
#define REST                                                                                       \
    ",\"class\":\"MEASURED\",\"tokens\":[[\"a\",\"b\"]]"                                           \
    ",\"prompts\":{\"count\":4,\"kept\":1,\"T\":2},\"eps\":[0.3]"

static const float maps[] = {1, 0, 0.75f, 0.25f, 1, 0, 0.5f, 0.5f};
static const float alphas[] = {0.875f, 0.25f, 0.75f, 0.5f}, sums[] = {1, 1, 1, 1};

static char *conditions_of(const char *operation) {
    static char text[512];
    snprintf(text, sizeof text, "{" MODEL REST "}", operation);
    return text;
}

static recording_writer begin_small(const char *operation) {
    return begin_recording("1", conditions_of(operation));
}

static ss_status request_shape(const ss_trace *trace, const char *metric, int T, ss_error *err) {
    size_t dims[SS_RANK_MAX];
    ss_metric_args args = {0.3f, T, 0, 0, NULL};
    return ss_metric_shape(dims, trace, metric_index(metric), &args, err) < 0 ? err->code : SS_OK;
}

static void check_missing(const ss_trace *trace, const char *metric, int T, const char *text) {
    ss_error err = {0};
    CHECK_INT(request_shape(trace, metric, T, &err), SS_BAD_REQUEST);
    CHECK(!strcmp(err.where, metric));
    if (!strstr(err.text, text)) printf("  %s: %s\n", metric, err.text);
    CHECK(strstr(err.text, text) != NULL);
}

static void check_missing_fields(void) {
    CASE("a metric whose field was not kept names the field");
    static const uint8_t cells[] = {255, 0, 128, 64, 255, 0, 100, 100};
    static const float scale[] = {1, 1};
    recording_writer w = begin_small("softmax");
    add_claimed(&w, "0.att_pooled", "U8", "[1,2,2,2]", cells, sizeof cells);
    add_claimed(&w, "0.att_scale", "F32", "[1,2]", scale, sizeof scale);
    add_claimed(&w, "0.alpha", "F32", "[1,2,2]", alphas, sizeof alphas);
    add_claimed(&w, "0.row_mass", "F32", "[1,2,2]", sums, sizeof sums);
    add_claimed(&w, "0.value_norm", "F32", "[1,1,2]", sums, 2 * sizeof *sums);
    opened_trace opened;
    open_trace(&opened, end_recording(&w, 0));
    cJSON *row;
    cJSON_ArrayForEach(row, cJSON_GetObjectItem(tables, "missing")) {
        int T = cJSON_GetArrayItem(row, 1)->valueint;
        ss_error err = {0};
        ss_status status = request_shape(&opened.trace, text_in(row, 0), T, &err);
        check_refusal(row, 2, status, &err);
    }
    CASE("alpha without maps serves only metrics of all tokens");
    ss_error err;
    CHECK_INT(request_shape(&opened.trace, "value_ratio", 2, &err), SS_OK);
    size_t n;
    scoped float *sinks = measure(&opened.trace, "sink_ratio", 0.3f, 0, 0, 0, &n);
    CHECK_INT(n, 2);
    CHECK_NEAR(sinks[0], 1.0, 0);
    CHECK_NEAR(sinks[1], 0.5, 0);
    close_trace(&opened);
    CASE("without raw alpha, sums do not replace maps whose rows do not sum to 1");
    w = begin_small("sigmoid");
    add_claimed(&w, "0.alpha", "F32", "[1,2,2]", alphas, sizeof alphas);
    add_claimed(&w, "0.row_mass", "F32", "[1,2,2]", sums, sizeof sums);
    open_trace(&opened, end_recording(&w, 0));
    check_missing(&opened.trace, "alpha", 2, "the field att, not recorded");
    close_trace(&opened);
}

static uint16_t half_of(float x) {
    for (uint32_t h = 0; h < 0x7c00; h++) { /* the nearest F16 number from 0 on */
        float low, high;
        uint16_t pair[] = {(uint16_t)h, (uint16_t)(h + 1)};
        ss_unpack(&low, (unsigned char *)&pair[0], SS_F16, 1);
        ss_unpack(&high, (unsigned char *)&pair[1], SS_F16, 1);
        if (x <= high) return x - low < high - x ? pair[0] : pair[1];
    }
    return 0x7c00;
}

static void check_halves(void) {
    CASE("maps in half precision become floats; an exact alpha in the file takes precedence");
    uint16_t halves[8];
    float exact_alphas[] = {0.1f, 0.2f, 0.3f, 0.4f};
    for (int i = 0; i < 8; i++) halves[i] = half_of(maps[i]);
    for (int has_alpha = 0; has_alpha < 2; has_alpha++) {
        recording_writer w = begin_recording("1.4", conditions_of("softmax"));
        add_claimed(&w, "0.att", "F16", "[1,2,2,2]", halves, sizeof halves);
        add_claimed(&w, "9.unknown", "F8_E4M3", "[3]", "abc", 3);
        if (has_alpha)
            add_claimed(&w, "0.alpha", "F32", "[1,2,2]", exact_alphas, sizeof exact_alphas);
        scoped_trace opened;
        open_trace(&opened, end_recording(&w, 1));
        scoped float *alpha = measure(&opened.trace, "alpha", 0, 0, 0, 0, NULL);
        CHECK_BITS(alpha, has_alpha ? exact_alphas : alphas, sizeof exact_alphas);
        scoped float *first_alpha = measure(&opened.trace, "alpha", 0, 1, 0, 0, NULL);
        CHECK_NEAR(first_alpha[0], 1, 0);
    }
}

static void check_tensors(void) {
    CASE("a tensor is found by its name, and parts of it by their indices");
    recording_writer w = begin_small("softmax");
    add_claimed(&w, "mean.alpha", "F32", "[1,2,2]", alphas, sizeof alphas);
    add_claimed(&w, "mean.sink_ratio", "F32", "[2]", sums, 2 * sizeof *sums);
    scoped_recording opened;
    open_recording(&opened, end_recording(&w, 0));
    const ss_recording *r = &opened.recording;
    ss_tensor tensor;
    ss_error err;
    CHECK_INT(ss_recording_tensor(&tensor, r, "mean.alpha", -1, -1, &err), SS_OK);
    CHECK_INT(tensor.rank, 3);
    CHECK_INT(ss_recording_tensor(&tensor, r, "mean.alpha", 0, 1, &err), SS_OK);
    CHECK_INT(tensor.rank, 1);
    CHECK_BITS(tensor.data, alphas + 2, 2 * sizeof *alphas);
    CHECK_INT(ss_recording_tensor(&tensor, r, "mean.alpha", 1, 0, &err), SS_BAD_REQUEST);
    CHECK_INT(ss_recording_tensor(&tensor, r, "mean.alpha", -1, 1, &err), SS_BAD_REQUEST);
    CHECK_INT(ss_recording_tensor(&tensor, r, "mean.beta", 0, 0, &err), SS_BAD_REQUEST);
    size_t bytes;
    CHECK_INT(ss_recording_trace_size(&bytes, r, 1, &err), SS_BAD_REQUEST);
    CHECK_INT(ss_recording_trace_size(&bytes, r, -1, &err), SS_BAD_REQUEST);
}

static void check_refused(ss_bytes file, ss_status status, const char *where, const char *text) {
    scoped_recording opened = {.bytes = file};
    ss_error err = {0};
    CHECK_INT(try_open_recording(&opened, &err), status);
    bool is_expected = !strcmp(err.where, where) && strstr(err.text, text);
    if (!is_expected) printf("    found %s: %s\n", err.where, err.text);
    CHECK(is_expected);
}

static void check_row(cJSON *row, int at, recording_writer *w) {
    scoped_recording opened = {.bytes = end_recording(w, 0)};
    ss_error err = {0};
    ss_status status = try_open_recording(&opened, &err);
    check_refusal(row, at, status, &err);
}

static void check_metadata(void) {
    CASE("unknown versions and missing metadata are refused");
    const char *valid = conditions_of("softmax");
    cJSON *row;
    cJSON_ArrayForEach(row, cJSON_GetObjectItem(tables, "versions")) {
        recording_writer w = begin_recording(text_in(row, 0), valid);
        check_row(row, 1, &w);
    }
    recording_writer w = begin_recording("1", NULL);
    check_refused(end_recording(&w, 0), SS_BAD_FILE, "sinkscope", "no recording");
    check_refused(read_file("tests/golden/gguf-llama-gqa-f32", "model.gguf"), SS_BAD_FILE, "byte 0",
                  "expected a recording");
    w = (recording_writer){0};
    add_header(&w, "{\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}");
    check_refused(end_recording(&w, 0), SS_BAD_FILE, "__metadata__", "no recording");
    w = (recording_writer){0};
    add_header(&w, "{\"__metadata__\":[1]");
    check_refused(end_recording(&w, 0), SS_BAD_FILE, "__metadata__", "object");
    w = begin_recording("1", "{\"a\":1,\"a\":2}");
    check_refused(end_recording(&w, 0), SS_BAD_CONFIG, "a", "each key once");
    w = begin_recording("1", "[]");
    check_refused(end_recording(&w, 0), SS_BAD_CONFIG, "recording", "object");
}

static const char *replace_condition(const char *old_text, const char *new_text) {
    static char text[1024];
    const char *valid = conditions_of("softmax"), *place = strstr(valid, old_text);
    if (!place) exit(2);
    snprintf(text, sizeof text, "%.*s%s%s", (int)(place - valid), valid, new_text,
             place + strlen(old_text));
    return text;
}

static void check_conditions(void) {
    CASE("wrong conditions are refused by their key");
    cJSON *row;
    cJSON_ArrayForEach(row, cJSON_GetObjectItem(tables, "conditions")) {
        recording_writer w =
            begin_recording("1", replace_condition(text_in(row, 0), text_in(row, 1)));
        check_row(row, 2, &w);
    }
}

static recording_writer begin_replaced(const char *old_text, const char *new_text) {
    recording_writer w = begin_recording("1", replace_condition(old_text, new_text));
    add_claimed(&w, "0.att", "F32", "[1,2,2,2]", maps, sizeof maps);
    return w;
}

static void check_layers(void) {
    CASE("hidden states have rows for all layers, with attention or without");
    static const float norms[] = {1, 2, 3, 6, 5, 20, 7, 7};
    recording_writer w = begin_replaced("\"L\":1", "\"L\":1,\"blocks\":3,\"layers\":[2]");
    add_claimed(&w, "0.hidden_norm", "F32", "[4,2]", norms, sizeof norms);
    scoped_trace opened;
    open_trace(&opened, end_recording(&w, 0));
    size_t n;
    scoped float *ratios = measure(&opened.trace, "hidden_ratio", 0, 0, 0, 0, &n);
    CHECK_INT(n, 4);
    CHECK_BITS(ratios, ((const float[]){0.5f, 0.5f, 0.25f, 1}), 4 * sizeof *ratios);
    w = begin_replaced("\"L\":1", "\"L\":1,\"blocks\":3,\"layers\":[2]");
    add_claimed(&w, "0.hidden_norm", "F32", "[2,2]", norms, sizeof norms / 2);
    check_refused(end_recording(&w, 0), SS_BAD_TENSOR, "0.hidden_norm", "[4, 2]");
}

static void check_cross(void) {
    CASE("maps of cross-attention have their own number of rows, and no metric reads them");
    static const float cells[] = {1, 0, 0.5f, 0.5f, 0, 1, 1, 0, 0.5f, 0.5f, 0, 1};
    static const char *const shapes[] = {"[1,2,3,2]", "[1,2,2,2]"};
    for (int i = 0; i < 2; i++) {
        recording_writer w =
            begin_recording("2", replace_condition("\"eps\"", "\"cross\":{\"T\":3},\"eps\""));
        add_claimed(&w, "0.att", "F32", shapes[i], cells, i ? 32 : sizeof cells);
        ss_bytes file = end_recording(&w, 0);
        if (i) {
            check_refused(file, SS_BAD_TENSOR, "0.att", "[1, 2, 3, 2]");
            continue;
        }
        scoped_trace opened;
        open_trace(&opened, file);
        CHECK(!(opened.trace.fields & SS_BIT(SS_FIELD_ATT)));
        check_missing(&opened.trace, "alpha", 2, "cross-attention");
    }
    recording_writer w =
        begin_recording("2", replace_condition("\"eps\"", "\"cross\":{\"T\":0},\"eps\""));
    check_refused(end_recording(&w, 0), SS_BAD_CONFIG, "T", "1");
}

static void check_first_token(void) {
    CASE("the first token is the one at first.position");
    recording_writer w =
        begin_replaced("\"eps\":[0.3]", "\"eps\":[0.3],\"first\":{\"position\":1}");
    static const float norms[] = {2, 3};
    add_claimed(&w, "0.value_norm", "F32", "[1,1,2]", norms, sizeof norms);
    scoped_trace opened;
    open_trace(&opened, end_recording(&w, 0));
    static const struct {
        const char *metric;
        float expected[2];
    } table[] = {
        {"first_share", {0.125f, 0.25f}}, {"value_ratio", {1.5f, NAN}}, {"head_load", {NAN, NAN}}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        size_t n;
        scoped float *actual = measure(&opened.trace, table[i].metric, 0, 0, 0, 0, &n);
        for (size_t j = 0; j < n; j++)
            CHECK(isnan(table[i].expected[j]) ? isnan(actual[j])
                                              : actual[j] == table[i].expected[j]);
    }
}

static void check_shapes(void) {
    CASE("wrong tensors are refused by their name");
    unsigned char bytes[64];
    memset(bytes, 0xff, sizeof bytes); /* NaN as floats, and -1 as ids */
    cJSON *row;
    cJSON_ArrayForEach(row, cJSON_GetObjectItem(tables, "tensors")) {
        recording_writer w = begin_small("softmax");
        add_claimed(&w, text_in(row, 0), text_in(row, 1), text_in(row, 2), bytes,
                    (size_t)cJSON_GetArrayItem(row, 3)->valueint);
        check_row(row, 4, &w);
    }
    CASE("a tensor name that occurs twice is refused");
    recording_writer w = begin_small("softmax");
    add_claimed(&w, "mean.alpha", "F32", "[1,2,2]", alphas, sizeof alphas);
    add_claimed(&w, "mean.alpha", "F32", "[1,2,2]", alphas, sizeof alphas);
    check_refused(end_recording(&w, 0), SS_BAD_FILE, "mean.alpha", "each name once");
}

static void check_undefined_metrics(void) {
    CASE("metrics of NaN numbers are NaN");
    unsigned char bytes[16];
    memset(bytes, 0xff, sizeof bytes);
    recording_writer w = begin_small("softmax");
    add_claimed(&w, "0.alpha", "F32", "[1,2,2]", bytes, sizeof bytes);
    add_claimed(&w, "0.row_mass", "F32", "[1,2,2]", sums, sizeof sums);
    scoped_trace opened;
    open_trace(&opened, end_recording(&w, 0));
    size_t n;
    scoped float *sinks = measure(&opened.trace, "sink_ratio", 0.3f, 0, 0, 0, &n);
    for (size_t i = 0; i < n; i++) CHECK(isnan(sinks[i]));
}

static void check_finite_weights(void) {
    CASE("attention that is NaN or infinite is refused by the place of its first number");
    static const float infinite[] = {1, 0, 0.75f, 0.25f, 1, 0, INFINITY, 0.5f};
    recording_writer w = begin_small("softmax");
    add_claimed(&w, "0.att", "F32", "[1,2,2,2]", infinite, sizeof infinite);
    check_refused(end_recording(&w, 0), SS_BAD_TENSOR, "0.att", "number 6 is NaN or infinite");
    static const uint8_t cells[8] = {255};
    static const float scale[] = {1, NAN};
    w = begin_small("softmax");
    add_claimed(&w, "0.att_pooled", "U8", "[1,2,2,2]", cells, sizeof cells);
    add_claimed(&w, "0.att_scale", "F32", "[1,2]", scale, sizeof scale);
    check_refused(end_recording(&w, 0), SS_BAD_TENSOR, "0.att_scale", "number 1 is NaN");
    CASE("attention may be negative or above 1, as without a softmax");
    static const float signed_weights[] = {1, 0, -0.75f, 2.25f, 1, 0, -3, 0.5f};
    w = begin_small("identity");
    add_claimed(&w, "0.att", "F32", "[1,2,2,2]", signed_weights, sizeof signed_weights);
    scoped_trace opened;
    open_trace(&opened, end_recording(&w, 0));
}

static void check_million_tensors(void) {
    CASE("a million tensors with unknown names open in memory proportional to the header");
    recording_writer w = begin_small("softmax");
    const size_t n = 1000000, entry_bytes = 80;
    char *names = malloc(n * entry_bytes + 1), *end = names;
    if (!names) exit(2);
    for (size_t i = 0; i < n; i++)
        end += snprintf(end, entry_bytes,
                        ",\"x%lu\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}",
                        (unsigned long)i);
    add_header(&w, names);
    free(names);
    ss_bytes file = end_recording(&w, 0);
    CHECK(ss_recording_size(file) < 6 * file.n);
    scoped_recording opened;
    open_recording(&opened, file);
    CHECK_INT(opened.recording.container.n, n);
}

int main(void) {
    open_tables("recording.json");
    check_reference();
    check_missing_fields();
    check_halves();
    check_tensors();
    check_metadata();
    check_conditions();
    check_layers();
    check_cross();
    check_first_token();
    check_shapes();
    check_undefined_metrics();
    check_finite_weights();
    check_million_tensors();
    close_tables("recording.json");
    return check_done();
}
