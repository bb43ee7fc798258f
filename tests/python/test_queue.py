"""Checks the queue of protocol B: which seeds are due by the logs, their order, and the remaining work."""

import json
from pathlib import Path
from typing import Any

import pytest
from logs import log_of
from sentences import check_sentence, refused

from models.reference.model import architecture
from models.reference.shapes import shapes
from models.train import decide, protocol, queue, train
from models.train.recipe import Recipe, combine_recipes, recipes

RUNS = protocol.decisive_runs()
BASE = RUNS[protocol.B_BASELINE]
BASELINE_ALPHAS = (0.16, 0.18, 0.2, 0.17, 0.15, 0.19, 0.18, 0.17)
Logs = dict[tuple[str, int], dict[str, Any]]


def make_log(
    recipe: Recipe, seed: int, alpha: float, share: float | None = None, until: int = protocol.B_STEPS
) -> dict[str, Any]:
    log = log_of(recipe, seed, {step: alpha if step else 0.0 for step in protocol.MEASURED_STEPS if step <= until})
    for point in log["points"][1:] if share is not None else []:
        point["alpha_share"] = share
    return log


@pytest.fixture
def logs(monkeypatch: pytest.MonkeyPatch) -> Logs:
    result = {(BASE.id, seed): make_log(BASE, seed, alpha) for seed, alpha in enumerate(BASELINE_ALPHAS, 1)}
    monkeypatch.setattr(
        protocol, "read_log", lambda recipe, seed: result.get((recipe.id, seed), protocol.empty_log(recipe, seed))
    )
    return result


def due_seeds(id: str, logs: Logs, *alphas: float, share: float | None = None) -> tuple[int, ...]:
    for seed, alpha in enumerate(alphas, 1):
        logs[id, seed] = make_log(RUNS[id], seed, alpha, share)
    return queue.due_seeds(RUNS[id], RUNS)


def test_two_seeds_run_first_and_their_logs_decide_whether_more_are_due(logs: Logs) -> None:
    assert due_seeds("b-relu", logs) == (1, 2)
    assert due_seeds("b-relu", logs, 0.0) == (2,)
    assert due_seeds("b-relu", logs, 0.0, 0.005) == ()
    assert due_seeds("b-relu", logs, 0.015, 0.02) == (3,)
    assert due_seeds("b-relu", logs, 0.0, 0.015) == (3,)  # the values of the two seeds are far apart
    # Rows with small sums have a small alpha by raw weights, whatever they attend to.
    assert due_seeds("b-relu", logs, 0.0, 0.005, share=0.03) == (3,)
    assert due_seeds("b-relu", logs, 0.0, 0.01, 0.02) == ()  # an effect that is not zero
    assert due_seeds("b-relu", logs, 0.0, 0.3, 0.15) == (4, 5)
    assert due_seeds("b-small", logs, 0.0, 0.3, 0.15) == ()  # no claim rests on this recipe, so it has no second look
    # The fourth seed makes the interval narrow enough to decide, but the second look continues.
    assert due_seeds("b-relu", logs, 0.0, 0.3, 0.15, 0.15) == (5,)
    assert due_seeds("b-relu", logs, 0.0, 0.3, 0.15, 0.1, 0.2) == ()
    for seed in (4, 5):
        del logs["b-relu", seed]
    assert due_seeds("b-relu", logs, 0.17, 0.18, 0.17) == ()  # no effect as large as 0.1


def test_a_sink_that_appears_late_or_disappears_early_decides(logs: Logs) -> None:
    due_seeds("b-relu", logs, 0.0, 0.0)
    points = {point["step"]: point for point in logs["b-relu", 2]["points"]}
    points[1800]["alpha"] = 0.3
    assert queue.due_seeds(RUNS["b-relu"], RUNS) == ()
    points[2000]["alpha"] = 0.3
    assert queue.due_seeds(RUNS["b-relu"], RUNS) == (3,)


def test_a_second_look_waits_for_the_baseline(logs: Logs) -> None:
    assert due_seeds("b-fixed-first", logs, 0.0, 0.3, 0.15) == ()
    due_seeds("b-no-bos", logs, 0.0, 0.0)
    assert due_seeds("b-fixed-first", logs) == (4, 5)


