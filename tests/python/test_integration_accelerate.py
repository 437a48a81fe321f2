"""LanewayAccelerator against Accelerate's own loop on the CPU: losses, norms, weights and saved
states are equal, bit for bit, and each loads what the other saved."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import accelerate
import pytest
import torch
from accelerate.state import AcceleratorState, GradientState, PartialState
from torch import nn
from torch.nn import functional as F

import laneway
from laneway.integrations.accelerate import LanewayAccelerator
from support.eager import assert_same


def forget() -> None:
    """Accelerators of one process share their state."""
    for kind in (AcceleratorState, GradientState, PartialState):
        kind._reset_state()


@pytest.fixture(autouse=True)
def no_state_of_other_tests():
    forget()
    yield
    forget()


class Loop:
    """A training with Accelerate. `service`: its body is an iteration; None: as it stands."""

    def __init__(self, service: Any, clip: float | None = 0.1, **options: Any) -> None:
        forget()
        kind = accelerate.Accelerator if service is None else LanewayAccelerator
        self.accelerator = kind(**({"cpu": True} | options))
        torch.manual_seed(3)
        model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Dropout(), nn.Linear(16, 4))
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
        x, y = torch.randn(22, 8), torch.randint(0, 4, (22,))
        rows = torch.utils.data.TensorDataset(x, y)
        loader = torch.utils.data.DataLoader(rows, batch_size=4, shuffle=True)
        prepared = self.accelerator.prepare(model, optimizer, scheduler, loader)
        self.model, self.optimizer, self.scheduler, self.loader = prepared
        self.clip = clip
        self.logged: list[Any] = []
        self.body: Callable[..., Any] = self.train
        if service is not None:
            decorator = self.accelerator.iteration(self.model, self.optimizer, service=service)
            self.body = decorator(self.train)

    def train(self, x: torch.Tensor, y: torch.Tensor) -> Any:
        loss, norm = F.cross_entropy(self.model(x), y), None
        self.accelerator.backward(loss)
        if self.accelerator.sync_gradients and self.clip is not None:
            norm = self.accelerator.clip_grad_norm_(self.model.parameters(), self.clip)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss.detach(), norm

    def run(self, epochs: int = 1) -> Loop:
        for _ in range(epochs):
            self.model.train()
            for x, y in self.loader:
                with self.accelerator.accumulate(self.model):
                    self.logged.append(self.body(x, y))
                    self.scheduler.step()
            self.model.eval()
            with torch.no_grad():
                self.logged.append(self.model(torch.ones(2, 8)))
        return self

    def state(self) -> dict[str, Any]:
        return {
            "logged": self.logged,
            "model": dict(self.accelerator.get_state_dict(self.model)),
            "unwrapped": dict(self.accelerator.unwrap_model(self.model).state_dict()),
            "optimizer": self.optimizer.state_dict(),
            "scheduler": self.scheduler.state_dict(),
            "random": torch.get_rng_state(),
        }


def states(folder: pathlib.Path) -> dict[str, Any]:
    """The files of save_state, as bytes or as what they hold."""
    found: dict[str, Any] = {}
    for path in sorted(folder.iterdir()):
        if path.suffix in (".bin", ".pt"):
            found[path.name] = torch.load(path, weights_only=False)
        elif path.suffix == ".pkl":
            found[path.name] = torch.load(path, weights_only=False)["torch_manual_seed"]
        else:
            found[path.name] = path.read_bytes()
    return found


def run_both(service: Any, epochs: int = 1, **options: Any) -> tuple[Loop, Loop]:
    """(ours, theirs)"""
    theirs = Loop(None, **options).run(epochs)
    expected = theirs.state()
    ours = Loop(service, **options).run(epochs)
    assert_same(expected, ours.state(), "state")
    return ours, theirs


def test_clipping_a_schedule_and_an_evaluation(service: Any) -> None:
    ours, _ = run_both(service, epochs=2)
    norms = [norm for entry in ours.logged if isinstance(entry, tuple) for norm in entry[1:]]
    assert len(norms) == 12 and min(norms) > 0.1
    ours.accelerator.end_training()
    assert service.status()["jobs"][-1]["iterations"] == 12


@pytest.mark.parametrize("clip", [None, 0.1])
def test_accumulation(service: Any, clip: float | None) -> None:
    """Six batches in groups of four: the last group of an epoch has two."""
    ours, _ = run_both(service, epochs=2, clip=clip, gradient_accumulation_steps=4)
    assert ours.optimizer.state_dict()["state"][0]["step"] == 4


def test_bf16(service: Any) -> None:
    run_both(service, mixed_precision="bf16")


@pytest.mark.parametrize("ours_first", [True, False])
def test_each_goes_on_from_what_the_other_saved(
    tmp_path: pathlib.Path, service: Any, ours_first: bool
) -> None:
    """And the job takes what is loaded in the middle of its training."""
    folders = {}
    for given in (None, service):
        loop = Loop(given).run()
        folders[given is None] = tmp_path / str(given is None)
        loop.accelerator.save_state(str(folders[given is None]))
    assert_same(states(folders[True]), states(folders[False]), "saved")
    ends = []
    for given in (None, service):
        loop = Loop(given).run(2)
        loop.accelerator.load_state(str(folders[ours_first is (given is not None)]))
        loop.logged = []
        ends.append(loop.run().state())
    assert_same(*ends, "state")


def test_save_model(tmp_path: pathlib.Path, service: Any) -> None:
    for given in (None, service):
        loop = Loop(given).run()
        loop.accelerator.save_model(loop.model, str(tmp_path / str(given is None)))
    files = [(tmp_path / str(eager) / "model.safetensors").read_bytes() for eager in (True, False)]
    assert files[0] == files[1]


@pytest.mark.parametrize("end", ["end_training", "free_memory"])
def test_the_end_leaves_the_weights(service: Any, end: str) -> None:
    expected = Loop(None).run().state()
    loop = Loop(service).run()
    model, optimizer = loop.model, loop.optimizer
    getattr(loop.accelerator, end)()
    assert {job["state"] for job in service.status()["jobs"]} == {"finished"}
    assert_same(expected["model"], dict(model.state_dict()), "model")
    assert_same(expected["optimizer"], optimizer.state_dict(), "optimizer")


def test_submit(service: Any) -> None:
    expected, ours = Loop(None), Loop(service)
    batches = [(torch.randn(4, 8), torch.randint(0, 4, (4,))) for _ in range(3)]
    torch.manual_seed(5)
    losses = [expected.body(*batch) for batch in batches]
    torch.manual_seed(5)
    futures = [ours.body.submit(*batch) for batch in batches]
    assert_same(losses, [future.result() for future in futures], "losses")


def test_a_body_in_the_loop_is_refused(service: Any) -> None:
    loop = Loop(service)
    loss = loop.model(torch.randn(4, 8)).sum()
    for call in (
        lambda: loop.accelerator.backward(loss),
        lambda: loop.accelerator.clip_grad_norm_(loop.model.parameters(), 1.0),
        lambda: loop.accelerator.clip_grad_value_(loop.model.parameters(), 1.0),
    ):
        with pytest.raises(laneway.InvalidInput, match=r"outside of an iteration .* decorate it"):
            call()


def test_accumulate_inside_is_refused(service: Any) -> None:
    loop = Loop(service)

    @loop.accelerator.iteration(loop.model, loop.optimizer, service=service)
    def train(x: torch.Tensor, y: torch.Tensor) -> Any:
        with loop.accelerator.accumulate(loop.model):
            return loop.train(x, y)

    with pytest.raises(laneway.InvalidInput, match="put it around the call"):
        train(torch.randn(4, 8), torch.randint(0, 4, (4,)))


def test_what_else_is_refused(service: Any) -> None:
    loop = Loop(service)
    with pytest.raises(laneway.InvalidInput, match="AdamW, not prepared"):
        loop.accelerator.iteration(loop.model, loop.optimizer.optimizer)
    with pytest.raises(laneway.InvalidInput, match="closure is set by LanewayAccelerator"):
        loop.accelerator.iteration(loop.model, loop.optimizer, closure=print)
