"""The reference models, written from their equations: a Llama with every variant of Gu et al. (2025), sections 4-7,
and a GPT-2.

Letters: L layers, H query heads, G key/value heads, T tokens, D model width, K head width,
F feed-forward width, V vocabulary, E experts. Weights are a dict from Hugging Face tensor names to
tensors, so that a file is loaded, trained and stored under the same names. Leading dimensions (a
batch N) are allowed everywhere and written "...".
"""

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from .operations import OPERATIONS, Parameters, elu1

Weights = dict[str, Tensor]
# Multiplies [..., in] by [in, out].
MatrixProduct = Callable[[Tensor, Tensor], Tensor]
# Called with the name, the layer and the value of an intermediate tensor.
Visitor = Callable[[str, int, Tensor], None]


@dataclass(frozen=True)
class Mask:
    kind: str = "causal"  # causal, window, prefix or bidirectional
    size: int = 0  # number of keys in the window, or length of the prefix
    # number of first tokens that stay visible outside a window (Xiao et al. 2024)
    first: int = 0
    # number of first tokens that see only themselves, under a bidirectional mask
    alone: int = 0

    def visible(self, T: int, device: torch.device) -> Tensor:
        """Returns a bool [T, T], true where query row i sees key column j."""
        query, key = torch.arange(T, device=device)[:, None], torch.arange(T, device=device)
        causal = key <= query
        if self.kind == "window":
            return causal & ((key > query - self.size) | (key < self.first))
        if self.kind == "prefix":
            return causal | (key < self.size)
        if self.kind == "bidirectional":
            return (query >= self.alone) | (key == query)
        return causal


@dataclass(frozen=True)
class Architecture:
    family: str  # "llama" (mixtral as well) or "gpt2"
    L: int
    H: int
    G: int
    D: int
    K: int
    F: int
    V: int
    context: int
    norm_eps: float
    tied: bool
    operation: str
    parameters: Mapping[str, float]  # of the attention operation, defaults included
    # The fields below apply to the family "llama" only.
    rope_theta: float = 10000.0
    positions: str = "rotary"  # none, learned, sinusoid, alibi, relative
    alibi_scale: float = 1.0  # multiplies the slopes of ALiBi
    mask: Mask = Mask()
    # where a block norms: pre (each half's input), post (the stream after each half), sandwich (each half's input and
    # output)
    norm_place: str = "pre"
    norm_kind: str = "rms"  # or "layer"
    feed_forward: str = "gated"
    activation: str = "silu"  # silu, gelu (with erf) or relu
    heads: str = "joined"  # "joined": W_O reads the heads' outputs one after another; "added": it reads their sum
    bias_key: str = "none"  # a key without a token: none, "head" (one per head) or "shared" by all heads
    bias_key_value: str = "none"  # its value: "head" or "shared"; 0 with "none"
    value_bias: str = "none"  # added to the head outputs: none, "head" or "shared"
    gate: str = "none"  # none, {output,value}_{element,head} or value_state
    E: int = 0
    top_k: int = 0
    qk_norm: bool = False  # norms each head's queries and keys before rotation (qwen3)


@dataclass(frozen=True)
class Trace:
    hidden: Tensor  # [..., L+1, T, D]  residual stream: embedding, then after each block
    q: Tensor  # [..., L, H, T, K]  after rotation
    k: Tensor  # [..., L, G, T, K]  after rotation
    v: Tensor  # [..., L, G, T, K]  after a gate on values
    att: Tensor  # [..., L, H, T, T]  row i: the weights of query i; 0 for masked keys
    att_out: Tensor  # [..., L, T, D]
    mlp_out: Tensor  # [..., L, T, D]
    logits: Tensor
    att_bias: Tensor | None = None  # [..., L, H, T]  weight of the bias key
    gate: Tensor | None = None  # [..., L, H, T]  mean over K of the gate of a head
    router: Tensor | None = None  # [..., L, T, E]  weight of each expert

    def fields(self) -> dict[str, Tensor]:
        return {name: value for name, value in vars(self).items() if value is not None}


