/*
 * The forward pass: one implementation for all families. It branches on features of the
 * architecture, never on a family.
 */
#ifndef SS_RUN_FORWARD_H
#define SS_RUN_FORWARD_H

#include "pass.h"

/* Records the loss of the first new token, at index trace.T, from the logits of the previous
 * extension. */
void ss_forward_begin(ss_pass *pass);

/* Computes the logits after the last token from the recorded hidden state of that token. */
void ss_forward_next(ss_pass *pass);

/*
 * Computes the next piece of the pass: one layer of one chunk of rows, or the chunk's logits.
 * trace.T grows when a chunk's logits are done. Returns the number of remaining pieces.
 */
int ss_forward_step(ss_pass *pass);

#endif
