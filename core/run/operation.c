#include "operation.h"

#include "../base/doc.h"
#include "../math/kernels.h"
#include "../math/scalar.h"

#include <limits.h>
#include <math.h>
#include <string.h>

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

static void divide_by_sum(float *x, size_t n, const float *parameters) {
    (void)parameters;
    ss_scale(x, 1.0f / (ss_sum(x, n) + SS_PROXY_GUARD), n);
}

static void elu1_norm(float *x, size_t n, const float *parameters) {
    ss_elu1(x, n);
    divide_by_sum(x, n, parameters);
}

/* Divides scores by |sum| only if it exceeds 1, since a sum of signed numbers may be 0. */
static void divide_by_sum_above_1(float *x, size_t n, const float *parameters) {
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
    float factor = ss_expf(-top), sum = 0.0f;
    for (size_t j = 0; j < n; j++) {
        x[j] = ss_expf(x[j] - top) - factor;
        sum += fabsf(x[j]);
        x[j] = x[j] > 0.0f ? x[j] : 0.0f;
    }
    ss_scale(x, 1.0f / (sum + parameters[0] * factor), n);
}

static void softmax_clipped(float *x, size_t n, const float *parameters) {
    float zeta = parameters[0], gamma = parameters[1];
    softmax(x, n, parameters);
    for (size_t j = 0; j < n; j++) {
        float weight = (zeta - gamma) * x[j] + gamma;
        x[j] = weight < 0.0f ? 0.0f : weight > 1.0f ? 1.0f : weight;
    }
}

/* Binaries without training leave out the derivatives. */
#ifdef SS_NO_TRAINER
#define BACK(function) NULL
#else
#define BACK(function) function

/* Derivatives of the functions above; ss_operation.back (operation.h) says what they are. */
#define BACK_ARGS float *d, const float *x, const float *w, size_t n, const float *parameters

/* Propagates through softmax. The formula also holds with one more key of fixed score that has no
 * value: the term of this key in sum d w is 0. */
static float softmax_back(BACK_ARGS) {
    (void)x, (void)parameters;
    float mean = ss_dot(d, w, n);
    for (size_t j = 0; j < n; j++) d[j] = w[j] * (d[j] - mean);
    return 0.0f;
}

/* Propagates through softmax with a sink logit. The sink is one more key: its weight is 1 minus the
 * row's sum, and its value is 0. */
static float sink_logit_back(BACK_ARGS) {
    float mean = ss_dot(d, w, n);
    softmax_back(d, x, w, n, parameters);
    return -(1.0f - ss_sum(w, n)) * mean;
}

static float sigmoid_back(BACK_ARGS) {
    (void)x, (void)parameters;
    for (size_t j = 0; j < n; j++) d[j] *= w[j] * (1.0f - w[j]);
    return 0.0f;
}

/* Propagates through a share, w_j = u_j / (sum u + guard), to u: d u_j = (d_j - sum d w) / (sum u +
 * guard). */
static void propagate_share(float *d, const float *w, size_t n, float sum) {
    float mean = ss_dot(d, w, n), inverse = 1.0f / (sum + SS_PROXY_GUARD);
    for (size_t j = 0; j < n; j++) d[j] = (d[j] - mean) * inverse;
}

static float sigmoid_norm_back(BACK_ARGS) {
    (void)parameters;
    float sum = 0.0f;
    for (size_t j = 0; j < n; j++) sum += ss_sigmoidf(x[j]);
    propagate_share(d, w, n, sum);
    for (size_t j = 0; j < n; j++) {
        float u = ss_sigmoidf(x[j]);
        d[j] *= u * (1.0f - u);
    }
    return 0.0f;
}

static float relu_back(BACK_ARGS) {
    (void)w, (void)parameters;
    for (size_t j = 0; j < n; j++) d[j] = x[j] > 0.0f ? d[j] / (float)n : 0.0f;
    return 0.0f;
}

/* Propagates through elu(x) + 1. Where x is below 0, the derivative e^x is the weight itself; above
 * 0 the derivative is 1, and the weight exceeds 1. */
