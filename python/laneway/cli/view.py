"""The status document as text. A value that is null is shown as "-"."""

from __future__ import annotations

from typing import Any

from laneway.cli.tables import duration, mebibytes, table

Document = dict[str, Any]


def _text(value: Any) -> str:
    return "-" if value is None else str(value)


def status_lines(status: Document) -> list[str]:
    """The lines of `laneway status`."""
    service, pool = status["service"], status["pool"]
    lines = [
        f"service   pid {_text(service['pid'])}, version {_text(service['version'])}, "
        f"device {_text(service['device'])}, policy {_text(service['policy'])}, "
        f"up {duration(service['uptime_s'])}",
        f"pool      {mebibytes(pool['capacity_bytes'])} MiB: "
        f"{mebibytes(pool['persistent_bytes'])} persistent, "
        f"{mebibytes(pool['region_bytes'])} regions, {mebibytes(pool['other_bytes'])} other, "
        f"{mebibytes(pool['reserve_bytes'])} reserve, {mebibytes(pool['free_bytes'])} free",
    ]
    workers = [f"{w['pid']} {w['role']} {w['state']}" for w in status["workers"]]
    lines.append("workers   " + ("; ".join(workers) or "none"))
    if status["lanes"]:
        lines += ["", *lane_lines(status)]
    lines += ["", *job_lines(status)]
    return lines


def lane_lines(status: Document) -> list[str]:
    """One line for each lane: the size of its region, the running job, and all its jobs."""
    names = {job["id"]: job["name"] for job in status["jobs"]}
    sizes = {region["id"]: region["bytes"] for region in status["regions"]}
    rows = [
        [
            str(lane["id"]),
            mebibytes(sizes.get(lane["region"])),
            _text(names.get(lane["running"], lane["running"])),
            ", ".join(_text(names.get(job, job)) for job in lane["jobs"]) or "-",
        ]
        for lane in status["lanes"]
    ]
    return table(["LANE", "MiB", "RUNNING", "JOBS"], rows, right="LANE MiB")


def job_lines(status: Document) -> list[str]:
    """One line for each job."""
    if not status["jobs"]:
        return ["no jobs"]
    rows = [
        [
            str(job["id"]),
            job["name"],
            _text(job["user"]),
            job["class"],
            job["state"],
            _text(job["lane"]),
            str(job["priority"]),
            mebibytes(job["persistent_bytes"]),
            mebibytes(job["ephemeral_bytes"]),
            f"{job['iterations']:,}",
            duration(job["device_time_s"]),
            reason(job),
        ]
        for job in status["jobs"]
    ]
    heads = ["ID", "NAME", "USER", "CLASS", "STATE", "LANE", "PRIO", "P-MiB", "E-MiB"]
    heads += ["ITERATIONS", "DEVICE-TIME", "REASON"]
    return table(heads, rows, right="ID LANE PRIO P-MiB E-MiB ITERATIONS DEVICE-TIME")


def reason(job: Document) -> str:
    """For a waiting job: its position in the queue, the reason, and the expected wait."""
    parts = []
    if job.get("position") is not None:
        parts.append(f"position {job['position']}")
    if job["reason"] is not None:
        parts.append(job["reason"]["text"])
    if job.get("wait_estimate_s") is not None:
        parts.append(f"room likely in {duration(job['wait_estimate_s'])}")
    return "; ".join(parts) or "-"
