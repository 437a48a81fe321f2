"""The binary form of a graph, exactly as lanes/graph/graph_codec.h describes it.

Little-endian; texts are interned in one table whose entry 0 is the empty string.
"""

from __future__ import annotations

import struct

from laneway.errors import GraphError
from laneway.graph.graph_ir import (
    NO_VALUE,
    Argument,
    DeviceArgument,
    DType,
    GeneratorArgument,
    Graph,
    LayoutArgument,
    MemoryFormat,
    Node,
    NumericContext,
    Storage,
    Value,
    ValueArgument,
    ValueKind,
)

MAGIC = b"LWGR"
FORMAT_VERSION = 2

# Tags of the binary form, in the order of the variant in graph.h.
_NONE, _VALUE, _INTEGER, _REAL, _BOOLEAN, _TEXT, _DTYPE, _FORMAT, _LAYOUT, _DEVICE, _GENERATOR = (
    range(11)
)
_LIST, _COMPLEX = 11, 12


class _Writer:
    """Appends little-endian fields to a buffer."""

    def __init__(self) -> None:
        self.buffer = bytearray()

    def u8(self, number: int) -> None:
        self.buffer += struct.pack("<B", number)

    def u32(self, number: int) -> None:
        self.buffer += struct.pack("<I", number)

    def u64(self, number: int) -> None:
        self.buffer += struct.pack("<Q", number)

    def i32(self, number: int) -> None:
        self.buffer += struct.pack("<i", number)

    def i64(self, number: int) -> None:
        self.buffer += struct.pack("<q", number)

    def f64(self, number: float) -> None:
        self.buffer += struct.pack("<d", number)

    def boolean(self, truth: bool) -> None:
        self.u8(1 if truth else 0)

    def text(self, content: str) -> None:
        encoded = content.encode("utf-8")
        self.u32(len(encoded))
        self.buffer += encoded

    def u32_list(self, numbers: list[int]) -> None:
        self.buffer += struct.pack(f"<I{len(numbers)}I", len(numbers), *numbers)

    def i64s(self, numbers: tuple[int, ...]) -> None:
        self.buffer += struct.pack(f"<{len(numbers)}q", *numbers)


class _TextTable:
    """Numbers strings in order of first use; the empty string is number 0."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {"": 0}

    def number(self, content: str) -> int:
        return self.numbers.setdefault(content, len(self.numbers))


def encode_graph(graph: Graph) -> bytes:
    """The bytes that decode_graph of lanes/graph/graph_codec.h reads back to the same graph."""
    texts = _TextTable()
    nodes = _Writer()
    nodes.u32(len(graph.nodes))
    for node in graph.nodes:
        _write_node(nodes, texts, node)

    out = _Writer()
    out.buffer += MAGIC
    out.u32(FORMAT_VERSION)
    out.text(graph.name)
    out.u8(int(graph.kind))
    _write_context(out, graph.context)
    out.u32(len(texts.numbers))
    for content in texts.numbers:
        out.text(content)
    out.u32(len(graph.storages))
    for storage in graph.storages:
        _write_storage(out, storage)
    out.u32(len(graph.values))
    for value in graph.values:
        _write_value(out, value)
    out.u32_list(graph.inputs)
    out.u32_list(graph.outputs)
    out.buffer += nodes.buffer
    out.u32(graph.first_write)
    return bytes(out.buffer)


def _write_context(out: _Writer, context: NumericContext) -> None:
    out.i32(context.threads)
    out.boolean(context.mkldnn)
    out.boolean(context.deterministic)
    out.boolean(context.deterministic_warn_only)
    out.boolean(context.flush_denormal)
    for precision in context.float32:
        out.u8(precision)
    out.u8(int(context.default_dtype))


def _write_storage(out: _Writer, storage: Storage) -> None:
    out.u8(int(storage.kind))
    out.u32(storage.index)
    out.u64(storage.nbytes)


def _write_value(out: _Writer, value: Value) -> None:
    out.u8(int(value.kind))
    if value.kind != ValueKind.tensor:
        return
    out.u8(int(value.dtype))
    out.u32(value.storage)
    out.i64(value.storage_offset)
    out.u32(len(value.sizes))
    out.i64s(value.sizes)
    out.i64s(value.strides)


def _write_node(out: _Writer, texts: _TextTable, node: Node) -> None:
    out.u32(texts.number(node.op))
    out.u32(texts.number(node.source))
    out.u32(len(node.arguments))
    for name, argument in node.arguments:
        out.u32(texts.number(name))
        _write_argument(out, argument)
    out.u32(len(node.results))
    for result in node.results:
        out.boolean(result.is_list)
        out.u32_list(result.values)
    out.u32_list(node.writes)


def _write_argument(out: _Writer, argument: Argument) -> None:
    # DType, MemoryFormat and bool are integers too, so they come before int.
    if argument is None:
        out.u8(_NONE)
    elif isinstance(argument, ValueArgument):
        out.u8(_VALUE)
        out.u32(argument.value if argument.value is not None else NO_VALUE)
    elif isinstance(argument, DType):
        out.u8(_DTYPE)
        out.u8(int(argument))
    elif isinstance(argument, MemoryFormat):
        out.u8(_FORMAT)
        out.u8(int(argument))
    elif isinstance(argument, bool):
        out.u8(_BOOLEAN)
        out.boolean(argument)
    elif isinstance(argument, int):
        out.u8(_INTEGER)
        out.i64(argument)
    elif isinstance(argument, float):
        out.u8(_REAL)
        out.f64(argument)
    elif isinstance(argument, complex):
        out.u8(_COMPLEX)
        out.f64(argument.real)
        out.f64(argument.imag)
    elif isinstance(argument, str):
        out.u8(_TEXT)
        out.text(argument)
    elif isinstance(argument, LayoutArgument):
        out.u8(_LAYOUT)
    elif isinstance(argument, DeviceArgument):
        out.u8(_DEVICE)
    elif isinstance(argument, GeneratorArgument):
        out.u8(_GENERATOR)
    elif isinstance(argument, list):
        out.u8(_LIST)
        out.u32(len(argument))
        for element in argument:
            _write_argument(out, element)
    else:
        raise GraphError(f"an argument of type {type(argument).__name__} has no binary form")
