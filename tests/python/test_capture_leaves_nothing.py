"""A capture leaves every object of the user's as it was: no hook, attribute, cache or flag. All
that can be reached from model, optimizer, step and arguments is compared before and after."""

import gc

import pytest
import torch
import transformers
from torch import nn
from torch.nn import functional as F

import laneway
from laneway.capture.capture import capture_inference, capture_train_step
from support.both import batches
from support.eager import assert_same
from support.reachable import Reachable


class InstallsHooks(nn.Module):
    """Its first forward registers hooks of all kinds, marks itself, and caches what it made."""

    def __init__(self):
        super().__init__()
        self.layer, self.norm = nn.Linear(6, 6), nn.BatchNorm1d(6)
        self.calls, self.cache = [], {}
        self.register_buffer("table", torch.arange(6.0), persistent=False)

    def forward(self, x):
        if not hasattr(self, "_installed"):
            self._installed = True
            self.layer.register_forward_hook(lambda module, inputs, out: out * 2)
            self.layer.register_forward_hook(
                lambda module, args, kwargs, out: out + 1,
                with_kwargs=True,
                prepend=True,
                always_call=True,
            )
            self.layer.register_forward_pre_hook(
                lambda module, args, kwargs: None, with_kwargs=True
            )
            self.norm.register_full_backward_hook(lambda module, given, left: None)
            self.norm.register_full_backward_pre_hook(lambda module, left: None)
            self.register_state_dict_post_hook(lambda *_: None)
            self.register_load_state_dict_post_hook(lambda *_: None)
            self.layer.note = "seen"
            self.norm.add_module("extra", nn.Identity())
        return self.norm(self.layer(x)) + self.table


def hooked(kind):
    torch.manual_seed(0)
    if kind == "hooks in forward":
        return InstallsHooks(), torch.linspace(-1, 1, 24).reshape(4, 6)
    sizes = {
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 32,
        "vocab_size": 50,
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
    }
    return transformers.BertModel(transformers.BertConfig(**sizes)), torch.arange(10)[None]


def loss_of(model, x):
    if isinstance(model, InstallsHooks):
        return model(x).pow(2).sum()
    return sum(s.pow(3).mean() for s in model(x, output_hidden_states=True).hidden_states)


KINDS = ["hooks in forward", "hidden states of transformers"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fails", [False, True], ids=["captured", "refused"])
def test_no_object_that_can_be_reached_is_changed(kind, fails):
    model, x = hooked(kind)
    optimizer = torch.optim.AdamW(model.parameters())
    options = {"seen": [], "by_name": {}}

    def step(own, its_optimizer, x):
        if not options["by_name"]:
            options["by_name"]["hook"] = "registered"
            its_optimizer.register_step_post_hook(lambda *_: None)
        its_optimizer.zero_grad()
        loss = loss_of(own, x)
        loss.backward()
        its_optimizer.step()
        if fails:
            torch.nonzero(x)
        return loss

    before = Reachable([model, optimizer, step, options, x])
    assert len(before) > 50
    for _ in range(2):
        if fails:
            with pytest.raises(laneway.CaptureError):
                capture_train_step(model, None, optimizer, (x,), closure=step)
        else:
            capture_train_step(model, None, optimizer, (x,), closure=step)
            capture_inference(model, (x,), closure=lambda own, x: loss_of(own, x))
        assert before.differences() == []


@pytest.mark.parametrize("kind", KINDS)
def test_hooks_that_forward_installs_are_there_once(kind):
    model, x = hooked(kind)
    twin, _ = hooked(kind)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    twins = torch.optim.SGD(twin.parameters(), lr=0.1)

    def iteration(own, its_optimizer, x):
        its_optimizer.zero_grad()
        loss = loss_of(own, x)
        loss.backward()
        its_optimizer.step()
        return loss.detach()

    other = x[:2] if x.dtype.is_floating_point else x[:, :6]
    with laneway.embedded("64MiB") as service:
        step = laneway.step(model, optimizer, service=service)(
            lambda x: iteration(model, optimizer, x)
        )
        for given in (x, other, x):
            assert_same(iteration(twin, twins, given), step(given))
        with torch.no_grad():  # the user's own eager call, in between
            assert_same(loss_of(twin.eval(), x), loss_of(model.eval(), x))
        model.train(), twin.train()
        for given in (other, x):
            assert_same(iteration(twin, twins, given), step(given))
        assert_same(twin.state_dict(), step.state_dict()["model"])
    for own, plain in zip(model.modules(), twin.modules()):
        assert len(own._forward_hooks) == len(plain._forward_hooks)


@pytest.mark.parametrize(
    "make", [torch.jit.script, lambda part: torch.jit.trace(part, torch.ones(2, 6))]
)
def test_a_scripted_part_is_refused_by_name_and_works_unscripted(make):
    part = nn.Sequential(nn.Linear(6, 6), nn.ReLU())
    x, y = torch.linspace(-1, 1, 24).reshape(4, 6), torch.tensor([0, 1, 2, 0])
    with laneway.embedded("64MiB") as service:
        model = nn.Sequential(make(part), nn.Linear(6, 3))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        step = laneway.train_step(model, F.cross_entropy, optimizer, service)
        with pytest.raises(
            laneway.CaptureError, match="'0', a part of the model, is a TorchScript"
        ):
            step(x, y)
        model = nn.Sequential(part, nn.Linear(6, 3))  # the remedy
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        expected = F.cross_entropy(model(x), y).detach()
        step = laneway.train_step(model, F.cross_entropy, optimizer, service)
        assert_same(expected, step(x, y))


def test_a_capture_that_runs_twice_for_its_gradients_leaves_no_tensor():
    """Clipping of gradients that stay between calls: the first run is given up by an error, which
    a tensor held, and hooks on tensors held the run."""
    model = nn.Sequential(nn.Linear(8, 4))
    before = _runs()
    optimizer = torch.optim.AdamW(model.parameters())

    def closure(model, optimizer, x, y):
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss

    captured = capture_train_step(model, None, optimizer, batches(1)[0], closure=closure)
    assert captured.gradients
    assert _runs() == before


def _runs() -> int:
    gc.collect()
    return sum(type(found).__name__ in ("Recorder", "FakeJob") for found in gc.get_objects())
