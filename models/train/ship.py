"""Store trained weights in the zoo, measure what is stored, and write cards, index and table.

    python -m models.train.ship --runs models/.runs     take the checkpoints named below, then
    python -m models.train.ship                         measure the zoo and write its pages

Every number on a card is measured on the F16 weights that ship, never on the run they came from.
"""

import argparse
import hashlib
import json
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer

from ..reference import metrics
from ..reference.files import read_model, write_json, write_model
from ..reference.model import Trace, forward
from ..reference.operations import OPERATIONS
from .corpus import BOS, END, SHA256, encode
from .twin import DECAY, STEPS, T as CONTEXT, config

MODELS = Path(__file__).resolve().parents[1]
ZOO = MODELS / "zoo"
SEQUENCES, T = 100, 64
LICENCE = ("The licence of Sinkscope. Trained on books in the public domain and stories under "
           "CC BY, attributed in card.md.")


@dataclass(frozen=True)
class Entry:
    id: str
    operation: str
    seed: int
    step: int
    title: str
    what: str


ENTRIES = (
    Entry("softmax", "softmax", 1, STEPS, "Softmax twin",
          "Every row of weights has to sum to 1. Heads that have nothing to say put their weight "
          "on the first token: the sink."),
    Entry("sigmoid", "sigmoid", 1, STEPS, "Sigmoid twin",
          "Each key is weighed on its own, s(x - ln 128), and no row has to sum to 1. The same text, "
          "order and initial weights as the softmax twin, and no sink."),
    Entry("sigmoid-before-decay", "sigmoid", 1, DECAY[0], "Sigmoid twin, before the decay",
          "The sigmoid twin before its learning rate falls. Some shares of attention look like a sink, "
          "but the rows they are shares of carry little mass: look at the row mass before you "
          "believe a share."),
    Entry("sigmoid-norm", "sigmoid_norm", 1, STEPS, "Sigmoid, made to sum to 1",
          "Sigmoid weights divided by their sum. Each row has to sum to 1 again, and the sink is "
          "back: it is the normalising that needs one, not the exponential."),
    Entry("softmax1", "softmax1", 1, STEPS, "Softmax1",
          "Softmax with 1 added to the divisor, as if every row saw one more key with score and value "
          "0. A head that has nothing to say can say nothing, and no token has to be its sink."),
    Entry("sink-logit", "sink_logit", 1, STEPS, "Learned sink logit",
          "Like softmax1, but each head learns the score of the key that is not there, as gpt-oss "
          "does."),
    Entry("elu1", "elu1", 1, STEPS, "elu + 1",
          "Each key is weighed by elu(x) + 1, and no row has to sum to 1. It starts with a weight of 1 "
          "on every key, and at this size some heads keep leaning on the first token: a sink where "
          "the paper's larger model has none."),
)
# Further seeds of the twins: measured like the others, not shipped.
SEEDS = tuple((operation, seed) for operation in ("softmax", "sigmoid") for seed in (1, 2))


def take(entry: Entry, runs: Path) -> None:
    """Copy one checkpoint of a run into the zoo, with everything needed to open it."""
    run, folder = runs / f"{entry.operation}-{entry.seed}", ZOO / entry.id
    weights = load_file(run / f"step-{entry.step:04d}.safetensors")
    write_model(folder, config(entry.operation), weights, torch.float16)
    shutil.copy(runs / "corpus" / "tokenizer.json", folder / "tokenizer.json")
    write_json(folder / "tokenizer_config.json", {
        "tokenizer_class": "PreTrainedTokenizerFast", "bos_token": BOS, "eos_token": END,
        "model_max_length": CONTEXT, "clean_up_tokenization_spaces": False,
    })
    lines = (run / "training.jsonl").read_text().splitlines()
    kept = [line for line in lines if json.loads(line)["step"] <= entry.step]
    (folder / "training.jsonl").write_text("\n".join(kept) + "\n")


def seeds(runs: Path, texts: list[str]) -> list[dict[str, Any]]:
    """The twins' numbers for every seed, each stored as F16 for a moment and measured as such."""
    rows = []
    for operation, seed in SEEDS:
        run = runs / f"{operation}-{seed}"
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            weights = load_file(run / f"step-{STEPS:04d}.safetensors")
            write_model(folder, config(operation), weights, torch.float16)
            shutil.copy(runs / "corpus" / "tokenizer.json", folder / "tokenizer.json")
            rows.append({"operation": operation, "seed": seed, "measured": measure(folder, texts)})
    return rows


