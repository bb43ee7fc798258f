"""Checks models that run in unusual ways: they are recorded correctly, or refused with a message, never recorded
wrongly."""

import copy
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import numpy as np
import pytest
import sinkscope
import torch
import transformers as tf
from families import FAMILIES, T, record, watch
from hybrids import HYBRIDS
from sentences import refused
from sinkscope.attention import UnsupportedModel
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from truth import alpha64, eager64, rounding_of, tolerance_of

D, H, L, V = 16, 2, 3, 97
PROMPTS = torch.randint(5, 60, (3, T), generator=torch.Generator().manual_seed(2)).tolist()


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(D, 3 * D)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).unflatten(-1, (3, H, D // H)).permute(2, 0, 3, 1, 4)
        out = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + out.transpose(1, 2).flatten(-2)


class Net(nn.Module):
    """A user's model that runs the layers that `order` lists, in this order and with repetitions."""

    def __init__(self, seed: int = 0, order: Callable[[Tensor], Any] = lambda ids: range(L)) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.embed, self.head, self.order = nn.Embedding(V, D), nn.Linear(D, V), order
        self.layers = nn.ModuleList(Block() for _ in range(L))
        with torch.no_grad():
            for layer in self.layers:
                layer.qkv.weight.normal_(0, 0.4)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        for i in self.order(ids):
            x = self.layers[i](x)
        return self.head(x)


def maps64(net: Net, row: list[int]) -> Tensor:
    """Computes the maps of a prompt without an observer, [layers that ran, H, T, T]."""
    net64, result = copy.deepcopy(net).double(), []
    ids = torch.tensor([row])
    with torch.no_grad():
        x = net64.embed(ids)
        for i in net.order(ids):
            q, k, v = net64.layers[i].qkv(x).unflatten(-1, (3, H, D // H)).permute(2, 0, 3, 1, 4)
            n = q.shape[2]
            later = torch.ones(n, n).triu(1).bool()
            att = (q @ k.mT / (D // H) ** 0.5).masked_fill(later, -torch.inf).softmax(-1)
            result.append(att[0])
            x = x + (att @ v).transpose(1, 2).flatten(-2)
    return torch.stack(result)


def is_near(alpha: Any, maps: Tensor) -> bool:
    return alpha.shape == maps.shape[:-1] and bool(np.abs(alpha - alpha64(maps)).max() < tolerance_of(maps, D))


class TwoRunModel(nn.Module):
    """A model that runs another model twice, on a text and on the text backwards, as reward models do."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def run(self, ids: Tensor) -> Tensor:
        out = self.inner(ids)
        return out.logits if hasattr(out, "logits") else out

    def forward(self, ids: Tensor) -> Tensor:
        return self.run(ids) - self.run(ids.flip(1))


class ListedTwoRunModel(TwoRunModel):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__(inner)
        self.inner = nn.ModuleList([inner])  # type: ignore[assignment]

    def run(self, ids: Tensor) -> Tensor:
        return self.inner[0](ids)  # type: ignore[index]


class SingleLayerModel(nn.Module):
    """A model with one layer, which is in no container."""

    def __init__(self) -> None:
        super().__init__()
        net = Net()
        self.embed, self.block, self.head = net.embed, net.layers[0], net.head

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.block(self.embed(ids)))


@pytest.mark.parametrize("wrap", [TwoRunModel, ListedTwoRunModel])
@pytest.mark.parametrize(
    "make", [Net, SingleLayerModel, lambda: FAMILIES["llama"].make("sdpa")], ids=["own", "lone", "llama"]
)
def test_a_model_that_runs_twice_in_one_pass_has_no_layers_of_the_second_run(make: Any, wrap: Any) -> None:
    model = wrap(make())
    if wrap is ListedTwoRunModel and isinstance(model.inner[0], tf.PreTrainedModel):
        model.run = lambda ids: model.inner[0](ids).logits
    with refused(UnsupportedModel):
        record(model, PROMPTS[:1])
    sequences = watch(model, *[[row] for row in PROMPTS[:2]])
    assert len(sequences.maps) == 4
    texts = [text for row in PROMPTS[:2] for text in (row, row[::-1])]
    result = sequences.recording(texts, keep=4)
    expected = watch(make(), *[[row] for row in texts]).recording(texts, keep=4)
    assert result.layers == expected.layers and result.blocks == expected.blocks
    assert all(np.array_equal(result[f"{i}.alpha"], expected[f"{i}.alpha"]) for i in range(4))


class Embedding(nn.Module):
    """Reads tokens, as a stack of layers does, and attends to none."""

    def __init__(self, table: nn.Embedding) -> None:
        super().__init__()
        self.table = table

    def forward(self, ids: Tensor) -> Tensor:
        return self.table(ids)


class ReversedNet(Net):
    """Embeds a text and its reverse."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = Embedding(self.embed)  # type: ignore[assignment]

    def forward(self, ids: Tensor) -> Tensor:
        return super().forward(ids) + self.head(self.embed(ids.flip(1)))


class InterleavedNet(ReversedNet):
    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x) + 0 * self.embed(ids.flip(1))
        return self.head(x)


@pytest.mark.parametrize("make", [ReversedNet, InterleavedNet])
def test_a_part_without_attention_may_run_twice(make: Any) -> None:
    model = make()
    for result in (record(model, PROMPTS[:1]), watch(model, PROMPTS[:1]).recording(PROMPTS[:1])):
        assert result.layers == list(range(L)) and is_near(result["0.alpha"], maps64(model, PROMPTS[0]))


def test_the_layers_after_a_skipped_layer_keep_their_numbers() -> None:
    net = Net(order=lambda ids: (0, 2))
    for result in (record(net, PROMPTS[:1]), watch(net, PROMPTS[:1]).recording(PROMPTS[:1])):
        assert (result.layers, result.blocks) == ([0, 2], L)
        assert is_near(result["0.alpha"], maps64(net, PROMPTS[0]))
        assert "0.hidden_norm" not in result


def test_a_layer_used_at_two_places_counts_as_two_layers() -> None:
    net = Net()
    net.layers[2] = net.layers[0]
    for result in (record(net, PROMPTS[:1]), watch(net, PROMPTS[:1]).recording(PROMPTS[:1])):
        assert (result.layers, result.blocks) == ([0, 1, 2], L)
        assert is_near(result["0.alpha"], maps64(net, PROMPTS[0]))


@pytest.mark.parametrize(
    "order",
    [
        lambda ids: range(L if ids[0, 0] == PROMPTS[0][0] else 2),
        lambda ids: (0, 1) if ids[0, 0] == PROMPTS[0][0] else (0, 2),
        lambda ids: (0, 1) if ids[0, 0] == PROMPTS[0][0] else (1, 2),
    ],
    ids=["early exit", "skips another", "begins later"],
)
def test_prompts_that_run_different_layers_are_not_averaged_together(order: Any) -> None:
    net = Net(order=order)
    assert PROMPTS[0][0] != PROMPTS[1][0]
    assert record(net, PROMPTS[:1]) and watch(net, PROMPTS[:1]).recording(PROMPTS[:1])
    with pytest.raises(UnsupportedModel, match="layers that ran for the first prompt|as for the first prompt"):
        record(net, PROMPTS[:2])
    sequences = watch(net, PROMPTS[:1], PROMPTS[1:2])
    with refused(UnsupportedModel):
        sequences.recording(PROMPTS[:2])


def make_albert(groups: int, inner: int) -> nn.Module:
    torch.manual_seed(5)
    config = tf.AlbertConfig(
        vocab_size=V,
        embedding_size=16,
        hidden_size=32,
        num_hidden_layers=4,
        num_attention_heads=4,
        intermediate_size=48,
        num_hidden_groups=groups,
        inner_group_num=inner,
        initializer_range=0.2,
    )
    return tf.AlbertForMaskedLM(config).eval()


@pytest.mark.parametrize(("groups", "inner"), [(1, 1), (2, 1), (1, 2)])
def test_shared_layers_are_layers_of_one_sequence(groups: int, inner: int) -> None:
    model = make_albert(groups, inner)
    maps = eager64(model, input_ids=torch.tensor(PROMPTS[:1]))
    alpha = maps.reshape(-1, *maps.shape[-3:]).mean(-2).numpy()
    for result in (record(model, PROMPTS[:1]), watch(model, PROMPTS[:1]).recording(PROMPTS[:1])):
        assert result.layers == list(range(4 * inner))
        assert result["0.alpha"].shape == alpha.shape
        assert np.abs(result["0.alpha"] - alpha).max() < tolerance_of(maps, 4 * inner * 32)


@pytest.mark.parametrize("name", ["llama", "gpt_oss"])
def test_models_of_one_config_are_distinguished(name: str) -> None:
    family = FAMILIES[name]
    first_model = family.make(family.implementations[0])
    second_model = type(first_model)(first_model.config).eval()
    assert second_model.config is first_model.config
    first_rows, second_rows = PROMPTS[:1], PROMPTS[1:2]
    with torch.no_grad(), sinkscope.watching(first_model) as sequences:
        second_model(torch.tensor(second_rows))
        first_model(torch.tensor(first_rows))
        second_model(torch.tensor(second_rows))
    assert len(sequences.maps) == 1
    with (
        torch.no_grad(),
        sinkscope.watching(first_model) as first_sequences,
        sinkscope.watching(second_model) as second_sequences,
    ):
        first_model(torch.tensor(first_rows))
        second_model(torch.tensor(second_rows))
        record(second_model, second_rows)
    # `record` runs the second model three times: without observation, to check it, and to measure.
    assert (len(first_sequences.maps), len(second_sequences.maps)) == (1, 4)
    expected = {
        id(model): record(model, rows) for model, rows in ((first_model, first_rows), (second_model, second_rows))
    }
    maps = [torch.from_numpy(recording.attention(0)) for recording in expected.values()]
    bound = max(tolerance_of(att, L * first_model.config.hidden_size) for att in maps)
    for result, model, rows in ((sequences, first_model, first_rows), (first_sequences, first_model, first_rows)):
        assert np.allclose(result.recording(rows)["0.alpha"], expected[id(model)]["0.alpha"], rtol=0, atol=bound)
    result = second_sequences.recording(second_rows * 4)
    assert np.allclose(result["0.alpha"], expected[id(second_model)]["0.alpha"], rtol=0, atol=bound)
    assert first_model.config._attn_implementation == family.implementations[0]


def test_two_observers_of_one_model_both_receive_its_calls() -> None:
    for model in (Net(), FAMILIES["llama"].make("sdpa"), FAMILIES["bloom"].make("eager")):
        with torch.no_grad(), sinkscope.watching(model) as outer, sinkscope.watching(model) as inner:
            model(torch.tensor(PROMPTS[:2]))
        assert len(outer.maps) == len(inner.maps) == 2
        for a, b in zip(outer.maps, inner.maps, strict=True):
            assert len(a) == L and all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


class CheckpointedNet(Net):
    reentrant = False

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=self.reentrant)
        return self.head(x)


@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad")
@pytest.mark.parametrize("kind", ["own", "reentrant", "llama"])
def test_activation_checkpointing_does_not_record_a_layer_twice(kind: str) -> None:
    if kind == "llama":
        model: nn.Module = FAMILIES["llama"].make("sdpa")
        model.activation_checkpointing_enable()  # type: ignore[operator]
        model.train()
    else:
        model = CheckpointedNet()
        model.reentrant = kind == "reentrant"
    with sinkscope.watching(model) as sequences:
        for row in PROMPTS[:2]:
            out = model(torch.tensor([row]))
            (out.logits if kind == "llama" else out).sum().backward()
    assert len(sequences.maps) == 2
    expected = watch(model.eval(), *[[row] for row in PROMPTS[:2]])
    for a, b in zip(sequences.maps, expected.maps, strict=True):
        assert len(a) == len(b) == L and all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


class CrossAttention(nn.Module):
    def forward(self, x: Tensor, context: Tensor) -> Tensor:
        return nn.functional.scaled_dot_product_attention(*(y[:, None] for y in (x, context, context)))[:, 0]


class Attention(CrossAttention):
    def forward(self, x: Tensor, encoder_hidden_states: Tensor) -> Tensor:  # type: ignore[override]
        return super().forward(x, encoder_hidden_states)


class CrossReader(nn.Module):
    """A model whose layers attend to another part's output, which has as many tokens as the text."""

    def __init__(self, attention: type[nn.Module]) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.embed, self.other = nn.Embedding(V, D), nn.Embedding(V, D)
        self.layers = nn.ModuleList(attention() for _ in range(2))

    def forward(self, ids: Tensor) -> Tensor:
        x, context = self.embed(ids), self.other(ids)
        for layer in self.layers:
            x = x + layer(x, context)
        return x


def make_bert_decoder() -> nn.Module:
    config = tf.BertConfig(
        vocab_size=V,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        is_decoder=True,
        add_cross_attention=True,
    )
    model = tf.BertLMHeadModel(config).eval()
    forward = model.forward
    states = torch.randn(1, T, 32, generator=torch.Generator().manual_seed(1))
    model.forward = lambda ids: forward(ids, encoder_hidden_states=states)  # type: ignore[method-assign]
    return model


@pytest.mark.parametrize(
    "make",
    [lambda: CrossReader(CrossAttention), lambda: CrossReader(Attention), make_bert_decoder],
    ids=["by its class", "by its input", "bert"],
)
def test_attention_to_another_part_with_as_many_tokens_is_rejected(make: Any) -> None:
    with refused(UnsupportedModel):
        record(make(), PROMPTS[:1])
    with refused(UnsupportedModel):
        watch(make(), PROMPTS[:1])


def test_an_encoder_and_its_decoder_are_not_one_sequence() -> None:
    config = tf.BartConfig(
        vocab_size=V,
        d_model=16,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=16,
        decoder_ffn_dim=16,
    )
    with refused(UnsupportedModel):
        watch(tf.BartForConditionalGeneration(config).eval(), PROMPTS[:1])


@pytest.mark.parametrize("name", ["llama", "mistral", "bloom", "gpt_neo"])
def test_a_cache_of_another_sequence_is_rejected(name: str) -> None:
    family = FAMILIES[name]
    model = family.make(family.implementations[0])
    ids = torch.tensor([PROMPTS[0][:10]])
    with refused(UnsupportedModel), sinkscope.watching(model):
        model.generate(ids, max_new_tokens=12, num_beams=3, do_sample=False)
    with torch.no_grad():
        cache = model(torch.tensor([PROMPTS[1][:12]]), use_cache=True).past_key_values
    with (
        refused(UnsupportedModel),
        torch.no_grad(),
        sinkscope.watching(model),
    ):
        model(ids, use_cache=True)
        model(torch.tensor([[5, 6]]), cache=cache, use_cache=True)
    with sinkscope.watching(model) as sequences:
        generated_ids = model.generate(ids, max_new_tokens=12, do_sample=False)
    n = generated_ids.shape[1] - 1
    assert is_near(sequences.recording(generated_ids)["0.alpha"], eager64(model, input_ids=generated_ids[:, :n]))


def test_a_generation_that_withdraws_tokens_is_rejected() -> None:
    model, assistant = FAMILIES["llama"].make("sdpa"), FAMILIES["llama"].make("sdpa")
    with torch.no_grad():
        for x in assistant.parameters():
            x += 0.05 * torch.randn(x.shape, generator=torch.Generator().manual_seed(4))
    with pytest.raises(UnsupportedModel, match="a cache that holds the"), sinkscope.watching(model):
        model.generate(torch.tensor([PROMPTS[0][:10]]), max_new_tokens=12, assistant_model=assistant, do_sample=False)


def test_generation_through_a_wrapper_is_one_sequence() -> None:
    peft = pytest.importorskip("peft", reason="peft is not installed")
    model = peft.get_peft_model(FAMILIES["llama"].make("sdpa"), peft.LoraConfig(target_modules=["q_proj"], r=2)).eval()
    with sinkscope.watching(model) as sequences:
        ids = model.generate(input_ids=torch.tensor([PROMPTS[0][:10]]), max_new_tokens=8, do_sample=False)
    n = ids.shape[1] - 1
    maps = eager64(model.get_base_model(), input_ids=ids[:, :n])
    assert is_near(sequences.recording(ids)["0.alpha"], maps)


def test_a_decoder_called_without_its_head_is_a_whole_pass() -> None:
    model = FAMILIES["llama"].make("sdpa")
    maps = [eager64(model, input_ids=torch.tensor([row])) for row in PROMPTS[:2]]
    with torch.no_grad(), sinkscope.watching(model) as sequences:
        for row in PROMPTS[:2]:
            model.model(input_ids=torch.tensor([row]))
    result = sequences.recording(PROMPTS[:2])
    assert all(is_near(result[f"{i}.alpha"], maps[i]) for i in range(2))


def test_experts_do_not_count_as_layers_of_a_watched_hybrid() -> None:
    make, layers = HYBRIDS["jamba"]
    model = make()
    model.extra = nn.ModuleList(nn.Identity() for _ in range(9))  # runs more often than there are layers
    model.model.layers[0].register_forward_hook(lambda *_: [module(torch.zeros(1)) for module in model.extra] and None)
    result = watch(model, PROMPTS[:1]).recording(PROMPTS[:1])
    assert (result.layers, result.blocks) == (layers, 4)


class GuidedModel(nn.Module):
    """A model that runs each sequence together with a copy whose first tokens are replaced."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, ids: Tensor) -> Tensor:
        pairs = ids.repeat_interleave(2, 0)
        pairs[1::2, :5] = 1
        return self.inner(pairs)[::2]


@pytest.mark.parametrize("batch", [1, 2])
def test_a_batch_that_grows_inside_is_rejected(batch: int) -> None:
    with refused(UnsupportedModel):
        record(GuidedModel(Net()), PROMPTS[:2], batch=batch)
    net, [first_row, second_row] = Net(), PROMPTS[:2]
    sequences = watch(GuidedModel(net), [first_row, second_row])
    copies = [[1] * 5 + row[5:] for row in (first_row, second_row)]
    result = sequences.recording([first_row, copies[0], second_row, copies[1]], keep=4)
    for i, row in enumerate((first_row, copies[0], second_row, copies[1])):
        assert is_near(result[f"{i}.alpha"], maps64(net, row))


def test_heads_in_the_batch_dimension_are_rejected() -> None:
    class FoldedBlock(Block):
        def forward(self, x: Tensor) -> Tensor:
            q, k, v = self.qkv(x).unflatten(-1, (3, H, D // H)).permute(2, 0, 3, 1, 4).flatten(1, 2)[:, :, None]
            out = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            return x + out.view(len(x), H, -1, D // H).transpose(1, 2).flatten(-2)

    net, [row] = Net(), PROMPTS[:1]
    expected = net(torch.tensor([row]))
    for layer in net.layers:
        layer.__class__ = FoldedBlock
    assert torch.allclose(net(torch.tensor([row])), expected, rtol=0, atol=rounding_of(expected.detach(), L * D))
    with refused(UnsupportedModel):
        record(net, [row])


def test_a_batch_that_grows_later_is_rejected() -> None:
    """The batch grows inside the model only if it has several prompts; the first prompt runs alone."""
    net = Net()

    class GrowingBatchModel(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = net

        def forward(self, ids: Tensor) -> Tensor:
            return net(ids.repeat_interleave(len(ids), 0))[:: len(ids)]

    with refused(UnsupportedModel):
        record(GrowingBatchModel(), PROMPTS[:3], batch=2)


class MaskedModel(nn.Module):
    def __init__(self, visible: Tensor, heads: bool = True) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.embed, self.layers = nn.Embedding(V, D), nn.ModuleList([nn.Linear(D, 3 * D)])
        self.visible, self.heads = visible, heads

    def forward(self, ids: Tensor) -> Tensor:
        q, k, v = self.layers[0](self.embed(ids)).unflatten(-1, (3, D)).movedim(2, 0)
        if self.heads:
            q, k, v = (x[:, None] for x in (q, k, v))
        return nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=self.visible).view(len(ids), -1, D)


def test_an_unknown_kind_of_mask_is_rejected_or_named() -> None:
    """With a mask that is causal between blocks of 8 tokens, alpha would be divided by all T queries."""
    t = torch.arange(T)
    blocks = t[:, None] // 8 >= t // 8
    with refused(UnsupportedModel):
        record(MaskedModel(blocks), PROMPTS[:1])
    for mask in ("causal", "bidirectional"):
        assert record(MaskedModel(blocks), PROMPTS[:1], mask=mask).model["mask"]["kind"] == mask
    masks = {
        "causal": t[:, None] >= t,
        "window": (t[:, None] >= t) & (t[:, None] - t < 9),
        "window of two": (t[:, None] >= t) & (t[:, None] - t < 2),
        "prefix": (t[:, None] >= t) | (t < 10),
        "bidirectional": torch.ones(T, T).bool(),
        "bidirectional window": (t[:, None] - t).abs() < 6,
    }
    for name, visible in masks.items():
        assert record(MaskedModel(visible), PROMPTS[:1]).model["mask"]["kind"] == name.split()[0], name
    distance = t[:, None] - t
    holes = {
        "strided": (distance >= 0) & (distance % 2 == 0),
        "the first tokens and a window": (distance >= 0) & ((t < 2) | (distance < 5)),
        "one key hidden from later queries": (distance >= 0) & ((t != 2) | (distance == 0)),
    }
    for name, visible in holes.items():
        with refused(UnsupportedModel):
            record(MaskedModel(visible), PROMPTS[:1])
        assert record(MaskedModel(visible), PROMPTS[:1], mask="causal").model["mask"] == {"kind": "causal"}, name
    packed_mask = t[:, None] // 8 == t // 8
    with refused(UnsupportedModel):
        record(MaskedModel(packed_mask), PROMPTS[:1])
    assert record(MaskedModel(packed_mask), PROMPTS[:1], mask="bidirectional").model["mask"]["kind"] == "bidirectional"


class SharpAttention(nn.Module):
    """Attention that returns its weights; most of them underflow."""

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.qkv = nn.Linear(D, 3 * D)
        with torch.no_grad():
            self.qkv.weight.normal_(0, scale)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        q, k, v = self.qkv(x).unflatten(-1, (3, H, D // H)).permute(2, 0, 3, 1, 4)
        n = q.shape[2]
        scores = (q @ k.mT / (D // H) ** 0.5).masked_fill(torch.ones(n, n).triu(1).bool(), -torch.inf)
        att = scores.softmax(-1)
        return (att @ v).transpose(1, 2).flatten(-2), att


class SharpModel(nn.Module):
    def __init__(self, scale: float) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.embed, self.layers = nn.Embedding(V, D), nn.ModuleList(SharpAttention(scale) for _ in range(2))

    def run(self, ids: Tensor) -> tuple[Tensor, list[Tensor]]:
        x, maps = self.embed(ids), []
        for layer in self.layers:
            out, att = layer(x)
            x = x + out
            maps.append(att[0])
        return x, maps

    def forward(self, ids: Tensor) -> Tensor:
        return self.run(ids)[0]


@pytest.mark.parametrize("scale", [0.5, 1.5, 8])
def test_keys_whose_weights_underflow_do_not_count_as_a_window(scale: float) -> None:
    """If keys without weight counted as hidden, the recording would have a window of 47 keys, and twice the entropy."""
    model = SharpModel(scale)
    with torch.no_grad():
        maps = torch.stack([torch.stack(copy.deepcopy(model).double().run(torch.tensor([row]))[1]) for row in PROMPTS])
    entropy = -torch.xlogy(maps, maps).sum(-1)[..., 1:] / torch.arange(2, T + 1).double().log()
    expected = entropy.sum(-1).mean(0).numpy() / T
    if scale == 8:  # some keys have no weight in any row, so the mask is unknown
        with refused(UnsupportedModel):
            record(model, PROMPTS)
    result = record(model, PROMPTS, mask="causal" if scale == 8 else None)
    assert result.model["mask"] == {"kind": "causal"} and "windows" not in result.model
    assert np.abs(result["mean.entropy_mean"] - expected).max() < tolerance_of(maps, D)


def test_weights_in_half_precision_keep_their_windows() -> None:
    model = FAMILIES["gpt_neo"].make("eager").half()
    for result in (record(model, PROMPTS), watch(model, *([row] for row in PROMPTS)).recording(PROMPTS)):
        assert result.model["windows"] == [None, 6, None]


@pytest.mark.parametrize("name", ["llama", "mistral"])
def test_packed_texts_are_rejected_in_any_prompt(name: str) -> None:
    """transformers separates packed texts where positions restart, so that their maps look like a window of 28 keys."""
    model = FAMILIES[name].make(FAMILIES[name].implementations[0])
    whole_positions, packed_positions = torch.arange(T)[None], torch.tensor([[*range(20), *range(T - 20)]])

    def inputs_of(*positions: Tensor) -> list[dict[str, Tensor]]:
        return [
            {"input_ids": torch.tensor([row]), "position_ids": position_ids}
            for row, position_ids in zip(PROMPTS, positions)
        ]

    assert record(model, inputs_of(whole_positions, whole_positions)).conditions["prompts"]["count"] == 2
    for positions in ((packed_positions, packed_positions), (whole_positions, packed_positions)):
        with refused(UnsupportedModel):
            record(model, inputs_of(*positions))
    assert record(model, inputs_of(packed_positions), mask="causal").model["mask"]["kind"] in ("causal", "window")


class PrefixedModel(MaskedModel):
    """A model in which all tokens see a prefix, whose length is the first token's id."""

    def forward(self, ids: Tensor) -> Tensor:
        t = torch.arange(ids.shape[1])
        self.visible = (t[:, None] >= t) | (t < ids[:, :1, None])
        self.visible = self.visible[:, None]
        return super().forward(ids)


@pytest.mark.parametrize("lengths", [(8, 20), (20, 8), (1, 8), (8, 1)])
def test_prompts_of_several_masks_are_rejected(lengths: tuple[int, int]) -> None:
    """With the first prompt's mask for all prompts, weights on later keys would be lost."""
    prompts = [[n, *row[1:]] for n, row in zip(lengths, PROMPTS)]
    model = PrefixedModel(torch.empty(0))
    with refused(UnsupportedModel):
        record(model, prompts)
    with pytest.raises(ValueError, match=r"expected the mask of the first sequence|expected no weight on keys that"):
        watch(model, *([row] for row in prompts)).recording(prompts)
    assert record(model, prompts[:1] * 2).conditions["prompts"]["count"] == 2


@pytest.mark.parametrize("labels", [3, 70])
def test_labels_of_token_classification_are_not_taken_for_logits(labels: int) -> None:
    config = FAMILIES["llama"].make("sdpa").config
    config.num_labels = labels
    result = record(tf.LlamaForTokenClassification(config).eval(), PROMPTS)
    assert "mean.loss_mean" not in result and np.isnan(result["prompt.loss"]).all()


class ColumnModel(nn.Module):
    """A model whose hidden states are [T, B, D]."""

    def __init__(self) -> None:
        super().__init__()
        self.net = Net()

    def forward(self, ids: Tensor) -> Tensor:
        x = self.net.embed(ids).transpose(0, 1)
        for layer in self.net.layers:
            x = layer(x)
        return self.net.head(x.transpose(0, 1))


class ColumnBlock(Block):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.transpose(0, 1)).transpose(0, 1)


def test_a_batch_of_as_many_prompts_as_tokens_keeps_the_axes_of_hidden_states() -> None:
    """If there are as many prompts as tokens, the axes of hidden states must not be confused."""
    model = ColumnModel()
    model.net.layers = nn.ModuleList(ColumnBlock() for _ in range(L))
    prompts = [row[:6] for row in PROMPTS * 2]
    single_recording, batch_recording = (
        sinkscope.record(model, None, prompts, tokens=6, batch=batch, progress=False) for batch in (1, 6)
    )
    assert (
        single_recording.tensors.keys() == batch_recording.tensors.keys() and "mean.hidden_ratio" not in batch_recording
    )
    bound = tolerance_of(torch.from_numpy(single_recording.attention(0)), L * D)
    assert np.allclose(single_recording["mean.alpha"], batch_recording["mean.alpha"], rtol=0, atol=bound)


def test_models_of_several_threads_are_distinguished() -> None:
    """No call of a model is lost while another model runs in another thread."""
    names = ("llama", "falcon", "gpt2", "gpt_neo")
    models = [FAMILIES[name].make(FAMILIES[name].implementations[0]) for name in names]
    expected = [record(model, PROMPTS) for model in models]
    ready = Barrier(len(models))

    def run(model: nn.Module) -> tuple[Any, list[int]]:
        ready.wait()
        sequences = watch(model, *([row] for row in PROMPTS * 8))
        return record(model, PROMPTS * 4)["mean.alpha"], [len(layers) for layers in sequences.maps]

    with ThreadPoolExecutor(len(models)) as threads:
        for (alpha, layers), recording in zip(threads.map(run, models), expected, strict=True):
            bound = tolerance_of(torch.from_numpy(recording.attention(0)), L * recording.model["D"])
            assert np.allclose(alpha, recording["mean.alpha"], rtol=0, atol=bound) and layers == [3] * len(PROMPTS) * 8


def test_queries_without_a_dimension_of_heads_are_rejected() -> None:
    model = MaskedModel(torch.ones(T, T).tril().bool(), heads=False)
    with refused(UnsupportedModel):
        record(model, PROMPTS[:1])
