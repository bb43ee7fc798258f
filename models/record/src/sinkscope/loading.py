"""Loads models by name (a folder, a name on the Hugging Face hub, or a GGUF file), and computes the digests that
identify them."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import nn


@dataclass(frozen=True)
class LoadedModel:
    model: nn.Module
    tokenizer: Any
    id: str
    sha256: str | None = None


def load(
    name: str | PathLike[str], dtype: str = "auto", device: str | None = None, images: bool = False, **options: Any
) -> LoadedModel:
    """Returns the model, its tokenizer (with `images` its processor), and its name. `options` go to `from_pretrained`
    (attn_implementation, revision, device_map). The device is a GPU if there is one. A GGUF file is dequantized to
    float32, which needs the extra `gguf`."""
    path = Path(name)
    target = device or ("cuda" if torch.cuda.is_available() else "cpu")
    sha256, address = None, str(name)
    if path.suffix == ".gguf":
        if not path.is_file():
            raise FileNotFoundError(f"{path}: expected a GGUF file, found none")
        options |= {"gguf_file": path.name}
        address, dtype = str(path.parent), "float32" if dtype == "auto" else dtype
        sha256 = file_sha256(path)
    source_options = {key: options[key] for key in ("gguf_file", "revision") if key in options}
    reader = transformers.AutoProcessor if images else transformers.AutoTokenizer
    tokenizer = reader.from_pretrained(address, **source_options)
    config = transformers.AutoConfig.from_pretrained(address, **source_options)
    model_class = getattr(
        transformers, (config.architectures or ["AutoModelForCausalLM"])[0], transformers.AutoModelForCausalLM
    )
    if "gguf_file" in options:
        model_class = transformers.AutoModelForCausalLM
    model, found = model_class.from_pretrained(address, dtype=dtype, output_loading_info=True, **options)
    # transformers draws what a file lacks at random; heads and poolers, outside of numbered layers, change no map.
    if drawn := [key for key in sorted(found["missing_keys"]) if re.search(r"\.\d+\.", key)]:
        others = "".join(f", {key} instead" for key in sorted(found["unexpected_keys"])[:1])
        raise ValueError(f"{address}: expected the weights of every layer, found no {drawn[0]}{others}")
    model = model.eval()
    if "device_map" not in options:
        model = model.to(target)
    return LoadedModel(model, tokenizer, path.stem if path.suffix == ".gguf" else address, sha256)


def file_sha256(path: Path) -> str:
    digest, buffer = hashlib.sha256(), bytearray(2**20)
    with path.open("rb", buffering=0) as file:
        while n := file.readinto(buffer):
            digest.update(memoryview(buffer)[:n])
    return digest.hexdigest()


# Names of a tokenizer's files, and of files that belong to neither tokenizer nor model.
TOKENIZER_FILES = re.compile(r"(added_tokens|chat_template|merges|sentencepiece|special_tokens|spiece|tokenizer|vocab)")
OTHER_FILES = re.compile(r"(\.git|readme|license)|.*\.(md|txt|png|jpg|pdf|svg|ipynb|csv)$", re.IGNORECASE)


@dataclass(frozen=True)
class Digests:
    """SHA-256 of a model's weights with its config, and of its tokenizer."""

    weights: str
    tokenizer: str | None


def digests_of_name(name: str | PathLike[str], revision: str | None = None) -> Digests:
    """Returns the digests of the files that `load` would read. The hub lists digests; local files are hashed."""
    path = Path(name)
    if path.suffix == ".gguf" and path.is_file():
        digest = file_sha256(path)  # the file has the tokenizer as well
        return Digests(digest, digest)
    if path.is_dir():
        return _digests_of_files({file.name: file_sha256(file) for file in path.iterdir() if file.is_file()})
    import huggingface_hub
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        files = huggingface_hub.model_info(str(name), revision=revision, files_metadata=True).siblings or []
    except (OSError, ValueError) as error:  # without a network, use the cache of an earlier run
        try:
            folder = huggingface_hub.snapshot_download(str(name), revision=revision, local_files_only=True)
        except (LocalEntryNotFoundError, OSError, ValueError):
            raise error from None
        return digests_of_name(folder)
    return _digests_of_files(
        {
            file.rfilename: file.lfs.sha256 if file.lfs else str(file.blob_id)
            for file in files
            if "/" not in file.rfilename
        }
    )


def _digests_of_files(files: Mapping[str, str]) -> Digests:
    tokenizer = {name: x for name, x in files.items() if TOKENIZER_FILES.match(name)}
    weights = {name: x for name, x in files.items() if name not in tokenizer and not OTHER_FILES.match(name)}
    if not weights:
        raise FileNotFoundError("expected files of a model, found none")
    return Digests(_digest_of_json(weights), _digest_of_json(tokenizer) if tokenizer else None)


def sizes_of_name(name: str, revision: str | None = None) -> tuple[int, int, int] | None:
    """Returns L, H and G from the config of the named model; None if the config lacks a size or cannot be read."""
    path, options = Path(name), {"revision": revision} if revision else {}
    if path.suffix == ".gguf":
        name, options = str(path.parent), {"gguf_file": path.name}
    try:
        config: Any = transformers.AutoConfig.from_pretrained(name, **options).get_text_config()
    except (OSError, ValueError):
        return None
    L, H = (getattr(config, key, None) for key in ("num_hidden_layers", "num_attention_heads"))
    return (L, H, getattr(config, "num_key_value_heads", None) or H) if L and H else None


def digests_of(model: nn.Module, tokenizer: Any) -> Digests:
    """Returns the digests of a model in memory, over every tensor of its state, and of the tokenizer, over its
    serialized form or its vocabulary."""
    digest = hashlib.sha256()
    for name, x in model.state_dict().items():
        if isinstance(x, torch.Tensor):
            digest.update(f"{name} {x.dtype} {list(x.shape)}\n".encode())
            digest.update(x.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is not None:
        content: Any = json.loads(backend.to_str())
    else:
        content = tokenizer.get_vocab() if hasattr(tokenizer, "get_vocab") else None
    return Digests(digest.hexdigest(), None if content is None else _digest_of_json(content))


def _digest_of_json(x: Any) -> str:
    return hashlib.sha256(json.dumps(x, sort_keys=True).encode()).hexdigest()
