"""Runs prompts through a model and measures its attention, without keeping the maps of all prompts.

A `Recorder` belongs to one model; `record` makes one, and `study` one for each of its models, on each of its workers.
"""

import gc
import inspect
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from tqdm.auto import tqdm

from . import __version__, metrics
from .attention import UnsupportedModel, Visitor, class_name, explain_no_calls, observe, unwrap, without_autocast
from .gather import HeadMetrics, StreamMetrics
from .images import Image, find_image_tokens, find_language_model, find_patches, image_token, make_picture
from .probe import Facts, Probe, config_of, output_sizes
from .recording import Array, MetricStatistics, Recording
from .settings import Settings

CHECKED_POSITIONS = 64  # number of positions where the logits are compared with those of the unobserved model
PROMPT_MEANS = (
    "alpha_raw",
    "row_mass",
    "entropy_mean",
    "distance",
    "contribution",
    "cos_gap",
    "hidden_ratio",
    "key_ratio",
    "value_ratio",
    "image_share",
    "text_share",
    "special_share",
)
PAIR_PARTS = ("encoder", "decoder", "cross")
DECODER_INPUTS = ("decoder_", "labels")  # inputs that do not have the length of the encoder's attention_mask
LOSS_ROWS = 256  # number of positions whose logits are converted to float32 at a time

Inputs = Mapping[str, Tensor]


@dataclass(frozen=True)
class Prompt:
    inputs: Inputs
    ids: list[int] | None
    tokens: list[str] | None
    text: str | None = None
    queries: list[str] | None = None  # of cross-attention, whose ids and tokens are those of the keys


@dataclass
class Measurement:
    metrics: dict[str, Array]
    kept: dict[str, Array] = field(default_factory=dict)
    tokens: list[str] = field(default_factory=list)
    first_id: int | None = None
    queries: list[str] | None = None
    image: Image | None = None


def prompt_row(measurement: Measurement | None, thresholds: int, first: int) -> dict[str, Any]:
    """Returns the numbers that a recording stores as `prompt.NAME` for one prompt; NaN for a failed prompt."""
    nan = np.float32(np.nan)
    results = measurement.metrics if measurement else {}
    row = {
        "failed": np.uint8(measurement is None),
        "sink_1": results["sink_ratio"][:, first].copy() if measurement else np.full(thresholds, nan),
        "alpha_1": results["alpha"][..., first].mean() if measurement else nan,
        "loss": results["loss_mean"][0] if "loss_mean" in results else nan,
    }
    for name in PROMPT_MEANS:
        x = results.get(name)
        x = x[..., first] if x is not None and name == "alpha_raw" else x
        row[name] = nan if x is None else np.float32(x.mean())
    if "sink_ratio_raw" in results:
        row["sink_ratio_raw"] = results["sink_ratio_raw"][:, first].copy()
    elif measurement is None:
        row["sink_ratio_raw"] = np.full(thresholds, nan)
    return row


def parse_edits(edits: Sequence[Mapping[str, Any] | str]) -> list[dict[str, Any]]:
    if isinstance(edits, str | Mapping):
        raise ValueError(f"edits: expected a list of labels, found {edits!r} alone")
    parsed_edits = [{"kind": "own"} | ({"label": edit} if isinstance(edit, str) else dict(edit)) for edit in edits]
    if not all(isinstance(edit.get("label"), str) for edit in parsed_edits):
        raise ValueError("edits: expected a label in words of each, found none")
    return parsed_edits


