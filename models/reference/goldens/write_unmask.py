"""Writes tests/golden/unmask: how a tiny masked-diffusion model fills masked positions step by step, with every key,
without the strongest key of each step, and without a random key; and how a causal model predicts the same positions,
each from the text before it.

    python -m models.reference.goldens.write_unmask

The models are var-bidirectional and hf-llama-gqa, computed in F64; their weights are random. Random numbers come from
splitmix32, as in write_suffix and write_tasks.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
from sinkscope import metrics
from torch import Tensor

from ..edits import Edit, Model, run_edited
from ..files import read_model
from ..model import Architecture, Mask, Weights, forward
from . import GOLDEN
from .write_goldens import describe
from .write_suffix import make_picker, splitmix32
from .write_tasks import mean_and_error

MODEL, CAUSAL_MODEL = "var-bidirectional", "hf-llama-gqa"
SEED, STEPS, MASKED_SHARE, MASK_TOKEN, FORBIDDEN_TOKENS = 6, 3, 0.6, 1, [0]
TEXTS = [[0, 7, 12, 3, 9, 5, 5, 18, 2], [0, 13, 4, 8, 8, 17, 6, 2, 10], [0, 11, 2, 6, 19, 4, 14, 3, 3]]


@dataclass(frozen=True)
class MaskWithoutKey(Mask):
    kind: str = "bidirectional"
    key: int = 0

    def visible(self, T: int, device: torch.device) -> Tensor:
        return (torch.arange(T, device=device) != self.key).expand(T, T)


def measure_tokens(arch: Architecture, weights: Weights, ids: list[int], mask: Mask) -> tuple[Tensor, Tensor]:
    trace = forward(replace(arch, mask=mask), weights, torch.tensor(ids))
    logits = trace.logits.clone()
    logits[:, [MASK_TOKEN, *FORBIDDEN_TOKENS]] = -math.inf
    return metrics.alpha(trace.att, "bidirectional").mean((0, 1)), logits.log_softmax(-1)


def unmask(
    arch: Architecture, weights: Weights, answers: list[int], masked_places: list[int], condition: str | None, seed: int
) -> list[dict[str, Any]]:
    """Fills the masked positions of a text step by step, and returns the steps. `condition` names the key that each
    step leaves out: "strongest", "random", or None for no key."""
    ids = [MASK_TOKEN if place in masked_places else id for place, id in enumerate(answers)]
    pick, steps = make_picker(seed), []
    for remaining in range(STEPS, 0, -1):
        alpha, log_probs = measure_tokens(arch, weights, ids, arch.mask)
        sink, key = int(alpha.argmax()), None
        if condition:
            index = pick(len(ids) - 1) if condition == "random" else 0
            key = sink if condition == "strongest" else index + (index >= sink)
            log_probs = measure_tokens(arch, weights, ids, MaskWithoutKey(key=key))[1]
        places = [place for place, id in enumerate(ids) if id == MASK_TOKEN]
        places.sort(key=lambda place: -log_probs[place].max().item())
        filled = []
        for place in places[: math.ceil(len(places) / remaining)]:
            ids[place] = answers[place]
            filled.append(
                {
                    "place": place,
                    "token": answers[place],
                    "probability": log_probs[place].max().exp().item(),
                    "guess": int(log_probs[place].argmax()),
                    "loss": -log_probs[place, answers[place]].item(),
                }
            )
        steps.append(
            {
                "tokens": list(ids),
                "filled": filled,
                "without": key,
                "sink": {"place": sink, "alpha": alpha[sink].item()},
            }
        )
    return steps


def predict(
    model: Model, answers: list[int], masked_places: list[int], condition: str | None, seed: int
) -> list[dict[str, Any]]:
    """Returns the causal model's predictions at masked positions; its strongest key has the most of all attention."""
    trace = run_edited(model, torch.tensor(answers), [])
    alpha = trace["att"].mean((0, 1, 2))
    sink, edits = int(alpha.argmax()), list[Edit]()
    if condition:
        index = make_picker(seed)(len(answers) - 1)
        key = sink if condition == "strongest" else index + (index >= sink)
        edits = [{"kind": "hide_key", "key": key}]
    logits = run_edited(model, torch.tensor(answers), edits)["logits"].clone()
    logits[:, FORBIDDEN_TOKENS] = -math.inf
    log_probs = logits.log_softmax(-1)
    filled = [
        {
            "token": answers[place],
            "guess": int(log_probs[place - 1].argmax()),
            "loss": -log_probs[place - 1, answers[place]].item(),
        }
        for place in masked_places
    ]
    return [{"filled": filled, "sink": {"place": sink, "alpha": alpha[sink].item()}}]


