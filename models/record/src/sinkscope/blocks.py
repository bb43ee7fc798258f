"""The worker of a study: it measures blocks of prompts, writes their parts, and joins them."""

import json
from collections.abc import Mapping, Sequence
from hashlib import sha256
from io import BytesIO
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from safetensors.numpy import load as from_bytes
from safetensors.numpy import save as to_bytes

from .loading import Digests, digests_of, digests_of_name, load
from .recorder import PROMPT_MEANS, Assembly, Measured, Prompt, Recorder
from .recording import Array, Means, bytes_of
from .storage import Folder
from .studies import Job, Row, Task, address_of, digest_of_text, settings_text, slug

MEASURED, FAILED, SHORT, UNREADABLE = "measured", "failed", "short", "unreadable"
# Columns per head, [L H], layer by layer; of alpha only the first token's.
OF_HEADS = ("alpha", "alpha_raw", "entropy_mean", "distance", "contribution", "cos_gap")
LISTS = ("sink_1", "sink_ratio_raw")  # a number for each eps
NUMBERS = ("alpha_1", "loss", *PROMPT_MEANS)
SCHEMA = pa.schema([
    ("model", pa.string()), ("checkpoint", pa.string()), ("weights_sha256", pa.string()),
    ("tokenizer_sha256", pa.string()), ("text_sha256", pa.string()), ("settings", pa.string()),
    ("prompt", pa.int32()), ("state", pa.string()), ("error", pa.string()), ("T", pa.int32()),
    ("first_id", pa.int32()), ("first_token", pa.string()), ("ids", pa.list_(pa.int32())),
    *((name, pa.list_(pa.float32())) for name in LISTS), *((name, pa.float32()) for name in NUMBERS),
    *((f"head_{name}", pa.list_(pa.float32())) for name in OF_HEADS),
    # For kept prompts only: the strings of the tokens, and the fields as safetensors.
    ("tokens", pa.list_(pa.string())), ("kept", pa.large_binary()),
    # For the first measured row of a part only: the sums over the part, and the conditions that all of its rows share.
    ("sums", pa.large_binary()), ("conditions", pa.string()),
])
JOINED = ["weights_sha256", "tokenizer_sha256", "prompt", "state", "first_id", "first_token", "ids", *LISTS,
          *NUMBERS, "tokens", "kept", "sums", "conditions"]


