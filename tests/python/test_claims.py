"""Checks that the claims table follows from the logs, is complete, and backs every sentence in other files."""

import json
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from statistics import mean
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from record.truth import half_step, rounding_of
from sentences import check_sentence

from models.train import claims, decide, factors, protocol
from models.train.claims import Effect
from models.train.factors import Difference
from models.train.recipe import recipes

ROOT = Path(__file__).resolve().parents[2]
ROWS: list[dict[str, Any]] = json.loads((ROOT / "models/claims.json").read_text())["rows"]
ROW_BY_ID = {row["id"]: row for row in ROWS}
MODEL_BY_ID = {row["id"]: row for row in json.loads((ROOT / "models/zoo/index.json").read_text())}

# Matches sentences that state the effect of a factor on the sink. Questions state nothing.
EFFECT_PATTERN = re.compile(
    r"\b(?:less|more|no|hardly any|without a|weaker|stronger|smaller|larger) sinks?\b"
    r"|\b(?:remove|prevent|weaken|strengthen|take|replace|reduce|mitigate)s? (?:the|its|a|any) sinks?\b"
    r"|\bsinks? (?:\w+ ){0,3}?(?:disappears?|vanish(?:es)?|absent|gone|weaker|stronger|smaller|larger"
    r"|shrinks?|grows?|appears later|comes later)\b",
    re.I,
)
# Matches a causal word near "sink": a sentence of a mechanism, which a comparison of trainings alone does not show.
# "so that", "so far" and "so did" are none.
_CAUSAL_WORDS = (
    r"because|needs?|makes?|rel(?:y|ies)|decides?|causes?|therefore|hence|lets?|explains?|leads? to"
    r"|so(?! (?:that|far|many|much|as|long|little|did|do|is|are|few|large|small|short)\b)"
)
CAUSAL_PATTERN = re.compile(
    rf"\b(?:{_CAUSAL_WORDS})\b[^.?!]{{0,60}}\bsinks?\b|\bsinks?\b[^.?!]{{0,60}}\b(?:{_CAUSAL_WORDS})\b", re.I
)
DIRECTION_PATTERNS = {
    "less": r"less|reduce\w*|remov\w*|smaller|weak\w*|later|absent|hardly any|no sink|without a"
    r"|under \d+%|fewer",
    "more": r"more|larger|strong\w*|appears|emerges|has a sink|grows?",
    "none": r"no sink|without a sink|hardly any sink|absent|vanish\w*|disappear\w*",
    "the same": r"same|unchanged|does not (?:change|matter)|hardly changes",
    "reported": r"report\w*|paper's|finds?",
    "model": r"no sink",
}


def read_prose(file: Path) -> str:
    """Returns the prose of a file on one line: Markdown without generated blocks and code, the joined strings of
    TypeScript without comments, and the texts in a recipe."""
    text = file.read_text()
    if file.suffix == ".md":
        text = re.sub(r"<!-- (\w+) table: written by .*?<!-- end of \1 table -->", " ", text, flags=re.S)
        text = re.sub(r"^(?: {4}|\|).*$", " ", text, flags=re.M)
    elif file.suffix == ".ts":
        text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
        text = re.sub(r"(?<!:)//.*", " ", text)
        text = re.sub(r"['`]\s*\+\s*['`]", "", text)
    elif file.suffix == ".toml":
        text = text.split("\n[")[0].replace("\\\n", "")
    return " ".join(text.split())


def split_sentences(text: str) -> list[str]:
    return re.split(r"(?<=[.?!;])(?=['\"`)<,}\]]*\s)", text)


# Cards are excluded: they are generated from recipes, whose own files are checked, and logs. node_modules is deep, so
# no pattern descends into it.
FILES = sorted(
    file
    for pattern in (
        "*.md",
        "*/*.md",
        "tests/*/*.md",
        "models/*/*.md",
        "web/*/*.md",
        "web/*.html",
        "web/src/**/*.ts",
        "models/train/recipes/*.toml",
    )
    for file in ROOT.glob(pattern)
    if not file.is_relative_to(ROOT / "web/node_modules")
)
DOCUMENT = tomllib.loads(claims.CLAIMS_FILE.read_text())
SENTENCES = claims.said_sentences(DOCUMENT) + [
    {"file": file, "text": text, "says": "nothing"} for texts in DOCUMENT["nothing"].values() for file, text in texts
]


