/* Optimizer: gradients -> new weights. AdamW (Loshchilov & Hutter 2019), or SGD with momentum and
 * decoupled weight decay, each as in PyTorch. */
#ifndef SS_TRAIN_OPTIMIZER_H
#define SS_TRAIN_OPTIMIZER_H

#include "parameters.h"

/* Returns a step's learning rate: linear warm-up, a constant, linear decay to a tenth. */
double ss_learning_rate(const ss_recipe *recipe, int step);

double ss_gradient_norm(const ss_parameters *gradients);

/* Updates the weights at step 0, 1, ... The gradients are first multiplied by `scale`, by which the
 * caller clips them. mean and square [n] are the optimizer's state, 0 at the beginning. */
void ss_update(ss_parameters *weights, const ss_parameters *gradients, float *mean, float *square,
               const ss_recipe *recipe, int step, double scale);

#endif
