"""Checks the intervals, pairs and sentences of protocol A on small synthetic logs."""

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import pytest
from logs import log_of
from sentences import check_sentence, refused

from models.train import factors, protocol
from models.train.recipe import Recipe

RUNS_BY_ID = protocol.runs()
SOFTMAX, SIGMOID = RUNS_BY_ID["long-softmax"], RUNS_BY_ID["long-sigmoid"]


def make_log(
    recipe: Recipe, seed: int, alphas: dict[int, float], losses: dict[int, float] | None = None
) -> dict[str, Any]:
    log = log_of(recipe, seed, alphas, **{"sink_0.2": 10.0, "sink_0.3": 5.0, "sink_0.4": 1.0})
    for point in log["points"]:
        point["loss"] = (losses or {}).get(point["step"], 4 - point["step"] / 1e4)
    return log


def make_logs(recipe: Recipe, ends: list[float], step: int = protocol.STEPS) -> dict[int, dict[str, Any]]:
    return {i + 1: make_log(recipe, i + 1, {0: 0.0, step: end}) for i, end in enumerate(ends)}


def make_factor(
    ends: list[float],
    bases: list[float],
    recipe: Recipe = SIGMOID,
    **more: int,
) -> factors.Factor:
    return factors.pair_logs(recipe, make_logs(recipe, ends, **more), make_logs(SOFTMAX, bases, **more))


def test_the_interval_of_a_mean_difference_equals_the_value_by_hand() -> None:
    # The mean is 2 and the deviation 1, so the interval extends by 4.3027 / sqrt(3) to each side.
    result = factors.mean_difference([1.0, 2.0, 3.0])
    assert (result.mean, result.p) == (2.0, pytest.approx(0.0741799, abs=1e-6))  # t = 2 sqrt(3)
    assert (result.low, result.high) == pytest.approx((2 - 2.48414, 2 + 2.48414), abs=1e-4)
    pair = factors.mean_difference([1.0, 3.0])  # 12.7062 sqrt(2) / sqrt(2)
    assert (pair.low, pair.high) == pytest.approx((2 - 12.7062, 2 + 12.7062), abs=1e-4)
    shifted = factors.mean_difference([1.0, 2.0, 3.0], 0.5, 0.975)  # 6.2053 / sqrt(3)
    assert (shifted.low, shifted.high) == pytest.approx((1.5 - 3.58263, 1.5 + 3.58263), abs=1e-4)
    single = factors.mean_difference([2.0])
    assert (single.mean, single.low, single.high) == (2.0, -math.inf, math.inf)
    assert factors.mean_difference([2.0, 2.0], 1) == factors.Difference(1.0, 1.0, 1.0, 0.0)
    assert factors.mean_difference([1.0, 1.0], 1) == factors.Difference(0.0, 0.0, 0.0, 1.0)


def test_differences_of_three_or_more_seeds_are_written_with_their_interval() -> None:
    difference = factors.Difference(0.1, -0.1, 0.3)
    assert factors.describe_interval(difference, 2) == "+0.100 (n = 2)"
    assert factors.describe_interval(difference, protocol.MIN_PAIRS) == "+0.100 (-0.100 to +0.300)"
    # An interval that ends at 0 contains 0.
    assert factors.Difference(0.1, 0.0, 0.2).direction is factors.Difference(-0.1, -0.2, 0.0).direction is None


def test_seeds_are_paired() -> None:
    """Pairs show a difference that all seeds have in common, even if the seeds differ more among themselves."""
    result = make_factor([0.1, 0.3, 0.5, 0.7, 0.9], [0.2, 0.41, 0.59, 0.8, 1.0]).difference("alpha", 16000)
    assert result.mean == pytest.approx(-0.1)
    assert result.low > -0.12 and result.high < -0.08
    shuffled = make_factor([0.9, 0.3, 0.5, 0.7, 0.1], [0.2, 0.41, 0.59, 0.8, 1.0])
    assert shuffled.difference("alpha", 16000).low < -0.6


def test_a_seed_without_a_partner_is_left_out() -> None:
    logs, bases = make_logs(SIGMOID, [0.1, 0.2, 0.3, 0.4]), make_logs(SOFTMAX, [0.5, 0.5, 0.5, 0.5])
    del logs[2], bases[4]
    assert [log["seed"] for log, _ in factors.pair_logs(SIGMOID, logs, bases).pairs] == [1, 3]
    bases[1]["points"] = []
    assert [log["seed"] for log, _ in factors.pair_logs(SIGMOID, logs, bases).pairs] == [3]


def test_a_run_with_another_baseline_is_rejected() -> None:
    logs = make_logs(SIGMOID, [0.1] * 3)
    with refused(ValueError):
        factors.pair_logs(SIGMOID, logs, make_logs(RUNS_BY_ID["long-gated"], [0.1] * 3))
    with refused(ValueError):
        factors.pair_logs(SIGMOID, make_logs(SOFTMAX, [0.1] * 3), make_logs(SOFTMAX, [0.1] * 3))


