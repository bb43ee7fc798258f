/* How well are the tokens predicted? Mean of -ln p over tokens 1 .. T-1; NaN for T = 1. */
#include "measures.h"

void ss_measure_loss_mean(const ss_trace *trace, const ss_metric_args *args, float *out) {
    double sum = 0.0;
    for (int t = 1; t < args->T; t++) sum += (double)trace->loss[t];
    *out = (float)(sum / (double)(args->T - 1));
}
