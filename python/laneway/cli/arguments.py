"""What can be written behind `laneway`."""

from __future__ import annotations

import argparse

import laneway

_EXIT_CODES = (
    "exit codes: 0 done, 1 failed, 2 wrong usage, 3 no service at that address, 4 refused by the "
    "service"
)


def parser() -> argparse.ArgumentParser:
    """The whole command line. Wrong usage exits with 2, as argparse does."""
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument(
        "--address",
        help="of the service: ipc://PATH; default: $LANEWAY_ADDRESS, else "
        "ipc://$XDG_RUNTIME_DIR/laneway/laneway.sock, else ipc:///tmp/laneway-UID/laneway.sock",
    )
    shared.add_argument("--json", action="store_true", help="print JSON, for programs")
    whole = argparse.ArgumentParser(
        prog="laneway",
        description="Ask a running lanewayd, or tell it what to do.",
        epilog=_EXIT_CODES,
    )
    whole.add_argument("--version", action="version", version=f"laneway {laneway.__version__}")
    commands = whole.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def add(name: str, does: str) -> argparse.ArgumentParser:
        return commands.add_parser(
            name, help=does, description=does, parents=[shared], epilog=_EXIT_CODES
        )

    add("status", "what the service is doing: pool, workers, lanes, jobs")
    add("jobs", "the jobs, one a line, with reason and position of those that wait")
    kill = add("kill", "end a job, whoever made it; a running iteration ends first")
    kill.add_argument("job", metavar="JOB", help="its number or its name")
    policy = add("policy", "have another policy decide from now on")
    policy.add_argument("policy", metavar="NAME[:key=value…]", help="fifo, srtf, …")
    trace = commands.add_parser(
        "trace",
        help="show what `lanewayd --trace FILE` wrote",
        description="Show what `lanewayd --trace FILE` wrote, one line an entry (laneway-trace).",
        epilog="exit codes: 0 done, 1 not all of the file could be read, 2 wrong usage",
    )
    trace.add_argument("file", metavar="FILE", help="the trace; needs no running service")
    trace.add_argument(
        "--chrome",
        metavar="OUT",
        help="print nothing; write JSON for ui.perfetto.dev and chrome://tracing to this file",
    )
    add("shutdown", "end all jobs and the service; comes back when it is gone")
    return whole
