"""Ways to run the training steps of a workload; what the overhead bench compares.

Each is built from a workload and runs lists of batches. Setting up (compiling, capturing) happens
in the constructor; `run` returns the time of every iteration in nanoseconds."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable
from typing import Any, ClassVar, Protocol

import torch

from .daemon import Daemon
from .models import Batch, Workload, arguments, make, pool_for
from .state import training_state

Batches = Iterable[Batch]


class Runner(Protocol):
    def ready(self, batches: Batches) -> list[Batch]:
        """The batches in the memory that suits the runner; done before the clock runs."""

    def run(self, batches: Batches) -> list[int]:
        """Trains on the batches; the time of each iteration, its loss readable at the end of it."""

    def state(self) -> dict[str, torch.Tensor]:
        """Parameters, buffers and optimizer state by name."""

    def about(self) -> dict[str, Any]:
        """What set-up found out, for the report: "notes" and, where it took time, "setup_s"."""

    def close(self) -> None: ...


class Eager:
    """Plain PyTorch, written the way that costs least: gradients set to none, one read a step."""

    def __init__(self, work: Workload) -> None:
        self.work = work
        self.loss = self._loss = work.loss_of()
        self.update = work.optimizer.step

    def ready(self, batches: Batches) -> list[Batch]:
        return list(batches)

    def run(self, batches: Batches) -> list[int]:
        optimizer, loss_of, update = self.work.optimizer, self.loss, self.update
        clock, times = time.perf_counter_ns, []
        for inputs, named in map(arguments, batches):
            start = clock()
            optimizer.zero_grad(set_to_none=True)
            loss = loss_of(*inputs, **named)
            loss.backward()
            update()
            loss.item()
            times.append(clock() - start)
        return times

    def state(self) -> dict[str, torch.Tensor]:
        return training_state(self.work.model.state_dict(), self.work.optimizer.state_dict())

    def about(self) -> dict[str, Any]:
        return {"notes": []}

    def close(self) -> None:
        pass


class Inductor(Eager):
    """torch.compile with inductor: forward, loss and backward as one graph each way (or as many as
    it needs where one does not build), and the optimizer compiled as well where that is faster.
    Raises RuntimeError when it makes no graph."""

    OPTIONS: ClassVar[dict[str, Any]] = {}  # of torch.compile
    UNROLLS_RNN = True

    def __init__(self, work: Workload) -> None:
        super().__init__(work)
        self._compile()

    def _compile(self) -> None:
        work = self.work
        started = time.perf_counter()
        trial = self.ready(work.batch(i) for i in range(10))
        self.graphs = self._compile_loss(trial[:3])
        plain = min(self.run(trial))
        self.compiled_optimizer = self._try_compiled_optimizer(trial, plain)
        self.setup_s = time.perf_counter() - started

    def _compile_loss(self, trial: list[Batch]) -> str:
        import torch._dynamo as dynamo

        # Without allow_rnn nn.LSTM stays eager, and nothing says so; with it, it may not build.
        dynamo.config.allow_rnn = self.UNROLLS_RNN
        self.loss = torch.compile(self._loss, fullgraph=True, **self.OPTIONS)
        try:
            self.run(trial)
            return "one graph"
        except Exception as error:  # whatever the compiler throws
            dynamo.reset()
            dynamo.utils.counters.clear()
            dynamo.config.allow_rnn = False
            self.loss = torch.compile(self._loss, **self.OPTIONS)
            self.run(trial)
            if not dynamo.utils.counters["stats"]["unique_graphs"]:
                raise RuntimeError("torch.compile makes no graph of this step") from error
            return "broken into several graphs"

    def _try_compiled_optimizer(self, trial: list[Batch], plain_ns: int) -> bool:
        self.update = torch.compile(self.work.optimizer.step, **self.OPTIONS)
        try:
            self.run(trial[:3])
            if min(self.run(trial)) < plain_ns:
                return True
        except Exception:  # whatever the compiler throws: the plain optimizer stays
            pass
        self.update = self.work.optimizer.step
        return False

    def about(self) -> dict[str, Any]:
        optimizer = "compiled" if self.compiled_optimizer else "plain"
        return {"setup_s": self.setup_s, "notes": [self.graphs, f"{optimizer} optimizer"]}


class Embedded:
    """Laneway in this process; a step is called and its loss read before the next one."""

    def __init__(self, work: Workload) -> None:
        self.work = work
        started = time.perf_counter()
        self.service = self._open()
        self.step = self._make_step()
        inputs, named = arguments(work.batch(0))
        self.step.prepare(*inputs, **named)
        self.setup_s = time.perf_counter() - started

    def _open(self) -> Any:
        import laneway

        return laneway.embedded(pool=pool_for(self.work), lanes=1)

    def _make_step(self) -> Any:
        import laneway

        work = self.work
        return laneway.train_step(
            work.model, work.loss_fn, work.optimizer, service=self.service, name=work.name
        )

    def ready(self, batches: Batches) -> list[Batch]:
        return list(batches)

    def run(self, batches: Batches) -> list[int]:
        step, clock, times = self.step, time.perf_counter_ns, []
        for inputs, named in map(arguments, batches):
            start = clock()
            step(*inputs, **named).item()
            times.append(clock() - start)
        return times

    def state(self) -> dict[str, torch.Tensor]:
        state = self.step.state_dict()
        return training_state(state["model"], state["optimizer"])

    def about(self) -> dict[str, Any]:
        return {"setup_s": self.setup_s, "notes": []}

    def report(self, with_tapes: bool = False) -> dict[str, Any]:
        """What the service says about the job: bytes, plans, addresses."""
        return self.service.job_report(self.work.name, with_tapes)

    def close(self) -> None:
        self.step.close()
        self.service.close()


class EagerBesideEmbedded(Eager):
    """Plain PyTorch while an embedded service is open that has run a job and is idle now."""

    WARM_UP = 5  # iterations of the job: on the lane's thread first, then on this one

    def __init__(self, work: Workload) -> None:
        # The job trains a workload of its own and leaves the generator as it was, so that what is
        # measured ends with the bits of eager alone.
        with torch.random.fork_rng(devices=[]):
            self._embedded = Embedded(make(work.name))
            self._embedded.run([work.batch(0)] * self.WARM_UP)
        super().__init__(work)

    def close(self) -> None:
        self._embedded.close()


class EmbeddedInFlight(Embedded):
    """Laneway with two iterations under way: a loss is read when its iteration is done, after the
    next was submitted. An iteration's time is that between two losses."""

    IN_FLIGHT = 2

    def run(self, batches: Batches) -> list[int]:
        submit, clock, times = self.step.submit, time.perf_counter_ns, []
        pending: deque = deque()
        last = clock()
        for inputs, named in map(arguments, batches):
            if len(pending) == self.IN_FLIGHT:
                pending.popleft().result().item()
                now = clock()
                times.append(now - last)
                last = now
            pending.append(submit(*inputs, **named))
        while pending:
            pending.popleft().result().item()
            now = clock()
            times.append(now - last)
            last = now
        return times


class Service(Embedded):
    """The same through a lanewayd of its own, which this process starts and stops."""

    def _open(self) -> Any:
        import laneway

        self._daemon = Daemon(pool_for(self.work))
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


class ServiceInFlight(Service):
    """Two iterations under way through a lanewayd."""

    run = EmbeddedInFlight.run
    IN_FLIGHT = EmbeddedInFlight.IN_FLIGHT
