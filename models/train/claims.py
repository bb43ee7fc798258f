"""Writes the claims table: what papers say about attention sinks, and what the runs of both protocols show.

    python -m models.train.claims

The command reads claims.toml, the recipes, the logs, inputs.json and beyond.json, and writes models/claims.json and
the table of models/README.md. It needs neither torch nor weights.

claims.json holds {"rule": str, "chance": {...}, "rows": [row]}. `chance` counts the comparisons of all
rows, the verdicts on a direction among them, how many of these survive Benjamini and Hochberg's
procedure, and how many chance alone would give. A row has
    id, claim   a name, and one plain sentence
    source      the paper or note, with its year
    section     where in the source
    paper       what the source measured, or null where we do not have its figures
    test        {"recipes": [id], "runs": whole runs that count, "command": str}, or null without one
    effects     [effect], one for each recipe; empty without a test
    verdict     "agrees", "differs", "undecided" or "not tested"
    before      the verdict by the first version of the rules, or null for a claim that is new since
    two_seeds   whether the verdict rests on only two seeds of a recipe
    survives    whether every verdict on a direction survives the procedure; null without such a verdict
    why         what limits the test, or why there is no test; or null
    hours       core hours that are left before all effects are known, [least, most]; or null where
                none are left or the number is not known
    seen        the page's state that shows the claim, "#room=...", or null
    said        [{"file", "text", "says"}]: sentences of other files that rest on the claim
An effect has
    recipe      a recipe's id; "shipped models" where models of the zoo are measured on other inputs; or
                a group of beyond.json
    kind        "existence" or "absence" of a sink, or "comparison"
    against     the id of the recipe, or the number, that the recipe's mean over seeds or models is compared with
    outcome     a column of the logs; of shipped models, of inputs.json, and of a group, of beyond.json:
                a column or a difference of two
    name        the outcome in words, or null where its column says enough
    protocol    "b", "a" or "shipped", or null where neither protocol has enough runs
    seeds       whole runs of the recipe; for shipped models and groups the number of units
    steps       the steps that the outcome is averaged over, or null
    mean, low, high   difference and its interval, 97.5% in protocol B and 95% elsewhere; or null
    p           of a comparison, the probability of such a difference if there were none; or null
    survives    whether a comparison survives the procedure of Benjamini and Hochberg; else null
    values      the outcome of each of those seeds, or of each model
    shares      of absence, alpha of each of those seeds on rows divided by their sums
    by_shares   mean and interval of `shares`, [mean, low, high], or null
    sinks       Sink_1^0.3 of each of those seeds or models, in percent; it decides nothing
    paper       what the source saw: "less", "more", "the same", "a sink" or "none"
    verdict     the verdict on this effect, in the words of a row's verdict
"""

import json
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from . import decide, factors, protocol
from .decide import SHARE_OUTCOME
from .factors import Difference, mean_difference
from .recipe import Recipe, recipes

MODELS = Path(__file__).resolve().parents[1]
CLAIMS_FILE = Path(__file__).with_name("claims.toml")
GU_ET_AL = "Gu et al. 2025"
SHIPPED_MODELS = "shipped models"
# For each group of effects without a recipe: the program that measures it, and what its units are.
UNIT_SOURCES = {SHIPPED_MODELS: ("inputs", "models"), "models with a sink": ("beyond --units", "models"),
            "seeds of the lab": ("beyond --units", "seeds"),
            "fine-tunings": ("beyond --units", "seeds"),
            "planted triggers": ("beyond --units", "seeds"),
            "searches": ("beyond --units", "seeds and texts")}
RUN_HOURS = tuple(protocol.B_STEPS * seconds / 3600 for seconds in protocol.STEP_SECONDS)
KINDS = {"a sink": "existence", "none": "absence"}
RULE = (
    "The second version of the rules in models/README.md. Existence of a sink: the interval of alpha, "
    "which is the weight above uniform attention, at 0.1 or above agrees, inside -0.1 to +0.1 "
    "differs. Absence: alpha and its interval inside -0.1 to +0.1, by raw weights and by shares, in "
    "every seed, agrees; an interval at 0.1 or above differs. Comparison: the interval of the "
    "difference below 0 is less, above 0 more; the same direction as the source agrees, the other "
    "differs, and alpha within 0.1 of no effect agrees where the source saw no change. All else is "
    "undecided. Outcomes are averaged over steps 2,400 to 3,000. Protocol A's pairs, at 95% and step "
    "4,000, count where protocol B has too few runs, and other measurements, at 95% over their units, "
    "where the claim is not about a recipe. A claim with several effects agrees if all do, and "
    "differs if one does.")
