"""Makes recordings of attention maps that another program computed, such as nanoGPT, JAX, TransformerLens or
nnsight, or that a file holds."""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from . import __version__
from .attention import Call
from .gather import HeadMetrics, stream_metrics
from .probe import ROW_SUM_ROUNDING, Facts, key_ranges, mask_of_ranges, mask_ranges_of_weights, window_of
from .recorder import Assembly, Measurement, make_conditions, parse_edits, with_edits
from .recording import Array, Recording
from .schema import operation_names
from .settings import FIELDS, Settings
from .summary import SIGNED_OPERATIONS

VECTORS = ("q", "k", "v")


def record_maps(
    maps: Iterable[Any],
    tokens: Iterable[Sequence[Any]],
    eps: Sequence[float] = (0.1, 0.2, 0.3),
    keep: int = 2,
    *,
    q: Iterable[Any] | None = None,
    k: Iterable[Any] | None = None,
    v: Iterable[Any] | None = None,
    hidden: Iterable[Any] | None = None,
    first: int = 0,
    mask: str | None = None,
    operation: str = "softmax",
    layers: Sequence[int] | None = None,
    blocks: int | None = None,
    model_id: str = "maps",
    source: str = "maps",
    edits: Sequence[Mapping[str, Any] | str] = (),
    license: str | None = None,
    command: str | None = None,
    _known_facts: "KnownFacts | None" = None,
) -> Recording:
    """Makes a recording of the attention maps of many prompts, with the metrics that `record` gives.

    maps: for each prompt [L, H, T, T], or an iterable of its layers, each [H, T, T] or [1, H, T, T]. One layer
        is read at a time. Each is an array, a tensor, or an object with `.value` (a proxy of nnsight).
    tokens: for each prompt its T token strings or ids.
    q, k, v: for each prompt its layers, [H or G, T, K]. Norms, ratios, contributions and the cosine gap need them.
    hidden: for each prompt [blocks + 1, T, D], the input of each layer and the output of the last.
    mask: causal, prefix or bidirectional. By default it is causal if no query of the first prompt has weight on a
        later key. A window is found if all queries have weight on the same number of keys.
    operation: the attention operation that made the weights. Rows of softmax must sum to 1. Rows of other operations
        need not: alpha is then computed from their shares, and raw alpha and the row sums are recorded as well.
    layers, blocks: the model's own numbers of the given layers, and how many layers the model has.
    edits: descriptions, or mappings with a `label`, of what was changed during the runs. The recording is then of
        class EDITED.

    The other arguments are those of `record`.
    """
    settings = Settings.from_arguments(None, eps, keep, FIELDS, "auto", first, mask)
    _check_operation(operation)
    _refuse_outputs(maps)
    assembly = Assembly(settings.eps, settings.first)
    given = zip((*VECTORS, "hidden"), (q, k, v, hidden), strict=True)
    vectors = {name: iter(x) for name, x in given if x is not None}
    facts, layer_masks, D, V = None, [], 0, 1
    for i, (layer_maps, prompt_tokens, prompt_vectors) in enumerate(_prompts_of(maps, tokens, vectors)):
        calls = list(_read_calls(layer_maps, prompt_vectors, f"maps[{i}]"))
        if facts is None:
            facts = _infer_facts(calls, settings, operation, layers, blocks, _known_facts)
            facts, layer_masks = _with_ranges(facts, calls, _known_facts)
        ids, token_texts = _parse_tokens(prompt_tokens, facts.T, i)
        is_kept = i < keep
        heads = _measure_heads(calls, layer_masks, facts, settings, operation, is_kept)
        results = {name: x[0] for name, x in heads.metrics().items()}
        kept_fields = heads.kept_fields(0, ids) if is_kept else {}
        if "hidden" in prompt_vectors:
            D, state_metrics = _measure_states(prompt_vectors["hidden"], facts, settings)
            results |= state_metrics
            kept_fields |= {"hidden_norm": results["hidden_norm"]} if is_kept else {}
        V = max([V, *(1 + i for i in ids or ())])
        assembly.add(Measurement(results, kept_fields, token_texts, ids[settings.first] if ids else None))
    if facts is None:
        raise ValueError("maps: expected those of one prompt or more, found none")
    conditions = make_conditions(
        facts,
        settings,
        id=model_id,
        family="maps",
        D=D or (_known_facts and _known_facts.D) or facts.H * facts.K,
        V=max(V, _known_facts.V if _known_facts else 1),
        first_token=assembly.kept[0].tokens[settings.first] if assembly.kept else None,
        first_id=assembly.first_id,
        prompts={"source": source, "sha256": None, "count": 0, "kept": 0, "T": facts.T},
        license=license,
        versions={"sinkscope": __version__},
        command=command,
    )
    return assembly.recording(with_edits(conditions, parse_edits(edits)))


