"""Writes tests/golden/gguf-*: tiny models in GGUF files like those of llama.cpp's converter, in every type.

    python -m models.reference.goldens.write_gguf                    every case
    python -m models.reference.goldens.write_gguf gguf-wide-q4_k     these cases

The `gguf` package gives the names of tensors and keys; this script repeats what llama.cpp's converter does to the
tensors. transformers then reads the file, undoes the converter's changes and computes the numbers, so that a mistake
in this script shows as changed weights. Of other families than READ_BY_TRANSFORMERS it cannot read GGUF files, or does
not undo the changes; the script reads these back itself.
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
import transformers
from gguf import GGUFReader, GGUFWriter, quants
from torch import Tensor
from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

from . import GOLDEN
from .write_families import FAMILIES, config_of, fill_weights, trace_fields
from .write_goldens import build_model, describe, scaled_error, store, write_cases

T = 12

# The names of GGUF, where they are not those of transformers.
ARCHITECTURES = {
    "gpt_neox": "GPTNEOX",
    "gemma3_text": "GEMMA3",
    "qwen3_moe": "QWEN3MOE",
    "granitemoe": "GRANITE_MOE",
    "hunyuan_v1_dense": "HUNYUAN_DENSE",
    "hunyuan_v1_moe": "HUNYUAN_MOE",
    "cohere": "COMMAND_R",
    "phi": "PHI2",
    "gpt_bigcode": "STARCODER",
}

READ_BY_TRANSFORMERS = ("llama", "gpt2", "qwen2", "qwen3", "gemma3_text", "qwen3_moe", "gemma2", "bloom")

# For these families the converter makes the two rows of a rotary pair adjacent.
PERMUTED_FAMILIES = ("llama", "granite", "granitemoe", "smollm3", "olmo")

# The matrix of q, k and v in files of phi that are older than phi in transformers.
FUSED_QKV = "self_attn.qkv_proj"

# Largest rounding error of each type, as a fraction of the tensor's largest magnitude.
MAX_ROUNDING = {
    "F32": 1e-6,
    "F16": 1e-3,
    "BF16": 1e-2,
    "Q8_0": 0.01,
    "Q5_0": 0.1,
    "Q5_1": 0.1,
    "Q4_0": 0.2,
    "Q4_1": 0.2,
    "MXFP4": 0.3,
}

# The type that llama.cpp uses instead if a row is not a whole number of blocks. Unlisted types become F16.
FALLBACK_TYPES = {
    "Q4_K": "Q5_0",
    "Q5_K": "Q5_1",
    "Q6_K": "Q8_0",
    "Q2_K": "IQ4_NL",
    "Q3_K": "IQ4_NL",
    "IQ4_XS": "IQ4_NL",
}

# Types that the package can read but not write. First number: the offset of the scale in a block. Second number: the
# scale of the minima, in the next two bytes, over this scale, chosen so that random blocks have mean 0 (None for types
# without minima).
READ_ONLY_TYPES = {
    "Q4_K": (0, 7.5),
    "Q5_K": (0, 15.5),
    "Q6_K": (208, None),
    "Q2_K": (80, 1.5),
    "Q3_K": (108, None),
    "IQ4_NL": (0, None),
    "IQ4_XS": (0, None),
}


@dataclass(frozen=True)
class Case:
    make: Callable[[], transformers.PreTrainedModel]
    type_name: str  # of the matrices
    notes: str
    fused: bool = False  # stores q, k and v as one matrix, FUSED_QKV


def permute(w: Tensor, heads: int) -> Tensor:
    return w.reshape(heads, 2, -1, *w.shape[1:]).transpose(1, 2).reshape(w.shape)


def head_count(name: str, config: Any) -> int:
    if ".q_proj." in name:
        return config.num_attention_heads
    return config.num_key_value_heads if ".k_proj." in name else 0


def convert_tensor(name: str, w: Tensor, config: Any) -> Tensor:
    kind = config.model_type
    if kind in PERMUTED_FAMILIES and (heads := head_count(name, config)):
        return permute(w, heads)
    if name.endswith("conv.conv.weight"):
        return w.squeeze(1)
    if kind == "gpt2" and name.endswith(("c_attn.weight", "c_proj.weight", "c_fc.weight")):
        return w.T
    if ".query_key_value." in name:
        groups = w.reshape(group_count(config), -1, head_width(config), *w.shape[1:])
        parts = (groups[:, :-2], groups[:, -2], groups[:, -1])
        return torch.cat([part.reshape(-1, *w.shape[1:]) for part in parts])
    if kind.startswith(("gemma", "nemotron")) and name.endswith("norm.weight"):
        return w + 1
    return w


def head_width(config: Any) -> int:
    return config.hidden_size // config.num_attention_heads


def group_count(config: Any) -> int:
    if config.model_type != "falcon":
        return config.num_attention_heads
    return config.num_kv_heads if config.new_decoder_architecture else 1


def split_gpt_oss(name: str, w: Tensor) -> dict[str, Tensor]:
    """Returns gate and up of gpt_oss, which the model interleaves, and matrices with outputs before inputs."""
    if name.endswith("sinks"):
        return {f"{name}.weight": w}
    if ".experts." not in name:
        return {name: w}
    suffix = "bias" if name.endswith("_bias") else "weight"
    stem = name.removesuffix("_bias")
    w = w if suffix == "bias" else w.transpose(1, 2)
    if not stem.endswith("gate_up_proj"):
        return {f"{stem}.{suffix}": w}
    stem = stem.removesuffix("gate_up_proj")
    return {f"{stem}{part}_proj.{suffix}": w[:, i::2] for i, part in enumerate(("gate", "up"))}


def join_gpt_oss(name: str, parts: list[Tensor]) -> Tensor:
    w = torch.stack(parts, 2).flatten(1, 2) if len(parts) > 1 else parts[0]
    return w.transpose(1, 2) if ".experts." in name and not name.endswith("_bias") else w


def checkpoint_tensors(name: str, w: Tensor, kind: str) -> dict[str, Tensor]:
    if kind == "gpt_oss":
        return split_gpt_oss(name, w)
    name = name.replace("block_sparse_moe.experts.", "mlp.experts.")
    name = name.replace("block_sparse_moe.router.", "block_sparse_moe.router.layer.")
    if name.endswith("experts.gate_up_proj"):
        stem = name.removesuffix("gate_up_proj")
        return dict(zip((f"{stem}gate_proj.weight", f"{stem}up_proj.weight"), w.chunk(2, 1)))
    return {f"{name}.weight" if name.endswith("experts.down_proj") else name: w}


def read_back_weights(file: Path, model: transformers.PreTrainedModel, names: dict[str, str]) -> dict[str, Tensor]:
    """Reads the weights from the file, dequantizes them and undoes the converter's changes, as transformers'
    load_gguf_checkpoint does for other families."""
    config, parts = model.config, {}
    for tensor in GGUFReader(file).tensors:
        w = torch.from_numpy(quants.dequantize(tensor.data, tensor.tensor_type).copy())
        name = names[tensor.name]
        if ".query_key_value." in name:
            G, K, other_dimensions = group_count(config), head_width(config), w.shape[1:]
            q, k, v = w.split([w.shape[0] - 2 * G * K, G * K, G * K])
            w = torch.cat([part.reshape(G, -1, K, *other_dimensions) for part in (q, k, v)], 1)
            w = w.reshape(-1, *other_dimensions)
        if config.model_type in PERMUTED_FAMILIES and (heads := head_count(name, config)):
            w = w.reshape(heads, -1, 2, *w.shape[1:]).transpose(1, 2).reshape(w.shape)
        if config.model_type in ("nemotron", "gemma") and name.endswith("norm.weight"):
            w = w - 1
        if name.endswith("conv.conv.weight"):
            w = w[:, None]
        if config.model_type == "phi" and FUSED_QKV in name:
            for part, rows in zip("qkv", w.chunk(3), strict=True):
                parts[name.replace(FUSED_QKV, f"self_attn.{part}_proj")] = rows
        parts[name] = w
    weights = {}
    for name, w in model.state_dict().items():
        sources = [parts[part] for part in checkpoint_tensors(name, w, config.model_type) if part in parts]
        if config.model_type == "gpt_oss":
            weights[name] = join_gpt_oss(name, sources)
        elif sources:
            weights[name] = torch.cat(sources, 1) if len(sources) > 1 else sources[0]
    return weights


def rope_factors(config: Any) -> np.ndarray:
    """Returns the numbers by which llama.cpp divides the frequencies for llama3's scaling, [K/2]."""
    rope = config.rope_parameters
    frequencies = rope["rope_theta"] ** (-torch.arange(0, config.head_dim, 2, dtype=torch.float32) / config.head_dim)
    low, high, factor = rope["low_freq_factor"], rope["high_freq_factor"], rope["factor"]
    rotations = rope["original_max_position_embeddings"] * frequencies / (2 * math.pi)
    smooth_factor = ((rotations - low) / (high - low)).clamp(0, 1)
    return (1 / ((1 - smooth_factor) / factor + smooth_factor)).numpy()


