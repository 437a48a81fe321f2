"""Records the operators of one step while it runs on fake tensors.

A dispatch mode below autograd, above fake mode: it sees exactly the operators that eager execution
would run on the CPU, in their order, forward and backward, with torch's Python dispatcher off (with
it on, recurrent layers unroll and some bits change).
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch._subclasses import fake_tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from laneway.capture import addressed, random_state
from laneway.capture.constants import Constants
from laneway.capture.fake_failures import check_real
from laneway.capture.given_generators import GivenGenerators, drawing_from
from laneway.capture.known_numbers import KnownNumbers
from laneway.capture.user_lines import UserLines
from laneway.capture.value_table import ValueTable
from laneway.cuda.cuda_calls import CudaCalls
from laneway.errors import CaptureError
from laneway.graph.graph_ir import (
    DTYPE_OF_TORCH,
    FORMAT_OF_TORCH,
    NO_VALUE,
    Argument,
    DeviceArgument,
    GeneratorArgument,
    LayoutArgument,
    Node,
    NodeResult,
    StorageKind,
    ValueArgument,
    ValueKind,
)
from laneway.graph.slots import SlotTable
from laneway.graph.target import Target
from laneway.operators import layouts, operators, refusal_words, whole_operators
from laneway.operators.direct_fakes import DirectFakes
from laneway.operators.scalars import SYMBOLS, ScalarNode

_STALE = "_laneway_stale"
# Any number serves where only shapes and dtypes are computed.
_OF_SYMBOL = {torch.SymFloat: 1.0, torch.SymInt: 1, torch.SymBool: True}
_UNKNOWN_SHAPE = (
    fake_tensor.DynamicOutputShapeException,
    fake_tensor.UnsupportedOperatorException,
)


def _unanswered(func: torch._ops.OpOverload) -> CaptureError:
    return CaptureError(
        "this operator answers Python with what is only known when it runs",
        remedy=refusal_words.of_answer(func._schema.name),
    )


class StaleGradient(CaptureError):
    """The step uses a gradient from before it, and gradients are not kept."""


def mark_stale(tensor: torch.Tensor, error: CaptureError | None = None) -> None:
    """Makes `tensor` stand for a gradient from before the step: using it is refused by `error`."""
    tensor.__dict__[_STALE] = error or StaleGradient(
        "the step uses gradients that are left from before it",
        remedy="call optimizer.zero_grad() before backward, with set_to_none=True; or make "
        "the step with keep_gradients=True, if its calls accumulate gradients",
    )


class Recorder(TorchDispatchMode):
    """Fills a value table and nodes; `phases[i]` is that in which nodes[i] was recorded (see
    late_form.Draft). One per capture, used by one thread; not to be used after it."""

    def __init__(
        self,
        fake_mode: FakeTensorMode,
        slots: SlotTable,
        target: Target = Target.cpu,
        shares_random: bool = False,
    ) -> None:
        """`shares_random`: the step draws from the client's generators, not from the job's."""
        super().__init__()
        self.target = target
        self._cuda = CudaCalls() if target is Target.cuda else None
        self.fake_mode = fake_mode
        self.slots = slots
        self.table = ValueTable()
        self.generators = GivenGenerators(self.table) if shares_random else None
        self.constants = Constants(fake_mode, slots)
        self.addressed = addressed.Addressed(self.table, self.constants)
        self.nodes: list[Node] = []
        self.phases, self.phase = list[str](), "step"
        self.drawing: set[str] = set()  # names of recorded operators that draw random numbers
        self.fresh: set[int] = set()  # storages of Python literals
        self.ignored: CaptureError | None = None  # raised in the step, which may have caught it
        self.known = KnownNumbers(self.table, slots, self.nodes, self.fresh)
        self._lines = UserLines()
        self._direct = DirectFakes(fake_mode)
        self.supports_higher_order_operators = True  # they reach the recorder, which refuses them

    def add_number(self, kind: ValueKind, origin: str) -> tuple[int, Any]:
        """A number that is no tensor: its value, and the object that stands for it in Python."""
        index = self.table.add_number(kind)
        known = self.known.number
        node = ScalarNode(self._record_scalar, self.noted, known, kind, index, None, origin)
        return index, node.symbol()

    def value_of(self, tensor: torch.Tensor) -> int:
        """The value of `tensor`. A real tensor becomes a slot when it is used for the first
        time."""
        known = self.table.find(tensor)
        if known is not None:
            return known
        if not isinstance(tensor, FakeTensor):
            fake = self.constants.find(tensor)
            if fake is None:
                fake, slot = self.constants.add(tensor)
                return self.table.add_persistent(fake, slot.index, slot.nbytes)
            return self.table.find(fake)
        if _STALE in tensor.__dict__:
            raise copy.copy(tensor.__dict__[_STALE])  # without a traceback, which holds the run
        raise CaptureError(
            "a tensor appeared that no recorded operator made",
            remedy="make it inside the step with torch's own operators",
        )

    def written_inputs(self) -> list[int]:
        """Positions of the graph inputs that a recorded node writes."""
        written = (self.table.values[value].storage for node in self.nodes for value in node.writes)
        storages = (self.table.storages[storage] for storage in written)
        return sorted({s.index for s in storages if s.kind == StorageKind.input})

    def read_random_state(self) -> torch.Tensor:
        """The state of the job's generator at this point, as torch.get_rng_state() gives it."""
        with _disable_current_modes(), self.fake_mode:
            state = torch.empty(random_state.STATE_BYTES, dtype=torch.uint8)
        results = [NodeResult(False, [self.table.add(state)])]
        self._record_random(Node(random_state.READ, [], results))
        return state

    def restore_random_state(self, state: torch.Tensor) -> None:
        """Records that the job's generator gets `state` at this point. Raises CaptureError for a
        tensor that is no state."""
        is_state = isinstance(state, torch.Tensor) and state.dtype == torch.uint8
        if not is_state or tuple(state.shape) != (random_state.STATE_BYTES,):
            raise self.refusal(
                "the step sets a random state that is not one of torch.get_rng_state()",
                "keep what get_rng_state() returns as it is",
            )
        argument = ("", ValueArgument(self.value_of(state.contiguous())))
        self._record_random(Node(random_state.RESTORE, [argument]))

    def _record_random(self, node: Node) -> None:
        node.arguments.append(("generator", GeneratorArgument()))
        node.source = self._lines.current(of_operator=False)
        self.drawing.add(node.op)
        self._append(node)

    # The dispatch mode.

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if not isinstance(func, torch._ops.OpOverload):
            raise self.refusal(
                f"{func} cannot be part of a step",
                "use plain operators of torch: torch.where instead of torch.cond",
            )
        if func.namespace in ("profiler", "prim"):
            return func(*args, **kwargs)
        if func in operators.ANSWERED_BY_SHAPES:
            return func(*args, **kwargs)
        source = self._lines.current()
        try:
            if func is torch.ops.aten._local_scalar_dense.default:
                return self._number_from(args[0], source)
            if func in operators.ANSWERED_BY_DATA:
                return self._answer(func, args)
            if self.target.is_composite(func) and func.name() not in whole_operators.OPERATORS:
                with self:
                    result = func.decompose(*args, **kwargs)
                if result is not NotImplemented:
                    return result
            if operators.out_arguments(func):
                return self._record_out(func, args, kwargs)
            return self._record(func, args, kwargs, source)
        except CaptureError as error:
            if error.source is None and error.operator is None:
                raise error.at(operators.name_of(func), source) from error.__cause__
            raise
        except Exception as error:
            plain = {name: self._plain(value) for name, value in kwargs.items()}
            check_real(func, self._plain(args), plain, source, error)
            raise

    def _record(self, func: Any, args: tuple, kwargs: dict[str, Any], source: str) -> Any:
        operators.check_allowed(func)
        args, kwargs = operators.with_plain_integers(func, args, kwargs)
        if self._cuda is not None:
            args, kwargs = self._cuda.call(func, args, kwargs)
        func, args, kwargs = operators.declared_form(func, args, kwargs)
        func, args, kwargs, generator, given = operators.without_generator(func, args, kwargs)
        if given is not None:
            with drawing_from(self, self.generators, given):
                return self._record(func, args, kwargs, source)
        kept = args if self._cuda is None else self._cuda.arguments(func, args)
        arguments = [("", self._argument(value)) for value in kept]
        if func in addressed.OPERATORS:
            self.addressed.note(arguments[0][1].value, func, args, kwargs)
        arguments += [(name, self._argument(value)) for name, value in kwargs.items()]
        if generator is not None:
            self.drawing.add(operators.name_of(func))
            arguments.append((generator, GeneratorArgument()))
        result = self._run_fake(func, args, kwargs | ({generator: None} if generator else {}))
        if func in operators.IDENTITY_OPERATORS or func in operators.CONSTANT_OPERATORS:
            value = arguments[0][1].value
            if func in operators.CONSTANT_OPERATORS:
                self.fresh.add(self.table.values[value].storage)
            self.table.same(result, value)
            return result
        if torch.Tag.inplace_view in func.tags:
            # t_, squeeze_ and similar operators change only a tensor's view of its bytes: the plain
            # view is recorded, and the tensor is the new value from here on.
            results = [NodeResult(False, [self.table.add(args[0])])]
            op = operators.name_of(operators.plain_view(func))
            self._append(Node(op, arguments, results, [], source))
            return result
        node = Node(operators.name_of(func), arguments, source=source)
        node.writes = self._written(func, args, kwargs)
        kept = result if self._cuda is None else self._cuda.results(func, result)
        node.results = self._results(func, kept)
        self._append(node)
        return result

    def _record_out(self, func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Records an operator with out= as the plain operator and a copy: out= may resize its
        tensor, these two do not."""
        plain = operators.without_out(func)
        names = operators.out_arguments(func)
        outs = [kwargs.pop(name) for name in names if name in kwargs]
        if plain is None or len(outs) != len(names):
            raise CaptureError("this operator puts its result into out=", remedy="leave out= out")
        with self:
            results = plain(*args, **kwargs)
            for out, result in zip(outs, results if isinstance(results, tuple) else (results,)):
                if out.shape != result.shape:
                    raise CaptureError(
                        f"out= has shape {list(out.shape)}, the result {list(result.shape)}",
                        remedy="give out= the shape of the result, or leave it out",
                    )
                out.copy_(result)
        return outs[0] if len(outs) == 1 else tuple(outs)

    def _append(self, node: Node) -> None:
        self.known.check_writes(node)
        self.nodes.append(node)
        self.phases.append(self.phase)

    def _run_fake(self, func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Makes the call on fake tensors, with any number in place of numbers of the graph."""
        args = tuple(map(self._plain, args))
        kwargs = {name: self._plain(value) for name, value in kwargs.items()}
        fake = None if self._cuda is None else self._cuda.fake(func)
        if fake is not None:
            return fake(*args, **kwargs)
        if layouts.is_measured(func, args, self.target):
            result = layouts.measured(self.fake_mode, func, args, kwargs)
            if result is not NotImplemented:
                return result
        result = self._direct.run(func, args, kwargs)
        if result is not NotImplemented:
            return result
        try:
            return func(*args, **kwargs)
        except fake_tensor.DataDependentOutputException as error:
            raise _unanswered(func) from error
        except _UNKNOWN_SHAPE as error:
            raise CaptureError(
                "the shape of what this operator returns is only known when it runs",
                remedy=refusal_words.of_unknown_shape(func._schema.name),
            ) from error

    def _plain(self, value: Any) -> Any:
        if isinstance(value, SYMBOLS):
            return _OF_SYMBOL[type(value)]
        if isinstance(value, (list, tuple)):
            return type(value)(map(self._plain, value))
        if isinstance(value, torch.Tensor) and not isinstance(value, FakeTensor):
            return self.constants.find(value)
        return value

    # Arguments and results.

    def _argument(self, value: Any) -> Argument:
        if isinstance(value, torch.Tensor):
            return ValueArgument(self.value_of(value))
        if value is None or isinstance(value, (bool, int, float, complex, str)):
            return value
        if isinstance(value, (list, tuple)):
            return [self._argument(element) for element in value]
        if isinstance(value, SYMBOLS):
            return value.node.argument()
        if isinstance(value, torch.dtype) and value in DTYPE_OF_TORCH:
            return DTYPE_OF_TORCH[value]
        if isinstance(value, torch.memory_format):
            return FORMAT_OF_TORCH[value]
        if value is torch.strided:
            return LayoutArgument()
        if isinstance(value, torch.device) and value.type == "cpu":
            return DeviceArgument()
        raise CaptureError(
            f"an argument of type {type(value).__name__} ({value}) cannot be part of a step",
            remedy=refusal_words.of_argument(value),
        )

    def _written(self, func: Any, args: tuple, kwargs: dict[str, Any]) -> list[int]:
        positions, names = operators.written_positions(func)
        written: dict[int, None] = {}
        for position, name in zip(positions, names):
            value = args[position] if position < len(args) else kwargs.get(name)
            for tensor in value if isinstance(value, (list, tuple)) else [value]:
                if isinstance(tensor, torch.Tensor):
                    written[self.value_of(tensor)] = None
        return list(written)

    def _results(self, func: Any, result: Any) -> list[NodeResult]:
        if not func._schema.returns:
            return []
        parts = (result,) if len(func._schema.returns) == 1 else tuple(result)
        described = []
        for part, written in zip(parts, operators.written_returns(func)):
            is_list = isinstance(part, (list, tuple))
            elements = part if is_list else [part]
            described.append(NodeResult(is_list, [self._result(e, written) for e in elements]))
        return described

    def _result(self, part: Any, written: bool) -> int:
        if part is None:
            return NO_VALUE
        if not isinstance(part, torch.Tensor):
            raise CaptureError(
                f"an operator returned {type(part).__name__}, only tensors can be results",
                remedy="compute it outside the step",
            )
        # An in-place operator returns its argument.
        if written or self.table.find(part) is not None:
            return NO_VALUE
        return self.table.add(part)

    # Numbers.

    def _number_from(self, tensor: torch.Tensor, source: str) -> Any:
        """A tensor's only element as a Python number of the graph."""
        operand = ValueArgument(self.value_of(tensor))
        if tensor.is_complex():
            raise CaptureError("a complex tensor is read into Python", remedy="keep it a tensor")
        kind = ValueKind.real if tensor.is_floating_point() else ValueKind.integer
        if tensor.dtype == torch.bool:
            kind = ValueKind.boolean
        index, symbol = self.add_number(kind, f"a tensor read at {source or 'an unknown line'}")
        results = [NodeResult(False, [index])]
        self._append(Node("aten::_local_scalar_dense", [("", operand)], results, [], source))
        return symbol

    def _answer(self, func: Any, args: tuple) -> bool:
        """The operator's answer to Python, where it is known. Its node is needed for guards only,
        and is dropped from the graph."""
        operands = list(map(self._argument, args))
        index = self._record_scalar(operators.name_of(func), operands, ValueKind.boolean)
        answer = self.known.number((ValueArgument(index),))
        if answer is None:
            raise _unanswered(func)
        return bool(answer)

    def _record_scalar(self, op: str, operands: list, kind: ValueKind) -> int:
        index = self.table.add_number(kind)
        arguments, results = [("", operand) for operand in operands], [NodeResult(False, [index])]
        self._append(Node(op, arguments, results, [], self._lines.current()))
        return index

    def text_refusal(self, of: str) -> CaptureError:
        """The error for text of what `of` names."""
        return self.noted(refusal_words.text_of(of), refusal_words.OF_TEXT)

    def noted(self, message: str, remedy: str, source: str | None = None) -> CaptureError:
        """A refusal that ends the run where the user's code catches it, too."""
        error = CaptureError(message, source=source or self._lines.current(), remedy=remedy)
        self.ignored = self.ignored or error
        return self.ignored

    def refusal(self, message: str, remedy: str) -> CaptureError:
        """A CaptureError to raise that names the user's line."""
        return CaptureError(message, source=self._lines.current(), remedy=remedy)
