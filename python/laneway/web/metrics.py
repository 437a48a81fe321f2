"""The metrics: one status in the names of Prometheus. What a status does not say has no name
here."""

from __future__ import annotations

import collections
from collections.abc import Iterator
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from laneway.web import metrics_counters
from laneway.web.changes import Document
from laneway.web.streams import Streams
from laneway.web.watch import Look

_JOB = ("job", "id", "user")
_TIERS = ("pool", "store", "spill")


class Collector:
    """A collector of prometheus_client. `look` is set before each collection."""

    def __init__(self, streams: Streams) -> None:
        self._streams = streams
        self.look: Look | None = None

    def collect(self) -> Iterator[Metric]:
        """All families. While no service answers: that, and what this program knows of itself."""
        yield _gauge("laneway_web_streams", "Pages that are open.", self._streams.open)
        yield _counter(
            "laneway_web_slow_readers", "Pages that were dropped.", self._streams.slow_total
        )
        yield _counter(
            "laneway_web_refused_streams", "Pages beyond the limit.", self._streams.refused_total
        )
        status = None if self.look is None else self.look.status
        yield _gauge("laneway_up", "Whether the service answers.", int(status is not None))
        if status is not None:
            yield from _of_service(status)
            yield from _of_pool(status)
            yield from metrics_counters.families(status)
            yield from _of_jobs(status["jobs"])


def _gauge(name: str, does: str, value: float) -> Metric:
    return GaugeMetricFamily(name, does, value=value)


def _counter(name: str, does: str, value: float) -> Metric:
    return CounterMetricFamily(name, does, value=value)


def _of_service(status: Document) -> Iterator[Metric]:
    service = status["service"]
    build = GaugeMetricFamily(
        "laneway_build_info", "Version and device of the service.", labels=("version", "device")
    )
    build.add_metric((str(service["version"]), str(service["device"])), 1)
    yield build
    ready = GaugeMetricFamily(
        "laneway_worker_ready", "Whether a worker of this role is ready.", labels=("role",)
    )
    roles = {"active": 0, "standby": 0}
    for worker in status["workers"]:
        roles[worker["role"]] = max(roles.get(worker["role"], 0), worker["state"] == "ready")
    for role, is_ready in roles.items():
        ready.add_metric((role,), int(is_ready))
    yield ready


def _of_pool(status: Document) -> Iterator[Metric]:
    pool = status["pool"]
    yield _gauge("laneway_pool_capacity_bytes", "Size of the pool.", value=pool["capacity_bytes"])
    parts = GaugeMetricFamily(
        "laneway_pool_bytes", "What the pool's bytes are used for; adds up.", labels=("kind",)
    )
    for kind in ("persistent", "region", "other", "reserve", "free"):
        parts.add_metric((kind,), pool[f"{kind}_bytes"])
    yield parts
    outside = GaugeMetricFamily(
        "laneway_outside_bytes", "Room for images outside of the pool.", labels=("tier", "what")
    )
    for tier in ("store", "spill"):
        if status.get(tier):
            outside.add_metric((tier, "capacity"), status[tier]["capacity_bytes"])
            outside.add_metric((tier, "used"), status[tier]["used_bytes"])
    yield outside
    lanes = GaugeMetricFamily(
        "laneway_lane_region_bytes", "Size of the region of a lane.", labels=("lane",)
    )
    for region in status["regions"]:
        for lane in region["lanes"]:
            lanes.add_metric((str(lane),), region["bytes"])
    yield lanes


# A row's figure: name, description, key of the row.
_GAUGES = (
    ("laneway_job_ephemeral_bytes", "What an iteration of the job needs.", "ephemeral_bytes"),
    ("laneway_job_weight", "Share of the device's time, beside others.", "weight"),
)
_COUNTERS = (
    ("laneway_job_iterations", "Iterations that are done.", "iterations"),
    ("laneway_job_device_seconds", "Time in which the job computed.", "device_time_s"),
    ("laneway_job_paused_seconds", "Time in which an iteration was held.", "paused_s"),
    ("laneway_job_abandoned", "Iterations that were given up and run again.", "abandoned"),
)


def _of_jobs(jobs: list[Document]) -> Iterator[Metric]:
    count = collections.Counter((job["state"], job["class"]) for job in jobs)
    states = GaugeMetricFamily(
        "laneway_jobs", "Jobs, by state and class.", labels=("state", "class")
    )
    for labels, number in sorted(count.items()):
        states.add_metric(labels, number)
    yield states
    labelled = [((job["name"], str(job["id"]), job["user"]), job) for job in jobs]
    for family, rows in ((GaugeMetricFamily, _GAUGES), (CounterMetricFamily, _COUNTERS)):
        for name, does, key in rows:
            yield _filled(family(name, does, labels=_JOB), labelled, key)
    yield from _of_images(labelled)
    waiting = GaugeMetricFamily(
        "laneway_job_waiting_seconds", "How long the job has waited.", labels=(*_JOB, "code")
    )
    progress = GaugeMetricFamily(
        "laneway_job_progress_ratio", "Done iterations of all that were told.", labels=_JOB
    )
    for labels, job in labelled:
        if job["waiting_s"] is not None:
            code = job["reason"]["code"] if job["reason"] else ""
            waiting.add_metric((*labels, code), job["waiting_s"])
        if job["total_iterations"]:
            progress.add_metric(labels, job["iterations"] / job["total_iterations"])
    yield waiting
    yield progress


def _filled(family: Any, labelled: list[tuple[tuple[str, ...], Document]], key: str) -> Metric:
    for labels, job in labelled:
        if job.get(key) is not None:  # unknown is no sample, not 0
            family.add_metric(labels, job[key])
    return family


def _of_images(labelled: list[tuple[tuple[str, ...], Document]]) -> Iterator[Metric]:
    images = GaugeMetricFamily(
        "laneway_job_image_bytes", "Where the job's image lies.", labels=(*_JOB, "tier")
    )
    for labels, job in labelled:
        for tier in _TIERS:
            images.add_metric((*labels, tier), job["image"][f"{tier}_bytes"])
    yield images
