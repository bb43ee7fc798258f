"""Trains one recipe: with the text, tokenizer, seed, order, initial weights and steps of the baseline, and one factor
changed.

    python -m models.train.train softmax --corpora FOLDER --runs models/.runs
    python -m models.train.train sigmoid --corpora FOLDER --runs models/.runs

The same command continues an interrupted run from its last checkpoint.
"""

import argparse
import fcntl
import json
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TextIO

import torch
from safetensors.torch import save_file
from sinkscope import metrics
from torch import Tensor

from ..reference.model import Architecture, Weights, architecture, forward
from ..reference.operations import OPERATIONS
from ..reference.shapes import shapes, variant_shapes
from . import protocol
from .corpus import Corpus, add_folders, encode, require_corpora
from .loss import LOSSES, Loss, unmask_loss
from .outcomes import Log
from .recipe import Recipe, Training, recipes, refuse_unknown
from .text import VOCABULARY

WARM_UP_STEPS = 100
SAVE_EVERY = 200
INITIAL_DEVIATION = 0.02
EARLY_SAVES = (0, 1, 3, 10, 30, 100)
LOG_EVERY = 100
EARLY_LOGS = (0, 1, 2, 3, 5, 7, 10, 14, 20, 30, 40, 50, 70, 150, 250, 350, 450)
PROBE_SEQUENCES, PROBE_T = 20, 64
FIXED_SEQUENCES = 64  # number of training sequences whose loss is measured at every point of a log


def initial_weights(arch: Architecture, seed: int, training: Training) -> Weights:
    """Draws initial weights: N(0, 0.02^2) for tensors of two dimensions, with the recipe's deviation for the embedding
    if it has one; gains of 1; 0 for biases of norms and for sink logits. Tensors that only a variant has, and rows of
    additional tokens, are drawn last, so that every other weight of the same shape equals the baseline's; of a mixture
    of experts, whose experts are drawn layer by layer, only those up to the first experts do."""
    generator = torch.Generator().manual_seed(seed)

    def draw(name: str, shape: tuple[int, ...]) -> Tensor:
        if name.endswith("sinks") or name.endswith("norm.bias"):
            return torch.zeros(shape)
        if len(shape) == 1:
            return torch.ones(shape)
        return torch.randn(*shape, generator=generator) * INITIAL_DEVIATION

    extra_shapes, weights = variant_shapes(arch), {}
    for name, shape in shapes(arch).items():
        is_by_token = shape[0] == arch.V and name not in extra_shapes
        weights[name] = draw(name, (VOCABULARY, *shape[1:]) if is_by_token else shape)
    for name, weight in weights.items():
        if name not in extra_shapes and weight.shape[0] == VOCABULARY < arch.V:
            rows = draw(name, (arch.V - VOCABULARY, *weight.shape[1:]))
            weights[name] = torch.cat([weight, rows])
    weights["model.embed_tokens.weight"] *= training.embedding_deviation / INITIAL_DEVIATION
    if training.bias_dimensions is not None:
        for name, weight in weights.items():
            if name.endswith("bias_key"):
                weight[..., training.bias_dimensions :] = 0
    for name in fixed_tensor_names(weights, training):
        weights[name] = torch.zeros_like(weights[name])
        weights[name][..., 0] = training.bias_value
    return weights


def fixed_tensor_names(weights: Weights, training: Training) -> list[str]:
    return [name for name in weights if training.bias_value is not None and name.endswith("bias_key_value")]


def weight_decay(name: str, weight: Tensor, training: Training) -> float:
    """Returns the weight decay of a tensor; 0 for vectors, since decay would pull the gains among them to 0."""
    if weight.dim() < 2:
        return 0.0
    return training.embedding_decay if "embed" in name else training.weight_decay


def mask_gradient(gradient: Tensor, count: int) -> Tensor:
    gradient = gradient.clone()
    gradient[..., count:] = 0
    return gradient


