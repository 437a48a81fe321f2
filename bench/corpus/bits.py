"""Everything about results that a user can see, and how two of them differ."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from torch.utils import _pytree as pytree


@dataclasses.dataclass(frozen=True)
class Seen:
    """One result. `place` is what it shares memory with: an input, an earlier result, or nothing.
    `value` are a tensor's bytes, or the repr of anything else."""

    kind: str
    value: bytes | str
    shape: tuple[int, ...] = ()
    stride: tuple[int, ...] = ()
    bits: tuple[bool, bool] = (False, False)
    place: str = ""


@dataclasses.dataclass
class Difference:
    """`real` is what counts, `laid` what counts where strides do, `small` what counts nowhere."""

    real: str = ""
    laid: str = ""
    small: str = ""


def seen(results: Any, inputs: list[torch.Tensor] = ()) -> list[Seen]:
    """What is seen of each leaf of `results`, and of the inputs afterwards."""
    places: dict[int, str] = {}
    for index, tensor in enumerate(inputs):
        if _has_memory(tensor):
            places.setdefault(tensor.untyped_storage().data_ptr(), f"input {index}")
    described = []
    for index, value in enumerate([*pytree.tree_leaves(results), *inputs]):
        if not isinstance(value, torch.Tensor):
            described.append(Seen(type(value).__name__, repr(value)))
            continue
        plain = value.detach()
        if plain.layout != torch.strided:
            described.append(Seen(f"{plain.layout} {plain.dtype}", bytes_of(plain.to_dense())))
            continue
        place = ""
        if _has_memory(plain):
            pointer = plain.untyped_storage().data_ptr()
            place = places.setdefault(pointer, f"result {index}")
            if place.startswith("input"):
                place += f" at {plain.storage_offset()}"
        bits = (plain.is_conj(), plain.is_neg())
        shape = tuple(plain.shape)
        described.append(
            Seen(str(plain.dtype), bytes_of(plain), shape, plain.stride(), bits, place)
        )
    return described


def _has_memory(tensor: torch.Tensor) -> bool:
    return tensor.layout == torch.strided and tensor.untyped_storage().nbytes() > 0


def bytes_of(tensor: torch.Tensor) -> bytes:
    """The elements in row-major order."""
    dense = torch.empty(
        tensor.shape, dtype=tensor.dtype
    )  # contiguous() keeps odd strides of size 1
    dense.copy_(tensor.detach().resolve_conj().resolve_neg())
    return dense.reshape(-1).view(torch.uint8).numpy().tobytes() if dense.numel() else b""


def difference(expected: list[Seen], found: list[Seen]) -> Difference:
    """How the results differ from what was expected."""
    if len(expected) != len(found):
        return Difference(real=f"{len(found)} results instead of {len(expected)}")
    result = Difference()
    for index, (a, b) in enumerate(zip(expected, found)):
        one = _difference(a, b)
        for name in ("real", "laid", "small"):
            if getattr(one, name) and not getattr(result, name):
                setattr(result, name, f"result {index}: {getattr(one, name)}")
    return result


def _difference(a: Seen, b: Seen) -> Difference:
    if a.kind != b.kind:
        return Difference(real=f"{b.kind} instead of {a.kind}")
    if a.shape != b.shape:
        return Difference(real=f"shape {b.shape} instead of {a.shape}")
    laid = small = ""
    if a.value != b.value:
        if isinstance(a.value, str):
            return Difference(real=f"{str(b.value)[:60]} instead of {a.value[:60]}")
        if _without_nans(a) != _without_nans(b):
            return Difference(real=_numbers(a, b))
        small = "bits of what is not a number"
    if a.bits != b.bits:
        laid = f"conj and neg bits {b.bits} instead of {a.bits}"
    if a.place != b.place:
        laid = f"shares memory with {b.place or 'nothing'} instead of {a.place or 'nothing'}"
    if a.stride != b.stride:
        text = f"strides {b.stride} instead of {a.stride} of {a.shape}"
        if 0 in a.shape or all(
            x == y for size, x, y in zip(a.shape, a.stride, b.stride) if size > 1
        ):
            small = text
        else:
            laid = text
    return Difference(laid=laid, small=small)


def _without_nans(a: Seen) -> bytes:
    """The bytes with one and the same NaN for all: its sign and payload are no part of a result,
    and vectorised and scalar code of one operator give others."""
    dtype = getattr(torch, a.kind.removeprefix("torch."), None)
    if not isinstance(dtype, torch.dtype) or not (dtype.is_floating_point or dtype.is_complex):
        return a.value
    numbers = torch.frombuffer(bytearray(a.value), dtype=dtype)
    numbers = torch.view_as_real(numbers) if dtype.is_complex else numbers
    plain = numbers.masked_fill(numbers.isnan(), float("nan"))
    return plain.contiguous().view(torch.uint8).numpy().tobytes()


def _numbers(a: Seen, b: Seen) -> str:
    name = a.kind.removeprefix("torch.")
    dtype = getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype):
        return "other values"
    if dtype == torch.bool:
        dtype = torch.uint8
    theirs = torch.frombuffer(bytearray(a.value), dtype=dtype)
    ours = torch.frombuffer(bytearray(b.value), dtype=dtype)
    differ = theirs.view(torch.uint8) != ours.view(torch.uint8)
    count = int(differ.reshape(theirs.numel(), -1).any(1).sum())
    wide = torch.complex128 if dtype.is_complex else torch.float64
    theirs, ours = theirs.to(wide), ours.to(wide)
    error = float((theirs - ours).abs().nan_to_num().max() / theirs.abs().nan_to_num().max())
    return f"{count} of {theirs.numel()} elements differ, by up to {error:.1g} of the largest"
