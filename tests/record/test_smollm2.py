"""Compares SmolLM2-135M-Instruct in transformers, with dequantized weights, with Sinkscope's engine on the same file.
The tests are skipped if `models/fetch/smollm2` has not fetched the file."""

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import sinkscope
from sinkscope.__main__ import main

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "models" / ".fetched" / "SmolLM2-135M-Instruct.Q4_1.gguf"
SHIPPED = ROOT / "models" / "recordings" / "smollm2-135m-instruct.safetensors"
# Largest difference of a mean, relative to the metric's largest number. transformers and the engine compute in float32,
# but add in different orders.
TOLERANCE = 2e-5


def test_the_shipped_recording_is_small_and_names_its_license() -> None:
    assert SHIPPED.stat().st_size <= 4 * 10**6
    result = sinkscope.Recording.open(SHIPPED)
    assert result.conditions["license"] == "Apache-2.0"
    assert (result.model["L"], result.model["H"], result.model["G"]) == (30, 9, 3)
    assert np.isclose(result["prompt.alpha_1"].mean(), result["mean.alpha"][..., 0].mean(), rtol=1e-5)
    assert np.isclose(result["0.alpha"][..., 0].mean(), result["prompt.alpha_1"][0], rtol=1e-5)
    assert np.allclose(result.attention(0).sum(-1), result["0.row_mass"], atol=5e-3)


@pytest.mark.skipif(not FILE.exists(), reason="models/fetch/smollm2 fetches the file (98 MB)")
@pytest.mark.skipif(not (ROOT / "wasm" / "sinkscope.wasm").exists() or not shutil.which("node"),
                    reason="the engine is not built")
def test_every_metric_equals_that_of_the_engine(tmp_path: Path) -> None:
    texts = tmp_path / "texts.json"
    passages = json.loads((ROOT / "models" / "zoo" / "heldout.json").read_text())
    texts.write_text(json.dumps(passages[:3]))
    out = tmp_path / "r.safetensors"
    assert main(["record", str(FILE), "--texts", str(texts), "--out", str(out), "--device", "cpu"]) == 0
    run = subprocess.run(
        ["node", "wasm/cli.js", "measure", FILE, "--text-file", texts, "--lines", "--tokens", "64",
         "--eps", "0.1,0.2,0.3", "--workers", "1", "--json"],
        cwd=ROOT, capture_output=True, text=True, check=True)
    result, engine = sinkscope.Recording.open(out), json.loads(run.stdout)
    compared_names = []
    # The engine lists metrics that depend on eps separately for each eps.
    for e, metrics in [(0, engine["metrics"]), *enumerate(entry["metrics"] for entry in engine["byEps"])]:
        for name, expected in metrics.items():
            if f"mean.{name}" not in result or name == "near_eps":
                continue
            for statistic in ("mean", "deviation"):
                value = result[f"{statistic}.{name}"]
                value = (value[e] if name == "sink_ratio" else value).ravel()
                engine_value = np.array([np.nan if x is None else x for x in expected[statistic]])
                size = np.nanmax(np.abs(expected["mean"]))
                assert np.nanmax(np.abs(value - engine_value)) <= TOLERANCE * size, (name, statistic)
                assert (np.isnan(value) == np.isnan(engine_value)).all(), (name, statistic)
            compared_names.append(name)
    assert {"alpha", "sink_ratio", "row_mass_summary", "entropy_mean", "first_share", "contribution",
            "cos_gap", "hidden_ratio", "key_ratio", "value_ratio", "loss_mean"} <= set(compared_names)
