"""Watches a model in somebody's own loop, in generation, or under their hooks; the maps become a
recording."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from .attention import Call, UnsupportedModel, observe
from .maps import record_maps
from .recording import Recording


@dataclass
class _Layer:
    """One layer of one sequence: rows of its map, which a cache makes a few at a time."""

    number: int  # the model's own
    rows: list[Tensor] = field(default_factory=list)  # [H, t, S]
    length: int = 0  # queries so far
    sink: bool = False

    def add(self, rows: Tensor, sink: bool) -> None:
        self.rows.append(rows)
        self.length += rows.shape[1]
        self.sink = self.sink or sink

    def map(self, T: int) -> Tensor:
        """[H, T, T]; a cache that keeps the last keys alone holds those before each query."""
        whole = self.rows[0].new_zeros(self.rows[0].shape[0], T, T)
        t = 0
        for rows in self.rows:
            n, S = rows.shape[1:]
            end = min(T, t + n)
            first = t + n - S  # position of the first key that these rows have
            whole[:, t:end, max(0, first) : end] = rows[:, : end - t, max(0, -first) : S - (t + n - end)]
            t += n
        return whole


class Seen:
    """What was seen: `maps` are those of each sequence, `recording` makes a file of them."""

    def __init__(self) -> None:
        self._sequences: list[list[_Layer]] = []
        self._at: dict[int, int] = {}
        self._batch: list[list[_Layer]] = []
        self._blocks = 0

    def visit(self, call: Call) -> None:
        B, H, T, S = call.shape
        chunks = list(call.chunks())
        att = torch.cat([chunk.att for chunk in chunks], 2).cpu()
        if T == S:
            _refuse_padding(torch.cat([chunk.visible.expand(B, 1, -1, S) for chunk in chunks], 2))
        number = call.layer_idx
        known = [layer for layer in self._batch[0] if layer.number == number] if self._batch else []
        goes_on = bool(known) and T < S and len(self._batch) == B
        if not goes_on and (not self._batch or known):
            self._batch = [[] for _ in range(B)]
            self._sequences += self._batch
        if T != S and not goes_on:
            raise UnsupportedModel(
                f"layer {number}: expected the queries of all {S} keys, found {T}: begin to watch "
                "before the cache is filled"
            )
        for b, layers in enumerate(self._batch):
            layer = next((one for one in layers if one.number == number), None)
            if layer is None:
                layer = _Layer(number)
                layers.append(layer)
            layer.add(att[b], call.sinks is not None)

    @property
    def maps(self) -> list[list[Tensor]]:
        """Of each sequence its layers, [H, T, T] each."""
        return [
            [layer.map(min(one.length for one in layers)) for layer in layers]
            for layers in self._sequences
        ]

    def recording(
        self,
        tokens: Iterable[Sequence[Any]],
        *,
        edits: Sequence[Mapping[str, Any] | str] = (),
        **options: Any,
    ) -> Recording:
        """The recording of all sequences, cut to the shortest.

        tokens: of each sequence the strings or ids of its tokens; those beyond its last query are left
            out, as a generated token is until the model reads it.
        edits: in words, what hooks of one's own changed: the recording is then of class EDITED.
        options: those of `record_maps`.
        """
        if not self._sequences:
            raise ValueError("watching: expected calls of attention, found none")
        T = min(layer.length for layers in self._sequences for layer in layers)
        first = self._sequences[0]
        sinks = any(layer.sink for layer in first)
        numbers = [layer.number for layer in first]
        given = ((layer.map(T) for layer in layers) for layers in self._sequences)
        strings = (list(one.tolist() if hasattr(one, "tolist") else one)[:T] for one in tokens)
        if "layers" not in options and numbers != list(range(len(numbers))):
            options["layers"] = numbers
            options.setdefault("blocks", self._blocks or None)
        return record_maps(
            given,
            strings,
            edits=edits,
            operation=options.pop("operation", "sink_logit" if sinks else "softmax"),
            **options,
        )


def _refuse_padding(visible: Tensor) -> None:
    """A key that no query sees is padding, and whose tokens count is not said.  [B, 1, T, S]"""
    hidden = (~visible.any(2)[:, 0]).nonzero().tolist()
    if hidden:
        sequence, key = hidden[0]
        raise UnsupportedModel(
            f"watching: expected sequences without padding, found that no query of sequence {sequence} of its batch "
            f"sees key {key}: watch one sequence at a time, or record(model, tokenizer, [inputs]), which cuts it off"
        )


@contextmanager
def watching(model: nn.Module) -> Iterator[Seen]:
    """Inside the context, every forward pass of `model` is seen: its attention maps, in full.

    The model needs no config: transformers' interface, `scaled_dot_product_attention` and returned
    weights are all seen. A pass whose queries are fewer than its keys goes on with the sequence before
    it, as generation with a cache does; each other pass begins a new sequence. A padded batch is refused.
    Hooks of one's own act as they do without.
    """
    seen = Seen()
    with observe(model, seen.visit) as watch:
        yield seen
    seen._blocks = max(watch.visits.values(), default=0)