def test_another_schedule_is_rejected() -> None:
    bases = make_logs(SOFTMAX, [0.1] * 3)
    bases[2]["training"]["steps"] = 4000
    with pytest.raises(ValueError, match="long-softmax: 4000 steps, expected 16000"):
        factors.pair_logs(SIGMOID, make_logs(SIGMOID, [0.1] * 3), bases)


def test_runs_are_compared_at_the_last_step_that_all_have() -> None:
    factor = make_factor([0.1] * 3, [0.4] * 3)
    factor.pairs[1][0]["points"] = [p for p in make_log(SIGMOID, 2, {0: 0.0, 4000: 0.3})["points"]]
    for log, base in factor.pairs:
        for x in (log, base):
            x["points"].insert(1, dict(x["points"][0], step=4000, alpha=0.25)) if len(x["points"]) == 2 and x["points"][
                1
            ]["step"] != 4000 else None
    assert factor.step == 4000
    assert factors.verdict_sentence(factor).endswith("(at step 4,000 of 16,000)")


def test_before_step_4000_the_sentence_says_that_it_is_too_early() -> None:
    check_sentence(factors.verdict_sentence(make_factor([0.1] * 3, [0.4] * 3, step=3800)), Path(__file__))


@pytest.mark.parametrize(
    ("ends", "bases", "paper"),
    [
        ([0.0, 0.01, 0.02], [0.4, 0.41, 0.42], {"sink_1": 0.4, "base": 18.0}),
        ([0.0, 0.02, 0.04], [0.4, 0.41, 0.42], {"sink_1": 0.4, "base": 18.0}),
        ([0.5, 0.52, 0.54], [0.4, 0.41, 0.42], {"says": "less"}),
        ([0.5, 0.3, 0.4], [0.4, 0.4, 0.4], {"sink_1": 30.0, "base": 18.0}),
        ([0.5, 0.3, 0.4], [0.4, 0.4, 0.4], {"sink_1": 18.0, "base": 18.0}),
        ([0.5, 0.52, 0.54], [0.4, 0.41, 0.42], {}),
        ([0.0, 0.0], [0.9, 0.9], {"says": "less"}),
    ],
)
def test_a_sentence_states_the_direction_and_the_finding_of_the_paper(
    ends: list[float], bases: list[float], paper: dict[str, Any]
) -> None:
    recipe = dataclasses.replace(SIGMOID, paper=paper)
    check_sentence(factors.verdict_sentence(make_factor(ends, bases, recipe)), Path(__file__))


@pytest.mark.parametrize(
    ("paper", "word"),
    [
        ({}, None),
        ({"sink_1": 0.0}, None),
        ({"says": "more"}, "more"),
        ({"sink_1": 13.6, "base": 18.18}, "less"),
        ({"sink_1": 13.7, "base": 18.18}, "the same"),
        ({"sink_1": 24.1, "base": 18.18}, "the same"),
        ({"sink_1": 24.2, "base": 18.18}, "more"),
        ({"sink_1": 0.75, "base": 1.0}, "the same"),
        ({"sink_1": 1.33, "base": 1.0}, "the same"),
    ],
)
def test_the_finding_of_a_paper_follows_from_its_figures(paper: dict[str, Any], word: str | None) -> None:
    assert factors.paper_finding(paper) == word


def test_the_index_has_no_sentence_from_too_few_pairs() -> None:
    assert factors.index_entry(None) is None
    assert factors.index_entry(make_factor([0.0] * 2, [0.4] * 2)) is None
    assert factors.index_entry(make_factor([0.0] * 3, [0.4] * 3, step=3800)) is None
    factor = make_factor([0.0, 0.02, 0.04], [0.4, 0.41, 0.42], step=4000)
    factor.pairs[0][0]["points"][-1]["eviction"] = None  # undefined under this mask
    for i, (log, _) in enumerate(factor.pairs):
        log["points"][-1]["value_ratio"] = 0.5 + i / 10
    assert factors.index_entry(factor) == {
        "seeds": 3,
        "step": 4000,
        "says": factors.verdict_sentence(factor),
        "outcomes": {
            "alpha": [-0.39, -0.415, -0.365],
            "value_ratio": [0.1, -0.148, 0.348],
            "loss": [0.0, 0.0, 0.0],
            "sink_0.3": [0.0, 0.0, 0.0],
        },
    }


def test_a_factor_without_a_pair_has_no_sentence() -> None:
    runs = {recipe.id: recipe for recipe in (SOFTMAX, SIGMOID)}
    logs = {SOFTMAX.id: make_logs(SOFTMAX, [0.4, 0.5]), SIGMOID.id: {}}
    assert factors.pair_all(runs, logs) == {}
    logs[SIGMOID.id] = make_logs(SIGMOID, [0.0])
    assert [(id, len(factor.pairs)) for id, factor in factors.pair_all(runs, logs).items()] == [(SIGMOID.id, 1)]


