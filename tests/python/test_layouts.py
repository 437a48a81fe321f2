"""Results and views lie in memory as the CPU's kernels lay them, whatever their fakes say: numbers
are eager's in all three interfaces, strides too where the user sees them. An operator that nobody
listed is found in the first iteration, measured, and captured again."""

import warnings

import pytest
import torch
from torch import nn
from torch.nn import functional

import laneway
from laneway.errors import LayoutError
from laneway.operators import layouts
from support.compiled import compare, eager_reasons, own_service, running  # noqa: F401
from support.eager import assert_same
from support.lying_fakes import lying_about

SCALAR = torch.tensor(2.0)
TRANSPOSED = torch.linspace(-2, 3, 50).reshape(5, 10).t()  # strides (1, 10)
OTHER = torch.linspace(1, 4, 50).reshape(5, 10).t()
IMAGE = torch.linspace(-1, 1, 200).reshape(2, 4, 5, 5).contiguous(memory_format=torch.channels_last)
LYING = {
    "fft over an inner dimension": (
        lambda x: torch.fft.fft(x, dim=1).real,
        torch.arange(12.0).reshape(1, 4, 3),
    ),
    "irfft over an inner dimension": (
        lambda x: torch.fft.irfft(torch.complex(x, x), dim=1).transpose(1, 2),
        torch.arange(12.0).reshape(1, 4, 3),
    ),
    "stft of a transposed batch": (
        lambda x: torch.stft(x, 8, center=False, return_complex=True, window=torch.ones(8)),
        torch.linspace(-1, 1, 60).reshape(20, 3).t(),
    ),
    "channel_shuffle": (lambda x: functional.channel_shuffle(x, 2).chunk(2, 1), IMAGE),
    "reflected padding": (lambda x: functional.pad(x, (1, 1, 1, 1), "reflect").chunk(2, 1), IMAGE),
    "replicated padding": (lambda x: functional.pad(x, (1, 1, 1, 1), "replicate")[:, 1:], IMAGE),
    "padding": (lambda x: functional.pad(x, (1, 1, 1, 1)).chunk(2, 1), IMAGE),
    "max_unpool2d": (
        lambda x: functional.max_unpool2d(
            *functional.max_pool2d(x, 2, return_indices=True), 2, output_size=(5, 5)
        ).flatten(2),
        IMAGE,
    ),
    "floor_divide": (lambda x: torch.floor_divide(x, SCALAR).t(), TRANSPOSED),
    "div, rounding_mode": (lambda x: torch.div(x, SCALAR, rounding_mode="floor").t(), TRANSPOSED),
    "copysign": (lambda x: torch.copysign(x, SCALAR).t(), TRANSPOSED),
    "heaviside": (lambda x: torch.heaviside(x, SCALAR).t(), TRANSPOSED),
    "logaddexp": (lambda x: torch.logaddexp(x[:, None], OTHER).transpose(-1, -2), TRANSPOSED),
    "ldexp": (lambda x: torch.ldexp(x[:, None], OTHER), TRANSPOSED),
    "batch norm of what is permuted": (
        lambda x: functional.batch_norm(x, None, None, training=True).flatten(1),
        torch.linspace(-1, 1, 60).reshape(3, 4, 5).transpose(1, 2),
    ),
    "view_copy": (lambda x: torch.view_copy(x.unsqueeze(0), (10, 5)).t(), TRANSPOSED),
}


class Module(nn.Module):
    def __init__(self, code):
        super().__init__()
        self.code = code

    def forward(self, x):
        return self.code(x)


@pytest.mark.parametrize("name", LYING)
def test_results_lie_as_the_kernels_lay_them(name):
    code, x = LYING[name]
    with torch.no_grad():
        compare(code, [(x,), (x + 1,)])
        assert eager_reasons() == [] and len(running()) == 1
        with laneway.embedded("64MiB") as service:
            assert_same(code(x), laneway.inference(Module(code), service)(x))


