"""A scheduling policy of your own, in one executable file:

    #!/usr/bin/env python3
    from laneway import policy

    class Latest(policy.Policy):
        def rank(self, job, now):
            return -job.arrival  # the lowest goes first

    policy.main(Latest)

`laneway simulate --trace FILE --policy ./latest.py` runs it. The file is a program of its own,
which the core never waits for: it is told what changed, and what it says counts from then on. Only
the standard library is needed here.
"""

from __future__ import annotations

import math
import os
import random
import socket
import struct
import sys
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn

__all__ = ["Job", "Policy", "Rank", "main"]

# As plugin/frames.h has them.
_VERSION = 1
_DESCRIPTOR = 3
_MAX_FRAME = 64 << 10
_HELLO, _JOB, _GONE, _INSTANT = 1, 2, 3, 4
_SAID_HELLO, _SAID_RANK, _SAID_WAKE_AT, _SAID_DONE = 129, 130, 131, 132
_NS = 10**9


@dataclass(slots=True)
class Job:
    """What is known of a job. What is not known is None. Times are in seconds, the last two in
    whole nanoseconds too; `offered_s` is on the clock of `now`."""

    id: int
    arrival: int  # 1, 2, 3, … in the order in which jobs came
    offered_s: float
    name: str | None
    user: str | None
    job_class: str  # "training", "inference" or "best_effort"
    priority: int
    weight: float
    deadline_s: float | None  # after it was offered
    total_iterations: int | None
    iterations: int  # done so far
    busy_s: float  # device time that it had
    iteration_s: float  # of one: measured, else the client's estimate, else 0
    remaining_s: float | None  # what is left of the total, by that
    waiting_s: float  # for how long it has waited now, for a turn or to get in
    persistent_bytes: int
    ephemeral_bytes: int
    lane: int | None
    state: str  # as `laneway jobs` shows it
    busy_ns: int
    waiting_ns: int


@dataclass(slots=True, frozen=True)
class Rank:
    """Where a job stands: the lowest value goes first, equal ones by arrival. From the moment on
    that `rank` was asked about it changes by itself: by `per_busy_s` with each second of device
    time that the job gets, and by `per_wait_s` with each second that it waits. While others wait
    its turns end after `slice_s`; None: when somebody goes before it."""

    value: float
    per_busy_s: float = 0.0
    per_wait_s: float = 0.0
    slice_s: float | None = None


class Policy:
    """Derive from it, define `rank`, and give the class to main(). `options` are those in the text
    of the policy, ./mine.py:key=value, but for those that Laneway knows itself (age, age_s,
    reserve_s, share). The module random is seeded: what is drawn from it is the same in each run of
    a simulation with one seed."""

    def __init__(self, options: dict[str, str]) -> None:
        self.options = options

    def rank(self, job: Job, now: float) -> float | Rank:
        """Where the job stands; asked again whenever something of it has changed."""
        raise NotImplementedError(f"{type(self).__name__} needs a function rank(self, job, now)")

    def gone(self, job: Job) -> None:
        """The job, as it was known last, is over."""

    def wakes_at(self, now: float) -> float | None:
        """When all jobs are to be ranked again though nothing has happened to them: a time later
        than `now`. Asked after each batch of changes; the last answer counts."""
        return None


def main(policy_class: type[Policy]) -> NoReturn:
    """Answers the service until it is gone, and ends the program."""
    try:
        channel = socket.socket(fileno=_DESCRIPTOR)
        os.set_inheritable(_DESCRIPTOR, False)
    except OSError:
        sys.exit(
            f"{sys.argv[0]} is a policy: give it to laneway simulate or lanewayd as "
            f"--policy {_as_path(sys.argv[0])}"
        )
    code = 0
    try:
        _serve(channel, policy_class)
    except (BrokenPipeError, ConnectionResetError):
        pass  # nobody listens any more
    except Exception:
        traceback.print_exc()
        code = 1
    sys.exit(code)


def _as_path(file: str) -> str:
    return file if "/" in file else f"./{file}"


