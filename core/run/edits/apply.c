/* The functions of most edits, each called at its hook points of the forward pass. `values` follow
 * the parameters of the row in table.c; NaN means all layers, heads or tokens. */
#include "hook.h"
#include "rows.h"

#include "../../math/kernels.h"

#include <limits.h>
#include <math.h>
#include <string.h>

static void change_choices(const ss_hook *hook, float layer, float head, const float *values,
                           void (*change)(ss_choice *choice, const float *values)) {
    const ss_arch *arch = &hook->pass->trace->model->arch;
    for (int a = 0; a < arch->L; a++)
        for (int h = 0; h < arch->H; h++)
            if (ss_edit_selects(layer, arch->layers[a]) && ss_edit_selects(head, h))
                change(&hook->pass->trace->choices[a * arch->H + h], values);
}

static void change_operation(ss_choice *choice, const float *values) {
    choice->operation = &ss_operations(NULL)[(int)values[0]];
    memcpy(choice->parameters, values + 3, sizeof choice->parameters);
}

void ss_apply_operation(const ss_hook *hook, const float *values) {
    change_choices(hook, values[1], values[2], values, change_operation);
}

ss_status ss_check_operation(const ss_pass *pass, const float *values, const char *where,
                             ss_error *err) {
    const ss_operation *operation = &ss_operations(NULL)[(int)values[0]];
    if (ss_operation_fits(operation, pass->trace->model)) return SS_OK;
    return ss_fail(err, SS_UNSUPPORTED, where, "expected a model with self_attn.kernel_in for %s",
                   operation->name);
}

static void change_mask(ss_choice *choice, const float *values) {
    choice->mask = (ss_mask){(int)values[0], (int)values[1], 0};
}

void ss_apply_mask(const ss_hook *hook, const float *values) {
    change_choices(hook, values[2], values[3], values, change_mask);
}

int ss_idle_tokens_hide_key(const float *values) {
    return (int)(isnan(values[3]) ? values[0] : values[3]);
}

void ss_apply_hide_key(const ss_hook *hook, const float *values) {
    if (!ss_edit_selects(values[1], hook->l) || !ss_edit_selects(values[2], hook->h) ||
        !ss_edit_selects(values[3], hook->t))
        return;
    size_t slot = ss_slot_of(hook, (int)values[0]);
    if (slot < hook->keys) hook->scratch->visible[slot] = 0;
}

int ss_idle_tokens_before_token(const float *values) {
    return (int)values[0];
}

void ss_apply_self_only(const ss_hook *hook, const float *values) {
    if ((int)values[0] != hook->t || !ss_edit_selects(values[1], hook->l) ||
        !ss_edit_selects(values[2], hook->h))
        return;
    for (size_t j = 0; j < hook->keys; j++)
        hook->scratch->visible[j] &= j == (size_t)hook->query_slot;
}

void ss_apply_scale_value(const ss_hook *hook, const float *values) {
    int row = (int)values[0] - hook->t;
    if (row < 0 || row >= hook->n || !ss_edit_selects(values[2], hook->l)) return;
    for (size_t g = 0; g < hook->heads; g++)
        if (ss_edit_selects(values[3], (int)g))
            ss_scale(hook->rows + ((size_t)row * hook->heads + g) * hook->width, values[1],
                     hook->width);
}

void ss_apply_silence(const ss_hook *hook, const float *values) {
    if (!ss_edit_selects(values[0], hook->l)) return;
    for (size_t i = 0; i < (size_t)hook->n; i++)
        for (size_t h = 0; h < hook->heads; h++)
            if (ss_edit_selects(values[1], (int)h))
                memset(hook->rows + (i * hook->heads + h) * hook->width, 0,
                       hook->width * sizeof *hook->rows);
}

int ss_idle_tokens_park(const float *values) {
    return (int)values[2];
}

void ss_apply_park(const ss_hook *hook, const float *values) {
    if (!ss_edit_selects(values[0], hook->l) || !ss_edit_selects(values[1], hook->h)) return;
    size_t slot = ss_slot_of(hook, (int)values[2]);
    if (slot == hook->keys || (hook->visible && !hook->visible[slot])) return;
    memset(hook->rows, 0, hook->keys * sizeof *hook->rows);
    if (hook->bias) *hook->bias = 0.0f;
    hook->rows[slot] = 1.0f;
}

