"""Runs prompts through a model and measures what its attention does, without keeping maps.

`record` makes a `Recording`. `Recorder` is the part of it that belongs to one model; `study` uses it on
many models, and on many machines.
"""

import gc
import inspect
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from importlib.metadata import version
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from tqdm.auto import tqdm

from . import __version__, metrics
from .attention import UnsupportedModel, observe
from .gather import Heads, Stream
from .probe import Facts, Probe, width
from .recording import Array, Means, Recording
from .settings import FIELDS, Settings

CHECKED = 64  # positions whose logits are compared with those of the untouched model
LOSS_ROWS = 256  # logits that are widened to float32 together

Inputs = Mapping[str, Tensor]


@dataclass(frozen=True)
class Prompt:
    """What the model reads, with a batch of 1, and how the tokens are written."""

    inputs: Inputs
    ids: list[int] | None
    tokens: list[str] | None


@dataclass
class Measured:
    """The averaged metrics of one prompt, and what is kept of it."""

    metrics: dict[str, Array]
    kept: dict[str, Array] = field(default_factory=dict)
    tokens: list[str] = field(default_factory=list)
    first_id: int | None = None


def record(model: nn.Module, tokenizer: Any, texts: Iterable[Any], tokens: int | None = 64,
           eps: Sequence[float] = (0.1, 0.2, 0.3), keep: int = 2, *,
           fields: Sequence[str] = FIELDS, maps: str = "auto", first: int = 0,
           mask: str | None = None, batch: int = 1, tolerance: float = 1e-3,
           model_id: str | None = None, revision: str | None = None, file_sha256: str | None = None,
           source: str = "texts", licence: str | None = None, command: str | None = None,
           progress: bool = True) -> Recording:
    """Runs each of `texts` through `model` and measures its attention.

    texts: strings, lists of token ids, or mappings of model inputs with a batch of 1 (`pixel_values`).
    tokens: the length T that every prompt is cut to; shorter ones are left out. None: the shortest.
    eps: the thresholds of Sink_k^eps.
    keep: so many prompts are kept with maps and `fields` (hidden_norm, key_norm, value_norm, loss;
        q, k, v, hidden are larger).
    maps: "full" float16 maps [L, H, T, T]; "pooled" to at most 128 x 128 bytes; "auto": full up to
        T = 128; "none".
    first: the position that counts as the first token (0; a register or a class token elsewhere).
    mask: causal, prefix or bidirectional decides how many queries see a key; None looks at the model.
    batch: prompts of one forward pass. A batch that runs out of memory is repeated prompt by prompt.
    tolerance: largest difference of the first prompt's logits from those of the untouched model, as a
        part of their standard deviation.

    Raises UnsupportedModel where the attention cannot be observed, or observing it changes the logits,
    or the recomputed weights do not give the output of the model's own attention.
    """
    settings = Settings(tokens, tuple(float(e) for e in eps), keep, tuple(fields), maps, first, mask,
                        tolerance)
    recorder = Recorder(model, tokenizer, settings)
    prompts = recorder.prompts(texts)
    assembly = Assembly(settings.eps, settings.first)
    for one in recorder.measure_all(prompts, batch, progress):
        assembly.add(one)
    return assembly.recording(recorder.conditions(prompts, source, model_id, revision, file_sha256,
                                                  licence, command))


