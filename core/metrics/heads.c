/*
 * What several questions ask of a head: its row statistics, and one number for each head.
 *
 * A map is the largest thing that a run leaves, so it is read once for all questions: a row gives
 * its mass while it adds to its columns.
 */
#include "../math/kernels.h"
#include "measures.h"

#include <math.h>
#include <string.h>

/* Columns summed together in doubles, on the stack. */
#define COLUMNS 256

static float share_factor(const ss_trace *trace, int head, int t, float mass) {
    ss_proxy proxy = trace->choices[head].operation->proxy;
    float bias = ss_bias_weight(trace, head, t);
    if (proxy == SS_PROXY_WEIGHTS) return 1.0f;
    if (proxy == SS_PROXY_SHARE) return 1.0f / (mass + bias + SS_PROXY_GUARD);
    const float *row = ss_att_row(trace, head, t);
    double sum = (double)fabsf(bias);
    for (int j = 0; j < ss_row_end(trace, head, t); j++) sum += (double)fabsf(row[j]);
    return 1.0f / ((float)sum + SS_PROXY_GUARD);
}

double ss_queries_of(const ss_mask *mask, int T, int k) {
    return (double)(mask->prefix == SS_EVERY_KEY ? T : T - k);
}

/* The row statistics of one head; `apart` numbers lie between two statistics. */
static void find_head_statistics(const ss_trace *trace, int head, int T, float *out, size_t apart) {
    const ss_choice *choice = &trace->choices[head];
    ss_proxy proxy = choice->operation->proxy;
    bool own = proxy != SS_PROXY_WEIGHTS; /* else a weight is its share */
    for (int k0 = 0; k0 < T; k0 += COLUMNS) {
        double sums[2][COLUMNS] = {{0}};
        int columns = T - k0 < COLUMNS ? T - k0 : COLUMNS;
        for (int t = k0 < choice->mask.prefix ? 0 : k0; t < T; t++) {
            const float *row = ss_att_row(trace, head, t);
            int end = ss_row_end(trace, head, t), seen = end - k0;
            float *mass = &out[t], *factor = mass + apart;
            if (k0 == 0) {
                *mass = ss_sum(row, (size_t)end);
                *factor = share_factor(trace, head, t, *mass);
            }
            if (seen > columns) seen = columns;
            if (seen <= 0) continue;
            ss_add_shares(sums[0], row + k0, (double)*factor, proxy == SS_PROXY_SHARE_ABS,
                          (size_t)seen);
            if (own) ss_add_shares(sums[1], row + k0, 1.0, false, (size_t)seen);
        }
        for (int c = 0; c < columns; c++) {
            float *alpha = &out[2 * apart + (size_t)(k0 + c)];
            double queries = ss_queries_of(&choice->mask, T, k0 + c);
            alpha[0] = (float)(sums[0][c] / queries);
            alpha[apart] = (float)(sums[own][c] / queries);
        }
    }
}

static void statistics_piece(const void *shared, size_t head, size_t worker) {
    const ss_metric_job *job = shared;
    size_t T = (size_t)job->T;
    (void)worker;
    find_head_statistics(job->trace, (int)head, job->T, job->out + head * T,
                         (size_t)ss_heads(job->trace) * T);
}

void ss_share_heads(const ss_metric_job *job, ss_piece *piece) {
    uint64_t heads = (uint64_t)ss_heads(job->trace), T = (uint64_t)job->T;
    ss_pool_run(job->trace->pool, piece, job, (size_t)heads, heads * T * T);
}

const float *ss_find_statistic(const ss_trace *trace, int T, ss_statistic what) {
    const ss_kept *kept = &trace->kept;
    const float *found =
        (const float *[]){kept->row_mass, kept->factors, kept->alpha, kept->alpha_raw}[what];
    if (found && T == trace->T) return found;
    ss_row_statistics *statistics = trace->statistics;
    size_t apart = (size_t)ss_heads(trace) * (size_t)T;
    if (statistics->T != T) {
        ss_metric_job job = {.trace = trace, .T = T, .out = statistics->numbers};
        ss_share_heads(&job, statistics_piece);
        statistics->T = T;
    }
    return statistics->numbers + (size_t)what * apart;
}

void ss_copy_statistic(const ss_trace *trace, const ss_metric_args *args, ss_statistic what,
                       float *out) {
    memcpy(out, ss_find_statistic(trace, args->T, what),
           (size_t)ss_heads(trace) * (size_t)args->T * sizeof *out);
}

static void value_piece(const void *shared, size_t head, size_t worker) {
    const ss_metric_job *job = shared;
    (void)worker;
    job->out[head] = job->value(job->trace, (int)head, job->T);
}

void ss_each_head(const ss_trace *trace, const ss_metric_args *args,
                  float (*value)(const ss_trace *trace, int head, int T), float *out) {
    ss_metric_job job = {.trace = trace, .T = args->T, .value = value, .out = out};
    ss_share_heads(&job, value_piece);
}
