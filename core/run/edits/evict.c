/*
 * A cache that keeps `budget` keys for each query head: which keys it evicts, and at which
 * positions a query sees the remaining ones.
 *
 * The key of query t enters the cache before that query attends. Keys over the budget are then
 * evicted for good, the lowest eviction score first; scores count the queries before t only, so
 * that a prompt in one chunk and the same tokens one at a time give the same result. Each query
 * head decides for itself, even if heads share keys; a streaming run drops the keys that no head of
 * a group keeps.
 */
#include "evict.h"

#include "../../math/kernels.h"
#include "../../math/scalar.h"
#include "hook.h"
#include "../maps.h"
#include "random.h"
#include "rows.h"

#include <limits.h>
#include <math.h>
#include <string.h>

enum { WINDOW, FIRST, H2O, TOVA, LRU, SNAPKV, KEY_NORM, VATP, RANDOM };
enum { IN_TEXT, IN_CACHE };

/* The edit's values, in the order of its parameters in table.c. */
typedef struct eviction {
    int policy, budget, first, recent, positions, prompt, queries, pool, seed;
    float layer, head; /* NaN: all */
} eviction;

static eviction read_eviction(const float *v) {
    return (eviction){(int)v[0], (int)v[1], (int)v[2], (int)v[3], (int)v[4], (int)v[5],
                      (int)v[6], (int)v[7], (int)v[8], v[9],      v[10]};
}

typedef struct head_cache {
    float *score, *score_factor; /* [S] factors whose product is the eviction score */
    float *evicted;              /* [S] field `evicted` of the trace: NaN for a kept key */
} head_cache;

static head_cache cache_of(const ss_pass *pass, int a, int h) {
    const ss_trace *trace = pass->trace;
    int head = a * trace->model->arch.H + h;
    size_t offset = (size_t)head * (size_t)trace->slots;
    return (head_cache){pass->cache.score + offset, pass->cache.score_factor + offset,
                        ss_row(trace, SS_FIELD_EVICTED, head, 0)};
}

bool ss_is_eviction(const ss_edit_kind *kind) {
    return kind->apply == ss_apply_evict;
}

bool ss_evict_moves_keys(const float *values) {
    return read_eviction(values).positions == IN_CACHE;
}

static int heads_per_key(const ss_arch *arch) {
    int heads_max = 1;
    for (int a = 0; a < arch->L; a++) {
        int group_heads = arch->H / ss_arch_sizes(arch, a).G;
        heads_max = group_heads > heads_max ? group_heads : heads_max;
    }
    return heads_max;
}

/* There is no bound for snapkv, which keeps all keys after the prompt. If the policy evicts by age,
 * all heads of a group keep the same keys. */
int ss_eviction_key_bound(const float *values, const ss_arch *arch) {
    eviction e = read_eviction(values);
    bool agrees_in_group = e.policy == WINDOW || e.policy == FIRST;
    if (e.policy == SNAPKV || !isnan(e.layer) || !isnan(e.head)) return 0;
    double key_bound = (double)e.budget * (agrees_in_group ? 1 : heads_per_key(arch));
    return key_bound < INT_MAX ? (int)key_bound : INT_MAX;
}

/* Returns the number of first tokens before an eviction: no key is evicted before a query has more
 * keys than the budget. */
int ss_idle_tokens_evict(const float *values) {
    eviction e = read_eviction(values);
    return e.policy == SNAPKV ? e.prompt : e.budget;
}

bool ss_evict_is_endless(const float *values, const ss_arch *arch) {
    return ss_evict_moves_keys(values) && arch->positions == SS_POSITIONS_ROTARY &&
           ss_eviction_key_bound(values, arch) && read_eviction(values).budget <= arch->context;
}

static bool scopes_overlap(float a, float b) {
    return isnan(a) || isnan(b) || a == b;
}

