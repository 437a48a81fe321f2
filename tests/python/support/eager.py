"""Runs the same training eagerly and captured, and compares every bit of what is left."""

from __future__ import annotations

import copy
import struct
from collections.abc import Callable, Iterable
from typing import Any

import torch

from laneway.capture.capture import CapturedJobGraph, capture_train_step
from support.reference_executor import ReferenceJob


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Equal dtype, shape and bytes: unlike ==, -0.0 differs from 0.0 and NaN equals NaN."""
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.numel() == 0:
        return True
    flat = [t.detach().contiguous().reshape(-1).view(torch.uint8) for t in (a, b)]
    return torch.equal(*flat)


def assert_same(a: Any, b: Any, where: str = "") -> None:
    """Nested equality, bit for bit, naming the first difference."""
    if isinstance(a, torch.Tensor):
        assert isinstance(b, torch.Tensor), where
        if not same_bits(a, b):
            comparable = a.shape == b.shape and a.numel() and not a.is_complex()
            most = (a.double() - b.double()).abs().max().item() if comparable else "everything"
            raise AssertionError(f"{where} differs, by at most {most}")
    elif isinstance(a, dict):
        assert list(map(str, a)) == list(map(str, b)), f"{where}: {list(a)} and {list(b)}"
        for key in a:
            assert_same(a[key], b[key], f"{where}/{key}")
    elif isinstance(a, (list, tuple)):
        assert len(a) == len(b), where
        for position, (x, y) in enumerate(zip(a, b)):
            assert_same(x, y, f"{where}/{position}")
    elif isinstance(a, float):
        assert struct.pack("d", a) == struct.pack("d", b), f"{where}: {a} and {b}"
    else:
        assert a == b, f"{where}: {a!r} and {b!r}"


def eager_step(
    model: torch.nn.Module,
    loss_fn: Callable[..., Any] | None,
    optimizer: torch.optim.Optimizer,
    inputs: tuple,
) -> Any:
    """The default step as a user writes it."""
    optimizer.zero_grad()
    result = loss_fn(model(*inputs[:-1]), inputs[-1]) if loss_fn else model(*inputs)
    loss = result[0] if isinstance(result, tuple) else result
    loss.backward()
    optimizer.step()
    return result


def check_training(
    model: torch.nn.Module,
    make_optimizer: Callable[[torch.nn.Module], torch.optim.Optimizer],
    loss_fn: Callable[..., Any] | None,
    batches: Iterable[tuple],
    closure: Callable[..., Any] | None = None,
    scheduler: Callable[[torch.optim.Optimizer], Any] | None = None,
) -> tuple[CapturedJobGraph, ReferenceJob]:
    """Trains `model` captured and a copy of it eagerly on the same batches and random numbers, and
    asserts after every step that results, model and optimizer are equal bit for bit; and that
    capture itself changed nothing."""
    batches = list(batches)
    twin = copy.deepcopy(model)
    optimizer, twin_optimizer = make_optimizer(model), make_optimizer(twin)
    schedule, twin_schedule = (
        (scheduler(optimizer), scheduler(twin_optimizer)) if scheduler else (None, None)
    )

    before = _fingerprint(model, optimizer)
    captured = capture_train_step(model, loss_fn, optimizer, batches[0], closure=closure)
    assert_same(before, _fingerprint(model, optimizer), "what capture must leave alone")

    job = ReferenceJob(captured.slots)
    assert_same(
        twin_optimizer.state_dict(), job.optimizer_state(captured, optimizer, stepped=False)
    )
    for number, batch in enumerate(batches):
        if closure is None:
            expected = eager_step(twin, loss_fn, twin_optimizer, batch)
        else:
            expected = closure(twin, twin_optimizer, *batch)
        result = job.step(captured, batch, optimizer=optimizer)
        where = f"step {number}"
        assert_same(_detached(expected), result, f"{where}: result")
        assert_same(
            dict(twin.named_parameters()) | dict(twin.named_buffers()),
            _ordered(job.model_state(), twin),
            where,
        )
        assert_same(twin_optimizer.state_dict(), job.optimizer_state(captured, optimizer), where)
        assert_same(torch.get_rng_state(), job.generator.get_state(), f"{where}: random state")
        if schedule is not None:
            optimizer._opt_called = True  # schedulers warn where the user's optimizer never stepped
            schedule.step()
            twin_schedule.step()
    return captured, job


def _ordered(state: dict[str, torch.Tensor], model: torch.nn.Module) -> dict[str, torch.Tensor]:
    names = [*dict(model.named_parameters()), *dict(model.named_buffers())]
    return {name: state[name] for name in names}


def _detached(result: Any) -> Any:
    return torch.utils._pytree.tree_map(
        lambda leaf: leaf.detach() if isinstance(leaf, torch.Tensor) else leaf, result
    )


def _fingerprint(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """Everything of the user's that capture must not change."""
    return {
        "parameters": {n: p.detach().clone() for n, p in model.named_parameters()},
        "buffers": {n: b.clone() for n, b in model.named_buffers()},
        "objects": [id(t) for t in [*model.parameters(), *model.buffers()]],
        "gradients": [None if p.grad is None else p.grad.clone() for p in model.parameters()],
        "gradient objects": [id(p.grad) for p in model.parameters()],
        "training": [m.training for m in model.modules()],
        "optimizer": copy.deepcopy(optimizer.state_dict()),
        "random": torch.get_rng_state(),
        "grad mode": torch.is_grad_enabled(),
        "threads": torch.get_num_threads(),
    }
