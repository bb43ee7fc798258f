"""Model folders in the Hugging Face layout: config.json and model.safetensors."""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from .model import Architecture, Weights, architecture


def read_model(folder: Path) -> tuple[Architecture, Weights]:
    """The architecture, and the weights widened to F32 (which changes no value)."""
    arch = architecture(json.loads((folder / "config.json").read_text()))
    weights = load_file(folder / "model.safetensors")
    return arch, {name: w.float() for name, w in weights.items() if w.is_floating_point()}


def write_model(folder: Path, config: dict[str, Any], weights: Weights, dtype: torch.dtype) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "config.json", config)
    stored = {name: w.detach().cpu().to(dtype).contiguous() for name, w in weights.items()}
    file = folder / "model.safetensors"
    save_file(stored, file, metadata={"format": "pt"})
    file.chmod(0o644)  # it is served from here, and safetensors keeps its files to their owner


def write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n")
