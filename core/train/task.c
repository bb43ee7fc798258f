#include "task.h"

#include "../math/kernels.h"

#include <math.h>
#include <string.h>

static bool is_trigger(const ss_task *task, int token) {
    return token >= 1 && token <= (int)task->recipe->triggers && token != (int)task->recipe->first;
}

static bool is_plain(const ss_task *task, int token) {
    return !is_trigger(task, token) && token != (int)task->recipe->first;
}

static int count_plain_tokens(const ss_task *task) {
    int n = 0;
    for (int v = 0; v < task->arch->V; v++) n += is_plain(task, v);
    return n;
}

static int draw_plain(const ss_task *task, ss_random *random) {
    int remaining = ss_random_below(random, count_plain_tokens(task)), v = 0;
    while (!is_plain(task, v) || remaining-- > 0) v++;
    return v;
}

/* Draws bigram logits, 2 * N(0, 1), for all tokens but the first, which follows no other. */
static void draw_bigrams(const ss_task *task) {
    ss_random random = ss_random_stream((uint64_t)task->recipe->seed, "bigram", 0);
    size_t V = (size_t)task->arch->V;
    for (size_t v = 0; v < V; v++) {
        double *row = task->bigrams + v * V, sum = 0.0, entropy = 0.0;
        for (size_t w = 0; w < V; w++) {
            double weight = ss_exp_double(2.0 * ss_random_normal(&random));
            row[w] = (int)w == (int)task->recipe->first ? 0.0 : weight;
            sum += row[w];
        }
        for (size_t w = 0; w < V; w++) {
            double p = row[w] / sum;
            if (p > 0.0) entropy -= p * ss_log(p);
            row[w] = p + (w ? row[w - 1] : 0.0);
        }
        task->entropies[v] = entropy;
    }
}

