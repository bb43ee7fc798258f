/*
 * Do the tokens' hidden states point in many directions, or in one?
 *
 * Matrix entropy of H [n][D]: with p_j = sigma_j^2 / |H|_F^2, -sum_j p_j ln p_j over ln min(n, D);
 * it is 1 where all directions have equal variance, 0 where one has all of it. Lower entropy in the
 * middle layers is a compression valley (arXiv 2510.06477), which a single massive row can cause;
 * the metric without the first token shows the other rows. H is not centered. NaN for a single row,
 * where all is zero, and where a square is not finite.
 */
#include "../math/spectrum.h"
#include "measures.h"

#include <math.h>
#include <string.h>

static void measure_layer(const void *context, size_t row, size_t worker) {
    const ss_metric_job *job = context;
    const ss_trace *trace = job->trace;
    size_t n = (size_t)(job->T - job->first);
    job->out[row] = ss_matrix_entropy(trace->spectrum + worker * trace->spectrum_n,
                                      ss_row(trace, SS_FIELD_HIDDEN, (int)row, job->first), n,
                                      (size_t)trace->model->arch.D);
}

static void measure_layers(const ss_trace *trace, int first, int T, float *out) {
    ss_metric_job job = {.trace = trace, .T = T, .first = first, .out = out};
    uint64_t pairs = (uint64_t)T * (uint64_t)T, rows = (uint64_t)ss_states(&trace->model->arch);
    ss_pool_run(trace->pool, measure_layer, &job, (size_t)rows,
                rows * pairs * (uint64_t)trace->model->arch.D);
}

void ss_measure_matrix_entropy(const ss_trace *trace, const ss_metric_args *args, float *out) {
    const float *spectra = trace->statistics.spectra;
    if (spectra)
        memcpy(out, spectra, (size_t)ss_states(&trace->model->arch) * sizeof *out);
    else
        measure_layers(trace, 0, args->T, out);
}

void ss_measure_matrix_entropy_others(const ss_trace *trace, const ss_metric_args *args,
                                      float *out) {
    /* The rows must be one contiguous range, which a first token in the middle would split. */
    if (trace->first)
        for (int row = 0; row < ss_states(&trace->model->arch); row++) out[row] = NAN;
    else
        measure_layers(trace, 1, args->T, out);
}
