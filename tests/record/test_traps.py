"""Checks that errors which a careless recording of attention would hide do not happen."""

import warnings

import numpy as np
import pytest
import sinkscope
import torch
from families import FAMILIES, D, H, L, T, make_inputs, record, to_batch
from sentences import refused
from sinkscope import metrics
from sinkscope.attention import Call, UnsupportedModel
from transformers import AttentionInterface, AttentionMaskInterface, IBertConfig, IBertModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import flash_attention_mask

# Ten times the largest difference that tests/README.md has of these scores in float32.
from truth import F16_ROUNDING, alpha64, rounding_of, tensor_rounding, tolerance_of


def observe_maps(model: torch.nn.Module, **batch: torch.Tensor) -> tuple[list[torch.Tensor], object]:
    """Returns the maps [B, H, T, S] of each call, concatenated from small chunks, and the model's output."""
    maps = []

    def visit(call: Call) -> None:
        maps.append(torch.cat([chunk.att for chunk in call.chunks(cells=1000)], 2))

    with torch.no_grad(), sinkscope.observe(model, visit):
        out = model(**batch)
    return maps, out


def eager_maps(name: str, **batch: torch.Tensor) -> list[torch.Tensor]:
    with torch.no_grad():
        return list(FAMILIES[name].make("eager")(output_attentions=True, **batch).attentions)


INTERFACE_FAMILIES = [
    name
    for name, family in FAMILIES.items()
    if not family.weight_implementations and family.input_kind == "tokens" and name != "falcon-alibi"
]


@pytest.mark.parametrize("name", INTERFACE_FAMILIES)
def test_padding_is_invisible(name: str) -> None:
    family = FAMILIES[name]
    ids = torch.tensor(make_inputs(family, 2))
    mask = torch.ones_like(ids)
    # Decoders are padded at the front, encoders at the end.
    pad = slice(T - 9, T) if family.kind == "bidirectional" else slice(0, 9)
    mask[1, pad] = 0
    maps, _ = observe_maps(family.make(family.implementations[0]), input_ids=ids, attention_mask=mask)
    queries = mask[1].bool()
    for result, expected in zip(maps, eager_maps(name, input_ids=ids, attention_mask=mask), strict=True):
        assert result[1][:, queries][..., pad].abs().max() == 0
        assert (result[0] - expected[0]).abs().max() < tolerance_of(expected[0], L * D)
        assert (result[1] - expected[1])[:, queries].abs().max() < tolerance_of(expected[1][:, queries], L * D)


@pytest.mark.parametrize("name", ["llama", "gpt_oss", "gemma2", "gpt2"])
def test_maps_of_cached_decoding_are_the_last_rows_of_a_whole_pass(name: str) -> None:
    family = FAMILIES[name]
    ids = torch.tensor(make_inputs(family, 1))
    model = family.make(family.implementations[0])
    whole_maps = eager_maps(name, input_ids=ids)
    with torch.no_grad():
        cache = model(input_ids=ids[:, :30], use_cache=True).past_key_values
    for start, stop in ((30, 31), (31, 36)):  # one query, then several
        maps, _ = observe_maps(model, input_ids=ids[:, start:stop], cache=cache, use_cache=True)
        for result, expected in zip(maps, whole_maps, strict=True):
            S = result.shape[-1]  # a windowed cache holds the last keys only
            assert result.shape[2] == stop - start
            assert (result - expected[:, :, start:stop, stop - S : stop]).abs().max() < tolerance_of(expected, L * D)


def attend_like_flash(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    sliding_window: int | None = None,
    **options: object,
) -> tuple[torch.Tensor, None]:
    """Attends causally, within the window and without pads, but gets no map-shaped mask, like FlashAttention."""
    S, n = key.shape[2], query.shape[2]
    query_position = torch.arange(S - n, S)[:, None]
    visible = torch.arange(S) <= query_position if module.is_causal else torch.ones(n, S, dtype=torch.bool)
    if sliding_window is not None:
        visible = visible & (torch.arange(S) > query_position - sliding_window)
    visible = visible[None, None]
    if attention_mask is not None:
        visible = visible & attention_mask[:, None, None, -S:].bool()
    return sdpa_attention_forward(module, query, key, value, visible, **options)


