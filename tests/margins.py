"""Measures how far the numbers of the Python tests are from their tolerances.

    python3 -m tests.margins --seeds 200 --minutes 5 tests/record/test_silent.py tests/python/test_metrics.py::test_x
    SINKSCOPE_SEED=3 python3 -m pytest -p tests.margins tests/record/test_silent.py

The first command runs each file or test with other seeds, as many as end in its minutes, and writes the rows of its
comparisons into tests/margins.md. Every comparison with a tolerance (`x < 1e-5`, `allclose`, `assert_close`,
`approx`) is noted with its difference and what it allows. Seeds of torch and NumPy are shifted: a comparison with the
numbers of its own seed is then off by far more than it allows, and has no row.
"""

import argparse
import ast
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from _pytest.assertion import rewrite

STRIDE = 1_000_003
SHIFT = STRIDE * int(os.environ.get("SINKSCOPE_SEED", "0"))
TABLE = Path(__file__).with_suffix(".md")
OWN_SEED = 100.0  # a larger share of the tolerance is that of a number which one seed alone has
LARGEST_TOLERANCE = 0.01
CALLS = {
    "allclose": (1e-5, 1e-8),
    "isclose": (1e-5, 1e-8),
    "assert_close": (1.3e-6, 1e-5),
    "assert_allclose": (1e-7, 0),
}
margins: dict[str, tuple[float, float]] = {}  # by place: the largest difference, and what was allowed there


def note(place: str, difference: Any, allowed: Any) -> None:
    ratio = np.asarray(difference, np.float64) / np.maximum(np.asarray(allowed, np.float64), 1e-300)
    if not ratio.size or np.isnan(ratio).all():
        return
    at = np.nanargmax(ratio)
    entry = tuple(float(np.broadcast_to(x, ratio.shape).flat[at]) for x in (difference, allowed))
    before = margins.get(place)
    if before is None or entry[0] / max(entry[1], 1e-300) > before[0] / max(before[1], 1e-300):
        margins[place] = entry


def to_array(x: Any) -> Any:
    return np.asarray(x.detach().double().numpy() if hasattr(x, "detach") else x, np.float64)


def note_call(place: str, name: str, function: Any, *args: Any, **options: Any) -> Any:
    rtol, atol = (options.get(key, default) for key, default in zip(("rtol", "atol"), CALLS[name], strict=True))
    try:
        actual, expected = map(to_array, args[:2])
        note(place, np.abs(actual - expected), atol + rtol * np.abs(expected))
    except (TypeError, ValueError):
        pass
    return function(*args, **options)


def note_comparison(place: str, left: Any, right: Any) -> Any:
    if isinstance(right, type(pytest.approx(1.0))) or hasattr(right, "expected"):
        try:
            expected = to_array(right.expected)
            relative = 1e-6 if right.rel is None and right.abs is None else right.rel or 0
            note(place, np.abs(to_array(left) - expected), np.maximum(right.abs or 0, relative * np.abs(expected)))
        except (TypeError, ValueError):
            pass
    return left


def note_bound(place: str, left: Any, right: Any) -> Any:
    if isinstance(right, float | np.floating) and 0 < right <= LARGEST_TOLERANCE and np.ndim(left) == 0:
        note(place, float(left), right)
    return left


