"""The models: a Llama block and a GPT-2 block, written from their equations.

Letters: L layers, H query heads, G key/value heads, T tokens, D model width, K head width,
F feed-forward width, V vocabulary. Weights are a dict from Hugging Face tensor names to tensors, so
that a file is loaded, trained and stored under the same names. Leading dimensions (a batch N) are
allowed everywhere and written "...".
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from .operations import OPERATIONS, Operation, Parameters

Weights = dict[str, Tensor]


@dataclass(frozen=True)
class Architecture:
    family: str  # "llama" or "gpt2"
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
    parameters: Mapping[str, float]  # of the operation, all of them
    rope_theta: float = 10000.0  # read by llama only


@dataclass(frozen=True)
class Trace:
    """Everything one forward pass computed, in the order it was computed."""

    hidden: Tensor  # [..., L+1, T, D]  residual stream: embedding, then after each block
    q: Tensor  # [..., L, H, T, K]  after rotation
    k: Tensor  # [..., L, G, T, K]  after rotation
    v: Tensor  # [..., L, G, T, K]
    att: Tensor  # [..., L, H, T, T]  row i: the weights of query i; 0 above the diagonal
    att_out: Tensor  # [..., L, T, D]  what attention adds to the residual stream
    mlp_out: Tensor  # [..., L, T, D]  what the feed-forward adds to it
    logits: Tensor  # [..., T, V]


def architecture(config: dict[str, Any]) -> Architecture:
    """What a config.json says, in this project's letters."""
    attention = config.get("sinkscope", {}).get("attention", {})
    operation = attention.get("operation", "softmax")
    standard, given = OPERATIONS[operation].standard, attention.get("parameters", {})
    if unknown := set(given) - set(standard):
        raise ValueError(f"{operation} has no parameter {', '.join(sorted(unknown))}")
    parameters = {**standard, **given}
    if config["model_type"] == "llama":
        D, H = config["hidden_size"], config["num_attention_heads"]
        # transformers 5 moved the base of the rotation into a sub-object
        rope = config.get("rope_parameters") or {}
        return Architecture(
            "llama", config["num_hidden_layers"], H, config.get("num_key_value_heads") or H, D,
            config.get("head_dim") or D // H, config["intermediate_size"], config["vocab_size"],
            config["max_position_embeddings"], config["rms_norm_eps"],
            config["tie_word_embeddings"], operation, parameters,
            rope.get("rope_theta", config.get("rope_theta", 10000.0)),
        )
    if config["model_type"] == "gpt2":
        D, H = config["n_embd"], config["n_head"]
        return Architecture(
            "gpt2", config["n_layer"], H, H, D, D // H, config.get("n_inner") or 4 * D,
            config["vocab_size"], config["n_positions"], config["layer_norm_epsilon"],
            True, operation, parameters,
        )
    raise ValueError(f"model_type is {config['model_type']!r}, expected 'llama' or 'gpt2'")


def _heads(x: Tensor, count: int) -> Tensor:
    """[..., T, count*K] -> [..., count, T, K]"""
    return x.unflatten(-1, (count, -1)).transpose(-3, -2)


def _rotate(x: Tensor, theta: float) -> Tensor:
    """Turn the pair (j, j + K/2) of position t by the angle t * theta^(-2j/K).  [..., T, K]"""
    T, K = x.shape[-2:]
    speed = theta ** (-torch.arange(0, K, 2, dtype=x.dtype, device=x.device) / K)
    angle = torch.arange(T, dtype=x.dtype, device=x.device)[:, None] * speed
    first, second = x.chunk(2, -1)
    return torch.cat([first * angle.cos() - second * angle.sin(),
                      second * angle.cos() + first * angle.sin()], -1)


class _Llama:
    """RMSNorm, rotary positions, grouped heads, SwiGLU; a bias wherever the file has one."""

    def __init__(self, arch: Architecture, weights: Weights) -> None:
        self.arch, self.weights = arch, weights

    def _norm(self, x: Tensor, name: str) -> Tensor:
        mean_square = x.pow(2).mean(-1, keepdim=True)
        return x * torch.rsqrt(mean_square + self.arch.norm_eps) * self.weights[name + ".weight"]

    def _linear(self, x: Tensor, name: str) -> Tensor:
        y = x @ self.weights[name + ".weight"].T
        bias = self.weights.get(name + ".bias")
        return y if bias is None else y + bias

    def embed(self, tokens: Tensor) -> Tensor:
        return self.weights["model.embed_tokens.weight"][tokens]

    def qkv(self, x: Tensor, layer: int) -> tuple[Tensor, Tensor, Tensor]:
        at, arch = f"model.layers.{layer}.", self.arch
        y = self._norm(x, at + "input_layernorm")
        q = _heads(self._linear(y, at + "self_attn.q_proj"), arch.H)
        k = _heads(self._linear(y, at + "self_attn.k_proj"), arch.G)
        v = _heads(self._linear(y, at + "self_attn.v_proj"), arch.G)
        return _rotate(q, arch.rope_theta), _rotate(k, arch.rope_theta), v

    def sink(self, layer: int) -> Tensor | None:
        return self.weights.get(f"model.layers.{layer}.self_attn.sinks")

    def merge(self, z: Tensor, layer: int) -> Tensor:
        return self._linear(z, f"model.layers.{layer}.self_attn.o_proj")

    def feed_forward(self, x: Tensor, layer: int) -> Tensor:
        at = f"model.layers.{layer}."
        y = self._norm(x, at + "post_attention_layernorm")
        gate = functional.silu(self._linear(y, at + "mlp.gate_proj"))
        return self._linear(gate * self._linear(y, at + "mlp.up_proj"), at + "mlp.down_proj")

    def head(self, x: Tensor) -> Tensor:
        name = "model.embed_tokens" if self.arch.tied else "lm_head"
        return self._linear(self._norm(x, "model.norm"), name)


