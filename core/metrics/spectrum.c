/*
 * Do the tokens' hidden states point in many directions, or in one?
 *
 * Matrix entropy of H [n][D]: with p_j = sigma_j^2 / |H|_F^2, -sum_j p_j ln p_j over ln min(n, D);
 * 1 where all directions have equal variance, 0 where one has all of it. Lower entropy in the
 * middle layers is a compression valley (arXiv 2510.06477), which one massive row makes alone; the
 * metric without the first token shows the others. H is not centred. NaN for a single row, where
 * all is zero, and where a square is not finite.
 *
 * The sigma_j^2 are the eigenvalues of the smaller of H H^T and H^T H, in double: Householder
 * reflections make it tridiagonal, rotations of QR steps with Wilkinson's shift make it diagonal
 * (Golub and Van Loan 2013, sections 8.3.1 and 8.3.3). No vectors are needed, so the work is
 * O(min(n, D)^3) once.
 */
#include "../math/kernels.h"
#include "../math/pack.h"
#include "../math/scalar.h"
#include "measures.h"

#include <math.h>
#include <string.h>

/* An off-diagonal number below this moves no eigenvalue that counts, since the trace is 1. */
#define NEGLIGIBLE 1e-15
/* The QR steps for one eigenvalue: two or three converge, and the bound ends the loop for any
 * input. */
#define STEPS 16

/* Returns row i of a symmetric matrix stored as n (n + 1) / 2 numbers: those left of the diagonal,
 * and it. */
static double *row_of(double *matrix, size_t i) {
    return matrix + i * (i + 1) / 2;
}

/* Adds H^T H of at most SS_SPECTRUM_ROWS rows to gram; within these rows sums are floats. */
static void add_rows(double *gram, float *buffer, const float *h, size_t n, size_t D) {
    float *columns = buffer, *tiles = columns + n * SS_SPECTRUM_COLUMNS;
    float *out = tiles + n * SS_SPECTRUM_COLUMNS, *panels = out + D * SS_SPECTRUM_COLUMNS;
    ss_pack_columns(panels, h, D, D, n);
    for (size_t i = 0; i < D; i += SS_SPECTRUM_COLUMNS) {
        size_t rows = D - i < SS_SPECTRUM_COLUMNS ? D - i : SS_SPECTRUM_COLUMNS;
        for (size_t r = 0; r < rows; r++)
            for (size_t t = 0; t < n; t++) columns[r * n + t] = h[t * D + i + r];
        ss_tile(tiles, columns, n, rows, n);
        ss_matmul(out, D, tiles, panels, NULL, rows, i + rows, n);
        for (size_t r = 0; r < rows; r++)
            ss_add_shares(row_of(gram, i + r), out + r * D, 1.0, false, i + r + 1);
    }
}

/* Writes the Gram matrix of the n rows of H or of its D columns, whichever is smaller, and returns
 * its size. */
static size_t multiply(double *gram, const float *h, size_t n, size_t D) {
    if (n <= D) {
        for (size_t i = 0; i < n; i++)
            for (size_t j = 0; j <= i; j++)
                row_of(gram, i)[j] = (double)ss_dot(h + i * D, h + j * D, D);
        return n;
    }
    size_t numbers = D * (D + 7) / 2;
    memset(gram, 0, numbers * sizeof *gram);
    for (size_t t = 0, rows; t < n; t += rows) {
        rows = n - t < SS_SPECTRUM_ROWS ? n - t : SS_SPECTRUM_ROWS;
        add_rows(gram, (float *)(void *)(gram + numbers), h + t * D, rows, D);
    }
    return D;
}

/* Computes out = A u over the first n rows and columns. */
static void multiply_vector(double *out, double *matrix, const double *u, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const double *row = row_of(matrix, i);
        double sum = row[i] * u[i];
        for (size_t j = 0; j < i; j++) {
            sum += row[j] * u[j];
            out[j] += row[j] * u[i];
        }
        out[i] = sum;
    }
}

/* Applies one reflection H = I - 2 u u^T / |u|^2 from both sides. It leaves row n with its diagonal
 * and one number next to it, which is returned, and stores u in the row. */
