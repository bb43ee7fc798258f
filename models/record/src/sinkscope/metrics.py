"""Metrics of attention sinks as functions of tensors. Formulas count tokens from 1, tensors from 0.

`att` holds the weights that the model used. Alpha, Sink_k and entropy are defined on rows that sum to
1: if an operation does not normalize its rows, pass `part_of_row(att)` to these metrics, and report
`row_mass(att)` as well. The recorder, the goldens and the training measure with these functions.

A map may be passed in chunks of queries, [..., t, T] for t of the T queries. Means over queries (`alpha`,
`contributions`) are then added up over the chunks; metrics of single queries (`row_mass`, `entropy`) are
concatenated.
"""

import math

import torch
from torch import Tensor

EPS = 0.3  # the literature's threshold of alpha for a head with a sink, meant for T = 64
TINY = 1e-8  # keeps shares finite in a row without weight
NEAR = 0.002  # an alpha this close to eps may exceed it or not, as other hardware rounds


def alpha(att: Tensor, mask: str = "causal", queries: int | None = None) -> Tensor:
    """Mean weight that token k receives from the queries that see it (Gu et al. 2025, equation 6).
    [..., T, T] -> [..., T]

    Under a bidirectional mask all T queries see token k, or all `queries` of cross-attention. Under a prefix or a
    window the sum is divided by T-k+1, as in the authors' code, although another number of queries sees token k:
    alpha_k may exceed 1 inside a prefix, and a window limits it.
    """
    T = att.shape[-1]
    if mask == "bidirectional":
        return att.sum(-2) / (queries or T)
    counts = torch.arange(T, 0, -1, dtype=att.dtype, device=att.device)
    return (att / counts).sum(-2)


def sink_value(states: Tensor, first: int) -> Tensor:
    """The sink dimension value phi of Kang et al. 2025: the largest |x_d| over the root mean square of x, of the two
    channels d that are largest in the first token's state. The paper has channels of the whole model; these are those
    of the layer.  [n, T, D] -> [n, T]"""
    channels = states[:, first].abs().topk(2, -1).indices[:, None].expand(-1, states.shape[1], -1)
    size = states.square().mean(-1).sqrt().clamp_min(TINY)
    return states.gather(-1, channels).abs().amax(-1) / size


def alpha_bias(att_bias: Tensor) -> Tensor:
    """alpha_* of a bias key (Gu et al. 2025, section 7.3).  [..., T] -> [..., 1]

    The authors' map has T+1 rows: the bias key has a row, too, with weight 1 on itself.
    """
    return ((att_bias.sum(-1) + 1) / (att_bias.shape[-1] + 1))[..., None]


def sink(alphas: Tensor, eps: float = EPS) -> Tensor:
    """Sink_k^eps: percent of heads whose alpha_k exceeds eps (Gu et al. 2025, equation 7).
    [..., T] -> [T]"""
    return (alphas > eps).float().flatten(0, -2).mean(0) * 100


def part_of_row(att: Tensor) -> Tensor:
    """The weights as shares of their row, for operations whose rows do not sum to 1 (Gu et al. 2025,
    section 7.4). The absolute value makes signed weights comparable.  [..., T, T] -> [..., T, T]"""
    magnitude = att.abs()
    return magnitude / (magnitude.sum(-1, keepdim=True) + TINY)


def row_mass(att: Tensor) -> Tensor:
    """Sum of the weights of each query.  [..., T, T] -> [..., T]"""
    return att.sum(-1)


def near(alphas: Tensor, eps: float = EPS) -> Tensor:
    """Number of heads whose alpha_k is within NEAR of eps.  [..., T] -> [T]"""
    return ((alphas - eps).abs() < NEAR).double().flatten(0, -2).sum(0)


def entropy(share: Tensor, seen: Tensor) -> Tensor:
    """Entropy of each row, divided by ln of the number of keys that the query sees (Guo et al. 2024); NaN for a row
    without weight.  share [..., T, n], seen [T] or [..., T] -> [..., T]"""
    rows = -torch.xlogy(share, share).sum(-1)
    entropy = torch.where(seen > 1, rows / seen.to(rows.dtype).log(), 0)
    return torch.where(share.sum(-1) > 0, entropy, torch.nan)


