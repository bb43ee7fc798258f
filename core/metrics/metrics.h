/*
 * The METRIC table: trace -> numbers. One row per number that a view can show, one file per
 * question a reader asks. Definitions follow Gu et al., "When Attention Sink Emerges in Language
 * Models" (ICLR 2025), and the authors' evaluation code where the text is silent.
 *
 * Indices are 0-based here: key 0 is the paper's token 1, and alpha[k] is its alpha_{k+1}.
 * An undefined number is NaN.
 */
#ifndef SS_METRICS_METRICS_H
#define SS_METRICS_METRICS_H

#include "../run/trace.h"

#define SS_EPS_STANDARD 0.3f
#define SS_T_STANDARD 64
#define SS_KEYS_STANDARD 10

typedef struct ss_metric_args {
    float eps;            /* threshold of Sink_k^eps; a head counts where alpha_k > eps */
    int T;                /* the first T tokens are measured; 1 .. trace->T */
    int layer;            /* only for metrics of one head */
    int head;             /* query head, only for metrics of one head */
    const ss_trace *base; /* a run of the same model to compare with, of T tokens or more */
} ss_metric_args;

enum { SS_ARG_EPS = 1, SS_ARG_TOKENS = 2, SS_ARG_LAYER = 4, SS_ARG_HEAD = 8, SS_ARG_BASE = 16 };

typedef struct ss_metric {
    const char *name, *label, *question,
        *unit; /* label: short, in the field's notation; question: what a reader asks */
    const char *shape[SS_RANK_MAX]; /* letters as in ss_field; T is args->T */
    float low, high;                /* possible values; infinite where there is no bound */
    int args;                       /* SS_ARG_... */
    uint32_t fields;  /* SS_BIT(field) that the run must have recorded, where its model has them */
    uint32_t reduced; /* those of `fields` whose row statistics or norms are enough */
    unsigned statistics; /* SS_STATISTIC_...: the row statistics that the metric reads; a run
                            without stored maps accumulates them in the pass (run/statistics.h) */
    bool weights;        /* the metric also reads the model's weights */
    bool averaged; /* the mean over sequences makes sense; else the metric describes one sequence */
    bool summary;
    const char *topic;
    /* One of three functions computes the metric. `measure` writes all numbers. `measure_row`
     * returns the number of a row of the shape (a head, layer or state) over the first T tokens;
     * `measure_token`, where the shape ends with T, the number of a row at token t. Threads share
     * the rows, so these two must write no shared memory. */
    void (*measure)(const ss_trace *trace, const ss_metric_args *args, float *out);
    float (*measure_row)(const ss_trace *trace, int row, int T);
    float (*measure_token)(const ss_trace *trace, int row, int t, int T);
    const char *source;
} ss_metric;

/* Returns the table and, unless n is NULL, its number of rows. */
const ss_metric *ss_metrics(int *n);

/* Writes the shape of a metric of the trace to dims and returns its rank. Returns -1, with
 * SS_BAD_REQUEST, if the index, layer, head or T is out of range, a field was not recorded, a
 * recording lacks the weights, eps is not finite, or args->base cannot be compared with. */
int ss_metric_shape(size_t dims[SS_RANK_MAX], const ss_trace *trace, int metric,
                    const ss_metric_args *args, ss_error *err);

void ss_metric_measure(const ss_trace *trace, int metric, const ss_metric_args *args, float *out);

#endif
