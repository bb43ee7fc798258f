"""Writes the claims table: what papers say about attention sinks, and what the runs of both protocols show.

    python -m models.train.claims

The command reads claims.toml, the recipes, the logs, inputs.json and beyond.json, and writes models/claims.json, the
table of models/README.md and the counts of models/paper.md. It needs neither torch nor weights.

models/claims.schema.json says what each name of claims.json means.
"""

import json
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from statistics import mean
from typing import Any

from . import decide, factors, protocol
from .factors import Difference, mean_difference
from .recipe import Recipe, recipes

MODELS = Path(__file__).resolve().parents[1]
CLAIMS_FILE = Path(__file__).with_name("claims.toml")
GU_ET_AL = "Gu et al. 2025"
SHIPPED_MODELS = "shipped models"
SINK_EPS = 0.3  # the literature's threshold of a head with a sink, as in sinkscope.metrics, which needs torch
# For each group of effects without a recipe: the program that measures it, and what its units are.
BASELINES = {"baseline at 3e-3": "a", "baseline at 1e-3": "b"}  # groups of runs, and their protocols
UNIT_SOURCES = {
    SHIPPED_MODELS: ("inputs", "models"),
    "untrained models": ("inputs", "seeds"),
    "models with a bias key": ("inputs", "models"),
    **dict.fromkeys(BASELINES, ("claims", "seeds")),
    "models with a sink": ("beyond --units", "models"),
    "seeds of the lab": ("beyond --units", "seeds"),
    "fine-tunings": ("beyond --units", "seeds"),
    "planted triggers": ("beyond --units", "seeds"),
    "searches": ("beyond --units", "seeds and texts"),
}
RUN_HOURS = tuple(protocol.B_STEPS * seconds / 3600 for seconds in protocol.STEP_SECONDS)
RULE = (
    "The third version of the rules in models/README.md. Outcomes are averaged over steps 2,400 to 3,000, and "
    "intervals are of 97.5%. A level is alpha above uniform attention minus the alpha of the same seed at step 0, "
    "by weights divided by the row sum and by shares: both intervals at or above 0.1 are a sink, both inside -0.1 "
    "to +0.1 are none, and a claim of existence or absence agrees or differs by that. A comparison: the interval of "
    "the difference below 0 is less, above 0 more; the same direction as the source agrees, the other differs. The "
    "same: the interval inside half of the baseline's outcome agrees, outside it differs. Where the paper's Sink_1 "
    "at eps 0.2, 0.3 or 0.4 decides the opposite, the verdict depends on the outcome. All else is undecided. "
    "Protocol A's pairs, at 95% and step 4,000, count where protocol B has too few runs, and other measurements, at "
    "95% over their units, where the claim is not about a recipe. A claim with several effects agrees if all do, "
    "and differs if one does."
)
# The versions of the rules, which models/README.md has in full.
RULES = (
    {"version": 1, "date": "2026-11-23", "section": "Protocol B: the paper's factors, decided"},
    {"version": 2, "date": "2026-11-25", "section": "Second version of the rules"},
    {"version": 3, "date": "2026-11-28", "section": "Third version of the rules"},
)
REQUIRED_SECTIONS = tuple(f"figure {n}" for n in (2, 3, 4, 5, 6, 7, 8, 9, 28)) + tuple(
    f"table {n}" for n in range(1, 16)
)
SECTIONS = (
    frozenset(REQUIRED_SECTIONS)
    | {f"section {n}" for n in ("3.1", "3.2", "3.3", "3.4", "4", "5", "6", "7.1", "7.2", "7.3", "7.4")}
    | {f"appendix {n}" for n in ("C.1", "C.2", "C.3", "D.1", "D.2", "D.3", "D.4", "E")}
)
CHANGES = ("rule", "test", "runs")  # what can make a verdict another one
VERDICTS = ("agrees", "differs", decide.DEPENDS, "undecided", "not tested")