def _refuse_unknown(names: Collection[str], allowed: Collection[str], owner: str) -> None:
    if unknown := set(names) - set(allowed):
        raise ValueError(f"{owner} has no {', '.join(sorted(unknown))}")


_VARIANT_KEYS = {
    "attention",
    "bias_key",
    "bias_key_value",
    "value_bias",
    "gate",
    "positions",
    "norm",
    "norm_kind",
    "feed_forward",
    "heads",
    "mask",
    "mask_token",
    "alibi_scale",
}


def _read_mask(config: dict[str, Any], variant: dict[str, Any]) -> Mask:
    if window := config.get("sliding_window"):
        return Mask("window", window)
    mask = variant.get("mask", {"kind": "causal"})
    return Mask(mask["kind"], mask.get(mask["kind"], 0), alone=mask.get("alone", 0))


def architecture(config: dict[str, Any]) -> Architecture:
    variant = config.get("sinkscope", {})
    _refuse_unknown(variant, _VARIANT_KEYS, "sinkscope")
    attention = variant.get("attention", {})
    operation = attention.get("operation", "softmax")
    defaults, values = OPERATIONS[operation].defaults, attention.get("parameters", {})
    _refuse_unknown(values, defaults, operation)
    parameters = {**defaults, **values}
    if config["model_type"] in ("llama", "mistral", "mixtral", "qwen3"):
        D, H = config["hidden_size"], config["num_attention_heads"]
        rope = config.get("rope_parameters") or {}  # transformers 5 moved rope_theta into this object
        return Architecture(
            "llama",
            config["num_hidden_layers"],
            H,
            config.get("num_key_value_heads") or H,
            D,
            config.get("head_dim") or D // H,
            config["intermediate_size"],
            config["vocab_size"],
            config["max_position_embeddings"],
            config["rms_norm_eps"],
            config["tie_word_embeddings"],
            operation,
            parameters,
            rope.get("rope_theta", config.get("rope_theta", 10000.0)),
            variant.get("positions", "rotary"),
            variant.get("alibi_scale", 1.0),
            _read_mask(config, variant),
            variant.get("norm", "pre"),
            variant.get("norm_kind", "rms"),
            variant.get("feed_forward", "gated"),
            config["hidden_act"],
            variant.get("heads", "joined"),
            *(variant.get(key, "none") for key in ("bias_key", "bias_key_value", "value_bias", "gate")),
            config.get("num_local_experts", 0),
            config.get("num_experts_per_tok", 0),
            config["model_type"] == "qwen3",
        )
    if config["model_type"] == "gpt2":
        D, H = config["n_embd"], config["n_head"]
        return Architecture(
            "gpt2",
            config["n_layer"],
            H,
            H,
            D,
            D // H,
            config.get("n_inner") or 4 * D,
            config["vocab_size"],
            config["n_positions"],
            config["layer_norm_epsilon"],
            True,
            operation,
            parameters,
        )
    raise ValueError(
        f"model_type is {config['model_type']!r}, expected 'llama', 'mistral', 'mixtral', 'qwen3' or 'gpt2'"
    )


def _split_heads(x: Tensor, count: int) -> Tensor:
    """[..., T, count*K] -> [..., count, T, K]"""
    return x.unflatten(-1, (count, -1)).transpose(-3, -2)


def _rotary_angles(T: int, width: int, theta: float, like: Tensor) -> Tensor:
    """Returns the angles t * theta^(-2j/width) of position t and pair j.  [T, width/2]"""
    frequencies = theta ** (-torch.arange(0, width, 2, dtype=like.dtype, device=like.device) / width)
    return torch.arange(T, dtype=like.dtype, device=like.device)[:, None] * frequencies


def _rotate(x: Tensor, theta: float) -> Tensor:
    """Rotates the pair (j, j + K/2) of position t by the angle t * theta^(-2j/K).  [..., T, K]"""
    T, K = x.shape[-2:]
    angle = _rotary_angles(T, K, theta, x)
    first, second = x.chunk(2, -1)
    return torch.cat([first * angle.cos() - second * angle.sin(), second * angle.cos() + first * angle.sin()], -1)


