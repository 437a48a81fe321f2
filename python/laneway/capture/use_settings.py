"""What code takes of Python modules that are not the user's: settings, and functions that somebody
may put others in the place of.

Python modules tell nobody of what is read of them, and torch's and installed packages' are not
looked into (use_names.py). By the code of a function they are found from its variables on:
`F.relu`, `torch.nn.functional.relu`.
"""

from __future__ import annotations

import logging
import os
import sys
import types
from collections.abc import Iterator
from typing import Any

import torch

from laneway.capture.byte_code import OF_ANYTHING
from laneway.capture.code_names import Named, is_empty, is_installed, is_users
from laneway.capture.user_lines import is_internal, is_own
from laneway.capture.uses import PLAIN, Place
from laneway.capture.watcher import Watcher
from laneway.operators import number_forms

LEFT_ALONE = frozenset({"torch", "laneway", "builtins", "numpy", "cffi"})
_SETTINGS = (*PLAIN[:-1], list, logging.Logger)
# Whose functions call others of torch's by the names of Python modules.
_LAYERS = os.path.join(os.path.dirname(torch.__file__), "nn", "modules") + os.sep


def note(watch: Watcher, named: Named, function: types.FunctionType, place: Place) -> None:
    """The function may run in the step. Of a package's and of torch's layers only the functions of
    torch that it calls are noted."""
    code = function.__code__
    is_of_torch = is_internal(code)
    if is_of_torch and not code.co_filename.startswith(_LAYERS):
        return
    is_of_user = not is_installed(code)
    for of, at, key in _taken(named, function, place):
        value, top = vars(of)[key], of.__name__.partition(".")[0]
        if callable(value):
            is_torchs = top == "torch" and not isinstance(value, type)
            if is_torchs or (is_of_user and top not in sys.stdlib_module_names):
                _function(watch, vars(of), at, key, value)
        elif is_of_user and top not in LEFT_ALONE and isinstance(value, _SETTINGS):
            watch.entry(at, vars(of), key)


def _function(watch: Watcher, holder: dict[str, Any], at: Place, key: str, value: Any) -> None:
    words = at.attribute(key).words
    if number_forms.is_replaced(holder, key):  # while any thread captures
        watch.guard("look", at, holder, _Own(key), _Own(key)(holder), words, key)
        return
    if is_own(value):  # the like, for a target
        return
    code, made_by = getattr(value, "__code__", None), type(value).__module__.partition(".")[0]
    if not is_installed(code) if code is not None else made_by not in LEFT_ALONE:
        watch.entry(at, holder, key)  # what the user has put there may read more
    else:
        watch.guard("entry", at, holder, key, value, words)


class _Own:
    """What is there while nothing is captured."""

    def __init__(self, key: str) -> None:
        self.key = key

    def __call__(self, holder: dict[str, Any]) -> Any:
        return number_forms.own(holder, self.key)


def _taken(
    named: Named, function: types.FunctionType, place: Place
) -> Iterator[tuple[types.ModuleType, Place, str]]:
    """The attributes of Python modules that the code names: the module, the place of its
    dictionary, the name."""
    names: dict[str, list[str]] = {}
    for of, key in sorted(named.attributes):
        names.setdefault(of, []).append(key)
    waiting = [*_modules(named, function, place)]
    seen: set[tuple[str, int]] = set()
    while waiting:
        name, of, where = waiting.pop()
        if type(of) is not types.ModuleType or is_users(of) or (name, id(of)) in seen:
            continue
        seen.add((name, id(of)))
        entries = where.then("vars")
        for key in names.get(name, ()):
            if type(vars(of).get(key)) is types.ModuleType:
                waiting.append((key, vars(of)[key], entries.attribute(key)))
            elif key in vars(of):
                yield of, entries, key


def _modules(
    named: Named, function: types.FunctionType, place: Place
) -> Iterator[tuple[str, Any, Place]]:
    """What the code may take a Python module from: its variables, by their names, and what it
    imports itself, by a name that is not known."""
    scope, at = function.__globals__, place.then("own", "__globals__", "")
    for name in sorted(named.globals):
        yield name, scope.get(name), at.attribute(name)
    cells = zip(function.__code__.co_freevars, function.__closure__ or ())
    for number, (name, cell) in enumerate(cells):
        if not is_empty(cell):
            yield name, cell.cell_contents, place.then("cell", number, name).then("content")
    for name, dots in sorted(named.imports):
        if dots == 0 and name in sys.modules:
            where = Place(None, "modules", None, "").then("entry", name, name)
            yield OF_ANYTHING, sys.modules[name], where
            yield name.rpartition(".")[2], sys.modules[name], where
