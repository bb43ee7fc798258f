"""Checks that numbers in sentences equal those computed from the data."""

import json
import re
from pathlib import Path
from statistics import mean, variance

import numpy as np
from scipy import stats
from test_claims import MODEL_BY_ID, ROW_BY_ID, read_prose

from models.train import beyond, claims, decide, outcomes, protocol
from models.train.factors import onset, point_at
from models.train.recipe import recipes

ROOT = Path(__file__).resolve().parents[2]
NUMBERS = {2: "two", 3: "three", 5: "five", 8: "eight"}


def assert_stated(file: str, sentence: str) -> None:
    assert " ".join(sentence.split()) in read_prose(ROOT / file), sentence


def assert_stated_note(claim: str, words: str) -> None:
    assert words in ROW_BY_ID[claim]["why"], words


def read_alphas(recipe: str, step: int) -> list[float]:
    folder = protocol.ZOO / recipe / "seeds"
    logs = [json.loads((folder / f"{seed}.json").read_text()) for seed in (1, 2, 3, 4, 5)]
    return [point_at(log, step)["alpha"] for log in logs]


def test_the_sink_of_the_baselines_is_as_stated() -> None:
    b_alpha = mean(decide.mean_outcomes(claims.runs_b()["softmax"][1], "alpha"))
    b_alpha_4000 = mean(point_at(log, 4000)["alpha"] for log in claims.runs_b()["softmax"][1].values())
    a_alphas = read_alphas("softmax", 4000)
    assert_stated(
        "models/README.md",
        f"The sink of this baseline is {b_alpha:.3f} above uniform attention over "
        f"steps 2,400 to 3,000 and {b_alpha_4000:.3f} at step 4,000; that of protocol A, at 3e-3, is "
        f"{mean(a_alphas[:3]):.3f} at step 4,000 in seeds 1 to 3 and {mean(a_alphas):.3f} in all five.",
    )


def test_the_differences_of_the_other_models_of_the_zoo_are_as_stated() -> None:
    base = MODEL_BY_ID["softmax"]["parameters"]
    excess_by_id = {id: row["parameters"] / base - 1 for id, row in MODEL_BY_ID.items()}
    others = {id: f"{100 * abs(excess):.1f}%" for id, excess in excess_by_id.items() if abs(excess) > 0.02}
    assert set(others) == {"gated", "gated-value", "experts", "plain-ffn"}
    assert len(MODEL_BY_ID) - 2 == 33 and others["gated"] == others["gated-value"]
    half_count = sum(recipes()[id].training.steps == 2000 for id in MODEL_BY_ID)
    assert half_count == 13
    assert_stated("web/README.md", "Thirty-three more models differ from the baseline in one factor each")
    assert_stated(
        "web/README.md",
        f"within 2%; `gated` and `gated-value` have {others['gated']} more, `experts` "
        f"has {others['experts']} more and `plain-ffn` {others['plain-ffn']} fewer. Thirteen of them "
        "were trained for 2,000 steps in place of 4,000",
    )


def test_the_cost_of_zeroing_one_channel_is_as_stated() -> None:
    units = json.loads(beyond.FILE.read_text())["channels"]
    cost = {unit["unit"]: f"{unit['worst']:.2f}" for unit in units}
    assert [unit["unit"] for unit in sorted(units, key=lambda unit: -unit["worst"])] == list(beyond.CHANNEL_MODELS)
    assert all(unit["median"] < 0.01 for unit in units)
    assert beyond.read_model(beyond.ZOO / "key-bias")[0].D == 128
    assert MODEL_BY_ID["key-bias"]["measured"]["sink_bias"] > 50
    assert_stated(
        "web/src/experiments/fragility.ts",
        f"the worst of 128 channels zeroed costs +{cost['key-bias']} nats "
        f"with a key bias, whose sink is the bias key, +{cost['softmax']} with softmax, "
        f"+{cost['sigmoid']} with sigmoid, +{cost['gated']} with gates, +{cost['sink-logit']} with a sink logit "
        f"({beyond.SEQUENCES} passages, T = {beyond.T})",
    )


def format_range(values: list[float]) -> str:
    return f"{min(values):.2f} to {max(values):.2f}"


def test_the_levels_of_softmax1_and_normalized_sigmoid_are_as_stated() -> None:
    for id, words in (
        ("softmax1", "{} seeds end {} above uniform attention"),
        ("sigmoid-norm", "{} seeds, {} over steps 2,400 to 3,000"),
    ):
        values = decide.mean_outcomes(claims.runs_b()[id][1], "alpha")
        assert_stated("models/README.md", words.format(NUMBERS[len(values)], format_range(values)))


