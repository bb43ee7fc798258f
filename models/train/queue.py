"""Trains the runs that protocol B still needs, in the order of protocol.B_ROWS, each up to step B_STEPS.

    python -m models.train.queue --corpora FOLDER --runs models/.runs --jobs 2
    python -m models.train.queue --left     prints the remaining runs, the hours of all runs so far and those that are
                                            left of protocol.B_HOURS; trains nothing
    python -m models.train.queue --further --corpora FOLDER      trains the runs of protocol.B_FURTHER

Logs go to models/zoo/ID/b/SEED.json while the runs train. The queue reads them again before each run begins, because
they decide whether a recipe needs a third seed or a second look. The same command continues an interrupted run from
its checkpoint, and leaves a run that another process trains to that process. RUNS keeps the last checkpoint of a
finished run, and RUNS/seconds.jsonl its duration.

--further trains runs again that have a log: to a later step, or for a column that it lacks. It trains in RUNS/further,
from step 0 or from its own checkpoint there, and puts the log in the place of the committed one when the run is done.
"""

import argparse
import json
import math
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import replace
from pathlib import Path
from statistics import median

from ..reference.model import architecture
from ..reference.shapes import shapes
from . import decide, protocol
from .all import Job, resolve_folders, train
from .corpus import Corpus, add_folders
from .protocol import FurtherRow
from .recipe import Recipe, refuse_unknown
from .train import is_training


def steps_left(recipe: Recipe, seed: int) -> int:
    points = protocol.read_log(recipe, seed)["points"]
    return protocol.B_STEPS - min(protocol.B_STEPS, points[-1]["step"] if points else 0)


def due_seeds(recipe: Recipe, runs_by_id: dict[str, Recipe]) -> tuple[int, ...]:
    """Returns the seeds that a recipe still needs by its logs: two, a third unless two suffice, and two more for a
    second look."""
    if recipe.id == protocol.B_BASELINE:
        seeds = recipe.seeds
    else:
        seeds = recipe.seeds[:2]
        logs = decide.logs_of(recipe)
        if set(seeds) <= logs.keys() and not decide.do_two_seeds_suffice(recipe, logs):
            seeds = recipe.seeds[: protocol.B_FIRST_SEEDS]
            first_look = decide.Decision(recipe, logs, decide.logs_of(runs_by_id[recipe.baseline]))
            if first_look.needs_second_look:
                seeds = protocol.B_SECOND_SEEDS
    return tuple(seed for seed in seeds if steps_left(recipe, seed))


def due_jobs(only: list[str]) -> Iterator[tuple[int, Recipe, int]]:
    runs_by_id = protocol.decisive_runs()
    names = dict(zip(protocol.B_ORDER, runs_by_id))
    for number, row in enumerate(protocol.B_ROWS):
        for id in row.recipes:
            if not only or names[id] in only:
                recipe = runs_by_id[names[id]]
                yield from ((number, recipe, seed) for seed in due_seeds(recipe, runs_by_id))


def further_jobs(only: list[str]) -> Iterator[tuple[FurtherRow, Recipe, int]]:
    """Yields the runs of B_FURTHER whose log ends too early, or lacks the column. A run replaces no longer log."""
    runs_by_id = protocol.decisive_runs()
    names = dict(zip(protocol.B_ORDER, runs_by_id))
    for row in protocol.B_FURTHER:
        for recipe in (runs_by_id[names[id]] for id in row.recipes):
            logs = {seed: protocol.read_log(recipe, seed) for seed in row.seeds}
            last_steps = {seed: log["points"][-1]["step"] if log["points"] else 0 for seed, log in logs.items()}
            yield from (
                (replace(row, until=max(row.until, last_steps[seed])), recipe, seed)
                for seed, log in logs.items()
                if not only or recipe.id in only
                if not protocol.is_done(log, row.until) or any(row.column not in point for point in log["points"])
            )