def _serve(channel: socket.socket, policy_class: type[Policy]) -> None:
    policy: Policy | None = None
    jobs: dict[int, Job] = {}
    batch: list[Job] = []
    for kind, frame in _frames(channel):
        if kind == _HELLO:
            policy = _begin(frame, policy_class)
            channel.sendall(_frame(_SAID_HELLO, struct.pack("<I", _VERSION)))
        elif policy is None:
            raise RuntimeError(f"the service did not say hello first, but {kind}")
        elif kind == _JOB:
            job = _job(frame)
            jobs[job.id] = job
            batch.append(job)
        elif kind == _GONE:
            policy.gone(jobs.pop(struct.unpack("<Q", frame)[0]))
        elif kind == _INSTANT:
            now_ns, number = struct.unpack("<qQ", frame)
            channel.sendall(_answer(policy, batch, now_ns / _NS, number))
            batch.clear()
        else:
            raise RuntimeError(f"the service sent a frame of type {kind}: it is of another version")


def _begin(frame: memoryview, policy_class: type[Policy]) -> Policy:
    version, seed = struct.unpack_from("<IQ", frame)
    if version != _VERSION:
        raise RuntimeError(f"the service speaks version {version}, and laneway.policy {_VERSION}")
    text, _ = _text(frame, 12)
    random.seed(seed)
    pairs = (item.partition("=") for item in text.split(":") if item)
    return policy_class({key: value for key, _, value in pairs})


def _answer(policy: Policy, batch: list[Job], now: float, number: int) -> bytes:
    said = [_rank(job, policy.rank(job, now)) for job in batch]
    wakes_at = policy.wakes_at(now)
    wake = struct.pack("<Bd", wakes_at is not None, wakes_at or 0.0)
    said += [_frame(_SAID_WAKE_AT, wake), _frame(_SAID_DONE, struct.pack("<Q", number))]
    return b"".join(said)


def _rank(job: Job, said: float | Rank) -> bytes:
    rank = said if isinstance(said, Rank) else Rank(said)
    slice_s = 0.0 if rank.slice_s is None else rank.slice_s
    numbers = (rank.value, rank.per_busy_s, rank.per_wait_s, slice_s)
    if not all(map(math.isfinite, numbers)) or (rank.slice_s is not None and slice_s <= 0):
        raise ValueError(
            f"rank() of job {job.id} said {said!r}: give finite numbers, and a slice_s above 0 or "
            "None"
        )
    return _frame(
        _SAID_RANK, struct.pack("<Qqqdddd", job.id, job.busy_ns, job.waiting_ns, *numbers)
    )


def _frame(kind: int, fields: bytes) -> bytes:
    return struct.pack("<IB", 1 + len(fields), kind) + fields


def _frames(channel: socket.socket) -> Iterator[tuple[int, memoryview]]:
    """What the service sends, until it is gone."""
    data = b""
    while part := channel.recv(_MAX_FRAME):
        data += part
        at = 0
        while len(data) - at >= 4:
            (length,) = struct.unpack_from("<I", data, at)
            if len(data) - at - 4 < length:
                break
            yield data[at + 4], memoryview(data)[at + 5 : at + 4 + length]
            at += 4 + length
        data = data[at:]


def _text(frame: memoryview, at: int) -> tuple[str, int]:
    (length,) = struct.unpack_from("<H", frame, at)
    return str(frame[at + 2 : at + 2 + length], "utf-8"), at + 2 + length


def _job(frame: memoryview) -> Job:
    number, arrival = struct.unpack_from("<QQ", frame)
    name, at = _text(frame, 16)
    user, at = _text(frame, at)
    job_class, at = _text(frame, at)
    state, at = _text(frame, at)
    (
        priority,
        weight,
        total,
        deadline_ns,
        iterations,
        offered_ns,
        busy_ns,
        iteration_ns,
        remaining_ns,
        waiting_ns,
        persistent,
        ephemeral,
        lane,
    ) = struct.unpack_from("<idQqQqqqqqqqQ", frame, at)
    return Job(
        id=number,
        arrival=arrival,
        offered_s=offered_ns / _NS,
        name=name or None,
        user=user or None,
        job_class=job_class,
        priority=priority,
        weight=weight,
        deadline_s=deadline_ns / _NS if deadline_ns > 0 else None,
        total_iterations=total or None,
        iterations=iterations,
        busy_s=busy_ns / _NS,
        iteration_s=iteration_ns / _NS,
        remaining_s=remaining_ns / _NS if remaining_ns >= 0 else None,
        waiting_s=waiting_ns / _NS,
        persistent_bytes=persistent,
        ephemeral_bytes=ephemeral,
        lane=lane or None,
        state=state,
        busy_ns=busy_ns,
        waiting_ns=waiting_ns,
    )
