"""A slow forward pass of one sequence with edits. Each edit is a plain statement at its hook point.

Attention is computed head by head and query by query, as in a model with a cache. The blocks are those of model.py.
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from sinkscope.metrics import used_keys
from torch import Tensor

from .model import Architecture, Weights, _Gpt2, _Llama, _rotate, _split_heads
from .operations import OPERATIONS, Parameters

Value = str | float
Edit = dict[str, Value]  # "kind" and the parameters, by name


def parse_edit(text: str) -> Edit:
    kind, _, parameters = text.removesuffix(")").partition("(")
    pairs = [pair.split("=") for pair in parameters.split(",") if pair]
    return {"kind": kind} | {key: _parse_value(value) for key, value in pairs}


def _parse_value(text: str) -> Value:
    try:
        return float(text)
    except ValueError:
        return text


class _GptNeo(_Gpt2):
    W_O = "h.{}.attn.attention.out_proj"

    def _linear(self, x: Tensor, name: str) -> Tensor:
        y = x @ self.weights[name + ".weight"].T
        bias = self.weights.get(name + ".bias")
        return y if bias is None else y + bias

    def qkv(self, y: Tensor, layer: int) -> tuple[Tensor, Tensor, Tensor]:
        prefix = f"h.{layer}.attn.attention."
        q, k, v = (_split_heads(self._linear(y, prefix + name + "_proj"), self.arch.H) for name in "qkv")
        return q * math.sqrt(self.arch.K), k, v  # _attend divides scores by sqrt(K), GPT-Neo does not


class _GptNeox(_Gpt2):
    """A GPT-NeoX: LayerNorm; rotary positions in the first dimensions of each head; q, k and v of a head in one matrix;
    attention and feed-forward in parallel; exact GELU; an untied head; weights stored [out, in]."""

    W_O = "layers.{}.attention.dense"
    ROTARY_PART = 0.25  # rotary_pct of the golden's config

    def __init__(self, arch: Architecture, weights: Weights) -> None:
        self.arch = arch
        self.weights = {name.removeprefix("gpt_neox."): w for name, w in weights.items()}

    _linear = _GptNeo._linear

    def norm_input(self, x: Tensor, layer: int, half: str) -> Tensor:
        return self._norm(x, f"layers.{layer}.{half}_layernorm")

    def embed(self, tokens: Tensor) -> Tensor:
        return self.weights["embed_in.weight"][tokens]

    def rotate(self, x: Tensor) -> Tensor:
        width = int(self.arch.K * self.ROTARY_PART)
        return torch.cat([_rotate(x[..., :width], self.arch.rope_theta), x[..., width:]], -1)

    def qkv(self, y: Tensor, layer: int) -> tuple[Tensor, Tensor, Tensor]:
        fused = self._linear(y, f"layers.{layer}.attention.query_key_value")
        q, k, v = _split_heads(fused, self.arch.H).chunk(3, -1)
        return (self.rotate(q), self.rotate(k), v) if self.arch.positions == "rotary" else (q, k, v)

    def feed_forward(self, y: Tensor, layer: int) -> tuple[Tensor, None]:
        inner = torch.nn.functional.gelu(self._linear(y, f"layers.{layer}.mlp.dense_h_to_4h"))
        return self._linear(inner, f"layers.{layer}.mlp.dense_4h_to_h"), None

    def compute_logits(self, x: Tensor) -> Tensor:
        return self._norm(x, "final_layer_norm") @ self.weights["embed_out.weight"].T


# For each family: the tensor of each matrix that scale_weight can name, and whether the tensor is [out, in].
MATRICES = {
    "llama": {
        "o": ("model.layers.{}.self_attn.o_proj.weight", True),
        "down": ("model.layers.{}.mlp.down_proj.weight", True),
    },
    "gpt2": {"o": ("h.{}.attn.c_proj.weight", False), "down": ("h.{}.mlp.c_proj.weight", False)},
    "gpt_neo": {
        "o": ("transformer.h.{}.attn.attention.out_proj.weight", True),
        "down": ("transformer.h.{}.mlp.c_proj.weight", True),
    },
    "gpt_neox": {
        "o": ("gpt_neox.layers.{}.attention.dense.weight", True),
        "down": ("gpt_neox.layers.{}.mlp.dense_4h_to_h.weight", True),
    },
}


@dataclass
class Model:
    family: str
    arch: Architecture
    weights: Weights
    windows: list[int]  # for each layer, the number of keys that a query sees; 0 without a window

    @property
    def is_parallel(self) -> bool:
        return self.family == "gpt_neox"

    def rotate_alone(self, x: Tensor) -> Tensor:
        """Rotates queries or keys [T, K] as if these T tokens were the whole text."""
        blocks = self.blocks()
        return blocks.rotate(x) if isinstance(blocks, _GptNeox) else _rotate(x, self.arch.rope_theta)

    def blocks_without_biases(self) -> "_Llama | _Gpt2":
        zeros = {name: torch.zeros_like(w) if name.endswith("bias") else w for name, w in self.weights.items()}
        return replace(self, weights=zeros).blocks()

    def blocks(self) -> _Llama | _Gpt2:
        kinds = {"llama": _Llama, "gpt2": _Gpt2, "gpt_neo": _GptNeo, "gpt_neox": _GptNeox}
        return kinds[self.family](self.arch, self.weights)


def _applies_at(edit: Edit, key: str, index: int) -> bool:
    return key not in edit or int(float(edit[key])) == index


def _select_kinds(edits: list[Edit], *kinds: str) -> list[Edit]:
    return [edit for edit in edits if edit["kind"] in kinds]


def _integer_parameter(edit: Edit, key: str, default: int | None = None) -> int:
    return int(float(edit[key] if default is None else edit.get(key, default)))


def _round_to_steps(x: Tensor, bits: int, symmetric: bool, range_source: Tensor | None = None) -> Tensor:
    """Rounds x with one scale, that of the numbers in `range_source` (by default x)."""
    source = x if range_source is None else range_source
    if symmetric:
        low, extent, levels = x.new_zeros(()), source.abs().max(), 2 ** (bits - 1) - 1
    else:
        low, extent, levels = source.min(), source.max() - source.min(), 2**bits - 1
    if extent == 0:
        return low.expand_as(x)
    steps = ((x - low) / (extent / levels)).round().clamp(-levels if symmetric else 0, levels)
    return low + steps * (extent / levels)


def _quantization_settings(edit: Edit) -> tuple[str, int, bool]:
    return str(edit.get("by", "token")), _integer_parameter(edit, "bits"), edit.get("symmetric", "yes") == "yes"


def _round_by_groups(rows: Tensor, edit: Edit) -> Tensor:
    granularity, bits, symmetric = _quantization_settings(edit)
    size = _integer_parameter(edit, "group", 32) if granularity == "group" else rows.shape[1]
    return torch.stack(
        [torch.cat([_round_to_steps(part, bits, symmetric) for part in row.split(size)]) for row in rows]
    )


def _quantize(x: Tensor, edit: Edit) -> Tensor:
    """Rounds the tokens of x [T, width] from the edit's `first` on."""
    first, (granularity, bits, symmetric) = _integer_parameter(edit, "first", 0), _quantization_settings(edit)
    exact, rounded = x[:first], x[first:]
    range_source = rounded[: _integer_parameter(edit, "prompt", len(x)) - first]
    if granularity == "tensor":
        rounded = _round_to_steps(rounded, bits, symmetric, range_source)
    elif granularity == "channel":
        rounded = torch.stack(
            [_round_to_steps(column, bits, symmetric, source) for column, source in zip(rounded.T, range_source.T)], 1
        )
    else:
        rounded = _round_by_groups(rounded, edit)
    return torch.cat([exact, rounded])


