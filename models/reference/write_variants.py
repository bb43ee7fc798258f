"""Write tests/golden/var-*: tiny llamas with every variant of Gu et al. (2025), sections 4-7, and what
this reference computes with them in F64.

    python -m models.reference.write_variants                     every case
    python -m models.reference.write_variants var-bias-key var-int8     these cases

A case combines what meets in the arithmetic: a bias key with a window, a gate with grouped heads.
Tensors "metric.*" are the metrics of the map, on the shares of its rows.
"""

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor

from . import metrics
from .files import read_weights, to_int8, write_model, write_stored
from .model import Architecture, Trace, architecture
from .operations import OPERATIONS
from .shapes import shapes
from .write_goldens import GOLDEN, describe, f64_trace, lively, store, write_cases

SIZES = {
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 4, "hidden_size": 12,
    "head_dim": 4, "intermediate_size": 8, "vocab_size": 20, "max_position_embeddings": 32,
    "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu", "tie_word_embeddings": True,
}
GROUPED = {"num_key_value_heads": 2}


@dataclass(frozen=True)
class Case:
    own: dict[str, Any]  # the object "sinkscope"
    sizes: dict[str, Any] = field(default_factory=dict)  # what differs from SIZES
    family: str = "llama"
    T: int = 8
    int8: bool = False  # matrices are stored as I8, the rest as F16


def _does(operation: str, **own: Any) -> dict[str, Any]:
    return {"attention": {"operation": operation}} | own


CASES: dict[str, Case] = {
    "var-bias-key": Case({"bias_key": "head"}, GROUPED),
    "var-bias-key-value": Case(
        _does("sigmoid", bias_key="head", bias_key_value="head", value_bias="shared"), GROUPED),
    "var-bias-key-window": Case({"bias_key": "shared", "bias_key_value": "shared",
                                 "mask": {"kind": "window", "window": 4}}),
    "var-gate-element": Case({"gate": "output_element", "value_bias": "head"}, GROUPED),
    "var-gate-head": Case({"gate": "output_head", "heads": "added"}, GROUPED),
    "var-gate-value": Case({"gate": "value_element", "heads": "added", "value_bias": "head"},
                           GROUPED),
    "var-gate-value-head": Case({"gate": "value_head", "bias_key": "head"},
                                GROUPED | {"sliding_window": None}, family="mistral"),
    # Three heads have slopes of two powers of two; an odd head width has no rotary positions.
    "var-alibi": Case({"positions": "alibi", "bias_key": "head", "bias_key_value": "head"},
                      {"num_attention_heads": 3, "num_key_value_heads": 3, "head_dim": 5}),
    # Beyond 16 keys, where the buckets are logarithmic.
    "var-relative": Case({"positions": "relative"},
                         {"num_attention_heads": 2, "num_key_value_heads": 1, "hidden_size": 8}, T=29),
    "var-sinusoid": Case({"positions": "sinusoid", "norm": "post", "norm_kind": "layer",
                          "feed_forward": "plain"}, {"hidden_act": "gelu"}),
    "var-learned": Case({"positions": "learned", "norm_kind": "layer", "feed_forward": "plain"},
                        {"hidden_act": "relu"}),
    "var-none": Case({"positions": "none", "norm": "post", "feed_forward": "plain"}),
    "var-geglu": Case(_does("relu", norm="post", gate="output_element"), {"hidden_act": "gelu"}),
    "var-prefix": Case({"mask": {"kind": "prefix", "prefix": 4}, "positions": "alibi"}),
    "var-prefix-bias-key": Case(_does("sigmoid", bias_key="head",
                                      mask={"kind": "prefix", "prefix": 3})),
    "var-bidirectional": Case({"mask": {"kind": "bidirectional"}, "mask_token": 1,
                               "gate": "output_head"}, GROUPED),
    "var-bidirectional-bias-key": Case(_does("sigmoid_log_n", mask={"kind": "bidirectional"},
                                             bias_key="head", positions="relative")),
    "var-elu1_norm": Case(_does("elu1_norm", bias_key="head")),
    "var-identity_norm": Case(_does("identity_norm", mask={"kind": "window", "window": 5})),
    "var-elu1_kernel": Case(_does("elu1_kernel", bias_key="head", positions="alibi"), GROUPED),
    "var-elu1_kernel_norm": Case(_does("elu1_kernel_norm"), GROUPED),
    "var-mlp_kernel": Case(_does("mlp_kernel"), GROUPED),
    "var-mlp_kernel_norm": Case(_does("mlp_kernel_norm", bias_key="shared",
                                      bias_key_value="head"), GROUPED),
    "var-experts": Case({"bias_key": "head", "norm_kind": "layer", "feed_forward": "plain"},
                        {"num_local_experts": 3, "num_experts_per_tok": 2, "sliding_window": None},
                        family="mixtral"),
    "var-int8": Case({"positions": "learned", "gate": "value_element", "bias_key": "head"},
                     GROUPED | {"tie_word_embeddings": False}, int8=True),
}