def test_the_table_follows_from_the_logs() -> None:
    rows = claims.claims()
    repeated = "run python -m models.train.claims"
    assert (ROOT / "models/claims.json").read_text() == claims.claims_json(rows), repeated
    assert claims.claims_table(rows) in (ROOT / "models/README.md").read_text(), repeated
    assert claims.describe_verdicts(rows) in (ROOT / "models/paper.md").read_text(), repeated


def test_the_file_follows_its_schema_and_names_its_rules() -> None:
    document, schema = (json.loads((ROOT / f"models/{name}.json").read_text()) for name in ("claims", "claims.schema"))
    validator = Draft202012Validator(schema)
    validator.validate(document)
    for kind in ("row", "effect"):
        assert all("description" in names for names in schema["$defs"][kind]["properties"].values()), kind
    assert schema["$defs"]["verdict"]["enum"] == list(claims.VERDICTS)
    for name, value in (("verdict", "perhaps"), ("before", 3), ("hours", [1])):
        assert not validator.is_valid(document | {"rows": [document["rows"][0] | {name: value}]}), name
    readme = (ROOT / "models/README.md").read_text()
    for rule in document["rules"]:
        assert f"## {rule['section']}\n" in readme, rule


def test_every_figure_and_table_of_the_paper_has_its_row() -> None:
    sections = [place for row in ROWS if row["source"] == claims.GU_ET_AL for place in row["section"].split(", ")]
    assert set(sections) <= claims.SECTIONS
    assert set(claims.REQUIRED_SECTIONS) <= set(sections)
    assert len(ROW_BY_ID) == len(ROWS)


def test_every_row_of_the_table_of_claims_names_its_evidence() -> None:
    recipes_by_id = recipes()
    for row in ROWS:
        assert row["verdict"] in claims.VERDICTS
        for effect in row["effects"]:
            assert effect["recipe"] in claims.UNIT_SOURCES or effect["recipe"] in recipes_by_id, row["id"]
            assert not isinstance(effect["against"], str) or effect["against"] in recipes_by_id, row["id"]
            assert (effect["mean"] is None) == (effect["protocol"] is None), row["id"]
            if effect["mean"] is not None:
                assert effect["low"] <= effect["mean"] <= effect["high"], row["id"]
                assert len(effect["values"]) == effect["seeds"] >= 2, row["id"]
        if row["verdict"] == "not tested":
            assert row["why"] or row["hours"], f"{row['id']}: neither why nor how many hours"
        else:
            assert row["effects"], row["id"]


def make_effect(
    difference: Difference | None,
    paper: str,
    values: tuple[float, ...] = (0.3,),
    seeds: int = 3,
    by_shares: Difference | None = None,
    margin: float = 0.0,
    sink: Difference | None = None,
) -> Effect:
    sinks = (("sink_0.3", sink, 5.0),) if sink else ()
    compared = ("sigmoid", "softmax", "alpha", None, paper, "b", seeds, protocol.B_MEAN_STEPS)
    return Effect(*compared, difference, list(values), 0, (), (), by_shares, margin, sinks)


NO_EFFECT, UNDECIDED, SINK = (Difference(0.0, -0.05, 0.05), Difference(0.0, -0.05, 0.2), Difference(0.2, 0.1, 0.3))


