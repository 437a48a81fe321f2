"""Lines of a status, as a service gives them."""

from __future__ import annotations

from typing import Any


def image(
    pool: int = 0, store: int = 0, spill: int = 0, moved: int | None = None, pinned: bool = False
) -> dict[str, Any]:
    """Where an image is, in bytes."""
    return {
        "pool_bytes": pool,
        "store_bytes": store,
        "spill_bytes": spill,
        "moved_bytes": moved,
        "clean": bool(store or spill),
        "arriving": False,
        "pinned": pinned,
    }


def job(**fields: Any) -> dict[str, Any]:
    """A running training; `fields` are those that differ."""
    known = {
        "id": 1,
        "name": "digits",
        "user": "ann",
        "class": "training",
        "priority": 0,
        "weight": 1.0,
        "state": "running",
        "lane": 1,
        "persistent_bytes": 1 << 20,
        "ephemeral_bytes": None,
        "iterations": 1234,
        "total_iterations": None,
        "device_time_s": 1.5,
        "reason": None,
        "position": None,
        "waiting_s": None,
        "wait_estimate_s": None,
        "deadline_left_s": None,
        "deadline_missed_by_s": None,
        "image": image(pool=1 << 20),
    }
    return known | fields


def waits(text: str, **fields: Any) -> dict[str, Any]:
    """A job that waits for that reason."""
    told = {"code": "memory", "text": text, "numbers": {}}
    return job(**{"state": "waiting", "lane": None, "reason": told, "waiting_s": 75.4} | fields)
