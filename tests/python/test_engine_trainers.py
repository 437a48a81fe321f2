"""What people train with, through the engine: losses, parameters, buffers and optimizer state are
eager's, bit for bit, in the service and after sync_to.

Covered here is what goes by numbers that only an iteration knows (RAdam, ASGD, Adafactor,
cumulative averages), what has sizes of its data (CTC), complex numbers of Python, lazy modules, and
recurrent layers without biases.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import laneway
from laneway.capture.capture import capture_train_step
from laneway.graph.target import Target
from support.eager import assert_same, eager_step

STEPS = 7  # RAdam rectifies from the sixth on


def train_both(
    service: Any,
    make_model: Callable[[], nn.Module],
    batches: list[tuple],
    loss_fn: Any = F.cross_entropy,
    make_optimizer: Callable[..., torch.optim.Optimizer] = torch.optim.AdamW,
) -> None:
    """Trains both ways on the batches and compares all that is left, and what sync_to leaves."""
    sides = []
    for _ in range(2):
        torch.manual_seed(3)
        model = make_model()
        sides.append((model, make_optimizer(model.parameters())))
    (model, optimizer), (given, given_optimizer) = sides
    torch.manual_seed(5)
    expected = [eager_step(model, loss_fn, optimizer, batch).detach() for batch in batches]
    torch.manual_seed(5)
    with laneway.train_step(given, loss_fn, given_optimizer, service) as step:
        assert_same(expected, [step(*batch) for batch in batches], "losses")
        step.sync_to(given, given_optimizer)
        state = step.state_dict()
    for found in (state["model"], given.state_dict()):
        assert_same(dict(model.state_dict()), dict(found), "model")
    for found in (state["optimizer"], given_optimizer.state_dict()):
        assert_same(optimizer.state_dict()["state"], found["state"], "optimizer")


def rows(dtype: torch.dtype = torch.float32) -> list[tuple]:
    return [(torch.randn(6, 8).to(dtype), torch.randint(0, 4, (6,))) for _ in range(STEPS)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("foreach", [False, True], ids=["single", "foreach"])
@pytest.mark.parametrize("kind", ["RAdam", "ASGD", "Adafactor", "NAdam"])
def test_optimizers_that_go_by_their_step_count(
    service: Any, kind: str, foreach: bool, dtype: torch.dtype
) -> None:
    """Among them NAdam of bfloat16, whose product of momenta sync_to rounded."""
    options = {"t0": 3.0} if kind == "ASGD" else {}
    train_both(
        service,
        lambda: nn.Linear(8, 4).to(dtype),
        rows(dtype),
        make_optimizer=lambda p: getattr(torch.optim, kind)(p, foreach=foreach, **options),
    )


def test_sync_to_a_model_of_another_dtype_gives_state_of_that_dtype(service: Any) -> None:
    model = nn.Linear(8, 4).bfloat16()
    optimizer = torch.optim.AdamW(model.parameters())
    wide = copy.deepcopy(model).float()
    wide_optimizer = torch.optim.AdamW(wide.parameters())
    with laneway.train_step(model, F.cross_entropy, optimizer, service) as step:
        step(*rows(torch.bfloat16)[0])
        step.sync_to(wide, wide_optimizer)
    assert wide_optimizer.state[wide.weight]["exp_avg"].dtype == torch.float32


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_batch_norm_with_a_cumulative_average(service: Any, dtype: torch.dtype) -> None:
    def make() -> nn.Module:
        norms = nn.BatchNorm1d(8, momentum=None), nn.BatchNorm1d(8, momentum=None, affine=False)
        return nn.Sequential(*norms, nn.Linear(8, 4)).to(dtype)

    train_both(service, make, rows(dtype))


class Spoken(nn.Module):
    """Scores of 5 classes in 10 frames."""

    def __init__(self) -> None:
        super().__init__()
        self.scores = nn.Linear(8, 5)

    def forward(self, x: torch.Tensor, *labels: Any) -> torch.Tensor:
        return self.loss(self.scores(x).log_softmax(-1), *labels)


def spoken(**options: Any) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        model = Spoken()
        model.loss = nn.CTCLoss(**options)
        return model

    return make


def utterances(kind: str, frames_from: int = 9) -> list[tuple]:
    """With targets in rows or one behind the other, and lengths that are tensors or numbers."""
    batches = []
    for step in range(STEPS):
        lengths = torch.tensor([3, step % 4, 1]) if kind != "numbers" else torch.tensor([3, 2, 1])
        frames = (
            torch.randint(frames_from, 11, (3,)) if kind != "numbers" else torch.tensor([10] * 3)
        )
        targets = torch.randint(1, 5, (3, 4))
        if kind == "flat":
            lengths = torch.tensor([[1, 2, 3], [0, 3, 3], [2, 2, 2]])[step % 3]
            targets = torch.randint(1, 5, (6,))
        given = (frames, lengths)
        if kind == "numbers":
            given = tuple(tuple(each.tolist()) for each in given)
        batches.append((torch.randn(10, 3, 8), targets, *given))
    return batches


@pytest.mark.parametrize("kind", ["rows", "flat", "numbers"])
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_ctc_loss(service: Any, reduction: str, kind: str) -> None:
    train_both(service, spoken(reduction=reduction), utterances(kind), None)


@pytest.mark.parametrize("kind", ["rows", "flat"])
def test_ctc_loss_of_targets_that_are_too_long_for_their_frames(service: Any, kind: str) -> None:
    train_both(service, spoken(zero_infinity=True, blank=2), utterances(kind, 1), None)


@pytest.mark.parametrize(
    ("which", "words"),
    [(1, "label 99 is not in 0 to 4"), (2, "at most 10"), (3, "to have size at least 7")],
)
def test_ctc_loss_of_a_label_or_length_that_does_not_exist_is_refused(
    service: Any, which: int, words: str
) -> None:
    batch = list(utterances("rows")[0])
    model = spoken()()
    with laneway.train_step(
        model, None, torch.optim.SGD(model.parameters(), lr=0.1), service
    ) as step:
        step(*batch)
        before = step.state_dict()
        batch[which] = batch[which].clone()
        batch[which].view(-1)[0] = {1: 99, 2: 11, 3: 7}[which]
        with pytest.raises(laneway.InvalidInput, match=words):
            step(*batch)
        assert_same(before, step.state_dict(), "state")


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("bias", [False, True])
def test_lstm_with_and_without_biases(
    service: Any, bias: bool, layers: int, bidirectional: bool
) -> None:
    def make() -> nn.Module:
        return nn.LSTM(3, 4, layers, bias=bias, bidirectional=bidirectional)

    def loss_fn(output: Any, target: torch.Tensor) -> torch.Tensor:
        return (output[0].sum(2) - target).pow(2).mean()

    batches = [(torch.randn(5, 2, 3), torch.randn(5, 2)) for _ in range(STEPS)]
    train_both(service, make, batches, loss_fn)


@pytest.mark.parametrize("sizes", [(5, 2, 3, 4), (5, 8, 4, 8), (1, 2, 16, 20), (5, 1, 3, 4)])
def test_lstm_without_gradients_is_not_computed_as_for_training(
    service: Any, sizes: tuple[int, int, int, int]
) -> None:
    """oneDNN gives other bits for the two."""
    steps, batch, width, hidden = sizes
    torch.manual_seed(0)
    model, x = nn.LSTM(width, hidden, num_layers=2).eval(), torch.randn(steps, batch, width)
    with torch.no_grad(), laneway.inference(model, service) as predict:
        assert_same(model(x), predict(x), "results")


class Turned(nn.Module):
    """Complex numbers of Python, and what torch makes of some itself."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = (
            nn.Conv1d(2, 3, 3, dtype=torch.complex64),
            nn.ConvTranspose1d(3, 2, 3, dtype=torch.complex64),
        )
        self.first, self.last = self.layers
        self.size = nn.Parameter(torch.rand(2, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        turned = torch.exp(1j * x) * torch.polar(self.size, x)
        turned = torch.add(turned, turned, alpha=0.5j) + torch.full((8,), 1 - 2j)
        return self.last(self.first(turned)) * (2 + 1j)


def test_complex_numbers_of_python(service: Any) -> None:
    def loss_fn(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return (output - target).abs().mean()

    batches = [(torch.randn(4, 2, 8), torch.randn(4, 2, 8)) for _ in range(STEPS)]
    train_both(service, Turned, batches, loss_fn)


def lazy(*before: nn.Module) -> nn.Module:
    return nn.Sequential(
        *before,
        nn.LazyConv1d(4, 3),
        nn.LazyBatchNorm1d(),
        nn.Flatten(),
        nn.LazyLinear(7),
        nn.Dropout(),
        nn.Linear(7, 4),
    )


def maps() -> list[tuple]:
    return [(torch.randn(6, 3, 8), torch.randint(0, 4, (6,))) for _ in range(STEPS)]


def test_lazy_modules_are_initialised_as_by_eagers_first_call(service: Any) -> None:
    """Their numbers come before those of the dropout behind them."""
    train_both(service, lazy, maps())


def test_lazy_modules_of_an_inference(service: Any) -> None:
    x = maps()[0][0]
    torch.manual_seed(3)
    model, given = lazy().eval(), lazy().eval()
    for part, other in zip(model.modules(), given.modules()):
        if isinstance(part, nn.Linear) and not isinstance(part, nn.LazyLinear):
            other.load_state_dict(part.state_dict())
    torch.manual_seed(5)
    with torch.no_grad():
        expected = model(x)
    torch.manual_seed(5)
    with laneway.inference(given, service) as predict:
        assert_same(expected, predict(x), "results")


def test_lazy_modules_behind_random_numbers_are_refused(service: Any) -> None:
    model = lazy(nn.Dropout())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    step = laneway.train_step(model, F.cross_entropy, optimizer, service)
    with step, pytest.raises(laneway.CaptureError, match="call the model once with a batch"):
        step(*maps()[0])


def test_lazy_modules_that_a_call_does_not_reach_are_refused(service: Any) -> None:
    model = nn.Linear(8, 4)
    model.idle = nn.LazyLinear(3)
    predict = laneway.inference(model, service)
    with predict, pytest.raises(laneway.CaptureError, match=r"'idle\.weight' of the model has no"):
        predict(torch.randn(6, 8))


def test_ctc_loss_for_another_device_is_refused_in_words() -> None:
    model = spoken()()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(laneway.CaptureError, match="a service on the CPU"):
        capture_train_step(model, None, optimizer, utterances("rows")[0], target=Target.cuda)
