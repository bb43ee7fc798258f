"""Compares the recording of each family with the maps of transformers' eager attention."""

import numpy as np
import pytest
import torch
from families import CASES, FAMILIES, D, L, T, V, make_inputs, record, run_eagerly, to_batch
from sinkscope import metrics
from truth import F16_ROUNDING, rounding_of, tolerance_of


def stack_maps(out: object) -> torch.Tensor:
    """Returns the maps of an output of transformers, [L, H, T, T]."""
    return torch.stack(out.attentions)[:, 0].double()


def to_shares(name: str, att: torch.Tensor) -> torch.Tensor:
    """Returns maps whose rows sum to 1: rows of gpt_oss, which has sink logits, are divided by their sums."""
    return att / (att.sum(-1, keepdim=True) + 1e-8) if name == "gpt_oss" else att


@pytest.mark.parametrize(("name", "implementation"), CASES)
def test_alpha_equals_that_of_eager_maps(name: str, implementation: str) -> None:
    family = FAMILIES[name]
    prompts = make_inputs(family, 3)
    model = family.make(implementation)
    recording = record(model, prompts, keep=3)
    result = recording.conditions["model"]
    assert (result["L"], result["H"]) == (L, 4)
    assert recording.conditions["model"]["attention"] == implementation
    if implementation not in family.weight_implementations:
        assert result["G"] == family.G
    windows = result.get("windows") or [result["mask"].get("window")] * L
    if family.kind == "causal":
        assert windows == family.windows
    assert result["mask"]["kind"] in ((family.kind,) if family.kind != "causal" else ("causal", "window"))
    alphas, shares = [], []
    for i, prompt in enumerate(prompts):
        att = alibi_maps(model, prompt) if name == "falcon-alibi" else stack_maps(run_eagerly(name, prompt))
        raw = metrics.alpha(att, family.kind)
        sums = att.sum(-1)
        shares.append(share := to_shares(name, att))
        alphas.append(metrics.alpha(share, family.kind))
        bound = tolerance_of(share, L * D)
        raw_key = f"{i}.alpha_raw" if name == "gpt_oss" else f"{i}.alpha"
        assert np.abs(recording[raw_key] - raw.numpy()).max() < bound
        assert np.abs(recording[f"{i}.alpha"] - alphas[-1].numpy()).max() < bound
        assert np.abs(recording[f"{i}.row_mass"] - sums.numpy()).max() < bound
        assert np.abs(recording.attention(i) - att.numpy()).max() - F16_ROUNDING < bound
    alphas, bound = torch.stack(alphas), max(tolerance_of(share, L * D) for share in shares)
    assert np.abs(recording["mean.alpha"] - alphas.mean(0).numpy()).max() < bound
    assert np.abs(recording["deviation.alpha"] - alphas.std(0).numpy()).max() < bound
    for e, eps in enumerate(recording.conditions["eps"]):
        near = ((alphas - eps).abs() < bound).sum().item()
        ratio = (alphas > eps).double().mean((0, 1, 2)).numpy()
        assert np.abs(recording["mean.sink_ratio"][e] - ratio).max() <= near / (3 * L * 4) + rounding_of(1)


def alibi_maps(model: torch.nn.Module, prompt: list[int]) -> torch.Tensor:
    """Computes falcon's maps from its queries and keys, with the ALiBi bias added once, as in its code for sdpa."""
    from transformers.models.falcon.modeling_falcon import build_alibi_tensor

    fused, hooks = [], []
    for layer in model.transformer.h:
        hooks.append(layer.self_attention.query_key_value.register_forward_hook(lambda m, args, out: fused.append(out)))
    with torch.no_grad():
        model(**to_batch(prompt))
    for hook in hooks:
        hook.remove()
    n = len(prompt)
    alibi = build_alibi_tensor(torch.ones(1, n), 4, torch.float32).view(4, 1, n).double()
    result = []
    for out in fused:
        q, k, _ = out.view(n, 4, 3, 16).double().permute(2, 1, 0, 3)
        scores = (q @ k.transpose(-2, -1) + alibi) / 4
        scores = scores.masked_fill(torch.ones(n, n).triu(1).bool(), -torch.inf)
        result.append(scores.softmax(-1))
    return torch.stack(result)


@pytest.mark.parametrize(("name", "implementation"), CASES)
def test_hidden_norms_and_losses_equal_those_of_transformers(name: str, implementation: str) -> None:
    family = FAMILIES[name]
    prompt = make_inputs(family, 1)[0]
    model = family.make(implementation)
    recording = record(model, [prompt], keep=1)
    with torch.no_grad():
        out = model(**to_batch(prompt), output_hidden_states=True)
    hidden = torch.stack(out.hidden_states)[:-1, 0]  # without the last state, which follows the final norm
    norms = hidden.norm(dim=-1).numpy()
    assert np.allclose(recording["0.hidden_norm"][:-1], norms, rtol=rounding_of(1, D))
    assert np.allclose(
        recording["mean.hidden_ratio"][:-1], metrics.first_to_others(hidden).numpy(), rtol=rounding_of(1, D + T)
    )
    assert recording["mean.massive"].shape == (L + 1, 4)
    if family.kind == "causal":
        ids = torch.tensor(prompt)
        losses = torch.nn.functional.cross_entropy(out.logits[0, :-1], ids[1:], reduction="none")
        assert np.allclose(recording["0.loss"], losses.numpy(), rtol=0, atol=rounding_of(out.logits, V))
        assert abs(recording["prompt.loss"][0] - losses.mean().item()) < rounding_of(out.logits, V)
    else:
        assert "mean.loss_mean" not in recording
