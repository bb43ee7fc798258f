/* The METRIC table: every number that the page, the command line and studies can ask for. A row
 * names the function that measures it, in the file of its question. */
#include "../base/doc.h"
#include "../run/maps.h"
#include "measures.h"

#include <math.h>

#define GU "Gu et al. 2025, "

/* Whether a metric is averaged over sequences: ONE describes a single sequence, MEAN has a
 * meaningful mean, SUMMARY is also listed in a model's summary. */
#define ONE .averaged = false
#define MEAN .averaged = true
#define SUMMARY .averaged = true, .summary = true

#define RANGE(number_unit, from, to) .unit = number_unit, .low = from, .high = to
#define SHARE PART("share")
#define PART(number_unit) RANGE(number_unit, 0, 1)
#define SIZE(number_unit) RANGE(number_unit, 0, INFINITY)
#define SIGNED(number_unit) RANGE(number_unit, -INFINITY, INFINITY)

#define TOKENS .args = SS_ARG_TOKENS
#define EPS .args = SS_ARG_TOKENS | SS_ARG_EPS
#define HEAD .args = SS_ARG_TOKENS | SS_ARG_LAYER | SS_ARG_HEAD
#define BASE .args = SS_ARG_TOKENS | SS_ARG_BASE
#define NO_ARGS .args = 0

/* The fields that the metric's function reads. READS_SUMS and READS_NORMS also accept a recording
 * that has only the sums of maps, or the norms of vectors. */
#define FIELD(name) SS_BIT(SS_FIELD_##name)
#define READS(mask) .fields = mask
#define READS_NORMS(name)                                                                          \
    .fields = FIELD(name), .reduced = FIELD(name), .statistics = SS_STATISTIC_NORMS
#define READS_MAPS .fields = FIELD(ATT), .statistics = SS_STATISTIC_SHARES
#define READS_SUMS .reduced = FIELD(ATT), READS_MAPS
#define READS_BIAS                                                                                 \
    .fields = FIELD(ATT) | FIELD(ATT_BIAS), .reduced = FIELD(ATT), .statistics = SS_STATISTIC_SHARES
#define READS_ENTROPY                                                                              \
    .fields = FIELD(ATT) | FIELD(SEEN), .statistics = SS_STATISTIC_SHARES | SS_STATISTIC_ENTROPY
#define READS_VALUES                                                                               \
    .fields = FIELD(ATT) | FIELD(V), .reduced = FIELD(V), .statistics = SS_STATISTIC_VALUES
#define READS_OUTPUTS .fields = FIELD(ATT) | FIELD(OUT_NORM), .statistics = SS_STATISTIC_OUTPUTS
#define READS_COSINES .fields = FIELD(Q) | FIELD(K), .statistics = SS_STATISTIC_COSINES
#define READS_WEIGHTS(mask) .fields = mask, .weights = true

#define SHAPE(...) .shape = {__VA_ARGS__}
#define METRIC(id, kind, symbol, subject, reader_asks, definition, ...)                            \
    {                                                                                              \
        .name = #id, .label = symbol, .topic = subject, .question = SS_DOC(reader_asks),           \
        .source = SS_DOC(definition), .kind = ss_measure_##id, __VA_ARGS__                         \
    }

