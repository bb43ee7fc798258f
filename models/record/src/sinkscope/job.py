"""What the driver of a study and its workers share: its arguments, and the names and digests in its rows."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from .settings import Settings

Factory = Callable[[], tuple[Any, Any]]
Row = dict[str, Any]


@dataclass(frozen=True)
class Task:
    name: str
    blocks: list[int]


@dataclass(frozen=True)
class Job:
    """The arguments of a study. Every worker has them."""

    out: str
    models: Mapping[str, Factory | None]
    texts: Sequence[Any]
    settings: Settings
    block: int
    batch: int
    load_options: Mapping[str, Any] = field(default_factory=dict)
    source: str = "texts"
    license: str | None = None
    part: str | None = None
    generate: int = 0

    @property
    def blocks(self) -> int:
        return -(-len(self.texts) // self.block)

    def prompts(self, block: int) -> range:
        return range(block * self.block, min(len(self.texts), (block + 1) * self.block))


def slug(name: str, *digests: Any) -> str:
    """Returns a name for files, unique to the model's name and the digests of its weights and tokenizer."""
    readable_name = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")[-60:] or "model"
    suffixes = [sha256(name.encode()).hexdigest()[:10]]
    if digests:
        suffixes.append(sha256(" ".join(map(str, digests)).encode()).hexdigest()[:10])
    return "-".join([readable_name, *suffixes])


def split_revision(job: Job, name: str) -> tuple[str, str | None]:
    """Splits NAME@REVISION, unless a file has that name. A name without a revision gets that of `load_options`."""
    address, separator, revision = name.rpartition("@")
    if separator and address and not Path(name).exists():
        return address, revision
    return name, job.load_options.get("revision")


def digest_of_text(text: Any) -> str:
    if isinstance(text, Mapping):
        data = b"".join(str(key).encode() + np.asarray(text[key]).tobytes() for key in sorted(text))
    else:
        is_text = isinstance(text, str) or all(isinstance(x, str) for x in text)  # a text, or a text with its target
        data = json.dumps(text if is_text else [int(i) for i in text]).encode()
    return sha256(data).hexdigest()


@cache
def settings_text(settings: Settings) -> str:
    return json.dumps(asdict(settings), sort_keys=True)
