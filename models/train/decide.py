"""Computes the verdicts of protocol B from its logs, by the rules of models/README.md, "Third version of the rules".

Every outcome is a mean over the steps B_MEAN_STEPS. Comparisons are by Welch's test of a recipe's seeds against all
seeds of its baseline. The interval is 97.5%, because a second look may follow with more seeds. Existence and absence of
a sink are judged by one level: alpha, the weight above uniform attention, minus the same seed's alpha at step 0.
"""

import json
import tomllib
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import mean, stdev, variance
from typing import Any

from scipy import stats

from . import protocol
from .factors import ONSET_ALPHA, Difference, Point, mean_difference, onset, paper_finding, point_at
from .recipe import Recipe, recipes

CONFIDENCE = 0.975
MIN_EFFECT = 0.1  # the smallest level of a sink, and the smallest difference of alpha that asks for a second look
SAME_MARGIN = 0.5  # "the same" is a difference of less than this part of the baseline's outcome
VANISHED_ALPHA = 0.02  # two seeds suffice if alpha stays below this from step LATE_STEP on
LATE_STEP = 2000
FALSE_DISCOVERY_RATE = 0.05  # for verdicts on a direction
OUTCOMES = ("alpha", "value_ratio", "eviction", "loss")
SHARE_OUTCOME = "alpha_share"  # alpha on rows divided by their sums, as Gu et al. measure it
SINK_OUTCOMES = ("sink_0.2", "sink_0.3", "sink_0.4")  # the paper's outcome at three thresholds, in percent
DEPENDS = "depends on the outcome"
Logs = dict[int, dict[str, Any]]
# Operations whose weights have signs: their row sums cancel, and are no scale for a weight.
SIGNED_OPERATIONS = ("identity", "identity_norm", "mlp_kernel", "mlp_kernel_norm")
B_BASELINE_ID = protocol.B_ORDER[0]
LEVEL_KINDS = {"a sink": "existence", "none": "absence"}  # what a claim says of a level, and its kind


def welch_difference(a: list[float], b: list[float], confidence: float = CONFIDENCE) -> Difference:
    """Returns the mean of a minus the mean of b, with the interval of Welch's test (1947). Each list needs at least two
    numbers."""
    middle = mean(a) - mean(b)
    if variance(a) + variance(b) == 0:
        return Difference(middle, middle, middle, 0.0 if middle else 1.0)
    with warnings.catch_warnings():  # scipy warns where all numbers of one list are equal, which the test allows
        warnings.filterwarnings("ignore", "Precision loss", RuntimeWarning)
        test = stats.ttest_ind(a, b, equal_var=False)
    low, high = map(float, test.confidence_interval(confidence))
    return Difference(middle, low, high, float(test.pvalue))


def is_no_effect(interval: Difference) -> bool:
    return interval.low > -MIN_EFFECT and interval.high < MIN_EFFECT


def judge(interval: Difference, paper_direction: str, margin: float = 0.0) -> str:
    """Returns "agrees", "differs" or "undecided" for a comparison, from its interval and the paper's finding "less",
    "more" or "the same". Inside `margin` on both sides nothing has changed."""
    if paper_direction == "the same":
        # Beside a baseline of zeros the margin is 0, too.
        if -margin < interval.low and interval.high < margin or interval.low == interval.high == 0:
            return "agrees"
        return "differs" if interval.low >= margin or interval.high <= -margin else "undecided"
    direction = interval.direction
    return "undecided" if direction is None else "agrees" if direction == paper_direction else "differs"


def judge_with_sinks(
    interval: Difference,
    sinks: list[tuple[Difference, float]],
    paper_direction: str,
    margin: float,
) -> str:
    """Judges a comparison of alpha, beside those of Sink_k, each with its own margin: a verdict that one of them turns
    round depends on the outcome."""
    verdict = judge(interval, paper_direction, margin)
    opposite = {"agrees": "differs", "differs": "agrees"}.get(verdict)
    by_sinks = [judge(sink_interval, paper_direction, sink_margin) for sink_interval, sink_margin in sinks]
    return DEPENDS if opposite is not None and opposite in by_sinks else verdict


