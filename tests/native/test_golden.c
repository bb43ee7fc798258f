/*
 * Goldens: the core must reproduce the numbers of Hugging Face transformers and of the independent
 * PyTorch reference. A case is a folder of tests/golden with tokens and a model: its own model, or
 * that of another folder, which golden.json names. Every tensor of its golden.safetensors is a
 * trace field, or "metric." and the name of a metric, and is compared element by element: logits
 * and losses within 1e-4, the others within 1e-5 of 1 or the tensor's largest magnitude. A metric
 * of two runs compares with the unedited run.
 *
 * Every field and every metric needs a case whose sizes all differ, so that swapped dimensions are
 * detected.
 */
#include "check.h"
#include "edits.h"
#include "goldens.h"
#include "model/families/family.h"
#include "model/files/json.h"
#include "model/gguf/gguf.h"
#include "traces.h"

#include <dirent.h>
#include <math.h>

#define GOLDEN "tests/golden"
#define WRITERS "models/reference/goldens/"
#define METRIC "metric."
#define PATH_BYTES 272
#define METRICS_MAX 256
#define EDITS_MAX 64
#define OPERATIONS_MAX 64
#define FAMILIES_BYTES 1024

/* What the cases cover: fields and metrics by cases whose sizes all differ, edits and models by
 * any case. */
typedef struct coverage {
    bool fields[SS_FIELD_N], metrics[METRICS_MAX], edits[EDITS_MAX], operations[OPERATIONS_MAX],
        formats[SS_FORMAT_N];
    char families[FAMILIES_BYTES]; /* names between spaces, such as " llama gpt2 " */
    char of_gguf[FAMILIES_BYTES];
} coverage;

static float tolerance_of(const char *field, const ss_tensor *expected) {
    if (!strcmp(field, "logits") || !strcmp(field, "loss")) return 1e-4f;
    float largest = 1.0f;
    for (size_t i = 0; i < ss_tensor_count(expected); i++)
        largest = fmaxf(largest, fabsf(number_at(expected, i)));
    return 1e-5f * largest;
}

static float largest_difference(const ss_tensor *view, const ss_tensor *expected) {
    size_t index[SS_RANK_MAX] = {0}, n = ss_tensor_count(expected);
    float worst = 0.0f;
    for (size_t i = 0; i < n; i++) {
        size_t offset = 0, rest = i;
        for (int d = view->rank; d-- > 0; rest /= view->dims[d]) {
            index[d] = rest % view->dims[d];
            offset += index[d] * view->strides[d];
        }
        float actual = ((const float *)view->data)[offset];
        float number = number_at(expected, i);
        float gap = isnan(actual) && isnan(number) ? 0.0f : fabsf(actual - number);
        worst = gap > worst || isnan(gap) ? gap : worst;
    }
    return worst;
}

/* Returns a view without token 0 for loss and rank, since the goldens begin with token 1. */
static ss_tensor field_like(const ss_trace *trace, int field) {
    ss_tensor view;
    ss_error err;
    must(ss_trace_view(&view, trace, field, -1, -1, &err), &err, "field");
    if (SS_FIELDS_PREDICTED & SS_BIT(field)) {
        view.data = (const float *)view.data + 1;
        view.dims[0]--;
    }
    return view;
}

static bool compare_field(const ss_trace *trace, int field, const ss_tensor *expected) {
    const char *name = ss_fields()[field].name;
    ss_tensor view = field_like(trace, field);
    CHECK_INT(view.rank, expected->rank);
    CHECK(!memcmp(view.dims, expected->dims, sizeof view.dims));
    float gap = largest_difference(&view, expected), allowed = tolerance_of(name, expected);
    printf("  %-8s off by %.1e of %.1e\n", name, (double)gap, (double)allowed);
    CHECK(is_within((double)gap, (double)allowed));
    return true;
}

/* Returns the largest difference between a metric of one layer and head and the numbers from *first
 * on, and advances *first. */
static float metric_difference(const ss_trace *trace, const ss_trace *baseline, const char *name,
                               int l, int h, const ss_tensor *expected, size_t *first) {
    size_t count;
    ss_metric_args args = {SS_EPS_STANDARD, trace->T, l, h, baseline};
    float *actual = measure_args(trace, name, args, &count), worst = 0;
    CHECK(*first + count <= ss_tensor_count(expected));
    for (size_t i = 0; i < count && *first + i < ss_tensor_count(expected); i++) {
        float number = number_at(expected, *first + i);
        float gap = isnan(actual[i]) && isnan(number) ? 0.0f : fabsf(actual[i] - number);
        worst = gap > worst || isnan(gap) ? gap : worst;
    }
    free(actual);
    *first += count;
    return worst;
}

