"""Times a study of tests/bench/study.mjs and eager PyTorch, on one thread and on all cores.

    python -m models.reference.time_study [--node PATH] [--rounds 3]

Both read 100 sequences of 64 tokens with the softmax model of the zoo. PyTorch keeps all maps, once without metrics
and once with three metrics: Sink_1, the mean entropy of rows and the loss. It runs one sequence at a time, and all 100
at once. A study computes its whole summary, or the same three metrics. The result is sequences per second of wall
time, the best of all rounds; each round runs the study and then PyTorch.
"""

import re
import time

import torch
from torch.nn import functional

from .goldens.write_peers import load_shipped_model
from .timing import ROOT, parse_arguments, run_bench

N, T, V = 100, 64, 1024


@torch.no_grad()
def measure_torch_rate(model: torch.nn.Module, sequences: torch.Tensor, with_metrics: bool,
             threads: int, batch: int) -> float:
    torch.set_num_threads(threads)
    start = time.perf_counter()
    for tokens in sequences.split(batch):
        out = model(tokens, output_attentions=True)
        if with_metrics:
            maps = torch.stack(out.attentions)
            (maps[..., 0].mean(-1) > 0.3).float().mean((0, 2)).tolist()
            torch.special.entr(maps).sum(-1).mean((-2, -1)).tolist()
            functional.cross_entropy(out.logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten()).item()
    return len(sequences) / (time.perf_counter() - start)


def measure_study_rates(node: str, *options: str) -> list[float]:
    lines = run_bench(node, "study.mjs", *options)
    return [float(rate) for rate in re.findall(r"^\d workers?: (\d+) sequences/s", lines, re.M)]


def main() -> None:
    cores = torch.get_num_threads()
    arguments = parse_arguments(__doc__)
    model = load_shipped_model(ROOT / "models/zoo/softmax").eval()
    sequences = torch.randint(0, V, (N, T), generator=torch.Generator().manual_seed(1))
    rates: dict[str, list[float]] = {}
    for _ in range(arguments.rounds):
        for label, options in (("a study", ()), ("its three metrics", ("--three",))):
            for workers, rate in zip(("one worker", "two"), measure_study_rates(arguments.node, *options)):
                rates.setdefault(f"{label}, {workers}", []).append(rate)
        for label, with_metrics in (("maps alone", False), ("three metrics", True)):
            for threads, batch in ((1, 1), (cores, 1), (cores, N)):
                name = f"PyTorch {torch.__version__}, {label}, {threads} threads, batches of {batch}"
                rates.setdefault(name, []).append(measure_torch_rate(model, sequences, with_metrics, threads, batch))
    for name, rounds in rates.items():
        print(f"{name}: {max(rounds):.0f} sequences/s")


if __name__ == "__main__":
    main()
