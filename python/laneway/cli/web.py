"""`laneway web`: the options. Everything else, and the libraries, are in laneway/web, which is
loaded when the command runs."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from laneway.errors import InvalidInput

NEEDS = "pip install 'laneway[web]'"
_LIBRARIES = ("starlette", "uvicorn", "httptools", "prometheus_client")


def add_to(commands: Any, shared: list[argparse.ArgumentParser]) -> None:
    """Adds the command to the subparsers of the command line."""
    web = commands.add_parser(
        "web",
        help="serve a page and metrics of the service over HTTP, until Ctrl-C",
        description="Serve a page and metrics of the service over HTTP, until Ctrl-C or SIGTERM. "
        "Prints `laneway web ready: ADDRESS`; whoever has that address may do what you may do. The "
        f"service may come later, or go and come back. Needs {NEEDS}.",
        epilog="exit codes: 0 ended as asked, 1 failed, 2 wrong usage, 4 the place to listen on "
        "cannot be had",
        parents=shared,
    )
    web.add_argument(
        "--listen",
        metavar="HOST:PORT",
        default="127.0.0.1:8642",
        help="or unix:PATH; port 0 chooses one; other than loopback only with --token-file; "
        "default: %(default)s",
    )
    web.add_argument(
        "--token-file",
        metavar="FILE",
        help="the token that requests need, in a file that only its owner may read; default: a new "
        "one at each start",
    )


def run(arguments: argparse.Namespace) -> int:
    """Runs the command and returns its exit code."""
    try:
        from laneway.web import server
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _LIBRARIES:
            raise
        print(f"laneway: web needs {error.name}, which is not here: {NEEDS}", file=sys.stderr)
        return 1
    from laneway.web.listen import place_of, token_of

    try:
        place = place_of(arguments.listen)
        token = token_of(place, arguments.token_file)
    except InvalidInput as error:
        print(f"laneway: {error}", file=sys.stderr)
        return 2
    server.serve(place, token, arguments.address)
    return 0
