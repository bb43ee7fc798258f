/*
 * pytorch_model.bin: a zip file with NAME/data.pkl, the pickled table of tensors, and
 * NAME/data/KEY, the raw numbers of each storage. The pickle is never executed.
 *
 * Tensors may share a storage (tied weights), and a buffer may have a type that no weight has. The
 * checkpoints of nanoGPT also hold the sizes of their model.
 */
#include "torch_file.h"

#include "../families/family.h"
#include "container.h"
#include "pickle.h"
#include "zip.h"

#include <stdio.h>
#include <string.h>

#define RECORD_NAME_BYTES 256

#define PICKLE_NAME "/data.pkl"
#define MODEL_ARGS "model_args"

typedef struct torch_file {
    ss_bytes bytes;
    ss_zip_record *records; /* [records_n], sorted by name */
    size_t records_n;
    ss_bytes folder; /* name of the top folder, with its slash */
    ss_pickle pickle;
} torch_file;

static bool is_pickle(ss_bytes name) {
    size_t n = sizeof PICKLE_NAME - 1;
    return name.n > n && !memcmp(name.data + name.n - n, PICKLE_NAME, n);
}

/* Returns an upper bound of the tensors in a pickle: a tensor takes at least four bytes, for a key
 * and a value from the memo. */
static size_t max_entries(size_t pickle_n) {
    return pickle_n / 4 + 1;
}

static size_t max_name_bytes(size_t pickle_n) {
    return pickle_n + max_entries(pickle_n);
}

static size_t measure(ss_bytes file) {
    ss_zip zip;
    ss_zip_record record;
    if (ss_zip_begin(&zip, file, NULL) != SS_OK) return 0;
    ss_arena arena = ss_arena_measure();
    ss_arena_take(&arena, (size_t)zip.n, sizeof record);
    /* A file with a truncated directory still gets memory, so that ss_zip_read reports the error.
     */
    for (uint64_t i = 0; i < zip.n && ss_zip_next(&zip, &record, NULL) == SS_OK; i++) {
        if (!is_pickle(record.name) || record.data.n > SS_PICKLE_BYTES_MAX) continue;
        size_t n = record.data.n;
        ss_arena_take(&arena, ss_pickle_size(n), 1);
        ss_arena_take(&arena, max_entries(n), sizeof(ss_entry));
        ss_arena_take(&arena, max_name_bytes(n), 1);
        break;
    }
    return arena.used;
}

static ss_status read_records(torch_file *file, ss_arena *arena, ss_error *err) {
    ss_zip zip;
    if (file->bytes.data[0] != 'P') /* container.c lets only a zip file and the older format pass */
        return ss_fail(
            err, SS_UNSUPPORTED, "byte 0",
            "expected the zip file of torch.save, found its older format: load and save it again");
    ss_status status = ss_zip_begin(&zip, file->bytes, err);
    if (status != SS_OK) return status;
    file->records_n = (size_t)zip.n;
    file->records = ss_arena_take(arena, file->records_n, sizeof *file->records);
    if (arena->full) return ss_fail(err, SS_NO_MEMORY, "zip directory", "no room for its records");
    return ss_zip_read(file->records, &zip, err);
}

static const ss_zip_record *find_record(const torch_file *file, const char *prefix, ss_bytes key) {
    char name[RECORD_NAME_BYTES];
    if (file->folder.n + strlen(prefix) + key.n >= sizeof name) return NULL;
    int n = snprintf(name, sizeof name, "%.*s%s", (int)file->folder.n,
                     (const char *)file->folder.data, prefix);
    if (n < 0 || (size_t)n != file->folder.n + strlen(prefix)) return NULL;
    if (key.n) memcpy(name + n, key.data, key.n);
    return ss_zip_find(file->records, file->records_n,
                       (ss_bytes){(const unsigned char *)name, (size_t)n + key.n});
}

static ss_status check_byte_order(const torch_file *file, ss_error *err) {
    const ss_zip_record *order = find_record(file, "byteorder", (ss_bytes){NULL, 0});
    if (!order || ss_bytes_equal(order->data, "little")) return SS_OK;
    return ss_fail(err, SS_UNSUPPORTED, "byteorder", "expected little-endian numbers");
}

static ss_status find_pickle(ss_bytes *code, torch_file *file, ss_error *err) {
    const ss_zip_record *record = NULL;
    for (size_t i = 0; i < file->records_n; i++) {
        if (!is_pickle(file->records[i].name)) continue;
        if (record)
            return ss_fail(err, SS_BAD_FILE, "data.pkl", "expected one in the zip file, found two");
        record = &file->records[i];
    }
    if (!record)
        return ss_fail(err, SS_BAD_FILE, "data.pkl",
                       "expected it in the zip file, as torch.save writes it, found none");
    *code = record->data;
    file->folder = (ss_bytes){record->name.data, record->name.n - sizeof PICKLE_NAME + 2};
    return check_byte_order(file, err);
}

