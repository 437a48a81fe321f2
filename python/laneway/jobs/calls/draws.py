"""Draws: iterations that draw from the client's own generators.

The states of the generators go into such an iteration with its inputs and come back with its
outputs (laneway.capture.shared_random). Of the iterations of this process that draw, one runs at a
time, because the next one begins where the one before it left the generators. Only submissions of
one job that draw from torch's default generator alone may follow each other in the service: of
those, all but the first go on with what the job's generator was left in.
"""

from __future__ import annotations

import os
import threading
import warnings
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import torch

from laneway.errors import InvalidInput
from laneway.graph.target import Target
from laneway.native import bindings
from laneway.native.bindings import ffi
from laneway.native.process import ProcessLock

if TYPE_CHECKING:
    from laneway.jobs.calls.inputs import Frame

STATE_BYTES = bindings.RANDOM_STATE_BYTES
# In place of a state: the job's generator stays as the submission before left it.
_AS_IT_IS = torch.zeros(STATE_BYTES, dtype=torch.uint8)
_CHOICES = ("shared", "own")


def check_random(random: str | None) -> None:
    """Raises InvalidInput when it is not a choice that train_step and inference know."""
    if random is not None and random not in _CHOICES:
        raise InvalidInput(
            f"random = {random!r}: give one of {', '.join(map(repr, _CHOICES))}, or None"
        )


def check_state(state: object) -> None:
    """Raises InvalidInput when it is neither None nor like a state of torch's default generator."""
    if state is None:
        return
    is_state = isinstance(state, torch.Tensor) and state.dtype == torch.uint8
    if not is_state or tuple(state.shape) != (STATE_BYTES,):
        what = f"{state.dtype}, {list(state.shape)}" if is_state else type(state).__name__
        raise InvalidInput(
            f'the entry "random" is {what}, and a random state is a tensor of {STATE_BYTES} bytes, '
            "as torch.get_rng_state() gives it; leave the entry out to keep the generator as it is"
        )


def is_shared(random: str | None, target: Target) -> bool:
    """Whether a job whose kernels are those of `target` draws from the client's generators. Raises
    InvalidInput when that was asked for and cannot be."""
    if random == "shared" and target is not Target.cpu:
        raise InvalidInput(
            f'random = "shared": operators on {target.value} draw other numbers than the CPU\'s '
            'generators give; use random="own"'
        )
    return random != "own" and target is Target.cpu


class Future(Protocol):
    """Of an iteration (laneway.jobs.calls.job), seen from below."""

    def wait(self) -> object: ...

    def done(self) -> bool: ...


class Drawn:
    """One iteration that draws: the states that its generators are left in, once it ended well."""

    __slots__ = ("job", "generators", "left", "future")

    def __init__(self, job: object, generators: list[torch.Generator]) -> None:
        self.job, self.generators = job, generators
        self.left: list[torch.Tensor] | None = None
        self.future: Future | None = None  # where the iteration was submitted


class Draws:
    """The draws of one graph. `positions` are those of the states among its inputs. Thread-safe."""

    def __init__(
        self, job: object, generators: list[torch.Generator], positions: list[int]
    ) -> None:
        self._job, self._generators, self._positions = job, generators, positions
        self._default_alone = generators == [torch.default_generator]

    def run(self, frame: Frame, run: Callable[[Frame, Drawn], Any]) -> Any:
        """run(frame, drawn) with the states of now; afterwards the generators are where the
        iteration left them."""
        with _client.lock:
            _client.settle()
            given = [generator.get_state() for generator in self._generators]
            self._give(frame, given)
            drawn = Drawn(self._job, self._generators)
            try:
                result = run(frame, drawn)
            except BaseException:
                if drawn.future is not None and not drawn.future.done():  # Ctrl-C: it goes on
                    _client.add(drawn, given)
                raise
            alone = threading.active_count() == 1
            for generator, before, left in zip(self._generators, given, drawn.left or ()):
                if not alone and not _same(generator.get_state(), before):
                    _warn("another thread", "while an iteration drew from it")
                generator.set_state(left)
            return result

    def submit(self, frame: Frame, submit: Callable[[Drawn], Future]) -> Future:
        """submit(drawn) with the states that the submissions before leave."""
        with _client.lock:
            _client.settle(wait=False)
            follows = self._default_alone and _client.leads(self._job)
            if follows:
                self._give(frame, [_AS_IT_IS])
                given = None
            else:
                _client.settle()
                given = [generator.get_state() for generator in self._generators]
                self._give(frame, given)
            drawn = Drawn(self._job, self._generators)
            future = drawn.future = submit(drawn)
            _client.add(drawn, given)
            return future

    def _give(self, frame: Frame, states: list[torch.Tensor]) -> None:
        for position, state in zip(self._positions, states):
            frame.inputs[position].data = state.data_ptr()
            frame.keep.append(state)


