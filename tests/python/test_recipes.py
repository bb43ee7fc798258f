"""Trains every recipe for a few steps with two layers, and measures the outcomes of the protocol."""

import dataclasses
import importlib
import math
from collections.abc import Iterable
from pathlib import Path

import pytest
import torch
from sentences import refused
from tokenizers import Tokenizer

from models.reference.model import architecture
from models.train import outcomes, protocol
from models.train.corpus import Corpus
from models.train.loss import LOSSES
from models.train.recipe import ARCHITECTURE, CHOICES, Training, read_recipe, recipes
from models.train.text import END_ID, VOCABULARY
from models.train.train import (
    Run,
    fixed_tensor_names,
    initial_weights,
    learning_rate,
    make_optimizers,
    trainable_weights,
)

T, STEPS = 40, 8
# A recipe of each operation, mask, objective and optimizer, and of a fixed token elsewhere; the others take one step.
MEASURED = (
    *("softmax", "sigmoid", "relu", "elu1", "gated", "key-bias", "softmax1", "alibi", "relative", "window", "prefix"),
    *("diffusion", "no-bos", "sink-token", "fixed-second", "post-norm", "qk-norm", "experts", "muon", "sgd", "large"),
)


@pytest.mark.parametrize("id", recipes())
def test_a_recipe_trains_on_a_cpu(id: str, tmp_path: Path) -> None:
    recipe = recipes()[id]
    recipe = dataclasses.replace(
        recipe,
        config=recipe.config | {"num_hidden_layers": 2},
        training=dataclasses.replace(recipe.training, learning_rate=0.1),
    )  # warm-up: 0.001 to 0.008
    run = Run(recipe, 1, tmp_path, "cpu")
    weights_before = {name: w.detach().clone() for name, w in run.weights.items()}
    generator = torch.Generator().manual_seed(0)
    text = torch.randint(VOCABULARY, (4, T + 1), generator=generator)
    noise = torch.rand(4, T + 2, generator=generator)
    steps = STEPS if id in MEASURED else 1
    losses = [run.advance(step, text, noise, LOSSES[recipe.training.objective]) for step in range(steps)]
    assert losses[0] == pytest.approx(math.log(VOCABULARY), rel=0.3)
    assert steps == 1 or losses[-1] < losses[0] - 0.1, losses
    fixed_names = fixed_tensor_names(run.weights, recipe.training)
    for name, w in run.weights.items():
        assert w.isfinite().all(), name
        assert torch.equal(w, weights_before[name]) == (name in fixed_names), name

    if id not in MEASURED:
        return
    ids = text[:, :T]
    point, alpha_map = outcomes.measure_outcomes(recipe, run.arch, run.cpu_weights(), ids, ids)
    assert [len(alpha_map), len(alpha_map[0])] == [run.arch.L, run.arch.H]
    assert all(x is None or math.isfinite(x) for x in point.values())
    has_eviction = run.arch.mask.kind == "causal" and recipe.sink_tokens == (1,)
    assert (point["eviction"] is not None) == has_eviction


def test_the_learning_rate_rises_over_100_steps_and_falls_to_a_tenth() -> None:
    training = Training(learning_rate=0.5, steps=1000)
    expected = {
        0: 0.005,
        49: 0.25,
        98: 0.495,
        99: 0.5,
        100: 0.5,
        800: 0.5,
        801: 0.49775,
        900: 0.275,
        1000: 0.05,
        1100: 0.05,
    }
    assert {step: learning_rate(step, training) for step in expected} == pytest.approx(expected)


def test_a_log_is_measured_on_the_number_of_texts_of_the_protocol(tmp_path: Path) -> None:
    """models/README.md states these numbers: 100 texts of 64 tokens, and 40 of 120 for the cost of eviction."""
    log = outcomes.Log(protocol.runs()["long-softmax"], 1, tmp_path)
    assert [tuple(log.ids.shape), tuple(log.longer_ids.shape)] == [(100, 64), (40, 120)]
    assert outcomes.KEPT_KEYS == 24


def test_a_run_is_measured_every_200_steps_and_then_every_800() -> None:
    steps = list(protocol.MEASURED_STEPS)
    assert [steps[0], steps[1], steps[19], steps[20], steps[21], steps[-1]] == [0, 200, 3800, 4000, 4800, 16_000]
    assert len(steps) == 20 + 16 and steps == sorted(set(steps))


