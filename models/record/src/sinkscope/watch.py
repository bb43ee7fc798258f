"""Collects the attention maps of a model in a user's own loop, also during generation or with hooks, and makes a
recording of them."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from . import probe
from .attention import Call, UnsupportedModel, Watch, argument_namer, observe
from .maps import KnownFacts, record_maps, to_list
from .recording import Recording


@dataclass
class _Layer:
    """The map of one layer for one sequence. Each forward pass adds rows; with a cache, those of its new queries."""

    module: nn.Module
    call: probe.ObservedCall
    rows: list[Tensor] = field(default_factory=list)  # [H, t, S]
    first_keys: list[Tensor] = field(default_factory=list)  # [t]: the first key that each query sees
    last_keys: list[Tensor] = field(default_factory=list)  # [t]: the last key that each query sees
    length: int = 0
    has_sink_logit: bool = False
    keys: Tensor | None = None  # [G, S, 2]: first and last component of each key of the last pass, to identify it

    def add(self, rows: Tensor, visible: Tensor, has_sink_logit: bool, keys: Tensor | None) -> None:
        t, S = rows.shape[1:]
        if self.rows and not self._continues_cache(keys, S - t):
            raise UnsupportedModel(
                f"{self.call.name}: expected a cache that holds the {self.length} tokens before, found another: a "
                "beam search, a candidate that is taken back, or a cache that is filled otherwise mixes the maps of "
                "several sequences; watch a greedy or sampled generation, or one forward pass of the whole text"
            )
        self.rows.append(rows)
        self.length += t
        key = torch.arange(self.length - S, self.length)
        self.first_keys.append(torch.where(visible, key, self.length).amin(-1))
        self.last_keys.append(torch.where(visible, key, -1).amax(-1))
        self.has_sink_logit, self.keys = self.has_sink_logit or has_sink_logit, keys

    def _continues_cache(self, keys: Tensor | None, cached_count: int) -> bool:
        """Whether the first `cached_count` keys are the last ones of the pass before (a window may drop some)."""
        if keys is None or self.keys is None:
            return cached_count == self.length
        start = self.keys.shape[1] - cached_count
        return start >= 0 and torch.equal(keys[:, :cached_count], self.keys[:, start:])

    def range(self, T: int) -> tuple[Tensor, Tensor] | None:
        """Returns the first and the last key that each query sees, [T] each; None if only the weights are known."""
        if self.call.has_only_weights:
            return None
        return torch.cat(self.first_keys)[:T], torch.cat(self.last_keys)[:T].clamp_max(T - 1)

    def map(self, T: int) -> Tensor:
        """Returns the map of the first T queries, [H, T, T]. Keys that a windowed cache dropped have weight 0."""
        full_map = self.rows[0].new_zeros(self.rows[0].shape[0], T, T)
        t = 0
        for rows in self.rows:
            n, S = rows.shape[1:]
            end = min(T, t + n)
            first_key = t + n - S
            full_map[:, t:end, max(0, first_key) : end] = rows[:, : end - t, max(0, -first_key) : S - (t + n - end)]
            t += n
        return full_map


class WatchedSequences:
    """The sequences that `watching` observes."""

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._watch: Watch | None = None
        self._sequences: list[list[_Layer]] = []
        self._batch: list[list[_Layer]] = []
        self._run = 0
        self._next_layer = 0  # index of the layer that the next call in the pass belongs to
        self._continues_pass = False  # whether this pass continues the sequences of the previous pass

    def visit(self, call: Call) -> None:
        B, H, T, S = call.shape
        probe.refuse_cross_attention(call)
        chunks = list(call.chunks())
        att = torch.cat([chunk.att for chunk in chunks], 2).cpu()
        visible = torch.cat([chunk.visible.expand(B, 1, -1, S) for chunk in chunks], 2)[:, 0].cpu()
        if T == S:
            _refuse_padding(call, visible)
        if call.run != self._run:
            self._run, self._next_layer = call.run, 0
            self._continues_pass = bool(self._batch) and T < S and len(self._batch) == B
            if not self._continues_pass:
                self._batch = [[] for _ in range(B)]
                self._sequences += self._batch
        if T != S and not self._continues_pass:
            if call.key is not None and not call.key[:, :, -1].any():
                raise UnsupportedModel(
                    f"{probe.call_name(call)}: expected a cache of the tokens so far, found {S} keys for {T} queries, "
                    "the last ones empty: a static cache cannot be read; generate without cache_implementation"
                )
            raise UnsupportedModel(
                f"{probe.call_name(call)}: expected the queries of all {S} keys, found {T}: begin to watch "
                "before the cache is filled"
            )
        if len(self._batch) != B:
            raise UnsupportedModel(
                f"{probe.call_name(call)}: expected {len(self._batch)} sequences as in the layers before, found {B}"
            )
        keys = call.cached if call.key is None else call.key
        keys = None if keys is None or keys.shape[2] != S else keys[..., [0, -1]].cpu()
        for b, layers in enumerate(self._batch):
            if not self._continues_pass:
                layers.append(_Layer(call.module, probe.ObservedCall.of(call)))
            elif self._next_layer >= len(layers) or layers[self._next_layer].module is not call.module:
                raise UnsupportedModel(
                    f"{probe.call_name(call)}: expected the layers of the pass before, found another"
                )
            layers[self._next_layer].add(att[b], visible[b], call.sinks is not None, None if keys is None else keys[b])
        self._next_layer += 1

    @property
    def maps(self) -> list[list[Tensor]]:
        """The maps of each sequence, a list of its layers, [H, T, T] each."""
        lengths = [min(layer.length for layer in layers) for layers in self._sequences]
        return [[layer.map(T) for layer in layers] for layers, T in zip(self._sequences, lengths, strict=True)]

    def recording(
        self, tokens: Iterable[Sequence[Any]], *, edits: Sequence[Mapping[str, Any] | str] = (), **options: Any
    ) -> Recording:
        """Makes a recording of all sequences, cut to the length of the shortest.

        tokens: for each sequence the strings or ids of its tokens. Tokens after the last query are ignored, such as
            a generated token that the model has not read yet.
        edits: descriptions of what the caller's own hooks changed. The recording is then of class EDITED.
        options: other arguments of `record_maps`.
        """
        if not self._sequences:
            raise ValueError(
                "watching: expected calls of attention, found none; maps that the model returns or that "
                "your own hooks collect are recorded by sinkscope.record_maps(maps, tokens)"
            )
        numbers, blocks = self._layer_numbers()
        T = min(layer.length for layers in self._sequences for layer in layers)
        has_sink_logits = any(layer.has_sink_logit for layer in self._sequences[0])
        maps = ((layer.map(T) for layer in layers) for layers in self._sequences)
        token_lists = (
            to_list(sequence_tokens, f"tokens of sequence {i}")[:T]
            for i, sequence_tokens in enumerate(to_list(tokens, "tokens"))
        )
        if "layers" not in options:
            options["layers"] = numbers
            options.setdefault("blocks", blocks)
        return record_maps(
            maps,
            token_lists,
            edits=edits,
            operation=options.pop("operation", "sink_logit" if has_sink_logits else "softmax"),
            _known_facts=self._known_facts(T),
            **options,
        )

    def _known_facts(self, T: int) -> KnownFacts:
        layers = self._sequences[0]
        for i, sequence in enumerate(self._sequences):
            for layer, other in zip(layers, sequence, strict=True):
                expected, actual = layer.range(T), other.range(T)
                if expected and actual and not all(map(torch.equal, expected, actual)):
                    raise UnsupportedModel(
                        f"{other.call.name}: expected the mask of the first sequence, found another in sequence {i}: "
                        "make one recording of the sequences of each"
                    )
        H, G, K = ({getattr(layer.call, size) for layer in layers} for size in ("H", "G", "K"))
        D, V = probe.output_sizes(self._model)
        return KnownFacts(
            [layer.range(T) for layer in layers],
            G.pop() if len(G) == 1 else max(H),
            max(K) or probe.head_width(self._model, max(H)),
            D,
            V or 1,
            layers[-1].call.softcap,
        )

    def _layer_numbers(self) -> tuple[list[int], int]:
        member_runs = self._watch.most_visits if self._watch else {}
        first_calls, *other_calls = [[layer.call for layer in layers] for layers in self._sequences]
        numbers, blocks, _ = probe.find_layers(self._model, first_calls, member_runs)
        for i, layers in enumerate(other_calls, 1):
            if [call.path for call in layers] != [call.path for call in first_calls]:
                raise UnsupportedModel(
                    f"watching: expected the same layers in each sequence, found others in sequence {i}: "
                    f"{_layer_names(layers)} after {_layer_names(first_calls)}"
                )
        for i, sequence in enumerate(self._sequences):
            lengths = {layer.length for layer in sequence}
            if len(lengths) > 1:
                raise UnsupportedModel(
                    f"watching: expected as many queries in each layer, found {min(lengths)} to {max(lengths)} in "
                    f"sequence {i}: some passes ended early"
                )
        return numbers, blocks


def _layer_names(layers: Sequence[probe.ObservedCall]) -> str:
    return ", ".join(probe.container_path(call.path) for call in layers)


def _refuse_padding(call: Call, visible: Tensor) -> None:
    """Refuses keys that no query sees: these are padding, which would count as tokens.
    visible: bool [B, T, T]
    """
    hidden_keys = (~visible.any(1)).nonzero().tolist()
    if hidden_keys:
        sequence, key = hidden_keys[0]
        raise _padding_error(f"that no query of sequence {sequence} of its batch sees key {key}")
    for sequence, visible_keys in enumerate(visible):
        first, last = probe.key_ranges(visible_keys)
        # Some models return uniform weights for padding queries: every key then counts as seen,
        # and only the irregular mask reveals the padding.
        if call.weights is not None and not probe.has_mask_kind(first, last):
            raise _padding_error(
                f"that queries of sequence {sequence} of its batch see later keys and others do "
                f"not ({probe.call_name(call)})"
            )


def _padding_error(finding: str) -> UnsupportedModel:
    return UnsupportedModel(
        f"watching: expected sequences without padding, found {finding}: watch one sequence at a time, or "
        "record(model, tokenizer, [inputs]), which cuts it off"
    )


def _mask_refuser(module: nn.Module) -> Callable[..., None]:
    """Returns a hook that refuses an attention mask with padding, for models that return only weights."""
    name_arguments = argument_namer(module)

    def refuse(_: nn.Module, args: Any, kwargs: Any) -> None:
        mask = name_arguments(args, kwargs).get("attention_mask")
        if isinstance(mask, Tensor) and mask.dim() == 2 and (hidden_tokens := (mask == 0).nonzero().tolist()):
            raise _padding_error(
                f"that attention_mask hides token {hidden_tokens[0][1]} of sequence {hidden_tokens[0][0]} of its batch"
            )

    return refuse


@contextmanager
def watching(model: nn.Module) -> Iterator[WatchedSequences]:
    """Collects the full attention maps of every forward pass of `model` while the context lasts.

    The model needs no config: transformers' interface, `scaled_dot_product_attention` and returned weights are all
    observed. A pass with fewer queries than keys continues the sequence of the previous pass, as in generation with
    a cache. Each other pass begins a new sequence, and so does each run of a model that runs twice in one pass of an
    enclosing model. Padded batches and beam searches are refused. The caller's own hooks work as usual. Other models
    that run meanwhile are not observed, nor layers that gradient checkpointing recomputes.
    """
    sequences = WatchedSequences(model)
    with ExitStack() as stack:
        for module in model.modules():
            if module is model or isinstance(module, PreTrainedModel):
                stack.callback(module.register_forward_pre_hook(_mask_refuser(module), with_kwargs=True).remove)
        sequences._watch = stack.enter_context(observe(model, sequences.visit))
        yield sequences
