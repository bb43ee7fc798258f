"""Checks that maps of other programs, and models that are watched in a user's loop, give the numbers of `record`."""

import json
import math
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import sinkscope
import torch
from families import FAMILIES, D, H, L, T, make_inputs, record, watch
from hybrids import HYBRIDS
from safetensors.numpy import load as from_bytes
from sentences import refused
from sinkscope.attention import HIDING_THRESHOLD, Call, UnsupportedModel, _cast_as_autocast
from sinkscope.gather import HeadMetrics
from sinkscope.probe import check_rows, mask_ranges_of_weights
from sinkscope.recording import recording_bytes
from sinkscope.settings import Settings
from sinkscope.watch import WatchedSequences
from torch import nn
from truth import alpha64, eager64, rounding_of, tensor_rounding, tolerance_of

PROMPTS = make_inputs(FAMILIES["llama"], 4)
SCHEMA = Path(__file__).resolve().parents[2] / "core" / "report" / "recording.schema.json"


@pytest.fixture(scope="module")
def recording_of_model() -> sinkscope.Recording:
    return record(FAMILIES["llama"].make("eager"), PROMPTS, keep=4, fields=["q", "k", "v", "hidden"])


def maps_of(prompts: list[list[int]], name: str = "llama") -> list[torch.Tensor]:
    model = FAMILIES[name].make("eager")
    with torch.no_grad():
        return [
            torch.stack(model(input_ids=torch.tensor([p]), output_attentions=True).attentions)[:, 0] for p in prompts
        ]


@pytest.mark.parametrize("form", ["arrays", "layers", "one at a time", "with a batch"])
def test_maps_give_the_numbers_of_the_recorder(recording_of_model: sinkscope.Recording, form: str) -> None:
    maps: Any = maps_of(PROMPTS)
    maps = {
        "arrays": [m.numpy() for m in maps],
        "layers": [list(m) for m in maps],
        "one at a time": ((layer for layer in m) for m in maps),
        "with a batch": [tuple(layer[None] for layer in m) for m in maps],
    }[form]
    fields = (
        {}
        if form != "arrays"
        else {name: [recording_of_model[f"{i}.{name}"] for i in range(4)] for name in ("q", "k", "v", "hidden")}
    )
    result = sinkscope.record_maps(maps, PROMPTS, keep=4, **fields)
    shared_names = result.tensors.keys() & recording_of_model.tensors.keys()
    assert {
        "mean.alpha",
        "deviation.alpha",
        "mean.sink_ratio",
        "mean.entropy",
        "mean.distance",
        "mean.row_mass",
        "prompt.alpha_1",
        "3.att",
        "mean.head_gini",
        "mean.near_eps",
    } <= shared_names
    if fields:
        assert {
            "mean.value_ratio",
            "mean.hidden_ratio",
            "mean.cos_gap",
            "mean.contribution_at",
            "mean.matrix_entropy",
        } <= shared_names
    for name in shared_names - {"prompt.loss"}:
        expected = recording_of_model[name]
        assert np.allclose(result[name], expected, rtol=0, atol=tensor_rounding(expected, D), equal_nan=True), name
    assert [row["metric"] for row in result.table()][:2] == ["alpha_1", "Sink_1, eps 0.1"]
    if SCHEMA.exists():
        pytest.importorskip("jsonschema").validate(result.conditions, json.loads(SCHEMA.read_text()))


@pytest.mark.parametrize("rows", [1, 4])
def test_a_mask_with_one_row_applies_to_every_chunk_of_queries(rows: int) -> None:
    mask = torch.ones(1, 1, rows, 4, dtype=torch.bool)
    mask[..., 0] = False
    zeros = torch.zeros(1, 1, 4, 2)
    call = Call(0, nn.Identity(), query=zeros, key=zeros, value=zeros, mask=mask)
    chunks = list(call.chunks(cells=8, scores=True))
    # A boolean mask hides keys and adds nothing to the scores of visible ones.
    assert all(chunk.scores is not None and chunk.scores[..., 1:].eq(0).all() for chunk in chunks)
    att = torch.cat([chunk.att for chunk in chunks], 2)
    assert torch.allclose(att, torch.tensor([0, 1 / 3, 1 / 3, 1 / 3], dtype=att.dtype).expand(1, 1, 4, 4))