def seeds_table(rows: list[dict[str, Any]]) -> str:
    names = ("sink_1", "sink_1_raw", "loss", "alpha_max", "hidden_ratio", "value_ratio",
             "row_mass_mean")
    lines = ["| operation | seed | Sink_1 % | raw % | loss | alpha max | hidden ratio | value ratio "
             "| row mass |", "|" + "---|" * 9]
    lines += [f"| `{row['operation']}` | {row['seed']} | "
              + " | ".join(str(row["measured"][name]) for name in names) + " |" for row in rows]
    return "\n".join(lines)


@torch.no_grad()
def measure(folder: Path, texts: list[str]) -> dict[str, Any]:
    """The numbers of a card: over the held-out passages, BOS and the 63 tokens after it."""
    arch, weights = read_model(folder)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    ids = encode(tokenizer, texts[:SEQUENCES], T)
    trace: Trace = forward(arch, weights, ids)
    alphas = metrics.alpha(OPERATIONS[arch.operation].share(trace.att))
    raw = metrics.alpha(trace.att)
    hidden = metrics.first_to_others(trace.hidden)[:, 1:].mean(0)  # [L], embedding left out
    value = metrics.first_to_others(trace.v).mean(0)  # [L, G]
    mass = metrics.row_mass(trace.att)

    def number(x: torch.Tensor, digits: int = 3) -> float:
        return round(x.item(), digits)

    return {
        "sink_1": number(metrics.sink(alphas)[0], 2),
        "sink_1_raw": number(metrics.sink(raw)[0], 2),
        "eps": metrics.EPS, "T": T, "sequences": len(ids), "bos": True,
        "loss": number(metrics.loss(trace.logits, ids).mean()),
        "alpha_max": number(alphas[..., 0].mean(0).max()),
        "hidden_ratio": number(hidden.max()), "hidden_ratio_min": number(hidden.min()),
        "value_ratio": number(value.mean()), "value_ratio_min": number(value.min()),
        "row_mass_mean": number(mass.mean()),
        "row_mass_min": number(mass.min(), 6), "row_mass_max": number(mass.max()),
        "near_eps": int(((alphas[..., 0] - metrics.EPS).abs() < 0.002).sum()),
    }


MEANING = {
    "sink_1": "Sink_1^0.3 in percent, on rows that sum to 1 (the proxy where the operation does "
              "not normalise)",
    "sink_1_raw": "the same on the weights as the model uses them",
    "loss": "mean loss in nats per token",
    "alpha_max": "largest alpha_1 of a head, averaged over the sequences first",
    "hidden_ratio": "norm of h_1 over the mean norm of the other h_t, at the block (1..L) where it "
                    "is largest",
    "hidden_ratio_min": "the same at the block where it is smallest",
    "value_ratio": "norm of v_1 over the mean norm of the other v_t, mean over heads",
    "value_ratio_min": "the same at the head where it is smallest",
    "row_mass_mean": "sum of a query's weights, mean over queries, heads and sequences",
    "row_mass_min": "the smallest such sum",
    "row_mass_max": "the largest such sum",
    "near_eps": "alpha_1 values (of sequences x heads) within 0.002 of eps",
}


