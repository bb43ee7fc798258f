"""Store trained weights in the zoo, measure what is stored, and write cards, index and table.

    python -m models.train.ship --runs models/.runs     take what is trained there, then
    python -m models.train.ship                         measure the zoo and write its pages

Every number of a card is measured on the weights that ship. `exact` beside it is measured on the
run they came from, before they were rounded.
"""

import argparse
import dataclasses
import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from tokenizers import AddedToken, Tokenizer, processors

from ..reference.files import read_model, to_int8, write_json, write_model, write_stored
from ..reference.model import architecture
from ..reference.operations import OPERATIONS
from . import pack
from .corpus import BOS, END, SHA256, encode
from .measure import MEANING, SEQUENCES, T, measure
from .recipe import Recipe, T as CONTEXT, recipes

MODELS = Path(__file__).resolve().parents[1]
ZOO = MODELS / "zoo"
# Those that others measure themselves against keep the precision they were published with.
IN_F16 = ("softmax", "sigmoid")
LICENCE = ("The licence of Sinkscope. Trained on books in the public domain and stories under "
           "CC BY, attributed in card.md.")


def last(recipe: Recipe, seed: int, runs: Path) -> Path:
    return runs / f"{recipe.id}-{seed}" / f"step-{recipe.training.steps:04d}.safetensors"


def store(recipe: Recipe, weights: dict[str, torch.Tensor], folder: Path) -> None:
    if recipe.id in IN_F16:
        write_model(folder, recipe.config, weights, torch.float16)
    else:
        write_stored(folder, recipe.config, to_int8(weights))


def write_tokenizer(recipe: Recipe, source: Path, folder: Path) -> None:
    """The corpus's tokenizer, with what this model wants in front and its token more, if any."""
    tokenizer, training = Tokenizer.from_file(str(source)), recipe.training
    if training.extra:
        tokenizer.add_special_tokens([AddedToken(training.extra, special=True)])
    front = [(token, tokenizer.token_to_id(token)) for token in training.front]
    if training.front != (BOS,):
        names = " ".join(training.front)
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{names} $A".strip(), pair=f"{names} $A $B".strip(), special_tokens=front)
    tokenizer.save(str(folder / "tokenizer.json"))
    first = training.front[0] if training.front else None
    write_json(folder / "tokenizer_config.json", {
        "tokenizer_class": "PreTrainedTokenizerFast", "bos_token": first, "eos_token": END,
        "model_max_length": CONTEXT, "clean_up_tokenization_spaces": False,
    })


def ids_of(recipe: Recipe, texts: list[str]) -> torch.Tensor:
    """The passages as the model is to be measured on them, [SEQUENCES, T]"""
    tokenizer = Tokenizer.from_file(str(ZOO / recipe.id / "tokenizer.json"))
    front = [tokenizer.token_to_id(token) for token in recipe.training.front]
    return encode(tokenizer, texts[:SEQUENCES], T, front)


def take(recipe: Recipe, runs: Path, texts: list[str]) -> None:
    """Copy the end of a run into the zoo, with everything needed to open it."""
    folder, seed = ZOO / recipe.id, recipe.seeds[0]
    weights = load_file(last(recipe, seed, runs))
    store(recipe, weights, folder)
    write_tokenizer(recipe, runs / "corpus" / "tokenizer.json", folder)
    shutil.copy(runs / f"{recipe.id}-{seed}" / "training.jsonl", folder / "training.jsonl")
    ids = ids_of(recipe, texts)
    write_json(folder / "exact.json", measure(architecture(recipe.config), weights, ids))
    if recipe.timeline:
        pack.pack(recipe, runs / f"{recipe.id}-{seed}", folder, ids)


def seeds(runs: Path, texts: list[str]) -> list[dict[str, Any]]:
    """The numbers of every seed of a recipe that has several, on the weights of the run."""
    rows = []
    for recipe in recipes().values():
        for seed in recipe.seeds:
            if len(recipe.seeds) > 1 and last(recipe, seed, runs).exists():
                weights = load_file(last(recipe, seed, runs))
                measured = measure(architecture(recipe.config), weights, ids_of(recipe, texts))
                rows.append({"id": recipe.id, "seed": seed, "measured": measured})
    return rows


