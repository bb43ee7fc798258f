#include "pool.h"

#include "sleep.h"

/* Number of times that a thread reads a word before it sleeps. Most pauses between jobs are shorter
 * than the time that waking takes. */
#define READS_BEFORE_SLEEP 4000
/* Number of seconds without progress after which the pool is lost; a piece takes milliseconds. */
#define PATIENCE_SECONDS 30

static bool do_piece(pool *p, size_t worker) {
    uint64_t ticket = atomic_load(&p->ticket);
    do {
        if (!(uint32_t)ticket) return false;
    } while (!atomic_compare_exchange_weak(&p->ticket, &ticket, ticket - 1));
    /* The job cannot change before this piece is done. */
    uint32_t pieces = p->pieces;
    p->piece(p->job, pieces - (uint32_t)ticket, worker);
    if (atomic_fetch_add(&p->done, 1) + 1 == pieces && atomic_load(&p->waits)) pool_wake(&p->done);
    return true;
}

static void wait_for_all(pool *p) {
    int silent = 0;
    for (int i = 0; i < READS_BEFORE_SLEEP; i++)
        if (atomic_load(&p->done) == p->pieces) return;
    atomic_store(&p->waits, true);
    for (uint32_t done; (done = atomic_load(&p->done)) < p->pieces;) {
        if (atomic_load(&p->broken) || silent == PATIENCE_SECONDS) pool_lost();
        silent = pool_sleep(&p->done, done) ? 0 : silent + 1;
    }
    atomic_store(&p->waits, false);
}

static void share(ss_pool *face, ss_piece *piece, const void *job, size_t n) {
    pool *p = (pool *)face;
    p->piece = piece;
    p->job = job;
    p->pieces = (uint32_t)n;
    atomic_store(&p->done, 0);
    uint32_t posted = atomic_load(&p->posted) + 1;
    atomic_store(&p->ticket, (uint64_t)posted << 32 | (uint32_t)n);
    atomic_store(&p->posted, posted);
    if (atomic_load(&p->asleep)) pool_wake(&p->posted);
    while (do_piece(p, 0)) continue;
    wait_for_all(p);
}

void pool_init(pool *p, size_t workers, uint64_t least) {
    *p = (pool){.face = {.workers = workers, .least = least, .share = share}};
}

void pool_help(pool *p, size_t worker) {
    while (!atomic_load(&p->closed)) {
        uint32_t posted = atomic_load(&p->posted);
        while (do_piece(p, worker)) continue;
        for (int i = 0; i < READS_BEFORE_SLEEP && atomic_load(&p->posted) == posted; i++) continue;
        if (atomic_load(&p->posted) != posted || atomic_load(&p->closed)) continue;
        atomic_fetch_add(&p->asleep, 1);
        pool_sleep(&p->posted, posted);
        atomic_fetch_sub(&p->asleep, 1);
    }
}

void pool_break(pool *p) {
    atomic_store(&p->broken, true);
    pool_wake(&p->done);
}

void pool_close(pool *p) {
    atomic_store(&p->closed, true);
    atomic_fetch_add(&p->posted, 1);
    pool_wake(&p->posted);
}