static const ss_metric table[] = {
    METRIC(alpha, measure_token, "alpha_k", "sink",
           "How much attention does a key receive from the queries that see it?",
           GU "eq. 6; proxy of section 7.4", SHAPE("L", "H", "T"), SHARE, SUMMARY, TOKENS,
           READS_SUMS),
    METRIC(alpha_raw, measure_token, "raw alpha_k", "sink",
           "alpha_k from the raw weights, rows not normalized", GU "eq. 6", SHAPE("L", "H", "T"),
           SIGNED("weight"), MEAN, TOKENS, READS_SUMS),
    METRIC(alpha_uniform, measure, "uniform alpha_k", "sink",
           "What would alpha_k be with uniform attention?",
           "closed form, (H_T - H_{k-1}) / (T-k+1)", SHAPE("T"), SHARE, ONE, TOKENS),
    METRIC(sink_ratio, measure, "Sink_k", "sink",
           "In what share of heads does alpha_k exceed eps? (Sink_k^eps)", GU "eq. 7", SHAPE("T"),
           PART("share of heads"), SUMMARY, EPS, READS_SUMS),
    METRIC(sink_ratio_raw, measure, "raw Sink_k", "sink",
           "Sink_k^eps from the raw weights, rows not normalized", GU "eq. 7", SHAPE("T"),
           PART("share of heads"), SUMMARY, EPS, READS_SUMS),
    METRIC(near_eps, measure, "near eps", "sink",
           "How many heads are so close to eps that bf16 rounding could flip them?",
           "|alpha_k - eps| < 0.002", SHAPE("T"), SIZE("heads"), SUMMARY, EPS, READS_SUMS),
    METRIC(alpha_bias, measure_row, "alpha_*", "bias",
           "How much attention does the bias key receive? (alpha_*)", GU "section 7.3, table 4",
           SHAPE("L", "H"), SHARE, MEAN, TOKENS, READS_BIAS),
    METRIC(sink_ratio_bias, measure, "Sink_*", "bias",
           "In what share of heads does alpha_* exceed eps? (Sink_*^eps)",
           GU "section 7.3, table 4", SHAPE("1"), PART("share of heads"), SUMMARY, EPS, READS_BIAS),
    METRIC(row_mass, measure_token, "row sum", "mass", "What do the weights of a query sum to?",
           "sum of a query's weights for tokens", SHAPE("L", "H", "T"), SIGNED("weight"), MEAN,
           TOKENS, READS_SUMS),
    METRIC(row_mass_summary, measure, "row sum", "mass",
           "Mean, minimum and maximum row sum of a head", "over the T queries",
           SHAPE("L", "H", "3"), SIGNED("weight"), SUMMARY, TOKENS, READS_SUMS),
    METRIC(entropy, measure_token, "entropy", "mass",
           "How spread out is a query's attention? 0: one key, 1: uniform",
           "Guo et al. 2024, row entropy over ln n", SHAPE("L", "H", "T"), PART("of ln n"), MEAN,
           TOKENS, READS_ENTROPY),
    METRIC(entropy_mean, measure_row, "entropy", "mass",
           "How spread out is the attention of a head?", "Guo et al. 2024, mean over queries",
           SHAPE("L", "H"), PART("of ln n"), SUMMARY, TOKENS, READS_ENTROPY),
    METRIC(diagonal, measure, "diagonal share", "mass",
           "How much attention goes to a query's own key, and to the two before it?",
           "arXiv 2605.08453; mean of P_q,q-j over queries, j = 0, 1, 2", SHAPE("L", "H", "3"),
           SHARE, MEAN, TOKENS, READS_MAPS),
    METRIC(gate_mean, measure_row, "gate", "gate", "How open is the gate of a head?",
           "Qiu et al. 2025", SHAPE("L", "H"), PART(""), SUMMARY, TOKENS, READS(FIELD(GATE))),
    METRIC(qk_dot, measure, "q.k", "geometry", "What is the dot product of query and key?",
           GU "section 3.3, figure 2: q.k", SHAPE("T", "T"), SIGNED(""), ONE, HEAD,
           READS(FIELD(Q) | FIELD(K))),
    METRIC(qk_cos, measure, "cos(q, k)", "geometry",
           "What is the cosine of the angle between query and key?",
           GU "section 3.3, figure 2: cosine", SHAPE("T", "T"), RANGE("cosine", -1, 1), ONE, HEAD,
           READS(FIELD(Q) | FIELD(K))),
    METRIC(qk_norm, measure, "|q| |k|", "geometry",
           "What is the product of the norms of query and key?",
           GU "section 3.3, figure 2: |q| |k|", SHAPE("T", "T"), SIZE(""), ONE, HEAD,
           READS(FIELD(Q) | FIELD(K))),
    METRIC(cos_gap, measure_row, "cosine gap", "geometry",
           "How much better is the first key aligned with the queries than the other keys?",
           "mean cos(q_t, k_1) - mean cos(q_t, k_j), j > 1", SHAPE("L", "H"),
           RANGE("cosine", -2, 2), SUMMARY, TOKENS, READS_COSINES),
    METRIC(logit_parts, measure, "parts of q.k_1", "geometry",
           "Which components of the residual stream make the first key's logit? The embedding, "
           "attention and feed-forward of each layer below, biases",
           "mean over queries of s q.k_1, linear in the stream for the scale of its norm",
           SHAPE("L", "H", "L+L+2"), SIGNED("logit"), ONE, TOKENS,
           READS_WEIGHTS(FIELD(HIDDEN) | FIELD(Q) | FIELD(ATT_OUT) | FIELD(MLP_OUT))),
    METRIC(logit_parts_heads, measure, "heads' parts of q.k_1", "geometry",
           "Which heads of the layers below make the first key's logit?",
           "logit_parts of W_O head_out, head by head", SHAPE("L", "H", "L", "H"), SIGNED("logit"),
           ONE, TOKENS, READS_WEIGHTS(FIELD(HIDDEN) | FIELD(Q) | FIELD(HEAD_OUT))),
    METRIC(hidden_norm, measure_token, "|h|", "norm", "What is the norm of the residual stream?",
           GU "section 3.3, figure 2 top", SHAPE("L+1", "T"), SIZE(""), MEAN, TOKENS,
           READS_NORMS(HIDDEN)),
    METRIC(key_norm, measure_token, "|k|", "norm", "What are the norms of the keys?",
           GU "section 3.3, figure 2 top", SHAPE("L", "G", "T"), SIZE(""), MEAN, TOKENS,
           READS_NORMS(K)),
    METRIC(value_norm, measure_token, "|v|", "norm", "What are the norms of the values?",
           GU "section 3.3, figure 2 top", SHAPE("L", "G", "T"), SIZE(""), MEAN, TOKENS,
           READS_NORMS(V)),
    METRIC(hidden_ratio, measure_row, "|h_1| / |h|", "norm",
           "How long is the first token's hidden state relative to the mean of the others?",
           GU "figures 7 and 8", SHAPE("L+1"), SIZE("ratio"), SUMMARY, TOKENS, READS_NORMS(HIDDEN)),
    METRIC(key_ratio, measure_row, "|k_1| / |k|", "norm",
           "How long is the first key relative to the mean of the others?", GU "section 3.3",
           SHAPE("L", "G"), SIZE("ratio"), SUMMARY, TOKENS, READS_NORMS(K)),
    METRIC(value_ratio, measure_row, "|v_1| / |v|", "norm",
           "How long is the first value relative to the mean of the others? (value drain)",
           "Guo et al. 2024; " GU "section 3.3", SHAPE("L", "G"), SIZE("ratio"), SUMMARY, TOKENS,
           READS_NORMS(V)),
    METRIC(massive, measure, "largest |h|", "massive",
           "What are the three largest |h| of a layer, and the median?",
           "Sun et al. 2024, section 2", SHAPE("L+1", "4"), SIZE(""), MEAN, TOKENS,
           READS(FIELD(HIDDEN))),
    METRIC(massive_at, measure, "where", "massive", "At which channel and token are those three?",
           "Sun et al. 2024, section 2", SHAPE("L+1", "3", "2"), SIZE("index"), ONE, TOKENS,
           READS(FIELD(HIDDEN))),
    METRIC(super_weight, measure, "super weight", "massive",
           "Which single weight produces a layer's largest activation? Row and column of the down "
           "projection, token, weight, input, output",
           "Yu et al. 2024, spikes of inputs and outputs", SHAPE("L", "6"),
           SIGNED("index or number"), ONE, TOKENS, READS(FIELD(SPIKES))),
    METRIC(first_share, measure_row, "first-token share", "sink",
           "What share of attention goes to the first token?",
           "Qiu et al. 2025, F-Attn; mean over queries", SHAPE("L", "H"), SHARE, SUMMARY, TOKENS,
           READS_SUMS),
    METRIC(contribution, measure_row, "first-token contribution", "sink",
           "What share of a head's output comes from the first token's value?",
           "|A_t1| |v_1| / sum_j |A_tj| |v_j|, mean over queries", SHAPE("L", "H"), SHARE, SUMMARY,
           TOKENS, READS_VALUES),
    METRIC(contribution_at, measure_token, "contribution of key k", "sink",
           "What share of a head's output comes from a key's value?",
           "|A_tk| |v_k| / sum_j |A_tj| |v_j|, mean over the queries that see it",
           SHAPE("L", "H", "T"), SHARE, MEAN, TOKENS, READS_VALUES),
    METRIC(contribution_out_at, measure_token, "contribution through W_O", "sink",
           "What share of what a head writes to the residual stream comes from a key?",
           "the same of |W_O v|; Kobayashi et al. 2020", SHAPE("L", "H", "T"), SHARE, MEAN, TOKENS,
           READS_OUTPUTS),
    METRIC(tag_share, measure_row, "tag", "values",
           "What share of what a head mixes for later tokens lies along the first token's value?",
           "arXiv 2502.00919, of the first key, without its own query", SHAPE("L", "H"), SHARE,
           MEAN, TOKENS, READS(FIELD(V) | FIELD(HEAD_OUT))),
    METRIC(tag_stream, measure, "tag in the stream", "values",
           "What share of the variance of later tokens' hidden states after a head's layer lies "
           "along its W_O v_1?",
           "catch, tag, release: arXiv 2502.00919", SHAPE("L", "H"), SHARE, MEAN, TOKENS,
           READS_WEIGHTS(FIELD(HIDDEN) | FIELD(V))),
    METRIC(stable_rank, measure, "stable rank", "values",
           "In how many directions does a head write? 1: one vector for every token",
           "arXiv 2606.08105: |O|_F^2 / |O|_2^2 of O = A V W_O, tokens 2..T", SHAPE("L", "H"),
           SIZE(""), MEAN, TOKENS, READS_WEIGHTS(FIELD(HEAD_OUT))),
    METRIC(head_gate, measure_token, "1 - A_t1", "sink",
           "How much attention does a query leave for tokens other than the first?",
           "arXiv 2602.01203, the sink as a gate; less the share of a bias key; queries after the "
           "first",
           SHAPE("L", "H", "T"), SHARE, MEAN, TOKENS, READS_MAPS),
    METRIC(head_load, measure_row, "head load", "sink",
           "How much attention does a head leave for tokens other than the first?",
           "arXiv 2602.01203, mean of head_gate over queries 2..T", SHAPE("L", "H"), SHARE, MEAN,
           TOKENS, READS_MAPS),
    METRIC(head_gini, measure_row, "Gini of head loads", "sink",
           "Do the heads of a layer share the work? 0: evenly, (H-1)/H: one does all",
           "of head_load; arXiv 2602.01203 has its coefficient of variation", SHAPE("L"),
           PART("Gini coefficient"), SUMMARY, TOKENS, READS_MAPS),
    METRIC(keeps_first, measure_row, "first token kept", "cache",
           "Does the KV cache of a head still hold the first token?",
           "at the last query, under an eviction", SHAPE("L", "H"), PART("1 or 0"), MEAN, TOKENS,
           READS(FIELD(EVICTED))),
    METRIC(cache_hits, measure, "cache hits", "cache",
           "What part of the keys that the baseline run uses does the KV cache still hold?",
           "under an eviction; a query uses an earlier key by more than an even share of its row",
           SHAPE("L", "H"), PART("share of uses"), MEAN, BASE, READS(FIELD(EVICTED) | FIELD(ATT))),
    METRIC(quantize_error, measure_row, "quantization error", "cache",
           "How large is the relative error of the quantized activations?",
           "|x' - x| / |x|, activations under a quantization; layer l, or the stream after l",
           SHAPE("L+1"), SIZE("of |x|"), MEAN, TOKENS, READS(FIELD(ROUNDED))),
    METRIC(weight_error, measure_row, "weight quantization error", "cache",
           "How large is the relative error of the quantized weights?",
           "|W' - W| / |W| over the matrices of a layer, under a quantization of weights",
           SHAPE("L"), SIZE("of |W|"), MEAN, NO_ARGS, READS(FIELD(WEIGHT_ROUNDED))),
    METRIC(mixing, measure_row, "distance from mean", "massive",
           "How far are the tokens from their mean? (over-mixing, representational collapse)",
           "Barbero et al. 2025, mu over sqrt(T)", SHAPE("L+1"), SIZE(""), MEAN, TOKENS,
           READS(FIELD(HIDDEN))),
    METRIC(kurtosis, measure_row, "kurtosis", "massive",
           "Does the residual stream have outlier channels?",
           "fourth moment over the squared second; 3 of normal numbers", SHAPE("L+1"), SIZE(""),
           MEAN, TOKENS, READS(FIELD(HIDDEN))),
    METRIC(matrix_entropy, measure, "matrix entropy", "massive",
           "In how many directions do the tokens' hidden states point? 0: one (a compression "
           "valley), 1: all",
           "arXiv 2510.06477: entropy of normalized squared singular values of h [T][D]",
           SHAPE("L+1"), PART("of ln min(T, D)"), SUMMARY, TOKENS, READS(FIELD(HIDDEN)),
           .statistics = SS_STATISTIC_SPECTRA),
    METRIC(matrix_entropy_others, measure, "matrix entropy without token 1", "massive",
           "In how many directions do the other tokens' hidden states point?",
           "the same of tokens 2..T", SHAPE("L+1"), PART("of ln min(T-1, D)"), MEAN, TOKENS,
           READS(FIELD(HIDDEN))),
    METRIC(loss_at, measure, "loss by position", "loss",
           "What is the loss of the token at each position?",
           "-ln p of the token, given those before", SHAPE("T"), SIZE("nat"), MEAN, TOKENS,
           READS(FIELD(LOSS))),
    METRIC(loss_mean, measure, "loss", "loss", "What is the mean loss of the tokens?",
           "mean of -ln p over tokens 2..T", SHAPE("1"), SIZE("nat"), SUMMARY, TOKENS,
           READS(FIELD(LOSS))),
    METRIC(accuracy, measure, "accuracy", "loss",
           "In what share of positions is the next token the model's first choice?",
           "share of tokens 2..T with the largest logit; ties go to the lowest id", SHAPE("1"),
           PART("share of tokens"), SUMMARY, TOKENS, READS(FIELD(RANK))),
    METRIC(kl_mean, measure, "KL", "change",
           "How far are the predictions from those of the baseline run?",
           "mean of KL(p' || p) over the tokens that are predicted", SHAPE("1"), SIZE("nat"),
           SUMMARY, BASE, READS(FIELD(LOGITS))),
    METRIC(loss_change_at, measure, "loss change by position", "change",
           "By how much does each token's loss rise over the baseline run?",
           "loss - loss of the run that is compared with", SHAPE("T"), SIGNED("nat"), MEAN, BASE,
           READS(FIELD(LOSS))),
    METRIC(loss_change, measure, "loss change", "change",
           "By how much does the loss rise over the baseline run?",
           "mean over the tokens that are predicted", SHAPE("1"), SIGNED("nat"), SUMMARY, BASE,
           READS(FIELD(LOSS))),
    METRIC(hidden_change, measure, "change of h", "change",
           "How far is each token's residual stream from that of the baseline run?",
           "|h - h'| / |h'|; of a text with one token changed, Barbero et al. 2025",
           SHAPE("L+1", "T"), SIZE("of |h'|"), MEAN, BASE, READS(FIELD(HIDDEN))),
};

