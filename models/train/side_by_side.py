"""Trains the runs that protocol B still needs on one CUDA device, many runs at the same time.

    python -m models.train.side_by_side --corpora FOLDER --runs models/.runs --minutes 30
    python -m models.train.side_by_side long-lr-1e-3 --seeds 1 2 3 --again FOLDER ...     a control

A step of these models is a thousand small kernels, which leave a large device idle. So the step of each run is captured
once as a CUDA graph, and the graphs of many runs replay at once, each on its own stream. The arithmetic is that of
`train` in float32. Processes on the CPU measure the outcomes as `train` does; a log names the device that trained the
run. A run that does not finish within the minutes leaves no log. A step of Muon or SGD cannot be captured: --uncaptured
trains only these runs, and another process may train the others meanwhile. --again trains runs again and writes their
logs to another folder, to compare devices.
"""

import argparse
import math
import multiprocessing
import os
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from functools import cache
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from ..reference.model import Weights, architecture
from . import protocol, queue
from .all import Job, resolve_folders
from .corpus import Corpus, add_folders
from .loss import LOSSES, Loss
from .outcomes import Log
from .recipe import Recipe, Training, refuse_unknown
from .train import (
    SAVE_EVERY,
    fixed_loss,
    is_logged_step,
    learning_rate,
    make_optimizers,
    set_rates,
    trainable_weights,
    update_weights,
)

CAPTURE_WARM_UP_STEPS = 3  # steps before a capture, in which libraries allocate their memory


def device_name(device: str) -> str:
    if device == "cpu":
        return f"CPU, torch {torch.__version__}"
    return f"{torch.cuda.get_device_name(device)}, torch {torch.__version__}"


@cache
def compile_loss(objective: str) -> Loss:
    """Returns a loss that torch compiles for each architecture, with all sizes as constants."""
    torch._dynamo.config.recompile_limit = len(protocol.B_ORDER)
    return torch.compile(LOSSES[objective], dynamic=False)


class GraphRun:
    """A run whose step is one CUDA graph if it can be captured. A step reads the text at `index`, which the device
    stores, and increments `index`."""

    def __init__(self, recipe: Recipe, seed: int, corpus: Corpus, device: str) -> None:
        training = recipe.training
        self.recipe, self.seed, self.step = recipe, seed, 0
        self.arch = architecture(recipe.config)
        self.loss_of = LOSSES[training.objective] if device == "cpu" else compile_loss(training.objective)
        self.weights = trainable_weights(self.arch, seed, training, device)
        self.text, self.noise = draw_batches(
            corpus, seed, recipe.sequences, recipe.context, batch_options(training), device
        )
        self.rates = torch.tensor([learning_rate(step, training) for step in range(len(self.text))], device=device)
        self.losses = torch.zeros(len(self.text), device=device)
        self.index = torch.zeros(1, dtype=torch.long, device=device)
        self.rate = torch.tensor(training.learning_rate, device=device)
        self.optimizers = make_optimizers(self.weights, training, lr=self.rate, capturable=device != "cpu")
        self.graph = None
        if device != "cpu" and is_capturable(recipe):
            self._capture()

    def _advance(self) -> None:
        self.rate.copy_(self.rates[self.index].squeeze(0))
        set_rates(self.optimizers, self.step, self.recipe.training)
        loss = self.loss_of(
            self.arch,
            self.weights,
            self.text[self.index].squeeze(0),
            self.noise[self.index].squeeze(0),
            self.recipe.training,
        )
        self.losses.index_copy_(0, self.index, loss.detach()[None])
        update_weights(loss, self.weights, self.optimizers)
        self.index += 1

    def _capture(self) -> None:
        """Captures the step. The warm-up steps change the run, so this restores its state from before them."""
        self.stream, self.graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            initial_weights = {name: w.detach().clone() for name, w in self.weights.items()}
            for _ in range(CAPTURE_WARM_UP_STEPS):
                self._advance()
        self.stream.synchronize()
        with torch.cuda.graph(self.graph, stream=self.stream):
            self._advance()
        with torch.cuda.stream(self.stream), torch.no_grad():
            for name, w in self.weights.items():
                w.copy_(initial_weights[name])
            for optimizer in self.optimizers:
                for state in optimizer.state.values():
                    for value in state.values():
                        value.zero_()
            self.index.zero_()

    def advance(self) -> None:
        if self.graph is None:
            self._advance()
        else:
            with torch.cuda.stream(self.stream):
                self.graph.replay()
        self.step += 1

    def train_loss(self) -> float | None:
        """Returns the mean training loss since the last earlier step that has a line in a log of `train`."""
        previous_line = next((step for step in range(self.step - 1, -1, -1) if is_logged_step(step)), None)
        return None if previous_line is None else round(self.losses[previous_line : self.step].mean().item(), 4)

    def snapshot(self) -> tuple[Weights, float | None]:
        if self.graph is not None:
            self.stream.synchronize()
        return {name: w.detach().cpu().clone() for name, w in self.weights.items()}, self.train_loss()


