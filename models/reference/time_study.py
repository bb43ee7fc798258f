"""Time a study of tests/bench/study.mjs beside PyTorch: eager, one thread, one sequence at a time.

    python -m models.reference.time_study [--node PATH] [--rounds 3]

Both read 100 sequences of 64 tokens with the softmax model of the zoo. PyTorch keeps all maps, once
alone and once with the mean over heads of Sink_1, the entropy of rows and the loss; a study prints the
whole summary. Sequences a second of wall time: the best of all rounds, which alternate.
"""

import re
import time

import torch
from torch.nn import functional

from .goldens.write_peers import shipped
from .timing import ROOT, begin, output_of

N, T, V = 100, 64, 1024


@torch.no_grad()
def by_torch(model: torch.nn.Module, sequences: torch.Tensor, measures: bool) -> float:
    began = time.perf_counter()
    for tokens in sequences:
        out = model(tokens[None], output_attentions=True)
        if measures:
            maps = torch.cat(out.attentions)  # [L, H, T, T]
            (maps[..., 0].mean(-1) > 0.3).float().mean().item()
            torch.special.entr(maps).sum(-1).mean((-2, -1)).tolist()
            functional.cross_entropy(out.logits[0, :-1], tokens[1:]).item()
    return len(sequences) / (time.perf_counter() - began)


def by_study(node: str, *options: str) -> float:
    lines = output_of(node, "study.mjs", *options)
    return float(re.search(r"^1 worker: (\d+) sequences/s", lines, re.M)[1])


def main() -> None:
    given = begin(__doc__)
    model = shipped(ROOT / "models/zoo/softmax").eval()
    sequences = torch.randint(0, V, (N, T), generator=torch.Generator().manual_seed(1))
    rates: dict[str, list[float]] = {}
    for _ in range(given.rounds):
        rates.setdefault("a study, one worker", []).append(by_study(given.node))
        rates.setdefault("the same in relaxed floats", []).append(by_study(given.node, "--relaxed"))
        for what, measures in (("maps alone", False), ("three metrics", True)):
            rates.setdefault(f"PyTorch {torch.__version__}, {what}", []).append(
                by_torch(model, sequences, measures))
    for who, rounds in rates.items():
        print(f"{who}: {max(rounds):.0f} sequences/s")


if __name__ == "__main__":
    main()
