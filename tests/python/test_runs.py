"""Checks which runs are selected, their commands, and the output of a run at each step."""

import dataclasses
import json
import stat
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from sentences import check_sentence

from models.train import all as everything
from models.train import corpus, loss, protocol, train
from models.train.recipe import Recipe, Training, recipes
from models.train.text import VOCABULARY

RECIPES = recipes()


def recipe_of(id: str, steps: int, seeds: tuple[int, ...]) -> Recipe:
    return dataclasses.replace(
        RECIPES[id], seeds=seeds, training=dataclasses.replace(RECIPES[id].training, steps=steps)
    )


def test_a_run_without_its_last_checkpoint_is_unfinished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipes_by_id = {"softmax": recipe_of("softmax", 400, (1, 2)), "relu": recipe_of("relu", 800, (1,))}
    monkeypatch.setattr(everything, "recipes", lambda: recipes_by_id)
    for run, step in (("softmax-1", 400), ("softmax-2", 200), ("relu-1", 400)):
        (tmp_path / run).mkdir()
        (tmp_path / run / f"step-{step:04d}.safetensors").touch()
    assert everything.unfinished_jobs(tmp_path, []) == [("softmax", 2), ("relu", 1)]
    assert everything.unfinished_jobs(tmp_path, ["relu", "softmax"]) == [("relu", 1), ("softmax", 2)]
    assert everything.unfinished_jobs(tmp_path, ["softmax"]) == [("softmax", 2)]


