#include "json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Removes trailing white space, and the NUL bytes that some writers append. */
static ss_bytes trim(ss_bytes text) {
    while (text.n && strchr(" \n\r\t", text.data[text.n - 1])) text.n--;
    return text;
}

static ss_status fail_at(const ss_json_members *members, size_t at, ss_error *err) {
    return ss_fail(err, members->code, members->file,
                   "expected one JSON object, but reading stops at byte %lu of %lu",
                   (unsigned long)at, (unsigned long)members->text.n);
}

static int compare_keys(const void *a, const void *b) {
    return strcmp((*(const cJSON *const *)a)->string, (*(const cJSON *const *)b)->string);
}

/* Returns a key that occurs twice among the members of an object, not of objects inside it, or
 * NULL; sets *full if the memory for the search ran out. */
static const char *find_shallow_duplicate(const cJSON *object, bool *full) {
    const cJSON *item, **items, *duplicate = NULL;
    size_t n = 0;
    cJSON_ArrayForEach(item, object) n++;
    if (n < 2) return NULL;
    items = cJSON_malloc(n * sizeof *items);
    *full |= !items;
    if (!items) return NULL;
    n = 0;
    cJSON_ArrayForEach(item, object) items[n++] = item;
    qsort(items, n, sizeof *items, compare_keys);
    for (size_t i = 1; !duplicate && i < n; i++)
        if (!strcmp(items[i]->string, items[i - 1]->string)) duplicate = items[i];
    cJSON_free((void *)items);
    return duplicate ? duplicate->string : NULL;
}

static const char *find_duplicate(const cJSON *value, bool *full) {
    const char *duplicate = cJSON_IsObject(value) ? find_shallow_duplicate(value, full) : NULL;
    const cJSON *item;
    cJSON_ArrayForEach(item, value) if (!duplicate && item->child) duplicate =
        find_duplicate(item, full);
    return duplicate;
}

ss_status ss_json_parse_value(cJSON **out, const ss_json_members *members, ss_bytes text,
                              ss_error *err) {
    const char *start = (const char *)text.data, *end = start;
    bool is_out_of_memory = false;
    cJSON *root = text.n ? cJSON_ParseWithLengthOpts(start, text.n, &end, 0) : NULL;
    size_t length = end >= start && (size_t)(end - start) <= text.n ? (size_t)(end - start) : 0;
    ss_status status = SS_OK;
    if (!root || length != text.n)
        status = fail_at(members, (size_t)(text.data - members->text.data) + length, err);
    const char *key = status == SS_OK ? find_duplicate(root, &is_out_of_memory) : NULL;
    if (is_out_of_memory)
        status = ss_fail(err, SS_NO_MEMORY, members->file, "no room to read it");
    else if (key)
        status = ss_fail(err, members->code, key, "%s: expected each key once", members->file);
    if (status == SS_OK)
        *out = root;
    else
        cJSON_Delete(root);
    return status;
}

ss_status ss_json_parse(cJSON **out, ss_bytes text, const char *file, ss_status code,
                        ss_error *err) {
    ss_json_members document = {.text = trim(text), .file = file, .code = code};
    cJSON *root;
    ss_status status = ss_json_parse_value(&root, &document, document.text, err);
    if (status != SS_OK) return status;
    if (cJSON_IsObject(root)) {
        *out = root;
        return SS_OK;
    }
    cJSON_Delete(root);
    return fail_at(&document, 0, err);
}

static int current_byte(const ss_json_members *members) {
    return members->offset < members->text.n ? members->text.data[members->offset] : -1;
}

static void skip_space(ss_json_members *members) {
    while (current_byte(members) > 0 && strchr(" \n\r\t", current_byte(members))) members->offset++;
}

static void skip_string(ss_json_members *members) {
    for (members->offset++; current_byte(members) >= 0 && current_byte(members) != '"';
         members->offset++)
        if (current_byte(members) == '\\') members->offset++;
    members->offset += current_byte(members) == '"';
}

/* Skips the value that begins here, by counting brackets. */
static void skip_value(ss_json_members *members) {
    for (int depth = 0, byte; (byte = current_byte(members)) >= 0;) {
        if (depth == 0 && (byte == ',' || byte == '}' || byte == ']')) return;
        depth += (byte == '{' || byte == '[') - (byte == '}' || byte == ']');
        if (byte == '"')
            skip_string(members);
        else
            members->offset++;
    }
}

ss_json_members ss_json_members_of(ss_bytes text, const char *file, ss_status code) {
    return (ss_json_members){.text = trim(text), .file = file, .code = code};
}

static ss_status check_end(const ss_json_members *members, ss_error *err) {
    size_t end = members->offset + 1;
    return end == members->text.n ? SS_OK : fail_at(members, end, err);
}

