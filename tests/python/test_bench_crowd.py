"""The benches crowd and neighbours: that they compare, count and look at what they say."""

import pytest

import laneway
from bench import crowd, crowd_models, neighbours
from bench.harness import Calibration, Options
from bench.report import Report


def rows(report):
    return {row["metric"]: row for row in report.rows}


def test_no_two_models_of_the_crowd_are_alike_and_each_is_always_the_same():
    shapes = set()
    for number in range(crowd.JOBS):
        training = number < crowd.TRAININGS
        first, again = (crowd_models.make_model(number, training).state_dict() for _ in range(2))
        assert all(first[key].equal(again[key]) for key in first)
        shapes.add(tuple(value.shape for value in first.values()))
    assert len(shapes) == crowd.JOBS


@pytest.mark.parametrize("case", crowd.cases())
def test_a_small_crowd_is_pushed_out_and_keeps_every_bit(case, monkeypatch):
    for name, value in {
        "QUICK_JOBS": 8,
        "QUICK_TRAININGS": 2,
        "QUICK_LEAST": {"fifty": 10, "switches": 20},
        "BASELINES": 2,
        "MOST_BASELINES": 2,
        "CALLS_OF_BASELINE": 1,
        "FURTHER": 1,
        "OF_POOL": 0.5,
    }.items():
        monkeypatch.setattr(crowd, name, value)
    report = Report("crowd")
    crowd._measure(case, True, report)
    found = rows(report)
    assert found["evictions"]["holds"] and found["switches"]["holds"]
    for metric in ("wrong_answers", "trainings_that_differ", "copies_that_failed"):
        assert found[metric]["holds"], found[metric]
    for metric in ("jobs", "pool_claimed_bytes", "store_bytes", "spill_bytes"):
        assert found[metric]["value"] == 0, found[metric]
    assert len(report.samples[f"{case}/crowds_of_the_baseline"]) == 2


@pytest.mark.parametrize(
    ("sizes", "settled"),
    [
        ([], 0),
        ([1000, 1000], 0),
        ([1000, 1004, 1000], 0),
        ([990, 1000, 1000], 0),
        ([1, 1000, 998, 1000], 1),
    ],
)
def test_a_baseline_is_taken_when_memory_has_settled(sizes, settled):
    assert crowd.settled(sizes) == bool(settled)


def test_a_wrong_answer_and_a_lost_iteration_are_seen():
    with laneway.embedded("256MiB") as service:
        seen = crowd.Crowd(service, 2, 1)
        seen.each()
        seen._plain[1].load_state_dict(
            {
                key: value.add(1)
                for key, value in seen._plain[1].state_dict().items()
                if value.is_floating_point()
            },
            strict=False,
        )
        seen.call(1)
        assert seen.wrong == 1
        states = seen.states()
        seen.losses[0].append(0.0)
        seen.close()
    report = Report("crowd")
    crowd._compare("fifty", seen, states, 64 << 20, report)
    assert rows(report)["trainings_that_differ"]["value"] == 2, "its state and its losses"


@pytest.mark.parametrize("case", neighbours.RATES)
def test_images_come_in_during_every_third_window(case, monkeypatch):
    monkeypatch.setattr(neighbours, "SIZE", 4 << 20)
    monkeypatch.setattr(neighbours, "QUICK_WINDOW_S", 0.05)
    report = Report("neighbours")
    neighbours._measure(case, Options(trials=2, quick=True), Calibration(), report)
    found = rows(report)
    assert found["images_copied"]["value"] > 0
    assert found["slowdown_p99"]["value"] > 0
    assert found["over_elsewhere_p99"]["value"] > 0
    for kind in ("without", "with", "elsewhere"):
        assert len(report.samples[f"{case}/p99_{kind}_copies_us"]) == 2
