"""The two protocols for claims about training, which were fixed before the runs (models/README.md, "Seeds: protocol A"
and "Protocol B"). This module does not need torch.

Protocol A: the run long-ID trains the recipe ID for 16,000 steps, with the seeds listed here. Its log is
models/zoo/ID/seeds/SEED.json.

Protocol B: the run b-ID trains the recipe ID at a learning rate of 1e-3, on the schedule of protocol A, up to step
3,000. Its log is models/zoo/ID/b/SEED.json. For two recipes, runs of protocol A are such runs, and protocol B reads
their logs.
"""

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .recipe import FACTORS, Recipe, Training, combine_recipes, recipes

ZOO = Path(__file__).resolve().parents[1] / "zoo"
LONG_PREFIX = "long-"
STEPS = 16_000
FALL_STEP = Training(steps=STEPS).decay_steps[0]
# A run is measured densely while a sink may emerge, later every 800 steps.
MEASURED_STEPS = (*range(0, 4000, 200), *range(4000, STEPS + 1, 800))
HEADLINE_RECIPES = ("softmax", "sigmoid", "sigmoid-norm", "softmax1", "sink-logit", "key-bias", "gated", "elu1")
SEEDS, FEWER_SEEDS = (1, 2, 3, 4, 5), (1, 2, 3)
MIN_PAIRS = 3  # fewer pairs report no difference
MIN_STEP = 4000  # no difference is reported at earlier steps
REPLACED_BASELINES = {"short": "softmax"}  # baselines with fewer steps, and what replaces them

B_PREFIX = "b-"
B_RATE = 1e-3  # seeds differ least at this rate; recipes that change the learning rate keep theirs
B_OWN_RATES = ("muon-triple",)  # these keep their rate although it is the default of the zoo
B_STEPS = 3000
B_MEAN_STEPS = (2400, 2600, 2800, 3000)  # steps over which outcomes are averaged
# Assumed seconds per step if no run was measured: of a Zen 5 with the library of models/README.md, and of an older
# EPYC.
STEP_SECONDS = (0.13, 0.4)
B_BASELINE = LONG_PREFIX + "lr-1e-3"
B_BASELINE_SEEDS = (1, 2, 3, 4, 5, 6, 7, 8)
# The paper compares these recipes with a run without a fixed token.
B_OTHER_BASELINES = dict.fromkeys(
    ("fixed-first", "fixed-second", "fixed-third", "random-first", "fixed-word-first", "fixed-word-second"), "no-bos"
) | {"diffusion-alone": "diffusion"}
# For these recipes, runs of protocol A serve, up to step B_STEPS, as the runs of protocol B.
B_RUNS_OF_A = {"softmax": B_BASELINE, "sigmoid": LONG_PREFIX + "sigmoid-lr-1e-3"}
B_FIRST_SEEDS, B_SECOND_SEEDS = 3, (1, 2, 3, 4, 5)
B_HOURS = 40  # core hours that the runs of the third version of the rules may take


@dataclass(frozen=True)
class Row:
    question: str
    recipes: tuple[str, ...]  # in the order of training; A+B applies recipe A to recipe B, its baseline
    second_look: bool = True  # without one a recipe has at most three seeds