def test_memory_around_a_parameter_is_kept_as_eager_keeps_it():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            memory = torch.linspace(-1, 1, 60).reshape(6, 10)
            self.weight = nn.Parameter(memory[1:5, 1::2])

        def forward(self, x):
            y = torch.slice_scatter(self.weight, x, 0, 1, 2).select_scatter(x[0], 0, 2)
            return y.diagonal_scatter(x[0][:4] * 2).square().sum()

    model, twin = Model(), Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    twins = torch.optim.SGD(twin.parameters(), lr=0.1)
    x = torch.linspace(-1, 1, 5).reshape(1, 5)
    with laneway.embedded("64MiB") as service:
        step = laneway.train_step(model, lambda y, _: y, optimizer, service)
        for _ in range(3):
            twins.zero_grad()
            loss = twin(x)
            loss.backward()
            twins.step()
            assert_same(loss, step(x, x))
        assert_same(twin.state_dict(), step.state_dict()["model"])


def test_a_spectrum_is_flattened_in_all_three_interfaces():
    class Spectra(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.linear = nn.Linear(24, 1)

        def forward(self, x):
            return self.linear(torch.fft.rfft(x, dim=1).abs().flatten(1))

    x = torch.linspace(-1, 1, 80).reshape(2, 10, 4)
    model, twin = Spectra(), Spectra()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    twins = torch.optim.SGD(twin.parameters(), lr=0.1)
    with laneway.embedded("64MiB") as service:
        assert_same(model(x), laneway.inference(model, service)(x))
        step = laneway.train_step(model, lambda y, _: y.square().sum(), optimizer, service)
        for _ in range(3):
            twins.zero_grad()
            loss = twin(x).square().sum()
            loss.backward()
            twins.step()
            assert_same(loss, step(x, x))
        assert_same(twin.state_dict(), step.state_dict()["model"])
    with torch.no_grad():
        compare(Spectra(), [(x,)])
    assert eager_reasons() == []


class Normed(nn.Module):
    """Both norms, of what autocast has made bfloat16 before, with weights in float32."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.inner, self.outer = nn.Linear(6, 8), nn.Linear(8, 3)
        self.layer, self.group = nn.LayerNorm(8), nn.GroupNorm(2, 8)

    def forward(self, x):
        return self.outer(self.group(self.layer(self.inner(x))))


@pytest.mark.parametrize("listed", [True, False], ids=["listed", "found in the first iteration"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("how", ["autocast", "reduced body"])
def test_norms_of_mixed_precision_train(how, dtype, listed, monkeypatch):
    monkeypatch.setattr(layouts, "_distrusted", set())
    if not listed:
        monkeypatch.setattr(layouts, "_MIXED_NORMS", frozenset())
    model, twin = Normed(), Normed()
    x, y = torch.linspace(-1, 1, 24).reshape(4, 6), torch.tensor([0, 1, 2, 0])
    if how == "reduced body":
        x = x.to(dtype)
        for each in (model, twin):
            each.inner.to(dtype), each.outer.to(dtype)
    optimizer = torch.optim.AdamW(model.parameters())
    twins = torch.optim.AdamW(twin.parameters())

    def iteration(own, its_optimizer, x):
        its_optimizer.zero_grad()
        with torch.autocast("cpu", dtype, enabled=how == "autocast"):
            loss = functional.cross_entropy(own(x).float(), y)
        loss.backward()
        its_optimizer.step()
        return loss.detach()

    with laneway.embedded("64MiB") as service:
        step = laneway.step(model, optimizer, service=service)(
            lambda x: iteration(model, optimizer, x)
        )
        for _ in range(3):
            assert_same(iteration(twin, twins, x), step(x))
        assert_same(twin.state_dict(), step.state_dict()["model"])
        assert_same(twins.state_dict(), step.state_dict()["optimizer"])
    assert ("aten::native_layer_norm" in layouts.distrusted()) is not listed


# What an operator does of which nobody knows that it lies: the lists are taken away.


@pytest.fixture
def unlisted(monkeypatch):
    for name in ("_ON_CPU", "_ON_CPU_WHEN_UNUSUAL"):
        monkeypatch.setattr(layouts, name, frozenset())
    monkeypatch.setattr(layouts, "_distrusted", set())
    return layouts._distrusted


NOT_FOUND = (
    "irfft over an inner dimension",  # these operands happen to lie as the fakes do
    "padding",
    "heaviside",
    "batch norm of what is permuted",  # measured by a rule of its own
    "view_copy",  # its fake refuses instead of lying
)


@pytest.mark.parametrize("name", [name for name in LYING if name not in NOT_FOUND])
def test_an_operator_that_lies_is_found_and_captured_again(name, unlisted):
    code, x = LYING[name]
    with lying_about(code, x), warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("error")
        compare(code, [(x,), (x + 1,)])
        assert eager_reasons() == []
        with laneway.embedded("64MiB") as service:
            assert_same(code(x), laneway.inference(Module(code), service)(x))
    assert unlisted


def test_several_are_found_one_after_another(unlisted):
    def code(x):
        y = functional.pad(functional.channel_shuffle(x, 2), (1, 1, 1, 1), "reflect")
        return torch.copysign(y, SCALAR).flatten(1)

    with laneway.embedded("64MiB") as service:
        predict = laneway.inference(Module(code), service)
        assert_same(code(IMAGE), predict(IMAGE))
        assert len(unlisted) >= 2
        assert [j["state"] for j in service.status()["jobs"]].count("failed") == 0


def test_a_training_step_is_captured_again_with_nothing_trained(unlisted):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.linear = nn.Linear(12, 2)
            self.norm = nn.BatchNorm1d(2)

        def forward(self, x):
            return self.norm(self.linear(torch.fft.rfft(x, dim=1).abs().flatten(1)))

    x = torch.linspace(-1, 1, 40).reshape(2, 5, 4)
    model, twin = Model(), Model()
    optimizer = torch.optim.AdamW(model.parameters())
    twins = torch.optim.AdamW(twin.parameters())
    with (
        lying_about(lambda x: torch.fft.rfft(x, dim=1), x),
        laneway.embedded("64MiB") as service,
    ):
        step = laneway.train_step(model, lambda y, _: y.square().sum(), optimizer, service)
        for _ in range(3):
            twins.zero_grad()
            loss = twin(x).square().sum()
            loss.backward()
            twins.step()
            assert_same(loss, step(x, x))
        state = step.state_dict()
    assert "aten::_fft_r2c" in unlisted
    assert_same(twin.state_dict(), state["model"])
    assert_same(twins.state_dict(), state["optimizer"])


def test_what_measuring_does_not_show_is_refused_in_words(unlisted, monkeypatch):
    code, x = LYING["fft over an inner dimension"]
    monkeypatch.setattr(layouts, "measured", lambda *_: NotImplemented)
    with (
        lying_about(code, x),
        laneway.embedded("64MiB") as service,
        pytest.raises(LayoutError) as refused,
    ):
        laneway.inference(Module(code), service)(x)
    assert "aten::_fft_r2c" in str(refused.value)
    assert "gave a tensor with strides" in str(refused.value)


def test_an_iteration_that_is_not_waited_for_says_that_it_is_to_be_submitted_again(unlisted):
    code, x = LYING["fft over an inner dimension"]
    with lying_about(code, x), laneway.embedded("64MiB") as service:
        predict = laneway.inference(Module(code), service)
        # Each operator that lies costs one submission.
        for _ in range(3):
            future = predict.submit(x)
            try:
                assert_same(code(x), future.result())
                break
            except LayoutError as error:
                assert "submit it again" in str(error)
        else:
            raise AssertionError("it is never captured right")
    assert unlisted


def test_measuring_draws_no_random_number_of_the_users(monkeypatch):
    monkeypatch.setattr(layouts, "_distrusted", {"aten::bernoulli_.float", "aten::randn_like"})

    def code(x):
        return x + torch.randn_like(x)

    before = torch.get_rng_state()
    with laneway.embedded("64MiB") as service:
        laneway.inference(Module(code), service, random="own")(TRANSPOSED)
    assert torch.equal(before, torch.get_rng_state())
