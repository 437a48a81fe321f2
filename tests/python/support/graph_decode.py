"""Reads the binary form of a graph back, written from the description in lanes/graph/graph_codec.h
and not from the encoder."""

from __future__ import annotations

import struct

from laneway.graph.graph_ir import (
    FLOAT32_USES,
    Argument,
    DeviceArgument,
    DType,
    GeneratorArgument,
    Graph,
    GraphKind,
    LayoutArgument,
    MemoryFormat,
    Node,
    NodeResult,
    NumericContext,
    Storage,
    StorageKind,
    Value,
    ValueArgument,
    ValueKind,
)


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, code: str) -> int | float:
        (found,) = struct.unpack_from("<" + code, self.data, self.at)
        self.at += struct.calcsize("<" + code)
        return found

    def truth(self) -> bool:
        number = self.take("B")
        assert number in (0, 1)
        return bool(number)

    def text(self) -> str:
        length = self.take("I")
        self.at += length
        return self.data[self.at - length : self.at].decode("utf-8")

    def numbers(self, code: str = "I") -> list[int]:
        return [self.take(code) for _ in range(self.take("I"))]


def decode_graph(data: bytes) -> Graph:
    """The graph; nothing may be left over."""
    r = _Reader(data)
    assert data[:4] == b"LWGR"
    r.at = 4
    assert r.take("I") == 2
    name, kind = r.text(), GraphKind(r.take("B"))
    context = NumericContext(
        r.take("i"),
        *(r.truth() for _ in range(4)),
        tuple(r.take("B") for _ in FLOAT32_USES),
        DType(r.take("B")),
    )
    texts = [r.text() for _ in range(r.take("I"))]
    assert texts[0] == ""
    graph = Graph(name, kind, context)
    graph.storages = [
        Storage(StorageKind(r.take("B")), r.take("I"), r.take("Q")) for _ in range(r.take("I"))
    ]
    graph.values = [_value(r) for _ in range(r.take("I"))]
    graph.inputs = r.numbers()
    graph.outputs = r.numbers()
    graph.nodes = [_node(r, texts) for _ in range(r.take("I"))]
    graph.first_write = r.take("I")
    assert r.at == len(data)
    return graph


def _value(r: _Reader) -> Value:
    kind = ValueKind(r.take("B"))
    if kind != ValueKind.tensor:
        return Value(kind)
    dtype, storage, offset, count = DType(r.take("B")), r.take("I"), r.take("q"), r.take("I")
    sizes = tuple(r.take("q") for _ in range(count))
    strides = tuple(r.take("q") for _ in range(count))
    return Value(kind, dtype, storage, offset, sizes, strides)


def _node(r: _Reader, texts: list[str]) -> Node:
    op, source = texts[r.take("I")], texts[r.take("I")]
    arguments = [(texts[r.take("I")], _argument(r)) for _ in range(r.take("I"))]
    results = [NodeResult(r.truth(), r.numbers()) for _ in range(r.take("I"))]
    return Node(op, arguments, results, r.numbers(), source)


def _argument(r: _Reader) -> Argument:
    readers = [
        lambda: None,
        lambda: ValueArgument(r.take("I")),
        lambda: r.take("q"),
        lambda: r.take("d"),
        r.truth,
        r.text,
        lambda: DType(r.take("B")),
        lambda: MemoryFormat(r.take("B")),
        LayoutArgument,
        DeviceArgument,
        GeneratorArgument,
        lambda: [_argument(r) for _ in range(r.take("I"))],
        lambda: complex(r.take("d"), r.take("d")),
    ]
    return readers[r.take("B")]()
