"""The metrics of `laneway serve`: what its models did, in the names of Prometheus. docs/monitoring
has what they are called in Triton."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from laneway.serve.counts import BOUNDS_NS, Duration
from laneway.serve.model import Model

CONTENT_TYPE = CONTENT_TYPE_LATEST
_LABELS = ("model", "version")
_BOUNDS = (*(f"{ns / 1e9:g}" for ns in BOUNDS_NS), "+Inf")
_OUTCOMES = ("success", "fail", "cancel", "reject")
# Of a histogram: its part of the name, its counts, what it is of.
_HISTOGRAMS = (
    ("request", "success", "From a request to its answer, of those that were answered."),
    ("queue", "queue", "From a request to the beginning of its iteration."),
    ("load", "load", "From the first request that needed it to a job that is ready, or forms."),
    ("compute", "compute", "From the beginning of an iteration to its end, its turn included."),
)


class Metrics:
    """A collector of prometheus_client, over what the models were when it was made."""

    def __init__(self, models: list[Model], service_there: bool) -> None:
        self._models, self._there = models, service_there

    def text(self) -> bytes:
        """The exposition. Takes long where many models are: not for the event loop."""
        registry = CollectorRegistry()
        registry.register(self)
        return generate_latest(registry)

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        up = "Whether the service answered when it was last asked."
        yield GaugeMetricFamily("laneway_up", up, value=int(self._there))
        rows = [((m.facts.name, m.facts.version), m) for m in self._models]
        requests = CounterMetricFamily(
            "laneway_inference_requests",
            "Requests, by how they ended; rejected ones found the queue full.",
            labels=(*_LABELS, "outcome"),
        )
        batched, executions, pending = (
            family(f"laneway_inference_{name}", does, labels=_LABELS)
            for family, name, does in (
                (CounterMetricFamily, "batched", "Rows of requests that iterations answered."),
                (CounterMetricFamily, "executions", "Iterations that answered requests."),
                (GaugeMetricFamily, "pending_requests", "Requests that are not answered."),
            )
        )
        for labels, model in rows:
            for outcome in _OUTCOMES:
                requests.add_metric((*labels, outcome), getattr(model.counts, outcome).count)
            batched.add_metric(labels, model.counts.rows)
            executions.add_metric(labels, model.counts.executions)
            pending.add_metric(labels, model.pending)
        yield from (requests, batched, executions, pending)
        for name, counts, does in _HISTOGRAMS:
            family = HistogramMetricFamily(
                f"laneway_inference_{name}_duration_seconds", does, labels=_LABELS
            )
            for labels, model in rows:
                _fill(family, labels, getattr(model.counts, counts))
            yield family


def _fill(family: Any, labels: tuple[str, str], of: Duration) -> None:
    if of.count == 0:  # twenty lines of nothing, for each model
        return
    buckets = list(zip(_BOUNDS, itertools.accumulate(of.parts)))
    family.add_metric(labels, buckets, of.ns / 1e9)