@pytest.mark.parametrize("name", ["llama", "mistral"])
@pytest.mark.parametrize("padded", [False, True])
def test_flash_attention_passes_no_mask(name: str, padded: bool) -> None:
    AttentionInterface.register("flash_attention_test", attend_like_flash)
    AttentionMaskInterface.register("flash_attention_test", flash_attention_mask)
    ids = torch.tensor(make_inputs(FAMILIES[name], 1))
    mask = torch.ones_like(ids)
    mask[:, : 5 * padded] = 0
    model = FAMILIES[name].make("sdpa")
    model.config._attn_implementation_internal = "flash_attention_test"
    maps, _ = observe_maps(model, input_ids=ids, attention_mask=mask)
    for result, expected in zip(maps, eager_maps(name, input_ids=ids, attention_mask=mask), strict=True):
        difference = (result - expected)[:, :, 5 * padded :].abs().max()
        assert difference < tolerance_of(expected[:, :, 5 * padded :], L * D)


def test_observing_keeps_the_logits_and_the_causal_mask_of_sdpa() -> None:
    """An implementation without a mask function makes a causal model bidirectional: the recording says so, and a model
    whose logits change is refused."""
    model = FAMILIES["llama"].make("sdpa")
    ids = torch.tensor(make_inputs(FAMILIES["llama"], 1))
    with torch.no_grad():
        expected_logits = model(input_ids=ids).logits
    maps, out = observe_maps(model, input_ids=ids)
    assert torch.equal(out.logits, expected_logits)
    assert maps[0].triu(1).abs().max() == 0


def test_changed_logits_are_rejected() -> None:
    model = FAMILIES["llama"].make("sdpa")

    def scale_output(module: torch.nn.Module, args: object, out: tuple[torch.Tensor, object]) -> object:
        is_watched = model.config._attn_implementation == "sinkscope"
        return (out[0] * 1.01, *out[1:]) if is_watched else out

    model.model.layers[1].self_attn.register_forward_hook(scale_output)
    with pytest.raises(UnsupportedModel, match="logits of the untouched model"):
        record(model, make_inputs(FAMILIES["llama"], 1))


@pytest.mark.parametrize("secret", ["temperature", "mask"])
def test_an_implementation_with_other_weights_is_rejected(secret: str) -> None:
    """The logits are those of the untouched model, but the recomputed weights are not those that the model used."""

    def other_attention(
        module: torch.nn.Module,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attention_mask: torch.Tensor | None,
        **options: object,
    ) -> object:
        if secret == "temperature":
            return sdpa_attention_forward(module, query * 1.1, key, value, attention_mask, **options)
        wider_mask = torch.ones(T, T).tril(3).bool()
        return sdpa_attention_forward(module, query, key, value, wider_mask, **options)

    AttentionInterface.register("other_test", other_attention)
    AttentionMaskInterface.register("other_test", AttentionMaskInterface()["sdpa"])
    model = FAMILIES["llama"].make("sdpa")
    model.config._attn_implementation_internal = "other_test"
    with pytest.raises(UnsupportedModel, match="recomputed weights"):
        record(model, make_inputs(FAMILIES["llama"], 1))


@pytest.mark.parametrize("name", ["llama", "gpt_oss", "bert", "falcon", "bloom"])
def test_the_implementation_and_the_hooks_are_restored_after_an_exception(name: str) -> None:
    family = FAMILIES[name]
    model = family.make(family.implementations[0]).train()
    configs = [m.config for m in model.modules() if hasattr(m, "config")]
    implementations = [config._attn_implementation for config in configs]

    def raise_error(call: Call) -> None:
        raise KeyError("in the middle")

    with pytest.raises(KeyError), sinkscope.observe(model, raise_error):
        model(**to_batch(make_inputs(family, 1)[0]))
    with pytest.raises(ValueError, match="fields"):
        record(model, make_inputs(family, 1), fields=["maps"])
    record(model, make_inputs(family, 1))
    assert [config._attn_implementation for config in configs] == implementations
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
    assert all(m.training for m in model.modules())  # record uses evaluation mode, and restores this mode as well


