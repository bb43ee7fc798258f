"""Writes tests/golden/zoo: the results of every model of the zoo, in one file.

    python -m models.reference.goldens.write_zoo

For each model of models/zoo/index.json, the file has under the model's id: `tokens` [8, 64] of held-out passages by the
model's own tokenizer, `alpha_1` [8, L, H] on rows that sum to 1, `sink` [10] (Sink_1 to Sink_10 in percent), `loss` [8]
(absent if every token sees every other), `logits` [V] of the last token of the first passage, and `alpha_bias`
[8, L, H] if the model has a bias key. All are computed in F64 from the stored weights.
"""

import json

import torch
from sinkscope import metrics
from tokenizers import Tokenizer

from ..files import read_model
from ..operations import OPERATIONS
from . import GOLDEN, ZOO
from .write_goldens import describe, run_in_f64, store

SEQUENCES, T, SINK_K = 8, 64, 10


def measure_model(id: str, texts: list[str]) -> dict[str, torch.Tensor]:
    arch, weights = read_model(ZOO / id)
    tokenizer = Tokenizer.from_file(str(ZOO / id / "tokenizer.json"))
    tokens = torch.tensor([tokenizer.encode(text).ids[:T] for text in texts])
    trace = run_in_f64(arch, weights, tokens)
    alphas = metrics.alpha(OPERATIONS[arch.operation].to_shares(trace.att), arch.mask.kind)
    tensors = {
        "tokens": tokens,
        "alpha_1": alphas[..., 0],
        "sink": metrics.sink(alphas)[:SINK_K],
        "logits": trace.logits[0, -1],
    }
    if arch.mask.kind != "bidirectional":
        # Tokens of a prefix see each other: their loss does not count.
        first = arch.mask.size - 1 if arch.mask.kind == "prefix" else 0
        tensors["loss"] = metrics.loss(trace.logits, tokens)[:, first:].mean(-1)
    if trace.att_bias is not None:
        tensors["alpha_bias"] = metrics.alpha_bias(trace.att_bias)[..., 0]
    return {f"{id}.{name}": tensor for name, tensor in tensors.items()}


def main() -> None:
    ids = [row["id"] for row in json.loads((ZOO / "index.json").read_text())]
    texts = json.loads((ZOO / "heldout.json").read_text())
    passages = texts[:: len(texts) // SEQUENCES][:SEQUENCES]
    folder = GOLDEN / "zoo"
    tensors: dict[str, torch.Tensor] = {}
    for id in ids:
        tensors |= measure_model(id, passages)
    store(folder, tensors)
    describe(
        folder,
        "zoo",
        "its own",
        "Every model of models/zoo; see models/reference/goldens/write_zoo.py.",
        "write_zoo.py",
        models=[f"models/zoo/{id}" for id in ids],
        passages=[texts.index(text) for text in passages],
        eps=metrics.EPS,
    )
    print(f"{len(ids)} models, {sum(f.stat().st_size for f in folder.iterdir())} bytes")


if __name__ == "__main__":
    main()
