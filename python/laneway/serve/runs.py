"""What of a model waits, and what of it runs: requests to iterations, and back."""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Callable

from laneway.serve import batch, limits
from laneway.serve.batch import Ask, Waiting
from laneway.serve.counts import Counts
from laneway.serve.link import Link
from laneway.serve.native_job import Graph, Iteration, NativeJob
from laneway.serve.problem import Problem
from laneway.serve.quick import Quick
from laneway.serve.spec import Shapes, Spec
from laneway.serve.tensors import Tensor

TAKEN = "the model was taken from the service"


class Runs:
    """Belongs to the event loop. `job` and `graphs` are what there is to run; requests are taken of
    the `kinds` of shapes of which every form is there. `told` says what an error of a job means."""

    def __init__(
        self,
        spec: Spec,
        counts: Counts,
        link: Link,
        told: Callable[[BaseException, NativeJob], Problem],
    ) -> None:
        self._spec, self._counts, self._link, self._told = spec, counts, link, told
        self.job: NativeJob | None = None
        self.graphs: dict[Shapes, Graph] = {}
        self.kinds: set[Shapes] = set()
        self._waiting = Waiting()
        self._in_flight = 0
        self._pumps = False  # whether it is about to
        self._quick = Quick()
        self._timer: asyncio.TimerHandle | None = None

    def has(self, shapes: Shapes) -> bool:
        """Whether a request of these shapes can run."""
        return batch.kind(self._spec, shapes) in self.kinds

    def leave(self) -> NativeJob | None:
        """The job, which is gone for the requests: what waited for it would wait until somebody
        asks for a new one."""
        job, self.job, self.graphs, self.kinds = self.job, None, {}, set()
        self.send_away(TAKEN)
        return job

    def send_away(self, why: str) -> None:
        """Of all that waits and has not begun."""
        for ask in self._waiting.take_all():
            fail(ask, Problem(503, why, limits.RETRY_S))

    def asked(self, inputs: list[Tensor]) -> Ask | None:
        """The request in the queue, perhaps answered already; None without a form for it."""
        shapes = tuple(tensor.shape for tensor in inputs)
        if not self.has(shapes):
            return None
        loop = asyncio.get_running_loop()
        ask = Ask(shapes, [tensor.data for tensor in inputs], loop.create_future())
        self._waiting.add(ask)
        if self._spec.batched():
            self._pump_soon()  # what has come together goes together
        else:
            self._pump()
        return ask

    def drop(self, ask: Ask) -> None:
        """Its caller has gone, or its time has passed."""
        ask.gone = True
        self._waiting.remove(ask)
        together = ask.iteration
        if together is not None and all(one.gone for one in together[1]):
            together[0].gone = True

    def _pump_soon(self) -> None:
        """Starts what may run when all that is ready now has been looked at."""
        if not self._pumps:
            self._pumps = True
            asyncio.get_running_loop().call_soon(self._pump)

    def _pump(self) -> None:
        """Starts what may run now."""
        self._pumps = False
        while self._waiting and self._in_flight < limits.IN_FLIGHT and self.job is not None:
            if self._waits_for_more():
                return
            asks = self._waiting.take(self._spec)
            rows = sum(ask.rows for ask in asks) if self._spec.batched() else 0
            shapes = asks[0].shapes
            if self._spec.batched():
                rows = batch.form_rows(rows, self._spec.max_batch)
                shapes = batch.with_rows(shapes, rows)
            graph = self.graphs.get(shapes)
            if graph is None:  # the job was lost, or the form dropped, since it asked
                for ask in asks:
                    fail(ask, Problem(503, TAKEN, limits.RETRY_S))
                continue
            given = batch.joined(asks, rows) if self._spec.batched() else asks[0].data
            iteration = Iteration(self.job, graph, graph.inputs(given))
            for ask in asks:
                ask.iteration = (iteration, asks)
                self._counts.queue.add(time.perf_counter_ns() - ask.since_ns)
            start = time.perf_counter_ns()
            if self._in_flight == 0 and self._quick.at_once(graph, iteration):
                self._ended(start, iteration, graph, asks, rows)
                if self._waiting:
                    self._pump_soon()
                return
            self._in_flight += 1
            self._link.waiters.over(iteration).add_done_callback(
                functools.partial(self._ended_apart, start, iteration, graph, asks, rows)
            )

    def _waits_for_more(self) -> bool:
        """Whether the next batch is not full and may still wait; then a timer starts it."""
        delay_ns = self._spec.max_delay_us * 1000
        if not delay_ns or self._waiting.rows(self._spec) >= self._spec.max_batch:
            return False
        left_ns = self._waiting.oldest_ns() + delay_ns - time.perf_counter_ns()
        if left_ns <= 0:
            return False
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(left_ns / 1e9, self._on_timer)
        return True

    def _on_timer(self) -> None:
        self._timer = None
        self._pump()

    def _ended_apart(
        self,
        start: int,
        iteration: Iteration,
        graph: Graph,
        asks: list[Ask],
        rows: int,
        over: asyncio.Future[None],
    ) -> None:
        """A thread has waited for it."""
        self._in_flight -= 1
        self._quick.took(graph, time.perf_counter_ns() - start)
        self._ended(start, iteration, graph, asks, rows, over.exception())
        self._pump()

    def _ended(
        self,
        start: int,
        iteration: Iteration,
        graph: Graph,
        asks: list[Ask],
        rows: int,
        error: BaseException | None = None,
    ) -> None:
        taken_ns = time.perf_counter_ns() - start
        self._counts.compute.add(taken_ns)
        for ask in asks:
            ask.iteration = None
        error = error or iteration.failed
        if error is None and not iteration.gone:
            self._answer(iteration, graph, asks, rows)
            answered = sum(ask.rows for ask in asks) if self._spec.batched() else 1
            self._counts.ran(answered, taken_ns, time.time_ns() // 1_000_000)
        elif error is not None:
            problem = self._told(error, iteration.job)
            for ask in asks:
                fail(ask, problem)

    def _answer(self, iteration: Iteration, graph: Graph, asks: list[Ask], rows: int) -> None:
        chosen = [iteration.outputs[index] for index in graph.form.outputs]
        shapes = [graph.form.every[index][1] for index in graph.form.outputs]
        every = batch.divided(asks, chosen, rows) if self._spec.batched() else [chosen]
        for ask, data in zip(asks, every):
            if not ask.answer.done():
                own = [(ask.rows, *s[1:]) for s in shapes] if self._spec.batched() else shapes
                ask.answer.set_result((own, data))


def fail(ask: Ask, problem: Problem) -> None:
    """Answers it so, unless it was answered."""
    if not ask.answer.done():
        ask.answer.set_exception(problem)
