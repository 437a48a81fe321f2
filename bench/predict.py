"""predict: how well does capture know an iteration's memory before the first one runs?

Each model trains in a process of its own. The job's report gives the tape that capture predicts,
from sizes and lifetimes of the graph's values, and the one that the probe recorded. Their live-byte
peaks are compared as they are, both padded to the same alignment. What operators allocate for
themselves alone (workspaces) no capture can see; it is left out and reported apart."""

from __future__ import annotations

from typing import Any

from . import models
from .harness import Options, progress
from .prediction import Comparison, compare
from .report import Report, at_most
from .tapes import Tape
from .worker import Worker, WorkerFailed

TARGET = at_most(0.03)


def cases() -> list[str]:
    return list(models.NAMES)


def run(options: Options) -> Report:
    report = Report("predict")
    for name in models.NAMES:
        if not options.wants(name):
            continue
        progress(f"predict: {name}")
        try:
            _report(name, measure(name, options), report)
        except WorkerFailed as error:
            for metric in ("under", "over"):
                report.add(name, metric, None, "ratio", TARGET, note=str(error))
    return report


def measure(name: str, options: Options) -> Comparison:
    make = {"name": name, "seed": 0, "form": "default", "runner": "embedded"}
    make |= {"threads": options.threads, "cores": list(options.cores)}
    with Worker(make) as worker:
        worker.make()
        worker.trial(2)  # the report of the first may come before its tape
        return compare_graph(worker.report()["graphs"][0])


def compare_graph(graph: dict[str, Any]) -> Comparison:
    """Of a graph in a job's report with tapes; WorkerFailed when no probe has told its nodes."""
    if "tape" not in graph or not graph["tape"]["marks"]:
        raise WorkerFailed(f"{graph['name']} has no marked tape: {graph['iterations']} iterations")
    predicted, recorded = graph["predicted_tape"], graph["tape"]
    found = compare(Tape.of(predicted), predicted["marks"], Tape.of(recorded), recorded["marks"])
    if found.predicted != graph["predicted_peak_bytes"]:
        raise WorkerFailed(
            f"the predicted tape of {graph['name']} has a peak of {found.predicted} bytes, "
            f"the service says {graph['predicted_peak_bytes']}"
        )
    return found


def _report(name: str, found: Comparison, report: Report) -> None:
    note = f"{found.predicted / 2**20:.3f} of {found.recorded / 2**20:.3f} MiB"
    report.add(name, "under", found.under, "ratio", TARGET, note=note)
    report.add(name, "over", found.over, "ratio", TARGET)
    report.add(name, "mean_error", found.curve_error, "ratio", note="of e(t), over its peak")
    share = found.workspace_bytes / found.recorded_with_workspaces
    report.add(name, "workspace_bytes", found.workspace_bytes, "B")
    report.add(name, "workspace_share", share, "ratio", note="of the peak with workspaces")
    report.add(name, "predicted_bytes", found.predicted, "B")
    report.add(name, "probe_bytes", found.recorded, "B", note="without workspaces")
