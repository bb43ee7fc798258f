"""Checks the stored weights of a shipped model and its other files."""

import dataclasses
import gzip
import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load, save_file
from test_pack import decode
from tokenizers import Tokenizer

from models.reference.files import read_weights
from models.reference.model import architecture
from models.train import ship
from models.train.recipe import Recipe, recipes
from models.train.train import initial_weights

STEPS, LAST_STEP = (0, 10, 30), 30
TEXTS = [
    "Once upon a time there was a king who had three daughters and no son at all. " * 4,
    "A dog and a cat ran off into the wood, and they were never seen there again. " * 4,
]
ZOO = ship.ZOO
TOKENIZER = ZOO / "softmax/tokenizer.json"


def recipe_of(id: str, **training: Any) -> Recipe:
    recipe = recipes()[id]
    return dataclasses.replace(
        recipe,
        seeds=(3, 4),
        config=recipe.config
        | {
            "num_hidden_layers": 1,
            "hidden_size": 16,
            "num_attention_heads": 2,
            "num_key_value_heads": 2,
            "head_dim": 8,
            "intermediate_size": 24,
        },
        training=dataclasses.replace(recipe.training, steps=LAST_STEP, **training),
    )


def fake_measure(_: object, weights: dict[str, Any], ids: Any) -> dict[str, Any]:
    """Returns numbers that identify the measured weights and ids."""
    return {
        "sink_1": sum(float(w.double().abs().sum()) for w in weights.values()),
        "sink_1_raw": float(ids[:, 0].sum()),
        "loss": list(ids.shape),
        "eps": 0.3,
    }


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(ship, "ZOO", tmp_path / "zoo")
    monkeypatch.setattr(ship, "measure", fake_measure)
    monkeypatch.setattr(ship.pack, "STEPS", STEPS)
    folder = tmp_path / "runs"
    (folder / "corpus").mkdir(parents=True)
    (folder / "corpus/tokenizer.json").write_bytes(TOKENIZER.read_bytes())
    return folder


def write_run(recipe: Recipe, seed: int, runs: Path) -> dict[int, dict[str, Any]]:
    """Writes checkpoints whose weights drift, and a log whose last line comes first."""
    folder = runs / f"{recipe.id}-{seed}"
    folder.mkdir()
    weights, weights_by_step = initial_weights(architecture(recipe.config), seed, recipe.training), {}
    for step in STEPS:
        weights = {name: w + step * 1e-4 * torch.ones_like(w) for name, w in weights.items()}
        save_file(weights, folder / f"step-{step:04d}.safetensors")
        weights_by_step[step] = weights
    (folder / "training.jsonl").write_text('{"step": 30}\n{"step": 0}\n')
    return weights_by_step


def test_the_last_weights_ship_in_the_precision_of_their_recipe(runs: Path) -> None:
    for id in ("softmax", "relu"):
        recipe = recipe_of(id)
        last_weights = write_run(recipe, 3, runs)[LAST_STEP]
        ship.copy_run(dataclasses.replace(recipe, timeline=False), runs, TEXTS)
        folder = ship.ZOO / id
        stored_weights = read_weights(folder / "model.safetensors")
        assert stored_weights.keys() == last_weights.keys()
        for name, weight in last_weights.items():
            half_weight = weight.half().float()
            if id == "relu" and weight.dim() == 2:
                tolerance = weight.abs().amax(1, keepdim=True) / 127 * 0.5001
                assert ((stored_weights[name] - weight).abs() <= tolerance).all(), name
                assert not torch.equal(stored_weights[name], half_weight)
            elif weight.dim() == 2:
                # A step is a power of two: at most √2 times the part of the root mean square.
                steps = 16 if name in ("lm_head.weight", "model.embed_tokens.weight") else 8
                half_a_step = weight.square().mean().sqrt() / steps / 2**0.5
                assert (stored_weights[name] - weight).abs().max() <= 1.001 * half_a_step, name
                assert not torch.equal(stored_weights[name], half_weight)
            else:
                assert torch.equal(stored_weights[name], half_weight), name
        config = json.loads((folder / "config.json").read_text())
        assert ("quantization_config" in config) == (id == "relu")
        ids = ship.encode_texts(recipe, TEXTS, TOKENIZER)
        assert ids.shape == (2, 64) and ids[:, 0].tolist() == [0, 0]
        assert json.loads((folder / "exact.json").read_text()) == fake_measure(None, last_weights, ids)
        assert (folder / "training.jsonl").read_text() == '{"step": 30}\n{"step": 0}\n'
        assert not (folder / "timeline").exists()


