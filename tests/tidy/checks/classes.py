"""Classes of at most so many lines (rules.toml, [classes]): the class in its header and every
source file that defines more members of it than of any other class. A file limit alone is kept by
cutting one class over many files."""

import collections

from cpp_names import code_of, names
from tree import Finding, Fixture, Tree, matches


def run(tree: Tree) -> list[Finding]:
    rules = tree.rules["classes"]
    longest = rules["lines"]
    files = [path for path in tree.cpp() if matches(path, rules["folders"])]
    declared, lines = _headers(tree, files)
    for path in files:
        if path.endswith(".cc"):
            owner = _owner(tree, path, declared)
            if owner:
                lines[owner] += tree.text(path).count("\n")
    findings = [
        Finding(declared[name], 0, f"{name} has {count} lines in its files; at most {longest}")
        for name, count in sorted(lines.items())
        if count > longest and name not in rules["over"]
    ]
    return findings + [
        Finding("tests/tidy/rules.toml", 0, f"[classes] lists {name}, which is short enough")
        for name in rules["over"]
        if tree.has_table("rules.toml") and lines[name] <= longest
    ]


def _headers(tree: Tree, files: list[str]) -> tuple[dict[str, str], collections.Counter]:
    """The outermost classes of the headers: where each is declared, and its lines there."""
    declared: dict[str, str] = {}
    lines: collections.Counter = collections.Counter()
    for path in files:
        if not path.endswith(".h"):
            continue
        code = code_of(tree.text(path))
        for name in names(code):
            if name.kind == "type" and name.has_body and not name.scope:
                declared[name.name] = path
                lines[name.name] += code.count("\n", name.offset, name.end) + 1
    return declared, lines


def _owner(tree: Tree, path: str, declared: dict[str, str]) -> str | None:
    """The class that most of the file's functions are members of."""
    members: collections.Counter = collections.Counter()
    for name in names(code_of(tree.text(path))):
        if name.kind == "function" and name.has_body:
            members.update([part for part in name.scope.split("::") if part in declared][:1])
    most = members.most_common(1)
    return most[0][0] if most else None


def _class(functions: int) -> str:
    return "class A {\n" + "  void f();\n" * functions + "};\n"


FIXTURES = [
    Fixture(
        "two classes of two files each",
        {
            "base/a.h": _class(50),
            "base/a.cc": "void A::f() {}\n" * 390,
            "base/b.h": _class(50).replace("A", "B"),
            "base/b.cc": "void B::f() {}\n" * 390 + "void A::f() {}\n" * 3,
        },
        None,
    ),
    Fixture(
        "a class over three files",
        {
            "base/a.h": _class(20),
            "base/a.cc": "void A::f() {}\n" * 300,
            "base/a_more.cc": "namespace x {\nvoid A::f() {}\n" + "//\n" * 300 + "}\n",
        },
        "base/a.h: A has 625 lines in its files; at most 600",
    ),
]
