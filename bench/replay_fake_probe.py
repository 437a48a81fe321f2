"""The process that replay_fake looks at: trains one model in an embedded service on the fake device
(tests/fake_cuda), until its iterations are replayed, and counts what is called of CUDA.

    python -m bench.replay_fake_probe DEVICE MODEL FORM

prints one JSON object: {"nodes": of the step's graph, "replayed_nodes": those that the recording
stands for, "replayed_count", "refused": why it is not recorded or null, "before" and "after": of an
iteration that runs node by node and of one that is replayed, {"calls": host calls, "launches":
kernels and recordings that it launches, "work": pieces of work that the device does}}."""

from __future__ import annotations

import ctypes
import sys

import torch

import laneway

from .models import make, pool_for
from .probe import run_probe

PLAIN = 4  # iterations before the one that is recorded: it is planned from the second on
REPLAYED = 3
# The lane's thread and this one both run iterations, as it comes; a thread records only what it ran
# node by node before.
SPARE = 8
NOTES = 1 << 24


class Counts:
    """What the fake noted while the block ran."""

    def __init__(self) -> None:
        self.fake = ctypes.CDLL("libcuda.so.1")
        self.fake.fake_cuda_count.restype = ctypes.c_size_t
        self.text = ctypes.create_string_buffer(NOTES)
        self.found: dict[str, int] = {}

    def __enter__(self) -> Counts:
        self.launched = self._launched()
        self.fake.fake_cuda_note(1)
        return self

    def __exit__(self, *_: object) -> None:
        self.fake.fake_cuda_note(0)
        self.fake.fake_cuda_notes(self.text, len(self.text))
        lines = self.text.value.decode().splitlines()
        self.found = {
            "calls": host_calls(lines),
            "launches": self._launched() - self.launched,
            "work": sum(line.startswith("run ") for line in lines),
        }

    def _launched(self) -> int:
        return sum(map(self.fake.fake_cuda_count, (b"kernel:", b"cudaGraphLaunch")))


def host_calls(lines: list[str]) -> int:
    """Calls of the runtime, the libraries and the driver; what the runtime hands on to the driver
    under the same name is one call."""
    names = [line.split()[1] for line in lines if line.startswith("call ")]
    before = ["", *names]
    return sum(
        not (name.startswith("cu") and last == "cuda" + name.removeprefix("cu"))
        for last, name in zip(before, names, strict=False)
    )


def probe(device: str, model: str, form: str) -> dict[str, object]:
    torch.zeros(1, device=device)  # the fake is there
    work = make(model, form=form)
    found = []
    with laneway.embedded(pool=pool_for(work), device=device) as service:
        step = laneway.train_step(
            work.model, work.loss_fn, work.optimizer, service, name=model, replay="on"
        )
        for number in range(PLAIN + 1 + REPLAYED + SPARE):
            with Counts() as counts:
                step(*work.batch(number)).item()
            found.append(counts.found)
            [graph] = service.job_report(model)["graphs"]
            if graph["replayed_count"] == REPLAYED:
                break
    return {
        "nodes": graph["nodes"],
        "replayed_nodes": graph["replay"]["nodes"],
        "replayed_count": graph["replayed_count"],
        "refused": graph["replay"]["refused"],
        "before": found[PLAIN - 1],
        "after": found[-1],
    }


def main(arguments: list[str]) -> int:
    return run_probe(lambda: probe(*arguments))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
