#include "recording.h"

#include "../math/unpack.h"
#include "../model/files/json.h"
#include "../run/statistics.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define FILE_NAME "recording"
#define METADATA "__metadata__"

/* Upper bound of sizes, so that their products stay in range; no published model is near it. */
#define DIMENSION_MAX (1 << 24)

/* Upper bound of kept prompts. Opening a file checks each of them, so this limits the time. */
#define KEPT_PROMPTS_MAX 4096

typedef struct tensor_name {
    char text[96];
} tensor_name;

static ss_status find_metadata(cJSON **out, ss_bytes file, ss_error *err) {
    uint64_t bytes = 0;
    ss_read_u64(&bytes, file, 0);
    ss_bytes header = {file.data + 8, (size_t)bytes}, key, value;
    ss_json_members members = ss_json_members_of(header, "safetensors header", SS_BAD_FILE);
    for (;;) {
        ss_status status = ss_json_next(&members, &key, &value, err);
        if (status != SS_OK) return status;
        if (!key.data)
            return ss_fail(err, SS_BAD_FILE, METADATA,
                           "expected it to say sinkscope.recording, found no metadata: this file "
                           "holds no recording");
        if (!ss_bytes_equal(key, "\"" METADATA "\"")) continue;
        status = ss_json_parse_value(out, &members, value, err);
        if (status == SS_OK && !cJSON_IsObject(*out)) {
            cJSON_Delete(*out);
            status = ss_fail(err, SS_BAD_FILE, METADATA, "expected an object of strings");
        }
        return status;
    }
}

static const char *string_of(const cJSON *metadata, const char *key, ss_error *err) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(metadata, key);
    if (cJSON_IsString(item)) return item->valuestring;
    ss_fail(err, SS_BAD_FILE, key,
            "expected a string in the metadata, found %s: this file holds no recording",
            item ? "something else" : "none");
    return NULL;
}

static ss_status check_version(const cJSON *metadata, ss_error *err) {
    const char *text = string_of(metadata, "sinkscope.recording", err);
    if (!text) return SS_BAD_FILE;
    char *end;
    double version = strtod(text, &end);
    if (end == text || !(version >= 1) || (*end && *end != '.'))
        return ss_fail(err, SS_BAD_FILE, "sinkscope.recording",
                       "expected the number of a version, found %.40s", text);
    if (version < SS_RECORDING_VERSION + 1) return SS_OK;
    return ss_fail(err, SS_UNSUPPORTED, "sinkscope.recording",
                   "this build reads recordings of version %d, the file is of version %.40s: a "
                   "newer Sinkscope opens it",
                   SS_RECORDING_VERSION, text);
}

static ss_json require_object(ss_json *json, const char *key) {
    ss_json inner = ss_json_object(json, key);
    if (!inner.object) ss_json_fail(json, key, "an object, but the key is missing");
    return inner;
}

static void check_texts(ss_json *json, const char *const *keys) {
    for (; *keys; keys++) ss_json_text(json, *keys, NULL);
}

static const char *require_text(ss_json *json, const char *key) {
    const char *text = ss_json_text(json, key, NULL);
    if (!text) ss_json_fail(json, key, "a text, but the key is missing");
    return text ? text : "";
}

static const cJSON *list_of(ss_json *json, const char *key, bool required) {
    const cJSON *item = ss_json_item(json, key);
    if (item ? !cJSON_IsArray(item) : required) ss_json_fail(json, key, "a list");
    return cJSON_IsArray(item) ? item : NULL;
}

static void read_windows(ss_recording *r, ss_json *json, int window) {
    const cJSON *list = list_of(json, "windows", false), *item;
    int l = 0;
    for (; !list && l < r->model.arch.L; l++) r->windows[l] = window;
    cJSON_ArrayForEach(item, list) {
        double value = cJSON_IsNumber(item) ? item->valuedouble : cJSON_IsNull(item) ? 0 : -1;
        if (!(value >= 0 && value <= INT_MAX) || l == r->model.arch.L) l = -1;
        if (l < 0) break;
        r->windows[l++] = (int)value;
    }
    if (l != r->model.arch.L)
        ss_json_fail(json, "windows", "a number above 0 or null for each of the L layers");
    for (l = 0; l < r->model.arch.L; l++) {
        r->model.arch.windowed[l] = r->windows[l] > 0;
        if (r->windows[l]) r->model.arch.window = r->windows[l];
    }
}

