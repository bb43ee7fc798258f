#include "statistics.h"

#include "../math/kernels.h"
#include "../math/scalar.h"
#include "../math/spectrum.h"

#include <math.h>
#include <string.h>

/* Columns that are summed together over all rows of a tile: their 256 sums stay in the L1 cache. */
#define COLUMNS 256
/* Index of the statistics of queries, SS_STATISTIC_COSINES, among the groups. */
#define COSINES 4

typedef struct map_rows {
    const ss_trace *trace;
    int head, t, n, T;
    const float *x;
    size_t stride;
} map_rows;

static const float *row_of(const map_rows *rows, int r) {
    return rows->x + (size_t)r * rows->stride;
}

static int end_of(const map_rows *rows, int r) {
    return ss_mask_end(&rows->trace->choices[rows->head].mask, rows->t + r, rows->T);
}

static ss_proxy proxy_of(const map_rows *rows) {
    return rows->trace->choices[rows->head].operation->proxy;
}

static size_t index_of(const map_rows *rows, int i) {
    return ss_statistic_index(rows->trace, rows->head, i);
}

static double *diagonals_of(const map_rows *rows) {
    return rows->trace->statistics.diagonals + SS_DIAGONALS * rows->head;
}

static float share_factor(const map_rows *rows, int r, float mass) {
    float bias = ss_bias_weight(rows->trace, rows->head, rows->t + r);
    if (proxy_of(rows) == SS_PROXY_WEIGHTS) return 1.0f;
    if (proxy_of(rows) == SS_PROXY_SHARE) return 1.0f / (mass + bias + SS_PROXY_GUARD);
    const float *row = row_of(rows, r);
    double sum = (double)fabsf(bias);
    for (int j = 0; j < end_of(rows, r); j++) sum += (double)fabsf(row[j]);
    return 1.0f / ((float)sum + SS_PROXY_GUARD);
}

/* Adds factors[r] A_rk, or factors[r] |A_rk|, to sums[k] for every row r that sees key k; without
 * `factors` each factor is 1. */
static void add_columns(const map_rows *rows, double *sums, const double *factors, bool absolute) {
    int end = end_of(rows, rows->n - 1);
    for (int k = 0; k < end; k += COLUMNS)
        for (int r = 0; r < rows->n; r++) {
            int count = end_of(rows, r) - k;
            if (count > COLUMNS) count = COLUMNS;
            double factor = factors ? factors[r] : 1.0;
            if (count > 0)
                ss_add_shares(sums + k, row_of(rows, r) + k, factor, absolute, (size_t)count);
        }
}

static void add_shares(const map_rows *rows) {
    const ss_trace *trace = rows->trace;
    const ss_row_statistics *statistics = &trace->statistics;
    double factors[SS_MAP_ROWS];
    for (int r = 0; r < rows->n; r++) {
        size_t t = index_of(rows, rows->t + r);
        const float *row = row_of(rows, r);
        statistics->mass[t] = ss_sum(row, (size_t)end_of(rows, r));
        statistics->factor[t] = share_factor(rows, r, statistics->mass[t]);
        statistics->first_weight[t] =
            trace->first < end_of(rows, r) ? fabsf(row[trace->first]) : 0.0f;
        factors[r] = (double)statistics->factor[t];
        for (int j = 0; j < SS_DIAGONALS && j <= rows->t + r; j++)
            diagonals_of(rows)[j] += (double)fabsf(row[rows->t + r - j]) * factors[r];
    }
    add_columns(rows, statistics->alpha + index_of(rows, 0), factors,
                proxy_of(rows) == SS_PROXY_SHARE_ABS);
    if (proxy_of(rows) != SS_PROXY_WEIGHTS)
        add_columns(rows, statistics->alpha_raw + index_of(rows, 0), NULL, false);
}

static bool has_mass(const float *row, int end, float bias) {
    bool has_weight = bias != 0.0f;
    for (int j = 0; j < end && !has_weight; j++) has_weight = row[j] != 0.0f;
    return has_weight;
}

/* Returns -sum P ln P over visible keys and bias key, over ln n; NaN if all weights are 0. */
static float row_entropy(const map_rows *rows, int r) {
    const ss_trace *trace = rows->trace;
    int t = rows->t + r, end = end_of(rows, r);
    float bias = ss_bias_weight(trace, rows->head, t),
          factor = trace->statistics.factor[index_of(rows, t)];
    float count = *ss_row(trace, SS_FIELD_SEEN, rows->head, t);
    if (!has_mass(row_of(rows, r), end, bias)) return NAN;
    double entropy = ss_entropy(row_of(rows, r), factor, (size_t)end);
    if (bias != 0.0f) entropy += ss_entropy(&bias, factor, 1);
    return count == 1.0f ? 0.0f : (float)(entropy / (double)ss_logf(count));
}

static void add_entropies(const map_rows *rows) {
    for (int r = 0; r < rows->n; r++)
        rows->trace->statistics.entropy[index_of(rows, rows->t + r)] = row_entropy(rows, r);
}

