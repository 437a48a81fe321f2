"""Waiting for an iteration: what is refused for good is raised at once, a busy job is waited for by
the library and not by a clock, and no wait allocates outputs before there is something to put
there. The library's answers are scripted where a real service gives them only by chance."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import laneway
from laneway.jobs.calls.graph_call import GraphCall
from laneway.jobs.calls.job import Future, Outputs
from laneway.native import bindings

REFUSED = 5


@pytest.fixture
def predict() -> Iterator[Any]:
    with laneway.embedded("64MiB") as service:
        yield laneway.inference(torch.nn.Linear(4, 4), service=service)


def call_of(predict: Any) -> GraphCall:
    """The call that `predict` makes, which has been captured."""
    predict(torch.zeros(2, 4))
    call = predict._variants.current
    assert isinstance(call, GraphCall)
    return call


def answers(*codes: int, then: Callable[..., int] | None = None) -> Callable[..., int]:
    """A function of the library that answers these codes, one a call, and then what `then` does."""
    left = list(codes)

    def answer(*arguments: Any) -> int:
        if left:
            return left.pop(0)
        assert then is not None, "asked once more after a refusal for good"
        return then(*arguments)

    return answer


def count_buffers(monkeypatch: pytest.MonkeyPatch) -> list[Outputs]:
    """The outputs for which room was made from here on."""
    made: list[Outputs] = []
    buffers = Outputs.buffers

    def counted(self: Outputs) -> Any:
        made.append(self)
        return buffers(self)

    monkeypatch.setattr(Outputs, "buffers", counted)
    return made


def with_waits_for_room(job: Any, code: int) -> list[int]:
    """Has laneway_wait_for_room of the job's library answer `code`; its calls."""
    calls: list[int] = []

    def wait_for_room(handle: Any, timeout_ns: int, error: Any) -> int:
        calls.append(timeout_ns)
        return code

    real = job.library.lib
    functions = {name: getattr(real, name) for name in ("laneway_wait", "laneway_job_close")}
    functions["laneway_submission_release"] = real.laneway_submission_release
    lib = types.SimpleNamespace(**functions, laneway_wait_for_room=wait_for_room)
    job.library = types.SimpleNamespace(lib=lib)
    return calls


def test_what_is_refused_for_good_is_raised_by_a_call_and_by_a_submission(predict):
    call = call_of(predict)
    call._run = answers(REFUSED)
    with pytest.raises(laneway.Refused):
        predict(torch.zeros(2, 4))
    call._submit = answers(REFUSED)
    with pytest.raises(laneway.Refused):
        predict.submit(torch.zeros(2, 4))
    call._run, call._submit = answers(bindings.BUSY), answers(REFUSED)
    with pytest.raises(laneway.Refused):
        predict(torch.zeros(2, 4))


def test_a_busy_job_is_waited_for_by_the_library(predict):
    call = call_of(predict)
    x = torch.ones(2, 4)
    expected = predict(x)
    waits = with_waits_for_room(call._job, bindings.OK)
    call._run = answers(bindings.BUSY)
    call._submit = answers(bindings.BUSY, bindings.BUSY, then=call._submit)
    assert torch.equal(predict(x), expected)
    assert len(waits) == 2 and all(timeout_ns > 0 for timeout_ns in waits)


def test_a_job_that_ends_while_it_is_waited_for_says_so(predict):
    call = call_of(predict)
    with_waits_for_room(call._job, bindings.UNAVAILABLE)
    call._submit = answers(bindings.BUSY)
    with pytest.raises(laneway.ServiceUnavailable):
        predict.submit(torch.zeros(2, 4))


def test_a_call_that_is_queued_keeps_the_outputs_that_it_made(predict, monkeypatch):
    call = call_of(predict)
    x = torch.ones(2, 4)
    expected = predict(x)

    def queued(job, index, inputs, count, outputs, output_count, pending, error) -> int:
        assert call._submit(job, index, inputs, count, pending, error) == bindings.OK
        return bindings.PENDING

    call._run = queued
    made = count_buffers(monkeypatch)
    assert torch.equal(predict(x), expected)
    assert len(made) == 1


def test_polls_make_no_room_for_outputs(monkeypatch):
    codes = [bindings.PENDING] * 100
    library = types.SimpleNamespace(
        laneway_wait=lambda *_: codes.pop() if codes else bindings.OK,
        laneway_submission_release=lambda _: None,
    )
    job = types.SimpleNamespace(library=types.SimpleNamespace(lib=library), name="polled")
    outputs = Outputs([(torch.float32, (3,), None)], lambda values: values)
    made = count_buffers(monkeypatch)
    future = Future(job, bindings.ffi.new("int *"), outputs)
    assert [future.done() for _ in range(100)] == [False] * 100
    assert made == []
    assert future.done() and future.done()
    assert len(made) == 1
    assert future.result()[0].shape == (3,)
