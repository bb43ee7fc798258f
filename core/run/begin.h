/* Decides which tokens and layers a run can reuse, from another run or from its own previous
 * tokens. Private to run/. */
#ifndef SS_RUN_BEGIN_H
#define SS_RUN_BEGIN_H

#include "pass.h"
#include "run.h"

/* Copies from desc->from everything that no edit changes. Returns SS_BAD_REQUEST if desc->layer
 * needs a field that the other run has not recorded. */
ss_status ss_begin_from(ss_pass *pass, const ss_run_desc *desc, ss_error *err);

/* Makes the run compute every layer of later tokens, even if it began from another run, unless
 * desc->layer selects the layers. */
void ss_begin_all_layers(ss_pass *pass);

/* Returns the number of first tokens whose rows an update to tokens[n] keeps. */
int ss_count_kept_tokens(const ss_pass *pass, const int32_t *tokens, int n);

/* Drops all tokens but the first n; n is at most what ss_count_kept_tokens returned. */
void ss_run_rewind(ss_pass *pass, int n);

#endif