def _sinusoidal_positions(T: int, like: Tensor) -> Tensor:
    """Returns sinusoidal positions: the sines, then the cosines, as in the code of Gu et al.; their equation 5
    interleaves them.  [T, D]"""
    angle = _rotary_angles(T, like.shape[-1], 10000.0, like)
    return torch.cat([angle.sin(), angle.cos()], -1)


def _alibi_slopes(H: int) -> list[float]:
    """Returns ALiBi's slope of each head (Press et al. 2022). If H is a power of two, the slopes are powers of
    2^(-8/H). Otherwise the first heads have the slopes of the next smaller power of two, and the others every second
    slope of the next larger one."""
    power = 2 ** math.floor(math.log2(H))
    slopes = [2.0 ** (-8.0 * (h + 1) / power) for h in range(power)]
    finer_slopes = [2.0 ** (-4.0 * (h + 1) / power) for h in range(0, 2 * (H - power), 2)]
    return slopes + finer_slopes


def _distance_bucket(distance: Tensor) -> Tensor:
    """Returns T5's bucket of a distance, one of 32 up to 128; Gu et al. add its number itself to the scores."""
    far_bucket = 16 + (distance.clamp_min(16) / 16).log() / math.log(8) * 16
    return torch.minimum(distance, far_bucket.floor().clamp_max(31))


def distance_bias(arch: Architecture, T: int, like: Tensor) -> Tensor | None:
    """Returns the part of the scores that depends on the distance, [H, T, T] or [T, T]; None if there is none."""
    position = torch.arange(T, dtype=like.dtype, device=like.device)
    distance = (position[:, None] - position).clamp_min(0)
    if arch.positions == "alibi":
        # Filled on the device, so that a CUDA graph copies no constant from the CPU.
        slopes = torch.stack([like.new_full((), slope) for slope in _alibi_slopes(arch.H)]) * arch.alibi_scale
        return -slopes[:, None, None] * distance
    return _distance_bucket(distance) if arch.positions == "relative" else None


_ACTIVATIONS = {"silu": functional.silu, "gelu": functional.gelu, "relu": functional.relu}


