"""The benches policies and philly: what they hold the core against is right, they see a result that
is wrong, and a missing trace is no failure."""

import pytest

from bench import philly, policies
from bench.harness import Options
from bench.ideal_servers import Outcome, serve, share
from bench.report import Report

ROWS = """timestamp,duration,num_gpus
2017-10-09 00:00:10,100.0,1
2017-10-09 00:00:00,50.0,1
2017-10-09 00:00:20,7.5,8
2017-10-09 00:00:10,10.0,1
"""
PROGRAM = ("laneway-simulate", "bin")


def rows(report, metric):
    return {row["metric"]: row for row in report.rows if row["metric"].endswith(metric)}


def test_sjf_and_srtf_in_short_memory_are_near_the_ideal_server(program):
    report = Report("policies")
    policies.measure("salus", policies.SALUS, report)
    assert len(rows(report, "/off_by")) == 8
    for policy in ("fifo", "sjf", "srtf"):
        for text in (policy, f"{policy}:age=off"):
            assert rows(report, "/off_by")[f"{text}/off_by"]["holds"], text
            assert rows(report, "/makespan")[f"{text}/makespan"]["holds"], text
    assert rows(report, "/any_eviction")[f"{policies.FAIR}/any_eviction"]["holds"]


def test_a_wrong_order_is_seen():
    report = Report("policies")
    found = {"average_jct_s": 103.0, "makespan_s": 201.0, "refused": 0}
    policies.against("salus", "sjf", found, Outcome(100.0, 200.0), 0.02, report)
    assert [row["holds"] for row in report.rows] == [False, True]


def test_where_jobs_were_refused_there_is_no_value():
    report = Report("policies")
    found = {"average_jct_s": 100.0, "makespan_s": 200.0, "refused": 3}
    policies.against("salus", "sjf", found, Outcome(100.0, 200.0), 0.02, report)
    assert [row["value"] for row in report.rows] == [None, None]
    assert "3 jobs were refused" in report.rows[0]["note"]


def test_generated_jobs_depend_on_the_seed_alone(program, tmp_path):
    paths = [tmp_path / name for name in ("one", "again", "other")]
    for path, seed in zip(paths, (5, 5, 6), strict=True):
        policies.generate(20, seed, path)
    one, again, other = (policies.read(path) for path in paths)
    assert one == again != other and len(one) == len(other) == 20


def test_without_the_trace_rows_are_null(tmp_path):
    for options in (Options(), Options(traces=tmp_path)):
        report = philly.run(options)
        assert len(report.rows) == 9
        assert all(row["value"] is None and row["note"] for row in report.rows)


def test_the_jobs_of_one_gpu_come_by_submission(tmp_path):
    path = tmp_path / philly.FILE
    path.write_text(ROWS)
    jobs = philly.read(path)
    assert [job.length_ns // 10**9 for job in jobs] == [50, 100, 10]
    assert jobs[1].submit_ns - jobs[0].submit_ns == 10 * 10**9


@pytest.mark.parametrize("policy", ["fifo", "sjf", "srtf"])
def test_a_job_to_a_lane_is_the_ideal_server(program, tmp_path, monkeypatch, policy):
    """More jobs than lanes, several of them in one second."""
    monkeypatch.setattr(philly, "LANES", 2)
    monkeypatch.setattr(philly, "FLAGS", ("--where", "num_gpus=1", "--lanes", "2"))
    path = tmp_path / philly.FILE
    lengths = [(i * 7 % 5, 20 + i * 13 % 90) for i in range(40)]
    lines = [f"2017-10-09 00:00:{at:02},{length}.0,1" for at, length in lengths]
    path.write_text("\n".join(["timestamp,duration,num_gpus", *lines, ""]))
    report = Report("philly")
    case = philly.Case((policy,), ":age=off:share=no", 1e-4, (0, 40))
    philly.measure("some", case, path, report)
    assert report.rows[0]["holds"], report.rows[0]["note"]
    jobs = philly.read(path)
    assert serve(jobs, policy, 2).average_jct_s != pytest.approx(share(jobs, 2).average_jct_s)
