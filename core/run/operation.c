#include "operation.h"

#include "../base/doc.h"
#include "../math/kernels.h"
#include "../math/scalar.h"
#include "derivative.h"

#include <limits.h>
#include <math.h>
#include <string.h>

/* Binaries without training leave out the derivatives. */
#ifdef SS_NO_TRAINER
#define BACK(function) NULL
#else
#define BACK(function) function
#endif

static void softmax(float *x, size_t n, const float *parameters) {
    (void)parameters;
    float sum = ss_exp(x, x, ss_max(x, n), n);
    ss_scale(x, 1.0f / sum, n);
}

/* Computes softmax with one more key of logit s that has no value: e^x / (e^s + sum e^x), with all
 * logits shifted by the largest. */
static void softmax_with_sink(float *x, size_t n, float s) {
    float top = ss_max(x, n);
    top = s > top ? s : top;
    float sum = ss_exp(x, x, top, n) + ss_expf(s - top);
    ss_scale(x, 1.0f / sum, n);
}

static void softmax1(float *x, size_t n, const float *parameters) {
    (void)parameters;
    softmax_with_sink(x, n, 0.0f);
}

static void sink_logit(float *x, size_t n, const float *parameters) {
    softmax_with_sink(x, n, parameters[0]);
}

static void sigmoid(float *x, size_t n, const float *parameters) {
    ss_sigmoid(x, x, parameters[0], n);
}

static void sigmoid_log_n(float *x, size_t n, const float *parameters) {
    (void)parameters;
    ss_sigmoid(x, x, -(float)ss_log((double)n), n);
}

static void sigmoid_norm(float *x, size_t n, const float *parameters) {
    (void)parameters;
    float sum = ss_sigmoid(x, x, 0.0f, n);
    ss_scale(x, 1.0f / (sum + SS_PROXY_GUARD), n);
}

static void relu(float *x, size_t n, const float *parameters) {
    (void)parameters;
    for (size_t j = 0; j < n; j++) x[j] = x[j] > 0.0f ? x[j] / (float)n : 0.0f;
}

void ss_elu1(float *x, size_t n) {
    for (size_t i = 0; i < n; i++) x[i] = x[i] > 0.0f ? x[i] + 1.0f : ss_expf(x[i]);
}

static void elu1(float *x, size_t n, const float *parameters) {
    for (size_t j = 0; j < n; j++) x[j] += parameters[0];
    ss_elu1(x, n);
}

static void identity(float *x, size_t n, const float *parameters) {
    (void)x, (void)n, (void)parameters;
}

static void share(float *x, size_t n, const float *parameters) {
    (void)parameters;
    ss_scale(x, 1.0f / (ss_sum(x, n) + SS_PROXY_GUARD), n);
}

static void elu1_norm(float *x, size_t n, const float *parameters) {
    ss_elu1(x, n);
    share(x, n, parameters);
}

/* Divides scores by |sum| only if it exceeds 1, since a sum of signed numbers may be 0. */
static void share_of_at_least_1(float *x, size_t n, const float *parameters) {
    (void)parameters;
    float sum = fabsf(ss_sum(x, n));
    if (sum > 1.0f) ss_scale(x, 1.0f / sum, n);
}

static void softmax_scaled(float *x, size_t n, const float *parameters) {
    softmax(x, n, parameters);
    ss_scale(x, parameters[0], n);
}

/* Computes softmax with a p-norm; both sums use shifted scores, so that neither overflows. */
static void softmax_p(float *x, size_t n, const float *parameters) {
    double p = (double)parameters[0], sum = 0;
    float top = ss_max(x, n);
    for (size_t j = 0; j < n; j++) sum += (double)ss_expf((x[j] - top) * parameters[0]);
    ss_exp(x, x, top, n);
    ss_scale(x, (float)ss_pow(sum, -1.0 / p), n);
}

/* Computes softpick. Numerator and denominator are multiplied by e^-m, where m is the largest score
 * or 0, so that nothing overflows. */
static void softpick(float *x, size_t n, const float *parameters) {
    float top = ss_max(x, n);
    top = top > 0.0f ? top : 0.0f;
    float one = ss_expf(-top), sum = 0.0f;
    for (size_t j = 0; j < n; j++) {
        x[j] = ss_expf(x[j] - top) - one;
        sum += fabsf(x[j]);
        x[j] = x[j] > 0.0f ? x[j] : 0.0f;
    }
    ss_scale(x, 1.0f / (sum + parameters[0] * one), n);
}

