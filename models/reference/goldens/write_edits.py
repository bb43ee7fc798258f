"""Writes tests/golden/edit-*: runs with each edit on a Llama, a GPT-2, a GPT-Neo and a GPT-NeoX. Edits of attention
are also run on a Llama with sigmoid weights, which depend on the number of visible keys, and edits that round weights
also on a Mixtral. edits.py computes the runs in F64.

    python -m models.reference.goldens.write_edits

The models are those of other goldens, which golden.json names. Without edits, edits.py must reproduce these goldens,
which Hugging Face transformers computed, except the Llama's.
"""

import json
from dataclasses import replace

import torch
from safetensors.torch import load_file
from sinkscope import metrics
from torch import Tensor

from ..edits import Edit, Model, layer_index, parse_edit, quantized_weights, run_edited
from ..files import read_weights
from ..model import Architecture, architecture
from . import GOLDEN
from .write_goldens import TOLERANCE, describe, scaled_error, store, write_cases

MODELS = {
    "llama": "var-unequal",
    "gpt2": "hf-gpt2-plain",
    "gpt_neo": "hf-gpt_neo",
    "gpt_neox": "hf-gpt_neox",
    "sigmoid": "ref-sigmoid_log_n",
    "mixtral": "hf-mixtral",
}
LLAMA_MODELS = ("sigmoid", "mixtral")

# Each kind of edit has at least one case. The values assume at least 11 tokens.
EDITS: dict[str, tuple[str, ...]] = {
    "hide": ("hide_key(key=0)", "hide_key(key=3,layer=1,head=1,query=7)"),
    "self": ("self_only(token=4)",),
    "value": ("scale_value(key=0,factor=0)", "scale_value(key=2,factor=-1.5,layer=1,group=1)"),
    "heads": ("silence(layer=0,head=1)", "park(layer=1,head=0)", "park(layer=1,head=1,key=2)"),
    "clamp-zero": ("clamp_channel(channel=5)",),
    "clamp-mean": ("clamp_channel(channel=3,layer=1,to=mean)",),
    "clamp-prompt": ("clamp_channel(channel=3,layer=1,to=mean,prompt=5)",),
    "clamp-value": ("clamp_channel(channel=2,layer=0,token=6,to=value,value=4)",),
    "project": ("project",),
    "project-heads": ("project(from=heads,key=2)", "project(direction=random,from=heads,layer=1,head=1)"),
    "project-random": ("project(direction=random,layer=0,seed=3)", "project(layer=1,head=0)"),
    "swap": ("swap_positions(a=0,b=5)",),
    "swap-replace": ("swap_positions(a=0,b=5,replace=yes)",),
    "evict-window": ("evict(policy=window,budget=4)",),
    "evict-first": ("evict(policy=first,first=1,budget=4)",),
    "evict-h2o": ("evict(policy=h2o,budget=5)",),
    "evict-tova": ("evict(policy=tova,budget=4)",),
    "evict-lru": ("evict(policy=lru,budget=5)",),
    "evict-snapkv": ("evict(policy=snapkv,budget=4,prompt=8,queries=2,pool=3)",),
    "evict-key_norm": ("evict(policy=key_norm,budget=5,first=1,recent=2)",),
    "evict-vatp": ("evict(policy=vatp,budget=5)",),
    "evict-random": ("evict(policy=random,budget=4,seed=7)",),
    "evict-cache": ("evict(policy=first,first=2,budget=5,positions=cache)",),
    "evict-head": ("evict(policy=h2o,budget=4,layer=1,head=1)", "hide_key(key=2)"),
    "bits-queries": ("quantize(what=queries,bits=4,by=tensor)",),
    "bits-keys": ("quantize(what=keys,bits=3,by=channel,symmetric=no,first=1)",),
    "bits-values": ("quantize(what=values,bits=2,by=token)",),
    "bits-hidden": ("quantize(what=hidden,bits=8,by=group,group=5,symmetric=no)",),
    "bits-prompt": (
        "quantize(what=hidden,bits=4,by=tensor,first=1,prompt=6)",
        "quantize(what=keys,bits=3,by=channel,symmetric=no,prompt=7)",
    ),
    "bits-weights": (
        "quantize(what=weights,bits=4,by=channel,layer=1)",
        "quantize(what=weights,bits=5,by=tensor,layer=0,symmetric=no)",
    ),
    "bits-groups": ("quantize(what=weights,bits=3,by=group,group=5,symmetric=no)",),
    "weight": (
        "scale_weight(matrix=down,layer=0,row=3,column=4,factor=-6)",
        "scale_weight(matrix=o,layer=1,row=1,column=2,factor=9)",
    ),
}
# Cases that move keys in a cache, which learned positions do not allow.
ROTARY_CASES = {"evict-cache"}
ROTARY_FAMILIES = ("llama", "gpt_neox", "sigmoid")
ATTENTION_EDITS = {"hide", "self", "heads"} | {name for name in EDITS if name.startswith("evict")}
FIELDS = ("hidden", "att", "seen", "evicted")
ACTIVATION_CASES = ("bits-queries", "bits-keys", "bits-values", "bits-hidden", "bits-prompt")
WEIGHT_CASES = ("bits-weights", "bits-groups")


