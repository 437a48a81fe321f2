"""A mode of torch around a call is part of the call's form: each call has the bits of eager
execution under the mode that is set then, and a mode that comes back finds its capture again."""

import contextlib
import threading

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import laneway
from laneway.jobs.forms.surroundings import Surroundings
from support.both import batches, check_equal, net
from support.eager import assert_same, eager_step


@contextlib.contextmanager
def set_for_now(setter, value, before):
    setter(value)
    try:
        yield
    finally:
        setter(before)


MODES = {
    "autocast, bfloat16": lambda: torch.autocast("cpu", torch.bfloat16),
    "autocast, float16": lambda: torch.autocast("cpu", torch.float16),
    "flush of denormals": lambda: set_for_now(torch.set_flush_denormal, True, False),
    "sdpa_kernel, math": lambda: sdpa_kernel(SDPBackend.MATH),
    "without the fast path": lambda: set_for_now(
        torch.backends.mha.set_fastpath_enabled, False, True
    ),
}


# A job has one of these: the service refuses a graph of another.
FLAGS = {
    "float64 as default": lambda: set_for_now(
        torch.set_default_dtype, torch.float64, torch.float32
    ),
    "deterministic algorithms": lambda: set_for_now(
        torch.use_deterministic_algorithms, True, False
    ),
    "without mkldnn": lambda: torch.backends.mkldnn.flags(enabled=False),
}


class Attending(nn.Module):
    """Its result depends on each of the modes, or could."""

    def __init__(self):
        super().__init__()
        self.inner, self.outer = nn.Linear(8, 32), nn.Linear(32, 4)
        self.register_buffer("tiny", torch.tensor(1e-38))

    def forward(self, x):
        x = self.inner(x)
        heads = x.view(1, 4, 8, 8)
        mixed = F.scaled_dot_product_attention(heads, heads, heads).sum()
        denormal = (self.tiny * 1e-3) * 1e30
        return self.outer(x) + mixed + denormal + torch.full((), 1 / 3)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", ["step", "inference"])
def test_each_call_has_the_mode_of_its_moment(kind, mode, service):
    def job(lane):
        model = Attending()
        if kind == "inference":
            if "autocast" not in mode:
                encoder = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
                model = nn.ModuleList([model, encoder])
                model.forward = lambda x: (model[0](x), model[1](x[None]))
            run = lane.inference(model)
        else:
            optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
            loss = lambda out, y: F.cross_entropy(out.float(), y)  # noqa: E731
            run = lane.train_step(model, loss, optimizer)
        results = []
        for number, (x, y) in enumerate(batches()):
            with MODES[mode]() if number in (2, 3, 5) else contextlib.nullcontext():
                results.append(run(x) if kind == "inference" else run(x, y))
        return results, model

    check_equal(job, service)


@pytest.mark.parametrize("flag", FLAGS)
def test_another_flag_of_the_process_is_refused_and_goes_when_it_is_put_back(flag):
    model, twin = net(), net()
    twin.load_state_dict(model.state_dict())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    twins = torch.optim.SGD(twin.parameters(), lr=0.1)
    with laneway.embedded("64MiB") as service:
        step = laneway.train_step(model, F.cross_entropy, optimizer, service)
        for number, batch in enumerate(batches(4)):
            if number == 2:
                with FLAGS[flag](), pytest.raises(laneway.InvalidInput, match="put the flags back"):
                    step(*batch)
            assert_same(eager_step(twin, F.cross_entropy, twins, batch).detach(), step(*batch))
        assert_same(twin.state_dict(), step.state_dict()["model"])


@pytest.mark.parametrize("what", ["a fused layer", "cov", "corrcoef"])
def test_what_autocast_casts_inside_of_an_operator_is_refused(what):
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    codes = {
        "a fused layer": layer,
        "cov": lambda x: torch.cov(x[0]),
        "corrcoef": lambda x: torch.corrcoef(x[0]),
    }
    model = nn.Identity() if what != "a fused layer" else layer
    x = batches(1)[0][0][None]
    with laneway.embedded("64MiB") as service, torch.no_grad():
        predict = laneway.inference(model, service, closure=lambda own, x: codes[what](x))
        model.eval()
        with torch.autocast("cpu", torch.bfloat16):
            with pytest.raises(laneway.CaptureError, match="autocast casts what") as refused:
                predict(x)
            if what == "a fused layer":  # the remedies
                assert "torch.backends.mha.set_fastpath_enabled(False)" in str(refused.value)
                with set_for_now(torch.backends.mha.set_fastpath_enabled, False, True):
                    assert_same(layer(x), predict(x))
        assert "autocast" in str(refused.value)
        assert_same(codes[what](x), predict(x))


def test_a_function_that_trains_and_evaluates_by_the_gradient_mode(service):
    def job(lane):
        model = net()
        optimizer = torch.optim.AdamW(model.parameters())

        @lane.step(model, optimizer)
        def run(x, y):
            loss = F.cross_entropy(model(x), y)
            if torch.is_grad_enabled():
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            return loss

        losses = []
        for number, (x, y) in enumerate(batches()):
            mode = torch.inference_mode(number % 3 == 2)
            with mode, torch.set_grad_enabled(number % 3 == 0 or number == 1):
                losses.append(run(x, y).clone())
        return losses, model, optimizer

    check_equal(job, service)


def test_modes_that_come_back_find_their_captures_again():
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with laneway.embedded("64MiB") as service:
        step = laneway.train_step(
            model, lambda out, y: F.cross_entropy(out.float(), y), optimizer, service
        )
        for number, (x, y) in enumerate(batches(6)):
            with torch.autocast("cpu", torch.bfloat16, enabled=number % 2 == 1):
                step(x, y)
        assert step.report()["captures"]["made"] == 2


def test_an_inference_asks_for_no_gradient_mode():
    model = net()
    with laneway.embedded("64MiB") as service:
        predict = laneway.inference(model, service)
        x = batches(1)[0][0]
        expected = predict(x)
        for mode in (torch.no_grad(), torch.inference_mode(), torch.enable_grad()):
            with mode:
                assert_same(expected, predict(x))
        assert predict._variants.counts()["made"] == 1


def test_another_thread_has_its_own_modes():
    model = net()
    x = batches(1)[0][0]
    with laneway.embedded("64MiB") as service, torch.no_grad():
        predict = laneway.inference(model, service)
        plain = model(x)
        results = []
        with torch.autocast("cpu", torch.bfloat16):
            expected = model(x)
            assert_same(expected, predict(x))
            thread = threading.Thread(target=lambda: results.append(predict(x)))
            thread.start()
            thread.join()
        assert_same(plain, results[0])


def test_the_mode_that_differs_is_named():
    before = Surroundings()
    assert before.difference() is None
    with torch.autocast("cpu", torch.float16):
        assert "torch.autocast" in before.difference()
    with set_for_now(torch.set_flush_denormal, True, False):
        assert "set_flush_denormal(), is True and was False" in before.difference()
    with torch.no_grad():
        assert "is_grad_enabled" in before.difference()
        assert Surroundings(inference=True).difference() is None
    assert before.difference() is None
