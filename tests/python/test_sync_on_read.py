"""Shows when a step brings the client's model up to date, how much it copies, and what it refuses:
the loops themselves are in test_sync_loops.py."""

from __future__ import annotations

import copy
import gc
import io
import warnings
import weakref
from unittest import mock

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import laneway
from laneway.errors import InvalidInput, ServiceUnavailable
from laneway.jobs.watch.watched import WatchedList, WatchedState, WatchedTensors
from support.eager import assert_same
from support.loop import Loop, batch, body_of, made


def trained(steps=2):
    eager = Loop()
    eager.steps(steps)
    return eager


def test_submitted_iterations_are_waited_for(service):
    loops = Loop(), Loop(service)
    torch.manual_seed(3)
    batches = [batch() for _ in range(3)]
    for loop in loops:
        torch.manual_seed(4)
        train = loop.train if loop is loops[0] else loop.train.submit
        for each in batches:
            train(*each)
        loop.see(loop.model.state_dict(), loop.optimizer.state_dict())
    assert_same(loops[1].out, loops[0].out)


@pytest.mark.parametrize("end", ["step", "service", "nobody"])
def test_the_model_has_its_weights_when_the_job_has_ended(end):
    service = laneway.embedded("256MiB")
    ours = Loop(service)
    ours.steps(2)
    if end == "step":
        ours.train.close()
    elif end == "service":
        service.close()
    else:
        dropped = weakref.ref(ours.train)
        ours.train = None
        assert dropped() is None, "nothing but the loop holds the step"
    plain = [ours.model[0]._parameters, ours.model[1]._buffers, ours.optimizer.state]
    plain += [ours.optimizer.param_groups[0]["params"]]
    assert not any(isinstance(c, (WatchedTensors, WatchedState, WatchedList)) for c in plain)
    expected = trained()
    assert_same(ours.model.state_dict(), expected.model.state_dict())
    assert_same(ours.optimizer.state_dict(), expected.optimizer.state_dict())
    service.close()


def test_only_what_changed_is_read_and_only_once(service):
    ours = Loop(service)
    ours.model[0].requires_grad_(False)
    ours.steps(2)
    job = ours.train.job
    with mock.patch.object(job, "read_into", wraps=job.read_into) as read:
        ours.optimizer.zero_grad()
        ours.model.zero_grad()
        ours.optimizer.param_groups[0]["lr"] = 0.1
        ours.model.eval()
        assert not read.called
        for _ in range(2):
            ours.model(torch.ones(4, 8))
        ours.model.state_dict()
        assert read.call_count == 1
        names = {slot.name for slot in read.call_args.args[0]}
        assert "model/1.weight" in names and "model/1.running_mean" in names
        assert not names & {"model/0.weight", "model/0.bias"}
        assert not any(name.startswith("optimizer") for name in names)


def test_a_job_follows_the_job_before_it_on_the_same_model(service):
    """Two steps over one model, in turn, as one eager loop with two functions would."""

    def run(with_service):
        loop = Loop(service if with_service else None)
        other = torch.optim.SGD(loop.model.parameters(), 0.1, momentum=0.5)
        second = body_of(loop.model, other)
        if with_service:
            second = laneway.step(loop.model, other, service=service)(second)
        for _ in range(3):
            loop.steps(1)
            loop.out.append(second(*batch()).item())
        return loop.out, copy.deepcopy(loop.model.state_dict())

    assert_same(run(True), run(False))


def test_two_steps_of_one_model_at_the_same_time_are_refused(service):
    loop = Loop(service)
    other = torch.optim.SGD(loop.model.parameters(), 0.1)
    second = laneway.step(loop.model, other, service=service)(body_of(loop.model, other))
    loop.steps(1)
    second(*batch())
    before = [mirror._calls for mirror in (loop.train.mirror, second.mirror)]
    loop.train.mirror.before_call()  # as a thread does whose iteration is on its way
    second(*batch())
    loop.train.mirror.after_call()
    assert [mirror._calls for mirror in (loop.train.mirror, second.mirror)] == before
    with pytest.raises(InvalidInput, match="by another step of this model, which ran at the same"):
        loop.steps(1)


def test_an_inference_uses_what_was_written(service):
    ours = Loop(service)
    ours.steps(2)
    predict = laneway.inference(ours.train)
    own = laneway.inference(copy.deepcopy(ours.model), service=service)
    model = own._model
    for change in (0.5, 2.0):
        for each in (ours.model, model):
            for parameter in each.parameters():
                parameter.data.mul_(change)
            each.eval()
            with torch.no_grad():
                expected = each(torch.ones(4, 8))
            found = (predict if each is ours.model else own)(torch.ones(4, 8))
            assert torch.equal(found, expected)


def test_a_manual_inference_keeps_its_weights(service):
    model, _ = made()
    model.eval()
    with laneway.inference(model, service=service, sync="manual") as predict:
        before = predict(torch.ones(4, 8))
        model.half()
        assert torch.equal(predict(torch.ones(4, 8)), before)


def test_a_write_over_old_values_is_refused(service):
    ours = Loop(service)
    ours.steps(1)
    weight = ours.model[0].weight
    ours.steps(1)
    with torch.no_grad():
        weight.mul_(2)  # the values of before the iteration
    with pytest.raises(InvalidInput, match=r"'0\.weight' was written through a reference"):
        ours.steps(1)


