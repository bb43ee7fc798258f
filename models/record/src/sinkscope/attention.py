"""Attention weights of a transformers model, recomputed in chunks of queries while the model runs its
own attention.

transformers hands queries, keys, values and a mask to a function that it looks up by the name of the
model's attention implementation (AttentionInterface), and builds the mask by the same name
(AttentionMaskInterface). `observe` registers a function under the name "sinkscope", which calls the model's original
implementation with the mask that this implementation needs, returns its output, and reports a `Call`. A map of
[H, T, T] is kept only on request.

Models outside the interface are observed in two other ways: each call of scaled_dot_product_attention is
reported as a `Call` (falcon), and weights that an attention module returns are reported unchanged
(gpt_neo, bloom, mpt).

`observe` looks at the tree of modules, not at the class of its root, so it treats a model inside PEFT,
DistributedDataParallel, torch.compile or a user's class like the model alone.
"""

import inspect
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from transformers import AttentionInterface, AttentionMaskInterface, Cache, PreTrainedModel

IMPLEMENTATION = "sinkscope"
# Weights of one chunk: 1 MB in float32 on a CPU, which fits into its cache; 32 MB on a GPU, where smaller chunks would
# cost more in kernel launches than in arithmetic.
CPU_CELLS, GPU_CELLS = 2**18, 2**23
# A floating-point mask hides a key if it adds at most this number: masks add -inf, a dtype's minimum, -1e9 or -1e4
# (-9984 in bfloat16). The bias of ALiBi falls below it only in the steepest head, 18,000 tokens away.
HIDING_THRESHOLD = -9000.0
# Module arguments with the tokens of another sequence to attend to.
SOURCE_ARGUMENTS = ("key_value_states", "encoder_hidden_states", "cross_attention_states")
# Names of modules, and of their classes, that attend to another sequence.
CROSS_NAMES = re.compile("cross|encoder_attn|encdec", re.IGNORECASE)


class UnsupportedModel(ValueError):
    """The attention of this model cannot be observed; the message names what is missing."""


@dataclass(frozen=True)
class Place:
    """One module of a numbered container (ModuleList) that was running when a call of attention happened."""

    container: str  # such as "model.layers"
    index: int
    # number of modules of the container that ran before this one in the forward pass
    visit: int


@dataclass(frozen=True)
class Chunk:
    """The weights of some queries of a call, in float32 (in float64 if the model computes in float64)."""

    rows: slice
    att: Tensor  # [B, H, t, S], 0 at keys that the query does not see
    visible: Tensor  # bool, [B, 1, t, S]
    sink: Tensor | None  # [B, H, t]: weight of the sink logit, which belongs to no key
    scores: Tensor | None = None  # [B, H, t, S] before the softmax, on request