MAP_OPERATIONS = ("sigmoid", "key-bias", "gated", "no-bos")
MAP_DECAYS = ("decay-0-matrices", "decay-small", "decay-0.3")  # the baseline, 1.0, is the fourth
_CONTEXTS = ("context-512", "context-1024")
CONTEXT_RECIPES = (
    *_CONTEXTS,
    *(f"no-bos+{id}" for id in _CONTEXTS),
    "one-document",
    "no-bos+one-document",
    *(f"one-document+{id}" for id in _CONTEXTS),
    *(f"no-bos+one-document+{id}" for id in _CONTEXTS),
)
SIZE_RECIPES = ("small", "large")  # 0.52 and 5.05 million parameters; the baseline has 1.45
B_ROWS = (
    Row("the baseline and its sigmoid twin", ("softmax", "sigmoid")),
    Row("five claims use it", ("no-bos",)),
    Row("claims that rested on three pairs of protocol A", ("key-bias", "sink-logit", "gated", "elu1")),
    Row(
        "second looks and third seeds of the recipes that ran first",
        (
            "softmax-scaled",
            "decay-5",
            "sink-token",
            "sigmoid-norm",
            "softmax1",
            "lr-3e-4",
            "lr-3e-4-decay",
            "decay-0",
            "decay-0-matrices",
            "decay-small",
            "decay-half",
            "decay-2",
            "sigmoid-plain",
            "elu1-kernel-norm",
            "identity",
            "mlp-kernel",
            "mlp-kernel-norm",
            "softpick",
            "relu",
            "softmax-p",
            "fixed-first",
            "key-value-bias",
        ),
    ),
    Row("whether the sink moves", ("fixed-second", "fixed-third", "random-first")),
    Row("norms", ("post-norm", "qk-norm", "sandwich-norm")),
    Row("gates and biases", ("gated-head", "gated-value", "gated-by-value", "value-bias")),
    Row("the loss function", ("window-8", "window", "window-64", "prefix-2", "prefix", "prefix-10")),
    Row("the amount of text against overfitting", ("little-text", "text-300k", "text-1m", "noise")),
    Row("positions", ("no-positions", "learned-positions", "sinusoid", "alibi", "relative", "rotary-base")),
    Row(
        "architecture, and the value of a bias key",
        ("plain-ffn", "no-ffn", "heads-1", "heads-8", "key-bias-value-1", "key-bias-value-5", "key-bias-value-20"),
    ),
    Row(
        "whether weight decay makes the contrast between operations",
        ("decay-0.3", *(f"{id}+{decay}" for decay in MAP_DECAYS for id in MAP_OPERATIONS)),
        second_look=False,
    ),
    Row(
        "whether size makes the sink without a start token",
        (*SIZE_RECIPES, *(f"no-bos+{size}" for size in SIZE_RECIPES)),
        second_look=False,
    ),
    Row(
        "the claims that are left",
        (
            "little-text-noise",
            "batch-half",
            "batch-double",
            "key-bias-shared",
            "key-value-bias-shared",
            "key-bias-dimensions-1",
            "key-bias-dimensions-8",
            "heads-2",
            "embedding-decay-1",
            "experts",
            "diffusion",
            "muon",
            "sgd",
        ),
    ),
    Row("whether the place makes the sink, or the token there", ("fixed-word-first", "fixed-word-second")),
    Row(
        "whether longer sequences, or documents, bring a sink without a start token", CONTEXT_RECIPES, second_look=False
    ),
    Row(
        "mechanisms", ("alibi-half", "alibi-quarter", "diffusion-alone", "muon-third", "muon-triple"), second_look=False
    ),
)


@dataclass(frozen=True)
class FurtherRow:
    """Runs that are trained again from step 0, to a later step than B_STEPS or with a column that older logs lack."""

    question: str
    recipes: tuple[str, ...]
    seeds: tuple[int, ...]
    until: int = B_STEPS
    column: str = "alpha"


B_FURTHER = (
    # Seeds 4 and 5 of these three recipes have the column. With three seeds each was undecided.
    FurtherRow("whether the bias key itself is a sink", ("key-bias", "key-value-bias"), (1, 2, 3), column="alpha_bias"),
    FurtherRow("whether the sink token itself is one", ("sink-token",), (1, 2, 3), column="alpha_of_1"),
    FurtherRow("half the batch at equal tokens", ("batch-half",), (1, 2, 3), 5600),
    # At step 3,000 the loss of SGD is 4.1 and falls by 0.3 for each factor of e in steps; the baseline's is 3.6.
    FurtherRow("SGD up to the baseline's loss", ("sgd",), (1, 2), STEPS),
    FurtherRow("the paper's weight decay up to step 8,000", ("decay-small", "sigmoid+decay-small"), (1, 2), 8000),
    FurtherRow("more steps in place of a larger rate", ("softmax",), (1, 2, 3), 12_000),
    FurtherRow(
        "how much attention the other bias keys take",
        (
            "key-bias-shared",
            "key-value-bias-shared",
            *(f"key-bias-dimensions-{n}" for n in (1, 8)),
            *(f"key-bias-value-{n}" for n in (1, 5, 20)),
        ),
        (1, 2, 3),
        column="alpha_bias",
    ),
)
B_ORDER = tuple(id for row in B_ROWS for id in row.recipes)


def has_second_look(id: str) -> bool:
    return next(row.second_look for row in B_ROWS if id in row.recipes)


def long_recipe(recipe: Recipe) -> Recipe:
    return dataclasses.replace(
        recipe,
        id=LONG_PREFIX + recipe.id,
        timeline=False,
        training=dataclasses.replace(recipe.training, steps=STEPS),
        baseline=LONG_PREFIX + REPLACED_BASELINES.get(recipe.baseline, recipe.baseline),
        seeds=SEEDS if recipe.id in (*HEADLINE_RECIPES, "lr-1e-3") else FEWER_SEEDS,
    )


