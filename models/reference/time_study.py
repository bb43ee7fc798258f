"""Time a study of tests/bench/study.mjs and eager PyTorch, on one thread and on all cores.

    python -m models.reference.time_study [--node PATH] [--rounds 3]

Both read 100 sequences of 64 tokens with the softmax model of the zoo. PyTorch keeps all maps, once without metrics
and once with the mean over heads of Sink_1, the entropy of rows and the loss, one sequence at a time and all 100 at
once; a study computes the whole summary, or the same three metrics. The result is sequences per second of wall time,
the best of all rounds; the rounds alternate between the two.
"""

import re
import time

import torch
from torch.nn import functional

from .goldens.write_peers import shipped
from .timing import ROOT, begin, output_of

N, T, V = 100, 64, 1024


@torch.no_grad()
def by_torch(model: torch.nn.Module, sequences: torch.Tensor, measures: bool,
             threads: int, batch: int) -> float:
    torch.set_num_threads(threads)
    began = time.perf_counter()
    for tokens in sequences.split(batch):
        out = model(tokens, output_attentions=True)
        if measures:
            maps = torch.stack(out.attentions)  # [L, batch, H, T, T]
            (maps[..., 0].mean(-1) > 0.3).float().mean((0, 2)).tolist()
            torch.special.entr(maps).sum(-1).mean((-2, -1)).tolist()
            functional.cross_entropy(out.logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten()).item()
    return len(sequences) / (time.perf_counter() - began)


def by_study(node: str, *options: str) -> list[float]:
    lines = output_of(node, "study.mjs", *options)
    return [float(rate) for rate in re.findall(r"^\d workers?: (\d+) sequences/s", lines, re.M)]


def main() -> None:
    cores = torch.get_num_threads()
    given = begin(__doc__)
    model = shipped(ROOT / "models/zoo/softmax").eval()
    sequences = torch.randint(0, V, (N, T), generator=torch.Generator().manual_seed(1))
    rates: dict[str, list[float]] = {}
    for _ in range(given.rounds):
        for what, options in (("a study", ()), ("its three metrics", ("--three",)),
                              ("the same in relaxed floats", ("--three", "--relaxed"))):
            for workers, rate in zip(("one worker", "two"), by_study(given.node, *options)):
                rates.setdefault(f"{what}, {workers}", []).append(rate)
        for what, measures in (("maps alone", False), ("three metrics", True)):
            for threads, batch in ((1, 1), (cores, 1), (cores, N)):
                who = f"PyTorch {torch.__version__}, {what}, {threads} threads, batches of {batch}"
                rates.setdefault(who, []).append(by_torch(model, sequences, measures, threads, batch))
    for who, rounds in rates.items():
        print(f"{who}: {max(rounds):.0f} sequences/s")


if __name__ == "__main__":
    main()
