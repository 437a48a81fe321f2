"""Holds the source tree against the house rules: tidy.py CHECK looks at this checkout,
tidy.py CHECK --catches tries the check on small trees made for it, and shows that it finds what it
must find and nothing else. Standard library only; each is a ctest test with the label tidy."""

import argparse
import importlib
import pathlib
import sys
import tempfile

from tree import TIDY, Fixture, Tree

CHECKS = (
    "includes",
    "links",
    "headers",
    "formatting",
    "banned",
    "lengths",
    "words",
    "readmes",
    "unused",
    "classes",
    "stale",
    "python_layers",
    "python_circles",
    "threads",
)


def look_at_checkout(check, build: pathlib.Path | None, tools: dict[str, str]) -> int:
    tree = Tree(TIDY.parent.parent, build, **tools)
    if not tree.paths:
        print("no files found: is this a checkout?")
        return 1
    findings = check.run(tree)
    for finding in findings:
        print(finding)
    print(f"{len(findings)} findings in {len(tree.paths)} files")
    return 1 if findings else 0


def try_fixtures(check, tools: dict[str, str]) -> int:
    wrong = 0
    for fixture in check.FIXTURES:
        problem = try_fixture(check, fixture, tools)
        print(f"{'WRONG' if problem else 'right'}: {fixture.shows}{problem}")
        wrong += bool(problem)
    catching = sum(fixture.finds is not None for fixture in check.FIXTURES)
    if catching == 0 or catching == len(check.FIXTURES):
        print("the fixtures must hold a violation and a clean tree")
        wrong += 1
    return 1 if wrong else 0


def try_fixture(check, fixture: Fixture, tools: dict[str, str]) -> str:
    """What went wrong on this fixture, or ""."""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name, text in fixture.files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        findings = [str(finding) for finding in check.run(Tree(root, root / "build", **tools))]
    if fixture.finds is None:
        return f": expected no finding, got {findings}" if findings else ""
    if len(findings) == 1 and fixture.finds in findings[0]:
        return ""
    return f": expected one finding with {fixture.finds!r}, got {findings}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("check", choices=CHECKS)
    parser.add_argument("--catches", action="store_true", help="try the check on its fixtures")
    parser.add_argument("--build", type=pathlib.Path, help="build directory (links, headers)")
    parser.add_argument("--compiler", default="c++", help="C++ compiler (headers)")
    parser.add_argument("--torch-include", default="", help="LibTorch's include folder (headers)")
    parser.add_argument("--clang-format", default="clang-format")
    arguments = parser.parse_args()
    check = importlib.import_module(f"checks.{arguments.check}")
    tools = {
        "compiler": arguments.compiler,
        "torch_include": arguments.torch_include,
        "clang_format": arguments.clang_format,
    }
    if arguments.catches:
        return try_fixtures(check, tools)
    return look_at_checkout(check, arguments.build, tools)


if __name__ == "__main__":
    sys.exit(main())