class Assembly:
    """Collects the metrics of prompts in the order of `add`; `join` appends those of another assembly."""

    def __init__(self, eps: Sequence[float], first: int) -> None:
        self.eps, self.first = eps, first
        self.statistics = MetricStatistics()
        self.kept: list[Measurement] = []
        # the id and string of each distinct first token
        self.first_tokens: dict[tuple[int | None, str | None], None] = {}
        self.rows: dict[str, list[Any]] = {}

    def add(self, measurement: Measurement | None) -> dict[str, Any]:
        row = prompt_row(measurement, len(self.eps), self.first)
        for name, value in row.items():
            self.rows.setdefault(name, []).append(value)
        if measurement is not None:
            self.statistics.add(measurement.metrics)
            first_token = measurement.tokens[self.first] if measurement.tokens else None
            self.first_tokens[measurement.first_id, first_token] = None
            if measurement.kept:
                self.kept.append(measurement)
        return row

    def join(self, other: "Assembly") -> None:
        for name, values in other.rows.items():
            self.rows.setdefault(name, []).extend(values)
        self.statistics.join(other.statistics)
        self.first_tokens |= other.first_tokens
        self.kept += other.kept

    @property
    def first_id(self) -> int | None:
        """The id that all prompts have at the first token's position; None if they differ."""
        return next(iter(self.first_tokens))[0] if len(self.first_tokens) == 1 else None

    def recording(self, conditions: dict[str, Any]) -> Recording:
        if self.statistics.count == 0:
            raise RuntimeError("every prompt failed: see the warnings")
        tensors = {f"{i}.{name}": x for i, measurement in enumerate(self.kept) for name, x in measurement.kept.items()}
        tensors |= self.statistics.tensors()
        metric_names = {name.removeprefix("mean.") for name in tensors}
        tensors |= {
            f"prompt.{name}": np.stack(x)
            for name, x in self.rows.items()
            if name in metric_names or name in ("sink_1", "alpha_1", "loss", "failed")
        }
        first_token = conditions["first"]
        if len(self.first_tokens) > 1:
            first_token = first_token | {"token": None, "id": None}
        elif self.kept and self.kept[0].image:
            first_token = first_token | {"token": self.kept[0].tokens[self.first]}
        counts = {"count": len(self.rows["failed"]), "kept": len(self.kept)}
        if "cross" in conditions:
            queries = {"tokens": [measurement.queries for measurement in self.kept]}
            conditions = conditions | {"cross": conditions["cross"] | queries}
        images = [measurement.image.conditions() for measurement in self.kept if measurement.image]
        return Recording(
            conditions
            | {
                "first": first_token,
                "tokens": [measurement.tokens for measurement in self.kept],
                "prompts": conditions["prompts"] | counts,
            }
            | ({"images": images} if images else {}),
            tensors,
        )