static void softmax_clipped(float *x, size_t n, const float *parameters) {
    float zeta = parameters[0], gamma = parameters[1];
    softmax(x, n, parameters);
    for (size_t j = 0; j < n; j++) {
        float weight = (zeta - gamma) * x[j] + gamma;
        x[j] = weight < 0.0f ? 0.0f : weight > 1.0f ? 1.0f : weight;
    }
}

#define TABLE_15 "Gu et al. 2025, section 7.4, table 15"

static const ss_operation table[] = {
    {.name = "softmax",
     .label = "softmax",
     .formula = SS_DOC("exp(x_j) / sum_i exp(x_i)"),
     .normalizes = true,
     .proxy = SS_PROXY_WEIGHTS,
     .row = softmax,
     .back = BACK(ss_softmax_back),
     .source = SS_DOC("Vaswani et al. 2017, section 3.2.1")},
    {.name = "sigmoid",
     .label = "sigmoid",
     .formula = SS_DOC("1 / (1 + exp(-(x_j + b)))"),
     .proxy = SS_PROXY_SHARE,
     .parameters = {{"bias", 0.0f, -20.0f, 20.0f, false, SS_DOC("b, added to every score")}},
     .row = sigmoid,
     .back = BACK(ss_sigmoid_back),
     .source = SS_DOC("Gu et al. 2025, section 7.4, table 6: sigmoid without normalization")},
    {.name = "sigmoid_log_n",
     .label = "sigmoid, bias -log n",
     .formula = SS_DOC("1 / (1 + exp(-(x_j - log n))), n visible keys"),
     .proxy = SS_PROXY_SHARE,
     .row = sigmoid_log_n,
     .back = BACK(ss_sigmoid_back),
     .source = SS_DOC("Ramapuram et al. 2025, section 2, with n the keys this query sees")},
    {.name = "sigmoid_norm",
     .label = "sigmoid, normalized",
     .formula = SS_DOC("s(x_j) / (sum_i s(x_i) + 1e-8), s the sigmoid"),
     .normalizes = true,
     .proxy = SS_PROXY_WEIGHTS,
     .row = sigmoid_norm,
     .back = BACK(ss_sigmoid_norm_back),
     .source = SS_DOC("Gu et al. 2025, section 7.4, table 6: sigmoid with normalization")},
    {.name = "softmax1",
     .label = "softmax1 (off by one)",
     .formula = SS_DOC("exp(x_j) / (1 + sum_i exp(x_i))"),
     .proxy = SS_PROXY_SHARE,
     .row = softmax1,
     .back = BACK(ss_softmax_back),
     .source = SS_DOC("Miller 2023; a key and a value of zeros")},
    {.name = "sink_logit",
     .label = "sink logit (learnable)",
     .formula = SS_DOC("exp(x_j) / (exp(s_h) + sum_i exp(x_i))"),
     .proxy = SS_PROXY_SHARE,
     .parameters = {{"logit", 0.0f, -30.0f, 30.0f, true,
                     SS_DOC("s_h, the logit of a key without value")}},
     .row = sink_logit,
     .back = BACK(ss_sink_logit_back),
     .source = SS_DOC("OpenAI 2025, gpt-oss: one logit per head beside the keys")},
    {.name = "relu",
     .label = "ReLU / n",
     .formula = SS_DOC("max(x_j, 0) / n, n visible keys"),
     .proxy = SS_PROXY_SHARE,
     .row = relu,
     .back = BACK(ss_relu_back),
     .source = SS_DOC("Guo et al. 2024, active-dormant attention heads")},
    {.name = "elu1",
     .label = "elu + 1",
     .formula = SS_DOC("y_j + 1 if y_j > 0, else exp(y_j), y_j = x_j + b"),
     .proxy = SS_PROXY_SHARE,
     .parameters = {{"bias", 0.0f, -20.0f, 20.0f, false, SS_DOC("b, added to every score")}},
     .row = elu1,
     .back = BACK(ss_elu1_back),
     .source = SS_DOC("Gu et al. 2025, section 7.4, table 6: elu + 1 without normalization")},
    {.name = "identity",
     .label = "identity (linear)",
     .formula = SS_DOC("x_j"),
     .proxy = SS_PROXY_SHARE_ABS,
     .row = identity,
     .back = BACK(ss_identity_back),
     .source = SS_DOC("Gu et al. 2025, section 7.4, table 6: identity without normalization")},
    {.name = "softmax_scaled",
     .label = "softmax, rows sum to a",
     .formula = SS_DOC("a exp(x_j) / sum_i exp(x_i)"),
     .proxy = SS_PROXY_SHARE,
     .parameters = {{"sum", 1.0f, 0.0f, 10.0f, false, SS_DOC("a, what every row sums to")}},
     .row = softmax_scaled,
     .back = BACK(ss_softmax_scaled_back),
     .source = SS_DOC("Gu et al. 2025, section 7.4, table 14: scores that sum to alpha")},
    {.name = "softmax_p",
     .label = "softmax, p-normalized",
     .formula = SS_DOC("exp(x_j) / (sum_i exp(p x_i))^(1/p)"),
     .proxy = SS_PROXY_SHARE,
     .parameters = {{"p", 2.0f, 0.1f, 10.0f, false, SS_DOC("the powers of the weights sum to 1")}},
     .row = softmax_p,
     .back = BACK(ss_softmax_p_back),
     .source = SS_DOC("Gu et al. 2025, section 7.4: normalized by the p-norm")},
    {.name = "softpick",
     .label = "softpick",
     .formula = SS_DOC("max(exp(x_j) - 1, 0) / (sum_i |exp(x_i) - 1| + eps)"),
     .proxy = SS_PROXY_SHARE,
     .parameters = {{"eps", 1e-6f, 1e-12f, 1.0f, false, SS_DOC("keeps the division finite")}},
     .row = softpick,
     .back = BACK(ss_softpick_back),
     .source = SS_DOC("Zuhri et al. 2025, softpick: rectified softmax")},
    {.name = "softmax_clipped",
     .label = "softmax, clipped",
     .formula = SS_DOC("clip((zeta - gamma) exp(x_j) / sum_i exp(x_i) + gamma, 0, 1)"),
     .proxy = SS_PROXY_SHARE,
     .parameters = {{"zeta", 1.0f, 1.0f, 2.0f, false, SS_DOC("upper end of the stretched range")},
                    {"gamma", -0.03f, -1.0f, 0.0f, false,
                     SS_DOC("lower end of the stretched range")}},
     .row = softmax_clipped,
     .back = BACK(ss_softmax_clipped_back),
     .source = SS_DOC("Bondarenko et al. 2023, section 4.1")},
    {.name = "elu1_norm",
     .label = "elu + 1, normalized",
     .formula = SS_DOC("(elu(x_j) + 1) / (sum_i (elu(x_i) + 1) + 1e-8)"),
     .normalizes = true,
     .proxy = SS_PROXY_WEIGHTS,
     .row = elu1_norm,
     .back = BACK(ss_elu1_norm_back),
     .source = SS_DOC(TABLE_15)},
    {.name = "identity_norm",
     .label = "identity, normalized",
     .formula = SS_DOC("x_j / max(|sum_i x_i|, 1)"),
     .proxy = SS_PROXY_SHARE_ABS,
     .row = share_of_at_least_1,
     .back = BACK(ss_share_of_at_least_1_back),
     .source = SS_DOC(TABLE_15)},
    {.name = "elu1_kernel",
     .label = "elu + 1 kernel",
     .formula = SS_DOC("x_j, phi(z) = elu(z) + 1"),
     .proxy = SS_PROXY_SHARE_ABS, /* distance terms may make scores negative */
     .feature = SS_FEATURE_ELU1,
     .row = identity,
     .back = BACK(ss_identity_back),
     .source = SS_DOC(TABLE_15)},
    {.name = "elu1_kernel_norm",
     .label = "elu + 1 kernel, normalized",
     .formula = SS_DOC("x_j / (sum_i x_i + 1e-8), phi(z) = elu(z) + 1"),
     .normalizes = true,
     .proxy = SS_PROXY_WEIGHTS,
     .feature = SS_FEATURE_ELU1,
     .row = share,
     .back = BACK(ss_share_back),
     .source = SS_DOC(TABLE_15)},
    {.name = "mlp_kernel",
     .label = "MLP kernel",
     .formula = SS_DOC("x_j, phi(z) = M2 relu(M1 z)"),
     .proxy = SS_PROXY_SHARE_ABS,
     .feature = SS_FEATURE_MLP,
     .row = identity,
     .back = BACK(ss_identity_back),
     .source = SS_DOC(TABLE_15)},
    {.name = "mlp_kernel_norm",
     .label = "MLP kernel, normalized",
     .formula = SS_DOC("x_j / max(|sum_i x_i|, 1), phi(z) = M2 relu(M1 z)"),
     .proxy = SS_PROXY_SHARE_ABS,
     .feature = SS_FEATURE_MLP,
     .row = share_of_at_least_1,
     .back = BACK(ss_share_of_at_least_1_back),
     .source = SS_DOC(TABLE_15)},
};