@pytest.mark.parametrize(
    ("options", "visible"),
    [
        ({"mask": torch.full((1, 1, 4, 4), HIDING_THRESHOLD).tril(-1)}, lambda query, key: key >= query),
        ({"window": 2}, lambda query, key: abs(query - key) < 2),
        ({"window": 2, "causal": True}, lambda query, key: 0 <= query - key < 2),
        ({"causal": True}, lambda query, key: key <= query),
    ],
)
def test_each_query_sees_the_keys_that_its_mask_allows(options: dict[str, Any], visible: Any) -> None:
    zeros = torch.zeros(1, 1, 4, 2)
    [chunk] = Call(0, nn.Identity(), query=zeros, key=zeros, value=zeros, **options).chunks()
    assert chunk.visible[0, 0].tolist() == [[visible(query, key) for key in range(4)] for query in range(4)]


def test_returned_weights_may_differ_from_1_by_one_rounding_step_of_their_type() -> None:
    half = torch.tensor([0.5, 0.5 + 2**-7], dtype=torch.bfloat16)  # bfloat16 has steps of 2**-7 at 1
    for weights, is_accepted in ((half, True), (half.float(), False), (half + half, False)):
        call = Call(0, nn.Identity(), weights=weights.view(1, 1, 1, 2))
        [chunk] = call.chunks()
        with nullcontext() if is_accepted else pytest.raises(UnsupportedModel, match="rows sum to 1"):
            check_rows(call, chunk)


def test_a_window_is_inferred_only_if_most_queries_show_it() -> None:
    """A window of 2 of 8 keys hides the first from 6 queries."""
    t, last = torch.arange(8), torch.arange(8)
    for missing_count, is_window in ((2, True), (3, False)):
        first = (t - 1).clamp_min(0)
        first[3 : 3 + missing_count] += 1  # the key at the edge has no weight
        expected = ((t - 1).clamp_min(0), last) if is_window else (torch.zeros_like(t), last)
        result = mask_ranges_of_weights(first, last, "causal", last)
        assert all(map(torch.equal, result, expected)), missing_count
    # At least 4 queries must show a window.
    for width, is_window in ((4, True), (5, False)):
        first = (t - width + 1).clamp_min(0)
        first[-1] += 1
        assert torch.equal(mask_ranges_of_weights(first, t, "causal", t)[0] > 0, t >= width) is is_window


def test_each_pass_of_a_sequence_has_the_same_layers_and_its_own_number_of_keys() -> None:
    def make_call(T: int, S: int, run: int, order: int) -> Call:
        weights = torch.ones(1, 1, T, S).tril(S - T)
        return Call(
            order,
            module,
            weights=weights / weights.sum(-1, keepdim=True),
            run=run,
            order=order,
            cached=torch.zeros(1, 1, 9, 2),
        )

    module, sequences = nn.Identity(), WatchedSequences(nn.Identity())
    sequences.visit(make_call(3, 3, 1, 0))
    sequences.visit(make_call(1, 4, 2, 0))  # a cache of 9 places does not say which of them are keys
    [[layer]] = sequences._sequences
    assert layer.keys is None and layer.length == 4
    with refused(UnsupportedModel):
        sequences.visit(make_call(1, 4, 2, 1))


def test_autocast_rounds_only_single_precision() -> None:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        for dtype, expected in ((torch.float32, torch.bfloat16), (torch.float64, torch.float64)):
            assert _cast_as_autocast(torch.ones(1, dtype=dtype)).dtype == expected


