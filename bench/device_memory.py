"""device_memory: what does a service take of a device beside its pool, as jobs come and go?

A thousand jobs of three kinds, three at a time, train in one embedded service
(bench/device_memory_probe.py) on the fake device (tests/fake_cuda), which counts every byte. Its
streams never get a handle twice: whatever is kept by stream grows with every job. On a GPU the
section "contact" of ./dev gpu-check asks the same."""

from __future__ import annotations

from typing import Any

from .fake_device import DEVICE, probe_on_fake
from .harness import Options, progress
from .report import Report, at_least, at_most

CASE = "jobs"
COUNTS = (10, 100, 1000)
QUICK_COUNTS = (5, 10, 30)
GROWTH = at_most(0)
PROBE = "bench.device_memory_probe"


def cases() -> list[str]:
    return [CASE]


def run(options: Options) -> Report:
    report = Report("device_memory")
    if options.wants(CASE):
        counts = QUICK_COUNTS if options.quick else COUNTS
        progress(f"device_memory: {counts[-1]} jobs")
        add(report, measure(counts))
    return report


def measure(counts: tuple[int, ...]) -> dict[str, Any]:
    """On the fake: what its probe found, or {"error": why not}."""
    return probe_on_fake(PROBE, DEVICE, *map(str, counts))


def add(report: Report, found: dict[str, Any]) -> None:
    """Rows of what a probe found."""
    if "error" in found:
        report.add(CASE, "growth", None, "B", GROWTH, note=found["error"])
        return
    beyond = {int(count): used for count, used in found["beyond_pool_bytes"].items()}
    for count, used in beyond.items():
        torchs = found["torch_bytes"][str(count)]
        note = f"of torch's allocator {torchs / 2**20:.1f} MiB"
        report.add(CASE, f"beyond_pool_after_{count}", used, "B", note=note)
    first, last = min(beyond), max(beyond)
    note = f"from {first} to {last} jobs"
    report.add(CASE, "growth", beyond[last] - beyond[first], "B", GROWTH, note=note)
    report.add(CASE, "replayed_iterations", found["replayed_count"], "", at_least(1))
