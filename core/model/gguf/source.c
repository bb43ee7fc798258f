#include "source.h"

#include "../../math/scalar.h"
#include "../arch.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Upper bound of the pairs in a file; the files of models have a few dozen. */
#define PAIRS_MAX 4096

static double number_of(const ss_gguf_pair *pair) {
    uint64_t bits = 0;
    ss_read_uint(&bits, pair->value, 0, pair->value.n);
    switch (pair->type) {
    case SS_GGUF_I8: return (int8_t)bits;
    case SS_GGUF_I16: return (int16_t)bits;
    case SS_GGUF_I32: return (int32_t)bits;
    case SS_GGUF_I64: return (double)(int64_t)bits;
    case SS_GGUF_F32: return (double)ss_float_of_bits((uint32_t)bits);
    case SS_GGUF_F64: return ss_double_of_bits(bits);
    default: return (double)bits;
    }
}

/* Converts an array of numbers, at most one per layer, to JSON; every other array becomes empty. */
static cJSON *list_of(const ss_gguf_pair *pair) {
    cJSON *list = cJSON_CreateArray();
    bool has_numbers = pair->type != SS_GGUF_TEXT && pair->count && pair->count <= SS_LAYERS_MAX;
    size_t width = has_numbers ? pair->value.n / (size_t)pair->count : 0;
    for (size_t i = 0; width && i < (size_t)pair->count; i++) {
        ss_gguf_pair element = *pair;
        element.value = (ss_bytes){pair->value.data + i * width, width};
        double value = number_of(&element);
        cJSON_AddItemToArray(list, cJSON_CreateNumber(isfinite(value) ? value : -1.0));
    }
    return list;
}

/* Converts the value of a pair to JSON. A text that is longer than all words in use becomes empty;
 * a text ends at its first NUL; NaN and infinity become null. */
static cJSON *item_of(const ss_gguf_pair *pair) {
    char text[SS_GGUF_TEXT_BYTES] = "";
    if (pair->is_array) return list_of(pair);
    if (pair->type == SS_GGUF_BOOL) return cJSON_CreateBool(pair->value.data[0] != 0);
    if (pair->type != SS_GGUF_TEXT) {
        double value = number_of(pair);
        return isfinite(value) ? cJSON_CreateNumber(value) : cJSON_CreateNull();
    }
    size_t n = pair->value.n - 8;
    if (n < sizeof text) memcpy(text, pair->value.data + 8, n);
    return cJSON_CreateString(text);
}

static ss_status add_pair(ss_gguf_source *source, const ss_gguf_pair *pair) {
    char key[SS_GGUF_TEXT_BYTES] = "";
    if (pair->key.n < sizeof key) memcpy(key, pair->key.data, pair->key.n);
    if (!key[0] || strlen(key) != pair->key.n)
        return ss_fail(source->err, SS_BAD_FILE, key,
                       "expected a key of 1 to %d bytes that are not NUL, found %lu",
                       SS_GGUF_TEXT_BYTES - 1, (unsigned long)pair->key.n);
    if (cJSON_GetObjectItemCaseSensitive(source->pairs, key))
        return ss_fail(source->err, SS_BAD_FILE, key, "expected each key once");
    cJSON *item = item_of(pair);
    if (cJSON_AddItemToObject(source->pairs, key, item)) return SS_OK;
    cJSON_Delete(item);
    return ss_fail(source->err, SS_NO_MEMORY, key, "no room for its value");
}

static ss_status read_pairs(ss_gguf_source *source, ss_gguf *gguf) {
    if (gguf->pairs_n > PAIRS_MAX)
        return ss_fail(source->err, SS_UNSUPPORTED, "byte 16",
                       "expected at most %d keys, found %lu", PAIRS_MAX,
                       (unsigned long)gguf->pairs_n);
    for (uint64_t i = 0; i < gguf->pairs_n; i++) {
        ss_gguf_pair pair;
        ss_status status = ss_gguf_next_pair(gguf, &pair, source->err);
        if (status == SS_OK) status = add_pair(source, &pair);
        if (status != SS_OK) return status;
    }
    return SS_OK;
}

