"""Checks that the packages of tests/requirements install in every Python that tests/setup accepts."""

from importlib.metadata import distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

FOLDER = Path(__file__).resolve().parents[1] / "requirements"
OLDEST = "3.11.2"  # the Python of Debian 12


def read_pins(file: str) -> dict[str, Requirement]:
    lines = (line.strip() for line in (FOLDER / file).read_text().splitlines())
    result = map(Requirement, (line for line in lines if line and not line.startswith(("#", "-"))))
    return {canonicalize_name(requirement.name): requirement for requirement in result}


def test_every_package_installs_in_the_oldest_python() -> None:
    """This is checked here because pip reports a pin that needs a newer Python as a conflict between two other
    packages."""
    pins = read_pins("constraints.txt")
    needs = {
        canonicalize_name(distribution.name): distribution.metadata.get("Requires-Python") or ""
        for distribution in distributions()
    }
    conflicts = [
        f"{name} needs Python {needs[name]}"
        for name in pins.keys() & needs.keys()
        if OLDEST not in SpecifierSet(needs[name])
    ]
    assert conflicts == []
    assert len(pins.keys() & needs.keys()) > 100


def test_packages_in_files_have_the_versions_of_the_constraints() -> None:
    pins = read_pins("constraints.txt")
    for file in ("python.txt", "record.txt", "browser.txt"):
        for name, requirement in read_pins(file).items():
            assert requirement.specifier == pins[name].specifier, f"{file}: {requirement}"
