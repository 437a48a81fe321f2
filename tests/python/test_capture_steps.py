"""Whole steps as users write them: schedulers, groups, what is given to a step, inference.

Each compares the captured graph with plain PyTorch bit for bit (support/eager.py), and some look at
the graph for what must not be there.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from laneway.capture.capture import capture_inference, capture_train_step
from laneway.capture.signature import OtherForm
from laneway.graph.graph_ir import GraphKind, SlotKind
from support.eager import assert_same, check_training, eager_step
from support.reference_executor import ReferenceJob
from support.trial import adamw


def perceptron() -> nn.Module:
    return nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Dropout(0.2), nn.Linear(24, 5))


def batches(count: int = 4) -> list[tuple]:
    return [(torch.randn(8, 12), torch.randint(0, 5, (8,))) for _ in range(count)]


@pytest.mark.parametrize("form", ["default", "foreach", "fused"])
@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.AdamW])
def test_scheduler_needs_no_new_capture(kind: Any, form: str) -> None:
    """The learning rate changes every step; the one captured graph follows."""
    options = {} if form == "default" else {form: True}
    check_training(
        perceptron(),
        lambda model: kind(model.parameters(), lr=0.03, weight_decay=0.01, **options),
        F.cross_entropy,
        batches(5),
        scheduler=lambda optimizer: torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.7),
    )


def test_scheduler_made_before_capture_does_not_step_the_original() -> None:
    """Schedulers bind step() to the user's optimizer; the copy must not call that one."""
    model = perceptron()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    torch.optim.lr_scheduler.StepLR(optimizer, 1)
    before = copy.deepcopy(model.state_dict())
    capture_train_step(model, F.cross_entropy, optimizer, batches(1)[0])
    assert_same(before, model.state_dict())
    assert not optimizer.state


