"""A second Linux user, in the process of the first one."""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
from collections.abc import Iterator

NOBODY = 65534
_SETRESUID = {"x86_64": 117, "aarch64": 147}.get(platform.machine())
_LIBC = ctypes.CDLL(None, use_errno=True)


def can_be_another() -> bool:
    return os.geteuid() == 0 and _SETRESUID is not None


@contextlib.contextmanager
def as_user(uid: int) -> Iterator[None]:
    """The calling thread, and no other, is that user: who connects meanwhile is taken for them.
    The kernel's own call, as the library's would change every thread."""

    def become(user: int) -> None:
        nothing = ctypes.c_long(-1)
        done = _LIBC.syscall(ctypes.c_long(_SETRESUID), nothing, ctypes.c_long(user), nothing)
        assert done == 0, os.strerror(ctypes.get_errno())

    own = os.geteuid()
    become(uid)
    try:
        yield
    finally:
        become(own)
