"""Measures many models on many prompts: writes a Parquet row for each model and prompt, and a recording for each
model.

A task measures blocks of prompts with one checkpoint. Each block is written as one Parquet part: a row for each prompt,
and the sums over the rows. The worker that writes the last part of a checkpoint joins the sums of all parts and writes
the recording. A study that is called again continues from the existing parts, also after its workers or its driver were
killed. Only names pass through the driver. This module needs pyarrow, and Ray if `ray` is true (`pip install
sinkscope[ray]`).
"""

import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from os import PathLike
from typing import TYPE_CHECKING, Any

from .job import Factory, Job, Row, Task, digest_of_text, settings_text, slug, split_revision
from .settings import FIELDS, Settings
from .storage import Folder

if TYPE_CHECKING:
    from .summary import Table

Models = Sequence[str] | Mapping[str, Factory]
STUDY_FILE = "study.json"
MAX_PARTS = 16  # for each checkpoint, if the caller sets no block size
# Options of `load` that say where a model runs or how it is fetched. They change no number.
PLACEMENT_OPTIONS = ("device", "device_map", "max_memory", "token")


def study(
    models: Models,
    texts: Sequence[Any],
    out: str | PathLike[str] = "study",
    *,
    ray: bool = False,
    num_gpus: float = 0,
    concurrency: int = 1,
    batch: int = 8,
    block: int | None = None,
    tokens: int = 64,
    eps: Sequence[float] = (0.1, 0.2, 0.3),
    keep: int = 1,
    part: str | None = None,
    generate: int = 0,
    source: str = "texts",
    license: str | None = None,
    load_options: Mapping[str, Any] | None = None,
    **settings: Any,
) -> dict[str, str]:
    """Measures each of `models` on each of `texts`; returns the address of the recording of each model.

    models: a list of names for `sinkscope.load` (NAME@REVISION names a revision on the hub), or a mapping from names
        to functions that return a model and its tokenizer.
    out: a folder, or any address that pyarrow or fsspec writes to (s3://, gs://, hf://). Before the first model is
        loaded, the study checks that files can be written there. `rows/CHECKPOINT/*.parquet` has one row for each
        prompt. `CHECKPOINT.safetensors` is the recording of a model, which is written right after its last block.
        CHECKPOINT is the model's name with digests of name, weights and tokenizer, so that changed weights make
        another checkpoint. Existing blocks are not measured again, and existing recordings are kept.
    ray: whether to run on Ray, with `concurrency` workers of `num_gpus` GPUs each, which load one model at a
        time. If a worker is lost, another worker repeats its block.
    batch: number of prompts in one forward pass.
    block: number of prompts in one part; by default large enough that a checkpoint has at most 16 parts.
    keep: number of texts, from the first on, that are kept with maps.
    part, generate: those of `record`, of the models' parts; of an encoder with its decoder both sequences have `tokens`
        tokens, or the decoder the `generate` tokens that it writes.
    settings: the other settings of `record`: fields, maps, first, mask, tolerance.

    If a checkpoint cannot be read or recorded, `errors/` gets a row, a warning is given, and the next call tries the
    checkpoint again. Raises ValueError if the folder has rows of other settings or texts, and OSError if no files can
    be written there.
    """
    job = _check_arguments(models, texts, out, batch, block, tokens, eps, keep, source, license, load_options, settings)
    job = replace(job, part=part, generate=generate)
    job = _write_conditions(job, block)
    tasks = split_tasks(job, concurrency if ray else 1)
    addresses: dict[str, str] = {}
    for report in _run_on_ray(job, tasks, num_gpus, concurrency) if ray else _run_in_loop(job, tasks):
        if report["address"]:
            addresses[report["name"]] = report["address"]
        if report["error"]:
            warnings.warn(f"{report['name']}: {report['error']}", stacklevel=2)
    return {name: addresses[name] for name in job.models if name in addresses}


