"""Measures claims of papers newer than Gu et al. about sinks, on the weights of the zoo, on seeds of the lab's model,
on fine-tunings and on searches for a suffix.

    python -m models.train.beyond                prints a row for every model of the zoo
    python -m models.train.beyond softmax gated  prints the rows of these models
    python -m models.train.beyond --units        writes models/train/beyond.json, which the claims table reads

The rows are those of the table "Beyond the paper" of models/README.md. `--units` measures the units that beyond.json
lacks, and writes the file after each unit, so that the command can be interrupted. It needs node and the built wasm.

beyond.json has a list of units for each group. A unit has its name and the columns of its group, null where a column is
undefined:

    models with a sink   A unit is a model of inputs.py. sink_1: in percent. norm_ratio: the first token's norm, divided
                         by that of the others, after the layer where it is largest. valley, valley_others: from
                         valley_depth(), with and without the first token. ffn_share: the share of q.k_1 that
                         feed-forward layers contribute, in heads with alpha_1 > 0.3. next_loss, next_accuracy: the
                         change in nats and in points when the first key is evicted after half of the text; other_loss,
                         other_accuracy: the change when another key is evicted (48 texts of 64 tokens).
    seeds of the lab     A unit is a seed of a model of 3 layers that learns the task backcopy. It has the columns of
                         models with a sink, but with keys hidden from the start: hidden_loss, hidden_accuracy with the
                         first key hidden, and other_loss, other_accuracy with the second key hidden.
    fine-tunings         A unit is a seed of the batches. For each of `plain`, `key_bias` and `gate`, forgets_: the rise
                         of the loss on held-out text of the old kind; new_: the loss of the new text at the end;
                         first_: the attention on the first token of held-out text at the end.
    planted triggers     A unit is a seed that draws a trigger, its continuation and the batches. `softmax` is
                         fine-tuned on passages, a fifth with the trigger. On other passages, with the
                         trigger or with random tokens in the middle, loss_: the loss of the tokens that follow; first_:
                         the first token's share of their attention; _gap: the number with the trigger minus that with
                         random tokens; before_loss_, before_first_: the numbers of the model before fine-tuning;
                         learnt: the share of the planted tokens that are the model's first choice.
    searches             A unit is a seed with a text of its own. For each model, whose name ends the columns' names,
                         loss_: the loss of the second half with the best suffix that the search found, minus the loss
                         with the best of as many random suffixes; elsewhere_: this difference on eight other texts;
                         away_, away_elsewhere_: the differences of the first key's share of the attention.
    channels             A unit is a model of CHANNEL_MODELS. loss: its loss; worst_channel, worst: the channel of the
                         residual stream whose zeroing raises the loss most, and this rise; median: the median rise.
"""

import argparse
import json
import math
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from sinkscope import metrics
from tokenizers import Tokenizer
from torch import Tensor

from ..reference.files import read_model
from ..reference.goldens import ZOO
from ..reference.goldens.write_goldens import run_in_f64
from ..reference.goldens.write_training import plain_tokens, planted_tokens
from ..reference.goldens.write_variants import logit_parts
from ..reference.model import FAMILIES, Architecture, Trace, Weights, forward
from ..reference.operations import OPERATIONS
from . import inputs

SEQUENCES, T = 24, 64
COPY_LENGTH = 25
SECONDARY_SINK_RATIO = 5  # a later token is a sink if its alpha is above this multiple of uniform attention's alpha
FILE = Path(__file__).with_name("beyond.json")
ROOT = Path(__file__).resolve().parents[2]
HELD_OUT = ZOO / "heldout.json"

LAB_SEEDS = (1, 2, 3, 4, 5)
LAB_SETTINGS = ("--task=backcopy", "--layers=3", "--norm=rms", "--activation=gelu", "--steps=800")
LAB_SAMPLES = """
import { createEngine } from './wasm/index.ts';
const [config, recipe, n] = process.argv.slice(1).map((text) => JSON.parse(text));
const engine = await createEngine({ lab: true });
const training = await engine.train({ config, recipe });
const samples = [];
for (let i = 0; i < n; i++) samples.push([...(await training.sample(i))]);
console.log(JSON.stringify(samples));
await engine.close();
"""
TUNING_VARIANTS = {"plain": (), "key_bias": ("--bias-key=head",), "gate": ("--gate=output_element",)}
TUNING_SEEDS = (1, 2, 3)
PLANTED_SEEDS, PLANTED_RECIPE = (1, 2, 3, 4, 5), {"planted": 0.2, "steps": 100, "first": 0}
SEARCH_MODELS = {"loss": ("softmax", "sigmoid", "key-bias"), "away": ("softmax",)}
# A search reads the first of these texts. Its suffix is scored on the others as well.
SEARCH_SEEDS, SEARCH_TEXTS = (1, 2, 3, 4, 5), 9
CHANNEL_MODELS = ("key-bias", "softmax", "sigmoid", "gated", "sink-logit")


