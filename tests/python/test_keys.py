"""Checks a fixed draw of the configs that `python -m models.reference.keys` compares with transformers."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from models.reference.keys import changed_names, is_named

ROOT = Path(__file__).resolve().parents[2]


# Rotary parameters of two kinds of layers, and of hunyuan and qwen, and a head that the outer config ties: 58 of 79
# failures of ten families were of these kinds.
KINDS = [
    "--family",
    "gemma3",
    "gemma4_text",
    "hunyuan_v1_moe",
    "olmo",
    "qwen3_5_text",
    "--match",
    "gemma4_text: (rope|per_layer)|hunyuan.*(head_dim|rope_p|num_local)|qwen.*(rope_s|mrope)|tie_word|_token|clip_qkv",
]


# One process for both draws: importing transformers takes longer than comparing.
COMPARE_BOTH = """
import json, sys
from models.reference import keys
for options in json.loads(sys.argv[1]):
    sys.argv[1:] = options
    if keys.main():
        sys.exit(1)
"""


def test_a_changed_key_is_computed_as_by_transformers_or_refused() -> None:
    process = subprocess.run(
        [sys.executable, "-c", COMPARE_BOTH, json.dumps([["--draw", "20"], KINDS])],
        cwd=ROOT,
        text=True,
        capture_output=True,
        env=os.environ | {"PYTHONPATH": str(ROOT / "models/record/src")},
    )
    assert process.returncode == 0, process.stdout + process.stderr
    counts = re.findall(r"\| all \| (\d+) \|", process.stdout)
    assert len(counts) == 2 and int(counts[0]) >= 20 and int(counts[1]) >= 60


def test_an_error_names_a_key_as_a_whole_word() -> None:
    config = {"rope_parameters": {"rope_type": "linear", "inner": {"factor": 2}}}
    names = changed_names(config, {"rope_scaling": None})
    assert names == {"rope_parameters", "rope_type", "inner", "factor", "rope_scaling"}
    assert changed_names(config, config | {"head_dim": 2}) == {"head_dim"}
    assert is_named("rope_type: expected another", names)
    assert not is_named("long_factor: expected a list", names - {"inner"})
