"""Service: the handle of a service that runs jobs. embedded() opens one inside this process,
connect() connects to a running lanewayd."""

from __future__ import annotations

import atexit
import json
import os
import re
import sys
import threading
import time
import weakref
from typing import Any

from laneway.capture.byte_code import refuse_unknown_python
from laneway.errors import InvalidInput, ServiceUnavailable
from laneway.jobs.control import job_ref, pool_size, residency
from laneway.jobs.control.scheduling import settings_text
from laneway.jobs.control.shown import Shown, service_facts
from laneway.jobs.control.torch_notice import TorchNotice
from laneway.native import bindings
from laneway.native.bindings import ffi
from laneway.native.process import ProcessLock, run_interruptibly
from laneway.native.torch_versions import found_torch

_UNITS = {"": 1, "b": 1, "k": 1 << 10, "kib": 1 << 10, "m": 1 << 20, "mib": 1 << 20}
_UNITS |= {"g": 1 << 30, "gib": 1 << 30, "t": 1 << 40, "tib": 1 << 40}


def parse_bytes(size: str | int) -> int:
    """4096, "64KiB", "1.5 GiB" in bytes. Raises InvalidInput naming the text otherwise."""
    if isinstance(size, int) and not isinstance(size, bool):
        if size < 0:
            raise InvalidInput(f"{size} bytes is not a size: it is negative")
        return size
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", str(size))
    unit = _UNITS.get(match.group(2).lower()) if match else None
    if match is None or unit is None:
        raise InvalidInput(
            f"{size!r} is not a size: write a number of bytes, or a number with KiB, MiB or GiB, "
            "such as '512MiB'"
        )
    return int(float(match.group(1)) * unit)


