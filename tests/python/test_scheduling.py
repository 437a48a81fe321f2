"""What a user tells the policy of a job (priority, weight, total_iterations, deadline, iteration_s,
job_class):
it arrives in the status from every way to make a job, and what makes no sense is refused by name,
before anything is captured, with the limits that the service itself has."""

import inspect
import math
import threading
import warnings

import pytest
import torch
from torch import nn

import laneway
from laneway.errors import InvalidInput
from laneway.jobs.calls.job import Job
from laneway.jobs.control import scheduling
from laneway.jobs.control.scheduling import Scheduling

TOLD = {
    "priority": -3,
    "weight": 2.5,
    "total_iterations": 1000,
    "deadline": 90,
    "iteration_s": 0.25,
    "job_class": "best_effort",
}
SHOWN = {
    "priority": -3,
    "weight": 2.5,
    "total_iterations": 1000,
    "deadline_s": 90.0,
    "iteration_s": 0.25,
    "class": "best_effort",
}
UNTOLD = {
    "priority": 0,
    "weight": 1.0,
    "total_iterations": None,
    "deadline_s": None,
    "iteration_s": None,
}

X, Y = torch.ones(4, 8), torch.zeros(4, dtype=torch.long)


def a_step(service, **options):
    model = nn.Linear(8, 3)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    return laneway.train_step(
        model, nn.functional.cross_entropy, optimizer, service=service, **options
    )


def a_decorated_step(service, **options):
    model = nn.Linear(8, 3)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    @laneway.step(model, optimizer, service=service, **options)
    def body(x, y):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return body


def an_inference(service, **options):
    return laneway.inference(nn.Linear(8, 3), service=service, **options)


WAYS = {"training": a_step, "training by @step": a_decorated_step, "inference": an_inference}


@pytest.mark.parametrize("way", WAYS)
def test_what_is_told_arrives_and_what_is_not_is_unknown(way):
    inputs = (X,) if way == "inference" else (X, Y)
    with laneway.embedded("64MiB") as service:
        WAYS[way](service, name="told", **TOLD)(*inputs)
        WAYS[way](service, name="untold")(*inputs)
        lines = {line["name"]: line for line in service.status()["jobs"]}
    assert {key: lines["told"][key] for key in SHOWN} == SHOWN
    assert 0 < lines["told"]["deadline_left_s"] < 90
    expected = UNTOLD | {"class": way.split()[0], "deadline_left_s": None}
    assert {key: lines["untold"][key] for key in expected} == expected


WRONG = [
    ("priority", 1.5, "whole number"),
    ("priority", True, "whole number"),
    ("priority", scheduling.MAX_PRIORITY + 1, "-1000000 to 1000000"),
    ("priority", -(2**40), "-1000000 to 1000000"),
    ("weight", 0, "from 0.001 to 1000"),
    ("weight", -1.0, "from 0.001 to 1000"),
    ("weight", math.nan, "from 0.001 to 1000"),
    ("weight", math.inf, "from 0.001 to 1000"),
    ("weight", "2", "from 0.001 to 1000"),
    ("total_iterations", 0, "from 1 to"),
    ("total_iterations", -5, "from 1 to"),
    ("total_iterations", 2**63, "from 1 to 1000000000000000"),
    ("total_iterations", 10.0, "whole number"),
    ("deadline", 0, "above 0"),
    ("deadline", -2.5, "above 0"),
    ("deadline", math.nan, "above 0"),
    ("deadline", 1e12, "at most 315360000"),
    ("iteration_s", 0, "above 0"),
    ("iteration_s", math.inf, "the seconds of one iteration"),
    ("iteration_s", 86_401, "at most 86400"),
    ("job_class", "batch", "'training', 'inference', 'best_effort'"),
    ("job_class", 2, "'training', 'inference', 'best_effort'"),
]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("option", "value", "remedy"), WRONG)
def test_what_makes_no_sense_is_refused_before_anything_is_captured(way, option, value, remedy):
    with pytest.raises(InvalidInput) as refused:
        WAYS[way](None, **{option: value})
    assert str(refused.value).startswith(f"{option} = {value!r}: ")
    assert remedy in str(refused.value)


def test_the_limits_are_those_of_the_service():
    """Asks the service past the checks of Python: it takes each bound, and not the next value."""

    def offer(service, **values):
        options = Scheduling()
        for option, value in values.items():
            object.__setattr__(options, option, value)
        predict = an_inference(service)
        predict._owned._told = options
        predict(X)

    bounds = {
        "priority": (scheduling.MAX_PRIORITY, scheduling.MAX_PRIORITY + 1),
        "weight": (scheduling.MIN_WEIGHT, math.nextafter(scheduling.MIN_WEIGHT, 0)),
        "total_iterations": (
            scheduling.MAX_TOTAL_ITERATIONS,
            scheduling.MAX_TOTAL_ITERATIONS + 1,
        ),
        "deadline": (scheduling.MAX_DEADLINE_S, scheduling.MAX_DEADLINE_S + 1),
        "iteration_s": (scheduling.MAX_ITERATION_S, scheduling.MAX_ITERATION_S + 1),
    }
    with laneway.embedded("64MiB") as service:
        for option, (most, too_much) in bounds.items():
            offer(service, **{option: most})
            with pytest.raises(InvalidInput, match=option):
                offer(service, **{option: too_much})
        offer(service, weight=scheduling.MAX_WEIGHT)
        with pytest.raises(InvalidInput, match="weight"):
            offer(service, weight=math.nextafter(scheduling.MAX_WEIGHT, math.inf))


