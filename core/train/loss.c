#include "loss.h"

#include "../math/kernels.h"

/* Returns -ln softmax(x)[target] and turns x into the derivative of this loss: the softmax, minus 1
 * at the target. */
static float cross_entropy(float *x, int target, size_t V) {
    float logit = x[target], top = ss_max(x, V), sum = ss_exp(x, x, top, V);
    ss_scale(x, 1.0f / sum, V);
    x[target] -= 1.0f;
    return (float)((double)top + ss_log((double)sum) - (double)logit);
}

/* Returns the squared distance of x from the target and turns x into the derivative of this
 * distance. */
static float squared_error(float *x, const ss_task *task, const ss_sequence *sequence, int t,
                           float *target) {
    size_t V = (size_t)task->arch->V;
    ss_task_target(target, task, sequence, t);
    for (size_t v = 0; v < V; v++) x[v] -= target[v];
    float error = ss_dot(x, x, V);
    ss_scale(x, 2.0f, V);
    return error;
}

void ss_loss_back(float *logits, float *losses, const ss_task *task, const ss_sequence *sequence,
                  float factor, int T) {
    int n;
    size_t V = (size_t)task->arch->V;
    bool square = ss_tasks(&n)[task->row].square;
    for (int t = 0; t < T; t++, logits += V) {
        losses[t] = square ? squared_error(logits, task, sequence, t, task->target)
                           : cross_entropy(logits, sequence->targets[t], V);
        ss_scale(logits, factor * sequence->weights[t], V);
    }
}