class Noting(ast.NodeTransformer):
    def __init__(self, file: str) -> None:
        self.file = self.function = file

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        outer, self.function = self.function, f"{self.file}::{node.name}"
        self.generic_visit(node)
        self.function = outer
        return node

    def call(self, function: str, node: ast.expr, *args: ast.expr) -> ast.expr:
        place = ast.Constant(f"{self.function} `{self.text[:72]}`")
        name = ast.parse(f"__import__('tests.margins', fromlist=['x']).{function}", mode="eval").body
        return ast.copy_location(ast.Call(name, [place, *args], []), node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        """Leaves out what must differ."""
        return node if isinstance(node.op, ast.Not) else self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        text = ast.unparse(node)
        self.generic_visit(node)
        name = getattr(node.func, "attr", None)
        if name not in CALLS:
            return node
        self.text = text
        call = self.call("note_call", node, ast.Constant(name), node.func, *node.args)
        assert isinstance(call, ast.Call)
        call.keywords = node.keywords
        return call

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        text = ast.unparse(node)
        self.generic_visit(node)
        self.text = text
        kinds = {ast.Lt: "note_bound", ast.LtE: "note_bound", ast.Eq: "note_comparison"}
        if len(node.ops) == 1 and type(node.ops[0]) in kinds:
            node.left = self.call(kinds[type(node.ops[0])], node, node.left, node.comparators[0])
        return node


def transform(module: ast.Module, source: bytes, path: str | None = None, config: Any = None) -> None:
    Noting(Path(path or "").name).visit(module)
    ast.fix_missing_locations(module)
    rewrite_asserts(module, source, path, config)


rewrite_asserts = rewrite.rewrite_asserts


class Generator(torch.Generator):
    def manual_seed(self, seed: int) -> torch.Generator:
        return super().manual_seed(seed + SHIFT)


seed_torch, make_rng = torch.manual_seed, np.random.default_rng
if __name__ != "__main__":  # the command imports this module as a plugin as well
    rewrite.rewrite_asserts = transform
    rewrite._read_pyc = lambda *_, **__: None
    torch.manual_seed = lambda seed: seed_torch(seed + SHIFT)
    torch.Generator = Generator  # type: ignore[misc]
    np.random.default_rng = lambda seed=None: make_rng(None if seed is None else abs(seed) + SHIFT)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    for place, (difference, allowed) in sorted(margins.items(), key=lambda item: -item[1][0] / item[1][1]):
        terminalreporter.write_line(f"margin {json.dumps([place, difference, allowed])}")


def measure(file: str, seed: int) -> dict[str, tuple[float, float]]:
    """Runs a file with a seed in a process of its own, which has everything imported already."""
    from tests import margins as plugin

    source, target = os.pipe()
    if os.fork() == 0:
        plugin.SHIFT = STRIDE * seed
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        pytest.main(["-q", "-p", "no:cacheprovider", "-p", "tests.margins", file])
        os.write(target, json.dumps(plugin.margins).encode())
        os._exit(0)
    os.close(target)
    with open(source, "rb") as pipe:
        text = pipe.read()
    os.wait()
    return json.loads(text) if text else {}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--minutes", type=float, default=5)
    arguments = parser.parse_args()
    import sinkscope  # noqa: F401
    import transformers  # noqa: F401

    for file in arguments.files:
        worst: dict[str, tuple[float, float]] = {}
        start, seeds = time.monotonic(), 0
        while seeds < arguments.seeds and (not seeds or time.monotonic() - start < 60 * arguments.minutes):
            for place, (difference, allowed) in measure(str(file), seeds).items():
                before = worst.get(place, (-OWN_SEED, 1.0))
                if before[0] / before[1] <= difference / max(allowed, 1e-300) < OWN_SEED:
                    worst[place] = difference, allowed
            seeds += 1
        head, rows = TABLE.read_text().split("|---|---|---|---|---|\n", 1)
        lines = [line for line in rows.splitlines() if not line.startswith((f"| {file.name}::", f"| {file.name} "))]
        for place, (difference, allowed) in worst.items():
            name = place.replace("|", "\\|")
            lines.append(f"| {name} | {allowed:.2g} | {difference:.2g} | {difference / allowed:.2g} | {seeds} |")
        lines.sort(key=lambda line: -float(line.rsplit("|", 3)[1]))
        TABLE.write_text(head + "|---|---|---|---|---|\n" + "".join(f"{line}\n" for line in lines))
        print(f"{file}: {len(worst)} comparisons, {seeds} seeds", file=sys.stderr)


if __name__ == "__main__":
    main()
