"""Gathers the metrics of one forward pass: metrics of heads from the calls of attention, and metrics of the
residual stream from the inputs of the layers."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from . import metrics
from .attention import Call, Chunk, UnsupportedModel, without_autocast
from .images import Image
from .probe import Facts, call_name, check_rows, container_path, key_ranges, mask_of_ranges
from .recording import KINDS, Array
from .settings import Settings
from .summary import ROW_SUM, SEEN

POOLED_SIZE = 128  # largest number of rows and of columns of a pooled map
BY_QUERY = (ROW_SUM, "entropy", "head_gate")  # metrics [L, H, T] of queries, which cross-attention lacks
IMAGE_MAP_BYTES = 2**25  # of a prompt with an image, full maps of up to this size are kept: a pooled row has no patches


class HeadMetrics:
    def __init__(
        self, facts: Facts, settings: Settings, batch: int, keep: int, images: Sequence[Image | None] = ()
    ) -> None:
        self.facts, self.settings, self.batch, self.keep = facts, settings, batch, keep
        self.images = images or [None] * batch
        self.kinds = KindShares([image for image in self.images if image])
        self.layers: list[dict[str, Tensor]] = []
        self.stacked: dict[str, Array] = {}  # cache of `_stack_layers`, [B, L, ...]
        # fields of the first `keep` prompts: a tensor for each layer
        self.store: dict[str, list[Tensor]] = {}
        self.visible_counts: list[Tensor] = []  # for each layer, how many keys each query sees, [B, T]
        self.seen_keys = torch.zeros(batch, facts.T, dtype=torch.bool)  # keys that some query sees in some layer
        # the smallest key that each query sees in any layer
        self.first_keys = torch.full((batch, facts.queries), facts.T)
        maps, T = settings.maps, facts.T
        if maps == "auto":
            fits = self.kinds.images and 2 * facts.L * facts.H * T * T <= IMAGE_MAP_BYTES
            maps = "full" if T <= POOLED_SIZE or fits else "pooled"
        self.maps = maps if keep else "none"
        self.block = -(-T // POOLED_SIZE)
        self.P = -(-T // self.block)
        # A pooled map of cross-attention has a row for each query: a text is shorter than the frames of its speech.
        self.row_block = 1 if facts.is_cross else self.block
        self.row_cells = -(-facts.queries // self.row_block)

    def _check_shape(self, call: Call) -> None:
        """Refuses a call that is not of the first prompt's layers and tokens."""
        facts = self.facts
        B, _, T, S = call.shape
        if (facts.queries, facts.T) != (T, S):
            raise UnsupportedModel(
                f"layer {call.layer_idx}: expected {facts.queries} queries and {facts.T} keys as in the first "
                f"prompt, found {T} and {S}"
            )
        if len(self.layers) == facts.L:
            raise UnsupportedModel(
                f"layer {call.layer_idx}: expected {facts.L} calls of attention as for the first prompt, found more"
            )
        if self.batch != B:
            raise UnsupportedModel(
                f"{call_name(call)}: expected attention over {self.batch} sequences, one for each prompt, found {B}"
            )
        if facts.paths and call.path != (expected := facts.paths[len(self.layers)]):
            raise UnsupportedModel(
                f"{call_name(call)}: expected the layers that ran for the first prompt, "
                f"{container_path(expected)} at this place, found {container_path(call.path)}"
            )

    def visit(self, call: Call) -> None:
        self._check_shape(call)
        facts, device = self.facts, call.device
        B, H, Q, T = call.shape
        weights = call.weights if call.seen is None else None
        if weights is not None:
            call = replace(call, seen=mask_of_ranges(*facts.ranges[len(self.layers)], T).to(device))
            if weights.masked_select(~call.seen).any():  # type: ignore[operator]
                raise UnsupportedModel(
                    f"{call_name(call)}: expected no weight on keys that had none in the first "
                    "prompt, found some: the model's mask depends on the prompt; record prompts of "
                    "one mask together"
                )
        # Sums over queries are in float64 where the device has it. Results are allocated before the loop, since small
        # tensors between large ones that are freed again would fragment the heap.
        sum_dtype = torch.float32 if device.type == "mps" else torch.float64
        sums = {
            name: torch.zeros(B, H, T, dtype=sum_dtype, device=device)
            for name in ("alpha", "alpha_raw", "contribution_at")
        }
        rows = {
            name: torch.zeros(B, H, Q, device=device)
            for name in (ROW_SUM, "entropy", "distance", "att_bias", "head_gate")
        }
        kind_sums = {name: torch.zeros(B, H, dtype=sum_dtype, device=device) for name in self.kinds.names}
        norms = None if call.value is None else call.value.float().norm(dim=-1)
        head_norms = None if norms is None else norms.repeat_interleave(H // call.G, 1)
        kept_map = self._allocate_map(B, H, device)
        ranges = torch.zeros(2, B, Q, dtype=torch.long, device=device)
        visible_counts = torch.zeros(B, Q, device=device)
        visible_keys = torch.zeros(B, T, dtype=torch.bool, device=device)
        for chunk in call.chunks():
            if not (facts.uses_shares or facts.is_from_maps):
                check_rows(call, chunk)
            ranges[..., chunk.rows] = torch.stack(key_ranges(chunk.visible[:, 0]))
            visible_counts[:, chunk.rows] = chunk.visible[:, 0].sum(-1, dtype=torch.float32)
            # If the model returned only its weights, a key without any weight counts as hidden.
            visible_keys |= (chunk.visible[:, 0] if weights is None else (chunk.att > 0).any(1)).any(-2)
            att, visible = chunk.att, facts.visible_keys(chunk.rows, device)
            share = metrics.part_of_row(att) if facts.uses_shares else att
            sums["alpha"] += metrics.alpha(share, facts.kind, facts.rows)
            if facts.uses_shares:  # also in layers without a sink logit, whose shares are their weights
                sums["alpha_raw"] += metrics.alpha(att, facts.kind, facts.rows)
            if chunk.sink is not None:
                rows["att_bias"][..., chunk.rows] = chunk.sink
            elif facts.operation == "sink_logit" and facts.is_from_maps:
                rows["att_bias"][..., chunk.rows] = 1 - metrics.row_mass(att)
            rows["head_gate"][..., chunk.rows] = share[..., self.settings.first]
            rows[ROW_SUM][..., chunk.rows] = metrics.row_mass(att)
            rows["distance"][..., chunk.rows] = metrics.distance(share, chunk.rows)
            for name, x in self.kinds.shares(share, chunk.rows).items():
                kind_sums[name] += x
            rows["entropy"][..., chunk.rows] = metrics.entropy(share, chunk.visible.sum(-1))
            if head_norms is not None:
                sums["contribution_at"] += metrics.contributions(att, head_norms, visible, facts.kind, facts.rows)
            if kept_map is not None:
                self._keep_rows(kept_map, chunk)
        self._compare_mask(call, ranges.cpu(), visible_keys.cpu())
        self.visible_counts.append(visible_counts.cpu())
        rows["head_gate"] = metrics.head_gate(rows["head_gate"], self.settings.first)
        omitted_names = set() if facts.uses_shares else {"alpha_raw"}
        omitted_names |= set() if facts.operation == "sink_logit" else {"att_bias"}
        omitted_names |= {"contribution_at"} if head_norms is None else set()
        layer_metrics = {name: x.float() for name, x in (sums | rows | kind_sums).items() if name not in omitted_names}
        # Repeats norms for each head if layers group their heads differently.
        copies = H // call.G if facts.G == H else 1
        if norms is not None:
            layer_metrics["value_norm"] = norms.repeat_interleave(copies, 1)
        if call.query is not None:
            assert call.key is not None
            key = call.key.float()
            layer_metrics["key_norm"] = key.norm(dim=-1).repeat_interleave(copies, 1)
            layer_metrics["cos_gap"] = metrics.cos_gap(
                call.query.float(),
                key.repeat_interleave(H // call.G, 1),
                facts.last_keys.to(device),
                self.settings.first,
            )
        self.layers.append({name: x.cpu() for name, x in layer_metrics.items()})
        self._keep_fields(call, kept_map)

    def _compare_mask(self, call: Call, ranges: Tensor, keys: Tensor) -> None:
        """Adds the call's visible keys to those seen so far. Refuses a mask in which a query's last visible key is not
        that of the first prompt; earlier keys may differ, as in a sparse mask."""
        first, last = ranges
        self.seen_keys |= keys
        self.first_keys = torch.minimum(self.first_keys, first)
        if self.settings.mask is not None:
            return
        if self.facts.kind == "causal":
            differs = last > self.facts.last_keys
        else:
            differs = (last >= 0) & (last != self.facts.ranges[len(self.layers)][1])
        if differs.any():
            b, t = differs.nonzero()[0].tolist()
            raise UnsupportedModel(
                f"{call_name(call)}: expected the {self.facts.kind} mask of the first prompt, found that query {t} "
                f"sees keys up to {int(last[b, t])}: the model's mask depends on the prompt; record prompts of one "
                "mask together"
            )

    def _refuse_padding(self) -> None:
        """Refuses padding and packed texts that the model itself hides: the number of queries that see a key would no
        longer follow from the key's position."""
        if self.settings.mask is not None:
            return
        hidden_keys = (~self.seen_keys).nonzero().tolist()
        if hidden_keys:
            raise UnsupportedModel(
                "texts: expected prompts without padding, found that no query sees key "
                f"{hidden_keys[0][1]} in any layer: "
                'pass prompts without the tokens that the model hides, or name the mask, mask="causal"'
            )
        first_keys = self.first_keys.flip(-1).cummin(-1).values.flip(-1)
        starts = (first_keys[:, 1:] > torch.arange(self.facts.queries - 1)).nonzero().tolist()
        if starts:
            raise UnsupportedModel(
                f"texts: expected one text in each prompt, found that no query from position {starts[0][1] + 1} on "
                "sees a key before it, in any layer: padding that the model hides, packed texts, or position_ids that "
                'restart; pass each text as a prompt of its own, or name the mask, mask="causal"'
            )

    def _allocate_map(self, B: int, H: int, device: torch.device) -> dict[str, Tensor] | None:
        if self.maps == "none":
            return None
        if self.maps == "full":
            return {"att": torch.empty(self.keep, H, self.facts.queries, self.facts.T, dtype=torch.float16)}
        cells = self.row_cells, self.P
        return {"sum": torch.zeros(self.keep, H, *cells, device=device), "count": torch.zeros(cells, device=device)}

    def _keep_rows(self, maps: dict[str, Tensor], chunk: Chunk) -> None:
        att = chunk.att[: self.keep]
        if self.maps == "full":
            maps["att"][:, :, chunk.rows] = stored = att.to(torch.float16).cpu()
            if stored.isinf().any():
                largest = f"{att.abs().max().item():.3g}"
                raise ValueError(
                    f"maps: expected weights below 65520, which float16 holds, found {largest}; keep=0 stores none"
                )
            return
        row = torch.arange(chunk.rows.start, chunk.rows.stop, device=att.device) // self.row_block
        maps["sum"].index_add_(2, row, self._sum_columns(att.float()))
        maps["count"].index_add_(0, row, self._sum_columns(chunk.visible[0, 0].float()))

    def _sum_columns(self, x: Tensor) -> Tensor:
        """Sums the columns of each pooled cell.  [..., T] -> [..., P]"""
        x = nn.functional.pad(x, (0, self.P * self.block - x.shape[-1]))
        return x.unflatten(-1, (self.P, self.block)).sum(-1)

    def _keep_fields(self, call: Call, maps: dict[str, Tensor] | None) -> None:
        if self.keep == 0:
            return
        if maps is not None and self.maps == "full":
            self.store.setdefault("att", []).append(maps["att"])
        elif maps is not None:
            cells = (maps["sum"] / maps["count"].clamp_min(1)).cpu()
            scale = cells.amax((-2, -1))
            rounded = (cells / scale.clamp_min(1e-30)[..., None, None] * 255).round().to(torch.uint8)
            self.store.setdefault("att_pooled", []).append(rounded)
            self.store.setdefault("att_scale", []).append(scale)
        for name, x in (("q", call.query), ("k", call.key), ("v", call.value)):
            if name in self.settings.fields and x is not None:
                if name in self.facts.uneven_vectors:
                    raise UnsupportedModel(
                        f"fields: expected {name} of one width in all layers, found "
                        f"others in layer {call.layer_idx}: record without it"
                    )
                x = x.repeat_interleave(self.facts.G // call.G, 1) if name != "q" else x
                self.store.setdefault(name, []).append(x[: self.keep].float().cpu())

    def _stack_layers(self, name: str) -> Array | None:
        if not self.layers or name not in self.layers[0]:
            return None
        if name not in self.stacked:
            self.stacked[name] = torch.stack([layer[name] for layer in self.layers], 1).float().numpy()
        return self.stacked[name]

    def metrics(self) -> dict[str, Array]:
        """Returns the metrics of each prompt, [B, ...]. Computes all prompts together: for short prompts, most of the
        time is the overhead of PyTorch's calls."""
        facts, first = self.facts, self.settings.first
        if len(self.layers) != facts.L:
            raise UnsupportedModel(
                f"expected {facts.L} calls of attention as for the first prompt, found {len(self.layers)}"
            )
        self._refuse_padding()
        results = {
            name: x
            for name in (
                "alpha",
                "alpha_raw",
                ROW_SUM,
                "entropy",
                "head_gate",
                "contribution_at",
                "cos_gap",
                "key_norm",
                "value_norm",
                *self.kinds.names,
            )
            if (x := self._stack_layers(name)) is not None
        }
        for suffix in ("", "_raw"):
            if f"alpha{suffix}" in results:
                percent = self._metric_by_eps(metrics.sink, results[f"alpha{suffix}"])
                results[f"sink_ratio{suffix}"] = percent / np.float32(100)
        results["near_eps"] = self._metric_by_eps(metrics.near, results["alpha"])
        sums = results[ROW_SUM]
        results[f"{ROW_SUM}_summary"] = np.stack([sums.mean(-1), sums.min(-1), sums.max(-1)], -1)
        results["entropy_mean"] = results["entropy"].mean(-1)
        # Counts all queries, also those before the first token.
        results["first_share"] = results["alpha"][..., first] * np.float32(self._query_count(first) / facts.T)
        if facts.is_cross:  # numbers by position are those of keys; a query has no distance from another sequence
            for name in BY_QUERY:
                del results[name]
        else:
            distances = self._stack_layers("distance")
            assert distances is not None
            results["distance"] = distances.mean(-1)
            load = metrics.head_load(torch.from_numpy(results["head_gate"]))
            results |= {"head_load": load.numpy(), "head_gini": metrics.head_gini(load).numpy()}
        if "contribution_at" in results:
            results["contribution"] = results["contribution_at"][..., first]
        for name in ("key", "value"):
            if f"{name}_norm" in results:
                norms = torch.from_numpy(results[f"{name}_norm"])
                results[f"{name}_ratio"] = metrics.norm_ratio(norms, first).numpy()
        return results

    def _metric_by_eps(self, metric: Callable[[Tensor, float], Tensor], alphas: Array) -> Array:
        """Returns a metric of all heads together, for each prompt and each eps.  [B, L, H, T] -> [B, E, T]"""
        B, _, _, T = alphas.shape
        by_head = torch.from_numpy(alphas).permute(1, 2, 0, 3).flatten(2)
        return np.stack([metric(by_head, e).float().view(B, T).numpy() for e in self.settings.eps], 1)

    def _query_count(self, k: int) -> int:
        return self.facts.T if self.facts.kind == "bidirectional" else self.facts.T - k

    def kept_fields(self, b: int, ids: list[int] | None) -> dict[str, Array]:
        facts = self.facts
        fields = {name: torch.stack([layer[b] for layer in x]).numpy() for name, x in self.store.items()}
        if ids is not None:
            fields["tokens"] = np.array(ids, np.int32)
        for name in ("alpha", "alpha_raw", ROW_SUM, "att_bias"):
            if (x := self._stack_layers(name)) is not None and not (facts.is_cross and name in BY_QUERY):
                fields[name] = x[b].copy()  # a view would keep the whole batch in memory
        counts = torch.stack([layer[b] for layer in self.visible_counts])
        # A reader counts the keys by the mask of the conditions, which has no holes and no windows but causal ones.
        if not torch.equal(counts, facts.counts_of_mask()):
            fields[SEEN] = counts[:, None].expand(-1, facts.H, -1).contiguous().numpy()
        for name in ("key_norm", "value_norm"):
            if name in self.settings.fields and (x := self._stack_layers(name)) is not None:
                fields[name] = x[b].copy()
        return fields


class KindShares:
    """Shares of attention by the kind of the key: means over the queries after the last token of the image, or over all
    queries where there are none, as in a vision model."""

    def __init__(self, images: Sequence[Image]) -> None:
        self.images = images
        kinds = {kind for image in images for kind in image.kinds}
        present = set(KINDS) if "t" in kinds else kinds  # a prompt of a language model may have no special token
        self.names = [f"{name}_share" for letter, name in KINDS.items() if letter in present]
        masks = [image.masks() for image in images]
        self.keys = {name: torch.stack([mask[name.removesuffix("_share")] for mask in masks]) for name in self.names}
        self.queries = torch.zeros(len(images), len(images[0].kinds) if images else 0)
        for row, image in zip(self.queries, images, strict=True):
            end = image.kinds.rindex("i") + 1
            queries = row[end:] if end < len(row) else row
            queries[:] = 1 / len(queries)

    def shares(self, att: Tensor, rows: slice) -> dict[str, Tensor]:
        """Returns what these queries add to each share.  [B, H, t, T] -> [B, H] each"""
        queries = self.queries[:, rows].to(att)
        return {name: torch.einsum("bhts,bs,bt->bh", att, keys.to(att), queries) for name, keys in self.keys.items()}


def stream_metrics(states: Tensor, first: int) -> dict[str, Tensor]:
    """Returns the metrics of hidden states.  [n, T, D] -> [n, ...] each"""
    norms = states.norm(dim=-1)
    others = torch.cat([states[:, :first], states[:, first + 1 :]], 1)
    return {
        "hidden_norm": norms,
        "hidden_ratio": metrics.norm_ratio(norms, first),
        "massive": metrics.largest(states),
        "mixing": metrics.mixing(states),
        "kurtosis": metrics.kurtosis(states),
        "matrix_entropy": metrics.matrix_entropy(states),
        "matrix_entropy_others": metrics.matrix_entropy(others),
    }


class StreamMetrics:
    """Gathers the metrics of the residual stream: of the input of every layer, with attention or not, and of the last
    layer's output before the final norm."""

    def __init__(self, facts: Facts, settings: Settings, keep: int, has_visual_sinks: bool = False) -> None:
        self.facts, self.settings, self.keep, self.has_visual_sinks = facts, settings, keep, has_visual_sinks
        self.sinks: list[Tensor] = []
        self.states: list[dict[str, Tensor]] = []
        self.store: list[Tensor] = []

    @contextmanager
    def watch(self) -> Iterator[None]:
        hooks = [
            hook
            for block in self.facts.members
            for hook in (
                block.register_forward_pre_hook(self._take_input, with_kwargs=True),
                block.register_forward_hook(self._take_last_output),
            )
        ]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def _take_input(self, _: nn.Module, args: Any, kwargs: Any) -> None:
        self._take_states(args[0] if args else kwargs.get("hidden_states"))

    def _take_last_output(self, _: nn.Module, args: Any, out: Any) -> None:
        if len(self.states) == self.facts.blocks:
            self._take_states(out[0] if isinstance(out, tuple) else out)

    def _take_states(self, hidden: Any) -> None:
        if not isinstance(hidden, Tensor) or hidden.dim() != 3 or hidden.shape[1] != self.facts.T:
            return
        with torch.no_grad(), without_autocast():
            h = hidden.detach().float()
            self.states.append({name: x.cpu() for name, x in stream_metrics(h, self.settings.first).items()})
            if self.keep and self.has_visual_sinks:
                self.sinks.append(metrics.sink_value(h[: self.keep], self.settings.first).cpu())
            if self.keep and "hidden" in self.settings.fields:
                self.store.append(h[: self.keep].cpu())

    @property
    def _is_complete(self) -> bool:
        return len(self.states) == self.facts.blocks + 1

    def metrics(self) -> dict[str, Array]:
        if not self._is_complete:
            return {}
        return {name: torch.stack([state[name] for state in self.states], 1).numpy() for name in self.states[0]}

    def kept_fields(self, b: int, results: Mapping[str, Array]) -> dict[str, Array]:
        fields = {}
        if self._is_complete and "hidden_norm" in self.settings.fields:
            fields["hidden_norm"] = results["hidden_norm"].copy()
        if self._is_complete and self.sinks:
            fields["sink_value"] = torch.stack([x[b] for x in self.sinks]).numpy()
        if self._is_complete and self.store:
            fields["hidden"] = torch.stack([h[b] for h in self.store]).numpy()
        return fields