@dataclass(frozen=True)
class Effect:
    recipe: str
    against: str | float
    outcome: str
    name: str | None
    paper: str
    protocol: str | None
    seeds: int
    steps: tuple[int, ...] | None
    difference: Difference | None
    values: list[float]
    missing_runs: int
    sinks: tuple[float, ...] = ()
    shares: tuple[float, ...] = ()  # for absence: alpha of each seed on rows divided by their sums
    by_shares: Difference | None = None
    margin: float = 0.0  # for "the same": a smaller difference is none
    by_sinks: tuple[tuple[str, Difference, float], ...] = ()  # the comparison by each Sink_k: outcome, change, margin
    is_added: bool = False  # whether the effect was added after its runs had been read
    against_steps: tuple[int, ...] | None = None  # of a comparison with a recipe
    survives: bool | None = None  # for a comparison: whether it survives Benjamini and Hochberg's procedure

    @property
    def kind(self) -> str:
        return decide.LEVEL_KINDS.get(self.paper, "comparison")

    @property
    def verdict(self) -> str:
        if self.difference is None:
            return "undecided" if self.seeds else "not tested"
        if self.kind != "comparison":
            levels = [level for level in (self.difference, self.by_shares) if level is not None]
            return decide.judge_level(levels, self.kind)
        sinks = [(change, margin) for _, change, margin in self.by_sinks]
        return decide.judge_with_sinks(self.difference, sinks, self.paper, self.margin)

    @property
    def comparison(self) -> Difference | None:
        return self.difference if self.kind == "comparison" else None

    @property
    def is_directional(self) -> bool:
        return self.comparison is not None and self.comparison.direction is not None

    def to_json(self) -> dict[str, Any]:
        def round_numbers(difference: Difference | None) -> list[float | None]:
            return (
                [None] * 3
                if difference is None
                else [round(x, 5) + 0.0 for x in (difference.mean, difference.low, difference.high)]
            )

        sinks = {
            name: [*round_numbers(change), decide.judge(change, self.paper, margin)]
            for name, change, margin in self.by_sinks
        }
        p = None if self.comparison is None else float(f"{self.comparison.p:.2g}")
        return (
            {
                "recipe": self.recipe,
                "kind": self.kind,
                "against": self.against,
                "outcome": self.outcome,
                "name": self.name,
                "protocol": self.protocol,
                "seeds": self.seeds,
                "steps": None if self.steps is None else list(self.steps),
                "against_steps": None if self.against_steps is None else list(self.against_steps),
            }
            | dict(zip(("mean", "low", "high"), round_numbers(self.difference)))
            | {
                "p": p,
                "survives": self.survives,
                "values": [round(x, 4) for x in self.values],
                "shares": [round(x, 4) for x in self.shares],
                "by_shares": None if self.by_shares is None else round_numbers(self.by_shares),
                "sinks": [round(x, 3) for x in self.sinks],
                "margin": round(self.margin, 4),
                "by_sinks": sinks,
                "added": self.is_added,
                "paper": self.paper,
                "verdict": self.verdict,
            }
        )


@cache
def runs_b() -> dict[str, tuple[Recipe, decide.Logs]]:
    return {decide.id_of(recipe): (recipe, decide.logs_of(recipe)) for recipe in protocol.decisive_runs().values()}


@cache
def runs_a() -> dict[str, tuple[Recipe, decide.Logs]]:
    """Returns each recipe of protocol A with its logs, without those that end before step MIN_STEP."""
    return {
        recipe.id.removeprefix(protocol.LONG_PREFIX): (
            recipe,
            {seed: log for seed, log in factors.logs_of(recipe).items() if protocol.is_done(log, protocol.MIN_STEP)},
        )
        for recipe in protocol.runs().values()
    }


def values_at_min_step(logs: decide.Logs, outcome: str) -> list[float]:
    values = [factors.point_at(log, protocol.MIN_STEP).get(outcome) for _, log in sorted(logs.items())]
    return [] if None in values else values


Steps = tuple[int, ...]


def difference_by_b(
    recipe: str,
    against: str | float,
    outcome: str,
    steps: Steps = protocol.B_MEAN_STEPS,
    against_steps: Steps = protocol.B_MEAN_STEPS,
) -> tuple[Difference | None, int]:
    """Returns the difference by protocol B, and how many runs are still missing before it counts."""
    tested_recipe, logs = runs_b()[recipe]
    missing_count = decide.missing_runs(tested_recipe, logs)
    values = decide.mean_outcomes(logs, outcome, steps)
    if not isinstance(against, str):
        difference = None if missing_count or not values else mean_difference(values, against, decide.CONFIDENCE)
        return difference, missing_count
    baseline, baseline_logs = runs_b()[against]
    missing_count += decide.missing_runs(baseline, baseline_logs)
    baseline_values = decide.mean_outcomes(baseline_logs, outcome, against_steps)
    if missing_count or not values or not baseline_values:
        return None, missing_count
    return decide.welch_difference(values, baseline_values), missing_count