def test_the_spread_at_a_third_of_the_rate_is_as_stated() -> None:
    def values_of(id: str, outcome: str) -> list[float]:
        return claims.values_at_min_step(
            claims.runs_a()[id][1] if id == "softmax" else claims.runs_b()["softmax"][1], outcome
        )

    (alphas, slow_alphas), (ratios, slow_ratios) = (
        [values_of(id, outcome) for id in ("softmax", "lr-1e-3")] for outcome in ("alpha", "value_ratio")
    )

    def p(a: list[float], b: list[float]) -> float:
        return float(stats.f.sf(variance(a) / variance(b), len(a) - 1, len(b) - 1))

    onsets = [onset(log, protocol.B_STEPS) for log in claims.runs_b()["softmax"][1].values()]
    assert_stated(
        "models/README.md",
        f"softmax's sink appears later, at steps {min(onsets):,} to {max(onsets):,} in {NUMBERS[len(onsets)]} seeds, "
        f"and is smaller at step 4,000: `alpha` {format_range(slow_alphas)} and value ratios of "
        f"{format_range(slow_ratios)}, where the baseline's {NUMBERS[len(alphas)]} seeds have "
        f"{format_range(alphas)} and {format_range(ratios)};",
    )
    assert_stated(
        "models/README.md", f"smaller (one-sided p = {p(ratios, slow_ratios):.3f}), and that of `alpha` is not"
    )
    assert_stated("models/README.md", f"shown to be (p = {p(alphas, slow_alphas):.3f}).")


def test_the_power_of_a_comparison_is_as_stated() -> None:
    """Draws seeds with the baseline's spread. Compares them with eight of the baseline by Welch's test."""
    generator = np.random.default_rng(1)

    def power(seeds: int, change: float, trials: int = 100_000) -> str:
        groups = (generator.normal(mean, 0.029, (trials, n)) for mean, n in ((change, seeds), (0, 8)))
        test = stats.ttest_ind(*groups, axis=1, equal_var=False)
        return f"{(test.confidence_interval(decide.CONFIDENCE).high < 0).mean():.2f}"

    large, middle, small = (power(3, change) for change in (-0.2, -0.15, -0.1))
    assert_stated(
        "models/README.md",
        f"0.029: three seeds detect a difference of -0.20 with probability {large}, of -0.15 with {middle}, "
        f"of -0.10 with {small} (five seeds: {power(5, -0.1)}).",
    )
    assert_stated("models/paper.md", f"three seeds detect a difference of 0.1 in alpha with probability {small}.")


def test_the_seeds_and_sizes_of_the_paper_are_as_stated() -> None:
    runs = claims.runs_b()

    def count(id: str) -> str:
        recipe, logs = runs[id]
        assert decide.judge_level(decide.level_intervals(recipe, logs), "absence") == "agrees", id
        return NUMBERS[len(logs)]

    assert {count("no-bos+small"), count("no-bos+large")} == {"two"} == {count("sinusoid"), count("alibi")}
    assert len({count("no-positions"), count("learned-positions")} & {"two"}) == 0
    assert_stated(
        "models/paper.md",
        f"at {MODEL_BY_ID['softmax']['parameters'] / 1e6:.2f} million parameters in {count('no-bos')} seeds, "
        f"at 0.5 and 5 million in two;",
    )
    word = claims.build_effect({"recipe": "fixed-word-first", "against": "fixed-first", "says": "the same"})
    assert_stated("models/paper.md", f"the end-of-text token is {word.verdict} with {NUMBERS[word.seeds]} seeds.")
    short, *long = (
        f"{mean(decide.mean_outcomes(runs[id][1], 'alpha')):.2f}" for id in ("softmax", "context-512", "context-1024")
    )
    assert_stated("models/paper.md", f"(alpha {' and '.join(long)} against {short})")
    starts = {log["points"][0]["alpha"] for log in runs["relative"][1].values()}
    assert min(starts) > decide.MIN_EFFECT
    with_bias_key = [
        logs for recipe, logs in runs.values() if "bias_key" in recipe.config.get("sinkscope", {}) and logs
    ]
    measured = [logs for logs in with_bias_key if decide.mean_outcomes(logs, "alpha_bias")]
    assert len(measured) < len(with_bias_key)
    assert_stated("models/paper.md", f"the logs of {NUMBERS[len(measured)]} have its own attention.")


