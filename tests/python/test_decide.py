"""Checks the intervals, rules and verdicts of protocol B on small synthetic logs."""

import dataclasses
import random
from pathlib import Path
from statistics import mean
from typing import Any

import pytest

from models.train import claims, decide, protocol
from models.train.factors import Difference
from models.train.recipe import Recipe, Training, recipes

RUNS = protocol.decisive_runs()
BASE, RECIPE = RUNS[protocol.B_BASELINE], RUNS["b-sigmoid-norm"]
POINTS = [step for step in protocol.MEASURED_STEPS if step <= protocol.B_STEPS]


def make_log(recipe: Recipe, seed: int, end: float, until: int = protocol.B_STEPS) -> dict[str, Any]:
    """Makes a log whose alpha rises linearly, with the mean `end` over the last steps."""
    log = protocol.empty_log(recipe, seed)
    log["points"] = [{"step": step, "alpha": end * step / mean(protocol.B_MEAN_STEPS),
                      "alpha_share": end * step / mean(protocol.B_MEAN_STEPS), "sink_0.3": 12.0,
                      "value_ratio": 0.5, "eviction": 0.1, "loss": 4.0}
                     for step in POINTS if step <= until]
    return log


def make_decision(ends: list[float], bases: list[float] | None = None, paper: dict[str, Any] | None = None,
             ) -> decide.Decision:
    bases = bases or [0.22, 0.26, 0.27, 0.31, 0.21, 0.25, 0.28, 0.23]
    recipe = dataclasses.replace(RECIPE, paper={} if paper is None else paper)
    return decide.Decision(recipe, {i + 1: make_log(recipe, i + 1, end) for i, end in enumerate(ends)},
                           {i + 1: make_log(BASE, i + 1, end) for i, end in enumerate(bases)})


def test_welch_gives_the_interval_of_scipy() -> None:
    """Means are 2 and 4, and variances 1 and 4 over 3 and 5 values: the squared error is 1/3 + 4/5, with 5.96 degrees
    of freedom. The interval is that of scipy 1.17."""
    a, b = [1.0, 2.0, 3.0], [2.0, 3.0, 3.0, 5.0, 7.0]
    result = decide.welch_difference(a, b, 0.95)
    assert result.mean == -2
    assert (result.low, result.high) == pytest.approx((-4.6093127, 0.6093127), abs=1e-6)


def test_the_interval_of_groups_with_equal_variance_equals_the_value_by_hand() -> None:
    """Both variances are 1 over 3 values: with four degrees of freedom, half of the interval is 2.7764 sqrt(2 / 3)."""
    result = decide.welch_difference([1.0, 2.0, 3.0], [2.0, 3.0, 4.0], 0.95)
    assert (result.low, result.high) == pytest.approx((-1 - 2.26696, -1 + 2.26696), abs=1e-4)


def test_intervals_cover_the_true_difference_at_their_level() -> None:
    """For random groups of 3 and 8 values, about 97.5% of the intervals contain the true difference."""
    draw = random.Random(1)
    inside_count = 0
    for _ in range(400):
        a = [draw.gauss(0.1, 0.045) for _ in range(3)]
        b = [draw.gauss(0.0, 0.045) for _ in range(8)]
        result = decide.welch_difference(a, b)
        inside_count += result.low < 0.1 < result.high
    assert 0.955 * 400 <= inside_count <= 0.995 * 400


@pytest.mark.parametrize(("ends", "paper", "verdict"), [
    ([0.01, 0.02, 0.0], {"says": "less"}, "agrees"),
    ([0.01, 0.02, 0.0], {"says": "more"}, "differs"),
    ([0.01, 0.02, 0.0], {"says": "the same"}, "differs"),
    ([0.01, 0.02, 0.0], {}, "less sink; the paper has no figure"),
    ([0.55, 0.6, 0.5], {"says": "more"}, "agrees"),
    ([0.55, 0.6, 0.5], {"says": "less"}, "differs"),
    ([0.2, 0.3, 0.26], {"says": "less"}, "undecided"),
    ([0.2, 0.3, 0.26], {}, "undecided; no figure"),
    ([0.25, 0.26, 0.255], {"says": "the same"}, "agrees"),
    ([0.1, 0.4, 0.26], {"says": "the same"}, "undecided"),
    ([0.2, 0.3], {"says": "less"}, "2 of 3 seeds"),
    ([0.005, 0.01], {"says": "less"}, "agrees"),
])
def test_a_verdict_follows_from_the_seeds_and_the_finding_of_the_paper(
        ends: list[float], paper: dict[str, Any], verdict: str) -> None:
    assert make_decision(ends, paper=paper).verdict == verdict


