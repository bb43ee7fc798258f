#include "pack.h"

#include "kernels.h"

#include <string.h>

size_t ss_panels_floats(size_t N, size_t Kin) {
    return (N + SS_PANEL - 1) / SS_PANEL * SS_PANEL * Kin;
}

void ss_pack_rows(float *panels, const float *rows, size_t stride, size_t N, size_t Kin) {
    for (size_t n = 0; n < N; n += SS_PANEL, panels += SS_PANEL * Kin) {
        const void *lanes[SS_PANEL] = {0};
        for (size_t lane = 0; lane < SS_PANEL && n + lane < N; lane++)
            lanes[lane] = rows + (n + lane) * stride;
        ss_interleave(panels, lanes, Kin);
    }
}

void ss_pack_columns(float *panels, const float *rows, size_t stride, size_t N, size_t Kin) {
    size_t n = 0;
    /* A constant size compiles to two vector moves, not to a call. */
    for (; n + SS_PANEL <= N; n += SS_PANEL)
        for (size_t k = 0; k < Kin; k++, panels += SS_PANEL)
            memcpy(panels, rows + k * stride + n, SS_PANEL * sizeof *panels);
    if (n == N) return;
    for (size_t k = 0; k < Kin; k++, panels += SS_PANEL) {
        memcpy(panels, rows + k * stride + n, (N - n) * sizeof *panels);
        memset(panels + N - n, 0, (SS_PANEL - (N - n)) * sizeof *panels);
    }
}
