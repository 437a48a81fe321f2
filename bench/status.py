"""status: what does a status cost the broker, whose only thread also decides?

A real lanewayd has 1, 100 or 1,000 jobs, each with 256 KiB of image, in a pool of 24 MiB without a
store: some 90 are in the pool, all others wait with a reason. A client asks for the status again
and again. The value is the broker's processor time (its process's clock, all threads) over the
calls; that of as many further calls, which also list the jobs that are over, stands beside it."""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import Any

import laneway
from laneway.native import bindings

from . import stats
from .daemon import Daemon
from .harness import Calibration, Options, progress
from .report import Report, at_most
from .round_trips import write_empty_graph

MOST_MS = {1: 0.1, 100: 0.2, 1000: 1.5}
CALLS, QUICK_CALLS = 50, 5
A_SESSION = 250  # jobs: fewer than the broker lets one client have
IMAGE_BYTES = 256 << 10
POOL = "24MiB"


def cases() -> list[str]:
    return [f"{jobs}_jobs" for jobs in MOST_MS]


def run(options: Options) -> Report:
    report = Report("status")
    calibration = Calibration()
    for jobs, most_ms in MOST_MS.items():
        case = f"{jobs}_jobs"
        if not options.wants(case):
            continue
        progress(f"status: {case}")
        calibration.sample()
        _measure(report, case, jobs, most_ms, options)
    calibration.add_to(report)
    return report


def _measure(report: Report, case: str, jobs: int, most_ms: float, options: Options) -> None:
    calls = QUICK_CALLS if options.quick else CALLS
    with Daemon(POOL, words=["--staging", "0", "--standby", "0"]) as daemon, ExitStack() as open_:
        for first in range(0, jobs, A_SESSION):
            session = open_.enter_context(laneway.connect(daemon.address))
            _create_jobs(session, daemon, min(A_SESSION, jobs - first))
        service = open_.enter_context(laneway.connect(daemon.address))
        found = len(service.status(ended=False)["jobs"])
        if found != jobs:
            raise RuntimeError(f"the service shows {found} jobs of {jobs}")
        broker = daemon.pid_of("laneway-broker")
        for metric, ended in (("broker_cpu_ms", False), ("broker_cpu_ended_ms", True)):
            samples = [_cost_ms(service, broker, calls, ended) for _ in range(options.trials)]
            target = None if ended else at_most(most_ms)
            report.add(case, metric, stats.median(samples), "ms", target, samples=samples)


def _cost_ms(service: Any, broker: int, calls: int, ended: bool) -> float:
    before = _clock_s(broker)
    for _ in range(calls):
        service.status(ended=ended)
    return 1e3 * (_clock_s(broker) - before) / calls


def _clock_s(pid: int) -> float:
    return time.clock_gettime((~pid << 3) | 2)  # as clock_getcpuclockid(3) names it


def _create_jobs(service: Any, daemon: Daemon, count: int) -> None:
    """Jobs of the empty graph beside one slot; they live as long as the session."""
    path = daemon.folder / "empty.graph"
    write_empty_graph(path)
    graph = path.read_bytes()
    ffi, lib = bindings.ffi, service.library.lib
    name = ffi.new("char[]", b"weights")
    slot = ffi.new("laneway_slot *", {"name": name, "bytes": IMAGE_BYTES})
    options = ffi.new("laneway_job_options *")
    options.size = ffi.sizeof("laneway_job_options")
    options.slot_count, options.slots = 1, slot
    options.total_iterations = 1000
    for _ in range(count):
        job, error = ffi.new("laneway_job **"), bindings.new_error()
        handle = service.native_handle()
        code = lib.laneway_job_create(handle, options, graph, len(graph), job, error)
        if code != bindings.OK:
            raise bindings.exception_of(code, error)