REQUIRED_SECTIONS = tuple(f"figure {n}" for n in (2, 3, 4, 5, 6, 7, 8, 9, 28)) + tuple(
    f"table {n}" for n in range(1, 16))
SECTIONS = frozenset(REQUIRED_SECTIONS) | {
    "section 3.1", "section 3.2", "section 3.3", "section 3.4", "section 4", "section 5", "section 6",
    "section 7.1", "section 7.2", "section 7.3", "section 7.4", "appendix C.1", "appendix C.2",
    "appendix C.3", "appendix D.1", "appendix D.2", "appendix D.3", "appendix D.4", "appendix E"}
VERDICTS = ("agrees", "differs", "undecided", "not tested")


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
    survives: bool | None = None  # for a comparison: whether it survives Benjamini and Hochberg's procedure

    @property
    def kind(self) -> str:
        return KINDS.get(self.paper, "comparison")

    @property
    def verdict(self) -> str:
        if self.difference is None:
            return "undecided" if self.seeds else "not tested"
        if self.kind == "existence":
            return decide.judge_existence(self.difference)
        if self.kind == "absence":
            levels = [level for level in (self.difference, self.by_shares) if level is not None]
            return decide.judge_absence(levels, [*self.values, *self.shares])
        return decide.judge(self.difference, self.paper, self.outcome)

    @property
    def comparison(self) -> Difference | None:
        return self.difference if self.kind == "comparison" else None

    @property
    def is_directional(self) -> bool:
        return self.comparison is not None and self.comparison.direction is not None

    def to_json(self) -> dict[str, Any]:
        def round_numbers(difference: Difference | None) -> list[float | None]:
            return [None] * 3 if difference is None else [
                round(x, 3) + 0.0 for x in (difference.mean, difference.low, difference.high)]

        p = None if self.comparison is None else float(f"{self.comparison.p:.2g}")
        return {"recipe": self.recipe, "kind": self.kind, "against": self.against,
                "outcome": self.outcome, "name": self.name, "protocol": self.protocol,
                "seeds": self.seeds, "steps": None if self.steps is None else list(self.steps)}\
            | dict(zip(("mean", "low", "high"), round_numbers(self.difference)))\
            | {"p": p, "survives": self.survives, "values": [round(x, 4) for x in self.values],
               "shares": [round(x, 4) for x in self.shares],
               "by_shares": None if self.by_shares is None else round_numbers(self.by_shares),
               "sinks": [round(x, 1) for x in self.sinks], "paper": self.paper,
               "verdict": self.verdict}


@cache
def runs_b() -> dict[str, tuple[Recipe, decide.Logs]]:
    return {decide.id_of(recipe): (recipe, decide.logs_of(recipe))
            for recipe in protocol.decisive_runs().values()}


@cache
def runs_a() -> dict[str, tuple[Recipe, decide.Logs]]:
    """Returns each recipe of protocol A with its logs, without those that end before step MIN_STEP."""
    return {recipe.id.removeprefix(protocol.LONG_PREFIX): (recipe, {
        seed: log for seed, log in factors.logs_of(recipe).items()
        if protocol.is_done(log, protocol.MIN_STEP)}) for recipe in protocol.runs().values()}


def values_at_min_step(logs: decide.Logs, outcome: str) -> list[float]:
    values = [factors.point_at(log, protocol.MIN_STEP).get(outcome) for _, log in sorted(logs.items())]
    return [] if None in values else values


