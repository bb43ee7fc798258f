"""A recording: what a model did on some prompts, as one safetensors file. Needs numpy alone.

The tensors carry the names and shapes of the core's fields and metrics (`node wasm/cli.js describe`
lists them); the conditions are one JSON text in the file's metadata, described by
core/report/recording.schema.json.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import safe_open
from safetensors.numpy import save

Array = NDArray[Any]

VERSION = "1"
VERSION_KEY, CONDITIONS_KEY = "sinkscope.recording", "sinkscope"

# Published names of a field and a metric, each written in one place.
ROW_SUM, SEEN = "row_mass", "seen"
SIZES = ("L", "H", "G", "K", "D", "V")


class RecordingError(ValueError):
    """A file that is no recording; the message has the place, what was expected and what was found."""


class Table(list[dict[str, Any]]):
    """Rows of numbers, printed as text and, in a notebook, as an HTML table."""

    title = ""

    def _cells(self) -> list[list[str]]:
        head = list(self[0]) if self else []
        return [head] + [[_text(row[name]) for name in head] for row in self]

    def __str__(self) -> str:
        cells = self._cells()
        widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
                 for row in cells]
        return "\n".join(([self.title] if self.title else []) + lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from html import escape
        head, *rows = self._cells()
        lines = ["<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in row) + "</tr>"
                 for tag, row in [("th", head), *(("td", row) for row in rows)]]
        return f"<table><caption>{escape(self.title)}</caption>{''.join(lines)}</table>"


def _text(value: Any) -> str:
    if isinstance(value, float):
        return "–" if np.isnan(value) else f"{value:.4g}"
    return str(value)


@dataclass
class Recording:
    """`conditions` say what was measured and how; `tensors` hold it by name, as NumPy arrays.

    `i.NAME` is field NAME of kept prompt i; `mean.NAME` and `deviation.NAME` are over all prompts
    (sample deviation, n - 1); `prompt.NAME` has one row for each prompt.
    """

    conditions: dict[str, Any]
    tensors: dict[str, Array] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Array:
        if name not in self.tensors:
            raise KeyError(f"{name}: the recording has {', '.join(sorted(self.tensors))}")
        return self.tensors[name]

    def __contains__(self, name: str) -> bool:
        return name in self.tensors

    @property
    def model(self) -> dict[str, Any]:
        return self.conditions["model"]

    @property
    def first(self) -> int:
        """The position whose token counts as the first."""
        return (self.conditions.get("first") or {}).get("position") or 0

    def tokens(self, prompt: int = 0) -> list[str]:
        """The token strings of a kept prompt."""
        return self.conditions["tokens"][prompt]

    def attention(self, prompt: int = 0) -> Array:
        """The maps of a kept prompt in float32: [L, H, T, T], or [L, H, P, P] where they are pooled."""
        if f"{prompt}.att" in self:
            return self[f"{prompt}.att"].astype(np.float32)
        scale = self[f"{prompt}.att_scale"][..., None, None]
        return self[f"{prompt}.att_pooled"].astype(np.float32) * scale / np.float32(255)

    @property
    def title(self) -> str:
        m, prompts = self.model, self.conditions["prompts"]
        changes = "".join(f", {edit['label']}" for edit in self.conditions.get("edits") or [])
        return (f"{m['id']}{changes}: {m['L']} layers of {m['H']} heads, T = {prompts['T']}, "
                f"{prompts['count']} prompts, {self.conditions.get('class')}")

    def table(self) -> Table:
        """The summary metrics with the units of the core's table: mean over the prompts, sample
        deviation, and the largest value among layers and heads."""
        rows = Table()
        rows.title = self.title
        at, eps = self.first, self.conditions["eps"]
        for name, label, unit, pick in self._summary(at):
            for i, e in enumerate(eps if pick == "eps" else [None]):
                mean, deviation = (self.tensors[f"{of}.{name}"] for of in ("mean", "deviation"))
                if pick == "eps":
                    mean, deviation = mean[i, at], deviation[i, at]
                elif pick == "first":
                    mean, deviation = mean[..., at], deviation[..., at]
                largest = float(np.max(mean)) if np.size(mean) > 1 else float("nan")
                rows.append({"metric": label if e is None else f"{label}, eps {e:g}",
                             "unit": unit, "mean": float(np.mean(mean)),
                             "deviation": float(np.mean(deviation)), "largest": largest})
        return rows

    def _summary(self, at: int) -> Iterable[tuple[str, str, str, str]]:
        k = at + 1
        for name, label, unit, pick in (
                ("alpha", f"alpha_{k}", "share", "first"),
                ("alpha_raw", f"raw alpha_{k}", "weight", "first"),
                ("sink_ratio", f"Sink_{k}", "share of heads", "eps"),
                ("sink_ratio_raw", f"raw Sink_{k}", "share of heads", "eps"),
                (ROW_SUM, "row sum", "weight", "all"),
                ("entropy_mean", "entropy", "of ln n", "all"),
                ("contribution", "first-token contribution", "share", "all"),
                ("cos_gap", "cosine gap", "cosine", "all"),
                ("hidden_ratio", "|h_1| / |h|", "ratio", "all"),
                ("key_ratio", "|k_1| / |k|", "ratio", "all"),
                ("value_ratio", "|v_1| / |v|", "ratio", "all"),
                ("loss_mean", "loss", "nat", "all")):
            if f"mean.{name}" in self:
                yield name, label, unit, pick

    def save(self, path: str | PathLike[str]) -> int:
        """Writes the file at once, so that a reader never sees half of it; returns its size in bytes."""
        path, data = Path(path), bytes_of(self)
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(path.name + ".part")
        part.write_bytes(data)
        part.replace(path)
        return len(data)

    @classmethod
    def open(cls, path: str | PathLike[str]) -> "Recording":
        """Reads a file that `save`, the command line or the page wrote.

        Raises RecordingError where the file is no recording or one of a newer version.
        """
        try:
            with safe_open(path, framework="numpy") as file:
                metadata: Mapping[str, str] = file.metadata() or {}
                conditions = _conditions(path, metadata)
                return cls(conditions, {name: file.get_tensor(name) for name in file.keys()})  # noqa: SIM118
        except (OSError, RecordingError):
            raise
        except Exception as error:  # safetensors has an exception of its own for each kind of damage
            raise RecordingError(f"{path}: expected a safetensors file, found none: {error}") from error

    def __repr__(self) -> str:
        return f"<Recording {self.title}>"

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()


open_recording = Recording.open


def bytes_of(recording: Recording) -> bytes:
    """The file as `save` writes it."""
    return save({name: np.ascontiguousarray(x) for name, x in recording.tensors.items()},
                metadata={VERSION_KEY: VERSION,
                          CONDITIONS_KEY: json.dumps(recording.conditions, ensure_ascii=False)})


def from_maps(att: Array, tokens: Sequence[str], model_id: str = "maps",
              eps: Sequence[float] = (0.1, 0.2, 0.3)) -> Recording:
    """A recording of the maps of one prompt, made by any tool: att [L, H, T, T] and its T tokens.

    It has no mean over prompts: what is in the maps is measured by whoever reads them. The mask is
    causal where no query has weight on a later key.
    """
    if att.ndim != 4 or att.shape[-1] != att.shape[-2]:
        raise ValueError(f"att: expected maps [L, H, T, T], found {list(att.shape)}")
    L, H, T, _ = att.shape
    if len(tokens) != T:
        raise ValueError(f"tokens: expected {T}, one for each query, found {len(tokens)}")
    kind = "bidirectional" if np.triu(att, 1).any() else "causal"
    model = {"id": model_id, "revision": None, "sha256": None, "family": "maps", "L": L, "H": H, "G": H,
             "K": 1, "D": 1, "V": 1, "dtype": None, "attention": None, "operation": "softmax",
             "mask": {"kind": kind}}
    return Recording({
        "model": model, "first": {"token": tokens[0], "id": None, "position": 0},
        "tokens": [list(tokens)],
        "prompts": {"source": "maps", "sha256": None, "count": 1, "kept": 1, "T": T},
        "eps": list(eps), "class": "MEASURED", "licence": None, "versions": {}, "command": None,
    }, {"0.att": att.astype(np.float32), f"0.{ROW_SUM}": att.sum(-1).astype(np.float32)})


def _conditions(path: Any, metadata: Mapping[str, str]) -> dict[str, Any]:
    version = metadata.get(VERSION_KEY)
    if version is None:
        raise RecordingError(f"{path}: expected {VERSION_KEY} in the metadata, found none")
    if version.split(".")[0] != VERSION:
        raise RecordingError(f"{path}: expected a recording of version {VERSION}, found {version}")
    try:
        found = json.loads(metadata.get(CONDITIONS_KEY, ""))
    except ValueError as error:
        raise RecordingError(f"{path}: {CONDITIONS_KEY}: expected JSON, found none: {error}") from error
    if isinstance(found, dict) and not _are_edits(found.get("edits") or []):
        raise RecordingError(f"{path}: edits: expected a list of objects with a kind and a label, "
                             "found another")
    required = {"model": dict, "tokens": list, "prompts": dict, "eps": list}
    for key, kind in required.items():
        if not isinstance(found, dict) or not isinstance(found.get(key), kind):
            raise RecordingError(f"{path}: {key}: expected a {kind.__name__}, found another")
    for size in SIZES:
        if not isinstance(found["model"].get(size), int):
            raise RecordingError(f"{path}: model.{size}: expected a whole number, found another")
    return found


def _are_edits(edits: Any) -> bool:
    return isinstance(edits, list) and all(
        isinstance(edit, dict) and isinstance(edit.get("kind"), str)
        and isinstance(edit.get("label"), str) for edit in edits)


class Means:
    """Mean and sample deviation over prompts, one prompt at a time (Welford 1962), in float64."""

    def __init__(self) -> None:
        self.count = 0
        self.mean: dict[str, Array] = {}
        self.squares: dict[str, Array] = {}

    def add(self, metrics: Mapping[str, Array]) -> None:
        self.count += 1
        for name, x in metrics.items():
            value = x.astype(np.float64)
            apart = value - self.mean.setdefault(name, np.zeros_like(value))
            self.mean[name] = self.mean[name] + apart / self.count
            self.squares[name] = (self.squares.get(name, np.zeros_like(value))
                                  + apart * (value - self.mean[name]))

    def tensors(self) -> dict[str, Array]:
        """`mean.NAME` and `deviation.NAME`, float32; the deviation of one prompt is NaN."""
        with np.errstate(invalid="ignore", divide="ignore"):
            deviations = {name: np.sqrt(x / np.float64(self.count - 1))
                          for name, x in self.squares.items()}
        return ({f"mean.{name}": x.astype(np.float32) for name, x in self.mean.items()}
                | {f"deviation.{name}": x.astype(np.float32) for name, x in deviations.items()})
