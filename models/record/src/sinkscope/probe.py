"""Examines a model's first forward pass: collects facts about the model, and checks that its attention can be
observed."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from .attention import HIDING_THRESHOLD, RECORD_OWN_MAPS, Call, Chunk, Place, UnsupportedModel, class_name
from .settings import Settings

# The output of recomputed weights may differ from that of the model's attention by this many roundings of the dtype: of
# each weight, of each score (relative to its size), and of each product in a score. Models with random weights differ
# by at most two thirds of this tolerance; scores that are 5% too large differ by twice the tolerance.
WEIGHT_ROUNDINGS, SCORE_ROUNDINGS, PRODUCT_ROUNDINGS = 2.0, 1.0, 1.0
LOW_PRECISION_FACTOR = 2.0  # widens the tolerance if the softmax runs in the model's dtype, as with sink logits
MIN_TOLERANCE = 1e-4  # the smallest tolerance, relative to the largest value: float32 products may run in TF32
MAX_MASKED_WEIGHT = 1e-20  # a smaller weight counts as masked: some masks are finite
ROW_SUM_ROUNDING = 1e-4
MIN_WINDOW_QUERIES = 4  # fewer queries do not prove a window, since weights of visible keys may underflow to 0


@dataclass
class Facts:
    T: int
    H: int
    G: int
    K: int
    kind: str  # causal, prefix or bidirectional
    prefix: int
    windows: list[int | None]  # window of each layer with attention, in keys; None if it has none
    operation: str  # its name in the core's table
    softcap: float | None
    layers: list[int]  # the model's own numbers of the layers with attention
    blocks: int  # number of all layers, with or without attention
    members: list[nn.Module]
    uneven_vectors: tuple[str, ...] = ()  # which of q, k and v differ in width between layers
    paths: tuple[tuple[Place, ...], ...] = ()
    is_from_maps: bool = False  # True for maps from another program, whose rows may lack the share of a sink logit
    # for each layer, the first and the last key that each query of the first prompt sees, [T] each
    ranges: tuple[tuple[Tensor, Tensor], ...] = ()
    U: int = 0  # width of values; 0 if unknown
    rows: int | None = None  # in cross-attention the number of queries, and T is that of the keys

    @property
    def is_cross(self) -> bool:
        return self.rows is not None

    @property
    def queries(self) -> int:
        return self.T if self.rows is None else self.rows

    @property
    def uses_shares(self) -> bool:
        """Whether alpha is computed from shares, because rows need not sum to 1."""
        return self.operation != "softmax"

    @property
    def L(self) -> int:
        return len(self.windows)

    def mask_conditions(self) -> dict[str, Any]:
        """Returns the key `mask` of a recording's model, and the key `windows` if layers have different windows."""
        windows = set(self.windows)
        mask: dict[str, Any] = {"kind": self.kind}
        if self.kind == "prefix":
            mask["prefix"] = self.prefix
        if self.kind == "causal" and len(windows) == 1 and None not in windows:
            mask = {"kind": "window", "window": self.windows[0]}
        return {"mask": mask} | ({"windows": self.windows} if self.kind == "causal" and len(windows) > 1 else {})

    @property
    def last_keys(self) -> Tensor:
        """The last key that each query may see, windows aside, [T], or [queries] in cross-attention."""
        if self.is_cross:
            return torch.full((self.queries,), self.T - 1)
        return last_visible_keys(self.kind, self.prefix, self.T)

    def counts_of_mask(self) -> Tensor:
        """How many keys each query sees by `mask_conditions`, which readers know, float [L, T]."""
        counts = (self.last_keys + 1).float()
        windows = self.windows if self.kind == "causal" else [None] * self.L
        return torch.stack([counts.clamp_max(self.T if window is None else window) for window in windows])

    def visible_keys(self, rows: slice, device: torch.device) -> Tensor:
        """Returns the keys that the queries see, windows aside, bool [t, T]."""
        return torch.arange(self.T, device=device) <= self.last_keys[rows, None].to(device)


