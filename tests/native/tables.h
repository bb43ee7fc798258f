/*
 * Tables of tests as data: a JSON file of tests/native whose members have a row a line.
 * A row that is refused ends with the status, the place and the sentence of its error;
 * `SINKSCOPE_SENTENCES=write` before a test writes its sentences again.
 */
#ifndef SS_TEST_TABLES_H
#define SS_TEST_TABLES_H

#include "check.h"
#include "files.h"

#include <cJSON.h>

static cJSON *tables;

static inline void open_tables(const char *name) {
    ss_bytes text = read_file("tests/native", name);
    tables = cJSON_ParseWithLength((const char *)text.data, text.n);
    free((void *)(size_t)text.data);
    if (!tables) exit(2);
}

/* Returns a text of a row, which is "" beyond its end. */
static inline const char *text_in(const cJSON *row, int i) {
    const cJSON *item = cJSON_GetArrayItem(row, i);
    return item ? item->valuestring : "";
}

static inline void check_text(const cJSON *row, const char *actual, const char *expected) {
    if (!check_failed(!strcmp(actual, expected), __FILE__, __LINE__, "the row")) return;
    char *text = cJSON_PrintUnformatted(row);
    printf("    %s: expected %s, found %s\n", text, expected, actual);
    cJSON_free(text);
}

/* Checks the status, the place and the sentence that a row has from its item `at` on; a row that
 * is accepted has none. */
static inline void check_refusal(cJSON *row, int at, ss_status status, const ss_error *err) {
    check_text(row, ss_status_name(status), *text_in(row, at) ? text_in(row, at) : "ok");
    if (status == SS_OK) return;
    check_text(row, err->where, text_in(row, at + 1));
    if (getenv("SINKSCOPE_SENTENCES")) {
        cJSON_DeleteItemFromArray(row, at + 2);
        cJSON_AddItemToArray(row, cJSON_CreateString(err->text));
    }
    check_text(row, err->text, text_in(row, at + 2));
}

static inline void print_members(FILE *out, const cJSON *table) {
    for (const cJSON *item = table->child; item; item = item->next) {
        char *text = cJSON_PrintUnformatted(item);
        if (cJSON_IsObject(table)) fprintf(out, "\"%s\": ", item->string);
        fprintf(out, "%s%s\n", text, item->next ? "," : "");
        cJSON_free(text);
    }
}

static inline void close_tables(const char *name) {
    char path[64];
    snprintf(path, sizeof path, "tests/native/%s", name);
    FILE *out = getenv("SINKSCOPE_SENTENCES") ? fopen(path, "w") : NULL;
    if (out) {
        fprintf(out, "{\n");
        for (const cJSON *table = tables->child; table; table = table->next) {
            bool is_array = cJSON_IsArray(table);
            fprintf(out, "\"%s\": %c\n", table->string, is_array ? '[' : '{');
            print_members(out, table);
            fprintf(out, "%c%s\n", is_array ? ']' : '}', table->next ? "," : "");
        }
        fprintf(out, "}\n");
        fclose(out);
    }
    cJSON_Delete(tables);
}

#endif
