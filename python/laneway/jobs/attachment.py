"""Attachment: a job that somebody else made with shared=True, joined by its name; made by
attach()."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from laneway.errors import InvalidInput
from laneway.graph.graph_ir import SlotKind
from laneway.graph.slots import Slot, SlotTensor
from laneway.jobs.job import Job
from laneway.jobs.service import Service, connect
from laneway.native import bindings
from laneway.native.bindings import ffi
from laneway.native.process import ProcessLock

if TYPE_CHECKING:
    from laneway.jobs.inference_job import Inference

_KINDS = {
    "parameter": SlotKind.parameter,
    "buffer": SlotKind.buffer,
    "optimizer_state": SlotKind.optimizer_state,
    "gradient": SlotKind.gradient,
    "constant": SlotKind.constant,
}


class Attachment:
    """A second handle of a running job. Its inferences run in the job's lane, between iterations,
    on the weights as they are then. Closing it, or letting go of it and its inferences, only
    detaches: the job goes on. Thread-safe."""

    def __init__(self, service: Service, job: Job) -> None:
        self.service = service
        self.name = job.name
        self.job = job
        self._lock = ProcessLock()
        self._described = job.describe()

    def inference(
        self,
        model: torch.nn.Module,
        closure: Callable[..., Any] | None = None,
        max_variants: int = 8,
    ) -> Inference:
        """An inference as laneway.inference(step) gives. `model` is built as the job's owner built
        theirs; its own weights do not count: parameters and buffers are those of the job, found by
        name. Raises InvalidInput, naming what differs, when names or sizes are not the job's."""
        from laneway.jobs.inference_job import joined_inference

        joined = JoinedImage(self, model, self._slots_for(model))
        return joined_inference(joined, closure, max_variants)

    def report(self, with_tapes: bool = False) -> dict[str, Any]:
        """The job's status line, bytes and, per graph, what is known of its memory."""
        return self.job.report(with_tapes)

    def close(self) -> None:
        """Detaches; idempotent."""
        if self._lock.is_here():
            self.job.close()

    def __enter__(self) -> Attachment:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _slots_for(self, model: torch.nn.Module) -> list[Slot]:
        """The job's slots, those of the model's names with the model's tensors."""
        tensors: dict[str, torch.Tensor] = {}
        for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
            tensors[f"model/{name}"] = tensor
        slots = [
            self._slot(index, described, tensors.get(described["name"]))
            for index, described in enumerate(self._described["slots"])
        ]
        if tensors and not any(slot.name in tensors for slot in slots):
            has = ", ".join(slot.name for slot in slots[:8]) + (", …" if len(slots) > 8 else "")
            raise InvalidInput(
                f"job {self.name!r} has none of this model's tensors ({next(iter(tensors))}, …): "
                f"it has {has}; build the model as the job's owner did"
            )
        return slots

    def _slot(self, index: int, described: dict[str, Any], tensor: torch.Tensor | None) -> Slot:
        name, nbytes = described["name"], described["bytes"]
        kind = _KINDS[described["kind"]]
        if tensor is None:
            # No tensor of the model lies there; it keeps its number.
            initial = torch.empty(0)
            return Slot(index, name, kind, nbytes, initial, [_described(initial, ("slot", name))])
        given = tensor.untyped_storage().nbytes()
        if given != nbytes:
            raise InvalidInput(
                f"{name} of job {self.name!r} has {nbytes} bytes, this model's "
                f"({tensor.dtype}, shape {list(tensor.shape)}) has {given}: build the model as the "
                "job's owner did"
            )
        path = ("model", name.removeprefix("model/"))
        return Slot(index, name, kind, nbytes, tensor, [_described(tensor, path)])


@dataclasses.dataclass(frozen=True)
class JoinedImage:
    """What an inference of an attached job stands on: as a step is for one of its own."""

    attachment: Attachment
    model: torch.nn.Module
    slots: list[Slot]

    @property
    def service(self) -> Service:
        return self.attachment.service

    def ensure_job(self) -> tuple[JoinedImage, Job]:
        """The image and the job. Raises ServiceUnavailable when it was detached."""
        self.attachment.job.handle()
        return self, self.attachment.job


def _described(tensor: torch.Tensor, path: tuple) -> SlotTensor:
    return SlotTensor(
        path=path,
        dtype=tensor.dtype,
        sizes=tuple(tensor.shape),
        strides=tuple(tensor.stride()),
        storage_offset=tensor.storage_offset(),
    )


def attach(name: str, service: Service | None = None) -> Attachment:
    """The job of this name that another client of the same user (or this one) made with
    shared=True, at `service` (default: the running lanewayd). Raises Refused when there is none, or
    it is not shared."""
    where = service if service is not None else connect()
    handle, error = ffi.new("laneway_job **"), bindings.new_error()
    text = ffi.new("char[]", name.encode())
    code = where.library.lib.laneway_attach(where.native_handle(), text, handle, error)
    if code != bindings.OK:
        raise bindings.exception_of(code, error)
    return Attachment(where, Job(where, name, handle[0]))
