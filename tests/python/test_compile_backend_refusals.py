"""What backend="laneway" does not run as a job: it runs eagerly, says once why, and gives eager's
results; with strict it is an error. And the options, names and services of jobs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

import laneway
from laneway import compile_backend
from laneway.compile import compile_options
from laneway.jobs.service import default_service
from support.compiled import (
    compare,
    compiled,
    eager_reasons,
    flat,
    own_service,  # noqa: F401
    running,
)
from support.eager import assert_same

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT_S = 240
X = torch.linspace(-1, 1, 12).reshape(3, 4)


def draws(x):
    return nn.functional.dropout(x, 0.5) + torch.rand_like(x)


@torch.library.custom_op("laneway_test::doubled", mutates_args=())
def doubled(x: torch.Tensor) -> torch.Tensor:
    return x * 2


doubled.register_fake(torch.empty_like)


def operator_of_the_users(x):
    return doubled(x) + 1


def same_memory_two_dtypes(x):
    y = x * 2
    return y, y.view(torch.int32)


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (draws, "draws random numbers"),
        (same_memory_two_dtypes, "two dtypes"),
        (operator_of_the_users, "laneway_test::doubled"),
    ],
)
def test_what_a_job_cannot_do_runs_eagerly_and_is_said_once(code, reason, recwarn):
    with torch.no_grad():
        made = compiled(code)
        for _ in range(3):
            x, twin = X.clone(), X.clone()
            torch.manual_seed(5)
            expected = code(twin)
            torch.manual_seed(5)
            assert_same(flat(expected), flat(made(x)))
            assert torch.equal(x, twin)
    assert [r for r in eager_reasons() if reason in r]
    told = [w for w in recwarn if issubclass(w.category, RuntimeWarning)]
    assert len(told) == 1 and reason in str(told[0].message)
    assert told[0].filename == __file__ and code.__name__ in str(told[0].message)
    assert running() == []


def test_strict_makes_it_an_error():
    with torch.no_grad(), pytest.raises(laneway.CaptureError, match="random numbers"):
        compiled(draws, strict=True)(X)


def test_training_runs_eagerly_with_gradients_and_one_warning(recwarn):
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
    made = compiled(model)
    other = compiled(nn.Linear(4, 4))
    made(X).sum().backward()
    expected = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    model(X).sum().backward()
    assert all(torch.equal(p.grad, e) for p, e in zip(model.parameters(), expected))
    other(X)
    told = [str(w.message) for w in recwarn if issubclass(w.category, RuntimeWarning)]
    assert len(told) == 1 and "train_step" in told[0] and "no_grad" in told[0]
    assert len(eager_reasons()) == 2 and running() == []


def test_the_same_model_without_gradients_is_a_job():
    model = nn.Linear(4, 2)
    made = compiled(model)
    with pytest.warns(RuntimeWarning, match="gradients"):
        made(X)
    with torch.no_grad():
        assert torch.equal(made(X), model(X))
    assert len(running()) == 1


def test_code_that_torch_makes_no_graph_of_is_said():
    """Also in the first compilation after a reset, when no graph has come yet. From torch 2.15 on a
    layer before it is a graph."""

    class Recurrent(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.recurrent = nn.Linear(4, 4), nn.LSTM(4, 3, batch_first=True)

        def forward(self, x):
            return self.recurrent(self.first(x))[0]

    for model, x in ((Recurrent().eval(), X[None]), (nn.GRU(4, 3).eval(), X)):
        torch._dynamo.reset()
        with torch.no_grad(), pytest.warns(RuntimeWarning, match="(no|several) graph.*allow_rnn"):
            compare(model, [(x,)])
    assert running() == []


def test_other_backends_that_give_up_are_not_ours_to_tell(recwarn):
    with torch.no_grad():
        torch.compile(nn.LSTM(4, 3).eval(), backend="eager")(X)
    assert not [w for w in recwarn if "Laneway" in str(w.message)]


def test_an_error_of_the_code_is_eagers():
    embedding = nn.Embedding(5, 3)
    made = compiled(embedding)
    with torch.no_grad():
        made(torch.tensor([1, 2]))
        with pytest.raises(IndexError):
            embedding(torch.tensor([1, 9]))
        with pytest.raises(IndexError):
            made(torch.tensor([1, 9]))
        assert torch.equal(made(torch.tensor([3, 4])), embedding(torch.tensor([3, 4])))
    assert len(running()) == 1


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"nmae": "x"}, "nmae.*name, priority, weight, job_class, address"),
        ({"name": 3}, "name = 3.*a name"),
        ({"priority": "high"}, "priority = 'high'.*integer"),
        ({"weight": -1}, "weight = -1.*from 0.001"),
        ({"job_class": "batch"}, "job_class = 'batch'.*best_effort"),
        ({"max_variants": 0}, "max_variants = 0.*at least 1"),
        ({"admission_timeout": -1}, "admission_timeout = -1.*seconds"),
        ({"strict": 1}, "strict = 1.*True or False"),
        ({"address": ""}, "address = ''"),
    ],
)
def test_options_are_checked(options, told):
    with torch.no_grad(), pytest.raises(Exception, match=told):
        compiled(nn.Linear(4, 2), **options)(X)


def test_modes_are_refused():
    made = torch.compile(nn.Linear(4, 2), backend="laneway", mode="max-autotune")
    with torch.no_grad(), pytest.raises(Exception, match=r"max-autotune.*no modes"):
        made(X)


def test_name_and_priority_reach_the_job():
    model = nn.Linear(4, 2)
    made = compiled(model, name="answers", priority=7)
    with torch.no_grad():
        made(X)
        made(X[:2])  # another shape: torch makes another graph
    assert running() == ["answers"]
    reported = [(entry["name"], entry["jobs"]) for entry in compile_backend.report()]
    assert reported == [("answers", ["answers"]), ("answers-2", ["answers"])]
    assert default_service().status()["jobs"][0]["priority"] == 7


@pytest.mark.parametrize("by", ["option", "environment"])
def test_a_service_that_is_named_must_be_there(by, monkeypatch):
    if by == "environment":
        monkeypatch.setenv("LANEWAY_ADDRESS", "ipc:///nowhere")
    made = compiled(nn.Linear(4, 2), **({"address": "ipc:///nowhere"} if by == "option" else {}))
    with torch.no_grad(), pytest.raises(laneway.ServiceUnavailable, match="nowhere"):
        made(X)


def test_a_daemon_at_the_default_address_is_used(monkeypatch):
    """Here an embedded service stands for the connection."""
    asked = []
    with laneway.embedded("64MiB") as service:
        monkeypatch.setattr(compile_options, "connect", lambda a: asked.append(a) or service)
        model = nn.Linear(4, 2)
        made = compiled(model)
        with torch.no_grad():
            assert torch.equal(made(X), model(X))
            assert torch.equal(made(X[:2]), model(X[:2]))
        assert asked == [None] and len(service.status()["jobs"]) == 1
        torch._dynamo.reset()


def test_a_model_that_cannot_fit_is_refused_with_the_arithmetic(monkeypatch):
    with laneway.embedded("1MiB") as service:
        monkeypatch.setattr(compile_options, "connect", lambda address: service)
        made = compiled(nn.Linear(1024, 1024))
        with torch.no_grad(), pytest.raises(laneway.OutOfMemory, match="MiB"):
            made(torch.randn(1, 1024))
        torch._dynamo.reset()


def test_no_import_is_needed():
    """A script that names the backend and nothing else of Laneway."""
    script = """
import torch, warnings
warnings.simplefilter("error")
model = torch.nn.Linear(4, 2).eval()
compiled = torch.compile(model, backend="laneway")
x = torch.randn(3, 4)
with torch.no_grad():
    print(torch.equal(compiled(x), model(x)))
import laneway.compile_backend
print([len(entry["jobs"]) for entry in laneway.compile_backend.report()])
"""
    path = os.pathsep.join([str(ROOT / "python"), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        env=os.environ | {"PYTHONPATH": path},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["True", "[1]"]


def test_metadata_and_package_have_one_version():
    from importlib import metadata

    assert metadata.version("laneway") == laneway.__version__
    assert "laneway" in torch._dynamo.list_backends()
