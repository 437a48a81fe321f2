"""ModelMirror: the tensors of the client's model, as they follow the slots of a job."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Any

import torch
from torch.nn.parameter import is_lazy

from laneway.errors import InvalidInput
from laneway.graph.slots import OtherImage, Path, Slot, SlotTensor
from laneway.jobs.calls import slot_bytes
from laneway.jobs.calls.job import Job
from laneway.jobs.watch.watched import WatchedTensors, Watcher, unwatch, watch

_version_of = attrgetter("_version")
_address_of = torch.Tensor.data_ptr

_HOLDERS = ("_parameters", "_buffers")


def check_watchable(model: torch.nn.Module) -> None:
    """Raises InvalidInput for a model of tensors whose writes torch does not count."""
    for named in (model.named_parameters(), model.named_buffers()):
        for name, tensor in named:
            _check_counted(name, tensor)


def _check_counted(name: str, tensor: torch.Tensor) -> None:
    if not is_lazy(tensor) and tensor.is_inference():
        raise InvalidInput(
            f"{name}, a tensor of the model, was made under torch.inference_mode(): torch does not "
            "count what is written to such a tensor, so the job could not follow it; make the "
            'model outside of inference_mode, or give sync="manual" for weights that stay'
        )


@dataclasses.dataclass(frozen=True)
class _Entry:
    """The client's tensor holder[key], which lies in slot number `slot` as `described`."""

    slot: int
    described: SlotTensor
    holder: dict[str, Any]
    key: str
    is_buffer: bool

    def tensor(self) -> torch.Tensor:
        """Raises OtherImage when the holder has none any more."""
        found = dict.get(self.holder, self.key)
        if found is None:
            raise OtherImage(
                f"{'/'.join(map(str, self.described.path))} was taken out of its module (by a "
                "parametrisation, weight_norm or pruning?) while a job has the model",
                remedy="make a new step for the changed model, or change it back",
            )
        return found


