"""Checks the outcomes in logs, worked out by hand on a trace of six tokens."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from sentences import refused
from tokenizers import Tokenizer
from torch import Tensor

from models.reference.model import Architecture, Mask, Trace, architecture
from models.train import loss, measure, outcomes, protocol, train
from models.train.recipe import Recipe, Training, recipes

T = 6
UNIFORM_ALPHA = sum(1 / n for n in range(1, T + 1)) / T  # alpha_1 of uniform attention: 0.40833
RECIPE = recipes()["sigmoid"]


def arch_of(**more: Any) -> Architecture:
    return dataclasses.replace(architecture(RECIPE.config), **more)


def logits_with_losses(*counts: int) -> Tensor:
    """Returns logits [T, 2] under which token 0 has the loss ln n, for each n in `counts`."""
    return torch.tensor([[-math.log(n - 1), 0.0] for n in counts])


def vectors_with_norms(*rows: list[float]) -> Tensor:
    """Returns vectors with these norms, [len(rows), T, 2]."""
    return torch.tensor(rows)[..., None] * torch.tensor([0.6, -0.8])


def map_to_first(first_weight: float, own_weight: float) -> list[list[float]]:
    """Returns a map whose queries give the weight `first_weight` to token 1 and `own_weight` to their own key."""
    return [[first_weight * (k == 0) + own_weight * (k == q) for k in range(T)] for q in range(T)]


def trace_of(**fields: Tensor) -> Trace:
    empty = torch.zeros(0)
    names = ("hidden", "q", "k", "v", "att", "att_out", "mlp_out", "logits")
    return Trace(**{name: fields.pop(name, empty) for name in names}, **fields)


# Two sequences of a model with one layer and two heads, whose rows sum to 0.8 and to 0.4.
MAPS = torch.tensor([[map_to_first(0.6, 0.2), map_to_first(0.1, 0.3)]] * 2)[:, None]
TRACE = trace_of(
    att=MAPS,
    # The norm ratios of the embedding and the two blocks are 9, 2 and 4 in the first sequence, 9, 6 and 1 in the
    # second.
    hidden=torch.stack(
        [
            vectors_with_norms([18.0, 2, 2, 2, 1, 3], [4.0, 2, 2, 2, 1, 3], [8.0, 2, 2, 2, 1, 3]),
            vectors_with_norms([18.0, 2, 2, 2, 1, 3], [12.0, 2, 2, 2, 1, 3], [2.0, 2, 2, 2, 1, 3]),
        ]
    ),
    # The two groups have the value norm ratios 0.5 and 2.
    v=torch.stack([vectors_with_norms([1.0, 2, 2, 2, 3, 1], [4.0, 1, 2, 3, 2, 2])] * 2)[:, None],
    logits=torch.stack([logits_with_losses(2, 3, 4, 5, 6, 7)] * 2),
)
IDS = torch.zeros(2, T, dtype=torch.long)


def measure_trace(
    monkeypatch: pytest.MonkeyPatch,
    trace: Trace = TRACE,
    mask: Mask = Mask(),  # noqa: B008
    sink_tokens: tuple[int, ...] = (1,),
) -> tuple[dict[str, Any], list[list[float]]]:
    monkeypatch.setattr(outcomes, "forward", lambda arch, weights, ids: trace)
    monkeypatch.setattr(outcomes, "eviction_cost", lambda arch, weights, ids: 0.125)
    recipe = dataclasses.replace(RECIPE, sink_tokens=sink_tokens)
    return outcomes.measure_outcomes(recipe, arch_of(mask=mask), {}, IDS, IDS)


def test_every_outcome_equals_the_value_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    result, alpha_map = measure_trace(monkeypatch)
    # alpha of the two heads is (0.8 + 5 x 0.6) / 6 and (0.4 + 5 x 0.1) / 6 by raw weights, and (1 + 5 x 0.75) / 6 and
    # (1 + 5 x 0.25) / 6 by shares.
    raw, share = (3.8 / 6, 0.9 / 6), (4.75 / 6, 2.25 / 6)
    assert result == {
        "alpha": round((raw[0] - 0.8 * UNIFORM_ALPHA + raw[1] - 0.4 * UNIFORM_ALPHA) / 2, 4),
        "alpha_share": round((share[0] + share[1]) / 2 - UNIFORM_ALPHA, 4),
        "value_ratio": 1.25,
        "eviction": 0.125,
        "loss": round(math.log(2 * 3 * 4 * 5 * 6) / 5, 4),
        "alpha_max": 0.7917,
        "hidden_ratio": 4.0,  # the largest mean over sequences: (2 + 6) / 2, not (4 + 1) / 2, never 9
        "row_mass": 0.6,
        "sink_0.2": 100.0,
        "sink_0.3": 100.0,
        "sink_0.4": 50.0,
        "first_layer": 0,
    }
    assert alpha_map == [[0.792, 0.375]]


def test_the_first_layer_with_a_head_above_eps_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    weak, strong = map_to_first(0.1, 0.9), map_to_first(0.6, 0.2)
    for layers, first in (([[weak, weak], [weak, strong], [strong, strong]], 1), ([[weak, weak]], None)):
        att = torch.tensor([layers] * 2)
        result, _ = measure_trace(monkeypatch, dataclasses.replace(TRACE, att=att))
        assert result["first_layer"] == first


def test_a_bias_key_has_outcomes_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """alpha_* counts the bias key's own row, whose weight is 1: (0.4 x 6 + 1) / 7 and (0.1 x 6 + 1) / 7."""
    bias_weights = torch.tensor([0.4, 0.1])[:, None].expand(2, T)
    trace = dataclasses.replace(TRACE, att_bias=torch.stack([bias_weights] * 2)[:, None])
    result, _ = measure_trace(monkeypatch, trace)
    assert result["alpha_bias"] == pytest.approx((3.4 + 1.6) / 14, abs=2e-4)  # rounded to 4 digits
    assert [result[f"sink_bias_{eps}"] for eps in outcomes.EPS] == [100.0, 50.0, 50.0]