class Assembly:
    """Makes a recording of prompts that are added in their order."""

    def __init__(self, eps: Sequence[float], first: int = 0) -> None:
        self.eps, self.first = eps, first
        self.means = Means()
        self.kept: list[Measured] = []
        self.firsts: dict[int | None, None] = {}
        self.rows: dict[str, list[Any]] = {"sink_1": [], "alpha_1": [], "loss": [], "failed": []}

    def add(self, one: Measured | None) -> None:
        """None is a prompt that failed: its row is NaN."""
        nan = np.float32(np.nan)
        found = one.metrics if one else {}
        row = {"failed": np.uint8(one is None),
               "sink_1": found["sink_ratio"][:, self.first] if one else np.full(len(self.eps), nan),
               "alpha_1": found["alpha"][..., self.first].mean() if one else nan,
               "loss": found["loss_mean"][0] if "loss_mean" in found else nan}
        for name, value in row.items():
            self.rows[name].append(value)
        if one is not None:
            self.means.add(found)
            self.firsts[one.first_id] = None
            if one.kept:
                self.kept.append(one)

    def recording(self, conditions: dict[str, Any]) -> Recording:
        if self.means.count == 0:
            raise RuntimeError("every prompt failed: see the warnings")
        tensors = {f"{i}.{name}": x for i, one in enumerate(self.kept) for name, x in one.kept.items()}
        tensors |= self.means.tensors()
        tensors |= {f"prompt.{name}": np.stack(x) for name, x in self.rows.items()}
        first = conditions["first"]
        if len(self.firsts) > 1:  # the prompts begin with different tokens
            first = first | {"token": None, "id": None}
        counts = {"count": len(self.rows["failed"]), "kept": len(self.kept)}
        return Recording(conditions | {"first": first, "tokens": [one.tokens for one in self.kept],
                                       "prompts": conditions["prompts"] | counts}, tensors)