@pytest.mark.parametrize("change", ["half", "double", "reshape"])
def test_a_tensor_of_another_form_is_refused(service, change):
    ours = Loop(service)
    ours.steps(1)
    if change == "reshape":
        ours.model[0].weight.data = torch.zeros(8, 16)
    else:
        getattr(ours.model, change)()
    with pytest.raises(InvalidInput, match=r"make a new step for the changed model"):
        ours.steps(1)
    if change == "half":  # and back: the step goes on
        ours.model.float()
        ours.steps(1)


def test_lost_weights_are_no_old_weights(service):
    ours = Loop(service)
    ours.steps(2)
    ours.train.job.close()
    with pytest.raises(ServiceUnavailable) as failed:
        ours.model.state_dict()
    assert any("step.close()" in note for note in failed.value.__notes__)
    with pytest.warns(RuntimeWarning, match="are lost"):
        ours.train.close()
    ours.model.state_dict()


def test_lines_that_were_left_in_are_told_of_once(service):
    ours = Loop(service)
    ours.steps(1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            ours.steps(1)
            ours.optimizer.zero_grad()
            nn.utils.clip_grad_norm_(ours.model.parameters(), 1.0)
            ours.optimizer.step()
    texts = [str(w.message) for w in caught]
    assert len(texts) == 2
    assert texts[0].startswith("clip_grad_norm_() outside of the step")
    assert texts[1].startswith("optimizer.step() outside of the step")
    assert {w.filename for w in caught} == {__file__}
    assert_same(ours.model.state_dict(), trained(3).model.state_dict())


@pytest.mark.parametrize("read", ["training", "evaluation", "state_dict"])
def test_a_manual_step_warns_of_old_weights(service, read):
    model, optimizer = made()
    train = laneway.step(model, optimizer, service=service, sync="manual")(
        body_of(model, optimizer)
    )
    train(*batch())
    with pytest.warns(UserWarning, match="its own weights are those of before"):
        if read == "state_dict":
            model.state_dict()
        else:
            model.train(read == "training")(torch.ones(4, 8))
    assert_same(model[0].weight, made()[0][0].weight)


def test_a_manual_step_does_not_warn_of_what_was_copied(service):
    model, optimizer = made()
    train = laneway.step(model, optimizer, service=service, sync="manual")(
        body_of(model, optimizer)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        train(*batch())
        train.sync_to(model, optimizer)
        model(torch.ones(4, 8))
    train(*batch())
    with pytest.warns(UserWarning, match="its own weights are those of before"):
        model(torch.ones(4, 8))


def test_another_choice_is_refused():
    with pytest.raises(InvalidInput, match=r"sync = 'sometimes': give one of 'on_read', 'manual'"):
        model, optimizer = made()
        laneway.train_step(model, F.cross_entropy, optimizer, sync="sometimes")


def test_copies_are_plain_and_hold_no_job(service):
    ours = Loop(service)
    ours.steps(1)
    copies = copy.deepcopy(ours.model), copy.deepcopy(ours.optimizer)
    assert type(copies[0][0]._parameters) is dict
    assert type(copies[1].param_groups[0]["params"]) is list
    file = io.BytesIO()
    torch.save(ours.model, file)
    file.seek(0)
    parts = [nn.Sequential, nn.Linear, nn.BatchNorm1d, nn.Dropout, set]
    with torch.serialization.safe_globals(parts):  # what the model itself is made of
        loaded = torch.load(file, weights_only=True)
    assert_same(loaded.state_dict(), ours.model.state_dict())
    job = weakref.ref(ours.train.job)
    ours.train.close()
    del ours
    gc.collect()
    assert job() is None


def test_gradients_of_a_step_without_an_optimizer_are_where_eager_leaves_them(service):
    def run(with_service):
        model, _ = made()
        optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
        out = []

        def accumulate(x, y):
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            return loss

        if with_service:
            accumulate = laneway.step(model, None, service=service)(accumulate)
        for i in range(6):
            out.append(accumulate(*batch()).item())
            out.append([p.grad.clone() for p in model.parameters()])
            if i % 2:
                nn.utils.clip_grad_norm_(model.parameters(), 0.1)
                optimizer.step()
                optimizer.zero_grad()
            elif i == 2:
                with torch.no_grad():
                    model[0].weight.grad.mul_(0.5)
        return out, copy.deepcopy(model.state_dict()), optimizer.state_dict()

    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        assert_same(run(True), run(False))


def test_a_model_of_inference_tensors_is_refused_before_it_has_a_job(service):
    with torch.inference_mode():
        model = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))
    x = torch.randn(2, 4)
    before = {job["id"] for job in service.status()["jobs"]}
    with pytest.raises(InvalidInput, match=r"0\.weight, a tensor of the model.*sync=.manual"):
        laneway.inference(model, service=service)(x)
    assert {job["id"] for job in service.status()["jobs"]} <= before
    by_hand = laneway.inference(model, service=service, sync="manual")
    with torch.no_grad():
        assert torch.equal(by_hand(x), model.eval()(x))


def test_a_weight_that_became_an_inference_tensor_is_refused(service):
    model = nn.Linear(4, 3)
    x = torch.randn(2, 4)
    with laneway.inference(model, service=service) as predict:
        predict(x)
        with torch.inference_mode():
            weight = torch.zeros(3, 4)
        model.weight = nn.Parameter(weight, requires_grad=False)
        with pytest.raises(InvalidInput, match=r"weight, a tensor of the model.*inference_mode"):
            predict(x)
