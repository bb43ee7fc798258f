"""Writes tests/golden/eight-*: a Llama and a GPT-2 with matrix products in eight-bit integers (core/math/int8.h),
computed by the reference in F64.

    python -m models.reference.goldens.write_eight

Near a tie, a number may round either way if the sums before it differ in their last bits. So the script draws tokens
until no number is within MARGIN of a tie, and these goldens need no wider tolerance than others. golden.json has the
smallest distance to a tie as `margin`.
"""

import torch
from safetensors.torch import load_file
from sinkscope import metrics
from torch import Tensor

from ..files import read_model
from ..model import Architecture, Trace, Weights, forward
from . import GOLDEN
from .write_goldens import describe, store, write_cases

MODELS = {"eight-llama": "var-unequal", "eight-gpt2": "hf-gpt2-plain"}
T = 7
# Least distance of a number from a tie, in steps of its row. Errors of F32 are about 1e-5 steps.
MARGIN = 2e-4


class Int8Product:
    """A matrix product of integers. Quantizes inputs by rows: 127 steps from the smallest to the largest number, 0
    included, one of which is the zero point. Quantizes the weights of each output in F32, the largest magnitude to 127
    steps."""

    def __init__(self) -> None:
        self.margin = 0.5

    def round(self, x: Tensor) -> Tensor:
        distance = (x - x.floor() - 0.5).abs().min().item()
        self.margin = min(self.margin, distance)
        return x.round()

    def __call__(self, x: Tensor, w: Tensor) -> Tensor:
        scale = w.float().abs().amax(0) / 127
        q = (w.float() * (1 / scale)).round().double()
        low = x.amin(-1, keepdim=True).clamp_max(0)
        step = (x.amax(-1, keepdim=True).clamp_min(0) - low) / 127
        zero = self.round(-low / step)
        u = (self.round(x / step) + zero).clamp(0, 127)
        return ((u - zero) @ q) * (step * scale.double())


def run(arch: Architecture, weights: Weights, tokens: Tensor) -> tuple[Trace, float]:
    product = Int8Product()
    return forward(arch, weights, tokens, product), product.margin


def check_logit_change(source: str, arch: Architecture, weights: Weights) -> None:
    """Checks that eight bits change the logits of the model's own golden, but not by much."""
    golden = load_file(GOLDEN / source / "golden.safetensors")
    trace, _ = run(arch, weights, golden["tokens"].long())
    change = ((trace.logits - golden["logits"]).abs().max() / golden["logits"].abs().max()).item()
    if not 1e-4 < change < 0.5:
        raise AssertionError(f"{source}: eight bits change the logits by {change:.2g} of their largest")


def write(name: str, source: str) -> None:
    arch, weights = read_model(GOLDEN / source)
    weights = {key: w.double() for key, w in weights.items()}
    check_logit_change(source, arch, weights)
    token_draws = (torch.randint(arch.V, (T,), generator=torch.Generator().manual_seed(seed)) for seed in range(1000))
    tokens, trace, margin = next(
        (tokens, *result) for tokens in token_draws if (result := run(arch, weights, tokens))[1] > MARGIN
    )
    folder = GOLDEN / name
    fields = {key: getattr(trace, key) for key in ("hidden", "q", "k", "v", "att", "logits")}
    store(folder, {"tokens": tokens, "loss": metrics.loss(trace.logits, tokens)} | fields)
    describe(folder, name.removeprefix("eight-"), "softmax", "Products in eight bits, the rest in F64.",
             script="write_eight.py", model=f"tests/golden/{source}", arithmetic="int8",
             margin=float(f"{margin:.2g}"))


def main() -> None:
    write_cases("Write tests/golden/eight-*", MODELS, write)


if __name__ == "__main__":
    main()
