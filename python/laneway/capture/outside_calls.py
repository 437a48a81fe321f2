"""Tells a capture of what its thread does beside objects: print(), open(), the clock and the like.

While a capture runs, these functions of Python's own library tell the capture of their thread
(outside.py), and do the same.
"""

from __future__ import annotations

import builtins
import contextlib
import inspect
import io
import linecache
import logging
import os
import subprocess
import sys
import threading
import time
import tokenize
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NoReturn, Protocol

from laneway.capture.code_names import is_installed, is_library
from laneway.capture.user_lines import is_internal
from laneway.native.process import SharedChange

_capturing = threading.local()  # .listener: that of this thread's capture
# Whoever shows a line of source code reads its file; a log record has its time.
_FOR_THEMSELVES = {
    "open": frozenset({linecache.__file__, inspect.__file__, tokenize.__file__}),
    "stat": frozenset({linecache.__file__, inspect.__file__}),
    "clock": frozenset({logging.__file__, threading.__file__}),
}
_STREAMS = ("stdout", "stderr", "__stdout__", "__stderr__")
# How many arguments a function of the module time needs not to ask the clock.
CLOCKS = {
    **{f"{clock}{ns}": 1 for clock in ("time", "monotonic", "perf_counter") for ns in ("", "_ns")},
    **{f"{clock}{ns}": 1 for clock in ("process_time", "thread_time") for ns in ("", "_ns")},
    **{"localtime": 1, "gmtime": 1, "ctime": 1, "asctime": 1, "strftime": 2},
}
_WRITING = ("remove", "unlink", "rename", "replace", "mkdir", "rmdir", "link", "symlink", "utime")
_ASKING = ("exists", "isfile", "isdir", "getsize", "getmtime")
_print, _open, _system, _handle = print, open, os.system, logging.Logger.handle
_start = subprocess.Popen.__init__
_show: Callable[[Any], None] = warnings._showwarnmsg  # type: ignore[attr-defined]


class Listener(Protocol):
    """Who is told: outside.Outside. `frame` is the user's."""

    def prints(self, frame: types.FrameType, values: tuple[Any, ...]) -> NoReturn: ...

    def logs(self, record: logging.LogRecord, frame: types.FrameType) -> NoReturn: ...

    def warns(self, message: Any, frame: types.FrameType) -> NoReturn: ...

    def writes(self, does: str, frame: types.FrameType) -> NoReturn: ...

    def asks_clock(self, words: str, frame: types.FrameType) -> NoReturn: ...

    def opens(self, path: Any, frame: types.FrameType) -> None: ...

    def asks(self, path: Any, look: Callable[[Any], Any], words: str) -> None: ...


@contextlib.contextmanager
def seen_by(listener: Listener | None) -> Iterator[None]:
    """Inside, the listener is told of what this thread does; None: nobody is."""
    with _serving:
        around, _capturing.listener = getattr(_capturing, "listener", None), listener
        if around is None:
            _capturing.shows = _shows_warnings()
        try:
            yield
        finally:
            _capturing.listener = around


def shown(value: Any) -> str:
    """A path or a command, for a message."""
    text = repr(os.fspath(value)) if isinstance(value, os.PathLike) else repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _asking(what: str = "") -> tuple[Listener | None, Any]:
    """This thread's capture, and the frame behind Python's own library that asks."""
    listener = getattr(_capturing, "listener", None)
    frame: types.FrameType | None = sys._getframe(2)
    passing = _FOR_THEMSELVES.get(what, frozenset())
    while listener is not None and frame is not None and _is_between(frame.f_code):
        if frame.f_code.co_filename in passing:
            return None, None
        frame = frame.f_back
    return (None, None) if frame is None else (listener, frame)


def user_from(frame: types.FrameType | None) -> types.FrameType | None:
    """The frame of the user's that asks through Python's own library, from this frame on."""
    while frame is not None and _is_between(frame.f_code):
        frame = frame.f_back
    return None if frame is None or is_installed(frame.f_code) else frame


def _is_between(code: types.CodeType) -> bool:
    name = code.co_filename
    if name.startswith("<frozen "):
        return "importlib" not in name
    of_python = is_library(code) and not is_internal(code)
    return of_python or name in (__file__, logging.__file__, contextlib.__file__)


def _of_user(asking: tuple[Listener | None, Any]) -> tuple[Listener | None, Any]:
    """The same, where the frame is the user's; else none."""
    listener, frame = asking
    is_users = listener is not None and not is_installed(frame.f_code)
    return asking if is_users else (None, None)


def _told_print(*values: Any, **named: Any) -> None:
    listener, frame = _of_user(_asking())
    if listener is not None and _is_shown(named.get("file")):
        listener.prints(frame, values)
    _print(*values, **named)


def _is_shown(file: Any) -> bool:
    is_stream = any(file is getattr(sys, name, None) for name in _STREAMS)
    return file is None or is_stream or isinstance(file, io.TextIOWrapper)


def _told_handle(logger: logging.Logger, record: logging.LogRecord) -> None:
    listener, frame = _of_user(_asking())
    if listener is not None:
        listener.logs(record, frame)
    _handle(logger, record)


def _told_show(warning: Any) -> None:
    """A warning is shown. One that is shown once for its line is shown at capture, as in eager."""
    listener, frame = _of_user(_asking())
    is_recorded_inside = _shows_warnings() is not getattr(_capturing, "shows", None)
    if listener is not None and not is_recorded_inside and _is_shown_always(warning, frame):
        listener.warns(warning.message, frame)
    _show(warning)


def _shows_warnings() -> Any:
    """What shows warnings or records them."""
    return getattr(warnings, "_showwarnmsg_impl", None)