class _Llama:
    """A Llama: RMSNorm, rotary positions, grouped heads and SwiGLU, or variants; biases where weights have them."""

    def __init__(self, arch: Architecture, weights: Weights, product: MatrixProduct = torch.matmul) -> None:
        self.arch, self.weights, self.product = arch, weights, product
        self.act = _ACTIVATIONS[arch.activation]

    def _norm(self, x: Tensor, name: str) -> Tensor:
        if self.arch.norm_kind == "layer":
            x = x - x.mean(-1, keepdim=True)
        mean_square = x.pow(2).mean(-1, keepdim=True)
        y = x * torch.rsqrt(mean_square + self.arch.norm_eps) * self.weights[name + ".weight"]
        return y + self.weights[name + ".bias"] if self.arch.norm_kind == "layer" else y

    def _linear(self, x: Tensor, name: str, product: MatrixProduct | None = None) -> Tensor:
        y = (product or self.product)(x, self.weights[name + ".weight"].T)
        bias = self.weights.get(name + ".bias")
        return y if bias is None else y + bias

    def has_half(self, half: str) -> bool:
        """Whether a block has this half. Without a feed-forward, it has no second half, and no norm for one."""
        return half in ("input", "attention") or self.arch.feed_forward != "none"

    def norm_input(self, x: Tensor, layer: int, half: str) -> Tensor:
        """Returns the input of attention (half "input") or of the feed-forward ("post_attention"): the stream x, normed
        unless the model has post norms."""
        if self.arch.norm_place == "post" or not self.has_half(half):
            return x
        if self.arch.norm_place == "sandwich" and half == "post_attention":
            # In Gemma 2, whose names are used here, post_attention_layernorm is the norm of attention's output.
            half = "pre_feedforward"
        return self._norm(x, f"model.layers.{layer}.{half}_layernorm")

    def norm_output(self, x: Tensor, layer: int, half: str) -> Tensor:
        """Norms the output of "attention" or "feedforward" in models with sandwich norms, before the sum."""
        if self.arch.norm_place != "sandwich" or not self.has_half(half):
            return x
        return self._norm(x, f"model.layers.{layer}.post_{half}_layernorm")

    def norm_stream(self, x: Tensor, layer: int, half: str) -> Tensor:
        """Norms the stream after a half, if the model has post norms."""
        if self.arch.norm_place != "post" or not self.has_half(half):
            return x
        return self._norm(x, f"model.layers.{layer}.{half}_layernorm")

    def embed(self, tokens: Tensor) -> Tensor:
        x = self.weights["model.embed_tokens.weight"][tokens]
        T = tokens.shape[-1]
        if self.arch.positions == "learned":
            x = x + self.weights["model.embed_positions.weight"][:T]
        return x + _sinusoidal_positions(T, x) if self.arch.positions == "sinusoid" else x

    def qkv(self, y: Tensor, layer: int) -> tuple[Tensor, Tensor, Tensor]:
        prefix, arch = f"model.layers.{layer}.", self.arch
        q = _split_heads(self._linear(y, prefix + "self_attn.q_proj"), arch.H)
        k = _split_heads(self._linear(y, prefix + "self_attn.k_proj"), arch.G)
        v = _split_heads(self._linear(y, prefix + "self_attn.v_proj"), arch.G)
        if arch.qk_norm:
            q, k = self._norm(q, prefix + "self_attn.q_norm"), self._norm(k, prefix + "self_attn.k_norm")
        if arch.positions == "rotary":
            q, k = _rotate(q, arch.rope_theta), _rotate(k, arch.rope_theta)
        return q, k, v

    def compute_gates(self, y: Tensor, layer: int) -> Tensor:
        """Returns the gates, [..., H or G, T, K or 1]. y is the normed input of attention (Qiu et al. 2025, G1 and G2),
        or all values of each token in value-state gated attention (Bu et al. 2025)."""
        count = self.arch.H if self.arch.gate.startswith("output") else self.arch.G
        return _split_heads(self._linear(y, f"model.layers.{layer}.self_attn.gate_proj"), count).sigmoid()

    def layer_weight(self, layer: int, name: str) -> Tensor | None:
        return self.weights.get(f"model.layers.{layer}.self_attn.{name}")

    def merge(self, head_outputs: Tensor, layer: int) -> Tensor:
        """Multiplies the head outputs by W_O.  [..., H, T, K] -> [..., T, D]"""
        z = head_outputs.sum(-3) if self.arch.heads == "added" else head_outputs.transpose(-3, -2).flatten(-2)
        return self._linear(z, f"model.layers.{layer}.self_attn.o_proj")

    def _run_feed_forward(self, y: Tensor, prefix: str, gate: str, up: str, down: str) -> Tensor:
        if self.arch.feed_forward == "plain":
            return self._linear(self.act(self._linear(y, prefix + up)), prefix + down)
        inner = self.act(self._linear(y, prefix + gate)) * self._linear(y, prefix + up)
        return self._linear(inner, prefix + down)

    def feed_forward(self, y: Tensor, layer: int) -> tuple[Tensor, Tensor | None]:
        prefix = f"model.layers.{layer}."
        if self.arch.feed_forward == "none":
            return torch.zeros_like(y), None
        if self.arch.E == 0:
            return self._run_feed_forward(y, prefix + "mlp.", "gate_proj", "up_proj", "down_proj"), None
        prefix += "block_sparse_moe."
        probabilities = self._linear(y, prefix + "gate", torch.matmul).softmax(-1)
        top_experts = probabilities.topk(self.arch.top_k, -1)
        weight = torch.zeros_like(probabilities).scatter(-1, top_experts.indices, top_experts.values)
        weight = weight / weight.sum(-1, keepdim=True)
        # Every expert computes every token. The weight is 0 where the router sent the token elsewhere.
        out = sum(
            (
                weight[..., e, None] * self._run_feed_forward(y, f"{prefix}experts.{e}.", "w1", "w3", "w2")
                for e in range(self.arch.E)
            ),
            torch.zeros_like(y),
        )
        return out, weight

    def compute_logits(self, x: Tensor) -> Tensor:
        name = "model.embed_tokens" if self.arch.tied else "lm_head"
        return self._linear(x if self.arch.norm_place == "post" else self._norm(x, "model.norm"), name)


