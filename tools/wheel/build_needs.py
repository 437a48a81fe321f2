"""What compiling Laneway needs of the machine beside what pip brings (CMake, Ninja, the libzmq that
is packed, torch where the environment has none): asked before CMake is, so that all that is missing
is said in one sentence."""

from __future__ import annotations

import os
import shutil
import subprocess

COMPILER = "g++"
# By header: the Debian packages that have it, with the library that is linked.
HEADERS = {
    "spdlog/spdlog.h": "libspdlog-dev",
    "nlohmann/json.hpp": "nlohmann-json3-dev",
    "cereal/cereal.hpp": "libcereal-dev",
    "CLI/CLI.hpp": "libcli11-dev",
    "zmq.h": "libzmq3-dev",
    "zlib.h": "zlib1g-dev",
}
LEAST_STANDARD = 202002  # __cplusplus of C++20


class BuildNeeds(Exception):
    """Something is missing; the text names it and says where it is found."""


def check() -> None:
    """Raises BuildNeeds."""
    compiler = os.environ.get("CXX") or shutil.which("c++") or shutil.which(COMPILER)
    if compiler is None:
        raise BuildNeeds(_words(f"a C++ compiler (no c++ or {COMPILER} on the PATH)", [COMPILER]))
    said = _preprocessed(compiler)
    if "old" in said:
        raise BuildNeeds(
            f"Laneway's build needs a compiler that knows C++20, which {compiler} does not (GCC 12 "
            "and clang 14 do): name one in the environment variable CXX"
        )
    missing = [header for header in HEADERS if f'"{header}"' in said]
    if missing:
        packages = [HEADERS[header] for header in missing]
        raise BuildNeeds(_words(f"the headers {', '.join(missing)}", packages))


def _preprocessed(compiler: str) -> str:
    """ "old" of a compiler without C++20, and each header that it does not find, in quotes."""
    lines = [f"#if __cplusplus < {LEAST_STANDARD}L", "old", "#endif"]
    for header in HEADERS:
        lines += [f"#if !__has_include(<{header}>)", f'"{header}"', "#endif"]
    command = [*compiler.split(), "-std=c++20", "-E", "-P", "-x", "c++", "-"]
    try:
        done = subprocess.run(
            command, input="\n".join([*lines, ""]), capture_output=True, text=True, check=False
        )
    except OSError as error:
        raise BuildNeeds(f"the C++ compiler that CXX names does not start: {error}") from error
    return done.stdout if done.returncode == 0 else "old"


def _words(what: str, packages: list[str]) -> str:
    names = " ".join(packages)
    return (
        f"Laneway's build needs {what}: on Debian and Ubuntu apt-get install "
        f"--no-install-recommends {names}; without root, unpack packages into a folder (apt-get "
        "download, dpkg -x), and name its usr/include in CPATH and its usr in CMAKE_PREFIX_PATH"
    )
