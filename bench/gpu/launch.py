"""launch: what do an operator, a context and a first step cost? An operator: by the difference of
two chains of them, in eager PyTorch and as nodes of Laneway's graph. The rest in fresh
processes."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable

import torch

from .. import stats
from ..report import ROOT
from . import laneway_device
from .section import Section

SHORT, LONG = 20, 420  # operators in a chain
FRESH_TIMEOUT_S = 60.0


class Chain(torch.nn.Module):
    """`count` additions to a small tensor, each a kernel of its own."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count
        self.weight = torch.nn.Parameter(torch.ones(64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(self.count):
            x = torch.add(x, self.weight)
        return x


def cases() -> list[str]:
    return ["operator", "first"]


def run(section: Section, only: tuple[str, ...] = (), trials: int = 30) -> None:
    trials = 5 if section.settings.quick else trials
    if not only or "operator" in only:
        _operators(section, trials)
    if not only or "first" in only:
        _first_times(section)


def _operators(section: Section, trials: int) -> None:
    device = section.settings.plain_device
    with torch.no_grad():
        calls = {count: _eager(Chain(count), device) for count in (SHORT, LONG)}
        _report(section, "eager_us", _per_operator(calls, trials), "until its result is read")
        if section.settings.cuda:
            _report(section, "eager_launch_us", _launch_only(device, trials), "no wait")
        with (
            section.attempt("operator", "embedded_us", "us"),
            laneway_device.embedded(section.settings.device, pool=64 << 20, lanes=1) as service,
        ):
            calls = {count: _embedded(Chain(count), service) for count in (SHORT, LONG)}
            samples = _per_operator(calls, trials)
            _report(section, "embedded_us", samples, "until its result is read")


def _report(section: Section, metric: str, samples: list[float], note: str) -> None:
    section.calibration.sample()
    value = stats.median(samples)
    section.add("operator", metric, value, "us", samples=samples, note=note)


def _eager(model: Chain, device: str) -> Callable[[], object]:
    model.to(device)
    x = torch.zeros(64, device=device)
    return lambda: model(x).cpu()


def _embedded(model: Chain, service: object) -> Callable[[], object]:
    import laneway

    predict = laneway.inference(model, service=service, name=f"chain{model.count}")
    x = torch.zeros(64)
    return lambda: predict(x)


def _per_operator(calls: dict[int, Callable[[], object]], trials: int) -> list[float]:
    """Microseconds an operator, trial by trial."""
    for call in calls.values():
        for _ in range(5):
            call()
    samples = []
    for _ in range(trials):
        times = {}
        for count, call in calls.items():
            started = time.perf_counter()
            call()
            times[count] = time.perf_counter() - started
        samples.append((times[LONG] - times[SHORT]) / (LONG - SHORT) * 1e6)
    return samples


def _launch_only(device: str, trials: int) -> list[float]:
    """Microseconds until eager PyTorch has handed over an operator, the device being idle."""
    model = Chain(LONG).to(device)
    x = torch.zeros(64, device=device)
    samples = []
    with torch.no_grad():
        for _ in range(trials + 3):
            torch.cuda.synchronize(device)
            started = time.perf_counter()
            model(x)
            samples.append((time.perf_counter() - started) / LONG * 1e6)
    return samples[3:]


# What a fresh process does first; each prints {name: seconds}.
FRESH = {
    "plain": """
import json, sys, time
def now(): return time.perf_counter()
t0 = now(); import torch; t1 = now()
x = torch.zeros(1, device=sys.argv[1]); x.cpu(); t2 = now()
from bench.gpu.runners import make_on_device
from bench.models import make
t3 = now(); runner = make_on_device("eager", make("mlp"), sys.argv[1])
batches = runner.ready([runner.work.batch(0)])
t4 = now(); runner.run(batches); t5 = now(); runner.run(batches)
t6 = now()
print(json.dumps({"import_torch_s": t1 - t0, "context_s": t2 - t1, "plain_first_step_s": t5 - t4,
                  "plain_second_step_s": t6 - t5}))
""",
    "laneway": """
import json, sys, time
def now(): return time.perf_counter()
import torch
from bench.gpu import laneway_device
from bench.models import make
work = make("mlp"); batch = work.batch(0)
import laneway
from laneway.native import bindings
t0 = now(); bindings.embedded_library(); t1 = now()
service = laneway_device.embedded(sys.argv[1], pool=256 << 20); t2 = now()
step = laneway_device.train_step(work, service)
step(*batch).item(); t3 = now(); step(*batch).item(); t4 = now()
service.close(); t5 = now()
print(json.dumps({"library_load_s": t1 - t0, "open_s": t2 - t1, "laneway_first_step_s": t3 - t2,
                  "laneway_second_step_s": t4 - t3, "close_s": t5 - t4}))
""",
}


def _first_times(section: Section) -> None:
    devices = {"plain": section.settings.plain_device, "laneway": section.settings.device}
    for name, code in FRESH.items():
        if not section.fits(5 if section.settings.cuda else 0, f"first times of {name}"):
            continue
        try:
            done = subprocess.run(
                [sys.executable, "-c", code, devices[name]],
                capture_output=True,
                text=True,
                cwd=ROOT,
                timeout=FRESH_TIMEOUT_S if not section.settings.cuda else max(5, section.left()),
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            section.add("first", name, None, "s", note=str(error)[:200])
            continue
        if done.returncode != 0:
            said = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
            section.add("first", name, None, "s", note=f"it ended with {done.returncode}: {said}")
            continue
        for metric, seconds in json.loads(done.stdout.splitlines()[-1]).items():
            section.add("first", metric, seconds, "s")