static void read_layers(ss_recording *r, ss_json *json) {
    ss_arch *arch = &r->model.arch;
    const cJSON *list = list_of(json, "layers", false), *item;
    ss_attend_everywhere(arch);
    arch->blocks = ss_json_int(json, "blocks", arch->L, 1, SS_LAYERS_MAX);
    if (arch->blocks < arch->L || (!list && arch->blocks > arch->L))
        ss_json_fail(json, "blocks", "as many blocks as layers, or more and the list `layers`");
    double last = -1;
    int n = 0;
    cJSON_ArrayForEach(item, list) {
        double value = cJSON_IsNumber(item) ? item->valuedouble : -1;
        if (!(value > last && value < arch->blocks && value == floor(value)))
            ss_json_fail(json, "layers", "ascending numbers of blocks, below `blocks`");
        last = value;
        if (*json->status == SS_OK && n < arch->L) arch->layers[n] = (short)value;
        n++;
    }
    if (list && n != arch->L) ss_json_fail(json, "layers", "as many numbers as L");
}

static void read_mask(ss_recording *r, ss_json *json) {
    ss_json mask = ss_json_object(json, "mask");
    const char *kind = mask.object ? require_text(&mask, "kind") : "causal";
    bool has_window = mask.object && !strcmp(kind, "window");
    bool has_list = cJSON_IsArray(cJSON_GetObjectItemCaseSensitive(json->object, "windows"));
    bool needs_window = has_window && !has_list, has_prefix = !strcmp(kind, "prefix");
    int window =
        ss_json_int(&mask, "window", needs_window ? SS_JSON_REQUIRED : 0, needs_window, INT_MAX);
    int prefix = ss_json_int(&mask, "prefix", has_prefix ? SS_JSON_REQUIRED : 1, 1, INT_MAX - 1);
    if (!has_window) window = 0;
    if (has_prefix)
        r->model.arch.prefix = prefix;
    else if (!strcmp(kind, "bidirectional"))
        r->model.arch.prefix = SS_EVERY_KEY;
    else if (!has_window && strcmp(kind, "causal"))
        ss_json_fail(&mask, "mask.kind", "causal, window, prefix or bidirectional");
    read_windows(r, json, window);
}

static void read_operation(ss_recording *r, ss_json *json) {
    const char *name = ss_json_text(json, "operation", "softmax");
    int index = ss_operation_find(name);
    if (index < 0) {
        ss_json_refuse(json, "operation", "the operations of its table", name);
        return;
    }
    r->choice.operation = &ss_operations(NULL)[index];
    snprintf(r->model.arch.attention.operation, sizeof r->model.arch.attention.operation, "%s",
             r->choice.operation->name);
    r->choice.mask = (ss_mask){0, INT_MAX, r->model.arch.prefix};
}

static void read_model(ss_recording *r, ss_json *json) {
    ss_arch *arch = &r->model.arch;
    ss_json model = require_object(json, "model");
    const int required = SS_JSON_REQUIRED;
    arch->L = ss_json_int(&model, "L", required, 1, SS_LAYERS_MAX);
    arch->H = ss_json_int(&model, "H", required, 1, SS_RECORDING_HEADS_MAX);
    arch->G = ss_json_int(&model, "G", required, 1, SS_RECORDING_HEADS_MAX);
    arch->K = ss_json_int(&model, "K", required, 1, DIMENSION_MAX);
    arch->U = ss_json_int(&model, "U", arch->K, 1, DIMENSION_MAX);
    arch->D = ss_json_int(&model, "D", required, 1, DIMENSION_MAX);
    arch->V = ss_json_int(&model, "V", required, 1, INT_MAX);
    arch->F = ss_json_int(&model, "F", 0, 0, DIMENSION_MAX);
    arch->E = ss_json_int(&model, "E", 0, 0, SS_EXPERTS_MAX);
    arch->mask_token = -1;
    if (arch->H % arch->G) ss_json_fail(&model, "G", "a number of key/value heads that divides H");
    if (arch->L > SS_RECORDING_HEADS_MAX / arch->H)
        ss_json_fail(&model, "H", "at most 65536 heads in all layers");
    snprintf(arch->family, sizeof arch->family, "%s", require_text(&model, "family"));
    require_text(&model, "id");
    check_texts(&model,
                (const char *const[]){"revision", "sha256", "weights_sha256", "tokenizer_sha256",
                                      "part", "dtype", "attention", NULL});
    read_layers(r, &model);
    read_mask(r, &model);
    read_operation(r, &model);
}

static void read_first(ss_recording *r, ss_json *json) {
    ss_json first = ss_json_object(json, "first");
    ss_json_text(&first, "token", NULL);
    ss_json_int(&first, "id", 0, 0, INT_MAX);
    r->first = ss_json_int(&first, "position", 0, 0, INT_MAX);
}

