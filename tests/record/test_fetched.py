"""Checks the shipped recordings, and compares all-MiniLM-L6-v2, an encoder, in transformers with Sinkscope's engine on
the same files. That test is skipped if `models/fetch` has not fetched them."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sinkscope
from engine import NEEDS_ENGINE, ROOT, measure_lines
from sinkscope.__main__ import main
from truth import rounding_of

FETCHED, SHIPPED = ROOT / "models" / ".fetched", ROOT / "models" / "recordings"
ENCODER = FETCHED / "all-MiniLM-L6-v2"
# Largest difference of a mean, relative to the metric's largest number. transformers and the engine compute in float32,
# but add in different orders.
TOLERANCE = 2e-5


@pytest.mark.parametrize(
    ("name", "sizes", "bytes", "license"),
    [
        ("smollm2-135m-instruct", (30, 9, 3), 4_000_000, "Apache-2.0"),
        ("all-minilm-l6-v2", (6, 12, 12), 1_000_000, "Apache-2.0"),
        ("mnist-vit", (4, 4, 4), 200_000, "CC-BY-SA-3.0"),
    ],
)
def test_a_shipped_recording_is_small_and_names_its_license(name: str, sizes: Any, bytes: int, license: str) -> None:
    file = SHIPPED / f"{name}.safetensors"
    assert file.stat().st_size <= bytes
    result = sinkscope.Recording.open(file)
    assert result.conditions["license"] == license
    assert (result.model["L"], result.model["H"], result.model["G"]) == sizes
    heads = sizes[0] * sizes[1]
    assert np.isclose(result["prompt.alpha_1"].mean(), result["mean.alpha"][..., 0].mean(), rtol=rounding_of(1, heads))
    assert np.isclose(result["0.alpha"][..., 0].mean(), result["prompt.alpha_1"][0], rtol=rounding_of(1, heads))
    assert np.allclose(result.attention(0).sum(-1), result["0.row_mass"], atol=5e-3)


def test_most_heads_of_the_shipped_encoder_have_a_sink() -> None:
    result = sinkscope.Recording.open(SHIPPED / "all-minilm-l6-v2.safetensors")
    assert result.model["mask"] == {"kind": "bidirectional"} and result.tokens()[0] == "[CLS]"
    assert result.measure(0.1)["sink"] > 0.5 and "mean.loss_mean" not in result


def test_no_head_of_the_shipped_vision_model_has_a_sink() -> None:
    result = sinkscope.Recording.open(SHIPPED / "mnist-vit.safetensors")
    assert result.tokens()[:2] == ["[CLS]", "patch 0,0"] and len(result.tokens()) == 50
    assert result.measure(0.1)["sink"] == 0 and result["mean.alpha"][..., 0].max() < 0.05
    assert result["0.picture"].shape == (28, 28, 3)


@pytest.mark.skipif(not ENCODER.exists(), reason="models/fetch/minilm fetches the folder (91 MB)")
@NEEDS_ENGINE
def test_every_metric_equals_that_of_the_engine(tmp_path: Path) -> None:
    texts = tmp_path / "texts.json"
    passages = json.loads((ROOT / "models" / "zoo" / "heldout.json").read_text())
    texts.write_text(json.dumps(passages[:3]))
    out = tmp_path / "r.safetensors"
    size = ["--tokens", "32"]
    assert main(["record", str(ENCODER), "--texts", str(texts), "--out", str(out), "--device", "cpu", *size]) == 0
    engine = measure_lines(ENCODER, texts, *size, "--eps", "0.1,0.2,0.3")
    result = sinkscope.Recording.open(out)
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
    assert {
        "alpha",
        "sink_ratio",
        "row_mass_summary",
        "entropy_mean",
        "first_share",
        "contribution",
        "cos_gap",
        "hidden_ratio",
        "key_ratio",
        "value_ratio",
    } <= set(compared_names)
    assert "loss_mean" not in compared_names