def test_low_precision_scores_are_computed_in_float32() -> None:
    model = FAMILIES["llama"].make("sdpa").to(torch.bfloat16)
    prompt = make_inputs(FAMILIES["llama"], 1)[0]
    calls = []
    with torch.no_grad(), sinkscope.observe(model, calls.append):
        model(**to_batch(prompt))
    [chunk] = calls[0].chunks()
    q, k = calls[0].query.double(), calls[0].key.double().repeat_interleave(2, 1)
    scores = (q @ k.transpose(-2, -1) * calls[0].scaling).masked_fill(torch.ones(T, T).triu(1).bool(), -torch.inf)
    assert chunk.att.dtype == torch.float32
    assert (chunk.att - scores.softmax(-1)).abs().max() < tolerance_of(scores.softmax(-1), D)
    recording = record(model, [prompt])
    assert recording.conditions["model"]["dtype"] == "bfloat16"


LOW_PRECISION_CASES = [
    ("llama", "sdpa"),
    ("llama", "eager"),
    ("mistral", "sdpa"),
    ("gpt2", "eager"),
    ("gpt_neox", "sdpa"),
    ("gpt_oss", "eager"),
    ("gemma2", "eager"),
    ("falcon", "sdpa"),
    ("bert", "eager"),
    ("modernbert", "sdpa"),
]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bfloat16", "float16"])
@pytest.mark.parametrize(("name", "implementation"), LOW_PRECISION_CASES)
def test_rounding_in_low_precision_is_accepted(name: str, implementation: str, dtype: torch.dtype) -> None:
    model = FAMILIES[name].make(implementation).to(dtype)
    result = record(model, make_inputs(FAMILIES[name], 1))
    assert result.model["dtype"] == str(dtype).removeprefix("torch.")


def test_an_attention_of_zeros_is_accepted_in_low_precision() -> None:
    model = FAMILIES["llama"].make("sdpa").to(torch.bfloat16)
    model.model.layers[1].self_attn.v_proj.weight.data.zero_()
    assert record(model, make_inputs(FAMILIES["llama"], 1))


def test_vectors_that_a_model_does_not_return_are_absent() -> None:
    result = record(FAMILIES["bloom"].make("eager"), make_inputs(FAMILIES["bloom"], 1), fields=["q", "k", "v"])
    assert "0.att" in result and not result.tensors.keys() & {"0.q", "0.k", "0.v"}


@pytest.mark.parametrize(
    ("name", "factor", "dtype"),
    [("llama", 1.05, torch.bfloat16), ("gpt2", 0.95, torch.float16), ("gpt_neox", 1.05, torch.float16)],
)
def test_scores_that_are_5_percent_off_are_rejected(name: str, factor: float, dtype: torch.dtype) -> None:
    def scaled_attention(module: torch.nn.Module, query: torch.Tensor, *args: object, **options: object) -> object:
        return sdpa_attention_forward(module, query * factor, *args, **options)

    AttentionInterface.register("factor_test", scaled_attention)
    AttentionMaskInterface.register("factor_test", AttentionMaskInterface()["sdpa"])
    model = FAMILIES[name].make("sdpa").to(dtype)
    model.config._attn_implementation_internal = "factor_test"
    with pytest.raises(UnsupportedModel, match=f"the rounding of {str(dtype)[6:]} over {T} keys"):
        record(model, make_inputs(FAMILIES[name], 1))


def test_under_autocast_scores_are_those_of_the_rounded_queries() -> None:
    model = FAMILIES["llama"].make("sdpa")
    prompt = make_inputs(FAMILIES["llama"], 1)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        result = record(model, prompt)
        calls: list[Call] = []
        with torch.no_grad(), sinkscope.observe(model, calls.append):
            model(**to_batch(prompt[0]))
    q, k = calls[0].query.double(), calls[0].key.double().repeat_interleave(2, 1)
    assert calls[0].query.dtype == torch.bfloat16  # the numbers that autocast multiplies
    scores = (q @ k.transpose(-2, -1) * calls[0].scaling).masked_fill(torch.ones(T, T).triu(1).bool(), -torch.inf)
    att = scores.softmax(-1)[0]
    assert np.abs(result["0.alpha"][0] - alpha64(att)).max() < tolerance_of(att, D)


def test_a_compiled_model_is_recorded_uncompiled() -> None:
    prompts = make_inputs(FAMILIES["llama"], 2)
    expected = record(FAMILIES["llama"].make("sdpa"), prompts)
    compiled_model = torch.compile(FAMILIES["llama"].make("sdpa"), backend="eager")
    result = record(compiled_model, prompts)
    self_compiled_model = FAMILIES["llama"].make("sdpa")
    self_compiled_model.compile(backend="eager")
    second_result = record(self_compiled_model, prompts)
    for recording in (result, second_result):
        assert np.array_equal(recording["mean.alpha"], expected["mean.alpha"])


