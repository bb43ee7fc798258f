/*
 * The ABI: functions of handles, addresses and numbers. Each checks its arguments and calls the
 * core.
 *
 * JavaScript reserves a block, writes bytes into it and passes the address. Results come as views:
 * 12 words that JavaScript reads with one Uint32Array. A view lives until the next call. This file
 * owns the memory that the core does not: the blocks (malloc), one error, and the text of describe.
 */
#include "bindings.h"

#include <stdlib.h>
#include <string.h>

/* Types of views: two of ss_dtype, and bytes, which are UTF-8 text or a file. */
enum { VIEW_F32 = 0, VIEW_I32 = 1, VIEW_BYTES = 2 };

/* Upper bound of the files of a model; published models have far fewer shards. */
#define FILES_MAX 1024

/* Largest number of weights (16 MB of floats) of a model that keeps a packed copy, its panels. */
#define PANEL_WEIGHTS_MAX (1 << 22)

typedef struct wasm_model {
    void *block, *panels; /* panels may be NULL */
    ss_bytes *files;      /* [n] files, from which the model reads its weights */
    int files_n;
    bool interleaved; /* the weights are interleaved, so that products read them in one stream */
    ss_model model;
} wasm_model;

ss_error wasm_error;
ss_pool *wasm_pool;
static char text[SS_DESCRIBE_BYTES];

static uint32_t address_of(const void *pointer) {
    return (uint32_t)(uintptr_t)pointer;
}

int ss_wasm_abi_version(void) {
    return WASM_ABI_VERSION;
}

static void *reserve(size_t bytes) {
    if (bytes >= SIZE_MAX - SS_ARENA_ALIGN) return NULL;
    return aligned_alloc(SS_ARENA_ALIGN, (bytes / SS_ARENA_ALIGN + 1) * SS_ARENA_ALIGN);
}

/* Returns a block of that many bytes, or 0. */
uint32_t ss_wasm_reserve(uint32_t bytes) {
    return address_of(reserve(bytes));
}

void ss_wasm_release(uint32_t address) {
    free((void *)(uintptr_t)address);
}

/* Returns the last error: {u32 code; char where[96]; char text[768]}. */
uint32_t ss_wasm_error(void) {
    return address_of(&wasm_error);
}

int wasm_view_bytes(wasm_view *view, const void *data, size_t n) {
    *view = (wasm_view){.address = address_of(data), .type = VIEW_BYTES, .rank = 1};
    view->dims[0] = (uint32_t)n;
    view->strides[0] = 1;
    return SS_OK;
}

int ss_wasm_describe(wasm_view *view) {
    ss_status status = ss_describe(text, sizeof text, WASM_ABI_VERSION, &wasm_error);
    return status == SS_OK ? wasm_view_bytes(view, text, strlen(text)) : (int)status;
}

ss_arena wasm_reserve_arena(void **block, size_t bytes) {
    *block = reserve(bytes);
    if (*block) return ss_arena_on(*block, bytes);
    ss_fail(&wasm_error, SS_NO_MEMORY, "memory", "expected room for %lu more bytes",
            (unsigned long)bytes);
    return (ss_arena){.full = true};
}

void *wasm_new(size_t bytes) {
    void *handle = calloc(1, bytes);
    if (!handle) ss_fail(&wasm_error, SS_NO_MEMORY, "memory", "no room for a handle");
    return handle;
}

/* Interleaves the weights, which reads and writes all of them. Only runs need this, so the first
 * run does it and opening a model stays fast. */
static void interleave_weights(wasm_model *handle) {
    if (handle->interleaved) return;
    handle->interleaved = true;
    /* Tensors of PyTorch files may share memory, so they are not rearranged in place. */
    if (ss_container_format(handle->files[0]) == SS_TORCH_FILE) return;
    float *work = reserve(ss_model_interleave_work(&handle->model) * sizeof *work);
    if (work) ss_model_interleave(&handle->model, work);
    free(work);
}

/* Packs the weights of a small model into panels if there is memory for them. A model also runs
 * without panels, so this never fails. */
static void keep_panels(wasm_model *handle) {
    if (handle->model.parameters > PANEL_WEIGHTS_MAX) return;
    ss_arena arena = ss_arena_measure();
    ss_model_keep_panels(&handle->model, &arena);
    handle->panels = reserve(arena.used);
    if (!handle->panels) return;
    arena = ss_arena_on(handle->panels, arena.used);
    ss_model_keep_panels(&handle->model, &arena);
}

