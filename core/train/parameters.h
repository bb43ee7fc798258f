/* Parameters: the weights of a model in training, stored as a safetensors file. The model reads its
 * weights from the bytes of the file, so that the next run sees an update and the file can be saved
 * without a copy. */
#ifndef SS_TRAIN_PARAMETERS_H
#define SS_TRAIN_PARAMETERS_H

#include "../model/model.h"
#include "recipe.h"

typedef struct ss_role ss_role; /* what a tensor is for */

typedef struct ss_parameters {
    ss_bytes file;
    ss_container container;
    const ss_role **roles; /* [container.n] */
    ss_model model;        /* the weights of the model point into the file */
    float *numbers;        /* [n] all weights, in the order of the file */
    size_t n;
    size_t panels; /* upper bound of the floats in the packed matrices of the model */
} ss_parameters;

/* Makes the file and the model in the arena; all weights are 0. */
ss_status ss_parameters_make(ss_parameters *parameters, const ss_arch *arch, ss_arena *arena,
                             ss_error *err);

/* Computes the arena bytes, the number of weights and an upper bound of the floats in panels. */
ss_status ss_parameters_size(size_t *bytes, size_t *numbers, size_t *panels, const ss_arch *arch,
                             ss_error *err);

/* Copies the weights from a file that has tensors of the same names and shapes, in any type of
 * weights but GGUF's blocks.
 * Tensors that only a variant has (sink logits, a bias key, a gate) keep their values if the file
 * lacks them, so that a variant can be fine-tuned from the base model. Returns SS_BAD_TENSOR with
 * the name of any other tensor that is missing or has another shape or type. */
ss_status ss_parameters_copy(ss_parameters *parameters, const ss_container *source, ss_error *err);

/* Initializes the weights as models/train does: biases and sink logits 0, gains 1, all others
 * normal with the recipe's deviations. The weights depend only on seed and tensor name, so that a
 * variant begins with the weights of the base model. */
void ss_parameters_draw(ss_parameters *parameters, const ss_recipe *recipe);

/* Returns the weight decay of tensor i of the container: matrices have one rate, embeddings of
 * tokens and positions another, vectors none. */
double ss_parameters_decay(const ss_parameters *parameters, size_t i, const ss_recipe *recipe);

#endif