def mean_scores(values: Tensor) -> dict[str, Any]:
    """Returns means and errors: of loss and accuracy in each condition, of their changes from the baseline, and of the
    baseline's alpha.  values [texts, conditions, scores]"""
    summary: dict[str, Any] = {}
    for i, name in enumerate(("baseline", "strongest", "random")):
        condition_values = values[:, i]
        summary[name] = {
            score: mean_and_error(condition_values[:, s])
            | {"change": mean_and_error(condition_values[:, s] - values[:, 0, s])}
            for s, score in enumerate(("loss", "accuracy"))
        }
    return summary | {"alpha": mean_and_error(values[:, 0, 2])}


def score_steps(steps: list[dict[str, Any]]) -> list[float]:
    """Returns the mean loss, the accuracy, the mean alpha of the strongest keys, and the share of steps with another
    strongest key than the step before."""
    filled = [token for step in steps for token in step["filled"]]
    sinks = [step["sink"] for step in steps]
    moves = [a["place"] != b["place"] for a, b in zip(sinks, sinks[1:])]
    return [
        sum(token["loss"] for token in filled) / len(filled),
        sum(token["guess"] == token["token"] for token in filled) / len(filled),
        sum(sink["alpha"] for sink in sinks) / len(sinks),
        sum(moves) / max(1, len(moves)),
    ]


def main() -> None:
    arch, stored_weights = read_model(GOLDEN / MODEL)
    weights = {name: w.double() for name, w in stored_weights.items()}
    causal_arch, stored_weights = read_model(GOLDEN / CAUSAL_MODEL)
    causal_weights = {name: w.double() for name, w in stored_weights.items()}
    causal_model = Model("llama", causal_arch, causal_weights, [0] * causal_arch.L)
    draw = splitmix32(SEED)
    courses: list[dict[str, Any]] = []
    rows: list[list[list[float]]] = []
    causal_rows: list[list[list[float]]] = []
    for answers in TEXTS:
        # The same random numbers draw the masked positions of each text, then the seed of its random keys.
        places = list(range(1, len(answers)))
        count = round(MASKED_SHARE * len(places))
        for i in range(count):
            j = i + (draw() * (len(places) - i) >> 32)
            places[i], places[j] = places[j], places[i]
        masked_places, seed = sorted(places[:count]), draw()
        conditions = (None, "strongest", "random")
        course = {name or "baseline": unmask(arch, weights, answers, masked_places, name, seed) for name in conditions}
        courses.append({"answers": answers, "hidden": masked_places, "seed": seed} | course)
        rows.append([score_steps(steps) for steps in course.values()])
        causal_rows.append(
            [score_steps(predict(causal_model, answers, masked_places, name, seed)) for name in conditions]
        )
    values = torch.tensor(rows, dtype=torch.float64)
    study = {
        "prompts": len(TEXTS),
        "steps": STEPS,
        "predicted": sum(len(course["hidden"]) for course in courses),
        "moves": mean_and_error(values[:, 0, 3]),
        **mean_scores(values),
        "causal": mean_scores(torch.tensor(causal_rows, dtype=torch.float64)),
    }
    folder = GOLDEN / "unmask"
    folder.mkdir(exist_ok=True)
    describe(
        folder,
        "llama",
        "softmax",
        "Hidden places, uncovered step by step.",
        "write_unmask.py",
        model=MODEL,
        causal=CAUSAL_MODEL,
        seed=SEED,
        steps=STEPS,
        masked=MASKED_SHARE,
        never=FORBIDDEN_TOKENS,
        courses=courses,
        study=study,
    )


if __name__ == "__main__":
    main()
