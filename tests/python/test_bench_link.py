"""What the bench of the host's link computes of the times that its program prints, and that the
program copies."""

import subprocess

import pytest

from bench import link
from bench.harness import find_program
from bench.report import Report


def rows_of(report):
    return {row["metric"]: row for row in report.rows}


def test_every_rate_and_number_of_pieces_is_a_case():
    assert len(link.cases()) == len(link.RATES) * (len(link.PIECES) + 2) + 4


def test_what_was_carried_is_compared_with_the_rate():
    report = Report("link")
    exact = link.IMAGE_BYTES  # ns, at a byte each
    times = {
        "link_ns": [exact] * 95 + [2 * exact] * 5,
        "cpu_ns": [exact / 10] * 100,
        "asleep_ns": [exact] * 95 + [4 * exact] * 5,
    }
    link._report_limited("case", 1_000_000_000, times, report)
    rows = rows_of(report)
    assert rows["achieved_of_rate"]["value"] == pytest.approx(1.0)
    assert rows["achieved_of_rate"]["holds"]
    assert rows["worst_of_rate"]["value"] == pytest.approx(0.5)
    assert rows["worst_sleep_of_rate"]["value"] == pytest.approx(0.25)
    assert rows["processor_share"]["value"] == pytest.approx(0.1)


def test_copies_that_are_often_late_miss_the_rate():
    report = Report("link")
    exact = link.IMAGE_BYTES
    times = {
        "link_ns": [exact] * 55 + [1.02 * exact] * 45,
        "cpu_ns": [exact / 10] * 100,
        "asleep_ns": [exact] * 100,
    }
    link._report_limited("case", 1_000_000_000, times, report)
    row = rows_of(report)["achieved_of_rate"]
    assert row["median"] == pytest.approx(1.0)
    assert not row["holds"], "the worse end of the interval counts"


def test_large_copies_are_compared_with_memcpy_of_the_same_round():
    report = Report("link")
    times = {"link_ns": [100, 200], "memcpy_ns": [98, 196]}
    processor = {"cpu_ns": [50, 100], "memcpy_cpu_ns": [50, 99]}
    link._report_unlimited("case", times | processor, report)
    assert rows_of(report)["of_memcpy_processor"]["value"] == pytest.approx(0.995)
    row = rows_of(report)["of_memcpy"]
    assert row["median"] == pytest.approx(0.98)
    assert row["holds"]


def test_copies_beside_a_large_one_are_reported_in_microseconds():
    report = Report("link")
    link._report_beside({"small_ns": [100_000] * 95 + [300_000] * 5}, report)
    row = rows_of(report)["small_us"]
    assert (row["median"], row["value"]) == (100, 300)


@pytest.mark.parametrize("way", ["in", "out", "both"])
def test_the_program_copies_and_prints_a_time_a_round(way):
    program = str(find_program("laneway-link-rate"))
    times = link._trial([program, "100000", "10000000", "7", way, "2"])
    assert {what: len(each) for what, each in times.items()} == {
        "link_ns": 2,
        "memcpy_ns": 2,
        "cpu_ns": 2,
        "memcpy_cpu_ns": 2,
        "asleep_ns": 2,
        "small_ns": 0,
    }
    assert times["asleep_ns"][0] >= 10_000_000
    assert times["link_ns"][0] >= 9_999_000, "a hundredth of a second"


def test_the_program_makes_small_copies_beside_a_large_one():
    program = str(find_program("laneway-link-rate"))
    times = link._trial([program, "100000", "10000000", "1", "beside", "1"])
    assert len(times["link_ns"]) == 1
    assert times["memcpy_ns"] == []
    assert len(times["small_ns"]) >= 1


@pytest.mark.parametrize(
    "words",
    [[], ["10", "0", "1", "up", "1"], ["0", "0", "1", "in", "1"], ["10", "0", "11", "in", "1"]],
)
def test_the_program_refuses_what_it_cannot_copy(words):
    program = str(find_program("laneway-link-rate"))
    assert subprocess.run([program, *words], capture_output=True, check=False).returncode == 2
