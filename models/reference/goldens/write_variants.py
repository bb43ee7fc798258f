"""Writes tests/golden/var-*: tiny llamas with every variant of Gu et al. (2025), sections 4-7, and their traces and
metrics, computed by the reference in F64.

    python -m models.reference.goldens.write_variants                     every case
    python -m models.reference.goldens.write_variants var-bias-key var-int8     these cases

variants.json lists the cases. A case combines features that affect the same computation, such as a bias key with a
window, or a gate with grouped heads. The tensors "metric.*" are all metrics that the model has. Metrics of single
heads begin with dimensions [L, H].
"""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from sinkscope import metrics
from torch import Tensor

from ..files import read_weights, to_int8, write_model, write_stored_model
from ..model import Architecture, Mask, MatrixProduct, Trace, Weights, _Llama, architecture, attend
from ..operations import OPERATIONS
from ..shapes import shapes
from . import GOLDEN
from .write_goldens import describe, draw_large_weights, run_in_f64, store, write_cases


@dataclass(frozen=True)
class Case:
    variant: dict[str, Any]  # "sinkscope" in config.json
    sizes: dict[str, Any] = field(default_factory=dict)
    family: str = "llama"
    T: int = 8
    int8: bool = False  # stores matrices as I8 and other tensors as F16, instead of F32


# The sizes in `unequal` all differ (T is 11 or 12, E is 5), so that mixing up two letters changes the result.
TABLE: dict[str, Any] = json.loads(Path(__file__).with_name("variants.json").read_text())
SIZES: dict[str, Any] = TABLE["sizes"]["all"]


def case_of(row: dict[str, Any]) -> Case:
    shared = TABLE["sizes"].get(row.get("shared"), {})
    options = {key: row[key] for key in ("family", "T", "int8") if key in row}
    return Case(row["variant"], shared | row.get("sizes", {}), **options)


CASES = {name: case_of(row) for name, row in TABLE["cases"].items()}


def out_norm(arch: Architecture, weights: Weights, v: Tensor) -> Tensor:
    """Returns |W_O v|, with each head's columns of W_O.  v [L, H, T, K] -> [L, H, T]"""
    o = (
        torch.stack([weights[f"model.layers.{layer}.self_attn.o_proj.weight"] for layer in range(arch.L)])
        .to(v)
        .unflatten(-1, (-1, arch.K))
    )
    return torch.einsum("ldhk,lhtk->lhtd", o.expand(-1, -1, arch.H, -1), v).norm(dim=-1)


class _RecordingLlama(_Llama):
    def _linear(self, x: Tensor, name: str, product: MatrixProduct | None = None) -> Tensor:
        if name.endswith("mlp.down_proj"):
            self.inner = x
        return super()._linear(x, name, product)


def compute_spikes(arch: Architecture, weights: Weights, trace: Trace) -> Tensor:
    model = _RecordingLlama(arch, {name: w.double() for name, w in weights.items()})
    inputs, outputs = [], []
    for layer, x in enumerate(trace.hidden[:-1] + trace.att_out):
        mid_stream = model.norm_stream(x, layer, "input")
        outputs.append(model.feed_forward(model.norm_input(mid_stream, layer, "post_attention"), layer)[0])
        inputs.append(model.inner)
    down = torch.stack([model.weights[f"model.layers.{layer}.mlp.down_proj.weight"] for layer in range(arch.L)])
    return metrics.spikes(torch.stack(inputs), torch.stack(outputs), down)


def _head_outputs(model: _Llama, trace: Trace, layer: int) -> Tensor:
    return attend(model, layer, trace.q[layer], trace.k[layer], trace.v[layer])[2]


def _split_output(model: _Llama, layer: int, head_outputs: Tensor) -> tuple[Tensor, Tensor]:
    """Splits the product of head outputs with W_O: returns what each head adds to the stream, [H, n, D], and the bias
    of W_O, [D].  head_outputs [H, n, K]"""
    bias = model.merge(torch.zeros_like(head_outputs), layer)
    one_hot = torch.eye(len(head_outputs), dtype=head_outputs.dtype)
    head_vectors = [model.merge(head_outputs * head_mask[:, None, None], layer) - bias for head_mask in one_hot]
    return torch.stack(head_vectors), bias[0]


