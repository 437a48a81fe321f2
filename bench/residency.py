"""residency: what does a model that is in the pool, or a part of it, save of a switch?

`resident`: two inferences whose images are both in the pool and which share a lane; a request that
follows one of the other model takes `switch_ms`, one that follows one of its own `ready_ms`;
`switch_round_trips` is the difference in round trips of the ring between two processes, measured
beside them. `prefix_N`: N percent of the image stay in the pool when it leaves, `rule`: as much as
the rule says, after a few returns. The image is away when the request comes, over a link on which
all of it takes as long as the inference computes. `kept_bytes` is what stayed (of `prefix_N`, to
the unit: `kept_of_share`), `link_of_rest` what the link carried, from the trace's times and its
rate, over what did not stay; `exposed_ms` is what a request takes beyond `ready`. Every answer is
compared with eager's."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import nn

import laneway

from . import stats
from .daemon import Daemon
from .harness import (
    Calibration,
    Options,
    find_program,
    operator_threads,
    paired_trials,
    progress,
)
from .report import Report, at_most
from .round_trips import RoundTrips
from .switching import (
    MIB,
    MODELS,
    WARM_UP,
    Job,
    away,
    is_whole,
    line_of,
    timed,
    transfers,
    until,
)

SHARES = (0, 10, 25, 50)
MODEL = "inception_v3"
TRIALS = 40
QUICK_TRIALS = 6
RING_TRIPS = 2_000
RESIDENT = at_most(5)
EXPOSED = at_most(0.03)


def cases() -> list[str]:
    return ["resident", *(f"prefix_{share}" for share in SHARES), "rule"]


@torch.no_grad()
def run(options: Options) -> Report:
    report = Report("residency")
    calibration = Calibration()
    torch.manual_seed(0)
    model, inputs = MODELS[MODEL]()
    work = (model.eval(), inputs)
    trials = options.trials or (QUICK_TRIALS if options.quick else TRIALS)
    for case in filter(options.wants, cases()):
        progress(f"residency: {case}")
        with operator_threads(options.threads):
            if case == "resident":
                measure_resident(work, trials, calibration, report)
            else:
                measure_prefix(case, work, trials, calibration, report)
    calibration.add_to(report)
    return report


def image_of(model: nn.Module) -> int:
    return sum(t.nbytes for t in (*model.parameters(), *model.buffers()))


def measure_resident(work: Job, trials: int, calibration: Calibration, report: Report) -> None:
    model, inputs = work
    expected = model(*inputs)
    pool = 3 * image_of(model) + 256 * MIB
    with (
        Daemon(pool, words=("--standby", "0", "--lanes", "1")) as daemon,
        laneway.connect(daemon.address) as service,
        laneway.inference(model, service=service, name="one", sync="manual") as one,
        laneway.inference(model, service=service, name="two", sync="manual") as two,
        RoundTrips([str(find_program("laneway-ring-roundtrip")), "-1", "-1"]) as ring,
    ):
        for _ in range(WARM_UP):
            timed(one, inputs, expected)
            timed(two, inputs, expected)

        def trial(variant: str) -> float:
            calibration.sample()
            timed(two if variant == "switch" else one, inputs, expected)
            return timed(one, inputs, expected)

        variants = {name: functools.partial(trial, name) for name in ("ready", "switch")}
        took = paired_trials(variants, trials)
        ring_ns = stats.median(ring.trial(RING_TRIPS))
    for variant, samples in took.items():
        report.add("resident", f"{variant}_ms", stats.median(samples) * 1e3, "ms",
                   samples=[s * 1e3 for s in samples])  # fmt: skip
    report.add("resident", "ring_us", ring_ns / 1e3, "us")
    pairs = zip(took["switch"], took["ready"], strict=True)
    beyond = stats.bootstrap_median([(a - b) * 1e9 / ring_ns for a, b in pairs])
    report.add("resident", "switch_round_trips", beyond.high, "round trips", RESIDENT,
               median=beyond.median)  # fmt: skip


def measure_prefix(
    case: str, work: Job, trials: int, calibration: Calibration, report: Report
) -> None:
    model, inputs = work
    expected = model(*inputs)
    image = image_of(model)
    share = int(case.split("_")[1]) if case != "rule" else None
    prefix = "auto" if share is None else f"{share}%" if share else "none"
    words = ("--standby", "0", "--staging", str(3 * image))
    with Daemon(2 * image + 256 * MIB, words=words) as daemon:
        rate = image / _ready(daemon, work, expected)
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "trace"
        more = ("--copy-bandwidth", str(int(rate)), "--prefix", prefix, "--trace", str(trace))
        with Daemon(2 * image + 256 * MIB, words=(*words, *more)) as daemon:
            took, kept, whole = _switched(daemon, (*work, expected), trials, calibration)
        carried = transfers(trace)[-len(took["switch"]) :]
    for variant, samples in took.items():
        report.add(case, f"{variant}_ms", stats.median(samples) * 1e3, "ms",
                   samples=[s * 1e3 for s in samples])  # fmt: skip
    pairs = zip(took["switch"], took["ready"], strict=True)
    ready = stats.median(took["ready"])
    exposed = stats.bootstrap_median([a - b for a, b in pairs])
    report.add(case, "exposed_ms", exposed.high * 1e3, "ms", median=exposed.median * 1e3)
    if share is None:
        report.add(case, "exposed_of_ready", exposed.high / ready, "share", EXPOSED)
    report.add(case, "image_bytes", whole, "B")
    report.add(case, "kept_bytes", stats.median(kept), "B", samples=kept)
    if share:
        report.add(case, "kept_of_share", stats.median(kept) / (whole * share / 100), "ratio")
    rest = [whole - one for one in kept]
    link = [s * rate / left for s, left in zip(carried, rest, strict=True)]
    report.add(case, "link_of_rest", stats.median(link), "ratio", samples=link)


def _ready(daemon: Daemon, work: Job, expected: torch.Tensor) -> float:
    model, inputs = work
    with (
        laneway.connect(daemon.address) as service,
        laneway.inference(model, service=service, sync="manual") as answer,
    ):
        times = [timed(answer, inputs, expected) for _ in range(WARM_UP + 5)]
    return stats.median(times[WARM_UP:])


def _switched(
    daemon: Daemon,
    job: tuple[nn.Module, tuple[torch.Tensor, ...], torch.Tensor],
    trials: int,
    calibration: Calibration,
) -> tuple[dict[str, list[float]], list[float], int]:
    """Seconds by variant; what stayed of the image in each trial; and its size."""
    model, inputs, expected = job
    kept: list[float] = []
    with (
        laneway.connect(daemon.address) as service,
        laneway.inference(model, service=service, name="target", sync="manual") as target,
    ):
        whole = 0

        def trial(variant: str) -> float:
            calibration.sample()
            if variant == "switch":
                away(service, "target")
                kept.append(line_of(service, "target")["image"]["pool_bytes"])
            took = timed(target, inputs, expected)
            until(service, "target", is_whole)
            return took

        for _ in range(WARM_UP):
            timed(target, inputs, expected)
        for _ in range(WARM_UP):  # the rule learns; the first copy out touches the pages outside
            trial("switch")
        kept.clear()
        whole = line_of(service, "target")["image"]["pool_bytes"]
        variants = {name: functools.partial(trial, name) for name in ("ready", "switch")}
        took: Any = paired_trials(variants, trials)
    return took, kept, whole
