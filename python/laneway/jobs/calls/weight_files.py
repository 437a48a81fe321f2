"""Weights that a job takes straight from files: the client reads the files' headers, the service
reads the tensors when the job gets its memory, and no process holds them twice.

The format is that of safetensors: eight bytes with the header's length (little-endian), the header
(JSON: name -> {"dtype", "shape", "data_offsets"}), the tensors, contiguous and row-major. Files of
save_weights() have in the header's "__metadata__" the entry "laneway.crc32", too: JSON with the
CRC-32 (zlib's) of each tensor's bytes. The service checks what it loads against them.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import os
import tempfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from laneway.capture.module_swap import swapped
from laneway.errors import InvalidInput
from laneway.graph.slots import Slot, mark_in_file
from laneway.native.bindings import ffi

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]

_DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "C64": torch.complex64,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}
_METADATA = "__metadata__"
_CHECKSUMS = "laneway.crc32"
_MOST_HEADER_BYTES = 100_000_000  # as safetensors has it
_LENGTH_BYTES = 8


@dataclasses.dataclass(frozen=True)
class Entry:
    """One tensor of a file; `offset` is from the file's beginning, in bytes."""

    file: int
    dtype: torch.dtype
    shape: tuple[int, ...]
    offset: int
    nbytes: int
    crc32: int | None


class WeightFiles:
    """The files that a model without memory (on the meta device) has its weights in. A tensor on
    the meta device comes from the file that has its name in state_dict(); the others are the
    model's. The files stay open until close()."""

    def __init__(self, model: torch.nn.Module, paths: Paths) -> None:
        """Raises OSError, and InvalidInput when a file is of another format or has other tensors
        than the model lacks."""
        given = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
        self._names = [os.fspath(path) for path in given]
        self._open = contextlib.ExitStack()
        self._files: list[Any] = []
        self._seen: list[os.stat_result] = []
        entries: dict[str, Entry] = {}
        try:
            for number, name in enumerate(self._names):
                file = open(name, "rb")  # noqa: SIM115
                self._files.append(self._open.enter_context(file))
                self._seen.append(os.fstat(self._files[-1].fileno()))
                for tensor, entry in _header(self._files[-1], name, number).items():
                    if tensor in entries:
                        raise InvalidInput(f"{name} has '{tensor}', and an earlier file has it too")
                    entries[tensor] = entry
            self._stand_ins, self._of_storage = _matched(model, entries, self._names)
        except BaseException:
            self.close()
            raise
        self._model = model

    @contextlib.contextmanager
    def in_place(self) -> Iterator[None]:
        """Inside, the model has tensors on the CPU in the place of those in the files. Their memory
        is never touched."""
        with swapped([self._model], self._stand_ins):
            yield

    def has(self, slot: Slot) -> bool:
        """Whether the slot's first bytes are in the files."""
        return slot.initial.untyped_storage()._cdata in self._of_storage

    def give(self, options: Any, slots: Sequence[Slot]) -> Any:
        """Sets the files and ranges of laneway_job_options; what is returned must live as long as
        they are used. Raises InvalidInput when a file changed since its header was read."""
        for file, seen, name in zip(self._files, self._seen, self._names):
            now = os.fstat(file.fileno())
            if (now.st_size, now.st_mtime_ns) != (seen.st_size, seen.st_mtime_ns):
                raise InvalidInput(
                    f"{name} was written to since it was opened: write a new file and rename it, "
                    "and make the inference again"
                )
        found = [
            (slot, entry)
            for slot in slots
            if (entry := self._of_storage.get(slot.initial.untyped_storage()._cdata)) is not None
            and entry.nbytes > 0
        ]
        files = ffi.new("laneway_file[]", len(self._files))
        names = [ffi.new("char[]", os.fsencode(name)) for name in self._names]
        for number, file in enumerate(self._files):
            files[number].descriptor = file.fileno()
            files[number].name = names[number]
        ranges = ffi.new("laneway_file_range[]", max(1, len(found)))
        for made, (slot, entry) in zip(ranges, found):
            made.slot = slot.index
            made.file = entry.file
            made.file_offset = entry.offset
            made.bytes = entry.nbytes
            made.has_crc32 = int(entry.crc32 is not None)
            made.crc32 = entry.crc32 or 0
        options.files, options.file_count = files, len(self._files)
        options.ranges, options.range_count = ranges, len(found)
        return files, names, ranges

    def close(self) -> None:
        """The job has them, or there is none."""
        self._open.close()


def save_weights(
    model: torch.nn.Module | Mapping[str, torch.Tensor], path: str | os.PathLike[str]
) -> None:
    """Writes the tensors of a model, or of a state_dict(), to a file for inference(weights=), which
    every reader of safetensors reads too, and the checksum of each. Tensors that share memory, tied
    weights for instance, are written once. Whole or not at all: the file that was there before is
    replaced. Raises OSError, and InvalidInput for what such a file cannot hold."""
    state = model.state_dict() if isinstance(model, torch.nn.Module) else dict(model)
    header: dict[str, Any] = {}
    sums: dict[str, int] = {}
    views: list[memoryview] = []
    written: set[tuple] = set()
    at = 0
    for name, tensor in state.items():
        bytes_of = _bytes_of(name, tensor)
        same = (tensor.data_ptr(), tensor.dtype, tuple(tensor.shape), tensor.stride())
        if tensor.numel() > 0 and same in written:
            continue
        written.add(same)
        header[name] = {
            "dtype": _NAMES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [at, at + len(bytes_of)],
        }
        sums[name] = zlib.crc32(bytes_of)
        views.append(bytes_of)
        at += len(bytes_of)
    header = {_METADATA: {"format": "pt", _CHECKSUMS: json.dumps(sums)}, **header}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % _LENGTH_BYTES)
    target = Path(path)
    descriptor, aside = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(len(text).to_bytes(_LENGTH_BYTES, "little"))
            file.write(text)
            for view in views:
                file.write(view)
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, target)
    except BaseException:
        os.unlink(aside)
        raise


