"""Checks that a committed run can be repeated beside its log, and that nothing of the zoo is touched."""

import json
import sys
from pathlib import Path

import pytest
from sentences import check_sentence

from models.train import protocol, repeat
from models.train.outcomes import Log
from models.train.recipe import Recipe

RECIPE = protocol.decisive_runs()["b-alibi"]


def fake_training(monkeypatch: pytest.MonkeyPatch, change: float) -> None:
    """Replaces the training by one that copies the committed points, with another loss."""

    def train(recipe: Recipe, seed: int, corpora: Path, runs: Path, device: str, until: int, zoo: Path) -> None:
        committed = protocol.read_log(recipe, seed)
        log = Log(recipe, seed, zoo)
        log.log["points"] = [
            point | {"loss": point["loss"] + change * (point["step"] > 0), "first_layer": None}
            for point in committed["points"]
            if point["step"] <= until
        ]
        protocol.write_log(log.log, log.file)

    monkeypatch.setattr(repeat, "train", train)


@pytest.mark.parametrize(("change", "status"), [(0.0, 0), (0.0019, 0), (0.0021, 1)])
def test_each_step_is_printed_beside_the_log(
    change: float, status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = protocol.log_file(RECIPE, 1)
    before = file.read_bytes()
    fake_training(monkeypatch, change)
    bystanders = [tmp_path / "zoo/alibi/b/1.json", tmp_path / "b-alibi-1/checkpoint.pt"]  # of models, and models/.runs
    for bystander in bystanders:
        bystander.parent.mkdir(parents=True)
        bystander.write_text("kept")
    monkeypatch.setattr(sys, "argv", ["repeat", "b-alibi", "--corpora", "texts", "--runs", str(tmp_path)])
    with pytest.raises(SystemExit) as end:
        repeat.main()
    out = capsys.readouterr().out
    assert end.value.code == status and file.read_bytes() == before
    assert all(bystander.read_text() == "kept" for bystander in bystanders)
    check_sentence(out.splitlines()[0], Path(__file__))
    point = next(point for point in protocol.read_log(RECIPE, 1)["points"] if point["step"] == 200)
    assert f"  loss          {point['loss']:11.4f}" in out and f"{change:+.4f}" in out
    assert "not compared, since the committed log lacks them: first_layer\n" in out
    assert out.count("differs") == 2 * status and "step 0\n" in out and "step 200\n" in out


def test_every_column_of_every_log_is_compared_and_a_null_agrees_with_a_null_alone() -> None:
    logs = [
        json.loads(file.read_text())
        for file in [*protocol.ZOO.glob("*/b/*.json"), *protocol.ZOO.glob("*/seeds/*.json")]
    ]
    columns = {name for log in logs for point in log["points"] for name in point} - {"step"}
    assert {repeat.tolerance_of(name) for name in columns} == {0, 0.002, 0.005, 0.02, 0.5}
    assert {"alpha_of_2", "sink_bias_0.4", "first_layer", "sink_0.2"} <= columns
    committed = {"step": 200, "alpha": 0.1, "sink_0.3": 1.0, "first_layer": None, "eviction": None}
    repeated = committed | {"alpha": 0.1021, "sink_0.3": 1.4, "first_layer": 1, "alpha_of_1": 0.1}
    assert [(row[0], row[-1]) for row in repeat.compare_points(committed, repeated)] == [
        ("alpha", False),
        ("sink_0.3", True),
        ("first_layer", False),
        ("eviction", True),
    ]


@pytest.mark.parametrize(
    "arguments",
    [
        ["b-alibi", "--until", "150"],
        ["b-alibi", "--seed", "4"],
        ["b-alibi", "--runs", str(protocol.ZOO / "x")],
        ["b-alibo"],
    ],
)
def test_what_cannot_be_repeated_is_refused(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["repeat", *arguments, "--corpora", "texts"])
    with pytest.raises(SystemExit):
        repeat.main()
    error = capsys.readouterr().err.splitlines()[-1]
    check_sentence(error.replace(str(protocol.ZOO), "models/zoo"), Path(__file__))
