"""What the first forward pass shows of a model, and whether observing it is sound."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from .attention import Call, Chunk, UnsupportedModel
from .settings import Settings


@dataclass
class Facts:
    """What the first forward pass shows of a model."""

    T: int
    H: int
    G: int
    K: int
    kind: str  # causal, prefix or bidirectional
    prefix: int
    windows: list[int | None]  # of each layer
    seen: Tensor  # [L, T]: number of keys that a query sees
    sinks: bool  # a sink logit takes part in the softmax
    softcap: float | None
    blocks: list[nn.Module]  # the layers of the model, whose inputs are the residual stream
    from_weights: bool = False  # the model returned its weights; queries, keys and values are unknown

    @property
    def L(self) -> int:
        return len(self.windows)

    @property
    def last(self) -> Tensor:
        """The last key that each query could see, [T]: a window narrows neither baselines nor pairs."""
        t = torch.arange(self.T)
        return t.clamp_min({"causal": 0, "prefix": self.prefix - 1}.get(self.kind, self.T - 1))

    def visible(self, rows: slice, device: torch.device) -> Tensor:
        """What a query could see, bool [t, T]."""
        return torch.arange(self.T, device=device) <= self.last[rows, None].to(device)


class Probe:
    """Looks at the calls of the first forward pass: their sizes, what each query sees, and whether the
    recomputed weights give the output of the model's own attention."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.calls: list[tuple[tuple[int, int, int], nn.Module]] = []  # H, G, K
        self.T = 0
        self.ranges: list[tuple[Tensor, Tensor, Tensor]] = []  # first and last visible key, their number
        self.sinks = self.weights = False
        self.softcap: float | None = None

    def visit(self, call: Call) -> None:
        B, H, T, S = call.shape
        if T != S:
            raise UnsupportedModel(f"layer {call.layer}: expected as many queries as keys, "
                                   f"found {T} and {S}")
        if self.calls and T != self.T:
            raise UnsupportedModel(f"layer {call.layer}: expected {self.T} tokens as in layer 0, "
                                   f"found {T}")
        K = 0 if call.query is None else call.query.shape[-1]
        self.calls.append(((H, call.G, K), call.module))
        self.T, self.sinks, self.softcap = T, self.sinks or call.sinks is not None, call.softcap
        self.weights = self.weights or call.weights is not None
        first, last, count = torch.empty(3, T, dtype=torch.long)
        key = torch.arange(T, device=call.device)
        for chunk in call.chunks():
            self._compare(call, chunk)
            seen = chunk.visible[0, 0]
            first[chunk.rows] = torch.where(seen, key, T).amin(-1).cpu()
            last[chunk.rows] = torch.where(seen, key, -1).amax(-1).cpu()
            count[chunk.rows] = seen.sum(-1).cpu()
        self.ranges.append((first, last, count))

    def _compare(self, call: Call, chunk: Chunk) -> None:
        if call.value is None or call.out is None:
            return
        B, H, t, S = chunk.att.shape
        value = call.value.to(chunk.att.dtype)
        found = (chunk.att.reshape(B, call.G, -1, S) @ value).view(B, H, t, -1)
        expected = call.out[:, chunk.rows].transpose(1, 2)
        bits = torch.finfo(expected.dtype).eps
        off = ((found - expected).abs().max() / value.abs().max().clamp_min(1e-30)).item()
        allowed = max(1e-4, 8 * bits)
        if not off <= allowed:
            raise UnsupportedModel(
                f"{type(call.module).__name__}, layer {call.layer}: expected recomputed weights to give "
                f"the attention's output within {allowed:.2g} of its largest value, found {off:.3g}")

    def facts(self, model: nn.Module) -> Facts:
        if not self.calls:
            raise UnsupportedModel(f"{type(model).__name__}: expected calls of attention, found none")
        sizes = {size for size, _ in self.calls}
        if len(sizes) > 1:
            raise UnsupportedModel(f"{type(model).__name__}: expected the same heads in every layer, "
                                   f"found (H, G, K) = {', '.join(map(str, sorted(sizes)))}")
        (H, G, K), T = next(iter(sizes)), self.T
        kind, prefix = self._kind()
        windows = [_window(first, last, kind) for first, last, _ in self.ranges]
        if K == 0:
            config: Any = model.config
            D, heads = width(model)[0], H
            K = getattr(config, "head_dim", None) or D // heads
        return Facts(T, H, G, int(K), kind, prefix, windows, torch.stack([n for _, _, n in self.ranges]),
                     self.sinks, self.softcap, _blocks(model, [module for _, module in self.calls]),
                     self.weights)

    def _kind(self) -> tuple[str, int]:
        t = torch.arange(self.T)
        ahead = [last for _, last, _ in self.ranges if (last > t).any()]
        prefix = int(ahead[0][0]) + 1 if ahead else 0
        kind = "causal"
        if ahead:
            is_prefix = all(torch.equal(last, t.clamp_min(prefix - 1)) for last in ahead)
            kind = "prefix" if is_prefix and prefix < self.T else "bidirectional"
        kind = self.settings.mask or kind
        return kind, prefix if kind == "prefix" else 0


def _window(first: Tensor, last: Tensor, kind: str) -> int | None:
    """The number of keys that a windowed layer sees; None where no query lacks a key before it."""
    t = torch.arange(len(first))
    if kind == "bidirectional":
        reach = torch.maximum(t - first, last - t).max().item()
        limited = (first > 0).any() or (last < len(t) - 1).any()
        return int(reach) * 2 + 1 if limited else None
    return int((t - first).max()) + 1 if (first > 0).any() else None


def _blocks(model: nn.Module, attention: Sequence[nn.Module]) -> list[nn.Module]:
    """The layer that each attention module belongs to: what a numbered list of modules holds."""
    names = {module: name for name, module in model.named_modules()}
    blocks = []
    for module in attention:
        parts = names.get(module, "").split(".")
        numbers = [i for i, part in enumerate(parts) if part.isdigit()]
        if not numbers:
            return []
        blocks.append(model.get_submodule(".".join(parts[: numbers[-1] + 1])))
    return blocks


def width(model: nn.Module) -> tuple[int, int]:
    """D and V; V is the number of outputs where there is no vocabulary."""
    config: Any = model.config
    config = config.get_text_config() if hasattr(config, "get_text_config") else config
    D = getattr(config, "hidden_size", None) or getattr(config, "n_embd", None) or config.d_model
    return int(D), int(getattr(config, "vocab_size", None) or getattr(config, "num_labels", 1))
