"""Repeats the first steps of a committed run in a folder of its own, and prints each measured step beside the log.

    python -m models.train.repeat b-alibi --seed 1 --until 200

Nothing is written into models/zoo. The run begins again whenever the command is given. It ends with exit status 1 if a
column is further from the committed log than its tolerance: another processor adds in another order, and the bfloat16
products of some machines round differently.
"""

import argparse
import os
import shutil
import time
from pathlib import Path
from typing import Any

import torch

from . import protocol
from .recipe import Recipe, refuse_unknown
from .train import SAVE_EVERY, train

# Of each column, the largest difference that another machine explains: some times the largest one between a CPU and an
# H100 over nine whole runs (models/README.md), which was 0.0008 in alpha, 0.0006 in a loss, 0.0004 in the eviction and
# 0.008 in the hidden ratio.
TOLERANCES = {
    "alpha": 0.002,
    "alpha_share": 0.002,
    "alpha_max": 0.005,
    "value_ratio": 0.005,
    "eviction": 0.002,
    "hidden_ratio": 0.02,
    "loss": 0.002,
    "row_mass": 0.002,
    "batch_loss": 0.002,
    "train_loss": 0.002,
}


def compare_points(committed: dict[str, Any], repeated: dict[str, Any]) -> list[tuple[str, float, float, float, bool]]:
    """Returns column, committed number, repeated number, tolerance, and whether they agree, for each column of both."""
    return [
        (name, committed[name], repeated[name], tolerance, abs(committed[name] - repeated[name]) <= tolerance)
        for name, tolerance in TOLERANCES.items()
        if committed.get(name) is not None and repeated.get(name) is not None
    ]


def describe_point(step: int, rows: list[tuple[str, float, float, float, bool]]) -> str:
    lines = [f"step {step:,}", f"  {'column':14}{'committed':>11}{'repeated':>11}{'difference':>12}{'tolerance':>11}"]
    lines += [
        f"  {name:14}{old:11.4f}{new:11.4f}{new - old:+12.4f}{tolerance:11.4f}{'' if agrees else '  differs'}"
        for name, old, new, tolerance, agrees in rows
    ]
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
    agrees = True
    for point in protocol.read_log(recipe, seed, run)["points"]:
        rows = compare_points(committed[point["step"]], point)
        print(describe_point(point["step"], rows))
        agrees &= all(row[-1] for row in rows)
    print(
        f"{recipe.id}, seed {seed}: {'agrees with' if agrees else 'differs from'} the committed log, "
        f"{time.monotonic() - start:.0f} s"
    )
    return agrees


def main() -> None:
    logged_runs = protocol.runs() | protocol.decisive_runs()
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("recipe", metavar="RECIPE", help="long-ID or b-ID, a run of protocol A or B")
    parser.add_argument(
        "--corpora",
        type=Path,
        default=os.environ.get("SINKSCOPE_CORPORA"),
        help="folder with the text files (default: $SINKSCOPE_CORPORA)",
    )
    parser.add_argument(
        "--runs", type=Path, default=Path("models/.runs"), help="a folder; the run goes to `repeated` in it"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--until", type=int, default=SAVE_EVERY, metavar="STEP")
    arguments = parser.parse_args()
    refuse_unknown(parser, [arguments.recipe], logged_runs)
    recipe = logged_runs[arguments.recipe]
    if arguments.corpora is None:
        parser.error("--corpora is missing and $SINKSCOPE_CORPORA is not set")
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