def test_no_verdict_without_all_seeds_of_the_baseline() -> None:
    assert make_decision([0.0, 0.01, 0.02], [0.3, 0.31, 0.32]).verdict == "3 of 3 seeds"


def test_two_seeds_decide_only_on_an_absent_sink() -> None:
    decision = make_decision([0.005, 0.01])
    assert decide.do_two_seeds_suffice(decision.logs) and decision.is_decidable
    for step, alpha, vanished in ((1800, 0.05, True), (2000, 0.05, False), (3000, 0.05, False),
                                  (2000, 0.02, False), (2000, 0.0199, True)):
        for name in ("alpha", "alpha_share"):
            decision = make_decision([0.005, 0.01])
            decision.logs[2]["points"][POINTS.index(step)][name] = alpha
            decision.logs[2]["points"].append({"step": 3200, "alpha": 0.9, "alpha_share": 0.9})
            assert decide.has_vanished(decision.logs) is vanished, (step, alpha)
            if not vanished:
                assert decision.verdict == "2 of 3 seeds"


def test_two_seeds_that_are_far_apart_need_a_third() -> None:
    """The interval of two seeds extends to each side by 25 times their deviation divided by sqrt(2)."""
    decision = make_decision([0.0, 0.012])
    assert decide.has_vanished(decision.logs) and not decide.do_two_seeds_suffice(decision.logs)
    assert decision.verdict == "2 of 3 seeds"
    assert not decide.do_two_seeds_suffice(make_decision([0.0, 0.0, 0.0]).logs)


def test_a_sink_exists_where_the_interval_is_at_or_above_the_bound() -> None:
    for low, high, verdict in ((0.1, 0.3, "agrees"), (0.099, 0.3, "undecided"),
                               (-0.099, 0.099, "differs"), (-0.05, 0.1, "undecided"),
                               (-0.1, 0.05, "undecided"), (-0.3, 0.3, "undecided")):
        assert decide.judge_existence(Difference((low + high) / 2, low, high)) == verdict, (low, high)


def test_a_sink_is_absent_only_if_raw_weights_and_shares_agree_in_every_seed() -> None:
    zero_interval, wide_interval, sink_interval = (Difference(0.0, low, high) for low, high in (
        (-0.09, 0.09), (-0.05, 0.2), (0.1, 0.3)))
    assert decide.judge_absence([zero_interval, zero_interval], [0.01, 0.09]) == "agrees"
    assert decide.judge_absence([zero_interval, zero_interval], [0.01, 0.1]) == "undecided"
    assert decide.judge_absence([zero_interval, zero_interval], [-0.1, 0.01]) == "undecided"
    assert decide.judge_absence([zero_interval, wide_interval], [0.01, 0.09]) == "undecided"
    # Small row sums hide a sink in raw weights; one of the two intervals suffices to show a sink.
    assert decide.judge_absence([zero_interval, sink_interval], [0.01, 0.2]) == "differs"
    assert decide.judge_absence([sink_interval, zero_interval], [0.01, 0.2]) == "differs"


def test_one_level_cannot_count_as_both_existence_and_absence() -> None:
    for low, high in ((-0.2, 0.3), (0.0, 0.05), (0.1, 0.2), (0.05, 0.15), (-0.3, -0.2)):
        result = Difference((low + high) / 2, low, high)
        verdicts = decide.judge_existence(result), decide.judge_absence([result], [result.mean])
        assert verdicts != ("agrees", "agrees") and verdicts != ("differs", "differs")


