"""The processes of the section "contact" (bench/gpu/contact.py):

    python -m bench.gpu.contact_probe NAME DEVICE WORDS…

prints a JSON object a line, {"case", "metric", "value", "unit", "note"}, as soon as it is found."""

from __future__ import annotations

import collections
import ctypes
import json
import mmap
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from .. import models, stats
from . import laneway_device

WARM_UP = 15  # iterations until plans are made and recordings are launched
COPYING_THREADS = (1, 2, 4, 8)
LARGE_GAP_US = 20
# CUdevice_attribute of cuda.h.
ATTRIBUTES = {
    "multiprocessors": 16,
    "compute_mode": 20,
    "copy_engines": 40,
    "pageable_memory_access": 88,
    "pageable_access_by_the_hosts_tables": 100,
    "virtual_memory_management": 102,
    "descriptors_of_memory": 103,
    "fabric_handles": 128,
}


def say(case: str, metric: str, value: float | None, unit: str, note: str = "") -> None:
    row = {"case": case, "metric": metric, "value": value, "unit": unit, "note": note or None}
    print(json.dumps(row), flush=True)


@contextmanager
def opened_step(work: models.Workload, device: str, replay: str) -> Iterator[tuple[Any, Any]]:
    """A service with one lane, and the step of `work` in it, named "probe"."""
    pool = laneway_device.pool_on_device(work)
    with laneway_device.embedded(device, pool=pool, lanes=1) as service:
        yield service, laneway_device.train_step(work, service, name="probe", replay=replay)


def attributes(device: str) -> None:
    """What decides how memory is shared and copied, as the driver says it."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        say("driver", "attributes", None, "", str(error))
        return
    handle, value = ctypes.c_int(), ctypes.c_int()
    driver.cuInit(0)
    driver.cuDeviceGet(ctypes.byref(handle), torch.device(device).index or 0)
    for name, number in ATTRIBUTES.items():
        code = driver.cuDeviceGetAttribute(ctypes.byref(value), number, handle)
        note = "" if code == 0 else f"cuDeviceGetAttribute answered {code}"
        say("driver", name, value.value if code == 0 else None, "", note)


def first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines() or ["no word of why"]
    return f"{type(error).__name__}: {lines[0][:160]}"


def replay(device: str, seconds: str, *wanted: str) -> None:
    """Iterations with and without replay: how long, how many were replayed, what was tried in vain.
    Without dropout, so that attention takes CUDA's own kernel."""
    for case in wanted:
        name, _, form = case.partition("/")
        for way in ("off", "on"):
            work = models.make(name, 1, form)
            for module in work.model.modules():
                if isinstance(module, torch.nn.Dropout):
                    module.p = 0.0
            with opened_step(work, device, way) as (service, step):
                _time_replay(f"{name}_{form}_{way}", float(seconds), work, service, step)


def _time_replay(case: str, seconds: float, work: models.Workload, service: Any, step: Any) -> None:
    batches = [work.batch(number) for number in range(8)]
    for number in range(WARM_UP):
        step(*batches[number % 8]).item()
    before, times = service.job_report("probe")["graphs"][0], []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 5:
        started = time.perf_counter()
        step(*batches[len(times) % 8]).item()
        times.append((time.perf_counter() - started) * 1e6)
    after = service.job_report("probe")["graphs"][0]
    _, refused = laneway_device.replay_of(service.job_report("probe"))
    say(case, "median_us", stats.median(times), "us")
    say(case, "p99_us", stats.percentile(times, 99), "us")
    say(
        case,
        "replayed_share",
        # Of those in the books: an answer comes a moment before its iteration is in them.
        (after["replayed_count"] - before["replayed_count"])
        / (after["iterations"] - before["iterations"]),
        "",
        refused,
    )
    for field in ("probes", "off_tape_count"):
        say(case, f"{field}_grown", after[field] - before[field], "")
    say(case, "planned_peak_bytes", after["planned_peak_bytes"], "B")