def margin_of(finding: str, against: str | float, outcome: str, against_steps: Steps) -> float:
    if finding != "the same":
        return 0.0
    if not isinstance(against, str):
        return decide.SAME_MARGIN * abs(against)
    return decide.SAME_MARGIN * mean(decide.mean_outcomes(runs_b()[against][1], outcome, against_steps))


def difference_by_a(recipe: str, against: str | float, outcome: str) -> tuple[Difference | None, list[float]]:
    logs = runs_a()[recipe][1]
    if isinstance(against, str):
        baseline_logs = runs_a()[against][1]
        logs = {seed: log for seed, log in logs.items() if seed in baseline_logs}
    values = values_at_min_step(logs, outcome)
    if len(values) < protocol.MIN_PAIRS:
        return None, values
    if not isinstance(against, str):
        return mean_difference(values, against), values
    baseline_values = values_at_min_step({seed: baseline_logs[seed] for seed in logs}, outcome)
    if len(baseline_values) != len(values):
        return None, values
    return mean_difference([a - b for a, b in zip(values, baseline_values)]), values


def first_layer_units() -> dict[str, list[dict[str, Any]]]:
    """Returns the first layer with a head whose alpha exceeds SINK_EPS, of each run of a baseline at the last step of
    its log, which has alpha of each head there; null without one."""
    runs = {"a": runs_a, "b": runs_b}
    return {
        group: [
            {
                "seed": seed,
                "first_layer": next(
                    (layer for layer, alphas in enumerate(log["alpha_map"]) if max(alphas) > SINK_EPS), None
                ),
            }
            for seed, log in sorted(runs[name]()["softmax"][1].items())
        ]
        for group, name in BASELINES.items()
    }


@cache
def read_units() -> dict[str, list[dict[str, Any]]]:
    return (
        first_layer_units()
        | json.loads(CLAIMS_FILE.with_name("inputs.json").read_text())
        | json.loads(CLAIMS_FILE.with_name("beyond.json").read_text())
    )


def effect_of_units(spec: dict[str, Any]) -> Effect:
    """Returns the effect that was measured on a group of units: the mean over units of a column, or of a difference of
    two columns, written "one - other". Leaves out units with a null."""
    group, outcome, against = spec["recipe"], spec["outcome"], spec.get("against", 0)
    names = outcome.split(" - ")
    units = [unit for unit in read_units().get(group, []) if None not in [unit[name] for name in names]]
    values = [unit[names[0]] - sum(unit[name] for name in names[1:]) for unit in units]
    values = [round(value, 4) for value in values]
    sink_column = names[0].replace("alpha", "sink", 1)
    sinks = [unit[sink_column] for unit in units if names[0].startswith("alpha") and sink_column in unit]
    difference = mean_difference(values, against) if len(values) > 1 else None
    return Effect(
        group,
        against,
        outcome,
        spec.get("name"),
        spec["says"],
        difference and "shipped",
        len(values),
        None,
        difference,
        values if difference else [],
        0,
        tuple(sinks),
    )


def add_outcomes(
    effect: Effect, logs: decide.Logs, name: str, steps: Steps, against_steps: Steps | None = None
) -> Effect:
    def values_of(outcome: str) -> list[float]:
        return decide.mean_outcomes(logs, outcome, steps)

    return replace(
        effect,
        protocol=name,
        seeds=len(logs),
        values=values_of(effect.outcome),
        steps=steps,
        against_steps=(against_steps or steps) if isinstance(effect.against, str) else None,
        sinks=tuple(values_of("sink_0.3")),
    )


def add_level(effect: Effect, recipe: Recipe, logs: decide.Logs, name: str) -> Effect:
    """Returns the level of the sink, by weights and by shares, or of another column; each minus that of step 0."""
    steps, confidence = (protocol.B_MEAN_STEPS, decide.CONFIDENCE) if name == "b" else ((protocol.MIN_STEP,), 0.95)
    if effect.outcome in ("alpha", decide.SHARE_OUTCOME):
        values, shares = decide.seed_levels(recipe, logs, steps)
    else:
        starts = decide.mean_outcomes(logs, effect.outcome, (0,))
        values = [a - b for a, b in zip(decide.mean_outcomes(logs, effect.outcome, steps), starts)]
        shares = []
    if not values:
        return effect
    return replace(
        add_outcomes(effect, logs, name, steps),
        values=values,
        difference=mean_difference(values, 0, confidence),
        shares=tuple(shares),
        by_shares=mean_difference(shares, 0, confidence) if shares else None,
    )


