"""Compares the metrics of a recording with metrics that NumPy computes from the recording's fields and the maps of
transformers; and metrics of a map in chunks with those of the whole map."""

import numpy as np
import pytest
import torch
from families import FAMILIES, D, L, T, make_inputs, record, run_eagerly
from sinkscope import metrics
from truth import rounding_of, tolerance_of


@pytest.mark.parametrize("name", ["llama", "mistral", "gpt_oss", "gemma2", "bert", "modernbert"])
def test_every_metric_follows_from_the_fields(name: str) -> None:
    family = FAMILIES[name]
    model = family.make(family.implementations[0])
    prompts = make_inputs(family, 1)
    r = record(model, prompts, eps=[0.05, 0.2], fields=("q", "k", "v", "hidden", "loss"))
    q, k, v, hidden = (r[f"0.{field}"].astype(np.float64) for field in ("q", "k", "v", "hidden"))
    att = torch.stack(run_eagerly(name, prompts[0]).attentions)[:, 0].double().numpy()
    group_size = q.shape[1] // k.shape[1]
    visible = np.ones((T, T), bool) if family.kind == "bidirectional" else np.tri(T, dtype=bool)
    sums = att.sum(-1)
    share = att / (sums[..., None] + 1e-8) if name == "gpt_oss" else att
    queries = T if family.kind == "bidirectional" else np.arange(T, 0, -1)

    weights = tolerance_of(torch.from_numpy(share), L * D)

    def assert_close(metric: str, expected: np.ndarray, bound: float | None = None) -> None:
        """Without a bound, a metric comes from fields of the recording, and sums over a token's vector round."""
        result = r[f"mean.{metric}"]
        assert result.shape == expected.shape, metric
        bound = rounding_of(expected, D) if bound is None else bound
        assert np.nanmax(np.abs(result - expected)) <= bound, metric
        assert (np.isnan(result) == np.isnan(expected)).all(), metric

    assert_close("alpha", share.sum(-2) / queries, weights)
    assert_close("row_mass", sums, weights)
    assert_close("row_mass_summary", np.stack([sums.mean(-1), sums.min(-1), sums.max(-1)], -1), weights)
    visible_counts = (att > 0).any(1).sum(-1)  # in these models no weight underflows in all heads at once
    rows = -np.where(share > 0, share * np.log(np.where(share > 0, share, 1)), 0).sum(-1)
    scale = np.where(visible_counts > 1, 1 / np.log(np.maximum(visible_counts, 2)), 0)
    assert_close("entropy", rows * scale[:, None], weights)
    assert_close("entropy_mean", r["mean.entropy"].mean(-1))
    gate = 1 - share[..., 0]
    gate[..., 0] = np.nan
    load = gate[..., 1:].mean(-1)
    assert_close("head_gate", gate, weights)
    assert_close("head_load", load, weights)
    difference = np.abs(load[:, None] - load[..., None]).sum((-2, -1))
    assert_close("head_gini", difference / (2 * load.shape[-1] * load.sum(-1)), weights)
    keys, values = (np.repeat(x, group_size, 1) for x in (k, v))
    cos = np.einsum("lhtd,lhsd->lhts", q, keys) / (
        np.linalg.norm(q, axis=-1)[..., None] * np.linalg.norm(keys, axis=-1)[..., None, :]
    )
    others = visible.copy()
    others[:, 0] = False
    assert_close("cos_gap", cos[..., 0].mean(-1) - (cos * others).sum((-2, -1)) / others.sum(), rounding_of(1, D))
    parts = att * np.linalg.norm(values, axis=-1)[..., None, :]
    contribution = (parts / parts.sum(-1, keepdims=True)).sum(-2) / queries
    assert_close("contribution_at", contribution, weights)
    assert_close("contribution", contribution[..., 0], weights)
    for field, x in (("key", k), ("value", v), ("hidden", hidden)):
        norms = np.linalg.norm(x, axis=-1)
        assert_close(f"{field}_norm", norms)
        assert_close(f"{field}_ratio", norms[..., 0] / norms[..., 1:].mean(-1))
    sizes = np.sort(np.abs(hidden).reshape(len(hidden), -1), -1)
    assert_close(
        "massive", np.stack([sizes[:, -1], sizes[:, -2], sizes[:, -3], sizes[:, (sizes.shape[1] - 1) // 2]], -1), 0
    )
    assert_close("mixing", np.linalg.norm(hidden - hidden.mean(1, keepdims=True), axis=(1, 2)) / T**0.5)
    x = hidden.reshape(len(hidden), -1)
    x = x - x.mean(-1, keepdims=True)
    assert_close("kurtosis", (x**4).mean(-1) / (x**2).mean(-1) ** 2)
    for name, rows in (("matrix_entropy", hidden), ("matrix_entropy_others", hidden[:, 1:])):
        squares = np.linalg.svd(rows.astype(np.float64), compute_uv=False) ** 2
        p = squares / squares.sum(-1, keepdims=True)
        entropy = -(p * np.log(np.where(p > 0, p, 1))).sum(-1) / np.log(min(rows.shape[1:]))
        assert_close(name, entropy)
    alpha = r["mean.alpha"]  # the mean over a single prompt
    assert_close("sink_ratio", np.stack([(alpha > e).mean((0, 1)) for e in (0.05, 0.2)]), rounding_of(1))
    assert_close("near_eps", np.stack([(np.abs(alpha - e) < 0.002).sum((0, 1)) for e in (0.05, 0.2)]), 0)
    assert_close("first_share", alpha[..., 0], 0)


@pytest.mark.parametrize("mask", ["causal", "bidirectional"])
def test_chunks_of_queries_add_up_to_the_map(mask: str) -> None:
    generator = torch.Generator().manual_seed(1)
    scores = torch.randn(2, 3, 20, 20, generator=generator, dtype=torch.float64)
    visible = torch.ones(20, 20, dtype=torch.bool)
    if mask == "causal":
        visible = visible.tril()
    att = scores.masked_fill(~visible, -torch.inf).softmax(-1)
    lengths = torch.rand(2, 3, 20, generator=generator, dtype=torch.float64)
    row_slices = [slice(0, 7), slice(7, 8), slice(8, 20)]  # sums of 20 numbers in float64: 2^-40 is ample
    assert torch.allclose(
        sum(metrics.alpha(att[..., rows, :], mask) for rows in row_slices), metrics.alpha(att, mask), rtol=2**-40
    )
    contributions = metrics.contributions(att, lengths, visible, mask)
    assert torch.allclose(
        sum(metrics.contributions(att[..., rows, :], lengths, visible[rows], mask) for rows in row_slices),
        contributions,
        rtol=2**-40,
    )
    entropy = metrics.entropy(att, visible.sum(-1))
    assert torch.allclose(
        torch.cat([metrics.entropy(att[..., rows, :], visible[rows].sum(-1)) for rows in row_slices], -1),
        entropy,
        rtol=2**-40,
    )


@pytest.mark.parametrize("prefix", [1, 6, 20])
def test_the_cosine_gap_is_that_of_the_map_of_cosines(prefix: int) -> None:
    generator = torch.Generator().manual_seed(2)
    q, k = torch.randn(2, 2, 3, 20, 5, generator=generator, dtype=torch.float64)
    cos = torch.nn.functional.cosine_similarity(q[..., :, None, :], k[..., None, :, :], dim=-1)
    last = torch.arange(20).clamp_min(prefix - 1)
    visible = torch.arange(20) <= last[:, None]
    for first in (0, 7):
        others = visible.clone()
        others[:, first] = False
        expected = cos[..., first].mean(-1) - (cos * others).sum((-2, -1)) / others.sum()
        assert torch.allclose(metrics.cos_gap(q, k, last, first), expected, rtol=2**-33)
    assert torch.allclose(metrics.geometry(q, k, visible)["cos_gap"], metrics.cos_gap(q, k, last), rtol=2**-33)