def test_an_outcome_is_the_mean_over_four_measured_steps() -> None:
    log = make_log(RECIPE, 1, 0.2)
    for step, loss in zip(protocol.B_MEAN_STEPS, (1.0, 2.0, 3.0, 6.0)):
        log["points"][POINTS.index(step)]["loss"] = loss
    assert decide.mean_outcomes({1: log}, "loss") == [3.0]
    log["points"][POINTS.index(2600)]["loss"] = None
    assert decide.mean_outcomes({1: log}, "loss") == []


def test_p_values_are_corrected_by_benjamini_and_hochberg() -> None:
    """In the example of Benjamini and Hochberg's paper, with 15 p-values, four survive: the largest i with
    p_i <= 0.05 i / n is 4."""
    p = [0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262, 0.5719,
         0.6528, 0.7590, 1.0]
    shuffled_p = random.Random(1).sample(p, len(p))
    result = decide.survive_correction([Difference(0.0, 0.0, 0.0, p_value) for p_value in shuffled_p])
    assert result == [p_value <= 0.0095 for p_value in shuffled_p]
    assert decide.survive_correction([]) == []
    assert decide.survive_correction([Difference(0.0, 0.0, 0.0, decide.FALSE_DISCOVERY_RATE)]) == [True]


def test_one_seed_has_no_interval() -> None:
    one_seed, one_baseline_seed = make_decision([0.3]), make_decision([0.3, 0.2], [0.25])
    assert one_seed.difference("alpha") is one_baseline_seed.difference("alpha") is None
    assert one_baseline_seed.difference("value_ratio") is None
    words = decide.describe_baseline(one_baseline_seed.baseline_logs)
    assert words.startswith("Baseline: 1 of 8 seeds. ; alpha by seed 0.250;")


@pytest.mark.parametrize(("ends", "needs"), [
    ([0.01, 0.02, 0.0], False),  # a direction is decided
    ([0.25, 0.26, 0.255], False),  # an effect of 0.1 is excluded
    ([0.1, 0.4, 0.26], True),  # neither 0 nor an effect of 0.1 is excluded
    ([0.1, 0.4, 0.26, 0.15, 0.35], False),  # there is no third look
    ([0.1, 0.4], False)])
def test_only_undecided_comparisons_get_a_second_look(ends: list[float], needs: bool) -> None:
    assert make_decision(ends).needs_second_look is needs


@pytest.mark.parametrize(("low", "high", "verdict"), [
    (-0.0999, 0.0999, "agrees"), (-0.1, 0.05, "undecided"), (-0.05, 0.1, "undecided"),
    (-0.05, 0.0, "agrees"), (0.0, 0.05, "agrees"), (-0.05, -0.01, "differs"), (0.01, 0.05, "differs")])
def test_no_effect_is_an_interval_inside_the_smallest_effect(
        low: float, high: float, verdict: str) -> None:
    """An effect of exactly 0.1 counts, and an interval that ends at 0 contains 0."""
    result = Difference((low + high) / 2, low, high)
    assert decide.judge(result, "the same") == verdict
    assert decide.is_undecided(result) is (verdict == "undecided")
    loss_verdict = decide.judge(result, "the same", "loss")
    assert loss_verdict == ("differs" if verdict == "differs" else "undecided")


@pytest.mark.parametrize(("ends", "left"), [([0.1, 0.4, 0.26], 2), ([0.1, 0.4, 0.26, 0.15, 0.35], 0)])
def test_a_claim_waits_for_the_second_look(ends: list[float], left: int, monkeypatch: pytest.MonkeyPatch) -> None:
    decision = make_decision(ends)
    monkeypatch.setattr(claims, "runs_b", lambda: {
        "sigmoid-norm": (RECIPE, decision.logs), "softmax": (BASE, decision.baseline_logs)})
    assert claims.build_effect({"recipe": "sigmoid-norm", "says": "less"}).missing_runs == left


