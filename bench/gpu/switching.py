"""switching: what does a request for a model cost whose weights are away? Two models of one kind
take turns in a lanewayd; the one that is asked was sent out of the pool before, all of it
(`switch`) or but for a half (`half_kept`). Beside it, interleaved: the model that is there
(`ready`), and plain PyTorch with the weights in pinned memory: the model that is there; one copy,
then run; a copy a module, for which the module's work waits in its stream (`per_layer`); and what
PipeSwitch, Bai et al., OSDI 2020, does (`emulation`: groups by module, each handed over by another
thread). A request is timed from its inputs in host memory to its answer there; answers are compared
with those of a model that never left.

`bound` is the longer one of copying all bytes at the link's rate and of the ready model's request,
both of the same round: no schedule is faster."""

from __future__ import annotations

import copy
import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from .. import stats
from ..daemon import Daemon
from ..report import at_least, at_most
from ..switching import MODELS
from . import laneway_device, placing
from .section import Section

CASES = ("resnet152", "bert_base")
QUICK_CASE = "bert_base"
WARM_UP = 6
EXCESS_MS = at_most(0.3)
OF_LINK = at_least(0.8)
LARGE_BYTES = 1 << 30
QUICK_BYTES = 64 << 20
MIB = 1 << 20


def cases() -> list[str]:
    return [*CASES, "image"]


def run(section: Section, only: tuple[str, ...] = (), trials: int = 20) -> None:
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    for name in (QUICK_CASE,) if section.settings.quick else CASES:
        if (only and name not in only) or not section.fits(6, name):
            continue
        with section.attempt(name, "switch_ms", "ms"):
            _measure(section, name, 3 if section.settings.quick else trials)
    if (not only or "image" in only) and section.fits(4, "image"):
        with section.attempt("image", "returning_gb_per_s", "GB/s"):
            _move_images(section, 2 if section.settings.quick else 5)


@torch.no_grad()
def _measure(section: Section, name: str, rounds: int) -> None:
    jobs = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        model, inputs = MODELS[name]()
        jobs.append((model.eval(), inputs))
    size = sum(p.nbytes for p in (*jobs[0][0].parameters(), *jobs[0][0].buffers()))
    pool = 2 * size + laneway_device.WORKSPACES
    expected = [model(*inputs).cpu() for model, inputs in _on(jobs, section)]
    samples = {}
    for way, prefix in (("switch", "none"), ("half_kept", "50%")):
        if samples and not section.fits(8, f"{name}, {way}"):
            break
        with _service(section, pool, 3 * size, prefix) as service:
            turns = _Turns(service, _jobs(service, name, jobs), [inputs for _, inputs in jobs])
            ways: dict[str, Callable[[], Any]] = {way: turns.switch}
            if not samples:
                ways["ready"] = turns.ask
                if section.settings.cuda:
                    ways |= _plain_ways(jobs[0], section.settings.device)
            for _ in range(WARM_UP):
                turns.send_next_away()
                for call in ways.values():
                    call()
            samples |= _rounds(section, turns, ways, rounds, size)
            for number in (0, 1):
                turns.send_next_away()
                answer = turns.switch()
                same = torch.allclose(answer, expected[turns.now], rtol=1e-3, atol=1e-3)
                section.test(name, f"{way}_answer_{number}_is_eagers", bool(same))
    _add(section, name, samples, size)


@contextmanager
def _service(section: Section, pool: int, staging: int, prefix: str) -> Iterator[Any]:
    import laneway

    words = laneway_device.daemon_words(section.settings.device)
    words += ["--standby", "0", "--staging", str(staging), "--prefix", prefix]
    with Daemon(pool, words=words) as daemon, laneway.connect(daemon.address) as service:
        yield service


def _jobs(service: Any, name: str, jobs: list[Any]) -> list[Any]:
    import laneway

    return [
        laneway.inference(model, service=service, name=f"{name}-{number}")
        for number, (model, _) in enumerate(jobs)
    ]


class _Turns:
    """Which of two jobs is asked."""

    def __init__(self, service: Any, jobs: list[Any], inputs: list[Any]) -> None:
        self.now = 0
        self._service, self._jobs, self._inputs = service, jobs, inputs
        for _ in jobs:  # both have their jobs
            self.switch()

    def send_next_away(self) -> None:
        self._service.unload(self._jobs[1 - self.now].name)

    def switch(self) -> Any:
        self.now = 1 - self.now
        return self.ask()

    def ask(self) -> Any:
        return self._jobs[self.now](*self._inputs[self.now])


