/*
 * The forward pass: written once, for every family. A feature of an architecture is a small branch
 * here; no family is named.
 */
#ifndef SS_RUN_FORWARD_H
#define SS_RUN_FORWARD_H

#include "pass.h"

/* The loss of the first new token at trace.T, from the logits that the last extension left. */
void ss_forward_begin(ss_pass *pass);

/* The logits behind the last token, of its recorded hidden state. */
void ss_forward_next(ss_pass *pass);

/*
 * The next piece of the run's pass: one layer of one chunk of rows, or the chunk's logits. The
 * chunk counts to trace.T when its logits are done. How many pieces are left.
 */
int ss_forward_step(ss_pass *pass);

#endif