static void read_prompts(ss_recording *r, ss_json *json) {
    ss_json prompts = require_object(json, "prompts");
    r->count = ss_json_int(&prompts, "count", SS_JSON_REQUIRED, 1, INT_MAX);
    r->kept_n = ss_json_int(&prompts, "kept", SS_JSON_REQUIRED, 0,
                            r->count < KEPT_PROMPTS_MAX ? r->count : KEPT_PROMPTS_MAX);
    r->T = ss_json_int(&prompts, "T", SS_JSON_REQUIRED, 1, INT_MAX);
    ss_json_int(&prompts, "generated", 0, 1, INT_MAX);
    if (r->first >= r->T) ss_json_fail(&prompts, "first.position", "a position below T");
    static const char *const TEXTS[] = {"source", "sha256", "source_sha256", "texts_sha256", NULL};
    check_texts(&prompts, TEXTS);
}

static void read_thresholds(ss_recording *r, ss_json *json) {
    const cJSON *item;
    cJSON_ArrayForEach(item, list_of(json, "eps", true)) {
        r->thresholds++;
        if (!cJSON_IsNumber(item) || !(fabs(item->valuedouble) <= 3.4e38))
            ss_json_fail(json, "eps", "a list of finite numbers");
    }
}

static void read_edits(ss_json *json) {
    const cJSON *item;
    cJSON_ArrayForEach(item, list_of(json, "edits", false)) {
        if (!cJSON_IsString(cJSON_GetObjectItemCaseSensitive(item, "kind")) ||
            !cJSON_IsString(cJSON_GetObjectItemCaseSensitive(item, "label")))
            ss_json_fail(json, "edits", "a list of objects with a kind and a label");
    }
}

static void read_versions(ss_json *json) {
    const cJSON *item;
    cJSON_ArrayForEach(item, ss_json_object(json, "versions").object) if (!cJSON_IsString(item))
        ss_json_fail(json, "versions", "an object of texts");
}

/* Reads the token strings of each kept prompt; their number is the prompt's length. */
static void read_tokens(ss_recording *r, ss_json *json, ss_arena *arena) {
    const cJSON *list = list_of(json, "tokens", true), *prompt, *item;
    int *lengths =
            ss_arena_take(arena, list ? (size_t)cJSON_GetArraySize(list) : 0, sizeof *lengths),
        n = 0;
    if (arena->full && *json->status == SS_OK)
        *json->status = ss_fail(json->err, SS_NO_MEMORY, "tokens", "no room for their lengths");
    cJSON_ArrayForEach(prompt, list) {
        if (*json->status != SS_OK) return;
        int length = 0;
        if (!cJSON_IsArray(prompt))
            ss_json_fail(json, "tokens", "a list of strings for each prompt");
        cJSON_ArrayForEach(item, prompt) {
            length++;
            if (!cJSON_IsString(item))
                ss_json_fail(json, "tokens", "a list of strings for each prompt");
        }
        if (length < 1) ss_json_fail(json, "tokens", "one token or more in each prompt");
        if (length <= r->first) ss_json_fail(json, "first.position", "a token of each kept prompt");
        lengths[n++] = length;
    }
    if (n != r->kept_n) ss_json_fail(json, "tokens", "as many lists as prompts were kept");
    r->lengths = lengths;
}

static void read_cross(ss_recording *r, ss_json *json) {
    ss_json cross = ss_json_object(json, "cross");
    if (cross.object) r->queries = ss_json_int(&cross, "T", SS_JSON_REQUIRED, 1, INT_MAX);
}

static ss_status read_conditions(ss_recording *r, const cJSON *root, ss_arena *arena,
                                 ss_error *err) {
    ss_status status = SS_OK;
    ss_json json = {root, FILE_NAME, &status, err};
    read_model(r, &json);
    read_first(r, &json);
    read_prompts(r, &json);
    read_thresholds(r, &json);
    read_edits(&json);
    read_versions(&json);
    require_text(&json, "class");
    check_texts(&json, (const char *const[]){"license", "command", NULL});
    read_cross(r, &json);
    read_tokens(r, &json, arena);
    return status;
}

static tensor_name prompt_name(int prompt, const char *name) {
    tensor_name full_name;
    snprintf(full_name.text, sizeof full_name.text, "%d.%s", prompt, name);
    return full_name;
}

static const ss_entry *prompt_entry(const ss_recording *r, int prompt, const char *name) {
    return ss_container_find(&r->container, prompt_name(prompt, name).text);
}

enum { FLOATS = 1 << SS_F32 | 1 << SS_F16 | 1 << SS_BF16, EXACT = 1 << SS_F32 };

static ss_tensor drop_ones(const ss_tensor *tensor) {
    ss_tensor rest = {.rank = 0};
    for (int i = 0; i < tensor->rank; i++)
        if (tensor->dims[i] != 1) rest.dims[rest.rank++] = tensor->dims[i];
    return rest;
}

