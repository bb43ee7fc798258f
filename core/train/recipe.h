/*
 * The RECIPE table: every setting of a training but the model's description, which is a
 * config.json. The table holds names, meanings, units and ranges; a recipe is a JSON object with
 * some of its names as keys, and the same recipe gives the same bits on every machine.
 */
#ifndef SS_TRAIN_RECIPE_H
#define SS_TRAIN_RECIPE_H

#include "../model/arch.h"

typedef enum ss_optimiser { SS_ADAMW, SS_SGD, SS_OPTIMISER_N } ss_optimiser;

/* Whole numbers are as exact in a double as anybody needs. */
typedef struct ss_recipe {
    double task, seed, steps, batch, length, triggers, share, planted, first;
    double optimiser, learning_rate, beta1, beta2, weight_decay, embedding_decay, clip;
    double warm_up, fall, first_value_gradient;
    double deviation, embedding_deviation, position_deviation;
} ss_recipe;

typedef struct ss_setting {
    const char *name, *meaning;
    double standard, low, high;
    bool whole;                     /* only whole numbers */
    const char *(*word)(int value); /* its values are words, high + 1 of them; or NULL */
    size_t offset;                  /* of the number in a recipe */
} ss_setting;

/* The table; *n rows. */
const ss_setting *ss_settings(int *n);

/* SS_BAD_CONFIG, with the key, for a name that the table lacks or a value out of its range. */
ss_status ss_recipe_read(ss_recipe *recipe, ss_bytes json, ss_error *err);

#endif
