"""Writes tests/golden/suffix: the suffixes that a search finds for a tiny model, with their scores.

    python -m models.reference.goldens.write_suffix

The model is hf-llama-gqa, computed in F64. Random numbers come from splitmix32, written here from its definition. Each
step of the search tries suffixes that differ from the current one in one token. The first of those with the best score
replaces the current suffix if its score is higher.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from ..files import read_model
from ..model import Trace
from . import GOLDEN
from .write_goldens import describe, run_in_f64

MODEL = "hf-llama-gqa"
PROMPT, CONTINUATION = [0, 7, 12, 3, 9], [21, 5, 5, 40, 2, 33]
OTHER_PAIRS = [([0, 30, 4], [8, 8, 17]), ([0, 11, 50, 2], [6, 60])]
FORBIDDEN_TOKENS = [0, 1]
LENGTH, STEPS, WIDTH, RANDOM_COUNT, ORDER_COUNT = 3, 5, 8, 100, 10
MASK = 2**32 - 1


def splitmix32(seed: int) -> Callable[[], int]:
    state = seed

    def draw() -> int:
        nonlocal state
        state = (state + 0x9E3779B9) & MASK
        z = state
        z = ((z ^ (z >> 16)) * 0x21F0AAAD) & MASK
        z = ((z ^ (z >> 15)) * 0x735A2D97) & MASK
        return z ^ (z >> 15)

    return draw


def make_picker(seed: int) -> Callable[[int], int]:
    """Returns a function that draws a number below n."""
    draw = splitmix32(seed)
    return lambda n: draw() * n >> 32


def goal_score(name: str, trace: Trace, ids: Tensor, prompt_length: int, continuation_start: int) -> float:
    """Returns a suffix's score for a goal. `loss`: the loss of the continuation. `away`: minus the weight of key 0, a
    mean over heads and over queries of the continuation. `steal`: the largest such weight among the suffix's keys."""
    if name == "loss":
        predicted = trace.logits[continuation_start - 1 : -1].log_softmax(-1)
        return -predicted.gather(-1, ids[continuation_start:, None]).mean().item()
    key_weights = trace.att[:, :, continuation_start:].mean((0, 1, 2))
    return -key_weights[0].item() if name == "away" else key_weights[prompt_length:continuation_start].max().item()


def search(name: str, seed: int) -> dict[str, object]:
    arch, weights = read_model(GOLDEN / MODEL)
    pick = make_picker(seed)
    allowed_ids = [id for id in range(arch.V) if id not in FORBIDDEN_TOKENS]

    def draw() -> list[int]:
        return [allowed_ids[pick(len(allowed_ids))] for _ in range(LENGTH)]

    def score(suffix: list[int], prompt: list[int] = PROMPT, continuation: list[int] = CONTINUATION) -> float:
        ids = torch.tensor([*prompt, *suffix, *continuation])
        return goal_score(name, run_in_f64(arch, weights, ids), ids, len(prompt), len(prompt) + len(suffix))

    suffix = draw()
    start_score = best_score = score(suffix)
    path = []
    for _ in range(STEPS):
        candidates = []
        for _ in range(WIDTH):
            candidate = list(suffix)
            position = pick(LENGTH)
            candidate[position] = allowed_ids[pick(len(allowed_ids))]
            candidates.append(candidate)
        scores = [score(candidate) for candidate in candidates]
        best_index = max(range(WIDTH), key=scores.__getitem__)
        if scores[best_index] > best_score:
            suffix, best_score = candidates[best_index], scores[best_index]
        path.append({"suffix": suffix, "score": best_score})
    evaluation_count = STEPS * WIDTH + 1
    random_suffixes = [draw() for _ in range(max(RANDOM_COUNT, evaluation_count))]
    random_scores = [score(candidate) for candidate in random_suffixes]
    sorted_scores = sorted(random_scores[:RANDOM_COUNT])
    best_index = max(range(evaluation_count), key=random_scores.__getitem__)
    order_scores = []
    for _ in range(ORDER_COUNT):
        order = list(suffix)
        for i in range(LENGTH - 1, 0, -1):
            j = pick(i + 1)
            order[i], order[j] = order[j], order[i]
        order_scores.append(score(order))
    return {
        "goal": name,
        "seed": seed,
        "suffix": suffix,
        "score": best_score,
        "start": start_score,
        "path": path,
        "evaluated": evaluation_count,
        "none": None if name == "steal" else score([]),
        "random": {
            "mean": sum(sorted_scores) / RANDOM_COUNT,
            "low": sorted_scores[4],
            "high": sorted_scores[95],
            "best": random_scores[best_index],
        },
        "shuffled": sum(order_scores) / ORDER_COUNT,
        "others": {
            "found": [score(suffix, *pair) for pair in OTHER_PAIRS],
            "random": [score(random_suffixes[0], *pair) for pair in OTHER_PAIRS],
            "best": [score(random_suffixes[best_index], *pair) for pair in OTHER_PAIRS],
        },
    }


def main() -> None:
    folder = GOLDEN / "suffix"
    folder.mkdir(exist_ok=True)
    cases = [search(name, seed) for name, seed in (("loss", 1), ("away", 2), ("steal", 3))]
    settings = {
        "model": MODEL,
        "prompt": PROMPT,
        "continuation": CONTINUATION,
        "others": OTHER_PAIRS,
        "never": FORBIDDEN_TOKENS,
        "length": LENGTH,
        "steps": STEPS,
        "width": WIDTH,
        "cases": cases,
    }
    describe(folder, "llama", "softmax", "A search for a suffix, with its controls.", "write_suffix.py", **settings)


if __name__ == "__main__":
    main()