class Recorder:
    """Measures prompts with one model; at the first, checks that observing does not change the logits."""

    def __init__(self, model: nn.Module, tokenizer: Any, settings: Settings, part: str | None = None) -> None:
        if not isinstance(model, nn.Module):
            raise ValueError(f"model: expected a torch.nn.Module, found {type(model).__name__}")
        self.whole_model = getattr(model, "_orig_mod", model)
        # the kind of attention of an encoder with its decoder that is recorded; None for other models
        self.pair_part = part if part in PAIR_PARTS and _is_pair(self.whole_model) else None
        if self.pair_part:
            self.model = self.whole_model
            while _is_pair(self.model):  # a model's decoder may be an encoder with its decoder, as that of Florence-2
                pair: Any = unwrap(self.model)
                self.model = pair.get_encoder() if part == "encoder" else pair.get_decoder()
        else:
            self.model = _find_part(self.whole_model, part)
        text_reader = getattr(tokenizer, "tokenizer", tokenizer)  # of a processor, which may read images alone
        self.tokenizer = text_reader if hasattr(text_reader, "convert_ids_to_tokens") else None
        self.processor, self.settings, self.part = tokenizer, settings, part
        self.facts: Facts | None = None
        self.device = find_device(self.model)
        self.config: Any = config_of(self.model)
        self.output_width = 0
        self.reads_ids = True  # False if attention is over the patches of an image
        self.asks_for_weights = False  # True if attention modules return their weights on request only
        _refuse_foreign_tokens(self.model)

    def _visitor(self, visit: Visitor) -> Visitor:
        """Returns a visitor of the calls that are recorded: of a decoder, those on its own tokens or on the encoder."""
        if self.pair_part is None:
            return visit
        return lambda call: visit(call) if call.is_crossed == (self.pair_part == "cross") else None

    def make_prompt(self, text: Any) -> Prompt | None:
        """Converts one text to a prompt, cut to the length in the settings; None if the text is shorter."""
        parsed_prompts = self.parse_prompts(text)
        if len(parsed_prompts) != 1:
            raise ValueError(f"texts: expected a batch of 1, found {len(parsed_prompts)}")
        ids = parsed_prompts[0].ids
        if ids is None:
            return parsed_prompts[0]
        T = self.settings.tokens or len(ids)
        return self._cut(parsed_prompts[0], T) if len(ids) >= T else None

    def make_prompts(self, texts: Iterable[Any]) -> list[Prompt]:
        """Converts texts to prompts of one length. Leaves shorter texts out, with a warning."""
        parsed_prompts = [prompt for text in texts for prompt in self.parse_prompts(text)]
        self._warn_of_repeated_starts(parsed_prompts)
        lengths = [len(p.ids) for p in parsed_prompts if p.ids is not None]
        T = self.settings.tokens or min(lengths, default=0)
        language_model = (
            None if self.part else find_language_model(self.whole_model, [p.inputs for p in parsed_prompts])
        )
        if language_model is not None:
            self.model, T = language_model, min(lengths)  # a prompt that is cut to `tokens` would lose patches
            if any(image_token(self.whole_model) in (p.ids or [])[T:] for p in parsed_prompts):
                raise ValueError(
                    f"texts: expected each image within {T} tokens, the length of the shortest prompt, found patches "
                    "after them: record prompts of one length together"
                )
        if lengths and T < 2:
            raise ValueError(
                f"texts: expected two tokens or more in each, found {'one' if T else 'none'} in the shortest"
            )
        if lengths and self.settings.first >= T:
            raise ValueError(f"first: expected a position below {T}, the number of tokens, found {self.settings.first}")
        cut_prompts = [
            p if p.ids is None else self._cut(p, T) for p in parsed_prompts if p.ids is None or len(p.ids) >= T
        ]
        if len(cut_prompts) < len(parsed_prompts):
            warnings.warn(
                f"{len(parsed_prompts) - len(cut_prompts)} of {len(parsed_prompts)} texts have fewer than {T} tokens "
                "and are left out",
                stacklevel=3,
            )
        if not cut_prompts:
            longest = f"{max(lengths)} in the longest; tokens=None takes all of each" if lengths else "no text"
            raise ValueError(f"texts: expected one of {max(T, 2)} tokens or more, found {longest}")
        return cut_prompts

    def parse_prompts(self, text: Any) -> list[Prompt]:
        """Returns the prompts of one item of `texts`: one of a text, or one for each row of a mapping's batch. A tensor
        of ids, [B, T], is such a batch."""
        if getattr(text, "ndim", 1) == 2:
            text = {"input_ids": torch.as_tensor(text)}
        if isinstance(text, Mapping):
            rows = split_batch(text)
            lists = [row["input_ids"][0].tolist() if "input_ids" in row else None for row in rows]
            for ids in lists:
                if ids is not None:
                    self.refuse_unknown_ids(ids)
                if ids is not None and "attention_mask" not in text:
                    self._refuse_pads(ids)
            return [Prompt(row, ids, None) for row, ids in zip(rows, lists, strict=True)]
        if isinstance(text, str):
            if self.tokenizer is None:
                raise ValueError("texts: expected token ids or model inputs where there is no tokenizer, found text")
            # Some tokenizers end a text with a separator token, which only truncation by the tokenizer keeps. Other
            # texts are cut later.
            truncates = getattr(self.tokenizer, "sep_token_id", None) is not None and self.settings.tokens
            encoding = self.tokenizer(
                text, **({"truncation": True, "max_length": self.settings.tokens} if truncates else {})
            )
            ids, mask = encoding.input_ids, getattr(encoding, "attention_mask", None)
            if mask is not None and not all(mask):  # the tokenizer pads by itself
                row = {"input_ids": torch.tensor([ids]), "attention_mask": torch.tensor([mask])}
                ids = _cut_padding(row)["input_ids"][0].tolist()
        else:
            ids = self._parse_ids(text)
        return [Prompt({"input_ids": torch.tensor([ids])}, ids, None, text if isinstance(text, str) else None)]

    def _warn_of_repeated_starts(self, prompts: Sequence[Prompt]) -> None:
        """Warns of texts that begin with the start token which the tokenizer adds, as `tokenNotes` does."""
        start = getattr(self.tokenizer, "bos_token", None) or getattr(self.tokenizer, "cls_token", None)
        if start is None:
            return
        ids = [self.tokenizer.convert_tokens_to_ids(start)] * 2
        count = sum(p.text is not None and p.ids is not None and p.ids[:2] == ids for p in prompts)
        if count:
            warnings.warn(
                f"{count} of {len(prompts)} texts begin with {start}, which the tokenizer adds by itself: the model "
                "reads it twice",
                stacklevel=4,
            )

    def _parse_ids(self, text: Any) -> list[int]:
        items = text.tolist() if hasattr(text, "tolist") else text
        listed = items if isinstance(items, Sequence) else [items]
        others = [i for i in listed if not isinstance(i, int | np.integer) or isinstance(i, bool)]
        if others or listed is not items:
            kind = getattr(text, "dtype", type(others[0]).__name__) if others else ""
            found = f"those of {kind}" if others else "the ids of one text alone: put them into a list"
            raise ValueError(f"texts: expected texts, lists of token ids or mappings of model inputs, found {found}")
        ids = [int(i) for i in items]
        self._refuse_pads(ids)
        self.refuse_unknown_ids(ids)
        return ids

    def refuse_unknown_ids(self, ids: list[int], reader: nn.Module | None = None) -> None:
        """Refuses ids that the embedding of `reader` lacks: a GPU would stop at them with an error of the device."""
        get_embedding = getattr(unwrap(reader or self.model), "get_input_embeddings", None)
        try:
            count = getattr(get_embedding() if get_embedding else None, "num_embeddings", None)
        except (AttributeError, NotImplementedError):
            return  # a model without one embedding for its inputs
        wrong_ids = [i for i in ids if count is not None and not 0 <= i < count]
        if wrong_ids:
            raise ValueError(
                f"texts: expected token ids from 0 to {count - 1}, the rows of the model's embedding, "
                f"found {wrong_ids[0]}"
            )

    def _refuse_pads(self, ids: list[int]) -> None:
        pad = getattr(self.tokenizer, "pad_token_id", None)
        boundary_ids = {getattr(self.tokenizer, f"{kind}_token_id", None) for kind in ("bos", "eos", "cls", "sep")}
        if pad is not None and pad not in boundary_ids and ids and pad in (ids[0], ids[-1]):
            raise ValueError(
                f"texts: expected token ids without padding, found the pad token {pad} at an end; pass "
                "the tokenizer's output with its attention_mask, which is cut off"
            )

    def _cut(self, prompt: Prompt, T: int) -> Prompt:
        ids = prompt.ids
        assert ids is not None
        n = len(ids)
        inputs = {
            name: x[:, :, :T, :T]
            if x.dim() == 4 and x.shape[2:] == (n, n)
            else x[:, :T]
            if x.dim() >= 2 and x.shape[1] == n
            else x
            for name, x in prompt.inputs.items()
        }
        return Prompt(inputs, ids[:T], token_strings(self.tokenizer, ids[:T]), prompt.text)

    def _forward(self, inputs: Inputs) -> Any:
        device_inputs = {name: x.to(self.device) for name, x in inputs.items()}
        model = self.whole_model
        if self.model is not self.whole_model and device_inputs.keys() <= _forward_parameters(self.model).keys():
            model = self.model
        parameters = _forward_parameters(unwrap(model))
        takes_any_keyword = any(p.kind == p.VAR_KEYWORD for p in parameters.values())
        extra = {"use_cache": False} if "use_cache" in parameters else {}
        extra |= {"output_attentions": True} if self.asks_for_weights and "output_attentions" in parameters else {}
        with torch.no_grad():
            if len(device_inputs) == 1 and not takes_any_keyword and device_inputs.keys().isdisjoint(parameters):
                return model(*device_inputs.values())  # a user's model may name its ids differently
            return model(**device_inputs, **extra)

    def _check_first_prompt(self, prompt: Prompt) -> Facts:
        """Runs the first prompt with and without observation, compares the logits, and returns facts on the model."""
        with torch.compiler.set_stance("force_eager"):
            try:
                expected, self.output_width = _sample_logits(self._forward(prompt.inputs))
            except (IndexError, RuntimeError) as error:
                context = getattr(getattr(self.model, "config", None), "max_position_embeddings", None)
                # The family of RoBERTa counts positions from pad_token_id + 1, usually 2.
                if not context or len(prompt.ids or ()) + 2 <= context:
                    raise
                raise ValueError(
                    f"tokens: expected fewer for {class_name(self.model)}, which has {context} positions, found "
                    f"{len(prompt.ids or ())}: {error}"
                ) from error
        probe = Probe(self.settings, self.pair_part == "cross")
        with observe(self.model, self._visitor(probe.visit), self.asks_for_weights) as watch:
            observed, _ = _sample_logits(self._forward(prompt.inputs))
        if not probe.calls:
            if self.asks_for_weights and watch.calls:
                raise UnsupportedModel(
                    f"{class_name(self.model)}: expected attention of part={self.part!r}, found {watch.calls} calls of "
                    "another kind: record the part that they belong to, or sinkscope.observe, which gives each call"
                )
            if self.asks_for_weights:
                raise UnsupportedModel(explain_no_calls(self.model, lambda: self._forward(prompt.inputs)))
            self.asks_for_weights = True
            return self._check_first_prompt(prompt)
        spread = (expected.std() if expected.numel() > 1 else expected.abs().mean()).clamp_min(1e-12)
        error = ((observed - expected).abs().max() / spread).item()
        if not error <= self.settings.tolerance:  # NaN must fail as well
            raise UnsupportedModel(
                f"{type(self.model).__name__}: expected the logits of the untouched model within "
                f"{self.settings.tolerance:g} of their deviation, found {error:.3g}"
            )
        facts = probe.infer_facts(self.model, watch.most_visits)
        self.reads_ids = prompt.ids is not None and len(prompt.ids) == facts.T
        if prompt.ids is not None and not self.reads_ids and self.model is self.whole_model:
            raise UnsupportedModel(
                f"{type(self.model).__name__}: expected attention over the {len(prompt.ids)} tokens "
                f"of the prompt, found {facts.T}"
            )
        if self.settings.first >= facts.T:
            raise ValueError(
                f"first: expected a position below {facts.T}, the number of tokens, found {self.settings.first}"
            )
        return facts

    def measure_all(
        self, prompts: Sequence[Prompt], batch: int = 1, progress: bool = True, keep: int | None = None
    ) -> Iterator[Measurement | None]:
        keep = self.settings.keep if keep is None else keep
        with tqdm(total=len(prompts), unit="prompt", disable=not progress) as bar:
            for start in range(0, len(prompts), batch):
                batch_prompts = list(prompts[start : start + batch])
                for measurement in self._measure_or_split(batch_prompts, keep):
                    keep -= bool(measurement and measurement.kept)
                    bar.update()
                    yield measurement

    def _measure_or_split(self, prompts: list[Prompt], keep: int) -> list[Measurement | None]:
        try:
            with evaluation_mode(self.whole_model):
                if self.facts is None:
                    self.facts = self._check_first_prompt(prompts[0])
                return list(self._measure(prompts, keep))
        except Exception as error:
            if not _is_out_of_memory(error):
                raise
        # Outside of `except`, because the exception keeps the tensors of the failed pass alive.
        gc.collect()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
        if len(prompts) > 1:
            measurements: list[Measurement | None] = []
            for prompt in prompts:
                kept_count = sum(bool(measurement and measurement.kept) for measurement in measurements)
                measurements += self._measure_or_split([prompt], keep - kept_count)
            return measurements
        warnings.warn("a prompt ran out of memory and is left out", stacklevel=2)
        return [None]

    def _measure(self, prompts: list[Prompt], keep: int) -> list[Measurement]:
        facts, settings = self.facts, self.settings
        assert facts is not None
        if prompts[1:] and len(prompts) == facts.T:  # in an output of [T, T, D] the axis of tokens would be ambiguous
            return self._measure(prompts[:-1], keep) + self._measure(prompts[-1:], keep - len(prompts) + 1)
        if not self.reads_ids:
            prompts = [replace(prompt, ids=None, tokens=None) for prompt in prompts]
        names = [sorted(p.inputs) for p in prompts]
        if any(input_names != names[0] for input_names in names):
            raise ValueError(
                f"texts: expected mappings of the same inputs in a batch, found {names[0]} and "
                f"{next(input_names for input_names in names if input_names != names[0])}"
            )
        inputs = {name: torch.cat([p.inputs[name] for p in prompts]) for name in prompts[0].inputs}
        keep = max(0, min(keep, len(prompts)))
        heads = HeadMetrics(facts, settings, len(prompts), keep, [self._image_of(p) for p in prompts])
        stream = StreamMetrics(facts, settings, keep, bool(heads.kinds.images) and self.reads_ids)
        with stream.watch(), observe(self.model, self._visitor(heads.visit), self.asks_for_weights):
            out = self._forward(inputs)
        with without_autocast():  # autocast rejects float64, and operations on half and wider dtypes
            return self._collect(prompts, heads, stream, inputs, _find_logits(out, self.model))

    def _image_of(self, prompt: Prompt) -> Image | None:
        assert self.facts is not None
        if self.facts.is_cross:
            return None
        if not self.reads_ids:
            return find_patches(self.model, prompt.inputs, self.facts.T)
        tokens = prompt.tokens or token_strings(self.tokenizer, prompt.ids or [])
        return find_image_tokens(self.whole_model, prompt.inputs, tokens, self.tokenizer)

    def _collect(
        self, prompts: list[Prompt], heads: HeadMetrics, stream: StreamMetrics, inputs: Inputs, logits: Tensor | None
    ) -> list[Measurement]:
        facts, settings = heads.facts, self.settings
        results = heads.metrics() | stream.metrics()
        ids = inputs.get("decoder_input_ids" if self.pair_part else "input_ids")
        if (
            facts.kind == "causal"
            and self.reads_ids
            and not heads.kinds.images  # the placeholder of a patch is no token to predict
            and ids is not None
            and logits is not None
            and logits.shape[:2] == ids.shape
            # A token classifier has fewer outputs than the vocabulary, and no loss.
            and logits.shape[-1] >= max(output_sizes(self.model)[1], 1 + int(ids.max()))
        ):
            results |= _compute_losses(logits, ids.to(logits.device))
        measurements, positions = [], [str(t) for t in range(facts.T)]
        for b, prompt in enumerate(prompts):
            prompt_results = {name: x[b] for name, x in results.items()}
            kept: dict[str, Array] = {}
            if b < heads.keep:
                kept = heads.kept_fields(b, prompt.ids) | stream.kept_fields(b, prompt_results)
                if "loss_at" in prompt_results and "loss" in settings.fields:
                    kept["loss"] = prompt_results["loss_at"][1:].copy()
                picture = (
                    make_picture(self.whole_model, prompt.inputs, self.processor)
                    if "picture" in settings.fields
                    else None
                )
                kept |= {} if picture is None else {"picture": picture}
            first_id, image = prompt.ids[settings.first] if prompt.ids else None, heads.images[b]
            tokens = image.tokens if image else prompt.tokens or positions
            queries = prompt.queries or [str(t) for t in range(facts.queries)] if facts.is_cross else None
            measurements.append(Measurement(prompt_results, kept, tokens, first_id, queries, image))
        return measurements

    def _dtype_name(self) -> str:
        kind, parameter = self.device.type, next(self.model.parameters(), None)
        dtype = torch.get_default_dtype() if parameter is None else parameter.dtype
        autocast = f" under autocast {torch.get_autocast_dtype(kind)}" if torch.is_autocast_enabled(kind) else ""
        return f"{dtype}{autocast}".replace("torch.", "")

    @property
    def name(self) -> str:
        return getattr(self.config, "_name_or_path", "") or class_name(self.model)

    def identity(self, revision: str | None = None, file_sha256: str | None = None) -> dict[str, Any]:
        """Returns the conditions that say which model was run, and how."""
        return {
            "revision": revision or getattr(self.config, "_commit_hash", None),
            "sha256": file_sha256,
            "family": getattr(self.config, "model_type", None) or class_name(self.model),
            "part": self.part,
            "dtype": self._dtype_name(),
            "attention": getattr(self.config, "_attn_implementation", None) or "eager",
        }

    def record(
        self, prompts: Sequence[Prompt], batch: int, progress: bool, edits: list[dict[str, Any]], **origin: Any
    ) -> Recording:
        """Measures the prompts, and makes one recording of them. `origin` are the arguments of `conditions`."""
        assembly = Assembly(self.settings.eps, self.settings.first)
        for measurement in self.measure_all(prompts, batch, progress):
            assembly.add(measurement)
        return assembly.recording(with_edits(self.conditions(prompts, **origin), edits))

    def conditions(
        self,
        prompts: Sequence[Prompt],
        source: str,
        model_id: str | None = None,
        revision: str | None = None,
        file_sha256: str | None = None,
        license: str | None = None,
        command: str | None = None,
    ) -> dict[str, Any]:
        """Returns the conditions of a recording but those that `Assembly.recording` adds, after the first prompt."""
        facts, settings = self.facts, self.settings
        if facts is None:
            raise RuntimeError("every prompt failed: see the warnings")
        ids = prompts[0].ids if self.reads_ids else None
        first_id = ids[settings.first] if ids else None
        D, V = output_sizes(self.model)
        return make_conditions(
            facts,
            settings,
            id=model_id or self.name,
            **self.identity(revision, file_sha256),
            D=D or facts.H * facts.K,
            V=V or max(1, self.output_width),
            first_token=token_strings(self.tokenizer, [first_id])[0] if first_id is not None else None,
            first_id=first_id,
            prompts={
                "source": source,
                "sha256": _digest_of_ids(prompts) if self.reads_ids else None,
                "count": len(prompts),
                "kept": 0,
                "T": facts.T,
            }
            | _digest_of_texts(prompts),
            license=license,
            versions=dict(versions()),
            command=command,
            key_unit="token" if ids else "patch" if "pixel_values" in prompts[0].inputs else "frame",
        )


