/* describe(): its operations match the table of the PyTorch reference (tests/golden/operations);
 * its other sections are complete and valid. */
#include "model/files/json.h"
#include "report/writer.h"
#include "tables.h"

#define DESCRIBE_BYTES 65536

static cJSON *parse_json(ss_bytes text, const char *name) {
    cJSON *json;
    ss_error err;
    must(ss_json_parse(&json, text, name, SS_BAD_FILE, &err), &err, name);
    return json;
}

static cJSON *describe_build(void) {
    static char text[DESCRIBE_BYTES];
    ss_error err;
    must(ss_describe(text, sizeof text, 1, &err), &err, "describe");
    return parse_json((ss_bytes){(const unsigned char *)text, strlen(text)}, "describe");
}

static cJSON *read_golden(void) {
    scoped_bytes text = read_file("tests/golden/operations", "golden.json");
    cJSON *json = parse_json(text, "golden.json");
    return json;
}

static const cJSON *row_of(const cJSON *rows, const char *name) {
    const cJSON *row;
    for (row = rows->child; row; row = row->next)
        if (!strcmp(cJSON_GetStringValue(cJSON_GetObjectItem(row, "name")), name)) return row;
    return NULL;
}

static void check_same(const cJSON *row, const cJSON *expected, const char *key) {
    const char *actual = cJSON_GetStringValue(cJSON_GetObjectItem(row, key));
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItem(expected, key));
    if (check_failed(actual && text && !strcmp(actual, text), __FILE__, __LINE__, key))
        printf("    expected %s, found %s\n", text, actual);
}

static void check_parameters(const cJSON *row, const cJSON *expected) {
    const cJSON *parameter, *defaults = cJSON_GetObjectItem(expected, "parameters");
    int compared_n = 0;
    cJSON_ArrayForEach(parameter, cJSON_GetObjectItem(row, "parameters")) {
        const cJSON *default_item = cJSON_GetObjectItem(parameter, "default");
        double low = cJSON_GetNumberValue(cJSON_GetObjectItem(parameter, "min"));
        double high = cJSON_GetNumberValue(cJSON_GetObjectItem(parameter, "max"));
        double actual = cJSON_GetNumberValue(default_item);
        CHECK(low <= actual && actual <= high);
        if (cJSON_IsTrue(cJSON_GetObjectItem(parameter, "per_head"))) continue;
        const char *name = cJSON_GetStringValue(cJSON_GetObjectItem(parameter, "name"));
        const cJSON *number = cJSON_GetObjectItem(defaults, name);
        CHECK(number != NULL);
        CHECK_NEAR((float)actual, (float)cJSON_GetNumberValue(number), 0);
        compared_n++;
    }
    CHECK_INT(compared_n, cJSON_GetArraySize(defaults));
}

static void check_sections(const cJSON *description) {
    const char *names[] = {"operations", "metrics", "fields", "edits"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const cJSON *rows = cJSON_GetObjectItem(description, names[i]), *row;
        CASE(names[i]);
        CHECK(cJSON_GetArraySize(rows) > 1);
        cJSON_ArrayForEach(row, rows) {
            const char *name = cJSON_GetStringValue(cJSON_GetObjectItem(row, "name"));
            CHECK(name && *name && row_of(rows, name) == row);
        }
    }
}

/* The keys of a section, as in wasm/abi/types.ts, each after its type: text, number, boolean or
 * list. */
static const struct {
    const char *section, *keys;
} promised[] = {
    {"operations", "tname tlabel tformula bnormalizes tproxy tfeatures lparameters tsource"},
    {"metrics",
     "tname tlabel tquestion tunit lshape lrange larguments lfields baveraged bsummary ttopic "
     "tsource"},
    {"fields", "tname tmeaning tunit lshape ttype balways bstandard baveraged bstreamed"},
    {"edits", "tname tmeaning tlabel bcounterfactual bwaits lneeds lfields lparameters tsource"},
    {"status", "ncode tname tmeaning"},
};

static bool has_type(const cJSON *item, char type) {
    return type == 't'   ? cJSON_IsString(item)
           : type == 'n' ? cJSON_IsNumber(item)
           : type == 'b' ? cJSON_IsBool(item)
                         : cJSON_IsArray(item);
}

