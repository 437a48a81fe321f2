"""The user's model and optimizer on fake tensors, ready to be run once under a recorder."""

from __future__ import annotations

import contextlib
import logging
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.nn.parameter import is_lazy
from torch.optim import Optimizer

from laneway.capture import (
    fake_questions,
    loss_scaling,
    optimizers,
    random_state,
    side_effects,
    survivors,
    texts,
)
from laneway.capture.effects import Effects
from laneway.capture.fake_failures import data_wanted
from laneway.capture.input_gradients import InputGradients
from laneway.capture.kept_gradients import Gradients
from laneway.capture.left_values import Left
from laneway.capture.model_checks import check_module
from laneway.capture.module_swap import swapped
from laneway.capture.optimizers import OptimizerLayout, StateTensor
from laneway.capture.recorder import Recorder
from laneway.capture.tensor_attributes import TensorAttributes
from laneway.capture.use_watch import Watch
from laneway.capture.user_lines import wants_data
from laneway.capture.uses import Uses
from laneway.cuda import cuda_decisions, cuda_forms
from laneway.errors import CaptureError
from laneway.graph.graph_ir import SlotKind
from laneway.graph.slots import OtherImage, Path, SlotTable
from laneway.graph.target import Target
from laneway.operators import number_forms, whole_operators

_FAKE_LOGGER = logging.getLogger("torch._subclasses.fake_tensor")


class _CaptureMode(FakeTensorMode):
    """A fake mode that does not change torch's table of device guards. A fake mode without a device
    would enter the guard of the thread that enters the mode. That guard ends with its thread, and
    the next use of the table crashes. If autograd's engine starts after that, it starts a thread
    for each such guard, so that torch refuses every backward() in children made by fork()."""

    @property
    def avoid_device_init(self) -> bool:
        return False  # all tensors of a capture are on the CPU


def new_fake_mode() -> FakeTensorMode:
    """The fake mode of a capture."""
    return _CaptureMode(allow_non_fake_inputs=True)


