"""Maps a step's Python arguments to graph inputs, and graph outputs to its Python result.

Arguments and results may be nested (tuples, lists, dictionaries, and all other types that torch's
pytree knows). Tensors among the arguments are graph inputs, in order; everything else is a constant
of the capture and must be equal in every call. Learning rates follow as inputs of their own.
Tensors inside other objects are found in results (opaque.py) and refused in arguments.
"""

from __future__ import annotations

import dataclasses
import itertools
import warnings
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import torch
from torch.optim import Optimizer
from torch.utils import _pytree as pytree

from laneway.capture import opaque
from laneway.capture.border import (
    expected_strides,
    has_own_operators,
    is_all_of_its_memory,
    is_scattered,
    place_of,
    spanned_bytes,
)
from laneway.capture.contents import content_of
from laneway.capture.left_values import Left
from laneway.capture.recorder import Recorder
from laneway.errors import CaptureError
from laneway.graph.graph_ir import ValueKind
from laneway.graph.slots import check_tensor

GENERATOR = "generator"


class OtherForm(Exception):
    """A call's arguments do not have the form of the capture; the message names the difference."""


@dataclasses.dataclass(frozen=True)
class TensorInput:
    """A graph input that is a tensor, with the layout that the graph expects: the example's own,
    gaps included (see expected_strides)."""

    dtype: torch.dtype
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    # Whether autograd records what is computed from it: a step may ask, or differentiate by it.
    requires_grad: bool
    # ("input", n): the n-th tensor among the arguments; ("param_group", i, "lr"): of the i-th group
    # of all optimizers; (GENERATOR, n): the state of the n-th of the client's generators that the
    # graph draws from.
    source: tuple
    # How many bytes behind a multiple of 16 it begins; None: anywhere (see input_places.py).
    place: int | None = None


@dataclasses.dataclass(frozen=True)
class NumberInput:
    """A graph input that is a number, read anew in each iteration."""

    kind: ValueKind
    # ("param_group", i, "lr"), or ("argument", n): the n-th leaf of the arguments, a float.
    source: tuple


InputSpec = TensorInput | NumberInput


