"""sharing: are four different training jobs faster side by side in four lanes than one after
another, than as four plain PyTorch processes that the driver slices time for, and than those
under MPS?

Everything is set up first; then windows of time are interleaved. A job's speed in a window is its
iterations a second over those it makes when it has Laneway to itself (its share of the window in
which the four take turns); the speed of a window is the sum over the four jobs. One after another
is therefore 1."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

from .. import stats
from ..daemon import Daemon
from ..harness import interleaved, progress
from ..models import make
from ..report import at_least
from ..worker import Worker, WorkerFailed
from . import laneway_device
from .mps import NoMps, mps
from .section import Section
from .trials import WARM_UP, order_of

JOBS = ("gpt", "cnn", "lstm", "resnet18")
QUICK_JOBS = ("mlp", "cnn")
PLAIN_RUNNER = "eager_ahead"  # plain PyTorch at its best: nothing waits for a loss
TARGETS = {"in_turn": at_least(1.0), "time_sliced": at_least(1.1), "mps": None}

LEAST_S = 0.3  # of a window
SET_UP_S = 12.0  # of a fleet, on a GPU

Fleet = dict[str, Worker]  # job -> its process


def cases() -> list[str]:
    return ["four_jobs"]


def run(section: Section, only: tuple[str, ...] = (), trials: int = 8) -> None:
    quick = section.settings.quick
    with ExitStack() as stack:
        fleets: dict[str, Fleet] = {}
        missing: dict[str, str] = {}
        for name, fleet_of in (("lanes", _clients), ("time_sliced", _plain), ("mps", _under_mps)):
            if name == "mps" and fleets and not section.fits(_least_s(fleets) + SET_UP_S, name):
                missing[name] = "there was no time left for it"
                continue
            try:
                fleets[name] = stack.enter_context(fleet_of(section))
            except (WorkerFailed, NoMps, OSError, RuntimeError) as error:
                missing[name] = str(error)
                progress(f"sharing: no {name}: {error}")
        if "lanes" in fleets:
            ways = len(fleets) + 1
            window_s = 0.2 if quick else min(1.0, max(LEAST_S, section.left() / ways / 2))
            rounds = 2 if quick else trials
            rounds = max(2, min(rounds, int(section.left() / (window_s * ways))))
            rates = _rounds(section, fleets, window_s, rounds)
            _report(section, rates)
        for name in TARGETS:
            why = missing.get("lanes") or missing.get(name)
            if why:
                metric = f"lanes_over_{name}"
                section.add("four_jobs", metric, None, "ratio", TARGETS[name], note=why)


def _least_s(fleets: dict[str, Fleet]) -> float:
    """Two rounds of short windows, with one more fleet."""
    return 2 * LEAST_S * (len(fleets) + 2)


@contextmanager
def _clients(section: Section) -> Iterator[Fleet]:
    """Clients of one lanewayd whose pool holds all jobs, each in a lane of its own."""
    jobs = jobs_of(section)
    pool = sum(laneway_device.pool_on_device(make(job)) for job in jobs)
    # Whether they pay is the question here.
    words = [*laneway_device.daemon_words(section.settings.device), "--lanes", str(len(jobs))]
    with ExitStack() as stack:
        daemon = stack.enter_context(Daemon(pool, words=[*words, "--standby", "0"]))
        environment = {"LANEWAY_ADDRESS": daemon.address}
        yield stack.enter_context(_fleet(section, "client_inflight2", environment))


@contextmanager
def _plain(section: Section) -> Iterator[Fleet]:
    with _fleet(section, PLAIN_RUNNER, {}) as fleet:
        yield fleet


@contextmanager
def _under_mps(section: Section) -> Iterator[Fleet]:
    if not section.settings.cuda:
        raise NoMps("torch sees no device")
    with mps() as environment, _fleet(section, PLAIN_RUNNER, environment) as fleet:
        yield fleet


@contextmanager
def _fleet(section: Section, runner: str, environment: dict[str, str]) -> Iterator[Fleet]:
    """A process a job, set up side by side and warm. WorkerFailed: one of them was not."""
    with ExitStack() as stack:
        workers: Fleet = {}
        for job in jobs_of(section):
            worker = Worker(order_of(section, job, runner), environment, max(20, section.left()))
            workers[job] = stack.enter_context(worker)

        def set_up(job: str) -> None:
            workers[job].make()
            workers[job].trial(WARM_UP)

        with ThreadPoolExecutor(len(workers)) as pool:
            for done in [pool.submit(set_up, job) for job in workers]:
                done.result()
        yield workers


def jobs_of(section: Section) -> tuple[str, ...]:
    return QUICK_JOBS if section.settings.quick else JOBS


def _rounds(
    section: Section, fleets: dict[str, Fleet], window_s: float, rounds: int
) -> dict[str, list[dict[str, float]]]:
    """Iterations a second of each job, by way and round."""
    ways = ["in_turn", *fleets]
    rates: dict[str, list[dict[str, float]]] = {way: [] for way in ways}
    for order in interleaved(ways, rounds):
        section.calibration.sample()
        for way in order:
            if way == "in_turn":
                rates[way].append(_one_after_another(fleets["lanes"], window_s))
            else:
                rates[way].append(_together(fleets[way], window_s))
    return rates


def _one_after_another(fleet: Fleet, window_s: float) -> dict[str, float]:
    """What each makes a second while it is alone; the window is divided among them."""
    found = {}
    for job, worker in fleet.items():
        reply = worker.window(window_s / len(fleet))
        found[job] = reply["iterations"] / reply["seconds"]
    return found


def _together(fleet: Fleet, window_s: float) -> dict[str, float]:
    with ThreadPoolExecutor(len(fleet)) as pool:
        replies = dict(zip(fleet, pool.map(lambda w: w.window(window_s), fleet.values())))
    return {job: reply["iterations"] / reply["seconds"] for job, reply in replies.items()}


def _report(section: Section, rates: dict[str, list[dict[str, float]]]) -> None:
    jobs = jobs_of(section)
    alone = {job: stats.median([found[job] for found in rates["in_turn"]]) for job in jobs}
    speeds: dict[str, list[float]] = {}
    for way, rounds in rates.items():
        for job in jobs:
            samples = [found[job] for found in rounds]
            section.add(job, f"{way}_per_s", stats.median(samples), "1/s", samples=samples)
        share = len(jobs) if way == "in_turn" else 1
        speeds[way] = [sum(found[job] / alone[job] for job in jobs) / share for found in rounds]
        section.add("four_jobs", f"{way}_speed", stats.median(speeds[way]), "", samples=speeds[way])
    for way, target in TARGETS.items():
        if way not in speeds:
            continue
        ratios = [ours / other for ours, other in zip(speeds["lanes"], speeds[way])]
        interval = stats.bootstrap_median(ratios)
        note = f"lower end of 95 %; median {interval.median:.3f}"
        more = {"median": interval.median, "high": interval.high}
        metric = f"lanes_over_{way}"
        section.add(
            "four_jobs", metric, interval.low, "ratio", target, samples=ratios, note=note, **more
        )
