"""The models of the benches, captured and trained, leave the bits of eager.

Three steps each (one for densenet121), with the optimizer as the bench has it; loss, parameters,
buffers, optimizer state and random state are compared after every step.
"""

from __future__ import annotations

import pytest
import torch

from bench.models import NAMES, make
from laneway.capture.capture import capture_train_step
from support.eager import assert_same, eager_step
from support.reference_executor import ReferenceJob

STEPS = {"densenet121": 1}
# vgg11 has the operators of cnn on a hundred times the bytes; test_engine_models.py trains it.
TRAINED = [name for name in NAMES if name != "vgg11"]
FUSED = ("mlp", "cnn", "gpt", "lstm")


@pytest.mark.parametrize(
    ("name", "form"), [(n, "default") for n in TRAINED] + [(n, "fused") for n in FUSED]
)
def test_model_leaves_the_bits_of_eager(name: str, form: str) -> None:
    ours, eager = make(name, 1, form), make(name, 1, form)
    captured = capture_train_step(ours.model, ours.loss_fn, ours.optimizer, ours.batch(0))
    job = ReferenceJob(captured.slots)
    for number in range(STEPS.get(name, 3)):
        batch = ours.batch(number)
        expected = eager_step(eager.model, eager.loss_fn, eager.optimizer, batch)
        assert_same(expected.detach(), job.step(captured, batch, optimizer=ours.optimizer))
        state = job.model_state()
        for key, tensor in eager.model.state_dict().items():
            assert_same(tensor, state[key], f"step {number}: {key}")
        assert_same(eager.optimizer.state_dict(), job.optimizer_state(captured, ours.optimizer))
        assert_same(torch.get_rng_state(), job.generator.get_state())