static ss_status check_scope(const ss_pass *pass, const float *values, const char *where,
                             ss_error *err) {
    eviction eviction_a = read_eviction(values);
    for (const ss_edit *edit = pass->edits; edit->values != values; edit++) {
        if (!ss_is_eviction(&pass->edit_kinds[edit->kind])) continue;
        eviction eviction_b = read_eviction(edit->values);
        if (scopes_overlap(eviction_a.layer, eviction_b.layer) &&
            scopes_overlap(eviction_a.head, eviction_b.head))
            return ss_fail(err, SS_BAD_REQUEST, where,
                           "expected one eviction for a head, found two");
    }
    return SS_OK;
}

/* Checks that the model allows keys to move: its scores depend on positions only through the
 * distance of a key from the query. */
static ss_status check_positions(const ss_pass *pass, const char *where, ss_error *err) {
    const ss_arch *arch = &pass->trace->model->arch;
    if (arch->positions == SS_POSITIONS_LEARNED || arch->positions == SS_POSITIONS_SINUSOID)
        return ss_fail(err, SS_UNSUPPORTED, where,
                       "expected a model whose keys have no positions in them, found %s",
                       ss_positions_name(arch->positions));
    for (int i = 0; i < arch->L * arch->H; i++)
        if (pass->trace->choices[i].operation->feature != SS_FEATURE_NONE)
            return ss_fail(err, SS_UNSUPPORTED, where,
                           "expected heads that multiply queries and keys as they are, found %s",
                           pass->trace->choices[i].operation->name);
    return SS_OK;
}

ss_status ss_check_evict(const ss_pass *pass, const float *values, const char *where,
                         ss_error *err) {
    eviction e = read_eviction(values);
    int policy = e.policy, budget_min = e.first + (e.recent > 1 ? e.recent : 1);
    if (budget_min > e.budget)
        return ss_fail(err, SS_BAD_REQUEST, where,
                       "expected a budget of %d or more for the first and recent keys, found %d",
                       budget_min, e.budget);
    if (policy == WINDOW && e.first > 0)
        return ss_fail(err, SS_BAD_REQUEST, where,
                       "expected first keys with the policy first only, found %d", e.first);
    if (policy == FIRST && e.first < 1)
        return ss_fail(err, SS_BAD_REQUEST, where, "expected 1 or more first keys, found none");
    if (policy == SNAPKV && (e.first + e.queries > e.budget || e.queries > e.prompt))
        return ss_fail(err, SS_BAD_REQUEST, where,
                       "expected a prompt and a budget that hold the queries; "
                       "found %d tokens, %d queries, a budget of %d",
                       e.prompt, e.queries, e.budget);
    if (policy == SNAPKV && e.pool % 2 == 0)
        return ss_fail(err, SS_BAD_REQUEST, where, "expected an odd pool, found %d", e.pool);
    ss_status status = check_scope(pass, values, where, err);
    if (status == SS_OK && e.positions == IN_CACHE) status = check_positions(pass, where, err);
    return status;
}

static void add_key(const ss_hook *hook, const eviction *e, const head_cache *cache) {
    const ss_trace *trace = hook->pass->trace;
    const ss_arch *arch = &trace->model->arch;
    int slot = hook->query_slot, group = hook->a * arch->G + ss_arch_group(arch, hook->a, hook->h);
    size_t K = (size_t)arch->K, U = (size_t)arch->U;
    cache->score[slot] = e->policy == LRU ? (float)hook->t : 0.0f;
    cache->score_factor[slot] = 1.0f;
    if (e->policy == KEY_NORM) {
        const float *k = ss_row(trace, SS_FIELD_K, group, slot);
        cache->score[slot] = -sqrtf(ss_dot(k, k, K));
    }
    if (e->policy == VATP) {
        const float *v = ss_row(trace, SS_FIELD_V, group, slot);
        cache->score_factor[slot] = 0.0f;
        for (size_t i = 0; i < U; i++) cache->score_factor[slot] += fabsf(v[i]);
    }
    if (e->policy == RANDOM)
        cache->score[slot] = ss_edit_random(
            (uint32_t)e->seed, (uint32_t)(hook->a * arch->H + hook->h), (uint32_t)hook->t);
}

static bool uses_weights(const eviction *e) {
    int policy = e->policy;
    return policy == H2O || policy == VATP || policy == TOVA || policy == LRU || policy == SNAPKV;
}