def train_further_run(row: FurtherRow, recipe: Recipe, seed: int, corpora: Path, runs: Path) -> int:
    folder = runs / "further"
    code = train(recipe.id, seed, corpora, folder, "--until", str(row.until), "--zoo", str(folder / "zoo"))
    if code == 0:
        protocol.write_log(protocol.read_log(recipe, seed, folder / "zoo"), protocol.log_file(recipe, seed))
    return code


def train_further_runs(corpora: Path, runs: Path, count: int, only: list[str]) -> list[Job]:
    Corpus(corpora, runs / "further" / "corpus")
    jobs = list(further_jobs(only))
    with ThreadPoolExecutor(count) as pool:
        codes = pool.map(lambda job: train_further_run(*job, corpora, runs), jobs)
        return [(recipe.id, seed) for (_, recipe, seed), code in zip(jobs, codes) if code]


def parameter_count(recipe: Recipe) -> int:
    return sum(math.prod(shape) for shape in shapes(architecture(recipe.config)).values())


def seconds_per_step(runs: Path) -> dict[str, float]:
    file, times = runs / "seconds.jsonl", {}
    lines = file.read_text().splitlines() if file.exists() else []
    for run in map(json.loads, lines):
        times.setdefault(run["recipe"], []).append(run["seconds"] / run["steps"])
    return {id: median(values) for id, values in times.items()}


Hours = tuple[float, ...]  # from the least to the most, or one measured number


def price_steps(runs: Path) -> Callable[[Recipe, int], Hours]:
    """Returns a function that gives the hours of so many steps of a recipe. For recipes that were not measured, it
    assumes the time per parameter of those that were."""
    runs_by_id, measured_seconds = protocol.decisive_runs(), seconds_per_step(runs)
    rates = [seconds / parameter_count(runs_by_id[id]) for id, seconds in measured_seconds.items() if id in runs_by_id]
    baseline_count = parameter_count(runs_by_id[protocol.B_BASELINE])
    bounds = (median(rates) * baseline_count,) if rates else protocol.STEP_SECONDS

    def price(recipe: Recipe, steps: int) -> Hours:
        step_seconds = (
            (measured_seconds[recipe.id],) * len(bounds)
            if recipe.id in measured_seconds
            else tuple(bound * parameter_count(recipe) / baseline_count for bound in bounds)
        )
        return tuple(steps * seconds / 3600 for seconds in step_seconds)

    return price


def sum_hours(hours: list[Hours]) -> str:
    return " to ".join(f"{sum(bound):.1f}" for bound in zip(*hours)) or "0"


def describe_budget(runs: Path) -> str:
    """Describes what the runs since the third version of the rules took. Their logs have the column `first_layer`,
    which the commits before that version added."""
    price = price_steps(runs)
    hours = [
        price(recipe, log["points"][-1]["step"])
        for recipe in protocol.decisive_runs().values()
        for log in (protocol.read_log(recipe, seed) for seed in recipe.seeds)
        if log["points"] and "first_layer" in log["points"][0]
    ]
    spent = [sum(bound) for bound in zip(*hours)]
    left = " to ".join(f"{protocol.B_HOURS - bound:.1f}" for bound in reversed(spent or [0.0]))
    return (
        f"Since the third version of the rules {len(hours)} runs of protocol B took {sum_hours(hours)} core hours; "
        f"{left} of {protocol.B_HOURS} are left."
    )