def _count_error(errors: Tensor, column: int, exact: Tensor, x: Tensor, edit: Edit) -> None:
    """Adds each token's squared rounding error and squared norm to two columns of `errors` [T, 4]. `exact` and `x` are
    [T, width]. Tokens before `first` are not rounded and do not count."""
    first = _integer_parameter(edit, "first", 0)
    errors[first:, column] += (x - exact)[first:].square().sum(-1)
    errors[first:, column + 1] += exact[first:].square().sum(-1)


def _quantize_heads(x: Tensor, edits: list[Edit], vectors: str, layer: int, errors: Tensor) -> Tensor:
    for edit in _select_kinds(edits, "quantize"):
        if edit["what"] == vectors and _applies_at(edit, "layer", layer):
            exact = x.transpose(0, 1).flatten(1)
            flat = _quantize(exact, edit)
            _count_error(errors[layer], 2, exact, flat, edit)
            x = flat.unflatten(1, (x.shape[0], x.shape[2])).transpose(0, 1)
    return x


def _quantize_matrix(w: Tensor, edit: Edit) -> Tensor:
    """Rounds w [out, in] in F32, its type in the file: F64 would break ties in another direction than the core."""
    granularity, bits, symmetric = _quantization_settings(edit)
    rounded = (
        _round_to_steps(w.float(), bits, symmetric) if granularity == "tensor" else _round_by_groups(w.float(), edit)
    )
    return rounded.to(w.dtype)


