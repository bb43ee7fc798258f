"""What protocol B decides, from its logs alone; models/README.md, "Protocol B", has its rules.

A recipe's seeds are compared with all seeds of its baseline, at step B_STEPS: Welch's difference of
means with an interval of 97.5%, for there may be two looks.
"""

import math
from dataclasses import dataclass
from statistics import mean, variance
from typing import Any

from . import protocol
from .factors import ONSET, Difference, at, onset, reported, t_quantile
from .recipe import Recipe

CONFIDENCE = 0.975
EFFECT = 0.1  # of alpha; an interval that holds neither 0 nor this much needs no second look
VANISHED = 0.02  # alpha below it at every step from LATE on: two seeds decide
LATE = 2000
OUTCOMES = ("alpha", "value_ratio", "eviction", "loss")
Logs = dict[int, dict[str, Any]]


def welch(a: list[float], b: list[float], confidence: float = CONFIDENCE) -> Difference:
    """Mean of a minus mean of b, two numbers or more each (Welch 1947)."""
    u, v = variance(a) / len(a), variance(b) / len(b)
    middle = mean(a) - mean(b)
    if u + v == 0:
        return Difference(middle, middle, middle)
    freedom = (u + v) ** 2 / (u * u / (len(a) - 1) + v * v / (len(b) - 1))
    half = t_quantile(freedom, confidence) * math.sqrt(u + v)
    return Difference(middle, middle - half, middle + half)


def judge(found: Difference, there: str, outcome: str = "alpha") -> str:
    """The verdict on an interval where a paper saw "less", "more" or "the same": "agrees", "differs" or
    "undecided". Only of alpha is it said how small an effect is none."""
    here = found.direction
    if there != "the same":
        return "undecided" if here is None else "agrees" if here == there else "differs"
    if here is not None:
        return "differs"
    small = outcome == "alpha" and found.low > -EFFECT and found.high < EFFECT
    return "agrees" if small else "undecided"


def leaves_open(found: Difference) -> bool:
    """Whether an interval of alpha holds both 0 and an effect of EFFECT."""
    return found.direction is None and (found.low <= -EFFECT or found.high >= EFFECT)


def whole(log: dict[str, Any]) -> bool:
    """Whether a log reaches the step that is compared, without a gap. Raises ValueError for a gap."""
    missing = protocol.gap(log)
    if missing is not None:
        raise ValueError(f"{log['recipe']}, seed {log['seed']}: step {missing} is missing")
    return protocol.is_done(log, protocol.B_STEPS)


def outcome(logs: Logs, name: str) -> list[float]:
    """One outcome of each seed at the step that is compared; empty where it is not defined."""
    found = [at(log, protocol.B_STEPS)[name] for _, log in sorted(logs.items())]
    return [] if None in found else found


def has_vanished(logs: Logs) -> bool:
    return all(point["alpha"] < VANISHED for log in logs.values() for point in log["points"]
               if LATE <= point["step"] <= protocol.B_STEPS)


def late_logs(recipe: Recipe) -> Logs:
    """By seed, those that reach step B_LAST. Raises ValueError for a gap."""
    found = {seed: protocol.read(recipe, seed) for seed in recipe.seeds}
    for seed, log in found.items():
        if protocol.gap(log) is not None:
            raise ValueError(f"{recipe.id}, seed {seed}: step {protocol.gap(log)} is missing")
    return {seed: log for seed, log in found.items() if protocol.is_done(log, protocol.B_LAST)}


def stays_away(logs: Logs) -> bool:
    """Whether the sink vanished by raw weights and by shares, in every seed."""
    return all(point[name] < VANISHED for log in logs.values() for point in log["points"]
               for name in ("alpha", "alpha_share") if LATE <= point["step"] <= protocol.B_LAST)


def late_mean(log: dict[str, Any], name: str) -> float:
    """Of an outcome over the last measurements."""
    return mean(at(log, step)[name] for step in protocol.B_MEAN)


def look_again(logs: Logs, bases: Logs) -> bool:
    """Whether the interval of alpha leaves both 0 and an effect of EFFECT open. Without the logs of the
    baseline there is none yet."""
    values, base = ([late_mean(log, "alpha") for log in group.values()] for group in (logs, bases))
    return len(base) > 1 and leaves_open(welch(values, base))


def missing(id: str, logs: Logs) -> int:
    """How many runs a recipe lacks before it counts: it takes eight of the baseline and three of another
    recipe, or two whose sink has vanished."""
    if id == protocol.B_BASELINE:
        return len(protocol.B_BASELINE_SEEDS) - len(logs)
    if len(logs) == 2 and has_vanished(logs):
        return 0
    return max(0, protocol.B_FIRST - len(logs))