# --- what it says ---------------------------------------------------------------------------------


def sinks(row: dict[str, Any], over: int = 1) -> list[float]:
    """Sink_1 in percent, or the sum of the first ones: as shipped, then of the further seeds."""
    return [sum(one["sink"][:over]) for one in (row["measured"], *row["further_seeds"])]


IS_SINK = 5.0  # percent from which a sink is said to be there
SAME = (0.75, 1.33)  # a ratio to the baseline between these is no difference
NOTHING = "no sink with it or without"


def effect(value: float, base: float, there: str) -> str:
    """What a factor did to the sink, against a model that differs by it alone.

    there: what it did elsewhere; where it took the sink away, it matters only whether it does here.
    """
    if there == "no sink" and value >= IS_SINK:
        return "a sink"
    if value < IS_SINK:
        return NOTHING if base < IS_SINK else "no sink"
    if base < IS_SINK:
        return "more"
    ratio = value / base
    return "less" if ratio < SAME[0] else "more" if ratio > SAME[1] else "the same"


SAYS = {"gone": "no sink", "less": "less", "more": "more"}


UNKNOWN = "cannot be shown at this size"


def compare(there: str, here: str) -> str:
    if here == there:
        return f"agrees: {here}"
    if there == "less" and here == "no sink":
        return "agrees: less there, none here"
    word = UNKNOWN if here == NOTHING else "differs"
    return f"{word}: {there} there, {here} here"


def ends(sinks: list[float]) -> str:
    both = [f"{end:.1f}" for end in (min(sinks), max(sinks))]
    return " to ".join(dict.fromkeys(both))


def verdict(recipe: Recipe, values: list[float], bases: list[float]) -> str:
    """A sentence: agrees, differs or cannot be shown, and what each says.

    values, bases: Sink_1 in percent over the seeds of the recipe and of its baseline, the shipped
    one first. What holds against one seed and not against another cannot be shown, nor that there
    is less or more of what lies between them.
    """
    paper = recipe.paper
    if not paper:
        return "no figure to compare with"
    there = (SAYS[paper["says"]] if "says" in paper
             else effect(paper["sink_1"], paper.get("base", paper["sink_1"]), ""))
    between_seeds = False
    if recipe.id == recipe.baseline or "base" not in paper and "says" not in paper:
        there, *found = ("a sink" if x >= IS_SINK else "no sink"
                         for x in (paper["sink_1"], *values))
        said = [compare(there, here) for here in found]
    else:
        said = [compare(there, effect(value, base, there)) for value in values for base in bases]
        between_seeds = (there != "no sink" and len(bases) > 1
                         and any(min(bases) <= value <= max(bases) for value in values))
    words = {sentence.split(":")[0] for sentence in said}
    if between_seeds or len(words) > 1:
        return (f"{UNKNOWN}: {there} there, {ends(values)} against {ends(bases)} % over the seeds "
                "here")
    return said[0].replace("differs", UNKNOWN) if "small" in paper else said[0]


def reported(paper: dict[str, Any]) -> str:
    if not paper:
        return ""
    figure = f"{paper['sink_1']}" if "sink_1" in paper else ""
    if "sink_bias" in paper:
        figure += f" (Sink_* {paper['sink_bias']})"
    return f"{figure} {'of ' + str(paper['base']) + ' ' if 'base' in paper else ''}"\
           f"({paper['where']})".strip()


def changes(recipe: Recipe) -> str:
    """What the recipe says besides its words, as it stands in its file."""
    text = (Path(__file__).parent / "recipes" / f"{recipe.id}.toml").read_text()
    sections = [part for part in text.split("\n[")[1:] if part.startswith(("config", "training"))]
    return "\n".join("    [" + part.strip().replace("\n", "\n    ") for part in sections)