@pytest.mark.parametrize(
    ("effect", "verdict"),
    [
        (make_effect(Difference(-0.2, -0.3, -0.1), "less"), "agrees"),
        (make_effect(Difference(-0.2, -0.3, -0.1), "more"), "differs"),
        (make_effect(Difference(-0.2, -0.5, 0.1), "less"), "undecided"),
        (make_effect(NO_EFFECT, "the same", margin=0.06), "agrees"),
        (make_effect(NO_EFFECT, "the same", margin=0.05), "undecided"),
        (make_effect(Difference(-0.2, -0.3, -0.1), "the same", margin=0.1), "differs"),
        (make_effect(Difference(-0.2, -0.3, -0.1), "less", sink=Difference(20, 10, 30)), decide.DEPENDS),
        (make_effect(SINK, "a sink"), "agrees"),
        (make_effect(NO_EFFECT, "a sink"), "differs"),
        (make_effect(UNDECIDED, "a sink"), "undecided"),
        (make_effect(NO_EFFECT, "none", by_shares=NO_EFFECT), "agrees"),
        (make_effect(NO_EFFECT, "none", by_shares=UNDECIDED), "undecided"),
        (make_effect(NO_EFFECT, "none", by_shares=SINK), decide.DEPENDS),
        (make_effect(SINK, "none", by_shares=SINK), "differs"),
        (make_effect(None, "less", (), 2), "undecided"),
        (make_effect(None, "less", (), 0), "not tested"),
    ],
)
def test_the_verdict_of_an_effect_follows_from_its_interval(effect: Effect, verdict: str) -> None:
    assert effect.verdict == verdict


@pytest.mark.parametrize(
    ("effect", "is_directional"),
    [
        (make_effect(SINK, "more"), True),
        (make_effect(NO_EFFECT, "the same"), False),
        (make_effect(SINK, "a sink"), False),
        (make_effect(None, "less", (), 0), False),
    ],
)
def test_only_a_comparison_has_a_direction(effect: Effect, is_directional: bool) -> None:
    assert effect.is_directional is is_directional
    is_compared = effect.difference is not None and effect.kind == "comparison"
    assert (effect.to_json()["p"] is not None) == (effect.comparison is not None) == is_compared


def test_without_logs_the_onset_is_a_range_over_the_given_values() -> None:
    assert claims.Ranges(lambda name: [0.5, 0.25])["onset"] == "0.25 to 0.50"


def test_the_kind_of_a_claim_follows_from_what_it_says() -> None:
    kinds = {says: make_effect(NO_EFFECT, says).kind for says in ("a sink", "none", "less", "more", "the same")}
    assert kinds == {
        "a sink": "existence",
        "none": "absence",
        "less": "comparison",
        "more": "comparison",
        "the same": "comparison",
    }
    for row in ROWS:
        for effect in row["effects"]:
            # The only number that alpha is compared with is uniform attention.
            if effect["outcome"].startswith("alpha") and effect["against"] == 0:
                assert (effect["kind"] != "comparison") == (" - alpha" not in effect["outcome"]), row["id"]
            if effect["kind"] != "comparison":
                assert effect["against"] == 0 and effect["p"] is effect["survives"] is None, row["id"]
            if effect["kind"] == "absence" and effect["mean"] is not None:
                is_trained = effect["protocol"] != "shipped"
                assert len(effect["shares"]) == effect["seeds"] * is_trained, row["id"]
                assert bool(effect["by_shares"]) == is_trained, row["id"]


def test_a_verdict_that_is_another_one_now_says_what_changed_it() -> None:
    assert claims.unexplained_changes(ROWS) == []
    row = {"id": "a", "before": "agrees", "verdict": "differs", "changed": None}
    for change in ({}, {"verdict": "agrees", "changed": "runs"}):
        check_sentence("; ".join(claims.unexplained_changes([row | change])), Path(__file__))
    for change in ({"changed": "test"}, {"verdict": "agrees"}, {"before": None}):
        assert claims.unexplained_changes([row | change]) == []
    assert "| differs, changed by the rule |" in claims.claims_table(ROWS)


def test_effects_that_were_added_after_their_runs_say_so() -> None:
    added_ids = [row["id"] for row in ROWS if any(effect["added"] for effect in row["effects"])]
    assert added_ids == [
        "first-token-hidden",
        "little-data-no-sink",
        "value-bias-activations",
        "shared-bias",
        "bias-dimensions",
        "value-gate",
        "context-length",
    ]
    assert claims.claims_table(ROWS).count("added after the runs were read") == 12


