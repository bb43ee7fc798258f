"""Measures the outcomes of the protocols with the reference, and adds them to the log of a run."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from sinkscope import metrics
from tokenizers import Tokenizer
from torch import Tensor

from ..reference.model import Architecture, Mask, Weights, architecture, forward
from ..reference.operations import OPERATIONS
from . import protocol
from .corpus import encode
from .measure import held_out_loss
from .recipe import Recipe

SEQUENCES, T = 100, 64
# For the eviction of token 1: the number of sequences and their length, and how many keys a query still has.
EVICTION_SEQUENCES, EVICTION_T, KEPT_KEYS = 40, 120, 24
EPS = (0.2, 0.3, 0.4)


def encode_texts(recipe: Recipe, texts: list[str], T: int) -> Tensor:
    tokenizer = Tokenizer.from_file(str(protocol.ZOO / "softmax" / "tokenizer.json"))
    return encode(tokenizer, texts, T, recipe.training)


def eviction_cost(arch: Architecture, weights: Weights, ids: Tensor) -> float:
    """Returns the rise of the loss when token 1 is evicted (Xiao et al. 2024): the loss with the last 24 keys, minus
    the loss with the first key and the last 23. Counts only predictions whose last 24 keys do not include token 1."""

    def compute_loss(mask: Mask) -> float:
        logits = forward(replace(arch, mask=mask), weights, ids).logits
        return metrics.loss(logits, ids)[:, KEPT_KEYS:].mean().item()

    return compute_loss(Mask("window", KEPT_KEYS)) - compute_loss(Mask("window", KEPT_KEYS - 1, first=1))


def sink_norm_ratio(vectors: Tensor, tokens: list[int]) -> Tensor:
    norms = vectors.norm(dim=-1)
    others = [t for t in range(norms.shape[-1]) if t not in tokens]
    return norms[..., tokens].mean(-1) / norms[..., others].mean(-1)


@torch.no_grad()
def measure_outcomes(
    recipe: Recipe, arch: Architecture, weights: Weights, ids: Tensor, longer_ids: Tensor
) -> tuple[dict[str, Any], list[list[float]]]:
    """Returns one point of the log, whose columns models/DATA.md lists, and the sink's alpha in each head, [L][H]."""
    tokens = [k - 1 for k in recipe.sink_tokens]
    trace = forward(arch, weights, ids)
    visible = arch.mask.visible(ids.shape[1], ids.device)

    def sink_alpha(att: Tensor, tokens: list[int] = tokens) -> Tensor:
        return metrics.alpha(att, arch.mask.kind)[..., tokens].sum(-1)

    def alpha_above_uniform(att: Tensor, tokens: list[int] = tokens) -> float:
        uniform_att = visible * (att.sum(-1, keepdim=True) / visible.sum(-1, keepdim=True))
        return (sink_alpha(att, tokens) - sink_alpha(uniform_att, tokens)).mean().item()

    share = OPERATIONS[arch.operation].to_shares(trace.att)
    alphas = sink_alpha(share)
    values = {
        "alpha": alpha_above_uniform(trace.att),
        "alpha_share": alpha_above_uniform(share),
        "value_ratio": sink_norm_ratio(trace.v, tokens).mean().item(),
        "eviction": None,
        "loss": held_out_loss(arch, weights, trace.logits, ids),
        "alpha_max": alphas.mean(0).max().item(),
        "hidden_ratio": sink_norm_ratio(trace.hidden, tokens)[:, 1:].mean(0).max().item(),
        "row_mass": metrics.row_mass(trace.att).mean().item(),
    }
    for eps in EPS:
        sinks = metrics.sink(metrics.alpha(share, arch.mask.kind), eps)
        values[f"sink_{eps}"] = sinks[tokens].sum().item()
    if len(tokens) > 1:
        values |= {f"alpha_of_{k + 1}": alpha_above_uniform(trace.att, [k]) for k in tokens}
    values["first_layer"] = metrics.first_layer(alphas.mean(0))
    if trace.att_bias is not None:
        bias_alphas = metrics.alpha_bias(trace.att_bias)
        values["alpha_bias"] = bias_alphas.mean().item()
        values |= {f"sink_bias_{eps}": metrics.sink(bias_alphas, eps).item() for eps in EPS}
    if arch.mask.kind == "causal" and tokens == [0]:
        values["eviction"] = eviction_cost(arch, weights, longer_ids)
    rounded_values = {name: None if x is None else round(x, 4) for name, x in values.items()}
    return rounded_values, [[round(a, 3) for a in layer] for layer in alphas.mean(0).tolist()]


class Log:
    def __init__(self, recipe: Recipe, seed: int, zoo: Path = protocol.ZOO) -> None:
        self.recipe, self.arch = recipe, architecture(recipe.config)
        self.file, self.log = protocol.log_file(recipe, seed, zoo), protocol.read_log(recipe, seed, zoo)
        texts = json.loads((protocol.ZOO / "heldout.json").read_text())
        longer_texts = json.loads((protocol.ZOO / "heldout-long.json").read_text())
        self.ids = encode_texts(recipe, texts[:SEQUENCES], T)
        self.longer_ids = encode_texts(recipe, longer_texts[:EVICTION_SEQUENCES], EVICTION_T)

    def keep_before(self, step: int) -> None:
        """Removes the point of this step, which a run is about to repeat. Refuses to remove later ones: a run whose
        checkpoint lies before them would write over a log that nobody asked it to. Refuses a log without the points
        before, which a run that goes on from its checkpoint cannot measure again."""
        last_step = max((point["step"] for point in self.log["points"]), default=0)
        if last_step > step:
            raise SystemExit(
                f"{self.file}: the log reaches step {last_step:,} and the run begins at {step:,}. To compare with it: "
                f"python -m models.train.repeat {self.recipe.id} --seed {self.log['seed']}. To train it again, "
                f"remove it first."
            )
        missing_steps = [earlier for earlier in protocol.MEASURED_STEPS if earlier < step - 1 and not self.has(earlier)]
        if missing_steps:
            raise SystemExit(
                f"{self.file}: expected the steps before {step:,}, at which the run goes on, found none for step "
                f"{missing_steps[0]:,}. Restore the log, or remove the run's checkpoint to begin again."
            )
        self.log["points"] = [point for point in self.log["points"] if point["step"] < step]

    def has(self, step: int) -> bool:
        return any(point["step"] == step for point in self.log["points"])

    def lacks(self, step: int) -> bool:
        return step in protocol.MEASURED_STEPS and not self.has(step)

    def add(self, step: int, weights: Weights, train_loss: float | None, batch_loss: float | None = None) -> None:
        """Measures a step that the log lacks, and writes the log. `batch_loss`, in nats per token, is on the same
        training text at every step; with None the point has no such loss."""
        if not self.lacks(step):
            return
        values, alpha_map = measure_outcomes(self.recipe, self.arch, weights, self.ids, self.longer_ids)
        optional_fields = {} if batch_loss is None else {"batch_loss": round(batch_loss, 4)}
        point = {"step": step, "train_loss": train_loss} | optional_fields | values
        self.log["points"] = sorted([*self.log["points"], point], key=lambda p: p["step"])
        if step == self.log["points"][-1]["step"]:
            self.log["alpha_map"] = alpha_map
        protocol.write_log(self.log, self.file)
        print(self.recipe.id, self.log["seed"], point, flush=True)