def has_due_second_look(effect: Effect, id: str) -> bool:
    """Whether the rules ask for seeds 4 and 5 of a recipe. A direction counts against the recipe's own baseline."""
    if effect.seeds > protocol.B_FIRST_SEEDS or not protocol.has_second_look(id) or effect.difference is None:
        return False
    if effect.kind != "comparison":
        return effect.verdict == "undecided"
    if effect.outcome != "alpha" or not isinstance(effect.against, str):
        return False
    if effect.paper == "the same":
        return effect.verdict == "undecided"
    is_own = runs_b()[id][0].baseline == runs_b()[effect.against][0].id
    return is_own and decide.is_undecided(effect.difference)


def sink_outcomes(effect: Effect) -> tuple[str, ...]:
    """Returns the outcomes that are judged beside a comparison of alpha with another recipe."""
    return decide.SINK_OUTCOMES if effect.outcome.startswith("alpha") and isinstance(effect.against, str) else ()


def effect_by_b(effect: Effect, spec: dict[str, Any]) -> Effect:
    """Returns the effect by protocol B, without a difference if runs are missing."""
    id, against, outcome = effect.recipe, effect.against, effect.outcome
    recipe, logs = runs_b()[id]
    if effect.kind != "comparison":
        logs = having(logs, outcome)
        missing_count = decide.missing_runs(recipe, logs)
        effect = replace(effect, missing_runs=missing_count, seeds=len(logs))
        effect = effect if missing_count else add_level(effect, recipe, logs, "b")
    else:
        steps, against_steps = (tuple(spec.get(name, protocol.B_MEAN_STEPS)) for name in ("steps", "against_steps"))
        difference, missing_count = difference_by_b(id, against, outcome, steps, against_steps)
        effect = replace(effect, difference=difference, missing_runs=missing_count, seeds=len(logs))
        if difference is not None:
            sinks = sink_outcomes(effect)
            changes = [(name, difference_by_b(id, against, name, steps, against_steps)[0]) for name in sinks]
            effect = replace(
                add_outcomes(effect, logs, "b", steps, against_steps),
                margin=margin_of(effect.paper, against, outcome, against_steps),
                by_sinks=tuple(
                    (name, change, margin_of(effect.paper, against, name, against_steps))
                    for name, change in changes
                    if change is not None
                ),
            )
    if has_due_second_look(effect, id):
        effect = replace(effect, missing_runs=len(protocol.B_SECOND_SEEDS) - effect.seeds)
    return effect


def effect_by_a(effect: Effect) -> Effect:
    """Returns the effect by the pairs of protocol A, without a difference if there are too few."""
    recipe, logs = runs_a()[effect.recipe]
    difference, values = difference_by_a(effect.recipe, effect.against, effect.outcome)
    if difference is None:
        return replace(effect, missing_runs=protocol.MIN_PAIRS - len(values), seeds=len(values))
    if effect.kind != "comparison":
        return add_level(effect, recipe, logs, "a")
    if isinstance(effect.against, str):
        logs = {seed: log for seed, log in logs.items() if seed in runs_a()[effect.against][1]}
    changes = [(name, difference_by_a(effect.recipe, effect.against, name)[0]) for name in sink_outcomes(effect)]
    by_sinks = tuple((name, change, 0.0) for name, change in changes if change is not None)
    return add_outcomes(replace(effect, difference=difference, by_sinks=by_sinks), logs, "a", (protocol.MIN_STEP,))


