"""`laneway jobs` and `laneway status` on terminals of any width: nothing is wider, no state is cut,
every reason is whole, and no name of a job does anything to a terminal."""

import io
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

import laneway
from laneway import printable
from laneway.cli import job_table, screen
from laneway.cli.screen import Screen
from support.cli import run
from support.daemon import Lanewayd
from support.status_lines import job, waits
from support.terminal import OnTerminal, plain, shown

ROOT = Path(__file__).resolve().parents[2]
WHY = (
    "the job needs 768.09 MiB for its image and 576.53 MiB for a lane, and the pool has 512 MiB; "
    "it starts when other jobs end or shrink"
)
NAMES = {
    "quotes": '"it\'s"',
    "line": "two\nlines",
    "escape": "\x1b[2J\x1b[31mred\x07",
    "markup": "<b onclick=x>&amp;</b>",
    "direction": "a\u202eb",
    "wide": "数" * 20,
    "longest": "n" * 255,
}


class Elsewhere(io.StringIO):
    encoding = "utf-8"


class Terminal(Elsewhere):
    def isatty(self):
        return True


def of(columns, monkeypatch, encoding="utf-8"):
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("NO_COLOR", "1")
    terminal = Terminal()
    terminal.encoding = encoding
    return Screen(terminal)


def many():
    jobs = [job(id=n + 1, name=name) for n, name in enumerate(NAMES.values())]
    states = [job(id=20 + n, state=state) for n, state in enumerate(job_table.STATES)]
    return [*jobs, *states, waits(WHY, id=400, name="x" * 255, position=2)]


@pytest.fixture(scope="module")
def odd_jobs():
    """A lanewayd whose jobs have these names."""
    with Lanewayd() as daemon, daemon.connect() as service:
        model = nn.Linear(4, 2)
        predicts = [laneway.inference(model, service, name=name) for name in NAMES.values()]
        for predict in predicts:
            predict(torch.ones(1, 4))
        yield daemon


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
@pytest.mark.parametrize("columns", [24, 40, 80, 100, 200])
def test_a_table_is_as_wide_as_the_terminal_with_whole_states_and_reasons(
    columns, encoding, monkeypatch
):
    jobs = many()
    lines = job_table.job_lines(jobs, of(columns, monkeypatch, encoding))
    assert max(map(printable.columns_of, lines)) <= columns
    text = "\n".join(lines)
    text.encode(encoding)
    for state in job_table.STATES:
        assert re.search(rf"\b{state}\b", text)
    together = "".join(text.split())
    assert "".join(f"position 2; {WHY}; since 1 min 15 s".split()) in together
    assert ("--widealsoshows" in together) == (columns <= 100)


def test_elsewhere_and_wide_a_table_has_all_but_the_ends_of_long_names(monkeypatch):
    whole = job_table.job_lines(many(), Screen(Elsewhere()))
    assert whole == job_table.job_lines(many(), of(40, monkeypatch), wide=True)
    assert len(whole) == 1 + len(many())
    assert whole[0].split()[-2:] == ["DEVICE-TIME", "REASON"]
    assert f" {'x' * 62}..  " in whole[-1] and whole[-1].endswith(f"{WHY}; since 1 min 15 s")


def test_text_is_wrapped_at_words_and_long_words_are_broken():
    assert screen.wrap("one two three", 8, 2) == ["one two", "  three"]
    assert screen.wrap("a " + "b" * 9, 4, 1) == ["a", " bbb", " bbb", " bbb"]
    assert screen.wrap("数数数", 3, 0) == ["数", "数", "数"]
    assert screen.wrap("    in front", 9, 4) == ["    in", "    front"]
    assert printable.cut("数数数", 5) == "数.." and printable.cut("abc", 3) == "abc"


def test_jobs_are_chosen_and_sorted():
    jobs = [
        waits("a", id=1, user="ann", persistent_bytes=5, waiting_s=2.0),
        job(id=2, user="bob", persistent_bytes=9, name="a"),
        waits("b", id=3, user="bob", state="away", persistent_bytes=7, waiting_s=8.0),
    ]

    def ids(*arguments):
        return [line["id"] for line in job_table.chosen(jobs, *arguments)]

    assert ids(None, (), None) == [1, 2, 3]
    assert ids("bob", (), None) == [2, 3]
    assert ids(None, ("away", "waiting"), "waiting") == [3, 1]
    assert ids(None, (), "waiting") == [3, 1, 2]
    assert ids(None, (), "memory") == [2, 3, 1]
    assert ids(None, (), "name") == [2, 1, 3]
    assert ids(None, (), "state") == [1, 2, 3]
    for key in job_table.SORT_KEYS:
        assert sorted(ids(None, (), key)) == [1, 2, 3]


