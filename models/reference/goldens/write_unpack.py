"""Writes tests/golden/unpack: blocks of every quantized type, and the numbers that they unpack to.

    python -m models.reference.goldens.write_unpack

The `gguf` package makes the blocks and unpacks them. Half of the blocks are quantized random rows; the other half are
random bytes with random scales, so that every bit of a block occurs, signs and subnormal scales included. Of the types
that the package cannot quantize, all blocks are random bytes.
"""

import json
from importlib.metadata import version

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, quants
from safetensors.numpy import save_file

from . import GOLDEN

FOLDER = GOLDEN / "unpack"
NUMBERS = 1024  # number of values of each type, in each half of the blocks

# The offsets of the half-precision scales in a block. MXFP4 has an exponent at its first byte instead.
SCALE_OFFSETS = {
    "Q8_0": [0],
    "Q4_0": [0],
    "Q4_1": [0, 2],
    "Q5_0": [0],
    "Q5_1": [0, 2],
    "Q4_K": [0, 2],
    "Q5_K": [0, 2],
    "Q6_K": [208],
    "Q2_K": [80, 82],
    "Q3_K": [108],
    "IQ4_NL": [0],
    "IQ4_XS": [0],
    "MXFP4": [],
}

EXPONENTS = (3, 253)  # of MXFP4: those whose numbers floats hold


def random_blocks(rng: np.random.Generator, size: int, count: int, scale_offsets: list[int]) -> np.ndarray:
    blocks = rng.integers(0, 256, (count, size), dtype=np.uint8)
    for offset in scale_offsets:
        values = rng.normal(0, 10.0 ** rng.integers(-7, 3, count)).astype(np.float16)
        values[0] = 0
        blocks[:, offset : offset + 2] = values.view(np.uint8).reshape(count, 2)
    if not scale_offsets:
        blocks[:, 0] = rng.integers(*EXPONENTS, count)
        blocks[0] = 0
    return blocks


def main() -> None:
    rng = np.random.default_rng(1)
    tensors: dict[str, np.ndarray] = {}
    for name, scale_offsets in SCALE_OFFSETS.items():
        kind = GGMLQuantizationType[name]
        block_length, size = GGML_QUANT_SIZES[kind]
        parts = [random_blocks(rng, size, NUMBERS // block_length, scale_offsets)]
        try:
            rows = rng.normal(0, 1, (NUMBERS // 256, 256)).astype(np.float32)
            parts.append(quants.quantize(rows, kind).reshape(-1, size))
        except NotImplementedError:  # the package reads these types but does not write them
            parts.append(random_blocks(rng, size, NUMBERS // block_length, scale_offsets))
        blocks = np.concatenate(parts)
        numbers = quants.dequantize(blocks, kind).astype(np.float32).reshape(-1)
        tensors[f"{name}.blocks"] = blocks.reshape(-1)
        tensors[f"{name}.numbers"] = numbers
    FOLDER.mkdir(exist_ok=True)
    save_file(tensors, FOLDER / "golden.safetensors")
    description = {
        "written_by": "models/reference/goldens/write_unpack.py",
        "numbers": f"gguf {version('gguf')}, numpy {version('numpy')}",
    }
    (FOLDER / "golden.json").write_text(json.dumps(description, indent=2) + "\n")


if __name__ == "__main__":
    main()
