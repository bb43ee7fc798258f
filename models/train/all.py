"""Trains every recipe and seed that is not trained yet, a few at a time.

    python -m models.train.all --corpora FOLDER --runs models/.runs --jobs 2
    python -m models.train.all --protocol a --until 4000 --seeds 3     the runs of protocol A, up to step 4,000

The same command continues an interrupted run. It skips a run whose last checkpoint is in RUNS, and a run of protocol A
whose log in the zoo is complete; the runs of protocol B are the queue's. The output of each run goes to
RUNS/RECIPE-SEED.out.
"""

import argparse
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from . import protocol
from .corpus import Corpus, add_folders, require_corpora
from .recipe import recipes, refuse_unknown

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


def unlogged_jobs(only: list[str], until: int, seeds: int) -> list[Job]:
    """Returns recipe and seed of each run of protocol A whose log does not reach step `until`, for the first `seeds`
    seeds of each recipe."""
    runs = protocol.runs()
    return [
        (id, seed)
        for id in only or runs
        for seed in runs[id].seeds[:seeds]
        if not protocol.is_done(protocol.read_log(runs[id], seed), until)
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


def resolve_folders(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> tuple[Path, Path]:
    """Returns the absolute folders of the corpora and of the runs. Also makes the tokenizer, which every run needs."""
    require_corpora(parser, arguments)
    Corpus(arguments.corpora, arguments.runs / "corpus")
    return arguments.corpora.resolve(), arguments.runs.resolve()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("only", nargs="*", metavar="RECIPE", help="these alone, in this order")
    add_folders(parser)
    parser.add_argument("--jobs", type=int, default=2, help="one CPU core each")
    parser.add_argument("--protocol", choices=("a",), help="train its runs whose logs are incomplete")
    parser.add_argument(
        "--until",
        type=int,
        default=protocol.STEPS,
        metavar="STEP",
        help="where a run of protocol A is broken off, to be continued later",
    )
    parser.add_argument(
        "--seeds", type=int, default=max(protocol.SEEDS), metavar="N", help="the first N seeds of each recipe"
    )
    arguments = parser.parse_args()
    refuse_unknown(parser, arguments.only, protocol.runs() if arguments.protocol else recipes())
    corpora, runs = resolve_folders(parser, arguments)
    if arguments.protocol:
        jobs = unlogged_jobs(arguments.only, arguments.until, arguments.seeds)
        options = ("--until", str(arguments.until))
    else:
        jobs, options = unfinished_jobs(arguments.runs, arguments.only), ()
    with ThreadPoolExecutor(arguments.jobs) as pool:
        codes = list(pool.map(lambda job: train(*job, corpora, runs, *options), jobs))
    raise SystemExit(max(codes, default=0))


if __name__ == "__main__":
    main()
