"""Watches a model in a user's own loop, during generation, or with hooks; the maps become a recording."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from . import probe
from .attention import Call, UnsupportedModel, Watch, arguments_of, observe
from .maps import Known, list_of, record_maps
from .recording import Recording


@dataclass
class _Layer:
    """One layer of one sequence: rows of its map, a few at a time with a cache."""

    module: nn.Module
    seen: probe.Seen
    rows: list[Tensor] = field(default_factory=list)  # [H, t, S]
    first: list[Tensor] = field(default_factory=list)  # the first and the last key that each query sees, [t]
    last: list[Tensor] = field(default_factory=list)
    length: int = 0  # queries so far
    sink: bool = False
    keys: Tensor | None = None  # [G, S, 2]: two numbers that identify each key of the last pass

    def add(self, rows: Tensor, visible: Tensor, sink: bool, keys: Tensor | None) -> None:
        """rows [H, t, S], visible bool [t, S]"""
        t, S = rows.shape[1:]
        if self.rows and not self._goes_on(keys, S - t):
            raise UnsupportedModel(
                f"{self.seen.name}: expected a cache that holds the {self.length} tokens before, found another: a "
                "beam search, a candidate that is taken back, or a cache that is filled otherwise mixes the maps of "
                "several sequences; watch a greedy or sampled generation, or one forward pass of the whole text"
            )
        self.rows.append(rows)
        self.length += t
        key = torch.arange(self.length - S, self.length)
        self.first.append(torch.where(visible, key, self.length).amin(-1))
        self.last.append(torch.where(visible, key, -1).amax(-1))
        self.sink, self.keys = self.sink or sink, keys

    def _goes_on(self, keys: Tensor | None, before: int) -> bool:
        """Whether the cache continues the last one; a window may have dropped its first keys."""
        if keys is None or self.keys is None:
            return before == self.length
        start = self.keys.shape[1] - before
        return start >= 0 and torch.equal(keys[:, :before], self.keys[:, start:])

    def range(self, T: int) -> tuple[Tensor, Tensor] | None:
        """Returns the first and the last key that each query sees, [T]; None if only the weights are known."""
        if self.seen.by_weights:
            return None
        return torch.cat(self.first)[:T], torch.cat(self.last)[:T].clamp_max(T - 1)

    def map(self, T: int) -> Tensor:
        """Returns [H, T, T]; a cache that keeps only the last keys holds those before each query."""
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
    """The observed sequences: `maps` returns their maps, `recording` makes a file of them."""

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._watch: Watch | None = None
        self._sequences: list[list[_Layer]] = []
        self._batch: list[list[_Layer]] = []
        self._run = 0  # the forward pass of the last call
        self._at = 0  # calls so far
        self._goes_on = False  # with the sequences of the pass before

    def visit(self, call: Call) -> None:
        B, H, T, S = call.shape
        probe.refuse_crossed(call)
        chunks = list(call.chunks())
        att = torch.cat([chunk.att for chunk in chunks], 2).cpu()
        visible = torch.cat([chunk.visible.expand(B, 1, -1, S) for chunk in chunks], 2)[:, 0].cpu()
        if T == S:
            _refuse_padding(call, visible)
        if call.run != self._run:
            self._run, self._at = call.run, 0
            self._goes_on = bool(self._batch) and T < S and len(self._batch) == B
            if not self._goes_on:
                self._batch = [[] for _ in range(B)]
                self._sequences += self._batch
        if T != S and not self._goes_on:
            raise UnsupportedModel(
                f"{probe.where(call)}: expected the queries of all {S} keys, found {T}: begin to watch "
                "before the cache is filled"
            )
        if len(self._batch) != B:
            raise UnsupportedModel(f"{probe.where(call)}: expected {len(self._batch)} sequences as in the layers "
                                   f"before, found {B}")
        keys = call.cached if call.key is None else call.key
        keys = None if keys is None or keys.shape[2] != S else keys[..., [0, -1]].cpu()
        for b, layers in enumerate(self._batch):
            if not self._goes_on:
                layers.append(_Layer(call.module, probe.Seen.of(call)))
            elif self._at >= len(layers) or layers[self._at].module is not call.module:
                raise UnsupportedModel(f"{probe.where(call)}: expected the layers of the pass before, found another")
            layers[self._at].add(att[b], visible[b], call.sinks is not None, None if keys is None else keys[b])
        self._at += 1

    @property
    def maps(self) -> list[list[Tensor]]:
        """Returns the layers of each sequence, [H, T, T] each."""
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
        numbers, blocks = self._numbers()
        T = min(layer.length for layers in self._sequences for layer in layers)
        sinks = any(layer.sink for layer in self._sequences[0])
        given = ((layer.map(T) for layer in layers) for layers in self._sequences)
        strings = (list_of(one, f"tokens of sequence {i}")[:T] for i, one in enumerate(list_of(tokens, "tokens")))
        if "layers" not in options:
            options["layers"] = numbers
            options.setdefault("blocks", blocks)
        return record_maps(
            given,
            strings,
            edits=edits,
            operation=options.pop("operation", "sink_logit" if sinks else "softmax"),
            _known=self._known(T),
            **options,
        )

    def _known(self, T: int) -> Known:
        layers = self._sequences[0]
        for i, sequence in enumerate(self._sequences):
            for layer, one in zip(layers, sequence, strict=True):
                expected, found = layer.range(T), one.range(T)
                if expected and found and not all(map(torch.equal, expected, found)):
                    raise UnsupportedModel(
                        f"{one.seen.name}: expected the mask of the first sequence, found another in sequence {i}: "
                        "make one recording of the sequences of each")
        H, G, K = ({getattr(layer.seen, of) for layer in layers} for of in ("H", "G", "K"))
        D, V = probe.width(self._model)
        return Known(
            [layer.range(T) for layer in layers],
            G.pop() if len(G) == 1 else max(H),
            max(K) or probe.head_width(self._model, max(H)),
            D,
            V or 1,
            layers[-1].seen.softcap,
        )

    def _numbers(self) -> tuple[list[int], int]:
        """The numbers of the layers with attention, which all sequences have in common, and of all layers."""
        ran = self._watch.most if self._watch else {}
        first, *others = [[layer.seen for layer in layers] for layers in self._sequences]
        numbers, blocks, _ = probe.layers_of(self._model, first, ran)
        for i, layers in enumerate(others, 1):
            if [seen.path for seen in layers] != [seen.path for seen in first]:
                raise UnsupportedModel(
                    f"watching: expected the same layers in each sequence, found others in sequence {i}: "
                    f"{_list(layers)} after {_list(first)}"
                )
        for i, sequence in enumerate(self._sequences):
            lengths = {layer.length for layer in sequence}
            if len(lengths) > 1:
                raise UnsupportedModel(
                    f"watching: expected as many queries in each layer, found {min(lengths)} to {max(lengths)} in "
                    f"sequence {i}: some passes ended early"
                )
        return numbers, blocks


def _list(layers: Sequence[probe.Seen]) -> str:
    return ", ".join(probe.named(seen.path) for seen in layers)


def _refuse_padding(call: Call, visible: Tensor) -> None:
    """Refuses keys that no query sees: they are padding, and their tokens would count. [B, T, T]"""
    hidden = (~visible.any(1)).nonzero().tolist()
    if hidden:
        sequence, key = hidden[0]
        raise _padded(f"that no query of sequence {sequence} of its batch sees key {key}")
    for sequence, sees in enumerate(visible):
        first, last = probe.reach(sees)
        # Returned weights of a pad may be uniform over all keys.
        if call.weights is not None and not probe.has_a_kind(first, last):
            raise _padded(f"that queries of sequence {sequence} of its batch see keys behind them and others do not "
                          f"({probe.where(call)})")


def _padded(found: str) -> UnsupportedModel:
    return UnsupportedModel(
        f"watching: expected sequences without padding, found {found}: watch one sequence at a time, or "
        "record(model, tokenizer, [inputs]), which cuts it off"
    )


def _refusing_masks(module: nn.Module) -> Callable[..., None]:
    """Returns a hook that refuses masks, since a family that returns its weights does not report hidden keys."""
    arguments = arguments_of(module)

    def refuse(_: nn.Module, args: Any, kwargs: Any) -> None:
        mask = arguments(args, kwargs).get("attention_mask")
        if isinstance(mask, Tensor) and mask.dim() == 2 and (hidden := (mask == 0).nonzero().tolist()):
            raise _padded(f"that attention_mask hides token {hidden[0][1]} of sequence {hidden[0][0]} of its batch")

    return refuse


@contextmanager
def watching(model: nn.Module) -> Iterator[Seen]:
    """Inside the context, every forward pass of `model` is seen: its attention maps, in full.

    The model needs no config: transformers' interface, `scaled_dot_product_attention` and returned
    weights are all seen. A pass whose queries are fewer than its keys goes on with the sequence before
    it, as generation with a cache does; each other pass begins a new sequence, and so does each run of a model that
    another calls twice in a pass. A padded batch is refused, and so is a beam search. Hooks of one's own act as they do
    without. Other models that run meanwhile are not seen, nor what a checkpoint computes again.
    """
    seen = Seen(model)
    with ExitStack() as stack:
        for module in model.modules():
            if module is model or isinstance(module, PreTrainedModel):
                stack.callback(module.register_forward_pre_hook(_refusing_masks(module), with_kwargs=True).remove)
        seen._watch = stack.enter_context(observe(model, seen.visit))
        yield seen