static void check_keys(const cJSON *row, const char *keys) {
    char key[32];
    for (int used; sscanf(keys, "%31s%n", key, &used) == 1; keys += used)
        if (check_failed(has_type(cJSON_GetObjectItem(row, key + 1), *key), __FILE__, __LINE__,
                         key))
            printf("    of %s\n", cJSON_GetStringValue(cJSON_GetObjectItem(row, "name")));
}

static void check_promises(const cJSON *description) {
    const cJSON *row, *letter, *letters = cJSON_GetObjectItem(description, "letters");
    check_keys(description, "tversion nabi");
    CASE("the description has the limits and flags of the C headers");
    check_keys(cJSON_GetObjectItem(description, "limits"), "ntokens nthreads nedit_values");
    check_keys(cJSON_GetObjectItem(description, "flags"), "nstreaming nmeasuring nspectral");
    for (size_t i = 0; i < sizeof promised / sizeof *promised; i++) {
        CASE(promised[i].section);
        cJSON_ArrayForEach(row, cJSON_GetObjectItem(description, promised[i].section)) {
            check_keys(row, promised[i].keys);
            cJSON_ArrayForEach(letter, cJSON_GetObjectItem(row, "shape")) {
                const char *text = cJSON_GetStringValue(letter);
                for (; *text; text++)
                    CHECK(strchr("0123456789+", *text) ||
                          cJSON_GetObjectItemCaseSensitive(letters, (char[]){*text, 0}));
            }
        }
    }
}

/* Checks that every metric has a mean over sequences, except where a mean says nothing: uniform
 * attention, maps of one head, parts of logits, indices. Also checks the ranges. */
static void check_metrics(const cJSON *metrics) {
    CASE("the description says which metrics have a mean over sequences, and their ranges");
    const char *single =
        " alpha_uniform qk_dot qk_cos qk_norm logit_parts logit_parts_heads massive_at "
        "super_weight ";
    const cJSON *row;
    cJSON_ArrayForEach(row, metrics) {
        char name[64];
        snprintf(name, sizeof name, " %s ", cJSON_GetStringValue(cJSON_GetObjectItem(row, "name")));
        bool is_averaged = cJSON_IsTrue(cJSON_GetObjectItem(row, "averaged"));
        if (check_failed(is_averaged == !strstr(single, name), __FILE__, __LINE__, "averaged"))
            printf("    %s\n", name);
        const cJSON *range = cJSON_GetObjectItem(row, "range"), *low = cJSON_GetArrayItem(range, 0),
                    *high = cJSON_GetArrayItem(range, 1);
        CHECK_INT(cJSON_GetArraySize(range), 2);
        const char *unit = cJSON_GetStringValue(cJSON_GetObjectItem(row, "unit"));
        if (!strncmp(unit, "share", 5) || !strncmp(unit, "of ln", 5)) {
            CHECK_NEAR(cJSON_GetNumberValue(low), 0, 0);
            CHECK_NEAR(cJSON_GetNumberValue(high), 1, 0);
        }
        CHECK(cJSON_IsNull(low) || cJSON_IsNull(high) || low->valuedouble < high->valuedouble);
    }
}

/* Checks which fields a run records by default (maps and the residual stream, but not spikes or
 * rounding errors), always, or when it streams. Only fields with one number a token are averaged
 * over sequences. */
static void check_fields(const cJSON *fields) {
    static const struct {
        const char *name, *key;
        bool is;
    } table[] = {
        {"att", "standard", true},      {"hidden", "standard", true}, {"q", "standard", true},
        {"k", "standard", true},        {"v", "standard", true},      {"spikes", "standard", false},
        {"rounded", "standard", false}, {"loss", "averaged", true},   {"rank", "averaged", true},
        {"seen", "averaged", true},     {"att", "averaged", false},   {"hidden", "averaged", false},
        {"tokens", "averaged", false},  {"tokens", "always", true},   {"k", "always", true},
        {"v", "always", true},          {"q", "always", false},       {"loss", "streamed", true},
        {"rank", "streamed", true},     {"att", "streamed", false}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        CASE(table[i].name);
        const cJSON *row = row_of(fields, table[i].name);
        CHECK_INT(cJSON_IsTrue(cJSON_GetObjectItem(row, table[i].key)), table[i].is);
    }
}

