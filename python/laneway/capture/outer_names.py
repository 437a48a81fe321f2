"""The variables outside of functions that their code names: free variables and globals, and entries
of what these hold that the code reads directly (`args.clip`, `config["clip"]`).

The search follows functions of the user's that the code names, but no functions of libraries. It
reads byte code, so it finds what the code may read, not what one run reads.
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

_MOST_FUNCTIONS = (
    64  # more are not looked at: a bound for programs that name each other's functions
)
_LIBRARY = os.path.dirname(os.__file__) + os.sep
_LOADS = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF")
_EMPTY = object()  # no variable holds it
_STORES = ("STORE_GLOBAL", "STORE_DEREF", "DELETE_GLOBAL", "DELETE_DEREF")


@dataclasses.dataclass
class OuterNames:
    """`cells` and `globals` are the variables: (name, cell) and (name, dictionary). `entries` are
    entries of objects and dictionaries that variables hold: (words, dictionary, key)."""

    cells: list[tuple[str, types.CellType]] = dataclasses.field(default_factory=list)
    globals: list[tuple[str, dict[str, Any]]] = dataclasses.field(default_factory=list)
    entries: list[tuple[str, dict[Any, Any], Any]] = dataclasses.field(default_factory=list)

    def held(self) -> Iterable[tuple[str, Any]]:
        """The name and the object of each variable that has one."""
        for name, cell in self.cells:
            if not is_empty(cell):
                yield name, cell.cell_contents
        for name, names in self.globals:
            if name in names:
                yield name, names[name]


def outer_names(functions: Iterable[Any]) -> OuterNames:
    """The variables that the code of `functions` names."""
    found = OuterNames()
    waiting = [part for function in functions for part in _functions_in(function)]
    seen: set[int] = set()
    cells: set[int] = set()
    names_seen: set[tuple[int, str]] = set()
    while waiting and len(seen) < _MOST_FUNCTIONS:
        function = waiting.pop(0)
        if id(function) in seen:
            continue
        seen.add(id(function))
        own = dict(zip(function.__code__.co_freevars, function.__closure__ or ()))
        named = _named_in(function.__code__)
        for name, cell in own.items():
            if id(cell) not in cells:
                cells.add(id(cell))
                found.cells.append((name, cell))
        scope = {} if is_internal(function.__code__) else function.__globals__
        for name in named.globals:
            if name in scope and (id(scope), name) not in names_seen:
                names_seen.add((id(scope), name))
                found.globals.append((name, scope))
        held = {name: cell.cell_contents for name, cell in own.items() if not is_empty(cell)}
        for name in named.globals:
            if name in scope:
                held.setdefault(name, scope[name])
        _add_entries(found, named, held)
        for value in held.values():
            waiting += [f for f in _functions_in(value) if not _is_library(f.__code__)]
    return found


def named_by(function: types.FunctionType) -> Iterable[tuple[str, Any]]:
    """What the code of one function names directly: the global variables that there are, and
    attributes of modules among them. Nothing for functions of libraries."""
    if _is_library(function.__code__):
        return
    named, scope = _named_in(function.__code__), function.__globals__
    for name in named.globals:
        if name in scope:
            yield name, scope[name]
    for name, key, is_attribute in named.reads:
        holder = scope.get(name)
        is_own = isinstance(holder, types.ModuleType) and is_users(holder)
        if is_attribute and is_own and key in vars(holder):
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


@dataclasses.dataclass(frozen=True)
class _Named:
    """`globals` are names; `reads` are (name, key, is an attribute)."""

    globals: tuple[str, ...]
    reads: tuple[tuple[str, Any, bool], ...]


@functools.lru_cache(maxsize=256)
def _named_in(code: types.CodeType) -> _Named:
    names: dict[str, None] = {}
    reads: dict[tuple[str, Any, bool], None] = {}
    instructions = list(dis.get_instructions(code))
    for position, instruction in enumerate(instructions):
        if instruction.opname in (*_LOADS, *_STORES):
            if "GLOBAL" in instruction.opname or instruction.opname == "LOAD_NAME":
                names[instruction.argval] = None
            following = instructions[position + 1 : position + 3]
            if following and following[0].opname in ("LOAD_ATTR", "LOAD_METHOD"):
                reads[instruction.argval, following[0].argval, True] = None
            elif [i.opname for i in following] == ["LOAD_CONST", "BINARY_SUBSCR"]:
                reads[instruction.argval, following[0].argval, False] = None
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            inner = _named_in(constant)
            names.update(dict.fromkeys(inner.globals))
            reads.update(dict.fromkeys(inner.reads))
    return _Named(tuple(names), tuple(reads))


def _add_entries(found: OuterNames, named: _Named, held: dict[str, Any]) -> None:
    for name, key, is_attribute in named.reads:
        if name not in held:
            continue
        holder = held[name]
        if is_attribute:
            entries, words = getattr(holder, "__dict__", None), f"{name}.{key}"
        else:
            entries, words = holder, f"{name}[{key!r}]"
        is_holder = isinstance(entries, (dict, types.MappingProxyType))
        if is_holder and isinstance(key, (str, int, float, tuple)) and key in entries:
            found.entries.append((words, entries, key))


def _functions_in(value: Any) -> list[types.FunctionType]:
    """The functions that calling `value` runs, where it is a function, a method or a partial."""
    if isinstance(value, functools.partial):
        return _functions_in(value.func)
    if isinstance(value, types.MethodType):
        return _functions_in(value.__func__)
    if not isinstance(value, types.FunctionType):
        return []
    wrapped = getattr(value, "__wrapped__", None)
    return [value, *_functions_in(wrapped)]


def _is_library(code: types.CodeType) -> bool:
    return is_internal(code) or code.co_filename.startswith(_LIBRARY)
