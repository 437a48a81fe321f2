"""The benches policies_real and fidelity: jobs end in a service as in plain PyTorch, a wrong result
is seen, and what repeats do not agree on is not compared."""

import csv
from pathlib import Path

import pytest
import torch

from bench import fidelity, policies_real, real_jobs, real_runs
from bench.daemon import children_of, daemon_program
from bench.harness import Options
from bench.real_jobs import MIB, MODELS, Job, Live, Plain, Ran
from bench.real_runs import PLAIN, Run
from bench.report import Report
from support.daemon import wait_until

FIFO, SJF, SRTF = policies_real.POLICIES
CALIBRATION = {
    "models": {
        name: {
            "iteration_ns": 10_000_000 * (1 + number),
            "iteration_again_ns": 10_000_000 * (1 + number),
            "persistent_bytes": MIB << number,
            "ephemeral_bytes": 3 * MIB,
        }
        for number, name in enumerate(MODELS)
    }
}


def rows(report):
    return {row["metric"]: row for row in report.rows}


def ran(jct, state="s", iterations=5):
    return Ran([jct, jct], 2 * jct, [iterations] * 2, [state] * 2)


@pytest.fixture
def predicted():
    jobs = [Job(0, "lstm", 0.0, 5), Job(1, "cnn", 0.5, 5)]
    averages = {FIFO: 40.0, SJF: 21.0, SRTF: 20.0}
    of_case = {
        policy: {"average_jct_s": average, "makespan_s": 50.0, "p95_jct_s": 60.0}
        for policy, average in averages.items()
    }
    return real_runs.Predicted(jobs, CALIBRATION, dict.fromkeys(real_runs.CASES, of_case))


def found(fifo, sjf, srtf, **more):
    return {
        FIFO: [(0, ran(one, **more)) for one in fifo],
        SJF: [(0, ran(one)) for one in sjf],
        SRTF: [(0, ran(one)) for one in srtf],
    }


IN_PLAIN = {name: {0: ran(100.0), 1: ran(100.1)} for name in PLAIN}
STEADY = ((44.0, 44.1), (20.0, 20.1), (22.0, 22.1))


def added(what, predicted, plain=IN_PLAIN):
    report = Report("policies_real")
    policies_real.add("2_lanes", what, predicted, plain, report)
    return rows(report)


def test_a_service_that_does_as_was_simulated_meets_everything(predicted):
    seen = added(found(*STEADY), predicted)
    # sjf and srtf are 5 % from each other, simulated: either may be first.
    assert seen["ranking_as_simulated"]["value"] == 1.0
    ratio = seen["fifo_over_srtf_of_simulated"]
    assert ratio["value"] == pytest.approx((44.05 / 22.05) / 2) and ratio["holds"]
    assert seen["makespan_of_plain"]["value"] == pytest.approx(88.1 / 200.1)
    assert all(row["holds"] for row in seen.values() if row["target"])


def test_another_order_a_state_that_differs_and_work_that_is_missing_are_seen(predicted):
    seen = added(found((20.0, 20.1), *STEADY[1:], state="t", iterations=4), predicted)
    assert seen["ranking_as_simulated"]["holds"] is False
    assert seen["fifo_over_srtf_of_simulated"]["holds"] is False
    assert seen["states_that_differ"]["value"] == 4  # two jobs, two runs
    assert seen["iterations_missing"]["value"] == 4


def test_what_repeats_do_not_agree_on_is_not_compared(predicted):
    seen = added(found((44.0, 50.0), *STEADY[1:]), predicted)
    for metric in ("ranking_as_simulated", "fifo_over_srtf_of_simulated", "makespan_of_plain"):
        assert seen[metric]["value"] is None and "repeats differ by 13%" in seen[metric]["note"]
    assert seen[f"{FIFO}/average_jct_s"]["value"] == pytest.approx(47.0)


def test_one_run_alone_is_not_compared(predicted):
    seen = added(found(*([one] for one, _ in STEADY)), predicted)
    for metric in ("ranking_as_simulated", "fifo_over_srtf_of_simulated", "makespan_of_plain"):
        assert seen[metric]["value"] is None and "a single run" in seen[metric]["note"]
    assert seen["states_that_differ"]["holds"] and seen["iterations_missing"]["holds"]
    one_way = {real_runs.STATES_OF: IN_PLAIN[real_runs.STATES_OF]}
    missing = added(found(*STEADY), predicted, one_way)["makespan_of_plain"]
    assert missing["value"] is None and "--only plain" in missing["note"]


