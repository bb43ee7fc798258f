"""Computes rows of the table "Beyond the paper" of models/README.md again, and checks the functions of beyond.py on
cases worked out by hand."""

import json
import math
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from record.truth import half_step, rounding_of

from models.reference.files import read_model
from models.reference.goldens.write_training import planted_tokens
from models.reference.model import forward
from models.train import beyond

# The values of models/README.md, in the order of the columns; cells with None are not checked.
STATED: dict[str, tuple[float | None, ...]] = {
    # sink_1, norms, valley, without token 1, feed-forward's part, Gini, accuracy, induction, secondary
    "softmax": (60.1, 10.6, 0.21, -0.03, 1.02, 0.35, None, 0.002, 0.0),
    "heads-8": (None, None, 0.04, None, 0.89, None, None, None, None),
    "post-norm": (40.1, None, -0.05, None, None, 0.07, None, None, None),
    "softmax1": (None, None, None, None, None, 0.02, None, None, 0.38),
    "diffusion": (None, None, None, 0.23, None, None, None, None, None),
}


@cache
def row_of(id: str) -> str:
    return beyond.model_row(id, json.loads((beyond.ZOO / "heldout.json").read_text())[: beyond.SEQUENCES])


@pytest.mark.parametrize("id", STATED)
def test_rows_agree_with_the_document(id: str) -> None:
    """The numbers may differ in the last digit, which another processor may change."""
    cells = [cell.split()[0] for cell in row_of(id).strip("|").split("|")]
    assert cells[0] == f"`{id}`" and len(cells) == 1 + len(STATED[id])
    for result, output in zip(cells[1:], STATED[id]):
        if output is not None:
            tolerance = 0.02 if abs(output) < 1 else 0.1
            assert float(result) == pytest.approx(output, abs=tolerance), cells


def test_the_feed_forward_share_is_undefined_for_a_post_norm_and_may_exceed_one() -> None:
    assert "| nan of 0 |" in row_of("post-norm")
    # The second number, 23, is the sum of all contributions to the logits of sink heads.
    assert "| 1.02 of 23 |" in row_of("softmax")


def test_the_file_has_every_unit_and_a_repeated_measurement_equals_it() -> None:
    result = json.loads(beyond.FILE.read_text())
    for name, (_, units) in beyond.unit_groups().items():
        assert [unit["unit"] for unit in result[name]] == list(units), "run beyond --units"
    stored_unit = next(unit for unit in result["models with a sink"] if unit["unit"] == "heads-8")
    texts = json.loads(beyond.HELD_OUT.read_text())[: beyond.SEQUENCES]
    columns = beyond.shared_columns(*read_model(beyond.ZOO / "heads-8"), beyond.held_out_ids("heads-8", texts))
    for name, value in columns.items():
        assert value == pytest.approx(stored_unit[name], abs=half_step(4)), name  # both were computed in float64


def test_zeroing_the_worst_channel_raises_the_loss_as_stored() -> None:
    arch, weights = read_model(beyond.ZOO / "softmax")
    ids = beyond.held_out_ids("softmax", json.loads(beyond.HELD_OUT.read_text())[: beyond.SEQUENCES])
    stored_unit = next(unit for unit in json.loads(beyond.FILE.read_text())["channels"] if unit["unit"] == "softmax")
    trace = forward(arch, weights, ids)
    bound = half_step(4) + rounding_of(stored_unit["loss"], arch.D)
    assert abs(beyond.metrics.loss(trace.logits, ids).mean().item() - stored_unit["loss"]) < bound
    channel = stored_unit["worst_channel"]
    cost, other_cost = (
        beyond.loss_without_channel(arch, weights, ids, c) - stored_unit["loss"] for c in (channel, channel - 1)
    )
    assert abs(cost - stored_unit["worst"]) < 2 * bound
    assert other_cost < cost / 2


