"""Makes small random encoders with their decoders of every family of the installed transformers, and computes their
attention with transformers' eager code only."""

import inspect
import re
from functools import cache, lru_cache
from typing import Any

import torch
import transformers as tf
from torch import Tensor
from transformers.models.auto import modeling_auto
from transformers.models.auto.configuration_auto import CONFIG_MAPPING, CONFIG_MAPPING_NAMES

V, D, S, T = 61, 32, 11, 7
PIXELS = 128
# Fields of configs by what they count, whatever the family calls them.
SIZES: dict[str, Any] = {
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id|decoder_start_token_id": 2,
    "(forced_eos|begin_suppress|suppress)_tokens?(_id)?": None,
    "(src_|tgt_)?vocab_size": V,
    "d_model|dim|(cross_|cross_attention_|decoder_|encoder_)?hidden_(size|dim)|projection_dim": D,
    "(encoder_|num_encoder_|num_|num_hidden_|encoder_num_hidden_|text_encoder_)layers": 2,
    "(decoder_|num_decoder_|decoder_num_hidden_)layers": 3,
    "(.*_)?num_attention_heads|.*_attention_heads|num_heads|(cross_)?num_key_value_heads": 4,
    ".*ffn_dim|(.*_)?intermediate_size|d_ff|mlp_dim|prompt_intermediate_size": 48,
    "d_kv|(cross_)?head_dim|query_pre_attn_scalar": 8,
    "max_position_embeddings|max_(text|speech|source|target)_positions|max_positions": 96,
    "relative_attention_num_buckets": 8,
    "relative_attention_max_distance": 16,
    "num_(local_)?experts": 2,
    "num_mel_bins|input_feat_per_channel": 8,
    "conv_channels|subsampling_conv_channels|conv_hidden_size": 16,
    "conv_dim": (16, 16),
    "conv_(kernel|stride)": (10, 5),
    "num_feat_extract_layers": 2,
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 4,
    "upsample_initial_channel": 16,
    "image_size": PIXELS,
    "patch_embed_hidden_size": 768,
    "num_queries": T,
    "attention_window": 16,
    "attention_dropout|layerdrop|encoder_layerdrop|decoder_layerdrop|speech_decoder_prenet_dropout": 0.0,
}
STAGES = ["stage2", "stage3", "stage4"]
FLORENCE = {"depths": (1, 1, 1, 1), "embed_dim": (8, 16, 16, 32), "num_heads": (1, 2, 2, 4), "num_groups": (1, 2, 2, 4)}


def _resnet(stages: list[str]) -> dict[str, Any]:
    sizes = {"embedding_size": 8, "hidden_sizes": [8, 8, 8, 8], "depths": [1, 1, 1, 1], "layer_type": "basic"}
    return {"backbone_config": tf.ResNetConfig(**sizes, out_features=stages)}


LEVELS = _resnet(STAGES) | {"encoder_in_channels": [8, 8, 8], "decoder_in_channels": [D, D, D], "encoder_hidden_dim": D}
SWIN = {"embed_dim": 8, "depths": [1, 1, 1, 1], "num_heads": [1, 1, 2, 2], "window_size": 4, "out_indices": [2, 3, 4]}
TIMES = {"prediction_length": T, "context_length": S, "lags_sequence": [1, 2], "num_time_features": 2}
CHANGES: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("autoformer", "informer", "time_series_transformer"), TIMES),
    **dict.fromkeys(("detr", "conditional_detr", "dab-detr", "table-transformer"), _resnet(["stage4"])),
    **dict.fromkeys(("rt_detr", "rt_detr_v2", "d_fine", "deimv2", "omdet-turbo"), LEVELS),
    **dict.fromkeys(("pp_doclayout_v2", "pp_doclayout_v3", "pp_doclayout_v4"), LEVELS),
    "deformable_detr": _resnet(STAGES) | {"num_feature_levels": 3},
    **dict.fromkeys(("grounding-dino", "mm-grounding-dino"), {"backbone_config": tf.SwinConfig(**SWIN)}),
    "florence2": {"vision_config": FLORENCE},
    "t5": {"decoder_start_token_id": 2},
    "udop": {"relative_attention_num_buckets": 32, "relative_attention_max_distance": 128},
    "moonshine": {"encoder_num_key_value_heads": 4, "decoder_num_key_value_heads": 4},
    "moonshine_streaming": {"num_key_value_heads": 4},
}
# Models that do not run in float64.
SINGLE = ("autoformer", "dab-detr", "fastspeech2_conformer", "fsmt")
CODEBOOKS = {"dia": (1, T, 9), "musicgen": (4, T), "musicgen_melody": (4, T)}
HEADS = (
    "SEQ_TO_SEQ_CAUSAL_LM",
    "SPEECH_SEQ_2_SEQ",
    "IMAGE_TEXT_TO_TEXT",
    "TEXT_TO_WAVEFORM",
    "OBJECT_DETECTION",
    "ZERO_SHOT_OBJECT_DETECTION",
    "RNNT",
    "TDT",
)