static double reflect(double *matrix, double *work, size_t n) {
    double *u = row_of(matrix, n), square = 0.0, along = 0.0;
    for (size_t j = 0; j + 1 < n; j++) square += u[j] * u[j];
    if (square == 0.0) return u[n - 1];
    square += u[n - 1] * u[n - 1];
    double length = u[n - 1] > 0.0 ? -sqrt(square) : sqrt(square);
    double half = square - u[n - 1] * length; /* |u|^2 / 2, once u is the vector */
    u[n - 1] -= length;
    multiply_vector(work, matrix, u, n);
    for (size_t j = 0; j < n; j++) along += u[j] * work[j];
    for (size_t j = 0; j < n; j++) work[j] = (work[j] - along / (2.0 * half) * u[j]) / half;
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j <= i; j++) row_of(matrix, i)[j] -= u[i] * work[j] + work[i] * u[j];
    return length;
}

/* Does a QR step on rows first..last of the tridiagonal matrix (`diagonal`, `off_diagonal`). */
static void qr_step(double *diagonal, double *off_diagonal, size_t first, size_t last) {
    double gap = (diagonal[last - 1] - diagonal[last]) / 2.0, off = off_diagonal[last - 1];
    double root = sqrt(gap * gap + off * off);
    double shift = diagonal[last] - off * off / (gap + (gap < 0.0 ? -root : root));
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
        for (int i = 0; i < STEPS && fabs(off_diagonal[last - 1]) > NEGLIGIBLE; i++) {
            size_t first = last - 1;
            while (first > 0 && fabs(off_diagonal[first - 1]) > NEGLIGIBLE) first--;
            qr_step(diagonal, off_diagonal, first, last);
        }
}

/* Returns the entropy of n rows of D numbers; `work` holds the matrix, three vectors of its size,
 * then the products of columns. */
static float entropy_of(double *work, const float *h, size_t n, size_t D) {
    double trace = 0.0, entropy = 0.0;
    size_t size = multiply(work, h, n, D), numbers = size * (size + 1) / 2;
    if (size < 2) return NAN;
    double *diagonal = work + numbers, *off_diagonal = diagonal + size,
           *products = off_diagonal + size;
    for (size_t i = 0; i < size; i++) trace += row_of(work, i)[i];
    if (!(trace > 0.0) || !isfinite(trace)) return NAN;
    for (size_t i = 0; i < numbers; i++) work[i] /= trace;
    for (size_t i = size - 1; i > 0; i--) off_diagonal[i - 1] = reflect(work, products, i);
    for (size_t i = 0; i < size; i++) diagonal[i] = row_of(work, i)[i];
    find_eigenvalues(diagonal, off_diagonal, size);
    for (size_t i = 0; i < size; i++)
        if (diagonal[i] > 0.0) entropy -= diagonal[i] * ss_log(diagonal[i]);
    return (float)(entropy / ss_log((double)size));
}

static void layer_piece(const void *shared, size_t row, size_t worker) {
    const ss_metric_job *job = shared;
    const ss_trace *trace = job->trace;
    size_t n = (size_t)(job->T - job->first);
    job->out[row] = entropy_of(trace->spectrum + worker * trace->spectrum_n,
                               ss_row(trace, SS_FIELD_HIDDEN, (int)row, job->first), n,
                               (size_t)trace->model->arch.D);
}

static void by_layer(const ss_trace *trace, int first, int T, float *out) {
    ss_metric_job job = {.trace = trace, .T = T, .first = first, .out = out};
    uint64_t pairs = (uint64_t)T * (uint64_t)T, rows = (uint64_t)ss_states(&trace->model->arch);
    ss_pool_run(trace->pool, layer_piece, &job, (size_t)rows,
                rows * pairs * (uint64_t)trace->model->arch.D);
}

void ss_measure_matrix_entropy(const ss_trace *trace, const ss_metric_args *args, float *out) {
    by_layer(trace, 0, args->T, out);
}

void ss_measure_matrix_entropy_others(const ss_trace *trace, const ss_metric_args *args,
                                      float *out) {
    /* The rows are one contiguous range, which a first token in the middle would split. */
    for (int row = 0; trace->first && row < ss_states(&trace->model->arch); row++) out[row] = NAN;
    if (!trace->first) by_layer(trace, 1, args->T, out);
}
