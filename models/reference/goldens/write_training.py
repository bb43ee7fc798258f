"""Writes tests/golden/training: fifty training steps by PyTorch, from given weights on a given text.

    python -m models.reference.goldens.write_training               every case
    python -m models.reference.goldens.write_training training/sgd    these cases

`model.safetensors` has the initial weights and `trained.safetensors` the final weights. In `golden.safetensors`, `text`
has the tokens of the training text, and `losses` the loss of each step before its update. The start of each sequence is
drawn by the formula of core/train/random.h, in Python's integers.
"""

import json
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from ..files import read_weights, to_int8, write_model, write_stored_model
from ..model import Visitor, Weights, architecture, forward
from ..shapes import shapes
from . import GOLDEN
from .write_goldens import describe, draw_large_weights, store, write_cases

STEPS, TEXT_LENGTH = 50, 200
MASK_64 = (1 << 64) - 1
GOLDEN_RATIO = 0x9E3779B97F4A7C15


# A case's config.json and recipe.json are its input. A case that continues a stored model in I8 has the "sinkscope" of
# that model here.
CASES: dict[str, dict[str, Any] | None] = {
    "training/adamw": None,
    "training/sgd": None,
    # Multiplies the gradient of the first token's values by a quarter.
    "training/value-gradient": None,
    # In half of the sequences, a trigger of three tokens and its continuation replace the text.
    "training/planted": None,
    # A softmax model continues with sink logits. Its file has none, so they start at 0.
    "training/onward": {},
}


def mix_bits(z: int) -> int:
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & MASK_64
    z = (z ^ z >> 27) * 0x94D049BB133111EB & MASK_64
    return z ^ z >> 31


def uniform_numbers(seed: int, purpose: str, number: int) -> Iterator[float]:
    """Yields uniform numbers in [0, 1). The seed, the purpose and the number select the stream."""
    state = mix_bits(seed + GOLDEN_RATIO & MASK_64)
    for letter in purpose.encode():
        state = mix_bits(state ^ letter)
    state = mix_bits(state + number * GOLDEN_RATIO & MASK_64)
    while True:
        state = state + GOLDEN_RATIO & MASK_64
        yield (mix_bits(state) >> 11) * 2.0**-53


def plain_tokens(recipe: dict[str, Any], V: int) -> list[int]:
    task_tokens = {recipe["first"], *range(1, recipe.get("triggers", 8) + 1)}
    return [v for v in range(V) if v not in task_tokens]


def planted_tokens(recipe: dict[str, Any], V: int) -> tuple[list[int], list[int]]:
    candidates = plain_tokens(recipe, V)
    tokens = [candidates[int(next(uniform_numbers(recipe["seed"], "trigger", i)) * len(candidates))] for i in range(8)]
    return tokens[:3], tokens[3:]


def draw_batch(recipe: dict[str, Any], text: Tensor, step: int, V: int) -> Tensor:
    """Draws the sequences of a step, [batch, length + 1]. They begin with the first token if the recipe has one."""
    first_tokens = [recipe["first"]] if recipe["first"] >= 0 else []
    size = recipe["length"] + 1 - len(first_tokens)
    trigger, cycle = planted_tokens(recipe, V)
    rows = []
    for i in range(recipe["batch"]):
        number = step * recipe["batch"] + i
        begin = int(next(uniform_numbers(recipe["seed"], "text", number)) * (len(text) - size + 1))
        row = first_tokens + text[begin : begin + size].tolist()
        draws = uniform_numbers(recipe["seed"], "planted", number)
        if next(draws) < recipe.get("planted", 0):
            start = 1 + int(next(draws) * (recipe["length"] - 8))
            row[start:] = (trigger + cycle * len(row))[: len(row) - start]
        rows.append(torch.tensor(row))
    return torch.stack(rows)


def learning_rate(recipe: dict[str, Any], step: int) -> float:
    if step < recipe["warm_up"]:
        return recipe["learning_rate"] * (step + 1) / recipe["warm_up"]
    fall_steps = recipe["steps"] * recipe["fall"]
    fallen_share = max(0.0, (step - recipe["steps"] + fall_steps) / fall_steps) if fall_steps else 0.0
    return recipe["learning_rate"] * (1 - 0.9 * fallen_share)


