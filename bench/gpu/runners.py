"""Ways to run a training step on a GPU: plain PyTorch at its best, and Laneway. As in
bench/runners.py, an iteration begins with its batch in host memory and ends with its loss readable
there.

At its best, plain PyTorch has its batches in pinned memory and copies them without waiting. The
`_ahead` forms keep two iterations under way, as Laneway's `_inflight2` do: a loss goes to pinned
memory in the order of the stream, and is read when its event is done, after the next iteration was
launched; reading it with item() would wait for that one as well."""

from __future__ import annotations

import time
from collections import deque
from typing import Any, ClassVar

import torch

from ..daemon import Daemon
from ..models import Batch, Workload, arguments
from ..runners import Batches, Eager, Embedded, EmbeddedInFlight, Inductor, Runner
from . import laneway_device


class PlainOnDevice(Eager):
    """Eager PyTorch, model and optimizer on the device; a loss is read before the next step."""

    def __init__(self, work: Workload, device: str) -> None:
        self.device = torch.device(device)
        # Plain PyTorch runs where torch sees a device: see Settings.plain_device.
        self.is_cuda = self.device.type == "cuda"
        work.model.to(self.device)  # in place: the optimizer holds these parameters
        super().__init__(work)

    def run(self, batches: Batches) -> list[int]:
        clock, times = time.perf_counter_ns, []
        for batch in batches:
            start = clock()
            self.iteration(batch).item()
            times.append(clock() - start)
        return times

    def iteration(self, batch: Batch) -> torch.Tensor:
        """Launches one; its loss, on the device."""
        inputs, named = arguments(batch)
        inputs = [tensor.to(self.device, non_blocking=True) for tensor in inputs]
        named = {n: tensor.to(self.device, non_blocking=True) for n, tensor in named.items()}
        self.work.optimizer.zero_grad(set_to_none=True)
        loss = self.loss(*inputs, **named)
        loss.backward()
        self.update()
        return loss

    def ready(self, batches: Batches) -> list[Batch]:
        """The batches in memory that the device copies from without waiting."""
        if not self.is_cuda:
            return list(batches)
        return [
            {name: tensor.pin_memory() for name, tensor in batch.items()}
            if isinstance(batch, dict)
            else tuple(tensor.pin_memory() for tensor in batch)
            for batch in batches
        ]


class PlainAhead(PlainOnDevice):
    """The same with two iterations under way; an iteration's time is that between two losses."""

    AHEAD = 2

    def run(self, batches: Batches) -> list[int]:
        if not self.is_cuda:
            return super().run(batches)
        losses = [torch.zeros((), pin_memory=True) for _ in range(self.AHEAD)]
        events = [torch.cuda.Event() for _ in range(self.AHEAD)]
        clock, times = time.perf_counter_ns, []
        pending: deque[int] = deque()
        last = clock()

        def read_oldest() -> None:
            nonlocal last
            slot = pending.popleft()
            events[slot].synchronize()
            losses[slot].item()
            now = clock()
            times.append(now - last)
            last = now

        for number, batch in enumerate(batches):
            if len(pending) == self.AHEAD:
                read_oldest()
            slot = number % self.AHEAD
            losses[slot].copy_(self.iteration(batch).detach(), non_blocking=True)
            events[slot].record()
            pending.append(slot)
        while pending:
            read_oldest()
        return times


class CompiledOnDevice(PlainOnDevice, Inductor):
    """torch.compile as it comes: recurrent layers stay calls of their library."""

    UNROLLS_RNN = False


class CudaGraphs(CompiledOnDevice):
    """torch.compile with CUDA graphs."""

    OPTIONS: ClassVar[dict[str, Any]] = {"mode": "reduce-overhead"}

    def iteration(self, batch: Batch) -> torch.Tensor:
        torch.compiler.cudagraph_mark_step_begin()  # what the last one gave may be overwritten
        return super().iteration(batch)


class EmbeddedOnDevice(Embedded):
    """Laneway in this process on the device, alone in its lane."""

    def __init__(self, work: Workload, device: str, replay: str = "auto") -> None:
        self.device, self.replay = device, replay
        super().__init__(work)

    def _open(self) -> Any:
        pool = laneway_device.pool_on_device(self.work)
        return laneway_device.embedded(self.device, pool, lanes=1)

    def _make_step(self) -> Any:
        return laneway_device.train_step(self.work, self.service, replay=self.replay)


class EmbeddedInFlightOnDevice(EmbeddedOnDevice):
    """Two iterations under way."""

    run = EmbeddedInFlight.run
    IN_FLIGHT = EmbeddedInFlight.IN_FLIGHT


class ServiceOnDevice(EmbeddedOnDevice):
    """The same through a lanewayd of its own on the device."""

    def _open(self) -> Any:
        import laneway

        pool = laneway_device.pool_on_device(self.work)
        words = laneway_device.daemon_words(self.device)
        self._daemon = Daemon(pool, words=[*words, "--standby", "0"])
        try:
            return laneway.connect(self._daemon.address)
        except BaseException:
            self._daemon.__exit__()
            raise

    def close(self) -> None:
        try:
            super().close()
        finally:
            self._daemon.__exit__()


class ClientOnDevice(EmbeddedOnDevice):
    """A client of the lanewayd of the environment, which others use too."""

    def _open(self) -> Any:
        import laneway

        return laneway.connect()


class ClientInFlightOnDevice(ClientOnDevice):
    """Two iterations under way."""

    run = EmbeddedInFlight.run
    IN_FLIGHT = EmbeddedInFlight.IN_FLIGHT


# Those of plain PyTorch run where torch sees the device.
PLAIN: dict[str, type[PlainOnDevice]] = {
    "eager": PlainOnDevice,
    "eager_ahead": PlainAhead,
    "compiled": CompiledOnDevice,
    "graphs": CudaGraphs,
}
# name -> (class, what else it is made with)
LANEWAY: dict[str, tuple[type[EmbeddedOnDevice], dict[str, str]]] = {
    "embedded": (EmbeddedOnDevice, {}),
    "embedded_plain": (EmbeddedOnDevice, {"replay": "off"}),
    "embedded_replay": (EmbeddedOnDevice, {"replay": "on"}),
    "embedded_inflight2": (EmbeddedInFlightOnDevice, {}),
    "embedded_inflight2_plain": (EmbeddedInFlightOnDevice, {"replay": "off"}),
    "service": (ServiceOnDevice, {}),
    "client": (ClientOnDevice, {}),
    "client_inflight2": (ClientInFlightOnDevice, {}),
}


def make_on_device(name: str, work: Workload, device: str) -> Runner:
    """The runner `name`; of plain PyTorch's, `device` is torch's name for it."""
    if name in PLAIN:
        return PLAIN[name](work, device)
    made, more = LANEWAY[name]
    return made(work, device, **more)
