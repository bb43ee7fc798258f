"""Encodes a preview of a model's weights, about three bits each, and the refinement that restores the exact weights.

    preview.gz      a safetensors file: matrices in I8 with one scale, repeated for each row; the other tensors in F16;
                    config.json in its metadata, so that a page requests one file
    refinement.gz   what a preview lacks of the bytes of model.safetensors, whose numbers are F16

A refinement takes the matrices one after the other, in the order of their bytes in model.safetensors, as one list of
numbers. It groups the numbers by the size |n| of their steps n, and keeps their order within a group. Numbers of a
group are close to each other, so that few bits distinguish them. Let m be the lower 15 bits of a number as an integer.
The number is stored as the integer

    m - bound(|n|)            if n ≠ 0; its sign is that of n
    2 (bound(0) - m) + sign   if n = 0; its sign is the lowest bit

where bound(|n|) is the smallest m of the group in the matrix, and bound(0) the largest. The file has, in this order,
the header of model.safetensors; the 129 bounds of each matrix, U16, 0 for an empty group; the high bytes of all
integers; their low bytes; and the other tensors unchanged.
"""

import json
import zlib

import numpy as np
import torch
from safetensors.torch import save

from ..reference.files import SCALE_SUFFIX
from ..reference.model import Weights

# Steps per root mean square of a matrix. Coarse steps of the embedding and the head raise the loss most; they hardly
# change the sink.
STEPS_PER_RMS = {"lm_head.weight": 4.0, "model.embed_tokens.weight": 4.0}
OTHER_STEPS_PER_RMS = 2.0
STEP_SIZES = 129  # |n| is 0 to 128


def to_steps(weights: Weights) -> Weights:
    """Rounds F32 matrices to I8 steps of one size each, and other tensors to F16."""
    stored_weights: Weights = {}
    for name, w in weights.items():
        if w.dim() != 2 or not name.endswith(".weight"):
            stored_weights[name] = w.half()
            continue
        scale = w.square().mean().sqrt() / STEPS_PER_RMS.get(name, OTHER_STEPS_PER_RMS)
        scale = torch.maximum(scale, w.abs().max() / 127)
        stored_weights |= {name: (w / scale).round().to(torch.int8), name + SCALE_SUFFIX: scale.repeat(len(w), 1)}
    return stored_weights


def encode_files(weights: Weights, config: str, model: bytes) -> tuple[bytes, bytes]:
    """Returns the bytes of preview.gz and refinement.gz. `model` is the model.safetensors that has these weights."""
    stored_weights = to_steps(weights)
    preview = save(stored_weights, metadata={"format": "pt", "config": config})
    return compress(preview), compress(encode_refinement(model, stored_weights))


def encode_refinement(model: bytes, stored_weights: Weights) -> bytes:
    begin = 8 + int.from_bytes(model[:8], "little")
    entries = json.loads(model[8:begin])
    entries.pop("__metadata__", None)
    bounds, sizes, integers, other_tensors = [], [], [], []
    for name, entry in sorted(entries.items(), key=lambda item: item[1]["data_offsets"]):
        start, end = (begin + offset for offset in entry["data_offsets"])
        if stored_weights[name].dtype != torch.int8:
            other_tensors.append(model[start:end])
            continue
        matrix_sizes = np.abs(stored_weights[name].numpy().ravel().astype(np.int32))
        halves = np.frombuffer(model[start:end], "<u2").astype(np.int32)
        matrix_bounds, matrix_integers = subtract_bounds(halves, matrix_sizes)
        bounds.append(matrix_bounds.astype("<u2").tobytes())
        sizes.append(matrix_sizes)
        integers.append(matrix_integers)
    sorted_integers = np.concatenate(integers)[np.argsort(np.concatenate(sizes), kind="stable")]
    high, low = (sorted_integers >> 8).astype(np.uint8), (sorted_integers & 255).astype(np.uint8)
    return b"".join([model[:begin], *bounds, high.tobytes(), low.tobytes(), *other_tensors])


def subtract_bounds(halves: np.ndarray, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the bounds of a matrix, and the integers that encode its numbers. `halves` are the bits of the F16
    numbers, `sizes` the |n| of their steps."""
    m, bounds = halves & 0x7FFF, np.zeros(STEP_SIZES, np.int32)
    for size in np.unique(sizes):
        group = m[sizes == size]
        bounds[size] = group.min() if size else group.max()
    differences = np.where(sizes, m - bounds[sizes], 2 * (bounds[0] - m) + (halves >> 15))
    return bounds, differences


def compress(data: bytes) -> bytes:
    """Compresses data without a timestamp. The strategy "filtered" uses few back references, which suits numbers: they
    hardly repeat."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31, 9, zlib.Z_FILTERED)
    return packer.compress(data) + packer.flush()