const ss_metric *ss_metrics(int *n) {
    if (n) *n = (int)(sizeof table / sizeof *table);
    return table;
}

static ss_status check_base(const ss_trace *trace, const ss_metric *row, const ss_metric_args *args,
                            ss_error *err) {
    const ss_trace *base = args->base;
    if (!base || base->model != trace->model)
        return ss_fail(err, SS_BAD_REQUEST, row->name,
                       "expected another run of the same model to compare with");
    if (base->T < args->T)
        return ss_fail(err, SS_BAD_REQUEST, row->name,
                       "expected a run of %d tokens or more to compare with, found %d", args->T,
                       base->T);
    if (row->fields & ~(base->fields & ~base->summed_fields))
        return ss_fail(err, SS_BAD_REQUEST, row->name,
                       "the run to compare with did not record what is compared");
    return SS_OK;
}

static ss_status fail_missing(const ss_trace *trace, const ss_metric *row, int field,
                              ss_error *err) {
    const char *name = ss_fields()[field].name;
    if (trace->summaries.is_cross)
        return ss_fail(err, SS_BAD_REQUEST, row->name,
                       "needs attention within one sequence, and this is cross-attention");
    if (field == SS_FIELD_ATT && trace->summaries.pooled_side)
        return ss_fail(err, SS_BAD_REQUEST, row->name,
                       "needs the field %s in full, kept here as maps pooled to %d x %d", name,
                       trace->summaries.pooled_side, trace->summaries.pooled_side);
    return ss_fail(err, SS_BAD_REQUEST, row->name, "needs the field %s, not recorded", name);
}

