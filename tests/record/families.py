"""Makes small random models of each family, and computes their attention with transformers only."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import sinkscope
import torch
import transformers as tf
from torch import Tensor

T, V, L, H, D = 48, 97, 3, 4, 64
COMMON = {"vocab_size": V, "initializer_range": 0.2}
# Special tokens, without a pad token, since random ids may equal any id.
DECODER = COMMON | {"bos_token_id": 1, "eos_token_id": 2}
PIXELS = {"hidden_size": D, "intermediate_size": 80, "num_hidden_layers": L, "num_attention_heads": H}
ENCODER = COMMON | PIXELS
ROTARY = DECODER | PIXELS | {"pad_token_id": None}
FALCON = DECODER | {"hidden_size": D, "num_hidden_layers": L, "num_attention_heads": H}


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
    name: str, common: dict[str, Any], head: str = "ForCausalLM", **sizes: Any
) -> Callable[[str], tf.PreTrainedModel]:
    def make(implementation: str) -> tf.PreTrainedModel:
        torch.manual_seed(5)
        config = getattr(tf, f"{name}Config")(**common | sizes)
        model = getattr(tf, name + head)._from_config(config, attn_implementation=implementation).eval()
        with torch.no_grad():  # biases and sink logits start at 0, and would not affect the results
            for name_of_x, x in model.named_parameters():
                if x.dim() == 1 and ("bias" in name_of_x or "sinks" in name_of_x):
                    x.normal_(0, 0.5)
        return model

    return make


EAGER = ("eager",)
MIXED = ROTARY | {"num_key_value_heads": 2, "head_dim": 16}
FAMILIES = {
    "llama": Family(_maker("Llama", ROTARY, num_key_value_heads=2), G=2),
    "mistral": Family(_maker("Mistral", ROTARY, num_key_value_heads=1, sliding_window=7), windows=[7] * L, G=1),
    "gpt2": Family(
        _maker("GPT2", DECODER, "LMHeadModel", n_embd=D, n_layer=L, n_head=H, scale_attn_by_inverse_layer_idx=True)
    ),
    "gpt_neox": Family(_maker("GPTNeoX", ROTARY)),
    "gpt_oss": Family(
        _maker("GptOss", MIXED, sliding_window=9, num_local_experts=4, num_experts_per_tok=2),
        EAGER,
        windows=[9, None, 9],
        G=2,
    ),
    "gemma2": Family(
        _maker("Gemma2", MIXED, sliding_window=8, attn_logit_softcapping=2.0, query_pre_attn_scalar=9),
        EAGER,
        windows=[8, None, 8],
        G=2,
    ),
    "gpt_neo": Family(
        _maker(
            "GPTNeo",
            DECODER | {"hidden_size": D, "num_layers": L, "num_heads": H, "window_size": 6},
            attention_types=[[["global", "local", "global"], 1]],
        ),
        EAGER,
        windows=[None, 6, None],
        weight_implementations=EAGER,
    ),
    "falcon": Family(_maker("Falcon", FALCON, multi_query=True), G=1, weight_implementations=EAGER),
    # Only sdpa is tested: falcon's eager code adds the ALiBi bias twice, so that its maps are wrong.
    "falcon-alibi": Family(
        _maker("Falcon", FALCON, multi_query=False, alibi=True, parallel_attn=False, bias=True), ("sdpa",)
    ),
    "bloom": Family(_maker("Bloom", DECODER, hidden_size=D, n_layer=L, n_head=H), EAGER, weight_implementations=EAGER),
    "mpt": Family(
        _maker("Mpt", COMMON, d_model=D, n_layers=L, n_heads=H, max_seq_len=64, expansion_ratio=2),
        EAGER,
        weight_implementations=EAGER,
    ),
    # Values are narrower than keys.
    "deepseek_v3": Family(
        _maker(
            "DeepseekV3",
            ROTARY | {"num_key_value_heads": H, "q_lora_rank": None, "kv_lora_rank": 20, "qk_rope_head_dim": 8},
            **{"qk_nope_head_dim": 8, "v_head_dim": 12, "first_k_dense_replace": L},
        ),
        EAGER,
    ),
    "bert": Family(_maker("Bert", ENCODER, "ForMaskedLM"), kind="bidirectional"),
    "modernbert": Family(
        _maker(
            "ModernBert",
            DECODER | PIXELS | {"local_attention": 16, "global_attn_every_n_layers": 2},
            "ForMaskedLM",
            **{"pad_token_id": 0, "cls_token_id": 3, "sep_token_id": 4},
        ),
        kind="bidirectional",
        windows=[None, 17, None],
    ),
    "vit": Family(
        _maker("ViT", PIXELS | {"initializer_range": 0.2}, "ForImageClassification", image_size=24, patch_size=4),
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


def record(model: torch.nn.Module, prompts: Any, **options: Any) -> sinkscope.Recording:
    """Records prompts, of which T tokens count where `tokens` says nothing else."""
    return sinkscope.record(model, None, prompts, **{"tokens": T, "progress": False} | options)


def watch(model: torch.nn.Module, *batches: Any) -> Any:
    """Returns the sequences that a model reads in these batches of ids."""
    with torch.no_grad(), sinkscope.watching(model) as sequences:
        for batch in batches:
            model(torch.tensor(batch))
    return sequences


def to_batch(prompt: Any) -> dict[str, Tensor]:
    return dict(prompt) if isinstance(prompt, dict) else {"input_ids": torch.tensor([prompt])}


@torch.no_grad()
def run_eagerly(name: str, prompt: Any) -> Any:
    model = FAMILIES[name].make("eager")
    return model(**to_batch(prompt), output_attentions=True, output_hidden_states=True)
