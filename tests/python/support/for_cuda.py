"""Captures for CUDA, and what tests ask of them. No GPU is needed: the dispatcher of this torch
knows which operators CUDA has a kernel for."""

from __future__ import annotations

import copy
import pathlib
import re
from collections.abc import Callable
from typing import Any

import torch

from laneway.capture.capture import CapturedJobGraph, capture_inference, capture_train_step
from laneway.graph.target import Target
from support.eager import eager_step
from support.reference_executor import ReferenceJob

LIST = pathlib.Path(__file__).resolve().parents[3] / "adaptor" / "operators" / "operator_list.inc"
LISTED = set(re.findall(r'^"(.+)",$', LIST.read_text(), re.MULTILINE))
SCALARS = {
    f"scalar::{name}" for name in ("add", "sub", "mul", "div", "pow", "min", "max", "neg", "sqrt")
}


def operators_of(captured: CapturedJobGraph) -> list[str]:
    """Names of the operators, without overloads, in order."""
    return [node.op.partition(".")[0] for node in captured.graph.nodes]


def without_kernel(captured: CapturedJobGraph) -> set[str]:
    """Operators of the graph that CUDA cannot run."""
    has = torch._C._dispatch_has_computed_kernel_for_dispatch_key
    names = {node.op for node in captured.graph.nodes if node.op.startswith("aten::")}
    return {name for name in names if not has(name, "CUDA")}


def not_listed(captured: CapturedJobGraph) -> set[str]:
    """Operators of the graph that no service calls."""
    return {node.op for node in captured.graph.nodes if "::" in node.op} - LISTED - SCALARS


def check_training(
    model: torch.nn.Module,
    make_optimizer: Callable[[torch.nn.Module], torch.optim.Optimizer],
    loss_fn: Any,
    batches: list[tuple],
    tolerance: float = 1e-4,
) -> CapturedJobGraph:
    """Trains `model` captured for CUDA, with stand-ins for what a CPU lacks, and a copy of it
    eagerly; asserts that CUDA has a kernel for every operator, and that losses and weights are
    equal to within rounding."""
    twin = copy.deepcopy(model)
    optimizer, twin_optimizer = make_optimizer(model), make_optimizer(twin)
    captured = capture_train_step(model, loss_fn, optimizer, batches[0], target=Target.cuda)
    assert without_kernel(captured) == set()
    assert not_listed(captured) == set()
    job = ReferenceJob(captured.slots)
    for batch in batches:
        expected = eager_step(twin, loss_fn, twin_optimizer, batch)
        result = job.step(captured, batch, optimizer=optimizer)
        torch.testing.assert_close(result, expected.detach(), rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(
        job.model_state(), dict(twin.state_dict()), rtol=tolerance, atol=tolerance
    )
    return captured


def check_inference(
    model: torch.nn.Module, inputs: tuple, tolerance: float = 1e-5
) -> CapturedJobGraph:
    """The same of the model's answers in evaluation mode."""
    captured = capture_inference(model, inputs, target=Target.cuda)
    assert without_kernel(captured) == set()
    assert not_listed(captured) == set()
    model.eval()
    with torch.no_grad():
        expected = model(*inputs)
    result = ReferenceJob(captured.slots).step(captured, inputs)
    torch.testing.assert_close(result, expected, rtol=tolerance, atol=tolerance)
    return captured
