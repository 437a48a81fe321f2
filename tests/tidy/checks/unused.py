"""Names that product headers declare and that no product code uses (rules.toml, [unused]): a name
has a use when it stands anywhere but in its own declarations and definitions, and, for a field,
anywhere but where it is set. What tests use does not count. Names of one spelling count together,
so the check misses some; what it finds is unused. A name that waits for its user is listed with the
subject that will use it; a listed name that is used, or gone, is a finding too."""

import collections
import fnmatch
import re

from cpp_names import Name, code_of, names
from tree import Finding, Fixture, Tree, matches

_WORD = re.compile(r"[A-Za-z_]\w*")


def run(tree: Tree) -> list[Finding]:
    rules = tree.rules["unused"]
    files = [path for path in tree.cpp() if matches(path, rules["folders"])]
    codes = {path: code_of(tree.text(path)) for path in files}
    declared = {path: names(code) for path, code in codes.items()}
    used = _used(codes, declared)
    listed = _listed(rules)
    findings, unused = [], set()
    for path in files:
        if not path.endswith(".h") or matches(path, rules["public"]):
            continue
        for name in declared[path]:
            if name.name in used[name.kind] or _is_foreign(name, declared):
                continue
            full = f"{name.scope}::{name.name}" if name.scope else name.name
            unused.add(full)
            if not any(fnmatch.fnmatchcase(full, pattern) for pattern in listed):
                line = codes[path].count("\n", 0, name.offset) + 1
                findings.append(
                    Finding(path, line, f"{full} ({name.kind}) has no use in the product")
                )
    if tree.has_table("rules.toml"):
        findings += _stale(listed, unused)
    return findings


def _listed(rules: dict) -> list[str]:
    return [name for row in rules["later"] + rules["kept"] for name in row["names"]]


def _stale(listed: list[str], unused: set[str]) -> list[Finding]:
    """Names of the lists that match nothing unused any more."""
    return [
        Finding("tests/tidy/rules.toml", 0, f"[unused] lists {pattern}, which is used or gone")
        for pattern in listed
        if not any(fnmatch.fnmatchcase(full, pattern) for full in unused)
    ]


def _is_foreign(name: Name, declared: dict[str, list[Name]]) -> bool:
    """Whether somebody else's library calls it: it overrides what no header of ours declares."""
    if not name.overrides:
        return False
    same = (other for all_names in declared.values() for other in all_names)
    return not any(o.name == name.name and o.kind == "function" and not o.overrides for o in same)


def _used(codes: dict[str, str], declared: dict[str, list[Name]]) -> dict[str, set[str]]:
    """Spellings with a use, by the kind of name that the use counts for."""
    used: dict[str, set[str]] = collections.defaultdict(set)
    for path, code in codes.items():
        own = {name.offset for name in declared[path]}
        bodies = collections.defaultdict(list)
        for name in declared[path]:
            if name.has_body:
                bodies[name.name].append((name.offset, name.end))
        for word in _WORD.finditer(code):
            at, spelling = word.start(), word.group()
            if at in own:
                continue
            inside = any(first < at < last for first, last in bodies[spelling])
            for kind in _counts_for(code, at, word.end(), inside):
                used[kind].add(spelling)
    return used


def _counts_for(code: str, at: int, end: int, in_own_body: bool) -> tuple[str, ...]:
    if in_own_body:
        return ("value", "enumerator")
    before = code[max(0, at - 80) : at]
    after = code[end : end + 40]
    if re.search(r"\bcase\s+(?:\w+::)*$", before):
        return (
            "type",
            "value",
        )  # to tell it apart is no use of an enumerator: somebody must make it
    kinds = ["function", "enumerator"]
    if not re.match(r"\s*::", after) or not _is_head(code, at):
        kinds.append("type")
    if not (re.search(r"[.]\s*$", before) and re.match(r"\s*=[^=]", after)):
        kinds.append("value")
    return tuple(kinds)


def _is_head(code: str, at: int) -> bool:
    """Whether the word at `at` begins at the margin of a line, where definitions do."""
    line = code[code.rfind("\n", 0, at) + 1 : at]
    return not line.startswith(" ")


_USED = {
    "base/a.h": "class A {\n public:\n  int count() const { return count_; }\n private:\n"
    "  int count_ = 0;\n};\n",
    "base/b.cc": '#include "base/a.h"\nnamespace {\nint f() { return A().count(); }\n}\n',
}

_TABLE = """
[unused]
folders = ["base/"]
public = []
kept = []
[[unused.later]]
subject = "sharing"
names = ["A::%s"]
"""

FIXTURES = [
    Fixture("a class with a user", _USED, None),
    Fixture(
        "a name that waits for its user",
        {
            "base/a.h": "class A {\n  void f();\n};\n",
            "base/a.cc": "void A::f() {}\nA a;\n",
            "tests/tidy/rules.toml": _TABLE % "f",
        },
        None,
    ),
    Fixture(
        "a listed name that has its user now",
        {**_USED, "tests/tidy/rules.toml": _TABLE % "count"},
        "[unused] lists A::count, which is used or gone",
    ),
    Fixture(
        "a function that only a test calls",
        {
            **_USED,
            "base/c.h": "int f();\nint g();\n",
            "base/c.cc": "int f() { return 1; }\nint g() { return f(); }\n",
            "tests/c_test.cc": "int x = g();\n",
        },
        "base/c.h:2: g (function) has no use",
    ),
    Fixture(
        "a method that nothing calls",
        {"base/a.h": "class A {\n  void f();\n};\n", "base/a.cc": "void A::f() {}\nA a;\n"},
        "base/a.h:2: A::f (function)",
    ),
    Fixture(
        "a function that calls only itself",
        {"base/a.h": "int f(int);\n", "base/a.cc": "int f(int n) { return f(n - 1); }\n"},
        "f (function)",
    ),
    Fixture(
        "an enumerator that is told apart and never made",
        {
            "base/a.h": "enum class E { on, off };\n",
            "base/a.cc": "int f(E e) {\n  switch (e) {\n    case E::on: return 1;\n"
            "    case E::off: return 2;\n  }\n}\nE x = E::on;\n",
        },
        "E::off (enumerator)",
    ),
    Fixture(
        "a field that is set and never read",
        {
            "base/a.h": "struct S {\n  int kept = 0;\n  int lost = 0;\n};\n",
            "base/a.cc": "S s{.kept = 1, .lost = 2};\nint x = s.kept;\n",
        },
        "S::lost (value)",
    ),
    Fixture(
        "a constant that nothing uses", {"base/a.h": "inline constexpr int kA = 1;\n"}, "kA (value)"
    ),
]
