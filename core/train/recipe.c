#include "recipe.h"

#include "../model/files/json.h"
#include "task.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *task_name(int value) {
    return ss_tasks(NULL)[value].name;
}

static const char *optimizer_name(int value) {
    return (const char *[]){"adamw", "sgd"}[value];
}

#define WHOLE(name, default_value, low, high, meaning)                                             \
    { #name, meaning, default_value, low, high, true, NULL, offsetof(ss_recipe, name) }
#define NUMBER(name, default_value, low, high, meaning)                                            \
    { #name, meaning, default_value, low, high, false, NULL, offsetof(ss_recipe, name) }
#define WORD(name, words, n, meaning)                                                              \
    { #name, meaning, 0, 0, (n)-1, true, words, offsetof(ss_recipe, name) }

static const ss_setting table[] = {
    WORD(task, task_name, SS_TASK_N, "what is learnt"),
    WHOLE(seed, 1, 0, 9007199254740991.0, "of weights, of the task and of its batches"),
    WHOLE(steps, 500, 0, 1e9, "updates of the weights"),
    WHOLE(batch, 32, 1, 65536, "sequences of a step"),
    WHOLE(length, 32, 2, 65536, "tokens of a sequence"),
    WHOLE(triggers, 8, 0, 1e6, "tokens from id 1 on that are triggers"),
    NUMBER(share, 0.1, 0, 1, "of the tokens that are triggers, in the task conditional"),
    NUMBER(
        planted, 0, 0, 1,
        "of the sequences that hold a planted trigger, in the task text: three fixed tokens, and "
        "to the end five others over and over"),
    WHOLE(first, 0, -1, 1e9, "token that begins every sequence; -1: none does"),
    WORD(optimizer, optimizer_name, SS_OPTIMIZER_N, "how weights follow their gradients"),
    NUMBER(learning_rate, 0.003, 0, 1e30, "largest step of a weight in AdamW, a factor in SGD"),
    NUMBER(beta1, 0.9, 0, 0.999999, "of the mean gradient; in SGD the momentum"),
    NUMBER(beta2, 0.99, 0, 0.999999, "of the mean square in AdamW"),
    NUMBER(weight_decay, 0.01, 0, 1000, "of matrices, times the learning rate, each step"),
    NUMBER(embedding_decay, 0.01, 0, 1000, "of token and position vectors, likewise"),
    NUMBER(clip, 1, 0, 1e30, "norm that the gradient is cut to; 0: it is not"),
    WHOLE(warm_up, 0, 0, 1e9, "steps over which the learning rate rises from 0"),
    NUMBER(fall, 0, 0, 1, "last share of the steps, over which it falls to a tenth"),
    NUMBER(
        first_value_gradient, 1, 0, 1000,
        "factor on the gradient of the first token's values, on its way back through each layer"),
    NUMBER(deviation, 0.02, 0, 100, "of a matrix's first numbers; 0: 1 / sqrt(3 inputs)"),
    NUMBER(embedding_deviation, 1, 0, 100, "of the token vectors' first numbers"),
    NUMBER(position_deviation, 0.02, 0, 100, "of the position vectors' first numbers"),
};

#define ROWS (int)(sizeof table / sizeof *table)

const ss_setting *ss_settings(int *n) {
    *n = ROWS;
    return table;
}

static double *number_at(ss_recipe *recipe, const ss_setting *row) {
    return (double *)(void *)((char *)recipe + row->offset);
}

static const ss_setting *find_setting(const char *name) {
    for (int i = 0; i < ROWS; i++)
        if (!strcmp(table[i].name, name)) return &table[i];
    return NULL;
}

static void refuse(ss_json *json, const char *key, const char *expected, const char *actual) {
    if (*json->status == SS_OK)
        *json->status = ss_fail(json->err, SS_UNSUPPORTED, key, "recipe: expected %s, found %.80s",
                                expected, actual);
}

static double read_word(ss_json *json, const ss_setting *row) {
    const char *word = ss_json_text(json, row->name, row->word((int)row->default_value));
    char words[200];
    size_t used = 0;
    for (int i = 0; i <= (int)row->high; i++) {
        if (!strcmp(row->word(i), word)) return i;
        if (used < sizeof words)
            used += (size_t)snprintf(words + used, sizeof words - used, "%s%s", i ? ", " : "",
                                     row->word(i));
    }
    refuse(json, row->name, words, word);
    return row->default_value;
}

static double read_setting(ss_json *json, const ss_setting *row) {
    if (row->word) return read_word(json, row);
    double value = ss_json_number(json, row->name, row->default_value, row->low, row->high);
    if (row->is_integer && value != floor(value)) {
        char actual[32];
        snprintf(actual, sizeof actual, "%g", value);
        refuse(json, row->name, "a whole number", actual);
    }
    return value;
}

ss_status ss_recipe_read(ss_recipe *recipe, ss_bytes text, ss_error *err) {
    cJSON *object;
    ss_status status = ss_json_parse(&object, text, "recipe", SS_BAD_CONFIG, err);
    if (status != SS_OK) return status;
    ss_json json = {object, "recipe", &status, err};
    const cJSON *item;
    cJSON_ArrayForEach(item, object) if (!find_setting(item->string))
        refuse(&json, item->string, "a setting of the recipe table", item->string);
    ss_recipe result;
    for (int i = 0; i < ROWS; i++) *number_at(&result, &table[i]) = read_setting(&json, &table[i]);
    if (status == SS_OK) *recipe = result;
    cJSON_Delete(object);
    return status;
}
