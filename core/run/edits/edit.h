/* One edit of a run, checked against its row of the EDIT table and the model. */
#ifndef SS_RUN_EDITS_EDIT_H
#define SS_RUN_EDITS_EDIT_H

#include "table.h"

/*
 * *full = edits[i] with every default put in. SS_BAD_REQUEST for what is out of range or missing,
 * with its place ("edits[1].budget"), expected and actual; SS_UNSUPPORTED where the model lacks
 * what the edit needs.
 */
ss_status ss_edit_resolve(ss_edit *full, const ss_edit *edits, int i, const ss_model *model,
                          int capacity, ss_error *err);

/* The first layer whose work an edit with these values changes, which is of `row`; -1: it may
 * change the embedding, too. */
int ss_edit_first_layer(const ss_edit_kind *row, const float *values);

/* Whether a run keeps its first tokens when its text changes, though both edits act on them, `then`
 * after `first` in the list. False where `first` replays rows that `then` has changed since. */
bool ss_edits_continue(const ss_edit_kind *first, const ss_edit_kind *then);

#endif