def _on(jobs: list[Any], section: Section) -> Iterator[tuple[nn.Module, list[torch.Tensor]]]:
    device = section.settings.plain_device
    for model, inputs in jobs:
        yield copy.deepcopy(model).to(device), [tensor.to(device) for tensor in inputs]


def _rounds(
    section: Section, turns: _Turns, ways: dict[str, Callable[[], Any]], rounds: int, size: int
) -> dict[str, list[float]]:
    """Milliseconds of each way, round by round, and of copying as many bytes."""
    samples: dict[str, list[float]] = {way: [] for way in ways}
    cuda = section.settings.cuda and "ready" in ways
    if cuda:
        samples["copy"] = []
        pinned = torch.empty(size, dtype=torch.uint8, pin_memory=True).fill_(1)
        there = torch.empty(size, dtype=torch.uint8, device=section.settings.device)
    for number in range(rounds):
        section.calibration.sample()
        started = time.monotonic()
        turns.send_next_away()
        for way, call in ways.items():
            begun = time.perf_counter()
            call()
            samples[way].append((time.perf_counter() - begun) * 1e3)
        if cuda:
            torch.cuda.synchronize()
            begun = time.perf_counter()
            there.copy_(pinned, non_blocking=True)
            torch.cuda.synchronize()
            samples["copy"].append((time.perf_counter() - begun) * 1e3)
        if number > 1 and section.left() < 6 + 2 * (time.monotonic() - started):
            break
    return samples


