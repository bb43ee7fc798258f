"""Write tests/golden/eight-*: a Llama and a GPT-2 with matrix products in eight-bit integers (core/math/int8.h), by the
reference in F64.

    python -m models.reference.goldens.write_eight

Near a tie, a number may round either way if the sums before it differ in their last bits. So the script draws tokens
until no number is within MARGIN of a tie, which keeps these goldens as tight as others; `margin` is the smallest
distance.
"""

import json

import torch
from safetensors.torch import load_file
from sinkscope import metrics
from torch import Tensor

from ..files import read_weights
from ..model import Trace, architecture, forward
from . import GOLDEN
from .write_goldens import describe, store, write_cases

MODELS = {"eight-llama": "var-unequal", "eight-gpt2": "hf-gpt2-plain"}
T = 7
# In steps of a row; F32 errors are about 1e-5 steps.
MARGIN = 2e-4


class Eight:
    """A product of integers. A row spans 127 steps from its smallest to its largest number, 0 included, with a zero
    point that is one of the steps. An output's largest weight is 127 steps, in F32."""

    def __init__(self) -> None:
        self.margin = 0.5

    def round(self, x: Tensor) -> Tensor:
        beside = (x - x.floor() - 0.5).abs().min().item()
        self.margin = min(self.margin, beside)
        return x.round()

    def __call__(self, x: Tensor, w: Tensor) -> Tensor:
        """x [..., in], w [in, out]"""
        scale = w.float().abs().amax(0) / 127
        q = (w.float() * (1 / scale)).round().double()
        low = x.amin(-1, keepdim=True).clamp_max(0)
        step = (x.amax(-1, keepdim=True).clamp_min(0) - low) / 127
        zero = self.round(-low / step)
        u = (self.round(x / step) + zero).clamp(0, 127)
        return ((u - zero) @ q) * (step * scale.double())


def run(name: str, seed: int) -> tuple[Tensor, Trace, float]:
    """The tokens of that seed, the model's trace, and the smallest distance to a tie."""
    folder = GOLDEN / MODELS[name]
    arch = architecture(json.loads((folder / "config.json").read_text()))
    weights = {key: w.double() for key, w in read_weights(folder / "model.safetensors").items()}
    tokens = torch.randint(arch.V, (T,), generator=torch.Generator().manual_seed(seed))
    product = Eight()
    return tokens, forward(arch, weights, tokens, product), product.margin


def check_plain(name: str) -> None:
    """Check that eight bits change another golden's logits, but not by much."""
    folder = GOLDEN / MODELS[name]
    known = load_file(folder / "golden.safetensors")
    arch = architecture(json.loads((folder / "config.json").read_text()))
    weights = {key: w.double() for key, w in read_weights(folder / "model.safetensors").items()}
    found = forward(arch, weights, known["tokens"].long(), Eight())
    off = ((found.logits - known["logits"]).abs().max() / known["logits"].abs().max()).item()
    if not 1e-4 < off < 0.5:
        raise AssertionError(f"{name}: eight bits change the logits by {off:.2g} of their largest")


def write(name: str) -> None:
    check_plain(name)
    seed = next(seed for seed in range(1000) if run(name, seed)[2] > MARGIN)
    tokens, trace, margin = run(name, seed)
    folder = GOLDEN / name
    fields = {key: getattr(trace, key) for key in ("hidden", "q", "k", "v", "att", "logits")}
    store(folder, {"tokens": tokens, "loss": metrics.loss(trace.logits, tokens)} | fields)
    describe(folder, name.removeprefix("eight-"), "softmax", "Products in eight bits, the rest in F64.",
             script="write_eight.py", model=f"tests/golden/{MODELS[name]}", arithmetic="int8",
             margin=float(f"{margin:.2g}"))


def main() -> None:
    write_cases({name: lambda name=name: write(name) for name in MODELS}, "Write tests/golden/eight-*")


if __name__ == "__main__":
    main()