def build_effect(spec: dict[str, Any]) -> Effect:
    """Returns the effect by protocol B if it has enough runs, else by protocol A, else without a difference."""
    if spec["recipe"] in UNIT_SOURCES:
        return effect_of_units(spec)
    id, outcome = spec["recipe"], spec.get("outcome", "alpha")
    finding = spec.get("says") or factors.paper_finding(recipes()[id].paper)
    if finding is None:
        raise ValueError(f"{id}: no figure of the source, and the claim gives no direction")
    against = spec.get("against", 0 if finding in decide.LEVEL_KINDS else "softmax")
    effect = Effect(
        id,
        against,
        outcome,
        spec.get("name"),
        finding,
        None,
        0,
        None,
        None,
        [],
        protocol.MIN_PAIRS,
        is_added=spec.get("added", False),
    )
    is_in_b = id in runs_b() and spec.get("protocol") != "a"
    by_b = effect_by_b(effect, spec) if is_in_b else effect
    if id in runs_a() and by_b.difference is None:
        by_a = effect_by_a(effect)
        if by_a.difference is not None or not is_in_b:
            return by_a
    return by_b


def verdict_of(effects: list[Effect]) -> str:
    verdicts = [effect.verdict for effect in effects]
    if not verdicts or all(verdict == "not tested" for verdict in verdicts):
        return "not tested"
    return (
        "differs"
        if "differs" in verdicts
        else decide.DEPENDS
        if decide.DEPENDS in verdicts
        else "agrees"
        if all(verdict == "agrees" for verdict in verdicts)
        else "undecided"
    )


def command_of(effects: list[Effect]) -> str:
    commands = []
    for name in ("b", "a"):
        ids = dict.fromkeys(effect.recipe for effect in effects if (effect.protocol or "b") == name)
        runs = runs_b() if name == "b" else runs_a()
        names = " ".join(runs[id][0].id for id in ids if id in runs)
        if names:
            commands.append(
                f"python -m models.train.queue {names}"
                if name == "b"
                else f"python -m models.train.all --protocol a --until {protocol.MIN_STEP} --seeds 3 {names}"
            )
    programs = dict.fromkeys(UNIT_SOURCES[effect.recipe][0] for effect in effects if effect.recipe in UNIT_SOURCES)
    commands += [f"python -m models.train.{program}" for program in programs]
    return "; ".join(commands)


class Ranges:
    """The values of the placeholders in a note. {relu[alpha]} is an outcome of protocol B's runs, from the smallest to
    the largest over seeds; {relu[onset]} is their onset with its interval; {relu/a[alpha]} is an outcome of protocol
    A's runs; {MODEL[alpha_text_start]} is a column of an open model in inputs.json, and
    {ID/u[rank_rest]} one of a shipped model."""

    def __init__(self, values_of: Callable[[str], list[float]], logs: decide.Logs | None = None) -> None:
        self.values_of, self.logs = values_of, logs

    def __getitem__(self, name: str) -> str:
        if name == "onset" and self.logs is not None:
            return decide.onset_interval(self.logs)
        values = [f"{round(value, 2) + 0.0:.2f}" for value in sorted(self.values_of(name))]
        return values[0] if values[0] == values[-1] else f"{values[0]} to {values[-1]}"


def having(logs: decide.Logs, outcome: str) -> decide.Logs:
    """Returns the logs that have an outcome, which may be a column that only later logs have."""
    return {seed: log for seed, log in logs.items() if decide.mean_outcomes({seed: log}, outcome)}


def outcomes_that_are_there(logs: decide.Logs, outcome: str) -> list[float]:
    return decide.mean_outcomes(having(logs, outcome), outcome)


def fill_note(claim: dict[str, Any]) -> str | None:
    note = claim.get("why")
    ranges = (
        {id: Ranges(partial(outcomes_that_are_there, logs), logs) for id, (_, logs) in runs_b().items()}
        | {f"{id}/a": Ranges(partial(values_at_min_step, logs)) for id, (_, logs) in runs_a().items()}
        | {
            model["model"] + suffix: Ranges(lambda name, model=model: [model[name]])
            for group, suffix in (("open models", ""), (SHIPPED_MODELS, "/u"))
            for model in read_units()[group]
        }
    )
    return note and note.format_map(ranges)


