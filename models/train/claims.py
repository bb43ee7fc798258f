"""The claims table: what papers say of attention sinks, beside what the runs of both protocols show.

    python -m models.train.claims

reads claims.toml, the recipes, the logs, inputs.json and beyond.json, and writes models/claims.json and
the table of models/README.md. It needs neither torch nor weights.

claims.json holds {"rule": str, "rows": [row]}. A row has
    id, claim   a name, and one plain sentence
    source      the paper or note, with its year
    section     places in it
    paper       what it measured, or null where we do not have its figures
    test        {"recipes": [id], "runs": whole runs that count, "command": str}, or null without one
    effects     [effect], one for each recipe; empty without a test
    verdict     "agrees", "differs", "undecided" or "not tested"
    why         what limits the test, or why there is none; or null
    hours       core hours that are left before all effects are known, [least, most]; or null where
                none are left or the number is not known
    seen        the page's state that shows it, "#room=...", or null
    said        [{"file", "text", "says"}]: sentences of other files that rest on it
An effect has
    recipe      a recipe's id; "shipped models" where models of the zoo are measured on other inputs; or
                a group of beyond.json
    against     the id of the recipe that is compared with, or a number for the mean over seeds or models
    outcome     a column of the logs; of shipped models, of inputs.json, and of a group, of beyond.json:
                a column or a difference of two
    name        the outcome in words, or null where its column says enough
    protocol    "b", "a" or "shipped", or null where neither protocol has enough runs
    seeds       whole runs of the recipe; for shipped models and groups the number of units
    step        the step that is compared, or null
    mean, low, high   difference and its interval, 97.5% in protocol B and 95% elsewhere; or null
    values      the outcome of each of those seeds at that step, or of each model
    shares      where the source saw no sink, alpha of each of those seeds on rows made to sum to 1
    paper       what the source saw: "less", "more", "the same", or "none" for no sink
    verdict     as above
"""

import json
import math
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from . import decide, factors, protocol
from .factors import Difference
from .recipe import Recipe, recipes

MODELS = Path(__file__).resolve().parents[1]
SOURCE = Path(__file__).with_name("claims.toml")
GU = "Gu et al. 2025"
# Core seconds of a training step: a Zen 5 with the library of models/README.md, and an older EPYC.
STEP_SECONDS = (0.13, 0.4)
SHIPPED = "shipped models"
# The column of the logs that measures the sink as Gu et al. do: on rows made to sum to 1.
SHARE = "alpha_share"
# What effects may name beside recipes: who writes the measurements, and what one of them is of.
MEASURED = {SHIPPED: ("inputs", "models"), "models with a sink": ("beyond --units", "models"),
            "seeds of the lab": ("beyond --units", "seeds"),
            "fine-tunings": ("beyond --units", "seeds"),
            "planted triggers": ("beyond --units", "seeds"),
            "searches": ("beyond --units", "seeds and texts")}
RUN_HOURS = tuple(protocol.B_STEPS * seconds / 3600 for seconds in STEP_SECONDS)
RULE = (
    "Protocol B of models/README.md: the interval of the effect below 0 is less, above 0 more. The "
    "same direction as the source agrees, the other differs; an interval that holds 0 is undecided, "
    "except that alpha within 0.1 of no effect agrees where the source saw no change. Where it saw "
    "no sink, alpha of each seed must be below 0.1, too, as the model uses its weights and on rows "
    "made to sum to 1: where rows sum to little, their weights are small by themselves. Protocol A's "
    "pairs, at 95%, count where "
    "protocol B has too few runs, and other measurements, at 95% over their units, where the claim "
    "is not about a recipe. A claim with several effects agrees if all do, and differs if one does.")
# Every figure and table of Gu et al. whose claims must have a row.
REQUIRED = tuple(f"figure {n}" for n in (2, 3, 4, 5, 6, 7, 8, 9, 28)) + tuple(
    f"table {n}" for n in range(1, 16))
