"""The status document as text. A value that is null is shown as "-"."""

from __future__ import annotations

from typing import Any

from laneway.cli.job_table import job_lines
from laneway.cli.screen import Screen
from laneway.cli.tables import duration, mebibytes, table
from laneway.printable import cut, printable

Document = dict[str, Any]

_LABEL = 10  # columns of what stands before each line of the status
_LANE_NAME = 24  # columns of a job's name in the lines of lanes


def _text(value: Any) -> str:
    return "-" if value is None else str(value)


def status_lines(status: Document, screen: Screen) -> list[str]:
    """The lines of `laneway status`. On a terminal none is wider than it."""
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
    if pool["wanted_bytes"] != pool["capacity_bytes"]:
        lines.append(f"          on its way to {mebibytes(pool['wanted_bytes'])} MiB")
    recovery = status.get("recovery")
    if recovery:
        lines.append(
            f"recovery  {mebibytes(recovery['capacity_bytes'])} MiB: "
            f"{mebibytes(recovery['used_bytes'])} in use"
        )
    for name in ("store", "spill"):
        if tier := status.get(name):
            lines.append(
                f"{name:8}  {mebibytes(tier['capacity_bytes'])} MiB for images outside of the "
                f"pool: {mebibytes(tier['used_bytes'])} in use, "
                f"{mebibytes(tier['promised_bytes'])} promised to jobs"
                + (", STALLS: a copy to it is late, and nobody else is sent there" * tier["stalls"])
            )
    if (process := service.get("policy_process")) is not None:
        lines.append(f"policy    {policy_process_text(process)}")
    workers = [worker_text(worker) for worker in status["workers"]]
    lines.append("workers   " + ("; ".join(workers) or "none"))
    lines = screen.wrapped([screen.text(line) for line in lines], _LABEL)
    if status["lanes"]:
        lines += ["", *screen.wrapped(lane_lines(status, screen), _LABEL)]
    return [*lines, "", *job_lines(status["jobs"], screen)]


def policy_process_text(process: Document) -> str:
    """Whether the program of a policy from outside decides, and what became of the last one."""
    if process["state"] == "running":
        text = f"its process {process['pid']} decides"
        return text if process["reason"] is None else f"{text}; the one before: {process['reason']}"
    return f"fifo decides, its process does not: {_text(process['reason'])}"


def worker_text(worker: Document) -> str:
    """A worker's part of the line, with the torch that it runs; of a standby, how many jobs it has
    prepared."""
    text = f"{worker['pid']} {worker['role']} {worker['state']}"
    torch = worker.get("torch") or {}
    if torch.get("running"):
        text += f", torch {torch['running']}"
        if torch["built"] != torch["running"]:
            text += f" (built for {torch['built']})"
    jobs = worker.get("jobs_to_prepare")
    if not jobs:
        return text
    return f"{text} (prepared {worker['jobs_prepared']} of {jobs} jobs)"


def lane_lines(status: Document, screen: Screen) -> list[str]:
    """One line for each lane: the size of its region, the running job, and all its jobs."""
    names = {job["id"]: screen.name(job["name"]) for job in status["jobs"]}
    if screen.width is not None:
        names = {number: cut(name, _LANE_NAME) for number, name in names.items()}
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
    lines = table(["LANE", "MiB", "RUNNING", "JOBS"], rows, right="LANE MiB")
    if limit := status.get("lane_limit"):
        trial = "; being measured again" if limit["trial"] else ""
        lines.append(
            f"at most {limit['lanes']} with jobs other than inferences, as measured{trial}"
        )
    return lines


def limit_lines(limits: list[Document]) -> list[str]:
    """One line for each limit: what is used of it, of how much in all and for one user, who has
    most, and the option that changes it."""
    rows = []
    for limit in limits:
        shown = mebibytes if limit["name"].endswith("_bytes") else _count
        most = max(limit["users"], key=lambda one: one["used"], default=None)
        rows.append(
            [
                f"{limit['name']} (MiB)" if shown is mebibytes else limit["name"],
                shown(limit["used"]),
                shown(limit["limit"]),
                shown(limit["of_operators"]),
                shown(limit["user_limit"]),
                "-" if most is None else f"{printable(most['user'])}: {shown(most['used'])}",
                "-" if limit["key"] is None else f"--{limit['key']}",
            ]
        )
    heads = ["LIMIT", "USED", "IN-ALL", "OPERATORS", "ONE-USER", "HAS-MOST", "OPTION"]
    return table(heads, rows, right="USED IN-ALL OPERATORS ONE-USER")


def _count(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def report_lines(report: Document) -> list[str]:
    """A job's line for each of its graphs, what it shares with equal graphs, and why one is not
    recorded."""
    rows, notes = [], []
    for graph in report["graphs"]:
        replay = graph["replay"]
        rows.append(
            [
                str(graph["number"]),
                printable(graph["name"]),
                f"{graph['nodes']:,}",
                f"{graph['iterations']:,}",
                f"{graph['replayed_count']:,}",
                f"{replay['nodes']:,}" if replay["recorded"] else "-",
                mebibytes(graph["planned_peak_bytes"]),
            ]
        )
        shared = graph["shared"]
        found = [what for what in ("resolved", "planned") if shared[what]]
        if found or shared["jobs"] > 1:
            known = "" if not found else f", and was {' and '.join(found)} before this job had it"
            notes.append(f"graph {graph['number']} is that of {shared['jobs']} jobs{known}")
        if replay["refused"]:
            notes.append(f"graph {graph['number']} is not recorded: {replay['refused']}")
    heads = ["GRAPH", "NAME", "NODES", "ITERATIONS", "REPLAYED", "RECORDED-NODES", "PLAN-MiB"]
    right = "GRAPH NODES ITERATIONS REPLAYED RECORDED-NODES PLAN-MiB"
    return [*table(heads, rows, right=right), *notes]