def random_blocks(w: np.ndarray, kind: gguf.GGMLQuantizationType, rng: np.random.Generator) -> np.ndarray:
    block_length, size = gguf.GGML_QUANT_SIZES[kind]
    offset, minima = READ_ONLY_TYPES[kind.name]
    blocks = rng.integers(0, 256, (w.size // block_length, size), dtype=np.uint8)

    def dequantize_at(scale: float) -> np.ndarray:
        scales = [scale] if minima is None else [scale, scale * minima]
        blocks[:, offset : offset + 2 * len(scales)] = np.array(scales, np.float16).view(np.uint8)
        return quants.dequantize(blocks, kind)

    dequantize_at(w.std() / dequantize_at(1.0).std())
    return blocks.reshape(*w.shape[:-1], -1)


def quantize(w: np.ndarray, type_name: str, rng: np.random.Generator) -> tuple[np.ndarray, gguf.GGMLQuantizationType]:
    """Returns a tensor's bytes and type: `type_name`, a fallback for partial blocks, or F32 for vectors."""
    choices = [type_name, FALLBACK_TYPES.get(type_name, "F16"), "F16"] if w.ndim > 1 else ["F32"]
    kinds = [gguf.GGMLQuantizationType[name] for name in choices]
    kind = next(kind for kind in kinds if w.shape[-1] % gguf.GGML_QUANT_SIZES[kind][0] == 0)
    if kind.name in READ_ONLY_TYPES:
        return random_blocks(w, kind, rng), kind
    return quants.quantize(w, kind), kind


def add_rope(writer: GGUFWriter, config: Any) -> None:
    rope = config.rope_parameters
    if config.model_type == "gemma3_text":
        rope = rope["full_attention"]
    base = rope["rope_theta"]
    if "alpha" in rope:
        base *= rope["alpha"] ** (config.head_dim / (config.head_dim - 2))
        writer.add_rope_scaling_type(gguf.RopeScalingType.NONE)
    writer.add_rope_freq_base(base)
    if rope["rope_type"] == "yarn":
        writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        writer.add_rope_scaling_factor(rope["factor"])
        writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
        writer.add_rope_scaling_yarn_beta_fast(rope["beta_fast"])
    if rope["rope_type"] == "linear":
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(rope["factor"])
    if rope["rope_type"] == "llama3":
        writer.add_tensor("rope_freqs.weight", rope_factors(config))


def add_norm(writer: GGUFWriter, config: Any) -> None:
    if hasattr(config, "rms_norm_eps"):
        writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    else:  # OLMo's config has no eps, its code has the constant
        keys = ("layer_norm_eps", "norm_epsilon", "norm_eps")
        writer.add_layer_norm_eps(next((getattr(config, k) for k in keys if hasattr(config, k)), 1e-5))


def add_llama_like(writer: GGUFWriter, config: Any) -> None:
    writer.add_feed_forward_length(config.intermediate_size)
    if config.model_type == "lfm2":
        has_attention = [kind == "full_attention" for kind in config.layer_types]
        writer.add_head_count_kv([config.num_key_value_heads if attends else 0 for attends in has_attention])
        writer.add_shortconv_l_cache(config.conv_L_cache)
        writer.add_layer_norm_rms_eps(config.norm_eps)
    else:
        writer.add_head_count_kv(config.num_key_value_heads)
        add_norm(writer, config)
    K = getattr(config, "head_dim", None) or head_width(config)
    rotary_share = config.rope_parameters.get("partial_rotary_factor", 1.0)
    if config.model_type in (
        "llama",
        "granite",
        "granitemoe",
        "smollm3",
        "phi3",
        "stablelm",
        "cohere2",
        "glm4",
        "nemotron",
    ):
        writer.add_rope_dimension_count(int(rotary_share * K))
    if config.model_type == "olmo" and config.clip_qkv:
        writer.add_clamp_kqv(config.clip_qkv)
    if config.model_type in ("phi3", "cohere2"):
        writer.add_sliding_window(config.sliding_window or 0)
    if config.model_type == "stablelm":
        writer.add_parallel_residual(config.use_parallel_residual)
    if config.model_type in ("cohere", "cohere2"):
        writer.add_logit_scale(config.logit_scale)
        writer.add_rope_scaling_type(gguf.RopeScalingType.NONE)
    if config.model_type in ("granite", "granitemoe"):
        writer.add_embedding_scale(config.embedding_multiplier)
        writer.add_residual_scale(config.residual_multiplier)
        writer.add_attention_scale(config.attention_multiplier)
        writer.add_logit_scale(config.logits_scaling)
    if config.model_type != "qwen2":
        writer.add_key_length(K)
        writer.add_value_length(K)
    if config.model_type.startswith(("gemma2", "gemma3", "gpt_oss")):
        writer.add_sliding_window(config.sliding_window)
    if config.model_type == "gemma2":
        writer.add_attn_logit_softcapping(config.attn_logit_softcapping)
        writer.add_final_logit_softcapping(config.final_logit_softcapping)
    if config.model_type.endswith(("moe", "gpt_oss")):
        add_experts(writer, config)
    add_rope(writer, config)


def add_experts(writer: GGUFWriter, config: Any) -> None:
    is_hunyuan = config.model_type == "hunyuan_v1_moe"
    is_local = config.model_type in ("granitemoe", "gpt_oss")
    writer.add_expert_count(config.num_local_experts if is_local else config.num_experts)
    writer.add_expert_used_count(config.moe_topk if is_hunyuan else config.num_experts_per_tok)
    if config.model_type == "qwen3_moe":
        writer.add_expert_feed_forward_length(config.moe_intermediate_size)
    if config.model_type == "gpt_oss":
        writer.add_expert_feed_forward_length(config.intermediate_size)
    if is_hunyuan:
        writer.add_expert_feed_forward_length(config.intermediate_size)
        writer.add_expert_shared_feed_forward_length(config.intermediate_size)
        writer.add_expert_shared_count(1)


def add_falcon_like(writer: GGUFWriter, config: Any) -> None:
    writer.add_layer_norm_eps(config.layer_norm_epsilon)
    writer.add_head_count_kv(group_count(config))
    if config.model_type == "falcon":
        writer.add_tensor_data_layout("jploski")
        writer.add_feed_forward_length(config.ffn_hidden_size)
        writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    else:
        writer.add_feed_forward_length(4 * config.hidden_size)


def add_phi(writer: GGUFWriter, config: Any) -> None:
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_eps(config.layer_norm_eps)
    writer.add_rope_dimension_count(int(config.rope_parameters["partial_rotary_factor"] * head_width(config)))


def add_mpt(writer: GGUFWriter, config: Any) -> None:
    writer.add_feed_forward_length(4 * config.hidden_size)
    writer.add_layer_norm_eps(config.layer_norm_epsilon)
    if config.attn_config.clip_qkv is not None:
        writer.add_clamp_kqv(config.attn_config.clip_qkv)
    writer.add_max_alibi_bias(config.attn_config.alibi_bias_max)


def add_config(writer: GGUFWriter, config: Any) -> None:
    # Models with ALiBi have no maximal position. For Bloom the converter writes the length of its training sequences.
    length = getattr(config, "max_seq_len", 2048)
    writer.add_context_length(getattr(config, "max_position_embeddings", length))
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_head_count(config.num_attention_heads)
    if config.model_type in ("gpt2", "gpt_bigcode"):
        writer.add_feed_forward_length(config.n_inner or 4 * config.hidden_size)
        writer.add_layer_norm_eps(config.layer_norm_epsilon)
        if config.model_type == "gpt_bigcode":
            writer.add_head_count_kv(1)
    elif config.model_type == "phi":
        add_phi(writer, config)
    elif config.model_type == "mpt":
        add_mpt(writer, config)
    elif config.model_type == "gpt_neox":
        rope = config.rope_parameters
        writer.add_feed_forward_length(config.intermediate_size)
        writer.add_layer_norm_eps(config.layer_norm_eps)
        writer.add_rope_dimension_count(int(rope["partial_rotary_factor"] * head_width(config)))
        writer.add_rope_freq_base(rope["rope_theta"])
        writer.add_parallel_residual(config.use_parallel_residual)
    elif config.model_type in ("falcon", "bloom"):
        add_falcon_like(writer, config)
    else:
        add_llama_like(writer, config)


def add_tokens(writer: GGUFWriter, V: int) -> None:
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list([f"t{i}" for i in range(V)])
    writer.add_token_types([gguf.TokenType.NORMAL] * V)


def model_tensors(model: transformers.PreTrainedModel, fused: bool) -> dict[str, Tensor]:
    tensors: dict[str, Tensor] = {}
    for name, w in model.state_dict().items():
        if fused:
            name = re.sub(r"self_attn\.[qkv]_proj", FUSED_QKV, name)
        tensors[name] = torch.cat([tensors[name], w]) if name in tensors else w
    return tensors


def gpt_oss_type(name: str, type_name: str) -> str:
    """Published files have only the experts in MXFP4, and their biases and the router in F32."""
    if name.endswith("bias") or ".router." in name:
        return "F32"
    return type_name if ".experts." in name else "Q8_0"


def write_model(file: Path, model: transformers.PreTrainedModel, type_name: str, fused: bool) -> dict[str, str]:
    """Writes the file, and returns the model's name for each tensor name in the file."""
    config, rng = model.config, np.random.default_rng(7)
    architecture = gguf.MODEL_ARCH[ARCHITECTURES.get(config.model_type, config.model_type.upper())]
    table = gguf.get_tensor_name_map(architecture, config.num_hidden_layers)
    writer = GGUFWriter(file, gguf.MODEL_ARCH_NAMES[architecture])
    writer.add_name("tiny")
    add_config(writer, config)
    add_tokens(writer, config.vocab_size)
    names = {}
    for name, w in model_tensors(model, fused).items():
        if config.tie_word_embeddings and name in ("lm_head.weight", "embed_out.weight"):
            continue
        for part, part_w in checkpoint_tensors(name, w, config.model_type).items():
            base_name = part.removeprefix("transformer.") if config.model_type == "bloom" else part
            gguf_name = table.get_name(base_name, try_suffixes=(".weight", ".bias"))
            if gguf_name is None:
                raise SystemExit(f"{part}: GGUF has no name for it")
            names[gguf_name] = part
            kind_name = gpt_oss_type(part, type_name) if config.model_type == "gpt_oss" else type_name
            data, kind = quantize(convert_tensor(part, part_w, config).contiguous().numpy(), kind_name, rng)
            writer.add_tensor(gguf_name, data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return names


def read_back(file: Path, model: transformers.PreTrainedModel, names: dict[str, str], type_name: str) -> None:
    if model.config.model_type in READ_BY_TRANSFORMERS:
        weights = load_gguf_checkpoint(file, return_tensors=True, model_to_load=model)["tensors"]
    else:
        weights = read_back_weights(file, model, names)
    original_weights = model.state_dict()
    tied_names = ("lm_head.weight",) if model.config.tie_word_embeddings else ()
    for name in set(original_weights) - set(tied_names):
        error = (weights[name] - original_weights[name]).abs().max() / original_weights[name].abs().max()
        if type_name not in READ_ONLY_TYPES and error > MAX_ROUNDING[type_name]:
            raise SystemExit(f"{file}: {name} came back off by {error}")
    model.load_state_dict(weights, strict=False)
    model.tie_weights()


def write(name: str, case: Case) -> None:
    folder = GOLDEN / name
    folder.mkdir(exist_ok=True)
    file, model = folder / "model.gguf", case.make()
    model.float().eval()
    model.set_experts_implementation("eager")
    read_back(file, model, write_model(file, model, case.type_name, case.fused), case.type_name)
    kind, generator = model.config.model_type, torch.Generator().manual_seed(29)
    tokens = torch.randint(model.config.vocab_size, (T,), generator=generator)
    expected = trace_fields(model, tokens)
    store(folder, expected)
    f64_trace = trace_fields(model.double(), tokens)
    largest_error = max(scaled_error(f64_trace[key], expected[key]) for key in ("logits", "att", "hidden"))
    describe(
        folder,
        kind,
        "softmax",
        case.notes,
        script="write_gguf.py",
        gguf=version("gguf"),
        f64_error=float(f"{largest_error:.2g}"),
    )


def golden_case(source: str, type_name: str) -> Case:
    make = partial(
        transformers.AutoModelForCausalLM.from_pretrained,
        GOLDEN / source,
        attn_implementation="eager",
        dtype=torch.float32,
    )
    return Case(make, type_name, f"The model of {source}, matrices in {type_name}.")


def random_model(
    kind: type[transformers.PreTrainedModel], config: dict[str, Any], center: float = 1.0
) -> transformers.PreTrainedModel:
    model = build_model(kind, **config)
    fill_weights(model, torch.Generator().manual_seed(31), center)
    return model


def random_case(row: dict[str, Any]) -> Case:
    """Makes a case of a row of families.json."""
    make = partial(random_model, getattr(transformers, row["model"]), config_of(row), row.get("center", 1.0))
    return Case(make, row["type_name"], row["notes"], row.get("fused", False))


def wide_llama() -> transformers.PreTrainedModel:
    model = random_model(
        transformers.LlamaForCausalLM,
        FAMILIES["sizes"]["narrow"]
        | dict(hidden_size=256, num_attention_heads=2, num_key_value_heads=1, intermediate_size=32, vocab_size=41),
    )
    with torch.no_grad():
        for name, w in model.named_parameters():
            if "_proj" in name:  # unscaled, one key would get all attention
                w *= (min(w.shape) / w.shape[1]) ** 0.5
            if "embed" in name:
                w *= 0.25
    return model


# The models of the goldens hf-* that are also written as GGUF, for each type.
GOLDEN_MODELS = {
    "F32": "llama-gqa",
    "F16": "llama-linear gpt2-plain gpt_neox-serial hunyuan hunyuan_moe bloom phi3 stablelm lfm2-indices olmoe cohere",
    "BF16": "llama-bias qwen2 qwen3 olmo2 falcon granite seed_oss ernie4_5 olmo granitemoe exaone4-global glm4 "
    "nemotron olmo-clip gpt_bigcode",
    "Q8_0": "gpt_neox",
}

CASES: dict[str, Case] = {
    **{
        f"gguf-{source}-{type_name.lower()}": golden_case(f"hf-{source}", type_name)
        for type_name, sources in GOLDEN_MODELS.items()
        for source in sources.split()
    },
    **{name: random_case(row) for name, row in FAMILIES["gguf"].items()},
    **{
        f"gguf-narrow-{type_name.lower()}": random_case(
            {
                "model": "LlamaForCausalLM",
                "sizes": "narrow",
                "type_name": type_name,
                "notes": f"A llama with matrices in {type_name}.",
            }
        )
        for type_name in ("Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "IQ4_NL", "MXFP4")
    },
    **{
        f"gguf-wide-{type_name.lower()}": Case(
            wide_llama,
            type_name,
            f"A llama with matrices of random {type_name} blocks; o and down, whose rows are "
            f"shorter than a block, in {FALLBACK_TYPES[type_name]}.",
        )
        for type_name in READ_ONLY_TYPES
        if type_name in FALLBACK_TYPES
    },
}


def main() -> None:
    write_cases("Write tests/golden/gguf-*", CASES, write)


if __name__ == "__main__":
    main()
