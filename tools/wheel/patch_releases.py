"""Whether binaries that were built with one patch release of torch work with another one: the
dynamic loader finds in it every symbol that they take from torch."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import tempfile
import zipfile

import pack_libraries

_UNDEFINED = re.compile(r"^undefined symbol: (\S+?)(?:, version \S+)?\s+\((.+)\)$", re.MULTILINE)


def unresolved(
    binary: pathlib.Path, packages: pathlib.Path, others: list[pathlib.Path] | None = None
) -> list[str]:
    """The symbols of `binary` that are not there with the torch in `packages`, whose own libraries
    are looked for in `others`. A library without which the rest says nothing counts as one."""
    folders = [packages / "torch/lib", *(others or [])]
    found = subprocess.run(
        ["ldd", "-r", str(binary)],
        env=os.environ | {"LD_LIBRARY_PATH": os.pathsep.join(map(str, folders))},
        capture_output=True,
        text=True,
        check=False,
    )
    said = found.stdout + found.stderr
    missing = [name for name, where in _UNDEFINED.findall(said) if where == str(binary)]
    needed = re.findall(r"\(NEEDED\).*\[(.+)\]", pack_libraries.readelf("-d", binary))
    places = dict(re.findall(r"^\s*(\S+) => (not found|\S+)", said, re.MULTILINE))
    for name in needed:
        torchs = pack_libraries.TORCH.match(name) and not name.startswith("libgomp")
        if torchs and not places.get(name, "").startswith(str(folders[0])):
            missing.append(f"{name}, which is at {places.get(name)}")
    return missing


def check(
    wheel: pathlib.Path, minor: str, packages: pathlib.Path, others: list[pathlib.Path]
) -> list[str]:
    """What the wheel's binaries for this minor version miss in the torch in `packages`, each with
    its file's name."""
    start = f"laneway/lib/torch-{minor}/"
    with tempfile.TemporaryDirectory() as name, zipfile.ZipFile(wheel) as archive:
        names = [entry for entry in archive.namelist() if entry.startswith("laneway/lib/")]
        archive.extractall(name, names)
        ours = [pathlib.Path(name) / entry for entry in names if entry.startswith(start)]
        libraries = [pathlib.Path(name) / "laneway/lib", *others]
        return [
            f"{path.name}: {symbol}"
            for path in ours
            for symbol in unresolved(path, packages, libraries)
        ]
