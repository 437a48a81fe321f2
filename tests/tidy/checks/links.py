"""Link lines of every CMake target against the layer table, as declared (link_table.txt, written by
cmake/LinkTable.cmake) and as really linked (build.ninja)."""

import re

from tree import Finding, Fixture, Tree, inside, may_use, row_of


def run(tree: Tree) -> list[Finding]:
    assert tree.build is not None
    table = tree.build / "link_table.txt"
    if not table.exists():
        return [Finding(str(table), 0, "is missing: configure the build first")]
    targets = [line.split(";") for line in table.read_text().splitlines() if line]
    if not targets:
        return [Finding(str(table), 0, "names no target")]
    folders = {name: folder for name, _, folder, *_ in targets}
    findings = []
    for name, _, folder, *links in targets:
        row = row_of(folder, tree.layers["layer"])
        if row is None:
            findings.append(
                Finding(f"{folder}/CMakeLists.txt", 0, f"{name}: folder has no layer row")
            )
            continue
        for link in links:
            problem = _problem(tree, row, folder, folders, _bare(link))
            if problem:
                findings.append(Finding(f"{folder}/CMakeLists.txt", 0, f"{name} {problem}"))
    return findings + _really_linked(tree, folders)


def _bare(link: str) -> str:
    """`link` without CMake's $<LINK_ONLY:…> and its marks of the directory it was named in."""
    return re.sub(r"^\$<(?:LINK_ONLY|BUILD_INTERFACE):(.*)>$", r"\1", link)


def _problem(tree: Tree, row: dict, folder: str, folders: dict[str, str], link: str) -> str | None:
    if not link or link.startswith("::@"):
        return None
    if link in folders:
        if may_use(row, folders[link]):
            return None
        return f"may not link {link} of {folders[link]}/ (layers.toml)"
    for party in tree.layers["third_party"]:
        if link in party["links"]:
            if any(inside(folder, allowed) for allowed in party["folders"]):
                return None
            return f"may not link {link} ({party['name']}): only {', '.join(party['folders'])} may"
    return f"links {link}, which no row of layers.toml names"


def _really_linked(tree: Tree, folders: dict[str, str]) -> list[Finding]:
    assert tree.build is not None
    ninja = tree.build / "build.ninja"
    findings, output, folder = [], "", ""
    for line in ninja.read_text().splitlines() if ninja.exists() else []:
        if line.startswith("build "):
            found = re.match(r"build (\S+)[^:]*: \S+_LINKER__(\S+)", line)
            output, rule = found.groups() if found else ("", "")
            # The rule is named after target and build type; unknown targets count by their place.
            owners = [name for name in folders if rule.startswith(f"{name}_")]
            folder = folders[max(owners, key=len)] if owners else output
        elif output and line.startswith("  LINK_LIBRARIES ="):
            for party in tree.layers["third_party"]:
                if not any(inside(folder, allowed) for allowed in party["folders"]):
                    findings += _foreign_files(party, output, line)
    return findings


def _foreign_files(party: dict, output: str, line: str) -> list[Finding]:
    return [
        Finding(output, 0, f"is really linked with {file}* ({party['name']})")
        for file in party.get("library_files", [])
        if re.search(rf"[/\s]{file}[\w.]*\.so", line)
    ]


def _table(*lines: str) -> dict[str, str]:
    return {"build/link_table.txt": "\n".join(lines) + "\n"}


_ADAPTOR = "laneway_adaptor;STATIC_LIBRARY;adaptor;laneway_lanes;torch::cpu"
_LANES = "laneway_lanes;STATIC_LIBRARY;lanes;Threads::Threads"
_NINJA = """build {}: CXX_EXECUTABLE_LINKER__a_RelWithDebInfo x.o
  LINK_LIBRARIES = x.a  /v/libtorch_cpu.so
"""

FIXTURES = [
    Fixture("links that point down", _table(_LANES, _ADAPTOR), None),
    Fixture(
        "a link that points up",
        _table(_ADAPTOR, "laneway_lanes;STATIC_LIBRARY;lanes;laneway_adaptor"),
        "laneway_lanes may not link laneway_adaptor of adaptor/",
    ),
    Fixture(
        "torch below adaptor",
        _table("laneway_lanes;STATIC_LIBRARY;lanes;torch::cpu"),
        "laneway_lanes may not link torch::cpu (LibTorch)",
    ),
    Fixture(
        "a broker that reaches torch",
        _table(_LANES, _ADAPTOR, "broker;EXECUTABLE;service/broker;laneway_adaptor"),
        "broker may not link laneway_adaptor",
    ),
    Fixture(
        "a library that nobody listed",
        _table("laneway_base;STATIC_LIBRARY;base;/usr/lib/libz.so"),
        "links /usr/lib/libz.so, which no row",
    ),
    Fixture(
        "torch that came in by a side door",
        {**_table(_LANES), "build/build.ninja": _NINJA.format("service/broker/broker")},
        "service/broker/broker: is really linked with libtorch*",
    ),
    Fixture(
        "torch where it belongs",
        {**_table(_LANES), "build/build.ninja": _NINJA.format("tests/adaptor/adaptor_test")},
        None,
    ),
    Fixture("an empty table", {"build/link_table.txt": "\n"}, "names no target"),
]
