"""What the scripts that time PyTorch beside a bench of ours share: who runs it, and how often."""

import argparse
import subprocess
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[2]


def begin(doc: str) -> argparse.Namespace:
    """The command line, `node` and `rounds`; PyTorch has one thread from here on."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("--node", default="node")
    parser.add_argument("--rounds", type=int, default=3)
    torch.set_num_threads(1)
    return parser.parse_args()


def output_of(node: str, bench: str, *options: str) -> str:
    """The output of a benchmark of tests/bench."""
    return subprocess.run([node, ROOT / "tests/bench" / bench, *options], check=True,
                          capture_output=True, text=True).stdout
