"""The random state that a step reads and sets, as values of its graph.

Activation checkpointing saves torch's random state in the forward pass, restores it for the
recomputation in the backward pass, and then continues where it was. In a graph the state of the
job's generator is a tensor of bytes: "laneway::random_state" reads it, and
"laneway::restore_random_state" restores it, so the recomputation draws the masks again, as in eager
execution, and the graph keeps none. During a capture this module answers torch.get_rng_state,
set_rng_state, manual_seed and functions built on them, for the capturing thread alone. It does not
see calls of torch.default_generator's own methods.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any, Protocol

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import _disable_current_modes

from laneway.capture.late_form import Draft, rename
from laneway.errors import CaptureError
from laneway.graph.graph_ir import NO_VALUE, ValueArgument
from laneway.native.process import SharedChange

READ = "laneway::random_state"
RESTORE = "laneway::restore_random_state"
STATE_BYTES = torch.default_generator.get_state().numel()

_capturing = threading.local()  # .recorder: the capture of this thread, if there is one


class RandomStateRecorder(Protocol):
    """The part of a recorder that records reads and restores of the random state."""

    fake_mode: FakeTensorMode

    def read_random_state(self) -> torch.Tensor:
        """Records a read; returns the tensor of the state's bytes."""

    def restore_random_state(self, state: torch.Tensor) -> None:
        """Records that the generator's state becomes `state`."""

    def refusal(self, message: str, remedy: str) -> CaptureError:
        """The error, with the user's line, to raise for a step that no graph can hold."""


@contextlib.contextmanager
def served_by(recorder: RandomStateRecorder) -> Iterator[None]:
    """Inside the context, `recorder` answers this thread's calls about torch's random state. Torch
    answers the calls of other threads."""
    with _serving:
        around, _capturing.recorder = getattr(_capturing, "recorder", None), recorder
        try:
            yield
        finally:
            _capturing.recorder = around


class _ServedGenerator:
    """Replaces the default generator in torch.random."""

    def __init__(self, real: torch.Generator) -> None:
        self._real = real

    def get_state(self) -> torch.Tensor:
        recorder = getattr(_capturing, "recorder", None)
        return self._real.get_state() if recorder is None else recorder.read_random_state()

    def set_state(self, state: torch.Tensor) -> Any:
        recorder = getattr(_capturing, "recorder", None)
        if recorder is None:
            return self._real.set_state(state)
        recorder.restore_random_state(state)
        return self._real

    def manual_seed(self, seed: int) -> torch.Generator:
        recorder = getattr(_capturing, "recorder", None)
        if recorder is None:
            return self._real.manual_seed(seed)
        with _disable_current_modes():
            state = torch.Generator().manual_seed(seed).get_state()
        recorder.restore_random_state(state)
        return self._real

    def seed(self) -> int:
        recorder = getattr(_capturing, "recorder", None)
        if recorder is None:
            return self._real.seed()
        raise recorder.refusal(
            "the step seeds torch's generator with a number that nobody knows beforehand",
            "seed it before the step, or with torch.manual_seed(number)",
        )

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


def _serve() -> None:
    # Every function of torch.random looks the generator up here when it is called.
    torch.random.default_generator = _ServedGenerator(torch.default_generator)


def _leave() -> None:
    torch.random.default_generator = torch.default_generator


_serving = SharedChange(_serve, _leave)


def drop_idle_states(draft: Draft) -> None:
    """Removes unused reads of the random state, restores that change nothing, and restores that
    another one undoes before a draw: a checkpoint without dropout leaves no nodes. Reads of one
    state become one. Nodes that stay count as draws for all later passes."""
    before = -1
    while len(draft.nodes) != before and any(node.op in (READ, RESTORE) for node in draft.nodes):
        before = len(draft.nodes)
        _share_reads(draft)
        _drop_unseen(draft)


def _drop_unseen(draft: Draft) -> None:
    """Drops unused reads, and restores of a state that is not read or drawn from before the next
    restore."""
    used = set(draft.outputs)
    seen = True  # whether the step draws from, reads or leaves the state at this point
    kept: list[int] = []
    for index in range(len(draft.nodes) - 1, -1, -1):
        node = draft.nodes[index]
        if node.op == READ and node.results[0].values[0] not in used:
            continue
        if node.op == RESTORE:
            if not seen:
                continue
            seen = False
        elif node.op in draft.draws:
            seen = True
        used.update(node.reads())
        kept.append(index)
    kept.reverse()
    draft.nodes = [draft.nodes[i] for i in kept]
    draft.phases = [draft.phases[i] for i in kept]


def _share_reads(draft: Draft) -> None:
    """Merges reads of one state, and drops restores of the present state."""
    # A tensor that the step writes does not hold the state that was read.
    changed = {s for node in draft.nodes for s in draft.written(node)}
    state = 0  # the number of the state at this point, new with every draw
    states = 0
    read: dict[int, int] = {}  # value of a read, or of a restored tensor -> the state's number
    known: dict[int, int] = {}  # the state's number -> value of its first read
    renamed: dict[int, int] = {}
    kept: list[int] = []
    for index, node in enumerate(draft.nodes):
        node.arguments = [
            (name, rename(argument, lambda v: renamed.get(v, v)))
            for name, argument in node.arguments
        ]
        if node.op == READ:
            value = node.results[0].values[0]
            if draft.storage_of(value) not in changed:
                if state in known:
                    renamed[value] = known[state]
                    continue
                known[state] = value
                read[value] = state
        elif node.op == RESTORE:
            argument = node.arguments[0][1]
            source = argument.value if isinstance(argument, ValueArgument) else NO_VALUE
            if read.get(source) == state:
                continue
            if draft.storage_of(source) in changed or source not in read:
                states += 1
                state = states
                if draft.storage_of(source) not in changed:
                    read[source] = state
            else:
                state = read[source]
        elif node.op in draft.draws:
            states += 1
            state = states
        kept.append(index)
    draft.nodes = [draft.nodes[i] for i in kept]
    draft.phases = [draft.phases[i] for i in kept]
    draft.outputs = [renamed.get(v, v) for v in draft.outputs]
