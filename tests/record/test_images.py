"""Checks recordings of prompts with images: the names of patches, class token and registers, attention over the patches
and by kind of token against eager float64 models and plain NumPy, and the picture."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sinkscope
import torch
import transformers as tf
from PIL import Image as Pictures
from torch import Tensor, nn

SIZES = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
GRID = {"image_size": 24, "patch_size": 8, "initializer_range": 0.3}
VISION = {
    "vit": (lambda: tf.ViTModel(tf.ViTConfig(**SIZES, **GRID)), ["[CLS]"]),
    "dinov2": (lambda: tf.Dinov2Model(tf.Dinov2Config(**SIZES, **GRID)), ["[CLS]"]),
    "registers": (
        lambda: tf.Dinov2WithRegistersModel(tf.Dinov2WithRegistersConfig(**SIZES, **GRID, num_register_tokens=2)),
        ["[CLS]", "register 1", "register 2"],
    ),
    "clip": (lambda: tf.CLIPVisionModel(tf.CLIPVisionConfig(**SIZES, **GRID)), ["[CLS]"]),
    "siglip": (lambda: tf.SiglipVisionModel(tf.SiglipVisionConfig(**SIZES, **GRID)), []),
}


def eager_maps(model: nn.Module, inputs: dict[str, Tensor]) -> np.ndarray:
    """Returns the maps of the eager model in float64, [L, H, T, T]."""
    model.set_attn_implementation("eager")
    wide = {name: x.double() if x.is_floating_point() else x for name, x in inputs.items()}
    with torch.no_grad():
        attentions = model.double()(**wide, output_attentions=True).attentions
    return np.stack([x[0].numpy() for x in attentions])


@pytest.mark.parametrize("name", VISION)
def test_a_vision_model_names_its_tokens_and_shares_its_attention_by_kind(name: str, tmp_path: Path) -> None:
    torch.manual_seed(3)
    make, specials = VISION[name]
    model, inputs = make().eval(), {"pixel_values": torch.randn(1, 3, 24, 24)}
    path = tmp_path / "r.safetensors"
    sinkscope.record(model, None, [inputs], tokens=None, progress=False).save(path)
    recording = sinkscope.open_recording(path)
    maps, n = eager_maps(model, inputs), len(specials)
    patches = [f"patch {row},{col}" for row in range(3) for col in range(3)]
    assert recording.tokens() == specials + patches
    assert recording.conditions["images"] == [{"kinds": "s" * n + "i" * 9, "rows": 3, "cols": 3}]
    assert recording.conditions["first"]["token"] == (specials + patches)[0]
    np.testing.assert_allclose(recording["mean.image_share"], maps[..., n:].sum(-1).mean(-1), atol=1e-5)
    if n:
        np.testing.assert_allclose(recording["mean.special_share"], maps[..., :n].sum(-1).mean(-1), atol=1e-5)
    np.testing.assert_allclose(recording.patches(1, 2, query=0), maps[1, 2, 0, n:].reshape(3, 3), atol=1e-3)  # float16
    np.testing.assert_allclose(recording["mean.alpha"], maps.mean(-2), atol=1e-5)


def test_tokens_that_are_no_grid_of_patches_have_positions_as_names() -> None:
    model = tf.ViTMAEModel(tf.ViTMAEConfig(**SIZES, image_size=24, patch_size=8)).eval()  # hides most patches
    torch.manual_seed(3)
    inputs = {"pixel_values": torch.randn(1, 3, 24, 24), "noise": torch.arange(9.0)[None]}
    recording = sinkscope.record(model, None, [inputs], tokens=None, progress=False)
    assert recording.tokens() == ["0", "1", "2"] and "images" not in recording.conditions
    with pytest.raises(ValueError, match="expected one with a grid of patches, found none in prompt 0"):
        recording.patches(0, 0, 0)


def test_the_picture_is_kept_on_request_and_small() -> None:
    model = tf.ViTModel(tf.ViTConfig(**SIZES, image_size=600, patch_size=100)).eval()
    y, x = torch.meshgrid(torch.arange(600), torch.arange(600), indexing="ij")
    pixels = torch.stack([x / 599, y / 599, torch.zeros_like(x)])[None]
    processor = tf.ViTImageProcessor(image_mean=[0.5] * 3, image_std=[0.25] * 3)
    inputs: dict[str, Any] = {"pixel_values": (pixels - 0.5) / 0.25}
    assert "0.picture" not in sinkscope.record(model, processor, [inputs], tokens=None, progress=False)
    recording = sinkscope.record(model, processor, [inputs], tokens=None, fields=("picture",), progress=False)
    picture = recording["0.picture"]
    assert picture.dtype == np.uint8 and picture.shape == (256, 256, 3)
    np.testing.assert_allclose(picture[128, [0, 255], 0], [0, 255], atol=2)
    np.testing.assert_allclose(picture[[0, 255], 128, 1], [0, 255], atol=2)
    assert picture[..., 2].max() <= 1


def test_the_command_records_images(tmp_path: Path) -> None:
    torch.manual_seed(3)
    folder, out = tmp_path / "vit", tmp_path / "r.safetensors"
    tf.ViTModel(tf.ViTConfig(**SIZES, **GRID)).save_pretrained(folder)
    tf.ViTImageProcessor(size={"height": 24, "width": 24}).save_pretrained(folder)
    rng = np.random.default_rng(3)
    files = [tmp_path / f"{name}.png" for name in "ab"]
    for file in files:
        Pictures.fromarray(rng.integers(0, 255, (40, 60, 3), dtype=np.uint8)).save(file)
    command = [sys.executable, "-m", "sinkscope", "record", str(folder), "--out", str(out), "--picture", "--images"]
    result = subprocess.run([*command, *map(str, files)], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    recording = sinkscope.open_recording(out)
    assert recording.conditions["prompts"]["count"] == 2 and recording["1.picture"].shape == (24, 24, 3)
    refused = subprocess.run(command[:-2], capture_output=True, text=True)
    assert "--texts: expected a file of texts, or --images, found neither" in refused.stderr
