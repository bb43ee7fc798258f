/*
 * Reads keys of a JSON object: config.json, a safetensors header, a recording's JSON or a recipe.
 *
 * A reader keeps the first error and returns defaults from then on, so that a family only lists its
 * keys and one check at the end is enough. cJSON calls malloc, which the rest of the core never
 * does; the functions of sinkscope.h that read JSON free everything before they return.
 *
 * An object with a duplicate key is refused, since readers differ in which of the values they use.
 */
#ifndef SS_MODEL_JSON_H
#define SS_MODEL_JSON_H

#include "../../base/bytes.h"
#include "../../base/status.h"

#include <cJSON.h>

typedef struct ss_json {
    const cJSON *object;
    const char *file;  /* name of the file in errors, "config.json" */
    ss_status *status; /* the first error, which readers of inner objects share */
    ss_error *err;
} ss_json;

/* As a default, this number makes the key required. */
#define SS_JSON_REQUIRED (-1)

/* Parses text that must be one JSON object, followed only by white space; the caller frees *out
 * with cJSON_Delete. Errors have the status `code`: SS_BAD_CONFIG for a config, SS_BAD_FILE for a
 * header. */
ss_status ss_json_parse(cJSON **out, ss_bytes text, const char *file, ss_status code,
                        ss_error *err);

/* Reads an object member by member, so that a header of a million members takes only the memory of
 * the longest; the caller detects duplicate keys. */
typedef struct ss_json_members {
    ss_bytes text;
    const char *file;
    ss_status code;
    size_t offset; /* of the next byte to read */
} ss_json_members;

ss_json_members ss_json_members_of(ss_bytes text, const char *file, ss_status code);

/* Finds the text of the next key, with its quotes, and the text of its value, both unparsed;
 * key->data is NULL after the last. */
ss_status ss_json_next(ss_json_members *members, ss_bytes *key, ss_bytes *value, ss_error *err);

/* Parses a text that ss_json_next found; the caller frees *out with cJSON_Delete. */
ss_status ss_json_parse_value(cJSON **out, const ss_json_members *members, ss_bytes text,
                              ss_error *err);

/* Reads an integer in [low, high]; absent or null: the default, or SS_JSON_REQUIRED. */
int ss_json_int(ss_json *json, const char *key, int default_value, int low, int high);

/* Reads a finite number in [low, high]; absent or null: the default, where NaN is required. */
double ss_json_number(ss_json *json, const char *key, double default_value, double low,
                      double high);

bool ss_json_bool(ss_json *json, const char *key, bool default_value);

/* Refuses a boolean other than `value`, which is also the value of an absent key. */
void ss_json_require_bool(ss_json *json, const char *key, bool value);

/* Reads a text, as long-lived as the parsed object; absent or null: the default. */
const char *ss_json_text(ss_json *json, const char *key, const char *default_value);

/* Returns the value at key; NULL where it is absent or null, or after an error. */
const cJSON *ss_json_item(const ss_json *json, const char *key);

/* Returns true if the key is present and its value is null. */
bool ss_json_is_null(const ss_json *json, const char *key);

/* Returns a reader of the object at key; its `object` is NULL where the key is absent or null. */
ss_json ss_json_object(ss_json *json, const char *key);

/* Records SS_BAD_CONFIG for key, "<file>: expected ...", unless an earlier error is recorded. */
void ss_json_fail(ss_json *json, const char *key, const char *expected);

/* Records SS_UNSUPPORTED for key, unless an earlier error is recorded. */
void ss_json_refuse(ss_json *json, const char *key, const char *expected, const char *actual);

#endif
