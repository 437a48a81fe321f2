"""What a step does beside its objects: prints, log records, files, programs, the clock; and beside
operators (tensor_memory.py).

A graph does none of it again. What the user's code does there is refused, also where the caller
ignores exceptions, as logging does; what it reads of files is compared before each call. What torch
and installed packages do there is theirs. outside_calls.py sees it.
"""

from __future__ import annotations

import contextlib
import datetime
import io
import logging
import os
import stat
import sys
import time
import types
from collections.abc import Callable, Iterator, Set
from typing import Any, NoReturn, Protocol

from laneway.capture import outside_calls
from laneway.capture.code_names import is_installed
from laneway.capture.outside_calls import CLOCKS, shown, status
from laneway.capture.tensor_memory import TensorMemory
from laneway.capture.uses import Place
from laneway.capture.watcher import Watcher
from laneway.errors import CaptureError

# A larger file is not read before each call: one of this size takes some 20 us.
MOST_FILE_BYTES = 1 << 16
_open, _print = open, print
# The user's code calls C code by these names, with nothing in between that could tell.
_BY_C = frozenset({"now", "utcnow", "today", "write", "writelines"})
_LEADS_THERE = _BY_C | {"stdout", "stderr"}


class Noting(Protocol):
    """Who raises refusals: recorder.Recorder."""

    def noted(self, message: str, remedy: str, source: str | None = None) -> CaptureError:
        """The error for what the message says, which is raised in any case."""


class Outside:
    """One per run of a step. Without a recorder nothing is seen: an eager run may do all of it."""

    def __init__(self, recorder: Noting | None, watch: Watcher) -> None:
        self._recorder, self._watch = recorder, watch
        self._memory = TensorMemory(recorder, watch)
        self._before: Any = None  # whoever looked at calls before
        self._looks_closely = False

    @contextlib.contextmanager
    def seen(self) -> Iterator[None]:
        """Inside, what this thread does is seen."""
        with (
            outside_calls.seen_by(None if self._recorder is None else self),
            self._memory.seen(),
        ):
            try:
                yield
            finally:
                if self._looks_closely:
                    sys.setprofile(self._before)
                self._recorder = None  # else the collector would have to look for it (survivors.py)

    def prints(self, frame: types.FrameType, values: tuple[Any, ...] = ()) -> NoReturn:
        """The step shows these values."""
        for value in values:  # what the step computes says so itself
            str(value)
        self._refuse("prints", "print it outside of the step, which can return it", frame)

    def logs(self, record: logging.LogRecord, frame: types.FrameType) -> NoReturn:
        """The step makes this record."""
        for value in (record.msg, *(record.args if isinstance(record.args, tuple) else ())):
            str(value)
        remedy = "log it outside of the step, which can return it"
        self._refuse(f"logs to {record.name!r}", remedy, frame)

    def warns(self, message: Any, frame: types.FrameType) -> NoReturn:
        """The step shows this warning, and would in each iteration."""
        remedy = "warn outside of the step, or let warnings be shown once for each line"
        self._refuse(f"warns {shown(str(message))}, by a filter 'always'", remedy, frame)

    def writes(self, does: str, frame: types.FrameType) -> NoReturn:
        """The step does what others than its process see."""
        self._refuse(does, "do that outside of the step, which can return what it computes", frame)

    def asks_clock(self, words: str, frame: types.FrameType) -> NoReturn:
        """The step asks what time it is."""
        remedy = "take the time outside of the step, and give the step the number as an argument"
        self._refuse(f"asks the clock, {words}", remedy, frame)

    def opens(self, path: Any, frame: types.FrameType) -> None:
        """The step opens this file to read it."""
        words, found = f"the file {shown(path)}", status(path)
        if found is not None and not (stat.S_ISREG(found[0]) and found[1] <= MOST_FILE_BYTES):
            self._raise(
                f"the step reads {words}, of {found[1]:,} bytes: a call compares files of at most "
                f"{MOST_FILE_BYTES:,} bytes with what the step was captured with",
                "read it outside of the step, and give the step what it has as an argument or in a "
                "buffer",
                frame,
            )
        self.asks(path, _content, words)

    def asks(self, path: Any, look: Callable[[Any], Any], words: str) -> None:
        """The step reads what look(path) gives."""
        with outside_calls.seen_by(None):
            self._watch.look(path, Place(None, "root", 0, words), look, words)
        self._watch.alone = "it reads files"

    def comes_upon(self, value: Any) -> None:
        """The step may call this function of C code, by a name of its own."""
        if value is _print or (getattr(value, "__self__", None) is time and _is_clock(value)):
            self._look_closely()

    def names(self, names: Set[tuple[str, str]]) -> None:
        """The user's code reads attributes of these names: the second of each pair."""
        if any(name in _LEADS_THERE for _, name in names):
            self._look_closely()

    def _look_closely(self) -> None:
        """From here on calls of C functions are seen: a capture takes half as long again."""
        if not self._looks_closely and self._recorder is not None:
            self._looks_closely, self._before = True, sys.getprofile()
            sys.setprofile(self._look)

    def _look(self, frame: types.FrameType, event: str, of: Any) -> None:
        if callable(self._before):
            self._before(frame, event, of)
        if event != "c_call":
            return
        holder, name = getattr(of, "__self__", None), of.__name__
        if holder is time and _is_clock(of) and not is_installed(frame.f_code):
            self.asks_clock(f"{name}()", frame)
        elif of is _print and not is_installed(frame.f_code):
            self.prints(frame)
        elif name not in _BY_C or (user := outside_calls.user_from(frame)) is None:
            return
        elif isinstance(holder, type) and issubclass(holder, datetime.date):
            self.asks_clock(f"{holder.__name__}.{name}()", user)
        elif isinstance(holder, (io.TextIOWrapper, io.BufferedWriter)):
            self.writes(
                f"writes to the file {shown(getattr(holder, 'name', type(holder).__name__))}", user
            )

    def _refuse(self, does: str, remedy: str, frame: types.FrameType) -> NoReturn:
        self._raise(f"the step {does}, which would happen at capture only", remedy, frame)

    def _raise(self, message: str, remedy: str, frame: types.FrameType) -> NoReturn:
        assert self._recorder is not None, "nothing is seen without it"
        file = os.path.basename(frame.f_code.co_filename)
        line = f"{file}:{frame.f_lineno} in {frame.f_code.co_name}"
        raise self._recorder.noted(message, remedy, line)


def _is_clock(function: Any) -> bool:
    return CLOCKS.get(function.__name__) == 1


def _content(path: Any) -> Any:
    try:
        with _open(path, "rb") as file:
            return file.read(MOST_FILE_BYTES + 1)
    except OSError:
        return None
