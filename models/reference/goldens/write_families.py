"""Writes tests/golden/hf-*: tiny random models of every family, computed by transformers.

    python -m models.reference.goldens.write_families                       every case
    python -m models.reference.goldens.write_families hf-qwen3 hf-mixtral   these cases

families.json lists the cases: class, sizes that cases share, further keys of the config, and what differs from Case.
write_goldens writes the other hf-llama-* and hf-gpt2-*, which the reference can recompute. Each case makes its family's
features visible in the numbers: windows are shorter than T, scaled rotary pairs rotate visibly within T, and gains and
biases are random. The script reads the weights back from the saved file, and computes in F32.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import torch
import transformers
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers.models.gpt_oss import modeling_gpt_oss
from transformers.models.granite_swa import modeling_granite_swa

from ..files import write_json
from . import GOLDEN
from .noise import normal
from .write_goldens import build_model, describe, run_hf_model, scaled_error, store, write_cases

T = 20

KINDS_WITHOUT_ATTENTION = ("linear_attention", "conv")

Edit = Callable[[dict[str, Any]], dict[str, Any]]
Trace = Callable[[transformers.PreTrainedModel, Tensor], dict[str, Tensor]]


def draw_large_weights(name: str, shape: torch.Size, generator: torch.Generator, center: float) -> Tensor:
    """Draws weights so large that attention is far from uniform. No gain is 1 and no bias is 0, so that code which
    skips one gives other results."""
    noise = normal(shape, generator)
    if name.endswith("sinks"):
        return noise + 1
    if name.endswith("bias"):
        return noise * 0.3
    if len(shape) == 1:
        return noise * 0.2 + center
    if any(part in name for part in ("wte", "wpe", "embed", "lm_head")):
        return noise * 0.5
    # The smaller of the last two dimensions is near the model's width; tensors of experts have a third dimension.
    return noise * 1.2 * min(shape[-2:]) ** -0.5


def fill_weights(model: transformers.PreTrainedModel, generator: torch.Generator, center: float) -> None:
    with torch.no_grad():
        for name, w in model.named_parameters():
            w.copy_(draw_large_weights(name, w.shape, generator, center))
        for name, w in model.named_buffers():
            if name.endswith(("score_correction_bias", "layer_scalar")):
                w.copy_(draw_large_weights(name, w.shape, generator, center))


def find_routers(model: transformers.PreTrainedModel) -> dict[int, torch.nn.Module]:
    return {
        int(name.split(".layers.")[1].split(".")[0]): module
        for name, module in model.named_modules()
        if type(module).__name__.lower().endswith(("topkrouter", "moev1gate"))
    }


def trace_fields(model: transformers.PreTrainedModel, tokens: Tensor) -> dict[str, Tensor]:
    """Returns the fields of run_hf_model. If the model has experts, adds router [L, T, E]: the weight of each expert in
    each layer with attention, 0 for an expert that is not selected."""
    weights: dict[torch.nn.Module, Tensor] = {}

    def record(router: torch.nn.Module, _: Any, output: tuple[Tensor, ...]) -> None:
        logits, top_weights, experts = output
        weights[router] = torch.zeros_like(logits, dtype=top_weights.dtype).scatter(-1, experts, top_weights)

    routers = find_routers(model)
    hooks = [router.register_forward_hook(record) for router in routers.values()]
    trace = run_hf_model(model, tokens)
    for hook in hooks:
        hook.remove()
    if not model.can_generate() or not getattr(model.config, "is_causal", True):
        del trace["loss"]  # each query sees the token to predict
    L = model.config.get_text_config().num_hidden_layers
    if weights:
        kinds = getattr(model.config, "layer_types", None) or [""] * L
        no_weights = torch.zeros_like(next(iter(weights.values())))
        trace["router"] = torch.stack(
            [
                weights[routers[n]] if n in routers else no_weights
                for n, kind in enumerate(kinds)
                if kind not in KINDS_WITHOUT_ATTENTION
            ]
        )
    assert len(trace["hidden"]) == L + 1
    return trace


@dataclass(frozen=True)
class Case:
    model: type[transformers.PreTrainedModel]
    config: dict[str, Any]
    notes: str
    dtype: torch.dtype = torch.bfloat16
    center: float = 1.0  # mean of the gains
    part: str = ""  # name of the member of the model that is stored; the whole model if empty
    edit: Edit | None = None  # changes config.json
    rename: Callable[[str], str] | None = None  # changes the names of tensors in the file
    maps: Trace | None = None  # computes the stored `att` where it is not that of trace_fields
    has_head: bool = True  # whether the stored part has the weights of the logits
    length: int = T


def write(name: str, case: Case) -> None:
    generator = torch.Generator().manual_seed(23)
    model = build_model(case.model, **case.config).eval()
    fill_weights(model, generator, case.center)
    tokens = torch.randint(model.config.get_text_config().vocab_size, (case.length,), generator=generator)
    folder = GOLDEN / name
    model.to(case.dtype)
    (model.get_submodule(case.part) if case.part else model).save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    (folder / "model.safetensors").chmod(0o644)
    if case.rename:
        weights = load_file(folder / "model.safetensors")
        save_file(
            {case.rename(key): w for key, w in weights.items()}, folder / "model.safetensors", metadata={"format": "pt"}
        )
    if case.edit:
        write_json(folder / "config.json", case.edit(json.loads((folder / "config.json").read_text())))
    stored_model = case.model.from_pretrained(
        folder, attn_implementation="eager", dtype=torch.float32, experts_implementation="eager"
    )

    def compute_trace() -> dict[str, Tensor]:
        fields = trace_fields(stored_model, tokens)
        if case.maps:
            fields["att"] = case.maps(stored_model, tokens)["att"]
        return fields

    expected = compute_trace()
    if not case.has_head:
        expected = drop_keys(expected, "logits", "loss")
    store(folder, expected)
    stored_model.double()
    f64_trace = compute_trace()
    largest_error = max(
        scaled_error(f64_trace[key], expected[key]) for key in ("logits", "att", "hidden") if key in expected
    )
    describe(
        folder,
        model.config.model_type,
        "softmax",
        case.notes,
        script="write_families.py",
        f64_error=float(f"{largest_error:.2g}"),
    )


def drop_keys(sizes: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in sizes.items() if key not in keys}


def to_old_rope(config: dict[str, Any]) -> dict[str, Any]:
    rope = config.pop("rope_parameters")
    theta = rope.pop("rope_theta")
    return config | {"rope_theta": theta, "rope_scaling": rope}


def to_old_and_new_rope(config: dict[str, Any]) -> dict[str, Any]:
    """Writes rotary parameters in both forms; transformers reads the older one and ignores the newer."""
    return to_old_rope(config) | {"rope_parameters": {"rope_type": "linear", "factor": 4.0}}


def to_old_linear_rope(config: dict[str, Any]) -> dict[str, Any]:
    config = to_old_and_new_rope(config)
    config["rope_scaling"]["type"] = config["rope_scaling"].pop("rope_type")
    return config


def to_old_partial_rope(config: dict[str, Any]) -> dict[str, Any]:
    rope = config.pop("rope_parameters")
    return config | {"rope_theta": rope["rope_theta"], "partial_rotary_factor": rope["partial_rotary_factor"]}


def to_old_neox(config: dict[str, Any]) -> dict[str, Any]:
    """Writes the keys of published files, and those of other families, which this family ignores."""
    rope = config.pop("rope_parameters")
    return config | {
        "rotary_pct": rope["partial_rotary_factor"],
        "rotary_emb_base": rope["rope_theta"],
        "partial_rotary_factor": 0.5,
        "rope_theta": 50.0,
    }


def to_old_gemma(config: dict[str, Any]) -> dict[str, Any]:
    rope = config.pop("rope_parameters")
    full_rope, local_rope = rope["full_attention"], rope["sliding_attention"]
    del config["layer_types"]
    config.pop("_sliding_window_pattern", None)
    return config | {
        "rope_theta": full_rope["rope_theta"],
        "rope_local_base_freq": local_rope["rope_theta"],
        "rope_scaling": {"rope_type": full_rope["rope_type"], "factor": full_rope["factor"]},
        "sliding_window_pattern": 2,
    }


def to_old_qwen(config: dict[str, Any]) -> dict[str, Any]:
    """Removes layer_types, and adds sliding_window, which published configs have even if no layer uses it."""
    del config["layer_types"]
    return config | {"sliding_window": config["sliding_window"] or 5}


def to_old_window(config: dict[str, Any]) -> dict[str, Any]:
    """Replaces layer_types by sliding_window_pattern of 2, as in published files of cohere2 and exaone4."""
    del config["layer_types"]
    return to_old_rope(config) | {"sliding_window_pattern": 2}


def to_old_bert_name(name: str) -> str:
    return name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")


def to_old_delta_net(config: dict[str, Any]) -> dict[str, Any]:
    """Writes the keys of published files: an interval instead of layer_types, and flat rotary parameters."""
    del config["layer_types"]
    rope = config.pop("rope_parameters")
    return config | {
        "full_attention_interval": 2,
        "rope_theta": rope["rope_theta"],
        "rope_scaling": None,
        "partial_rotary_factor": rope["partial_rotary_factor"],
    }


def to_old_lfm2(config: dict[str, Any]) -> dict[str, Any]:
    del config["layer_types"]
    return to_old_rope(config) | {
        "full_attn_idxs": [1],
        "block_ff_dim": config.pop("intermediate_size"),
        "tie_embedding": config.pop("tie_word_embeddings"),
    }


def to_old_olmo(config: dict[str, Any]) -> dict[str, Any]:
    """Writes flat keys: layers with a window then get the default base, 500000, and no scaling."""
    del config["layer_types"]
    full_rope = config.pop("rope_parameters")["full_attention"]
    return config | {"rope_theta": full_rope.pop("rope_theta"), "rope_scaling": full_rope}


def to_old_hunyuan(config: dict[str, Any]) -> dict[str, Any]:
    """Adds keys that published files have but no implementation reads."""
    config = to_old_linear_rope(config)
    config["rope_scaling"] |= {"beta_fast": 32, "beta_slow": 1, "mscale": 1.0}
    return config


def trace_with_sink_weights(model: transformers.PreTrainedModel, tokens: Tensor) -> dict[str, Tensor]:
    """Returns the trace of a granite_swa model with the attention function of gpt_oss, where the sink takes a share of
    the weights. granite_swa's own function returns weights that sum to 1, and scales the output instead."""
    with mock.patch.object(modeling_granite_swa, "eager_attention_forward", modeling_gpt_oss.eager_attention_forward):
        trace = trace_fields(model, tokens)
    assert scaled_error(trace["hidden"], trace_fields(model, tokens)["hidden"]) < 1e-6
    return trace


def to_old_gemma_1(config: dict[str, Any]) -> dict[str, Any]:
    return to_old_rope(config) | {"hidden_act": "gelu"}


def to_bidirectional(config: dict[str, Any]) -> dict[str, Any]:
    return config | {"is_causal": False}


FAMILIES: dict[str, Any] = json.loads(Path(__file__).with_name("families.json").read_text())


def config_of(row: dict[str, Any]) -> dict[str, Any]:
    return FAMILIES["sizes"].get(row.get("sizes"), {}) | row.get("config", {})


def case_of(row: dict[str, Any]) -> Case:
    """Makes a case of a row of families.json, which names functions of this file and classes by their names."""
    model, config = getattr(transformers, row["model"]), config_of(row)
    functions = {key: globals()[row[key]] for key in ("edit", "rename", "maps") if key in row}
    named = {"model", "sizes", "config", "dtype", *functions}
    options = {key: value for key, value in row.items() if key not in named}
    return Case(model, config, dtype=getattr(torch, row.get("dtype", "bfloat16")), **functions, **options)


CASES = {name: case_of(row) for name, row in FAMILIES["transformers"].items()}


def main() -> None:
    write_cases("Write tests/golden/hf-* of every family", CASES, write)


if __name__ == "__main__":
    main()
