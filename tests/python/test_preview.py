"""Decodes a preview and its refinement, independently of the page's decoder."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load
from safetensors.torch import save

from models.reference.files import SCALE_SUFFIX
from models.train import preview

ZOO = Path(__file__).resolve().parents[2] / "models/zoo"


def decode(preview_bytes: bytes, refinement: bytes) -> bytes:
    """Rebuilds model.safetensors number by number, by the description in models/train/preview.py."""
    steps = load(preview_bytes)
    begin = 8 + int.from_bytes(refinement[:8], "little")
    entries = json.loads(refinement[8:begin])
    entries.pop("__metadata__", None)
    names = sorted(entries, key=lambda name: entries[name]["data_offsets"])
    coded_names = [name for name in names if steps[name].dtype == np.int8]
    bounds = np.frombuffer(refinement, "<u2", 129 * len(coded_names), begin).reshape(-1, 129)
    signs = np.concatenate([np.sign(steps[name]).ravel().astype(int) for name in coded_names])
    sizes = np.concatenate([np.abs(steps[name].astype(int)).ravel() for name in coded_names])
    matrix = np.repeat(np.arange(len(coded_names)), [steps[name].size for name in coded_names])
    offset = begin + bounds.nbytes
    high, low = np.frombuffer(refinement, np.uint8, 2 * len(sizes), offset).reshape(2, -1).astype(int)
    offset += 2 * len(sizes)
    order = np.argsort(np.argsort(sizes, kind="stable"))
    difference, bound = (256 * high + low)[order], bounds[matrix, sizes].astype(int)
    m = np.where(sizes, bound + difference, bound - difference // 2)
    result = (m + 32768 * np.where(sizes, signs < 0, difference % 2)).astype("<u2")
    data, decoded_count = refinement[:begin], 0
    for name in names:
        if name in coded_names:
            data += result[decoded_count : decoded_count + steps[name].size].tobytes()
            decoded_count += steps[name].size
        else:
            size = entries[name]["data_offsets"][1] - entries[name]["data_offsets"][0]
            data += refinement[offset : offset + size]
            offset += size
    assert offset == len(refinement)
    return data


def encode(weights: dict[str, torch.Tensor]) -> tuple[bytes, bytes, bytes]:
    model = save(weights, metadata={"format": "pt"})
    preview_bytes, refinement = preview.encode_files({name: w.float() for name, w in weights.items()}, "{}", model)
    return model, gzip.decompress(preview_bytes), gzip.decompress(refinement)


def test_numbers_of_all_sizes_and_signs_come_back_bit_by_bit() -> None:
    random = torch.Generator().manual_seed(1)
    matrix = torch.randn(40, 24, generator=random)
    matrix[0, :4] = torch.tensor([0.0, -0.0, 6e-8, -6e-8])
    matrix[1, :2] = torch.tensor([60.0, -65000.0])
    model, preview_bytes, refinement = encode(
        {
            "b.weight": matrix.half(),
            "a.weight": (1e-3 * matrix[2:]).half(),
            "c.weight": torch.zeros(3, 5).half(),
            "gain.weight": matrix[:, 5].contiguous().half(),
        }
    )
    assert decode(preview_bytes, refinement) == model


def test_a_preview_is_within_half_a_step() -> None:
    weights = {"a.weight": torch.randn(64, 64, generator=torch.Generator().manual_seed(2)).half()}
    _, preview_bytes, _ = encode(weights)
    result = load(preview_bytes)
    scale = result["a.weight" + SCALE_SUFFIX]
    assert (scale == scale[0]).all()
    error = result["a.weight"] * scale - weights["a.weight"].float().numpy()
    assert np.abs(error).max() <= 0.5001 * scale[0]
    assert np.isclose(scale[0], weights["a.weight"].float().square().mean().sqrt() / 2)


@pytest.mark.parametrize("folder", sorted(path.parent.name for path in ZOO.glob("*/preview.gz")))
def test_a_model_of_the_zoo_comes_back_bit_by_bit(folder: str) -> None:
    preview_bytes, refinement = (
        gzip.decompress((ZOO / folder / f"{name}.gz").read_bytes()) for name in ("preview", "refinement")
    )
    assert decode(preview_bytes, refinement) == (ZOO / folder / "model.safetensors").read_bytes()
    header = json.loads(preview_bytes[8 : 8 + int.from_bytes(preview_bytes[:8], "little")])
    assert header["__metadata__"]["config"] == (ZOO / folder / "config.json").read_text()
