"""One training in plain PyTorch on the device and as a job, and the distance between what is
left."""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

import laneway
from bench import models
from bench.gpu import laneway_device
from bench.gpu.runners import PlainOnDevice
from bench.state import tensors
from support.eager import same_bits
from support.vector_math import prepare_vector_math

LOSS_TOLERANCE = 1e-3
# Of the change by training, in Euclidean norms: see README.md.
STATE_TOLERANCE = 0.05
POOL = "3GiB"  # of which a convolution may want a third as its workspace

prepare_vector_math()  # a rehearsal's kernels, and plain PyTorch's beside it, are the CPU's


@dataclass
class Trained:
    """What a training leaves: losses and every tensor of model and optimizer, by name."""

    losses: list[float]
    state: dict[str, torch.Tensor]


def plain_device() -> str:
    """Where plain PyTorch runs beside a job."""
    return os.environ["LANEWAY_TEST_DEVICE"] if torch.cuda.is_available() else "cpu"


def made(name: str, seed: int, draws: bool = False) -> models.Workload:
    """The workload; without dropout unless it `draws`. Plain PyTorch's fused dropout on CUDA takes
    no generator, so a job draws other masks than it (python/CUDA.md)."""
    work = models.make(name, seed)
    if not draws:
        for module in work.model.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
    return work


def batches_of(name: str, count: int, seed: int = 1) -> list[Any]:
    work = models.make(name, seed)
    return [work.batch(i) for i in range(count)]


def _state(model: dict, optimizer: dict) -> dict[str, torch.Tensor]:
    found = dict(tensors(model, "model")) | dict(tensors(optimizer["state"], "optimizer"))
    return {name: tensor.detach().cpu().clone() for name, tensor in found.items()}


def initial_state(name: str, seed: int = 1) -> dict[str, torch.Tensor]:
    return _state(made(name, seed).model.state_dict(), {"state": {}})


def train_plain(name: str, batches: list[Any], seed: int = 1) -> Trained:
    """Eager PyTorch on the device."""
    runner = PlainOnDevice(made(name, seed), plain_device())
    losses = [runner.iteration(batch).item() for batch in batches]
    work = runner.work
    return Trained(losses, _state(work.model.state_dict(), work.optimizer.state_dict()))


# What the jobs of a test that failed had done, in words; conftest.py empties it into the report.
reports: list[str] = []
MOST_LOG = 1_500  # characters of a daemon's log
_service_of: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()  # by step


@contextlib.contextmanager
def reporting(service: Any, daemon: Any = None) -> Iterator[Any]:
    """The service for a block, closed after it; the reports of its jobs are kept when the block
    fails, and the end of `daemon`'s log."""
    with service:
        try:
            yield service
        except BaseException:
            for job in _asked(lambda: service.status()["jobs"], []):
                _note_report(service, job["name"])
            if daemon is not None:
                reports.append(daemon.log()[-MOST_LOG:])
            raise


def _note_report(service: Any, name: str) -> None:
    reports.append(_asked(lambda: json.dumps(service.job_report(name)), f"{name}: no report"))


def _asked(ask: Callable[[], Any], otherwise: Any) -> Any:
    """A service that fails is what the test is about: its refusal to answer is no second error."""
    try:
        return ask()
    except laneway.Error:
        return otherwise


def note_replay(service: Any, step: Any, record: Any) -> None:
    """Records how much of a job was replayed; fails when nothing was, with the reason."""
    replayed, refused = laneway_device.replay_of(service.job_report(step.name))
    record("replayed", replayed)
    if refused:
        record("not_replayed", refused)
    assert replayed > 0, f"nothing was replayed: {refused or 'no reason was told'}"


def make_step(
    service: Any,
    name: str,
    seed: int = 1,
    replay: str = "auto",
    draws: bool = False,
    random: str | None = None,
) -> Any:
    """A job of the same workload as `train_plain` has, or of one that draws random numbers."""
    work = made(name, seed, draws)
    torch.manual_seed(seed + 100)
    title = f"{name}-{seed}-{replay}"
    step = laneway_device.train_step(work, service, title, replay, random)
    _service_of[step] = service
    return step


def train(step: Any, batches: list[Any]) -> Trained:
    try:
        return left(step, [step(*batch).item() for batch in batches])
    except BaseException:  # the step's end takes its job's report along
        _note_report(_service_of[step], step.name)
        raise


def left(step: Any, losses: list[float]) -> Trained:
    state = step.state_dict()
    return Trained(losses, _state(state["model"], state["optimizer"]))


def assert_same_bits(ours: Trained, theirs: Trained) -> None:
    assert ours.losses == theirs.losses
    different = [n for n, t in ours.state.items() if not same_bits(t, theirs.state[n])]
    assert not different, f"{different[0]} and {len(different) - 1} others differ"


def assert_as_plain(
    ours: Trained, plain: Trained, initial: dict[str, torch.Tensor], record: Any
) -> None:
    """Equal in the sense of README.md; records the distance and whether the bits were equal."""
    assert ours.state.keys() == plain.state.keys()
    usual = _usual_sizes(plain.state)
    distances = {
        name: _distance(tensor, plain.state[name], initial.get(name), usual.get(_kind(name), 0.0))
        for name, tensor in ours.state.items()
    }
    worst = max(distances, key=lambda name: distances[name])
    equal = ours.losses == plain.losses and all(
        same_bits(tensor, plain.state[name]) for name, tensor in ours.state.items()
    )
    record("bit_equal", int(equal))
    record("largest_distance", distances[worst])
    if not torch.cuda.is_available():
        assert_same_bits(ours, plain)
    for number, (a, b) in enumerate(zip(ours.losses, plain.losses, strict=True)):
        assert abs(a - b) <= LOSS_TOLERANCE * abs(b), f"loss {number} is {a}, eager's is {b}"
    assert distances[worst] <= STATE_TOLERANCE, f"{worst} is {distances[worst]:.3g} off"


def _kind(name: str) -> str:
    """Of an optimizer's tensor what it holds of its parameter ("exp_avg"); nothing of a model's."""
    return name.rpartition(".")[2] if name.startswith("optimizer.") else ""


def _usual_sizes(state: dict[str, torch.Tensor]) -> dict[str, float]:
    """By kind, the median over an optimizer's tensors of their roots of mean squares."""
    sizes: dict[str, list[float]] = {}
    for name, tensor in state.items():
        if _kind(name) and tensor.numel():
            sizes.setdefault(_kind(name), []).append(_size(tensor) / tensor.numel() ** 0.5)
    return {kind: statistics.median(found) for kind, found in sizes.items()}


def _size(tensor: torch.Tensor) -> float:
    return torch.linalg.vector_norm(tensor.double()).item()


def _distance(
    ours: torch.Tensor, plain: torch.Tensor, before: torch.Tensor | None, usual: float = 0.0
) -> float:
    """‖ours - plain‖ over what training changed it by; infinite when anything is not a number."""
    assert ours.shape == plain.shape and ours.dtype == plain.dtype
    a, b = ours.double(), plain.double()
    if not (torch.isfinite(a).all() and torch.isfinite(b).all()):
        return float("inf")
    gap = _size(a - b)
    if gap == 0.0:
        return 0.0
    start = torch.zeros_like(b) if before is None else before.double()
    # A bias before a normalisation has gradients that are rounding alone: what counts there is its
    # weight in the whole, and of its moments theirs beside the usual ones.
    of_start, floor = 1e-3 * _size(start), max(1e-5, 1e-2 * usual) * b.numel() ** 0.5
    return gap / max(_size(b - start), of_start, floor)