def _is_shown_always(warning: Any, frame: types.FrameType | None) -> bool:
    """Whether the line would show it again."""
    while frame is not None and frame.f_code.co_filename != warning.filename:
        frame = frame.f_back
    module = "" if frame is None else str(frame.f_globals.get("__name__", ""))
    for action, text, category, name, line in getattr(warnings, "_get_filters", _filters)():
        if (
            (text is None or text.match(str(warning.message)))
            and issubclass(warning.category, category)
            and (name is None or name.match(module))
            and line in (0, warning.lineno)
        ):
            return action in ("always", "all")
    return False


def _filters() -> Any:
    return warnings.filters


def _told_open(file: Any, mode: str = "r", *given: Any, **named: Any) -> Any:
    listener, frame = _asking("open")
    if listener is not None and isinstance(mode, str) and _is_path(file):
        if set(mode).isdisjoint("wax+"):
            if not is_installed(frame.f_code):
                listener.opens(file, frame)
        elif not is_internal(frame.f_code) and file != os.devnull:
            listener.writes(f"opens the file {shown(file)} to write to it", frame)
    return _open(file, mode, *given, **named)


def _is_path(path: Any) -> bool:
    return isinstance(path, (str, bytes, os.PathLike))


def _told_writing(name: str, own: Callable[..., Any]) -> Callable[..., Any]:
    def told(*given: Any, **named: Any) -> Any:
        listener, frame = _of_user(_asking())
        if listener is not None:
            listener.writes(f"changes files, os.{name}({', '.join(map(shown, given))})", frame)
        return own(*given, **named)

    return told


def _told_asking(of: Any, name: str, own: Callable[..., Any], look: Any) -> Callable[..., Any]:
    words = f"os.path.{name}" if of is os.path else f"{of.__name__}.{name}"

    def told(path: Any = ".", *given: Any, **named: Any) -> Any:
        listener, _ = _of_user(_asking("stat"))
        if listener is None or not _is_path(path):
            return own(path, *given, **named)
        listener.asks(path, look or _quiet(own), f"{words}({shown(path)})")
        with seen_by(None):
            return own(path, *given, **named)

    return told


def _quiet(own: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def look(path: Any) -> Any:
        try:
            return own(path)
        except OSError:
            return None

    return look


def _told_clock(name: str, own: Callable[..., Any]) -> Callable[..., Any]:
    def told(*given: Any) -> Any:
        if len(given) < CLOCKS[name]:
            listener, frame = _of_user(_asking("clock"))
            if listener is not None:
                listener.asks_clock(f"time.{name}()", frame)
        return own(*given)

    return told


def _told_system(command: Any) -> int:
    _program(command)
    return _system(command)


def _told_start(program: Any, *given: Any, **named: Any) -> None:
    _program(given[0] if given else named.get("args"))
    _start(program, *given, **named)


def _program(command: Any) -> None:
    listener, frame = _of_user(_asking())
    if listener is not None:
        listener.writes(f"starts a program, {shown(command)}", frame)


def status(path: Any) -> Any:
    """What a file is, its size and when it was written; None where there is none."""
    try:
        found = _stat(path)
    except OSError:
        return None
    return found.st_mode, found.st_size, found.st_mtime_ns


def names_in(path: Any) -> Any:
    """What is in a folder."""
    try:
        return tuple(sorted(_listdir(path)))
    except OSError:
        return None


_stat, _listdir = os.stat, os.listdir
_OF_OS = (*_WRITING, "stat", "listdir")
_OWN = {
    **{(of, name): getattr(of, name) for of in (os.path,) for name in _ASKING},
    **{(of, name): getattr(of, name) for of in (os,) for name in _OF_OS},
    **{(of, name): getattr(of, name) for of in (time,) for name in CLOCKS},
    (builtins, "print"): _print,
    (builtins, "open"): _open,
    (io, "open"): _open,
    (logging.Logger, "handle"): _handle,
    (os, "system"): _system,
    (warnings, "_showwarnmsg"): _show,
    (subprocess.Popen, "__init__"): _start,
}
_LOOKS = {"stat": status, "listdir": names_in}
_TOLD: dict[tuple[Any, str], Any] = {
    (builtins, "print"): _told_print,
    (builtins, "open"): _told_open,
    (io, "open"): _told_open,
    (logging.Logger, "handle"): _told_handle,
    (os, "system"): _told_system,
    (warnings, "_showwarnmsg"): _told_show,
    (subprocess.Popen, "__init__"): _told_start,
}
for _of, _name in set(_OWN) - set(_TOLD):
    _own = _OWN[_of, _name]
    if _of is time:
        _TOLD[_of, _name] = _told_clock(_name, _own)
    elif _name in _WRITING:
        _TOLD[_of, _name] = _told_writing(_name, _own)
    else:
        _TOLD[_of, _name] = _told_asking(_of, _name, _own, _LOOKS.get(_name))
for _key, _told in _TOLD.items():
    # Others may pickle one meanwhile, by its name, or ask what it can.
    _told.__module__ = getattr(_OWN[_key], "__module__", _key[0].__name__)
    _told.__name__, _told.__qualname__ = _key[1], getattr(_OWN[_key], "__qualname__", _key[1])
    for _able in (os.supports_fd, os.supports_dir_fd, os.supports_follow_symlinks):
        if _OWN[_key] in _able:
            _able.add(_told)


def _serve() -> None:
    """What others have put in the place of such a function stays, and is not seen."""
    for (of, name), own in _OWN.items():
        if getattr(of, name) is own:
            setattr(of, name, _TOLD[of, name])


def _leave() -> None:
    for (of, name), told in _TOLD.items():
        if getattr(of, name) is told:
            setattr(of, name, _OWN[of, name])


_serving = SharedChange(_serve, _leave)