def test_maps_of_more_than_128_tokens_are_pooled() -> None:
    for length, maps, block, P in ((128, "full", 1, 128), (129, "pooled", 2, 65), (130, "pooled", 2, 65)):
        heads = HeadMetrics(SimpleNamespace(T=length, queries=length, is_cross=False), Settings(), 1, 1)  # type: ignore[arg-type]
        assert (heads.maps, heads.block, heads.P) == (maps, block, P)


def test_a_query_that_sees_only_the_first_key_shows_another_mask() -> None:
    last = torch.tensor([3, 3, 3, 3])
    facts = SimpleNamespace(T=4, queries=4, is_cross=False, kind="bidirectional", ranges=((0 * last, last),))
    heads, call = HeadMetrics(facts, Settings(), 1, 1), Call(0, nn.Identity())  # type: ignore[arg-type]
    keys = torch.ones(1, 4, dtype=torch.bool)
    for last_key, is_same in ((3, True), (-1, True), (0, False)):  # a query may see no key
        ranges = torch.stack([0 * last, last])[:, None].clone()
        ranges[1, 0, 2] = last_key
        with nullcontext() if is_same else refused(UnsupportedModel):
            heads._compare_mask(call, ranges, keys)


def test_the_mask_is_found_and_rows_must_sum_to_1() -> None:
    att = np.full((1, 2, 4, 4), 0.25, np.float32)
    result = sinkscope.record_maps([att], [list("abcd")])
    assert result.model["mask"] == {"kind": "bidirectional"} and np.allclose(result["mean.alpha"], 0.25)
    assert np.allclose(result["mean.entropy_mean"], 1) and np.allclose(result["mean.distance"], 1.25)
    causal = np.tril(np.ones((4, 4), np.float32))
    causal = np.broadcast_to(causal / causal.sum(-1, keepdims=True), (1, 2, 4, 4)).copy()
    result = sinkscope.record_maps([causal], [list("abcd")], first=1)
    assert result.model["mask"] == {"kind": "causal"} and result.first == 1
    assert result.conditions["first"] == {"token": "b", "id": None, "position": 1}
    assert np.allclose(result["mean.first_share"], (1 / 2 + 1 / 3 + 1 / 4) / 4)
    # The recording names a first token if all prompts have it at the position that counts as the first.
    for other_tokens, token in (("xbyz", "b"), ("axyz", None)):
        result = sinkscope.record_maps([causal, causal], [list("abcd"), list(other_tokens)], first=1)
        assert result.conditions["first"]["token"] == token
    with refused(ValueError):
        sinkscope.record_maps([causal / 2], [list("abcd")])
    sigmoid_recording = sinkscope.record_maps([causal / 2], [list("abcd")], operation="sigmoid")
    assert np.allclose(sigmoid_recording["mean.alpha"], result["mean.alpha"], atol=1e-6)
    assert np.allclose(sigmoid_recording["mean.alpha_raw"], result["mean.alpha"] / 2) and np.allclose(
        sigmoid_recording["mean.row_mass"], 0.5
    )
    sink_recording = sinkscope.record_maps([causal / 2], [list("abcd")], operation="sink_logit")
    assert np.allclose(sink_recording["0.att_bias"], 0.5)


