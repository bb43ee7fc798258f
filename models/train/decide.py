"""Protocol B's decisions, from its logs alone; models/README.md, "Second version of the rules".

Every outcome is its mean over the steps B_MEAN. A comparison is Welch's difference between a recipe's seeds and all
seeds of its baseline, with an interval of 97.5%, because there may be two looks. Existence and absence of a sink
depend on the level of alpha, the weight above uniform attention.
"""

import json
from dataclasses import dataclass
from statistics import mean, stdev, variance
from typing import Any

from scipy import stats

from . import protocol
from .factors import ONSET, Difference, at, level, onset, reported
from .recipe import Recipe, recipes

CONFIDENCE = 0.975
EFFECT = 0.1  # alpha: an interval nearer to 0 means no effect, and a level from here on is a sink
VANISHED = 0.02  # if alpha stays below this from step LATE on, two seeds suffice
LATE = 2000
DISCOVERIES = 0.05  # false discovery rate for verdicts on a direction
OUTCOMES = ("alpha", "value_ratio", "eviction", "loss")
SHARE = "alpha_share"  # alpha on rows divided by their sums, Gu et al.'s measure
Logs = dict[int, dict[str, Any]]
# Verdicts by the first version of the rules, at step 4,000. To be deleted after the next release.
BEFORE = {
    "sigmoid": "agrees",
    "no-bos": "less sink; the paper has no figure",
    "softmax-scaled": "agrees",
    "decay-5": "undecided; a second look is due",
    "sink-token": "undecided; a second look is due",
    "sigmoid-norm": "undecided; a second look is due",
    "softmax1": "undecided; no figure; a second look is due",
    "lr-3e-4": "agrees",
    "lr-3e-4-decay": "agrees",
    "decay-0": "agrees",
    "decay-0-matrices": "agrees",
    "decay-small": "agrees",
    "decay-half": "differs",
    "decay-2": "agrees",
    "sigmoid-plain": "agrees",
    "elu1-kernel-norm": "undecided",
    "identity": "agrees",
    "mlp-kernel": "agrees",
    "mlp-kernel-norm": "agrees",
    "softpick": "less sink; the paper has no figure",
    "relu": "less sink; the paper has no figure",
    "softmax-p": "less sink; the paper has no figure",
    "fixed-first": "agrees",
    "key-value-bias": "agrees",
    "fixed-second": "1 of 3 seeds",
}


def welch(a: list[float], b: list[float], confidence: float = CONFIDENCE) -> Difference:
    """Mean of a minus mean of b, two numbers or more each (Welch 1947)."""
    middle = mean(a) - mean(b)
    if variance(a) + variance(b) == 0:
        return Difference(middle, middle, middle, 0.0 if middle else 1.0)
    test = stats.ttest_ind(a, b, equal_var=False)
    low, high = map(float, test.confidence_interval(confidence))
    return Difference(middle, low, high, float(test.pvalue))


def is_none(interval: Difference) -> bool:
    """True if an interval of alpha is inside -EFFECT to +EFFECT."""
    return interval.low > -EFFECT and interval.high < EFFECT


def judge(interval: Difference, there: str, outcome: str = "alpha") -> str:
    """Comparison: the verdict ("agrees", "differs" or "undecided") on an interval where a paper saw "less", "more" or
    "the same". Only alpha has a smallest effect, so only for it can "the same" agree."""
    here = interval.direction
    if there != "the same":
        return "undecided" if here is None else "agrees" if here == there else "differs"
    if here is not None:
        return "differs"
    return "agrees" if outcome == "alpha" and is_none(interval) else "undecided"


def judge_existence(interval: Difference) -> str:
    """The verdict on the level of alpha where a source claims a sink."""
    return "agrees" if interval.low >= EFFECT else "differs" if is_none(interval) else "undecided"


def judge_absence(levels: list[Difference], values: list[float]) -> str:
    """The verdict on the levels of alpha by raw weights and by shares, and on both in every seed, where a source claims
    that there is no sink."""
    if all(map(is_none, levels)) and all(-EFFECT < value < EFFECT for value in values):
        return "agrees"
    return "differs" if any(one.low >= EFFECT for one in levels) else "undecided"


def leaves_open(interval: Difference) -> bool:
    """True if an interval of alpha contains both 0 and an effect of EFFECT."""
    return interval.direction is None and not is_none(interval)


def survivors(comparisons: list[Difference]) -> list[bool]:
    """For each comparison, whether it survives the procedure of Benjamini and Hochberg (1995) at the rate
    DISCOVERIES."""
    if not comparisons:
        return []
    return [bool(p <= DISCOVERIES) for p in stats.false_discovery_control([one.p for one in comparisons])]