def describe_remaining_runs(runs: Path, only: list[str]) -> str:
    """Describes the remaining runs row by row, with their hours."""
    price = price_steps(runs)
    rows: dict[int, list[tuple[str, Hours]]] = {}
    further_rows: dict[str, list[tuple[str, Hours]]] = {}

    def name(recipe: Recipe, seed: int) -> str:
        return f"{decide.id_of(recipe)} {seed}"

    for number, recipe, seed in due_jobs(only):
        rows.setdefault(number, []).append((name(recipe, seed), price(recipe, steps_left(recipe, seed))))
    for row, recipe, seed in further_jobs(only):
        question = f"{row.question}, to step {row.until:,}"
        further_rows.setdefault(question, []).append((name(recipe, seed), price(recipe, row.until)))

    def describe_runs(runs: list[tuple[str, Hours]]) -> str:
        return f"{len(runs)} runs, {sum_hours([hours for _, hours in runs])} core hours"

    lines = [
        f"{number}. {protocol.B_ROWS[number].question}: {describe_runs(row)}: " + ", ".join(name for name, _ in row)
        for number, row in rows.items()
    ]
    all_runs = [run for row in rows.values() for run in row]
    # Only recipes without a second seed may need a third that is not listed yet.
    third_seed_hours = [hours for name, hours in all_runs if name.endswith(" 2")]
    further_lines = [
        f"With --further, {question}: {describe_runs(row)}: " + ", ".join(name for name, _ in row)
        for question, row in further_rows.items()
    ]
    return "\n".join(
        [
            *lines,
            *further_lines,
            f"In all {describe_runs(all_runs)}. Their logs may ask for "
            f"{len(third_seed_hours)} third seeds ({sum_hours(third_seed_hours)}) and for second looks.",
        ]
    )


def train_run(recipe: Recipe, seed: int, corpora: Path, runs: Path) -> int:
    steps_before, start = steps_left(recipe, seed), time.monotonic()
    code = train(recipe.id, seed, corpora, runs, "--until", str(protocol.B_STEPS))
    seconds, steps = time.monotonic() - start, steps_before - steps_left(recipe, seed)
    if code == 0 and steps > 0:
        with (runs / "seconds.jsonl").open("a") as file:
            file.write(
                json.dumps({"recipe": recipe.id, "seed": seed, "steps": steps, "seconds": round(seconds)}) + "\n"
            )
        for checkpoint in (runs / f"{recipe.id}-{seed}").glob("step-*.safetensors"):
            if checkpoint.name != f"step-{protocol.B_STEPS:04d}.safetensors":
                checkpoint.unlink()
    return code


def train_jobs(corpora: Path, runs: Path, count: int, only: list[str]) -> list[Job]:
    failed_jobs: list[Job] = []
    with ThreadPoolExecutor(count) as pool:
        jobs_by_future: dict[Future[int], Job] = {}
        while True:
            begun_jobs = {*jobs_by_future.values(), *failed_jobs}
            for _, recipe, seed in due_jobs(only):
                job = recipe.id, seed
                if len(jobs_by_future) == count:
                    break
                if job not in begun_jobs and not is_training(runs / f"{recipe.id}-{seed}"):
                    jobs_by_future[pool.submit(train_run, recipe, seed, corpora, runs)] = job
            if not jobs_by_future:
                return failed_jobs
            for future in wait(jobs_by_future, return_when=FIRST_COMPLETED).done:
                job = jobs_by_future.pop(future)
                if future.result():
                    failed_jobs.append(job)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("only", nargs="*", metavar="RECIPE", help="these alone, b-ID")
    add_folders(parser)
    parser.add_argument("--jobs", type=int, default=1, help="one CPU core each")
    parser.add_argument("--further", action="store_true", help="train the runs of B_FURTHER instead")
    parser.add_argument("--left", action="store_true", help="print the remaining runs, and train nothing")
    arguments = parser.parse_args()
    refuse_unknown(parser, arguments.only, protocol.decisive_runs())
    if arguments.left:
        print(describe_remaining_runs(arguments.runs, arguments.only))
        print(decide.describe_hours())
        print(describe_budget(arguments.runs))
        return
    train_all = train_further_runs if arguments.further else train_jobs
    failed_jobs = train_all(*resolve_folders(parser, arguments), arguments.jobs, arguments.only)
    raise SystemExit(f"failed: {failed_jobs}" if failed_jobs else 0)


if __name__ == "__main__":
    main()