def test_seeds_are_paired_by_their_initial_weights() -> None:
    recipes_by_id = recipes()
    base = initial_weights(architecture(recipes_by_id["softmax"].config), 3, recipes_by_id["softmax"].training)
    for id in ("sigmoid", "key-bias", "gated", "embedding-half"):
        recipe = recipes_by_id[id]
        result = initial_weights(architecture(recipe.config), 3, recipe.training)
        same_names = {name for name, w in base.items() if name in result and torch.equal(w, result[name])}
        differing_names = {n for n in base if n in result and result[n].shape == base[n].shape} - same_names
        assert differing_names == ({"model.embed_tokens.weight"} if id == "embedding-half" else set()), id
    half_weights = initial_weights(
        architecture(recipes_by_id["softmax"].config), 3, recipes_by_id["embedding-half"].training
    )
    assert half_weights["model.embed_tokens.weight"].std().item() == pytest.approx(0.5, rel=0.01)


def test_seeds_are_paired_by_their_text() -> None:
    """The text of a batch depends only on seed and step, not on the tokens that the recipe adds or fixes."""
    corpus, recipes_by_id = object.__new__(Corpus), recipes()
    corpus.tokenizer = Tokenizer.from_file(str(protocol.ZOO / "softmax" / "tokenizer.json"))
    corpus.stream = torch.randint(2, VOCABULARY, (5000,), generator=torch.Generator().manual_seed(2))

    def draw_text(id: str, seed: int, step: int) -> torch.Tensor:
        return corpus.draw_batch(seed, step, 4, 16, recipes_by_id[id].training)[0]

    base = draw_text("softmax", 1, 7)
    assert base.shape == (4, 17) and (base[:, 0] == 0).all()
    assert torch.equal(base, draw_text("gated", 1, 7))
    assert torch.equal(base[:, 1:-1], draw_text("sink-token", 1, 7)[:, 2:])
    assert torch.equal(base[:, 1:], draw_text("no-bos", 1, 7)[:, :-1])
    assert not torch.equal(base, draw_text("softmax", 2, 7))
    assert not torch.equal(base, draw_text("softmax", 1, 8))
    second_fixed = draw_text("fixed-second", 1, 7)
    assert (second_fixed[:, 1] == END_ID).all()
    assert torch.equal(second_fixed[:, 2:], draw_text("no-bos", 1, 7)[:, 2:])
    assert draw_text("text-300k", 1, 7).shape == (4, 17)


def test_a_model_without_experts_has_no_router() -> None:
    recipes_by_id = recipes()
    result = {
        id: (arch.E, arch.top_k)
        for id, arch in ((id, architecture(recipe.config)) for id, recipe in recipes_by_id.items())
        if arch.E or arch.top_k
    }
    assert (
        result
        == {
            id: (recipe.config["num_local_experts"], recipe.config["num_experts_per_tok"])
            for id, recipe in recipes_by_id.items()
            if recipe.config["model_type"] == "mixtral"
        }
        != {}
    )


def test_a_step_reads_the_same_number_of_tokens_at_every_context() -> None:
    recipes_by_id = recipes()
    assert (recipes_by_id["softmax"].sequences, recipes_by_id["softmax"].context) == (16, 128)
    assert all(recipe.sequences * recipe.context == recipe.training.batch for recipe in recipes_by_id.values())
    other_ids = {id for id, recipe in recipes_by_id.items() if recipe.training.batch != 2048}
    assert other_ids == {"batch-half", "batch-double"}
    assert recipes_by_id["context-512"].sequences == 4
    # If a context does not divide the batch, a step has fewer tokens, not more.
    config = recipes_by_id["softmax"].config | {"max_position_embeddings": 300}
    assert dataclasses.replace(recipes_by_id["softmax"], config=config).sequences == 6
    assert recipes_by_id["no-bos-512"].training.front == recipes_by_id["no-bos"].training.front == ()


def test_the_cost_of_eviction_is_that_of_the_lost_keys() -> None:
    """Losing the only key with weight changes the loss, but not if all values are zero."""
    recipe = recipes()["softmax"]
    config = recipe.config | {"num_hidden_layers": 1, "sliding_window": 2}
    arch = dataclasses.replace(architecture(config), mask=architecture(recipe.config).mask)
    weights = initial_weights(arch, 1, recipe.training)
    ids = torch.randint(VOCABULARY, (3, 60), generator=torch.Generator().manual_seed(1))
    ids[:, 0] = torch.tensor([5, 6, 7])
    # A large embedding makes all queries point to the first token's key.
    weights["model.embed_tokens.weight"][5:8] *= 400
    for name in ("q_proj", "k_proj"):
        weights[f"model.layers.0.self_attn.{name}.weight"] *= 40
    assert abs(outcomes.eviction_cost(arch, weights, ids)) > 1e-5
    weights["model.layers.0.self_attn.v_proj.weight"] *= 0
    assert outcomes.eviction_cost(arch, weights, ids) == 0.0