class Service(Shown):
    """A running service; a context manager. Thread-safe. `library` is the C library that opened
    `handle` and serves the jobs. The service belongs to the process that opened it: in a child made
    by fork(), close() has no effect and every other method raises ServiceUnavailable.

    `torch_version` is the torch of this process where the service has one of its own."""

    def __init__(self, handle: Any, library: bindings.Library, torch_version: str = "") -> None:
        self.library = library
        self.torch_notice = TorchNotice(torch_version)
        self._handle: Any = ffi.gc(handle, library.lib.laneway_service_release)
        self._lock = ProcessLock()
        self._jobs: weakref.WeakSet[Any] = weakref.WeakSet()
        self._mirrors: weakref.WeakSet[Any] = weakref.WeakSet()
        _open_services.add(self)

    def __enter__(self) -> Service:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def shown(self) -> dict[str, Any]:
        """See Shown."""
        return {"state": "closed"} if self.closed else service_facts(self.status())

    def status(self, *, ended: bool = True) -> dict[str, Any]:
        """The state of the service as a dictionary, in the form of `laneway status --json`. The
        entry "map" lists the owner of every part of the pool. Without `ended`, the last few jobs
        that are over are left out: what a program that asks often does not need each time."""
        text, error = ffi.new("char **"), bindings.new_error()
        ask = self.library.lib.laneway_service_status_with
        code = ask(self.native_handle(), int(ended), text, error)
        if code != bindings.OK:
            raise bindings.exception_of(code, error)
        return json.loads(self.library.take_text(text))

    @property
    def kernels(self) -> str:
        """The kernels that run the graphs of the service's jobs, "cpu" or "cuda"; jobs are captured
        for these kernels."""
        text = self.library.lib.laneway_service_kernels(self.native_handle())
        return ffi.string(text).decode()

    def job_report(self, name: str, with_tapes: bool = False) -> dict[str, Any]:
        """The report of the job `name`: see Job.report. Raises InvalidInput when this process has
        made no job of this name."""
        for job in list(self._jobs):
            if job.name == name:
                return job.report(with_tapes)
        raise InvalidInput(f"the service has no job named {name!r} that this process made")

    def load(self, job: str | int, timeout: float | None = 60.0) -> None:
        """Brings the image of `job` (a number; a text that is no number is a name) into the pool
        and waits until it is there. Other images leave for it as for a job with work. Raises
        Refused with the reason after `timeout` seconds (None: waits without a limit), InvalidInput
        when there is no such job."""
        residency.load(self, job, timeout)

    def unload(self, job: str | int, timeout: float | None = 60.0) -> None:
        """Sends the image of `job` out of the pool, after its running iteration, and waits until
        it is outside. It comes back with the job's next iteration. Raises Refused when the job is
        pinned, or after `timeout` seconds when it has not left, for instance because there is no
        room outside."""
        residency.unload(self, job, timeout)

    def pin(self, job: str | int) -> None:
        """Keeps the image of `job` in the pool, or brings it there and keeps it, until unpin()."""
        residency.ask(self, "pin", job)

    def unpin(self, job: str | int) -> None:
        """Lets the image of `job` leave the pool again when others need the room."""
        residency.ask(self, "unpin", job)

    def resize_pool(self, size: str | int, timeout: float | None = 60.0) -> None:
        """Gives the pool another size ("4GiB", or bytes), at most that with which the service was
        started, and waits until it has it. Images that lie above it move or leave first, after
        their running iterations; on the host the memory goes back to the machine, on other devices
        it stays with the service. Raises Refused, and nothing happens, when a job could not run in
        it even alone or images that cannot leave would not fit; Refused after `timeout` seconds
        (None: waits without a limit), and the wish stays; InvalidInput when the size is none."""
        pool_size.resize(self, parse_bytes(size), timeout)

    def command(self, what: str, text: str | None = None) -> None:
        """Sends a command of laneway_service_command (laneway.h), for the package itself."""
        error = bindings.new_error()
        argument = ffi.NULL if text is None else ffi.new("char[]", text.encode())
        lib = self.library.lib
        code = lib.laneway_service_command(self.native_handle(), what.encode(), argument, error)
        if code != bindings.OK:
            raise bindings.exception_of(code, error)

    def set(self, job: str | int, **changes: Any) -> None:
        """Changes what the policy is told of `job`, one's own or, for an operator, anybody's: see
        TrainStep.set."""
        texts = [job_ref.text_of(job), settings_text(changes)]
        job_text, settings = (ffi.new("char[]", text.encode()) for text in texts)
        error = bindings.new_error()
        lib = self.library.lib
        code = lib.laneway_service_set(self.native_handle(), job_text, settings, error)
        if code != bindings.OK:
            raise bindings.exception_of(code, error)

    def close(self) -> None:
        """Ends all jobs, after their running iterations, and frees the pool. Models that this
        process trains are brought up to date before, after all that was submitted. May be called
        again; then it has no effect."""
        if not self._lock.is_here():
            return
        try:
            for mirror in [] if self.closed else list(self._mirrors):
                mirror.release()
        finally:  # Ctrl-C too
            self.close_at_exit()

    def close_at_exit(self) -> None:
        """close() at the end of the process: nobody reads a model any more. For the package
        itself."""
        with self._lock:
            handle, self._handle = self._handle, None
        if handle is None:
            return
        _open_services.discard(self)
        run_interruptibly(self.library.lib.laneway_service_close, handle)
        for job in list(self._jobs):
            job.close()

    @property
    def closed(self) -> bool:
        return self._handle is None

    def native_handle(self) -> Any:
        """The C handle, for the package itself. Raises ServiceUnavailable after close()."""
        self._lock.check()
        handle = self._handle
        if handle is None:
            raise ServiceUnavailable("the service was closed; open another one")
        return handle

    def add_mirror(self, mirror: Any) -> None:
        """Notes a mirror that close() must release. For the package itself."""
        self._mirrors.add(mirror)

    def add_job(self, job: Any) -> None:
        """Notes a job that close() must close. For the package itself."""
        self._jobs.add(job)


_open_services: weakref.WeakSet[Service] = weakref.WeakSet()
_default_lock = threading.Lock()
_default: Service | None = None


@atexit.register
def _close_services() -> None:
    for service in list(_open_services):
        service.close_at_exit()


def _after_fork() -> None:
    """In the child of a fork: no service is open, and no thread will ever release the lock."""
    global _open_services, _default_lock, _default
    _open_services = weakref.WeakSet()
    _default_lock = threading.Lock()
    _default = None


os.register_at_fork(after_in_child=_after_fork)


