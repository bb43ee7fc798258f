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
from .attention import Call, Chunk, UnsupportedModel, observe
from .recording import ROW_SUM, SEEN, Array, Means, Recording

POOLED = 128  # a pooled map has at most this many rows and columns
FIELDS = ("hidden_norm", "key_norm", "value_norm", "loss")
MORE_FIELDS = ("q", "k", "v", "hidden")
CHECKED = 64  # positions whose logits are compared with those of the untouched model
LOSS_ROWS = 256  # logits that are widened to float32 together

Inputs = Mapping[str, Tensor]


@dataclass(frozen=True)
class Prompt:
    """What the model reads, with a batch of 1, and how the tokens are written."""

    inputs: Inputs
    ids: list[int] | None
    tokens: list[str] | None


@dataclass(frozen=True)
class Settings:
    """What is measured and kept. `record` explains each."""

    tokens: int | None = 64
    eps: tuple[float, ...] = (0.1, 0.2, 0.3)
    keep: int = 2
    fields: tuple[str, ...] = FIELDS
    maps: str = "auto"
    first: int = 0
    mask: str | None = None
    tolerance: float = 1e-3

    def __post_init__(self) -> None:
        unknown = set(self.fields) - {*FIELDS, *MORE_FIELDS}
        if unknown:
            raise ValueError(f"fields: expected some of {', '.join(FIELDS + MORE_FIELDS)}, "
                             f"found {', '.join(sorted(unknown))}")
        if self.maps not in ("auto", "full", "pooled", "none"):
            raise ValueError(f"maps: expected auto, full, pooled or none, found {self.maps!r}")
        if self.mask not in (None, "causal", "prefix", "bidirectional"):
            raise ValueError(f"mask: expected causal, prefix or bidirectional, found {self.mask!r}")
        if self.tokens is not None and self.tokens < 2:
            raise ValueError(f"tokens: expected 2 or more, found {self.tokens}")
        if not self.eps:
            raise ValueError("eps: expected one number or more, found none")


