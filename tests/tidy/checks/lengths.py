"""Files of at most so many lines, functions of at most so many (rules.toml, [lengths])."""

import ast

from cpp_text import functions
from tree import Finding, Fixture, Tree


def run(tree: Tree) -> list[Finding]:
    limits = tree.rules["lengths"]
    findings = []
    sources = tree.with_suffix(".h", ".hpp", ".cc", ".c", ".py", ".sh", ".cmake", "CMakeLists.txt")
    for path in sources + [path for path in tree.paths if path == "dev"]:
        text = tree.text(path)
        lines = text.count("\n")
        if lines > limits["file_lines"]:
            findings.append(
                Finding(
                    path, 0, f"has {lines} lines; at most {limits['file_lines']}: it is two things"
                )
            )
        for name, first, count in _functions(path, text):
            if count > limits["function_lines"]:
                findings.append(
                    Finding(
                        path, first, f"{name} has {count} lines; at most {limits['function_lines']}"
                    )
                )
    return findings


def _functions(path: str, text: str) -> list[tuple[str, int, int]]:
    if path.endswith((".h", ".hpp", ".cc", ".c")):
        return [(f.name, f.first_line, f.lines) for f in functions(text)]
    if path.endswith(".py"):
        nodes = (ast.FunctionDef, ast.AsyncFunctionDef)
        return [
            (node.name, node.lineno, (node.end_lineno or node.lineno) - node.lineno + 1)
            for node in ast.walk(ast.parse(text, path))
            if isinstance(node, nodes)
        ]
    return []


def _body(lines: int) -> str:
    return "  x();\n" * lines


_CLASS = (
    "namespace n {\nclass A : public B {\n public:\n  A() : b_{1}, c_(2) {}\n"
    + _body(80)
    + "};\n}\n"
)

FIXTURES = [
    Fixture("short things", {"base/a.cc": "void f() {\n" + _body(68) + "}\n"}, None),
    Fixture("a long file", {"base/a.h": "int x;\n" * 401}, "base/a.h: has 401 lines"),
    Fixture(
        "a long function",
        {"base/a.cc": "int y;\n\nint f(int a) {\n" + _body(70) + "}\n"},
        "base/a.cc:3: f has 72 lines",
    ),
    Fixture(
        "a long method in a class in a namespace",
        {
            "base/a.cc": "namespace n {\nstruct S {\n  int g() const noexcept {\n"
            + _body(75)
            + "  }\n};\n}\n"
        },
        "base/a.cc:3: g has 77 lines",
    ),
    Fixture(
        "a long lambda in a function",
        {"base/a.cc": "void f() {\n auto g = [](int a) {\n" + _body(70) + " };\n}\n"},
        "f has 74 lines",
    ),
    Fixture(
        "a long test",
        {"tests/a_test.cc": "TEST(A, B) {\n" + _body(90) + "}\n"},
        "TEST has 92 lines",
    ),
    Fixture(
        "a long class of short functions",
        {"base/a.h": _CLASS.replace("  x();\n", "  int x() { return 1; }\n")},
        None,
    ),
    Fixture("a long table", {"base/a.cc": "const int kT[] = {\n" + "  1,\n" * 90 + "};\n"}, None),
    Fixture(
        "a long Python function",
        {"python/a.py": "def f():\n" + "    x = 1\n" * 70},
        "python/a.py:1: f has 71 lines",
    ),
]
