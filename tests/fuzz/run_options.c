/*
 * Fuzzes runs of three tiny models: begins a run with options and edits that the input draws, then
 * calls functions of the run in any order. Arenas have exactly the sizes that the core requests.
 */
#include "target.h"

#include <math.h>

#define EDITS_MAX 6
#define TOKENS_MAX 24
#define RUN_BYTES_MAX (1 << 24)

static const char *const names[] = {"llama", "own", "shared"};
#define MODELS (sizeof names / sizeof *names)

/* ---- models ------------------------------------------------------------------------------- */

/* Returns model i, which is opened once and kept open with its files. */
static const ss_model *model_of(size_t i) {
    static struct cached_model {
        ss_bytes config, weights;
        ss_arena entries, arena;
        ss_model model;
    } models[MODELS];
    struct cached_model *cached = &models[i];
    if (cached->arena.block) return &cached->model;
    cached->config = read_seed("config", names[i], "");
    cached->weights = read_seed("safetensors", names[i], ".safetensors");
    cached->entries = fuzz_arena(ss_container_size(&cached->weights, 1));
    ss_arch arch;
    ss_container container;
    if (ss_arch_read(&arch, cached->config, NULL) != SS_OK ||
        ss_container_open(&container, &cached->weights, 1, &cached->entries, NULL) != SS_OK)
        abort();
    cached->arena = fuzz_open(&cached->model, &arch, &container);
    if (!cached->arena.block) abort();
    return &cached->model;
}

/* ---- input -------------------------------------------------------------------------------- */

typedef struct input {
    const uint8_t *data;
    size_t n;
} input;

static uint8_t take_byte(input *in) {
    if (!in->n) return 0;
    in->n--;
    return *in->data++;
}

static uint32_t take_bits(input *in) {
    uint32_t bits = 0;
    for (int i = 0; i < 4; i++) bits = bits << 8 | take_byte(in);
    return bits;
}

/* Takes an integer from the input: mostly a small one, which is often valid, else any 32 bits. */
static int32_t take_int(input *in) {
    uint8_t byte = take_byte(in);
    return byte < 0xf0 ? byte % 48 - 2 : (int32_t)take_bits(in);
}

static float take_float(input *in) {
    uint8_t byte = take_byte(in);
    if (byte < 0x80) return NAN;
    if (byte < 0xf0) return (float)(byte % 32) - 4.0f;
    if (byte < 0xf8) return (float)(byte % 8) / 4.0f;
    uint32_t bits = take_bits(in);
    float number;
    memcpy(&number, &bits, sizeof number);
    return number;
}

/* ---- calls ------------------------------------------------------------------------------- */

static int take_tokens(int32_t tokens[TOKENS_MAX], input *in) {
    int n = take_byte(in) % (TOKENS_MAX + 1);
    for (int i = 0; i < n; i++) tokens[i] = take_int(in);
    return n;
}

static void extend(ss_run *run, input *in) {
    int32_t tokens[TOKENS_MAX];
    int n = take_tokens(tokens, in), T = run->trace.T;
    ss_error err;
    ss_status status = ss_run_extend(run, tokens, n, &err);
    check(status, &err);
    if (run->trace.T != T + (status == SS_OK ? n : 0)) abort();
}

/* Changes the tokens behind a first part that the old text and the new one share. */
static void update(ss_run *run, input *in) {
    int32_t tokens[2 * TOKENS_MAX];
    int T = run->trace.T, shared = take_byte(in) % (T < TOKENS_MAX ? T + 1 : TOKENS_MAX);
    if (shared) memcpy(tokens, ss_tokens(&run->trace), (size_t)shared * sizeof *tokens);
    int n = shared + take_tokens(tokens + shared, in);
    ss_error err;
    ss_status status = ss_run_update(run, tokens, n, &err);
    check(status, &err);
    if (run->trace.T != (status == SS_OK ? n : T)) abort();
}

static void sample(const ss_run *run, input *in) {
    float temperature = take_float(in);
    int top_k = take_int(in), token = ss_run_sample(run, temperature, top_k, take_bits(in));
    if (token < -1 || token >= run->trace.model->arch.V) abort();
}