def neighbours(device: str, seconds: str) -> None:
    """What the user's own CUDA work in the process meets while lanes record, and whether
    torch.compile's CUDA graphs go on beside a service."""
    if not torch.cuda.is_available():
        say("synchronize", "errors", None, "", "torch sees no device")
        return
    met, enough = collections.Counter(), threading.Event()

    def user() -> None:
        x = torch.ones(64, device=device)
        while not enough.is_set():
            try:
                x.add_(1)
                torch.cuda.synchronize(device)
                met["fine"] += 1
            except RuntimeError as error:
                met[first_line(error)] += 1

    thread = threading.Thread(target=user, daemon=True)
    thread.start()
    end, jobs, replayed, refused = time.perf_counter() + float(seconds), 0, 0, ""
    while time.perf_counter() < end:
        work = models.make("mlp", 1)
        with opened_step(work, device, "on") as (service, step):
            for number in range(10):
                step(*work.batch(number)).item()
            count, why = laneway_device.replay_of(service.job_report("probe"))
            replayed, refused = replayed + count, why or refused
        jobs += 1
    enough.set()
    thread.join(10)
    fine = met.pop("fine", 0)
    say("synchronize", "calls", fine + met.total(), "", f"beside {jobs} jobs that are recorded")
    say("synchronize", "errors", met.total(), "", "; ".join(f"{n} x {e}" for e, n in met.items()))
    say("synchronize", "replayed_iterations", replayed, "", refused)
    _graphs_of_torch(device)


def _graphs_of_torch(device: str) -> None:
    """Twice the same: without a service and with one. "cudagraphs" needs no compiler."""
    for backend, options in (("inductor", {"mode": "reduce-overhead"}), ("cudagraphs", {})):
        for where in ("alone", "beside_a_service"):
            case = f"{backend}_{where}"
            service = None
            try:
                if where != "alone":
                    service = laneway_device.embedded(device, pool=64 << 20, lanes=1)
                _branches(device, {"backend": backend, "dynamic": False} | options)
                say(case, "ran", 1.0, "bool")
            except Exception as error:  # whatever it is, it is the answer
                say(case, "ran", 0.0, "bool", first_line(error))
            finally:
                if service is not None:
                    service.close()


def _branches(device: str, options: dict[str, Any]) -> None:
    """Two graphs, the second also from where the first was replayed: torch then looks at what
    lives in its pool."""
    torch._dynamo.reset()
    first = torch.compile(lambda x: torch.relu(x @ x) + 1, **options)
    second = torch.compile(lambda x: torch.tanh(x @ x) - 1, **options)
    inputs = torch.ones(64, 64, device=device)
    for number in range(8):
        torch.compiler.cudagraph_mark_step_begin()
        kept = first(inputs)
        if number > 3:
            second(kept.clone())
            second(inputs)
    torch.cuda.synchronize(device)


def copies(device: str, mib: str) -> None:
    """The link; how many threads fill pinned memory as fast; memory of a client that is registered
    and needs no copy."""
    size = int(mib) << 20
    there = torch.empty(size, dtype=torch.uint8, device=device)
    pinned = torch.empty(size, dtype=torch.uint8, pin_memory=True).fill_(1)
    descriptor = os.memfd_create("contact")
    os.ftruncate(descriptor, size)
    shared = torch.frombuffer(mmap.mmap(descriptor, size), dtype=torch.uint8).fill_(2)

    def rate(metric: str, copy: Callable[[], object], note: str = "") -> None:
        times = []
        for _ in range(5):
            started = time.perf_counter()
            copy()
            torch.cuda.synchronize(device)
            times.append(time.perf_counter() - started)
        say("link", metric, size / min(times[1:]) / 1e9, "GB/s", note)

    rate("pinned_to_device", lambda: there.copy_(pinned, non_blocking=True))
    rate("device_to_pinned", lambda: pinned.copy_(there, non_blocking=True))
    rate("shared_to_device", lambda: there.copy_(shared), "torch's copy of ordinary memory")
    for count in COPYING_THREADS:
        rate(f"shared_to_pinned_{count}_threads", lambda n=count: _copy_by(n, pinned, shared))
    runtime = torch.cuda.cudart()
    started = time.perf_counter()
    code = int(runtime.cudaHostRegister(shared.data_ptr(), size, 0))
    took = time.perf_counter() - started
    note = "" if code == 0 else f"cudaHostRegister answered {code}"
    say("link", "register_ms_per_gib", took * 1e3 * (1 << 30) / size, "ms", note)
    if code == 0:
        rate("registered_to_device", lambda: there.copy_(shared, non_blocking=True))
        runtime.cudaHostUnregister(shared.data_ptr())