class FakeJob:
    """One per capture. `modules` are (name, module); their tensors become slots in order.
    `kept_gradients` are the paths of parameters whose gradients are state: see Gradients."""

    def __init__(
        self,
        fake_mode: FakeTensorMode,
        slots: SlotTable,
        modules: list[tuple[str, torch.nn.Module]],
        kept_gradients: frozenset[Path] | None = frozenset(),
        target: Target = Target.cpu,
        shares_random: bool = False,
    ) -> None:
        for _, module in modules:
            check_module(module)
        self.recorder = Recorder(fake_mode, slots, target, shares_random)
        survivors.note(self)
        self._target = target
        self.scaler: loss_scaling.CapturedScaler | None = None  # the scaler that run() found
        self.gradients = Gradients(self.recorder, kept_gradients)
        self.input_gradients = InputGradients(self.recorder, (), ())  # of the step that run() runs
        self._stepped: set[int] = set()  # the ids of the copies of optimizers that took a step
        self.modules = modules
        self._optimizers: list[tuple[Optimizer, Optimizer]] = []  # the user's, its copy
        self.modes: side_effects.Modes = []  # training flags that it changed
        self.left: list[Left] = []  # attributes that it set to what it computed
        self.uses = Uses([], [])  # what run() used of Python
        self._fakes: dict[int, torch.Tensor] = {}  # id of a real tensor -> its fake
        self._path_of: dict[int, Path] = {}  # id of a real tensor -> its first path
        self._real: list[torch.Tensor] = []  # keeps those ids taken
        self._by_path: dict[tuple, torch.Tensor] = {}
        self._storages: dict[Path, int] = {}
        self._rebound: list[tuple[torch.Tensor, torch.Tensor]] = []
        for prefix, module in modules:
            for name, tensor in module.named_parameters(remove_duplicate=False):
                if not is_lazy(tensor):
                    self._add(tensor, (prefix, name), SlotKind.parameter)
            for name, tensor in module.named_buffers(remove_duplicate=False):
                if not is_lazy(tensor):
                    self._add(tensor, (prefix, name), SlotKind.buffer)

        self._check_ties()

    def _check_ties(self) -> None:
        """Raises OtherImage when tensors of the modules share memory otherwise than in the job."""
        slots = self.recorder.slots
        of_storage: dict[int, int] = {}
        of_slot: dict[int, int] = {}
        for path in self._by_path:
            slot, storage = slots.find_path(path).index, self._storages[path]
            if of_storage.setdefault(storage, slot) != slot or (
                of_slot.setdefault(slot, storage) != storage
            ):
                raise OtherImage(
                    f"{path[-1]!r} of the model shares memory with other tensors than in the job",
                    remedy="tie and untie weights before the first call, or make a new step",
                )

    def add_optimizer(
        self, optimizer: Optimizer, prefix: Path
    ) -> tuple[OptimizerLayout, Optimizer]:
        """Slots for the optimizer's state, whose paths begin with `prefix`, and its copy on
        fakes."""
        for index, parameter in enumerate(optimizers.parameters_of(optimizer)):
            if id(parameter) not in self._fakes:
                self._add(parameter, (*prefix, index, "parameter"), SlotKind.parameter)
        layout, tensors = optimizers.add_state_slots(optimizer, self.recorder.slots, prefix)
        copied = optimizers.copy_optimizer(optimizer)
        optimizers.replace_parameters(copied, self._fakes)
        state: dict[Any, dict[str, Any]] = {}
        for index, parameter in enumerate(optimizers.parameters_of(copied)):
            if index in layout.entries:
                state[parameter] = {
                    key: self._fake(tensors[index, key], (*prefix, index, key))
                    if (index, key) in tensors
                    else entry
                    for key, entry in layout.entries[index].items()
                }
        copied.__dict__["state"] = optimizers.state_holder(state)
        copied.__dict__["step"] = types.MethodType(self._phased_step(copied), copied)
        self._optimizers.append((optimizer, copied))
        return layout, copied

    def stepped(self) -> list[bool]:
        """Of each optimizer, whether it took a step."""
        return [id(copied) in self._stepped for _, copied in self._optimizers]

    def leaves_gradients(self) -> bool:
        """Whether the step left a gradient that something after the step may want: no optimizer
        took a step, and the step did not write the parameter itself."""
        if self._stepped:
            return False
        table = self.recorder.table
        written = {table.values[v].storage for node in self.recorder.nodes for v in node.writes}
        left = (table.find(parameter) for parameter in self.gradients.left())
        return any(table.values[value].storage not in written for value in left)

    def slots_for_later(self, layouts: list[OptimizerLayout]) -> set[int]:
        """Slots of state that this step may not use and a later call may be the first to use: for
        the parameters whose gradients are state, and of an optimizer that took no step beside one
        that did."""
        kept, stepped = self.gradients.kept_paths(), self.stepped()
        return {
            entry.slot
            for (optimizer, _), layout, took_step in zip(self._optimizers, layouts, stepped)
            for index, parameter in enumerate(optimizers.parameters_of(optimizer))
            if (any(stepped) and not took_step) or self._path_of[id(parameter)] in kept
            for entry in layout.entries.get(index, {}).values()
            if isinstance(entry, StateTensor)
        }

    def run(self, step: Callable[[], Any], functions: Iterable[Any] = ()) -> Any:
        """Runs step() with the modules on fakes, and records it. `functions` are those of the
        user's that step() calls. No Python state that they can reach stays changed."""
        modules = [module for _, module in self.modules]
        own = [optimizer for optimizer, _ in self._optimizers]
        with swapped(modules, self._fakes, own), _quiet(_FAKE_LOGGER):
            pairs = [(real, self._fakes[id(real)]) for real in self._real]
            attributes = TensorAttributes(pairs, self.recorder.table.given)
            used = self._optimizers, self._fakes, attributes
            watch = Watch(modules, functions, self.recorder, *used)
            effects = Effects(watch)
            try:
                with watch.telling():
                    result = self._run(step, modules)
                self.uses = effects.settle(self.recorder)
                self.left = effects.left
            finally:
                effects.restore()
                watch.end()
        return result

    def _run(self, step: Callable[[], Any], modules: list[torch.nn.Module]) -> Any:
        recorder = self.recorder
        watch = loss_scaling.Watch(recorder)
        for real in self._real:
            if self._path_of[id(real)][0] == "optimizer":
                recorder.constants.forbid(
                    real,
                    "a tensor that an optimizer has and no module of the step, by a reference of "
                    "its own",
                    "put it into a module that the step is given among its models "
                    "(torch.nn.ParameterDict), and use it through that module",
                )
            else:
                recorder.constants.forbid(
                    real, "a tensor of the model through a reference from outside of it"
                )
        # An operator that fails on fakes raises an error in the client; a log line is not needed.
        modes = side_effects.modes(modules)
        copies = [copied for _, copied in self._optimizers]
        records = torch.is_grad_enabled()  # as around the call; leaving inference_mode sets it
        try:
            with (
                self._standing_in(),
                side_effects.own_optimizers(copies, self._fakes),
                side_effects.same_hyperparameters(copies),
                torch.inference_mode(False),
                torch.set_grad_enabled(records),
                recorder.fake_mode,
                recorder,
                _as_on(self._target),
                whole_operators.kept_whole(),
                fake_questions.denied(),
                number_forms.in_place,
                random_state.served_by(recorder),
                texts.refused_by(recorder),
                loss_scaling.watched_by(watch),
            ):
                result = step()
                self.scaler = watch.finish()
            if recorder.ignored is not None:
                raise recorder.ignored
        except CaptureError:
            raise
        except Exception as error:
            cause = error.__cause__ or error.__context__
            if isinstance(cause, CaptureError):
                raise cause from error
            if wants_data(error):
                raise data_wanted(error) from error
            raise
        self._note_rebound_buffers()
        self.modes = side_effects.changed_modes(modes)
        return result

    def write_rebound_buffers(self) -> None:
        """Adds the writes of buffers that the step assigned anew to the end of the graph."""
        self.recorder.phase = "tail"
        with torch.no_grad(), self.recorder.fake_mode, self.recorder:
            # All are cloned first: each may be a view of a buffer with old contents of another.
            copies = [(target, source.clone()) for target, source in self._rebound]
            for target, source in copies:
                target.copy_(source)

    def write_gradients(self) -> dict[Path, bool]:
        """Adds the writes of kept gradients to the end of the graph. Returns the result of
        Gradients.write_back."""
        self.recorder.phase = "tail"
        return self.gradients.write_back()

    def end(self) -> None:
        """Lets go of all fakes."""
        for _, copied in self._optimizers:
            copied.__dict__.clear()
        for held in (self._optimizers, self._fakes, self._by_path, self._rebound, self.left):
            held.clear()
        self.recorder.constants.end()

    def _add(self, tensor: torch.Tensor, path: tuple, kind: SlotKind) -> None:
        self.recorder.slots.add(tensor, path, kind)
        self._storages[path] = tensor.untyped_storage()._cdata
        self._by_path[path] = self._fake(tensor, path)

    def _fake(self, tensor: torch.Tensor, path: Path) -> torch.Tensor:
        if id(tensor) not in self._fakes:
            slot = self.recorder.slots.find(tensor)
            fake = self.recorder.fake_mode.from_tensor(tensor, static_shapes=True)
            self.recorder.table.add_persistent(fake, slot.index, slot.nbytes)
            if fake.is_leaf and fake.requires_grad:
                self.gradients.attach(path, tensor, fake)
                copy_hooks(tensor, fake)
            self._fakes[id(tensor)] = fake
            self._path_of[id(tensor)] = path
            self._real.append(tensor)
        return self._fakes[id(tensor)]

    def _phased_step(self, copied: Optimizer) -> Callable[..., Any]:
        recorder = self.recorder

        def step(optimizer: Optimizer, closure: Any = None) -> Any:
            if closure is not None or optimizers.needs_closure(optimizer):
                raise CaptureError(
                    f"{type(optimizer).__name__}.step(closure) evaluates the model again inside "
                    "the optimizer",
                    remedy="call step() without a closure, after backward(), of an optimizer that "
                    "needs none (SGD, AdamW); or make forward and backward alone the step, with "
                    "optimizer=None, and call this optimizer outside, with a closure that gives "
                    "the step the weights (load_state_dict) and takes its gradients (sync_to)",
                )
            recorder.phase = "optimizer"
            self._stepped.add(id(copied))
            try:
                return type(copied).step(copied)
            except CaptureError as error:
                raise CaptureError(
                    f"{type(copied).__name__}.step: {error.message}",
                    operator=error.operator,
                    source=error.source,
                    remedy="use an optimizer whose step is the same operators every time: SGD, "
                    "Adam, AdamW, NAdam, RAdam, Adamax, Adafactor, Adagrad, Adadelta, ASGD, "
                    "RMSprop, Rprop, Muon",
                ) from error
            finally:
                recorder.phase = "step"

        return step

    def _standing_in(self) -> contextlib.ExitStack:
        """Inside, each of the user's optimizers has the attributes of its copy."""
        with contextlib.ExitStack() as entered:
            for optimizer, copied in self._optimizers:
                entered.enter_context(optimizers.standing_in(copied, optimizer))
            return entered.pop_all()

    def _note_rebound_buffers(self) -> None:
        for prefix, root in self.modules:
            for name, tensor in root.named_parameters(remove_duplicate=False):
                if is_lazy(tensor):
                    continue
                if tensor is not self._by_path.get((prefix, name)):
                    raise CaptureError(
                        f"the step replaces the parameter {name!r}",
                        remedy="change it in place, under torch.no_grad()",
                    )
                self.recorder.table.find(tensor)  # refuses one that was given other memory
            for name, tensor in root.named_buffers(remove_duplicate=False):
                expected = self._by_path.get((prefix, name))
                if tensor is expected or is_lazy(tensor):
                    continue
                if expected is None or not _same_layout(expected, tensor):
                    raise CaptureError(
                        f"the step gives the buffer {name!r} another shape or dtype",
                        remedy="register it with its final shape and change it in place",
                    )
                self._rebound.append((expected, tensor))


@contextlib.contextmanager
def _as_on(target: Target) -> Iterator[None]:
    """Inside, torch's decisions by device are those for the target."""
    if target is Target.cpu:
        yield
        return
    with cuda_decisions.as_for_cuda(), cuda_forms.as_on_cuda():
        yield


@contextlib.contextmanager
def _quiet(logger: logging.Logger) -> Iterator[None]:
    was_disabled, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = was_disabled


def is_captured(module: torch.nn.Module) -> bool:
    """Whether the module has fake tensors now."""
    return any(isinstance(parameter, FakeTensor) for parameter in module.parameters())


def _same_layout(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.shape == b.shape and a.dtype == b.dtype


def copy_hooks(parameter: torch.Tensor, fake: torch.Tensor) -> None:
    """Copies the hooks on a parameter's gradient to the fake. They run in every backward pass, so
    they are recorded too."""
    for hook in (parameter._backward_hooks or {}).values():
        fake.register_hook(hook)
    for hook in (getattr(parameter, "_post_accumulate_grad_hooks", None) or {}).values():
        fake.register_post_accumulate_grad_hook(hook)