@dataclass(frozen=True)
class Call:
    """One call of attention, by one layer."""

    layer: int  # number of the call, from 0, over all forward passes
    module: nn.Module
    run: int = 0  # number of the forward pass; each run of a stack that runs twice in one pass counts as a pass
    order: int = 0  # calls before this one in its forward pass
    path: tuple[Place, ...] = ()  # the numbered containers around the call, outermost first
    # [B, H, T, K], after rotary positions and QK-norm; None exactly if key is None
    query: Tensor | None = None
    key: Tensor | None = None  # [B, G, S, K]
    value: Tensor | None = None  # [B, G, S, K]; values may be wider or narrower than keys
    out: Tensor | None = None  # [B, T, H, K]
    weights: Tensor | None = None  # [B, H, T, S], if the model returned them
    seen: Tensor | None = None  # bool [T, S]: visible keys of returned weights, if known
    cached: Tensor | None = None  # [B, G, S, K]: the cache's keys, if the model returned weights
    mask: Tensor | None = None  # [B, S], or [B, 1 or H, T, S]: bool (True: visible) or added to scores
    scaling: float | None = None
    causal: bool = False  # whether a call without a mask of [T, S] hides later keys
    aligned: bool = False  # whether the last query is at the last key (FlashAttention)
    window: int | None = None  # number of keys that each query of a causal call without a mask sees
    softcap: float | None = None
    sinks: Tensor | None = None  # [H]: an extra logit per head in the softmax, which belongs to no key
    bias: Tensor | None = None
    is_crossed: bool = False  # queries and keys are of different sequences, as in a decoder that attends to an encoder

    @property
    def layer_idx(self) -> int:
        """The layer's number in the model, where layers without attention count as well."""
        number = getattr(self.module, "layer_idx", None)
        return number if isinstance(number, int) else self.path[0].index if self.path else self.order

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """B, H, T and S."""
        if self.query is None:
            assert self.weights is not None
            B, H, T, S = self.weights.shape
            return B, H, T, S
        assert self.key is not None
        B, H, T, _ = self.query.shape
        return B, H, T, self.key.shape[2]

    @property
    def G(self) -> int:
        vectors = self.value if self.key is None else self.key
        return self.shape[1] if vectors is None else vectors.shape[1]

    def chunks(self, cells: int | None = None, scores: bool = False) -> Iterator[Chunk]:
        """Yields the weights of all queries in order, about `cells` weights at a time. `scores` adds the scores."""
        cells = cells or (CPU_CELLS if self.device.type == "cpu" else GPU_CELLS)
        B, H, T, S = self.shape
        step = max(1, cells // (B * H * S))
        for start in range(0, T, step):
            rows = slice(start, min(T, start + step))
            yield self._slice_chunk(rows) if self.weights is not None else self._recompute_chunk(rows, scores)

    def _slice_chunk(self, rows: slice) -> Chunk:
        assert self.weights is not None
        att = _widen(self.weights[:, :, rows])
        # A weight may underflow to 0 in one head but hardly in all: the key is visible if any head sees it.
        visible = (att > 0).any(1, keepdim=True) if self.seen is None else self.seen[None, None, rows]
        return Chunk(rows, att, visible, None)

    def _recompute_chunk(self, rows: slice, keeps_scores: bool) -> Chunk:
        assert self.query is not None
        B, H, T, S = self.shape
        q = _widen(self.query[:, :, rows])
        t, K = q.shape[2:]
        # Treats the heads of a group as further queries, so that the group's keys need no copies.
        scores = (q.reshape(B, self.G, -1, K) @ self._transposed_key).view(B, H, t, S)
        scores *= K**-0.5 if self.scaling is None else self.scaling
        if self.softcap is not None:
            scores = self.softcap * (scores / self.softcap).tanh_()
        if self.bias is not None:
            scores += self.bias[..., rows, :S]
        visible = self._visible_keys(rows)
        if self.mask is not None and self.mask.dim() == 4 and self.mask.is_floating_point():
            added = self.mask[..., self._mask_rows(rows), :S]
            scores = scores + added.to(scores.dtype)
        scores = scores.masked_fill_(~visible, -torch.inf)
        score_copy = scores.clone() if keeps_scores else None
        sink = None
        if self.sinks is None:
            att = scores.softmax(-1)
        else:
            logits = _widen(self.sinks).view(1, H, 1, 1)
            total = torch.logaddexp(scores.logsumexp(-1, keepdim=True), logits)
            att = scores.sub_(total).exp_()
            sink = (logits - total).exp()[..., 0]
        # A padding query sees no key. Its weights are 0, not NaN.
        att.masked_fill_(~visible.any(-1, keepdim=True), 0)
        return Chunk(rows, att, visible.any(1, keepdim=True), sink, score_copy)

    @cached_property
    def _transposed_key(self) -> Tensor:
        assert self.key is not None
        return _widen(self.key).transpose(-2, -1)

    def _mask_rows(self, rows: slice) -> slice:
        """Returns the slice of the mask's rows for these queries. A mask of one row applies to all queries."""
        assert self.mask is not None
        return rows if self.mask.shape[-2] > 1 else slice(None)

    def _visible_keys(self, rows: slice) -> Tensor:
        """Returns a bool that broadcasts to [B, H, t, S]."""
        _, _, T, S = self.shape
        if self.mask is not None and self.mask.dim() == 4:
            mask = self.mask[..., self._mask_rows(rows), :S]
            return mask if mask.dtype == torch.bool else mask > HIDING_THRESHOLD
        key = torch.arange(S, device=self.device)
        query = torch.arange(T, device=self.device)[rows, None] + (S - T if self.aligned else 0)
        visible = torch.ones(1, 1, query.shape[0], S, dtype=torch.bool, device=self.device)
        if self.causal:
            visible = visible & (key <= query)
        if self.window is not None:
            visible = visible & (key > query - self.window)
            if not self.causal:
                visible = visible & (key < query + self.window)
        if self.mask is not None:
            visible = visible & self.mask[:, None, None, -S:].bool()
        return visible

    @property
    def device(self) -> torch.device:
        tensor = self.weights if self.query is None else self.query
        assert tensor is not None
        return tensor.device


def _widen(x: Tensor) -> Tensor:
    return x if x.dtype == torch.float64 else x.float()


Visitor = Callable[[Call], None]


@dataclass(eq=False)
class Watch:
    """The state of one `observe` context while models run inside it."""

    visit: Visitor
    tree: frozenset[int]
    originals: dict[int, str] = field(default_factory=dict)  # implementations, by id of the config
    calls: int = 0
    calls_before: int = 0  # number of calls in earlier forward passes
    modules: list[nn.Module] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)  # containers of the running module, the outermost first
    visits: dict[str, int] = field(default_factory=dict)  # how many members of each container ran in this pass
    most_visits: dict[str, int] = field(default_factory=dict)
    runs: int = 0
    running: list[tuple[nn.Module, int]] = field(default_factory=list)  # running stacks, with the calls before each
    attended_stacks: set[nn.Module] = field(default_factory=set)
    are_crossed: list[bool] = field(default_factory=list)
    # True for a model without attention modules: every scaled_dot_product_attention counts
    counts_every_call: bool = False
    root: nn.Module | None = None
    busy: bool = False  # True while the model's own implementation runs, whose inner calls do not count
    thread: int = field(default_factory=threading.get_ident)

    def begin(self, module: nn.Module) -> None:
        """Records that a stack begins to run. A new forward pass begins if no other stack is running, or if this stack
        has already computed attention in the current pass."""
        is_outermost = module is self.root or not self.running or any(module is stack for stack, _ in self.running)
        if is_outermost:  # also discards the state of an interrupted pass
            for state in (self.running, self.places, self.modules, self.are_crossed):
                state.clear()
        if is_outermost or module in self.attended_stacks:
            self.visits.clear()
            self.attended_stacks.clear()
            self.calls_before = self.calls
            self.runs += 1
        self.running.append((module, self.calls))

    def end(self) -> None:
        if not self.running:  # the module called itself, and `begin` discarded the state
            return
        module, calls_before = self.running.pop()
        if self.calls > calls_before:
            self.attended_stacks.add(module)

    def report(self, **call: Any) -> None:
        # Gradient checkpointing runs layers again in the backward pass. Only this private function of PyTorch shows
        # that a backward pass is running.
        if torch._C._current_graph_task_id() != -1 or self.thread != threading.get_ident():
            return
        busy, self.busy = self.busy, True
        try:
            with torch.no_grad(), without_autocast():
                self.visit(
                    Call(
                        self.calls,
                        run=self.runs,
                        order=self.calls - self.calls_before,
                        path=tuple(self.places),
                        is_crossed=any(self.are_crossed),
                        **call,
                    )
                )
        finally:
            self.busy = busy
        self.calls += 1