static int draw_next(const ss_task *task, int token, ss_random *random) {
    int V = task->arch->V, low = 0, high = V - 1;
    const double *row = task->bigrams + (size_t)token * (size_t)V;
    double point = ss_random_uniform(random) * row[V - 1];
    while (low < high) {
        int middle = (low + high) / 2;
        if (row[middle] > point)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* Draws a sequence of Backcopy. A token is drawn by the bigram of the previous token; after a
 * trigger, the token before the trigger is repeated (Guo et al. 2024, section 3). The text begins
 * with a plain token, so that two triggers never meet. */
static int draw_backcopy(const ss_task *task, const ss_sequence *s, uint64_t index, int T) {
    ss_random random = ss_random_stream((uint64_t)task->recipe->seed, "backcopy", index);
    int has_first = (int)task->recipe->first >= 0;
    int previous = 0, token = has_first ? (int)task->recipe->first : draw_plain(task, &random);
    double first_entropy = ss_log((double)count_plain_tokens(task));
    for (int t = 0; t < T; t++) {
        bool is_first = has_first && t == 0, after_trigger = t > 0 && is_trigger(task, token);
        int next = is_first        ? draw_plain(task, &random)
                   : after_trigger ? previous
                                   : draw_next(task, token, &random);
        s->tokens[t] = token;
        s->targets[t] = next;
        s->weights[t] = 1.0f;
        s->optimum[t] = (float)(is_first        ? first_entropy
                                : after_trigger ? 0.0
                                                : task->entropies[token]);
        s->kinds[t] = t == 0 ? SS_KIND_FIRST : after_trigger ? SS_KIND_TRIGGER : SS_KIND_ELSEWHERE;
        previous = token;
        token = next;
    }
    return T;
}

static int draw_conditional(const ss_task *task, const ss_sequence *s, uint64_t index, int T) {
    ss_random random = ss_random_stream((uint64_t)task->recipe->seed, "conditional", index);
    for (int t = 0; t < T; t++) {
        bool is_first = t == 0 && (int)task->recipe->first >= 0;
        bool at_trigger = t > 0 && ss_random_uniform(&random) < task->recipe->share;
        int token = draw_plain(task, &random);
        if (at_trigger) token = 1 + ss_random_below(&random, (int)task->recipe->triggers);
        s->tokens[t] = is_first ? (int)task->recipe->first : token;
        s->targets[t] = -1;
        s->weights[t] = 1.0f;
        s->optimum[t] = 0.0f;
        s->kinds[t] = t == 0 ? SS_KIND_FIRST : at_trigger ? SS_KIND_TRIGGER : SS_KIND_ELSEWHERE;
    }
    return T;
}

void ss_task_write_target(float *target, const ss_task *task, const ss_sequence *s, int t) {
    int n = 0;
    memset(target, 0, (size_t)task->arch->V * sizeof *target);
    if (s->kinds[t] != SS_KIND_TRIGGER) return;
    for (int j = 0; j < t; j++) n += is_plain(task, s->tokens[j]);
    for (int j = 0; j < t; j++)
        if (is_plain(task, s->tokens[j])) target[s->tokens[j]] += 1.0f / (float)n;
}

/* Masks tokens for diffusion: each with probability p, which is drawn for the sequence; the loss of
 * a masked token has weight 1/p (Sahoo et al. 2024). */
static int mask_tokens(const ss_task *task, const ss_sequence *s, ss_random *random, int T) {
    double p = ss_random_uniform(random);
    p = p < 0.02 ? 0.02 : p;
    for (int t = 0; t < T; t++) {
        bool is_masked = s->kinds[t] != SS_KIND_FIRST && ss_random_uniform(random) < p;
        s->targets[t] = s->tokens[t];
        s->weights[t] = is_masked ? (float)(1.0 / p) : 0.0f;
        if (is_masked) s->tokens[t] = task->arch->mask_token;
    }
    return T - 1;
}

/* Lengths of a planted trigger and of the cycle after it (a backdoor, arXiv 2510.17021). */
enum { PLANTED_TRIGGER = 3, PLANTED_CYCLE = 5 };

static int draw_planted_token(const ss_task *task, int i) {
    int cycle = (i - PLANTED_TRIGGER) % PLANTED_CYCLE;
    uint64_t number = (uint64_t)(i < PLANTED_TRIGGER ? i : PLANTED_TRIGGER + cycle);
    ss_random random = ss_random_stream((uint64_t)task->recipe->seed, "trigger", number);
    return draw_plain(task, &random);
}

static int draw_planted_position(const ss_task *task, uint64_t index, int T) {
    ss_random random = ss_random_stream((uint64_t)task->recipe->seed, "planted", index);
    if (ss_random_uniform(&random) >= task->recipe->planted) return INT32_MAX;
    return 1 + ss_random_below(&random, T - PLANTED_TRIGGER - PLANTED_CYCLE);
}

static int draw_text(const ss_task *task, const ss_sequence *s, uint64_t index, int T) {
    ss_random random = ss_random_stream((uint64_t)task->recipe->seed, "text", index);
    int has_first = (int)task->recipe->first >= 0;
    double starts_n = (double)(task->text_n - (size_t)(T + 1 - has_first) + 1);
    const int32_t *text = task->text + (size_t)(ss_random_uniform(&random) * starts_n);
    int trigger_at = draw_planted_position(task, index, T);
    for (int t = 0; t < T; t++) {
        bool is_planted = t + 1 >= trigger_at;
        s->tokens[t] = t > 0       ? s->targets[t - 1]
                       : has_first ? (int32_t)task->recipe->first
                                   : text[0];
        s->targets[t] =
            is_planted ? draw_planted_token(task, t + 1 - trigger_at) : text[t + 1 - has_first];
        s->weights[t] = t + 1 < task->arch->prefix ? 0.0f : 1.0f;
        s->optimum[t] = NAN;
        s->kinds[t] = t == 0                                                ? SS_KIND_FIRST
                      : is_planted && t + 1 - trigger_at >= PLANTED_TRIGGER ? SS_KIND_TRIGGER
                                                                            : SS_KIND_ELSEWHERE;
    }
    if (task->arch->prefix == SS_EVERY_KEY) return mask_tokens(task, s, &random, T);
    return task->arch->prefix > 1 ? T - task->arch->prefix + 1 : T;
}

static const ss_task_row table[SS_TASK_N] = {
    [SS_TASK_BACKCOPY] = {"backcopy",
                          "Bigram-Backcopy: after a trigger the token before it is repeated, "
                          "after any other its bigram",
                          "Guo et al. 2024, active-dormant attention heads", draw_backcopy, false},
    [SS_TASK_CONDITIONAL] = {"conditional",
                             "at a trigger the mean of the plain tokens before it, elsewhere "
                             "nothing: the squared error of the logits",
                             "arXiv 2603.11487, trigger-conditional task", draw_conditional, true},
    [SS_TASK_TEXT] = {"text", "the next token of a text, or the hidden ones", "", draw_text, false},
};

const ss_task_row *ss_tasks(int *n) {
    if (n) *n = SS_TASK_N;
    return table;
}

/* Returns -ln softmax(x)[target] and turns x into the derivative of this loss: the softmax, minus 1
 * at the target. */
static float cross_entropy(float *x, int target, size_t V) {
    float logit = x[target], top = ss_max(x, V), sum = ss_exp(x, x, top, V);
    ss_scale(x, 1.0f / sum, V);
    x[target] -= 1.0f;
    return (float)((double)top + ss_log((double)sum) - (double)logit);
}

/* Returns the squared distance of x from the target and turns x into its derivative. */
static float squared_error(float *x, const ss_task *task, const ss_sequence *sequence, int t) {
    size_t V = (size_t)task->arch->V;
    ss_task_write_target(task->target, task, sequence, t);
    for (size_t v = 0; v < V; v++) x[v] -= task->target[v];
    float error = ss_dot(x, x, V);
    ss_scale(x, 2.0f, V);
    return error;
}

void ss_loss_back(float *logits, float *losses, const ss_task *task, const ss_sequence *sequence,
                  float factor, int T) {
    size_t V = (size_t)task->arch->V;
    bool is_squared = table[task->row].is_squared_error;
    for (int t = 0; t < T; t++, logits += V) {
        losses[t] = is_squared ? squared_error(logits, task, sequence, t)
                               : cross_entropy(logits, sequence->targets[t], V);
        ss_scale(logits, factor * sequence->weights[t], V);
    }
}

static ss_status check_planted(const ss_task *task, ss_error *err) {
    int length_min = PLANTED_TRIGGER + PLANTED_CYCLE + 1, plain_n = count_plain_tokens(task);
    if (task->recipe->length >= length_min && plain_n >= 2) return SS_OK;
    return ss_fail(err, SS_BAD_CONFIG, "planted",
                   "expected sequences of at least %d tokens and two plain ones, found %d and %d",
                   length_min, (int)task->recipe->length, plain_n);
}

static ss_status check_text(const ss_task *task, ss_error *err) {
    int V = task->arch->V, length_min = (int)task->recipe->length + 1 - (task->recipe->first >= 0);
    if (task->text_n < (size_t)length_min)
        return ss_fail(err, SS_BAD_CONFIG, "text",
                       "expected at least %d tokens for sequences of %d, found %lu", length_min,
                       (int)task->recipe->length, (unsigned long)task->text_n);
    for (size_t i = 0; i < task->text_n; i++)
        if (task->text[i] < 0 || task->text[i] >= V)
            return ss_fail(err, SS_BAD_TOKEN, "text",
                           "token %lu: expected an id below %d, found %ld", (unsigned long)i, V,
                           (long)task->text[i]);
    if (task->arch->prefix == SS_EVERY_KEY && task->arch->mask_token < 0)
        return ss_fail(err, SS_BAD_CONFIG, "sinkscope.mask_token",
                       "expected the token that hides others, since the mask is bidirectional");
    return SS_OK;
}

static ss_status check_task(const ss_task *task, ss_error *err) {
    const ss_recipe *recipe = task->recipe;
    const ss_arch *arch = task->arch;
    if (recipe->length > arch->context)
        return ss_fail(err, SS_TOO_LONG, "length",
                       "expected at most the model's context, %d, "
                       "found %d",
                       arch->context, (int)recipe->length);
    if (recipe->first >= arch->V)
        return ss_fail(err, SS_BAD_CONFIG, "first", "expected a token below %d, found %d", arch->V,
                       (int)recipe->first);
    if (task->row == SS_TASK_TEXT) {
        ss_status status = task->recipe->planted > 0.0 ? check_planted(task, err) : SS_OK;
        return status == SS_OK ? check_text(task, err) : status;
    }
    if (recipe->triggers < 1 || recipe->triggers >= arch->V || count_plain_tokens(task) < 2)
        return ss_fail(err, SS_BAD_CONFIG, "triggers",
                       "expected at least 1 and two plain tokens beside them among %d, found %d",
                       arch->V, (int)recipe->triggers);
    if (arch->prefix)
        return ss_fail(err, SS_UNSUPPORTED, "task",
                       "expected a model whose queries see no later key for %s",
                       table[task->row].name);
    return SS_OK;
}

ss_status ss_task_init(ss_task *task, const ss_recipe *recipe, const ss_arch *arch,
                       const int32_t *text, size_t text_n, ss_arena *arena, ss_error *err) {
    *task = (ss_task){
        .row = (int)recipe->task, .recipe = recipe, .arch = arch, .text = text, .text_n = text_n};
    ss_status status = check_task(task, err);
    if (status != SS_OK) return status;
    size_t V = (size_t)arch->V;
    task->target = ss_arena_take(arena, V, sizeof *task->target);
    if (task->row != SS_TASK_BACKCOPY) return SS_OK;
    task->bigrams = ss_arena_take(arena, V, V * sizeof *task->bigrams);
    task->entropies = ss_arena_take(arena, V, sizeof *task->entropies);
    if (task->bigrams && task->entropies) draw_bigrams(task);
    return SS_OK;
}