def _bytes_of(name: str, tensor: Any) -> memoryview:
    if not isinstance(tensor, torch.Tensor) or tensor.dtype not in _NAMES:
        what = tensor.dtype if isinstance(tensor, torch.Tensor) else type(tensor).__name__
        raise InvalidInput(f"'{name}' is {what}: a file of weights holds {', '.join(_DTYPES)}")
    if tensor.device.type == "meta":
        raise InvalidInput(f"'{name}' is on the meta device: it has no bytes to write")
    plain = tensor.detach().cpu().contiguous().reshape(-1)
    return memoryview(plain.view(torch.uint8).numpy()) if plain.numel() else memoryview(b"")


def _header(file: Any, name: str, number: int) -> dict[str, Entry]:
    """The tensors of one file."""

    def bad(why: str) -> InvalidInput:
        return InvalidInput(f"{name} is no file of safetensors: {why}")

    size = os.fstat(file.fileno()).st_size
    length = int.from_bytes(file.read(_LENGTH_BYTES), "little")
    if size < _LENGTH_BYTES or length > min(_MOST_HEADER_BYTES, size - _LENGTH_BYTES):
        raise bad(f"its header is said to have {length} bytes, and the file has {size}")
    try:
        header = json.loads(file.read(length))
        if not isinstance(header, dict):
            raise TypeError(f"its header is a {type(header).__name__}")
        metadata = header.pop(_METADATA, {})
        sums = json.loads(metadata.get(_CHECKSUMS, "{}"))
        return {
            tensor: _entry(one, number, _LENGTH_BYTES + length, size, sums.get(tensor))
            for tensor, one in header.items()
        }
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise bad(str(error)) from error


def _entry(one: dict[str, Any], number: int, data: int, size: int, crc32: Any) -> Entry:
    if one["dtype"] not in _DTYPES:
        raise ValueError(f"it has a tensor of the dtype {one['dtype']}, which is not known here")
    dtype, shape = _DTYPES[one["dtype"]], tuple(int(n) for n in one["shape"])
    begin, end = (int(n) for n in one["data_offsets"])
    nbytes = math.prod(shape) * dtype.itemsize
    if min(shape, default=0) < 0 or begin < 0 or end - begin != nbytes or data + end > size:
        raise ValueError(
            f"a tensor of {nbytes} bytes lies from {begin} to {end}, and the file has {size}: "
            "it is cut short, or damaged"
        )
    if crc32 is not None and not 0 <= int(crc32) < 1 << 32:
        raise ValueError(f"{crc32!r} is no CRC-32")
    return Entry(number, dtype, shape, data + begin, nbytes, None if crc32 is None else int(crc32))


def _matched(
    model: torch.nn.Module, entries: dict[str, Entry], files: list[str]
) -> tuple[dict[int, torch.Tensor], dict[int, Entry]]:
    """For each tensor without memory what stands in for it, by its id, and by the storage of that
    the tensor's place."""
    named = dict(model.named_parameters(remove_duplicate=False))
    named.update(model.named_buffers(remove_duplicate=False))
    absent: dict[int, tuple[str, torch.Tensor]] = {}
    found: dict[int, Entry] = {}
    for name, tensor in named.items():
        entry = entries.pop(name, None)
        if tensor.device.type != "meta":
            if entry is not None:
                raise InvalidInput(
                    f"the model has memory for '{name}', and {files[entry.file]} has it too: build "
                    "the model under torch.device('meta'), or give a file without it"
                )
            continue
        absent.setdefault(id(tensor), (name, tensor))
        if entry is not None:
            _check_form(name, tensor, entry, files[entry.file])
            found[id(tensor)] = entry
    for name, entry in entries.items():
        raise InvalidInput(
            f"{files[entry.file]} has '{name}', which the model does not have: it is another "
            "model's, or the names have a prefix"
        )
    stand_ins: dict[int, torch.Tensor] = {}
    of_storage: dict[int, Entry] = {}
    for key, (name, tensor) in absent.items():
        if key not in found:
            raise InvalidInput(
                f"'{name}' is on the meta device, and no file has it: give the file that does, or "
                "give it memory (buffers that state_dict() leaves out are the model's own)"
            )
        made = torch.empty_like(tensor, device="cpu", requires_grad=False)
        if isinstance(tensor, torch.nn.Parameter):
            made = torch.nn.Parameter(made, requires_grad=tensor.requires_grad)
        mark_in_file(made, name)
        stand_ins[key] = made
        of_storage[made.untyped_storage()._cdata] = found[key]
    return stand_ins, of_storage


def _check_form(name: str, tensor: torch.Tensor, entry: Entry, file: str) -> None:
    if (tensor.dtype, tuple(tensor.shape)) != (entry.dtype, entry.shape):
        raise InvalidInput(
            f"'{name}' is {entry.dtype}, {list(entry.shape)} in {file}; the model's is "
            f"{tensor.dtype}, {list(tensor.shape)}: convert the model (.to()), or take its own file"
        )
    if not tensor.is_contiguous():
        raise InvalidInput(
            f"'{name}' has strides {list(tensor.stride())}, and files hold contiguous tensors: "
            "build the model without that memory format"
        )
