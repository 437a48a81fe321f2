"""The thread sanitizer has the test programs with the label `threads` alone: a program whose
sources, or headers that these reach, name a thread, a mutex or a process has it, and no other. The
programs are those of test_table.txt, which cmake/TestTable.cmake writes."""

import re

from cpp_text import strip
from tree import Finding, Fixture, Tree

LABEL = "threads"
_NAMES = re.compile(
    r"std::(?:jthread|thread|async|future|promise|condition_variable|\w*mutex)\b"
    r"|\b(?:Mutex|MutexLock|CondVar|TaskThread|ChildProcess)\b"
    r"|\b(?:pthread_create|v?fork|clone|posix_spawnp?|execvp?e?|waitpid)\s*\("
    r"|<(?:thread|mutex|shared_mutex|condition_variable|future|sys/wait\.h)>"
)
_INCLUDED = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)


def run(tree: Tree) -> list[Finding]:
    assert tree.build is not None
    table = tree.build / "test_table.txt"
    if not table.exists():
        return [Finding(str(table), 0, "is missing: configure the build first")]
    rows = [line.split(";") for line in table.read_text().splitlines() if line]
    if not rows:
        return [Finding(str(table), 0, "names no program of tests")]
    names = {path: _NAMES.search(strip(tree.text(path))) for path in tree.cpp()}
    findings = []
    for program, folder, labels, _, *sources in rows:
        found = next((p for p in _reached(tree, sources) if names.get(p)), None)
        labelled = LABEL in labels.split(",")
        place = f"{folder}/CMakeLists.txt"
        if found and not labelled:
            what = names[found].group().strip("( ")
            text = f'{program} reaches {found}, which names "{what}": it needs the label {LABEL}'
            findings.append(Finding(place, 0, text))
        if labelled and not found:
            text = f"{program} has the label {LABEL} and names no thread, mutex or process"
            findings.append(Finding(place, 0, text))
    return findings


def _reached(tree: Tree, sources: list[str]) -> list[str]:
    """`sources` and all of our files that they include, directly or not."""
    found: list[str] = []
    waiting = list(reversed(sources))
    while waiting:
        path = waiting.pop()
        if path not in found and path in tree.paths:
            found.append(path)
            waiting += _INCLUDED.findall(tree.text(path))
    return found


def _tests(labels: str, **files: str) -> dict[str, str]:
    row = f"a_test;tests/a;{labels};;tests/a/a_test.cc\n"
    return {"build/test_table.txt": row} | {
        f"{name.replace('__', '/')}.{'h' if name.startswith('a__') else 'cc'}": text
        for name, text in files.items()
    }


_THREAD = "#include <thread>\nvoid f() { std::thread t; }\n"
_LOCKED = '#pragma once\n#include "base/mutex.h"\nclass A { Mutex m_; };\n'

FIXTURES = [
    Fixture("arithmetic", _tests("unit", tests__a__a_test="int x;  // std::thread\n"), None),
    Fixture("a labelled thread", _tests("unit,threads", tests__a__a_test=_THREAD), None),
    Fixture(
        "a thread that the thread sanitizer would not see",
        _tests("unit", tests__a__a_test=_THREAD),
        'a_test reaches tests/a/a_test.cc, which names "<thread>"',
    ),
    Fixture(
        "a mutex behind a header",
        _tests("unit", tests__a__a_test='#include "a/a.h"\n', a__a=_LOCKED),
        'a_test reaches a/a.h, which names "Mutex"',
    ),
    Fixture(
        "a child process",
        _tests("integration", tests__a__a_test="int f() { return fork(); }\n"),
        'which names "fork"',
    ),
    Fixture(
        "a label that nothing asks for",
        _tests("unit,threads", tests__a__a_test="int x;\n"),
        "a_test has the label threads and names no thread",
    ),
    Fixture("an empty table", {"build/test_table.txt": "\n"}, "names no program"),
]