def _check_operation(operation: str) -> None:
    if operation not in operation_names():
        raise ValueError(f"operation: expected one of {', '.join(operation_names())}, found {operation!r}")


def _prompts_of(
    maps: Iterable[Any], tokens: Iterable[Sequence[Any]], vectors: Mapping[str, Iterator[Any]]
) -> Iterator[tuple[Any, Sequence[Any], dict[str, Any]]]:
    """Yields the maps, the tokens and the vectors of each prompt."""
    count, prompts = 0, iter(tokens if isinstance(tokens, Iterator) else to_list(tokens, "tokens"))
    for count, layer_maps in enumerate(maps, 1):
        of_prompt = {"tokens": next(prompts, None)} | {name: next(x, None) for name, x in vectors.items()}
        for name, x in of_prompt.items():
            if x is None:
                advice = "; of one prompt pass [maps]" if count == 2 else ""
                raise ValueError(f"{name}: expected those of each prompt of maps, found {count - 1}{advice}")
        prompt_tokens = of_prompt.pop("tokens")
        yield layer_maps, prompt_tokens, of_prompt
    if count and next(prompts, None) is not None:
        raise ValueError("tokens: expected as many prompts as maps, found more")


def _with_ranges(facts: Facts, calls: Sequence[Call], known_facts: "KnownFacts | None") -> tuple[Facts, list[Tensor]]:
    """Adds the keys that each layer's queries see, and returns their masks as well."""
    known_ranges = known_facts.ranges if known_facts else [None] * len(calls)
    ranges = [known_range or _visible_range(call, facts) for call, known_range in zip(calls, known_ranges, strict=True)]
    windows = [window_of(*key_range, facts.kind) for key_range in ranges]
    masks = [mask_of_ranges(*key_range) for key_range in ranges]
    return replace(facts, windows=windows, ranges=tuple(ranges)), masks


def _measure_heads(
    calls: Sequence[Call], layer_masks: list[Tensor], facts: Facts, settings: Settings, operation: str, is_kept: bool
) -> HeadMetrics:
    heads = HeadMetrics(facts, settings, 1, int(is_kept))
    for call, visible_keys in zip(calls, itertools.cycle(layer_masks)):
        _check_call(call, facts, operation)
        _refuse_hidden_weight(call, ~visible_keys, "its window")
        heads.visit(replace(call, seen=visible_keys))
    return heads


def _measure_states(hidden: Any, facts: Facts, settings: Settings) -> tuple[int, dict[str, Array]]:
    """Returns the width of the residual stream and its metrics."""
    states = _to_array(hidden)
    if states.ndim != 3 or states.shape[:2] != (facts.blocks + 1, facts.T):
        raise ValueError(
            f"hidden: expected {facts.blocks + 1} states of {facts.T} tokens, found a shape of {list(states.shape)}"
        )
    metrics = stream_metrics(torch.from_numpy(states), settings.first)
    return states.shape[2], {name: x.numpy() for name, x in metrics.items()}


WATCH = (
    "watch the model instead: with sinkscope.watching(model) as sequences: out = model.generate(...); then "
    "sequences.recording(out.sequences)"
)
STEPS = f"expected the maps of one prompt after another, found the steps of generate(), each with one query; {WATCH}"


def _refuse_outputs(maps: Any) -> None:
    """Names what a model returned in place of its maps. `generate(output_attentions=True)` returns the maps of each
    step: those of the prompt, then rows of one query."""
    for output in [maps, *(maps[:1] if isinstance(maps, list | tuple) else [])]:
        if isinstance(output, Mapping):
            advice = "pass [out.attentions], where out = model(..., output_attentions=True)"
            raise ValueError(
                "maps: expected the maps of one prompt after another, found "
                f"{type(output).__name__}: {WATCH if 'sequences' in output else advice}"
            )
    if isinstance(maps, Sequence) and len(maps) > 1 and isinstance(maps[1], Sequence) and maps[1]:
        shape = getattr(maps[1][0], "shape", ())
        if len(shape) == 4 and shape[-2] == 1 < shape[-1]:
            raise ValueError(f"maps: {STEPS}")
    layers = next(iter(maps), None) if isinstance(maps, Sequence) else maps
    if layers is None or isinstance(layers, Sequence) and all(isinstance(x, Sequence | None) and not x for x in layers):
        raise ValueError(
            "maps: expected weights, found none; a model returns them only with attn_implementation='eager' and "
            f"output_attentions=True. {WATCH.capitalize()}"
        )


