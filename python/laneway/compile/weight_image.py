"""WeightImage: the job over one set of weights. All graphs that torch.compile made of code with
these weights share it: one image for all forms of calls."""

from __future__ import annotations

import os
import weakref
from collections.abc import Sequence
from typing import Any

import torch

from laneway.capture.capture import CapturedJobGraph
from laneway.compile.compile_options import CompileOptions
from laneway.compile.tracked_weights import TrackedWeights
from laneway.graph.slots import Slot
from laneway.jobs.calls.graph_call import GraphCall, call_of
from laneway.jobs.calls.job import Job, create_job
from laneway.jobs.calls.owned_job import OwnedJob
from laneway.jobs.control.scheduling import Scheduling
from laneway.jobs.service import Service
from laneway.native.process import ProcessLock

_images: weakref.WeakSet[WeightImage] = weakref.WeakSet()


class WeightImage:
    """`holder` has the weights' memory (not the tensors) under their `names`, for captures. The job
    is made with the first graph and ends with the weights, with close(), or when the last reference
    to this object is dropped. Thread-safe; a thread that takes several of its locks must take
    `state` first."""

    def __init__(
        self,
        tensors: Sequence[torch.Tensor],
        names: Sequence[str],
        service: Service,
        options: CompileOptions,
        name: str,
    ) -> None:
        self.names, self.service, self.options, self.name = list(names), service, options, name
        self.state = ProcessLock()  # guards the weights' bytes
        self.holder = torch.nn.Module()
        self.captured: CapturedJobGraph | None = None  # the first graph's
        self.closed = False
        self._pid = os.getpid()
        self._making = ProcessLock()  # of the job and its graphs
        self._job: Job | None = None
        self._owned = OwnedJob("compiled code", options.scheduling)
        self._random_state = torch.get_rng_state()
        self._tracked = TrackedWeights(tensors, _weak_close(self))
        self._hold(tensors, range(len(tensors)))
        _images.add(self)

    def known(self, tensors: Sequence[torch.Tensor]) -> int:
        """How many of the weights are `tensors`."""
        return self._tracked.same(tensors)

    def fits(self, tensors: Sequence[torch.Tensor], names: Sequence[str]) -> bool:
        """Whether this is the image of exactly these weights, in this process."""
        here = not self.closed and self._pid == os.getpid()
        return here and self.names == list(names) and self.known(tensors) == len(tensors)

    def bring_up_to_date(self, tensors: Sequence[torch.Tensor]) -> None:
        """Writes the present bytes of these tensors to the job's weights. Raises OtherLayout when
        they do not fit."""
        self._write(tensors, self._tracked.changed(tensors))

    def rewritten(self, tensors: Sequence[torch.Tensor]) -> bool:
        """Whether weights had other bytes than the job's, without a count of torch's; the job has
        them now. Reads all weights."""
        changed = self._tracked.rewritten(tensors)
        self._write(tensors, changed)
        return bool(changed)

    @property
    def are_few_bytes(self) -> bool:
        """Whether bring_up_to_date() compares all bytes."""
        return self._tracked.are_few

    def _write(self, tensors: Sequence[torch.Tensor], changed: Sequence[int]) -> None:
        if not changed:
            return
        with self._making:
            self._tracked.note(tensors, changed)
            self._hold(tensors, changed)
            if self._job is None:
                return
            slots = {}
            for position in changed:
                slot = self._slot_of(position)
                slots[slot.index] = (slot, tensors[position].untyped_storage())
            self._job.write_state([s for s, _ in slots.values()], [b for _, b in slots.values()])

    def write_back(self, positions: Sequence[int], tensors: Sequence[torch.Tensor]) -> None:
        """Copies weights that a graph wrote in the job to the user's tensors."""
        slots = {s.index: s for s in map(self._slot_of, positions)}
        storages, _ = self._job.read_state(list(slots.values()))
        by_slot = dict(zip(slots, storages))
        with torch.no_grad():
            for position in positions:
                slot = self._slot_of(position)
                path = ("model", self.names[position])
                described = next(t for t in slot.tensors if t.path == path)
                tensors[position].copy_(described.view(by_slot[slot.index]))
        self._tracked.note(tensors, positions)

    def add(self, captured: CapturedJobGraph) -> GraphCall:
        """The call of a graph that was captured over `self.captured`. The first offers the job, and
        waits for its memory."""
        with self._making:
            self._owned.check_open(self.name)
            if self._job is not None:
                return call_of(self._job, self._job.add_graph(captured.encode()), captured)
            self._job = self._owned.place(
                lambda told: self._made(captured, told), self.options.admission_timeout
            )
            self.captured = captured
            return call_of(self._job, 0, captured)

    def making(self) -> ProcessLock:
        """The lock that must be held while a graph is captured and added."""
        return self._making

    def close(self) -> None:
        """Ends the job; idempotent."""
        self.closed = True
        if self.state.is_here():
            self._owned.close()

    def _made(self, captured: CapturedJobGraph, told: Scheduling) -> Job:
        return create_job(
            self.service,
            self.name,
            captured.slots,
            captured.encode(),
            self._random_state,
            job_class="inference",
            scheduling=told,
        )

    def _slot_of(self, position: int) -> Slot:
        path = ("model", self.names[position])
        return next(s for s in self.captured.slots if any(t.path == path for t in s.tensors))

    def _hold(self, tensors: Sequence[torch.Tensor], positions: Sequence[int]) -> None:
        with torch.inference_mode(False), torch.no_grad():
            for position in positions:
                self.holder.register_buffer(self.names[position], tensors[position].detach())


def image_of(
    tensors: Sequence[torch.Tensor],
    names: Sequence[str],
    service: Service,
    options: CompileOptions,
    name: str,
) -> WeightImage:
    """The image of these weights on this service, a new one if there is none."""
    for image in list(_images) if tensors else []:
        if image.service is service and image.options == options and image.fits(tensors, names):
            return image
    return WeightImage(tensors, names, service, options, name)


def close_images() -> None:
    """Ends all jobs of compiled code in this process."""
    for image in list(_images):
        image.close()


def _weak_close(image: WeightImage) -> Any:
    reference = weakref.ref(image)

    def close() -> None:
        held = reference()
        if held is not None:
            held.close()

    return close
