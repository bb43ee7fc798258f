/* The loss of a sequence, and its derivative with respect to the logits. Private to train/. */
#ifndef SS_TRAIN_LOSS_H
#define SS_TRAIN_LOSS_H

#include "task.h"

/*
 * Turns logits[T][V] into the derivative of factor * the sum of weighted losses, and writes the
 * unweighted losses[T].
 */
void ss_loss_back(float *logits, float *losses, const ss_task *task, const ss_sequence *sequence,
                  float factor, int T);

#endif
