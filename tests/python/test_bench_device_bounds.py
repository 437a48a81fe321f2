"""Figures of a device stand beside what explains them: what bounds a service's latency, how much of
a job was replayed."""

import contextlib

import pytest

from bench.gpu import overhead, service_latency
from bench.gpu.trials import Trials
from support.sections import rows_of, section_of, trials_of


def test_what_a_service_adds_stands_beside_what_bounds_it(monkeypatch):
    """No target: the machine decides what a message costs."""
    added = {"service": [130, 1030], "embedded": [100, 1000]}

    @contextlib.contextmanager
    def made(section, model, variants, timeout_s):
        trials = trials_of(added)
        trials.run = trials.report = lambda *_: None
        yield trials

    class Ring:
        def __init__(self, command):
            assert command[1:] == ["-1", "-1"]

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def trial(self, count):
            return [15_000] * count

    monkeypatch.setattr(service_latency, "ready", made)
    monkeypatch.setattr(service_latency, "RoundTrips", Ring)
    monkeypatch.setattr(service_latency, "find_program", lambda name: name)
    section = section_of(cuda=False)
    service_latency.run(section, ("mlp",))
    rows = rows_of(section)
    assert rows["machine", "round_trip_us"]["value"] == 15
    assert rows["mlp", "added_us"]["value"] == 30 and rows["mlp", "added_us"]["target"] is None
    assert rows["mlp", "added_over_round_trip"]["value"] == pytest.approx(2)


def test_how_much_was_replayed_stands_beside_the_times():
    class Told:
        def __init__(self, graphs, **more):
            self.told = {"graphs": graphs, **more}

        def report(self):
            return self.told

    plain = {"iterations": 20, "replayed_count": 0}
    trials = Trials("mlp")
    trials.workers = {
        "eager": None,
        "embedded": Told([{"iterations": 20, "replayed_count": 15}]),
        "embedded_replay": Told([plain], replay={"recorded": 0, "refused": "aten::mm: no capture"}),
        "embedded_plain": Told([plain | {"replay": {"recorded": 0, "refused": ""}}]),
    }
    section = section_of(cuda=False)
    overhead._report_replay(section, "mlp", trials)
    rows = {
        metric: (row["value"], row.get("note")) for (_, metric), row in rows_of(section).items()
    }
    assert rows == {
        "embedded_replayed_share": (0.75, None),
        "embedded_replay_replayed_share": (0.0, "aten::mm: no capture"),
        "embedded_plain_replayed_share": (0.0, None),
    }
