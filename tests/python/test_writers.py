"""Checks that the scripts that write goldens reproduce the committed files, in every case that needs no large file."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"
WRITERS = ROOT / "models/reference/goldens"

RUNS: dict[str, list[str]] = {
    "write_goldens": [],
    "write_families": [],
    "write_torch": [],
    "write_yarn": [],
    "write_gguf": [],
    "write_variants": [],
    "write_edits": [],
    "write_gradients": [],
    "write_training": [],
    "write_zoo": [],
    "write_unpack": [],
    "write_seeds": [],
    "write_suffix": [],
    "write_tasks": [],
    "write_unmask": [],
    "write_defaults": [],
    "write_battery": [],
    "write_cuts": [],
    "write_peers": ["zoo.i8"],
    # The other reduced tokenizers are made from published files, which are not in the tree.
    "write_tokenizers": ["--only", "zoo"],
}
# write_smollm2 runs for minutes and needs a model of 98 MB: models/fetch/smollm2.
SKIPPED_WRITERS = {"write_smollm2"}

# All scripts run in one process, because importing transformers takes longer than writing.
WRITE_ALL = """
import json, runpy, sys, traceback
failed = {}
for name, arguments in json.loads(sys.argv[1]).items():
    sys.argv = [name, *arguments]
    try:
        runpy.run_module(f"models.reference.goldens.{name}", run_name="__main__")
    except BaseException:
        failed[name] = traceback.format_exc()
print("\\n" + json.dumps(failed))
"""


@pytest.fixture(scope="module")
def script_results(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, dict[str, str]]]:
    """Runs every script on a copy of tests/; returns the copy, and the traceback of each script that failed."""
    folder = tmp_path_factory.mktemp("tests")
    shutil.copytree(TESTS / "golden", folder / "golden")
    shutil.copytree(TESTS / "fuzz/seeds", folder / "fuzz/seeds")
    process = subprocess.run(
        [sys.executable, "-c", WRITE_ALL, json.dumps(RUNS)],
        cwd=ROOT,
        check=True,
        text=True,
        stdout=subprocess.PIPE,
        env=os.environ
        | {
            "SINKSCOPE_GOLDENS": str(folder / "golden"),
            "PYTHONPATH": os.pathsep.join([str(ROOT / "models/record/src"), os.environ.get("PYTHONPATH", "")]),
        },
    )
    yield folder, json.loads(process.stdout.splitlines()[-1])
    shutil.rmtree(folder)


def test_every_script_is_run() -> None:
    assert {file.stem for file in WRITERS.glob("write_*.py")} == set(RUNS) | SKIPPED_WRITERS


@pytest.mark.parametrize("name", RUNS)
def test_a_script_runs(name: str, script_results: tuple[Path, dict[str, str]]) -> None:
    assert name not in script_results[1], script_results[1][name]


def read_origin(file: Path) -> Any:
    """Returns the script, the versions and the machine that computed a folder's numbers; None if its golden.json lacks
    them."""
    description = file.parent / "golden.json"
    writer = json.loads(description.read_text()).get("written_by") if description.exists() else None
    return writer if isinstance(writer, dict) else None


def float_error(file: Path) -> float:
    """Returns how far a golden's numbers are from those in float64, as a share of their size; 0 if these are stored."""
    description = file.parent / "golden.json"
    return json.loads(description.read_text()).get("f64_error", 0) if description.exists() else 0


def name_with_writer(name: str) -> str:
    writer = (read_origin(TESTS / name) or {}).get("script")
    return name if writer is None else f"{name}, written by python -m models.reference.goldens.{Path(writer).stem}"


def assert_near(actual: Any, expected: Any, place: str) -> None:
    """Compares JSON values: names, texts and integers must be equal, and fractions equal in F32 precision."""
    assert type(actual) is type(expected), place
    if isinstance(expected, dict):
        assert actual.keys() == expected.keys(), place
        for name in expected.keys() - {"written_by", "f64_error", "reference_error", "computed_by"}:
            assert_near(actual[name], expected[name], f"{place}: {name}")
    elif isinstance(expected, list):
        assert len(actual) == len(expected), place
        for a, b in zip(actual, expected):
            assert_near(a, b, place)
    elif isinstance(expected, float):
        assert actual == pytest.approx(expected, rel=2e-5, abs=1e-5), place
    else:
        assert actual == expected, place


def test_written_files_equal_the_committed_ones(script_results: tuple[Path, dict[str, str]]) -> None:
    """Files and names are equal. On any processor, numbers of float64 are equal but for their rounding, and those of
    float32 within ten times the distance between them and float64, which golden.json has as `f64_error`."""
    folder = script_results[0]
    names = {
        str(file.relative_to(TESTS))
        for part in ("golden", "fuzz/seeds")
        for file in (TESTS / part).rglob("*")
        if file.is_file()
    }
    assert {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()} == names
    for name in sorted(names):
        if name.endswith(".safetensors") and "fuzz" not in name:
            result, expected = load_file(folder / name), load_file(TESTS / name)
            tolerance = max(1e-5, 10 * float_error(TESTS / name))
            assert result.keys() == expected.keys(), name_with_writer(name)
            for key, value in expected.items():
                size = value.double().nan_to_num().abs().amax().clamp_min(1).item()
                torch.testing.assert_close(
                    result[key].double(),
                    value.double(),
                    rtol=0,
                    atol=tolerance * size,
                    equal_nan=True,
                    msg=lambda text, name=name, key=key: f"{name_with_writer(name)}; {key}: {text}",
                )
        elif name.endswith(".json"):
            result, expected = (json.loads((part / name).read_text()) for part in (folder, TESTS))
            assert_near(result, expected, name_with_writer(name))


def test_goldens_of_this_machine_and_these_versions_are_written_bit_by_bit(
    script_results: tuple[Path, dict[str, str]],
) -> None:
    """All bits are equal if the versions, the kind of processor and the C library are those that golden.json names."""
    compared_count, differing_files = 0, []
    for file in sorted(path for path in (TESTS / "golden").rglob("*") if path.is_file()):
        copy = script_results[0] / file.relative_to(TESTS)
        if read_origin(file) is not None and read_origin(file) == read_origin(copy):
            compared_count += 1
            if file.read_bytes() != copy.read_bytes():
                differing_files.append(name_with_writer(str(file.relative_to(TESTS))))
    if not compared_count:
        pytest.skip("the goldens were written with other versions or on another kind of machine")
    assert differing_files == []
