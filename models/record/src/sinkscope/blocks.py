"""The worker of a study, which measures blocks of prompts, writes a Parquet part for each block, and joins the
parts."""

import json
from collections.abc import Mapping, Sequence
from functools import partial
from hashlib import sha256
from io import BytesIO
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from safetensors.numpy import load as from_bytes
from safetensors.numpy import save as to_bytes

from .job import Job, Row, Task, digest_of_text, settings_text, slug, split_revision
from .loading import Digests, digests_of, digests_of_name, load
from .pairs import make_pair
from .recorder import PROMPT_MEANS, Assembly, Measurement, Prompt, Recorder
from .recording import Array, MetricStatistics, recording_bytes
from .storage import Folder

MEASURED, FAILED, SHORT, UNREADABLE = "measured", "failed", "short", "unreadable"
# Metrics of heads, stored as [L H] numbers, layer by layer. Of alpha, only the first token's is stored.
HEAD_METRICS = ("alpha", "alpha_raw", "entropy_mean", "distance", "contribution", "cos_gap")
EPS_METRICS = ("sink_1", "sink_ratio_raw")  # one number for each eps
PROMPT_METRICS = ("alpha_1", "loss", *PROMPT_MEANS)
SCHEMA = pa.schema(
    [
        ("model", pa.string()),
        ("checkpoint", pa.string()),
        ("weights_sha256", pa.string()),
        ("tokenizer_sha256", pa.string()),
        ("text_sha256", pa.string()),
        ("settings", pa.string()),
        ("prompt", pa.int32()),
        ("state", pa.string()),
        ("error", pa.string()),
        ("T", pa.int32()),
        ("first_id", pa.int32()),
        ("first_token", pa.string()),
        ("ids", pa.list_(pa.int32())),
        *((name, pa.list_(pa.float32())) for name in EPS_METRICS),
        *((name, pa.float32()) for name in PROMPT_METRICS),
        *((f"head_{name}", pa.list_(pa.float32())) for name in HEAD_METRICS),
        # Set for kept prompts only: the token strings, and the recorded fields as the bytes of a safetensors file.
        ("tokens", pa.list_(pa.string())),
        ("queries", pa.list_(pa.string())),  # of cross-attention
        ("kept", pa.large_binary()),
        # Set in the first measured row of a part only: the sums over the part as the bytes of a safetensors file, and
        # the conditions, which all rows of the part share.
        ("sums", pa.large_binary()),
        ("conditions", pa.string()),
    ]
)
JOINED_COLUMNS = [
    "weights_sha256",
    "tokenizer_sha256",
    "prompt",
    "state",
    "first_id",
    "first_token",
    "ids",
    *EPS_METRICS,
    *PROMPT_METRICS,
    "tokens",
    "queries",
    "kept",
    "sums",
    "conditions",
]


