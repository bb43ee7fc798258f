#include "log.h"

#include "back/attention.h"

#include <math.h>
#include <string.h>

#define COLUMN(name, unit, meaning)                                                                \
    { #name, meaning, unit, offsetof(ss_log_entry, name) }

static const ss_log_column columns[] = {
    COLUMN(step, "", "updates that the weights have had"),
    COLUMN(loss, "nat", "mean loss of the step's batch"),
    COLUMN(loss_triggers, "nat", "at triggers"),
    COLUMN(loss_elsewhere, "nat", "at other positions"),
    COLUMN(optimum_triggers, "nat", "smallest possible loss at triggers"),
    COLUMN(optimum_elsewhere, "nat", "and at other positions"),
    COLUMN(first_elsewhere, "weight",
           "attention on the first token from positions without trigger, mean over heads"),
    COLUMN(first_triggers, "weight", "and from triggers"),
    COLUMN(first_most, "weight", "first_elsewhere of the head where it is largest"),
    COLUMN(value_ratio, "",
           "value norm of the first token over the mean of the others', all heads"),
    COLUMN(hidden_ratio, "", "its hidden norm, likewise, after the layer where it is largest"),
    COLUMN(gradient_norm, "", "of all weights, before it is clipped"),
    COLUMN(key_gradient, "", "gradient norm of the first keys over the mean of the others'"),
    COLUMN(value_gradient, "", "and of the first values"),
    COLUMN(input_gradient, "",
           "gradient norm by what attention reads, after the norm, of the first token over the "
           "mean of the others', mean over layers (R of arXiv 2603.17771)"),
    COLUMN(stream_gradient, "", "the same by the residual stream, before the norm"),
    COLUMN(learning_rate, "", "of the step"),
};

const ss_log_column *ss_log_columns(int *n) {
    *n = (int)(sizeof columns / sizeof *columns);
    return columns;
}

#define SUMS (sizeof(ss_sums) / sizeof(double))

void ss_tally_lay_out(ss_tally *tally, const ss_arch *arch, int T, ss_arena *arena) {
    size_t heads = (size_t)arch->L * (size_t)arch->H;
    tally->heads = (int)heads;
    tally->L = arch->L;
    tally->T = T;
    tally->metric_numbers = ss_arena_take(arena, heads + 1, sizeof *tally->metric_numbers);
}

size_t ss_tally_doubles(const ss_tally *tally) {
    return SUMS + (size_t)tally->heads;
}

void ss_tally_set_sums(ss_tally *tally, double *sums) {
    tally->sums = (ss_sums *)(void *)sums;
    tally->head_sums = sums + SUMS;
}

void ss_tally_begin(ss_tally *tally, double *sums) {
    memset(sums, 0, ss_tally_doubles(tally) * sizeof *sums);
    ss_tally_set_sums(tally, sums);
}

static int measure_metric(ss_tally *tally, const ss_trace *trace, const char *name) {
    int rows, count = 1;
    const ss_metric *table = ss_metrics(&rows);
    for (int i = 0; i < rows; i++) {
        if (strcmp(table[i].name, name)) continue;
        ss_metric_args args = {SS_EPS_STANDARD, trace->T, 0, 0, NULL};
        size_t dims[SS_RANK_MAX];
        int rank = ss_metric_shape(dims, trace, i, &args, NULL);
        for (int d = 0; d < rank; d++) count *= (int)dims[d];
        ss_metric_measure(trace, i, &args, tally->metric_numbers);
    }
    return count;
}

static void add_ratios(ss_tally *tally, const ss_trace *trace) {
    int n = measure_metric(tally, trace, "value_ratio");
    for (int i = 0; i < n; i++) tally->sums->value_ratio += (double)tally->metric_numbers[i] / n;
    n = measure_metric(tally, trace, "hidden_ratio");
    double largest = (double)tally->metric_numbers[1]; /* row 0 is the embedding */
    for (int i = 2; i < n; i++) largest = fmax(largest, (double)tally->metric_numbers[i]);
    tally->sums->hidden_ratio += largest;
}

void ss_tally_add(ss_tally *tally, const ss_trace *trace, const ss_sequence *sequence,
                  const float *losses) {
    const ss_arch *arch = &trace->model->arch;
    size_t C = (size_t)trace->capacity;
    tally->sums->sequences += 1.0;
    for (int t = 0; t < trace->T; t++) {
        /* The attention of position 0 is not measured; its loss counts like the loss of a position
         * without a trigger. */
        int kind = sequence->kinds[t], loss_kind = kind ? kind : SS_KIND_ELSEWHERE;
        double weight = (double)sequence->weights[t];
        tally->sums->loss += weight * (double)losses[t];
        tally->sums->losses[loss_kind] += weight * (double)losses[t];
        tally->sums->optima[loss_kind] += weight * (double)sequence->optimum[t];
        tally->sums->positions[kind] += 1.0;
    }
    for (int i = 0; i < tally->heads; i++) {
        const float *att = ss_recorded_rows(trace, SS_FIELD_ATT, i / arch->H, i % arch->H);
        for (int t = 0; t < trace->T; t++) {
            double weight = (double)att[(size_t)t * C];
            tally->sums->first_attention[sequence->kinds[t]] += weight / tally->heads;
            if (sequence->kinds[t] == SS_KIND_ELSEWHERE) tally->head_sums[i] += weight;
        }
    }
    add_ratios(tally, trace);
}

void ss_tally_add_gradients(ss_tally *tally, const float *squares, const float *ratios,
                            int sequences) {
    tally->sums->gradients += sequences;
    for (int t = 0; t < tally->T; t++) {
        tally->sums->key_squares[t > 0] += (double)squares[t];
        tally->sums->value_squares[t > 0] += (double)squares[tally->T + t];
    }
    for (int l = 0; l < tally->L; l++) {
        tally->sums->input_gradient += (double)ratios[l] / tally->L;
        tally->sums->stream_gradient += (double)ratios[tally->L + l] / tally->L;
    }
}

static double ratio_of(const double squares[2], int T) {
    return sqrt(squares[0] * (T - 1) / squares[1]);
}

ss_log_entry ss_tally_end(const ss_tally *tally, double targets) {
    const double *n = tally->sums->positions;
    double elsewhere = n[SS_KIND_ELSEWHERE] + n[SS_KIND_FIRST], largest = -(double)INFINITY;
    for (int i = 0; i < tally->heads; i++) largest = fmax(largest, tally->head_sums[i]);
    return (ss_log_entry){
        .loss = tally->sums->loss / targets,
        .loss_triggers = tally->sums->losses[SS_KIND_TRIGGER] / n[SS_KIND_TRIGGER],
        .loss_elsewhere = tally->sums->losses[SS_KIND_ELSEWHERE] / elsewhere,
        .optimum_triggers = tally->sums->optima[SS_KIND_TRIGGER] / n[SS_KIND_TRIGGER],
        .optimum_elsewhere = tally->sums->optima[SS_KIND_ELSEWHERE] / elsewhere,
        .first_elsewhere = tally->sums->first_attention[SS_KIND_ELSEWHERE] / n[SS_KIND_ELSEWHERE],
        .first_triggers = tally->sums->first_attention[SS_KIND_TRIGGER] / n[SS_KIND_TRIGGER],
        .first_most = largest / n[SS_KIND_ELSEWHERE],
        .value_ratio = tally->sums->value_ratio / tally->sums->sequences,
        .hidden_ratio = tally->sums->hidden_ratio / tally->sums->sequences,
        .key_gradient = ratio_of(tally->sums->key_squares, tally->T),
        .value_gradient = ratio_of(tally->sums->value_squares, tally->T),
        .input_gradient = tally->sums->input_gradient / tally->sums->gradients,
        .stream_gradient = tally->sums->stream_gradient / tally->sums->gradients,
    };
}
