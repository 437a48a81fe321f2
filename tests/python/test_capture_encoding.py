"""The binary form: what the encoder writes is what lanes/graph/graph_codec.h describes.

A graph with every kind of field is compared byte for byte with bytes put together by hand from that
description, and captured graphs come back equal through a decoder that was written from it too, and
not from the encoder.
"""

from __future__ import annotations

import math
import struct

import pytest
import torch
from torch import nn

from laneway.capture.capture import capture_train_step
from laneway.errors import GraphError
from laneway.graph.graph_encode import encode_graph
from laneway.graph.graph_ir import (
    FLOAT32_USES,
    NO_VALUE,
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


ARGUMENTS = [
    None,
    ValueArgument(1),
    -7,
    1.5,
    0.5 - 1j,
    True,
    "mean",
    DType.int64,
    MemoryFormat.preserve,
    LayoutArgument(),
    DeviceArgument(),
    GeneratorArgument(),
    [1, [2.0], []],
]


def small_graph() -> Graph:
    context = NumericContext(2, False, True, False, True, (1, 0, 1, 2, 0, 1))
    graph = Graph("g", GraphKind.inference, context)
    graph.storages = [Storage(StorageKind.input, 0, 24), Storage(StorageKind.persistent, 5, 8)]
    graph.values = [
        Value(ValueKind.tensor, DType.float32, 0, 1, (2, 3), (3, 1)),
        Value(ValueKind.real),
    ]
    graph.inputs, graph.outputs = [0, 1], [0]
    graph.nodes = [Node("aten::x", [("", 3), ("y", 0.5)], [NodeResult(True, [0, NO_VALUE])], [0])]
    graph.first_write = 1
    return graph


def test_bytes_are_those_of_the_description() -> None:
    def text(content: str) -> bytes:
        return struct.pack("<I", len(content)) + content.encode()

    expected = b"LWGR" + struct.pack("<I", 2) + text("g") + bytes([2])
    expected += struct.pack("<i", 2) + bytes([0, 1, 0, 1, 1, 0, 1, 2, 0, 1, 8])
    expected += struct.pack("<I", 3) + text("") + text("aten::x") + text("y")
    expected += struct.pack("<I", 2) + struct.pack("<BIQ", 1, 0, 24) + struct.pack("<BIQ", 2, 5, 8)
    expected += struct.pack("<I", 2)
    expected += struct.pack("<BBIqI4q", 0, 8, 0, 1, 2, 2, 3, 3, 1) + bytes([2])
    expected += struct.pack("<3I", 2, 0, 1) + struct.pack("<2I", 1, 0)
    expected += struct.pack("<I", 1) + struct.pack("<2I", 1, 0)
    expected += struct.pack("<I", 2) + struct.pack("<IBq", 0, 2, 3) + struct.pack("<IBd", 2, 3, 0.5)
    expected += struct.pack("<I", 1) + struct.pack("<B3I", 1, 2, 0, 0xFFFFFFFF)
    expected += struct.pack("<2I", 1, 0) + struct.pack("<I", 1)
    assert encode_graph(small_graph()) == expected


@pytest.mark.parametrize("argument", ARGUMENTS, ids=repr)
def test_every_argument_comes_back(argument: object) -> None:
    graph = small_graph()
    graph.nodes[0].arguments = [("name", argument)]
    found = decode_graph(encode_graph(graph))
    assert found == graph
    assert type(found.nodes[0].arguments[0][1]) is type(argument)


def test_odd_reals_come_back_bit_for_bit() -> None:
    graph = small_graph()
    reals = [math.inf, -math.inf, -0.0, 5e-324, math.nan]
    graph.nodes[0].arguments = [("", real) for real in reals]
    found = [argument for _, argument in decode_graph(encode_graph(graph)).nodes[0].arguments]
    assert [struct.pack("<d", a) for a in found] == [struct.pack("<d", a) for a in reals]


def test_what_has_no_binary_form_is_refused() -> None:
    graph = small_graph()
    graph.nodes[0].arguments = [("", {1})]
    with pytest.raises(GraphError, match="set"):
        encode_graph(graph)


def test_captured_graphs_come_back_equal_and_are_the_same_twice() -> None:
    """Capture is deterministic: the same step gives the same bytes."""
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Dropout(), nn.Flatten())
    model.append(nn.Linear(2 * 36, 3))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    inputs = (torch.randn(4, 1, 8, 8), torch.randint(0, 3, (4,)))
    first, second = (
        capture_train_step(model, nn.functional.cross_entropy, optimizer, inputs) for _ in range(2)
    )
    assert decode_graph(first.encode()) == first.graph
    assert first.encode() == second.encode()
