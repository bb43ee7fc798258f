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


def decode(first: bytes, rest: bytes) -> bytes:
    """Rebuilds model.safetensors number by number, by the description in models/train/preview.py."""
    steps = load(first)
    begin = 8 + int.from_bytes(rest[:8], "little")
    entries = json.loads(rest[8:begin])
    entries.pop("__metadata__", None)
    names = sorted(entries, key=lambda name: entries[name]["data_offsets"])
    coded = [name for name in names if steps[name].dtype == np.int8]
    bounds = np.frombuffer(rest, "<u2", 129 * len(coded), begin).reshape(-1, 129)
    signs = np.concatenate([np.sign(steps[name]).ravel().astype(int) for name in coded])
    sizes = np.concatenate([np.abs(steps[name].astype(int)).ravel() for name in coded])
    matrix = np.repeat(np.arange(len(coded)), [steps[name].size for name in coded])
    at = begin + bounds.nbytes
    high, low = np.frombuffer(rest, np.uint8, 2 * len(sizes), at).reshape(2, -1).astype(int)
    at += 2 * len(sizes)
    place = np.argsort(np.argsort(sizes, kind="stable"))
    difference, bound = (256 * high + low)[place], bounds[matrix, sizes].astype(int)
    m = np.where(sizes, bound + difference, bound - difference // 2)
    result = (m + 32768 * np.where(sizes, signs < 0, difference % 2)).astype("<u2")
    data, done = rest[:begin], 0
    for name in names:
        if name in coded:
            data += result[done:done + steps[name].size].tobytes()
            done += steps[name].size
        else:
            size = entries[name]["data_offsets"][1] - entries[name]["data_offsets"][0]
            data += rest[at:at + size]
            at += size
    assert at == len(rest)
    return data


def encode(weights: dict[str, torch.Tensor]) -> tuple[bytes, bytes, bytes]:
    model = save(weights, metadata={"format": "pt"})
    first, rest = preview.encode_files({name: w.float() for name, w in weights.items()}, "{}", model)
    return model, gzip.decompress(first), gzip.decompress(rest)


def test_numbers_of_all_sizes_and_signs_come_back_bit_by_bit() -> None:
    random = torch.Generator().manual_seed(1)
    drawn = torch.randn(40, 24, generator=random)
    drawn[0, :4] = torch.tensor([0.0, -0.0, 6e-8, -6e-8])
    drawn[1, :2] = torch.tensor([60.0, -65000.0])
    model, first, rest = encode({
        "b.weight": drawn.half(), "a.weight": (1e-3 * drawn[2:]).half(),
        "c.weight": torch.zeros(3, 5).half(), "gain.weight": drawn[:, 5].contiguous().half(),
    })
    assert decode(first, rest) == model


def test_a_preview_is_within_half_a_step() -> None:
    weights = {"a.weight": torch.randn(64, 64, generator=torch.Generator().manual_seed(2)).half()}
    _, first, _ = encode(weights)
    result = load(first)
    scale = result["a.weight" + SCALE_SUFFIX]
    assert (scale == scale[0]).all()
    error = result["a.weight"] * scale - weights["a.weight"].float().numpy()
    assert np.abs(error).max() <= 0.5001 * scale[0]
    assert np.isclose(scale[0], weights["a.weight"].float().square().mean().sqrt() / 2)


@pytest.mark.parametrize("folder", sorted(path.parent.name for path in ZOO.glob("*/preview.gz")))
def test_a_model_of_the_zoo_comes_back_bit_by_bit(folder: str) -> None:
    first, rest = (gzip.decompress((ZOO / folder / f"{name}.gz").read_bytes())
                   for name in ("preview", "refinement"))
    assert decode(first, rest) == (ZOO / folder / "model.safetensors").read_bytes()
    header = json.loads(first[8:8 + int.from_bytes(first[:8], "little")])
    assert header["__metadata__"]["config"] == (ZOO / folder / "config.json").read_text()