enum { CLAMP_ZERO, CLAMP_MEAN, CLAMP_VALUE };

int ss_joint_tokens_clamp_channel(const float *values) {
    if ((int)values[3] != CLAMP_MEAN) return 0;
    return values[5] > 0.0f ? (int)values[5] : INT_MAX;
}

size_t ss_kept_numbers_clamp_channel(const float *values, const ss_arch *arch) {
    return (int)values[3] == CLAMP_MEAN ? (size_t)ss_states(arch) : 0;
}

int ss_idle_tokens_clamp_channel(const float *values) {
    return isnan(values[2]) || (int)values[3] == CLAMP_MEAN ? 0 : (int)values[2];
}

void ss_apply_clamp_channel(const ss_hook *hook, const float *values) {
    if (!ss_edit_selects(values[1], hook->l)) return;
    float *channel = hook->rows + (size_t)values[0];
    int mode = (int)values[3], prompt = values[5] > 0.0f ? (int)values[5] : hook->n;
    double value = mode == CLAMP_VALUE ? (double)values[4] : 0.0;
    float *mean = mode == CLAMP_MEAN ? hook->numbers + hook->l : NULL;
    for (size_t i = 0; mean && hook->t == 0 && i < (size_t)prompt; i++)
        value += (double)channel[i * hook->width] / (double)prompt;
    if (mean && hook->t == 0) *mean = (float)value;
    if (mean) value = (double)*mean;
    for (int i = 0; i < hook->n; i++)
        if (ss_edit_selects(values[2], hook->t + i))
            channel[(size_t)i * hook->width] = (float)value;
}

int ss_idle_tokens_swap_positions(const float *values) {
    return (int)fminf(values[0], values[1]);
}

void ss_apply_swap_positions(const ss_hook *hook, const float *values) {
    int32_t *a = &hook->pass->positions[(int)values[0]],
            *b = &hook->pass->positions[(int)values[1]];
    int32_t position = *a;
    *a = *b;
    if (values[2] == 0.0f) *b = position;
}

static const ss_linear *matrix_of(const ss_model *model, int layer, int matrix) {
    const ss_layer *l = &model->layers[layer];
    return (const ss_linear *[]){
        &l->q, &l->k, &l->v, &l->o, &l->ffn.gate, &l->ffn.up, &l->ffn.down}[matrix];
}

ss_status ss_check_scale_weight(const ss_pass *pass, const float *values, const char *where,
                                ss_error *err) {
    const ss_linear *linear = matrix_of(pass->trace->model, (int)values[1], (int)values[0]);
    ss_status status = ss_check_weights(pass, values, where, err);
    if (status != SS_OK) return status;
    if (!linear->w.data)
        return ss_fail(err, SS_UNSUPPORTED, where,
                       "expected a matrix that the layers of this %s have",
                       pass->trace->model->arch.family);
    if ((size_t)values[2] < linear->w.out && (size_t)values[3] < linear->w.in) return SS_OK;
    return ss_fail(err, SS_BAD_REQUEST, where,
                   "expected a row below %lu and a column below %lu, found %.7g and %.7g",
                   (unsigned long)linear->w.out, (unsigned long)linear->w.in, (double)values[2],
                   (double)values[3]);
}

/* Adds (factor - 1) w[row][column] in[column] to out[row]; a factor of 1 leaves the product
 * bit-identical. */
void ss_apply_scale_weight(const ss_hook *hook, const float *values) {
    const ss_linear *linear = matrix_of(hook->pass->trace->model, (int)values[1], (int)values[0]);
    size_t row = (size_t)values[2], column = (size_t)values[3];
    if (hook->linear != linear || values[4] == 1.0f) return;
    ss_matrix_unpack_output(hook->pass->work, &linear->w, row);
    float change = (values[4] - 1.0f) * hook->pass->work[column];
    for (size_t i = 0; i < (size_t)hook->n; i++)
        hook->rows[i * hook->width + row] += change * hook->in[i * linear->w.in + column];
}
