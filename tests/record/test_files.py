"""Checks that files are written completely or not at all and only to regular files, that targets are checked before the
work, and how texts are read."""

import copy
import csv
import io
import json
import os
import re
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sinkscope
from families import FAMILIES, make_inputs, record
from sentences import refused
from sinkscope.__main__ import main
from sinkscope.files import atomic_replacement, check_target, write_bytes
from sinkscope.recording import RecordingError, confidence_interval, t_quantile
from sinkscope.texts import read_texts
from truth import rounding_of

PROMPTS = make_inputs(FAMILIES["llama"], 5)


@pytest.fixture(scope="module")
def recording() -> sinkscope.Recording:
    return record(FAMILIES["llama"].make("sdpa"), PROMPTS)


def list_names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_no_file_stays_open_and_no_temporary_file_remains(tmp_path: Path) -> None:
    """Neither the check before the work, nor a write, nor a failed write leaves a temporary file."""
    open_count = len(os.listdir("/dev/fd"))
    check_target(tmp_path / "a")
    assert list_names(tmp_path) == []
    with atomic_replacement(tmp_path / "a") as part:
        part.write_bytes(b"all")
    with pytest.raises(KeyError), atomic_replacement(tmp_path / "b"):
        raise KeyError
    assert list_names(tmp_path) == ["a"]
    assert len(os.listdir("/dev/fd")) == open_count


def test_two_writers_of_one_path_use_different_temporary_files(recording: sinkscope.Recording, tmp_path: Path) -> None:
    path = tmp_path / "r.safetensors"
    with atomic_replacement(path) as first_part, atomic_replacement(path) as second_part:
        assert first_part != second_part and first_part.parent == second_part.parent == tmp_path
        first_part.write_bytes(b"one")
        second_part.write_bytes(b"other")
    assert path.read_bytes() == b"one" and list_names(tmp_path) == ["r.safetensors"]


def test_a_link_in_the_place_of_the_temporary_file_is_not_followed(
    recording: sinkscope.Recording, tmp_path: Path
) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"mine")
    (tmp_path / "r.safetensors.part").symlink_to(victim)
    recording.save(tmp_path / "r.safetensors")
    assert victim.read_bytes() == b"mine"
    assert sinkscope.Recording.open(tmp_path / "r.safetensors").model == recording.model