@pytest.mark.parametrize(
    ("maps", "tokens", "options"),
    [
        (np.zeros((2, 4, 4)), [list("abcd")], {}),
        (np.full((1, 1, 1, 3, 4), 1 / 4), [list("abc")], {}),
        (np.full((1, 1, 1, 4, 4), 1 / 4), [list("abc")], {}),
        (np.full((1, 1, 1, 4, 4), 1 / 4), [], {}),
        (np.full((1, 1, 1, 4, 4), 1 / 4), [list("abcd")] * 2, {}),
        (np.full((1, 1, 1, 4, 4), 1 / 4), ["abcd"], {}),
        (np.full((1, 1, 1, 4, 4), 1 / 4), "abcd", {}),
        (np.full((0, 1, 1, 4, 4), 1 / 4), [], {}),
        (np.full((1, 1, 1, 4, 4), np.nan), [list("abcd")], {}),
        (np.full((1, 1, 1, 4, 4), 1 / 4), [list("abcd")], {"mask": "causal"}),
        (np.full((1, 1, 1, 4, 4), 1 / 4), [list("abcd")], {"first": 4}),
        (np.ones((1, 1, 1, 1, 1)), [["a"]], {}),
        (np.full((1, 1, 1, 4, 4), 1 / 4), [list("abcd")], {"layers": [3], "blocks": 3}),
        (np.full((1, 1, 1, 4, 4), 1 / 4), [list("abcd")], {"operation": "magic"}),
        (np.full((1, 1, 1, 4, 4), 1 / 4), [5, 6, 7, 8], {}),
        (np.full((2, 1, 1, 4, 4), 1 / 4), [list("abcd")], {}),
        (np.full((1, 1, 1, 1, 4), 1 / 4), [list("abcd")], {}),
        (np.full((1, 1, 1, 4, 4), 7e4), [list("abcd")], {"operation": "identity"}),
    ],
)
def test_maps_of_wrong_shapes_are_rejected(maps: Any, tokens: Any, options: dict[str, Any]) -> None:
    with refused(ValueError):
        sinkscope.record_maps(maps, tokens, **options)


def test_vectors_recorded_with_maps_have_a_row_for_each_token() -> None:
    att, tokens = np.tril(np.ones((1, 2, 4, 4), np.float32)), [list("abcd")]
    att /= att.sum(-1, keepdims=True)
    plain_recording = sinkscope.record_maps([att], tokens)
    for name in ("q", "k"):
        result = sinkscope.record_maps([att], tokens, **{name: [np.ones((1, 2, 4, 3), np.float32)]})
        assert result.tensors.keys() == plain_recording.tensors.keys()
    for shape in ((1, 2, 5, 3), (1, 3, 4, 3)):
        with refused(ValueError):
            sinkscope.record_maps([att], tokens, v=[np.ones(shape, np.float32)])
    for shape in ((2, 4), (2, 4, 3, 1), (3, 4, 3), (2, 5, 3)):
        with refused(ValueError):
            sinkscope.record_maps([att], tokens, hidden=[np.ones(shape, np.float32)])
    # A layer of shape [1, T, T] has one head; the first dimension is not a batch.
    assert sinkscope.record_maps([att[:, :1]], tokens).model["H"] == 1


