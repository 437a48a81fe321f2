"""Rows: inference, of a model of its own and of a training step."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

import laneway
from support.support_table import Group
from support.trial import Trial, step_of

INFERENCE = Group("Inference")


def net() -> nn.Module:
    return nn.Sequential(
        nn.Linear(12, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, 5)
    )


class Named(nn.Module):
    """Keywords, nested inputs, a dictionary and a tuple as result."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(12, 5)

    def forward(self, batch: dict[str, Any], *, scale: float = 1.0) -> dict[str, Any]:
        logits = self.linear(batch["x"]) * scale + batch["more"][0]
        return {"logits": logits, "best": (logits.argmax(1), None), "note": "text"}


def rows(*sizes: int) -> list[tuple]:
    return [(torch.randn(size, 12),) for size in sizes]


@INFERENCE("lazy modules before their first call")
def lazy(trial: Trial) -> None:
    def make() -> nn.Module:
        return nn.Sequential(nn.LazyLinear(16), nn.LazyBatchNorm1d(), nn.ReLU(), nn.LazyLinear(5))

    trial.infer(make, rows(8, 8))


@INFERENCE("LSTM, two layers")
def recurrent(trial: Trial) -> None:
    calls = [(torch.randn(6, 3, 12),) for _ in range(2)]
    trial.infer(lambda: nn.LSTM(12, 8, num_layers=2), calls)


@INFERENCE("a model of its own, in evaluation mode")
def alone(trial: Trial) -> None:
    trial.infer(net, rows(4, 4, 4))


@INFERENCE("many shapes")
def shapes(trial: Trial) -> None:
    trial.infer(net, rows(4, 1, 7, 4, 2))


@INFERENCE("keywords, nested inputs and results")
def nested(trial: Trial) -> None:
    call = {"batch": {"x": torch.randn(4, 12), "more": [torch.ones(5)]}, "scale": 0.5}
    trial.infer(Named, [call, call | {"scale": 2.0}])


@INFERENCE("a closure with losses and metrics")
def closure(trial: Trial) -> None:
    def evaluate(model: Any, x: torch.Tensor, y: torch.Tensor) -> dict[str, torch.Tensor]:
        output = model(x)
        loss = nn.functional.cross_entropy(output, y)
        return {"loss": loss, "right": output.argmax(1).eq(y).sum()}

    trial.infer(net, [(torch.randn(6, 12), torch.randint(0, 5, (6,)))] * 2, evaluate)


@INFERENCE("a closure with gradients of the inputs")
def saliency(trial: Trial) -> None:
    def evaluate(model: Any, x: torch.Tensor) -> torch.Tensor:
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            return torch.autograd.grad(model(x).sum(), x)[0]

    trial.infer(net, rows(4, 4), evaluate)


@INFERENCE("a closure that draws (dropout in evaluation)")
def drawing(trial: Trial) -> None:
    def evaluate(model: Any, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.dropout(model(x), 0.5, training=True)

    trial.infer(net, rows(4, 4), evaluate)


@INFERENCE("autocast, bfloat16")
def autocast(trial: Trial) -> None:
    def evaluate(model: Any, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return model(x)

    trial.infer(net, rows(4, 4), evaluate)


@INFERENCE("under torch.inference_mode in the closure")
def inference_mode(trial: Trial) -> None:
    def evaluate(model: Any, x: torch.Tensor) -> torch.Tensor:
        with torch.inference_mode():
            return model(x)

    trial.infer(net, rows(4, 4), evaluate)


@INFERENCE("bfloat16 weights")
def half(trial: Trial) -> None:
    trial.infer(lambda: nn.Linear(12, 5).bfloat16(), [(torch.randn(4, 12).bfloat16(),)] * 2)


@INFERENCE("a loop in Python of fixed length (greedy decoding)")
def decoding(trial: Trial) -> None:
    class Decoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.cell = nn.Embedding(9, 8), nn.GRUCell(8, 8)
            self.head = nn.Linear(8, 9)

        def forward(self, token: torch.Tensor) -> torch.Tensor:
            state, said = None, []
            for _ in range(4):
                state = self.cell(self.words(token), state)
                token = self.head(state).argmax(1)
                said.append(token)
            return torch.stack(said, 1)

    trial.infer(Decoder, [(torch.tensor([1, 2, 3]),)] * 2)


@INFERENCE("TransformerEncoder's fast path")
def encoder(trial: Trial) -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    trial.infer(lambda: nn.TransformerEncoder(layer, 1), [(torch.randn(2, 3, 8),)] * 2)


@INFERENCE("a model that keeps state in a buffer")
def counting(trial: Trial) -> None:
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(12, 5)
            self.register_buffer("calls", torch.zeros(()))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            return self.linear(x) * self.calls

    trial.infer(Counting, rows(4, 4, 4))


@INFERENCE("of a step: its current weights, between iterations")
def of_a_step(trial: Trial) -> None:
    torch.manual_seed(1)
    model = net()
    twin = net()
    twin.load_state_dict(model.state_dict())
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in (model, twin)]
    loss_fn = nn.functional.cross_entropy
    run = step_of(loss_fn)
    torch.manual_seed(7)
    with laneway.train_step(model, loss_fn, optimizers[0], trial.service, random="own") as step:
        predict = laneway.inference(step)
        for _ in range(3):
            x, y = torch.linspace(-1, 1, 96).view(8, 12), torch.arange(8) % 5
            step.prepare(x, y)
            trial.compare(run(twin, optimizers[1], x, y), step(x, y), "loss")
            twin.eval()
            with torch.no_grad():
                trial.compare(twin(x), predict(x), "inference")
            twin.train()


@INFERENCE('mode="as_is": in training mode, dropout draws, statistics move')
def as_is(trial: Trial) -> None:
    torch.manual_seed(1)
    model = net()
    twin = net()
    twin.load_state_dict(model.state_dict())
    x = torch.randn(4, 12)
    torch.manual_seed(7)
    with torch.no_grad():
        expected = [twin(x), twin(x), twin.eval()(x)]
    torch.manual_seed(7)
    with laneway.inference(model, trial.service, mode="as_is") as predict:
        found = [predict(x), predict(x)]
        model.eval()
        trial.compare(expected, [*found, predict(x)], "results")


@INFERENCE("generation of a length that depends on data")
def until(trial: Trial) -> None:
    class Until(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(12, 12)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            while x.norm() > 0.5:
                x = self.linear(x).tanh() * 0.05
            return x

    trial.infer(Until, rows(4))


GROUPS = [INFERENCE]
