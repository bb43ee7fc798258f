/*
 * Recording: a file of fields and metrics of a model on some prompts -> a trace, without the model.
 *
 * The file is a safetensors file (recording.schema.json, in this folder, describes its JSON).
 * `i.NAME` is field NAME of kept prompt i in the shape of the trace table; `mean.NAME` and
 * `deviation.NAME` are the mean and the standard deviation of metric NAME over all prompts, kept or
 * not, in the shape of the metric table; if the metric has a threshold, the thresholds are the
 * first dimension. `i.alpha`, `i.row_mass` and the norms replace maps and vectors that were too
 * large to keep: a metric that needs only these works without the field; every other metric fails
 * and names the missing field. L counts the layers with attention; `model.blocks` counts all
 * layers, and `model.layers` has the indices of the L layers among them.
 *
 * Version 2 adds cross-attention, `cross`: T counts the encoder's tokens, to which the queries of a
 * decoder attend. Its maps have a row for each query and are read as tensors, not as a field.
 *
 * The bytes are untrusted. Opening checks the shape of every known tensor and copies only names and
 * the JSON; unknown names are ignored.
 */
#ifndef SS_REPORT_RECORDING_H
#define SS_REPORT_RECORDING_H

#include "../metrics/metrics.h"

#define SS_RECORDING_VERSION 2

/* Upper bound of the heads in all layers: four times the number in the largest published model. */
#define SS_RECORDING_HEADS_MAX 65536

typedef struct ss_recording {
    ss_model model;   /* only its architecture; a recording has no weights */
    ss_choice choice; /* the attention operation, and the mask of the layers without a window */
    ss_container container;     /* every tensor of the file, by name */
    const char *conditions;     /* the JSON of the file, ends with NUL */
    const int *lengths;         /* [kept_n] tokens of each kept prompt */
    int windows[SS_LAYERS_MAX]; /* [L] keys that a query sees; 0: all before it */
    int kept_n, count, T; /* number of kept prompts, of all prompts, of tokens measured in each */
    int thresholds;
    int first;   /* position of the token that counts as the first */
    int queries; /* rows of each map of cross-attention, whose T are keys; 0: other attention */
} ss_recording;

/* Returns an upper bound of the bytes that ss_recording_open takes, without parsing. */
size_t ss_recording_size(ss_bytes file);

/* Reads the header and the conditions and checks the shape of every known tensor. The file's bytes
 * must outlive the recording. Returns SS_BAD_FILE, SS_BAD_CONFIG or SS_BAD_TENSOR with the key or
 * the tensor; SS_UNSUPPORTED for a newer version or an unknown attention operation. */
ss_status ss_recording_open(ss_recording *recording, ss_bytes file, ss_arena *arena, ss_error *err);

/* Computes the arena bytes that ss_recording_trace takes for a kept prompt. */
ss_status ss_recording_trace_size(size_t *bytes, const ss_recording *recording, int prompt,
                                  ss_error *err);

/* Makes the trace of a kept prompt. Aligned floats are read in place; halves become floats in the
 * arena. The trace records the fields of the file, and can be neither extended nor sampled. */
ss_status ss_recording_trace(ss_trace *trace, const ss_recording *recording, int prompt,
                             ss_arena *arena, ss_error *err);

/* Finds a tensor by its name, such as `mean.alpha`. first and second >= 0 select along the first
 * two dimensions and drop them, -1 keeps a dimension. tensor->data points into the file, dense and
 * in the file's type; ss_unpack converts it to floats. Returns SS_BAD_REQUEST if the name is
 * unknown or an index is out of range. */
ss_status ss_recording_tensor(ss_tensor *tensor, const ss_recording *recording, const char *name,
                              int first, int second, ss_error *err);

#endif