class _Gpt2:
    """A GPT-2: LayerNorm, learned positions, biases everywhere, weights stored [in, out], a tied head."""

    W_O = "h.{}.attn.c_proj"  # name in each layer

    def __init__(self, arch: Architecture, weights: Weights, product: MatrixProduct = torch.matmul) -> None:
        # In files that were saved with the head, names begin with "transformer."; in the original files they do not.
        self.arch, self.product = arch, product
        self.weights = {name.removeprefix("transformer."): w for name, w in weights.items()}

    def _norm(self, x: Tensor, name: str) -> Tensor:
        centered = x - x.mean(-1, keepdim=True)
        scale = torch.rsqrt(centered.pow(2).mean(-1, keepdim=True) + self.arch.norm_eps)
        return centered * scale * self.weights[name + ".weight"] + self.weights[name + ".bias"]

    def _linear(self, x: Tensor, name: str) -> Tensor:
        return self.product(x, self.weights[name + ".weight"]) + self.weights[name + ".bias"]

    def norm_input(self, x: Tensor, layer: int, half: str) -> Tensor:
        return self._norm(x, f"h.{layer}.{'ln_1' if half == 'input' else 'ln_2'}")

    def norm_output(self, x: Tensor, layer: int, half: str) -> Tensor:
        return x

    norm_stream = norm_output

    def embed(self, tokens: Tensor) -> Tensor:
        return self.weights["wte.weight"][tokens] + self.weights["wpe.weight"][: tokens.shape[-1]]

    def qkv(self, y: Tensor, layer: int) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = self._linear(y, f"h.{layer}.attn.c_attn").chunk(3, -1)
        return _split_heads(q, self.arch.H), _split_heads(k, self.arch.H), _split_heads(v, self.arch.H)

    def layer_weight(self, layer: int, name: str) -> Tensor | None:
        return None

    def merge(self, head_outputs: Tensor, layer: int) -> Tensor:
        return self._linear(head_outputs.transpose(-3, -2).flatten(-2), self.W_O.format(layer))

    def feed_forward(self, y: Tensor, layer: int) -> tuple[Tensor, None]:
        y = self._linear(y, f"h.{layer}.mlp.c_fc")
        gelu = 0.5 * y * (1 + torch.tanh(math.sqrt(2 / math.pi) * (y + 0.044715 * y.pow(3))))
        return self._linear(gelu, f"h.{layer}.mlp.c_proj"), None

    def compute_logits(self, x: Tensor) -> Tensor:
        return self.product(self._norm(x, "ln_f"), self.weights["wte.weight"].T)


FAMILIES = {"llama": _Llama, "gpt2": _Gpt2}


def _map_features(model: "_Llama | _Gpt2", layer: int, kind: str, x: Tensor) -> Tensor:
    """Applies the feature map phi to rotated queries or keys.  [..., K] -> [..., K]"""
    if kind == "elu1":
        return elu1(x)
    if kind == "mlp":
        w_in, w_out = model.layer_weight(layer, "kernel_in.weight"), model.layer_weight(layer, "kernel_out.weight")
        if w_in is None or w_out is None:
            raise ValueError("an mlp kernel needs kernel_in and kernel_out, [K, K] each")
        return (x @ w_in.T).relu() @ w_out.T
    return x


