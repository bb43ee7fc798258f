/*
 * Backward: what a run recorded -> the derivative of a loss by every weight.
 *
 * The forward pass is the run's. This goes through its trace from the head to the embedding, one
 * function a block, and adds what it finds to a second model of the same shape, whose numbers are
 * sums. Sequences of equal length go through the linear layers together.
 */
#ifndef SS_TRAIN_BACK_BACKWARD_H
#define SS_TRAIN_BACK_BACKWARD_H

#include "attention.h"

/* What a run must record. */
uint32_t ss_backward_fields(const ss_arch *arch);

/* SS_UNSUPPORTED, with what it is, for a block or an operation that has no backward function. */
ss_status ss_backward_check(const ss_arch *arch, ss_error *err);

/* Working memory of R = sequences * T rows. */
typedef struct ss_backward {
    const ss_model *model, *sums;
    int T;             /* tokens of a sequence */
    float *logits;     /* [R][V] what the caller puts in: the derivative by the logits */
    float *dx;         /* [R][D] by the residual stream */
    float *x, *y, *dy; /* [R][D] what a block reads, normed, and the derivative by it */
    float *part;       /* [R][D or G*K] of dy, or d_v, that comes through one of several products */
    float *head_out, *d_head_out; /* [R][H*K] of all heads */
    float *d_q, *d_k, *d_v;       /* [R][H*K], [R][G*K] twice */
    float *gates, *d_gates;       /* [R][gated heads * gate width] */
    float *up, *d_up;             /* [R][F] */
    float *gate, *d_gate;         /* [R][F], gated feed-forward only */
    float first_value; /* what the derivative by the first token's values is multiplied by; 1 */
    float *squares;    /* [2][T] of the derivatives by keys and values at a position, summed */
    float *ratios; /* [2][L] of the derivatives by what attention reads, and by the stream before
                      its norm: the first token's norm over the mean of the others', summed over
                      sequences */
    float *rotary; /* [T][rotary_width/2] twice: cosines, then sines */
    float *work;
    ss_attention_back attention;
} ss_backward;

/* Takes the working memory, and only that, from the arena, which may be one that measures. */
void ss_backward_lay_out(ss_backward *back, const ss_arch *arch, int sequences, int T,
                         ss_arena *arena);

/*
 * Traces of `sequences` runs of the model over T tokens each, with the fields above, and
 * back->logits; adds the derivatives by all weights to the numbers of back->sums.
 */
void ss_backward_run(const ss_backward *back, const ss_trace *traces, int sequences);

#endif
