"""Checks that the reference reproduces the results of transformers on small random models (tests/golden/hf-*)."""

import dataclasses
import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from models.reference import model
from models.reference.files import read_model
from models.reference.model import Mask, architecture, forward
from models.train.recipe import recipes

GOLDEN = Path(__file__).resolve().parents[1] / "golden"


@pytest.mark.parametrize("name", ["llama-gqa", "llama-bias", "mistral", "mixtral", "qwen3", "gpt2-plain"])
def test_the_reference_gives_the_results_of_transformers(name: str) -> None:
    arch, weights = read_model(GOLDEN / f"hf-{name}")
    golden = load_file(GOLDEN / f"hf-{name}" / "golden.safetensors")
    trace = forward(arch, {name: w.double() for name, w in weights.items()}, golden["tokens"].long())
    for field, tolerance in (("att", 1e-5), ("hidden", 1e-4), ("logits", 1e-4)):
        torch.testing.assert_close(getattr(trace, field).float(), golden[field].float(), atol=tolerance, rtol=0)


def test_a_config_without_experts_and_windows_has_none() -> None:
    arch = architecture(json.loads((GOLDEN / "hf-llama-gqa" / "config.json").read_text()))
    assert (arch.E, arch.top_k) == (0, 0)
    assert arch.mask == Mask("causal", 0, 0)


def test_a_token_can_see_only_itself_under_a_bidirectional_mask() -> None:
    mask = architecture(recipes()["diffusion-alone"].config).mask
    assert mask.visible(3, torch.device("cpu")).tolist() == [[True, False, False], [True] * 3, [True] * 3]


def test_scaled_slopes_of_alibi_scale_the_bias_of_the_scores() -> None:
    """The ratio of a row's weights on two keys, equal but for their distance, is exp(-slope * distance)."""
    quarter = architecture(recipes()["alibi-quarter"].config)
    like = torch.zeros(1, dtype=torch.float64)
    biases = [model.distance_bias(arch, 4, like) for arch in (quarter, dataclasses.replace(quarter, alibi_scale=1.0))]
    assert torch.equal(biases[0] * 4, biases[1]) and biases[1][0, 3, 0] == -3 * 2.0**-2
