"""Makes small random models that have attention in only some of their layers."""

from collections.abc import Callable
from typing import Any

import torch
import transformers as tf

BLOCKS, V = 4, 64
COMMON = {
    "vocab_size": V,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": BLOCKS,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "initializer_range": 0.2,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": None,
}
LAYER_TYPES = ["linear_attention"] * 3 + ["full_attention"]
LINEAR = {
    "layer_types": LAYER_TYPES,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 2,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
}


def _maker(name: str, **sizes: Any) -> Callable[[], tf.PreTrainedModel]:
    def make() -> tf.PreTrainedModel:
        torch.manual_seed(5)
        config = getattr(tf, f"{name}TextConfig", None) or getattr(tf, f"{name}Config")
        return (
            getattr(tf, f"{name}ForCausalLM")._from_config(config(**COMMON | sizes), attn_implementation="sdpa").eval()
        )

    return make


EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
ZAMBA = {"mamba_d_state": 4, "n_mamba_heads": 4, "mamba_ngroups": 1, "num_mem_blocks": 1, "mamba_headdim": 16}
BAMBA = {"mamba_n_heads": 4, "mamba_d_head": 16, "mamba_d_state": 4, "mamba_n_groups": 1, "mamba_chunk_size": 8}
JAMBA = {"attn_layer_period": 2, "attn_layer_offset": 1, "expert_layer_period": 2, "expert_layer_offset": 1}
RECURRENT = {"block_types": ["recurrent", "recurrent", "attention"], "lru_width": 32, "attention_window_size": 7}
# For each model, a function that makes it, and the numbers of its layers with attention.
HYBRIDS = {
    "qwen3_next": (_maker("Qwen3Next", head_dim=8, shared_expert_intermediate_size=16, **LINEAR, **EXPERTS), [3]),
    "qwen3_5_text": (_maker("Qwen3_5", head_dim=8, **LINEAR), [3]),
    "jamba": (_maker("Jamba", num_experts=2, mamba_d_state=4, **JAMBA), [1, 3]),
    # The two layers with attention of zamba2 share their weights.
    "zamba2": (
        _maker(
            "Zamba2",
            layers_block_type=["mamba", "hybrid"] * 2,
            **ZAMBA | {"chunk_size": 8, "attention_hidden_size": 64, "attention_head_dim": 16},
        ),
        [1, 3],
    ),
    "bamba": (_maker("Bamba", attn_layer_indices=[2], **BAMBA), [2]),
    "lfm2": (_maker("Lfm2", layer_types=["conv", "full_attention"] * 2), [1, 3]),
    "recurrent_gemma": (_maker("RecurrentGemma", **RECURRENT), [2]),
    "olmo_hybrid": (_maker("OlmoHybrid", **LINEAR), [3]),
}
