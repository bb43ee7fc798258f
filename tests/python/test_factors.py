"""Checks intervals, onsets and the logs of the protocols, on small synthetic logs and on the committed ones."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
from logs import log_of
from sentences import check_sentence

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
