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
# What of torch's each of ours is held to: the one that reads the same kind of memory.
COUNTERPARTS = {"stream": "pinned", "pool_access": "pageable"}
DIRECTIONS = ("to_device", "from_device")


def cases() -> list[str]:
    return ["pinned", "pageable", "pinned_under_compute", "ours"]


def run(section: Section, only: tuple[str, ...] = (), trials: int = 5) -> None:
    settings = section.settings
    sizes = [size for size in SIZES if size <= 16 * MIB] if settings.quick else list(SIZES)
    seconds = 0.01 if settings.quick else SECONDS_A_SIZE
    link: dict[str, dict[tuple[str, int], float]] = {}
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
        _report_ours(section, sizes, seconds, link)


def _torch_rates(
    device: str, case: str, sizes: list[int], seconds: float
) -> dict[tuple[str, int], float]:
    """Seconds a copy, by direction and size."""
    pinned = case != "pageable"
    host = torch.empty(max(sizes), dtype=torch.uint8, pin_memory=pinned).fill_(1)
    there = torch.empty(max(sizes), dtype=torch.uint8, device=device)
    found = {}
    busy = _Busy(device) if case == "pinned_under_compute" else None
    with torch.cuda.stream(torch.cuda.Stream(device)):
        for direction in DIRECTIONS:
            for size in sizes:
                to, source = there[:size], host[:size]
                if direction == "from_device":
                    to, source = source, to
                copy = _copier(to, source)
                found[direction, size] = _seconds_of(copy, device, seconds, busy)
    return found


def _copier(to: torch.Tensor, source: torch.Tensor) -> Callable[[], object]:
    return lambda: to.copy_(source, non_blocking=True)


class _Busy:
    """Matrix products on a stream of their own, enough of them queued to cover a measurement."""

    def __init__(self, device: str) -> None:
        self._stream = torch.cuda.Stream(device)
        self._a = torch.randn(4096, 4096, device=device)
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
) -> float:
    """Of one copy: the median of batches, each between two waits."""
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
    return stats.median(times)


def _report(section: Section, case: str, times: dict[tuple[str, int], float]) -> None:
    for direction in DIRECTIONS:
        by_size = {size: times[d, size] for d, size in times if d == direction}
        for size, taken in by_size.items():
            section.add(case, f"{direction}_{_name(size)}_gb_per_s", size / taken / 1e9, "GB/s")
        if len(by_size) > 1:
            small = {size: taken for size, taken in by_size.items() if size <= 4 * MIB}
            slope, intercept = np.polyfit(list(small), list(small.values()), 1)
            section.add(case, f"{direction}_call_us", float(intercept) * 1e6, "us")
            section.add(case, f"{direction}_slope_gb_per_s", 1e-9 / float(slope), "GB/s")


def _report_ours(
    section: Section,
    sizes: list[int],
    seconds: float,
    link: dict[str, dict[tuple[str, int], float]],
) -> None:
    try:
        lines = _our_copies(section, sizes, seconds)
    except (OSError, RuntimeError, subprocess.TimeoutExpired) as error:
        section.add("ours", "stream_over_link", None, "ratio", OF_LINK, note=str(error)[:300])
        return
    for found in lines:
        what, size, times = found["what"], found["bytes"], found["seconds"]
        direction = found["direction"]
        name = f"{what}_{direction}_{_name(size)}"
        section.add("ours", f"{name}_gb_per_s", size / stats.median(times) / 1e9, "GB/s")
        there = link.get(COUNTERPARTS[what], {}).get((direction, size))
        if size >= LARGE and there is not None:
            ratios = [there / each for each in times]
            interval = stats.bootstrap_median(ratios)
            note = f"of torch's {COUNTERPARTS[what]} copy; 95 %: {interval.low:.3f} to "
            note += f"{interval.high:.3f}"
            value = interval.median
            section.add("ours", f"{name}_over_link", value, "ratio", OF_LINK, note=note)


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