def test_the_baseline_has_all_its_seeds(logs: Logs) -> None:
    assert queue.due_seeds(BASE, RUNS) == ()
    del logs[BASE.id, 7]
    assert queue.due_seeds(BASE, RUNS) == (7,)


def test_a_log_that_ends_early_is_due_again_and_a_longer_one_is_complete(logs: Logs) -> None:
    logs["b-relu", 1] = make_log(RUNS["b-relu"], 1, 0.0, until=2800)
    logs["b-relu", 2] = make_log(RUNS["b-relu"], 2, 0.0, until=4000)
    assert queue.due_seeds(RUNS["b-relu"], RUNS) == (1,)
    assert queue.steps_left(RUNS["b-relu"], 1) == 200
    del logs["b-relu", 2]["points"][3]
    with refused(ValueError):
        queue.due_seeds(RUNS["b-relu"], RUNS)


def test_jobs_are_listed_in_the_order_of_the_protocol(logs: Logs) -> None:
    result = [(number, recipe.id, seed) for number, recipe, seed in queue.due_jobs([])]
    assert result[:4] == [
        (0, "long-sigmoid-lr-1e-3", 1),
        (0, "long-sigmoid-lr-1e-3", 2),
        (1, "b-no-bos", 1),
        (1, "b-no-bos", 2),
    ]
    assert [number for number, _, _ in result] == sorted(number for number, _, _ in result)
    assert len({id for _, id, _ in result}) == len(protocol.B_ORDER) - 1
    assert [(recipe.id, seed) for _, recipe, seed in queue.due_jobs(["b-relu"])] == [("b-relu", 1), ("b-relu", 2)]