def test_a_second_look_counts_only_with_all_of_its_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    """If a fourth seed counted alone, the second look could end as soon as this seed decides."""
    logs = {seed: make_log(RECIPE, seed, 0.1) for seed in (1, 2, 3, 4)}
    monkeypatch.setattr(protocol, "read_log", lambda recipe, seed: logs.get(
        seed, protocol.empty_log(recipe, seed)))
    assert list(decide.logs_of(RECIPE)) == [1, 2, 3]
    logs[5] = make_log(RECIPE, 5, 0.1)
    assert list(decide.logs_of(RECIPE)) == [1, 2, 3, 4, 5]


def test_only_recipes_with_a_claim_have_a_second_look() -> None:
    assert protocol.has_second_look("sigmoid-norm")
    for id in ("small", "decay-0.3", "key-bias+decay-small"):
        assert not protocol.has_second_look(id)


def test_a_log_with_a_gap_is_rejected() -> None:
    log = make_log(RECIPE, 1, 0.2)
    assert decide.is_complete(log) and not decide.is_complete(make_log(RECIPE, 1, 0.2, 2800))
    del log["points"][3]
    with pytest.raises(ValueError, match="b-sigmoid-norm, seed 1: step 600 is missing"):
        decide.is_complete(log)


def test_points_of_protocol_a_after_the_last_step_of_protocol_b_do_not_count() -> None:
    log = make_log(BASE, 1, 0.2)
    log["points"].append({"step": 3200, "alpha": 0.9, "value_ratio": 1.0, "eviction": 0.0, "loss": 1.0})
    assert decide.mean_outcomes({1: log}, "alpha") == [pytest.approx(0.2)]
    assert decide.describe_onsets({1: log}) == "1,400"
    assert decide.onset_interval({1: log}) == "in 1 of 1 seeds before step 3,000"
    low = make_log(BASE, 1, 0.05)
    low["points"].append({"step": 3200, "alpha": 0.9, "value_ratio": 1.0, "eviction": 0.0, "loss": 1.0})
    assert decide.describe_onsets({1: low}) == "never"


def test_an_onset_has_an_interval_only_if_every_seed_has_an_onset() -> None:
    def make_onset_log(onset: int) -> dict[str, Any]:
        return {"points": [{"step": step, "alpha": 0.2 if step >= onset else 0.0} for step in protocol.MEASURED_STEPS]}

    # The mean is 1,600 and the deviation 200; Student's t has the quantile 6.2053 at 98.75% and two degrees of freedom.
    assert decide.onset_interval({1: make_onset_log(1400), 2: make_onset_log(1600), 3: make_onset_log(1800)}) == (
        "step 1,600 (883 to 2,317, 3 seeds)")
    assert decide.onset_interval({1: make_onset_log(1400), 2: make_onset_log(1600)}).startswith("step 1,500 (")
    assert decide.onset_interval({1: make_onset_log(1400), 2: make_onset_log(3200)}) == (
        "in 1 of 2 seeds before step 3,000")


def test_protocol_b_has_every_recipe_once_with_the_rate_and_steps_of_the_protocol() -> None:
    recipes_by_id = recipes()
    order = protocol.B_ORDER
    assert len(set(order)) == len(order)
    assert {id for name in order for id in name.split("+")} <= set(recipes_by_id)
    assert next(iter(RUNS)) == protocol.B_BASELINE and BASE.seeds == protocol.B_BASELINE_SEEDS
    default = Training()
    for id, recipe in zip(order, RUNS.values()):
        rate = recipes_by_id[id.split("+")[0]].training.learning_rate
        keeps_rate = rate != default.learning_rate or id in protocol.B_OWN_RATES
        expected = rate if keeps_rate else protocol.B_RATE
        assert recipe.training.learning_rate == expected, id
        assert recipe.training.steps == protocol.STEPS, id
        assert recipe.training.decay_steps[0] > protocol.B_STEPS, id


