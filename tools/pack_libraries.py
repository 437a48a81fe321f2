"""Which shared libraries a program needs on a machine that has only glibc, Python and torch: the
closure of its DT_NEEDED entries, less what such a machine brings. ELF files are read with readelf,
which every compiler's installation has. Standard library only."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import re
import subprocess
from collections.abc import Iterable

# glibc: every program of the machine needs it, and it must be the machine's own.
GLIBC = re.compile(
    r"^(lib(c|m|mvec|dl|rt|pthread|resolv|util|anl|nsl|BrokenLocale|thread_db)\.so|ld-linux)"
)
# The driver's, or in torch's wheel and the packages that it needs.
NVIDIA = re.compile(
    r"^lib(cuda|cudart|cudnn|cublas|cublasLt|cufft|cufile|cupti|curand|cusolver|cusparse|cusparseLt|"
    r"nccl|nvrtc|nvJitLink|nvshmem|nvToolsExt|nvidia|nvtx)[-_.\w]*\.so"
)
TORCH = re.compile(r"^lib(torch|torch_\w+|c10|c10_\w+|shm|gomp[-\w]*|caffe2_\w+)\.so")
# Compilers' run times: packed aside, for a machine whose own is older than what our code needs.
FALLBACK = re.compile(r"^lib(stdc\+\+|gcc_s)\.so")
VERSION = re.compile(r"Name: (GLIBC|GLIBCXX|CXXABI)_([0-9.]+)")


class LibraryMissing(Exception):
    """A library that something needs is not on this machine; the text names both."""


@dataclasses.dataclass
class Closure:
    """Libraries to pack, by the name that the loader looks for."""

    libraries: dict[str, pathlib.Path] = dataclasses.field(default_factory=dict)
    fallback: dict[str, pathlib.Path] = dataclasses.field(default_factory=dict)
    left_out: set[str] = dataclasses.field(default_factory=set)
    versions: dict[str, str] = dataclasses.field(default_factory=dict)  # "GLIBC" -> "2.36"


def kind_of(name: str) -> str:
    """Where the library `name` comes from: "machine", "torch", "fallback" or "pack"."""
    if GLIBC.match(name):
        return "machine"
    if NVIDIA.match(name) or TORCH.match(name):
        return "torch"
    return "fallback" if FALLBACK.match(name) else "pack"


def closure(
    binaries: Iterable[pathlib.Path], ours: Iterable[str], folders: Iterable[pathlib.Path] = ()
) -> Closure:
    """Everything that `binaries` need, and what that needs, and so on. `ours` are names that are
    packed anyway; `folders` are looked through before the system's own. Raises LibraryMissing."""
    found, packed = Closure(), set(ours)
    places = _system_libraries() | _libraries_in(folders)
    waiting = [pathlib.Path(binary) for binary in binaries]
    while waiting:
        binary = waiting.pop()
        dynamic = readelf("-d", binary)
        _note_versions(found.versions, readelf("-V", binary))
        for name in re.findall(r"\(NEEDED\).*\[(.+)\]", dynamic):
            kind = kind_of(name)
            if name in packed:
                continue
            if kind in ("machine", "torch"):
                found.left_out.add(name)
                continue
            into = found.fallback if kind == "fallback" else found.libraries
            if name in into:
                continue
            if name not in places:
                raise LibraryMissing(
                    f"{binary.name} needs {name}, which this machine does not have"
                )
            into[name] = places[name].resolve()
            if kind == "pack":
                waiting.append(into[name])
    return found


def readelf(option: str, path: pathlib.Path) -> str:
    done = subprocess.run(
        ["readelf", "--wide", option, str(path)],
        capture_output=True,
        text=True,
        env=os.environ | {"LC_ALL": "C"},
        check=True,
    )
    return done.stdout


def is_elf(path: pathlib.Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def _note_versions(versions: dict[str, str], text: str) -> None:
    """Keeps the newest version of each run time that `text` (readelf -V) asks for."""
    needs = text.partition("Version needs section")[2]
    for name, version in VERSION.findall(needs):
        if version_key(version) > version_key(versions.get(name, "0")):
            versions[name] = version


def version_key(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def _system_libraries() -> dict[str, pathlib.Path]:
    """What the loader finds by itself: its cache, of this machine's architecture."""
    tool = next((t for t in ("/sbin/ldconfig", "/usr/sbin/ldconfig") if os.path.exists(t)), None)
    if tool is None:
        raise LibraryMissing("this machine has no ldconfig, which tells where libraries are")
    text = subprocess.run([tool, "-p"], capture_output=True, text=True, check=True).stdout
    found: dict[str, pathlib.Path] = {}
    for name, kind, path in re.findall(r"^\s+(\S+) \(([^)]*)\) => (\S+)$", text, re.MULTILINE):
        if "x86-64" in kind or os.uname().machine != "x86_64":
            found.setdefault(name, pathlib.Path(path))
    return found


def _libraries_in(folders: Iterable[pathlib.Path]) -> dict[str, pathlib.Path]:
    return {path.name: path for folder in folders for path in sorted(folder.glob("*.so*"))}