@dataclass(frozen=True)
class ObservedCall:
    """A call of attention, without its tensors."""

    H: int
    G: int
    K: int
    U: int
    name: str
    run: int
    path: tuple[Place, ...]
    softcap: float | None
    has_only_weights: bool  # the model returned its weights, but not the mask

    @classmethod
    def of(cls, call: Call) -> "ObservedCall":
        K, U = (0 if x is None else x.shape[-1] for x in (call.query, call.value))
        has_only_weights = call.weights is not None
        return cls(call.shape[1], call.G, K, U, call_name(call), call.run, call.path, call.softcap, has_only_weights)


def call_name(call: Call) -> str:
    return f"{type(call.module).__name__}, layer {call.layer_idx}"


def container_path(path: tuple[Place, ...]) -> str:
    """Returns the outermost numbered module that contains a call, such as model.layers.3."""
    return f"{path[0].container}.{path[0].index}" if path else "no layer"


def refuse_cross_attention(call: Call) -> None:
    """Refuses cross-attention, which the shapes do not show if encoder and decoder have equally many tokens."""
    if call.is_crossed:
        raise UnsupportedModel(
            f"{call_name(call)}: expected attention to the model's own tokens, found some to those of another part; of "
            "a decoder that attends to an encoder record one kind of attention at a time: record(the whole model, "
            '..., part="encoder"), "decoder" or "cross"'
        )


