"""Makes small random encoders with their decoders, and computes their attention with transformers' eager code only."""

from collections.abc import Callable
from typing import Any

import torch
import transformers as tf
from torch import Tensor

V, D, S, T = 61, 32, 11, 7
IDS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2}
BART = IDS | {
    "vocab_size": V,
    "d_model": D,
    "encoder_layers": 2,
    "decoder_layers": 3,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "max_position_embeddings": 64,
    "forced_eos_token_id": None,
}
T5 = IDS | {
    "vocab_size": V,
    "d_model": D,
    "d_kv": 8,
    "d_ff": 48,
    "num_layers": 2,
    "num_decoder_layers": 3,
    "num_heads": 4,
    "relative_attention_num_buckets": 8,
    "relative_attention_max_distance": 16,
}
SPEECH = BART | {"max_source_positions": 20, "max_target_positions": 32, "num_mel_bins": 8, "suppress_tokens": None}
MOONSHINE = IDS | {
    "vocab_size": V,
    "hidden_size": D,
    "intermediate_size": 48,
    "encoder_num_hidden_layers": 2,
    "decoder_num_hidden_layers": 3,
    "encoder_num_attention_heads": 4,
    "decoder_num_attention_heads": 4,
}
FAMILIES: dict[str, tuple[Any, dict[str, Any]]] = {
    "whisper": (tf.WhisperForConditionalGeneration, SPEECH | {"begin_suppress_tokens": None}),
    "bart": (tf.BartForConditionalGeneration, BART),
    "t5": (tf.T5ForConditionalGeneration, T5),
    "mt5": (tf.MT5ForConditionalGeneration, T5 | {"feed_forward_proj": "gated-gelu"}),
    "umt5": (tf.UMT5ForConditionalGeneration, T5),
    "switch": (tf.SwitchTransformersForConditionalGeneration, T5 | {"num_experts": 2}),
    "marian": (tf.MarianMTModel, BART),
    "pegasus": (tf.PegasusForConditionalGeneration, BART),
    "mbart": (tf.MBartForConditionalGeneration, BART),
    "m2m_100": (tf.M2M100ForConditionalGeneration, BART),
    "blenderbot": (tf.BlenderbotForConditionalGeneration, BART),
    "speech_to_text": (
        tf.Speech2TextForConditionalGeneration,
        SPEECH | {"max_source_positions": 64, "input_feat_per_channel": 8, "conv_channels": 16},
    ),
    "moonshine": (tf.MoonshineForConditionalGeneration, MOONSHINE),
}


def make(name: str, implementation: str | None = None, dtype: torch.dtype = torch.float32) -> Any:
    torch.manual_seed(7)
    model_class, sizes = FAMILIES[name]
    implementation = implementation or ("sdpa" if model_class._supports_sdpa else "eager")
    config = model_class.config_class(**sizes, attn_implementation=implementation)
    model = model_class(config).eval()
    with torch.no_grad():  # a spread far above the usual one, so that attention is not uniform
        for x in model.parameters():
            x.normal_(0, 0.35 if x.dim() > 1 else 0.5)
    return model.to(dtype)


def prompts(name: str, n: int = 3) -> list[dict[str, Tensor]]:
    g = torch.Generator().manual_seed(3)
    config = FAMILIES[name][0].config_class
    inputs: Callable[[], dict[str, Tensor]]
    if config is tf.MoonshineConfig:
        inputs = lambda: {"input_values": torch.randn(1, 6000, generator=g)}  # noqa: E731
    elif "Speech" in config.__name__ or config is tf.WhisperConfig:
        shape = (1, 8, 40) if config is tf.WhisperConfig else (1, 40, 8)
        inputs = lambda: {"input_features": torch.randn(*shape, generator=g)}  # noqa: E731
    else:
        inputs = lambda: {"input_ids": torch.randint(3, V, (1, S), generator=g)}  # noqa: E731
    return [inputs() | {"decoder_input_ids": torch.randint(3, V, (1, T), generator=g)} for _ in range(n)]


@torch.no_grad()
def run_eagerly(name: str, inputs: dict[str, Tensor], dtype: torch.dtype = torch.float64) -> Any:
    """Returns the output of the same model in transformers' eager code, with the attention of both stacks."""
    inputs = {key: x.to(dtype) if x.is_floating_point() else x for key, x in inputs.items()}
    return make(name, "eager", dtype)(**inputs, output_attentions=True, use_cache=False)