def layer_index(name: str) -> int | None:
    match = re.search(r"\.(\d+)\.", "." + name)
    return int(match[1]) if match else None


def quantized_weights(model: Model, weights: Weights, edits: list[Edit]) -> Weights:
    """Rounds the layers' matrices. q, k and v are three matrices, even if the file fuses them."""
    quantized = dict(weights)
    for edit in _select_kinds(edits, "quantize"):
        for name, w in quantized.items() if edit["what"] == "weights" else ():
            layer = layer_index(name)
            if w.dim() != 2 or layer is None or not _applies_at(edit, "layer", layer):
                continue
            rows = w.T if model.family == "gpt2" else w
            if "c_attn" in name:
                parts = list(rows.chunk(3))
            elif "query_key_value" in name:
                parts = list(rows.unflatten(0, (model.arch.H, 3, -1)).unbind(1))
            else:
                parts = [rows]
            rounded = [_quantize_matrix(part.reshape(-1, rows.shape[1]), edit).reshape(part.shape) for part in parts]
            merged = torch.stack(rounded, 1) if "query_key_value" in name else torch.cat(rounded)
            merged = merged.reshape(rows.shape)
            quantized[name] = merged.T if model.family == "gpt2" else merged
    return quantized


def _mix_bits(x: int) -> int:
    x = ((x ^ x >> 16) * 0x7FEB352D) & 0xFFFFFFFF
    x = ((x ^ x >> 15) * 0x846CA68B) & 0xFFFFFFFF
    return x ^ x >> 16


def _draw_uniform(seed: int, head: int, key: int) -> float:
    draw = _mix_bits((_mix_bits((_mix_bits(seed) + head) & 0xFFFFFFFF) + key) & 0xFFFFFFFF)
    return (draw >> 8) / 2**24


