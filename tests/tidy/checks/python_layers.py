"""Import lines of Python against the [[python_layer]] rows of layers.toml. Every import counts: one
inside a function, and one for type checkers only, ties two modules together as well."""

import ast
from collections.abc import Iterable

from tree import Finding, Fixture, Tree


def run(tree: Tree) -> list[Finding]:
    rows = tree.layers["python_layer"]
    modules = modules_of(tree)
    over = {tuple(pair) for pair in tree.layers.get("python_over", [])}
    met = set()
    findings = []
    for path, module in modules.items():
        row = _row(module, rows)
        if row is None:
            text = "lies in no [[python_layer]] of tests/tidy/layers.toml"
            findings.append(Finding(path, 0, text))
            continue
        nodes = ast.walk(ast.parse(tree.text(path), path))
        for line, used in imports_of(nodes, path, module, set(modules.values())):
            target = _row(used, rows)
            if target is None or _may(row, target):
                continue
            met.add((module, used))
            if (module, used) not in over:
                text = f"{row['module']} may not import {used} (layers.toml)"
                findings.append(Finding(path, line, text))
    if tree.has_table("layers.toml"):
        stale = [f"{user} imports {used}" for user, used in sorted(over - met)]
        named = {row["module"] for row in rows} - set(modules.values())
        findings += [
            Finding("tests/tidy/layers.toml", 0, f"{what}: there is no such thing any more")
            for what in [*stale, *sorted(named - {"bench"})]
        ]
    return findings


def modules_of(tree: Tree) -> dict[str, str]:
    """The module name of every file of the package and of the benches."""
    found = {}
    for path in tree.with_suffix(".py"):
        if path.startswith(("python/laneway/", "bench/")):
            parts = path.removeprefix("python/").removesuffix(".py").split("/")
            found[path] = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    return found


def _row(module: str, rows: list[dict]) -> dict | None:
    """The row with the longest module that this one is or lies in."""
    fitting = [row for row in rows if f"{module}.".startswith(row["module"] + ".")]
    return max(fitting, key=lambda row: len(row["module"]), default=None)


def _may(row: dict, target: dict) -> bool:
    return target is row or any(
        f"{target['module']}.".startswith(used + ".") for used in row["may_use"]
    )


def imports_of(nodes: Iterable[ast.AST], path: str, module: str, ours: set[str]):
    """Line and module of every import of one of ours among the nodes."""
    package = module if path.endswith("__init__.py") else module.rpartition(".")[0]
    for node in nodes:
        if isinstance(node, ast.Import):
            used = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, base]).rstrip(".")
            # `from laneway.jobs import step` names a module, `… import TrainStep` a name of one.
            names = [f"{base}.{alias.name}" for alias in node.names]
            used = [name if name in ours else base for name in names]
        else:
            continue
        for name in sorted(set(used)):
            if name in ours:
                yield node.lineno, name


_TABLE = """
[[python_layer]]
module = "laneway.graph"
may_use = []
[[python_layer]]
module = "laneway.jobs"
may_use = ["laneway.graph"]
"""


def _tree(graph: str, jobs: str = "") -> dict[str, str]:
    return {
        "tests/tidy/layers.toml": _TABLE,
        "python/laneway/graph/__init__.py": "",
        "python/laneway/graph/slots.py": graph,
        "python/laneway/jobs/__init__.py": "",
        "python/laneway/jobs/job.py": jobs,
    }


_TYPES = """from typing import TYPE_CHECKING
if TYPE_CHECKING:
    from laneway.jobs.job import Job
"""

FIXTURES = [
    Fixture("imports that point down", _tree("", "from ..graph.slots import Slot\n"), None),
    Fixture(
        "an import that points up",
        _tree("import laneway.jobs.job\n"),
        "slots.py:1: laneway.graph may not import laneway.jobs.job",
    ),
    Fixture(
        "one inside a function, of a module by its package",
        _tree("def f():\n    from laneway.jobs import job\n    return job\n"),
        "slots.py:2: laneway.graph may not import laneway.jobs.job",
    ),
    Fixture("one for type checkers", _tree(_TYPES), "may not import laneway.jobs.job"),
    Fixture("a relative one", _tree("from ..jobs.job import Job\n"), "may not import"),
    Fixture(
        "a module without a row",
        {**_tree(""), "python/laneway/other.py": ""},
        "lies in no [[python_layer]]",
    ),
    Fixture(
        "a row of a folder that is gone",
        {"tests/tidy/layers.toml": _TABLE, "python/laneway/graph/__init__.py": ""},
        "laneway.jobs: there is no such thing",
    ),
]
