"""Holds every Python function to 80 lines; ESLint holds those of wasm, web/src and web/ship."""

import ast
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LINES_MAX = 80


def test_functions_have_at_most_80_lines() -> None:
    files = subprocess.run(["git", "ls-files", "*.py"], cwd=ROOT, check=True, capture_output=True, text=True)
    lengths = {
        f"{file}:{node.lineno} {node.name}": node.end_lineno - node.lineno + 1
        for file in files.stdout.split()
        for node in ast.walk(ast.parse((ROOT / file).read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert len(lengths) > 1000
    assert {name: length for name, length in lengths.items() if length > LINES_MAX} == {}
