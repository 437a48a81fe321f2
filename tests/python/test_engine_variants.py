"""Shows that one step takes calls of many forms: each is captured once over the same state, every
result and the state stay those of eager, graphs that are not used any more are dropped."""

from __future__ import annotations

import copy
import gc
import threading
import warnings
from typing import Any

import pytest
import torch
from torch import nn

import laneway
from support.eager import assert_same, eager_step


class Net(nn.Module):
    """Dropout draws, batch normalisation keeps buffers, a literal is a constant of the graph."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(6, 16)
        self.norm = nn.BatchNorm1d(16)
        self.drop = nn.Dropout(0.3)
        self.last = nn.Linear(16, 3)

    def forward(self, x: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
        hidden = self.drop(self.norm(self.first(x)).relu())
        return self.last(hidden) * torch.tensor(scale) + torch.tensor([0.5, 0.25, 0.125])


class Pair:
    """A step and plain eager training of the same model, from the same random state."""

    def __init__(self, service: Any, make_optimizer: Any = None, **options: Any) -> None:
        torch.manual_seed(3)
        self.model = Net()
        make_optimizer = make_optimizer or (lambda p: torch.optim.AdamW(p, lr=0.01))
        self.twin = copy.deepcopy(self.model)
        optimizer = make_optimizer(self.model.parameters())
        self.optimizer = make_optimizer(self.twin.parameters())
        self.loss = nn.CrossEntropyLoss()
        torch.manual_seed(5)
        options = {"random": "own"} | options  # eager draws beside it
        self.step = laneway.train_step(self.model, self.loss, optimizer, service, **options)
        torch.manual_seed(5)

    def check(self, x: torch.Tensor, y: torch.Tensor) -> None:
        expected = eager_step(self.twin, self.loss, self.optimizer, (x, y))
        assert_same(expected.detach(), self.step(x, y), "loss")

    def check_state(self) -> None:
        state = self.step.state_dict()
        assert_same(dict(self.twin.state_dict()), state["model"], "model")
        assert_same(self.optimizer.state_dict()["state"], state["optimizer"]["state"], "optimizer")

    def graphs(self) -> list[dict[str, Any]]:
        return self.step.report()["graphs"]


def batch(size: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(size)
    return (
        torch.randn(size, 6, generator=generator),
        torch.randint(0, 3, (size,), generator=generator),
    )


def test_batches_of_many_sizes_train_as_in_eager(service):
    pair = Pair(service)
    for size in (8, 8, 5, 8, 2, 5, 5, 16, 8, 2):
        pair.check(*batch(size))
    pair.check_state()
    assert len(pair.graphs()) == 4
    assert [graph["iterations"] for graph in pair.graphs()] == [4, 3, 2, 1]


def test_the_variants_used_last_are_kept(service):
    pair = Pair(service, max_variants=2)
    for size in (8, 4, 8, 6, 8, 4):  # 6 pushes 4 out, 4 pushes 6 out
        pair.check(*batch(size))
    pair.check_state()
    gc.collect()
    assert [graph["number"] for graph in pair.graphs()] == [0, 3]


def test_a_dropped_first_graph_does_not_end_the_job(service):
    pair = Pair(service, max_variants=1)
    for size in (8, 4, 4, 8, 4):
        pair.check(*batch(size))
    pair.check_state()
    assert len(pair.graphs()) == 1


def test_more_shapes_than_a_job_has_room_for_never_run_out(service):
    pair = Pair(service, max_variants=3)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for size in range(2, 75):
            pair.check(*batch(size))
    pair.check_state()
    assert len(pair.graphs()) == 3
    told = [w for w in told if w.category is RuntimeWarning]
    assert len(
        told
    ) == 1 and "captured 32 times, lately because argument 0 has shape [33, 6]" in str(
        told[0].message
    )


def test_layouts_are_variants_because_eager_gives_other_bits_for_them(service):
    pair = Pair(service)
    x, y = batch(8)
    for given in (x, x.t().contiguous().t(), x[:1].expand(8, 6), torch.cat([x, x])[::2], x.neg()):
        pair.check(given, y)
    pair.check_state()


def test_other_hyperparameters_modes_and_frozen_parameters_are_captured_again(service):
    pair = Pair(service, lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9))
    changes = [
        lambda model, optimizer: optimizer.param_groups[0].update(lr=0.05),
        lambda model, optimizer: optimizer.param_groups[0].update(weight_decay=0.1),
        lambda model, optimizer: optimizer.param_groups[0].update(momentum=0.5),
        lambda model, optimizer: model.norm.eval(),
        lambda model, optimizer: model.first.requires_grad_(False),
        lambda model, optimizer: model.train(),
        lambda model, optimizer: model.first.requires_grad_(True),
    ]
    pair.check(*batch(8))
    for change in changes:
        change(pair.model, pair.step.optimizer)
        change(pair.twin, pair.optimizer)
        pair.check(*batch(8))
        pair.check(*batch(8))
    pair.check_state()
    # Not for the learning rate, and the last change leads back to a form that is known.
    assert len(pair.graphs()) == 6


def test_hooks_and_parts_of_the_model_that_change_are_captured_again(service):
    """Each was once left out in silence: the step went on as if nothing had happened."""
    pair = Pair(service, lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9))
    changes = [
        lambda model: model.first.register_forward_hook(lambda _, args, result: result * 2),
        lambda model: setattr(model, "drop", nn.Identity()),
        lambda model: model.first.weight.register_hook(lambda gradient: gradient / 4),
        lambda model: model.first._forward_hooks.clear(),
    ]
    pair.check(*batch(8))
    for number, change in enumerate(changes, start=2):
        change(pair.model)
        change(pair.twin)
        pair.check(*batch(8))
        pair.check(*batch(8))
        assert len(pair.graphs()) == number
    pair.check_state()


def test_arguments_that_are_no_tensors_are_constants_of_a_variant(service):
    torch.manual_seed(3)
    model = Net()
    twin = copy.deepcopy(model)
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in (model, twin)]

    def closure(model: Any, optimizer: Any, x: Any, y: Any, scale: float, wide: bool) -> Any:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x, scale=scale), y)
        if wide:
            loss = loss + model.last.weight.square().sum()
        loss.backward()
        optimizer.step()
        return loss

    torch.manual_seed(5)
    step = laneway.train_step(model, None, optimizers[0], service, closure=closure, random="own")
    torch.manual_seed(5)
    for scale, wide in ((1.0, False), (0.5, True), (1.0, False), (1.0, True), (0.5, True)):
        x, y = batch(8)
        expected = closure(twin, optimizers[1], x, y, scale, wide)
        assert_same(expected.detach(), step(x, y, scale, wide), "loss")
    assert_same(dict(twin.state_dict()), step.state_dict()["model"], "model")
    assert len(step.report()["graphs"]) == 3


def test_inference_takes_many_forms_and_closures(service):
    pair = Pair(service)
    pair.check(*batch(8))

    def evaluate(model: Any, x: torch.Tensor, y: torch.Tensor) -> dict[str, torch.Tensor]:
        output = model(x)
        return {
            "loss": nn.functional.cross_entropy(output, y),
            "right": output.argmax(1).eq(y).sum(),
        }

    predict = laneway.inference(pair.step)
    evaluation = laneway.inference(pair.step, closure=evaluate)
    for size in (3, 8, 1, 3):
        x, y = batch(size)
        pair.check(*batch(8))
        with torch.no_grad():
            pair.twin.eval()
            assert_same(pair.twin(x), predict(x), "output")
            assert_same(evaluate(pair.twin, x, y), evaluation(x, y), "evaluation")
            pair.twin.train()
    alone = laneway.inference(pair.twin.eval(), service=service)
    with torch.no_grad():
        for size in (3, 8, 3):
            x, _ = batch(size)
            assert_same(pair.twin(x), alone(x), "alone")
            assert_same(pair.twin(x, scale=0.5), alone(x, scale=0.5), "alone, scaled")


def test_an_inference_notices_hooks_and_parts_of_the_model_that_change(service):
    model = nn.Sequential(nn.Linear(6, 4), nn.ReLU()).eval()
    predict = laneway.inference(model, service=service)
    x, _ = batch(3)
    changes = [
        lambda: None,
        lambda: model[0].register_forward_hook(lambda _, args, result: result * 2),
        lambda: model.__setitem__(1, nn.Tanh()),
        lambda: model[0]._forward_hooks.clear(),
    ]
    for change in changes:
        change()
        with torch.no_grad():
            assert_same(model(x), predict(x), "output")


def test_state_loads_between_variants_and_from_an_optimizer_with_new_tensors(service):
    pair = Pair(service)
    pair.check(*batch(8))
    state = copy.deepcopy(pair.step.state_dict())
    pair.check(*batch(4))
    pair.step.load_state_dict(state)
    pair.twin.load_state_dict(state["model"])
    pair.optimizer.load_state_dict(state["optimizer"])
    # The client's own optimizer gets state of its own memory; the job's slots stay the job's.
    pair.step.sync_to(pair.model, pair.step.optimizer)
    torch.manual_seed(9)
    pair.step.job.write_state([], [], torch.get_rng_state())
    for size in (4, 6, 8):
        pair.check(*batch(size))
    pair.check_state()


def test_a_call_that_fails_leaves_the_variants_as_they_were(service):
    pair = Pair(service)
    pair.check(*batch(8))
    with pytest.raises(laneway.InvalidInput, match="as eager execution would"):
        pair.step(torch.ones(8, 7), batch(8)[1])
    pair.check(*batch(8))
    pair.check_state()
    assert len(pair.graphs()) == 1


def test_a_parameter_that_only_a_later_call_trains_gets_its_place(service):
    def closure(model: Any, optimizer: Any, x: torch.Tensor, which: str) -> torch.Tensor:
        optimizer.zero_grad()
        loss = model[which](x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    torch.manual_seed(0)
    model = nn.ModuleDict({"a": nn.Linear(4, 4), "b": nn.Linear(4, 4)})
    twin = copy.deepcopy(model)
    optimizer = torch.optim.AdamW(model.parameters())
    twins = torch.optim.AdamW(twin.parameters())
    step = laneway.train_step(model, None, optimizer, service, closure=closure)
    x = torch.ones(2, 4)
    for which in ("a", "a", "b", "a", "b"):
        assert_same(closure(twin, twins, x, which).detach(), step(x, which))
    assert_same(twin.state_dict(), model.state_dict())
    assert_same(twins.state_dict(), optimizer.state_dict())


def test_threads_may_call_one_step_with_other_shapes_each(service):
    torch.manual_seed(3)
    model = nn.Linear(6, 4)
    # Means over 2^n elements: gradients are exactly one, so the order of steps does not matter.
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)

    def closure(model: Any, optimizer: Any, x: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = (model(x) * 0.0 + model.weight.sum() * 0.0 + model.bias.sum()).mean()
        loss.backward()
        optimizer.step()
        return loss

    step = laneway.train_step(model, None, optimizer, service, closure=closure, max_variants=2)
    bias = model.bias.detach().clone()
    failures: list[BaseException] = []

    def work(size: int) -> None:
        try:
            for _ in range(20):
                step(torch.ones(size, 6))
        except BaseException as error:
            failures.append(error)

    step(torch.ones(1, 6))
    threads = [threading.Thread(target=work, args=(size,)) for size in (2, 4, 8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    expected = bias.clone()
    for _ in range(61):
        expected -= 1.0
    assert_same(expected, step.state_dict()["model"]["bias"], "bias")


def test_a_capture_in_another_thread_is_not_taken_for_a_change(service):
    pair = Pair(service)
    pair.check(*batch(8))
    predict = laneway.inference(pair.step)
    failures: list[BaseException] = []

    def infer() -> None:
        try:
            for size in range(1, 6):  # each puts the model into evaluation mode for its capture
                predict(batch(size)[0])
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=infer)
    thread.start()
    while thread.is_alive():
        pair.check(*batch(8))
    thread.join()
    assert not failures
    pair.check_state()
    assert len(pair.graphs()) == 1 + 5


def test_a_graph_that_takes_the_place_of_a_dropped_one_is_run_as_itself(service):
    """Numbers of graphs, rooms for inputs and queued requests are used again; graphs are not."""
    model = torch.nn.Linear(6, 6)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with laneway.train_step(model, torch.nn.functional.mse_loss, optimizer, service) as step:
        step(torch.ones(4, 6), torch.ones(4, 6))
        model.eval()
        futures, expected = [], []
        for number, rows in enumerate([2, 4, 3, 5] * 6):
            factor, x = number + 1.0, torch.linspace(-1, 1, rows * 6).reshape(rows, 6)
            scaled = laneway.inference(step, closure=lambda net, z, f=factor: net(z) * f)
            if number < 12:
                assert torch.equal(scaled(x), model(x).detach() * factor)
            else:
                expected.append(model(x).detach() * factor)
                futures.append(scaled.submit(x))
            del scaled  # and its graph
        assert all(torch.equal(f.result(), e) for f, e in zip(futures, expected))
