"""Shown progress: what takes longer than a second says on the terminal what it is and for how long
it has gone on, so that it does not look like a hang. Nothing is written where standard error is no
terminal, or where LANEWAY_PROGRESS is 0; and nothing is left on the terminal."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Iterator
from typing import TextIO

from laneway.printable import printable

FIRST_S = 1.0
EVERY_S = 0.5
_CLEAR = "\r\x1b[K"

_showing = threading.Lock()  # held by who shows: the outermost, of one thread


def _forget() -> None:
    global _showing
    _showing = threading.Lock()


os.register_at_fork(after_in_child=_forget)  # nobody shows anything there


@contextlib.contextmanager
def shown(what: str) -> Iterator[None]:
    """Shows `what` ("capturing a step of GPT") for as long as the block takes."""
    stream, showing = sys.stderr, _showing
    if not _wanted(stream) or not showing.acquire(blocking=False):
        yield
        return
    over = threading.Event()
    line = threading.Thread(
        target=_show, args=(what, stream, over), name="laneway-progress", daemon=True
    )
    try:
        line.start()
        yield
    finally:
        over.set()
        line.join()
        showing.release()


def _wanted(stream: TextIO | None) -> bool:
    if os.environ.get("LANEWAY_PROGRESS") == "0" or os.environ.get("TERM") == "dumb":
        return False
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # closed
        return False


def _show(what: str, stream: TextIO, over: threading.Event) -> None:
    begin, told = time.monotonic(), printable(what)
    if over.wait(FIRST_S):
        return
    with contextlib.suppress(OSError, ValueError):  # the terminal went away, or was closed
        while True:
            stream.write(f"{_CLEAR}laneway: {told}: {time.monotonic() - begin:.0f} s")
            stream.flush()
            if over.wait(EVERY_S):
                break
        stream.write(_CLEAR)
        stream.flush()
