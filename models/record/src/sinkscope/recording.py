"""A recording: what a model did on some prompts, as one safetensors file. Needs numpy alone.

The tensors carry the names and shapes of the core's fields and metrics (`node wasm/cli.js describe`
lists them); the conditions are one JSON text in the file's metadata, described by
core/report/recording.schema.json.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from safetensors import safe_open
from safetensors.numpy import save

from .files import check_source, write_bytes

if TYPE_CHECKING:
    import pandas

Array = NDArray[Any]

VERSION = "1"
VERSION_KEY, CONDITIONS_KEY = "sinkscope.recording", "sinkscope"

CITATION = """@inproceedings{gu2025attention,
  title = {When Attention Sink Emerges in Language Models: An Empirical View},
  author = {Gu, Xiangming and Pang, Tianyu and Du, Chao and Liu, Qian and Zhang, Fengzhuo and
            Du, Cunxiao and Wang, Ye and Lin, Min},
  booktitle = {International Conference on Learning Representations},
  year = {2025},
  url = {https://arxiv.org/abs/2410.10781}
}"""

# Published names of a field and a metric, each written in one place.
ROW_SUM, SEEN = "row_mass", "seen"
SIZES = ("L", "H", "G", "K", "D", "V")
# Names of `prompt.NAME` that differ from the metric's: the page and the core know these.
PROMPT_ROWS = {"alpha": "alpha_1", "sink_ratio": "sink_1", "loss_mean": "loss"}
# Metrics whose smallest and largest value over the prompts are recorded.
RANGED = ("alpha", "entropy_mean", "distance", "contribution", "cos_gap", "loss_mean")
# The units of the summary, as the core's table has them.
UNITS = {
    "alpha": "share", "alpha_raw": "weight", "sink_ratio": "share of heads",
    "sink_ratio_raw": "share of heads", ROW_SUM: "weight", "entropy_mean": "of ln n", "distance": "tokens",
    "contribution": "share", "cos_gap": "cosine", "hidden_ratio": "ratio", "key_ratio": "ratio",
    "value_ratio": "ratio", "loss_mean": "nat",
}


# Characters that a terminal obeys, or that reorder a line of text; and those that end a line or a cell.
_CONTROLS = "\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff"


def visible(text: str, lines: bool = False) -> str:
    """Returns the text with its control characters as escapes; `lines` keeps tabs and line feeds."""
    wanted = f"[{_CONTROLS}]" if lines else f"[{_CONTROLS}\t\n]"
    return re.sub(wanted, lambda found: f"\\u{ord(found[0]):04x}", text)


class RecordingError(ValueError):
    """A file that is no recording; the message has the place, the expected and the actual value."""


class Table(list[dict[str, Any]]):
    """Rows of numbers, printed as text and, in a notebook, as an HTML table."""

    title = ""

    def _cells(self) -> list[list[str]]:
        head = list(self[0]) if self else []
        return [head] + [[_text(row[name]) for name in head] for row in self]

    def to_csv(self) -> str:
        """Rows end with a line feed; undefined values are empty."""
        import csv
        from io import StringIO

        out = StringIO()
        writer = csv.DictWriter(out, list(self[0]) if self else ["metric"], lineterminator="\n")
        writer.writeheader()
        for row in self.defined():
            writer.writerow({name: "" if x is None else x for name, x in row.items()})
        return out.getvalue()

    def defined(self) -> list[dict[str, Any]]:
        """Returns the rows with None for undefined values, as JSON needs it."""
        return [
            {name: None if isinstance(x, float) and not np.isfinite(x) else x for name, x in row.items()}
            for row in self
        ]

    def __str__(self) -> str:
        cells = self._cells()
        widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in cells
        ]
        return "\n".join(([visible(self.title)] if self.title else []) + lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from html import escape

        head, *rows = self._cells()
        lines = [
            "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in row) + "</tr>"
            for tag, row in [("th", head), *(("td", row) for row in rows)]
        ]
        return f"<table><caption>{escape(self.title)}</caption>{''.join(lines)}</table>"


def _text(value: Any) -> str:
    if isinstance(value, float):
        return "–" if np.isnan(value) else f"{value:.4g}"
    return str(value)


@dataclass
class Recording:
    """`conditions` say what was measured and how; `tensors` hold it by name, as NumPy arrays.

    `i.NAME` is field NAME of kept prompt i; `mean.NAME` and `deviation.NAME` are over all prompts
    (sample deviation, n - 1), and so are `min.NAME` and `max.NAME`; `prompt.NAME` has one row for each prompt.
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
    def layers(self) -> list[int]:
        """The model's own numbers of the layers with attention: [L] in the shapes of attention."""
        return self.model.get("layers") or list(range(self.model["L"]))

    @property
    def blocks(self) -> int:
        """All layers of the model: hidden states have blocks + 1 rows."""
        return self.model.get("blocks") or self.model["L"]

    @property
    def first(self) -> int:
        """The position of the token that counts as the first."""
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

    def map(self, layer: int, head: int, prompt: int = 0) -> Array:
        """The map of one head on a kept prompt, [T, T]; `layer` is the model's own number.

        Raises ValueError where that layer has no attention.
        """
        if layer not in self.layers:
            raise ValueError(f"layer: expected one of {', '.join(map(str, self.layers))}, got {layer}")
        if not 0 <= head < self.model["H"]:
            raise ValueError(f"head: expected 0 to {self.model['H'] - 1}, got {head}")
        return self.attention(prompt)[self.layers.index(layer), head]

    def measure(self, eps: float | None = None) -> dict[str, Any]:
        """The sink in the words of the JavaScript package's `measure`, as means over the prompts.

        `sink`: Sink_k^eps, from 0 to 1; where rows need not sum to 1, the smaller of that by shares and by
        weights (Gu et al. 2025, section 3.2). `alpha`: [L, H], the weight of the first token in each head, as
        the model uses it. `layer` and `head` give the first token most; `map` is theirs on the first kept prompt, and
        None where none is kept. Raises ValueError for an eps that was not recorded.
        """
        thresholds = list(self.conditions["eps"])
        eps = thresholds[0] if eps is None else eps
        if eps not in thresholds:
            raise ValueError(f"eps: expected one of {', '.join(map(str, thresholds))}, got {eps}")
        i, names = thresholds.index(eps), [n for n in ("sink_ratio", "sink_ratio_raw") if f"mean.{n}" in self]
        alpha = self["mean.alpha_raw" if "mean.alpha_raw" in self else "mean.alpha"][..., self.first]
        at, head = divmod(int(np.nanargmax(alpha)), alpha.shape[1])
        layer = self.layers[at]
        kept = bool(self.conditions.get("tokens")) and ("0.att" in self or "0.att_pooled" in self)
        return {
            "sink": float(min(self[f"mean.{name}"][i, self.first] for name in names)),
            "eps": eps,
            "alpha": alpha,
            "layer": layer,
            "head": head,
            "map": self.map(layer, head) if kept else None,
            "tokens": self.tokens() if kept else None,
        }

    @property
    def title(self) -> str:
        m, prompts = self.model, self.conditions["prompts"]
        changes = "".join(f", {edit['label']}" for edit in self.conditions.get("edits") or [])
        which = ", ".join(map(str, self.layers))
        some = f", attention in {m['L']} ({which})," if self.blocks > m["L"] else ""
        return (
            f"{m['id']}{changes}: {self.blocks} layers{some} of {m['H']} heads, T = {prompts['T']}, "
            f"{prompts['count']} prompts, {self.conditions.get('class')}"
        )

    def table(self) -> Table:
        """The summary metrics in the units of the core's table: the mean over prompts and over the layers and
        heads that have one, its 95% interval over prompts (Student's t), the mean of the prompts' sample
        deviations, the largest and where."""
        rows = Table()
        rows.title = f"{self.title}; low and high: 95% interval over prompts, Student's t"
        for name, label, mean, deviation, prompts in self._summary():
            low, high = interval(prompts) if prompts is not None else (np.nan, np.nan)
            at, has_parts = int(np.argmax(np.where(np.isfinite(mean), mean, -np.inf))), mean.size > 1
            rows.append(
                {
                    "metric": label,
                    "unit": UNITS[name],
                    "mean": _mean(mean),
                    "low": low,
                    "high": high,
                    "deviation": _mean(deviation),
                    "largest": float(mean.flat[at]) if has_parts else np.nan,
                    "at": self.place(name, at) if has_parts else "",
                }
            )
        return rows

    def place(self, name: str, at: int) -> str:
        """Names the place of element `at` of a metric of heads or layers, by the model's own numbers: "L3H0"."""
        shape = self.tensors[f"mean.{name}"].shape
        if len(shape) == 1:
            return "embedding" if at == 0 else f"after layer {at - 1}"
        columns = shape[1]
        layer, head = self.layers[at // columns], at % columns
        return f"L{layer}KV{head}" if name in ("key_ratio", "value_ratio") else f"L{layer}H{head}"

    def _summary(self) -> Iterator[tuple[str, str, Array, Array, Array | None]]:
        """The name and label of each summary metric, mean and deviation of each of its parts (heads, layers, or one),
        and one number for each prompt."""
        at = self.first
        for name, label, pick in self.summarized():
            mean, deviation = (self.tensors[f"{of}.{name}"] for of in ("mean", "deviation"))
            prompts = self.tensors.get(f"prompt.{PROMPT_ROWS.get(name, name)}")
            if pick == "eps":
                for i, e in enumerate(self.conditions["eps"]):
                    each = None if prompts is None else prompts[:, i]
                    yield name, f"{label}, eps {e:g}", mean[i, at][None], deviation[i, at][None], each
            else:
                mean, deviation = (self._part(x, pick) for x in (mean, deviation))
                yield name, label, mean, deviation, prompts

    def _part(self, x: Array, pick: str) -> Array:
        """Returns the part of a metric that the summary covers: its first token, the mean over its rows, or all of
        it."""
        return x[..., self.first] if pick == "first" else x.mean(-1) if pick == "rows" else x

    def summarized(self) -> Iterator[tuple[str, str, str]]:
        """The name and label of each metric of the summary that the recording has."""
        k = self.first + 1
        for name, label, pick in (
            ("alpha", f"alpha_{k}", "first"),
            ("alpha_raw", f"raw alpha_{k}", "first"),
            ("sink_ratio", f"Sink_{k}", "eps"),
            ("sink_ratio_raw", f"raw Sink_{k}", "eps"),
            (ROW_SUM, "row sum", "rows"),
            ("entropy_mean", "entropy", "all"),
            ("distance", "distance", "all"),
            ("contribution", "first-token contribution", "all"),
            ("cos_gap", "cosine gap", "all"),
            ("hidden_ratio", f"|h_{k}| / |h|", "all"),
            ("key_ratio", f"|k_{k}| / |k|", "all"),
            ("value_ratio", f"|v_{k}| / |v|", "all"),
            ("loss_mean", "loss", "all"),
        ):
            if f"mean.{name}" in self and f"deviation.{name}" in self:
                yield name, label, pick

    def to_pandas(self) -> "pandas.DataFrame":
        """The table as a pandas DataFrame, a row for each metric. Needs pandas."""
        return _pandas().DataFrame(list(self.table()))

    def to_dataframe(self) -> "pandas.DataFrame":
        """A row for each head, by the model's own layer numbers, with the mean, the deviation, the minimum
        and the maximum over prompts of each metric of heads. Needs pandas."""
        return _pandas().DataFrame(self.heads())

    def heads(self) -> list[dict[str, Any]]:
        """The same as a list of dictionaries."""
        H = self.model["H"]
        columns: dict[str, Array] = {}
        for name, _, pick in self.summarized():
            if pick == "eps":
                continue
            for of, suffix in (("mean", ""), ("deviation", "_deviation"), ("min", "_min"), ("max", "_max")):
                if f"{of}.{name}" not in self:
                    continue
                x = self._part(self.tensors[f"{of}.{name}"], pick)
                if x.ndim == 2:
                    columns[name + suffix] = x.repeat(H // x.shape[1], 1)
        return [
            {"layer": layer, "head": h} | {name: float(x[i, h]) for name, x in columns.items()}
            for i, layer in enumerate(self.layers)
            for h in range(H)
        ]

    def caption(self) -> str:
        """Returns the conditions that a reader of a figure must know: the model, the prompts, T, eps, and the first
        token."""
        first, prompts = self.conditions.get("first") or {}, self.conditions["prompts"]
        eps = ", ".join(f"{e:g}" for e in self.conditions["eps"])
        token = (
            f"first token {first['token']!r}"
            if first.get("token") is not None
            else "no common first token"
        )
        where = f" at position {self.first}" if self.first else ""
        return (
            f"{self.title}. n = {prompts['count']} prompts of T = {prompts['T']} tokens, eps {eps}, "
            f"{token}{where}."
        )

    def cite(self) -> str:
        """Returns the citation of these numbers: the measures, and the conditions as a sentence."""
        versions = ", ".join(
            f"{name} {number}" for name, number in (self.conditions.get("versions") or {}).items()
        )
        return f"{CITATION}\n\n{self.caption()} Recorded with {versions or 'sinkscope'}."

    def save(self, path: str | PathLike[str]) -> int:
        """Writes the file atomically, so that a reader never sees half of it; returns its size in bytes."""
        return write_bytes(path, bytes_of(self))

    @classmethod
    def open(cls, path: str | PathLike[str]) -> "Recording":
        """Reads a file that `save`, the command line, the page or a study wrote; a study's address, too.

        Raises RecordingError where the file is no recording or one of a newer version.
        """
        if "://" in str(path):
            return cls._open_address(str(path))
        check_source(path, RecordingError)
        try:
            with safe_open(path, framework="numpy") as file:
                metadata: Mapping[str, str] = file.metadata() or {}
                conditions = _conditions(path, metadata)
                names = file.keys()  # safe_open is no mapping: it cannot be iterated
                return cls(conditions, {name: file.get_tensor(name) for name in names})
        except (OSError, RecordingError):
            raise
        except Exception as error:  # safetensors raises a different exception for each kind of damage
            raise RecordingError(f"{path}: expected a safetensors file, found none: {error}") from error

    @classmethod
    def _open_address(cls, address: str) -> "Recording":
        """safetensors opens files of this machine alone."""
        from tempfile import TemporaryDirectory

        from .storage import Folder

        folder, _, name = address.rpartition("/")
        with TemporaryDirectory() as here:
            write_bytes(f"{here}/{name}", Folder(folder).read(name))
            return cls.open(f"{here}/{name}")

    def __repr__(self) -> str:
        return f"<Recording {visible(self.title)}>"

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()


open_recording = Recording.open


def interval(numbers: Array, level: float = 0.95) -> tuple[float, float]:
    """The interval of the mean of independent numbers by Student's t; NaN below two of them."""
    x = np.asarray(numbers, np.float64)
    x = x[np.isfinite(x)]
    if len(x) < 2:
        return float("nan"), float("nan")
    half = t_quantile(len(x) - 1, level) * x.std(ddof=1) / np.sqrt(len(x))
    return float(x.mean() - half), float(x.mean() + half)


def t_quantile(freedom: int, level: float) -> float:
    """The number that |t| stays below with probability `level`: with t = sqrt(freedom) tan(a), the
    density of the angle a is proportional to cos(a) ** (freedom - 1)."""
    angle = np.linspace(0, np.pi / 2, 200_001)
    density = np.cos(angle) ** (freedom - 1)
    share = np.concatenate([[0], np.cumsum(density[1:] + density[:-1])])
    return float(np.sqrt(freedom) * np.tan(np.interp(level, share / share[-1], angle)))


def compare(a: Recording, b: Recording) -> Table:
    """b - a of each summary metric that has a number for each prompt, paired by prompt, with the 95%
    interval of the mean difference by Student's t. Raises ValueError where the prompts differ."""
    ours, theirs = (r.conditions["prompts"] for r in (a, b))
    if ours["count"] != theirs["count"]:
        raise ValueError(
            f"prompts: expected as many in both, found {ours['count']} and {theirs['count']}"
        )
    if not any(
        ours.get(key) is not None and ours.get(key) == theirs.get(key)
        for key in ("sha256", "texts_sha256")
    ):
        raise ValueError("prompts: expected the same texts in both, found others")
    if ours["T"] != theirs["T"]:
        raise ValueError(f"prompts.T: expected the same in both, found {ours['T']} and {theirs['T']}")
    if a.first != b.first:
        raise ValueError(f"first.position: expected the same in both, found {a.first} and {b.first}")
    others = {label: prompts for _, label, _, _, prompts in b._summary()}
    rows = Table()
    rows.title = (
        f"{b.model['id']} minus {a.model['id']}, paired by prompt; low and high: 95%, Student's t"
    )
    for _, label, _, _, prompts in a._summary():
        other = others.get(label)
        if prompts is None or other is None:
            continue
        apart = other.astype(np.float64) - prompts.astype(np.float64)
        low, high = interval(apart)
        rows.append(
            {
                "metric": label,
                "a": _mean(prompts),
                "b": _mean(other),
                "difference": _mean(apart),
                "low": low,
                "high": high,
                "prompts": int(np.isfinite(apart).sum()),
            }
        )
    return rows


def _mean(x: Array) -> float:
    """Returns the mean of the defined numbers; NaN if there are none."""
    found = np.asarray(x, np.float64)[np.isfinite(x)]
    return float(found.mean()) if found.size else float("nan")


def _pandas() -> Any:
    try:
        import pandas
    except ImportError as error:
        raise ImportError("to_pandas: expected pandas, found none: pip install pandas") from error
    return pandas


def bytes_of(recording: Recording) -> bytes:
    """The file as `save` writes it."""
    return save(
        {name: np.ascontiguousarray(x) for name, x in recording.tensors.items()},
        metadata={
            VERSION_KEY: VERSION,
            CONDITIONS_KEY: json.dumps(recording.conditions, ensure_ascii=False),
        },
    )


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
        raise RecordingError(
            f"{path}: edits: expected a list of objects with a kind and a label, found another"
        )
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
        isinstance(edit, dict)
        and isinstance(edit.get("kind"), str)
        and isinstance(edit.get("label"), str)
        for edit in edits
    )


class Means:
    """Mean, sample deviation, least and largest over prompts, in float64: a prompt is added (Welford 1962),
    or the numbers of other prompts are joined (Chan et al. 1983), which gives those of all."""

    def __init__(self) -> None:
        self.count = 0
        self._shapes: dict[str, tuple[int, ...]] = {}
        # The numbers of all metrics one after another, [n]: of a short prompt, a call costs more than its numbers.
        self._mean: Array = np.zeros(0)
        self._squares: Array = np.zeros(0)
        self.min: dict[str, Array] = {}
        self.max: dict[str, Array] = {}

    @property
    def mean(self) -> dict[str, Array]:
        return self._named(self._mean)

    @property
    def squares(self) -> dict[str, Array]:
        """Sums of squared differences from the mean."""
        return self._named(self._squares)

    def add(self, metrics: Mapping[str, Array]) -> None:
        values = self._flat(metrics)
        self.count += 1
        apart = values - self._mean
        self._mean += apart / self.count
        self._squares += apart * (values - self._mean)
        self._extend(metrics, metrics)

    def join(self, other: "Means") -> None:
        if not other.count:
            return
        mean, squares = self._flat(other.mean), self._flat(other.squares)
        n = self.count + other.count
        apart = mean - self._mean
        self._squares += squares + apart**2 * (self.count * other.count / n)
        self._mean = self._mean + apart * (other.count / n) if self.count else mean
        self.count = n
        self._extend(other.min, other.max)

    def _flat(self, tensors: Mapping[str, Array]) -> Array:
        """The first prompt decides which metrics exist."""
        if not self._shapes:
            self._shapes = {name: x.shape for name, x in tensors.items()}
            self._mean = np.zeros(sum(x.size for x in tensors.values()))
            self._squares = self._mean.copy()
        if tensors.keys() != self._shapes.keys():
            other = ", ".join(sorted(tensors.keys() ^ self._shapes.keys()))
            raise ValueError(f"means: expected the metrics of the prompts before, found others: {other}")
        return np.concatenate([tensors[name].ravel() for name in self._shapes], dtype=np.float64)

    def _named(self, values: Array) -> dict[str, Array]:
        found, start = {}, 0
        for name, shape in self._shapes.items():
            size = math.prod(shape)
            found[name] = values[start : start + size].reshape(shape)
            start += size
        return found

    def _extend(self, least: Mapping[str, Array], largest: Mapping[str, Array]) -> None:
        for name in RANGED:
            if name in least:
                self.min[name] = np.minimum(self.min.get(name, np.inf), least[name])
                self.max[name] = np.maximum(self.max.get(name, -np.inf), largest[name])

    def state(self) -> dict[str, Array]:
        """Returns everything except the count, as tensors."""
        parts = {"mean": self.mean, "squares": self.squares, "min": self.min, "max": self.max}
        return {f"{of}.{name}": x for of, tensors in parts.items() for name, x in tensors.items()}

    @classmethod
    def of_state(cls, count: int, tensors: Mapping[str, Array]) -> "Means":
        parts: dict[str, dict[str, Array]] = {"mean": {}, "squares": {}, "min": {}, "max": {}}
        for key, x in tensors.items():
            of, name = key.split(".", 1)
            parts[of][name] = x
        means = cls()
        means._mean, means._squares = means._flat(parts["mean"]), means._flat(parts["squares"])
        means.count, means.min, means.max = count, parts["min"], parts["max"]
        return means

    def tensors(self) -> dict[str, Array]:
        """`mean.NAME`, `deviation.NAME`, `min.NAME` and `max.NAME`, float32; the deviation of one prompt is
        NaN."""
        with np.errstate(invalid="ignore", divide="ignore"):
            deviation = {name: np.sqrt(x / np.float64(self.count - 1)) for name, x in self.squares.items()}
        parts = {"mean": self.mean, "deviation": deviation, "min": self.min, "max": self.max}
        return {
            f"{of}.{name}": x.astype(np.float32) for of, tensors in parts.items() for name, x in tensors.items()
        }
