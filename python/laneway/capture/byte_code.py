"""What byte code names, on each Python that captures know. Needs no torch.

The table below is the only place that knows the instructions of Python's versions. A name that it
missed would be a value that a capture takes for a constant: so a Python with an instruction that is
not in the table, or whose code says something else than the probe's source, gets no captures.
"""

from __future__ import annotations

import dataclasses
import dis
import functools
import platform
import types
from collections.abc import Iterator, Set
from typing import Any, Literal

from laneway.errors import CaptureError

PYTHONS = ("3.11", "3.12", "3.13", "3.14")  # those that the tests of captures have passed on

Kind = Literal[
    "global",
    "outer",
    "attribute",
    "set global",
    "set outer",
    "set attribute",
    "import",
    "pattern",
    "",
]
OF_ANYTHING = ""  # stands for an object that the code does not name
COMPUTED: Any = type("Computed", (), {"__repr__": lambda self: "computed"})()

# Instructions that name something, from 3.11 to 3.14. "outer" is a variable of an outer function;
# "" tells nothing of what is there before the step.
_KINDS: dict[str, Kind] = {
    "LOAD_GLOBAL": "global",
    "LOAD_NAME": "global",
    "LOAD_FROM_DICT_OR_GLOBALS": "global",
    "LOAD_DEREF": "outer",
    "LOAD_CLASSDEREF": "outer",
    "LOAD_FROM_DICT_OR_DEREF": "outer",
    "LOAD_ATTR": "attribute",
    "LOAD_METHOD": "attribute",
    "IMPORT_FROM": "attribute",
    "LOAD_SUPER_ATTR": "attribute",
    "LOAD_SUPER_METHOD": "attribute",
    "LOAD_ZERO_SUPER_ATTR": "attribute",
    "LOAD_ZERO_SUPER_METHOD": "attribute",
    "STORE_GLOBAL": "set global",
    "DELETE_GLOBAL": "set global",
    "STORE_DEREF": "set outer",
    "DELETE_DEREF": "set outer",
    "IMPORT_NAME": "import",
    "MATCH_CLASS": "pattern",  # its attributes are a constant
    "STORE_ATTR": "set attribute",
    "DELETE_ATTR": "set attribute",
    "STORE_NAME": "",
    "DELETE_NAME": "",
    "MAKE_CELL": "",
    "LOAD_CLOSURE": "",
}
_NO_EFFECT = frozenset({"CACHE", "EXTENDED_ARG", "NOP", "RESUME"})
# Between a name and the attribute that is read of it.
_NOTHING = frozenset({"CACHE", "EXTENDED_ARG", "PRECALL", "NOP", "PUSH_NULL"})
# These give what C code makes of all attributes of a namespace.
_TEXTS = frozenset({"str", "repr", "format", "ascii"})
# The object whose attribute these read is not what the instruction before them names.
_OF_OTHERS = frozenset({"IMPORT_FROM"} | {name for name in _KINDS if "SUPER" in name})


@dataclasses.dataclass(frozen=True)
class Read:
    """One instruction. `of` is the variable or attribute that an attribute is read of, or
    OF_ANYTHING; of an import, the number of its dots. `local` is the function's own variable that
    an attribute is read of."""

    kind: Kind
    name: str
    of: Any = OF_ANYTHING
    local: str = ""


def reads_of(code: types.CodeType) -> Iterator[Read]:
    """What the code itself names, without that of the functions that it makes."""
    before, local, values = OF_ANYTHING, "", (0, 0)
    for instruction in dis.get_instructions(code):
        word = instruction.opname
        if word in _NOTHING:
            continue
        kind, name = _KINDS.get(word, ""), instruction.argval
        if kind == "attribute":
            yield Read(kind, name, *(() if word in _OF_OTHERS else (before, local)))
        elif kind == "import":
            yield Read(kind, name, values[0])  # on the stack: the dots, then what is taken from it
        elif kind:
            yield Read(kind, "" if kind == "pattern" else name)
        before = name if kind in ("global", "outer", "attribute") else OF_ANYTHING
        local = ""
        if "LOAD_FAST" in word:  # one, or the last of two
            local = name if isinstance(name, str) else name[-1]
        values = values[1], name


def shown_in(code: types.CodeType) -> set[str]:
    """Names of variables and attributes that the code itself compares or makes text of: C code then
    looks at all that a namespace has."""
    shown: set[str] = set()
    given = [i for i in dis.get_instructions(code) if i.opname not in _NOTHING]
    for at, each in enumerate(given):
        word, first = each.opname, _start(given, at)
        is_text = word == "CALL" and not _TEXTS.isdisjoint(_loaded(given, first))
        if word == "COMPARE_OP":
            both = _loaded(given, at)  # by one instruction, on some Pythons
            shown.update(both if len(both) > 1 else (*both, *_loaded(given, first)[-1:]))
        elif is_text or word.startswith(("FORMAT_", "CONVERT_")):
            shown.update(_loaded(given, at)[-1:])
    return shown


