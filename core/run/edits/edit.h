/* One edit of a run, checked against its row of the EDIT table and the model. */
#ifndef SS_RUN_EDITS_EDIT_H
#define SS_RUN_EDITS_EDIT_H

#include "table.h"

/* Sets *edit to edits[i] with every default filled in. Returns SS_BAD_REQUEST for a value that is
 * out of range or missing, with the place ("edits[1].budget"), expected and actual; SS_UNSUPPORTED
 * if the model lacks what the edit needs. */
ss_status ss_edit_resolve(ss_edit *edit, const ss_edit *edits, int i, const ss_model *model,
                          int capacity, ss_error *err);

/* Returns the place of an edit's parameter for errors, "edits[1].budget". */
ss_where ss_edit_where(int i, const char *parameter);

/* Returns the first layer that an edit of kind `row` with these values changes; -1 if it may change
 * the embedding. */
int ss_edit_first_layer(const ss_edit_kind *row, const float *values);

/* Returns true if a run with an edit of `later_kind` after one of `earlier_kind` may keep first
 * tokens when its text changes; false if the earlier edit replays rows that the later one has
 * changed. */
bool ss_edits_continue(const ss_edit_kind *earlier_kind, const ss_edit_kind *later_kind);

#endif