def test_a_prompt_out_of_memory_is_reported_and_the_others_continue() -> None:
    model = FAMILIES["llama"].make("sdpa")
    prompts = make_inputs(FAMILIES["llama"], 4)
    large_prompt = torch.tensor(prompts[1])

    def raise_out_of_memory(module: torch.nn.Module, args: tuple[torch.Tensor, ...]) -> None:
        if (args[0] == large_prompt).all(-1).any():
            raise torch.OutOfMemoryError("CUDA out of memory")

    expected = record(model, [prompts[i] for i in (0, 2, 3)])
    bound = tolerance_of(torch.from_numpy(expected.attention(0)), L * D)
    model.get_input_embeddings().register_forward_pre_hook(raise_out_of_memory)
    for batch in (1, 2, 4):
        with pytest.warns(UserWarning, match="out of memory"):
            result = record(model, prompts, batch=batch, keep=2)
        assert result["prompt.failed"].tolist() == [0, 1, 0, 0]
        assert np.isnan(result["prompt.alpha_1"]).tolist() == [False, True, False, False]
        assert np.allclose(result["mean.alpha"], expected["mean.alpha"], rtol=0, atol=bound)
        assert result["1.tokens"].tolist() == prompts[2]
        assert result.conditions["prompts"] | {"sha256": None} == {
            "source": "texts",
            "sha256": None,
            "count": 4,
            "kept": 2,
            "T": T,
        }


def test_other_errors_are_not_taken_for_lack_of_memory() -> None:
    model = FAMILIES["llama"].make("sdpa")

    def fail(*_: object) -> None:
        raise IndexError("an error of the model's own")

    model.register_forward_pre_hook(fail)
    with pytest.raises(IndexError, match="model's own"):
        record(model, [[1] * T])


@pytest.mark.parametrize(("name", "n"), [("gpt2", 1), ("bert", 1), ("ibert", -1)])
def test_a_prompt_longer_than_the_positions_is_refused_by_their_number(name: str, n: int) -> None:
    if name == "ibert":  # counts positions from 2
        config = IBertConfig(
            vocab_size=61, hidden_size=32, intermediate_size=48, num_hidden_layers=1, num_attention_heads=2
        )
        model = IBertModel(config).eval()
    else:
        model = FAMILIES[name].make("sdpa")
    positions = model.config.max_position_embeddings
    n += positions
    with pytest.raises(
        ValueError, match=f"^tokens: expected fewer for .*, which has {positions} positions, found {n}: "
    ):
        record(model, [[5] * n], tokens=None)


def test_a_batch_gives_the_numbers_of_single_prompts() -> None:
    for name in ("llama", "gpt_oss", "bloom", "bert"):
        model = FAMILIES[name].make(FAMILIES[name].implementations[0])
        prompts = make_inputs(FAMILIES[name], 5)
        single_recording = record(model, prompts, keep=3)
        batch_recording = record(model, prompts, keep=3, batch=3)
        assert single_recording.tensors.keys() == batch_recording.tensors.keys()
        for key, value in single_recording.tensors.items():
            assert np.allclose(value, batch_recording[key], rtol=0, atol=tensor_rounding(value, D), equal_nan=True), key


def test_short_texts_are_omitted_and_reported() -> None:
    model = FAMILIES["llama"].make("sdpa")
    prompts = make_inputs(FAMILIES["llama"], 2)
    with pytest.warns(UserWarning, match="1 of 3 texts have fewer"):
        result = record(model, [prompts[0], [5, 6], prompts[1]])
    assert result.conditions["prompts"]["count"] == 2
    with refused(ValueError), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        record(model, [[5, 6]])
    shortest = record(model, [prompts[0], prompts[1][:20]], tokens=None)
    assert shortest.conditions["prompts"]["T"] == 20


