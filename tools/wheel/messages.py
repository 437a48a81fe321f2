"""The libzmq that our wheel brings: the one in PyPI's wheel of pyzmq, pinned by version and bytes.
It has CURVE, by libsodium beside it, and needs nothing else; Debian's comes with ten libraries for
GSSAPI, PGM and NORM, which nobody here uses. Both are packed as they are, with their licences."""

from __future__ import annotations

import hashlib
import importlib.util
import pathlib
import platform
import sys

REQUIREMENT = "pyzmq==27.3.0"
# The same files in its wheels for every Python.
SHA256 = {
    "libzmq-2f02442c.so.5.2.5": "1665f84c654a8e7c1e8df85a7dd65c7a12e686b9f4181424da19ad5bc80e5e88",
    "libsodium-6c8f8377.so.26.4.0": (
        "1a6422f29c9c90e3910758527e366d762b792e30557abe7870f5594b3e3c62e5"
    ),
}
LICENCES = {"libzmq": "LICENSE.zeromq.txt", "libsodium": "LICENSE.libsodium.txt"}
SOURCE = (
    "Unchanged, from the wheel of {requirement}. Its source code: "
    "https://github.com/zeromq/libzmq (MPL-2.0), https://github.com/jedisct1/libsodium (ISC).\n\n"
)


class WrongLibrary(Exception):
    """The library is not the pinned one; the text names both."""


def requirements() -> list[str]:
    """What the build needs for it. On another machine type the system's libzmq is linked."""
    return [REQUIREMENT] if platform.machine() == "x86_64" else []


def library() -> pathlib.Path | None:
    """libzmq of the pyzmq that was installed for the build; None where it is not required. Raises
    WrongLibrary."""
    if not requirements():
        return None
    found = importlib.util.find_spec("zmq")
    if found is None or found.origin is None:
        raise WrongLibrary(f"the build needs {REQUIREMENT}, which {sys.executable} does not have")
    return checked(pathlib.Path(found.origin).parents[1] / "pyzmq.libs")


def checked(folder: pathlib.Path) -> pathlib.Path:
    """libzmq in `folder`, when both libraries are the pinned ones. Raises WrongLibrary."""
    for name, digest in SHA256.items():
        path = folder / name
        found = hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else "missing"
        if found != digest:
            raise WrongLibrary(
                f"{path} has SHA-256 {found}, and {REQUIREMENT} has {digest}: install that version "
                "of pyzmq for the build, or change tools/wheel/messages.py with it"
            )
    return folder / next(iter(SHA256))


def licence_of(library: pathlib.Path) -> str | None:
    """The licence's text for a library out of the pinned wheel; None for any other."""
    kind = library.name.partition("-")[0]
    if library.name not in SHA256:
        return None
    (path,) = library.parent.parent.glob(f"pyzmq-*.dist-info/**/{LICENCES[kind]}")
    return SOURCE.format(requirement=REQUIREMENT) + path.read_text()