class Worker:
    """Measures one model at a time, as an actor of Ray or, without Ray, in a loop of the calling process."""

    def __init__(self, job: Job) -> None:
        self.job, self.folder = job, Folder(job.out)
        self.name: str | None = None
        self.digests = Digests("", None)
        self.recorder: Recorder | None = None
        self.file_sha256: str | None = None

    def run(self, task: Task) -> Row:
        """Measures the blocks of a task that are not stored yet. Once all blocks of the checkpoint are stored, writes
        the recording. Returns the recording's address, or an error; neither while other tasks have blocks to write."""
        error = address = None
        try:
            self._select_model(task.name)
            stored_parts = set(self.folder.list_names(f"rows/{self.checkpoint}"))
            for block in task.blocks:
                if self._part_name(block) not in stored_parts:
                    self._measure(block)
            address, error = self._finish()
        except Exception as problem:  # one checkpoint's failure must not stop the others
            self.name = self.recorder = None
            error = f"{type(problem).__name__}: {problem}"
            row = {
                "model": task.name,
                "state": UNREADABLE,
                "error": error,
                "settings": settings_text(self.job.settings),
            }
            self._write_rows(self._error_file(task.name), [row])
        return {"name": task.name, "address": address, "error": error}

    @property
    def checkpoint(self) -> str:
        assert self.name is not None
        return slug(self.name, self.digests.weights, self.digests.tokenizer)

    def _select_model(self, name: str) -> None:
        if self.name == name:
            return
        self.name = self.recorder = None  # frees the model's memory before the next one loads
        factory = self.job.models[name]
        if factory is not None:
            model, tokenizer = factory()
            self.digests, self.file_sha256 = digests_of(model, tokenizer), None
            self.recorder = Recorder(model, tokenizer, self.job.settings, self.job.part)
        else:
            address, revision = split_revision(self.job, name)
            self.digests = digests_of_name(address, revision)
        self.name = name

    def _open_recorder(self) -> Recorder:
        if self.recorder is None:
            assert self.name is not None
            address, revision = split_revision(self.job, self.name)
            options = {**self.job.load_options, **({"revision": revision} if revision else {})}
            loaded = load(address, **options)
            self.file_sha256 = loaded.sha256
            self.recorder = Recorder(loaded.model, loaded.tokenizer, self.job.settings, self.job.part)
        return self.recorder

    def _part_name(self, block: int) -> str:
        return f"{block:05d}-of-{self.job.blocks:05d}.parquet"

    def _measure(self, block: int) -> None:
        recorder, job = self._open_recorder(), self.job
        if job.generate and not recorder.pair_part:
            raise ValueError("generate: expected the part of an encoder with its decoder, found another model")
        make = partial(make_pair, generate=job.generate) if recorder.pair_part else Recorder.make_prompt
        prompts = {i: make(recorder, job.texts[i]) for i in job.prompts(block)}
        rows = {i: self._unmeasured_row(i) for i in prompts}
        assembly = Assembly(job.settings.eps, job.settings.first)
        for is_kept in (True, False):
            group = {i: prompt for i, prompt in prompts.items() if prompt and (i < job.settings.keep) == is_kept}
            measurements = recorder.measure_all(
                list(group.values()), job.batch, progress=False, keep=len(group) if is_kept else 0
            )
            for i, measurement in zip(group, measurements, strict=True):
                rows[i] |= self._measured_columns(group[i], measurement, assembly.add(measurement))
        first_measured = next((i for i, row in rows.items() if row["state"] == MEASURED), None)
        if first_measured is not None:
            prompt = prompts[first_measured]
            assert prompt is not None
            conditions = recorder.conditions(
                [prompt], job.source, self.name, split_revision(self.job, self.name)[1], self.file_sha256, job.license
            )
            rows[first_measured] |= {
                "sums": _pack(assembly.statistics.state()),
                "conditions": json.dumps(conditions, ensure_ascii=False),
            }
        self._write_rows(f"rows/{self.checkpoint}/{self._part_name(block)}", list(rows.values()))

    def _unmeasured_row(self, i: int) -> Row:
        return {
            "model": self.name,
            "checkpoint": self.checkpoint,
            "weights_sha256": self.digests.weights,
            "tokenizer_sha256": self.digests.tokenizer,
            "text_sha256": digest_of_text(self.job.texts[i]),
            "settings": settings_text(self.job.settings),
            "prompt": i,
            "state": SHORT,
        }

    def _measured_columns(self, prompt: Prompt, measurement: Measurement | None, numbers: Mapping[str, Any]) -> Row:
        first = self.job.settings.first
        row = {name: numbers.get(name) for name in (*EPS_METRICS, *PROMPT_METRICS)}
        if measurement is None:
            return row | {"state": FAILED}
        row |= {
            f"head_{name}": x[..., first] if name.startswith("alpha") else x
            for name in HEAD_METRICS
            if (x := measurement.metrics.get(name)) is not None
        }
        row |= {
            "state": MEASURED,
            "T": measurement.metrics["alpha"].shape[-1],
            "first_id": measurement.first_id,
            "first_token": measurement.tokens[first],
            "ids": prompt.ids,
        }
        if not measurement.kept:
            return row
        names = {"tokens": measurement.tokens, "queries": measurement.queries}
        return row | names | {"kept": _pack(measurement.kept)}

    def _write_rows(self, name: str, rows: Sequence[Row]) -> None:
        table = {
            column.name: pa.array([_flatten(row.get(column.name)) for row in rows], column.type) for column in SCHEMA
        }
        out = BytesIO()
        pq.write_table(pa.table(table, schema=SCHEMA), out, compression="zstd")
        self.folder.write(name, out.getvalue())

    def _error_file(self, name: str) -> str:
        return f"errors/{slug(name)}.parquet"

    def _finish(self) -> tuple[str | None, str | None]:
        """Writes the recording if all parts exist and it does not. Returns the recording's address, or an error."""
        assert self.name is not None
        name = f"{self.checkpoint}.safetensors"
        if not self.folder.has(name):
            parts = [self._part_name(block) for block in range(self.job.blocks)]
            if not set(parts) <= set(self.folder.list_names(f"rows/{self.checkpoint}")):
                return None, None  # the worker that writes the last part joins them
            data = self._join_parts(parts)
            if data is None:
                return None, (f"no text was measured: each failed or has fewer than {self.job.settings.tokens} tokens")
            self.folder.write(name, data)
        self.folder.remove(self._error_file(self.name))
        return self.folder.address_of(name), None

    def _join_parts(self, parts: Sequence[str]) -> bytes | None:
        """Returns the bytes of the recording of all parts; None if no text was measured. Joins them in a fixed order,
        so that every worker gets the same bits."""
        job = self.job
        assembly, conditions = Assembly(job.settings.eps, job.settings.first), None
        ids_digest, texts, has_ids = sha256(), [], True
        for part in parts:
            rows = self.folder.read_table(f"rows/{self.checkpoint}/{part}", JOINED_COLUMNS).to_pylist()
            if any(row["weights_sha256"] != self.digests.weights for row in rows):
                raise ValueError(f"{part}: expected rows of the weights {self.digests.weights}, found others")
            for row in rows:
                if row["state"] == MEASURED:
                    conditions = conditions or row["conditions"]
                    texts.append(job.texts[row["prompt"]])
                    ids_digest.update(np.array(row["ids"] or [], "<i4").tobytes())
                    has_ids = has_ids and row["ids"] is not None
            assembly.join(_assemble(rows, job))
        if conditions is None:
            return None
        recording = assembly.recording(json.loads(conditions) | {"license": job.license})
        prompts = {"source": job.source, "sha256": ids_digest.hexdigest() if has_ids else None}
        if all(isinstance(text, str) for text in texts):
            prompts["texts_sha256"] = sha256("\0".join(texts).encode()).hexdigest()
        recording.conditions["prompts"] |= prompts
        recording.model.update(weights_sha256=self.digests.weights, tokenizer_sha256=self.digests.tokenizer)
        return recording_bytes(recording)


