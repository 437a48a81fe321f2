"""Recurrent layers captured for CUDA are cuDNN's operator, with its backward; on stand-ins for it
they give what eager gives, in every form that the layers have."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from laneway.capture.capture import capture_train_step
from laneway.errors import CaptureError
from laneway.graph.target import Target
from support.both import sgd
from support.cuda_stand_ins import cuda_on_cpu  # noqa: F401
from support.for_cuda import check_inference, check_training, operators_of, without_kernel

FORWARD, BACKWARD = "aten::_cudnn_rnn", "aten::_cudnn_rnn_backward"
LAYERS = {"lstm": nn.LSTM, "gru": nn.GRU, "rnn": nn.RNN}
FORMS: dict[str, dict[str, Any]] = {
    "plain": {},
    "batch-first": {"batch_first": True},
    "deep-both-ways": {"num_layers": 2, "bidirectional": True},
    "no-bias": {"bias": False},
}


class Model(nn.Module):
    """A recurrent layer over [position, batch, feature], or batch first; its last output counts."""

    def __init__(self, layer: type[nn.RNNBase], **options: Any) -> None:
        super().__init__()
        self.layer = layer(6, 8, **options)
        width = (options.get("proj_size") or 8) * (2 if options.get("bidirectional") else 1)
        self.head = nn.Linear(width, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        output, _ = self.layer(x)
        # reshape() copies or not by the strides, which the operator must have got right.
        scores = self.head(output.reshape(-1, output.shape[-1])).reshape(*output.shape[:2], 3)
        return scores.mean(1 if self.layer.batch_first else 0)


class CarriedState(Model):
    """Begins from states that it keeps in buffers, and uses the last states as well."""

    def __init__(self, layer: type[nn.RNNBase], **options: Any) -> None:
        super().__init__(layer, **options)
        self.register_buffer("first", torch.zeros(1, 4, 8))
        self.register_buffer("cell", torch.zeros(1, 4, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        lstm = isinstance(self.layer, nn.LSTM)
        output, last = self.layer(x, (self.first, self.cell) if lstm else self.first)
        last = last if lstm else (last,)
        self.first = last[0].detach()
        return self.head(output[-1] + sum(state[0] for state in last))


class Cells(nn.Module):
    """Cells, which a loop in Python calls."""

    def __init__(self, cell: Any) -> None:
        super().__init__()
        self.cell = cell

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        state = None
        for step in x:
            state = self.cell(step, state)
        return state[0] if isinstance(state, tuple) else state


def batches(batch_first: bool = False, count: int = 2) -> list[tuple]:
    sizes = (4, 5, 6) if batch_first else (5, 4, 6)
    return [(torch.randn(sizes), torch.randint(0, 3, (4,))) for _ in range(count)]


@pytest.mark.usefixtures("cuda_on_cpu")
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("layer", LAYERS)
def test_layer_is_one_operator(layer: str, form: str) -> None:
    model = Model(LAYERS[layer], **FORMS[form])
    data = batches(model.layer.batch_first)
    captured = check_training(model, sgd, F.cross_entropy, data)
    assert operators_of(captured).count(FORWARD) == 1
    assert operators_of(captured).count(BACKWARD) == 1
    check_inference(model, data[0][:1])


@pytest.mark.usefixtures("cuda_on_cpu")
@pytest.mark.parametrize(
    ("layer", "options"), [("lstm", {"proj_size": 5}), ("rnn", {"nonlinearity": "relu"})], ids=str
)
def test_forms_of_one_layer_alone(layer: str, options: dict[str, Any]) -> None:
    captured = check_training(Model(LAYERS[layer], **options), sgd, F.cross_entropy, batches())
    assert operators_of(captured).count(FORWARD) == 1


@pytest.mark.usefixtures("cuda_on_cpu")
@pytest.mark.parametrize("layer", LAYERS)
def test_states_come_and_go(layer: str) -> None:
    captured = check_training(CarriedState(LAYERS[layer]), sgd, F.cross_entropy, batches())
    assert operators_of(captured).count(BACKWARD) == 1


@pytest.mark.parametrize("layer", LAYERS)
def test_dropout_stands_between_layers(layer: str) -> None:
    model = Model(LAYERS[layer], num_layers=3, dropout=0.5, bidirectional=True)
    captured = capture_train_step(
        model, F.cross_entropy, sgd(model), batches()[0], target=Target.cuda
    )
    names = operators_of(captured)
    assert names.count(FORWARD) == names.count(BACKWARD) == 3
    assert names.count("aten::bernoulli_") == 2
    assert without_kernel(captured) == set()


@pytest.mark.usefixtures("cuda_on_cpu")
def test_layers_with_dropout_are_those_without_in_evaluation() -> None:
    model = Model(nn.LSTM, num_layers=2, dropout=0.5)
    captured = check_inference(model, batches()[0][:1])
    assert operators_of(captured).count(FORWARD) == 1


@pytest.mark.usefixtures("cuda_on_cpu")
@pytest.mark.parametrize(
    "cell", [nn.LSTMCell(6, 3), nn.GRUCell(6, 3), nn.RNNCell(6, 3)], ids=lambda c: type(c).__name__
)
def test_cells_are_plain_operators(cell: nn.Module) -> None:
    captured = check_training(Cells(cell), sgd, F.cross_entropy, batches())
    assert not any("_thnn_fused" in name for name in operators_of(captured))


def test_no_backward_through_a_layer_in_evaluation_mode() -> None:
    model = Model(nn.LSTM)
    model.layer.eval()
    with pytest.raises(CaptureError, match=r"evaluation mode.*train\(\)"):
        capture_train_step(model, F.cross_entropy, sgd(model), batches()[0], target=Target.cuda)


def test_no_second_backward() -> None:
    model = Model(nn.LSTM)

    def twice(model: nn.Module, optimizer: Any, x: torch.Tensor, y: torch.Tensor) -> Any:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward(retain_graph=True)
        loss.backward()
        optimizer.step()
        return loss

    with pytest.raises(CaptureError, match="retain_graph"):
        capture_train_step(model, None, sgd(model), batches()[0], closure=twice, target=Target.cuda)
