"""Many models on many prompts: a Parquet row for each pair, and a recording for each model.

A task is a checkpoint and a block of its prompts, and writes one Parquet part: the rows, and the sums over
them. Whoever writes the last part of a checkpoint joins the sums of all and writes the recording. What is to be
done is read from the parts that are there, so that a study whose workers or whose driver were killed goes on when it
is called again, and nothing passes through the driver but names. Needs pyarrow, and Ray where `ray` is true
(`pip install sinkscope[ray]`).
"""

import json
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from hashlib import sha256
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .settings import FIELDS, Settings
from .storage import Folder

if TYPE_CHECKING:
    from .recording import Table

Factory = Callable[[], tuple[Any, Any]]  # returns a model and its tokenizer
Row = dict[str, Any]
Models = Sequence[str] | Mapping[str, Factory]
STUDY = "study.json"  # the conditions that all rows of a folder share
PARTS = 16  # number of parts per checkpoint, at most, if no block size is given
ELSEWHERE = ("device", "device_map", "max_memory", "token")  # options that change where a model runs, and no number


@dataclass(frozen=True)
class Task:
    """Blocks of prompts of one checkpoint."""

    name: str
    blocks: list[int]


@dataclass(frozen=True)
class Job:
    """The data that every worker of a study has."""

    out: str
    models: Mapping[str, Factory | None]
    texts: Sequence[Any]
    settings: Settings
    block: int  # prompts of a part
    batch: int  # prompts of a forward pass
    load_options: Mapping[str, Any] = field(default_factory=dict)
    source: str = "texts"
    license: str | None = None

    @property
    def blocks(self) -> int:
        return -(-len(self.texts) // self.block)

    def prompts(self, block: int) -> range:
        return range(block * self.block, min(len(self.texts), (block + 1) * self.block))


def study(models: Models, texts: Sequence[Any], out: str | PathLike[str] = "study", *, ray: bool = False,
          num_gpus: float = 0, concurrency: int = 1, batch: int = 8, block: int | None = None,
          tokens: int = 64, eps: Sequence[float] = (0.1, 0.2, 0.3), keep: int = 1, source: str = "texts",
          license: str | None = None, load_options: Mapping[str, Any] | None = None,
          **settings: Any) -> dict[str, str]:
    """Measures each of `models` on each of `texts`; returns the address of the recording of each model.

    models: names for `sinkscope.load`, with a revision of the hub as NAME@REVISION, or functions by name that
        return a model and its tokenizer.
    out: a folder, or any address that pyarrow or fsspec writes to (s3://, gs://, hf://); it is tried before the
        first model is loaded. `rows/CHECKPOINT/*.parquet` has one row for each prompt, `CHECKPOINT.safetensors`
        the recording of a model, which is written as soon as its last block is. CHECKPOINT is the model's name
        with digests of name, weights and tokenizer: weights that changed are another checkpoint. Existing blocks
        are not measured again, and existing recordings are kept.
    ray: True runs on Ray: `concurrency` workers with `num_gpus` GPUs each, which load one model at a
        time. A worker that is lost costs its block, which another worker repeats.
    batch: prompts of one forward pass.
    block: prompts of one part; by default enough that a checkpoint has at most 16 parts.
    keep: number of first texts that are kept with maps.
    settings: the other settings of `record`: fields, maps, first, mask, tolerance.

    A checkpoint that cannot be read or recorded is a row in `errors/`, a warning, and is tried again by the next
    call. Raises ValueError where the folder has rows of other settings or texts, OSError where it takes no files.
    """
    job = _job(models, texts, out, batch, block, tokens, eps, keep, source, license, load_options, settings)
    job = _begin(job, block)
    tasks = tasks_of(job, concurrency if ray else 1)
    found: dict[str, str] = {}
    for done in _on_ray(job, tasks, num_gpus, concurrency) if ray else _in_a_loop(job, tasks):
        if done["address"]:
            found[done["name"]] = done["address"]
        if done["error"]:
            warnings.warn(f"{done['name']}: {done['error']}", stacklevel=2)
    return {name: found[name] for name in job.models if name in found}


def _job(models: Models, texts: Sequence[Any], out: str | PathLike[str], batch: int, block: int | None,
         tokens: int, eps: Any, keep: int, source: str, license: str | None,
         load_options: Mapping[str, Any] | None, settings: Mapping[str, Any]) -> Job:
    """Checks all settings that can be checked without a model."""
    if isinstance(models, str):
        raise ValueError(f"models: expected a list of names, found {models!r} alone: models=[{models!r}]")
    if isinstance(texts, str | bytes | Mapping) or not len(texts):
        raise ValueError("texts: expected a list of one text or more, found "
                         f"{'none' if not texts else f'a {type(texts).__name__} alone'}")
    if tokens is None:
        raise ValueError("tokens: expected a number of tokens, found None: the blocks of a study are measured apart")
    for name, value in (("batch", batch), ("block", block)):
        if value is not None and (not isinstance(value, int) or value < 1):
            raise ValueError(f"{name}: expected 1 or more, found {value!r}")
    named: dict[str, Factory | None] = dict(models) if isinstance(models, Mapping) else dict.fromkeys(models)
    if not named:
        raise ValueError("models: expected one name or more, found none")
    others = dict(settings)
    chosen = Settings.checked(tokens, eps, keep, others.pop("fields", FIELDS), **others)
    if block is None:  # whole forward passes
        block = batch * -(-len(texts) // (PARTS * batch))
    return Job(str(out), named, list(texts), chosen, block, batch, dict(load_options or {}), source, license)


def _begin(job: Job, block: int | None) -> Job:
    """Writes what the rows will have in common, or compares it with what an earlier call wrote. That the folder
    takes a file is known from then on."""
    folder, texts = Folder(job.out), sha256()
    for text in job.texts:
        texts.update(digest_of_text(text).encode())
    options = {key: str(x) for key, x in sorted(job.load_options.items()) if key not in ELSEWHERE}
    common = {"settings": json.loads(settings_text(job.settings)), "load": options,
              "texts": len(job.texts), "texts_sha256": texts.hexdigest()}
    try:
        if folder.has(STUDY):
            there = json.loads(folder.read(STUDY))
            other = [key for key in common if there.get(key) != common[key]]
            if block not in (None, there["block"]):
                other.append("block")
            if other:
                raise ValueError(f"{folder.at(STUDY)}: expected the same settings and texts, found other "
                                 f"{', '.join(other)}; choose another folder")
            job = replace(job, block=there["block"])
        folder.write(STUDY, json.dumps(common | {"block": job.block}, indent=1).encode())
    except OSError as error:
        raise OSError(f"{job.out}: expected a folder that takes files, found {error}") from error
    return job


def plan(models: Models, texts: Sequence[Any], out: str | PathLike[str] = "study", *, batch: int = 8,
         block: int | None = None, tokens: int = 64, eps: Sequence[float] = (0.1, 0.2, 0.3), keep: int = 1,
         load_options: Mapping[str, Any] | None = None, **settings: Any) -> "Table":
    """What `study` of the same arguments would do, a row for each model: its parts and those that are there
    (if its weights are the same), its forward passes and files, and about how many bytes these take before they
    are compressed. Reads the config of each model, and writes nothing.
    """
    from .recording import Table

    job = _job(models, texts, out, batch, block, tokens, eps, keep, "", None, load_options, settings)
    folder, prefixes = Folder(out), {}
    if folder.has(STUDY):
        job = replace(job, block=json.loads(folder.read(STUDY))["block"])
    for checkpoint in folder.names("rows"):
        prefixes.setdefault(checkpoint.rpartition("-")[0], []).append(checkpoint)
    rows = Table()
    passes = sum(-(-len(job.prompts(b)) // job.batch) for b in range(job.blocks))
    for name in job.models:
        there = max((len(folder.names(f"rows/{one}")) for one in prefixes.get(slug(name), [])), default=0)
        rows.append({"model": name, "prompts": len(job.texts), "parts": job.blocks, "there": there,
                     "passes": passes, "files": job.blocks + 1, "bytes": _bytes(job, name)})
    rows.append({"model": "all", **{key: sum(row[key] for row in rows) for key in list(rows[0])[1:]}})
    rows.title = f"{folder.address}: {len(job.models)} models, {job.block} prompts a part"
    return rows


def _bytes(job: Job, name: str) -> float:
    """Returns NaN if the config lacks sizes, or a user's function makes the model."""
    if job.models[name] is not None:
        return float("nan")
    from .loading import sizes_of_name

    sizes = sizes_of_name(*address_of(job, name))
    if sizes is None:
        return float("nan")
    L, H, G = sizes
    T, P = job.settings.tokens, min(job.settings.tokens, 128)
    numbers = L * T * (5 * H + 2 * G + 2)  # of a prompt, by position
    row = 24 * L * H + 4 * T + 500
    part = 16 * numbers + 8 * L * H * T  # mean and squares in float64; least and largest alpha
    maps = job.settings.keep * L * H * P * P * (2 if T <= 128 else 1)
    recording = 8 * numbers + 8 * L * H * T + maps + 64 * len(job.texts)
    return float(len(job.texts) * row + job.blocks * part + maps + recording)


def slug(name: str, *digests: Any) -> str:
    """Returns a name for files that is unique to the name and the weights."""
    readable = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")[-60:] or "model"
    said = [sha256(name.encode()).hexdigest()[:10]]
    if digests:
        said.append(sha256(" ".join(map(str, digests)).encode()).hexdigest()[:10])
    return "-".join([readable, *said])


def address_of(job: Job, name: str) -> tuple[str, str | None]:
    """NAME@REVISION names a revision on the hub, unless a file has that name."""
    where, at, revision = name.rpartition("@")
    if at and where and not Path(name).exists():
        return where, revision
    return name, job.load_options.get("revision")


def tasks_of(job: Job, workers: int) -> list[Task]:
    """Splits the work into tasks. The blocks of a checkpoint stay together if there are enough checkpoints for all
    workers, so that each is loaded once."""
    blocks = list(range(job.blocks))
    if len(job.models) >= 4 * workers or workers == 1:
        return [Task(name, blocks) for name in job.models]
    return [Task(name, [b]) for name in job.models for b in blocks]


def _in_a_loop(job: Job, tasks: Sequence[Task]) -> Iterator[Row]:
    from tqdm.auto import tqdm

    from .blocks import Worker

    worker = Worker(job)
    for task in tqdm(tasks, unit="model"):
        yield worker.run(task)


def _on_ray(job: Job, tasks: Sequence[Task], num_gpus: float, concurrency: int) -> Iterator[Row]:
    import ray
    import ray.data

    if not ray.is_initialized():
        ray.init()
    items = ray.data.from_items([{"name": task.name, "blocks": task.blocks} for task in tasks],
                                override_num_blocks=len(tasks))
    done = items.map(_RayWorker, fn_constructor_args=(ray.put(job),), num_gpus=num_gpus or None,
                     compute=ray.data.ActorPoolStrategy(size=concurrency))
    yield from done.iter_rows()


class _RayWorker:
    """An actor of Ray. The object store holds the texts once."""

    def __init__(self, job: Any) -> None:
        import ray

        from .blocks import Worker

        self.worker: Worker = Worker(ray.get(job))

    def __call__(self, row: Row) -> Row:
        return self.worker.run(Task(row["name"], [int(b) for b in row["blocks"]]))


def digest_of_text(text: Any) -> str:
    if isinstance(text, Mapping):
        data = b"".join(str(key).encode() + np.asarray(text[key]).tobytes() for key in sorted(text))
    else:
        data = json.dumps(text if isinstance(text, str) else [int(i) for i in text]).encode()
    return sha256(data).hexdigest()


@cache
def settings_text(settings: Settings) -> str:
    return json.dumps(asdict(settings), sort_keys=True)


def rows_of(out: str | PathLike[str], model: str | None = None) -> Iterator[Row]:
    """The rows of a study, one part in memory at a time: by checkpoint, then by prompt; those of errors last."""
    folder = Folder(out)
    parts = [f"rows/{checkpoint}/{part}" for checkpoint in folder.names("rows")
             if model is None or checkpoint.startswith(slug(model) + "-")
             for part in folder.names(f"rows/{checkpoint}") if part.endswith(".parquet")]
    parts += [f"errors/{name}" for name in folder.names("errors")
              if model is None or name == f"{slug(model)}.parquet"]
    for part in parts:
        yield from folder.table(part).to_pylist()
