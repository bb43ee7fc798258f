"""Writes the cards of the zoo and the tables of models/README.md, from the measurements of index.json and the logs.

    python -m models.train.pages

`ship` writes them as well, after measuring. This command needs neither torch nor the weights.
"""

import json
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from . import claims, decide, factors, protocol
from .recipe import RECIPES, Recipe, recipes
from .text import SHA256

# Models stored in F16 instead of I8, so that others can compare with the published weights.
F16_MODELS = ("softmax", "sigmoid")
LICENSE = (
    "Apache-2.0, as Sinkscope itself. Trained on books in the public domain and stories under "
    "CC BY, attributed in card.md."
)

MEANINGS = {
    "sink_1": "Sink_1^0.3 in percent, on rows that sum to 1 (the proxy where the operation does not normalize)",
    "sink_1_deviation": "its standard deviation between sequences",
    "sink_1_raw": "Sink_1 on the weights as the model uses them",
    "sink_elsewhere": "largest Sink_k, k = 2..10, in percent",
    "elsewhere": "the k of that token",
    "sink_bias": "Sink_* of the bias key in percent",
    "loss": "mean loss in nats per token; of a diffusion model its bound",
    "alpha_max": "largest alpha_1 of a head, averaged over the sequences first",
    "hidden_ratio": "norm of h_1 over the mean norm of the other h_t, at the block (1..L) where it is largest",
    "hidden_ratio_min": "the same at the block where it is smallest",
    "value_ratio": "norm of v_1 over the mean norm of the other v_t, mean over heads",
    "value_ratio_min": "the same at the head where it is smallest",
    "row_mass_mean": "sum of a query's weights over tokens, mean over queries, heads and sequences",
    "row_mass_min": "the smallest such sum",
    "row_mass_max": "the largest such sum",
    "gate_mean": "mean of the gate over heads, tokens and sequences",
    "near_eps": "alpha_1 values (of sequences x heads) within 0.002 of eps",
}


def describe_paper(paper: dict[str, Any]) -> str:
    if not paper:
        return ""
    figure = f"{paper['sink_1']}" if "sink_1" in paper else ""
    if "sink_bias" in paper:
        figure += f" (Sink_* {paper['sink_bias']})"
    return f"{figure} {'of ' + str(paper['base']) + ' ' if 'base' in paper else ''}({paper['where']})".strip()


def changed_sections(recipe: Recipe) -> str:
    text = (RECIPES / f"{recipe.id}.toml").read_text()
    sections = [part for part in text.split("\n[")[1:] if part.startswith(("config", "training"))]
    return "\n".join("    [" + part.strip().replace("\n", "\n    ") for part in sections)


def reader_note(recipe: Recipe) -> str:
    """Says what transformers does with the model."""
    if "sinkscope" in recipe.config:
        return "does not know the key `sinkscope` of config.json and would compute a plain model"
    if recipe.id in F16_MODELS:
        return "opens it"
    if "num_local_experts" in recipe.config:
        return "stops at experts that are stored as I8"
    return "opens it where compressed-tensors is installed, too"


def baseline_note(recipe: Recipe) -> str:
    if recipe.id == recipe.baseline:
        return ""
    return (
        f"\nIts baseline is [`{recipe.baseline}`](../{recipe.baseline}/card.md). What the recipe "
        f"lays over the softmax twin's:\n\n{changed_sections(recipe)}\n"
    )


