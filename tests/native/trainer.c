/*
 * trainer CONFIG.json RECIPE.json [OUT.safetensors] trains a model and prints the log, one JSON
 * object per step.
 */
#include "files.h"
#include "steps.h"

#include <time.h>

static void print(const ss_log_entry *entry) {
    int n;
    const ss_log_column *columns = ss_log_columns(&n);
    for (int i = 0; i < n; i++)
        printf("%s\"%s\": %.9g", i ? ", " : "{", columns[i].name,
               *ss_log_number(entry, &columns[i]));
    printf("}\n");
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    ss_error err;
    ss_arch arch;
    ss_recipe recipe;
    must(ss_arch_read(&arch, read_file("/", argv[1]), &err), &err, argv[1]);
    must(ss_recipe_read(&recipe, read_file("/", argv[2]), &err), &err, argv[2]);
    ss_train_desc desc = {.arch = &arch, .recipe = &recipe};
    size_t bytes;
    must(ss_train_size(&bytes, &desc, &err), &err, "size");
    ss_arena arena = arena_of(bytes);
    ss_train *train = malloc(sizeof *train);
    must(ss_train_init(train, &desc, &arena, &err), &err, "init");
    if (arena.used > bytes) return 3;
    fprintf(stderr, "%zu bytes, %zu used, %zu numbers\n", bytes, arena.used, train->weights.n);
    ss_log_entry entry;
    clock_t start = clock();
    while (train->step < (int)recipe.steps) {
        must(train_step(train, &entry, &err), &err, "step");
        if ((int)entry.step % 50 == 0) print(&entry);
    }
    must(measure_weights(train, &entry, &err), &err, "look");
    print(&entry);
    double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
    double work = 6.0 * (double)train->weights.n * recipe.batch * recipe.length * recipe.steps;
    fprintf(stderr, "%.2f s, %.2f GFLOP/s\n", seconds, work / seconds / 1e9);
    if (argc > 3) {
        FILE *file = fopen(argv[3], "wb");
        fwrite(train->weights.file.data, 1, train->weights.file.n, file);
        fclose(file);
    }
    free(arena.block);
    free(train);
    return 0;
}
