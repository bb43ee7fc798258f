/*
 * The forward pass: written once, for every family. A feature of an architecture is a small branch
 * here; no family is named.
 */
#ifndef SS_RUN_FORWARD_H
#define SS_RUN_FORWARD_H

#include "run.h"

/* The loss of the first new token at trace.T, from the logits that the last extension left. */
void ss_forward_begin(ss_run *run);

/* Rows [t0, t0 + n) of an extension that ends at total; their tokens stand in the trace. */
void ss_forward(ss_run *run, int t0, int n, int total);

#endif