def test_the_first_token_and_the_mask_are_parameters() -> None:
    """If a position other than 0 counts as the first, ratios, shares and the rows of prompts are those of this
    position."""
    model = FAMILIES["vit"].make("sdpa")
    prompt = make_inputs(FAMILIES["vit"], 1)
    result = record(model, prompt, tokens=None, first=3, fields=["v", "hidden"])
    norms = np.linalg.norm(result["0.v"], axis=-1)
    other_norms = np.delete(norms, 3, -1).mean(-1)
    assert np.allclose(result["mean.value_ratio"], norms[..., 3] / other_norms, rtol=rounding_of(1, D + T))
    hidden = np.linalg.norm(result["0.hidden"], axis=-1)
    ratio = hidden[:, 3] / np.delete(hidden, 3, -1).mean(-1)
    assert np.allclose(result["mean.hidden_ratio"], ratio, rtol=rounding_of(1, D + T))
    assert np.isclose(result["prompt.alpha_1"][0], result["mean.alpha"][..., 3].mean(), rtol=rounding_of(1, L * H))
    assert np.allclose(result["mean.first_share"], result["mean.alpha"][..., 3], rtol=rounding_of(1, T))
    assert result.conditions["first"] == {"token": "patch 0,2", "id": None, "position": 3}
    # Under a causal mask only T - k queries see key k.
    causal = record(model, prompt, tokens=None, mask="causal")
    n = result["mean.alpha"].shape[-1]
    key_weights = result["mean.alpha"] * n
    assert np.allclose(causal["mean.alpha"], key_weights / np.arange(n, 0, -1), rtol=rounding_of(1, n))


def test_numbers_of_the_first_token_use_the_position_that_counts_as_first() -> None:
    """Under a causal mask, earlier queries do not see the token that counts as the first."""
    first = 2
    model, prompt = FAMILIES["llama"].make("sdpa"), make_inputs(FAMILIES["llama"], 1)
    result = record(model, prompt, first=first, eps=[0.02, 0.05], fields=["k", "v", "hidden"])
    att = result.attention(0)  # rounded to 16 bits
    bound = F16_ROUNDING + rounding_of(1, T)
    assert np.allclose(result["mean.first_share"], att[..., first].mean(-1), rtol=0, atol=bound)
    gate = result["mean.head_gate"]
    assert np.isnan(gate[..., : first + 1]).all()
    expected = 1 - att[..., first + 1 :, first]
    assert np.allclose(gate[..., first + 1 :], expected, rtol=0, atol=bound)
    for name, field in (("key", "k"), ("value", "v")):
        norms = np.linalg.norm(result[f"0.{field}"], axis=-1)
        ratio = norms[..., first] / np.delete(norms, first, -1).mean(-1)
        assert np.allclose(result[f"mean.{name}_ratio"], ratio, rtol=rounding_of(1, D + T))
    assert np.array_equal(result["mean.contribution"], result["mean.contribution_at"][..., first])
    hidden = torch.from_numpy(np.delete(result["0.hidden"], first, 1))
    entropy = metrics.matrix_entropy(hidden)
    assert np.allclose(result["mean.matrix_entropy_others"], entropy, rtol=rounding_of(1, D * T))
    alpha, sink = result["mean.alpha"], result["mean.sink_ratio"]
    assert np.array_equal(result["prompt.sink_1"][0], sink[:, first])
    assert np.isclose(result["prompt.alpha_1"][0], alpha[..., first].mean(), rtol=rounding_of(1, L * H))
    rows = {row["metric"]: row for row in result.table()}
    assert np.isclose(rows["alpha_3"]["mean"], alpha[..., first].mean(), rtol=rounding_of(1, L * H))
    assert rows["alpha_3"]["largest"] == alpha[..., first].max()
    for i, eps in enumerate((0.02, 0.05)):
        assert rows[f"Sink_3, eps {eps:g}"]["mean"] == sink[i, first]
        assert np.isnan(rows[f"Sink_3, eps {eps:g}"]["largest"])
    assert not np.isclose(alpha[..., first].mean(), alpha[..., 0].mean(), rtol=1e-2)
    assert not np.array_equal(sink[:, first], sink[:, 0])


def test_raw_numbers_of_a_prompt_use_the_position_that_counts_as_first() -> None:
    """Raw numbers differ from others only in a model whose rows do not sum to 1."""
    first, family = 2, FAMILIES["gpt_oss"]
    result = record(family.make(family.implementations[0]), make_inputs(family, 1), first=first, eps=[0.05, 0.1])
    alpha, sink = result["mean.alpha_raw"], result["mean.sink_ratio_raw"]
    assert np.array_equal(result["prompt.sink_ratio_raw"][0], sink[:, first])
    assert np.isclose(result["prompt.alpha_raw"][0], alpha[..., first].mean(), rtol=rounding_of(1, L * H))
    assert not np.array_equal(sink[:, first], sink[:, 0])
    assert not np.isclose(alpha[..., first].mean(), alpha[..., 0].mean(), rtol=1e-2)


