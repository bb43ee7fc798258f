/*
 * Recording: what a model did on some prompts, kept in one file -> a trace, without the model.
 *
 * The file is a safetensors file (recording.schema.json beside this header describes its JSON).
 * `i.NAME` is field NAME of kept prompt i in the shape of the trace table; `mean.NAME` and
 * `deviation.NAME` are metric NAME over all prompts, kept or not, in the shape of the metric table,
 * with the thresholds in front where the metric has one. `i.alpha`, `i.row_mass` and the norms
 * replace maps and vectors that were too large to keep: a metric that needs no more than these
 * works on them, every other one names the field that is missing. L counts the layers with
 * attention; `model.blocks` counts all, and `model.layers` has the model's own numbers of the L.
 *
 * The bytes are untrusted. Opening proves every known name against its shape and copies nothing but
 * names and the JSON; unknown names are kept and ignored.
 */
#ifndef SS_REPORT_RECORDING_H
#define SS_REPORT_RECORDING_H

#include "../metrics/metrics.h"

/* The version of the format that this reader knows. */
#define SS_RECORDING_VERSION 1

/* Heads of all layers that a recording may have: four times those of the largest published model.
 */
#define SS_RECORDING_HEADS_MAX 65536

typedef struct ss_recording {
    ss_model model;         /* its architecture alone: there are no weights */
    ss_choice own;          /* the attention operation, with the mask of layers without a window */
    ss_container container; /* every tensor of the file, by name */
    const char *conditions; /* the JSON of the file, ends with NUL */
    const int *lengths;     /* [kept] tokens of each kept prompt */
    int windows[SS_LAYERS_MAX]; /* [L] keys that a query sees; 0: all before it */
    int kept, count, T;         /* kept prompts, all prompts, tokens of each measured one */
    int thresholds;             /* how many eps there are */
    int first;                  /* position of the token that counts as the first */
} ss_recording;

/* Bytes of arena that ss_recording_open takes at most, before the file is parsed. */
size_t ss_recording_size(ss_bytes file);

/*
 * Reads the header and the conditions and proves the shape of every known tensor. The file's bytes
 * must outlive the recording. SS_BAD_FILE, SS_BAD_CONFIG or SS_BAD_TENSOR with the key or the
 * tensor; SS_UNSUPPORTED for a newer version or an unknown attention operation.
 */
ss_status ss_recording_open(ss_recording *recording, ss_bytes file, ss_arena *arena, ss_error *err);

/* Bytes of arena that ss_recording_trace takes for that kept prompt. */
ss_status ss_recording_trace_size(size_t *bytes, const ss_recording *recording, int prompt,
                                  ss_error *err);

/*
 * The trace of a kept prompt. Floats stay where they lie in the file where they are aligned; halves
 * become floats in the arena. It records what the file has, and can be neither extended nor
 * sampled.
 */
ss_status ss_recording_trace(ss_trace *trace, const ss_recording *recording, int prompt,
                             ss_arena *arena, ss_error *err);

/*
 * A tensor of the file by its name, `mean.alpha`. first and second >= 0 select along the first two
 * dimensions and drop them, -1 keeps them. data points into the file, of the file's type, dense;
 * ss_unpack makes floats of it. SS_BAD_REQUEST if there is none or an index is out of range.
 */
ss_status ss_recording_tensor(ss_tensor *tensor, const ss_recording *recording, const char *name,
                              int first, int second, ss_error *err);

#endif
