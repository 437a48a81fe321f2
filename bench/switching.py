"""switching: how long does a request wait for a model that is away?

`MODEL_RATIO`: an inference of batch 1, with one operator thread, whose image comes back over a link
that carries it in RATIO times what the inference computes. In turns: `ready` (the image is there),
`switch` (it is away when the request comes), `interfered` (it is there, and an equal image that
nobody uses comes back beside it). `bound_ms` is what no schedule beats that begins to copy with the
request: for each leaf module, the bytes of all that run up to it at the link's rate, and what is
computed from it on (measured in eager PyTorch, scaled to `ready`). `excess` is what a switch takes
beyond the bound, over the bound; `excess_beyond_interference` leaves out what `interfered` takes
beyond `ready`: each of one round, bound included, for the machine's speed changes. `overlap` is the
share of the smaller one of transfer and computation that ran beside the other, over that of the
bound. `whole_ms` is what it would take to copy the image first: transfer, as the trace of the core
has it, and `ready`. Every answer is compared with eager's."""

from __future__ import annotations

import functools
import re
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
import torchvision
from torch import nn

import laneway
from laneway.jobs.control import residency

from . import stats
from .daemon import Daemon, daemon_program
from .harness import Calibration, Options, operator_threads, paired_trials, progress
from .models.bert import Bert
from .report import Report, at_least, at_most

RATIOS = (0.5, 1.0, 2.0)
EXCESS = at_most(0.03)
OVERLAP = at_least(0.95)
TRIALS = 40
QUICK_TRIALS = 8
WARM_UP = 3
TIMED_IN_EAGER = 5
MIB = 1 << 20
ENTRY = re.compile(r"^[+-](\d+\.\d+) .*?(?:heard|decided) (\w+) job \d+ 'target'(.*)$", re.M)

Job = tuple[nn.Module, tuple[torch.Tensor, ...]]
Maker = Callable[[], Job]


def _image(width: int) -> torch.Tensor:
    return torch.randn(1, 3, width, width)


def _resnet152() -> Job:
    return torchvision.models.resnet152(), (_image(224),)


def _inception_v3() -> Job:
    model = torchvision.models.inception_v3(aux_logits=False, init_weights=False)
    return model, (_image(299),)


def _bert_base() -> Job:
    tokens = 128
    model = Bert(layers=12, width=768, heads=12, vocabulary=30_522, tokens=tokens)
    return model, (torch.randint(0, 30_522, (1, tokens)), torch.zeros(1, tokens, dtype=torch.long))


MODELS: dict[str, Maker] = {
    "resnet152": _resnet152,
    "inception_v3": _inception_v3,
    "bert_base": _bert_base,
}


def cases() -> list[str]:
    return [f"{name}_{ratio:g}" for name in MODELS for ratio in RATIOS]


def jobs_of(names: Iterable[str]) -> Iterator[tuple[str, Job, float]]:
    """Each case, its model for inference with inputs, and its ratio."""
    for case in names:
        name, ratio = case.rsplit("_", 1)
        torch.manual_seed(0)
        model, inputs = MODELS[name]()
        yield case, (model.eval(), inputs), float(ratio)


def run(options: Options) -> Report:
    report = Report("switching")
    calibration = Calibration()
    trials = options.trials or (QUICK_TRIALS if options.quick else TRIALS)
    for case, job, ratio in jobs_of(filter(options.wants, cases())):
        progress(f"switching: {case}")
        with operator_threads(options.threads):
            measure(case, job, ratio, trials, calibration, report)
    calibration.add_to(report)
    return report


@torch.no_grad()
def measure(
    case: str,
    job: Job,
    ratio: float,
    trials: int,
    calibration: Calibration,
    report: Report,
) -> None:
    model, inputs = job
    expected = model(*inputs)
    image = sum(t.nbytes for t in (*model.parameters(), *model.buffers()))
    pool = 2 * image + 256 * MIB
    outside = ("--standby", "0", "--staging", str(3 * image), "--prefix", "none")
    with (
        Daemon(pool, words=outside) as daemon,
        laneway.connect(daemon.address) as service,
        laneway.inference(model, service=service, sync="manual") as answer,
    ):
        first = [timed(answer, inputs, expected) for _ in range(WARM_UP + 5)][WARM_UP:]
    rate = image / (stats.median(first) * ratio)
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "trace"
        words = (*outside, "--copy-bandwidth", str(int(rate)), "--trace", str(trace))
        with Daemon(pool, words=words) as daemon, laneway.connect(daemon.address) as service:
            took = _measured(service, (model, inputs, expected), trials, calibration)
        carried = transfers(trace)
    _report(case, took, carried, _starts(model, inputs), (image, rate), report)


def _measured(
    service: Any, job: tuple[nn.Module, Any, torch.Tensor], trials: int, calibration: Calibration
) -> dict[str, list[float]]:
    """Seconds of each trial, by variant."""
    model, inputs, expected = job
    target, other = (
        laneway.inference(model, service=service, name=name, sync="manual")
        for name in ("target", "other")
    )
    for _ in range(WARM_UP):
        for answer in (target, other):
            timed(answer, inputs, expected)
    for name in ("target", "other"):  # the first copy out touches the pages outside
        away(service, name)
        service.load(name)
        until(service, name, lambda line: line["state"] == "resident" and is_whole(line))

    def trial(variant: str) -> float:
        calibration.sample()
        if variant == "switch":
            away(service, "target")
        if variant == "interfered":
            away(service, "other")
            residency.ask(service, "load", "other")  # service.load would wait for all of it
            # On its way, or there: a small one is whole before anybody looks.
            until(service, "other", lambda line: line["image"]["pool_bytes"] > 0)
        took = timed(target, inputs, expected)
        for name in ("target", "other"):
            until(service, name, is_whole)
        return took

    variants = ("ready", "switch", "interfered")
    took = paired_trials({name: functools.partial(trial, name) for name in variants}, trials)
    target.close()
    other.close()
    return took


