"""A series of checkpoints of one model: a recording of each, in one file, and their numbers against the step.

It is a study (studies.py) whose checkpoints have steps, so that a series that was killed goes on when it is called
again, a revision is a part of the work on Ray, and one checkpoint's weights are freed before the next is read.
"""

import json
import re
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors.numpy import save

from .files import check_target, write_bytes
from .recording import CONDITIONS_KEY, Array, Recording, RecordingError, Table, check_tensors, open_tensors
from .schema import parse_conditions

if TYPE_CHECKING:
    import pandas

SERIES_KEY, SERIES_VERSION = "sinkscope.series", "1"


@dataclass
class Series:
    """Recordings of the checkpoints of one model on the same prompts, by ascending step."""

    steps: list[int]
    recordings: list[Recording]

    def table(self) -> Table:
        """Returns for each step the rows of the recording's `table()`, without their deviations, and a row for the
        strongest head's alpha."""
        rows = Table()
        for step, recording in zip(self.steps, self.recordings, strict=True):
            alpha = f"alpha_{recording.first + 1}"
            for row in recording.table():
                numbers = {"step": step} | {name: row[name] for name in ("metric", "unit", "mean", "low", "high")}
                rows.append(numbers)
                if row["metric"] == alpha:
                    # A model of one head has no largest.
                    strongest = float(np.fmax(row["mean"], row["largest"]))
                    missing = {"low": np.nan, "high": np.nan}
                    rows.append(numbers | {"metric": f"{alpha}, strongest head", "mean": strongest} | missing)
        rows.title = self.title
        return rows

    @property
    def title(self) -> str:
        last = self.recordings[-1].conditions
        name, prompts = last["model"]["id"], last["prompts"]
        return (
            f"{name.rpartition('@')[0] or name}: {len(self.steps)} checkpoints, step {self.steps[0]} to "
            f"{self.steps[-1]}, {prompts['count']} prompts of T = {prompts['T']}"
        )

    def to_pandas(self, wide: bool = False) -> "pandas.DataFrame":
        """Returns the rows of each recording's `to_pandas` under its step. Needs pandas."""
        import pandas

        frames = [recording.to_pandas(wide) for recording in self.recordings]
        for step, frame in zip(self.steps, frames, strict=True):
            frame.insert(0, "step", step)
        return pandas.concat(frames, ignore_index=True)

    def picture(self, metric: str | None = None, format: str = "png", width: str = "column") -> bytes:
        """Draws a metric of `table()` against the step (by default Sink_1 at the largest eps), with its 95% interval
        over prompts; `width` is that of `picture` of a recording. Steps have a logarithmic axis that begins at 0."""
        from .widget import draw_series

        return draw_series(self, metric, format, width)

    def save(self, path: str | PathLike[str]) -> int:
        """Writes one file of all recordings, atomically; returns its size in bytes."""
        tensors = {
            f"{i}/{name}": np.ascontiguousarray(x)
            for i, recording in enumerate(self.recordings)
            for name, x in recording.tensors.items()
        }
        content = {"steps": self.steps, "recordings": [recording.conditions for recording in self.recordings]}
        metadata = {SERIES_KEY: SERIES_VERSION, CONDITIONS_KEY: json.dumps(content, ensure_ascii=False)}
        return write_bytes(path, save(tensors, metadata=metadata))

    @classmethod
    def open(cls, path: str | PathLike[str]) -> "Series":
        """Reads a file that `save` wrote. Raises RecordingError for any other file."""
        with open_tensors(path) as (metadata, read_tensors):
            version = metadata.get(SERIES_KEY)
            if version != SERIES_VERSION:
                raise RecordingError(
                    f"{path}: expected a series of version {SERIES_VERSION}, found {version or 'none'}"
                )
            steps, conditions = _parse_content(path, metadata.get(CONDITIONS_KEY, ""))
            tensors = read_tensors()
        parts: list[dict[str, Array]] = [{} for _ in steps]
        for name, x in tensors.items():
            index, separator, rest = name.partition("/")
            if not separator or not index.isdecimal() or int(index) >= len(steps):
                raise RecordingError(
                    f"{path}: {name}: expected the number of a checkpoint below {len(steps)} before "
                    "the name, found another"
                )
            parts[int(index)][rest] = x
        return cls(
            steps, [Recording(c, check_tensors(path, c, part)) for c, part in zip(conditions, parts, strict=True)]
        )