static float elu1_back(BACK_ARGS) {
    (void)x, (void)parameters;
    for (size_t j = 0; j < n; j++) d[j] *= w[j] < 1.0f ? w[j] : 1.0f;
    return 0.0f;
}

static float elu1_norm_back(BACK_ARGS) {
    (void)parameters;
    float sum = 0.0f;
    for (size_t j = 0; j < n; j++) sum += x[j] > 0.0f ? x[j] + 1.0f : ss_expf(x[j]);
    propagate_share(d, w, n, sum);
    for (size_t j = 0; j < n; j++)
        if (!(x[j] > 0.0f)) d[j] *= ss_expf(x[j]);
    return 0.0f;
}

static float identity_back(BACK_ARGS) {
    (void)d, (void)x, (void)w, (void)n, (void)parameters;
    return 0.0f;
}

static float divide_by_sum_back(BACK_ARGS) {
    (void)parameters;
    propagate_share(d, w, n, ss_sum(x, n));
    return 0.0f;
}

/* Propagates through w_j = x_j / max(|sum x|, 1). Where |sum x| exceeds 1, its derivative is the
 * sign of the sum; elsewhere the weights are the scores. */
static float divide_by_sum_above_1_back(BACK_ARGS) {
    (void)parameters;
    float sum = ss_sum(x, n), magnitude = fabsf(sum);
    if (magnitude > 1.0f) {
        float shift = ss_dot(d, w, n) * (sum < 0.0f ? -1.0f : 1.0f);
        for (size_t j = 0; j < n; j++) d[j] = (d[j] - shift) / magnitude;
    }
    return 0.0f;
}

/* Propagates through softmax times a: w = a p with p the softmax, dx_j = a p_j (d_j - sum d p). */
static float softmax_scaled_back(BACK_ARGS) {
    (void)x;
    float a = parameters[0], mean = a == 0.0f ? 0.0f : ss_dot(d, w, n) / a;
    for (size_t j = 0; j < n; j++) d[j] = w[j] * (d[j] - mean);
    return 0.0f;
}

/* Propagates through softmax with a p-norm: w_j = e^x_j / (sum e^px)^(1/p), so dw_j/dx_i = w_j ([i
 * = j] - w_i^p). */
static float softmax_p_back(BACK_ARGS) {
    float p = parameters[0], top = ss_max(x, n), sum = 0.0f, total = ss_dot(d, w, n);
    for (size_t j = 0; j < n; j++) sum += ss_expf((x[j] - top) * p);
    for (size_t j = 0; j < n; j++) d[j] = w[j] * d[j] - ss_expf((x[j] - top) * p) / sum * total;
    return 0.0f;
}

/* Propagates through softpick: with a_j = e^x_j - 1 and S = sum |a| + eps, dx_j = e^x_j ([a_j > 0]
 * d_j - sign(a_j) sum d w) / S. */
static float softpick_back(BACK_ARGS) {
    float top = ss_max(x, n), sum = 0.0f, total = ss_dot(d, w, n);
    top = top > 0.0f ? top : 0.0f;
    float factor = ss_expf(-top);
    for (size_t j = 0; j < n; j++) sum += fabsf(ss_expf(x[j] - top) - factor);
    sum += parameters[0] * factor;
    for (size_t j = 0; j < n; j++) {
        float e = ss_expf(x[j] - top), a = e - factor;
        float sign = a > 0.0f ? 1.0f : a < 0.0f ? -1.0f : 0.0f;
        d[j] = e * ((a > 0.0f ? d[j] : 0.0f) - sign * total) / sum;
    }
    return 0.0f;
}

/* Propagates through clipped softmax. A clipped weight has derivative 0, but its score still enters
 * the sum of the other weights. */
static float softmax_clipped_back(BACK_ARGS) {
    float zeta = parameters[0], gamma = parameters[1], mean = 0.0f;
    float top = ss_max(x, n), sum = 0.0f;
    for (size_t j = 0; j < n; j++) sum += ss_expf(x[j] - top);
    for (size_t j = 0; j < n; j++) {
        d[j] = w[j] > 0.0f && w[j] < 1.0f ? d[j] * (zeta - gamma) : 0.0f;
        mean += d[j] * (ss_expf(x[j] - top) / sum);
    }
    for (size_t j = 0; j < n; j++) d[j] = ss_expf(x[j] - top) / sum * (d[j] - mean);
    return 0.0f;
}
#endif

