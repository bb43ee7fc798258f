"""Normal random numbers that are the same on every processor: those of torch.randn on x86-64 with AVX2.

torch computes them by Box and Muller from uniform numbers, which every processor draws alike. It has the polynomials of
this file for log, sin and cos (Cephes, with fused multiply-adds) for AVX2 only; elsewhere the last bits differ, and a
weight that is rounded to bfloat16 may be another one.
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Floats = NDArray[np.float32]
F = np.float32
BLOCK = 16  # torch draws the numbers in blocks: eight cosines, then eight sines

LOG = (
    7.0376836292e-2,
    -1.1514610310e-1,
    1.1676998740e-1,
    -1.2420140846e-1,
    1.4249322787e-1,
    -1.6668057665e-1,
    2.0000714765e-1,
    -2.4999993993e-1,
    3.3333331174e-1,
)
LOG_2 = (-2.12194440e-4, 0.693359375)  # the sum of both, the larger exact
SIN = (-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1)
COS = (2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2)
QUARTER_PI = (-0.78515625, -2.4187564849853515625e-4, -3.77489497744594108e-8)


def fused(a: Floats, b: Floats | float, c: Floats | float) -> Floats:
    """a * b + c, rounded once to float32 but for a rounding of float64 in between."""
    return (a.astype(np.float64) * np.asarray(F(b), np.float64) + np.asarray(F(c), np.float64)).astype(F)


def polynomial(x: Floats, coefficients: Sequence[float]) -> Floats:
    y = np.full_like(x, F(coefficients[0]))
    for coefficient in coefficients[1:]:
        y = fused(y, x, coefficient)
    return y


def log(x: Floats) -> Floats:
    fraction, exponent = np.frexp(np.maximum(x, np.finfo(F).tiny))
    is_small = fraction < F(0.707106781186547524)
    exponent = (exponent - is_small).astype(F)
    x = np.where(is_small, fraction + fraction, fraction) - F(1)
    square = x * x
    y = fused(polynomial(x, LOG) * x, square, exponent * F(LOG_2[0])) - square * F(0.5)
    return fused(exponent, LOG_2[1], x + y)


def sin_and_cos(x: Floats) -> tuple[Floats, Floats]:
    octant = ((x * F(1.27323954473516)).astype(np.int32) + 1) & ~1
    for part in QUARTER_PI:
        x = fused(octant.astype(F), part, x)
    square = x * x
    cos = fused(polynomial(square, COS) * square, square, -(square * F(0.5))) + F(1)
    sin = fused(polynomial(square, SIN) * square, x, x)
    is_plain = (octant & 2) == 0
    sin, cos = np.where(is_plain, sin, cos), np.where(is_plain, cos, sin)
    return np.where(octant & 4, -sin, sin), np.where((octant - 2) & 4, cos, -cos)


def from_uniform(uniform: Floats) -> Floats:
    """Normal numbers from uniform ones, both [blocks * BLOCK]."""
    first, second = uniform.reshape(-1, 2, BLOCK // 2).swapaxes(0, 1)
    radius = np.sqrt(F(-2) * log(F(1) - first))
    sin, cos = sin_and_cos(F(2 * np.pi) * second)
    return np.stack([radius * cos, radius * sin], 1).reshape(-1)


def normal(shape: Sequence[int], generator: torch.Generator) -> Tensor:
    """torch.randn in float32. As there, the last block begins anew where the size is no multiple of its length."""
    size = int(np.prod(shape))
    if size < BLOCK:
        return torch.randn(tuple(shape), generator=generator)
    whole = size // BLOCK * BLOCK
    uniform = torch.rand(size, generator=generator).numpy()
    result = np.empty(size, F)
    result[:whole] = from_uniform(uniform[:whole])
    if whole < size:
        result[-BLOCK:] = from_uniform(torch.rand(BLOCK, generator=generator).numpy())
    return torch.from_numpy(result).reshape(tuple(shape))
