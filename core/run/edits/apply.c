/*
 * What most edits do, each at its place of the forward pass. Values come in the order of the row's
 * parameters in table.c; a parameter that stands for all of them is NaN.
 */
#include "hook.h"
#include "rows.h"

#include "../../math/kernels.h"

#include <limits.h>
#include <math.h>
#include <string.h>

/* Applies change to the choice of every head of the layer and head that are meant. */
static void change_choices(const ss_site *site, float layer, float head, const float *values,
                           void (*change)(ss_choice *choice, const float *values)) {
    const ss_arch *arch = &site->pass->trace->model->arch;
    for (int l = 0; l < arch->L; l++)
        for (int h = 0; h < arch->H; h++)
            if (ss_edit_holds(layer, l) && ss_edit_holds(head, h))
                change(&site->pass->trace->choices[l * arch->H + h], values);
}

static void change_operation(ss_choice *choice, const float *values) {
    int n;
    choice->operation = &ss_operations(&n)[(int)values[0]];
    memcpy(choice->parameters, values + 3, sizeof choice->parameters);
}

void ss_apply_operation(const ss_site *site, const float *values) {
    change_choices(site, values[1], values[2], values, change_operation);
}

ss_status ss_check_operation(const ss_pass *pass, const float *values, const char *where,
                             ss_error *err) {
    int n;
    const ss_operation *operation = &ss_operations(&n)[(int)values[0]];
    if (ss_operation_fits(operation, pass->trace->model)) return SS_OK;
    return ss_fail(err, SS_UNSUPPORTED, where, "expected a model with self_attn.kernel_in for %s",
                   operation->name);
}

static void change_mask(ss_choice *choice, const float *values) {
    choice->mask = (ss_mask){(int)values[0], (int)values[1], 0};
}

void ss_apply_mask(const ss_site *site, const float *values) {
    change_choices(site, values[2], values[3], values, change_mask);
}

void ss_apply_hide_key(const ss_site *site, const float *values) {
    if (!ss_edit_holds(values[1], site->l) || !ss_edit_holds(values[2], site->h) ||
        !ss_edit_holds(values[3], site->t))
        return;
    size_t slot = ss_slot_of(site, (int)values[0]);
    if (slot < site->keys) site->lane->sees[slot] = 0;
}

void ss_apply_self_only(const ss_site *site, const float *values) {
    if ((int)values[0] != site->t || !ss_edit_holds(values[1], site->l) ||
        !ss_edit_holds(values[2], site->h))
        return;
    for (size_t j = 0; j < site->keys; j++) site->lane->sees[j] &= j == (size_t)site->own;
}

void ss_apply_scale_value(const ss_site *site, const float *values) {
    int row = (int)values[0] - site->t;
    if (row < 0 || row >= site->n || !ss_edit_holds(values[2], site->l)) return;
    for (size_t g = 0; g < site->heads; g++)
        if (ss_edit_holds(values[3], (int)g))
            ss_scale(site->rows + ((size_t)row * site->heads + g) * site->width, values[1],
                     site->width);
}

void ss_apply_silence(const ss_site *site, const float *values) {
    if (!ss_edit_holds(values[0], site->l)) return;
    for (size_t i = 0; i < (size_t)site->n; i++)
        for (size_t h = 0; h < site->heads; h++)
            if (ss_edit_holds(values[1], (int)h))
                memset(site->rows + (i * site->heads + h) * site->width, 0,
                       site->width * sizeof *site->rows);
}

void ss_apply_park(const ss_site *site, const float *values) {
    if (!ss_edit_holds(values[0], site->l) || !ss_edit_holds(values[1], site->h)) return;
    size_t slot = ss_slot_of(site, (int)values[2]);
    if (slot == site->keys || (site->sees && !site->sees[slot])) return;
    memset(site->rows, 0, site->keys * sizeof *site->rows);
    if (site->bias) *site->bias = 0.0f;
    site->rows[slot] = 1.0f;
}

enum { CLAMP_ZERO, CLAMP_MEAN, CLAMP_VALUE };

int ss_together_clamp_channel(const float *values) {
    if ((int)values[3] != CLAMP_MEAN) return 0;
    return values[5] > 0.0f ? (int)values[5] : INT_MAX;
}

/* The mean behind so many layers. */
size_t ss_keeps_clamp_channel(const float *values, const ss_arch *arch) {
    return (int)values[3] == CLAMP_MEAN ? (size_t)arch->L + 1 : 0;
}

void ss_apply_clamp_channel(const ss_site *site, const float *values) {
    if (!ss_edit_holds(values[1], site->l)) return;
    float *channel = site->rows + (size_t)values[0];
    int to = (int)values[3], prompt = values[5] > 0.0f ? (int)values[5] : site->n;
    double value = to == CLAMP_VALUE ? (double)values[4] : 0.0;
    float *mean = to == CLAMP_MEAN ? ss_kept_of(site, values) + site->l : NULL;
    for (size_t i = 0; mean && site->t == 0 && i < (size_t)prompt; i++)
        value += (double)channel[i * site->width] / (double)prompt;
    if (mean && site->t == 0) *mean = (float)value;
    if (mean) value = (double)*mean;
    for (int i = 0; i < site->n; i++)
        if (ss_edit_holds(values[2], site->t + i)) channel[(size_t)i * site->width] = (float)value;
}

void ss_apply_swap_positions(const ss_site *site, const float *values) {
    int32_t *a = &site->pass->positions[(int)values[0]],
            *b = &site->pass->positions[(int)values[1]];
    int32_t held = *a;
    *a = *b;
    if (values[2] == 0.0f) *b = held;
}

/* In the order of the words in table.c. */
static const ss_linear *matrix_of(const ss_model *model, int layer, int matrix) {
    const ss_layer *at = &model->layers[layer];
    return (const ss_linear *[]){&at->q,        &at->k,      &at->v,       &at->o,
                                 &at->ffn.gate, &at->ffn.up, &at->ffn.down}[matrix];
}

ss_status ss_check_scale_weight(const ss_pass *pass, const float *values, const char *where,
                                ss_error *err) {
    const ss_linear *linear = matrix_of(pass->trace->model, (int)values[1], (int)values[0]);
    ss_status status = ss_check_weights(pass, values, where, err);
    if (status != SS_OK) return status;
    if (!linear->w.data)
        return ss_fail(err, SS_UNSUPPORTED, where,
                       "expected a matrix that this %s has beside its experts",
                       pass->trace->model->arch.family);
    if ((size_t)values[2] < linear->w.out && (size_t)values[3] < linear->w.in) return SS_OK;
    return ss_fail(err, SS_BAD_REQUEST, where,
                   "expected a row below %lu and a column below %lu, found %.7g and %.7g",
                   (unsigned long)linear->w.out, (unsigned long)linear->w.in, (double)values[2],
                   (double)values[3]);
}

/* out[row] += (factor - 1) w[row][column] in[column], which leaves the product as it is for 1. */
void ss_apply_scale_weight(const ss_site *site, const float *values) {
    const ss_linear *linear = matrix_of(site->pass->trace->model, (int)values[1], (int)values[0]);
    size_t row = (size_t)values[2], column = (size_t)values[3];
    if (site->linear != linear || values[4] == 1.0f) return;
    ss_matrix_output(site->pass->work, &linear->w, row);
    float change = (values[4] - 1.0f) * site->pass->work[column];
    for (size_t i = 0; i < (size_t)site->n; i++)
        site->rows[i * site->width + row] += change * site->in[i * linear->w.in + column];
}
