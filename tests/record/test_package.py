"""Checks the wheel and the source archive as a package index and its users read them."""

import subprocess
import sys
import tarfile
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "models" / "record"
SCHEMA = ROOT / "core" / "report" / "recording.schema.json"

# Reads a recording where the packages that run models are missing, as in a notebook in the browser.
READ_WITHOUT_TORCH = """
import sys
MISSING = {"torch", "transformers", "tqdm"}

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in MISSING:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
import sinkscope
from sinkscope.__main__ import main
assert sinkscope.__file__.startswith(sys.argv[1]), sinkscope.__file__
recording = sinkscope.open_recording(sys.argv[2])
result = recording.measure(0.3)
assert 0.5 < result["sink"] < 1 and result["map"].shape == (64, 64)
assert len(recording.heads()) == 270 and sinkscope.picture(recording).startswith(b"\\x89PNG")
assert {row["difference"] for row in sinkscope.compare(recording, recording)} == {0.0}
recording.save(sys.argv[1] + "/copy.safetensors")
assert main(["measure", sys.argv[1] + "/copy.safetensors"]) == 0
assert not MISSING & sys.modules.keys()
for name in ("record", "record_maps", "watching", "load", "metrics"):
    try:
        getattr(sinkscope, name)
        raise AssertionError(name)
    except ImportError as error:
        assert "pip install sinkscope[record]" in str(error), error
"""


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Builds the wheel and the source archive as for a release, when the runner names the repository."""
    out = tmp_path_factory.mktemp("dist")
    env = {"PATH": "", "GITHUB_SERVER_URL": "https://example.org", "GITHUB_REPOSITORY": "a/b"}
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-t", "sdist", "-d", out],
        cwd=PACKAGE,
        env=env,
        check=True,
        capture_output=True,
    )
    return sorted(out.iterdir(), reverse=True)


def _examine(*arguments: object) -> None:
    process = subprocess.run([sys.executable, "-m", *map(str, arguments)], capture_output=True, text=True)
    assert process.returncode == 0, process.stdout + process.stderr


def test_the_checks_of_an_index_pass(distributions: list[Path]) -> None:
    _examine("twine", "check", "--strict", *distributions)
    [wheel] = [path for path in distributions if path.suffix == ".whl"]
    _examine("check_wheel_contents", wheel)


def test_wheel_and_archive_have_the_license_the_author_and_the_source(distributions: list[Path]) -> None:
    license = (ROOT / "LICENSE").read_bytes()
    for path in distributions:
        if path.suffix == ".whl":
            with zipfile.ZipFile(path) as wheel:
                contents = {Path(name).name: wheel.read(name) for name in wheel.namelist()}
            metadata = contents["METADATA"]
        else:
            with tarfile.open(path) as archive:
                files = [member for member in archive.getmembers() if member.isfile()]
                contents = {Path(member.name).name: archive.extractfile(member).read() for member in files}
            metadata = contents["PKG-INFO"]
        assert contents["LICENSE"] == license, path.name
        assert contents[SCHEMA.name] == SCHEMA.read_bytes(), path.name
        fields = message_from_bytes(metadata)
        assert fields["Author"] and fields["License-Expression"] == "Apache-2.0" and fields["Keywords"]
        assert fields["Requires-Python"] == ">=3.10"  # without an upper bound: no newer version is known to fail
        assert fields.get_all("Project-URL") == [
            "Source, https://example.org/a/b",
            "Issues, https://example.org/a/b/issues",
        ]


def test_the_wheel_reads_recordings_without_torch(distributions: list[Path], tmp_path: Path) -> None:
    [wheel] = [path for path in distributions if path.suffix == ".whl"]
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
        [metadata] = [archive.read(name) for name in archive.namelist() if name.endswith("METADATA")]
    needs = message_from_bytes(metadata).get_all("Requires-Dist", [])
    assert {need.partition("<")[0].partition(">")[0] for need in needs if "extra ==" not in need} == {
        "fastjsonschema",
        "numpy",
        "safetensors",
    }
    recording = ROOT / "models" / "recordings" / "smollm2-135m-instruct.safetensors"
    process = subprocess.run(
        [sys.executable, "-c", READ_WITHOUT_TORCH, tmp_path, recording],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert process.returncode == 0, process.stderr
