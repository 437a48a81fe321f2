"""What takes long says so on a terminal, and leaves nothing there: captures, and files of steps.
Elsewhere, and where it is not wanted, nothing is written."""

import io
import os
import threading
import types

import pytest
import torch

from laneway.jobs.files import state_file
from laneway.jobs.files.progress import Progress
from laneway.jobs.files.step_files import StepFiles
from laneway.jobs.watch import shown_progress
from laneway.jobs.watch.capture_gate import gate_of
from laneway.jobs.watch.shown_progress import shown
from support.daemon import wait_until

CLEAR = "\r\x1b[K"


class Terminal(io.StringIO):
    def isatty(self):
        return True


def take_over(monkeypatch, stream):
    """Makes it standard error, there alone: pytest has its own, anew in each phase of a test."""
    monkeypatch.setattr(shown_progress, "sys", types.SimpleNamespace(stderr=stream))


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.setattr(shown_progress, "FIRST_S", 0.0)
    monkeypatch.delenv("LANEWAY_PROGRESS", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    take_over(monkeypatch, stream)
    return stream


def waits_for(terminal, words):
    wait_until(lambda: words in terminal.getvalue(), words)


def test_it_says_what_and_how_long_and_leaves_nothing(terminal):
    with shown("doing it"):
        waits_for(terminal, f"{CLEAR}laneway: doing it: 0 s")
    assert terminal.getvalue().endswith(CLEAR)
    assert "laneway-progress" not in [thread.name for thread in threading.enumerate()]


def test_what_is_quick_says_nothing(terminal, monkeypatch):
    monkeypatch.setattr(shown_progress, "FIRST_S", 1000.0)
    with shown("doing it"):
        pass
    assert terminal.getvalue() == ""


def test_a_failure_passes_and_the_next_one_shows(terminal):
    for _ in range(2):
        with pytest.raises(KeyError), shown("doing it"):
            waits_for(terminal, "doing it")
            raise KeyError
        assert terminal.getvalue().endswith(CLEAR)
        terminal.truncate(0)


def test_the_outermost_shows(terminal):
    with shown("outer"), shown("inner"):
        waits_for(terminal, "outer")
    assert "inner" not in terminal.getvalue()


def test_a_name_cannot_write_to_the_terminal(terminal):
    with shown("a\x1b]0;b\nc" + "d" * 500):
        waits_for(terminal, "a\\x1b]0;b\\ncd")
    assert "d" * 100 not in terminal.getvalue()


@pytest.mark.parametrize("name", ["LANEWAY_PROGRESS=0", "TERM=dumb"])
def test_it_can_be_switched_off(terminal, monkeypatch, name):
    monkeypatch.setenv(*name.split("="))
    with shown("doing it"):
        assert "laneway-progress" not in [thread.name for thread in threading.enumerate()]
    assert terminal.getvalue() == ""


@pytest.mark.parametrize("stream", [io.StringIO(), None])
def test_nothing_is_written_where_no_terminal_is(terminal, monkeypatch, stream):
    take_over(monkeypatch, stream)
    with shown("doing it"):
        pass
    assert stream is None or stream.getvalue() == ""


def test_a_child_made_by_fork_shows_its_own(terminal):
    with shown("doing it"):
        pid = os.fork()
        if pid == 0:
            taken = shown_progress._showing.acquire(blocking=False)
            os._exit(0 if taken else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_a_capture_is_shown(terminal):
    with gate_of(torch.nn.Linear(2, 2)).capturing():
        waits_for(terminal, "laneway: capturing Linear: ")


def test_a_save_and_a_load_are_shown(terminal, monkeypatch, tmp_path):
    class Step(StepFiles):
        def state_dict(self):
            waits_for(terminal, f"saving {tmp_path.name}")
            return {"model": {}, "optimizer": {}}

        def load_state_dict(self, state):
            waits_for(terminal, f"loading {tmp_path.name}")

    monkeypatch.chdir(tmp_path.parent)
    step = Step()
    step._progress = Progress()
    step.save(f"{tmp_path.name}/a")
    assert state_file.load(f"{tmp_path.name}/a")["iterations"] == 0
    step.load(f"{tmp_path.name}/a")