def test_a_failed_write_leaves_no_file(
    recording: sinkscope.Recording, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "r.safetensors"
    path.write_bytes(b"before")

    def fail_midway(self: Path, data: bytes) -> int:
        with self.open("wb") as file:
            file.write(data[:100])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", fail_midway)
    with pytest.raises(OSError, match="No space left"):
        recording.save(path)
    assert list_names(tmp_path) == ["r.safetensors"] and path.read_bytes() == b"before"


def test_a_file_has_the_mode_of_the_process(recording: sinkscope.Recording, tmp_path: Path) -> None:
    path, touched_file = tmp_path / "r.safetensors", tmp_path / "plain"
    touched_file.touch()
    recording.save(path)
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(touched_file.stat().st_mode)
    path.chmod(0o640)
    recording.save(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_special_files_are_rejected(recording: sinkscope.Recording, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with refused(OSError):
        recording.save(tmp_path / "link")
    for name in ("pipe", "folder"):
        with refused(OSError):
            recording.save(tmp_path / name)
        with refused(RecordingError):
            sinkscope.Recording.open(tmp_path / name)


@pytest.mark.parametrize(
    ("out", "expected"),
    [
        ("blocked/r.safetensors", "a folder that takes files"),
        (".", "regular file or none, found"),
    ],
)
def test_the_output_path_is_checked_before_the_model_runs(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    out: str,
    expected: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "blocked").write_text("a file")
    (tmp_path / "texts.json").write_text('["a"]')
    monkeypatch.setattr("sinkscope.loading.load", lambda *_, **__: pytest.fail("the model was loaded"))
    assert main(["record", "none", "--texts", str(tmp_path / "texts.json"), "--out", str(tmp_path / out)]) == 1
    assert expected in capsys.readouterr().err
    for change in (["--first", "64"], ["--tokens", "1"], ["--keep", "-1"]):
        files = ["--texts", str(tmp_path / "texts.json"), "--out", str(tmp_path / "r")]
        assert main(["record", "none", *files, *change]) == 1
        assert "expected" in capsys.readouterr().err


@pytest.mark.parametrize("eps", ["nan", "x", "0.1,,0.2", "-1", "30"])
def test_eps_of_the_command_line_are_numbers_from_0_to_1(eps: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["record", "none", "--texts", "t", "--out", "o", f"--eps={eps}"])
    assert "--eps: " in capsys.readouterr().err


def test_only_line_feeds_end_a_line_of_json_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('\ufeff{"text": "one\u2028line\u0085here"}\r\n\n{"text": "two"}\n', encoding="utf-8", newline="")
    assert read_texts(path) == ["one\u2028line\u0085here", "two"]
    (tmp_path / "a.txt").write_bytes("\ufeffone\n\ntwo".encode())
    assert read_texts(tmp_path / "a.txt") == ["one", "two"]
    (tmp_path / "a.json").write_bytes('\ufeff["one"]'.encode())
    assert read_texts(tmp_path / "a.json") == ["one"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.jsonl", b'{"text": "a"}\n"b"\n'),
        ("a.jsonl", b'{"text": "a"}\n3\n'),
        ("a.jsonl", b'{"text": "a"}\n{"text": null}\n'),
        ("a.jsonl", b'{"text": "a"}\n{"te\n'),
        ("a.json", b"["),
        ("a.txt", b"\xff\xfe"),
    ],
)
def test_files_of_texts_are_rejected_with_their_line(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with refused(ValueError) as error:
        read_texts(tmp_path / name)
    assert type(error.value) is ValueError and "\n" not in str(error.value)


def test_json_and_csv_have_no_nan(
    recording: sinkscope.Recording, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    single_recording = record(FAMILIES["llama"].make("sdpa"), PROMPTS[:1])
    path = tmp_path / "r.safetensors"
    single_recording.save(path)
    assert main(["measure", str(path), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out, parse_constant=lambda name: pytest.fail(name))
    assert rows[0]["metric"] == "alpha_1" and rows[0]["deviation"] is None and rows[0]["low"] is None
    assert main(["measure", str(path), "--csv"]) == 0
    output = capsys.readouterr().out
    assert "\\" not in output and "\r" not in output  # the line ends with a line feed, which is not escaped
    csv_rows = list(csv.DictReader(io.StringIO(output)))
    assert set(csv_rows[0]) == set(rows[0])
    assert float(csv_rows[0]["mean"]) == rows[0]["mean"] and csv_rows[0]["deviation"] == ""
    assert main(["measure", str(path), "--csv", "--heads"]) == 0
    heads = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [(row["layer"], row["head"]) for row in heads] == [(str(i), str(h)) for i in range(3) for h in range(4)]
    assert float(heads[5]["alpha"]) == single_recording["mean.alpha"][1, 1, 0]


def test_intervals_are_those_of_student(recording: sinkscope.Recording) -> None:
    # The quantiles of Student's t are those of printed tables: 95% two-sided at 1, 2, 4, 10, 30 and 1,000 degrees of
    # freedom.
    for freedom, expected in (
        (1, 12.7062),
        (2, 4.3027),
        (4, 2.7764),
        (10, 2.2281),
        (30, 2.0423),
        (1000, 1.9623),
    ):
        assert abs(t_quantile(freedom, 0.95) - expected) < 6e-5 * expected
    row = recording.table()[0]
    x = recording["prompt.alpha_1"].astype(np.float64)
    half_width = 2.7764 * x.std(ddof=1) / np.sqrt(5)
    bound = 0.5e-4 / 2.7764 * half_width + rounding_of(x, 5)  # half a step of the printed digits
    assert abs(row["low"] - (x.mean() - half_width)) < bound
    assert abs(row["high"] - (x.mean() + half_width)) < bound
    assert "Student" in recording.table().title
    assert all(np.isnan(x) for x in confidence_interval(np.array([1.0, np.nan])))
    assert np.allclose(confidence_interval(np.array([1.0, 3.0])), (2 - 12.7062, 2 + 12.7062), rtol=1e-4)
    labels = {row["metric"]: row for row in recording.table()}
    for label in (
        "entropy",
        "|v_1| / |v|",
        "|h_1| / |h|",
        "cosine gap",
        "Sink_1, eps 0.1",
        "loss",
    ):
        row = labels[label]
        assert row["low"] <= row["mean"] <= row["high"], label


def test_two_recordings_are_compared_prompt_by_prompt(recording: sinkscope.Recording) -> None:
    model = FAMILIES["llama"].make("sdpa")
    model.model.layers[0].self_attn.q_proj.weight.data.mul_(0.5)
    other = record(model, PROMPTS)
    rows = {row["metric"]: row for row in sinkscope.compare(recording, other)}
    difference = (other["prompt.alpha_1"] - recording["prompt.alpha_1"]).astype(np.float64)
    row = rows["alpha_1"]
    bound = rounding_of(recording["prompt.alpha_1"], 2 * 5)
    assert abs(row["difference"] - difference.mean()) < bound and row["prompts"] == 5
    assert np.allclose((row["low"], row["high"]), confidence_interval(difference), rtol=0, atol=bound)
    fewer_prompts = record(model, PROMPTS[:4])
    other_order = record(model, PROMPTS[::-1])
    for incomparable, expected in ((fewer_prompts, "as many in both"), (other_order, "the same texts")):
        with pytest.raises(ValueError, match=expected):
            sinkscope.compare(recording, incomparable)


def test_a_recording_gives_its_citation(recording: sinkscope.Recording) -> None:
    output = recording.cite()
    assert "2410.10781" in output and "n = 5 prompts of T = 48 tokens, eps 0.1, 0.2, 0.3" in output


def test_a_picture_shows_the_named_head(recording: sinkscope.Recording) -> None:
    pytest.importorskip("anywidget", reason="anywidget is not installed")
    pytest.importorskip("matplotlib")

    def drawn_head(**options: int) -> str:
        result = re.search(r"attention of (L\d+H\d+)", sinkscope.picture(recording, format="svg", **options).decode())
        assert result
        return result[1]

    alpha = recording["mean.alpha"][..., 0]
    layer, head = map(int, np.unravel_index(alpha.argmax(), alpha.shape))
    assert drawn_head() == f"L{layer}H{head}"
    for row in range(3):
        assert drawn_head(layer=row) == f"L{row}H{alpha[row].argmax()}"
        assert drawn_head(layer=row, head=3 - row) == f"L{row}H{3 - row}"
    assert drawn_head(head=2) == f"L{alpha[:, 2].argmax()}H2"
    recording = sinkscope.Recording(copy.deepcopy(recording.conditions), recording.tensors)
    recording.model["layers"], recording.model["blocks"] = [3, 7, 11], 12
    assert drawn_head(layer=7, head=1) == "L7H1" and sinkscope.show(recording, layer=7, head=1).layer == 1
    for options, expected in (({"layer": 1}, r"with attention \(3, 7, 11\), found 1"), ({"head": 4}, "below 4")):
        with pytest.raises(ValueError, match=expected):
            sinkscope.picture(recording, **options)


def test_a_picture_draws_a_name_with_a_dollar(recording: sinkscope.Recording) -> None:
    widget: Any = pytest.importorskip("sinkscope.widget", reason="anywidget is not installed", exc_type=ImportError)
    pytest.importorskip("matplotlib")
    recording.model["id"] = r"a $\frac{$ model"
    assert widget.picture(recording).startswith(b"\x89PNG")
    svg = widget.picture(recording, format="svg").decode()
    assert "n = 5 prompts" in svg and "eps 0.1" in svg
    assert f"Drawn by Sinkscope {sinkscope.__version__}" in svg


def test_the_next_writer_removes_the_parts_of_killed_ones_and_no_others(tmp_path: Path) -> None:
    write = """
import os, signal, sys
from sinkscope.files import atomic_replacement
with atomic_replacement(sys.argv[1]) as part:
    part.write_bytes(b"half")
    os.kill(os.getpid(), signal.SIGKILL)
"""
    target, own = tmp_path / "r.safetensors", tmp_path / ".mine.part"
    own.write_bytes(b"a file of the user")
    for _ in range(3):
        source = Path(sinkscope.__file__).parents[1]
        subprocess.run([sys.executable, "-c", write, target], env=os.environ | {"PYTHONPATH": str(source)})
    assert not target.exists() and any(path.name.endswith(".part") for path in tmp_path.iterdir() if path != own)
    with atomic_replacement(tmp_path / "other") as running:
        running.write_bytes(b"all")
        write_bytes(target, b"whole")
        assert {path.name for path in tmp_path.iterdir()} == {target.name, own.name, running.name}
    assert {path.name for path in tmp_path.iterdir()} == {target.name, own.name, "other"}
    assert target.read_bytes() == b"whole" and (tmp_path / "other").read_bytes() == b"all"


def test_a_folder_of_a_study_removes_the_parts_of_killed_writers(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    from sinkscope.storage import Folder

    kill = """
import os, pathlib, signal, sys
from sinkscope.storage import Folder
os.replace = pathlib.Path.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
Folder(sys.argv[1]).write("rows.parquet", b"half")
"""
    source = Path(sinkscope.__file__).parents[1]
    environment = os.environ | {"PYTHONPATH": str(source)}
    assert subprocess.run([sys.executable, "-c", kill, tmp_path], env=environment).returncode == -9
    assert [path.suffix for path in tmp_path.iterdir()] == [".part"]
    Folder(tmp_path).write("other.parquet", b"all")
    assert [path.name for path in tmp_path.iterdir()] == ["other.parquet"]
