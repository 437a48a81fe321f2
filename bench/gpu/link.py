"""link: what do copies between host and device cost, by size, and what do Laneway's reach of it?

torch's copies give the link: pinned and pageable, both directions, alone and under compute; the
line through the small sizes gives the cost of a copy. Ours are measured by laneway-device-copies:
a Stream's copies from pinned memory, and PoolAccess, which places images from any memory."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from .. import stats
from ..harness import find_program
from ..report import at_least
from .section import Section

KIB, MIB = 1 << 10, 1 << 20
SIZES = tuple(4 * KIB << (2 * step) for step in range(9))  # 4 KiB … 256 MiB
LARGE = 16 * MIB  # from here on the link counts, not the call
OF_LINK = at_least(0.95)
SECONDS_A_SIZE = 0.12
PRODUCT = 4096  # rows of the matrices that keep the device busy
WARM_UP = 20  # large copies: a link that was idle runs at a lower rate
# What of torch's each of ours is compared with: the one that reads the same kind of memory.
COUNTERPARTS = {"stream": "pinned", "pool_access": "pageable"}
# A copy from ordinary memory is a core's copy to pinned memory on both sides, so neither is the
# faster by more than chance: it has no target, and the core's own rate stands beside it.
TARGETS = {"stream": OF_LINK, "pool_access": None}
CORE_COPY = 64 * MIB
DIRECTIONS = ("to_device", "from_device")

# case -> (direction, bytes) -> seconds of one copy, a number a batch
Rates = dict[str, dict[tuple[str, int], list[float]]]


def cases() -> list[str]:
    return ["pinned", "pageable", "pinned_under_compute", "ours"]


def run(section: Section, only: tuple[str, ...] = (), trials: int = 5) -> None:
    settings = section.settings
    sizes = [size for size in SIZES if size <= 16 * MIB] if settings.quick else list(SIZES)
    seconds = 0.01 if settings.quick else SECONDS_A_SIZE
    link: Rates = {}
    if settings.cuda:
        for case in ("pinned", "pageable", "pinned_under_compute"):
            if (only and case not in only) or not section.fits(3, case):
                continue
            section.calibration.sample()
            link[case] = _torch_rates(settings.device, case, sizes, seconds)
            _report(section, case, link[case])
    else:
        section.leave_out("torch's copies: torch sees no device")
    if not only or "ours" in only:
        _core_rate(section)
        lines = _our_lines(section, sizes, seconds)
        if lines and settings.cuda:
            _measure_again(section, link, [size for size in sizes if size >= LARGE], seconds)
        _report_ours(section, lines, link)


def _torch_rates(
    device: str, case: str, sizes: list[int], seconds: float
) -> dict[tuple[str, int], list[float]]:
    """Seconds a copy, by direction and size: a number a batch."""
    pinned = case != "pageable"
    host = torch.empty(max(sizes), dtype=torch.uint8, pin_memory=pinned).fill_(1)
    there = torch.empty(max(sizes), dtype=torch.uint8, device=device)
    found = {}
    busy = _Busy(device) if case == "pinned_under_compute" else None
    with torch.cuda.stream(torch.cuda.Stream(device)):
        for _ in range(WARM_UP):
            there.copy_(host, non_blocking=True)
        for direction in DIRECTIONS:
            for size in sizes:
                to, source = there[:size], host[:size]
                if direction == "from_device":
                    to, source = source, to
                copy = _copier(to, source)
                found[direction, size] = _seconds_of(copy, device, seconds, busy)
    return found


def _core_rate(section: Section) -> None:
    """What one core copies from ordinary memory to memory that it has written before."""
    source, to = np.ones(CORE_COPY, np.uint8), np.zeros(CORE_COPY, np.uint8)
    samples = []
    for _ in range(5):
        started = time.perf_counter()
        np.copyto(to, source)
        samples.append(CORE_COPY / (time.perf_counter() - started) / 1e9)
    section.add("core", "copy_gb_per_s", stats.median(samples), "GB/s", samples=samples)


def _copier(to: torch.Tensor, source: torch.Tensor) -> Callable[[], object]:
    return lambda: to.copy_(source, non_blocking=True)


class _Busy:
    """Matrix products on a stream of their own, enough of them queued to cover a measurement."""

    def __init__(self, device: str) -> None:
        self._stream = torch.cuda.Stream(device)
        self._a = torch.randn(PRODUCT, PRODUCT, device=device)
        self._out = torch.empty_like(self._a)
        torch.cuda.synchronize(device)
        self.feed(2)
        self._stream.synchronize()
        started = time.perf_counter()
        self.feed(4)
        self._stream.synchronize()
        self._one_s = (time.perf_counter() - started) / 4

    def cover(self, seconds: float) -> None:
        self.feed(min(500, round(seconds / max(self._one_s, 1e-6)) + 2))

    def feed(self, count: int) -> None:
        with torch.cuda.stream(self._stream):
            for _ in range(count):
                torch.mm(self._a, self._a, out=self._out)


def _seconds_of(
    copy: Callable[[], object], device: str, seconds: float, busy: _Busy | None
) -> list[float]:
    """Of one copy: a number a batch, each batch between two waits."""
    for _ in range(3):
        copy()
    stream = torch.cuda.current_stream(device)
    stream.synchronize()
    started = time.perf_counter()
    copy()
    stream.synchronize()
    one = max(time.perf_counter() - started, 1e-6)
    batch = max(1, min(200, round(seconds / 4 / one)))
    times = []
    for _ in range(5):
        if busy is not None:
            busy.cover(2 * batch * one)
        started = time.perf_counter()
        for _ in range(batch):
            copy()
        stream.synchronize()
        times.append((time.perf_counter() - started) / batch)
        torch.cuda.synchronize(device)
    return times


def _measure_again(section: Section, link: Rates, sizes: list[int], seconds: float) -> None:
    """Torch's copies after ours too, so that neither drift nor the order tells for one of them."""
    for case in COUNTERPARTS.values():
        if sizes and case in link and section.fits(3, f"{case} once more"):
            again = _torch_rates(section.settings.device, case, sizes, seconds)
            for key, times in again.items():
                link[case][key] = link[case][key] + times