@cache
def _open_corpus(corpora: Path, runs: Path) -> Corpus:
    return Corpus(corpora, runs / "corpus")


@cache
def _open_log(id: str, seed: int, zoo: Path) -> Log:
    return Log(protocol.decisive_runs()[id], seed, zoo)


def measure(
    job: Job, step: int, file: Path, train_loss: float | None, device: str, zoo: Path, corpora: Path, runs: Path
) -> None:
    """Adds a point to the log of a run, measured on the weights in `file`, and deletes the file."""
    torch.set_num_threads(1)
    log = _open_log(*job, zoo)
    run = SimpleNamespace(recipe=log.recipe, arch=log.arch, weights=load_file(file), device="cpu")
    file.unlink()
    if step == 0:
        log.keep_before(0)
    log.log["device"] = device
    log.add(step, run.weights, train_loss, fixed_loss(run, _open_corpus(corpora, runs)))


class Measurer:
    """Measures points of many runs in several processes. One process measures all points of a run."""

    def __init__(self, processes: int, device: str, zoo: Path, corpora: Path, runs: Path) -> None:
        spawn = multiprocessing.get_context("spawn")
        self.pools = [ProcessPoolExecutor(1, spawn) for _ in range(processes)]
        self.arguments = device_name(device), zoo, corpora, runs
        self.job_counter, self.pool_by_job = count(), {}
        self.pending: list[Future[None]] = []
        # Holds weights until a process takes them: in memory where the system has /dev/shm.
        self.folder = tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None)

    def add(self, job: Job, step: int, weights: Weights, train_loss: float | None) -> None:
        file = Path(self.folder.name) / f"{job[0]}-{job[1]}-{step}.safetensors"
        save_file(weights, file)
        if job not in self.pool_by_job:
            self.pool_by_job[job] = self.pools[next(self.job_counter) % len(self.pools)]
        self.pending.append(self.pool_by_job[job].submit(measure, job, step, file, train_loss, *self.arguments))

    def catch_up(self) -> bool:
        has_waited = bool(self.pending)
        while self.pending:
            self.pending.pop().result()
        return has_waited

    def close(self) -> None:
        self.catch_up()
        for pool in self.pools:
            pool.shutdown()
        self.folder.cleanup()


def is_capturable(recipe: Recipe) -> bool:
    """Whether a CUDA graph can capture a step, unlike those of Muon and SGD, which read the rate on the CPU."""
    return recipe.training.optimizer == "adamw"


@cache
def draw_batches(
    corpus: Corpus, seed: int, sequences: int, T: int, options: Training, device: str
) -> tuple[Tensor, Tensor]:
    """Returns the texts [S, N, T+1] and the noise [S, N, T+2] of all S steps of a run. Cached, so that runs with the
    same arguments share them."""
    pairs = [corpus.draw_batch(seed, step, sequences, T, options) for step in range(protocol.B_STEPS)]
    text, noise = (torch.stack(tensors).to(device) for tensors in zip(*pairs))
    return text, noise