#define TABLE_15 "Gu et al. 2025, section 7.4, table 15"

/* What sink scores are computed from, and whether the weights of a row sum to 1. */
#define NORMALIZED .proxy = SS_PROXY_WEIGHTS, .normalizes = true
#define SHARE .proxy = SS_PROXY_SHARE
#define SHARE_ABS .proxy = SS_PROXY_SHARE_ABS

#define PARAMETERS(...) .parameters = {__VA_ARGS__}
#define OPERATION(id, title, function, derivative, definition, reference, ...)                     \
    {                                                                                              \
        .name = #id, .label = title, .normalize_row = function, .back = BACK(derivative),          \
        .formula = SS_DOC(definition), .source = SS_DOC(reference), __VA_ARGS__                    \
    }

static const ss_operation table[] = {
    OPERATION(softmax, "softmax", softmax, softmax_back, "exp(x_j) / sum_i exp(x_i)",
              "Vaswani et al. 2017, section 3.2.1", NORMALIZED),
    OPERATION(sigmoid, "sigmoid", sigmoid, sigmoid_back, "1 / (1 + exp(-(x_j + b)))",
              "Gu et al. 2025, section 7.4, table 6: sigmoid without normalization", SHARE,
              PARAMETERS({"bias", 0.0f, -20.0f, 20.0f, false, SS_DOC("b, added to every score")})),
    OPERATION(sigmoid_log_n, "sigmoid, bias -log n", sigmoid_log_n, sigmoid_back,
              "1 / (1 + exp(-(x_j - log n))), n visible keys",
              "Ramapuram et al. 2025, section 2, with n the keys this query sees", SHARE),
    OPERATION(sigmoid_norm, "sigmoid, normalized", sigmoid_norm, sigmoid_norm_back,
              "s(x_j) / (sum_i s(x_i) + 1e-8), s the sigmoid",
              "Gu et al. 2025, section 7.4, table 6: sigmoid with normalization", NORMALIZED),
    OPERATION(softmax1, "softmax1 (off by one)", softmax1, softmax_back,
              "exp(x_j) / (1 + sum_i exp(x_i))", "Miller 2023; a key and a value of zeros", SHARE),
    OPERATION(sink_logit, "sink logit (learnable)", sink_logit, sink_logit_back,
              "exp(x_j) / (exp(s_h) + sum_i exp(x_i))",
              "OpenAI 2025, gpt-oss: one logit per head beside the keys", SHARE,
              PARAMETERS({"logit", 0.0f, -30.0f, 30.0f, true,
                          SS_DOC("s_h, the logit of a key without value")})),
    OPERATION(relu, "ReLU / n", relu, relu_back, "max(x_j, 0) / n, n visible keys",
              "Guo et al. 2024, active-dormant attention heads", SHARE),
    OPERATION(elu1, "elu + 1", elu1, elu1_back, "y_j + 1 if y_j > 0, else exp(y_j), y_j = x_j + b",
              "Gu et al. 2025, section 7.4, table 6: elu + 1 without normalization", SHARE,
              PARAMETERS({"bias", 0.0f, -20.0f, 20.0f, false, SS_DOC("b, added to every score")})),
    OPERATION(identity, "identity (linear)", identity, identity_back, "x_j",
              "Gu et al. 2025, section 7.4, table 6: identity without normalization", SHARE_ABS),
    OPERATION(softmax_scaled, "softmax, rows sum to a", softmax_scaled, softmax_scaled_back,
              "a exp(x_j) / sum_i exp(x_i)",
              "Gu et al. 2025, section 7.4, table 14: scores that sum to alpha", SHARE,
              PARAMETERS({"sum", 1.0f, 0.0f, 10.0f, false, SS_DOC("a, what every row sums to")})),
    OPERATION(
        softmax_p, "softmax, p-normalized", softmax_p, softmax_p_back,
        "exp(x_j) / (sum_i exp(p x_i))^(1/p)",
        "Gu et al. 2025, section 7.4: normalized by the p-norm", SHARE,
        PARAMETERS({"p", 2.0f, 0.1f, 10.0f, false, SS_DOC("the powers of the weights sum to 1")})),
    OPERATION(softpick, "softpick", softpick, softpick_back,
              "max(exp(x_j) - 1, 0) / (sum_i |exp(x_i) - 1| + eps)",
              "Zuhri et al. 2025, softpick: rectified softmax", SHARE,
              PARAMETERS({"eps", 1e-6f, 1e-12f, 1.0f, false, SS_DOC("keeps the division finite")})),
    OPERATION(
        softmax_clipped, "softmax, clipped", softmax_clipped, softmax_clipped_back,
        "clip((zeta - gamma) exp(x_j) / sum_i exp(x_i) + gamma, 0, 1)",
        "Bondarenko et al. 2023, section 4.1", SHARE,
        PARAMETERS(
            {"zeta", 1.0f, 1.0f, 2.0f, false, SS_DOC("upper end of the stretched range")},
            {"gamma", -0.03f, -1.0f, 0.0f, false, SS_DOC("lower end of the stretched range")})),
    OPERATION(elu1_norm, "elu + 1, normalized", elu1_norm, elu1_norm_back,
              "(elu(x_j) + 1) / (sum_i (elu(x_i) + 1) + 1e-8)", TABLE_15, NORMALIZED),
    OPERATION(identity_norm, "identity, normalized", divide_by_sum_above_1,
              divide_by_sum_above_1_back, "x_j / max(|sum_i x_i|, 1)", TABLE_15, SHARE_ABS),
    OPERATION(elu1_kernel, "elu + 1 kernel", identity, identity_back, "x_j, phi(z) = elu(z) + 1",
              TABLE_15, SHARE_ABS /* distance terms may make scores negative */,
              .feature = SS_FEATURE_ELU1),
    OPERATION(elu1_kernel_norm, "elu + 1 kernel, normalized", divide_by_sum, divide_by_sum_back,
              "x_j / (sum_i x_i + 1e-8), phi(z) = elu(z) + 1", TABLE_15, NORMALIZED,
              .feature = SS_FEATURE_ELU1),
    OPERATION(mlp_kernel, "MLP kernel", identity, identity_back, "x_j, phi(z) = M2 relu(M1 z)",
              TABLE_15, SHARE_ABS, .feature = SS_FEATURE_MLP),
    OPERATION(mlp_kernel_norm, "MLP kernel, normalized", divide_by_sum_above_1,
              divide_by_sum_above_1_back, "x_j / max(|sum_i x_i|, 1), phi(z) = M2 relu(M1 z)",
              TABLE_15, SHARE_ABS, .feature = SS_FEATURE_MLP),
};

