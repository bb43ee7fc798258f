"""The attention operations, one row of a table each: functions that turn the scores of a query row into weights.

A score is x = q.k / sqrt(K), after rotation; an operation with a feature map phi takes phi(q).phi(k) / sqrt(K)
instead. The functions of the table get scores [..., H, T, n], the mask `visible` [T, n] (true where query row i sees
key column j) and the `Parameters`, and return weights of the same shape; a masked key has weight exactly 0. The n keys
are the T tokens, preceded by the bias key if the model has one.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from sinkscope.metrics import TINY, part_of_row
from torch import Tensor


@dataclass(frozen=True)
class Parameters:
    numbers: Mapping[str, float] = field(default_factory=dict)
    sink: Tensor | None = None


WeightFunction = Callable[[Tensor, Tensor, Parameters], Tensor]


def _zero_masked(weights: Tensor, visible: Tensor) -> Tensor:
    return torch.where(visible, weights, torch.zeros_like(weights))


def _count_visible_keys(visible: Tensor) -> Tensor:
    return visible.sum(-1, keepdim=True)


def _softmax(x: Tensor, visible: Tensor, p: Parameters) -> Tensor:
    return x.masked_fill(~visible, -torch.inf).softmax(-1)


def _softmax_with_extra_logit(x: Tensor, visible: Tensor, extra: Tensor) -> Tensor:
    """Computes a softmax over the visible keys and one more logit, and drops that logit's weight."""
    column = extra.expand(x.shape[:-1]).unsqueeze(-1)
    logits = torch.cat([x.masked_fill(~visible, -torch.inf), column], -1)
    return logits.softmax(-1)[..., :-1]


def _softmax1(x: Tensor, visible: Tensor, p: Parameters) -> Tensor:
    return _softmax_with_extra_logit(x, visible, x.new_zeros(()))


def _sink_logit(x: Tensor, visible: Tensor, p: Parameters) -> Tensor:
    if p.sink is None:
        raise ValueError("sink_logit needs the parameter s_h, one number per query head")
    return _softmax_with_extra_logit(x, visible, p.sink[:, None])


def _sigmoid(x: Tensor, visible: Tensor, p: Parameters) -> Tensor:
    return _zero_masked((x + p.numbers.get("bias", 0.0)).sigmoid(), visible)


def _sigmoid_log_n(x: Tensor, visible: Tensor, p: Parameters) -> Tensor:
    return _zero_masked((x - _count_visible_keys(visible).to(x.dtype).log()).sigmoid(), visible)


def _normalized(weights: WeightFunction) -> WeightFunction:
    def normalize(x: Tensor, visible: Tensor, p: Parameters) -> Tensor:
        rows = weights(x, visible, p)
        return rows / (rows.sum(-1, keepdim=True) + TINY)

    return normalize


def _relu(x: Tensor, visible: Tensor, p: Parameters) -> Tensor:
    return _zero_masked(x.relu() / _count_visible_keys(visible), visible)


def elu1(x: Tensor) -> Tensor:
    """Returns elu(x) + 1. Below 0 it is e^x: F32 would round e^x - 1 + 1 to 0 below -17."""
    return x.relu() + x.clamp_max(0).exp()


def _elu1(x: Tensor, visible: Tensor, p: Parameters) -> Tensor:
    return _zero_masked(elu1(x + p.numbers.get("bias", 0.0)), visible)


def _identity(x: Tensor, visible: Tensor, p: Parameters) -> Tensor:
    return _zero_masked(x, visible)


def _identity_norm(x: Tensor, visible: Tensor, p: Parameters) -> Tensor:
    """Divides the scores by the absolute value of their sum, at least 1: signed weights may add up to 0."""
    weights = _identity(x, visible, p)
    return weights / weights.sum(-1, keepdim=True).abs().clamp_min(1.0)


def _softmax_scaled(x: Tensor, visible: Tensor, p: Parameters) -> Tensor:
    return p.numbers["sum"] * _softmax(x, visible, p)


