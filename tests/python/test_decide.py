"""Checks the intervals, rules and verdicts of protocol B on small synthetic logs."""

import dataclasses
import itertools
import random
from pathlib import Path
from statistics import mean
from typing import Any

import pytest
import torch
from logs import log_of
from sentences import check_sentence, refused

from models.reference.operations import Parameters
from models.train import claims, decide, protocol
from models.train.factors import Difference, mean_difference
from models.train.recipe import Recipe, Training, recipes

RUNS = protocol.decisive_runs()
BASE, RECIPE = RUNS[protocol.B_BASELINE], RUNS["b-sigmoid-norm"]
POINTS = [step for step in protocol.MEASURED_STEPS if step <= protocol.B_STEPS]


def make_log(recipe: Recipe, seed: int, end: float, until: int = protocol.B_STEPS) -> dict[str, Any]:
    """Makes a log whose alpha rises linearly, with the mean `end` over the last steps."""
    alphas = {step: end * step / mean(protocol.B_MEAN_STEPS) for step in POINTS if step <= until}
    return log_of(recipe, seed, alphas, **dict.fromkeys(decide.SINK_OUTCOMES, 100 * end))


def make_decision(
    ends: list[float],
    bases: list[float] | None = None,
    paper: dict[str, Any] | None = None,
) -> decide.Decision:
    bases = bases or [0.22, 0.26, 0.27, 0.31, 0.21, 0.25, 0.28, 0.23]
    recipe = dataclasses.replace(RECIPE, paper={} if paper is None else paper)
    return decide.Decision(
        recipe,
        {i + 1: make_log(recipe, i + 1, end) for i, end in enumerate(ends)},
        {i + 1: make_log(BASE, i + 1, end) for i, end in enumerate(bases)},
    )


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


@pytest.mark.parametrize(
    ("ends", "paper", "verdict"),
    [
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
        # Half of the baseline, 0.127, is the margin: -0.095 with an interval up to -0.05 is neither inside nor outside.
        ([0.15, 0.16, 0.17], {"says": "the same"}, "undecided"),
        ([0.2, 0.3], {"says": "less"}, "2 of 3 seeds"),
        ([0.005, 0.01], {"says": "less"}, "agrees"),
    ],
)
def test_a_verdict_follows_from_the_seeds_and_the_finding_of_the_paper(
    ends: list[float], paper: dict[str, Any], verdict: str
) -> None:
    assert make_decision(ends, paper=paper).verdict == verdict


def test_no_verdict_without_all_seeds_of_the_baseline() -> None:
    assert make_decision([0.0, 0.01, 0.02], [0.3, 0.31, 0.32]).verdict == "3 of 3 seeds"


def test_two_seeds_decide_only_on_an_absent_sink() -> None:
    decision = make_decision([0.005, 0.01])
    assert decide.do_two_seeds_suffice(RECIPE, decision.logs) and decision.is_decidable
    for step, alpha, vanished in (
        (1800, 0.05, True),
        (2000, 0.05, False),
        (3000, 0.05, False),
        (2000, 0.02, False),
        (2000, 0.0199, True),
    ):
        for name in ("alpha", "alpha_share"):
            decision = make_decision([0.005, 0.01])
            decision.logs[2]["points"][POINTS.index(step)][name] = alpha
            decision.logs[2]["points"].append({"step": 3200, "alpha": 0.9, "alpha_share": 0.9, "row_mass": 1.0})
            assert decide.has_vanished(decision.logs) is vanished, (step, alpha)
            if not vanished:
                assert decision.verdict == "2 of 3 seeds"


def test_two_seeds_that_are_far_apart_need_a_third() -> None:
    """The interval of two seeds extends to each side by 25 times their deviation divided by sqrt(2)."""
    decision = make_decision([0.0, 0.012])
    assert decide.has_vanished(decision.logs) and not decide.do_two_seeds_suffice(RECIPE, decision.logs)
    assert decision.verdict == "2 of 3 seeds"
    assert not decide.do_two_seeds_suffice(RECIPE, make_decision([0.0, 0.0, 0.0]).logs)