def make_optimizers(weights: Weights, training: Training, **adamw: Any) -> list[torch.optim.Optimizer]:
    """Returns the optimizers of a training run. Muon trains the matrices between embedding and head (Jordan et al.
    2024), with steps as long as AdamW's (Liu et al. 2025, section 2.2), and AdamW the other tensors. `adamw` has
    further options of AdamW."""
    groups: dict[tuple[str, float], list[Tensor]] = {}
    for name, w in weights.items():
        if w.requires_grad:
            is_inner = w.dim() == 2 and "embed" not in name and "lm_head" not in name
            kind = "adamw" if training.optimizer == "muon" and not is_inner else training.optimizer
            groups.setdefault((kind, weight_decay(name, w, training)), []).append(w)

    def groups_of(kind: str) -> list[dict[str, Any]]:
        return [
            {"params": params, "weight_decay": rate}
            for (group_kind, rate), params in groups.items()
            if group_kind == kind
        ]

    makers: dict[str, Callable[[list[dict[str, Any]]], torch.optim.Optimizer]] = {
        "adamw": partial(
            torch.optim.AdamW, **{"lr": training.learning_rate, "betas": (0.9, 0.95), "fused": True} | adamw
        ),
        "muon": partial(torch.optim.Muon, lr=training.learning_rate, momentum=0.95, adjust_lr_fn="match_rms_adamw"),
        "sgd": partial(torch.optim.SGD, lr=training.learning_rate, momentum=0.9),
    }
    return [make(groups_of(kind)) for kind, make in makers.items() if groups_of(kind)]


def learning_rate(step: int, training: Training) -> float:
    """Returns the learning rate: a linear warm-up, then constant, then a linear fall to a tenth."""
    if step < WARM_UP_STEPS:
        return training.learning_rate * (step + 1) / WARM_UP_STEPS
    begin, end = training.decay_steps
    fall_share = min(1.0, max(0, step - begin) / (end - begin))
    return training.learning_rate * (1 - 0.9 * fall_share)


def is_logged_step(step: int) -> bool:
    return step in EARLY_LOGS or step % LOG_EVERY == 0


@torch.no_grad()
def measure_probe(arch: Architecture, weights: Weights, ids: Tensor) -> dict[str, float]:
    trace = forward(arch, weights, ids)
    alphas = metrics.alpha(OPERATIONS[arch.operation].to_shares(trace.att), arch.mask.kind)
    values = {"held_out_loss": round(metrics.loss(trace.logits, ids).mean().item(), 4)}
    if arch.mask.kind == "bidirectional":
        noise = torch.rand(len(ids), ids.shape[1] + 1, generator=torch.Generator().manual_seed(0))
        values["held_out_loss"] = round(unmask_loss(arch, weights, ids, noise, Training()).item(), 4)
    sinks = metrics.sink(alphas)
    values |= {
        "sink_1": round(sinks[0].item(), 2),
        "alpha_max": round(alphas.mean(0)[..., 0].max().item(), 4),
        "hidden_ratio": round(metrics.first_to_others(trace.hidden)[:, 1:].mean(0).max().item(), 3),
        "value_ratio": round(metrics.first_to_others(trace.v).mean().item(), 3),
        "row_mass": round(metrics.row_mass(trace.att).mean().item(), 4),
        "sink_k": round(sinks[1:].max().item(), 2),
    }
    if trace.att_bias is not None:
        values["sink_bias"] = round(metrics.sink(metrics.alpha_bias(trace.att_bias)).item(), 2)
    return values


