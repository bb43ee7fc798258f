"""Reads and writes model folders in the Hugging Face layout, config.json and model.safetensors.

A matrix may be stored as I8 [out, in] with NAME_scale, F32 [out, 1]: row i is scale_i times the integers. This is
the int-quantized format of compressed-tensors, which config.json declares.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from .model import Architecture, Weights, architecture

SCALE_SUFFIX = "_scale"
# Steps per root mean square of a matrix. Coarse steps of the embedding and the head raise the loss most.
STEPS_PER_RMS = {"lm_head.weight": 16.0, "model.embed_tokens.weight": 16.0}
OTHER_STEPS_PER_RMS = 8.0
# `quantization_config` of config.json, without which transformers would ignore the scales. The group repeats the
# format: without it compressed-tensors takes 8-bit weights for packed ones.
INT8_BY_ROWS = {
    "quant_method": "compressed-tensors",
    "format": "int-quantized",
    "quantization_status": "compressed",
    "config_groups": {
        "group_0": {
            "format": "int-quantized",
            "targets": ["Linear", "Embedding"],
            "weights": {"num_bits": 8, "type": "int", "symmetric": True, "strategy": "channel"},
        }
    },
}


def read_model(folder: Path) -> tuple[Architecture, Weights]:
    arch = architecture(json.loads((folder / "config.json").read_text()))
    return arch, read_weights(folder / "model.safetensors")


def read_weights(file: Path) -> Weights:
    return widen_weights(load_file(file))


def widen_weights(stored_weights: Weights) -> Weights:
    weights = {
        name: w.float()
        for name, w in stored_weights.items()
        if w.is_floating_point() and not name.endswith(SCALE_SUFFIX)
    }
    for name, w in stored_weights.items():
        if w.dtype == torch.int8:
            weights[name] = w.float() * stored_weights[name + SCALE_SUFFIX]
    return weights


def to_int8(weights: Weights) -> Weights:
    """Quantizes matrices by rows: the largest magnitude of a row is 127."""
    return round_matrices(weights, lambda _, w: w.abs().amax(1, keepdim=True) / 127)


def to_steps(weights: Weights) -> Weights:
    """Quantizes each matrix by one scale, a power of two, so that F16 holds the rounded numbers exactly."""

    def scale_of(name: str, w: torch.Tensor) -> torch.Tensor:
        size = w.square().mean().sqrt() / STEPS_PER_RMS.get(name, OTHER_STEPS_PER_RMS)
        scale = torch.maximum(size.log2().round().exp2(), (w.abs().max() / 127).log2().ceil().exp2())
        return scale.repeat(len(w), 1)

    return round_matrices(weights, scale_of)


def round_matrices(weights: Weights, scale_of: Callable[[str, torch.Tensor], torch.Tensor]) -> Weights:
    """Rounds matrices to I8 with the scales [out, 1] that `scale_of` returns, and converts other tensors to F16."""
    stored_weights: Weights = {}
    for name, w in weights.items():
        if w.dim() != 2 or not name.endswith(".weight"):
            stored_weights[name] = w.half()
            continue
        scale = scale_of(name, w)
        steps = (w / scale.clamp_min(torch.finfo(scale.dtype).tiny)).round()
        stored_weights |= {name: steps.to(torch.int8), name + SCALE_SUFFIX: scale}
    return stored_weights


def write_model(folder: Path, config: dict[str, Any], weights: Weights, dtype: torch.dtype) -> None:
    write_stored_model(folder, config, {name: w.detach().cpu().to(dtype) for name, w in weights.items()})


def write_stored_model(folder: Path, config: dict[str, Any], weights: Weights) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    if any(w.dtype == torch.int8 for w in weights.values()):
        config = config | {"quantization_config": INT8_BY_ROWS}
    write_json(folder / "config.json", config)
    file = folder / "model.safetensors"
    save_file({name: w.contiguous() for name, w in weights.items()}, file, metadata={"format": "pt"})
    file.chmod(0o644)  # safetensors makes files private, but web servers read them


def write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n")
