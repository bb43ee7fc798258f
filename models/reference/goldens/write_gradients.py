"""Write gradients.safetensors for the goldens of trainable models: the derivative of the loss by every weight, by
PyTorch's autograd in F64.

    python -m models.reference.goldens.write_gradients                  every case
    python -m models.reference.goldens.write_gradients ref-softmax      these cases

`gradient_ratios` [2, L] are, for the gradients by attention's input and by the residual stream before its norm, the
norm at the first token over the mean norm at the others (arXiv 2603.17771).

The loss is the mean cross-entropy of tokens 1..T-1 of the golden, each predicted by the one before it, whatever that
token's mask shows.
"""

from functools import partial
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

# Every operation, every block of a variant that the core can train (no experts, I8, sandwich norms or attention-only
# blocks), biases and Conv1D.
NAMES = sorted(folder.name for folder in GOLDEN.glob("ref-*")) + [
    name for name, case in VARIANTS.items()
    if not case.int8 and case.family != "mixtral" and case.own.get("norm") != "sandwich"
    and case.own.get("feed_forward") != "none"
] + ["hf-llama-bias"]


def gradients(folder: Path) -> dict[str, Tensor]:
    arch, stored = read_model(folder)
    weights = {name: w.double().requires_grad_() for name, w in stored.items()}
    tokens = load_file(folder / "golden.safetensors")["tokens"].long()
    inputs: dict[str, list[Tensor]] = {"input": [], "stream": [], "values": []}

    def visit(name: str, layer: int, x: Tensor) -> None:
        x.retain_grad()
        inputs[name].append(x)

    logits = forward(arch, weights, tokens, visit=visit).logits
    loss = torch.nn.functional.cross_entropy(logits[:-1], tokens[1:])
    loss.backward()
    found = {name: w.grad for name, w in weights.items() if w.grad is not None}
    if missing := set(weights) - set(found):
        raise AssertionError(f"{folder.name}: no gradient by {', '.join(sorted(missing))}")
    ratios = torch.stack([torch.stack([metrics.first_to_others(x.grad) for x in inputs[name]])
                          for name in ("input", "stream")])
    return found | {"loss": loss.detach(), "gradient_ratios": ratios}


def write(name: str) -> None:
    store(GOLDEN / name, gradients(GOLDEN / name), "gradients.safetensors")
    (GOLDEN / name / "gradients.safetensors").chmod(0o644)


def main() -> None:
    write_cases({name: partial(write, name) for name in NAMES}, "Write gradients beside tests/golden")


if __name__ == "__main__":
    main()