/* Checks that an entry, if it exists, has one of these types and this shape; `ignore_ones` ignores
 * dimensions of 1. */
static ss_status check_entry(const ss_entry *entry, const ss_tensor *expected, int types,
                             bool ignore_ones, ss_error *err) {
    if (!entry) return SS_OK;
    const ss_tensor *tensor = &entry->tensor;
    ss_tensor actual_rest = drop_ones(tensor), expected_rest = drop_ones(expected);
    bool has_shape = ignore_ones ? ss_tensor_shapes_equal(&actual_rest, &expected_rest)
                                 : ss_tensor_shapes_equal(tensor, expected);
    const char *type = types == FLOATS ? "F32, F16 or BF16"
                                       : ss_dtype_name(types & 1 << SS_I32  ? SS_I32
                                                       : types & 1 << SS_U8 ? SS_U8
                                                                            : SS_F32);
    if (entry->readable && (types & 1 << tensor->type) && has_shape) return SS_OK;
    return ss_fail(err, SS_BAD_TENSOR, entry->name, "expected %s of shape [%s], found %s of [%s]",
                   type, ss_tensor_shape(expected).text,
                   entry->readable ? ss_dtype_name(tensor->type) : "another type",
                   ss_tensor_shape(tensor).text);
}

/* Refuses attention that is NaN or infinite: every metric that reads it would be wrong, and some
 * would be a number. */
static ss_status check_weights(const ss_entry *entry, ss_error *err) {
    const ss_tensor *tensor = &entry->tensor;
    size_t at = ss_first_not_finite(tensor->data, tensor->type, ss_tensor_count(tensor));
    if (at == SIZE_MAX) return SS_OK;
    return ss_fail(err, SS_BAD_TENSOR, entry->name,
                   "expected finite numbers, but number %lu is NaN or infinite", (unsigned long)at);
}

/* Returns an empty trace of T tokens, from which letters of shapes take their sizes. */
static ss_trace sizes_of(const ss_recording *r, int T) {
    return (ss_trace){.model = &r->model, .T = T, .capacity = T, .slots = T};
}

static bool shape_of(ss_tensor *s, const ss_trace *sizes, const char *const *letters) {
    for (s->rank = 0; s->rank < SS_RANK_MAX && letters[s->rank]; s->rank++)
        if (!(s->dims[s->rank] = ss_trace_size_of(sizes, letters[s->rank]))) return false;
    return true;
}

/* Fields [L][H][T]... with a row for each query. */
#define FIELDS_OF_QUERIES (SS_BIT(SS_FIELD_Q) | SS_BIT(SS_FIELD_SCORES) | SS_BIT(SS_FIELD_ATT))

/* The tensors with summaries that replace a field: name, field, and shape of the tensor. */
static const struct {
    const char *name;
    ss_field_id field;
    const char *shape[SS_RANK_MAX];
} summary_table[] = {
    {"alpha", SS_FIELD_ATT, {"L", "H", "T"}},    {"alpha_raw", SS_FIELD_ATT, {"L", "H", "T"}},
    {"row_mass", SS_FIELD_ATT, {"L", "H", "T"}}, {"hidden_norm", SS_FIELD_HIDDEN, {"L+1", "T"}},
    {"key_norm", SS_FIELD_K, {"L", "G", "T"}},   {"value_norm", SS_FIELD_V, {"L", "G", "T"}},
};
#define SUMMARIES_N (int)(sizeof summary_table / sizeof *summary_table)
enum { SUMMARY_ALPHA, SUMMARY_ALPHA_RAW, SUMMARY_ROW_MASS, SUMMARY_NORMS };

/* Returns true for losses and ranks without a number for the first token. */
static bool lacks_first_token(const ss_entry *entry, int field, int T) {
    return SS_FIELDS_PREDICTED & SS_BIT(field) && entry && entry->tensor.rank == 1 &&
           entry->tensor.dims[0] == (size_t)T - 1;
}