static double weighted_length(const map_rows *rows, int r, const float *lengths) {
    bool absolute = proxy_of(rows) == SS_PROXY_SHARE_ABS;
    float sizes[COLUMNS];
    double sum = 0.0;
    for (int k = 0, end = end_of(rows, r); k < end; k += COLUMNS) {
        const float *row = row_of(rows, r) + k;
        int keys = end - k < COLUMNS ? end - k : COLUMNS;
        for (int j = 0; absolute && j < keys; j++) sizes[j] = fabsf(row[j]);
        sum += (double)ss_dot(absolute ? sizes : row, lengths + k, (size_t)keys);
    }
    return sum;
}

/* Adds |A_rk| / (sum_j |A_rj| lengths_j) to sums[k]; NaN if the denominator is 0. */
static void add_contributions(const map_rows *rows, double *sums, const float *lengths) {
    double factors[SS_MAP_ROWS];
    for (int r = 0; r < rows->n; r++) {
        double sum = weighted_length(rows, r, lengths);
        factors[r] = sum > 0.0 ? 1.0 / sum : (double)NAN;
    }
    add_columns(rows, sums, factors, true);
}

static const float *extend_value_lengths(const map_rows *rows) {
    const ss_row_statistics *statistics = &rows->trace->statistics;
    int *lengths_n = &statistics->lengths_n[rows->head], end = end_of(rows, rows->n - 1);
    float *lengths = statistics->lengths + index_of(rows, 0);
    if (rows->t == 0) *lengths_n = 0;
    for (; *lengths_n < end; ++*lengths_n)
        lengths[*lengths_n] = ss_key_length(rows->trace, SS_FIELD_V, rows->head, *lengths_n);
    return lengths;
}

static double *sums_of(const ss_row_statistics *statistics, unsigned group) {
    return group == SS_STATISTIC_VALUES ? statistics->values : statistics->outputs;
}

static void add_group(const map_rows *rows, unsigned group) {
    const ss_row_statistics *statistics = &rows->trace->statistics;
    if (group == SS_STATISTIC_SHARES)
        add_shares(rows);
    else if (group == SS_STATISTIC_ENTROPY)
        add_entropies(rows);
    else
        add_contributions(rows, sums_of(statistics, group) + index_of(rows, 0),
                          group == SS_STATISTIC_VALUES
                              ? extend_value_lengths(rows)
                              : ss_row(rows->trace, SS_FIELD_OUT_NORM, rows->head, 0));
}

static void clear_sums(const map_rows *rows, unsigned group) {
    const ss_row_statistics *statistics = &rows->trace->statistics;
    size_t first = index_of(rows, 0), bytes = (size_t)rows->trace->capacity * sizeof(double);
    if (group == SS_STATISTIC_SHARES) {
        memset(statistics->alpha + first, 0, bytes);
        memset(statistics->alpha_raw + first, 0, bytes);
        memset(diagonals_of(rows), 0, SS_DIAGONALS * sizeof(double));
    } else if (group != SS_STATISTIC_ENTROPY) {
        memset(sums_of(statistics, group) + first, 0, bytes);
    }
}

static int *queries_of(const ss_trace *trace, int group, int head) {
    return &trace->statistics.queries[group * ss_heads(trace) + head];
}

void ss_statistics_add(const ss_trace *trace, unsigned groups, int head, int t, int n, int T,
                       const float *x, size_t stride) {
    map_rows rows = {trace, head, t, n, T, x, stride};
    for (int i = 0; i < SS_STATISTICS; i++) {
        int *queries = queries_of(trace, i, head);
        if (!(groups & 1u << i) || *queries != t) continue;
        if (t == 0) clear_sums(&rows, 1u << i);
        add_group(&rows, 1u << i);
        *queries = t + n;
    }
}

unsigned ss_available_statistics(const ss_trace *trace) {
    unsigned groups = SS_STATISTIC_SHARES;
    if (!trace->statistics.alpha) return 0;
    if (trace->fields & SS_BIT(SS_FIELD_SEEN)) groups |= SS_STATISTIC_ENTROPY;
    if (trace->fields & SS_BIT(SS_FIELD_V) || trace->summaries.norms[SS_FIELD_V])
        groups |= SS_STATISTIC_VALUES;
    if (trace->fields & SS_BIT(SS_FIELD_OUT_NORM)) groups |= SS_STATISTIC_OUTPUTS;
    return groups;
}

static void add_direction(float *out, const float *k, size_t K) {
    float scale = (float)(1.0 / sqrt((double)ss_dot(k, k, K)));
    ss_times_columns(out, &scale, k, 0, K, 1);
}

