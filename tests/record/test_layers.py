"""Checks that recordings number layers like the model, and have the hidden states of all layers."""

import json
from pathlib import Path

import numpy as np
import pytest
import sinkscope
import torch
import transformers as tf
from hybrids import BLOCKS, HYBRIDS, V
from sentences import refused
from sinkscope.attention import Call, UnsupportedModel
from sinkscope.probe import window_of
from torch import nn
from truth import alpha64, rounding_of, run64, tolerance_of

T = 20
PROMPTS = torch.randint(5, V, (2, T), generator=torch.Generator().manual_seed(1)).tolist()
SCHEMA = Path(__file__).resolve().parents[2] / "core" / "report" / "recording.schema.json"


@pytest.mark.parametrize("name", list(HYBRIDS))
def test_a_hybrid_is_recorded_by_its_own_layer_numbers(name: str, tmp_path: Path) -> None:
    make, layers = HYBRIDS[name]
    model = make()
    result = sinkscope.record(model, None, PROMPTS, tokens=T, progress=False)
    assert (result.model["L"], result.model["blocks"], result.model["layers"]) == (
        len(layers),
        BLOCKS,
        layers,
    )
    assert result.layers == layers and result.blocks == BLOCKS
    for i, prompt in enumerate(PROMPTS):
        out = run64(model, input_ids=torch.tensor([prompt]))
        # Only layers with attention return eager maps; other layers return nothing, or another tensor.
        maps = torch.stack([att[0] for att in out.attentions if att is not None and att.shape[-2:] == (T, T)])
        assert len(maps) == len(layers)
        tolerance = tolerance_of(maps, BLOCKS * model.config.hidden_size)
        assert np.abs(result[f"{i}.alpha"] - alpha64(maps)).max() < tolerance
        hidden = torch.stack(out.hidden_states)[:-1, 0].norm(dim=-1).numpy()
        assert np.allclose(
            result[f"{i}.hidden_norm"][:-1], hidden, rtol=rounding_of(1, BLOCKS * model.config.hidden_size)
        )
        assert result[f"{i}.hidden_norm"].shape == (BLOCKS + 1, T)
    layer_list = ", ".join(map(str, layers))
    assert f"4 layers, attention in {len(layers)} ({layer_list}), of 4 heads" in str(result.table())
    place = {row["metric"]: row["at"] for row in result.table()}["alpha_1"]
    layer, head = np.unravel_index(np.argmax(result["mean.alpha"][..., 0]), (len(layers), 4))
    assert place == f"L{layers[layer]}H{head}"
    result.save(tmp_path / "r.safetensors")
    assert sinkscope.Recording.open(tmp_path / "r.safetensors").layers == layers
    if SCHEMA.exists():
        pytest.importorskip("jsonschema").validate(result.conditions, json.loads(SCHEMA.read_text()))


def test_an_observed_call_has_the_layer_number_of_the_model() -> None:
    model = HYBRIDS["qwen3_5_text"][0]()
    calls: list[Call] = []
    with torch.no_grad(), sinkscope.observe(model, calls.append):
        model(input_ids=torch.tensor(PROMPTS))
        model(input_ids=torch.tensor(PROMPTS))
    assert [(call.layer, call.layer_idx) for call in calls] == [(0, 3), (1, 3)]
    assert calls[1].path[0].container == "model.layers" and calls[1].path[0].visit == 3


class Attention(nn.Module):
    """The attention of a user's model. A flag interrupts its forward pass, as a user of a notebook may do."""

    stops = False

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.stops:
            raise KeyboardInterrupt
        return nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True)


class PoolingModel(nn.Module):
    """A model of two layers and a pooling, which calls the attention function outside any layer."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Attention(), Attention()])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return nn.functional.scaled_dot_product_attention(x[:, :, -1:], x, x)


def test_an_interrupted_pass_does_not_affect_the_next() -> None:
    model, x = PoolingModel(), torch.randn(1, 4, T, 8)
    calls: list[Call] = []
    with torch.no_grad(), sinkscope.observe(model, calls.append):
        for index in (0, 1):
            model.layers[index].stops = True
            with pytest.raises(KeyboardInterrupt):
                model(x)
            model.layers[index].stops = False
            calls.clear()
            model(x)
            paths = [[(place.container, place.index, place.visit) for place in call.path] for call in calls]
            assert paths == [[("layers", 0, 0)], [("layers", 1, 1)]]
            assert [call.order for call in calls] == [0, 1]


def test_attention_computed_outside_the_model_is_ignored() -> None:
    class AttentionModel(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True)

    class LinearAttention(nn.Module):
        """A module that is named attention, but returns no weights."""

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, None]:
            return x.cumsum(-2), None

    class HybridModel(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList([LinearAttention(), Attention()])

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layers[1](self.layers[0](x)[0])

    x = torch.randn(1, 4, T, 8)
    for model in (AttentionModel(), HybridModel()):
        calls: list[Call] = []
        with torch.no_grad(), sinkscope.observe(model, calls.append):
            nn.functional.scaled_dot_product_attention(x, x, x)
            model(x)
            nn.functional.scaled_dot_product_attention(x, x, x)
        assert [call.causal for call in calls] == [True]
        assert calls[0].module is (model if isinstance(model, AttentionModel) else model.layers[1])


def test_the_width_of_a_window_follows_from_the_visible_keys() -> None:
    t = torch.arange(T)
    for width in range(1, T + 2):
        first = (t - width + 1).clamp(min=0)
        assert window_of(first, t, "causal") == (width if width < T else None)
        window = (t - width).clamp(min=0), (t + width).clamp(max=T - 1)
        assert window_of(*window, "bidirectional") == (2 * width + 1 if width < T - 1 else None)


def test_layers_with_shared_weights_are_separate() -> None:
    config = tf.AlbertConfig(
        vocab_size=V,
        embedding_size=16,
        hidden_size=32,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=48,
        initializer_range=0.2,
    )
    torch.manual_seed(5)
    model = tf.AlbertForMaskedLM(config).eval()
    result = sinkscope.record(model, None, PROMPTS[:1], tokens=T, progress=False)
    out = run64(model, input_ids=torch.tensor(PROMPTS[:1]))
    assert result.layers == [0, 1, 2] and "layers" not in result.model
    maps = torch.stack(out.attentions)[:, 0]
    assert np.abs(result["0.alpha"] - maps.mean(-2).numpy()).max() < tolerance_of(maps, 3 * 32)
    hidden = torch.stack(out.hidden_states)[:, 0].norm(dim=-1)
    assert np.allclose(result["0.hidden_norm"], hidden, rtol=rounding_of(1, 3 * 32))


def test_two_maps_in_one_layer_are_rejected() -> None:
    config = tf.DiffLlamaConfig(
        vocab_size=V,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
    )
    with refused(UnsupportedModel):
        sinkscope.record(tf.DiffLlamaForCausalLM(config), None, PROMPTS, tokens=T, progress=False)
