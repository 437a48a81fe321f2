"""A capture leaves every object of the user's as it was, for families of transformers as Hugging
Face has them: all that can be reached from model, optimizer, step and batch is compared before and
after the capture of a step and of an inference."""

import pytest
import torch

from bench.models import arguments, hugging_face, make
from laneway.capture.capture import capture_inference, capture_train_step
from support.reachable import Reachable


@pytest.mark.parametrize("name", hugging_face.NAMES)
def test_no_object_that_can_be_reached_is_changed(name):
    work = make(name)
    _, batch = arguments(work.batch(0))
    model, optimizer = work.model, work.optimizer

    def step(own, its_optimizer, **batch):
        its_optimizer.zero_grad()
        loss = own(**batch, output_hidden_states=True).loss
        loss.backward()
        its_optimizer.step()
        return loss

    def infer(own, **batch):
        with torch.no_grad():
            return own(**batch, output_hidden_states=True).logits

    before = Reachable([model, optimizer, step, infer, batch])
    assert len(before) > len(list(model.modules()))
    capture_train_step(model, None, optimizer, (), batch, closure=step)
    assert before.differences() == []
    capture_inference(model, (), batch, closure=infer)
    assert before.differences() == []
