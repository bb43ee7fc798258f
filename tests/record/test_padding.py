"""Checks that a padded batch gives the numbers of its prompts alone, with padding on either side and every kernel."""

from types import SimpleNamespace

import numpy as np
import pytest
import sinkscope
import torch
from families import FAMILIES, D, L, T, make_inputs, record, watch
from sentences import refused
from sinkscope.attention import UnsupportedModel
from truth import alpha64, eager64, rounding_of, run64, tolerance_of

LENGTHS = (T, T - 9, T - 20)
CUT = min(LENGTHS)


def pad(ids: list[list[int]], side: str) -> dict[str, torch.Tensor]:
    result, mask = torch.zeros(len(ids), T, dtype=torch.long), torch.zeros(len(ids), T, dtype=torch.long)
    for b, row in enumerate(ids):
        token_slice = slice(0, len(row)) if side == "right" else slice(T - len(row), T)
        result[b, token_slice], mask[b, token_slice] = torch.tensor(row), 1
    return {"input_ids": result, "attention_mask": mask}


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize(
    ("name", "kernel"),
    [
        ("llama", "sdpa"),
        ("llama", "eager"),
        ("gpt2", "sdpa"),
        ("gpt2", "eager"),
        ("gpt_oss", "eager"),
        ("bloom", "eager"),
    ],
)
def test_a_padded_batch_gives_the_numbers_of_its_prompts(name: str, kernel: str, side: str) -> None:
    model = FAMILIES[name].make(kernel)
    prompts = [row[:n] for row, n in zip(make_inputs(FAMILIES[name], 3), LENGTHS, strict=True)]
    outputs = [run64(model, input_ids=torch.tensor([row[:CUT]])) for row in prompts]
    maps = [torch.stack([att[0] for att in out.attentions]) for out in outputs]
    share = [att / att.sum(-1, keepdim=True) for att in maps]
    losses = [
        torch.nn.functional.cross_entropy(out.logits[0, :-1], torch.tensor(row[1:CUT])).item()
        for out, row in zip(outputs, prompts, strict=True)
    ]
    bound = max(rounding_of(out.logits, L * D) for out in outputs)
    for batch in (1, 3):
        result = record(model, [pad(prompts, side)], tokens=None, batch=batch, keep=3)
        assert result.conditions["prompts"]["count"] == 3 and result.conditions["prompts"]["T"] == CUT
        assert result.conditions["model"].get("windows") == (
            [9, None, 9] if name == "gpt_oss" else None
        ) and result.model["mask"] == {"kind": "causal"}
        for i, (row, att) in enumerate(zip(prompts, share, strict=True)):  # the model runs in float32
            assert np.abs(result[f"{i}.alpha"] - alpha64(att)).max() < tolerance_of(att, D)
            assert result[f"{i}.tokens"].tolist() == row[:CUT]
        assert np.allclose(result["prompt.loss"], losses, rtol=0, atol=bound)


def test_inputs_with_a_number_for_each_token_are_cut_with_the_tokens() -> None:
    family = FAMILIES["bert"]
    model, row = family.make("sdpa"), make_inputs(family, 1)[0][:30]
    batch = pad([row], "right") | {"token_type_ids": torch.zeros(1, T, dtype=torch.long)}
    result = record(model, [batch], tokens=None)
    att = eager64(model, input_ids=torch.tensor([row]))
    assert np.abs(result["0.alpha"] - att.mean(-2).numpy()).max() < tolerance_of(att, L * D)


@pytest.mark.parametrize(
    "change",
    [
        lambda mask: mask[:, 20:22].zero_(),
        lambda mask: mask.zero_(),
    ],
)
def test_a_mask_that_cannot_be_cut_is_rejected(change: object) -> None:
    batch = pad(make_inputs(FAMILIES["llama"], 1), "left")
    change(batch["attention_mask"])  # type: ignore[operator]
    with refused(ValueError):
        record(FAMILIES["llama"].make("sdpa"), [batch], tokens=None)


class Tokenizer:
    pad_token_id, eos_token_id, bos_token_id = 0, 2, 1

    def __init__(self, left_pads: int = 0) -> None:
        self.left_pads = left_pads

    def __call__(self, text: str) -> SimpleNamespace:
        ids = [5 + ord(letter) % 60 for letter in text]
        right_pads = T - len(ids) - self.left_pads
        return SimpleNamespace(
            input_ids=[0] * self.left_pads + ids + [0] * right_pads,
            attention_mask=[0] * self.left_pads + [1] * len(ids) + [0] * right_pads,
        )

    def convert_ids_to_tokens(self, ids: list[int]) -> list[str]:
        return [str(i) for i in ids]

    def decode(self, ids: list[int]) -> str:
        return str(ids[0])


@pytest.mark.parametrize("left_pads", [0, 7])
def test_pads_of_a_tokenizer_are_cut_off(left_pads: int) -> None:
    model, text = FAMILIES["llama"].make("sdpa"), "The old man sat."
    ids = [5 + ord(letter) % 60 for letter in text]
    result = sinkscope.record(model, Tokenizer(left_pads), [text], tokens=None, progress=False)
    assert result["0.tokens"].tolist() == ids
    assert result.conditions["first"] == {"token": str(ids[0]), "id": ids[0], "position": 0}
    att = eager64(model, input_ids=torch.tensor([ids]))
    assert np.abs(result["0.alpha"] - alpha64(att)).max() < tolerance_of(att, L * D)


