"""`laneway calibrate`: measures what this machine takes, for `laneway simulate --calibration`."""

from __future__ import annotations

import argparse
import datetime
import json
import os
import pathlib
import re
import runpy
import sys
from collections.abc import Mapping
from typing import Any

from laneway import errors
from laneway.native.torch_versions import found_torch

DONE, FAILED, USAGE = 0, 1, 2

FORM = 1  # of the file, as simulator/calibration.cc reads it
SECONDS = 2.0
_NAME = re.compile(r"[A-Za-z0-9_.-]+")


def add_to(commands: Any) -> None:
    """Adds the command to the subparsers of the command line."""
    calibrate = commands.add_parser(
        "calibrate",
        help="measure this machine for `laneway simulate --calibration`",
        description="Measure what this machine takes: iterations of your models alone and beside "
        "each other, the gap between turns, an offer, copies of images. A service of its own is "
        "started for it; nothing else should run. Write it before the runs that it is to predict.",
        epilog="exit codes: 0 done, 1 failed, 2 wrong usage",
    )
    calibrate.add_argument("file", metavar="FILE", help="the calibration to write, JSON")
    calibrate.add_argument(
        "--models", metavar="FILE.py", required=True,
        help="a file of Python with MODELS, a dictionary: a name, as the trace's model_name has "
        "it, to a function that returns (model, loss_fn, optimizer, inputs)",
    )  # fmt: skip
    calibrate.add_argument(
        "--seconds", metavar="S", type=float, default=SECONDS,
        help=f"of each model, and each two; default: {SECONDS:g}",
    )  # fmt: skip
    calibrate.add_argument("--pool", metavar="SIZE", help="of its service; default: lanewayd's")
    calibrate.add_argument(
        "--threads", metavar="N", type=int, default=1, help="of an iteration; default: 1"
    )


def run(arguments: argparse.Namespace) -> int:
    """Runs the command and returns its exit code."""
    if not 0 < arguments.seconds <= 600 or arguments.threads < 1:
        print("laneway: --seconds: above 0 and at most 600; --threads: from 1", file=sys.stderr)
        return USAGE
    try:
        makers = makers_of(arguments.models)
    except errors.InvalidInput as error:
        print(f"laneway: {error}", file=sys.stderr)
        return USAGE
    import torch  # of those who measure alone

    from laneway.cli import micro_benches

    torch.set_num_threads(arguments.threads)
    try:
        found = micro_benches.measure(makers, arguments.seconds, arguments.pool, _say)
    except errors.Error as error:
        print(f"laneway: {error}", file=sys.stderr)
        return FAILED
    try:
        write(pathlib.Path(arguments.file), found | {"threads": arguments.threads})
    except OSError as error:
        print(f"laneway: {arguments.file} cannot be written: {error}", file=sys.stderr)
        return FAILED
    print(f"{arguments.file}: {len(makers)} models, {len(found['pairs'])} pairs")
    return DONE


def makers_of(path: str) -> Mapping[str, Any]:
    """MODELS of the file. Raises InvalidInput, which says what it must have."""
    if not pathlib.Path(path).is_file():
        raise errors.InvalidInput(f"--models {path}: there is no such file")
    makers = runpy.run_path(path).get("MODELS")
    if not isinstance(makers, Mapping) or not makers or not all(map(callable, makers.values())):
        raise errors.InvalidInput(
            f"--models {path}: it must have MODELS, a dictionary of names to functions that return "
            "(model, loss_fn, optimizer, inputs)"
        )
    for name in makers:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise errors.InvalidInput(
                f"--models {path}: a name is of letters, digits, '_', '.' and '-', and {name!r} is "
                "not"
            )
    return makers


def write(path: pathlib.Path, found: dict[str, Any]) -> None:
    """Writes FILE, whole or not at all. Times and rates are whole numbers, so that both sides have
    one text to make the check sum of."""
    torch = found_torch()
    measured = found | {
        "machine": machine(),
        "version": (pathlib.Path(__file__).parents[1] / "VERSION").read_text().strip(),
        "torch": torch.version if torch else "",
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }
    document = {
        "laneway_calibration": FORM,
        "check_sum": check_sum(measured),
        "measured": measured,
    }
    part = path.with_name(path.name + ".part")
    part.write_text(json.dumps(document, indent=1) + "\n")
    part.replace(path)


def check_sum(measured: dict[str, Any]) -> str:
    """FNV-1a, 32 bits, of the keys in order and the values without spaces."""
    value = 2166136261
    for byte in json.dumps(measured, sort_keys=True, separators=(",", ":")).encode():
        value = (value ^ byte) * 16777619 & 0xFFFFFFFF
    return f"{value:08x}"


def machine() -> dict[str, Any]:
    """As simulator/calibration.cc finds it."""
    cpu = ""
    try:
        with open("/proc/cpuinfo") as lines:
            cpu = next((line.split(": ", 1)[1].rstrip("\n") for line in lines
                        if line.startswith("model name") and ": " in line), "")  # fmt: skip
    except OSError:
        pass
    return {"cpu": cpu, "cores": os.sysconf("SC_NPROCESSORS_ONLN")}


def _say(what: str) -> None:
    print(f"calibrate: {what}", file=sys.stderr, flush=True)
