"""The commands and options of `laneway`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import laneway
from laneway.cli import calibrate, completion, job_table, serve, simulate, top, web
from laneway.cli.answer_time import ANSWER_S
from laneway.jobs.control import scheduling
from laneway.native import torch_versions

_EXIT_CODES = """exit codes:
  0  done
  1  failed
  2  wrong usage
  3  no service at the address
  4  refused by the service
"""
_WAIT_CODES = """exit codes:
  0    the job has finished
  1    it failed, was cancelled (by `laneway kill` or its client's end), or has not ended in time
  2    wrong usage
  3    no service at the address, or it has gone
  4    there is no such job
  130  Ctrl-C
"""
_EXAMPLES = """examples:
  laneway status              the pool, the lanes and the jobs of the default service
  laneway jobs --json         the jobs, for a program
  laneway jobs --state away --sort waiting  those that wait outside of the pool, the longest first
  laneway report gpt6         how its graphs run, and why one is not recorded for replay
  laneway wait gpt6           return when it has ended: 0 when it has finished
  laneway kill 7              end job 7
  laneway kill --name 7       end the job that is named 7
  laneway set gpt6 weight=2   twice the share of the device's time, where the policy shares it
  laneway policy srtf         shortest remaining time first, from now on
  laneway record FILE         every decision from now on, until Ctrl-C; laneway replay repeats them
  laneway pool 4GiB           leave the rest of the memory to other programs, for now
"""
_LONGEST_S = 1e6
_WATCH_S = 2.0
_ON_A_JOB = {
    "report": "show a job's graphs: iterations, plans, and what is replayed or why it is not",
    "kill": "end a job of any client, after its running iteration",
    "release": "run the iterations of a quarantined job again; `laneway jobs` shows why it is "
    "quarantined",
    "load": "bring a job's image into the pool, and return when it is there",
    "unload": "send a job's image out of the pool; its next iteration brings it back",
    "pin": "keep a job's image in the pool until it is unpinned",
    "unpin": "let a job's image leave the pool when others need the room",
}


_SETTINGS = f"""settings, with the value that a job has when nothing was said:
  priority=N          (0) higher is more urgent; -{scheduling.MAX_PRIORITY} to {scheduling.MAX_PRIORITY}
  weight=X            (1) of the device's time, beside others; {scheduling.MIN_WEIGHT:g} to {scheduling.MAX_WEIGHT:g}
  total_iterations=N  (none) how many iterations the job runs in all
  deadline=SECONDS    (none) when all of them should be done, from the job's offer
  iteration_s=SECONDS (none) of one iteration, until one was measured
  job_class=CLASS     training, inference, or best_effort: only when no other job in its lane has work
Which of them count is the policy's matter. JOB belongs to the user, or the user is an operator.
"""  # noqa: E501


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if 0 < seconds <= _LONGEST_S:
        return seconds
    raise argparse.ArgumentTypeError(f"{text!r}: give more than 0, up to {_LONGEST_S:.0f}")


def _add_job(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "job",
        metavar="JOB",
        help="the number of the job (decimal digits are always a number), or its name",
    )
    command.add_argument(
        "--name", action="store_true", help="JOB is a name, also where it looks like a number"
    )


def _add_status(add: Callable[[str, str], argparse.ArgumentParser]) -> None:
    status = add("status", "show the state of the service: pool, workers, lanes and jobs")
    shown = status.add_mutually_exclusive_group()
    shown.add_argument(
        "--watch",
        metavar="S",
        type=_seconds,
        nargs="?",
        const=_WATCH_S,
        help=f"again every S seconds ({_WATCH_S:g}), until Ctrl-C; also when the service goes and "
        "comes back; with --json a line each",
    )
    shown.add_argument(
        "--limits",
        action="store_true",
        help="what clients can make the service keep: how much it keeps, its limit, and who has it",
    )


def _add_jobs(add: Callable[[str, str], argparse.ArgumentParser]) -> None:
    jobs = add(
        "jobs",
        "show the jobs, one on a line; of one with work that does not run also why, and since when",
    )
    jobs.description = (
        f"{jobs.description} On a terminal the table has as many columns as fit, and a long reason "
        "stands below its job; elsewhere it has all."
    )
    jobs.add_argument("--wide", action="store_true", help="all columns, however wide")
    jobs.add_argument("--user", metavar="USER", help="only jobs of this user")
    jobs.add_argument(
        "--state",
        metavar="STATE",
        action="append",
        choices=job_table.STATES,
        help=f"only jobs in this state; repeatable: {', '.join(job_table.STATES)}",
    )
    jobs.add_argument(
        "--sort",
        metavar="KEY",
        choices=job_table.SORT_KEYS,
        help=f"one of {', '.join(job_table.SORT_KEYS)}: id and texts from the first on, of the "
        "others the most first, and jobs without a value last; default: as the service lists them",
    )


def _add_completion(commands: Any) -> None:
    shells = commands.add_parser(
        "completion",
        help="print the script that completes laneway and lanewayd in a shell",
        description="Print the script that completes laneway and lanewayd in a shell. "
        "For bash: source <(laneway completion bash)",
        epilog="exit codes: 0 done, 2 wrong usage",
    )
    shells.add_argument(
        "shell", choices=completion.SHELLS, metavar="SHELL", help="bash, zsh or fish"
    )


def _add_wait(add: Callable[[str, str], argparse.ArgumentParser]) -> None:
    wait = add("wait", "wait until a job has ended, and say how")
    wait.epilog = _WAIT_CODES
    _add_job(wait)
    wait.add_argument(
        "--timeout", metavar="S", type=_seconds, help="for so many seconds; default: until it ends"
    )


def _add_doctor(add: Callable[[str, str], argparse.ArgumentParser]) -> None:
    doctor = add("doctor", "say what of this machine and user would stop a service, and the remedy")
    doctor.epilog = "exit codes: 0 all is fine, 1 something is not, 2 wrong usage"


def _add_trace(commands: Any) -> None:
    trace = commands.add_parser(
        "trace",
        help="show a trace that `lanewayd --trace FILE` recorded",
        description="Show a trace that `lanewayd --trace FILE` recorded, one entry on a line. No "
        "service needs to run. The program laneway-trace reads the file.",
        epilog="exit codes: 0 done, 1 a part of the file could not be read, 2 wrong usage",
    )
    trace.add_argument("file", metavar="FILE", help="the trace file")
    trace.add_argument(
        "--chrome",
        metavar="OUT",
        help="print nothing, and write JSON for ui.perfetto.dev and chrome://tracing to OUT",
    )


def _add_for_operators(add: Callable[[str, str], argparse.ArgumentParser]) -> None:
    policy = add("policy", "change the scheduling policy of the running service")
    policy.add_argument(
        "policy",
        metavar="NAME[:key=value…]",
        help=f"a policy with its options: {', '.join(completion.POLICIES)}; or ./FILE, a program "
        "of one's own",
    )
    pool = add(
        "pool",
        "change the size of the pool of the running service, and return when it has that size",
    )
    pool.add_argument(
        "size",
        metavar="SIZE",
        help="such as 4GiB, at most the size with which the service was started; images that lie "
        "above it move or leave first",
    )
    record = add(
        "record",
        "record every decision of the running service, from now on, for `laneway replay`",
    )
    record.add_argument(
        "file", metavar="FILE", help="written by the service; an older record in it is replaced"
    )
    record.add_argument(
        "--seconds",
        metavar="S",
        type=_seconds,
        help="for so long; default: until Ctrl-C",
    )


def parser() -> argparse.ArgumentParser:
    """The parser of the command line. On wrong usage argparse ends the process with exit code 2."""
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument(
        "--address",
        metavar="ipc://PATH",
        help="the address of the service; default: $LANEWAY_ADDRESS, or "
        "ipc://$XDG_RUNTIME_DIR/laneway/laneway.sock where XDG_RUNTIME_DIR is set, or "
        "ipc:///tmp/laneway-UID/laneway.sock",
    )
    of_wait = argparse.ArgumentParser(add_help=False, parents=[shared])
    of_wait.add_argument("--json", action="store_true", help="print JSON instead of text")
    of_text = argparse.ArgumentParser(add_help=False, parents=[of_wait])
    of_text.add_argument(
        "--timeout",
        metavar="S",
        type=_seconds,
        help="for how long to wait for an answer of the service, which may be stopped; default: "
        f"{ANSWER_S:g}",
    )
    whole = argparse.ArgumentParser(
        prog="laneway",
        description="Show the state of a running lanewayd, or control it.",
        epilog=f"{_EXAMPLES}\n{_EXIT_CODES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    whole.add_argument(
        "--version",
        action="version",
        version=f"laneway {laneway.__version__}, {torch_versions.told()}",
        help="print the version, and which torch it is for, and exit",
    )
    commands = whole.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def add(name: str, does: str) -> argparse.ArgumentParser:
        return commands.add_parser(
            name,
            help=does,
            description=f"{does[0].upper()}{does[1:]}.",
            # Its own --timeout is of the whole wait.
            parents=[of_wait if name == "wait" else of_text],
            epilog=_EXIT_CODES,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )

    _add_status(add)
    _add_jobs(add)
    for command, does in _ON_A_JOB.items():
        _add_job(add(command, does))
    _add_wait(add)
    change = add("set", "change what the policy is told of a job, from its next decision on")
    change.epilog = f"{_SETTINGS}\n{_EXIT_CODES}"
    _add_job(change)
    change.add_argument(
        "settings", metavar="KEY=VALUE", nargs="+", help="one or several of the settings below"
    )
    _add_for_operators(add)
    for program in (top, web, serve):
        program.add_to(commands, [shared])
    _add_trace(commands)
    simulate.add_to(commands)
    simulate.add_replay_to(commands)
    calibrate.add_to(commands)
    _add_completion(commands)
    _add_doctor(add)
    add("shutdown", "end all jobs and the service, and return when the service has ended")
    return whole
