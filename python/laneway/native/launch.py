"""The commands `lanewayd`, `laneway-trace` and `laneway-simulate` of an installed package: each
becomes the program of its name in laneway/bin. lanewayd is told which of the package's workers is
for the torch that is installed, and where that torch is."""

from __future__ import annotations

import os
import subprocess
import sys

from laneway.errors import ServiceUnavailable
from laneway.native import programs, torch_versions
from laneway.native.torch_versions import Torch


def lanewayd() -> None:
    """Becomes lanewayd. Exits with 1, and a message, when there is no torch that its workers can
    load, or no worker for it."""
    try:
        environment = service_environment()
    except ServiceUnavailable as error:
        sys.exit(f"lanewayd: {error}")
    _become("lanewayd", environment)


def laneway_trace() -> None:
    """Becomes laneway-trace, which needs no torch."""
    _become("laneway-trace", dict(os.environ))


def laneway_simulate() -> None:
    """Becomes laneway-simulate, which needs no torch."""
    _become("laneway-simulate", dict(os.environ))


def service_environment() -> dict[str, str]:
    """The environment of a lanewayd whose workers load the torch of this Python. Raises
    ServiceUnavailable, in one sentence, when none works or its worker is missing, damaged or for
    another torch."""
    torch = torch_versions.usable_torch(programs.worker(""))
    worker = programs.worker(torch.minor)
    if worker is None:
        raise ServiceUnavailable(
            "there is no program laneway-worker: build it with ./dev build, or name it in "
            "LANEWAY_WORKER"
        )
    torch_versions.check_binary(worker, torch, "LANEWAY_WORKER")
    return os.environ | {"LANEWAY_WORKER": str(worker)} | library_path(torch)


def library_path(torch: Torch) -> dict[str, str]:
    """The change of the environment by which a worker loads this torch and no other: torch's
    libraries in front of LD_LIBRARY_PATH. Empty when torch is beside this package, where the
    worker looks by itself, and the variable is not set."""
    before = os.environ.get("LD_LIBRARY_PATH")
    if torch.folder.parent == programs.PACKAGE.parent and not before:
        return {}
    folders = [str(torch.folder / "lib"), *([before] if before else [])]
    return {"LD_LIBRARY_PATH": os.pathsep.join(folders)}


def _become(name: str, environment: dict[str, str]) -> None:
    program = programs.PACKAGE / "bin" / name
    if not program.exists():
        sys.exit(f"{name}: {program} is missing: {torch_versions.REINSTALL}")
    # Its version is asked for first: where the system's libraries are too old, the loader would end
    # this process with a line of its own.
    asked = [program, "--version"]
    done = subprocess.run(asked, env=environment, capture_output=True, text=True, check=False)
    if words := torch_versions.loader_words(done.stderr):
        sys.exit(f"{name}: {program} cannot be loaded: {words}")
    os.execve(program, [name, *sys.argv[1:]], environment)