def test_a_log_continues_with_its_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step of the protocol is measured once, and again if a run repeats it."""
    recipe = protocol.runs()["long-sigmoid"]
    monkeypatch.setattr(outcomes, "SEQUENCES", 2)
    monkeypatch.setattr(outcomes, "EVICTION_SEQUENCES", 2)
    weights = initial_weights(architecture(recipe.config), 1, recipe.training)
    log = outcomes.Log(recipe, 1, tmp_path)
    for step in (0, 100, 200, 200, 400):
        log.add(step, weights, 3.5)
    assert [point["step"] for point in log.log["points"]] == [0, 200, 400]
    reopened_log = outcomes.Log(recipe, 1, tmp_path)
    assert reopened_log.log == log.log and reopened_log.has(400)
    reopened_log.keep_before(400)
    assert not reopened_log.has(400) and reopened_log.has(200)
    file = protocol.log_file(recipe, 1, tmp_path)
    before = file.read_text()
    with refused(SystemExit):
        reopened_log.keep_before(0)
    assert file.read_text() == before
    reopened_log.keep_before(200)
    reopened_log.add(200, weights, None)
    assert [p["step"] for p in protocol.read_log(recipe, 1, tmp_path)["points"]] == [0, 200]
    # A checkpoint without its log: the steps before cannot be measured again.
    file.unlink()
    with refused(SystemExit):
        outcomes.Log(recipe, 1, tmp_path).keep_before(201)
    assert not file.exists()


def test_uniform_attention_is_not_a_sink() -> None:
    recipe = recipes()["softmax"]
    arch = architecture(recipe.config | {"num_hidden_layers": 2})
    weights = initial_weights(arch, 1, recipe.training)
    for name in weights:
        if "q_proj" in name:
            weights[name] *= 0
    ids = torch.randint(VOCABULARY, (2, 64), generator=torch.Generator().manual_seed(1))
    point, _ = outcomes.measure_outcomes(recipe, arch, weights, ids, ids)
    assert point["alpha"] == point["alpha_share"] == 0.0
    assert point["alpha_max"] == pytest.approx(sum(1 / i for i in range(1, 65)) / 64, abs=1e-4)
    assert point["sink_0.2"] == 0.0


@pytest.mark.parametrize("count", [1, 8])
def test_part_of_a_key_bias_is_trained(count: int, tmp_path: Path) -> None:
    recipe = recipes()[f"key-bias-dimensions-{count}"]
    config = recipe.config | {"num_hidden_layers": 1}
    run = Run(dataclasses.replace(recipe, config=config), 1, tmp_path, "cpu")
    generator = torch.Generator().manual_seed(0)
    text = torch.randint(VOCABULARY, (2, T + 1), generator=generator)
    bias = next(w for name, w in run.weights.items() if name.endswith("bias_key"))
    initial_bias = bias.detach().clone()
    for step in range(3):
        run.advance(step, text, torch.zeros(2, T + 2), LOSSES["next"])
    assert bias[..., count:].count_nonzero() == initial_bias[..., count:].count_nonzero() == 0
    assert (bias[..., :count] != initial_bias[..., :count]).all()


@pytest.mark.parametrize("kind", CHOICES["optimizer"])
def test_an_optimizer_has_every_trained_tensor_once(kind: str) -> None:
    """Muon trains the matrices of the blocks; the recipe sets the decay, and gains have none."""
    training = Training(optimizer=kind, weight_decay=0.5, embedding_decay=0.25, learning_rate=0.125)
    weights = initial_weights(architecture(recipes()["key-bias"].config), 1, training)
    names = {id(w): name for name, w in weights.items()}
    for w in weights.values():
        w.requires_grad_()
    pairs = []
    for optimizer in make_optimizers(weights, training):
        for group in optimizer.param_groups:
            assert group["lr"] == 0.125
            pairs += [(names[id(w)], (type(optimizer).__name__, group["weight_decay"])) for w in group["params"]]
    assert sorted(name for name, _ in pairs) == sorted(weights)
    optimizer_by_name = dict(pairs)
    matrix_optimizer = {"adamw": "AdamW", "muon": "Muon", "sgd": "SGD"}[kind]
    other_optimizer = "SGD" if kind == "sgd" else "AdamW"
    assert optimizer_by_name["model.layers.3.mlp.up_proj.weight"] == (matrix_optimizer, 0.5)
    assert optimizer_by_name["model.embed_tokens.weight"] == (other_optimizer, 0.25)
    assert optimizer_by_name["lm_head.weight"] == (other_optimizer, 0.5)
    assert optimizer_by_name["model.layers.3.input_layernorm.weight"] == (other_optimizer, 0.0)


@pytest.mark.parametrize("kind", CHOICES["optimizer"])
def test_a_resumed_run_equals_an_uninterrupted_one(kind: str, tmp_path: Path) -> None:
    recipe = recipes()["softmax"]
    recipe = dataclasses.replace(
        recipe,
        config=recipe.config | {"num_hidden_layers": 1},
        training=dataclasses.replace(recipe.training, optimizer=kind),
    )
    text = torch.randint(VOCABULARY, (2, T + 1), generator=torch.Generator().manual_seed(0))

    def advance(run: Run, first: int, last: int) -> None:
        for step in range(first, last):
            run.advance(step, text, torch.zeros(2, T + 2), LOSSES["next"])

    whole_run, broken_run = (Run(recipe, 1, tmp_path / name, "cpu") for name in ("whole", "broken"))
    advance(whole_run, 0, 4)
    advance(broken_run, 0, 2)
    broken_run.save(2)
    # The broken run went on to step 3; a resumed run repeats the lines after step 2, where its checkpoint is.
    lines = [f'{{"step": {step}, "loss": {7 - step}}}\n' for step in range(4)]
    broken_run.log.write_text("".join(lines))
    resumed_run = Run(recipe, 1, tmp_path / "broken", "cpu")
    assert resumed_run.start == 2
    assert resumed_run.log.read_text() == "".join(lines[:3])
    assert resumed_run.losses == {0: 7, 1: 6, 2: 5}
    advance(resumed_run, 2, 4)
    assert all(torch.equal(w, resumed_run.weights[name]) for name, w in whole_run.weights.items())


@pytest.mark.parametrize(
    ("line", "unknown_word", "choices"),
    [
        ('factor = "luck"', "luck", CHOICES["factor"]),
        ('[training]\noptimizer = "adam"', "adam", CHOICES["optimizer"]),
        ('[training]\nobjective = "last"', "last", LOSSES),
        ("[training]\nstep = 4", "step", ("steps", "learning_rate", "optimizer")),
        ("seed = 4", "seed", ("title", "seeds", "baseline")),
        ('[config.sinkscope]\nposition = "none"', "position", ("positions", "attention", "mask_token")),
        ('[config.sinkscope]\nmask = { kind = "causl" }', "causl", ("causal", "window", "prefix", "bidirectional")),
        *((f'[config.sinkscope]\n{name} = "sinusoidd"', "sinusoidd", words) for name, words in ARCHITECTURE.items()),
    ],
)
def test_an_unknown_recipe_is_rejected_with_the_known_ones(
    line: str, unknown_word: str, choices: Iterable[str], tmp_path: Path
) -> None:
    file = tmp_path / "mine.toml"
    factor_line = "" if line.startswith("factor") else 'factor = "data"\n'
    file.write_text(f'title = "Mine"\nwhat = "?"\nbaseline = "softmax"\n{factor_line}{line}\n')
    with pytest.raises(ValueError, match="expected one of") as error:
        read_recipe(file)
    sentence = str(error.value)
    assert "mine.toml" in sentence
    assert set(choices) <= set(sentence.replace(",", "").split())
    assert f"'{unknown_word}'" in sentence


@pytest.mark.parametrize(
    ("command", "known_id"),
    [
        (["all", "--protocol", "a", "no-bos"], "long-no-bos"),
        (["queue", "no-bos"], "b-no-bos"),
        (["all", "sofmax"], "softmax"),
        (["train", "long-softmx"], "long-softmax"),
        (["ship", "sigmod"], "sigmoid"),
    ],
)
def test_a_command_rejects_an_unknown_id(
    command: list[str], known_id: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module = importlib.import_module(f"models.train.{command[0]}")
    monkeypatch.setattr("sys.argv", command)
    with pytest.raises(SystemExit) as exit_info:
        module.main()
    assert exit_info.value.code == 2
    output = capsys.readouterr().err
    assert "Traceback" not in output
    assert known_id in output.rsplit("error: ")[-1].replace(",", "").split()
    assert f"'{command[-1]}'" in output


@pytest.mark.parametrize(("recipe_id", "count"), [("key-bias", None), ("key-bias-dimensions-8", 8)])
def test_only_the_trained_dimensions_of_a_bias_key_get_a_gradient(recipe_id: str, count: int | None) -> None:
    recipe = recipes()[recipe_id]
    weights = trainable_weights(architecture(recipe.config), 1, recipe.training, "cpu")
    keys = [w for name, w in weights.items() if name.endswith("bias_key")]
    assert keys
    for key in keys:
        key.sum().backward()
        assert (key.grad[..., :count] == 1).all()
        assert count is None or (key.grad[..., count:] == 0).all()
