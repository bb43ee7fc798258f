"""The recipes: one file each in recipes/, what it changes and nothing else.

A recipe is the baseline (the softmax twin) with one factor changed: `config` is laid over the
baseline's config.json, `training` over the defaults below.
"""

import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .text import BOS, BOS_ID, END, END_ID, VOCABULARY

RECIPES = Path(__file__).resolve().parent / "recipes"
T = 128  # tokens of a training sequence, and the context, where a recipe's config says no other
TOKENS = 16 * T  # of all sequences of a step, where a recipe says no other
OPTIMIZERS = ("adamw", "muon", "sgd")
# The order of the table; a factor is a section of it.
FACTORS = ("operation", "biases", "gate", "positions", "optimisation", "data", "loss", "blocks",
           "experts", "diffusion")

BASE: dict[str, Any] = {
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
    # Strong decay of the matrices brings the sink. The embedding is spared: a rare token's vector
    # would decay between its few appearances while that of the first token, which is in every
    # sequence, would not, and the first token would be the longest vector of the stream whatever
    # the attention does.
    weight_decay: float = 1.0
    embedding_decay: float = 0.1
    embedding_deviation: float = 0.02  # what its numbers are drawn with; those of matrices: 0.02
    front: tuple[str, ...] = (BOS,)  # tokens before every sequence
    extra: str | None = None  # a token beside the vocabulary, id 1,024
    batch: int = TOKENS  # tokens of all sequences of a step
    optimizer: str = "adamw"  # of OPTIMIZERS
    replaced: float = 0.0  # share of the tokens read, not of those predicted, that are drawn at random
    random_first: bool = False  # the first token of the text is drawn from the vocabulary
    fixed_at: int = 0  # the token at this place of a sequence, from 1, is always <|endoftext|>
    bias_value: float | None = None  # a bias key's value is [this, 0, ..., 0] and is not trained
    bias_dimensions: int | None = None  # so many numbers of a bias key are trained; the others are 0
    tokens: int | None = None  # only so many tokens of the text are ever read
    objective: str = "next"  # or "unmask": a masked diffusion model
    balance: float = 0.0  # weight of the loss that spreads tokens over experts

    @property
    def decay(self) -> tuple[int, int]:
        """The learning rate falls to a tenth between these steps: the last fifth."""
        return self.steps * 4 // 5, self.steps


@dataclass(frozen=True)
class Recipe:
    id: str
    title: str
    what: str
    factor: str
    config: dict[str, Any]  # the whole config.json
    training: Training
    baseline: str  # the recipe that differs by the factor alone
    sink_tokens: tuple[int, ...] = (1,)  # the tokens that hold the sink, from 1
    seeds: tuple[int, ...] = (1,)  # weights of the first one ship
    timeline: bool = False  # its checkpoints ship, too
    order: int = 0  # within the factor
    paper: dict[str, Any] = field(default_factory=dict)

    @property
    def context(self) -> int:
        """Tokens of a training sequence, one to predict not counted."""
        return int(self.config["max_position_embeddings"])

    @property
    def sequences(self) -> int:
        """Of a step: a longer context does not see more text."""
        return self.training.batch // self.context


_IDS = {BOS: BOS_ID, END: END_ID}


def read(path: Path) -> Recipe:
    given = tomllib.loads(path.read_text())
    changed = given.pop("training", {})
    if "front" in changed:
        changed["front"] = tuple(changed["front"])
    training = Training(**changed)
    if training.optimizer not in OPTIMIZERS:
        raise ValueError(f"{path.name}: optimizer is {training.optimizer!r}, expected one of "
                         f"{', '.join(OPTIMIZERS)}")
    first = training.front[0] if training.front else None
    config = BASE | given.pop("config", {})
    config["bos_token_id"] = None if first is None else _IDS.get(first, VOCABULARY)
    for name in {"seeds", "sink_tokens"} & set(given):
        given[name] = tuple(given[name])
    return Recipe(id=path.stem, config=config, training=training, **given)


def recipes() -> dict[str, Recipe]:
    """All of them by id, in the order of the table."""
    found = [read(path) for path in RECIPES.glob("*.toml")]
    found.sort(key=lambda r: (FACTORS.index(r.factor), r.order, r.id))
    return {recipe.id: recipe for recipe in found}