class CustomModel(nn.Module):
    """A user's model without a config, which calls scaled_dot_product_attention once in each layer."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.embed = nn.Embedding(97, 32)
        self.mix = nn.ModuleList([nn.Linear(32, 96) for _ in range(2)])
        self.head = nn.Linear(32, 97)
        for x in self.parameters():
            nn.init.normal_(x, 0, 0.4)

    def project(self, x: torch.Tensor, layer: int) -> tuple[torch.Tensor, ...]:
        return tuple(part.view(*x.shape[:2], 4, 8).transpose(1, 2) for part in self.mix[layer](x).chunk(3, -1))

    def forward(self, idx: torch.Tensor) -> torch.Tensor:
        x = self.embed(idx)
        for layer in range(2):
            out = nn.functional.scaled_dot_product_attention(*self.project(x, layer), is_causal=True)
            x = x + out.transpose(1, 2).flatten(2)
        return self.head(x)

    def maps64(self, ids: list[int]) -> torch.Tensor:
        x, result = self.double().embed(torch.tensor([ids])), []
        for layer in range(2):
            q, k, v = self.project(x, layer)
            scores = q @ k.transpose(-2, -1) / math.sqrt(8)
            att = scores.masked_fill(torch.ones(len(ids), len(ids)).triu(1).bool(), -torch.inf).softmax(-1)
            result.append(att[0])
            x = x + (att @ v).transpose(1, 2).flatten(2)
        self.float()
        return torch.stack(result).detach()


def test_a_custom_model_is_watched_and_recorded() -> None:
    model = CustomModel().eval()
    maps = [model.maps64(row) for row in PROMPTS[:2]]
    result = watch(model, *([row] for row in PROMPTS[:2])).recording(PROMPTS[:2])
    recorded_model = record(model, PROMPTS[:2])
    for i in range(2):
        for recording in (result, recorded_model):
            assert np.abs(recording[f"{i}.alpha"] - alpha64(maps[i])).max() < tolerance_of(maps[i], 2 * 16)
    assert (recorded_model.model["V"], recorded_model.model["L"], "mean.loss_mean" in recorded_model) == (97, 2, True)


@pytest.mark.parametrize("name", ["llama", "mistral", "gpt_oss"])
def test_generation_with_a_cache_gives_the_maps_of_the_whole_text(name: str) -> None:
    model = FAMILIES[name].make(FAMILIES[name].implementations[0])
    with sinkscope.watching(model) as sequences:
        ids = model.generate(torch.tensor([PROMPTS[0][:10]]), max_new_tokens=8, do_sample=False)
    result = sequences.recording(ids)
    n = ids.shape[1] - 1  # the last token is generated, not read
    att = eager64(model, input_ids=ids[:, :n])
    share = att / att.sum(-1, keepdim=True)
    assert result.conditions["prompts"]["T"] == n == 17
    assert np.abs(result["0.alpha"] - alpha64(share)).max() < tolerance_of(share, result.model["L"] * result.model["D"])
    assert result.model["operation"] == ("sink_logit" if name == "gpt_oss" else "softmax")


WINDOWED = ["mistral", "gpt_oss", "gpt_neo", "gemma2", "modernbert"]


@pytest.mark.parametrize(
    ("name", "implementation"), [(n, i) for n in (*WINDOWED, "llama", "bloom") for i in FAMILIES[n].implementations]
)
def test_watching_gives_the_numbers_of_recording(name: str, implementation: str) -> None:
    """Without the window, the entropy of a windowed layer would be computed over all earlier keys, 0.4 too small."""
    model = FAMILIES[name].make(implementation)
    sequences = watch(model, *([row] for row in PROMPTS))
    result, expected = sequences.recording(PROMPTS), record(model, PROMPTS)
    for key in ("L", "H", "G", "K", "D", "V", "mask", "windows", "softcap", "operation"):
        assert result.model.get(key, "none") == expected.model.get(key, "none"), key
    for key in (result.tensors.keys() & expected.tensors.keys()) - {"prompt.loss"}:
        x = expected[key]
        assert np.allclose(result[key], x, rtol=0, atol=tensor_rounding(x, D), equal_nan=True), key


@pytest.mark.parametrize("name", WINDOWED)
def test_a_window_is_found_in_maps(name: str) -> None:
    """In the models of this test every layer has a window, unlike in most of their families."""
    family = FAMILIES[name]
    expected = record(family.make(family.implementations[0]), PROMPTS[:1])
    maps = eager64(family.make("eager"), input_ids=torch.tensor(PROMPTS[:1]))
    result = sinkscope.record_maps([maps], PROMPTS[:1], operation=expected.model["operation"])
    for key in ("mask", "windows"):
        assert result.model.get(key) == expected.model.get(key)
    bound = tolerance_of(maps / maps.sum(-1, keepdim=True), L * D)
    for key, size in (("mean.entropy", 1), ("mean.alpha", 1), ("mean.distance", T)):
        assert np.allclose(result[key], expected[key], rtol=0, atol=size * bound, equal_nan=True), key
    full_maps = torch.full((1, L, H, T, T), 1.0).tril()
    if name == "mistral":
        with refused(ValueError):
            sinkscope.record_maps([maps, (full_maps / full_maps.sum(-1, keepdim=True))[0]], PROMPTS[:2])


def test_keys_without_weight_do_not_count_as_a_window() -> None:
    """In sparse maps, and in maps rounded to half precision, single keys have no weight."""
    att = torch.full((1, 2, 6, 6), 1.0).tril()
    att[..., 4:, 0] = 0
    att[..., 5, 2] = 0
    result = sinkscope.record_maps([att / att.sum(-1, keepdim=True)], [list("abcdef")])
    assert result.model["mask"] == {"kind": "causal"} and "windows" not in result.model
    self_attention = torch.eye(6).expand(1, 2, 6, 6)
    assert sinkscope.record_maps([self_attention], [list("abcdef")]).model["mask"] == {"kind": "causal"}
    # In a window of 5 keys the first has no weight in one row.
    window = torch.ones(12, 12).tril().triu(-4)
    window[9, 5] = 0
    result = sinkscope.record_maps(
        [(window / window.sum(-1, keepdim=True)).expand(1, 2, 12, 12)], [list("abcdefghijkl")]
    )
    assert result.model["mask"] == {"kind": "window", "window": 5}


def test_a_static_cache_is_refused_as_such() -> None:
    model = FAMILIES["llama"].make("sdpa")
    with sinkscope.watching(model), refused(UnsupportedModel):
        model.generate(torch.tensor([PROMPTS[0]]), max_new_tokens=3, do_sample=False, cache_implementation="static")
    cache = model(torch.tensor([PROMPTS[0]]), use_cache=True).past_key_values
    with sinkscope.watching(model), refused(UnsupportedModel):
        model(torch.tensor([PROMPTS[0][:2]]), cache=cache)


def test_a_hybrid_that_is_watched_keeps_its_layer_numbers() -> None:
    make, layers = HYBRIDS["jamba"]
    model = make()
    result = watch(model, [[token % 60 for token in PROMPTS[0]]]).recording([PROMPTS[0]])
    assert (result.layers, result.blocks) == (layers, 4)


def test_changes_by_custom_hooks_count_as_edits() -> None:
    model = FAMILIES["llama"].make("sdpa")
    baseline = record(model, PROMPTS)
    handle = model.model.layers[1].self_attn.q_proj.register_forward_hook(lambda m, args, out: out * 0)
    label = "queries of layer 1 zeroed"
    result = record(model, PROMPTS, edits=[label])
    watched_recording = watch(model, *([row] for row in PROMPTS)).recording(PROMPTS, edits=[label])
    handle.remove()
    bound = tolerance_of(torch.from_numpy(baseline.attention(0)), D)
    uniform = torch.tensor(np.tri(T) / np.arange(1, T + 1)[:, None]).sum(-2) / torch.arange(T, 0, -1)
    for recording in (result, watched_recording):
        assert recording.conditions["class"] == "EDITED" and label in recording.title
        assert np.allclose(recording["mean.alpha"][0], baseline["mean.alpha"][0], rtol=0, atol=bound)
        assert np.allclose(recording["mean.alpha"][1], uniform, rtol=0, atol=rounding_of(1, T))
    assert baseline.conditions["class"] == "MEASURED" and "edits" not in baseline.conditions
    with pytest.raises(ValueError, match="expected a list of labels"):
        record(model, PROMPTS, edits=label)


def test_only_undefined_numbers_are_nan() -> None:
    """A number is NaN only if it is undefined, because there is no query after the first token, or no second prompt."""
    result = from_bytes(recording_bytes(sinkscope.record_maps(maps_of(PROMPTS), PROMPTS)))
    undefined_names = {name for name, x in result.items() if x.dtype.kind == "f" and np.isnan(x).any()}
    assert undefined_names == {"mean.head_gate", "deviation.head_gate", "prompt.loss"}
    assert result["mean.alpha"].shape == (L, H, T)