def judge_level(levels: list[Difference], kind: str) -> str:
    """Returns the verdict on the existence or the absence of a sink, from the level by weights and that by shares."""
    found = [True if level.low >= MIN_EFFECT else False if is_no_effect(level) else None for level in levels]
    if None in found:
        return "undecided"
    if len(set(found)) > 1:
        return DEPENDS
    return "agrees" if found[0] is (kind == "existence") else "differs"


def is_undecided(interval: Difference) -> bool:
    return interval.direction is None and not is_no_effect(interval)


def survive_correction(comparisons: list[Difference]) -> list[bool]:
    """Returns which comparisons survive the procedure of Benjamini and Hochberg (1995) at FALSE_DISCOVERY_RATE."""
    if not comparisons:
        return []
    adjusted_p = stats.false_discovery_control([comparison.p for comparison in comparisons])
    return [bool(p <= FALSE_DISCOVERY_RATE) for p in adjusted_p]


def is_complete(log: dict[str, Any]) -> bool:
    """Whether a log reaches step B_STEPS. Raises ValueError if a step is missing."""
    missing_step = protocol.missing_step(log)
    if missing_step is not None:
        raise ValueError(f"{log['recipe']}, seed {log['seed']}: step {missing_step} is missing")
    return protocol.is_done(log, protocol.B_STEPS)


def mean_outcomes(logs: Logs, name: str, steps: tuple[int, ...] = protocol.B_MEAN_STEPS) -> list[float]:
    series = [[point_at(log, step).get(name) for step in steps] for _, log in sorted(logs.items())]
    return [] if any(None in values for values in series) else [mean(values) for values in series]


def has_vanished(logs: Logs) -> bool:
    return all(
        point[name] < VANISHED_ALPHA
        for log in logs.values()
        for point in log["points"]
        for name in ("alpha", SHARE_OUTCOME)
        if LATE_STEP <= point["step"] <= protocol.B_STEPS
    )


def seed_levels(
    recipe: Recipe,
    logs: Logs,
    steps: tuple[int, ...] = protocol.B_MEAN_STEPS,
) -> tuple[list[float], list[float]]:
    """Returns the level of each seed by weights, divided by the mean row sum, and by shares. By both, the level is
    alpha minus that of step 0. Of signed weights only the shares are a level."""
    operation = recipe.config.get("sinkscope", {}).get("attention", {}).get("operation", "softmax")

    def by_weights(point: Point) -> float:
        return point["alpha"] / point["row_mass"]

    def by_shares(point: Point) -> float:
        return point[SHARE_OUTCOME]

    def levels(measure: Callable[[Point], float]) -> list[float]:
        return [
            mean(measure(point_at(log, step)) for step in steps) - measure(point_at(log, 0))
            for _, log in sorted(logs.items())
        ]

    shares = levels(by_shares)
    return shares if operation in SIGNED_OPERATIONS else levels(by_weights), shares


def level_intervals(recipe: Recipe, logs: Logs) -> list[Difference]:
    return [mean_difference(levels, 0, CONFIDENCE) for levels in seed_levels(recipe, logs)]


def do_two_seeds_suffice(recipe: Recipe, logs: Logs) -> bool:
    """Whether the sink has vanished in both seeds, and their intervals exclude a sink."""
    return len(logs) == 2 and has_vanished(logs) and judge_level(level_intervals(recipe, logs), "absence") == "agrees"


@cache
def claimed_effects() -> tuple[dict[str, Any], ...]:
    """The effects of claims.toml on runs of protocol B."""
    claims = tomllib.loads(Path(__file__).with_name("claims.toml").read_text())["claim"]
    effects = (effect for claim in claims for effect in claim.get("effects", ()))
    return tuple(effect for effect in effects if effect.get("protocol") != "a")


def claims_level(id: str) -> bool:
    """Whether a claim of the existence or the absence of a sink rests on a recipe."""
    return any(effect["recipe"] == id and effect.get("says") in LEVEL_KINDS for effect in claimed_effects())