class _Gpt2:
    """LayerNorm, learned positions, biases everywhere, weights stored [in, out], tied head."""

    def __init__(self, arch: Architecture, weights: Weights) -> None:
        # Some files carry the prefix "transformer.", the original ones do not.
        self.arch = arch
        self.weights = {name.removeprefix("transformer."): w for name, w in weights.items()}

    def _norm(self, x: Tensor, name: str) -> Tensor:
        centred = x - x.mean(-1, keepdim=True)
        scale = torch.rsqrt(centred.pow(2).mean(-1, keepdim=True) + self.arch.norm_eps)
        return centred * scale * self.weights[name + ".weight"] + self.weights[name + ".bias"]

    def _linear(self, x: Tensor, name: str) -> Tensor:
        return x @ self.weights[name + ".weight"] + self.weights[name + ".bias"]

    def embed(self, tokens: Tensor) -> Tensor:
        return self.weights["wte.weight"][tokens] + self.weights["wpe.weight"][: tokens.shape[-1]]

    def qkv(self, x: Tensor, layer: int) -> tuple[Tensor, Tensor, Tensor]:
        y = self._norm(x, f"h.{layer}.ln_1")
        q, k, v = self._linear(y, f"h.{layer}.attn.c_attn").chunk(3, -1)
        return _heads(q, self.arch.H), _heads(k, self.arch.H), _heads(v, self.arch.H)

    def sink(self, layer: int) -> Tensor | None:
        return None

    def merge(self, z: Tensor, layer: int) -> Tensor:
        return self._linear(z, f"h.{layer}.attn.c_proj")

    def feed_forward(self, x: Tensor, layer: int) -> Tensor:
        y = self._linear(self._norm(x, f"h.{layer}.ln_2"), f"h.{layer}.mlp.c_fc")
        gelu = 0.5 * y * (1 + torch.tanh(math.sqrt(2 / math.pi) * (y + 0.044715 * y.pow(3))))
        return self._linear(gelu, f"h.{layer}.mlp.c_proj")

    def head(self, x: Tensor) -> Tensor:
        return self._norm(x, "ln_f") @ self.weights["wte.weight"].T


_FAMILIES = {"llama": _Llama, "gpt2": _Gpt2}


def attend(operation: Operation, parameters: Parameters, q: Tensor, k: Tensor, v: Tensor,
           ) -> tuple[Tensor, Tensor]:
    """q [..., H, T, K], k and v [..., G, T, K] -> weights [..., H, T, T], mix [..., T, H*K]"""
    H, T, K = q.shape[-3:]
    per_group = H // k.shape[-3]  # query head h reads key/value head h // (H/G)
    k, v = k.repeat_interleave(per_group, -3), v.repeat_interleave(per_group, -3)
    seen = torch.ones(T, T, dtype=torch.bool, device=q.device).tril()
    scores = q @ k.transpose(-1, -2) / math.sqrt(K)
    att = operation.weights(scores, seen, parameters)
    return att, (att @ v).transpose(-3, -2).flatten(-2)


def forward(arch: Architecture, weights: Weights, tokens: Tensor) -> Trace:
    """tokens [..., T] -> everything the model computed on the way to its logits."""
    model = _FAMILIES[arch.family](arch, weights)
    operation = OPERATIONS[arch.operation]
    x = model.embed(tokens)
    steps: dict[str, list[Tensor]] = {
        name: [] for name in ("hidden", "q", "k", "v", "att", "att_out", "mlp_out")
    }
    steps["hidden"].append(x)
    for layer in range(arch.L):
        q, k, v = model.qkv(x, layer)
        parameters = Parameters(arch.parameters, model.sink(layer))
        att, mixed = attend(operation, parameters, q, k, v)
        att_out = model.merge(mixed, layer)
        x = x + att_out
        mlp_out = model.feed_forward(x, layer)
        x = x + mlp_out
        for name, value in (("hidden", x), ("q", q), ("k", k), ("v", v), ("att", att),
                            ("att_out", att_out), ("mlp_out", mlp_out)):
            steps[name].append(value)
    batch_rank = tokens.dim() - 1  # the new dimension L stands right after the batch
    stacked = {name: torch.stack(values, batch_rank) for name, values in steps.items()}
    return Trace(logits=model.head(x), **stacked)