@dataclass(frozen=True)
class Decision:
    """One recipe of protocol B beside its baseline."""

    recipe: Recipe
    logs: Logs
    bases: Logs

    def difference(self, name: str) -> Difference | None:
        values, base = outcome(self.logs, name), outcome(self.bases, name)
        return welch(values, base) if len(values) > 1 and len(base) > 1 else None

    @property
    def is_decidable(self) -> bool:
        return not (missing(self.recipe.id, self.logs) or missing(self.recipe.baseline, self.bases))

    @property
    def needs_more(self) -> bool:
        """Whether the first look leaves both 0 and an effect of EFFECT open."""
        found = self.difference("alpha")
        return (self.is_decidable and found is not None and len(self.logs) < len(protocol.B_SECOND)
                and leaves_open(found))

    @property
    def verdict(self) -> str:
        """"agrees" or "differs" with what the paper saw of Sink_1, "undecided", or what is missing."""
        found, there = self.difference("alpha"), reported(self.recipe.paper)
        if not self.is_decidable or found is None:
            return f"{len(self.logs)} of {protocol.B_FIRST} seeds"
        if there is None:
            here = found.direction
            return f"{here} sink; the paper has no figure" if here else "undecided; no figure"
        return judge(found, there)


def logs_of(recipe: Recipe) -> Logs:
    """The whole logs of a recipe by seed."""
    found = {seed: protocol.read(recipe, seed) for seed in recipe.seeds}
    return {seed: log for seed, log in found.items() if log["points"] and whole(log)}


def decisions() -> list[Decision]:
    """Every recipe of protocol B, in its order, after the baseline."""
    runs = protocol.decisive_runs()
    logs = {id: logs_of(recipe) for id, recipe in runs.items()}
    return [Decision(recipe, logs[id], logs[recipe.baseline])
            for id, recipe in runs.items() if id != protocol.B_BASELINE]


def id_of(recipe: Recipe) -> str:
    same = {run: id for id, run in protocol.B_SAME.items()}
    return same.get(recipe.id, recipe.id.removeprefix(protocol.B))


def onset_words(logs: Logs) -> str:
    steps = [onset(log, protocol.B_STEPS) for _, log in sorted(logs.items())]
    return ", ".join("never" if step is None else f"{step:,}" for step in steps)


def baseline_words(bases: Logs) -> str:
    """The baseline's outcomes: mean and deviation over its seeds."""
    cells = []
    for name, title in zip(OUTCOMES, ("alpha", "value ratio", "eviction", "loss")):
        values = outcome(bases, name)
        if len(values) > 1:
            cells.append(f"{title} {mean(values):.3f} (deviation {math.sqrt(variance(values)):.3f})")
    alphas = ", ".join(f"{alpha:.3f}" for alpha in outcome(bases, "alpha"))
    return (f"Baseline: {len(bases)} of {len(protocol.B_BASELINE_SEEDS)} seeds. {'; '.join(cells)}; "
            f"alpha by seed {alphas}; onset (alpha >= {ONSET}) {onset_words(bases)}.")


def name_of(recipe: Recipe) -> str:
    """The recipe's id, and its baseline's where that is not the one of the table."""
    base = recipe.baseline.removeprefix(protocol.B)
    return f"`{id_of(recipe)}`" + ("" if base == protocol.B_BASELINE else f" against `{base}`")


def table(found: list[Decision]) -> str:
    """Every recipe that has a log, in Markdown; the first one's baseline is that of the table."""
    bases = found[0].bases if found else {}
    lines = [baseline_words(bases), "",
             "| recipe | seeds | alpha | difference of alpha | value ratio | eviction | loss | onset "
             "| the paper | verdict |", "|" + "---|" * 10]
    for one in found:
        if not one.logs:
            continue
        alphas = ", ".join(f"{alpha:.3f}" for alpha in outcome(one.logs, "alpha"))
        cells = ["" if (value := one.difference(name)) is None else str(value) for name in OUTCOMES]
        lines.append(f"| {name_of(one.recipe)} | {len(one.logs)} | {alphas} | " + " | ".join(cells)
                     + f" | {onset_words(one.logs)} | {reported(one.recipe.paper) or 'no figure'} "
                     + f"| {one.verdict}{'; a second look is due' if one.needs_more else ''} |")
    left = [id_of(one.recipe) for one in found if not one.logs]
    return "\n".join([*lines, "", f"No whole run yet: {', '.join(f'`{id}`' for id in left)}."])