def missing_runs(recipe: Recipe, logs: Logs) -> int:
    """Returns how many runs a recipe lacks before it counts. The baseline needs eight. Another recipe needs three, or
    two if these suffice."""
    if recipe.id == protocol.B_BASELINE:
        return len(protocol.B_BASELINE_SEEDS) - len(logs)
    if do_two_seeds_suffice(recipe, logs):
        return 0
    return max(0, protocol.B_FIRST_SEEDS - len(logs))


@cache
def _runs_by_id() -> dict[str, Recipe]:
    return protocol.decisive_runs()


@dataclass(frozen=True)
class Decision:
    recipe: Recipe
    logs: Logs
    baseline_logs: Logs

    def difference(self, name: str) -> Difference | None:
        values, baseline_values = mean_outcomes(self.logs, name), mean_outcomes(self.baseline_logs, name)
        return welch_difference(values, baseline_values) if len(values) > 1 and len(baseline_values) > 1 else None

    def margin(self, name: str) -> float:
        return SAME_MARGIN * mean(mean_outcomes(self.baseline_logs, name))

    @property
    def is_decidable(self) -> bool:
        baseline = _runs_by_id()[self.recipe.baseline]
        return not (missing_runs(self.recipe, self.logs) or missing_runs(baseline, self.baseline_logs))

    @property
    def alpha_change(self) -> Difference | None:
        return self.difference("alpha") if self.is_decidable else None

    @property
    def level(self) -> str | None:
        """The verdict on the existence of a sink in this recipe's own runs."""
        return judge_level(level_intervals(self.recipe, self.logs), "existence") if self.is_decidable else None

    def is_sameness_open(self, effect: dict[str, Any]) -> bool:
        """Whether an effect says that alpha is the same as that of another recipe, and the runs do not decide it."""
        against = effect.get("against", B_BASELINE_ID)
        if (
            effect.get("says") != "the same"
            or effect.get("outcome", "alpha") != "alpha"
            or not isinstance(against, str)
        ):
            return False
        baseline_logs = logs_of(next(recipe for recipe in _runs_by_id().values() if id_of(recipe) == against))
        values, baseline_values = (
            mean_outcomes(logs, "alpha", tuple(effect.get(name, protocol.B_MEAN_STEPS)))
            for logs, name in ((self.logs, "steps"), (baseline_logs, "against_steps"))
        )
        if min(len(values), len(baseline_values)) < 2:
            return False
        change = welch_difference(values, baseline_values)
        return judge(change, "the same", SAME_MARGIN * mean(baseline_values)) == "undecided"

    @property
    def needs_second_look(self) -> bool:
        """Whether the protocol has a second look for the recipe, and the first look leaves open the level that a claim
        rests on, whether nothing has changed where a claim or the paper says so, or an effect of size MIN_EFFECT."""
        alpha_change, id = self.alpha_change, id_of(self.recipe)
        if alpha_change is None or len(self.logs) > protocol.B_FIRST_SEEDS or not protocol.has_second_look(id):
            return False
        if claims_level(id) and self.level == "undecided":
            return True
        if any(self.is_sameness_open(effect) for effect in claimed_effects() if effect["recipe"] == id):
            return True
        if paper_finding(self.recipe.paper) == "the same":
            return judge(alpha_change, "the same", self.margin("alpha")) == "undecided"
        return is_undecided(alpha_change)

    @property
    def verdict(self) -> str:
        """The verdict with the paper's finding for Sink_1; without a figure in the paper the direction of the change,
        and before the first decision the number of seeds."""
        alpha_change, paper_direction = self.alpha_change, paper_finding(self.recipe.paper)
        if alpha_change is None:
            return f"{len(self.logs)} of {protocol.B_FIRST_SEEDS} seeds"
        if paper_direction is None:
            direction = alpha_change.direction
            return f"{direction} sink; the paper has no figure" if direction else "undecided; no figure"
        sinks = [(change, self.margin(name)) for name in SINK_OUTCOMES if (change := self.difference(name)) is not None]
        return judge_with_sinks(alpha_change, sinks, paper_direction, self.margin("alpha"))


