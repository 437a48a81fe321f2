"""Job: an admitted (or waiting) job of a service as Python holds it, and Future, one iteration of
it that was submitted. Steps and inferences are made of these."""

from __future__ import annotations

import asyncio
import json
import time
import weakref
from collections.abc import Callable, Generator, Sequence
from typing import Any

import torch

from laneway.errors import InvalidInput, LayoutError, Refused, ServiceUnavailable
from laneway.graph.slots import Slot
from laneway.jobs.calls import draws
from laneway.jobs.calls.draws import Drawn
from laneway.jobs.calls.outputs import Buffers, Outputs
from laneway.jobs.calls.slot_contents import Contents
from laneway.jobs.calls.wait_notice import WaitNotice
from laneway.jobs.calls.weight_files import WeightFiles
from laneway.jobs.control.scheduling import Scheduling, settings_text
from laneway.native import bindings
from laneway.native.bindings import ffi
from laneway.native.process import ProcessLock, run_interruptibly

# Waits happen in slices, so that Ctrl-C is heard.
_SLICE_NS = 100_000_000


class Future:
    """One submitted iteration. `result()` waits for it and gives what the step returns."""

    def __init__(
        self,
        job: Job,
        handle: Any,
        outputs: Outputs,
        targets: Sequence[torch.Tensor] = (),
        on_other_layout: Callable[[LayoutError], None] | None = None,
        buffers: Buffers | None = None,
        drawn: Drawn | None = None,
    ) -> None:
        self._job = job
        self._handle = ffi.gc(handle, job.library.lib.laneway_submission_release)
        self._outputs = outputs
        self._targets = targets
        self._on_other_layout = on_other_layout
        self._buffers = buffers  # room for the outputs, where there is some already
        self._drawn = drawn
        self._keep: Any = None  # until it is done
        if drawn is not None:
            drawn.future = self
        self._lock = ProcessLock()
        self._done = False
        self._value: Any = None
        self._error: Exception | None = None

    def keep(self, held: Any) -> None:
        """Holds an object until the iteration ended. For the package itself."""
        self._keep = held

    def done(self) -> bool:
        """Whether it ended, well or not."""
        return self._poll(0)

    def cancel(self) -> bool:
        """Takes it back if it has not begun; whether it will not run. result() then raises
        ServiceUnavailable."""
        if self._done:
            return False
        self._lock.check()
        code = self._job.library.lib.laneway_cancel(self._handle, ffi.NULL)
        return code == bindings.OK

    def wait(self) -> None:
        """Waits until it ended, well or not."""
        if self._poll(_SLICE_NS):
            return
        notice = WaitNotice(self._job)
        while not self._poll(_SLICE_NS):
            notice.heed()

    def result(self, timeout: float | None = None) -> Any:
        """The step's result. Raises what the iteration raised, or TimeoutError after `timeout`
        seconds."""
        until = None if timeout is None else time.monotonic() + timeout
        notice: WaitNotice | None = None
        while True:
            left = _SLICE_NS if until is None else int(max(0.0, until - time.monotonic()) * 1e9)
            if self._poll(min(left, _SLICE_NS)):
                break
            if until is not None and time.monotonic() >= until:
                raise TimeoutError(
                    f"the iteration of {self._job.name!r} is not done after {timeout} s: "
                    + self._job.waiting_for()
                )
            notice = notice or WaitNotice(self._job)
            notice.heed()
        if self._error is not None:
            raise self._error
        return self._value

    def __await__(self) -> Generator[Any, None, Any]:
        loop = asyncio.get_running_loop()
        return loop.run_in_executor(None, self.result).__await__()

    def _poll(self, timeout_ns: int) -> bool:
        if self._done:
            return True
        self._lock.check()
        wait = self._job.library.lib.laneway_wait
        # Without outputs: room for them is made when there is something to put there.
        if wait(self._handle, timeout_ns, ffi.NULL, 0, ffi.NULL) == bindings.PENDING:
            return False
        with self._lock:
            if self._done:
                return True
            buffers, error = self._buffers or self._outputs.buffers(), bindings.new_error()
            code = wait(self._handle, 0, buffers.native, len(buffers.tensors), error)
            if code == bindings.OK:
                self._value = self._outputs.rebuild(buffers, self._targets, self._drawn)
            else:
                self._error = self._failed(bindings.exception_of(code, error))
            self._targets, self._buffers, self._keep = (), None, None
            self._done = True
        if self._drawn is not None:
            draws.settle()
        return True

    def _failed(self, error: Exception) -> Exception:
        """What result() raises of an iteration's error."""
        if self._on_other_layout is None or not isinstance(error, LayoutError):
            return error
        try:
            self._on_other_layout(error)
        except LayoutError:
            return error
        return LayoutError(f"{error}; submit it again: it is captured anew, with that layout")


