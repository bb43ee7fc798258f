"""Checks which models inputs.json has, and on which inputs each column is measured."""

import dataclasses
import json
import math
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from record.truth import half_step, rounding_of
from torch import Tensor

from models.train import inputs, protocol
from models.train.recipe import recipes

TEXTS = [json.loads((protocol.ZOO / f"{name}.json").read_text()) for name in ("heldout", "heldout-long")]


@pytest.mark.parametrize(
    ("id", "sink", "mass", "is_chosen"),
    [
        ("softmax", 10.0, 1.0, True),
        ("softmax", 9.99, 1.0, False),
        ("softmax", 50.0, 0.999, False),
        ("gated", 50.0, 1.0, True),
        ("short", 50.0, 1.0, False),  # an earlier step of softmax
        ("fixed-second", 50.0, 1.0, False),  # the sink is on another token
        ("diffusion", 50.0, 1.0, False),
        ("prefix", 50.0, 1.0, False),
        ("window", 50.0, 1.0, False),
    ],
)
def test_only_models_whose_first_token_is_a_sink_are_measured(
    id: str, sink: float, mass: float, is_chosen: bool
) -> None:
    row = {"id": id, "measured": {"sink_1": sink, "row_mass_min": mass}}
    assert inputs.sink_models([row]) == [id] * is_chosen


def test_each_column_is_measured_on_its_own_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fake model has a fixed alpha_1 for each kind of input."""
    inputs_read: list[Tensor] = []

    def alphas(arch: Any, weights: Any, ids: Tensor) -> Tensor:
        inputs_read.append(ids)
        assert weights == (None if len(inputs_read) not in (7, 8, 9) else {"seed": 1})
        # For 64 tokens alpha_1 falls from 0.55 in steps of 0.05; for longer passages it has four heads.
        if ids.shape[1] == 64:
            return torch.full((len(ids), 1, 1), 0.6 - 0.05 * len(inputs_read))
        return torch.tensor([0.1, 0.25, 0.35, 0.35] if ids.shape[1] == 32 else [0.1, 0.1, 0.25, 0.35])

    monkeypatch.setattr(inputs, "first_alphas", alphas)
    monkeypatch.setattr(inputs, "read_model", lambda folder: (folder.name, None))
    monkeypatch.setattr(inputs, "initial_weights", lambda arch, seed, training: {"seed": seed})
    monkeypatch.setattr(inputs, "heads_geometry", lambda arch, weights, ids: (0.12345, 0.5))
    monkeypatch.setattr(inputs, "heads_patterns", lambda arch, weights, ids: {"first_layer": 1, "rank_rest": 2.25})
    result = inputs.measure_model("softmax")
    uniform_alpha = sum(1 / n for n in range(1, 65)) / 64
    assert result == {
        "model": "softmax",
        "alpha_text_start": round(0.55 - uniform_alpha, 4),
        "sink_text_start": 100.0,
        "alpha_text_none": round(0.5 - uniform_alpha, 4),
        "sink_text_none": 100.0,
        "alpha_random_start": round(0.45 - uniform_alpha, 4),
        "sink_random_start": 100.0,
        "alpha_random_none": round(0.4 - uniform_alpha, 4),
        "sink_random_none": 100.0,
        "alpha_repeat_start": round(0.35 - uniform_alpha, 4),
        "sink_repeat_start": 100.0,
        "alpha_repeat_none": round(0.3 - uniform_alpha, 4),
        "sink_repeat_none": 0.0,
        "untrained_text_start": round(0.25 - uniform_alpha, 4),
        "untrained_random_start": round(0.2 - uniform_alpha, 4),
        "untrained_repeat_start": round(0.15 - uniform_alpha, 4),
        "sink_0.2_32": 75.0,
        "sink_0.3_32": 50.0,
        "sink_0.4_32": 0.0,
        "sink_0.2_120": 50.0,
        "sink_0.3_120": 25.0,
        "sink_0.4_120": 0.0,
        "fall_0.2": 0.3333,
        "fall_0.3": 0.5,
        "fall_0.4": None,  # without a sink nothing falls
        "key_ratio": 0.1235,
        "cos_gap": 0.5,
        "first_layer": 1,
        "rank_rest": 2.25,
    }
    text, text_without_start, random, random_without_start, repeat, repeat_without_start, *again, short, long = (
        inputs_read
    )
    assert [tuple(ids.shape) for ids in inputs_read] == [(100, 64)] * 9 + [(40, 32), (40, 120)]
    assert all(map(torch.equal, again, (text, random, repeat)))
    assert torch.equal(long[:, :32], short) and torch.equal(text[:, 1:], text_without_start[:, :-1])
    for ids in (text, random, repeat):
        assert (ids[:, 0] == 0).all()
    for ids, ids_without_start in ((random, random_without_start), (repeat, repeat_without_start)):
        assert torch.equal(ids[:, 1:], ids_without_start[:, 1:]) and len(ids_without_start[:, 0].unique()) > 90
    assert len(random_without_start.unique()) > 1000 and random.max() < 1024
    assert (repeat_without_start == repeat_without_start[:, :1]).all()
    inputs_read.clear()
    inputs.measure_model("fixed-third")
    # This recipe has no front token, but fixes the third token where there is a start token.
    assert (inputs_read[2][:, 2] == 1).all() and len(inputs_read[2][:, 0].unique()) > 90
    assert len(inputs_read[3][:, 2].unique()) > 90 and len(inputs_read[1][:, 2].unique()) > 10


def test_the_geometry_is_computed_over_sink_heads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two query heads share one key head, and two others another key head; one of the latter two has a sink."""
    arch = dataclasses.replace(inputs.read_model(protocol.ZOO / "softmax")[0], L=1, H=4, G=2)
    to_first = torch.tensor([0.2, 0.2, 0.2, 0.9]).reshape(4, 1, 1)
    att = torch.zeros(2, 1, 4, 3, 3)
    att[..., 0], att[..., 0, 0] = to_first.reshape(4, 1), 0.1
    keys = torch.tensor([[[9.0, 0], [1, 0], [1, 0]], [[0, 1], [2, 0], [2, 0]]])
    queries = torch.tensor([1.0, 0]).expand(2, 1, 4, 3, 2)
    monkeypatch.setattr(
        inputs, "forward", lambda arch, weights, ids: SimpleNamespace(att=att, q=queries, k=keys.expand(2, 1, 2, 3, 2))
    )
    # The sink head's first key is half as long as the others, and orthogonal to every query.
    ratio, gap = inputs.heads_geometry(arch, {}, torch.zeros(2, 3, dtype=torch.long))
    assert (ratio, gap) == (0.5, pytest.approx(-1.0))
    # A head whose alpha is the threshold has no sink.
    monkeypatch.setattr(inputs.metrics, "EPS", inputs.metrics.alpha(att)[0, 0, 0, 0].item())
    assert inputs.heads_geometry(arch, {}, torch.zeros(2, 3, dtype=torch.long))[0] == 0.5


