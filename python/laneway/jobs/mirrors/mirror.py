"""Mirror: the client's model and optimizer follow the job that trains them.

The job has the weights. The client's tensors are brought up to date when somebody reads them, with
the slots alone that iterations have written since. What the client writes between two iterations
goes to the job before the next one. A write that torch counts, other memory (`p.data = …`) and
another object are noticed at every call; once the model was read anything may have been written, so
its bytes are compared then. A forward pass in evaluation mode reads all and writes buffers at most.
Several jobs may train one model in turn: each first takes what the one before it left.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

import torch
from torch.optim import Optimizer

from laneway.capture.loss_scaling import CapturedScaler
from laneway.capture.optimizers import OptimizerLayout
from laneway.errors import Error, InvalidInput
from laneway.graph.graph_ir import Graph, StorageKind
from laneway.graph.slots import Path, Slot
from laneway.jobs.calls.job import Job
from laneway.jobs.mirrors.mirrored_gradients import GradientMirror
from laneway.jobs.mirrors.mirrored_model import ModelMirror
from laneway.jobs.mirrors.mirrored_optimizer import OptimizerMirror
from laneway.jobs.mirrors.mirrored_scaler import ScalerMirror
from laneway.jobs.watch.capture_gate import CaptureGate, JointGate
from laneway.jobs.watch.left_lines import LeftLines
from laneway.jobs.watch.watched import held, quietly, watchers_of
from laneway.native.process import ProcessLock

_CHOICES = ("on_read", "manual")


def check_sync(sync: str) -> None:
    """Raises InvalidInput when it is not a choice that train_step knows."""
    if sync not in _CHOICES:
        raise InvalidInput(f"sync = {sync!r}: give one of {', '.join(map(repr, _CHOICES))}")


def written_slots(graph: Graph) -> set[int]:
    """The slots that the graph writes."""
    storages = {graph.values[v].storage for node in graph.nodes for v in node.writes}
    return {
        graph.storages[s].index
        for s in storages
        if graph.storages[s].kind == StorageKind.persistent
    }


def bring_up_to_date(modules: list[torch.nn.Module]) -> None:
    """Gives the modules what iterations of jobs that train them have left."""
    for module in {id(m): m for root in modules for m in root.modules()}.values():
        for holder in ("_parameters", "_buffers"):
            for watcher in watchers_of(vars(module).get(holder)):
                watcher.owner.refresh()


class Mirror:
    """Thread-safe. `roots` are the modules with the first part of their paths; the first is the
    model. `optimizers` have one layout each."""

    def __init__(
        self,
        roots: list[tuple[str, torch.nn.Module]],
        optimizers: list[tuple[Optimizer, OptimizerLayout]],
        slots: list[Slot],
        job: Job,
        gate: CaptureGate | JointGate,
    ) -> None:
        self._job: Job | None = job
        self._name = job.name
        self._slots = slots
        self._gate = gate
        self._lock = ProcessLock()
        self._peers: list[Mirror] = []  # that follow a part of the same model
        self._writes: set[int] = set()  # the slots that some graph of the job writes
        self._calls = _Calls()
        self._read_at: object = None  # the moment of the last read; None: beside a call
        self.stepped = [False] * len(optimizers)  # whether each has taken a step
        self._of_model = _Reads(self, self._model_read)
        self._of_state = _Reads(self, self._state_read)
        self._replaced = False  # whether the client loaded a state into an optimizer
        self._compare = "none"  # what the client may have written unnoticed: see ModelMirror.push
        self._model = ModelMirror(roots, self._of_model)
        self._optimizers = [
            OptimizerMirror(optimizer, layout, self._of_state, self._of_model, self._state_replaced)
            for optimizer, layout in optimizers
        ]
        self._parameters = [
            p for o, _ in optimizers for g in o.param_groups for p in held(g["params"])
        ]
        self._gradients: GradientMirror | None = None  # of a job that keeps gradients
        self._gradients_due = False  # whether the client's are older than the job's
        self._scaler: ScalerMirror | None = None
        self.present: set[Path] = set()  # the parameters that have a gradient now
        self._lines = LeftLines(job.name, [optimizer for optimizer, _ in optimizers])
        self.attach()

    def attach(self) -> None:
        """Watches model and optimizer as they are now, after a part was added or replaced."""
        with self._gate.reading, self._lock, quietly():
            if self._job is None:
                return
            self._model.attach(self._slots, self._parameters, self._bring_model)
            for optimizer in self._optimizers:
                optimizer.attach()
            for watcher in self._model.watchers():
                peer = watcher.owner
                if peer is not self and peer not in self._peers:
                    self._peers.append(peer)
                    peer._peers.append(self)

    def keep_gradients(self, kept: Iterable[Path], present: set[Path]) -> None:
        """From here on the client's parameters have the gradients that the job keeps, after each
        give_gradients()."""
        parameters = self._model.parameters()
        self._gradients = GradientMirror(self._slots, kept, parameters)
        self.present = present

    def left_gradients(self, present: set[Path]) -> None:
        """Notes which gradients the last iteration left: who reads the model next gets them."""
        self.present, self._gradients_due = present, True

    def follow_scaler(self, captured: CapturedScaler) -> None:
        """From here on the client's scaler is kept up to date, too."""
        watcher = _Reads(self, self._scaler_read)
        self._scaler = ScalerMirror(captured, self._slots, watcher)

    def give_gradients(self, present: set[Path]) -> None:
        """Gives the client the gradients that the last iteration left: those that are `present`."""
        with self._gate.reading, self._lock, quietly():
            if self._gradients is not None and self._job is not None:
                self._gradients.pull(self._job, present)
                self.present = present

    def _is_attached(self) -> bool:
        return all(map(OptimizerMirror.is_attached, self._optimizers))

    def add_graph(self, graph: Graph) -> None:
        """From here on the job may run this graph too."""
        self._writes |= written_slots(graph)

    def before_call(self) -> None:
        """Gives the job what the client wrote; after_call() must follow. Raises InvalidInput for
        what the job cannot take: then no after_call() may follow."""
        self.give()
        self._calls.begin()

    def after_call(self, wrote: bool = True) -> None:
        """Notes that an iteration ran or was submitted, and whether it may have written state."""
        if wrote:
            self._calls.ran = True
            self._of_model.due = self._of_state.due = True
            if self._scaler is not None:
                self._scaler.stale = True
        self._calls.end()

    def give(self) -> None:
        """Gives the job what the client wrote. Raises InvalidInput for what the job cannot take."""
        if self._scaler is not None and not self._scaler.stale:
            with self._gate.reading, self._lock, quietly():
                if self._job is not None:
                    self._scaler.push(self._job)
        for peer in self._peers:
            if peer._calls.ran or peer._model.stale:
                peer.refresh()
        if (
            self._compare == "none"
            and self._of_state.due
            and self._model.is_untouched()
            and (self._gradients is None or self._gradients.is_untouched())
            and self._is_attached()
        ):
            return
        # During a capture in another thread the optimizer has another state for a while.
        with self._gate.reading, self._lock, quietly():
            if self._job is None:
                return
            # Beside an iteration in another thread the job may have newer bytes than the client.
            beside = self._read_at is None or not self._calls.none_since(self._read_at)
            self._note_runs()
            self._model.push(self._job, self._compare, self._writes if beside else set())
            self._compare = "none"
            self._of_model.due = True
            if not self._is_attached():
                self._state_replaced()
            if self._replaced or not (self._of_state.due or beside):
                self.stepped = [o.push(self._job, self._slots) for o in self._optimizers]
            self._replaced = False
            self._of_state.due = True
            if self._gradients is not None and not self._gradients.is_untouched():
                self.present = self._gradients.push(self._job)
                self._gradients_due = False

    def _pull_gradients(self, job: Job) -> None:
        if self._gradients_due and self._gradients is not None:
            self._gradients_due = False
            self._gradients.pull(job, self.present)

    def _bring_model(self) -> None:
        """Brings the tensors that the client had before up to date."""
        if self._job is not None:
            self._note_runs()
            self._model.refresh(self._job)

    def _note_runs(self) -> None:
        """Marks what iterations may have written until now."""
        if self._calls.ran:
            self._calls.ran = False
            self._mark(self._writes)

    def _mark(self, writes: set[int]) -> None:
        self._model.stale |= writes
        for optimizer in self._optimizers:
            optimizer.stale |= writes
        self._of_model.due = self._of_state.due = True

    def overwritten(self, stepped: list[bool]) -> None:
        """Notes that a state was loaded into the job, whatever the client has written before."""
        with self._gate.reading, self._lock, quietly():
            self._model.note()
            self._replaced = False
            self._mark({slot.index for slot in self._slots})
            if self._scaler is not None:
                self._scaler.stale = True
            self.stepped, self._compare = stepped, "none"

    def refresh(self, state: bool = False) -> None:
        """Brings the client's model up to date, with `state` the optimizer too."""
        with self._gate.reading, self._lock, quietly():
            if self._job is None:
                return
            begun = self._calls.now()
            self._note_runs()
            if begun is None:
                self._mark(self._writes)
            try:
                self._model.refresh(self._job)
                if state:
                    for optimizer, stepped in zip(self._optimizers, self.stepped):
                        optimizer.refresh(self._job, self._slots, stepped)
                self._pull_gradients(self._job)
            except Error as error:
                error.add_note(
                    f"the weights of this model are in job {self._name!r}; after step.close() the "
                    "model has those of the last read"
                )
                raise
            self._read_at = begun
            if begun is None or not self._calls.none_since(begun):
                self._mark(self._writes)  # it may have read what was there before that call

    def release(self) -> None:
        """Brings the client's model up to date for the last time, and watches it no more. Waits
        for no capture."""
        if not self._lock.is_here():
            return
        with self._lock, quietly():
            job, self._job = self._job, None
            if job is None:
                return
            self._note_runs()
            try:
                self._model.refresh(job)
                for optimizer, stepped in zip(self._optimizers, self.stepped):
                    optimizer.refresh(job, self._slots, stepped)
                self._pull_gradients(job)
                if self._scaler is not None:
                    self._scaler.refresh(job)
            except Error as error:
                warnings.warn(
                    f"the weights of job {self._name!r} are lost, and the model has those of the "
                    f"last read: {error}",
                    RuntimeWarning,
                    stacklevel=3,
                )
            finally:
                self._detach()

    def _detach(self) -> None:
        self._model.detach()
        if self._scaler is not None:
            self._scaler.detach()
        for optimizer in self._optimizers:
            optimizer.detach()
        self._lines.remove()
        for peer in self._peers:
            peer._peers.remove(self)
        self._peers = []

    def _model_read(self) -> None:
        """Somebody is about to read the model, and may write to it afterwards."""
        reader = self._lines.reader()
        if reader == "gradients" and not self._gradients_due:
            return
        self.refresh()
        if reader == "evaluation":
            self._compare = "buffers" if self._compare == "none" else self._compare
            return
        self._compare = "all"
        self._of_model.due = False

    def touched(self) -> None:
        """Somebody may read the model, and write to it, by references of his own."""
        self.refresh()
        self._compare, self._of_model.due = "all", False

    def _scaler_read(self) -> None:
        """Somebody is about to read or set the scaler's state."""
        with self._gate.reading, self._lock, quietly():
            if self._job is not None and self._scaler is not None:
                self._scaler.refresh(self._job)

    def _state_read(self) -> None:
        """Somebody is about to read the optimizer's state, and may write to it afterwards."""
        self.refresh(state=True)
        self._of_state.due = False

    def _state_replaced(self) -> None:
        """A state was loaded into the client's optimizer: it counts, and not the job's."""
        with self._gate.reading, self._lock, quietly():
            for optimizer in self._optimizers:
                optimizer.attach()
                optimizer.stale.clear()
            self._replaced = True
            self._of_state.due = False


class _Calls:
    """The calls of a job. Many threads tell of theirs, without a lock: each line is one operation
    of the interpreter."""

    __slots__ = ("_inside", "_last", "ran")

    def __init__(self) -> None:
        self._inside: list[None] = []  # an entry for each call under way
        self._last = object()  # another one after each begin and end
        self.ran = False  # whether one may have written since this was reset

    def begin(self) -> None:
        self._inside.append(None)
        self._last = object()

    def end(self) -> None:
        self._last = object()
        self._inside.pop()

    def now(self) -> object:
        """This moment; None when a call is under way."""
        last = self._last
        return None if self._inside else last

    def none_since(self, moment: object) -> bool:
        """Whether no call has begun since now() gave `moment`."""
        return self._last is moment


class _Reads:
    """Who is told of reads of one kind."""

    __slots__ = ("due", "owner", "touched")

    def __init__(self, owner: Mirror, touched: Any) -> None:
        self.due = True
        self.owner = owner
        self.touched = touched