# What `section` may name in Gu et al.
SECTIONS = frozenset(REQUIRED) | {
    "section 3.1", "section 3.2", "section 3.3", "section 3.4", "section 4", "section 5", "section 6",
    "section 7.1", "section 7.2", "section 7.3", "section 7.4", "appendix C.1", "appendix C.2",
    "appendix C.3", "appendix D.1", "appendix D.2", "appendix D.3", "appendix D.4", "appendix E"}
VERDICTS = ("agrees", "differs", "undecided", "not tested")


def level(values: list[float], zero: float, confidence: float) -> Difference:
    """Mean over seeds minus a fixed number, with Student's interval; two numbers or more."""
    middle = mean(values) - zero
    half = (factors.t_quantile(len(values) - 1, confidence) * stdev(values)
            / math.sqrt(len(values)))
    return Difference(middle, middle - half, middle + half)


@dataclass(frozen=True)
class Effect:
    """What one recipe does, as far as the runs show."""

    recipe: str
    against: str | float
    outcome: str
    name: str | None
    paper: str
    protocol: str | None
    seeds: int
    step: int | None
    found: Difference | None
    values: list[float]  # of each seed
    left: int  # runs of 4,000 steps, those of a second look among them
    shares: tuple[float, ...] = ()  # alpha of each seed on rows made to sum to 1, where that decides

    @property
    def verdict(self) -> str:
        if self.found is None:
            return "undecided" if self.seeds else "not tested"
        if self.paper != "none":
            return decide.judge(self.found, self.paper, self.outcome)
        verdict = decide.judge(self.found, "less", self.outcome)
        remains = max((*self.values, *self.shares)) >= factors.ONSET
        return "undecided" if verdict == "agrees" and remains else verdict

    def json(self) -> dict[str, Any]:
        ends = (None,) * 3 if self.found is None else (self.found.mean, self.found.low, self.found.high)
        return {"recipe": self.recipe, "against": self.against, "outcome": self.outcome,
                "name": self.name, "protocol": self.protocol, "seeds": self.seeds, "step": self.step}\
            | {name: None if x is None else round(x, 3) + 0.0
               for name, x in zip(("mean", "low", "high"), ends)}\
            | {"values": self.values, "shares": list(self.shares), "paper": self.paper,
               "verdict": self.verdict}


@cache
def runs_b() -> dict[str, tuple[Recipe, decide.Logs]]:
    """Recipes of protocol B and their whole logs, by the recipe's id."""
    return {decide.id_of(recipe): (recipe, decide.logs_of(recipe))
            for recipe in protocol.decisive_runs().values()}


@cache
def runs_a() -> dict[str, tuple[Recipe, decide.Logs]]:
    """The same of protocol A; logs that do not reach step TOO_EARLY do not count."""
    return {recipe.id.removeprefix(protocol.LONG): (recipe, {
        seed: log for seed, log in factors.logs_of(recipe).items()
        if protocol.is_done(log, protocol.TOO_EARLY)}) for recipe in protocol.runs().values()}


def known(logs: decide.Logs, outcome: str, step: int) -> list[float]:
    """One outcome of each seed; empty where a seed lacks it."""
    found = [factors.at(log, step).get(outcome) for _, log in sorted(logs.items())]
    return [] if None in found else found


def by_b(recipe: str, against: str | float, outcome: str) -> tuple[Difference | None, int]:
    """The difference, and how many runs are missing before it counts."""
    own, logs = runs_b()[recipe]
    left = decide.missing(own.id, logs)
    values = known(logs, outcome, protocol.B_STEPS)
    if not isinstance(against, str):
        return (None if left or len(values) < 2 else level(values, against, decide.CONFIDENCE)), left
    other, bases = runs_b()[against]
    left += decide.missing(other.id, bases)
    base = known(bases, outcome, protocol.B_STEPS)
    return (None if left or len(values) < 2 or len(base) < 2 else decide.welch(values, base)), left