@dataclasses.dataclass
class InputSignature:
    """The structure of (args, kwargs) and the requirement on each leaf. `specs` are in the order of
    the graph's inputs. `whole` are the positions of those that must be all of their memory: the
    graph addresses it (see addressed.py)."""

    structure: pytree.TreeSpec
    leaves: list[InputSpec | tuple]  # an input's spec, or ("constant", value, content)
    specs: list[InputSpec] = dataclasses.field(default_factory=list)
    whole: set[int] = dataclasses.field(default_factory=set)

    def takes_plain_tensors(self) -> bool:
        """Whether a call has only positional tensors, one for each graph input."""
        plain = pytree.tree_structure((tuple(range(len(self.leaves))), {}))
        return (
            not self.whole
            and plain == self.structure
            and all(isinstance(x, TensorInput) for x in self.leaves)
        )

    def places(self) -> tuple[int | None, ...]:
        """Where the tensors among the inputs begin."""
        return tuple(spec.place for spec in self.specs if isinstance(spec, TensorInput))

    def is_like(self, other: InputSignature) -> bool:
        """Whether the other one differs in nothing but places."""
        pairs = zip(self.leaves, other.leaves)
        return self.structure == other.structure and all(itertools.starmap(_are_like, pairs))

    def difference(self, args: tuple, kwargs: dict[str, Any] | None = None) -> str | None:
        """The difference between a call's arguments and those of the capture, in words; None when
        no difference matters."""
        leaves, structure = pytree.tree_flatten((tuple(args), dict(kwargs or {})))
        if structure != self.structure:
            return f"the arguments have the structure {structure} and had {self.structure}"
        for position, (leaf, expected) in enumerate(zip(leaves, self.leaves)):
            if isinstance(expected, TensorInput):
                found = _tensor_difference(leaf, expected, expected.source[1] in self.whole)
                if found is not None:
                    return f"argument {position} {found}"
            elif isinstance(expected, NumberInput):
                if type(leaf) is not float:
                    return f"argument {position} is {_short(leaf)} and was a float"
            elif isinstance(leaf, torch.Tensor) or not _equal(leaf, expected[1]):
                return f"argument {position} is {_short(leaf)} and was {_short(expected[1])}"
            elif expected[2] is not None and expected[2] != content_of(leaf, "an argument"):
                return f"argument {position}, {_short(leaf)}, holds other values than before"
        return None

    def tensors(self, args: tuple, kwargs: dict[str, Any] | None = None) -> list[torch.Tensor]:
        """The tensors of a call in the order of the graph's inputs, in the layouts that the graph
        expects. Raises OtherForm for a call of other structure, shape, strides, dtype or
        constants."""
        difference = self.difference(args, kwargs)
        if difference is not None:
            raise OtherForm(difference)
        leaves = pytree.tree_leaves((tuple(args), dict(kwargs or {})))
        return [
            _laid_out(leaf, expected)
            for leaf, expected in zip(leaves, self.leaves)
            if isinstance(expected, TensorInput)
        ]

    def values(
        self, args: tuple, kwargs: dict[str, Any] | None, optimizers: Sequence[Optimizer]
    ) -> list[torch.Tensor | float | None]:
        """What one iteration needs, in the order of the graph's inputs; None in the place of the
        state of a generator."""
        tensors = iter(self.tensors(args, kwargs))
        groups = [group for optimizer in optimizers for group in optimizer.param_groups]
        values: list[torch.Tensor | float | None] = []
        for spec in self.specs:
            if spec.source[0] == "input":
                values.append(next(tensors))
                continue
            if spec.source[0] == GENERATOR:
                values.append(None)
                continue
            if spec.source[0] == "argument":
                values.append(pytree.tree_leaves((tuple(args), dict(kwargs or {})))[spec.source[1]])
                continue
            _, group, key = spec.source
            current = groups[group][key]
            if isinstance(spec, TensorInput):
                values.append(torch.as_tensor(current, dtype=spec.dtype).detach())
            else:
                values.append(float(current))
        return values


@dataclasses.dataclass
class OutputSignature:
    """The structure of the result. A leaf is a position among the graph's outputs, ("constant",
    value), or ("object", bytes, positions): an object that opaque.py puts together from the outputs
    at these positions."""

    structure: pytree.TreeSpec
    leaves: list[int | tuple]
    # Attributes of modules that get what is behind the step's own result.
    left: list[Left] = dataclasses.field(default_factory=list)

    def rebuild(self, outputs: list[Any]) -> Any:
        """The step's result from the graph's outputs. Sets the attributes that the step sets."""
        leaves = [
            outputs[leaf] if isinstance(leaf, int) else _rebuilt(leaf, outputs)
            for leaf in self.leaves
        ]
        result = pytree.tree_unflatten(leaves, self.structure)
        if not self.left:
            return result
        result, values = result
        for left, value in zip(self.left, values):
            left.put(value)
        return result


