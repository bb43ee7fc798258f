"""The training losses: of the next tokens, and the bound of a masked diffusion model."""

from collections.abc import Callable

import torch
from torch import Tensor

from ..reference.model import Architecture, Weights, forward
from .recipe import Training
from .text import VOCABULARY

# (architecture, weights, text [N, T+1], noise [N, T+2] in 0..1, training) -> scalar loss
Loss = Callable[[Architecture, Weights, Tensor, Tensor, Training], Tensor]


def replace_tokens(text: Tensor, noise: Tensor, share: float) -> Tensor:
    """Replaces a share of text [N, T], never the first, by other tokens. noise: [N, T] in 0..1"""
    if share == 0:
        return text
    is_replaced = noise < share
    is_replaced[:, 0] = False
    return torch.where(is_replaced, (noise / share * VOCABULARY).long(), text)


def next_token_loss(arch: Architecture, weights: Weights, text: Tensor, noise: Tensor, training: Training) -> Tensor:
    """Returns the mean loss of text [N, T+1]. The model predicts every token after the first and after a prefix from
    the tokens before it. With experts, adds the loss that balances them."""
    inputs = text[:, :-1]
    trace = forward(arch, weights, replace_tokens(inputs, noise[:, : inputs.shape[1]], training.replaced))
    first = arch.mask.size - 1 if arch.mask.kind == "prefix" else 0
    logits, targets = trace.logits[:, first:], text[:, 1 + first :]
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
    if trace.router is None:
        return loss
    # Balances experts (Fedus et al. 2022, section 2.2). Even load gives the minimum, 1 per layer.
    share = trace.router.flatten(0, 2).mean(0)
    load = (trace.router > 0).float().flatten(0, 2).mean(0) / arch.top_k
    return loss + training.balance * arch.E * (share * load).sum()


def unmask_loss(arch: Architecture, weights: Weights, text: Tensor, noise: Tensor, training: Training) -> Tensor:
    """Returns the bound of a masked diffusion model in nats per token (Sahoo et al. 2024). Masks each token after the
    first of sequence n with probability p_n, and weights each masked token's loss by 1/p_n."""
    p, is_masked = draw_masked(text, noise)
    # The mask token has the last id.
    logits = forward(arch, weights, torch.where(is_masked, arch.V - 1, text)).logits
    surprise = torch.nn.functional.cross_entropy(logits.transpose(1, 2), text, reduction="none")
    return (surprise * is_masked / p).sum() / text[:, 1:].numel()


def draw_masked(text: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the masking probabilities p [N, 1], and which tokens are masked [N, T]. noise: [N, T+1] in 0..1. The p of
    a batch are spread evenly over 0.02..1, which keeps the loss steady."""
    N = len(text)
    index = torch.arange(N, dtype=noise.dtype, device=noise.device)[:, None]
    p = ((index + noise[:1, :1]) / N).clamp_min(0.02)
    is_masked = noise[:, 1:] < p
    is_masked[:, 0] = False
    return p, is_masked


LOSSES: dict[str, Loss] = {"next": next_token_loss, "unmask": unmask_loss}