def test_a_prediction_is_held_against_the_median_of_the_runs(predicted):
    simulated = predicted.summaries["2_lanes"][FIFO]
    report = Report("fidelity")
    runs = [ran(41.0), ran(41.2), ran(41.6)]
    fidelity.add("2_lanes", FIFO, simulated, runs, None, report)
    seen = rows(report)
    assert seen[f"{FIFO}/average_jct_off"]["value"] == pytest.approx(0.03)
    assert seen[f"{FIFO}/average_jct_off"]["holds"]
    makespan = seen[f"{FIFO}/makespan_off"]
    assert makespan["value"] == pytest.approx(0.648) and makespan["holds"] is False
    assert seen[f"{FIFO}/p95_jct_off"]["value"] == pytest.approx(1 - 41.2 / 60)
    for runs, drifted in (([ran(41.0), ran(48.0)], None), ([ran(41.0)], "it was slower")):
        report = Report("fidelity")
        fidelity.add("2_lanes", FIFO, simulated, runs, drifted, report)
        off = [row for name, row in rows(report).items() if name.endswith("_off")]
        assert [row["value"] for row in off] == [None] * 3
        assert all(drifted is None or drifted == row["note"] for row in off)


def test_a_machine_that_changed_meanwhile_is_seen():
    assert fidelity.drift(CALIBRATION) is None
    model = dict(CALIBRATION["models"]["cnn"], iteration_again_ns=22_000_000)
    models = CALIBRATION["models"] | {"cnn": model}
    assert fidelity.drift({"models": models}).startswith("cnn took 10% more or less")


def test_a_job_is_as_long_as_its_row_over_150(tmp_path):
    jobs = real_jobs.jobs_of(CALIBRATION)
    assert len(jobs) == 100 and jobs[7].model == MODELS[2]
    with real_jobs.SALUS.open(newline="") as file:
        lengths = [float(row["duration_s"]) / 150 for row in csv.DictReader(file)]
    for job, length in zip(jobs, lengths, strict=True):
        iteration_s = CALIBRATION["models"][job.model]["iteration_ns"] / 1e9
        assert abs(job.iterations * iteration_s - length) <= max(iteration_s, 2 * iteration_s)
    trace = tmp_path / "jobs.csv"
    real_jobs.write_trace(jobs[:2], CALIBRATION, trace)
    with trace.open(newline="") as file:
        row = list(csv.DictReader(file))[1]
    assert row["model_name"] == "cnn" and float(row["iteration_ms"]) == 20.0
    assert float(row["persistent_mb"]) == 2.0 and float(row["ephemeral_mb"]) == 3.0


def test_the_pool_has_room_for_a_part_and_always_for_what_runs():
    jobs = [Job(number, name, 0.0, 5) for number, name in enumerate(MODELS)] * 3
    everything = real_jobs.pool_bytes(jobs, CALIBRATION, 1, 1.0)
    assert everything >= (3 * 31 + 3) * MIB
    third = real_jobs.pool_bytes(jobs, CALIBRATION, 1, 1 / 3)
    assert (31 + 3) * MIB <= third < everything
    assert real_jobs.pool_bytes(jobs[:1], CALIBRATION, 2, 1 / 3) >= (2 * 16 + 2 * 3) * MIB


@pytest.fixture
def made(monkeypatch, predicted):
    """Runs that take no time: which were made, and how often the machine was calibrated."""
    seen = {"runs": [], "calibrated": 0, "stop_after": None}

    def one(what, run):
        if len(seen["runs"]) == seen["stop_after"]:
            raise KeyboardInterrupt
        seen["runs"].append(run)
        return ran(40.0)

    def predict(quick):
        seen["calibrated"] += 1
        return predicted

    monkeypatch.setattr(real_runs, "one", one)
    monkeypatch.setattr(real_runs, "predict", predict)
    return seen


def test_every_case_runs_under_every_policy_and_every_seed_in_plain_pytorch():
    runs = real_runs.wanted(Options(), plain=True)
    assert len(set(runs)) == len(runs) == 9 * 4 * 3 + 3 * 4
    ours = [run for run in runs if run.case != "plain"]
    for case in real_runs.CASES:
        for policy in real_runs.POLICIES:
            seeds = [run.seed for run in ours if (run.case, run.variant) == (case, policy)]
            assert sorted(seeds) == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert [(run.case, run.variant) for run in ours[12:24]] == [
        (run.case, run.variant) for run in ours[11::-1]
    ]
    few = real_runs.wanted(Options(trials=2, only=("1_lane",)), plain=True)
    assert {run.case for run in few} == {"1_lane", "plain"}
    # Of each seed that ran the states of plain PyTorch are there.
    assert {(run.variant, run.seed) for run in few if run.case == "plain"} == {
        (real_runs.STATES_OF, 0),
        (real_runs.STATES_OF, 1),
    }


