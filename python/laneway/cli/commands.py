"""Runs one command of the command line and returns its exit code."""

from __future__ import annotations

import argparse
import io
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from laneway import errors
from laneway.cli import (
    calibrate,
    completion,
    doctor,
    job_table,
    serve,
    simulate,
    top,
    view,
    watching,
    web,
)
from laneway.cli.answer_time import answer_timeout
from laneway.cli.arguments import parser
from laneway.cli.screen import Screen
from laneway.cli.tables import mebibytes
from laneway.jobs.control import job_ref, scheduling
from laneway.jobs.service import Service, connect, parse_bytes
from laneway.native import bindings
from laneway.native.bindings import ffi
from laneway.native.programs import program
from laneway.printable import escaped

DONE, FAILED, USAGE, NO_SERVICE, REFUSED = 0, 1, 2, 3, 4

# How long a service may take to end: its own bound, after which it kills, and some more.
_SHUTDOWN_PATIENCE_S = 20.0
_LOOK_AGAIN_S = 0.02


def main(words: Sequence[str] | None = None) -> int:
    """Runs the command of `words` and returns its exit code. Wrong usage raises SystemExit(2)."""
    arguments = parser().parse_args(words)
    if isinstance(sys.stdout, io.TextIOWrapper):  # a name need not fit its encoding
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        return _run(arguments)
    except errors.Error as error:
        _complain(error)
        return _code_of(error)
    except BrokenPipeError:
        # The reader of the output has closed it; the flush at exit must not fail.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except KeyboardInterrupt:
        return FAILED


def _complain(error: errors.Error) -> None:
    """One line, whatever names of users it has."""
    print(f"laneway: {escaped(str(error))}", file=sys.stderr)


def _code_of(error: errors.Error) -> int:
    if isinstance(error, errors.ServiceUnavailable):
        return NO_SERVICE
    return REFUSED if isinstance(error, errors.Refused) else FAILED


def _run(arguments: argparse.Namespace) -> int:
    if arguments.command == "trace":  # needs no service
        return _trace(arguments)
    if arguments.command == "simulate":  # nor does this
        return simulate.run(arguments)
    if arguments.command == "calibrate":  # has one of its own
        return calibrate.run(arguments)
    if arguments.command == "replay":
        return simulate.replay(arguments)
    if arguments.command == "completion":
        print(completion.script(arguments.shell, parser()), end="")
        return DONE
    if arguments.command == "doctor":  # looks whether there is one
        return doctor.run(arguments)
    if arguments.command == "web":  # waits for its service
        return web.run(arguments)
    if arguments.command == "serve":
        return serve.run(arguments)
    if "job" in arguments:  # as a request names it
        by_name = job_ref.by_name if arguments.name else job_ref.text_of
        arguments.ref = by_name(arguments.job)
    if arguments.command == "set":
        try:
            arguments.changes = scheduling.parse_settings(arguments.settings)
        except errors.InvalidInput as error:
            _complain(error)
            return USAGE
    try:
        bindings.client_library()
    except errors.ServiceUnavailable as error:  # the library is not built
        _complain(error)
        return FAILED
    try:
        service = connect(arguments.address, answer_timeout=answer_timeout(arguments))
    except (
        errors.InvalidInput,
        errors.Refused,
    ) as error:  # a bad address, or another version
        _complain(error)
        return USAGE if isinstance(error, errors.InvalidInput) else REFUSED
    with service:
        return _COMMANDS[arguments.command](service, arguments)


def _print(arguments: argparse.Namespace, document: Any, lines: Sequence[str]) -> int:
    print(json.dumps(document) if arguments.json else "\n".join(lines), flush=True)
    return DONE


def _status(service: Service, arguments: argparse.Namespace) -> int:
    if arguments.watch is not None:
        return watching.watch(service, arguments)
    status = service.status()
    if arguments.limits:
        return _print(arguments, status["limits"], view.limit_lines(status["limits"]))
    return _print(arguments, status, view.status_lines(status, Screen(sys.stdout)))


def _jobs(service: Service, arguments: argparse.Namespace) -> int:
    known = service.status()["jobs"]
    jobs = job_table.chosen(known, arguments.user, arguments.state or (), arguments.sort)
    lines = job_table.job_lines(jobs, Screen(sys.stdout), arguments.wide)
    if known and not jobs:
        lines = [f"no such jobs among {len(known)}"]
    return _print(arguments, jobs, lines)


def _report(service: Service, arguments: argparse.Namespace) -> int:
    with _refusals():
        line = job_ref.line_of(service.status()["jobs"], arguments.ref)
    report = job_report(service, line["id"])
    return _print(arguments, report, view.report_lines(report))


def _kill(service: Service, arguments: argparse.Namespace) -> int:
    command(service, "kill", arguments.ref)
    return _print(arguments, {"killed": arguments.job}, [f"job {arguments.job} ends"])


def _release(service: Service, arguments: argparse.Namespace) -> int:
    command(service, "release", arguments.ref)
    return _print(arguments, {"released": arguments.job}, [f"job {arguments.job} is tried again"])