void ss_statistics_add_queries(const ss_trace *trace, int head, int t, int n, int T, const float *q,
                               size_t stride) {
    const ss_arch *arch = &trace->model->arch;
    const ss_row_statistics *statistics = &trace->statistics;
    int *queries = queries_of(trace, COSINES, head),
        *directions_n = &statistics->directions_n[head];
    int g = ss_arch_group_row(arch, head);
    size_t K = (size_t)arch->K;
    float *direction = statistics->directions + (size_t)head * K;
    double *cosines = statistics->cosines + 2 * (size_t)head;
    const float *first_key = ss_row(trace, SS_FIELD_K, g, trace->first);
    if (*queries != t) return;
    if (t == 0) {
        *directions_n = 0;
        cosines[0] = cosines[1] = 0.0;
        memset(direction, 0, K * sizeof *direction);
    }
    double first_norm = sqrt((double)ss_dot(first_key, first_key, K));
    for (int r = 0; r < n; r++, q += stride) {
        int end = ss_mask_end(&trace->choices[head].mask, t + r, T);
        for (; *directions_n < end; ++*directions_n)
            if (*directions_n != trace->first)
                add_direction(direction, ss_row(trace, SS_FIELD_K, g, *directions_n), K);
        double norm = sqrt((double)ss_dot(q, q, K));
        cosines[0] += (double)ss_dot(q, first_key, K) / (norm * first_norm);
        cosines[1] += (double)ss_dot(q, direction, K) / norm;
    }
    *queries = t + n;
}

void ss_statistics_add_recorded_queries(const ss_trace *trace, int head, int T) {
    *queries_of(trace, COSINES, head) = 0;
    ss_statistics_add_queries(trace, head, 0, T, T, ss_row(trace, SS_FIELD_Q, head, 0),
                              (size_t)trace->model->arch.K);
}

void ss_statistics_rewind(const ss_trace *trace, int n) {
    if (!trace->statistics.queries) return;
    for (int i = 0; i < SS_STATISTICS * ss_heads(trace); i++)
        if (trace->statistics.queries[i] > n) trace->statistics.queries[i] = 0;
}

void ss_statistics_clear(const ss_trace *trace) {
    /* The arena's memory is uninitialized. */
    size_t bytes = (size_t)(SS_STATISTICS * ss_heads(trace)) * sizeof *trace->statistics.queries;
    if (trace->statistics.queries) memset(trace->statistics.queries, 0, bytes);
}

int ss_statistics_align(const ss_trace *trace, unsigned groups, int head, int T) {
    int queries_min = T, queries_max = 0;
    for (int i = 0; i < SS_STATISTICS; i++) {
        int queries = *queries_of(trace, i, head);
        if (!(groups & 1u << i)) continue;
        queries_min = queries < queries_min ? queries : queries_min;
        queries_max = queries > queries_max ? queries : queries_max;
    }
    if (queries_min == queries_max) return queries_min;
    for (int i = 0; i < SS_STATISTICS; i++)
        if (groups & 1u << i) *queries_of(trace, i, head) = 0;
    return 0;
}

bool ss_statistics_are_complete(const ss_trace *trace, unsigned groups, int T) {
    if (groups & SS_STATISTIC_NORMS && T > trace->T) return false;
    if (groups & SS_STATISTIC_SPECTRA && trace->statistics.spectra_n != T) return false;
    for (int i = 0; i < SS_STATISTICS; i++)
        for (int head = 0; groups & 1u << i && head < ss_heads(trace); head++)
            if (*queries_of(trace, i, head) != T) return false;
    return true;
}

void ss_statistics_add_norms(const ss_trace *trace, ss_field_id field, int row, int t, int n,
                             const float *rows, size_t stride) {
    float *norms = trace->statistics.norms[field];
    if (!norms) return;
    norms += (size_t)row * (size_t)trace->capacity + (size_t)t;
    for (int i = 0; i < n; i++, rows += stride)
        norms[i] = sqrtf(ss_dot(rows, rows, trace->widths[field]));
}

void ss_statistics_add_spectrum(ss_trace *trace, int layer, const float *h, int T) {
    const ss_arch *arch = &trace->model->arch;
    ss_row_statistics *statistics = &trace->statistics;
    if (!statistics->spectra) return;
    statistics->spectra[layer] = ss_matrix_entropy(trace->spectrum, h, (size_t)T, (size_t)arch->D);
    statistics->spectra_n = layer + 1 == ss_states(arch) ? T : 0;
}

float ss_norm_of(const ss_trace *trace, ss_field_id field, int row, int t) {
    const float *recording_norms = trace->summaries.norms[field];
    const float *run_norms = trace->statistics.norms[field];
    if (recording_norms) return recording_norms[(size_t)row * (size_t)trace->T + (size_t)t];
    if (run_norms) return run_norms[(size_t)row * (size_t)trace->capacity + (size_t)t];
    const float *x = ss_row(trace, field, row, t);
    return sqrtf(ss_dot(x, x, trace->widths[field]));
}

float ss_key_length(const ss_trace *trace, ss_field_id field, int head, int j) {
    if (field == SS_FIELD_OUT_NORM) return *ss_row(trace, field, head, j);
    return ss_norm_of(trace, field, ss_arch_group_row(&trace->model->arch, head), j);
}