def timed(answer: Any, inputs: Sequence[torch.Tensor], expected: torch.Tensor) -> float:
    started = time.perf_counter()
    given = answer(*inputs)
    took = time.perf_counter() - started
    if not torch.equal(given, expected):
        raise RuntimeError("an answer is not eager's")
    return took


def line_of(service: Any, name: str) -> dict[str, Any]:
    return next(job for job in service.status()["jobs"] if job["name"] == name)


def is_whole(line: dict[str, Any]) -> bool:
    image = line["image"]
    return image["pool_bytes"] > 0 and image["moved_bytes"] is None


def until(service: Any, name: str, wanted: Callable[[dict[str, Any]], bool]) -> None:
    while not wanted(line_of(service, name)):
        time.sleep(0.001)


def away(service: Any, name: str) -> None:
    service.unload(name)
    until(service, name, lambda line: line["state"] == "away")


def transfers(trace: Path) -> list[float]:
    """Seconds from each decision to bring the target's image back to its being whole."""
    reader = daemon_program().parent / "laneway-trace"
    text = subprocess.run([str(reader), str(trace)], check=True, capture_output=True, text=True)
    took, began = [], None
    for at, what, more in ENTRY.findall(text.stdout):
        if what == "PlaceImage":
            began = float(at)
        elif what == "ImagePlaced" and "arriving" not in more and began is not None:
            took.append(float(at) - began)
            began = None
    return took[2:]  # the first bytes, and the first return


def _starts(model: nn.Module, inputs: Sequence[torch.Tensor]) -> list[tuple[float, int]]:
    """Of each leaf module in the order of calls: when it begins, as a share of the whole, and the
    bytes of all state that was used by then."""
    leaves = [m for m in model.modules() if not list(m.children())]
    times: list[list[float]] = []
    order: list[nn.Module] = []
    began = 0.0

    def note(module: nn.Module, _: Any) -> None:
        times[-1].append(time.perf_counter() - began)
        order.append(module)

    hooks = [leaf.register_forward_pre_hook(note) for leaf in leaves]
    shares = []
    for _ in range(TIMED_IN_EAGER):
        times.append([])
        order.clear()
        began = time.perf_counter()
        model(*inputs)
        whole = time.perf_counter() - began
        shares.append([at / whole for at in times[-1]])
    for hook in hooks:
        hook.remove()
    seen: set[int] = set()
    found, used = [], 0
    for number, module in enumerate(order):
        for tensor in (*module.parameters(False), *module.buffers(False)):
            if id(tensor) not in seen:
                seen.add(id(tensor))
                used += tensor.nbytes
        found.append((stats.median([run[number] for run in shares]), used))
    return found


def bound(ready: float, starts: list[tuple[float, int]], image: int, rate: float) -> float:
    """Seconds of the best schedule: no module before its bytes, no answer before the last one."""
    behind = [used / rate + ready * (1 - share) for share, used in starts]
    return max(ready, image / rate, *behind)


def _report(
    case: str,
    took: dict[str, list[float]],
    transfers: list[float],
    starts: list[tuple[float, int]],
    link: tuple[int, float],
    report: Report,
) -> None:
    image, rate = link
    ready, interfered = stats.median(took["ready"]), stats.median(took["interfered"])
    best = bound(ready, starts, image, rate)
    for variant, samples in took.items():
        report.add(case, f"{variant}_ms", stats.median(samples) * 1e3, "ms",
                   samples=[s * 1e3 for s in samples])  # fmt: skip
    report.add(case, "bound_ms", best * 1e3, "ms")
    report.add(case, "transfer_ms", stats.median(transfers) * 1e3, "ms",
               samples=[s * 1e3 for s in transfers])  # fmt: skip
    report.add(case, "whole_ms", (stats.median(transfers) + ready) * 1e3, "ms")
    report.add(case, "rate_MB_per_s", rate / 1e6, "MB/s")
    report.add(case, "interference", interfered / ready - 1, "share")
    rounds = list(zip(took["switch"], took["ready"], took["interfered"], strict=True))
    bounds = [bound(alone, starts, image, rate) for _, alone, _ in rounds]
    excess = [one / least - 1 for (one, _, _), least in zip(rounds, bounds)]
    interval = stats.bootstrap_median(excess)
    report.add(case, "excess", interval.high, "share", samples=excess, median=interval.median)
    beyond = [
        (one - beside + alone) / least - 1 for (one, alone, beside), least in zip(rounds, bounds)
    ]
    interval = stats.bootstrap_median(beyond)
    report.add(case, "excess_beyond_interference", interval.high, "share", EXCESS,
               samples=beyond, median=interval.median)  # fmt: skip
    link_s = image / rate
    reached = [
        (alone + link_s - one) / (alone + link_s - least)
        for (one, alone, _), least in zip(rounds, bounds)
    ]
    interval = stats.bootstrap_median(reached)
    report.add(case, "overlap", interval.low, "share", OVERLAP, samples=reached,
               median=interval.median)  # fmt: skip
