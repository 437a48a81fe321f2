"""The commands and options of `laneway`."""

from __future__ import annotations

import argparse

import laneway
from laneway.cli import completion

_EXIT_CODES = """exit codes:
  0  done
  1  failed
  2  wrong usage
  3  no service at the address
  4  refused by the service
"""
_EXAMPLES = """examples:
  laneway status              the pool, the lanes and the jobs of the default service
  laneway jobs --json         the jobs, for a program
  laneway report gpt6         how its graphs run, and why one is not recorded for replay
  laneway kill gpt6           end the job named gpt6
  laneway policy srtf         shortest remaining time first, from now on
"""
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
    shared.add_argument("--json", action="store_true", help="print JSON instead of text")
    whole = argparse.ArgumentParser(
        prog="laneway",
        description="Show the state of a running lanewayd, or control it.",
        epilog=f"{_EXAMPLES}\n{_EXIT_CODES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    whole.add_argument(
        "--version",
        action="version",
        version=f"laneway {laneway.__version__}",
        help="print the version and exit",
    )
    commands = whole.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def add(name: str, does: str) -> argparse.ArgumentParser:
        return commands.add_parser(
            name,
            help=does,
            description=f"{does[0].upper()}{does[1:]}.",
            parents=[shared],
            epilog=_EXIT_CODES,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )

    add("status", "show the state of the service: pool, workers, lanes and jobs")
    add("jobs", "show the jobs, one on a line; for a waiting job also its position and the reason")
    for command, does in _ON_A_JOB.items():
        job = add(command, does)
        job.add_argument("job", metavar="JOB", help="the number or the name of the job")
    policy = add("policy", "change the scheduling policy of the running service")
    policy.add_argument(
        "policy", metavar="NAME[:key=value…]", help="a policy with its options: fifo, srtf"
    )
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
    add("shutdown", "end all jobs and the service, and return when the service has ended")
    return whole
