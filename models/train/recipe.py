"""Reads the recipes, each from a file in recipes/, which contains only what the recipe changes.

A recipe is the softmax model with one factor changed: `config` overrides the config.json of this model, and `training`
overrides the defaults below.
"""

import argparse
import difflib
import tomllib
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, fields
from functools import reduce
from pathlib import Path
from typing import Any

from .text import BOS, BOS_ID, END, END_ID, VOCABULARY

RECIPES = Path(__file__).resolve().parent / "recipes"
T = 128  # tokens per training sequence; config may override it
STEP_TOKENS = 16 * T  # tokens per step over all sequences; a recipe may override it
# The factors in the order of the table's sections. The number is the rank in protocol A, which begins with the factors
# that the paper stresses.
FACTORS = {
    "operation": 6,
    "biases": 3,
    "gate": 4,
    "positions": 2,
    "optimization": 5,
    "data": 0,
    "loss": 1,
    "blocks": 7,
    "experts": 8,
    "diffusion": 9,
}
_IDS = {BOS: BOS_ID, END: END_ID}
BIAS_OWNERS = ("none", "head", "shared")
# Allowed values: CHOICES of the file's own keys and of [training], ARCHITECTURE of the object "sinkscope".
CHOICES: dict[str, Collection[str]] = {
    "factor": FACTORS,
    "optimizer": ("adamw", "muon", "sgd"),
    "objective": ("next", "unmask"),
}
ARCHITECTURE: dict[str, Collection[str]] = {
    "positions": ("rotary", "none", "learned", "sinusoid", "alibi", "relative"),
    "norm": ("pre", "post", "sandwich"),
    "norm_kind": ("rms", "layer"),
    "feed_forward": ("gated", "plain", "none"),
    "heads": ("joined", "added"),
    "bias_key": BIAS_OWNERS,
    "bias_key_value": BIAS_OWNERS,
    "value_bias": BIAS_OWNERS,
    "gate": ("none", "output_element", "output_head", "value_element", "value_head", "value_state"),
}
MASKS = {"kind": ("causal", "window", "prefix", "bidirectional")}

BASE_CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "num_hidden_layers": 6,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "hidden_size": 128,
    "head_dim": 32,
    "intermediate_size": 344,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": T,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "rope_scaling": None,
    "hidden_act": "silu",
    "attention_bias": False,
    "mlp_bias": False,
    "tie_word_embeddings": False,
    "eos_token_id": END_ID,
    "torch_dtype": "float16",
}


@dataclass(frozen=True)
class Training:
    steps: int = 4000
    learning_rate: float = 3e-3
    # With strong decay of the matrices the sink is larger (the claim `weight-decay`). The embedding decays less: a rare
    # token's vector would decay between its few appearances, but not that of the first token, which is in every
    # sequence and was then the longest vector of the stream with softmax and sigmoid alike (models/README.md).
    weight_decay: float = 1.0
    embedding_decay: float = 0.1
    embedding_deviation: float = 0.02  # initial standard deviation of the embedding; matrices have 0.02
    front: tuple[str, ...] = (BOS,)
    extra: str | None = None  # an additional token, with the id 1,024
    batch: int = STEP_TOKENS
    optimizer: str = "adamw"
    replaced: float = 0.0  # share of the input tokens, not of the targets, that are replaced at random
    random_first: bool = False
    fixed_at: int = 0  # puts `fixed_token` at this position of every sequence, counted from 1
    fixed_token: str = END  # as the tokenizer writes it: "Ġthe" is " the"
    one_document: bool = False  # every sequence lies inside one document
    bias_value: float | None = None  # the value of a bias key is [bias_value, 0, ..., 0], untrained
    bias_dimensions: int | None = None  # trained dimensions of a bias key, the others are 0
    tokens: int | None = None  # number of different tokens of text to train on; None for all
    objective: str = "next"  # "next", or "unmask" for a masked diffusion model
    balance: float = 0.0  # weight of the loss that spreads tokens evenly over experts

    @property
    def front_ids(self) -> list[int]:
        """The ids of `front`. A token outside the vocabulary has the next id."""
        return [_IDS.get(token, VOCABULARY) for token in self.front]

    @property
    def decay_steps(self) -> tuple[int, int]:
        """The first and the last step of the last fifth of the run, in which the learning rate falls to a tenth."""
        return self.steps * 4 // 5, self.steps