def _is_pair(config_class: Any) -> bool:
    try:
        return getattr(config_class(), "is_encoder_decoder", False) is True
    except Exception:  # a config without defaults
        return getattr(config_class, "is_encoder_decoder", False) is True


@cache
def families() -> dict[str, str]:
    """Returns the model types whose configs say that they are an encoder with its decoder, and the class of each."""
    tables = [getattr(modeling_auto, f"MODEL_FOR_{head}_MAPPING_NAMES") for head in HEADS]
    tables.append(modeling_auto.MODEL_MAPPING_NAMES)
    types = [name for name in CONFIG_MAPPING_NAMES if _is_pair(CONFIG_MAPPING[name])]
    classes = {name: [table[name] for table in tables if name in table] for name in types}
    return {name: found[0] for name, found in classes.items() if found}


def shrink(config: Any, kept: Any = ()) -> Any:
    for name, value in list(vars(config).items()):
        if isinstance(value, tf.PretrainedConfig):
            shrink(value)
            continue
        size = next((size for pattern, size in SIZES.items() if re.fullmatch(pattern, name)), value)
        are_lists = [isinstance(x, list | tuple) for x in (value, size)]
        if name not in kept and value is not None and type(value) is not bool and are_lists[0] == are_lists[1]:
            setattr(config, name, size)
    return config


def dtype_of(name: str) -> torch.dtype:
    return torch.float32 if name in SINGLE else torch.float64


@lru_cache(4)
def make(name: str, implementation: str | None = None, dtype: torch.dtype = torch.float32) -> Any:
    torch.manual_seed(7)
    model_class, changes = getattr(tf, families()[name]), CHANGES.get(name, {})
    config = shrink(CONFIG_MAPPING[name](**changes), changes)
    own = implementation or ("sdpa" if model_class._supports_sdpa else "eager")
    convolutions = [part for part in ("backbone_config", "audio_encoder") if hasattr(config, part)]
    parts = dict.fromkeys(("", *config.sub_configs), own) | dict.fromkeys(convolutions, "eager")
    config._attn_implementation = parts if convolutions else own
    model = model_class(config).eval()
    with torch.no_grad():  # a spread far above the usual one, so that attention is not uniform
        for x in model.parameters():
            x.normal_(0, (0.1 if name == "dab-detr" else 0.35) if x.dim() > 1 else 0.5)
    return model.to(dtype)


def prompts(name: str, n: int = 3) -> list[dict[str, Tensor]]:
    g, model = torch.Generator().manual_seed(3), make(name, dtype=dtype_of(name))

    def ids(*shape: int) -> Tensor:
        return torch.randint(3, V, shape, generator=g)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=g).to(dtype_of(name))

    def inputs() -> dict[str, Tensor]:
        kind = model.main_input_name
        match kind:
            case "inputs" | "input_values":
                return {"input_values": normal(1, 6000)}
            case "input_features":
                return {kind: normal(*((1, 8, 192) if name == "whisper" else (1, 160, 8)))}
            case "pixel_values":
                return {kind: normal(1, 3, PIXELS, PIXELS)}
            case "flattened_patches":
                return {kind: torch.cat([torch.arange(18).view(1, 9, 2).to(dtype_of(name)), normal(1, 9, 768)], -1)}
            case "past_values":
                past = S + 2
                shapes = {"past_values": (past,), "past_time_features": (past, 2), "past_observed_mask": (past,)}
                shapes |= {"future_values": (T,), "future_time_features": (T, 2)}
                return {key: normal(1, *shape).abs() for key, shape in shapes.items()}
        return {"input_ids": ids(1, S)}

    parameters = inspect.signature(model.forward).parameters
    rows = []
    for _ in range(n):
        row = inputs()
        if "decoder_input_ids" in parameters:
            row["decoder_input_ids"] = ids(*CODEBOOKS.get(name, (1, T)))
        if name == "udop":
            row["bbox"] = normal(1, S, 4).sigmoid()
        rows.append(row)
    return rows


@torch.no_grad()
def run_eagerly(name: str, inputs: dict[str, Tensor]) -> Any:
    """Returns the output of the same model in transformers' eager code, with the attention of both stacks."""
    model = make(name, "eager", dtype_of(name))
    extra = {"use_cache": False} if "use_cache" in inspect.signature(model.forward).parameters else {}
    return model(**inputs, **extra, output_attentions=True)


@torch.no_grad()
def run_encoder_eagerly(name: str, inputs: dict[str, Tensor]) -> Any:
    """Returns the attention of the encoder alone, for models that do not return it."""
    own = {key: x for key, x in inputs.items() if not key.startswith("decoder_")}
    return make(name, "eager", dtype_of(name)).get_encoder()(**own, output_attentions=True).attentions