def tag_shares(arch: Architecture, weights: Weights, trace: Trace) -> dict[str, Tensor]:
    """Returns two shares, over all tokens but the first, [L, H] each: the share of each head's output along the first
    token's value, and the share of the stream's variance, after the head's layer, along what this value adds to the
    stream."""
    model = _build_model(arch, weights)
    values = trace.v[:, :, 0].repeat_interleave(arch.H // arch.G, 1)
    head_outputs = torch.stack([_head_outputs(model, trace, layer) for layer in range(arch.L)])
    shares = {"tag_share": metrics.tag_share(head_outputs[:, :, 1:], values)}
    if arch.norm_place != "pre" or arch.gate == "output_element":
        return shares | {"tag_stream": torch.full((arch.L, arch.H), torch.nan)}
    added_vectors = torch.stack(
        [_split_output(model, layer, values[layer, :, None])[0][:, 0] for layer in range(arch.L)]
    )
    stream = trace.hidden[1:, None, 1:].expand(-1, arch.H, -1, -1)
    return shares | {"tag_stream": metrics.tag_share(stream, added_vectors, centered=True)}


def stable_ranks(arch: Architecture, weights: Weights, trace: Trace) -> Tensor:
    """Returns the stable rank of what each head adds to all tokens but the first, without a value bias. [L, H]"""
    model = _build_model(arch, weights)
    if (arch.gate or "").startswith("output"):
        return torch.full((arch.L, arch.H), torch.nan)
    return torch.stack(
        [
            metrics.stable_rank(_split_output(model, layer, _head_outputs(model, trace, layer)[:, 1:])[0])
            for layer in range(arch.L)
        ]
    )


class _FirstKeyLogit:
    """A layer's logit of the first key, averaged over queries, as a function of the first token's residual stream. The
    scale of the norm does not change with the stream."""

    def __init__(self, model: _Llama, trace: Trace, layer: int) -> None:
        arch = self.arch = model.arch
        self.model, self.name = model, f"model.layers.{layer}"
        x = trace.hidden[layer, 0]
        self.uses_layer_norm = arch.norm_kind == "layer"
        mean_square = x.var(correction=0) if self.uses_layer_norm else x.square().mean()
        self.scale = mean_square.add(arch.norm_eps).sqrt()
        self.query = trace.q[layer].mean(1) * arch.K**-0.5
        gain, self.bias = (model.weights.get(f"{self.name}.input_layernorm.{part}") for part in ("weight", "bias"))
        assert gain is not None
        self.gain = gain

    def logit_of(self, y: Tensor) -> Tensor:
        arch = self.arch
        keys = self.model._linear(y, f"{self.name}.self_attn.k_proj").view(arch.G, arch.K)
        return (self.query * keys.repeat_interleave(arch.H // arch.G, 0)).sum(-1)

    def contribution(self, r: Tensor) -> Tensor:
        y = (r - r.mean() if self.uses_layer_norm else r) / self.scale
        return self.logit_of(y * self.gain) - self.logit_of(torch.zeros_like(r))

    def bias_contribution(self) -> Tensor:
        return self.logit_of(torch.zeros_like(self.gain) if self.bias is None else self.bias)


def _build_model(arch: Architecture, weights: Weights) -> _Llama:
    return _Llama(arch, {name: w.double() for name, w in weights.items()})


def logit_parts(arch: Architecture, weights: Weights, trace: Trace) -> Tensor:
    """Returns what each component of the residual stream contributes to the mean over queries of the first key's logit:
    the logit's derivative along the component, with the norm's scale held fixed. The last part is that of the norm's
    bias. Components from layers above are NaN.  [L, H, 2L+2]"""
    model = _build_model(arch, weights)
    parts = torch.full((arch.L, arch.H, 2 * arch.L + 2), torch.nan, dtype=torch.float64)
    for layer in range(arch.L if arch.norm_place != "post" else 0):
        components = [trace.hidden[0, 0]] + [
            out[source_layer, 0] for source_layer in range(layer) for out in (trace.att_out, trace.mlp_out)
        ]
        assert torch.allclose(torch.stack(components).sum(0), trace.hidden[layer, 0], atol=1e-12)
        logits = _FirstKeyLogit(model, trace, layer)
        for c, r in enumerate(components):
            parts[layer, :, c] = logits.contribution(r)
        parts[layer, :, -1] = logits.bias_contribution()
        expected = logits.query @ trace.k[layer, :, 0].T
        groups = torch.arange(arch.H) // (arch.H // arch.G)
        assert torch.allclose(parts[layer].nansum(-1), expected[torch.arange(arch.H), groups], atol=1e-9)
    return parts


def logit_parts_heads(arch: Architecture, weights: Weights, trace: Trace) -> Tensor:
    """Returns what each head of the layers below contributes to the mean over queries of the first key's logit, by its
    addition to the first token's stream.  [L, H, L, H]"""
    model = _build_model(arch, weights)
    parts = torch.full((arch.L, arch.H, arch.L, arch.H), torch.nan, dtype=torch.float64)
    if arch.norm_place != "pre" or (arch.gate or "").startswith("output"):
        return parts
    for source_layer in range(arch.L):
        value_bias = model.layer_weight(source_layer, "value_bias")
        head_outputs = _head_outputs(model, trace, source_layer)[:, :1]
        if value_bias is not None:
            head_outputs = head_outputs + value_bias[:, None]
        head_vectors, bias = _split_output(model, source_layer, head_outputs)
        head_vectors = head_vectors[:, 0]
        assert torch.allclose(head_vectors.sum(0) + bias, trace.att_out[source_layer, 0], atol=1e-9)
        for layer in range(source_layer + 1, arch.L):
            logits = _FirstKeyLogit(model, trace, layer)
            parts[layer, :, source_layer] = torch.stack([logits.contribution(vector) for vector in head_vectors], -1)
    return parts


def compute_metrics(arch: Architecture, weights: Weights, trace: Trace, tokens: Tensor) -> dict[str, Tensor]:
    """Returns every metric of the core's table. Shares are taken of the whole row, bias key included, even in metrics
    that list the tokens alone."""
    T, bias, mask = trace.att.shape[-1], trace.att_bias, arch.mask
    rows = trace.att if bias is None else torch.cat([bias[..., None], trace.att], -1)
    share = OPERATIONS[arch.operation].to_shares(rows)
    visible = mask.visible(T, rows.device)
    # The uniform baseline, and the pairs of queries and keys, ignore a window.
    visible_without_window = Mask().visible(T, rows.device) if mask.kind == "window" else visible
    visible_counts = visible_without_window.sum(-1, keepdim=True)
    uniform_weights = visible_without_window.double() / (visible_counts + (bias is not None))
    alpha = metrics.alpha(share[..., -T:], mask.kind)
    raw_alpha = metrics.alpha(trace.att, mask.kind)
    mass = metrics.row_mass(trace.att)
    entropy = metrics.entropy(share, visible.sum(-1) + (bias is not None))
    results = {
        "alpha": alpha,
        "alpha_raw": raw_alpha,
        "alpha_uniform": metrics.alpha(uniform_weights, mask.kind),
        "sink_ratio": metrics.sink(alpha) / 100,
        "sink_ratio_raw": metrics.sink(raw_alpha) / 100,
        "near_eps": metrics.near(alpha),
        "row_mass": mass,
        "row_mass_summary": torch.stack([mass.mean(-1), mass.amin(-1), mass.amax(-1)], -1),
        "entropy": entropy,
        "entropy_mean": entropy.mean(-1),
        "diagonal": metrics.diagonal(share[..., -T:]),
        "loss_mean": _token_losses(arch, trace, tokens).mean()[None],
        "accuracy": metrics.accuracy(_drop_seen_tokens(arch, metrics.rank(trace.logits, tokens)))[None],
    }
    if bias is not None:
        alpha_bias = metrics.alpha_bias(share[..., 0])[..., 0]
        results |= {"alpha_bias": alpha_bias, "sink_ratio_bias": (alpha_bias > metrics.EPS).double().mean()[None]}
    if trace.gate is not None:
        results["gate_mean"] = trace.gate.mean(-1)
    results |= metrics.geometry(trace.q, trace.k.repeat_interleave(arch.H // arch.G, 1), visible_without_window)
    for name, vectors in (("hidden", trace.hidden), ("key", trace.k), ("value", trace.v)):
        results |= {f"{name}_norm": vectors.norm(dim=-1), f"{name}_ratio": metrics.first_to_others(vectors)}
    results |= metrics.massive(trace.hidden)
    v = trace.v.repeat_interleave(arch.H // arch.G, 1)
    results |= {
        name: metrics.contributions(trace.att, lengths, visible_without_window, mask.kind)
        for name, lengths in (("contribution_at", v.norm(dim=-1)), ("contribution_out_at", out_norm(arch, weights, v)))
    }
    results |= {
        "first_share": share[..., -T:][..., 0].mean(-1),
        "contribution": results["contribution_at"][..., 0],
        "keeps_first": torch.ones(arch.L, arch.H),
        "mixing": metrics.mixing(trace.hidden),
        "kurtosis": metrics.kurtosis(trace.hidden),
        "matrix_entropy": metrics.matrix_entropy(trace.hidden),
        "matrix_entropy_others": metrics.matrix_entropy(trace.hidden[:, 1:]),
    }
    gate = metrics.head_gate(share[..., -T], to_bias=None if bias is None else share[..., 0])
    load = metrics.head_load(gate)
    results |= {"head_gate": gate, "head_load": load, "head_gini": metrics.head_gini(load)}
    results["logit_parts"] = logit_parts(arch, weights, trace)
    results["logit_parts_heads"] = logit_parts_heads(arch, weights, trace)
    results |= tag_shares(arch, weights, trace) | {"stable_rank": stable_ranks(arch, weights, trace)}
    if arch.E == 0 and arch.feed_forward != "none":
        results["super_weight"] = metrics.super_weight(compute_spikes(arch, weights, trace))
    if mask.kind in ("causal", "window"):
        results["loss_at"] = torch.cat([torch.full((1,), torch.nan), metrics.loss(trace.logits, tokens)])
    _refuse_near_ties(torch.cat([alpha.flatten(), raw_alpha.flatten()]), trace.hidden)
    return {f"metric.{name}": value for name, value in results.items()}


def _refuse_near_ties(alphas: Tensor, hidden: Tensor) -> None:
    """Refuses a golden where rounding could decide: an alpha near eps or near eps +- NEAR, or two nearly equal
    activations among the largest. Equal ones are allowed, since the same token has the same embedding."""
    gaps = (alphas - metrics.EPS).abs()
    if torch.minimum(gaps, (gaps - metrics.NEAR).abs()).min() < 2e-5:
        raise AssertionError("a head lies so close to eps that rounding decides")
    largest = hidden.abs().flatten(1).topk(4, -1).values
    ratios = -largest.diff() / largest[:, :1]
    if (ratios[1:] < 1e-5).any() or ((ratios[0] > 0) & (ratios[0] < 1e-5)).any():
        raise AssertionError("rounding decides which activation is larger")


def _drop_seen_tokens(arch: Architecture, token_values: Tensor) -> Tensor:
    """Drops the values of tokens that an earlier query has seen.  [T-1], without the first token -> [..]"""
    first = {"prefix": arch.mask.size, "bidirectional": len(token_values) + 1}.get(arch.mask.kind, 1)
    return token_values[first - 1 :]


def _token_losses(arch: Architecture, trace: Trace, tokens: Tensor) -> Tensor:
    return _drop_seen_tokens(arch, metrics.loss(trace.logits, tokens))


def write(name: str, case: Case) -> None:
    folder = GOLDEN / name
    config = {"model_type": case.family} | SIZES | case.sizes | {"sinkscope": case.variant}
    arch = architecture(config)
    generator = torch.Generator().manual_seed(7)
    weights = {
        weight: draw_large_weights(weight, torch.Size(shape), generator) for weight, shape in shapes(arch).items()
    }
    if case.int8:
        write_stored_model(folder, config, to_int8(weights))
        weights = read_weights(folder / "model.safetensors")
    else:
        write_model(folder, config, weights, torch.float32)
    tokens = torch.randint(arch.V, (case.T,), generator=generator)
    trace = run_in_f64(arch, weights, tokens)
    tensors = {"tokens": tokens} | trace.fields() | compute_metrics(arch, weights, trace, tokens)
    tensors["out_norm"] = out_norm(arch, weights, trace.v.repeat_interleave(arch.H // arch.G, 1))
    if arch.E == 0 and arch.feed_forward != "none":
        tensors["spikes"] = compute_spikes(arch, weights, trace)
    if arch.mask.kind in ("causal", "window"):  # under other masks earlier tokens have seen later ones
        tensors["loss"] = _token_losses(arch, trace, tokens)
        tensors["rank"] = metrics.rank(trace.logits, tokens).double()
    store(folder, tensors)
    describe(folder, case.family, arch.operation, "Random weights, computed in F64.", script="write_variants.py")


def main() -> None:
    write_cases("Write tests/golden/var-*", CASES, write)


if __name__ == "__main__":
    main()