class Job:
    """Owns the library's handle of one job, which ends when nobody holds this any more. Steps,
    inferences and futures do. Thread-safe."""

    def __init__(self, service: Any, name: str | None, handle: Any) -> None:
        self._service = service
        self.library: bindings.Library = service.library
        # Released when nobody holds it any more: a call may be inside while another thread closes.
        self._handle: Any = ffi.gc(handle, self.library.lib.laneway_job_release)
        self._lock = ProcessLock()
        self._end = weakref.finalize(self, _end_unheld, self._handle, self._lock, self.library)
        self._end.atexit = False  # its service does that
        self.outer_contents = Contents()  # of its slots that have tensors from outside
        self.name = name or json.loads(self._report(self._handle, False))["name"]
        service.add_job(self)

    def handle(self) -> Any:
        handle = self._handle
        if handle is None:
            raise ServiceUnavailable(f"job {self.name!r} was closed; make a new step to go on")
        return handle

    def wait_until_placed(self, timeout: float | None) -> None:
        """Waits until the job has its memory. When it has no room after `timeout` seconds, the job
        is closed and Refused raised, with its position and the reason; one that has its room is
        waited for while its bytes are copied there."""
        until = None if timeout is None else time.monotonic() + timeout
        notice = WaitNotice(self)
        while True:
            error = bindings.new_error()
            left = _SLICE_NS if until is None else int(max(0.0, until - time.monotonic()) * 1e9)
            code = self.library.lib.laneway_job_wait(self.handle(), min(left, _SLICE_NS), error)
            if code == bindings.OK:
                return
            if code != bindings.PENDING:
                raise bindings.exception_of(code, error)
            if until is not None and time.monotonic() >= until:
                if self.report()["status"]["state"] != "waiting":
                    until = None  # it has its room
                    continue
                reason = bindings.message_of(error)
                self.close()
                raise Refused(f"job {self.name!r} was not admitted within {timeout} s: {reason}")
            notice.heed()

    def waiting_for(self) -> str:
        """Why the job has no memory yet, or that it has."""
        error = bindings.new_error()
        code = self.library.lib.laneway_job_wait(self.handle(), 0, error)
        return "it has its memory" if code == bindings.OK else bindings.message_of(error)

    def add_graph(self, encoded: bytes) -> int:
        index, error = ffi.new("uint32_t *"), bindings.new_error()
        code = self.library.lib.laneway_job_add_graph(
            self.handle(), encoded, len(encoded), index, error
        )
        if code != bindings.OK:
            raise bindings.exception_of(code, error)
        return int(index[0])

    def set(self, changes: dict[str, Any]) -> None:
        """Changes what the policy is told of the job, by the names of Scheduling, from the next
        decision on. Raises InvalidInput, and Refused when the user may not."""
        text, error = ffi.new("char[]", settings_text(changes).encode()), bindings.new_error()
        code = self.library.lib.laneway_job_set(self.handle(), text, error)
        if code != bindings.OK:
            raise bindings.exception_of(code, error)

    def drop_graph(self, index: int) -> None:
        """What was submitted for it still runs. Nothing happens when the job is over."""
        handle = self._handle
        if handle is not None:
            self.library.lib.laneway_job_drop_graph(handle, index, ffi.NULL)

    def wait_for_room(self) -> None:
        """Waits until the job can take one more request. Raises the reason when it takes none any
        more."""
        error, notice = bindings.new_error(), WaitNotice(self)
        while True:
            code = self.library.lib.laneway_wait_for_room(self.handle(), _SLICE_NS, error)
            if code == bindings.OK:
                return
            if code != bindings.PENDING:
                raise bindings.exception_of(code, error)
            notice.heed()

    def report(self, with_tapes: bool = False) -> dict[str, Any]:
        """The job's status line, bytes and, per graph, what is known of its memory; with tapes, the
        allocations as [bytes, frees_before] and the frees in order."""
        return json.loads(self._report(self.handle(), with_tapes))

    def describe(self) -> dict[str, Any]:
        """The job's name, class, slots and graphs: see laneway_job_describe."""
        text, error = ffi.new("char **"), bindings.new_error()
        code = self.library.lib.laneway_job_describe(self.handle(), text, error)
        if code != bindings.OK:
            raise bindings.exception_of(code, error)
        return json.loads(self.library.take_text(text))

    def read_state(self, slots: list[Slot], random_state: bool = False) -> tuple[list, Any]:
        """Copies of the slots' bytes as untyped storages, and the random state if wanted; ordered
        after everything submitted before."""
        storages = [torch.UntypedStorage(slot.nbytes) for slot in slots]
        state = (
            torch.empty(bindings.RANDOM_STATE_BYTES, dtype=torch.uint8) if random_state else None
        )
        self._access(self.library.lib.laneway_read_state, slots, storages, state)
        return storages, state

    def read_into(self, slots: list[Slot], storages: list[torch.UntypedStorage]) -> None:
        """Copies the slots' bytes into these storages, which have as many; ordered likewise."""
        self._access(self.library.lib.laneway_read_state, slots, storages, None)

    def write_state(self, slots: list[Slot], storages: list, random_state: Any = None) -> None:
        """Replaces the slots' bytes, and the random state unless None; ordered likewise."""
        self._access(self.library.lib.laneway_write_state, slots, storages, random_state)

    def close(self) -> None:
        """Ends the job; idempotent. A running iteration ends first, queued ones are cancelled."""
        if not self._lock.is_here():
            return
        with self._lock:
            handle, self._handle = self._handle, None
            self._end.detach()
        if handle is not None:
            run_interruptibly(self.library.lib.laneway_job_close, handle)

    def _access(self, call: Any, slots: list[Slot], storages: list, state: Any) -> None:
        copies = ffi.new("laneway_slot_copy[]", len(slots))
        for i, (slot, storage) in enumerate(zip(slots, storages)):
            copies[i].slot = slot.index
            copies[i].bytes = slot.nbytes
            copies[i].data = storage.data_ptr()
        pending, error = ffi.new("laneway_submission **"), bindings.new_error()
        address = 0 if state is None else state.data_ptr()
        while True:
            code = call(self.handle(), copies, len(slots), address, pending, error)
            if code != bindings.BUSY:
                break
            self.wait_for_room()
        if code == bindings.PENDING:
            # What the library still reads or fills must outlive an interrupted wait.
            keep = (copies, storages, state)
            future = Future(self, pending[0], Outputs([], lambda values: keep))
            try:
                future.result()
            except KeyboardInterrupt:
                _abandoned[:] = [entry for entry in _abandoned if not entry[0].done()]
                _abandoned.append((future, keep))
                raise
        elif code != bindings.OK:
            raise bindings.exception_of(code, error)

    def _report(self, handle: Any, with_tapes: bool) -> str:
        text, error = ffi.new("char **"), bindings.new_error()
        code = self.library.lib.laneway_job_report(handle, int(with_tapes), text, error)
        if code != bindings.OK:
            raise bindings.exception_of(code, error)
        return self.library.take_text(text)


