"""A job of the service over the C interface, without torch: bytes in, bytes out."""

from __future__ import annotations

import json
import os
from typing import Any

from laneway.errors import Error, ServiceUnavailable
from laneway.jobs.control.scheduling import Scheduling
from laneway.jobs.service import Service
from laneway.native import bindings
from laneway.native.bindings import ffi
from laneway.serve.making import Form, Plan
from laneway.serve.tensors import byte_count


class Graph:
    """A form of a job: its number there, and bytes of inputs that are the same in each call.
    `has_run`: whether the memory that it shares with the service is made."""

    def __init__(self, form: Form, number: int) -> None:
        self.form, self.number = form, number
        self.has_run = False
        self._fixed = [None if isinstance(one, int) else one.read_bytes() for one in form.inputs]
        self.out_bytes = [byte_count(d or "FP64", shape) for d, shape in form.every]

    def inputs(self, given: list[Any]) -> list[Any]:
        """The graph's, from the model's."""
        return [
            given[one] if fixed is None else fixed  # type: ignore[index]
            for one, fixed in zip(self.form.inputs, self._fixed)
        ]


class NativeJob:
    """Made and offered at once; the calls that wait are those of waiters.py. Thread-safe."""

    def __init__(self, service: Service, name: str, plan: Plan, priority: int) -> None:
        """Raises what the service says."""
        self.service, self.library = service, service.library
        options = ffi.new("laneway_job_options *")
        options.size = ffi.sizeof("laneway_job_options")
        Scheduling(priority=priority).give(options, "inference")
        names = [ffi.new("char[]", name.encode()), os.fsencode(plan.image)]
        slots = ffi.new("laneway_slot[]", max(1, len(plan.slots)))
        ranges = ffi.new("laneway_file_range[]", max(1, len(plan.slots)))
        count = 0
        for index, row in enumerate(plan.slots):
            names.append(ffi.new("char[]", row["name"].encode()))
            slots[index].name, slots[index].kind = names[-1], row["kind"]
            slots[index].bytes = row["bytes"]
            if row["bytes"]:
                of = ranges[count]
                of.slot, of.file_offset, of.bytes = index, row["offset"], row["bytes"]
                of.has_crc32, of.crc32 = 1, row["crc32"]
                count += 1
        file_name = ffi.new("char[]", names[1])
        random_state = ffi.from_buffer(plan.random_state.read_bytes())
        graph = plan.first.graph.read_bytes()
        options.name, options.slots, options.slot_count = names[0], slots, len(plan.slots)
        options.random_state = int(ffi.cast("uintptr_t", random_state))
        options.random_state_bytes = len(random_state)
        handle, error = ffi.new("laneway_job **"), bindings.new_error()
        with open(plan.image, "rb") as image:
            files = ffi.new("laneway_file[]", 1)
            files[0].descriptor, files[0].name = image.fileno(), file_name
            if count:
                options.files, options.file_count = files, 1
                options.ranges, options.range_count = ranges, count
            code = self.library.lib.laneway_job_create(
                service.native_handle(), options, graph, len(graph), handle, error
            )
        if code != bindings.OK:
            raise bindings.exception_of(code, error)
        self.handle = ffi.gc(handle[0], self.library.lib.laneway_job_release)
        self.closed = False

    def add(self, graph: bytes) -> int:
        index, error = ffi.new("uint32_t *"), bindings.new_error()
        code = self.library.lib.laneway_job_add_graph(self.handle, graph, len(graph), index, error)
        if code != bindings.OK:
            raise bindings.exception_of(code, error)
        return int(index[0])

    def drop(self, number: int) -> None:
        self.library.lib.laneway_job_drop_graph(self.handle, number, ffi.NULL)

    def pin(self) -> None:
        """Keeps its image in the pool. Raises what the service says."""
        text, error = ffi.new("char **"), bindings.new_error()
        code = self.library.lib.laneway_job_report(self.handle, 0, text, error)
        if code != bindings.OK:
            raise bindings.exception_of(code, error)
        report = json.loads(self.library.take_text(text))
        self.service.command("pin", str(report["status"]["id"]))

    def close(self) -> None:
        """Waits for a running iteration."""
        self.closed = True
        self.library.lib.laneway_job_close(self.handle)


class Placing:
    """Waits until a job has its memory; for waiters.py."""

    def __init__(self, job: NativeJob) -> None:
        self._job = job
        self.failed: Error | None = None
        self.why = "it was not asked yet"  # it waits
        self.gone = False

    def begin(self) -> bool:
        return False

    def look(self, timeout_ns: int) -> bool:
        """Whether it is over."""
        if self.gone or self._job.closed:
            self.failed = ServiceUnavailable("the model was unloaded")
            return True
        error = bindings.new_error()
        code = self._job.library.lib.laneway_job_wait(self._job.handle, timeout_ns, error)
        if code == bindings.PENDING:
            self.why = bindings.message_of(error)
            return False
        if code != bindings.OK:
            self.failed = bindings.exception_of(code, error)
        return True


class Iteration:
    """One iteration; for waiters.py. `outputs` are filled when it ended well."""

    __slots__ = ("job", "_graph", "_given", "_native", "_pending", "outputs", "failed", "gone")

    def __init__(self, job: NativeJob, graph: Graph, given: list[Any]) -> None:
        self.job, self._graph, self._given = job, graph, given
        self.outputs = [bytearray(size) for size in graph.out_bytes]
        self._native: Any = None
        self._pending: Any = None
        self.failed: Error | None = None
        self.gone = False  # nobody wants it any more

    def begin(self) -> bool:
        """Gives it to the service, unless that was done. Whether it is over."""
        return self.gone or (self._pending is None and self._over(self._begun()))

    def _begun(self) -> bool:
        inputs, keep = ffi.new("laneway_input[]", max(1, len(self._given))), []
        for index, data in enumerate(self._given):
            keep.append(ffi.from_buffer(data))
            inputs[index].data = int(ffi.cast("uintptr_t", keep[-1]))
            inputs[index].bytes = len(data)
        self._native = ffi.new("laneway_output[]", max(1, len(self.outputs)))
        for index, room in enumerate(self.outputs):
            keep.append(ffi.from_buffer(room))
            self._native[index].data = int(ffi.cast("uintptr_t", keep[-1]))
            self._native[index].bytes = len(room)
        pending, error = ffi.new("laneway_submission **"), bindings.new_error()
        lib = self.job.library.lib
        count = len(self._given)
        handle, number = self.job.handle, self._graph.number
        code = lib.laneway_submit(handle, number, inputs, count, pending, error)
        self._given = keep  # alive until it is over
        if code != bindings.OK:
            self.failed = bindings.exception_of(code, error)
            return True
        self._pending = ffi.gc(pending[0], lib.laneway_submission_release)
        return False

    def look(self, timeout_ns: int) -> bool:
        """Whether it is over. Takes back what nobody wants and has not begun."""
        return self._over(self._ended(timeout_ns))

    def _over(self, over: bool) -> bool:
        if over:  # what the library no longer needs
            self._given, self._native, self._pending = [], None, None
        return over

    def _ended(self, timeout_ns: int) -> bool:
        lib, error = self.job.library.lib, bindings.new_error()
        if self.gone and lib.laneway_cancel(self._pending, ffi.NULL) == bindings.OK:
            return True
        count = len(self.outputs)
        code = lib.laneway_wait(self._pending, timeout_ns, self._native, count, error)
        if code == bindings.PENDING:
            return False
        if code != bindings.OK:
            self.failed = bindings.exception_of(code, error)
        return True
