"""Circles among the modules of python/laneway/: none imports itself, by whatever way round. Counted
are the imports that run when a module is imported, and those for type checkers; one inside a
function may wait for the other module."""

import ast
import graphlib

from checks.python_layers import imports_of, modules_of
from tree import Finding, Fixture, Tree

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def run(tree: Tree) -> list[Finding]:
    paths = {module: path for path, module in modules_of(tree).items()}
    paths = {module: path for module, path in paths.items() if path.startswith("python/")}
    lines = {module: _lines(tree, path, module, set(paths)) for module, path in paths.items()}
    findings = []
    while (circle := _circle(lines)) is not None:
        first, second = circle[:2]
        text = f"a circle of imports: {' -> '.join(circle)}"
        findings.append(Finding(paths[first], lines[first].pop(second), text))
    return findings


def _lines(tree: Tree, path: str, module: str, ours: set[str]) -> dict[str, int]:
    """Which modules are imported, in the order of their names, and on what line."""
    found = imports_of(_at_import(ast.parse(tree.text(path), path)), path, module, ours)
    lines: dict[str, int] = {}
    for line, used in sorted(found, key=lambda each: each[::-1]):
        lines.setdefault(used, line)
    return lines


def _at_import(of: ast.AST):
    """All nodes but for those inside functions."""
    for node in ast.iter_child_nodes(of):
        if not isinstance(node, _FUNCTIONS):
            yield node
            yield from _at_import(node)


def _circle(lines: dict[str, dict[str, int]]) -> list[str] | None:
    """One circle, from its first module by name on: each imports the next one, the last is the
    first."""
    try:
        graphlib.TopologicalSorter(lines).prepare()
    except graphlib.CycleError as error:
        around = error.args[1][:0:-1]  # each one is imported by the next; the last is the first
        start = around.index(min(around))
        return [*around[start:], *around[: start + 1]]
    return None


def _tree(**texts: str) -> dict[str, str]:
    files = {f"python/laneway/{name}.py": text for name, text in texts.items()}
    return {"python/laneway/__init__.py": "", **files}


_TYPES = """from typing import TYPE_CHECKING
if TYPE_CHECKING:
    from laneway.step import Step
"""
_LATER = "def f():\n    from laneway import step\n    return step\n"

FIXTURES = [
    Fixture("no circle", _tree(step="from laneway import job\n", job="import ast\n"), None),
    Fixture("one that is closed in a function", _tree(step="import laneway.job", job=_LATER), None),
    Fixture(
        "two modules that import each other",
        _tree(step="import laneway.job\n", job="import ast\nfrom . import step\n"),
        "job.py:2: a circle of imports: laneway.job -> laneway.step -> laneway.job",
    ),
    Fixture(
        "one that type checkers close",
        _tree(step="import laneway.job\n", job=_TYPES),
        "job.py:3: a circle of imports",
    ),
    Fixture(
        "three modules",
        _tree(step="import laneway.job", job="import laneway.run", run="import laneway.step"),
        "job.py:1: a circle of imports: laneway.job -> laneway.run -> laneway.step -> laneway.job",
    ),
    Fixture("itself", _tree(step="import laneway.step\n"), "laneway.step -> laneway.step"),
]