def test_every_way_takes_every_option():
    for function in (laneway.train_step, laneway.inference):
        taken = inspect.signature(function).parameters
        assert set(TOLD) <= set(taken), function.__name__


def line_of(service, name):
    return next(line for line in service.status()["jobs"] if line["name"] == name)


@pytest.mark.parametrize("way", WAYS)
def test_options_are_set_before_the_first_call_and_while_the_job_runs(way):
    inputs = (X,) if way == "inference" else (X, Y)
    with laneway.embedded("64MiB") as service:
        step = WAYS[way](service, name="job", total_iterations=7)
        step.set(weight=2, deadline=90)
        step(*inputs)
        line = line_of(service, "job")
        assert (line["weight"], line["deadline_s"], line["total_iterations"]) == (2.0, 90.0, 7)
        step.set(total_iterations=None, priority=5, job_class="best_effort", iteration_s=3)
        service.set("job", weight=0.5)
        line = line_of(service, "job")
        shown = [line[key] for key in ("weight", "priority", "total_iterations", "class")]
        assert shown == [0.5, 5, None, "best_effort"]
        assert line["deadline_s"] == 90.0, "what was not named stays"
        assert line["iteration_s"] == 3.0
        with pytest.raises(InvalidInput, match="weight = nan"):
            step.set(priority=1, weight=math.nan)
        with pytest.raises(InvalidInput, match="learning_rate is no option"):
            step.set(learning_rate=1)
        assert line_of(service, "job")["priority"] == 5, "all or nothing"


def test_a_job_that_waits_is_set_by_its_own_client():
    """The first call waits for memory inside place(); set() of another thread must not wait for
    that."""
    with laneway.embedded("64MiB", staging=0) as service:
        large = [nn.Linear(2048, 3072) for _ in range(2)]  # 24 MiB each, and room to compute
        steps = [
            laneway.inference(model, service=service, name=f"large-{number}")
            for number, model in enumerate(large)
        ]
        small = laneway.inference(nn.Linear(2048, 1024), service=service, name="small")
        small(torch.zeros(1, 2048))
        x = torch.zeros(1024, 2048)
        steps[0](x)
        waits = threading.Thread(target=lambda: steps[1](x))
        waits.start()
        while not any(line["name"] == "large-1" for line in service.status()["jobs"]):
            pass
        steps[1].set(weight=3)
        assert line_of(service, "large-1")["weight"] == 3.0
        assert line_of(service, "large-1")["state"] == "waiting"
        steps[0].close()
        waits.join()
        assert line_of(service, "large-1")["weight"] == 3.0


def test_an_inference_of_a_step_has_nothing_of_its_own_to_set():
    with laneway.embedded("64MiB") as service:
        step = a_step(service, name="job")
        step(X, Y)
        predict = laneway.inference(step)
        with pytest.raises(InvalidInput, match="of the step"):
            predict.set(weight=2)


def test_an_attached_job_is_set_for_all_who_use_it():
    with laneway.embedded("64MiB") as service:
        step = a_step(service, name="job", shared=True)
        step(X, Y)
        with laneway.attach("job", service) as attached:
            attached.set(weight=4)
        assert line_of(service, "job")["weight"] == 4.0


def test_a_job_that_waits_for_its_turn_says_so_and_behind_whom():
    """With one lane, the second job's call is not run while the first one's are."""
    with laneway.embedded("256MiB", lanes=1) as service:
        wide = nn.Sequential(*(nn.Linear(1024, 1024) for _ in range(8)))
        busy = laneway.inference(wide, service=service, name="busy")
        other = an_inference(service, name="other")
        rows = torch.ones(512, 1024)
        busy(rows), other(X)
        assert line_of(service, "other")["reason"] is None
        assert line_of(service, "other")["waiting_s"] is None, "it has nothing to run"
        ahead = [busy.submit(rows) for _ in range(20)]
        answer = other.submit(X)
        seen = []
        while not answer.done():
            line = line_of(service, "other")
            if line["reason"] is not None:
                seen.append(line)
        [future.result() for future in ahead]
        assert seen, "it never waited"
        reason = seen[0]["reason"]
        number = line_of(service, "busy")["id"]
        assert (reason["code"], reason["numbers"]["behind_job"]) == ("waits_turn", number)
        assert f"job {number}" in reason["text"]
        assert seen[-1]["waiting_s"] > seen[0]["waiting_s"] >= 0 or len(seen) == 1


@pytest.mark.parametrize("missed", [None, 12.5])
def test_a_deadline_that_cannot_be_met_is_said_at_admission(missed, monkeypatch):
    """What the policy says is put in: which one says so, and when, is the policy's test."""
    report = Job.report

    def told(job, with_tapes=False):
        found = report(job, with_tapes)
        found["status"]["deadline_missed_by_s"] = missed
        return found

    monkeypatch.setattr(Job, "report", told)
    with laneway.embedded("64MiB") as service, warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        a_step(service, name="late", deadline=9)(X, Y)
        a_step(service, name="patient")(X, Y)
    texts = [str(warning.message) for warning in said]
    expected = ["job 'late' will miss its deadline of 9 s by about 12.5 s"] if missed else []
    assert [text.split(",")[0] for text in texts if "deadline" in text] == expected
