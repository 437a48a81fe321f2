"""One iteration as data: the Python mirror of lanes/graph/graph.h.

Operator calls (nodes) over numbered values; nothing in it is code and nothing in it is an address.
Field names, their order and the numbers of the enums are those of the header; graph_encode.py
writes the binary form. Plain data without behaviour.
"""

from __future__ import annotations

import dataclasses
import enum

import torch

NO_VALUE = 0xFFFFFFFF  # an undefined tensor, or a result nobody uses


class DType(enum.IntEnum):
    boolean = 0
    uint8 = 1
    int8 = 2
    int16 = 3
    int32 = 4
    int64 = 5
    float16 = 6
    bfloat16 = 7
    float32 = 8
    float64 = 9
    complex64 = 10
    complex128 = 11


DTYPE_OF_TORCH: dict[torch.dtype, DType] = {
    torch.bool: DType.boolean,
    torch.uint8: DType.uint8,
    torch.int8: DType.int8,
    torch.int16: DType.int16,
    torch.int32: DType.int32,
    torch.int64: DType.int64,
    torch.float16: DType.float16,
    torch.bfloat16: DType.bfloat16,
    torch.float32: DType.float32,
    torch.float64: DType.float64,
    torch.complex64: DType.complex64,
    torch.complex128: DType.complex128,
}
TORCH_OF_DTYPE: dict[DType, torch.dtype] = {ours: theirs for theirs, ours in DTYPE_OF_TORCH.items()}


class StorageKind(enum.IntEnum):
    ephemeral = 0
    input = 1
    persistent = 2


class ValueKind(enum.IntEnum):
    tensor = 0
    integer = 1
    real = 2
    boolean = 3


class MemoryFormat(enum.IntEnum):
    contiguous = 0
    preserve = 1
    channels_last = 2
    channels_last_3d = 3


FORMAT_OF_TORCH: dict[torch.memory_format, MemoryFormat] = {
    torch.contiguous_format: MemoryFormat.contiguous,
    torch.preserve_format: MemoryFormat.preserve,
    torch.channels_last: MemoryFormat.channels_last,
    torch.channels_last_3d: MemoryFormat.channels_last_3d,
}
TORCH_OF_FORMAT: dict[MemoryFormat, torch.memory_format] = {
    ours: theirs for theirs, ours in FORMAT_OF_TORCH.items()
}


class GraphKind(enum.IntEnum):
    train = 0
    evaluate = 1
    inference = 2


class SlotKind(enum.IntEnum):
    parameter = 0
    buffer = 1
    optimizer_state = 2
    gradient = 3
    constant = 4


@dataclasses.dataclass
class Storage:
    kind: StorageKind
    index: int = 0  # input: position in Graph.inputs; persistent: slot; else 0
    nbytes: int = 0


@dataclasses.dataclass
class Value:
    """For a tensor all fields; for a number only the kind."""

    kind: ValueKind
    dtype: DType = DType.float32
    storage: int = 0
    storage_offset: int = 0  # elements
    sizes: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()


@dataclasses.dataclass(frozen=True)
class ValueArgument:
    value: int


@dataclasses.dataclass(frozen=True)
class LayoutArgument:
    """Strided is the only layout."""


@dataclasses.dataclass(frozen=True)
class DeviceArgument:
    """The device of the lane."""


@dataclasses.dataclass(frozen=True)
class GeneratorArgument:
    """The job's own generator."""


# None, numbers, booleans, strings, DType and MemoryFormat stand for themselves.
Argument = (
    None
    | ValueArgument
    | int
    | float
    | complex
    | bool
    | str
    | DType
    | MemoryFormat
    | LayoutArgument
    | DeviceArgument
    | GeneratorArgument
    | list
)


@dataclasses.dataclass
class NodeResult:
    is_list: bool
    values: list[int]


@dataclasses.dataclass
class Node:
    op: str  # "aten::add.Tensor"; scalar arithmetic: "scalar::add"
    arguments: list[tuple[str, Argument]]  # name "": positional, in schema order, first
    results: list[NodeResult] = dataclasses.field(default_factory=list)
    writes: list[int] = dataclasses.field(default_factory=list)
    source: str = ""

    def reads(self) -> list[int]:
        """Values among the arguments, in order; a value may occur more than once."""
        found: list[int] = []
        for _, argument in self.arguments:
            collect_values(argument, found)
        return found


def collect_values(argument: Argument, found: list[int]) -> None:
    """Appends the values that `argument` names to `found`."""
    if isinstance(argument, ValueArgument):
        if argument.value != NO_VALUE:
            found.append(argument.value)
    elif isinstance(argument, list):
        for element in argument:
            collect_values(element, found)


# Library and kind of operator for which torch has a precision of float32 products.
FLOAT32_USES = (
    ("cuda", "matmul"),
    ("cuda", "conv"),
    ("cuda", "rnn"),
    ("mkldnn", "matmul"),
    ("mkldnn", "conv"),
    ("mkldnn", "rnn"),
)


@dataclasses.dataclass
class NumericContext:
    threads: int = 1
    mkldnn: bool = True
    deterministic: bool = False
    deterministic_warn_only: bool = False
    flush_denormal: bool = False
    # Of FLOAT32_USES, in their order: 0 full, 1 TF32, 2 bfloat16. The defaults are torch's.
    float32: tuple[int, ...] = (0, 1, 1, 0, 0, 0)
    default_dtype: DType = DType.float32


@dataclasses.dataclass
class Graph:
    name: str
    kind: GraphKind
    context: NumericContext
    storages: list[Storage] = dataclasses.field(default_factory=list)
    values: list[Value] = dataclasses.field(default_factory=list)
    inputs: list[int] = dataclasses.field(default_factory=list)
    outputs: list[int] = dataclasses.field(default_factory=list)
    nodes: list[Node] = dataclasses.field(default_factory=list)
    first_write: int = 0

    def is_persistent(self, value: int) -> bool:
        """Whether the value's bytes are in the job's image."""
        described = self.values[value]
        return (
            described.kind == ValueKind.tensor
            and self.storages[described.storage].kind == StorageKind.persistent
        )
