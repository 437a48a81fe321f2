"""One version of a model: from its folder to a job. Its requests are in runs.py."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from laneway import errors
from laneway.serve import batch, limits
from laneway.serve.batch import Ask
from laneway.serve.counts import Counts
from laneway.serve.kserve import Known
from laneway.serve.link import Link
from laneway.serve.making import Form, Making, Plan
from laneway.serve.native_job import Graph, NativeJob, Placing
from laneway.serve.problem import Problem, of_service
from laneway.serve.repository import Facts
from laneway.serve.runs import TAKEN, Runs
from laneway.serve.spec import Shapes
from laneway.serve.tensors import Tensor, byte_count


class Model:
    """Belongs to the event loop. `state`: UNAVAILABLE, LOADING or READY, and `why` it is not."""

    def __init__(self, facts: Facts, making: Making, link: Link) -> None:
        self.facts, self.spec = facts, facts.spec
        self._making, self._link = making, link
        self.heads: dict[bytes, Known] = {}  # of requests, as they came over HTTP
        self.state, self.why = "UNAVAILABLE", ""
        self.counts = Counts()
        self.pending = 0  # requests that are not answered
        self._runs = Runs(self.spec, self.counts, link, self._told)
        self._plan: Plan | None = None
        self._forms: dict[Shapes, Form] = {}  # the newest last
        self._preparing: asyncio.Task[None] | None = None
        self._prepares: Shapes = ()  # the kind of shapes that it was begun for
        self.failed: Problem | None = None  # why it is not loaded again by itself
        self._placing: Placing | None = None

    async def infer(self, inputs: list[Tensor]) -> list[Tensor]:
        """The outputs for these inputs, which are in the order of model.toml. Raises Problem."""
        self._check(inputs)
        if self.pending >= self.spec.queue:
            self.counts.reject.add(0)
            told = f"{self.pending} requests for '{self.facts.name}' wait, its queue holds no more"
            raise Problem(429, told, limits.RETRY_S)
        start, self.pending = time.perf_counter_ns(), self.pending + 1
        try:
            ask = self._runs.asked(inputs)
            if ask is None or not ask.answer.done():
                async with asyncio.timeout(self.spec.deadline_ms / 1e3):
                    ask = await self._run(inputs, ask)
            outputs = self._outputs(ask)
            self.counts.success.add(time.perf_counter_ns() - start)
            return outputs
        except TimeoutError:
            self.counts.fail.add(time.perf_counter_ns() - start)
            raise Problem(504, self._late()) from None
        except Problem:
            self.counts.fail.add(time.perf_counter_ns() - start)
            raise
        except asyncio.CancelledError:
            self.counts.cancel.add(time.perf_counter_ns() - start)
            raise
        finally:
            self.pending -= 1

    async def load(self) -> None:
        """Loads it with the smallest of its shapes. Raises Problem."""
        self.failed = None
        await self._ready_for(self.spec.smallest())

    async def unload(self) -> None:
        """Ends its job and forgets what was made of it; what waits is answered 503."""
        if self._preparing is not None:
            self._preparing.cancel()
        self._runs.send_away(f"'{self.facts.name}' was unloaded")
        self.failed, self.state, self.why = None, "UNAVAILABLE", "unloaded"
        plan, self._plan, self._forms = self._plan, None, {}
        await self._end_job()
        if plan is not None:
            await asyncio.to_thread(plan.forget)

    def lose_job(self) -> None:
        """The service that had it is gone: the next request offers the job again."""
        self._runs.leave()
        if self.state == "READY":
            self.state, self.why = "UNAVAILABLE", "the service was away: it is offered again"

    def _check(self, inputs: list[Tensor]) -> None:
        rows = set()
        for spec, given in zip(self.spec.inputs, inputs):
            if given.datatype != spec.datatype:
                raise Problem(
                    400, f"input '{spec.name}' is {given.datatype}; the model takes {spec.datatype}"
                )
            spec.check(given.shape)
            size, has = byte_count(given.datatype, given.shape), len(given.data)
            if size != has:
                raise Problem(
                    400,
                    f"input '{spec.name}' of shape {list(given.shape)} has {size} bytes, and {has} "
                    "came",
                )
            rows.add(given.shape[0] if given.shape else None)
        if not self.spec.batched():
            return
        if len(rows) > 1:
            raise Problem(400, f"the inputs have {sorted(rows)} rows: give all the same")
        if max(rows) > self.spec.max_batch:
            raise Problem(
                400, f"the inputs have {max(rows)} rows; max_batch is {self.spec.max_batch}"
            )

    def _late(self) -> str:
        placing = self._placing
        where = f"its job waits for memory: {placing.why}" if placing else "it was not answered"
        if self.state == "LOADING" and placing is None:
            where = "it is being imported and captured"
        return f"'{self.facts.name}': {self.spec.deadline_ms:g} ms have passed, and {where}"

    async def _run(self, inputs: list[Tensor], ask: Ask | None) -> Ask:
        """Returns when it is answered."""
        while ask is None:
            await self._ready_for(tuple(tensor.shape for tensor in inputs))
            ask = self._runs.asked(inputs)
        try:
            await ask.answer
        except asyncio.CancelledError:
            self._runs.drop(ask)
            raise
        return ask

    def _outputs(self, ask: Ask) -> list[Tensor]:
        shapes_of, outputs = ask.answer.result()
        return [
            Tensor(spec.datatype, shape, data)
            for spec, shape, data in zip(self.spec.outputs, shapes_of, outputs)
        ]

    def _told(self, error: BaseException, job: NativeJob) -> Problem:
        """The answer for an error of the job, which is offered again where that may help; one that
        comes late is not the next job's."""
        if not isinstance(error, errors.Error):
            return Problem(409, f"'{self.facts.name}': {type(error).__name__}: {error}")
        problem = of_service(error, limits.RETRY_S)
        if job is not self._runs.job:
            return problem
        if isinstance(error, errors.ServiceUnavailable):
            self._link.look_again()
            self._leave_job()
        elif isinstance(error, errors.JobFailed):
            self.failed = problem
            self.state, self.why = "UNAVAILABLE", problem.why
            self._leave_job()
        return problem

    def _leave_job(self) -> None:
        task = asyncio.ensure_future(self._end_job())
        self._link.keep(task)

    async def _end_job(self) -> None:
        job = self._runs.leave()
        if job is not None:
            await asyncio.to_thread(job.close)

    async def _ready_for(self, shapes: Shapes) -> None:
        """Returns when the job has the forms for these shapes. Others may wait for the same; who
        goes away stops nobody's loading."""
        wanted = batch.kind(self.spec, shapes)
        while not self._runs.has(shapes):
            if self.failed is not None:
                raise self.failed
            if self._preparing is None:
                self._preparing = asyncio.ensure_future(self._prepare(shapes))
                self._preparing.add_done_callback(self._prepared)
                self._prepares = wanted
            of_others = self._prepares != wanted
            try:
                await asyncio.shield(self._preparing)
            except Problem:
                if not of_others or self._plan is None:
                    raise  # else other shapes failed: these are tried for themselves
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if task is not None and task.cancelling():
                    raise
                raise Problem(503, f"'{self.facts.name}' was unloaded", limits.RETRY_S) from None

    def _prepared(self, task: asyncio.Task[None]) -> None:
        if self._preparing is task:
            self._preparing = None
        if task.cancelled():
            return
        error = task.exception()
        if error is None:
            self.state, self.why = "READY", ""
        elif isinstance(error, Problem):
            if self._runs.job is None:
                self.state, self.why = "UNAVAILABLE", error.why
            if error.code == 409 and self._plan is None:
                self.failed = error  # until it is loaded again, or its folder changes

    async def _prepare(self, shapes: Shapes) -> None:
        start = time.perf_counter_ns()
        try:
            await self._make_and_offer(shapes)
        except OSError as error:  # somebody cleaned up
            self._plan, self._forms = None, {}
            await self._end_job()
            why = f"'{self.facts.name}': {error}: a file of --scratch; it is made again"
            raise Problem(503, why, limits.RETRY_S) from None
        self.counts.load.add(time.perf_counter_ns() - start)

    async def _make_and_offer(self, shapes: Shapes) -> None:
        if self._runs.job is None:
            self.state, self.why = "LOADING", ""
        service = await self._link.service()
        wanted = [s for s in batch.all_forms(self.spec, shapes) if s not in self._forms]
        if self._plan is None:
            self._plan, made = await self._making.plan(self.facts, wanted, service.kernels)
        elif wanted:
            made = await self._making.forms(self.facts, self._plan, wanted, service.kernels)
        else:
            made = []
        self._forms.update({form.shapes: form for form in made})
        try:
            await self._offer(service)
        except errors.Error as error:
            if isinstance(error, errors.ServiceUnavailable):
                self._link.look_again()
            raise of_service(error, limits.RETRY_S) from None

    async def _offer(self, service: Any) -> None:
        """Gives the service the job, and the forms that it has not. Raises errors.Error."""
        if self._runs.job is None:
            plan, priority = self._plan, self.spec.priority
            assert plan is not None
            job = await asyncio.to_thread(NativeJob, service, self.facts.job, plan, priority)
            placing = self._placing = Placing(job)
            try:
                await self._link.waiters.over(placing)
                if placing.failed is not None:
                    raise placing.failed
                if self.spec.pin:
                    await asyncio.to_thread(job.pin)
            except BaseException:
                placing.gone = True
                self._link.keep(asyncio.ensure_future(asyncio.to_thread(job.close)))
                raise
            finally:
                self._placing = None
            self._runs.job = job
            self._runs.graphs[plan.first.shapes] = Graph(plan.first, 0)
        job, graphs = self._runs.job, self._runs.graphs
        await self._drop_forms()
        for shapes, form in self._forms.items():
            if shapes not in graphs:
                graph = await asyncio.to_thread(form.graph.read_bytes)
                number = await asyncio.to_thread(job.add, graph)
                if self._runs.job is not job:
                    raise Problem(503, TAKEN, limits.RETRY_S)
                graphs[shapes] = Graph(form, number)
        self._runs.kinds = {batch.kind(self.spec, shapes) for shapes in self._forms}

    async def _drop_forms(self) -> None:
        """Leaves the newest shapes, and the plan's, with all of their sizes: a batch of any of
        them must find its form."""
        assert self._plan is not None
        kinds = list(dict.fromkeys(batch.kind(self.spec, shapes) for shapes in self._forms))
        kinds.remove(batch.kind(self.spec, self._plan.first.shapes))
        gone = kinds[: max(0, len(kinds) + 1 - limits.FORMS)]
        self._runs.kinds -= set(gone)
        for shapes in [one for one in self._forms if batch.kind(self.spec, one) in gone]:
            await asyncio.to_thread(self._forms.pop(shapes).forget)
            graph = self._runs.graphs.pop(shapes, None)
            if graph is not None and self._runs.job is not None:
                await asyncio.to_thread(self._runs.job.drop, graph.number)
