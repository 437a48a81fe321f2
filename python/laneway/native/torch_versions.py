"""Which torch works with this package, and which binary is for it: read from files, before torch or
a binary is loaded.

A binary is for one minor version of torch, because its code has torch's layouts inside. To add a
minor version, add it to MINORS, and its folder torch-MINOR to lib/ beside this package. Patch
releases, and builds for other devices ("+cpu"), count as their minor version; a pre-release of one
works with what was built with it alone.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import re
import sys
from pathlib import Path

from laneway.errors import ServiceUnavailable
from laneway.native.elf_note import Damaged, note_of

MINORS = ("2.11", "2.13", "2.15")  # oldest first
REINSTALL = "install the package laneway again (pip install --force-reinstall --no-deps laneway)"

_RELEASE = re.compile(r"([0-9]+\.[0-9]+)(\.[0-9]+)*(\.post[0-9]+)?(\+.*)?")
_VERSION_LINE = re.compile(r"^__version__\s*=\s*['\"]([^'\"]*)['\"]", re.MULTILINE)
_TOO_OLD = re.compile(r"version `(GLIBC|GLIBCXX|CXXABI)_([0-9.]+)' not found")


@dataclasses.dataclass(frozen=True)
class Torch:
    """The torch that `import torch` gives. `version` is "" where it says none."""

    version: str
    folder: Path

    @property
    def minor(self) -> str:
        """ "2.11" of "2.11.0+cu130"; "" of a pre-release, and of what is no version."""
        return minor_of(self.version)


def minor_of(version: str) -> str:
    match = _RELEASE.fullmatch(version)
    return match.group(1) if match else ""


def found_torch() -> Torch | None:
    """The torch of this process: the one that is imported, or the first on sys.path. None: there is
    none."""
    loaded = sys.modules.get("torch")
    file, version = getattr(loaded, "__file__", None), getattr(loaded, "__version__", None)
    if file and version:
        return Torch(str(version), Path(file).parent)
    try:
        spec = importlib.util.find_spec("torch")
    except ValueError:  # a module that somebody put there
        return None
    if spec is None or spec.origin is None:
        return None
    folder = Path(spec.origin).parent
    return Torch(version_in(folder), folder)


def version_in(folder: Path) -> str:
    """What version.py of the torch in this folder says; "" where it says none, or is missing."""
    try:
        line = _VERSION_LINE.search((folder / "version.py").read_text())
    except (OSError, UnicodeDecodeError):
        return ""
    return line.group(1) if line else ""


def told() -> str:
    """Which torch works, and which is there; for people."""
    found = found_torch()
    return f"for torch {_range()}, and here is {found.version if found else 'none'}"


def usable_torch(library: Path | None = None) -> Torch:
    """Raises ServiceUnavailable when there is no torch that works: one sentence that says what is
    there, what works and what to install. A pre-release works with a `library` that was built with
    that very one."""
    found = found_torch()
    if found is not None and (found.minor in MINORS or _is_of_prerelease(library, found)):
        return found
    remedy = f'this Laneway works with torch {_range()}: pip install "{requirement()}"'
    if found is None:
        raise ServiceUnavailable(f"{sys.prefix} has no torch, and {remedy}")
    if not found.version:
        raise ServiceUnavailable(f"{found.folder} says no version in version.py, and {remedy}")
    kind = "" if found.minor else ", which is no released version"
    raise ServiceUnavailable(f"{found.folder} is torch {found.version}{kind}, and {remedy}")


def _is_of_prerelease(library: Path | None, found: Torch) -> bool:
    if library is None or not found.version.startswith(tuple(f"{minor}." for minor in MINORS)):
        return False
    try:
        return note_of(library, b"LANEWAY") == found.version
    except (Damaged, OSError):
        return False


def library_folder(lib: Path, minor: str) -> Path:
    """Where binaries for this minor version are: lib/torch-MINOR, or in lib itself where that has
    no such folders, as in a checkout. Raises ServiceUnavailable when only others are there."""
    folder = lib / f"torch-{minor}"
    if folder.is_dir():
        return folder
    others = sorted(path.name for path in lib.glob("torch-*"))
    if others:
        raise ServiceUnavailable(
            f"{folder} is missing, only {', '.join(others)} is there: {REINSTALL}"
        )
    return lib


def check_binary(path: Path, found: Torch, variable: str) -> None:
    """Raises ServiceUnavailable unless the embedded library, or the worker, is whole and says that
    it is for this torch. `variable` is the environment's, which can name another one."""
    if not path.exists():
        raise ServiceUnavailable(
            f"{path} is missing: {REINSTALL}, build it with ./dev build, or name one in {variable}"
        )
    try:
        built = note_of(path, b"LANEWAY")
    except (Damaged, OSError) as error:
        raise ServiceUnavailable(
            f"{path} is damaged: the file {error}: {REINSTALL}, or build it with ./dev build"
        ) from error
    if built != found.version and (built is None or minor_of(built) != found.minor):
        says = "does not say for which torch it is" if built is None else f"is for torch {built}"
        raise ServiceUnavailable(
            f"{path} {says}, and {found.folder} is torch {found.version}: name one for torch "
            f"{found.minor} in {variable}, or build it in this environment with ./dev build"
        )


def loader_words(message: str) -> str | None:
    """What the dynamic loader's message means, where the system's libraries are too old."""
    match = _TOO_OLD.search(message)
    if match is None:
        return None
    library = "glibc" if match.group(1) == "GLIBC" else "libstdc++"
    return (
        f"it needs {library} with {match.group(1)}_{match.group(2)}, and the one that this process "
        "has loaded is older: use Debian 12, Ubuntu 22.04 or a newer system"
        + ("" if library == "glibc" else ", or load no older libstdc++ before (conda has its own)")
    )


def _range() -> str:
    if len(MINORS) == 1:
        return MINORS[0]
    if not _gaps():
        return f"{MINORS[0]} to {MINORS[-1]}"
    return f"{', '.join(MINORS[:-1])} and {MINORS[-1]}"


def _gaps() -> list[str]:
    """The minor versions between the first and the last of MINORS that are none of them."""
    (major, first), (_, last) = MINORS[0].split("."), MINORS[-1].split(".")
    between = [f"{major}.{minor}" for minor in range(int(first), int(last))]
    return [minor for minor in between if minor not in MINORS]


def requirement() -> str:
    """As pip takes it, and as pyproject.toml has it."""
    major, minor = MINORS[-1].split(".")
    without = "".join(f",!={gap}.*" for gap in _gaps())
    return f"torch>={MINORS[0]},<{major}.{int(minor) + 1}{without}"