def by_a(recipe: str, against: str | float, outcome: str) -> tuple[Difference | None, list[float]]:
    """The difference at step TOO_EARLY, and the outcome of each seed that counts."""
    logs, step = runs_a()[recipe][1], protocol.TOO_EARLY
    if isinstance(against, str):
        bases = runs_a()[against][1]
        logs = {seed: log for seed, log in logs.items() if seed in bases}
    values = known(logs, outcome, step)
    if len(values) < protocol.TOO_FEW:
        return None, values
    if not isinstance(against, str):
        return level(values, against, 0.95), values
    base = known({seed: bases[seed] for seed in logs}, outcome, step)
    if len(base) != len(values):
        return None, values
    found = factors.interval([a - b for a, b in zip(values, base)])
    return Difference(found.mean, found.low, found.high), values


@cache
def measured() -> dict[str, list[dict[str, Any]]]:
    """The units of inputs.json and of each group of beyond.json."""
    return {SHIPPED: json.loads(SOURCE.with_name("inputs.json").read_text())} | json.loads(
        SOURCE.with_name("beyond.json").read_text())


def by_units(given: dict[str, Any]) -> Effect:
    """Mean over units of a column, or of "one - other"; units without it do not count."""
    group, outcome, against = given["recipe"], given["outcome"], given.get("against", 0)
    names = outcome.split(" - ")
    known = [[one[name] for name in names] for one in measured().get(group, [])]
    values = [round(x[0] - sum(x[1:]), 4) for x in known if None not in x]
    found = level(values, against, 0.95) if len(values) > 1 else None
    return Effect(group, against, outcome, given.get("name"), given["says"], found and "shipped",
                  len(values), None, found, values if found else [], 0)


def effect(given: dict[str, Any]) -> Effect:
    """Protocol B where it has enough runs, else protocol A, else what is missing."""
    if given["recipe"] in MEASURED:
        return by_units(given)
    id, outcome = given["recipe"], given.get("outcome", "alpha")
    against = given.get("against", "softmax")
    says = given.get("says") or factors.reported(recipes()[id].paper)
    if says is None:
        raise ValueError(f"{id}: no figure of the source, and the claim gives no direction")

    def made(name: str | None, step: int | None, found: Difference | None, values: list[float],
             seeds: int, left: int = 0, logs: decide.Logs | None = None) -> Effect:
        shares = tuple(known(logs, SHARE, step)) if says == "none" and logs and step else ()
        return Effect(id, against, outcome, given.get("name"), says, name, seeds, step, found, values,
                      left, shares)

    left, seeds = protocol.TOO_FEW, 0
    if id in runs_b() and given.get("protocol") != "a":
        logs, (found, left) = runs_b()[id][1], by_b(id, against, outcome)
        seeds = len(logs)
        if found is not None:
            due = outcome == "alpha" and isinstance(against, str) and decide.leaves_open(found)
            return made("b", protocol.B_STEPS, found, known(logs, outcome, protocol.B_STEPS), seeds,
                        max(0, len(protocol.B_SECOND) - seeds) if due else 0, logs)
    if id in runs_a():
        found, values = by_a(id, against, outcome)
        if found is not None:
            return made("a", protocol.TOO_EARLY, found, values, len(values), logs=runs_a()[id][1])
        if id not in runs_b():
            left, seeds = protocol.TOO_FEW - len(values), len(values)
    return made(None, None, None, [], seeds, left)


def verdict_of(effects: list[Effect]) -> str:
    found = [one.verdict for one in effects]
    if not found or all(one == "not tested" for one in found):
        return "not tested"
    return ("differs" if "differs" in found else
            "agrees" if all(one == "agrees" for one in found) else "undecided")


def command_of(effects: list[Effect]) -> str:
    """The command that makes the runs."""
    commands = []
    for name, options in (("b", ""), ("a", f" --until {protocol.TOO_EARLY}")):
        ids = dict.fromkeys(one.recipe for one in effects if (one.protocol or "b") == name)
        runs = runs_b() if name == "b" else runs_a()
        names = " ".join(runs[id][0].id for id in ids if id in runs)
        if names:
            commands.append(f"python -m models.train.all --protocol {name}{options} --seeds 3 {names}")
    programs = dict.fromkeys(MEASURED[one.recipe][0] for one in effects if one.recipe in MEASURED)
    commands += [f"python -m models.train.{program}" for program in programs]
    return "; ".join(commands)


