/*
 * dump MODEL_FOLDER OUT_FILE [-e NAME(key=value,key=value)]... TOKEN...
 *
 * Runs tokens through a model and writes every recorded field, then every metric, as raw
 * little-endian numbers one after the other. A metric of one head is measured in the last head of
 * the last layer; a metric that compares two runs compares with the unedited run. Standard output
 * gets a line for each field and metric: kind, name, number of elements. The wasm builds must write
 * the same bytes.
 */
#include "edits.h"
#include "files.h"

static void dump_field(const ss_trace *trace, int field, FILE *out) {
    ss_tensor view;
    ss_error err;
    must(ss_trace_view(&view, trace, field, -1, -1, &err), &err, "field");
    size_t dims[4] = {1, 1, 1, 1}, strides[4] = {0}, count = ss_tensor_count(&view);
    for (int i = 0; i < view.rank; i++) {
        dims[4 - view.rank + i] = view.dims[i];
        strides[4 - view.rank + i] = view.strides[i];
    }
    const char *data = view.data;
    for (size_t a = 0; a < dims[0]; a++)
        for (size_t b = 0; b < dims[1]; b++)
            for (size_t c = 0; c < dims[2]; c++)
                for (size_t d = 0; d < dims[3]; d++)
                    fwrite(data + 4 * (a * strides[0] + b * strides[1] + c * strides[2] +
                                       d * strides[3]),
                           4, 1, out);
    printf("field %s %lu\n", ss_fields()[field].name, (unsigned long)count);
}

static void dump_metric(const ss_trace *trace, const ss_trace *base, const char *name, FILE *out) {
    const ss_arch *arch = &trace->model->arch;
    size_t count;
    ss_metric_args args = {SS_EPS_STANDARD, trace->T, arch->L - 1, arch->H - 1, base};
    float *numbers = measure_args(trace, name, args, &count);
    fwrite(numbers, sizeof *numbers, count, out);
    printf("metric %s %lu\n", name, (unsigned long)count);
    free(numbers);
}

int main(int argc, char **argv) {
    if (argc < 4) {
        printf("usage: dump MODEL_FOLDER OUT_FILE [-e EDIT]... TOKEN...\n");
        return 2;
    }
    int first = 3, edits_n = 0, metrics;
    ss_edit edits[16];
    for (; first + 1 < argc && !strcmp(argv[first], "-e") && edits_n < 16; first += 2)
        edits[edits_n++] = read_edit(argv[first + 1]);
    int T = argc - first;
    int32_t *tokens = malloc((size_t)argc * sizeof *tokens);
    for (int t = 0; tokens && t < T; t++) tokens[t] = (int32_t)strtol(argv[first + t], NULL, 10);

    opened_model model = open_model(argv[1]);
    opened_run run = run_tokens(&model.model, tokens, T, edits, edits_n);
    opened_run baseline = run_tokens(&model.model, tokens, T, NULL, 0);
    FILE *out = fopen(argv[2], "wb");
    if (!out) return 2;
    for (int field = 0; field < SS_FIELD_N; field++)
        if (run.run.trace.fields & SS_BIT(field)) dump_field(&run.run.trace, field, out);
    const ss_metric *rows = ss_metrics(&metrics);
    for (int i = 0; i < metrics; i++)
        dump_metric(&run.run.trace, &baseline.run.trace, rows[i].name, out);
    fclose(out);
    close_run(&baseline);
    close_run(&run);
    close_model(&model);
    free(tokens);
    return 0;
}