ss_status ss_json_next(ss_json_members *members, ss_bytes *key, ss_bytes *value, ss_error *err) {
    const unsigned char *text = members->text.data;
    bool is_first = members->offset == 0;
    *key = (ss_bytes){NULL, 0};
    if (!is_first && current_byte(members) == '}') return check_end(members, err);
    if (current_byte(members) != (is_first ? '{' : ','))
        return fail_at(members, members->offset, err);
    members->offset++;
    skip_space(members);
    if (is_first && current_byte(members) == '}') return check_end(members, err);
    size_t key_begin = members->offset;
    if (current_byte(members) != '"') return fail_at(members, members->offset, err);
    skip_string(members);
    size_t key_end = members->offset;
    skip_space(members);
    if (current_byte(members) != ':') return fail_at(members, members->offset, err);
    members->offset++;
    skip_space(members);
    *value = (ss_bytes){text + members->offset, 0};
    skip_value(members);
    value->n = (size_t)(text + members->offset - value->data);
    *value = trim(*value);
    *key = (ss_bytes){text + key_begin, key_end - key_begin};
    return SS_OK;
}

void ss_json_fail(ss_json *json, const char *key, const char *expected) {
    if (*json->status == SS_OK)
        *json->status =
            ss_fail(json->err, SS_BAD_CONFIG, key, "%s: expected %s", json->file, expected);
}

void ss_json_refuse(ss_json *json, const char *key, const char *expected, const char *actual) {
    if (*json->status == SS_OK)
        *json->status = ss_fail(json->err, SS_UNSUPPORTED, key,
                                "%s: this build computes %s, the file says %.80s", json->file,
                                expected, actual);
}

const cJSON *ss_json_item(const ss_json *json, const char *key) {
    const cJSON *item =
        *json->status == SS_OK ? cJSON_GetObjectItemCaseSensitive(json->object, key) : NULL;
    return cJSON_IsNull(item) ? NULL : item;
}

bool ss_json_is_null(const ss_json *json, const char *key) {
    return cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(json->object, key));
}

static void fail_number(ss_json *json, const char *key, const char *kind, const cJSON *item,
                        double low, double high) {
    if (*json->status != SS_OK) return;
    char actual[48];
    if (cJSON_IsNumber(item))
        snprintf(actual, sizeof actual, "found %.10g", item->valuedouble);
    else
        snprintf(actual, sizeof actual, "%s",
                 item ? "found something else" : "but the key is missing");
    *json->status =
        ss_fail(json->err, SS_BAD_CONFIG, key, "%s: expected %s from %.10g to %.10g, %s",
                json->file, kind, low, high, actual);
}

int ss_json_int(ss_json *json, const char *key, int default_value, int low, int high) {
    const cJSON *item = ss_json_item(json, key);
    if (!item && default_value != SS_JSON_REQUIRED) return default_value;
    double value = cJSON_IsNumber(item) ? item->valuedouble : (double)NAN;
    if (value >= low && value <= high && value == floor(value)) return (int)value;
    fail_number(json, key, "a whole number", item, low, high);
    return low;
}

double ss_json_number(ss_json *json, const char *key, double default_value, double low,
                      double high) {
    const cJSON *item = ss_json_item(json, key);
    if (!item && !isnan(default_value)) return default_value;
    double value = cJSON_IsNumber(item) ? item->valuedouble : (double)NAN;
    if (value >= low && value <= high) return value;
    fail_number(json, key, "a number", item, low, high);
    return low;
}

bool ss_json_bool(ss_json *json, const char *key, bool default_value) {
    const cJSON *item = ss_json_item(json, key);
    if (item && !cJSON_IsBool(item)) ss_json_fail(json, key, "true or false");
    return item ? cJSON_IsTrue(item) : default_value;
}

void ss_json_require_bool(ss_json *json, const char *key, bool value) {
    if (ss_json_bool(json, key, value) != value)
        ss_json_refuse(json, key, value ? "true" : "false", value ? "false" : "true");
}

const char *ss_json_text(ss_json *json, const char *key, const char *default_value) {
    const cJSON *item = ss_json_item(json, key);
    if (item && !cJSON_IsString(item)) ss_json_fail(json, key, "a text");
    return cJSON_IsString(item) ? item->valuestring : default_value;
}

ss_json ss_json_object(ss_json *json, const char *key) {
    const cJSON *item = ss_json_item(json, key);
    if (item && !cJSON_IsObject(item)) ss_json_fail(json, key, "an object");
    return (ss_json){cJSON_IsObject(item) ? item : NULL, json->file, json->status, json->err};
}
