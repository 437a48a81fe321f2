"""`laneway simulate`: starts laneway-simulate, the core in virtual time, and draws its results."""

from __future__ import annotations

import argparse
import csv
import os
import pathlib
import subprocess
import sys
import tempfile
from typing import Any

from laneway.cli import plots
from laneway.native.programs import program

DONE, FAILED = 0, 1

# Those of laneway-simulate, which checks their values; a test compares them with its help.
OPTIONS = (
    ("--trace", "FILE", "the jobs, one a line: CSV with a header; or a record of a service"),
    ("--generate", "JOBS", "instead of a trace: so many, drawn from the seed as in Salus' trace"),
    ("--save-trace", "FILE", "write the generated jobs there as a trace"),
    ("--format", "FORMAT", "laneway, philly, tiresias or record; default: by the beginning"),
    ("--where", "COLUMN=VALUE", "only jobs whose column has this value; repeatable"),
    ("--rows", "A:B", "of these, by submission time, those from A on up to B, exclusive"),
    ("--policy", "POLICY,…", "who runs next: NAME[:key=value…] or ./FILE, several with commas"),
    ("--policy-patience", "SECONDS", "how long a policy's file may think about one instant"),
    ("--devices", "K", "equal devices; a job goes to the one with the least work left"),
    ("--lanes", "N", "equal lanes of each device; default: 1"),
    ("--pairs", "FILE", "how fast two jobs compute beside each other: CSV, as measured"),
    (
        "--open-lanes",
        "all|measured",
        "with --pairs or --calibration: only as many lanes as pay, by measure",
    ),
    ("--memory", "SIZE", "of each device; default: so much that it does not matter"),
    ("--reserve", "SIZE", "of it, never given to jobs; default: 0"),
    ("--copy-bandwidth", "BYTES", "a second, of images; default: copies take no time"),
    ("--store", "SIZE", "for images outside of the device's memory"),
    ("--set", "KEY=VALUE", "a time or limit of the core; repeatable; a wrong key lists all"),
    ("--jitter", "F", "turns take from (1 - F) to (1 + F) of what the trace says; default: 0"),
    ("--turn-gap", "SECONDS", "from a turn's grant to its first iteration; default: 0"),
    ("--calibration", "FILE", "what `laneway calibrate` measured on this machine"),
    ("--seed", "N", "of all chance; default: 1"),
    ("--estimates", "trace|none", "what clients say an iteration takes"),
    ("--json", "FILE", "write the results there as JSON"),
    ("--csv", "FILE", "write a line for each job of each policy there"),
    ("--timeline", "FILE", "write there what was in use over time, as CSV"),
    ("--replay", "FILE", "instead of all else: as `laneway replay FILE`"),
)


def add_to(commands: Any) -> None:
    """Adds the command to the subparsers of the command line."""
    simulate = commands.add_parser(
        "simulate",
        help="show how long the jobs of a trace take under policies, in virtual time",
        description="Show how long the jobs of a trace take under policies, in virtual time. No "
        "service needs to run. The program laneway-simulate does the work.",
        epilog="exit codes: 0 done, 1 failed, 2 wrong usage",
    )
    for flag, value, does in OPTIONS:
        simulate.add_argument(flag, metavar=value, help=does, action="append")
    simulate.add_argument(
        "--plots", metavar="DIR", help="draw the results there, as SVG: a file a figure"
    )


def add_replay_to(commands: Any) -> None:
    """Adds `laneway replay` to the subparsers of the command line."""
    replay = commands.add_parser(
        "replay",
        help="repeat every decision of what `lanewayd --trace FILE` recorded",
        description="Repeat every decision of what `lanewayd --trace FILE` recorded, with the core "
        "of this version, and name the first that differs. No service needs to run. The program "
        "laneway-simulate does the work.",
        epilog="exit codes: 0 all decisions are equal, 1 one differs or not all could be repeated, "
        "2 wrong usage",
    )
    replay.add_argument("file", metavar="FILE", help="the record")


def run(arguments: argparse.Namespace) -> int:
    """Runs the command and returns its exit code."""
    simulator = _simulator()
    if simulator is None:
        return FAILED
    words = [str(simulator)]
    for flag, _, _ in OPTIONS:
        for value in getattr(arguments, flag[2:].replace("-", "_")) or ():
            words += [flag, value]
    sys.stdout.flush()
    if arguments.plots is None:
        return _run(words)
    with tempfile.TemporaryDirectory(prefix="laneway-simulate-") as folder:
        files = []
        for flag, given in (("--csv", arguments.csv), ("--timeline", arguments.timeline)):
            files.append(pathlib.Path(given[-1] if given else f"{folder}/{flag[2:]}"))
            words += [] if given else [flag, str(files[-1])]
        return _and_draw(words, files[0], files[1], arguments.plots)


def replay(arguments: argparse.Namespace) -> int:
    """Runs `laneway replay` and returns its exit code."""
    simulator = _simulator()
    if simulator is None:
        return FAILED
    sys.stdout.flush()
    words = [str(simulator), "--replay", arguments.file]
    return _run(words)


def _simulator() -> pathlib.Path | None:
    found = program("laneway-simulate")
    if found is None:
        print(
            "laneway: laneway-simulate is neither beside this Python nor on the PATH; build it "
            "with ./dev build, or name the build's folder in LANEWAY_BUILD",
            file=sys.stderr,
        )
    return found


def _run(words: list[str]) -> int:
    # The python3 of a policy's file is this one, which has laneway.
    path = os.pathsep.join([str(pathlib.Path(sys.executable).parent), os.environ.get("PATH", "")])
    code = subprocess.run(words, check=False, env={**os.environ, "PATH": path}).returncode
    return code if code >= 0 else FAILED  # negative: a signal ended it


def _and_draw(words: list[str], jobs: pathlib.Path, steps: pathlib.Path, folder: str) -> int:
    code = _run(words)
    if code != DONE:
        return code
    try:
        with jobs.open(newline="") as lines, steps.open(newline="") as used:
            drawn = plots.draw(
                list(csv.DictReader(lines)), list(csv.DictReader(used)), pathlib.Path(folder)
            )
    except OSError as error:
        print(f"laneway: the plots cannot be written: {error}", file=sys.stderr)
        return FAILED
    print(f"{len(drawn)} plots in {folder}: {', '.join(path.name for path in drawn)}")
    return DONE
