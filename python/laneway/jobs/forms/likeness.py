"""Likeness: all that the capture of a step takes as constant, so that another step can be told to
be like it: then the graph is that step's too.

A capture runs Python code, and whatever that code reads may be in the graph. So a likeness
describes everything that the code can reach: the structure of models and optimizers, every plain
attribute of their parts, hyperparameters, hooks, loss function and closure with their variables,
and the process's numeric state. Left out is what a graph takes from its job in each iteration: the
values of parameters, buffers and optimizer state, and learning rates. Two objects are alike when
they have one type and all of their contents are alike; tensors that are constants, when they have
the same bytes. What cannot be looked into (a lock, an open file) is like itself alone.
"""

from __future__ import annotations

import collections
import functools
import hashlib
import sys
import types
import weakref
from collections.abc import Iterable
from typing import Any

import torch
from torch.nn.parameter import is_lazy
from torch.optim import Optimizer

from laneway.capture.code_names import is_empty, is_users, named_by
from laneway.capture.hook_marks import counts
from laneway.capture.numeric_context import current_numeric_context
from laneway.capture.optimizers import PER_ITERATION
from laneway.jobs.forms.exact_values import Facts, Same, exact, shown
from laneway.jobs.forms.hook_watch import global_hooks
from laneway.jobs.forms.surroundings import Surroundings
from laneway.jobs.watch.watched import held, quietly
from laneway.operators import layouts

# More is not described: such a step shares nothing. DenseNet-121 has 10,000; a step that reaches a
# training loop's own objects may have any number, and so many take a tenth of a second.
_MOST_ENTRIES = 20_000
# Constants beyond so many bytes of one step are not compared by their bytes: each is like itself
# alone. Reading so many takes a tenth of a second.
_MOST_BYTES = 64 << 20

_IN_TREE = ("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set", "training")
_KEYED_BY_HOOK = (
    "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
    "_forward_pre_hooks_with_kwargs",
)
# Of an optimizer: what a capture replaces, never reads, or describes elsewhere.
_OF_OPTIMIZER = ("param_groups", "state", "defaults", "step", "_step_count", "_opt_called")
_OF_GROUP = ("params", "param_names", "initial_lr", *PER_ITERATION)
_OF_CLASS = (
    *("__dict__", "__weakref__", "__doc__", "__module__", "__qualname__", "__annotations__"),
    *(
        "__parameters__",
        "__orig_bases__",
        "__abstractmethods__",
        "_abc_impl",
        "__static_attributes__",
    ),
    *(
        "__firstlineno__",
        "__dataclass_params__",
        "__dataclass_fields__",
        "__match_args__",
        "__slots__",
    ),
)


class TooMuch(Exception):
    """There is more to describe than is compared."""


class Likeness:
    """Immutable once made. Keeps code, classes and opaque constants alive, but no model, no
    optimizer and none of their tensors."""

    def __init__(
        self,
        modules: Iterable[tuple[str, torch.nn.Module]],
        optimizers: Iterable[Optimizer],
        others: Iterable[tuple[str, Any]],
    ) -> None:
        """`modules` are the step's own, by name: those with slots. `others` are functions and
        options. Raises TooMuch."""
        walk = _Walk()
        try:
            with quietly():
                walk.context()
                walk.modules(list(modules))
                for number, optimizer in enumerate(optimizers):
                    walk.optimizer(f"optimizer[{number}]", optimizer)
                for where, other in others:
                    walk.add(where, other)
        except RecursionError:
            raise TooMuch("its objects are nested too deeply") from None
        self._entries = walk.entries

    def difference(self, other: Likeness) -> str | None:
        """In what this is not like the other, in words; None when it is in everything."""
        for (where, mine), (place, theirs) in zip(self._entries, other._entries):
            if where != place:
                return f"{where} is there, and there was {place}"
            if isinstance(mine, Facts) and isinstance(theirs, Facts) and mine != theirs:
                return f"of {where} {mine.difference(theirs)}"
            if mine != theirs:
                return f"{where} is {shown(mine)} and was {shown(theirs)}"
        longer = max(self._entries, other._entries, key=len)
        if len(self._entries) == len(other._entries):
            return None
        where = longer[min(len(self._entries), len(other._entries))][0]
        return f"{where} is {'there' if longer is self._entries else 'not there'} and was otherwise"


