"""Helpers of the scripts that time PyTorch against tests/bench: their command line, and a function that runs a
bench."""

import argparse
import subprocess
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[2]


def parse_arguments(doc: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("--node", default="node")
    parser.add_argument("--rounds", type=int, default=3)
    torch.set_num_threads(1)
    return parser.parse_args()


def run_bench(node: str, bench: str, *options: str) -> str:
    return subprocess.run([node, ROOT / "tests/bench" / bench, *options], check=True,
                          capture_output=True, text=True).stdout
