"""Logs the sinks of a model while it is trained."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from torch import nn
from transformers import TrainerCallback

from .recorder import Recorder, find_device
from .recording import Recording
from .settings import Settings
from .texts import select_texts

Log = Callable[[Mapping[str, float], int], Any]


class Monitor:
    """Measures a model on the same prompts every `every` steps of its training, and gives the numbers to a logger.

        monitor = sinkscope.Monitor(model, tokenizer, texts, log=lambda numbers, step: wandb.log(numbers, step))
        for step, batch in enumerate(batches): ...; monitor.step(step)

        monitor = sinkscope.Monitor(model, tokenizer, texts, every=100).attach(trainer)   # transformers' Trainer

    `numbers`, under "sinkscope/": `sink_1` (share of heads, at `eps`), `alpha_1` (mean over heads) and `alpha_max` (the
    strongest head), by the weights that the model uses as in `Recording.measure`, and the ratios first token to others
    of hidden states (`hidden_ratio`, the largest over layers), keys and values (`key_ratio`, `value_ratio`, means); of
    rows that need not sum to 1 also `row_mass`. They are those of `record` on the same prompts. The model's mode,
    gradients and random numbers stay as they are.
    """

    def __init__(
        self,
        model: nn.Module,
        tokenizer: Any,
        texts: Iterable[Any],
        every: int = 100,
        *,
        tokens: int = 64,
        eps: float = 0.3,
        batch: int = 8,
        column: str | None = None,
        take: int | None = None,
        by: str | None = None,
        log: Log | None = None,
        **settings: Any,
    ) -> None:
        if not isinstance(every, int) or every < 1:
            raise ValueError(f"every: expected 1 or more, found {every!r}")
        self.every, self.batch, self.log = every, batch, log
        self._settings = Settings.from_arguments(tokens, [eps], 0, (), "none", **settings)
        self._recorder = Recorder(model, tokenizer, self._settings)
        self._prompts = self._recorder.make_prompts(select_texts(texts, column, take, by))

    def step(self, step: int) -> dict[str, float] | None:
        """Measures if `step` is a multiple of `every`, logs the numbers and returns them; otherwise None."""
        if step % self.every:
            return None
        numbers = self.measure()
        if self.log is not None:
            self.log(numbers, step)
        return numbers

    def measure(self) -> dict[str, float]:
        self._recorder.device = find_device(self._recorder.model)  # a trainer may have moved the model
        recording = self._recorder.record(self._prompts, self.batch, False, [], source="texts")
        return {f"sinkscope/{name}": float(x) for name, x in _numbers(recording).items()}

    def attach(self, trainer: Any) -> "Monitor":
        """Adds a callback to transformers' Trainer, which logs through all trackers that the trainer reports to, at the
        first step and then every `every` steps."""
        trainer.add_callback(_Callback(self, trainer))
        return self


class _Callback(TrainerCallback):
    def __init__(self, monitor: Monitor, trainer: Any) -> None:
        self.monitor, self.trainer = monitor, trainer

    def _log(self, step: int) -> None:
        numbers = self.monitor.step(step)
        if numbers is not None:
            self.trainer.log(numbers)

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._log(state.global_step)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._log(state.global_step)


def _numbers(recording: Recording) -> dict[str, Any]:
    measured = recording.measure()
    alpha = measured["alpha"]
    numbers = {"sink_1": measured["sink"], "alpha_1": alpha.mean(), "alpha_max": alpha.max()}
    choices = (("hidden_ratio", np.max), ("key_ratio", np.mean), ("value_ratio", np.mean), ("row_mass", np.mean))
    for name, choose in choices:
        if f"mean.{name}" in recording and (name != "row_mass" or "mean.alpha_raw" in recording):
            numbers[name] = choose(recording[f"mean.{name}"])
    return numbers