def make_card(recipe: Recipe, facts: dict[str, Any]) -> str:
    stored_metrics, exact_metrics = facts["measured"], facts["exact"]
    numbers = "\n".join(
        f"| `{name}` | {stored_metrics[name]} | {exact_metrics.get(name, 'not kept')} | {meaning} |"
        for name, meaning in MEANINGS.items()
        if name in stored_metrics
    )
    files = "\n".join(f"- `{name}`, sha256 `{digest}`" for name, digest in SHA256.items())
    front_tokens = ", ".join(f"`{token}`" for token in recipe.training.front) or "nothing"
    kind = "F16" if recipe.id in F16_MODELS else "I8, a scale for each row of a matrix, vectors in F16"
    reported = describe_paper(recipe.paper)
    paper = f"\nReported: {reported}.\n" if reported else ""
    difference = facts["differs"]
    report = (
        ""
        if difference is None
        else (
            f"\nOver {difference['seeds']} other runs (protocol B), whose weights are not shipped, mean alpha_1 above "
            f"uniform attention minus that of the softmax twin: **{factors.Difference(*difference['alpha'])}**\n"
        )
    )
    further_text = "".join(
        f"\nSeed {seed_row['seed']}, whose weights are not shipped: Sink_1 {seed_row['sink_1']} "
        f"%, loss {seed_row['loss']}.\n"
        for seed_row in facts["further_seeds"]
    )
    batch = f"{recipe.sequences} sequences of {recipe.context} tokens"
    return f"""# {recipe.title}

{recipe.what}

- {facts["parameters"]:,} parameters, {facts["bytes"]:,} bytes, context {recipe.context}
- attention operation: `{facts["operation"]}`, {facts["formula"]}
- in front of every text: {front_tokens}
- model.safetensors: {kind}; sha256 `{facts["sha256"]}`
- transformers {reader_note(recipe)}

## Measured

Over {stored_metrics["sequences"]} held-out passages (`../heldout.json`), T = {stored_metrics["T"]}, the
tokens before a text included; eps = {stored_metrics["eps"]}. MEASURED on weights trained here: the
stored ones, and those of the run before they were rounded.

| name | stored | exact | meaning |
|---|---|---|---|
{numbers}

Sink_1 to Sink_10: {", ".join(str(s) for s in stored_metrics["sink"])}
{further_text}{describe_packed(facts)}{paper}{report}
## Made with

Seed {recipe.seeds[0]}, {recipe.training.steps} steps of {batch} and one to predict:

    python -m models.train.train {recipe.id} --seed {recipe.seeds[0]} --corpora FOLDER
{baseline_note(recipe)}
`training.jsonl` holds one line per logged step: mean training loss since the line before, and on 20
of the held-out passages the loss, Sink_1, the largest alpha_1, norm ratios and the mean row sum.

## Data

{files}

`children_lit.txt`: 71 children's books, the ChiLit corpus (birmingham-ccr/corpora), texts from
Project Gutenberg, public domain. `storybooks_ccby.txt`: 683 stories of the African Storybook
(global-asp/asp-source) and of Pratham Books' StoryWeaver (global-asp/pb-source), by their authors,
illustrators and translators, those under CC BY (Pratham Books: CC BY 4.0) or in the public domain.
Every 12th document is held out of training; `../heldout.json` comes from held-out books in the
public domain only.

## License

{facts["license"]}
"""


def describe_packed(facts: dict[str, Any]) -> str:
    if "packed" not in facts:
        return ""
    return (
        f"\nEach matrix is rounded to steps of one size, a power of two. `{facts['packed']['file']}`, "
        f"{facts['packed']['bytes']:,} bytes, has the same numbers as I8, which the page fetches.\n"
    )


def zoo_table(rows: list[dict[str, Any]]) -> str:
    lines = [
        "| id | steps | bytes | Sink_1 % | of 100 sequences, deviation | raw % | elsewhere % "
        "| loss | alpha max | hidden ratio | value ratio | row sum | reported Sink_1 % |\n"
        "|" + "---|" * 13
    ]
    recipes_by_id = recipes()
    for row in rows:
        m, recipe = row["measured"], recipes_by_id[row["id"]]
        elsewhere = f"{m['sink_elsewhere']} (k = {m['elsewhere']})" if m["sink_elsewhere"] else "0"
        if "sink_bias" in m:
            elsewhere = f"**{m['sink_bias']} (\\*)**, {elsewhere}"
        lines.append(
            f"| [`{row['id']}`](zoo/{row['id']}/card.md) | {recipe.training.steps:,} "
            f"| {row['bytes']:,} | **{m['sink_1']}** | {m['sink_1_deviation']} "
            f"| {m['sink_1_raw']} | {elsewhere} | {m['loss']} | {m['alpha_max']} "
            f"| {m['hidden_ratio']} | {m['value_ratio']} | {m['row_mass_mean']} "
            f"| {describe_paper(recipe.paper)} |"
        )
    return "\n".join(lines)


