"""Checks that the reference reproduces the results of transformers on small random models (tests/golden/hf-*)."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from models.reference.files import read_model
from models.reference.model import Mask, architecture, forward

GOLDEN = Path(__file__).resolve().parents[1] / "golden"


@pytest.mark.parametrize("name", ["llama-gqa", "llama-bias", "mistral", "mixtral", "qwen3",
                                  "gpt2-plain"])
def test_the_reference_gives_the_results_of_transformers(name: str) -> None:
    arch, weights = read_model(GOLDEN / f"hf-{name}")
    golden = load_file(GOLDEN / f"hf-{name}" / "golden.safetensors")
    trace = forward(arch, {name: w.double() for name, w in weights.items()}, golden["tokens"].long())
    for field, tolerance in (("att", 1e-5), ("hidden", 1e-4), ("logits", 1e-4)):
        torch.testing.assert_close(getattr(trace, field).float(), golden[field].float(),
                                   atol=tolerance, rtol=0)


def test_a_config_without_experts_and_windows_has_none() -> None:
    arch = architecture(json.loads((GOLDEN / "hf-llama-gqa" / "config.json").read_text()))
    assert (arch.E, arch.top_k) == (0, 0)
    assert arch.mask == Mask("causal", 0, 0)
