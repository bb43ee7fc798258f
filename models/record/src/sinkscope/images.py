"""The image of a prompt: which tokens are its patches, how these lie in rows and columns, and the picture itself."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any

import torch
from torch import Tensor, nn

from .recording import KINDS, MAX_PICTURE_SIDE, Array

VISION_SPECIALS = ("[CLS]", "[DIST]")  # before the registers and the patches; DeiT has the second


@dataclass(frozen=True)
class Image:
    tokens: list[str]
    kinds: str  # a letter of KINDS for each token
    rows: int
    cols: int

    def conditions(self) -> dict[str, Any]:
        return {"kinds": self.kinds, "rows": self.rows, "cols": self.cols}

    def masks(self) -> dict[str, Tensor]:
        """Returns which tokens are of each kind, float [T] each."""
        return {name: torch.tensor([float(kind == letter) for kind in self.kinds]) for letter, name in KINDS.items()}


def find_patches(model: nn.Module, inputs: Mapping[str, Tensor], T: int) -> Image | None:
    """Returns the patches of a vision model's prompt, in rows; None if its tokens are no grid of patches after a class
    token and registers."""
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


def read_images(processor: Any, paths: Sequence[str | PathLike[str]]) -> list[Any]:
    """Returns the inputs of a vision model for each image file."""
    from PIL import Image as Pictures

    return [processor(images=Pictures.open(path).convert("RGB"), return_tensors="pt") for path in paths]


def patch_names(rows: int, cols: int) -> list[str]:
    return [f"patch {row},{col}" for row in range(rows) for col in range(cols)]


def make_picture(inputs: Mapping[str, Tensor], processor: Any) -> Array | None:
    """Returns the picture that the model saw, uint8 [height, width, 3], shrunk to at most MAX_PICTURE_SIDE; None if its
    pixels are in no rows and columns. The processor's mean and deviation give the colors; without a processor the
    smallest number is black and the largest is white."""
    pixels = inputs.get("pixel_values")
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