static ss_status open_weights(wasm_model *handle, const ss_arch *arch,
                              const ss_container *container) {
    size_t bytes;
    ss_status status = ss_model_size(&bytes, arch, container, &wasm_error);
    if (status != SS_OK) return status;
    ss_arena arena = wasm_reserve_arena(&handle->block, bytes);
    if (!handle->block) return SS_NO_MEMORY;
    status = ss_model_open(&handle->model, arch, container, &arena, &wasm_error);
    ss_choice choice;
    if (status == SS_OK) status = ss_operation_own(&choice, &handle->model, &wasm_error);
    if (status == SS_OK) keep_panels(handle);
    return status;
}

/* Reads the architecture. A GGUF file describes its model, so a config is ignored; the PyTorch file
 * of nanoGPT does where there is no config. */
static ss_status read_arch(ss_arch *arch, const wasm_model *handle, ss_bytes config) {
    ss_bytes file = handle->files[0];
    if (ss_container_format(file) == SS_GGUF) return ss_arch_read_gguf(arch, file, &wasm_error);
    if (config.n || ss_container_format(file) != SS_TORCH_FILE)
        return ss_arch_read(arch, config, &wasm_error);
    void *block;
    ss_arena arena = wasm_reserve_arena(&block, ss_container_size(&file, 1));
    if (!block) return SS_NO_MEMORY;
    ss_status status = ss_arch_read_nanogpt(arch, file, &arena, &wasm_error);
    free(block);
    return status;
}

static ss_status open_files(wasm_model *handle, ss_bytes config) {
    ss_arch arch;
    ss_status status = read_arch(&arch, handle, config);
    if (status != SS_OK) return status;
    void *block;
    ss_arena arena = wasm_reserve_arena(&block, ss_container_size(handle->files, handle->files_n));
    if (!block) return SS_NO_MEMORY;
    ss_container container;
    status = ss_container_open(&container, handle->files, handle->files_n, &arena, &wasm_error);
    if (status == SS_OK) status = open_weights(handle, &arch, &container);
    free(block);
    return status;
}

static void free_model(wasm_model *model) {
    if (model) {
        free(model->files);
        free(model->block);
        free(model->panels);
    }
    free(model);
}

void ss_wasm_close_model(wasm_model *model) {
    for (int i = 0; model && i < model->files_n; i++) free((void *)(uintptr_t)model->files[i].data);
    free_model(model);
}

static wasm_model *new_model(const wasm_file *files, int n) {
    if (n < 1 || n > FILES_MAX) {
        ss_fail(&wasm_error, SS_BAD_REQUEST, "weights", "expected 1 to %d files, found %d",
                FILES_MAX, n);
        return NULL;
    }
    wasm_model *model = wasm_new(sizeof *model);
    if (model) model->files = wasm_new((size_t)n * sizeof *model->files);
    if (!model || !model->files) {
        free(model);
        return NULL;
    }
    for (int i = 0; i < n; i++)
        model->files[i] =
            (ss_bytes){(const unsigned char *)(uintptr_t)files[i].address, files[i].bytes};
    model->files_n = n;
    return model;
}

/* Opens a model and returns its handle, or NULL. The model reads its weights in place: if a handle
 * is returned, the model owns the blocks of the files and releases them; with NULL the caller still
 * owns the blocks. The caller may free the config in both cases. */
wasm_model *ss_wasm_open(const uint8_t *config, uint32_t config_bytes, const wasm_file *files,
                         int n) {
    wasm_model *handle = new_model(files, n);
    if (handle && open_files(handle, (ss_bytes){config, config_bytes}) == SS_OK) return handle;
    free_model(handle);
    return NULL;
}

int ss_wasm_architecture(const wasm_model *model, wasm_view *view) {
    ss_status status = ss_describe_model(text, sizeof text, &model->model, &wasm_error);
    return status == SS_OK ? wasm_view_bytes(view, text, strlen(text)) : (int)status;
}

void ss_wasm_close_run(wasm_run *run) {
    if (run) {
        free(run->numbers);
        free(run->block);
    }
    free(run);
}

static ss_status start_run(wasm_run *run, const ss_run_desc *desc) {
    size_t bytes;
    ss_status status = ss_run_size(&bytes, desc, &wasm_error);
    if (status != SS_OK) return status;
    ss_arena arena = wasm_reserve_arena(&run->block, bytes);
    return run->block ? ss_run_init(&run->run, desc, &arena, &wasm_error) : SS_NO_MEMORY;
}

static ss_run_desc run_desc(const wasm_model *model, int capacity, uint32_t fields,
                            uint32_t map_bytes, const ss_edit *edits, int edits_n) {
    return (ss_run_desc){.model = &model->model,
                         .capacity = capacity,
                         .fields = fields,
                         .edits = edits,
                         .edits_n = edits_n > 0 ? edits_n : 0,
                         .pool = wasm_pool,
                         .map_bytes = map_bytes};
}

