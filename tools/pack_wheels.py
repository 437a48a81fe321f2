"""Python packages that a machine with nothing but torch may lack, as folders to put on its path.

Wheels are fetched by pip as it is configured here, for the Python of that machine, and kept in
.cache/, so that a second pack needs no network. Standard library only."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import re
import subprocess
import sys
import zipfile

PYTHON = "3.12"
# pip takes a wheel only for a platform that it is told of; these are what the packages below have.
PLATFORMS = (
    "manylinux_2_28_x86_64",
    "manylinux_2_27_x86_64",
    "manylinux_2_24_x86_64",
    "manylinux_2_17_x86_64",
    "manylinux2014_x86_64",
)


@dataclasses.dataclass(frozen=True)
class Package:
    name: str  # as requirements.txt pins it
    module: str  # what is imported: where the machine has it, that one is used
    why: str


PACKAGES = (
    Package("cffi", "cffi", "the package's way to its library"),
    Package("pycparser", "pycparser", "cffi needs it"),
    Package("numpy", "numpy", "statistics of the benches"),
    Package("torchvision", "torchvision", "resnet18 of the benches"),
    Package("pillow", "PIL", "torchvision needs it"),
    Package("pytest", "pytest", "the tests on the device"),
    Package("pluggy", "pluggy", "pytest needs it"),
    Package("iniconfig", "iniconfig", "pytest needs it"),
    Package("packaging", "packaging", "pytest needs it"),
    Package("Pygments", "pygments", "pytest needs it"),
)
# Of no use there: a package's own tests, headers, and what links against it.
NOT_UNPACKED = re.compile(r"(^|/)(tests?|include|examples?|datasets)/|\.(pyi|a|lib|h|hpp|pxd)$")
# torchvision/datasets is imported with the package itself; pytest's own code lies in _pytest.
KEPT = re.compile(r"^(torchvision/|_pytest/|pytest/)")


class WheelMissing(Exception):
    """pip could not bring a wheel; the text is its reason."""


def pinned(requirements: pathlib.Path) -> dict[str, str]:
    """The exact versions of requirements.txt, by lower-case name."""
    lines = re.findall(r"^([A-Za-z0-9_.-]+)==(\S+)", requirements.read_text(), re.MULTILINE)
    return {name.lower(): version for name, version in lines}


def installed(python: pathlib.Path) -> dict[str, str]:
    """The versions in the environment of `python`, by lower-case name. A build of torchvision for
    one device ("+cu132") is the release on PyPI."""
    command = [str(python), "-m", "pip", "list", "--disable-pip-version-check", "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = {row["name"].lower(): row["version"] for row in json.loads(done.stdout)}
    return {name: version.partition("+")[0] for name, version in found.items()}


def fetch(package: Package, version: str, cache: pathlib.Path) -> pathlib.Path:
    """The wheel's file in `cache`, downloaded unless it is there. Raises WheelMissing."""
    cache.mkdir(parents=True, exist_ok=True)
    found = _cached(package, version, cache)
    if found is not None:
        return found
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    command += ["--no-deps", "--only-binary=:all:", "--implementation", "cp"]
    command += ["--python-version", PYTHON, "--dest", str(cache)]
    for platform in PLATFORMS:
        command += ["--platform", platform]
    done = subprocess.run(
        [*command, f"{package.name}=={version}"], capture_output=True, text=True, check=False
    )
    found = _cached(package, version, cache)
    if done.returncode != 0 or found is None:
        reason = done.stderr.strip().splitlines()[-1:] or ["pip said nothing"]
        raise WheelMissing(f"no wheel of {package.name} {version} for Python {PYTHON}: {reason[0]}")
    return found


def unpack(wheel: pathlib.Path, folder: pathlib.Path) -> None:
    """The wheel's files under `folder`, less what is of no use where the pack goes."""
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if KEPT.match(name) or not NOT_UNPACKED.search(name):
                archive.extract(name, folder)


def _cached(package: Package, version: str, cache: pathlib.Path) -> pathlib.Path | None:
    stem = f"{package.name.lower()}-{version}-"
    return next((p for p in sorted(cache.glob("*.whl")) if p.name.lower().startswith(stem)), None)