static void check_writer(void) {
    static const double numbers[] = {0.1, 1.0 / 3.0, -1e30, 10000, 1e15 / 3, 4294967295.0};
    static const char *const expected =
        "{\"a\":[\"\\\"\\\\\",null,true],\"b\":{},\"c\":0.3,\"d\":null,\"e\":null}";
    char text[256];
    CASE("the writer writes valid JSON, and doubles are read back to the bit");
    for (size_t bytes = 0; bytes <= strlen(expected) + 1; bytes++) {
        ss_writer writer = {.out = text, .bytes = bytes};
        memset(text, '#', sizeof text);
        ss_write_begin(&writer, NULL, '{');
        ss_write_begin(&writer, "a", '[');
        ss_write_text(&writer, NULL, "\"\\");
        ss_write_text(&writer, NULL, NULL);
        ss_write_bool(&writer, NULL, true);
        ss_write_end(&writer, ']');
        ss_write_begin(&writer, "b", '{');
        ss_write_end(&writer, '}');
        ss_write_decimal(&writer, "c", 0.3f);
        ss_write_decimal(&writer, "d", -INFINITY);
        ss_write_number(&writer, "e", (double)NAN);
        ss_write_end(&writer, '}');
        CHECK_INT(ss_write_finish(&writer), bytes > strlen(expected));
        CHECK(text[bytes] == '#');
    }
    CHECK(!strcmp(text, expected));
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        ss_writer writer = {.out = text, .bytes = sizeof text};
        ss_write_number(&writer, NULL, numbers[i]);
        CHECK(ss_write_finish(&writer) && strtod(text, NULL) == numbers[i]);
    }
    CASE("a description that does not fit its memory is refused");
    ss_error err;
    CHECK_INT(ss_describe(text, sizeof text, 1, &err), SS_NO_MEMORY);
}

static void check_models(void) {
    static char text[DESCRIBE_BYTES];
    const cJSON *row;
    cJSON_ArrayForEach(row, cJSON_GetObjectItem(tables, "models")) {
        const char *part = text_in(row, 1);
        CASE(text_in(row, 0));
        char folder[64];
        ss_error err;
        snprintf(folder, sizeof folder, "tests/golden/%s", text_in(row, 0));
        scoped_model opened = open_model(folder);
        must(ss_describe_model(text, sizeof text, &opened.model, &err), &err, folder);
        if (check_failed(strstr(text, part) != NULL, __FILE__, __LINE__, part))
            printf("    %s\n", text);
        size_t n = strlen(text);
        CHECK_INT((int)ss_describe_model(text, n, &opened.model, &err), SS_NO_MEMORY);
    }
}

int main(void) {
    open_tables("describe.json");
    check_writer();
    check_models();
    cJSON *description = describe_build(), *reference = read_golden();
    check_sections(description);
    check_promises(description);
    check_metrics(cJSON_GetObjectItem(description, "metrics"));
    check_fields(cJSON_GetObjectItem(description, "fields"));
    const cJSON *rows = cJSON_GetObjectItem(description, "operations"), *expected;
    const cJSON *golden = cJSON_GetObjectItem(reference, "operations");
    CASE("the golden of models/reference/operations.py has every operation of the description");
    CHECK_INT(cJSON_GetArraySize(rows), cJSON_GetArraySize(golden));
    cJSON_ArrayForEach(expected, golden) {
        const char *name = cJSON_GetStringValue(cJSON_GetObjectItem(expected, "name"));
        CASE(name);
        const cJSON *row = row_of(rows, name);
        CHECK(row != NULL);
        if (!row) continue;
        check_same(row, expected, "proxy");
        check_same(row, expected, "features");
        CHECK_INT(cJSON_IsTrue(cJSON_GetObjectItem(row, "normalizes")),
                  cJSON_IsTrue(cJSON_GetObjectItem(expected, "normalizes")));
        check_parameters(row, expected);
    }
    cJSON_Delete(description);
    cJSON_Delete(reference);
    close_tables("describe.json");
    return check_done();
}