@dataclass
class Facts:
    """What the first forward pass tells about a model."""

    T: int
    H: int
    G: int
    K: int
    kind: str  # causal, prefix or bidirectional
    prefix: int
    windows: list[int | None]  # of each layer
    seen: Tensor  # [L, T]: number of keys that a query sees
    sinks: bool  # a sink logit takes part in the softmax
    softcap: float | None
    blocks: list[nn.Module]  # the layers of the model, whose inputs are the residual stream
    from_weights: bool = False  # the model returned its weights; queries, keys and values are unknown

    @property
    def L(self) -> int:
        return len(self.windows)

    def sight(self, rows: slice, device: torch.device) -> Tensor:
        """What a query could see, bool [t, T]: a window narrows neither baselines nor pairs."""
        key = torch.arange(self.T, device=device)
        query = key[rows, None]
        if self.kind == "bidirectional":
            return torch.ones(query.shape[0], self.T, dtype=torch.bool, device=device)
        return (key <= query) | (key < self.prefix)


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
    batch: prompts of one forward pass. A batch that runs out of memory is repeated one by one.
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
            raise UnsupportedModel(f"{type(self.model).__name__}: expected one stack of layers, found an "
                                   "encoder and a decoder; record the encoder alone")

    # Prompts

    def prompts(self, texts: Iterable[Any]) -> list[Prompt]:
        """The prompts, cut to one length; those that are shorter are left out with a warning."""
        found = [self._prompt(text) for text in texts]
        lengths = [len(p.ids) for p in found if p.ids is not None]
        T = self.settings.tokens or min(lengths, default=0)
        fit = [p if p.ids is None else self._cut(p, T) for p in found
               if p.ids is None or len(p.ids) >= T]
        if len(fit) < len(found):
            warnings.warn(f"{len(found) - len(fit)} of {len(found)} texts have fewer than {T} tokens and are "
                          "left out", stacklevel=3)
        if not fit:
            raise ValueError(f"texts: expected one of {T} tokens or more, found none among {len(found)}")
        return fit

    def _prompt(self, text: Any) -> Prompt:
        if isinstance(text, Mapping):
            ids = text["input_ids"][0].tolist() if "input_ids" in text else None
            return Prompt({name: x for name, x in text.items() if isinstance(x, Tensor)}, ids, None)
        if isinstance(text, str):
            if self.tokenizer is None:
                raise ValueError("texts: expected token ids or model inputs without a tokenizer, found text")
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
        probe = _Probe(self.settings)
        with observe(self.model, probe.visit):
            found = _some_logits(self._forward(prompt.inputs))
        spread = expected.std().clamp_min(1e-12)
        off = ((found - expected).abs().max() / spread).item()
        if not off <= self.settings.tolerance:  # NaN is refused, too
            raise UnsupportedModel(
                f"{type(self.model).__name__}: expected the logits of the untouched model within "
                f"{self.settings.tolerance:g} of their deviation, found {off:.3g}")
        return probe.facts(self.model)

    def measure_all(self, prompts: Sequence[Prompt], batch: int = 1,
                    progress: bool = True) -> Iterator[Measured | None]:
        """One result for each prompt, in order; None where it ran out of memory."""
        if batch < 1:
            raise ValueError(f"batch: expected 1 or more, found {batch}")
        kept = 0
        bar = tqdm(total=len(prompts), unit="prompt", disable=not progress)
        for start in range(0, len(prompts), batch):
            some = list(prompts[start : start + batch])
            for one in self._measure_some(some, kept, progress):
                kept += bool(one and one.kept)
                bar.update()
                yield one
        bar.close()

    def _measure_some(self, prompts: list[Prompt], kept: int, progress: bool) -> list[Measured | None]:
        try:
            with _evaluating(self.model):
                if self.facts is None:
                    self.facts = self._check(prompts[0])
                return list(self._measure(prompts, self.settings.keep - kept))
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
                more = sum(bool(one and one.kept) for one in found)
                found += self._measure_some([prompt], kept + more, progress)
            return found
        warnings.warn("a prompt ran out of memory and is left out", stacklevel=2)
        return [None]

    def _measure(self, prompts: list[Prompt], keep: int) -> list[Measured]:
        facts, settings = self.facts, self.settings
        assert facts is not None
        inputs = {name: torch.cat([p.inputs[name] for p in prompts]) for name in prompts[0].inputs}
        keep = max(0, min(keep, len(prompts)))
        heads = _Heads(facts, settings, len(prompts), keep)
        stream = _Stream(facts, settings, keep)
        with stream.watch(), observe(self.model, heads.visit):
            out = self._forward(inputs)
        loss = None
        if facts.kind == "causal" and "input_ids" in inputs and getattr(out, "logits", None) is not None:
            loss = _loss(out.logits, inputs["input_ids"].to(out.logits.device))
        measured = []
        for b, prompt in enumerate(prompts):
            found = heads.metrics(b) | stream.metrics(b)
            if loss is not None:
                at = loss[b].cpu().numpy()
                found |= {"loss_at": np.concatenate([[np.float32(np.nan)], at]), "loss_mean": at.mean()[None]}
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
        head, body = _width(self.model), facts
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
    """What each token stands for, with its space; the number where there is no tokenizer."""
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


def _width(model: nn.Module) -> tuple[int, int]:
    """D and V; V is the number of outputs where there is no vocabulary."""
    config: Any = model.config
    config = config.get_text_config() if hasattr(config, "get_text_config") else config
    D = getattr(config, "hidden_size", None) or getattr(config, "n_embd", None) or config.d_model
    return int(D), int(getattr(config, "vocab_size", None) or getattr(config, "num_labels", 1))


def _some_logits(out: Any) -> Tensor:
    """What the model says at some positions, evenly spread: [B, positions, V] in float32."""
    found = getattr(out, "logits", None)
    if found is None:
        found = out.last_hidden_state
    if found.dim() == 2:
        return found.float()
    T = found.shape[1]
    return found[:, torch.linspace(0, T - 1, min(T, CHECKED)).long().to(found.device)].float()


