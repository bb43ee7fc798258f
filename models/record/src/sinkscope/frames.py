"""A `Recording` as rows, for data frames, Parquet and CSV. This module needs no torch, and pandas or pyarrow only where
it makes their objects."""

from collections.abc import Iterator
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from .files import atomic_replacement
from .summary import PROMPT_NAMES, SUMMARY, UNITS, Table

if TYPE_CHECKING:
    import pandas

# The columns of the long table. None in `prompt` means the mean over all prompts, in `layer` and `head` a number of
# the whole model; layer -1 is the embedding. `deviation` is the sample deviation over prompts.
COLUMNS = ("prompt", "layer", "head", "quantity", "eps", "value", "deviation", "unit")
_LETTERS = {name: letters for name, _, _, _, letters in SUMMARY}
_COVERAGE = {name: coverage for name, _, _, coverage, _ in SUMMARY}


def long_rows(recording: Any) -> Table:
    """Returns a row for each number of the summary metrics: the means over prompts of each head or layer, the numbers
    of each prompt, and alpha of each head on each kept prompt, all for the first token. Layers have the model's own
    numbers; a head has the key_ratio and value_ratio of its key/value head."""
    rows = Table(dict(zip(COLUMNS, row, strict=True)) for row in _rows(recording))
    rows.title = recording.title
    return rows


def _rows(recording: Any) -> Iterator[tuple[Any, ...]]:
    eps, names = recording.conditions["eps"], [name for name, _, _ in recording.summarized()]
    for name in names:
        mean, deviation = (_select(recording, recording[f"{part}.{name}"], name) for part in ("mean", "deviation"))
        for place, value, spread in zip(_places(recording, name), mean.flat, deviation.flat, strict=True):
            yield (None, *place[:2], name, place[2], float(value), float(spread), UNITS[name])
    for name in names:
        values = recording.tensors.get(f"prompt.{PROMPT_NAMES.get(name, name)}")
        for prompt, value in enumerate(() if values is None else values):
            for threshold, number in zip(eps if value.ndim else (None,), value.flat, strict=True):
                yield (prompt, None, None, name, threshold, float(number), np.nan, UNITS[name])
    for kept, prompt in enumerate(kept_prompts(recording)):
        for name in ("alpha", "alpha_raw"):
            if f"{kept}.{name}" in recording and name in names:
                values = recording[f"{kept}.{name}"].astype(np.float32)[..., recording.first]
                for place, value in zip(_places(recording, name), values.flat, strict=True):
                    yield (prompt, *place[:2], name, None, float(value), np.nan, UNITS[name])


def kept_prompts(recording: Any) -> list[int]:
    """Returns the number, among all prompts, of each kept prompt: these are the first that did not fail."""
    kept = len(recording.conditions["tokens"])
    failed = recording.tensors.get("prompt.failed")
    return list(range(kept)) if failed is None else np.flatnonzero(np.asarray(failed) == 0)[:kept].tolist()


def _select(recording: Any, x: Any, name: str) -> Any:
    """Returns the numbers of the first token, of each eps, or all, [L, H] where a metric belongs to heads."""
    if _COVERAGE[name] == "eps":
        return x[:, recording.first]
    x = recording._summary_part(x, _COVERAGE[name])
    return x.repeat(recording.model["H"] // recording.model["G"], 1) if _LETTERS[name] == "LG" else x


def _places(recording: Any, name: str) -> list[tuple[int | None, int | None, float | None]]:
    """Returns the layer, head and eps of each number that `_select` gives of a metric."""
    letters, H = _LETTERS[name], recording.model["H"]
    if letters.startswith("E"):
        return [(None, None, e) for e in recording.conditions["eps"]]
    if letters == "B":
        return [(i - 1, None, None) for i in range(recording.blocks + 1)]
    return [(layer, h, None) for layer in recording.layers for h in range(H)] if letters else [(None, None, None)]


def wide_rows(recording: Any) -> Table:
    """Returns a row for each prompt, layer and head of `long_rows`, and a column for each quantity and eps."""
    table: dict[tuple[Any, ...], dict[str, Any]] = {}
    quantities: dict[str, None] = {}
    for row in long_rows(recording):
        quantity = row["quantity"] if row["eps"] is None else f"{row['quantity']}_{row['eps']:g}"
        quantities[quantity] = None
        table.setdefault((row["prompt"], row["layer"], row["head"]), {})[quantity] = row["value"]
    rows = Table(
        {"prompt": prompt, "layer": layer, "head": head} | {q: values.get(q, np.nan) for q in quantities}
        for (prompt, layer, head), values in table.items()
    )
    rows.title = recording.title
    return rows


def to_frame(rows: Table) -> "pandas.DataFrame":
    """Returns the rows as a data frame whose prompts, layers and heads are integers or missing."""
    try:
        import pandas
    except ImportError as error:
        raise ImportError("to_pandas: expected pandas, found none: pip install 'sinkscope[tables]'") from error
    frame = pandas.DataFrame(list(rows))
    return frame.astype({name: "Int64" for name in ("prompt", "layer", "head") if name in frame})


def write_parquet(rows: Table, path: str | PathLike[str]) -> int:
    """Writes the rows as one Parquet file, atomically, and returns its size in bytes."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise ImportError("to_parquet: expected pyarrow, found none: pip install 'sinkscope[tables]'") from error
    with atomic_replacement(path) as part:
        pq.write_table(pa.Table.from_pylist(list(rows)).replace_schema_metadata({"sinkscope": rows.title}), part)
        return part.stat().st_size
