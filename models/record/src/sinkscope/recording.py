"""A recording of a model's attention on some prompts, which is stored as one safetensors file. This module needs
no torch.

The tensors have the names and shapes of the core's fields and metrics, which `node wasm/cli.js describe`
lists. The conditions are a JSON text in the file's metadata, with the schema of schema.py.
"""

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from safetensors import safe_open
from safetensors.numpy import save

from .files import check_source, write_bytes
from .schema import CONDITIONS_KEY, parse_conditions
from .summary import (
    METRICS_WITH_RANGE,
    PROMPT_NAMES,
    ROW_SUM,
    SIGNED_OPERATIONS,
    SUMMARY,
    UNITS,
    Table,
    escape_controls,
)

if TYPE_CHECKING:
    import pandas

Array = NDArray[Any]

VERSION = "1"
CROSS_VERSION = "2"  # of recordings of cross-attention, whose maps have two axes, which readers of version 1 refuse
VERSION_KEY = "sinkscope.recording"

CITATION = """@inproceedings{gu2025attention,
  title = {When Attention Sink Emerges in Language Models: An Empirical View},
  author = {Gu, Xiangming and Pang, Tianyu and Du, Chao and Liu, Qian and Zhang, Fengzhuo and
            Du, Cunxiao and Wang, Ye and Lin, Min},
  booktitle = {International Conference on Learning Representations},
  year = {2025},
  url = {https://arxiv.org/abs/2410.10781}
}"""

# The shapes of what is kept of a prompt of T tokens; maps may be pooled into P blocks a side. Maps have Q rows: T or P,
# or the decoder's tokens in cross-attention, whose T are the encoder's.
KEPT_SHAPES = {
    "att": "LHQT",
    "att_pooled": "LHQP",
    "att_scale": "LH",
    "alpha": "LHT",
    "alpha_raw": "LHT",
    ROW_SUM: "LHT",
    "hidden_norm": "BT",
    "key_norm": "LGT",
    "value_norm": "LGT",
    "sink_value": "BT",
}
MAX_POOLED_SIDE = 128
MAX_PICTURE_SIDE = 256
KINDS = {"t": "text", "i": "image", "s": "special"}  # of tokens, by their letter in the conditions


class RecordingError(ValueError):
    """Raised for a file that is no recording. The message says where, what was expected, and what the file has."""


