/*
 * The TASK table: the tasks of the lab. A task draws batches of tokens and gives, for each
 * position, the target and the best possible loss.
 *
 * Token recipe.first (usually 0) begins each sequence, tokens 1 .. triggers are triggers, all
 * others are plain. A planted trigger consists of plain tokens.
 */
#ifndef SS_TRAIN_TASK_H
#define SS_TRAIN_TASK_H

#include "../base/arena.h"
#include "random.h"
#include "recipe.h"

enum { SS_TASK_BACKCOPY, SS_TASK_CONDITIONAL, SS_TASK_TEXT, SS_TASK_N };

/* The kinds of positions. All positions after a planted trigger are SS_KIND_TRIGGER. */
typedef enum ss_kind { SS_KIND_FIRST, SS_KIND_TRIGGER, SS_KIND_ELSEWHERE } ss_kind;

typedef struct ss_task {
    int row;
    const ss_recipe *recipe;
    const ss_arch *arch;
    double *bigrams;     /* [V][V] backcopy: cumulative p(next <= v | token) */
    double *entropies;   /* [V] entropy of each bigram in nats */
    float *target;       /* [V] targets of one position */
    const int32_t *text; /* [text_n] tokens of the task text; the caller owns them */
    size_t text_n;
} ss_task;

typedef struct ss_sequence {
    int32_t *tokens;      /* [T] */
    int32_t *targets;     /* [T] the token to predict at t */
    float *weights;       /* [T] weight of the loss at t; 0: no target */
    float *optimum;       /* [T] smallest possible expected loss; NaN where unknown */
    unsigned char *kinds; /* [T] ss_kind */
} ss_sequence;

typedef struct ss_task_row {
    const char *name, *meaning, *source;
    /* Draws sequence `index` of the seed into the arrays of `sequence`. Returns the number of
     * losses over which the caller takes the sequence's mean. */
    int (*draw)(const ss_task *task, const ss_sequence *sequence, uint64_t index, int T);
    bool is_squared_error; /* the loss is the squared error of the logits, see ss_task_write_target
                            */
} ss_task_row;

/* Returns the table and, unless n is NULL, its number of rows. */
const ss_task_row *ss_tasks(int *n);

/* Takes the memory of the task from the arena. Returns SS_BAD_CONFIG for a recipe that does not fit
 * the model or the text; text may be NULL except for the task text. */
ss_status ss_task_init(ss_task *task, const ss_recipe *recipe, const ss_arch *arch,
                       const int32_t *text, size_t text_n, ss_arena *arena, ss_error *err);

/* Writes row t [V] of the targets of task conditional: at a trigger the mean one-hot vector of the
 * plain tokens before t, elsewhere 0. */
void ss_task_write_target(float *target, const ss_task *task, const ss_sequence *sequence, int t);

/* Turns logits[T][V] into the derivative of factor * sum of weighted losses; writes losses[T]. */
void ss_loss_back(float *logits, float *losses, const ss_task *task, const ss_sequence *sequence,
                  float factor, int T);

#endif