static void compare_metric(const ss_trace *trace, const ss_trace *baseline, const ss_metric *row,
                           const ss_tensor *expected) {
    const ss_arch *arch = &trace->model->arch;
    int layers = row->args & SS_ARG_LAYER ? arch->L : 1;
    int heads = row->args & SS_ARG_HEAD ? arch->H : 1;
    size_t first = 0;
    float worst = 0;
    for (int l = 0; l < layers; l++)
        for (int h = 0; h < heads; h++) {
            float gap = metric_difference(trace, baseline, row->name, l, h, expected, &first);
            worst = gap > worst || isnan(gap) ? gap : worst;
        }
    CHECK_INT(first, ss_tensor_count(expected));
    float allowed = tolerance_of(row->name, expected);
    printf("  %-8s off by %.1e of %.1e\n", row->name, (double)worst, (double)allowed);
    CHECK(is_within((double)worst, (double)allowed));
}

/* Compares a tensor of the golden with the field or metric of the same name; returns false if there
 * is none. */
static bool compare(coverage *covered, const ss_trace *trace, const ss_trace *baseline,
                    const char *name, const ss_tensor *expected) {
    int n;
    const ss_metric *metrics = ss_metrics(&n);
    for (int i = 0; i < n && i < METRICS_MAX; i++) {
        if (strncmp(name, METRIC, strlen(METRIC)) || strcmp(name + strlen(METRIC), metrics[i].name))
            continue;
        compare_metric(trace, baseline, &metrics[i], expected);
        return covered->metrics[i] = true;
    }
    for (int field = 0; field < SS_FIELD_N; field++)
        if (!strcmp(name, ss_fields()[field].name))
            return covered->fields[field] = compare_field(trace, field, expected);
    return !strcmp(name, "tokens");
}

/* Returns true if all sizes differ and query heads share keys. */
static bool all_differ(const ss_trace *trace) {
    const ss_arch *arch = &trace->model->arch;
    int sizes[] = {1, arch->L, arch->G, arch->H, arch->K, trace->T, arch->F, arch->D, arch->V};
    int n = sizeof sizes / sizeof *sizes;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < i; j++)
            if (sizes[i] == sizes[j]) return false;
    return true;
}

/* The description of a case: the folder of its model (its own, or "model" of golden.json), the
 * script that writes its golden, and its edits. */
typedef struct case_description {
    char model[PATH_BYTES], script[PATH_BYTES];
    ss_edit edits[EDITS_MAX];
    int edits_n;
} case_description;

static bool read_description(case_description *description, const char *folder) {
    cJSON *json;
    ss_error err;
    *description = (case_description){0};
    scoped_bytes text = read_file(folder, "golden.json");
    must(ss_json_parse(&json, text, "golden.json", SS_BAD_FILE, &err), &err, folder);
    const char *model = cJSON_GetStringValue(cJSON_GetObjectItem(json, "model"));
    if (!model && has_file(folder, weights_name(folder))) model = folder;
    if (model) snprintf(description->model, PATH_BYTES, "%s", model);
    const cJSON *writer = cJSON_GetObjectItem(json, "written_by");
    const char *script = cJSON_GetStringValue(cJSON_GetObjectItem(writer, "script"));
    if (script) snprintf(description->script, PATH_BYTES, "%s", script + strlen(WRITERS));
    const cJSON *edits = cJSON_GetObjectItem(json, "edits"), *edit;
    cJSON_ArrayForEach(edit, edits) if (description->edits_n < EDITS_MAX)
        description->edits[description->edits_n++] = read_edit(cJSON_GetStringValue(edit));
    cJSON_Delete(json);
    return model != NULL;
}

static bool has_family(const char *families, const char *name) {
    char word[64];
    snprintf(word, sizeof word, " %s ", name);
    return strstr(families, word) != NULL;
}

static void add_family(char *families, const char *name) {
    size_t used = strlen(families);
    if (!has_family(families, name)) snprintf(families + used, FAMILIES_BYTES - used, " %s ", name);
}

static void cover_model(coverage *covered, const opened_model *model) {
    const ss_arch *arch = &model->model.arch;
    covered->operations[ss_operation_find(arch->attention.operation)] = true;
    ss_format format = ss_container_format(model->weights.bytes);
    covered->formats[format] = true;
    add_family(covered->families, arch->family);
    if (format == SS_GGUF) add_family(covered->of_gguf, arch->family);
}

/* Checks that reuse changes no bit: updates a run that began from the unedited one, and the edited
 * run, while a text is typed. */
static void check_resumed_and_updated(opened_run *run, const opened_run *baseline,
                                      const case_description *description, const int32_t *tokens,
                                      int T) {
    ss_run_desc desc = {.model = baseline->run.trace.model,
                        .capacity = T,
                        .fields = SS_FIELDS_ALL,
                        .edits = description->edits,
                        .edits_n = description->edits_n,
                        .from = &baseline->run.trace,
                        .layer = SS_BY_EDITS};
    scoped_run resumed_run = start_run(&desc, tokens, T);
    check_same(&run->run.trace, &resumed_run.run.trace, T);
    check_updates(&resumed_run, &desc, tokens, T, 1);
    check_updates(run, &desc, tokens, T, 3);
}

