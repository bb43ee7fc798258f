/*
 * Parameters: the weights of a model in training, as the safetensors file that they are at any
 * step. The model reads them where they lie in it, so the next run sees an update, and the file
 * can be written out without a copy.
 */
#ifndef SS_TRAIN_PARAMETERS_H
#define SS_TRAIN_PARAMETERS_H

#include "../model/model.h"
#include "recipe.h"

typedef struct ss_parameters {
    ss_bytes file;
    ss_container container; /* its entries */
    ss_model model;         /* on them */
    float *numbers;         /* [n] all of them, in the order of the file */
    size_t n;
    size_t panels; /* floats that its matrices take as panels, at most */
} ss_parameters;

/* Takes what the file of such a model and the model need from the arena; numbers are 0. */
ss_status ss_parameters_make(ss_parameters *parameters, const ss_arch *arch, ss_arena *arena,
                             ss_error *err);

/* Bytes of arena that it takes; how many numbers, and of those in panels, there are at most. */
ss_status ss_parameters_size(size_t *bytes, size_t *numbers, size_t *panels, const ss_arch *arch,
                             ss_error *err);

/*
 * The numbers of a file with the same tensors, whatever types they are stored in. What only a
 * variant has, such as sink logits, a bias key or a gate, and the file lacks keeps the numbers that
 * it has: a variant continues from the model that it varies. SS_BAD_TENSOR with the name of another
 * that is missing or of another shape.
 */
ss_status ss_parameters_copy(ss_parameters *parameters, const ss_container *from, ss_error *err);

/*
 * First numbers, as models/train has them: biases and sink logits 0, gains 1, all else normal with
 * the recipe's deviations. Those of a tensor depend on seed and name alone, so that a variant
 * begins with the weights of the model it varies.
 */
void ss_parameters_draw(ss_parameters *parameters, const ss_recipe *recipe);

/* What weight decay pulls at: matrices, and vectors of tokens and positions at their own rate. */
double ss_parameters_decay(const ss_entry *entry, const ss_recipe *recipe);

#endif
