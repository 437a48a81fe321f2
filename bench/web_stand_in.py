"""`laneway web` over a made status instead of a service: python -m bench.web_stand_in JOBS WORD…

JOBS is how many jobs the status has, the words are those of `laneway web`. Everything but the
service is the real program: what a page or a scrape costs at 1,000 jobs needs no 1,000 jobs."""

from __future__ import annotations

import sys
from typing import Any

from laneway.cli import main
from laneway.web import watch

MIB = 1 << 20
CAPACITY = 4096 * MIB
_REASON = (
    "It waits for room in the pool: its image of 48.00 MiB and a lane of 96.00 MiB do not fit "
    "beside the images that are there. It is number {position} of those who wait, and starts when "
    "other jobs end or shrink."
)


def status(jobs: int, tick: int = 0) -> dict[str, Any]:
    """A status in which a tenth computes or is resident, most wait, some are outside. A `tick` is a
    second in which those who compute go on."""
    rows = [_row(number, jobs, tick) for number in range(1, jobs + 1)]
    inside = [row for row in rows if row["image"]["pool_bytes"]]
    images = sum(row["image"]["pool_bytes"] for row in inside)
    region = 96 * MIB
    return {
        "service": {
            "pid": 1,
            "version": "0.1.0",
            "device": "host",
            "kernels": "cpu",
            "policy": "fair",
            "uptime_s": 5000.0 + tick,
            "policy_process": None,
        },
        "pool": {
            "capacity_bytes": CAPACITY,
            "wanted_bytes": CAPACITY,
            "made_bytes": CAPACITY,
            "persistent_bytes": images,
            "region_bytes": region,
            "other_bytes": 0,
            "reserve_bytes": 0,
            "free_bytes": CAPACITY - images - region,
        },
        "store": _tier(2048 * MIB, sum(row["image"]["store_bytes"] for row in rows)),
        "spill": None,
        "recovery": {"capacity_bytes": 512 * MIB, "used_bytes": 3 * MIB},
        "workers": [_worker(11, "active"), _worker(12, "standby")],
        "regions": [{"id": 1, "bytes": region, "lanes": [1]}],
        "lanes": [
            {
                "id": 1,
                "region": 1,
                "jobs": [row["id"] for row in inside],
                "running": inside[tick % len(inside)]["id"] if inside else None,
            }
        ],
        "lane_limit": {"lanes": 1, "trial": False},
        "jobs": rows,
        "map": _map(inside, images, region),
    }


def _tier(capacity: int, used: int) -> dict[str, Any]:
    return {
        "capacity_bytes": capacity,
        "used_bytes": used,
        "promised_bytes": used,
        "stalls": False,
    }


def _worker(pid: int, role: str) -> dict[str, Any]:
    torch = {"built": "2.11.0", "running": "2.11.0"}
    counts = {"jobs_to_prepare": None, "jobs_prepared": None}
    return {"pid": pid, "role": role, "state": "ready", **counts, "torch": torch}


def _row(number: int, jobs: int, tick: int) -> dict[str, Any]:
    resident = number <= max(1, min(jobs // 10, 24))
    away = not resident and number % 5 == 0
    state = "running" if number == 1 else "resident" if resident else "away" if away else "waiting"
    position = 0 if resident else number
    size = 48 * MIB
    numbers = {"position": position, "lane": 1 if resident else None}
    waits = {"code": "no_room", "text": _REASON.format(position=position), "numbers": numbers}
    done = 100 * number % 900 + (tick if resident else 0)
    return {
        "id": number,
        "name": f"train-{number:04d}",
        "user": ("ann", "bob", "eve")[number % 3],
        "class": ("training", "inference", "best_effort")[number % 3],
        "priority": number % 4,
        "weight": 1.0 + number % 2,
        "state": state,
        "lane": 1 if resident else None,
        "persistent_bytes": size,
        "ephemeral_bytes": 96 * MIB,
        "image": {
            "pool_bytes": size if resident else 0,
            "store_bytes": size if away else 0,
            "spill_bytes": 0,
            "moved_bytes": None,
            "clean": away,
            "arriving": False,
            "pinned": number == 2,
        },
        "iterations": done,
        "device_time_s": done * 0.01,
        "pauses": 0,
        "paused_s": 0.0,
        "abandoned": 0,
        "reason": None if resident else waits,
        "position": position or None,
        "wait_estimate_s": None if resident else 12.0 * position,
        "total_iterations": 1000,
        "iteration_s": 0.01,
        "deadline_s": None,
        "deadline_left_s": None,
        "deadline_missed_by_s": None,
        "waiting_s": None if resident else 30.0 + tick,
        "client_torch": "2.11.0",
    }


def _map(inside: list[dict[str, Any]], images: int, region: int) -> list[dict[str, Any]]:
    pieces = []
    offset = 0
    for row in inside:
        pieces.append(_piece(offset, row["image"]["pool_bytes"], "image", job=row["id"]))
        offset += row["image"]["pool_bytes"]
    free = CAPACITY - images - region
    pieces.append(_piece(offset, free, "free"))
    pieces.append(_piece(offset + free, region, "region", region=1, lane=1))
    return pieces


def _piece(offset: int, size: int, kind: str, **owner: int) -> dict[str, Any]:
    nobody = {"job": None, "region": None, "lane": None}
    return {"offset": offset, "bytes": size, "kind": kind, **nobody, **owner}


class _Made:
    """In the place of watch.Asked."""

    jobs = 0

    def __init__(self, address: str | None) -> None:
        self._tick = 0

    def status(self) -> dict[str, Any]:
        self._tick += 1
        return status(self.jobs, self._tick)

    def close(self) -> None:
        """Nothing is open."""


if __name__ == "__main__":
    _Made.jobs = int(sys.argv[1])
    watch.Asked = _Made  # type: ignore[misc, assignment]
    sys.exit(main(["web", *sys.argv[2:]]))