def whole(log: dict[str, Any]) -> bool:
    """True if a log reaches step B_STEPS. Raises ValueError for a gap."""
    missing = protocol.gap(log)
    if missing is not None:
        raise ValueError(f"{log['recipe']}, seed {log['seed']}: step {missing} is missing")
    return protocol.is_done(log, protocol.B_STEPS)


def outcome(logs: Logs, name: str) -> list[float]:
    """The mean of an outcome over the steps B_MEAN, per seed; empty if it is undefined."""
    series = [[at(log, step).get(name) for step in protocol.B_MEAN] for _, log in sorted(logs.items())]
    return [] if any(None in values for values in series) else [mean(values) for values in series]


def has_vanished(logs: Logs) -> bool:
    """True if the sink stays away in every seed, by raw weights and by shares."""
    return all(point[name] < VANISHED for log in logs.values() for point in log["points"]
               for name in ("alpha", SHARE) if LATE <= point["step"] <= protocol.B_STEPS)


def levels(logs: Logs) -> tuple[list[Difference], list[float]]:
    """The intervals of alpha by raw weights and by shares, and both values of every seed."""
    values = [outcome(logs, name) for name in ("alpha", SHARE)]
    return [level(one, 0, CONFIDENCE) for one in values], [*values[0], *values[1]]


def two_suffice(logs: Logs) -> bool:
    """True if two seeds decide: the sink stays away in both, and their values are close enough for their intervals to
    exclude a sink."""
    return len(logs) == 2 and has_vanished(logs) and judge_absence(*levels(logs)) == "agrees"


def missing(id: str, logs: Logs) -> int:
    """Number of runs that a recipe lacks before it counts: the baseline needs eight, another recipe three, or two that
    suffice."""
    if id == protocol.B_BASELINE:
        return len(protocol.B_BASELINE_SEEDS) - len(logs)
    if two_suffice(logs):
        return 0
    return max(0, protocol.B_FIRST - len(logs))


@dataclass(frozen=True)
class Decision:
    """One recipe of protocol B and its baseline."""

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
    def alpha_change(self) -> Difference | None:
        """The difference of alpha, if it can be decided."""
        return self.difference("alpha") if self.is_decidable else None

    @property
    def needs_more(self) -> bool:
        """True if the first look leaves both 0 and an effect of EFFECT open."""
        alpha_change = self.alpha_change
        return (alpha_change is not None and len(self.logs) <= protocol.B_FIRST
                and protocol.has_second_look(id_of(self.recipe)) and leaves_open(alpha_change))

    @property
    def verdict(self) -> str:
        """"agrees" or "differs" with the paper's finding for Sink_1, "undecided", or the number of seeds so far."""
        alpha_change, there = self.alpha_change, reported(self.recipe.paper)
        if alpha_change is None:
            return f"{len(self.logs)} of {protocol.B_FIRST} seeds"
        if there is None:
            here = alpha_change.direction
            return f"{here} sink; the paper has no figure" if here else "undecided; no figure"
        return judge(alpha_change, there)


def logs_of(recipe: Recipe) -> Logs:
    """The complete logs of a recipe that count, by seed. A second look counts with all of its seeds or not at all."""
    all_logs = {seed: protocol.read(recipe, seed) for seed in recipe.seeds}
    logs = {seed: log for seed, log in all_logs.items() if log["points"] and whole(log)}
    if recipe.id != protocol.B_BASELINE and len(logs) < len(protocol.B_SECOND):
        logs = dict(list(logs.items())[:protocol.B_FIRST])
    return logs


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


def spent() -> str:
    """The estimated hours of all logged runs, from their numbers of steps."""
    steps: dict[str, list[int]] = {"shipped models": [], "protocol A": [], "protocol B": []}
    devices = 0
    for id in recipes():
        file = protocol.ZOO / id / "training.jsonl"
        if file.exists():
            steps["shipped models"].append(json.loads(file.read_text().splitlines()[-1])["step"])
    # Two recipes of protocol B are runs of protocol A.
    for recipe in (protocol.decisive_runs() | protocol.runs()).values():
        kind = "protocol A" if recipe.id.startswith(protocol.LONG) else "protocol B"
        seeds = {*recipe.seeds, *(protocol.B_BASELINE_SEEDS if recipe.id == protocol.B_BASELINE else ())}
        for log in (protocol.read(recipe, seed) for seed in sorted(seeds)):
            if log.get("device"):
                devices += 1
            elif log["points"]:
                steps[kind].append(log["points"][-1]["step"])

    def hours(count: int) -> str:
        return " to ".join(f"{count * one / 3600:.0f}" for one in protocol.STEP_SECONDS)

    each = "; ".join(f"{kind} {hours(sum(some))} in {len(some)} runs" for kind, some in steps.items())
    seconds = " to ".join(map(str, protocol.STEP_SECONDS))
    return (f"All runs so far took some {hours(sum(map(sum, steps.values())))} core hours, a step being taken to last "
            f"{seconds} s ({each}). {devices} more ran on a CUDA device.")