def embedded(
    pool: str | int | None = "512MiB",
    policy: str = "fifo",
    lanes: int | None = None,
    device: str | None = None,
    lane_sms: int = 0,
    staging: str | int | None = None,
    spill: str | None = None,
) -> Service:
    """Opens a service inside this process. It has the same engine as the daemon.

    - `pool`: the size of the memory that all jobs share, in bytes or as a text such as "512MiB".
      None: half of the free memory, or 90 % of the memory of a CUDA device.
    - `policy`: the scheduling policy, "fifo" or "srtf", with its options behind colons; or
      "./FILE", a program of one's own, which runs in a process beside this one.
    - `lanes`: how many iterations may run at the same time, at most. None: of trainings as many as
      gain by it, as measured.
    - `device`: "host" or "cuda:N". None: $LANEWAY_DEVICE, or "host" where that is not set.
    - `lane_sms`: on a device that can be divided, the number of multiprocessors of each lane. 0:
      all lanes share all multiprocessors.
    - `staging`: memory for the images of jobs that leave the pool while others need the room. None:
      as much as the pool; it is used only when images leave. 0: no image leaves.
    - `spill`: "FOLDER:SIZE", a file for images that find no room there. None: no file.

    Raises InvalidInput, Refused, ServiceUnavailable or, on a Python that captures do not know,
    CaptureError; the message says what to change.
    """
    refuse_unknown_python()
    library = bindings.embedded_library()
    import torch

    device = device or os.environ.get("LANEWAY_DEVICE") or "host"
    texts = [ffi.new("char[]", t.encode()) for t in (policy, device, str(torch.__version__))]
    options = ffi.new("laneway_embedded_options *")
    options.size = ffi.sizeof("laneway_embedded_options")
    options.pool_bytes = 0 if pool is None else parse_bytes(pool)
    if pool is not None and options.pool_bytes == 0:
        raise InvalidInput("a pool of 0 bytes holds no job: give a size such as '512MiB'")
    if lanes is not None and lanes < 1:
        raise InvalidInput(f"lanes = {lanes}: give at least 1, or None for as many as pay")
    if lane_sms < 0:
        raise InvalidInput(f"lane_sms = {lane_sms}: give a number of multiprocessors, or 0")
    options.lanes, options.lane_sms = lanes or 0, lane_sms
    options.policy, options.device, options.torch_version = texts
    options.store_bytes = -1 if staging is None else parse_bytes(staging)
    folder, size = _spill_of(spill)
    texts.append(ffi.new("char[]", folder.encode()))
    options.spill_folder = texts[-1] if folder else ffi.NULL
    options.spill_bytes = size
    handle, error = ffi.new("laneway_service **"), bindings.new_error()
    code = library.lib.laneway_embedded_open(options, handle, error)
    if code != bindings.OK:
        raise bindings.exception_of(code, error)
    return Service(handle[0], library)


def _spill_of(spill: str | None) -> tuple[str, int]:
    """Folder and size; none of both for None."""
    if spill is None:
        return "", 0
    folder, _, size = spill.rpartition(":")
    if not folder or parse_bytes(size) == 0:
        raise InvalidInput(f"spill = {spill!r}: give FOLDER:SIZE, such as '/var/tmp:64GiB'")
    return os.path.abspath(folder), parse_bytes(size)


def connect(
    address: str | None = None, timeout: float = 0.0, answer_timeout: float | None = None
) -> Service:
    """Connects to a running lanewayd. The connection's jobs end with the connection.

    - `address`: "ipc://PATH". None: $LANEWAY_ADDRESS, or the user's default address where that is
      not set.
    - `timeout`: how many seconds to wait for a daemon that does not listen yet.
    - `answer_timeout`: for how many seconds a request waits for its answer, at most, before it
      raises ServiceUnavailable, as where the daemon is stopped. None: ten minutes.

    Raises ServiceUnavailable, with the command that starts a daemon, when no daemon answers."""
    library = bindings.client_library()
    options = ffi.new("laneway_connect_options *")
    options.size = ffi.sizeof("laneway_connect_options")
    torch = found_torch()
    version = "" if torch is None else torch.version
    texts = [ffi.new("char[]", t.encode()) for t in (address or "", _program(), version)]
    options.address = texts[0] if address else ffi.NULL
    options.name, options.torch_version = texts[1:]
    options.answer_ns = 0 if answer_timeout is None else max(int(answer_timeout * 1e9), 1)
    handle, error = ffi.new("laneway_service **"), bindings.new_error()
    until = time.monotonic() + timeout
    while True:  # short waits: between them Python handles Ctrl-C
        left = until - time.monotonic()
        options.timeout_ns = int(max(0.0, min(left, 0.1)) * 1e9)
        code = library.lib.laneway_connect(options, handle, error)
        if code == bindings.OK:
            return Service(handle[0], library, version)
        if code != bindings.UNAVAILABLE or left <= 0:
            raise bindings.exception_of(code, error)


def _program() -> str:
    """The name of this process in the output of `laneway status`."""
    name = os.path.basename(sys.argv[0]) if sys.argv else ""
    return "python" if name in ("", "-c", "-m") else name


def default_service() -> Service:
    """The service of steps and inferences that are made without a service. It is embedded in this
    process, is opened at the first use, and its pool is half of the free memory."""
    global _default
    with _default_lock:
        if _default is None or _default.closed:
            _default = embedded(pool=None)
        return _default
