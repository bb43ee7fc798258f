"""What is said of a model: every way that a verdict can come out, and the tables."""

import json
from pathlib import Path
from typing import Any

import pytest

from models.train import pages
from models.train.recipe import BASE, Recipe, Training, recipes

ROOT = Path(__file__).resolve().parents[2]


def recipe(paper: dict[str, Any], id: str = "other") -> Recipe:
    return Recipe(id, "title", "what", "operation", BASE, Training(), "softmax", paper=paper)


PAPER_NONE, PAPER_MORE = {"sink_1": 0.4, "base": 18.18}, {"sink_1": 30.2, "base": 18.18}
PAPER_LESS, PAPER_SAME = {"sink_1": 10.0, "base": 18.18}, {"sink_1": 20.0, "base": 18.18}


@pytest.mark.parametrize(("paper", "values", "bases", "says"), [
    ({}, [50.0], [50.0], "no figure to compare with"),
    (PAPER_NONE, [0.4, 0.0], [60.0, 20.0], "agrees: no sink"),
    (PAPER_NONE, [4.99], [60.0], "agrees: no sink (one seed)"),
    (PAPER_NONE, [5.0], [60.0], "differs: no sink there, a sink here (one seed)"),
    (PAPER_NONE, [0.4, 9.0], [60.0],
     "cannot be shown at this size: no sink there, 0.4 to 9.0 against 60.0 % over the seeds here"),
    (PAPER_MORE, [80.0], [60.0], "agrees: more (one seed)"),
    (PAPER_MORE, [40.0], [60.0], "differs: more there, less here (one seed)"),
    (PAPER_MORE, [80.0], [60.0, 20.0], "agrees: more (one seed)"),
    (PAPER_MORE, [79.0], [60.0], "differs: more there, the same here (one seed)"),
    # Between the seeds of the baseline nothing can be told.
    (PAPER_MORE, [40.0], [60.0, 20.0],
     "cannot be shown at this size: more there, 40.0 against 20.0 to 60.0 % over the seeds here"),
    (PAPER_MORE, [0.5], [3.0], "cannot be shown at this size: more there, no sink with it or without "
     "here"),
    (PAPER_MORE, [6.0], [3.0], "agrees: more (one seed)"),
    (PAPER_LESS, [30.0], [60.0], "agrees: less (one seed)"),
    (PAPER_LESS, [0.0], [60.0, 20.0], "agrees: less there, none here (one seed)"),
    # Less than one seed of the baseline, the same as another.
    (PAPER_LESS, [30.0], [60.0, 31.0],
     "cannot be shown at this size: less there, 30.0 against 31.0 to 60.0 % over the seeds here"),
    (PAPER_SAME, [60.0], [55.0], "agrees: the same (one seed)"),
    (PAPER_SAME, [0.0], [60.0], "differs: the same there, no sink here (one seed)"),
    ({"says": "gone"}, [17.0], [60.0], "differs: no sink there, a sink here (one seed)"),
    ({"says": "less"}, [61.0], [45.0, 2.0], "differs: less there, more here (one seed)"),
    ({"sink_1": 18.18}, [0.7], [45.0], "differs: a sink there, no sink here (one seed)"),
    ({"sink_1": 18.18, "small": "why"}, [0.7], [45.0],
     "cannot be shown at this size: a sink there, no sink here"),
])
def test_verdicts(paper: dict[str, Any], values: list[float], bases: list[float],
                  says: str) -> None:
    assert pages.verdict(recipe(paper), values, bases) == says


def test_the_baseline_is_only_asked_for_its_sink() -> None:
    base = recipe({"sink_1": 18.18, "base": 18.18}, "softmax")
    assert pages.verdict(base, [60.0, 20.0], [60.0, 20.0]) == "agrees: a sink"


