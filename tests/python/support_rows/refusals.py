"""Rows: what people write that no graph of fixed operators can hold, or that other parts of torch
take over."""

from __future__ import annotations

import copy
from typing import Any
from unittest import mock

import torch
from torch import nn
from torch.nn import functional as F

from support.support_table import Group
from support.trial import Trial
from support_rows.functions import train

CONTROL = Group("Data read in the step", "In the model, behind a linear layer.")


def raised(x: torch.Tensor) -> torch.Tensor:
    if torch.isnan(x).any():
        raise ValueError("not a number")
    return x


def asserted(x: torch.Tensor) -> torch.Tensor:
    assert x.isfinite().all()
    return x


def repeated(x: torch.Tensor) -> torch.Tensor:
    for _ in range(int(x.detach().abs().sum()) % 3):
        x = x * 2
    return x


def checked_labels(x: torch.Tensor, given: torch.Tensor) -> torch.Tensor:
    if (given < 0).any() or given.max() >= 5:
        raise ValueError("no such label")
    return x


def through_numpy(x: torch.Tensor) -> torch.Tensor:
    return x + torch.from_numpy(x.detach().numpy() * 2)


def conditioned(x: torch.Tensor) -> torch.Tensor:
    return torch.cond(x.sum() > 0, lambda y: y * 2, lambda y: y * 3, (x,))


def checked(x: torch.Tensor) -> torch.Tensor:
    torch._assert_async(x.isfinite().all(), "finite")
    return x


CONTROL.each(
    {
        "if x.sum() > 0": lambda x: x if x.sum() > 0 else -x,
        "raise when something is NaN": raised,
        "assert on a tensor": asserted,
        "for _ in range(int(x))": repeated,
        ".item() as a factor": lambda x: x * x.detach().max().item(),
        "float(x) as a factor": lambda x: x * float(x.detach().max()),
        "math.cos(x.item())": lambda x: x * __import__("math").cos(x.detach().sum().item()),
        ".tolist()": lambda x: x + torch.tensor(x.detach().tolist()),
        ".numpy()": through_numpy,
        "x[x > 0]": lambda x: F.pad(x[x > 0].sum().view(1, 1), (0, 4)) + x,
        "nonzero": lambda x: x + torch.nonzero(x.flatten() > 0).sum(),
        "unique": lambda x: x + x.detach().unique().sum(),
        "masked_select": lambda x: x + x.masked_select(x > 0).sum(),
        "repeat_interleave with a tensor": lambda x: x.repeat_interleave(
            torch.ones(8, dtype=torch.int64), 0
        ),
        "bincount": lambda x: x + x.detach().argmax(1).bincount().sum(),
        "histc": lambda x: x + x.detach().histc(5),
        "a slice whose end is data": lambda x: x + x[: int(x.detach().argmax())].sum(),
        "torch.cond": conditioned,
        "torch._assert_async": checked,
        "torch.equal, torch.allclose": lambda x: x if torch.allclose(x, x) else -x,
    },
    train,
)

READ = Group(
    "Inputs read in the step",
    "Given to the model beside what it computes with. The step decides at capture as eager would; "
    "a call whose inputs answer otherwise is captured again.",
)


