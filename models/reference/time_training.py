"""Times a training step of core/train and of PyTorch, each on one thread, for the two models of tests/bench/train.mjs.

    python -m models.reference.time_training [--node PATH] [--rounds 3]

Milliseconds are CPU time, the best of all rounds. PyTorch runs its fast code: fused attention and optimizer, batches
made in advance. GFLOP/s are 6 x parameters x tokens; embedding lookups do not count.
"""

import re
import time
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from .timing import parse_arguments, run_bench


@dataclass(frozen=True)
class Shape:
    name: str
    L: int
    H: int
    D: int
    F: int
    V: int
    T: int
    batch: int
    steps: int
    gated: bool = False

    def flops(self) -> int:
        block = 4 * self.D * self.D + (3 if self.gated else 2) * self.D * self.F
        return 6 * (self.L * block + self.V * self.D) * self.batch * self.T


SHAPES = (Shape("the lab", L=1, H=1, D=64, F=256, V=64, T=32, batch=32, steps=100),
          Shape("the zoo", L=6, H=4, D=128, F=344, V=1024, T=128, batch=16, steps=6, gated=True))


class Block(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        D, F = shape.D, shape.F
        norm = nn.RMSNorm if shape.gated else nn.LayerNorm
        self.H, self.norms = shape.H, nn.ModuleList([norm(D), norm(D)])
        self.qkv, self.out = nn.Linear(D, 3 * D), nn.Linear(D, D)
        self.up, self.down = nn.Linear(D, F), nn.Linear(F, D)
        self.gate = nn.Linear(D, F) if shape.gated else None

    def forward(self, x: Tensor) -> Tensor:
        N, T, D = x.shape
        heads = self.qkv(self.norms[0](x)).view(N, T, 3, self.H, D // self.H)
        q, k, v = heads.permute(2, 0, 3, 1, 4)
        head_outputs = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(head_outputs.transpose(1, 2).reshape(N, T, D))
        h = self.norms[1](x)
        up = self.up(h)
        inner = (functional.gelu(up, approximate="tanh") if self.gate is None
                 else functional.silu(self.gate(h)) * up)
        return x + self.down(inner)


class Model(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.tokens, self.positions = (nn.Embedding(n, shape.D) for n in (shape.V, shape.T))
        self.blocks = nn.Sequential(*(Block(shape) for _ in range(shape.L)))
        self.head = nn.Linear(shape.D, shape.V, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.blocks(self.tokens(tokens) + self.positions.weight[: tokens.shape[1]]))


def time_torch_step(shape: Shape) -> float:
    model = Model(shape)
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3, fused=True)
    batches = [torch.randint(0, shape.V, (shape.batch, shape.T + 1)) for _ in range(shape.steps)]
    best = float("inf")
    for batch in batches:
        start = time.process_time()
        loss = functional.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        best = min(best, time.process_time() - start)
    return best * 1000


def time_core_steps(node: str) -> dict[str, float]:
    lines = run_bench(node, "train.mjs", "--alone")
    return {name: float(ms) for name, ms in re.findall(r"^(the \w+),.*?a step ([\d.]+) ms", lines, re.M)}


def main() -> None:
    arguments = parse_arguments(__doc__)
    torch.manual_seed(0)
    core_times, torch_times = [], []
    for _ in range(arguments.rounds):
        core_times.append(time_core_steps(arguments.node))
        torch_times.append({shape.name: time_torch_step(shape) for shape in SHAPES})
    for shape in SHAPES:
        for engine, rounds in (("core", core_times), (f"PyTorch {torch.__version__}", torch_times)):
            best = min(times[shape.name] for times in rounds)
            print(f"{shape.name}, {engine}: {best:.1f} ms a step, {shape.flops() / best / 1e6:.1f} GFLOP/s")


if __name__ == "__main__":
    main()
