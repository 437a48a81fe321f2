"""eviction: how fast do images leave the pool and come back?

`SIZE_store`, `SIZE_spill`: a job is sent out of the pool and brought back, again and again; the
trace of the core says when it asked the worker for that, and when the worker had done it. `out`: an
image that was written since its last return; `back`: its return; `clean`: the next leaving, with a
copy that still holds. Speeds are set against memcpy of as many bytes to memory that is present, in
turns with them; `clean_round_trips` is the time of a clean leaving in round trips of the ring
between two processes, measured in the same run. A disk has no target: it is what it is."""

from __future__ import annotations

import ctypes
import re
import subprocess
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import torch

import laneway

from . import stats
from .daemon import Daemon, daemon_program
from .harness import Calibration, Options, find_program, progress
from .report import Report, at_least, at_most
from .round_trips import RoundTrips

MIB = 1 << 20
SIZES = {"16MiB": 16 * MIB, "64MiB": 64 * MIB, "256MiB": 256 * MIB}
TIERS = ("store", "spill")
NAME = "moved"
OF_MEMCPY = at_least(0.8)
CLEAN = at_most(5)
QUICK_ROUNDS = 5
ROUNDS = 30
RING_TRIPS = 2_000
# An entry of the trace: its time in seconds, and what the core heard or decided.
ENTRY = re.compile(
    r"^[+-](\d+\.\d+) .*?(heard|decided) (\w+) job \d+ '" + NAME + r"'(?!.*arriving)", re.M
)
ANSWERS = {"EvictImage": "ImageLeft", "PlaceImage": "ImagePlaced"}


def cases() -> list[str]:
    return [f"{size}_{tier}" for tier in TIERS for size in SIZES]


def run(options: Options) -> Report:
    report = Report("eviction")
    calibration = Calibration()
    rounds = QUICK_ROUNDS if options.quick else ROUNDS
    for case in filter(options.wants, cases()):
        progress(f"eviction: {case}")
        calibration.sample()
        size, tier = case.split("_")
        copies, ring_ns, moves = _measure(SIZES[size], tier, rounds)
        _report(case, SIZES[size], tier, (copies, ring_ns, moves), report)
    calibration.add_to(report)
    return report


def _measure(
    size: int, tier: str, rounds: int
) -> tuple[list[float], list[int], dict[str, list[float]]]:
    """Seconds of each memcpy, nanoseconds of each round trip, and seconds of each move."""
    copy = Memcpy(size)
    copies = []
    with tempfile.TemporaryDirectory() as folder, RoundTrips(_ring()) as ring:
        trace = Path(folder) / "trace"
        room = str(4 * size)
        outside = ("--staging", room) if tier == "store" else (
            "--staging", "0", "--spill", f"{folder}:{room}"
        )  # fmt: skip
        words = ("--standby", "0", "--trace", str(trace), *outside)
        with Daemon(3 * size + 64 * MIB, words=words) as daemon:
            with laneway.connect(daemon.address) as service, wide_step(service, size) as step:
                inputs = torch.zeros(1, 1), torch.zeros(1, 1)
                for number in range(rounds + 1):  # the first one touches the pages outside
                    step(*inputs).item()
                    for _ in range(2):  # written since, then not
                        service.unload(NAME)
                        service.load(NAME)
                    if number:
                        copies.append(copy.once())
            ring_ns = ring.trial(RING_TRIPS)
        return copies, ring_ns, _moves(trace)


def _ring() -> list[str]:
    return [str(find_program("laneway-ring-roundtrip")), "0", "1"]


def wide_step(service: Any, size: int) -> Any:
    """A step whose image has `size` bytes, of which it writes all and uses four."""

    class Wide(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.few = torch.nn.Parameter(torch.ones(1, 1))
            self.register_buffer("many", torch.zeros(size // 4))

        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            self.many.add_(1.0)
            return inputs * self.few

    model = Wide()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    return laneway.train_step(
        model, torch.nn.functional.mse_loss, optimizer, service=service, name=NAME, sync="manual"
    )


class Memcpy:
    """From memory to other memory, all of it present."""

    def __init__(self, size: int) -> None:
        self._from, self._to = torch.ones(size // 4), torch.ones(size // 4)
        self._size = size

    def once(self) -> float:
        started = time.perf_counter()
        ctypes.memmove(self._to.data_ptr(), self._from.data_ptr(), self._size)
        return time.perf_counter() - started


def _moves(trace: Path) -> dict[str, list[float]]:
    """Seconds from a decision to its answer: `out`, `back` and `clean`, without the first round."""
    reader = daemon_program().parent / "laneway-trace"
    text = subprocess.run([str(reader), str(trace)], check=True, capture_output=True, text=True)
    moves = defaultdict(list)
    asked: tuple[str, float] = ("", 0.0)
    out = 0
    for at, _, what in ENTRY.findall(text.stdout):
        if what in ANSWERS:
            asked = ANSWERS[what], float(at)
        elif what == asked[0]:
            took = float(at) - asked[1]
            if what == "ImageLeft":
                moves["clean" if out % 2 else "out"].append(took)
                out += 1
            elif out:
                moves["back"].append(took)
    return {"out": moves["out"][1:], "back": moves["back"][2:], "clean": moves["clean"][1:]}


def _report(
    case: str,
    size: int,
    tier: str,
    measured: tuple[list[float], list[int], dict[str, list[float]]],
    report: Report,
) -> None:
    copies, ring_ns, moves = measured
    plain = stats.median(copies)
    for way in ("out", "back"):
        ratios = [plain / took for took in moves[way]]
        interval = stats.bootstrap_median(ratios)
        report.add(case, f"{way}_of_memcpy", interval.low, "ratio",
                   OF_MEMCPY if tier == "store" else None, samples=ratios,
                   median=interval.median)  # fmt: skip
        report.add(case, f"{way}_MB_per_s", size / stats.median(moves[way]) / 1e6, "MB/s")
    trips = [took * 1e9 / stats.median(ring_ns) for took in moves["clean"]]
    report.add(case, "clean_round_trips", stats.median(trips), "round trips", CLEAN, samples=trips)
