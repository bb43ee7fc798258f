/*
 * The EDIT table: interventions applied to a run, never to the weights.
 *
 * A row has an edit's name and meaning, its parameters, its requirements, and the one function that
 * applies it at its hook points of the forward pass. A new edit is a row and a function in
 * this folder; CONTRIBUTING lists its tests and its reference.
 */
#ifndef SS_RUN_EDITS_TABLE_H
#define SS_RUN_EDITS_TABLE_H

#include "../trace.h"

#define SS_EDIT_PARAMETERS 11
#define SS_EDIT_VALUES (SS_EDIT_PARAMETERS + SS_PARAMETERS_MAX)

typedef enum ss_edit_type {
    SS_EDIT_NUMBER,
    SS_EDIT_INTEGER,
    SS_EDIT_INDEX,    /* an integer from 0, below the size that a letter names */
    SS_EDIT_CHOICE,   /* a word, stored as its index in `choices` */
    SS_EDIT_OPERATION /* a row of the operation table, whose parameters follow the edit's */
} ss_edit_type;

typedef struct ss_edit_parameter {
    const char *name; /* NULL ends the list */
    ss_edit_type type;
    float default_value; /* NaN: all layers, heads or tokens, or a required value */
    float low, high;
    const char *below;          /* letter that bounds an index; T is the run's capacity */
    const char *const *choices; /* NULL-terminated */
    const char *const *labels;  /* a readable name for each choice; NULL: the word itself */
    bool required;
    const char *meaning;
} ss_edit_parameter;

enum {
    SS_NEEDS_CAUSAL = 1, /* queries see no later keys */
    SS_NEEDS_POSITIONS = 2
};

/* One edit: a row of the table and a value for each parameter; NaN selects the default. */
typedef struct ss_edit {
    int kind;
    float values[SS_EDIT_VALUES];
} ss_edit;

/* Hook points of the forward pass; hook.h describes the data that edits see there. */
enum {
    SS_AT_START = 1,   /* once, before any token: choices of heads, positions */
    SS_AT_HIDDEN = 2,  /* rows [n][1][D] of the residual stream after l layers */
    SS_AT_QUERIES = 4, /* rows [n][H][K] */
    SS_AT_KEYS = 8,    /* rows [n][G][K] */
    SS_AT_VALUES = 16, /* rows [n][G][U] */
    SS_AT_MASK = 32,   /* query t of head h: visible keys and their positions */
    SS_AT_SCORES = 64, /* rows [keys]: scores of one query before scale and distances; hook.q is the
                          query's vector */
    SS_AT_WEIGHTS = 128, /* rows [keys]: weights of one query, and the bias key's */
    SS_AT_HEADS = 256,   /* rows [n][H][U]: output of each head */
    SS_AT_PRODUCT = 512  /* rows [n][width]: a product with weights, bias included */
};

struct ss_hook;
struct ss_pass;

typedef struct ss_edit_kind {
    const char *name, *meaning;
    /* The template of the edit's label, which editLabel of the npm package fills in. It may have
     * {parameter}, {at} (layer and head), {heads}, {after} (a layer of the stream), [parts] that
     * are omitted without their parameter, and alternatives "parameter=value?text|text". */
    const char *label;
    bool counterfactual;  /* no trained model computes this; otherwise a served model might, with a
                             smaller cache or fewer bits */
    int needs;            /* SS_NEEDS_... */
    uint32_t fields;      /* SS_BIT(field) that the edit records */
    unsigned hook_points; /* SS_AT_... */
    /* Hook points at which the edit only reads rows. When the text of a run changes, the edit can
     * read kept rows from the trace, unless a later edit has changed them (edit.h). */
    unsigned replays;
    ss_edit_parameter parameters[SS_EDIT_PARAMETERS];
    void (*apply)(const struct ss_hook *hook, const float *values);
    /* joint_tokens: number of first tokens that the edit must see in one chunk, INT_MAX for all
     * tokens; NULL: it reads each token alone. kept_numbers: number of floats that the edit keeps
     * from these tokens for later ones. */
    int (*joint_tokens)(const float *values);
    size_t (*kept_numbers)(const float *values, const ss_arch *arch);
    int (*idle_tokens)(
        const float *values); /* number of first tokens that the edit does not change; NULL: 0 */
    /* Checks what ranges cannot express; errors name `where`. NULL: nothing to check. */
    ss_status (*check)(const struct ss_pass *pass, const float *values, const char *where,
                       ss_error *err);
    const char *source;
} ss_edit_kind;

/* Returns the table and, unless n is NULL, its number of rows. */
const ss_edit_kind *ss_edits(int *n);

#endif