def test_each_unit_is_measured_once_and_units_are_stored_in_order(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    measured_units: list[int] = []

    def measure(unit: int) -> dict[str, float]:
        measured_units.append(unit)
        return {"a": unit / 3, "b": float("nan")}

    monkeypatch.setattr(beyond, "FILE", tmp_path / "units.json")
    monkeypatch.setattr(beyond, "unit_groups", lambda: {"one": (measure, (3, 1)), "two": (measure, (2,))})
    beyond.measure_units(["two"])
    assert json.loads(beyond.FILE.read_text()) == {"two": [{"unit": 2, "a": 0.6667, "b": None}]}
    beyond.measure_units(["one", "two"])
    assert measured_units == [2, 3, 1]
    result = json.loads(beyond.FILE.read_text())
    assert [list(result), [unit["unit"] for unit in result["one"]]] == [["one", "two"], [3, 1]]


def test_the_depth_of_a_valley_is_measured_from_its_lower_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mean entropies of two sequences are 0.9, 0.5, 0.3 and 0.7."""
    entropies = torch.tensor([[0.8, 0.4, 0.2, 0.6], [1.0, 0.6, 0.4, 0.8]])
    monkeypatch.setattr(beyond.metrics, "matrix_entropy", lambda hidden: hidden)
    assert beyond.valley_depth(entropies) == pytest.approx(0.7 - 0.3)
    assert beyond.valley_depth(torch.tensor([[0.9, 0.95, 0.7]])) == pytest.approx(-0.25)


def test_scores_of_a_continuation_use_only_its_own_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fake model has a vocabulary of three tokens, reads two sequences of four tokens, and favors token 0 in row 1
    and token 1 in row 2."""
    logits = torch.full((2, 4, 3), 0.0)
    logits[:, 1, 0] = logits[:, 2, 1] = math.log(2)
    logits[:, 0], logits[:, 3] = 99 * torch.eye(3)[2], -99 * torch.eye(3)[0]
    att = torch.zeros(2, 1, 2, 4, 4)
    att[..., 0] = torch.tensor([[1.0, 1.0, 0.5, 0.1], [1.0, 1.0, 0.3, 0.7]])
    trace = SimpleNamespace(logits=logits, att=att)
    monkeypatch.setattr(beyond, "run_in_f64", lambda arch, weights, ids: trace)
    ids = torch.tensor([[2, 2, 0, 1], [1, 1, 0, 0]])
    loss, first = beyond.continuation_scores(None, {}, ids, 2)  # type: ignore[arg-type]
    assert loss == pytest.approx((3 * math.log(2) + math.log(4)) / 4)
    assert first == pytest.approx(0.4)


def test_without_training_the_numbers_equal_those_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def fake_train(*words: object, **options: Any) -> list[dict[str, float]]:
        assert words == ("train", "--from", beyond.ZOO / "softmax") and options["seed"] == 3
        shutil.copytree(beyond.ZOO / "softmax", options["out"])
        texts = json.loads(options["text_file"].read_text())
        assert texts == json.loads(beyond.HELD_OUT.read_text())[beyond.SEQUENCES :]
        return []

    monkeypatch.setattr(beyond, "run_command", fake_train)
    result = beyond.measure_planted_triggers(3)
    for name in (f"{score}_{text_kind}" for score in ("loss", "first") for text_kind in ("trigger", "random", "gap")):
        assert result[name] == result[f"before_{name}"]
    assert result["loss_gap"] == result["loss_trigger"] - result["loss_random"] != 0
    assert result["learnt"] < 0.5


def test_the_token_after_a_trigger_differs_from_random_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fake model predicts every next token, as if it had learnt the trigger. Its inputs show that the opening, the
    trigger and the rest of a text are at their positions."""
    ids = beyond.held_out_ids("softmax", json.loads(beyond.HELD_OUT.read_text())[: beyond.SEQUENCES])
    trigger, cycle = planted_tokens({"seed": 3, "first": 0, "triggers": 8}, 1024)
    monkeypatch.setattr(beyond, "run_command", lambda *words, **options: [])
    monkeypatch.setattr(beyond, "read_model", lambda folder: (SimpleNamespace(V=1024), folder.name))
    output: list[torch.Tensor] = []

    def fake_run(arch: object, weights: str, text: torch.Tensor) -> SimpleNamespace:
        output.append(text)
        return SimpleNamespace(logits=torch.nn.functional.one_hot(text.roll(-1, 1), 1024))

    def fake_scores(arch: object, weights: str, text: torch.Tensor, begin: int) -> tuple[float, float]:
        assert begin == 32 + 3 and torch.equal(torch.cat([text[:, :32], text[:, 35:]], 1), ids)
        middle = text[:, 32:35]
        is_trigger = middle.tolist() == [trigger] * 24
        assert is_trigger or (middle.min() > 8 and len(middle.unique()) > 60)
        return 2.0 + is_trigger * (1 + (weights == "model")), 0.5 - 0.25 * is_trigger

    monkeypatch.setattr(beyond, "run_in_f64", fake_run)
    monkeypatch.setattr(beyond, "continuation_scores", fake_scores)
    assert beyond.measure_planted_triggers(3) == {
        "loss_trigger": 4.0,
        "loss_random": 2.0,
        "loss_gap": 2.0,
        "first_trigger": 0.25,
        "first_random": 0.5,
        "first_gap": -0.25,
        "before_loss_trigger": 3.0,
        "before_loss_random": 2.0,
        "before_loss_gap": 1.0,
        "before_first_trigger": 0.25,
        "before_first_random": 0.5,
        "before_first_gap": -0.25,
        "learnt": 1.0,
    }
    assert output[0].tolist() == [row + trigger + cycle for row in ids[:, :32].tolist()]


def test_each_line_of_a_program_is_parsed_and_its_failure_is_raised(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "node"
    program.write_text('#!/bin/sh\necho "[\\"$PWD\\", \\"$*\\"]"; echo 5; echo no >&2; exit $3\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    cli = f"{beyond.ROOT}/wasm/cli.js"
    words = "measure 0 --text-file=a --lines --json"
    assert beyond.run_command("measure", 0, text_file="a", lines=True) == [[str(beyond.ROOT), f"{cli} {words}"], 5]
    with pytest.raises(subprocess.CalledProcessError):
        beyond.run_command("measure", 1)


def test_the_table_of_a_model_uses_the_task_next_and_no_other_task(monkeypatch: pytest.MonkeyPatch) -> None:
    def make_task(name: str, size: float) -> dict[str, Any]:
        return {"name": name} | {
            condition: {key: {"change": {"mean": size * factor}} for key, factor in (("loss", 1), ("accuracy", 0.5))}
            for condition, size in (("first", size), ("other", size / 4))
        }

    def command(*words: object, **options: Any) -> list[Any]:
        assert words == ("tasks", beyond.ZOO / "softmax") and options["lines"] is True
        assert (options["text_file"], options["tokens"], options["sequences"]) == (beyond.HELD_OUT, 64, 48)
        return [{"tasks": [make_task("copy", 99), make_task("next", 0.5)]}]

    monkeypatch.setattr(beyond, "run_command", command)
    monkeypatch.setattr(beyond, "read_model", lambda folder: (folder.name, {}))
    monkeypatch.setattr(beyond, "shared_columns", lambda arch, weights, ids: {arch: float(len(ids))})
    assert beyond.measure_model("softmax") == {
        "softmax": 24.0,
        "next_loss": 0.5,
        "next_accuracy": 25.0,
        "other_loss": 0.125,
        "other_accuracy": 6.25,
    }


def test_a_model_of_the_lab_is_measured_on_its_own_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    def command(*words: object, **options: Any) -> list[Any]:
        if words[0] == "train":
            assert words[1:] == beyond.LAB_SETTINGS and options["seed"] == 4
            folder = options["out"]
            folder.mkdir()
            (folder / "config.json").write_text('{"L": 3}')
            (folder / "recipe.json").write_text('{"settings": {"task": "backcopy"}}')
            return []
        assert [words[i + 1] for i, word in enumerate(words) if word == "--ids"] == ["5,6", "7,8"]
        loss, accuracy = {None: (2.0, 0.5), "hide_key(key=0)": (2.5, 0.25), "hide_key(key=1)": (2.125, 0.75)}[
            words[words.index("--edit") + 1] if "--edit" in words else None
        ]
        return [{"loss": loss, "metrics": {"accuracy": {"mean": [accuracy, 9.0]}}}]

    def node(*words: object) -> str:
        assert words[-3:] == ('{"L": 3}', '{"task": "backcopy"}', 24)
        return "[[5, 6], [7, 8]]"

    monkeypatch.setattr(beyond, "run_command", command)
    monkeypatch.setattr(beyond, "run_node", node)
    monkeypatch.setattr(beyond, "read_model", lambda folder: (folder.name, {}))
    monkeypatch.setattr(beyond, "shared_columns", lambda arch, weights, ids: {arch: float(ids.sum())})
    assert beyond.measure_lab_seed(4) == {
        "model": 26.0,
        "hidden_loss": 0.5,
        "hidden_accuracy": -25.0,
        "other_loss": 0.125,
        "other_accuracy": 25.0,
    }


def test_forgetting_is_the_rise_of_the_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    def command(*words: object, **options: Any) -> list[Any]:
        assert (options["seed"], options["held"]) == (2, 24)
        rise = {"plain": 0.25, "key_bias": 0.5, "gate": 1.0}[
            next((name for name, variant in beyond.TUNING_VARIANTS.items() if variant == words[-1:]), "plain")
        ]
        return [
            {"loss_held": 3.0, "loss": 9.0, "first_elsewhere": 9.0},
            {"loss_held": 9.0},
            {"loss_held": 3.0 + rise, "loss": 10 * rise, "first_elsewhere": rise / 10},
        ]

    monkeypatch.setattr(beyond, "run_command", command)
    assert beyond.measure_fine_tuning(2) == {
        "forgets_plain": 0.25,
        "new_plain": 2.5,
        "first_plain": 0.025,
        "forgets_key_bias": 0.5,
        "new_key_bias": 5.0,
        "first_key_bias": 0.05,
        "forgets_gate": 1.0,
        "new_gate": 10.0,
        "first_gate": 0.1,
    }


def test_a_search_is_compared_with_random_suffixes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each seed has nine texts of its own, and searches on the first; for `away`, less attention is a better score."""
    texts = json.loads(beyond.HELD_OUT.read_text())

    def command(*words: object, **options: Any) -> list[Any]:
        assert json.loads(options["text_file"].read_text()) == texts[9:18]
        assert (options["seed"], options["sequences"]) == (2, 9)
        score = 5.0 if options["goal"] == "loss" else 0.25
        return [
            {
                "score": score,
                "random": {"best": 4.0 if score > 1 else 0.5},
                "others": {"found": [1.0, 3.0] * 4, "best": [0.5, 1.0] * 4},
            }
        ]

    monkeypatch.setattr(beyond, "run_command", command)
    assert beyond.measure_searches(2) == {
        f"{prefix}_{model}": value
        for model in ("softmax", "sigmoid", "key_bias")
        for prefix, value in (("loss", 1.0), ("elsewhere", 1.25))
    } | {"away_softmax": 0.25, "away_elsewhere_softmax": -1.25}


def test_each_unit_of_the_file_is_on_one_line() -> None:
    assert beyond.FILE.read_text() == beyond.units_json(beyond.read_units())


def test_a_secondary_sink_is_found_by_the_mean_alpha_of_a_layer() -> None:
    """Uniform attention gives the second of 8 tokens (1/2 + ... + 1/8) / 7 = 0.2454, and the fourth (1/4 + ... + 1/8) /
    5 = 0.1769; five times as much, averaged over two heads, is a sink."""
    alphas = torch.zeros(5, 2, 2, 8, dtype=torch.float64)
    alphas[0, 1, :, 3] = torch.tensor([1.7, 0.1])  # mean 0.9, above 0.8845
    alphas[1, 1, :, 3] = torch.tensor([1.7, 0.06])  # mean 0.88, below it
    alphas[2, 0, :, 1] = 1.23  # above 1.2273
    alphas[3, :, :, 0], alphas[3, :, :, 4:] = 9.0, 9.0  # the first token and late tokens do not count
    alphas[4, 0, :, 2] = 1.0  # below (1/3 + ... + 1/8) / 6 x 5 = 1.0149
    assert beyond.secondary_share(alphas) == 2 / 5
    # The middle one of 9 tokens is not in the first half.
    odd_alphas = torch.zeros(2, 1, 1, 9, dtype=torch.float64)
    odd_alphas[0, ..., 4], odd_alphas[1, ..., 3] = 9.0, 9.0
    assert beyond.secondary_share(odd_alphas) == 1 / 2


def test_every_planted_trigger_was_learnt() -> None:
    """Without learning, the loss and attention after the trigger would be those after random tokens."""
    for unit in json.loads(beyond.FILE.read_text())["planted triggers"]:
        assert unit["learnt"] > 0.99


def test_the_command_prints_a_row_for_each_model(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(beyond, "model_row", lambda id, texts: f"| {id} {len(texts)} |")
    threads: list[int] = []
    monkeypatch.setattr(torch, "set_num_threads", threads.append)
    monkeypatch.setattr(sys, "argv", ["beyond", "short", "relu"])
    beyond.main()
    head, rule, *rows = capsys.readouterr().out.splitlines()
    assert head.count("|") == rule.count("|") == 11
    assert rows == ["| short 24 |", "| relu 24 |"] and threads == [1]
    monkeypatch.setattr(sys, "argv", ["beyond"])
    beyond.main()
    assert len(capsys.readouterr().out.splitlines()) == 2 + 35
    monkeypatch.setattr(sys, "argv", ["beyond", "sofmax"])
    with pytest.raises(SystemExit):
        beyond.main()
    assert "no such model: sofmax" in capsys.readouterr().err
    measured_groups: list[list[str]] = []
    monkeypatch.setattr(beyond, "measure_units", measured_groups.append)
    for words in (["--units"], ["--units", "searches"]):
        monkeypatch.setattr(sys, "argv", ["beyond", *words])
        beyond.main()
    assert measured_groups == [list(beyond.unit_groups()), ["searches"]]
    assert not capsys.readouterr().out