def difference_by_b(recipe: str, against: str | float, outcome: str) -> tuple[Difference | None, int]:
    """Returns the difference by protocol B, and how many runs are still missing before it counts."""
    tested_recipe, logs = runs_b()[recipe]
    missing_count = decide.missing_runs(tested_recipe.id, logs)
    values = decide.mean_outcomes(logs, outcome)
    if not isinstance(against, str):
        difference = None if missing_count or not values else mean_difference(values, against, decide.CONFIDENCE)
        return difference, missing_count
    baseline, baseline_logs = runs_b()[against]
    missing_count += decide.missing_runs(baseline.id, baseline_logs)
    baseline_values = decide.mean_outcomes(baseline_logs, outcome)
    if missing_count or not values or not baseline_values:
        return None, missing_count
    return decide.welch_difference(values, baseline_values), missing_count


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


@cache
def read_units() -> dict[str, list[dict[str, Any]]]:
    return json.loads(CLAIMS_FILE.with_name("inputs.json").read_text()) | json.loads(
        CLAIMS_FILE.with_name("beyond.json").read_text())


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
    return Effect(group, against, outcome, spec.get("name"), spec["says"], difference and "shipped",
                  len(values), None, difference, values if difference else [], 0, tuple(sinks))


def add_outcomes(effect: Effect, logs: decide.Logs, name: str) -> Effect:
    def values_of(outcome: str) -> list[float]:
        return (decide.mean_outcomes if name == "b" else values_at_min_step)(logs, outcome)

    confidence = decide.CONFIDENCE if name == "b" else 0.95
    shares = values_of(SHARE_OUTCOME) if effect.kind == "absence" else []
    return replace(
        effect, protocol=name, seeds=len(logs), values=values_of(effect.outcome),
        steps=protocol.B_MEAN_STEPS if name == "b" else (protocol.MIN_STEP,),
        sinks=tuple(values_of("sink_0.3")), shares=tuple(shares),
        by_shares=mean_difference(shares, 0, confidence) if shares else None)


def build_effect(spec: dict[str, Any]) -> Effect:
    """Returns the effect by protocol B if it has enough runs, else by protocol A, else without a difference."""
    if spec["recipe"] in UNIT_SOURCES:
        return effect_of_units(spec)
    id, outcome = spec["recipe"], spec.get("outcome", "alpha")
    finding = spec.get("says") or factors.paper_finding(recipes()[id].paper)
    if finding is None:
        raise ValueError(f"{id}: no figure of the source, and the claim gives no direction")
    against = spec.get("against", 0 if finding in KINDS else "softmax")
    missing_count, seeds = protocol.MIN_PAIRS, 0

    def make_effect(difference: Difference | None, missing_count: int) -> Effect:
        return Effect(id, against, outcome, spec.get("name"), finding, None, seeds, None, difference, [], missing_count)

    if id in runs_b() and spec.get("protocol") != "a":
        logs, (difference, missing_count) = runs_b()[id][1], difference_by_b(id, against, outcome)
        seeds = len(logs)
        if difference is not None:
            # The queue trains the seeds of a second look only if the recipe is compared with its own baseline.
            is_due = (outcome == "alpha" and isinstance(against, str) and decide.is_undecided(difference)
                      and seeds <= protocol.B_FIRST_SEEDS and runs_b()[id][0].baseline == runs_b()[against][0].id)
            missing_count = len(protocol.B_SECOND_SEEDS) - seeds if is_due else 0
            return add_outcomes(make_effect(difference, missing_count), logs, "b")
    if id in runs_a():
        difference, values = difference_by_a(id, against, outcome)
        if difference is not None:
            logs = runs_a()[id][1]
            if isinstance(against, str):
                logs = {seed: log for seed, log in logs.items() if seed in runs_a()[against][1]}
            return add_outcomes(make_effect(difference, 0), logs, "a")
        if id not in runs_b():
            missing_count, seeds = protocol.MIN_PAIRS - len(values), len(values)
    return make_effect(None, missing_count)


def verdict_of(effects: list[Effect]) -> str:
    verdicts = [effect.verdict for effect in effects]
    if not verdicts or all(verdict == "not tested" for verdict in verdicts):
        return "not tested"
    return ("differs" if "differs" in verdicts else
            "agrees" if all(verdict == "agrees" for verdict in verdicts) else "undecided")


