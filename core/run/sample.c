#include "sample.h"

#include "../math/scalar.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

static int argmax(const float *logits, int V) {
    int best = 0;
    for (int v = 1; v < V; v++)
        if (logits[v] > logits[best]) best = v;
    return best;
}

static void sift_down(float *heap, int n, int node) {
    float x = heap[node];
    for (int child; (child = 2 * node + 1) < n; node = child) {
        if (child + 1 < n && heap[child + 1] < heap[child]) child++;
        if (!(heap[child] < x)) break;
        heap[node] = heap[child];
    }
    heap[node] = x;
}

/* Sets *cutoff to the top_k-th largest logit, top_k < V; returns how many of the top_k logits are
 * equal to the cutoff. */
static int find_cutoff(float *cutoff, const float *logits, int V, int top_k, float *heap) {
    memcpy(heap, logits, (size_t)top_k * sizeof *heap);
    for (int node = top_k / 2; node-- > 0;) sift_down(heap, top_k, node);
    for (int v = top_k; v < V; v++) {
        if (!(logits[v] > heap[0])) continue;
        heap[0] = logits[v];
        sift_down(heap, top_k, 0);
    }
    *cutoff = heap[0];
    int equal_n = 0;
    for (int i = 0; i < top_k; i++) equal_n += heap[i] == *cutoff;
    return equal_n;
}

int ss_sample(const float *logits, int V, float temperature, int top_k, uint32_t random,
              float *work) {
    int best = argmax(logits, V);
    if (!(temperature > 0.0f)) return best;
    float cutoff = -INFINITY;
    int equal_n = V;
    if (top_k > 0 && top_k < V) equal_n = find_cutoff(&cutoff, logits, V, top_k, work);
    double sum = 0.0;
    for (int v = 0; v < V; v++) {
        bool is_admitted = logits[v] > cutoff || (logits[v] == cutoff && equal_n-- > 0);
        work[v] = is_admitted ? ss_expf((logits[v] - logits[best]) / temperature) : 0.0f;
        sum += (double)work[v];
    }
    double point = (double)random / 4294967296.0 * sum;
    for (int v = 0; v < V; v++) {
        point -= (double)work[v];
        if (point < 0.0) return v;
    }
    return best; /* rounding errors and NaN logits lead here */
}