static const char *first_field_name(uint32_t fields) {
    int field = 0;
    while (!(fields & SS_BIT(field))) field++;
    return ss_fields()[field].name;
}

static ss_status check_request(const ss_trace *trace, int metric, const ss_metric_args *args,
                               ss_error *err) {
    int n = (int)(sizeof table / sizeof *table);
    const ss_arch *arch = &trace->model->arch;
    if (metric < 0 || metric >= n)
        return ss_fail(err, SS_BAD_REQUEST, "metric", "expected a metric from 0 to %d, found %d",
                       n - 1, metric);
    const ss_metric *row = &table[metric];
    uint32_t available = trace->summaries.is_recording ? SS_FIELDS_ALL : ss_fields_of(arch);
    uint32_t missing = row->fields & available & ~trace->fields;
    for (int field = 0; field < SS_FIELD_N; field++)
        if ((missing & ~(row->reduced & trace->summaries.fields)) & SS_BIT(field))
            return fail_missing(trace, row, field, err);
    if ((row->fields & trace->summed_fields) && !row->statistics)
        return ss_fail(err, SS_BAD_REQUEST, row->name,
                       "needs the field %s, but a measuring run keeps only its sums",
                       first_field_name(row->fields & trace->summed_fields));
    if (row->statistics & SS_STATISTIC_SPECTRA && trace->summed_fields && !trace->spectral)
        return ss_fail(err, SS_BAD_REQUEST, row->name,
                       "needs spectra, and this measuring run does not record them");
    if (row->weights && trace->summaries.is_recording)
        return ss_fail(err, SS_BAD_REQUEST, row->name,
                       "needs the model's weights, and a recording has none");
    if (args->T < 1 || args->T > trace->T)
        return ss_fail(err, SS_BAD_REQUEST, row->name, "expected 1 to %d tokens, found %d",
                       trace->T, args->T);
    if ((missing & SS_BIT(SS_FIELD_ATT)) && args->T != trace->T)
        return ss_fail(err, SS_BAD_REQUEST, row->name,
                       "expected all %d tokens, since att was not kept for fewer; found %d",
                       trace->T, args->T);
    if ((row->fields & trace->summed_fields) &&
        !ss_statistics_are_complete(trace, row->statistics, args->T))
        return ss_fail(err, SS_BAD_REQUEST, row->name,
                       "expected all %d tokens of an extension: a run that measures keeps no rows "
                       "of %s; found %d",
                       trace->T, first_field_name(row->fields & trace->summed_fields), args->T);
    if ((row->args & SS_ARG_LAYER) && (args->layer < 0 || args->layer >= arch->L))
        return ss_fail(err, SS_BAD_REQUEST, row->name, "expected a layer below %d, found %d",
                       arch->L, args->layer);
    if ((row->args & SS_ARG_HEAD) && (args->head < 0 || args->head >= arch->H))
        return ss_fail(err, SS_BAD_REQUEST, row->name, "expected a head below %d, found %d",
                       arch->H, args->head);
    if ((row->args & SS_ARG_EPS) && !isfinite(args->eps))
        return ss_fail(err, SS_BAD_REQUEST, row->name, "expected a finite eps");
    return row->args & SS_ARG_BASE ? check_base(trace, row, args, err) : SS_OK;
}

