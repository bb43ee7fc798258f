/* The LOG table: the columns of a training's log, one entry a step. */
#ifndef SS_TRAIN_LOG_H
#define SS_TRAIN_LOG_H

#include "../metrics/metrics.h"
#include "task.h"

/* What the weights of a step showed on its batch; NaN where there is nothing to be shown. */
typedef struct ss_log_entry {
    double step;
    double loss, loss_triggers, loss_elsewhere;
    double optimum_triggers, optimum_elsewhere;
    double first_elsewhere, first_triggers, first_most;
    double value_ratio, hidden_ratio;
    double gradient_norm, key_gradient, value_gradient, input_gradient, stream_gradient;
    double learning_rate;
} ss_log_entry;

typedef struct ss_log_column {
    const char *name, *meaning, *unit;
    size_t offset; /* of the double in ss_log_entry */
} ss_log_column;

/* The table; *n rows. */
const ss_log_column *ss_log_columns(int *n);

/* What an entry has in a column. */
static inline const double *ss_log_number(const ss_log_entry *entry, const ss_log_column *column) {
    return (const double *)(const void *)((const char *)entry + column->offset);
}

/* What is summed over the sequences of a batch; double by double they add up. */
typedef struct ss_sums {
    double loss, losses[3], optima[3], positions[3]; /* by ss_kind */
    double first[3];                                 /* attention on the first token */
    double value_ratio, hidden_ratio, sequences;
    double key_squares[2], value_squares[2]; /* of gradients: at the first token, at the others */
    double input_gradient, stream_gradient, gradients; /* the last: sequences of these */
} ss_sums;

/* Sums under way. */
typedef struct ss_tally {
    ss_sums *sums;
    double *of_heads; /* [L*H] behind them: attention on the first token elsewhere */
    float *measured;  /* of one metric */
    int heads, L, T;
} ss_tally;

void ss_tally_lay_out(ss_tally *tally, const ss_arch *arch, int T, ss_arena *arena);

/* Doubles of the sums, those of heads among them. */
size_t ss_tally_doubles(const ss_tally *tally);

/* Sums from 0, in these doubles. */
void ss_tally_begin(ss_tally *tally, double *sums);

/* The sums that these doubles hold. */
void ss_tally_on(ss_tally *tally, double *sums);

/* One sequence: its trace, and its losses[T]. */
void ss_tally_add(ss_tally *tally, const ss_trace *trace, const ss_sequence *sequence,
                  const float *losses);

/* Of so many sequences: squares[2][T] of the derivatives by keys and values, ratios[2][L] of those
 * by what attention reads and by the stream before it. */
void ss_tally_add_gradients(ss_tally *tally, const float *squares, const float *ratios,
                            int sequences);

/* targets: losses that the mean is over. */
ss_log_entry ss_tally_end(const ss_tally *tally, double targets);

#endif