class Recorder:
    """Measures prompts with one model. The first prompt that fits into memory is checked."""

    def __init__(self, model: nn.Module, tokenizer: Any, settings: Settings) -> None:
        self.model = getattr(model, "_orig_mod", model)
        self.tokenizer, self.settings = tokenizer, settings
        self.facts: Facts | None = None
        self.device = next(self.model.parameters()).device
        self.accepts = inspect.signature(self.model.forward).parameters
        config = getattr(self.model, "config", None)
        self.config: Any = config.get_text_config() if hasattr(config, "get_text_config") else config
        if getattr(config, "is_encoder_decoder", False):
            raise UnsupportedModel(f"{type(self.model).__name__}: expected one stack of layers, found "
                                   "an encoder and a decoder; record the encoder alone")

    # Prompts

    def prompt(self, text: Any) -> Prompt | None:
        """One prompt, cut to the length of the settings; None where it is shorter."""
        found = self._prompt(text)
        if found.ids is None or self.settings.tokens is None:
            return found
        T = self.settings.tokens
        return self._cut(found, T) if len(found.ids) >= T else None

    def prompts(self, texts: Iterable[Any]) -> list[Prompt]:
        """The prompts, cut to one length; those that are shorter are left out with a warning."""
        found = [self._prompt(text) for text in texts]
        lengths = [len(p.ids) for p in found if p.ids is not None]
        T = self.settings.tokens or min(lengths, default=0)
        fit = [p if p.ids is None else self._cut(p, T) for p in found
               if p.ids is None or len(p.ids) >= T]
        if len(fit) < len(found):
            warnings.warn(f"{len(found) - len(fit)} of {len(found)} texts have fewer than {T} tokens "
                          "and are left out", stacklevel=3)
        if not fit:
            raise ValueError(f"texts: expected one of {T} tokens or more, found none among {len(found)}")
        return fit

    def _prompt(self, text: Any) -> Prompt:
        if isinstance(text, Mapping):
            ids = text["input_ids"][0].tolist() if "input_ids" in text else None
            return Prompt({name: x for name, x in text.items() if isinstance(x, Tensor)}, ids, None)
        if isinstance(text, str):
            if self.tokenizer is None:
                raise ValueError("texts: expected token ids or model inputs where there is no "
                                 "tokenizer, found text")
            # A tokenizer that ends a text with a separator keeps it; all others are cut behind.
            ends = getattr(self.tokenizer, "sep_token_id", None) is not None and self.settings.tokens
            text = self.tokenizer(text, **({"truncation": True, "max_length": self.settings.tokens}
                                           if ends else {})).input_ids
        ids = [int(i) for i in text]
        return Prompt({"input_ids": torch.tensor([ids])}, ids, None)

    def _cut(self, prompt: Prompt, T: int) -> Prompt:
        ids = prompt.ids
        assert ids is not None
        inputs = {name: x[:, :T] if x.dim() == 2 and x.shape[1] == len(ids) else x
                  for name, x in prompt.inputs.items()}
        return Prompt(inputs, ids[:T], token_strings(self.tokenizer, ids[:T]))

    # Forward passes

    def _forward(self, inputs: Inputs) -> Any:
        extra = {"use_cache": False} if "use_cache" in self.accepts else {}
        with torch.no_grad():
            return self.model(**{name: x.to(self.device) for name, x in inputs.items()}, **extra)

    def _check(self, prompt: Prompt) -> Facts:
        """Compares the first prompt with the untouched model, and looks at every layer."""
        with torch.compiler.set_stance("force_eager"):
            expected = _some_logits(self._forward(prompt.inputs))
        probe = Probe(self.settings)
        with observe(self.model, probe.visit):
            found = _some_logits(self._forward(prompt.inputs))
        spread = expected.std().clamp_min(1e-12)
        off = ((found - expected).abs().max() / spread).item()
        if not off <= self.settings.tolerance:  # NaN is refused, too
            raise UnsupportedModel(
                f"{type(self.model).__name__}: expected the logits of the untouched model within "
                f"{self.settings.tolerance:g} of their deviation, found {off:.3g}")
        return probe.facts(self.model)

    def measure_all(self, prompts: Sequence[Prompt], batch: int = 1, progress: bool = True,
                    keep: int | None = None) -> Iterator[Measured | None]:
        """One result for each prompt, in order; None where it ran out of memory."""
        keep = self.settings.keep if keep is None else keep
        if batch < 1:
            raise ValueError(f"batch: expected 1 or more, found {batch}")
        bar = tqdm(total=len(prompts), unit="prompt", disable=not progress)
        for start in range(0, len(prompts), batch):
            some = list(prompts[start : start + batch])
            for one in self._measure_some(some, keep):
                keep -= bool(one and one.kept)
                bar.update()
                yield one
        bar.close()

    def _measure_some(self, prompts: list[Prompt], keep: int) -> list[Measured | None]:
        try:
            with _evaluating(self.model):
                if self.facts is None:
                    self.facts = self._check(prompts[0])
                return list(self._measure(prompts, keep))
        except Exception as error:
            if not _is_out_of_memory(error):
                raise
        # Outside of `except`: what the failed pass held is free by now.
        gc.collect()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
        if len(prompts) > 1:
            found: list[Measured | None] = []
            for prompt in prompts:
                taken = sum(bool(one and one.kept) for one in found)
                found += self._measure_some([prompt], keep - taken)
            return found
        warnings.warn("a prompt ran out of memory and is left out", stacklevel=2)
        return [None]

    def _measure(self, prompts: list[Prompt], keep: int) -> list[Measured]:
        facts, settings = self.facts, self.settings
        assert facts is not None
        inputs = {name: torch.cat([p.inputs[name] for p in prompts]) for name in prompts[0].inputs}
        keep = max(0, min(keep, len(prompts)))
        heads = Heads(facts, settings, len(prompts), keep)
        stream = Stream(facts, settings, keep)
        with stream.watch(), observe(self.model, heads.visit):
            out = self._forward(inputs)
        loss = rank = None
        if facts.kind == "causal" and "input_ids" in inputs and getattr(out, "logits", None) is not None:
            loss, rank = _predicted(out.logits, inputs["input_ids"].to(out.logits.device))
        measured = []
        for b, prompt in enumerate(prompts):
            found = heads.metrics(b) | stream.metrics(b)
            if loss is not None and rank is not None:
                at = loss[b].cpu().numpy()
                found |= {"loss_at": np.concatenate([[np.float32(np.nan)], at]),
                          "loss_mean": at.mean()[None],
                          "accuracy": metrics.accuracy(rank[b].cpu()).numpy()[None]}
            kept: dict[str, Array] = {}
            if b < keep:
                kept = heads.kept(b, prompt.ids) | stream.kept(b, found)
                if loss is not None and "loss" in settings.fields:
                    kept["loss"] = found["loss_at"][1:]
            first = prompt.ids[settings.first] if prompt.ids else None
            measured.append(Measured(found, kept, prompt.tokens or _numbered(facts.T), first))
        return measured

    # What a reader must know

    def conditions(self, prompts: Sequence[Prompt], source: str, model_id: str | None = None,
                   revision: str | None = None, file_sha256: str | None = None,
                   licence: str | None = None, command: str | None = None) -> dict[str, Any]:
        """The JSON of a recording, but for what the prompts decide. Known after the first prompt."""
        facts, config, settings = self.facts, self.config, self.settings
        if facts is None:
            raise RuntimeError("every prompt failed: see the warnings")
        head, body = width(self.model), facts
        windows = set(facts.windows)
        mask: dict[str, Any] = {"kind": facts.kind}
        if facts.kind == "prefix":
            mask["prefix"] = facts.prefix
        if facts.kind == "causal" and len(windows) == 1 and None not in windows:
            mask = {"kind": "window", "window": facts.windows[0]}
        model = {
            "id": model_id or getattr(config, "_name_or_path", "") or type(self.model).__name__,
            "revision": revision or getattr(config, "_commit_hash", None), "sha256": file_sha256,
            "family": getattr(config, "model_type", type(self.model).__name__),
            "L": body.L, "H": body.H, "G": body.G, "K": body.K, "D": head[0], "V": head[1],
            "dtype": str(next(self.model.parameters()).dtype).removeprefix("torch."),
            "attention": getattr(self.model.config, "_attn_implementation", None) or "eager",
            "operation": "sink_logit" if facts.sinks else "softmax", "mask": mask,
        }
        if facts.kind == "causal" and len(windows) > 1:
            model["windows"] = facts.windows
        if facts.softcap is not None:
            model["softcap"] = facts.softcap
        ids = prompts[0].ids
        first = ids[settings.first] if ids else None
        token = token_strings(self.tokenizer, [first])[0] if first is not None else None
        return {
            "model": model,
            "first": {"token": token, "id": first, "position": settings.first},
            "tokens": [],
            "prompts": {"source": source, "sha256": _digest(prompts), "count": len(prompts), "kept": 0,
                        "T": facts.T},
            "eps": list(settings.eps), "class": "MEASURED", "licence": licence,
            "versions": {"sinkscope": __version__} | {name: version(name)
                                                      for name in ("torch", "transformers")},
            "command": command,
        }


