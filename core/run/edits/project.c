/* Projects a sink's tag out: a head that attends to the first token adds a multiple of one vector,
 * its value v, to the other tokens; in the residual stream the vector is W_O v. The run keeps these
 * directions when it computes the token's values, and removes the component along them from every
 * later token. The same number of random directions serves as the control. */
#include "hook.h"
#include "random.h"
#include "rows.h"

#include "../../math/kernels.h"

#include <math.h>
#include <string.h>

enum { DIRECTION, FROM, LAYER, HEAD, KEY, SEED };
enum { TAG, RANDOM };
enum { STREAM, HEADS };

/* A direction counts as a sum of the earlier ones if less than this share of its length remains
 * without their components. */
#define DEPENDENT_SHARE 1e-4f

static size_t width_of(const float *values, const ss_arch *arch) {
    return (size_t)((int)values[FROM] == STREAM ? arch->D : arch->U);
}

/* Returns how many numbers the edit keeps: one direction per head. In the stream the directions of
 * a layer are orthonormal, else each has length 1; heads without a direction have zeros. */
size_t ss_kept_numbers_project(const float *values, const ss_arch *arch) {
    return (size_t)arch->blocks * (size_t)arch->H * width_of(values, arch);
}

int ss_idle_tokens_project(const float *values) {
    return (int)values[KEY];
}

ss_status ss_check_project(const ss_pass *pass, const float *values, const char *where,
                           ss_error *err) {
    const ss_arch *arch = &pass->trace->model->arch;
    bool is_normed = (int)values[FROM] == STREAM && (arch->post_norm || arch->branch_norms);
    if (!is_normed && arch->gate != SS_GATE_OUTPUT_ELEMENT) return SS_OK;
    return ss_fail(err, SS_UNSUPPORTED, where,
                   "expected a model that adds a head's output unchanged%s, and this %s has %s",
                   is_normed ? " to the stream" : "", arch->family,
                   is_normed ? "a norm after attention" : "a gate for each number of it");
}

static void remove_component(float *x, const float *direction, size_t n) {
    float component = ss_dot(x, direction, n);
    for (size_t i = 0; i < n; i++) x[i] -= component * direction[i];
}

static void orthonormalize(float *directions, size_t count, size_t n) {
    for (size_t a = 0; a < count; a++) {
        float *direction = directions + a * n, norm = sqrtf(ss_dot(direction, direction, n));
        /* The second pass removes what rounding left after the first. */
        for (size_t b = 0; b < 2 * a; b++) remove_component(direction, directions + b % a * n, n);
        float norm_left = sqrtf(ss_dot(direction, direction, n));
        bool is_independent = norm_left > DEPENDENT_SHARE * norm;
        for (size_t i = 0; i < n; i++)
            direction[i] = is_independent ? direction[i] / norm_left : 0.0f;
    }
}

/* Writes directions[H][n]: the values of the key from key_values[G][U], or W_O times these; zeros
 * for heads that the edit does not select. */
static void find_tags(const ss_hook *hook, const float *values, const float *key_values,
                      float *directions, size_t n) {
    const ss_model *model = hook->pass->trace->model;
    const ss_arch *arch = &model->arch;
    size_t H = (size_t)arch->H, U = hook->width, group_heads = H / hook->heads;
    bool is_stream = (int)values[FROM] == STREAM;
    float *row = hook->pass->work;
    for (size_t d = 0; d < n; d++) {
        if (is_stream) ss_matrix_unpack_output(row, &model->layers[hook->l].o.w, d);
        for (size_t h = 0; h < H; h++) {
            const float *v = key_values + h / group_heads * U;
            const float *head_row = row + (arch->added_heads ? 0 : h * U);
            bool is_selected = ss_edit_selects(values[HEAD], (int)h);
            directions[h * n + d] = !is_selected ? 0.0f : is_stream ? ss_dot(head_row, v, U) : v[d];
        }
    }
}

static void draw_directions(const float *values, int l, float *directions, size_t heads, size_t n) {
    for (size_t i = 0; i < heads * n; i++) {
        uint32_t head = (uint32_t)((size_t)l * heads + i / n);
        float number = ss_edit_random((uint32_t)values[SEED], head, (uint32_t)(i % n)) - 0.5f;
        directions[i] = ss_edit_selects(values[HEAD], (int)(i / n)) ? number : 0.0f;
    }
}

static void keep_directions(const ss_hook *hook, const float *values, float *directions, size_t n) {
    int row = (int)values[KEY] - hook->t;
    size_t H = (size_t)hook->pass->trace->model->arch.H;
    if (row < 0 || row >= hook->n) return;
    if ((int)values[DIRECTION] == TAG)
        find_tags(hook, values, hook->rows + (size_t)row * hook->heads * hook->width, directions,
                  n);
    else
        draw_directions(values, hook->l, directions, H, n);
    bool is_stream = (int)values[FROM] == STREAM;
    for (size_t h = 0; h < (is_stream ? 1 : H); h++)
        orthonormalize(directions + h * n, is_stream ? H : 1, n);
}

void ss_apply_project(const ss_hook *hook, const float *values) {
    const ss_arch *arch = &hook->pass->trace->model->arch;
    int layer = hook->l - (hook->point == SS_AT_HIDDEN);
    size_t H = (size_t)arch->H, layer_size = H * width_of(values, arch);
    size_t n = (int)values[FROM] == STREAM ? (size_t)arch->D : hook->width;
    unsigned point = (int)values[FROM] == STREAM ? SS_AT_HIDDEN : SS_AT_HEADS;
    if (layer < 0 || !ss_edit_selects(values[LAYER], layer)) return;
    float *directions = hook->numbers + (size_t)layer * layer_size;
    if (hook->point == SS_AT_VALUES) keep_directions(hook, values, directions, n);
    if (hook->point != point) return;
    for (int i = 0; i < hook->n; i++) {
        float *row = hook->rows + (size_t)i * hook->heads * hook->width;
        for (size_t h = 0; h < H && hook->t + i > (int)values[KEY]; h++)
            remove_component(point == SS_AT_HEADS ? row + h * n : row, directions + h * n, n);
    }
}
