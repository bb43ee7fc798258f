/* The backward pass of one layer's attention over one sequence. Private to train/. */
#ifndef SS_TRAIN_BACK_ATTENTION_H
#define SS_TRAIN_BACK_ATTENTION_H

#include "../../run/trace.h"

/* Working memory for T tokens; B is 1 for a model with a bias key, else 0. */
typedef struct ss_attention_back {
    float *weights;        /* [T][B+T] weights of one head */
    float *d;              /* [T][B+T] derivatives with respect to weights, then to scores */
    float *row;            /* [2][B+T] scores and weights that the mask lets through */
    float *queries, *d_q;  /* [T][K] after the feature map */
    float *keys, *d_k;     /* [B+T][K] */
    float *values, *d_v;   /* [B+T][K] */
    float *inner;          /* [B+T][K] hidden layer of an mlp feature map */
    float *tiles, *panels; /* operands of one product */
    float *work;
} ss_attention_back;

void ss_attention_back_lay_out(ss_attention_back *back, const ss_arch *arch, int T,
                               ss_arena *arena);

/* Propagates d_head_out[T][H*K], the derivative with respect to the head outputs of layer l, to the
 * recorded queries d_q[T][H*K], keys d_k[T][G*K] and values d_v[T][G*K]. The derivatives with
 * respect to a bias key, sink logits and a feature map are added to sums. */
void ss_attention_back_run(const ss_attention_back *back, float *d_q, float *d_k, float *d_v,
                           const float *d_head_out, const ss_trace *trace, int l,
                           const ss_layer *sums);

/* Returns the rows of a recorded field at layer l and head h (-1 for a field without heads). */
const float *ss_recorded_rows(const ss_trace *trace, ss_field_id field, int l, int h);

#endif
