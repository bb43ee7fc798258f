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

/* Rows that go through the model together; a batch of more goes in parts, whose gradients are
 * added in their order. */
#define SS_PART_ROWS 1024

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
    int T, part;                   /* tokens of a sequence, sequences of a part */
    ss_sequence *batch;            /* [batch] */
    float *losses;                 /* [T] */
    float *panels;                 /* the weights as products read them */
    ss_tally tally;
    ss_run *runs;     /* [part] */
    ss_trace *traces; /* [part] */
    ss_backward back;
} ss_train;

/* Bytes of arena that ss_train_init takes; the checks that it makes. */
ss_status ss_train_size(size_t *bytes, const ss_train_desc *desc, ss_error *err);

/* SS_UNSUPPORTED for a model that cannot be trained here, SS_BAD_CONFIG or SS_TOO_LONG for a recipe
 * that does not fit it, SS_NO_MEMORY with the number of bytes. */
ss_status ss_train_init(ss_train *train, const ss_train_desc *desc, ss_arena *arena, ss_error *err);

/*
 * One step. entry tells of the weights before it. SS_DIVERGED, with the step, where the loss or the
 * gradient is no number: the weights are then the last ones whose loss was one.
 */
ss_status ss_train_step(ss_train *train, ss_log_entry *entry, ss_error *err);

/* The same without going back: what the next step's batch shows of the weights as they are. */
ss_status ss_train_look(ss_train *train, ss_log_entry *entry, ss_error *err);

/* tokens[T] of the task that no step learns from: those of a number are the same at any step. Good
 * until the next step. */
const int32_t *ss_train_sample(ss_train *train, uint32_t number);

#endif
