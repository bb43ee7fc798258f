/* Parses edits, NAME(key=value,key=value), in the form of the command line. */
#ifndef SS_TEST_EDITS_H
#define SS_TEST_EDITS_H

#include "files.h"

#include <math.h>

static inline void fail_unknown(const char *what, const char *name) {
    printf("no %s %s\n", what, name);
    exit(2);
}

/* Returns the index of a word among a parameter's choices, or a number. */
static inline float read_value(const ss_edit_parameter *parameter, const char *text) {
    if (parameter->type == SS_EDIT_OPERATION) return (float)ss_operation_find(text);
    for (int i = 0; parameter->choices && parameter->choices[i]; i++)
        if (!strcmp(parameter->choices[i], text)) return (float)i;
    if (parameter->choices) fail_unknown("choice", text);
    return strtof(text, NULL);
}

/* Sets the parameter of that name; the parameters of an operation follow those of the edit. */
static inline void set_value(ss_edit *edit, const char *name, const char *text) {
    int n, place = 0;
    const ss_edit_kind *row = &ss_edits(&n)[edit->kind];
    for (; place < SS_EDIT_PARAMETERS && row->parameters[place].name; place++)
        if (!strcmp(row->parameters[place].name, name)) {
            edit->values[place] = read_value(&row->parameters[place], text);
            return;
        }
    const ss_operation *operation = &ss_operations(&n)[(int)edit->values[0]];
    for (int p = 0; row->parameters[0].type == SS_EDIT_OPERATION && p < SS_PARAMETERS_MAX; p++)
        if (operation->parameters[p].name && !strcmp(operation->parameters[p].name, name)) {
            edit->values[place + p] = strtof(text, NULL);
            return;
        }
    fail_unknown("parameter", name);
}

static inline ss_edit default_edit(const char *name) {
    int n;
    ss_edit edit = {.kind = -1};
    const ss_edit_kind *table = ss_edits(&n);
    for (int i = 0; i < n; i++)
        if (!strcmp(table[i].name, name)) edit.kind = i;
    if (edit.kind < 0) fail_unknown("edit", name);
    for (int p = 0; p < SS_EDIT_VALUES; p++) edit.values[p] = NAN;
    return edit;
}

static inline ss_edit read_edit(const char *text) {
    char copy[256];
    snprintf(copy, sizeof copy, "%s", text);
    char *values = strchr(copy, '(');
    if (values) *values++ = copy[strlen(copy) - 1] = 0;
    ss_edit edit = default_edit(copy);
    for (char *pair = values; pair && *pair;) {
        char *next = strchr(pair, ','), *value = strchr(pair, '=');
        if (next) *next++ = 0;
        if (!value) fail_unknown("value of", pair);
        *value++ = 0;
        set_value(&edit, pair, value);
        pair = next;
    }
    return edit;
}

#endif