def make_conditions(
    facts: Facts,
    settings: Settings,
    *,
    id: str,
    family: str,
    D: int,
    V: int,
    first_token: str | None,
    first_id: int | None,
    prompts: dict[str, Any],
    license: str | None,
    versions: dict[str, str],
    command: str | None,
    revision: str | None = None,
    sha256: str | None = None,
    part: str | None = None,
    dtype: str | None = None,
    attention: str | None = None,
    key_unit: str = "token",
) -> dict[str, Any]:
    """Returns the conditions of a recording, with placeholders for those that `Assembly.recording` sets."""
    sizes = {"L": facts.L, "H": facts.H, "G": facts.G, "K": facts.K, "D": D, "V": V}
    model: dict[str, Any] = {"id": id, "revision": revision, "sha256": sha256, "family": family} | sizes
    model |= {"dtype": dtype, "attention": attention, "operation": facts.operation} | facts.mask_conditions()
    if facts.U not in (0, facts.K):
        model["U"] = facts.U
    if facts.layers != list(range(facts.blocks)):
        model |= {"blocks": facts.blocks, "layers": facts.layers}
    if facts.softcap is not None:
        model["softcap"] = facts.softcap
    if part is not None:
        model["part"] = part
    cross = {"cross": {"T": facts.queries, "keys": key_unit, "tokens": []}} if facts.is_cross else {}
    return cross | {
        "model": model,
        "first": {"token": first_token, "id": first_id, "position": settings.first},
        "tokens": [],
        "prompts": prompts,
        "eps": list(settings.eps),
        "class": "MEASURED",
        "license": license,
        "versions": versions,
        "command": command,
    }


