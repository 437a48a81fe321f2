"""Attachment: a handle of a job that another client made with shared=True. attach() makes one by
the job's name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from laneway.errors import InvalidInput
from laneway.graph.graph_ir import SlotKind
from laneway.graph.slots import Slot, SlotTensor
from laneway.jobs.calls.job import Job
from laneway.jobs.image import JoinedImage
from laneway.jobs.inference_job import Inference
from laneway.jobs.inference_options import InferenceOptions
from laneway.jobs.service import Service, connect
from laneway.native import bindings
from laneway.native.bindings import ffi
from laneway.native.process import ProcessLock

_KINDS = {
    "parameter": SlotKind.parameter,
    "buffer": SlotKind.buffer,
    "optimizer_state": SlotKind.optimizer_state,
    "gradient": SlotKind.gradient,
    "constant": SlotKind.constant,
}


class Attachment:
    """A second handle of a running job. The attachment's inferences run in the job's lane, between
    iterations, and use the weights of that moment. close() detaches and the job goes on; so does
    deleting the attachment together with all its inferences and their Futures. Thread-safe."""

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
        mode: str = "eval",
    ) -> Inference:
        """An inference like that of laneway.inference(step), with the parameters and buffers of the
        job, found by name; the model's own values are ignored. With mode="as_is" the model's own
        training flags hold. The models of a step with several are one torch.nn.ModuleList, in the
        step's order, and the closure chooses among them.

        Requires: `model` is built by the same code as the owner's model. Otherwise raises
        InvalidInput, which names the first tensor whose name or size differs."""
        image = JoinedImage(self.service, self.job, [model], self._slots_for(model))
        options = InferenceOptions(closure=closure, max_variants=max_variants, mode=mode)
        return Inference(model, image, options)

    def report(self, with_tapes: bool = False) -> dict[str, Any]:
        """The job's status line, its bytes and, per graph, the measured memory. `with_tapes` adds
        the allocation trace of each graph."""
        return self.job.report(with_tapes)

    def set(self, **changes: Any) -> None:
        """Changes what the policy is told of the job, for all who use it: see TrainStep.set."""
        self.job.set(changes)

    def close(self) -> None:
        """Detaches from the job, which goes on. May be called again; then it has no effect."""
        if self._lock.is_here():
            self.job.close()

    def __enter__(self) -> Attachment:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _slots_for(self, model: torch.nn.Module) -> list[Slot]:
        """All slots of the job; slots with names of `model` hold the tensors of the model."""
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
            # The model has no tensor of this name. The slot stays, so that all keep their numbers.
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


def _described(tensor: torch.Tensor, path: tuple) -> SlotTensor:
    return SlotTensor(
        path=path,
        dtype=tensor.dtype,
        sizes=tuple(tensor.shape),
        strides=tuple(tensor.stride()),
        storage_offset=tensor.storage_offset(),
    )


def attach(name: str, service: Service | None = None) -> Attachment:
    """Attaches to the job `name`, which this client or another client of the same user made with
    shared=True at `service` (default: the running lanewayd). Raises Refused when the service has no
    job of this name, or the job is not shared."""
    where = service if service is not None else connect()
    handle, error = ffi.new("laneway_job **"), bindings.new_error()
    text = ffi.new("char[]", name.encode())
    code = where.library.lib.laneway_attach(where.native_handle(), text, handle, error)
    if code != bindings.OK:
        raise bindings.exception_of(code, error)
    return Attachment(where, Job(where, name, handle[0]))
