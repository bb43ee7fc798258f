"""The image of a prompt: which tokens are its patches, how these lie in rows and columns, and the picture itself."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isqrt
from os import PathLike
from typing import Any

import torch
from torch import Tensor, nn

from .attention import unwrap
from .recording import KINDS, MAX_PICTURE_SIDE, Array

VISION_SPECIALS = ("[CLS]", "[DIST]")  # before the registers and the patches; DeiT has the second


@dataclass(frozen=True)
class Image:
    tokens: list[str]
    kinds: str  # a letter of KINDS for each token
    rows: int | None
    cols: int | None

    def conditions(self) -> dict[str, Any]:
        return {"kinds": self.kinds, "rows": self.rows, "cols": self.cols}

    def masks(self) -> dict[str, Tensor]:
        """Returns which tokens are of each kind, float [T] each."""
        return {name: torch.tensor([float(kind == letter) for kind in self.kinds]) for letter, name in KINDS.items()}


def find_patches(model: nn.Module, inputs: Mapping[str, Tensor], T: int) -> Image | None:
    """Returns the patches of a vision model's prompt, in rows; None if its tokens are no grid of patches."""
    pixels = inputs.get("pixel_values")
    configs = [config for m in model.modules() if hasattr(config := getattr(m, "config", None), "patch_size")]
    if not configs or pixels is None or pixels.dim() != 4:
        return None
    size, registers = configs[0].patch_size, getattr(configs[0], "num_register_tokens", 0) or 0
    height, width = (size, size) if isinstance(size, int) else tuple(size)
    rows, cols = pixels.shape[-2] // height, pixels.shape[-1] // width
    specials = T - rows * cols - registers
    if not 0 <= specials <= len(VISION_SPECIALS):
        return None
    names = [*VISION_SPECIALS[:specials], *(f"register {i + 1}" for i in range(registers))]
    return Image([*names, *patch_names(rows, cols)], "s" * len(names) + "i" * (rows * cols), rows, cols)


def read_images(processor: Any, paths: Sequence[str | PathLike[str]], texts: Sequence[str] = ()) -> list[Any]:
    """Returns the model inputs of each image file, with the text of the same index if there are texts, in the
    processor's chat template if it has one."""
    from PIL import Image as Pictures

    if texts and len(texts) != len(paths):
        raise ValueError(f"--images: expected {len(texts)}, one for each text, found {len(paths)}")
    pictures = [Pictures.open(path).convert("RGB") for path in paths]
    if not texts:
        return [processor(images=picture, return_tensors="pt") for picture in pictures]
    return [_pair(processor, picture, text) for picture, text in zip(pictures, texts, strict=True)]


def _pair(processor: Any, picture: Any, text: str) -> Any:
    if getattr(processor, "chat_template", None):
        content = [{"type": "image"}, {"type": "text", "text": text}]
        text = processor.apply_chat_template([{"role": "user", "content": content}], add_generation_prompt=True)
    elif processor.image_token not in text:
        text = f"{processor.image_token}{text}"
    return processor(images=picture, text=text, return_tensors="pt")


def find_language_model(model: nn.Module, prompts: Sequence[Mapping[str, Tensor]]) -> nn.Module | None:
    """Returns the language model of a vision-language model that reads an image among the tokens of these prompts; None
    for other models and prompts."""
    token, get_decoder = image_token(model), getattr(unwrap(model), "get_decoder", None)
    have_images = ["pixel_values" in x and token is not None and token in x.get("input_ids", ()) for x in prompts]
    if not any(have_images) or get_decoder is None:
        return None
    if not all(have_images):
        raise ValueError(
            f"texts: expected an image in each prompt or in none, found none in {have_images.index(False)}"
        )
    return get_decoder()


def image_token(model: nn.Module) -> int | None:
    """Returns the id of the token that stands for a patch."""
    config = getattr(unwrap(model), "config", None)
    return getattr(config, "image_token_id", getattr(config, "image_token_index", None))


