"""`laneway doctor`: what of this machine and this user would stop a service or a client later, each
with what to do about it. It starts nothing; a service that runs at the address is asked, too."""

from __future__ import annotations

import argparse
import json
import os
import pwd
import resource
import socket
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import laneway
from laneway import errors
from laneway.cli.answer_time import answer_timeout
from laneway.cli.tables import mebibytes
from laneway.jobs.service import Service, connect
from laneway.native import torch_versions
from laneway.native.programs import program
from laneway.printable import printable

FINE, WRONG = 0, 1
_FILES_ENOUGH = 4_096  # some 500 sessions with a job each
_THREADS_ENOUGH = 1_024  # 64 lanes with a team of some threads each, in two workers
_MEMORY_ENOUGH = 1 << 30
_UNLIMITED = resource.RLIM_INFINITY


class Finding(NamedTuple):
    check: str
    fine: bool
    told: str
    remedy: str = ""  # of what is not fine


def run(arguments: argparse.Namespace) -> int:
    """Prints a line for each check. WRONG when one is not fine."""
    findings = [finding for check in _CHECKS for finding in check(arguments)]
    if arguments.json:
        print(json.dumps([finding._asdict() for finding in findings]), flush=True)
    else:
        width = max(len(finding.check) for finding in findings)
        for finding in findings:
            mark = "ok   " if finding.fine else "WRONG"
            print(f"{mark}  {finding.check:{width}}  {finding.told}")
            if finding.remedy:
                print(f"       {'':{width}}  {finding.remedy}")
        sys.stdout.flush()
    return FINE if all(finding.fine for finding in findings) else WRONG


def _limit(check: str, number: int, least: int, remedy: str) -> Finding:
    """Of a limit that the process has."""
    if number == _UNLIMITED:
        return Finding(check, True, "no limit")
    fine = number >= least
    return Finding(check, fine, f"at most {number:,}", "" if fine else f"{remedy} ({least:,})")


def _open_files(arguments: argparse.Namespace) -> Iterator[Finding]:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    remedy = "raise it: LimitNOFILE= of the unit, or the hard limit of `ulimit -n`"
    yield _limit("open files", hard, _FILES_ENOUGH, remedy)


def _threads(arguments: argparse.Namespace) -> Iterator[Finding]:
    soft, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    remedy = "a worker that gets no thread ends; raise it: LimitNPROC= of the unit, `ulimit -u`"
    yield _limit("threads of the user", soft, _THREADS_ENOUGH, remedy)
    most = min(_of_groups("pids.max"), default=_UNLIMITED)
    remedy = "raise it: TasksMax= of the unit, --pids-limit of the container"
    yield _limit("threads of the group", most, _THREADS_ENOUGH, remedy)


def _sizes(arguments: argparse.Namespace) -> Iterator[Finding]:
    for check, which, remedy in (
        ("size of files", resource.RLIMIT_FSIZE, "`ulimit -f unlimited`: pool and log are files"),
        ("address space", resource.RLIMIT_AS, "`ulimit -v unlimited`: a pool is mapped whole"),
    ):
        soft, _ = resource.getrlimit(which)
        fine = soft == _UNLIMITED
        told = "no limit" if fine else f"at most {mebibytes(soft)} MiB"
        yield Finding(check, fine, told, "" if fine else remedy)


def _memory(arguments: argparse.Namespace) -> Iterator[Finding]:
    total, free = _machine_memory()
    told = f"{mebibytes(free)} of {mebibytes(total)} MiB are free for this process's group"
    remedy = "end other programs, or allow the group more memory (MemoryMax=)"
    fine = free >= _MEMORY_ENOUGH
    yield Finding("memory", fine, told, "" if fine else remedy)


def _user(arguments: argparse.Namespace) -> Iterator[Finding]:
    uid = os.getuid()
    try:
        yield Finding("user", True, f"{printable(pwd.getpwuid(uid).pw_name)} ({uid})")
    except KeyError:
        fine = bool(os.environ.get("USER") or os.environ.get("LOGNAME"))
        remedy = "torch asks for the name when optimizers are imported: set USER to any name"
        yield Finding("user", fine, f"{uid} has no entry in passwd", "" if fine else remedy)


def _versions(arguments: argparse.Namespace) -> Iterator[Finding]:
    told = f"laneway {laneway.__version__}, {torch_versions.told()}"
    try:
        torch_versions.usable_torch()
    except errors.ServiceUnavailable as error:
        yield Finding("versions", False, told, str(error))
    else:
        yield Finding("versions", True, told)
    there = program("lanewayd")
    remedy = "" if there else "install the wheel, or name the folder of a build in LANEWAY_BUILD"
    yield Finding("lanewayd", there is not None, str(there or "not found"), remedy)


