"""Include lines against the layer table: our folders, third-party headers, system headers."""

import re

from cpp_text import strip
from tree import Finding, Fixture, Tree, matches, may_use, row_of

STANDARD = set(
    """
    algorithm any array atomic barrier bit bitset charconv chrono codecvt compare complex
    concepts condition_variable coroutine deque exception execution filesystem format
    forward_list fstream functional future initializer_list iomanip ios iosfwd iostream istream
    iterator latch limits list locale map memory memory_resource mutex new numbers numeric
    optional ostream queue random ranges ratio regex scoped_allocator semaphore set shared_mutex
    source_location span sstream stack stdexcept stop_token streambuf string string_view
    syncstream system_error thread tuple type_traits typeindex typeinfo unordered_map
    unordered_set utility valarray variant vector version cassert cctype cerrno cfenv cfloat
    cinttypes climits clocale cmath csetjmp csignal cstdarg cstddef cstdint cstdio cstdlib
    cstring ctime cuchar cwchar cwctype assert.h ctype.h errno.h float.h inttypes.h limits.h
    math.h signal.h stdarg.h stdbool.h stddef.h stdint.h stdio.h stdlib.h string.h time.h
    stdatomic.h setjmp.h
    """.split()
)
_INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def run(tree: Tree) -> list[Finding]:
    ours = set(tree.paths)
    findings = []
    for path in tree.cpp():
        row = row_of(path, tree.layers["layer"])
        if row is None:
            text = "lies in no folder of the layer table: add a row to tests/tidy/layers.toml"
            findings.append(Finding(path, 0, text))
            continue
        for number, line in enumerate(strip(tree.text(path)).splitlines(), 1):
            found = _INCLUDE.match(line)
            if found:
                problem = _problem(tree, row, path, ours, *found.groups())
                if problem:
                    findings.append(Finding(path, number, problem))
    return findings


def _problem(
    tree: Tree, row: dict, path: str, ours: set[str], mark: str, header: str
) -> str | None:
    if header in ours:
        if mark == "<":
            return f'our own header <{header}> is included as "{header}"'
        if not may_use(row, header):
            return f'{row["folder"]}/ may not include "{header}" (layers.toml)'
        return None
    if mark == '"':
        return f'"{header}" is no file from the repository root'
    if header in STANDARD:
        return None
    for party in tree.layers["third_party"]:
        if any(header == h or (h.endswith("/") and header.startswith(h)) for h in party["headers"]):
            if matches(path, party["files"]):
                return None
            return f"<{header}> ({party['name']}) may be named only in {', '.join(party['files'])}"
    return f"<{header}> is of no third party in layers.toml: add it there, or do without"


_BASE = {"base/a.h": "#include <string>\n", "memory/m.h": '#include "base/a.h"\n'}

FIXTURES = [
    Fixture("layers that point down", {**_BASE, "lanes/l.cc": '#include "memory/m.h"\n'}, None),
    Fixture(
        "a layer that points up",
        {**_BASE, "base/b.cc": '#include "memory/m.h"\n'},
        'base/b.cc:1: base/ may not include "memory/m.h"',
    ),
    Fixture(
        "torch below adaptor",
        {"lanes/l.cc": "// x\n#include <ATen/core/Tensor.h>\n"},
        "lanes/l.cc:2: <ATen/core/Tensor.h> (LibTorch) may be named only in adaptor/",
    ),
    Fixture("torch in adaptor", {"adaptor/t.cc": "#include <ATen/core/Tensor.h>\n"}, None),
    Fixture(
        "adaptor from the broker",
        {"adaptor/a.h": "", "service/broker/b.cc": '#include "adaptor/a.h"\n'},
        'service/ may not include "adaptor/a.h"',
    ),
    Fixture(
        "adaptor from the embedded service",
        {"adaptor/a.h": "", "service/embedded/e.cc": '#include "adaptor/a.h"\n'},
        None,
    ),
    Fixture(
        "a third party outside its file",
        {"base/clock.cc": "#include <spdlog/spdlog.h>\n"},
        "(spdlog) may be named only in base/log.cc",
    ),
    Fixture(
        "an unknown third party",
        {"base/a.cc": "#include <boost/any.hpp>\n"},
        "<boost/any.hpp> is of no third party",
    ),
    Fixture(
        "the system in a policy",
        {"policies/p.cc": "#include <sys/mman.h>\n"},
        "(the operating system) may be named only in",
    ),
    Fixture(
        "a header that is not there",
        {"base/a.cc": '#include "base/gone.h"\n'},
        '"base/gone.h" is no file',
    ),
    Fixture(
        "an include in a comment",
        {"base/a.cc": '// #include <torch/all.h>\n/*\n#include "x.h"\n*/\n'},
        None,
    ),
    Fixture("a folder without a row", {"extra/a.cc": "int x;\n"}, "lies in no folder of the layer"),
]