const ss_operation *ss_operations(int *n) {
    *n = (int)(sizeof table / sizeof *table);
    return table;
}

int ss_operation_find(const char *name) {
    int n;
    const ss_operation *row = ss_operations(&n);
    for (int i = 0; i < n; i++)
        if (!strcmp(row[i].name, name)) return i;
    return -1;
}

const char *ss_proxy_name(ss_proxy proxy) {
    return (const char *[]){"weights", "share", "share_abs"}[proxy];
}

const char *ss_feature_name(ss_feature feature) {
    return (const char *[]){"none", "elu1", "mlp"}[feature];
}

bool ss_operation_fits(const ss_operation *operation, const ss_model *model) {
    if (operation->feature != SS_FEATURE_MLP) return true;
    for (int a = 0; a < model->arch.L; a++)
        if (!model->layers[model->arch.layers[a]].kernel_in.w.data) return false;
    return true;
}

static int find_parameter(const ss_operation *operation, const char *name) {
    for (int p = 0; p < SS_PARAMETERS_MAX && operation->parameters[p].name; p++)
        if (!strcmp(operation->parameters[p].name, name)) return p;
    return -1;
}

static bool lacks_sinks(const ss_arch *arch, int a) {
    return arch->window_sinks && !arch->windowed[a];
}