def test_runs_that_two_protocols_share_have_equal_recipes() -> None:
    """Protocol B reads a log of protocol A only if it would train the same model in the same way."""
    recipes_by_id = recipes()
    for id, run_id in protocol.B_RUNS_OF_A.items():
        expected, result = protocol.decisive_recipe(recipes_by_id[id]), protocol.runs()[run_id]
        assert (expected.config, expected.training) == (result.config, result.training)
        assert expected.sink_tokens == result.sink_tokens


def test_the_table_has_every_recipe_with_a_run_and_names_the_others() -> None:
    decision = make_decision([0.01, 0.02, 0.0], paper={"says": "less"})
    empty_decision = decide.Decision(RUNS["b-relu"], {}, decision.baseline_logs)
    text = decide.decisions_table([decision, empty_decision])
    row = next(line for line in text.splitlines() if line.startswith("| `sigmoid-norm`"))
    middle = mean([0.01, 0.02, 0.0]) - mean([0.22, 0.26, 0.27, 0.31, 0.21, 0.25, 0.28, 0.23])
    levels = "0.010, 0.020, 0.000"
    sinks = "12%, 12%, 12%"
    assert row.startswith(f"| `sigmoid-norm` | 3 | {levels} | {levels} | {sinks} | {middle:+.3f} (")
    assert row.endswith("| never, never, never | less | agrees | undecided; a second look is due |")
    two_seed_table = decide.decisions_table([make_decision([0.005, 0.01], paper={"says": "less"})])
    assert "| less | agrees, on two seeds | undecided" in two_seed_table
    assert text.endswith("No whole run yet: `relu`.")
    assert "Baseline: 8 of 8 seeds. alpha 0.254 (deviation 0.033)" in text


def test_recipes_of_a_fixed_token_are_compared_with_no_bos() -> None:
    """`no-bos`, the baseline here, counts with three seeds, or with two that suffice."""
    recipe = RUNS["b-fixed-first"]
    assert recipe.baseline == "b-no-bos" and decide.name_of(recipe) == "`fixed-first` against `no-bos`"
    others = {id for id, run in RUNS.items() if "+" not in id
              and run.baseline not in (protocol.B_BASELINE, BASE.baseline)}
    assert others == {f"b-{id}" for id in protocol.B_OTHER_BASELINES}
    logs = {seed: make_log(recipe, seed, 0.3 + seed / 100) for seed in (1, 2, 3)}

    def make_baseline_logs(*ends: float) -> decide.Logs:
        return {i + 1: make_log(RUNS["b-no-bos"], i + 1, end) for i, end in enumerate(ends)}

    assert decide.Decision(recipe, logs, make_baseline_logs(0.1, 0.2, 0.3)).is_decidable
    assert not decide.Decision(recipe, logs, make_baseline_logs(0.1, 0.2)).is_decidable
    assert decide.Decision(recipe, logs, make_baseline_logs(0.01, 0.015)).is_decidable
    decision = decide.Decision(recipe, logs, make_baseline_logs(0.01, 0.015))
    assert decision.difference("alpha").mean == pytest.approx(0.3075)


def test_a_log_from_before_an_option_has_its_default(tmp_path: Path) -> None:
    recipe = RUNS["b-relu"]
    log, file = make_log(recipe, 1, 0.2), protocol.log_file(recipe, 1, tmp_path)
    del log["training"]["batch"], log["training"]["optimizer"]
    protocol.write_log(log, file)
    assert protocol.read_log(recipe, 1, tmp_path)["training"] == protocol.training_options(recipe.training)
    other = dataclasses.replace(recipe, training=dataclasses.replace(recipe.training, optimizer="sgd"))
    with pytest.raises(ValueError, match="training is"):
        protocol.read_log(other, 1, tmp_path)


def test_every_log_of_the_baseline_counts_and_a_second_look_counts_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    def read_until(count: int) -> None:
        monkeypatch.setattr(protocol, "read_log", lambda recipe, seed: make_log(
            recipe, seed, 0.2, 0 if seed > count else protocol.B_STEPS))

    for count, first_look in ((3, 3), (4, 3), (5, 5)):
        read_until(count)
        assert [len(decide.logs_of(recipe)) for recipe in (BASE, RECIPE)] == [count, first_look]
