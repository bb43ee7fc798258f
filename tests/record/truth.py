"""Computes the attention of a model with transformers' eager implementation in float64."""

import copy
from typing import Any

import numpy as np
import torch
from torch import Tensor

F16_ROUNDING = 2**-12  # of a weight that is stored in float16: half a step at 1


@torch.no_grad()
def eager64(model: torch.nn.Module, **inputs: Tensor) -> Tensor:
    return torch.stack([att[0] for att in run64(model, **inputs).attentions if att is not None])


@torch.no_grad()
def run64(model: torch.nn.Module, **inputs: Tensor) -> Any:
    model64 = copy.deepcopy(model).double().eval()
    model64.set_attn_implementation("eager")
    if model64._can_set_experts_implementation():
        model64.set_experts_implementation("eager")  # the fast implementation has no float64
    inputs = {name: x.double() if x.is_floating_point() else x for name, x in inputs.items()}
    return model64(**inputs, output_attentions=True, output_hidden_states=True)


def tolerance_of(att: Tensor, length: int) -> float:
    """Returns the largest error of weights that float32 may make, on any processor: their scores are sums of `length`
    products, each rounded by its size times 2^-23, and the softmax passes on 2p(1 - p) of a row's errors to a weight p.
    The sizes are those by which the scores of a row of `att` differ."""
    differences = torch.where(att > 0, att.amax(-1, keepdim=True).log() - att.log(), 0).amax(-1)
    passed = (2 * att * (1 - att)).amax(-1)
    return max(1e-5, (differences * passed).max().item() * 2**-23 * length)


def rounding_of(x: Any, count: int = 1) -> float:
    """Returns what the sum or the mean of `count` numbers as large as the largest of `x` may lose in float32, on any
    processor: each addition rounds by half a step of 2^-23, on both sides of a comparison."""
    return 2**-22 * count * float(np.nanmax(np.abs(np.asarray(x))))


def tensor_rounding(x: Any, count: int) -> float:
    """Returns `rounding_of` numbers of a recording, of which the largest counts as 1 at least, since weights are of
    this size, and a step of float16 for those that are stored in it."""
    size = np.nanmax(np.abs(x), initial=1)
    return rounding_of(size, count) + (2 * F16_ROUNDING * size if x.dtype == np.float16 else 0)


def half_step(digits: int) -> float:
    """Returns what a number loses that a file has with so many digits behind the point."""
    return 10.0**-digits / 2


def alpha64(att: Tensor, first: int | None = None) -> Any:
    """Returns alpha_k of causal maps (Gu et al. 2025, equation 6).  [..., T, T] -> [..., T]"""
    T = att.shape[-1]
    alpha = att.sum(-2) / torch.arange(T, 0, -1, dtype=att.dtype)
    return (alpha if first is None else alpha[..., first]).numpy()
