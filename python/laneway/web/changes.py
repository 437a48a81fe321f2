"""What happened between two statuses of a service, in words; and what of a status a page that has
the one before still needs."""

from __future__ import annotations

from typing import Any

Document = dict[str, Any]

# What moves by itself: the page counts on, from when it got the row.
_CLOCKS = ("waiting_s", "deadline_left_s")
_INSIDE = ("staged", "resident", "running", "paused", "held", "restoring")
_ENDED = {
    "finished": "has finished",
    "failed": "has failed",
    "cancelled": "was ended",
    "quarantined": "is quarantined",
}


def happened(before: Document, after: Document) -> list[Document]:
    """The events between both, each {"kind", "text", "job": id or null}."""
    return [*_of_service(before, after), *_of_workers(before, after), *_of_jobs(before, after)]


def _event(kind: str, text: str, job: int | None = None) -> Document:
    return {"kind": kind, "text": text, "job": job}


def _of_service(before: Document, after: Document) -> list[Document]:
    events = []
    old, new = before["service"], after["service"]
    if old["pid"] != new["pid"]:
        events.append(_event("service", f"another service answers, pid {new['pid']}"))
    elif new["uptime_s"] is not None and new["uptime_s"] < (old["uptime_s"] or 0.0):
        events.append(_event("service", "the service counts its time anew"))
    if old["policy"] != new["policy"]:
        events.append(_event("policy", f"policy {new['policy']} decides, was {old['policy']}"))
    process, was = new.get("policy_process"), old.get("policy_process")
    if process and was and process["state"] != was["state"]:
        why = f": {process['reason']}" if process["reason"] else ""
        events.append(_event("policy", f"the policy's process is {process['state']}{why}"))
    size, had = after["pool"]["capacity_bytes"], before["pool"]["capacity_bytes"]
    if size != had:
        events.append(_event("pool", f"the pool has {size >> 20} MiB, had {had >> 20} MiB"))
    return events


def _of_workers(before: Document, after: Document) -> list[Document]:
    if before["service"]["pid"] != after["service"]["pid"]:
        return []
    old = {worker["pid"]: worker for worker in before["workers"]}
    new = {worker["pid"]: worker for worker in after["workers"]}
    events = [
        _event("died", f"the {old[pid]['role']} worker, pid {pid}, is gone")
        for pid in old
        if pid not in new
    ]
    for pid, worker in new.items():
        was = old.get(pid)
        if was is not None and was["role"] != worker["role"]:
            events.append(_event("worker", f"worker {pid} is {worker['role']}, was {was['role']}"))
        if worker["state"] == "lost" and (was is None or was["state"] != "lost"):
            events.append(_event("died", f"the {worker['role']} worker, pid {pid}, is lost"))
        if worker["state"] == "ready" and (was is None or was["state"] != "ready"):
            events.append(_event("worker", f"the {worker['role']} worker, pid {pid}, is ready"))
    return events


def _of_jobs(before: Document, after: Document) -> list[Document]:
    if before["service"]["pid"] != after["service"]["pid"]:
        return []
    old = {job["id"]: job for job in before["jobs"]}
    new = {job["id"]: job for job in after["jobs"]}
    events = []
    for id, job in new.items():
        text = _of_job(old.get(id), job)
        if text is not None:
            kind, words = text
            events.append(_event(kind, f"job {id}, {job['name']}, {words}", id))
    for id in old.keys() - new.keys():
        if old[id]["state"] not in _ENDED:
            events.append(_event("ended", f"job {id}, {old[id]['name']}, is over", id))
    return events


def _of_job(was: Document | None, job: Document) -> tuple[str, str] | None:
    state, had = job["state"], was["state"] if was else None
    if state == had:
        return None
    if state in _ENDED:
        return ("quarantined" if state == "quarantined" else "ended"), _ENDED[state]
    if state in ("evicting", "away"):
        left = had not in ("evicting", "away") and had is not None
        return ("evicted", f"leaves the pool for others (was {had})") if left else None
    if state in _INSIDE:
        if had in (None, "waiting"):
            return "admitted", "was admitted"
        if had in ("away", "evicting"):
            return "returned", "comes back into the pool"
        if had == "quarantined":
            return "released", "is tried again"
        return None
    if state == "waiting":
        return "waits", "waits for room"
    return None


def difference(before: Document, after: Document) -> Document:
    """{"sections": all others that differ, "jobs": rows that are new or differ, "gone": ids of rows
    that are not there any more}."""
    sections = {
        name: value for name, value in after.items() if name != "jobs" and before.get(name) != value
    }
    old = {job["id"]: job for job in before["jobs"]}
    rows = [job for job in after["jobs"] if not _same(old.pop(job["id"], None), job)]
    return {"sections": sections, "jobs": rows, "gone": sorted(old)}


def _same(was: Document | None, job: Document) -> bool:
    if was is None or was.keys() != job.keys():
        return False
    if was == job:
        return True
    # A clock that has started, or stopped, is a difference; one that goes on is none.
    return all(
        value == was[key]
        or (key in _CLOCKS and value is not None and was[key] is not None and value > was[key] - 60)
        for key, value in job.items()
    )