def _to_array(x: Any) -> Array:
    x = getattr(x, "value", x)
    if isinstance(x, list | tuple):
        return np.stack([_to_array(part) for part in x])
    if hasattr(x, "detach"):
        return x.detach().float().cpu().numpy()
    return np.asarray(x, np.float32)


def _read_layers(x: Any, place: str) -> Iterator[Array]:
    x = getattr(x, "value", x)
    for i, layer in enumerate(x):
        # A list of generate()'s attentions has steps in place of layers.
        if isinstance(layer, list | tuple) and getattr(layer[0], "ndim", 0) == 4:
            raise ValueError(f"{place}: {STEPS}")
        layer_map = _to_array(layer)
        if layer_map.ndim == 4 and len(layer_map) == 1:
            layer_map = layer_map[0]
        if layer_map.ndim != 3:
            raise ValueError(
                f"{place}: expected [L, H, T, T] or layers of [H, T, T], found a layer of shape {list(layer_map.shape)}"
                f"{'; of one prompt pass [maps]' if place == 'maps[0]' and layer_map.ndim < 3 else ''}"
            )
        if not np.isfinite(layer_map).all():
            raise ValueError(f"{place}: expected finite weights, found others in layer {i}")
        yield layer_map


def _read_calls(layer_maps: Any, prompt_vectors: Mapping[str, Any], place: str) -> Iterator[Call]:
    vectors = {name: _read_layers(prompt_vectors[name], name) for name in VECTORS if name in prompt_vectors}
    for i, att in enumerate(_read_layers(layer_maps, place)):
        H, T, S = att.shape
        if T == 1 < S:
            raise ValueError(f"{place}: {STEPS}")
        if T != S:
            raise ValueError(f"{place}: expected as many queries as keys, found {T} and {S} in layer {i}")
        layer_vectors = {name: next(x, None) for name, x in vectors.items()}
        tensors = {name: torch.from_numpy(x)[None] for name, x in layer_vectors.items() if x is not None}
        for name, x in tensors.items():
            if x.shape[2] != T or H % x.shape[1]:
                raise ValueError(
                    f"{name}: expected heads that divide {H} of {T} tokens, found a shape of {list(x.shape[1:])}"
                )
        query, key = (tensors.get(name) for name in "qk")
        has_query_and_key = query is not None and key is not None
        yield Call(
            i,
            nn.Identity(),
            query=query if has_query_and_key else None,
            key=key if has_query_and_key else None,
            value=tensors.get("v"),
            weights=torch.from_numpy(att)[None],
        )


@dataclass(frozen=True)
class KnownFacts:
    """Facts that the observer of a model knows, and the maps alone do not show."""

    # for each layer, the first and the last key that each query sees, [T] each; None if only the weights are known
    ranges: Sequence[tuple[Tensor, Tensor] | None]
    G: int
    K: int
    D: int
    V: int
    softcap: float | None


def _visible_range(call: Call, facts: Facts) -> tuple[Tensor, Tensor]:
    assert call.weights is not None
    if facts.operation not in ("softmax", "sink_logit"):
        return torch.zeros(facts.T, dtype=torch.long), facts.last_keys
    return mask_ranges_of_weights(*key_ranges((call.weights > 0).any(1)[0]), facts.kind, facts.last_keys)