def test_several_sink_tokens_are_measured_as_one_sink(monkeypatch: pytest.MonkeyPatch) -> None:
    """With tokens 1 and 3 as the sink, their weights add up, and neither counts among the others."""
    result, alpha_map = measure_trace(monkeypatch, sink_tokens=(1, 3))
    # Four rows see token 3; in one of them it gets its own weight, 0.25 or 0.75.
    assert alpha_map == [[round(4.75 / 6 + 0.25 / 4, 3), round(2.25 / 6 + 0.75 / 4, 3)]]
    assert result["value_ratio"] == pytest.approx(((1 + 2) / 2 / 2 + (4 + 2) / 2 / 2) / 2)
    assert result["eviction"] is None
    # The sum is that of the tokens' own: the first is measured as if it were the only one.
    assert result["alpha_of_1"] + result["alpha_of_3"] == pytest.approx(result["alpha"], abs=2e-4)
    assert result["alpha_of_1"] == measure_trace(monkeypatch)[0]["alpha"]
    assert [result[f"sink_{eps}"] for eps in outcomes.EPS] == [100.0, 100.0, 50.0]
    uniform_third = (1 / 3 + 1 / 4 + 1 / 5 + 1 / 6) / 4
    assert result["alpha_share"] == pytest.approx(
        (4.75 / 6 + 0.25 / 4 + 2.25 / 6 + 0.75 / 4) / 2 - UNIFORM_ALPHA - uniform_third, abs=1e-4
    )


