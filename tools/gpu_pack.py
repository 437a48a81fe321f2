"""Collects what a machine with only a driver, Python 3.12 and torch needs to run the checks of the
CUDA device: programs and libraries (stripped, with what they need of Debian), the Python package,
the benches, the tests, and Python packages that such a machine may lack. One archive, which
./dev gpu-check finds. Standard library only.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable

import build
import pack_libraries
import pack_wheels
import torch_minors

ROOT = build.ROOT
LIMIT_MIB = 60
NAME = "laneway-gpu"
XZ_PRESET = 6
# Under build/PRESET, and at the same place in the pack: $LANEWAY_BUILD is then its build/.
PROGRAMS = ("bin/*", "bench/laneway-*", "service/liblaneway_*.so", "adaptor/**/liblaneway_*.so")
# Of the checkout: the package, the benches, the tests that run there, and what runs them all.
SOURCES = ("python/laneway", "bench", "tests/gpu", "tests/python/support", "tools")
ENTRY = "dev"
NOT_PACKED = ("__pycache__", "lib", "results")
TEST_LABEL = "gpu"
# Of a build for another torch (--torch), which has everything in one folder.
TORCH_TARGETS = (torch_minors.PROGRAMS, "bench/all")


class PackError(Exception):
    """What is missing or too large, and what to do."""


def test_programs(directory: pathlib.Path) -> list[str]:
    """Names of the C++ test programs with TEST_LABEL in a configured build directory."""
    found = []
    for path in sorted(directory.rglob("*_labels.cmake")):
        labels = re.search(r'LABELS "([^"]*)"', path.read_text())
        if labels and TEST_LABEL in labels[1].split(";"):
            found.append(path.name.removesuffix("_labels.cmake"))
    return found


def collect(release: pathlib.Path, tests: pathlib.Path, stage: pathlib.Path) -> dict:
    """Fills `stage` from two build directories and the checkout; the manifest's account of it."""
    built = stage / "build"
    for pattern in PROGRAMS:
        for path in sorted(release.glob(pattern)):
            copy(path, built / path.relative_to(release))
    names = test_programs(tests)
    for name in names:
        path = next((p for p in tests.rglob(name) if p.is_file()), None)
        if path is None:
            raise PackError(f"the test program {name} is not built in {tests}")
        copy(path, built / "tests" / name)
    binaries = [path for path in built.rglob("*") if path.is_file() and pack_libraries.is_elf(path)]
    if not any(path.name == "liblaneway_embedded.so" for path in binaries):
        raise PackError(f"{release} holds no liblaneway_embedded.so: build preset release first")
    needs = pack_libraries.closure(binaries, {path.name for path in binaries})
    for folder, libraries in (("lib", needs.libraries), ("lib-fallback", needs.fallback)):
        for name, path in libraries.items():
            copy(path, stage / folder / name)
    strip([path for path in stage.rglob("*") if path.is_file() and pack_libraries.is_elf(path)])
    for source in SOURCES:
        if (ROOT / source).is_dir():
            shutil.copytree(
                ROOT / source, stage / source, ignore=shutil.ignore_patterns(*NOT_PACKED, "*.pyc")
            )
    shutil.copy2(ROOT / ENTRY, stage / ENTRY)
    return {
        "tests": names,
        "needs_of_the_machine": needs.versions,
        "libraries": {name: path.name for name, path in sorted(needs.libraries.items())},
        "left_out": {
            "glibc, the driver, torch's wheel and what it needs": sorted(needs.left_out),
            "results of benches, tests that need no device": "they stay in the checkout",
        },
    }


def collect_packages(
    stage: pathlib.Path, cache: pathlib.Path, python: pathlib.Path | None
) -> dict[str, dict]:
    """Each package in a folder of its own under packages/, in the version that the environment of
    `python` has; None: that requirements.txt pins."""
    account: dict[str, dict] = {}
    if python is None:
        versions = pack_wheels.pinned(ROOT / "requirements.txt")
    else:
        versions = pack_wheels.installed(python)
    for package in pack_wheels.PACKAGES:
        version = versions[package.name.lower()]
        wheel = pack_wheels.fetch(package, version, cache)
        pack_wheels.unpack(wheel, stage / "packages" / package.module)
        account[package.name] = {"version": version, "module": package.module, "why": package.why}
    return account


def copy(path: pathlib.Path, to: pathlib.Path) -> None:
    to.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(path, to)  # what a link points to


def strip(files: Iterable[pathlib.Path]) -> None:
    for path in files:
        path.chmod(0o755)
        subprocess.run(["strip", "--strip-unneeded", str(path)], check=True)


def source_state() -> dict:
    """The commit that is packed, and whether tracked files differ from it."""
    git = ["git", "-C", str(ROOT)]
    head = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    changed = subprocess.run([*git, "status", "--porcelain"], capture_output=True, check=False)
    known = head.returncode == 0
    return {"commit": head.stdout.strip() if known else None, "dirty": bool(changed.stdout)}