static ss_status check_pooled(const ss_recording *r, int prompt, ss_error *err) {
    const ss_entry *maps = prompt_entry(r, prompt, "att_pooled");
    if (!maps) return SS_OK;
    const ss_entry *scale = prompt_entry(r, prompt, "att_scale");
    size_t P = maps->tensor.rank == 4 ? maps->tensor.dims[3] : 0;
    size_t L = (size_t)r->model.arch.L, H = (size_t)r->model.arch.H;
    size_t rows = r->queries ? (size_t)r->queries : P;
    ss_status status =
        check_entry(maps, &(ss_tensor){.rank = 4, .dims = {L, H, rows, P}}, 1 << SS_U8, false, err);
    if (status == SS_OK && (P < 1 || P > 128 || P > (size_t)r->lengths[prompt]))
        status = ss_fail(err, SS_BAD_TENSOR, maps->name,
                         "expected maps of 1 to 128 cells a side, and of no more than the tokens, "
                         "found %lu",
                         (unsigned long)P);
    if (status == SS_OK && !scale)
        status = ss_fail(err, SS_BAD_TENSOR, prompt_name(prompt, "att_scale").text,
                         "expected the scales of the pooled maps, but the file has none");
    if (status == SS_OK)
        status = check_entry(scale, &(ss_tensor){.rank = 2, .dims = {L, H}}, EXACT, false, err);
    return status == SS_OK ? check_weights(scale, err) : status;
}

static ss_status check_tokens(const ss_recording *r, const ss_entry *entry, ss_error *err) {
    size_t n = ss_tensor_count(&entry->tensor);
    for (size_t t = 0; t < n; t++) {
        int32_t id;
        memcpy(&id, (const unsigned char *)entry->tensor.data + t * sizeof id, sizeof id);
        if (id < 0 || id >= r->model.arch.V)
            return ss_fail(err, SS_BAD_TOKEN, entry->name, "expected ids below V = %d, found %d",
                           r->model.arch.V, (int)id);
    }
    return SS_OK;
}

static ss_status check_prompt(const ss_recording *r, int prompt, ss_error *err) {
    int T = r->lengths[prompt];
    ss_trace sizes = sizes_of(r, T);
    ss_tensor s;
    for (int field = 0; field < SS_FIELD_N; field++) {
        const ss_field *row = &ss_fields()[field];
        const ss_entry *entry = prompt_entry(r, prompt, row->name);
        if (!entry || !shape_of(&s, &sizes, row->shape) || lacks_first_token(entry, field, T))
            continue;
        if (r->queries && SS_BIT(field) & FIELDS_OF_QUERIES) s.dims[2] = (size_t)r->queries;
        int types = row->type == SS_I32 ? 1 << SS_I32 : FLOATS;
        ss_status status = check_entry(entry, &s, types, false, err);
        if (status == SS_OK && field == SS_FIELD_TOKENS) status = check_tokens(r, entry, err);
        if (status == SS_OK && field == SS_FIELD_ATT) status = check_weights(entry, err);
        if (status != SS_OK) return status;
    }
    for (int i = 0; i < SUMMARIES_N; i++) {
        shape_of(&s, &sizes, summary_table[i].shape);
        ss_status status =
            check_entry(prompt_entry(r, prompt, summary_table[i].name), &s, EXACT, false, err);
        if (status != SS_OK) return status;
    }
    return check_pooled(r, prompt, err);
}

static ss_status check_mean(const ss_recording *r, const char *prefix, const ss_metric *row,
                            ss_error *err) {
    ss_trace sizes = sizes_of(r, r->T);
    ss_tensor s, with_eps = {.rank = 0};
    if (!shape_of(&s, &sizes, row->shape)) return SS_OK;
    if (row->args & SS_ARG_EPS) with_eps.dims[with_eps.rank++] = (size_t)r->thresholds;
    for (int i = 0; i < s.rank && with_eps.rank < SS_RANK_MAX; i++)
        with_eps.dims[with_eps.rank++] = s.dims[i];
    tensor_name name;
    snprintf(name.text, sizeof name.text, "%s.%s", prefix, row->name);
    return check_entry(ss_container_find(&r->container, name.text), &with_eps, FLOATS, true, err);
}

static ss_status check_means(const ss_recording *r, ss_error *err) {
    int n;
    const ss_metric *rows = ss_metrics(&n);
    ss_status status = SS_OK;
    for (int i = 0; i < n && status == SS_OK; i++) {
        if (!rows[i].averaged) continue;
        status = check_mean(r, "mean", &rows[i], err);
        if (status == SS_OK) status = check_mean(r, "deviation", &rows[i], err);
    }
    return status;
}

static ss_status check_rows(const ss_recording *r, ss_error *err) {
    const struct {
        const char *name;
        int types;
        int rank;
    } rows[] = {{"prompt.sink_1", EXACT, 2},
                {"prompt.alpha_1", EXACT, 1},
                {"prompt.loss", EXACT, 1},
                {"prompt.failed", 1 << SS_U8, 1}};
    ss_status status = SS_OK;
    for (size_t i = 0; i < sizeof rows / sizeof *rows && status == SS_OK; i++) {
        ss_tensor shape = {.rank = rows[i].rank, .dims = {(size_t)r->count, (size_t)r->thresholds}};
        status = check_entry(ss_container_find(&r->container, rows[i].name), &shape, rows[i].types,
                             true, err);
    }
    return status;
}

