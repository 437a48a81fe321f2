"""partition: what does a lane's own partition of the multiprocessors do for a small job beside a
large one? The small job's synchronous iterations are timed alone and while the large one trains,
with lanes that share all multiprocessors and with lanes that have a part each."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

from .. import stats
from ..daemon import Daemon
from ..models import make
from ..worker import Worker, WorkerFailed
from . import laneway_device
from .section import Section
from .trials import WARM_UP, order_of

SMALL, LARGE = "mlp", "gpt_large"
QUICK_LARGE = "cnn"
ROUND_TO = 8  # multiprocessors: what a partition of newer devices is made of


def cases() -> list[str]:
    return ["shared", "parted"]


def run(section: Section, only: tuple[str, ...] = (), trials: int = 5) -> None:
    half = _multiprocessors(section) // 2 // ROUND_TO * ROUND_TO
    for case, lane_sms in (("shared", 0), ("parted", half)):
        if only and case not in only:
            continue
        if not section.fits(5 if section.settings.cuda else 0, case):
            continue
        try:
            _measure(section, case, lane_sms, 2 if section.settings.quick else trials)
        except (WorkerFailed, OSError, RuntimeError) as error:
            section.add(case, "small_beside_us", None, "us", note=str(error))


def _multiprocessors(section: Section) -> int:
    if not section.settings.cuda:
        return 2 * ROUND_TO
    import torch

    return torch.cuda.get_device_properties(section.settings.device).multi_processor_count


def _measure(section: Section, case: str, lane_sms: int, rounds: int) -> None:
    large = QUICK_LARGE if section.settings.quick else LARGE
    pool = sum(laneway_device.pool_on_device(make(job)) for job in (SMALL, large))
    words = laneway_device.daemon_words(section.settings.device, lane_sms)
    words += ["--standby", "0", "--lanes", "2"]
    window_s = 0.2 if section.settings.quick else 0.6
    with ExitStack() as stack:
        daemon = stack.enter_context(Daemon(pool, words=words))
        environment = {"LANEWAY_ADDRESS": daemon.address}
        timeout = max(10.0, section.left())
        small, big = (
            stack.enter_context(Worker(order_of(section, job, runner), environment, timeout))
            for job, runner in ((SMALL, "client"), (large, "client_inflight2"))
        )
        threads = stack.enter_context(ThreadPoolExecutor(2))
        for ready in [threads.submit(_set_up, worker) for worker in (small, big)]:
            ready.result()
        count = max(5, round(window_s * 1e9 / max(small.trial(20)["times_ns"])))
        alone: list[list[int]] = []
        beside: list[list[int]] = []
        rates: list[float] = []
        for _ in range(rounds):
            section.calibration.sample()
            alone.append(small.trial(count)["times_ns"])
            training = threads.submit(big.window, window_s)
            beside.append(small.trial(count)["times_ns"])
            reply = training.result()
            rates.append(reply["iterations"] / reply["seconds"])
        _report(section, case, lane_sms, alone, beside, rates)


def _set_up(worker: Worker) -> None:
    worker.make()
    worker.trial(WARM_UP)


def _report(
    section: Section,
    case: str,
    lane_sms: int,
    alone: list[list[int]],
    beside: list[list[int]],
    rates: list[float],
) -> None:
    note = f"{lane_sms or 'all'} multiprocessors a lane"
    for name, trials in (("alone", alone), ("beside", beside)):
        medians = [stats.median(trial) / 1e3 for trial in trials]
        each = [t / 1e3 for trial in trials for t in trial]
        value = stats.median(medians)
        section.add(case, f"small_{name}_us", value, "us", samples=medians, note=note)
        section.add(case, f"small_{name}_p99_us", stats.percentile(each, 99), "us")
    section.add(case, "large_per_s", stats.median(rates), "1/s", samples=rates, note=note)
