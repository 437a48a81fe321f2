"""A plain interpreter of the graph, through torch.ops, for tests of capture.

It shares nothing with the C++ runner and little with capture: it reads the graph as data, holds
every slot as bytes of its own, and checks as it goes that what an operator really gives has the
dtype, layout and storage that the graph says, and that nothing persistent changes before
first_write or outside of a node's declared writes.
"""

from __future__ import annotations

from typing import Any

import torch

from laneway.capture.capture import CapturedJobGraph
from laneway.capture.optimizers import StateTensor
from laneway.graph.graph_ir import (
    NO_VALUE,
    TORCH_OF_DTYPE,
    TORCH_OF_FORMAT,
    DeviceArgument,
    DType,
    GeneratorArgument,
    Graph,
    LayoutArgument,
    MemoryFormat,
    Node,
    StorageKind,
    ValueArgument,
    ValueKind,
)
from laneway.graph.slots import Slot
from laneway.operators.scalars import SCALAR_OPERATORS

_RANDOM_OPERATORS = {
    "laneway::random_state": lambda generator: generator.get_state(),
    "laneway::restore_random_state": lambda state, generator: generator.set_state(state),
}


def resolve(op: str) -> Any:
    """torch's overload of a name such as "aten::add.Tensor"."""
    namespace, rest = op.split("::")
    name, _, overload = rest.partition(".")
    return getattr(getattr(getattr(torch.ops, namespace), name), overload or "default")


class ReferenceJob:
    """The image of a job and its generator; runs any of the job's graphs."""

    def __init__(self, slots: list[Slot], generator: torch.Generator | None = None) -> None:
        self.slots = slots
        self.storages = [slot.initial_bytes().clone().untyped_storage() for slot in slots]
        self.checked: set[int] = set()  # graphs whose writes were compared with what they declare
        self.generator = generator or torch.Generator()
        if generator is None:
            self.generator.set_state(torch.get_rng_state())

    def step(
        self,
        captured: CapturedJobGraph,
        args: tuple,
        kwargs: dict[str, Any] | None = None,
        optimizer: torch.optim.Optimizer | None = None,
    ) -> Any:
        """One iteration, from Python arguments to the Python result."""
        values = captured.inputs.values(args, kwargs, [optimizer] if optimizer else [])
        values += _fixed(captured, len(values))
        run = _Run(captured.graph, self, values)
        return captured.outputs.rebuild(run.outputs())

    def tensor(self, slot: int, position: int = 0) -> torch.Tensor:
        """A copy of a slot's tensor."""
        return self.slots[slot].tensors[position].view(self.storages[slot]).clone()

    def model_state(self, prefix: str = "model") -> dict[str, torch.Tensor]:
        """Parameters and buffers by their name in state_dict."""
        return {
            tensor.path[1]: tensor.view(self.storages[slot.index]).clone()
            for slot in self.slots
            for tensor in slot.tensors
            if tensor.path[0] == prefix
        }

    def optimizer_state(
        self, captured: CapturedJobGraph, optimizer: torch.optim.Optimizer, stepped: bool = True
    ) -> dict[str, Any]:
        def read(entry: StateTensor) -> torch.Tensor:
            return self.tensor(entry.slot, entry.position)

        return captured.optimizer_layouts[0].state_dict(optimizer, read, stepped)


def _fixed(captured: CapturedJobGraph, first: int) -> list[torch.Tensor]:
    """The tensors of the inputs behind those of the signature."""
    graph = captured.graph
    found = []
    for number, held in zip(graph.inputs[first:], captured.fixed, strict=True):
        value = graph.values[number]
        empty = torch.empty(0, dtype=TORCH_OF_DTYPE[value.dtype])
        found.append(
            empty.set_(held.untyped_storage(), value.storage_offset, value.sizes, value.strides)
        )
    return found