class Reading(nn.Module):
    """A linear layer, and a function of its output and an input."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.linear = nn.Linear(12, 5)
        self.function = function

    def forward(self, x: torch.Tensor, given: torch.Tensor) -> torch.Tensor:
        return self.function(self.linear(x), given)


def read(trial: Trial, function: Any) -> None:
    masks = [torch.ones(8), torch.arange(8) % 3, torch.ones(8), torch.arange(8) % 2]
    batches = [(torch.randn(8, 12), m.long(), torch.randint(0, 5, (8,))) for m in masks]
    trial.train(lambda: Reading(function), batches)


READ.each(
    {
        "if mask.all()": lambda x, given: x if given.all() else x * given[:, None],
        "raise when a label is out of range": checked_labels,
        "a slice whose end is an input's maximum": lambda x, given: F.pad(
            x[:, : int(given.max())], (0, 5 - int(given.max()))
        ),
        "float(input) as a factor": lambda x, given: x * float(given.double().mean()),
        "input.tolist()": lambda x, given: x * torch.tensor(given.tolist())[:, None],
        "torch.equal of an input and a constant": lambda x, given: (
            x if torch.equal(given, torch.ones(8, dtype=torch.int64)) else -x
        ),
        "x[mask], a mask that is an input": lambda x, given: x + x[given > 0].sum(),
        "a decision by an input and weights": lambda x, given: (
            x if (x * given[:, None]).sum() > 0 else -x
        ),
    },
    read,
)

OTHERS = Group("Other devices, layouts and operators", "In the model, behind a linear layer.")


def custom(x: torch.Tensor) -> torch.Tensor:
    return _operators().twice(x)


def custom_in_place(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    _operators().secretly(y)
    return y


def custom_op(x: torch.Tensor) -> torch.Tensor:
    return _custom_op()(x)


_made: dict[str, Any] = {}


def _doubled(x: torch.Tensor) -> None:
    x.mul_(2)


def _operators() -> Any:
    if "library" not in _made:
        library = _made["library"] = torch.library.Library("laneway_rows", "FRAGMENT")
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: x * 2, "CompositeExplicitAutograd")
        library.define("secretly(Tensor x) -> ()")
        library.impl("secretly", _doubled, "CompositeExplicitAutograd")
    return torch.ops.laneway_rows


def _custom_op() -> Any:
    if "op" not in _made:

        @torch.library.custom_op("laneway_rows::thrice", mutates_args=())
        def thrice(x: torch.Tensor) -> torch.Tensor:
            return x * 3

        thrice.register_autograd(lambda ctx, gradient: gradient * 3)
        _made["op"] = thrice
    return _made["op"]


def fake_quantised(x: torch.Tensor) -> torch.Tensor:
    return torch.fake_quantize_per_tensor_affine(x, 0.1, 0, -128, 127)


def scripted(x: torch.Tensor) -> torch.Tensor:
    if "script" not in _made:
        _made["script"] = torch.jit.script(_twice)
    return _made["script"](x)


def _twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2


def compiled(x: torch.Tensor) -> torch.Tensor:
    return torch.compile(_twice, backend="eager")(x)


def data_assigned(x: torch.Tensor) -> torch.Tensor:
    y = torch.zeros(8, 5)
    y.data = x.detach()
    return x + y


OTHERS.each(
    {
        "a tensor on another device than the CPU (meta)": lambda x: (
            x * len(torch.ones(5, device="meta"))
        ),
        "a sparse matrix": lambda x: torch.sparse.mm(torch.eye(8).to_sparse(), x),
        "quantised values": lambda x: (
            x + torch.quantize_per_tensor(x.detach(), 0.1, 0, torch.qint8).dequantize()
        ),
        "quantisation for training (fake_quantize)": fake_quantised,
        "a custom operator with a schema (torch.library)": custom,
        "a custom operator by torch.library.custom_op": custom_op,
        "a custom operator that writes without saying so": custom_in_place,
        "a TorchScript function": scripted,
        "a function of torch.compile": compiled,
        "resize_": lambda x: x + x.detach().clone().resize_(1),
        "set_": lambda x: x + torch.empty(0).set_(x.detach()),
        "assignment to .data": data_assigned,
    },
    train,
)

WRAPPED = Group("Models and optimizers that torch wraps")


def batches() -> list[tuple]:
    return [(torch.randn(8, 12), torch.randint(0, 5, (8,))) for _ in range(2)]


def model() -> nn.Module:
    return nn.Sequential(nn.Linear(12, 12), nn.ReLU(), nn.Linear(12, 5))


def parallel() -> nn.Module:
    with mock.patch("torch.nn.parallel.data_parallel._get_available_device_type") as device:
        device.return_value = None  # the same answer on machines with a GPU
        return nn.DataParallel(model())


def distributed() -> nn.Module:
    import torch.distributed as dist

    if not dist.is_initialized():
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    return nn.parallel.DistributedDataParallel(model())


def dynamic_quantised() -> nn.Module:
    return torch.ao.quantization.quantize_dynamic(model(), {nn.Linear})


def traced() -> nn.Module:
    return torch.jit.trace(model(), torch.randn(8, 12))


def symbolically_traced() -> nn.Module:
    return torch.fx.symbolic_trace(model())


def exported() -> nn.Module:
    return torch.export.export(model(), (torch.randn(8, 12),)).module()


def compiled_inside() -> nn.Module:
    made = model()
    made[0] = torch.compile(made[0], backend="eager")
    return made


def compiled_in_place() -> nn.Module:
    made = model()
    made.compile(backend="eager")
    return made


WRAPPED.each(
    {
        "torch.jit.script": lambda: torch.jit.script(model()),
        "torch.jit.trace": traced,
        "torch.fx.symbolic_trace": symbolically_traced,
        "torch.export, its module": exported,
        "torch.compile": lambda: torch.compile(model(), backend="eager"),
        "a part made by torch.compile": compiled_inside,
        "model.compile()": compiled_in_place,
        "DataParallel, on the CPU": parallel,
        "DistributedDataParallel": distributed,
        "a copy by copy.deepcopy": lambda: copy.deepcopy(model()),
    },
    lambda trial, make: trial.train(make, batches()),
)


@WRAPPED("dynamic quantisation, inference")
def quantised(trial: Trial) -> None:
    trial.infer(dynamic_quantised, [(torch.randn(8, 12),)])


@WRAPPED("optimizer.step(closure)")
def step_closure_sgd(trial: Trial) -> None:
    def closure(model: Any, optimizer: Any, x: torch.Tensor, y: torch.Tensor) -> Any:
        def evaluate() -> torch.Tensor:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            return loss

        return optimizer.step(evaluate)

    trial.train(model, batches(), None, closure=closure)


@WRAPPED("weights reached through a reference from outside")
def outside(trial: Trial) -> None:
    made: list[nn.Module] = []

    def make() -> nn.Module:
        made.append(model())
        return made[-1]

    def loss_fn(output: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(output, y) + made[-1][0].weight.square().sum() + held[0].sum()

    held = [torch.ones(2)]

    def hold(model: nn.Module) -> torch.optim.Optimizer:
        held[0] = model[0].weight
        return torch.optim.SGD(model.parameters(), lr=0.1)

    trial.train(make, batches(), loss_fn, hold)


@WRAPPED("anomaly detection (torch.autograd.detect_anomaly)")
def anomaly(trial: Trial) -> None:
    def closure(model: Any, optimizer: Any, x: torch.Tensor, y: torch.Tensor) -> Any:
        optimizer.zero_grad()
        with torch.autograd.detect_anomaly():
            loss = F.cross_entropy(model(x), y)
            loss.backward()
        optimizer.step()
        return loss

    trial.train(model, batches(), None, closure=closure)


@WRAPPED("saved tensors moved by hooks (save_on_cpu, saved_tensors_hooks)")
def saved(trial: Trial) -> None:
    def closure(model: Any, optimizer: Any, x: torch.Tensor, y: torch.Tensor) -> Any:
        optimizer.zero_grad()
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t.bfloat16(), lambda t: t.float()):
            loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    trial.train(model, batches(), None, closure=closure)


GROUPS = [CONTROL, READ, OTHERS, WRAPPED]