def with_edits(conditions: dict[str, Any], edits: list[dict[str, Any]]) -> dict[str, Any]:
    return conditions | ({"edits": edits, "class": "EDITED"} if edits else {})


@cache
def versions() -> Mapping[str, str]:
    """Returns the versions of the packages that affect the numbers. Cached, because reading a version opens files, and
    a study needs them for each block."""
    return {"sinkscope": __version__} | {name: version(name) for name in ("torch", "transformers")}


def token_strings(tokenizer: Any, ids: Sequence[int]) -> list[str]:
    """Returns the text of each token, with its leading space; the ids as strings if there is no tokenizer."""
    if tokenizer is None:
        return [str(i) for i in ids]
    strings = []
    for i, raw_token in zip(ids, tokenizer.convert_ids_to_tokens(list(ids)), strict=True):
        text = tokenizer.decode([i])
        # SentencePiece marks the space before a word, but drops it when it decodes a single token.
        lacks_space = isinstance(raw_token, str) and raw_token.startswith("\u2581") and not text.startswith(" ")
        strings.append(f" {text}" if lacks_space else text)
    return strings


def _digest_of_ids(prompts: Sequence[Prompt]) -> str | None:
    """Returns the SHA-256 of the ids of all prompts as little-endian int32; None if a prompt has no ids."""
    if any(p.ids is None for p in prompts):
        return None
    return sha256(np.array([p.ids for p in prompts], "<i4").tobytes()).hexdigest()


