"""Computes the verdicts of protocol B from its logs, by the rules of models/README.md, "Second version of the rules".

Every outcome is a mean over the steps B_MEAN_STEPS. Comparisons are by Welch's test of a recipe's seeds against all
seeds of its baseline. The interval is 97.5%, because a second look may follow with more seeds. Existence and absence of
a sink are judged by the level of alpha, the weight above uniform attention.
"""

import json
from dataclasses import dataclass
from statistics import mean, stdev, variance
from typing import Any

from scipy import stats

from . import protocol
from .factors import ONSET_ALPHA, Difference, mean_difference, onset, paper_finding, point_at
from .recipe import Recipe, recipes

CONFIDENCE = 0.975
MIN_EFFECT = 0.1  # the smallest alpha of a sink, and the smallest difference of alpha that is an effect
VANISHED_ALPHA = 0.02  # two seeds suffice if alpha stays below this from step LATE_STEP on
LATE_STEP = 2000
FALSE_DISCOVERY_RATE = 0.05  # for verdicts on a direction
OUTCOMES = ("alpha", "value_ratio", "eviction", "loss")
SHARE_OUTCOME = "alpha_share"  # alpha on rows divided by their sums, as Gu et al. measure it
Logs = dict[int, dict[str, Any]]
# Verdicts by the first version of the rules, at step 4,000. Delete them after the next release.
FIRST_RULES_VERDICTS = {
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


def welch_difference(a: list[float], b: list[float], confidence: float = CONFIDENCE) -> Difference:
    """Returns the mean of a minus the mean of b, with the interval of Welch's test (1947). Each list needs at least two
    numbers."""
    middle = mean(a) - mean(b)
    if variance(a) + variance(b) == 0:
        return Difference(middle, middle, middle, 0.0 if middle else 1.0)
    test = stats.ttest_ind(a, b, equal_var=False)
    low, high = map(float, test.confidence_interval(confidence))
    return Difference(middle, low, high, float(test.pvalue))


def is_no_effect(interval: Difference) -> bool:
    return interval.low > -MIN_EFFECT and interval.high < MIN_EFFECT


def judge(interval: Difference, paper_direction: str, outcome: str = "alpha") -> str:
    """Returns "agrees", "differs" or "undecided" for a comparison, from its interval and the paper's finding "less",
    "more" or "the same". Only alpha has a smallest effect, so only alpha can agree with "the same"."""
    direction = interval.direction
    if paper_direction != "the same":
        return "undecided" if direction is None else "agrees" if direction == paper_direction else "differs"
    if direction is not None:
        return "differs"
    return "agrees" if outcome == "alpha" and is_no_effect(interval) else "undecided"


def judge_existence(interval: Difference) -> str:
    return "agrees" if interval.low >= MIN_EFFECT else "differs" if is_no_effect(interval) else "undecided"


def judge_absence(levels: list[Difference], values: list[float]) -> str:
    """Returns the verdict on a claim that there is no sink. `levels` has the intervals of alpha by weights and by
    shares, `values` has every seed's alpha by both."""
    if all(map(is_no_effect, levels)) and all(-MIN_EFFECT < value < MIN_EFFECT for value in values):
        return "agrees"
    return "differs" if any(interval.low >= MIN_EFFECT for interval in levels) else "undecided"


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


def mean_outcomes(logs: Logs, name: str) -> list[float]:
    series = [[point_at(log, step).get(name) for step in protocol.B_MEAN_STEPS] for _, log in sorted(logs.items())]
    return [] if any(None in values for values in series) else [mean(values) for values in series]


def has_vanished(logs: Logs) -> bool:
    return all(point[name] < VANISHED_ALPHA for log in logs.values() for point in log["points"]
               for name in ("alpha", SHARE_OUTCOME) if LATE_STEP <= point["step"] <= protocol.B_STEPS)


def alpha_levels(logs: Logs) -> tuple[list[Difference], list[float]]:
    values = [mean_outcomes(logs, name) for name in ("alpha", SHARE_OUTCOME)]
    return [mean_difference(seed_values, 0, CONFIDENCE) for seed_values in values], [*values[0], *values[1]]


def do_two_seeds_suffice(logs: Logs) -> bool:
    """Whether the sink has vanished in both seeds, and their intervals exclude a sink."""
    return len(logs) == 2 and has_vanished(logs) and judge_absence(*alpha_levels(logs)) == "agrees"


def missing_runs(id: str, logs: Logs) -> int:
    """Returns how many runs a recipe lacks before it counts. The baseline needs eight. Another recipe needs three, or
    two if these suffice."""
    if id == protocol.B_BASELINE:
        return len(protocol.B_BASELINE_SEEDS) - len(logs)
    if do_two_seeds_suffice(logs):
        return 0
    return max(0, protocol.B_FIRST_SEEDS - len(logs))


@dataclass(frozen=True)
class Decision:
    recipe: Recipe
    logs: Logs
    baseline_logs: Logs

    def difference(self, name: str) -> Difference | None:
        values, baseline_values = mean_outcomes(self.logs, name), mean_outcomes(self.baseline_logs, name)
        return welch_difference(values, baseline_values) if len(values) > 1 and len(baseline_values) > 1 else None

    @property
    def is_decidable(self) -> bool:
        return not (missing_runs(self.recipe.id, self.logs) or missing_runs(self.recipe.baseline, self.baseline_logs))

    @property
    def alpha_change(self) -> Difference | None:
        return self.difference("alpha") if self.is_decidable else None

    @property
    def needs_second_look(self) -> bool:
        """Whether the protocol has a second look for the recipe, and the first look's interval has both 0 and an effect
        of size MIN_EFFECT."""
        alpha_change = self.alpha_change
        return (alpha_change is not None and len(self.logs) <= protocol.B_FIRST_SEEDS
                and protocol.has_second_look(id_of(self.recipe)) and is_undecided(alpha_change))

    @property
    def verdict(self) -> str:
        """"agrees" or "differs" with the paper's finding for Sink_1, or "undecided"; without a figure in the paper the
        direction of the change, and before the first decision the number of seeds."""
        alpha_change, paper_direction = self.alpha_change, paper_finding(self.recipe.paper)
        if alpha_change is None:
            return f"{len(self.logs)} of {protocol.B_FIRST_SEEDS} seeds"
        if paper_direction is None:
            direction = alpha_change.direction
            return f"{direction} sink; the paper has no figure" if direction else "undecided; no figure"
        return judge(alpha_change, paper_direction)


def logs_of(recipe: Recipe) -> Logs:
    """Returns the complete logs of a recipe, by seed. Seeds of a second look count only if all of them are complete."""
    all_logs = {seed: protocol.read_log(recipe, seed) for seed in recipe.seeds}
    logs = {seed: log for seed, log in all_logs.items() if log["points"] and is_complete(log)}
    if recipe.id != protocol.B_BASELINE and len(logs) < len(protocol.B_SECOND_SEEDS):
        logs = dict(list(logs.items())[:protocol.B_FIRST_SEEDS])
    return logs


def decisions() -> list[Decision]:
    runs = protocol.decisive_runs()
    logs = {id: logs_of(recipe) for id, recipe in runs.items()}
    return [Decision(recipe, logs[id], logs[recipe.baseline])
            for id, recipe in runs.items() if id != protocol.B_BASELINE]


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

    kind_texts = "; ".join(f"{kind} {format_hours(sum(counts))} in {len(counts)} runs"
                           for kind, counts in steps.items())
    bounds = " to ".join(map(str, protocol.STEP_SECONDS))
    return (f"All runs so far took some {format_hours(sum(map(sum, steps.values())))} core hours, a step being taken "
            f"to last {bounds} s ({kind_texts}). {device_runs} more ran on a CUDA device.")


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
    return (f"Baseline: {len(baseline_logs)} of {len(protocol.B_BASELINE_SEEDS)} seeds. {'; '.join(cells)}; "
            f"alpha by seed {alphas}; onset (alpha >= {ONSET_ALPHA}) {describe_onsets(baseline_logs)}.")


def name_of(recipe: Recipe) -> str:
    base = recipe.baseline.removeprefix(protocol.B_PREFIX)
    return f"`{id_of(recipe)}`" + ("" if base == protocol.B_BASELINE else f" against `{base}`")


def format_percents(values: list[float]) -> str:
    return ", ".join(f"{value:.0f}%" for value in values)


def decisions_table(rows: list[Decision]) -> str:
    """Returns a Markdown table of every recipe that has a log, below a line on the first recipe's baseline."""
    baseline_logs = rows[0].baseline_logs if rows else {}
    titles = ("recipe", "seeds", "alpha", "by shares", "Sink_1^0.3", "difference of alpha",
              "value ratio", "eviction", "loss", "onset", "the paper", "verdict", "before")
    lines = [describe_baseline(baseline_logs), "", f"| {' | '.join(titles)} |", "|" + "---|" * len(titles)]
    for decision in rows:
        if not decision.logs:
            continue
        levels = [", ".join(f"{alpha:.3f}" for alpha in mean_outcomes(decision.logs, name))
                  for name in ("alpha", SHARE_OUTCOME)]
        differences = ["" if (value := decision.difference(name)) is None else str(value)
                       for name in OUTCOMES]
        verdict = decision.verdict
        if decision.is_decidable and len(decision.logs) < protocol.B_FIRST_SEEDS:
            verdict += ", on two seeds"
        cells = [name_of(decision.recipe), str(len(decision.logs)), *levels,
                 format_percents(mean_outcomes(decision.logs, "sink_0.3")), *differences,
                 describe_onsets(decision.logs),
                 paper_finding(decision.recipe.paper) or "no figure",
                 verdict + ("; a second look is due" if decision.needs_second_look else ""),
                 FIRST_RULES_VERDICTS.get(id_of(decision.recipe), "")]
        lines.append(f"| {' | '.join(cells)} |")
    recipes_without_run = [id_of(decision.recipe) for decision in rows if not decision.logs]
    if recipes_without_run:
        lines += ["", f"No whole run yet: {', '.join(f'`{id}`' for id in recipes_without_run)}."]
    return "\n".join(lines)


def decisive_json(rows: list[Decision]) -> str:
    """Returns the text of decisive.json, the data of figures: a line for each recipe with a complete run, with its
    seeds and their outcomes."""
    logs = {id_of(decision.recipe): decision.logs for decision in rows}
    logs = {protocol.B_ORDER[0]: rows[0].baseline_logs} | logs
    lines = [f'  {json.dumps(id)}: ' + json.dumps(
        {"seeds": sorted(recipe_logs)} | {name: [round(value, 4) for value in mean_outcomes(recipe_logs, name)]
                                   for name in ("alpha", "loss")})
             for id, recipe_logs in logs.items() if recipe_logs]
    return "{\n" + ",\n".join(lines) + "\n}\n"
