"""What a job computes never depends on bytes that lay in its memory before: the same training, in a
region that another job has used and that grew, with fresh and freed memory filled with several
bytes (0xFF makes floating-point numbers NaN), leaves the bits of eager PyTorch."""

import pytest
import torch

import laneway
from bench import models
from support.eager import assert_same
from support.engine import batches_of, eager_state, make_step, train

ITERATIONS = 5


def state_after_another_job(name: str) -> dict:
    """After training behind a smaller job, in its lane, and behind a bigger one that was closed."""
    batches = batches_of(name, 0, ITERATIONS)
    small = torch.nn.Linear(4, 4)
    with laneway.embedded("512MiB", lanes=1) as service:
        former = make_step(service, "cnn" if name != "cnn" else "lstm", 7)
        former(*models.make("cnn" if name != "cnn" else "lstm", 7).batch(0))
        former.close()
        with laneway.inference(small, service=service) as predict:
            predict(torch.ones(2, 4))
            predict(torch.ones(2, 4))  # what the first one taught has changed the region by now
            before = region_bytes(service)
            with make_step(service, name, 0) as step:
                state = train(step, batches)
                assert region_bytes(service) > before > 0
    return state


def region_bytes(service: laneway.Service) -> int:
    return sum(line["bytes"] for line in service.status()["map"] if line["kind"] == "region")


@pytest.mark.parametrize("name", ["mlp", "cnn", "lstm"])
def test_state_is_the_same_whatever_lay_there(name, monkeypatch):
    expected = eager_state(name, 0, "default", batches_of(name, 0, ITERATIONS))
    for poison in ("", "0xCD", "0xFF", "0x00"):
        monkeypatch.setenv("LANEWAY_POISON", poison)
        assert_same(expected, state_after_another_job(name), f"{name} with {poison or 'none'}")


def test_what_an_operator_leaves_unwritten_shows(monkeypatch):
    """So the comparison above would find it."""

    def leave_unwritten(model: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
        return torch.empty_like(x)

    for poison, byte in (("1", 0xCD), ("0xFF", 0xFF), ("0x00", 0)):
        monkeypatch.setenv("LANEWAY_POISON", poison)
        with laneway.embedded("64MiB") as service:
            predict = laneway.inference(torch.nn.Linear(1, 1), service, closure=leave_unwritten)
            answers = [predict(torch.ones(3, 5)) for _ in range(3)]
        assert all(answer.view(torch.uint8).eq(byte).all() for answer in answers), poison