def diagonal(share: Tensor) -> Tensor:
    """Mean share of attention that a query gives to its own key, and to the keys one and two before it; of each, over
    the queries that have such a key (arXiv 2605.08453, diagonal patterns).  [..., T, T] -> [..., 3]"""
    return torch.stack([share.diagonal(-j, -2, -1).mean(-1) for j in range(3)], -1)


def first_layer(alphas: Tensor, eps: float = EPS) -> int | None:
    """The first layer, from 0, with a head whose alpha of the sink exceeds eps (arXiv 2603.06591, where the sink's
    circuit forms); None without one.  [L, H]"""
    layers = (alphas > eps).any(-1).nonzero()
    return int(layers[0]) if len(layers) else None


def distance(share: Tensor, rows: slice) -> Tensor:
    """Mean distance in tokens from each query to the keys, weighted by their shares. [..., t, T] -> [..., t]"""
    query = torch.arange(rows.start, rows.stop, device=share.device)[:, None]
    distances = (query - torch.arange(share.shape[-1], device=share.device)).abs().to(share.dtype)
    return (share * distances).sum(-1) / share.sum(-1)


def cos_gap(q: Tensor, k: Tensor, last: Tensor, first: int = 0) -> Tensor:
    """Mean cosine of the queries with the first key, minus their mean cosine with the other visible keys. Each query
    sees the keys up to its entry of `last`.  q, k [..., T, K], last [T] -> [...]

    A query's cosines with many keys add up to its product with the sum of the keys' directions.
    """
    q, k = (x / x.norm(dim=-1, keepdim=True) for x in (q, k))
    to_first = (q * k[..., first : first + 1, :]).sum(-1)
    sees_first = last >= first
    others = (q * k.cumsum(-2)[..., last, :]).sum(-1) - to_first * sees_first
    return to_first.mean(-1) - others.sum(-1) / ((last + 1).sum() - sees_first.sum())


def geometry(q: Tensor, k: Tensor, visible: Tensor) -> dict[str, Tensor]:
    """Dot product, cosine and product of norms of every visible pair of query and key (Gu et al. 2025, figure 2),
    and `cos_gap`.  q, k [L, H, T, K], visible [T, T] -> [L, H, T, T] each, [L, H]"""
    dot = q @ k.transpose(-2, -1)
    norms = q.norm(dim=-1)[..., None] * k.norm(dim=-1)[..., None, :]
    maps = {"qk_dot": dot, "qk_cos": dot / norms, "qk_norm": norms}
    return {"cos_gap": cos_gap(q, k, visible.sum(-1) - 1)} | {
        name: map.masked_fill(~visible, torch.nan) for name, map in maps.items()
    }


def largest(hidden: Tensor) -> Tensor:
    """The three largest |h| of each layer and the median |h| (Sun et al. 2024).
    [L+1, T, D] -> [L+1, 4]"""
    sizes = hidden.abs().flatten(1)
    return torch.cat([sizes.topk(3).values, sizes.median(-1, keepdim=True).values], -1)