class _Walk:
    def __init__(self) -> None:
        self.entries: list[tuple[str, Any]] = []
        self._seen: dict[int, str] = {}  # by id
        self._held: list[Any] = []  # keeps the ids taken
        self._storages: dict[int, str] = {}  # of the job's tensors
        self._bytes_left = _MOST_BYTES

    def context(self) -> None:
        self._put("the numeric context", current_numeric_context())
        for name, mode in Surroundings().named():
            self._put(name, mode)
        self._put("the operators that captures measure", layouts.distrusted())
        self._put("the default device", torch.get_default_device())
        for number, hook in enumerate(global_hooks()):
            self.add(f"the global hook {number}", hook)

    def modules(self, roots: list[tuple[str, torch.nn.Module]]) -> None:
        """First the whole structure, so that every reference to a part is known as such."""
        parts: list[tuple[str, torch.nn.Module]] = []
        for name, root in roots:
            self._tree(name, root, parts)
        for where, module in parts:
            self._attributes(where, module)

    def optimizer(self, where: str, optimizer: Optimizer) -> None:
        if self._is_known(where, optimizer):
            return
        self._class(f"the type of {where}", type(optimizer))
        index = 0
        for number, group in enumerate(optimizer.param_groups):
            place = f"{where}.param_groups[{number}]"
            self._put(f"{place}: its entries", sorted(set(group) - set(_OF_GROUP)))
            for key in PER_ITERATION:
                self._put(f"the kind of {place}['{key}']", _kind_of_rate(group.get(key)))
            for key in sorted(set(group) - set(_OF_GROUP)):
                self.add(f"{place}['{key}']", group[key])
            for parameter in held(group["params"]):
                self._state(f"parameter {index} of {where}", parameter)
                state = dict.get(optimizer.state, parameter, {})
                for key, value in dict.items(state):
                    name = f"the state {key!r} of parameter {index} of {where}"
                    tensor = isinstance(value, torch.Tensor)
                    self._state(name, value) if tensor else self.add(name, value)
                index += 1
        for key, value in vars(optimizer).items():
            if key in _OF_OPTIMIZER or key.startswith(("_zero_grad_", "_patch_", "_warned")):
                continue
            if key.endswith("_hooks"):
                self._hooks(f"{where}.{key}", value)
            else:
                self.add(f"{where}.{key}", value)

    def add(self, where: str, value: Any) -> None:
        """Describes any object."""
        known = exact(value)
        if known is not None:
            self._put(where, known)
        elif not self._is_known(where, value):
            self._describe(where, value)

    def _put(self, where: str, value: Any) -> None:
        if len(self.entries) >= _MOST_ENTRIES:
            raise TooMuch(f"its code reaches more than {_MOST_ENTRIES:,} objects")
        self.entries.append((where, value))

    def _is_known(self, where: str, value: Any) -> bool:
        """Whether the object was described before, which then is what is said of it."""
        known = self._seen.get(id(value))
        if known is not None:
            self._put(where, f"the same object as {known}")
            return True
        self._seen[id(value)] = where
        self._held.append(value)
        return False

    def _describe(self, where: str, value: Any) -> None:
        if isinstance(value, torch.Tensor):
            self._put(where, self._constant(value))
        elif isinstance(value, torch.nn.Module):
            self._other_module(where, value)
        elif isinstance(value, (dict, types.MappingProxyType)):
            self._dictionary(where, value)
        elif isinstance(value, (list, tuple, collections.deque)):
            self._put(where, (Same(type(value)), len(value)))
            for index, part in enumerate(value):
                self.add(f"{where}[{index}]", part)
        elif isinstance(value, (set, frozenset)):
            parts = [exact(part) for part in value]
            plain = all(part is not None for part in parts)
            self._put(where, (type(value), sorted(map(repr, parts))) if plain else Same(value))
        elif isinstance(value, types.FunctionType):
            self._function(where, value)
        elif isinstance(value, types.MethodType):
            self.add(f"the function of {where}", value.__func__)
            self.add(f"the object of {where}", value.__self__)
        elif isinstance(value, functools.partial):
            self.add(f"{where}.func", value.func)
            self.add(f"{where}.args", value.args)
            self.add(f"{where}.keywords", value.keywords)
        elif isinstance(value, weakref.ref):
            self.add(f"{where}()", value())
        elif isinstance(value, type):
            self._class(where, value)
        else:
            self._object(where, value)

    def _dictionary(self, where: str, value: Any) -> None:
        self._put(where, (Same(type(value)), len(value)))
        for number, (key, part) in enumerate(value.items()):
            known = exact(key)
            if known is None:
                self.add(f"key {number} of {where}", key)
            else:
                self._put(f"key {number} of {where}", known)
            self.add(f"{where}[{number if known is None else shown(known)}]", part)

    def _object(self, where: str, value: Any) -> None:
        attributes = getattr(value, "__dict__", None)
        slots = [n for c in type(value).__mro__ for n in _slots_of(c) if hasattr(value, n)]
        opaque = isinstance(value, (types.ModuleType, Optimizer, torch.Generator))
        if opaque or not (isinstance(attributes, dict) or slots):
            self._put(where, Same(value))
            return
        self._class(f"the type of {where}", type(value))
        for name in slots:
            self.add(f"{where}.{name}", getattr(value, name))
        for name, part in (attributes or {}).items():
            self.add(f"{where}.{name}", part)
        if isinstance(value, types.SimpleNamespace) or attributes is not None:
            self._put(f"{where}: its attributes", len(attributes or {}))

    def _function(self, where: str, function: types.FunctionType) -> None:
        self._put(f"the code of {where}", Same(function.__code__))
        self.add(f"the defaults of {where}", function.__defaults__)
        self.add(f"the keyword defaults of {where}", function.__kwdefaults__)
        if function.__dict__:
            self.add(f"the attributes of {where}", function.__dict__)
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
            place = f"'{name}', which {where} reads"
            self._put(place, "nothing") if is_empty(cell) else self.add(place, cell.cell_contents)
        for name, value in named_by(function):
            self.add(f"'{name}', which {where} reads", value)

    def _class(self, where: str, of: type) -> None:
        if self._is_known(where, of):
            return
        self._put(where, Same(of))
        for base in of.__mro__:
            module = sys.modules.get(base.__module__)
            if module is None or not is_users(module):
                continue
            for name, value in vars(base).items():
                if name in _OF_CLASS or isinstance(value, types.GetSetDescriptorType):
                    continue
                if isinstance(value, (staticmethod, classmethod)):
                    value = value.__func__
                elif isinstance(value, property):
                    value = value.fget
                self.add(f"{base.__name__}.{name}", value)

    def _tree(self, where: str, module: torch.nn.Module, parts: list) -> None:
        if self._is_known(where, module):
            return
        if isinstance(module, torch.jit.ScriptModule):
            raise TooMuch(f"{where} is a scripted module, whose parts are not Python's")
        parts.append((where, module))
        self._class(f"the type of {where}", type(module))
        self._put(f"the training mode of {where}", module.training)
        entries = vars(module)
        for holder in ("_parameters", "_buffers"):
            self._put(f"the names in {where}.{holder}", list(dict.keys(entries[holder])))
            for name, tensor in dict.items(entries[holder]):
                if tensor is not None:
                    self._state(f"{where}.{name}", tensor)
        passing = entries["_non_persistent_buffers_set"]
        self._put(f"the buffers of {where} outside of its state", sorted(passing))
        self._put(f"the children of {where}", list(dict.keys(entries["_modules"])))
        for name, child in dict.items(entries["_modules"]):
            if child is not None:
                self._tree(f"{where}.{name}", child, parts)

    def _attributes(self, where: str, module: torch.nn.Module) -> None:
        for name, value in vars(module).items():
            if name in _IN_TREE or name in _KEYED_BY_HOOK or "state_dict" in name:
                continue
            if name.endswith("_hooks") and isinstance(value, dict):
                self._hooks(f"{where}.{name}", value, module)
            else:
                self.add(f"{where}.{name}", value)

    def _other_module(self, where: str, module: torch.nn.Module) -> None:
        """One that the step reaches past its models: all of its tensors are constants."""
        self._class(f"the type of {where}", type(module))
        for name, value in vars(module).items():
            if name.endswith("_hooks") and isinstance(value, dict):
                self._hooks(f"{where}.{name}", value, module)
            elif name not in _KEYED_BY_HOOK:
                holder = name in ("_parameters", "_buffers", "_modules")
                self.add(f"{where}.{name}", dict(dict.items(value)) if holder else value)

    def _hooks(self, where: str, hooks: dict[int, Any], module: Any = None) -> None:
        counted = [(number, hook) for number, hook in hooks.items() if counts(hook)]
        self._put(f"the number of {where}", len(counted))
        for place, (number, hook) in enumerate(counted):
            flags = [number in getattr(module, name, ()) for name in _KEYED_BY_HOOK]
            self._put(f"the kind of hook {place} of {where}", flags)
            self.add(f"hook {place} of {where}", hook)

    def _constant(self, tensor: torch.Tensor) -> Any:
        """A tensor whose values the graph has."""
        size = tensor.numel() * tensor.element_size()
        plain = type(tensor) in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)
        if not plain or tensor.layout != torch.strided or tensor.device.type != "cpu":
            return Same(tensor)
        if size > self._bytes_left:
            return Same(tensor), tensor._version
        self._bytes_left -= size
        values = tensor.detach().resolve_conj().resolve_neg().contiguous().flatten()
        content = hashlib.blake2b(values.view(torch.uint8).numpy(), digest_size=16)
        return Facts(
            (
                ("the dtype", tensor.dtype),
                ("the shape", list(tensor.shape)),
                ("the strides", list(tensor.stride())),
                ("the memory", (tensor.storage_offset(), tensor.untyped_storage().nbytes())),
                ("requires_grad", tensor.requires_grad),
                ("the content (its digest)", content.hexdigest()),
            )
        )

    def _state(self, where: str, tensor: torch.Tensor) -> None:
        """A tensor whose values are the job's."""
        if self._is_known(where, tensor):
            return
        if is_lazy(tensor):
            self._put(where, ("lazy", type(tensor)))
            return
        storage = tensor.untyped_storage()
        grad = tensor.grad if tensor.is_leaf else None
        facts = (
            ("the type", Same(type(tensor))),
            ("the dtype", tensor.dtype),
            ("the shape", list(tensor.shape)),
            ("the strides", list(tensor.stride())),
            ("requires_grad", tensor.requires_grad),
            ("being a leaf", tensor.is_leaf),
            ("the layout", (tensor.layout, tensor.device)),
            ("the memory", (tensor.storage_offset(), storage.nbytes())),
            ("the tensor that has its memory", self._storages.setdefault(storage._cdata, where)),
            ("having a gradient", grad is not None),
            ("the gradient", None if grad is None else (grad.dtype, grad.shape, grad.stride())),
        )
        self._put(where, Facts(facts))
        for name in ("_backward_hooks", "_post_accumulate_grad_hooks"):
            self._hooks(f"{name} of {where}", getattr(tensor, name, None) or {})


def _kind_of_rate(rate: Any) -> Any:
    if isinstance(rate, torch.Tensor):
        return torch.Tensor, rate.dtype, tuple(rate.shape), tuple(rate.stride())
    return "a number" if isinstance(rate, (int, float)) else type(rate)


def _slots_of(of: type) -> list[str]:
    names = vars(of).get("__slots__", ())
    names = [names] if isinstance(names, str) else list(names)
    return [name for name in names if name not in ("__dict__", "__weakref__")]
