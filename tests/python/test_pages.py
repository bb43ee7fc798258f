"""Checks the tables of the generated pages of models, and that the committed pages are those that pages.py writes."""

import json
from pathlib import Path
from typing import Any

from models.train import claims, pages
from models.train.recipe import recipes

ROOT = Path(__file__).resolve().parents[2]


def make_row(id: str, sink: list[float]) -> dict[str, Any]:
    measurements = {
        "sink": sink,
        "sink_1": sink[0],
        "sink_1_raw": 1.5,
        "sink_1_deviation": 2.5,
        "sink_elsewhere": 0.0,
        "elsewhere": 2,
        "loss": 3.5,
        "alpha_max": 0.6,
        "hidden_ratio": 4.0,
        "value_ratio": 0.3,
        "row_mass_mean": 1.0,
    }
    return {"id": id, "bytes": 1234567, "measured": measurements}


def test_a_row_of_the_table_has_the_measurements_and_the_figure_of_the_paper() -> None:
    line = pages.zoo_table([make_row("sigmoid", [0.4])]).splitlines()[-1]
    assert line == (
        "| [`sigmoid`](zoo/sigmoid/card.md) | 4,000 | 1,234,567 | **0.4** | 2.5 | 1.5 | 0 "
        "| 3.5 | 0.6 | 4.0 | 0.3 | 1.0 | 0.44 of 18.18 (Gu et al., table 6) |"
    )
    biased = make_row("key-bias", [0.0])
    biased["measured"] |= {"sink_bias": 70.0, "sink_elsewhere": 1.5, "elsewhere": 4}
    assert "| **70.0 (\\*)**, 1.5 (k = 4) |" in pages.zoo_table([biased])


def test_the_seeds_are_averaged_by_recipe() -> None:
    rows = [
        make_row("a", [10.0]) | {"seed": 1},
        make_row("a", [20.0]) | {"seed": 2},
        make_row("b", [7.0]) | {"seed": 1},
        make_row("b", [7.0]) | {"seed": 2},
    ]
    lines = pages.seeds_table(rows).splitlines()
    assert lines[-2].startswith("| `a` | all 2 | 15.00, deviation 7.07 |")
    assert lines[-1].startswith("| `b` | all 2 | 7.00, deviation 0.00 |")


def test_the_index_has_the_results_of_the_other_runs_of_a_recipe() -> None:
    rows = [
        make_row("softmax", [10.0]) | {"seed": 1},
        make_row("softmax", [20.0]) | {"seed": 2},
        make_row("sigmoid", [7.0]) | {"seed": 2},
    ]
    assert pages.further_seeds(recipes()["softmax"], rows) == [
        {"seed": 2, "sink_1": 20.0, "sink": [20.0], "value_ratio": 0.3, "loss": 3.5}
    ]


def test_a_table_is_replaced_between_its_markers() -> None:
    text = (
        "before\n<!-- x table: written by p.py -->\nold\nold\n<!-- end of x table -->\n"
        "between\n<!-- y table: written by p.py -->\nkept\n<!-- end of y table -->\nend\n"
    )
    assert claims.replace_table(text, "x", "new") == (
        "before\n<!-- x table: written by p.py -->\nnew\n<!-- end of x table -->\n"
        "between\n<!-- y table: written by p.py -->\nkept\n<!-- end of y table -->\nend\n"
    )


def test_generated_pages_equal_the_output_of_pages_py() -> None:
    zoo = ROOT / "models/zoo"
    rows, seed_rows = (json.loads((zoo / name).read_text()) for name in ("index.json", "seeds.json"))
    result = pages.make_pages(rows, seed_rows, ROOT / "models/README.md", zoo)
    # The files are one card per model, index.json, the README, and decisive.json.
    assert len(result) == len(rows) + 3
    for file, text in result.items():
        assert file.read_text() == text, f"{file}: run python -m models.train.pages"


def test_every_recipe_has_as_many_steps_as_its_baseline_unless_steps_are_the_factor() -> None:
    recipes_by_id = recipes()
    for recipe in recipes_by_id.values():
        baseline = recipes_by_id[recipe.baseline]
        assert baseline.baseline in recipes_by_id
        assert recipe.training.steps == baseline.training.steps or recipe.id == "short", recipe.id


def test_reported_values_of_open_models_are_complete_and_agree_between_tables() -> None:
    reported = json.loads((ROOT / "models/zoo/reported.json").read_text())
    natural = {model["model"].removesuffix(" Base"): model["natural"] for model in reported["models"]}
    for model in reported["models"]:
        assert all(0 <= model[kind] <= 100 for kind in reported["kinds"])
    assert all(natural.get(model["model"], model["base"]) == model["base"] for model in reported["chat"])