static bool read_shape(ss_entry *entry, size_t *count, const ss_pickle_value *sizes, uint32_t n) {
    ss_tensor *tensor = &entry->tensor;
    *count = 1;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t dim = (uint64_t)sizes[i].number;
        if (dim > SIZE_MAX / 2 || !ss_mul_size(count, *count, (size_t)dim)) return false;
        if (i < SS_RANK_MAX) tensor->dims[i] = (size_t)dim;
    }
    tensor->rank = n < SS_RANK_MAX ? (int)n : SS_RANK_MAX;
    if (n > SS_RANK_MAX) entry->readable = false;
    ss_tensor_set_strides(tensor);
    return true;
}

static bool is_contiguous(const ss_pickle_value *sizes, const ss_pickle_value *strides,
                          uint32_t n) {
    uint64_t expected_stride = 1;
    for (uint32_t i = n; i-- > 0; expected_stride *= (uint64_t)sizes[i].number)
        if (sizes[i].number > 1 && (uint64_t)strides[i].number != expected_stride) return false;
    return true;
}

static ss_status find_numbers(ss_entry *entry, const torch_file *file, const ss_pickle_value *id,
                              uint64_t first, size_t count, ss_error *err) {
    const ss_storage_type *type = ss_pickle_storage_type(&id[1]);
    char digits[8];
    ss_bytes key = {(const unsigned char *)digits, 0};
    if (id[2].kind == SS_PICKLE_NUMBER)
        key.n = (size_t)snprintf(digits, sizeof digits, "%d", (int)id[2].number);
    else
        key = ss_pickle_text(&file->pickle, &id[2]);
    const ss_zip_record *record = find_record(file, "data/", key);
    uint64_t numbers = (uint64_t)id[4].number;
    if (!record)
        return ss_fail(err, SS_BAD_FILE, entry->name, "expected its storage in the zip file");
    if (numbers > record->data.n / type->bytes)
        return ss_fail(err, SS_BAD_FILE, entry->name,
                       "expected a storage of %.0f numbers, found %lu bytes", (double)numbers,
                       (unsigned long)record->data.n);
    if (count > numbers || first > numbers - count)
        return ss_fail(err, SS_BAD_FILE, entry->name,
                       "expected numbers inside its storage of %.0f, found %lu from %.0f on",
                       (double)numbers, (unsigned long)count, (double)first);
    const unsigned char *data = record->data.data + (size_t)first * type->bytes;
    entry->tensor.data = data;
    entry->begin = (size_t)(data - file->bytes.data);
    entry->end = entry->begin + count * type->bytes;
    return SS_OK;
}

static ss_status read_tensor(ss_entry *entry, const torch_file *file, const ss_pickle_value *tensor,
                             ss_error *err) {
    const ss_pickle_value *tuples = file->pickle.tuples, *args = tuples + tensor->number;
    const ss_pickle_value *sizes = tuples + args[2].number, *strides = tuples + args[3].number;
    const ss_pickle_value *id = tuples + args[0].number;
    const ss_storage_type *type = ss_pickle_storage_type(&id[1]);
    size_t count;
    entry->readable = type->type >= 0;
    entry->tensor.type = (ss_dtype)(entry->readable ? type->type : 0);
    if (!read_shape(entry, &count, sizes, args[2].n))
        return ss_fail(err, SS_BAD_FILE, entry->name,
                       "expected a shape whose product fits this machine");
    if (count && !is_contiguous(sizes, strides, args[2].n))
        return ss_fail(err, SS_UNSUPPORTED, entry->name,
                       "expected contiguous numbers, found other strides");
    return find_numbers(entry, file, id, (uint64_t)args[1].number, count, err);
}

static bool has_tensors(const ss_pickle *pickle, int64_t table) {
    for (size_t i = 0; i < pickle->items_n; i++)
        if (pickle->items[i].table == table && pickle->items[i].value.kind == SS_PICKLE_TENSOR)
            return true;
    return false;
}

static bool find_inner_table(int64_t *table, const ss_pickle *pickle, const char *key) {
    for (size_t i = 0; i < pickle->items_n; i++) {
        const ss_pickle_item *item = &pickle->items[i];
        if (item->table != pickle->table || item->key.kind != SS_PICKLE_TEXT ||
            item->value.kind != SS_PICKLE_TABLE ||
            !ss_bytes_equal(ss_pickle_text(pickle, &item->key), key))
            continue;
        *table = item->value.number;
        return true;
    }
    return false;
}

/* Finds the table of weights: the member in which training scripts store it, perhaps beside the
 * tensor of a loss, or the whole pickle. */
static ss_status find_table(int64_t *table, const ss_pickle *pickle, ss_error *err) {
    static const char *const wrappers[] = {"state_dict", "model", "module"};
    for (size_t w = 0; w < sizeof wrappers / sizeof *wrappers; w++)
        if (find_inner_table(table, pickle, wrappers[w])) return SS_OK;
    *table = pickle->table;
    if (has_tensors(pickle, *table)) return SS_OK;
    return ss_fail(err, SS_BAD_FILE, "data.pkl",
                   "expected a table of tensors, or one in state_dict, model or module");
}

