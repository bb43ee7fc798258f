/*
 * Numbers of the singular values sigma_j of H [n][D], with p_j = sigma_j^2 / |H|_F^2: the matrix
 * entropy -sum_j p_j ln p_j over ln min(n, D), and the stable rank 1 / max_j p_j.
 *
 * The sigma_j^2 are the eigenvalues of the smaller of H H^T and H^T H, in double: Householder
 * reflections make it tridiagonal, rotations of QR steps with Wilkinson's shift make it diagonal
 * (Golub and Van Loan 2013, sections 8.3.1 and 8.3.3). No vectors are needed, so the work is
 * O(min(n, D)^3) once.
 */
#ifndef SS_MATH_SPECTRUM_H
#define SS_MATH_SPECTRUM_H

#include <stddef.h>

/* Rows of H, and columns of H^T H, that are multiplied at a time. */
#define SS_SPECTRUM_ROWS 128
#define SS_SPECTRUM_COLUMNS 20

/* Returns the entropy of n rows of D numbers; NaN for a single row or column, if all numbers are
 * zero, or if a square is not finite. `work` holds the matrix, four vectors of its size, then the
 * products of columns. */
float ss_matrix_entropy(double *work, const float *h, size_t n, size_t D);

/* Returns the stable rank, 1 if all rows point in one direction and at most min(n, D); NaN without
 * rows, or as above. */
float ss_stable_rank(double *work, const float *h, size_t n, size_t D);

#endif
