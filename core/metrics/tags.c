/*
 * Catch, tag, release: does a sink write one vector on every token that attends to it?
 *
 * A head whose queries attend mostly to the first key adds a multiple of one vector, its value, to
 * each of them; W_O maps it to a direction of the residual stream. Two shares measure how much of
 * the head's output, and of the variance of the tokens after its layer, that direction explains
 * (arXiv 2502.00919). The first token is excluded, since its output is its own value. A share is
 * NaN without other tokens, or where its denominator is zero.
 *
 * The stable rank of all that the head adds to those tokens, O = A V W_O, |O|_F^2 / |O|_2^2, is 1
 * if it writes multiples of one vector, whichever that is (arXiv 2606.08105, broadcast).
 */
#include "../math/kernels.h"
#include "../math/spectrum.h"
#include "measures.h"

#include <math.h>
#include <string.h>

static const float *first_value(const ss_trace *trace, int head) {
    return ss_row(trace, SS_FIELD_V, ss_arch_group_row(&trace->model->arch, head), 0);
}

float ss_measure_tag_share(const ss_trace *trace, int head, int T) {
    size_t U = (size_t)trace->model->arch.U;
    const float *v = first_value(trace, head);
    double projected_square = 0.0, total = 0.0, square = (double)ss_dot(v, v, U);
    for (int t = 1; t < T; t++) {
        const float *out = ss_row(trace, SS_FIELD_HEAD_OUT, head, t);
        double product = (double)ss_dot(out, v, U);
        projected_square += product * product;
        total += (double)ss_dot(out, out, U);
    }
    return (float)(projected_square / (square * total));
}

/* Writes the part of row d of W_O that multiplies a head's output to row[H*U], and returns where
 * this part begins. */
static const float *unpack_output_row(const ss_trace *trace, int head, size_t d, float *row) {
    const ss_arch *arch = &trace->model->arch;
    size_t U = (size_t)ss_arch_sizes(arch, head / arch->H).U;
    ss_matrix_unpack_output(row, &trace->model->layers[arch->layers[head / arch->H]].o.w, d);
    return row + (arch->added_heads ? 0 : (size_t)(head % arch->H) * U);
}

static double write_direction(const ss_trace *trace, int head, double *direction, float *row) {
    const ss_arch *arch = &trace->model->arch;
    size_t U = (size_t)ss_arch_sizes(arch, head / arch->H).U;
    const float *v = first_value(trace, head);
    double square = 0.0;
    for (size_t d = 0; d < (size_t)arch->D; d++) {
        direction[d] = (double)ss_dot(unpack_output_row(trace, head, d, row), v, U);
        square += direction[d] * direction[d];
    }
    return square;
}

static void write_mean(const ss_trace *trace, int layer, int T, double *mean) {
    size_t D = (size_t)trace->model->arch.D;
    memset(mean, 0, D * sizeof *mean);
    for (int t = 1; t < T; t++) {
        const float *h = ss_row(trace, SS_FIELD_HIDDEN, layer, t);
        for (size_t d = 0; d < D; d++) mean[d] += (double)h[d] / (double)(T - 1);
    }
}

static float measure_head(const ss_trace *trace, int head, int T, double *buffer) {
    const ss_arch *arch = &trace->model->arch;
    size_t D = (size_t)arch->D;
    int layer = arch->layers[head / arch->H] + 1;
    double *direction = buffer, *mean = direction + D, projected_square = 0.0, total = 0.0;
    double square = write_direction(trace, head, direction, (float *)(void *)mean);
    write_mean(trace, layer, T, mean);
    for (int t = 1; t < T; t++) {
        const float *h = ss_row(trace, SS_FIELD_HIDDEN, layer, t);
        double product = 0.0;
        for (size_t d = 0; d < D; d++) {
            double centered = (double)h[d] - mean[d];
            product += centered * direction[d];
            total += centered * centered;
        }
        projected_square += product * product;
    }
    return (float)(projected_square / (square * total));
}

static void measure_head_piece(const void *context, size_t head, size_t worker) {
    const ss_metric_job *job = context;
    double *buffer = job->trace->spectrum + worker * job->trace->spectrum_n;
    job->out[head] = measure_head(job->trace, (int)head, job->T, buffer);
}

static void measure_rank_piece(const void *context, size_t head, size_t worker) {
    const ss_metric_job *job = context;
    const ss_trace *trace = job->trace;
    const ss_arch *arch = &trace->model->arch;
    size_t D = (size_t)arch->D, U = (size_t)ss_arch_sizes(arch, (int)head / arch->H).U;
    size_t n = (size_t)job->T - 1, HU = (size_t)arch->H * (size_t)arch->U;
    double *buffer = trace->spectrum + worker * trace->spectrum_n;
    float *out = (float *)(void *)buffer, *row = out + n * D;
    for (size_t d = 0; d < D; d++) {
        const float *columns = unpack_output_row(trace, (int)head, d, row);
        for (size_t t = 0; t < n; t++)
            out[t * D + d] =
                ss_dot(columns, ss_row(trace, SS_FIELD_HEAD_OUT, (int)head, (int)t + 1), U);
    }
    job->out[head] = ss_stable_rank(buffer + (n * D + HU) / 2 + 1, out, n, D);
}

/* Measures each head by `piece`; NaN where a gate or a norm changes what the head writes. */
static void measure_heads(const ss_trace *trace, int T, bool is_changed, uint64_t work,
                          ss_piece *piece, float *out) {
    size_t heads = (size_t)ss_heads(trace);
    for (size_t head = 0; is_changed && head < heads; head++) out[head] = NAN;
    ss_metric_job job = {.trace = trace, .T = T, .out = out};
    if (!is_changed) ss_pool_run(trace->pool, piece, &job, heads, work);
}

void ss_measure_tag_stream(const ss_trace *trace, const ss_metric_args *args, float *out) {
    const ss_arch *arch = &trace->model->arch;
    bool is_changed = arch->post_norm || arch->branch_norms || arch->gate == SS_GATE_OUTPUT_ELEMENT;
    uint64_t T = (uint64_t)args->T, heads = (uint64_t)ss_heads(trace);
    measure_heads(trace, args->T, is_changed, heads * T * T, measure_head_piece, out);
}

void ss_measure_stable_rank(const ss_trace *trace, const ss_metric_args *args, float *out) {
    const ss_arch *arch = &trace->model->arch;
    bool is_changed = arch->gate && arch->gate < SS_GATE_VALUE_ELEMENT;
    uint64_t T = (uint64_t)args->T, work = (uint64_t)ss_heads(trace) * T * T * (uint64_t)arch->D;
    measure_heads(trace, args->T, is_changed, work, measure_rank_piece, out);
}
