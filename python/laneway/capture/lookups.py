"""Tells a capture of calls that look names up: getattr, hasattr, vars, dir, globals, eval, exec.

Such code may put its names together, so that no byte code has them. While a capture runs, Python's
own functions of these names tell the capture of their thread what is looked up, and do the same.
"""

from __future__ import annotations
import __future__

import builtins
import contextlib
import inspect
import sys
import threading
import types
from collections.abc import Iterator
from typing import Any, Protocol

from laneway.capture.code_names import is_installed, is_library, reads_for_others
from laneway.capture.use_names import Scope
from laneway.native.process import SharedChange

_getattr, _hasattr, _vars, _dir = getattr, hasattr, vars, dir
_setattr, _delattr = setattr, delattr
_globals, _eval, _exec = globals, eval, exec
_OF_SETATTR = 3  # its arguments
_SCOPES = ("globals", "locals")
_FUTURE = sum(getattr(__future__, name).compiler_flag for name in __future__.all_feature_names)
_capturing = threading.local()  # .listener: that of this thread's capture
# Whoever holds one of these by another name looks up what nobody is told of.
BY_NAME = (_getattr, _hasattr, _setattr, _delattr, _vars, _dir, _globals, _eval, _exec)


class Listener(Protocol):
    """Who is told."""

    def looked_up(self, of: Any, name: str) -> None:
        """The attribute `name` of `of` is looked up; it may not be there."""

    def about_to_set(self, of: Any, name: str) -> None:
        """It is about to be set or deleted."""

    def taken_whole(self, of: Any) -> None:
        """All attributes of `of` are looked at."""

    def listed(self, of: Any) -> None:
        """Their names are."""

    def evaluated(self, code: types.CodeType, scope: dict[str, Any]) -> None:
        """The code is about to run with these global variables."""

    def scope(self, of: dict[str, Any]) -> dict[str, Any]:
        """What globals() gives in the place of these."""


@contextlib.contextmanager
def told_of_lookups(listener: Listener) -> Iterator[None]:
    """Inside, the listener is told of what this thread looks up."""
    with _serving:
        around, _capturing.listener = _listener(), listener
        try:
            yield
        finally:
            _capturing.listener = around


def asking(frame: types.FrameType | None) -> types.FrameType | None:
    """The frame that asks, from the one on that was asked: behind the functions of this file."""
    while frame is not None and frame.f_code.co_filename == __file__:
        frame = frame.f_back
    return frame


def _listener() -> Any:
    return _getattr(_capturing, "listener", None)


def _told_getattr(*arguments: Any) -> Any:
    listener = _listener()
    if listener is not None and len(arguments) > 1:
        listener.looked_up(arguments[0], arguments[1])
    return _getattr(*arguments)


def _told_hasattr(*arguments: Any) -> bool:
    listener = _listener()
    if listener is not None and len(arguments) > 1:
        listener.looked_up(arguments[0], arguments[1])
    return _hasattr(*arguments)


def _told_setattr(*arguments: Any) -> None:
    listener = _listener()
    if listener is not None and len(arguments) == _OF_SETATTR:
        listener.about_to_set(arguments[0], arguments[1])
    _setattr(*arguments)


def _told_delattr(*arguments: Any) -> None:
    listener = _listener()
    if listener is not None and len(arguments) > 1:
        listener.about_to_set(arguments[0], arguments[1])
    _delattr(*arguments)


def _told_vars(*arguments: Any) -> Any:
    frame = sys._getframe(1)
    if not arguments:
        return _locals(frame)
    listener = _listener()
    by_user = not is_library(frame.f_code) or reads_for_others(frame.f_code)
    if listener is not None and by_user:
        listener.taken_whole(arguments[0])
    return _vars(*arguments)


def _told_dir(*arguments: Any) -> Any:
    if not arguments:
        return sorted(_locals(sys._getframe(1)))
    listener = _listener()
    if listener is not None and not is_library(sys._getframe(1).f_code):
        listener.listed(arguments[0])
    return _dir(*arguments)


def _told_globals() -> dict[str, Any]:
    frame, listener = sys._getframe(1), _listener()
    if listener is None or is_installed(frame.f_code):
        return frame.f_globals
    return listener.scope(frame.f_globals)


def _told_eval(source: Any, *arguments: Any, **named: Any) -> Any:
    frame = sys._getframe(1)
    scopes = _scopes(frame, arguments, named)
    _tell_of_code(frame, source, "eval", scopes[0])
    return _eval(_compiled(frame, source, "eval", "<string>"), *scopes)


def _told_exec(source: Any, *arguments: Any, **named: Any) -> None:
    frame = sys._getframe(1)
    closure = {"closure": named.pop("closure")} if "closure" in named else {}
    scopes = _scopes(frame, arguments, named)
    _tell_of_code(frame, source, "exec", scopes[0])
    _exec(_compiled(frame, source, "exec", "<string>"), *scopes, **closure)


def _scopes(frame: types.FrameType, arguments: tuple, named: dict[str, Any]) -> tuple[Any, Any]:
    """The variables that eval() and exec() use: by default those of whoever calls them."""
    given = dict(zip(_SCOPES, arguments)) | named
    scope, own = (s.of if isinstance(s, Scope) else s for s in map(given.get, _SCOPES))
    if scope is None:
        scope = frame.f_globals
        own = _locals(frame) if own is None else own
    return scope, scope if own is None else own


def _locals(frame: types.FrameType) -> Any:
    """What locals() gives there: since Python 3.13 a copy of a function's variables."""
    here = frame.f_locals
    is_function = frame.f_code.co_flags & inspect.CO_OPTIMIZED
    return dict(here) if is_function and not isinstance(here, dict) else here


def _compiled(frame: types.FrameType, source: Any, mode: str, file: str) -> Any:
    """Text as a call there compiles it: by what that code imports of __future__, not by what this
    file does. Whatever is no text is as it was."""
    if not isinstance(source, (str, bytes)):
        return source
    if mode == "eval":
        source = source.lstrip(" \t" if isinstance(source, str) else b" \t")
    return compile(source, file, mode, frame.f_code.co_flags & _FUTURE, dont_inherit=True)


def _tell_of_code(frame: types.FrameType, source: Any, mode: str, scope: Any) -> None:
    listener = _listener()
    if listener is None or is_installed(frame.f_code):
        return
    try:
        code = _compiled(frame, source, mode, "<eval>")
    except Exception:  # the call itself raises it
        return
    if isinstance(code, types.CodeType):
        listener.evaluated(code, scope)


_TOLD = {
    "getattr": (_getattr, _told_getattr),
    "hasattr": (_hasattr, _told_hasattr),
    "setattr": (_setattr, _told_setattr),
    "delattr": (_delattr, _told_delattr),
    "vars": (_vars, _told_vars),
    "dir": (_dir, _told_dir),
    "globals": (_globals, _told_globals),
    "eval": (_eval, _told_eval),
    "exec": (_exec, _told_exec),
}


# Others may pickle one meanwhile, by its name: a bound method, or an enum's member, has getattr.
for _name, (_, _told) in _TOLD.items():
    _told.__module__, _told.__name__, _told.__qualname__ = "builtins", _name, _name


def _serve() -> None:
    for name, (_, told) in _TOLD.items():
        _setattr(builtins, name, told)


def _leave() -> None:
    for name, (own, _) in _TOLD.items():
        _setattr(builtins, name, own)


_serving = SharedChange(_serve, _leave)
