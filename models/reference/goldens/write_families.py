"""Writes tests/golden/hf-*: tiny random models of every family, computed by transformers.

    python -m models.reference.goldens.write_families                       every case
    python -m models.reference.goldens.write_families hf-qwen3 hf-mixtral   these cases

write_goldens writes the other hf-llama-* and hf-gpt2-*, which the reference can recompute. Each case makes its family's
features visible in the numbers: windows are shorter than T, scaled rotary pairs rotate visibly within T, and gains and
biases are random. The script reads the weights back from the saved file, and computes in F32.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
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
CONTEXT = 48

SIZES: dict[str, Any] = dict(
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    intermediate_size=40,
    vocab_size=61,
    max_position_embeddings=CONTEXT,
    bos_token_id=0,
    eos_token_id=1,
    pad_token_id=None,
)

# Number of tokens for models with mixers: more than the 64 that transformers computes at a time, and no multiple of 64.
MIXER_T = 70
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


def rotary(theta: float, kind: str = "default", **more: Any) -> dict[str, Any]:
    return {"rope_type": kind, "rope_theta": theta, **more}


def to_old_rope(config: dict[str, Any]) -> dict[str, Any]:
    rope = config.pop("rope_parameters")
    theta = rope.pop("rope_theta")
    return config | {"rope_theta": theta, "rope_scaling": rope}


def to_old_and_new_rope(config: dict[str, Any]) -> dict[str, Any]:
    """Writes both the older and the newer form of rotary parameters. transformers reads the older form and ignores the
    newer one."""
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
    """Replaces layer_types by sliding_window_pattern, as in published files of cohere2 and exaone4: every second layer
    sees all keys."""
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


NEOX_SIZES = drop_keys(SIZES, "num_key_value_heads") | dict(num_attention_heads=2)
OPT_SIZES: dict[str, Any] = dict(
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=4,
    ffn_dim=44,
    vocab_size=61,
    max_position_embeddings=CONTEXT,
    pad_token_id=1,
)
BERT_SIZES: dict[str, Any] = dict(
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=44,
    vocab_size=61,
    max_position_embeddings=CONTEXT,
)
BIGCODE_SIZES: dict[str, Any] = dict(
    n_embd=32, n_layer=2, n_head=4, vocab_size=61, n_positions=CONTEXT, bos_token_id=0, eos_token_id=1
)
MPT_SIZES: dict[str, Any] = dict(
    d_model=36, n_layers=2, n_heads=6, vocab_size=61, max_seq_len=CONTEXT, bos_token_id=0, eos_token_id=1
)
GPTJ_SIZES: dict[str, Any] = dict(
    n_embd=48,
    n_layer=2,
    n_head=3,
    n_inner=40,
    rotary_dim=8,
    vocab_size=61,
    n_positions=CONTEXT,
    bos_token_id=0,
    eos_token_id=1,
)
FALCON_SIZES = drop_keys(SIZES, "num_key_value_heads", "intermediate_size") | dict(tie_word_embeddings=True)
BLOOM_SIZES: dict[str, Any] = dict(hidden_size=36, n_layer=2, n_head=6, vocab_size=61, bos_token_id=0, eos_token_id=1)
HYBRID_SIZES: dict[str, Any] = SIZES | dict(
    num_hidden_layers=4, num_attention_heads=3, num_key_value_heads=1, head_dim=12, max_position_embeddings=80
)
DELTA_SIZES: dict[str, Any] = HYBRID_SIZES | dict(
    linear_num_key_heads=2,
    linear_num_value_heads=4,
    linear_key_head_dim=6,
    linear_value_head_dim=5,
    rope_parameters=rotary(500.0, partial_rotary_factor=0.5),
)
MAMBA_SIZES: dict[str, Any] = HYBRID_SIZES | dict(
    num_hidden_layers=2,
    mamba_d_ssm=24,
    mamba_n_heads=4,
    mamba_d_head=6,
    mamba_d_state=7,
    mamba_n_groups=2,
    mamba_chunk_size=16,
    rope_parameters=rotary(500.0),
)
OLMO3_SIZES = SIZES | dict(num_hidden_layers=5, max_position_embeddings=256, sliding_window=5)
EXAONE_SIZES = SIZES | dict(head_dim=10, num_hidden_layers=3, rope_parameters=rotary(100.0))
GEMMA_SIZES = SIZES | dict(head_dim=10, num_hidden_layers=3, query_pre_attn_scalar=7, sliding_window=5)
GPT_OSS_SIZES: dict[str, Any] = SIZES | dict(
    head_dim=16,
    max_position_embeddings=384,
    num_local_experts=5,
    num_experts_per_tok=2,
    rope_parameters=rotary(
        50.0, "yarn", factor=6.0, beta_fast=4.0, beta_slow=1.0, truncate=False, original_max_position_embeddings=64
    ),
)
GEMMA4_SIZES = SIZES | dict(
    head_dim=8,
    num_hidden_layers=3,
    sliding_window=5,
    hidden_size_per_layer_input=0,
    max_position_embeddings=64,
    pad_token_id=0,
)
GRANITE_FACTORS = dict(embedding_multiplier=3.0, residual_multiplier=0.5, attention_multiplier=0.25, logits_scaling=2.0)
SHARED_EXPERT_SIZES = SIZES | dict(
    num_experts=5, num_experts_per_tok=3, moe_intermediate_size=20, shared_expert_intermediate_size=28
)
LATENT_SIZES = SIZES | dict(
    num_key_value_heads=4,
    num_hidden_layers=3,
    kv_lora_rank=18,
    qk_rope_head_dim=6,
    qk_nope_head_dim=8,
    v_head_dim=11,
    first_k_dense_replace=1,
    n_routed_experts=8,
    moe_intermediate_size=12,
)
MIMO_SIZES = SIZES | dict(
    num_key_value_heads=1,
    head_dim=14,
    v_head_dim=9,
    num_hidden_layers=3,
    sliding_window=6,
    n_routed_experts=6,
    moe_intermediate_size=12,
    num_experts_per_tok=2,
)

HALF_ROTARY = rotary(100.0, partial_rotary_factor=0.5)
OLMO_ROPE = {
    "full_attention": rotary(100.0, "yarn", factor=4.0, original_max_position_embeddings=64),
    "sliding_attention": rotary(500000.0),
}
HUNYUAN_ROPE = rotary(100.0, "dynamic", alpha=50.0, factor=1.0)
GEMMA_ROPE = {
    "full_attention": rotary(10000.0, "linear", factor=4.0),
    "sliding_attention": rotary(100.0),
}
GEMMA4_ROPE = {
    "full_attention": rotary(100.0, "proportional", partial_rotary_factor=0.4, factor=1.5),
    "sliding_attention": rotary(50.0),
}

# Families whose files of the base model, which AutoModel saves, other cases lack, with their configs.
BASE_MODELS: dict[type[transformers.PreTrainedModel], dict[str, Any]] = {
    transformers.LlamaForCausalLM: SIZES,
    transformers.Qwen3ForCausalLM: SIZES | dict(head_dim=10, tie_word_embeddings=True),
    transformers.PhiForCausalLM: SIZES,
    transformers.GPTNeoXForCausalLM: NEOX_SIZES,
    transformers.GPTJForCausalLM: GPTJ_SIZES,
}

CASES: dict[str, Case] = {
    **{
        f"hf-{model.config_class.model_type}-base": Case(
            model,
            config,
            "Saved from the base model (AutoModel): names without a prefix; "
            + ("the head is the embedding." if config.get("tie_word_embeddings") else "no head, so no logits."),
            part=model.base_model_prefix,
            has_head=bool(config.get("tie_word_embeddings")),
            dtype=torch.float32,
        )
        for model, config in BASE_MODELS.items()
    },
    "hf-gpt_neox": Case(
        transformers.GPTNeoXForCausalLM,
        NEOX_SIZES | dict(rope_parameters=rotary(500.0, partial_rotary_factor=0.25)),
        "Parallel residual, a quarter of the head is rotated, F16, the keys of published files.",
        dtype=torch.float16,
        edit=to_old_neox,
    ),
    "hf-gpt_neox-serial": Case(
        transformers.GPTNeoXForCausalLM,
        NEOX_SIZES
        | dict(
            use_parallel_residual=False,
            tie_word_embeddings=True,
            attention_bias=False,
            rope_parameters=rotary(500.0, partial_rotary_factor=0.5),
        ),
        "Serial residual, no attention biases, tied head, the keys of transformers 5.",
        dtype=torch.float32,
    ),
    "hf-gpt_neo": Case(
        transformers.GPTNeoForCausalLM,
        dict(
            hidden_size=32,
            num_layers=3,
            num_heads=4,
            vocab_size=61,
            intermediate_size=None,
            max_position_embeddings=CONTEXT,
            window_size=4,
            bos_token_id=0,
            eos_token_id=0,
            attention_types=[[["global", "local"], 1], [["local"], 1]],
        ),
        "Unscaled scores; the window of 4 keys holds in layers 1 and 2.",
        dtype=torch.float16,
    ),
    "hf-gptj": Case(
        transformers.GPTJForCausalLM,
        GPTJ_SIZES | dict(tie_word_embeddings=True),
        "Attention and feed-forward side by side read one norm; half of each head is rotated, in pairs of "
        "neighbors; the head is tied and has a bias.",
        dtype=torch.float16,
    ),
    "hf-codegen": Case(
        transformers.CodeGenForCausalLM,
        drop_keys(GPTJ_SIZES, "n_inner") | dict(n_embd=40, n_head=8, rotary_dim=4),
        "q, v and k of each fourth of the heads in one matrix; heads of 5 dimensions, of which the first 4 "
        "are rotated, in pairs of neighbors.",
        dtype=torch.float16,
    ),
    "hf-gpt_bigcode": Case(
        transformers.GPTBigCodeForCausalLM,
        BIGCODE_SIZES | dict(n_inner=44),
        "All queries share a key.",
    ),
    "hf-gpt_bigcode-heads": Case(
        transformers.GPTBigCodeForCausalLM,
        BIGCODE_SIZES | dict(multi_query=False, scale_attn_weights=False, activation_function="gelu"),
        "q, k and v of each head side by side; unscaled scores; names without a prefix.",
        part="transformer",
        dtype=torch.float32,
    ),
    "hf-mpt": Case(
        transformers.MptForCausalLM,
        MPT_SIZES | dict(attn_config={"clip_qkv": 0.8, "softmax_scale": 0.5}),
        "ALiBi with six heads; queries, keys and values that reach their limit; a scale of scores of its own.",
        dtype=torch.float16,
    ),
    "hf-mpt-bare": Case(
        transformers.MptForCausalLM,
        MPT_SIZES,
        "Neither; names without a prefix.",
        part="transformer",
        dtype=torch.float32,
    ),
    "hf-opt": Case(
        transformers.OPTForCausalLM,
        OPT_SIZES,
        "Names begin with model.decoder.; positions begin at row 2; ReLU.",
        dtype=torch.float16,
    ),
    "hf-opt-bare": Case(
        transformers.OPTForCausalLM,
        OPT_SIZES | dict(enable_bias=False),
        "Names begin with decoder., as the base model writes them; no biases.",
        part="model",
        dtype=torch.float32,
    ),
    "hf-opt-350m": Case(
        transformers.OPTForCausalLM,
        OPT_SIZES | dict(do_layer_norm_before=False, word_embed_proj_dim=20),
        "Norms after each half of a block; token vectors of 20 numbers, projected to D and back.",
        dtype=torch.float16,
    ),
    "hf-bert": Case(
        transformers.BertForMaskedLM,
        BERT_SIZES | dict(type_vocab_size=3),
        "An encoder: every query sees every key; a norm after each half of a block; a head with "
        "a layer of its own predicts masked tokens.",
        dtype=torch.float16,
    ),
    "hf-bert-bare": Case(
        transformers.BertForMaskedLM,
        BERT_SIZES | dict(hidden_act="gelu_new"),
        "Names without a prefix and no head, as the base model writes them: logits are NaN.",
        part="bert",
        has_head=False,
        dtype=torch.float32,
    ),
    "hf-bert-old": Case(
        transformers.BertForMaskedLM,
        BERT_SIZES,
        "The names of published files: LayerNorm.gamma and .beta.",
        rename=to_old_bert_name,
        dtype=torch.float32,
    ),
    "hf-bert-untied": Case(
        transformers.BertForMaskedLM,
        BERT_SIZES | dict(tie_word_embeddings=False),
        "The decoder has weights and a bias of its own: predictions.bias, beside it, is not used.",
        dtype=torch.float32,
    ),
    "hf-falcon": Case(
        transformers.FalconForCausalLM,
        FALCON_SIZES | dict(rope_parameters=rotary(100.0)),
        "One norm for attention and feed-forward side by side; all queries share a key.",
    ),
    "hf-falcon-groups": Case(
        transformers.FalconForCausalLM,
        FALCON_SIZES | dict(new_decoder_architecture=True, num_kv_heads=2, bias=True, ffn_hidden_size=44),
        "A norm for each of both, two groups of queries; biases.",
    ),
    "hf-falcon-serial": Case(
        transformers.FalconForCausalLM,
        FALCON_SIZES | dict(parallel_attn=False, multi_query=False, bias=True),
        "The feed-forward behind attention; each query head has its key.",
    ),
    "hf-bloom": Case(
        transformers.BloomForCausalLM,
        BLOOM_SIZES,
        "ALiBi with six heads; token vectors are normed.",
        dtype=torch.float16,
    ),
    "hf-bloom-bare": Case(
        transformers.BloomForCausalLM,
        BLOOM_SIZES | dict(hidden_size=32, n_head=4),
        "Names without a prefix, as published files have them.",
        part="transformer",
        dtype=torch.float32,
    ),
    "hf-mistral": Case(
        transformers.MistralForCausalLM,
        SIZES | dict(head_dim=10, sliding_window=6),
        "Every layer has a window of 6 keys; head_dim is explicit, H*K != D.",
        edit=to_old_and_new_rope,
    ),
    "hf-qwen2": Case(
        transformers.Qwen2ForCausalLM,
        SIZES | dict(tie_word_embeddings=True),
        "q, k and v have biases, o has none; a sliding_window that is not used; tied.",
        edit=to_old_qwen,
    ),
    "hf-qwen2-window": Case(
        transformers.Qwen2ForCausalLM,
        SIZES
        | dict(
            num_hidden_layers=3,
            use_sliding_window=True,
            sliding_window=5,
            max_window_layers=1,
            max_position_embeddings=256,
            rope_parameters=rotary(100.0, "yarn", factor=4.0, original_max_position_embeddings=64),
        ),
        "Layers from max_window_layers on have a window of 5 keys; YaRN with rounded bounds.",
        edit=to_old_qwen,
    ),
    "hf-qwen3": Case(
        transformers.Qwen3ForCausalLM,
        SIZES | dict(head_dim=12, tie_word_embeddings=True, rope_parameters=rotary(1e6)),
        "Queries and keys are normed per head before they are rotated; H*K != D.",
        edit=to_old_rope,
    ),
    "hf-qwen3_moe": Case(
        transformers.Qwen3MoeForCausalLM,
        SIZES
        | dict(
            head_dim=12,
            num_experts=5,
            num_experts_per_tok=3,
            moe_intermediate_size=20,
            norm_topk_prob=True,
            use_sliding_window=True,
            sliding_window=6,
        ),
        "3 of 5 experts whose weights sum to 1; every layer has a window of 6 keys.",
        edit=to_old_rope,
    ),
    "hf-qwen3_moe-dense": Case(
        transformers.Qwen3MoeForCausalLM,
        SIZES
        | dict(
            num_hidden_layers=4,
            head_dim=12,
            num_experts=5,
            num_experts_per_tok=3,
            moe_intermediate_size=20,
            decoder_sparse_step=2,
            mlp_only_layers=[3],
        ),
        "Experts in the second of four layers alone, a feed-forward of another width in the others.",
    ),
    "hf-seed_oss": Case(
        transformers.SeedOssForCausalLM,
        SIZES | dict(head_dim=12, mlp_bias=True, rope_parameters=rotary(100.0)),
        "q, k and v have biases, o has none, the feed-forward has them; H*K != D.",
        edit=to_old_rope,
    ),
    "hf-ernie4_5": Case(
        transformers.Ernie4_5ForCausalLM,
        SIZES | dict(head_dim=10, use_bias=True, rope_parameters=rotary(100.0)),
        "The two numbers of a rotary pair are neighbors; biases everywhere; H*K != D; tied.",
    ),
    "hf-helium": Case(
        transformers.HeliumForCausalLM,
        SIZES | dict(head_dim=8, attention_bias=True, rope_parameters=rotary(100.0)),
        "The two numbers of a rotary pair are neighbors; q, k and v have biases.",
        edit=to_old_rope,
    ),
    "hf-stablelm": Case(
        transformers.StableLmForCausalLM,
        SIZES | dict(use_qkv_bias=True, rope_parameters=HALF_ROTARY),
        "LayerNorm, a gated feed-forward, half of each head is rotated; q, k and v have biases.",
        dtype=torch.float16,
        edit=to_old_partial_rope,
    ),
    "hf-stablelm-parallel": Case(
        transformers.StableLmForCausalLM,
        SIZES | dict(use_parallel_residual=True, rope_parameters=HALF_ROTARY),
        "Attention and feed-forward side by side read one norm.",
        dtype=torch.float16,
    ),
    "hf-stablelm-norms": Case(
        transformers.StableLmForCausalLM,
        SIZES | dict(qk_layernorm=True, rope_parameters=HALF_ROTARY),
        "Each head of queries and keys is normed with gains of its own.",
        dtype=torch.float16,
    ),
    "hf-starcoder2": Case(
        transformers.Starcoder2ForCausalLM,
        SIZES | dict(sliding_window=6, rope_parameters=rotary(100.0)),
        "LayerNorm, a feed-forward without gate, biases; a window of 6 keys; tied.",
        edit=to_old_rope,
    ),
    "hf-phi": Case(
        transformers.PhiForCausalLM,
        SIZES | dict(rope_parameters=HALF_ROTARY),
        "Attention and feed-forward side by side read one norm; half of each head is rotated; biases, also "
        "of the head.",
        dtype=torch.float16,
        edit=to_old_partial_rope,
    ),
    "hf-phi-norms": Case(
        transformers.PhiForCausalLM,
        SIZES | dict(qk_layernorm=True, rope_parameters=HALF_ROTARY),
        "A LayerNorm of queries and one of keys, head by head.",
        dtype=torch.float16,
    ),
    "hf-phi3": Case(
        transformers.Phi3ForCausalLM,
        SIZES | dict(sliding_window=6, rope_parameters=HALF_ROTARY),
        "q, k and v in one matrix, gate and up in another; half of each head is rotated; a window of 6 keys.",
        edit=to_old_partial_rope,
    ),
    "hf-phi3-long": Case(
        transformers.Phi3ForCausalLM,
        SIZES
        | dict(
            max_position_embeddings=96,
            original_max_position_embeddings=24,
            rope_parameters=rotary(
                100.0, "longrope", short_factor=[1.1, 1.6, 2.3, 4.0], long_factor=[2.0, 3.0, 5.0, 9.0]
            ),
        ),
        "longrope: a factor for each rotary pair, and one of rotated vectors.",
        edit=to_old_rope,
    ),
    "hf-olmo": Case(
        transformers.OlmoForCausalLM,
        SIZES | dict(rope_parameters=rotary(100.0)),
        "LayerNorm without gain and bias.",
        edit=to_old_rope,
    ),
    "hf-olmo-clip": Case(
        transformers.OlmoForCausalLM,
        SIZES | dict(clip_qkv=0.7),
        "Queries, keys and values that reach their limit.",
    ),
    "hf-smollm3": Case(
        transformers.SmolLM3ForCausalLM,
        SIZES
        | dict(
            num_hidden_layers=3,
            no_rope_layer_interval=2,
            use_sliding_window=True,
            sliding_window=6,
            rope_parameters=rotary(100.0),
        ),
        "The second of three layers does not rotate, and has a window of 6 keys; tied.",
        edit=to_old_rope,
    ),
    "hf-granite": Case(
        transformers.GraniteForCausalLM,
        SIZES | GRANITE_FACTORS | dict(rope_parameters=rotary(100.0)),
        "Factors of embeddings, scores, both branches and logits.",
        edit=to_old_rope,
    ),
    "hf-olmo2": Case(
        transformers.Olmo2ForCausalLM,
        SIZES | dict(rope_parameters=rotary(500.0)),
        "No norm before a block, one after it; queries of all heads are normed as one vector.",
        edit=to_old_rope,
    ),
    "hf-olmo3": Case(
        transformers.Olmo3ForCausalLM,
        OLMO3_SIZES | dict(rope_parameters=OLMO_ROPE, rms_norm_eps=1e-3),
        "Three of four layers have a window of 5 keys; YaRN in the others; the keys of published files.",
        edit=to_old_olmo,
    ),
    "hf-olmo3-types": Case(
        transformers.Olmo3ForCausalLM,
        OLMO3_SIZES
        | dict(
            num_hidden_layers=2,
            layer_types=["full_attention", "sliding_attention"],
            attention_bias=True,
            rope_parameters={"full_attention": OLMO_ROPE["full_attention"], "sliding_attention": rotary(50.0)},
        ),
        "The keys of transformers 5; attention biases.",
    ),
    "hf-olmoe": Case(
        transformers.OlmoeForCausalLM,
        SIZES
        | dict(
            intermediate_size=24,
            num_experts=5,
            num_experts_per_tok=3,
            attention_bias=True,
            rope_parameters=rotary(100.0),
        ),
        "Queries and keys of all heads are normed as one; 3 of 5 experts whose weights sum to less "
        "than 1; attention biases.",
        edit=to_old_rope,
    ),
    "hf-olmoe-clip": Case(
        transformers.OlmoeForCausalLM,
        SIZES | dict(intermediate_size=24, num_experts=5, num_experts_per_tok=3, clip_qkv=0.7),
        "Queries, keys and values that reach their limit, queries and keys after their norm.",
    ),
    "hf-granitemoe": Case(
        transformers.GraniteMoeForCausalLM,
        SIZES
        | GRANITE_FACTORS
        | dict(intermediate_size=24, num_local_experts=5, num_experts_per_tok=2, rope_parameters=rotary(100.0)),
        "Granite's factors; 2 of 5 experts, which are slices of two tensors.",
        edit=to_old_rope,
    ),
    "hf-exaone4": Case(
        transformers.Exaone4ForCausalLM,
        EXAONE_SIZES | dict(sliding_window=6, sliding_window_pattern=2),
        "Blocks are normed before the sum alone, queries and keys by heads; layers 0 and 2 rotate and "
        "have a window of 6 keys, layer 1 does neither.",
        edit=to_old_window,
    ),
    "hf-exaone4-global": Case(
        transformers.Exaone4ForCausalLM,
        EXAONE_SIZES | dict(sliding_window=None, layer_types=["full_attention"] * 3),
        "Without a window all layers rotate.",
    ),
    "hf-cohere": Case(
        transformers.CohereForCausalLM,
        SIZES | dict(head_dim=10, attention_bias=True, logit_scale=0.25, rope_parameters=rotary(100.0)),
        "Attention and feed-forward side by side read one LayerNorm without bias; the two numbers of a "
        "rotary pair are neighbors; scaled logits; attention biases; tied.",
        dtype=torch.float16,
        edit=to_old_rope,
    ),
    "hf-cohere2": Case(
        transformers.Cohere2ForCausalLM,
        SIZES | dict(num_hidden_layers=3, sliding_window=6, sliding_window_pattern=2, rope_parameters=rotary(100.0)),
        "Layers 0 and 2 rotate and have a window of 6 keys, layer 1 does neither.",
        dtype=torch.float16,
        edit=to_old_window,
    ),
    "hf-glm": Case(
        transformers.GlmForCausalLM,
        SIZES | dict(head_dim=12, rope_parameters=HALF_ROTARY),
        "Half of each head is rotated, in pairs of neighbors; q, k and v have biases; gate and up in one matrix.",
        edit=to_old_partial_rope,
    ),
    "hf-glm4": Case(
        transformers.Glm4ForCausalLM,
        SIZES | dict(head_dim=16, attention_bias=False, rope_parameters=HALF_ROTARY | {"partial_rotary_factor": 0.375}),
        "Norms before and after both blocks; three pairs of neighbors of each head are rotated.",
    ),
    "hf-nemotron": Case(
        transformers.NemotronForCausalLM,
        SIZES | dict(head_dim=12, attention_bias=True, mlp_bias=True, rope_parameters=HALF_ROTARY),
        "LayerNorm with gains of 1 + w, the square of relu without a gate, half of each head is rotated; biases.",
        center=0.0,
        edit=to_old_partial_rope,
    ),
    "hf-hunyuan": Case(
        transformers.HunYuanDenseV1ForCausalLM,
        SIZES | dict(head_dim=12, tie_word_embeddings=True, rope_parameters=HUNYUAN_ROPE),
        "Queries and keys are normed after they are rotated; alpha stretches the base.",
        edit=to_old_hunyuan,
    ),
    "hf-hunyuan_moe": Case(
        transformers.HunYuanMoEV1ForCausalLM,
        SIZES | dict(head_dim=8, intermediate_size=24, num_experts=5, moe_topk=2, rope_parameters=HUNYUAN_ROPE),
        "2 of 5 experts whose weights sum to 1, and an expert for all tokens as it is.",
    ),
    "hf-gemma": Case(
        transformers.GemmaForCausalLM,
        SIZES | dict(head_dim=10, rope_parameters=rotary(100.0)),
        "Norms of 1 + w, scaled token vectors; the activation that old files call gelu; tied.",
        center=0.0,
        edit=lambda config: to_old_rope(config) | {"hidden_act": "gelu"},
    ),
    "hf-gemma3": Case(
        transformers.Gemma3ForCausalLM,
        GEMMA_SIZES | dict(sliding_window_pattern=2, rope_parameters=GEMMA_ROPE),
        "Every second layer sees all, at a base and a scaling of its own; the keys of published files.",
        center=0.0,
        edit=to_old_gemma,
    ),
    "hf-gemma3-types": Case(
        transformers.Gemma3ForCausalLM,
        GEMMA_SIZES
        | dict(
            layer_types=["full_attention", "sliding_attention", "full_attention"],
            attention_bias=True,
            rope_parameters=GEMMA_ROPE,
        ),
        "The keys of transformers 5; attention biases.",
        center=0.0,
    ),
    "hf-gemma2": Case(
        transformers.Gemma2ForCausalLM,
        GEMMA_SIZES | dict(attn_logit_softcapping=3.0, final_logit_softcapping=2.0),
        "Soft caps that scores and logits reach; even layers have a window of 5 keys.",
        center=0.0,
        edit=to_old_rope,
    ),
    "hf-gemma2-plain": Case(
        transformers.Gemma2ForCausalLM,
        GEMMA_SIZES
        | dict(
            attn_logit_softcapping=None,
            final_logit_softcapping=None,
            attention_bias=True,
            layer_types=["full_attention", "full_attention", "sliding_attention"],
        ),
        "Without caps; attention biases; layer_types of its own.",
        center=0.0,
    ),
    "hf-gemma3-whole": Case(
        transformers.Gemma3ForConditionalGeneration,
        dict(
            text_config=GEMMA_SIZES | dict(rope_parameters=GEMMA_ROPE),
            vision_config=dict(
                hidden_size=8,
                intermediate_size=8,
                num_hidden_layers=1,
                num_attention_heads=2,
                image_size=8,
                patch_size=4,
                model_type="siglip_vision_model",
            ),
            mm_tokens_per_image=4,
            image_token_index=60,
            boi_token_index=59,
            eoi_token_index=58,
        ),
        "The text model inside one that sees pictures, whose tensors are passed over.",
        center=0.0,
    ),
    "hf-gemma4": Case(
        transformers.Gemma4ForCausalLM,
        GEMMA4_SIZES
        | dict(
            global_head_dim=14,
            num_global_key_value_heads=1,
            attention_k_eq_v=True,
            final_logit_softcapping=2.0,
            attention_bias=True,
            rope_parameters=GEMMA4_ROPE,
            layer_types=["sliding_attention", "full_attention", "full_attention"],
        ),
        "Layers that see all keys have one key/value head of 14 numbers, whose values are their keys, and rotate two "
        "of seven pairs; the others have two of 8, and a window of 5 keys; values are normed; a factor after each "
        "layer.",
    ),
    "hf-gemma4-narrow": Case(
        transformers.Gemma4ForCausalLM,
        GEMMA4_SIZES
        | dict(global_head_dim=6, num_hidden_layers=6, rope_parameters=GEMMA4_ROPE, tie_word_embeddings=False),
        "Narrower heads in the last layer, which alone sees all keys; values of its own.",
    ),
    "hf-gpt_oss": Case(
        transformers.GptOssForCausalLM,
        GPT_OSS_SIZES | dict(intermediate_size=24, sliding_window=6, swiglu_limit=1.5),
        "Sink logits, a window in even layers, YaRN, 2 of 5 experts, limits that are reached.",
        edit=to_old_rope,
    ),
    "hf-qwen3_next": Case(
        transformers.Qwen3NextForCausalLM,
        DELTA_SIZES
        | dict(
            full_attention_interval=2,
            num_experts=5,
            num_experts_per_tok=3,
            moe_intermediate_size=20,
            shared_expert_intermediate_size=24,
            norm_topk_prob=True,
        ),
        "Attention in every second layer, with a gate; Gated DeltaNet in the others; the keys of published files.",
        center=0.0,
        edit=to_old_delta_net,
        length=MIXER_T,
    ),
    "hf-qwen3_next-types": Case(
        transformers.Qwen3NextForCausalLM,
        DELTA_SIZES
        | dict(
            num_hidden_layers=3,
            attention_bias=True,
            layer_types=["full_attention", "linear_attention", "linear_attention"],
            linear_conv_kernel_dim=3,
            tie_word_embeddings=True,
            num_experts=4,
            num_experts_per_tok=2,
            moe_intermediate_size=12,
            shared_expert_intermediate_size=28,
            norm_topk_prob=False,
        ),
        "Attention in the first of three layers, with biases; shares of all experts; a tied head.",
        center=0.0,
        length=MIXER_T,
        dtype=torch.float32,
    ),
    "hf-qwen3_5": Case(
        transformers.Qwen3_5ForCausalLM,
        DELTA_SIZES | dict(layer_types=["linear_attention", "linear_attention", "full_attention", "linear_attention"]),
        "One feed-forward for all tokens; attention in the third of four layers.",
        center=0.0,
        length=MIXER_T,
        dtype=torch.float32,
    ),
    "hf-qwen3_5-whole": Case(
        transformers.Qwen3_5ForConditionalGeneration,
        dict(
            text_config=DELTA_SIZES
            | dict(
                num_hidden_layers=2,
                full_attention_interval=2,
                rope_parameters={
                    "mrope_section": [1, 1, 1],
                    "mrope_interleaved": True,
                    **DELTA_SIZES["rope_parameters"],
                },
            ),
            vision_config=dict(
                depth=1,
                hidden_size=16,
                intermediate_size=16,
                num_heads=2,
                out_hidden_size=32,
                num_position_embeddings=16,
            ),
        ),
        "The text model inside the multimodal one, with its rotary sections, which text does not see.",
        center=0.0,
        length=MIXER_T,
        dtype=torch.float32,
    ),
    "hf-lfm2": Case(
        transformers.Lfm2ForCausalLM,
        drop_keys(HYBRID_SIZES, "head_dim")
        | dict(
            hidden_size=36,
            layer_types=["conv", "full_attention", "conv", "full_attention"],
            conv_bias=True,
            norm_eps=1e-3,
            block_multiple_of=8,
            block_ffn_dim_multiplier=1.3,
            tie_word_embeddings=False,
            rope_parameters=rotary(500.0),
        ),
        "Short convolutions with biases in two of four layers; a feed-forward of an adjusted width.",
        length=MIXER_T,
        dtype=torch.float32,
    ),
    "hf-lfm2-indices": Case(
        transformers.Lfm2ForCausalLM,
        SIZES
        | dict(
            num_hidden_layers=3,
            full_attn_idxs=[1],
            conv_L_cache=4,
            block_auto_adjust_ff_dim=False,
            rope_parameters=rotary(500.0),
        ),
        "A list of the layers with attention; a longer convolution, no biases, a tied head, BF16.",
        edit=to_old_lfm2,
    ),
    "hf-falcon_h1": Case(
        transformers.FalconH1ForCausalLM,
        MAMBA_SIZES
        | dict(
            mamba_rms_norm=True,
            mamba_norm_before_gate=False,
            attention_in_multiplier=0.7,
            attention_out_multiplier=1.2,
            key_multiplier=0.6,
            embedding_multiplier=1.5,
            lm_head_multiplier=0.4,
            mlp_multipliers=[0.8, 1.3],
            ssm_in_multiplier=0.9,
            ssm_out_multiplier=0.6,
            ssm_multipliers=[0.7, 1.1, 0.8, 0.9, 1.2],
        ),
        "Mamba-2 beside attention in each layer, normed after its gate; every multiplier.",
        length=MIXER_T,
        dtype=torch.float32,
    ),
    "hf-falcon_h1-biases": Case(
        transformers.FalconH1ForCausalLM,
        MAMBA_SIZES
        | dict(
            mamba_n_groups=1,
            mamba_d_ssm=None,
            mamba_expand=1,
            mamba_d_head="auto",
            mamba_d_conv=3,
            attention_bias=True,
            mlp_bias=True,
            mamba_proj_bias=True,
            projectors_bias=True,
            time_step_limit=[0.4, 1.5],
            tie_word_embeddings=True,
        ),
        "Biases everywhere, steps that are clipped, no norm before the output, one group, a tied head.",
        length=MIXER_T,
    ),
    "hf-mixtral": Case(
        transformers.MixtralForCausalLM,
        SIZES | dict(intermediate_size=24, num_local_experts=5, num_experts_per_tok=2),
        "2 of 5 experts; their weights sum to 1.",
    ),
    "hf-qwen2_moe": Case(
        transformers.Qwen2MoeForCausalLM,
        SHARED_EXPERT_SIZES | dict(norm_topk_prob=False),
        "3 of 5 experts whose weights sum to less than 1, and an expert for all tokens.",
        edit=to_old_qwen,
    ),
    "hf-qwen2_moe-norm": Case(
        transformers.Qwen2MoeForCausalLM,
        SHARED_EXPERT_SIZES | dict(norm_topk_prob=True),
        "3 of 5 experts whose weights sum to 1, and an expert for all tokens.",
    ),
    "hf-deepseek_v2": Case(
        transformers.DeepseekV2ForCausalLM,
        LATENT_SIZES
        | dict(
            q_lora_rank=None,
            n_shared_experts=2,
            num_experts_per_tok=3,
            topk_method="group_limited_greedy",
            n_group=4,
            topk_group=2,
            routed_scaling_factor=1.5,
            max_position_embeddings=64,
            rope_parameters=rotary(100.0, "yarn", factor=4.0, mscale_all_dim=0.7, original_max_position_embeddings=16),
        ),
        "Latent attention without compressed queries, values narrower than keys; a first layer without experts, "
        "then 3 of 8 experts out of 2 of 4 groups and two for all tokens; YaRN that scales scores.",
        edit=to_old_rope,
    ),
    "hf-deepseek_v2-greedy": Case(
        transformers.DeepseekV2ForCausalLM,
        LATENT_SIZES
        | dict(
            q_lora_rank=14,
            n_shared_experts=1,
            num_experts_per_tok=2,
            v_head_dim=19,
            rms_norm_eps=0.05,
            attention_bias=True,
            first_k_dense_replace=0,
            num_hidden_layers=2,
        ),
        "Compressed queries, biases, values wider than keys; 2 of 8 experts in every layer; an eps that norms of "
        "compressed vectors do not have.",
    ),
    "hf-deepseek_v3": Case(
        transformers.DeepseekV3ForCausalLM,
        LATENT_SIZES
        | dict(
            v_head_dim=14,
            max_position_embeddings=64,
            q_lora_rank=14,
            n_group=4,
            topk_group=2,
            rms_norm_eps=0.05,
            num_experts_per_tok=3,
            rope_parameters=rotary(
                100.0, "yarn", factor=4.0, mscale=1.2, mscale_all_dim=0.7, original_max_position_embeddings=16
            ),
        ),
        "Experts chosen by sigmoids and a bias; values as wide as keys; YaRN with both of its sizes; an eps that norms "
        "of compressed vectors do not have.",
        edit=to_old_rope,
    ),
    "hf-deepseek_v3-halves": Case(
        transformers.DeepseekV3ForCausalLM,
        LATENT_SIZES
        | dict(
            num_hidden_layers=2,
            q_lora_rank=14,
            n_group=4,
            topk_group=2,
            num_experts_per_tok=3,
            rope_interleave=False,
            rope_parameters=rotary(100.0),
        ),
        "rope_interleave is false: a rotary pair is not two neighbors.",
    ),
    "hf-dots1": Case(
        transformers.Dots1ForCausalLM,
        SIZES
        | dict(
            head_dim=10,
            num_hidden_layers=3,
            first_k_dense_replace=1,
            n_routed_experts=6,
            moe_intermediate_size=12,
            n_shared_experts=2,
            num_experts_per_tok=2,
            routed_scaling_factor=1.5,
            sliding_window=6,
            max_window_layers=2,
            rope_parameters=rotary(100.0),
        ),
        "Queries and keys normed by heads; experts of deepseek_v3 whose weights are sigmoids; a window of 6 keys in "
        "the last layer.",
        edit=to_old_rope,
    ),
    "hf-granite_swa": Case(
        transformers.GraniteSWAForCausalLM,
        SIZES
        | GRANITE_FACTORS
        | dict(num_hidden_layers=5, layer_rope_theta=[50.0, 100.0, 0, 100.0, 0], sliding_window=6),
        "Granite's factors; a sink logit for each head; every fourth layer sees all keys, the others 6; two bases of "
        "rotary positions, and layers without them.",
        maps=trace_with_sink_weights,
    ),
    "hf-granite_swa-types": Case(
        transformers.GraniteSWAForCausalLM,
        SIZES
        | dict(
            layer_types=["sliding_attention", "full_attention"],
            attention_bias=True,
            mlp_bias=True,
            rope_parameters=rotary(100.0),
            sliding_window=6,
        ),
        "layer_types of its own, one base, biases.",
        edit=to_old_rope,
        maps=trace_with_sink_weights,
    ),
    "hf-mimo_v2_flash": Case(
        transformers.MiMoV2FlashForCausalLM,
        MIMO_SIZES | dict(num_hidden_layers=7, mlp_layer_types=["dense", "sparse"] * 3 + ["sparse"]),
        "Layers with a window have two key/value heads and sink logits, the others one and none; values narrower than "
        "keys, and scaled; two rotations of four dimensions; layers without experts.",
    ),
    "hf-mimo_v2_flash-types": Case(
        transformers.MiMoV2FlashForCausalLM,
        MIMO_SIZES
        | dict(
            layer_types=["sliding_attention", "full_attention", "sliding_attention"],
            attention_bias=True,
            attention_value_scale=None,
            n_group=3,
            topk_group=2,
            routed_scaling_factor=1.5,
            norm_topk_prob=False,
            v_head_dim=17,
            rope_parameters={
                "full_attention": rotary(50.0, partial_rotary_factor=0.6),
                "sliding_attention": rotary(20.0, partial_rotary_factor=0.3),
            },
        ),
        "layer_types of its own; rotations of 8 and of 4 dimensions; values wider than keys and not scaled; groups of "
        "experts; biases of q, k and v.",
    ),
    "hf-apertus": Case(
        transformers.ApertusForCausalLM,
        SIZES
        | dict(
            max_position_embeddings=384,
            attention_bias=True,
            rope_parameters=rotary(
                100.0,
                "llama3",
                factor=8.0,
                low_freq_factor=1.0,
                high_freq_factor=4.0,
                original_max_position_embeddings=48,
            ),
        ),
        "Queries and keys normed by heads; xIELU with a curve in each layer; biases of q, k, v and o.",
        edit=to_old_rope,
    ),
    "hf-phimoe": Case(
        transformers.PhimoeForCausalLM,
        SIZES
        | dict(
            intermediate_size=24,
            num_local_experts=5,
            attention_bias=True,
            lm_head_bias=True,
            router_jitter_noise=0.2,
            sliding_window=6,
            rope_parameters=rotary(100.0),
        ),
        "LayerNorm; 2 of 5 experts, each weighed among those near it; biases, also of the head; a window of 6 keys.",
        edit=to_old_rope,
    ),
    "hf-phimoe-long": Case(
        transformers.PhimoeForCausalLM,
        SIZES
        | dict(
            intermediate_size=24,
            num_local_experts=5,
            rope_parameters=rotary(
                100.0,
                "longrope",
                original_max_position_embeddings=24,
                short_factor=[1.1, 1.6, 2.3, 4.0],
                long_factor=[2.0, 3.0, 5.0, 9.0],
                short_mscale=1.2,
                long_mscale=1.3,
            ),
        ),
        "longrope whose factor of rotated vectors is short_mscale.",
        edit=to_old_rope,
    ),
    "hf-llama-bidirectional": Case(
        transformers.LlamaForCausalLM,
        SIZES,
        "is_causal is false: every query sees every key.",
        edit=lambda config: config | {"is_causal": False},
    ),
    "hf-llama-linear": Case(
        transformers.LlamaForCausalLM,
        SIZES | dict(tie_word_embeddings=True, rope_parameters=rotary(100.0, "linear", factor=2.5)),
        "rope_scaling of the oldest form: linear.",
        dtype=torch.float16,
        edit=to_old_linear_rope,
    ),
    "hf-llama-dynamic": Case(
        transformers.LlamaForCausalLM,
        SIZES | dict(tie_word_embeddings=True, rope_parameters=rotary(100.0, "dynamic", factor=4.0)),
        "rope_scaling dynamic, which changes nothing up to the model's context.",
        dtype=torch.float16,
    ),
    "hf-llama-yarn": Case(
        transformers.LlamaForCausalLM,
        SIZES
        | dict(
            tie_word_embeddings=True,
            rope_parameters=rotary(10000.0, "yarn", factor=4.0, original_max_position_embeddings=4096),
        ),
        "rope_scaling yarn: its ramp between whole pairs.",
        dtype=torch.float16,
    ),
    "hf-llama-llama3": Case(
        transformers.LlamaForCausalLM,
        SIZES
        | dict(
            tie_word_embeddings=True,
            rope_parameters=rotary(
                100.0,
                "llama3",
                factor=8.0,
                low_freq_factor=1.0,
                high_freq_factor=4.0,
                original_max_position_embeddings=40,
            ),
        ),
        "rope_scaling llama3: pairs of all three kinds.",
        dtype=torch.float16,
    ),
}


def main() -> None:
    write_cases("Write tests/golden/hf-* of every family", CASES, write)


if __name__ == "__main__":
    main()
