"""A call that waits for long says in the log why: for memory that the program's own jobs have, for
images that must stay. One whose iteration runs says nothing, and a report that fails ends no
wait."""

from __future__ import annotations

import logging
import threading
import types
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import laneway
from laneway.jobs.calls import wait_notice
from support.daemon import wait_until

pytestmark = pytest.mark.embedded_only("pools of their own sizes")


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(wait_notice, "FIRST_S", 0.3)
    caplog.set_level(logging.WARNING, "laneway")


class Wide(nn.Module):
    """With 5 MiB of weights."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(5 * 2**18 // 1024, 1024) * 0.01)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.weight.t()


def beside(call: Callable[[], Any]) -> threading.Thread:
    thread = threading.Thread(target=call)
    thread.start()
    return thread


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "laneway"]


def test_for_memory_of_the_programs_own_jobs(caplog):
    x = torch.zeros(4, 1024)
    with laneway.embedded(pool="14MiB", lanes=2, staging=0) as service, torch.no_grad():
        holders = [laneway.inference(Wide(), service=service, name=name) for name in "ab"]
        for holder in holders:
            holder(x)
        waits = laneway.inference(Wide(), service=service, name="waits")
        thread = beside(lambda: waits(x))
        wait_until(lambda: len(said(caplog)) >= 2, "two notices")
        holders[0].close()
        thread.join()
    for notice in said(caplog):
        assert "a call of job 'waits' has waited for" in notice, notice
        assert "waits for memory" in notice, notice
        assert "it waits for itself: close() one" in notice, notice


def test_of_an_iteration_that_was_submitted(caplog):
    x = torch.zeros(4, 1024)
    with laneway.embedded(pool="14MiB", lanes=2, staging="16MiB") as service:
        with torch.no_grad():
            first, second, third = [
                laneway.inference(Wide(), service=service, name=name) for name in "abc"
            ]
            for predict in (third, first, second):
                predict(x)
        service.unload("c")
        for name in "ab":
            service.pin(name)
        future = third.submit(x)
        thread = beside(future.wait)
        wait_until(lambda: said(caplog), "a notice")
        service.unpin("a")
        thread.join()
        assert torch.equal(future.result(), third(x))
    assert "a call of job 'c' has waited" in said(caplog)[0]


class Told:
    """A job whose report says what a test wants, and a clock."""

    name = "told"

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        self.asked = 0
        self.known = True
        self.reason: dict[str, str] | Exception | None = None
        clock = types.SimpleNamespace(monotonic=lambda: self.now)
        monkeypatch.setattr(wait_notice, "time", clock)
        self.notice = wait_notice.WaitNotice(self)

    def report(self) -> dict[str, Any]:
        self.asked += 1
        if isinstance(self.reason, Exception):
            raise self.reason
        return {"status": {"reason": self.reason} if self.known else None}

    def at(self, seconds: float) -> None:
        self.now = 100.0 + seconds
        self.notice.heed()


TURN = {"code": "waits_turn", "text": "The job waits for its turn."}


def test_it_comes_again_after_twice_the_time(monkeypatch, caplog):
    monkeypatch.setattr(wait_notice, "FIRST_S", 10.0)
    told = Told(monkeypatch)
    told.reason = TURN
    for second in range(0, 5000):
        told.at(second)
    times = [10, 20, 40, 80, 160, 320, 640, 1240, 1840, 2440, 3040, 3640, 4240, 4840]
    text = "laneway: a call of job 'told' has waited for {} s. The job waits for its turn."
    assert said(caplog) == [text.format(time) for time in times]


def test_an_iteration_that_runs_is_no_wait(monkeypatch, caplog):
    monkeypatch.setattr(wait_notice, "FIRST_S", 10.0)
    told = Told(monkeypatch)
    for second in range(0, 65):
        told.at(second)
    assert told.asked == 6 and not said(caplog)
    told.reason = TURN
    told.at(70)
    assert len(said(caplog)) == 1


def test_a_report_that_fails_ends_no_wait(monkeypatch, caplog):
    told = Told(monkeypatch)
    told.reason = laneway.ServiceUnavailable("it is being restarted")
    told.at(1)
    told.known, told.reason = False, None
    told.at(2)
    assert told.asked == 2 and not said(caplog)
