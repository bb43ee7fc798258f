/* Where a run begins when something is known already: of another run, or of its own tokens before.
 * Private to run/. */
#ifndef SS_RUN_BEGIN_H
#define SS_RUN_BEGIN_H

#include "pass.h"
#include "run.h"

/* Takes from desc->from all that no edit touches. SS_BAD_REQUEST where desc->layer asks for what
 * that run has not recorded. */
ss_status ss_begin_from(ss_pass *pass, const ss_run_desc *desc, ss_error *err);

/* From here on every layer is computed, also in a run that began from another: unless it took
 * layers whatever their edits were. */
void ss_begin_plain(ss_pass *pass);

/* First tokens whose rows an update to tokens[n] keeps. */
int ss_begin_keeps(const ss_pass *pass, const int32_t *tokens, int n);

/* Forgets all tokens but the first n, which ss_begin_keeps allows. */
void ss_run_rewind(ss_pass *pass, int n);

#endif
