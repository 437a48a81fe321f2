"""What the byte code of functions names: global variables, and attributes with what they are of.

Python's own objects tell of each read of an attribute while they are watched (use_watch.py). Global
variables, variables of outer functions, and attributes of classes, Python modules and namespaces do
not: of those, the code says what it may read. byte_code.py reads the code.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import os
import types
from collections.abc import Iterable, Iterator
from typing import Any

from laneway.capture.byte_code import OF_ANYTHING, arguments_of, reads_of, shown_in
from laneway.capture.user_lines import is_internal, is_internal_file

_LIBRARY = os.path.dirname(os.__file__) + os.sep
_EMPTY = object()  # no variable holds it
WHOLE = "__dict__"  # whoever names it takes all attributes
SHOWN = "__eq__"  # whoever compares a namespace or makes text of it reads all that it has
# What these make looks attributes up in C code, by the texts that they are called with.
_GETTERS = frozenset({"attrgetter", "methodcaller"})
_MISSING = frozenset({"AttributeError", "Exception"})  # whoever handles one goes on
# With these, code may name Python modules by texts.
_MODULES = frozenset({"import_module", "__import__", "modules"})


@dataclasses.dataclass(frozen=True)
class Named:
    """`globals` and `stored` are names of global variables (of outer functions too, in `stored`),
    `read` those of them that are not set alone;
    `attributes` are pairs of what an attribute is of ("" when that has no name) and its name,
    `put` names of those that it sets; `imports` are pairs of what may be a Python module's name and
    the dots before it; `finds_modules`: Python modules are found by texts, too; `goes_on`: the code
    may handle that an attribute is missing."""

    globals: tuple[str, ...]
    stored: frozenset[str]
    read: frozenset[str]
    attributes: frozenset[tuple[str, str]]
    put: frozenset[str]
    imports: frozenset[tuple[str, int]]
    finds_modules: bool
    goes_on: bool


@functools.lru_cache(maxsize=4096)
def named_in(code: types.CodeType) -> Named:
    """What the code names, and the code of the functions that it makes."""
    names: dict[str, None] = {}
    stored: set[str] = set()
    attributes: set[tuple[str, str]] = set()
    put: set[str] = set()
    loaded: set[str] = set()
    imports: set[tuple[str, int]] = set()
    finds_modules = has_pattern = False
    for read in reads_of(code):
        if read.kind == "attribute" and (read.name != WHOLE or read.local != "self"):
            attributes.add((read.of, read.name))
        elif read.kind == "set attribute":
            put.add(read.name)
        elif read.kind == "import":
            imports.add((read.name, read.of))
        if read.kind == "global":
            loaded.add(read.name)
        if read.kind in ("global", "set global"):
            names[read.name] = None
        if read.kind in ("set global", "set outer"):
            stored.add(read.name)
        has_pattern |= read.kind == "pattern"
    attributes |= {(name, SHOWN) for name in shown_in(code)}
    for texts_given in _texts_given(code):
        found = {WHOLE} if texts_given is None else texts_given
        attributes |= {(OF_ANYTHING, text) for text in found}
    for inner in [named_in(c) for c in code.co_consts if isinstance(c, types.CodeType)]:
        names.update(dict.fromkeys(inner.globals))
        stored |= inner.stored
        loaded |= inner.read
        attributes |= inner.attributes
        imports |= inner.imports
        put |= inner.put
        finds_modules |= inner.finds_modules
    texts = set(_texts(code.co_consts))
    by_names = {*names, *(name for _, name in attributes)}
    if has_pattern:
        attributes |= {(OF_ANYTHING, text) for text in texts}
    if "__getattribute__" in by_names:
        attributes.add((OF_ANYTHING, WHOLE))
    if "globals" in names:
        names.update(dict.fromkeys(sorted(texts)))
        loaded |= texts
    if not _MODULES.isdisjoint(by_names):
        finds_modules = True
        imports |= {(text, 0) for text in code.co_consts if _is_path(text)}
    return Named(
        tuple(names),
        frozenset(stored),
        frozenset(loaded),
        frozenset(attributes),
        frozenset(put),
        frozenset(imports),
        finds_modules,
        not _MISSING.isdisjoint(names),
    )


def _texts_given(code: types.CodeType) -> Iterator[set[str] | None]:
    """The names that are given to each call of _GETTERS; None where they are not constants."""
    if _GETTERS.isdisjoint((*code.co_names, *code.co_freevars, *code.co_cellvars)):
        return
    for name, arguments in arguments_of(code, _GETTERS):
        given = arguments if name == "attrgetter" or arguments is None else arguments[:1]
        is_known = given and all(isinstance(text, str) for text in given)
        yield set(_texts(given)) if is_known else None


def _is_path(constant: Any) -> bool:
    return isinstance(constant, str) and all(map(str.isidentifier, constant.split(".")))


def _texts(constants: Iterable[Any]) -> Iterator[str]:
    """The constants that may be names of attributes, with dots between (of an attrgetter), or in a
    tuple or a set."""
    for constant in constants:
        if isinstance(constant, str):
            yield from (part for part in constant.split(".") if part.isidentifier())
        elif isinstance(constant, (tuple, frozenset)):
            yield from _texts(constant)


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
    if file is None:  # the program, or one that code has made
        is_made = type(module) is types.ModuleType and module.__dict__.get("__spec__") is None
        return module.__name__ == "__main__" or (is_made and "." not in module.__name__)
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


def reads_for_others(code: types.CodeType) -> bool:
    """Whether a library's code looks at all attributes of an object on behalf of who uses it."""
    return code.co_filename == argparse.__file__


def is_installed(code: types.CodeType) -> bool:
    """The same, or of an installed package."""
    return is_library(code) or "-packages" in code.co_filename
