"""Checks that transformers computes the same logits from a stored model whose config has no key `sinkscope`."""

import json
from pathlib import Path

import pytest
import torch
import transformers

from models.reference.files import read_model
from models.reference.model import forward

ZOO = Path(__file__).resolve().parents[2] / "models/zoo"


@pytest.mark.parametrize("id", ["softmax", "lr-1e-3", "window"])
def test_logits_are_those_of_the_reference(id: str) -> None:
    """The models are stored as F16, as I8 with a scale per row, and as I8 of another family."""
    assert "sinkscope" not in json.loads((ZOO / id / "config.json").read_text())
    model = transformers.AutoModelForCausalLM.from_pretrained(
        ZOO / id, dtype=torch.float32, attn_implementation="eager"
    ).eval()
    ids = torch.randint(2, 1024, (2, 64), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        logits = forward(*read_model(ZOO / id), ids).logits
        rounding = logits.abs().max().item() * 2**-23 * model.config.hidden_size  # of a sum as long as a token's vector
        torch.testing.assert_close(model(ids).logits, logits, atol=rounding, rtol=0)