def _load(service: Service, arguments: argparse.Namespace) -> int:
    with _refusals():
        service.load(arguments.ref, timeout=None)
    return _print(arguments, {"loaded": arguments.job}, [f"job {arguments.job} is in the pool"])


def _unload(service: Service, arguments: argparse.Namespace) -> int:
    with _refusals():
        service.unload(arguments.ref)
    return _print(
        arguments, {"unloaded": arguments.job}, [f"job {arguments.job} is out of the pool"]
    )


def _pin(service: Service, arguments: argparse.Namespace) -> int:
    command(service, "pin", arguments.ref)
    return _print(arguments, {"pinned": arguments.job}, [f"job {arguments.job} stays in the pool"])


def _unpin(service: Service, arguments: argparse.Namespace) -> int:
    command(service, "unpin", arguments.ref)
    return _print(
        arguments, {"unpinned": arguments.job}, [f"job {arguments.job} may leave the pool"]
    )


def _set(service: Service, arguments: argparse.Namespace) -> int:
    with _refusals():
        service.set(arguments.ref, **arguments.changes)
    done = {"set": arguments.job, "changes": arguments.changes}
    told = ", ".join(arguments.settings)
    return _print(arguments, done, [f"job {arguments.job} has {told}"])


def _policy(service: Service, arguments: argparse.Namespace) -> int:
    command(service, "policy", arguments.policy)
    return _print(arguments, {"policy": arguments.policy}, [f"policy {arguments.policy} decides"])


def _pool(service: Service, arguments: argparse.Namespace) -> int:
    try:
        size = parse_bytes(arguments.size)
    except errors.InvalidInput as error:
        _complain(error)
        return USAGE
    with _refusals():
        service.resize_pool(size, timeout=None)
    has = service.status()["pool"]["capacity_bytes"]
    return _print(arguments, {"pool_bytes": has}, [f"the pool has {mebibytes(has)} MiB"])


def _record(service: Service, arguments: argparse.Namespace) -> int:
    path = os.path.abspath(arguments.file)
    command(service, "record", path)
    if arguments.seconds is None:
        print(f"recording into {path} until Ctrl-C", file=sys.stderr, flush=True)
    with suppress(KeyboardInterrupt):
        if arguments.seconds is None:
            signal.pause()
        else:
            time.sleep(arguments.seconds)
    command(service, "record", None)
    return _print(arguments, {"recorded": path}, [f"recorded into {path}"])


def _trace(arguments: argparse.Namespace) -> int:
    reader = program("laneway-trace")
    if reader is None:
        print(
            "laneway: laneway-trace is neither beside this Python nor on the PATH; build it with "
            "./dev build, or name the build's folder in LANEWAY_BUILD",
            file=sys.stderr,
        )
        return FAILED
    words = [str(reader)]
    if arguments.chrome is not None:
        words += ["--chrome", arguments.chrome]
    sys.stdout.flush()
    code = subprocess.run([*words, "--", arguments.file], check=False).returncode
    # Negative: a signal ended the reader, for example SIGPIPE (laneway trace FILE | head).
    return code if code >= 0 else FAILED


def _shutdown(service: Service, arguments: argparse.Namespace) -> int:
    pid = service.status()["service"]["pid"]
    command(service, "shutdown", None)
    service.close()
    if not _wait_for_end(pid):
        print(f"laneway: the service, pid {pid}, is still ending", file=sys.stderr)
        return FAILED
    return _print(arguments, {"ended": pid}, [f"the service, pid {pid}, has ended"])


def _wait_for_end(pid: int) -> bool:
    """Waits until the process has ended (a zombie has); False when that takes too long."""
    end = time.monotonic() + _SHUTDOWN_PATIENCE_S
    while time.monotonic() < end:
        try:
            fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            return True
        if fields[0] in "ZX":
            return True
        time.sleep(_LOOK_AGAIN_S)
    return False


@contextmanager
def _refusals() -> Iterator[None]:
    """What the service has to say of an argument is a refusal, not wrong usage."""
    try:
        yield
    except errors.InvalidInput as error:
        raise errors.Refused(str(error)) from None


def command(service: Service, name: str, argument: str | None) -> None:
    """Service.command. Raises Refused also for InvalidInput of the service."""
    with _refusals():
        service.command(name, argument)


def job_report(service: Service, job: int) -> dict[str, Any]:
    """The report of any job that the user may read, by its number."""
    text, error = ffi.new("char **"), bindings.new_error()
    library = service.library
    code = library.lib.laneway_service_job_report(service.native_handle(), job, text, error)
    if code == bindings.OK:
        return json.loads(library.take_text(text))
    raised = bindings.exception_of(code, error)
    if isinstance(raised, errors.InvalidInput):
        raise errors.Refused(str(raised))
    raise raised


_COMMANDS: dict[str, Callable[[Service, argparse.Namespace], int]] = {
    "status": _status,
    "jobs": _jobs,
    "report": _report,
    "kill": _kill,
    "release": _release,
    "load": _load,
    "unload": _unload,
    "pin": _pin,
    "unpin": _unpin,
    "set": _set,
    "policy": _policy,
    "pool": _pool,
    "record": _record,
    "top": top.run,
    "wait": watching.wait,
    "shutdown": _shutdown,
}
