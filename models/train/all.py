"""Trains every recipe and seed that is not trained yet, a few at a time.

    python -m models.train.all --corpora FOLDER --runs models/.runs --jobs 2
    python -m models.train.all --protocol b --seeds 3     the runs of protocol B, in its order
    python -m models.train.all --protocol a --until 4000 --seeds 3     the runs of protocol A, up to step 4,000
    python -m models.train.all --protocol b --ray     on the Ray cluster of RAY_ADDRESS, or on this machine

On a cluster every node must see the folders, and this repository, under the same paths. The same command continues an
interrupted run. It skips a run whose last checkpoint is in RUNS, and a run of a protocol whose log in the zoo is
complete. The output of each run goes to RUNS/RECIPE-SEED.out.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from . import protocol
from .corpus import Corpus
from .recipe import Recipe, recipes, refuse_unknown

ROOT = Path(__file__).resolve().parents[2]
Job = tuple[str, int]

# Environment variables by which glibc reuses the memory of a step's tensors. Page faults would take a fifth of a run.
ALLOCATOR = {
    "MALLOC_MMAP_THRESHOLD_": str(2**25),
    "MALLOC_TRIM_THRESHOLD_": str(2**31 - 1),
    "MALLOC_TOP_PAD_": str(2**27),
}


def unfinished_jobs(runs: Path, only: list[str]) -> list[Job]:
    recipes_by_id = recipes()
    return [
        (id, seed)
        for id in only or recipes_by_id
        for seed in recipes_by_id[id].seeds
        if not (runs / f"{id}-{seed}" / f"step-{recipes_by_id[id].training.steps:04d}.safetensors").exists()
    ]


def unlogged_jobs(
    recipes_by_id: dict[str, Recipe],
    only: list[str],
    until: int,
    seeds: int,
) -> list[Job]:
    """Returns recipe and seed of each run of a protocol whose log does not reach step `until`, for the first `seeds`
    seeds of each recipe, and for all seeds of protocol B's baseline, which all comparisons need."""

    def seeds_of(id: str) -> tuple[int, ...]:
        return recipes_by_id[id].seeds if id == protocol.B_BASELINE else recipes_by_id[id].seeds[:seeds]

    return [
        (id, seed)
        for id in only or recipes_by_id
        for seed in seeds_of(id)
        if not protocol.is_done(protocol.read_log(recipes_by_id[id], seed), until)
    ]


def train(id: str, seed: int, corpora: Path, runs: Path, *options: str) -> int:
    with (runs / f"{id}-{seed}.out").open("a") as out:
        settings = f"--seed={seed}", f"--corpora={corpora}", f"--runs={runs}"
        command = [sys.executable, "-m", "models.train.train", id, *settings, *options]
        print("began", id, seed, flush=True)
        code = subprocess.run(
            command, stdout=out, stderr=subprocess.STDOUT, check=False, cwd=ROOT, env=ALLOCATOR | os.environ
        ).returncode
    print("ended" if code == 0 else "FAILED", id, seed, flush=True)
    return code


def run_in_threads(task: Callable[[Job], int], jobs: Sequence[Job], count: int) -> list[int]:
    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(task, jobs))


def run_on_ray(task: Callable[[Job], int], jobs: Sequence[Job], count: int) -> list[int]:
    """Runs the jobs on Ray with one core each, and returns the exit status of each. Ray restarts a job from its last
    checkpoint if it loses the worker. If this call starts Ray, `count` jobs run at a time."""
    import ray

    if not ray.is_initialized():
        options = {} if os.environ.get("RAY_ADDRESS") else {"num_cpus": count}
        ray.init(runtime_env={"env_vars": {"PYTHONPATH": str(ROOT)}}, **options)
    remote = ray.remote(num_cpus=1, max_retries=3)(task)
    return ray.get([remote.remote(job) for job in jobs])


def resolve_folders(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> tuple[Path, Path]:
    """Returns the absolute folders of the corpora and of the runs. Also makes the tokenizer, which every run needs."""
    if arguments.corpora is None:
        parser.error("--corpora is missing and $SINKSCOPE_CORPORA is not set")
    Corpus(arguments.corpora, arguments.runs / "corpus")
    return arguments.corpora.resolve(), arguments.runs.resolve()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("only", nargs="*", metavar="RECIPE", help="these alone, in this order")
    parser.add_argument("--corpora", type=Path, default=os.environ.get("SINKSCOPE_CORPORA"))
    parser.add_argument("--runs", type=Path, default=Path("models/.runs"))
    parser.add_argument("--jobs", type=int, default=2, help="one CPU core each")
    parser.add_argument("--protocol", choices=("a", "b"), help="train its runs whose logs are incomplete")
    parser.add_argument(
        "--until", type=int, metavar="STEP", help="where a run of protocol A is broken off, to be continued later"
    )
    parser.add_argument(
        "--seeds", type=int, default=max(protocol.SEEDS), metavar="N", help="the first N seeds of each recipe"
    )
    parser.add_argument("--ray", action="store_true", help="spread the runs over Ray")
    arguments = parser.parse_args()
    recipes_by_id = {"a": protocol.runs, "b": protocol.decisive_runs, None: recipes}[arguments.protocol]()
    refuse_unknown(parser, arguments.only, recipes_by_id)
    corpora, runs = resolve_folders(parser, arguments)
    if arguments.protocol:
        last_step = protocol.STEPS if arguments.protocol == "a" else protocol.B_STEPS
        until = arguments.until or last_step
        jobs = unlogged_jobs(recipes_by_id, arguments.only, until, arguments.seeds)
        options = ("--until", str(until))
    else:
        jobs, options = unfinished_jobs(arguments.runs, arguments.only), ()
    run_jobs = run_on_ray if arguments.ray else run_in_threads
    codes = run_jobs(lambda job: train(*job, corpora, runs, *options), jobs, arguments.jobs)
    raise SystemExit(max(codes, default=0))


if __name__ == "__main__":
    main()
