"""Requests of a model become iterations: which of them the event loop itself waits for, and which
go together. The service is a stand-in whose iterations end when the test says so."""

import asyncio
import types
from typing import ClassVar

import pytest

from laneway.serve import limits, runs
from laneway.serve.counts import Counts
from laneway.serve.problem import Problem
from laneway.serve.runs import Runs
from laneway.serve.spec import Spec, TensorSpec
from laneway.serve.tensors import Tensor

ROW = 4  # bytes


async def turn():
    """Lets the event loop do what is ready."""
    loop = asyncio.get_running_loop()
    after = loop.create_future()
    loop.call_soon(after.set_result, None)
    await after


class Iteration:
    """Gives its inputs back. `waits`: whether a wait of the loop itself is in vain."""

    waits = False
    made: ClassVar[list] = []

    def __init__(self, job, graph, given):
        self.job, self.given = job, given
        self.outputs = [bytearray(given[0])]
        self.failed, self.gone, self.looked_ns = None, False, None
        Iteration.made.append(self)

    def begin(self):
        return False

    def look(self, timeout_ns):
        self.looked_ns = timeout_ns
        return not Iteration.waits


class Waiters:
    """Threads: what they wait for ends when the test says so."""

    def __init__(self):
        self.open = []

    def over(self, wait):
        future = asyncio.get_running_loop().create_future()
        self.open.append(future)
        return future

    async def end_all(self):
        for future in self.open:
            future.set_result(None)
        self.open.clear()
        await turn()
        await turn()


@pytest.fixture(autouse=True)
def iterations(monkeypatch):
    monkeypatch.setattr(runs, "Iteration", Iteration)
    monkeypatch.setattr(limits, "AT_ONCE_NS", 10**15)  # whatever the machine does, it is quick
    Iteration.made, Iteration.waits = [], False


def graph(rows):
    form = types.SimpleNamespace(outputs=[0], every=[("FP32", (rows, 1))])
    return types.SimpleNamespace(form=form, inputs=lambda given: given, has_run=False)


def made(max_batch=1):
    """Runs with a job, and the threads that it hands to."""
    tensor = TensorSpec("x", "FP32", (-1, 1))
    spec = Spec((tensor,), (tensor,), max_batch=max_batch)
    link = types.SimpleNamespace(waiters=Waiters())
    one = Runs(spec, Counts(), link, lambda error, job: Problem(409, str(error)))
    one.job = object()
    one.graphs = {((rows, 1),): graph(rows) for rows in (1, 2, 4, 8)[: max_batch.bit_length()]}
    one.kinds = {((0 if max_batch > 1 else 1, 1),)}
    return one, link.waiters


def ask(one, value, rows=1):
    return one.asked([Tensor("FP32", (rows, 1), bytes([value]) * ROW * rows)])


async def warm(one, waiters, count=None):
    """Runs as many iterations by threads as make the loop trust that they are quick."""
    for number in range(limits.AT_ONCE_CREDIT if count is None else count):
        asked = ask(one, number)
        await turn()
        assert not asked.answer.done() and len(waiters.open) == 1
        await waiters.end_all()
        assert asked.answer.done()


def test_the_loop_waits_itself_once_iterations_have_been_quick():
    async def main():
        one, waiters = made()
        await warm(one, waiters)
        asked = ask(one, 7)
        assert asked.answer.done() and not waiters.open
        assert Iteration.made[-1].looked_ns == limits.AT_ONCE_NS
        assert asked.answer.result() == ([(1, 1)], [bytearray(b"\7\7\7\7")])

    asyncio.run(main())


def test_after_a_wait_in_vain_the_loop_waits_no_more_until_it_is_earned_again():
    async def main():
        one, waiters = made()
        await warm(one, waiters)
        Iteration.waits = True
        late = ask(one, 1)
        assert not late.answer.done() and len(waiters.open) == 1
        assert len(Iteration.made) == limits.AT_ONCE_CREDIT + 1  # it was not begun twice
        second = ask(one, 2)  # while another one is in flight, room for it may have to be made
        assert Iteration.made[-1].looked_ns is None
        await waiters.end_all()
        assert late.answer.done() and second.answer.done()
        third = ask(one, 3)
        assert not third.answer.done() and Iteration.made[-1].looked_ns is None

    asyncio.run(main())


def test_a_graph_that_has_never_run_is_not_waited_for():
    async def main():
        one, waiters = made()
        await warm(one, waiters)
        one.graphs[((1, 1),)] = graph(1)  # after another load
        assert not ask(one, 1).answer.done() and len(waiters.open) == 1

    asyncio.run(main())


def test_slow_iterations_earn_nothing(monkeypatch):
    monkeypatch.setattr(limits, "AT_ONCE_NS", 0)  # whatever it does, it is slow

    async def main():
        one, waiters = made()
        await warm(one, waiters)
        assert not ask(one, 1).answer.done() and len(waiters.open) == 1

    asyncio.run(main())


def test_what_has_come_together_goes_together_though_the_loop_waits_itself():
    async def main():
        one, waiters = made(max_batch=4)
        for rows in (1, 4):  # each form has run once
            asked = ask(one, 0, rows)
            await turn()
            await waiters.end_all()
            assert asked.answer.done()
        await warm(one, waiters, limits.AT_ONCE_CREDIT - 2)
        count = len(Iteration.made)
        asked = [ask(one, number) for number in range(4)]
        await turn()
        assert len(Iteration.made) == count + 1 and not waiters.open
        assert [bytes(a.answer.result()[1][0]) for a in asked] == [
            bytes([n]) * ROW for n in range(4)
        ]

    asyncio.run(main())


def test_what_waits_when_the_job_goes_is_sent_away():
    async def main():
        one, waiters = made()
        asked = [ask(one, number) for number in range(limits.IN_FLIGHT + 1)]
        one.leave()
        with pytest.raises(Problem, match="taken from the service"):
            asked[-1].answer.result()
        assert ask(one, 1) is None
        await waiters.end_all()  # those that had begun
        assert asked[0].answer.result()

    asyncio.run(main())
