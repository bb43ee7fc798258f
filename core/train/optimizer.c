#include "optimizer.h"

#include "../math/kernels.h"
#include "../math/scalar.h"

double ss_learning_rate(const ss_recipe *recipe, int step) {
    if (step < recipe->warm_up) return recipe->learning_rate * (double)(step + 1) / recipe->warm_up;
    double begin = recipe->steps * (1.0 - recipe->fall);
    if (step <= begin) return recipe->learning_rate;
    double decay = ((double)step - begin) / (recipe->steps - begin);
    return recipe->learning_rate * (1.0 - 0.9 * (decay < 1.0 ? decay : 1.0));
}

double ss_gradient_norm(const ss_parameters *gradients) {
    double sum = 0.0;
    for (size_t i = 0; i < gradients->n; i += 4096) {
        size_t n = ss_min_size(gradients->n - i, 4096);
        sum += (double)ss_dot(gradients->numbers + i, gradients->numbers + i, n);
    }
    return sqrt(sum);
}

typedef struct rates {
    float scale, beta1, beta2;
    float step;      /* step size along the mean gradient */
    float root;      /* factor of the root of the mean square */
    float remaining; /* part of a weight that remains after weight decay */
} rates;

#define ADAM_EPS 1e-8f

static void adamw(float *w, const float *g, float *mean, float *square, const rates *r, size_t n) {
    for (size_t i = 0; i < n; i++) {
        float gradient = g[i] * r->scale;
        mean[i] = r->beta1 * mean[i] + (1.0f - r->beta1) * gradient;
        square[i] = r->beta2 * square[i] + (1.0f - r->beta2) * (gradient * gradient);
        w[i] = w[i] * r->remaining - r->step * (mean[i] / (sqrtf(square[i]) * r->root + ADAM_EPS));
    }
}

static void sgd(float *w, const float *g, float *mean, const rates *r, size_t n) {
    for (size_t i = 0; i < n; i++) {
        mean[i] = r->beta1 * mean[i] + g[i] * r->scale;
        w[i] = w[i] * r->remaining - r->step * mean[i];
    }
}

void ss_update(ss_parameters *weights, const ss_parameters *gradients, float *mean, float *square,
               const ss_recipe *recipe, int step, double scale) {
    double rate = ss_learning_rate(recipe, step), updates = (double)step + 1.0;
    bool is_adam = (int)recipe->optimizer == SS_ADAMW;
    rates r = {.scale = (float)scale,
               .beta1 = (float)recipe->beta1,
               .beta2 = (float)recipe->beta2,
               .step = (float)rate};
    if (is_adam) { /* corrects the bias of the means, which begin at 0 */
        r.step = (float)(rate / (1.0 - ss_pow(recipe->beta1, updates)));
        r.root = (float)(1.0 / sqrt(1.0 - ss_pow(recipe->beta2, updates)));
    }
    const ss_container *container = &weights->container;
    for (size_t i = 0; i < container->n; i++) {
        const ss_entry *entry = &container->entries[i];
        size_t n = ss_tensor_count(&entry->tensor);
        size_t offset = (size_t)((const float *)entry->tensor.data - weights->numbers);
        r.remaining = (float)(1.0 - rate * ss_parameters_decay(weights, i, recipe));
        if (is_adam)
            adamw(weights->numbers + offset, gradients->numbers + offset, mean + offset,
                  square + offset, &r, n);
        else
            sgd(weights->numbers + offset, gradients->numbers + offset, mean + offset, &r, n);
    }
}
