"""`laneway top`: one frame without its library; with it, keys that sort, filter, end a job after
asking twice, and set a priority, through textual's own pilot over a real service."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from laneway.cli.screen import Screen
from laneway.cli.top import actor
from support.cli import run
from support.daemon import Lanewayd
from support.small_step import small_step

textual = pytest.importorskip("textual", reason="textual is not installed")
from textual.widgets import DataTable, Input, Static  # noqa: E402

from laneway.top.app import Top  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
ODD = "two\nlines [red]"


@pytest.fixture(scope="module")
def daemon():
    with Lanewayd() as running:
        yield running


@pytest.fixture
def jobs(daemon):
    with daemon.connect() as service:
        steps = [small_step(service, name) for name in ("beta", "alpha", ODD)]
        yield service
        for step in steps:
            step.close()


def names(app):
    if not app.query(DataTable):  # not yet
        return []
    table = app.query_one(DataTable)
    return [str(table.get_row_at(n)[1]) for n in range(table.row_count)]


def said(app):
    return str(app.query_one("#said", Static).render())


def line_of(service, name):
    live = [
        job for job in service.status()["jobs"] if job["state"] not in ("finished", "cancelled")
    ]
    return next((job for job in live if job["name"] == name), None)


def play(daemon, keys):
    """Runs the app over the service; `keys` is given the app, its pilot, and what waits until
    something holds."""

    async def body():
        with daemon.connect() as service:
            look = lambda: (live_only(service.status()), "")  # noqa: E731
            app = Top(look, actor(daemon.address), Screen(sys.stdout), every_s=0.05)
            async with app.run_test(size=(110, 30)) as pilot:

                async def until(holds):
                    for _ in range(2400):
                        if holds():
                            return
                        await pilot.pause(0.05)
                    raise AssertionError(f"it never was so: {names(app)}, said {said(app)!r}")

                await until(lambda: "beta" in names(app))
                await keys(app, pilot, until)

    asyncio.run(body())


def live_only(status):
    """Ended jobs of other tests are not of this one."""
    rows = [job for job in status["jobs"] if job["state"] not in ("finished", "cancelled")]
    return {**status, "jobs": rows}


def test_it_shows_the_service_and_names_of_any_kind(daemon, jobs):
    async def keys(app, pilot, until):
        head = str(app.query_one("#head", Static).render())
        assert "pool " in head and "policy fifo" in head and "workers" in head
        assert names(app) == ["beta", "alpha", r"two\nlines [red]"]

    play(daemon, keys)


def test_sort_and_filter(daemon, jobs):
    async def keys(app, pilot, until):
        await pilot.press("s")
        await until(lambda: names(app)[0] == "alpha")
        assert "sorted by name" in said(app)
        await pilot.press("slash", "b", "e", "t", "enter")
        await until(lambda: names(app) == ["beta"])
        await pilot.press("slash", "enter")
        await until(lambda: len(names(app)) == 3)

    play(daemon, keys)


def test_an_end_is_asked_for_twice(daemon, jobs):
    async def keys(app, pilot, until):
        await pilot.press("k")
        assert "end job" in said(app) and "beta" in said(app)
        await pilot.press("n")
        assert "nothing was ended" in said(app)
        await pilot.press("k", "y")
        assert "really end job" in said(app) and "1 iterations are lost" in said(app)
        assert line_of(jobs, "beta") is not None
        await pilot.press("y")
        await until(lambda: "beta" not in names(app))

    play(daemon, keys)
    assert line_of(jobs, "beta") is None and line_of(jobs, "alpha") is not None


def test_a_priority_is_set_and_a_wrong_one_refused(daemon, jobs):
    async def keys(app, pilot, until):
        await pilot.press("p", *"seven", "enter")
        assert "'seven' is no whole number" in said(app)
        await pilot.press("p", *"7000000", "enter")
        await until(lambda: "priority" in said(app) and "1000000" in said(app))
        await pilot.press("p", *"7", "enter")
        await until(lambda: "has priority 7" in said(app))
        assert not app.query_one(Input).display

    play(daemon, keys)
    assert line_of(jobs, "beta")["priority"] == 7


def test_one_frame_needs_no_library(daemon, jobs):
    code = "import sys; sys.modules['textual'] = None; from laneway.cli import main; "

    def top(*words):
        return subprocess.run(
            [sys.executable, "-c", f"{code}sys.exit(main(['top', *sys.argv[1:]]))", *words],
            env=os.environ
            | {"PYTHONPATH": str(ROOT / "python"), "LANEWAY_ADDRESS": daemon.address},
            capture_output=True,
            text=True,
            timeout=120,
        )

    done = top("--once", "--sort", "name")
    assert done.returncode == 0 and done.stdout.startswith("service ")
    rows = done.stdout.partition("ITERATIONS")[2]
    assert rows.index("alpha") < rows.index("beta")
    done = top()
    assert done.returncode == 1 and "pip install 'laneway[top]'" in done.stderr


def test_without_a_terminal_or_a_service_it_says_so(daemon):
    done = run("top", address=daemon.address)
    assert done.returncode == 1 and "--once" in done.stderr
    assert run("top", "--once", address="ipc:///tmp/laneway-nobody/laneway.sock").returncode == 3