/* Reads every number of a view, so that the sanitizer detects a number beyond the buffer. */
static void read_view(const ss_run *run, input *in) {
    int field = take_int(in), layer = take_int(in), head = take_int(in);
    ss_tensor tensor;
    ss_error err;
    ss_status status = ss_trace_view(&tensor, &run->trace, field, layer, head, &err);
    check(status, &err);
    uint32_t sum = 0;
    for (size_t i = 0; status == SS_OK && i < ss_tensor_count(&tensor); i++) {
        size_t offset = 0, rest = i;
        for (int d = tensor.rank; d-- > 0; rest /= tensor.dims[d])
            offset += rest % tensor.dims[d] * tensor.strides[d];
        uint32_t bits;
        memcpy(&bits, (const char *)tensor.data + 4 * offset, sizeof bits);
        sum += bits & 1;
    }
    if (sum > 1u << 30) abort();
}

static void measure(const ss_run *run, input *in) {
    int n, metric = take_int(in);
    ss_metrics(&n);
    ss_metric_args args = {take_float(in), take_int(in), take_int(in), take_int(in),
                           take_byte(in) < 0x80 ? &run->trace : NULL};
    size_t dims[SS_RANK_MAX], count = 1;
    ss_error err;
    int rank = ss_metric_shape(dims, &run->trace, metric, &args, &err);
    if (rank < 0) {
        check(err.code, &err);
        return;
    }
    for (int i = 0; i < rank; i++) count *= dims[i];
    float *out = malloc(count * sizeof *out);
    if (!out) abort();
    ss_metric_measure(&run->trace, metric, &args, out);
    free(out);
}

static void use_run(ss_run *run, input *in) {
    while (in->n) switch (take_byte(in) % 6) {
        case 0: extend(run, in); break;
        case 1: sample(run, in); break;
        case 2: read_view(run, in); break;
        case 3: measure(run, in); break;
        case 4: update(run, in); break;
        default: return;
        }
}

static ss_edit take_edit(input *in) {
    ss_edit edit = {.kind = take_int(in)};
    for (int i = 0; i < SS_EDIT_VALUES; i++) edit.values[i] = take_float(in);
    return edit;
}

/* Begins a run with options from the input; returns false if the core refuses them. The caller
 * frees the arena in any case. */
static bool begin(ss_run *run, ss_arena *arena, ss_run_desc *desc, input *in) {
    ss_edit edits[EDITS_MAX];
    desc->edits = edits;
    desc->capacity = take_int(in);
    uint8_t fields = take_byte(in);
    desc->fields = fields < 0x80 ? SS_FIELDS_ALL
                   : fields < 0xa0
                       ? SS_FIELDS_STREAMED | SS_STREAMS
                       : take_bits(in) & (SS_FIELDS_ALL | SS_STREAMS | SS_MEASURES | SS_SPECTRA);
    desc->edits_n = take_byte(in) % (EDITS_MAX + 1);
    for (int i = 0; i < desc->edits_n; i++) edits[i] = take_edit(in);
    ss_error err;
    size_t bytes;
    *arena = (ss_arena){0};
    ss_status status = ss_run_size(&bytes, desc, &err);
    check(status, &err);
    if (status != SS_OK || bytes > RUN_BYTES_MAX) return false;
    *arena = fuzz_arena(bytes);
    status = ss_run_init(run, desc, arena, &err);
    check(status, &err);
    if (status == SS_OK && arena->used != bytes) abort();
    return status == SS_OK;
}

static void use_run_from(const ss_run *source, input *in) {
    ss_run run;
    ss_arena arena;
    ss_run_desc desc = {
        .model = source->trace.model, .from = &source->trace, .layer = take_int(in) % 8};
    if (begin(&run, &arena, &desc, in)) {
        ss_error err;
        check(ss_run_extend(&run, ss_tokens(&source->trace), source->trace.T, &err), &err);
        use_run(&run, in);
    }
    free(arena.block);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    input in = {data, size};
    ss_run run;
    ss_arena arena;
    ss_run_desc desc = {.model = model_of(take_byte(&in) % MODELS)};
    if (begin(&run, &arena, &desc, &in)) {
        use_run(&run, &in);
        if (in.n) use_run_from(&run, &in);
    }
    free(arena.block);
    return 0;
}
