"""Measures how far the numbers of the tests are from their tolerances, and writes the rows of tests/margins.md:

    python3 -m tests.margins tests/native/*.c tests/wasm/*.mjs
    python3 -m tests.margins --seeds 200 --minutes 5 tests/record/test_silent.py tests/python/test_metrics.py::test_x
    python3 -m tests.margins --first 50 --seeds 200 tests/record/test_silent.py       # goes on behind 50 seeds

The native tests of .build/native print what they compare (check.h), and Node notes it in those of the package
(margins.mjs). A Python file runs with other seeds, as many as end in its minutes: every comparison with a tolerance
(`x < 1e-5`, `allclose`, `approx`) is noted with its difference and what it allows. Seeds of torch and NumPy are
shifted: a comparison with the numbers of its own seed is then off by far more than it allows, and does not count.
From the third seed on, only tests run whose differences changed and whose tolerance does not follow from the numbers
that are compared (DERIVED): such a row has `follows` in place of a number of seeds.
"""

import argparse
import ast
import gc
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from _pytest.assertion import rewrite

STRIDE = 1_000_003
SHIFT = 0
ROOT = Path(__file__).resolve().parents[1]
TABLE = Path(__file__).with_suffix(".md")
RULE = "|---|---|---|---|---|\n"
OWN_SEED = 100.0  # a larger share of the tolerance is that of a number which one seed alone has
LARGEST_TOLERANCE = 0.01
CALLS = {
    "allclose": (1e-5, 1e-8),
    "isclose": (1e-5, 1e-8),
    "assert_close": (1.3e-6, 1e-5),
    "assert_allclose": (1e-7, 0),
}
TOLERANCE = re.compile(r"\de-\d|\b0\.00\d|toleran|rounding", re.I)  # on the right of < or <=
ARGUMENT = r"(?:[^()]|\((?:[^()]|\([^()]*\))*\))*"
IN_NODE = (
    rf"(Math\.abs\({ARGUMENT}\)|\b[\w.]*Error|\bx) <=? "
    rf"((?:\d(?:\.\d+)?e-\d+|0\.00\d*|tolerance)(?: \* (?:[\w.]|\({ARGUMENT}\))+)?)"
)
IN_C = r"\b(?:CHECK_NEAR|is_within)\("
# What a tolerance follows from: the scores, the rounding of a sum, half a step of a stored type, a power of two.
DERIVED = re.compile(r"\b(tolerance_of|rounding_of|tensor_rounding|half_step|F16_ROUNDING)\b|\b2 \*\* \(?-\d")
margins: dict[str, tuple[float, float]] = {}  # by place: the largest difference, and what was allowed there
users: dict[str, set[str]] = {}  # by place: the tests that compare there


def is_worse(entry: tuple[float, float], before: tuple[float, float] | None) -> bool:
    return before is None or entry[0] / max(entry[1], 1e-300) > before[0] / max(before[1], 1e-300)


def note(place: str, difference: Any, allowed: Any) -> None:
    ratio = np.asarray(difference, np.float64) / np.maximum(np.asarray(allowed, np.float64), 1e-300)
    if not ratio.size or np.isnan(ratio).all():
        return
    at = np.nanargmax(ratio)
    difference, allowed = (float(np.broadcast_to(x, ratio.shape).flat[at]) for x in (difference, allowed))
    users.setdefault(place, set()).add(os.environ.get("PYTEST_CURRENT_TEST", "").rsplit(" ", 1)[0])
    if is_worse((difference, allowed), margins.get(place)):
        margins[place] = difference, allowed


def to_array(x: Any) -> Any:
    if isinstance(x, dict):
        x = list(x.values())
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
    try:
        difference, allowed = to_array(left), to_array(right)
    except (TypeError, ValueError):
        return left
    if np.all((allowed > 0) & (allowed <= LARGEST_TOLERANCE)):
        note(place, difference, allowed)
    return left


