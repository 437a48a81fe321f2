"""What goes wrong, or is changed, between two steps of a loop: the next step has eager's bits, or
is refused with words that name the remedy, and the job goes on as it was."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
import warnings
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations, parametrize, prune
from torch.utils.data import DataLoader, Dataset

import laneway
from support.eager import assert_same, eager_step

LOSS = nn.CrossEntropyLoss()
BATCH = (torch.linspace(-1, 1, 64).reshape(8, 8), torch.arange(8) % 3)


def net(width: int = 16) -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(8, width), nn.Dropout(0.3), nn.Linear(width, 3))


def made() -> tuple[nn.Module, torch.optim.Optimizer]:
    model = net()
    return model, torch.optim.AdamW(model.parameters(), lr=0.01)


def four(run: Any, change: Any) -> list[torch.Tensor]:
    """The losses of two iterations, a change, and two more."""
    torch.manual_seed(5)
    losses = [run(*BATCH), run(*BATCH)]
    change()
    return [loss.detach() for loss in (*losses, run(*BATCH), run(*BATCH))]


class Twice(nn.Module):
    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        return weight * 2


def fails_to_load(model: nn.Module) -> None:
    with pytest.raises(RuntimeError, match="size mismatch"):
        model.load_state_dict(net(15).state_dict())


SAME = {
    "deep-copied": copy.deepcopy,
    "a copy is changed": lambda model: copy.deepcopy(model)[0].weight.data.zero_(),
    "a copy is quantised": lambda model: quantised(copy.deepcopy(model)),
    "moved to where it is": lambda model: model.to("cpu", torch.float32),
    "in another memory format": lambda model: model.to(memory_format=torch.channels_last),
    "shared with processes": lambda model: model.share_memory(),
    "hooked": lambda model: model[0].register_forward_hook(lambda module, args, out: out * 2),
    "gradient hooked": lambda model: model[0].weight.register_hook(lambda grad: grad * 2),
    "partly frozen": lambda model: model[0].requires_grad_(False),
    "compiled in place": lambda model: model.compile(backend="eager"),
    "the generator seeded": lambda model: torch.manual_seed(77),
    "a draw": lambda model: torch.rand(3),
    "given a checkpoint of another shape": fails_to_load,
}


def quantised(model: nn.Module) -> nn.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch: where quantisation lives from now on
        kinds = {nn.Linear}
        return torch.ao.quantization.quantize_dynamic(model, kinds, torch.qint8, inplace=True)


@pytest.mark.parametrize("what", SAME)
def test_the_next_step_is_eagers_when_the_model_was(service, what):
    model, optimizer = made()
    expected = four(
        lambda x, y: eager_step(model, LOSS, optimizer, (x, y)), lambda: SAME[what](model)
    )
    model, optimizer = made()
    with laneway.train_step(model, LOSS, optimizer, service) as step:
        assert_same(expected, four(step, lambda: SAME[what](model)))


def data_of_another_shape(model: nn.Module) -> None:
    model[0].weight.data = torch.zeros(4, 8)


CHANGED = "make a new step for the changed model"
REFUSED = {
    "half-ed": (nn.Module.half, CHANGED),
    "of another dtype": (nn.Module.double, CHANGED),
    "moved": (lambda model: model.to("meta"), CHANGED),
    "given data of another shape": (data_of_another_shape, CHANGED),
    "quantised": (quantised, "write it with torch's own operators"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_the_next_step_is_refused_when_the_model_was(service, what):
    change, remedy = REFUSED[what]
    model, optimizer = made()
    with laneway.train_step(model, LOSS, optimizer, service) as step:
        step(*BATCH)
        state = copy.deepcopy(step.state_dict()["optimizer"])
        change(model)
        for _ in range(2):
            with pytest.raises(laneway.Error, match=remedy):
                step(*BATCH)
        assert step.iterations == 1 and state["state"][0]["step"].item() == 1


REPARAMETRISED = {
    "parametrised": (
        lambda model: parametrize.register_parametrization(model[0], "weight", Twice()),
        None,
    ),
    "weight-normed": (
        lambda model: parametrizations.weight_norm(model[0]),
        "make a new optimizer over",
    ),
    "spectrally normed": (
        lambda model: parametrizations.spectral_norm(model[0]),
        "make a new step, whose first call uses everything",
    ),
    "pruned": (
        lambda model: prune.l1_unstructured(model[0], "weight", 0.5),
        "make a new step, whose first call uses everything",
    ),
}


@pytest.mark.parametrize("what", REPARAMETRISED)
def test_a_model_of_manual_sync_that_was_reparametrised(service, what):
    """A parametrisation keeps the parameter; what brings tensors of its own needs a new step."""
    change, remedy = REPARAMETRISED[what]
    model, optimizer = made()
    expected = four(lambda x, y: eager_step(model, LOSS, optimizer, (x, y)), lambda: change(model))
    model, optimizer = made()
    with laneway.train_step(model, LOSS, optimizer, service, sync="manual") as step:
        if remedy is None:
            assert_same(expected, four(step, lambda: change(model)))
            return
        with pytest.raises(laneway.CaptureError, match=remedy):
            four(step, lambda: change(model))


@pytest.mark.parametrize("what", REPARAMETRISED)
def test_a_model_that_was_reparametrised_goes_on_as_in_eager(service, what):
    """It once ended in a KeyError."""
    change, _ = REPARAMETRISED[what]
    model, optimizer = made()
    twin, twins = made()
    expected = four(lambda x, y: eager_step(twin, LOSS, twins, (x, y)), lambda: change(twin))
    with laneway.train_step(model, LOSS, optimizer, service) as step:
        assert_same(expected, four(step, lambda: change(model)))
        assert_same(twin.state_dict(), model.state_dict())


def test_a_parametrisation_that_is_taken_back_is_forgotten(service):
    def there_and_back(model: nn.Module) -> None:
        parametrize.register_parametrization(model[0], "weight", Twice())
        parametrize.remove_parametrizations(model[0], "weight", leave_parametrized=False)

    model, optimizer = made()
    expected = four(
        lambda x, y: eager_step(model, LOSS, optimizer, (x, y)), lambda: there_and_back(model)
    )
    model, optimizer = made()
    with laneway.train_step(model, LOSS, optimizer, service) as step:
        assert_same(expected, four(step, lambda: there_and_back(model)))


def test_a_state_of_another_shape_is_refused_by_name_and_changes_nothing(service, tmp_path):
    model, optimizer = made()
    with laneway.train_step(model, LOSS, optimizer, service) as step:
        step(*BATCH)
        before = step.state_dict()
        other = copy.deepcopy(before)
        other["model"]["2.weight"] = torch.zeros(3, 15)
        torch.save(other, tmp_path / "other.pt")
        with pytest.raises(laneway.InvalidInput, match=r"model/2\.weight has shape \[3, 15\], the"):
            step.load(tmp_path / "other.pt")
        assert_same(before, step.state_dict())


class Stepping(Dataset):
    """A data set whose workers call the step."""

    def __init__(self, step: Any) -> None:
        self.step = step

    def __len__(self) -> int:
        return 2

    def __getitem__(self, number: int) -> str:
        try:
            self.step(*BATCH)
        except laneway.ServiceUnavailable as error:
            return str(error)
        return "ran"


def test_a_step_that_a_worker_of_a_data_loader_calls_is_refused(service):
    model, optimizer = made()
    with laneway.train_step(model, LOSS, optimizer, service) as step:
        loss = step(*BATCH)
        loader = DataLoader(Stepping(step), 2, num_workers=1, multiprocessing_context="fork")
        for told in next(iter(loader)):
            assert "forked from it" in told and "open a service of this process's own" in told
        assert step.iterations == 1 and step(*BATCH).item() != loss.item()


def forward(model: nn.Module, results: Any) -> None:
    with torch.no_grad():
        results.put(model.eval()(BATCH[0]).tolist())


def test_a_spawned_process_gets_the_trained_model(service):
    model, optimizer = made()
    context = multiprocessing.get_context("spawn")
    with laneway.train_step(model, LOSS, optimizer, service) as step:
        step(*BATCH)
        results = context.SimpleQueue()
        process = context.Process(target=forward, args=(model, results))
        process.start()
        found = results.get()
        process.join()
        twin = net()
        step.sync_to(twin)
        with torch.no_grad():
            assert_same(twin.eval()(BATCH[0]).tolist(), found)


@pytest.mark.parametrize("copied", [pickle.dumps, copy.copy, copy.deepcopy])
def test_a_step_is_neither_pickled_nor_copied(service, copied):
    model, optimizer = made()
    with laneway.train_step(model, LOSS, optimizer, service) as step:
        step(*BATCH)
        for handle in (step, laneway.inference(step)):
            with pytest.raises(laneway.InvalidInput, match=r"is not copied or pickled: pass the"):
                copied(handle)
        step(*BATCH)


def test_an_exception_in_a_decorated_function_changes_nothing(service):
    model, optimizer = made()

    @laneway.step(model, optimizer, service=service)
    def train(x: torch.Tensor, y: torch.Tensor, fail: bool = False) -> torch.Tensor:
        optimizer.zero_grad()
        loss = LOSS(model(x), y)
        loss.backward()
        if fail:
            raise ValueError("on purpose")
        optimizer.step()
        return loss

    def failing() -> None:
        with pytest.raises((ValueError, laneway.InvalidInput), match="on purpose"):
            train(*BATCH, fail=True)

    twin, twin_optimizer = made()
    expected = four(lambda x, y: eager_step(twin, LOSS, twin_optimizer, (x, y)), lambda: None)
    torch.manual_seed(1)
    with train:
        failing()  # before there is a job, too
        assert_same(expected, four(train, failing))
        assert train.iterations == 4
