"""Writes tests/golden/tasks: a tiny model's scores on tasks under four conditions: with every key, with the first key
evicted after the prompt, with another key evicted there, and with the first key hidden from the start.

    python -m models.reference.goldens.write_tasks

The model is hf-llama-gqa, computed in F64. Its random weights can solve no task; the golden checks the definitions of
accuracies, losses, choices and their errors.
"""

from typing import Any

import torch
from torch import Tensor

from ..edits import Edit, Model, run_edited
from ..files import read_model
from . import GOLDEN
from .write_goldens import describe
from .write_suffix import make_picker

MODEL = "hf-llama-gqa"
SEED = 4
FIRST_TOKENS, FORBIDDEN_TOKENS, LENGTH, PROMPTS = [0], [0, 1, 2], 9, 12
TEXTS = [[0, 7, 12, 3, 9], [0, 30, 4, 8, 8], [0, 11, 50, 2, 6]]
CHOICES = [3, 17, 40]


def copy_prompts(V: int) -> list[dict[str, Any]]:
    """Returns prompts of two copies of LENGTH different tokens; the second is predicted from its second token on."""
    pick = make_picker(SEED)
    allowed_ids = [id for id in range(V) if id not in {*FIRST_TOKENS, *FORBIDDEN_TOKENS}]
    prompts = []
    for _ in range(PROMPTS):
        pool = list(allowed_ids)
        tokens = []
        for i in range(LENGTH + 1):
            j = i + pick(len(pool) - i)
            pool[i], pool[j] = pool[j], pool[i]
            tokens.append(pool[i])
        copy = tokens[1:]
        prompts.append({"ids": FIRST_TOKENS + copy + copy, "from": len(FIRST_TOKENS) + LENGTH + 1})
    return prompts


def text_prompts(model: Model) -> list[dict[str, Any]]:
    """Returns each text with five more tokens, some the model's first choice, so that some predictions are right."""
    prompts = []
    for ids in TEXTS:
        for i in range(5):
            best = run_edited(model, torch.tensor(ids), [])["logits"][-1].argmax().item()
            ids = [*ids, int(best) if (i + len(prompts)) % 3 else 20 + i]
        prompts.append({"ids": ids, "from": 5})
    return prompts


def recall_prompts() -> list[dict[str, Any]]:
    """Returns prompts whose last token, one of CHOICES, appeared before. Keys are evicted after this first appearance.
    The control condition never evicts the first appearance's own key."""
    return [
        {"ids": [0, 9, 22, answer, 6, 31, 9, 22, answer], "from": 8, "choices": CHOICES, "needs": [3], "lost": 4}
        for answer in (*CHOICES, CHOICES[0])
    ]


def mean_and_error(values: Tensor) -> dict[str, float]:
    return {"mean": values.mean().item(), "error": (values.std() / len(values) ** 0.5).item()}


def score_prompt(logits: Tensor, prompt: dict[str, Any]) -> list[float]:
    ids, begin = torch.tensor(prompt["ids"]), prompt["from"]
    predictions, targets = logits[begin - 1 : -1], ids[begin:]
    accuracy = (predictions.argmax(-1) == targets).double().mean().item()
    loss = -predictions.log_softmax(-1).gather(-1, targets[:, None]).mean().item()
    choices = prompt.get("choices")
    best = choices[int(predictions[-1, choices].argmax())] if choices else -1
    return [accuracy, loss, float(best == ids[-1])]


def measure_task(model: Model, name: str, prompts: list[dict[str, Any]], chance: float) -> dict[str, Any]:
    pick = make_picker(SEED)
    rows = []
    for prompt in prompts:
        ids = torch.tensor(prompt["ids"])
        eviction_point = prompt.get("lost", prompt["from"] - 1)
        keys = [key for key in range(1, eviction_point) if key not in prompt.get("needs", [])]
        other_key = keys[pick(len(keys))]
        late_queries = range(eviction_point, len(ids))
        cases: list[list[Edit]] = [
            [],
            [{"kind": "hide_key", "key": 0, "query": query} for query in late_queries],
            [{"kind": "hide_key", "key": other_key, "query": query} for query in late_queries],
            [{"kind": "hide_key", "key": 0}],
        ]
        rows.append([score_prompt(run_edited(model, ids, edits)["logits"], prompt) for edits in cases])
    values = torch.tensor(rows, dtype=torch.float64)
    conditions = {}
    for i, condition in enumerate(("baseline", "first", "other", "unseen")):
        summaries = [
            mean_and_error(values[:, i, s]) | {"change": mean_and_error(values[:, i, s] - values[:, 0, s])}
            for s in range(3)
        ]
        conditions[condition] = {
            "accuracy": summaries[0],
            "loss": summaries[1],
            "choice": summaries[2] if "choices" in prompts[0] else None,
        }
    best = conditions["baseline"]["choice"] or conditions["baseline"]["accuracy"]
    return {
        "name": name,
        "given": prompts,
        "prompts": len(prompts),
        "predicted": sum(len(p["ids"]) - p["from"] for p in prompts),
        "chance": chance,
        "can": best["mean"] - 2 * best["error"] > chance,
    } | conditions


def main() -> None:
    arch, weights = read_model(GOLDEN / MODEL)
    model = Model("llama", arch, {name: w.double() for name, w in weights.items()}, [0] * arch.L)
    text_cases = text_prompts(model)
    targets = [id for prompt in text_cases for id in prompt["ids"][5:]]
    largest_share = max(targets.count(id) for id in targets) / len(targets)
    folder = GOLDEN / "tasks"
    folder.mkdir(exist_ok=True)
    cases = [
        measure_task(model, "next", text_cases, largest_share),
        measure_task(model, "copy", copy_prompts(arch.V), 1 / LENGTH),
        measure_task(model, "recall", recall_prompts(), 1 / len(CHOICES)),
    ]
    describe(
        folder,
        "llama",
        "softmax",
        "Tasks with every key, with the first or another evicted, and with the first hidden.",
        "write_tasks.py",
        model=MODEL,
        seed=SEED,
        first=FIRST_TOKENS,
        never=FORBIDDEN_TOKENS,
        length=LENGTH,
        tasks=cases,
    )


if __name__ == "__main__":
    main()
