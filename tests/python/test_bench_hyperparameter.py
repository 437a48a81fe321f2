"""The bench hyperparameter: its trainings differ in learning rate, end alike in plain PyTorch and
as jobs, and its figures are those of its rounds."""

import pytest
import torch

import laneway
from bench import hyperparameter, hyperparameter_jobs
from bench.hyperparameter_jobs import Result, finish, step_of, train_plain, work_of
from bench.report import Report


def test_no_two_trainings_have_the_same_learning_rate():
    rates = {hyperparameter_jobs.learning_rate(number) for number in range(24)}
    assert len(rates) == 24
    assert work_of(5).optimizer.param_groups[0]["lr"] == hyperparameter_jobs.learning_rate(5)
    assert train_plain(0, 2).state != train_plain(1, 2).state


def test_a_job_ends_as_the_plain_training_does():
    work = work_of(3)
    with laneway.embedded("512MiB") as service:
        step = step_of(work, service, 3, 4)
        for iteration in range(4):
            loss = step(*work.batch(iteration))
        assert finish(3, step, work, loss) == train_plain(3, 4)


def test_a_worker_of_the_pool_trains_what_it_is_told():
    took, results, _ = hyperparameter._pool(2, 3, 1, 1)
    assert took > 0
    assert sorted(result.number for result in results) == [0, 1, 2]
    threads = torch.get_num_threads()
    assert threads == 1
    assert sorted(results, key=lambda result: result.number)[1] == train_plain(1, 1)


def test_figures_compare_with_the_best_of_plain_pytorch():
    same = [Result(number, 0.5, "aa") for number in range(2)]
    other = [same[0], Result(1, 0.5, "bb")]
    took = {"laneway": [9.0, 11.0, 10.0], "1_workers": [20.0] * 3, "2_workers": [10.5, 12.5, 12.5],
            hyperparameter.OWN_THREADS: [13.0] * 3}  # fmt: skip
    peaks = {name: [1 << 20, 3 << 20, 2 << 20] for name in took}
    results = {
        "laneway": same,
        "1_workers": same,
        "2_workers": other,
        hyperparameter.OWN_THREADS: other,
    }
    report = Report("hyperparameter")
    hyperparameter.report_case("one_client", took, peaks, results, 7, report)
    found = {row["metric"]: row for row in report.rows}
    assert found["makespan_ratio"]["value"] == pytest.approx(10.0 / 12.5)
    assert (
        found["makespan_ratio"]["holds"] is True
        and found["makespan_ratio"]["note"] == "best: 2_workers"
    )
    assert found["trainings_that_differ"]["value"] == 1.0
    assert found["trainings_that_differ"]["holds"] is False
    assert found["laneway_peak_pss"]["value"] == 2.0
    assert report.samples["one_client/laneway_makespan_s"] == [9.0, 11.0, 10.0]