def gpt2_architecture(config: dict, layers: str, heads: str, eps: str) -> Architecture:
    """Returns the architecture of a GPT-Neo or GPT-NeoX as that of a GPT-2 (_GptNeo and _GptNeox compute the
    differences). `layers`, `heads` and `eps` are the config's keys."""
    return architecture(
        {
            "model_type": "gpt2",
            "n_layer": config[layers],
            "n_head": config[heads],
            "n_embd": config["hidden_size"],
            "n_inner": config["intermediate_size"],
            "vocab_size": config["vocab_size"],
            "n_positions": config["max_position_embeddings"],
            "layer_norm_epsilon": config[eps],
        }
    )


def read_case_model(family: str) -> tuple[Model, Tensor, dict[str, Tensor]]:
    folder = GOLDEN / MODELS[family]
    config = json.loads((folder / "config.json").read_text())
    if family == "gpt_neo":
        arch = gpt2_architecture(config, "num_layers", "num_heads", "layer_norm_epsilon")
    elif family == "gpt_neox":
        arch = replace(
            gpt2_architecture(config, "num_hidden_layers", "num_attention_heads", "layer_norm_eps"),
            positions="rotary",
            rope_theta=config["rotary_emb_base"],
        )
    else:
        arch = architecture(config)
    kinds = config.get("attention_layers", ["global"] * arch.L)
    windows = [config["window_size"] if kind == "local" else 0 for kind in kinds]
    family = "llama" if family in LLAMA_MODELS else family
    weights = {name: w.double() for name, w in read_weights(folder / "model.safetensors").items()}
    golden = load_file(folder / "golden.safetensors")
    return Model(family, arch, weights, windows), golden["tokens"].long(), golden


def check_baseline(family: str) -> None:
    model, tokens, golden = read_case_model(family)
    result = run_edited(model, tokens, [])
    for name in ("hidden", "att", "logits"):
        if (error := scaled_error(result[name].float(), golden[name])) > TOLERANCE:
            raise AssertionError(f"{family}: {name} differs from its golden by {error:.2g}")


def change_metrics(baseline: dict[str, Tensor], result: dict[str, Tensor], tokens: Tensor) -> dict[str, Tensor]:
    kl = metrics.divergence(baseline["logits"], result["logits"])
    loss_change = metrics.loss(result["logits"], tokens) - metrics.loss(baseline["logits"], tokens)
    undefined = torch.full((1,), torch.nan, dtype=kl.dtype)
    changes = {
        "kl_mean": kl.mean()[None],
        "loss_change_at": torch.cat([undefined, loss_change]),
        "loss_change": loss_change.mean()[None],
        "hidden_change": metrics.hidden_change(baseline["hidden"], result["hidden"]),
    }
    return {f"metric.{name}": value for name, value in changes.items()}