def claim_row(
    claim: dict[str, Any],
    effects: list[Effect],
    sentences: list[dict[str, Any]],
    before: str | None,
) -> dict[str, Any]:
    missing_count = sum(effect.missing_runs for effect in effects) + claim.get("needs", 0)
    page_state = claim.get("seen")
    test = {
        "recipes": list(dict.fromkeys(effect.recipe for effect in effects)),
        "runs": sum(effect.seeds for effect in effects),
        "command": command_of(effects),
    }
    survivals = [effect.survives for effect in effects if effect.is_directional]
    return {
        "id": claim["id"],
        "claim": claim["claim"],
        "source": claim.get("source", GU_ET_AL),
        "section": claim["section"],
        "paper": claim.get("paper"),
        "test": test if effects else None,
        "effects": [effect.to_json() for effect in effects],
        "verdict": verdict_of(effects),
        "before": before,
        "changed": claim.get("changed"),
        "two_seeds": any(effect.difference is not None and effect.seeds == 2 for effect in effects),
        "survives": all(survivals) if survivals else None,
        "why": fill_note(claim),
        "hours": [round(missing_count * hours, 1) for hours in RUN_HOURS] if missing_count else None,
        "seen": None if page_state is None else f"#{page_state}",
        "said": [
            {name: sentence[name] for name in ("file", "text", "says")}
            for sentence in sentences
            if claim["id"] in sentence.get("claims", ())
        ],
    }


def said_sentences(document: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"file": file} | sentence for file, sentences in document["said"].items() for sentence in sentences]


def claims() -> list[dict[str, Any]]:
    document = tomllib.loads(CLAIMS_FILE.read_text())
    effects = [[build_effect(spec) for spec in claim.get("effects", [])] for claim in document["claim"]]
    comparisons = {
        (i, k): effect.comparison
        for i, row_effects in enumerate(effects)
        for k, effect in enumerate(row_effects)
        if effect.comparison is not None
    }
    for (i, k), survives in zip(comparisons, decide.survive_correction([*comparisons.values()])):
        effects[i][k] = replace(effects[i][k], survives=survives)
    before = {id: verdict for verdict, ids in document["before"].items() for id in ids}
    said = said_sentences(document)
    return [
        claim_row(claim, row_effects, said, before.get(claim["id"]))
        for claim, row_effects in zip(document["claim"], effects)
    ]


