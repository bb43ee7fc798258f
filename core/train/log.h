/* The LOG table: the columns of the log of a training run, which has one entry per step. */
#ifndef SS_TRAIN_LOG_H
#define SS_TRAIN_LOG_H

#include "../metrics/metrics.h"
#include "task.h"

/* Measurements of a step's weights on its batch; a measurement that is undefined is NaN. */
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
    size_t offset; /* byte offset of the double in ss_log_entry */
} ss_log_column;

const ss_log_column *ss_log_columns(int *n);

static inline const double *ss_log_number(const ss_log_entry *entry, const ss_log_column *column) {
    return (const double *)(const void *)((const char *)entry + column->offset);
}

/* Sums over the sequences of a batch. All members are doubles, so that the sums of two parts can be
 * added as arrays. */
typedef struct ss_sums {
    double loss, losses[3], optima[3], positions[3]; /* indexed by ss_kind */
    double first_attention[3];                       /* [ss_kind] attention on the first token */
    double value_ratio, hidden_ratio, sequences;
    double key_squares[2], value_squares[2]; /* squared gradients with respect to keys, and to
                                                values: of the first token, and of the others */
    double input_gradient, stream_gradient,
        gradients; /* gradients: number of sequences in input_gradient and stream_gradient */
} ss_sums;

typedef struct ss_tally {
    ss_sums *sums;
    double *head_sums; /* [L*H] after the sums: attention on the first token, from positions without
                         a trigger */
    float *metric_numbers;
    int heads, L, T;
} ss_tally;

void ss_tally_lay_out(ss_tally *tally, const ss_arch *arch, int T, ss_arena *arena);

size_t ss_tally_doubles(const ss_tally *tally);

/* Begins new sums, which are stored in `sums`. */
void ss_tally_begin(ss_tally *tally, double *sums);

/* Points the tally to sums that are stored in `sums`. */
void ss_tally_set_sums(ss_tally *tally, double *sums);

/* Adds one sequence: its trace and its losses[T]. */
void ss_tally_add(ss_tally *tally, const ss_trace *trace, const ss_sequence *sequence,
                  const float *losses);

/* Adds the gradients of `sequences` sequences: squares[2][T] with respect to keys and values,
 * ratios[2][L] with respect to the input of attention after and before its norm. */
void ss_tally_add_gradients(ss_tally *tally, const float *squares, const float *ratios,
                            int sequences);

ss_log_entry ss_tally_end(const ss_tally *tally, double targets);

#endif
