"""Train a recipe of the zoo by core/train and by PyTorch, from the same weights on the same batches,
and print how far apart their losses are.

    python -m models.reference.follow_training --corpora FOLDER [--recipe softmax] [--steps 200]

Batches are drawn as core/train/random.h says. The core trains in wasm, whose bits are the native
build's; PyTorch in F32 on one thread, so that both times are of one core.
"""

import argparse
import json
import resource
import subprocess
import tempfile
from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer

from ..train.recipe import T, recipes
from ..train.train import SEQUENCES, WARM_UP, initial_weights
from .model import architecture
from .write_training import Case, train

ROOT = Path(__file__).resolve().parents[2]
CHARACTERS = 1_000_000


def by_core(folder: Path, recipe: dict[str, object], tokenizer: Path) -> list[float]:
    settings = [word for name, value in recipe.items()
                for word in (f"--{name.replace('_', '-')}", str(value))]
    files = ["--config", folder / "config.json", "--begin", folder / "model.safetensors",
             "--text-file", folder / "text.txt", "--tokenizer", tokenizer]
    lines = subprocess.run(
        ["node", ROOT / "wasm/cli.js", "train", *settings, *files, "--json", "--every", "1"],
        check=True, capture_output=True, text=True).stdout.splitlines()
    return [json.loads(line)["loss"] for line in lines]


def seconds(who: int) -> float:
    return resource.getrusage(who).ru_utime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpora", type=Path, required=True)
    parser.add_argument("--recipe", default="softmax")
    parser.add_argument("--steps", type=int, default=200)
    given = parser.parse_args()
    torch.set_num_threads(1)
    zoo = recipes()[given.recipe]
    arch, own = architecture(zoo.config), zoo.training
    recipe = {"task": "text", "seed": 1, "steps": given.steps, "batch": SEQUENCES, "length": T,
              "first": 0, "optimiser": "adamw", "learning_rate": own.learning_rate, "beta1": 0.9,
              "beta2": 0.95, "weight_decay": own.weight_decay,
              "embedding_decay": own.embedding_decay, "clip": 1.0, "warm_up": WARM_UP, "fall": 0.2}
    weights = initial_weights(arch, 1, own)
    tokenizer = ROOT / "models/zoo/softmax/tokenizer.json"
    text = (given.corpora / "children_lit.txt").read_text()[:CHARACTERS].replace("<|endoftext|>", "")
    ids = torch.tensor(Tokenizer.from_file(str(tokenizer)).encode(text, add_special_tokens=False).ids)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "config.json").write_text(json.dumps(zoo.config))
        (folder / "text.txt").write_text(text)
        save_file(weights, folder / "model.safetensors")
        core = by_core(folder, recipe, tokenizer)
    began = seconds(resource.RUSAGE_SELF)
    theirs = train(Case(recipe, {}), zoo.config,
                   {name: w.clone().requires_grad_() for name, w in weights.items()}, ids)
    ours, torchs = seconds(resource.RUSAGE_CHILDREN), seconds(resource.RUSAGE_SELF) - began
    print(f"seconds of CPU a step: core {ours / given.steps:.3f}, PyTorch {torchs / given.steps:.3f}")
    for step, (a, b) in enumerate(zip(core, theirs, strict=False)):
        if step % 20 == 0 or step == given.steps - 1:
            print(f"step {step:4d}  core {a:.6f}  PyTorch {b:.6f}  apart {a - b:+.1e}")
    print("largest difference:", max(abs(a - b) for a, b in zip(core, theirs, strict=False)))


if __name__ == "__main__":
    main()
