/*
 * Threads: a run has the same bits with any number of them. Every model of the goldens runs on the
 * pool of the wasm build (wasm/abi/pool.c) with pthreads; tests/run native also builds this file
 * with -fsanitize=thread.
 */
#define _POSIX_C_SOURCE 200809L /* nanosleep */

#include "../../wasm/abi/pool.c"
#include "goldens.h"
#include "edit_lists.h"

#include <dirent.h>
#include <pthread.h>
#include <setjmp.h>
#include <time.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wake_signal = PTHREAD_COND_INITIALIZER;

bool pool_sleep(_Atomic uint32_t *word, uint32_t value) {
    pthread_mutex_lock(&lock);
    while (atomic_load(word) == value) pthread_cond_wait(&wake_signal, &lock);
    pthread_mutex_unlock(&lock);
    return true;
}

void pool_wake(_Atomic uint32_t *word) {
    (void)word;
    pthread_mutex_lock(&lock);
    pthread_cond_broadcast(&wake_signal);
    pthread_mutex_unlock(&lock);
}

static jmp_buf before_abort;

_Noreturn void pool_abort(void) {
    longjmp(before_abort, 1);
}

typedef struct helper {
    pthread_t thread;
    pool *pool;
    size_t worker;
} helper;

typedef struct thread_pool {
    pool pool;
    helper helpers[SS_WORKERS_MAX];
} thread_pool;

static void *help(void *context) {
    helper *self = context;
    pool_help(self->pool, self->worker);
    return NULL;
}

static void start(thread_pool *c, size_t workers) {
    pool_init(&c->pool, workers, 0);
    for (size_t worker = 1; worker < workers; worker++) {
        c->helpers[worker] = (helper){.pool = &c->pool, .worker = worker};
        if (pthread_create(&c->helpers[worker].thread, NULL, help, &c->helpers[worker])) abort();
    }
}

static void join(thread_pool *c) {
    pool_close(&c->pool);
    for (size_t worker = 1; worker < c->pool.base.workers; worker++)
        pthread_join(c->helpers[worker].thread, NULL);
}

/* Runs the pieces on one thread in reverse order, each as another worker. */
static void share_backwards(ss_pool *base, ss_piece *piece, const void *job, size_t n) {
    while (n-- > 0) piece(job, n, n % base->workers);
}

enum { PIECES = 40, JOBS = 300 };

typedef struct piece_counts {
    int *times;      /* [PIECES] number of times that each piece was done */
    int *inside;     /* [SS_WORKERS_MAX] number of pieces that run on each worker now */
    int *max_inside; /* [SS_WORKERS_MAX] maximum of inside[] */
} piece_counts;

/* Counts a piece. The counters are not atomic, so that ThreadSanitizer detects two pieces on one
 * worker, and a piece that is done twice. */
static void count(const void *job, size_t i, size_t worker) {
    const piece_counts *c = job;
    if (++c->inside[worker] > c->max_inside[worker]) c->max_inside[worker] = c->inside[worker];
    c->times[i]++;
    c->inside[worker]--;
}

static void check_jobs(size_t workers) {
    thread_pool c;
    int times[PIECES] = {0}, inside[SS_WORKERS_MAX] = {0}, max_inside[SS_WORKERS_MAX] = {0};
    piece_counts job = {times, inside, max_inside};
    start(&c, workers);
    for (int i = 0; i < JOBS; i++) {
        /* Pauses let helpers fall asleep. */
        if (i % 60 == 0) nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
        ss_pool_run(&c.pool.base, count, &job, PIECES, 0);
        for (int piece = 0; piece < PIECES; piece++) CHECK_INT(times[piece], i + 1);
    }
    c.pool.base.min_work = 9;
    times[0] = 0;
    ss_pool_run(&c.pool.base, count, &job, 1, 100);
    CHECK_INT(times[0], 1);
    join(&c);
    for (size_t worker = 0; worker < SS_WORKERS_MAX; worker++)
        CHECK(max_inside[worker] <= (worker < workers));
}

/* Ends the thread of a helper in the middle of a piece; the main thread waits in its own piece
 * until then. */
static void leave_pool(const void *job, size_t i, size_t worker) {
    (void)i;
    thread_pool *c = (thread_pool *)(size_t)job;
    while (worker == 0 && !atomic_load(&c->pool.broken)) continue;
    if (worker == 0) return;
    pool_break(&c->pool);
    pthread_exit(NULL);
}

static void check_lost_helper(void) {
    static thread_pool c;
    volatile bool is_reported = false;
    start(&c, 2);
    if (setjmp(before_abort))
        is_reported = true;
    else
        ss_pool_run(&c.pool.base, leave_pool, &c, 2, 0);
    CHECK(is_reported);
    join(&c);
}

/* Runs the tokens in two halves, the second one token at a time, like a prompt and generated
 * tokens. */
static opened_run run_halves(const ss_model *model, const int32_t *tokens, int T,
                             ss_pool *threads) {
    const ss_arch *arch = &model->arch;
    bool needs_all_tokens =
        arch->prefix > 0; /* a prefix sees later tokens, so its run needs all tokens at once */
    ss_run_desc desc = {.model = model, .capacity = T, .fields = SS_FIELDS_ALL, .pool = threads};
    opened_run opened = open_run(&desc);
    int first = needs_all_tokens ? T : T / 2 + 1;
    extend_run(&opened, tokens, first);
    for (int t = first; t < T; t++) extend_run(&opened, tokens + t, 1);
    CHECK(opened.arena.used <= opened.arena.bytes);
    return opened;
}