@pytest.mark.parametrize(
    ("front", "extra", "begins", "bos"),
    [
        (("<s>",), None, [0], "<s>"),
        ((), None, [], None),
        (("<|endoftext|>", "<s>"), None, [1, 0], "<|endoftext|>"),
        (("<sink>", "<s>"), "<sink>", [1024, 0], "<sink>"),
    ],
)
def test_the_shipped_tokenizer_begins_a_text_with_the_tokens_of_training(
    front: tuple[str, ...], extra: str | None, begins: list[int], bos: str | None, tmp_path: Path
) -> None:
    ship.write_tokenizer(recipe_of("softmax", front=front, extra=extra), TOKENIZER, tmp_path)
    tokenizer = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    bare_ids = tokenizer.encode("A king", add_special_tokens=False).ids
    assert tokenizer.encode("A king").ids == begins + bare_ids
    assert tokenizer.encode("A king", "A king").ids[: len(begins)] == begins
    config = json.loads((tmp_path / "tokenizer_config.json").read_text())
    assert (config["bos_token"], config["eos_token"], config["model_max_length"]) == (bos, "<|endoftext|>", 128)


def test_a_timeline_decodes_to_the_weights_that_it_was_measured_on(runs: Path) -> None:
    recipe = recipe_of("softmax")
    weights_by_step = write_run(recipe, 3, runs)
    (ship.ZOO / "softmax/timeline").mkdir(parents=True)
    (ship.ZOO / "softmax/timeline/0999.gz").touch()  # left over from an earlier packing
    ship.copy_run(dataclasses.replace(recipe, timeline=True), runs, TEXTS)
    folder = ship.ZOO / "softmax/timeline"
    index = json.loads((folder / "index.json").read_text())
    assert sorted(file.name for file in folder.iterdir()) == ["0000.gz", "0010.gz", "0030.gz", "index.json"]
    assert (index["recipe"], index["seed"]) == ("softmax", 3)
    assert index["log"] == [{"step": 0}, {"step": 30}]
    shapes = {row["name"]: tuple(row["shape"]) for row in index["tensors"]}
    assert all(row["coded"] == (len(row["shape"]) == 2) for row in index["tensors"])
    assert shapes == {name: tuple(w.shape) for name, w in sorted(weights_by_step[0].items())}
    decoded, ids = None, ship.encode_texts(recipe, TEXTS, TOKENIZER)
    for step, row in zip(STEPS, index["checkpoints"], strict=True):
        file = (folder / row["file"]).read_bytes()
        assert (row["step"], row["bytes"], row["sha256"]) == (step, len(file), hashlib.sha256(file).hexdigest())
        decoded = decode(gzip.decompress(file), decoded, shapes, row["scale"], row["from_previous"])
        digest = hashlib.sha256(b"".join(decoded[name].astype("<f4").tobytes() for name in shapes))
        assert row["weights_sha256"] == digest.hexdigest()
        assert all(row["from_previous"]) == (step > 0)
        exact, stored = (
            fake_measure(None, weights_by_step[step], ids),
            fake_measure(None, {name: torch.from_numpy(np.array(decoded[name])) for name in shapes}, ids),
        )
        assert row["measured"].keys() == {"sink_1", "loss"}
        assert row["measured"]["sink_1"] == exact["sink_1"]
        assert row["stored"]["sink_1"] == stored["sink_1"]
        assert exact["sink_1"] != stored["sink_1"]