@contextmanager
def without_autocast() -> Iterator[None]:
    """Disables autocast, which would round recomputed weights."""
    with ExitStack() as stack:
        for kind in ("cpu", "cuda"):
            if torch.is_autocast_enabled(kind):
                stack.enter_context(torch.autocast(kind, enabled=False))
        yield


_watches: list[Watch] = []  # one for each running `observe`, the innermost last


def _original_name(config: Any) -> str:
    for watch in reversed(_watches):
        if id(config) in watch.originals:
            return watch.originals[id(config)]
    for watch in reversed(_watches):
        if watch.originals:
            return next(iter(watch.originals.values()))
    raise RuntimeError(
        f"attention implementation {IMPLEMENTATION!r}: expected a call inside sinkscope.observe, found one outside"
    )


def _find_implementation(name: str, module: nn.Module) -> Callable[..., tuple[Tensor, Tensor | None]]:
    """Returns the attention function that the model would have called; its own file defines `eager`."""
    for base in type(module).__mro__:
        source = sys.modules.get(base.__module__)
        interface = getattr(source, "ALL_ATTENTION_FUNCTIONS", None)
        if interface is not None and name in interface:
            return interface[name]
        if name == "eager" and hasattr(source, "eager_attention_forward"):
            return source.eager_attention_forward  # type: ignore[union-attr]
    raise UnsupportedModel(f"{type(module).__name__}: expected an attention function {name!r}, found none")