def batch_options(training: Training) -> Training:
    """Returns only the options that Corpus.draw_batch reads, so that runs can share batches."""
    return Training(
        front=training.front,
        tokens=training.tokens,
        random_first=training.random_first,
        fixed_at=training.fixed_at,
        fixed_token=training.fixed_token,
        one_document=training.one_document,
    )


def train_runs(
    due_runs: Callable[[], Iterable[tuple[Recipe, int]]],
    corpora: Path,
    runs: Path,
    measurer: Measurer,
    device: str,
    width: int,
    deadline: float,
    capturable: bool = True,
) -> set[Job]:
    """Trains the runs whose steps can be captured, or with `capturable` false the others, until no further run can
    begin or the time `deadline` is reached. Returns the unfinished runs."""
    corpus, active_runs, begun_jobs = _open_corpus(corpora, runs), [], set[Job]()
    duration = 0.0  # seconds of a complete run at the current pace
    while True:
        for recipe, seed in due_runs() if len(active_runs) < width else ():
            if len(active_runs) == width or time.monotonic() + duration > deadline:
                break
            job = recipe.id, seed
            if job in begun_jobs or is_capturable(recipe) != capturable:
                continue
            begun_jobs.add(job)
            active_runs.append(GraphRun(recipe, seed, corpus, device))
            measurer.add(job, 0, *active_runs[-1].snapshot())
        if time.monotonic() > deadline:
            return {(run.recipe.id, run.seed) for run in active_runs}
        if not active_runs:
            # The last points may make further seeds due.
            if measurer.catch_up():
                continue
            return set()
        start = time.monotonic()
        for _ in range(SAVE_EVERY):
            for run in active_runs:
                run.advance()
        for run in active_runs:
            measurer.add((run.recipe.id, run.seed), run.step, *run.snapshot())
        seconds = time.monotonic() - start
        duration = seconds * protocol.B_STEPS / SAVE_EVERY
        print(
            f"{len(active_runs)} runs side by side, {seconds / SAVE_EVERY / len(active_runs) * 1000:.2f} ms for "
            "a step of each",
            flush=True,
        )
        active_runs = [run for run in active_runs if run.step < protocol.B_STEPS]


def main() -> None:
    recipes_by_id = protocol.decisive_runs()
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("only", nargs="*", metavar="RECIPE", help="these alone, b-ID")
    add_folders(parser)
    parser.add_argument("--device", default="cuda", help="cuda, or cpu to try it out")
    parser.add_argument("--width", type=int, default=8, help="runs side by side")
    parser.add_argument("--measurers", type=int, default=os.cpu_count(), help="CPU cores that measure")
    parser.add_argument("--minutes", type=float, default=math.inf, help="when to break off")
    parser.add_argument("--uncaptured", action="store_true", help="the runs that cannot be captured, not the others")
    parser.add_argument(
        "--again", type=Path, metavar="ZOO", help="train the recipes given again and write their logs to this folder"
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3], help="with --again")
    arguments = parser.parse_args()
    refuse_unknown(parser, arguments.only, recipes_by_id)
    deadline = time.monotonic() + 60 * arguments.minutes
    corpora, runs = resolve_folders(parser, arguments)
    zoo = (arguments.again or protocol.ZOO).resolve()

    def due_runs() -> Iterator[tuple[Recipe, int]]:
        if arguments.again:
            yield from ((recipes_by_id[id], seed) for id in arguments.only for seed in arguments.seeds)
        else:
            yield from ((recipe, seed) for _, recipe, seed in queue.due_jobs(arguments.only))

    measurer = Measurer(arguments.measurers, arguments.device, zoo, corpora, runs)
    unfinished_jobs = train_runs(
        due_runs, corpora, runs, measurer, arguments.device, arguments.width, deadline, not arguments.uncaptured
    )
    measurer.close()
    for id, seed in unfinished_jobs:
        protocol.log_file(recipes_by_id[id], seed, zoo).unlink()
    print(f"not ended: {sorted(unfinished_jobs)}" if unfinished_jobs else "nothing is left")


if __name__ == "__main__":
    main()
