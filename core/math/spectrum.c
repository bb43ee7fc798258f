#include "spectrum.h"

#include "../base/bytes.h"
#include "kernels.h"
#include "pack.h"
#include "scalar.h"

#include <math.h>
#include <string.h>

/* Smaller off-diagonal numbers count as zero: eigenvalues stay the same, as the trace is 1. */
#define OFF_DIAGONAL_MIN 1e-15
/* Upper bound of the QR steps for one eigenvalue: two or three steps converge, and the bound ends
 * the loop for any input. */
#define QR_STEPS_MAX 16

/* Returns row i of a symmetric matrix of n (n + 1) / 2 numbers; rows end on the diagonal. */
static double *row_of(double *matrix, size_t i) {
    return matrix + i * (i + 1) / 2;
}

static void add_rows(double *gram, float *buffer, const float *h, size_t n, size_t D) {
    float *columns = buffer, *tiles = columns + n * SS_SPECTRUM_COLUMNS;
    float *out = tiles + n * SS_SPECTRUM_COLUMNS, *panels = out + D * SS_SPECTRUM_COLUMNS;
    ss_pack_columns(panels, h, D, D, n);
    for (size_t i = 0; i < D; i += SS_SPECTRUM_COLUMNS) {
        size_t rows = ss_min_size(D - i, SS_SPECTRUM_COLUMNS);
        for (size_t r = 0; r < rows; r++)
            for (size_t t = 0; t < n; t++) columns[r * n + t] = h[t * D + i + r];
        ss_tile(tiles, columns, n, rows, n);
        ss_matmul(out, D, tiles, panels, NULL, rows, i + rows, n);
        for (size_t r = 0; r < rows; r++)
            ss_add_shares(row_of(gram, i + r), out + r * D, 1.0, false, i + r + 1);
    }
}

static size_t write_gram_matrix(double *gram, const float *h, size_t n, size_t D) {
    if (n <= D) {
        for (size_t i = 0; i < n; i++)
            for (size_t j = 0; j <= i; j++)
                row_of(gram, i)[j] = (double)ss_dot(h + i * D, h + j * D, D);
        return n;
    }
    size_t numbers = D * (D + 9) / 2;
    memset(gram, 0, numbers * sizeof *gram);
    for (size_t t = 0, rows; t < n; t += rows) {
        rows = ss_min_size(n - t, SS_SPECTRUM_ROWS);
        add_rows(gram, (float *)(void *)(gram + numbers), h + t * D, rows, D);
    }
    return D;
}

/* Number of partial sums of a row, which fill whole vectors of doubles. */
#define LANES 4

/* The reflection of an earlier row, which turns A into A - u w^T - w u^T. */
typedef struct reflection {
    const double *u, *w;
} reflection;

/* Applies the previous reflection to the first n numbers of row i, adds u[i] row to out, and
 * returns row . u, reading the row only once. */
static double update_row(double *restrict out, double *restrict row, const double *restrict u,
                         const double *restrict old_u, const double *restrict old_w, size_t i,
                         size_t n) {
    double factor = u[i], factor_w = old_u[i], factor_u = old_w[i], sums[LANES] = {0}, sum = 0.0;
    size_t j = 0;
    for (; j + LANES <= n; j += LANES)
        for (size_t k = 0; k < LANES; k++) {
            row[j + k] -= factor_w * old_w[j + k] + factor_u * old_u[j + k];
            sums[k] += row[j + k] * u[j + k];
            out[j + k] += row[j + k] * factor;
        }
    for (; j < n; j++) {
        row[j] -= factor_w * old_w[j] + factor_u * old_u[j];
        sum += row[j] * u[j];
        out[j] += row[j] * factor;
    }
    return (sums[0] + sums[2]) + (sums[1] + sums[3]) + sum;
}

static void update_matrix(double *out, double *matrix, const double *u, reflection previous,
                          size_t n) {
    for (size_t i = 0; i < n; i++) {
        double *row = row_of(matrix, i),
               sum = update_row(out, row, u, previous.u, previous.w, i, i);
        row[i] -= 2.0 * previous.u[i] * previous.w[i];
        out[i] = row[i] * u[i] + sum;
    }
}

/* Finds one reflection H = I - 2 u u^T / |u|^2 that leaves row n with its diagonal and one number
 * next to it, which is returned; stores u in the row and w in work[n]. This call applies only the
 * `previous` reflection to the rows above; the next call applies this one. */