def command_of(effects: list[Effect]) -> str:
    commands = []
    for name in ("b", "a"):
        ids = dict.fromkeys(effect.recipe for effect in effects if (effect.protocol or "b") == name)
        runs = runs_b() if name == "b" else runs_a()
        names = " ".join(runs[id][0].id for id in ids if id in runs)
        if names:
            commands.append(f"python -m models.train.queue {names}" if name == "b" else
                            f"python -m models.train.all --protocol a --until {protocol.MIN_STEP} --seeds 3 {names}")
    programs = dict.fromkeys(UNIT_SOURCES[effect.recipe][0] for effect in effects if effect.recipe in UNIT_SOURCES)
    commands += [f"python -m models.train.{program}" for program in programs]
    return "; ".join(commands)


class Ranges:
    """The values of the placeholders in a note. {relu[alpha]} is an outcome of protocol B's runs, from the smallest to
    the largest over seeds; {relu[onset]} is their onset with its interval; {relu/a[alpha]} is an outcome of protocol
    A's runs; {MODEL[alpha_text_start]} is a column of an open model in inputs.json."""

    def __init__(self, values_of: Callable[[str], list[float]], logs: decide.Logs | None = None) -> None:
        self.values_of, self.logs = values_of, logs

    def __getitem__(self, name: str) -> str:
        if name == "onset" and self.logs is not None:
            return decide.onset_interval(self.logs)
        values = [f"{round(value, 2) + 0.0:.2f}" for value in sorted(self.values_of(name))]
        return values[0] if values[0] == values[-1] else f"{values[0]} to {values[-1]}"


def fill_note(claim: dict[str, Any]) -> str | None:
    note = claim.get("why")
    ranges = {id: Ranges(partial(decide.mean_outcomes, logs), logs) for id, (_, logs) in runs_b().items()} | {
        f"{id}/a": Ranges(partial(values_at_min_step, logs))
        for id, (_, logs) in runs_a().items()} | {
        model["model"]: Ranges(lambda name, model=model: [model[name]]) for model in read_units()["open models"]}
    return note and note.format_map(ranges)


def claim_row(claim: dict[str, Any], effects: list[Effect], sentences: list[dict[str, Any]],
        ) -> dict[str, Any]:
    missing_count = sum(effect.missing_runs for effect in effects) + claim.get("needs", 0)
    page_state = claim.get("seen")
    test = {"recipes": list(dict.fromkeys(effect.recipe for effect in effects)),
            "runs": sum(effect.seeds for effect in effects), "command": command_of(effects)}
    survivals = [effect.survives for effect in effects if effect.is_directional]
    return {
        "id": claim["id"], "claim": claim["claim"], "source": claim.get("source", GU_ET_AL),
        "section": claim["section"], "paper": claim.get("paper"), "test": test if effects else None,
        "effects": [effect.to_json() for effect in effects], "verdict": verdict_of(effects),
        "before": claim.get("before"),
        "two_seeds": any(effect.difference is not None and effect.seeds == 2 for effect in effects),
        "survives": all(survivals) if survivals else None,
        "why": fill_note(claim),
        "hours": [round(missing_count * hours, 1) for hours in RUN_HOURS] if missing_count else None,
        "seen": None if page_state is None else f"#{page_state}",
        "said": [{name: sentence[name] for name in ("file", "text", "says")} for sentence in sentences
                 if claim["id"] in sentence.get("claims", ())],
    }


def claims() -> list[dict[str, Any]]:
    document = tomllib.loads(CLAIMS_FILE.read_text())
    effects = [[build_effect(spec) for spec in claim.get("effects", [])] for claim in document["claim"]]
    comparisons = {(i, k): effect.comparison for i, row_effects in enumerate(effects)
                   for k, effect in enumerate(row_effects) if effect.comparison is not None}
    for (i, k), survives in zip(comparisons, decide.survive_correction([*comparisons.values()])):
        effects[i][k] = replace(effects[i][k], survives=survives)
    return [claim_row(claim, row_effects, document["said"]) for claim, row_effects in zip(document["claim"], effects)]


