"""Whether the user's code around a step reads `.grad`.

The gradients of a step are values of its graph, which nobody needs behind its optimizer. Eager
execution leaves them in `.grad`, and a loop may log their norm. A tensor does not tell of that
read, so the code that calls the step is looked at, and the functions that it names.
"""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

from laneway.capture.byte_code import reads_of
from laneway.capture.code_names import is_empty, is_installed
from laneway.capture.uses import MISSING

_MOST = 256  # functions that are looked at
_NOT_OF_TENSORS = ("autograd", "func", "jax")  # torch.autograd.grad() is a function


def reads_gradients(function: Callable[..., Any] | None) -> bool:
    """Whether a frame of the caller's callers, or a function that it names, may read `.grad`. The
    step's own `function` is left out."""
    seen = _codes_of(function)
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None and len(seen) < _MOST:
        code = frame.f_code
        # Not f_locals: a frame that was asked for them holds them.
        if _reads(code, frame.f_globals, seen):
            return True
        frame = frame.f_back
    return False


def _reads(code: types.CodeType, scope: dict[str, Any], seen: set[Any]) -> bool:
    if code in seen or len(seen) >= _MOST or is_installed(code):
        return False
    seen.add(code)
    names, attributes = _named(code)
    if any(name == "grad" and of not in _NOT_OF_TENSORS for of, name in attributes):
        return True
    inner = [
        const
        for const in code.co_consts
        if isinstance(const, types.CodeType)
        # Functions of a file are looked at where they are named.
        and (code.co_name != "<module>" or const.co_name.startswith("<"))
    ]
    return any(_reads(const, scope, seen) for const in inner) or any(
        _reads(found.__code__, found.__globals__, seen)
        for found in _functions(names, attributes, scope)
    )


def _functions(
    names: frozenset[str], attributes: frozenset[tuple[str, str]], scope: dict[str, Any]
) -> Iterator[types.FunctionType]:
    """Functions that are named: globals, functions of modules, methods of globals. A variable may
    be of any class that the file names."""
    classes = [kind for kind in list(scope.values()) if isinstance(kind, type)]
    found: list[Any] = [scope.get(name) for name in names]
    for of, name in attributes:
        holder = scope.get(of, MISSING)
        if isinstance(holder, types.ModuleType):
            found.append(vars(holder).get(name))
            continue
        kinds = classes if holder is MISSING else [holder, type(holder)]
        for kind in kinds:
            if isinstance(kind, type):
                found += [vars(base).get(name) for base in kind.__mro__]
    return (each for each in found if isinstance(each, types.FunctionType))


def _codes_of(function: Callable[..., Any] | None) -> set[types.CodeType]:
    """The code of a function, and of those that it is made around."""
    found: set[types.CodeType] = set()
    waiting = [function]
    while waiting:
        each = waiting.pop()
        if not isinstance(each, types.FunctionType) or each.__code__ in found:
            continue
        found.add(each.__code__)
        waiting += [c.cell_contents for c in each.__closure__ or () if not is_empty(c)]
    return found


@functools.lru_cache(maxsize=1024)
def _named(code: types.CodeType) -> tuple[frozenset[str], frozenset[tuple[str, str]]]:
    """The variables that the code itself reads, and its attributes with what they are of."""
    reads = list(reads_of(code))
    return (
        frozenset(read.name for read in reads if read.kind in ("global", "outer")),
        frozenset(
            # A variable of the function's own may be any object, unless it has such a name.
            (read.local if read.local in _NOT_OF_TENSORS else read.of, read.name)
            for read in reads
            if read.kind == "attribute"
        ),
    )
