"""Stores trained weights in the zoo, measures the stored weights, and writes cards, index and tables.

    python -m models.train.ship                         measures the zoo and writes its pages
    python -m models.train.ship --runs models/.runs     copies the weights that are trained there first

Every number of a card is measured on the weights that ship, and, in the column `exact`, on the weights of the run
before they were rounded.
"""

import argparse
import dataclasses
import gzip
import hashlib
import json
import shutil
import zlib
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save
from tokenizers import AddedToken, Tokenizer, processors

from ..reference.files import read_model, to_int8, to_steps, widen_weights, write_json, write_model, write_stored_model
from ..reference.model import architecture
from ..reference.operations import OPERATIONS
from . import pack
from .corpus import encode
from .measure import SEQUENCES, T, measure
from .pages import F16_MODELS, make_pages
from .recipe import Recipe, recipes, refuse_unknown
from .text import BOS, END

MODELS = Path(__file__).resolve().parents[1]
ZOO = MODELS / "zoo"
PACKED = "packed.gz"
TIMELINE_MEASUREMENTS = (
    "sink_1",
    "sink_elsewhere",
    "sink_bias",
    "loss",
    "alpha_max",
    "hidden_ratio",
    "value_ratio",
    "row_mass_mean",
)


def last_checkpoint(recipe: Recipe, seed: int, runs: Path) -> Path:
    return runs / f"{recipe.id}-{seed}" / f"step-{recipe.training.steps:04d}.safetensors"


def store_weights(recipe: Recipe, weights: dict[str, torch.Tensor], folder: Path) -> None:
    """Writes model.safetensors; of a model that both transformers and the page open, also the same numbers as I8."""
    if recipe.id in F16_MODELS:
        steps = to_steps(weights)
        write_model(folder, recipe.config, widen_weights(steps), torch.float16)
        (folder / PACKED).write_bytes(compress(save(steps)))
    else:
        write_stored_model(folder, recipe.config, to_int8(weights))


def write_tokenizer(recipe: Recipe, source: Path, folder: Path) -> None:
    tokenizer, training = Tokenizer.from_file(str(source)), recipe.training
    if training.extra:
        tokenizer.add_special_tokens([AddedToken(training.extra, special=True)])
    front_ids = [(token, tokenizer.token_to_id(token)) for token in training.front]
    if training.front != (BOS,):
        names = " ".join(training.front)
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{names} $A".strip(), pair=f"{names} $A $B".strip(), special_tokens=front_ids
        )
    tokenizer.save(str(folder / "tokenizer.json"))
    bos_token = training.front[0] if training.front else None
    write_json(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "bos_token": bos_token,
            "eos_token": END,
            "model_max_length": recipe.context,
            "clean_up_tokenization_spaces": False,
        },
    )


def corpus_tokenizer(runs: Path) -> Path:
    return runs / "corpus" / "tokenizer.json"


def encode_texts(recipe: Recipe, texts: list[str], tokenizer: Path) -> torch.Tensor:
    return encode(Tokenizer.from_file(str(tokenizer)), texts[:SEQUENCES], T, recipe.training)


def copy_run(recipe: Recipe, runs: Path, texts: list[str]) -> None:
    folder, seed = ZOO / recipe.id, recipe.seeds[0]
    weights = load_file(last_checkpoint(recipe, seed, runs))
    store_weights(recipe, weights, folder)
    write_tokenizer(recipe, corpus_tokenizer(runs), folder)
    shutil.copy(runs / f"{recipe.id}-{seed}" / "training.jsonl", folder / "training.jsonl")
    ids = encode_texts(recipe, texts, corpus_tokenizer(runs))
    write_json(folder / "exact.json", measure(architecture(recipe.config), weights, ids))
    if recipe.timeline:
        pack_timeline(recipe, runs / f"{recipe.id}-{seed}", folder, ids)


def pack_timeline(recipe: Recipe, run: Path, folder: Path, ids: torch.Tensor) -> None:
    arch, out = architecture(recipe.config), folder / "timeline"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    checkpoints: list[dict[str, Any]] = []
    previous: pack.Arrays | None = None
    for step in pack.STEPS:
        weights = load_file(run / f"step-{step:04d}.safetensors")
        arrays = {name: w.float().numpy() for name, w in sorted(weights.items())}
        data, scales, from_previous, previous = pack.encode(arrays, previous)
        compressed = gzip.compress(data, 9, mtime=0)
        (out / f"{step:04d}.gz").write_bytes(compressed)
        exact_metrics = measure(arch, weights, ids)
        stored_metrics = measure(arch, {n: torch.from_numpy(a) for n, a in previous.items()}, ids)
        weights_digest = hashlib.sha256(b"".join(a.astype("<f4").tobytes() for a in previous.values()))
        checkpoints.append(
            {
                "step": step,
                "file": f"{step:04d}.gz",
                "bytes": len(compressed),
                "sha256": hashlib.sha256(compressed).hexdigest(),
                "scale": scales,
                "from_previous": from_previous,
                "weights_sha256": weights_digest.hexdigest(),
                "measured": {name: exact_metrics[name] for name in TIMELINE_MEASUREMENTS if name in exact_metrics},
                "stored": {name: stored_metrics[name] for name in TIMELINE_MEASUREMENTS if name in stored_metrics},
            }
        )
        print(recipe.id, step, len(compressed), exact_metrics["sink_1"], stored_metrics["sink_1"], flush=True)
    log = [json.loads(line) for line in (run / "training.jsonl").read_text().splitlines()]
    write_json(
        out / "index.json",
        {
            "recipe": recipe.id,
            "seed": recipe.seeds[0],
            "config": "../config.json",
            "tensors": [
                {"name": name, "shape": list(a.shape), "coded": pack.is_coded(a)} for name, a in previous.items()
            ],
            "checkpoints": checkpoints,
            "log": sorted(log, key=lambda line: line["step"]),
        },
    )


