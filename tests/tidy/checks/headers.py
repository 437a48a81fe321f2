"""Every header compiles alone: a translation unit that includes nothing else is compiled for each.
Objects go through ccache where it is installed, so that an unchanged header costs milliseconds."""

import concurrent.futures
import os
import pathlib
import shutil
import subprocess
import tempfile

from tree import Finding, Fixture, Tree, matches


def run(tree: Tree) -> list[Finding]:
    torch = [folder for folder in tree.tools.get("torch_include", "").split(";") if folder]
    knows_torch = next(p["files"] for p in tree.layers["third_party"] if p["name"] == "LibTorch")
    headers = tree.with_suffix(".h", ".hpp")
    if not torch:
        headers = [path for path in headers if not matches(path, knows_torch)]
    place = pathlib.Path(tree.build or tempfile.mkdtemp()) / "tidy-headers"
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        found = pool.map(lambda path: _compile_alone(tree, path, place, torch), headers)
        return [finding for finding in found if finding]


def _compile_alone(
    tree: Tree, header: str, place: pathlib.Path, torch: list[str]
) -> Finding | None:
    unit = place / (header.replace("/", "__") + ".cc")
    unit.parent.mkdir(parents=True, exist_ok=True)
    unit.write_text(f'#include "{header}"\n')
    ccache = shutil.which("ccache")
    command = [ccache] if ccache else []
    command += [tree.tools.get("compiler", "c++"), "-std=c++20", "-Wall", "-Werror", "-O0"]
    command += [f"-I{tree.root}"]
    for folder in torch:
        command += ["-isystem", folder]
    command += ["-c", str(unit), "-o", str(unit.with_suffix(".o"))]
    # As in cmake/Toolchain.cmake: checkouts share what ccache keeps.
    environment = {"CCACHE_BASEDIR": str(tree.root), "CCACHE_NOHASHDIR": "1"} | os.environ
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode == 0:
        return None
    errors = [line for line in done.stderr.splitlines() if "error" in line] or ["(no message)"]
    return Finding(header, 0, f"does not compile alone: {errors[0]}")


FIXTURES = [
    Fixture(
        "a complete header",
        {"base/a.h": "#pragma once\n#include <string>\nstd::string f();\n"},
        None,
    ),
    Fixture(
        "a header that leans on its includer",
        {"base/a.h": "#pragma once\nstd::string f();\n"},
        "base/a.h: does not compile alone",
    ),
]
