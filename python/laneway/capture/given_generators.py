"""The generators of the client's that a step gives to operators."""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import torch
from torch.utils._python_dispatch import _disable_current_modes

from laneway.capture.random_state import STATE_BYTES, RandomStateRecorder
from laneway.capture.value_table import ValueTable
from laneway.errors import CaptureError

Ran = TypeVar("Ran")

_OTHER_SEED = 0x1A2B  # of states that no user's generator is in


class GivenGenerators:
    """Follows the state of each generator through the step: it begins as an input of the graph, and
    each draw from the generator leaves another one. One per capture; used by its thread alone."""

    def __init__(self, table: ValueTable) -> None:
        self._table = table
        self.given: list[torch.Generator] = []
        self.inputs: list[int] = []  # the value of each one's state when the step begins
        self.states: list[torch.Tensor] = []  # the fake of each one's state so far
        self._before: list[torch.Tensor] = []  # each one's real state at its first draw

    def state_of(self, generator: torch.Generator, fake_mode: Any) -> torch.Tensor:
        """The state of `generator` at this point of the step."""
        if generator not in self.given:
            self._add(generator, fake_mode)
        return self.states[self.given.index(generator)]

    def drawn(self, generator: torch.Generator, state: torch.Tensor) -> None:
        """Notes that `state` is the generator's from here on."""
        self.states[self.given.index(generator)] = state

    def first_states(self) -> list[torch.Tensor]:
        """The real state of each generator at its first draw."""
        return self._before

    def _add(self, generator: torch.Generator, fake_mode: Any) -> None:
        if generator.device.type != "cpu":
            raise CaptureError(
                f"the step draws from a generator of device {generator.device}",
                remedy="give the operator a generator of the CPU, or none",
            )
        with _disable_current_modes():
            self._before.append(generator.get_state())
            with fake_mode:
                state = torch.empty(STATE_BYTES, dtype=torch.uint8)
        self.given.append(generator)
        self.inputs.append(self._table.add_input(state, -1))  # its position is known at the end
        self.states.append(state)


def steady(run: Callable[[], Ran], followed_in: Callable[[Ran], GivenGenerators | None]) -> Ran:
    """What run(), a capture, gives. When its step gave generators to operators, run() is called
    once more with the generators in other states. Raises CaptureError, with the generators as they
    were, when the step makes or seeds one of them: that would happen at capture only."""
    ran = run()
    followed = followed_in(ran)
    if followed is None or not followed.given:
        return ran
    generators, before = followed.given, followed.first_states()
    changed = any(not torch.equal(g.get_state(), b) for g, b in zip(generators, before))
    try:
        others = [g.manual_seed(_OTHER_SEED + n).get_state() for n, g in enumerate(generators)]
        ran = run()
        again = followed_in(ran)
        assert again is not None
        now = [generator.get_state() for generator in generators]
    finally:
        for generator, state in zip(generators, before):
            generator.set_state(state)
    same = len(again.given) == len(generators) and all(map(operator.is_, again.given, generators))
    states = [*zip(again.first_states(), others), *zip(now, others)]
    if changed or not same or not all(torch.equal(a, b) for a, b in states):
        raise CaptureError(
            "the step makes or seeds a generator of its own, which would happen at capture only",
            remedy="make the generator and seed it before the step",
        )
    return ran


@contextlib.contextmanager
def drawing_from(
    recorder: RandomStateRecorder, followed: GivenGenerators | None, generator: torch.Generator
) -> Iterator[None]:
    """Inside, the job's generator is in the state of `generator`. Raises CaptureError where the job
    draws from its own generator alone (`followed` is None)."""
    if followed is None:
        raise CaptureError(
            "the step draws from a generator of its own, and this job from the job's alone",
            remedy="draw from torch's default generator (leave generator= out), or make the step "
            'with random="shared"',
        )
    before = recorder.read_random_state()
    recorder.restore_random_state(followed.state_of(generator, recorder.fake_mode))
    yield
    followed.drawn(generator, recorder.read_random_state())
    recorder.restore_random_state(before)