class Noting(ast.NodeTransformer):
    """Makes comparisons calls that note them; those of `places` surely have a tolerance, so that rows must exist."""

    def __init__(self, file: str) -> None:
        self.file = self.function = file
        self.places: set[str] = set()
        self.calls: set[str] = set()
        self.names: dict[str, set[str]] = {}  # by function: the names in it
        self.following: set[str] = set()  # the places whose tolerance is derived
        self.derived: set[str] = set()  # local names of derived tolerances

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        outer, self.function = self.function, f"{self.file}::{node.name}"
        derived = self.derived
        for child in ast.walk(node):
            names = [child.target] if isinstance(child, ast.NamedExpr) else getattr(child, "targets", [])
            if isinstance(child, ast.Assign | ast.NamedExpr) and self.is_derived(child.value):
                self.derived = self.derived | {
                    x.id for name in names for x in ast.walk(name) if isinstance(x, ast.Name)
                }
        names = {getattr(x, "id", getattr(x, "arg", None)) for x in ast.walk(node)}
        self.names[node.name] = self.names.get(node.name, set()) | names
        self.generic_visit(node)
        self.function, self.derived = outer, derived
        return node

    def is_derived(self, node: ast.expr) -> bool:
        names = {x.id for x in ast.walk(node) if isinstance(x, ast.Name)}
        return bool(DERIVED.search(ast.unparse(node)) or names & self.derived)

    def follow(self, text: str, tolerances: list[ast.expr]) -> None:
        """Notes a place if each of its tolerances is derived, or 0."""
        bounds = [x for x in tolerances if not (isinstance(x, ast.Constant) and x.value == 0)]
        if bounds and all(map(self.is_derived, bounds)):
            self.following.add(f"{self.function} `{text[:72]}`")

    def call(self, function: str, text: str, node: ast.expr, *args: ast.expr) -> ast.Call:
        place = f"{self.function} `{text[:72]}`"
        self.calls.add(place)
        name = ast.parse(f"__import__('tests.margins', fromlist=['x']).{function}", mode="eval").body
        return ast.copy_location(ast.Call(name, [ast.Constant(place), *args], []), node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        """Leaves out what must differ."""
        return node if isinstance(node.op, ast.Not) else self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        text = ast.unparse(node)
        self.generic_visit(node)
        name = getattr(node.func, "attr", None)
        if name not in CALLS:
            return node
        self.places.add(f"{self.function} `{text[:72]}`")
        tolerances = {keyword.arg: keyword.value for keyword in node.keywords}
        # The other tolerance of allclose has a default: 1e-8 of an absolute one is below every rounding.
        if "rtol" in tolerances:
            self.follow(text, [tolerances[key] for key in ("rtol", "atol") if key in tolerances])
        call = self.call("note_call", text, node, ast.Constant(name), node.func, *node.args)
        call.keywords = node.keywords
        return call

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        text, right = ast.unparse(node), ast.unparse(node.comparators[0])
        self.generic_visit(node)
        kinds = {ast.Lt: "note_bound", ast.LtE: "note_bound", ast.Eq: "note_comparison"}
        if len(node.ops) == 1 and (kind := kinds.get(type(node.ops[0]))):
            bound = node.comparators[0]
            is_approx = right.startswith("pytest.approx(")
            if is_approx or (kind == "note_bound" and (TOLERANCE.search(right) or self.is_derived(bound))):
                self.places.add(f"{self.function} `{text[:72]}`")
                keywords = [x.value for x in bound.keywords] if isinstance(bound, ast.Call) and is_approx else [bound]
                self.follow(text, keywords)
            node.left = self.call(kind, text, node, node.left, node.comparators[0])
        return node


def transform(module: ast.Module, source: bytes, path: str | None = None, config: Any = None) -> None:
    Noting("/".join(Path(path or "").parts[-2:])).visit(module)
    ast.fix_missing_locations(module)
    rewrite_asserts(module, source, path, config)


rewrite_asserts = rewrite.rewrite_asserts
seed_torch, make_rng = torch.manual_seed, np.random.default_rng


class Generator(torch.Generator):
    def manual_seed(self, seed: int) -> torch.Generator:
        return super().manual_seed(seed + SHIFT)


def install() -> None:
    """Makes pytest note the comparisons, and shifts seeds."""
    rewrite.rewrite_asserts = transform
    rewrite._read_pyc = lambda *_, **__: None
    torch.manual_seed = lambda seed: seed_torch(seed + SHIFT)
    torch.Generator = Generator  # type: ignore[misc]
    np.random.default_rng = lambda seed=None: make_rng(abs(seed) + SHIFT if isinstance(seed, int) else seed)


def list_tests(file: str) -> list[str]:
    """Lists the tests of a file that compare, or that call what does."""
    noting = Noting(file)
    noting.visit(ast.parse(Path(file).read_text()))
    names = {place.split("::")[-1].split(" ")[0] for place in noting.places}
    while more := {name for name, used in noting.names.items() if used & names} - names:
        names |= more
    return [f"{file}::{name}" for name in noting.names if name in names and name.startswith("test_")]


class Loop:
    """Runs the tests that pytest collects a single time, with each seed in a process of its own."""

    def __init__(self, seeds: Iterable[int], end: float, target: int) -> None:
        self.seeds, self.end, self.target = seeds, end, target

    def pytest_runtestloop(self) -> bool | None:
        from tests import margins as plugin  # this module is __main__

        gc.freeze()
        for seed in self.seeds:
            if (child := os.fork()) == 0:
                self.seed, plugin.SHIFT = seed, STRIDE * seed
                return None  # pytest's own loop follows
            os.waitpid(child, 0)
            if time.monotonic() > self.end:
                break
        os._exit(0)

    def pytest_sessionfinish(self) -> None:
        from tests import margins as plugin

        users = {place: sorted(tests) for place, tests in plugin.users.items()}
        with open(self.target, "w") as pipe:
            pipe.write(json.dumps([self.seed, plugin.margins, users]) + "\n")
        os._exit(0)


def run_tests(tests: Iterable[str], seeds: Iterable[int], end: float) -> Iterable[tuple[int, dict, dict]]:
    """Runs tests with each seed until `end`; yields the seed, the differences by place, and the tests of each place."""
    from tests import margins as plugin

    source, target = os.pipe()
    if os.fork() == 0:
        plugin.install()
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        pytest.main(["-q", "-p", "no:cacheprovider", *tests], [Loop(seeds, end, target)])
        os._exit(0)
    os.close(target)
    with open(source) as pipe:
        yield from map(json.loads, pipe)
    os.wait()


def measure_python(file: str, seeds: Iterable[int], minutes: float) -> dict[str, tuple[float, float, str]]:
    """Returns by place the worst difference, what was allowed, and over how many seeds."""
    worst: dict[str, tuple[float, float]] = {}
    counts: dict[str, int] = {}
    firsts: dict[str, tuple[float, float]] = {}
    varying: set[str] = set()
    tests_of: dict[str, list[str]] = {}
    tests, end, seeds = [file] if "::" in file else list_tests(file), time.monotonic() + 60 * minutes, list(seeds)
    # All tests run with two seeds; then those whose differences changed.
    for batch in (seeds[:2], seeds[2:]):
        for seed, result, users in run_tests(tests, batch, end) if tests and time.monotonic() < end else ():
            for place, (difference, allowed) in result.items():
                entry, is_first = (difference, allowed), seed == seeds[0]
                # A passed test allows more than it found: what allows less chooses numbers.
                if is_worse((OWN_SEED if seed else 1, 1), entry) and (is_first or place in worst):
                    varying |= {place} if firsts.setdefault(place, entry) != entry else set()
                    counts[place] = counts.get(place, 0) + 1
                    worst[place] = entry if is_worse(entry, worst.get(place)) else worst[place]
            tests_of |= users
        following = list_places()[2]
        tests = sorted({test for x in varying - following for test in tests_of.get(x, [])})
    return {
        place: (*entry, str(counts[place]) if place in varying else "fixed" if counts[place] > 1 else "stored")
        for place, entry in worst.items()
    }


def measure_file(path: Path) -> dict[str, tuple[float, float, str]]:
    """Returns the comparison of a native or a package's test that is nearest to its tolerance."""
    with tempfile.NamedTemporaryFile("r") as notes:
        env = {**os.environ, "SINKSCOPE_MARGINS": notes.name, "SINKSCOPE_PATTERN": IN_NODE}
        hooks = ["--import", "./tests/margins.mjs", "--test", "--test-isolation=none", "--test-force-exit"]
        command = [f".build/native/{path.stem}"] if path.suffix == ".c" else ["node", *hooks, str(path)]
        printed = subprocess.run(command, cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True).stdout
        lines = re.findall(r"^margin(?: (\S+\.mjs))? (\S+) (\S+)$", printed + notes.read(), re.M)
    worst: dict[str, tuple[float, float]] = {}
    for file, *numbers in lines:
        entry = float(numbers[0]), float(numbers[1])
        name = f"{path.parent.name}/{file or path.name}"
        if is_worse(entry, worst.get(name)):
            worst[name] = entry
    return {name: (*entry, "same bits") for name, entry in worst.items()}


def list_places() -> tuple[dict[str, set[str]], set[str], set[str]]:
    """Returns by test file the comparisons that must have a row of the table, all that may have one, and those whose
    tolerance follows."""
    places, possible, following = {}, set(), set()
    for path in sorted([*ROOT.glob("tests/python/*.py"), *ROOT.glob("tests/record/*.py")]):
        noting = Noting(f"{path.parent.name}/{path.name}")
        noting.visit(ast.parse(path.read_text()))
        places[noting.file] = noting.places
        possible |= noting.calls
        following |= noting.following
    for pattern, files in {IN_C: "tests/native/*.[ch]", IN_NODE: "tests/wasm/*.mjs"}.items():
        for path in sorted(ROOT.glob(files)):
            name = f"{path.parent.name}/{path.name}"
            places[name] = {name} if re.search(pattern, path.read_text()) else set()
    return places, possible.union(*places.values()), following


def read_table() -> tuple[str, dict[str, list[str]]]:
    """Returns the text before the rows, and the rows: by place what is allowed, the largest, its share, the seeds."""
    head, rows = TABLE.read_text().split(RULE)
    cells = [re.split(r"(?<!\\) \| ", line[2:-2].replace("\\|", "\0")) for line in rows.splitlines()]
    return head, {place.replace("\0", "|"): rest for place, *rest in cells}


def write_rows(results: dict[str, tuple[float, float, str]], file: str, first: int) -> None:
    head, rows = read_table()
    places, possible, following = list_places()
    name = file.split("::")[0]
    is_replaced = "::" not in file and not first
    rows = {
        place: row
        for place, row in rows.items()
        if place in possible and not (is_replaced and re.split("::| `", place)[0] == name)
    }
    for place in results.keys() & possible:
        difference, allowed, seeds = results[place]
        before = rows.get(place)
        share = difference / max(allowed, 1e-300)
        seeds = "follows" if place in following else seeds
        if before and before[2] != "-" and (first or not place.startswith(name)):
            seeds = str(first + int(seeds)) if first and seeds.isdigit() else before[3]
            if float(before[2]) >= share:
                rows[place] = [*before[:3], seeds]
                continue
        rows[place] = [f"{allowed:.2g}", f"{difference:.2g}", f"{share:.2g}", seeds]
    for place in places[name] - set(rows):
        rows[place] = ["-", "-", "-", "not measured"]
    ordered = sorted(rows.items(), key=lambda row: (-float(row[1][2]) if row[1][2] != "-" else 1, row[0]))
    lines = ("| " + " | ".join([place.replace("|", "\\|"), *row]) + " |\n" for place, row in ordered)
    TABLE.write_text(head + RULE + "".join(lines))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--minutes", type=float, default=5)
    arguments = parser.parse_args()
    for file in arguments.files:
        if (path := Path(file)).suffix in (".c", ".mjs"):
            results = measure_file(path)
        else:
            import sinkscope  # noqa: F401
            import transformers  # noqa: F401

            results = measure_python(file, range(arguments.first, arguments.seeds), arguments.minutes)
        write_rows(results, "/".join(path.parts[-2:]), arguments.first)
        print(f"{file}: {len(results)} comparisons", {row[2] for row in results.values()}, file=sys.stderr)


if __name__ == "__main__":
    main()