PRESENT, ABSENT, OPEN = Difference(0.2, 0.1, 0.3), Difference(0.0, -0.099, 0.099), Difference(0.05, -0.05, 0.15)


@pytest.mark.parametrize(
    ("levels", "existence", "absence"),
    [
        ([PRESENT, PRESENT], "agrees", "differs"),
        ([ABSENT, ABSENT], "differs", "agrees"),
        ([PRESENT, OPEN], "undecided", "undecided"),
        ([OPEN, ABSENT], "undecided", "undecided"),
        ([PRESENT, ABSENT], decide.DEPENDS, decide.DEPENDS),
        ([ABSENT, PRESENT], decide.DEPENDS, decide.DEPENDS),
        ([Difference(0.05, 0.0, 0.1)], "undecided", "undecided"),
        ([Difference(0.2, 0.0999, 0.3)], "undecided", "undecided"),
        ([Difference(-0.15, -0.2, -0.1)], "undecided", "undecided"),
    ],
)
def test_existence_and_absence_are_one_rule(levels: list[Difference], existence: str, absence: str) -> None:
    assert decide.judge_level(levels, "existence") == existence
    assert decide.judge_level(levels, "absence") == absence


def test_a_level_is_above_step_0_and_relative_to_the_row_sum() -> None:
    """Alpha ends at 0.02 in rows that sum to 0.1 and began at 0.05 in rows that summed to 0.5: 0.2 - 0.1."""
    log = make_log(RUNS["b-relu"], 1, 0.02)
    for point in log["points"]:
        point |= {"alpha": 0.02, "row_mass": 0.1, "alpha_share": 0.3}
    log["points"][0] |= {"alpha": 0.05, "row_mass": 0.5, "alpha_share": 0.25}
    weights, shares = decide.seed_levels(RUNS["b-relu"], {1: log})
    assert weights == [pytest.approx(0.1)] and shares == [pytest.approx(0.05)]
    # Of scores themselves, which have signs, the row sum is no scale.
    assert decide.seed_levels(RUNS["b-identity"], {1: log}) == ([pytest.approx(0.05)],) * 2


def test_operations_with_signs_are_those_of_the_reference() -> None:
    """These operations' shares take absolute values; a negative score has a negative weight."""
    from models.reference.operations import OPERATIONS

    x, visible = torch.tensor([[[-2.0, 1.0]]]), torch.ones(1, 2, dtype=torch.bool)
    for id, operation in OPERATIONS.items():
        if operation.features != "elu1":  # its features are positive, whatever the score here
            weights = operation.weights(x, visible, Parameters(operation.defaults, torch.zeros(1)))
            assert bool((weights < 0).any()) == (id in decide.SIGNED_OPERATIONS), id


def test_five_seeds_of_the_baseline_pass_as_a_sink_and_as_the_same() -> None:
    """The margins of the third version of the rules are chosen so; models/README.md states the counts."""
    recipe, logs = claims.runs_b()["softmax"]
    levels, _ = decide.seed_levels(recipe, logs)
    passes = {
        n: [
            decide.judge_level([mean_difference(list(group), 0, decide.CONFIDENCE)], "existence") == "agrees"
            for group in itertools.combinations(levels, n)
        ]
        for n in (3, 5)
    }
    assert (sum(passes[3]), len(passes[3])) == (9, 56) and all(passes[5]) and len(passes[5]) == 56