float ss_even_share(const float *row, size_t keys) {
    float sum = 0.0f, n = 0.0f;
    for (size_t j = 0; j < keys; j++) {
        sum += fabsf(row[j]);
        n += row[j] != 0.0f;
    }
    return n > 0.0f ? sum / n : 0.0f;
}

static void add_weights(const ss_hook *hook, const eviction *e, const head_cache *cache) {
    int policy = e->policy, t = hook->t;
    bool is_last_of_prompt = t < e->prompt && t >= e->prompt - e->queries;
    if (!uses_weights(e) || (policy == SNAPKV && !is_last_of_prompt)) return;
    float even_share = policy == LRU ? ss_even_share(hook->rows, hook->keys) : 0.0f;
    for (size_t j = 0; j < hook->keys; j++) {
        float weight = fabsf(hook->rows[j]);
        if (policy == LRU)
            cache->score[j] = weight > even_share ? (float)t : cache->score[j];
        else
            cache->score[j] = policy == TOVA ? weight : cache->score[j] + weight;
    }
}

void ss_evict_reset(ss_pass *pass) {
    const ss_arch *arch = &pass->trace->model->arch;
    float *evicted = ss_floats(pass->trace, SS_FIELD_EVICTED);
    size_t cells = (size_t)arch->L * (size_t)arch->H * (size_t)pass->trace->slots;
    size_t groups = (size_t)arch->L * (size_t)arch->G;
    for (size_t i = 0; evicted && i < cells; i++) evicted[i] = NAN;
    if (pass->cache.filled_slots)
        memset(pass->cache.filled_slots, 0, groups * sizeof *pass->cache.filled_slots);
}

typedef struct replay {
    ss_hook query;
    const eviction *e;
    head_cache cache;
} replay;

static void set_query(ss_hook *query, int t) {
    query->t = query->query_slot = t;
    query->keys = (size_t)t + 1;
}

static void replay_weights(void *context, int t, int n, const float *x, size_t stride) {
    replay *state = context;
    for (int r = 0; r < n; r++) {
        set_query(&state->query, t + r);
        state->query.rows = (float *)(uintptr_t)(x + (size_t)r * stride);
        add_weights(&state->query, state->e, &state->cache);
    }
}

void ss_evict_replay(ss_pass *pass, const float *values, const ss_trace *source, int p) {
    eviction e = read_eviction(values);
    const ss_arch *arch = &source->model->arch;
    int H = arch->H;
    ss_map_link(source);
    for (int head = 0; head < arch->L * H; head++) {
        int a = head / H;
        replay state = {{.pass = pass, .l = arch->layers[a], .a = a, .h = head % H},
                        &e,
                        cache_of(pass, a, head % H)};
        if (!ss_edit_selects(e.layer, state.query.l) || !ss_edit_selects(e.head, state.query.h))
            continue;
        for (int t = 0; t < p; t++) {
            set_query(&state.query, t);
            add_key(&state.query, &e, &state.cache);
        }
        if (uses_weights(&e))
            ss_map_read(source, SS_FIELD_ATT, head, 0, p, 0, replay_weights, &state);
    }
}

/* Returns how many of the most recent keys, the query's own included, are never evicted. */
static int count_recent_keys(const eviction *e) {
    bool keeps_half = e->policy == H2O || e->policy == VATP;
    int half_budget = e->budget / 2;
    int recent = e->recent > 0 ? e->recent : keeps_half && half_budget > 0 ? half_budget : 1;
    return ss_min(recent, e->budget - e->first);
}

/* Returns the slot of the cached key in [begin, end) with the lowest score, the oldest in a tie, or
 * of the oldest key if `by_age`; -1 if there is none. */
static int find_lowest_score(const head_cache *cache, bool by_age, int begin, int end) {
    int lowest = -1;
    for (int j = begin; j < end; j++) {
        if (!isnan(cache->evicted[j])) continue;
        if (lowest < 0 || (!by_age && cache->score[j] * cache->score_factor[j] <
                                          cache->score[lowest] * cache->score_factor[lowest]))
            lowest = j;
    }
    return lowest;
}