@pytest.mark.parametrize(
    ("mask", "is_measured"), [(Mask(), True), (Mask("window", 4), False), (Mask("prefix", 3), False)]
)
def test_eviction_needs_a_causal_mask(mask: Mask, is_measured: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (measure_trace(monkeypatch, mask=mask)[0]["eviction"] is not None) is is_measured


def test_heads_are_counted_at_each_eps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four heads give token 1 shares of about 0.17, 0.25, 0.35 and 0.45."""
    heads = [map_to_first(5 * (6 * alpha - 1) / 25, 1 - 5 * (6 * alpha - 1) / 25) for alpha in (0.17, 0.25, 0.35, 0.45)]
    trace = dataclasses.replace(TRACE, att=torch.tensor([[heads]] * 2))
    result, _ = measure_trace(monkeypatch, trace)
    assert [result[f"sink_{eps}"] for eps in (0.2, 0.3, 0.4)] == [75.0, 50.0, 25.0]


def evidence_model(evidence: list[int]) -> Callable[..., Trace]:
    """Returns a fake model whose logit of token 0 grows by ln(evidence) for each visible key."""

    def forward(arch: Architecture, weights: Any, ids: Tensor) -> Trace:
        visible = arch.mask.visible(ids.shape[1], ids.device).double()
        logit = visible @ torch.tensor(evidence, dtype=torch.float64).log()
        logits = torch.stack([logit, torch.zeros_like(logit)], -1).expand(len(ids), -1, -1)
        return trace_of(logits=logits)

    return forward


def test_the_cost_of_eviction_equals_the_value_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """With three kept keys, query 4 sees keys 2 3 4 without the sink and 1 3 4 with the sink; query 5 sees 3 4 5 or
    1 4 5. Earlier queries have lost no key and do not count."""
    monkeypatch.setattr(outcomes, "forward", evidence_model([2, 3, 5, 7, 11, 13]))
    monkeypatch.setattr(outcomes, "KEPT_KEYS", 3)
    result = outcomes.eviction_cost(arch_of(), {}, IDS)

    def loss(product: int) -> float:
        return math.log1p(1 / product)

    expected = (loss(3 * 5 * 7) + loss(5 * 7 * 11)) / 2 - (loss(2 * 5 * 7) + loss(2 * 7 * 11)) / 2
    assert result == pytest.approx(expected, abs=1e-12)


def test_the_norm_ratio_of_a_sink_equals_the_value_by_hand() -> None:
    vectors = vectors_with_norms([1.0, 2, 4, 6, 8, 10])
    assert outcomes.sink_norm_ratio(vectors, [0]).item() == pytest.approx(1 / 6)
    assert outcomes.sink_norm_ratio(vectors, [1, 2]).item() == pytest.approx(3 / 6.25)
    assert outcomes.sink_norm_ratio(vectors[None].expand(3, 2, -1, -1), [5]).shape == (3, 2)


@pytest.mark.parametrize(
    ("mask", "counts"),
    [
        (Mask(), (2, 3, 4, 5, 6)),
        (Mask("window", 2), (2, 3, 4, 5, 6)),
        (Mask("prefix", 3), (4, 5, 6)),
        (Mask("prefix", 1), (2, 3, 4, 5, 6)),
    ],
)
def test_a_prefix_is_not_predicted(mask: Mask, counts: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    arch = arch_of(mask=mask)
    assert measure.held_out_loss(arch, {}, TRACE.logits, IDS) == pytest.approx(
        math.log(math.prod(counts)) / len(counts)
    )
    monkeypatch.setattr(loss, "forward", lambda arch, weights, ids: TRACE)
    text = torch.zeros(2, T + 1, dtype=torch.long)
    result = loss.next_token_loss(arch, {}, text, torch.zeros(2, T + 2), Training(balance=0.5))
    assert result.item() == pytest.approx(math.log(math.prod([*counts, 7])) / (len(counts) + 1))


def test_the_loss_that_balances_experts_equals_the_value_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """There are two layers and four tokens. Expert 1 has 3/4 of the weights, and is one of two experts for every
    token."""
    router = torch.tensor([[[[0.75, 0.25, 0.0], [0.75, 0.0, 0.25]]] * 2] * 2)
    trace = dataclasses.replace(TRACE, router=router)
    monkeypatch.setattr(loss, "forward", lambda arch, weights, ids: trace)
    result = loss.next_token_loss(
        arch_of(E=3, top_k=2), {}, torch.zeros(2, T + 1, dtype=torch.long), torch.zeros(2, T + 2), Training(balance=0.5)
    )
    # The experts' shares of the weights are 3/4, 1/8, 1/8, and their shares of the load 1/2, 1/4, 1/4.
    balance = 3 * (0.75 * 0.5 + 0.125 * 0.25 + 0.125 * 0.25)
    assert result.item() == pytest.approx(math.log(5040) / 6 + 0.5 * balance)


def test_the_loss_of_a_diffusion_model_equals_the_value_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two sequences mask tokens with p = 0.2 and 0.7; each masked token's loss is divided by p."""
    noise = torch.full((2, T + 1), 0.9)
    noise[0, 0] = 0.4  # p = (0 + 0.4) / 2 and (1 + 0.4) / 2
    noise[0, [1, 3]] = 0.1  # the first token, which is never masked, and the third
    noise[1, [4, 6]] = 0.6
    p, is_masked = loss.draw_masked(IDS, noise)
    assert p.flatten().tolist() == pytest.approx([0.2, 0.7])
    assert is_masked.nonzero().tolist() == [[0, 2], [1, 3], [1, 5]]
    inputs = []
    monkeypatch.setattr(loss, "forward", lambda arch, weights, ids: inputs.append(ids) or TRACE)
    result = loss.unmask_loss(arch_of(V=9), {}, IDS, noise, Training())
    assert inputs[0].tolist() == [[0, 0, 8, 0, 0, 0], [0, 0, 0, 8, 0, 8]]
    expected = (math.log(4) / 0.2 + math.log(5) / 0.7 + math.log(7) / 0.7) / 10
    assert result.item() == pytest.approx(expected)
    noise[0, 0] = 0.0
    assert loss.draw_masked(IDS, noise)[0].flatten().tolist() == pytest.approx([0.02, 0.5])


def test_the_numbers_of_a_card_equal_the_values_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    diagonal = map_to_first(0.0, 0.5)
    heads = [map_to_first(0.6, 0.2), diagonal]
    weight_at_eps = 0.3 * 6 / 5 - 1 / 5  # weight of token 1 for which its alpha is 0.3
    near_eps = map_to_first(weight_at_eps + 0.001, 1 - weight_at_eps - 0.001)
    trace = dataclasses.replace(
        TRACE,
        att=torch.tensor([[heads], [[near_eps, diagonal]]]),
        att_bias=torch.tensor([[[[0.9] * T, [0.1] * T]]] * 2),
        gate=torch.full((2, 1, 2, T), 0.25),
    )
    monkeypatch.setattr(measure, "forward", lambda arch, weights, ids: trace)
    result = measure.measure(arch_of(), {}, IDS)
    assert result["sink"] == [50.0, 0.0, 0.0, 50.0, 75.0, 75.0]
    assert (result["sink_1"], result["sink_1_raw"], result["sink_1_deviation"]) == (50.0, 50.0, 0.0)
    assert (result["sink_elsewhere"], result["elsewhere"]) == (75.0, 5)
    assert (result["eps"], result["T"], result["sequences"], result["near_eps"]) == (0.3, T, 2, 1)
    assert (result["hidden_ratio"], result["hidden_ratio_min"]) == (4.0, 2.5)
    assert (result["value_ratio"], result["value_ratio_min"]) == (1.25, 0.5)
    assert (result["row_mass_mean"], result["row_mass_min"], result["row_mass_max"]) == (0.7, 0.5, 1.0)
    assert result["alpha_max"] == pytest.approx((4.75 / 6 + 0.301) / 2, abs=1e-3)
    assert result["loss"] == round(math.log(720) / 5, 3)
    # alpha of the bias key is (0.9 x 6 + 1) / 7 and (0.1 x 6 + 1) / 7.
    assert (result["sink_bias"], result["gate_mean"]) == (50.0, 0.25)
    # Half of the heads have a sink in one sequence and none in the other, so the deviation is sqrt(2 x 25^2) percent.
    weak_maps = torch.tensor([[[diagonal, diagonal]]])
    mixed_trace = dataclasses.replace(trace, att=torch.cat([trace.att[:1], weak_maps]))
    monkeypatch.setattr(measure, "forward", lambda arch, weights, ids: mixed_trace)
    assert measure.measure(arch_of(), {}, IDS)["sink_1_deviation"] == 35.36
    nan_trace = dataclasses.replace(trace, logits=torch.full((2, T, 2), torch.nan))
    monkeypatch.setattr(measure, "forward", lambda arch, weights, ids: nan_trace)
    with pytest.raises(ValueError, match="not finite: .*'loss': nan"):
        measure.measure(arch_of(), {}, IDS)


def test_a_diffusion_model_is_measured_at_fixed_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loss is the mean over eight fixed noise draws."""
    noises: list[Tensor] = []

    def fake_loss(arch: Architecture, weights: Any, ids: Tensor, noise: Tensor, balance: float) -> Tensor:
        noises.append(noise)
        return torch.tensor(float(len(noises)))

    monkeypatch.setattr(measure, "unmask_loss", fake_loss)
    arch = arch_of(mask=Mask("bidirectional"))
    assert measure.held_out_loss(arch, {}, TRACE.logits, IDS) == (1 + 8) / 2
    assert {noise.shape for noise in noises} == {(2, T + 1)} and len(set(map(str, noises))) == 8
    first_noises, noises[:] = list(noises), []
    measure.held_out_loss(arch, {}, TRACE.logits, IDS)
    assert all(torch.equal(a, b) for a, b in zip(first_noises, noises))


def test_held_out_texts_have_the_form_of_training_texts() -> None:
    """Front tokens are encoded by their ids; a token that the tokenizer lacks has the id after the vocabulary."""
    texts = ["Once upon a time there was a king", "A dog and a cat ran off"]

    def encode(front: tuple[str, ...], fixed_at: int = 0, **options: str) -> list[list[int]]:
        recipe: Recipe = dataclasses.replace(
            RECIPE, training=dataclasses.replace(RECIPE.training, front=front, fixed_at=fixed_at, **options)
        )
        return outcomes.encode_texts(recipe, texts, T).tolist()

    bare_ids = encode(())
    assert [len(row) for row in bare_ids] == [T, T] and bare_ids[0] != bare_ids[1]
    assert [row[:3] for row in encode(("<sink>", "<s>", "<|endoftext|>"))] == [[1024, 0, 1]] * 2
    assert [row[1:] for row in encode(("<s>",))] == [row[:-1] for row in bare_ids]
    assert [row[1] for row in encode((), 2)] == [1, 1]
    assert [row[2:] for row in encode((), 2)] == [row[2:] for row in bare_ids]
    tokenizer = Tokenizer.from_file(str(protocol.ZOO / "softmax" / "tokenizer.json"))
    assert {tokenizer.decode([row[0]]) for row in encode((), 1, fixed_token="Ġthe")} == {" the"}
    with refused(ValueError):
        encode((), 1, fixed_token="nowhere")


def test_tokens_are_replaced_by_noise() -> None:
    text = torch.full((2, 4), 7)
    noise = torch.tensor([[0.0, 0.05, 0.0999, 0.1], [0.5, 0.025, 0.11, 0.0]])
    assert loss.replace_tokens(text, noise, 0.1).tolist() == [[7, 512, 1022, 7], [7, 256, 7, 0]]
    assert loss.replace_tokens(text, noise, 0.0) is text


def test_the_model_reads_replaced_tokens_and_predicts_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = []
    monkeypatch.setattr(loss, "forward", lambda arch, weights, ids: inputs.append(ids) or TRACE)
    text, noise = torch.zeros(2, T + 1, dtype=torch.long), torch.full((2, T + 2), 0.25)
    result = loss.next_token_loss(arch_of(), {}, text, noise, Training(replaced=0.5))
    assert inputs[0].tolist() == [[0] + [512] * (T - 1)] * 2
    assert result.item() == loss.next_token_loss(arch_of(), {}, text, noise, Training()).item()


def test_the_numbers_of_a_line_of_the_log_equal_the_values_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the two heads, the share of token 1 is 0.75 and 0.25, and that of the query itself 0.25 and 0.75. Token 6,
    which one query sees, is a sink in the second head. Rows sum to 0.8 and to 0.4."""
    monkeypatch.setattr(train, "forward", lambda arch, weights, ids: TRACE)
    assert train.measure_probe(arch_of(), {}, IDS) == {
        "held_out_loss": round(math.log(720) / 5, 4),
        "sink_1": 100.0,
        "alpha_max": round((1 + 5 * 0.75) / 6, 4),
        "hidden_ratio": 4.0,
        "value_ratio": 1.25,
        "row_mass": 0.6,
        "sink_k": 50.0,
    }
    bias_trace = dataclasses.replace(TRACE, att_bias=torch.tensor([[[[0.9] * T, [0.1] * T]]] * 2))
    monkeypatch.setattr(train, "forward", lambda arch, weights, ids: bias_trace)
    assert train.measure_probe(arch_of(), {}, IDS)["sink_bias"] == 50.0
    # These numbers have more digits than a log stores.
    long_trace = dataclasses.replace(
        bias_trace, att=TRACE.att * 0.3217, v=TRACE.v.exp(), hidden=TRACE.hidden.exp(), logits=TRACE.logits.sin()
    )
    monkeypatch.setattr(train, "forward", lambda arch, weights, ids: long_trace)
    digits = {"sink_1": 2, "sink_k": 2, "sink_bias": 2, "hidden_ratio": 3, "value_ratio": 3}
    for name, value in train.measure_probe(arch_of(), {}, IDS).items():
        assert value == round(value, digits.get(name, 4)), name
    noises = []
    monkeypatch.setattr(train, "unmask_loss", lambda arch, weights, ids, noise, _: noises.append(noise) or noise.mean())
    bidirectional_arch = arch_of(mask=Mask("bidirectional"))
    losses = [train.measure_probe(bidirectional_arch, {}, IDS)["held_out_loss"] for _ in range(2)]
    assert torch.equal(*noises) and noises[0].shape == (2, T + 1)
    assert losses == [round(noises[0].mean().item(), 4)] * 2
