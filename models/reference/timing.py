"""Shared by the scripts that time PyTorch and our benchmarks: command line and runner."""

import argparse
import subprocess
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[2]


def begin(doc: str) -> argparse.Namespace:
    """Parse the command line (`node` and `rounds`) and limit PyTorch to one thread."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("--node", default="node")
    parser.add_argument("--rounds", type=int, default=3)
    torch.set_num_threads(1)
    return parser.parse_args()


def output_of(node: str, bench: str, *options: str) -> str:
    """Run a benchmark of tests/bench; return its output."""
    return subprocess.run([node, ROOT / "tests/bench" / bench, *options], check=True,
                          capture_output=True, text=True).stdout
