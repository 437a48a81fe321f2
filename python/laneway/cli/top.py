"""`laneway top`: the options, one frame, and the app of laneway/top, which is loaded when the
command runs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any

from laneway import errors
from laneway.cli import job_table, view
from laneway.cli.screen import Screen
from laneway.cli.watching import Followed
from laneway.jobs.control import job_ref
from laneway.jobs.service import Service, connect

NEEDS = "pip install 'laneway[top]'"
_LIBRARIES = ("textual", "rich")
_LONGEST_S = 3600.0


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if 0.01 <= seconds <= _LONGEST_S:
        return seconds
    raise argparse.ArgumentTypeError(f"{text!r}: give 0.01 to {_LONGEST_S:g} seconds")


def add_to(commands: Any, shared: list[argparse.ArgumentParser]) -> None:
    """Adds the command to the subparsers of the command line."""
    top = commands.add_parser(
        "top",
        help="show the service and its jobs on the terminal, and end a job or set its priority",
        description="Show the service and its jobs on the terminal, again and again. Keys: q ends, "
        "s sorts by the next key, / filters, k ends the chosen job after asking twice, p sets its "
        f"priority. Needs {NEEDS}; --once does not.",
        epilog="exit codes: 0 done, 1 failed, 2 wrong usage, 3 no service at the address",
        parents=shared,
    )
    top.add_argument("--once", action="store_true", help="print one frame, and end")
    top.add_argument(
        "--every",
        metavar="S",
        type=_seconds,
        default=1.0,
        help="seconds between two looks; default: %(default)g",
    )
    top.add_argument("--sort", metavar="KEY", choices=job_table.SORT_KEYS, help="as of jobs")


def run(service: Service, arguments: argparse.Namespace) -> int:
    """Runs the command and returns its exit code."""
    screen = Screen(sys.stdout)
    if arguments.once:
        status = service.status()
        status["jobs"] = job_table.chosen(status["jobs"], None, (), arguments.sort)
        print("\n".join(view.status_lines(status, screen)), flush=True)
        return 0
    try:
        from laneway.top.app import Top
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _LIBRARIES:
            raise
        print(f"laneway: top needs {error.name}, which is not here: {NEEDS}", file=sys.stderr)
        return 1
    if not screen.is_terminal:
        print("laneway: top needs a terminal; --once prints one frame anywhere", file=sys.stderr)
        return 1
    followed = Followed(service, lambda: connect(arguments.address))

    def look() -> tuple[dict[str, Any] | None, str]:
        status = followed.look()
        said, followed.said = followed.said, ""
        return status, said

    try:
        Top(look, actor(arguments.address), screen, arguments.every, arguments.sort).run()
    finally:
        followed.close()
    return 0


def actor(address: str | None) -> Callable[..., None]:
    """What asks the service at the address, on a connection of its own: one that waits keeps the
    looks going."""

    def act(verb: str, job: int, value: int | None = None) -> None:
        with connect(address) as service:
            if verb == "priority":
                service.set(job, priority=value)
                return
            try:
                service.command(verb, job_ref.text_of(job))
            except errors.InvalidInput as error:
                raise errors.Refused(str(error)) from None

    return act