def row(claim: dict[str, Any], sentences: list[dict[str, Any]]) -> dict[str, Any]:
    """One claim; `sentences` are those of [[said]]."""
    effects = [effect(one) for one in claim.get("effects", [])]
    undone = sum(one.left for one in effects) + claim.get("needs", 0)
    seen = claim.get("seen")
    test = {"recipes": list(dict.fromkeys(one.recipe for one in effects)),
            "runs": sum(one.seeds for one in effects), "command": command_of(effects)}
    return {
        "id": claim["id"], "claim": claim["claim"], "source": claim.get("source", GU),
        "section": claim["section"], "paper": claim.get("paper"), "test": test if effects else None,
        "effects": [one.json() for one in effects], "verdict": verdict_of(effects),
        "why": claim.get("why"),
        "hours": [round(undone * hours, 1) for hours in RUN_HOURS] if undone else None,
        "seen": None if seen is None else f"#{seen}",
        "said": [{name: one[name] for name in ("file", "text", "says")} for one in sentences
                 if claim["id"] in one.get("claims", ())],
    }


def claims() -> list[dict[str, Any]]:
    given = tomllib.loads(SOURCE.read_text())
    return [row(claim, given["said"]) for claim in given["claim"]]


def written(rows: list[dict[str, Any]]) -> str:
    """One line for each row, so that a new log is a small difference."""
    lines = ",\n".join("    " + json.dumps(one, ensure_ascii=False) for one in rows)
    return f'{{\n  "rule": {json.dumps(RULE)},\n  "rows": [\n{lines}\n  ]\n}}\n'


def effect_words(one: dict[str, Any]) -> str:
    is_measured = one["recipe"] in MEASURED
    name = one["recipe"] if is_measured else f"`{one['recipe']}`"
    if one["outcome"] != "alpha":
        name += f", {one['name'] or one['outcome'].replace('_', ' ')}"
    if isinstance(one["against"], str):
        name += "" if one["against"] == "softmax" else f" against `{one['against']}`"
    else:
        name += f" against {one['against']}"
    if one["mean"] is None:
        return f"{name}: {one['seeds']} of {protocol.TOO_FEW} seeds"
    found = Difference(one["mean"], one["low"], one["high"])
    source = (MEASURED[one["recipe"]][1] if is_measured
              else f"seeds, protocol {one['protocol'].upper()}")
    return f"{name}: {found}, {one['seeds']} {source}"


def table(rows: list[dict[str, Any]]) -> str:
    """Markdown."""
    counts = ", ".join(f"{sum(one['verdict'] == name for one in rows)} {name}" for name in VERDICTS)
    lines = [f"{len(rows)} claims: {counts}.", "",
             "| claim | where | the source measured | effect here, with its interval | verdict |",
             "|" + "---|" * 5]
    for one in rows:
        where = one["section"] if one["source"] == GU else f"{one['source']}, {one['section']}"
        cells = "<br>".join(map(effect_words, one["effects"]))
        verdict = one["verdict"]
        if one["hours"]:
            verdict += "; {} to {} core hours are left".format(*one["hours"])
        note = f" {one['why']}" if one["why"] else ""
        lines.append(f"| `{one['id']}`: {one['claim']} | {where} | {one['paper'] or ''} | {cells} | "
                     f"**{verdict}**.{note} |")
    return "\n".join(lines)


def with_table(text: str, name: str, table: str) -> str:
    """The text with everything between two markers replaced."""
    begin, end = f"<!-- {name} table: written by ", f"<!-- end of {name} table -->"
    before, rest = text.split(begin)
    program, rest = rest.split("\n", 1)
    return f"{before}{begin}{program}\n{table}\n{end}{rest.split(end)[1]}"


def main() -> None:
    rows = claims()
    (MODELS / "claims.json").write_text(written(rows))
    readme = MODELS / "README.md"
    readme.write_text(with_table(readme.read_text(), "claims", table(rows)))


if __name__ == "__main__":
    main()
