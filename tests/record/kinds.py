"""Writes one small recording of each kind, of random models, which `web/test` opens in every view, and a series.

    python tests/record/kinds.py [FOLDER]

FOLDER is tests/golden/recordings by default; the series is written beside it.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

if __name__ == "__main__":
    ROOT = Path(__file__).resolve().parents[2]
    sys.path[:0] = [str(ROOT / "models" / "record" / "src")]

import sinkscope
import torch
import transformers as tf
from families import FAMILIES
from hybrids import HYBRIDS
from pairs import FAMILIES as PAIRS
from pairs import make as make_pair
from vlms import make_ids, make_llava

T, LONG = 12, 132  # lengths of prompts; maps of more than 128 tokens are pooled
WORDS = ["<s>", " the", " old", " man", " sat", " at", " the", " door", ",", " and", " looked", "."]
ALL_FIELDS = ("hidden_norm", "key_norm", "value_norm", "loss", "q", "k", "v", "hidden")


def _prompts(count: int, tokens: int = T, id_bound: int = 60) -> list[list[int]]:
    rng = np.random.default_rng(3)
    return [[1, *rng.integers(3, id_bound, tokens - 1).tolist()] for _ in range(count)]


def _replace_tokens(recording: sinkscope.Recording, strings: list[str]) -> sinkscope.Recording:
    """Replaces the token strings of random ids by words, so that a reader sees a text."""
    conditions = dict(recording.conditions)
    conditions["tokens"] = [strings[: len(tokens)] for tokens in conditions["tokens"]]
    position = conditions["first"]["position"]
    if conditions["first"]["token"] is not None:
        conditions["first"] = conditions["first"] | {"token": strings[position]}
    return sinkscope.Recording(conditions, recording.tensors)


def _record(
    name: str, prompts: Any, make: Callable[[], Any], processor: Any = None, **options: Any
) -> sinkscope.Recording:
    options = {"tokens": T, "keep": 1, "fields": ALL_FIELDS, "progress": False} | options
    recording = sinkscope.record(make(), processor, prompts, model_id=name, **options)
    return _replace_tokens(recording, WORDS) if len(recording.conditions["tokens"][0]) == T else recording


def _family_maker(name: str) -> Callable[[], Any]:
    return lambda: FAMILIES[name].make(FAMILIES[name].implementations[0])


def _halve_second_layer(model: Any) -> Any:
    """Adds a hook that removes half of what the second layer adds to the stream, and returns the model."""
    model.model.layers[1].register_forward_hook(lambda _, inputs, output: inputs[0] + 0.5 * (output - inputs[0]))
    return model


def _make_clip() -> Any:
    torch.manual_seed(5)
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = tf.CLIPConfig(
        text_config=sizes | {"vocab_size": 64, "max_position_embeddings": T, "bos_token_id": 1, "eos_token_id": 2},
        vision_config=sizes | {"image_size": 24, "patch_size": 8},
        projection_dim=16,
    )
    return tf.CLIPModel._from_config(config, attn_implementation="sdpa").eval()


def _clip_inputs() -> dict[str, torch.Tensor]:
    torch.manual_seed(7)
    return {
        "input_ids": torch.tensor(_prompts(2)),
        "pixel_values": torch.randn(2, 3, 24, 24),
    }


def _draw_disc() -> torch.Tensor:
    y, x = torch.meshgrid(torch.arange(48), torch.arange(48), indexing="ij")
    disc = ((x - 20) ** 2 + (y - 26) ** 2 < 200).float()
    picture = torch.stack([x / 48, disc, 1 - y / 48]) + 0.05 * torch.randn(3, 48, 48)
    picture[:, 8:16, 32:40] += 3
    return picture


def _record_cross(name: str, frames: int | None = None) -> sinkscope.Recording:
    """Records a decoder of 9 tokens that attends to 12 tokens or to `frames` frames of its encoder."""
    pair = PAIRS[name]
    g = torch.Generator().manual_seed(3)
    if frames:
        PAIRS[name] = pair[0], pair[1] | {"max_source_positions": frames}
    model = make_pair(name)
    PAIRS[name] = pair
    source = {"input_features": torch.randn(1, 8, 2 * frames, generator=g)} if frames else None
    prompts = [
        (source or {"input_ids": torch.randint(3, 60, (1, T), generator=g)})
        | {"decoder_input_ids": torch.randint(3, 60, (1, 9), generator=g)}
        for _ in range(1 if frames else 2)
    ]
    fields = ("key_norm", "value_norm") if frames else ("q", "k", "v", "key_norm", "value_norm")
    recording = _record(name, prompts, lambda: model, part="cross", fields=fields)
    recording.conditions["cross"]["tokens"] = [WORDS[1:10] for _ in recording.conditions["tokens"]]
    return recording


def _record_registers() -> sinkscope.Recording:
    """Records a model with registers on a drawn picture, a disc before a slope, of which one patch is far brighter: its
    norm is high."""
    torch.manual_seed(5)
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = tf.Dinov2WithRegistersConfig(
        **sizes, image_size=48, patch_size=8, num_register_tokens=4, initializer_range=0.2
    )
    picture = _draw_disc()
    pixels = torch.stack([picture, picture.flip(-1)])
    model = tf.Dinov2WithRegistersModel(config).eval()
    fields = ("hidden_norm", "key_norm", "value_norm", "picture")
    processor = SimpleNamespace(image_mean=[0.0] * 3, image_std=[1.0] * 3)
    prompts = [{"pixel_values": pixels}]
    return _record("DINOv2 with registers, random", prompts, lambda: model, processor, tokens=None, fields=fields)


def _record_llava() -> sinkscope.Recording:
    torch.manual_seed(7)
    model, _ = make_llava(6)
    inputs = {"input_ids": make_ids(36), "pixel_values": _draw_disc()[None]}
    model, processor = model.eval(), SimpleNamespace(image_mean=[0.0] * 3, image_std=[1.0] * 3)
    recording = sinkscope.record(
        model, processor, [inputs], model_id="LLaVA, random", fields=("hidden_norm", "picture"), progress=False
    )
    words = ["<s>", "USER:", *recording.tokens()[2:38], " What", " is", " in", " the", " image", "?"]
    return _replace_tokens(recording, words)


def _padded_inputs() -> dict[str, torch.Tensor]:
    lengths = (T, T + 3, T + 1)
    width = max(lengths)
    ids, mask = torch.zeros(3, width, dtype=torch.long), torch.zeros(3, width, dtype=torch.long)
    for row, (prompt, n) in enumerate(zip(_prompts(3, width), lengths, strict=True)):
        ids[row, width - n :] = torch.tensor(prompt[:n])
        mask[row, width - n :] = 1
    return {"input_ids": ids, "attention_mask": mask}


def _record_maps() -> sinkscope.Recording:
    with torch.no_grad():
        maps = FAMILIES["llama"].make("eager")(input_ids=torch.tensor(_prompts(1)), output_attentions=True).attentions
    return sinkscope.record_maps([torch.stack(maps)[:, 0]], [WORDS], model_id="maps of llama")


KINDS: dict[str, Callable[[], sinkscope.Recording]] = {
    "maps": _record_maps,
    "one": lambda: _record("llama, one prompt", _prompts(1), _family_maker("llama")),
    "many": lambda: _record("llama, five prompts", _prompts(5), _family_maker("llama")),
    "hybrid": lambda: _record("jamba", _prompts(2), HYBRIDS["jamba"][0]),
    "first": lambda: _record("llama, first = 3", _prompts(2), _family_maker("llama"), first=3),
    "edited": lambda: _record(
        "llama, edited",
        _prompts(1),
        lambda: _halve_second_layer(FAMILIES["llama"].make("sdpa")),
        edits=["half of what layer 1 adds"],
    ),
    "vision": lambda: _record("CLIP, vision tower", [_clip_inputs()], _make_clip, part="vision_model", tokens=None),
    "registers": _record_registers,
    "llava": _record_llava,
    "text": lambda: _record("CLIP, text tower", [_clip_inputs()], _make_clip, part="text_model"),
    "padded": lambda: _record("llama, a padded batch", [_padded_inputs()], _family_maker("llama")),
    "sink_logit": lambda: _record("gpt_oss", _prompts(2), _family_maker("gpt_oss")),
    "bidirectional": lambda: _record("bert", _prompts(1), _family_maker("bert")),
    "generated": lambda: _record(
        "llama, generated", _prompts(2, T - 5), _family_maker("llama"), tokens=T - 5, generate=5
    ),
    "cross": lambda: _record_cross("t5"),
    "frames": lambda: _record_cross("whisper", 150),
    "pooled": lambda: _record(
        "llama, 132 tokens", _prompts(1, LONG), _family_maker("llama"), tokens=LONG, fields=("hidden_norm", "loss")
    ),
}


def _make_series() -> sinkscope.Series:
    """Makes a series of a model whose weights grow, as if it were trained."""
    steps, recordings = [0, 30, 1000], []
    for i, step in enumerate(steps):
        model = FAMILIES["llama"].make("sdpa")
        with torch.no_grad():
            for layer in model.model.layers:
                layer.self_attn.q_proj.weight *= 1 + 2 * i
        recordings.append(_record(f"lab/llama@step{step}", _prompts(5), lambda model=model: model, keep=1, fields=()))
    return sinkscope.Series(steps, recordings)


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    folder.mkdir(parents=True, exist_ok=True)
    for name, make in KINDS.items():
        recording = make()
        recording.save(folder / f"{name}.safetensors")
        print(f"{name}: {(folder / f'{name}.safetensors').stat().st_size} bytes")
    print(f"series: {_make_series().save(folder.parent / 'series.safetensors')} bytes")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "tests" / "golden" / "recordings")