/* Returns true if the operation has a sink logit, which takes the weight that goes to no token;
 * att_bias then belongs to no key. */
static bool has_sink_logit(const ss_operation *operation) {
    for (int p = 0; p < SS_PARAMETERS_MAX && operation->parameters[p].name; p++)
        if (operation->parameters[p].per_head) return true;
    return false;
}

static void infer_additions(ss_recording *r) {
    ss_arch *arch = &r->model.arch;
    if (prompt_entry(r, 0, "att_bias") && !has_sink_logit(r->choice.operation))
        arch->bias_key = SS_OWNER_HEAD;
    if (prompt_entry(r, 0, "gate")) arch->gate = SS_GATE_OUTPUT_HEAD;
    if (prompt_entry(r, 0, "ffn_gate")) arch->ffn = SS_FFN_GATED;
}

static ss_status check_tensors(ss_recording *r, ss_error *err) {
    infer_additions(r);
    ss_status status = check_means(r, err);
    if (status == SS_OK) status = check_rows(r, err);
    for (int i = 0; i < r->kept_n && status == SS_OK; i++) status = check_prompt(r, i, err);
    return status;
}

size_t ss_recording_size(ss_bytes file) {
    uint64_t header = 0;
    if (!ss_read_u64(&header, file, 0) || header > file.n) header = 0;
    /* The JSON is no longer than the header, and the token list of a prompt takes at least 3 bytes
     * of it. */
    size_t bytes = ss_container_size(&file, 1),
           json_bytes = (size_t)header + (size_t)header / 3 * sizeof(int);
    return ss_add_size(&bytes, bytes, json_bytes + 4 * SS_ARENA_OVERHEAD) ? bytes : SIZE_MAX;
}

/* Copies the JSON into the arena, since the caller frees the metadata, and reads it. */
static ss_status open_conditions(ss_recording *r, const cJSON *metadata, ss_arena *arena,
                                 ss_error *err) {
    const char *text = string_of(metadata, "sinkscope", err);
    if (!text) return SS_BAD_FILE;
    size_t n = strlen(text);
    char *copy = ss_arena_take(arena, n + 1, 1);
    if (arena->full)
        return ss_fail(err, SS_NO_MEMORY, FILE_NAME, "no room for its JSON of %lu bytes",
                       (unsigned long)n);
    r->conditions = memcpy(copy, text, n + 1);
    cJSON *root;
    ss_status status = ss_json_parse(&root, (ss_bytes){(const unsigned char *)copy, n}, FILE_NAME,
                                     SS_BAD_CONFIG, err);
    if (status != SS_OK) return status;
    status = read_conditions(r, root, arena, err);
    cJSON_Delete(root);
    return status;
}

ss_status ss_recording_open(ss_recording *recording, ss_bytes file, ss_arena *arena,
                            ss_error *err) {
    ss_recording result = {.kept_n = 0};
    if (ss_container_format(file) != SS_SAFETENSORS)
        return ss_fail(err, SS_BAD_FILE, "byte 0", "expected a recording, a safetensors file");
    ss_status status = ss_container_open(&result.container, &file, 1, arena, err);
    if (status != SS_OK) return status;
    cJSON *metadata;
    status = find_metadata(&metadata, file, err);
    if (status != SS_OK) return status;
    status = check_version(metadata, err);
    if (status == SS_OK) status = open_conditions(&result, metadata, arena, err);
    cJSON_Delete(metadata);
    if (status == SS_OK) status = check_tensors(&result, err);
    if (status == SS_OK) *recording = result;
    return status;
}

/* Returns aligned numbers of 32 bits in place, others as a copy in the arena; NULL while the arena
 * measures. */
static void *numbers_of(const ss_entry *entry, ss_arena *arena) {
    const ss_tensor *tensor = &entry->tensor;
    bool has_32_bits = tensor->type == SS_F32 || tensor->type == SS_I32;
    size_t n = ss_tensor_count(tensor);
    if (has_32_bits && (uintptr_t)tensor->data % sizeof(float) == 0)
        return (void *)(uintptr_t)tensor->data;
    void *numbers = ss_arena_take(arena, n, sizeof(float));
    if (numbers && has_32_bits && n) memcpy(numbers, tensor->data, n * sizeof(float));
    if (numbers && !has_32_bits) ss_unpack(numbers, tensor->data, tensor->type, n);
    return numbers;
}

/* Returns losses[T]: NaN for the first token, then the numbers of the entry. */
static void *losses_of(const ss_entry *entry, int T, ss_arena *arena) {
    float *numbers = ss_arena_take(arena, (size_t)T, sizeof *numbers);
    if (numbers) numbers[0] = NAN;
    if (numbers) ss_unpack(numbers + 1, entry->tensor.data, entry->tensor.type, (size_t)T - 1);
    return numbers;
}