@pytest.mark.parametrize(
    ("sink", "verdict"),
    [
        (Difference(-30, -50, -10), "agrees"),
        (Difference(-3, -30, 20), "agrees"),
        (Difference(30, 10, 50), decide.DEPENDS),
    ],
)
def test_a_verdict_that_sink_k_turns_round_depends_on_the_outcome(sink: Difference, verdict: str) -> None:
    same = Difference(0, -1, 1)
    change = Difference(-0.2, -0.3, -0.1)
    assert decide.judge_with_sinks(change, [(same, 5.0), (sink, 5.0)], "less", 0.05) == verdict
    assert decide.judge_with_sinks(Difference(0, -0.3, 0.3), [(sink, 5.0)], "less", 0.05) == "undecided"


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
    first = [0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344]
    p = [*first, 0.0459, 0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1.0]
    shuffled_p = random.Random(1).sample(p, len(p))
    result = decide.survive_correction([Difference(0.0, 0.0, 0.0, p_value) for p_value in shuffled_p])
    assert result == [p_value <= 0.0095 for p_value in shuffled_p]
    assert decide.survive_correction([]) == []
    assert decide.survive_correction([Difference(0.0, 0.0, 0.0, decide.FALSE_DISCOVERY_RATE)]) == [True]


def test_one_seed_has_no_interval() -> None:
    one_seed, one_baseline_seed = make_decision([0.3]), make_decision([0.3, 0.2], [0.25])
    assert one_seed.difference("alpha") is one_baseline_seed.difference("alpha") is None
    assert one_baseline_seed.difference("value_ratio") is None
    check_sentence(decide.describe_baseline(one_baseline_seed.baseline_logs), Path(__file__))


@pytest.mark.parametrize(
    ("id", "ends", "says", "needs"),
    [
        ("b-sink-logit", [0.01, 0.02, 0.0], "less", False),  # a direction is decided
        ("b-sink-logit", [0.25, 0.26, 0.255], "less", False),  # an effect of 0.1 is excluded
        ("b-sink-logit", [0.1, 0.4, 0.26], "less", True),  # neither 0 nor an effect of 0.1 is excluded
        ("b-sink-logit", [0.1, 0.4, 0.26, 0.15, 0.35], "less", False),  # there is no third look
        ("b-sink-logit", [0.1, 0.4], "less", False),
        ("b-sink-logit", [0.15, 0.16, 0.17], "less", False),
        ("b-sink-logit", [0.15, 0.16, 0.17], "the same", True),  # a decided direction leaves open whether half is lost
        ("b-softmax1", [0.07, 0.09, 0.11], "less", True),  # a claim says that it has no sink, and its level is open
        ("b-decay-0.3", [0.1, 0.4, 0.26], "less", False),
    ],
)  # no claim rests on it
def test_only_what_is_open_gets_a_second_look(id: str, ends: list[float], says: str, needs: bool) -> None:
    decision = make_decision(ends, paper={"says": says})
    recipe = dataclasses.replace(RUNS[id], paper={"says": says})
    assert dataclasses.replace(decision, recipe=recipe).needs_second_look is needs


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (-0.079, 0.079, "agrees"),
        (-0.08, 0.05, "undecided"),
        (-0.05, 0.08, "undecided"),
        (-0.07, -0.01, "agrees"),
        (-0.12, -0.08, "differs"),
        (-0.12, -0.079, "undecided"),
        (0.08, 0.12, "differs"),
        (0.01, 0.05, "agrees"),
    ],
)
def test_the_same_has_one_margin_for_both_verdicts(low: float, high: float, verdict: str) -> None:
    assert decide.judge(Difference((low + high) / 2, low, high), "the same", 0.08) == verdict
    assert decide.judge(Difference(0, 0, 0), "the same", 0) == "agrees"  # two recipes of zeros


@pytest.mark.parametrize(("ends", "left"), [([0.1, 0.4, 0.26], 2), ([0.1, 0.4, 0.26, 0.15, 0.35], 0)])
def test_a_claim_waits_for_the_second_look(ends: list[float], left: int, monkeypatch: pytest.MonkeyPatch) -> None:
    decision = make_decision(ends)
    monkeypatch.setattr(
        claims, "runs_b", lambda: {"sigmoid-norm": (RECIPE, decision.logs), "softmax": (BASE, decision.baseline_logs)}
    )
    assert claims.build_effect({"recipe": "sigmoid-norm", "says": "less"}).missing_runs == left