def _report_attention(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Any, **options: Any
) -> tuple[Tensor, Tensor | None]:
    """Runs the model's own implementation, and reports the call to this module's observers only."""
    name = _original_name(getattr(module, "config", None))
    if attention_mask is not None and not isinstance(attention_mask, Tensor):
        raise UnsupportedModel(
            f"{name}: expected a mask as a tensor, found {type(attention_mask).__name__}; "
            "call model.set_attn_implementation('sdpa') first"
        )
    with _without_reports():
        out, weights = _find_implementation(name, module)(module, query, key, value, attention_mask, **options)
    query, key, value = (_cast_as_autocast(x) for x in (query, key, value))
    is_flash, causal = "flash" in name, options.get("is_causal")
    if causal is None:
        causal = getattr(module, "is_causal", True)
    has_mask = attention_mask is not None and attention_mask.dim() == 4
    for watch in [watch for watch in _watches if id(module) in watch.tree]:
        watch.report(
            module=module,
            query=query,
            key=key,
            value=value,
            out=out,
            mask=attention_mask,
            scaling=options.get("scaling"),
            softcap=options.get("softcap"),
            sinks=options.get("s_aux"),
            bias=options.get("position_bias"),
            # Without a mask, eager attention lets queries see every key. A single query is that of the last token,
            # which sees every key, too.
            causal=bool(causal) and not has_mask and (is_flash or (query.shape[2] > 1 and name != "eager")),
            aligned=is_flash,
            window=options.get("sliding_window") if is_flash and not has_mask else None,
        )
    return out, weights


@contextmanager
def _without_reports() -> Iterator[None]:
    """Suppresses reports while the model's own implementation runs, which may itself call an observed function."""
    states = [(watch, watch.busy) for watch in _watches if watch.thread == threading.get_ident()]
    for watch, _ in states:
        watch.busy = True
    try:
        yield
    finally:
        for watch, busy in states:
            watch.busy = busy


def _cast_as_autocast(x: Tensor) -> Tensor:
    """Rounds x as autocast does before it multiplies queries, keys or values."""
    kind = x.device.type
    if x.dtype == torch.float32 and torch.is_autocast_enabled(kind):
        return x.to(torch.get_autocast_dtype(kind))
    return x


def _build_original_mask(*args: Any, config: Any = None, **options: Any) -> Any:
    interface, name = AttentionMaskInterface(), _original_name(config)
    return interface[name](*args, config=config, **options) if name in interface else None