static void read_fields(ss_trace *trace, const ss_recording *r, int prompt, ss_arena *arena) {
    for (int field = 0; field < SS_FIELD_N; field++) {
        const ss_field *row = &ss_fields()[field];
        const ss_entry *entry = prompt_entry(r, prompt, row->name);
        ss_tensor s;
        if (!entry || !shape_of(&s, trace, row->shape)) continue;
        if (r->queries && SS_BIT(field) & FIELDS_OF_QUERIES) continue;
        if (field == SS_FIELD_ATT_BIAS && has_sink_logit(r->choice.operation)) continue;
        trace->fields |= SS_BIT(field);
        trace->buffers[field] = lacks_first_token(entry, field, trace->T)
                                    ? losses_of(entry, trace->T, arena)
                                    : numbers_of(entry, arena);
    }
    for (int field = 0; field < SS_FIELD_N; field++) {
        const char *const *letters = ss_fields()[field].shape;
        while (*letters && **letters != 'T') letters++;
        ss_tensor s;
        trace->capacities[field] = (size_t)trace->T;
        trace->widths[field] = 1;
        shape_of(&s, trace, *letters ? letters + 1 : ss_fields()[field].shape);
        for (int i = 0; i < s.rank; i++) trace->widths[field] *= s.dims[i];
    }
}

static void set_choices(ss_trace *trace, const ss_recording *r, ss_arena *arena) {
    int L = r->model.arch.L, H = r->model.arch.H;
    trace->choices = ss_arena_take(arena, (size_t)L * (size_t)H, sizeof *trace->choices);
    for (int head = 0; trace->choices && head < L * H; head++) {
        trace->choices[head] = r->choice;
        if (r->windows[head / H]) trace->choices[head].mask.recent = r->windows[head / H];
    }
}

static void count_visible_keys(ss_trace *trace, ss_arena *arena) {
    if (trace->fields & SS_BIT(SS_FIELD_SEEN) || !(trace->fields & SS_BIT(SS_FIELD_ATT))) return;
    int heads = ss_heads(trace), T = trace->T;
    float *counts = ss_arena_take(arena, (size_t)heads * (size_t)T, sizeof *counts);
    float bias = trace->fields & SS_BIT(SS_FIELD_ATT_BIAS) ? 1.0f : 0.0f;
    for (int head = 0; counts && head < heads; head++) {
        const ss_mask *mask = &trace->choices[head].mask;
        for (int t = 0; t < T; t++) {
            int end = ss_mask_end(mask, t, T);
            int hidden_n = mask->prefix || t < mask->recent ? 0 : t + 1 - mask->recent;
            counts[(size_t)head * (size_t)T + (size_t)t] = (float)(end - hidden_n) + bias;
        }
    }
    trace->fields |= SS_BIT(SS_FIELD_SEEN);
    trace->buffers[SS_FIELD_SEEN] = counts;
}

static void compute_factors(ss_trace *trace, const ss_recording *r, ss_arena *arena) {
    size_t rows = (size_t)ss_heads(trace) * (size_t)trace->T;
    float *factors = ss_arena_take(arena, rows, sizeof *factors);
    bool are_shares = r->choice.operation->proxy != SS_PROXY_WEIGHTS;
    const float *bias = ss_floats(trace, SS_FIELD_ATT_BIAS), *sums = trace->summaries.row_mass;
    for (size_t i = 0; factors && i < rows; i++)
        factors[i] =
            are_shares ? 1.0f / (sums[i] + (bias ? bias[i] : 0.0f) + SS_PROXY_GUARD) : 1.0f;
    trace->summaries.factors = factors;
}