def card(recipe: Recipe, facts: dict[str, Any]) -> str:
    measured, exact = facts["measured"], facts["exact"]
    numbers = "\n".join(f"| `{name}` | {measured[name]} | {exact[name]} | {meaning} |"
                        for name, meaning in MEANING.items() if name in measured)
    files = "\n".join(f"- `{name}`, sha256 `{digest}`" for name, digest in SHA256.items())
    front = ", ".join(f"`{token}`" for token in recipe.training.front) or "nothing"
    kind = "F16" if recipe.id in IN_F16 else "I8, a scale for each row of a matrix, vectors in F16"
    changed = changes(recipe)
    differs = "" if recipe.id == recipe.baseline else (
        f"\nIts baseline is [`{recipe.baseline}`](../{recipe.baseline}/card.md). What the recipe "
        f"lays over the softmax twin's:\n\n{changed}\n")
    against = reported(recipe.paper)
    paper = f"\nReported: {against}. **{facts['verdict']}**\n" if against else ""
    others = "".join(f"\nSeed {one['seed']}, whose weights are not shipped: Sink_1 {one['sink_1']} "
                     f"%, loss {one['loss']}.\n" for one in facts["further_seeds"])
    return f"""# {recipe.title}

{recipe.what}

- {facts["parameters"]:,} parameters, {facts["bytes"]:,} bytes, context {CONTEXT}
- attention operation: `{facts["operation"]}`, {OPERATIONS[facts["operation"]].formula}
- in front of every text: {front}
- model.safetensors: {kind}; sha256 `{facts["sha256"]}`

## Measured

Over {measured["sequences"]} held-out passages (`../heldout.json`), T = {measured["T"]}, what stands in
front included; eps = {measured["eps"]}. MEASURED on weights trained here: on the stored ones, and on
those of the run before they were rounded.

| name | stored | exact | meaning |
|---|---|---|---|
{numbers}

Sink_1 to Sink_10: {", ".join(str(s) for s in measured["sink"])}
{others}{paper}
## Made with

Seed {recipe.seeds[0]}, {recipe.training.steps} steps of 16 sequences of 128 tokens and one to predict:

    python -m models.train.train {recipe.id} --seed {recipe.seeds[0]} --corpora FOLDER
{differs}
`training.jsonl` holds one line per logged step: mean training loss since the line before, and on 20
of the held-out passages the loss, Sink_1, the largest alpha_1, norm ratios and the mean row mass.

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


def table(rows: list[dict[str, Any]]) -> str:
    head = ("| id | steps | bytes | Sink_1 % | of 100 sequences, deviation | raw % | elsewhere % "
            "| loss | alpha max | hidden ratio | value ratio | row mass | reported Sink_1 % | |\n"
            "|" + "---|" * 14)
    lines = [head]
    known = recipes()
    for row in rows:
        m, recipe = row["measured"], known[row["id"]]
        elsewhere = f"{m['sink_elsewhere']} (k = {m['elsewhere']})" if m["sink_elsewhere"] else "0"
        if "sink_bias" in m:
            elsewhere = f"**{m['sink_bias']} (\\*)**, {elsewhere}"
        lines.append(f"| [`{row['id']}`](zoo/{row['id']}/card.md) | {recipe.training.steps:,} "
                     f"| {row['bytes']:,} | **{m['sink_1']}** | {m['sink_1_deviation']} "
                     f"| {m['sink_1_raw']} | {elsewhere} | {m['loss']} | {m['alpha_max']} "
                     f"| {m['hidden_ratio']} | {m['value_ratio']} | {m['row_mass_mean']} "
                     f"| {reported(recipe.paper)} | {row['verdict']} |")
    return "\n".join(lines)


def seeds_table(rows: list[dict[str, Any]]) -> str:
    names = ("sink_1", "sink_1_raw", "loss", "alpha_max", "hidden_ratio", "value_ratio",
             "row_mass_mean")
    lines = ["| id | seed | Sink_1 % | raw % | loss | alpha max | hidden ratio | value ratio "
             "| row mass |", "|" + "---|" * 9]
    lines += [f"| `{row['id']}` | {row['seed']} | "
              + " | ".join(str(row["measured"][name]) for name in names) + " |" for row in rows]
    for id in dict.fromkeys(row["id"] for row in rows):
        sinks = torch.tensor([row["measured"]["sink_1"] for row in rows if row["id"] == id])
        lines.append(f"| `{id}` | all {len(sinks)} | {sinks.mean():.2f}, deviation "
                     f"{sinks.std():.2f} |" + " |" * 6)
    return "\n".join(lines)


def write_table(name: str, text: str) -> None:
    """Replace what stands between two markers of models/README.md."""
    readme = MODELS / "README.md"
    begin = f"<!-- {name} table: written by models/train/ship.py -->"
    end = f"<!-- end of {name} table -->"
    before, rest = readme.read_text().split(begin)
    after = rest.split(end)[1]
    readme.write_text(f"{before}{begin}\n{text}\n{end}{after}")


def facts(recipe: Recipe, texts: list[str], more: list[dict[str, Any]]) -> dict[str, Any]:
    """more: rows of seeds()."""
    folder = ZOO / recipe.id
    file = folder / "model.safetensors"
    arch, weights = read_model(folder)
    return {
        "id": recipe.id, "seed": recipe.seeds[0], "title": recipe.title, "what": recipe.what,
        "factor": recipe.factor, "baseline": recipe.baseline,
        "training": dataclasses.asdict(recipe.training),
        "parameters": sum(w.numel() for w in weights.values()),
        "bytes": file.stat().st_size,
        "sha256": hashlib.sha256(file.read_bytes()).hexdigest(),
        "operation": arch.operation, "context": CONTEXT, "timeline": recipe.timeline,
        "measured": measure(arch, weights, ids_of(recipe, texts))
        | {"bos": BOS in recipe.training.front},
        "exact": json.loads((folder / "exact.json").read_text()),
        "further_seeds": [{"seed": row["seed"]}
                          | {name: row["measured"][name] for name in ("sink_1", "sink", "loss")}
                          for row in more
                          if row["id"] == recipe.id and row["seed"] != recipe.seeds[0]],
        "paper": recipe.paper or None, "licence": LICENCE,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=Path, help="take the weights from these runs first")
    parser.add_argument("only", nargs="*", metavar="RECIPE", help="take these alone")
    arguments = parser.parse_args()
    known, runs = recipes(), arguments.runs
    if runs is not None:
        held_out = json.loads((runs / "corpus" / "heldout.json").read_text())
        (ZOO / "heldout.json").write_text(json.dumps(held_out, indent=0) + "\n")
        for recipe in known.values():
            chosen = not arguments.only or recipe.id in arguments.only
            if chosen and last(recipe, recipe.seeds[0], runs).exists():
                take(recipe, runs, held_out)
    texts = json.loads((ZOO / "heldout.json").read_text())
    if runs is not None:
        write_json(ZOO / "seeds.json", seeds(runs, texts))
    more = json.loads((ZOO / "seeds.json").read_text())
    rows = {id: facts(recipe, texts, more) for id, recipe in known.items()
            if (ZOO / id / "model.safetensors").exists()}
    for id, row in rows.items():
        recipe, base = known[id], rows.get(known[id].baseline, row)["id"]
        values = sinks(row, recipe.paper.get("over", 1))
        row["verdict"] = verdict(recipe, values, sinks(rows[base]))
        (ZOO / id / "card.md").write_text(card(known[id], row))
        print(id, row["measured"]["sink_1"], row["verdict"])
    write_json(ZOO / "index.json", list(rows.values()))
    write_table("zoo", table(list(rows.values())))
    write_table("seeds", seeds_table(more))
    missing = [id for id in known if id not in rows]
    total = sum(file.stat().st_size for file in ZOO.glob("*/model.safetensors"))
    lines = sum(file.stat().st_size for file in ZOO.glob("*/timeline/*"))
    print(f"{len(rows)} models, {total:,} bytes of weights; timelines {lines:,} bytes")
    if missing:
        print("not trained yet:", ", ".join(missing))


if __name__ == "__main__":
    main()