def test_every_row_states_its_earlier_verdict_and_whether_two_seeds_decided() -> None:
    earlier_ids = [id for ids in DOCUMENT["before"].values() for id in ids]
    assert set(DOCUMENT["before"]) <= set(claims.VERDICTS)
    assert sorted(earlier_ids) == sorted(row["id"] for row in ROWS if row["before"])
    for row in ROWS:
        tested_effects = [effect for effect in row["effects"] if effect["mean"] is not None]
        assert row["two_seeds"] == any(effect["seeds"] == 2 for effect in tested_effects), row["id"]
        for effect in tested_effects:
            if effect["protocol"] in ("a", "b"):
                assert len(effect["sinks"]) == effect["seeds"], row["id"]
                assert all(0 <= sink <= 100 for sink in effect["sinks"]), row["id"]
    text = claims.claims_table(ROWS)
    assert "**agrees**, on two seeds." in text and "| before |" in text


def test_second_looks_that_the_table_prices_are_those_of_the_queue() -> None:
    due_recipes = {
        effect.recipe
        for claim in tomllib.loads(claims.CLAIMS_FILE.read_text())["claim"]
        for effect in map(claims.build_effect, claim.get("effects", ()))
        if effect.protocol == "b" and claims.has_due_second_look(effect, effect.recipe)
    }
    queued_recipes = {decide.id_of(decision.recipe) for decision in decide.decisions() if decision.needs_second_look}
    # A column that early logs lack is trained again.
    further_recipes = {id for row in protocol.B_FURTHER if row.column for id in row.recipes}
    assert due_recipes <= queued_recipes | further_recipes


def test_only_logs_that_have_a_later_column_count_as_seeds_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = claims.runs_b()
    for id, column in (("key-bias", "alpha_bias"), ("key-value-bias", "alpha_bias"), ("sink-token", "alpha_of_1")):
        recipe, logs = runs[id]
        have = [seed for seed, log in logs.items() if all(column in point for point in log["points"])]
        for lacking in range(len(have)):
            stripped = {
                seed: {**log, "points": [{k: v for k, v in point.items() if k != column} for point in log["points"]]}
                if seed in have[:lacking]
                else log
                for seed, log in logs.items()
            }
            monkeypatch.setattr(claims, "runs_b", lambda runs={**runs, id: (recipe, stripped)}: runs)
            effect = claims.build_effect({"recipe": id, "outcome": column, "says": "a sink"})
            count = len(have) - lacking
            assert count == effect.seeds
            needed = protocol.B_FIRST_SEEDS if count < protocol.B_FIRST_SEEDS else len(protocol.B_SECOND_SEEDS)
            assert effect.missing_runs in (0, needed - count)
            assert (effect.difference is None) == (count < protocol.B_FIRST_SEEDS)


def test_verdicts_expected_by_chance_are_counted() -> None:
    """Of 40 comparisons at 97.5% and 20 at 95%, two have a direction by chance, with a second look of the 40 three.
    Comparisons that survive are marked."""

    def make_effect_row(name: str, low: float, high: float, survives: bool | None) -> dict[str, Any]:
        return {"protocol": name, "low": low, "high": high, "survives": survives}

    rows = [
        {
            "effects": [make_effect_row("b", -0.2, 0.1, False)] * 36
            + [make_effect_row("b", 0.0, 0.1, False), make_effect_row("b", -0.1, 0.0, False)]
            + [make_effect_row("b", 0.1, 0.2, True)] * 2
        },
        {"effects": [make_effect_row("a", -0.2, -0.1, False)] * 20 + [make_effect_row("b", 0.1, 0.2, None)]},
    ]
    assert claims.chance_counts(rows) == {"comparisons": 60, "directions": 22, "survive": 2, "by_chance": [2.0, 3.0]}
    for row in ROWS:
        if row["survives"]:
            assert f"| `{row['id']}`: " in claims.claims_table(ROWS)
            line = next(
                table_line
                for table_line in claims.claims_table(ROWS).splitlines()
                if table_line.startswith(f"| `{row['id']}`")
            )
            assert f"**{row['verdict']}** †" in line