def _lock_folder(folder: Path) -> TextIO | None:
    """Locks a run's folder. Closing the returned file ends the lock; None if another process has it."""
    folder.mkdir(parents=True, exist_ok=True)
    file = (folder / "lock").open("w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    return file


def is_training(folder: Path) -> bool:
    if not folder.exists():
        return False
    lock = _lock_folder(folder)
    if lock is None:
        return True
    with lock:
        return False


def trainable_weights(arch: Architecture, seed: int, training: Training, device: str) -> Weights:
    weights = initial_weights(arch, seed, training)
    fixed_names = fixed_tensor_names(weights, training)
    weights = {n: w.to(device).requires_grad_(n not in fixed_names) for n, w in weights.items()}
    for name, w in weights.items():
        if name.endswith("bias_key") and training.bias_dimensions is not None:
            w.register_hook(partial(mask_gradient, count=training.bias_dimensions))
    return weights


def set_rates(optimizers: list[torch.optim.Optimizer], step: int, training: Training) -> None:
    """Sets the step's learning rate in each optimizer that reads its rate on the CPU."""
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            if isinstance(group["lr"], float):
                group["lr"] = learning_rate(step, training)


def update_weights(loss: Tensor, weights: Weights, optimizers: list[torch.optim.Optimizer]) -> None:
    loss.backward()
    torch.nn.utils.clip_grad_norm_(weights.values(), 1.0)
    for optimizer in optimizers:
        optimizer.step()
        optimizer.zero_grad()


class Run:
    def __init__(self, recipe: Recipe, seed: int, runs: Path, device: str) -> None:
        self.recipe, self.device = recipe, device
        self.arch = architecture(recipe.config)
        self.folder = runs / f"{recipe.id}-{seed}"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.checkpoint, self.log = self.folder / "checkpoint.pt", self.folder / "training.jsonl"
        self.weights = trainable_weights(self.arch, seed, recipe.training, device)
        self.optimizers = make_optimizers(self.weights, recipe.training)
        self.start = 0
        if self.checkpoint.exists():
            self._resume()
        # Losses by logged step. An interrupted run repeats the steps after its checkpoint, so their lines are dropped.
        # The line of the checkpoint's own step is kept, because the losses of the batches before it are lost.
        lines = self.log.read_text().splitlines() if self.checkpoint.exists() and self.log.exists() else []
        kept_lines = {step: line for line in lines if (step := json.loads(line)["step"]) <= self.start}
        self.losses = {step: json.loads(line).get("loss") for step, line in kept_lines.items()}
        self.log.write_text("".join(line + "\n" for line in kept_lines.values()))

    def _resume(self) -> None:
        saved_state = torch.load(self.checkpoint, map_location=self.device)
        self.start = saved_state["step"]
        with torch.no_grad():
            for name, w in self.weights.items():
                w.copy_(saved_state["weights"][name])
        for optimizer, state in zip(self.optimizers, saved_state["optimizers"], strict=True):
            optimizer.load_state_dict(state)

    def advance(self, step: int, text: Tensor, noise: Tensor, loss_of: Loss) -> float:
        set_rates(self.optimizers, step, self.recipe.training)
        loss = loss_of(self.arch, self.weights, text.to(self.device), noise.to(self.device), self.recipe.training)
        update_weights(loss, self.weights, self.optimizers)
        return loss.item()

    def cpu_weights(self) -> Weights:
        return {name: w.detach().cpu() for name, w in self.weights.items()}

    def save(self, step: int) -> None:
        weights = self.cpu_weights()
        save_file(weights, self.folder / f"step-{step:04d}.safetensors")
        state = {
            "step": step,
            "weights": weights,
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
        }
        torch.save(state, self.checkpoint.with_suffix(".new"))
        os.replace(self.checkpoint.with_suffix(".new"), self.checkpoint)

    def log_step(self, step: int, losses: list[float], ids: Tensor) -> None:
        record: dict[str, float] = {"step": step}
        if losses:
            record["loss"] = round(sum(losses) / len(losses), 4)
        record |= measure_probe(self.arch, self.weights, ids)
        with self.log.open("a") as file:
            file.write(json.dumps(record) + "\n")
        self.losses[step] = record.get("loss")
        print(record, flush=True)


@torch.no_grad()
def fixed_loss(run: Any, corpus: Corpus) -> float:
    """Returns the loss on FIXED_SEQUENCES sequences of the recipe's training text, the same at every step and for every
    seed. The held-out loss minus this loss shows overfitting."""
    recipe, losses = run.recipe, []
    for i in range(FIXED_SEQUENCES // recipe.sequences):
        text, noise = corpus.draw_batch(0, i, recipe.sequences, recipe.context, recipe.training)
        loss_of = LOSSES[recipe.training.objective]
        losses.append(loss_of(run.arch, run.weights, text.to(run.device), noise.to(run.device), Training()))
    return sum(loss.item() for loss in losses) / len(losses)


def train(
    recipe: Recipe,
    seed: int,
    corpora: Path,
    runs: Path,
    device: str,
    until: int | None = None,
    zoo: Path = protocol.ZOO,
) -> None:
    """Trains a run from its last checkpoint to its last step, or to step `until`, from which a later call can
    continue. Its log goes to `zoo`."""
    lock = _lock_folder(runs / f"{recipe.id}-{seed}")
    if lock is None:
        raise SystemExit(f"{recipe.id}-{seed}: another process trains this run")
    with lock:
        _train(recipe, seed, corpora, runs, device, until, zoo)


def _train(recipe: Recipe, seed: int, corpora: Path, runs: Path, device: str, until: int | None, zoo: Path) -> None:
    corpus, training = Corpus(corpora, runs / "corpus"), recipe.training
    run = Run(recipe, seed, runs, device)
    loss_of = torch.compile(LOSSES[training.objective])
    ids = encode(corpus.tokenizer, corpus.held_out[:PROBE_SEQUENCES], PROBE_T, training).to(device)
    log = Log(recipe, seed, zoo) if recipe.id.startswith((protocol.LONG_PREFIX, protocol.B_PREFIX)) else None
    if log is not None:
        # Drops the steps that the run repeats, since another machine may give other bits.
        log.keep_before(run.start + (run.start in run.losses))
    losses: list[float] = []
    start = time.monotonic()
    last_step = training.steps if until is None else min(until, training.steps)
    for step in range(run.start, last_step + 1):
        # The weights are those after `step` steps.
        if is_logged_step(step) and step not in run.losses:
            run.log_step(step, losses, ids)
            losses = []
        if step in EARLY_SAVES or step % SAVE_EVERY == 0:
            run.save(step)
            if log is not None and log.lacks(step):
                log.add(step, run.cpu_weights(), run.losses.get(step), fixed_loss(run, corpus))
        if step == last_step:
            break
        text, noise = corpus.draw_batch(seed, step, recipe.sequences, recipe.context, training)
        losses.append(run.advance(step, text, noise, loss_of))
    print(f"{run.folder.name}: {time.monotonic() - start:.0f} s", flush=True)


def main() -> None:
    recipes_by_id = recipes() | protocol.runs() | protocol.decisive_runs()
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "recipe", metavar="RECIPE", help=f"{', '.join(recipes())}; long-RECIPE, b-RECIPE: as protocol A or B trains it"
    )
    add_folders(parser)
    parser.add_argument(
        "--zoo", type=Path, default=protocol.ZOO, help="folder for the log of a protocol's run (default: models/zoo)"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument(
        "--until", type=int, metavar="STEP", help="a step to break off at, one at which checkpoints are written"
    )
    arguments = parser.parse_args()
    refuse_unknown(parser, [arguments.recipe], recipes_by_id)
    require_corpora(parser, arguments)
    if arguments.until is not None and arguments.until % SAVE_EVERY:
        parser.error(f"--until is {arguments.until}, expected a multiple of {SAVE_EVERY}")
    torch.set_num_threads(1)
    train(
        recipes_by_id[arguments.recipe],
        arguments.seed,
        arguments.corpora,
        arguments.runs,
        arguments.device,
        arguments.until,
        arguments.zoo,
    )


if __name__ == "__main__":
    main()