def _repeat_for_heads(arch: Architecture, x: Tensor) -> Tensor:
    """Repeats keys or values: head h reads number h // (H/G). [..., G or 1, T, K] -> [..., H, T, K]"""
    return x.repeat_interleave(arch.H // x.shape[-3], -3)


def attend(
    model: "_Llama | _Gpt2", layer: int, q: Tensor, k: Tensor, v: Tensor
) -> tuple[Tensor, Tensor | None, Tensor]:
    """Returns the weights of the tokens, [..., H, T, T], the weights of the bias key if there is one, [..., H, T], and
    the weighted sums of values, [..., H, T, K].  q [..., H, T, K], k and v [..., G, T, K]"""
    arch, operation = model.arch, OPERATIONS[model.arch.operation]
    T, K = q.shape[-2:]
    k, v = _repeat_for_heads(arch, k), _repeat_for_heads(arch, v)
    visible = arch.mask.visible(T, q.device)

    def compute_scores(keys: Tensor) -> Tensor:
        phi_q = _map_features(model, layer, operation.features, q)
        phi_k = _map_features(model, layer, operation.features, keys)
        return phi_q @ phi_k.transpose(-1, -2) / math.sqrt(K)

    x = compute_scores(k)
    distance = distance_bias(arch, T, x)
    if distance is not None:
        x = x + distance
    bias_key = model.layer_weight(layer, "bias_key")
    if bias_key is not None:
        # The bias key comes first. Every query sees it, and it has no position.
        x = torch.cat([compute_scores(_repeat_for_heads(arch, bias_key[:, None])), x], -1)
        visible = torch.cat([visible.new_ones(T, 1), visible], -1)
    weights = operation.weights(x, visible, Parameters(arch.parameters, model.layer_weight(layer, "sinks")))
    if bias_key is None:
        return weights, None, weights @ v
    bias_weights, att = weights[..., 0], weights[..., 1:]
    head_outputs = att @ v
    bias_value = model.layer_weight(layer, "bias_key_value")
    if bias_value is not None:
        head_outputs = head_outputs + bias_weights[..., None] * _repeat_for_heads(arch, bias_value[:, None])
    return att, bias_weights, head_outputs


def _run_attention(model: "_Llama | _Gpt2", layer: int, y: Tensor, visit: Visitor) -> dict[str, Tensor]:
    arch = model.arch
    visit("input", layer, y)
    q, k, v = model.qkv(y, layer)
    record = {}
    gate = None
    if isinstance(model, _Llama) and arch.gate != "none":
        gate = model.compute_gates(v.transpose(-3, -2).flatten(-2) if arch.gate == "value_state" else y, layer)
        record["gate"] = _repeat_for_heads(arch, gate).mean(-1)
        if arch.gate.startswith("value"):
            v, gate = v * gate, None
    visit("values", layer, v)
    att, bias_weights, head_outputs = attend(model, layer, q, k, v)
    if bias_weights is not None:
        record["att_bias"] = bias_weights
    value_bias = model.layer_weight(layer, "value_bias")
    if value_bias is not None:
        head_outputs = head_outputs + value_bias[:, None]
    if gate is not None:
        head_outputs = head_outputs * gate
    out = model.norm_output(model.merge(head_outputs, layer), layer, "attention")
    return record | {"q": q, "k": k, "v": v, "att": att, "att_out": out}


def forward(
    arch: Architecture,
    weights: Weights,
    tokens: Tensor,
    product: MatrixProduct = torch.matmul,
    visit: Visitor = lambda name, layer, x: None,
) -> Trace:
    """Runs tokens [..., T], and returns all intermediate results and the logits. `product` multiplies by all weight
    matrices, except for routers and feature maps. `visit` is called in each layer with "stream" (the residual stream
    before the layer), "input" (the input of attention) and "values" [..., G, T, K], and may add hooks to these tensors.
    """
    model = FAMILIES[arch.family](arch, weights, product)
    x = model.embed(tokens)
    fields: dict[str, list[Tensor]] = {"hidden": [x]}
    for layer in range(arch.L):
        visit("stream", layer, x)
        y = model.norm_input(x, layer, "input")
        # Without a norm, y is the stream. A clone keeps the gradient of attention's input apart from the stream's.
        record = _run_attention(model, layer, y.clone() if y is x else y, visit)
        x = model.norm_stream(x + record["att_out"], layer, "input")
        mlp_out, router = model.feed_forward(model.norm_input(x, layer, "post_attention"), layer)
        mlp_out = model.norm_output(mlp_out, layer, "feedforward")
        x = model.norm_stream(x + mlp_out, layer, "post_attention")
        record |= {"hidden": x, "mlp_out": mlp_out}
        if router is not None:
            record["router"] = router
        for name, value in record.items():
            fields.setdefault(name, []).append(value)
    batch_rank = tokens.dim() - 1
    stacked = {name: torch.stack(values, batch_rank) for name, values in fields.items()}
    return Trace(logits=model.compute_logits(x), **stacked)