class ModelMirror:
    """`roots` are the modules with the first part of their paths. Not thread-safe: its owner
    serialises the calls, inside quietly()."""

    def __init__(self, roots: list[tuple[str, torch.nn.Module]], watcher: Watcher) -> None:
        self._roots = roots
        self._watcher = watcher
        self._entries: list[_Entry] = []
        self._slots: list[Slot] = []
        self.stale: set[int] = set()  # the slots that the job has written and the client not seen
        # The client's tensors, and how often torch has counted a write, and where they lie.
        self._tensors: list[torch.Tensor] = []
        self._seen: tuple[list[int], list[int]] = ([], [])

    def attach(
        self, slots: list[Slot], others: list[torch.Tensor], bring_up_to_date: Callable[[], None]
    ) -> None:
        """Watches the modules as they are now. A tensor that was there before and is another object
        now counts as written; where it was in another place before, it is brought up to date first.
        `others` are parameters that an optimizer alone has."""
        entries = [*self._found(slots, others)]
        if self._moved(entries):
            bring_up_to_date()
        before = {e.described.path: t for e, t in zip(self._entries, self._tensors)}
        known = dict(zip(map(id, self._tensors), zip(*self._seen)))
        self._slots, self._entries = slots, entries
        self._tensors = [entry.tensor() for entry in self._entries]
        for entry, tensor in zip(self._entries, self._tensors):
            _check_counted("/".join(map(str, entry.described.path)), tensor)
        seen = [
            known.get(id(tensor), (tensor._version, tensor.data_ptr()))
            if before.get(entry.described.path, tensor) is tensor
            else (-1, 0)
            for entry, tensor in zip(self._entries, self._tensors)
        ]
        self._seen = [version for version, _ in seen], [address for _, address in seen]

    def _moved(self, entries: list[_Entry]) -> bool:
        """Whether a tensor of the modules has another place now than when it was seen last."""
        before = {e.described.path: t for e, t in zip(self._entries, self._tensors)}
        known = set(map(id, self._tensors))
        pairs = ((entry.described.path, entry.tensor()) for entry in entries)
        return any(id(t) in known and before.get(path, t) is not t for path, t in pairs)

    def detach(self) -> None:
        """Watches the modules no more."""
        for _, root in self._roots:
            for module in root.modules():
                for attribute in _HOLDERS:
                    plain = unwatch(module.__dict__[attribute], dict, self._watcher)
                    module.__dict__[attribute] = plain
        self._entries, self._tensors, self._seen = [], [], ([], [])

    def watchers(self) -> list[Watcher]:
        """All who watch a part of the modules."""
        holders = {id(e.holder): e.holder for e in self._entries}.values()
        found = [w for h in holders if isinstance(h, WatchedTensors) for w in h.watchers]
        return list({id(w): w for w in found}.values())

    def parameters(self) -> dict[Path, torch.Tensor]:
        """The client's parameters by their paths."""
        pairs = zip(self._entries, self._tensors)
        return {entry.described.path: t for entry, t in pairs if not entry.is_buffer}

    def is_untouched(self) -> bool:
        """Whether no tensor was written, by torch's count, or given other memory."""
        versions, addresses = self._seen
        return [*map(_version_of, self._tensors)] == versions and [
            *map(_address_of, self._tensors)
        ] == addresses

    def refresh(self, job: Job) -> None:
        """Brings the client's tensors up to date, but not those that the client has replaced since.
        Needs no lock against captures: it uses the tensors that it saw last."""
        placed: dict[int, list[slot_bytes.Placed]] = {}
        versions, addresses = self._seen
        replaced = {
            entry.slot
            for entry, tensor, address in zip(self._entries, self._tensors, addresses)
            if tensor.data_ptr() != address
        }
        for entry, tensor in zip(self._entries, self._tensors):
            if entry.slot in self.stale and entry.slot not in replaced:
                placed.setdefault(entry.slot, []).append((entry.described, tensor))
        slot_bytes.read_into(job, placed, self._slots)
        self.stale &= replaced
        for position, entry in enumerate(self._entries):
            if entry.slot in placed:
                versions[position] = self._tensors[position]._version

    def push(self, job: Job, compare: str, moving: set[int]) -> None:
        """Gives the job what the client wrote: what torch counted, and, of "all" tensors, of
        "buffers" or of "none", what has other bytes than the job; not in slots that are `moving`,
        because an iteration may be writing them. Raises InvalidInput, and the job is as it was, for
        a tensor that does not fit, or was written while it had old values."""
        written = self._written()
        for entry, replaced in written:
            if entry.slot in self.stale and not replaced:
                raise InvalidInput(f"{self._name(entry)} was written " + self._why_refused())
        if any(replaced for _, replaced in written):
            self._check_ties()
        numbers = {entry.slot for entry, _ in written}
        compared = {
            entry.slot
            for entry in self._entries
            if compare == "all" or (compare == "buffers" and entry.is_buffer)
        }
        compared -= numbers | self.stale | moving
        if compared:
            numbers.update(slot_bytes.differing(job, self._placed(compared), self._slots))
        if numbers:
            names = {e.slot: self._name(e) for e in self._entries}
            slot_bytes.write_from(job, self._placed(numbers), self._slots, names)
            self.stale -= numbers
        self.note()

    def note(self) -> None:
        """Takes the client's tensors as they are for known."""
        self._tensors = [entry.tensor() for entry in self._entries]
        self._seen = [*map(_version_of, self._tensors)], [*map(_address_of, self._tensors)]

    def _written(self) -> list[tuple[_Entry, bool]]:
        """The tensors that were written, and whether each has another memory now."""
        found: list[tuple[_Entry, bool]] = []
        for entry, known, version, address in zip(self._entries, self._tensors, *self._seen):
            tensor = entry.tensor()
            replaced = tensor is not known or tensor.data_ptr() != address
            if replaced or tensor._version != version:
                found.append((entry, replaced))
        return found

    def _check_ties(self) -> None:
        """Raises OtherImage when tensors share memory and their slots do not, or the reverse."""
        of_storage: dict[int, int] = {}
        of_slot: dict[int, int] = {}
        for entry in self._entries:
            storage = entry.tensor().untyped_storage()._cdata
            if of_storage.setdefault(storage, entry.slot) != entry.slot or (
                of_slot.setdefault(entry.slot, storage) != storage
            ):
                raise OtherImage(
                    f"{self._name(entry)} shares memory with other tensors of the model than in "
                    "the job",
                    remedy="tie and untie weights before the first call, or make a new step",
                )

    def _why_refused(self) -> str:
        if len(self.watchers()) > 1:
            return (
                "by another step of this model, which ran at the same time: call one after the "
                "other has its result, or make one step of both"
            )
        return (
            "through a reference from before the last iteration, while its values were older than "
            "the job's: read it through the model before it is changed (model.parameters(), "
            "model.state_dict())"
        )

    def _placed(self, numbers: set[int]) -> dict[int, list[slot_bytes.Placed]]:
        placed: dict[int, list[slot_bytes.Placed]] = {}
        for entry in self._entries:
            if entry.slot in numbers:
                placed.setdefault(entry.slot, []).append((entry.described, entry.tensor()))
        return placed

    def _found(self, slots: list[Slot], others: list[torch.Tensor]) -> Iterator[_Entry]:
        by_path = {t.path: (slot.index, t) for slot in slots for t in slot.tensors}
        for root, module in self._modules():
            for attribute in _HOLDERS:
                holder = module.__dict__[attribute]
                if not holder:
                    continue
                holder = watch(holder, WatchedTensors, self._watcher)
                module.__dict__[attribute] = holder
                for key, tensor in dict.items(holder):
                    found = by_path.get((root[0], f"{root[1]}{key}"))
                    if tensor is not None and found is not None:
                        yield _Entry(*found, holder, key, attribute == "_buffers")
        for index, parameter in enumerate(others):
            found = by_path.get(("optimizer", index, "parameter"))
            if found is not None:
                yield _Entry(*found, {"parameter": parameter}, "parameter", False)

    def _modules(self) -> Iterator[tuple[tuple[str, str], torch.nn.Module]]:
        for first, root in self._roots:
            for name, module in root.named_modules():
                yield (first, f"{name}." if name else ""), module

    def _name(self, entry: _Entry) -> str:
        path = entry.described.path
        return repr(path[-1]) if path[0] == "model" else "/".join(map(str, path))