def _softmax_p(x: Tensor, visible: Tensor, p: Parameters) -> Tensor:
    power = p.numbers["p"]
    x = x.masked_fill(~visible, -torch.inf)
    return (x - (power * x).logsumexp(-1, keepdim=True) / power).exp()


def _softpick(x: Tensor, visible: Tensor, p: Parameters) -> Tensor:
    """Multiplies numerator and denominator by e^-m, m the largest score or 0, so that nothing overflows."""
    x = _zero_masked(x, visible)  # a masked key adds e^0 - 1 = 0
    m = x.amax(-1, keepdim=True).clamp_min(0)
    factor = (-m).exp()
    numerators = torch.where(x > 20, (x - m).exp() - factor, x.clamp_max(20).expm1() * factor)
    return numerators.relu() / (numerators.abs().sum(-1, keepdim=True) + p.numbers["eps"] * factor)


def _softmax_clipped(x: Tensor, visible: Tensor, p: Parameters) -> Tensor:
    zeta, gamma = p.numbers["zeta"], p.numbers["gamma"]
    return _zero_masked(((zeta - gamma) * _softmax(x, visible, p) + gamma).clip(0, 1), visible)


@dataclass(frozen=True)
class Operation:
    """A row of the table. `weights` turns scores into attention weights."""

    id: str
    formula: str  # x: score, s: logistic function, n: number of visible keys; sums are over these keys
    normalizes: bool
    weights: WeightFunction
    defaults: Mapping[str, float] = field(default_factory=dict)
    features: str = "none"  # phi of rotated queries and keys: none, elu1 or mlp

    def to_shares(self, weights: Tensor) -> Tensor:
        """Returns rows that sum to 1, for alpha and Sink_k. If the operation does not normalize, they are a proxy."""
        return weights if self.normalizes else part_of_row(weights)


OPERATIONS: dict[str, Operation] = {
    row.id: row
    for row in (
        Operation("softmax", "e^x / sum e^x", True, _softmax),
        Operation("sigmoid", "s(x + b)", False, _sigmoid, {"bias": 0.0}),
        Operation("sigmoid_log_n", "s(x - ln n)", False, _sigmoid_log_n),
        Operation("sigmoid_norm", "s(x) / (sum s(x) + 1e-8)", True, _normalized(_sigmoid)),
        Operation("softmax1", "e^x / (1 + sum e^x)", False, _softmax1),
        Operation("sink_logit", "e^x / (e^s_h + sum e^x)", False, _sink_logit),
        Operation("relu", "max(x, 0) / n", False, _relu),
        Operation("elu1", "elu(x + b) + 1", False, _elu1, {"bias": 0.0}),
        Operation("identity", "x", False, _identity),
        Operation("softmax_scaled", "a e^x / sum e^x", False, _softmax_scaled, {"sum": 1.0}),
        Operation("softmax_p", "e^x / (sum e^px)^(1/p)", False, _softmax_p, {"p": 2.0}),
        Operation("softpick", "max(e^x - 1, 0) / (sum |e^x - 1| + eps)", False, _softpick, {"eps": 1e-6}),
        Operation(
            "softmax_clipped",
            "clip((zeta - gamma) e^x / sum e^x + gamma, 0, 1)",
            False,
            _softmax_clipped,
            {"zeta": 1.0, "gamma": -0.03},
        ),
        Operation("elu1_norm", "(elu(x) + 1) / (sum + 1e-8)", True, _normalized(_elu1)),
        Operation("identity_norm", "x / max(|sum x|, 1)", False, _identity_norm),
        Operation("elu1_kernel", "x", False, _identity, features="elu1"),
        Operation("elu1_kernel_norm", "x / (sum x + 1e-8)", True, _normalized(_identity), features="elu1"),
        Operation("mlp_kernel", "x", False, _identity, features="mlp"),
        Operation("mlp_kernel_norm", "x / max(|sum x|, 1)", False, _identity_norm, features="mlp"),
    )
}
