/*
 * Reading keys out of a JSON object, for config.json and the safetensors header.
 *
 * A reader keeps the first error it meets and answers defaults from then on, so a family file reads
 * as a list of keys and checks the status once at its end. cJSON allocates with libc's malloc: the
 * one exception to "the core never allocates"; everything is freed before the call returns.
 *
 * A key that occurs twice in one object is refused by its name: which of two values counts is
 * another matter in every reader.
 */
#ifndef SS_MODEL_JSON_H
#define SS_MODEL_JSON_H

#include "../../base/bytes.h"
#include "../../base/status.h"

#include <cJSON.h>

typedef struct ss_json {
    const cJSON *object;
    const char *file; /* what errors call the whole, "config.json" */
    ss_status status; /* the first error */
    ss_error *err;
} ss_json;

/* A required key passes this as its default. */
#define SS_JSON_REQUIRED (-1)

/* Parses text that must be one JSON object and nothing behind it but white space; the caller frees
 * *out with cJSON_Delete. SS_BAD_CONFIG for a config, SS_BAD_FILE for a header: given as code. */
ss_status ss_json_parse(cJSON **out, ss_bytes text, const char *file, ss_status code,
                        ss_error *err);

/*
 * The same object member by member, so that a header of a million takes no more memory than the
 * longest of them; the caller finds keys that occur twice.
 */
typedef struct ss_json_members {
    ss_bytes text;
    const char *file;
    ss_status code;
    size_t at; /* the next byte */
} ss_json_members;

ss_json_members ss_json_members_of(ss_bytes text, const char *file, ss_status code);

/* The texts of the next key, quotes and all, and of its value; key->data is NULL behind the last.
 * Neither is read yet. */
ss_status ss_json_next(ss_json_members *members, ss_bytes *key, ss_bytes *value, ss_error *err);

/* Reads one of these texts; the caller frees *out with cJSON_Delete. */
ss_status ss_json_value(cJSON **out, const ss_json_members *members, ss_bytes text, ss_error *err);

/* A whole number in [low, high]; absent or null gives the default, which may be REQUIRED. */
int ss_json_int(ss_json *json, const char *key, int standard, int low, int high);

/* A finite number in [low, high]; absent or null gives the default; NaN as default: required. */
double ss_json_number(ss_json *json, const char *key, double standard, double low, double high);

bool ss_json_bool(ss_json *json, const char *key, bool standard);

/* Text, or the default where absent or null. Lives as long as the parsed object. */
const char *ss_json_text(ss_json *json, const char *key, const char *standard);

/* The object at key, or NULL where absent or null. */
const cJSON *ss_json_object(ss_json *json, const char *key);

/* Records SS_UNSUPPORTED for key, unless there is an error already. */
void ss_json_refuse(ss_json *json, const char *key, const char *expected, const char *actual);

#endif
