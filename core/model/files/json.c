#include "json.h"

#include <math.h>
#include <string.h>

/*
 * Without the white space (and the NUL bytes of some writers) behind it. cJSON 1.7.15 reads one
 * byte too far where a text ends right after a comma; a text that ends in '}' cannot do that.
 */
static ss_bytes trimmed(ss_bytes text) {
    while (text.n && strchr(" \n\r\t", text.data[text.n - 1])) text.n--;
    return text;
}

ss_status ss_json_parse(cJSON **out, ss_bytes text, const char *file, ss_status code,
                        ss_error *err) {
    text = trimmed(text);
    const char *start = (const char *)text.data, *end = start;
    bool closed = text.n && text.data[text.n - 1] == '}';
    cJSON *root = closed ? cJSON_ParseWithLengthOpts(start, text.n, &end, 0) : NULL;
    if (root && cJSON_IsObject(root) && end == start + text.n) {
        *out = root;
        return SS_OK;
    }
    cJSON_Delete(root);
    size_t at = end >= start && (size_t)(end - start) <= text.n ? (size_t)(end - start) : 0;
    if (!closed) at = text.n;
    return ss_fail(err, code, file,
                   "expected one JSON object, but reading stops at byte %lu of %lu",
                   (unsigned long)at, (unsigned long)text.n);
}

static void fail(ss_json *json, const char *key, const char *expected) {
    if (json->status == SS_OK)
        json->status =
            ss_fail(json->err, SS_BAD_CONFIG, key, "%s: expected %s", json->file, expected);
}

void ss_json_refuse(ss_json *json, const char *key, const char *expected, const char *actual) {
    if (json->status == SS_OK)
        json->status = ss_fail(json->err, SS_UNSUPPORTED, key,
                               "%s: this build computes %s, the file says %.80s", json->file,
                               expected, actual);
}

/* The value at key; NULL where it is absent, null, or an error stands already. */
static const cJSON *find(const ss_json *json, const char *key) {
    const cJSON *item =
        json->status == SS_OK ? cJSON_GetObjectItemCaseSensitive(json->object, key) : NULL;
    return cJSON_IsNull(item) ? NULL : item;
}

static void fail_number(ss_json *json, const char *key, const char *what, const cJSON *item,
                        double low, double high) {
    if (json->status != SS_OK) return;
    const char *file = json->file;
    if (!item)
        json->status =
            ss_fail(json->err, SS_BAD_CONFIG, key,
                    "%s: expected %s from %g to %g, but the key is missing", file, what, low, high);
    else if (!cJSON_IsNumber(item))
        json->status =
            ss_fail(json->err, SS_BAD_CONFIG, key,
                    "%s: expected %s from %g to %g, found something else", file, what, low, high);
    else
        json->status =
            ss_fail(json->err, SS_BAD_CONFIG, key, "%s: expected %s from %g to %g, found %g", file,
                    what, low, high, item->valuedouble);
}

int ss_json_int(ss_json *json, const char *key, int standard, int low, int high) {
    const cJSON *item = find(json, key);
    if (!item && standard != SS_JSON_REQUIRED) return standard;
    double value = cJSON_IsNumber(item) ? item->valuedouble : (double)NAN;
    if (value >= low && value <= high && value == floor(value)) return (int)value;
    fail_number(json, key, "a whole number", item, low, high);
    return low;
}

double ss_json_number(ss_json *json, const char *key, double standard, double low, double high) {
    const cJSON *item = find(json, key);
    if (!item && !isnan(standard)) return standard;
    double value = cJSON_IsNumber(item) ? item->valuedouble : (double)NAN;
    if (value >= low && value <= high) return value;
    fail_number(json, key, "a number", item, low, high);
    return low;
}

bool ss_json_bool(ss_json *json, const char *key, bool standard) {
    const cJSON *item = find(json, key);
    if (item && !cJSON_IsBool(item)) fail(json, key, "true or false");
    return item ? cJSON_IsTrue(item) : standard;
}

const char *ss_json_text(ss_json *json, const char *key, const char *standard) {
    const cJSON *item = find(json, key);
    if (item && !cJSON_IsString(item)) fail(json, key, "a text");
    return cJSON_IsString(item) ? item->valuestring : standard;
}

const cJSON *ss_json_object(ss_json *json, const char *key) {
    const cJSON *item = find(json, key);
    if (item && !cJSON_IsObject(item)) fail(json, key, "an object");
    return cJSON_IsObject(item) ? item : NULL;
}