def split_batch(inputs: Mapping[str, Any]) -> list[dict[str, Tensor]]:
    """Splits a batch into inputs with a batch of 1, and removes the tokens that the attention mask hides."""
    tensors = {
        name: torch.as_tensor(x) if isinstance(x, list | tuple | np.ndarray) else x for name, x in inputs.items()
    }
    tensors = {name: x for name, x in tensors.items() if isinstance(x, Tensor)}
    token_inputs = tensors.get("input_ids", tensors.get("inputs_embeds"))
    if not tensors:
        raise ValueError("texts: expected a mapping of model inputs to tensors, found no tensor")
    if token_inputs is not None and token_inputs.dim() < 2:
        raise ValueError(f"texts: expected inputs with a batch dimension, found a shape of {list(token_inputs.shape)}")
    B = len(token_inputs) if token_inputs is not None else len(next(iter(tensors.values())))
    if B == 0:
        raise ValueError("texts: expected a batch of 1 or more, found 0")
    mismatched = [name for name, x in tensors.items() if B > 1 and (x.dim() == 0 or len(x) != B)]
    if mismatched:
        raise ValueError(
            f"texts: expected {mismatched[0]} with a batch of {B} like the other inputs, found a shape of "
            f"{list(tensors[mismatched[0]].shape)}: pass one mapping for each prompt"
        )
    rows = [{name: x[b : b + 1] if B > 1 else x for name, x in tensors.items()} for b in range(B)]
    return [_cut_padding(row) for row in rows]


