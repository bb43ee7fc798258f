/*
 * Train: a model, a task and a recipe -> a trained model, step by step.
 *
 *     ss_train train;
 *     ss_train_init(&train, &setup, &arena, &err);
 *     for (int part = 0; part < SS_PARTS; part++) {
 *         ss_train_part(&train, part, true, &err);
 *         ss_train_add(&train, part == 0);
 *     }
 *     ss_train_finish(&train, true, &entry, &err); // one step
 *     // train.weights.file is a safetensors file
 *
 * A step draws a batch that depends only on seed and step, runs it (run/), measures the traces
 * (metrics/), propagates derivatives back through them and updates the weights. random.h draws all
 * random numbers and every sum has a fixed order, so that a recipe gives the same bits in every
 * build.
 */
#ifndef SS_TRAIN_TRAIN_H
#define SS_TRAIN_TRAIN_H

#include "../run/run.h"
#include "back/backward.h"
#include "log.h"
#include "optimizer.h"
#include "task.h"

/* A batch is divided into SS_PARTS parts, whose gradients are added in order, so that the sum has
 * the same bits on any number of workers. */
#define SS_PARTS 4
/* Upper bound of the rows of a part that go through the model together. */
#define SS_JOINT_ROWS 1024

typedef struct ss_train_desc {
    const ss_arch *arch;
    const ss_recipe *recipe; /* recipe and text must outlive the ss_train */
    const int32_t *text;     /* [text_n] tokens of the task text, or NULL */
    size_t text_n;
    const ss_container *begin; /* initial weights; tensors of a variant that it lacks are drawn at
                                  random; NULL: all are drawn */
} ss_train_desc;

typedef struct ss_train {
    const ss_recipe *recipe;
    ss_task task;
    ss_parameters weights, gradients;
    ss_choice choice;
    float *mean, *square, *previous; /* [n] the optimizer's means and mean squares, and the weights
                                        before the last step */
    int step;
    int T, joint_sequences; /* tokens of a sequence; number of sequences that run together */
    ss_sequence *batch;
    float *losses; /* [T] */
    float *panels;
    bool packed;
    double targets; /* number of losses in the mean of a batch */
    ss_tally tally;
    double *part, *totals; /* part, totals: sums of the log, then the gradient as [n] floats, of one
                              part and of all parts */
    size_t part_bytes;
    ss_run *runs;     /* [joint_sequences] */
    ss_trace *traces; /* [joint_sequences] */
    ss_backward back;
} ss_train;

/* Computes the arena bytes of ss_train_init, and checks the description as it does. */
ss_status ss_train_size(size_t *bytes, const ss_train_desc *desc, ss_error *err);

/* Begins a training run. Returns SS_UNSUPPORTED for a model that cannot be trained, SS_BAD_CONFIG
 * or SS_TOO_LONG for a recipe that does not fit the model, SS_NO_MEMORY with the number of bytes.
 */
ss_status ss_train_init(ss_train *train, const ss_train_desc *desc, ss_arena *arena, ss_error *err);

/* Do a step in pieces, which several workers share. Each worker computes some of the SS_PARTS parts
 * into train->part, or copies a part of another worker to it. Each worker adds all parts in order
 * (`is_first` clears the sums) and finishes the step. Without `with_gradients` and `update` the
 * weights stay unchanged and the entry measures them on the next step's batch. The entry describes
 * the weights before the step. Returns SS_DIVERGED, with the step, if the loss or the gradient is
 * not finite; the weights are then the last ones with a finite loss. */
ss_status ss_train_part(ss_train *train, int part, bool with_gradients, ss_error *err);
void ss_train_add(ss_train *train, bool is_first);
ss_status ss_train_finish(ss_train *train, bool update, ss_log_entry *entry, ss_error *err);

/* Write the state of the training run. With the same recipe and text, a run that resumes from it
 * gives the same bits. Little-endian: "SSTS", the steps so far, the number n
 * of weights, then weights[n], the optimizer's means[n] and mean squares[n] as F32. */
size_t ss_train_state_bytes(const ss_train *train);
void ss_train_state(const ss_train *train, unsigned char *out);

/* Resumes a training run from a state. Returns SS_BAD_FILE with the byte if the bytes are not a
 * state of this model; the ss_train is then unchanged. */
ss_status ss_train_resume(ss_train *train, ss_bytes state, ss_error *err);

/* Returns tokens[T] of the task that no step trains on. The same `number` gives the same tokens at
 * any step. They are valid until the next step. */
const int32_t *ss_train_sample(ss_train *train, uint32_t number);

#endif