def _check_arguments(
    models: Models,
    texts: Sequence[Any],
    out: str | PathLike[str],
    batch: int,
    block: int | None,
    tokens: int,
    eps: Any,
    keep: int,
    source: str,
    license: str | None,
    load_options: Mapping[str, Any] | None,
    settings: Mapping[str, Any],
) -> Job:
    """Returns the arguments of `study` as a job. Raises ValueError for arguments that no model can be measured with."""
    if isinstance(models, str):
        raise ValueError(f"models: expected a list of names, found {models!r} alone: models=[{models!r}]")
    if isinstance(texts, str | bytes | Mapping) or not len(texts):
        raise ValueError(
            "texts: expected a list of one text or more, found "
            f"{'none' if not texts else f'a {type(texts).__name__} alone'}"
        )
    if tokens is None:
        raise ValueError("tokens: expected a number of tokens, found None: the blocks of a study are measured apart")
    for name, value in (("batch", batch), ("block", block)):
        if value is not None and (not isinstance(value, int) or value < 1):
            raise ValueError(f"{name}: expected 1 or more, found {value!r}")
    factories: dict[str, Factory | None] = dict(models) if isinstance(models, Mapping) else dict.fromkeys(models)
    if not factories:
        raise ValueError("models: expected one name or more, found none")
    more_settings = dict(settings)
    all_settings = Settings.from_arguments(tokens, eps, keep, more_settings.pop("fields", FIELDS), **more_settings)
    if block is None:  # a multiple of `batch`, so that no forward pass is smaller
        block = batch * -(-len(texts) // (MAX_PARTS * batch))
    return Job(str(out), factories, list(texts), all_settings, block, batch, dict(load_options or {}), source, license)


def _write_conditions(job: Job, block: int | None) -> Job:
    """Writes the conditions that all rows share, which shows that the folder is writable. If the folder has conditions
    of an earlier call, compares them, and returns the job with that call's block size."""
    folder, texts_digest = Folder(job.out), sha256()
    for text in job.texts:
        texts_digest.update(digest_of_text(text).encode())
    options = {key: str(x) for key, x in sorted(job.load_options.items()) if key not in PLACEMENT_OPTIONS}
    conditions = {
        "settings": json.loads(settings_text(job.settings)),
        "load": options,
        "texts": len(job.texts),
        "texts_sha256": texts_digest.hexdigest(),
    } | {name: x for name in ("part", "generate") if (x := getattr(job, name))}
    try:
        if folder.has(STUDY_FILE):
            stored_conditions = json.loads(folder.read(STUDY_FILE))
            keys = sorted({*conditions, *stored_conditions} - {"block"})
            differing_keys = [key for key in keys if stored_conditions.get(key) != conditions.get(key)]
            if block not in (None, stored_conditions["block"]):
                differing_keys.append("block")
            if differing_keys:
                raise ValueError(
                    f"{folder.address_of(STUDY_FILE)}: expected the same settings and texts, found other "
                    f"{', '.join(differing_keys)}; choose another folder"
                )
            job = replace(job, block=stored_conditions["block"])
        folder.write(STUDY_FILE, json.dumps(conditions | {"block": job.block}, indent=1).encode())
    except OSError as error:
        raise OSError(f"{job.out}: expected a folder that takes files, found {error}") from error
    return job


def plan(
    models: Models,
    texts: Sequence[Any],
    out: str | PathLike[str] = "study",
    *,
    batch: int = 8,
    block: int | None = None,
    tokens: int = 64,
    eps: Sequence[float] = (0.1, 0.2, 0.3),
    keep: int = 1,
    load_options: Mapping[str, Any] | None = None,
    **settings: Any,
) -> "Table":
    """Returns a table of what `study` would do with the same arguments, a row for each model: the number of its parts,
    of those that exist for the same weights, of its forward passes and of its files, and an estimate of the files'
    uncompressed bytes. Reads the config of each model, and writes nothing.
    """
    from .summary import Table

    job = _check_arguments(models, texts, out, batch, block, tokens, eps, keep, "", None, load_options, settings)
    folder, checkpoints_by_slug = Folder(out), {}
    if folder.has(STUDY_FILE):
        job = replace(job, block=json.loads(folder.read(STUDY_FILE))["block"])
    for checkpoint in folder.list_names("rows"):
        checkpoints_by_slug.setdefault(checkpoint.rpartition("-")[0], []).append(checkpoint)
    rows = Table()
    passes = sum(-(-len(job.prompts(b)) // job.batch) for b in range(job.blocks))
    for name in job.models:
        counts = [
            len(folder.list_names(f"rows/{checkpoint}")) for checkpoint in checkpoints_by_slug.get(slug(name), [])
        ]
        rows.append(
            {
                "model": name,
                "prompts": len(job.texts),
                "parts": job.blocks,
                "there": max(counts, default=0),
                "passes": passes,
                "files": job.blocks + 1,
                "bytes": _estimate_bytes(job, name),
            }
        )
    rows.append({"model": "all", **{key: sum(row[key] for row in rows) for key in list(rows[0])[1:]}})
    rows.title = f"{folder.address}: {len(job.models)} models, {job.block} prompts a part"
    return rows


def _estimate_bytes(job: Job, name: str) -> float:
    """Estimates the uncompressed bytes of a model's files; NaN without sizes in the config, or for a user's model."""
    if job.models[name] is not None:
        return float("nan")
    from .loading import sizes_of_name

    sizes = sizes_of_name(*split_revision(job, name))
    if sizes is None:
        return float("nan")
    L, H, G = sizes
    T, P = job.settings.tokens, min(job.settings.tokens, 128)
    number_count = L * T * (5 * H + 2 * G + 2)
    row_bytes = 24 * L * H + 4 * T + 500
    part_bytes = 16 * number_count + 8 * L * H * T  # float64 means and squares; float32 extremes of alpha
    map_bytes = job.settings.keep * L * H * P * P * (2 if T <= 128 else 1)
    recording_bytes = 8 * number_count + 8 * L * H * T + map_bytes + 64 * len(job.texts)
    return float(len(job.texts) * row_bytes + job.blocks * part_bytes + map_bytes + recording_bytes)


def split_tasks(job: Job, workers: int) -> list[Task]:
    """Splits the work: a task for each checkpoint if these keep all workers busy, so that each checkpoint is loaded
    once; otherwise a task for each block."""
    blocks = list(range(job.blocks))
    if len(job.models) >= 4 * workers or workers == 1:
        return [Task(name, blocks) for name in job.models]
    return [Task(name, [b]) for name in job.models for b in blocks]


def _run_in_loop(job: Job, tasks: Sequence[Task]) -> Iterator[Row]:
    from tqdm.auto import tqdm

    from .blocks import Worker

    worker = Worker(job)
    for task in tqdm(tasks, unit="model"):
        yield worker.run(task)


def _run_on_ray(job: Job, tasks: Sequence[Task], num_gpus: float, concurrency: int) -> Iterator[Row]:
    import ray
    import ray.data

    if not ray.is_initialized():
        ray.init()
    items = ray.data.from_items(
        [{"name": task.name, "blocks": task.blocks} for task in tasks], override_num_blocks=len(tasks)
    )
    reports = items.map(
        _RayWorker,
        fn_constructor_args=(ray.put(job),),
        num_gpus=num_gpus or None,
        compute=ray.data.ActorPoolStrategy(size=concurrency),
    )
    yield from reports.iter_rows()


class _RayWorker:
    """A worker as a Ray actor. It reads the job, with all texts, from Ray's object store."""

    def __init__(self, job: Any) -> None:
        import ray

        from .blocks import Worker

        self.worker: Worker = Worker(ray.get(job))

    def __call__(self, row: Row) -> Row:
        return self.worker.run(Task(row["name"], [int(b) for b in row["blocks"]]))


def rows_of(out: str | PathLike[str], model: str | None = None) -> Iterator[Row]:
    """Yields a study's rows by checkpoint and prompt, then the errors' rows, with one part in memory."""
    folder = Folder(out)
    parts = [
        f"rows/{checkpoint}/{part}"
        for checkpoint in folder.list_names("rows")
        if model is None or checkpoint.startswith(slug(model) + "-")
        for part in folder.list_names(f"rows/{checkpoint}")
        if part.endswith(".parquet")
    ]
    parts += [
        f"errors/{name}" for name in folder.list_names("errors") if model is None or name == f"{slug(model)}.parquet"
    ]
    for part in parts:
        yield from folder.read_table(part).to_pylist()
