"""Shows that many forms are captured before the loop, or beside its iterations: results and state
stay eager's, also with a second thread, after Ctrl-C and close(); and that a form which is captured
again because it was dropped is told of, once."""

from __future__ import annotations

import copy
import signal
import threading
import warnings
import weakref
from typing import Any

import pytest
import torch
from torch import nn

import laneway
from support.eager import assert_same, eager_step

LOSS = nn.CrossEntropyLoss()


class Net(nn.Module):
    """Dropout draws; `at_capture` runs when a batch of that many rows is captured."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.Sequential(nn.Linear(6, 16), nn.Dropout(0.3), nn.Linear(16, 3))
        self.at_capture: dict[int, Any] = {}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[0] in self.at_capture:
            self.at_capture[x.shape[0]]()
        return self.parts(x)


def batch(size: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.linspace(-1, 1, size * 6).reshape(size, 6), torch.arange(size) % 3


class Pair:
    """A step, and what plain eager training of the same model gives."""

    def __init__(self, service: Any, **options: Any) -> None:
        torch.manual_seed(3)
        self.model = Net()
        self.twin = copy.deepcopy(self.model)
        optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.01)
        self.optimizer = torch.optim.AdamW(self.twin.parameters(), lr=0.01)
        self.step = laneway.train_step(self.model, LOSS, optimizer, service, **options)

    def expected(self, sizes: list[int]) -> list[Any]:
        torch.manual_seed(5)
        losses = [
            eager_step(self.twin, LOSS, self.optimizer, batch(size)).detach() for size in sizes
        ]
        return [losses, dict(self.twin.state_dict()), torch.get_rng_state()]

    def found(self, losses: list[Any]) -> list[Any]:
        return [losses, self.step.state_dict()["model"], torch.get_rng_state()]

    def captures(self) -> dict[str, int]:
        return self.step.report()["captures"]


def test_forms_are_captured_before_the_loop(service):
    pair = Pair(service)
    expected = pair.expected([4, 8, 2])
    pair.step.prepare_many([batch(2), list(batch(4)), batch(8)])
    assert pair.captures() == {"made": 3, "kept": 3, "dropped": 0}
    torch.manual_seed(5)
    assert_same(expected, pair.found([pair.step(*batch(size)) for size in (4, 8, 2)]))
    assert pair.captures()["made"] == 3


def test_each_call_captures_one_form_beside_its_iteration(service):
    pair = Pair(service)
    expected = pair.expected([2, 2, 6, 8, 2])
    preparation = pair.step.prepare_many([batch(4), batch(6), batch(8)], background=True)
    assert pair.step.job is None and not preparation.done()
    torch.manual_seed(5)
    losses, made = [], []
    for size in (2, 2, 6, 8, 2):
        losses.append(pair.step(*batch(size)))
        made.append(pair.captures()["made"])
    assert made == [2, 3, 4, 4, 4] and preparation.done()
    assert_same(expected, pair.found(losses))
    preparation.result()


def test_submissions_capture_too_and_result_captures_what_is_left(service):
    pair = Pair(service)
    expected = pair.expected([2, 2, 8])
    preparation = pair.step.prepare_many([batch(n) for n in (4, 6, 8)], background=True)
    torch.manual_seed(5)
    futures = [pair.step.submit(*batch(2))]
    with pytest.raises(TimeoutError, match=r"2 of 3 forms are not captured after 0 s"):
        preparation.result(timeout=0)
    preparation.result()
    assert preparation.done() and pair.captures()["made"] == 4
    futures += [pair.step.submit(*batch(2)), pair.step.submit(*batch(8))]
    assert_same(expected, pair.found([future.result() for future in futures]))
    assert pair.captures()["made"] == 4


def test_a_call_is_right_while_another_thread_captures(service):
    pair = Pair(service)
    sizes = [4, 5, 6, 7, 8]
    pair.step.prepare(*batch(2))
    preparation = pair.step.prepare_many([batch(size) for size in sizes], background=True)
    thread = threading.Thread(target=preparation.result)
    losses: list[Any] = []
    torch.manual_seed(5)
    thread.start()
    while thread.is_alive():
        losses.append(pair.step(*batch(2)))
    thread.join()
    losses += [pair.step(*batch(size)) for size in sizes]
    found = pair.found(losses)
    assert pair.captures()["made"] == 6
    assert_same(pair.expected([2] * (len(losses) - 5) + sizes), found)


def test_ctrl_c_leaves_the_form_for_later(service):
    pair = Pair(service)
    expected = pair.expected([2, 2, 4, 6])
    preparation = pair.step.prepare_many([batch(4), batch(6)], background=True)
    pair.model.at_capture = {4: lambda: signal.raise_signal(signal.SIGINT)}
    torch.manual_seed(5)
    with pytest.raises(KeyboardInterrupt):  # the iteration of the call runs all the same
        pair.step(*batch(2))
    with pytest.raises(KeyboardInterrupt):
        preparation.result()
    assert not preparation.done()
    pair.model.at_capture = {}
    preparation.result()
    losses = [expected[0][0], *(pair.step(*batch(size)) for size in (2, 4, 6))]
    assert_same(expected, pair.found(losses))


@pytest.mark.parametrize("sync", ["manual", "on_read"])
def test_close_while_a_form_is_captured_ends_the_preparation(service, sync):
    pair = Pair(service, sync=sync)
    pair.step.prepare(*batch(2))
    started, closing = threading.Event(), threading.Event()
    # The first thing that close() does to the job; on_read then waits for the capture to end.
    part, name = (pair.step._owned, "close") if sync == "manual" else (pair.step.mirror, "release")
    end = getattr(part, name)
    order = (end, closing.set) if sync == "manual" else (closing.set, end)
    setattr(part, name, lambda: [call() for call in order])
    pair.model.at_capture = {4: lambda: (started.set(), closing.wait(60))}
    preparation = pair.step.prepare_many([batch(4), batch(6)], background=True)
    raised: list[BaseException] = []

    def capture() -> None:
        try:
            preparation.result()
        except laneway.ServiceUnavailable as error:
            raised.append(error)

    thread = threading.Thread(target=capture)
    thread.start()
    assert started.wait(60)
    pair.step.close()
    thread.join()
    assert preparation.done()
    assert all("was closed" in str(error) for error in raised)
    assert sync == "on_read" or raised  # on_read: the last form may be captured before the end
    assert not any(isinstance(p, torch._subclasses.FakeTensor) for p in pair.model.parameters())


def test_the_error_of_a_form_is_raised_by_result_alone(service):
    pair = Pair(service)
    expected = pair.expected([2, 2, 8])
    bad = (torch.ones(4, 5), torch.zeros(4, dtype=torch.long))
    preparation = pair.step.prepare_many([bad, batch(8)], background=True)
    torch.manual_seed(5)
    losses = [pair.step(*batch(2)), pair.step(*batch(2)), pair.step(*batch(8))]
    assert_same(expected, pair.found(losses))
    with pytest.raises(laneway.InvalidInput, match="as eager execution would") as error:
        preparation.result()
    assert error.value.__notes__ == ["form 1 of 2 that prepare_many() was given"]
    assert pair.captures()["made"] == 2


def test_more_forms_than_are_kept_are_refused_with_both_numbers(service):
    pair = Pair(service, max_variants=2)
    with pytest.raises(laneway.InvalidInput, match=r"given 3 forms.* max_variants = 2: .*=3"):
        pair.step.prepare_many([batch(n) for n in (2, 4, 6)])
    with pytest.raises(laneway.InvalidInput, match=r"form 2 of .* is of type Tensor: give the"):
        pair.step.prepare_many([batch(2), batch(2)[0]])


def test_a_preparation_keeps_no_step_alive(service):
    pair = Pair(service)
    preparation = pair.step.prepare_many([batch(2), batch(4)], background=True)
    pair.step(*batch(2))
    step = weakref.ref(pair.step)
    del pair.step
    assert step() is None
    with pytest.raises(laneway.ServiceUnavailable, match="the step was let go"):
        preparation.result()


def test_an_inference_prepares_many_forms(service):
    model = Net().eval()
    with laneway.inference(model, service) as infer:
        infer.prepare_many([{"x": batch(2)[0]}, (batch(2)[0],)])
        later = infer.prepare_many([(batch(4)[0],), (batch(6)[0],)], background=True)
        for size in (2, 2, 4, 6):
            with torch.no_grad():
                assert_same(model(batch(size)[0]), infer(batch(size)[0]))
        assert later.done() and infer._variants.counts()["made"] == 4


def test_a_dropped_form_that_comes_back_is_told_of_once(service):
    pair = Pair(service, max_variants=2)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for size in (2, 4, 6, 8):
            pair.step(*batch(size))
        assert [w for w in told if w.category is RuntimeWarning] == []
        for size in (2, 4, 6, 8):
            pair.step(*batch(size))
    told = [w for w in told if w.category is RuntimeWarning]
    assert len(told) == 1 and told[0].filename == __file__
    assert "max_variants = 2" in str(told[0].message) and "prepare_many" in str(told[0].message)
    assert pair.captures() == {"made": 8, "kept": 2, "dropped": 6}


def test_what_was_dropped_under_other_conditions_does_not_come_back(service):
    """A new value of a hyperparameter is no form that was dropped; nor are its modules kept."""
    pair = Pair(service, max_variants=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        for decay in (0.1, 0.2, 0.3):
            pair.step.optimizer.param_groups[0]["weight_decay"] = decay
            pair.step(*batch(2))
    assert pair.captures()["dropped"] == 2