def test_a_claim_with_several_effects_agrees_only_if_all_of_them_do() -> None:
    agreeing, untested = make_effect(Difference(-0.2, -0.3, -0.1), "less"), make_effect(None, "less", (), 0)
    differing = make_effect(Difference(-0.2, -0.3, -0.1), "more")
    assert claims.verdict_of([agreeing, agreeing]) == "agrees"
    assert claims.verdict_of([agreeing, untested]) == "undecided"
    assert claims.verdict_of([agreeing, differing, untested]) == "differs"
    assert claims.verdict_of([untested, untested]) == claims.verdict_of([]) == "not tested"


def test_a_mean_that_rounds_to_zero_is_written_without_a_sign() -> None:
    result = make_effect(Difference(-1e-6, -0.02, 0.01), "less").to_json()
    assert str(result["mean"]) == "0.0" and result["low"] == -0.02


def test_effects_equal_those_in_the_table_of_their_protocol() -> None:
    decisions_by_id = {decide.id_of(decision.recipe): decision for decision in decide.decisions()}
    runs = protocol.runs()

    def paired_changes(id: str, outcome: str) -> list[float]:
        logs, bases = (factors.logs_of(runs[protocol.LONG_PREFIX + name]) for name in (id, "softmax"))
        points = [
            [factors.point_at(log[seed], protocol.MIN_STEP)[outcome] for log in (logs, bases)]
            for seed in logs
            if seed in bases and logs[seed]["points"][-1]["step"] >= protocol.MIN_STEP
        ]
        return [value - base for value, base in points]

    compared_count = 0
    for row in ROWS:
        for effect in row["effects"]:
            base = effect["against"]
            if effect["against_steps"] == [0]:
                logs = claims.runs_b()[effect["recipe"]][1]
                trained, untrained = (
                    decide.mean_outcomes(logs, effect["outcome"], steps) for steps in (protocol.B_MEAN_STEPS, (0,))
                )
                result: Any = decide.welch_difference(trained, untrained)
            elif effect["protocol"] == "b" and base == "softmax" and effect["steps"] == list(protocol.B_MEAN_STEPS):
                result = decisions_by_id[effect["recipe"]].difference(effect["outcome"])
            elif effect["protocol"] == "a" and base == "softmax":
                result = factors.mean_difference(paired_changes(effect["recipe"], effect["outcome"]))
            else:
                continue
            assert [effect[name] for name in ("mean", "low", "high")] == pytest.approx(
                [result.mean, result.low, result.high], abs=6e-4
            ), row["id"]
            compared_count += 1
    assert compared_count > 10


def test_the_file_has_the_shipped_models_with_a_sink_and_one_measures_as_stored() -> None:
    from models.train import inputs

    units = json.loads(inputs.FILE.read_text())["shipped models"]
    assert [unit["model"] for unit in units] == inputs.sink_models(list(MODEL_BY_ID.values()))
    assert inputs.uniform_alpha(64) == pytest.approx(0.0741, abs=1e-4)
    for unit in units:
        for length in inputs.LENGTHS:
            sinks = [unit[f"sink_{eps}_{length}"] for eps in inputs.EPS]
            assert sinks == sorted(sinks, reverse=True)
    columns, stored_unit = (
        inputs.measure_model("fixed-first"),
        next(unit for unit in units if unit["model"] == "fixed-first"),
    )
    assert columns.keys() == stored_unit.keys()
    assert columns.pop("model") == stored_unit["model"]
    # Both sides have four digits. On another processor one head of one text may be on the other side of eps.
    head = 100 / (inputs.SEQUENCES * 24)
    for name, value in columns.items():
        heads = head if name.startswith("sink") else head / 10 if name.startswith("fall") else 0
        bound = 2 * half_step(4) + rounding_of(stored_unit[name], 64) + heads
        assert abs(value - stored_unit[name]) < bound, name


