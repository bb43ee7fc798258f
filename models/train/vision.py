"""Trains a vision transformer of 4 layers on handwritten digits, so that the page has a recording of a trained one: no
package registry holds the weights of a small published model.

    models/fetch/digits      fetches the digits, runs this, and records the model
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch.nn.functional import cross_entropy
from transformers import ViTConfig, ViTForImageClassification, ViTImageProcessor

SIDE, PATCH, CLASSES = 28, 4, 10
HELD, SHOWN = 1000, 32
BATCH, STEPS, LEARNING_RATE, SHIFT = 64, 2500, 2e-3, 3


def read_digits(folder: Path) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns images [N, 1, SIDE, SIDE] in 0 to 1 and classes [N], shuffled, from mnist's 0.json to 9.json."""
    pixels = [np.array(json.loads((folder / f"{i}.json").read_text())["data"], np.float32) for i in range(CLASSES)]
    images = [values.reshape(-1, 1, SIDE, SIDE) for values in pixels]
    classes = np.repeat(np.arange(CLASSES), [len(part) for part in images])
    order = np.random.default_rng(0).permutation(len(classes))
    return torch.from_numpy(np.concatenate(images)[order]), torch.from_numpy(classes[order])


def inputs_of(images: torch.Tensor) -> torch.Tensor:
    """Returns what the model reads: three equal channels in -1 to 1, as its processor makes them."""
    return (2 * images - 1).expand(-1, 3, -1, -1)


def train(images: torch.Tensor, classes: torch.Tensor) -> ViTForImageClassification:
    torch.manual_seed(1)
    sizes = {"hidden_size": 64, "intermediate_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4}
    model = ViTForImageClassification(ViTConfig(image_size=SIDE, patch_size=PATCH, num_labels=CLASSES, **sizes))
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, LEARNING_RATE, total_steps=STEPS)
    draw, start = np.random.default_rng(1), time.monotonic()
    for step in range(1, STEPS + 1):
        chosen = draw.integers(HELD, len(classes), BATCH)
        shift = draw.integers(-SHIFT, SHIFT + 1, 2).tolist()
        logits = model(pixel_values=inputs_of(images[chosen].roll(shift, (2, 3)))).logits
        optimizer.zero_grad()
        cross_entropy(logits, classes[chosen]).backward()
        optimizer.step()
        schedule.step()
        if step % 250 == 0:
            with torch.no_grad():
                hits = model(pixel_values=inputs_of(images[:HELD])).logits.argmax(-1) == classes[:HELD]
            right, seconds = hits.float().mean(), time.monotonic() - start
            print(
                f"step {step}: {100 * right:.1f}% of {HELD} held-out digits are read right, {seconds:.0f} s", flush=True
            )
    return model.eval()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("digits", type=Path, help="folder of 0.json to 9.json")
    parser.add_argument("out", type=Path, help="folder for the model, and for held-out digits as images")
    options = parser.parse_args()
    images, classes = read_digits(options.digits)
    model = train(images, classes)
    model.save_pretrained(options.out)
    middle = {"image_mean": [0.5] * 3, "image_std": [0.5] * 3}
    ViTImageProcessor(size={"height": SIDE, "width": SIDE}, **middle).save_pretrained(options.out)
    for i in range(SHOWN):
        gray = (255 * images[i, 0]).round().to(torch.uint8).numpy()
        Image.fromarray(gray).save(options.out / f"{i:02}-is-{classes[i]}.png")


if __name__ == "__main__":
    main()
