/*
 * Status and error: the results of functions that read untrusted bytes or may lack memory.
 *
 * The first error wins: a function that fails fills ss_error once, and its callers pass the status
 * on. Outputs are untouched on failure. There is no errno and no last-error global.
 */
#ifndef SS_BASE_STATUS_H
#define SS_BASE_STATUS_H

#include "bytes.h"

#include <assert.h>

typedef enum ss_status {
    SS_OK = 0,
    SS_BAD_FILE,    /* a container's bytes contradict themselves */
    SS_BAD_CONFIG,  /* a key of config.json is missing, of the wrong type or out of range */
    SS_BAD_TENSOR,  /* a tensor is missing or has another shape, type or content than expected */
    SS_BAD_TOKEN,   /* a token id is outside the vocabulary */
    SS_BAD_REQUEST, /* the caller asked for a field, metric, layer, ... that does not exist */
    SS_TOO_LONG,    /* more tokens than the run has room for or the model has positions for */
    SS_NO_MEMORY,   /* the block is too small, or a size does not fit this machine */
    SS_UNSUPPORTED, /* well formed, but this build cannot compute it */
    SS_DIVERGED,    /* the loss or gradient of a training is not finite */
    SS_STATUS_N
} ss_status;

typedef struct ss_error {
    ss_status code;
    char where[96]; /* tensor name, key or byte offset; printable ASCII, ends with NUL */
    char text[768]; /* one sentence with expected and actual; printable ASCII, ends with NUL */
} ss_error;

/* Returns the name of a code, such as "bad_file"; "unknown" for a value outside the table. */
const char *ss_status_name(ss_status code);

/* Returns the meaning of a code in a few words; NULL in a build without explanations (doc.h). */
const char *ss_status_meaning(ss_status code);

/* Fills err (or NULL) and returns code. Bytes of `where` outside printable ASCII become '?'. */
#ifdef __GNUC__
__attribute__((format(printf, 4, 5)))
#endif
ss_status
ss_fail(ss_error *err, ss_status code, const char *where, const char *text, ...);

typedef struct ss_where {
    char text[96];
} ss_where;

ss_where ss_where_byte(size_t at);     /* "byte 12" */
ss_where ss_where_name(ss_bytes name); /* the name, cut to fit */

/* Asserts are for programming errors, never for input. */
#define SS_ASSERT(condition) assert(condition)

#endif
