"""Makes small random models of each family, and computes their attention with transformers only."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
import transformers as tf
from torch import Tensor

T, V, L, H, D = 48, 97, 3, 4, 64
COMMON = {"vocab_size": V, "initializer_range": 0.2}
# Special tokens, without a pad token, since random ids may equal any id.
SPECIAL_IDS = {"bos_token_id": 1, "eos_token_id": 2}
ROTARY = (
    COMMON
    | SPECIAL_IDS
    | {
        "hidden_size": D,
        "intermediate_size": 80,
        "num_hidden_layers": L,
        "num_attention_heads": H,
        "pad_token_id": None,
    }
)
ENCODER = COMMON | {"hidden_size": D, "intermediate_size": 80, "num_hidden_layers": L, "num_attention_heads": H}


@dataclass(frozen=True)
class Family:
    make: Callable[[str], tf.PreTrainedModel]
    implementations: tuple[str, ...] = ("sdpa", "eager")
    input_kind: str = "tokens"
    kind: str = "causal"
    windows: list[int | None] = field(default_factory=lambda: [None] * L)
    G: int = H
    # implementations whose returned weights are observed, without queries, keys and values
    weight_implementations: tuple[str, ...] = ()


def _maker(
    model_class: type[tf.PreTrainedModel], config_class: type[tf.PreTrainedConfig], **sizes: Any
) -> Callable[[str], tf.PreTrainedModel]:
    def make(implementation: str) -> tf.PreTrainedModel:
        torch.manual_seed(5)
        model_instance = model_class._from_config(config_class(**sizes), attn_implementation=implementation).eval()
        with torch.no_grad():  # biases and sink logits start at 0, and would not affect the results
            for name, x in model_instance.named_parameters():
                if x.dim() == 1 and ("bias" in name or "sinks" in name):
                    x.normal_(0, 0.5)
        return model_instance

    return make


FAMILIES = {
    "llama": Family(_maker(tf.LlamaForCausalLM, tf.LlamaConfig, num_key_value_heads=2, **ROTARY), G=2),
    "mistral": Family(
        _maker(tf.MistralForCausalLM, tf.MistralConfig, num_key_value_heads=1, sliding_window=7, **ROTARY),
        windows=[7] * L,
        G=1,
    ),
    "gpt2": Family(
        _maker(
            tf.GPT2LMHeadModel,
            tf.GPT2Config,
            n_embd=D,
            n_layer=L,
            n_head=H,
            scale_attn_by_inverse_layer_idx=True,
            **SPECIAL_IDS,
            **COMMON,
        )
    ),
    "gpt_neox": Family(_maker(tf.GPTNeoXForCausalLM, tf.GPTNeoXConfig, **ROTARY)),
    "gpt_oss": Family(
        _maker(
            tf.GptOssForCausalLM,
            tf.GptOssConfig,
            num_key_value_heads=2,
            head_dim=16,
            sliding_window=9,
            num_local_experts=4,
            num_experts_per_tok=2,
            **ROTARY,
        ),
        ("eager",),
        windows=[9, None, 9],
        G=2,
    ),
    "gemma2": Family(
        _maker(
            tf.Gemma2ForCausalLM,
            tf.Gemma2Config,
            num_key_value_heads=2,
            head_dim=16,
            sliding_window=8,
            attn_logit_softcapping=2.0,
            query_pre_attn_scalar=9,
            **ROTARY,
        ),
        ("eager",),
        windows=[8, None, 8],
        G=2,
    ),
    "gpt_neo": Family(
        _maker(
            tf.GPTNeoForCausalLM,
            tf.GPTNeoConfig,
            hidden_size=D,
            num_layers=L,
            num_heads=H,
            attention_types=[[["global", "local", "global"], 1]],
            window_size=6,
            **SPECIAL_IDS,
            **COMMON,
        ),
        ("eager",),
        windows=[None, 6, None],
        weight_implementations=("eager",),
    ),
    "falcon": Family(
        _maker(
            tf.FalconForCausalLM,
            tf.FalconConfig,
            hidden_size=D,
            num_hidden_layers=L,
            num_attention_heads=H,
            multi_query=True,
            **SPECIAL_IDS,
            **COMMON,
        ),
        G=1,
        weight_implementations=("eager",),
    ),
    # Only sdpa is tested: falcon's eager code adds the ALiBi bias twice, so that its maps are wrong.
    "falcon-alibi": Family(
        _maker(
            tf.FalconForCausalLM,
            tf.FalconConfig,
            hidden_size=D,
            num_hidden_layers=L,
            num_attention_heads=H,
            multi_query=False,
            alibi=True,
            parallel_attn=False,
            bias=True,
            **SPECIAL_IDS,
            **COMMON,
        ),
        ("sdpa",),
    ),
    "bloom": Family(
        _maker(tf.BloomForCausalLM, tf.BloomConfig, hidden_size=D, n_layer=L, n_head=H, **SPECIAL_IDS, **COMMON),
        ("eager",),
        weight_implementations=("eager",),
    ),
    "mpt": Family(
        _maker(
            tf.MptForCausalLM,
            tf.MptConfig,
            d_model=D,
            n_layers=L,
            n_heads=H,
            max_seq_len=64,
            expansion_ratio=2,
            **COMMON,
        ),
        ("eager",),
        weight_implementations=("eager",),
    ),
    # Values are narrower than keys.
    "deepseek_v3": Family(
        _maker(
            tf.DeepseekV3ForCausalLM,
            tf.DeepseekV3Config,
            num_key_value_heads=H,
            q_lora_rank=None,
            kv_lora_rank=20,
            qk_rope_head_dim=8,
            qk_nope_head_dim=8,
            v_head_dim=12,
            first_k_dense_replace=L,
            **ROTARY,
        ),
        ("eager",),
    ),
    "bert": Family(_maker(tf.BertForMaskedLM, tf.BertConfig, **ENCODER), kind="bidirectional"),
    "modernbert": Family(
        _maker(
            tf.ModernBertForMaskedLM,
            tf.ModernBertConfig,
            local_attention=16,
            global_attn_every_n_layers=2,
            pad_token_id=0,
            cls_token_id=3,
            sep_token_id=4,
            **SPECIAL_IDS,
            **ENCODER,
        ),
        kind="bidirectional",
        windows=[None, 17, None],
    ),
    "vit": Family(
        _maker(
            tf.ViTForImageClassification,
            tf.ViTConfig,
            image_size=24,
            patch_size=4,
            **{k: v for k, v in ENCODER.items() if k != "vocab_size"},
        ),
        input_kind="pixels",
        kind="bidirectional",
    ),
}
CASES = [(name, implementation) for name, family in FAMILIES.items() for implementation in family.implementations]


def make_inputs(family: Family, n: int, length: int = T) -> list[Any]:
    generator = torch.Generator().manual_seed(11)
    if family.input_kind == "pixels":
        return [{"pixel_values": torch.randn(1, 3, 24, 24, generator=generator)} for _ in range(n)]
    return torch.randint(5, V, (n, length), generator=generator).tolist()


def to_batch(prompt: Any) -> dict[str, Tensor]:
    return dict(prompt) if isinstance(prompt, dict) else {"input_ids": torch.tensor([prompt])}


@torch.no_grad()
def run_eagerly(name: str, prompt: Any) -> Any:
    model = FAMILIES[name].make("eager")
    return model(**to_batch(prompt), output_attentions=True, output_hidden_states=True)
