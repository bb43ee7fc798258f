/*
 * Rounds numbers to n bits: x becomes scale * round(x / scale), where a tensor, a token, a channel
 * or a group shares a scale. Halves round to even, like torch.round.
 *
 *     symmetric   scale = max |x| / (2^(bits-1) - 1)
 *     else        scale = (max x - min x) / (2^bits - 1), x rounded as min x + whole * scale
 *
 * For weights a tensor is one matrix of a layer, a channel is one output of it, and a group is a
 * part of one output. Quantized weights are never stored: the edit computes the product again with
 * them.
 */
#include "hook.h"
#include "rows.h"

#include "../../math/kernels.h"
#include "../../math/pack.h"

#include <limits.h>
#include <math.h>

enum { TENSOR, TOKEN, CHANNEL, GROUP };
enum { QUERIES, KEYS, VALUES, HIDDEN, WEIGHTS };

/* Indices of the edit's values, in the order of its parameters in table.c. */
enum { WHAT, BITS, BY, GROUP_SIZE, SYMMETRIC, FIRST, LAYER, PROMPT };

static bool has_shared_scales(const float *values) {
    int grouping = (int)values[BY];
    return (int)values[WHAT] != WEIGHTS && (grouping == TENSOR || grouping == CHANNEL);
}

int ss_joint_tokens_quantize(const float *values) {
    if (!has_shared_scales(values)) return 0;
    return values[PROMPT] > 0.0f ? (int)values[PROMPT] : INT_MAX;
}

static size_t columns_of(const ss_arch *arch) {
    int heads = arch->H * (arch->K > arch->U ? arch->K : arch->U);
    return (size_t)(heads > arch->D ? heads : arch->D);
}

/* Returns how many numbers the edit keeps: a range per layer, or per column of each layer. */
size_t ss_kept_numbers_quantize(const float *values, const ss_arch *arch) {
    size_t ranges = (int)values[BY] == CHANNEL ? columns_of(arch) : 1;
    return has_shared_scales(values) ? (size_t)ss_states(arch) * ranges * 2 : 0;
}

typedef struct range {
    float low, high;
} range;

static const range empty_range = {INFINITY, -INFINITY};

static range widen(range r, const float *x, size_t rows, size_t step, size_t n) {
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < n; j++) {
            r.low = fminf(r.low, x[i * step + j]);
            r.high = fmaxf(r.high, x[i * step + j]);
        }
    return r;
}

/* Rounds the numbers x[i * step + j] to the levels of range r. errors is [rows][4] or NULL:
 * errors[row][0] grows by the squared error, errors[row][1] by the squared norm. */
static void round_to_range(range r, float *x, size_t rows, size_t step, size_t n,
                           const float *values, float *errors) {
    bool symmetric = values[SYMMETRIC] != 0.0f;
    int bits = (int)values[BITS];
    float extent = symmetric ? fmaxf(-r.low, r.high) : r.high - r.low;
    float levels = (float)((1 << (symmetric ? bits - 1 : bits)) - 1);
    float scale = extent / levels, zero = symmetric ? 0.0f : r.low,
          lowest = symmetric ? -levels : 0.0f;
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < n; j++) {
            float *number = &x[i * step + j], original = *number;
            /* Clamps, since the range may come from other tokens. A scale of 0 means that all
             * numbers are equal. */
            if (scale > 0.0f)
                *number =
                    zero + scale * fminf(fmaxf(rintf((original - zero) / scale), lowest), levels);
            else if (extent == 0.0f)
                *number = zero;
            if (!errors) continue;
            errors[4 * i] += (*number - original) * (*number - original);
            errors[4 * i + 1] += original * original;
        }
}

static void quantize_row(float *x, size_t n, const float *values, float *errors) {
    size_t group = (int)values[BY] == GROUP ? (size_t)values[GROUP_SIZE] : n;
    for (size_t i = 0; i < n; i += group) {
        size_t count = ss_min_size(n - i, group);
        round_to_range(widen(empty_range, x + i, 1, n, count), x + i, 1, n, count, values, errors);
    }
}

static range range_of(const ss_matrix *w, float *work) {
    range r = empty_range;
    for (size_t n = 0; n < w->out; n++) {
        ss_matrix_unpack_output(work, w, n);
        r = widen(r, work, 1, w->in, w->in);
    }
    return r;
}

