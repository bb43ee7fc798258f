"""Checks recordings of prompts with images: the names of patches, class token and registers, attention over the patches
and by kind of token against eager float64 models and plain NumPy, and the picture."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sinkscope
import torch
import transformers as tf
from PIL import Image as Pictures
from sentences import check_sentence, refused
from sinkscope.__main__ import main
from sinkscope.images import make_picture
from torch import Tensor, nn
from truth import F16_ROUNDING, rounding_of, tolerance_of
from vlms import VLMS, T, make

ROOT = Path(__file__).resolve().parents[2]

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
    build, specials = VISION[name]
    model, inputs = build().eval(), {"pixel_values": torch.randn(1, 3, 24, 24)}
    path = tmp_path / "r.safetensors"
    sinkscope.record(model, None, [inputs], tokens=None, progress=False).save(path)
    recording = sinkscope.open_recording(path)
    maps, n = eager_maps(model, inputs), len(specials)
    patches = [f"patch {row},{col}" for row in range(3) for col in range(3)]
    assert recording.tokens() == specials + patches
    assert recording.conditions["images"] == [{"kinds": "s" * n + "i" * 9, "rows": 3, "cols": 3}]
    assert recording.conditions["first"]["token"] == (specials + patches)[0]
    bound = tolerance_of(torch.from_numpy(maps), 2 * 32)
    np.testing.assert_allclose(recording["mean.image_share"], maps[..., n:].sum(-1).mean(-1), rtol=0, atol=bound)
    if n:
        np.testing.assert_allclose(recording["mean.special_share"], maps[..., :n].sum(-1).mean(-1), rtol=0, atol=bound)
    expected = maps[1, 2, 0, n:].reshape(3, 3)
    np.testing.assert_allclose(recording.patches(1, 2, query=0), expected, rtol=0, atol=F16_ROUNDING + bound)
    np.testing.assert_allclose(recording["mean.alpha"], maps.mean(-2), rtol=0, atol=bound)


@pytest.mark.parametrize("name", VLMS)
def test_a_vision_language_model_is_recorded_with_its_image_among_the_tokens(name: str, tmp_path: Path) -> None:
    model, inputs = make(name)
    path, mask = tmp_path / "r.safetensors", "bidirectional" if name == "gemma3" else None
    fields = ("hidden_norm", "picture")
    sinkscope.record(model, None, [inputs], mask=mask, fields=fields, progress=False).save(path)
    recording = sinkscope.open_recording(path)
    states: list[np.ndarray] = []
    for block in model.get_decoder().layers:
        block.register_forward_pre_hook(lambda _, args: states.append(args[0][0].numpy()))
    maps = eager_maps(model, inputs)
    queries = np.full(T, T) if mask else np.arange(T, 0, -1)
    bound = tolerance_of(torch.from_numpy(maps), 5 * 32)  # layers of both towers
    np.testing.assert_allclose(recording["mean.alpha"], maps.sum(-2) / queries, rtol=0, atol=bound)
    kinds = np.array(list(recording.conditions["images"][0]["kinds"]))
    assert "".join(kinds) == "st" + "iiii" + "t" * 6
    for letter, kind in (("i", "image"), ("t", "text"), ("s", "special")):
        share = maps[..., 6:, :][..., kinds == letter].sum(-1).mean(-1)
        np.testing.assert_allclose(recording[f"mean.{kind}_share"], share, rtol=0, atol=bound)
    expected = maps[2, 1, 9, 2:6].reshape(2, 2)
    np.testing.assert_allclose(recording.patches(2, 1, query=9), expected, rtol=0, atol=F16_ROUNDING + bound)
    for layer, x in enumerate(states):
        channels = np.argsort(-abs(x[0]))[:2]
        phi = abs(x[:, channels]).max(1) / np.sqrt((x**2).mean(1))
        np.testing.assert_allclose(recording["0.sink_value"][layer], phi, rtol=0, atol=rounding_of(phi, 5 * 32))
    assert len(states) == 3 and recording.tokens()[1:6] == ["5", "patch 0,0", "patch 0,1", "patch 1,0", "patch 1,1"]
    # Of a list of patches as of rows of pixels, the picture has the extremes of the pixels.
    assert recording["0.picture"].min() == 0 and recording["0.picture"].max() == 255


def test_patches_of_a_list_are_joined_as_the_processor_cut_them() -> None:
    processor = tf.Qwen2VLImageProcessor(patch_size=8, min_pixels=256, max_pixels=2**20)
    rng = np.random.default_rng(3)
    image = rng.integers(0, 255, (32, 48, 3), dtype=np.uint8)
    inputs = processor(images=image, return_tensors="pt")
    model, _ = make("qwen2_vl")
    np.testing.assert_allclose(make_picture(model, inputs, processor), image, atol=1)


def test_the_command_records_an_image_with_its_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, out, image = tmp_path / "llava", tmp_path / "r.safetensors", tmp_path / "a.png"
    model, _ = make("llava")
    tokenizer = tf.AutoTokenizer.from_pretrained(ROOT / "models/zoo/softmax")
    tokenizer.add_tokens(["<image>"], special_tokens=True)
    model.resize_token_embeddings(len(tokenizer))
    model.config.image_token_id = tokenizer.convert_tokens_to_ids("<image>")
    model.save_pretrained(folder)
    pictures = tf.CLIPImageProcessor(size={"shortest_edge": 16}, crop_size={"height": 16, "width": 16})
    options = {"patch_size": 8, "vision_feature_select_strategy": "default", "num_additional_image_tokens": 1}
    tf.LlavaProcessor(pictures, tokenizer, **options).save_pretrained(folder)
    Pictures.fromarray(np.random.default_rng(3).integers(0, 255, (40, 60, 3), dtype=np.uint8)).save(image)
    (tmp_path / "texts.json").write_text('["What is in the image?"]')
    command = ["record", str(folder), "--out", str(out), "--images", str(image)]
    texts = ["--texts", str(tmp_path / "texts.json")]
    assert main([*command, *texts, "--picture"]) == 0, capsys.readouterr().err
    recording = sinkscope.open_recording(out)
    assert [x for x in recording.tokens() if x.startswith("patch")] == [
        "patch 0,0",
        "patch 0,1",
        "patch 1,0",
        "patch 1,1",
    ]
    assert recording["0.picture"].shape == (16, 16, 3)
    assert main([*command, str(image), *texts]) == 1
    check_sentence(capsys.readouterr().err.splitlines()[-1], Path(__file__))


def test_prompts_with_and_without_an_image_are_not_one_recording() -> None:
    model, inputs = make("llava")
    text = {"input_ids": torch.tensor([list(range(3, 15))])}
    with refused(ValueError):
        sinkscope.record(model, None, [inputs, text], progress=False)
    later = {**inputs, "input_ids": torch.cat([torch.full((1, 9), 7), inputs["input_ids"]], 1)}
    with refused(ValueError):
        sinkscope.record(model, None, [inputs, later], progress=False)
    alone = sinkscope.record(model, None, [text], tokens=None, part="model.language_model", progress=False)
    assert "images" not in alone.conditions


def test_tokens_that_are_no_grid_of_patches_have_positions_as_names() -> None:
    model = tf.ViTMAEModel(tf.ViTMAEConfig(**SIZES, image_size=24, patch_size=8)).eval()  # hides most patches
    torch.manual_seed(3)
    inputs = {"pixel_values": torch.randn(1, 3, 24, 24), "noise": torch.arange(9.0)[None]}
    recording = sinkscope.record(model, None, [inputs], tokens=None, progress=False)
    assert recording.tokens() == ["0", "1", "2"] and "images" not in recording.conditions
    with refused(ValueError):
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


def test_the_command_records_images(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    torch.manual_seed(3)
    folder, out = tmp_path / "vit", tmp_path / "r.safetensors"
    tf.ViTModel(tf.ViTConfig(**SIZES, **GRID)).save_pretrained(folder)
    tf.ViTImageProcessor(size={"height": 24, "width": 24}).save_pretrained(folder)
    rng = np.random.default_rng(3)
    files = [tmp_path / f"{name}.png" for name in "ab"]
    for file in files:
        Pictures.fromarray(rng.integers(0, 255, (40, 60, 3), dtype=np.uint8)).save(file)
    command = ["record", str(folder), "--out", str(out), "--picture", "--images"]
    assert main([*command, *map(str, files)]) == 0, capsys.readouterr().err
    recording = sinkscope.open_recording(out)
    assert recording.conditions["prompts"]["count"] == 2 and recording["1.picture"].shape == (24, 24, 3)
    assert main(command[:-2]) == 1
    check_sentence(capsys.readouterr().err.splitlines()[-1], Path(__file__))