def test_the_queue_trains_the_seeds_that_are_due(
    logs: Logs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    """A recipe whose sink vanishes gets two runs, other recipes three or five. The queue skips failed runs and runs
    that another process trains, and then ends."""
    ids = ["b-relu", "b-softpick", "b-elu1", "b-gated"]
    alphas = {"b-relu": (0.0,) * 5, "b-softpick": (0.0, 0.3, 0.15, 0.1, 0.2), "b-elu1": (0.17,) * 5}
    calls = []

    def fake_train(id: str, seed: int, corpora: Path, runs: Path, *options: str) -> int:
        calls.append((id, seed))
        assert options == ("--until", "3000")
        if id == "b-gated":
            return 1
        logs[id, seed] = make_log(RUNS[id], seed, alphas[id][seed - 1])
        (runs / f"{id}-{seed}").mkdir()
        for step in (2800, 3000):
            (runs / f"{id}-{seed}" / f"step-{step}.safetensors").touch()
        return 0

    monkeypatch.setattr(queue, "train", fake_train)
    (tmp_path / "b-gated-2").mkdir()
    with train._lock_folder(tmp_path / "b-gated-2"):
        assert train.is_training(tmp_path / "b-gated-2")
        assert queue.train_jobs(Path("texts"), tmp_path, 2, ids) == [("b-gated", 1)]
    assert not train.is_training(tmp_path / "b-gated-2")
    assert not [warning for warning in recwarn if warning.category is ResourceWarning]
    assert sorted(calls) == sorted(
        [
            ("b-gated", 1),
            *(("b-elu1", seed) for seed in (1, 2, 3)),
            *(("b-softpick", seed) for seed in (1, 2, 3, 4, 5)),
            ("b-relu", 1),
            ("b-relu", 2),
        ]
    )
    assert [file.name for file in (tmp_path / "b-relu-1").iterdir()] == ["step-3000.safetensors"]
    lines = [json.loads(line) for line in (tmp_path / "seconds.jsonl").read_text().splitlines()]
    assert {(line["recipe"], line["seed"]) for line in lines} == set(calls) - {("b-gated", 1)}
    assert {line["steps"] for line in lines} == {3000}


@pytest.mark.parametrize(
    ("code", "remaining_steps", "is_timed"), [(0, [3000, 0], True), (1, [3000, 200], False), (0, [0, 0], False)]
)
def test_the_duration_is_recorded_only_for_a_run_that_trained_and_succeeded(
    code: int, remaining_steps: list[int], is_timed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue, "train", lambda *_: code)
    monkeypatch.setattr(queue, "steps_left", lambda *_: remaining_steps.pop(0))
    assert queue.train_run(next(iter(protocol.decisive_runs().values())), 1, tmp_path, tmp_path) == code
    assert (tmp_path / "seconds.jsonl").exists() is is_timed


def test_the_recorded_duration_is_the_time_between_start_and_end_of_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, remaining_steps = iter([1000.0, 1090.4]), [3000, 0]
    monkeypatch.setattr(queue, "train", lambda *_: 0)
    monkeypatch.setattr(queue, "steps_left", lambda *_: remaining_steps.pop(0))
    monkeypatch.setattr(queue.time, "monotonic", lambda: next(clock))
    queue.train_run(protocol.decisive_runs()["b-relu"], 1, tmp_path, tmp_path)
    assert json.loads((tmp_path / "seconds.jsonl").read_text()) == {
        "recipe": "b-relu",
        "seed": 1,
        "steps": 3000,
        "seconds": 90,
    }


def test_a_further_run_is_due_until_its_log_is_long_enough_and_has_the_column(logs: Logs) -> None:
    def due(id: str) -> list[tuple[int, int]]:
        return [(seed, row.until) for row, _, seed in queue.further_jobs([id])]

    assert due("b-batch-half") == [(1, 5600), (2, 5600), (3, 5600)]
    logs["b-batch-half", 2] = make_log(RUNS["b-batch-half"], 2, 0.1, until=5600)
    assert due("b-batch-half") == [(1, 5600), (3, 5600)]
    assert due("b-key-bias") == [(1, 3000), (2, 3000), (3, 3000)]
    logs["b-key-bias", 1] = make_log(RUNS["b-key-bias"], 1, 0.1, until=4000)
    # The log that is replaced is not longer than the new one.
    assert due("b-key-bias") == [(1, 4000), (2, 3000), (3, 3000)]
    for point in logs["b-key-bias", 1]["points"]:
        point["alpha_bias"] = 0.5
    assert due("b-key-bias") == [(2, 3000), (3, 3000)]


@pytest.mark.parametrize("code", [0, 1])
def test_a_further_run_replaces_the_log_only_when_it_is_done(
    code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe, zoo = RUNS["b-sgd"], tmp_path / "zoo"
    old_log = make_log(recipe, 1, 0.1)
    committed_file = protocol.log_file(recipe, 1, zoo)
    protocol.write_log(old_log, committed_file)
    monkeypatch.setattr(protocol, "log_file", lambda recipe, seed, folder=zoo: folder / f"sgd/b/{seed}.json")

    def fake_train(id: str, seed: int, corpora: Path, runs: Path, *options: str) -> int:
        assert (id, seed, runs, options) == (
            "b-sgd",
            1,
            tmp_path / "further",
            ("--until", "16000", "--zoo", str(tmp_path / "further" / "zoo")),
        )
        protocol.write_log(make_log(recipe, 1, 0.2, until=3200), tmp_path / "further/zoo/sgd/b/1.json")
        assert json.loads(committed_file.read_text())["points"] == old_log["points"]
        return code

    monkeypatch.setattr(queue, "train", fake_train)
    row = next(row for row in protocol.B_FURTHER if row.recipes == ("sgd",))
    assert queue.train_further_run(row, recipe, 1, Path("texts"), tmp_path) == code
    assert len(json.loads(committed_file.read_text())["points"]) == len(old_log["points"]) + (code == 0)


def test_the_remaining_runs_are_listed_with_their_estimated_hours(logs: Logs, tmp_path: Path) -> None:
    """Without measurements, a step is assumed to take 0.13 to 0.4 s; with measurements, the measured time of the
    recipe, or a time in proportion to the number of parameters."""
    logs["b-relu", 1] = make_log(RUNS["b-relu"], 1, 0.0, until=2400)
    text = queue.describe_remaining_runs(tmp_path, ["b-relu"])
    check_sentence(text, Path(__file__))
    (tmp_path / "seconds.jsonl").write_text(
        "".join(
            json.dumps({"recipe": "b-relu", "seed": 1, "steps": 100, "seconds": seconds}) + "\n"
            for seconds in (90, 100, 900)
        )
    )
    assert "2 runs, 1.0 core hours: relu" in queue.describe_remaining_runs(tmp_path, ["b-relu"])
    ratio = queue.parameter_count(RUNS["b-large"]) / queue.parameter_count(RUNS["b-relu"])
    hours = 2 * 3000 * ratio / 3600
    assert f"2 runs, {hours:.1f} core hours: large" in queue.describe_remaining_runs(tmp_path, ["b-large"])


def test_what_is_left_of_the_hours_counts_the_runs_since_the_third_version(logs: Logs, tmp_path: Path) -> None:
    ending = "core hours; {} of 40 are left."
    assert queue.describe_budget(tmp_path).endswith("0 runs of protocol B took 0 " + ending.format("40.0"))
    logs["b-relu", 1] = make_log(RUNS["b-relu"], 1, 0.0, until=2000)
    for point in logs["b-relu", 1]["points"]:
        point["first_layer"] = None
    assert queue.describe_budget(tmp_path).endswith(
        " 1 runs of protocol B took 0.1 to 0.2 " + ending.format("39.8 to 39.9")
    )
    (tmp_path / "seconds.jsonl").write_text('{"recipe": "b-relu", "seed": 1, "steps": 100, "seconds": 180}\n')
    assert queue.describe_budget(tmp_path).endswith(" took 1.0 " + ending.format("39.0"))


def test_the_time_of_all_runs_follows_from_the_steps_of_their_logs(
    logs: Logs, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A run of both protocols counts once; runs on a device count separately."""
    monkeypatch.setattr(protocol, "ZOO", tmp_path)
    (tmp_path / "relu").mkdir()
    (tmp_path / "relu" / "training.jsonl").write_text('{"step": 0}\n{"step": 9000}\n')
    logs["b-relu", 1] = make_log(RUNS["b-relu"], 1, 0.0)
    logs["b-relu", 2] = make_log(RUNS["b-relu"], 2, 0.0) | {"device": "a device"}
    logs["long-relu", 1] = make_log(RUNS["b-relu"], 1, 0.0)
    # The zoo has 9,000 steps, the baseline 8 times 3,000, and two other runs 3,000 each: 39,000 steps of 0.13 to 0.4 s.
    check_sentence(decide.describe_hours(), Path(__file__))


def test_the_recipes_of_the_sizes_have_the_stated_numbers_of_parameters() -> None:
    recipes_by_id = recipes()
    assert {id: queue.parameter_count(recipes_by_id[id]) for id in ("small", "softmax", "large")} == {
        "small": 521_640,
        "softmax": 1_449_600,
        "large": 5_049_600,
    }
    for id in protocol.SIZE_RECIPES:
        assert f"{queue.parameter_count(recipes_by_id[id]) / 1e6:.2f} million parameters" == recipes_by_id[id].title
        shapes_with_token, shapes_without_token = (
            shapes(architecture(recipe.config)) for recipe in (recipes_by_id[id], combine_recipes("no-bos", id))
        )
        assert shapes_with_token == shapes_without_token


def test_a_combined_recipe_has_the_changes_of_both_recipes() -> None:
    combined, recipes_by_id = combine_recipes("key-bias", "decay-small"), recipes()
    assert (combined.id, combined.baseline, combined.paper) == ("key-bias+decay-small", "decay-small", {})
    assert combined.config == recipes_by_id["key-bias"].config
    assert combined.training == recipes_by_id["decay-small"].training
    without_bos = combine_recipes("no-bos", "small")
    assert without_bos.training.front == () and without_bos.config["bos_token_id"] is None
    assert without_bos.config["hidden_size"] == 72
    variant = combine_recipes("gated", "sigmoid").config["sinkscope"]
    assert variant["gate"] == "output_element" and variant["attention"]["operation"] == "sigmoid"
    three = combine_recipes("gated", "no-bos", "small")
    assert (three.id, three.baseline) == ("gated+no-bos+small", "no-bos+small")
    assert three.config["sinkscope"] == recipes_by_id["gated"].config["sinkscope"]
    assert three.training == without_bos.training and three.config["hidden_size"] == 72
    run = RUNS["b-key-bias+decay-small"]
    assert (run.baseline, run.training.weight_decay, run.training.learning_rate) == ("b-decay-small", 0.1, 1e-3)
    assert run.training.embedding_decay == recipes_by_id["softmax"].training.embedding_decay