def test_the_states_are_those_of_the_core():
    source = (ROOT / "lanes/state/job.cc").read_text()
    names = re.findall(r'case (\w+): return "(\w+)";', source)
    assert [name for _, name in names] == list(job_table.STATES)


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_a_terminal_gets_what_fits(odd_jobs, columns):
    for words in (["jobs"], ["status"]):
        lines = shown(*words, "--address", odd_jobs.address, columns=columns)
        assert max(printable.columns_of(plain(line)) for line in lines) <= columns
        text = plain("\n".join(lines))
        assert r"two\nlines" in text and r"\x1b[2J" in text and r"a\u202eb" in text
        assert "\x1b" not in text and "\x07" not in text and "\u202e" not in text


def test_colours_are_for_terminals_that_want_them(odd_jobs):
    words = ("jobs", "--address", odd_jobs.address)
    assert any("\x1b[" in line for line in shown(*words))
    for told in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        assert not any("\x1b" in line for line in shown(*words, **told))
    assert "\x1b" not in run("jobs", address=odd_jobs.address).stdout


def test_no_utf8_is_needed(odd_jobs):
    environment = {"LANG": "C", "LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    text = "\n".join(shown("jobs", "--wide", "--address", odd_jobs.address, **environment))
    assert text.isascii() and r"\u6570" in text


def test_filters_of_the_command(odd_jobs):
    def listed(*words):
        return json.loads(run("jobs", "--json", *words, address=odd_jobs.address).stdout)

    assert len(listed("--user", "nobody-has-this-name")) == 0
    names = [line["name"] for line in listed("--sort", "name")]
    assert names == sorted(NAMES.values())
    done = run("jobs", "--state", "failed", address=odd_jobs.address)
    assert done.stdout == f"no such jobs among {len(NAMES)}\n"
    done = run("jobs", "--state", "nonsense", address=odd_jobs.address)
    assert done.returncode == 2 and "quarantined" in done.stderr


def test_a_pipe_that_closes_early_is_no_error_of_jobs(odd_jobs):
    command = f"{sys.executable} -m laneway.cli jobs --address {odd_jobs.address} | head -1"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        env=os.environ | {"PYTHONPATH": str(ROOT / "python")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "") and done.stdout.split()[0] == "ID"


def test_a_watched_service_goes_and_comes_back():
    with Lanewayd() as daemon:
        words = ("status", "--watch", "0.05", "--address", daemon.address)
        with OnTerminal(*words) as running:
            running.until(f"pid {daemon.pid}")
            daemon.process.send_signal(signal.SIGTERM)
            daemon.process.wait()
            running.until("the service is gone for")
            daemon.process.stdout.close()
            daemon.start()
            running.until("is back as another one, pid")
            running.until("no jobs")
            running.process.send_signal(signal.SIGINT)
            assert running.rest() == 0
            assert "Traceback" not in running.text
            switched = re.findall(r"\x1b\[\?\w+", running.text)
            assert switched == [], "nothing of the terminal is left switched"


def test_a_watch_is_no_higher_than_the_terminal(odd_jobs):
    words = ("status", "--watch", "0.05", "--address", odd_jobs.address)
    with OnTerminal(*words, rows=8, columns=60) as running:
        running.until("more lines")
        running.until("\x1b[J")
        running.until("\x1b[J")
        running.process.send_signal(signal.SIGINT)
        assert running.rest() == 0
    pictures = running.text.split("\x1b[H")[1:-1]
    assert {picture.count("\n") for picture in pictures} == {7}


def test_a_watch_for_programs_is_a_document_a_line(odd_jobs):
    words = [sys.executable, "-m", "laneway.cli", "status", "--json", "--watch", "0.05"]
    with subprocess.Popen(
        [*words, "--address", odd_jobs.address],
        env=os.environ | {"PYTHONPATH": str(ROOT / "python")},
        stdout=subprocess.PIPE,
        text=True,
    ) as running:
        documents = [json.loads(running.stdout.readline()) for _ in range(2)]
        running.send_signal(signal.SIGINT)
        running.stdout.read()
        assert running.wait() == 0
    assert [document["service"]["pid"] for document in documents] == [odd_jobs.pid] * 2


@pytest.mark.parametrize("period", ["0", "-1", "nan", "often"])
def test_a_period_that_is_none_is_wrong_usage(period):
    done = run("status", f"--watch={period}")
    assert done.returncode == 2 and period in done.stderr
