#include "pack.h"

#include "kernels.h"
#include "scalar.h"

#include <stdbool.h>

static uint16_t read_u16(const unsigned char *bytes) {
    return (uint16_t)(bytes[0] | bytes[1] << 8);
}

static uint32_t read_u32(const unsigned char *bytes) {
    return (uint32_t)read_u16(bytes) | (uint32_t)read_u16(bytes + 2) << 16;
}

/* Number i of the source; the type is one of those that weights have. */
static float read_number(const unsigned char *source, ss_dtype type, size_t i) {
    switch (type) {
    case SS_F16: return ss_float_of_f16(read_u16(source + 2 * i));
    case SS_BF16: return ss_float_of_bf16(read_u16(source + 2 * i));
    default: return ss_float_of_bits(read_u32(source + 4 * i));
    }
}

static bool is_finite(float x) {
    return (ss_bits_of_float(x) & 0x7f800000u) != 0x7f800000u;
}

size_t ss_panels_floats(size_t N, size_t Kin) {
    return (N + SS_PANEL - 1) / SS_PANEL * SS_PANEL * Kin;
}

size_t ss_pack(float *panels, const void *source, ss_dtype type, size_t N, size_t Kin,
               size_t stride_n, size_t stride_k) {
    size_t bad = SIZE_MAX;
    for (size_t first = 0; first < N; first += SS_PANEL)
        for (size_t k = 0; k < Kin; k++, panels += SS_PANEL)
            for (size_t lane = 0; lane < SS_PANEL; lane++) {
                size_t n = first + lane, i = n * stride_n + k * stride_k;
                panels[lane] = n < N ? read_number(source, type, i) : 0.0f;
                if (!is_finite(panels[lane]) && i < bad) bad = i;
            }
    return bad;
}

size_t ss_unpack_floats(float *out, const void *source, ss_dtype type, size_t n) {
    size_t bad = SIZE_MAX;
    for (size_t i = 0; i < n; i++) {
        out[i] = read_number(source, type, i);
        if (!is_finite(out[i]) && bad == SIZE_MAX) bad = i;
    }
    return bad;
}

void ss_panel_column(float *out, const float *panels, size_t n, size_t Kin) {
    const float *panel = panels + n / SS_PANEL * SS_PANEL * Kin + n % SS_PANEL;
    for (size_t k = 0; k < Kin; k++) out[k] = panel[k * SS_PANEL];
}

void ss_pack_keys(float *panels, const float *keys, size_t stride, size_t T, size_t K) {
    for (size_t first = 0; first < T; first += SS_PANEL)
        for (size_t k = 0; k < K; k++, panels += SS_PANEL)
            for (size_t lane = 0; lane < SS_PANEL; lane++)
                panels[lane] = first + lane < T ? keys[(first + lane) * stride + k] : 0.0f;
}
