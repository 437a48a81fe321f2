"""`laneway serve`: the options. Everything else, and the libraries, are in laneway/serve, which is
loaded when the command runs."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from laneway.errors import InvalidInput

NEEDS = "pip install 'laneway[serve]'"
_LIBRARIES = ("starlette", "uvicorn", "httptools", "orjson", "prometheus_client", "grpc", "google")


def add_to(commands: Any, shared: list[argparse.ArgumentParser]) -> None:
    """Adds the command to the subparsers of the command line."""
    serve = commands.add_parser(
        "serve",
        help="answer HTTP and gRPC with models of a folder that the service runs, until Ctrl-C",
        description="Answer HTTP with the models of a folder, until Ctrl-C or SIGTERM: KServe v2, "
        "with --grpc over gRPC, too, and OpenAI's models and embeddings. A model is imported and "
        "captured at its first request; those that are not used leave the pool by themselves. "
        "Prints `laneway serve ready: ADDRESS… models NAME,… pid N`. The service may come later, "
        "or go and come back. docs/serve.md has the form of a model's folder. "
        f"Needs {NEEDS}.",
        epilog="exit codes: 0 ended as asked, 1 failed, 2 wrong usage, 4 the place to listen on "
        "cannot be had",
        parents=shared,
    )
    serve.add_argument(
        "--models",
        metavar="DIR",
        required=True,
        help="a folder for each model, DIR/NAME/{model.toml,model.py}; others may not write to it",
    )
    serve.add_argument(
        "--listen",
        metavar="HOST:PORT",
        default="127.0.0.1:8643",
        help="or unix:PATH; port 0 chooses one; other than loopback only with --api-key-file; "
        "default: %(default)s",
    )
    serve.add_argument(
        "--grpc",
        metavar="HOST:PORT",
        help="answer gRPC there, too; port 0 chooses one; other than loopback only with "
        "--api-key-file; default: nowhere",
    )
    serve.add_argument(
        "--api-key-file",
        metavar="FILE",
        help="the key that requests need (Authorization: Bearer KEY), in a file that only its "
        "owner may read; default: whoever reaches the port is answered",
    )
    serve.add_argument(
        "--scratch",
        metavar="DIR",
        help="for the bytes of models that are loaded, which need as much room as their weights; "
        "default: laneway-serve-UID in the folder for temporary files",
    )


def run(arguments: argparse.Namespace) -> int:
    """Runs the command and returns its exit code."""
    try:
        from laneway.serve import server

        if arguments.grpc is not None:
            from laneway.serve import rpc_doors  # noqa: F401 (server loads it where it is needed)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _LIBRARIES:
            raise
        print(f"laneway: serve needs {error.name}, which is not here: {NEEDS}", file=sys.stderr)
        return 1
    from laneway.web.listen import check_reach, place_of, token_in

    try:
        place, file = place_of(arguments.listen), arguments.api_key_file
        check_reach(place, file, "--listen", "--api-key-file")
        key = None if file is None else token_in(file, "--api-key-file")
        rpc = None if arguments.grpc is None else place_of(arguments.grpc, "--grpc")
        if rpc is not None:
            if rpc.path:
                raise InvalidInput(f"--grpc {arguments.grpc}: give HOST:PORT or [IPV6]:PORT")
            check_reach(rpc, file, "--grpc", "--api-key-file")
        options = server.Options(
            arguments.models, place, rpc, key, arguments.address, arguments.scratch
        )
        server.serve(options)
    except InvalidInput as error:
        print(f"laneway: {error}", file=sys.stderr)
        return 2
    return 0