def _assemble(rows: Sequence[Row], job: Job) -> Assembly:
    assembly = Assembly(job.settings.eps, job.settings.first)
    measured_count = sum(row["state"] == MEASURED for row in rows)
    for row in rows:
        if row["state"] == SHORT:
            continue
        numbers = {"failed": np.uint8(row["state"] == FAILED)}
        numbers |= {name: np.float32(row[name]) for name in PROMPT_METRICS}
        numbers |= {name: np.array(row[name], np.float32) for name in EPS_METRICS if row[name] is not None}
        for name, x in numbers.items():
            assembly.rows.setdefault(name, []).append(x)
        if row["sums"] is not None:
            assembly.statistics = MetricStatistics.of_state(measured_count, from_bytes(row["sums"]))
        if row["state"] == MEASURED:
            assembly.first_tokens[row["first_id"], row["first_token"]] = None
        if row["kept"] is not None:
            kept = from_bytes(row["kept"])
            assembly.kept.append(Measurement({}, kept, row["tokens"], row["first_id"], row.get("queries")))
    return assembly


def _pack(tensors: Mapping[str, Array]) -> bytes:
    return to_bytes({name: np.ascontiguousarray(x) for name, x in tensors.items()})


def _flatten(x: Any) -> Any:
    return x.ravel() if isinstance(x, np.ndarray) else x
