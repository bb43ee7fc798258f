"""Checks a fixed draw of the configs that `python -m models.reference.keys` compares with transformers."""

import os
import subprocess
import sys
from pathlib import Path

from models.reference.keys import Variant, names_key

ROOT = Path(__file__).resolve().parents[2]


def test_a_changed_key_is_computed_as_by_transformers_or_refused() -> None:
    process = subprocess.run(
        [sys.executable, "-m", "models.reference.keys", "--draw", "60"], cwd=ROOT, text=True, capture_output=True,
        env=os.environ | {"PYTHONPATH": str(ROOT / "models/record/src")})
    assert process.returncode == 0, process.stdout + process.stderr
    assert "| all | 60 |" in process.stdout


def test_an_error_names_a_key_as_a_whole_word() -> None:
    config = {"rope_parameters": {"rope_type": "linear", "inner": {"factor": 2}}}
    variant = Variant("llama", "rope_parameters", "", config)
    assert names_key("rope_type: expected another", variant)
    assert names_key("factor: expected a number", variant)
    assert not names_key("long_factor: expected a list", variant)
    assert not names_key("rope_scaling: both", variant)