def test_the_dates_of_the_rules_are_as_stated() -> None:
    days = [str(int(rule["date"].split("-")[2])) for rule in claims.RULES]
    assert all(rule["date"].startswith("2026-11-") for rule in claims.RULES)
    assert_stated("models/paper.md", f"of {', '.join(days[:-1])} and {days[-1]} November 2026.")
    citation = (ROOT / "CITATION.cff").read_text()
    assert re.findall(r"2026-\d\d-\d\d", citation) == [claims.RULES[k]["date"] for k in (2, 0, 1)]


def test_the_data_sheet_lists_every_column_of_the_logs() -> None:
    logs = [
        json.loads(file.read_text()) for folder in ("b", "seeds") for file in protocol.ZOO.glob(f"*/{folder}/*.json")
    ]
    columns = {column for log in logs for point in log["points"] for column in point}
    sheet = (ROOT / "models/DATA.md").read_text()
    listed = {name for row in re.findall(r"^\| (`.+?) \|", sheet, re.M) for name in re.findall(r"`([^`]+)`", row)}
    listed |= {f"sink_bias_{eps}" for eps in outcomes.EPS} | {"alpha_of_1", "alpha_of_2"}
    assert columns == listed - {"sink_bias_EPS", "alpha_of_K"}
    assert {key for log in logs for key in log} == {
        "recipe", "baseline", "seed", "training", "sink_tokens", "device", "alpha_map", "points",
    }  # fmt: skip


def test_the_cost_of_a_small_cache_for_the_softmax_model_is_as_stated() -> None:
    """The reference measures the loss of all tokens of the 40 longer passages, at T = 120."""
    from dataclasses import replace

    import torch
    from sinkscope import metrics

    from models.reference.files import read_model
    from models.reference.model import Mask, forward
    from models.train import outcomes

    arch, weights = read_model(protocol.ZOO / "softmax")
    texts = json.loads((protocol.ZOO / "heldout-long.json").read_text())
    ids = outcomes.encode_texts(recipes()["softmax"], texts[:40], 120)

    def compute_loss(mask: Mask) -> float:
        with torch.no_grad():
            logits = forward(replace(arch, mask=mask), weights, ids).logits
        return metrics.loss(logits, ids).mean().item()

    baseline_loss = compute_loss(arch.mask)
    cost, cost_with_first = (
        compute_loss(mask) - baseline_loss for mask in (Mask("window", 24), Mask("window", 23, first=1))
    )
    assert_stated(
        "web/README.md",
        f"rises by {cost:.3f} nats over 40 passages of 120 tokens, with the first token kept by {cost_with_first:.3f}",
    )


def test_the_measures_of_newer_papers_are_as_stated() -> None:
    units = claims.read_units()
    means = {
        name: mean(unit[name] for unit in units[claims.SHIPPED_MODELS])
        for name in ("rank_sink", "rank_other", "rank_rest")
    }
    assert_stated(
        "models/paper.md",
        f"a model without positions loses "
        f"{mean(decide.mean_outcomes(claims.runs_b()['no-positions'][1], 'eviction')):.1f} nats without its "
        f"first token and has no sink",
    )
    layers = {
        name: [unit["first_layer"] for unit in units[name]] for name in (*claims.BASELINES, claims.SHIPPED_MODELS)
    }
    assert set(layers["baseline at 3e-3"]) == {1} and set(layers["baseline at 1e-3"]) == {1, 2}
    assert (len(layers["baseline at 3e-3"]), len(layers["baseline at 1e-3"])) == (5, 8)
    assert_stated_note("first-layer", f"{NUMBERS[layers['baseline at 1e-3'].count(2)]} of the eight seeds at 1e-3")
    columns = [
        [point["first_layer"] for point in log["points"] if point["step"] <= protocol.B_STEPS]
        for log in claims.runs_b()["sink-token"][1].values()
    ]
    first, last = (
        {next(k for k in order(column) if k is not None) for column in columns} for order in (iter, reversed)
    )
    assert (len(columns), first, last) == (5, {3, 4}, {1, 2})
    assert_stated_note(
        "first-layer-concentrates", "it is layer 3 or 4, from 0, where a head first passes, and 1 or 2 at"
    )
    assert (min(layers[claims.SHIPPED_MODELS]), max(layers[claims.SHIPPED_MODELS])) == (0, 3)
    assert all(unit["diagonal_heads"] == 0 for unit in units[claims.SHIPPED_MODELS])
    # read_prose leaves out the lines of a table.
    text = (ROOT / "models/README.md").read_text()
    assert "at 3e-3 layer 1 in each of five seeds at step 12,800, at 1e-3 layer 1 or 2 in eight" in text
    assert (
        f"{means['rank_sink']:.1f} on average in heads with a sink, "
        f"{means['rank_other']:.1f} in the others; without the first key {means['rank_rest']:.1f}"
    ) in text
