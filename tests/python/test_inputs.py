"""What inputs.json rests on: which models it is of, and what each of its columns is measured on."""

import dataclasses
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from torch import Tensor  # noqa: E402

from models.train import inputs, protocol  # noqa: E402
from models.train.recipe import recipes  # noqa: E402

TEXTS = [json.loads((protocol.ZOO / f"{name}.json").read_text()) for name in ("heldout", "heldout-long")]


@pytest.mark.parametrize(("id", "sink", "mass", "is_chosen"), [
    ("softmax", 10.0, 1.0, True), ("softmax", 9.99, 1.0, False), ("softmax", 50.0, 0.999, False),
    ("gated", 50.0, 1.0, True),
    ("short", 50.0, 1.0, False),  # an earlier step of softmax
    ("fixed-second", 50.0, 1.0, False),  # the sink is another token
    ("diffusion", 50.0, 1.0, False), ("prefix", 50.0, 1.0, False), ("window", 50.0, 1.0, False),
])
def test_which_models_are_measured(id: str, sink: float, mass: float, is_chosen: bool) -> None:
    row = {"id": id, "measured": {"sink_1": sink, "row_mass_min": mass}}
    assert inputs.chosen([row]) == [id] * is_chosen


def test_each_column_is_measured_on_its_own_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a model whose alpha_1 is a fixed number for each kind of input."""
    met: list[Tensor] = []

    def alphas(arch: Any, weights: Any, ids: Tensor) -> Tensor:
        met.append(ids)
        # Of 64 tokens 0.5, then 0.4, then 0.3; of the longer passages four heads.
        if ids.shape[1] == 64:
            return torch.full((len(ids), 1, 1), 0.6 - 0.1 * len(met))
        return torch.tensor([0.1, 0.25, 0.35, 0.35] if ids.shape[1] == 32 else [0.1, 0.1, 0.25, 0.35])

    monkeypatch.setattr(inputs, "alphas", alphas)
    monkeypatch.setattr(inputs, "read_model", lambda folder: (folder.name, None))
    monkeypatch.setattr(inputs, "heads_geometry", lambda arch, weights, ids: (0.12345, 0.5))
    found = inputs.measure("softmax")
    even = sum(1 / n for n in range(1, 65)) / 64
    assert found == {
        "model": "softmax", "alpha": round(0.5 - even, 4), "alpha_random": round(0.4 - even, 4),
        "alpha_repeat": round(0.3 - even, 4), "sink_0.2_32": 75.0, "sink_0.3_32": 50.0,
        "sink_0.4_32": 0.0, "sink_0.2_120": 50.0, "sink_0.3_120": 25.0, "sink_0.4_120": 0.0,
        "fall_0.2": 0.3333, "fall_0.3": 0.5, "fall_0.4": None,  # of no sink nothing is lost
        "key_ratio": 0.1235, "cos_gap": 0.5}
    text, drawn, repeated, short, long = met
    assert [tuple(ids.shape) for ids in met] == [(100, 64)] * 3 + [(40, 32), (40, 120)]
    assert (text[:, 0] == 0).all() and (drawn[:, 0] == 0).all() and torch.equal(long[:, :32], short)
    # Drawn from all of the vocabulary, and another for each sequence.
    assert len(drawn[:, 1:].unique()) > 1000 and drawn.max() < 1024
    assert (repeated == repeated[:, :1]).all() and len(repeated.unique()) > 90
    met.clear()
    inputs.measure("fixed-third")
    # Nothing in front, but the third token is always the same.
    assert (met[1][:, 2] == 1).all() and len(met[1][:, 0].unique()) > 90


def test_the_geometry_is_that_of_sink_heads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two heads that read one key head, and two that read another; one of the latter has a sink."""
    arch = dataclasses.replace(inputs.read_model(protocol.ZOO / "softmax")[0], L=1, H=4, G=2)
    to_first = torch.tensor([0.2, 0.2, 0.2, 0.9]).reshape(4, 1, 1)
    att = torch.zeros(2, 1, 4, 3, 3)
    att[..., 0], att[..., 0, 0] = to_first.reshape(4, 1), 0.1
    keys = torch.tensor([[[9.0, 0], [1, 0], [1, 0]], [[0, 1], [2, 0], [2, 0]]])
    queries = torch.tensor([1.0, 0]).expand(2, 1, 4, 3, 2)
    monkeypatch.setattr(inputs, "forward", lambda arch, weights, ids: SimpleNamespace(
        att=att, q=queries, k=keys.expand(2, 1, 2, 3, 2)))
    # Of the sink head's keys the first is half as long, and at right angles to every query.
    ratio, gap = inputs.heads_geometry(arch, {}, torch.zeros(2, 3, dtype=torch.long))
    assert (ratio, gap) == (0.5, pytest.approx(-1.0))


def test_the_file_has_a_line_for_each_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "FILE", tmp_path / "inputs.json")
    monkeypatch.setattr(inputs, "chosen", lambda rows: [row["id"] for row in rows[:2]])
    monkeypatch.setattr(inputs, "measure", lambda id: {"model": id, "alpha": 0.5})
    threads: list[int] = []
    monkeypatch.setattr(torch, "set_num_threads", threads.append)
    inputs.main()
    assert threads == [1]  # the order of a sum is that of one thread
    ids = list(recipes())[:2]
    assert inputs.FILE.read_text() == "[\n" + ",\n".join(
        f'{{"model": "{id}", "alpha": 0.5}}' for id in ids) + "\n]\n"
