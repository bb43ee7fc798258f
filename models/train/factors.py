"""Computes means with intervals, the onset of the sink, and the table of the pilot of protocol A from the logs."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

from scipy import stats

from . import protocol
from .recipe import Recipe

ONSET_ALPHA = 0.1  # a sink has emerged once alpha stays at or above this
SAME_RATIOS = (0.75, 1.33)  # two figures of a paper with a ratio in this range count as the same
# Alpha has stopped rising if its rise over the LAST_STEPS steps before the decay is below LARGEST_FLAT_RISE.
LAST_STEPS, LARGEST_FLAT_RISE = 2400, 0.02
Point = dict[str, Any]


def format_signed(x: float) -> str:
    return f"{round(x, 3) + 0.0:+.3f}"


@dataclass(frozen=True)
class Difference:
    """The mean of a group minus another group's mean or a number, its interval, and the probability of such a mean if
    there were no difference."""

    mean: float
    low: float
    high: float
    p: float = math.nan

    def __str__(self) -> str:
        return f"{format_signed(self.mean)} ({format_signed(self.low)} to {format_signed(self.high)})"

    def points(self) -> str:
        """Returns the difference of two percentages in words."""
        return f"{self.mean:+.0f} ({self.low:+.0f} to {self.high:+.0f})"

    @property
    def direction(self) -> str | None:
        return "less" if self.high < 0 else "more" if self.low > 0 else None


def mean_difference(values: list[float], against: float = 0.0, confidence: float = 0.95) -> Difference:
    """Returns the mean of the values minus `against`, with Student's interval, which is infinite for one value."""
    middle = mean(values) - against
    if len(values) < 2:
        return Difference(middle, -math.inf, math.inf)
    if len(set(values)) == 1:
        return Difference(middle, middle, middle, 0.0 if middle else 1.0)
    test = stats.ttest_1samp(values, against)
    low, high = test.confidence_interval(confidence)
    return Difference(middle, float(low) - against, float(high) - against, float(test.pvalue))


def point_at(log: dict[str, Any], step: int) -> Point:
    return next(point for point in log["points"] if point["step"] == step)


def onset(log: dict[str, Any], until: int = protocol.STEPS) -> int | None:
    """Returns the first measured step from which alpha stays at or above ONSET_ALPHA up to step `until`; None if there
    is no such step."""
    first_step = None
    for point in log["points"]:
        if point["step"] > until:
            break
        if point["alpha"] < ONSET_ALPHA:
            first_step = None
        elif first_step is None:
            first_step = point["step"]
    return first_step


def list_onsets(logs: list[dict[str, Any]]) -> str:
    def describe_onset(log: dict[str, Any]) -> str:
        step = onset(log)
        return "not measured" if protocol.missing_step(log) is not None else "none" if step is None else f"{step:,}"

    return ", ".join(map(describe_onset, logs))


def paper_finding(paper: dict[str, Any]) -> str | None:
    """Returns the paper's finding on the factor: a sink of "less", "more" or "the same" size; None if none is given."""
    if "says" in paper:
        return str(paper["says"])
    if "base" not in paper:
        return None
    ratio = paper["sink_1"] / paper["base"]
    return "less" if ratio < SAME_RATIOS[0] else "more" if ratio > SAME_RATIOS[1] else "the same"


def late_rise(log: dict[str, Any]) -> float:
    first, last = (point_at(log, step)["alpha"] for step in (protocol.FALL_STEP - LAST_STEPS, protocol.FALL_STEP))
    return last - first


PILOT_STEPS = sorted({*range(1000, 4000, 1000), *range(4000, protocol.STEPS, 1600), protocol.FALL_STEP})


def pilot_table(logs: dict[int, dict[str, Any]]) -> str:
    """Returns the table of the pilot's runs, by seed. Every run has come to FALL_STEP."""
    lines = ["| step | " + " | ".join(f"seed {seed}" for seed in logs) + " |", "|" + "---|" * (len(logs) + 1)]

    def add_row(name: str, cells: Iterable[str]) -> None:
        lines.append(f"| {name} | " + " | ".join(cells) + " |")

    last_step = min(log["points"][-1]["step"] for log in logs.values())
    for step in [step for step in PILOT_STEPS if step <= last_step]:
        add_row(f"{step:,}", [f"{point_at(log, step)['alpha']:.3f}" for log in logs.values()])
    last_points = [log["points"][-1] for log in logs.values()]
    add_row("measured up to", [f"{point['step']:,}" for point in last_points])
    add_row("onset", [list_onsets([log]) for log in logs.values()])
    for name, key in (
        ("value ratio there", "value_ratio"),
        ("eviction there", "eviction"),
        ("Sink at 0.2 there, %", "sink_0.2"),
        ("Sink at 0.3 there, %", "sink_0.3"),
        ("Sink at 0.4 there, %", "sink_0.4"),
        ("loss there", "loss"),
    ):
        add_row(name, [f"{point[key]:.3g}" for point in last_points])
    rises = [late_rise(log) for log in logs.values()]
    add_row(f"rise from {protocol.FALL_STEP - LAST_STEPS:,} to {protocol.FALL_STEP:,}", [f"{r:+.3f}" for r in rises])
    flat_count = sum(r < LARGEST_FLAT_RISE for r in rises)
    lines += [
        "",
        f"Of {len(logs)} seeds {len(rises)} have come to step {protocol.FALL_STEP:,}; the "
        f"sink of {flat_count} of them rises there by less than {LARGEST_FLAT_RISE} over {LAST_STEPS:,} steps.",
    ]
    return "\n".join(lines)


def logs_of(recipe: Recipe, zoo: Path = protocol.ZOO) -> dict[int, dict[str, Any]]:
    logs = {seed: protocol.read_log(recipe, seed, zoo) for seed in recipe.seeds}
    return {seed: log for seed, log in logs.items() if log["points"]}