def is_backed(row: dict[str, Any], sentence: dict[str, Any]) -> bool:
    if sentence["says"] == "reported":
        return True
    if sentence["says"] == "model":
        # "No sink" must also hold for rows divided by their sums, unless the sentence is about raw weights.
        columns = ("sink_1_raw",) if "raw weights" in sentence["text"] else ("sink_1", "sink_1_raw")
        return all(MODEL_BY_ID[sentence["model"]]["measured"][column] <= 1.0 for column in columns)
    effects = [effect for effect in row["effects"] if sentence.get("recipe") in (None, effect["recipe"])]
    if not effects or any(effect["mean"] is None for effect in effects):
        return False
    checks: dict[str, Callable[[dict[str, Any]], bool]] = {
        "less": lambda effect: effect["high"] < 0,
        "more": lambda effect: effect["low"] > 0,
        "the same": lambda effect: -decide.MIN_EFFECT < effect["low"] <= 0 <= effect["high"] < decide.MIN_EFFECT,
        # The row is either a claim of existence that differs, or a claim of absence that agrees.
        "none": lambda effect: (effect["kind"], effect["verdict"]) in (("existence", "differs"), ("absence", "agrees")),
    }
    return all(map(checks[sentence["says"]], effects))


@pytest.mark.parametrize("sentence", SENTENCES, ids=lambda sentence: sentence["text"][:40])
def test_a_sentence_claims_no_more_than_its_rows(sentence: dict[str, Any]) -> None:
    assert " ".join(sentence["text"].split()) in read_prose(ROOT / sentence["file"]), "the sentence has changed"
    if sentence["says"] == "nothing":
        return
    direction_pattern = rf"\b(?:{DIRECTION_PATTERNS[sentence['says']]})"
    assert re.search(direction_pattern, sentence["text"], re.I), "it states another direction"
    assert sentence["claims"]
    for id in sentence["claims"]:
        assert is_backed(ROW_BY_ID[id], sentence), f"claim {id} does not support: {sentence['text']}"


def unclaimed_statements(file: Path, text: str, pattern: re.Pattern[str] = EFFECT_PATTERN) -> list[str]:
    claimed_texts = [" ".join(row["text"].split()) for row in SENTENCES if ROOT / row["file"] == file]
    return [
        sentence.strip()
        for sentence in split_sentences(text)
        if (match := pattern.search(sentence))
        and not sentence.rstrip("'\"`,) ").endswith("?")
        and not any(claimed_text in sentence and match[0] in claimed_text for claimed_text in claimed_texts)
    ]


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_no_sentence_states_an_effect_without_a_row(file: Path) -> None:
    assert unclaimed_statements(file, read_prose(file)) == []


@pytest.mark.parametrize(
    "file", [file for file in FILES if file.name != "CHANGELOG.md"], ids=lambda file: str(file.relative_to(ROOT))
)
def test_no_sentence_states_a_cause_without_a_row(file: Path) -> None:
    assert unclaimed_statements(file, read_prose(file), CAUSAL_PATTERN) == []


def test_only_a_causal_word_near_the_sink_is_a_cause() -> None:
    file = ROOT / "README.md"
    assert unclaimed_statements(file, "The model relies on its sink.", CAUSAL_PATTERN)
    assert unclaimed_statements(file, "A sink emerges because rows sum to 1.", CAUSAL_PATTERN)
    assert unclaimed_statements(file, "Rows sum to 1, so a sink emerges.", CAUSAL_PATTERN)
    for sentence in (
        "It is normalized so that a sink shows.",
        "No sink so far.",
        "Does the sink need a token?",
        "The model relies on text. A sink emerges.",
        "Rows make a map.",
    ):
        assert not unclaimed_statements(file, sentence, CAUSAL_PATTERN), sentence


def test_only_a_sentence_about_an_effect_on_the_sink_is_a_statement() -> None:
    file = ROOT / "README.md"
    for text in (
        "A gate removes the sink.",
        "With ReLU the sink of a model vanishes.",
        "They have no sink.",
        "Such models have a stronger sink.",
    ):
        assert unclaimed_statements(file, text), text
    for text in ("Does the sink disappear?", "The sink appears during training.", "It measures sinks."):
        assert not unclaimed_statements(file, text), text


