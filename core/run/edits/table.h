/*
 * The EDIT table: what-ifs applied to a run, never to the weights.
 *
 * A row says what an edit is called and means, its parameters, what it needs, and the one function
 * that applies it at its hook points of the forward pass. A new edit is one row and one function.
 */
#ifndef SS_RUN_EDITS_TABLE_H
#define SS_RUN_EDITS_TABLE_H

#include "../trace.h"

/* Most parameters of a row, and most values of an edit: those, and an operation's behind them. */
#define SS_EDIT_PARAMETERS 11
#define SS_EDIT_VALUES (SS_EDIT_PARAMETERS + SS_PARAMETERS_MAX)

typedef enum ss_edit_type {
    SS_EDIT_NUMBER,
    SS_EDIT_INTEGER,
    SS_EDIT_INDEX,    /* an integer from 0, below the size that a letter names */
    SS_EDIT_CHOICE,   /* one of some words, by its place among them */
    SS_EDIT_OPERATION /* a row of the operation table, whose parameters follow the edit's */
} ss_edit_type;

typedef struct ss_edit_parameter {
    const char *name; /* NULL: no further parameter */
    ss_edit_type type;
    float standard;             /* where nothing is given; NaN: all of them, or it must be given */
    float low, high;            /* of numbers and integers */
    const char *below;          /* letter of an index; T is the run's capacity */
    const char *const *choices; /* NULL-ended */
    const char *const *labels;  /* how a reader calls each choice; NULL: by its own word */
    bool required;
    const char *meaning;
} ss_edit_parameter;

/* What an edit needs of the model. */
enum {
    SS_NEEDS_CAUSAL = 1,   /* queries see no keys behind them */
    SS_NEEDS_POSITIONS = 2 /* positions are numbers of their own */
};

/* One edit: a row of the table, and a value for each parameter; NaN is the default. */
typedef struct ss_edit {
    int kind;
    float values[SS_EDIT_VALUES];
} ss_edit;

/* Hook points: where the forward pass lets edits act. hook.h says what it shows them there. */
enum {
    SS_AT_START = 1,     /* once, before any token: choices of heads, positions */
    SS_AT_HIDDEN = 2,    /* rows [n][1][D] of the residual stream, l = 0 .. L */
    SS_AT_QUERIES = 4,   /* rows [n][H][K] */
    SS_AT_KEYS = 8,      /* rows [n][G][K] */
    SS_AT_VALUES = 16,   /* rows [n][G][K] */
    SS_AT_MASK = 32,     /* which of `keys` query t of head h sees, and their positions to it */
    SS_AT_SCORES = 64,   /* rows [keys]: its scores, before scale and distances; q its vector */
    SS_AT_WEIGHTS = 128, /* rows [keys]: its weights, and the bias key's */
    SS_AT_HEADS = 256,   /* rows [n][H][K]: the output of each head */
    SS_AT_PRODUCT = 512  /* rows [n][width] = in linear + bias */
};

struct ss_hook;
struct ss_pass;

typedef struct ss_edit_kind {
    const char *name, *meaning;
    /*
     * What an edit of this kind is called: text with {parameter}, {at} (layer and head), {heads}
     * and {after} (a layer of the stream), [parts] that are left out with their parameter, and
     * alternatives "parameter=value?text|text". editLabel in the npm package fills it in.
     */
    const char *label;
    bool counterfactual; /* shows what no trained model computes; else what one would that is served
                            so: a smaller cache, fewer bits */
    int needs;           /* SS_NEEDS_... */
    uint32_t fields;     /* SS_BIT(field) that it records */
    unsigned hook_points; /* SS_AT_... */
    /* Of these, where it only reads rows, and reads them again from the trace when the text of a
     * run changes; an edit after it in the list that changes them there is in its way (edit.h). */
    unsigned replays;
    ss_edit_parameter parameters[SS_EDIT_PARAMETERS];
    void (*apply)(const struct ss_hook *hook, const float *values);
    /* First tokens that it looks at together, so that they must come at once, INT_MAX: all; NULL:
     * it looks at each alone. And floats that it keeps of those for the ones behind. */
    int (*together)(const float *values);
    size_t (*keeps)(const float *values, const ss_arch *arch);
    int (*idle)(const float *values); /* first tokens that it leaves as they are; NULL: none */
    /* Checks what ranges do not express: a status, with the place `where`. NULL: nothing. */
    ss_status (*check)(const struct ss_pass *pass, const float *values, const char *where,
                       ss_error *err);
    const char *source;
} ss_edit_kind;

/* The table; *n rows. */
const ss_edit_kind *ss_edits(int *n);

#endif