def _copy_by(count: int, to: torch.Tensor, source: torch.Tensor) -> None:
    move, part = ctypes.CDLL(None).memmove, to.numel() // count
    move.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
    threads = [
        threading.Thread(target=move, args=(to.data_ptr() + at, source.data_ptr() + at, part))
        for at in range(0, part * count, part)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def busy(device: str, name: str, form: str, way: str) -> None:
    """Two iterations in flight: the device's share of the time, and the gaps between its pieces of
    work."""
    from torch.profiler import ProfilerActivity, profile

    work, case = models.make(name, 1, form), f"{name}_{form}_{way}"
    with opened_step(work, device, way) as (_, step):
        batches = [work.batch(number) for number in range(4)]
        _train_in_flight(step, batches, WARM_UP)
        with profile(activities=[ProfilerActivity.CUDA]) as profiled:
            started = time.perf_counter()
            _train_in_flight(step, batches, 20)
            step_ms = (time.perf_counter() - started) / 20 * 1e3
        kinds = torch.autograd.DeviceType
        spans = sorted(
            (event.time_range.start, event.time_range.end)
            for event in profiled.events()
            if event.device_type == kinds.CUDA
        )
    say(case, "iteration_ms", step_ms, "ms")
    if not spans:
        say(case, "busy_share", None, "", "torch's profiler saw no kernel")
        return
    share, gaps = occupation(spans)
    say(case, "busy_share", share, "", f"{len(spans) / 20:.0f} pieces an iteration")
    large = sum(gap > LARGE_GAP_US for gap in gaps) / 20
    note = f"largest {[round(gap) for gap in sorted(gaps, reverse=True)[:6]]} us"
    say(case, f"gaps_over_{LARGE_GAP_US}us", large, "an iteration", note)


def occupation(spans: list[tuple[float, float]]) -> tuple[float, list[float]]:
    """Of spans in the order of their beginnings: the share of the time that they cover, and the
    gaps."""
    covered, gaps, last = 0.0, [], spans[0][0]
    for begin, end in spans:
        if begin > last:
            gaps.append(begin - last)
        covered += max(0.0, end - max(begin, last))
        last = max(last, end)
    whole = last - spans[0][0]
    return (covered / whole if whole else 1.0), gaps


def _train_in_flight(step: Any, batches: list[Any], count: int) -> None:
    under_way = collections.deque()
    for number in range(count):
        under_way.append(step.submit(*batches[number % len(batches)]))
        if len(under_way) == 2:
            under_way.popleft().result()
    while under_way:
        under_way.popleft().result()


def stall(device: str, name: str) -> None:
    """How long iterations of a small job take while another job starts, whose kernels are loaded
    and whose plans are made then."""
    small, large = models.make("mlp", 1), models.make(name, 2)
    pool = laneway_device.pool_on_device(small) + laneway_device.pool_on_device(large)
    with laneway_device.embedded(device, pool=pool, lanes=2) as service:
        step = laneway_device.train_step(small, service, name="small")
        batch, done, times = small.batch(0), threading.Event(), {"alone": [], "beside_a_start": []}

        def one() -> float:
            started = time.perf_counter()
            step(*batch).item()
            return (time.perf_counter() - started) * 1e6

        for _ in range(WARM_UP):
            one()
        times["alone"] = [one() for _ in range(200)]
        other = laneway_device.train_step(large, service, name="large")

        def start() -> None:
            try:
                for number in range(3):
                    other(*large.batch(number)).item()
            finally:
                done.set()

        thread = threading.Thread(target=start)
        thread.start()
        while not done.is_set():
            times["beside_a_start"].append(one())
        thread.join()
    for case, found in times.items():
        if found:
            say(case, "p99_us", stats.percentile(found, 99), "us", f"{len(found)} iterations")
            say(case, "longest_us", max(found), "us")


MEASUREMENTS: dict[str, Callable[..., None]] = {
    "attributes": attributes,
    "replay": replay,
    "neighbours": neighbours,
    "copies": copies,
    "busy": busy,
    "stall": stall,
}


def main(words: list[str]) -> int:
    if len(words) < 2 or words[0] not in MEASUREMENTS:
        print(
            f"usage: contact_probe NAME DEVICE …; NAME of {', '.join(MEASUREMENTS)}",
            file=sys.stderr,
        )
        return 2
    torch.set_num_threads(1)
    MEASUREMENTS[words[0]](*words[1:])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