static ss_status read_tensors(ss_gguf_source *source, ss_gguf *gguf) {
    ss_gguf_tensor factors = {0};
    for (uint64_t i = 0; i < gguf->tensors_n; i++) {
        ss_gguf_tensor tensor;
        ss_status status = ss_gguf_next_tensor(gguf, &tensor, source->err);
        if (status != SS_OK) return status;
        if (ss_bytes_equal(tensor.name, "token_embd.weight")) source->V = (double)tensor.dims[1];
        if (ss_bytes_equal(tensor.name, "rope_freqs.weight")) factors = tensor;
        source->has_output |= ss_bytes_equal(tensor.name, "output.weight");
        source->attention_bias |= ss_bytes_equal(tensor.name, "blk.0.attn_q.bias") ||
                                  ss_bytes_equal(tensor.name, "blk.0.attn_qkv.bias");
        source->ffn_bias |= ss_bytes_equal(tensor.name, "blk.0.ffn_gate.bias") ||
                            ss_bytes_equal(tensor.name, "blk.0.ffn_up.bias");
    }
    if (!factors.rank) return SS_OK;
    ss_bytes data = ss_gguf_data(gguf);
    if (factors.type != 0 || factors.rank != 1 || factors.dims[0] > data.n / 4 ||
        factors.offset > data.n - 4 * factors.dims[0])
        return ss_fail(source->err, SS_BAD_FILE, "rope_freqs.weight",
                       "expected one row of F32 numbers inside the data, found something else");
    source->factors = data.data + factors.offset;
    source->factors_n = factors.dims[0];
    return SS_OK;
}

static ss_status find_architecture(ss_gguf_source *source) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(source->pairs, "general.architecture");
    const char *word = cJSON_IsString(item) ? item->valuestring : "";
    snprintf(source->architecture, sizeof source->architecture, "%s", word);
    return ss_gguf_find_family(&source->family,
                               (ss_bytes){(const unsigned char *)word, strlen(word)}, source->err);
}

ss_status ss_gguf_source_read(ss_gguf_source *source, ss_bytes file, ss_error *err) {
    *source = (ss_gguf_source){.pairs = cJSON_CreateObject(), .err = err};
    ss_gguf gguf;
    ss_status status = ss_gguf_begin(&gguf, file, err);
    if (status == SS_OK && !source->pairs)
        status = ss_fail(err, SS_NO_MEMORY, SS_GGUF_METADATA, "expected room for its keys");
    if (status == SS_OK) status = read_pairs(source, &gguf);
    if (status == SS_OK) status = find_architecture(source);
    if (status == SS_OK) status = read_tensors(source, &gguf);
    return status;
}

ss_gguf_key ss_gguf_full_key(const ss_gguf_source *source, const char *key) {
    ss_gguf_key name;
    snprintf(name.text, sizeof name.text, "%s.%s", source->architecture, key);
    return name;
}

const cJSON *ss_gguf_find(const ss_gguf_source *source, const char *key) {
    return cJSON_GetObjectItemCaseSensitive(source->pairs, ss_gguf_full_key(source, key).text);
}

void ss_gguf_refuse(ss_gguf_source *source, ss_status code, const char *key, const char *expected) {
    if (source->status == SS_OK)
        source->status =
            ss_fail(source->err, code, key, SS_GGUF_METADATA ": expected %s", expected);
}

double ss_gguf_number(ss_gguf_source *source, const char *key, double default_value) {
    const cJSON *item = ss_gguf_find(source, key);
    if (cJSON_IsNumber(item)) return item->valuedouble;
    if (item || isnan(default_value))
        ss_gguf_refuse(source, SS_BAD_CONFIG, ss_gguf_full_key(source, key).text, "a number");
    return isnan(default_value) ? 1.0 : default_value;
}

const char *ss_gguf_word(ss_gguf_source *source, const char *key, const char *default_value) {
    const cJSON *item = ss_gguf_find(source, key);
    if (item && !cJSON_IsString(item))
        ss_gguf_refuse(source, SS_BAD_CONFIG, ss_gguf_full_key(source, key).text, "a text");
    return cJSON_IsString(item) ? item->valuestring : default_value;
}