def _entropy(share: Tensor, seen: Tensor) -> Tensor:
    """Row entropy over its largest value, ln of the keys in sight; NaN for a row that weighs nothing.
    share [..., T, n], seen [T]"""
    rows = -torch.xlogy(share, share).sum(-1)
    most = seen.to(rows.dtype).log()
    entropy = torch.where(most > 0, rows / most.clamp_min(1e-30), torch.zeros_like(rows))
    return torch.where(share.sum(-1) > 0, entropy, torch.nan)


def measurements(arch: Architecture, trace: Trace) -> dict[str, Tensor]:
    """Shares are taken of the whole row, the bias key included, and not renormalised without it."""
    T, bias = trace.att.shape[-1], trace.att_bias
    rows = trace.att if bias is None else torch.cat([bias[..., None], trace.att], -1)
    share = OPERATIONS[arch.operation].share(rows)
    seen = arch.mask.seen(T, rows.device).sum(-1) + (bias is not None)
    found = {"alpha": metrics.alpha(share[..., -T:], arch.mask.kind),
             "entropy": _entropy(share, seen), "row_mass": trace.att.sum(-1)}
    if bias is not None:
        alpha_bias = metrics.alpha_bias(share[..., 0])
        found |= {"alpha_bias": alpha_bias[..., 0],
                  "sink_ratio_bias": (alpha_bias > metrics.EPS).double().mean()[None]}
    if trace.gate is not None:
        found["gate_mean"] = trace.gate.mean(-1)
    return {f"metric.{name}": value for name, value in found.items()}


def write(name: str, case: Case) -> None:
    folder = GOLDEN / name
    config = {"model_type": case.family} | SIZES | case.sizes | {"sinkscope": case.own}
    arch = architecture(config)
    generator = torch.Generator().manual_seed(7)
    weights = {weight: lively(weight, torch.Size(shape), generator)
               for weight, shape in shapes(arch).items()}
    if case.int8:
        write_stored(folder, config, to_int8(weights))
        weights = read_weights(folder / "model.safetensors")
    else:
        write_model(folder, config, weights, torch.float32)
    tokens = torch.randint(arch.V, (case.T,), generator=generator)
    trace = f64_trace(arch, weights, tokens)
    found = {"tokens": tokens} | trace.fields() | measurements(arch, trace)
    if arch.mask.kind in ("causal", "window"):  # else earlier tokens have seen later ones
        found["loss"] = metrics.loss(trace.logits, tokens)
    store(folder, found)
    (folder / "golden.safetensors").chmod(0o644)
    describe(folder, case.family, arch.operation, "Random weights, computed in F64.",
             script="write_variants.py")


def main() -> None:
    write_cases({name: partial(write, name, case) for name, case in CASES.items()},
                "Write tests/golden/var-*")


if __name__ == "__main__":
    main()
