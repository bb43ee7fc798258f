"""Tiny random vision-language models of the installed transformers, each with the inputs of one prompt: a start token,
an image of 2 x 2 patches, and words."""

from collections.abc import Callable
from typing import Any

import torch
import transformers as tf
from torch import Tensor

IMAGE, START, T = 60, 1, 12  # ids of the image token and of the start token; length of a prompt
TEXT = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "initializer_range": 0.3,
    "pad_token_id": 0,
    "bos_token_id": START,
    "eos_token_id": 2,
}
VISION = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
QWEN_IDS = {"image_token_id": IMAGE, "video_token_id": 61, "vision_start_token_id": 58, "vision_end_token_id": 59}


def _rope(**options: Any) -> dict[str, Any]:
    return {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, **options}}


def make_ids(patches: int = 4) -> Tensor:
    words = torch.randint(3, 56, (T - 6,), generator=torch.Generator().manual_seed(3))
    return torch.tensor([[START, 5, *[IMAGE] * patches, *words.tolist()]])


QWEN_KINDS = {"mm_token_type_ids": (make_ids() == IMAGE).long()}


def _pixels(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(5))


def make_llava(side: int = 2) -> tuple[Any, dict[str, Tensor]]:
    """Returns a model whose image has `side` * `side` patches, and the pixels."""
    config = tf.LlavaConfig(
        vision_config=tf.CLIPVisionConfig(**VISION, image_size=8 * side, patch_size=8, projection_dim=16),
        text_config=tf.LlamaConfig(**TEXT),
        image_token_index=IMAGE,
        vision_feature_layer=-1,
    )
    return tf.LlavaForConditionalGeneration(config), {"pixel_values": _pixels(1, 3, 8 * side, 8 * side)}


def _qwen2_vl() -> tuple[Any, dict[str, Tensor]]:
    config = tf.Qwen2VLConfig(
        text_config=TEXT | _rope(mrope_section=[1, 1, 2]),
        vision_config={"depth": 2, "embed_dim": 32, "hidden_size": 32, "num_heads": 4, "mlp_ratio": 2, "patch_size": 8},
        **QWEN_IDS,
    )
    inputs = {"pixel_values": _pixels(16, 3 * 2 * 64), "image_grid_thw": torch.tensor([[1, 4, 4]])} | QWEN_KINDS
    return tf.Qwen2VLForConditionalGeneration(config), inputs


def _qwen3_vl() -> tuple[Any, dict[str, Tensor]]:
    config = tf.Qwen3VLConfig(
        text_config=TEXT | {"head_dim": 8} | _rope(mrope_section=[1, 1, 2], mrope_interleaved=True),
        vision_config=VISION
        | {"depth": 3, "num_heads": 4, "patch_size": 8, "out_hidden_size": 32, "deepstack_visual_indexes": [0, 1]}
        | {"num_position_embeddings": 16},
        **QWEN_IDS,
    )
    inputs = {"pixel_values": _pixels(16, 3 * 2 * 64), "image_grid_thw": torch.tensor([[1, 4, 4]])} | QWEN_KINDS
    return tf.Qwen3VLForConditionalGeneration(config), inputs


def _gemma3() -> tuple[Any, dict[str, Tensor]]:
    config = tf.Gemma3Config(
        text_config=TEXT | {"head_dim": 8, "sliding_window": 32},
        vision_config=VISION | {"image_size": 32, "patch_size": 8},
        mm_tokens_per_image=4,
        image_token_index=IMAGE,
        boi_token_index=58,
        eoi_token_index=59,
    )
    kinds = (make_ids() == IMAGE).long()
    model = tf.Gemma3ForConditionalGeneration(config)
    torch.nn.init.normal_(model.model.multi_modal_projector.mm_input_projection_weight)  # zero in a new model
    return model, {"pixel_values": _pixels(1, 3, 32, 32), "token_type_ids": kinds}


def _smolvlm() -> tuple[Any, dict[str, Tensor]]:
    config = tf.SmolVLMConfig(
        text_config=tf.LlamaConfig(**TEXT),
        vision_config=VISION | {"image_size": 32, "patch_size": 8},
        scale_factor=2,
        image_token_id=IMAGE,
    )
    return tf.SmolVLMForConditionalGeneration(config), {"pixel_values": _pixels(1, 1, 3, 32, 32)}


VLMS: dict[str, Callable[[], tuple[Any, dict[str, Tensor]]]] = {
    "llava": make_llava,
    "qwen2_vl": _qwen2_vl,
    "qwen3_vl": _qwen3_vl,
    "gemma3": _gemma3,
    "smolvlm": _smolvlm,
}


def make(name: str) -> tuple[Any, dict[str, Tensor]]:
    """Returns the model and the inputs of its prompt."""
    torch.manual_seed(7)
    model, images = VLMS[name]()
    return model.eval(), {"input_ids": make_ids()} | images