def _loss(logits: Tensor, ids: Tensor) -> Tensor:
    """[B, T-1], a part of the positions at a time: logits are the widest thing that a model makes."""
    T = ids.shape[1]
    return torch.cat([metrics.loss(logits[:, t : t + LOSS_ROWS + 1].float(), ids[:, t : t + LOSS_ROWS + 1])
                      for t in range(0, T - 1, LOSS_ROWS)], 1)


def _is_out_of_memory(error: Exception) -> bool:
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or (
        isinstance(error, RuntimeError) and ("out of memory" in str(error) or "can't allocate" in str(error)))


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


class _Probe:
    """Looks at the calls of the first forward pass: their sizes, what each query sees, and whether the
    recomputed weights give the output of the model's own attention."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.calls: list[tuple[tuple[int, int, int], nn.Module]] = []  # H, G, K
        self.T = 0
        self.ranges: list[tuple[Tensor, Tensor, Tensor]] = []  # first and last visible key, their number
        self.sinks = self.weights = False
        self.softcap: float | None = None

    def visit(self, call: Call) -> None:
        B, H, T, S = call.shape
        if T != S:
            raise UnsupportedModel(f"layer {call.layer}: expected as many queries as keys, found {T} and {S}")
        if self.calls and T != self.T:
            raise UnsupportedModel(f"layer {call.layer}: expected {self.T} tokens as in layer 0, found {T}")
        K = 0 if call.query is None else call.query.shape[-1]
        self.calls.append(((H, call.G, K), call.module))
        self.T, self.sinks, self.softcap = T, self.sinks or call.sinks is not None, call.softcap
        self.weights = self.weights or call.weights is not None
        firsts, lasts, counts = [], [], []
        for chunk in call.chunks():
            self._compare(call, chunk)
            seen = chunk.visible[0, 0].cpu()
            firsts.append(seen.int().argmax(-1))
            lasts.append(T - 1 - seen.flip(-1).int().argmax(-1))
            counts.append(seen.sum(-1))
        self.ranges.append((torch.cat(firsts), torch.cat(lasts), torch.cat(counts)))

    def _compare(self, call: Call, chunk: Chunk) -> None:
        if call.value is None or call.out is None:
            return
        B, H, t, S = chunk.att.shape
        value = call.value.to(chunk.att.dtype)
        found = (chunk.att.reshape(B, call.G, -1, S) @ value).view(B, H, t, -1)
        expected = call.out[:, chunk.rows].transpose(1, 2)
        bits = torch.finfo(expected.dtype).eps
        off = ((found - expected).abs().max() / value.abs().max().clamp_min(1e-30)).item()
        allowed = max(1e-4, 8 * bits)
        if not off <= allowed:
            raise UnsupportedModel(
                f"{type(call.module).__name__}, layer {call.layer}: expected recomputed weights that give the "
                f"attention's output within {allowed:.2g} of its largest value, found {off:.3g}")

    def facts(self, model: nn.Module) -> Facts:
        if not self.calls:
            raise UnsupportedModel(f"{type(model).__name__}: expected calls of attention, found none")
        sizes = {size for size, _ in self.calls}
        if len(sizes) > 1:
            raise UnsupportedModel(f"{type(model).__name__}: expected the same heads in every layer, found "
                                   f"(H, G, K) = {', '.join(map(str, sorted(sizes)))}")
        (H, G, K), T = next(iter(sizes)), self.T
        kind, prefix = self._kind()
        windows = [_window(first, last, kind) for first, last, _ in self.ranges]
        if K == 0:
            config: Any = model.config
            D, heads = _width(model)[0], H
            K = getattr(config, "head_dim", None) or D // heads
        return Facts(T, H, G, int(K), kind, prefix, windows, torch.stack([n for _, _, n in self.ranges]),
                     self.sinks, self.softcap, _blocks(model, [module for _, module in self.calls]),
                     self.weights)

    def _kind(self) -> tuple[str, int]:
        t = torch.arange(self.T)
        ahead = [last for _, last, _ in self.ranges if (last > t).any()]
        prefix = int(ahead[0][0]) + 1 if ahead else 0
        kind = "causal"
        if ahead:
            is_prefix = all(torch.equal(last, t.clamp_min(prefix - 1)) for last in ahead)
            kind = "prefix" if is_prefix and prefix < self.T else "bidirectional"
        kind = self.settings.mask or kind
        return kind, prefix if kind == "prefix" else 0


def _window(first: Tensor, last: Tensor, kind: str) -> int | None:
    """The number of keys that a windowed layer sees; None where no query lacks a key before it."""
    t = torch.arange(len(first))
    if kind == "bidirectional":
        reach = torch.maximum(t - first, last - t).max().item()
        limited = (first > 0).any() or (last < len(t) - 1).any()
        return int(reach) * 2 + 1 if limited else None
    return int((t - first).max()) + 1 if (first > 0).any() else None


def _blocks(model: nn.Module, attention: Sequence[nn.Module]) -> list[nn.Module]:
    """The layer that each attention module belongs to: what a numbered list of modules holds."""
    names = {module: name for name, module in model.named_modules()}
    blocks = []
    for module in attention:
        parts = names.get(module, "").split(".")
        numbers = [i for i, part in enumerate(parts) if part.isdigit()]
        if not numbers:
            return []
        blocks.append(model.get_submodule(".".join(parts[: numbers[-1] + 1])))
    return blocks


class _Heads:
    """Gathers the metrics of heads from the calls of one forward pass."""

    def __init__(self, facts: Facts, settings: Settings, batch: int, keep: int) -> None:
        self.facts, self.settings, self.keep = facts, settings, keep
        self.layers: list[dict[str, Tensor]] = []  # of each layer, [B, ...]
        self.store: dict[str, list[Tensor]] = {}  # what is kept of the first `keep` prompts, layer by layer
        maps, T = settings.maps, facts.T
        if maps == "auto":
            maps = "full" if T <= POOLED else "pooled"
        self.maps = maps if keep else "none"
        self.block = -(-T // POOLED)  # queries, and keys, of a pooled cell
        self.P = -(-T // self.block)

    def visit(self, call: Call) -> None:
        facts, device = self.facts, call.device
        B, H, T, _ = call.shape
        if T != facts.T:
            raise UnsupportedModel(f"layer {call.layer}: expected {facts.T} tokens, found {T}")
        # Sums over queries are in float64 where the device has it.
        exact = torch.float32 if device.type == "mps" else torch.float64
        sums: dict[str, Tensor] = {}
        parts: dict[str, list[Tensor]] = {}

        def add(name: str, x: Tensor) -> None:
            sums[name] = sums[name] + x if name in sums else x.to(exact)

        norms = None if call.value is None else call.value.float().norm(dim=-1)
        lengths = None if norms is None else norms.repeat_interleave(H // call.G, 1)
        keep_map = self._map(B, H, device)
        for chunk in call.chunks():
            att, sight = chunk.att, facts.sight(chunk.rows, device)
            share = metrics.part_of_row(att) if facts.sinks else att
            add("alpha", metrics.alpha(share, facts.kind))
            if facts.sinks:
                add("alpha_raw", metrics.alpha(att, facts.kind))
                assert chunk.sink is not None
                parts.setdefault("att_bias", []).append(chunk.sink)
            parts.setdefault(ROW_SUM, []).append(metrics.row_mass(att))
            parts.setdefault("entropy", []).append(metrics.entropy(share, chunk.visible.sum(-1)))
            if lengths is not None:
                add("contribution_at", metrics.contributions(att, lengths, sight, facts.kind))
            if call.query is not None and call.key is not None:
                q = call.query[:, :, chunk.rows].float()
                cos = metrics.cosines(q.reshape(B, call.G, -1, q.shape[-1]), call.key.float())
                first, others = metrics.cosine_sums(cos.view_as(att), sight, self.settings.first)
                add("cos_first", first)
                add("cos_others", others)
            if keep_map is not None:
                self._keep_rows(keep_map, chunk)
        found = {name: x.float() for name, x in sums.items()}
        found |= {name: torch.cat(x, -1) for name, x in parts.items()}
        if norms is not None:
            found["value_norm"] = norms
        if call.key is not None:
            found["key_norm"] = call.key.float().norm(dim=-1)
        self.layers.append({name: x.cpu() for name, x in found.items()})
        self._keep_fields(call, keep_map)

    # Maps

    def _map(self, B: int, H: int, device: torch.device) -> dict[str, Tensor] | None:
        if self.maps == "none":
            return None
        if self.maps == "full":
            return {"att": torch.empty(self.keep, H, self.facts.T, self.facts.T, dtype=torch.float16)}
        cells = self.P, self.P
        return {"sum": torch.zeros(self.keep, H, *cells, device=device),
                "count": torch.zeros(cells, device=device)}

    def _keep_rows(self, maps: dict[str, Tensor], chunk: Chunk) -> None:
        att = chunk.att[: self.keep]
        if self.maps == "full":
            maps["att"][:, :, chunk.rows] = att.to(torch.float16).cpu()
            return
        row = torch.arange(chunk.rows.start, chunk.rows.stop, device=att.device) // self.block
        maps["sum"].index_add_(2, row, self._columns(att.float()))
        maps["count"].index_add_(0, row, self._columns(chunk.visible[0, 0].float()))

    def _columns(self, x: Tensor) -> Tensor:
        """Sums of the columns of each cell.  [..., T] -> [..., P]"""
        x = nn.functional.pad(x, (0, self.P * self.block - x.shape[-1]))
        return x.unflatten(-1, (self.P, self.block)).sum(-1)

    def _keep_fields(self, call: Call, maps: dict[str, Tensor] | None) -> None:
        if self.keep == 0:
            return
        if maps is not None and self.maps == "full":
            self.store.setdefault("att", []).append(maps["att"])
        elif maps is not None:
            cells = (maps["sum"] / maps["count"].clamp_min(1)).cpu()
            scale = cells.amax((-2, -1))
            rounded = (cells / scale.clamp_min(1e-30)[..., None, None] * 255).round().to(torch.uint8)
            self.store.setdefault("att_pooled", []).append(rounded)
            self.store.setdefault("att_scale", []).append(scale)
        for name, x in (("q", call.query), ("k", call.key), ("v", call.value)):
            if name in self.settings.fields and x is not None:
                self.store.setdefault(name, []).append(x[: self.keep].float().cpu())

    # Results

    def _all(self, name: str, b: int) -> Array | None:
        if name not in self.layers[0]:
            return None
        return torch.stack([layer[name][b] for layer in self.layers]).float().numpy()

    def metrics(self, b: int) -> dict[str, Array]:
        """The averaged metrics of prompt b."""
        facts, at = self.facts, self.settings.first
        found = {name: x for name in ("alpha", "alpha_raw", ROW_SUM, "entropy", "contribution_at",
                                      "key_norm", "value_norm")
                 if (x := self._all(name, b)) is not None}
        for raw in ("", "_raw"):
            if f"alpha{raw}" in found:
                alphas = torch.from_numpy(found[f"alpha{raw}"])
                found[f"sink_ratio{raw}"] = np.stack(
                    [metrics.sink(alphas, e).numpy() / np.float32(100) for e in self.settings.eps])
        alphas = torch.from_numpy(found["alpha"])
        found["near_eps"] = np.stack([metrics.near(alphas, e).float().numpy() for e in self.settings.eps])
        sums = found[ROW_SUM]
        found[f"{ROW_SUM}_summary"] = np.stack([sums.mean(-1), sums.min(-1), sums.max(-1)], -1)
        found["entropy_mean"] = found["entropy"].mean(-1)
        # The share that the first token receives from all queries, those before it included.
        found["first_share"] = found["alpha"][..., at] * np.float32(self._queries(at) / facts.T)
        if "contribution_at" in found:
            found["contribution"] = found["contribution_at"][..., at]
        if (first := self._all("cos_first", b)) is not None:
            others = self._all("cos_others", b)
            pairs = facts.sight(slice(0, facts.T), torch.device("cpu"))
            pairs[:, at] = False
            found["cos_gap"] = first / facts.T - others / np.float32(pairs.sum().item())
        for name in ("key", "value"):
            if f"{name}_norm" in found:
                norms = torch.from_numpy(found[f"{name}_norm"])
                found[f"{name}_ratio"] = metrics.norm_ratio(norms, at).numpy()
        return found

    def _queries(self, k: int) -> int:
        return self.facts.T if self.facts.kind == "bidirectional" else self.facts.T - k

    def kept(self, b: int, ids: list[int] | None) -> dict[str, Array]:
        """The fields of prompt b that are kept."""
        facts = self.facts
        found = {name: torch.stack([layer[b] for layer in x]).numpy() for name, x in self.store.items()}
        if ids is not None:
            found["tokens"] = np.array(ids, np.int32)
        for name in ("alpha", "alpha_raw", ROW_SUM, "att_bias"):
            if (x := self._all(name, b)) is not None:
                found[name] = x
        if facts.kind != "causal" and any(facts.windows):
            seen = facts.seen[:, None].expand(-1, facts.H, -1)
            found[SEEN] = seen.float().contiguous().numpy()
        for name in ("key_norm", "value_norm"):
            if name in self.settings.fields and (x := self._all(name, b)) is not None:
                found[name] = x
        return found


class _Stream:
    """Gathers the metrics of the residual stream: the input of each layer, and the output of the last,
    which stands before the final norm."""

    def __init__(self, facts: Facts, settings: Settings, keep: int) -> None:
        self.facts, self.settings, self.keep = facts, settings, keep
        self.states: list[dict[str, Tensor]] = []
        self.store: list[Tensor] = []

    @contextmanager
    def watch(self) -> Iterator[None]:
        blocks = list(dict.fromkeys(self.facts.blocks))
        hooks = [block.register_forward_pre_hook(self._before, with_kwargs=True) for block in blocks]
        if blocks:
            hooks.append(blocks[-1].register_forward_hook(self._after))
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def _before(self, _: nn.Module, args: Any, kwargs: Any) -> None:
        hidden = args[0] if args else kwargs.get("hidden_states")
        if len(self.states) < self.facts.L:
            self._take(hidden)

    def _after(self, _: nn.Module, args: Any, out: Any) -> None:
        if len(self.states) == self.facts.L:
            self._take(out[0] if isinstance(out, tuple) else out)

    def _take(self, hidden: Any) -> None:
        if not isinstance(hidden, Tensor) or hidden.dim() != 3 or hidden.shape[1] != self.facts.T:
            return
        h = hidden.detach().float()
        norms = h.norm(dim=-1)
        found = {"hidden_norm": norms, "hidden_ratio": metrics.norm_ratio(norms, self.settings.first),
                 "massive": metrics.largest(h), "mixing": metrics.mixing(h),
                 "kurtosis": metrics.kurtosis(h)}
        self.states.append({name: x.cpu() for name, x in found.items()})
        if self.keep and "hidden" in self.settings.fields:
            self.store.append(h[: self.keep].cpu())

    @property
    def _whole(self) -> bool:
        return len(self.states) == self.facts.L + 1

    def metrics(self, b: int) -> dict[str, Array]:
        if not self._whole:
            return {}
        return {name: torch.stack([state[name][b] for state in self.states]).numpy()
                for name in self.states[0]}

    def kept(self, b: int, found: Mapping[str, Array]) -> dict[str, Array]:
        kept = {}
        if self._whole and "hidden_norm" in self.settings.fields:
            kept["hidden_norm"] = found["hidden_norm"]
        if self._whole and self.store:
            kept["hidden"] = torch.stack([h[b] for h in self.store]).numpy()
        return kept