def rounding_metrics(family: str, result: dict[str, Tensor]) -> dict[str, Tensor]:
    """Returns the field `rounded`, and its metric, for each layer of the stream. Leaves the field out for GPT-Neo,
    whose queries _GptNeo multiplies by sqrt(K)."""
    layer_errors = result["rounded"].sum(1)
    error = ((layer_errors[:, 0] + layer_errors[:, 2]) / (layer_errors[:, 1] + layer_errors[:, 3])).sqrt()
    field = {} if family == "gpt_neo" else {"rounded": result["rounded"]}
    return field | {"metric.quantize_error": error}


def weight_rounding_metrics(model: Model, edits: list[Edit]) -> dict[str, Tensor]:
    """Returns the rounding errors of each layer's matrices, and their metric, which is NaN if no matrix was rounded."""
    errors = torch.zeros(model.arch.L, 2, dtype=torch.float64)
    for name, w in quantized_weights(model, model.weights, edits).items():
        if w is not model.weights[name]:
            layer = layer_index(name)
            errors[layer, 0] += (w - model.weights[name]).square().sum()
            errors[layer, 1] += model.weights[name].square().sum()
    return {"weight_rounded": errors, "metric.weight_error": (errors[:, 0] / errors[:, 1]).sqrt()}


def write(family: str, name: str) -> None:
    model, tokens, _ = read_case_model(family)
    edits = [parse_edit(text) for text in EDITS[name]]
    result, baseline = run_edited(model, tokens, edits), run_edited(model, tokens, [])
    is_eviction = name.startswith("evict")
    folder = GOLDEN / f"edit-{family}-{name}"
    store(
        folder,
        {"tokens": tokens, "loss": metrics.loss(result["logits"], tokens)}
        | {field: result[field] for field in FIELDS}
        | change_metrics(baseline, result, tokens)
        | ({"metric.cache_hits": metrics.cache_hits(baseline["att"], result["evicted"])} if is_eviction else {})
        | (rounding_metrics(family, result) if name in ACTIVATION_CASES else {})
        | (weight_rounding_metrics(model, edits) if name in WEIGHT_CASES else {}),
    )
    describe(
        folder,
        model.family,
        model.arch.operation,
        "Computed in F64, query by query.",
        script="write_edits.py",
        model=f"tests/golden/{MODELS[family]}",
        edits=list(EDITS[name]),
    )


def write_effect() -> None:
    model, tokens, _ = read_case_model("llama")
    baseline_loss = metrics.loss(run_edited(model, tokens, [])["logits"], tokens).mean()
    effect = torch.stack(
        [
            torch.stack(
                [
                    metrics.loss(
                        run_edited(model, tokens, [{"kind": "silence", "layer": float(layer), "head": float(head)}])[
                            "logits"
                        ],
                        tokens,
                    ).mean()
                    - baseline_loss
                    for head in range(model.arch.H)
                ]
            )
            for layer in range(model.arch.L)
        ]
    )
    folder = GOLDEN / "effect-llama"
    store(folder, {"tokens": tokens, "effect": effect}, "effect.safetensors")
    describe(
        folder,
        "llama",
        model.arch.operation,
        "Computed in F64, head by head.",
        script="write_edits.py",
        model=f"tests/golden/{MODELS['llama']}",
    )


CASES = {"effect-llama": write_effect} | {
    f"edit-{family}-{name}": lambda family=family, name=name: write(family, name)
    for family in MODELS
    for name in EDITS
    if (family in ROTARY_FAMILIES or name not in ROTARY_CASES)
    and (family != "sigmoid" or name in ATTENTION_EDITS)
    and (family != "mixtral" or name in WEIGHT_CASES)
}


def main() -> None:
    torch.manual_seed(0)
    for family in MODELS:
        check_baseline(family)
    write_cases("Write tests/golden/edit-*", CASES, lambda _, case: case())


if __name__ == "__main__":
    main()