def test_patterns_are_those_of_heads_with_a_sink_and_of_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second layer has a sink head, which writes two multiples of its first value, and a head that attends to
    itself and writes two orthogonal vectors; the heads of the first layer attend evenly."""
    arch = dataclasses.replace(inputs.read_model(protocol.ZOO / "softmax")[0], L=2, H=2, G=2, D=4)
    uniform = torch.tensor([[1.0, 0, 0], [1 / 2, 1 / 2, 0], [1 / 3, 1 / 3, 1 / 3]])
    to_first, to_self = torch.tensor([[1.0, 0, 0]] * 3), torch.eye(3)
    att = torch.stack([torch.stack([uniform, uniform]), torch.stack([to_first, to_self])])[None]
    values = torch.tensor([[1.0, 0], [1, 0], [0, 1]]).expand(1, 2, 2, 3, 2)
    weights = {f"model.layers.{layer}.self_attn.o_proj.weight": torch.eye(4) for layer in range(2)}
    monkeypatch.setattr(inputs, "forward", lambda arch, weights, ids: SimpleNamespace(att=att, v=values))
    monkeypatch.setattr(inputs.metrics, "EPS", 0.7)
    columns = inputs.heads_patterns(arch, weights, torch.zeros(1, 3, dtype=torch.long))
    uniform_share = inputs.uniform_alpha(3)
    assert columns["first_layer"] == 1 and columns["sink_heads"] == columns["diagonal_heads"] == 25
    assert columns["diagonal_sink"] == pytest.approx(1 / 3 - uniform_share)
    assert columns["diagonal_other"] == pytest.approx((1 - uniform_share) / 3)
    assert columns["rank_sink"] == pytest.approx(1)
    # The uniform heads write (1, 0) and (2/3, 1/3); squared singular values add up to 14/9 and multiply to 1/9.
    largest = 7 / 9 + (49 / 81 - 1 / 9) ** 0.5
    assert columns["rank_other"] == pytest.approx((2 + 2 * 14 / 9 / largest) / 3, rel=1e-6)
    assert math.isnan(columns["rank_rest"])  # without the first key the sink head writes nothing


def test_the_bias_key_of_a_stored_model_is_a_sink_that_training_made() -> None:
    columns = inputs.measure_bias_key("key-bias")
    stored = next(
        unit for unit in json.loads(inputs.FILE.read_text())["models with a bias key"] if unit["model"] == "key-bias"
    )
    bound = 2 * half_step(4) + rounding_of(1, inputs.T)  # of both sides' digits, and of weights
    assert abs(columns["bias_alpha"] - stored["bias_alpha"]) < bound and columns["bias_alpha"] > 0.5
    card = next(row for row in json.loads((protocol.ZOO / "index.json").read_text()) if row["id"] == "key-bias")
    assert columns["bias_sink"] == pytest.approx(card["measured"]["sink_bias"], abs=0.1)


def test_before_training_the_models_give_the_first_token_what_their_logs_say_at_step_0() -> None:
    """The level of a stored model is judged against these weights, which the seed draws again."""
    units = json.loads(inputs.FILE.read_text())["shipped models"]
    for unit in units:
        logs = [protocol.ZOO / unit["model"] / folder / "1.json" for folder in ("b", "seeds")]
        points = [json.loads(log.read_text())["points"][0] for log in logs if log.exists()]
        assert points, unit["model"]
        assert all(abs(unit["untrained_text_start"] - point["alpha"]) < 2 * half_step(4) for point in points)


def test_the_file_has_a_line_for_each_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "FILE", tmp_path / "inputs.json")
    monkeypatch.setattr(inputs, "sink_models", lambda rows: [row["id"] for row in rows[:2]])
    monkeypatch.setattr(inputs, "measure_model", lambda id: {"model": id, "alpha": 0.5})
    monkeypatch.setattr(inputs, "measure_bias_key", lambda id: {"model": id, "bias_alpha": 0.5})
    monkeypatch.setattr(inputs, "measure_untrained", lambda seed: {"seed": seed})
    threads: list[int] = []
    monkeypatch.setattr(torch, "set_num_threads", threads.append)
    monkeypatch.setattr(inputs, "measure_smollm2", lambda: {"model": "SmolLM2", "alpha": 0.6})
    for arguments in (["--smollm2"], []):  # the second command keeps the rows that the first has written
        monkeypatch.setattr(sys, "argv", ["inputs", *arguments])
        inputs.main()
    assert threads == [1, 1]  # sums depend on the number of threads
    ids = list(recipes())[:2]
    lines = ",\n".join(f'{{"model": "{id}", "alpha": 0.5}}' for id in ids)
    assert inputs.FILE.read_text() == (
        '{\n"open models": [\n{"model": "SmolLM2", "alpha": 0.6}\n],\n"shipped models": [\n'
        + lines
        + '\n],\n"models with a bias key": [\n'
        + ",\n".join(f'{{"model": "{id}", "bias_alpha": 0.5}}' for id in inputs.BIAS_KEY_MODELS)
        + '\n],\n"untrained models": [\n'
        + ",\n".join(f'{{"seed": {seed}}}' for seed in range(1, 6))
        + "\n]\n}\n"
    )


def test_a_repeated_token_shows_what_positions_alone_do() -> None:
    """Without positions every row is uniform. ALiBi's slopes are 1/4, 1/16, 1/64 and 1/256, and the bias of relative
    positions is the distance up to 16: the weight on the first key follows from these alone."""
    result = inputs.measure_untrained(2)
    assert result["alpha_none"] == pytest.approx(0, abs=1e-4)
    t = torch.arange(inputs.T, dtype=torch.float64)
    distances = (t[:, None] - t).clamp_min(0)
    visible = t <= t[:, None]

    def alpha(bias: torch.Tensor) -> float:
        weights = bias.masked_fill(~visible, -torch.inf).softmax(-1)[:, 0]
        return (weights / (inputs.T - 0 * t)).sum().item()

    slopes = [2.0 ** -(2 * h) for h in (1, 2, 3, 4)]
    expected = sum(alpha(-slope * distances) for slope in slopes) / 4 - inputs.uniform_alpha(inputs.T)
    assert result["alpha_alibi"] == pytest.approx(expected, abs=1e-3)
    far = 16 + (distances.clamp_min(16) / 16).log() / torch.tensor(8.0).log() * 16
    buckets = torch.minimum(distances, far.floor().clamp_max(31))
    assert result["alpha_relative"] == pytest.approx(alpha(buckets) - inputs.uniform_alpha(inputs.T), abs=1e-3)
    assert abs(result["alpha_rotary"]) < 0.02


def test_propositions_of_a_repeated_token_hold_to_the_closed_form_and_the_sign_of_the_bias_decides() -> None:
    columns = inputs.measure_untrained(1)
    assert all(columns[f"error_{positions}"] < 1e-4 for positions in ("none", "relative", "alibi"))

    def first_alpha(sign: int) -> float:
        """alpha_1 above uniform attention with T5's bucket of the distance, times the sign, as the score."""
        buckets = [d if d < 16 else min(31, 16 + math.floor(math.log(d / 16) / math.log(8) * 16)) for d in range(64)]
        return (
            sum(
                math.exp(sign * buckets[t]) / sum(math.exp(sign * d) for d in buckets[: t + 1]) - 1 / (t + 1)
                for t in range(64)
            )
            / 64
        )

    assert columns["alpha_relative"] == pytest.approx(first_alpha(1), abs=2e-4) and first_alpha(1) > 0.25
    assert columns["alpha_falling"] == pytest.approx(first_alpha(-1), abs=2e-4) and first_alpha(-1) < 0