class Worker:
    """Measures one model at a time: an actor of Ray, or an object of the plain loop."""

    def __init__(self, job: Job) -> None:
        self.job, self.folder = job, Folder(job.out)
        self.name: str | None = None  # of the checkpoint that is open
        self.digests = Digests("", None)
        self.recorder: Recorder | None = None
        self.file_sha256: str | None = None

    def run(self, task: Task) -> Row:
        """Measures a task's missing blocks, and writes the recording when no block is missing. The
        result has the recording's address, or the reason why there is none."""
        error = address = None
        try:
            self._identify(task.name)
            there = set(self.folder.names(f"rows/{self.checkpoint}"))
            for block in task.blocks:
                if self._part(block) not in there:
                    self._measure(block)
            address, error = self._finish()
        except Exception as problem:  # one checkpoint's failure does not stop the others
            self.name = self.recorder = None
            error = f"{type(problem).__name__}: {problem}"
            row = {"model": task.name, "state": UNREADABLE, "error": error,
                   "settings": settings_text(self.job.settings)}
            self._write(self._error(task.name), [row])
        return {"name": task.name, "address": address, "error": error}

    # The checkpoint

    @property
    def checkpoint(self) -> str:
        assert self.name is not None
        return slug(self.name, self.digests.weights, self.digests.tokenizer)

    def _identify(self, name: str) -> None:
        if self.name == name:
            return
        self.name = self.recorder = None  # frees the memory of the last model first
        factory = self.job.models[name]
        if factory is not None:
            model, tokenizer = factory()
            self.digests, self.file_sha256 = digests_of(model, tokenizer), None
            self.recorder = Recorder(model, tokenizer, self.job.settings)
        else:
            where, revision = address_of(self.job, name)
            self.digests = digests_of_name(where, revision)
        self.name = name

    def _opened(self) -> Recorder:
        if self.recorder is None:
            assert self.name is not None
            where, revision = address_of(self.job, self.name)
            options = {**self.job.load_options, **({"revision": revision} if revision else {})}
            loaded = load(where, **options)
            self.file_sha256 = loaded.sha256
            self.recorder = Recorder(loaded.model, loaded.tokenizer, self.job.settings)
        return self.recorder

    # A block

    def _part(self, block: int) -> str:
        return f"{block:05d}-of-{self.job.blocks:05d}.parquet"

    def _measure(self, block: int) -> None:
        recorder, job = self._opened(), self.job
        prompts = {i: recorder.prompt(job.texts[i]) for i in job.prompts(block)}
        rows = {i: self._row(i) for i in prompts}
        assembly = Assembly(job.settings.eps, job.settings.first)
        for kept in (True, False):
            some = {i: one for i, one in prompts.items() if one and (i < job.settings.keep) == kept}
            found = recorder.measure_all(list(some.values()), job.batch, progress=False,
                                         keep=len(some) if kept else 0)
            for i, one in zip(some, found, strict=True):
                rows[i] |= self._numbers(some[i], one, assembly.add(one))
        first = next((i for i, row in rows.items() if row["state"] == MEASURED), None)
        if first is not None:
            prompt = prompts[first]
            assert prompt is not None
            conditions = recorder.conditions([prompt], job.source, self.name, address_of(self.job, self.name)[1],
                                             self.file_sha256, job.license)
            rows[first] |= {"sums": _packed(assembly.means.state()),
                            "conditions": json.dumps(conditions, ensure_ascii=False)}
        self._write(f"rows/{self.checkpoint}/{self._part(block)}", list(rows.values()))

    def _row(self, i: int) -> Row:
        return {"model": self.name, "checkpoint": self.checkpoint, "weights_sha256": self.digests.weights,
                "tokenizer_sha256": self.digests.tokenizer, "text_sha256": digest_of_text(self.job.texts[i]),
                "settings": settings_text(self.job.settings), "prompt": i, "state": SHORT}

    def _numbers(self, prompt: Prompt, one: Measured | None, numbers: Mapping[str, Any]) -> Row:
        first = self.job.settings.first
        row = {name: numbers.get(name) for name in (*LISTS, *NUMBERS)}
        if one is None:
            return row | {"state": FAILED}
        row |= {f"head_{name}": x[..., first] if name.startswith("alpha") else x
                for name in OF_HEADS if (x := one.metrics.get(name)) is not None}
        row |= {"state": MEASURED, "T": one.metrics["alpha"].shape[-1], "first_id": one.first_id,
                "first_token": one.tokens[first], "ids": prompt.ids}
        return row | ({"tokens": one.tokens, "kept": _packed(one.kept)} if one.kept else {})

    def _write(self, name: str, rows: Sequence[Row]) -> None:
        table = {column.name: pa.array([_plain(row.get(column.name)) for row in rows], column.type)
                 for column in SCHEMA}
        out = BytesIO()
        pq.write_table(pa.table(table, schema=SCHEMA), out, compression="zstd")
        self.folder.write(name, out.getvalue())

    # The recording

    def _error(self, name: str) -> str:
        return f"errors/{slug(name)}.parquet"

    def _finish(self) -> tuple[str | None, str | None]:
        """Returns the address of the recording, and makes it if all parts exist and it does not."""
        assert self.name is not None
        name = f"{self.checkpoint}.safetensors"
        if not self.folder.has(name):
            parts = [self._part(block) for block in range(self.job.blocks)]
            if not set(parts) <= set(self.folder.names(f"rows/{self.checkpoint}")):
                return None, None  # the worker that writes the last part joins them
            data = self._joined(parts)
            if data is None:
                return None, (f"no text was measured: each failed or has fewer than {self.job.settings.tokens} "
                              "tokens")
            self.folder.write(name, data)
        self.folder.remove(self._error(self.name))
        return self.folder.at(name), None

    def _joined(self, parts: Sequence[str]) -> bytes | None:
        """Joins the parts in a fixed order, so that the result has the same bits on every worker."""
        job = self.job
        assembly, conditions = Assembly(job.settings.eps, job.settings.first), None
        ids, texts, has_ids = sha256(), [], True
        for part in parts:
            rows = self.folder.table(f"rows/{self.checkpoint}/{part}", JOINED).to_pylist()
            if any(row["weights_sha256"] != self.digests.weights for row in rows):
                raise ValueError(f"{part}: expected rows of the weights {self.digests.weights}, found others")
            for row in rows:
                if row["state"] == MEASURED:
                    conditions = conditions or row["conditions"]
                    texts.append(job.texts[row["prompt"]])
                    ids.update(np.array(row["ids"] or [], "<i4").tobytes())
                    has_ids = has_ids and row["ids"] is not None
            assembly.join(_assembly(rows, job))
        if conditions is None:
            return None
        recording = assembly.recording(json.loads(conditions) | {"license": job.license})
        prompts = {"source": job.source, "sha256": ids.hexdigest() if has_ids else None}
        if all(isinstance(text, str) for text in texts):
            prompts["texts_sha256"] = sha256("\0".join(texts).encode()).hexdigest()
        recording.conditions["prompts"] |= prompts
        recording.model.update(weights_sha256=self.digests.weights, tokenizer_sha256=self.digests.tokenizer)
        return bytes_of(recording)


def _assembly(rows: Sequence[Row], job: Job) -> Assembly:
    """Returns an assembly of a part's rows."""
    assembly = Assembly(job.settings.eps, job.settings.first)
    measured = sum(row["state"] == MEASURED for row in rows)
    for row in rows:
        if row["state"] == SHORT:
            continue
        numbers = {"failed": np.uint8(row["state"] == FAILED)}
        numbers |= {name: np.float32(row[name]) for name in NUMBERS}
        numbers |= {name: np.array(row[name], np.float32) for name in LISTS if row[name] is not None}
        for name, x in numbers.items():
            assembly.rows.setdefault(name, []).append(x)
        if row["sums"] is not None:
            assembly.means = Means.of_state(measured, from_bytes(row["sums"]))
        if row["state"] == MEASURED:
            assembly.firsts[row["first_id"], row["first_token"]] = None
        if row["kept"] is not None:
            assembly.kept.append(Measured({}, from_bytes(row["kept"]), row["tokens"], row["first_id"]))
    return assembly


def _packed(tensors: Mapping[str, Array]) -> bytes:
    return to_bytes({name: np.ascontiguousarray(x) for name, x in tensors.items()})


def _plain(x: Any) -> Any:
    return x.ravel() if isinstance(x, np.ndarray) else x
