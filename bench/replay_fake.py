"""replay_fake: which part of a training step is replayed on a CUDA device, and what does the host
call of CUDA in an iteration, before and after?

Each of the ten models trains with its default and with a fused optimizer on the fake device
(tests/fake_cuda; bench/replay_fake_probe.py), which counts every call. Counts are exact; the fake
computes nothing, so nothing is timed. A fused optimizer keeps its counters on the device, so its
step is recorded as a whole; a default Adam counts on the CPU, and its step is recorded up to it."""

from __future__ import annotations

from typing import Any

from .fake_device import DEVICE, probe_on_fake
from .harness import Options, progress
from .models import NAMES
from .report import Report, at_least

FORMS = ("default", "fused")
QUICK = ("mlp", "gpt")
SHARE = {"default": None, "fused": at_least(0.9)}
REPLAYED = at_least(1)
MEMORY_MIB = "16384"  # vgg11 has 133 million parameters; only what is touched is taken


def cases() -> list[str]:
    return [f"{name}_{form}" for name in NAMES for form in FORMS]


def run(options: Options) -> Report:
    report = Report("replay_fake")
    for name in QUICK if options.quick else NAMES:
        for form in FORMS:
            if options.wants(f"{name}_{form}"):
                progress(f"replay_fake: {name}, {form} optimizer")
                add(report, name, form, measure(name, form))
    return report


def measure(name: str, form: str) -> dict[str, Any]:
    """What the probe found on the fake, or {"error": why not}."""
    memory = {"FAKE_CUDA_MEMORY_MIB": MEMORY_MIB}
    return probe_on_fake("bench.replay_fake_probe", DEVICE, name, form, environment=memory)


def add(report: Report, name: str, form: str, found: dict[str, Any]) -> None:
    """Rows of what a probe found."""
    case = f"{name}_{form}"
    if "error" in found:
        report.add(case, "replayed_share", None, "", at_least(0.9), note=found["error"])
        return
    nodes, replayed = found["nodes"], found["replayed_nodes"]
    note = f"{replayed} of {nodes} nodes"
    if found["refused"]:
        note += f"; {found['refused']}"
    report.add(case, "replayed_iterations", found["replayed_count"], "", REPLAYED)
    report.add(case, "replayed_share", replayed / nodes, "", SHARE[form], note=note)
    for when in ("before", "after"):
        counts = found[when]
        note = f"{counts['launches']} launches for {counts['work']} pieces of work"
        report.add(case, f"host_calls_{when}", counts["calls"], "", note=note)