def chance_counts(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Counts all comparisons, those with a direction, those of them that survive, and the directions to expect by
    chance if no factor had an effect."""
    compared_rows = [effect_row for row in rows for effect_row in row["effects"] if effect_row["survives"] is not None]
    directional_rows = [effect_row for effect_row in compared_rows if not effect_row["low"] <= 0 <= effect_row["high"]]
    errors = {"b": 1 - decide.CONFIDENCE, "a": 0.05, "shipped": 0.05}
    return {"comparisons": len(compared_rows), "directions": len(directional_rows),
            "survive": sum(effect_row["survives"] for effect_row in directional_rows),
            "by_chance": round(sum(errors[effect_row["protocol"]] for effect_row in compared_rows), 2)}


def claims_json(rows: list[dict[str, Any]]) -> str:
    """Returns the text of claims.json, one line per row, so that a new log is a small diff."""
    lines = ",\n".join("    " + json.dumps(row, ensure_ascii=False) for row in rows)
    return (f'{{\n  "rule": {json.dumps(RULE)},\n  "chance": {json.dumps(chance_counts(rows))},\n'
            f'  "rows": [\n{lines}\n  ]\n}}\n')


def describe_effect(effect: dict[str, Any]) -> str:
    is_measured = effect["recipe"] in UNIT_SOURCES
    name = effect["recipe"] if is_measured else f"`{effect['recipe']}`"
    if effect["outcome"] != "alpha":
        name += f", {effect['name'] or effect['outcome'].replace('_', ' ')}"
    if isinstance(effect["against"], str):
        name += "" if effect["against"] == "softmax" else f" against `{effect['against']}`"
    elif effect["kind"] == "comparison":
        name += f" against {effect['against']}"
    if effect["mean"] is None:
        return f"{name}: {effect['seeds']} of {protocol.MIN_PAIRS} seeds"
    difference = Difference(effect["mean"], effect["low"], effect["high"])
    words = f"{name}: {difference}"
    if effect["by_shares"]:
        words += f", by shares {Difference(*effect['by_shares'])}"
    if effect["sinks"]:
        words += f"; Sink_1 {', '.join(f'{sink:.0f}' for sink in effect['sinks'])}%"
    source = (UNIT_SOURCES[effect["recipe"]][1] if is_measured
              else f"seeds, protocol {effect['protocol'].upper()}")
    return f"{words}; {effect['seeds']} {source}"


def describe_chance(rows: list[dict[str, Any]]) -> str:
    counts = chance_counts(rows)
    return (f"Of {counts['comparisons']} comparisons {counts['directions']} have a direction. If no "
            f"factor had any effect, about {counts['by_chance']:.1f} would have one by chance; "
            f"{counts['survive']} survive the procedure of Benjamini and Hochberg at a false discovery "
            f"rate of {decide.FALSE_DISCOVERY_RATE:.0%} (†).")


def claims_table(rows: list[dict[str, Any]]) -> str:
    counts = ", ".join(f"{sum(row['verdict'] == name for row in rows)} {name}" for name in VERDICTS)
    lines = [f"{len(rows)} claims: {counts}. {describe_chance(rows)}", "",
             "| claim | where | the source measured | effect here, with its interval | verdict "
             "| before |", "|" + "---|" * 6]
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
        lines.append(f"| `{row['id']}`: {row['claim']} | {place} | {row['paper'] or ''} | {cells} | "
                     f"{verdict}.{note} | {row['before'] or ''} |")
    return "\n".join(lines)


def replace_table(text: str, name: str, table: str) -> str:
    begin, end = f"<!-- {name} table: written by ", f"<!-- end of {name} table -->"
    head, tail = text.split(begin)
    program, tail = tail.split("\n", 1)
    return f"{head}{begin}{program}\n{table}\n{end}{tail.split(end)[1]}"


def main() -> None:
    rows = claims()
    (MODELS / "claims.json").write_text(claims_json(rows))
    readme = MODELS / "README.md"
    readme.write_text(replace_table(readme.read_text(), "claims", claims_table(rows)))


if __name__ == "__main__":
    main()
