"""What a model says about devices, in a capture for CUDA: "cuda" is where its tensors are already.
A service's kernels decide the target."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import laneway
from laneway.capture.capture import capture_inference, capture_train_step
from laneway.errors import CaptureError
from laneway.graph.graph_ir import DeviceArgument
from laneway.graph.target import Target
from laneway.jobs import inference_job, step_capture
from laneway.jobs.service import Service
from support import scaled_training
from support.for_cuda import check_inference, operators_of, without_kernel


class Named(nn.Module):
    """Names the device everywhere."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.layer(x.to("cuda").cuda())
        x = x + torch.arange(4, device="cuda") + torch.ones(4, device=torch.device("cuda", 0))
        with torch.device("cuda"):
            x = x * torch.full((4,), 2.0)
        return x + torch.tensor([1.0, 2.0, 3.0, 4.0], device="cuda") + x.new_zeros(4, device="cuda")


class Plain(Named):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.layer(x)
        x = (x + torch.arange(4) + torch.ones(4)) * torch.full((4,), 2.0)
        return x + torch.tensor([1.0, 2.0, 3.0, 4.0]) + x.new_zeros(4)


def test_tensors_are_made_on_the_jobs_device() -> None:
    torch.manual_seed(3)
    model = Plain()
    inputs = (torch.randn(2, 4),)
    plain = check_inference(model, inputs)
    named = Named()
    named.load_state_dict(model.state_dict())
    captured = capture_inference(named, inputs, target=Target.cuda)
    assert operators_of(captured) == operators_of(plain)
    devices = [a for n in captured.graph.nodes for name, a in n.arguments if name == "device"]
    assert devices
    assert all(device == DeviceArgument() for device in devices)


def test_a_move_gives_the_tensor_itself() -> None:
    """As it does in eager execution on CUDA: what is written to it is written to both."""

    class Model(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = x * 2
            y.to("cuda").add_(1)
            return y + x.to("cuda", torch.float64).float()

    captured = capture_inference(Model(), (torch.ones(3),), target=Target.cuda)
    assert operators_of(captured).count("aten::_to_copy") == 2


def test_the_cpus_captures_still_refuse_other_devices() -> None:
    with pytest.raises((CaptureError, RuntimeError)):
        capture_inference(Named(), (torch.randn(2, 4),))


def test_an_operator_that_cuda_lacks_is_refused_with_line_and_remedy() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.LSTM(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layer(x)[0].mean((0, 2))

    model = Model()
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    batch = (torch.ones(3, 2, 4), torch.ones(2))
    with torch.backends.cudnn.flags(enabled=False), pytest.raises(CaptureError) as refused:
        capture_train_step(model, F.mse_loss, sgd, batch, target=Target.cuda)
    assert refused.value.operator == "aten::mkldnn_rnn_layer"
    assert "test_target_devices.py" in (refused.value.source or "")
    assert "cudnn.enabled" in str(refused.value)
    captured = capture_train_step(model, F.mse_loss, sgd, batch, target=Target.cuda)
    assert without_kernel(captured) == set()


def test_a_scaled_loss() -> None:
    model = scaled_training.make_model()
    optimizer = scaled_training.OPTIMIZERS["adam"](model)
    captured = capture_train_step(
        model,
        None,
        optimizer,
        scaled_training.batches(1)[0],
        closure=scaled_training.plain(scaled_training.make_scaler()),
        target=Target.cuda,
    )
    assert without_kernel(captured) == set()
    names = operators_of(captured)
    assert {"aten::_amp_foreach_non_finite_check_and_unscale_", "aten::_fused_adam_"} <= set(names)


@pytest.mark.parametrize("kernels", ["cpu", "cuda"])
def test_a_job_is_captured_for_the_kernels_of_its_service(kernels: str, monkeypatch) -> None:
    """A function that notes its target and refuses stands in for the capture."""
    targets = []

    def refuse(*arguments: object, **named: object) -> None:
        targets.extend(v for v in (*arguments, *named.values()) if isinstance(v, Target))
        raise CaptureError("the capture was asked for")

    monkeypatch.setattr(step_capture, "capture_train_step", refuse)
    monkeypatch.setattr(inference_job, "capture_inference", refuse)
    monkeypatch.setattr(Service, "kernels", kernels)
    model = nn.Linear(4, 4)
    with laneway.embedded("64MiB") as service:
        train = laneway.train_step(model, None, torch.optim.SGD(model.parameters()), service)
        for call in (train, laneway.inference(model, service)):
            with pytest.raises(CaptureError, match="was asked for"):
                call(torch.ones(1, 4))
    assert targets == [Target(kernels)] * 2