class _Client:
    """What this process has under way that draws."""

    def __init__(self) -> None:
        self.lock = ProcessLock()
        self._pending: deque[Drawn] = deque()
        # The state in which each generator is as long as nobody else uses it; None: somebody did.
        self._expected: dict[torch.Generator, torch.Tensor | None] = {}

    def add(self, drawn: Drawn, given: list[torch.Tensor] | None) -> None:
        """`given` is None for one that follows those before it."""
        if given is not None:
            self._expected = dict(zip(drawn.generators, given))
        self._pending.append(drawn)

    def leads(self, job: object) -> bool:
        """Whether the next submission of `job` may go on where what is pending leaves the default
        generator, and does so in the order of all draws."""
        default = torch.default_generator
        expected = self._expected.get(default)
        return (
            bool(self._pending)
            and all(d.job is job and d.generators == [default] for d in self._pending)
            and expected is not None
            and _same(default.get_state(), expected)
        )

    def settle(self, wait: bool = True) -> None:
        """Moves the generators to where submissions left them; of all, or of those that ended."""
        while self._pending:
            drawn = self._pending[0]
            assert drawn.future is not None
            if wait:
                drawn.future.wait()
            elif not drawn.future.done():
                return
            if self._pending and self._pending[0] is drawn:  # waiting may have settled it
                self._pending.popleft()
                self._move(drawn)

    def _move(self, drawn: Drawn) -> None:
        for generator, left in zip(drawn.generators, drawn.left or ()):
            expected = self._expected.get(generator)
            if expected is None:
                continue
            if _same(generator.get_state(), expected):
                generator.set_state(left)
                self._expected[generator] = left
            else:
                self._expected[generator] = None
                _warn("something", "while submitted iterations drew from it")


def settle() -> None:
    """Moves the client's generators to where the iterations that have ended left them."""
    if not _client._pending:
        return
    with _client.lock:
        _client.settle(wait=False)


def default_state() -> torch.Tensor:
    """The state of torch's default generator after everything submitted before."""
    with _client.lock:
        _client.settle()
        return torch.default_generator.get_state()


def set_default_state(state: torch.Tensor) -> None:
    """Puts torch's default generator into `state`, behind everything submitted before."""
    with _client.lock:
        _client.settle()
        torch.default_generator.set_state(state)


def _same(a: torch.Tensor, b: torch.Tensor) -> bool:
    return ffi.buffer(ffi.cast("char *", a.data_ptr()), STATE_BYTES) == ffi.buffer(
        ffi.cast("char *", b.data_ptr()), STATE_BYTES
    )


def _warn(who: str, when: str) -> None:
    warnings.warn(
        f"{who} changed a random generator {when}: numbers may come twice, in another order than "
        "in eager execution; wait for the results before drawing or seeding, or make the step with "
        'random="own", which draws from a generator of its own',
        RuntimeWarning,
        stacklevel=5,
    )


_client = _Client()


def _after_fork() -> None:
    global _client
    _client = _Client()  # what is under way is the parent's


os.register_at_fork(after_in_child=_after_fork)
