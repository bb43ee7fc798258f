"""Repeats the first steps of a committed run in a folder of its own, and prints each measured step beside the log.

    python -m models.train.repeat b-elu1 --seed 1 --until 200

Nothing is written into models/zoo. The run begins again whenever the command is given. It ends with exit status 1 if a
column is further from the committed log than its tolerance: another processor adds in another order, and the bfloat16
products of some machines round differently. Every column is compared that the committed log has; a null agrees with a
null alone. The columns that it lacks are named at the end.
"""

import argparse
import re
import shutil
import time
from pathlib import Path
from typing import Any

import torch

from . import protocol
from .corpus import add_folders, require_corpora
from .recipe import Recipe, refuse_unknown
from .train import SAVE_EVERY, train

# The largest difference of a column that another machine explains: some times the largest one between a CPU and an H100
# over nine whole runs (models/README.md), which was 0.0008 in alpha, 0.0006 in a loss, 0.0004 in the eviction and 0.008
# in the hidden ratio. Of six runs that were repeated on CPUs after days, no column differed by more than 0.0001 up to
# step 1,000; by step 3,000 Sink_k differed by 0.1 points in the three of b-key-value-bias.
TOLERANCES = {
    r"alpha(_share|_bias|_of_\d+)?|eviction|((batch|train)_)?loss|row_mass": 0.002,
    r"alpha_max|value_ratio": 0.005,
    r"hidden_ratio": 0.02,
    r"sink(_bias)?_0\.\d": 0.5,  # points
    r"first_layer": 0.0,
}
DRIFT = (
    "The tolerances hold for early steps, and to the end of runs that settle. Where two constant tokens share a sink, "
    "rounding grows: of b-sink-token, seeds 1 to 3, every column repeats within 0.0001 up to step 1,000, and by step "
    "3,000 alpha differed by up to 0.008, its largest head and the value ratio by 0.09, the hidden ratio by 0.34 and "
    "Sink_k by 16 points."
)
Row = tuple[str, float | None, float | None, float, bool]


def tolerance_of(column: str) -> float:
    return next(tolerance for names, tolerance in TOLERANCES.items() if re.fullmatch(names, column))


def compare_points(committed: dict[str, Any], repeated: dict[str, Any]) -> list[Row]:
    """Returns column, committed number, repeated number, tolerance, and whether they agree, for each column of both."""
    rows = []
    for name in [name for name in repeated if name in committed and name != "step"]:
        old, new, tolerance = committed[name], repeated[name], tolerance_of(name)
        agrees = old is new if None in (old, new) else abs(old - new) <= tolerance
        rows.append((name, old, new, tolerance, agrees))
    return rows


def describe_point(step: int, rows: list[Row]) -> str:
    def cells(*numbers: float | None) -> str:
        return "".join(f"{'null' if x is None else f'{x:.4f}':>11}" for x in numbers)

    lines = [f"step {step:,}", f"  {'column':14}{'committed':>11}{'repeated':>11}{'difference':>12}{'tolerance':>11}"]
    for name, old, new, tolerance, agrees in rows:
        difference = f"{new - old:+.4f}" if old is not None and new is not None else ""
        ending = "" if agrees else "  differs"
        lines.append(f"  {name:14}{cells(old, new)}{difference:>12}{cells(tolerance)}{ending}")
    return "\n".join(lines)


def repeat(recipe: Recipe, seed: int, until: int, corpora: Path, folder: Path) -> bool:
    """Trains the run up to step `until` in `folder`/repeated, and returns whether every column agrees. Nothing but the
    run's own folder there is removed: `folder` may hold other runs, or the zoo."""
    folder = folder / "repeated"
    committed = {point["step"]: point for point in protocol.read_log(recipe, seed)["points"]}
    seconds = " to ".join(f"{until * bound / 60:.1f}" for bound in protocol.STEP_SECONDS)
    print(
        f"{until} steps take about {seconds} minutes on one core, each measured step some seconds more, and the "
        "first run in a folder some minutes more, to tokenize the texts.",
        flush=True,
    )
    run = folder / f"{recipe.id}-{seed}"
    shutil.rmtree(run, ignore_errors=True)
    start = time.monotonic()
    train(recipe, seed, corpora, folder, "cpu", until, run)
    agrees, lacking = True, dict[str, None]()
    for point in protocol.read_log(recipe, seed, run)["points"]:
        rows = compare_points(committed[point["step"]], point)
        print(describe_point(point["step"], rows))
        agrees &= all(row[-1] for row in rows)
        lacking |= dict.fromkeys(name for name in point if name not in committed[point["step"]])
    if lacking:
        print(f"not compared, since the committed log lacks them: {', '.join(lacking)}")
    print(
        f"{recipe.id}, seed {seed}: {'agrees with' if agrees else 'differs from'} the committed log, "
        f"{time.monotonic() - start:.0f} s"
    )
    return agrees


def main() -> None:
    logged_runs = protocol.runs() | protocol.decisive_runs()
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0], epilog=DRIFT)
    parser.add_argument(
        "recipe", metavar="RECIPE", help="long-ID or b-ID, a run of protocol A or B; it goes to `repeated` in RUNS"
    )
    add_folders(parser)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--until", type=int, default=SAVE_EVERY, metavar="STEP")
    arguments = parser.parse_args()
    refuse_unknown(parser, [arguments.recipe], logged_runs)
    recipe = logged_runs[arguments.recipe]
    require_corpora(parser, arguments)
    steps = [point["step"] for point in protocol.read_log(recipe, arguments.seed)["points"]]
    if arguments.until not in steps[1:]:
        last = f"a measured step up to {steps[-1]:,}" if steps else "a run with a committed log"
        parser.error(f"--until is {arguments.until}, expected {last}")
    if arguments.runs.resolve().is_relative_to(protocol.ZOO):
        parser.error(f"--runs is {arguments.runs}, expected a folder outside models/zoo")
    torch.set_num_threads(1)
    agrees = repeat(recipe, arguments.seed, arguments.until, arguments.corpora, arguments.runs)
    raise SystemExit(0 if agrees else 1)


if __name__ == "__main__":
    main()