static void read_summaries(ss_trace *trace, const ss_recording *r, int prompt, ss_arena *arena) {
    ss_summaries *summaries = &trace->summaries;
    const ss_entry *pooled_map = prompt_entry(r, prompt, "att_pooled");
    bool has_summary[SUMMARIES_N];
    const float *numbers[SUMMARIES_N]; /* NULL also while the arena measures */
    for (int i = 0; i < SUMMARIES_N; i++) {
        const ss_entry *entry = prompt_entry(r, prompt, summary_table[i].name);
        has_summary[i] = entry != NULL;
        numbers[i] = entry ? numbers_of(entry, arena) : NULL;
    }
    summaries->pooled_side = pooled_map ? (int)pooled_map->tensor.dims[3] : 0;
    summaries->is_cross = r->queries > 0;
    summaries->alpha = numbers[SUMMARY_ALPHA];
    summaries->row_mass = numbers[SUMMARY_ROW_MASS];
    summaries->alpha_raw = numbers[SUMMARY_ALPHA_RAW];
    for (int i = SUMMARY_NORMS; i < SUMMARIES_N; i++) {
        summaries->norms[summary_table[i].field] = numbers[i];
        if (has_summary[i]) summaries->fields |= SS_BIT(summary_table[i].field);
    }
    if (!has_summary[SUMMARY_ALPHA_RAW] && r->choice.operation->proxy == SS_PROXY_WEIGHTS) {
        summaries->alpha_raw = summaries->alpha;
        has_summary[SUMMARY_ALPHA_RAW] = has_summary[SUMMARY_ALPHA];
    }
    bool has_all = has_summary[SUMMARY_ALPHA] && has_summary[SUMMARY_ROW_MASS] &&
                   has_summary[SUMMARY_ALPHA_RAW];
    /* An operation with signed weights divides by sums of absolute weights. With a bias key, only
     * the maps have these sums. */
    bool is_absolute = r->choice.operation->proxy == SS_PROXY_SHARE_ABS;
    has_all &= !(is_absolute && trace->fields & SS_BIT(SS_FIELD_ATT_BIAS));
    if (trace->fields & SS_BIT(SS_FIELD_ATT) || !has_all) return;
    compute_factors(trace, r, arena);
    summaries->fields |= SS_BIT(SS_FIELD_ATT);
}

static void make_trace(ss_trace *trace, const ss_recording *r, int prompt, ss_arena *arena) {
    *trace = sizes_of(r, r->lengths[prompt]);
    trace->summaries.is_recording = true;
    trace->first = r->first;
    read_fields(trace, r, prompt, arena);
    set_choices(trace, r, arena);
    count_visible_keys(trace, arena);
    read_summaries(trace, r, prompt, arena);
    ss_trace_take_room(trace, arena);
    ss_statistics_clear(trace);
}

static ss_status check_index(const ss_recording *r, int prompt, ss_error *err) {
    if (prompt >= 0 && prompt < r->kept_n) return SS_OK;
    return ss_fail(err, SS_BAD_REQUEST, "prompt", "expected one of %d kept prompts, found %d",
                   r->kept_n, prompt);
}

ss_status ss_recording_trace_size(size_t *bytes, const ss_recording *recording, int prompt,
                                  ss_error *err) {
    ss_status status = check_index(recording, prompt, err);
    if (status != SS_OK) return status;
    ss_arena arena = ss_arena_measure();
    ss_trace trace;
    make_trace(&trace, recording, prompt, &arena);
    if (arena.full)
        return ss_fail(err, SS_NO_MEMORY, "prompt", "its trace does not fit this machine");
    *bytes = arena.used;
    return SS_OK;
}

ss_status ss_recording_trace(ss_trace *trace, const ss_recording *recording, int prompt,
                             ss_arena *arena, ss_error *err) {
    ss_trace prompt_trace;
    ss_status status = check_index(recording, prompt, err);
    if (status != SS_OK) return status;
    make_trace(&prompt_trace, recording, prompt, arena);
    if (arena->full)
        return ss_fail(err, SS_NO_MEMORY, "prompt", "no room for the trace of %d tokens",
                       prompt_trace.T);
    *trace = prompt_trace;
    return SS_OK;
}

ss_status ss_recording_tensor(ss_tensor *tensor, const ss_recording *recording, const char *name,
                              int first, int second, ss_error *err) {
    const ss_entry *entry = ss_container_find(&recording->container, name);
    if (!entry || !entry->readable)
        return ss_fail(err, SS_BAD_REQUEST, name, "expected a tensor of the recording, found %s",
                       entry ? "one of another type" : "none");
    ss_tensor view = {.type = entry->tensor.type};
    const ss_tensor *source = &entry->tensor;
    const unsigned char *data = source->data;
    for (int i = 0; i < source->rank; i++) {
        int index = i == 0 ? first : i == 1 ? second : -1;
        if (index >= 0 && (size_t)index >= source->dims[i])
            return ss_fail(err, SS_BAD_REQUEST, name, "expected an index below %lu, found %d",
                           (unsigned long)source->dims[i], index);
        /* Selecting along the second dimension only would not give a dense tensor. */
        if (index >= 0 && view.rank)
            return ss_fail(err, SS_BAD_REQUEST, name, "expected a first index with the second");
        if (index >= 0)
            data += ss_dtype_bytes(view.type, (size_t)index * source->strides[i]);
        else {
            view.dims[view.rank] = source->dims[i];
            view.strides[view.rank++] = source->strides[i];
        }
    }
    view.data = data;
    *tensor = view;
    return SS_OK;
}
