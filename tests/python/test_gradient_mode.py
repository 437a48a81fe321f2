"""oneDNN's LSTM computes with other bits while gradients are recorded: an inference has those of
eager execution without gradients, a training step has each layer's in the mode that it ran in."""

import torch
from torch import nn

import laneway
from support.eager import assert_same

X = torch.linspace(-1, 1, 6).reshape(3, 2)


def made() -> nn.LSTM:
    torch.manual_seed(0)
    return nn.LSTM(2, 3, num_layers=2)


def test_an_inference_of_an_lstm_has_the_bits_of_no_grad():
    model = made()
    with torch.no_grad():
        expected = model(X)
    assert not torch.equal(expected[0], model(X)[0]), "the mode makes no difference here"
    with laneway.embedded("64MiB") as service:
        assert_same(expected, laneway.inference(model, service)(X))


def test_a_teacher_without_gradients_in_a_training_step():
    class Distilled(nn.Module):
        def __init__(self):
            super().__init__()
            self.student, self.teacher = made(), made()

        def forward(self, x):
            with torch.no_grad():
                wanted = self.teacher(x)[0]
            return (self.student(x)[0] - wanted).square().sum() + wanted.sum()

    model, twin = Distilled(), Distilled()
    optimizer = torch.optim.SGD(model.student.parameters(), lr=0.1)
    twins = torch.optim.SGD(twin.student.parameters(), lr=0.1)
    with laneway.embedded("64MiB") as service:
        step = laneway.train_step(model, lambda y, _: y, optimizer, service)
        for _ in range(3):
            twins.zero_grad()
            loss = twin(X)
            loss.backward()
            twins.step()
            assert_same(loss, step(X, X))
        assert_same(twin.state_dict(), step.state_dict()["model"])