/* Returns the bytes that a run with these settings takes; 0 if it cannot be started. */
uint32_t ss_wasm_run_bytes(const wasm_model *model, int capacity, uint32_t fields,
                           uint32_t map_bytes, const ss_edit *edits, int edits_n) {
    size_t bytes;
    ss_run_desc desc = run_desc(model, capacity, fields, map_bytes, edits, edits_n);
    return ss_run_size(&bytes, &desc, &wasm_error) == SS_OK ? (uint32_t)bytes : 0;
}

/* Starts a run and returns its handle, or NULL. Bit i of fields records row i of the trace table,
 * bit 31 streams, bit 30 measures. Maps of more than map_bytes are computed on demand; 0 is the
 * core's default. edits[n] have the layout of the core: {i32 kind; f32 values[SS_EDIT_VALUES]}.
 * `from`, or NULL, is the run whose first `layer` layers are copied. The model must stay open; its
 * first run interleaves the weights. */
wasm_run *ss_wasm_start(wasm_model *model, int capacity, uint32_t fields, uint32_t map_bytes,
                        const ss_edit *edits, int edits_n, const wasm_run *from, int layer) {
    wasm_run *run = wasm_new(sizeof *run);
    ss_run_desc desc = run_desc(model, capacity, fields, map_bytes, edits, edits_n);
    desc.from = from ? &from->run.trace : NULL;
    desc.layer = layer;
    if (run) interleave_weights(model);
    if (run && start_run(run, &desc) == SS_OK) return run;
    ss_wasm_close_run(run);
    return NULL;
}

int ss_wasm_extend(wasm_run *run, const int32_t *tokens, int n) {
    return (int)ss_run_extend(&run->run, tokens, n, &wasm_error);
}

/* Begins to append tokens; ss_wasm_step computes a piece and returns how many remain. */
int ss_wasm_begin(wasm_run *run, const int32_t *tokens, int n) {
    return (int)ss_run_begin(&run->run, tokens, n, &wasm_error);
}

/* Begins to update the run to tokens[n]; each ss_wasm_step then computes a piece. */
int ss_wasm_update(wasm_run *run, const int32_t *tokens, int n) {
    return (int)ss_run_begin_update(&run->run, tokens, n, &wasm_error);
}

int ss_wasm_step(wasm_run *run) {
    return ss_run_step(&run->run);
}

/* Samples the next token, or returns -1; random has 32 uniform bits. */
int ss_wasm_sample(const wasm_run *run, float temperature, int top_k, uint32_t random) {
    return ss_run_sample(&run->run, temperature, top_k, random);
}

int wasm_view_tensor(wasm_view *view, const ss_tensor *tensor) {
    *view = (wasm_view){.address = address_of(tensor->data),
                        .type = tensor->type == SS_I32 ? VIEW_I32 : VIEW_F32,
                        .rank = (uint32_t)tensor->rank};
    for (int i = 0; i < tensor->rank; i++) {
        view->dims[i] = (uint32_t)tensor->dims[i];
        view->strides[i] = (uint32_t)tensor->strides[i];
    }
    return SS_OK;
}

ss_tensor wasm_dense(size_t dims[SS_RANK_MAX], int rank) {
    ss_tensor tensor = {.type = SS_F32, .rank = rank};
    size_t stride = 1;
    for (int i = rank; i-- > 0; stride *= dims[i]) {
        tensor.dims[i] = dims[i];
        tensor.strides[i] = stride;
    }
    return tensor;
}

/* Returns the number of elements of a shape, as a double, since it may overflow a size. */
static double count_of(const size_t dims[SS_RANK_MAX], int rank) {
    double count = 1;
    for (int i = 0; i < rank; i++) count *= (double)dims[i];
    return count;
}

/* Computes the number of bytes of a shape, at least of one element; returns false on overflow. */
static bool compute_bytes(size_t *bytes, const size_t dims[SS_RANK_MAX], int rank) {
    *bytes = sizeof(float);
    for (int i = 0; i < rank; i++)
        if (!ss_mul_size(bytes, *bytes, dims[i] ? dims[i] : 1)) return false;
    return true;
}

/* Reserves a tensor, valid until the run's next metric or computed map. Returns a status. */
static int reserve_numbers(wasm_run *run, ss_tensor *tensor, size_t dims[SS_RANK_MAX], int rank,
                           const char *name, int tokens) {
    size_t bytes;
    float *numbers = NULL;
    *tensor = wasm_dense(dims, rank);
    if (compute_bytes(&bytes, dims, rank)) numbers = realloc(run->numbers, bytes);
    if (!numbers)
        return (int)ss_fail(&wasm_error, SS_NO_MEMORY, name,
                            "expected room for %.0f numbers (%d tokens)", count_of(dims, rank),
                            tokens);
    run->numbers = numbers;
    tensor->data = numbers;
    return SS_OK;
}

