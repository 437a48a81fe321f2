"""Shows that a step draws from the client's own generators as eager does, and moves them: with data
loaders that shuffle, dropout, generators of the step's own, submissions, several steps, threads,
resumed runs and failures. With random="own" a step draws from the job's generator alone."""

from __future__ import annotations

import threading
import warnings
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import laneway
from support.eager import assert_same


def net() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 32), nn.Dropout(0.3), nn.ReLU(), nn.Linear(32, 3))


LOSS = nn.CrossEntropyLoss()
DATA = TensorDataset(torch.linspace(-1, 1, 64 * 8).reshape(64, 8), torch.arange(64) % 3)


def made(seed: int = 1) -> tuple[nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(seed)
    model = net()
    return model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def eager(model: nn.Module, optimizer: Any, x: torch.Tensor, y: torch.Tensor) -> float:
    optimizer.zero_grad()
    loss = LOSS(model(x), y)
    loss.backward()
    optimizer.step()
    return loss.item()


def epochs(run: Any, count: int = 2) -> list[Any]:
    """What `run` gives for each batch of epochs that are shuffled by the default generator."""
    return [run(x, y) for _ in range(count) for x, y in DataLoader(DATA, 8, shuffle=True)]


def eager_epochs() -> dict[str, Any]:
    model, optimizer = made()
    losses = epochs(lambda x, y: eager(model, optimizer, x, y))
    return {"losses": losses, "model": model.state_dict(), "random": torch.get_rng_state()}


def test_a_shuffling_loader_and_dropout_are_eagers_without_a_change(service):
    expected = eager_epochs()
    model, optimizer = made()
    with laneway.train_step(model, LOSS, optimizer, service) as step:
        losses = epochs(lambda x, y: step(x, y).item())
        found = {"losses": losses, "model": step.state_dict()["model"]}
    assert_same(expected, found | {"random": torch.get_rng_state()})


def test_submissions_draw_in_their_order_and_move_the_generator(service):
    expected = eager_epochs()
    model, optimizer = made()
    with warnings.catch_warnings(), laneway.train_step(model, LOSS, optimizer, service) as step:
        warnings.simplefilter("error")
        losses = []
        for _ in range(2):
            futures = [step.submit(x, y) for x, y in DataLoader(DATA, 8, shuffle=True)]
            losses += [future.result().item() for future in futures]
        found = {"losses": losses, "model": step.state_dict()["model"]}
    assert_same(expected, found | {"random": torch.get_rng_state()})


def test_calls_and_submissions_of_two_jobs_draw_in_turn(service):
    def run(first: Any, second: Any) -> list[float]:
        x, y = DATA[:16]
        losses = []
        for _ in range(4):
            losses += [first(x, y), second(x, y), torch.rand(()).item()]
        return losses

    one, two = made(1), made(2)
    torch.manual_seed(5)
    expected = run(lambda x, y: eager(*one, x, y), lambda x, y: eager(*two, x, y))
    model, optimizer = made(1)
    other, other_optimizer = made(2)
    with (
        laneway.train_step(model, LOSS, optimizer, service) as step,
        laneway.train_step(other, LOSS, other_optimizer, service) as second,
    ):
        torch.manual_seed(5)
        found = run(
            lambda x, y: step.submit(x, y).result().item(), lambda x, y: second(x, y).item()
        )
        # Submissions of one job behind those of another, nobody waiting in between.
        torch.manual_seed(6)
        futures = [s.submit(*DATA[:16]) for s in (step, second, step, second)]
        later = [future.result().item() for future in futures]
        state = torch.get_rng_state()
    assert found == expected
    torch.manual_seed(6)
    assert later == [eager(*pair, *DATA[:16]) for pair in (one, two, one, two)]
    assert_same(torch.get_rng_state(), state)


def test_a_draw_between_a_submission_and_its_result_is_told_of(service):
    model, optimizer = made()
    with laneway.train_step(model, LOSS, optimizer, service) as step:
        step(*DATA[:8])
        future = step.submit(*DATA[:8])
        torch.manual_seed(77)
        with pytest.warns(RuntimeWarning, match="submitted iterations drew from it"):
            future.result()
        seeded = torch.Generator().manual_seed(77)
        assert_same(seeded.get_state(), torch.get_rng_state())  # the seed holds


class Noisy(nn.Module):
    """Draws from generators of its own, and from the default one in between."""

    def __init__(self) -> None:
        super().__init__()
        self.last = nn.Linear(8, 3)
        self.noise = torch.Generator().manual_seed(3)
        self.mask = torch.Generator().manual_seed(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + 0.1 * torch.randn(x.shape, generator=self.noise)
        x = nn.functional.dropout(x, 0.2)
        x = x * torch.bernoulli(torch.full_like(x, 0.9), generator=self.mask)
        return self.last(x + torch.rand(x.shape, generator=self.noise))


@pytest.mark.parametrize("submitted", [False, True])
def test_generators_that_operators_are_given_are_followed(service, submitted):
    def make() -> tuple[Noisy, Any]:
        torch.manual_seed(1)
        model = Noisy()
        return model, torch.optim.SGD(model.parameters(), lr=0.1)

    model, optimizer = make()
    expected = [eager(model, optimizer, *DATA[:8]) for _ in range(3)]
    model.noise.manual_seed(9)
    expected += [eager(model, optimizer, *DATA[:8]) for _ in range(2)]
    states = [model.noise.get_state(), model.mask.get_state(), torch.get_rng_state()]

    model, optimizer = make()
    with laneway.train_step(model, LOSS, optimizer, service) as step:

        def run(count: int) -> list[float]:
            if not submitted:
                return [step(*DATA[:8]).item() for _ in range(count)]
            return [f.result().item() for f in [step.submit(*DATA[:8]) for _ in range(count)]]

        found = run(3)
        model.noise.manual_seed(9)
        found += run(2)
    assert found == expected
    assert_same(states, [model.noise.get_state(), model.mask.get_state(), torch.get_rng_state()])


class SeedsLast(Noisy):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result = super().forward(x)
        self.noise.manual_seed(1)
        return result


class SeedsFirst(Noisy):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.noise.manual_seed(1)
        return super().forward(x)


class Makes(Noisy):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x + torch.rand(8, generator=torch.Generator().manual_seed(3)))


@pytest.mark.parametrize("seeding", [SeedsLast, SeedsFirst, Makes])
def test_a_step_that_seeds_its_generator_is_refused(service, seeding):
    model = seeding()
    if seeding is SeedsFirst:
        model.noise.manual_seed(1)  # eager's first call would change nothing
    before = model.noise.get_state()
    step = laneway.train_step(model, LOSS, torch.optim.SGD(model.parameters(), 0.1), service)
    with pytest.raises(laneway.CaptureError, match="makes or seeds a generator of its own"):
        step(*DATA[:8])
    assert_same(before, model.noise.get_state())


def test_a_job_with_its_own_generator_leaves_the_clients_alone(service):
    model, optimizer = made()
    torch.manual_seed(5)
    with laneway.train_step(model, LOSS, optimizer, service, random="own") as step:
        torch.manual_seed(6)
        before = torch.get_rng_state()
        found = [step(*DATA[:8]).item() for _ in range(3)]
        assert_same(before, torch.get_rng_state())
    twin, twin_optimizer = made()
    torch.manual_seed(5)
    assert found == [eager(twin, twin_optimizer, *DATA[:8]) for _ in range(3)]
    noisy = Noisy()
    own = laneway.train_step(
        noisy, LOSS, torch.optim.SGD(noisy.parameters(), 0.1), service, random="own"
    )
    with pytest.raises(laneway.CaptureError, match='random="shared"'):
        own(*DATA[:8])


def test_graphs_that_draw_nothing_take_and_give_no_state(service):
    model, optimizer = made()
    with laneway.train_step(model, LOSS, optimizer, service) as step:
        step(*DATA[:8])
        assert len(step.captured.generators) == 1
        inputs = len(step.captured.graph.inputs)
        model.eval()
        step(*DATA[:8])
        captured = step._variants.current.captured
        assert captured.generators == [] and len(captured.graph.inputs) == inputs - 1


@pytest.mark.parametrize("random", ["shared", "own"])
def test_a_resumed_run_has_the_same_masks(service, random, tmp_path):
    model, optimizer = made()
    with laneway.train_step(model, LOSS, optimizer, service, random=random) as step:
        for _ in range(3):
            step(*DATA[:8])
        torch.save(step.state_dict(), tmp_path / "state.pt")
        expected = [step(*DATA[:8]).item() for _ in range(3)]
    state = torch.load(tmp_path / "state.pt")
    for called_before in (False, True):
        model, optimizer = made(2)
        with laneway.train_step(model, LOSS, optimizer, service, random=random) as step:
            if called_before:
                step(*DATA[:8])
            step.load_state_dict(state)
            assert [step(*DATA[:8]).item() for _ in range(3)] == expected


@pytest.mark.parametrize("random", [torch.zeros(7, dtype=torch.uint8), torch.zeros(5056), "x"])
def test_a_random_state_that_is_none_is_refused_and_nothing_changes(service, random):
    model, optimizer = made()
    with laneway.train_step(model, LOSS, optimizer, service) as step:
        step(*DATA[:8])
        before = step.state_dict()
        with pytest.raises(laneway.InvalidInput, match=r'"random" is .*5056 bytes'):
            step.load_state_dict(before | {"random": random})
        assert_same(before, step.state_dict())


def test_an_unknown_choice_is_refused(service):
    model, optimizer = made()
    with pytest.raises(laneway.InvalidInput, match=r"random = 'mine'.*'shared', 'own'"):
        laneway.train_step(model, LOSS, optimizer, service, random="mine")
    with pytest.raises(laneway.InvalidInput, match="random = 'mine'"):
        laneway.inference(model, service, random="mine")


def test_an_iteration_that_fails_leaves_the_generator(service):
    class Looks(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(10, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return nn.functional.dropout(self.table(x), 0.5)

    torch.manual_seed(1)
    model = Looks()
    step = laneway.train_step(model, LOSS, torch.optim.SGD(model.parameters(), 0.1), service)
    step(torch.tensor([1, 2]), torch.tensor([0, 1]))
    before = torch.get_rng_state()
    with pytest.raises(laneway.Error):
        step(torch.tensor([1, 12]), torch.tensor([0, 1]))
    assert_same(before, torch.get_rng_state())
    failed = step.submit(torch.tensor([1, 12]), torch.tensor([0, 1]))
    good = step.submit(torch.tensor([1, 2]), torch.tensor([0, 1]))
    with pytest.raises(laneway.Error):
        failed.result()
    good.result()
    after = torch.get_rng_state()
    torch.set_rng_state(before)
    eager(
        model, torch.optim.SGD(model.parameters(), 0.1), torch.tensor([1, 2]), torch.tensor([0, 1])
    )
    assert_same(torch.get_rng_state(), after)


def test_an_inference_that_draws_is_eagers_and_leaves_the_job_of_its_step(service):
    model, optimizer = made()
    x, y = DATA[:8]
    with laneway.train_step(model, LOSS, optimizer, service) as step:
        step(x, y)
        predict = laneway.inference(
            step, closure=lambda m, x: nn.functional.dropout(m(x), 0.5, training=True)
        )
        torch.manual_seed(4)
        first = step.submit(x, y)
        found = predict(x)
        second = step.submit(x, y)
        losses = [first.result().item(), second.result().item()]
        after = torch.get_rng_state()
    twin, twin_optimizer = made()
    eager(twin, twin_optimizer, x, y)
    torch.manual_seed(4)
    expected = [eager(twin, twin_optimizer, x, y)]
    twin.eval()
    with torch.no_grad():
        assert_same(nn.functional.dropout(twin(x), 0.5, training=True), found)
    twin.train()
    expected.append(eager(twin, twin_optimizer, x, y))
    assert losses == expected
    assert_same(torch.get_rng_state(), after)


def test_steps_of_several_threads_draw_each_number_once(service):
    """The masks that two threads draw are those that one thread would draw for as many calls."""

    class Draws(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(()))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.rand(4) + 0 * self.weight + 0 * x.sum()

    def step_of() -> Any:
        model = Draws()
        optimizer = torch.optim.SGD(model.parameters(), 0.0)

        def closure(model: nn.Module, optimizer: Any, x: torch.Tensor) -> Any:
            optimizer.zero_grad()
            drawn = model(x)
            loss = drawn.sum()
            loss.backward()
            optimizer.step()
            return loss, drawn.detach()

        return laneway.train_step(model, None, optimizer, service, closure=closure)

    steps, drawn = [step_of(), step_of()], [[], []]
    x = torch.ones(1)
    for step in steps:
        step(x)
    torch.manual_seed(8)

    def run(which: int) -> None:
        for _ in range(50):
            drawn[which].append(tuple(steps[which](x)[1].tolist()))

    threads = [threading.Thread(target=run, args=(which,)) for which in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    torch.manual_seed(8)
    expected = {tuple(torch.rand(4).tolist()) for _ in range(100)}
    assert set(drawn[0]) | set(drawn[1]) == expected
    for step in steps:
        step.close()