def test_a_second_look_counts_only_with_all_of_its_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    """If a fourth seed counted alone, the second look could end as soon as this seed decides."""
    logs = {seed: make_log(RECIPE, seed, 0.1) for seed in (1, 2, 3, 4)}
    monkeypatch.setattr(protocol, "read_log", lambda recipe, seed: logs.get(seed, protocol.empty_log(recipe, seed)))
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
    with refused(ValueError):
        decide.is_complete(log)


def test_points_of_protocol_a_after_the_last_step_of_protocol_b_do_not_count() -> None:
    log = make_log(BASE, 1, 0.2)
    log["points"].append({"step": 3200, "alpha": 0.9, "value_ratio": 1.0, "eviction": 0.0, "loss": 1.0})
    assert decide.mean_outcomes({1: log}, "alpha") == [pytest.approx(0.2)]
    assert decide.describe_onsets({1: log}) == "1,400"
    check_sentence(decide.onset_interval({1: log}), Path(__file__))
    low = make_log(BASE, 1, 0.05)
    low["points"].append({"step": 3200, "alpha": 0.9, "value_ratio": 1.0, "eviction": 0.0, "loss": 1.0})
    assert decide.describe_onsets({1: low}) == "never"


def test_an_onset_has_an_interval_only_if_every_seed_has_an_onset() -> None:
    def make_onset_log(onset: int) -> dict[str, Any]:
        return {"points": [{"step": step, "alpha": 0.2 if step >= onset else 0.0} for step in protocol.MEASURED_STEPS]}

    # The mean is 1,600 and the deviation 200; Student's t has the quantile 6.2053 at 98.75% and two degrees of freedom.
    assert decide.onset_interval({1: make_onset_log(1400), 2: make_onset_log(1600), 3: make_onset_log(1800)}) == (
        "step 1,600 (883 to 2,317, 3 seeds)"
    )
    assert decide.onset_interval({1: make_onset_log(1400), 2: make_onset_log(1600)}).startswith("step 1,500 (")
    check_sentence(decide.onset_interval({1: make_onset_log(1400), 2: make_onset_log(3200)}), Path(__file__))


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
    sinks = "1%, 2%, 0%"
    assert row.startswith(f"| `sigmoid-norm` | 3 | {levels} | {levels} | {sinks} | {middle:+.3f} (")
    change = decision.difference("sink_0.3")
    points = f"{change.mean:+.0f} ({change.low:+.0f} to {change.high:+.0f})"
    assert f"| {points}; {points}; {points} |" in row
    assert row.endswith("| never, never, never | less | agrees |")
    two_seed_table = decide.decisions_table([make_decision([0.005, 0.01], paper={"says": "less"})])
    assert "agrees, on two seeds |" in two_seed_table
    check_sentence(text.splitlines()[-1], Path(__file__))
    assert "Baseline: 8 of 8 seeds. alpha 0.254 (deviation 0.033)" in text


def test_recipes_of_a_fixed_token_are_compared_with_no_bos() -> None:
    """`no-bos`, the baseline here, counts with three seeds, or with two that suffice."""
    recipe = RUNS["b-fixed-first"]
    assert recipe.baseline == "b-no-bos" and decide.name_of(recipe) == "`fixed-first` against `no-bos`"
    others = {
        id for id, run in RUNS.items() if "+" not in id and run.baseline not in (protocol.B_BASELINE, BASE.baseline)
    }
    assert set(protocol.B_OTHER_BASELINES.values()) == {"no-bos", "diffusion"}
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
        monkeypatch.setattr(
            protocol,
            "read_log",
            lambda recipe, seed: make_log(recipe, seed, 0.2, 0 if seed > count else protocol.B_STEPS),
        )

    for count, first_look in ((3, 3), (4, 3), (5, 5)):
        read_until(count)
        assert [len(decide.logs_of(recipe)) for recipe in (BASE, RECIPE)] == [count, first_look]
