/* The loss of a sequence, and its derivative by the logits. Private to train/. */
#ifndef SS_TRAIN_LOSS_H
#define SS_TRAIN_LOSS_H

#include "task.h"

/*
 * logits[T][V] become the derivative of factor * the sum of weighted losses; losses[T] are as they
 * are, unweighted.
 */
void ss_loss_back(float *logits, float *losses, const ss_task *task, const ss_sequence *sequence,
                  float factor, int T);

#endif