def fake_inputs(
    recorder: Recorder,
    args: tuple,
    kwargs: dict[str, Any],
    floats: Collection[int] = (),
) -> tuple[tuple, dict[str, Any], InputSignature, list[int]]:
    """Fakes of the example arguments, their signature, and the graph inputs so far. The leaves
    `floats` are inputs, too, behind the tensors; the others that are no tensors are constants."""
    leaves, structure = pytree.tree_flatten((tuple(args), dict(kwargs)))
    signature = InputSignature(structure, [])
    inputs: list[int] = []
    fakes: list[Any] = []
    for position, leaf in enumerate(leaves):
        if not isinstance(leaf, torch.Tensor):
            _check_constant(leaf, position)
            content = content_of(leaf, f"argument {position}")
            signature.leaves.append(("constant", leaf, content))
            fakes.append(leaf)
            continue
        check_tensor(leaf, f"input {position}")
        _check_class(leaf, position)
        strides = expected_strides(leaf)
        if is_scattered(leaf):
            _warn_of_copy(leaf, f"input {position}")
            recorder.addressed.moved.add(len(inputs))
        with recorder.fake_mode:
            fake = torch.empty_strided(leaf.shape, strides, dtype=leaf.dtype)
        fake.requires_grad_(leaf.requires_grad)
        form = leaf.dtype, tuple(leaf.shape), strides, leaf.requires_grad, ("input", len(inputs))
        spec = TensorInput(*form, place_of(leaf))
        signature.leaves.append(spec)
        signature.specs.append(spec)
        if not is_all_of_its_memory(leaf):
            recorder.addressed.parts.add(len(inputs))
        inputs.append(recorder.table.add_input(fake, len(inputs), leaf))
        recorder.known.give(inputs[-1], _laid_out(leaf, spec))
        fakes.append(fake)
    for position in floats:
        value, fakes[position] = recorder.add_number(ValueKind.real, f"argument {position}")
        spec_of_float = NumberInput(ValueKind.real, ("argument", position))
        signature.leaves[position] = spec_of_float
        signature.specs.append(spec_of_float)
        inputs.append(value)
    fake_args, fake_kwargs = pytree.tree_unflatten(fakes, structure)
    return fake_args, fake_kwargs, signature, inputs


def bind_outputs(
    recorder: Recorder, result: Any, left: Sequence[Left] = ()
) -> tuple[OutputSignature, list[int]]:
    """The signature of the step's result and of what it leaves in attributes, and the graph's
    outputs."""
    whole = (result, [attribute.value for attribute in left]) if left else result
    leaves, structure = pytree.tree_flatten(whole)
    places = [dataclasses.replace(attribute, value=None) for attribute in left]
    signature = OutputSignature(structure, [], places)
    outputs: list[int] = []

    def bind(part: Any) -> int:
        outputs.append(
            recorder.value_of(part) if isinstance(part, torch.Tensor) else part.node.value
        )
        return len(outputs) - 1

    for leaf in leaves:
        if isinstance(leaf, (torch.Tensor, torch.SymFloat, torch.SymInt, torch.SymBool)):
            signature.leaves.append(bind(leaf))
        elif opaque.is_whole(leaf):
            signature.leaves.append(("constant", leaf))
        else:
            without, parts = _taken_apart(leaf)
            positions = [bind(part) for part in parts]
            signature.leaves.append(("object", without, positions) if parts else ("constant", leaf))
    return signature, outputs


def _taken_apart(leaf: Any) -> tuple[bytes, list[Any]]:
    try:
        return opaque.take_apart(leaf)
    except opaque.NotCopyable as error:
        if not error.found:  # the object may hold none
            return b"", []
        raise CaptureError(
            f"the step returns a {type(leaf).__name__} that holds tensors and cannot be copied "
            f"({error})",
            remedy="return tensors in tuples, lists or dictionaries",
        ) from error


def _rebuilt(leaf: tuple, outputs: list[Any]) -> Any:
    if leaf[0] == "constant":
        return leaf[1]
    _, without, positions = leaf
    return opaque.put_together(without, lambda n: outputs[positions[n]])


def _tensor_difference(leaf: Any, expected: TensorInput, whole: bool) -> str | None:
    if not isinstance(leaf, torch.Tensor):
        return f"is a {type(leaf).__name__} and was a tensor"
    if has_own_operators(leaf):
        return f"is of {type(leaf).__name__}, a class with operators of its own"
    if leaf.requires_grad != expected.requires_grad:
        return f"has requires_grad {leaf.requires_grad} and had {expected.requires_grad}"
    for what, given, wanted in (
        ("device", leaf.device.type, "cpu"),
        ("layout", leaf.layout, torch.strided),
        ("dtype", leaf.dtype, expected.dtype),
        ("shape", list(leaf.shape), list(expected.sizes)),
    ):
        if given != wanted:
            return f"has {what} {given} and had {wanted}"
    strides = expected_strides(leaf)
    if strides != expected.strides:
        return f"has strides {list(strides)} and had {list(expected.strides)}"
    if expected.place is not None and place_of(leaf) != expected.place:
        return (
            f"begins {place_of(leaf)} bytes behind a multiple of 16 in memory and began "
            f"{expected.place} bytes behind one, and bits of products depend on that "
            "(.clone() begins at 0, in eager code too)"
        )
    if whole and not is_all_of_its_memory(leaf):
        return "is a part of a larger memory, which the graph addresses, and was all of it"
    return None