def row(id: str, sink: list[float], further: tuple[list[float], ...] = ()) -> dict[str, Any]:
    measured = {"sink": sink, "sink_1": sink[0], "sink_1_raw": 1.5, "sink_1_deviation": 2.5,
                "sink_elsewhere": 0.0, "elsewhere": 2, "loss": 3.5, "alpha_max": 0.6,
                "hidden_ratio": 4.0, "value_ratio": 0.3, "row_mass_mean": 1.0}
    return {"id": id, "bytes": 1234567, "verdict": "agrees: a sink", "measured": measured,
            "further_seeds": [{"seed": i + 2, "sink": s} for i, s in enumerate(further)]}


def test_a_prefix_has_its_sink_somewhere_in_it() -> None:
    one = row("prefix", [3.0, 4.0, 5.0, 0.0], ([1.0, 1.0, 2.0, 9.0],))
    assert pages.sinks(one) == [3.0, 1.0]
    assert pages.sinks(one, (1, 2, 3)) == [12.0, 4.0]


def test_a_row_of_the_table() -> None:
    line = pages.table([row("sigmoid", [0.4])]).splitlines()[-1]
    assert line == ("| [`sigmoid`](zoo/sigmoid/card.md) | 4,000 | 1,234,567 | **0.4** | 2.5 | 1.5 | 0 "
                    "| 3.5 | 0.6 | 4.0 | 0.3 | 1.0 | 0.44 of 18.18 (Gu et al., table 6) "
                    "| agrees: a sink |")
    biased = row("key-bias", [0.0])
    biased["measured"] |= {"sink_bias": 70.0, "sink_elsewhere": 1.5, "elsewhere": 4}
    assert "| **70.0 (\\*)**, 1.5 (k = 4) |" in pages.table([biased])


def test_the_seeds_are_averaged_by_recipe() -> None:
    rows = [row("a", [10.0]) | {"seed": 1}, row("a", [20.0]) | {"seed": 2},
            row("b", [7.0]) | {"seed": 1}, row("b", [7.0]) | {"seed": 2}]
    lines = pages.seeds_table(rows).splitlines()
    assert lines[-2].startswith("| `a` | all 2 | 15.00, deviation 7.07 |")
    assert lines[-1].startswith("| `b` | all 2 | 7.00, deviation 0.00 |")


def test_a_table_is_replaced_between_its_markers() -> None:
    text = ("before\n<!-- x table: written by p.py -->\nold\nold\n<!-- end of x table -->\n"
                    "between\n<!-- y table: written by p.py -->\nkept\n<!-- end of y table -->\nend\n")
    assert pages.with_table(text, "x", "new") == (
        "before\n<!-- x table: written by p.py -->\nnew\n<!-- end of x table -->\n"
        "between\n<!-- y table: written by p.py -->\nkept\n<!-- end of y table -->\nend\n")


def test_nothing_that_is_written_from_measurements_was_edited_by_hand() -> None:
    zoo = ROOT / "models/zoo"
    rows, more = (json.loads((zoo / name).read_text()) for name in ("index.json", "seeds.json"))
    found = pages.pages(rows, more, ROOT / "models/README.md", zoo)
    assert len(found) == len(rows) + 2
    for file, text in found.items():
        assert file.read_text() == text, f"{file}: run python -m models.train.pages"


def test_every_recipe_stands_beside_one_that_differs_by_its_factor_alone() -> None:
    """The same steps as its baseline, but where the steps are the factor."""
    known = recipes()
    for one in known.values():
        base = known[one.baseline]
        assert base.baseline in known
        assert one.training.steps == base.training.steps or one.id == "short", one.id


def test_what_the_paper_reports_of_open_models() -> None:
    """Each row of table 1 has every kind, and its natural texts are those of its second half."""
    reported = json.loads((ROOT / "models/zoo/reported.json").read_text())
    natural = {row["model"].removesuffix(" Base"): row["natural"] for row in reported["models"]}
    for row in reported["models"]:
        assert all(0 <= row[kind] <= 100 for kind in reported["kinds"])
    assert all(natural.get(row["model"], row["base"]) == row["base"] for row in reported["chat"])
