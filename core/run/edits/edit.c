#include "edit.h"

#include "hook.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static int count_parameters(const ss_edit_kind *row) {
    int n = 0;
    while (n < SS_EDIT_PARAMETERS && row->parameters[n].name) n++;
    return n;
}

int ss_edit_first_layer(const ss_edit_kind *row, const float *values) {
    for (int p = 0; p < count_parameters(row); p++) {
        if (strcmp(row->parameters[p].name, "layer")) continue;
        if (isnan(values[p])) return -1;
        /* An edit of the stream after `layer` layers changes the output of layer `layer` - 1. */
        return (int)values[p] - ((row->hook_points & SS_AT_HIDDEN) != 0);
    }
    return -1;
}

bool ss_edits_continue(const ss_edit_kind *earlier_kind, const ss_edit_kind *later_kind) {
    return !(earlier_kind->replays & later_kind->hook_points & ~later_kind->replays);
}

static const ss_operation *operation_of(const ss_edit_kind *row, const float *values) {
    for (int p = 0; p < count_parameters(row); p++)
        if (row->parameters[p].type == SS_EDIT_OPERATION)
            return &ss_operations(NULL)[(int)values[p]];
    return NULL;
}

typedef struct range {
    double low, high;
    bool is_integer;
} range;

static int count_words(const char *const *words) {
    int n = 0;
    while (words[n]) n++;
    return n;
}

static range range_of(const ss_edit_parameter *parameter, const ss_model *model, int capacity) {
    int operations;
    ss_operations(&operations);
    switch (parameter->type) {
    case SS_EDIT_INDEX: {
        ss_trace sizes = {.model = model, .T = capacity};
        /* An edit names a layer by its index among all layers. */
        if (!strcmp(parameter->below, "L")) return (range){0, model->arch.blocks - 1, true};
        return (range){0, (double)ss_trace_size_of(&sizes, parameter->below) - 1, true};
    }
    case SS_EDIT_CHOICE: return (range){0, count_words(parameter->choices) - 1, true};
    case SS_EDIT_OPERATION: return (range){0, operations - 1, true};
    case SS_EDIT_NUMBER:
    case SS_EDIT_INTEGER: break;
    }
    return (range){(double)parameter->low, (double)parameter->high,
                   parameter->type == SS_EDIT_INTEGER};
}

ss_where ss_edit_where(int i, const char *parameter) {
    ss_where where;
    snprintf(where.text, sizeof where.text, "edits[%d].%s", i, parameter);
    return where;
}

static ss_status complete_value(float *value, float default_value, bool required, range r, int i,
                                const char *name, ss_error *err) {
    if (isnan(*value)) {
        *value = default_value;
        return !required ? SS_OK
                         : ss_fail(err, SS_BAD_REQUEST, ss_edit_where(i, name).text,
                                   "expected %s from %.7g to %.7g, found none",
                                   r.is_integer ? "an integer" : "a number", r.low, r.high);
    }
    double x = (double)*value;
    if (x >= r.low && x <= r.high && (!r.is_integer || x == floor(x))) return SS_OK;
    return ss_fail(err, SS_BAD_REQUEST, ss_edit_where(i, name).text,
                   "expected %s from %.7g to %.7g, found %.7g",
                   r.is_integer ? "an integer" : "a number", r.low, r.high, x);
}

/* Checks that an edit of attention selects a layer with it; one of products may select any. */
static ss_status check_layer(const ss_edit_kind *row, const float *values, int i,
                             const ss_model *model, ss_error *err) {
    for (int p = 0; p < count_parameters(row) && !(row->hook_points & SS_AT_PRODUCT); p++)
        if (!strcmp(row->parameters[p].name, "layer") && !strcmp(row->parameters[p].below, "L"))
            return ss_edit_check_attention(&model->arch, values[p], ss_edit_where(i, "layer").text,
                                           err);
    return SS_OK;
}

static ss_status complete_operation(ss_edit *edit, int i, ss_error *err) {
    const ss_edit_kind *row = &ss_edits(NULL)[edit->kind];
    const ss_operation *operation = operation_of(row, edit->values);
    ss_status status = SS_OK;
    for (int p = 0; operation && p < SS_PARAMETERS_MAX && status == SS_OK; p++) {
        const ss_parameter *parameter = &operation->parameters[p];
        if (!parameter->name) break;
        range r = {(double)parameter->low, (double)parameter->high, false};
        status = complete_value(&edit->values[count_parameters(row) + p], parameter->default_value,
                                false, r, i, parameter->name, err);
    }
    return status;
}

static ss_status check_needs(const ss_edit_kind *row, int i, const ss_model *model, ss_error *err) {
    const ss_arch *arch = &model->arch;
    if ((row->needs & SS_NEEDS_CAUSAL) && arch->prefix)
        return ss_fail(err, SS_UNSUPPORTED, ss_edit_where(i, row->name).text,
                       "expected a model whose queries see no later keys, and its mask is %s",
                       ss_mask_name(arch));
    if ((row->needs & SS_NEEDS_POSITIONS) && arch->positions == SS_POSITIONS_NONE)
        return ss_fail(err, SS_UNSUPPORTED, ss_edit_where(i, row->name).text,
                       "expected a model with positions, and this %s has none", arch->family);
    return SS_OK;
}

ss_status ss_edit_resolve(ss_edit *edit, const ss_edit *edits, int i, const ss_model *model,
                          int capacity, ss_error *err) {
    int rows, n;
    const ss_edit_kind *table = ss_edits(&rows);
    if (edits[i].kind < 0 || edits[i].kind >= rows)
        return ss_fail(err, SS_BAD_REQUEST, ss_edit_where(i, "kind").text,
                       "expected a row of the edits from 0 to %d, found %d", rows - 1,
                       edits[i].kind);
    const ss_edit_kind *row = &table[edits[i].kind];
    ss_status status = check_needs(row, i, model, err);
    *edit = edits[i];
    n = count_parameters(row);
    for (int p = 0; p < n && status == SS_OK; p++) {
        const ss_edit_parameter *parameter = &row->parameters[p];
        status = complete_value(&edit->values[p], parameter->default_value, parameter->required,
                                range_of(parameter, model, capacity), i, parameter->name, err);
    }
    if (status == SS_OK) status = check_layer(row, edit->values, i, model, err);
    return status == SS_OK ? complete_operation(edit, i, err) : status;
}