def token_strings(tokenizer: Any, ids: Sequence[int]) -> list[str]:
    """The text of each token, with its space; the number where there is no tokenizer."""
    if tokenizer is None:
        return [str(i) for i in ids]
    strings = []
    for i, raw in zip(ids, tokenizer.convert_ids_to_tokens(list(ids)), strict=True):
        text = tokenizer.decode([i])
        # SentencePiece writes a space before a word, which decoding one token alone drops.
        lost = isinstance(raw, str) and raw.startswith("\u2581") and not text.startswith(" ")
        strings.append(f" {text}" if lost else text)
    return strings


def _numbered(T: int) -> list[str]:
    return [str(t) for t in range(T)]


def _digest(prompts: Sequence[Prompt]) -> str | None:
    """SHA-256 of the ids of all prompts as little-endian int32; None for other inputs."""
    if any(p.ids is None for p in prompts):
        return None
    return sha256(np.array([p.ids for p in prompts], "<i4").tobytes()).hexdigest()


def _some_logits(out: Any) -> Tensor:
    """What the model says at some positions, evenly spread: [B, positions, V] in float32."""
    found = getattr(out, "logits", None)
    if found is None:
        found = out.last_hidden_state
    if found.dim() == 2:
        return found.float()
    T = found.shape[1]
    return found[:, torch.linspace(0, T - 1, min(T, CHECKED)).long().to(found.device)].float()


def _predicted(logits: Tensor, ids: Tensor) -> tuple[Tensor, Tensor]:
    """Loss and rank of each token, [B, T-1], a part of the positions at a time: logits are the widest
    thing that a model makes."""
    T = ids.shape[1]
    parts = [slice(t, t + LOSS_ROWS + 1) for t in range(0, T - 1, LOSS_ROWS)]
    found = [[of(logits[:, part].float(), ids[:, part]) for part in parts]
             for of in (metrics.loss, metrics.rank)]
    return torch.cat(found[0], 1), torch.cat(found[1], 1)


def _is_out_of_memory(error: Exception) -> bool:
    said = str(error) if isinstance(error, RuntimeError) else ""
    return (isinstance(error, MemoryError | torch.OutOfMemoryError) or "out of memory" in said
            or "can't allocate memory" in said)


@contextmanager
def _evaluating(model: nn.Module) -> Iterator[None]:
    """Without dropout; each module is put back into the mode that it had."""
    training = [m for m in model.modules() if m.training]
    model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True