def _cut_padding(row: dict[str, Tensor]) -> dict[str, Tensor]:
    mask = row.get("attention_mask")
    if mask is None or mask.dim() != 2:
        return row
    T = mask.shape[1]
    visible_positions = mask[0].nonzero()[:, 0].tolist()
    if not visible_positions:
        raise ValueError("attention_mask: expected a token that is no padding in each prompt, found none")
    token_slice = slice(visible_positions[0], visible_positions[-1] + 1)
    if len(visible_positions) != token_slice.stop - token_slice.start:
        raise ValueError(
            "attention_mask: expected zeros at the two ends alone, found some between the tokens: they are not "
            "cut off; pass a prompt without them"
        )
    return {
        name: x[:, token_slice] if x.dim() >= 2 and x.shape[1] == T and not name.startswith(DECODER_INPUTS) else x
        for name, x in row.items()
        if name != "attention_mask"
    }


def _find_part(whole_model: nn.Module, part: str | None) -> nn.Module:
    if part is None:
        return whole_model
    for root in (whole_model, unwrap(whole_model)):
        try:
            return root.get_submodule(part)
        except AttributeError:
            pass
    names = [
        name
        for name, m in unwrap(whole_model).named_modules()
        if name and name.count(".") < 2 and any(n.rpartition(".")[2].isdigit() for n, _ in m.named_modules())
    ]
    raise ValueError(
        f"part: expected a part of {type(unwrap(whole_model)).__name__}, such as {', '.join(names[:6])}, found {part!r}"
    )


def find_device(model: nn.Module) -> torch.device:
    """Returns the device of the model's inputs. If accelerate offloads the model, its hook names the device."""
    for module in model.modules():
        device = getattr(getattr(module, "_hf_hook", None), "execution_device", None)
        if device is not None:
            return torch.device("cuda", device) if isinstance(device, int) else torch.device(device)
    parameter = next(model.parameters(), None)
    return torch.device("cpu") if parameter is None else parameter.device


