"""Measures the numbers of a model's card over held-out passages."""

import math
from typing import Any

import torch
from sinkscope import metrics
from torch import Tensor

from ..reference.model import Architecture, Weights, forward
from ..reference.operations import OPERATIONS
from .loss import unmask_loss
from .recipe import Training

SEQUENCES, T = 100, 64
SINK_K = 10  # Sink_1 to Sink_10, as in the paper
NOISE_DRAWS = 8  # per passage, for a diffusion model's loss


def held_out_loss(arch: Architecture, weights: Weights, logits: Tensor, ids: Tensor) -> float:
    if arch.mask.kind != "bidirectional":
        first = arch.mask.size - 1 if arch.mask.kind == "prefix" else 0
        return metrics.loss(logits, ids)[:, first:].mean().item()
    generator = torch.Generator().manual_seed(0)
    noises = (torch.rand(len(ids), ids.shape[1] + 1, generator=generator) for _ in range(NOISE_DRAWS))
    return sum(unmask_loss(arch, weights, ids, n, Training()).item() for n in noises) / NOISE_DRAWS


@torch.no_grad()
def measure(arch: Architecture, weights: Weights, ids: Tensor) -> dict[str, Any]:
    trace = forward(arch, weights, ids)
    alphas = metrics.alpha(OPERATIONS[arch.operation].to_shares(trace.att), arch.mask.kind)
    raw_alphas = metrics.alpha(trace.att, arch.mask.kind)
    sinks = metrics.sink(alphas)[:SINK_K]
    sequence_sinks = torch.stack([metrics.sink(sequence_alphas)[0] for sequence_alphas in alphas])
    hidden_ratios = metrics.first_to_others(trace.hidden)[:, 1:].mean(0)  # [L], without the embedding
    value_ratios = metrics.first_to_others(trace.v).mean(0)
    row_masses = metrics.row_mass(trace.att)

    def round_number(x: Tensor | float, digits: int = 3) -> float:
        return round(float(x), digits)

    values = {
        "sink_1": round_number(sinks[0], 2),
        "sink_1_deviation": round_number(sequence_sinks.std(), 2),
        "sink_1_raw": round_number(metrics.sink(raw_alphas)[0], 2),
        "sink_elsewhere": round_number(sinks[1:].max(), 2),
        "elsewhere": int(sinks[1:].argmax()) + 2,
        "sink": [round_number(s, 2) for s in sinks],
        "eps": metrics.EPS,
        "T": ids.shape[1],
        "sequences": len(ids),
        "loss": round_number(held_out_loss(arch, weights, trace.logits, ids)),
        "alpha_max": round_number(alphas[..., 0].mean(0).max()),
        "hidden_ratio": round_number(hidden_ratios.max()),
        "hidden_ratio_min": round_number(hidden_ratios.min()),
        "value_ratio": round_number(value_ratios.mean()),
        "value_ratio_min": round_number(value_ratios.min()),
        "row_mass_mean": round_number(row_masses.mean()),
        "row_mass_min": round_number(row_masses.min(), 6),
        "row_mass_max": round_number(row_masses.max()),
        "near_eps": int(metrics.near(alphas)[0]),
    }
    if trace.att_bias is not None:
        values["sink_bias"] = round_number(metrics.sink(metrics.alpha_bias(trace.att_bias)), 2)
    if trace.gate is not None:
        values["gate_mean"] = round_number(trace.gate.mean())
    if any(isinstance(x, float) and not math.isfinite(x) for x in values.values()):
        raise ValueError(f"a measurement is not finite: {values}")
    return values