def massive(hidden: Tensor) -> dict[str, Tensor]:
    """Returns `largest`, and the channel and token of each of the three largest |h|; ties go to the first token.
    [L+1, T, D] -> [L+1, 4], [L+1, 3, 2]"""
    indices = hidden.abs().flatten(1).sort(descending=True, stable=True).indices[:, :3]
    positions = torch.stack([indices % hidden.shape[-1], indices // hidden.shape[-1]], -1)
    return {"massive": largest(hidden), "massive_at": positions.double()}


def loss(logits: Tensor, tokens: Tensor) -> Tensor:
    """-ln p of token t+1 given the tokens up to t, in nats.  [..., T, V] -> [..., T-1]"""
    surprise = -logits[..., :-1, :].log_softmax(-1)
    return surprise.gather(-1, tokens[..., 1:, None])[..., 0]


def rank(logits: Tensor, tokens: Tensor) -> Tensor:
    """Number of tokens that rank before token t+1 in the logits at t, of equal ones by id. [..., T, V] -> [..., T-1]"""
    logits = logits[..., :-1, :]
    target = logits.gather(-1, tokens[..., 1:, None])
    has_lower_id = torch.arange(logits.shape[-1], device=logits.device) < tokens[..., 1:, None]
    return ((logits > target) | (logits == target) & has_lower_id).sum(-1)


def accuracy(ranks: Tensor) -> Tensor:
    """Share of tokens of rank 0, the model's first choice.  [..., n] -> [...]"""
    return (ranks == 0).double().mean(-1)


def first_to_others(vectors: Tensor, first: int = 0) -> Tensor:
    """Norm of the first token's vector, divided by the mean norm of the others.  [..., T, width] -> [...]

    For hidden states a ratio far above 1 shows a massive activation, for values a ratio far below 1 a value drain.
    `first` is the position that counts as the first token.
    """
    return norm_ratio(vectors.norm(dim=-1), first)


def norm_ratio(norms: Tensor, first: int = 0) -> Tensor:
    """`first_to_others`, from the norms of the vectors.  [..., T] -> [...]"""
    others = torch.cat([norms[..., :first], norms[..., first + 1 :]], -1)
    return norms[..., first] / others.mean(-1)


def contributions(
    att: Tensor, lengths: Tensor, visible: Tensor, mask: str = "causal", queries: int | None = None
) -> Tensor:
    """Each key's share of sum_j |A_tj| lengths_j, averaged over the queries that see the key, like alpha; NaN
    if the sum of a query is 0.  att [..., T, T], lengths [..., T], visible [T, T] -> [..., T]"""
    parts = att.abs() * lengths[..., None, :]
    share = parts / parts.sum(-1, keepdim=True)
    return alpha(share.masked_fill(~visible, 0), mask, queries)


def tag_share(rows: Tensor, direction: Tensor, centered: bool = False) -> Tensor:
    """Share of the rows' squared length along a direction; with `centered`, of their variance. The direction is a
    sink's value, which tags the tokens that attend to the sink (arXiv 2502.00919).  [..., n, K], [..., K] -> [...]"""
    if centered:
        rows = rows - rows.mean(-2, keepdim=True)
    dot_squares = (rows @ direction[..., None])[..., 0].square().sum(-1)
    return dot_squares / (direction.square().sum(-1) * rows.square().sum((-1, -2)))


def head_gate(to_first: Tensor, first: int = 0, to_bias: Tensor | None = None) -> Tensor:
    """A query's attention on tokens after the first, 1 - P_t1 - P_t* (arXiv 2602.01203, the sink as a gate). P_t1 is
    the first token's share, and P_t* is the bias key's share. NaN for queries up to the first token.
    [..., T] -> [..., T]"""
    queries = torch.arange(to_first.shape[-1], device=to_first.device)
    others = 1 - to_first if to_bias is None else 1 - to_first - to_bias
    return torch.where(queries > first, others, torch.nan)


def head_load(gate: Tensor) -> Tensor:
    """Mean gate over the queries that have one.  [..., T] -> [...]"""
    return gate.nanmean(-1)


def head_gini(load: Tensor) -> Tensor:
    """Gini coefficient of the loads x of a layer's heads, sum_i (2i - H - 1) x_i / (H sum x) with x ascending; NaN
    if all loads are 0.  [..., H] -> [...]"""
    H = load.shape[-1]
    x = load.sort(-1).values
    ranks = 2 * torch.arange(1, H + 1, dtype=x.dtype, device=x.device) - H - 1
    return (ranks * x).sum(-1) / (H * x.sum(-1))


def spikes(inputs: Tensor, outputs: Tensor, down: Tensor) -> Tensor:
    """For each token: the row of a projection's largest output, the column of its largest input, the weight at that row
    and column, the largest input, and the largest output.  [..., T, F], [..., T, D], [..., D, F] -> [..., T, 5]"""
    row, column = outputs.abs().argmax(-1), inputs.abs().argmax(-1)
    weight = torch.stack([w[r, c] for w, r, c in zip(down.flatten(0, -3), row.flatten(0, -2), column.flatten(0, -2))])
    largest = [x.gather(-1, index[..., None])[..., 0] for x, index in ((inputs, column), (outputs, row))]
    return torch.stack([row, column, weight.view_as(row), *largest], -1)


def super_weight(spikes: Tensor) -> Tensor:
    """For each layer: the spikes of the token with the largest output, and this token's position as the third number.
    [L, T, 5] -> [L, 6]"""
    token = spikes[..., 4].abs().argmax(-1)
    spike = spikes[torch.arange(len(spikes)), token]
    return torch.cat([spike[:, :2], token[:, None], spike[:, 2:]], -1)


def mixing(hidden: Tensor) -> Tensor:
    """Spread of the hidden states about their mean over tokens, |H - mean|_F / sqrt(T).  [..., T, D] -> [...]"""
    deviations = hidden - hidden.mean(-2, keepdim=True)
    return torch.linalg.matrix_norm(deviations) / hidden.shape[-2] ** 0.5


def kurtosis(hidden: Tensor) -> Tensor:
    """Kurtosis over all tokens and channels, m4 / m2^2 of the central moments.  [..., T, D] -> [...]"""
    x = hidden.flatten(-2)
    deviations = x - x.mean(-1, keepdim=True)
    return deviations.pow(4).mean(-1) / deviations.pow(2).mean(-1).square()


def matrix_entropy(hidden: Tensor) -> Tensor:
    """Entropy -sum p ln p of p_j = sigma_j^2 / |H|_F^2, divided by ln min(n, D), where sigma are the singular values of
    H (arXiv 2510.06477, compression valleys). NaN if H has a single row or column, is zero, or is not finite.
    [..., n, D] -> [...]

    The squared singular values are the eigenvalues of H H^T or H^T H. They are computed in F64, because next to a
    massive row the others are as small as the rounding error of F32.
    """
    size = min(hidden.shape[-2:])
    if size < 2:
        return hidden.new_full(hidden.shape[:-2], torch.nan)
    x = (hidden.cpu() if hidden.device.type == "mps" else hidden).double()  # MPS has no F64
    gram = x @ x.mT if size == x.shape[-2] else x.mT @ x
    trace = gram.diagonal(dim1=-2, dim2=-1).sum(-1)
    is_finite = gram.isfinite().all(-1).all(-1)
    p = torch.linalg.eigvalsh(torch.where(is_finite[..., None, None], gram, 0)).clamp_min(0)
    p = p / torch.where(is_finite, trace, torch.nan)[..., None]
    return (-torch.xlogy(p, p).sum(-1) / math.log(size)).to(hidden)


def stable_rank(rows: Tensor) -> Tensor:
    """|O|_F^2 / |O|_2^2 of what a head adds to the tokens' residual streams (arXiv 2606.08105: a sink that broadcasts
    one vector has outputs of low rank): 1 if all rows are multiples of one vector, n for n orthogonal rows of one
    length; NaN if all are zero.  [..., n, D] -> [...]"""
    squares = torch.linalg.svdvals(rows.double()).square()
    return (squares.sum(-1) / squares.amax(-1)).to(rows)


def divergence(base: Tensor, logits: Tensor) -> Tensor:
    """KL(p' || p) in nats for each token but the first, with p' the base run's predictions. [T, V] -> [T-1]"""
    base_log_p, log_p = base[:-1].log_softmax(-1), logits[:-1].log_softmax(-1)
    return (base_log_p.exp() * (base_log_p - log_p)).sum(-1)


def hidden_change(base: Tensor, hidden: Tensor) -> Tensor:
    """|h - h'| / |h'| of each token, where h' is the hidden state of the base run.  [L+1, T, D] -> [L+1, T]"""
    return (hidden - base).norm(dim=-1) / base.norm(dim=-1)


def used_keys(weights: Tensor) -> Tensor:
    """Whether a query gives a key more than the mean of its nonzero weights' sizes. [..., T] -> [..., T]"""
    sizes = weights.abs()
    return sizes * (sizes > 0).sum(-1, keepdim=True) > sizes.sum(-1, keepdim=True)


def cache_hits(base: Tensor, evicted: Tensor) -> Tensor:
    """The share of the earlier keys used by queries of the base run that a KV cache still holds when they are; key j
    was evicted before query `evicted[j]`, NaN: never.  [L, H, T, T], [L, H, T] -> [L, H]"""
    uses = used_keys(base).tril(-1)
    is_held = ~(evicted[..., None, :] <= torch.arange(base.shape[-1])[:, None])
    return (uses & is_held).sum((-2, -1)) / uses.sum((-2, -1))