def _refuse_foreign_tokens(model: nn.Module) -> None:
    """Refuses models that attend to tokens outside the prompt (prompt tuning, an encoder with its decoder), and
    suggests what to record instead."""
    name = type(unwrap(model)).__name__
    for module in model.modules():
        config = getattr(module, "active_peft_config", None)
        if getattr(config, "is_prompt_learning", False):
            raise UnsupportedModel(
                f"{name}: expected a model that reads its prompt alone, found "
                f"{getattr(config, 'num_virtual_tokens', 'some')} virtual tokens "
                f"({getattr(config.peft_type, 'value', config.peft_type)}); with prompt tuning, record "
                'model.get_base_model() on {"inputs_embeds": torch.cat([model.get_prompt(1), '
                "embeddings of the tokens], 1)}"
            )
    if _is_pair(model):
        raise UnsupportedModel(
            f"{name}: expected one stack of layers, found an encoder and a decoder; record one kind of attention at a "
            'time: part="encoder", part="decoder" or part="cross"'
        )


def _is_pair(model: nn.Module) -> bool:
    """Whether the model has an encoder and a decoder that attends to it."""
    names = {n.rpartition(".")[2] for n, _ in model.named_modules()}
    return bool(getattr(getattr(unwrap(model), "config", None), "is_encoder_decoder", False)) and all(
        any(n.endswith(end) for n in names) for end in ("encoder", "decoder")
    )


def _forward_parameters(model: nn.Module) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(model.forward).parameters


def _find_logits(out: Any, model: nn.Module) -> Tensor | None:
    """Returns the logits, [B, T, V], or None. For a model outside transformers, the output or its first element counts
    as logits if it is as wide as the vocabulary and the hidden states are not."""
    logits = getattr(out, "logits", None)
    if logits is None:
        embedding = next((m for m in model.modules() if isinstance(m, nn.Embedding)), None)
        logits = out[0] if isinstance(out, tuple | list) and out else out
        if (
            embedding is None
            or not isinstance(logits, Tensor)
            or logits.shape[-1] != embedding.num_embeddings
            or logits.shape[-1] == embedding.embedding_dim
        ):
            return None
    return logits if isinstance(logits, Tensor) and logits.dim() == 3 else None


def _digest_of_texts(prompts: Sequence[Prompt]) -> dict[str, str]:
    """Returns the SHA-256 of the texts, which does not depend on the tokenizer; empty if a prompt has no text."""
    if any(p.text is None for p in prompts):
        return {}
    return {"texts_sha256": sha256("\0".join(p.text or "" for p in prompts).encode()).hexdigest()}


def _sample_logits(out: Any) -> tuple[Tensor, int]:
    """Returns the model's outputs at evenly spaced positions in float32, [B, positions, V], and V."""
    usual_outputs = [getattr(out, name, None) for name in ("logits", "last_hidden_state")]
    values = list(out.values()) if isinstance(out, Mapping) else list(out) if isinstance(out, tuple | list) else [out]
    logits = next(
        (x for x in usual_outputs + values if isinstance(x, Tensor) and x.is_floating_point() and x.dim() >= 2), None
    )
    if logits is None:
        raise UnsupportedModel(f"expected a model that returns a tensor of numbers, found {type(out).__name__}")
    V = logits.shape[-1]
    if logits.dim() != 3:
        return logits.float(), V
    T = logits.shape[1]
    return logits[:, torch.linspace(0, T - 1, min(T, CHECKED_POSITIONS)).long().to(logits.device)].float(), V


def _compute_losses(logits: Tensor, ids: Tensor) -> dict[str, Array]:
    """Returns the losses and the accuracy of each prompt, [B, ...]. Converts only LOSS_ROWS positions at a time to
    float32, because logits are the model's widest tensor."""
    B, T = ids.shape
    chunks = [slice(t, t + LOSS_ROWS + 1) for t in range(0, T - 1, LOSS_ROWS)]
    loss, rank = (
        torch.cat([metric(logits[:, chunk].float(), ids[:, chunk]) for chunk in chunks], 1).cpu()
        for metric in (metrics.loss, metrics.rank)
    )
    return {
        "loss_at": torch.cat([loss.new_full((B, 1), torch.nan), loss], 1).numpy(),
        "loss_mean": loss.mean(1, keepdim=True).numpy(),
        "accuracy": metrics.accuracy(rank)[:, None].numpy(),
    }


def _is_out_of_memory(error: Exception) -> bool:
    message = str(error) if isinstance(error, RuntimeError) else ""
    return (
        isinstance(error, MemoryError | torch.OutOfMemoryError)
        or "out of memory" in message
        or "can't allocate memory" in message
    )


@contextmanager
def evaluation_mode(model: nn.Module) -> Iterator[None]:
    training_modules = [m for m in model.modules() if m.training]
    model.eval()
    try:
        yield
    finally:
        for module in training_modules:
            module.training = True
