/* describe(): its operations are those of the reference's own table (tests/golden/operations). */
#include "check.h"
#include "files.h"
#include "model/files/json.h"

#define DESCRIBE_BYTES 65536

static cJSON *parsed(ss_bytes text, const char *name) {
    cJSON *json;
    ss_error err;
    must(ss_json_parse(&json, text, name, SS_BAD_FILE, &err), &err, name);
    return json;
}

static cJSON *described(void) {
    static char text[DESCRIBE_BYTES];
    ss_error err;
    must(ss_describe(text, sizeof text, 1, &err), &err, "describe");
    return parsed((ss_bytes){(const unsigned char *)text, strlen(text)}, "describe");
}

static cJSON *read_golden(void) {
    ss_bytes text = read_file("tests/golden/operations", "golden.json");
    cJSON *json = parsed(text, "golden.json");
    free((void *)(size_t)text.data);
    return json;
}

/* The row of that name, or NULL. */
static const cJSON *row_of(const cJSON *rows, const char *name) {
    const cJSON *row;
    for (row = rows->child; row; row = row->next)
        if (!strcmp(cJSON_GetStringValue(cJSON_GetObjectItem(row, "name")), name)) return row;
    return NULL;
}

static void check_text(const cJSON *row, const cJSON *expected, const char *key) {
    const char *found = cJSON_GetStringValue(cJSON_GetObjectItem(row, key));
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItem(expected, key));
    if (check_failed(found && text && !strcmp(found, text), __FILE__, __LINE__, key))
        printf("    expected %s, found %s\n", text, found);
}

/* Those that the whole model shares, each with its default, and no others. */
static void check_parameters(const cJSON *row, const cJSON *expected) {
    const cJSON *parameter, *defaults = cJSON_GetObjectItem(expected, "parameters");
    int shared = 0;
    cJSON_ArrayForEach(parameter, cJSON_GetObjectItem(row, "parameters")) {
        const cJSON *standard = cJSON_GetObjectItem(parameter, "default");
        double low = cJSON_GetNumberValue(cJSON_GetObjectItem(parameter, "min"));
        double high = cJSON_GetNumberValue(cJSON_GetObjectItem(parameter, "max"));
        double found = cJSON_GetNumberValue(standard);
        CHECK(low <= found && found <= high);
        if (cJSON_IsTrue(cJSON_GetObjectItem(parameter, "per_head"))) continue;
        const char *name = cJSON_GetStringValue(cJSON_GetObjectItem(parameter, "name"));
        const cJSON *number = cJSON_GetObjectItem(defaults, name);
        CHECK(number != NULL);
        CHECK_NEAR((float)found, (float)cJSON_GetNumberValue(number), 0);
        shared++;
    }
    CHECK_INT(shared, cJSON_GetArraySize(defaults));
}

/* Every section has its rows; each row a name that no other row of its section has. */
static void check_sections(const cJSON *ours) {
    const char *names[] = {"operations", "metrics", "fields", "edits"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const cJSON *rows = cJSON_GetObjectItem(ours, names[i]), *row;
        CASE(names[i]);
        CHECK(cJSON_GetArraySize(rows) > 1);
        cJSON_ArrayForEach(row, rows) {
            const char *name = cJSON_GetStringValue(cJSON_GetObjectItem(row, "name"));
            CHECK(name && *name && row_of(rows, name) == row);
        }
    }
}

/* What a run records unasked, and what is costly: maps and residual stream are standard, inputs of
 * the feed-forward and its spikes are not. */
static void check_fields(const cJSON *fields) {
    const char *standard[] = {"att", "hidden", "q", "k", "v"}, *asked[] = {"spikes", "rounded"};
    for (size_t i = 0; i < sizeof standard / sizeof *standard; i++) {
        CASE(standard[i]);
        CHECK(cJSON_IsTrue(cJSON_GetObjectItem(row_of(fields, standard[i]), "standard")));
    }
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        CASE(asked[i]);
        CHECK(cJSON_IsFalse(cJSON_GetObjectItem(row_of(fields, asked[i]), "standard")));
    }
}

int main(void) {
    cJSON *ours = described(), *theirs = read_golden();
    check_sections(ours);
    check_fields(cJSON_GetObjectItem(ours, "fields"));
    const cJSON *rows = cJSON_GetObjectItem(ours, "operations"), *expected;
    const cJSON *golden = cJSON_GetObjectItem(theirs, "operations");
    CHECK_INT(cJSON_GetArraySize(rows), cJSON_GetArraySize(golden));
    cJSON_ArrayForEach(expected, golden) {
        const char *name = cJSON_GetStringValue(cJSON_GetObjectItem(expected, "name"));
        CASE(name);
        const cJSON *row = row_of(rows, name);
        CHECK(row != NULL);
        if (!row) continue;
        check_text(row, expected, "proxy");
        check_text(row, expected, "features");
        CHECK_INT(cJSON_IsTrue(cJSON_GetObjectItem(row, "normalises")),
                  cJSON_IsTrue(cJSON_GetObjectItem(expected, "normalises")));
        check_parameters(row, expected);
    }
    cJSON_Delete(ours);
    cJSON_Delete(theirs);
    return check_done();
}