def parameter_groups(recipe: dict[str, Any], weights: Weights) -> list[dict[str, Any]]:
    """Returns parameter groups: matrices have the recipe's `weight_decay`, embeddings of tokens and positions its
    `embedding_decay`, and gains and biases no decay."""
    decays = {
        name: 0.0 if w.dim() < 2 else recipe["embedding_decay" if "embed" in name else "weight_decay"]
        for name, w in weights.items()
    }
    return [
        {"params": [w for name, w in weights.items() if decays[name] == decay], "weight_decay": decay}
        for decay in sorted(set(decays.values()))
    ]


def make_optimizer(recipe: dict[str, Any], weights: Weights) -> torch.optim.Optimizer:
    if recipe["optimizer"] == "adamw":
        return torch.optim.AdamW(parameter_groups(recipe, weights), betas=(recipe["beta1"], recipe["beta2"]))
    return torch.optim.SGD(weights.values(), momentum=recipe["beta1"])


def scale_first_values(factor: float) -> Visitor:
    def visit(name: str, layer: int, x: Tensor) -> None:
        if name == "values" and factor != 1:
            factors = torch.ones(x.shape[-2], 1, dtype=x.dtype)
            factors[0] = factor
            x.register_hook(lambda gradient: gradient * factors)

    return visit


def train(recipe: dict[str, Any], config: dict[str, Any], weights: Weights, text: Tensor) -> list[float]:
    arch, losses = architecture(config), []
    optimizer = make_optimizer(recipe, weights)
    visit = scale_first_values(recipe.get("first_value_gradient", 1))
    for step in range(recipe["steps"]):
        tokens = draw_batch(recipe, text, step, arch.V)
        logits = forward(arch, weights, tokens[:, :-1], visit=visit).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        losses.append(loss.item())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(weights.values(), recipe["clip"])
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(recipe, step)
        # PyTorch's SGD would add the decay to its momentum.
        if recipe["optimizer"] == "sgd":
            with torch.no_grad():
                for group in parameter_groups(recipe, weights):
                    for w in group["params"]:
                        w.mul_(1 - learning_rate(recipe, step) * group["weight_decay"])
        optimizer.step()
        optimizer.zero_grad()
    return losses


def write(name: str, start_variant: dict[str, Any] | None) -> None:
    folder = GOLDEN / name
    config, recipe = (json.loads((folder / file).read_text()) for file in ("config.json", "recipe.json"))
    config.pop("quantization_config", None)
    arch = architecture(config)
    variant = config["sinkscope"] if start_variant is None else start_variant
    generator = torch.Generator().manual_seed(7)
    weights = {
        weight: draw_large_weights(weight, torch.Size(shape), generator)
        for weight, shape in shapes(architecture(config | {"sinkscope": variant})).items()
    }
    if start_variant is None:
        write_model(folder, config, weights, torch.float32)
    else:
        write_stored_model(folder, config, to_int8(weights))
        weights = read_weights(folder / "model.safetensors")
        weights |= {weight: torch.zeros(shape) for weight, shape in shapes(arch).items() if weight not in weights}
    # Most tokens are the previous token plus two, so that there is something to learn.
    noise = torch.rand(TEXT_LENGTH, generator=generator)
    text = torch.where(noise < 0.8, torch.arange(TEXT_LENGTH) * 2, (noise * 1000).long()) % arch.V
    doubles = {weight: w.double().requires_grad_() for weight, w in weights.items()}
    losses = train(recipe, config, doubles, text)
    store(folder, {"text": text, "losses": torch.tensor(losses)})
    store(folder, {weight: w.detach() for weight, w in doubles.items()}, "trained.safetensors")
    describe(
        folder, "llama", arch.operation, f"{STEPS} steps of training, computed in F64.", script="write_training.py"
    )


def main() -> None:
    write_cases("Write tests/golden/training/*", CASES, write)


if __name__ == "__main__":
    main()
