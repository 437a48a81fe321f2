"""What the byte code of functions names: global variables, and attributes with what they are of.

Python's own objects tell of each read of an attribute while they are watched (use_watch.py). Global
variables, variables of outer functions, and attributes of classes, Python modules and namespaces do
not: of those, the code says what it may read.
"""

from __future__ import annotations

import dataclasses
import dis
import functools
import os
import types
from collections.abc import Iterable
from typing import Any

from laneway.capture.user_lines import is_internal, is_internal_file

_LIBRARY = os.path.dirname(os.__file__) + os.sep
_EMPTY = object()  # no variable holds it
_OF_ANYTHING = ""  # stands for an object that the code does not name
_BY_TEXT = ("getattr", "hasattr", "setattr", "attrgetter")


@dataclasses.dataclass(frozen=True)
class Named:
    """`globals` and `stored` are names of global variables (of outer functions too, in `stored`);
    `attributes` are pairs of what an attribute is of ("" when that has no name) and its name."""

    globals: tuple[str, ...]
    stored: frozenset[str]
    attributes: frozenset[tuple[str, str]]
    lines: dict[str, int]


@functools.lru_cache(maxsize=4096)
def named_in(code: types.CodeType) -> Named:
    """What the code names, and the code of the functions that it makes."""
    names: dict[str, None] = {}
    stored: set[str] = set()
    attributes: set[tuple[str, str]] = set()
    lines: dict[str, int] = {}
    before, line = _OF_ANYTHING, code.co_firstlineno
    for instruction in dis.get_instructions(code):
        kind, name = instruction.opname, instruction.argval
        line = getattr(getattr(instruction, "positions", None), "lineno", None) or line
        if kind in ("CACHE", "EXTENDED_ARG", "PRECALL", "NOP", "PUSH_NULL"):
            continue
        if kind.startswith(("LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR")):
            attributes.add((before, name))
            before = name
            continue
        before = _OF_ANYTHING
        if kind.startswith(("LOAD_GLOBAL", "LOAD_NAME")):
            names[name] = None
            before = name
        elif kind.startswith(("LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT")):
            before = name
        elif kind.startswith(("STORE_GLOBAL", "DELETE_GLOBAL", "STORE_DEREF", "DELETE_DEREF")):
            names.update({name: None} if "GLOBAL" in kind else {})
            stored.add(name)
        lines.setdefault(before, line)
    inner = [named_in(c) for c in code.co_consts if isinstance(c, types.CodeType)]
    for other in inner:
        names.update(dict.fromkeys(other.globals))
        stored |= other.stored
        attributes |= other.attributes
        lines = other.lines | lines
    if any(name in names for name in _BY_TEXT):
        texts = (c for c in code.co_consts if isinstance(c, str) and c.isidentifier())
        attributes |= {(_OF_ANYTHING, text) for text in texts}
    return Named(tuple(names), frozenset(stored), frozenset(attributes), lines)


def named_by(function: types.FunctionType) -> Iterable[tuple[str, Any]]:
    """What the code of one function names directly: the global variables that there are, and
    attributes of modules among them. Nothing for functions of libraries."""
    if is_library(function.__code__):
        return
    named, scope = named_in(function.__code__), function.__globals__
    for name in named.globals:
        if name in scope:
            yield name, scope[name]
    for name, key in named.attributes:
        holder = scope.get(name) if name in named.globals else None
        if isinstance(holder, types.ModuleType) and is_users(holder) and key in vars(holder):
            yield f"{name}.{key}", vars(holder)[key]


def is_users(module: types.ModuleType) -> bool:
    """Whether a Python module is no library's."""
    file = getattr(module, "__file__", None)
    if file is None:
        return module.__name__ == "__main__"
    return not (is_internal_file(file) or file.startswith(_LIBRARY) or "-packages" in file)


def is_empty(cell: types.CellType) -> bool:
    """Whether the variable has no value (yet, or any more)."""
    try:
        return cell.cell_contents is _EMPTY
    except ValueError:
        return True


def is_library(code: types.CodeType) -> bool:
    """Whether the code is torch's, laneway's or of Python's own library."""
    return is_internal(code) or code.co_filename.startswith(_LIBRARY)


def is_installed(code: types.CodeType) -> bool:
    """The same, or of an installed package."""
    return is_library(code) or "-packages" in code.co_filename
