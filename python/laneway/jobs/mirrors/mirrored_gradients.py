"""GradientMirror: the gradients that a step without an optimizer leaves, as eager leaves them in
`.grad`: for an optimizer outside of the step, or for the user's own code."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from laneway.capture.kept_gradients import gradient_path
from laneway.graph.slots import Path, Slot
from laneway.jobs.calls import slot_bytes
from laneway.jobs.calls.job import Job


class GradientMirror:
    """`kept` are the parameters, by path, whose gradients the job keeps, and `parameters` the
    client's own. Not thread-safe."""

    def __init__(
        self, slots: list[Slot], kept: Iterable[Path], parameters: dict[Path, torch.Tensor]
    ) -> None:
        self._slots = slots
        by_path = {t.path: (slot.index, t) for slot in slots for t in slot.tensors}
        self._entries = [
            (path, parameters[path], *by_path[gradient_path(path)])
            for path in kept
            if path in parameters
        ]
        self._seen: list[tuple[torch.Tensor | None, int]] = self._look()

    def is_untouched(self) -> bool:
        """Whether the client's gradients are those that were seen last."""
        return all(
            parameter.grad is seen and (seen is None or seen._version == version)
            for (_, parameter, _, _), (seen, version) in zip(self._entries, self._seen)
        )

    def pull(self, job: Job, present: set[Path]) -> None:
        """Gives the client the gradients of the job; those that are not `present` are None."""
        placed: dict[int, list[slot_bytes.Placed]] = {}
        made: list[tuple[torch.Tensor, torch.Tensor | None]] = []
        for path, parameter, slot, described in self._entries:
            if path not in present:
                made.append((parameter, None))
                continue
            # A new one, as backward() makes them after zero_grad(): others may hold the old one.
            gradient = described.view(torch.UntypedStorage(self._slots[slot].nbytes))
            placed.setdefault(slot, []).append((described, gradient))
            made.append((parameter, gradient))
        slot_bytes.read_into(job, placed, self._slots)
        for parameter, gradient in made:
            parameter.grad = gradient
        self._seen = self._look()

    def push(self, job: Job) -> set[Path]:
        """Gives the job the client's gradients; returns those that there are. Raises InvalidInput
        for one that does not fit."""
        placed: dict[int, list[slot_bytes.Placed]] = {}
        names: dict[int, str] = {}
        present: set[Path] = set()
        for path, parameter, slot, described in self._entries:
            gradient = parameter.grad
            if gradient is None:  # in a job, negative zeros
                gradient = described.view(torch.UntypedStorage(self._slots[slot].nbytes))
                gradient.zero_().neg_()
            else:
                present.add(path)
            placed.setdefault(slot, []).append((described, gradient))
            names[slot] = f"the gradient of {path[-1]!r}"
        slot_bytes.write_from(job, placed, self._slots, names)
        self._seen = self._look()
        return present

    def _look(self) -> list[tuple[torch.Tensor | None, int]]:
        gradients = (parameter.grad for _, parameter, _, _ in self._entries)
        return [(g, 0 if g is None else g._version) for g in gradients]