static void round_output(float *out, const ss_matrix *w, size_t n, range matrix_range,
                         const float *values, float *errors) {
    ss_matrix_unpack_output(out, w, n);
    if ((int)values[BY] == TENSOR)
        round_to_range(matrix_range, out, 1, w->in, w->in, values, errors);
    else
        quantize_row(out, w->in, values, errors);
}

static void add_errors(const ss_linear *linear, const float *values, float *work, double *sums) {
    const ss_matrix *w = &linear->w;
    if (!w->data) return;
    range matrix_range = (int)values[BY] == TENSOR ? range_of(w, work) : empty_range;
    for (size_t n = 0; n < w->out; n++) {
        float errors[4] = {0};
        round_output(work, w, n, matrix_range, values, errors);
        sums[0] += (double)errors[0];
        sums[1] += (double)errors[1];
    }
}

static void record_weight_errors(const ss_pass *pass, const float *values) {
    const ss_model *model = pass->trace->model;
    float *errors = ss_floats(pass->trace, SS_FIELD_WEIGHT_ROUNDED);
    for (int a = 0; errors && a < model->arch.L; a++, errors += 2) {
        int l = model->arch.layers[a];
        const ss_layer *layer = &model->layers[l];
        const ss_linear *const linears[] = {
            &layer->q,        &layer->k,           &layer->v,        &layer->o,
            &layer->gate,     &layer->router,      &layer->ffn.gate, &layer->ffn.up,
            &layer->ffn.down, &layer->shared_gate, &layer->q_latent, &layer->kv_latent,
            &layer->k_shared};
        double sums[2] = {0};
        if (!ss_edit_selects(values[LAYER], l)) continue;
        for (size_t i = 0; i < sizeof linears / sizeof *linears; i++)
            add_errors(linears[i], values, pass->work, sums);
        for (int e = 0; layer->experts && e < model->arch.E; e++) {
            add_errors(&layer->experts[e].gate, values, pass->work, sums);
            add_errors(&layer->experts[e].up, values, pass->work, sums);
            add_errors(&layer->experts[e].down, values, pass->work, sums);
        }
        errors[0] = (float)sums[0];
        errors[1] = (float)sums[1];
    }
}

static void quantize_weights(const ss_hook *hook, const float *values) {
    const ss_matrix *w = &hook->linear->w;
    const float *bias = hook->linear->bias;
    size_t in = w->in, rows = (size_t)hook->n;
    float *outputs = hook->pass->work, *panel = outputs + SS_PANEL * in;
    float *tiles = panel + SS_PANEL * in;
    range matrix_range = (int)values[BY] == TENSOR ? range_of(w, outputs) : empty_range;
    ss_tile(tiles, hook->in, in, rows, in);
    for (size_t n = 0; n < w->out; n += SS_PANEL) {
        size_t columns = ss_min_size(w->out - n, SS_PANEL);
        for (size_t c = 0; c < columns; c++)
            round_output(outputs + c * in, w, n + c, matrix_range, values, NULL);
        ss_pack_rows(panel, outputs, in, columns, in);
        ss_matmul(hook->rows + n, hook->width, tiles, panel, bias ? bias + n : NULL, rows, columns,
                  in);
    }
}

static bool quantizes_activations(const ss_pass *pass, const ss_edit *edit) {
    return pass->edit_kinds[edit->kind].apply == ss_apply_quantize &&
           (int)edit->values[WHAT] != WEIGHTS;
}

/* Checks that edits of weights do not exclude each other: a quantization computes the product
 * again, which would undo or double a scaled weight. */
ss_status ss_check_weights(const ss_pass *pass, const float *values, const char *where,
                           ss_error *err) {
    const ss_edit_kind *table = pass->edit_kinds;
    const ss_edit *this_edit = pass->edits;
    while (this_edit->values != values) this_edit++;
    for (const ss_edit *edit = pass->edits; edit < this_edit; edit++) {
        unsigned common_points = table[edit->kind].hook_points & table[this_edit->kind].hook_points;
        if ((common_points & SS_AT_PRODUCT) && edit->kind != this_edit->kind &&
            !quantizes_activations(pass, edit))
            return ss_fail(err, SS_BAD_REQUEST, where,
                           "expected weights that are scaled or quantized, found both");
    }
    return SS_OK;
}