def _laid_out(leaf: torch.Tensor, expected: TensorInput) -> torch.Tensor:
    """The tensor itself, or a copy in the expected layout."""
    leaf = leaf.detach()
    if tuple(leaf.stride()) == expected.strides and not (leaf.is_conj() or leaf.is_neg()):
        return leaf
    made = torch.empty_strided(expected.sizes, expected.strides, dtype=expected.dtype)
    # An expanded dimension is one element in memory.
    once = tuple(slice(1 if stride == 0 else None) for stride in expected.strides)
    made[once].copy_(leaf[once])
    return made


def _warn_of_copy(tensor: torch.Tensor, name: str) -> None:
    size = tensor.numel() * tensor.element_size()
    span = spanned_bytes(tensor.shape, tensor.stride(), tensor.dtype)
    warnings.warn(
        f"{name} has {size} bytes in {span} bytes of memory and is copied together in each call; "
        "kernels round otherwise over scattered elements, so results may differ from eager's by "
        "rounding: pass it with .contiguous(), in eager code too",
        RuntimeWarning,
        stacklevel=2,
    )


def _check_constant(leaf: Any, position: int) -> None:
    if isinstance(leaf, (torch.nn.Module, Optimizer)):
        raise CaptureError(
            f"argument {position} is a {type(leaf).__name__}",
            remedy="pass tensors; models and optimizers are arguments of train_step",
        )
    if type(leaf).__module__ == "numpy":
        raise CaptureError(
            f"argument {position} is a numpy {type(leaf).__name__}, whose numbers would become "
            "constants of the step",
            remedy="pass it as a tensor: torch.as_tensor(argument)",
        )
    if opaque.is_whole(leaf):
        return
    try:
        _, found = opaque.take_apart(leaf)
    except opaque.NotCopyable as error:
        found = error.found
    if found:
        name = type(leaf).__name__
        raise CaptureError(
            f"argument {position} is a {name} that holds tensors, which would become constants of "
            "the step",
            remedy="pass **argument or dict(argument)"
            if isinstance(leaf, Mapping)
            else "pass the tensors themselves, in tuples, lists or dictionaries; a model's cache: "
            "do without it, use_cache=False",
        )


def _check_class(tensor: torch.Tensor, position: int) -> None:
    if has_own_operators(tensor):
        name = type(tensor).__name__
        raise CaptureError(
            f"argument {position} is of {name}, a subclass of Tensor with operators of its own "
            "(__torch_function__ or __torch_dispatch__), which a graph does not call",
            remedy="pass argument.as_subclass(torch.Tensor), and do inside the step what "
            f"{name} does",
        )


def _are_like(one: InputSpec | tuple, other: InputSpec | tuple) -> bool:
    if isinstance(one, tuple) and isinstance(other, tuple):
        return _equal(one[1], other[1]) and one[2] == other[2]
    return _anywhere(one) == _anywhere(other)


def _anywhere(leaf: InputSpec | tuple) -> InputSpec | tuple:
    return dataclasses.replace(leaf, place=None) if isinstance(leaf, TensorInput) else leaf


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _equal(given: Any, captured: Any) -> bool:
    try:
        return given is captured or (type(given) is type(captured) and bool(given == captured))
    except Exception:  # an object with a comparison that raises counts as different
        return False