def test_a_mask_of_pairs_is_cut_with_the_tokens() -> None:
    [row], model = make_inputs(FAMILIES["llama"], 1), FAMILIES["llama"].make("sdpa")
    hidden = torch.ones(T, T).triu(1).bool()
    mask = torch.zeros(1, 1, T, T).masked_fill(hidden, torch.finfo(torch.float32).min)
    batch = {"input_ids": torch.tensor([row]), "attention_mask": mask}
    result = record(model, [batch], tokens=CUT)
    expected = record(model, [row], tokens=CUT)
    assert np.array_equal(result["mean.alpha"], expected["mean.alpha"])


def test_ids_with_pad_tokens_are_rejected() -> None:
    [row] = make_inputs(FAMILIES["llama"], 1)
    model = FAMILIES["llama"].make("sdpa")
    lists = [0, 0, *row], [*row, 0]
    for ids in (*lists, *({"input_ids": torch.tensor([ids])} for ids in lists)):
        with refused(ValueError):
            sinkscope.record(model, Tokenizer(), [ids], tokens=None, progress=False)
    assert sinkscope.record(model, Tokenizer(), [row], tokens=None, progress=False)


WATCHED_CASES = [
    ("llama", "sdpa"),
    ("llama", "eager"),
    ("gpt_oss", "eager"),
    ("bert", "sdpa"),
    ("bloom", "eager"),
    ("mpt", "eager"),
    ("gpt_neo", "eager"),
    ("falcon", "eager"),
]


class RenamedInputs(torch.nn.Module):
    """A wrapper whose inputs have other names than those of the model."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.inner = model

    def forward(self, ids: torch.Tensor, keep: torch.Tensor) -> object:
        return self.inner(ids, attention_mask=keep)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize(("name", "kernel"), WATCHED_CASES)
def test_a_padded_batch_is_not_watched(name: str, kernel: str, side: str) -> None:
    """Pads would count as tokens of the maps, which changes alpha of the shorter prompt by 0.3."""
    model = FAMILIES[name].make(kernel)
    prompts = [row[:n] for row, n in zip(make_inputs(FAMILIES[name], 3), LENGTHS, strict=True)]
    batch = pad(prompts, side)
    message = "without padding, found that attention_mask hides token .* of sequence 1 "
    with pytest.raises(UnsupportedModel, match=message), torch.no_grad(), sinkscope.watching(model):
        model(**batch)
    wrapped = RenamedInputs(model)
    with pytest.raises(UnsupportedModel, match=message), torch.no_grad(), sinkscope.watching(wrapped):
        wrapped(*batch.values())
    assert len(watch(model, [row[:CUT] for row in prompts]).maps) == len(prompts)


class PaddingModel(torch.nn.Module):
    """A user's model that recognizes pads by their id, 0, and hides them."""

    def __init__(self, attention: torch.nn.Module) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.embed, self.attention = torch.nn.Embedding(9, 8), attention

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        visible = torch.ones(ids.shape[1], ids.shape[1]).tril().bool() & (ids != 0)[:, None]
        return self.attention(self.embed(ids), visible)


class ReturnsAttention(torch.nn.Module):
    """Attention that returns its weights. A row without visible keys is uniform over all keys, since all its scores are
    the dtype's minimum."""

    def forward(self, x: torch.Tensor, visible: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        att = (x @ x.mT).masked_fill(~visible, torch.finfo(x.dtype).min).softmax(-1)
        return att @ x, att[:, None]


class CallsAttention(torch.nn.Module):
    def forward(self, x: torch.Tensor, visible: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.scaled_dot_product_attention(*[x[:, None]] * 3, attn_mask=visible[:, None])


@pytest.mark.parametrize("attention", [ReturnsAttention, CallsAttention])
@pytest.mark.parametrize("ids", [[0, 0, 1, 2, 3], [1, 2, 3, 0, 0]])
def test_models_that_find_pads_themselves_are_not_watched(ids: list[int], attention: type) -> None:
    model = PaddingModel(attention())
    with torch.no_grad(), sinkscope.watching(model):
        model(torch.tensor([[1, 2, 3, 4, 5]]))
    with pytest.raises(UnsupportedModel, match="without padding"), torch.no_grad(), sinkscope.watching(model):
        model(torch.tensor([ids]))


@pytest.mark.parametrize(
    "ids",
    [
        [0, 0, 1, 2, 3],
        [1, 2, 3, 0, 0],
    ],
)
def test_models_that_find_pads_themselves_are_not_recorded(ids: list[int]) -> None:
    """Models that find pads themselves are refused even if the first prompt has no pads, since with pads the number of
    queries that see a key is not T minus its position."""
    model, ids_without_pads = PaddingModel(CallsAttention()), [1, 2, 3, 4, 5]
    with refused(UnsupportedModel):
        record(model, [ids_without_pads, ids], tokens=5)
    with pytest.raises(UnsupportedModel, match=r"no query sees key|mask, found another|on keys that had none"):
        record(PaddingModel(ReturnsAttention()), [ids_without_pads, ids], tokens=5)