def torch_version(release: pathlib.Path, python: pathlib.Path | None) -> str:
    """What the packed library was built against: its own answer, in a process with that torch."""
    code = "import ctypes, sys, torch; l = ctypes.CDLL(sys.argv[1]); "
    code += "f = l.laneway_torch_version; f.restype = ctypes.c_char_p; print(f().decode())"
    library = release / build.EMBEDDED_LIBRARY
    command = [str(python or sys.executable), "-c", code, str(library)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise PackError(f"{library} does not load: {done.stderr.strip().splitlines()[-1:]}")
    return done.stdout.strip()


def write_archive(stage: pathlib.Path, archive: pathlib.Path) -> int:
    """Packs `stage`, whole or not at all; the archive's size. Raises PackError above LIMIT_MIB."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    partial = archive.with_name(archive.name + ".partial")
    with tarfile.open(partial, "w:xz", preset=XZ_PRESET) as tar:
        for path in sorted(stage.rglob("*")):
            if path.is_file():
                tar.add(path, f"{NAME}/{path.relative_to(stage)}", filter=_plain)
    size = partial.stat().st_size
    if size > LIMIT_MIB << 20:
        partial.unlink()
        raise PackError(
            f"the pack has {size / (1 << 20):.1f} MiB; at most {LIMIT_MIB} can be taken along: "
            f"leave out a package ({pathlib.Path(pack_wheels.__file__).name}) or a test program"
        )
    partial.replace(archive)
    return size


def _plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


def pack(
    release: pathlib.Path,
    tests: pathlib.Path,
    archive: pathlib.Path,
    python: pathlib.Path | None = None,
) -> None:
    """Makes the archive of what the two build directories hold; `python` is that of the environment
    that they were built for, None: this one."""
    output = archive.parent
    with tempfile.TemporaryDirectory(
        dir=output.parent if output.parent.is_dir() else None
    ) as folder:
        stage = pathlib.Path(folder) / NAME
        manifest = source_state() | {
            "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "torch": torch_version(release, python),
            "python": pack_wheels.PYTHON,
        }
        manifest |= collect(release, tests, stage)
        manifest["packages"] = collect_packages(stage, ROOT / ".cache/gpu-pack", python)
        manifest["bytes"] = sizes(stage)
        (stage / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n")
        size = write_archive(stage, archive)
    tell(archive, size, manifest)


def sizes(stage: pathlib.Path) -> dict[str, int]:
    """Bytes before packing, by part."""
    parts: dict[str, int] = {}
    for path in stage.rglob("*"):
        if path.is_file():
            relative = path.relative_to(stage).parts
            part = "/".join(relative[:2]) if relative[0] in ("packages", "build") else relative[0]
            parts[part] = parts.get(part, 0) + path.stat().st_size
    return dict(sorted(parts.items()))


def tell(archive: pathlib.Path, size: int, manifest: dict) -> None:
    for part, count in manifest["bytes"].items():
        print(f"  {part:<24} {count / (1 << 20):7.1f} MiB")
    left_out = ", ".join(manifest["left_out"])
    print(f"left out: {left_out}")
    state = f"{manifest['commit']}{' and changes' if manifest['dirty'] else ''}"
    print(f"{shown(archive)}: {size / (1 << 20):.1f} MiB (at most {LIMIT_MIB}), of {state}")


def shown(path: pathlib.Path) -> str:
    return os.path.relpath(path) if path.is_relative_to(pathlib.Path.cwd()) else str(path)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="./dev gpu-pack",
        description="Set up, build, and collect in one archive what ./dev gpu-check needs on a "
        "machine that has only a driver, Python 3.12 and torch.",
    )
    default = ROOT / "build/gpu-pack"
    parser.add_argument(
        "--output",
        type=pathlib.Path,
        default=default,
        metavar="DIR",
        help="default: build/gpu-pack",
    )
    parser.add_argument(
        "--torch",
        choices=torch_minors.MINORS,
        help=f"for this torch, as {NAME}-torch-MINOR.tar.xz: what ./dev build --torch builds, with "
        "checked containers, so that its figures are not those of a release build",
    )
    parser.add_argument("--check-usage", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def build_parts(minor: str | None) -> tuple[pathlib.Path, pathlib.Path]:
    """The build directories of what is packed and of its tests. Raises BuildError."""
    if minor is None:
        build.build("release", quiet=True)
        build.configure("dev", quiet=True)
        tests = build.build_directory("dev")
        build.build("dev", test_programs(tests), quiet=True)
        return build.build_directory("release"), tests
    name = torch_minors.build_name(minor)
    build.configure(name, quiet=True)
    built = build.build_directory(name)
    build.build(name, [*TORCH_TARGETS, *test_programs(built)], quiet=True)
    return built, built


def main() -> int:
    arguments = parse_arguments()
    if arguments.check_usage:
        return 0
    minor = arguments.torch
    name = NAME if minor is None else f"{NAME}-torch-{minor}"
    python = None if minor is None else torch_minors.python_of(torch_minors.build_name(minor))
    try:
        archive = arguments.output.resolve() / f"{name}.tar.xz"
        pack(*build_parts(minor), archive, python)
    except (
        build.BuildError,
        PackError,
        pack_libraries.LibraryMissing,
        pack_wheels.WheelMissing,
        subprocess.CalledProcessError,
    ) as error:
        print(f"dev: gpu-pack: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