def logs_of(recipe: Recipe) -> Logs:
    """Returns the complete logs of a recipe, by seed. Seeds of a second look count only if all of them are complete."""
    all_logs = {seed: protocol.read_log(recipe, seed) for seed in recipe.seeds}
    logs = {seed: log for seed, log in all_logs.items() if log["points"] and is_complete(log)}
    if recipe.id != protocol.B_BASELINE and len(logs) < len(protocol.B_SECOND_SEEDS):
        logs = dict(list(logs.items())[: protocol.B_FIRST_SEEDS])
    return logs


def decisions() -> list[Decision]:
    runs = protocol.decisive_runs()
    logs = {id: logs_of(recipe) for id, recipe in runs.items()}
    return [
        Decision(recipe, logs[id], logs[recipe.baseline]) for id, recipe in runs.items() if id != protocol.B_BASELINE
    ]


def id_of(recipe: Recipe) -> str:
    ids_by_run = {run: id for id, run in protocol.B_RUNS_OF_A.items()}
    return ids_by_run.get(recipe.id, recipe.id.removeprefix(protocol.B_PREFIX))


def describe_onsets(logs: Logs) -> str:
    steps = [onset(log, protocol.B_STEPS) for _, log in sorted(logs.items())]
    return ", ".join("never" if step is None else f"{step:,}" for step in steps)


def describe_hours() -> str:
    steps: dict[str, list[int]] = {"shipped models": [], "protocol A": [], "protocol B": []}
    device_runs = 0
    for id in recipes():
        file = protocol.ZOO / id / "training.jsonl"
        if file.exists():
            steps["shipped models"].append(json.loads(file.read_text().splitlines()[-1])["step"])
    # Two recipes of protocol B are runs of protocol A, which must not count twice.
    for recipe in (protocol.decisive_runs() | protocol.runs()).values():
        kind = "protocol A" if recipe.id.startswith(protocol.LONG_PREFIX) else "protocol B"
        seeds = {*recipe.seeds, *(protocol.B_BASELINE_SEEDS if recipe.id == protocol.B_BASELINE else ())}
        for log in (protocol.read_log(recipe, seed) for seed in sorted(seeds)):
            if log.get("device"):
                device_runs += 1
            elif log["points"]:
                steps[kind].append(log["points"][-1]["step"])

    def format_hours(count: int) -> str:
        return " to ".join(f"{count * seconds / 3600:.0f}" for seconds in protocol.STEP_SECONDS)

    kind_texts = "; ".join(
        f"{kind} {format_hours(sum(counts))} in {len(counts)} runs" for kind, counts in steps.items()
    )
    bounds = " to ".join(map(str, protocol.STEP_SECONDS))
    return (
        f"All runs so far took some {format_hours(sum(map(sum, steps.values())))} core hours, a step being taken "
        f"to last {bounds} s ({kind_texts}). {device_runs} more ran on a CUDA device."
    )


def onset_interval(logs: Logs) -> str:
    """Returns the mean onset and its interval over seeds in words, or, if some seeds have no onset, how many have
    one."""
    steps = [onset(log, protocol.B_STEPS) for _, log in sorted(logs.items())]
    onsets = [float(step) for step in steps if step is not None]
    if len(onsets) < len(steps) or len(onsets) < 2:
        return f"in {len(onsets)} of {len(steps)} seeds before step {protocol.B_STEPS:,}"
    interval = mean_difference(onsets, 0, CONFIDENCE)
    return f"step {interval.mean:,.0f} ({interval.low:,.0f} to {interval.high:,.0f}, {len(onsets)} seeds)"


def describe_baseline(baseline_logs: Logs) -> str:
    cells = []
    for name, title in zip(OUTCOMES, ("alpha", "value ratio", "eviction", "loss")):
        values = mean_outcomes(baseline_logs, name)
        if len(values) > 1:
            cells.append(f"{title} {mean(values):.3f} (deviation {stdev(values):.3f})")
    alphas = ", ".join(f"{alpha:.3f}" for alpha in mean_outcomes(baseline_logs, "alpha"))
    return (
        f"Baseline: {len(baseline_logs)} of {len(protocol.B_BASELINE_SEEDS)} seeds. {'; '.join(cells)}; "
        f"alpha by seed {alphas}; onset (alpha >= {ONSET_ALPHA}) {describe_onsets(baseline_logs)}."
    )


