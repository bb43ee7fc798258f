"""What a claim about training rests on, fixed before the runs: models/README.md, "Seeds". No torch.

A long run of a recipe is named long-ID: the recipe's factor laid over 16,000 steps, with as many
seeds as are listed here. Its log is models/zoo/ID/seeds/SEED.json.
"""

import dataclasses
import json
from pathlib import Path
from typing import Any

from .recipe import Recipe, Training, recipes

ZOO = Path(__file__).resolve().parents[1] / "zoo"
LONG = "long-"
STEPS = 16_000
FALL = Training(steps=STEPS).decay[0]  # the last step before the learning rate falls
# When a run is measured: often while a sink may emerge, then every 800 steps.
POINTS = (*range(0, 4000, 200), *range(4000, STEPS + 1, 800))
HEADLINE = ("softmax", "sigmoid", "sigmoid-norm", "softmax1", "sink-logit", "key-bias", "gated",
            "elu1")
SEEDS, FEWER = (1, 2, 3, 4, 5), (1, 2, 3)
TOO_FEW = 3  # below so many pairs nothing is said
TOO_EARLY = 4000  # nor before this step
# The order after the headline, by the factors that the paper stresses.
FACTORS = ("data", "loss", "positions", "biases", "gate", "optimisation", "operation", "blocks",
           "experts", "diffusion")
REPLACED = {"short": "softmax"}  # what had fewer steps is compared at the same steps


def long(recipe: Recipe) -> Recipe:
    """The recipe as the protocol trains it."""
    return dataclasses.replace(
        recipe, id=LONG + recipe.id, timeline=False,
        training=dataclasses.replace(recipe.training, steps=STEPS),
        baseline=LONG + REPLACED.get(recipe.baseline, recipe.baseline),
        seeds=SEEDS if recipe.id in HEADLINE else FEWER)


def runs() -> dict[str, Recipe]:
    """Every recipe of the protocol by the id of its long runs, in the order of training."""
    known = [recipe for recipe in recipes().values() if recipe.id not in REPLACED]
    known.sort(key=lambda r: (HEADLINE.index(r.id) if r.id in HEADLINE else len(HEADLINE),
                              FACTORS.index(r.factor), r.order, r.id))
    return {LONG + recipe.id: long(recipe) for recipe in known}


def log_file(recipe: Recipe, seed: int, zoo: Path = ZOO) -> Path:
    return zoo / recipe.id.removeprefix(LONG) / "seeds" / f"{seed}.json"


def begin(recipe: Recipe, seed: int) -> dict[str, Any]:
    training = json.loads(json.dumps(dataclasses.asdict(recipe.training)))
    return {"recipe": recipe.id, "baseline": recipe.baseline, "seed": seed, "training": training,
            "sink_tokens": list(recipe.sink_tokens), "points": [], "alpha_map": None}


def read(recipe: Recipe, seed: int, zoo: Path = ZOO) -> dict[str, Any]:
    """The log of a run, or an empty one. Raises ValueError where it is not of this recipe."""
    file, empty = log_file(recipe, seed, zoo), begin(recipe, seed)
    if not file.exists():
        return empty
    log = json.loads(file.read_text())
    for name in ("recipe", "baseline", "seed", "training", "sink_tokens"):
        if log[name] != empty[name]:
            raise ValueError(f"{file}: {name} is {log[name]}, expected {empty[name]}")
    return log


def write(log: dict[str, Any], file: Path) -> None:
    """One line for each point, so that a longer log is a small difference."""
    file.parent.mkdir(parents=True, exist_ok=True)
    points = ",\n".join("    " + json.dumps(point) for point in log["points"])
    rest = {name: value for name, value in log.items() if name != "points"}
    body = "".join(f'  {json.dumps(name)}: {json.dumps(value)},\n' for name, value in rest.items())
    file.write_text("{\n" + body + '  "points": [\n' + points + "\n  ]\n}\n")


def is_done(log: dict[str, Any], until: int = STEPS) -> bool:
    """Whether the run was measured up to its last step, or up to `until` where that is earlier."""
    return bool(log["points"]) and log["points"][-1]["step"] >= min(until, log["training"]["steps"])
