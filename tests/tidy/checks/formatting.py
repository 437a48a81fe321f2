"""C++ looks as clang-format and .clang-format say; Python as ruff format says, where ruff is."""

import re
import shutil
import subprocess
import sys

from tree import TIDY, Finding, Fixture, Tree


def run(tree: Tree) -> list[Finding]:
    return _cpp(tree) + _python(tree)


def _cpp(tree: Tree) -> list[Finding]:
    style = f"-style=file:{TIDY.parent.parent / '.clang-format'}"
    files = tree.cpp()
    if not files:
        return []
    command = [
        tree.tools.get("clang_format", "clang-format"),
        style,
        "--dry-run",
        "-Werror",
        *files,
    ]
    done = subprocess.run(command, cwd=tree.root, capture_output=True, text=True, check=False)
    first: dict[str, int] = {}
    for path, line in re.findall(r"^(\S+?):(\d+):\d+: error:", done.stderr, re.MULTILINE):
        first.setdefault(path, int(line))
    if done.returncode != 0 and not first:
        return [Finding("clang-format", 0, done.stderr.strip() or "failed without a message")]
    remedy = "is not formatted: run ./dev lint --fix"
    return [Finding(path, line, remedy) for path, line in first.items()]


def _python(tree: Tree) -> list[Finding]:
    files = tree.with_suffix(".py")
    ruff = shutil.which("ruff", path=str(TIDY.parent.parent / ".venv/bin")) or shutil.which("ruff")
    if not files or not ruff:
        return []
    config = TIDY.parent.parent / "pyproject.toml"
    command = [ruff, "format", "--no-cache", "--diff", "--config", str(config), *files]
    done = subprocess.run(command, cwd=tree.root, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return []
    paths = re.findall(r"^--- (\S+)", done.stdout, re.MULTILINE)
    if not paths:
        return [Finding("ruff", 0, (done.stdout + done.stderr).strip() or "failed")]
    return [Finding(path, 0, "is not formatted: run ./dev lint --fix") for path in paths]


FIXTURES = [
    Fixture(
        "formatted files",
        {"base/a.cc": "int f(int x) { return x; }\n", "python/a.py": "x = 1\n"},
        None,
    ),
    Fixture(
        "a C++ file out of form",
        {"base/a.cc": "int f(int   x){return x;}\n"},
        "base/a.cc:1: is not formatted",
    ),
]
if "ruff" in sys.modules or shutil.which("ruff", path=str(TIDY.parent.parent / ".venv/bin")):
    FIXTURES.append(
        Fixture(
            "a Python file out of form",
            {"python/a.py": "x  =  1\n"},
            "python/a.py: is not formatted",
        )
    )
