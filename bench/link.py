"""link: does the host's link between the CPU's memory and the pool carry what it is set to?

`RATE_N_pieces`: an image copied into the pool in 1, 52 and 930 pieces over a link of that rate; in
`RATE_out` it is copied out, in `RATE_both` both ways at once, and the slower way counts.
`achieved_of_rate` is what a copy carried over the rate: the median, and as the value the worse end
of its 95 % interval. A copy ends when its thread is awake, and nothing makes up for the last
wake-up: `worst_of_rate` is the worst copy of a hundred, `worst_sleep_of_rate` that of a thread that
slept for the copy's time beside it, and did nothing else. `processor_share` is the share of a core
that the copying threads took. `unlimited_in`, `_out`, `_both`: large copies without a rate beside
memcpy of the same bytes, in turns; `of_memcpy` is the speed over memcpy's, and
`of_memcpy_processor` the same by processor time, which other load disturbs less. `beside_large`:
what copies of four bytes take in the direction of a large one. Cases are interleaved by rounds."""

from __future__ import annotations

import json
import subprocess
from typing import Any

from . import stats
from .harness import Calibration, Options, find_program, interleaved, progress
from .report import Report, at_least

IMAGE_BYTES = 240 << 20
RATES = {"0.4": 400_000_000, "0.8": 800_000_000, "1.6": 1_600_000_000}  # bytes a second, in GB/s
PIECES = (1, 52, 930)
LARGE_BYTES = 256 << 20
ACHIEVED = at_least(0.99)
OF_MEMCPY = at_least(0.95)
COPIES_A_ROUND = 2
LARGE_COPIES_A_ROUND = 4
BESIDE = "beside_large"


def cases() -> list[str]:
    return [*_limited(), *_unlimited(), BESIDE]


def _limited() -> dict[str, list[str]]:
    """Words of the program, by case."""
    ways = [(f"{pieces}_pieces", pieces, "in") for pieces in PIECES]
    ways += [("out", 1, "out"), ("both", 1, "both")]
    return {
        f"{name}_GBps_{way}": [str(IMAGE_BYTES), str(rate), str(pieces), direction]
        for name, rate in RATES.items()
        for way, pieces, direction in ways
    }


def _unlimited() -> dict[str, list[str]]:
    return {f"unlimited_{way}": [str(LARGE_BYTES), "0", "1", way] for way in ("in", "out", "both")}


def _words() -> dict[str, list[str]]:
    beside = [str(IMAGE_BYTES), str(RATES["0.8"]), "1", "beside"]
    return _limited() | _unlimited() | {BESIDE: beside}


def run(options: Options) -> Report:
    report = Report("link")
    calibration = Calibration()
    words = {case: each for case, each in _words().items() if options.wants(case)}
    samples: dict[str, dict[str, list[int]]] = {case: {} for case in words}
    program = str(find_program("laneway-link-rate"))
    for number, order in enumerate(interleaved(list(words), options.trials)):
        progress(f"link: round {number + 1} of {options.trials}")
        calibration.sample()
        for case in order:
            copies = LARGE_COPIES_A_ROUND if case in _unlimited() else COPIES_A_ROUND
            for what, times in _trial([program, *words[case], str(copies)]).items():
                samples[case].setdefault(what, []).extend(times)
    for case, times in samples.items():
        if case in _unlimited():
            _report_unlimited(case, times, report)
        elif case == BESIDE:
            _report_beside(times, report)
        else:
            _report_limited(case, int(words[case][1]), times, report)
    calibration.add_to(report)
    return report


def _trial(command: list[str]) -> dict[str, Any]:
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def _report_limited(case: str, rate: int, times: dict[str, list[int]], report: Report) -> None:
    achieved = [IMAGE_BYTES / (ns / 1e9) / rate for ns in times["link_ns"]]
    interval = stats.bootstrap_median(achieved)
    report.add(case, "achieved_of_rate", interval.low, "ratio", ACHIEVED, samples=achieved,
               median=interval.median)  # fmt: skip
    asleep = [IMAGE_BYTES / (ns / 1e9) / rate for ns in times["asleep_ns"]]
    report.add(case, "worst_of_rate", stats.percentile(achieved, 1), "ratio")
    report.add(case, "worst_sleep_of_rate", stats.percentile(asleep, 1), "ratio", samples=asleep)
    shares = [cpu / ns for cpu, ns in zip(times["cpu_ns"], times["link_ns"], strict=True)]
    report.add(case, "processor_share", stats.median(shares), "cores", samples=shares)


def _report_beside(times: dict[str, list[int]], report: Report) -> None:
    waits = [ns / 1000 for ns in times["small_ns"]]
    middle = stats.median(waits)
    report.add(BESIDE, "small_us", stats.percentile(waits, 99), "us", samples=waits, median=middle)


def _report_unlimited(case: str, times: dict[str, list[int]], report: Report) -> None:
    pairs = zip(times["memcpy_cpu_ns"], times["cpu_ns"], strict=True)
    by_processor = [plain / link for plain, link in pairs]
    middle = stats.median(by_processor)
    report.add(case, "of_memcpy_processor", middle, "ratio", samples=by_processor)
    pairs = zip(times["memcpy_ns"], times["link_ns"], strict=True)
    ratios = [plain / link for plain, link in pairs]
    interval = stats.bootstrap_median(ratios)
    report.add(
        case,
        "of_memcpy",
        interval.low,
        "ratio",
        OF_MEMCPY,
        samples=ratios,
        median=interval.median,
    )