class _Cache:
    """The keys that one head keeps: `add_query` adds a query's key before it attends, and evicts others."""

    def __init__(self, edit: Edit, head: int, k: Tensor, v: Tensor) -> None:
        self.edit, self.head, self.k, self.v = edit, head, k, v
        self.kept_keys: list[int] = []
        self.rows: list[Tensor] = []  # the absolute weights of all keys, [T], for each query so far
        self.evicted_at = torch.full((len(k),), torch.nan, dtype=k.dtype)

    def _total_attention(self, key: int) -> float:
        return float(sum((row[key] for row in self.rows), torch.zeros(())))

    def _eviction_score(self, key: int) -> float:
        policy = self.edit["policy"]
        if policy == "h2o":
            return self._total_attention(key)
        if policy == "tova":
            return float(self.rows[-1][key])
        if policy == "lru":
            return max([t for t, row in enumerate(self.rows) if used_keys(row)[key]], default=key)
        if policy == "vatp":
            return self._total_attention(key) * float(self.v[key].abs().sum())
        if policy == "key_norm":
            return -float(self.k[key].norm())
        if policy == "random":
            return _draw_uniform(_integer_parameter(self.edit, "seed", 1), self.head, key)
        return key  # window, first: evict the oldest key

    def _evict(self, t: int, key: int) -> None:
        self.kept_keys.remove(key)
        self.evicted_at[key] = t

    def _evict_by_snapkv(self, t: int) -> None:
        p, w = _integer_parameter(self.edit, "prompt"), _integer_parameter(self.edit, "queries", 16)
        budget, pool = _integer_parameter(self.edit, "budget"), _integer_parameter(self.edit, "pool", 5)
        if t != p:
            return
        attention = sum((self.rows[i][: p - w] for i in range(p - w, p)), torch.zeros(p - w))
        pooled = torch.nn.functional.avg_pool1d(attention[None].double(), pool, 1, pool // 2)[0]
        for key in pooled.argsort(stable=True)[: max(p - budget, 0)].tolist():
            self._evict(t, key)

    def add_query(self, t: int) -> list[int]:
        self.kept_keys.append(t)
        policy, budget = self.edit["policy"], _integer_parameter(self.edit, "budget")
        if policy == "snapkv":
            self._evict_by_snapkv(t)
            return list(self.kept_keys)
        first = 0 if policy == "window" else _integer_parameter(self.edit, "first", 0)
        half = budget // 2 if policy in ("h2o", "vatp") else 0
        recent = min(_integer_parameter(self.edit, "recent", 0) or max(half, 1), budget - first)
        while len(self.kept_keys) > budget:
            candidates = [key for key in self.kept_keys if first <= key <= t - recent]
            self._evict(t, min(candidates, key=self._eviction_score))
        return list(self.kept_keys)


def _token_positions(edits: list[Edit], T: int) -> list[int]:
    positions = list(range(T))
    for edit in _select_kinds(edits, "swap_positions"):
        a, b = _integer_parameter(edit, "a"), _integer_parameter(edit, "b")
        positions[a], positions[b] = positions[b], positions[b] if edit.get("replace") == "yes" else positions[a]
    return positions


def _compute_at_positions(compute: Callable[[Tensor], Tensor], x: Tensor, positions: list[int]) -> Tensor:
    """Applies `compute` to x with token t at position `positions[t]`. `compute` itself puts row i at position i. Two
    tokens may have the same position, so each is computed on its own."""
    if positions == list(range(len(positions))):
        return compute(x)
    rows = []
    for t, position in enumerate(positions):
        moved = x.clone()
        moved[position] = x[t]
        rows.append(compute(moved)[..., position, :])
    return torch.stack(rows, -2)


def _edit_stream(x: Tensor, edits: list[Edit], layer: int, errors: Tensor) -> Tensor:
    for edit in _select_kinds(edits, "clamp_channel", "quantize"):
        if not _applies_at(edit, "layer", layer):
            continue
        if edit["kind"] == "quantize":
            if edit["what"] == "hidden":
                exact, x = x, _quantize(x, edit)
                _count_error(errors[layer], 0, exact, x, edit)
            continue
        channel, target = _integer_parameter(edit, "channel"), edit.get("to", "zero")
        prompt = x[: _integer_parameter(edit, "prompt", len(x))]
        value = (
            float(edit["value"]) if target == "value" else float(prompt[:, channel].mean()) if target == "mean" else 0.0
        )
        x = x.clone()
        for t in range(len(x)):
            if _applies_at(edit, "token", t):
                x[t, channel] = value
    return x


def _removed_directions(model: Model, layer: int, edit: Edit, v: Tensor) -> list[Tensor | None]:
    """Returns the direction that `project` removes for each head; None for others. v [H, T, K]"""
    arch, directions = model.arch, []
    for h in range(arch.H):
        if not (_applies_at(edit, "layer", layer) and _applies_at(edit, "head", h)):
            directions.append(None)
            continue
        single_head = torch.zeros_like(v)
        single_head[h] = v[h]
        outputs = v[h] if edit.get("from") == "heads" else model.blocks_without_biases().merge(single_head, layer)
        direction = outputs[_integer_parameter(edit, "key", 0)]
        if edit.get("direction") == "random":
            seed, head = _integer_parameter(edit, "seed", 1), layer * arch.H + h
            numbers = [_draw_uniform(seed, head, i) - 0.5 for i in range(len(direction))]
            direction = torch.tensor(numbers, dtype=v.dtype)
        directions.append(direction)
    return directions


def _project(x: Tensor, directions: list[Tensor], edit: Edit) -> Tensor:
    """Removes from x [T, n] its component in the span of the directions, for tokens after the edit's key."""
    basis = torch.linalg.qr(torch.stack(directions, 1))[0]
    start = _integer_parameter(edit, "key", 0) + 1
    return torch.cat([x[:start], x[start:] - x[start:] @ basis @ basis.T])


def _scale_values(v: Tensor, edits: list[Edit], layer: int) -> Tensor:
    v = v.clone()
    for edit in _select_kinds(edits, "scale_value"):
        for g in range(len(v)):
            if _applies_at(edit, "layer", layer) and _applies_at(edit, "group", g):
                v[g, _integer_parameter(edit, "key")] *= float(edit.get("factor", 0))
    return v


def _visible_keys(t: int, window: int, cached_keys: list[int], edits: list[Edit]) -> list[int]:
    """Returns the keys that query t of a head sees under the head's edits."""
    visible = [j for j in range(t + 1) if t - j < window and j in cached_keys]
    for edit in edits:
        if edit["kind"] == "hide_key" and _applies_at(edit, "query", t):
            visible = [j for j in visible if j != _integer_parameter(edit, "key")]
        if edit["kind"] == "self_only" and _integer_parameter(edit, "token") == t:
            visible = [t]
        if edit["kind"] == "mask":
            first, recent = _integer_parameter(edit, "first"), _integer_parameter(edit, "recent")
            visible = [j for j in range(t + 1) if j < first or t - j < recent]
    return visible


def _attend(model: Model, layer: int, y: Tensor, edits: list[Edit], errors: Tensor) -> dict[str, Any]:
    """Computes a layer's attention under the edits, from its normed input y [T, D]. Returns the recorded fields, and
    `tags`: the edits that project directions out of the stream, with these directions."""
    arch, blocks, T = model.arch, model.blocks(), len(y)
    positions = _token_positions(edits, T)
    rotary = arch.positions == "rotary" and model.family in ("llama", "gpt_neox")

    def project(part: int) -> Tensor:
        return _compute_at_positions(lambda z: blocks.qkv(z, layer)[part], y, positions)

    q = _quantize_heads(project(0), edits, "queries", layer, errors)
    k = _quantize_heads(project(1), edits, "keys", layer, errors)
    v = _quantize_heads(_scale_values(project(2), edits, layer), edits, "values", layer, errors)
    unrotated_model = replace(model, arch=replace(arch, positions="none")) if rotary else model
    q0, k0, _ = unrotated_model.blocks().qkv(y, layer)

    att = torch.zeros(arch.H, T, T, dtype=y.dtype)
    visible_counts = torch.zeros(arch.H, T, dtype=y.dtype)
    evicted = torch.full((arch.H, T), torch.nan, dtype=y.dtype)
    for h in range(arch.H):
        g = h // (arch.H // arch.G)
        head_edits = [edit for edit in edits if _applies_at(edit, "layer", layer) and _applies_at(edit, "head", h)]
        cache = next(
            (_Cache(edit, layer * arch.H + h, k[g], v[g]) for edit in _select_kinds(head_edits, "evict")), None
        )
        for t in range(T):
            cached_keys = cache.add_query(t) if cache else list(range(t + 1))
            visible = _visible_keys(t, model.windows[layer] or T, cached_keys, head_edits)
            x = k[g] @ q[h, t] / math.sqrt(arch.K)
            if cache and cache.edit.get("positions") == "cache" and rotary:
                # Computes the scores of a text that has only the kept keys, with the query as its last token.
                query = model.rotate_alone(q0[h, [t] * len(cached_keys)])[-1]
                x = x.clone()
                x[cached_keys] = model.rotate_alone(k0[g, cached_keys]) @ query / math.sqrt(arch.K)
            mask = torch.zeros(1, T, dtype=torch.bool)
            mask[0, visible] = True
            row = torch.zeros(T, dtype=y.dtype)
            if visible:
                weights = OPERATIONS[arch.operation].weights
                row = weights(x[None, None], mask, Parameters(arch.parameters))[0, 0]
            for edit in _select_kinds(head_edits, "park"):
                key = _integer_parameter(edit, "key", 0)
                if key in visible:
                    row = torch.nn.functional.one_hot(torch.tensor(key), T).to(row)
            if cache:
                cache.rows.append(row.abs())
            att[h, t], visible_counts[h, t] = row, len(visible)
        if cache:
            evicted[h] = cache.evicted_at
    head_outputs = torch.stack([att[h] @ v[h // (arch.H // arch.G)] for h in range(arch.H)])
    for edit in _select_kinds(edits, "silence"):
        for h in range(arch.H):
            if _applies_at(edit, "layer", layer) and _applies_at(edit, "head", h):
                head_outputs[h] = 0
    head_values = v.repeat_interleave(arch.H // arch.G, 0)
    tags = []
    for edit in _select_kinds(edits, "project"):
        directions = _removed_directions(model, layer, edit, head_values)
        if edit.get("from") == "heads":
            head_outputs = torch.stack(
                [
                    x if direction is None else _project(x, [direction], edit)
                    for x, direction in zip(head_outputs, directions)
                ]
            )
        elif head_directions := [direction for direction in directions if direction is not None]:
            tags.append((edit, head_directions))
    return {
        "tags": tags,
        "q": q,
        "k": k,
        "v": v,
        "att": att,
        "seen": visible_counts,
        "evicted": evicted,
        "att_out": blocks.merge(head_outputs, layer),
    }


def run_edited(model: Model, tokens: Tensor, edits: list[Edit]) -> dict[str, Tensor]:
    weights = {name: w.clone() for name, w in model.weights.items()}
    for edit in _select_kinds(edits, "scale_weight"):
        name, rows_first = MATRICES[model.family][str(edit["matrix"])]
        row, column = _integer_parameter(edit, "row"), _integer_parameter(edit, "column")
        index = (row, column) if rows_first else (column, row)
        weights[name.format(_integer_parameter(edit, "layer"))][index] *= float(edit.get("factor", 0))
    model = replace(model, weights=quantized_weights(model, weights, edits))
    blocks, T = model.blocks(), len(tokens)
    positions = _token_positions(edits, T)
    x = _compute_at_positions(lambda ids: blocks.embed(ids[:, 0]), tokens[:, None], positions)
    errors = torch.zeros(model.arch.L + 1, T, 4, dtype=x.dtype)
    x = _edit_stream(x, edits, 0, errors)
    layer_values: dict[str, list[Tensor]] = {"hidden": [x]}
    for layer in range(model.arch.L):
        record = _attend(model, layer, blocks.norm_input(x, layer, "input"), edits, errors)
        mid_stream = blocks.norm_stream(x + record["att_out"], layer, "input")
        ffn_stream = x if model.is_parallel else mid_stream
        mlp_out, _ = blocks.feed_forward(blocks.norm_input(ffn_stream, layer, "post_attention"), layer)
        x = blocks.norm_stream(mid_stream + mlp_out, layer, "post_attention")
        for edit, directions in record.pop("tags"):
            x = _project(x, directions, edit)
        x = _edit_stream(x, edits, layer + 1, errors)
        for name, value in (record | {"hidden": x}).items():
            layer_values.setdefault(name, []).append(value)
    stacked = {name: torch.stack(rows) for name, rows in layer_values.items()}
    return {"logits": blocks.compute_logits(x), "rounded": errors} | stacked
