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


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Builds the wheel and the source archive as for a release, when the runner names the repository."""
    out = tmp_path_factory.mktemp("dist")
    env = {"PATH": "", "GITHUB_SERVER_URL": "https://example.org", "GITHUB_REPOSITORY": "a/b"}
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-t", "sdist", "-d", out],
                   cwd=PACKAGE, env=env, check=True, capture_output=True)
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
        fields = message_from_bytes(metadata)
        assert fields["Author"] and fields["License-Expression"] == "Apache-2.0" and fields["Keywords"]
        assert fields["Requires-Python"] == ">=3.10"  # without an upper bound: no newer version is known to fail
        assert fields.get_all("Project-URL") == ["Source, https://example.org/a/b",
                                                 "Issues, https://example.org/a/b/issues"]