def _infer_facts(
    calls: Sequence[Call],
    settings: Settings,
    operation: str,
    layers: Sequence[int] | None,
    blocks: int | None,
    known_facts: KnownFacts | None,
) -> Facts:
    if not calls:
        raise ValueError("maps: expected one layer or more, found none")
    _, H, T, _ = calls[0].shape
    if T < 2 or settings.first >= T:
        raise ValueError(
            f"first: expected a position below {T}, the number of tokens, found {settings.first}"
            if T > 1
            else f"maps: expected two tokens or more, found {T}"
        )
    weights = [call.weights for call in calls if call.weights is not None]
    later_keys = [w.triu(1).abs().amax((0, 1, 2)) > 0 for w in weights]  # keys with a weight from an earlier query
    has_weight_ahead = torch.stack(later_keys).any(0)
    prefix = int(has_weight_ahead.nonzero().max()) + 1 if has_weight_ahead.any() else 0
    kind = settings.mask or ("causal" if not prefix else "bidirectional" if prefix == T else "prefix")
    if kind == "prefix" and not prefix:
        raise ValueError("mask: expected weights on later keys under a prefix, found none")
    L = len(calls)
    numbers = list(range(L)) if layers is None else [int(i) for i in layers]
    if len(numbers) != L or numbers != sorted(set(numbers)) or numbers[0] < 0:
        raise ValueError(f"layers: expected {L} ascending numbers, found {numbers}")
    total = numbers[-1] + 1 if blocks is None else blocks
    if total <= numbers[-1]:
        raise ValueError(f"blocks: expected more than {numbers[-1]}, found {total}")
    key = calls[0].key if calls[0].key is not None else calls[0].value
    G, K = (known_facts.G, known_facts.K) if known_facts else (H, 1)
    return Facts(
        T,
        H,
        G if key is None else key.shape[1],
        K if key is None else key.shape[3],
        kind,
        prefix if kind == "prefix" else 0,
        [None] * L,
        operation,
        known_facts.softcap if known_facts else None,
        numbers,
        total,
        [],
        is_from_maps=True,
    )


def _check_call(call: Call, facts: Facts, operation: str) -> None:
    B, H, T, _ = call.shape
    if (H, T) != (facts.H, facts.T):
        raise ValueError(
            f"maps: expected [{facts.H}, {facts.T}, {facts.T}] in each layer and prompt, found "
            f"[{H}, {T}, {T}] in layer {call.layer}"
        )
    assert call.weights is not None
    _refuse_hidden_weight(call, ~facts.visible_keys(slice(0, T), torch.device("cpu")), f"the {facts.kind} mask")
    if operation not in SIGNED_OPERATIONS and (smallest := call.weights.min().item()) < 0:
        raise ValueError(
            f"maps: expected weights of 0 or more from {operation}, found {smallest:.3g} in layer {call.layer}; where "
            'weights have signs, name what made them: operation="identity", "mlp_kernel", ...'
        )
    if operation == "softmax":
        sums = call.weights.sum(-1)
        errors = (sums - 1).abs()
        # A dump in half precision has rounded each weight.
        if errors.max() > max(ROW_SUM_ROUNDING, 2e-2 if _is_half_precision(call.weights) else 0):
            raise ValueError(
                f"maps: expected rows that sum to 1, found one of {sums.flatten()[errors.argmax()].item():.3g} "
                f"in layer {call.layer}; where something else takes a share, name it: "
                'operation="sink_logit", "sigmoid", ...'
            )


def _refuse_hidden_weight(call: Call, hidden: Tensor, mask_name: str) -> None:
    assert call.weights is not None
    if call.weights.masked_select(hidden).any():
        raise ValueError(f"maps: expected no weight on keys that {mask_name} hides, found some in layer {call.layer}")


def _is_half_precision(x: Tensor) -> bool:
    """Whether every number is exact in float16, or every number in bfloat16."""
    return any(torch.equal(x.to(dtype).float(), x) for dtype in (torch.float16, torch.bfloat16))


def to_list(x: Any, place: str) -> list[Any]:
    if isinstance(x, str | bytes) or not hasattr(x, "__iter__") or getattr(x, "ndim", 1) == 0:
        kind = "the text" if isinstance(x, str | bytes) else "the token"
        raise ValueError(f"{place}: expected a list of token strings or ids, found {kind} {x!r} alone")
    return list(x.tolist() if hasattr(x, "tolist") else x)


def _parse_tokens(prompt_tokens: Sequence[Any], T: int, i: int) -> tuple[list[int] | None, list[str]]:
    items = to_list(prompt_tokens, f"tokens of prompt {i}")
    if len(items) != T:
        raise ValueError(f"tokens: expected {T}, one for each query, found {len(items)} for prompt {i}")
    ids = [int(x) for x in items] if all(isinstance(x, int | np.integer) for x in items) else None
    return ids, [str(x) for x in items]
