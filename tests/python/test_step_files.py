"""Shows that a step's state goes to a file whole or not at all and comes back with the same bits,
and that a model whose weights live in a service can be copied, pickled and saved."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
import warnings

import pytest
import torch
from torch import nn

import laneway
from support.eager import assert_same

LOSS = nn.CrossEntropyLoss()
BATCH = (torch.linspace(-1, 1, 64).reshape(8, 8), torch.arange(8) % 3)


def step_of(service, seed=1, **options):
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.3), nn.Linear(16, 3))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    return laneway.train_step(model, LOSS, optimizer, service, **options)


def test_a_run_goes_on_from_its_file(service, tmp_path):
    path = tmp_path / "run.pt"
    with step_of(service) as step:
        for _ in range(3):
            step(*BATCH)
        step.save(path)
        step.save(str(path))  # over itself
        expected = [step(*BATCH).item() for _ in range(3)]
    assert os.listdir(tmp_path) == ["run.pt"]
    with step_of(service, seed=2) as step:
        step.load(path)
        assert [step(*BATCH).item() for _ in range(3)] == expected


def test_a_file_of_another_torch_is_loaded(service, tmp_path, monkeypatch):
    """Nothing in it depends on the version that wrote it."""
    path = tmp_path / "run.pt"
    with step_of(service) as step:
        step(*BATCH)
        step.save(path)
        expected = step(*BATCH).item()
    monkeypatch.setattr(torch, "__version__", "2.99.0+cpu")
    with step_of(service, seed=2) as step:
        step.load(path)
        assert step(*BATCH).item() == expected


def test_a_failed_save_leaves_the_file_that_was_there(service, tmp_path, monkeypatch):
    path = tmp_path / "run.pt"
    with step_of(service) as step:
        step(*BATCH)
        step.save(path)
        before = path.read_bytes()
        monkeypatch.setattr(os, "fsync", _fails)
        with pytest.raises(OSError, match="on purpose"):
            step.save(path)
        monkeypatch.undo()
        assert path.read_bytes() == before and os.listdir(tmp_path) == ["run.pt"]
        with pytest.raises(FileNotFoundError):
            step.save(tmp_path / "nowhere" / "run.pt")


def _fails(descriptor):
    raise OSError("on purpose")


def test_a_file_has_the_rights_of_any_new_file(service, tmp_path):
    with step_of(service) as step:
        step(*BATCH)
        step.save(tmp_path / "run.pt")
    (tmp_path / "other").touch()
    assert (tmp_path / "run.pt").stat().st_mode == (tmp_path / "other").stat().st_mode


@pytest.mark.parametrize("content", [b"", b"no file of torch", None])
def test_what_is_no_such_file_is_refused_by_name(service, tmp_path, content):
    path = tmp_path / "other.pt"
    if content is None:
        torch.save({"weights": torch.zeros(2)}, path)
    else:
        path.write_bytes(content)
    with step_of(service) as step:
        step(*BATCH)
        before = step.state_dict()
        with pytest.raises(laneway.InvalidInput, match=r"other\.pt is no file of step\.save"):
            step.load(path)
        assert_same(before, step.state_dict())


def test_a_model_of_a_job_is_copied_pickled_and_saved(service, tmp_path):
    with step_of(service, sync="manual") as step:
        step(*BATCH)
        model = step.model
        torch.save(model, tmp_path / "model.pt")
        copies = [copy.deepcopy(model), pickle.loads(pickle.dumps(model))]
        copies.append(torch.load(tmp_path / "model.pt", weights_only=False))
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # a copy is nobody's job
            for each in copies:
                each(BATCH[0])
        with pytest.warns(UserWarning, match="is trained by job"):
            model(BATCH[0])


def test_a_saved_model_is_loaded_where_laneway_is_not_installed(service, tmp_path):
    with step_of(service) as step:
        step(*BATCH)
        torch.save(step.model, tmp_path / "model.pt")
    script = (
        "import sys, torch; sys.modules['laneway'] = None\n"
        "model = torch.load(sys.argv[1], weights_only=False)\n"
        "print(tuple(model(torch.ones(1, 8)).shape))"
    )
    clean = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "model.pt")],
        env=clean,
        capture_output=True,
        text=True,
    )
    assert done.stdout.strip() == "(1, 3)", done.stderr
