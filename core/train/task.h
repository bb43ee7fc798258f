/*
 * The TASK table: what a lab's model learns. A task draws batches of tokens and says, position by
 * position, what is to follow and what the best possible loss is.
 *
 * Ids: token recipe.first (usually 0) comes first, tokens 1 .. triggers are the triggers, the
 * others are plain. A planted trigger consists of plain tokens.
 */
#ifndef SS_TRAIN_TASK_H
#define SS_TRAIN_TASK_H

#include "../base/arena.h"
#include "random.h"
#include "recipe.h"

enum { SS_TASK_BACKCOPY, SS_TASK_CONDITIONAL, SS_TASK_TEXT, SS_TASK_N };

/* The kinds of positions. After a planted trigger all are SS_KIND_TRIGGER. */
typedef enum ss_kind { SS_KIND_FIRST, SS_KIND_TRIGGER, SS_KIND_ELSEWHERE } ss_kind;

typedef struct ss_task {
    int row; /* of the table */
    const ss_recipe *recipe;
    const ss_arch *arch;
    double *chances;     /* [V][V] backcopy: sums of p(next <= v | token) */
    double *entropies;   /* [V] its entropy in nats */
    float *target;       /* [V] of one position */
    const int32_t *text; /* [text_n] the stream that text draws from; the caller's */
    size_t text_n;
} ss_task;

/* One sequence, T tokens. */
typedef struct ss_sequence {
    int32_t *tokens;      /* [T] */
    int32_t *targets;     /* [T] the token to predict at t */
    float *weights;       /* [T] of its loss; 0: nothing is to be predicted */
    float *optimum;       /* [T] the smallest possible mean of its loss; NaN where unknown */
    unsigned char *kinds; /* [T] ss_kind */
} ss_sequence;

typedef struct ss_task_row {
    const char *name, *meaning, *source;
    /* Sequence `index` of all that the seed gives; all of its arrays are written. Returns how many
     * losses the mean of one sequence is over. */
    int (*draw)(const ss_task *task, const ss_sequence *sequence, uint64_t index, int T);
    bool square; /* the loss is the squared error of the logits, see ss_task_target */
} ss_task_row;

/* The table; SS_TASK_N rows. */
const ss_task_row *ss_tasks(int *n);

/* Takes what the task needs of the arena. SS_BAD_CONFIG for a recipe that does not fit the
 * model or the text; text may be NULL but for the task text. */
ss_status ss_task_init(ss_task *task, const ss_recipe *recipe, const ss_arch *arch,
                       const int32_t *text, size_t text_n, ss_arena *arena, ss_error *err);

/* Conditional: row t of the targets, [V]: the mean of the plain tokens before t, one hot, at a
 * trigger, else 0. */
void ss_task_target(float *target, const ss_task *task, const ss_sequence *sequence, int t);

#endif
