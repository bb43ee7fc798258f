"""Many models on many prompts: one Parquet row for each pair, and a recording for each model.

The rows hold every averaged metric, so an interrupted study continues from
them, and the recordings are made from the rows alone. Needs pyarrow, and Ray where `ray` is true
(`pip install sinkscope[ray]`).
"""

import json
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from hashlib import sha256
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors.numpy import load as from_bytes
from safetensors.numpy import save as to_bytes

from .files import check_target, replacing
from .loading import load
from .recorder import Assembly, Measured, Recorder
from .settings import FIELDS, Settings

if TYPE_CHECKING:
    import pyarrow as pa

Factory = Callable[[], tuple[Any, Any]]  # gives a model and its tokenizer
Row = dict[str, Any]
MEASURED, FAILED, SHORT = "measured", "failed", "short"


def study(models: Sequence[str] | Mapping[str, Factory], texts: Sequence[Any],
          out: str | PathLike[str] = "study", *, ray: bool = False, num_gpus: float = 0,
          concurrency: int = 1, batch: int = 8, tokens: int = 64,
          eps: Sequence[float] = (0.1, 0.2, 0.3), keep: int = 1, source: str = "texts",
          licence: str | None = None, load_options: Mapping[str, Any] | None = None,
          **settings: Any) -> dict[str, Path]:
    """Measures each of `models` on each of `texts`; returns the recording of each model.

    models: names for `sinkscope.load`, or functions by name that return a model and its tokenizer.
    out: the folder; `rows/*.parquet` has one row for each model and prompt, `NAME.safetensors` the
        recording of a model. A pair that has a row is not measured again.
    ray: True runs on Ray: `concurrency` workers with `num_gpus` GPUs each, which load one model at a
        time. A worker that is lost costs its batch of `batch` prompts, which another worker repeats.
    keep: so many of the first texts are kept with maps.
    settings: the other settings of `record`: fields, maps, first, mask, tolerance.

    Raises ValueError where the folder has rows of other settings or texts.
    """
    named: dict[str, Factory | None] = (dict(models) if isinstance(models, Mapping)
                                        else dict.fromkeys(models))
    chosen = Settings.checked(tokens, eps, keep, settings.pop("fields", FIELDS), **settings)
    folder = Path(out)
    check_target(folder / "rows" / "0.parquet")
    digests = [_digest(text) for text in texts]
    done = _done(folder, chosen, digests)
    todo = [(name, i) for name in named for i in range(len(texts)) if (name, i) not in done]
    worker: dict[str, Any] = {"models": named, "texts": list(texts), "settings": chosen,
                              "load_options": dict(load_options or {})}
    tables = (_on_ray(worker, todo, batch, num_gpus, concurrency) if ray
              else _in_a_loop(worker, todo, batch))
    for table in tables:
        _write(folder, table)
    paths = {name: _summary(folder, name, chosen, source, licence) for name in named}
    return {name: path for name, path in paths.items() if path}


def _digest(text: Any) -> str:
    if isinstance(text, Mapping):
        data = b"".join(str(key).encode() + np.asarray(text[key]).tobytes() for key in sorted(text))
    else:
        data = json.dumps(text if isinstance(text, str) else [int(i) for i in text]).encode()
    return sha256(data).hexdigest()


def _schema() -> "pa.Schema":
    import pyarrow as pa

    return pa.schema([
        ("model", pa.string()), ("prompt", pa.int32()), ("state", pa.string()),
        ("text_sha256", pa.string()), ("settings", pa.string()), ("T", pa.int32()),
        ("sink_1", pa.list_(pa.float32())), ("alpha_1", pa.float32()), ("loss", pa.float32()),
        ("first_id", pa.int32()), ("ids", pa.list_(pa.int32())), ("tokens", pa.list_(pa.string())),
        ("metrics", pa.binary()), ("kept", pa.binary()), ("conditions", pa.string()),
    ])


def _settings_text(settings: Settings) -> str:
    return json.dumps(asdict(settings), sort_keys=True)


class Worker:
    """Measures prompts with one model at a time: an actor of Ray, or an object of the plain loop."""

    def __init__(self, models: Mapping[str, Factory | None], texts: Sequence[Any], settings: Settings,
                 load_options: Mapping[str, Any]) -> None:
        self.models, self.texts, self.settings = models, texts, settings
        self.load_options = load_options
        self.name: str | None = None
        self.recorder: Recorder | None = None
        self.file_sha256: str | None = None

    def __call__(self, batch: Mapping[str, Any]) -> "pa.Table":
        """model and prompt, arrays of one length -> a table of their rows"""
        import pyarrow as pa

        pairs = zip(batch["model"].tolist(), batch["prompt"].tolist(), strict=True)
        return pa.Table.from_pylist([self.row(name, i) for name, i in pairs], schema=_schema())

    def _open(self, name: str) -> Recorder:
        if self.recorder is None or self.name != name:
            self.recorder = None  # frees the memory of the last model first
            factory = self.models[name]
            if factory is not None:
                model, tokenizer = factory()
                self.file_sha256 = None
            else:
                loaded = load(name, **self.load_options)
                model, tokenizer, self.file_sha256 = loaded.model, loaded.tokenizer, loaded.sha256
            self.recorder, self.name = Recorder(model, tokenizer, self.settings), name
        return self.recorder

    def row(self, name: str, i: int) -> Row:
        recorder = self._open(name)
        row: Row = {"model": name, "prompt": i, "state": SHORT, "text_sha256": _digest(self.texts[i]),
                    "settings": _settings_text(self.settings)}
        prompt = recorder.prompt(self.texts[i])
        if prompt is None:
            return row
        keep = int(i < self.settings.keep)
        [one] = recorder.measure_all([prompt], progress=False, keep=keep)
        if one is None:
            return row | {"state": FAILED}
        conditions = recorder.conditions([prompt], "", name, file_sha256=self.file_sha256)
        first = self.settings.first
        loss = one.metrics.get("loss_mean")
        return row | {
            "state": MEASURED, "T": conditions["prompts"]["T"], "first_id": one.first_id,
            "sink_1": one.metrics["sink_ratio"][:, first].tolist(),
            "alpha_1": float(one.metrics["alpha"][..., first].mean()),
            "loss": None if loss is None else float(loss[0]), "ids": prompt.ids,
            "tokens": one.tokens, "metrics": _bytes(one.metrics),
            "kept": _bytes(one.kept) if one.kept else None,
            "conditions": json.dumps(conditions, ensure_ascii=False)}


