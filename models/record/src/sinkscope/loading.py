"""Models by name: a folder, a name on the Hugging Face hub, or a GGUF file; and files of texts."""

import hashlib
import json
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import nn


@dataclass(frozen=True)
class Loaded:
    model: nn.Module
    tokenizer: Any
    id: str
    sha256: str | None = None  # of a GGUF file


def load(name: str | PathLike[str], dtype: str = "auto", device: str | None = None,
         **options: Any) -> Loaded:
    """The model, its tokenizer, and what to call it.

    `options` go to `from_pretrained` (attn_implementation, revision, device_map). The device is a GPU
    where there is one. A GGUF file is dequantized to float32, which needs the extra `gguf`.
    """
    path = Path(name)
    target = device or ("cuda" if torch.cuda.is_available() else "cpu")
    sha256, where = None, str(name)
    if path.suffix == ".gguf":
        if not path.is_file():
            raise FileNotFoundError(f"{path}: expected a GGUF file, found none")
        options |= {"gguf_file": path.name}
        where, dtype = str(path.parent), "float32" if dtype == "auto" else dtype
        with path.open("rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest() if hasattr(
                hashlib, "file_digest") else hashlib.sha256(file.read()).hexdigest()
    chosen = {key: options[key] for key in ("gguf_file", "revision") if key in options}
    tokenizer = transformers.AutoTokenizer.from_pretrained(where, **chosen)
    config = transformers.AutoConfig.from_pretrained(where, **chosen)
    kind = getattr(transformers, (config.architectures or ["AutoModelForCausalLM"])[0],
                   transformers.AutoModelForCausalLM)
    if "gguf_file" in options:
        kind = transformers.AutoModelForCausalLM
    model = kind.from_pretrained(where, dtype=dtype, **options).eval()
    if "device_map" not in options:
        model = model.to(target)
    return Loaded(model, tokenizer, path.stem if path.suffix == ".gguf" else where, sha256)


def read_texts(path: str | PathLike[str]) -> list[str]:
    """The texts of a file: a JSON list of strings (.json), lines of {"text": ...} (.jsonl), or plain
    text in which blank lines separate the texts."""
    path = Path(path)
    try:
        content = path.read_text(encoding="utf-8-sig")
        if path.suffix == ".json":
            found = json.loads(content)
        elif path.suffix == ".jsonl":
            # A line ends at a line feed alone: U+2028 may stand inside a JSON string.
            found = [_text_of(line, f"{path}, line {i}") for i, line in enumerate(content.split("\n"), 1)
                     if line.strip()]
        else:
            blocks = content.replace("\r\n", "\n").split("\n\n")
            found = [block.strip("\n") for block in blocks if block.strip()]
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: expected {'JSON' if path.suffix == '.json' else 'text'} in UTF-8, "
                         f"found something else: {error}") from error
    if not isinstance(found, list) or not found or not all(isinstance(text, str) for text in found):
        raise ValueError(f"{path}: expected one text or more, found none or something else")
    return found


def _text_of(line: str, where: str) -> str:
    try:
        found = json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f'{where}: expected {{"text": ...}}, found no JSON: {error}') from error
    text = found.get("text") if isinstance(found, dict) else None
    if not isinstance(text, str):
        raise ValueError(f'{where}: expected one text or more as {{"text": ...}}, found '
                         f"{'no text' if isinstance(found, dict) else 'a ' + type(found).__name__}")
    return text
