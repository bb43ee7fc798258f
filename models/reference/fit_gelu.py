"""Fits the constants of the exact GELU in core/math/scalar.h.

    python -m models.reference.fit_gelu

x Phi(x) = max(x, 0) - u Q(u) with u = |x| and Q the upper tail of the normal distribution. Q(u) e^(u^2/2) is smooth
and varies slowly, so a short polynomial in t = 1 / (1 + p u) approximates it. The fit minimizes the largest error of
u Q(u) by Lawson's reweighting. The script prints the constants, and the largest error of GELU in double and float.
"""

import math

import numpy as np
import torch

P = 0.35
DEGREE = 7


def scaled_tail(u: np.ndarray) -> np.ndarray:
    return 0.5 * torch.special.erfcx(torch.from_numpy(u / math.sqrt(2))).numpy()


def fit() -> np.ndarray:
    u = np.linspace(0, 12, 20001)
    t = 1 / (1 + P * u)
    scale = u * np.exp(-u * u / 2) + 1e-4  # error of GELU per error of the polynomial
    powers = t[:, None] ** np.arange(1, DEGREE + 1)
    weights = np.ones_like(u)
    best_c, least_error = np.zeros(DEGREE), math.inf
    for _ in range(2000):
        root_weights = np.sqrt(weights) * scale
        c, *_ = np.linalg.lstsq(powers * root_weights[:, None], scaled_tail(u) * root_weights, rcond=None)
        error = np.abs(powers @ c - scaled_tail(u)) * scale
        if error.max() < least_error:
            best_c, least_error = c, error.max()
        weights *= error / error.max() + 1e-3
        weights /= weights.sum()
    return best_c


def main() -> None:
    c = fit().astype(np.float32)
    for k, value in enumerate(c, 1):
        print(f"#define SS_GELU_C{k} {value:.9g}f")
    x = np.linspace(-12, 12, 2_000_001).astype(np.float32)
    exact = torch.nn.functional.gelu(torch.from_numpy(x).double()).numpy()
    for dtype in (np.float64, np.float32):
        u = np.abs(x).astype(dtype)
        t = dtype(1) / (dtype(1) + dtype(np.float32(P)) * u)
        polynomial = np.zeros_like(t)
        for value in c[::-1]:
            polynomial = (polynomial + dtype(value)) * t
        gelu = np.maximum(x, 0).astype(dtype) - u * (np.exp(-u * u * dtype(0.5)) * polynomial)
        print(dtype.__name__, "largest error", f"{np.abs(gelu - exact).max():.2g}")


if __name__ == "__main__":
    main()