def seeds_table(rows: list[dict[str, Any]]) -> str:
    names = ("sink_1", "sink_1_raw", "loss", "alpha_max", "hidden_ratio", "value_ratio", "row_mass_mean")
    lines = [
        "| id | seed | Sink_1 % | raw % | loss | alpha max | hidden ratio | value ratio | row sum |",
        "|" + "---|" * 9,
    ]
    lines += [
        f"| `{row['id']}` | {row['seed']} | " + " | ".join(str(row["measured"][name]) for name in names) + " |"
        for row in rows
    ]
    for id in dict.fromkeys(row["id"] for row in rows):
        sinks = [row["measured"]["sink_1"] for row in rows if row["id"] == id]
        lines.append(f"| `{id}` | all {len(sinks)} | {mean(sinks):.2f}, deviation {stdev(sinks):.2f} |" + " |" * 6)
    return "\n".join(lines)


def untrained_table(ids: set[str]) -> str:
    missing_recipes = [recipe for recipe in recipes().values() if recipe.id not in ids]
    lines = [
        f"| `{recipe.id}` | {recipe.factor} | {' '.join(recipe.what.split())} | {describe_paper(recipe.paper)} |"
        for recipe in missing_recipes
    ]
    return "\n".join(["| id | factor | | reported Sink_1 % |", "|" + "---|" * 4, *lines])


def tokenizer_of(zoo: Path, id: str, ids: list[str]) -> str:
    """Returns the id of the first model with the same tokenizer, byte for byte: a page then fetches each tokenizer
    once."""

    def read_files(other_id: str) -> list[bytes]:
        return [(zoo / other_id / name).read_bytes() for name in ("tokenizer.json", "tokenizer_config.json")]

    return next(other_id for other_id in ids if read_files(other_id) == read_files(id))


def further_seeds(recipe: Recipe, seed_rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    names = ("sink_1", "sink", "value_ratio", "loss")
    return [
        {"seed": row["seed"]} | {name: row["measured"][name] for name in names}
        for row in seed_rows
        if row["id"] == recipe.id and row["seed"] != recipe.seeds[0]
    ]


def recipe_keys(recipe: Recipe) -> dict[str, Any]:
    return {
        "title": recipe.title,
        "what": recipe.what,
        "factor": recipe.factor,
        "baseline": recipe.baseline,
        "paper": recipe.paper or None,
        "license": LICENSE,
    }


def make_pages(rows: list[dict[str, Any]], seed_rows: list[dict[str, Any]], readme: Path, zoo: Path) -> dict[Path, str]:
    """Returns the text of every file that is made from the measurements. `rows` are the entries of index.json, to which
    this adds keys; `seed_rows` are those of seeds.json."""
    recipes_by_id, text_by_file = recipes(), {}
    decisions = decide.decisions()
    decision_by_id = {decide.id_of(decision.recipe): decision for decision in decisions}
    for row in rows:
        recipe = recipes_by_id[row["id"]]
        row |= recipe_keys(recipe)
        row["tokenizer"] = tokenizer_of(zoo, recipe.id, [entry["id"] for entry in rows])
        row["tokenizer_config"] = json.loads((zoo / recipe.id / "tokenizer_config.json").read_text())
        row["further_seeds"] = further_seeds(recipe, seed_rows)
        row["differs"] = decide.index_entry(decision_by_id.get(recipe.id))
        text_by_file[zoo / recipe.id / "card.md"] = make_card(recipe, row)
    text_by_file[zoo / "index.json"] = json.dumps(rows, indent=2, ensure_ascii=False) + "\n"
    text, pilot = readme.read_text(), protocol.runs()[protocol.LONG_PREFIX + protocol.HEADLINE_RECIPES[0]]
    for name, table in {
        "zoo": zoo_table(rows),
        "seeds": seeds_table(seed_rows),
        "untrained": untrained_table({row["id"] for row in rows}),
        "pilot": factors.pilot_table(factors.logs_of(pilot, zoo)),
        "hours": decide.describe_hours(),
        "decisions": decide.decisions_table(decisions),
    }.items():
        text = claims.replace_table(text, name, table)
    text_by_file[readme] = text
    text_by_file[zoo / "decisive.json"] = decide.decisive_json(decisions)
    return text_by_file


def main() -> None:
    zoo = protocol.ZOO
    rows, seed_rows = (json.loads((zoo / name).read_text()) for name in ("index.json", "seeds.json"))
    for file, text in make_pages(rows, seed_rows, zoo.parent / "README.md", zoo).items():
        file.write_text(text)
    claims.main()


if __name__ == "__main__":
    main()