int ss_metric_shape(size_t dims[SS_RANK_MAX], const ss_trace *trace, int metric,
                    const ss_metric_args *args, ss_error *err) {
    if (check_request(trace, metric, args, err) != SS_OK) return -1;
    int rank = 0;
    for (; rank < SS_RANK_MAX && table[metric].shape[rank]; rank++) {
        const char *letter = table[metric].shape[rank];
        dims[rank] = *letter == 'T' ? (size_t)args->T : ss_trace_size_of(trace, letter);
    }
    return rank;
}

typedef struct row_job {
    const ss_trace *trace;
    const ss_metric *metric;
    int T;
    float *out;
} row_job;

static void measure_piece(const void *context, size_t row, size_t worker) {
    const row_job *job = context;
    const ss_metric *metric = job->metric;
    (void)worker;
    if (metric->measure_row) job->out[row] = metric->measure_row(job->trace, (int)row, job->T);
    for (int t = 0; metric->measure_token && t < job->T; t++)
        job->out[row * (size_t)job->T + (size_t)t] =
            metric->measure_token(job->trace, (int)row, t, job->T);
}

void ss_metric_measure(const ss_trace *trace, int metric, const ss_metric_args *args, float *out) {
    const ss_metric *row = &table[metric];
    ss_statistics_compute(trace, row->statistics, args->T);
    if (row->measure) {
        row->measure(trace, args, out);
        return;
    }
    size_t rows = 1, T = (size_t)args->T;
    for (const char *const *letter = row->shape; *letter && **letter != 'T'; letter++)
        rows *= ss_trace_size_of(trace, *letter);
    row_job job = {trace, row, args->T, out};
    /* A row reads about as many numbers as a map has, or, token by token, one for each token. */
    ss_pool_run(trace->pool, measure_piece, &job, rows,
                (uint64_t)rows * T * (row->measure_row ? T : 1));
}