@dataclass
class Recording:
    """The `conditions` of a recording, which say what was measured and how, and its `tensors`, NumPy arrays by name.

    `i.NAME` is field NAME of kept prompt i. `mean.NAME`, `deviation.NAME` (sample deviation, n - 1), `min.NAME` and
    `max.NAME` are taken over all prompts. `prompt.NAME` has one row for each prompt.
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
        """The indices, in the model, of its L layers with attention."""
        return self.model.get("layers") or list(range(self.model["L"]))

    @property
    def blocks(self) -> int:
        """The number of all layers, with or without attention. Hidden states have blocks + 1 rows."""
        return self.model.get("blocks") or self.model["L"]

    @property
    def first(self) -> int:
        """The position of the token that counts as the first."""
        return (self.conditions.get("first") or {}).get("position") or 0

    def tokens(self, prompt: int = 0) -> list[str]:
        """Returns the token strings of a kept prompt."""
        return self.conditions["tokens"][prompt]

    @property
    def cross(self) -> dict[str, Any] | None:
        """The conditions of cross-attention, whose queries are a decoder's tokens and whose keys are the encoder's
        tokens, frames or patches; None for other recordings."""
        return self.conditions.get("cross")

    def queries(self, prompt: int = 0) -> list[str]:
        """Returns the token strings of the rows of a kept prompt's maps: its tokens, or those of the decoder."""
        return (self.cross or self.conditions)["tokens"][prompt]

    def patches(self, layer: int, head: int, query: int, prompt: int = 0) -> Array:
        """Returns the attention of one query on each patch of the image in a kept prompt, [rows, cols].

        Raises ValueError for a prompt without a grid of patches, and if its maps are pooled.
        """
        image = (self.conditions.get("images") or [{}] * (prompt + 1))[prompt]
        if not image.get("rows"):
            raise ValueError(f"prompt: expected one with a grid of patches, found none in prompt {prompt}")
        if f"{prompt}.att" not in self:
            raise ValueError(f"query: expected full maps of prompt {prompt}, found none: record(maps='full')")
        is_patch = np.array(list(image["kinds"])) == "i"
        return self.map(layer, head, prompt)[query, is_patch].reshape(image["rows"], image["cols"])

    def attention(self, prompt: int = 0) -> Array:
        """Returns the maps of a kept prompt in float32: [L, H, T, T], or [L, H, P, P] if they are pooled. A map of
        cross-attention has a row for each query, [L, H, queries, keys], of which only keys are pooled."""
        if f"{prompt}.att" in self:
            return self[f"{prompt}.att"].astype(np.float32)
        scale = self[f"{prompt}.att_scale"][..., None, None]
        return self[f"{prompt}.att_pooled"].astype(np.float32) * scale / np.float32(255)

    def map(self, layer: int, head: int, prompt: int = 0) -> Array:
        """Returns the map of one head on a kept prompt, [T, T], or [P, P] if it is pooled. `layer` is the model's own
        number of the layer.

        Raises ValueError if the layer has no attention.
        """
        if layer not in self.layers:
            raise ValueError(f"layer: expected one of {', '.join(map(str, self.layers))}, got {layer}")
        if not 0 <= head < self.model["H"]:
            raise ValueError(f"head: expected 0 to {self.model['H'] - 1}, got {head}")
        return self.attention(prompt)[self.layers.index(layer), head]

    def share(self, tokens: Sequence[int], prompt: int = 0) -> Array:
        """Returns the attention that several tokens of a kept prompt receive together in each head, [L, H]: the sum of
        their weights, as the mean over the queries that see all of them. Of one token it is its alpha.

        tokens: positions, from 0. Raises ValueError for a position beyond the prompt, and if its maps are pooled.
        """
        T, positions = len(self.tokens(prompt)), sorted(set(tokens))
        if not positions or not all(0 <= t < T for t in positions):
            raise ValueError(f"tokens: expected positions from 0 to {T - 1}, found {list(tokens)}")
        if f"{prompt}.att" not in self:
            raise ValueError(f"tokens: expected full maps of prompt {prompt}, found none: record(maps='full')")
        kind = (self.model.get("mask") or {}).get("kind")
        queries = slice(0 if kind == "bidirectional" else positions[-1], None)
        return self.attention(prompt)[..., queries, positions].sum(-1).mean(-1)

    @property
    def uniform_alpha(self) -> float:
        """alpha of the first token under uniform attention, by the kind of the mask; windows count as no limit."""
        T, mask = self.conditions["prompts"]["T"], self.model.get("mask") or {}
        if self.cross or mask.get("kind") == "bidirectional":
            return 1 / T
        prefix = mask.get("prefix") or 1
        rows = range(0 if self.first < prefix else self.first, T)
        return sum(1 / max(t + 1, prefix) for t in rows) / (T - self.first)

    def _length_note(self) -> str:
        """Says for which of the eps a head without a preference would count as one with a sink; empty for none."""
        uniform = self.uniform_alpha
        eps = [f"{e:g}" for e in self.conditions["eps"] if uniform > e]
        if not eps:
            return ""
        alpha = f"alpha_{self.first + 1} {uniform:.2g}"
        return f"; too short for eps {', '.join(eps)}: uniform attention alone has {alpha}"

    def measure(self, eps: float | None = None) -> dict[str, Any]:
        """Returns the sink metrics as means over the prompts, under the keys of the JavaScript package's `measure`.

        eps: one of the recorded thresholds; None takes the first, while the JavaScript package's default is 0.3.

        `sink`: Sink_k^eps, from 0 to 1 (Gu et al. 2025, section 3.2), by the weights that the model uses; of weights
            with signs by the shares |w| / sum |w|, as in the authors' code.
        `sinkByShares`: the same by shares of the row; equals `sink` if rows sum to 1.
        `alpha`: [L, H], the mean weight of the first token in each head, as the model uses it; its share if weights
            have signs.
        `uniform`: alpha of the first token under uniform attention. `conclusive`: False if it exceeds eps, since heads
            without a preference then count as heads with a sink.
        `layer`, `head`: the head with the largest alpha.
        `map`, `tokens`: the map of this head on the first kept prompt, and that prompt's token strings; None if no
            prompt is kept.

        Raises ValueError for an eps that was not recorded.
        """
        thresholds = list(self.conditions["eps"])
        eps = thresholds[0] if eps is None and thresholds else eps
        if eps not in thresholds:
            raise ValueError(f"eps: expected one of {', '.join(map(str, thresholds)) or 'none'}, got {eps}")
        for name in ("mean.alpha", "mean.sink_ratio"):
            if name not in self:
                raise RecordingError(f"{name}: expected it for measure(), found {', '.join(sorted(self.tensors))}")
        i, uniform = thresholds.index(eps), self.uniform_alpha
        by_shares = sink = self["mean.sink_ratio"][i, self.first]
        alpha = self["mean.alpha"][..., self.first]
        if "mean.alpha_raw" in self and self.model.get("operation") not in SIGNED_OPERATIONS:
            alpha = self["mean.alpha_raw"][..., self.first]
            sink = self["mean.sink_ratio_raw"][i, self.first]
        row, head = divmod(int(np.nan_to_num(alpha, nan=-np.inf).argmax()), alpha.shape[1])
        layer = self.layers[row]
        has_map = bool(self.conditions.get("tokens")) and ("0.att" in self or "0.att_pooled" in self)
        return {
            "sink": float(sink),
            "sinkByShares": float(by_shares),
            "uniform": uniform,
            "conclusive": uniform <= eps,
            "eps": eps,
            "alpha": alpha,
            "layer": layer,
            "head": head,
            "map": self.map(layer, head) if has_map else None,
            "tokens": self.tokens() if has_map else None,
        }

    @property
    def title(self) -> str:
        m, prompts = self.model, self.conditions["prompts"]
        changes = "".join(f", {edit['label']}" for edit in self.conditions.get("edits") or [])
        layer_numbers = ", ".join(map(str, self.layers))
        attention_note = f", attention in {m['L']} ({layer_numbers})," if self.blocks > m["L"] else ""
        part = f", {m['part']}" if m.get("part") else ""
        sizes = f"T = {prompts['T']}"
        if self.cross:
            sizes = f"{self.cross['T']} queries of the decoder by {prompts['T']} {self.cross['keys']}s of the encoder"
        return (
            f"{m['id']}{part}{changes}: {self.blocks} layers{attention_note} of {m['H']} heads, {sizes}, "
            f"{prompts['count']} prompts, {self.conditions.get('class')}"
        )

    def table(self) -> Table:
        """Returns the summary metrics, one row each, in the units of the core's table. A row has the mean over prompts
        (and over the layers and heads where the metric is defined), the 95% interval of this mean (Student's t), the
        mean of the sample deviations over prompts, and the largest value with its layer or head."""
        rows = Table()
        rows.title = f"{self.title}; low and high: 95% interval over prompts, Student's t{self._length_note()}"
        for name, label, mean, deviation, prompt_values in self._summary():
            low, high = confidence_interval(prompt_values) if prompt_values is not None else (np.nan, np.nan)
            largest, has_parts = int(np.argmax(np.where(np.isfinite(mean), mean, -np.inf))), mean.size > 1
            rows.append(
                {
                    "metric": label,
                    "unit": UNITS[name],
                    "mean": _finite_mean(mean),
                    "low": low,
                    "high": high,
                    "deviation": _finite_mean(deviation),
                    "largest": float(mean.flat[largest]) if has_parts else np.nan,
                    "at": self.place(name, largest) if has_parts else "",
                }
            )
        return rows

    def place(self, name: str, at: int) -> str:
        """Names the layer or head that element `at` of a metric belongs to, by the model's own numbers ("L3H0")."""
        shape = self.tensors[f"mean.{name}"].shape
        if len(shape) == 1:
            return "embedding" if at == 0 else f"after layer {at - 1}"
        columns = shape[1]
        layer, head = self.layers[at // columns], at % columns
        return f"L{layer}KV{head}" if name in ("key_ratio", "value_ratio") else f"L{layer}H{head}"

    def _summary(self) -> Iterator[tuple[str, str, Array, Array, Array | None]]:
        """Yields for each summary metric its name, label, mean and deviation (one number for each head or layer, or a
        single one), and its numbers by prompt or None."""
        first = self.first
        for name, label, coverage in self.summarized():
            mean, deviation = (self.tensors[f"{statistic}.{name}"] for statistic in ("mean", "deviation"))
            prompt_values = self.tensors.get(f"prompt.{PROMPT_NAMES.get(name, name)}")
            if coverage == "eps":
                for i, e in enumerate(self.conditions["eps"]):
                    eps_values = None if prompt_values is None else prompt_values[:, i]
                    yield name, f"{label}, eps {e:g}", mean[i, first][None], deviation[i, first][None], eps_values
            else:
                mean, deviation = (self._summary_part(x, coverage) for x in (mean, deviation))
                yield name, label, mean, deviation, prompt_values

    def _summary_part(self, x: Array, coverage: str) -> Array:
        """Returns what the summary covers: the first token ("first"), means over queries ("rows"), or all ("all")."""
        return x[..., self.first] if coverage == "first" else x.mean(-1) if coverage == "rows" else x

    def summarized(self) -> Iterator[tuple[str, str, str]]:
        """Yields the name and the label of each summary metric in the recording, and which of its numbers the summary
        covers: those of each eps ("eps"), or a choice of `_summary_part`."""
        for name, label, _, coverage, _ in SUMMARY:
            if f"mean.{name}" in self and f"deviation.{name}" in self:
                yield name, label.format(k=self.first + 1), coverage

    def to_pandas(self, wide: bool = False) -> "pandas.DataFrame":
        """Returns every number of the summary as a pandas DataFrame: a row for each prompt (missing for the mean over
        all), layer, head and quantity, or with `wide` a column for each quantity. Needs pandas."""
        from .frames import long_rows, to_frame, wide_rows

        return to_frame(wide_rows(self) if wide else long_rows(self))

    def to_parquet(self, path: str | PathLike[str], wide: bool = False) -> int:
        """Writes the rows of `to_pandas` as a Parquet file and returns its size in bytes. Needs pyarrow."""
        from .frames import long_rows, wide_rows, write_parquet

        return write_parquet(wide_rows(self) if wide else long_rows(self), path)

    def heads(self) -> list[dict[str, Any]]:
        """Returns a row for each head, under the model's own layer numbers, with the mean, deviation, minimum and
        maximum over prompts of each metric of heads."""
        H = self.model["H"]
        columns: dict[str, Array] = {}
        for name, _, coverage in self.summarized():
            if coverage == "eps":
                continue
            for statistic, suffix in (("mean", ""), ("deviation", "_deviation"), ("min", "_min"), ("max", "_max")):
                if f"{statistic}.{name}" not in self:
                    continue
                x = self._summary_part(self.tensors[f"{statistic}.{name}"], coverage)
                if x.ndim == 2:
                    columns[name + suffix] = x.repeat(H // x.shape[1], 1)
        return [
            {"layer": layer, "head": h} | {name: float(x[i, h]) for name, x in columns.items()}
            for i, layer in enumerate(self.layers)
            for h in range(H)
        ]

    def caption(self) -> str:
        """Returns a caption of the recording: the model, the number and length of the prompts, eps, the first token."""
        first, prompts = self.conditions.get("first") or {}, self.conditions["prompts"]
        eps = ", ".join(f"{e:g}" for e in self.conditions["eps"])
        unit = self.cross["keys"] if self.cross else "token"
        token = f"first token {first['token']!r}" if first.get("token") is not None else "no common first token"
        position = f" at position {self.first}" if self.first else ""
        if unit != "token":
            token, position = f"first {unit}: number {self.first}", ""
        generated = f" ({prompts['generated']} of them generated)" if prompts.get("generated") else ""
        return (
            f"{self.title}. n = {prompts['count']} prompts of T = {prompts['T']} {unit}s{generated}, eps {eps}, "
            f"{token}{position}{self._length_note()}."
        )

    def cite(self) -> str:
        """Returns the BibTeX entry of the paper that defines the metrics, the caption, and the versions."""
        versions = ", ".join(f"{name} {number}" for name, number in (self.conditions.get("versions") or {}).items())
        return f"{CITATION}\n\n{self.caption()} Recorded with {versions or 'sinkscope'}."

    def save(self, path: str | PathLike[str]) -> int:
        """Writes the file atomically, so that a reader never sees half of it; returns its size in bytes."""
        return write_bytes(path, recording_bytes(self))

    @classmethod
    def open(cls, path: str | PathLike[str]) -> "Recording":
        """Reads a recording that `save`, the command line, the page or a study wrote, from a path or an address
        such as s3://.

        Raises RecordingError if the file is no recording, or one of another version.
        """
        if "://" in str(path):
            return cls._open_address(str(path))
        with open_tensors(path) as (metadata, read_tensors):
            conditions = _parse_conditions(path, metadata)
            return cls(conditions, check_tensors(path, conditions, read_tensors()))

    @classmethod
    def _open_address(cls, address: str) -> "Recording":
        """Reads a recording from an address through a temporary file, since safetensors opens only local files."""
        from tempfile import TemporaryDirectory

        from .storage import Folder

        folder, _, name = address.rpartition("/")
        with TemporaryDirectory() as scratch_folder:
            write_bytes(f"{scratch_folder}/{name}", Folder(folder).read(name))
            return cls.open(f"{scratch_folder}/{name}")

    def __repr__(self) -> str:
        return f"<Recording {escape_controls(self.title)}>"

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()


open_recording = Recording.open


def confidence_interval(numbers: Array, level: float = 0.95) -> tuple[float, float]:
    """Returns the confidence interval of the mean by Student's t; NaN for fewer than two finite numbers."""
    x = np.asarray(numbers, np.float64)
    x = x[np.isfinite(x)]
    if len(x) < 2:
        return float("nan"), float("nan")
    half_width = t_quantile(len(x) - 1, level) * x.std(ddof=1) / np.sqrt(len(x))
    return float(x.mean() - half_width), float(x.mean() + half_width)


@cache
def t_quantile(freedom: int, level: float) -> float:
    """Returns the number that |t| stays below with probability `level`. Substitutes t = sqrt(freedom) tan(a), which
    makes the density of the angle a proportional to cos(a) ** (freedom - 1), and integrates it numerically."""
    angle = np.linspace(0, np.pi / 2, 200_001)
    density = np.cos(angle) ** (freedom - 1)
    share = np.concatenate([[0], np.cumsum(density[1:] + density[:-1])])
    return float(np.sqrt(freedom) * np.tan(np.interp(level, share / share[-1], angle)))


def compare(a: Recording, b: Recording) -> Table:
    """Returns the difference b - a of each summary metric with numbers by prompt, paired by prompt, with the 95%
    interval of the mean difference by Student's t. Raises ValueError if the prompts differ."""
    prompts_a, prompts_b = (r.conditions["prompts"] for r in (a, b))
    if prompts_a["count"] != prompts_b["count"]:
        raise ValueError(f"prompts: expected as many in both, found {prompts_a['count']} and {prompts_b['count']}")
    digests = ("sha256", "texts_sha256")
    if not any(prompts_a.get(key) and prompts_a[key] == prompts_b.get(key) for key in digests):
        raise ValueError("prompts: expected the same texts in both, found others")
    if prompts_a["T"] != prompts_b["T"]:
        raise ValueError(f"prompts.T: expected the same in both, found {prompts_a['T']} and {prompts_b['T']}")
    if a.first != b.first:
        raise ValueError(f"first.position: expected the same in both, found {a.first} and {b.first}")
    values_by_label = {label: prompt_values for _, label, _, _, prompt_values in b._summary()}
    rows = Table()
    rows.title = f"{b.model['id']} minus {a.model['id']}, paired by prompt; low and high: 95%, Student's t"
    for _, label, _, _, values_a in a._summary():
        values_b = values_by_label.get(label)
        if values_a is None or values_b is None:
            continue
        difference = values_b.astype(np.float64) - values_a.astype(np.float64)
        low, high = confidence_interval(difference)
        rows.append(
            {
                "metric": label,
                "a": _finite_mean(values_a),
                "b": _finite_mean(values_b),
                "difference": _finite_mean(difference),
                "low": low,
                "high": high,
                "prompts": int(np.isfinite(difference).sum()),
            }
        )
    return rows


def _finite_mean(x: Array) -> float:
    finite_values = np.asarray(x, np.float64)[np.isfinite(x)]
    return float(finite_values.mean()) if finite_values.size else float("nan")


@contextmanager
def open_tensors(path: str | PathLike[str]) -> Iterator[tuple[Mapping[str, str], Callable[[], dict[str, Array]]]]:
    """Opens a safetensors file; yields its metadata, and a function that reads its tensors. Raises RecordingError if
    the file is damaged or of another kind."""
    check_source(path, RecordingError)
    try:
        with safe_open(path, framework="numpy") as file:
            names = file.keys()  # safe_open is no mapping: it cannot be iterated
            yield file.metadata() or {}, lambda: {name: file.get_tensor(name) for name in names}
    except (OSError, RecordingError):
        raise
    except Exception as error:  # each kind of damage raises another exception
        raise RecordingError(f"{path}: expected a safetensors file, found none: {error}") from error


def recording_bytes(recording: Recording) -> bytes:
    return save(
        {name: np.ascontiguousarray(x) for name, x in recording.tensors.items()},
        metadata={
            VERSION_KEY: CROSS_VERSION if recording.cross else VERSION,
            CONDITIONS_KEY: json.dumps(recording.conditions, ensure_ascii=False),
        },
    )


def _parse_conditions(path: Any, metadata: Mapping[str, str]) -> dict[str, Any]:
    version = metadata.get(VERSION_KEY)
    if version is None:
        raise RecordingError(f"{path}: expected {VERSION_KEY} in the metadata, found none")
    if version.split(".")[0] not in (VERSION, CROSS_VERSION):
        raise RecordingError(f"{path}: expected a recording of version {VERSION} or {CROSS_VERSION}, found {version}")
    try:
        return parse_conditions(metadata.get(CONDITIONS_KEY, ""))
    except ValueError as error:
        raise RecordingError(f"{path}: {error}") from error


def check_tensors(path: Any, conditions: dict[str, Any], tensors: dict[str, Array]) -> dict[str, Array]:
    """Returns the tensors in the shapes that the conditions give them. Means may lack dimensions of 1."""
    model, prompts = conditions["model"], conditions["prompts"]
    sizes = {name: model[name] for name in "LHG"} | {"T": prompts["T"], "N": prompts["count"]}
    sizes |= {"E": len(conditions["eps"]), "B": (model.get("blocks") or model["L"]) + 1}
    shapes = {"prompt.failed": [sizes["N"]]}
    for name, _, _, coverage, letters in SUMMARY:
        for statistic in ("mean", "deviation", "min", "max"):
            shapes[f"{statistic}.{name}"] = [sizes[x] for x in letters] or [1]
        shapes[f"prompt.{PROMPT_NAMES.get(name, name)}"] = [sizes[x] for x in ("NE" if coverage == "eps" else "N")]
    for i, tokens in enumerate(conditions["tokens"]):
        pooled = tensors.get(f"{i}.att_pooled")
        side = pooled.shape[-1] if pooled is not None and pooled.ndim else 1
        kept_sizes = sizes | {"T": len(tokens), "P": min(side, len(tokens), MAX_POOLED_SIDE)}
        for name, letters in KEPT_SHAPES.items():
            kept_sizes["Q"] = (conditions.get("cross") or {}).get("T") or kept_sizes[letters[-1]]
            shapes[f"{i}.{name}"] = [kept_sizes[x] for x in letters]
        picture = tensors.get(f"{i}.picture")
        if picture is not None and (
            picture.dtype != np.uint8
            or picture.ndim != 3
            or picture.shape[2] != 3
            or not all(0 < side <= MAX_PICTURE_SIDE for side in picture.shape[:2])
        ):
            raise RecordingError(
                f"{path}: {i}.picture: expected bytes of shape [height, width, 3], at most {MAX_PICTURE_SIDE} a side, "
                f"found {picture.dtype} of {list(picture.shape)}"
            )
        if pooled is not None and f"{i}.att_scale" not in tensors:
            raise RecordingError(f"{path}: {i}.att_scale: expected the scales of the pooled maps, found none")
    for name in sorted(shapes.keys() & tensors.keys()):
        x, kind = tensors[name], "u" if name == "prompt.failed" or name.endswith(".att_pooled") else "f"
        if x.dtype.kind != kind or [n for n in x.shape if n != 1] != [n for n in shapes[name] if n != 1]:
            raise RecordingError(
                f"{path}: {name}: expected {'bytes' if kind == 'u' else 'floats'} of shape "
                f"{shapes[name]}, found {x.dtype} of {list(x.shape)}"
            )
        if name.endswith((".att", ".att_scale")) and not np.isfinite(x).all():
            raise RecordingError(f"{path}: {name}: expected finite numbers, found others")
        tensors[name] = x.reshape(shapes[name])
    return tensors


class MetricStatistics:
    """Means, sample deviations, minima and maxima of metrics over prompts, in float64. `add` takes in one prompt
    (Welford 1962), `join` the prompts of another object (Chan et al. 1983)."""

    def __init__(self) -> None:
        self.count = 0
        self._shapes: dict[str, tuple[int, ...]] = {}
        # One array, [n], for all metrics: one operation on all is faster than one for each metric.
        self._mean: Array = np.zeros(0)
        self._squares: Array = np.zeros(0)
        self.min: dict[str, Array] = {}
        self.max: dict[str, Array] = {}

    @property
    def mean(self) -> dict[str, Array]:
        return self._split_by_name(self._mean)

    @property
    def squares(self) -> dict[str, Array]:
        """Sums of squared differences from the mean."""
        return self._split_by_name(self._squares)

    def add(self, metrics: Mapping[str, Array]) -> None:
        values = self._flatten(metrics)
        self.count += 1
        difference = values - self._mean
        self._mean += difference / self.count
        self._squares += difference * (values - self._mean)
        self._extend_range(metrics, metrics)

    def join(self, other: "MetricStatistics") -> None:
        if not other.count:
            return
        mean, squares = self._flatten(other.mean), self._flatten(other.squares)
        n = self.count + other.count
        difference = mean - self._mean
        self._squares += squares + difference**2 * (self.count * other.count / n)
        self._mean = self._mean + difference * (other.count / n) if self.count else mean
        self.count = n
        self._extend_range(other.min, other.max)

    def _flatten(self, tensors: Mapping[str, Array]) -> Array:
        """Returns the numbers of all metrics in one float64 array. Every call needs the metrics of the first call."""
        if not self._shapes:
            self._shapes = {name: x.shape for name, x in tensors.items()}
            self._mean = np.zeros(sum(x.size for x in tensors.values()))
            self._squares = self._mean.copy()
        if tensors.keys() != self._shapes.keys():
            other = ", ".join(sorted(tensors.keys() ^ self._shapes.keys()))
            raise ValueError(f"means: expected the metrics of the prompts before, found others: {other}")
        return np.concatenate([tensors[name].ravel() for name in self._shapes], dtype=np.float64)

    def _split_by_name(self, values: Array) -> dict[str, Array]:
        arrays, start = {}, 0
        for name, shape in self._shapes.items():
            size = math.prod(shape)
            arrays[name] = values[start : start + size].reshape(shape)
            start += size
        return arrays

    def _extend_range(self, smallest: Mapping[str, Array], largest: Mapping[str, Array]) -> None:
        for name in METRICS_WITH_RANGE:
            if name in smallest:
                self.min[name] = np.minimum(self.min.get(name, np.inf), smallest[name])
                self.max[name] = np.maximum(self.max.get(name, -np.inf), largest[name])

    def state(self) -> dict[str, Array]:
        """Returns the state without the count, as tensors for `of_state`."""
        return _join_names({"mean": self.mean, "squares": self.squares, "min": self.min, "max": self.max})

    @classmethod
    def of_state(cls, count: int, tensors: Mapping[str, Array]) -> "MetricStatistics":
        parts: dict[str, dict[str, Array]] = {"mean": {}, "squares": {}, "min": {}, "max": {}}
        for key, x in tensors.items():
            statistic, name = key.split(".", 1)
            parts[statistic][name] = x
        statistics = cls()
        statistics._mean = statistics._flatten(parts["mean"])
        statistics._squares = statistics._flatten(parts["squares"])
        statistics.count, statistics.min, statistics.max = count, parts["min"], parts["max"]
        return statistics

    def tensors(self) -> dict[str, Array]:
        """Returns `mean.`, `deviation.` (NaN of a single prompt), `min.` and `max.NAME` in float32."""
        with np.errstate(invalid="ignore", divide="ignore"):
            deviation = {name: np.sqrt(x / np.float64(self.count - 1)) for name, x in self.squares.items()}
        parts = {"mean": self.mean, "deviation": deviation, "min": self.min, "max": self.max}
        return {name: x.astype(np.float32) for name, x in _join_names(parts).items()}


def _join_names(parts: Mapping[str, Mapping[str, Array]]) -> dict[str, Array]:
    return {f"{statistic}.{name}": x for statistic, tensors in parts.items() for name, x in tensors.items()}
