/*
 * Mixers: what a layer computes with a state of fixed size, in place of attention or in addition to
 * it. Private to run/.
 *
 * A token's q, k and v are convolved with those of the few tokens before it. Gated DeltaNet and
 * Mamba-2 then hold a matrix S [key width][value width] for each head of values:
 *
 *     S = exp(decay step) S;  S += k u^T;  out = S^T q
 *
 * For DeltaNet u = beta (v - S^T k), the part of v that the state does not give for k; for Mamba-2
 * u = step v, and skip v is added to the output. Both multiply the output by silu(z), before or
 * after a norm. The convolution alone (LFM2) gives out = q * convolved(k * v).
 */
#ifndef SS_RUN_MIXER_H
#define SS_RUN_MIXER_H

#include "pass.h"

void ss_mix_lay_out(ss_pass *pass, size_t n, ss_arena *arena);

void ss_mix_clear(ss_pass *pass);

void ss_mix_copy_below(ss_pass *pass, const ss_pass *source, int layer);

/* Computes out[n][D], the output of layer l's mixer for pass->y[n][D], scaled in place. */
void ss_mix(ss_pass *pass, float *out, int l, int n);

#endif
