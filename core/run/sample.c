#include "sample.h"

#include "../math/scalar.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static int descending(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

static int largest(const float *logits, int V) {
    int best = 0;
    for (int v = 1; v < V; v++)
        if (logits[v] > logits[best]) best = v;
    return best;
}

/* How many logits equal to the smallest admitted one are admitted, and that one. */
static int find_cutoff(float *cutoff, const float *logits, int V, int top_k, float *work) {
    memcpy(work, logits, (size_t)V * sizeof *work);
    qsort(work, (size_t)V, sizeof *work, descending);
    *cutoff = work[top_k - 1];
    int equal = 0;
    for (int i = 0; i < top_k; i++) equal += work[i] == *cutoff;
    return equal;
}

int ss_sample(const float *logits, int V, float temperature, int top_k, uint32_t random,
              float *work) {
    int best = largest(logits, V);
    if (!(temperature > 0.0f)) return best;
    if (top_k < 1 || top_k > V) top_k = V;
    float cutoff;
    int equal = find_cutoff(&cutoff, logits, V, top_k, work);
    double sum = 0.0;
    for (int v = 0; v < V; v++) {
        bool admitted = logits[v] > cutoff || (logits[v] == cutoff && equal-- > 0);
        work[v] = admitted ? ss_expf((logits[v] - logits[best]) / temperature) : 0.0f;
        sum += (double)work[v];
    }
    double point = (double)random / 4294967296.0 * sum;
    for (int v = 0; v < V; v++) {
        point -= (double)work[v];
        if (point < 0.0) return v;
    }
    return best; /* rounding, or logits that are not numbers */
}
