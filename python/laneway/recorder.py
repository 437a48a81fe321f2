"""Records the operators of one step while it runs on fake tensors.

A dispatch mode below autograd, above fake mode: it sees exactly the operators that eager execution
would run on the CPU, in their order, forward and backward, with torch's Python dispatcher off (with
it on, recurrent layers unroll and some bits change). Values are numbered as they appear; a tensor
remembers its number in an attribute, which lives as long as the tensor does.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode

from laneway import operators
from laneway.errors import CaptureError
from laneway.graph_ir import (
    DTYPE_OF_TORCH,
    NO_VALUE,
    TORCH_OF_DTYPE,
    Argument,
    DeviceArgument,
    DType,
    GeneratorArgument,
    LayoutArgument,
    MemoryFormat,
    Node,
    NodeResult,
    Storage,
    StorageKind,
    Value,
    ValueArgument,
    ValueKind,
)
from laneway.scalars import ScalarNode
from laneway.slots import SlotTable, check_tensor, SlotKind
from laneway.user_lines import UserLines

_NUMBER = "_laneway_value"  # attribute of a fake tensor: (recorder, index of its value)

_STALE = "_laneway_stale"

_FORMATS = {
    torch.contiguous_format: MemoryFormat.contiguous,
    torch.preserve_format: MemoryFormat.preserve,
    torch.channels_last: MemoryFormat.channels_last,
    torch.channels_last_3d: MemoryFormat.channels_last_3d,
}
_SYMBOLS = (torch.SymFloat, torch.SymInt, torch.SymBool)
_OF_SYMBOL = {torch.SymFloat: 1.0, torch.SymInt: 1, torch.SymBool: True}


class Recorder(TorchDispatchMode):
    """Fills storages, values and nodes. `phases[i]` is the phase in which nodes[i] was recorded:
    "step" or "optimizer". One per capture, used by one thread; not to be used after it."""

    def __init__(self, fake_mode: FakeTensorMode, slots: SlotTable) -> None:
        super().__init__()
        self.fake_mode = fake_mode
        self.slots = slots
        self.storages: list[Storage] = []
        self.values: list[Value] = []
        self.nodes: list[Node] = []
        self.phases: list[str] = []
        self.phase = "step"
        self.lines = UserLines()
        # Real tensors that must not be met: storage -> why not.
        self.forbidden: dict[int, str] = {}
        self.drawing: set[str] = set()  # names of recorded operators that draw random numbers
        self.fresh: set[int] = set()  # storages of Python literals
        self._storage_numbers: dict[int, tuple[StorageWeakRef, int]] = {}
        self._slot_storages: dict[int, int] = {}
        self._constants: dict[int, FakeTensor] = {}
        self._kept: list[torch.Tensor] = []

    # Values that exist before the first node.

    def add_persistent(self, fake: torch.Tensor, slot: int, nbytes: int) -> int:
        """Numbers `fake` as a value on the storage of `slot`."""
        if slot not in self._slot_storages:
            self._slot_storages[slot] = len(self.storages)
            self.storages.append(Storage(StorageKind.persistent, slot, nbytes))
        return self._number_on(fake, self._slot_storages[slot])

    def add_input(self, fake: torch.Tensor, position: int) -> int:
        """Numbers `fake` as graph input `position`, with a storage of its own."""
        nbytes = fake.untyped_storage().nbytes()
        self.storages.append(Storage(StorageKind.input, position, nbytes))
        return self._number_on(fake, len(self.storages) - 1)

    def add_number(self, kind: ValueKind, origin: str) -> tuple[int, Any]:
        """A number that is no tensor: its value, and the object that stands for it in Python."""
        self.values.append(Value(kind))
        index = len(self.values) - 1
        return index, ScalarNode(self._record_scalar, self._refuse, kind, index, None, origin).symbol()

    def number_of(self, tensor: torch.Tensor) -> int | None:
        """The value that `tensor` is, or None when this recorder never met it."""
        known = tensor.__dict__.get(_NUMBER) if isinstance(tensor, FakeTensor) else None
        return known[1] if known is not None and known[0] is self else None

    def is_persistent(self, value: int) -> bool:
        return self.storages[self.values[value].storage].kind == StorageKind.persistent

    def stale_gradient(self, parameter: torch.Tensor) -> torch.Tensor:
        """Stands for a gradient from before the step: a step that uses it is refused."""
        with self.fake_mode:
            stale = torch.empty_like(parameter, requires_grad=False)
        stale.__dict__[_STALE] = True
        return stale

    def add_clone(self, source: int) -> int:
        """Appends a clone of a value; its result."""
        described = self.values[source]
        count = math.prod(described.sizes)
        nbytes = count * TORCH_OF_DTYPE[described.dtype].itemsize
        self.storages.append(Storage(StorageKind.ephemeral, 0, nbytes))
        strides = tuple(torch.empty(described.sizes, device="meta").stride())
        self.values.append(
            dataclasses.replace(
                described, storage=len(self.storages) - 1, storage_offset=0, strides=strides
            )
        )
        result = len(self.values) - 1
        arguments: list[tuple[str, Argument]] = [
            ("", ValueArgument(source)),
            ("memory_format", MemoryFormat.contiguous),
        ]
        self._append(Node("aten::clone", arguments, [NodeResult(False, [result])]))
        return result

    def add_copy(self, target: int, source: int) -> None:
        """Appends target.copy_(source)."""
        arguments: list[tuple[str, Argument]] = [
            ("", ValueArgument(target)),
            ("", ValueArgument(source)),
        ]
        self._append(
            Node("aten::copy_", arguments, [NodeResult(False, [NO_VALUE])], [target])
        )

    def number_constant(self, tensor: torch.Tensor, what: str) -> int:
        """The value of a real tensor that the step hands out unchanged."""
        return self._constant(tensor, what, "")

    # The dispatch mode.

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if not isinstance(func, torch._ops.OpOverload):
            raise self._refuse(f"{func} cannot be part of a step", "use torch's own operators")
        if func.namespace in ("profiler", "prim"):
            return func(*args, **kwargs)
        if func is torch.ops.aten._local_scalar_dense.default:
            return self._number_from(args[0])
        if operators.is_composite(func):
            with self:
                result = func.decompose(*args, **kwargs)
            if result is not NotImplemented:
                return result
        return self._record(func, args, kwargs)

    def _record(self, func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        source = self.lines.current()
        operators.check_allowed(func, source)
        func, args, kwargs = operators.declared_form(func, args, kwargs)
        func, args, kwargs, drawing = self._take_generator(func, args, kwargs, source)

        arguments = [("", self._argument(value, func, source)) for value in args]
        arguments += [(name, self._argument(v, func, source)) for name, v in kwargs.items()]
        if drawing is not None:
            self.drawing.add(operators.name_of(func))
            arguments.append((drawing, GeneratorArgument()))
        result = self._run_fake(func, args, kwargs)

        if func in operators.IDENTITY_OPERATORS or func in operators.CONSTANT_OPERATORS:
            if func in operators.CONSTANT_OPERATORS:
                self.fresh.add(self.values[arguments[0][1].value].storage)
            return self._remember(result, arguments[0][1].value)
        if torch.Tag.inplace_view in func.tags:
            return self._record_inplace_view(func, args, kwargs, arguments, result, source)
        node = Node(operators.name_of(func), arguments, source=source)
        node.writes = self._written(func, args, kwargs)
        node.results = self._results(func, result)
        self._append(node)
        return result

    def _append(self, node: Node) -> None:
        self.nodes.append(node)
        self.phases.append(self.phase)

    def _take_generator(
        self, func: Any, args: tuple, kwargs: dict[str, Any], source: str
    ) -> tuple[Any, tuple, dict[str, Any], str | None]:
        """A drawing operator loses its generator and its argument's name comes back; others pass."""
        if not operators.draws(func, args, kwargs):
            return func, args, kwargs, None
        if operators.generator_argument(func) is None:
            replaced = operators.with_generator(func)
            if replaced is None:
                raise CaptureError(
                    "this operator draws random numbers and cannot be told from which generator",
                    operator=operators.name_of(func),
                    source=source,
                    remedy="write it with torch.nn.functional.dropout or torch.bernoulli",
                )
            func = replaced
        name = operators.generator_argument(func)
        names = [argument.name for argument in func._schema.arguments]
        given = kwargs.get(name)
        position = names.index(name)
        if position < len(args):
            given = args[position]
            kwargs = {**dict(zip(names[position + 1 :], args[position + 1 :])), **kwargs}
            args = args[:position]
        if given is not None and given is not torch.default_generator:
            raise CaptureError(
                "the step draws from a generator of its own",
                operator=operators.name_of(func),
                source=source,
                remedy="draw from torch's default generator: leave generator= out",
            )
        return func, args, {k: v for k, v in kwargs.items() if k != name}, name

    def _run_fake(self, func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        """The call on fake tensors; numbers of the graph are replaced by ones, since no shape or
        dtype depends on them."""

        def plain(value: Any) -> Any:
            if isinstance(value, _SYMBOLS):
                return _OF_SYMBOL[type(value)]
            if isinstance(value, (list, tuple)):
                return type(value)(plain(element) for element in value)
            if isinstance(value, torch.Tensor) and not isinstance(value, FakeTensor):
                return self._constants[id(value)]
            return value

        try:
            result = func(*map(plain, args), **{name: plain(v) for name, v in kwargs.items()})
            if func in operators.MEASURED_OPERATORS:
                return self._measured(func, args, kwargs, result)
            return result
        except CaptureError:
            raise
        except (
            torch._subclasses.fake_tensor.DataDependentOutputException,
            torch._subclasses.fake_tensor.DynamicOutputShapeException,
        ) as error:
            raise CaptureError(
                "the shape of what this operator returns depends on data",
                operator=operators.name_of(func),
                source=self.lines.current(),
                remedy="use masks of a fixed shape",
            ) from error
        except torch._subclasses.fake_tensor.UnsupportedOperatorException as error:
            raise CaptureError(
                "this operator cannot tell its result's shape without running",
                operator=operators.name_of(func),
                source=self.lines.current(),
                remedy="compute it outside the step",
            ) from error

    def _measured(
        self, func: Any, args: tuple, kwargs: dict[str, Any], fakes: tuple
    ) -> tuple:
        """`fakes` with the layouts that the operator really gives, found by running it on zeros."""

        def zeros(value: Any) -> Any:
            if isinstance(value, torch.Tensor):
                made = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype)
                return made.zero_()
            if isinstance(value, (list, tuple)):
                return type(value)(zeros(element) for element in value)
            return value

        with torch.utils._python_dispatch._disable_current_modes():
            with torch._C._AutoDispatchBelowADInplaceOrView():
                real = func(*map(zeros, args), **{name: zeros(v) for name, v in kwargs.items()})
        with self.fake_mode:
            return tuple(
                fake
                if (fake.shape, fake.stride()) == (given.shape, given.stride())
                else torch.empty_strided(given.shape, given.stride(), dtype=given.dtype)
                for fake, given in zip(fakes, real)
            )

    # Arguments.

    def _argument(self, value: Any, func: Any, source: str) -> Argument:
        if isinstance(value, torch.Tensor):
            return ValueArgument(self._value_of(value, func, source))
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        if isinstance(value, (list, tuple)):
            return [self._argument(element, func, source) for element in value]
        if isinstance(value, _SYMBOLS):
            return value.node.argument()
        if isinstance(value, torch.dtype) and value in DTYPE_OF_TORCH:
            return DTYPE_OF_TORCH[value]
        if isinstance(value, torch.memory_format):
            return _FORMATS[value]
        if value is torch.strided:
            return LayoutArgument()
        if isinstance(value, torch.device) and value.type == "cpu":
            return DeviceArgument()
        raise CaptureError(
            f"an argument of type {type(value).__name__} ({value}) cannot be part of a step",
            operator=operators.name_of(func),
            source=source,
            remedy="use CPU tensors and plain Python numbers",
        )

    def _value_of(self, tensor: torch.Tensor, func: Any, source: str) -> int:
        known = self.number_of(tensor)
        if known is not None:
            return known
        if tensor.__dict__.get(_STALE):
            raise CaptureError(
                "the step uses gradients that are left from before it",
                operator=operators.name_of(func),
                source=source,
                remedy="call optimizer.zero_grad() before backward, with set_to_none=True",
            )
        if isinstance(tensor, FakeTensor):
            raise CaptureError(
                "a tensor appeared that no recorded operator made",
                operator=operators.name_of(func),
                source=source,
                remedy="make it inside the step with torch's own operators",
            )
        return self._constant(tensor, operators.name_of(func), source)

    def _constant(self, tensor: torch.Tensor, user: str, source: str) -> int:
        """A real tensor that the step reaches from outside becomes a slot of the job's image."""
        if id(tensor) in self._constants:
            return self.number_of(self._constants[id(tensor)])
        reason = self.forbidden.get(tensor.untyped_storage()._cdata)
        if reason is None and tensor.requires_grad:
            reason = "a tensor that requires a gradient but is no parameter of the model"
        if reason is not None:
            raise CaptureError(
                f"the step uses {reason}",
                operator=user,
                source=source,
                remedy="reach parameters through the model that the step is given",
            )
        known = self.slots.find(tensor)
        if known is None:
            check_tensor(tensor, "a tensor that the step captured")
            tensor_for_slot = tensor
            if tensor.untyped_storage().nbytes() != tensor.numel() * tensor.element_size():
                with torch.utils._python_dispatch._disable_current_modes():
                    tensor_for_slot = tensor.detach().clone()
            count = sum(slot.kind == SlotKind.constant for slot in self.slots.slots)
            known = self.slots.add(tensor_for_slot, ("constant", count), SlotKind.constant)
        else:
            tensor_for_slot = tensor
        with torch.utils._python_dispatch._disable_current_modes():
            fake = self.fake_mode.from_tensor(tensor_for_slot, static_shapes=True)
        self._kept.append(tensor)
        self._constants[id(tensor)] = fake
        return self.add_persistent(fake, known.index, known.nbytes)

    def _written(self, func: Any, args: tuple, kwargs: dict[str, Any]) -> list[int]:
        positions, names = operators.written_positions(func)
        written: list[int] = []
        for position, name in zip(positions, names):
            value = args[position] if position < len(args) else kwargs.get(name)
            for tensor in value if isinstance(value, (list, tuple)) else [value]:
                if isinstance(tensor, torch.Tensor):
                    known = tensor if isinstance(tensor, FakeTensor) else self._constants[id(tensor)]
                    index = self.number_of(known)
                    if index not in written:
                        written.append(index)
        return written

    # Results.

    def _results(self, func: Any, result: Any) -> list[NodeResult]:
        returns = func._schema.returns
        if not returns:
            return []
        parts = (result,) if len(returns) == 1 else tuple(result)
        described = []
        for part, written in zip(parts, operators.written_returns(func)):
            if isinstance(part, (list, tuple)):
                described.append(NodeResult(True, [self._result(p, written) for p in part]))
            else:
                described.append(NodeResult(False, [self._result(part, written)]))
        return described

    def _result(self, part: Any, written: bool) -> int:
        if not isinstance(part, torch.Tensor):
            if part is None:
                return NO_VALUE
            raise self._refuse(
                f"an operator returned {type(part).__name__}, only tensors can be results",
                "compute it outside the step",
            )
        # An in-place operator hands its argument back; an undefined tensor has no dtype we know.
        if written or self.number_of(part) is not None:
            return NO_VALUE
        return self._number(part)

    def _record_inplace_view(
        self,
        func: Any,
        args: tuple,
        kwargs: dict[str, Any],
        arguments: list[tuple[str, Argument]],
        result: torch.Tensor,
        source: str,
    ) -> torch.Tensor:
        """t_, squeeze_ and the like change only how a tensor looks at its bytes: the plain view is
        recorded, and the tensor is the new value from here on."""
        plain = operators.plain_view(func)
        if plain is None:
            raise CaptureError(
                "this operator changes a tensor's shape in place",
                operator=operators.name_of(func),
                source=source,
                remedy="use the form that returns a new tensor",
            )
        value = self._number(args[0])
        self._append(
            Node(operators.name_of(plain), arguments, [NodeResult(False, [value])], [], source)
        )
        return result

    # Numbers.

    def _number_from(self, tensor: torch.Tensor) -> Any:
        """A tensor's only element as a Python number of the graph."""
        source = self.lines.current()
        func = torch.ops.aten._local_scalar_dense.default
        operand = ValueArgument(self._value_of(tensor, func, source))
        if tensor.is_complex():
            raise self._refuse("a complex tensor is read into Python", "keep it a tensor")
        kind = ValueKind.real if tensor.is_floating_point() else ValueKind.integer
        if tensor.dtype == torch.bool:
            kind = ValueKind.boolean
        index, symbol = self.add_number(kind, f"a tensor read at {source}" if source else "a tensor")
        self._append(
            Node(
                "aten::_local_scalar_dense",
                [("", operand)],
                [NodeResult(False, [index])],
                [],
                source,
            )
        )
        return symbol

    def _record_scalar(self, op: str, operands: list, kind: ValueKind) -> int:
        self.values.append(Value(kind))
        index = len(self.values) - 1
        self._append(
            Node(
                op,
                [("", operand) for operand in operands],
                [NodeResult(False, [index])],
                [],
                self.lines.current(),
            )
        )
        return index

    def _refuse(self, message: str, remedy: str) -> CaptureError:
        return CaptureError(message, source=self.lines.current(), remedy=remedy)

    # Numbering.

    def _number(self, tensor: torch.Tensor) -> int:
        self._dtype(tensor)  # refuses what has no storage
        storage = tensor.untyped_storage()
        known = self._storage_numbers.get(storage._cdata)
        if known is None:
            self.storages.append(Storage(StorageKind.ephemeral, 0, storage.nbytes()))
            return self._number_on(tensor, len(self.storages) - 1)
        return self._number_on(tensor, known[1])

    def _number_on(self, tensor: torch.Tensor, storage: int) -> int:
        key = tensor.untyped_storage()
        # The weak reference keeps the address from being given to another storage.
        self._storage_numbers.setdefault(key._cdata, (StorageWeakRef(key), storage))
        self.values.append(
            Value(
                ValueKind.tensor,
                self._dtype(tensor),
                storage,
                tensor.storage_offset(),
                tuple(tensor.shape),
                tuple(tensor.stride()),
            )
        )
        self._remember(tensor, len(self.values) - 1)
        return len(self.values) - 1

    def _remember(self, tensor: torch.Tensor, index: int) -> torch.Tensor:
        tensor.__dict__[_NUMBER] = (self, index)
        return tensor

    def _dtype(self, tensor: torch.Tensor) -> DType:
        if tensor.device.type != "cpu":
            raise self._refuse(
                f"a tensor is on device {tensor.device}", "keep every tensor on the CPU"
            )
        if tensor.layout != torch.strided or tensor.dtype not in DTYPE_OF_TORCH:
            raise self._refuse(
                f"a tensor has layout {tensor.layout} and dtype {tensor.dtype}",
                "only plain strided tensors of the usual dtypes can be captured",
            )
        return DTYPE_OF_TORCH[tensor.dtype]
