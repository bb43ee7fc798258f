"""Holds the table of tests/bench/README.md to what the command line and the recorder say of each kind of file."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_table_of_files_says_what_is_printed() -> None:
    command = [sys.executable, "-W", "ignore", ROOT / "tests" / "bench" / "files.py"]
    table = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    readme = (ROOT / "tests" / "bench" / "README.md").read_text().splitlines()
    assert [line for line in table.splitlines() if line not in readme] == []
    assert table.count("\n") > 50
