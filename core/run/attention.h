/* One layer's attention over a chunk of rows. Private to run/. */
#ifndef SS_RUN_ATTENTION_H
#define SS_RUN_ATTENTION_H

#include "pass.h"

/*
 * Queries, keys and values of rows [t0, t0+n) of layer l stand in the trace (queries in scratch
 * heads, [n][H*K]); writes the mixed values over scratch heads, and the weights to the trace.
 */
void ss_attend(ss_pass *pass, int l, int t0, int n);

#endif
