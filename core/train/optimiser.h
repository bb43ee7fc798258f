/* Optimiser: gradients -> new weights. AdamW (Loshchilov & Hutter 2019), or SGD with momentum and
 * the same decoupled decay; both as PyTorch has them. */
#ifndef SS_TRAIN_OPTIMISER_H
#define SS_TRAIN_OPTIMISER_H

#include "parameters.h"

/* The learning rate of a step: a linear rise, then constant, then a linear fall to a tenth. */
double ss_learning_rate(const ss_recipe *recipe, int step);

/* Euclidean norm of all gradients. */
double ss_gradient_norm(const ss_parameters *gradients);

/*
 * One update of the weights at step 0, 1, ...: gradients are multiplied by `scale` first, which is
 * how they are clipped. mean and square [n] are the optimiser's memory, 0 at the beginning.
 */
void ss_update(ss_parameters *weights, const ss_parameters *gradients, float *mean, float *square,
               const ss_recipe *recipe, int step, double scale);

#endif