def card(entry: Entry, facts: dict[str, Any]) -> str:
    measured = facts["measured"]
    numbers = "\n".join(f"| `{name}` | {measured[name]} | {meaning} |"
                        for name, meaning in MEANING.items())
    files = "\n".join(f"- `{name}`, sha256 `{digest}`" for name, digest in SHA256.items())
    until = "" if entry.step == STEPS else (
        f" Then take step {entry.step} of the run: the step before the learning rate starts to "
        "fall." if entry.step == DECAY[0] else f" Then take step {entry.step} of the run.")
    return f"""# {entry.title}

{entry.what}

- {facts["parameters"]:,} parameters, {facts["bytes"]:,} bytes, context {facts["context"]}
- attention operation: `{entry.operation}`, {OPERATIONS[entry.operation].formula}
- model.safetensors sha256: `{facts["sha256"]}`

## Measured

On the stored F16 weights, over {measured["sequences"]} held-out passages (`../heldout.json`),
T = {measured["T"]}: BOS and the 63 tokens after it; eps = {measured["eps"]}. MEASURED on weights
trained here.

| name | value | meaning |
|---|---|---|
{numbers}

## Made with

Seed {entry.seed}, {entry.step} steps of 16 sequences, BOS and 128 tokens each:

    python -m models.train.twin {entry.operation} --seed {entry.seed} --corpora FOLDER
{until and chr(10) + until.strip() + chr(10)}
`training.jsonl` holds one line per logged step: mean training loss since the line before, and on 20
of the held-out passages the loss, Sink_1, the largest alpha_1 and the mean row mass.

## Data

{files}

`children_lit.txt`: 71 children's books, the ChiLit corpus (birmingham-ccr/corpora), texts from
Project Gutenberg, public domain. `storybooks_ccby.txt`: 683 stories of the African Storybook
(global-asp/asp-source) and of Pratham Books' StoryWeaver (global-asp/pb-source), by their authors,
illustrators and translators, those under CC BY (Pratham Books: CC BY 4.0) or in the public domain.
Every 12th document is held out of training; `../heldout.json` comes from held-out books in the
public domain only.

## Licence

{facts["licence"]}
"""


# Sink_1 in percent of the 60M-parameter models of Gu et al. (2025), tables 6 and 15.
PAPER = {"softmax": 18.18, "sigmoid": 0.44, "sigmoid_norm": 30.24, "elu1": 0.80}
IS_SINK = 5.0  # percent from which both are said to show a sink


def verdict(operation: str, sink_1: float) -> str:
    """The paper's figure, and whether it and ours lie on the same side of IS_SINK."""
    if operation not in PAPER:
        return "not in the paper"
    same = (PAPER[operation] >= IS_SINK) == (sink_1 >= IS_SINK)
    return f"{PAPER[operation]}: {'agrees' if same else 'differs'}"


def table(rows: list[dict[str, Any]]) -> str:
    head = ("| id | operation | parameters | bytes | Sink_1 % | raw % | loss | alpha max "
            "| hidden ratio | value ratio | row mass | paper |\n|" + "---|" * 12)
    lines = [head]
    for row in rows:
        m = row["measured"]
        lines.append(f"| [`{row['id']}`](zoo/{row['id']}/card.md) | `{row['operation']}` "
                     f"| {row['parameters']:,} | {row['bytes']:,} | {m['sink_1']} "
                     f"| {m['sink_1_raw']} | {m['loss']} | {m['alpha_max']} | {m['hidden_ratio']} "
                     f"| {m['value_ratio']} | {m['row_mass_mean']} "
                     f"| {verdict(row['operation'], m['sink_1'])} |")
    return "\n".join(lines)


def write_table(name: str, text: str) -> None:
    """Replace what stands between two markers of models/README.md."""
    readme = MODELS / "README.md"
    begin = f"<!-- {name} table: written by models/train/ship.py -->"
    end = f"<!-- end of {name} table -->"
    before, rest = readme.read_text().split(begin)
    after = rest.split(end)[1]
    readme.write_text(f"{before}{begin}\n{text}\n{end}{after}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=Path, help="take the weights from these runs first")
    runs = parser.parse_args().runs
    if runs is not None:
        for entry in ENTRIES:
            take(entry, runs)
        texts = json.loads((runs / "corpus" / "heldout.json").read_text())
        (ZOO / "heldout.json").write_text(json.dumps(texts, indent=0) + "\n")
    texts = json.loads((ZOO / "heldout.json").read_text())
    rows = []
    for entry in ENTRIES:
        file = ZOO / entry.id / "model.safetensors"
        row = {
            "id": entry.id, "title": entry.title, "what": entry.what,
            "parameters": sum(w.numel() for w in load_file(file).values()),
            "bytes": file.stat().st_size,
            "sha256": hashlib.sha256(file.read_bytes()).hexdigest(),
            "operation": entry.operation, "context": CONTEXT,
            "measured": measure(ZOO / entry.id, texts), "licence": LICENCE,
        }
        (ZOO / entry.id / "card.md").write_text(card(entry, row))
        rows.append(row)
        print(row["id"], row["measured"])
    write_json(ZOO / "index.json", rows)
    write_table("zoo", table(rows))
    if runs is not None:
        write_json(ZOO / "seeds.json", seeds(runs, texts))
    write_table("seeds", seeds_table(json.loads((ZOO / "seeds.json").read_text())))


if __name__ == "__main__":
    main()
