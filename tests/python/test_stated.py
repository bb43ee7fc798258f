"""Checks that numbers in sentences equal those computed from the data."""

import json
from pathlib import Path
from statistics import mean

from test_claims import MODEL_BY_ID, read_prose

from models.train import beyond, claims, decide, protocol
from models.train.factors import point_at
from models.train.recipe import recipes

ROOT = Path(__file__).resolve().parents[2]


def assert_stated(file: str, sentence: str) -> None:
    assert " ".join(sentence.split()) in read_prose(ROOT / file), sentence


def read_alphas(recipe: str, step: int) -> list[float]:
    folder = protocol.ZOO / recipe / "seeds"
    logs = [json.loads((folder / f"{seed}.json").read_text()) for seed in (1, 2, 3, 4, 5)]
    return [point_at(log, step)["alpha"] for log in logs]


def test_the_sink_of_the_baselines_is_as_stated() -> None:
    b_alpha = mean(decide.mean_outcomes(claims.runs_b()["softmax"][1], "alpha"))
    b_alpha_4000 = mean(point_at(log, 4000)["alpha"] for log in claims.runs_b()["softmax"][1].values())
    a_alphas = read_alphas("softmax", 4000)
    assert_stated(
        "models/README.md",
        f"The sink of this baseline is {b_alpha:.3f} above uniform attention over "
        f"steps 2,400 to 3,000 and {b_alpha_4000:.3f} at step 4,000; that of protocol A, at 3e-3, is "
        f"{mean(a_alphas[:3]):.3f} at step 4,000 in seeds 1 to 3 and {mean(a_alphas):.3f} in all five.",
    )


def test_the_differences_of_the_other_models_of_the_zoo_are_as_stated() -> None:
    base = MODEL_BY_ID["softmax"]["parameters"]
    excess_by_id = {id: row["parameters"] / base - 1 for id, row in MODEL_BY_ID.items()}
    others = {id: f"{100 * abs(excess):.1f}%" for id, excess in excess_by_id.items() if abs(excess) > 0.02}
    assert set(others) == {"gated", "gated-value", "experts", "plain-ffn"}
    assert len(MODEL_BY_ID) - 2 == 33 and others["gated"] == others["gated-value"]
    half_count = sum(recipes()[id].training.steps == 2000 for id in MODEL_BY_ID)
    assert half_count == 13
    assert_stated("web/README.md", "Thirty-three more models differ from the baseline in one factor each")
    assert_stated(
        "web/README.md",
        f"within 2%; `gated` and `gated-value` have {others['gated']} more, `experts` "
        f"has {others['experts']} more and `plain-ffn` {others['plain-ffn']} fewer. Thirteen of them "
        "were trained for 2,000 steps in place of 4,000",
    )


def test_the_cost_of_zeroing_one_channel_is_as_stated() -> None:
    units = json.loads(beyond.FILE.read_text())["channels"]
    cost = {unit["unit"]: f"{unit['worst']:.2f}" for unit in units}
    assert [unit["unit"] for unit in sorted(units, key=lambda unit: -unit["worst"])] == list(beyond.CHANNEL_MODELS)
    assert all(unit["median"] < 0.01 for unit in units)
    assert beyond.read_model(beyond.ZOO / "key-bias")[0].D == 128
    assert MODEL_BY_ID["key-bias"]["measured"]["sink_bias"] > 50
    assert_stated(
        "web/src/experiments/fragility.ts",
        f"the worst of 128 channels zeroed costs +{cost['key-bias']} nats "
        f"with a key bias, whose sink is the bias key, +{cost['softmax']} with softmax, "
        f"+{cost['sigmoid']} with sigmoid, +{cost['gated']} with gates, +{cost['sink-logit']} with a sink logit "
        f"({beyond.SEQUENCES} passages, T = {beyond.T})",
    )


def test_the_levels_of_softmax1_and_normalized_sigmoid_are_as_stated() -> None:
    for id, words in (
        ("softmax1", "three seeds end {} to {} above uniform attention"),
        ("sigmoid-norm", "three seeds, {} to {} over steps 2,400 to 3,000"),
    ):
        values = sorted(decide.mean_outcomes(claims.runs_b()[id][1], "alpha"))[:3]
        if len(claims.runs_b()[id][1]) == 3:
            assert_stated("models/README.md", words.format(f"{values[0]:.2f}", f"{values[-1]:.2f}"))


def test_the_cost_of_a_small_cache_for_the_softmax_model_is_as_stated() -> None:
    """The reference measures the loss of all tokens of the 40 longer passages, at T = 120."""
    from dataclasses import replace

    import torch
    from sinkscope import metrics

    from models.reference.files import read_model
    from models.reference.model import Mask, forward
    from models.train import outcomes

    arch, weights = read_model(protocol.ZOO / "softmax")
    texts = json.loads((protocol.ZOO / "heldout-long.json").read_text())
    ids = outcomes.encode_texts(recipes()["softmax"], texts[:40], 120)

    def compute_loss(mask: Mask) -> float:
        with torch.no_grad():
            logits = forward(replace(arch, mask=mask), weights, ids).logits
        return metrics.loss(logits, ids).mean().item()

    baseline_loss = compute_loss(arch.mask)
    cost, cost_with_first = (
        compute_loss(mask) - baseline_loss for mask in (Mask("window", 24), Mask("window", 23, first=1))
    )
    assert_stated(
        "web/README.md",
        f"rises by {cost:.3f} nats over 40 passages of 120 tokens, with the first token kept by {cost_with_first:.3f}",
    )


def test_the_measures_of_newer_papers_are_as_stated() -> None:
    units = claims.read_units()
    means = {
        name: mean(unit[name] for unit in units[claims.SHIPPED_MODELS])
        for name in ("rank_sink", "rank_other", "rank_rest")
    }
    assert_stated(
        "models/paper.md",
        f"a model without positions loses "
        f"{mean(decide.mean_outcomes(claims.runs_b()['no-positions'][1], 'eviction')):.1f} nats without its "
        f"first token and has no sink",
    )
    layers = {
        name: [unit["first_layer"] for unit in units[name]] for name in (*claims.BASELINES, claims.SHIPPED_MODELS)
    }
    assert set(layers["baseline at 3e-3"]) == {1} and set(layers["baseline at 1e-3"]) == {1, 2}
    assert (len(layers["baseline at 3e-3"]), len(layers["baseline at 1e-3"])) == (5, 8)
    assert (min(layers[claims.SHIPPED_MODELS]), max(layers[claims.SHIPPED_MODELS])) == (0, 3)
    assert all(unit["diagonal_heads"] == 0 for unit in units[claims.SHIPPED_MODELS])
    # read_prose leaves out the lines of a table.
    text = (ROOT / "models/README.md").read_text()
    assert "at 3e-3 layer 1 in each of five seeds at step 12,800, at 1e-3 layer 1 or 2 in eight" in text
    assert (
        f"{means['rank_sink']:.1f} on average in heads with a sink, "
        f"{means['rank_other']:.1f} in the others; without the first key {means['rank_rest']:.1f}"
    ) in text