def measure_seeds(runs: Path, texts: list[str], old_rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns the rows of seeds.json: for recipes with several seeds, the measurements of each seed on its run's
    weights. A seed whose run is not in this folder keeps its previous row."""
    old_row_by_seed = {(row["id"], row["seed"]): row for row in old_rows}
    rows = []
    for recipe in recipes().values():
        for seed in recipe.seeds if len(recipe.seeds) > 1 else ():
            if last_checkpoint(recipe, seed, runs).exists():
                weights = load_file(last_checkpoint(recipe, seed, runs))
                measurements = measure(
                    architecture(recipe.config), weights, encode_texts(recipe, texts, corpus_tokenizer(runs))
                )
                rows.append({"id": recipe.id, "seed": seed, "measured": measurements})
            elif (recipe.id, seed) in old_row_by_seed:
                rows.append(old_row_by_seed[recipe.id, seed])
    return rows


def compress(data: bytes) -> bytes:
    """Compresses data without a timestamp; "filtered" uses few back references, as numbers hardly repeat."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31, 9, zlib.Z_FILTERED)
    return packer.compress(data) + packer.flush()


def sha256_of(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def packed_facts(folder: Path) -> dict[str, Any]:
    """Describes the page's file. Has the contents of config.json, since a request for them would cost a round trip."""
    file = folder / PACKED
    return {"file": PACKED, "bytes": file.stat().st_size, "config": json.loads((folder / "config.json").read_text())}


def measure_facts(recipe: Recipe, texts: list[str]) -> dict[str, Any]:
    folder = ZOO / recipe.id
    file = folder / "model.safetensors"
    arch, weights = read_model(folder)
    ids = encode_texts(recipe, texts, folder / "tokenizer.json")
    return {
        "id": recipe.id,
        "seed": recipe.seeds[0],
        "training": dataclasses.asdict(recipe.training),
        "parameters": sum(w.numel() for w in weights.values()),
        "bytes": file.stat().st_size,
        "sha256": sha256_of(file),
        **({"packed": packed_facts(folder)} if recipe.id in F16_MODELS else {}),
        "operation": arch.operation,
        "formula": OPERATIONS[arch.operation].formula,
        "context": recipe.context,
        "timeline": recipe.timeline,
        "measured": measure(arch, weights, ids) | {"bos": BOS in recipe.training.front},
        "exact": json.loads((folder / "exact.json").read_text()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=Path, help="take the weights from these runs first")
    parser.add_argument("only", nargs="*", metavar="RECIPE", help="take these alone")
    arguments = parser.parse_args()
    recipes_by_id, runs = recipes(), arguments.runs
    refuse_unknown(parser, arguments.only, recipes_by_id)
    if runs is not None:
        held_out = json.loads((runs / "corpus" / "heldout.json").read_text())
        (ZOO / "heldout.json").write_text(json.dumps(held_out, indent=0) + "\n")
        for recipe in recipes_by_id.values():
            is_selected = not arguments.only or recipe.id in arguments.only
            if is_selected and last_checkpoint(recipe, recipe.seeds[0], runs).exists():
                copy_run(recipe, runs, held_out)
    texts = json.loads((ZOO / "heldout.json").read_text())
    seeds_file = ZOO / "seeds.json"
    seed_rows = json.loads(seeds_file.read_text()) if seeds_file.exists() else []
    if runs is not None:
        seed_rows = measure_seeds(runs, texts, seed_rows)
        write_json(seeds_file, seed_rows)
    rows = {
        id: measure_facts(recipe, texts)
        for id, recipe in recipes_by_id.items()
        if (ZOO / id / "model.safetensors").exists()
    }
    for file, text in make_pages(list(rows.values()), seed_rows, MODELS / "README.md", ZOO).items():
        file.write_text(text)
    for id, row in rows.items():
        print(id, row["measured"]["sink_1"], row["differs"] and row["differs"]["says"])
    missing = [id for id in recipes_by_id if id not in rows]
    weight_bytes = sum(file.stat().st_size for file in ZOO.glob("*/model.safetensors"))
    timeline_bytes = sum(file.stat().st_size for file in ZOO.glob("*/timeline/*"))
    print(f"{len(rows)} models, {weight_bytes:,} bytes of weights; timelines {timeline_bytes:,} bytes")
    if missing:
        print("not trained yet:", ", ".join(missing))


if __name__ == "__main__":
    main()