class Probe:
    """Examines the first forward pass: the calls' sizes, the visible keys, and whether the recomputed weights give the
    output of the model's own attention."""

    def __init__(self, settings: Settings, is_cross: bool = False) -> None:
        self.settings, self.is_cross = settings, is_cross
        self.calls: list[ObservedCall] = []
        self.T = self.queries = 0
        self.ranges: list[tuple[Tensor, Tensor]] = []
        self.has_sink_logits = False
        self.softcap: float | None = None
        self.holes: list[bool] = []  # by call, whether its mask hides keys between a query's first and last
        self.later_weight = 0.0  # the largest weight that a query gives to a key after it

    def visit(self, call: Call) -> None:
        B, H, T, S = call.shape
        if not self.is_cross:
            refuse_cross_attention(call)
        if B != 1:
            raise UnsupportedModel(
                f"{call_name(call)}: expected attention over one sequence for the first prompt, found {B}: whether "
                "these are sequences or heads is not said; sinkscope.watching gives the maps of each"
            )
        if T != S and call.weights is not None and not self.is_cross:
            raise UnsupportedModel(
                f"{call_name(call)}: expected weights of each query for each key, found {list(call.weights.shape)}: "
                f"windows or pools; {RECORD_OWN_MAPS.format(line='maps.append(att)')}, where weights w [H, T, W] of "
                "windows around the queries make att = F.pad(w, (0, T)).flatten(1)[:, :-T]"
                ".reshape(H, T, -1)[..., W // 2 : W // 2 + T]"
            )
        if T != S and not self.is_cross:
            raise UnsupportedModel(
                f"{call_name(call)}: expected as many queries as keys, found {T} and {S}; of a decoder that attends "
                'to an encoder record one kind of attention at a time: part="encoder", "decoder" or "cross"'
            )
        if self.calls and (self.queries, self.T) != (T, S):
            earlier_towers = dict.fromkeys(_tower_name(observed.path) for observed in self.calls)
            towers = ", ".join(earlier_towers), _tower_name(call.path)
            if towers[1] in earlier_towers:
                raise UnsupportedModel(
                    f"{call_name(call)}: expected {self.queries} queries and {self.T} keys as in the layers before, "
                    f"found {T} and {S}: layers that shorten their sequence are not recorded; sinkscope.observe gives "
                    "each call"
                )
            raise UnsupportedModel(
                f"{call_name(call)}: expected {self.T} tokens as in the layers before, found {S}; a model of several "
                f'towers ({towers[0]} and {towers[1]}) is recorded one at a time: part="{towers[1]}"'
            )
        self.calls.append(ObservedCall.of(call))
        self.T, self.queries, self.softcap = S, T, call.softcap
        self.has_sink_logits = self.has_sink_logits or call.sinks is not None
        first, last = torch.empty(2, T, dtype=torch.long)
        has_holes = False
        for chunk in call.chunks(scores=True):
            self._check_output(call, chunk)
            check_rows(call, chunk)
            visible = chunk.visible[0, 0]
            self.later_weight = max(self.later_weight, chunk.att.triu(chunk.rows.start + 1).max().item())
            first[chunk.rows], last[chunk.rows] = (x.cpu() for x in key_ranges(visible))
            seen = visible.sum(-1).cpu()
            # A weight of 0 does not show a hidden key.
            has_holes |= not self.calls[-1].has_only_weights and bool((seen <= (last - first)[chunk.rows]).any())
        self.holes.append(has_holes)
        self.ranges.append((first, last))

    def _check_output(self, call: Call, chunk: Chunk) -> None:
        """Refuses a call whose output differs from its recomputed weights times the values by more than rounding."""
        if call.out is None:
            return
        assert call.query is not None  # a call with an output has its query, key and value
        assert call.key is not None
        assert call.value is not None
        B, H, t, S = chunk.att.shape
        value = call.value.to(chunk.att)

        def mix_values(weights: Tensor, x: Tensor) -> Tensor:
            return (weights.reshape(B, call.G, -1, S) @ x).view(B, H, t, -1)

        actual = mix_values(chunk.att, value)
        expected = call.out[:, chunk.rows].transpose(1, 2).to(actual)
        rounding = max(torch.finfo(x.dtype).eps for x in (call.out, call.query, call.value)) / 2
        rounding *= 1 if call.sinks is None else LOW_PRECISION_FACTOR
        # The absolute error of a score is the relative error of its weight. The score is rounded itself, and so is each
        # of its K products, whose errors add up to about |q| |k| / sqrt(K).
        scale = call.query.shape[-1] ** -0.5 if call.scaling is None else call.scaling
        query = call.query[:, :, chunk.rows].to(actual).norm(dim=-1)
        key = call.key.to(actual).norm(dim=-1).repeat_interleave(H // call.G, 1)
        products = query[..., None] * key[:, :, None] * abs(scale) * call.query.shape[-1] ** -0.5
        assert chunk.scores is not None
        scores = chunk.scores.abs().masked_fill(chunk.att == 0, 0)
        error = chunk.att * (WEIGHT_ROUNDINGS + SCORE_ROUNDINGS * scores + PRODUCT_ROUNDINGS * products) * rounding
        # The output's error is at most sum_j error_j |v_j - out| <= sqrt(sum error) sqrt(sum error (v - out)^2), whose
        # right side needs no tensor of [t, S, V].
        total = error.sum(-1, keepdim=True)
        squares = mix_values(error, value.square()) - 2 * actual * mix_values(error, value) + actual.square() * total
        tolerance = (total * squares.clamp_min(0)).sqrt() + rounding * (
            actual.abs() + mix_values(chunk.att, value.abs())
        )
        largest = value.abs().max().clamp_min(1e-30)
        if rounding < 1e-5:
            tolerance = tolerance.clamp_min((MIN_TOLERANCE * largest).item())
        difference = (actual - expected).abs()
        if not bool((difference <= tolerance).all()):
            worst_index = (difference / tolerance.clamp_min(1e-30)).nan_to_num(torch.inf).argmax()
            raise UnsupportedModel(
                f"{call_name(call)}: expected recomputed weights to give the attention's output within "
                f"{(tolerance.flatten()[worst_index] / largest).item():.2g} of its largest value, the rounding of "
                f"{str(call.out.dtype).removeprefix('torch.')} over {S} keys, "
                f"found {(difference.flatten()[worst_index] / largest).item():.3g}"
            )

    def infer_facts(self, model: nn.Module, member_runs: Mapping[str, int]) -> Facts:
        """Returns the facts. `member_runs` says how many members of each container ran in the pass."""
        name = type(model).__name__
        if not self.calls:
            raise UnsupportedModel(f"{name}: expected calls of attention, found none")
        if len({call.H for call in self.calls}) > 1:
            sizes = sorted({(call.H, call.G, call.K) for call in self.calls})
            raise UnsupportedModel(
                f"{name}: expected the same number of heads in every layer, "
                f"found (H, G, K) = {', '.join(map(str, sizes))}"
            )
        H, T = self.calls[0].H, self.T
        groups, key_widths, value_widths = ({getattr(call, size) for call in self.calls} for size in ("G", "K", "U"))
        kind, prefix = self._cross_mask() if self.is_cross else self._mask_kind()
        for i, call in enumerate(self.calls):
            if call.has_only_weights and not self.is_cross:
                first, last = self.ranges[i]
                # The caller's mask may be narrower than the weights show.
                limit = last.maximum(last_visible_keys(kind, prefix, T))
                first, last = mask_ranges_of_weights(first, last, kind, limit)
                self.ranges[i] = first, last
        windows = [
            None if self.is_cross or has_holes else window_of(*ends, kind)
            for ends, has_holes in zip(self.ranges, self.holes, strict=True)
        ]
        layers, blocks, members = find_layers(model, self.calls, member_runs)
        uneven_vectors = (("q", "k") if len(key_widths) > 1 else ()) + (("v",) if len(value_widths) > 1 else ())
        return Facts(
            T,
            H,
            H if len(groups) > 1 else groups.pop(),  # a group per head if layers group their heads differently
            max(key_widths) or head_width(model, H),
            kind,
            prefix,
            windows,
            "sink_logit" if self.has_sink_logits else "softmax",
            self.softcap,
            layers,
            blocks,
            [] if self.is_cross else members,  # the residual stream is of the queries alone, and the decoder's own
            uneven_vectors,
            tuple(call.path for call in self.calls),
            U=max(value_widths),
            ranges=tuple(self.ranges),
            rows=self.queries if self.is_cross else None,
        )

    def _cross_mask(self) -> tuple[str, int]:
        """Returns the mask of cross-attention, in which every query sees every key. Refuses another one."""
        for call, (first, last), has_holes in zip(self.calls, self.ranges, self.holes, strict=True):
            if not call.has_only_weights and (has_holes or (first > 0).any() or (last < self.T - 1).any()):
                raise UnsupportedModel(
                    f"{call.name}: expected that each query sees all {self.T} keys of the encoder, found a mask that "
                    "hides some: pass prompts without padding, or with the attention_mask by which it is cut off; of "
                    "one softmax over both sequences, sinkscope.observe gives each call"
                )
        self.ranges = [(torch.zeros_like(first), torch.full_like(last, self.T - 1)) for first, last in self.ranges]
        return "bidirectional", 0

    def _mask_kind(self) -> tuple[str, int]:
        t = torch.arange(self.T)
        later_ends = [last for _, last in self.ranges if (last > t).any()]
        prefix = int(later_ends[0][0]) + 1 if later_ends else 0
        kind = "causal"
        unknown_masks = [i for i, ends in enumerate(self.ranges) if self.holes[i] or not has_mask_kind(*ends)]
        if unknown_masks and self.settings.mask is None:
            raise UnsupportedModel(
                f"{self.calls[unknown_masks[0]].name}: expected a causal, prefix or bidirectional mask, found another, "
                f"where some queries {'miss keys between' if self.holes[unknown_masks[0]] else 'see later keys'}: "
                'name the queries that count for key k, mask="causal" (T - k of '
                'them) or mask="bidirectional" (all)'
            )
        if later_ends and self.later_weight < MAX_MASKED_WEIGHT:
            raise UnsupportedModel(
                f"mask: expected keys that are visible, found that no query gives a later key more than "
                f"{self.later_weight:.0e}: what hides them is added to scores and above {HIDING_THRESHOLD:g}; add -inf"
            )
        if later_ends:
            is_prefix = all(torch.equal(last, t.clamp_min(prefix - 1)) for last in later_ends)
            kind = "prefix" if is_prefix and prefix < self.T else "bidirectional"
        kind = self.settings.mask or kind
        return kind, prefix if kind == "prefix" else 0


def key_ranges(visible: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the first and the last key that each query sees; T and -1 if it sees none.
    bool [..., t, T] -> [..., t] each"""
    key = torch.arange(visible.shape[-1], device=visible.device)
    return torch.where(visible, key, len(key)).amin(-1), torch.where(visible, key, -1).amax(-1)


def mask_of_ranges(first: Tensor, last: Tensor, keys: int | None = None) -> Tensor:
    """Returns the mask in which each query sees the keys from `first` to `last`.  [T], [T] -> bool [T, keys or T]"""
    key = torch.arange(keys or len(first))
    return (key >= first[:, None]) & (key <= last[:, None])


def last_visible_keys(kind: str, prefix: int, T: int) -> Tensor:
    return torch.arange(T).clamp_min({"causal": 0, "prefix": prefix - 1}.get(kind, T - 1))


def mask_ranges_of_weights(first: Tensor, last: Tensor, kind: str, limit: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the first and the last key that each query sees, [T] each, from the first and the last key with a weight.
    A window counts only if the weights fill it; otherwise every query sees all keys up to `limit`. A weight of 0 does
    not show a hidden key: weights of visible keys may underflow to 0, above all in float16."""
    key, T = torch.arange(len(first)), len(first)
    width = int((key - first).max()) + 1
    start = (key - width + 1).clamp_min(0)
    end = limit if kind != "bidirectional" else (key + width - 1).clamp_max(T - 1)
    is_cut = key >= width  # queries whose window of this width hides the first key
    at_edge = (first == start) & (last == end)
    is_window = width > 1 and (
        bool(at_edge.all()) or is_cut.sum() >= MIN_WINDOW_QUERIES and at_edge[is_cut].float().mean() > 0.5
    )
    return (start, end) if is_window else (torch.zeros_like(first), limit)


def has_mask_kind(first: Tensor, last: Tensor) -> bool:
    """Whether the first and the last key that each query sees, [T] each, are those of a causal, prefix or bidirectional
    mask, each also with a window. In a bidirectional mask, two tokens see each other, or neither sees the other."""
    t = torch.arange(len(first))
    if (last <= t).all() or torch.equal(last, t.clamp_min(last[0].item())):
        return True
    has_keys = first != len(first)
    return bool((last[first[has_keys]] >= t[has_keys]).all())


def find_layers(
    model: nn.Module, calls: Sequence[ObservedCall], member_runs: Mapping[str, int]
) -> tuple[list[int], int, list[nn.Module]]:
    """Returns the model's own number of each layer with attention, how many layers there are, and the modules of all
    layers.

    The layers are the members of the outermost numbered container around all calls. A member that runs several
    times counts as several layers, which share their weights.
    """
    name = class_name(model)
    runs = len({call.run for call in calls})
    if runs > 1:
        raise UnsupportedModel(
            f"{name}: expected one run of its layers in a forward pass, found {runs} ({calls[0].name}, runs again): "
            "whose numbers these are is not said; record the part that runs alone, or sinkscope.watching, which "
            "gives each run"
        )
    paths = [[place.container for place in call.path] for call in calls]
    shared_containers = [container for container in paths[0] if all(container in path for path in paths)]
    if not shared_containers:
        towers = dict.fromkeys(_tower_name(call.path) for call in calls)
        if len(towers) > 1 and all(paths):
            raise UnsupportedModel(
                f"{name}: expected one stack of layers, found {', '.join(towers)}; record one at a time: "
                f'part="{next(iter(towers))}"'
            )
        return list(range(len(calls))), len(calls), []
    places = {
        container: [next(p for p in call.path if p.container == container) for call in calls]
        for container in shared_containers
    }
    visits = {container: [place.visit for place in places[container]] for container in shared_containers}
    container = next((c for c in shared_containers if len(set(visits[c])) == len(calls)), shared_containers[0])
    numbers = visits[container]
    member, repetitions = Counter(numbers).most_common(1)[0]
    if repetitions > 1:
        names = [call.name for call, visit in zip(calls, numbers, strict=True) if visit == member]
        raise UnsupportedModel(
            f"{name}: expected one attention map for each head of {container}.{member}, found {repetitions} "
            f"({names[0]}): a difference of maps, or several attentions in one layer, is not recorded; "
            "sinkscope.observe gives each call"
        )
    if numbers != sorted(numbers):
        raise UnsupportedModel(
            f"{name}: expected the layers of {container} in their order, found {', '.join(map(str, numbers))}"
        )

    def is_member(module_name: str) -> bool:
        return module_name.rpartition(".")[0] == container and module_name.rpartition(".")[2].isdigit()

    members = [m for n, m in model.named_modules() if is_member(n)]
    count = sum(is_member(n) for n, _ in model.named_modules(remove_duplicate=False))
    indices = [place.index for place in places[container]]
    if member_runs.get(container, 0) <= count and indices == sorted(set(indices)):
        return indices, count, members  # layers without attention count, though they made no call
    return numbers, member_runs.get(container, len(numbers)), members


def check_rows(call: Call, chunk: Chunk) -> None:
    """Refuses returned weights whose rows do not sum to 1: nothing says what receives the rest."""
    if call.weights is None:
        return
    sums = chunk.att.sum(-1)
    tolerance = max(ROW_SUM_ROUNDING, torch.finfo(call.weights.dtype).eps)
    error = (sums - 1).abs().max().item()
    if not error <= tolerance:
        worst_sum = sums.flatten()[(sums - 1).abs().argmax()].item()
        raise UnsupportedModel(
            f"{call_name(call)}: expected returned weights whose rows sum to 1, found a row of {worst_sum:.3g}: what "
            "takes the rest is unknown, so they are no softmax"
        )


def _tower_name(path: tuple[Place, ...]) -> str:
    """Returns the part of the model that makes a call, such as vision_model."""
    parent = path[0].container.rpartition(".")[0] if path else ""
    outer = parent.removesuffix(".encoder")  # vision_model.encoder.layers belongs to vision_model
    return outer if outer.endswith(("_model", "_tower")) else parent or "the model"


def window_of(first: Tensor, last: Tensor, kind: str) -> int | None:
    """Returns how many keys each query of a windowed layer sees; None without a window."""
    t = torch.arange(len(first))
    if kind == "bidirectional":
        radius = torch.maximum(t - first, last - t).max().item()
        has_window = (first > 0).any() or (last < len(t) - 1).any()
        return int(radius) * 2 + 1 if has_window else None
    return int((t - first).max()) + 1 if (first > 0).any() else None


def config_of(model: nn.Module) -> Any:
    """Returns the config of the text model in the tree, or None. A module of the user may have a `config` of its own:
    the config of the transformers model comes first."""
    configured_modules = [m for m in model.modules() if getattr(m, "config", None) is not None]
    configured_modules.sort(key=lambda m: not isinstance(m, PreTrainedModel))
    config: Any = configured_modules[0].config if configured_modules else None
    return config.get_text_config() if hasattr(config, "get_text_config") else config


def head_width(model: nn.Module, H: int) -> int:
    """Returns K by the config, for a model that returns only its weights."""
    config: Any = config_of(model)
    return int(getattr(config, "head_dim", None) or max(1, output_sizes(model)[0] // H))


def output_sizes(model: nn.Module) -> tuple[int, int]:
    """Returns D and V by the config, 0 where it lacks them. Without a vocabulary, V is the number of labels."""
    config = config_of(model)

    def find_size(*names: str) -> int:
        return int(next((x for name in names if isinstance(x := getattr(config, name, None), int)), 0))

    return find_size("hidden_size", "n_embd", "d_model"), find_size("vocab_size", "num_labels")