def test_parameter_groups_keep_their_own_options() -> None:
    def make(model: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.AdamW(
            [
                {"params": model[0].parameters(), "lr": 0.1, "weight_decay": 0.0},
                {"params": model[3].parameters(), "betas": (0.5, 0.9)},
            ],
            lr=0.01,
        )

    captured, _ = check_training(
        perceptron(),
        make,
        F.cross_entropy,
        batches(),
        scheduler=lambda o: torch.optim.lr_scheduler.LambdaLR(o, [lambda n: 0.5**n, lambda n: 1.0]),
    )
    sources = [spec.source for spec in captured.input_spec]
    assert sources[2:] == [("param_group", 0, "lr"), ("param_group", 1, "lr")]


def test_frozen_and_unused_parameters_have_no_state() -> None:
    """As in eager: no update, no weight decay, no entry in the optimizer's state."""

    class Partly(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used, self.unused, self.frozen = (nn.Linear(12, 5) for _ in range(3))
            self.frozen.requires_grad_(False)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.used(x) + self.frozen(x)

    captured, _ = check_training(Partly(), adamw, F.cross_entropy, batches())
    names = [slot.name for slot in captured.slots if slot.kind == SlotKind.optimizer_state]
    assert len(names) == 2 * 3  # weight and bias of `used`: step, exp_avg, exp_avg_sq
    assert [slot.index for slot in captured.slots] == list(range(len(captured.slots)))


def test_two_optimizer_steps_in_one_closure() -> None:
    """The second forward pass sees what the first step wrote."""

    def twice(model: nn.Module, optimizer: Any, x: torch.Tensor, y: torch.Tensor) -> Any:
        losses = []
        for _ in range(2):
            optimizer.zero_grad()
            losses.append(F.cross_entropy(model(x), y))
            losses[-1].backward()
            optimizer.step()
        return tuple(losses)

    check_training(perceptron(), adamw, None, batches(), closure=twice)


def test_loss_module_with_parameters_of_its_own() -> None:
    """Its parameters are slots too, and trained when the optimizer has them."""

    class Margin(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.tensor(2.0))

        def forward(self, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
            return F.cross_entropy(output * self.scale, target)

    model, loss = perceptron(), Margin()
    twin, twin_loss = copy.deepcopy(model), copy.deepcopy(loss)
    optimizer = torch.optim.SGD([*model.parameters(), *loss.parameters()], lr=0.1)
    twin_optimizer = torch.optim.SGD([*twin.parameters(), *twin_loss.parameters()], lr=0.1)
    data = batches()
    captured = capture_train_step(model, loss, optimizer, data[0])
    job = ReferenceJob(captured.slots)
    for batch in data:
        eager_step(twin, twin_loss, twin_optimizer, batch)
        job.step(captured, batch, optimizer=optimizer)
    assert_same(dict(twin_loss.named_parameters()), job.model_state("loss"))


def test_learning_rate_given_as_a_tensor_of_a_double() -> None:
    rate = torch.tensor(0.01, dtype=torch.float64)
    check_training(
        perceptron(),
        lambda model: torch.optim.Adam(model.parameters(), lr=rate.clone(), fused=True),
        F.cross_entropy,
        batches(),
    )


def test_nested_arguments_and_keywords() -> None:
    class Pairs(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(12, 5)

        def forward(self, pair: dict[str, Any], scale: float = 1.0, shift: Any = None) -> Any:
            return self.linear(pair["left"] + pair["others"][0]) * scale + shift

    def data() -> tuple[tuple, dict[str, Any]]:
        pair = {"left": torch.randn(8, 12), "others": [torch.randn(8, 12)]}
        return (pair, torch.randint(0, 5, (8,))), {"scale": 0.5, "shift": torch.randn(5)}

    model = Pairs()
    twin = copy.deepcopy(model)
    optimizer, twin_optimizer = adamw(model), adamw(twin)
    args, kwargs = data()
    captured = capture_train_step(model, F.cross_entropy, optimizer, args, kwargs)
    job = ReferenceJob(captured.slots)
    for _ in range(3):
        args, kwargs = data()
        twin_optimizer.zero_grad()
        expected = F.cross_entropy(twin(args[0], **kwargs), args[1])
        expected.backward()
        twin_optimizer.step()
        assert_same(expected.detach(), job.step(captured, args, kwargs, optimizer))
    assert_same(dict(twin.named_parameters()), job.model_state())
    with pytest.raises(OtherForm, match=r"is 0.25 and was 0.5"):
        captured.inputs.tensors(args, {**kwargs, "scale": 0.25})
    with pytest.raises(OtherForm, match="structure"):
        captured.inputs.tensors(args, {})


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ((torch.randn(8, 13), torch.zeros(8, dtype=torch.int64)), "shape"),
        ((torch.randn(8, 12).double(), torch.zeros(8, dtype=torch.int64)), "dtype"),
        ((torch.randn(8, 12, device="meta"), torch.zeros(8, dtype=torch.int64)), "device"),
        ((3.0, torch.zeros(8, dtype=torch.int64)), "was a tensor"),
        ((torch.randn(8, 12),), "structure"),
    ],
)
def test_inputs_that_do_not_fit_are_named(wrong: tuple, message: str) -> None:
    model = perceptron()
    captured = capture_train_step(model, F.cross_entropy, adamw(model), batches(1)[0])
    with pytest.raises(OtherForm, match=message):
        captured.inputs.tensors(wrong)


def test_inputs_come_in_the_layout_of_the_example() -> None:
    """Every layout is kept: kernels choose by strides."""
    model = perceptron()
    x, y = batches(1)[0]
    expanded = torch.randn(1, 12).expand(8, 12)
    captured = capture_train_step(model, F.cross_entropy, adamw(model), (expanded, y))
    assert captured.input_spec[0].strides == (0, 1)
    given = captured.inputs.tensors((x[:1].expand(8, 12), y))[0]
    assert given.stride() == (0, 1) and torch.equal(given, x[:1].expand(8, 12))
    with pytest.raises(OtherForm, match="strides"):
        captured.inputs.tensors((x.t().contiguous().t(), y))


def test_inputs_that_the_step_overwrites_are_left_alone() -> None:
    """The client's bytes are only read, even where the model works in place on its input."""
    model = nn.Sequential(nn.ReLU(inplace=True), nn.Linear(12, 5))
    data = batches(2)
    kept = copy.deepcopy(data)
    optimizer = adamw(model)
    captured = capture_train_step(model, F.cross_entropy, optimizer, data[0])
    job = ReferenceJob(captured.slots)
    for batch in data:
        job.step(captured, batch, optimizer=optimizer)
    assert_same(kept, data)


def test_literals_are_new_in_every_iteration() -> None:
    """A tensor made from a Python literal and changed in place starts anew each time."""

    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(12, 5)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            total = torch.tensor([1.0, 2.0])
            total += x.detach().mean()
            return self.linear(x) * total.sum()

    check_training(Counting(), adamw, F.cross_entropy, batches())


def test_constants_the_model_holds_are_slots() -> None:
    class Masked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(12, 5)
            self.mask = torch.arange(24.0).reshape(2, 12)[1]  # no buffer, and a view

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.linear(x * self.mask)

    captured, _ = check_training(Masked(), adamw, F.cross_entropy, batches())
    constants = [slot for slot in captured.slots if slot.kind == SlotKind.constant]
    assert [slot.nbytes for slot in constants if slot.sizes] == [12 * 4]


def test_inference_shares_the_weights_of_the_training_job() -> None:
    """An inference graph of the same job has the same slots and sees what training wrote; it runs
    in evaluation mode, writes nothing, and leaves the model's mode as it was."""
    model = nn.Sequential(nn.Linear(12, 6), nn.BatchNorm1d(6), nn.Dropout(0.5), nn.Linear(6, 5))
    model.register_buffer("unused", torch.zeros(3))
    twin = copy.deepcopy(model)
    optimizer, twin_optimizer = adamw(model), adamw(twin)
    data = batches()
    requests = [torch.randn(3, 12) for _ in data]
    trained = capture_train_step(model, F.cross_entropy, optimizer, data[0])
    predict = capture_inference(model, (data[0][0][:3],), slots_of=trained)
    assert model.training and all(m.training for m in model.modules())
    assert [s.name for s in predict.slots] == [s.name for s in trained.slots]
    assert predict.graph.kind == GraphKind.inference
    assert predict.graph.first_write == len(predict.graph.nodes)
    assert not any(node.writes for node in predict.graph.nodes)

    job = ReferenceJob(trained.slots)
    for batch, x in zip(data, requests):
        eager_step(twin, F.cross_entropy, twin_optimizer, batch)
        job.step(trained, batch, optimizer=optimizer)
        twin.eval()
        with torch.no_grad():
            expected = twin(x)
        twin.train()
        assert_same(expected, job.step(predict, (x,)))


def test_inference_of_a_model_alone_and_with_new_constants() -> None:
    """Without a job the slots are its own; in one, new tensors are inputs of the graph."""

    class Shifted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(12, 5)
            self.shift = torch.randn(5)

        def forward(self, x: torch.Tensor) -> Any:
            output = self.linear(x)
            return output if self.training else {"shifted": output + self.shift}

    model = Shifted()
    x, y = batches(1)[0]
    trained = capture_train_step(model, F.cross_entropy, adamw(model), (x, y))
    count = len(trained.slots)
    predict = capture_inference(model, (x,), slots_of=trained)
    assert len(trained.slots) == count == len(predict.slots) and len(predict.fixed) == 1
    alone = capture_inference(model, (x,))
    model.eval()
    with torch.no_grad():
        expected = model(x)
    for captured in (predict, alone):
        assert_same(expected, ReferenceJob(captured.slots).step(captured, (x,)))


def test_nodes_name_the_users_lines() -> None:
    """Backward operators carry the line of the forward operator that they belong to."""
    model = perceptron()

    def loss_fn(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(output, target)

    captured = capture_train_step(model, loss_fn, adamw(model), batches(1)[0])
    for wanted in ("aten::nll_loss_forward", "aten::nll_loss_backward"):
        node = next(n for n in captured.graph.nodes if n.op == wanted)
        assert node.source.startswith("test_capture_steps.py:") and "loss_fn" in node.source
