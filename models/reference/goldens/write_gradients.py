"""Writes gradients.safetensors for the goldens of trainable models: the derivative of the loss with respect to every
weight, computed by PyTorch's autograd in F64.

    python -m models.reference.goldens.write_gradients                  every case
    python -m models.reference.goldens.write_gradients ref-softmax      these cases

`gradient_ratios` [2, L] are computed from the gradients with respect to attention's normed input and to the residual
stream before this norm: the gradient's norm at the first token over the mean of the norms at the others (arXiv
2603.17771).

The loss is the mean cross-entropy of tokens 1..T-1 of the golden, each predicted at the token before it, also under
masks that show the predicted token.
"""

from pathlib import Path

import torch
from safetensors.torch import load_file
from sinkscope import metrics
from torch import Tensor

from ..files import read_model
from ..model import forward
from . import GOLDEN
from .write_goldens import store, write_cases
from .write_variants import CASES as VARIANTS

# Goldens with every operation, with biases, and with every variant that the core trains (no experts, no I8, no sandwich
# norms, no attention-only blocks).
NAMES = (
    sorted(folder.name for folder in GOLDEN.glob("ref-*"))
    + [
        name
        for name, case in VARIANTS.items()
        if not case.int8
        and case.family != "mixtral"
        and case.variant.get("norm") != "sandwich"
        and case.variant.get("feed_forward") != "none"
    ]
    + ["hf-llama-bias"]
)


def compute_gradients(folder: Path) -> dict[str, Tensor]:
    arch, stored_weights = read_model(folder)
    weights = {name: w.double().requires_grad_() for name, w in stored_weights.items()}
    tokens = load_file(folder / "golden.safetensors")["tokens"].long()
    inputs: dict[str, list[Tensor]] = {"input": [], "stream": [], "values": []}

    def visit(name: str, layer: int, x: Tensor) -> None:
        x.retain_grad()
        inputs[name].append(x)

    logits = forward(arch, weights, tokens, visit=visit).logits
    loss = torch.nn.functional.cross_entropy(logits[:-1], tokens[1:])
    loss.backward()
    derivatives = {name: w.grad for name, w in weights.items() if w.grad is not None}
    if missing := set(weights) - set(derivatives):
        raise AssertionError(f"{folder.name}: no gradient with respect to {', '.join(sorted(missing))}")
    ratios = torch.stack(
        [torch.stack([metrics.first_to_others(x.grad) for x in inputs[name]]) for name in ("input", "stream")]
    )
    return derivatives | {"loss": loss.detach(), "gradient_ratios": ratios}


def write(_: str, folder: Path) -> None:
    store(folder, compute_gradients(folder), "gradients.safetensors")


def main() -> None:
    write_cases("Write gradients beside tests/golden", {name: GOLDEN / name for name in NAMES}, write)


if __name__ == "__main__":
    main()