def _bytes(tensors: Mapping[str, Any]) -> bytes:
    return to_bytes({name: np.ascontiguousarray(x) for name, x in tensors.items()})


def _in_a_loop(options: Mapping[str, Any], todo: Sequence[tuple[str, int]],
               batch: int) -> Iterator["pa.Table"]:
    from tqdm.auto import tqdm

    worker = Worker(**options)
    with tqdm(total=len(todo), unit="prompt") as bar:
        for start in range(0, len(todo), batch):
            some = todo[start : start + batch]
            yield worker(_columns(some))
            bar.update(len(some))


def _columns(pairs: Sequence[tuple[str, int]]) -> dict[str, Any]:
    return {"model": np.array([name for name, _ in pairs], object),
            "prompt": np.array([i for _, i in pairs], np.int32)}


def _on_ray(options: Mapping[str, Any], todo: Sequence[tuple[str, int]], batch: int, num_gpus: float,
            concurrency: int) -> Iterator["pa.Table"]:
    import ray.data

    if not todo:
        return
    items = ray.data.from_items([{"model": name, "prompt": i} for name, i in todo],
                                override_num_blocks=-(-len(todo) // batch))
    found = items.map_batches(
        Worker, fn_constructor_kwargs=dict(options), batch_size=batch, batch_format="numpy",
        compute=ray.data.ActorPoolStrategy(size=concurrency),
        num_gpus=num_gpus or None)
    # The rows come to this process one batch at a time, so that no folder need be shared.
    yield from found.iter_batches(batch_size=None, batch_format="pyarrow")


def _write(folder: Path, table: "pa.Table") -> None:
    """One file for each batch, complete or absent."""
    import pyarrow.parquet as pq

    if table.num_rows == 0:
        return
    keys = [f"{row['model']} {row['prompt']}" for row in table.select(["model", "prompt"]).to_pylist()]
    path = folder / "rows" / f"{sha256(' '.join(keys).encode()).hexdigest()[:16]}.parquet"
    with replacing(path) as part:
        pq.write_table(table.cast(_schema()), part)


def _files(folder: Path) -> list[Path]:
    return sorted((folder / "rows").glob("*.parquet"))


def _done(folder: Path, settings: Settings, digests: Sequence[str]) -> set[tuple[str, int]]:
    import pyarrow.parquet as pq

    done = set()
    for path in _files(folder):
        columns = ["model", "prompt", "text_sha256", "settings"]
        for row in pq.read_table(path, columns=columns).to_pylist():
            i = row["prompt"]
            if row["settings"] != _settings_text(settings) or (
                    i < len(digests) and row["text_sha256"] != digests[i]):
                raise ValueError(f"{path}: expected rows of the same settings and texts, found others; "
                                 "choose another folder")
            done.add((row["model"], i))
    return done


def rows_of(out: str | PathLike[str], model: str | None = None) -> Iterable[Row]:
    """The rows of a study, ordered by prompt."""
    import pyarrow.parquet as pq

    order: list[tuple[str, int, Path, int]] = []
    for path in _files(Path(out)):
        for at, row in enumerate(pq.read_table(path, columns=["model", "prompt"]).to_pylist()):
            if model in (None, row["model"]):
                order.append((row["model"], row["prompt"], path, at))
    opened, table = None, None
    for _, _, path, at in sorted(order):
        if opened != path:
            opened, table = path, pq.read_table(path)
        assert table is not None
        yield table.slice(at, 1).to_pylist()[0]


def _summary(folder: Path, name: str, settings: Settings, source: str,
             licence: str | None) -> Path | None:
    """The recording of one model, from its rows."""
    assembly, conditions, ids = Assembly(settings.eps, settings.first), None, []
    for row in rows_of(folder, name):
        if row["state"] == MEASURED:
            kept = from_bytes(row["kept"]) if row["kept"] else {}
            assembly.add(Measured(from_bytes(row["metrics"]), kept, row["tokens"], row["first_id"]))
            conditions = conditions or json.loads(row["conditions"])
            ids.append(row["ids"])
        elif row["state"] == FAILED:
            assembly.add(None)
    if conditions is None:
        warnings.warn(f"{name}: no text was measured: each failed or has fewer than "
                      f"{settings.tokens} tokens", stacklevel=3)
        return None
    digest = None if None in ids else sha256(np.array(ids, "<i4").tobytes()).hexdigest()
    recording = assembly.recording(conditions | {"licence": licence})
    recording.conditions["prompts"] |= {"source": source, "sha256": digest}
    path = folder / (re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.") + ".safetensors")
    recording.save(path)
    return path
