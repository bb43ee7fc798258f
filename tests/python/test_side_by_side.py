"""Checks that runs of side_by_side.py have the arithmetic, texts, losses and outcomes of `train`."""

import json
import math
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer

from models.train import protocol, side_by_side, train
from models.train.corpus import Corpus
from models.train.loss import LOSSES
from models.train.recipe import Recipe
from models.train.text import VOCABULARY

# A quarter of a step's tokens shows the same as all of them.
RUNS = {
    id: replace(recipe, training=replace(recipe.training, batch=recipe.training.batch // 4))
    for id, recipe in protocol.decisive_runs().items()
}
STEPS = 4
# One recipe per feature of a step: a gate, a hook on a gradient, noise in the text, experts, another objective, other
# optimizers.
KINDS = (
    "b-gated",
    "b-key-bias-dimensions-1",
    "b-noise",
    "b-experts",
    "b-diffusion",
    "b-muon",
    "b-sgd",
)


@pytest.fixture
def corpus(monkeypatch: pytest.MonkeyPatch) -> Corpus:
    monkeypatch.setattr(protocol, "B_STEPS", STEPS)
    synthetic_corpus = object.__new__(Corpus)
    synthetic_corpus.stream = torch.randint(VOCABULARY, (2_000_000,), generator=torch.Generator().manual_seed(5))
    synthetic_corpus.tokenizer = Tokenizer.from_file(str(protocol.ZOO / "softmax/tokenizer.json"))
    synthetic_corpus._starts_by_length = {}
    return synthetic_corpus


@pytest.mark.parametrize("id", KINDS)
def test_a_graph_run_equals_a_run_of_train(id: str, corpus: Corpus, tmp_path: Path) -> None:
    recipe = RUNS[id]
    graph_run = side_by_side.GraphRun(recipe, 2, corpus, "cpu")
    train_run = train.Run(recipe, 2, tmp_path, "cpu")
    losses = []
    for step in range(STEPS):
        graph_run.advance()
        batch = corpus.draw_batch(2, step, recipe.sequences, recipe.context, recipe.training)
        losses.append(train_run.advance(step, *batch, LOSSES[recipe.training.objective]))
    assert graph_run.losses.tolist() == pytest.approx(losses, abs=3e-6)
    weights, _ = graph_run.snapshot()
    assert weights.keys() == train_run.weights.keys()
    for name, weight in train_run.cpu_weights().items():
        # Here the learning rate is rounded to float32.
        assert torch.allclose(weights[name], weight, atol=2e-6), name


@pytest.mark.parametrize("recipe", RUNS.values(), ids=RUNS)
def test_a_run_reads_the_text_of_its_recipe(recipe: Recipe, corpus: Corpus) -> None:
    size = recipe.sequences, recipe.context
    text, noise = side_by_side.draw_batches(corpus, 3, *size, side_by_side.batch_options(recipe.training), "cpu")
    for step in range(STEPS):
        expected_text, expected_noise = corpus.draw_batch(3, step, *size, recipe.training)
        assert torch.equal(text[step], expected_text)
        assert torch.equal(noise[step], expected_noise)


def test_runs_with_the_same_text_share_it(corpus: Corpus) -> None:
    decay_run, gated_run, no_bos_run = (
        side_by_side.GraphRun(RUNS[id], 1, corpus, "cpu") for id in ("b-decay-5", "b-gated", "b-no-bos")
    )
    assert decay_run.text is gated_run.text
    assert no_bos_run.text is not decay_run.text
    assert side_by_side.GraphRun(RUNS["b-gated"], 2, corpus, "cpu").text is not decay_run.text


@pytest.mark.parametrize(("step", "first"), [(200, 150), (400, 350), (600, 500), (3000, 2900), (1, 0)])
def test_the_logged_training_loss_averages_the_steps_since_the_last_log_line(step: int, first: int) -> None:
    run = object.__new__(side_by_side.GraphRun)
    run.step, run.losses = step, torch.arange(3000.0)
    assert run.train_loss() == (first + step - 1) / 2
    run.step = 0
    assert run.train_loss() is None


class FakeMeasurer:
    def __init__(self) -> None:
        self.points: list[tuple[Any, ...]] = []

    def add(self, job: Any, step: int, weights: Any, train_loss: float | None) -> None:
        self.points.append((job, step, weights["lm_head.weight"].sum().item(), train_loss))

    def catch_up(self) -> bool:
        return False


def train_runs(
    due_runs: list[tuple[Recipe, int]],
    corpus: Corpus,
    monkeypatch: pytest.MonkeyPatch,
    width: int = 2,
    deadline: float = math.inf,
    capturable: bool = True,
) -> tuple[list[tuple[Any, ...]], set[Any]]:
    monkeypatch.setattr(side_by_side, "SAVE_EVERY", 2)
    monkeypatch.setattr(side_by_side, "_open_corpus", lambda corpora, runs: corpus)
    measurer = FakeMeasurer()
    unfinished = side_by_side.train_runs(
        lambda: due_runs, Path("texts"), Path("runs"), measurer, "cpu", width, deadline, capturable
    )  # type: ignore[arg-type]
    return measurer.points, unfinished


def test_the_number_of_active_runs_is_limited_and_each_is_measured(
    corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = ("b-gated", "b-muon", "b-alibi", "b-no-bos", "b-sgd", "b-decay-5")
    points, unfinished = train_runs([(RUNS[id], 1) for id in ids], corpus, monkeypatch)
    assert unfinished == set()
    # A step of Muon or of SGD cannot be captured.
    assert [(id, step) for (id, _), step, *_ in points] == [
        ("b-gated", 0),
        ("b-alibi", 0),
        ("b-gated", 2),
        ("b-alibi", 2),
        ("b-gated", 4),
        ("b-alibi", 4),
        ("b-no-bos", 0),
        ("b-decay-5", 0),
        ("b-no-bos", 2),
        ("b-decay-5", 2),
        ("b-no-bos", 4),
        ("b-decay-5", 4),
    ]
    sums = [point[2] for point in points]
    assert len(set(sums)) == len(sums) - 3  # three recipes start from the weights of a fourth

    points, unfinished = train_runs([(RUNS[id], 1) for id in ids], corpus, monkeypatch, capturable=False)
    assert [(id, step) for (id, _), step, *_ in points] == [
        ("b-muon", 0),
        ("b-sgd", 0),
        ("b-muon", 2),
        ("b-sgd", 2),
        ("b-muon", 4),
        ("b-sgd", 4),
    ]


def test_a_run_does_not_begin_if_it_would_exceed_the_time_limit(
    corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter(range(0, 10_000, 10))
    monkeypatch.setattr(side_by_side.time, "monotonic", lambda: float(next(clock)))
    points, unfinished = train_runs([(RUNS["b-gated"], seed) for seed in (1, 2, 3)], corpus, monkeypatch, 1, 140.0)
    assert {seed for (_, seed), *_ in points} == {1, 2}
    assert unfinished == set()
    points, unfinished = train_runs([(RUNS["b-gated"], 1)], corpus, monkeypatch, 1, 0.0)
    assert points == [] and unfinished == set()


def test_runs_that_become_due_during_the_work_begin(corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    due_runs = [(RUNS["b-gated"], 1)]

    def add_second_seed(self: FakeMeasurer) -> bool:
        is_first = len(due_runs) == 1
        if is_first:
            due_runs.append((RUNS["b-gated"], 2))
        return is_first

    monkeypatch.setattr(FakeMeasurer, "catch_up", add_second_seed)
    points, unfinished = train_runs(due_runs, corpus, monkeypatch)
    assert [(seed, step) for (_, seed), step, *_ in points] == [(1, 0), (1, 2), (1, 4), (2, 0), (2, 2), (2, 4)]
    assert unfinished == set()


class FakePool:
    def __init__(self, calls: list[str]) -> None:
        self.calls = calls

    def submit(self, *call: Any) -> Any:
        return SimpleNamespace(result=lambda: self.calls.append("result"))

    def shutdown(self) -> None:
        self.calls.append("shutdown")


def test_measuring_processes_end_after_the_last_measurement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    monkeypatch.setattr(side_by_side, "ProcessPoolExecutor", lambda processes, context: FakePool(calls))
    measurer = side_by_side.Measurer(2, "cpu", tmp_path, tmp_path, tmp_path)
    measurer.add(("b-gated", 1), 0, {"a": torch.zeros(1)}, None)
    folder = Path(measurer.folder.name)
    assert list(folder.iterdir()) and calls == []
    measurer.close()
    assert calls == ["result", "shutdown", "shutdown"] and not folder.exists()


def test_the_command_waits_for_measurements_before_it_drops_a_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log = protocol.log_file(RUNS["b-gated"], 2, tmp_path)
    calls: list[str] = []

    def close() -> None:
        calls.append("close")
        log.parent.mkdir(parents=True)
        log.touch()

    monkeypatch.setattr(side_by_side, "Measurer", lambda *arguments: SimpleNamespace(close=close))
    monkeypatch.setattr(side_by_side, "train_runs", lambda *arguments: {("b-gated", 2)})
    monkeypatch.setattr(side_by_side, "resolve_folders", lambda *arguments: (tmp_path, tmp_path))
    monkeypatch.setattr(sys, "argv", ["side_by_side", "b-gated", "--again", str(tmp_path)])
    side_by_side.main()
    assert calls == ["close"] and not log.exists()
    assert capsys.readouterr().out == "not ended: [('b-gated', 2)]\n"


def test_a_point_is_measured_as_train_measures_it_and_the_log_names_the_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, corpus: Corpus
) -> None:
    monkeypatch.setattr(side_by_side, "_open_corpus", lambda corpora, runs: corpus)
    recipe = protocol.decisive_runs()["b-gated"]
    weights = train.initial_weights(side_by_side.architecture(recipe.config), 2, recipe.training)
    file = tmp_path / "weights.safetensors"
    save_file(weights, file)
    side_by_side.measure(("b-gated", 2), 0, file, None, "a device", tmp_path, Path("texts"), Path("runs"))
    assert not file.exists()
    log = json.loads((tmp_path / "gated" / "b" / "2.json").read_text())
    committed_log = protocol.read_log(recipe, 2)
    assert log["device"] == "a device"
    assert len(log["points"]) == 1
    # This test has a synthetic training text; the measured passages are the same.
    point, committed_point = log["points"][0], committed_log["points"][0]
    assert point.pop("batch_loss") != committed_point.pop("batch_loss")
    for name, value in committed_point.items():
        assert point[name] == (value if value is None else pytest.approx(value, abs=2e-4)), name