@dataclass(frozen=True)
class Recipe:
    id: str
    title: str
    what: str
    factor: str
    config: dict[str, Any]
    training: Training
    baseline: str = "softmax"  # id of the recipe that differs only in the factor
    sink_tokens: tuple[int, ...] = (1,)  # positions of the tokens with the sink, from 1
    seeds: tuple[int, ...] = (1,)  # the weights of the first seed ship
    timeline: bool = False
    order: int = 0
    paper: dict[str, Any] = field(default_factory=dict)  # the paper's figures or finding, and `where` in the paper

    @property
    def context(self) -> int:
        """Tokens per training sequence, without the last one, which is only predicted."""
        return int(self.config["max_position_embeddings"])

    @property
    def sequences(self) -> int:
        """Sequences per step: fewer at a longer context, so that every step reads as many tokens."""
        return self.training.batch // self.context


def _check_choices(file: str, values: dict[str, Any], choices: dict[str, Collection[str]]) -> None:
    for name in choices.keys() & values.keys():
        if values[name] not in choices[name]:
            raise ValueError(f"{file}: {name} is {values[name]!r}, expected one of {', '.join(choices[name])}")


def _refuse_unknown_names(file: str, names: dict[str, Any], allowed: Iterable[str]) -> None:
    for name in names.keys() - set(allowed):
        raise ValueError(f"{file}: expected one of {', '.join(allowed)}, found {name!r}")


def _read_contents(path: Path) -> dict[str, Any]:
    """Returns the contents of a recipe's file. Raises ValueError for an unknown name, and lists the known."""
    contents = tomllib.loads(path.read_text())
    training = contents.setdefault("training", {})
    variant = contents.setdefault("config", {}).get("sinkscope", {})
    _refuse_unknown_names(path.name, contents, [option.name for option in fields(Recipe) if option.name != "id"])
    _refuse_unknown_names(path.name, training, [option.name for option in fields(Training)])
    _check_choices(path.name, contents | training, CHOICES)
    _refuse_unknown_names(path.name, variant, (*ARCHITECTURE, "attention", "mask", "mask_token", "alibi_scale"))
    _check_choices(path.name, variant, ARCHITECTURE)
    _check_choices(path.name, variant.get("mask", {}), MASKS)
    return contents


def _build_recipe(id: str, contents: dict[str, Any]) -> Recipe:
    contents = {name: tuple(value) if name in ("seeds", "sink_tokens") else value for name, value in contents.items()}
    options = contents.pop("training")
    if "front" in options:
        options = options | {"front": tuple(options["front"])}
    training = Training(**options)
    config = BASE_CONFIG | contents.pop("config") | {"bos_token_id": next(iter(training.front_ids), None)}
    return Recipe(id=id, config=config, training=training, **contents)


def read_recipe(path: Path) -> Recipe:
    return _build_recipe(path.stem, _read_contents(path))


def _combine_contents(factor: dict[str, Any], base: dict[str, Any]) -> dict[str, Any]:
    variant = base["config"].get("sinkscope", {}) | factor["config"].get("sinkscope", {})
    return {
        "title": f"{factor['title']}, {base['title']}",
        "what": f"{factor['what']} {base['what']}",
        "factor": factor["factor"],
        "config": base["config"] | factor["config"] | ({"sinkscope": variant} if variant else {}),
        "training": base["training"] | factor["training"],
    }


def combine_recipes(factor: str, *others: str) -> Recipe:
    """Returns the recipe FACTOR+OTHERS, which applies the changes of `factor` to its baseline, a recipe or a combined
    one. No paper has a figure for it."""
    contents = [_read_contents(RECIPES / f"{id}.toml") for id in (factor, *others)]
    return _build_recipe(
        "+".join([factor, *others]),
        reduce(lambda base, next_factor: _combine_contents(next_factor, base), reversed(contents))
        | {"baseline": "+".join(others)},
    )


def recipes() -> dict[str, Recipe]:
    all_recipes = [read_recipe(path) for path in RECIPES.glob("*.toml")]
    all_recipes.sort(key=lambda r: (list(FACTORS).index(r.factor), r.order, r.id))
    return {recipe.id: recipe for recipe in all_recipes}


def refuse_unknown(parser: argparse.ArgumentParser, ids: Iterable[str], known_ids: Collection[str]) -> None:
    for id in ids:
        if id not in known_ids:
            similar_ids = difflib.get_close_matches(id, known_ids, 4, 0.5)
            prefixed_ids = [
                known_id for known_id in known_ids if known_id.endswith(f"-{id}") and known_id not in similar_ids
            ]
            suggestions = ", ".join(([*prefixed_ids, *similar_ids] or list(known_ids))[:4])
            parser.error(f"expected an id such as {suggestions}, found {id!r}")