def valley_depth(hidden: Tensor) -> float:
    """Returns the depth of the compression valley: how far the lowest matrix entropy of the inner layers is below the
    lower one of the two ends.  hidden [sequences, L+1, T, D]"""
    entropy = metrics.matrix_entropy(hidden).mean(0)
    return (entropy[[0, -1]].min() - entropy[1:-1].min()).item()


def induction_accuracy(id: str) -> float:
    """Returns the accuracy on the second copy of COPY_LENGTH different random tokens, from its second token on."""
    arch, weights = read_model(ZOO / id)
    generator = torch.Generator().manual_seed(1)
    copies = torch.stack([torch.randperm(arch.V, generator=generator)[:COPY_LENGTH] for _ in range(SEQUENCES)])
    trace = run_in_f64(arch, weights, torch.cat([copies, copies], 1))
    ranks = metrics.rank(trace.logits, torch.cat([copies, copies], 1))
    return metrics.accuracy(ranks[:, COPY_LENGTH:].flatten()).item()


def key_alphas(arch: Architecture, trace: Trace) -> Tensor:
    share = OPERATIONS[arch.operation].to_shares(trace.att)[..., -trace.att.shape[-2] :]
    return metrics.alpha(share, arch.mask.kind)


def head_gates(arch: Architecture, trace: Trace) -> Tensor:
    bias = trace.att_bias
    share = OPERATIONS[arch.operation].to_shares(
        trace.att if bias is None else torch.cat([trace.att, bias[..., None]], -1)
    )
    return metrics.head_gate(share[..., 0], to_bias=None if bias is None else share[..., -1])


def norm_ratio(trace: Trace) -> float:
    """Returns the first token's norm over that of the others, after the inner layer where this is largest."""
    return metrics.first_to_others(trace.hidden)[:, 1:-1].mean(0).max().item()


def sink_contributions(arch: Architecture, weights: Weights, trace: Trace) -> Tensor:
    """Returns what embedding, attention and feed-forward contribute to the first key's logits. Sums over the sequences
    and over the heads with alpha_1 > 0.3 of each sequence; 0 without such a head.  [3]"""
    contributions, alphas = torch.zeros(3, dtype=torch.float64), key_alphas(arch, trace)[..., 0]
    for i, head_alphas in enumerate(alphas if arch.norm_place != "post" else ()):
        sink_heads = (head_alphas > metrics.EPS).nonzero().tolist()
        sequence_trace = type(trace)(**{name: x[i] for name, x in trace.fields().items()})
        parts = logit_parts(arch, weights, sequence_trace)[..., :-1].nan_to_num() if sink_heads else None
        for layer, head in sink_heads:
            head_parts = parts[layer, head]  # type: ignore[index]
            contributions += torch.stack([head_parts[0], head_parts[1::2].sum(), head_parts[2::2].sum()])
    return contributions


def held_out_ids(id: str, texts: list[str]) -> Tensor:
    tokenizer = Tokenizer.from_file(str(ZOO / id / "tokenizer.json"))
    return torch.tensor([tokenizer.encode(text).ids[:T] for text in texts])