def find_image_tokens(
    model: nn.Module, inputs: Mapping[str, Tensor], tokens: list[str], tokenizer: Any
) -> Image | None:
    """Returns the kinds of the tokens of a prompt of a vision-language model; None without an image in it."""
    token = image_token(model)
    ids = inputs["input_ids"][0].tolist() if "input_ids" in inputs else []
    if token is None or token not in ids or "pixel_values" not in inputs:
        return None
    text_config = unwrap(model).config.get_text_config()
    special_ids = getattr(tokenizer, "all_special_ids", None) or [text_config.bos_token_id, text_config.eos_token_id]
    kinds = "".join("i" if i == token else "s" if i in special_ids else "t" for i in ids)
    rows, cols = _grid_of(model, inputs, kinds.count("i"))
    names = iter(patch_names(rows, cols) if rows and cols else [])
    return Image([next(names, x) if k == "i" else x for k, x in zip(kinds, tokens, strict=True)], kinds, rows, cols)


def _grid_of(model: nn.Module, inputs: Mapping[str, Tensor], count: int) -> tuple[int | None, int | None]:
    """Returns the rows and columns of all patches, several images one below the other; None if they are in no grid."""
    if "image_grid_thw" in inputs:
        merged = unwrap(model).config.vision_config.spatial_merge_size
        sizes = {(h // merged, w // merged) for _, h, w in inputs["image_grid_thw"].tolist()}
    else:
        pictures = max(1, inputs["pixel_values"].shape[:-3].numel())
        side = isqrt(count // pictures)
        sizes = {(side, side)}
    rows, cols = sizes.pop()
    return (count // cols, cols) if not sizes and cols and count % (rows * cols) == 0 else (None, None)


def patch_names(rows: int, cols: int) -> list[str]:
    return [f"patch {row},{col}" for row in range(rows) for col in range(cols)]


def make_picture(model: nn.Module, inputs: Mapping[str, Tensor], processor: Any) -> Array | None:
    """Returns the picture that the model saw, uint8 [height, width, 3], shrunk to at most MAX_PICTURE_SIDE; None if its
    pixels are in no rows and columns. The processor's mean and deviation give the colors; without a processor the
    smallest number is black and the largest is white."""
    pixels = inputs.get("pixel_values")
    if "image_grid_thw" in inputs and pixels is not None:
        pixels = _join_patches(unwrap(model).config.vision_config, pixels, inputs["image_grid_thw"])
    if pixels is None or pixels.dim() < 4 or pixels.shape[-3] not in (1, 3):
        return None
    x = pixels.float().flatten(0, -4).permute(1, 0, 2, 3).flatten(1, 2)  # several images are one below the other
    processor = getattr(processor, "image_processor", processor)
    mean, deviation = (getattr(processor, f"image_{name}", None) for name in ("mean", "std"))
    if mean is not None and deviation is not None:
        x = x * torch.tensor(deviation).view(-1, 1, 1) + torch.tensor(mean).view(-1, 1, 1)
    else:
        x = (x - x.min()) / (x.max() - x.min()).clamp_min(1e-12)
    scale = min(1, MAX_PICTURE_SIDE / max(x.shape[1:]))
    sides = [max(1, int(side * scale)) for side in x.shape[1:]]
    x = nn.functional.interpolate(x[None], sides, mode="area")[0].expand(3, -1, -1)
    return (x.clamp(0, 1) * 255).round().to(torch.uint8).permute(1, 2, 0).contiguous().numpy()


def _join_patches(config: Any, pixels: Tensor, grid: Tensor) -> Tensor | None:
    """Returns the pixels of one image whose patches came one by one, those of a merged patch together, [1, 3, h, w]."""
    (frames, rows, cols), merged, side = grid[0].tolist(), config.spatial_merge_size, config.patch_size
    if len(grid) > 1 or frames > 1:
        return None
    x = pixels.view(rows // merged, cols // merged, merged, merged, 3, -1, side, side)[:, :, :, :, :, 0]
    return x.permute(4, 0, 2, 5, 1, 3, 6).reshape(1, 3, rows * side, cols * side)