def runs() -> dict[str, Recipe]:
    """Returns every recipe of protocol A by the id of its runs, in the order of training."""
    compared_recipes = [recipe for recipe in recipes().values() if recipe.id not in REPLACED_BASELINES]
    compared_recipes.sort(
        key=lambda r: (
            HEADLINE_RECIPES.index(r.id) if r.id in HEADLINE_RECIPES else len(HEADLINE_RECIPES),
            FACTORS[r.factor],
            r.order,
            r.id,
        )
    )
    return {LONG_PREFIX + recipe.id: long_recipe(recipe) for recipe in compared_recipes}


def decisive_recipe(recipe: Recipe) -> Recipe:
    rate = recipe.training.learning_rate
    base = recipe.baseline if "+" in recipe.id else B_OTHER_BASELINES.get(recipe.id)
    return dataclasses.replace(
        recipe,
        id=B_PREFIX + recipe.id,
        timeline=False,
        seeds=B_SECOND_SEEDS,
        baseline=B_BASELINE if base is None else B_PREFIX + base,
        training=dataclasses.replace(
            recipe.training,
            steps=STEPS,
            learning_rate=B_RATE if rate == Training().learning_rate and recipe.id not in B_OWN_RATES else rate,
        ),
    )


def decisive_runs() -> dict[str, Recipe]:
    """Returns every recipe of protocol B by the id of its runs, in the order of training: the baseline is first."""
    recipes_by_id, long_runs = recipes(), runs()
    decisive_recipes = [
        dataclasses.replace(long_runs[B_RUNS_OF_A[id]], seeds=B_SECOND_SEEDS, paper=recipes_by_id[id].paper)
        if id in B_RUNS_OF_A
        else decisive_recipe(recipes_by_id[id] if id in recipes_by_id else combine_recipes(*id.split("+")))
        for id in B_ORDER
    ]
    decisive_recipes[0] = dataclasses.replace(decisive_recipes[0], seeds=B_BASELINE_SEEDS)
    return {recipe.id: recipe for recipe in decisive_recipes}


def log_file(recipe: Recipe, seed: int, zoo: Path = ZOO) -> Path:
    for prefix, folder in ((LONG_PREFIX, "seeds"), (B_PREFIX, "b")):
        if recipe.id.startswith(prefix):
            return zoo / recipe.id.removeprefix(prefix) / folder / f"{seed}.json"
    raise ValueError(f"{recipe.id} is a run of no protocol")


def missing_step(log: dict[str, Any]) -> int | None:
    """Returns the protocol's first step that is missing between the log's first and last step, or None."""
    steps = [point["step"] for point in log["points"]]
    expected = [step for step in MEASURED_STEPS if steps and step in range(steps[0], steps[-1])]
    return next((step for step in expected if step not in steps), None)


def training_options(training: Training) -> dict[str, Any]:
    """Returns the options as they are read back from JSON, for comparison with a log."""
    return json.loads(json.dumps(dataclasses.asdict(training)))


def empty_log(recipe: Recipe, seed: int) -> dict[str, Any]:
    return {
        "recipe": recipe.id,
        "baseline": recipe.baseline,
        "seed": seed,
        "training": training_options(recipe.training),
        "sink_tokens": list(recipe.sink_tokens),
        "points": [],
        "alpha_map": None,
    }


def read_log(recipe: Recipe, seed: int, zoo: Path = ZOO) -> dict[str, Any]:
    """Reads the log of a run; an empty log without a file. Raises ValueError for a log of another recipe."""
    file, expected_log = log_file(recipe, seed, zoo), empty_log(recipe, seed)
    if not file.exists():
        return expected_log
    log = json.loads(file.read_text())
    # A log that lacks an option was made with the option's default.
    log["training"] = training_options(Training()) | log["training"]
    for name in ("recipe", "baseline", "seed", "training", "sink_tokens"):
        if log[name] != expected_log[name]:
            raise ValueError(f"{file}: {name} is {log[name]}, expected {expected_log[name]}")
    return log


def write_log(log: dict[str, Any], file: Path) -> None:
    """Writes one line per point: a longer log is a small diff."""
    file.parent.mkdir(parents=True, exist_ok=True)
    points = ",\n".join("    " + json.dumps(point) for point in log["points"])
    header = {name: value for name, value in log.items() if name != "points"}
    body = "".join(f"  {json.dumps(name)}: {json.dumps(value)},\n" for name, value in header.items())
    # Writes a new file first, since another process may read the log at any time.
    new_file = file.with_suffix(".new")
    new_file.write_text("{\n" + body + '  "points": [\n' + points + "\n  ]\n}\n")
    new_file.replace(file)


def is_done(log: dict[str, Any], until: int = STEPS) -> bool:
    return bool(log["points"]) and log["points"][-1]["step"] >= min(until, log["training"]["steps"])