def _report(section: Section, case: str, times: dict[tuple[str, int], list[float]]) -> None:
    for direction in DIRECTIONS:
        by_size = {size: stats.median(t) for (d, size), t in times.items() if d == direction}
        for size, taken in by_size.items():
            metric = f"{direction}_{_name(size)}_gb_per_s"
            samples = [size / each / 1e9 for each in times[direction, size]]
            section.add(case, metric, size / taken / 1e9, "GB/s", samples=samples)
        if len(by_size) > 1:
            small = {size: taken for size, taken in by_size.items() if size <= 4 * MIB}
            slope, intercept = np.polyfit(list(small), list(small.values()), 1)
            section.add(case, f"{direction}_call_us", float(intercept) * 1e6, "us")
            section.add(case, f"{direction}_slope_gb_per_s", 1e-9 / float(slope), "GB/s")


def _our_lines(section: Section, sizes: list[int], seconds: float) -> list[dict[str, Any]]:
    try:
        return _our_copies(section, sizes, seconds)
    except (OSError, RuntimeError, subprocess.TimeoutExpired) as error:
        section.add("ours", "stream_over_link", None, "ratio", OF_LINK, note=str(error)[:300])
        return []


def _report_ours(section: Section, lines: list[dict[str, Any]], link: Rates) -> None:
    """What counts of a ratio is the lower end."""
    for found in lines:
        what, size, times = found["what"], found["bytes"], found["seconds"]
        direction = found["direction"]
        name = f"{what}_{direction}_{_name(size)}"
        samples = [size / each / 1e9 for each in times]
        rate = size / stats.median(times) / 1e9
        section.add("ours", f"{name}_gb_per_s", rate, "GB/s", samples=samples)
        theirs = link.get(COUNTERPARTS[what], {}).get((direction, size))
        if size >= LARGE and theirs is not None:
            there = stats.median(theirs)
            ratios = [there / each for each in times]
            interval = stats.bootstrap_median(ratios)
            note = f"of torch's {COUNTERPARTS[what]} copy, before and after; lower end of 95 %; "
            note += f"median {interval.median:.3f}"
            more = {"median": interval.median, "high": interval.high}
            metric = f"{name}_over_link"
            section.add(
                "ours",
                metric,
                interval.low,
                "ratio",
                TARGETS[what],
                samples=ratios,
                note=note,
                **more,
            )


def _our_copies(section: Section, sizes: list[int], seconds: float) -> list[dict[str, Any]]:
    """What laneway-device-copies says, a line a size, direction and way."""
    program = find_program("laneway-device-copies")
    command = [str(program), section.settings.device, f"{seconds:g}", *map(str, sizes)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=max(5, section.left()), check=False
    )
    if done.returncode != 0:
        said = done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"]
        raise RuntimeError(said[-1])
    return [json.loads(line) for line in done.stdout.splitlines()]


def _name(size: int) -> str:
    return f"{size // MIB}mib" if size >= MIB else f"{size // KIB}kib"