def test_an_effect_over_units_is_a_mean_of_a_column_or_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    units = [{"a": 1.0, "b": 0.5}, {"a": 2.0, "b": 0.5}, {"a": None, "b": 0.5}, {"a": 3.0, "b": 2.5}]
    monkeypatch.setattr(claims, "read_units", lambda: {"searches": units})

    def effect_of(outcome: str) -> Effect:
        return claims.build_effect({"recipe": "searches", "outcome": outcome, "says": "more", "against": 0.5})

    assert effect_of("a").values == [1.0, 2.0, 3.0] and effect_of("a").seeds == 3
    assert effect_of("a - b").values == [0.5, 1.5, 0.5]
    assert effect_of("a").difference == pytest.approx(claims.mean_difference([1.0, 2.0, 3.0], 0.5, 0.95))
    assert claims.command_of([effect_of("a")]) == "python -m models.train.beyond --units"
    units[1:] = []
    assert (effect_of("a").difference, effect_of("a").verdict) == (None, "undecided")


def test_a_row_that_loses_its_interval_no_longer_backs_a_sentence() -> None:
    sentence, row = {"says": "none"}, ROW_BY_ID["sigmoid"]
    assert is_backed(row, sentence) and is_backed(ROW_BY_ID["sink-without-fixed-token"], sentence)
    undecided_row = json.loads(json.dumps(row))
    undecided_row["effects"][0]["verdict"] = "undecided"
    assert not is_backed(undecided_row, sentence)
    assert not is_backed(ROW_BY_ID["emergence"], sentence)
    untested_row = json.loads(json.dumps(row))
    untested_row["effects"][0] |= {"mean": None, "low": None, "high": None, "values": []}
    assert not is_backed(untested_row, sentence)


def test_a_level_has_both_measures_of_its_seeds_at_its_steps() -> None:
    recipe, logs = claims.runs_b()["relu"]
    weights, shares = decide.seed_levels(recipe, logs)
    effect = ROW_BY_ID["relu"]["effects"][0]
    assert len(shares) > 2 and effect["shares"] == pytest.approx(shares, abs=2e-4)
    assert effect["values"] == pytest.approx(weights, abs=2e-4)
    assert claims.build_effect({"recipe": "relu", "says": "less"}).shares == ()
    by_a = claims.build_effect({"recipe": "sigmoid", "says": "none", "protocol": "a"})
    expected = [
        factors.point_at(log, protocol.MIN_STEP)[decide.SHARE_OUTCOME] - factors.point_at(log, 0)[decide.SHARE_OUTCOME]
        for _, log in sorted(claims.runs_a()["sigmoid"][1].items())
    ]
    assert list(by_a.shares) == expected and by_a.by_shares == factors.mean_difference(expected)


def test_a_sink_that_is_there_before_training_does_not_count() -> None:
    """Relative positions begin with alpha at 0.26; the levels are what training adds to it."""
    effect = claims.build_effect({"recipe": "relative", "says": "a sink"})
    logs = claims.runs_b()["relative"][1]
    ends, starts = decide.mean_outcomes(logs, "alpha"), decide.mean_outcomes(logs, "alpha", (0,))
    assert min(starts) > 0.25 and effect.values == pytest.approx([a - b for a, b in zip(ends, starts)])


def test_a_comparison_at_equal_tokens_has_its_own_steps() -> None:
    spec = {"recipe": "batch-half", "says": "the same", "steps": [2400, 2800], "against_steps": [1200, 1400]}
    effect = claims.build_effect(spec)
    logs, baseline_logs = (claims.runs_b()[id][1] for id in ("batch-half", "softmax"))
    expected = mean(decide.mean_outcomes(logs, "alpha", (2400, 2800))) - mean(
        decide.mean_outcomes(baseline_logs, "alpha", (1200, 1400))
    )
    assert effect.difference.mean == pytest.approx(expected)
    row = effect.to_json()
    assert (row["steps"], row["against_steps"]) == ([2400, 2800], [1200, 1400])
    assert claims.build_effect({"recipe": "batch-half", "says": "none"}).to_json()["against_steps"] is None
