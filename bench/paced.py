"""A process that runs a training script, one epoch each time that its parent says so.

    python -m bench.paced JSON

imports the module {module} of the JSON object and calls its main(record, **options) with a Record
of `epochs` epochs of `batches` batches. It writes one JSON object a line to what was stdout:
{"ready": true} before the first epoch; then for each line from stdin the times of the next epoch,
{"ns", "steps"}; for the line after the last one what the script left, {"digests", "captures"}. A
failure is written as {"error": text} and ends the process. The client side is `PacedScript`."""

from __future__ import annotations

import importlib
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import harness
from .worker import Conversation

if TYPE_CHECKING:
    from .scripts.record import Epoch


class PacedScript(Conversation):
    """The parent's end. A context manager; leaving it ends the process."""

    def __init__(self, make: dict[str, Any], environment: dict[str, str] | None = None) -> None:
        """`make` is the JSON object of the process: module, options, epochs, batches, threads (None
        for torch's own count) and cores."""
        module = ["bench.paced", json.dumps(make)]
        super().__init__(module, "the script", make["threads"], environment)

    def wait_until_ready(self) -> None:
        """Waits until the script is before its first epoch. WorkerFailed says why it is not."""
        self.reply()

    def epoch(self) -> float:
        """Runs the next epoch; the mean time of its iterations in nanoseconds."""
        self.say("")
        reply = self.reply()
        return reply["ns"] / reply["steps"]

    def end(self) -> dict[str, Any]:
        """What the script left: {"digests", "captures"}. Requires: all epochs were run."""
        self.say("")
        return self.reply()

    def __enter__(self) -> PacedScript:
        return self


class _Parent:
    """The process's end of the conversation."""

    def __init__(self) -> None:
        # Libraries print to stdout; the answers go where it pointed to.
        self._answers = os.fdopen(os.dup(1), "w", buffering=1)
        os.dup2(2, 1)

    def tell(self, reply: dict[str, Any]) -> None:
        self._answers.write(json.dumps(reply) + "\n")

    def pace(self, done: Epoch | None) -> None:
        """Tells of the epoch that is done and returns when the next one may begin."""
        self.tell({"ready": True} if done is None else {"ns": done.ns, "steps": done.steps})
        if not sys.stdin.readline():
            sys.exit(0)


def _count_captures() -> list[str]:
    """Returns a list that grows by an entry with each capture of a training step."""
    import laneway.jobs.step_capture as jobs

    captures: list[str] = []
    capture = jobs.capture_train_step

    def counted(*args: Any, **kwargs: Any) -> Any:
        captures.append("step")
        return capture(*args, **kwargs)

    jobs.capture_train_step = counted
    return captures


def _run(make: dict[str, Any], parent: _Parent) -> None:
    import torch

    from .scripts.record import Record

    harness.pin(make["cores"])
    if make["threads"] is not None:
        torch.set_num_threads(make["threads"])
    captures = _count_captures()
    with tempfile.TemporaryDirectory(prefix="laneway-script-") as folder:
        record = Record(make["epochs"], make["batches"], Path(folder), parent.pace)
        importlib.import_module(make["module"]).main(record, **make["options"])
        parent.pace(record.last_epoch())
        parent.tell({"digests": record.digests(), "captures": len(captures)})


def main(arguments: list[str]) -> int:
    parent = _Parent()
    try:
        _run(json.loads(arguments[0]), parent)
    except Exception as error:  # whatever it is, the parent reports it as the reason
        text = str(error).strip().split("\n")[0]
        parent.tell({"error": f"{type(error).__name__}: {text}"})
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
