"""What a step, an inference and a service say of themselves: name, state, iterations, and why they
wait; names as escapes, and no HTML of theirs."""

import pytest
import torch
from torch import nn

import laneway
from laneway.jobs.control import shown
from support.status_lines import job, waits


def step_of(service, name, **options):
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    return laneway.train_step(model, F, optimizer, service=service, name=name, **options)


F = nn.functional.cross_entropy
BATCH = (torch.ones(3, 4), torch.tensor([0, 1, 0]))


def test_a_step_says_its_name_state_and_iterations(service):
    step = step_of(service, "digits", total_iterations=1000)
    assert repr(step) == (
        "<laneway TrainStep: name 'digits', state no job yet: it is made with the first call>"
    )
    step(*BATCH)
    step.state_dict()  # behind what the service learns from an iteration that was answered
    assert repr(step).startswith("<laneway TrainStep: name 'digits', state r")
    assert ", iterations 1 of 1,000" in repr(step)
    step.close()
    assert repr(step) == "<laneway TrainStep: name 'digits', state closed>"


def test_an_inference_of_a_step_says_what_the_step_does(service):
    with step_of(service, "trained") as step:
        step(*BATCH)
        predict = laneway.inference(step)
        predict(BATCH[0])
        assert repr(predict).startswith("<laneway Inference: name 'trained', state r")


@pytest.mark.parametrize("name", ["<b>&'\"", "two\nlines", "\x1b[31m", "\u202e", "n" * 255])
def test_a_name_is_text_and_nothing_else(service, name):
    with laneway.inference(nn.Linear(4, 2), service, name=name) as predict:
        predict(torch.ones(1, 4))
        line, table = repr(predict), predict._repr_html_()
    assert line.isascii() and line.isprintable() and len(line) < 300
    assert line.startswith(f"<laneway Inference: name {ascii(name)[:190]}")
    assert table.startswith("<table><caption>laneway Inference</caption><tr><th>name</th><td>")
    assert "<b>" not in table and "'" not in table and table.count("<td>") == 3


def test_a_service_counts_its_jobs(service):
    assert "jobs none, iterations 0, wait 0>" in repr(service)
    with laneway.inference(nn.Linear(4, 2), service, name="one") as predict:
        predict(torch.ones(1, 4))
        assert "256 MiB free, jobs 1 r" in repr(service)
        assert "<th>policy</th><td>fifo</td>" in service._repr_html_()


def test_what_is_closed_or_gone_says_so():
    with laneway.embedded("64MiB") as service:
        step = step_of(service, "left")
        step(*BATCH)
    assert repr(service) == "<laneway Service: state closed>"
    assert "state not known: " in repr(step) and "closed" in repr(step)


def test_a_wait_has_its_reason_and_since_when():
    line = waits("no\nroom", iterations=0, total_iterations=None)
    facts = shown.job_facts("late", line)
    assert facts == {
        "name": "late",
        "state": "waiting",
        "iterations": "0",
        "waits": "no\nroom, since 75.4 s",
    }
    assert shown.job_facts(None, job())["iterations"] == "1,234"
