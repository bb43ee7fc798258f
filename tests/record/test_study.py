"""Checks studies: their rows, parts and recordings, how they resume after a kill, and where they are written."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import sinkscope
import torch
from families import FAMILIES, D, L, T, make_inputs
from sentences import refused
from truth import rounding_of, tensor_rounding, tolerance_of

pytest.importorskip("pyarrow", reason="pyarrow is not installed")

import killed  # noqa: E402
from sinkscope import loading, studies  # noqa: E402
from sinkscope.blocks import from_bytes  # noqa: E402
from sinkscope.recording import MetricStatistics  # noqa: E402
from sinkscope.storage import Folder  # noqa: E402

TEXTS = make_inputs(FAMILIES["llama"], 12)

SETTINGS = {"tokens": T, "eps": [0.05, 0.3], "keep": 2, "batch": 4, "block": 4}
PACKED_COLUMNS = ("sums", "kept")


def make_factory(name: str) -> Any:
    return lambda: (FAMILIES[name].make(FAMILIES[name].implementations[0]), None)


def assert_same_rows(actual: Path, expected: Path) -> None:
    rows = [list(studies.rows_of(folder)) for folder in (actual, expected)]
    assert len(rows[0]) == len(rows[1]) > 0
    for actual_row, expected_row in zip(*rows, strict=True):
        assert actual_row.keys() == expected_row.keys()
        for key in actual_row.keys() - {*PACKED_COLUMNS}:
            assert repr(actual_row[key]) == repr(expected_row[key]), key  # repr makes NaN equal to NaN
        for key in PACKED_COLUMNS:
            assert (actual_row[key] is None) == (expected_row[key] is None)
            if actual_row[key]:
                assert_same_tensors(from_bytes(actual_row[key]), from_bytes(expected_row[key]))


def assert_same_tensors(a: dict[str, Any], b: dict[str, Any]) -> None:
    assert a.keys() == b.keys()
    assert all(np.array_equal(a[k], b[k], equal_nan=a[k].dtype.kind == "f") for k in a)


def assert_same_recordings(actual: dict[str, str], expected: dict[str, str]) -> None:
    assert actual.keys() == expected.keys()
    for name in actual:
        actual_recording, expected_recording = (
            sinkscope.Recording.open(addresses[name]) for addresses in (actual, expected)
        )
        assert_same_tensors(actual_recording.tensors, expected_recording.tensors)
        assert actual_recording.conditions == expected_recording.conditions


@pytest.fixture(scope="module")
def plain_study(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    out = tmp_path_factory.mktemp("plain")
    addresses = studies.study({name: make_factory(name) for name in ("llama", "bloom")}, TEXTS, out, **SETTINGS)
    assert set(addresses) == {"llama", "bloom"}
    return out, addresses


def test_the_recording_is_that_of_the_same_prompts(plain_study: tuple[Path, dict[str, str]]) -> None:
    options = {key: SETTINGS[key] for key in ("tokens", "eps", "keep")}
    for name, address in plain_study[1].items():
        result = sinkscope.Recording.open(address)
        expected = sinkscope.record(make_factory(name)()[0], None, TEXTS, model_id=name, progress=False, **options)
        assert result.tensors.keys() == expected.tensors.keys()
        for key, value in expected.tensors.items():
            assert np.allclose(result[key], value, rtol=0, atol=tensor_rounding(value, D), equal_nan=True), key
            assert result[key].dtype == value.dtype
        digests = {key: result.model.pop(key) for key in ("weights_sha256", "tokenizer_sha256")}
        assert digests["weights_sha256"] and digests["tokenizer_sha256"] is None
        assert result.conditions == expected.conditions


def test_a_row_has_the_numbers_of_each_head_and_stored_maps(plain_study: tuple[Path, dict[str, str]]) -> None:
    rows = list(studies.rows_of(plain_study[0], "llama"))
    recording = sinkscope.Recording.open(plain_study[1]["llama"])
    assert [row["prompt"] for row in rows] == list(range(len(TEXTS)))
    assert [row["prompt"] for row in rows if row["kept"] or row["tokens"]] == [0, 1]
    assert [row["prompt"] for row in rows if row["sums"]] == [0, 4, 8]
    for name, head_means in (("alpha", recording["mean.alpha"][..., 0]), ("distance", recording["mean.distance"])):
        row_values = np.array([row[f"head_{name}"] for row in rows]).reshape(-1, *head_means.shape)
        assert np.allclose(row_values.mean(0), head_means, rtol=rounding_of(1, len(TEXTS)))
        for extreme, values in (("max", row_values.max(0)), ("min", row_values.min(0))):
            expected = recording[f"{extreme}.{name}"].reshape(*head_means.shape, -1)[..., 0]
            assert np.array_equal(values, expected)
    table = Folder(plain_study[0]).read_table(f"rows/{rows[0]['checkpoint']}/00001-of-00003.parquet")
    assert table.drop_columns(list(PACKED_COLUMNS)).nbytes / 4 < 4096  # bytes of a prompt


def test_a_row_has_numbers_of_the_token_that_counts_as_the_first(tmp_path: Path) -> None:
    arguments = {"tokens": T, "keep": 1, "first": 1}
    studies.study({"llama": make_factory("llama")}, TEXTS[:2], tmp_path, batch=2, **arguments)
    rows = list(studies.rows_of(tmp_path, "llama"))
    expected = sinkscope.record(make_factory("llama")()[0], None, TEXTS[:2], progress=False, **arguments)
    alpha, bound = expected["mean.alpha"], tolerance_of(torch.from_numpy(expected.attention(0)), L * D)
    row_values = np.array([row["head_alpha"] for row in rows]).reshape(-1, *alpha.shape[:-1])
    assert np.allclose(row_values.mean(0), alpha[..., 1], rtol=0, atol=bound)
    assert not np.allclose(row_values.mean(0), alpha[..., 0], rtol=1e-2)
    assert rows[0]["first_token"] == rows[0]["tokens"][1] != rows[0]["tokens"][0]


def test_sums_over_parts_add_up_to_the_sums_over_all_prompts() -> None:
    values = np.random.default_rng(1).normal(1e4, 1, (50, 3)).astype(np.float32)
    parts = []
    for part_values in (values[:1], values[1:30], values[30:]):
        statistics = MetricStatistics()
        for row in part_values:
            statistics.add({"x": row, "distance": row})
        parts.append(MetricStatistics.of_state(statistics.count, statistics.state()))
    for order in ((0, 1, 2), (2, 0, 1)):
        joined_statistics = MetricStatistics()
        for i in order:
            joined_statistics.join(parts[i])
        result, values64 = joined_statistics.tensors(), values.astype(np.float64)
        assert joined_statistics.count == 50
        assert np.allclose(result["mean.x"], values64.mean(0), rtol=2e-7)  # half a step of float32 is 6e-8
        assert np.allclose(result["deviation.x"], values64.std(0, ddof=1), rtol=1e-6)
        assert np.array_equal(result["min.distance"], values.min(0))
        assert np.array_equal(result["max.distance"], values.max(0))
        assert "max.x" not in result


def test_a_study_continues_from_existing_parts(plain_study: tuple[Path, dict[str, str]], tmp_path: Path) -> None:
    out = tmp_path / "study"
    calls: list[str] = []

    def counting_factory(name: str, stop: int | None = None) -> Any:
        def factory() -> Any:
            model, tokenizer = make_factory(name)()

            def count(module: torch.nn.Module, args: tuple[torch.Tensor, ...]) -> None:
                calls.append(name)
                if stop is not None and (args[0] == torch.tensor(TEXTS[stop])).all(-1).any():
                    raise KeyboardInterrupt

            model.get_input_embeddings().register_forward_pre_hook(count)
            return model, tokenizer

        return factory

    with pytest.raises(KeyboardInterrupt):
        studies.study(
            {"llama": counting_factory("llama", stop=9), "bloom": counting_factory("bloom")}, TEXTS, out, **SETTINGS
        )
    assert len(list(studies.rows_of(out))) == 8
    [checkpoint] = (out / "rows").iterdir()
    (checkpoint / ".half.parquet.part").write_bytes(b"what a broken-off write leaves")
    calls.clear()
    factories = {"llama": counting_factory("llama"), "bloom": counting_factory("bloom")}
    result = studies.study(factories, TEXTS, out, **SETTINGS)
    assert Counter(calls) == {"llama": 2 + 1, "bloom": 2 + 2 + 1 + 1}
    assert_same_rows(out, plain_study[0])
    assert_same_recordings(result, plain_study[1])
    calls.clear()
    assert studies.study(factories, TEXTS, out, **SETTINGS) == result
    assert calls == []
    os.remove(result["llama"])  # as if the study was killed between the last part and the recording
    assert_same_recordings(studies.study(factories, TEXTS, out, **SETTINGS), plain_study[1])
    assert calls == []


def test_rows_of_other_settings_or_texts_are_rejected(plain_study: tuple[Path, dict[str, str]], tmp_path: Path) -> None:
    out = tmp_path / "copy"
    shutil.copytree(plain_study[0], out)
    for change in ({"eps": [0.05]}, {"first": 1}, {"block": 5}, {"load_options": {"dtype": "bfloat16"}}):
        with refused(ValueError):
            studies.study({"llama": make_factory("llama")}, TEXTS, out, **SETTINGS | change)
    with refused(ValueError):
        studies.study({"llama": make_factory("llama")}, TEXTS[1:], out, **SETTINGS)


@pytest.mark.parametrize(
    "change",
    [
        {"models": "llama"},
        {"models": []},
        {"texts": "a text"},
        {"texts": []},
        {"tokens": None},
        {"batch": 0},
        {"block": 0},
        {"eps": 0.3},
    ],
)
def test_invalid_arguments_are_rejected_before_a_model_is_made(tmp_path: Path, change: dict[str, Any]) -> None:
    arguments = {
        "models": {"llama": make_factory("llama")},
        "texts": TEXTS,
        "out": tmp_path / "none",
        **SETTINGS,
        **change,
    }
    with refused(ValueError):
        studies.study(**arguments)
    assert not (tmp_path / "none").exists()


def test_short_texts_are_rows_without_numbers(tmp_path: Path) -> None:
    result = studies.study({"llama": make_factory("llama")}, [TEXTS[0][:5], *TEXTS[1:3]], tmp_path, **SETTINGS)
    assert [row["state"] for row in studies.rows_of(tmp_path)] == ["short", "measured", "measured"]
    assert sinkscope.Recording.open(result["llama"]).conditions["prompts"]["count"] == 2
    with pytest.warns(UserWarning, match="bloom: no text"):
        result = studies.study({"bloom": make_factory("bloom")}, [TEXTS[0][:5]], tmp_path / "none", **SETTINGS)
    assert result == {}


def write_checkpoint(folder: Path, seed: int = 5) -> str:
    model = FAMILIES["llama"].make("sdpa")
    with torch.no_grad():
        model.lm_head.weight.add_(seed)
    model.save_pretrained(folder)
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0} | {f"w{i}": i for i in range(1, 97)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="[UNK]").save_pretrained(folder)
    return str(folder)


SENTENCES = [" ".join(f"w{i}" for i in text) for text in TEXTS]


def test_changed_weights_under_the_same_name_are_another_checkpoint(tmp_path: Path) -> None:
    name, out = write_checkpoint(tmp_path / "model"), tmp_path / "study"
    first_addresses = studies.study([name], SENTENCES, out, **SETTINGS)
    (tmp_path / "model" / "README.md").write_text("about it")
    assert studies.study([name], SENTENCES, out, **SETTINGS) == first_addresses
    write_checkpoint(tmp_path / "model", seed=6)
    second_addresses = studies.study([name], SENTENCES, out, **SETTINGS)
    assert first_addresses[name] != second_addresses[name] and Path(first_addresses[name]).exists()
    assert [
        sinkscope.Recording.open(addresses[name]).conditions["prompts"]["count"]
        for addresses in (first_addresses, second_addresses)
    ] == [12, 12]
    rows = Counter((row["weights_sha256"], row["tokenizer_sha256"]) for row in studies.rows_of(out, name))
    assert list(rows.values()) == [12, 12] and len({tokenizer for _, tokenizer in rows}) == 1
    recording = sinkscope.Recording.open(second_addresses[name])
    assert recording.model["weights_sha256"] == loading.digests_of_name(name).weights
    # Checkpoints with different tokenizers can be compared, since their texts are the same.
    assert len(sinkscope.compare(sinkscope.Recording.open(first_addresses[name]), recording)) > 5


def test_digests_are_of_weights_and_of_the_tokenizer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in (("model.safetensors", "w"), ("config.json", "{}"), ("tokenizer.json", "t"), ("README.md", "")):
        (tmp_path / name).write_text(text)
    first_digests = loading.digests_of_name(tmp_path)
    (tmp_path / "README.md").write_text("about it")
    assert loading.digests_of_name(tmp_path) == first_digests
    (tmp_path / "tokenizer.json").write_text("u")
    second_digests = loading.digests_of_name(tmp_path)
    assert second_digests.weights == first_digests.weights and second_digests.tokenizer != first_digests.tokenizer
    (tmp_path / "model.safetensors").write_text("v")
    assert loading.digests_of_name(tmp_path).weights != first_digests.weights

    import huggingface_hub

    requests: list[Any] = []

    def model_info(name: str, revision: str | None, files_metadata: bool) -> Any:
        requests.append((name, revision, files_metadata))
        blobs = {"model.safetensors": f"{revision}", "vocab.json": "v", "onnx/model.onnx": f"{len(requests)}"}
        siblings = [{"rfilename": file, "blobId": blob} for file, blob in blobs.items()]
        return huggingface_hub.hf_api.ModelInfo(id=name, siblings=siblings)

    monkeypatch.setattr(huggingface_hub, "model_info", model_info)
    x_digests, y_digests, repeated_x_digests = (
        loading.digests_of_name("a/b", revision) for revision in ("x", "y", "x")
    )
    assert (
        x_digests == repeated_x_digests
        and x_digests.weights != y_digests.weights
        and x_digests.tokenizer == y_digests.tokenizer
    )
    assert requests[0] == ("a/b", "x", True)


def test_an_unreadable_checkpoint_becomes_an_error_row_and_the_study_continues(tmp_path: Path) -> None:
    out, unreadable_name = tmp_path / "study", str(tmp_path / "model")
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{")
    readable_name = write_checkpoint(tmp_path / "good")
    with pytest.warns(UserWarning, match="model: (OSError|ValueError)"):
        result = studies.study([unreadable_name, readable_name], SENTENCES, out, **SETTINGS)
    assert list(result) == [readable_name]
    [row] = studies.rows_of(out, unreadable_name)
    assert row["state"] == "unreadable" and "config.json" in row["error"] and row["model"] == unreadable_name
    assert Counter(row["state"] for row in studies.rows_of(out)) == {"measured": 12, "unreadable": 1}
    write_checkpoint(tmp_path / "model")
    assert list(studies.study([unreadable_name, readable_name], SENTENCES, out, **SETTINGS)) == [
        unreadable_name,
        readable_name,
    ]
    assert Counter(row["state"] for row in studies.rows_of(out)) == {"measured": 24}


def test_similar_names_have_separate_files(tmp_path: Path) -> None:
    names = ["a/b", "a-b", "a--b", "a b", "A/b", "é", "ü", "x" * 200, "x" * 201]
    result = studies.study(dict.fromkeys(names, make_factory("llama")), TEXTS[:2], tmp_path, **SETTINGS)
    assert len({address.lower() for address in result.values()}) == len(names)
    assert [sinkscope.Recording.open(result[name]).model["id"] for name in names] == names
    assert Counter(row["model"] for row in studies.rows_of(tmp_path)) == dict.fromkeys(names, 2)
    assert all(len(Path(address).name) < 120 for address in result.values())


def test_the_revision_is_part_of_the_name_of_the_model(tmp_path: Path) -> None:
    (tmp_path / "a@b").mkdir()
    job = studies._check_arguments(
        ["a/b@step1000", str(tmp_path / "a@b"), "c"],
        TEXTS,
        tmp_path,
        1,
        None,
        8,
        [0.1],
        1,
        "",
        None,
        {"revision": "main"},
        {},
    )
    assert [studies.split_revision(job, name) for name in job.models] == [
        ("a/b", "step1000"),
        (str(tmp_path / "a@b"), "main"),
        ("c", "main"),
    ]


@pytest.mark.parametrize(
    "out",
    [
        "{}/file/study",
        "{}/file",
        "nowhere://bucket/study",
    ],
)
def test_the_destination_is_tested_before_a_model_is_loaded(tmp_path: Path, out: str) -> None:
    (tmp_path / "file").write_text("")

    def fail() -> Any:
        raise AssertionError("a model was loaded")

    with refused(OSError):
        studies.study({"llama": fail}, TEXTS, out.format(tmp_path), **SETTINGS)


def test_a_study_writes_to_an_address_of_fsspec(plain_study: tuple[Path, dict[str, str]]) -> None:
    out = "memory://bucket/study"
    result = studies.study({name: make_factory(name) for name in ("llama", "bloom")}, TEXTS, out, **SETTINGS)
    assert_same_rows(out, plain_study[0])
    assert_same_recordings(result, plain_study[1])
    folder = Folder(out)
    assert folder.list_names() == sorted(["rows", "study.json", *(Path(address).name for address in result.values())])
    assert studies.study({name: make_factory(name) for name in ("llama", "bloom")}, TEXTS, out, **SETTINGS) == result


def test_a_file_is_moved_into_place_on_a_filesystem_that_shows_unfinished_files(tmp_path: Path) -> None:
    """Most filesystems of fsspec show a file while it is written, so it is written under another name."""
    folder = Folder(f"file://{tmp_path}/study")
    assert folder._is_local  # a filesystem of pyarrow, which replaces files atomically
    from fsspec.implementations.local import LocalFileSystem
    from pyarrow.fs import FSSpecHandler, PyFileSystem

    class SlowFileSystem(LocalFileSystem):
        protocol = "slow"

    folder.filesystem, folder._is_local = PyFileSystem(FSSpecHandler(SlowFileSystem())), False
    listings: list[list[str]] = []
    put = folder._put

    def put_and_list(path: str, data: bytes) -> None:
        put(path, data)
        listings.append(folder.list_names("a"))

    folder._put = put_and_list  # type: ignore[method-assign]
    folder.write("a/one", b"1")
    assert listings == [[]] and folder.list_names("a") == ["one"] and folder.read("a/one") == b"1"

    def put_one_byte(path: str, data: bytes) -> None:
        put(path, data[:1])
        raise OSError("disk full")

    folder._put = put_one_byte  # type: ignore[method-assign]
    with pytest.raises(OSError, match="disk full"):
        folder.write("a/two", b"22")
    assert os.listdir(tmp_path / "study" / "a") == ["one"]


def test_a_plan_writes_nothing_and_names_files_and_bytes(tmp_path: Path) -> None:
    name, out = write_checkpoint(tmp_path / "model"), tmp_path / "study"
    texts = SENTENCES * 20
    arguments = {"tokens": T, "keep": 2, "batch": 4}
    result = studies.plan([name], texts, out, **arguments)
    assert not out.exists()
    row, total = result
    assert (row["prompts"], row["parts"], row["there"], row["passes"], row["files"]) == (240, 15, 0, 60, 16)
    assert total == row | {"model": "all"}
    studies.study([name], texts, out, **arguments)
    files = [path for path in out.rglob("*") if path.is_file() and path.name != "study.json"]
    assert len(files) == row["files"] < 20
    size = sum(path.stat().st_size for path in files)
    assert size / 2 < row["bytes"] < size * 2
    assert studies.plan([name], texts, out, **arguments)[0]["there"] == 15
    assert np.isnan(studies.plan({"own": make_factory("llama")}, texts, out, **arguments)[0]["bytes"])


def test_a_plan_counts_two_bytes_for_a_cell_of_a_full_map_and_one_for_a_pooled_cell(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loading, "sizes_of_name", lambda *_: (1, 1, 1))

    def map_bytes(tokens: int) -> float:
        bytes_with_map, bytes_without_map = (
            studies.plan(["a"], ["a text"], tokens=tokens, keep=keep)[0]["bytes"] for keep in (1, 0)
        )
        return bytes_with_map - bytes_without_map

    assert map_bytes(128) == 2 * 2 * 128**2 and map_bytes(129) == 2 * 128**2  # once in a row and once in the recording


def test_the_driver_needs_no_torch() -> None:
    code = (
        "import sys, sinkscope.studies, sinkscope.texts; "
        "sinkscope.studies.slug('a'); print([m for m in ('torch', 'transformers') if m in sys.modules])"
    )
    source = Path(sinkscope.__file__).resolve().parents[1]
    process = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(source)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert process.stdout.strip() == "[]"


def test_no_row_is_lost_or_doubled_when_workers_and_the_driver_are_killed(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="ray is not installed")
    n, texts, block = 3, 12, 4
    expected = studies.study(killed.models(n), killed.prompts(texts), tmp_path / "plain", **killed.settings(block))
    out = tmp_path / "killed"
    source = str(Path(sinkscope.__file__).resolve().parents[1])
    for code in (-signal.SIGKILL, 0):
        process = subprocess.run(
            [sys.executable, killed.__file__, *(str(x) for x in (out, n, texts, block))],
            capture_output=True,
            text=True,
            env={**os.environ, "RAY_DATA_DISABLE_PROGRESS_BARS": "1", "PYTHONPATH": source},
        )
        assert process.returncode == code, process.stderr[-2000:]
    assert {path.name for path in (out / "markers").iterdir()} == set(killed.KILLS)
    assert_same_rows(out, tmp_path / "plain")
    result = {name: str(out / Path(address).name) for name, address in expected.items()}
    assert_same_recordings(result, expected)
    assert json.loads((out / "study.json").read_text())["block"] == block


@pytest.mark.parametrize(("models", "workers", "tasks"), [(1, 1, 1), (3, 1, 3), (2, 2, 6), (7, 2, 21), (8, 2, 8)])
def test_blocks_stay_together_for_one_worker_or_with_four_models_each(models: int, workers: int, tasks: int) -> None:
    job = SimpleNamespace(models={str(i): None for i in range(models)}, blocks=3)
    task_list = studies.split_tasks(job, workers)  # type: ignore[arg-type]
    assert len(task_list) == tasks
    assert sorted((task.name, b) for task in task_list for b in task.blocks) == sorted(
        (name, b) for name in job.models for b in range(3)
    )
