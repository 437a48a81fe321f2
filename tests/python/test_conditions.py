"""Shows what a step looks at to tell whether a capture still holds: each change is noticed by the
next look, in words, and a change taken back is none. And that a look calls as much Python for a
model of any size."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from laneway.capture.hook_marks import without_effect
from laneway.jobs.forms.conditions import Conditions


class Watched:
    """A model with its optimizer, and the conditions that both were seen in."""

    def __init__(self, layers: int = 1) -> None:
        inner = [nn.Sequential(nn.Linear(4, 4), nn.ReLU()) for _ in range(layers)]
        self.model = nn.Sequential(nn.Linear(12, 4), *inner, nn.PReLU(), nn.Linear(4, 5))
        self.optimizer = torch.optim.AdamW(self.model.parameters())
        self.group = self.optimizer.param_groups[0]
        self.conditions = Conditions([self.model], [self.optimizer])
        self.snapshot = self.conditions.now()

    def difference(self) -> str | None:
        """What the next look finds, which every look after it must find too."""
        found = self.conditions.difference(self.snapshot)
        assert self.conditions.hold(self.snapshot) == (found is None)
        assert self.conditions.difference(self.snapshot) == found
        return found


def _named(*path: int | str) -> Callable[[Watched], Any]:
    def find(watched: Watched) -> Any:
        found: Any = watched.model
        for name in path:
            found = found[name] if isinstance(name, int) else getattr(found, name)
        return found

    return find


def _like(parameter: nn.Parameter) -> nn.Parameter:
    return nn.Parameter(parameter.detach().clone())


MODE = "modules were put into another mode by train() or eval()"
PARTS = "modules or parameters of the model were added, replaced or removed"
TRAINED = "other parameters require a gradient"
GROUP = "a group of the optimizer has other parameters"

CHANGES: dict[str, tuple[Callable[[Watched], Any], str]] = {
    "eval of a module inside": (lambda w: w.model[1][1].eval(), MODE),
    "a flag set by hand": (lambda w: setattr(w.model[1], "training", False), MODE),
    "frozen": (lambda w: w.model[1][0].bias.requires_grad_(False), TRAINED),
    "a weight that is another object with the same values": (
        lambda w: setattr(w.model[0], "weight", _like(w.model[0].weight)),
        PARTS,
    ),
    "a weight of one element, replaced by an equal one": (
        lambda w: setattr(w.model[2], "weight", _like(w.model[2].weight)),
        PARTS,
    ),
    "a bias taken away": (lambda w: setattr(w.model[0], "bias", None), PARTS),
    "a bias deleted": (lambda w: delattr(w.model[0], "bias"), PARTS),
    "a weight replaced behind the module": (
        lambda w: w.model[0]._parameters.update(weight=_like(w.model[0].weight)),
        PARTS,
    ),
    "a parameter added to a module that has some": (
        lambda w: w.model[0].register_parameter("more", nn.Parameter(torch.zeros(1))),
        PARTS,
    ),
    "a parameter added to a module without any": (
        lambda w: w.model[1][1].register_parameter("more", nn.Parameter(torch.zeros(1))),
        PARTS,
    ),
    "a module without parameters replaced": (
        lambda w: w.model[1].__setitem__(1, nn.Tanh()),
        PARTS,
    ),
    "a module appended": (lambda w: w.model.append(nn.Identity()), PARTS),
    "a module added to one without any": (
        lambda w: w.model[1][1].add_module("more", nn.Identity()),
        PARTS,
    ),
    "a module taken out": (lambda w: w.model.__delitem__(1), PARTS),
    "a hyperparameter": (
        lambda w: w.group.update(weight_decay=0.5),
        "weight_decay of the optimizer or scaler is 0.5 and was 0.01",
    ),
    "a hyperparameter taken away": (
        lambda w: w.group.pop("eps"),
        "the optimizer or scaler has no 'eps' any more",
    ),
    "a group": (
        lambda w: w.optimizer.add_param_group({"params": [nn.Parameter(torch.zeros(2))]}),
        "an optimizer has other groups",
    ),
    "a group's parameter taken out": (lambda w: w.group["params"].pop(), GROUP),
    "a group's parameter replaced": (
        lambda w: w.group["params"].__setitem__(0, _like(w.group["params"][0])),
        GROUP,
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_each_change_is_noticed_by_the_next_look(change: str) -> None:
    watched = Watched()
    assert watched.difference() is None
    make, expected = CHANGES[change]
    make(watched)
    assert watched.difference() == expected
    watched.snapshot = watched.conditions.now()
    assert watched.difference() is None, "it is the new state of things"


def test_what_may_change_between_iterations_does_not_count() -> None:
    """The learning rate, the values of weights and buffers, gradients, and a scheduler's notes."""
    watched = Watched()
    watched.group.update(lr=0.5, initial_lr=0.1)
    with torch.no_grad():
        for parameter in watched.model.parameters():
            parameter.add_(1)
            parameter.grad = torch.ones_like(parameter)
    watched.optimizer.load_state_dict(watched.optimizer.state_dict())  # makes groups anew
    assert watched.difference() is None


