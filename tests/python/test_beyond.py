"""The table "Beyond the paper" of models/README.md: its rows again, and what a hand can work out."""

import json
import math
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from models.reference.files import read_model  # noqa: E402
from models.train import beyond  # noqa: E402

# What models/README.md says of each, in the order of the columns; None: it says nothing.
SAID: dict[str, tuple[float | None, ...]] = {
    # sink_1, norms, valley, without token 1, feed-forward's part, Gini, accuracy, induction, secondary
    "softmax": (59.9, 10.6, 0.21, -0.04, 1.02, 0.35, None, 0.002, 0.0),
    "heads-8": (None, None, 0.04, None, 0.89, None, None, None, None),
    "post-norm": (40.1, None, -0.05, None, None, 0.07, None, None, None),
    "softmax1": (None, None, None, None, None, 0.02, None, None, 0.38),
    "diffusion": (None, None, None, 0.23, None, None, None, None, None),
}


@pytest.mark.parametrize("id", SAID)
def test_a_row_says_what_the_document_says(id: str) -> None:
    """To the digits of the document; another processor may change the last one."""
    torch.set_num_threads(1)
    texts = json.loads((beyond.ZOO / "heldout.json").read_text())[:beyond.SEQUENCES]
    cells = [cell.split()[0] for cell in beyond.row(id, texts).strip("|").split("|")]
    assert cells[0] == f"`{id}`" and len(cells) == 1 + len(SAID[id])
    for found, said in zip(cells[1:], SAID[id]):
        if said is not None:
            near = 0.0101 if abs(said) < 1 else 0.051
            assert float(found) == pytest.approx(said, abs=near), cells


def test_a_post_norm_has_no_parts_and_a_sum_of_none_is_not_one() -> None:
    torch.set_num_threads(1)
    texts = json.loads((beyond.ZOO / "heldout.json").read_text())[:beyond.SEQUENCES]
    assert "| nan of 0 |" in beyond.row("post-norm", texts)
    # What is written to the logits of the sink heads, over the sequences.
    assert "| 1.02 of 22 |" in beyond.row("softmax", texts)


def test_the_units_are_complete_and_one_is_measured_again() -> None:
    torch.set_num_threads(1)
    found = json.loads(beyond.FILE.read_text())
    for name, (_, units) in beyond.groups().items():
        assert [one["unit"] for one in found[name]] == list(units), "run beyond --units"
    kept = next(one for one in found["models with a sink"] if one["unit"] == "heads-8")
    texts = json.loads(beyond.HELD_OUT.read_text())[:beyond.SEQUENCES]
    again = beyond.streams(*read_model(beyond.ZOO / "heads-8"), beyond.held_out_ids("heads-8", texts))
    for name, value in again.items():
        # A head near the threshold may fall on either side on another processor.
        assert value == pytest.approx(kept[name], abs=0.5 if name == "sink_1" else 1e-3), name


def test_units_are_measured_once_and_kept_in_order(
        monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    measured: list[int] = []

    def measure(unit: int) -> dict[str, float]:
        measured.append(unit)
        return {"a": unit / 3, "b": float("nan")}

    monkeypatch.setattr(beyond, "FILE", tmp_path / "units.json")
    monkeypatch.setattr(beyond, "groups", lambda: {"one": (measure, (3, 1)), "two": (measure, (2,))})
    beyond.measure_units(["two"])
    assert json.loads(beyond.FILE.read_text()) == {"two": [{"unit": 2, "a": 0.6667, "b": None}]}
    beyond.measure_units(["one", "two"])
    assert measured == [2, 3, 1]
    found = json.loads(beyond.FILE.read_text())
    assert [list(found), [one["unit"] for one in found["one"]]] == [["one", "two"], [3, 1]]


def test_a_valley_is_below_the_lower_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mean entropies of two sequences are 0.9, 0.5, 0.3 and 0.7."""
    entropies = torch.tensor([[0.8, 0.4, 0.2, 0.6], [1.0, 0.6, 0.4, 0.8]])
    monkeypatch.setattr(beyond.metrics, "matrix_entropy", lambda hidden: hidden)
    assert beyond.valley(entropies) == pytest.approx(0.7 - 0.3)
    assert beyond.valley(torch.tensor([[0.9, 0.95, 0.7]])) == pytest.approx(-0.25)


def test_what_follows_a_place_is_judged_by_its_own_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two sequences of four tokens and three words the logits favour word 0 in row 1, 1 in row 2."""
    logits = torch.full((2, 4, 3), 0.0)
    logits[:, 1, 0] = logits[:, 2, 1] = math.log(2)
    logits[:, 0], logits[:, 3] = 99 * torch.eye(3)[2], -99 * torch.eye(3)[0]
    att = torch.zeros(2, 1, 2, 4, 4)
    att[..., 0] = torch.tensor([[1.0, 1.0, 0.5, 0.1], [1.0, 1.0, 0.3, 0.7]])
    made = SimpleNamespace(logits=logits, att=att)
    monkeypatch.setattr(beyond, "f64_trace", lambda arch, weights, ids: made)
    loss, first = beyond.behind(None, {}, torch.tensor([[2, 2, 0, 1], [1, 1, 0, 0]]), 2)  # type: ignore[arg-type]
    assert loss == pytest.approx((3 * math.log(2) + math.log(4)) / 4)
    assert first == pytest.approx(0.4)


def test_a_model_that_has_learnt_nothing_is_as_it_was_before(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.set_num_threads(1)
    given: list[str] = []

    def untrained(*words: object) -> list[dict[str, float]]:
        given.extend(map(str, words))
        shutil.copytree(beyond.ZOO / "softmax", Path(given[given.index("--out") + 1]))
        texts = json.loads(Path(given[given.index("--text-file") + 1]).read_text())
        assert texts == json.loads(beyond.HELD_OUT.read_text())[beyond.SEQUENCES:]
        return []

    monkeypatch.setattr(beyond, "command_line", untrained)
    found = beyond.of_planted(3)
    assert given[:3] == ["train", "--from", str(beyond.ZOO / "softmax")]
    assert given[given.index("--seed") + 1] == "3"
    for name in (f"{what}_{of}" for what in ("loss", "first") for of in ("trigger", "random", "gap")):
        assert found[name] == found[f"before_{name}"]
    assert found["loss_gap"] == found["loss_trigger"] - found["loss_random"] != 0
    # It does not say what was never planted.
    assert found["learnt"] < 0.5


def test_every_planted_trigger_was_learnt() -> None:
    """Else loss and attention behind it would be those of any tokens."""
    for unit in json.loads(beyond.FILE.read_text())["planted triggers"]:
        assert unit["learnt"] > 0.99


def test_the_command_prints_a_row_for_each_model(
        monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(beyond, "row", lambda id, texts: f"| {id} {len(texts)} |")
    monkeypatch.setattr(sys, "argv", ["beyond", "short", "relu"])
    beyond.main()
    head, rule, *rows = capsys.readouterr().out.splitlines()
    assert head.count("|") == rule.count("|") == 11
    assert rows == ["| short 24 |", "| relu 24 |"]
    monkeypatch.setattr(sys, "argv", ["beyond"])
    beyond.main()
    assert len(capsys.readouterr().out.splitlines()) == 2 + 35
    monkeypatch.setattr(sys, "argv", ["beyond", "sofmax"])
    with pytest.raises(SystemExit):
        beyond.main()
    assert "no such model: sofmax" in capsys.readouterr().err
