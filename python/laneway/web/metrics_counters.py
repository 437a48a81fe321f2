"""What the service counts of itself, in the names of Prometheus."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, Metric

from laneway.web.changes import Document

# Of the status: key of its counters, name, label of its parts, description.
_LABELLED = (
    ("evictions", "laneway_evictions", "tier", "Images that left the pool, by where they went."),
    ("returns", "laneway_returns", "tier", "Images that came back, by where they were."),
    ("moved_bytes", "laneway_moved_bytes", "direction", "Bytes of images that were copied."),
    ("refusals", "laneway_refusals", "code", "Jobs and iterations refused, by the reason's code."),
    ("deaths", "laneway_process_deaths", "role", "Processes of the service that died."),
)
_PLAIN = (
    ("turns", "laneway_turns", "Turns that were granted."),
    (
        "lost_records",
        "laneway_trace_lost_records",
        "Records of traces for which there was no room.",
    ),
)


def families(status: Document) -> Iterator[Metric]:
    """A service that counts nothing has none of them; neither has what is not known a sample."""
    counters: Mapping[str, object] = status.get("counters") or {}
    for key, name, label, does in _LABELLED:
        parts = counters.get(key)
        if isinstance(parts, Mapping):
            family = CounterMetricFamily(name, does, labels=(label,))
            for part, value in parts.items():
                family.add_metric((part,), value)
            yield family
    for key, name, does in _PLAIN:
        value = counters.get(key)
        if isinstance(value, int):
            yield CounterMetricFamily(name, does, value=value)