def test_without_flags_only_parts_and_hooks_count() -> None:
    """As for inferences, whose capture sets the mode and takes no gradients."""
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    conditions = Conditions([model], flags=False)
    snapshot = conditions.now()
    model.eval().requires_grad_(False)
    assert conditions.difference(snapshot) is None
    model[1] = nn.Tanh()
    assert conditions.difference(snapshot) == PARTS


def test_a_change_that_is_taken_back_is_none() -> None:
    watched = Watched()
    weight, child = watched.model[0].weight, watched.model[1]
    watched.model.eval()
    watched.model[0].weight, watched.model[1] = _like(weight), nn.Identity()
    weight.requires_grad_(False)
    assert watched.difference() is not None
    watched.model[0].weight, watched.model[1] = weight, child
    watched.model.train()
    weight.requires_grad_(True)
    assert watched.difference() is None


def test_a_list_that_is_changed_in_place_is_noticed() -> None:
    watched = Watched()
    watched.group["betas"] = [0.9, 0.99]
    watched.snapshot = watched.conditions.now()
    watched.group["betas"][0] = 0.5
    assert (
        watched.difference()
        == "betas of the optimizer or scaler is [0.5, 0.99] and was [0.9, 0.99]"
    )


def test_a_mode_that_a_class_computes_is_asked_for() -> None:
    class Frozen(nn.BatchNorm1d):
        training = property(lambda self: self.mode, lambda self, mode: None)
        mode = False

    model = nn.Sequential(nn.Linear(3, 3), Frozen(3))
    conditions = Conditions([model])
    snapshot = conditions.now()
    assert conditions.difference(snapshot) is None
    model[1].mode = True
    assert conditions.difference(snapshot) == MODE


HOOKS: dict[str, Callable[[Watched], Any]] = {
    "before a module": lambda w: w.model[1][1].register_forward_pre_hook(_hook),
    "after a module": lambda w: w.model[0].register_forward_hook(_hook),
    "before a module's backward": lambda w: w.model[0].register_full_backward_pre_hook(_hook),
    "after a module's backward": lambda w: w.model[0].register_full_backward_hook(_hook),
    "on a gradient": lambda w: w.model[0].weight.register_hook(_hook),
    "after a gradient is there": (
        lambda w: w.model[0].weight.register_post_accumulate_grad_hook(_hook)
    ),
    "before a step": lambda w: w.optimizer.register_step_pre_hook(_hook),
    "after a step": lambda w: w.optimizer.register_step_post_hook(_hook),
    "after every module": lambda w: nn.modules.module.register_module_forward_hook(_hook),
}


def _hook(*_: Any) -> None:
    return None


@pytest.mark.parametrize("place", HOOKS)
def test_hooks_that_come_and_go_are_noticed(place: str) -> None:
    watched = Watched()
    handle = HOOKS[place](watched)
    try:
        assert watched.difference() == "hooks were added or removed"
        before, watched.snapshot = watched.snapshot, watched.conditions.now()
        assert watched.difference() is None
    finally:
        handle.remove()
    assert watched.difference() == "hooks were added or removed"
    watched.snapshot = before
    assert watched.difference() is None


def test_hooks_elsewhere_and_hooks_without_effect_do_not_count() -> None:
    watched, other = Watched(), nn.Linear(2, 2)
    other.register_forward_hook(_hook)
    handle = watched.model.register_forward_pre_hook(without_effect(lambda *_: None))
    assert watched.difference() is None
    handle.remove()
    assert watched.difference() is None
    watched.model.register_forward_hook(_hook)
    assert watched.difference() == "hooks were added or removed"


def test_a_look_calls_as_much_python_for_a_large_model_as_for_a_small_one() -> None:
    """Modules and parameters are looked at without a call of Python for one of them."""
    assert _calls(Watched(layers=1)) == _calls(Watched(layers=40)) > 0


def _calls(watched: Watched) -> int:
    count = 0

    def profile(frame: Any, event: str, _: Any) -> None:
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        holds = watched.conditions.hold(watched.snapshot)
    finally:
        sys.setprofile(before)
    assert holds
    return count