def _loaded(given: list[dis.Instruction], at: int) -> tuple[str, ...]:
    """The names that the instruction before this one loads."""
    each = given[at - 1] if at > 0 else None
    if each is None or not each.opname.startswith("LOAD_") or each.opname == "LOAD_CONST":
        return ()
    names = each.argval if isinstance(each.argval, tuple) else (each.argval,)
    return tuple(name for name in names if isinstance(name, str))


def _start(given: list[dis.Instruction], at: int) -> int:
    """Where the loads of the value begin that is there before this instruction: a.b.c."""
    at -= 1
    while at > 0 and _KINDS.get(given[at].opname) == "attribute":
        at -= 1
    return at


def arguments_of(code: types.CodeType, names: Set[str]) -> Iterator[tuple[str, list[Any] | None]]:
    """Each place where the code itself names one of these as a variable or an attribute, with what
    it is called with there: constants, and COMPUTED for all else. None: it is not called there, or
    one cannot tell."""
    instructions = [i for i in dis.get_instructions(code) if i.opname not in _NO_EFFECT]
    for at, instruction in enumerate(instructions):
        is_named = _KINDS.get(instruction.opname) in ("global", "outer", "attribute")
        if is_named and instruction.argval in names:
            yield instruction.argval, _arguments(instructions[at + 1 :])


def _arguments(instructions: list[dis.Instruction]) -> list[Any] | None:
    """Follows the height of the stack from a function that was put there to its call. The last
    instruction that leaves as many values there as an argument's number gave that argument."""
    height, given = 0, dict[int, Any]()
    for number, each in enumerate(instructions):
        if each.opname == "PUSH_NULL" and number == 0:
            continue
        if each.opname == "SWAP" or each.opcode in dis.hasjrel or each.opcode in dis.hasjabs:
            return None
        before, height = height, height + dis.stack_effect(each.opcode, each.arg)
        if height < 0:
            is_call = each.opname == "CALL" and height == -1
            count = each.argval if is_call else 0
            return [given.get(n, COMPUTED) for n in range(1, count + 1)] if is_call else None
        given |= dict.fromkeys(range(before + 1, height), COMPUTED)  # some give two values
        given[height] = each.argval if each.opname == "LOAD_CONST" else COMPUTED
    return None


_PROBE = """
def probe(argument):
    global written, deleted
    from .package import taken
    import package.module
    outer = held = argument
    written = config["scale"]
    del deleted
    config.first.second(argument.third, config.fourth().fifth)
    for part in config.sixth:
        part.seventh += "eighth".ninth
    if argument > 1 and config.tenth is None:
        with config.eleventh as part, outer.twelfth:
            raise Error
    def inner():
        nonlocal outer
        outer = super().above, super(Base, held).other
        match config:
            case Base(thirteenth=1):
                return outer
    return inner
"""
_EXPECTED = """
import:package:1 attribute:taken: import:package.module:0 global:config: set_global:written:
set_global:deleted: global:config: attribute:first:config attribute:second:first attribute:third:
global:config: attribute:fourth:config attribute:fifth: global:config: attribute:sixth:config
attribute:seventh: set_attribute:seventh: attribute:ninth: global:config: attribute:tenth:config
global:config: attribute:eleventh:config outer:outer: attribute:twelfth:outer global:Error:
set_outer:outer: global:super: attribute:above: global:Base: outer:held: attribute:other:
outer:outer: set_outer:held: global:config: global:Base: pattern::
"""


@functools.cache
def found_unknown() -> str:
    """What byte code of this Python has that the table does not know; "" when nothing."""
    names = (dis.opname[number] for number in (*dis.hasname, *dis.hasfree))
    names = (name.removeprefix("INSTRUMENTED_") for name in names if not name.startswith("<"))
    if unknown := sorted({name for name in names if name not in _KINDS}):
        return f"its byte code has {', '.join(unknown)}"
    scope: dict[str, Any] = {}
    exec(compile(_PROBE, "<probe>", "exec"), scope)
    probe = scope["probe"].__code__
    inner = [part for part in probe.co_consts if isinstance(part, types.CodeType)]
    found = {_words(read) for code in (probe, *inner) for read in reads_of(code)}
    if differing := sorted(found ^ set(_EXPECTED.split())):
        return f"its byte code says otherwise what a function reads: {', '.join(differing)}"
    return ""


def _words(read: Read) -> str:
    return f"{read.kind.replace(' ', '_')}:{read.name}:{read.of}"


def refuse_unknown_python() -> None:
    """Raises CaptureError on a Python that captures do not know."""
    if unknown := found_unknown():
        raise CaptureError(
            f"captures do not know Python {platform.python_version()}: {unknown}",
            remedy=f"run with one of Python {', '.join(PYTHONS)}, or with a newer Laneway",
        )
