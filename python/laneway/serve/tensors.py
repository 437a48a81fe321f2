"""Tensors as requests have them: a datatype, a shape and bytes, row-major and little-endian; and
the same as JSON."""

from __future__ import annotations

import array
import dataclasses
import math
import struct
from typing import Any

from laneway.serve.problem import Problem

# By KServe's name: bytes of an element, the type of torch, and the code of `array`, where numbers
# in JSON can have all of its values.
_FACTS: dict[str, tuple[int, str, str]] = {
    "BOOL": (1, "bool", "b"),
    "UINT8": (1, "uint8", "B"),
    "INT8": (1, "int8", "b"),
    "INT16": (2, "int16", "h"),
    "INT32": (4, "int32", "i"),
    "INT64": (8, "int64", "q"),
    "FP16": (2, "float16", ""),
    "BF16": (2, "bfloat16", ""),
    "FP32": (4, "float32", "f"),
    "FP64": (8, "float64", "d"),
}
DATATYPES = tuple(_FACTS)
OF_TORCH = {torch: name for name, (_, torch, _) in _FACTS.items()}
_FLOATS = ("FP32", "FP64")


@dataclasses.dataclass(slots=True)
class Tensor:
    """`data` has the bytes. Of an input it is no memoryview: Python's collector of cycles does not
    bear one whose memory cffi holds."""

    datatype: str
    shape: tuple[int, ...]
    data: Any


def element_bytes(datatype: str) -> int:
    return _FACTS[datatype][0]


def torch_name(datatype: str) -> str:
    """ "float32" of FP32."""
    return _FACTS[datatype][1]


def array_code(datatype: str) -> str:
    """The code of `array` for it; "" of FP16 and BF16."""
    return _FACTS[datatype][2]


def byte_count(datatype: str, shape: tuple[int, ...]) -> int:
    return math.prod(shape) * element_bytes(datatype)


def from_json(name: str, datatype: str, shape: tuple[int, ...], given: Any) -> bytes:
    """The bytes of numbers in a list, nested or not. Raises Problem."""
    code = _FACTS[datatype][2]
    if not code:
        raise Problem(400, f"input '{name}' is {datatype}, which JSON has not: send it as binary")
    if not isinstance(given, list):
        raise Problem(400, f"input '{name}': its data is a {type(given).__name__}, no list")
    flat = given if not given or not isinstance(given[0], list) else _flattened(name, given)
    if len(flat) != math.prod(shape):
        raise Problem(
            400,
            f"input '{name}' has shape {list(shape)}, that is {math.prod(shape)} elements, and "
            f"its data {len(flat)}",
        )
    try:
        if datatype == "BOOL":
            return _booleans(name, flat)
        if datatype not in _FLOATS and any(type(value) is not int for value in flat):
            raise TypeError("a whole number is wanted")
        made = array.array(code, flat)
        if datatype in _FLOATS and not all(map(math.isfinite, made)):
            raise OverflowError("a number is beyond its range; send infinity as binary")
        return made.tobytes()
    except (TypeError, OverflowError) as error:
        raise Problem(400, f"input '{name}' is {datatype}: {error}") from None


def _booleans(name: str, flat: list[Any]) -> bytes:
    wrong = next((value for value in flat if value not in (0, 1)), None)
    if wrong is not None:
        raise Problem(400, f"input '{name}' is BOOL and has {wrong!r}: give true or false")
    return bytes(map(int, flat))


def _flattened(name: str, given: list[Any]) -> list[Any]:
    for _ in range(64):
        if not given or not isinstance(given[0], list):
            if any(isinstance(part, list) for part in given):
                break
            return given
        if not all(isinstance(part, list) for part in given):
            break
        given = [value for part in given for value in part]
    raise Problem(400, f"input '{name}': the lists of its data are nested unevenly")


def to_json(name: str, tensor: Tensor) -> list[Any]:
    """The elements, flat. Raises Problem for values that JSON has not."""
    code = _FACTS[tensor.datatype][2]
    if not code:
        raise Problem(
            400, f"output '{name}' is {tensor.datatype}, which JSON has not: ask for it as binary"
        )
    elements = array.array(code)
    elements.frombytes(tensor.data)
    if tensor.datatype == "BOOL":
        return [bool(value) for value in elements]
    if tensor.datatype in _FLOATS and not all(map(math.isfinite, elements)):
        wrong = sum(not math.isfinite(value) for value in elements)
        raise Problem(
            400,
            f"output '{name}' has {wrong} values that JSON has not (NaN or infinite): ask for it "
            "as binary",
        )
    return elements.tolist()


def float32(data: Any) -> list[float]:
    """The numbers of FP32 bytes."""
    return list(struct.unpack(f"<{len(data) // 4}f", data))