def test_a_run_whose_log_is_too_short_counts_as_unlogged(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = {"long-softmax": recipe_of("softmax", 4000, (1, 2, 3)), "long-relu": recipe_of("relu", 4000, (1, 2, 3))}
    last_step = {("softmax", 1): 4000, ("softmax", 2): 3200, ("relu", 1): 3200, ("relu", 2): 800}

    def fake_log(recipe: Recipe, seed: int) -> dict[str, Any]:
        points = [{"step": last_step[recipe.id, seed]}] if (recipe.id, seed) in last_step else []
        return {"points": points, "training": {"steps": 4000}}

    monkeypatch.setattr(protocol, "runs", lambda: runs)
    monkeypatch.setattr(protocol, "read_log", fake_log)
    assert everything.unlogged_jobs([], 4000, 2) == [("long-softmax", 2), ("long-relu", 1), ("long-relu", 2)]
    assert everything.unlogged_jobs(["long-relu", "long-softmax"], 3200, 3) == [
        ("long-relu", 2),
        ("long-relu", 3),
        ("long-softmax", 3),
    ]
    # A run ends at its last step, even if a later one is requested.
    assert everything.unlogged_jobs(["long-softmax"], 9000, 1) == []


def test_a_run_is_a_process_whose_exit_status_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "python"
    # The fourth word ends with the seed; the fake program exits with it as its status.
    program.write_text('#!/bin/sh\necho "$@"; pwd; echo "$MALLOC_TOP_PAD_" >&2; exit ${4#--seed=}\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(everything, "sys", SimpleNamespace(executable=str(program)))
    monkeypatch.delenv("MALLOC_TOP_PAD_", raising=False)
    assert everything.train("relu", 0, Path("/texts"), tmp_path, "--until", "200") == 0
    assert everything.train("relu", 3, Path("/texts"), tmp_path) == 3
    assert everything.train("relu", 0, Path("/texts"), tmp_path) == 0
    command = f"-m models.train.train relu --seed=0 --corpora=/texts --runs={tmp_path}"
    ends = [str(everything.ROOT), str(2**27)]
    assert (tmp_path / "relu-0.out").read_text().splitlines() == [f"{command} --until 200", *ends, command, *ends]
    assert capsys.readouterr().out.splitlines() == [
        "began relu 0",
        "ended relu 0",
        "began relu 3",
        "FAILED relu 3",
        "began relu 0",
        "ended relu 0",
    ]


@pytest.mark.parametrize(
    ("arguments", "jobs", "options"),
    [
        ([], [("softmax", 1)], ()),
        (["--protocol", "a", "--until", "800", "--seeds", "2"], ["a", 800, 2], ("--until", "800")),
        (["--protocol", "a"], ["a", protocol.STEPS, max(protocol.SEEDS)], ("--until", str(protocol.STEPS))),
    ],
)
def test_the_command_trains_the_missing_runs_of_its_protocol(
    arguments: list[str], jobs: list[Any], options: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[Any, ...]] = []
    monkeypatch.setattr(everything, "Corpus", lambda *values: calls.append(values))
    monkeypatch.setattr(protocol, "runs", lambda: {"a": None})
    monkeypatch.setattr(everything, "unfinished_jobs", lambda runs, only: [("softmax", 1)])
    monkeypatch.setattr(
        everything,
        "unlogged_jobs",
        lambda only, until, seeds: [("a", until), ("a", seeds)],
    )

    def fake_train(id: str, seed: int, corpora: Path, runs: Path, *values: str) -> int:
        calls.append((id, seed, corpora, runs, values))
        return seed % 7

    monkeypatch.setattr(everything, "train", fake_train)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["all", "--corpora", "texts", "--runs", "runs", "--jobs", "1", *arguments])
    with pytest.raises(SystemExit) as exit_info:
        everything.main()
    expected = jobs if isinstance(jobs[0], tuple) else [(jobs[0], jobs[1]), (jobs[0], jobs[2])]
    assert calls[0] == (Path("texts"), Path("runs/corpus"))
    assert calls[1:] == [(*job, tmp_path / "texts", tmp_path / "runs", options) for job in expected]
    assert exit_info.value.code == max(seed % 7 for _, seed in expected)


class FakeRun:
    def __init__(self, start: int, losses: dict[int, float | None], events: list[tuple[Any, ...]]) -> None:
        self.start, self.events, self.folder, self.losses = start, events, Path("relu-3"), losses

    def log_step(self, step: int, losses: list[float], ids: Any) -> None:
        self.events.append(("note", step, losses))
        self.losses[step] = sum(losses) / len(losses) if losses else None

    def save(self, step: int) -> None:
        self.events.append(("save", step))

    def cpu_weights(self) -> str:
        return "weights"

    def advance(self, step: int, text: Any, noise: Any, loss_of: Any) -> float:
        assert (text, noise) == (f"text {step}", f"noise {step}")
        return float(step)


@pytest.mark.parametrize(
    ("start", "until", "last", "logged_before"),
    [(0, None, 800, {}), (200, 600, 600, {100: 5.5, 200: 4.5}), (200, 600, 600, {}), (0, 4000, 800, {})],
)
def test_a_run_writes_lines_checkpoints_and_points_at_their_steps(
    start: int,
    until: int | None,
    last: int,
    logged_before: dict[int, float | None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recipe = dataclasses.replace(recipe_of("relu", 800, (3,)), id=protocol.LONG_PREFIX + "relu")
    events: list[tuple[Any, ...]] = []
    fake_corpus = SimpleNamespace(
        tokenizer="tokenizer",
        held_out=[f"passage {i}" for i in range(100)],
        draw_batch=lambda seed, step, sequences, context, training: (
            (f"text {step}", f"noise {step}")
            if (seed, sequences, context, training) == (3, 16, 128, recipe.training)
            else None
        ),
    )
    log = SimpleNamespace(
        keep_before=lambda step: events.append(("keep", step)),
        lacks=lambda step: step != 400,
        add=lambda *arguments: events.append(("log", *arguments)),
    )
    ids_by_arguments = {("tokenizer", "passage 0", "passage 19", 20, 64, recipe.training): torch.zeros(20, 64)}
    monkeypatch.setattr(
        train,
        "encode",
        lambda tokenizer, texts, T, training: ids_by_arguments[tokenizer, texts[0], texts[-1], len(texts), T, training],
    )
    monkeypatch.setattr(train, "Corpus", lambda corpora, cache: fake_corpus)
    monkeypatch.setattr(train, "Run", lambda *arguments: FakeRun(start, dict(logged_before), events))
    monkeypatch.setattr(train, "Log", lambda recipe, seed, zoo: log)
    monkeypatch.setattr(train, "fixed_loss", lambda run, corpus: 7.5)
    monkeypatch.setattr(torch, "compile", lambda loss: loss)
    train.train(recipe, 3, Path("texts"), tmp_path, "cpu", until)
    # A run resumes at its checkpoint; the log keeps the point there, with the loss of the steps before.
    is_resumed = start in logged_before
    assert events[0] == ("keep", start + is_resumed)
    line_steps = [event[1] for event in events if event[0] == "note"]
    early_steps = [0, 1, 2, 3, 5, 7, 10, 14, 20, 30, 40, 50, 70, 100, 150]
    expected_line_steps = [*early_steps, 200, 250, 300, 350, 400, 450, 500, 600, 700, 800]
    assert line_steps == [step for step in expected_line_steps if start + is_resumed <= step <= last]
    save_steps = [event[1] for event in events if event[0] == "save"]
    expected_save_steps = [0, 1, 3, 10, 30, 100, 200, 400, 600, 800]
    assert save_steps == [step for step in expected_save_steps if start <= step <= last]
    # The loss of a step is measured before the step's update, and belongs to exactly one line.
    losses = [loss for event in events if event[0] == "note" for loss in event[2]]
    assert losses == [float(step) for step in range(start, last)]
    event_250 = next(event for event in events if event[:2] == ("note", 250))
    assert event_250[2] == [float(step) for step in range(200, 250)]
    points = [event[1:] for event in events if event[0] == "log"]
    mean = (450 + 499 + 500 - 450) / 2 + 50  # losses of steps 500 to 599
    assert (600, "weights", mean, 7.5) in points
    assert points[0] == ((200, "weights", 4.5, 7.5) if is_resumed else (start, "weights", None, 7.5))
    assert [event[0] for event in points] == [step for step in save_steps if step != 400]
    events.clear()
    train.train(dataclasses.replace(recipe, id="relu"), 3, Path("texts"), tmp_path, "cpu", until)
    assert {event[0] for event in events} == {"note", "save"}


def test_the_number_of_fixed_sequences_does_not_depend_on_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fixed loss is a mean over 64 sequences of seed 0, or over 48 if a step has 24 sequences, which do not divide
    64."""
    requests = []

    def batch(seed: int, i: int, sequences: int, *_: Any) -> tuple[Any, Any]:
        requests.append((seed, i, sequences))
        return torch.full((sequences, 2), float(i)), torch.zeros(1)

    monkeypatch.setitem(train.LOSSES, "next", lambda arch, weights, text, noise, training: text.mean())
    for sequences in (16, 24, 32):
        requests.clear()
        training = dataclasses.replace(Training(), batch=sequences * 128)
        run = SimpleNamespace(
            recipe=dataclasses.replace(RECIPES["relu"], training=training), arch=None, weights=None, device="cpu"
        )
        result = train.fixed_loss(run, SimpleNamespace(draw_batch=batch))
        count = 64 // sequences
        assert requests == [(0, i, sequences) for i in range(count)]
        assert result == (count - 1) / 2


def test_noise_below_a_share_replaces_or_hides_a_token() -> None:
    """Noise of exactly the share would draw an id after the vocabulary's last."""
    noise, tokens = torch.tensor([[0.0, 0.5, 0.25]]), torch.zeros(1, 3, dtype=torch.long)
    assert loss.replace_tokens(tokens, noise, 0.5).tolist() == [[0, 0, VOCABULARY // 2]]
    p, is_masked = loss.draw_masked(tokens, torch.cat([torch.full((1, 1), 0.5), noise], 1))
    assert p.item() == 0.5 and is_masked.tolist() == [[False, False, True]]


def test_a_line_of_the_log_has_the_mean_loss_since_the_last_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = object.__new__(train.Run)
    run.log, run.arch, run.weights, run.losses = tmp_path / "training.jsonl", None, None, {}
    monkeypatch.setattr(train, "measure_probe", lambda arch, weights, ids: {"sink_1": 1.5})
    run.log_step(0, [], None)
    run.log_step(1, [1.0, 2.00009, 2.0], None)
    assert run.losses == {0: None, 1: 1.6667}
    assert [json.loads(line) for line in run.log.read_text().splitlines()] == [
        {"step": 0, "sink_1": 1.5},
        {"step": 1, "loss": 1.6667, "sink_1": 1.5},
    ]


@pytest.mark.parametrize(("until", "is_refused"), [("200", False), ("150", True), (None, False)])
def test_a_run_is_interrupted_only_at_a_checkpoint(
    until: str | None, is_refused: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls = []
    monkeypatch.setattr(train, "train", lambda *arguments: calls.append(arguments[1:]))
    monkeypatch.setattr(torch, "set_num_threads", lambda count: calls.append(count))
    monkeypatch.setattr(
        sys, "argv", ["train", "relu", "--seed", "2", "--corpora", "texts", *(["--until", until] if until else [])]
    )
    if is_refused:
        with pytest.raises(SystemExit):
            train.main()
        check_sentence(capsys.readouterr().err.splitlines()[-1], Path(__file__))
    else:
        train.main()
        assert calls == [1, (2, Path("texts"), Path("models/.runs"), "cpu", until and int(until), protocol.ZOO)]


def test_the_corpus_is_built_once_and_contains_only_the_training_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [f"Story {i}: the {word} fox of the wood ran home." for i in range(30) for word in ("quick", "old")]
    public = [f"Passage {i}. " + f"A king had {i} daughters. " * 40 for i in range(120)]
    requests = []

    def documents(corpora: Path) -> tuple[list[str], list[str]]:
        requests.append(corpora)
        return texts, public

    monkeypatch.setattr(corpus, "documents", documents)
    cache = tmp_path / "runs/corpus"
    built_corpus, cached_corpus = (corpus.Corpus(tmp_path / "texts", cache) for _ in range(2))
    assert requests == [tmp_path / "texts"]
    assert built_corpus.tokenizer_file == cache / "tokenizer.json"
    assert torch.equal(built_corpus.stream, cached_corpus.stream)
    # The stream has every document of the training text, each followed by <|endoftext|>.
    assert built_corpus.stream.tolist().count(1) == len(texts) and built_corpus.stream[-1] == 1
    first_document = built_corpus.stream[: built_corpus.stream.tolist().index(1)].tolist()
    assert built_corpus.tokenizer.decode(first_document) == texts[0] and 0 not in built_corpus.stream
    assert [built_corpus.tokenizer.token_to_id(token) for token in ("<s>", "<|endoftext|>")] == [0, 1]
    assert built_corpus.tokenizer.get_vocab_size() <= 1024
    unusual_text = "ž \n\u2003☃ 9"
    assert built_corpus.tokenizer.decode(built_corpus.tokenizer.encode(unusual_text).ids) == unusual_text
    assert built_corpus.tokenizer.encode("A king").ids[0] == built_corpus.tokenizer.encode("A", "b").ids[0] == 0
    assert len(built_corpus.held_out) == 100 and public[0].startswith(built_corpus.held_out[0])
    assert all(250 < len(text) <= 320 for text in built_corpus.held_out)
    long_passages = json.loads((cache / "heldout-long.json").read_text())
    assert len(long_passages) == 40 and all(320 < len(text) <= 640 for text in long_passages)
    # Seed and step determine the position in the text, and the noise.
    text, noise = built_corpus.draw_batch(3, 5, 4, 16, Training())
    assert text.shape == (4, 17) and noise.shape == (4, 18) and (text[:, 0] == 0).all()
    stream = built_corpus.stream.tolist()
    assert all(row in [stream[i : i + 16] for i in range(len(stream))] for row in text[:, 1:].tolist())
    cached_batch = cached_corpus.draw_batch(3, 5, 4, 16, Training())
    assert torch.equal(cached_batch[0], text) and torch.equal(cached_batch[1], noise)
    assert not torch.equal(text, built_corpus.draw_batch(3, 6, 4, 16, Training())[0])
    # A random first token is drawn by the last number of the noise, which has no other use.
    drawn_text, noise = built_corpus.draw_batch(3, 5, 4, 16, Training(random_first=True))
    assert drawn_text[:, 1].tolist() == [int(row[17] * 1024) for row in noise]
    assert torch.equal(drawn_text[:, 2:], text[:, 2:])
    # A token at a fixed place is that of the tokenizer, and changes nothing else.
    fixed_text, _ = built_corpus.draw_batch(3, 5, 4, 16, Training(fixed_at=3, fixed_token="."))
    assert {built_corpus.tokenizer.id_to_token(id) for id in fixed_text[:, 2].tolist()} == {"."}
    assert torch.equal(fixed_text[:, 3:], text[:, 3:]) and torch.equal(fixed_text[:, :2], text[:, :2])
    # Sequences of any position cross the ends of documents; those of one document may only end with one.
    crossing, _ = built_corpus.draw_batch(3, 5, 600, 6, Training())
    inside, _ = built_corpus.draw_batch(3, 5, 600, 6, Training(one_document=True))
    assert (crossing[:, :-1] == 1).any() and not (inside[:, :-1] == 1).any() and (inside[:, -1] == 1).any()
    possible = {tuple(stream[i : i + 6]) for i in range(len(stream) - 5) if 1 not in stream[i : i + 5]}
    assert {tuple(row) for row in inside[:, 1:].tolist()} <= possible