/* Rows [t, t+n) of maps, or blocks of `block` tokens, of a layer and head; -1 means all. */
typedef struct map_request {
    ss_field_id field;
    int layer, head, t, n, block;
} map_request;

static ss_status read_maps(wasm_run *run, const map_request *request, float *out, size_t cells) {
    const ss_arch *arch = &run->run.trace.model->arch;
    int layers = request->layer < 0 ? arch->L : 1, heads = request->head < 0 ? arch->H : 1;
    ss_status status = SS_OK;
    for (int i = 0; i < layers * heads && status == SS_OK; i++, out += cells) {
        int l = request->layer < 0 ? i / heads : request->layer,
            h = request->head < 0 ? i % heads : request->head;
        status = request->block ? ss_run_pooled(&run->run, request->field, l, h, request->block,
                                                out, &wasm_error)
                                : ss_run_attention(&run->run, request->field, l, h, request->t,
                                                   request->n, out, &wasm_error);
    }
    return status;
}

static int view_maps(wasm_run *run, const map_request *request, size_t rows, size_t columns,
                     wasm_view *view) {
    const ss_trace *trace = &run->run.trace;
    size_t dims[SS_RANK_MAX];
    int rank = 0;
    ss_tensor tensor;
    if (request->layer < 0) dims[rank++] = (size_t)trace->model->arch.L;
    if (request->head < 0) dims[rank++] = (size_t)trace->model->arch.H;
    dims[rank++] = rows;
    dims[rank++] = columns;
    int status =
        reserve_numbers(run, &tensor, dims, rank, ss_fields()[request->field].name, trace->T);
    if (status == SS_OK) status = (int)read_maps(run, request, run->numbers, rows * columns);
    return status == SS_OK ? wasm_view_tensor(view, &tensor) : status;
}

/* Makes a view of rows [t, t+n) of a recorded field; n < 0 means all rows, and layer or head -1
 * keeps that dimension. Computed maps live until the run's next metric. Returns a status. */
int ss_wasm_field(wasm_run *run, int field, int layer, int head, int t, int n, wasm_view *view) {
    const ss_trace *trace = &run->run.trace;
    ss_tensor tensor;
    ss_status status = SS_OK;
    if (field >= 0 && field < SS_FIELD_N && trace->computed_fields & SS_BIT(field)) {
        map_request request = {(ss_field_id)field,   layer, head, n < 0 ? 0 : t,
                               n < 0 ? trace->T : n, 0};
        status = ss_trace_check_rows(trace, field, request.t, request.n, &wasm_error);
        if (status != SS_OK) return (int)status;
        return view_maps(run, &request, (size_t)request.n, (size_t)trace->T, view);
    }
    status = ss_trace_view_rows(&tensor, trace, field, layer, head, t, n, &wasm_error);
    return status == SS_OK ? wasm_view_tensor(view, &tensor) : (int)status;
}

/* Makes a view of maps pooled into P = ceil(T / block) blocks per side: [.., 2P, P], first the
 * means of the blocks, then their largest cells. Returns a status. */
int ss_wasm_blocks(wasm_run *run, int field, int layer, int head, int block, wasm_view *view) {
    map_request request = {(ss_field_id)field, layer, head, 0, 0, block};
    if (!(field >= 0 && field < SS_FIELD_N && SS_FIELDS_MAPS & SS_BIT(field)))
        return (int)ss_fail(&wasm_error, SS_BAD_REQUEST, "field", "expected a map, found %d",
                            field);
    if (block < 1 || block > run->run.trace.T)
        return (int)ss_fail(&wasm_error, SS_BAD_REQUEST, ss_fields()[field].name,
                            "expected blocks of 1 to %d tokens, found %d", run->run.trace.T, block);
    size_t P = (size_t)ss_blocks_of(&run->run.trace, block);
    return view_maps(run, &request, 2 * P, P, view);
}

/* Measures a metric. tokens 0 means all tokens of the run; base is the run to compare with, or
 * NULL. The view is valid until the run's next metric or computed map. Returns a status. */
int ss_wasm_metric(wasm_run *run, int metric, float eps, int tokens, int layer, int head,
                   const wasm_run *base, wasm_view *view) {
    const ss_trace *trace = &run->run.trace;
    ss_metric_args args = {eps, tokens ? tokens : trace->T, layer, head,
                           base ? &base->run.trace : NULL};
    size_t dims[SS_RANK_MAX];
    int rank = ss_metric_shape(dims, trace, metric, &args, &wasm_error);
    if (rank < 0) return (int)wasm_error.code;
    ss_tensor tensor;
    int status = reserve_numbers(run, &tensor, dims, rank, ss_metrics(NULL)[metric].name, args.T);
    if (status != SS_OK) return status;
    ss_metric_measure(trace, metric, &args, run->numbers);
    return wasm_view_tensor(view, &tensor);
}