def test_every_trained_seed_is_measured_on_its_last_weights(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The recipes of this test have no shipped weights, so that the zoo lacks their tokenizers."""
    two_seeds, one_seed = recipe_of("sink-token"), dataclasses.replace(recipe_of("relu"), seeds=(3,))
    monkeypatch.setattr(ship, "recipes", lambda: {"sink-token": two_seeds, "relu": one_seed})
    last_weights = {seed: write_run(two_seeds, seed, runs)[LAST_STEP] for seed in (3, 4)}
    write_run(one_seed, 3, runs)
    ids = ship.encode_texts(two_seeds, TEXTS, TOKENIZER)
    assert ids[:, :2].tolist() == [[1024, 0]] * 2
    rows = [
        {"id": "sink-token", "seed": seed, "measured": fake_measure(None, last_weights[seed], ids)} for seed in (3, 4)
    ]
    assert ship.measure_seeds(runs, TEXTS, []) == rows
    (runs / "sink-token-4/step-0030.safetensors").unlink()
    assert ship.measure_seeds(runs, TEXTS, []) == rows[:1]
    # The row of a run that is not in this folder is kept. Rows of removed recipes are dropped, and rows of runs that
    # are measured again are replaced.
    old_rows = [
        {"id": id, "seed": seed, "measured": {}}
        for id, seed in (("sink-token", 3), ("sink-token", 4), ("sink-token", 5), ("relu", 3), ("gone", 3))
    ]
    assert ship.measure_seeds(runs, TEXTS, old_rows) == [rows[0], old_rows[1]]


@pytest.mark.parametrize("id", ["softmax", "relu"])
def test_a_row_of_the_index_is_measured_on_the_stored_weights(id: str, runs: Path) -> None:
    recipe = dataclasses.replace(recipe_of(id), timeline=False)
    last_weights = write_run(recipe, 3, runs)[LAST_STEP]
    ship.copy_run(recipe, runs, TEXTS)
    row, folder, ids = ship.measure_facts(recipe, TEXTS), ship.ZOO / id, ship.encode_texts(recipe, TEXTS, TOKENIZER)
    file = (folder / "model.safetensors").read_bytes()
    assert (row["id"], row["seed"], row["context"], row["operation"]) == (id, 3, 128, id)
    assert row["parameters"] == sum(w.numel() for w in last_weights.values())
    assert (row["bytes"], row["sha256"]) == (len(file), hashlib.sha256(file).hexdigest())
    stored = fake_measure(None, read_weights(folder / "model.safetensors"), ids)
    assert row["measured"] == stored | {"bos": True} and row["exact"] == fake_measure(None, last_weights, ids)
    assert ("packed" in row) == (id == "softmax")
    if id == "softmax":
        data = (folder / "packed.gz").read_bytes()
        config = json.loads((folder / "config.json").read_text())
        assert row["packed"] == {"file": "packed.gz", "bytes": len(data), "config": config}
        packed_weights, weights = load(gzip.decompress(data)), read_weights(folder / "model.safetensors")
        assert len(data) < 0.5 * len(file)
        for name, w in weights.items():
            scale = packed_weights.get(f"{name}_scale", torch.ones(()))
            assert torch.equal(packed_weights[name].float() * scale, w), name


def test_the_command_ships_trained_runs_and_names_the_others(
    runs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    recipes_by_id = {
        id: dataclasses.replace(recipe_of(id), timeline=False, seeds=seeds)
        for id, seeds in (("softmax", (3, 4)), ("relu", (3, 4)), ("elu1", (3,)))
    }
    monkeypatch.setattr(ship, "recipes", lambda: recipes_by_id)
    calls = {}

    def fake_pages(rows: list[dict[str, Any]], seed_rows: list[Any], readme: Path, zoo: Path) -> dict[Path, str]:
        calls["pages"] = ([row["id"] for row in rows], len(seed_rows), readme.name)
        for row in rows:
            row["differs"] = None
        return {zoo / "index.json": "the index"}

    monkeypatch.setattr(ship, "make_pages", fake_pages)
    for id in ("softmax", "relu"):
        write_run(recipes_by_id[id], 3, runs)
    ship.ZOO.mkdir()
    (runs / "corpus/heldout.json").write_text(json.dumps(TEXTS))
    monkeypatch.setattr(sys, "argv", ["ship", "--runs", str(runs), "softmax"])
    ship.main()
    assert json.loads((ship.ZOO / "heldout.json").read_text()) == TEXTS
    assert calls["pages"] == (["softmax"], 2, "README.md")
    assert not (ship.ZOO / "relu").exists()
    assert capsys.readouterr().out.splitlines()[-1] == "not trained yet: relu, elu1"
    monkeypatch.setattr(sys, "argv", ["ship", "--runs", str(runs)])
    ship.main()
    assert calls["pages"] == (["softmax", "relu"], 2, "README.md")
    assert (ship.ZOO / "index.json").read_text() == "the index"
    output = capsys.readouterr().out.splitlines()
    size = sum(file.stat().st_size for file in ship.ZOO.glob("*/model.safetensors"))
    assert output[-2:] == [f"2 models, {size:,} bytes of weights; timelines 0 bytes", "not trained yet: elu1"]