def chance_counts(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Counts all comparisons, those with a direction, those of them that survive, and the directions to expect by
    chance if no factor had an effect."""
    compared_rows = [effect_row for row in rows for effect_row in row["effects"] if effect_row["survives"] is not None]
    directional_rows = [effect_row for effect_row in compared_rows if not effect_row["low"] <= 0 <= effect_row["high"]]
    # With its second look a comparison of protocol B has two chances.
    errors = {"b": (1 - decide.CONFIDENCE, 0.05), "a": (0.05, 0.05), "shipped": (0.05, 0.05)}
    return {
        "comparisons": len(compared_rows),
        "directions": len(directional_rows),
        "survive": sum(effect_row["survives"] for effect_row in directional_rows),
        "by_chance": [
            round(sum(errors[effect_row["protocol"]][looks] for effect_row in compared_rows), 2) for looks in (0, 1)
        ],
    }


def claims_json(rows: list[dict[str, Any]]) -> str:
    """Returns the text of claims.json, one line per row, so that a new log is a small diff."""
    lines = ",\n".join("    " + json.dumps(row, ensure_ascii=False) for row in rows)
    return (
        f'{{\n  "rule": {json.dumps(RULE)},\n  "rules": {json.dumps(RULES)},\n'
        f'  "chance": {json.dumps(chance_counts(rows))},\n'
        f'  "rows": [\n{lines}\n  ]\n}}\n'
    )


def describe_effect(effect: dict[str, Any]) -> str:
    is_measured = effect["recipe"] in UNIT_SOURCES
    name = effect["recipe"] if is_measured else f"`{effect['recipe']}`"
    if effect["outcome"] != "alpha":
        name += f", {effect['name'] or effect['outcome'].replace('_', ' ')}"
    if effect["against_steps"] == [0]:
        name += " against that at step 0"
    elif isinstance(effect["against"], str):
        name += "" if effect["against"] == "softmax" else f" against `{effect['against']}`"
    elif effect["kind"] == "comparison":
        name += f" against {effect['against']}"
    if effect["mean"] is None:
        return f"{name}: {effect['seeds']} of {protocol.MIN_PAIRS} seeds"
    difference = Difference(effect["mean"], effect["low"], effect["high"])
    words = f"{name}: {difference}"
    if effect["by_shares"]:
        words += f", by shares {Difference(*effect['by_shares'])}"
    words += "".join(
        f", by Sink_1 at {name.removeprefix('sink_')} {Difference(*change).points()} points, {verdict}"
        for name, (*change, verdict) in effect["by_sinks"].items()
        if verdict != effect["verdict"]
    )
    if effect["sinks"]:
        words += f"; Sink_1 {', '.join(f'{sink:.0f}' for sink in effect['sinks'])}%"
    source = UNIT_SOURCES[effect["recipe"]][1] if is_measured else f"seeds, protocol {effect['protocol'].upper()}"
    added = "; added after the runs were read" if effect["added"] else ""
    return f"{words}; {effect['seeds']} {source}{added}"


def describe_chance(rows: list[dict[str, Any]]) -> str:
    counts = chance_counts(rows)
    least, most = counts["by_chance"]
    return (
        f"Of {counts['comparisons']} comparisons {counts['directions']} have a direction. If no "
        f"factor had any effect, {least:.1f} to {most:.1f} would have one by chance, with one look or two; "
        f"{counts['survive']} survive the procedure of Benjamini and Hochberg at a false discovery "
        f"rate of {decide.FALSE_DISCOVERY_RATE:.0%} (†: each direction of a row does, whatever its verdict)."
    )


def describe_verdicts(rows: list[dict[str, Any]]) -> str:
    """Counts the verdicts, and those that are others than by the second version of the rules, by what changed them."""
    counts = ", ".join(f"{sum(row['verdict'] == name for row in rows)} {name}" for name in VERDICTS)
    earlier_rows = [row for row in rows if row["before"] is not None]
    changes = {name: sum(row["changed"] == name for row in earlier_rows) for name in CHANGES}
    return (
        f"{len(rows)} claims: {counts}. {len(earlier_rows)} of them had a verdict by the second version of the "
        f"rules; {changes['rule']} have another one by the rule alone, {changes['test']} by another test, and "
        f"{changes['runs']} by new runs."
    )


def unexplained_changes(rows: list[dict[str, Any]]) -> list[str]:
    """Returns what claims.toml has to say of rows whose verdict has changed, or has changed back."""
    lines = []
    for row in rows:
        is_changed = row["before"] not in (None, row["verdict"])
        if is_changed != (row["changed"] in CHANGES):
            need = f"changed = one of {', '.join(CHANGES)}" if is_changed else "no `changed`"
            lines.append(
                f"claims.toml, {row['id']}: the verdict was {row['before']} and is {row['verdict']}; expected {need}"
            )
    return lines


def claims_table(rows: list[dict[str, Any]]) -> str:
    lines = [
        f"{describe_verdicts(rows)} {describe_chance(rows)}",
        "",
        "| claim | where | the source measured | effect here, with its interval | verdict | before |",
        "|" + "---|" * 6,
    ]
    for row in rows:
        place = row["section"] if row["source"] == GU_ET_AL else f"{row['source']}, {row['section']}"
        cells = "<br>".join(map(describe_effect, row["effects"]))
        verdict = f"**{row['verdict']}**"
        if row["survives"]:
            verdict += " †"
        if row["two_seeds"]:
            verdict += ", on two seeds"
        if row["hours"]:
            verdict += "; {} to {} core hours are left".format(*row["hours"])
        note = f" {row['why']}" if row["why"] else ""
        changed = f", changed by the {row['changed']}" if row["changed"] else ""
        lines.append(
            f"| `{row['id']}`: {row['claim']} | {place} | {row['paper'] or ''} | {cells} | "
            f"{verdict}.{note} | {row['before'] or ''}{changed} |"
        )
    return "\n".join(lines)


def replace_table(text: str, name: str, table: str) -> str:
    begin, end = f"<!-- {name} table: written by ", f"<!-- end of {name} table -->"
    head, tail = text.split(begin)
    program, tail = tail.split("\n", 1)
    return f"{head}{begin}{program}\n{table}\n{end}{tail.split(end)[1]}"


def main() -> None:
    rows = claims()
    (MODELS / "claims.json").write_text(claims_json(rows))
    for name, title, table in (("README", "claims", claims_table(rows)), ("paper", "counts", describe_verdicts(rows))):
        file = MODELS / f"{name}.md"
        file.write_text(replace_table(file.read_text(), title, table))
    print("\n".join([describe_verdicts(rows), *unexplained_changes(rows)]))


if __name__ == "__main__":
    main()