def _folder(path: Path) -> Finding:
    """Of a folder, or a file in it, that must be its owner's alone to write."""
    try:
        found = path.lstat()
    except OSError as error:
        return Finding("address", True, f"{path}: {error.strerror}; lanewayd makes it")
    remedy = ""
    if not stat.S_ISDIR(found.st_mode):
        remedy = "it is no folder, or a link: choose another --address"
    elif found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        remedy = f"others could put sockets there: chmod go-w {path}"
    elif found.st_uid != os.getuid() and not os.access(path, os.X_OK):
        remedy = "ask its owner to let you into its group, then log in anew"
    told = f"{path} has mode {stat.S_IMODE(found.st_mode):04o} and is user {found.st_uid}'s"
    return Finding("address", not remedy, told, remedy)


def _service(arguments: argparse.Namespace) -> Iterator[Finding]:
    path = _socket(arguments.address)
    if path is not None:
        yield _folder(path.parent)
    try:
        with connect(arguments.address, answer_timeout=answer_timeout(arguments)) as service:
            yield from _of_service(service)
    except errors.ServiceUnavailable as error:
        if path is not None and path.exists():
            remedy = "start lanewayd anew; nobody listens at what is there"
            if _listens(path):
                remedy = (
                    "a process listens there and answers nothing: it is stopped (kill -CONT goes "
                    "on with it) or hangs (end it, and start lanewayd anew)"
                )
            yield Finding("service", False, str(error), remedy)
        else:
            yield Finding("service", True, "none runs at the address")
    except errors.Error as error:
        yield Finding("service", False, str(error), "the message says what to do")


def _of_service(service: Service) -> Iterator[Finding]:
    status = service.status()
    there: dict[str, Any] = status["service"]
    fine = there["version"] == laneway.__version__
    told = f"pid {there['pid']}, version {there['version']}, policy {there['policy']}"
    yield Finding("service", fine, told, "" if fine else "install one version for both")
    asked = status["pool"]["capacity_bytes"] if there["device"] == "host" else 0
    asked += sum(
        (status.get(name) or {}).get("capacity_bytes", 0) for name in ("recovery", "store")
    )
    total, _ = _machine_memory()
    told = f"pool, store and recovery memory take {mebibytes(asked)} MiB at most of "
    fine = asked <= 0.9 * total
    remedy = "the kernel may end a worker: give less --pool, --staging or --recovery-memory"
    yield Finding(
        "promised", fine, f"{told}{mebibytes(total)} MiB of memory", "" if fine else remedy
    )


def _socket(address: str | None) -> Path | None:
    """Of the address as the service finds it; None where it is not a path."""
    address = address or os.environ.get("LANEWAY_ADDRESS")
    if address:
        return Path(address[6:]) if address.startswith("ipc://") else None
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    folder = Path(runtime, "laneway") if runtime else Path(f"/tmp/laneway-{os.getuid()}")
    return folder / "laneway.sock"


def _listens(path: Path) -> bool:
    """Whether a process takes connections there, whatever becomes of them."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as caller:
        caller.setblocking(False)
        try:
            caller.connect(str(path))
        except BlockingIOError:
            return True  # more wait than it lets wait
        except OSError:
            return False
        return True


def _groups() -> Iterator[Path]:
    """Folders of the control group of this process and of those around it (version 2)."""
    root = Path("/sys/fs/cgroup")
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        if line.startswith("0::"):
            group = root / line[3:].lstrip("/")
            yield from (each for each in (group, *group.parents) if each.is_relative_to(root))


def _of_groups(name: str) -> list[int]:
    """The numbers that the groups have in a file of that name; those without a bound have none."""
    texts = []
    for group in _groups():
        try:
            texts.append((group / name).read_text().strip())
        except OSError:
            continue
    return [int(text) for text in texts if text.isdigit()]


def _machine_memory() -> tuple[int, int]:
    """Bytes in all, and free, here."""
    fields = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
    total, free = (int(fields[name].split()[0]) << 10 for name in ("MemTotal", "MemAvailable"))
    for group in _groups():
        try:
            most, used = ((group / f"memory.{name}").read_text() for name in ("max", "current"))
            stat_ = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        except OSError:
            continue
        if most.strip().isdigit():  # file cache can be taken back, as machine_memory.cc has it
            left = int(most) - int(used) + int(stat_.get("inactive_file", 0))
            total, free = min(total, int(most)), min(free, max(left, 0))
    return total, free


_CHECKS: tuple[Callable[[argparse.Namespace], Iterator[Finding]], ...] = (
    *(_user, _versions, _open_files, _threads, _sizes, _memory, _service),
)