def onset_interval(logs: Logs) -> str:
    """The mean onset and its interval over seeds; if some seeds have none, the number of seeds with one."""
    steps = [onset(log, protocol.B_STEPS) for _, log in sorted(logs.items())]
    reached = [float(step) for step in steps if step is not None]
    if len(reached) < len(steps) or len(reached) < 2:
        return f"in {len(reached)} of {len(steps)} seeds before step {protocol.B_STEPS:,}"
    interval = level(reached, 0, CONFIDENCE)
    return f"step {interval.mean:,.0f} ({interval.low:,.0f} to {interval.high:,.0f}, {len(reached)} seeds)"


def baseline_words(bases: Logs) -> str:
    """The baseline's outcomes: mean and deviation over its seeds."""
    cells = []
    for name, title in zip(OUTCOMES, ("alpha", "value ratio", "eviction", "loss")):
        values = outcome(bases, name)
        if len(values) > 1:
            cells.append(f"{title} {mean(values):.3f} (deviation {stdev(values):.3f})")
    alphas = ", ".join(f"{alpha:.3f}" for alpha in outcome(bases, "alpha"))
    return (f"Baseline: {len(bases)} of {len(protocol.B_BASELINE_SEEDS)} seeds. {'; '.join(cells)}; "
            f"alpha by seed {alphas}; onset (alpha >= {ONSET}) {onset_words(bases)}.")


def name_of(recipe: Recipe) -> str:
    """The recipe's id, and its baseline's if that is not the table's."""
    base = recipe.baseline.removeprefix(protocol.B)
    return f"`{id_of(recipe)}`" + ("" if base == protocol.B_BASELINE else f" against `{base}`")


def percents(values: list[float]) -> str:
    return ", ".join(f"{value:.0f}%" for value in values)


def table(rows: list[Decision]) -> str:
    """Every recipe that has a log, in Markdown; the first one's baseline is that of the table."""
    bases = rows[0].bases if rows else {}
    titles = ("recipe", "seeds", "alpha", "by shares", "Sink_1^0.3", "difference of alpha",
              "value ratio", "eviction", "loss", "onset", "the paper", "verdict", "before")
    lines = [baseline_words(bases), "", f"| {' | '.join(titles)} |", "|" + "---|" * len(titles)]
    for one in rows:
        if not one.logs:
            continue
        levels = [", ".join(f"{alpha:.3f}" for alpha in outcome(one.logs, name))
                  for name in ("alpha", SHARE)]
        differences = ["" if (value := one.difference(name)) is None else str(value)
                       for name in OUTCOMES]
        verdict = one.verdict
        if one.is_decidable and len(one.logs) < protocol.B_FIRST:
            verdict += ", on two seeds"
        cells = [name_of(one.recipe), str(len(one.logs)), *levels,
                 percents(outcome(one.logs, "sink_0.3")), *differences, onset_words(one.logs),
                 reported(one.recipe.paper) or "no figure",
                 verdict + ("; a second look is due" if one.needs_more else ""),
                 BEFORE.get(id_of(one.recipe), "")]
        lines.append(f"| {' | '.join(cells)} |")
    left = [id_of(one.recipe) for one in rows if not one.logs]
    if left:
        lines += ["", f"No whole run yet: {', '.join(f'`{id}`' for id in left)}."]
    return "\n".join(lines)


def published(rows: list[Decision]) -> str:
    """Data for figures, as JSON with a line per recipe that has a complete run: its seeds, and the outcomes of each."""
    logs = {id_of(one.recipe): one.logs for one in rows}
    logs = {protocol.B_ORDER[0]: rows[0].bases} | logs
    lines = [f'  {json.dumps(id)}: ' + json.dumps(
        {"seeds": sorted(some)} | {name: [round(value, 4) for value in outcome(some, name)]
                                   for name in ("alpha", "loss")})
             for id, some in logs.items() if some]
    return "{\n" + ",\n".join(lines) + "\n}\n"