def is_series(path: str | PathLike[str]) -> bool:
    """Whether the metadata of a safetensors file declares a series."""
    with open_tensors(path) as (metadata, _):
        return SERIES_KEY in metadata


def _parse_content(path: Any, text: str) -> tuple[list[int], list[dict[str, Any]]]:
    try:
        content = json.loads(text)
        steps, recordings = content["steps"], content["recordings"]
        are_steps = all(isinstance(step, int) and step >= 0 for step in steps) and steps == sorted(set(steps))
        if not steps or not are_steps or len(recordings) != len(steps):
            raise ValueError("steps: expected ascending steps, one for each recording, found something else")
        return steps, [parse_conditions(json.dumps(part)) for part in recordings]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise RecordingError(f"{path}: expected the conditions of a series, found something else: {error}") from error


def series(
    model: str | PathLike[str],
    texts: Iterable[Any],
    revisions: Sequence[str] | None = None,
    out: str | PathLike[str] = "series.safetensors",
    *,
    steps: Sequence[int] | None = None,
    column: str | None = None,
    take: int | None = None,
    by: str | None = None,
    keep: int = 1,
    **options: Any,
) -> Series:
    """Records the same texts with each checkpoint of a model, and writes one file of all recordings.

    model: a name on the hub with `revisions`, or a folder of folders such as step_1000/ and checkpoint-2000/.
    revisions: names of revisions (step1000, ...) or of the folders in `model`; None takes all folders with a number.
        The recordings are named MODEL@REVISION, by a folder's name without its path.
    out: the file. Until it is complete, the parts are in the folder OUT.parts, from which a call that was killed goes
        on.
    steps: the step of each revision, where its name does not end in one.
    options: those of `study` (tokens, eps, batch, part, generate, ray, concurrency, num_gpus, load_options ...);
        `column`, `take` and `by` are those of `record`.

    Raises ValueError if a revision has no step or two have the same, and RuntimeError if one cannot be recorded.
    """
    from .studies import rows_of, study
    from .texts import select_texts

    check_target(out)
    names = _checkpoints(str(model), revisions, steps)
    parts = Path(f"{out}.parts")
    prompts = select_texts(texts, column, take, by)
    addresses = study([name for _, name in names], prompts, parts, keep=keep, **options)
    missing = [name for _, name in names if name not in addresses]
    if missing:
        why = next((row["error"] for row in rows_of(parts, missing[0]) if row.get("error")), "")
        raise RuntimeError(f"{', '.join(missing)}: expected a recording, found none. {missing[0]}: {why}")
    result = Series([step for step, _ in names], [Recording.open(addresses[name]) for _, name in names])
    if Path(model).is_dir():
        for (_, name), recording in zip(names, result.recordings, strict=True):
            recording.conditions["model"]["id"] = f"{Path(model).resolve().name}@{Path(name).name}"
    result.save(out)
    shutil.rmtree(parts)
    return result


def _checkpoints(model: str, revisions: Sequence[str] | None, steps: Sequence[int] | None) -> list[tuple[int, str]]:
    """Returns the step and the name, for `load`, of each checkpoint, by ascending step."""
    folder = Path(model)
    if isinstance(revisions, str):
        raise ValueError(f"revisions: expected a list of names, found {revisions!r} alone: [{revisions!r}]")
    if revisions is None:
        if not folder.is_dir():
            raise ValueError(f"revisions: expected the names of revisions of {model}, found none")
        revisions = [
            path.name for path in folder.iterdir() if re.search(r"\d+$", path.name) and (path / "config.json").is_file()
        ]
    if not revisions:
        raise ValueError(f"revisions: expected one checkpoint or more, found none in {model}")
    if steps is None:
        numbers = [re.search(r"(\d+)(?:-tokens.*|-hf)?$", name) for name in revisions]
        unknown = [name for name, number in zip(revisions, numbers, strict=True) if number is None]
        if unknown:
            raise ValueError(f"steps: expected the step of {unknown[0]!r}, whose name has none, found no steps=")
        steps = [int(number[1]) for number in numbers if number]
    if len(steps) != len(revisions) or len(set(steps)) != len(steps):
        raise ValueError(f"steps: expected another step for each of {len(revisions)} revisions, found {list(steps)}")
    names = [str(folder / name) if folder.is_dir() else f"{model}@{name}" for name in revisions]
    return sorted(zip(map(int, steps), names, strict=True))