const ss_operation *ss_operations(int *n) {
    if (n) *n = (int)(sizeof table / sizeof *table);
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
    ss_choice model_choice = {.operation = &table[index], .mask = {0, INT_MAX, model->arch.prefix}};
    if (!ss_operation_fits(model_choice.operation, model))
        return ss_fail(err, SS_BAD_TENSOR, "self_attn.kernel_in",
                       "expected it for %s in all layers", model_choice.operation->name);
    for (int p = 0; p < SS_PARAMETERS_MAX; p++) {
        const ss_parameter *parameter = &model_choice.operation->parameters[p];
        model_choice.parameters[p] = parameter->per_head ? NAN : parameter->default_value;
    }
    for (int i = 0; i < attention->parameters_n; i++) {
        int p = find_parameter(model_choice.operation, attention->parameters[i].name);
        if (p < 0)
            return ss_fail(err, SS_BAD_CONFIG, "sinkscope.attention.parameters",
                           "expected a parameter of %s, found %s", model_choice.operation->name,
                           attention->parameters[i].name);
        model_choice.parameters[p] = attention->parameters[i].value;
    }
    ss_status status = check_sinks(&model_choice, model, err);
    if (status == SS_OK) *choice = model_choice;
    return status;
}

ss_choice ss_operation_at(const ss_choice *model_choice, const ss_model *model, int a, int h) {
    ss_choice choice = *model_choice;
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