def _plain_ways(job: Any, device: str) -> dict[str, Callable[[], Any]]:
    """Plain PyTorch with its weights in one pinned buffer."""
    model, inputs = job
    there = copy.deepcopy(model).to(device)
    tensors = [*there.parameters(), *there.buffers()]
    offsets, total = [], 0
    for tensor in tensors:
        offsets.append(total)
        total += -(-tensor.nbytes // 512) * 512
    pinned = torch.empty(total, dtype=torch.uint8, pin_memory=True)
    flat = torch.empty(total, dtype=torch.uint8, device=device)
    for tensor, at in zip(tensors, offsets, strict=True):
        flat[at : at + tensor.nbytes].copy_(tensor.detach().reshape(-1).view(torch.uint8))
        view = flat[at : at + tensor.nbytes].view(tensor.dtype).view(tensor.shape)
        tensor.data = view
    pinned.copy_(flat)
    ready = [tensor.pin_memory() for tensor in inputs]

    @torch.no_grad()
    def run() -> torch.Tensor:
        return there(*(tensor.to(device, non_blocking=True) for tensor in ready)).cpu()

    def copied() -> torch.Tensor:
        flat.copy_(pinned, non_blocking=True)
        return run()

    groups = _Groups(there, tensors, offsets, pinned, flat)
    return {
        "plain_ready": run,
        "plain_copy_then_run": copied,
        "per_layer": lambda: groups.without_messages(run),
        "emulation": lambda: groups.handed_over(run),
    }


class _Groups:
    """The parameters of a model by module, each group with a copy of its own.

    `handed_over`, PipeSwitch as it was released: a thread copies group by group and hands each over
    by a message; the model waits at the module for its message, and then for the copy.
    `without_messages`: all copies are enqueued first, and the module's stream waits for its own."""

    def __init__(
        self,
        model: nn.Module,
        tensors: list[torch.Tensor],
        offsets: list[int],
        pinned: torch.Tensor,
        flat: torch.Tensor,
    ) -> None:
        place = {
            id(tensor): (at, tensor.nbytes) for tensor, at in zip(tensors, offsets, strict=True)
        }
        self._pinned, self._flat = pinned, flat
        self._groups: list[list[tuple[int, int]]] = []
        self._messages: queue.SimpleQueue[torch.cuda.Event] = queue.SimpleQueue()
        self._events: dict[nn.Module, torch.cuda.Event] = {}
        self._modules: list[nn.Module] = []
        self._stream = torch.cuda.Stream()
        self._takes_messages = False
        for module in model.modules():
            own = [*module.parameters(recurse=False), *module.buffers(recurse=False)]
            parts = [place[id(tensor)] for tensor in own if id(tensor) in place and tensor.nbytes]
            if parts:
                self._groups.append(parts)
                self._modules.append(module)
                module.register_forward_pre_hook(self._wait)

    def _wait(self, module: nn.Module, inputs: Any) -> None:
        if self._takes_messages:
            self._messages.get().synchronize()
        elif (event := self._events.pop(module, None)) is not None:
            torch.cuda.current_stream().wait_event(event)

    def _copies(self) -> Iterator[torch.cuda.Event]:
        with torch.cuda.stream(self._stream):
            for parts in self._groups:
                for at, size in parts:
                    self._flat[at : at + size].copy_(
                        self._pinned[at : at + size], non_blocking=True
                    )
                event = torch.cuda.Event()
                event.record()
                yield event

    def without_messages(self, run: Callable[[], torch.Tensor]) -> torch.Tensor:
        self._events = dict(zip(self._modules, self._copies(), strict=True))
        try:
            return run()
        finally:
            self._events = {}

    def _send(self) -> None:
        for event in self._copies():
            self._messages.put(event)

    def handed_over(self, run: Callable[[], torch.Tensor]) -> torch.Tensor:
        self._takes_messages = True
        copier = threading.Thread(target=self._send)
        copier.start()
        try:
            return run()
        finally:
            copier.join()
            self._takes_messages = False
            while not self._messages.empty():  # of modules that the model does not call
                self._messages.get()


def _add(section: Section, name: str, samples: dict[str, list[float]], size: int) -> None:
    section.add(name, "image_mib", size / MIB, "MiB")
    for way, times in samples.items():
        note = f"p99 {stats.percentile(times, 99):.2f} ms, {len(times)} rounds"
        section.add(name, f"{way}_ms", stats.median(times), "ms", samples=times, note=note)
    if "copy" not in samples:
        return
    excess = [
        switch - max(copy, ready)
        for switch, copy, ready in zip(
            samples["switch"], samples["copy"], samples["ready"], strict=True
        )
    ]
    section.add(name, "excess_ms", stats.median(excess), "ms", EXCESS_MS, excess, "over the bound")
    for way in ("plain_copy_then_run", "per_layer", "emulation"):
        over = [
            other - max(copy, ready)
            for other, copy, ready in zip(
                samples[way], samples["copy"], samples["plain_ready"], strict=True
            )
        ]
        section.add(name, f"{way}_excess_ms", stats.median(over), "ms", samples=over)


def _move_images(section: Section, rounds: int) -> None:
    """An image alone, out and back, by command; over a pinned copy of as many bytes."""
    import laneway

    size = QUICK_BYTES if section.settings.quick else LARGE_BYTES
    device = section.settings.device
    weight = placing.Weight(size)
    rates: dict[str, list[float]] = {"leaving": [], "returning": []}
    with laneway_device.embedded(device, pool=4 * size + 256 * MIB, staging=2 * size) as service:
        optimizer = torch.optim.SGD(weight.parameters(), lr=0.0)
        with laneway.train_step(weight, None, optimizer, service=service, name="large") as step:
            for number in range(rounds + 1):
                step(torch.ones(1024))  # its copy outside is out of date
                for way, move in (("leaving", service.unload), ("returning", service.load)):
                    begun = time.perf_counter()
                    move("large")
                    took = time.perf_counter() - begun
                    if number:  # first its memory outside is made and pinned
                        rates[way].append(size / took / 1e9)
    link = _link_rates(size, device) if section.settings.cuda else {}
    for way, found in rates.items():
        rate = stats.median(found)
        section.add("image", f"{way}_gb_per_s", rate, "GB/s", samples=found, note="embedded")
        if link:
            section.add("image", f"{way}_over_link", rate / link[way], "", OF_LINK)


def _link_rates(size: int, device: str) -> dict[str, float]:
    pinned = torch.empty(size, dtype=torch.uint8, pin_memory=True).fill_(1)
    there = torch.empty(size, dtype=torch.uint8, device=device)
    rates = {}
    for way, to, source in (("leaving", pinned, there), ("returning", there, pinned)):
        times = []
        for _ in range(4):
            torch.cuda.synchronize(device)
            begun = time.perf_counter()
            to.copy_(source, non_blocking=True)
            torch.cuda.synchronize(device)
            times.append(time.perf_counter() - begun)
        rates[way] = size / stats.median(times[1:]) / 1e9
    return rates