@pytest.mark.parametrize("name", ["llama", "gpt_oss", "modernbert"])
def test_pooled_maps_average_only_visible_cells(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from sinkscope import attention, gather

    monkeypatch.setattr(gather, "POOLED_SIZE", 10)
    monkeypatch.setattr(attention, "CPU_CELLS", 7 * 4 * T)  # chunks end inside pooled cells
    family = FAMILIES[name]
    model = family.make(family.implementations[0])
    prompt = make_inputs(family, 1)
    pooled = record(model, prompt, maps="pooled")
    maps, _ = observe_maps(model, **to_batch(prompt[0]))
    visible = [torch.as_tensor(m[0].numpy() > 0).any(0) for m in maps]
    P, block, bound = 10, 5, max(tolerance_of(m[0], L * D) for m in maps)
    assert pooled["0.att_pooled"].shape == (L, 4, P, P)
    for layer in range(L):
        for i in range(P):
            for j in range(P):
                cell = slice(block * i, block * i + block), slice(block * j, block * j + block)
                count = visible[layer][cell].sum().clamp_min(1)
                expected = maps[layer][0][:, cell[0], cell[1]].sum((-2, -1)) / count
                error = np.abs(pooled.attention(0)[layer, :, i, j] - expected.numpy())
                assert (error - pooled["0.att_scale"][layer] / 510).max() < bound  # beyond half a step
    full = record(model, prompt)
    for key in ("0.alpha", "0.row_mass", "mean.entropy"):
        assert np.allclose(pooled[key], full[key], rtol=0, atol=bound)


class AddedMaskModel(torch.nn.Module):
    """A user's model that hides later keys by adding the number `added` to their scores."""

    def __init__(self, added: float) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.embedding = torch.nn.Embedding(97, 16)
        self.layers = torch.nn.ModuleList(torch.nn.Linear(16, 48) for _ in range(2))
        self.head = torch.nn.Linear(16, 97)
        self.added = added
        self.maps: list[torch.Tensor] = []

    def forward(self, idx: torch.Tensor) -> torch.Tensor:
        x, n = self.embedding(idx), idx.shape[1]
        mask = torch.full((n, n), self.added).triu(1)
        self.maps = []
        for layer in self.layers:
            q, k, v = layer(x).unflatten(-1, (3, 2, 8)).permute(2, 0, 3, 1, 4)
            out = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
            self.maps.append((q @ k.mT / 8**0.5 + mask).softmax(-1)[0])
            x = x + out.transpose(1, 2).flatten(-2)
        return self.head(x)


@pytest.mark.parametrize("added", [-torch.inf, torch.finfo(torch.float32).min, -1e9, -1e4])
def test_any_large_negative_number_hides_a_key(added: float) -> None:
    model, [ids] = AddedMaskModel(added), make_inputs(FAMILIES["llama"], 1)
    result = record(model, [ids])
    att = torch.stack(model.maps).detach()
    assert result.model["mask"] == {"kind": "causal"} and "mean.loss_mean" in result
    bound = tolerance_of(att, 2 * 16)
    assert np.abs(result["0.alpha"] - alpha64(att.double())).max() < bound
    # Entropy is normalized by the number of keys that a query sees.
    entropy = metrics.entropy(att, torch.arange(1, T + 1))
    assert np.allclose(result["mean.entropy"], entropy, rtol=0, atol=bound, equal_nan=True)


def test_an_ambiguous_mask_is_rejected() -> None:
    """Adding -100 to a score hides the key, but a bias may be as large without being a mask."""
    with refused(UnsupportedModel):
        record(AddedMaskModel(-100.0), make_inputs(FAMILIES["llama"], 1))


def test_a_mask_in_a_mapping_may_be_of_large_numbers() -> None:
    [ids] = make_inputs(FAMILIES["llama"], 1)
    mask = torch.full((T, T), -1e9).triu(1)[None, None]
    model = FAMILIES["llama"].make("sdpa")
    expected = record(model, [ids])
    result = record(model, [{"input_ids": torch.tensor([ids]), "attention_mask": mask}], tokens=None)
    assert result.model["mask"] == expected.model["mask"] == {"kind": "causal"}
    assert np.abs(result["0.alpha"] - expected["0.alpha"]).max() < 1e-6
