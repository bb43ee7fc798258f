"""A study on Ray with a worker that is killed in the middle gives the rows of the plain loop."""

import os
import shutil
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sinkscope
import torch
from families import FAMILIES, T, inputs

pytest.importorskip("pyarrow", reason="pyarrow is not installed")

from sinkscope import studies  # noqa: E402

TEXTS = inputs(FAMILIES["llama"], 12)
HEAVY = 7  # the prompt that kills a worker
SETTINGS = {"tokens": T, "eps": [0.05, 0.3], "keep": 2}
NUMBERS = ("sink_1", "alpha_1", "loss", "first_id", "ids", "T", "tokens", "state")


def make(name: str, grave: str | None = None) -> Any:
    """A function that makes the model; at prompt HEAVY its first process dies and leaves `grave`."""

    def factory() -> tuple[torch.nn.Module, None]:
        torch.set_num_threads(1)
        model = FAMILIES[name].make(FAMILIES[name].implementations[0])
        heavy = torch.tensor(TEXTS[HEAVY])

        def die(module: torch.nn.Module, args: tuple[torch.Tensor, ...]) -> None:
            if grave and (args[0] == heavy).all() and not os.path.exists(grave):
                Path(grave).touch()
                os.kill(os.getpid(), signal.SIGKILL)

        model.get_input_embeddings().register_forward_pre_hook(die)
        return model, None

    return factory


def same_rows(found: Path, expected: Path) -> None:
    rows = [list(studies.rows_of(folder)) for folder in (found, expected)]
    assert len(rows[0]) == len(rows[1]) > 0
    for one, other in zip(*rows, strict=True):
        for key in one.keys() - {"metrics", "kept", "conditions"}:
            assert one[key] == other[key], key
        for key in ("metrics", "kept"):
            assert (one[key] is None) == (other[key] is None)
            if one[key]:
                a, b = studies.from_bytes(one[key]), studies.from_bytes(other[key])
                assert a.keys() == b.keys()
                assert all(np.array_equal(a[k], b[k], equal_nan=a[k].dtype.kind == "f") for k in a)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("plain")
    studies.study({name: make(name) for name in ("llama", "bloom")}, TEXTS, out, **SETTINGS)
    return out


def test_the_summary_is_the_recording_of_the_same_prompts(plain: Path) -> None:
    for name in ("llama", "bloom"):
        found = sinkscope.Recording.open(plain / f"{name}.safetensors")
        expected = sinkscope.record(make(name)()[0], None, TEXTS, model_id=name, progress=False,
                                    **SETTINGS)
        assert found.tensors.keys() == expected.tensors.keys()
        for key, value in expected.tensors.items():
            assert np.array_equal(found[key], value, equal_nan=value.dtype.kind == "f"), key
        assert found.conditions == expected.conditions


def test_a_study_goes_on_from_the_rows_that_are_there(plain: Path, tmp_path: Path) -> None:
    out = tmp_path / "study"
    calls: list[str] = []

    def counted(name: str, stop: int | None = None) -> Any:
        def factory() -> Any:
            model, tokenizer = make(name)()

            def count(module: torch.nn.Module, args: tuple[torch.Tensor, ...]) -> None:
                calls.append(name)
                if stop is not None and (args[0] == torch.tensor(TEXTS[stop])).all():
                    raise KeyboardInterrupt

            model.get_input_embeddings().register_forward_pre_hook(count)
            return model, tokenizer

        return factory

    with pytest.raises(KeyboardInterrupt):
        studies.study({"llama": counted("llama", stop=9), "bloom": counted("bloom")}, TEXTS, out,
                      batch=2, **SETTINGS)
    done = len(list(studies.rows_of(out)))
    assert done == 8
    (out / "rows" / "half.part").write_bytes(b"what a broken-off write leaves")
    calls.clear()
    whole = {"llama": counted("llama"), "bloom": counted("bloom")}
    studies.study(whole, TEXTS, out, batch=5, **SETTINGS)
    # The first prompt of each worker and model runs three times: untouched, checked, measured.
    assert calls.count("llama") == 4 + 2
    assert calls.count("bloom") == 12 + 2
    same_rows(out, plain)
    calls.clear()
    studies.study(whole, TEXTS, out, **SETTINGS)
    assert calls == []


def test_rows_of_other_settings_or_texts_are_refused(plain: Path, tmp_path: Path) -> None:
    out = tmp_path / "copy"
    shutil.copytree(plain, out)
    for change in ({"eps": [0.05]}, {"first": 1}):
        with pytest.raises(ValueError, match="same settings and texts"):
            studies.study({"llama": make("llama")}, TEXTS, out, **SETTINGS | change)
    with pytest.raises(ValueError, match="same settings and texts"):
        studies.study({"llama": make("llama")}, TEXTS[1:], out, **SETTINGS)


def test_short_texts_are_rows_without_numbers(tmp_path: Path) -> None:
    found = studies.study({"llama": make("llama")}, [TEXTS[0][:5], *TEXTS[1:3]], tmp_path, **SETTINGS)
    assert [row["state"] for row in studies.rows_of(tmp_path)] == ["short", "measured", "measured"]
    assert sinkscope.Recording.open(found["llama"]).conditions["prompts"]["count"] == 2
    with pytest.warns(UserWarning, match="no text was measured"):
        found = studies.study({"bloom": make("bloom")}, [TEXTS[0][:5]], tmp_path / "none", **SETTINGS)
    assert found == {}


def test_ray_with_a_killed_worker_gives_the_rows_of_the_plain_loop(
        plain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ray = pytest.importorskip("ray", reason="ray is not installed")
    here = Path(__file__).resolve()
    paths = [str(here.parents[2] / "models" / "record" / "src"), str(here.parent)]
    monkeypatch.setenv("RAY_DATA_DISABLE_PROGRESS_BARS", "1")
    for attempt in range(5):
        try:
            ray.init(num_cpus=2, include_dashboard=False, object_store_memory=200 * 2**20,
                     log_to_driver=False,
                     runtime_env={"env_vars": {"PYTHONPATH": os.pathsep.join(paths)}})
            break
        except Exception as error:  # a busy machine starts a node later than Ray waits for
            ray.shutdown()
            if "timed out" not in str(error) or attempt == 4:
                raise
    try:
        grave = tmp_path / "grave"
        out = tmp_path / "study"
        studies.study({name: make(name, str(grave)) for name in ("llama", "bloom")}, TEXTS, out,
                      ray=True, concurrency=2, batch=3, **SETTINGS)
        assert grave.exists(), "no worker was killed"
        same_rows(out, plain)
        for name in ("llama", "bloom"):
            found, expected = (sinkscope.Recording.open(folder / f"{name}.safetensors")
                               for folder in (out, plain))
            assert all(np.array_equal(found[key], value, equal_nan=value.dtype.kind == "f")
                       for key, value in expected.tensors.items())
    finally:
        ray.shutdown()