static double reflect(double *matrix, double *work, reflection previous, size_t n) {
    double *u = row_of(matrix, n), square = 0.0, projection = 0.0, factor_w = previous.u[n],
           factor_u = previous.w[n];
    for (size_t j = 0; j <= n; j++) u[j] -= factor_w * previous.w[j] + factor_u * previous.u[j];
    for (size_t j = 0; j + 1 < n; j++) square += u[j] * u[j];
    double length = u[n - 1], half = 0.0; /* |u|^2 / 2, once u is the vector */
    if (square > 0.0) {
        square += u[n - 1] * u[n - 1];
        length = u[n - 1] > 0.0 ? -sqrt(square) : sqrt(square);
        half = square - u[n - 1] * length;
        u[n - 1] -= length;
    }
    update_matrix(work, matrix, u, previous, n);
    for (size_t j = 0; j < n; j++) projection += u[j] * work[j];
    for (size_t j = 0; j < n; j++)
        work[j] = half > 0.0 ? (work[j] - projection / (2.0 * half) * u[j]) / half : 0.0;
    return length;
}

/* Does a QR step on rows first..last of the tridiagonal matrix (`diagonal`, `off_diagonal`). */
static void qr_step(double *diagonal, double *off_diagonal, size_t first, size_t last) {
    double gap = (diagonal[last - 1] - diagonal[last]) / 2.0, last_off = off_diagonal[last - 1];
    double root = sqrt(gap * gap + last_off * last_off);
    double shift = diagonal[last] - last_off * last_off / (gap + (gap < 0.0 ? -root : root));
    double x = diagonal[first] - shift, bulge = off_diagonal[first];
    for (size_t k = first; k < last; k++) {
        double r = sqrt(x * x + bulge * bulge), c = r > 0.0 ? x / r : 1.0;
        double s = r > 0.0 ? bulge / r : 0.0;
        double a = diagonal[k], b = diagonal[k + 1], o = off_diagonal[k];
        if (k > first) off_diagonal[k - 1] = r;
        diagonal[k] = c * c * a + 2.0 * c * s * o + s * s * b;
        diagonal[k + 1] = s * s * a - 2.0 * c * s * o + c * c * b;
        off_diagonal[k] = x = c * s * (b - a) + (c * c - s * s) * o;
        if (k + 1 == last) return;
        bulge = s * off_diagonal[k + 1];
        off_diagonal[k + 1] *= c;
    }
}

static void find_eigenvalues(double *diagonal, double *off_diagonal, size_t n) {
    for (size_t last = n - 1; last > 0; last--)
        for (int i = 0; i < QR_STEPS_MAX && fabs(off_diagonal[last - 1]) > OFF_DIAGONAL_MIN; i++) {
            size_t first = last - 1;
            while (first > 0 && fabs(off_diagonal[first - 1]) > OFF_DIAGONAL_MIN) first--;
            qr_step(diagonal, off_diagonal, first, last);
        }
}

/* Returns how many p_j there are and points `shares` into `work`; 0: they are undefined. */
static size_t find_shares(double *work, const float *h, size_t n, size_t D, double **shares) {
    double trace = 0.0;
    size_t size = n ? write_gram_matrix(work, h, n, D) : 0, numbers = size * (size + 1) / 2;
    for (size_t i = 0; i < size; i++) trace += row_of(work, i)[i];
    if (!(trace > 0.0) || !isfinite(trace)) return 0;
    double *diagonal = work + numbers, *off_diagonal = diagonal + size, *w[2];
    w[0] = off_diagonal + size;
    w[1] = w[0] + size;
    reflection previous = {row_of(work, size - 1), w[1]}; /* changes nothing, since its w is 0 */
    memset(w[1], 0, size * sizeof *w[1]);
    for (size_t i = 0; i < numbers; i++) work[i] /= trace;
    for (size_t i = size - 1; i > 0; i--) {
        double *w_row = w[(size - 1 - i) % 2];
        off_diagonal[i - 1] = reflect(work, w_row, previous, i);
        previous = (reflection){row_of(work, i), w_row};
    }
    for (size_t i = 0; i < size; i++) diagonal[i] = row_of(work, i)[i];
    find_eigenvalues(diagonal, off_diagonal, size);
    *shares = diagonal;
    return size;
}

float ss_matrix_entropy(double *work, const float *h, size_t n, size_t D) {
    double *shares = NULL, entropy = 0.0;
    size_t size = find_shares(work, h, n, D, &shares);
    if (size < 2) return NAN;
    for (size_t i = 0; i < size; i++)
        if (shares[i] > 0.0) entropy -= shares[i] * ss_log(shares[i]);
    return (float)(entropy / ss_log((double)size));
}

float ss_stable_rank(double *work, const float *h, size_t n, size_t D) {
    double *shares = NULL, largest = 0.0;
    size_t size = find_shares(work, h, n, D, &shares);
    for (size_t i = 0; i < size; i++)
        if (shares[i] > largest) largest = shares[i];
    return size ? (float)(1.0 / largest) : NAN;
}
