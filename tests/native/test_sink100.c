/* Sink scores of both twins over a hundred held-out sequences: the first figures of README. */
#include "check.h"
#include "goldens.h"

#include <math.h>

static void check_sink100(const char *twin, const char *model_folder) {
    char key[64];
    CASE(twin);
    scoped_file file = open_file("tests/golden/sink100", "golden.safetensors");
    scoped_model model = open_model(model_folder);
    int tokens_n;
    scoped int32_t *tokens = golden_tokens(&file, &tokens_n);
    snprintf(key, sizeof key, "%s.alpha_1", twin);
    const ss_tensor *alpha_1 = golden(&file, key);
    snprintf(key, sizeof key, "%s.sink", twin);
    const ss_tensor *sink = golden(&file, key);
    snprintf(key, sizeof key, "%s.loss", twin);
    float expected_loss = number_at(golden(&file, key), 0);
    int T = 64, sequences = tokens_n / T, heads = model.model.arch.L * model.model.arch.H;
    double sums[10] = {0}, loss = 0;
    float worst = 0;
    for (int s = 0; s < sequences; s++) {
        scoped_run run = run_tokens(&model.model, tokens + s * T, T, NULL, 0);
        const ss_trace *trace = &run.run.trace;
        scoped float *ratio = measure(trace, "sink_ratio", 0.3f, 0, 0, 0, NULL);
        scoped float *alpha = measure(trace, "alpha", 0.3f, 0, 0, 0, NULL);
        scoped float *loss_mean = measure(trace, "loss_mean", 0.3f, 0, 0, 0, NULL);
        for (int k = 0; k < 10; k++) sums[k] += (double)ratio[k];
        loss += (double)*loss_mean;
        for (int i = 0; i < heads; i++)
            worst = fmaxf(worst, fabsf(alpha[(size_t)i * (size_t)T] -
                                       number_at(alpha_1, (size_t)(s * heads + i))));
    }
    printf("  Sink_1^0.3 = %.2f %% over %d sequences of %d tokens, BOS first; loss %.4f; "
           "alpha_1 off by %.1e\n",
           100 * sums[0] / sequences, sequences, T, loss / sequences, (double)worst);
    CHECK(is_within((double)worst, 1e-5));
    for (size_t k = 0; k < 10; k++)
        CHECK_NEAR(100 * sums[k] / sequences, (double)number_at(sink, k), 0.01);
    CHECK_NEAR(loss / sequences, (double)expected_loss, 1e-4);
}

int main(void) {
    check_sink100("softmax", "models/zoo/softmax");
    check_sink100("sigmoid", "models/zoo/sigmoid");
    return check_done();
}