static void check_case(coverage *covered, const char *name, const char *folder,
                       const case_description *description) {
    CASE(name);
    scoped_file file = open_file(folder, "golden.safetensors");
    scoped_model model = open_model(description->model);
    int T;
    scoped int32_t *tokens = golden_tokens(&file, &T);
    scoped_run run = run_tokens(&model.model, tokens, T, description->edits, description->edits_n);
    scoped_run baseline = run_tokens(&model.model, tokens, T, NULL, 0);
    coverage compared = {0};
    long failed_before = check_state.failed;
    for (size_t i = 0; i < file.container.n; i++) {
        const ss_entry *entry = &file.container.entries[i];
        bool is_known =
            compare(&compared, &run.run.trace, &baseline.run.trace, entry->name, &entry->tensor);
        if (check_failed(is_known, __FILE__, __LINE__, "is a field or a metric"))
            printf("    %s\n", entry->name);
    }
    if (check_state.failed > failed_before)
        printf("    the golden is written by: python -m models.reference.goldens.%.*s %s\n",
               (int)strcspn(description->script, "."), description->script, name);
    cover_model(covered, &model);
    for (int i = 0; i < description->edits_n; i++)
        covered->edits[description->edits[i].kind] = true;
    for (int i = 0; i < METRICS_MAX && all_differ(&run.run.trace); i++) {
        covered->metrics[i] |= compared.metrics[i];
        if (i < SS_FIELD_N) covered->fields[i] |= compared.fields[i];
    }
    check_resumed_and_updated(&run, &baseline, description, tokens, T);
}

static void check_folder(coverage *covered, int *cases, const char *name) {
    char folder[PATH_BYTES];
    case_description description;
    snprintf(folder, sizeof folder, GOLDEN "/%s", name);
    if (*name == '.' || !has_file(folder, "golden.safetensors") ||
        !read_description(&description, folder))
        return;
    check_case(covered, name, folder, &description);
    ++*cases;
}

static void check_coverage(const coverage *covered) {
    int n;
    const ss_metric *metrics = ss_metrics(&n);
    CASE("every metric has a golden of a model whose sizes all differ");
    CHECK(n <= METRICS_MAX);
    for (int i = 0; i < n; i++)
        check_has_golden(covered->metrics[i], metrics[i].name, "has a golden",
                         metrics[i].args & SS_ARG_BASE ? "write_edits" : "write_variants");
    /* test_train detects wrong numbers in the last four fields, which derivatives read. */
    CASE("every field has a golden of a model whose sizes all differ, except tokens, next, and "
         "fields that test_train compares");
    const uint32_t excluded = SS_BIT(SS_FIELD_TOKENS) | SS_BIT(SS_FIELD_NEXT) |
                              SS_BIT(SS_FIELD_SCORES) | SS_BIT(SS_FIELD_HEAD_OUT) |
                              SS_BIT(SS_FIELD_FFN_UP) | SS_BIT(SS_FIELD_FFN_GATE);
    for (int i = 0; i < SS_FIELD_N; i++)
        if (!(excluded & SS_BIT(i)))
            check_has_golden(covered->fields[i], ss_fields()[i].name, "has a golden",
                             "write_variants");
    CASE("every edit has a golden of a model");
    const ss_edit_kind *edits = ss_edits(&n);
    CHECK(n <= EDITS_MAX);
    for (int i = 0; i < n; i++)
        if (strcmp(edits[i].name, "operation") && strcmp(edits[i].name, "mask"))
            check_has_golden(covered->edits[i], edits[i].name, "has a golden", "write_edits");
}

/* Checks that every operation, family and format has a golden. */
static void check_models(const coverage *covered) {
    int n;
    CASE("every operation has a golden");
    const ss_operation *operations = ss_operations(&n);
    CHECK(n <= OPERATIONS_MAX);
    for (int i = 0; i < n; i++)
        check_has_golden(covered->operations[i], operations[i].name, "has a golden",
                         "write_goldens operations ref-NAME");
    CASE("every family and every file format has a golden");
    for (size_t i = 0; ss_family_name(i); i++)
        check_has_golden(has_family(covered->families, ss_family_name(i)), ss_family_name(i),
                         "has a golden", "write_families");
    CASE("every architecture of GGUF has a golden");
    const char *name;
    for (size_t i = 0; (name = ss_gguf_architecture(i)); i++) {
        const ss_gguf_family *family;
        ss_bytes word = {(const unsigned char *)name, strlen(name)};
        bool is_found = ss_gguf_find_family(&family, word, NULL) == SS_OK &&
                        has_family(covered->of_gguf, ss_gguf_model_type(family));
        check_has_golden(is_found, name, "has a golden", "write_gguf");
    }
    for (int i = 0; i < SS_FORMAT_N; i++) CHECK(covered->formats[i]);
}

int main(void) {
    coverage covered = {0};
    int cases = 0;
    DIR *folders = opendir(GOLDEN);
    for (struct dirent *entry; folders && (entry = readdir(folders));)
        check_folder(&covered, &cases, entry->d_name);
    if (folders) closedir(folders);
    check_coverage(&covered);
    check_models(&covered);
    printf("%d cases\n", cases);
    return check_done();
}