def test_undefined_differences_are_empty_cells() -> None:
    factor = make_factor([0.1] * 3, [0.4] * 3)
    factor.pairs[0][0]["points"][-1]["eviction"] = None
    assert factor.difference("eviction", 16000) is None
    assert "| sigmoid" not in factors.factors_table([factor])
    assert "|  |" in factors.factors_table([factor]).splitlines()[-1]


@pytest.mark.parametrize(
    ("alphas", "step"),
    [
        ({0: 0.0, 200: 0.2, 400: 0.3}, 200),
        ({0: 0.0, 200: 0.2, 400: 0.05, 600: 0.1}, 600),
        ({0: 0.0, 200: 0.09}, None),
        ({0: 0.2, 200: 0.02}, None),
        ({0: 0.2, 16000: 0.02}, None),
        ({0: 0.2, 16000: 0.3, 16200: 0.02}, 0),
    ],
)
def test_the_onset_is_the_step_from_which_alpha_stays_high(alphas: dict[int, float], step: int | None) -> None:
    assert factors.onset(make_log(SOFTMAX, 1, alphas)) == step


def test_the_pilot_counts_the_runs_whose_sink_stops_rising() -> None:
    def run(seed: int, *alphas: float) -> dict[str, Any]:
        return make_log(SOFTMAX, seed, dict(zip(factors.PILOT_STEPS, alphas)))

    flat, rising = run(1, *[0.1] * 7, 0.4, 0.4, 0.41), run(2, *[0.0] * 7, 0.2, 0.2, 0.3)
    text = factors.pilot_table({1: flat, 2: rising})
    assert "| 1,000 | 0.100 | 0.000 |" in text and "| measured up to | 12,800 | 12,800 |" in text
    head, rule, *_ = text.splitlines()
    assert head.count("|") == rule.count("|") == 4
    assert "| rise from 10,400 to 12,800 | +0.010 | +0.100 |" in text
    check_sentence(text.splitlines()[-1], Path(__file__))
    # A rise of exactly LARGEST_FLAT_RISE counts as rising.
    at_limit = run(1, *[0.0] * 9, factors.LARGEST_FLAT_RISE)
    assert "the sink of 0" in factors.pilot_table({1: at_limit})


def test_a_gap_leaves_the_onset_unknown() -> None:
    log = make_log(SOFTMAX, 1, {0: 0.0, 200: 0.0, 600: 0.2})
    assert protocol.missing_step(log) == 400
    assert factors.list_onsets([log]) == "not measured"
    assert protocol.missing_step(make_log(SOFTMAX, 1, {0: 0.0, 200: 0.0, 400: 0.2})) is None
    assert protocol.missing_step(make_log(SOFTMAX, 1, {200: 0.0, 400: 0.1})) is None
    assert protocol.missing_step(protocol.empty_log(SOFTMAX, 1)) is None


def test_committed_logs_have_no_gaps() -> None:
    """One run was measured from its three remaining checkpoints, so its onset is unknown."""
    for recipe in (RUNS_BY_ID | protocol.decisive_runs()).values():
        for seed in recipe.seeds:
            log = protocol.read_log(recipe, seed)
            if (recipe.id, seed) != ("long-key-bias", 1):
                assert protocol.missing_step(log) is None, (recipe.id, seed)


def test_a_log_is_read_as_it_was_written(tmp_path: Path) -> None:
    log = make_log(SOFTMAX, 3, {0: 0.0, 200: 0.25})
    file = protocol.log_file(SOFTMAX, 3, tmp_path)
    protocol.write_log(log, file)
    assert file == tmp_path / "softmax" / "seeds" / "3.json"
    assert protocol.read_log(SOFTMAX, 3, tmp_path) == log
    assert not protocol.is_done(log) and protocol.is_done(log, 200) and not protocol.is_done(log, 400)
    assert protocol.read_log(SOFTMAX, 4, tmp_path)["points"] == []
    file.write_text(json.dumps(log | {"training": log["training"] | {"learning_rate": 1.0}}))
    with pytest.raises(ValueError, match="training is .*, expected"):
        protocol.read_log(SOFTMAX, 3, tmp_path)


def test_the_protocol_knows_every_recipe_once() -> None:
    assert list(RUNS_BY_ID)[:8] == [protocol.LONG_PREFIX + id for id in protocol.HEADLINE_RECIPES]
    for recipe in RUNS_BY_ID.values():
        assert recipe.baseline in RUNS_BY_ID and recipe.training.steps == protocol.STEPS
        assert len(recipe.seeds) == (5 if recipe.id[5:] in (*protocol.HEADLINE_RECIPES, "lr-1e-3") else 3)
        assert set(recipe.seeds) <= set(RUNS_BY_ID[recipe.baseline].seeds)
    assert set(RUNS_BY_ID[SOFTMAX.id].seeds) == {1, 2, 3, 4, 5}