class _Run:
    """One iteration of one graph."""

    def __init__(self, graph: Graph, job: ReferenceJob, inputs: list[Any]) -> None:
        self.graph = graph
        self.job = job
        self.values: dict[int, Any] = {}
        self.addresses: dict[int, int] = {}  # ephemeral storage -> address of its bytes
        self._check_inputs(inputs)
        self.values.update(zip(graph.inputs, inputs))
        image = None if id(graph) in job.checked else [_bytes_of(s).clone() for s in job.storages]
        for index, node in enumerate(graph.nodes):
            self._run(node)
            if image is not None and index + 1 == graph.first_write:
                self._check_unchanged(image, set(), "before first_write")
        if image is not None:
            self._check_unchanged(image, self._declared_writes(), "and no node says so")
            job.checked.add(id(graph))

    def outputs(self) -> list[Any]:
        results = []
        for value in self.graph.outputs:
            result = self._value(value)
            results.append(result.clone() if isinstance(result, torch.Tensor) else result)
        return results

    def _check_inputs(self, inputs: list[Any]) -> None:
        assert len(inputs) == len(self.graph.inputs)
        for index, given in zip(self.graph.inputs, inputs):
            if isinstance(given, torch.Tensor):
                self._check(index, given, "input")

    def _declared_writes(self) -> set[int]:
        return {
            self.graph.storages[self.graph.values[v].storage].index
            for node in self.graph.nodes
            for v in node.writes
            if self.graph.is_persistent(v)
        }

    def _check_unchanged(self, image: list[torch.Tensor], allowed: set[int], when: str) -> None:
        for slot, (before, now) in enumerate(zip(image, self.job.storages)):
            same = slot in allowed or torch.equal(before, _bytes_of(now))
            assert same, f"slot {self.job.slots[slot].name} changed {when}"

    def _value(self, index: int) -> Any:
        if index == NO_VALUE:
            return None
        if index not in self.values:
            described = self.graph.values[index]
            storage = self.graph.storages[described.storage]
            assert storage.kind == StorageKind.persistent, f"value {index} is not made yet"
            self.values[index] = torch.empty(0, dtype=TORCH_OF_DTYPE[described.dtype]).set_(
                self.job.storages[storage.index],
                described.storage_offset,
                described.sizes,
                described.strides,
            )
        return self.values[index]

    def _argument(self, argument: Any) -> Any:
        if isinstance(argument, ValueArgument):
            return self._value(argument.value)
        if isinstance(argument, DType):
            return TORCH_OF_DTYPE[argument]
        if isinstance(argument, MemoryFormat):
            return TORCH_OF_FORMAT[argument]
        if isinstance(argument, LayoutArgument):
            return torch.strided
        if isinstance(argument, DeviceArgument):
            return torch.device("cpu")
        if isinstance(argument, GeneratorArgument):
            return self.job.generator
        if isinstance(argument, list):
            return [self._argument(element) for element in argument]
        return argument

    def _run(self, node: Node) -> None:
        args = [self._argument(a) for name, a in node.arguments if not name]
        kwargs = {name: self._argument(a) for name, a in node.arguments if name}
        if node.op in SCALAR_OPERATORS:
            result = SCALAR_OPERATORS[node.op](*args)
        elif node.op in _RANDOM_OPERATORS:
            result = _RANDOM_OPERATORS[node.op](*args, **kwargs)
        else:
            # Recurrent layers look at the gradient mode, autograd itself is skipped.
            gradients = node.op != "aten::mkldnn_rnn_layer" or args[-1]
            with torch._C._AutoDispatchBelowADInplaceOrView(), torch.set_grad_enabled(gradients):
                result = resolve(node.op)(*args, **kwargs)
        if not node.results:
            return
        parts = (result,) if len(node.results) == 1 else result
        assert len(parts) == len(node.results)
        for described, part in zip(node.results, parts):
            elements = part if described.is_list else [part]
            assert len(elements) == len(described.values), f"{node.op}: number of results"
            for index, element in zip(described.values, elements):
                if index != NO_VALUE:
                    assert index not in self.values, f"{node.op}: value {index} is made twice"
                    self._check(index, element, node.op)
                    self.values[index] = element

    def _check(self, index: int, given: Any, where: str) -> None:
        described = self.graph.values[index]
        if described.kind != ValueKind.tensor:
            types = {ValueKind.real: float, ValueKind.integer: int, ValueKind.boolean: bool}
            wanted = types[described.kind]
            assert type(given) is wanted, f"{where}: {given!r} is no {wanted.__name__}"
            return
        storage = self.graph.storages[described.storage]
        found = (given.dtype, tuple(given.shape), given.storage_offset())
        expected = (TORCH_OF_DTYPE[described.dtype], described.sizes, described.storage_offset)
        assert found == expected, f"{where}: value {index} is {found}, the graph says {expected}"
        if given.numel() > 1:
            real = [s for s, size in zip(given.stride(), given.shape) if size != 1]
            said = [s for s, size in zip(described.strides, given.shape) if size != 1]
            assert real == said, f"{where}: value {index} has strides {real}, the graph says {said}"
        nbytes = given.untyped_storage().nbytes()
        assert nbytes == storage.nbytes, f"{where}: {nbytes} bytes, the graph says {storage.nbytes}"
        if nbytes and storage.kind != StorageKind.input:
            address = given.untyped_storage().data_ptr()
            if storage.kind == StorageKind.persistent:
                known = self.job.storages[storage.index].data_ptr()
            else:
                known = self.addresses.setdefault(described.storage, address)
            assert address == known, f"{where}: value {index} is not on storage {described.storage}"


def _bytes_of(storage: torch.UntypedStorage) -> torch.Tensor:
    return torch.empty(0, dtype=torch.uint8).set_(storage)