/* Checks that a tensor gives each per-head parameter that the config does not give (NaN). */
static ss_status check_sinks(const ss_choice *choice, const ss_model *model, ss_error *err) {
    for (int a = 0; a < model->arch.L; a++)
        for (int p = 0; p < SS_PARAMETERS_MAX; p++)
            if (isnan(choice->parameters[p]) && !lacks_sinks(&model->arch, a) &&
                !model->layers[model->arch.layers[a]].sinks)
                return ss_fail(err, SS_BAD_CONFIG, "sinkscope.attention.parameters",
                               "expected a tensor self_attn.sinks in layer %d, or the parameter %s "
                               "in config.json",
                               model->arch.layers[a], choice->operation->parameters[p].name);
    return SS_OK;
}

ss_status ss_operation_own(ss_choice *choice, const ss_model *model, ss_error *err) {
    const ss_attention *attention = &model->arch.attention;
    int index = ss_operation_find(attention->operation);
    if (index < 0)
        return ss_fail(err, SS_UNSUPPORTED, "sinkscope.attention.operation",
                       "expected an operation of this build's table, found %s",
                       attention->operation);
    ss_choice own_choice = {.operation = &table[index], .mask = {0, INT_MAX, model->arch.prefix}};
    if (!ss_operation_fits(own_choice.operation, model))
        return ss_fail(err, SS_BAD_TENSOR, "self_attn.kernel_in",
                       "expected it for %s in all layers", own_choice.operation->name);
    for (int p = 0; p < SS_PARAMETERS_MAX; p++) {
        const ss_parameter *parameter = &own_choice.operation->parameters[p];
        own_choice.parameters[p] = parameter->per_head ? NAN : parameter->standard;
    }
    for (int i = 0; i < attention->parameters_n; i++) {
        int p = find_parameter(own_choice.operation, attention->parameters[i].name);
        if (p < 0)
            return ss_fail(err, SS_BAD_CONFIG, "sinkscope.attention.parameters",
                           "expected a parameter of %s, found %s", own_choice.operation->name,
                           attention->parameters[i].name);
        own_choice.parameters[p] = attention->parameters[i].value;
    }
    ss_status status = check_sinks(&own_choice, model, err);
    if (status == SS_OK) *choice = own_choice;
    return status;
}

ss_choice ss_operation_at(const ss_choice *own_choice, const ss_model *model, int a, int h) {
    ss_choice choice = *own_choice;
    if (lacks_sinks(&model->arch, a)) {
        choice.operation = &table[ss_operation_find("softmax")];
        memset(choice.parameters, 0, sizeof choice.parameters);
    }
    for (int p = 0; p < SS_PARAMETERS_MAX; p++)
        if (isnan(choice.parameters[p]))
            choice.parameters[p] = model->layers[model->arch.layers[a]].sinks[h];
    int window = ss_arch_window(&model->arch, a);
    if (window) choice.mask.recent = window;
    return choice;
}