class _DirectCallMode(TorchFunctionMode):
    """Reports the calls of scaled_dot_product_attention that a model makes itself."""

    def __init__(self, watch: Watch) -> None:
        super().__init__()
        self.watch = watch

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        watch = self.watch
        if (
            func is nn.functional.scaled_dot_product_attention
            and not watch.busy
            and (watch.modules or watch.counts_every_call and watch.root is not None)
        ):
            self._report(out, *args, **(kwargs or {}))
        return out

    def _report(
        self,
        out: Tensor,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> None:
        if query.dim() != 4:
            raise UnsupportedModel(
                "scaled_dot_product_attention: expected queries of [B, H, T, K], found a shape of "
                f"{list(query.shape)}: which of these are heads is not said; call it with unsqueeze(1) where there is "
                "one head"
            )
        mask = attn_mask
        while mask is not None and mask.dim() < 4:
            mask = mask[None]
        module = self.watch.modules[-1] if self.watch.modules else self.watch.root
        query, key, value = (_cast_as_autocast(x) for x in (query, key, value))
        self.watch.report(
            module=module,
            query=query,
            key=key,
            value=value,
            scaling=scale,
            out=out.transpose(1, 2),
            mask=mask,
            causal=is_causal,
        )


def _attention_modules(model: nn.Module, includes_interface: bool = False) -> list[nn.Module]:
    """Returns the innermost modules of a class "...attention...", by default without transformers' own."""
    interface_modules = {m for part in _interface_models(model) for m in part.modules() if not includes_interface}
    interface_modules -= {m for part in model.modules() if _bypasses_interface(part) for m in part.modules()}
    candidates = [
        m
        for m in model.modules()
        # Deformable attention weighs points of an image, and no keys.
        if m not in interface_modules and re.search("(?<!deformable)attention", type(m).__name__, re.IGNORECASE)
    ]
    return [m for m in candidates if not any(n is not m and n in candidates for n in m.modules())]


def _returned_weights(module: nn.Module, out: Any) -> Tensor | None:
    extras = out[1:] if isinstance(out, tuple | list) else ()
    weights = next((x for x in extras if isinstance(x, Tensor) and x.dim() == 4), None)
    # XLNet's have the axes [T, S, B, H].
    return weights.permute(2, 3, 0, 1) if weights is not None and "XLNet" in type(module).__name__ else weights


def _cached_keys(module: nn.Module, arguments: tuple[Any, ...]) -> Tensor | None:
    layer = getattr(module, "layer_idx", getattr(module, "layer_id", None))
    cache = next((x for x in arguments if isinstance(x, Cache)), None)
    if cache is None or not isinstance(layer, int) or not 0 <= layer < len(getattr(cache, "layers", ())):
        return None
    keys = getattr(cache.layers[layer], "keys", None)
    return keys if isinstance(keys, Tensor) and keys.dim() == 4 else None


def _interface_models(model: nn.Module) -> list[PreTrainedModel]:
    return [m for m in model.modules() if isinstance(m, PreTrainedModel) and m._can_set_attn_implementation()]


def _bypasses_interface(module: nn.Module) -> bool:
    return isinstance(module, PreTrainedModel) and not module._can_set_attn_implementation()


def _find_configs(model: nn.Module) -> list[Any]:
    bypassing = {id(m.config) for m in model.modules() if _bypasses_interface(m)}
    configs = {
        id(m.config): m.config
        for part in _interface_models(model)
        for m in part.modules()
        if hasattr(getattr(m, "config", None), "_attn_implementation_internal")
    }
    return [config for key, config in configs.items() if key not in bypassing]


def unwrap(model: nn.Module) -> nn.Module:
    """Returns the model inside torch.compile, PEFT, DataParallel, DistributedDataParallel and FSDP."""
    while True:
        inner = getattr(model, "_orig_mod", None)
        if inner is None and hasattr(model, "get_base_model"):
            inner = model.get_base_model()
        if inner is None and len(list(model.children())) == 1:
            inner = getattr(model, "module", None)
        if not isinstance(inner, nn.Module) or inner is model:
            return model
        model = inner


def class_name(model: nn.Module) -> str:
    """Returns the name of the model's class, without the prefix that `fully_shard` adds."""
    kind = type(unwrap(model))
    is_sharded = any(base.__name__ == "FSDPModule" for base in kind.__mro__)
    return kind.__name__.removeprefix("FSDP") if is_sharded else kind.__name__


# Of attention that is observed in none of the known ways.
RECORD_OWN_MAPS = (
    "attention that does not go through the interface is recorded from maps [H, T, T] of your own: {line} in each "
    "layer, then sinkscope.record_maps([maps], [tokens])"
)


class _SoftmaxMode(TorchFunctionMode):
    """Notes the shape of the first softmax that is attention written by hand: over [..., T, T], or, in blocks of keys,
    of four axes or more."""

    def __init__(self) -> None:
        super().__init__()
        self.shape: list[int] | None = None

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        name = getattr(func, "__name__", "")
        is_softmax = name in ("softmax", "_softmax") and isinstance(out, Tensor) and out.dim() > 2
        if self.shape is None and is_softmax and (out.dim() > 3 or out.shape[-1] == out.shape[-2] > 1):
            self.shape = list(out.shape)
        return out


def explain_no_calls(model: nn.Module, run: Callable[[], Any]) -> str:
    """Says of a model whose attention was not observed whether it has none, or how its maps can be recorded."""
    name = class_name(model)
    if any(isinstance(m, nn.MultiheadAttention) for m in model.modules()):
        return (
            f"{name}: expected attention that can be observed, found nn.MultiheadAttention, whose weights stay inside; "
            + RECORD_OWN_MAPS.format(line="maps.append(layer.self_attn(x, x, x, average_attn_weights=False)[1])")
        )
    with _SoftmaxMode() as mode:
        run()
    if mode.shape is None and not any(hasattr(m, "num_attention_heads") for m in _attention_modules(model)):
        return f"{name}: expected attention, found a model without: it weighs no tokens, so there is nothing to record"
    found = f"a softmax of its own over {mode.shape}" if mode.shape else "attention modules without a softmax"
    return (
        f"{name}: expected attention through transformers' interface, scaled_dot_product_attention or returned "
        f"weights, found {found}; {RECORD_OWN_MAPS.format(line='maps.append(att[0])')}"
    )


@contextmanager
def observe(model: nn.Module, visit: Visitor, returned: bool = False) -> Iterator[Watch]:
    """Passes a `Call` to `visit` for each attention call of `model`, in their order, while the context lasts.

    The model computes with the implementation that it had; the name of the implementation is restored
    at the end, also after an exception. A compiled model runs uncompiled. The context may include any
    number of forward passes: `Call.layer` continues to count. With a cache a call has fewer queries than keys;
    in a padded batch some queries see no key. `returned` also reports weights that modules return beside the interface,
    as the encoder of BigBird-Pegasus does.

    Raises UnsupportedModel if no module computes attention in a known way: by transformers' interface, by
    scaled_dot_product_attention, or with returned weights.
    """
    watch = Watch(visit, frozenset(map(id, model.modules())))
    with ExitStack() as stack:
        _watches.append(watch)
        stack.callback(_watches.remove, watch)
        stack.enter_context(torch.compiler.set_stance("force_eager"))
        _track_containers(model, watch, stack)
        configs, modules = _find_configs(model), _attention_modules(model, returned)
        _install_implementation(configs, watch, stack)
        watch.counts_every_call = not configs and not modules
        if not configs and any(_bypasses_interface(m) for m in model.modules()) and not modules:
            raise UnsupportedModel(f"{type(unwrap(model)).__name__}: expected attention modules, found none")
        if modules or watch.counts_every_call:
            _hook_modules(modules, watch, stack)
        _track_cross_attention(model, watch, stack)  # after the hooks that report returned weights
        yield watch


def _track_containers(model: nn.Module, watch: Watch, stack: ExitStack) -> None:
    """Adds hooks that keep `watch.places`, the numbered containers of the running module, up to date."""
    members: dict[nn.Module, tuple[str, int]] = {}
    for name, module in model.named_modules():
        container, _, number = name.rpartition(".")
        if number.isdigit():
            members[module] = container, int(number)

    def begin(module: nn.Module, *_: Any) -> None:
        if module is model:
            watch.root = model
        watch.begin(module)

    def end(module: nn.Module, *_: Any) -> None:
        if module is model:
            watch.root = None
        watch.end()

    def enter(module: nn.Module, *_: Any) -> None:
        container, index = members[module]
        visit = watch.visits.get(container, 0)
        watch.visits[container] = visit + 1
        watch.most_visits[container] = max(watch.most_visits.get(container, 0), visit + 1)
        watch.places.append(Place(container, index, visit))

    def leave(*_: Any) -> None:
        watch.places.pop()

    for module in [model, *_find_stacks(model)]:
        stack.callback(module.register_forward_pre_hook(begin).remove)
        stack.callback(module.register_forward_hook(end, always_call=True).remove)
    for module in members:
        stack.callback(module.register_forward_pre_hook(enter).remove)
        stack.callback(module.register_forward_hook(leave, always_call=True).remove)


def _find_stacks(model: nn.Module) -> list[nn.Module]:
    """Returns the modules that contain layers or embeddings: each run of one counts as a forward pass. Layers and their
    modules are left out, since several layers may share one module."""
    names = [name.split(".") for name, _ in model.named_modules()]
    container_paths = {".".join(parts[:n]) for parts in names if parts[-1].isdigit() for n in range(1, len(parts))}
    return [
        module
        for name, module in model.named_modules()
        if name
        and not isinstance(module, nn.Embedding)
        and (
            any(isinstance(part, nn.Embedding) for part in module.modules())
            or name in container_paths
            and not any(part.isdigit() for part in name.split("."))
        )
    ]


def argument_namer(module: nn.Module) -> Callable[[Any, Any], dict[str, Any]]:
    """Returns a function that converts a hook's `args` and `kwargs` to the arguments of `module.forward`, by name."""
    names = list(inspect.signature(module.forward).parameters)
    return lambda args, kwargs: dict(zip(names, args, strict=False)) | kwargs


def _track_cross_attention(model: nn.Module, watch: Watch, stack: ExitStack) -> None:
    """Adds hooks that keep `watch.are_crossed` up to date: whether running modules attend to another sequence."""
    namers, crossed_by_name = {}, set()
    for name, module in model.named_modules():
        if re.search("attention", type(module).__name__, re.IGNORECASE):
            namers[module] = argument_namer(module)
            if CROSS_NAMES.search(f"{name.rpartition('.')[2]} {type(module).__name__}"):
                crossed_by_name.add(module)

    def push(module: nn.Module, args: Any, kwargs: Any) -> None:
        arguments = namers[module](args, kwargs)
        watch.are_crossed.append(
            getattr(module, "is_cross_attention", False) is True
            or any(isinstance(arguments.get(name), Tensor) for name in SOURCE_ARGUMENTS)
            or module in crossed_by_name
        )

    def pop(*_: Any) -> None:
        watch.are_crossed.pop()

    for module in namers:
        stack.callback(module.register_forward_pre_hook(push, with_kwargs=True).remove)
        stack.callback(module.register_forward_hook(pop, always_call=True).remove)


def _install_implementation(configs: list[Any], watch: Watch, stack: ExitStack) -> None:
    """Makes models with these configs call `_report_attention`, until `stack` closes."""
    for config in configs:
        name = config._attn_implementation_internal or "eager"
        if name.startswith(IMPLEMENTATION):  # another observer has set it
            name = _original_name(config)
        watch.originals[id(config)] = name
        # The name keeps "flash", since models prepare their inputs differently if it contains that word.
        observer_name = f"{IMPLEMENTATION}_flash" if "flash" in name else IMPLEMENTATION
        AttentionInterface.register(observer_name, _report_attention)
        AttentionMaskInterface.register(observer_name, _build_original_mask)

        def restore_name(config: Any = config, name: Any = config._attn_implementation_internal) -> None:
            config._attn_implementation_internal = name

        stack.callback(restore_name)
        # set_attn_implementation would give every part of the model the same name, so the field is set directly.
        config._attn_implementation_internal = observer_name


def _hook_modules(modules: list[nn.Module], watch: Watch, stack: ExitStack) -> None:
    """Reports calls of models outside the interface: their scaled_dot_product_attention, or the returned weights."""
    calls: list[int] = []  # for each running module, `watch.calls` when the module began

    def push(module: nn.Module, *_: Any) -> None:
        watch.modules.append(module)
        calls.append(watch.calls)

    def pop(module: nn.Module, args: Any, kwargs: Any, out: Any) -> None:
        watch.modules.pop()
        weights = _returned_weights(module, out)
        if watch.calls == calls.pop() and weights is not None:
            watch.report(module=module, weights=weights, cached=_cached_keys(module, (*args, *kwargs.values())))

    for module in modules:
        stack.callback(module.register_forward_pre_hook(push).remove)
        stack.callback(module.register_forward_hook(pop, with_kwargs=True).remove)
    stack.enter_context(_DirectCallMode(watch))
