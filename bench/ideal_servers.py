"""Ideal servers: what a trace's jobs take on equal servers that lose no time, as an event
simulation of its own, in whole nanoseconds. Iterations, memory and copies do not exist here: a job
is a length. What the core does in virtual time is held against these figures."""

from __future__ import annotations

import csv
import heapq
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

PARTS = 1_000_000  # of a nanosecond, in which shares are counted


@dataclass(frozen=True)
class Job:
    submit_ns: int
    length_ns: int


@dataclass(frozen=True)
class Outcome:
    average_jct_s: float
    makespan_s: float


def read(path: Path) -> list[Job]:
    """The jobs of a trace in the format `laneway`."""
    with path.open(newline="") as file:
        return [
            Job(
                int(Decimal(row["submit_time_s"]) * 10**9),
                int(row["iterations"]) * int(Decimal(row["iteration_ms"]) * 10**6),
            )
            for row in csv.DictReader(file)
        ]


# Of a job that waits or runs: its length, what is left of it, whether it has begun, and its place
# in the order of arrival; the least goes first, then who came first.
Rank = Callable[[int, int, bool, int], int]
ORDERS: dict[str, Rank] = {
    "fifo": lambda length, left, begun, place: 0,
    "sjf": lambda length, left, begun, place: -1 if begun else length,
    "srtf": lambda length, left, begun, place: left,
    "shortest_job": lambda length, left, begun, place: length,
    "latest_first": lambda length, left, begun, place: -place,
}


def serve(jobs: list[Job], order: str, servers: int = 1) -> Outcome:
    """`fifo`, `sjf` (who has begun goes on to its end), or preemptive: `srtf`, `shortest_job`,
    `latest_first`."""
    rank = ORDERS[order]
    coming = sorted(range(len(jobs)), key=lambda one: jobs[one].submit_ns)
    left = [job.length_ns for job in jobs]
    ends = [0] * len(jobs)
    now, come = 0, 0
    waiting: list[tuple[int, int, int]] = []  # rank, place in the order of arrival, job
    running: dict[int, int] = {}  # job, its place
    while come < len(coming) or waiting or running:
        times = [now + left[one] for one in running]
        if come < len(coming):
            times.append(jobs[coming[come]].submit_ns)
        passed, now = min(times) - now, min(times)
        for one in list(running):
            left[one] -= passed
            if left[one] == 0:
                ends[one] = now
                del running[one]
        while come < len(coming) and jobs[coming[come]].submit_ns <= now:
            one = coming[come]
            heapq.heappush(waiting, (rank(jobs[one].length_ns, left[one], False, come), come, one))
            come += 1
        while waiting and len(running) < servers:
            _, place, one = heapq.heappop(waiting)
            running[one] = place
        # Who waits and goes before one of those that run takes its server.
        while waiting:
            held = max(
                (rank(jobs[one].length_ns, left[one], True, place), place, one)
                for one, place in running.items()
            )
            last = held[2]
            if waiting[0] > held:
                break
            _, place, one = heapq.heapreplace(waiting, held)
            del running[last]
            running[one] = place
    return outcome(jobs, ends)


def share(jobs: list[Job], servers: int = 1) -> Outcome:
    """Processor sharing: all who are there get on equally fast, none faster than one server. Times
    are rounded to a millionth of a nanosecond: exact ones would be fractions of thousands of
    digits."""
    coming = sorted(jobs, key=lambda job: job.submit_ns)
    # Everybody gets the same from when it is there on: who ends next is who has least, less what
    # all had when it came.
    alive: list[tuple[int, int]] = []
    ends: list[Fraction] = [Fraction(0)] * len(coming)
    now, had, come = 0, 0, 0  # in millionths
    while come < len(coming) or alive:
        count = max(len(alive), servers)  # a server's speed is `servers` of these
        ends_at = now + (alive[0][0] - had) * count // servers if alive else None
        comes_at = coming[come].submit_ns * PARTS if come < len(coming) else None
        if ends_at is not None and (comes_at is None or ends_at <= comes_at):
            had, now = alive[0][0], ends_at
            ends[heapq.heappop(alive)[1]] = Fraction(now, PARTS)
        else:
            assert comes_at is not None
            had, now = had + (comes_at - now) * servers // count, comes_at
            heapq.heappush(alive, (had + coming[come].length_ns * PARTS, come))
            come += 1
    return outcome(coming, ends)


def outcome(jobs: list[Job], ends: list[int] | list[Fraction]) -> Outcome:
    total = sum(end - job.submit_ns for end, job in zip(ends, jobs, strict=True))
    first = min(job.submit_ns for job in jobs)
    return Outcome(float(Fraction(total) / len(jobs) / 10**9), float((max(ends) - first) / 10**9))
