/* One layer's attention backwards, over one sequence. Private to train/. */
#ifndef SS_TRAIN_BACK_ATTENTION_H
#define SS_TRAIN_BACK_ATTENTION_H

#include "../../run/trace.h"

/* Working memory for T tokens; B is 1 with a bias key, else 0. */
typedef struct ss_attention_back {
    float *weights;        /* [T][B+T] of one head */
    float *d;              /* [T][B+T] derivatives by its weights, then by its scores */
    float *row;            /* [2][B+T] scores and weights that the mask lets through */
    float *queries, *d_q;  /* [T][K] through the feature map */
    float *keys, *d_k;     /* [B+T][K] */
    float *values, *d_v;   /* [B+T][K] */
    float *inner;          /* [B+T][K] of an mlp feature map */
    float *tiles, *panels; /* of one product */
    float *work;           /* of an mlp feature map */
} ss_attention_back;

void ss_attention_back_lay_out(ss_attention_back *back, const ss_arch *arch, int T,
                               ss_arena *arena);

/*
 * d_head_out[T][H*K], the derivative by the outputs of the heads of layer l, becomes those by
 * queries d_q[T][H*K], keys d_k[T][G*K] and values d_v[T][G*K] as the trace has them. What a bias
 * key, sink logits and a feature map gain is added to sums.
 */
void ss_attention_back_run(const ss_attention_back *back, float *d_q, float *d_k, float *d_v,
                           const float *d_head_out, const ss_trace *trace, int l,
                           const ss_layer *sums);

/* The numbers of a recorded field of layer l and head h (-1: it has none), in rows of its own. */
const float *ss_recorded(const ss_trace *trace, ss_field_id field, int l, int h);

#endif