def test_who_was_interrupted_goes_on_and_the_other_bench_takes_what_was_kept(made, tmp_path):
    options = Options(trials=2, out=tmp_path)
    made["stop_after"] = 7
    with pytest.raises(KeyboardInterrupt):
        policies_real.run(options)
    assert list(tmp_path.iterdir()) == [tmp_path / real_runs.FILE], "no half a result"
    made["stop_after"] = None
    report = policies_real.run(options)
    assert made["calibrated"] == 1
    assert made["runs"] == real_runs.wanted(options, plain=True)
    assert rows(report)["makespan_of_plain"]["value"] is not None
    before = len(made["runs"])
    said = fidelity.run(options)
    assert len(made["runs"]) == before
    assert rows(said)[f"{FIFO}/average_jct_off"]["value"] == pytest.approx(0.0)
    # More runs are more of the same; what is reported is what was asked for.
    policies_real.run(Options(trials=3, out=tmp_path, only=("1_lane",)))
    assert [(run.case, run.turn) for run in made["runs"][before:]] == [("plain", 2)] + [
        ("1_lane", 2)
    ] * 3
    again = fidelity.run(options)
    assert len(again.samples[f"1_lane/{FIFO}/average_jct_s"]) == 2


def test_runs_of_another_commit_or_form_are_not_gone_on_with(made, tmp_path, monkeypatch):
    options = Options(trials=1, out=tmp_path, only=("1_lane",))
    fidelity.run(options)
    monkeypatch.setattr(real_runs.report, "commit", lambda: "another")
    fidelity.run(options)
    fidelity.run(Options(trials=1, out=tmp_path, only=("1_lane",), quick=True))
    assert made["calibrated"] == 3
    assert made["runs"] == [Run("1_lane", policy, 0, 0) for policy in real_runs.POLICIES] * 3


def test_jobs_end_in_a_service_as_in_plain_pytorch(monkeypatch):
    monkeypatch.setattr(real_jobs, "STORE", 64 * MIB)  # a small machine has no more
    try:
        daemon_program()
    except FileNotFoundError as error:
        pytest.skip(str(error))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    jobs = [Job(0, "lstm", 0.0, 3), Job(1, "cnn", 0.1, 2), Job(6, "cnn", 0.1, 9)]
    try:
        with Plain(jobs, seed=1, width=2, threads=1) as plain:
            theirs = plain.run()
        with Live(jobs, 1, ("--lanes", "2", "--policy", SRTF), 256 * MIB) as live:
            ours = live.run()
    finally:
        torch.set_num_threads(threads)
    assert ours.states == theirs.states and len(set(ours.states)) == 3
    assert ours.iterations == [3, 2, 9]
    for run in (ours, theirs):
        ends = [jct + job.at_s for jct, job in zip(run.jct_s, jobs, strict=True)]
        assert run.makespan_s == pytest.approx(max(ends))
        assert all(jct > 0 for jct in run.jct_s)


def test_where_plain_pytorch_fails_there_is_no_result():
    jobs = [Job(0, "lstm", 0.0, 2), Job(1, "none", 0.0, 1)]
    with (
        Plain(jobs, seed=0, width=1, threads=1) as plain,
        pytest.raises(RuntimeError, match="plain PyTorch ended with 1"),
    ):
        plain.run()


def test_an_interrupt_ends_all_processes_of_plain_pytorch():
    """Two jobs that train for hours, each in a process that was forked."""
    jobs = [Job(0, "lstm", 0.0, 10**9), Job(1, "cnn", 0.0, 10**9)]
    with Plain(jobs, seed=0, width=2, threads=1) as plain:
        pid = plain._process.pid
        assert plain._process.stdout and plain._process.stdin
        assert plain._process.stdout.readline() == "ready\n"
        plain._process.stdin.write("go\n")
        plain._process.stdin.flush()
        wait_until(lambda: len(children_of(pid)) == 2, "both trainings")
        children = children_of(pid)
    wait_until(lambda: not any(map(runs, (pid, *children))), "the end of all that trained")


def runs(pid):
    """One that ended stays as a zombie where nobody reaps orphans, as in some containers."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False
