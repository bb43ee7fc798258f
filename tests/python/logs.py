"""Makes logs of runs that were never trained, for tests of what is computed from logs."""

from collections.abc import Mapping
from typing import Any

from models.train import protocol
from models.train.recipe import Recipe

POINT = {"train_loss": None, "value_ratio": 0.5, "eviction": 0.1, "loss": 4.0, "hidden_ratio": 1.0, "row_mass": 1.0}


def log_of(recipe: Recipe, seed: int, alphas: Mapping[int, float], **values: Any) -> dict[str, Any]:
    """Makes a log that has these alphas at their steps, and other values that are the same at all steps."""
    points = [
        {"step": step, **POINT, "alpha": alpha, "alpha_share": alpha, "alpha_max": alpha, **values}
        for step, alpha in alphas.items()
    ]
    return protocol.empty_log(recipe, seed) | {"points": points}
