"""Trains a recipe of the zoo with core/train and with PyTorch, from the same weights on the same batches, and compares
their losses. Exits with status 1 where two losses of a step differ by more than --tolerance.

    python -m models.reference.follow_training --corpora FOLDER [--recipe softmax] [--steps 200]
    python -m models.reference.follow_training --onward softmax --operation sink_logit [--steps 10]

The second command continues the training of a stored model of the zoo, as `sinkscope train --from` does, on the
held-out passages.

Both draw batches by the formula of core/train/random.h. The core trains in wasm, which gives the same bits as the
native build. PyTorch trains in F32 on one thread, so that both times are those of one processor core.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer

from ..train.recipe import recipes
from ..train.train import WARM_UP_STEPS, initial_weights
from .files import read_weights
from .goldens.write_training import Case, train
from .model import Weights, architecture
from .shapes import shapes

ROOT = Path(__file__).resolve().parents[2]
MAX_CHARACTERS = 1_000_000
TOKENIZER = ROOT / "models/zoo/softmax/tokenizer.json"


@dataclass(frozen=True)
class TrainingCase:
    config: dict[str, Any]
    recipe: dict[str, Any]
    weights: Weights
    text: str
    files: list[str | Path]


def train_by_core(recipe: dict[str, object], files: list[str | Path]) -> list[float]:
    settings = [f"--{name.replace('_', '-')}={value}" for name, value in recipe.items()]
    lines = subprocess.run(
        ["node", ROOT / "wasm/cli.js", "train", *settings, *files, "--json", "--every", "1"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.splitlines()
    return [json.loads(line)["loss"] for line in lines]


def cpu_seconds(processes: int) -> float:
    return resource.getrusage(processes).ru_utime


def case_of_recipe(name: str, steps: int, corpora: Path, folder: Path) -> TrainingCase:
    zoo_recipe = recipes()[name]
    training = zoo_recipe.training
    recipe = {
        "task": "text",
        "seed": 1,
        "steps": steps,
        "batch": zoo_recipe.sequences,
        "length": zoo_recipe.context,
        "first": 0,
        "optimizer": "adamw",
        "learning_rate": training.learning_rate,
        "beta1": 0.9,
        "beta2": 0.95,
        "weight_decay": training.weight_decay,
        "embedding_decay": training.embedding_decay,
        "clip": 1.0,
        "warm_up": WARM_UP_STEPS,
        "fall": 0.2,
    }
    weights = initial_weights(architecture(zoo_recipe.config), 1, training)
    text = (corpora / "children_lit.txt").read_text()[:MAX_CHARACTERS].replace("<|endoftext|>", "")
    (folder / "config.json").write_text(json.dumps(zoo_recipe.config))
    save_file(weights, folder / "model.safetensors")
    files = ["--config", folder / "config.json", "--begin", folder / "model.safetensors", "--tokenizer", TOKENIZER]
    return TrainingCase(zoo_recipe.config, recipe, weights, text, files)


def case_of_stored_model(name: str, operation: str, steps: int) -> TrainingCase:
    folder = ROOT / "models/zoo" / name
    config = json.loads((folder / "config.json").read_text())
    config |= {"sinkscope": config.get("sinkscope", {}) | {"attention": {"operation": operation}}}
    recipe = {
        "task": "text",
        "seed": 1,
        "steps": steps,
        "batch": 8,
        "length": 64,
        "first": 0,
        "optimizer": "adamw",
        "learning_rate": 0.001,
        "beta1": 0.9,
        "beta2": 0.99,
        "weight_decay": 1.0,
        "embedding_decay": 0.1,
        "clip": 1.0,
        "warm_up": 0,
        "fall": 0.0,
    }
    weights = read_weights(folder / "model.safetensors")
    weights |= {
        weight: torch.zeros(shape)
        for weight, shape in shapes(architecture(config)).items()
        if weight not in weights and weight.endswith("sinks")
    }
    text = "\n".join(json.loads((ROOT / "models/zoo/heldout.json").read_text()))
    return TrainingCase(config, recipe, weights, text, ["--from", folder, "--operation", operation])


def compare(core_losses: Sequence[float], torch_losses: Sequence[float], tolerance: float) -> str | None:
    """Prints the losses of some steps, and returns what is wrong with them. A loss that is NaN is wrong, too."""
    interval = max(1, len(torch_losses) // 10)
    differences = [abs(a - b) for a, b in zip(core_losses, torch_losses, strict=True)]
    for step, (a, b) in enumerate(zip(core_losses, torch_losses, strict=True)):
        if step % interval == 0 or step == len(torch_losses) - 1:
            print(f"step {step:4d}  core {a:.6f}  PyTorch {b:.6f}  apart {a - b:+.1e}")
    wrong_steps = [step for step, difference in enumerate(differences) if not difference <= tolerance]
    if not differences or wrong_steps:
        return f"expected losses at most {tolerance} apart, found others at steps {wrong_steps or 'none: no step'}"
    print(f"largest difference: {max(differences):.1e}")
    return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpora", type=Path)
    parser.add_argument("--recipe", default="softmax")
    parser.add_argument("--onward", metavar="MODEL")
    parser.add_argument("--operation", default="softmax")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--tolerance", type=float, default=1e-3, help="largest difference of two losses of a step")
    arguments = parser.parse_args()
    if not arguments.corpora and not arguments.onward:
        parser.error("expected --corpora or --onward")
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        case = (
            case_of_stored_model(arguments.onward, arguments.operation, arguments.steps)
            if arguments.onward
            else case_of_recipe(arguments.recipe, arguments.steps, arguments.corpora, folder)
        )
        (folder / "text.txt").write_text(case.text)
        core_losses = train_by_core(case.recipe, [*case.files, "--text-file", folder / "text.txt"])
    ids = torch.tensor(Tokenizer.from_file(str(TOKENIZER)).encode(case.text, add_special_tokens=False).ids)
    start = cpu_seconds(resource.RUSAGE_SELF)
    torch_losses = train(
        Case(case.recipe, {}), case.config, {name: w.clone().requires_grad_() for name, w in case.weights.items()}, ids
    )
    core_time, torch_time = cpu_seconds(resource.RUSAGE_CHILDREN), cpu_seconds(resource.RUSAGE_SELF) - start
    print(f"seconds of CPU a step: core {core_time / arguments.steps:.3f}, PyTorch {torch_time / arguments.steps:.3f}")
    sys.exit(compare(core_losses[:-1], torch_losses, arguments.tolerance))


if __name__ == "__main__":
    main()
