"""Runs a study on Ray whose workers and driver are killed.

python tests/record/killed.py OUT MODELS PROMPTS BLOCK
"""

import os
import re
import signal
import sys
import time
from pathlib import Path
from typing import Any

import torch
from torch import nn

ROOT = Path(__file__).resolve().parents[2]
T, H, L, V = 8, 2, 2, 32

# Which process dies at which moment: in a model's first forward pass, and before and after it writes a file.
KILLS = {"0 in a pass": "worker", "1 before recording": "driver", "2 after 00001": "worker"}


class FakeModel(nn.Module):
    """A tiny model whose forward pass sleeps `seconds` for each prompt."""

    def __init__(self, seed: int, seconds: float = 0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.seconds = seconds
        self.embedding = nn.Embedding(V, 8)
        self.layers = nn.ModuleList(nn.Linear(8, 24, bias=False) for _ in range(L))

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        time.sleep(self.seconds * len(input_ids))
        x = self.embedding(input_ids)
        for layer in self.layers:
            q, k, v = layer(x).unflatten(-1, (3, H, 4)).permute(2, 0, 3, 1, 4)
            out = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + out.transpose(1, 2).flatten(-2)
        return x


def prompts(n: int) -> list[list[int]]:
    return torch.randint(0, V, (n, T), generator=torch.Generator().manual_seed(3)).tolist()


def settings(block: int) -> dict[str, Any]:
    return {"tokens": T, "keep": 1, "block": block, "batch": block, "eps": [0.1, 0.3]}


def models(n: int, seconds: float = 0) -> dict[str, Any]:
    def factory_of(i: int) -> Any:
        def make() -> tuple[nn.Module, None]:
            torch.set_num_threads(1)
            return FakeModel(i, seconds), None

        return make

    return {f"fake/{i}": factory_of(i) for i in range(n)}


def make_deadly_factory(i: int, make_model: Any, markers: Path, driver: int) -> Any:
    """Returns a function that makes model i. The process that calls it kills itself, or the driver, once at each moment
    of KILLS."""

    def die(moment: str) -> None:
        if moment in KILLS and not (markers / moment).exists():
            (markers / moment).touch()
            os.kill(driver if KILLS[moment] == "driver" else os.getpid(), signal.SIGKILL)
            if KILLS[moment] == "driver":
                time.sleep(60)  # Ray ends the workers of a dead driver

    def factory() -> tuple[nn.Module, None]:
        from sinkscope import storage

        model, tokenizer = make_model()
        model.register_forward_pre_hook(lambda *_: die(f"{i} in a pass"))
        write = getattr(storage.write_bytes, "original", storage.write_bytes)

        def write_or_die(path: Any, data: bytes) -> int:
            part = re.match(r"\d{5}", Path(path).name)
            file = part[0] if part else "recording"
            die(f"{i} before {file}")
            size = write(path, data)
            die(f"{i} after {file}")
            return size

        write_or_die.original = write  # type: ignore[attr-defined]
        storage.write_bytes = write_or_die
        return model, tokenizer

    return factory


def start_ray() -> None:
    import ray

    # On a busy machine a node's agent or a worker may start too late for Ray's default timeouts, and the node would
    # die. Workers have the environment of the driver; one of their own would need an agent and further processes.
    paths = [str(ROOT / "models" / "record" / "src"), str(Path(__file__).resolve().parent)]
    os.environ |= {
        "RAY_agent_register_timeout_ms": "3600000",
        "RAY_worker_register_timeout_seconds": "3600",
        "PYTHONPATH": os.pathsep.join(paths),
    }
    for attempt in range(100):
        try:
            ray.init(
                num_cpus=2,
                include_dashboard=False,
                object_store_memory=100 * 2**20,
                log_to_driver=False,
            )
            break
        except Exception as error:  # Ray waits half a minute for a node to start, which no setting changes
            ray.shutdown()
            if "timed out" not in str(error) or attempt == 99:
                raise


def main(out: str, n: int, texts: int, block: int) -> None:
    import sinkscope

    markers = Path(out) / "markers"
    markers.mkdir(parents=True, exist_ok=True)
    factories = {
        name: make_deadly_factory(i, factory, markers, os.getpid())
        for i, (name, factory) in enumerate(models(n).items())
    }
    start_ray()
    sinkscope.study(factories, prompts(texts), out, ray=True, concurrency=2, **settings(block))


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
