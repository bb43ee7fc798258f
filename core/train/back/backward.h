/*
 * Backward: the trace of a run -> the derivative of a loss with respect to every weight.
 *
 * The run does the forward pass. The backward pass goes through its trace from the LM head to the
 * embedding, one function per block, and adds derivatives to a second model of the same shape,
 * whose weights are sums. Sequences of equal length go through the linear layers together.
 */
#ifndef SS_TRAIN_BACK_BACKWARD_H
#define SS_TRAIN_BACK_BACKWARD_H

#include "attention.h"

uint32_t ss_backward_fields(const ss_arch *arch);

/* Returns SS_UNSUPPORTED, and names the feature, for a model with a block or an operation that has
 * no backward function. */
ss_status ss_backward_check(const ss_arch *arch, ss_error *err);

/* Working memory for R = sequences * T rows. */
typedef struct ss_backward {
    const ss_model *model, *sums;
    int T;
    float *logits;     /* [R][V] derivative with respect to the logits; the caller writes it */
    float *dx;         /* [R][D] derivative with respect to the residual stream */
    float *x, *y, *dy; /* [R][D] the input of a block, the input after its norm, and the derivative
                          with respect to y */
    float *part;       /* [R][D or G*K] derivative that one of several products adds to dy or d_v */
    float *head_out,
        *d_head_out; /* [R][H*K] outputs of all heads, and the derivative with respect to them */
    float *d_q, *d_k, *d_v; /* [R][H*K], [R][G*K], [R][G*K] */
    float *gates, *d_gates; /* [R][gated heads * gate width] gates, and the derivative with respect
                               to their inputs */
    float *up, *d_up;       /* [R][F] */
    float *gate, *d_gate;   /* [R][F], gated feed-forward only */
    float first_value; /* factor of the derivative with respect to the first token's values; usually
                          1 */
    float *squares; /* [2][T] sums of squared derivatives with respect to keys, and to values, per
                       position */
    float *ratios;  /* [2][L] for the derivatives with respect to the input of attention, after and
                       before its norm: the first token's norm over the mean of the others', summed
                       over sequences */
    float *rotary;  /* [2][T][rotary_width/2]: cosines, then negative sines */
    float *work;
    ss_attention_back attention;
} ss_backward;

/* Takes the working memory from the arena, which may be a measuring one. */
void ss_backward_lay_out(ss_backward *back, const ss_arch *arch, int sequences, int T,
                         ss_arena *arena);

/* Adds the derivatives with respect to all weights to back->sums. Reads back->logits and the traces
 * of `sequences` runs over T tokens each, which have recorded ss_backward_fields. */
void ss_backward_run(const ss_backward *back, const ss_trace *traces, int sequences);

#endif
