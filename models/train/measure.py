"""The numbers of a card: over held-out passages, on the weights that are given."""

import math
from typing import Any

import torch
from torch import Tensor

from ..reference import metrics
from ..reference.model import Architecture, Weights, forward
from ..reference.operations import OPERATIONS
from .train import unmask_loss

SEQUENCES, T = 100, 64
SINK_K = 10  # tokens whose Sink_k is kept, as many as the paper prints
NOISES = 8  # times that a diffusion model's loss is drawn for each passage

MEANING = {
    "sink_1": "Sink_1^0.3 in percent, on rows that sum to 1 (the proxy where the operation does "
              "not normalise)",
    "sink_1_deviation": "its standard deviation between sequences",
    "sink_1_raw": "Sink_1 on the weights as the model uses them",
    "sink_elsewhere": "largest Sink_k, k = 2..10, in percent",
    "elsewhere": "the k of that token",
    "sink_bias": "Sink_* of the bias key in percent",
    "loss": "mean loss in nats per token; of a diffusion model its bound",
    "alpha_max": "largest alpha_1 of a head, averaged over the sequences first",
    "hidden_ratio": "norm of h_1 over the mean norm of the other h_t, at the block (1..L) where it "
                    "is largest",
    "hidden_ratio_min": "the same at the block where it is smallest",
    "value_ratio": "norm of v_1 over the mean norm of the other v_t, mean over heads",
    "value_ratio_min": "the same at the head where it is smallest",
    "row_mass_mean": "sum of a query's weights over tokens, mean over queries, heads and sequences",
    "row_mass_min": "the smallest such sum",
    "row_mass_max": "the largest such sum",
    "gate_mean": "mean of the gate over heads, tokens and sequences",
    "near_eps": "alpha_1 values (of sequences x heads) within 0.002 of eps",
}


def _loss(arch: Architecture, weights: Weights, logits: Tensor, ids: Tensor) -> float:
    if arch.mask.kind != "bidirectional":
        first = arch.mask.size - 1 if arch.mask.kind == "prefix" else 0
        return metrics.loss(logits, ids)[:, first:].mean().item()
    generator = torch.Generator().manual_seed(0)
    noises = (torch.rand(len(ids), ids.shape[1] + 1, generator=generator) for _ in range(NOISES))
    return sum(unmask_loss(arch, weights, ids, n, 0.0).item() for n in noises) / NOISES


@torch.no_grad()
def measure(arch: Architecture, weights: Weights, ids: Tensor) -> dict[str, Any]:
    """ids [sequences, T], what stands in front among them."""
    trace = forward(arch, weights, ids)
    alphas = metrics.alpha(OPERATIONS[arch.operation].share(trace.att), arch.mask.kind)
    raw = metrics.alpha(trace.att, arch.mask.kind)
    sinks = metrics.sink(alphas)[:SINK_K]
    of_each = (alphas[..., 0] > metrics.EPS).float().flatten(1).mean(1) * 100  # [sequences]
    hidden = metrics.first_to_others(trace.hidden)[:, 1:].mean(0)  # [L], embedding left out
    value = metrics.first_to_others(trace.v).mean(0)  # [L, G]
    mass = metrics.row_mass(trace.att)

    def number(x: Tensor | float, digits: int = 3) -> float:
        return round(float(x), digits)

    found = {
        "sink_1": number(sinks[0], 2), "sink_1_deviation": number(of_each.std(), 2),
        "sink_1_raw": number(metrics.sink(raw)[0], 2),
        "sink_elsewhere": number(sinks[1:].max(), 2), "elsewhere": int(sinks[1:].argmax()) + 2,
        "sink": [number(s, 2) for s in sinks],
        "eps": metrics.EPS, "T": ids.shape[1], "sequences": len(ids),
        "loss": number(_loss(arch, weights, trace.logits, ids)),
        "alpha_max": number(alphas[..., 0].mean(0).max()),
        "hidden_ratio": number(hidden.max()), "hidden_ratio_min": number(hidden.min()),
        "value_ratio": number(value.mean()), "value_ratio_min": number(value.min()),
        "row_mass_mean": number(mass.mean()),
        "row_mass_min": number(mass.min(), 6), "row_mass_max": number(mass.max()),
        "near_eps": int(((alphas[..., 0] - metrics.EPS).abs() < 0.002).sum()),
    }
    if trace.att_bias is not None:
        found["sink_bias"] = number(metrics.sink(metrics.alpha_bias(trace.att_bias)), 2)
    if trace.gate is not None:
        found["gate_mean"] = number(trace.gate.mean())
    if any(isinstance(x, float) and not math.isfinite(x) for x in found.values()):
        raise ValueError(f"a measurement is not finite: {found}")
    return found