static void check_shared_run(const opened_run *reference, const int32_t *tokens, ss_pool *threads) {
    const ss_trace *trace = &reference->run.trace;
    scoped_run shared_run = run_halves(trace->model, tokens, trace->T, threads);
    check_runs(trace, &shared_run.run.trace, trace->T);
}

static void check_case(const char *name, const char *folder) {
    CASE(name);
    int T;
    scoped_file file = open_file(folder, "golden.safetensors");
    scoped_model model = open_model(folder);
    scoped int32_t *tokens = golden_tokens(&file, &T);
    scoped_run reference = run_halves(&model.model, tokens, T, NULL);
    size_t least_workers = 5;
#ifndef __SANITIZE_THREAD__ /* one thread has no races, and two have those of five */
    ss_pool reversed_pool = {.workers = 3, .share = share_backwards};
    check_shared_run(&reference, tokens, &reversed_pool);
    least_workers = 2;
#endif
    for (size_t workers = least_workers; workers <= 5; workers += 3) {
        thread_pool c;
        start(&c, workers);
        check_shared_run(&reference, tokens, &c.pool.base);
        join(&c);
    }
}

/* The sanitizers, under which a case takes ten times as long, see every third one. */
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
#define EVERY 3
#else
#define EVERY 1
#endif

static long shared_jobs;

static void share_and_count(ss_pool *base, ss_piece *piece, const void *job, size_t n) {
    shared_jobs++;
    share_backwards(base, piece, job, n);
}

/* Returns how many jobs are shared in a run of one chunk, under an edit or, with NULL, without. */
static long count_jobs(const ss_model *model, const char *text) {
    static const int32_t tokens[] = {3, 1, 4, 1, 5, 9, 2, 6};
    ss_pool counting_pool = {.workers = 3, .share = share_and_count};
    ss_edit edit = read_edit(text);
    ss_run_desc desc = {
        .model = model, .capacity = 8, .edits = &edit, .edits_n = 1, .pool = &counting_pool};
    scoped_run run = open_run(&desc);
    shared_jobs = 0;
    extend_run(&run, tokens, 8);
    return shared_jobs;
}

static void check_independent_heads(void) {
    CASE("heads that share a buffer of the pass stay on one thread: under edits of one query, and "
         "with MLP feature maps");
    int edits_n;
    const ss_edit_kind *table = ss_edits(&edits_n);
    opened_model model = open_model("tests/golden/var-mlp_kernel");
    const char *no_change = "operation(operation=softmax)";
    long jobs_n = count_jobs(&model.model, no_change);
    int L = model.model.arch.L;
    CHECK(jobs_n > L);
    CHECK_INT(count_jobs(&model.model, "operation(operation=mlp_kernel)"), jobs_n - L);
    CHECK_INT(count_jobs(&model.model, "operation(operation=softmax,layer=0)"), jobs_n - L + 1);
    CHECK_INT(count_jobs(&model.model, "operation(operation=softmax,head=0)"), jobs_n - L);
    close_model(&model);
    model = open_model("tests/golden/hf-llama-gqa");
    jobs_n = count_jobs(&model.model, no_change);
    L = model.model.arch.L;
    pins choices = choice_pins();
    for (int i = 0; i < choices.n; i++) {
        ss_edit edit;
        ss_error err;
        char text[256];
        uint32_t state = (uint32_t)i + 5;
        ss_run_desc desc = {.model = &model.model, .capacity = 8, .edits = &edit, .edits_n = 1};
        do {
            write_edit(text, sizeof text, choices.pins[i].row, &choices.pins[i], 1, 8, &state);
            edit = read_edit(text);
        } while (try_run(&desc, &err) != SS_OK);
        unsigned hook_points = table[choices.pins[i].row].hook_points;
        bool are_independent = !(hook_points & (SS_AT_MASK | SS_AT_SCORES | SS_AT_WEIGHTS));
        if (!strcmp(table[choices.pins[i].row].name, "operation")) continue;
        CHECK_INT(count_jobs(&model.model, text), are_independent ? jobs_n : jobs_n - L);
    }
    close_model(&model);
}

int main(void) {
    int cases = 0;
    check_independent_heads();
    CASE("each piece of each job is done once, and a worker does one piece at a time");
    for (size_t workers = 1; workers <= 5; workers++) check_jobs(workers);
    CASE("a thread that ends in the middle of a piece is reported");
    check_lost_helper();
    DIR *folders = opendir("tests/golden");
    for (struct dirent *entry; folders && (entry = readdir(folders));) {
        char folder[272];
        snprintf(folder, sizeof folder, "tests/golden/%s", entry->d_name);
        if (*entry->d_name == '.' || !has_file(folder, weights_name(folder))) continue;
        if (cases++ % EVERY == 0) check_case(entry->d_name, folder);
    }
    if (folders) closedir(folders);
    CHECK(cases > 20);
    printf("%d cases\n", cases);
    return check_done();
}
