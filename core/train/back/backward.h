/*
 * Backward: the trace of a run -> the derivative of a loss by every weight.
 *
 * The run does the forward pass. The backward pass goes through its trace from the LM head to the
 * embedding, one function a block, and adds derivatives to a second model of the same shape, whose
 * weights are sums. Sequences of equal length go through the linear layers together.
 */
#ifndef SS_TRAIN_BACK_BACKWARD_H
#define SS_TRAIN_BACK_BACKWARD_H

#include "attention.h"

/* Returns the fields that a run must record. */
uint32_t ss_backward_fields(const ss_arch *arch);

/* Returns SS_UNSUPPORTED, with the name, for a block or an operation without a backward function.
 */
ss_status ss_backward_check(const ss_arch *arch, ss_error *err);

/* Working memory for R = sequences * T rows. */
typedef struct ss_backward {
    const ss_model *model, *sums;
    int T;         /* tokens of a sequence */
    float *logits; /* [R][V] derivative by the logits; the caller writes it */
    float *dx;     /* [R][D] derivative by the residual stream */
    float *x, *y,
        *dy;     /* [R][D] the input of a block, the same normalized, and the derivative by that */
    float *part; /* [R][D or G*K] the part of dy, or d_v, from one of several products */
    float *head_out, *d_head_out; /* [R][H*K] of all heads */
    float *d_q, *d_k, *d_v;       /* [R][H*K], [R][G*K] twice */
    float *gates, *d_gates;       /* [R][gated heads * gate width] */
    float *up, *d_up;             /* [R][F] */
    float *gate, *d_gate;         /* [R][F], gated feed-forward only */
    float first_value;            /* factor of the derivative by the first token's values; 1 */
    float *squares; /* [2][T] sums of squared derivatives by keys and by values at a position */
    float
        *ratios; /* [2][L] of the derivatives by the input of attention, after and before its norm:
                    the first token's norm over the mean of the others', summed over sequences */
    float *rotary; /* [T][rotary_width/2] twice: cosines, then sines */
    float *work;
    ss_attention_back attention;
} ss_backward;

/* Takes the working memory from the arena, which may be a measuring one. */
void ss_backward_lay_out(ss_backward *back, const ss_arch *arch, int sequences, int T,
                         ss_arena *arena);

/*
 * Adds the derivatives by all weights to back->sums. It reads the traces of `sequences` runs over T
 * tokens each, with the fields above, and back->logits.
 */
void ss_backward_run(const ss_backward *back, const ss_trace *traces, int sequences);

#endif