static ss_status add_name(ss_entry *entry, const torch_file *file, const ss_pickle_value *key,
                          char **names, size_t *bytes_left, ss_error *err) {
    if (key->kind != SS_PICKLE_TEXT)
        return ss_fail(err, SS_BAD_FILE, "data.pkl", "expected tensors with names");
    ss_bytes text = ss_pickle_text(&file->pickle, key);
    if (memchr(text.data, 0, text.n))
        return ss_fail(err, SS_BAD_FILE, (const char *)text.data,
                       "expected a name without NUL bytes");
    /* The memory holds each name once; a pickle could repeat a name through its memo. */
    if (text.n >= *bytes_left)
        return ss_fail(err, SS_BAD_FILE, "data.pkl", "expected each name once");
    memcpy(*names, text.data, text.n);
    (*names)[text.n] = 0;
    entry->name = *names;
    *names += text.n + 1;
    *bytes_left -= text.n + 1;
    return SS_OK;
}

static ss_status read_tensors(ss_entries *out, const torch_file *file, char *names, ss_error *err) {
    const ss_pickle *pickle = &file->pickle;
    size_t capacity = max_entries(pickle->code.n), bytes_left = max_name_bytes(pickle->code.n);
    int64_t table;
    ss_status status = find_table(&table, pickle, err);
    for (size_t i = 0; status == SS_OK && i < pickle->items_n; i++) {
        const ss_pickle_item *item = &pickle->items[i];
        if (item->table != table || item->value.kind != SS_PICKLE_TENSOR) continue;
        if (out->n == capacity)
            return ss_fail(err, SS_BAD_FILE, "data.pkl", "expected each name once");
        ss_entry *entry = &out->entries[out->n++];
        *entry = (ss_entry){0};
        status = add_name(entry, file, &item->key, &names, &bytes_left, err);
        if (status == SS_OK) status = read_tensor(entry, file, &item->value, err);
    }
    return status;
}

static ss_status read_pickle(torch_file *file, ss_arena *arena, ss_error *err) {
    ss_bytes code;
    ss_status status = read_records(file, arena, err);
    if (status == SS_OK) status = find_pickle(&code, file, err);
    return status == SS_OK ? ss_pickle_read(&file->pickle, code, arena, err) : status;
}

static ss_status read_file(ss_entries *out, ss_bytes bytes, ss_arena *arena, ss_error *err) {
    torch_file file = {.bytes = bytes};
    ss_status status = read_pickle(&file, arena, err);
    if (status != SS_OK) return status;
    size_t n = file.pickle.code.n;
    ss_entries table = {ss_arena_take(arena, max_entries(n), sizeof(ss_entry)), 0};
    char *names = ss_arena_take(arena, max_name_bytes(n), 1);
    if (arena->full) return ss_fail(err, SS_NO_MEMORY, "data.pkl", "no room for its tensors");
    status = read_tensors(&table, &file, names, err);
    if (status == SS_OK) *out = table;
    return status;
}

const ss_format_reader ss_torch_file_reader = {"pytorch_model.bin", measure, read_file};

/* Adds a number, a truth or None to the config; other values are not sizes. Like nanoGPT, refuses
 * a key that its GPTConfig does not have: code that was changed may compute something else. */
static ss_status add_size(cJSON *config, const ss_pickle *pickle, const ss_pickle_item *item,
                          ss_error *err) {
    char key[32] = "";
    ss_bytes text = ss_pickle_text(pickle, &item->key);
    if (item->key.kind == SS_PICKLE_TEXT && text.n < sizeof key) memcpy(key, text.data, text.n);
    if (!ss_is_listed(key, "n_layer\0n_head\0n_embd\0block_size\0vocab_size\0bias\0dropout\0"))
        return ss_advise_recording(
            ss_fail(err, SS_UNSUPPORTED, key, MODEL_ARGS ": expected %s", "a model without it"),
            err);
    if (item->value.kind == SS_PICKLE_BOOL)
        cJSON_AddBoolToObject(config, key, item->value.number != 0);
    if (item->value.kind == SS_PICKLE_NUMBER)
        cJSON_AddNumberToObject(config, key, (double)item->value.number);
    if (item->value.kind == SS_PICKLE_NONE) cJSON_AddNullToObject(config, key);
    return SS_OK;
}

ss_status ss_arch_read_nanogpt(ss_arch *arch, ss_bytes bytes, ss_arena *arena, ss_error *err) {
    torch_file file = {.bytes = bytes};
    int64_t table;
    ss_status status = read_pickle(&file, arena, err);
    const ss_pickle *pickle = &file.pickle;
    if (status == SS_OK && !find_inner_table(&table, pickle, MODEL_ARGS))
        status =
            ss_fail(err, SS_BAD_CONFIG, MODEL_ARGS, "expected it, or config.json beside the file");
    if (status != SS_OK) return status;
    cJSON *config = cJSON_CreateObject();
    cJSON_AddStringToObject(config, "model_type", "nanogpt");
    for (size_t i = 0; status == SS_OK && i < pickle->items_n; i++)
        if (pickle->items[i].table == table)
            status = add_size(config, pickle, &pickle->items[i], err);
    if (status == SS_OK) status = ss_arch_read_object(arch, config, MODEL_ARGS, err);
    cJSON_Delete(config);
    return status;
}