ss_status ss_check_quantize(const ss_pass *pass, const float *values, const char *where,
                            ss_error *err) {
    if (has_shared_scales(values) && values[PROMPT] > 0.0f && values[PROMPT] <= values[FIRST])
        return ss_fail(err, SS_BAD_REQUEST, where,
                       "expected a prompt of more tokens than the %.7g that stay exact, found %.7g",
                       (double)values[FIRST], (double)values[PROMPT]);
    if ((int)values[WHAT] < HIDDEN)
        return ss_edit_check_attention(&pass->trace->model->arch, values[LAYER], where, err);
    if ((int)values[WHAT] != WEIGHTS) return SS_OK;
    if ((int)values[BY] == TOKEN || values[FIRST] > 0.0f)
        return ss_fail(err, SS_BAD_REQUEST, where,
                       "expected weights by tensor, channel or group, which have no tokens");
    return ss_check_weights(pass, values, where, err);
}

/* Rounds columns [d, d + n) of x[rows][width], which share one scale. The first `range_rows` rows
 * of the first chunk determine the range, which later chunks reuse. */
static void round_with_shared_range(const ss_hook *hook, const float *values, float *x,
                                    size_t range_rows, size_t rows, size_t d, size_t n,
                                    float *errors) {
    size_t width = hook->heads * hook->width;
    size_t ranges = (int)values[BY] == CHANNEL ? columns_of(&hook->pass->trace->model->arch) : 1;
    float *shared_range = hook->numbers + 2 * ((size_t)hook->l * ranges + d);
    if (hook->t == 0) {
        range r = widen(empty_range, x + d, range_rows, width, n);
        shared_range[0] = r.low;
        shared_range[1] = r.high;
    }
    round_to_range((range){shared_range[0], shared_range[1]}, x + d, rows, width, n, values,
                   errors);
}

static void quantize_rows(const ss_hook *hook, const float *values) {
    int exact_n = (int)values[FIRST] - hook->t, by = (int)values[BY];
    exact_n = exact_n > 0 ? exact_n : 0;
    if (exact_n >= hook->n) return;
    size_t width = hook->heads * hook->width, rows = (size_t)(hook->n - exact_n);
    float *x = hook->rows + (size_t)exact_n * width;
    float *errors = ss_row(hook->pass->trace, SS_FIELD_ROUNDED, hook->l, hook->t + exact_n);
    if (errors) errors += hook->point == SS_AT_HIDDEN ? 0 : 2;
    /* Without shared scales a prompt may be shorter than the tokens that stay exact. */
    bool prompt_only = has_shared_scales(values) && values[PROMPT] > 0.0f;
    size_t range_rows = prompt_only ? (size_t)(values[PROMPT] - values[FIRST]) : rows;
    if (by == TENSOR) round_with_shared_range(hook, values, x, range_rows, rows, 0, width, errors);
    for (size_t d = 0; by == CHANNEL && d < width; d++)
        round_with_shared_range(hook, values, x, range_rows, rows, d, 1, errors);
    for (size_t i = 0; (by == TOKEN || by == GROUP) && i < rows; i++)
        quantize_row(x + i * width, width, values, errors ? errors + 4 * i : NULL);
}

void ss_apply_quantize(const ss_hook *hook, const float *values) {
    static const unsigned points[] = {SS_AT_QUERIES, SS_AT_KEYS, SS_AT_VALUES, SS_AT_HIDDEN,
                                      SS_AT_PRODUCT};
    if (hook->point == SS_AT_START && (int)values[WHAT] == WEIGHTS)
        record_weight_errors(hook->pass, values);
    if (points[(int)values[WHAT]] != hook->point) return;
    if (hook->point != SS_AT_PRODUCT) {
        if (ss_edit_selects(values[LAYER], hook->l)) quantize_rows(hook, values);
        return;
    }
    /* Leaves out the LM head, which is in no layer, and feature maps, which are part of the
     * operation and are computed in place. */
    int layer = hook->pass->layer;
    bool is_layer_product = layer < hook->pass->trace->model->arch.blocks && hook->in != hook->rows;
    if (is_layer_product && ss_edit_selects(values[LAYER], layer)) quantize_weights(hook, values);
}
