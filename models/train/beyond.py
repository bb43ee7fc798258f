"""What newer papers than Gu et al. say of sinks, on the weights of the zoo: a row for each model
on held-out text, for the table "Beyond the paper" of models/README.md.

    python -m models.train.beyond                every model of the zoo
    python -m models.train.beyond softmax gated  these
"""

import argparse
import json

import torch
from sinkscope import metrics
from tokenizers import Tokenizer
from torch import Tensor

from ..reference.files import read_model
from ..reference.goldens import ZOO
from ..reference.goldens.write_goldens import f64_trace
from ..reference.goldens.write_variants import logit_parts
from ..reference.operations import OPERATIONS

SEQUENCES, T, N = 24, 64, 25
SECONDARY = 5  # times what uniform attention would give


def valley(hidden: Tensor) -> float:
    """How far the lowest matrix entropy of the inner layers lies below that of both ends.
    hidden [sequences, L+1, T, D]"""
    entropy = metrics.matrix_entropy(hidden).mean(0)
    return (entropy[[0, -1]].min() - entropy[1:-1].min()).item()


def induction(id: str) -> float:
    """Accuracy on the second copy of N different random tokens, from its second token on."""
    arch, weights = read_model(ZOO / id)
    generator = torch.Generator().manual_seed(1)
    copies = torch.stack([torch.randperm(arch.V, generator=generator)[:N] for _ in range(SEQUENCES)])
    trace = f64_trace(arch, weights, torch.cat([copies, copies], 1))
    ranks = metrics.rank(trace.logits, torch.cat([copies, copies], 1))
    return metrics.accuracy(ranks[:, N:].flatten()).item()


def row(id: str, texts: list[str]) -> str:
    arch, weights = read_model(ZOO / id)
    tokenizer = Tokenizer.from_file(str(ZOO / id / "tokenizer.json"))
    ids = torch.tensor([tokenizer.encode(text).ids[:T] for text in texts])
    trace = f64_trace(arch, weights, ids)
    share = OPERATIONS[arch.operation].share(trace.att)[..., -T:]
    alphas = metrics.alpha(share, arch.mask.kind)
    gini = metrics.head_gini(metrics.head_load(metrics.head_gate(share[..., 0])).mean(0))
    causal = torch.ones(T, T, dtype=torch.float64).tril()
    uniform = metrics.alpha(causal / torch.arange(1, T + 1)[:, None])
    # Late keys are averaged over few queries: only those of the first half are counted.
    secondary = (alphas.mean(2) > SECONDARY * uniform)[..., 1:T // 2].flatten(1).any(1).double().mean()
    accuracy = metrics.accuracy(metrics.rank(trace.logits, ids)).mean()
    written = torch.zeros(3, dtype=torch.float64)  # embedding, attention, feed-forward
    for i in range(len(ids) if arch.norm_place == "pre" else 0):
        one = type(trace)(**{name: x[i] for name, x in trace.fields().items()})
        parts = logit_parts(arch, weights, one)[..., :-1]
        for layer, head in (alphas[i, ..., 0] > metrics.EPS).nonzero().tolist():
            p = parts[layer, head].nan_to_num()
            written += torch.stack([p[0], p[1::2].sum(), p[2::2].sum()])
    return (f"| `{id}` | {metrics.sink(alphas)[0]:.1f} | "
            f"{metrics.first_to_others(trace.hidden)[:, 1:-1].mean(0).max():.2f} | "
            f"{valley(trace.hidden):.2f} | {valley(trace.hidden[:, :, 1:]):.2f} | "
            f"{written[2] / written.sum():.2f} of {written.sum() / max(len(ids), 1):.0f} | "
            f"{gini.max():.2f} | {accuracy:.3f} | {induction(id):.3f} | {secondary:.2f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0] if __doc__ else None)
    parser.add_argument("models", nargs="*", metavar="MODEL")
    known = [entry["id"] for entry in json.loads((ZOO / "index.json").read_text())]
    chosen = parser.parse_args().models or known
    if unknown := set(chosen) - set(known):
        parser.error(f"no such model: {', '.join(sorted(unknown))}")
    texts = json.loads((ZOO / "heldout.json").read_text())[:SEQUENCES]
    print("| model | Sink_1, % | ratio of norms | valley | without token 1 | "
          "feed-forward's part | Gini | "
          "accuracy | induction | secondary |\n|---|---|---|---|---|---|---|---|---|---|")
    for id in chosen:
        print(row(id, texts), flush=True)


if __name__ == "__main__":
    main()