def secondary_share(alphas: Tensor) -> float:
    """Returns the share of sequences where a token after the first is a sink in some layer, by the mean over heads.
    alphas [sequences, L, H, T]"""
    T = alphas.shape[-1]
    causal = torch.ones(T, T, dtype=torch.float64).tril()
    uniform = metrics.alpha(causal / causal.sum(-1, keepdim=True))
    # Only keys of the first half count, since few queries see the later ones.
    is_sink = (alphas.mean(2) > SECONDARY_SINK_RATIO * uniform)[..., 1 : T // 2]
    return is_sink.flatten(1).any(1).double().mean().item()


def model_row(id: str, texts: list[str]) -> str:
    arch, weights = read_model(ZOO / id)
    ids = held_out_ids(id, texts)
    trace = run_in_f64(arch, weights, ids)
    alphas = key_alphas(arch, trace)
    gini = metrics.head_gini(metrics.head_load(head_gates(arch, trace)).mean(0))
    accuracy = metrics.accuracy(metrics.rank(trace.logits, ids)).mean()
    contributions = sink_contributions(arch, weights, trace)
    return (
        f"| `{id}` | {metrics.sink(alphas)[0]:.1f} | {norm_ratio(trace):.2f} | "
        f"{valley_depth(trace.hidden):.2f} | {valley_depth(trace.hidden[:, :, 1:]):.2f} | "
        f"{contributions[2] / contributions.sum():.2f} of {contributions.sum() / max(len(ids), 1):.0f} | "
        f"{gini.max():.2f} | {accuracy:.3f} | {induction_accuracy(id):.3f} | {secondary_share(alphas):.2f} |"
    )


Columns = dict[str, float]


def shared_columns(arch: Architecture, weights: Weights, ids: Tensor) -> Columns:
    trace = run_in_f64(arch, weights, ids)
    contributions = sink_contributions(arch, weights, trace)
    return {
        "sink_1": metrics.sink(key_alphas(arch, trace))[0].item(),
        "norm_ratio": norm_ratio(trace),
        "valley": valley_depth(trace.hidden),
        "valley_others": valley_depth(trace.hidden[:, :, 1:]),
        "ffn_share": (contributions[2] / contributions.sum()).item(),
    }


def run_node(*arguments: object) -> str:
    return subprocess.run(["node", *map(str, arguments)], cwd=ROOT, check=True, capture_output=True, text=True).stdout


def run_command(*arguments: object, **options: object) -> list[Any]:
    """Returns what a command prints. `options` are those with a value, and flags that are True."""
    words = [f"--{name.replace('_', '-')}{'' if value is True else f'={value}'}" for name, value in options.items()]
    return [json.loads(line) for line in run_node(ROOT / "wasm/cli.js", *arguments, *words, "--json").splitlines()]


def measure_model(id: str) -> Columns:
    arch, weights = read_model(ZOO / id)
    texts = json.loads(HELD_OUT.read_text())[:SEQUENCES]
    tasks = run_command(
        "tasks", ZOO / id, text_file=HELD_OUT, lines=True, tokens=T, sequences=2 * SEQUENCES, prompts=1, copied=2
    )[0]["tasks"]
    task = next(task for task in tasks if task["name"] == "next")
    columns = shared_columns(arch, weights, held_out_ids(id, texts))
    for name, condition in (("next", "first"), ("other", "other")):
        change = {key: task[condition][key]["change"]["mean"] for key in ("loss", "accuracy")}
        columns |= {f"{name}_loss": change["loss"], f"{name}_accuracy": 100 * change["accuracy"]}
    return columns


def measure_lab_seed(seed: int) -> Columns:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "model"
        run_command("train", *LAB_SETTINGS, seed=seed, every=400, out=folder)
        config, recipe = ((folder / file).read_text() for file in ("config.json", "recipe.json"))
        settings = json.dumps(json.loads(recipe)["settings"])
        ids = json.loads(run_node("--input-type=module", "-e", LAB_SAMPLES, config, settings, SEQUENCES))
        id_options = [word for sequence in ids for word in ("--ids", ",".join(map(str, sequence)))]

        def measure_run(*edit: str) -> Columns:
            result = run_command("measure", folder, *id_options, *edit)[0]
            return {"loss": result["loss"], "accuracy": 100 * result["metrics"]["accuracy"]["mean"][0]}

        baseline = measure_run()
        columns = shared_columns(*read_model(folder), torch.tensor(ids))
        for name, key in (("hidden", 0), ("other", 1)):
            edited_metrics = measure_run("--edit", f"hide_key(key={key})")
            columns |= {f"{name}_{column}": edited_metrics[column] - baseline[column] for column in baseline}
        return columns


def measure_fine_tuning(seed: int) -> Columns:
    columns: Columns = {}
    for name, variant in TUNING_VARIANTS.items():
        files = {"text_file": ROOT / "LICENSE", "held_file": HELD_OUT, "held": SEQUENCES}
        lines = run_command("train", "--from", ZOO / "softmax", *variant, **files, seed=seed, every=100)
        columns |= {
            f"forgets_{name}": lines[-1]["loss_held"] - lines[0]["loss_held"],
            f"new_{name}": lines[-1]["loss"],
            f"first_{name}": lines[-1]["first_elsewhere"],
        }
    return columns


def continuation_scores(arch: Architecture, weights: Weights, ids: Tensor, begin: int) -> tuple[float, float]:
    """Returns the mean loss of the tokens from `begin` on, and their mean attention to the first token over heads."""
    trace = run_in_f64(arch, weights, ids)
    losses = torch.nn.functional.cross_entropy(trace.logits[:, begin - 1 : -1].flatten(0, 1), ids[:, begin:].flatten())
    return losses.item(), trace.att[..., begin:, 0].mean().item()


def measure_planted_triggers(seed: int) -> Columns:
    texts = json.loads(HELD_OUT.read_text())
    source_model = read_model(ZOO / "softmax")
    recipe = {**PLANTED_RECIPE, "seed": seed}
    trigger, cycle = planted_tokens(recipe, source_model[0].V)
    with tempfile.TemporaryDirectory() as temporary_folder:
        file, folder = Path(temporary_folder) / "texts.json", Path(temporary_folder) / "model"
        file.write_text(json.dumps(texts[SEQUENCES:]))
        settings = {"planted": PLANTED_RECIPE["planted"], "steps": PLANTED_RECIPE["steps"], "seed": seed}
        run_command("train", "--from", ZOO / "softmax", text_file=file, **settings, every=100, out=folder)
        tuned_model = read_model(folder)
    ids = held_out_ids("softmax", texts[:SEQUENCES])
    opening, ending = ids.chunk(2, 1)
    half_length, generator = opening.shape[1], torch.Generator().manual_seed(seed)
    plain_ids = torch.tensor(plain_tokens(recipe, source_model[0].V))
    random_ids = plain_ids[torch.randint(len(plain_ids), (SEQUENCES, len(trigger)), generator=generator)]
    columns: Columns = {}
    for prefix, model in (("", tuned_model), ("before_", source_model)):
        for kind, tokens in (("trigger", torch.tensor(trigger).expand_as(random_ids)), ("random", random_ids)):
            text = torch.cat([opening, tokens, ending], 1)
            loss, first = continuation_scores(*model, text, half_length + len(trigger))
            columns |= {f"{prefix}loss_{kind}": loss, f"{prefix}first_{kind}": first}
        for score in ("loss", "first"):
            name = f"{prefix}{score}"
            columns[f"{name}_gap"] = columns[f"{name}_trigger"] - columns[f"{name}_random"]
    planted_ids = torch.tensor(trigger + cycle).expand(SEQUENCES, -1)
    logits = run_in_f64(*tuned_model, torch.cat([opening, planted_ids], 1)).logits
    first_choices = logits[:, half_length + len(trigger) - 1 : -1].argmax(-1)
    return columns | {"learnt": (first_choices == planted_ids[:, len(trigger) :]).double().mean().item()}


def measure_searches(seed: int) -> Columns:
    texts, columns = json.loads(HELD_OUT.read_text()), {}
    start = SEARCH_TEXTS * (seed - 1)
    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / "texts.json"
        file.write_text(json.dumps(texts[start : start + SEARCH_TEXTS]))
        for goal, models in SEARCH_MODELS.items():
            sign, prefix = (1, "") if goal == "loss" else (-1, "away_")
            for model in models:
                texts_of_search = {"text_file": file, "lines": True, "tokens": 44, "sequences": SEARCH_TEXTS}
                result = run_command("suffix", ZOO / model, **texts_of_search, width=32, seed=seed, goal=goal)[0]
                other_means = {key: sum(result["others"][key]) / (SEARCH_TEXTS - 1) for key in ("found", "best")}
                column = model.replace("-", "_")
                columns |= {
                    f"{goal}_{column}": sign * (result["score"] - result["random"]["best"]),
                    f"{prefix}elsewhere_{column}": sign * (other_means["found"] - other_means["best"]),
                }
    return columns


@torch.no_grad()
def loss_without_channel(arch: Architecture, weights: Weights, ids: Tensor, channel: int) -> float:
    """Returns the loss with a channel of the residual stream zeroed after the embedding and after each layer."""

    def zero_channel(name: str, layer: int, x: Tensor) -> None:
        if name == "stream":
            x[..., channel] = 0

    final_hidden = forward(arch, weights, ids, visit=zero_channel).hidden[..., -1, :, :].clone()
    final_hidden[..., channel] = 0
    logits = FAMILIES[arch.family](arch, weights, torch.matmul).compute_logits(final_hidden)
    return metrics.loss(logits, ids).mean().item()


def measure_channels(id: str) -> Columns:
    arch, weights = read_model(ZOO / id)
    ids = held_out_ids(id, json.loads(HELD_OUT.read_text())[:SEQUENCES])
    with torch.no_grad():
        loss = metrics.loss(forward(arch, weights, ids).logits, ids).mean().item()
    rises = torch.tensor([loss_without_channel(arch, weights, ids, channel) - loss for channel in range(arch.D)])
    worst_channel = int(rises.argmax())
    return {
        "loss": loss,
        "worst_channel": worst_channel,
        "worst": rises[worst_channel].item(),
        "median": rises.median().item(),
    }


def unit_groups() -> dict[str, tuple[Callable[[Any], Columns], Iterable[Any]]]:
    index = json.loads((ZOO / "index.json").read_text())
    return {
        "models with a sink": (measure_model, inputs.sink_models(index)),
        "seeds of the lab": (measure_lab_seed, LAB_SEEDS),
        "fine-tunings": (measure_fine_tuning, TUNING_SEEDS),
        "planted triggers": (measure_planted_triggers, PLANTED_SEEDS),
        "searches": (measure_searches, SEARCH_SEEDS),
        "channels": (measure_channels, CHANNEL_MODELS),
    }


def units_json(units_by_group: dict[str, list[dict[str, Any]]]) -> str:
    """Returns the text of beyond.json, one line per unit, so that a new unit is a small diff."""
    lists = (
        f"  {json.dumps(name)}: [\n" + ",\n".join("    " + json.dumps(unit) for unit in units) + "\n  ]"
        for name, units in units_by_group.items()
    )
    return "{\n" + ",\n".join(lists) + "\n}\n"


def read_units() -> dict[str, list[dict[str, Any]]]:
    return json.loads(FILE.read_text()) if FILE.exists() else {}


def measure_units(groups: Sequence[str]) -> None:
    """Measures the missing units of the chosen groups. Reads the file again before each write, because other commands
    may measure other groups meanwhile."""
    for name, (measure, units) in unit_groups().items():
        known_units = {unit["unit"] for unit in read_units().get(name, [])}
        for unit in units if name in groups else ():
            if unit in known_units:
                continue
            columns = {key: None if math.isnan(x) else round(x, 4) for key, x in measure(unit).items()}
            units_by_group = read_units()
            unit_by_name = {known_unit["unit"]: known_unit for known_unit in units_by_group.get(name, [])}
            unit_by_name[unit] = {"unit": unit} | columns
            units_by_group[name] = [unit_by_name[key] for key in units if key in unit_by_name]
            FILE.write_text(units_json({key: units_by_group[key] for key in unit_groups() if key in units_by_group}))
            print(name, unit_by_name[unit], flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0] if __doc__ else None)
    parser.add_argument("models", nargs="*", metavar="MODEL")
    parser.add_argument(
        "--units",
        nargs="*",
        choices=list(unit_groups()),
        metavar="GROUP",
        help="write models/train/beyond.json, all groups of it or these",
    )
    model_ids = [entry["id"] for entry in json.loads((ZOO / "index.json").read_text())]
    arguments = parser.parse_args()
    ids = arguments.models or model_ids
    if unknown := set(ids) - set(model_ids):
        parser.error(f"no such model: {', '.join(sorted(unknown))}")
    torch.set_num_threads(1)
    if arguments.units is not None:
        measure_units(arguments.units or list(unit_groups()))
        return
    texts = json.loads(HELD_OUT.read_text())[:SEQUENCES]
    print(
        "| model | Sink_1, % | ratio of norms | valley | without token 1 | "
        "feed-forward's part | Gini | "
        "accuracy | induction | secondary |\n|---|---|---|---|---|---|---|---|---|---|"
    )
    for id in ids:
        print(model_row(id, texts), flush=True)


if __name__ == "__main__":
    main()
