/* The RECIPE table: every setting of a training run except the architecture, which is a
 * config.json. The table holds names, meanings, defaults and ranges. A recipe is a JSON object with
 * some of these names as keys; the same recipe gives the same bits on every machine. */
#ifndef SS_TRAIN_RECIPE_H
#define SS_TRAIN_RECIPE_H

#include "../model/arch.h"

typedef enum ss_optimizer { SS_ADAMW, SS_SGD, SS_OPTIMIZER_N } ss_optimizer;

/* All settings are doubles, which hold every integer of their ranges exactly. */
typedef struct ss_recipe {
    double task, seed, steps, batch, length, triggers, share, planted, first;
    double optimizer, learning_rate, beta1, beta2, weight_decay, embedding_decay, clip;
    double warm_up, fall, first_value_gradient;
    double deviation, embedding_deviation, position_deviation;
} ss_recipe;

typedef struct ss_setting {
    const char *name, *meaning;
    double default_value, low, high;
    bool is_integer;
    const char *(*word)(int value); /* returns the name of a value 0 .. high; NULL for settings
                                       whose values have no names */
    size_t offset;                  /* byte offset of the number in ss_recipe */
} ss_setting;

const ss_setting *ss_settings(int *n);

/* Reads a recipe: SS_BAD_CONFIG, with the key, for an unknown name or a value out of range. */
ss_status ss_recipe_read(ss_recipe *recipe, ss_bytes json, ss_error *err);

#endif
