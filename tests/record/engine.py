"""Runs the command line of the npm package, whose binary a checkout may lack."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
NEEDS_ENGINE = pytest.mark.skipif(
    not (ROOT / "wasm" / "sinkscope.wasm").exists() or not shutil.which("node"), reason="the engine is not built"
)


def run_cli(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["node", "wasm/cli.js", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)


def measure(path: str | Path, *options: str | Path) -> Any:
    """Returns what `measure --json` prints of a model or recording."""
    run = run_cli("measure", path, *options, "--json")
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def measure_lines(model: Path, texts: Path, *options: str) -> Any:
    return measure(model, "--text-file", texts, "--lines", "--workers", "1", *options)