def name_of(recipe: Recipe) -> str:
    base = recipe.baseline.removeprefix(protocol.B_PREFIX)
    return f"`{id_of(recipe)}`" + ("" if base == protocol.B_BASELINE else f" against `{base}`")


def format_percents(values: list[float]) -> str:
    return ", ".join(f"{value:.0f}%" for value in values)


def decisions_table(rows: list[Decision]) -> str:
    """Returns a Markdown table of every recipe that has a log, below a line on the first recipe's baseline."""
    baseline_logs = rows[0].baseline_logs if rows else {}
    titles = (
        "recipe",
        "seeds",
        "alpha",
        "by shares",
        "Sink_1^0.3",
        "difference of alpha",
        "of Sink_1 at 0.2, 0.3, 0.4 in points",
        "value ratio",
        "eviction",
        "loss",
        "onset",
        "the paper",
        "verdict",
    )
    lines = [describe_baseline(baseline_logs), "", f"| {' | '.join(titles)} |", "|" + "---|" * len(titles)]
    for decision in rows:
        if not decision.logs:
            continue
        levels = [
            ", ".join(f"{alpha:.3f}" for alpha in mean_outcomes(decision.logs, name))
            for name in ("alpha", SHARE_OUTCOME)
        ]
        changes = ["" if (value := decision.difference(name)) is None else str(value) for name in OUTCOMES]
        sinks = "; ".join(
            change.points() for name in SINK_OUTCOMES if (change := decision.difference(name)) is not None
        )
        verdict = decision.verdict
        if decision.is_decidable and len(decision.logs) < protocol.B_FIRST_SEEDS:
            verdict += ", on two seeds"
        cells = [
            name_of(decision.recipe),
            str(len(decision.logs)),
            *levels,
            format_percents(mean_outcomes(decision.logs, "sink_0.3")),
            changes[0],
            sinks,
            *changes[1:],
            describe_onsets(decision.logs),
            paper_finding(decision.recipe.paper) or "no figure",
            verdict + ("; a second look is due" if decision.needs_second_look else ""),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    recipes_without_run = [id_of(decision.recipe) for decision in rows if not decision.logs]
    if recipes_without_run:
        lines += ["", f"No whole run yet: {', '.join(f'`{id}`' for id in recipes_without_run)}."]
    return "\n".join(lines)


def index_entry(decision: Decision | None) -> dict[str, Any] | None:
    """Returns a recipe's entry in index.json: its number of seeds, and its outcomes minus the baseline's, [mean, low,
    high]. None before the decision, for a recipe with a baseline of its own, and where the sink is expected on another
    token than the first."""
    if decision is None or not decision.is_decidable:
        return None
    if decision.recipe.baseline != protocol.B_BASELINE or decision.recipe.sink_tokens != (1,):
        return None
    changes = {name: decision.difference(name) for name in ("alpha", "loss")}
    return {"seeds": len(decision.logs)} | {
        name: [round(x, 3) for x in (change.mean, change.low, change.high)]
        for name, change in changes.items()
        if change
    }


def decisive_json(rows: list[Decision]) -> str:
    """Returns the text of decisive.json, the data of figures: a line for each recipe with a complete run, with its
    seeds and their outcomes."""
    logs = {id_of(decision.recipe): decision.logs for decision in rows}
    logs = {protocol.B_ORDER[0]: rows[0].baseline_logs} | logs
    lines = [
        f"  {json.dumps(id)}: "
        + json.dumps(
            {"seeds": sorted(recipe_logs)}
            | {name: [round(value, 4) for value in mean_outcomes(recipe_logs, name)] for name in ("alpha", "loss")}
        )
        for id, recipe_logs in logs.items()
        if recipe_logs
    ]
    return "{\n" + ",\n".join(lines) + "\n}\n"
