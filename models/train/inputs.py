"""What the shipped models with a sink do on other inputs, for the claims table.

    python -m models.train.inputs

measures models of the zoo by the reference and writes models/train/inputs.json, one line for each.
They are those that are causal, whose rows sum to 1, and whose first token is the sink of 10% of the
heads or more. `short` is left out: it is the run of `softmax` at an earlier step.

Columns; alpha is the mean over heads of alpha_1 above uniform attention, over SEQUENCES sequences of
T = 64 tokens, unless it says otherwise:
    alpha          held-out passages, what the tokenizer puts in front included
    alpha_random   tokens drawn evenly from the vocabulary, the same in front
    alpha_repeat   one drawn token T times, nothing in front
    sink_EPS_T     Sink_1^EPS over the 40 longer passages at T tokens, in percent
    fall_EPS       how much of it is lost from the first length to the second, as a share; null of none
    key_ratio      norm of the first key over the mean norm of the others, mean over sink heads
    cos_gap        mean cosine of queries with the first key minus that with the others, likewise
A sink head has alpha_1 above 0.3 on average over the passages.
"""

import json
from pathlib import Path
from typing import Any

import torch
from sinkscope import metrics
from torch import Tensor

from ..reference.files import read_model
from ..reference.model import Architecture, Weights, forward
from ..reference.operations import OPERATIONS
from . import outcomes, protocol
from .recipe import recipes
from .text import VOCABULARY

FILE = Path(__file__).with_name("inputs.json")
LEAST = 10.0  # Sink_1 in percent
SEQUENCES, T, SEED = 100, 64, 1
LENGTHS = (32, 120)  # at 16 uniform attention exceeds 0.2 itself; the longer passages have 120
EPS = (0.2, 0.3, 0.4)


def chosen(rows: list[dict[str, Any]]) -> list[str]:
    """Ids of the models, out of the rows of index.json."""
    known = recipes()
    return [row["id"] for row in rows if row["id"] != "short"
            and row["measured"]["sink_1"] >= LEAST and row["measured"]["row_mass_min"] == 1.0
            and known[row["id"]].sink_tokens == (1,)
            and known[row["id"]].training.objective == "next"
            and "mask" not in known[row["id"]].config.get("sinkscope", {})
            and "sliding_window" not in known[row["id"]].config]


def alphas(arch: Architecture, weights: Weights, ids: Tensor) -> Tensor:
    """alpha_1 of each sequence and head, [sequences, L, H]"""
    return metrics.alpha(OPERATIONS[arch.operation].share(forward(arch, weights, ids).att))[..., 0]


def uniform(length: int) -> float:
    """alpha_1 of uniform attention under a causal mask."""
    return sum(1 / i for i in range(1, length + 1)) / length


def heads_geometry(arch: Architecture, weights: Weights, ids: Tensor) -> tuple[float, float]:
    """key_ratio and cos_gap over the sink heads."""
    trace = forward(arch, weights, ids)
    found = metrics.alpha(OPERATIONS[arch.operation].share(trace.att))[..., 0].mean(0) > metrics.EPS
    keys = trace.k.repeat_interleave(arch.H // arch.G, -3)
    ratio = metrics.first_to_others(keys).mean(0)
    visible = arch.mask.visible(ids.shape[1], ids.device)
    gap = torch.stack([metrics.geometry(q, k, visible)["cos_gap"]
                       for q, k in zip(trace.q, keys)]).mean(0)
    return ratio[found].mean().item(), gap[found].mean().item()


@torch.no_grad()
def measure(id: str) -> dict[str, Any]:
    recipe = recipes()[id]
    arch, weights = read_model(protocol.ZOO / id)
    short, long = (json.loads((protocol.ZOO / name).read_text())
                   for name in ("heldout.json", "heldout-long.json"))
    ids = outcomes.ids_of(recipe, short[:SEQUENCES], T)
    drawn = torch.randint(VOCABULARY, (SEQUENCES, T),
                          generator=torch.Generator().manual_seed(SEED))
    front = len(recipe.training.front)
    random = torch.cat([ids[:, :front], drawn[:, front:]], 1)
    if recipe.training.fixed_at:
        random[:, recipe.training.fixed_at - 1] = ids[:, recipe.training.fixed_at - 1]
    found: dict[str, Any] = {"model": id}
    for name, tokens in (("alpha", ids), ("alpha_random", random),
                         ("alpha_repeat", drawn[:, :1].expand(-1, T))):
        found[name] = alphas(arch, weights, tokens).mean().item() - uniform(T)
    for length in LENGTHS:
        of_heads = alphas(arch, weights, outcomes.ids_of(recipe, long, length))
        for eps in EPS:
            found[f"sink_{eps}_{length}"] = 100 * (of_heads > eps).float().mean().item()
    for eps in EPS:
        before, after = (found[f"sink_{eps}_{length}"] for length in LENGTHS)
        found[f"fall_{eps}"] = 1 - after / before if before else None
    found["key_ratio"], found["cos_gap"] = heads_geometry(arch, weights, ids)
    return {name: round(x, 4) if isinstance(x, float) else x for name, x in found.items()}


def main() -> None:
    torch.set_num_threads(1)
    rows = json.loads((protocol.ZOO / "index.json").read_text())
    lines = [json.dumps(measure(id)) for id in chosen(rows)]
    FILE.write_text("[\n" + ",\n".join(lines) + "\n]\n")


if __name__ == "__main__":
    main()
