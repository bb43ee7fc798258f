/*
 * Describe: the tables of this build, and the architecture of a model, as JSON.
 *
 * Operations, metrics, trace fields, edits, status codes and defaults are written from the C tables
 * themselves, so that no name, unit or shape is written twice. Arrays of numbers never go through
 * JSON.
 */
#ifndef SS_REPORT_DESCRIBE_H
#define SS_REPORT_DESCRIBE_H

#include "../metrics/metrics.h"

#define SS_VERSION "1.0.0"

/* Bytes of a buffer that holds either text; ss_describe fails if a table outgrows it. */
#define SS_DESCRIBE_BYTES 65536

/* Writes NUL-ended JSON into out[bytes]; abi is the version of the calls that JavaScript makes.
 * Returns SS_NO_MEMORY if the text does not fit. */
ss_status ss_describe(char *out, size_t bytes, int abi, ss_error *err);

/* Writes the architecture of a model as JSON, under the conditions of ss_describe. */
ss_status ss_describe_model(char *out, size_t bytes, const ss_model *model, ss_error *err);

#endif
