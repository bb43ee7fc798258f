"""Checks that no two files of the core, and no two modules of the Python package, need each other: a reader can then
read each after those that it calls."""

import ast
import re
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CODE = re.compile(r'/\*.*?\*/|"(?:\\.|[^"\\])*"', re.DOTALL)
DEFINITION = re.compile(r"^(?!static|typedef|extern)[a-z][\w *]*?\b(ss_\w+)\([^;{]*\{", re.MULTILINE)
Graph = dict[str, set[str]]


def graph_of_core(sources: dict[str, str]) -> Graph:
    """Links each C file to those whose functions it calls. A row of a table names a function without calling it."""
    texts = {name: CODE.sub("", text) for name, text in sources.items()}
    files = {function: name for name, text in texts.items() for function in DEFINITION.findall(text)}
    return {
        name: {files[call] for call in re.findall(r"\b(ss_\w+)\(", text) if call in files} - {name}
        for name, text in texts.items()
    }


def graph_of_package(sources: dict[str, str]) -> Graph:
    """Links each module to those that it imports, also inside functions and for types only."""
    graph: Graph = {}
    for name, text in sources.items():
        imports = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom) and node.level]
        names = {node.module or alias.name for node in imports for alias in node.names}
        graph[name] = names & sources.keys()
    return graph


def assert_acyclic(graph: Graph) -> None:
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_the_core_has_no_circle() -> None:
    core = ROOT / "core"
    graph = graph_of_core({str(path.relative_to(core)): path.read_text() for path in core.rglob("*.c")})
    assert "run/forward.c" in graph["run/run.c"]
    assert_acyclic(graph)


def test_the_package_has_no_circle() -> None:
    folder = ROOT / "models/record/src/sinkscope"
    graph = graph_of_package({path.stem: path.read_text() for path in folder.glob("*.py") if path.stem != "__init__"})
    assert "blocks" in graph["studies"]
    assert_acyclic(graph)


def test_circles_are_found() -> None:
    calls = {"a.c": "void ss_a(int x) {\n    ss_b();\n}\n", "b.c": "static int c;\nvoid ss_b(void) {\n  ss_a(1);\n}\n"}
    table = calls | {"b.c": "static const row rows[] = {{ss_a}}; /* ss_a() */\nvoid ss_b(void) {\n}\n"}
    imports = {"a": "def f():\n    from .b import c\n", "b": "from . import a\n"}
    assert graph_of_core(table) == {"a.c": {"b.c"}, "b.c": set()}
    for graph in (graph_of_core(calls), graph_of_package(imports)):
        with pytest.raises(pytest.fail.Exception):
            assert_acyclic(graph)
