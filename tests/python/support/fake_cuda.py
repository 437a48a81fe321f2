"""Runs scripts in a process that takes the fake CUDA (tests/fake_cuda) for a GPU. The script has
`fake`, the fake's controls."""

from __future__ import annotations

import pathlib

from laneway.native import bindings
from support.children import Child, check_script, run_script

# What a script on the fake begins with.
CONTROLS = """
import ctypes
fake = ctypes.CDLL("libcuda.so.1")
fake.fake_cuda_hold_stream.argtypes = fake.fake_cuda_release_stream.argtypes = [ctypes.c_void_p]
fake.fake_cuda_fail_in_stream.argtypes = [ctypes.c_void_p, ctypes.c_int]
for size in ("count", "live", "used", "pending", "notes", "complaints"):
    getattr(fake, f"fake_cuda_{size}").restype = ctypes.c_size_t

def count(name):
    return fake.fake_cuda_count(name.encode())

def live(what):
    return fake.fake_cuda_live(what.encode())

def complaints():
    text = ctypes.create_string_buffer(1 << 20)
    fake.fake_cuda_complaints(text, len(text))
    return text.value.decode().splitlines()
"""


def library() -> pathlib.Path:
    """The fake's libcuda.so.1, in the build that the embedded library is from."""
    build = bindings.library_path().resolve().parents[1]
    path = build / "tests" / "fake_cuda" / "libcuda.so.1"
    assert path.exists(), f"{path} is not built: build its target fake_cuda"
    return path


def on_fake(*parts: str, environment: dict[str, str] | None = None) -> Child:
    """Runs the script on the fake and asserts that it ended well."""
    return check_script(CONTROLS, *parts, environment=_environment(environment))


def try_on_fake(*parts: str, environment: dict[str, str] | None = None) -> Child:
    """The same for a script that may end badly."""
    return run_script(CONTROLS, *parts, environment=_environment(environment))


def _environment(more: dict[str, str] | None) -> dict[str, str]:
    return {"LD_PRELOAD": str(library())} | (more or {})