/* Evicts by SnapKV, at the first query after the prompt: among the keys before the prompt's last
 * queries, keeps the keys with the most attention from these queries, averaged over neighboring
 * keys. */
static void evict_prompt(const eviction *e, const head_cache *cache, int t) {
    int end = e->prompt - e->queries, half_pool = e->pool / 2;
    for (int j = 0; j < end; j++) {
        float sum = 0.0f;
        int begin = j < half_pool ? 0 : j - half_pool, pool_end = ss_min(end, j + half_pool + 1);
        for (int i = begin; i < pool_end; i++) sum += cache->score[i];
        cache->score_factor[j] = sum;
    }
    for (int j = 0; j < end; j++) cache->score[j] = 1.0f;
    for (int excess = e->prompt - e->budget; excess > 0; excess--) {
        int lowest = find_lowest_score(cache, false, e->first, end);
        if (lowest >= 0) cache->evicted[lowest] = (float)t;
    }
}

static void evict(const ss_hook *hook, const eviction *e, const head_cache *cache) {
    int t = hook->t, cached_n = 0, policy = e->policy;
    if (policy == SNAPKV) {
        if (t == e->prompt) evict_prompt(e, cache, t);
        return;
    }
    for (int j = 0; j <= hook->query_slot; j++) cached_n += isnan(cache->evicted[j]) != 0;
    int first = e->first, last = hook->query_slot + 1 - count_recent_keys(e);
    for (; cached_n > e->budget; cached_n--) {
        int lowest = find_lowest_score(cache, policy == WINDOW || policy == FIRST, first, last);
        cache->evicted[lowest] = (float)t;
    }
}

/* Masks the evicted keys; with positions in the cache, sets the position of each other key to its
 * index in the cache. */
static void mask_evicted(const ss_hook *hook, const eviction *e, const head_cache *cache) {
    int32_t *ranks = hook->scratch->ranks, rank = 0;
    for (size_t j = 0; j < hook->keys; j++) {
        bool is_cached = !(cache->evicted[j] <= (float)hook->t);
        if (!is_cached) hook->scratch->visible[j] = 0;
        if (e->positions == IN_CACHE) ranks[j] = is_cached ? rank++ : rank;
    }
}

static size_t rotary_row(const ss_pass *pass, int shift) {
    const ss_model *model = pass->trace->model;
    const float *frequencies[] = {model->rotary, model->window_rotary};
    size_t row = (size_t)(shift % SS_ROTARY_ROWS);
    if (pass->cache.rotary_shifts[row] == shift) return row;
    for (int i = 0; i < (model->arch.has_window_rotary ? 2 : 1); i++) {
        size_t pairs = ss_arch_pairs(&model->arch, i);
        ss_angles angles = {pass->cache.rotary[i].cosine + row * pairs,
                            pass->cache.rotary[i].sine + row * pairs};
        ss_rotary_angles(&angles, frequencies[i], 1.0f, pairs, &(int32_t){-shift}, 1);
    }
    pass->cache.rotary_shifts[row] = shift;
    return row;
}

static void rotate_query(const ss_hook *hook, int shift, float *out) {
    const ss_arch *arch = &hook->pass->trace->model->arch;
    size_t K = (size_t)arch->K;
    size_t pairs =
        ss_arch_rotates(arch, hook->a) ? (size_t)ss_arch_sizes(arch, hook->a).rotary_width / 2 : 0;
    const ss_angles *rotary =
        &hook->pass->cache.rotary[arch->has_window_rotary && arch->windowed[hook->a]];
    size_t row = rotary_row(hook->pass, shift) * pairs;
    ss_rotate(out, hook->q, rotary->cosine + row, rotary->sine + row, pairs);
    memcpy(out + 2 * pairs, hook->q + 2 * pairs, (K - 2 * pairs) * sizeof *out);
}

/* Recomputes the scores of keys that are nearer in the cache than in the text: rotates the query
 * back by the difference, once for all keys between two evicted ones. A bias key has no position;
 * its score uses the query at its position in the cache. */