def _end_unheld(handle: Any, lock: ProcessLock, library: bindings.Library) -> None:
    # From wherever the last reference went: waits for a running iteration, and for nothing else.
    if lock.is_here():
        library.lib.laneway_job_close(handle)


# Accesses whose wait was interrupted, with the memory that they use.
_abandoned: list[tuple[Future, Any]] = []


# laneway_replay, by the names that users give.
_REPLAY = {"auto": 0, "on": 1, "off": 2}


def check_replay(replay: str) -> None:
    """Raises InvalidInput when it is not one of those names."""
    if replay not in _REPLAY:
        raise InvalidInput(f"replay = {replay!r}: give one of {', '.join(map(repr, _REPLAY))}")


def create_job(
    service: Any,
    name: str | None,
    slots: list[Slot],
    encoded: bytes,
    random_state: torch.Tensor,
    *,
    job_class: str,
    scheduling: Scheduling,
    shared: bool = False,
    replay: str = "auto",
    weights: WeightFiles | None = None,
) -> Job:
    """Offers a job with its first graph. `job_class` is what the job is, unless `scheduling` names
    another class; `weights` has the first bytes of some slots. Raises OutOfMemory when it can never
    fit, GraphError when the graph is refused."""
    service.torch_notice.heed(service)
    native_slots = ffi.new("laneway_slot[]", max(1, len(slots)))
    names = [ffi.new("char[]", slot.name.encode()) for slot in slots]
    for i, slot in enumerate(slots):
        native_slots[i].name = names[i]
        native_slots[i].kind = int(slot.kind)
        native_slots[i].bytes = slot.nbytes
        if weights is None or not weights.has(slot):
            native_slots[i].initial = slot.initial.untyped_storage().data_ptr()
    options = ffi.new("laneway_job_options *")
    options.size = ffi.sizeof("laneway_job_options")
    scheduling.give(options, job_class)
    text = None if name is None else ffi.new("char[]", name.encode())
    options.name = ffi.NULL if text is None else text
    options.slot_count = len(slots)
    options.slots = native_slots
    options.random_state = random_state.data_ptr()
    options.random_state_bytes = random_state.numel()
    options.shared = int(shared)
    options.replay = _REPLAY[replay]
    held = None if weights is None else weights.give(options, slots)
    handle, error = ffi.new("laneway_job **"), bindings.new_error()
    lib = service.library.lib
    try:
        code = lib.laneway_job_create(
            service.native_handle(), options, encoded, len(encoded), handle, error
        )
        if code != bindings.OK:
            raise bindings.exception_of(code, error)
        del held
        return Job(service, name, handle[0])
    except BaseException:  # Ctrl-C too: nobody would ever hold this job
        if handle[0] != ffi.NULL:
            lib.laneway_job_close(handle[0])
        raise
