/*
 * Train: a model, a task and a recipe -> a trained model, step by step.
 *
 *     ss_train train;
 *     ss_train_init(&train, &setup, &arena, &err);
 *     while (ss_train_step(&train, &entry, &err) == SS_OK && train.step < recipe.steps) continue;
 *     // train.weights.file is a safetensors file
 *
 * A step draws a batch that depends on seed and step alone, runs it (run/), measures what the
 * traces show (metrics/), goes back through them and updates the weights. Nothing is random but
 * what random.h draws, and every sum has a fixed order: the same recipe gives the same bits in
 * every build.
 */
#ifndef SS_TRAIN_TRAIN_H
#define SS_TRAIN_TRAIN_H

#include "../run/run.h"
#include "back/backward.h"
#include "log.h"
#include "optimiser.h"
#include "task.h"

/* A batch is cut into so many parts, whose gradients are added in their order: whoever computes
 * them, and with how many others, the sum has the same bits. */
#define SS_PARTS 4
/* Rows of a part that go through the model together at most. */
#define SS_ROWS_TOGETHER 1024

typedef struct ss_train_desc {
    const ss_arch *arch;
    const ss_recipe *recipe; /* must outlive the training, as must the text */
    const int32_t *text;     /* [text_n] of the task text, or NULL */
    size_t text_n;
    const ss_container *begin; /* weights to begin with; NULL, or what it lacks: they are drawn */
} ss_train_desc;

typedef struct ss_train {
    const ss_recipe *recipe;
    ss_task task;
    ss_parameters weights, gradients;
    ss_choice own;                 /* what its heads compute */
    float *mean, *square, *before; /* [n] the optimiser's memory, and the weights a step ago */
    int step;                      /* updates so far */
    int T, together;               /* tokens of a sequence, sequences that go together */
    ss_sequence *batch;            /* of one part */
    float *losses;                 /* [T] */
    float *panels;                 /* the weights as products read them */
    bool packed;                   /* whether they are those of this step */
    double targets;                /* losses that the batch's mean is over */
    ss_tally tally;
    double *part, *whole; /* sums of the log, then the gradient as [n] floats: of a part, of all */
    size_t part_bytes;
    ss_run *runs;     /* [together] */
    ss_trace *traces; /* [together] */
    ss_backward back;
} ss_train;

/* Bytes of arena that ss_train_init takes; the checks that it makes. */
ss_status ss_train_size(size_t *bytes, const ss_train_desc *desc, ss_error *err);

/* SS_UNSUPPORTED for a model that cannot be trained here, SS_BAD_CONFIG or SS_TOO_LONG for a recipe
 * that does not fit it, SS_NO_MEMORY with the number of bytes. */
ss_status ss_train_init(ss_train *train, const ss_train_desc *desc, ss_arena *arena, ss_error *err);

/*
 * A step, in the pieces that trainings of one recipe share between them: each computes some of the
 * SS_PARTS parts into train->part, whose bytes may be another's; every training adds all parts in
 * their order, the first of them to nothing, and finishes the step. Without `back` and `update` the
 * weights stay as they are, and the entry says what the next step's batch shows of them. The entry
 * is of the weights before the step. SS_DIVERGED, with the step, where the loss or the gradient is
 * no number: the weights are then the last ones whose loss was one.
 */
ss_status ss_train_part(ss_train *train, int part, bool back, ss_error *err);
void ss_train_add(ss_train *train, bool first);
ss_status ss_train_finish(ss_train *train, bool update, ss_log_entry *entry, ss_error *err);

/*
 * All that the next step depends on beside the recipe and the text: a training that is resumed with
 * these bytes goes on to the same bits. Little-endian: "SSTS", the steps so far, the number n of
 * weights, then weights[n], the optimiser's means[n] and mean squares[n] as F32.
 */
size_t ss_train_state_bytes(const ss_train *train);
void ss_train_state(const ss_train *train, unsigned char *out);

/* SS_BAD_FILE with the byte where they are no such state, or one of another model; the training is
 * then as before. */
ss_status ss_train_resume(ss_train *train, ss_bytes state, ss_error *err);

/* tokens[T] of the task that no step learns from: those of a number are the same at any step. Good
 * until the next step. */
const int32_t *ss_train_sample(ss_train *train, uint32_t number);

#endif