static void rotate_scores(const ss_hook *hook) {
    const ss_pass *pass = hook->pass;
    const ss_scratch *scratch = hook->scratch;
    const ss_model *model = pass->trace->model;
    const ss_arch *arch = &model->arch;
    size_t K = (size_t)arch->K;
    int g = ss_arch_group(arch, hook->a, hook->h), current_shift = 0;
    int query_shift = pass->positions[hook->t] - scratch->ranks[hook->query_slot];
    const float *k = ss_row(pass->trace, SS_FIELD_K, hook->a * arch->G + g, 0);
    float *q = scratch->queries; /* free here: only heads with a feature map use this buffer */
    if (hook->bias && query_shift > 0) {
        rotate_query(hook, current_shift = query_shift, q);
        *hook->bias = ss_dot(
            q, ss_head_vector(model->layers[hook->l].bias_keys, arch->bias_key, g, arch->K), K);
    }
    for (size_t j = 0; j < hook->keys; j++, k += K) {
        if (!scratch->visible[j]) continue;
        int shift = query_shift - (pass->positions[ss_token_of(hook, j)] - scratch->ranks[j]);
        if (shift <= 0) continue;
        if (shift != current_shift) rotate_query(hook, current_shift = shift, q);
        hook->rows[j] = ss_dot(q, k, K);
    }
}

void ss_apply_evict(const ss_hook *hook, const float *values) {
    eviction e = read_eviction(values);
    if (!ss_edit_selects(e.layer, hook->l) || !ss_edit_selects(e.head, hook->h)) return;
    head_cache cache = cache_of(hook->pass, hook->a, hook->h);
    if (hook->point == SS_AT_MASK) {
        if (!hook->is_recomputed) {
            add_key(hook, &e, &cache);
            evict(hook, &e, &cache);
        }
        mask_evicted(hook, &e, &cache);
    } else if (hook->point == SS_AT_SCORES) {
        bool is_rotary = hook->pass->trace->model->arch.positions == SS_POSITIONS_ROTARY;
        if (e.positions == IN_CACHE && is_rotary) rotate_scores(hook);
    } else if (!hook->is_recomputed) {
        add_weights(hook, &e, &cache);
    }
}

static void move_row(float *rows, size_t width, int n, int stride, int from, int to) {
    for (int i = 0; i < n; i++) {
        float *array = rows + (size_t)i * (size_t)stride * width;
        memmove(array + (size_t)to * width, array + (size_t)from * width, width * sizeof *array);
    }
}

void ss_cache_compact(ss_pass *pass, int a, int g, int slots) {
    const ss_trace *trace = pass->trace;
    const ss_arch *arch = &trace->model->arch;
    int group_heads = arch->H / ss_arch_sizes(arch, a).G, S = trace->slots, group = a * arch->G + g,
        kept_n = 0;
    head_cache first_cache = cache_of(pass, a, g * group_heads);
    float *k = ss_row(trace, SS_FIELD_K, group, 0), *v = ss_row(trace, SS_FIELD_V, group, 0);
    int32_t *tokens = pass->cache.tokens + (size_t)group * (size_t)S;
    for (int j = 0; j < slots; j++) {
        bool is_kept = false;
        for (int i = 0; i < group_heads; i++) is_kept |= isnan(first_cache.evicted[i * S + j]) != 0;
        if (!is_kept) continue;
        tokens[kept_n] = tokens[j];
        move_row(k, (size_t)arch->K, 1, S, j, kept_n);
        move_row(v, (size_t)arch->U, 1, S, j, kept_n);
        move_row(first_cache.score, 1, group_heads, S, j, kept_n);
        move_row(first_cache.score_factor, 1, group_heads, S, j, kept_n);
        move_row(first_cache.evicted, 1, group_heads, S, j, kept_n++);
    }
    for (int i = 0; i < group_heads; i++)
        for (int j = kept_n; j < slots; j++) first_cache.evicted[i * S + j] = NAN;
    pass->cache.filled_slots[group] = kept_n;
}
