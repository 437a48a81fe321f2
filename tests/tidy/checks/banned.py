"""Calls that some folder must not make (rules.toml, [[banned]]), and iteration over unordered
containers in the core. A line may break a rule only with `tidy: allow RULE (why)` on it."""

import re

from cpp_text import strip
from tree import Finding, Fixture, Tree, matches

_ALLOW = re.compile(r"tidy: allow ([\w-]+) \(\S.*\)")
_UNORDERED = re.compile(r"\bunordered_(?:multi)?(?:map|set)\s*<[^;{}()]*>\s*&?\s*(\w+)\s*[;={,)]")


def run(tree: Tree) -> list[Finding]:
    core = tree.rules["core"]
    findings = []
    for path in tree.with_suffix(".h", ".hpp", ".cc", ".c", ".py"):
        in_core = matches(path, core["files"]) and not matches(path, core["except"])
        rules = [rule for rule in tree.rules["banned"] if _applies(rule, path, in_core)]
        if rules:
            findings += _lines(tree, path, rules)
        if in_core:
            findings += _unordered(tree, path)
    return findings


def _applies(rule: dict, path: str, in_core: bool) -> bool:
    if rule.get("core"):
        return in_core
    return matches(path, rule["files"]) and not matches(path, rule.get("except", []))


def _code(tree: Tree, path: str) -> list[str]:
    text = tree.text(path)
    if path.endswith(".py"):
        return [re.sub(r"(^|\s)#.*", "", line) for line in text.splitlines()]
    return strip(text).splitlines()


def _lines(tree: Tree, path: str, rules: list[dict]) -> list[Finding]:
    findings = []
    original = tree.text(path).splitlines()
    for number, line in enumerate(_code(tree, path), 1):
        for rule in rules:
            found = re.search(rule["pattern"], line)
            if found and not _allowed(original[number - 1], rule["rule"]):
                text = f'"{found.group().strip()}" is banned here: {rule["why"]} [{rule["rule"]}]'
                findings.append(Finding(path, number, text))
    return findings


def _allowed(line: str, rule: str) -> bool:
    found = _ALLOW.search(line)
    return bool(found) and found.group(1) == rule


def _unordered(tree: Tree, path: str) -> list[Finding]:
    """Loops over names that this file or its header declares as unordered containers."""
    header = re.sub(r"\.cc$", ".h", path)
    declared = strip(tree.text(path))
    if header != path and header in tree.paths:
        declared += strip(tree.text(header))
    names = set(_UNORDERED.findall(declared))
    original = tree.text(path).splitlines()
    findings = []
    for number, line in enumerate(_code(tree, path), 1):
        for name in names:
            loop = rf"\bfor\s*\(.*:\s*(?:\w+(?:\.|->))*{name}\s*\)"
            begin = rf"\b{name}\s*(?:\.|->)\s*c?begin\s*\("
            found = re.search(f"{loop}|{begin}", line)
            if found and not _allowed(original[number - 1], "core-order"):
                text = f"the order of {name} (unordered) must not decide anything [core-order]"
                findings.append(Finding(path, number, text))
    return findings


_MAP = "#include <unordered_map>\nstruct S { std::unordered_map<int, int> jobs_; void f(); };\n"

FIXTURES = [
    Fixture(
        "a pure policy",
        {"policies/p.cc": "int pick(int now) { return now; }  // std::mutex\n"},
        None,
    ),
    Fixture(
        "a clock in a policy",
        {"policies/p.cc": "auto t = std::chrono::steady_clock::now();\n"},
        "[core-clock]",
    ),
    Fixture("a lock in the core", {"lanes/core/scheduler.h": "std::mutex m;\n"}, "[core-thread]"),
    Fixture("a thread at the edge", {"lanes/core/core_loop.cc": "std::thread t;\n"}, None),
    Fixture(
        "the environment in the core",
        {"lanes/state/job.cc": 'auto x = getenv("X");\n'},
        "[core-outside-world]",
    ),
    Fixture("chance in the core", {"policies/p.cc": "int x = rand();\n"}, "[core-chance]"),
    Fixture(
        "order taken from hashing",
        {"lanes/s.h": _MAP, "lanes/s.cc": "void S::f() {\n  for (auto& [a, b] : jobs_) {}\n}\n"},
        "lanes/s.cc:2: the order of jobs_",
    ),
    Fixture(
        "a look-up by hashing",
        {"lanes/s.h": _MAP, "lanes/s.cc": "void S::f() { jobs_.find(1); }\n"},
        None,
    ),
    Fixture("a shell", {"service/a.cc": 'int x = system("ls");\n'}, "[shell]"),
    Fixture("a method named system", {"service/a.cc": 'auto x = a.system("ls");\n'}, None),
    Fixture(
        "sleep in a C++ test",
        {"tests/base/a_test.cc": "std::this_thread::sleep_for(x);\n"},
        "[sleep]",
    ),
    Fixture(
        "sleep in a Python test",
        {"tests/python/test_a.py": "import time\ntime.sleep(1)\n"},
        "test_a.py:2",
    ),
    Fixture(
        "a test that asks for the sanitizer",
        {"tests/base/a_test.cc": "#ifdef __SANITIZE_ADDRESS__\n#endif\n"},
        "[sanitized]",
    ),
    Fixture(
        "code for one version of torch in the worker",
        {"service/worker/a.cc": "#if TORCH_VERSION_MINOR >= 12\n#endif\n"},
        "[torch-version]",
    ),
    Fixture(
        "code for one version of torch in the plugin",
        {"adaptor/cuda/a.cc": "#if TORCH_VERSION_MINOR >= 12\n#endif\n"},
        None,
    ),
    Fixture(
        "the version of torch in the supervisor",
        {"service/supervisor/a.cc": "const char* a() { return TORCH_VERSION; }\n"},
        "[torch-version-text]",
    ),
    Fixture(
        "the version of torch in the adaptor",
        {"adaptor/device/a.cc": "const char* a() { return TORCH_VERSION; }\n"},
        None,
    ),
    Fixture("print in a library", {"memory/a.cc": "std::cout << 1;\n"}, "[print]"),
    Fixture("print in a main", {"service/broker/main.cc": "std::cout << 1;\n"}, None),
    Fixture("delete by hand", {"memory/a.cc": "void f(int* p) { delete p; }\n"}, "[raw-delete]"),
    Fixture("a deleted function", {"memory/a.h": "struct A { A(const A&) = delete; };\n"}, None),
    Fixture(
        "an allowed line",
        {"memory/a.cc": "void f(int* p) { delete p; }  // tidy: allow raw-delete (C ABI)\n"},
        None,
    ),
    Fixture(
        "an allowed line without a reason",
        {"memory/a.cc": "void f(int* p) { delete p; }  // tidy: allow raw-delete\n"},
        "[raw-delete]",
    ),
]
