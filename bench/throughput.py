"""throughput: how many requests a second does the service answer, and how much of a core does the
broker take while it does?

Clients in C keep 16 iterations of the empty graph under way each; one client, or eight at once. A
trial has a fixed number of requests for each client; its rate is all of them over the time from the
first client's start to the last one's end. The broker's share is its processor time over the same
interval: while jobs hold their turns it has nothing to do."""

from __future__ import annotations

import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from . import stats
from .daemon import Daemon, cpu_s
from .harness import Calibration, Options, find_program, progress
from .report import Report, at_most
from .round_trips import RoundTrips, write_empty_graph

CLIENTS = {"one_client": 1, "eight_clients": 8}
IN_FLIGHT = 16
REQUESTS = 200_000  # a trial, of all clients together
QUICK_REQUESTS = 20_000
BROKER = at_most(5)


def cases() -> list[str]:
    return list(CLIENTS)


def run(options: Options) -> Report:
    report = Report("throughput")
    calibration = Calibration()
    for case, clients in CLIENTS.items():
        if not options.wants(case):
            continue
        progress(f"throughput: {case}")
        try:
            _measure(case, clients, options, calibration, report)
        except (OSError, RuntimeError, LookupError) as error:
            report.add(case, "requests_per_s", None, "1/s", note=str(error))
            report.add(case, "broker_percent", None, "%", BROKER, note=str(error))
    calibration.add_to(report)
    return report


def _measure(
    case: str, clients: int, options: Options, calibration: Calibration, report: Report
) -> None:
    each = (QUICK_REQUESTS if options.quick else REQUESTS) // clients
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        graph = folder / "empty.graph"
        write_empty_graph(graph)
        daemon = stack.enter_context(Daemon("64MiB"))
        broker = daemon.pid_of("laneway-broker")
        program = str(find_program("laneway-client-roundtrip"))
        command = [program, daemon.address, str(graph), "-1", str(IN_FLIGHT)]
        all_of_them = [stack.enter_context(RoundTrips(command)) for _ in range(clients)]
        rates, shares, times = [], [], []
        for trial in range(options.trials + 1):
            calibration.sample()
            cpu, start = cpu_s(broker), time.perf_counter()
            for client in all_of_them:
                client.ask(each)
            found = [client.times() for client in all_of_them]
            took, used = time.perf_counter() - start, cpu_s(broker) - cpu
            if trial == 0:
                continue  # warm
            rates.append(each * clients / took)
            shares.append(100 * used / took)
            times += [t / 1e3 for client in found for t in client]
    note = f"{clients} in C, {IN_FLIGHT} in flight each"
    report.add(case, "requests_per_s", stats.median(rates), "1/s", samples=rates, note=note)
    report.add(case, "between_results_p50_us", stats.median(times), "us")
    report.add(case, "between_results_p99_us", stats.percentile(times, 99), "us")
    # The mean: processor time is counted in ticks that are long beside a trial.
    share = sum(shares) / len(shares)
    report.add(case, "broker_percent", share, "%", BROKER, samples=shares, note="of one core; mean")
