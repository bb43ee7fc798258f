"""The measurements, taken from a trace. Formulas count tokens from 1, tensors from 0.

`att` is what the model used; alpha, Sink_k and entropy are defined on rows that sum to 1, so pass
them `OPERATIONS[id].share(att)`, and show `row_mass(att)` beside them.
"""

import torch
from torch import Tensor

EPS = 0.3  # the literature's threshold for "this head has a sink", meant for T = 64


def alpha(att: Tensor, mask: str = "causal") -> Tensor:
    """Mean weight that token k gets from the queries that see it.  [..., T, T] -> [..., T]

    All T queries see it under a bidirectional mask. Under a prefix or a window the divisor stays
    T-k+1, as in the authors' code: alpha_k may exceed 1 inside a prefix, and a window caps it.
    """
    T = att.shape[-1]
    if mask == "bidirectional":
        return att.mean(-2)
    queries = torch.arange(T, 0, -1, dtype=att.dtype, device=att.device)  # T-k+1 see token k
    return (att / queries).sum(-2)


def alpha_bias(att_bias: Tensor) -> Tensor:
    """alpha_* of a bias key.  [..., T] -> [..., 1]

    The authors' map has a row for the bias key, which sees itself alone: T+1 rows, and a 1.
    """
    return ((att_bias.sum(-1) + 1) / (att_bias.shape[-1] + 1))[..., None]


def sink(alphas: Tensor, eps: float = EPS) -> Tensor:
    """Sink_k^eps: percent of heads whose alpha_k exceeds eps.  [..., T] -> [T]"""
    return (alphas > eps).float().flatten(0, -2).mean(0) * 100


def row_mass(att: Tensor) -> Tensor:
    """How much weight each query hands out in all.  [..., T, T] -> [..., T]"""
    return att.sum(-1)


def entropy(att: Tensor) -> Tensor:
    """Row entropy over its largest possible value, log i; row 1 counts as 0.  -> [..., T]"""
    T = att.shape[-1]
    rows = -torch.xlogy(att, att).sum(-1)
    most = torch.arange(1, T + 1, dtype=att.dtype, device=att.device).log()
    return torch.where(most > 0, rows / most.clamp_min(1e-30), torch.zeros_like(rows))


def loss(logits: Tensor, tokens: Tensor) -> Tensor:
    """Surprise of token t+1 given the tokens up to t, in nats.  [..., T, V] -> [..., T-1]"""
    surprise = -logits[..., :-1, :].log_softmax(-1)
    return surprise.gather(-1, tokens[..., 1:, None])[..., 0]


def first_to_others(vectors: Tensor) -> Tensor:
    """Norm of token 1 over the mean norm of the others.  [..., T, width] -> [...]

    On `hidden` it shows a massive activation (far above 1); on `v` a value drain (far below 1).
    """
    norms = vectors.norm(dim=-1)
    return norms[..., 0] / norms[..., 1:].mean(-1)
